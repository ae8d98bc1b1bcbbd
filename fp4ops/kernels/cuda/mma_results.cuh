// The sums of Fp4MmaGemvKernel: how they lie in a slot, and from there to the result.
#pragma once

#include "nvfp4.cuh"

template <int ROWS>
constexpr int kColumns = ROWS == 1 ? 4 : ROWS;  // floats a row of a tile leaves in a slot: one a lane, or one a column
constexpr float kFolded = 128.0f;               // with ROWS > 1, A holds 2^-7 of the weight

__device__ __forceinline__ void add_to(float4& sum, float4 v) { sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w; }

__device__ __forceinline__ float4 of_other_half(float4 v) {  // of the warp
    return make_float4(__shfl_xor_sync(0xFFFFFFFFu, v.x, 16), __shfl_xor_sync(0xFFFFFFFFu, v.y, 16),
                       __shfl_xor_sync(0xFFFFFFFFu, v.z, 16), __shfl_xor_sync(0xFFFFFFFFu, v.w, 16));
}

// A unit is four columns of a row of a tile; with ROWS == 1, the four parts of its one column.
template <typename T, int ROWS>
struct Results {
    static constexpr int kQuads = kColumns<ROWS> / 4;  // units of a row
    const T* bias;
    T* out;
    float scale;
    int M, N, quads_log;  // log2 of the units of a row that hold columns below M

    __device__ __forceinline__ int units() const { return 16 << quads_log; }
    __device__ __forceinline__ int place(int unit) const {  // in a slot, in vectors
        return (unit >> quads_log) * kQuads + (unit & ((1 << quads_log) - 1));
    }

    __device__ __forceinline__ void store(int first_row, int unit, float4 total) const {
        const index_t n = first_row + (unit >> quads_log);
        if (n >= N) return;
        const float more = bias ? widen(bias[n]) : 0.0f;
        if constexpr (ROWS == 1) {
            const float sum = ((total.x + total.y) + (total.z + total.w)) * scale;
            store_rounded(out + n, bias ? sum + more : sum);
        } else {
            const int first = 4 * (unit & ((1 << quads_log) - 1));
            const float sums[4] = {total.x, total.y, total.z, total.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float sum = sums[i] * (scale * kFolded);
                if (first + i < M) store_rounded(out + (index_t)(first + i) * N + n, bias ? sum + more : sum);
            }
        }
    }
};
