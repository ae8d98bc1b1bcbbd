// Fp4MmaGemvKernel: decode on tensor cores, mma.m16n8k16 with 16 weight rows as the A operand and activation rows as the
// columns of B. ROWS, the largest M, is 1, 8, 16 or 32.
// Contract: 1 <= M <= ROWS, block_size == 16, K % 128 == 0 (K > 128 if ROWS <= 8), sm >= 80.
//
// The weight is cut into tiles of 16 rows and windows of 128 along K. A cluster of blocks (one block before sm_90) owns a
// contiguous run of tiles, and each of its blocks a slice of K; the warps of a block split that into spans of kSpan windows,
// one span each (`passes` of them if there are more). So a warp keeps its part of the activations in registers and streams
// one span of each tile past it, through a ring of kStages spans in shared memory. A tile's sums are added by the warp whose
// turn it is once all warps have left theirs, then across the cluster, always in the same order; no warp waits for the others
// before its own work is done.
//
// Within a span lane (g, t) = (lane / 4, lane % 4) takes kSpan vectors of 16 bytes of row g and as many of row g + 8: elements
// 32 kSpan t and on, two blocks a vector. The order in which an MMA meets the elements of K is free as long as A and B agree: a
// 32-bit word of eight codes gives pairs (i, i + 4), and the activations are permuted likewise.
//
// Decoding costs about as much as the memory does, so it is kept short: an MMA multiplies E2M1 codes at a power of two of their
// value. With ROWS > 1 they are multiplied by their E4M3 scale first (exact in T). With ROWS == 1 seven of B's eight columns
// would be idle: each takes the activations of one block alone, so that the MMAs give one sum for each block, and the scales
// are applied to those.
#include "mma_results.cuh"
#include "mma_stream.cuh"

template <int ROWS>
constexpr int kMaxWarps = ROWS <= 16 ? 20 : 16;  // as registers allow
constexpr int kMaxBatch = 16;  // tiles whose sums are kept at a time

// The sums of one span go to `slot`, this lane's part of [16, kColumns], or are added to it.
template <typename T, int ROWS>
__device__ __forceinline__ void multiply_span(u32 codes, u32 scales, const Activations<T, ROWS>& a, float* slot, bool add) {
    constexpr int kTiles = ROWS == 1 ? 1 : ROWS / 8, kHalf = 512 * kSpan<ROWS>;  // to row g + 8
    float sum[kTiles][4] = {}, row_low = 0.0f, row_high = 0.0f;
    const u32 all_low = load_shared<2 * kSpan<ROWS>>(scales);
    const u32 all_high = load_shared<2 * kSpan<ROWS>>(scales + 64 * kSpan<ROWS>);
    uint4 codes_low = load_shared_vector(codes), codes_high = load_shared_vector(codes + kHalf);
#pragma unroll
    for (int w = 0; w < kSpan<ROWS>; ++w) {
        const u16 bytes_low = (u16)(all_low >> 16 * w), bytes_high = (u16)(all_high >> 16 * w);
        const u32 low[4] = {codes_low.x, codes_low.y, codes_low.z, codes_low.w};
        const u32 high[4] = {codes_high.x, codes_high.y, codes_high.z, codes_high.w};
        const u32 scales_low = block_scales(bytes_low, T()), scales_high = block_scales(bytes_high, T());
        if (w + 1 < kSpan<ROWS>)
            codes_low = load_shared_vector(codes ^ 16), codes_high = load_shared_vector((codes ^ 16) + kHalf);
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
        row_low *= a.unfold, row_high *= a.unfold;
        if (add) row_low += slot[0], row_high += slot[32];
        slot[0] = row_low, slot[32] = row_high;
    } else {
#pragma unroll
        for (int c = 0; c < kTiles; ++c) {
            float2 *low = reinterpret_cast<float2*>(slot + 8 * c), *high = low + 4 * ROWS;
            float2 x = make_float2(sum[c][0], sum[c][1]), y = make_float2(sum[c][2], sum[c][3]);
            if (add) x.x += low->x, x.y += low->y, y.x += high->x, y.y += high->y;
            *low = x, *high = y;
        }
    }
}

template <typename T, int ROWS>
__global__ void __launch_bounds__(32 * kMaxWarps<ROWS>, 1)
Fp4MmaGemvKernel(const uint4* __restrict__ a,        // [M, K / 8] vectors of eight T
                 const char* __restrict__ weight,    // [N, K / 2]
                 const char* __restrict__ scale,     // [N, K / 16]
                 const float* __restrict__ scale_2,  // one
                 const T* __restrict__ bias,         // [N] or null
                 T* __restrict__ out,                // [M, N]
                 int M, int N,
                 int windows,                        // K / 128, at most kSpan * warps * passes * ranks
                 int passes,                         // spans a warp takes, one after the other
                 int batch,                          // tiles whose sums are kept at a time
                 int ranks_log,                      // log2 of the blocks of a cluster
                 int tiles_each, int more) {         // tiles of a cluster; the first `more` clusters have another one
    constexpr int kSlot = 16 * kColumns<ROWS>, kAhead = kStages<ROWS> - 1;
    float tensor_scale;  // volatile and first: behind the weights it would come late
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(tensor_scale) : "l"(scale_2));
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const int ranks = 1 << ranks_log, cluster = blockIdx.x >> ranks_log, rank = blockIdx.x & (ranks - 1);
    const int quads_log = ROWS == 1 || (ROWS == 8 && M <= 4) ? 0 : ROWS == 8 ? 1 : ROWS == 16 ? 2 : 3;
    const Results<T, ROWS> results{bias, out, tensor_scale, M, N, quads_log};
    const int units = results.units();

    // For each tile of a batch: its sums are in the slots, and out of them again; in the inbox, and out of it.
    extern __shared__ uint4 shared[];
    u64 *full = reinterpret_cast<u64*>(shared), *empty = full + kMaxBatch, *sent = empty + kMaxBatch, *taken = sent + kMaxBatch;
    float4* inbox = reinterpret_cast<float4*>(shared) + 2 * kMaxBatch;  // [batch / ranks, ranks, units]: this block's tiles
    const int inbox_vectors = ranks > 1 ? ((batch + ranks - 1) >> ranks_log) * (ranks * units) : 0;
    // Then for each warp its ring, its activations and its slots, which with one pass take the activations' place.
    const int slots_bytes = batch * kSlot * 4;
    const int warp_bytes = kRing<ROWS> + (passes > 1 ? kStaged<ROWS> + slots_bytes : max(kStaged<ROWS>, slots_bytes));
    const int slots_at = kRing<ROWS> + (passes > 1 ? kStaged<ROWS> : 0);
    char* first_ring = reinterpret_cast<char*>(inbox + inbox_vectors);
    char *ring = first_ring + warp * warp_bytes, *staged = ring + kRing<ROWS>;

    Work work{weight, scale, N, windows, passes};
    work.first_tile = cluster * tiles_each + min(cluster, more);
    work.last_tile = work.first_tile + tiles_each + (cluster < more), work.batch = batch;
    const int all = (windows + kSpan<ROWS> - 1) / kSpan<ROWS>, slice = (all + ranks - 1) >> ranks_log;  // spans
    work.span = rank * slice + warp, work.step = warps, work.spans = min((rank + 1) * slice, all);
    const int active = min(warps, work.spans - rank * slice);  // warps that have a span

    Activations<T, ROWS> activations;
    Stream<ROWS> stream;
    if (warp < active) {
        const int window = work.template window<ROWS>(work.span), from = work.span * kSpan<ROWS>;
        if constexpr (ROWS == 1)
            activations.load(a, window, from);
        else
            stage_activations<ROWS>(shared_address(staged), a, M, window, from, windows);
        commit_copies();
    }
    if (threadIdx.x < batch) {
        init_barrier(full + threadIdx.x, active), init_barrier(empty + threadIdx.x, 1);
        if (ranks > 1) {
            init_barrier(sent + threadIdx.x, 1), init_barrier(taken + threadIdx.x, 1);
            show_barriers();
            if ((int)(threadIdx.x & (ranks - 1)) == rank) arrive_and_expect(sent + threadIdx.x, ranks * units * 16);
        }
    }
    if (ranks > 1) cluster_arrive();
    stream.start(work, shared_address(ring));
    if (warp < active) {
#pragma unroll
        for (int s = 0; s < kAhead; ++s) stream.load(work);
    }
    __syncthreads();
    if (ranks > 1) cluster_wait();

    u32 codes_from = shared_address(ring) + code_place<ROWS>(lane / 4, kSpan<ROWS> * (lane % 4));
    u32 scales_from = shared_address(ring) + kCodeBytes<ROWS> + lane * 2 * kSpan<ROWS>;
    float* slots = reinterpret_cast<float*>(ring + slots_at) + (ROWS == 1 ? lane : lane / 4 * ROWS + lane % 4 * 2);
    keep(codes_from), keep(scales_from);
    u32 from = 0, parity = 0;  // of this batch
    for (int batch_tile = work.first_tile; batch_tile < work.last_tile; batch_tile += batch, parity ^= 1) {
        const int count = min(batch, work.last_tile - batch_tile);
        const bool again = batch_tile > work.first_tile, more_batches = batch_tile + batch < work.last_tile;

        for (int pass = 0; pass < passes && warp < active; ++pass) {
            const int span = work.span + pass * warps;
            if (span >= work.spans) break;
            const bool start = pass == 0 && !again, last_pass = pass + 1 == passes || span + warps >= work.spans;
            if (passes > 1 || start) {
                if (ROWS > 1 || !start) {
                    if (start)
                        wait_for_copies<kAhead>();
                    else
                        wait_for_copies<0>();
                    __syncwarp();
                    activations.load_staged(staged, M);
                    __syncwarp();
                }
                if (passes > 1 && (!last_pass || more_batches)) {  // those of the next run, along with its first weights
                    const int next = last_pass ? work.span : span + warps;
                    stage_activations<ROWS>(shared_address(staged), a, M, work.template window<ROWS>(next), next * kSpan<ROWS>,
                                            windows);
                }
                activations.prepare();
            }
            float* slot = slots;
            u64* done = full;
#pragma unroll 1
            for (int tile = 0; tile < count; ++tile, slot += kSlot, ++done) {
                wait_for_copies<kAhead - 1>();
                __syncwarp();  // all lanes' copies are there, and the span before has been read
                stream.load(work);
                if (again && pass == 0) wait_for(done + kMaxBatch, parity ^ 1);
                multiply_span(codes_from + from, scales_from + from, activations, slot, pass > 0);
                from = turn<ROWS>(from);
                if (last_pass) {
                    __syncwarp();
                    if (lane == 0) arrive(done);
                }
            }
        }

        // A tile's sums, by one warp: by half a warp and the other half where that has lanes enough.
        const int parts = units < 32 ? 2 : 1, part = units < 32 ? lane / 16 : 0;
        for (int tile = warp; tile < count; tile += warps) {
            const char* tile_slots = first_ring + slots_at + tile * (kSlot * 4) + part * warp_bytes;
            wait_for(full + tile, parity);
            if (ranks > 1 && again) wait_for_cluster(taken + tile, parity ^ 1);
#pragma unroll 1
            for (int unit = lane % (32 / parts); unit < units; unit += 32) {
                const char* at = tile_slots + results.place(unit) * 16;
                float4 total = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4  // not 5: with the compiler of CUDA 13.0 that dropped the rest of a loop like this
                for (int w = part; w < active; w += parts, at += parts * warp_bytes)
                    add_to(total, *reinterpret_cast<const float4*>(at));
                if (parts > 1) add_to(total, of_other_half(total));
                if (part > 0) continue;
                if (ranks == 1) {
                    results.store(work.row(batch_tile + tile), unit, total);
                } else {
                    const int place = ((tile >> ranks_log << ranks_log) + rank) * units + unit;
                    send(inbox + place, sent + tile, tile & (ranks - 1), total);
                }
            }
            __syncwarp();
            if (lane == 0 && more_batches) arrive(empty + tile);
        }
        for (int tile = rank + ranks * warp; ranks > 1 && tile < count; tile += ranks * warps) {  // this block's tiles
            const float4* sums = inbox + (tile >> ranks_log << ranks_log) * units;
            wait_for_cluster(sent + tile, parity);
            for (int unit = lane; unit < units; unit += 32) {
                float4 total = sums[unit];
                for (int r = 1; r < ranks; ++r) add_to(total, sums[r * units + unit]);
                results.store(work.row(batch_tile + tile), unit, total);
            }
            __syncwarp();
            if (lane == 0 && more_batches) {
                arrive_and_expect(sent + tile, ranks * units * 16);
                for (int r = 0; r < ranks; ++r) arrive_at(taken + tile, r);
            }
        }
    }
}
