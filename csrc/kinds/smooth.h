// SmoothMax and Lp, each as a sum of terms.
//
//   SmoothMax   e_i = exp(beta x_i)    y = log(sum e) / beta    dy/dx_i = e_i / sum e
//   Lp          e_i = |x_i|^p          y = (sum e)^(1/p)        dy/dx_i = sign(x_i) |x_i|^(p-1) (sum e)^((1-p)/p)
//
// Terms and weights are held as multiples of powers of 2, which are the same for a whole part of the input. So every
// term is computed once, and what is left is a sum over windows and its transpose. What a window gives does not depend
// on these powers, nor on how its terms are added up: a term is a mantissa and a whole exponent that follow from its
// cell alone, sums have more bits than what follows from them, and the exponents enter as whole numbers at last. A
// window whose sum is out of range (far below the others, or not finite) is computed again by itself, in the same way
// with a power of 2 of its own. Only those that no power of 2 can help, as infinite ones, have another way.
#pragma once
#include "base/functions.h"
#include "kinds/linear.h"
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
template <class E, class T, class F>
NDPOOL_INLINE void over_cells_as(const T *x, i64 length, const F &f) {
    constexpr int N = LANES<E>;
    i64 i = 0;
    for (; i + N <= length; i += N) {
        prefetch<N>(x + i);
        f(i, load_as<E, N>(x + i));
    }
    if (i == length) return;
    E last[N];
    for (int l = 0; l < N; ++l) last[l] = load_as<E, 1>(x + (i + l < length ? i + l : i))[0];
    f(i, load<N>(last));
}
template <class E, class F>
NDPOOL_INLINE void over_cells(const E *x, i64 length, const F &f) {
    over_cells_as<E>(x, length, f);
}

template <class E>
constexpr E LEAST_TERM = std::is_same_v<E, float> ? E(0x1p-126) : E(0x1p-1022);

// The powers of 2 of a part: terms are held times 2^-term, weights times 2^-weight, and cells of Lp times 2^-cell.
struct TermScale {
    double term = 0, weight = 0, cell = 0;

    // 1 / 2^cell.
    template <class E>
    E inverse() const {
        return static_cast<E>(bits<double>((std::int64_t(1023) - static_cast<std::int64_t>(cell)) << 52));
    }
};

// The smooth kinds.
struct Smooth {
    bool lp;
    double parameter;  // beta or p
    bool count_pad;    // whether a padded cell is the number 0 (SmoothMax)
    bool several;      // whether every window has more than one cell
    bool exact;        // whether results have as many bits as doubles
    bool narrow;       // whether terms have no more bits than floats, wherever they are held
    bool squares;      // whether terms are squares of floats, which are added up right from the cells
    bool only_values;  // whether no weights are asked for
    bool rough;        // whether results have so few bits that floats do for powers of sums, too
    // If set, how many cells each output sees that are not skipped, in bytes or doubles. Those that are have no term.
    const std::uint8_t *few = nullptr;
    const double *many = nullptr;

    Smooth(const Plan &plan, const Call &call)
        : lp(call.lp),
          parameter(call.parameter),
          count_pad(call.count_pad),
          several(least_cells(plan, count_pad) > 1),
          exact(call.derivative == Type::F64),
          narrow(!exact && floats_do(call.derivative)),
          squares(narrow && lp && parameter == 2),
          only_values(call.op == Op::SMOOTH && !call.t),
          rough(FUSED && narrow && size_of(call.derivative) == 2) {
        if (call.count_bytes == 1)
            few = static_cast<const std::uint8_t *>(call.counts);
        else
            many = static_cast<const double *>(call.counts);
    }

    // Whether sums of squares can be made right from the cells, and their roots be written, without terms.
    bool is_root_of_squares() const { return lp && parameter == 2 && (narrow || exact); }
    // Whether powers are multiplications and a square root.
    bool has_root() const { return parameter == 1.5 || parameter == 2.5; }
    // Whether powers are other than multiplications and roots.
    bool is_power() const { return lp && parameter != 1 && parameter != 2; }
    // Whether no term is in range.
    bool is_extreme() const {
        const double size = parameter < 0 ? -parameter : parameter;
        return lp ? size > 0x1p30 : size < 1e-30 || size > 1e30;
    }
    // Up to which exponents of 2 terms of SmoothMax are right.
    double limit() const { return narrow ? ExpTerm<float>::LIMIT : ExpTerm<double>::LIMIT; }

    // --- a whole part ---

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

    // The scale of cells in a range, held as E.
    template <class E>
    TermScale scale_of(const Range<E> &range) const {
        if (lp) return scale_of_best<E>(static_cast<double>(range.high));
        // Less than windows by themselves may have, so that those go the same way that are in range because of it.
        return scale_of_best<E>(static_cast<double>(parameter > 0 ? range.high : range.low), 0.75 * limit());
    }
    // By the best cell, or the largest size; for SmoothMax with exponents of 2 up to `most`. Doubles have room above,
    // so that there is more below.
    template <class E>
    TermScale scale_of_best(double best, double most = 0) const {
        TermScale scale;
        if (lp) {
            most = std::is_same_v<E, float> ? 126 : 1022;
            const double exponent = static_cast<double>(bits<std::int64_t>(best) / (std::int64_t(1) << 52) - 1023);
            scale.cell = best == 0 ? 0 : exponent > most ? most : exponent < -most ? -most : exponent;
            if (has_root()) scale.cell = 2 * nearest(scale.cell / 2);  // even, so that its root is a power of 2
            scale.weight = parameter == 1 ? 0 : nearest((parameter - 1) * scale.cell);
            scale.term = scale.weight + scale.cell;
            return scale;
        }
        const double exponent = best - best == 0 ? best * parameter * PER_LOG_2 : 0;
        scale.term = nearest(exponent > most ? most : exponent < -most ? -most : exponent);
        if (std::is_same_v<E, double>)
            scale.term -= room_above();
        else
            scale.term = 2 * nearest(scale.term / 2);  // even, as fill_near() needs it
        return scale;
    }
    // How far the exponents of 2 of cells in a range are apart.
    template <class E>
    double reach(const Range<E> &range) const {
        return (static_cast<double>(range.high) - static_cast<double>(range.low)) *
               (parameter < 0 ? -parameter : parameter) * PER_LOG_2;
    }

    // By how much the scales of two passes over the same windows may differ, if each sum is good in one of them.
    double pass_apart() const { return room_above() + 800; }

    // How far the exponents of 2 of the largest terms of SmoothMax are apart, of so many cells each.
    template <class E>
    double best_apart(const E *x, i64 length, i64 each) const {
        const E sign = parameter > 0 ? 1 : -1, infinite = static_cast<E>(__builtin_inf());
        E high = -infinite, low = infinite;
        for (i64 i = 0; i + each <= length; i += each) {
            E best = -infinite;
            for (i64 k = i; k < i + each; ++k) best = sign * x[k] > best ? sign * x[k] : best;
            if (best - best != 0) continue;
            high = best > high ? best : high, low = best < low ? best : low;
        }
        return high > low ? reach(Range<E>{high, low}) : 0;
    }

    // Whether a sum can only be NaN because of a cell that is, if all others are of `plain_size()` at most; and whether
    // all that follows from it is NaN, which the weights of Lp(1) are not.
    bool tells_nan() const {
        return !is_extreme() && (!lp || parameter == 2 || parameter == 3 || parameter == 4);
    }
    double plain_size() const {
        const double most = 0x1.fffffffffffffp1023, size = parameter < 0 ? -parameter : parameter;
        return lp ? most : 0.9 * limit() / (size * PER_LOG_2);
    }

    // The terms of cells; with `slope`, the weights of Lp too. Both have room for a register more. Says whether the
    // weights that follow from them are normal numbers, if they are floats. `near` says whether it is worth a try that
    // the exponents of floats are near the scale's.
    template <class E>
    bool terms(const E *x, i64 length, const TermScale &scale, E *e, E *slope, bool *near = nullptr) const {
        using V = vec<E, LANES<E>>;
        V least = splat<E, LANES<E>>(1);
        if (is_extreme())
            over_cells(x, length, [e, slope](i64 i, V) NDPOOL_INLINED {
                const V none = splat<E, LANES<E>>(static_cast<E>(__builtin_nan("")));
                store<LANES<E>>(e + i, none);
                if (slope) store<LANES<E>>(slope + i, none);
            });
        else if (lp)
            fill_powers(x, length, scale, e, slope, least);
        else if (!near || !*near || !(*near = fill_near(x, length, scale, e)))
            fill_exps(x, length, scale, e, least);
        bool normal = true;
        for (int l = 0; l < LANES<E>; ++l) normal &= least[l] >= LEAST_TERM<E>;
        return normal;
    }

    // The terms of SmoothMax, of cells of 16 bits whose exponents are near the scale's; says whether all are.
    bool near_terms(Type type, const void *x, i64 from, i64 length, const TermScale &scale, float *e) const {
        if (lp || is_extreme()) return false;
        if (type == Type::F16) return fill_near(static_cast<const Half *>(x) + from, length, scale, e);
        return type == Type::BF16 && fill_near(static_cast<const BFloat *>(x) + from, length, scale, e);
    }

    // The terms of SmoothMax as mantissas and exponents. Those that no power of 2 can help are NaN, with an infinite
    // exponent; and a cell of -infinity (beta > 0) has no term.
    void split(const double *x, i64 length, double *mantissa, double *exponent) const {
        constexpr int N = LANES<double>;
        using V = vec<double, N>;
        const double most = limit();
        auto fill = [=](const auto &term_of) NDPOOL_INLINED {
            over_cells(x, length, [=](i64 i, V v) NDPOOL_INLINED {
                const Scaled<double, N> parts = term_of(v);
                const auto plain = (parts.n <= most) & (parts.n >= -most), none = parts.n < -most;
                const V zero{}, infinite = splat<double, N>(__builtin_inf()), nan = splat<double, N>(__builtin_nan(""));
                store<N>(mantissa + i, plain ? parts.p : none ? zero : nan);
                store<N>(exponent + i, plain ? parts.n : none ? -infinite : infinite);
            });
        };
        if constexpr (FUSED)
            if (narrow)
                return fill([exp = ExpTerm<float>(parameter)](V v) NDPOOL_INLINED {
                    return widened<N>(exp.template of<N>(convert<float, N>(v)));
                });
        fill([exp = ExpTerm<double>(parameter)](V v) NDPOOL_INLINED { return exp.template of<N>(v); });
    }

    // Whether floats will do for the terms.
    bool floats_do(Type result) const {
        if (is_extreme()) return false;
        if (!lp) return FUSED;
        if (parameter <= 4 && parameter == static_cast<double>(static_cast<int>(parameter))) return true;
        return FUSED && parameter <= (result == Type::F32 ? 8 : 64);
    }

    // Whether the sum of a window is in range: terms that are lost below the smallest numbers would not change it, nor
    // would weights that are be numbers in the result.
    template <class E, int N, class S>
    auto good(S sum) const {
        using A = std::decay_t<decltype(sum[0])>;
        constexpr bool floats = std::is_same_v<E, float>;
        const double wide = !exact ? 0x1p-700 : lp || only_values ? 0x1p-900 : 0x1p60;
        const double least = floats ? 0x1p-60 : wide, most = floats ? 0x1p60 : 0x1p1000;
        auto some = (sum >= static_cast<A>(least)) & (sum <= static_cast<A>(most));
        return lp ? some | (sum == 0) : some;
    }

  private:
    // By which power of 2 the largest terms of SmoothMax are above 1, where they are doubles.
    double room_above() const { return exact ? 700 : 600; }
    static double nearest(double v) { return v + WHOLE_DOUBLE - WHOLE_DOUBLE; }

    // The terms of SmoothMax whose exponents are near the scale's, with less to do; says whether all are.
    template <class T, class E>
    NDPOOL_INLINE bool fill_near([[maybe_unused]] const T *x, [[maybe_unused]] i64 length,
                                 [[maybe_unused]] const TermScale &scale, [[maybe_unused]] E *e) const {
        if constexpr (std::is_same_v<E, float> && FUSED) {
            constexpr int N = LANES<float>;
            using U = vec<std::uint32_t, N>;
            U far{};
            const auto shift = static_cast<float>(scale.term);
            over_cells_as<E>(x, length, [=, &far, exp = ExpTerm<float>(parameter)](i64 i, vec<E, N> v) NDPOOL_INLINED {
                store<N>(e + i, exp.near<N>(v, shift, far));
            });
            return all_zero<N>(far);
        }
        return false;
    }
    // The least of numbers, but of those alone of which something is true. The next register waits for no more than a
    // minimum.
    template <class V, class Truth>
    NDPOOL_INLINE static void take_least(V &least, const Truth &counts, V v) {
        const V seen = counts ? v : V{} + static_cast<std::decay_t<decltype(v[0])>>(__builtin_inf());
        least = seen < least ? seen : least;
    }
    // The terms of SmoothMax; of floats, `least` becomes the least of those that are not 0 by right.
    template <class E, class V>
    NDPOOL_INLINE void fill_exps(const E *x, i64 length, const TermScale &scale, E *e, V &least) const {
        const V shift = splat<E, LANES<E>>(static_cast<E>(scale.term));
        auto fill = [=, &least](const auto &term_of) NDPOOL_INLINED {
            over_cells(x, length, [=, &least](i64 i, V v) NDPOOL_INLINED {
                const Scaled<E, LANES<E>> parts = term_of(v);
                const V term = times_power<LANES<E>>(parts.p, parts.n - shift);
                if (std::is_same_v<E, float>) take_least(least, v - v == 0, term);
                store<LANES<E>>(e + i, term);
            });
        };
        if constexpr (std::is_same_v<E, double> && FUSED)
            if (narrow)
                return fill([exp = ExpTerm<float>(parameter)](V v) NDPOOL_INLINED {
                    return widened<LANES<E>>(exp.template of<LANES<E>>(convert<float, LANES<E>>(v)));
                });
        fill([exp = ExpTerm<E>(parameter)](V v) NDPOOL_INLINED { return exp.template of<LANES<E>>(v); });
    }
    // The terms of Lp; of floats, `least` becomes the least weight of those that are not 0 by right.
    template <class E, class V>
    NDPOOL_INLINE void fill_powers(const E *x, i64 length, const TermScale &scale, E *e, E *slope, V &least) const {
        const E inverse = scale.inverse<E>();
        // power(v, r) gives r^(p-1) and r^p, for r = |v| / 2^cell.
        auto fill = [=, &least](auto curved, const auto &power) NDPOOL_INLINED {
            over_cells(x, length, [=, &least](i64 i, V v) NDPOOL_INLINED {
                V size = size_of_each<LANES<E>>(v), none{};
                const auto [w, term] = power(size, size * inverse);
                if (curved.value && std::is_same_v<E, float> && slope) take_least(least, size > 0, w);
                // However small: a sum is 0 if all of its cells are, and else is not.
                const V tiny = size < LEAST_TERM<E> ? size : splat<E, LANES<E>>(LEAST_TERM<E>);
                store<LANES<E>>(e + i, term < tiny ? tiny : term);
                if (slope) store<LANES<E>>(slope + i, v < 0 ? -w : v == 0 ? none : w);
            });
        };
        struct Both {
            V slope, term;
        };
        // Products have as many bits wherever they are held.
        auto fill_by = [&](const auto &rounded) NDPOOL_INLINED {
            if (parameter == 1)
                fill(std::false_type(), [](V, V r) NDPOOL_INLINED { return Both{r - r + 1, r}; });  // NaN if not finite
            else if (parameter == 2)  // exact, of floats that are held as doubles
                fill(std::false_type(), [=](V, V r) NDPOOL_INLINED { return Both{r, r * r}; });
            else if (parameter == 3)
                fill(std::true_type(), [=](V, V r) NDPOOL_INLINED {
                    const V square = rounded(r * r);
                    return Both{square, rounded(square * r)};
                });
            else if (parameter == 4)
                fill(std::true_type(), [=](V, V r) NDPOOL_INLINED {
                    const V square = rounded(r * r);
                    return Both{rounded(square * r), rounded(square * square)};
                });
            else if (parameter == 1.5)
                fill(std::true_type(), [=](V, V r) NDPOOL_INLINED {
                    const V root = rounded(sqrt_lanes<LANES<E>>(r));
                    return Both{root, rounded(root * r)};
                });
            else if (parameter == 2.5)
                fill(std::true_type(), [=](V, V r) NDPOOL_INLINED {
                    const V root = rounded(sqrt_lanes<LANES<E>>(r)), half = root * E(0.5);
                    // What the root has lost, times r.
                    const V lost = rounded(half * -product_error<LANES<E>>(root, root, r));
                    const V w = rounded(sum_of_product(root, r, lost));
                    return Both{w, rounded(w * r)};
                });
            else  // so that terms are the same with slopes and without
                with_power<E>(scale, [&](const auto &power) NDPOOL_INLINED {
                    fill(std::true_type(), [=](V size, V r) NDPOOL_INLINED {
                        const V w = power.template of<LANES<E>>(size);
                        return Both{w, rounded(w * r)};
                    });
                });
        };
        if constexpr (std::is_same_v<E, double>)
            if (narrow) return fill_by([](V v) NDPOOL_INLINED { return to_float_bits<LANES<E>>(v); });
        fill_by([](V v) NDPOOL_INLINED { return v; });
    }
    // a b + c for a small c, as if rounded once.
    template <class V>
    NDPOOL_INLINE static V sum_of_product(V a, V b, V c) {
        using E = std::decay_t<decltype(a[0])>;
        if constexpr (std::is_same_v<E, float>) return fused_sum<LANES<E>>(a, b, c);
        const V product = a * b;
        return product + (product_error<LANES<E>>(a, b, product) + c);
    }
    // Calls f(power) with what gives the weights.
    template <class E, class F>
    NDPOOL_INLINE void with_power(const TermScale &scale, const F &f) const {
        if constexpr (std::is_same_v<E, double> && FUSED)
            if (narrow) return f(Power<float>(parameter - 1, scale.weight));
        f(Power<E>(parameter - 1, scale.weight));
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
