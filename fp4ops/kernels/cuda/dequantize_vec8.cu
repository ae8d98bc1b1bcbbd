// DequantizeNvFp4Vec8Kernel: one thread, one chunk of eight neighbours: one 32-bit load, one 16-byte store.
// Contract: K % 8 == 0 (rows are whole chunks), block_size even (both codes of a byte share a scale).
#include "nvfp4.cuh"

// One chunk, its scale stepped along with the four pairs. `left`: elements until the first block ends, at least 2.
template <typename T>
__device__ __forceinline__ uint4 dequantize_chunk(u32 word, const u8* scale, float tensor_scale, int left, int block_size) {
    float value[8];
    decode_e2m1x8(word, value);
    float current = decode_e4m3(*scale) * tensor_scale;
    if (left >= 8) return scale_and_round<T>(value, current);
    u32 pairs[4];
#pragma unroll
    for (int p = 0; p < 4; ++p) {
        pairs[p] = round_pair(value[2 * p] * current, value[2 * p + 1] * current, T());
        left -= 2;
        if (left == 0 && p < 3) {
            current = decode_e4m3(*++scale) * tensor_scale;
            left = block_size;
        }
    }
    return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

template <typename T>
__global__ void __launch_bounds__(256)
DequantizeNvFp4Vec8Kernel(const u32* __restrict__ weight,     // [rows, chunks]
                          const u8* __restrict__ scale,       // [rows, blocks]
                          const float* __restrict__ scale_2,  // one
                          uint4* __restrict__ out,            // [rows, chunks] vectors of eight T
                          index_t rows,
                          int chunks,                         // K / 8
                          int blocks, int block_size) {
    const int chunk = blockIdx.x * blockDim.x + threadIdx.x;
    if (chunk >= chunks) return;
    const float tensor_scale = *scale_2;
    const u32 column = 8 * (u32)chunk;
    const u32 block = column / (u32)block_size;
    const int left = (int)((block + 1) * (u32)block_size - column);  // the same in every row
    for (index_t row = blockIdx.y; row < rows; row += gridDim.y) {  // gridDim.y is at most 65,535
        const index_t i = row * chunks + chunk;
        out[i] = dequantize_chunk<T>(weight[i], scale + row * blocks + block, tensor_scale, left, block_size);
    }
}
