// exp, log and powers of whole registers: the last place or so is right, and nothing branches.
#pragma once
#include "base/lanes.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

constexpr double LOG_2 = 0x1.62e42fefa39efp-1, PER_LOG_2 = 0x1.71547652b82fep0;  // log 2, and 1 / log 2
constexpr float WHOLE = 0x1.8p23f;  // a float to which this is added has the nearest whole number in its low bits

// a*b - product, rounded once where the level can: what a product of registers has lost.
template <int N>
NDPOOL_INLINE vec<float, N> product_error(vec<float, N> a, vec<float, N> b, vec<float, N> product) {
    return fused_difference<N>(a, b, product);
}
template <int N>
NDPOOL_INLINE vec<double, N> product_error(vec<double, N> a, vec<double, N> b, vec<double, N> product) {
#if defined(__AVX512F__)
    return bits<vec<double, N>>(_mm512_fmsub_pd(bits<__m512d>(a), bits<__m512d>(b), bits<__m512d>(product)));
#elif defined(__FMA__)
    return bits<vec<double, N>>(_mm256_fmsub_pd(bits<__m256d>(a), bits<__m256d>(b), bits<__m256d>(product)));
#elif defined(__aarch64__)
    return bits<vec<double, N>>(
        vfmaq_f64(vnegq_f64(bits<float64x2_t>(product)), bits<float64x2_t>(a), bits<float64x2_t>(b)));
#else
    return a * b - product;
#endif
}

// exp(x + rest) for x <= 709 and a small rest, to the last place or so; 0 below -708. FOR_FLOATS asks for nine digits
// only.
template <int N, bool FOR_FLOATS = false>
NDPOOL_INLINE vec<double, N> exp_lanes(vec<double, N> x, vec<double, N> rest = splat<double, N>(0)) {
    using V = vec<double, N>;
    V clamped = x < -708.0 ? splat<double, N>(-708.0) : x;
    const double magic = 0x1.8p52;
    V shifted = clamped * PER_LOG_2 + magic;  // the nearest whole number of log 2, in the low bits
    V n = shifted - magic;
    V r = (clamped - n * 0x1.62e42fefa38p-1) - n * 0x1.ef35793c7673p-45 + rest;
    V p = splat<double, N>(FOR_FLOATS ? 1.0 / 40320.0 : 1.0 / 6227020800.0);
    if (!FOR_FLOATS) {
        p = p * r + 1.0 / 479001600.0;
        p = p * r + 1.0 / 39916800.0;
        p = p * r + 1.0 / 3628800.0;
        p = p * r + 1.0 / 362880.0;
        p = p * r + 1.0 / 40320.0;
    }
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r * r + r + 1.0;
    V power = bits<V>((bits<vec<std::uint64_t, N>>(shifted) << 52) + bits<vec<std::uint64_t, N>>(p));
    V large = x > 709.0 ? splat<double, N>(__builtin_inf()) : power;
    V result = x < -708.0 ? splat<double, N>(0.0) : large;
    return x == x ? result : x;
}

// 2^(n + r) in floats, for whole n and r from -1/2 to 1/2; 0 where n is below `least`, and infinite where it is too
// large.
template <int N>
NDPOOL_INLINE vec<float, N> exp2_of(vec<float, N> n, vec<float, N> r, float least) {
    using V = vec<float, N>;
    // 1 + r p(r), with the p whose relative error is the least: 1.7e-8 with its numbers rounded.
    V p = splat<float, N>(0x1.41fb34p-13f);
    p = p * r + 0x1.5f3f34p-10f;
    p = p * r + 0x1.3b2d5p-7f;
    p = p * r + 0x1.c6aee6p-5f;
    p = p * r + 0x1.ebfbdcp-3f;
    p = p * r + 0x1.62e43p-1f;
    p = p * r + 1.0f;
#if defined(__AVX512F__)
    if constexpr (N == 16) {
        auto not_below = _mm512_cmp_ps_mask(bits<__m512>(n), _mm512_set1_ps(least), _CMP_NLT_UQ);
        return bits<V>(_mm512_maskz_scalef_ps(not_below, bits<__m512>(p), bits<__m512>(n)));
    }
#endif
    using U = vec<std::uint32_t, N>;
    V none{}, power = bits<V>((bits<U>(n + WHOLE) << 23) + bits<U>(p));
    power = n < least ? none : power;
    power = n > 126.0f ? splat<float, N>(__builtin_inff()) : power;
    return n == n ? power : n;
}

// 2^x for x <= 0; 0 below -100.
template <int N>
NDPOOL_INLINE vec<float, N> exp2_lanes(vec<float, N> x) {
    vec<float, N> n = x + WHOLE - WHOLE;
    return exp2_of<N>(n, x - n, -100.0f);
}

// x - s, and what the difference has lost.
template <class T, int N>
struct ExactDifference {
    vec<T, N> difference, lost;

    NDPOOL_INLINE ExactDifference(vec<T, N> x, vec<T, N> s) : difference(x - s) {
        const vec<T, N> part = difference - x;
        lost = (x - (difference - part)) - (s + part);
    }
};

// exp(beta (x - s)), as accurate as the last place whatever the exponent: what the difference and the product lose is
// carried along.
template <class T>
class ExpTerm;
// In floats: 0 where it would be below the normal floats, which are slow.
template <>
class ExpTerm<float> {
  public:
    explicit ExpTerm(double beta) {
        double factor = beta * PER_LOG_2;
        high = static_cast<float>(factor);
        low = static_cast<float>(factor - static_cast<double>(high));
    }
    template <int N>
    NDPOOL_INLINE vec<float, N> of(vec<float, N> x, vec<float, N> s) const {
        using V = vec<float, N>;
        const ExactDifference<float, N> d(x, s);
        V b = splat<float, N>(high);
        V a = b * d.difference;
        V n = a + WHOLE - WHOLE;
        V rest = product_error<N>(b, d.difference, a) + b * d.lost + low * d.difference;
        return exp2_of<N>(n, a - n + rest, -125.0f);
    }
    // To five digits or more, which are enough for floats of 16 bits.
    template <int N>
    NDPOOL_INLINE vec<float, N> rough(vec<float, N> x, vec<float, N> s) const {
        vec<float, N> a = (x - s) * high, n = a + WHOLE - WHOLE;
        return exp2_of<N>(n, a - n, -125.0f);
    }

  private:
    float high, low;
};
template <>
class ExpTerm<double> {
  public:
    explicit ExpTerm(double beta) : beta(beta) {}
    template <int N>
    NDPOOL_INLINE vec<double, N> of(vec<double, N> x, vec<double, N> s) const {
        const ExactDifference<double, N> d(x, s);
        vec<double, N> b = splat<double, N>(beta), a = b * d.difference;
        return exp_lanes<N>(a, product_error<N>(b, d.difference, a) + b * d.lost);
    }

  private:
    double beta;
};

// 1/x to fourteen digits, for x in the range of floats: a division of floats takes a quarter of the time, and one step
// of Newton's doubles its digits.
template <int N>
NDPOOL_INLINE vec<double, N> reciprocal(vec<double, N> x) {
    vec<double, N> guess = convert<double, N>(1.0f / convert<float, N>(x));
    return guess * (2.0 - x * guess);
}

// 1/x in floats, to the last place or so, for x from 2^-100 to 2^100.
template <int N>
NDPOOL_INLINE vec<float, N> reciprocal(vec<float, N> x) {
#if defined(__AVX512F__)
    if constexpr (N == 16) {
        auto guess = bits<vec<float, N>>(_mm512_rcp14_ps(bits<__m512>(x)));
        return guess * (2.0f - x * guess);
    }
#endif
    return 1.0f / x;
}

// A logarithm as a whole number of log 2, exact but for its last bits, and the rest.
template <int N>
struct LogInTwo {
    vec<double, N> whole, rest;
};
// For positive normal x; FOR_FLOATS asks for nine digits only.
template <int N, bool FOR_FLOATS = false>
NDPOOL_INLINE LogInTwo<N> log_in_two(vec<double, N> x) {
    using V = vec<double, N>;
    using I = vec<std::int64_t, N>;
    using U = vec<std::uint64_t, N>;
    U b = bits<U>(x);
    // x = m 2^e with m from sqrt(1/2) to sqrt(2).
    I e = bits<I>(b - 0x3fe6a09e667f3bcdull) >> 52;
    V m = bits<V>(b - (bits<U>(e) << 52));
    V f = FOR_FLOATS ? (m - 1.0) * reciprocal<N>(m + 1.0) : (m - 1.0) / (m + 1.0), s = f * f;
    V p = splat<double, N>(FOR_FLOATS ? 0 : 1.0 / 21.0);
    if (!FOR_FLOATS) {
        p = p * s + 1.0 / 19.0;
        p = p * s + 1.0 / 17.0;
        p = p * s + 1.0 / 15.0;
        p = p * s + 1.0 / 13.0;
        p = p * s + 1.0 / 11.0;
    }
    p = p * s + 1.0 / 9.0;
    p = p * s + 1.0 / 7.0;
    p = p * s + 1.0 / 5.0;
    p = p * s + 1.0 / 3.0;
    V k = convert<double, N>(e);
    V small = 2.0 * f * s * p + k * 0x1.ef35793c7673p-45;
    return {k * 0x1.62e42fefa38p-1, 2.0 * f + small};
}
template <int N, bool FOR_FLOATS = false>
NDPOOL_INLINE vec<double, N> log_lanes(vec<double, N> x) {
    const auto log = log_in_two<N, FOR_FLOATS>(x);
    return log.whole + log.rest;
}

// x = (1 + t) 2^k in floats, with 1 + t from sqrt(1/2) to sqrt(2).
template <int N>
struct LogParts {
    vec<float, N> t, k;

    NDPOOL_INLINE explicit LogParts(vec<float, N> x) {
        using U = vec<std::uint32_t, N>;
        U b = bits<U>(x);
        auto e = bits<vec<std::int32_t, N>>(b - 0x3f3504f3u) >> 23;
        t = bits<vec<float, N>>(b - (bits<U>(e) << 23)) - 1.0f;
        k = convert<float, N>(e);
    }
    // log(1 + t) - t = -t^2/2 + t^3 p(t), with the p whose relative error is the least: 8e-9.
    NDPOOL_INLINE vec<float, N> tail() const {
        vec<float, N> square = t * t;
        vec<float, N> p = (t * -0x1.38b6p-4f + 0x1.055bd2p-3f) * square + (t * -0x1.0d855ap-3f + 0x1.22da12p-3f);
        p = p * square + (t * -0x1.54724p-3f + 0x1.99a008p-3f);
        p = p * square + (t * -0x1.000228p-2f + 0x1.555554p-2f);
        return square * (p * t - 0.5f);
    }
};

// The same in floats, to the last place or so.
template <int N>
NDPOOL_INLINE vec<float, N> log_lanes(vec<float, N> x) {
    const LogParts<N> parts(x);
    vec<float, N> small = parts.tail() + parts.k * 0x1.7f7d1cp-20f;
    return parts.k * 0x1.62e4p-1f + (parts.t + small);
}

// r ** p for r >= 0.
template <int N, bool FOR_FLOATS = false>
NDPOOL_INLINE vec<double, N> pow_lanes(vec<double, N> r, double p) {
    using V = vec<double, N>;
    V tiny = r < 1e-300 ? splat<double, N>(1e-300) : r;
    V result = exp_lanes<N, FOR_FLOATS>(p * log_lanes<N, FOR_FLOATS>(tiny));
    result = r < 1e-300 ? splat<double, N>(0.0) : result;
    return (r - r == 0) ? result : r;  // infinities and NaN stay
}

// (x / s) ** p for x >= 0, where s is a power of 2.
template <class T>
class Power;
// In floats: the last place or so is right for p up to 8; 0 where it would be below the normal floats.
template <>
class Power<float> {
  public:
    Power(double p, float s = 1)
        : high(static_cast<float>(p)),
          low(static_cast<float>(p - static_cast<double>(high))),
          scale_exponent(static_cast<float>(static_cast<int>(bits<std::uint32_t>(s) >> 23) - 127)) {}
    template <int N>
    NDPOOL_INLINE vec<float, N> of(vec<float, N> x) const {
        using V = vec<float, N>;
        // log2 x = k + a + rest
        auto subnormal = x < 0x1p-126f;
        const LogParts<N> log(subnormal ? x * 0x1p24f : x);
        V k = log.k - scale_exponent;
        k = subnormal ? k - 24.0f : k;
        const V per_log_2 = splat<float, N>(0x1.715476p0f), factor = splat<float, N>(high);
        V a = log.t * per_log_2;
        V rest = product_error<N>(log.t, per_log_2, a) + (log.t * 0x1.4ae0cp-26f + log.tail() * per_log_2);
        // p times that, as a whole number and a rest; p k less a whole number is exact.
        V b = a * factor;
        V n = factor * k + (b + factor * rest) + WHOLE - WHOLE;
        V r = product_error<N>(factor, k, n) + b;
        r += product_error<N>(factor, a, b) + (factor * rest + low * (k + a));
        V none{}, power = exp2_of<N>(n, r, -125.0f);
        power = x == 0 ? none : power;
        return x - x == 0 ? power : x;  // infinities and NaN stay
    }

  private:
    float high, low, scale_exponent;
};
template <>
class Power<double> {
  public:
    Power(double p, double s) : p(p), inverse(1 / s) {}
    template <int N>
    NDPOOL_INLINE vec<double, N> of(vec<double, N> x) const {
        return pow_lanes<N>(x * inverse, p);
    }

  private:
    double p, inverse;
};

template <int N>
NDPOOL_INLINE vec<double, N> sqrt_lanes(vec<double, N> x) {
    x = x > 0 ? x : splat<double, N>(0.0);
#if defined(__AVX512F__)
    if constexpr (N == 8) return bits<vec<double, N>>(_mm512_sqrt_pd(bits<__m512d>(x)));
#elif defined(__AVX2__)
    if constexpr (N == 4) return bits<vec<double, N>>(_mm256_sqrt_pd(bits<__m256d>(x)));
#endif
    for (int i = 0; i < N; ++i) x[i] = __builtin_sqrt(x[i]);
    return x;
}
template <int N>
NDPOOL_INLINE vec<float, N> sqrt_lanes(vec<float, N> x) {
    x = x > 0 ? x : splat<float, N>(0.0f);
#if defined(__AVX512F__)
    if constexpr (N == 16) return bits<vec<float, N>>(_mm512_sqrt_ps(bits<__m512>(x)));
#endif
#if defined(__AVX2__)
    if constexpr (N == 8) return bits<vec<float, N>>(_mm256_sqrt_ps(bits<__m256>(x)));
    if constexpr (N == 4) return bits<vec<float, N>>(_mm_sqrt_ps(bits<__m128>(x)));
#endif
    for (int i = 0; i < N; ++i) x[i] = __builtin_sqrtf(x[i]);
    return x;
}

// 1/sqrt(x) in floats, to the last place or so, for x from 2^-100 to 2^100.
template <int N>
NDPOOL_INLINE vec<float, N> reciprocal_root(vec<float, N> x) {
#if defined(__AVX512F__)
    if constexpr (N == 16) {
        auto guess = bits<vec<float, N>>(_mm512_rsqrt14_ps(bits<__m512>(x)));
        return guess * (1.5f - 0.5f * x * guess * guess);
    }
#endif
    return 1.0f / sqrt_lanes<N>(x);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
