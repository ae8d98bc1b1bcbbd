// Fp4GemvKernel: decode without tensor cores. A warp owns one weight row (or, with `split` > 1, a part of it along K); each lane
// takes slices of 32 along K and multiplies them by up to ROWS activation rows. A block's plain E2M1 products are summed in
// float, then multiplied by the block's scale; the tensor scale and the bias come in the epilogue.
// Contract: 1 <= M <= ROWS, block_size == 16, K % 32 == 0, split divides the warps of a block.
#include "nvfp4.cuh"

constexpr int kWarps = 8;

// Adds the 32 products of one slice to `sum`. `a` is the slice's first activation of row 0, rows are K apart.
template <typename T, int ROWS>
__device__ __forceinline__ void add_slice(const T* a, index_t K, int M, uint4 codes, u16 scales, float (&sum)[ROWS]) {
    const float2 scale = __half22float2(decode_e4m3x2(scales));
    const u32 words[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
    for (int block = 0; block < 2; ++block) {
        float dot[ROWS] = {};
#pragma unroll
        for (int w = 0; w < 2; ++w) {
            float value[8];
            decode_e2m1x8(words[2 * block + w], value);
#pragma unroll
            for (int m = 0; m < ROWS; ++m) {
                const T* row = a + (m < M ? m : M - 1) * K;  // a repeated row is computed and dropped
                const uint4 eight = *reinterpret_cast<const uint4*>(row + 16 * block + 8 * w);
                const u32 pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
                for (int p = 0; p < 4; ++p) {
                    const float2 x = widen_pair(pairs[p], T());
                    dot[m] += x.x * value[2 * p];
                    dot[m] += x.y * value[2 * p + 1];
                }
            }
        }
#pragma unroll
        for (int m = 0; m < ROWS; ++m) sum[m] += dot[m] * (block ? scale.y : scale.x);
    }
}

template <typename T, int ROWS>
__global__ void __launch_bounds__(32 * kWarps)
Fp4GemvKernel(const T* __restrict__ a,            // [M, K]
              const uint4* __restrict__ weight,   // [N, K / 32]
              const u16* __restrict__ scale,      // [N, K / 32], two E4M3 bytes
              const float* __restrict__ scale_2,  // one
              const T* __restrict__ bias,         // [N] or null
              T* __restrict__ out,                // [M, N]
              int M, int N,
              int slices,                         // K / 32
              int split) {                        // warps that share a weight row
    __shared__ float partial[kWarps][ROWS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int rows_per_block = kWarps / split;
    const int row = blockIdx.x * rows_per_block + warp / split;
    float sum[ROWS] = {};
    if (row < N) {
        const index_t base = (index_t)row * slices;
        for (int s = warp % split * 32 + lane; s < slices; s += 32 * split)
            add_slice<T, ROWS>(a + 32 * (index_t)s, 32 * (index_t)slices, M, load_streaming(weight + base + s),
                               scale[base + s], sum);
    }
#pragma unroll
    for (int m = 0; m < ROWS; ++m) {
#pragma unroll
        for (int offset = 16; offset; offset /= 2) sum[m] += __shfl_xor_sync(0xFFFFFFFFu, sum[m], offset);
        if (lane == 0) partial[warp][m] = sum[m];
    }
    __syncthreads();
    const int m = threadIdx.x / rows_per_block, r = threadIdx.x % rows_per_block;
    const int n = blockIdx.x * rows_per_block + r;
    if (m < M && n < N) {
        float total = 0.0f;
        for (int part = 0; part < split; ++part) total += partial[r * split + part][m];
        total *= *scale_2;
        if (bias) total += widen(bias[n]);
        store_rounded(out + (index_t)m * N + n, total);
    }
}
