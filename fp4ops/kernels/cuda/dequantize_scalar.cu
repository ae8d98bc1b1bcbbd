// DequantizeNvFp4Kernel: the kernel for every layout. One thread, one packed byte: two values, each with the scale of its own
// column, since a block may end between the two codes of a byte. Contract: K even, block_size >= 1.
#include "nvfp4.cuh"

template <typename T>
__global__ void __launch_bounds__(256)
DequantizeNvFp4Kernel(const u8* __restrict__ weight,      // [N, K / 2]
                      const u8* __restrict__ scale,       // [N, blocks]
                      const float* __restrict__ scale_2,  // one
                      u32* __restrict__ out,              // [N, K / 2] pairs of T
                      index_t bytes,                      // N * K / 2
                      int row_bytes,                      // K / 2
                      int blocks, int block_size) {
    const float tensor_scale = *scale_2;
    const index_t step = (index_t)gridDim.x * blockDim.x;
    for (index_t i = (index_t)blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += step) {
        // A 64-bit division costs as much as all the rest.
        const index_t row = i >> 32 ? i / row_bytes : (u32)i / (u32)row_bytes;
        const u32 column = 2 * (u32)(i - row * row_bytes);
        const u8* row_scale = scale + row * blocks;
        const float2 value = decode_e2m1x2(weight[i]);
        const float low = decode_e4m3(row_scale[column / (u32)block_size]) * tensor_scale;
        const float high = decode_e4m3(row_scale[(column + 1) / (u32)block_size]) * tensor_scale;
        out[i] = round_pair(value.x * low, value.y * high, T());
    }
}
