// How Fp4MmaGemvKernel's work is cut, and the stream of weights that follows that order. See mma_gemv.cu.
#pragma once

#include "mma_operands.cuh"

template <int ROWS>
constexpr int kStages = ROWS <= 8 ? 2 : 3;  // spans of a warp's ring; a longer one only delays what the first tile waits for

// A span of a tile in the ring: 16 rows of codes, 64 bytes a window, then their scales, 8 bytes a window.
template <int ROWS>
constexpr int kCodeBytes = 1024 * kSpan<ROWS>;
template <int ROWS>
constexpr int kSpanBytes = kCodeBytes<ROWS> + 128 * kSpan<ROWS>;
template <int ROWS>
constexpr int kRing = kStages<ROWS> * kSpanBytes<ROWS>;

// Where a vector of a row of codes lies; shuffled against bank conflicts.
template <int ROWS>
__device__ __forceinline__ int code_place(int row, int vector) {
    return kSpan<ROWS> == 2 ? row * 128 + (vector ^ (row & 7)) * 16 : row * 64 + vector * 16;
}

// From one span of the ring to the next.
template <int ROWS>
__device__ __forceinline__ u32 turn(u32 at) {
    if constexpr (kStages<ROWS> == 2) return kSpanBytes<ROWS> - at;
    return at + kSpanBytes<ROWS> == kRing<ROWS> ? 0 : at + kSpanBytes<ROWS>;
}

// A warp's part: one span of each tile in each pass; all passes of a batch of tiles, then the next batch.
struct Work {
    const char *weight, *scale;
    int N, windows, passes;
    int first_tile, last_tile, batch;  // of the cluster
    int span, step, spans;             // the warp's in the first pass, how far that of the next pass is, the end of the block's

    // The first row of a tile: a last tile that N does not fill begins earlier, and computes some rows once more.
    __device__ __forceinline__ int row(int tile) const { return min(16 * tile, max(N - 16, 0)); }

    // The first window of a span: likewise at the end of K; there the activations of the windows before are zeros.
    template <int ROWS>
    __device__ __forceinline__ int window(int of_span) const {
        return min(of_span * kSpan<ROWS>, windows - kSpan<ROWS>);
    }
};

template <int ROWS>
struct Stream {
    const char *low, *high, *scales;  // in the next tile: this lane's vectors in rows g and g + 8, and the scales it copies
    int left;                         // tiles from there on that are evenly apart
    int tile, pass, batch_first;      // the tile after those, in which pass, and the first one of its batch
    u32 codes_to, scales_to;          // where they go, in the first span of the ring
    u32 to;                           // from there to the next span to fill

    __device__ __forceinline__ void start(const Work& work, u32 ring) {
        const int lane = threadIdx.x % 32;
        codes_to = ring + code_place<ROWS>(lane / 4, lane % 4), scales_to = ring + kCodeBytes<ROWS> + 8 * lane;
        keep(codes_to), keep(scales_to);
        to = 0, pass = 0, batch_first = work.first_tile;
        start_at(work, work.first_tile);
    }

    // Copies the next tile's span, if there is one.
    __device__ __forceinline__ void load(const Work& work) {
        if (left == 0) next_run(work);
        if (left > 0) {
            const u32 at = codes_to + to;
            const u64 policy = read_once();
            copy_once_16(at, low, policy);
            copy_once_16(at + 512 * kSpan<ROWS>, high, policy);
            if constexpr (kSpan<ROWS> > 1) {
                copy_once_16(at ^ 64, low + 64, policy);
                copy_once_16((at ^ 64) + 1024, high + 64, policy);
            }
            if (kSpan<ROWS> > 1 || threadIdx.x % 32 < 16) copy_8(scales_to + to, scales);
            const index_t codes = (index_t)work.windows * 1024;  // of a tile
            low += codes, high += codes, scales += codes / 8, --left;
            to = turn<ROWS>(to);
        }
        commit_copies();
    }

  private:
    __device__ __forceinline__ int batch_end(const Work& work) const {
        return work.passes > 1 ? min(batch_first + work.batch, work.last_tile) : work.last_tile;
    }

    __device__ __forceinline__ void start_at(const Work& work, int first) {
        const int lane = threadIdx.x % 32, last = work.N - 1;  // in place of rows past the end, the last one
        const int window = work.template window<ROWS>(work.span + pass * work.step), row = work.row(first);
        const int pitch = 64 * work.windows, vector = 64 * window + 16 * (lane % 4);
        low = work.weight + (index_t)(row + min(lane / 4, last)) * pitch + vector;
        high = work.weight + (index_t)(row + min(lane / 4 + 8, last)) * pitch + vector;
        const int scale_row = lane / kSpan<ROWS> % 16;  // rows are aligned to eight bytes, one window, and no more
        scales = work.scale + (index_t)(row + min(scale_row, last)) * (pitch / 8) + 8 * (window + lane % kSpan<ROWS>);
        tile = batch_end(work);
        if (tile * 16 > work.N && tile - first > 1) --tile;  // the last tile is less far from the one before
        left = tile - first;
    }

    __device__ __forceinline__ void next_run(const Work& work) {
        int first = tile;
        if (tile == batch_end(work)) {
            if (pass + 1 < work.passes && work.span + (pass + 1) * work.step < work.spans) {
                ++pass, first = batch_first;
            } else {
                if (tile == work.last_tile) return;
                pass = 0, batch_first = tile;
            }
        }
        start_at(work, first);
    }
};
