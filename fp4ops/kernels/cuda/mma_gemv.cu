// Fp4MmaGemvKernel: decode on tensor cores, mma.m16n8k16 with 16 weight rows as the A operand and activation rows as the columns
// of B. ROWS, the largest M, is 1, 8, 16 or 32.
// Contract: 1 <= M <= ROWS, block_size == 16, K % 128 == 0, sm >= 80.
//
// The weight is cut into tiles of 16 rows and windows of 128 along K. A cluster of blocks (one block before sm_90) owns a
// contiguous run of tiles; its warps split K into spans of one or two windows, one span each (`passes` of them if K is longer
// than that). So a warp keeps its part of the activations in registers and streams one span of each tile past it, through a
// ring of kStages spans in shared memory. The warps' sums are added at the end: within the block, then across the cluster,
// always in the same order.
//
// Within a window lane (g, t) = (lane / 4, lane % 4) takes 16 bytes of row g and of row g + 8: elements 32 t .. 32 t + 31, two
// blocks. The order in which an MMA meets the elements of K is free as long as A and B agree: a 32-bit word of eight codes
// gives pairs (i, i + 4), and the activations are permuted likewise.
//
// Decoding costs more than the memory does, so it is kept short: an MMA multiplies E2M1 codes at a power of two of their value.
// With ROWS > 1 they are multiplied by their E4M3 scale first (exact in T). With ROWS == 1 seven of B's eight columns would be
// idle: column j takes the activations of block j of the window alone, so that the MMAs give one sum for each block, and the
// scales are applied to those.
#include "mma_operands.cuh"

template <int ROWS>
constexpr int kStages = ROWS <= 8 ? 2 : 3;  // spans of the ring; on an H200 a longer one is no faster
template <int ROWS>
constexpr int kMaxWarps = ROWS <= 16 ? 20 : 16;  // as registers allow
template <int ROWS>
constexpr int kColumns = ROWS == 1 ? 4 : ROWS;  // floats a row of a tile leaves in a slot: one a lane, or one a column
constexpr float kFolded = 128.0f;               // with ROWS > 1, A holds 2^-7 of the weight

// ---- the stream of weights ----

// One span of one tile in shared memory: each lane's vectors of codes, then the scales of rows 0 .. 15.
template <int ROWS>
struct Span {
    uint4 codes[kSpan<ROWS>][2][32];  // window, row g or g + 8, lane
    u16 scales[16][kSpan<ROWS>][4];   // row, window, t
};

template <int BYTES>
__device__ __forceinline__ void copy_async(void* to, const void* from) {
    const u32 address = (u32)__cvta_generic_to_shared(to);
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(BYTES) : "memory");
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int PENDING>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// A warp's span along K, tile after tile, and the ring it goes through.
template <int ROWS>
struct Stream {
    static constexpr int kRing = kStages<ROWS> * (int)sizeof(Span<ROWS>);
    char* ring;
    const char *low, *high, *scales;  // in the next tile: this lane's vectors in rows g and g + 8, and the scales it copies
    index_t tile_bytes;               // of codes; an eighth of it of scales
    int rows;                         // left from the next tile on
    int to, from;                     // where in the ring the next tile goes, and where the next one to multiply is
    bool second, my_scales;           // the span has a second window; this lane has scales to copy

    __device__ __forceinline__ void start(char* ring_, const uint4* weight, const u16* scale, index_t row, int rows_, int window,
                                          int windows) {
        const int lane = threadIdx.x % 32;
        ring = ring_, rows = rows_, to = from = 0, tile_bytes = 1024 * (index_t)windows;
        const index_t start = row * windows + window;
        low = reinterpret_cast<const char*>(weight + start * 4 + lane % 4) + lane / 4 * (tile_bytes / 16);
        high = low + tile_bytes / 2;
        scales = reinterpret_cast<const char*>(scale + (start + lane % kSpan<ROWS>) * 4) + scale_row(lane) * (tile_bytes / 128);
        second = kSpan<ROWS> > 1 && window + 1 < windows;
        my_scales = lane % kSpan<ROWS> == 0 ? lane < 16 * kSpan<ROWS> : second;
        if (kSpan<ROWS> > 1 && !second)  // nothing will be copied there: zeros, which any activations may meet
            for (int i = lane; i < kRing / 16; i += 32) reinterpret_cast<uint4*>(ring)[i] = make_uint4(0, 0, 0, 0);
    }

    // Eight bytes of scales are one row of one window (rows are aligned to no more); a lane copies one.
    static __device__ __forceinline__ int scale_row(int lane) { return lane / kSpan<ROWS> % 16; }

    // The next tile, if there is one.
    __device__ __forceinline__ void load() {
        if (rows > 0) {
            if (rows < 16) repeat_last_row();
            const int lane = threadIdx.x % 32;
            Span<ROWS>* span = reinterpret_cast<Span<ROWS>*>(ring + to);
            copy_async<16>(&span->codes[0][0][lane], low);
            copy_async<16>(&span->codes[0][1][lane], high);
            if (second) {
                copy_async<16>(&span->codes[kSpan<ROWS> - 1][0][lane], low + 64);
                copy_async<16>(&span->codes[kSpan<ROWS> - 1][1][lane], high + 64);
            }
            if (my_scales) copy_async<8>(&span->scales[0][0][4 * lane], scales);
            low += tile_bytes, high += tile_bytes, scales += tile_bytes / 8, rows -= 16;
            to = to + (int)sizeof(Span<ROWS>) == kRing ? 0 : to + (int)sizeof(Span<ROWS>);
        }
        commit_copies();
    }

    // In place of rows past the end, whose sums are dropped.
    __device__ __forceinline__ void repeat_last_row() {
        const int lane = threadIdx.x % 32;
        low -= max(0, lane / 4 - (rows - 1)) * (tile_bytes / 16), high -= max(0, lane / 4 + 9 - rows) * (tile_bytes / 16);
        scales -= max(0, scale_row(lane) - (rows - 1)) * (tile_bytes / 128);
    }

    // The next tile to multiply.
    __device__ __forceinline__ const Span<ROWS>& next() {
        const Span<ROWS>* span = reinterpret_cast<const Span<ROWS>*>(ring + from);
        from = from + (int)sizeof(Span<ROWS>) == kRing ? 0 : from + (int)sizeof(Span<ROWS>);
        return *span;
    }
};

// The sums of one span go to `slot` [16, kColumns].
template <typename T, int ROWS>
__device__ __forceinline__ void multiply_span(const Span<ROWS>& span, const Activations<T, ROWS>& a, float* slot) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    constexpr int kTiles = ROWS == 1 ? 1 : ROWS / 8;
    float sum[kTiles][4] = {}, row_low = 0.0f, row_high = 0.0f;
#pragma unroll
    for (int w = 0; w < kSpan<ROWS>; ++w) {
        const uint4 codes_low = span.codes[w][0][lane], codes_high = span.codes[w][1][lane];
        const u16 bytes_low = span.scales[g][w][t], bytes_high = span.scales[g + 8][w][t];
        const u32 low[4] = {codes_low.x, codes_low.y, codes_low.z, codes_low.w};
        const u32 high[4] = {codes_high.x, codes_high.y, codes_high.z, codes_high.w};
        const u32 scales_low = block_scales(bytes_low, T()), scales_high = block_scales(bytes_high, T());
        float even[4] = {}, odd[4] = {};
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            u32 x[4], y[4];
            unpack(low[q], x, T());
            unpack(high[q], y, T());
            if constexpr (ROWS > 1) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    x[i] = multiply(x[i], scales_low, q / 2, T());
                    y[i] = multiply(y[i], scales_high, q / 2, T());
                }
            }
#pragma unroll
            for (int c = 0; c < kTiles; ++c) {
                float(&to)[4] = ROWS > 1 ? sum[c] : q < 2 ? even : odd;  // words 2 and 3 give the odd columns alone
                const uint4& b = a.word(w, c, q);
                mma(to, x[0], y[0], x[1], y[1], b.x, b.y, T());
                mma(to, x[2], y[2], x[3], y[3], b.z, b.w, T());
            }
        }
        if constexpr (ROWS == 1) {
            const float2 one = __half22float2(decode_e4m3x2(bytes_low)), two = __half22float2(decode_e4m3x2(bytes_high));
            row_low += even[0] * one.x + odd[1] * one.y;
            row_high += even[2] * two.x + odd[3] * two.y;
        }
    }
    if constexpr (ROWS == 1) {
        slot[4 * g + t] = row_low * a.unfold;
        slot[4 * (g + 8) + t] = row_high * a.unfold;
    } else {
#pragma unroll
        for (int c = 0; c < kTiles; ++c) {
            float2* pairs = reinterpret_cast<float2*>(slot + ROWS * g + 8 * c + 2 * t);
            pairs[0] = make_float2(sum[c][0], sum[c][1]);
            pairs[4 * ROWS] = make_float2(sum[c][2], sum[c][3]);
        }
    }
}

// ---- sums of a block and of a cluster ----

// Adds a warp's second slot of each tile, `second` floats further, to its first.
__device__ __forceinline__ void add_second_slots(float* slot, int tiles, int tile_stride, int second, int size) {
    __syncwarp();
    for (int tile = 0; tile < tiles; ++tile, slot += tile_stride)
        for (int i = threadIdx.x % 32; i < size; i += 32) slot[i] += slot[second + i];
    __syncwarp();
}

// Row r, column m of a tile, added up over the slots of `warps` warps.
template <int ROWS>
__device__ __forceinline__ float add_slots(const float* slot, int r, int m, int warps) {
    float total = 0.0f;
#pragma unroll 4  // not 5: with the compiler of CUDA 13.0 that dropped the rest of the loop
    for (int w = 0; w < warps; ++w, slot += 16 * kColumns<ROWS>) {
        if constexpr (ROWS == 1) {
            const float4 four = *reinterpret_cast<const float4*>(slot + 4 * r);
            total += (four.x + four.y) + (four.z + four.w);
        } else {
            total += slot[ROWS * r + m];
        }
    }
    return total;
}

#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ u32 cluster_rank() {
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ u32 cluster_size() {
    u32 size;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}

// Says that this block is there, and orders no memory accesses.
__device__ __forceinline__ void cluster_present() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }

// Stores to where `address`, in this block's shared memory, lies in that of block `rank` of the cluster.
__device__ __forceinline__ void store_to_rank(float* address, u32 rank, float value) {
    asm volatile("{.reg .u32 remote;\n"
                 "mapa.shared::cluster.u32 remote, %0, %1;\n"
                 "st.shared::cluster.f32 [remote], %2;}" ::"r"((u32)__cvta_generic_to_shared(address)),
                 "r"(rank), "f"(value)
                 : "memory");
}
#else
__device__ __forceinline__ u32 cluster_rank() { return 0; }
__device__ __forceinline__ u32 cluster_size() { return 1; }
__device__ __forceinline__ void cluster_present() {}
__device__ __forceinline__ void cluster_arrive() {}
__device__ __forceinline__ void cluster_wait() { __syncthreads(); }
__device__ __forceinline__ void store_to_rank(float* address, u32, float value) { *address = value; }
#endif

template <typename T, int ROWS>
__global__ void __launch_bounds__(32 * kMaxWarps<ROWS>, 1)
Fp4MmaGemvKernel(const uint4* __restrict__ a,        // [M, K / 8] vectors of eight T
                 const uint4* __restrict__ weight,   // [N, K / 32]
                 const u16* __restrict__ scale,      // [N, K / 32], two E4M3 bytes
                 const float* __restrict__ scale_2,  // one
                 const T* __restrict__ bias,         // [N] or null
                 T* __restrict__ out,                // [M, N]
                 int M, int N,
                 int windows,                        // K / 128, at most kSpan * warps * passes * cluster size
                 int passes,                         // spans a warp takes, one after the other
                 int batch) {                        // tiles whose sums are kept at a time
    constexpr int kSlot = 16 * kColumns<ROWS>, kAhead = kStages<ROWS> - 1;
    extern __shared__ uint4 shared[];
    const int warp = threadIdx.x / 32, warps = blockDim.x / 32, slots = passes > 1 ? 2 * warps : warps;
    char* ring = reinterpret_cast<char*>(shared) + warp * Stream<ROWS>::kRing;
    float* partial = reinterpret_cast<float*>(reinterpret_cast<char*>(shared) + warps * Stream<ROWS>::kRing);
    // partial: [batch, slots, 16, kColumns], a slot a warp, two if it takes several passes
    float* inbox = partial + batch * slots * kSlot;  // [ranks, share]: sums of all ranks for this block's share of the results
    const int ranks = cluster_size(), rank = cluster_rank();
    const int spans = (windows + kSpan<ROWS> - 1) / kSpan<ROWS>, first_span = rank * passes * warps;
    const int active = min(warps, spans - first_span);
    const int tiles = (N + 15) / 16, clusters = gridDim.x / ranks, cluster = blockIdx.x / ranks;
    const int first_tile = (int)((index_t)tiles * cluster / clusters);
    const int last_tile = (int)((index_t)tiles * (cluster + 1) / clusters);
    if (ranks > 1) cluster_present();  // and with this block its inbox

    Activations<T, ROWS> activations;
    Stream<ROWS> stream;
    for (int batch_tile = first_tile; batch_tile < last_tile; batch_tile += batch) {
        const int count = min(batch, last_tile - batch_tile);
        const index_t first_row = (index_t)batch_tile * 16;

        for (int pass = 0; pass < passes; ++pass) {
            const int span = first_span + pass * warps + warp;
            if (span >= spans) break;
            if (passes > 1 || batch_tile == first_tile) {  // with one pass, the stream flows on from batch to batch
                const int end = passes > 1 ? batch_tile + count : last_tile;
                const int rows = (int)(min(16 * (index_t)end, (index_t)N) - first_row);
                const int window = span * kSpan<ROWS>;
                wait_for_copies<0>();
                __syncwarp();
                activations.load(a, M, window, windows);  // before the stream fills the memory system's queues
                stream.start(ring, weight, scale, first_row, rows, window, windows);
#pragma unroll
                for (int s = 0; s < kAhead; ++s) stream.load();
                activations.prepare();
            }
            float* slot = partial + (pass > 0 ? warps + warp : warp) * kSlot;
#pragma unroll 1
            for (int tile = 0; tile < count; ++tile, slot += slots * kSlot) {
                wait_for_copies<kAhead - 1>();
                __syncwarp();  // all lanes' copies are there, and the span before has been read
                stream.load();
                multiply_span(stream.next(), activations, slot);
            }
            if (pass > 0) add_second_slots(partial + warp * kSlot, count, slots * kSlot, warps * kSlot, kSlot);
        }
        __syncthreads();

        const float folded = ROWS == 1 ? *scale_2 : *scale_2 * kFolded;
        auto store = [&](int m, int row, float total) {
            const index_t n = first_row + row;
            if (n >= N) return;
            total *= folded;
            if (bias) total += widen(bias[n]);
            store_rounded(out + (index_t)m * N + n, total);
        };
        const int results = count * 16 * M, share = (results + ranks - 1) / ranks;
        if (ranks > 1) cluster_wait();  // every inbox of the cluster is there, and read
        for (int i = threadIdx.x; i < results; i += blockDim.x) {
            const int m = ROWS == 1 ? 0 : i % M, row = ROWS == 1 ? i : i / M;
            const float total = add_slots<ROWS>(partial + row / 16 * (slots * kSlot), row % 16, m, active);
            if (ranks == 1) {
                store(m, row, total);
            } else {
                const int result = m * (count * 16) + row, to = result / share;
                store_to_rank(inbox + rank * share + result - to * share, to, total);
            }
        }
        if (ranks > 1) {
            cluster_arrive();
            cluster_wait();
            const int end = min(share, results - rank * share);
            for (int i = threadIdx.x; i < end; i += blockDim.x) {
                float total = 0.0f;
                for (int r = 0; r < ranks; ++r) total += inbox[r * share + i];
                store((rank * share + i) / (count * 16), (rank * share + i) % (count * 16), total);
            }
            if (batch_tile + batch < last_tile) cluster_arrive();
        }
        __syncthreads();  // before the next batch overwrites the sums
    }
}
