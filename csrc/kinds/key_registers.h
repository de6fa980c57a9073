// Registers of keys, each lane a window's: comparisons and counts, and which cells a register of windows sees.
#pragma once
#include "kinds/order_rows.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

template <class V>
NDPOOL_INLINE V lesser(V a, V b) {
#if defined(__AVX512F__)
    if constexpr (sizeof a == 64) {
        const __m512i x = bits<__m512i>(a), y = bits<__m512i>(b);
        if constexpr (sizeof a[0] == 1) return bits<V>(_mm512_min_epu8(x, y));
        if constexpr (sizeof a[0] == 2) return bits<V>(_mm512_min_epu16(x, y));
        if constexpr (sizeof a[0] == 4) return bits<V>(_mm512_min_epu32(x, y));
        if constexpr (sizeof a[0] == 8) return bits<V>(_mm512_min_epu64(x, y));
    }
#elif defined(__AVX2__)
    if constexpr (sizeof a == 32 && sizeof a[0] < 8) {
        const __m256i x = bits<__m256i>(a), y = bits<__m256i>(b);
        if constexpr (sizeof a[0] == 1) return bits<V>(_mm256_min_epu8(x, y));
        if constexpr (sizeof a[0] == 2) return bits<V>(_mm256_min_epu16(x, y));
        if constexpr (sizeof a[0] == 4) return bits<V>(_mm256_min_epu32(x, y));
    }
#endif
    return a < b ? a : b;
}
template <class V>
NDPOOL_INLINE V greater(V a, V b) {
#if defined(__AVX512F__)
    if constexpr (sizeof a == 64) {
        const __m512i x = bits<__m512i>(a), y = bits<__m512i>(b);
        if constexpr (sizeof a[0] == 1) return bits<V>(_mm512_max_epu8(x, y));
        if constexpr (sizeof a[0] == 2) return bits<V>(_mm512_max_epu16(x, y));
        if constexpr (sizeof a[0] == 4) return bits<V>(_mm512_max_epu32(x, y));
        if constexpr (sizeof a[0] == 8) return bits<V>(_mm512_max_epu64(x, y));
    }
#elif defined(__AVX2__)
    if constexpr (sizeof a == 32 && sizeof a[0] < 8) {
        const __m256i x = bits<__m256i>(a), y = bits<__m256i>(b);
        if constexpr (sizeof a[0] == 1) return bits<V>(_mm256_max_epu8(x, y));
        if constexpr (sizeof a[0] == 2) return bits<V>(_mm256_max_epu16(x, y));
        if constexpr (sizeof a[0] == 4) return bits<V>(_mm256_max_epu32(x, y));
    }
#endif
    return a < b ? b : a;
}
// sum + 1 where a and b are equal, or where a is less, and the sum elsewhere.
#if defined(__AVX512BW__)
#define NDPOOL_COUNT(COMPARE, BITS)                                              \
    bits<V>(_mm512_mask_add_epi##BITS(s, _mm512_##COMPARE##BITS##_mask(x, y), s, \
                                      bits<__m512i>(splat<std::decay_t<decltype(a[0])>, sizeof a / sizeof a[0]>(1))))
#define NDPOOL_COUNT_IN_REGISTER(COMPARE)                                                 \
    if constexpr (sizeof a == 64) {                                                       \
        const __m512i x = bits<__m512i>(a), y = bits<__m512i>(b), s = bits<__m512i>(sum); \
        if constexpr (sizeof a[0] == 1) return NDPOOL_COUNT(COMPARE, 8);                  \
        if constexpr (sizeof a[0] == 2) return NDPOOL_COUNT(COMPARE, 16);                 \
        if constexpr (sizeof a[0] == 4) return NDPOOL_COUNT(COMPARE, 32);                 \
        if constexpr (sizeof a[0] == 8) return NDPOOL_COUNT(COMPARE, 64);                 \
    }
#else
#define NDPOOL_COUNT_IN_REGISTER(COMPARE)
#endif
template <class V>
NDPOOL_INLINE V count_equal(V sum, V a, V b) {
    NDPOOL_COUNT_IN_REGISTER(cmpeq_epu)
    return sum - bits<V>(a == b);
}
template <class V>
NDPOOL_INLINE V count_less(V sum, V a, V b) {
    NDPOOL_COUNT_IN_REGISTER(cmplt_epu)
    return sum - bits<V>(a < b);
}

// Which cells a register of windows sees: their keys, and which of them are there.
template <class K>
struct LaneCells {
    const K *const *at;     // of each cell
    const K *const *there;  // of each cell, all ones in the lanes where it is real; null where it is in all
    int count;
    i64 element;  // the first of the row's that the register has
    bool skips;   // whether cells with the largest key are not there
    i64 lanes;    // so many elements of the row are left, if not enough for all lanes
};

// What was found for it.
template <class K>
struct LaneFound {
    vec<K, KEY_LANES<K>> lo, hi;              // keys
    vec<K, KEY_LANES<K>> count;               // of cells that are there
    vec<K, KEY_LANES<K>> lo_place, hi_place;  // numbers of cells
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
