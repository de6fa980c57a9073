// What follows from the sum of a window's terms: the output, and what the weights of its cells are divided by.
#pragma once
#include "kinds/smooth.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// s + log(sum) / beta.
template <class T>
class LogValue;

// A logarithm may be far from 0 and the output near: what its largest part and the sum lose is added again.
template <>
class LogValue<float> {
  public:
    LogValue(double s, double beta)
        : s(static_cast<float>(s)),
          per_beta(static_cast<float>(1 / beta)),
          high(static_cast<float>(LOG_2 / beta)),
          low(static_cast<float>(LOG_2 / beta - static_cast<double>(high))) {}
    template <int N>
    NDPOOL_INLINE vec<float, N> of(vec<float, N> sum) const {
        const LogParts<N> parts(sum);
        const vec<float, N> unit = splat<float, N>(high), most = parts.k * unit;
        const ExactDifference<float, N> whole(splat<float, N>(s), -most);
        const vec<float, N> lost = product_error<N>(parts.k, unit, most) + parts.k * low + whole.lost;
        return whole.difference + ((parts.t + parts.tail()) * per_beta + lost);
    }

  private:
    float s, per_beta, high, low;
};
// The logarithm may be much larger than log(n), and the output nearer to 0 than both: nothing is lost of the quotient
// or the sum.
template <>
class LogValue<double> {
  public:
    LogValue(double s, double beta) : s(s), beta(beta), per_beta(1 / beta) {}
    template <int N>
    NDPOOL_INLINE vec<double, N> of(vec<double, N> sum) const {
        const LogInTwo<N> log = log_in_two<N>(sum);
        const vec<double, N> quotient = log.whole * per_beta;
        const vec<double, N> left = log.rest - product_error<N>(quotient, splat<double, N>(beta), log.whole);
        const ExactDifference<double, N> whole(splat<double, N>(s), -quotient);
        return whole.difference + (whole.lost + left * per_beta);
    }

  private:
    double s, beta, per_beta;
};

// sum ** p, as accurate as terms of type E are.
template <class E, int N>
NDPOOL_INLINE vec<double, N> power_of(vec<double, N> sum, double p) {
    return pow_lanes<N, std::is_same_v<E, float>>(sum, p);
}
template <class E, int N>
NDPOOL_INLINE vec<float, N> power_of(vec<float, N> sum, double p) {
    return Power<float>(p).of<N>(sum);
}

// Calls f(value) with what value(sum) gives: the outputs of a register of windows. Sums of type S over terms of another
// type E are those of powers.
template <class E, class S, class F>
NDPOOL_INLINE void with_value(const Smooth &kind, double scale, const F &f) {
    using V = vec<S, LANES<S>>;
    const auto s = static_cast<S>(scale);
    const double p = kind.parameter;
    if constexpr (!std::is_same_v<E, S>)
        return f([s, p](V sum) NDPOOL_INLINED { return s * power_of<E, LANES<S>>(sum, 1 / p); });
    if constexpr (std::is_same_v<S, float>)
        if (!kind.lp && kind.rough)
            return f([s, per_beta = static_cast<float>(1 / p)](V sum)
                         NDPOOL_INLINED { return log_lanes<LANES<S>>(sum) * per_beta + s; });
    if (!kind.lp)
        f([log = LogValue<S>(scale, p)](V sum) NDPOOL_INLINED { return log.template of<LANES<S>>(sum); });
    else if (p == 1)
        f([s](V sum) NDPOOL_INLINED { return s * sum; });
    else if (p == 2)
        f([s](V sum) NDPOOL_INLINED { return s * sqrt_lanes<LANES<S>>(sum); });
    else
        f([s, p](V sum) NDPOOL_INLINED { return s * power_of<E, LANES<S>>(sum, 1 / p); });
}

template <int N>
NDPOOL_INLINE vec<double, N> over_sum(vec<double, N> v, vec<double, N> sum) {
    return v / sum;
}
template <int N>
NDPOOL_INLINE vec<float, N> over_sum(vec<float, N> v, vec<float, N> sum) {
    return v * reciprocal<N>(sum);
}
template <int N>
NDPOOL_INLINE vec<double, N> over_root(vec<double, N> v, vec<double, N> sum) {
    return v / sqrt_lanes<N>(sum);
}
template <int N>
NDPOOL_INLINE vec<float, N> over_root(vec<float, N> v, vec<float, N> sum) {
    return v * reciprocal_root<N>(sum);
}

// Calls f(share) with what share(v, sum) gives: v over what the weights of a window are divided by, and 0 where there
// are none.
template <class E, class S, class F>
NDPOOL_INLINE void with_share(const Smooth &kind, const F &f) {
    using V = vec<S, LANES<S>>;
    const double p = kind.parameter;
    auto over_power = [p](V v, V sum)
                          NDPOOL_INLINED { return sum == 0 ? V{} : v * power_of<E, LANES<S>>(sum, (1 - p) / p); };
    if constexpr (!std::is_same_v<E, S>) return f(over_power);
    if (!kind.lp)
        f([](V v, V sum) NDPOOL_INLINED { return over_sum<LANES<S>>(v, sum); });
    else if (p == 1)
        f([](V v, V sum) NDPOOL_INLINED { return sum == 0 ? V{} : v; });
    else if (p == 2)
        f([](V v, V sum) NDPOOL_INLINED { return sum == 0 ? V{} : over_root<LANES<S>>(v, sum); });
    else
        f(over_power);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
