// What Fp4MmaGemvKernel's warps and blocks share: asynchronous copies, mbarriers, and the shared memory of a cluster.
#pragma once

#include "nvfp4.cuh"

using u64 = unsigned long long;

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// Keeps the compiler from computing a value anew wherever it is used.
__device__ __forceinline__ void keep(u32& value) { asm volatile("" : "+r"(value)); }

// ---- copies from global to shared memory ----

// For what is read once: the first to leave the L2 cache, which then need not write back other lines for it.
__device__ __forceinline__ u64 read_once() {
    u64 policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

__device__ __forceinline__ void copy_once_16(u32 to, const void* from, u64 policy) {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "l"(policy)
                 : "memory");
}

__device__ __forceinline__ void copy_8(u32 to, const void* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void copy_16_or_zeros(u32 to, const void* from, bool copy) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(copy ? 16 : 0) : "memory");
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int PENDING>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Volatile loads stay behind the wait for what they read.
__device__ __forceinline__ uint4 load_shared_vector(u32 at) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at));
    return v;
}

template <int BYTES>
__device__ __forceinline__ u32 load_shared(u32 at) {
    u32 v;
    if constexpr (BYTES == 4)
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at));
    else
        asm volatile("{.reg .u16 half; ld.shared.u16 half, [%1]; cvt.u32.u16 %0, half;}" : "=r"(v) : "r"(at));
    return v;
}

// ---- barriers of a block ----

__device__ __forceinline__ void init_barrier(u64* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void arrive(u64* barrier) {
    asm volatile("{.reg .b64 state; mbarrier.arrive.shared.b64 state, [%0];}" ::"r"(shared_address(barrier)) : "memory");
}

// Until the phase of this parity is complete.
__device__ __forceinline__ void wait_for(u64* barrier, u32 parity) {
    u32 complete;
    do {
#if __CUDA_ARCH__ >= 900
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
#else
        asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
#endif
                     : "=r"(complete) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    } while (!complete);
}

// ---- clusters; before sm_90 a cluster is one block, and none of these is reached ----

#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ void show_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }

// Arrives, and makes the phase wait for this many bytes as well.
__device__ __forceinline__ void arrive_and_expect(u64* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// To where `to` and `barrier` of this block lie in block `rank`; the barrier there counts the bytes. No fence is needed.
__device__ __forceinline__ void send(float4* to, u64* barrier, u32 rank, float4 v) {
    asm volatile("{.reg .u32 there, count;\n"
                 "mapa.shared::cluster.u32 there, %0, %2;\n"
                 "mapa.shared::cluster.u32 count, %1, %2;\n"
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [there], {%3, %4, %5, %6}, [count];}"
                 ::"r"(shared_address(to)), "r"(shared_address(barrier)), "r"(rank), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}

__device__ __forceinline__ void arrive_at(u64* barrier, u32 rank) {
    asm volatile("{.reg .u32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];}"
                 ::"r"(shared_address(barrier)), "r"(rank) : "memory");
}

// Until the phase is complete, by arrivals or bytes from any block of the cluster.
__device__ __forceinline__ void wait_for_cluster(u64* barrier, u32 parity) {
    u32 complete;
    do {
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;}" : "=r"(complete) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    } while (!complete);
}
#else
__device__ __forceinline__ void show_barriers() {}
__device__ __forceinline__ void cluster_arrive() {}
__device__ __forceinline__ void cluster_wait() {}
__device__ __forceinline__ void arrive_and_expect(u64*, int) {}
__device__ __forceinline__ void send(float4*, u64*, u32, float4) {}
__device__ __forceinline__ void arrive_at(u64*, u32) {}
__device__ __forceinline__ void wait_for_cluster(u64*, u32) {}
#endif
