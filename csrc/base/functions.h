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
    // By halves, whose products are exact.
    using U = vec<std::uint64_t, N>;
    const auto upper = [](vec<double, N> v)
                           NDPOOL_INLINED { return bits<vec<double, N>>(bits<U>(v) & ~std::uint64_t(0x7ffffff)); };
    const vec<double, N> a_high = upper(a), b_high = upper(b), a_low = a - a_high, b_low = b - b_high;
    return ((a_high * b_high - product) + (a_low * b_high + a_high * b_low)) + a_low * b_low;
#endif
}

// exp(r) for r from -log(2)/2 to log(2)/2; FOR_FLOATS asks for nine digits only.
template <int N, bool FOR_FLOATS = false>
NDPOOL_INLINE vec<double, N> exp_mantissa(vec<double, N> r) {
    vec<double, N> p = splat<double, N>(FOR_FLOATS ? 1.0 / 40320.0 : 1.0 / 6227020800.0);
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
    return p * r * r + r + 1.0;
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
    const V p = exp_mantissa<N, FOR_FLOATS>(r);
    V power = bits<V>((bits<vec<std::uint64_t, N>>(shifted) << 52) + bits<vec<std::uint64_t, N>>(p));
    V large = x > 709.0 ? splat<double, N>(__builtin_inf()) : power;
    V result = x < -708.0 ? splat<double, N>(0.0) : large;
    return x == x ? result : x;
}

// A positive number as p 2^n, with p near 1 and a whole n. Both follow from what it is computed from alone, whatever
// the scale of the numbers beside it.
template <class T, int N>
struct Scaled {
    vec<T, N> p, n;
};
template <int N>
NDPOOL_INLINE Scaled<double, N> widened(const Scaled<float, N> &a) {
    return {convert<double, N>(a.p), convert<double, N>(a.n)};
}

// p 2^n, for p near 1; 0 where that would be below the normal numbers, which are slow, and infinite where n is too
// large.
template <int N>
NDPOOL_INLINE vec<float, N> times_power(vec<float, N> p, vec<float, N> n) {
    using V = vec<float, N>;
    constexpr float LEAST = -125.0f;
#if defined(__AVX512F__)
    if constexpr (N == 16) {
        auto not_below = _mm512_cmp_ps_mask(bits<__m512>(n), _mm512_set1_ps(LEAST), _CMP_NLT_UQ);
        return bits<V>(_mm512_maskz_scalef_ps(not_below, bits<__m512>(p), bits<__m512>(n)));
    }
#endif
    using U = vec<std::uint32_t, N>;
    V none{}, power = bits<V>((bits<U>(n + WHOLE) << 23) + bits<U>(p));
    power = n < LEAST ? none : power;
    power = n > 126.0f ? splat<float, N>(__builtin_inff()) : power;
    return n == n ? power : n;
}
constexpr double WHOLE_DOUBLE = 0x1.8p52;
template <int N>
NDPOOL_INLINE vec<double, N> times_power(vec<double, N> p, vec<double, N> n) {
    using V = vec<double, N>;
    constexpr double LEAST = -1021.0;
#if defined(__AVX512F__)
    if constexpr (N == 8) {
        auto not_below = _mm512_cmp_pd_mask(bits<__m512d>(n), _mm512_set1_pd(LEAST), _CMP_NLT_UQ);
        return bits<V>(_mm512_maskz_scalef_pd(not_below, bits<__m512d>(p), bits<__m512d>(n)));
    }
#endif
    using U = vec<std::uint64_t, N>;
    V none{}, power = bits<V>((bits<U>(n + WHOLE_DOUBLE) << 52) + bits<U>(p));
    power = n < LEAST ? none : power;
    power = n > 1022.0 ? splat<double, N>(__builtin_inf()) : power;
    return n == n ? power : n;
}
// 2^n, for whole n from -1021 to 1022.
template <int N>
NDPOOL_INLINE vec<double, N> power_of_two(vec<double, N> n) {
    return times_power<N>(splat<double, N>(1), n);
}

// 2^r in floats, for r from -1/2 to 1/2; times a power of 2, with the same bits.
template <int N>
NDPOOL_INLINE vec<float, N> exp2_mantissa(vec<float, N> r, float times = 1) {
    // 1 + r p(r), with the p whose relative error is the least: 1.7e-8 with its numbers rounded.
    vec<float, N> p = splat<float, N>(times * 0x1.41fb34p-13f);
    p = p * r + times * 0x1.5f3f34p-10f;
    p = p * r + times * 0x1.3b2d5p-7f;
    p = p * r + times * 0x1.c6aee6p-5f;
    p = p * r + times * 0x1.ebfbdcp-3f;
    p = p * r + times * 0x1.62e43p-1f;
    return p * r + times;
}

// exp(beta x), as accurate as the last place whatever the exponent. It is right for exponents of 2 up to LIMIT in size;
// beyond, n is as far beyond, or so.
template <class T>
class ExpTerm;
template <>
class ExpTerm<float> {
  public:
    static constexpr double LIMIT = 0x1p22;
    explicit ExpTerm(double beta) {
        const double factor = beta * PER_LOG_2;
        high = static_cast<float>(factor);
        low = static_cast<float>(factor - static_cast<double>(high));
    }
    template <int N>
    NDPOOL_INLINE Scaled<float, N> of(vec<float, N> x) const {
        using V = vec<float, N>;
        const V b = splat<float, N>(high), n = x * high + WHOLE - WHOLE;
        return {exp2_mantissa<N>(fused_sum<N>(x, splat<float, N>(low), product_error<N>(b, x, n))), n};
    }
    // The same times 2^-shift, of an even shift, where n is near it; else `far` gets bits other than 0.
    template <int N>
    NDPOOL_INLINE vec<float, N> near(vec<float, N> x, float shift, vec<std::uint32_t, N> &far) const {
        using V = vec<float, N>;
        using U = vec<std::uint32_t, N>;
        const float whole = WHOLE + 64.0f - shift;
        const V b = splat<float, N>(high), raised = x * high + whole;  // n - shift + 64 is in its low bits
        const V r = fused_sum<N>(x, splat<float, N>(low), product_error<N>(b, x, raised - whole));
        const V p = exp2_mantissa<N>(r, 0x1p-64f);
        far |= (bits<U>(raised) ^ bits<std::uint32_t>(WHOLE)) & ~std::uint32_t(127);
        return bits<V>((bits<U>(raised) << 23) + bits<U>(p));
    }

  private:
    float high, low;
};
template <>
class ExpTerm<double> {
  public:
    static constexpr double LIMIT = 0x1p50;
    explicit ExpTerm(double beta)
        : high(beta * PER_LOG_2),
          low(product_error<LANES<double>>(all(beta), all(PER_LOG_2), all(high))[0] + beta * 0x1.777d0ffda0d24p-56) {}
    template <int N>
    NDPOOL_INLINE Scaled<double, N> of(vec<double, N> x) const {
        using V = vec<double, N>;
        const V b = splat<double, N>(high), n = x * high + WHOLE_DOUBLE - WHOLE_DOUBLE;
        return {exp_mantissa<N>(LOG_2 * fused_sum<N>(x, splat<double, N>(low), product_error<N>(b, x, n))), n};
    }

  private:
    double high, low;
    static vec<double, LANES<double>> all(double v) { return splat<double, LANES<double>>(v); }
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
    if constexpr (N == 8) {  // to the bit the same
        auto guess = bits<vec<float, N>>(_mm256_rcp14_ps(bits<__m256>(x)));
        return guess * (2.0f - x * guess);
    }
#endif
    return 1.0f / x;
}

// x = m 2^k for positive normal x, with m from sqrt(1/2) to sqrt(2), and log m as `most` and `rest`; FOR_FLOATS asks
// for nine digits only.
template <int N, bool FOR_FLOATS = false>
struct LogInTwo {
    using V = vec<double, N>;
    V k, most, rest;

    NDPOOL_INLINE explicit LogInTwo(V x) {
        using I = vec<std::int64_t, N>;
        using U = vec<std::uint64_t, N>;
        U b = bits<U>(x);
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
        k = convert<double, N>(e);
        most = 2.0 * f;
        rest = most * s * p;
    }
    NDPOOL_INLINE V mantissa() const { return most + rest; }
};
template <int N, bool FOR_FLOATS = false>
NDPOOL_INLINE vec<double, N> log_lanes(vec<double, N> x) {
    const LogInTwo<N, FOR_FLOATS> log(x);
    return log.k * 0x1.62e42fefa38p-1 + (log.most + (log.k * 0x1.ef35793c7673p-45 + log.rest));
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

// A double rounded to as many bits as floats have, whatever its exponent.
template <int N>
NDPOOL_INLINE vec<double, N> to_float_bits(vec<double, N> v) {
    using U = vec<std::uint64_t, N>;
    const U b = bits<U>(v);
    return bits<vec<double, N>>((b + 0xfffffff + ((b >> 29) & 1)) & ~std::uint64_t(0x1fffffff));
}

// A positive normal double as m 2^e: m from 1 to 2, rounded to a float.
template <int N>
struct FloatInTwo {
    vec<float, N> m;
    vec<double, N> e;

    NDPOOL_INLINE explicit FloatInTwo(vec<double, N> x) {
        using V = vec<double, N>;
        using U = vec<std::uint64_t, N>;
        const U b = bits<U>(x);
        m = convert<float, N>(bits<V>((b & 0xfffffffffffffull) | 0x3ff0000000000000ull));
        e = bits<V>(b >> 52 | 0x4330000000000000ull) - (0x1p52 + 1023);
    }
};

// r ** p for r >= 0.
template <int N, bool FOR_FLOATS = false>
NDPOOL_INLINE vec<double, N> pow_lanes(vec<double, N> r, double p) {
    using V = vec<double, N>;
    V tiny = r < 1e-300 ? splat<double, N>(1e-300) : r;
    V result = exp_lanes<N, FOR_FLOATS>(p * log_lanes<N, FOR_FLOATS>(tiny));
    result = r < 1e-300 ? splat<double, N>(0.0) : result;
    return (r - r == 0) ? result : r;  // infinities and NaN stay
}

// x ** p for x >= 0, times 2^-shift.
template <class T>
class Power;
// In floats: the last place or so is right for p up to 8.
template <>
class Power<float> {
  public:
    Power(double p, double shift)
        : high(static_cast<float>(p)),
          low(static_cast<float>(p - static_cast<double>(high))),
          shift(static_cast<float>(shift)) {}
    template <int N>
    NDPOOL_INLINE vec<float, N> of(vec<float, N> x) const {
        const Scaled<float, N> power = parts<N>(x, vec<float, N>{});
        return ends<N>(x, times_power<N>(power.p, power.n - shift));
    }
    // The same, of doubles that are floats.
    template <int N>
    NDPOOL_INLINE vec<double, N> of(vec<double, N> x) const {
        const Scaled<double, N> power = widened<N>(parts<N>(convert<float, N>(x), vec<float, N>{}));
        return ends<N>(x, times_power<N>(power.p, power.n - static_cast<double>(shift)));
    }

    // (x 2^before) ** p, without the shift.
    template <int N>
    NDPOOL_INLINE Scaled<float, N> parts(vec<float, N> x, vec<float, N> before) const {
        using V = vec<float, N>;
        // log2 of x 2^before = k + a + rest
        auto subnormal = x < 0x1p-126f;
        const LogParts<N> log(subnormal ? x * 0x1p24f : x);
        const V k = (subnormal ? log.k - 24.0f : log.k) + before;
        const V per_log_2 = splat<float, N>(0x1.715476p0f), factor = splat<float, N>(high);
        const V a = log.t * per_log_2;
        V rest = fused_sum<N>(log.t, splat<float, N>(0x1.4ae0cp-26f), product_error<N>(log.t, per_log_2, a));
        rest = fused_sum<N>(log.tail(), per_log_2, rest);
        // p times that, as a whole number and a rest; p k less a whole number is exact.
        const V b = a * factor, most = fused_sum<N>(factor, rest, b);
        const V n = fused_sum<N>(factor, k, most) + WHOLE - WHOLE;
        V r = (product_error<N>(factor, k, n) + b) + product_error<N>(factor, a, b);
        r = fused_sum<N>(factor, rest, r);
        r = fused_sum<N>(splat<float, N>(low), k + a, r);
        return {exp2_mantissa<N>(r), n};
    }

  private:
    float high, low, shift;

    // Infinities and NaN stay.
    template <int N, class V>
    NDPOOL_INLINE static V ends(V x, V power) {
        const V none{};
        power = x == 0 ? none : power;
        return x - x == 0 ? power : x;
    }
};

// A number in two parts: the product of the first with a whole number, of up to 26 bits, is exact.
struct InHalves {
    double high, low;
    explicit InHalves(double p, double more = 0)
        : high(bits<double>(bits<std::uint64_t>(p) & ~std::uint64_t(0x7ffffff))), low((p - high) + more) {}
};
// a / b, with what the quotient has lost.
inline InHalves quotient_in_halves(double a, double b) {
    constexpr int N = LANES<double>;
    const double q = a / b;
    const auto error = product_error<N>(splat<double, N>(q), splat<double, N>(b), splat<double, N>(a));
    return InHalves(q, -error[0] / b);
}
// (x 2^before) ** p for positive normal x, in doubles; FOR_FLOATS asks for nine digits only.
template <int N, bool FOR_FLOATS = false>
NDPOOL_INLINE Scaled<double, N> power_in_two(vec<double, N> x, vec<double, N> before, const InHalves &p) {
    using V = vec<double, N>;
    const LogInTwo<N, FOR_FLOATS> log(x);
    const V k = log.k + before, most = k * p.high;
    const V part = log.mantissa() * ((p.high + p.low) * PER_LOG_2);
    const V n = (most + part) + WHOLE_DOUBLE - WHOLE_DOUBLE;
    const V r = (most - n) + fused_sum<N>(k, splat<double, N>(p.low), part);
    return {exp_mantissa<N, FOR_FLOATS>(r * LOG_2), n};
}
template <>
class Power<double> {
  public:
    Power(double p, double shift) : p(p), shift(shift) {}
    template <int N>
    NDPOOL_INLINE vec<double, N> of(vec<double, N> x) const {
        const auto subnormal = x < 0x1p-1022;
        const V<N> none{}, up = subnormal ? x * 0x1p60 : x, before = subnormal ? splat<double, N>(-60) : none;
        const Scaled<double, N> power = power_in_two<N>(up, before, p);
        V<N> result = times_power<N>(power.p, power.n - shift);
        result = x == 0 ? none : result;
        return x - x == 0 ? result : x;  // infinities and NaN stay
    }

  private:
    template <int N>
    using V = vec<double, N>;
    InHalves p;
    double shift;
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
    if constexpr (N == 8) {  // to the bit the same
        auto guess = bits<vec<float, N>>(_mm256_rsqrt14_ps(bits<__m256>(x)));
        return guess * (1.5f - 0.5f * x * guess * guess);
    }
#endif
    return 1.0f / sqrt_lanes<N>(x);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
