// What memory allows, without any decoding: kernels that only move the bytes of a dequantisation, or only read.
#include "nvfp4.cuh"

// Reads n vectors, eight in flight a thread.
template <typename T>
__global__ void __launch_bounds__(512) ReadKernel(const uint4* __restrict__ in, u32* __restrict__ out, index_t n) {
    constexpr int kInFlight = 8;
    u32 all = 0;
    const index_t step = (index_t)gridDim.x * blockDim.x * kInFlight;
    for (index_t i = (index_t)blockIdx.x * blockDim.x * kInFlight + threadIdx.x; i < n; i += step) {
        uint4 v[kInFlight];
#pragma unroll
        for (int k = 0; k < kInFlight; ++k)
            v[k] = i + k * (int)blockDim.x < n ? load_streaming(in + i + k * (int)blockDim.x) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int k = 0; k < kInFlight; ++k) all ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    }
    if (all == 0x9E3779B9u) *out = all;  // never on purpose: the loads must not be dropped
}

// Reads the codes and scales (block size 16) of VALUES elements a thread and writes VALUES elements of T that depend on them.
template <typename T, int VALUES>
__global__ void __launch_bounds__(256)
ExpandCopyKernel(const u32* __restrict__ weight, const u8* __restrict__ scale, uint4* __restrict__ out, index_t words) {
    constexpr int kWords = VALUES / 8;          // neighbours: a thread of 32 values stores 64 bytes, 64 from its neighbour lane's
    constexpr int kInFlight = VALUES == 8 ? 4 : 1;
    const index_t first = ((index_t)blockIdx.x * (blockDim.x * kInFlight) + threadIdx.x) * kWords;
    u32 word[kInFlight][kWords];
    u8 byte[kInFlight][kWords];
#pragma unroll
    for (int c = 0; c < kInFlight; ++c) {
        const index_t i = first + c * (int)blockDim.x * kWords;
        if (i + kWords > words) continue;
        if constexpr (kWords == 4) {
            const uint4 four = *reinterpret_cast<const uint4*>(weight + i);
            word[c][0] = four.x, word[c][1] = four.y, word[c][2] = four.z, word[c][3] = four.w;
        } else {
            word[c][0] = weight[i];
        }
#pragma unroll
        for (int w = 0; w < kWords; ++w) byte[c][w] = scale[(i + w) / 2];
    }
#pragma unroll
    for (int c = 0; c < kInFlight; ++c) {
        const index_t i = first + c * (int)blockDim.x * kWords;
        if (i + kWords > words) continue;
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
            const u32 x = word[c][w], y = byte[c][w];
            out[i + w] = make_uint4(x, x + y, x ^ y, y);
        }
    }
}
