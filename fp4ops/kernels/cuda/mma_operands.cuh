// The operands of Fp4MmaGemvKernel: E2M1 codes and E4M3 scales -> A, activations -> B. The layout of a window is described in
// mma_gemv.cu.
#pragma once

#include "nvfp4.cuh"

template <int ROWS>
constexpr int kSpan = ROWS <= 8 ? 2 : 1;  // windows of a warp

// ---- the A operand ----

// Eight codes -> four pairs (i, i + 4) of T, each 2^-14 (float16) or 2^-126 (bfloat16) of its value: the three magnitude bits sit
// at the bottom of the exponent, where zero and the subnormal 0.5 come out right by themselves.
__device__ __forceinline__ void unpack(u32 word, u32 (&pair)[4], __half) {
    // Only the high byte of each float16 is not zero: build four at a time.
    const u32 even = (word << 1 & 0x0E0E0E0Eu) | (word << 4 & 0x80808080u);
    const u32 odd = (word >> 3 & 0x0E0E0E0Eu) | (word & 0x80808080u);
    pair[0] = __byte_perm(even, 0, 0x2404);
    pair[1] = __byte_perm(odd, 0, 0x2404);
    pair[2] = even & 0xFF00FF00u;
    pair[3] = odd & 0xFF00FF00u;
}

__device__ __forceinline__ void unpack(u32 word, u32 (&pair)[4], __nv_bfloat16) {
    // One multiplication moves the sign to bit 15 and the magnitude to bit 6; the integer ALU is the busiest pipe here.
    const u32 upper = word >> 8;
    pair[0] = (word & 0x000F000Fu) * 0x1040u & 0x81C081C0u;
    pair[1] = (word & 0x00F000F0u) * 0x0104u & 0x81C081C0u;
    pair[2] = (upper & 0x000F000Fu) * 0x1040u & 0x81C081C0u;
    pair[3] = (upper & 0x00F000F0u) * 0x0104u & 0x81C081C0u;
}

// Two E4M3 bytes -> a pair of T, times 2^7 or 2^119: with unpack() the product is 2^-7 of the weight, exact and in range.
__device__ __forceinline__ u32 block_scales(u16 bytes, __half) {
    const __half2 two = __hmul2(decode_e4m3x2(bytes), __float2half2_rn(128.0f));
    return reinterpret_cast<const u32&>(two);
}

__device__ __forceinline__ u32 block_scales(u16 bytes, __nv_bfloat16) {
    const float2 two = __half22float2(decode_e4m3x2(bytes));
    return round_pair(two.x * 0x1p119f, two.y * 0x1p119f, __nv_bfloat16());
}

// Both halves of x times one half of `scales`.
__device__ __forceinline__ u32 multiply(u32 x, u32 scales, bool high, __half) {
    const __half2 both = reinterpret_cast<const __half2&>(scales);
    const __half2 z = __hmul2(reinterpret_cast<const __half2&>(x), high ? __high2half2(both) : __low2half2(both));
    return reinterpret_cast<const u32&>(z);
}

__device__ __forceinline__ u32 multiply(u32 x, u32 scales, bool high, __nv_bfloat16) {
    const __nv_bfloat162 both = reinterpret_cast<const __nv_bfloat162&>(scales);
    const __nv_bfloat162 one = high ? __high2bfloat162(both) : __low2bfloat162(both);
    const __nv_bfloat162 z = __hmul2(reinterpret_cast<const __nv_bfloat162&>(x), one);
    return reinterpret_cast<const u32&>(z);
}

// sum [16, 8] += A [16, 16] * B [16, 8], one warp. Lane (g, t) holds of A rows g, g + 8 (a0, a2 and a1, a3), of B column g,
// of the sum rows g (0, 1) and g + 8 (2, 3), columns 2 t and 2 t + 1.
__device__ __forceinline__ void mma(float (&sum)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1, __half) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void mma(float (&sum)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1, __nv_bfloat16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// ---- the B operand ----

__device__ __forceinline__ uint4 interleave_halves(uint4 v) {  // 01 23 45 67 -> 04 15 26 37
    return make_uint4(__byte_perm(v.x, v.z, 0x5410), __byte_perm(v.x, v.z, 0x7632), __byte_perm(v.y, v.w, 0x5410),
                      __byte_perm(v.y, v.w, 0x7632));
}

// ROWS > 1: the activations of a span, one vector for each 32-bit word of codes; column g of eight is row 8 c + g.
template <typename T, int ROWS>
struct Activations {
    uint4 b[kSpan<ROWS>][ROWS / 8][4];

    // Windows `first` and on, zeros past the last of `windows`.
    __device__ __forceinline__ void load(const uint4* a, int M, int first, int windows) {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int w = 0; w < kSpan<ROWS>; ++w) {
#pragma unroll
            for (int c = 0; c < ROWS / 8; ++c) {
                const int m = min(8 * c + g, M - 1);  // a repeated row is computed and dropped
                const uint4* source = a + ((index_t)m * windows + first + w) * 16 + 4 * t;
#pragma unroll
                for (int q = 0; q < 4; ++q)
                    b[w][c][q] = first + w < windows ? load_in_order(source + q) : make_uint4(0, 0, 0, 0);
            }
        }
    }

    __device__ __forceinline__ void prepare() {
#pragma unroll
        for (int i = 0; i < kSpan<ROWS> * ROWS / 2; ++i) {
            uint4& v = b[i / (ROWS / 2)][i / 4 % (ROWS / 8)][i % 4];
            v = interleave_halves(v);
        }
    }

    __device__ __forceinline__ const uint4& word(int w, int c, int q) const { return b[w][c][q]; }
};

// A vector of bfloat16 times 2^exponent (0 .. 247), exactly.
__device__ __forceinline__ uint4 scale_up(uint4 v, int exponent) {
    const float first = __uint_as_float((127 + exponent / 2) << 23), second = __uint_as_float((127 + (exponent + 1) / 2) << 23);
    u32 pairs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (u32& pair : pairs) {
        const float2 two = widen_pair(pair, __nv_bfloat16());
        pair = round_pair(two.x * first * second, two.y * first * second, __nv_bfloat16());
    }
    return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

__device__ __forceinline__ u32 largest_magnitude(uint4 v) {  // as bits of T
    const u32 low = max(max(v.x & 0x7FFFu, v.y & 0x7FFFu), max(v.z & 0x7FFFu, v.w & 0x7FFFu));
    const u32 high = max(max(v.x & 0x7FFF0000u, v.y & 0x7FFF0000u), max(v.z & 0x7FFF0000u, v.w & 0x7FFF0000u));
    return max(low, high >> 16);
}

// ROWS == 1: column j holds block j of the window and zeros elsewhere. Lane (g, t) supplies column g of the elements of lanes
// (., t), blocks 2 t and 2 t + 1: words 0, 1 and 2, 3. Two words do for both: the MMAs of the other block give sums in a column
// that nobody reads.
template <typename T>
struct Activations<T, 1> {
    uint4 b[kSpan<1>][2];
    float unfold;  // sums times this are those of the true codes

    __device__ __forceinline__ void load(const uint4* a, int, int first, int windows) {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int i = 0; i < 2 * kSpan<1>; ++i) {
            const bool mine = g / 2 == t && first + i / 2 < windows;
            const uint4* source = a + (index_t)(first + i / 2) * 16 + 4 * t + 2 * (g % 2) + i % 2;
            b[i / 2][i % 2] = mine ? load_in_order(source) : make_uint4(0, 0, 0, 0);
        }
    }

    __device__ __forceinline__ void prepare() {
#pragma unroll
        for (int i = 0; i < 2 * kSpan<1>; ++i) b[i / 2][i % 2] = interleave_halves(b[i / 2][i % 2]);
        fold(T());
    }

    __device__ __forceinline__ void fold(__half) { unfold = 0x1p14f; }

    // Codes are 2^-126 of their value: raise the activations, or sums would be subnormal. Infinities and NaN stay.
    __device__ __forceinline__ void fold(__nv_bfloat16) {
        u32 largest = 0;
#pragma unroll
        for (int i = 0; i < 2 * kSpan<1>; ++i) largest = max(largest, largest_magnitude(b[i / 2][i % 2]));
        largest = __reduce_max_sync(0xFFFFFFFFu, largest);
        const int raise = max(0, 247 - (int)(largest >> 7));  // the largest to 2^120
#pragma unroll
        for (int i = 0; i < 2 * kSpan<1>; ++i) b[i / 2][i % 2] = scale_up(b[i / 2][i % 2], raise);
        unfold = __uint_as_float((127 + 126 - raise) << 23);
    }

    __device__ __forceinline__ const uint4& word(int w, int, int q) const { return b[w][q % 2]; }
};
