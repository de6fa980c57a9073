// What follows from the sum of a window's terms: the output, and what the weights of its cells are divided by.
//
// A sum that is held times a power of 2 gives the same to the bit, whichever power that is: mantissas and exponents are
// taken apart. Of terms that have no more bits than floats, sums are rounded to floats first.
#pragma once
#include "kinds/smooth.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// log(sum 2^shift) / beta. A logarithm may be far from 0 and the output near: what its largest part loses is added
// again.
template <class T>
class LogValue;
template <>
class LogValue<float> {
  public:
    LogValue(double shift, double beta)
        : shift(static_cast<float>(shift)),
          per_beta(static_cast<float>(1 / beta)),
          high(static_cast<float>(LOG_2 / beta)),
          low(static_cast<float>(LOG_2 / beta - static_cast<double>(high))) {}
    template <int N>
    NDPOOL_INLINE vec<float, N> of(vec<float, N> sum) const {
        return of<N>(sum, splat<float, N>(shift));
    }
    // Of a sum of doubles.
    template <int N>
    NDPOOL_INLINE vec<double, N> of(vec<double, N> sum) const {
        const FloatInTwo<N> parts(sum);
        return convert<double, N>(of<N>(parts.m, convert<float, N>(parts.e) + shift));
    }
    // And with an exponent for each of them, without the shift.
    template <int N>
    NDPOOL_INLINE vec<double, N> of(vec<double, N> sum, vec<double, N> more) const {
        const FloatInTwo<N> parts(sum);
        return convert<double, N>(of<N>(parts.m, convert<float, N>(parts.e + more)));
    }

    // With an exponent for each sum.
    template <int N>
    NDPOOL_INLINE vec<float, N> of(vec<float, N> sum, vec<float, N> more) const {
        const LogParts<N> parts(sum);
        const vec<float, N> k = parts.k + more, unit = splat<float, N>(high), most = k * unit;
        const vec<float, N> lost = fused_sum<N>(k, splat<float, N>(low), product_error<N>(k, unit, most));
        return most + fused_sum<N>(parts.t + parts.tail(), splat<float, N>(per_beta), lost);
    }

  private:
    float shift, per_beta, high, low;
};
template <>
class LogValue<double> {
  public:
    LogValue(double shift, double beta)
        : shift(shift),
          per_beta(1 / beta),
          high(LOG_2 / beta),
          low((0x1.abc9e3b39803fp-56 - product_error<LANES<double>>(all(high), all(beta), all(LOG_2))[0]) / beta) {}
    template <int N>
    NDPOOL_INLINE vec<double, N> of(vec<double, N> sum) const {
        return of<N>(sum, splat<double, N>(shift));
    }
    // With an exponent for each sum.
    template <int N>
    NDPOOL_INLINE vec<double, N> of(vec<double, N> sum, vec<double, N> more) const {
        const LogInTwo<N> log(sum);
        const vec<double, N> k = log.k + more, unit = splat<double, N>(high), most = k * unit;
        const vec<double, N> lost = fused_sum<N>(k, splat<double, N>(low), product_error<N>(k, unit, most));
        return most + fused_sum<N>(log.mantissa(), splat<double, N>(per_beta), lost);
    }

  private:
    double shift, per_beta, high, low;
    static vec<double, LANES<double>> all(double v) { return splat<double, LANES<double>>(v); }
};

// (sum 2^before)^(a/b) 2^after, as accurate as terms with more or fewer bits are.
class SumPower {
  public:
    SumPower(const Smooth &kind, double before, double a, double b, double after)
        : before(before),
          after(after),
          p(quotient_in_halves(a, b)),
          in_floats(a / b, 0),
          narrow(kind.narrow),
          rough(kind.rough) {}
    template <int N>
    NDPOOL_INLINE vec<float, N> of(vec<float, N> sum) const {
        using V = vec<float, N>;
        const Scaled<float, N> power = in_floats.parts<N>(sum, splat<float, N>(static_cast<float>(before)));
        return sum == 0 ? sum : scaled<N>(Scaled<float, N>{power.p, power.n + static_cast<float>(after)}, V{} + WHOLE);
    }
    template <int N>
    NDPOOL_INLINE vec<double, N> of(vec<double, N> sum) const {
        using V = vec<double, N>;
        const V first = splat<double, N>(before);
        Scaled<double, N> power;
        if (rough) {
            const FloatInTwo<N> parts(sum);
            power = widened<N>(in_floats.parts<N>(parts.m, convert<float, N>(parts.e + first)));
        } else {
            power = narrow ? power_in_two<N, true>(sum, first, p) : power_in_two<N, false>(sum, first, p);
        }
        return sum == 0 ? sum : scaled<N>(Scaled<double, N>{power.p, power.n + after}, V{} + WHOLE_DOUBLE);
    }

  private:
    double before, after;
    InHalves p;
    Power<float> in_floats;
    bool narrow, rough;

    // By halves, as the power may be below the normal numbers.
    template <int N, class T>
    NDPOOL_INLINE static vec<T, N> scaled(const Scaled<T, N> &a, vec<T, N> whole) {
        const vec<T, N> half = a.n * T(0.5) + whole - whole;
        return times_power<N>(a.p, half) * times_power<N>(splat<T, N>(1), a.n - half);
    }
};

// A sum of squares as m 4^h: m from 1 to 4, rounded to a float.
template <int N>
struct SquareInTwo {
    vec<float, N> m;
    vec<double, N> h;

    NDPOOL_INLINE explicit SquareInTwo(vec<double, N> sum) {
        const FloatInTwo<N> parts(sum);
        h = (parts.e * 0.5 - 0.25) + WHOLE_DOUBLE - WHOLE_DOUBLE;
        const auto odd = parts.e - 2.0 * h;
        m = parts.m * convert<float, N>(odd + 1.0);
    }
};

// Calls f(value) with what value(sum) gives: the outputs of a register of windows.
template <class S, class F>
NDPOOL_INLINE void with_value(const Smooth &kind, const TermScale &scale, const F &f) {
    constexpr int N = LANES<S>;
    using V = vec<S, N>;
    constexpr bool WIDE = std::is_same_v<S, double>;
    const double p = kind.parameter;
    if (!kind.lp) {
        if constexpr (WIDE)
            if (!kind.narrow)
                return f([log = LogValue<double>(scale.term, p)](V sum) NDPOOL_INLINED { return log.of<N>(sum); });
        return f([log = LogValue<float>(scale.term, p)](V sum) NDPOOL_INLINED { return log.of<N>(sum); });
    }
    const S cell = static_cast<S>(1 / scale.inverse<double>());
    if (p == 1) return f([cell](V sum) NDPOOL_INLINED { return cell * sum; });
    if (p == 2) {
        if constexpr (WIDE)
            if (kind.narrow)
                return f([cell](V sum) NDPOOL_INLINED {
                    const SquareInTwo<N> square(sum);
                    const V root = convert<double, N>(sqrt_lanes<N>(square.m)) * power_of_two<N>(square.h);
                    return sum == 0 ? sum : cell * root;
                });
        return f([cell](V sum) NDPOOL_INLINED { return cell * sqrt_lanes<N>(sum); });
    }
    f([root = SumPower(kind, scale.term, 1, p, 0)](V sum) NDPOOL_INLINED { return root.of<N>(sum); });
}

// Calls f(share) with what share(v, sum) gives: v over what the weights of a window are divided by, and 0 where there
// are none.
template <class S, class F>
NDPOOL_INLINE void with_share(const Smooth &kind, const TermScale &scale, const F &f) {
    constexpr int N = LANES<S>;
    using V = vec<S, N>;
    constexpr bool WIDE = std::is_same_v<S, double>;
    const double p = kind.parameter;
    if (kind.lp && p == 1) return f([](V v, V sum) NDPOOL_INLINED { return sum == 0 ? V{} : v; });
    const SumPower power(kind, scale.term, 1 - p, p, scale.weight);
    if constexpr (WIDE) {
        // A product of floats, whose exponents may be any.
        [[maybe_unused]] auto product = [](V v, V by)
                                            NDPOOL_INLINED { return to_float_bits<N>(to_float_bits<N>(v) * by); };
        if (!kind.lp && kind.narrow)
            return f([product](V v, V sum) NDPOOL_INLINED {
                const FloatInTwo<N> parts(sum);
                return product(v, convert<double, N>(reciprocal<N>(parts.m))) * power_of_two<N>(-parts.e);
            });
        if (!kind.lp) return f([](V v, V sum) NDPOOL_INLINED { return v / sum; });
        if (p == 2 && kind.narrow)
            return f([product](V v, V sum) NDPOOL_INLINED {
                const SquareInTwo<N> square(sum);
                const V root = convert<double, N>(reciprocal_root<N>(square.m));
                return sum == 0 ? V{} : product(v, root) * power_of_two<N>(-square.h);
            });
        if (p == 2) return f([](V v, V sum) NDPOOL_INLINED { return sum == 0 ? V{} : v / sqrt_lanes<N>(sum); });
        if (kind.rough)
            return f([product, power](V v, V sum)
                         NDPOOL_INLINED { return sum == 0 ? V{} : product(v, power.of<N>(sum)); });
    } else {
        if (!kind.lp) return f([](V v, V sum) NDPOOL_INLINED { return v * reciprocal<N>(sum); });
        if (p == 2) return f([](V v, V sum) NDPOOL_INLINED { return sum == 0 ? V{} : v * reciprocal_root<N>(sum); });
    }
    f([power](V v, V sum) NDPOOL_INLINED { return sum == 0 ? V{} : v * power.of<N>(sum); });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
