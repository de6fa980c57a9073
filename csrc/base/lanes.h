// Short vectors of the compiler's own, and the 16-bit floats that C++ lacks.
//
// This file and those that include it are compiled once for each instruction level, in a namespace of its own.
// They call nothing that the linker could merge across levels: no inline functions of the standard library.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "base/types.h"

#if defined(__AVX512F__)
#define NDPOOL_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define NDPOOL_VECTOR_BYTES 32
#else
#define NDPOOL_VECTOR_BYTES 16
#endif

// Whether the ways in registers are compiled at this level: not for processors without AVX2, which are too old for it
// to matter.
#if defined(__x86_64__) && !defined(__AVX2__)
#define NDPOOL_TUNED false
#else
#define NDPOOL_TUNED true
#endif

// Before a loop over the few registers that are worked on at a time.
#define NDPOOL_UNROLL _Pragma("GCC unroll 4")
// And over more of them, which must not be an array in memory.
#define NDPOOL_UNROLL_ALL _Pragma("GCC unroll 32")

// In a loop of a few rounds, over which a vector loop would take longer to start than to run.
#define NDPOOL_SHORT_LOOP __asm__ volatile("")

namespace ndpool {
namespace NDPOOL_LEVEL {

constexpr bool LEVEL_IS_TUNED = NDPOOL_TUNED;

template <class T, int N>
struct VecOf {
    typedef T type __attribute__((vector_size(sizeof(T) * N)));
};
template <class T, int N>
using vec = typename VecOf<T, N>::type;

// How many T are worked on at a time: a register of them, but of bytes not more than 32, as rows are often short.
constexpr int lanes_of(int bytes) { return NDPOOL_VECTOR_BYTES / bytes > 32 ? 32 : NDPOOL_VECTOR_BYTES / bytes; }
template <class T>
constexpr int LANES = lanes_of(static_cast<int>(sizeof(T)));

// And in rows that are shorter than that.
template <class T>
constexpr int FEW_LANES = sizeof(T) >= 4 && LANES<T> > 4 ? 4 : LANES<T>;

// As how many doubles floats are best read from memory: registers of 32 bytes are filled by one instruction, and those
// of 64 by several, which take longer than two of them on processors that halve such registers.
constexpr int WIDENED = LANES<double> > 4 ? 4 : LANES<double>;

template <int Size>
struct IntOf;
template <>
struct IntOf<1> {
    using s = std::int8_t;
    using u = std::uint8_t;
};
template <>
struct IntOf<2> {
    using s = std::int16_t;
    using u = std::uint16_t;
};
template <>
struct IntOf<4> {
    using s = std::int32_t;
    using u = std::uint32_t;
};
template <>
struct IntOf<8> {
    using s = std::int64_t;
    using u = std::uint64_t;
};

template <int N, class T>
inline vec<T, N> load(const T *p) {
    vec<T, N> v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
// Fewer than N; the others are as the first.
template <int N, class T>
inline vec<T, N> load_some(const T *p, int count) {
    vec<T, N> v;
    for (int i = 0; i < N; ++i) v[i] = p[i < count ? i : 0];
    return v;
}
template <int N, class T>
inline void store(T *p, vec<T, N> v) {
    std::memcpy(p, &v, sizeof v);
}
template <class To, class From>
inline To bits(From v) {
    static_assert(sizeof(To) == sizeof(From), "same size");
    To r;
    std::memcpy(&r, &v, sizeof r);
    return r;
}
// A small vector as the lower part of a register of 16 bytes.
#if defined(__AVX2__)
template <class V>
NDPOOL_INLINE __m128i in_16_bytes(V v) {
    if constexpr (sizeof v == 16) return bits<__m128i>(v);
    if constexpr (sizeof v == 8) return _mm_cvtsi64_si128(bits<long long>(v));
    if constexpr (sizeof v == 4) return _mm_cvtsi32_si128(bits<int>(v));
}
#endif
// Integers as wider or narrower ones. GCC knows the processor's instructions for it only where the size doubles or
// halves, and takes the lanes apart one by one elsewhere. Says whether there is one.
template <class To, class From, int N>
NDPOOL_INLINE bool resize([[maybe_unused]] vec<From, N> v, [[maybe_unused]] vec<To, N> *to) {
    [[maybe_unused]] constexpr int FROM = sizeof(From), TO = sizeof(To);
    [[maybe_unused]] constexpr bool SIGNED = std::is_signed_v<From>;
    if constexpr (!std::is_integral_v<From> || !std::is_integral_v<To>) return false;
#define NDPOOL_RESIZE(FROM_BYTES, TO_BYTES, LANES_HERE, FUNCTION, ARGUMENT)  \
    if constexpr (FROM == FROM_BYTES && TO == TO_BYTES && N == LANES_HERE) { \
        *to = bits<vec<To, N>>(FUNCTION(ARGUMENT));                          \
        return true;                                                         \
    }
#define NDPOOL_WIDEN(FROM_BYTES, TO_BYTES, LANES_HERE, SIGNED_ONE, UNSIGNED_ONE, ARGUMENT)      \
    if constexpr (SIGNED) NDPOOL_RESIZE(FROM_BYTES, TO_BYTES, LANES_HERE, SIGNED_ONE, ARGUMENT) \
    if constexpr (!SIGNED) NDPOOL_RESIZE(FROM_BYTES, TO_BYTES, LANES_HERE, UNSIGNED_ONE, ARGUMENT)
#if defined(__AVX512F__)
    NDPOOL_WIDEN(1, 4, 16, _mm512_cvtepi8_epi32, _mm512_cvtepu8_epi32, in_16_bytes(v))
    NDPOOL_WIDEN(1, 8, 8, _mm512_cvtepi8_epi64, _mm512_cvtepu8_epi64, in_16_bytes(v))
    NDPOOL_WIDEN(2, 8, 8, _mm512_cvtepi16_epi64, _mm512_cvtepu16_epi64, in_16_bytes(v))
    NDPOOL_WIDEN(2, 4, 16, _mm512_cvtepi16_epi32, _mm512_cvtepu16_epi32, bits<__m256i>(v))
    NDPOOL_WIDEN(4, 8, 8, _mm512_cvtepi32_epi64, _mm512_cvtepu32_epi64, bits<__m256i>(v))
    NDPOOL_RESIZE(4, 1, 16, _mm512_cvtepi32_epi8, bits<__m512i>(v))
    NDPOOL_RESIZE(4, 2, 16, _mm512_cvtepi32_epi16, bits<__m512i>(v))
    NDPOOL_RESIZE(8, 2, 8, _mm512_cvtepi64_epi16, bits<__m512i>(v))
    NDPOOL_RESIZE(8, 4, 8, _mm512_cvtepi64_epi32, bits<__m512i>(v))
    if constexpr (FROM == 8 && TO == 1 && N == 8) {
        *to = bits<vec<To, N>>(_mm_cvtsi128_si64(_mm512_cvtepi64_epi8(bits<__m512i>(v))));
        return true;
    }
#endif
#if defined(__AVX2__)
    NDPOOL_WIDEN(1, 4, 8, _mm256_cvtepi8_epi32, _mm256_cvtepu8_epi32, in_16_bytes(v))
    NDPOOL_WIDEN(1, 8, 4, _mm256_cvtepi8_epi64, _mm256_cvtepu8_epi64, in_16_bytes(v))
    NDPOOL_WIDEN(2, 8, 4, _mm256_cvtepi16_epi64, _mm256_cvtepu16_epi64, in_16_bytes(v))
    NDPOOL_WIDEN(2, 4, 8, _mm256_cvtepi16_epi32, _mm256_cvtepu16_epi32, in_16_bytes(v))
    NDPOOL_WIDEN(4, 8, 4, _mm256_cvtepi32_epi64, _mm256_cvtepu32_epi64, in_16_bytes(v))
    if constexpr (FROM == 4 && TO == 1 && N == 8) {
        const __m256i b = _mm256_and_si256(bits<__m256i>(v), _mm256_set1_epi32(0xff));
        const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
        *to = bits<vec<To, N>>(_mm_cvtsi128_si64(_mm_packus_epi16(words, words)));
        return true;
    }
#endif
#undef NDPOOL_WIDEN
#undef NDPOOL_RESIZE
    return false;
}

template <class To, int N, class V>
inline vec<To, N> convert(V v) {
    using From = std::decay_t<decltype(v[0])>;
#if defined(__AVX512F__)  // the compiler would do it in two halves
    if constexpr (N == 8 && std::is_same_v<To, double> && std::is_same_v<From, float>)
        return bits<vec<To, N>>(_mm512_cvtps_pd(bits<__m256>(v)));
    if constexpr (N == 8 && std::is_same_v<To, float> && std::is_same_v<From, double>)
        return bits<vec<To, N>>(_mm512_cvtpd_ps(bits<__m512d>(v)));
    if constexpr (N == 8 && std::is_same_v<To, double> && std::is_same_v<From, std::int32_t>)
        return bits<vec<To, N>>(_mm512_cvtepi32_pd(bits<__m256i>(v)));
    if constexpr (N == 8 && std::is_same_v<To, double> && std::is_same_v<From, std::uint32_t>)
        return bits<vec<To, N>>(_mm512_cvtepu32_pd(bits<__m256i>(v)));
#endif
#if defined(__AVX2__)
    if constexpr (N == 4 && std::is_same_v<To, double> && std::is_same_v<From, float>)
        return bits<vec<To, N>>(_mm256_cvtps_pd(bits<__m128>(v)));
    if constexpr (N == 4 && std::is_same_v<To, float> && std::is_same_v<From, double>)
        return bits<vec<To, N>>(_mm256_cvtpd_ps(bits<__m256d>(v)));
#endif
    // Narrow integers become floats by way of wider ones, for which there are instructions.
    if constexpr (std::is_floating_point_v<To> && std::is_integral_v<From> && sizeof(From) < 4)
        return convert<To, N>(convert<std::int32_t, N>(v));
    vec<To, N> resized;
    if (resize<To, From, N>(v, &resized)) return resized;
    return __builtin_convertvector(v, vec<To, N>);
}
template <class T, int N>
inline vec<T, N> splat(T x) {
    vec<T, N> v{};
    return v + x;
}

// |v|
template <int N, class V>
inline V size_of_each(V v) {
    using U = vec<typename IntOf<sizeof(v[0])>::u, N>;
    return bits<V>(bits<U>(v) & (~typename IntOf<sizeof(v[0])>::u(0) >> 1));
}

// N of the 2N lanes of two registers: lane i of the result is lane Pick::of(N, i) of a and b side by side.
template <int N, class Pick, class V, int... I>
NDPOOL_INLINE V picked(V a, V b, std::integer_sequence<int, I...>) {
#if defined(__clang__)
    return __builtin_shufflevector(a, b, Pick::of(N, I)...);
#else
    using Index = typename IntOf<sizeof(a[0])>::s;
    return __builtin_shuffle(a, b, vec<Index, N>{static_cast<Index>(Pick::of(N, I))...});
#endif
}
template <int N, class Pick, class V>
NDPOOL_INLINE V picked(V a, V b) {
    return picked<N, Pick>(a, b, std::make_integer_sequence<int, N>());
}
template <int Start>
struct EverySecond {
    static constexpr int of(int, int i) { return 2 * i + Start; }
};
struct LowZipped {
    static constexpr int of(int n, int i) { return i / 2 + i % 2 * n; }
};
struct HighZipped {
    static constexpr int of(int n, int i) { return LowZipped::of(n, i) + n / 2; }
};
template <int First>
struct From {
    static constexpr int of(int, int i) { return First + i; }
};

// The lanes of two registers at even places, and those at odd ones.
template <int N, int Start, class V>
inline V every_second(V a, V b) {
#if defined(__AVX512BW__)
    if constexpr (sizeof(a[0]) == 1 && N == 32) {  // bytes are the halves of words, and words can be narrowed
        __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(bits<__m256i>(a)), bits<__m256i>(b), 1);
        return bits<V>(_mm512_cvtepi16_epi8(Start ? _mm512_srli_epi16(both, 8) : both));
    }
#endif
    return picked<N, EverySecond<Start>>(a, b);
}
// And back: a and b become the two halves of a[0], b[0], a[1], b[1], ...
template <int N, class V>
inline void zip(V &a, V &b) {
    V first = picked<N, LowZipped>(a, b);
    b = picked<N, HighZipped>(a, b);
    a = first;
}
// The same of doubles, as floats side by side; ZIPS_AS_FLOATS says that it takes less than to zip doubles.
template <int N>
constexpr bool ZIPS_AS_FLOATS = NDPOOL_VECTOR_BYTES >= 32 && (N == 4 || N == LANES<double>);
template <int N>
NDPOOL_INLINE vec<float, 2 * N> zipped_as_floats(vec<double, N> a, vec<double, N> b) {
#if defined(__AVX512F__)
    if constexpr (N == 8) {
        const __m512i pick = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
        const __m512 x = _mm512_castps256_ps512(_mm512_cvtpd_ps(bits<__m512d>(a))),
                     y = _mm512_castps256_ps512(_mm512_cvtpd_ps(bits<__m512d>(b)));
        return bits<vec<float, 2 * N>>(_mm512_permutex2var_ps(x, pick, y));
    }
#endif
#if defined(__AVX2__)
    if constexpr (N == 4) {
        const __m128 x = _mm256_cvtpd_ps(bits<__m256d>(a)), y = _mm256_cvtpd_ps(bits<__m256d>(b));
        return bits<vec<float, 2 * N>>(_mm256_set_m128(_mm_unpackhi_ps(x, y), _mm_unpacklo_ps(x, y)));
    }
#endif
    zip<N>(a, b);
    struct {
        vec<float, N> first, second;
    } both = {convert<float, N>(a), convert<float, N>(b)};
    return bits<vec<float, 2 * N>>(both);
}
// Two registers of doubles as floats.
template <int N>
NDPOOL_INLINE vec<float, N> joined_as_floats(vec<double, N / 2> low, vec<double, N / 2> high) {
#if defined(__AVX512F__)
    if constexpr (N == 16)
        return bits<vec<float, N>>(_mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(bits<__m512d>(low))),
                                                      _mm512_cvtpd_ps(bits<__m512d>(high)), 1));
#endif
    struct {
        vec<float, N / 2> low, high;
    } both = {convert<float, N / 2>(low), convert<float, N / 2>(high)};
    return bits<vec<float, N>>(both);
}
// The sums of cells 0 and 1, 2 and 3, ... of positive floats, as doubles that are less by a power of 2: to shift their
// bits takes less than to convert them.
constexpr double PAIRS_ARE_LESS = 0x1p896;
template <int N>
NDPOOL_INLINE vec<double, N / 2> sums_of_pairs(vec<float, N> v) {
    using U = vec<std::uint64_t, N / 2>;
    const U b = bits<U>(v);
    return bits<vec<double, N / 2>>(b << 32 >> 3) + bits<vec<double, N / 2>>((b >> 32) << 29);
}
// Whether all bits are 0.
template <int N>
NDPOOL_INLINE bool all_zero(vec<std::uint32_t, N> v) {
#if defined(__AVX512F__)
    if constexpr (N == 16) return _mm512_test_epi32_mask(bits<__m512i>(v), bits<__m512i>(v)) == 0;
#endif
#if defined(__AVX2__)
    if constexpr (N == 8) return _mm256_testz_si256(bits<__m256i>(v), bits<__m256i>(v));
#endif
    std::uint32_t any = 0;
    for (int i = 0; i < N; ++i) any |= v[i];
    return any == 0;
}
// The last lane of a, and all of b but its last.
template <int N, class V>
inline V shift_lane_in(V a, V b) {
    return picked<N, From<N - 1>>(a, b);
}

// N lanes of two registers side by side, from lane `first` on; how many that are is known only when it runs.
template <class T, int N>
class LaneShift {
    using Index = typename IntOf<sizeof(T)>::s;

  public:
    LaneShift() = default;
    NDPOOL_INLINE explicit LaneShift(i64 first) {
        for (int i = 0; i < N; ++i) pick[i] = static_cast<Index>(i + first);
    }
    NDPOOL_INLINE vec<T, N> of(vec<T, N> a, vec<T, N> b) const {
#if !defined(__clang__)
        return __builtin_shuffle(a, b, pick);
#else
#if defined(__AVX512F__)
        if constexpr (sizeof(T) == 4 && N == 16)
            return bits<vec<T, N>>(_mm512_permutex2var_epi32(bits<__m512i>(a), bits<__m512i>(pick), bits<__m512i>(b)));
        if constexpr (sizeof(T) == 8 && N == 8)
            return bits<vec<T, N>>(_mm512_permutex2var_epi64(bits<__m512i>(a), bits<__m512i>(pick), bits<__m512i>(b)));
#endif
        // Clang has no shuffle by lanes that are known only now.
        T both[2 * N];
        store<N>(both, a);
        store<N>(both + N, b);
        return load<N>(both + static_cast<i64>(pick[0]));
#endif
    }

  private:
    vec<Index, N> pick;
};

// The larger of two floats, and NaN if either is. The processor's own maximum gives b where a or b is NaN, so a NaN in
// a is all that is left to look for; the compiler does not find that by itself.
template <class T, int N>
inline vec<T, N> best_of_floats(vec<T, N> a, vec<T, N> b) {
#if defined(__AVX512F__)
    constexpr int TAKE_NAN = 0x22;  // "fix up": NaNs of both sorts are taken over, all else stays
    if constexpr (std::is_same_v<T, float> && N == 16) {
        __m512 x = bits<__m512>(a), y = bits<__m512>(b);
        return bits<vec<T, N>>(_mm512_fixupimm_ps(_mm512_max_ps(x, y), x, _mm512_set1_epi32(TAKE_NAN), 0));
    }
    if constexpr (std::is_same_v<T, double> && N == 8) {
        __m512d x = bits<__m512d>(a), y = bits<__m512d>(b);
        return bits<vec<T, N>>(_mm512_fixupimm_pd(_mm512_max_pd(x, y), x, _mm512_set1_epi64(TAKE_NAN), 0));
    }
#endif
#if defined(__AVX2__)
    if constexpr (std::is_same_v<T, float> && N == 4) {
        __m128 x = bits<__m128>(a), y = bits<__m128>(b);
        return bits<vec<T, N>>(_mm_blendv_ps(_mm_max_ps(x, y), x, _mm_cmp_ps(x, x, _CMP_UNORD_Q)));
    }
    if constexpr (std::is_same_v<T, float> && N == 8) {
        __m256 x = bits<__m256>(a), y = bits<__m256>(b);
        return bits<vec<T, N>>(_mm256_blendv_ps(_mm256_max_ps(x, y), x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
    }
    if constexpr (std::is_same_v<T, double> && N == 4) {
        __m256d x = bits<__m256d>(a), y = bits<__m256d>(b);
        return bits<vec<T, N>>(_mm256_blendv_pd(_mm256_max_pd(x, y), x, _mm256_cmp_pd(x, x, _CMP_UNORD_Q)));
    }
#endif
#if defined(__aarch64__)  // where the processor's maximum of a NaN and a number is NaN
    if constexpr (std::is_same_v<T, float> && N == 4)
        return bits<vec<T, N>>(vmaxq_f32(bits<float32x4_t>(a), bits<float32x4_t>(b)));
    if constexpr (std::is_same_v<T, double> && N == 2)
        return bits<vec<T, N>>(vmaxq_f64(bits<float64x2_t>(a), bits<float64x2_t>(b)));
#endif
    return (b > a) | ((b != b) & (a == a)) ? b : a;
}

// Whether no lane is infinite or NaN.
template <int N>
NDPOOL_INLINE bool all_finite(vec<float, N> v) {
    vec<float, N> odd = v - v;
#if defined(__AVX512F__)
    if constexpr (N == 16) return _mm512_cmp_ps_mask(bits<__m512>(odd), bits<__m512>(odd), _CMP_UNORD_Q) == 0;
#endif
#if defined(__AVX2__)
    if constexpr (N == 8)
        return _mm256_movemask_ps(_mm256_cmp_ps(bits<__m256>(odd), bits<__m256>(odd), _CMP_UNORD_Q)) == 0;
#endif
    bool all = true;
    for (int i = 0; i < N; ++i) all &= odd[i] == 0;
    return all;
}

// a*b - c, rounded once; levels that cannot have FUSED false.
#if defined(__FMA__) || defined(__aarch64__)
constexpr bool FUSED = true;
template <int N>
inline vec<float, N> fused_difference(vec<float, N> a, vec<float, N> b, vec<float, N> c) {
#if defined(__aarch64__)
    if constexpr (N == 2)
        return bits<vec<float, N>>(
            vfma_f32(vneg_f32(bits<float32x2_t>(c)), bits<float32x2_t>(a), bits<float32x2_t>(b)));
    else
        return bits<vec<float, N>>(
            vfmaq_f32(vnegq_f32(bits<float32x4_t>(c)), bits<float32x4_t>(a), bits<float32x4_t>(b)));
#else
#if defined(__AVX512F__)
    if constexpr (N == 16)
        return bits<vec<float, N>>(_mm512_fmsub_ps(bits<__m512>(a), bits<__m512>(b), bits<__m512>(c)));
#endif
    if constexpr (N == 8)
        return bits<vec<float, N>>(_mm256_fmsub_ps(bits<__m256>(a), bits<__m256>(b), bits<__m256>(c)));
    else if constexpr (N == 4)
        return bits<vec<float, N>>(_mm_fmsub_ps(bits<__m128>(a), bits<__m128>(b), bits<__m128>(c)));
#endif
}
template <int N>
inline vec<double, N> fused_difference(vec<double, N> a, vec<double, N> b, vec<double, N> c) {
#if defined(__aarch64__)
    return bits<vec<double, N>>(vfmaq_f64(vnegq_f64(bits<float64x2_t>(c)), bits<float64x2_t>(a), bits<float64x2_t>(b)));
#elif defined(__AVX512F__)
    return bits<vec<double, N>>(_mm512_fmsub_pd(bits<__m512d>(a), bits<__m512d>(b), bits<__m512d>(c)));
#else
    return bits<vec<double, N>>(_mm256_fmsub_pd(bits<__m256d>(a), bits<__m256d>(b), bits<__m256d>(c)));
#endif
}
#else
constexpr bool FUSED = false;
template <int N>
inline vec<float, N> fused_difference(vec<float, N> a, vec<float, N> b, vec<float, N> c) {
    return a * b - c;
}
#endif

// v / by, where `share` is one over it; the last place of a subnormal quotient may differ. A product and its exact
// error take less time than a division.
template <class A, int N>
NDPOOL_INLINE vec<A, N> near_quotient(vec<A, N> v, vec<A, N> by, [[maybe_unused]] vec<A, N> share) {
#if defined(__FMA__) || defined(__aarch64__)
    const vec<A, N> near = v * share, error = fused_difference<N>(near, by, v);
    return error == error ? near - error * share : near;  // infinities have none
#else
    return v / by;
#endif
}

// a*b + c, rounded once, where FUSED.
template <int N>
inline vec<float, N> fused_sum(vec<float, N> a, vec<float, N> b, vec<float, N> c) {
    return fused_difference<N>(a, b, -c);
}
template <int N>
inline vec<double, N> fused_sum(vec<double, N> a, vec<double, N> b, vec<double, N> c) {
#if defined(__aarch64__)
    if constexpr (N == 2)
        return bits<vec<double, N>>(vfmaq_f64(bits<float64x2_t>(c), bits<float64x2_t>(a), bits<float64x2_t>(b)));
#endif
#if defined(__AVX512F__)
    if constexpr (N == 8)
        return bits<vec<double, N>>(_mm512_fmadd_pd(bits<__m512d>(a), bits<__m512d>(b), bits<__m512d>(c)));
#endif
#if defined(__FMA__)
    if constexpr (N == 4)
        return bits<vec<double, N>>(_mm256_fmadd_pd(bits<__m256d>(a), bits<__m256d>(b), bits<__m256d>(c)));
#endif
    return a * b + c;
}

// a - b and a + b to the bit, by the unit that multiplies. Some processors have others that add: where additions are
// all that is done, both then work at once.
template <int N>
NDPOOL_INLINE vec<double, N> difference_by_product(vec<double, N> a, vec<double, N> b) {
    if constexpr (FUSED && N == LANES<double>)
        return fused_sum<N>(b, splat<double, N>(-1), a);
    else
        return a - b;
}
template <int N>
NDPOOL_INLINE vec<double, N> sum_by_product(vec<double, N> a, vec<double, N> b) {
    if constexpr (FUSED && (N == LANES<double> || N == WIDENED))
        return fused_sum<N>(b, splat<double, N>(1), a);
    else
        return a + b;
}
template <int N>
NDPOOL_INLINE vec<float, N> sum_by_product(vec<float, N> a, vec<float, N> b) {
    return a + b;
}

// Whether the size of every lane is between 2^-900 and 2^900.
template <int N>
NDPOOL_INLINE bool all_of_middle_size(vec<double, N> v) {
    using U = vec<std::uint64_t, N>;
    constexpr std::uint64_t LEAST = std::uint64_t(1023 - 900) << 53, MOST = std::uint64_t(1023 + 900) << 53;
    const U size = bits<U>(v) << 1;
#if defined(__AVX512F__)
    if constexpr (N == 8)
        return _mm512_cmplt_epu64_mask(bits<__m512i>(size - LEAST), _mm512_set1_epi64(MOST - LEAST)) == 0xff;
#endif
    std::uint64_t outside = 0;
    for (int i = 0; i < N; ++i) outside |= size[i] - LEAST < MOST - LEAST ? 0 : 1;
    return outside == 0;
}

// One over whole numbers, as a division gives it: a division of floats, and two steps of Newton's, the last of which is
// exact but for its rounding. A division of doubles takes longer.
template <int N>
NDPOOL_INLINE vec<double, N> one_over(vec<double, N> n) {
    const vec<double, N> one = splat<double, N>(1);
    if constexpr (FUSED && N == LANES<double>) {
        const vec<double, N> guess = convert<double, N>(1.0f / convert<float, N>(n)), near = guess * (2.0 - n * guess);
        return fused_sum<N>(fused_sum<N>(-n, near, one), near, near);
    }
    return one / n;
}

// The quotients of doubles and one whole number below 2^50, rounded once. A product with the reciprocal is off by a
// unit in the last place at most; what is left over, which is exact, sets it right (Markstein). A division takes five
// times as long.
template <int N>
NDPOOL_INLINE vec<double, N> corrected_quotient(vec<double, N> v, double divisor, double reciprocal) {
    const vec<double, N> near = v * reciprocal;
    const vec<double, N> left = fused_sum<N>(near, splat<double, N>(-divisor), v);
    return fused_sum<N>(left, splat<double, N>(reciprocal), near);
}
template <int N>
NDPOOL_INLINE vec<double, N> quotient(vec<double, N> v, double divisor, double reciprocal) {
    if constexpr (FUSED && N == LANES<double>)
        if (all_of_middle_size<N>(v)) return corrected_quotient<N>(v, divisor, reciprocal);
    return v / divisor;
}
// The same of whole numbers: none is too large or too small for it, and 0 has no sign.
template <int N>
NDPOOL_INLINE vec<double, N> quotient_of_integers(vec<double, N> v, double divisor, double reciprocal) {
    if constexpr (FUSED && N == LANES<double>) return corrected_quotient<N>(v, divisor, reciprocal);
    if constexpr (FUSED && N == 2 * LANES<double>) {
        struct {
            vec<double, N / 2> low, high;
        } both;
        std::memcpy(&both, &v, sizeof v);
        both = {corrected_quotient<N / 2>(both.low, divisor, reciprocal),
                corrected_quotient<N / 2>(both.high, divisor, reciprocal)};
        return bits<vec<double, N>>(both);
    }
    return v / divisor;
}

// --- 16-bit floats as bits ---------------------------------------------------------------------

struct Half {  // IEEE binary16
    std::uint16_t bits;
};
struct BFloat {  // the upper half of a float
    std::uint16_t bits;
};

template <int N>
inline vec<float, N> widen(const Half *p) {
#if defined(__AVX512F__)
    if constexpr (N == 16) return bits<vec<float, N>>(_mm512_cvtph_ps(bits<__m256i>(load<N>(&p->bits))));
#endif
#if defined(__F16C__)
    if constexpr (N == 8) return bits<vec<float, N>>(_mm256_cvtph_ps(bits<__m128i>(load<N>(&p->bits))));
    if constexpr (N == 4) return bits<vec<float, N>>(_mm_cvtph_ps(in_16_bytes(load<N>(&p->bits))));
#endif
    using U = vec<std::uint32_t, N>;
    U h = convert<std::uint32_t, N>(load<N>(&p->bits));
    U shifted = (h & 0x7fffu) << 13;
    // Rebias the exponent by a product, which is exact and treats subnormals rightly.
    vec<float, N> scaled = bits<vec<float, N>>(shifted) * 0x1p112f;
    U special = (h & 0x7c00u) == 0x7c00u;
    U magnitude = bits<U>(scaled) | (special & 0x7f800000u);
    return bits<vec<float, N>>(magnitude | ((h & 0x8000u) << 16));
}
template <int N>
inline vec<float, N> widen(const BFloat *p) {
    return bits<vec<float, N>>(convert<std::uint32_t, N>(load<N>(&p->bits)) << 16);
}

// 2N of them: those at even places, and those at odd ones. Nothing has to cross the register.
template <int N>
NDPOOL_INLINE void widen_pairs(const BFloat *p, vec<float, N> &even, vec<float, N> &odd) {
    vec<std::uint32_t, N> pairs;
    std::memcpy(&pairs, p, sizeof pairs);
    even = bits<vec<float, N>>(pairs << 16);
    odd = bits<vec<float, N>>(pairs & 0xffff0000u);
}

// Rounded to nearest, ties to even.
template <int N>
inline void narrow(vec<float, N> v, BFloat *p) {
    using U = vec<std::uint32_t, N>;
    U b = bits<U>(v);
    U rounded = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
    U nan = (b >> 16) | 0x40u;
    store<N>(&p->bits, convert<std::uint16_t, N>((b & 0x7fffffffu) > 0x7f800000u ? nan : rounded));
}
template <int N>
inline void narrow(vec<float, N> v, Half *p) {
#if defined(__AVX512F__)
    if constexpr (N == 16) {
        const __m256i all = _mm512_cvtps_ph(bits<__m512>(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        std::memcpy(&p->bits, &all, sizeof all);
        return;
    }
#endif
#if defined(__F16C__)
    if constexpr (N == 8 || N == 4) {
        __m128i all;
        if constexpr (N == 8)
            all = _mm256_cvtps_ph(bits<__m256>(v), _MM_FROUND_TO_NEAREST_INT);
        else
            all = _mm_cvtps_ph(bits<__m128>(v), _MM_FROUND_TO_NEAREST_INT);
        std::memcpy(&p->bits, &all, sizeof(Half) * N);
        return;
    }
#endif
    using U = vec<std::uint32_t, N>;
    U b = bits<U>(v);
    U sign = (b >> 16) & 0x8000u;
    U magnitude = b & 0x7fffffffu;
    // Normal: drop 13 bits, rounding to even; the exponent is rebiased by a subtraction.
    U normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    // Subnormal: adding 0.5 lines the last place of a binary16 subnormal up with that of the float, and rounds.
    U tiny = bits<U>(bits<vec<float, N>>(magnitude) + 0.5f) - 0x3f000000u;
    U is_tiny = magnitude < 0x38800000u;
    U overflow = magnitude >= 0x47800000u;
    U is_nan = magnitude > 0x7f800000u;
    U r = (is_tiny & tiny) | (~is_tiny & normal);
    r = (overflow & 0x7c00u) | (~overflow & r);
    r = (is_nan & 0x7e00u) | (~is_nan & r);
    store<N>(&p->bits, convert<std::uint16_t, N>(r | sign));
}

// A double as a float whose last bit says whether anything was cut off, so that rounding it again is rounding once.
template <int N>
inline vec<float, N> round_to_odd(vec<double, N> v) {
#if defined(__AVX512F__)
    if constexpr (N == 8) {  // towards zero, and with the last bit set if that cut anything off
        const __m512d d = bits<__m512d>(v);
        const __m256i f = _mm256_castps_si256(_mm512_cvt_roundpd_ps(d, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC));
        const __mmask8 cut = _mm512_cmp_pd_mask(_mm512_cvtps_pd(_mm256_castsi256_ps(f)), d, _CMP_NEQ_OQ);
        return bits<vec<float, N>>(_mm256_mask_or_epi32(f, cut, f, _mm256_set1_epi32(1)));
    }
#endif
    vec<float, N> f = convert<float, N>(v);
    vec<double, N> back = convert<double, N>(f);
    vec<double, N> size = v < 0 ? -v : v, back_size = back < 0 ? -back : back;
    using I = vec<std::int32_t, N>;
    I b = bits<I>(f) + convert<std::int32_t, N>(back_size > size);  // a mask is -1
    b |= convert<std::int32_t, N>(size != back_size) & 1;
    auto number = convert<std::int32_t, N>(v == v);
    return bits<vec<float, N>>((number & b) | (~number & bits<I>(f)));
}

// --- any number in, any number out -------------------------------------------------------------

template <class A, int N, class T>
inline vec<A, N> load_as(const T *p) {
    return convert<A, N>(load<N>(p));
}
template <class A, int N>
inline vec<A, N> load_as(const Half *p) {
    return convert<A, N>(widen<N>(p));
}
template <class A, int N>
inline vec<A, N> load_as(const BFloat *p) {
    return convert<A, N>(widen<N>(p));
}
template <int N, class T, class V>
inline void store_as(T *p, V v) {
    store<N>(p, convert<T, N>(v));
}
template <int N>
inline vec<float, N> to_float(vec<float, N> v) {
    return v;
}
template <int N>
inline vec<float, N> to_float(vec<double, N> v) {
    return round_to_odd<N>(v);
}
template <int N, class V>
inline void store_as(Half *p, V v) {
    narrow<N>(to_float<N>(v), p);
}
template <int N, class V>
inline void store_as(BFloat *p, V v) {
    narrow<N>(to_float<N>(v), p);
}

// A row of bytes for each value of a byte: read, where making it anew would keep the shuffle unit busy.
struct ByteRows {
    alignas(16) std::uint8_t row[256][16];
    constexpr ByteRows() : row() {
        for (int value = 0; value < 256; ++value)
            for (int i = 0; i < 16; ++i) row[value][i] = static_cast<std::uint8_t>(value);
    }
};
// All of them. Where they are is hidden from the compiler, which would keep the address of every single one at hand.
inline const ByteRows *byte_rows() {
    static constexpr ByteRows ROWS;
    const ByteRows *rows = &ROWS;
    asm("" : "+r"(rows));
    return rows;
}

// sum + v where a byte equals `value`, which is below 256, and the sum elsewhere.
template <class T, int N>
NDPOOL_INLINE vec<T, N> add_where_equal(vec<T, N> sum, const std::uint8_t *p, i64 value,
                                        [[maybe_unused]] const ByteRows &bytes, vec<T, N> v) {
    if constexpr (N == 1) return vec<T, N>{*p == value ? sum[0] + v[0] : sum[0]};
#if defined(__AVX2__)
    [[maybe_unused]] auto wanted = _mm_load_si128(reinterpret_cast<const __m128i *>(bytes.row[value]));
#endif
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4 && N == 16) {
        auto equal = _mm_cmpeq_epi8_mask(bits<__m128i>(load<16>(p)), wanted);
        return bits<vec<T, N>>(_mm512_mask_add_ps(bits<__m512>(sum), equal, bits<__m512>(sum), bits<__m512>(v)));
    }
    if constexpr (sizeof(T) == 8 && N == 8) {
        auto equal =
            static_cast<__mmask8>(_mm_cmpeq_epi8_mask(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(p)), wanted));
        return bits<vec<T, N>>(_mm512_mask_add_pd(bits<__m512d>(sum), equal, bits<__m512d>(sum), bits<__m512d>(v)));
    }
#endif
    // A sum is never -0, so adding 0 does not change it.
#if defined(__AVX2__)
    if constexpr (sizeof(T) == 4 && N == 4) {
        auto equal = _mm_cmpeq_epi8(_mm_cvtsi32_si128(bits<std::int32_t>(load<4>(p))), wanted);
        return sum + bits<vec<T, N>>(_mm_and_si128(_mm_cvtepi8_epi32(equal), bits<__m128i>(v)));
    }
    if constexpr (sizeof(T) == 4 && N == 8) {
        auto equal = _mm_cmpeq_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(p)), wanted);
        return sum + bits<vec<T, N>>(_mm256_and_si256(_mm256_cvtepi8_epi32(equal), bits<__m256i>(v)));
    }
    if constexpr (sizeof(T) == 8 && N == 4) {
        auto equal = _mm_cmpeq_epi8(_mm_cvtsi32_si128(bits<std::int32_t>(load<4>(p))), wanted);
        return sum + bits<vec<T, N>>(_mm256_and_si256(_mm256_cvtepi8_epi64(equal), bits<__m256i>(v)));
    }
#endif
    using I = typename IntOf<sizeof(T)>::s;
    vec<T, N> none{};
    return sum + (convert<I, N>(load<N>(p)) == static_cast<I>(value) ? v : none);
}

// Asks for what will be read some rows later. The rows of an image are read one after the other, but with work in
// between, over which the processor's own prefetching falls behind. It goes into the second-level cache: of several
// rows of one page, the nearest has no room for what comes so much later. Inlined always: as a function of its own it
// would be one without effect to the compiler, which then drops the call.
constexpr std::uintptr_t PREFETCHED = 16384;
template <int COUNT, class T>
NDPOOL_INLINE void prefetch(const T *p, std::uintptr_t ahead = PREFETCHED) {
    constexpr int ONLY_TO_READ = 0, SECOND_LEVEL = 2;
    auto address = reinterpret_cast<std::uintptr_t>(p) + ahead;
    for (std::size_t line = 0; line < sizeof(T) * COUNT; line += 64)
        __builtin_prefetch(reinterpret_cast<const void *>(address + line), ONLY_TO_READ, SECOND_LEVEL);
}

// Calls f(position) for blocks of N that cover 0..length-1, which is at least N; the last one overlaps its neighbour.
template <int N, class F>
NDPOOL_INLINE void whole_blocks(i64 length, const F &f) {
    for (i64 i = 0; i < length; i += N) f(i + N <= length ? i : length - N);
}
// Whether all of the first half of such a block is in its neighbour, too.
template <int N>
NDPOOL_INLINE bool half_done(i64 position) {
    return (-position & (N - 1)) >= N / 2;
}

// Calls f(position, count) for blocks of N that cover 0..length-1; the last one overlaps its neighbour where the
// length allows it, and is short (count < N) where the whole is.
template <int N, class F>
inline void blocks(i64 length, const F &f) {
    i64 i = 0;
    for (; i + N <= length; i += N) f(i, N);
    if (i < length) {
        if (length >= N)
            f(length - N, N);
        else
            f(i, static_cast<int>(length - i));
    }
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
