// SmoothMax and Lp, each as a sum of terms.
//
//   SmoothMax   e_i = exp(beta (x_i - s))     y = s + log(sum e) / beta     dy/dx_i = e_i / sum e
//   Lp          e_i = (|x_i| / s)^p           y = s (sum e)^(1/p)           dy/dx_i = sign(x_i) (|x_i|/s)^(p-1)
//               times (sum e)^((1-p)/p)
//
// The scale s is one for a whole part of the input, so every term is computed once, and what is left is a sum over
// windows and its transpose: in floats, where those do, or in doubles. A window whose sum is out of the range in which
// that is accurate (far below s, or not finite) is computed again by itself, with a scale of its own.
#pragma once
#include "kinds/log_sum.h"
#include "kinds/planes.h"
#include "plan/call.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// How many cells the smallest window has, real ones or those that count; never more than that.
inline i64 least_cells(const Plan &plan, bool counted) {
    i64 least = 1;
    for (int a = 0; a < plan.axis_count; ++a) {
        const Axis &axis = plan.axes[a];
        const i64 last = axis.output - 1;
        if (axis.adaptive) {
            least *= axis.length > axis.output ? axis.length / axis.output : 1;
        } else if (counted) {
            least *= axis.counted(last);
        } else {
            // A window with gaps may have fewer than its neighbours on both sides, if it is longer than the axis.
            if (axis.dilation > 1 && axis.dilation * (axis.kernel - 1) >= axis.length) return 1;
            const i64 here = axis.taps(0).count, there = axis.taps(last).count;
            least *= here < there ? here : there;
        }
    }
    return least;
}

// Calls f(i, cells) for registers of cells, the last of which may repeat some.
template <class E, class F>
NDPOOL_INLINE void over_cells(const E *x, i64 length, const F &f) {
    constexpr int N = LANES<E>;
    i64 i = 0;
    for (; i + N <= length; i += N) {
        prefetch<N>(x + i);
        f(i, load<N>(x + i));
    }
    if (i < length) f(i, load_some<N>(x + i, static_cast<int>(length - i)));
}

template <class E>
constexpr E LEAST_TERM = std::is_same_v<E, float> ? E(0x1p-126) : E(0x1p-1022);

// The smooth kinds, and their windows when each is computed by itself.
struct Smooth {
    bool lp;
    double parameter;  // beta or p
    bool count_pad;    // whether a padded cell is the number 0 (SmoothMax)
    bool several;      // whether every window has more than one cell
    bool rough;        // whether results have 16 bits, for which few digits are enough
    // If set, how many cells each output sees that are not skipped, in bytes or doubles. Those that are have no term.
    const std::uint8_t *few = nullptr;
    const double *many = nullptr;

    Smooth(const Plan &plan, const Call &call)
        : lp(call.lp),
          parameter(call.parameter),
          count_pad(call.count_pad),
          several(least_cells(plan, count_pad) > 1),
          rough(size_of(call.derivative) == 2) {
        if (call.count_bytes == 1)
            few = static_cast<const std::uint8_t *>(call.counts);
        else
            many = static_cast<const double *>(call.counts);
    }

    // Whether powers are other than multiplications and roots.
    bool is_power() const { return lp && parameter != 1 && parameter != 2; }

    double exp1(double v) const { return exp_lanes<1>(vec<double, 1>{v})[0]; }
    double log1(double v) const { return log_lanes<1>(vec<double, 1>{v})[0]; }
    double pow1(double v, double p) const {
        if (p == 0 || p == 1) return p == 0 ? 1 : v;
        return pow_lanes<1>(vec<double, 1>{v}, p)[0];
    }

    // The output of one window; calls weigh(cell, weight) for each of its cells if asked to.
    template <class F>
    double window(const Plan &plan, Type type, const void *x, i64 slab_start, const OutputRow &rows, i64 o, i64 e,
                  F *weigh) const {
        Axis::Taps taps = plan.last().taps(o);
        i64 step = plan.last().dilation * plan.inner, first = slab_start + taps.first * plan.inner + e;
        i64 zeros = count_pad && !lp ? rows.counted * plan.last().counted(o) - rows.real * taps.count : 0;
        auto over = [&](auto &&seen) {
            for (i64 r = 0; r < rows.count; ++r)
                for (i64 k = 0; k < taps.count; ++k) {
                    i64 cell = first + rows.offset[r] + k * step;
                    seen(cell, read(type, x, cell));
                }
        };
        double sign = lp || parameter > 0 ? 1 : -1;
        double best = zeros ? 0.0 : -__builtin_inf();
        bool nan = false;
        over([&](i64, double v) {
            double key = lp ? (v < 0 ? -v : v) : sign * v;
            if (key > best) best = key;
            nan |= v != v;
        });
        if (nan) best = __builtin_nan("");
        double scale = sign * best;
        if (lp && best == 0) return 0;
        // Equal infinities cancel.
        auto term = [&](double v) {
            if (lp) {
                double size = v < 0 ? -v : v;
                return size == scale ? 1.0 : size / scale;
            }
            return v == scale ? 1.0 : exp1(parameter * (v - scale));
        };
        double total = zeros ? static_cast<double>(zeros) * term(0.0) : 0.0;
        over([&](i64, double v) { total += lp ? pow1(term(v), parameter) : term(v); });
        if (nan) total = best;
        if (weigh) {
            double norm = lp && !nan ? pow1(total, 1 / parameter) : total;
            over([&](i64 cell, double v) {
                double w = term(v) / norm;
                if (lp) w = (v > 0 ? 1.0 : v < 0 ? -1.0 : v == 0 ? 0.0 : v) * pow1(w, parameter - 1);
                (*weigh)(cell, w);
            });
        }
        if (nan) return best;
        return lp ? scale * pow1(total, 1 / parameter) : scale + log1(total) / parameter;
    }

    // --- a whole part ---

    // A power of 2 by which anything up to four times as large can be divided exactly.
    template <class E>
    static E power_of_two_below(E size) {
        if (size == 0) return 1;
        constexpr std::int64_t most = std::is_same_v<E, float> ? 126 : 1022;
        std::int64_t exponent = bits<std::int64_t>(static_cast<double>(size)) / (std::int64_t(1) << 52) - 1023;
        exponent = exponent > most ? most : exponent < -most ? -most : exponent;
        return static_cast<E>(bits<double>((exponent + 1023) * (std::int64_t(1) << 52)));
    }

    // The largest and the smallest of some cells, or of their sizes: of the finite ones.
    template <class E>
    struct Range {
        E high, low;
    };
    template <class E>
    Range<E> no_range(bool zero) const {
        const E start = zero || lp ? 0 : static_cast<E>(-__builtin_inf());
        return {start, -start};
    }
    template <class E>
    Range<E> range_of(const E *x, i64 length, Range<E> range) const {
        constexpr int N = LANES<E>;
        vec<E, N> most = splat<E, N>(range.high), least = splat<E, N>(range.low), odd{};
        auto take = [&](vec<E, N> v) NDPOOL_INLINED {
            odd += v - v;  // becomes NaN where anything is not finite
            if (lp) v = size_of_each<N>(v);
            most = v > most ? v : most;
            least = v < least ? v : least;
        };
        i64 i = 0;
        for (; i + N <= length; i += N) {
            prefetch<N>(x + i);
            take(load<N>(x + i));
        }
        if (i < length) take(load_some<N>(x + i, static_cast<int>(length - i)));
        Range<E> all = range;
        bool finite = true;
        for (int l = 0; l < N; ++l) {
            all.high = most[l] > all.high ? most[l] : all.high;
            all.low = least[l] < all.low ? least[l] : all.low;
            finite &= odd[l] == 0;
        }
        if (finite) return all;
        for (i = 0; i < length; ++i) {
            E v = lp && x[i] < 0 ? -x[i] : x[i];
            if (v - v != 0) continue;
            if (v > range.high) range.high = v;
            if (v < range.low) range.low = v;
        }
        return range;
    }

    // The scale s of cells in a range, and how far the exponents of exp reach below 0.
    template <class E>
    E scale_of(const Range<E> &range, double *reach) const {
        *reach = (static_cast<double>(range.high) - static_cast<double>(range.low)) *
                 (parameter < 0 ? -parameter : parameter);
        if (lp) return power_of_two_below(range.high);
        E best = parameter > 0 ? range.high : range.low;
        return best - best == 0 ? best : 0;
    }

    // The terms of cells; with `slope`, sign(x) (|x|/s)^(p-1) too. Both have room for a register more. Says whether the
    // weights that follow from them are normal numbers.
    template <class E>
    bool terms(const E *x, i64 length, E scale, E *e, E *slope) const {
        using V = vec<E, LANES<E>>;
        V least = splat<E, LANES<E>>(1);
        if (lp)
            fill_powers(x, length, scale, e, slope, least);
        else
            fill_exps(x, length, scale, e, least);
        bool normal = true;
        for (int l = 0; l < LANES<E>; ++l) normal &= least[l] >= LEAST_TERM<E>;
        return normal;
    }

    // Whether floats will do for the terms: nothing underflows that matters. In a window of several cells an error in
    // the last place of their sum is small beside log(n)/beta.
    bool floats_do(double reach, Type result) const {
        if (!lp) return FUSED && reach < 50;
        if (parameter <= 4 && parameter == static_cast<double>(static_cast<int>(parameter))) return true;
        return FUSED && parameter <= (result == Type::F32 ? 8 : 64);
    }
    // And for the sums: some roundings along each side of the window.
    bool floats_do_for_sums(const Plan &plan, Type result) const {
        if (result == Type::F32) return !lp && plan.cells <= 16;
        return result != Type::F64 && plan.cells <= 4096;
    }

    // Whether the sum of a window is in the range where its terms, of type E, are accurate.
    template <class E, int N, class S>
    auto good(S sum) const {
        using A = std::decay_t<decltype(sum[0])>;
        constexpr bool narrow = std::is_same_v<E, float>;
        // The logarithm in Lp's powers loses digits as it grows, and the root of a small p leaves them lost.
        auto least = static_cast<A>(narrow ? 1e-25 : !lp ? 1e-130 : parameter < 2 ? 1e-15 : 1e-30);
        auto some = (sum >= least) & (sum <= static_cast<A>(narrow ? 1e30 : 1e300));
        return lp ? some | (sum == 0) : some;
    }
    // Whether a value is: not if it came out infinite. If it was found as a distance from the scale, not if it is tiny
    // beside what that may have lost.
    template <class E, int N, class V>
    NDPOOL_INLINE auto good_value(double scale, V value) const {
        using A = std::decay_t<decltype(value[0])>;
        if (lp || std::is_same_v<E, double>) return value - value == 0;
        return size_of_each<N>(static_cast<A>(scale) - value) <= static_cast<A>(1e7) * size_of_each<N>(value);
    }

  private:
    // The terms of SmoothMax; `least` becomes the least of those that are not 0 by right.
    template <class E, class V>
    NDPOOL_INLINE void fill_exps(const E *x, i64 length, E scale, E *e, V &least) const {
        const ExpTerm<E> exp_term(parameter);
        const V s = splat<E, LANES<E>>(scale);
        auto fill = [=, &least](const auto &term_of) NDPOOL_INLINED {
            over_cells(x, length, [=, &least](i64 i, V v) NDPOOL_INLINED {
                const V term = term_of(v);
                least = ((term < least) & (v - v == 0)) ? term : least;
                store<LANES<E>>(e + i, term);
            });
        };
        if constexpr (std::is_same_v<E, float>)
            if (rough) return fill([=](V v) NDPOOL_INLINED { return exp_term.template rough<LANES<E>>(v, s); });
        fill([=](V v) NDPOOL_INLINED { return exp_term.template of<LANES<E>>(v, s); });
    }
    // The terms of Lp; `least` becomes the least (|x|/s)^(p-1) of those that are not 0 by right.
    template <class E, class V>
    NDPOOL_INLINE void fill_powers(const E *x, i64 length, E scale, E *e, E *slope, V &least) const {
        const E inverse = 1 / scale;
        // power(v, r) gives r^(p-1) and r^p, for r = |v|/s.
        auto fill = [=, &least](auto curved, const auto &power) NDPOOL_INLINED {
            over_cells(x, length, [=, &least](i64 i, V v) NDPOOL_INLINED {
                V size = size_of_each<LANES<E>>(v), none{};
                const auto [w, term] = power(size, size * inverse);
                if (curved.value) least = ((w < least) & (size > 0)) ? w : least;
                // However small: a sum is 0 if all of its cells are, and else is not.
                const V tiny = size < LEAST_TERM<E> ? size : splat<E, LANES<E>>(LEAST_TERM<E>);
                store<LANES<E>>(e + i, term < tiny ? tiny : term);
                if (slope) store<LANES<E>>(slope + i, v < 0 ? -w : v == 0 ? none : w);
            });
        };
        struct Both {
            V slope, term;
        };
        if (parameter == 1)
            fill(std::false_type(), [](V, V r) NDPOOL_INLINED { return Both{r - r + 1, r}; });  // NaN if not finite
        else if (parameter == 2)
            fill(std::false_type(), [](V, V r) NDPOOL_INLINED { return Both{r, r * r}; });
        else if (parameter == 3)
            fill(std::true_type(), [](V, V r) NDPOOL_INLINED { return Both{r * r, r * r * r}; });
        else if (parameter == 4)
            fill(std::true_type(), [](V, V r) NDPOOL_INLINED { return Both{r * r * r, r * r * (r * r)}; });
        else  // so that terms are the same with slopes and without
            fill(std::true_type(), [power = Power<E>(parameter - 1, scale)](V size, V r) NDPOOL_INLINED {
                V w = power.template of<LANES<E>>(size);
                return Both{w, w * r};
            });
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
