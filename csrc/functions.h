// exp, log and powers of whole registers: the last place or so is right, and nothing branches.
#pragma once
#include "lanes.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// For x <= 709, to the last place or so; 0 below -708.
template <int N>
NDPOOL_INLINE vec<double, N> exp_lanes(vec<double, N> x) {
    using V = vec<double, N>;
    V clamped = x < -708.0 ? splat<double, N>(-708.0) : x;
    const double magic = 0x1.8p52;
    V shifted = clamped * 0x1.71547652b82fep0 + magic;  // the nearest whole number of log 2, in the low bits
    V n = shifted - magic;
    V r = (clamped - n * 0x1.62e42fefa38p-1) - n * 0x1.ef35793c7673p-45;
    V p = splat<double, N>(1.0 / 6227020800.0);
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
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

// exp(beta (x - s)) in floats, as accurate as their last place whatever the exponent: what the difference and the
// product lose is carried along. For exponents up to 80; 0 below -80.
template <int N>
NDPOOL_INLINE vec<float, N> exp_term(vec<float, N> x, float s, float beta) {
    using V = vec<float, N>;
    V d = x - s;
    V part = d - x;
    V lost = (x - (d - part)) - (s + part);
    V b = splat<float, N>(beta);
    V a = b * d;
    V rest = fused_difference<N>(b, d, a) + b * lost;
    V clamped = a < -80.0f ? splat<float, N>(-80.0f) : a;
    const float magic = 0x1.8p23f;
    V shifted = clamped * 0x1.715476p0f + magic;
    V n = shifted - magic;
    V r = (clamped - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f + rest;
    V p = splat<float, N>(1.0f / 5040.0f);
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    V power = bits<V>((bits<vec<std::uint32_t, N>>(shifted) << 23) + bits<vec<std::uint32_t, N>>(p));
    return a < -80.0f ? splat<float, N>(0.0f) : power;
}

// 1/x to fourteen digits, for x in the range of floats: a division of floats takes a quarter of the time, and one step of
// Newton's doubles its digits.
template <int N>
inline vec<double, N> reciprocal(vec<double, N> x) {
    vec<double, N> guess = convert<double, N>(1.0f / convert<float, N>(x));
    return guess * (2.0 - x * guess);
}

// For positive normal x; FOR_FLOATS asks for nine digits only.
template <int N, bool FOR_FLOATS = false>
NDPOOL_INLINE vec<double, N> log_lanes(vec<double, N> x) {
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
    return k * 0x1.62e42fefa38p-1 + (2.0 * f + small);
}

// r ** p for r >= 0.
template <int N>
inline vec<double, N> pow_lanes(vec<double, N> r, double p) {
    using V = vec<double, N>;
    if (p == 0) return splat<double, N>(1.0);
    if (p == 1) return r;
    if (p == 2) return r * r;
    if (p == 3) return r * r * r;
    V tiny = r < 1e-300 ? splat<double, N>(1e-300) : r;
    V result = exp_lanes<N>(p * log_lanes<N>(tiny));
    result = r < 1e-300 ? splat<double, N>(0.0) : result;
    return (r - r == 0) ? result : r;  // infinities and NaN stay
}

template <int N>
inline vec<double, N> sqrt_lanes(vec<double, N> x) {
    x = x > 0 ? x : splat<double, N>(0.0);
#if defined(__AVX512F__)
    if constexpr (N == 8) return bits<vec<double, N>>(_mm512_sqrt_pd(bits<__m512d>(x)));
#elif defined(__AVX2__)
    if constexpr (N == 4) return bits<vec<double, N>>(_mm256_sqrt_pd(bits<__m256d>(x)));
#endif
    for (int i = 0; i < N; ++i) x[i] = __builtin_sqrt(x[i]);
    return x;
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
