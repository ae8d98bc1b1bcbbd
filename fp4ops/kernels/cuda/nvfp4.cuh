// NVFP4 on the GPU: types, the E2M1 and E4M3 decoders, rounding and vector access, shared by every kernel here.
//
// Memory:  weight        [N, K / 2]                   uint8, the low nibble the even element
//          weight_scale  [N, ceil(K / block_size)]    E4M3 bytes
//          weight_scale_2                             one float, read through its pointer
// Value:   round_to_T(e2m1 * (e4m3 * weight_scale_2)), products in float in that order. Compile without fast-math: bits count.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using index_t = long long;  // N * K passes 2^31

// ---- E2M1 ----

// The high bytes of the float16 values 0, 0.5, 1, 1.5 and 2, 3, 4, 6 (their low bytes are zero): a table for prmt.
constexpr u32 kE2M1Low = 0x3E3C3800u;
constexpr u32 kE2M1High = 0x46444240u;

// Eight codes (element i in bits 4i .. 4i + 3) -> eight exact floats, without a branch.
__device__ __forceinline__ void decode_e2m1x8(u32 word, float (&value)[8]) {
    const u32 magnitude = word & 0x77777777u;  // bit 3 of a prmt selector would copy a sign
    const u32 even_signs = word << 4;          // byte i, bit 7: sign of element 2i
    const u32 table[2] = {__byte_perm(kE2M1Low, kE2M1High, magnitude),
                          __byte_perm(kE2M1Low, kE2M1High, magnitude >> 16)};
    const u32 signs[2] = {__byte_perm(even_signs, word, 0x5140), __byte_perm(even_signs, word, 0x7362)};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const u32 bytes = table[half] | (signs[half] & 0x80808080u);
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
            const u32 bits = __byte_perm(bytes, 0, pair ? 0x3424 : 0x1404);  // {0, byte, 0, byte}
            const float2 two = __half22float2(reinterpret_cast<const __half2&>(bits));
            value[4 * half + 2 * pair] = two.x;
            value[4 * half + 2 * pair + 1] = two.y;
        }
    }
}

// The two codes of one byte.
__device__ __forceinline__ float2 decode_e2m1x2(u32 byte) {
    const u32 bytes = __byte_perm(kE2M1Low, kE2M1High, byte & 0x77u) & 0xFFFFu;
    const u32 bits = __byte_perm(bytes, 0, 0x1404) | (byte & 0x8u) << 12 | (byte & 0x80u) << 24;
    return __half22float2(reinterpret_cast<const __half2&>(bits));
}

// ---- E4M3 ----

// Two E4M3 bytes -> two float16, exactly; 0x7F and 0xFF -> NaN.
__device__ __forceinline__ __half2 decode_e4m3x2(u16 bytes) {
#if __CUDA_ARCH__ >= 890
    u32 bits;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(bits) : "h"(bytes));
    return reinterpret_cast<const __half2&>(bits);
#else
    // Exponent and mantissa moved into a float16's read 2^-8 of the value, subnormals included.
    const u32 spread = __byte_perm(bytes, 0, 0x1404);
    const u32 scaled = (spread & 0x80008000u) | (spread & 0x7F007F00u) >> 1;
    const __half2 value = __hmul2(reinterpret_cast<const __half2&>(scaled), __float2half2_rn(256.0f));
    const u32 nan = __vcmpeq2(spread & 0x7F007F00u, 0x7F007F00u) & 0x7FFF7FFFu;
    const u32 bits = reinterpret_cast<const u32&>(value) | nan;
    return reinterpret_cast<const __half2&>(bits);
#endif
}

__device__ __forceinline__ float decode_e4m3(u8 byte) { return __low2float(decode_e4m3x2(byte)); }

// ---- float -> T ----

__device__ __forceinline__ u32 round_pair(float low, float high, __half) {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const u32&>(pair);
}

__device__ __forceinline__ u32 round_pair(float low, float high, __nv_bfloat16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const u32&>(pair);
}

__device__ __forceinline__ float2 widen_pair(u32 pair, __half) {
    return __half22float2(reinterpret_cast<const __half2&>(pair));
}

__device__ __forceinline__ float2 widen_pair(u32 pair, __nv_bfloat16) {
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000u));
}

__device__ __forceinline__ float widen(__half value) { return __half2float(value); }
__device__ __forceinline__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }

__device__ __forceinline__ void store_rounded(__half* out, float value) { *out = __float2half_rn(value); }
__device__ __forceinline__ void store_rounded(__nv_bfloat16* out, float value) { *out = __float2bfloat16_rn(value); }

// Eight floats times one scale -> one 16-byte vector of T.
template <typename T>
__device__ __forceinline__ uint4 scale_and_round(const float (&value)[8], float scale) {
    return make_uint4(round_pair(value[0] * scale, value[1] * scale, T()),
                      round_pair(value[2] * scale, value[3] * scale, T()),
                      round_pair(value[4] * scale, value[5] * scale, T()),
                      round_pair(value[6] * scale, value[7] * scale, T()));
}

// ---- memory ----

// Volatile loads stay in the order of the program.
__device__ __forceinline__ uint4 load_in_order(const uint4* address) {
    uint4 v;
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(address));
    return v;
}

// A weight is read once: keep it out of L1; volatile too, so that loads stay where a pipeline puts them.
__device__ __forceinline__ uint4 load_streaming(const uint4* address) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(address));
    return v;
}
