// DequantizeNvFp4FlatKernel: blocks fill rows exactly, so the scale of a chunk follows from its flat index and no row or column
// is ever computed. Contract: block_size is 8, 16, 32 or 64, and divides K.
#include "nvfp4.cuh"

#ifndef FLAT_CHUNKS
#define FLAT_CHUNKS 2
#endif
constexpr int kChunks = FLAT_CHUNKS;  // independent loads in flight, a thread

template <typename T>
__global__ void __launch_bounds__(256)
DequantizeNvFp4FlatKernel(const u32* __restrict__ weight,     // [chunks]
                          const u8* __restrict__ scale,       // [chunks >> shift]
                          const float* __restrict__ scale_2,  // one
                          uint4* __restrict__ out,            // [chunks] vectors of eight T
                          index_t chunks,                     // N * K / 8
                          int shift) {                        // log2(block_size / 8)
    const index_t first = (index_t)blockIdx.x * (blockDim.x * kChunks) + threadIdx.x;
    const float tensor_scale = *scale_2;
    u32 word[kChunks];
    u8 byte[kChunks];
    // Chunk c of a thread lies beside chunk c of its neighbour lane: every load and store of a warp is contiguous.
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
        const index_t i = first + c * (int)blockDim.x;
        if (i < chunks) {
            word[c] = weight[i];
            byte[c] = scale[i >> shift];
        }
    }
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
        const index_t i = first + c * (int)blockDim.x;
        if (i < chunks) {
            float value[8];
            decode_e2m1x8(word[c], value);
            out[i] = scale_and_round<T>(value, decode_e4m3(byte[c]) * tensor_scale);
        }
    }
}
