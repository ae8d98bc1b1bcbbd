// The operands of Fp4MmaGemvKernel: E2M1 codes and E4M3 scales -> A, activations -> B. The layout of a window is described in
// mma_gemv.cu.
#pragma once

#include "mma_shared.cuh"

template <int ROWS>
constexpr int kSpan = ROWS <= 8 ? 2 : 1;  // windows of a span, which a warp multiplies at a time

// ---- the A operand ----

// Eight codes -> four pairs (i, i + 4) of T, each 2^-14 (float16) or 2^-126 (bfloat16) of its value: the three magnitude bits
// sit at the bottom of the exponent, where zero and the subnormal 0.5 come out right by themselves.
__device__ __forceinline__ void unpack(u32 word, u32 (&pair)[4], __half) {
    // Only the high byte of each float16 is not zero: build four at a time.
    const u32 even = (word << 1 & 0x0E0E0E0Eu) | (word << 4 & 0x80808080u);
    const u32 odd = (word >> 3 & 0x0E0E0E0Eu) | (word & 0x80808080u);
    pair[0] = __byte_perm(even, 0, 0x2404);
    pair[1] = __byte_perm(odd, 0, 0x2404);
    pair[2] = even & 0xFF00FF00u;
    pair[3] = odd & 0xFF00FF00u;
}

__device__ __forceinline__ void unpack(u32 word, u32 (&pair)[4], __nv_bfloat16) {
    // One multiplication moves the sign to bit 15 and the magnitude to bit 6; the integer ALU is the busiest pipe here.
    const u32 upper = word >> 8;
    pair[0] = (word & 0x000F000Fu) * 0x1040u & 0x81C081C0u;
    pair[1] = (word & 0x00F000F0u) * 0x0104u & 0x81C081C0u;
    pair[2] = (upper & 0x000F000Fu) * 0x1040u & 0x81C081C0u;
    pair[3] = (upper & 0x00F000F0u) * 0x0104u & 0x81C081C0u;
}

// Two E4M3 bytes -> a pair of T, times 2^7 or 2^119: with unpack() the product is 2^-7 of the weight, exact and in range.
__device__ __forceinline__ u32 block_scales(u16 bytes, __half) {
    const __half2 two = __hmul2(decode_e4m3x2(bytes), __float2half2_rn(128.0f));
    return reinterpret_cast<const u32&>(two);
}

__device__ __forceinline__ u32 block_scales(u16 bytes, __nv_bfloat16) {
    const float2 two = __half22float2(decode_e4m3x2(bytes));
    const __nv_bfloat162 pair = __hmul2(__floats2bfloat162_rn(two.x, two.y), __float2bfloat162_rn(0x1p119f));
    return reinterpret_cast<const u32&>(pair);
}

// Both halves of x times one half of `scales`.
__device__ __forceinline__ u32 multiply(u32 x, u32 scales, bool high, __half) {
    const __half2 both = reinterpret_cast<const __half2&>(scales);
    const __half2 z = __hmul2(reinterpret_cast<const __half2&>(x), high ? __high2half2(both) : __low2half2(both));
    return reinterpret_cast<const u32&>(z);
}

__device__ __forceinline__ u32 multiply(u32 x, u32 scales, bool high, __nv_bfloat16) {
    const __nv_bfloat162 both = reinterpret_cast<const __nv_bfloat162&>(scales);
    const __nv_bfloat162 one = high ? __high2bfloat162(both) : __low2bfloat162(both);
    const __nv_bfloat162 z = __hmul2(reinterpret_cast<const __nv_bfloat162&>(x), one);
    return reinterpret_cast<const u32&>(z);
}

// sum [16, 8] += A [16, 16] * B [16, 8], one warp. Lane (g, t) holds of A rows g, g + 8 (a0, a2 and a1, a3), of B column g,
// of the sum rows g (0, 1) and g + 8 (2, 3), columns 2 t and 2 t + 1.
__device__ __forceinline__ void mma(float (&sum)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1, __half) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void mma(float (&sum)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1, __nv_bfloat16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// ---- the B operand ----

__device__ __forceinline__ uint4 interleave_halves(uint4 v) {  // 01 23 45 67 -> 04 15 26 37
    return make_uint4(__byte_perm(v.x, v.z, 0x5410), __byte_perm(v.x, v.z, 0x7632), __byte_perm(v.y, v.w, 0x5410),
                      __byte_perm(v.y, v.w, 0x7632));
}

// A span's activations lie in shared memory row by row, in vectors of 16 bytes; these are shuffled against bank conflicts.
template <int ROWS>
constexpr int kVectors = 16 * kSpan<ROWS>;  // a row
template <int ROWS>
constexpr int kStaged = ROWS * kVectors<ROWS> * 16;  // bytes

template <int ROWS>
__device__ __forceinline__ int staged_at(int row, int vector) {
    const int shuffle = kSpan<ROWS> == 2 ? (vector >> 3 & 3) | (row & 1) << 2 : (vector >> 3 & 1) | (row & 1) << 1;
    return (row * kVectors<ROWS> + (vector ^ shuffle)) * 16;
}

// Copies M rows from window `first` on, by one warp; zeros in windows before `from`.
template <int ROWS>
__device__ __forceinline__ void stage_activations(u32 staged, const uint4* a, int M, int first, int from, int windows) {
    constexpr int kAtOnce = 32 / kVectors<ROWS>;  // rows
    const int lane = threadIdx.x % 32, vector = lane % kVectors<ROWS>, row = lane / kVectors<ROWS>;
    const bool there = first + vector / 16 >= from;
    const char* source = reinterpret_cast<const char*>(a) + (index_t)(row * windows + first) * 256 + vector * 16;
    const u32 even = staged + staged_at<ROWS>(row, vector);
    const u32 odd = staged + staged_at<ROWS>(row + 1, vector) - kVectors<ROWS> * 16;
#pragma unroll
    for (int r = 0; r < ROWS; r += kAtOnce) {
        if (row + r < M) copy_16_or_zeros((r % 2 ? odd : even) + r * kVectors<ROWS> * 16, source, there);
        source += (index_t)windows * (256 * kAtOnce);
    }
}

// ROWS > 1: one vector for each 32-bit word of codes; column g of eight is row 8 c + g.
template <typename T, int ROWS>
struct Activations {
    uint4 b[kSpan<ROWS>][ROWS / 8][4];

    __device__ __forceinline__ void load_staged(const char* staged, int M) {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int c = 0; c < ROWS / 8; ++c) {
            const int m = min(8 * c + g, M - 1);  // a repeated row is computed and dropped
#pragma unroll
            for (int w = 0; w < kSpan<ROWS>; ++w)
#pragma unroll
                for (int q = 0; q < 4; ++q)
                    b[w][c][q] = *reinterpret_cast<const uint4*>(staged + staged_at<ROWS>(m, 4 * (kSpan<ROWS> * t + w) + q));
        }
    }

    __device__ __forceinline__ void prepare() {
#pragma unroll
        for (int i = 0; i < kSpan<ROWS> * ROWS / 2; ++i) {
            uint4& v = b[i / (ROWS / 2)][i / 4 % (ROWS / 8)][i % 4];
            v = interleave_halves(v);
        }
    }

    __device__ __forceinline__ const uint4& word(int w, int c, int q) const { return b[w][c][q]; }
};

// A pair of bfloat16 times 2^exponent (0 .. 247), exactly.
__device__ __forceinline__ u32 scale_up(u32 pair, int exponent) {
    const u32 first = (127 + exponent / 2) * 0x00800080u, second = (127 + (exponent + 1) / 2) * 0x00800080u;
    const u32 half_way = multiply(pair, first, false, __nv_bfloat16());
    return multiply(half_way, second, false, __nv_bfloat16());
}

__device__ __forceinline__ u32 larger_magnitudes(u32 most, uint4 v) {  // as bits of a pair of T
    most = __vmaxu2(__vmaxu2(most, v.x & 0x7FFF7FFFu), v.y & 0x7FFF7FFFu);
    return __vmaxu2(__vmaxu2(most, v.z & 0x7FFF7FFFu), v.w & 0x7FFF7FFFu);
}

// ROWS == 1: column 2 t + q / 2 of a window's MMAs holds one block and zeros elsewhere. Lane (g, t) supplies column g of the
// elements of lanes (., t), two blocks: words 0, 1 and 2, 3. Two words do for both: the MMAs of the other block give sums in a
// column that nobody reads.
template <typename T>
struct Activations<T, 1> {
    uint4 b[kSpan<1>][2];
    float unfold;  // sums times this are those of the true codes

    __device__ __forceinline__ int vector(int i) const {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        return 4 * (kSpan<1> * t + i / 2) + 2 * (g % 2) + i % 2;
    }

    __device__ __forceinline__ bool mine() const { return threadIdx.x % 32 / 8 == threadIdx.x % 4; }

    // The first span's, from window `first` on, zeros in windows before `from`: sooner there than through shared memory.
    __device__ __forceinline__ void load(const uint4* a, int first, int from) {
#pragma unroll
        for (int i = 0; i < 2 * kSpan<1>; ++i) {
            const bool there = mine() && first + vector(i) / 16 >= from;
            b[i / 2][i % 2] = there ? load_in_order(a + (index_t)first * 16 + vector(i)) : make_uint4(0, 0, 0, 0);
        }
    }

    __device__ __forceinline__ void load_staged(const char* staged, int) {
#pragma unroll
        for (int i = 0; i < 2 * kSpan<1>; ++i) {
            const uint4 v = *reinterpret_cast<const uint4*>(staged + staged_at<1>(0, vector(i)));
            b[i / 2][i % 2] = mine() ? v : make_uint4(0, 0, 0, 0);
        }
    }

    __device__ __forceinline__ void prepare() {
#pragma unroll
        for (int i = 0; i < 2 * kSpan<1>; ++i) b[i / 2][i % 2] = interleave_halves(b[i / 2][i % 2]);
        fold(T());
    }

    __device__ __forceinline__ void fold(__half) { unfold = 0x1p14f; }

    // Codes are 2^-126 of their value: raise the activations, or sums would be subnormal. Infinities and NaN stay.
    __device__ __forceinline__ void fold(__nv_bfloat16) {
        u32 most = 0;
#pragma unroll
        for (int i = 0; i < 2 * kSpan<1>; ++i) most = larger_magnitudes(most, b[i / 2][i % 2]);
        const u32 largest = __reduce_max_sync(0xFFFFFFFFu, max(most & 0xFFFFu, most >> 16));
        const int raise = max(0, 247 - (int)(largest >> 7));  // the largest to 2^120
#pragma unroll
        for (int i = 0; i < 2 * kSpan<1>; ++i) {
            uint4& v = b[i / 2][i % 2];
            v = make_uint4(scale_up(v.x, raise), scale_up(v.y, raise), scale_up(v.z, raise), scale_up(v.w, raise));
        }
        unfold = __uint_as_float((127 + 126 - raise) << 23);
    }

    __device__ __forceinline__ const uint4& word(int w, int, int q) const { return b[w][q % 2]; }
};
