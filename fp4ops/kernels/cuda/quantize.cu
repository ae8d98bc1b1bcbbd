// QuantizeNvFp4Kernel: activations -> NVFP4 in the layout of cuBLASLt's block-scaled matmul. One thread, one block of 16.
// Contract: K % 16 == 0, scale_2 the tensor scale of the activations (largest magnitude / (6 * 448)).
//
// Scales lie in tiles of 128 rows by 4 blocks, 512 bytes each, tiles row by row: byte 16 (r % 32) + 4 (r / 32) + c of a tile is
// row r, block c. Rows are padded to 128 and blocks to 4 with zeros.
#include "nvfp4.cuh"

#include <cuda_fp8.h>

constexpr float kE2M1Max = 6.0f, kE4M3Max = 448.0f, kE4M3Smallest = 0x1p-9f;

__device__ __forceinline__ index_t swizzled(index_t row, int block, int padded_blocks) {
    const index_t tile = row / 128 * (padded_blocks / 4) + block / 4;
    const int r = (int)(row % 128);
    return tile * 512 + r % 32 * 16 + r / 32 * 4 + block % 4;
}

// The nearest code, ties to the even one: at a tie the comparison lets an even code stay and an odd one rise.
__device__ __forceinline__ u32 encode_e2m1(float x) {
    const float m = fabsf(x);
    const u32 code = (m > 0.25f) + (m >= 0.75f) + (m > 1.25f) + (m >= 1.75f) + (m > 2.5f) + (m >= 3.5f) + (m > 5.0f);
    return code | (__float_as_uint(x) >> 31) << 3;
}

template <typename T>
__global__ void __launch_bounds__(128)
QuantizeNvFp4Kernel(const uint4* __restrict__ a,         // [M, K / 8] vectors of eight T
                    const float* __restrict__ scale_2,   // one
                    uint2* __restrict__ out,             // [M, K / 16], sixteen codes each
                    u8* __restrict__ scale,              // [padded M, padded_blocks], swizzled
                    int M, int blocks,                   // K / 16
                    int padded_rows, int padded_blocks) {
    const index_t i = (index_t)blockIdx.x * blockDim.x + threadIdx.x;
    const index_t row = i / padded_blocks;
    const int block = (int)(i % padded_blocks);
    if (row >= padded_rows) return;
    u8* place = scale + swizzled(row, block, padded_blocks);
    if (row >= M || block >= blocks) {
        *place = 0;
        return;
    }
    const uint4* source = a + (row * blocks + block) * 2;
    const uint4 low = source[0], high = source[1];
    const u32 pairs[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    float value[16], largest = 0.0f;
#pragma unroll
    for (int p = 0; p < 8; ++p) {
        const float2 two = widen_pair(pairs[p], T());
        value[2 * p] = two.x;
        value[2 * p + 1] = two.y;
        largest = fmaxf(largest, fmaxf(fabsf(two.x), fabsf(two.y)));
    }
    const float exact = fminf(fmaxf(largest / kE2M1Max / *scale_2, kE4M3Smallest), kE4M3Max);
    const u8 byte = __nv_cvt_float_to_fp8(exact, __NV_SATFINITE, __NV_E4M3);
    *place = byte;
    const float unit = decode_e4m3(byte) * *scale_2;
    u32 words[2] = {0, 0};
#pragma unroll
    for (int e = 0; e < 16; ++e) words[e / 8] |= encode_e2m1(value[e] / unit) << 4 * (e % 8);
    out[row * blocks + block] = make_uint2(words[0], words[1]);
}
