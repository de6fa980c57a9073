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
#include "plan/call.h"
#include "kinds/log_sum.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// --- one window by itself -----------------------------------------------------------------------

inline double read(Type type, const void *x, i64 i) {
    switch (type) {
#define NDPOOL_READ(NAME, T) \
    case Type::NAME: return load_as<double, 1>(static_cast<const T *>(x) + i)[0];
        NDPOOL_FLOATS(NDPOOL_READ)
#undef NDPOOL_READ
        default: return 0;
    }
}

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

template <class E>
constexpr E LEAST_TERM = std::is_same_v<E, float> ? E(0x1p-126) : E(0x1p-1022);

// The smooth kinds, and their windows when each is computed by itself.
struct Smooth {
    bool lp;
    double parameter;  // beta or p
    bool count_pad;    // whether a padded cell is the number 0 (SmoothMax)
    bool several;      // whether every window has more than one cell

    Smooth(const Plan &plan, bool lp, double parameter, bool count_pad)
        : lp(lp), parameter(parameter), count_pad(count_pad), several(least_cells(plan, count_pad) > 1) {}

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

    // The terms of cells; with `slope`, sign(x) (|x|/s)^(p-1) too. Both have room for a register more.
    template <class E>
    void terms(const E *x, i64 length, E scale, E *e, E *slope) const {
        constexpr int N = LANES<E>;
        using V = vec<E, N>;
        if (!lp) {
            const ExpTerm<E> exp_term(parameter);
            return over_cells(x, length, [=](i64 i, V v) NDPOOL_INLINED {
                store<LANES<E>>(e + i, exp_term.template of<LANES<E>>(v, splat<E, LANES<E>>(scale)));
            });
        }
        const E inverse = 1 / scale;
        // power(v, r) gives r^(p-1) and r^p, for r = |v|/s.
        auto fill = [=](const auto &power) NDPOOL_INLINED {
            over_cells(x, length, [=](i64 i, V v) NDPOOL_INLINED {
                V size = size_of_each<LANES<E>>(v), none{};
                const auto [w, term] = power(size, size * inverse);
                // However small: a sum is 0 if all of its cells are, and else is not.
                const V least = size < LEAST_TERM<E> ? size : splat<E, LANES<E>>(LEAST_TERM<E>);
                store<LANES<E>>(e + i, term < least ? least : term);
                if (slope) store<LANES<E>>(slope + i, v < 0 ? -w : v == 0 ? none : w);
            });
        };
        struct Both {
            V slope, term;
        };
        if (parameter == 1)
            fill([](V, V r) NDPOOL_INLINED { return Both{r - r + 1, r}; });  // NaN where r is not finite
        else if (parameter == 2)
            fill([](V, V r) NDPOOL_INLINED { return Both{r, r * r}; });
        else if (parameter == 3)
            fill([](V, V r) NDPOOL_INLINED { return Both{r * r, r * r * r}; });
        else if (parameter == 4)
            fill([](V, V r) NDPOOL_INLINED { return Both{r * r * r, r * r * (r * r)}; });
        else  // so that terms are the same with slopes and without
            fill([power = Power<E>(parameter - 1, scale)](V size, V r) NDPOOL_INLINED {
                V w = power.template of<LANES<E>>(size);
                return Both{w, w * r};
            });
    }

    // Calls f(i, cells) for registers of cells, the last of which may repeat some.
    template <class E, class F>
    NDPOOL_INLINE static void over_cells(const E *x, i64 length, const F &f) {
        constexpr int N = LANES<E>;
        i64 i = 0;
        for (; i + N <= length; i += N) f(i, load<N>(x + i));
        if (i < length) f(i, load_some<N>(x + i, static_cast<int>(length - i)));
    }

    // Whether floats will do for the terms: nothing underflows that matters. In a window of several cells an error in
    // the last place of their sum is small beside log(n)/beta.
    bool floats_do(double reach, Type result, bool back) const {
        if (!lp) return FUSED && reach < 50;
        if (back && parameter != 1 && parameter != 2 && result != Type::F16) return false;  // powers of small ratios
        if (parameter <= 4 && parameter == static_cast<double>(static_cast<int>(parameter))) return true;
        return FUSED && parameter <= (result == Type::F32 ? 8 : 64);
    }
    // And for the sums: some roundings along each side of the window.
    bool floats_do_for_sums(const Plan &plan, Type result) const {
        if (result == Type::F32) return !lp && plan.cells <= 16;
        return result != Type::F64 && plan.cells <= 4096;
    }

    // v over what the weights of a window are divided by, from the sum of its terms, of type E; 0 where there are none.
    template <class E, int N, class V>
    NDPOOL_INLINE V share(V v, V sum) const {
        const V none{};
        return sum == 0 ? none : over_norm<E, N>(v, sum);
    }
    template <class E, int N>
    NDPOOL_INLINE vec<double, N> over_norm(vec<double, N> v, vec<double, N> sum) const {
        constexpr bool FLOATS = std::is_same_v<E, float>;
        if (!lp) return FLOATS ? v * reciprocal<N>(sum) : v / sum;
        if (parameter == 1) return v;
        if (parameter == 2) return FLOATS ? v * reciprocal_root<N>(sum) : v / sqrt_lanes<N>(sum);
        return v * pow_lanes<N, FLOATS>(sum, (1 - parameter) / parameter);
    }
    template <class E, int N>
    NDPOOL_INLINE vec<float, N> over_norm(vec<float, N> v, vec<float, N> sum) const {
        if (!lp) return v / sum;
        if (parameter == 1) return v;
        if (parameter == 2) return v / sqrt_lanes<N>(sum);
        return v * Power<float>((1 - parameter) / parameter).of<N>(sum);
    }

    // The output, from a window's sum.
    template <class E, int N>
    NDPOOL_INLINE vec<double, N> value(double scale, vec<double, N> sum) const {
        constexpr bool FLOATS = std::is_same_v<E, float>;
        if (lp) {
            if (parameter == 1) return scale * sum;
            if (parameter == 2 && FLOATS) return scale * (sum > 0 ? sum * reciprocal_root<N>(sum) : sum);
            if (parameter == 2) return scale * sqrt_lanes<N>(sum);
            return scale * pow_lanes<N, FLOATS>(sum, 1 / parameter);
        }
        if (FLOATS) return log_lanes<N, true>(sum) * (1 / parameter) + scale;
        // The logarithm may be much larger than log(n), and the output nearer to 0 than both: nothing is lost of the
        // quotient or the sum.
        const LogInTwo<N> log = log_in_two<N>(sum);
        const vec<double, N> beta = splat<double, N>(parameter), quotient = log.whole * (1 / parameter);
        const vec<double, N> left = log.rest - product_error<N>(quotient, beta, log.whole);
        const ExactDifference<double, N> whole(splat<double, N>(scale), -quotient);
        return whole.difference + (whole.lost + left * (1 / parameter));
    }

    // A logarithm may be far from 0 and the output near: what is added up is in doubles.
    template <class E, int N>
    NDPOOL_INLINE vec<float, N> value(double scale, vec<float, N> sum) const {
        if (lp) {
            const auto s = static_cast<float>(scale);
            if (parameter == 1) return s * sum;
            if (parameter == 2) return s * sqrt_lanes<N>(sum);
            return s * Power<float>(1 / parameter).of<N>(sum);
        }
        const LogParts<N> parts(sum);
        vec<double, N> log = convert<double, N>(parts.k) * LOG_2 + convert<double, N>(parts.t + parts.tail());
        return convert<float, N>(log * (1 / parameter) + scale);
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
    template <class E, class S>
    NDPOOL_INLINE auto good_value(double scale, S value) const {
        using A = std::decay_t<decltype(value[0])>;
        const S size = value < 0 ? -value : value;
        if (lp || std::is_same_v<E, double>) return value - value == 0;
        const S distance = static_cast<A>(scale) - value;
        return (distance < 0 ? -distance : distance) <= static_cast<A>(1e7) * size;
    }
};

// --- parts --------------------------------------------------------------------------------------

// Some outputs that are computed together: those lo..hi-1 along the first pooled axis of one slab, or all of several
// slabs. The rows are counted on from slab to slab.
struct SmoothPart {
    i64 slab, slabs;
    OutputPart outputs;
    i64 lo, hi;
};

// The cells of a window that is longer than this are taken in pieces, of about so many.
constexpr i64 PIECE = i64(1) << 15, LONG = 2 * PIECE;

// The input of a part from cell in_begin to in_end-1 of its first pooled axis, as terms of type E, and the sums of its
// windows, of type S.
template <class E, class S>
struct TermPart {
    const Plan &plan;
    const Smooth &kind;
    Type type;
    const void *x;
    i64 slab, slabs, in_begin, in_end;
    OutputPart part;
    i64 lo, hi;
    bool in_pieces;  // whether there are too many cells to be held at once; then e and slope are those of a piece
    E scale;
    double reach;
    const E *cells;                       // the part's
    E *e, *slope;                         // as if from the slab's start
    S *sum;                               // rows of the part one after the other
    Scratch<E> terms_block, slope_block;  // where these are, if not in the input itself
    Scratch<S> sum_block;

    i64 outputs() const { return (part.end - part.begin) * plan.inner; }
    i64 count() const { return (part.row_end - part.row_begin) * outputs(); }
    i64 low() const { return in_begin * first_stride(plan); }
    i64 length() const { return slabs > 1 ? slabs * plan.in_slab : (in_end - in_begin) * first_stride(plan); }

    // The cells from begin to end-1 are taken in any case. Cells of one window may be taken in pieces, if so asked.
    TermPart(const Plan &plan, const Smooth &kind, Type type, const void *x, const SmoothPart &of, i64 begin, i64 end,
             bool can_be_in_pieces)
        : plan(plan),
          kind(kind),
          type(type),
          x(x),
          slab(of.slab),
          slabs(of.slabs),
          in_begin(begin),
          in_end(end),
          part(of.outputs),
          lo(of.lo),
          hi(of.hi),
          slope(nullptr) {
        const Axis &axis = plan.axes[0];
        i64 first = axis.start(lo), last = axis.start(hi - 1) + axis.dilation * (axis.kernel - 1);
        if (slabs > 1) first = 0, last = axis.length;
        if (axis.adaptive && hi - lo == 1) last = first + axis.taps(lo).count - 1;
        if (first < in_begin) in_begin = first < 0 ? 0 : first;
        if (last >= in_end) in_end = last < axis.length ? last + 1 : axis.length;
        in_pieces = can_be_in_pieces && slabs == 1 && hi - lo == 1 && axis.dilation == 1 && length() > LONG;
        const auto none = kind.no_range<E>(kind.count_pad && plan.padded);
        if (in_pieces) {
            auto range = none;
            over_pieces([&](const Plan &, const E *some, i64, i64 many) { range = kind.range_of(some, many, range); });
            scale = kind.scale_of(range, &reach);
            return;
        }
        cells = load_cells(low(), length());
        scale = kind.scale_of(kind.range_of(cells, length(), none), &reach);
        e = terms_block.data() - low();
    }
    // The same, with other sums.
    template <class Other>
    explicit TermPart(const TermPart<E, Other> &same)
        : plan(same.plan),
          kind(same.kind),
          type(same.type),
          x(same.x),
          slab(same.slab),
          slabs(same.slabs),
          in_begin(same.in_begin),
          in_end(same.in_end),
          part(same.part),
          lo(same.lo),
          hi(same.hi),
          in_pieces(same.in_pieces),
          scale(same.scale),
          reach(same.reach),
          cells(same.cells),
          e(same.e),
          slope(nullptr) {}

    void sum_terms(bool with_slope) {
        sum_block.grow(count() + 64, "sums of a part");
        sum = sum_block.data();
        if (in_pieces)
            sum_pieces(sum, [&](const E *some, i64, i64 many) {
                kind.terms(some, many, scale, terms_block.data(), static_cast<E *>(nullptr));
                return terms_block.data();
            });
        else
            fill_terms(with_slope), pool(e, sum);
        if (kind.count_pad && plan.padded) add_padding();
    }
    void fill_terms(bool with_slope) {
        E *slope_plane = nullptr;
        if (kind.lp && with_slope) {
            slope_block.grow(length() + 64, "slopes of a part");
            slope_plane = slope_block.data();
        }
        kind.terms(cells, length(), scale, e + low(), slope_plane);
        slope = slope_plane ? slope_plane - low() : e;
    }

    // `many` cells as E, from an element of the slab on, with room for their terms in terms_block.
    const E *load_cells(i64 from, i64 many) {
        terms_block.grow(many + 64, "terms of a part");
        if (type == (std::is_same_v<E, float> ? Type::F32 : Type::F64))
            return static_cast<const E *>(x) + slab * plan.in_slab + from;
        load_plane(type, x, slab * plan.in_slab + from, many, terms_block.data());
        return terms_block.data();
    }

    // Calls f(plan, cells, from, many) for pieces of a window, as windows of their own: `many` cells from an element of
    // the slab on.
    template <class F>
    void over_pieces(const F &f) {
        const i64 each = first_stride(plan), length = PIECE / each + 1;
        for (i64 begin = in_begin; begin < in_end; begin += length) {
            Plan piece = plan.part(begin, begin + length < in_end ? begin + length : in_end, lo, hi);
            Axis &axis = piece.axes[0];
            axis = {axis.length, 1, axis.length, axis.length, 1, 0, 0, false};
            piece.outer_cells = plan.dim_count ? plan.outer_cells / plan.axes[0].kernel * axis.kernel : 1;
            piece.cells = plan.cells / plan.axes[0].kernel * axis.kernel;
            f(piece, load_cells(begin * each, axis.length * each), begin * each, axis.length * each);
        }
    }
    // What the weights of a piece's cells are, but for the divisor of their window.
    E *weights_of(const E *some, i64 many) {
        if (kind.lp) slope_block.grow(many + 64, "slopes of a piece");
        E *terms = terms_block.data(), *weights = kind.lp ? slope_block.data() : terms;
        kind.terms(some, many, scale, terms, kind.lp ? weights : nullptr);
        return weights;
    }
    // The sums of what terms(cells, from, many) makes of the cells of each piece.
    template <class Terms>
    void sum_pieces(S *to, const Terms &terms) {
        constexpr int N = LANES<S>;
        const Scratch<S> block(count() + 64, "sums of a piece");
        S *more = block.data();
        std::memset(to, 0, sizeof(S) * static_cast<std::size_t>(count()));
        over_pieces([&](const Plan &piece, const E *some, i64 from, i64 many) {
            pool_plan(piece, terms(some, from, many), more);
            for (i64 i = 0; i < count(); i += N) store<N>(to + i, load<N>(to + i) + load<N>(more + i));
        });
    }

    template <class To>
    static void load_plane(Type type, const void *x, i64 from, i64 length, To *to) {
        constexpr int N = LANES<To>;
        switch (type) {
#define NDPOOL_LOAD(NAME, T)                                                     \
    case Type::NAME: {                                                           \
        const T *p = static_cast<const T *>(x) + from;                           \
        i64 i = 0;                                                               \
        for (; i + N <= length; i += N) store<N>(to + i, load_as<To, N>(p + i)); \
        for (; i < length; ++i) to[i] = load_as<To, 1>(p + i)[0];                \
        break;                                                                   \
    }
            NDPOOL_FLOATS(NDPOOL_LOAD)
#undef NDPOOL_LOAD
            default: break;
        }
    }

    // Whether the part can be pooled as a plan of its own: some bins of an adaptive axis are not those of a shorter
    // one.
    bool has_plan() const { return !plan.axes[0].adaptive || (lo == 0 && hi == plan.axes[0].output); }
    Plan own_plan() const {
        if (plan.axes[0].adaptive || slabs > 1) {
            Plan own = plan;
            own.outer = slabs;
            return own;
        }
        return plan.part(in_begin, in_end, lo, hi);
    }

    // Sums over the windows of the part.
    void pool(const E *cells, S *to) const {
        if (has_plan()) return pool_plan(own_plan(), cells + low(), to);
        const PlainSum<E, S> p{};
        SumSink<Total<S>, S> sink{to, {Count::NONE, 1}};
        OutputRow rows(plan);
        const auto lanes = p.lanes();
        const auto from = source_of(p, cells, in_end * first_stride(plan));
        LanePooler<Total<S>, SumSink<Total<S>, S>> pooler(plan, lanes, from, plan.last().output,
                                                          choose_forward(plan, lanes_alone<Total<S>>(), Way::NONE));
        for (i64 row = part.row_begin; row < part.row_end; ++row) {
            rows.move_to(row);
            sink.move_to(plan, row - part.row_begin, rows);
            sink.row -= part.begin * plan.inner;
            pooler.pool(0, rows, sink, part.begin, part.end, part.end * plan.inner + 32, 0);
        }
    }

    static void pool_plan(const Plan &plan, const E *cells, S *to) {
        constexpr Tuned TUNED = std::is_same_v<S, float>   ? Tuned::ALL
                                : std::is_same_v<E, float> ? Tuned::ROWS
                                                           : Tuned::NOT;
        const SumSink<Total<S>, S> sink{to, {Count::NONE, 1}};
        pool_all<TUNED>(plan, PlainSum<E, S>{}, cells, sink, {});
    }

    // A padded cell that counts is the number 0.
    void add_padding() {
        const double zero = kind.exp1(kind.parameter * (0.0 - static_cast<double>(scale)));
        const Axis &last = plan.last();
        // Of every element of a row, the cells that count and the real ones, along the row; all are real from `inside`
        // to `beyond` - 1.
        const i64 length = outputs();
        const Scratch<double> counts(2 * length, "cells of a row's windows");
        double *counted = counts.data(), *real = counted + length;
        i64 inside = length, beyond = 0;
        for (i64 o = part.begin, i = 0; o < part.end; ++o) {
            i64 cells = last.counted(o), taps = last.taps(o).count;
            for (i64 e = 0; e < plan.inner; ++e, ++i) {
                counted[i] = static_cast<double>(cells), real[i] = static_cast<double>(taps);
                if (cells != taps || (inside < length && beyond < i)) continue;
                if (inside == length) inside = i;
                beyond = i + 1;
            }
        }
        if (inside == length) beyond = length;
        OutputRow rows(plan);
        for (i64 row = part.row_begin; row < part.row_end; ++row) {
            if (row == part.row_begin || row % plan.out_rows == 0)
                rows.move_to(row % plan.out_rows);
            else
                rows.move_on(1);
            S *to = sum + (row - part.row_begin) * length;
            const auto all = static_cast<double>(rows.counted), here = static_cast<double>(rows.real);
            auto add = [=](i64 begin, i64 end) {
                for (i64 i = begin; i < end; ++i) to[i] += static_cast<S>((all * counted[i] - here * real[i]) * zero);
            };
            if (rows.counted != rows.real)
                add(0, length);
            else
                add(0, inside), add(beyond, length);
        }
    }

    // The windows' changes along a tangent, which the weights of its cells take part in.
    void weigh(Type tangent_type, const void *t, S *to) {
        const Scratch<E> block((in_pieces ? 2 * PIECE + first_stride(plan) : length()) + 64, "a part of the tangent");
        E *tangent = block.data();
        // Multiplies weights by the tangent of their cells.
        auto multiply = [&](E *weighted, i64 from, i64 many) {
            constexpr int N = LANES<E>;
            load_plane(tangent_type, t, slab * plan.in_slab + from, many, tangent);
            for (i64 i = 0; i < many; i += N) {
                // A cell without weight does not meet its tangent, which may be infinite.
                vec<E, N> w = load<N>(weighted + i), zero{};
                store<N>(weighted + i, w == 0 ? zero : w * load<N>(tangent + i));
            }
        };
        if (in_pieces) {
            sum_pieces(to, [&](const E *some, i64 from, i64 many) {
                E *weighted = weights_of(some, many);
                multiply(weighted, from, many);
                return weighted;
            });
        } else {
            multiply(slope + low(), low(), length());
            pool(slope, to);
        }
        constexpr int M = LANES<S>;
        for (i64 i = 0; i < count(); i += M) store<M>(to + i, kind.share<E, M>(load<M>(to + i), load<M>(sum + i)));
    }

    // The outputs first..first+count-1, from the sums; says how many are not good.
    i64 values(i64 first, i64 count, S *to) const {
        constexpr int N = LANES<S>;
        const Smooth own = kind;  // a copy, which no store can change
        const double s = static_cast<double>(scale);
        Truth<N> bad{};  // less one for each
        for (i64 i = 0; i < count; i += N) {
            vec<S, N> total = load<N>(sum + first + i);
            if (i + N > count)
                for (i64 l = count - i; l < N; ++l) total[l] = total[0];
            vec<S, N> v = own.value<E, N>(s, total);
            bad += ~(own.good<E, N>(total) & own.good_value<E>(s, v));
            store<N>(to + i, v);
        }
        i64 all = 0;
        for (int l = 0; l < N; ++l) all -= bad[l];
        return all;
    }

    // What comparisons of N sums give.
    template <int N>
    using Truth = vec<typename IntOf<sizeof(S)>::s, N>;
    template <int N>
    static Truth<N> truth() {
        return ~Truth<N>{};
    }
    template <int N>
    static bool everywhere(Truth<N> all) {
        bool every = true;
        for (int l = 0; l < N; ++l) every &= all[l] != 0;
        return every;
    }

    // Whether the sum is good and, if `values` are asked about, what follows from it.
    template <int M>
    auto good(bool values, vec<S, M> sum) const {
        auto good = kind.good<E, M>(sum);
        double s = static_cast<double>(scale);
        return values ? good & kind.good_value<E>(s, kind.value<E, M>(s, sum)) : good;
    }

    // Calls bad(rows, slab, row, o, e) for each output that is not good.
    template <class F>
    void over_bad(bool values, const F &bad) const {
        constexpr int N = LANES<S>;
        OutputRow rows(plan);
        for (i64 row = part.row_begin; row < part.row_end; ++row) {
            const S *here = sum + (row - part.row_begin) * outputs();
            bool moved = false;
            for (i64 i = 0; i < outputs(); i += N) {
                const Truth<N> truths = good<N>(values, load<N>(here + i));
                if (everywhere<N>(truths)) continue;
                if (!moved) rows.move_to(row % plan.out_rows), moved = true;
                for (i64 k = i; k < outputs() && k < i + N; ++k)
                    if (!truths[k - i])
                        bad(rows, slab + row / plan.out_rows, row % plan.out_rows, part.begin + k / plan.inner,
                            k % plan.inner);
            }
        }
    }
};

// What terms are for: the way back, or forward; whether they may be taken in pieces; whether slopes are wanted with
// them, and sums in floats, where the terms are.
struct TermUse {
    bool back, pieces, slopes, float_sums;
};

// Calls f(terms) with the terms in floats where those do; in doubles where not.
template <class F>
void over_terms(const Plan &plan, const Smooth &kind, Type type, Type result, const void *x, const SmoothPart &part,
                i64 begin, i64 end, const TermUse &use, const F &f) {
    if (result != Type::F64 && kind.floats_do(0, result, use.back)) {
        TermPart<float, float> terms(plan, kind, type, x, part, begin, end, use.pieces);
        if (kind.floats_do(terms.reach, result, use.back)) {
            if (use.float_sums) {
                terms.sum_terms(use.slopes);
                return f(terms);
            }
            TermPart<float, double> wider(terms);
            wider.sum_terms(use.slopes);
            return f(wider);
        }
    }
    TermPart<double, double> terms(plan, kind, type, x, part, begin, end, use.pieces);
    terms.sum_terms(use.slopes);
    f(terms);
}

// Calls piece(part) for parts of the outputs small enough that their terms stay in the cache, and large enough that
// what is done once for each does not show.
template <class Piece>
void over_output_parts(const Plan &plan, const Piece &piece) {
    const Axis &axis = plan.axes[0];
    const i64 rows = plan.dim_count ? plan.out_rows / axis.output : 1, all = plan.last().output;
    const bool threads = worth_threads(plan.outer * plan.in_slab);
    const i64 together = (i64(1) << 13) / (plan.in_slab + 1);
    if (together > 1) {
        const i64 groups = (plan.outer + together - 1) / together;
        return parallel(groups, threads, [&](i64 begin, i64 end) {
            for (i64 group = begin; group < end; ++group) {
                const i64 slab = group * together, left = plan.outer - slab, slabs = left < together ? left : together;
                piece(SmoothPart{slab, slabs, {0, slabs * plan.out_rows, 0, all}, 0, axis.output});
            }
        });
    }
    i64 cuts = plan.in_slab >> 16;
    i64 overlap = axis.adaptive ? 1 : 4 * (axis.dilation * axis.kernel / axis.stride + 1);
    if (cuts > axis.output / overlap) cuts = axis.output / overlap;
    if (cuts < 1) cuts = 1;
    parallel(plan.outer * cuts, threads, [&](i64 begin, i64 end) {
        for (i64 unit = begin; unit < end; ++unit) {
            i64 cut = unit % cuts, lo = axis.output * cut / cuts, hi = axis.output * (cut + 1) / cuts;
            OutputPart part = {lo * rows, hi * rows, 0, all};
            if (plan.dim_count == 0) part = {0, 1, lo, hi};
            piece(SmoothPart{unit / cuts, 1, part, lo, hi});
        }
    });
}

inline void write(Type type, void *y, i64 i, double v) {
    switch (type) {
#define NDPOOL_WRITE(NAME, T) \
    case Type::NAME: store_as<1>(static_cast<T *>(y) + i, vec<double, 1>{v}); break;
        NDPOOL_FLOATS(NDPOOL_WRITE)
#undef NDPOOL_WRITE
        default: break;
    }
}

template <class S>
void store_plane(Type type, void *y, i64 to, const S *from, i64 length) {
    constexpr int N = LANES<S>;
    switch (type) {
#define NDPOOL_STORE(NAME, T)                                                                            \
    case Type::NAME:                                                                                     \
        return blocks<N>(length, [p = static_cast<T *>(y) + to, from](i64 i, int count) NDPOOL_INLINED { \
            put_some<N>(p + i, count, [&](T *some) { store_as<N>(some, load<N>(from + i)); });           \
        });
        NDPOOL_FLOATS(NDPOOL_STORE)
#undef NDPOOL_STORE
        default: return;
    }
}

// What is made in the nearest cache before it goes on: calls f(first, count) for so many at a time, with room in CHUNK
// for all registers of them.
constexpr i64 CHUNK = 512;
template <class F>
NDPOOL_INLINE void over_chunks(i64 count, const F &f) {
    for (i64 i = 0; i < count; i += CHUNK) f(i, count - i < CHUNK ? count - i : CHUNK);
}

// Computes y and, with a tangent, dy, from terms.
struct TermsForward {
    const Plan &plan;
    const Smooth &kind;
    Type type, result;
    const void *x, *t;
    void *y, *dy;
    bool value;  // whether y is asked for

    void run() const {
        const TermUse use{false, true, t != nullptr, kind.floats_do_for_sums(plan, result)};
        over_output_parts(plan, [&](const SmoothPart &part) {
            over_terms(plan, kind, type, result, x, part, plan.axes[0].length, 0, use,
                       [&](auto &terms) { fill(terms); });
        });
    }

  private:
    using Weigh = void(i64, double);

    template <class Terms>
    void fill(Terms &terms) const {
        using S = std::decay_t<decltype(terms.sum[0])>;
        const OutputPart &part = terms.part;
        const i64 count = terms.count();
        // The part is contiguous.
        const i64 first = terms.slab * plan.out_slab + part.row_begin * plan.out_row + part.begin * plan.inner;
        if (t) {
            const Scratch<S> out(count + 64, "changes of a part");
            terms.weigh(result, t, out.data());
            store_plane(result, dy, first, out.data(), count);
            terms.over_bad(false, [&](const OutputRow &rows, i64 slab, i64 row, i64 o, i64 e) {
                double change = 0;
                auto weigh = [&](i64 cell, double w) {
                    if (w != 0) change += w * read(result, t, cell);
                };
                kind.window(plan, type, x, slab * plan.in_slab, rows, o, e, &weigh);
                write(result, dy, (slab * plan.out_rows + row) * plan.out_row + o * plan.inner + e, change);
            });
        }
        if (!value) return;
        i64 bad = 0;
        over_chunks(count, [&](i64 i, i64 some) {
            S out[CHUNK];
            bad += terms.values(i, some, out);
            store_plane(result, y, first + i, out, some);
        });
        if (bad > count / 8 && !kind.lp && terms.has_plan())
            fill_by_log_sums(terms, first, count);
        else if (bad)
            terms.over_bad(true, [&](const OutputRow &rows, i64 slab, i64 row, i64 o, i64 e) {
                double v = kind.window(plan, type, x, slab * plan.in_slab, rows, o, e, static_cast<Weigh *>(nullptr));
                write(result, y, (slab * plan.out_rows + row) * plan.out_row + o * plan.inner + e, v);
            });
        if (!kind.several && !kind.lp) fill_single(terms);
    }

    // A window of one cell is that cell: log(1) is 0 exactly.
    template <class Terms>
    void fill_single(const Terms &terms) const {
        const OutputPart &part = terms.part;
        const Axis &last = plan.last();
        const bool only_at_ends = !last.adaptive && last.dilation == 1 && last.kernel > 1;
        OutputRow rows(plan);
        for (i64 index = part.row_begin; index < part.row_end; ++index) {
            const i64 slab = terms.slab + index / plan.out_rows, row = index % plan.out_rows;
            if (index == part.row_begin || row == 0)
                rows.move_to(row);
            else
                rows.move_on(1);
            if ((kind.count_pad ? rows.counted : rows.real) != 1) continue;
            for (i64 o = part.begin; o < part.end; ++o) {
                const Axis::Taps taps = last.taps(o);
                if ((kind.count_pad ? last.counted(o) : taps.count) != 1) {
                    if (only_at_ends && o < part.end - last.kernel) o = part.end - last.kernel - 1;
                    continue;
                }
                const bool real = rows.real * taps.count == 1;
                for (i64 e = 0; e < plan.inner; ++e) {
                    const i64 to = (slab * plan.out_rows + row) * plan.out_row + o * plan.inner + e;
                    const i64 cell =
                        slab * plan.in_slab + (real ? rows.base + rows.offset[0] : 0) + taps.first * plan.inner + e;
                    write(result, y, to, real ? read(type, x, cell) : 0.0);
                }
            }
        }
    }

    // With a scale for each window.
    template <class Terms>
    void fill_by_log_sums(const Terms &terms, i64 first, i64 count) const {
        const Scratch<double> in(terms.length() + 64, "cells of a part"), out(count + 64, "outputs of a part");
        terms.load_plane(type, x, terms.slab * plan.in_slab + terms.low(), terms.length(), in.data());
        log_sum_all<double>(terms.own_plan(), kind.parameter, kind.count_pad, in.data(), out.data(), {});
        store_plane(result, y, first, out.data(), count);
    }
};

// y, and with a tangent dy.
inline void smooth_forward(const Plan &plan, const Smooth &kind, Type type, Type result, const void *x, void *y,
                           const void *t, void *dy, const Route &route) {
    const bool few_floats = result == Type::F32 && !kind.lp && floats_do_for(plan, kind.parameter);
    const bool log_sum = few_floats || (result == Type::F64 && !kind.lp);
    const bool own = few_floats && in_own_squares(plan, kind.parameter);
    const bool terms = !log_sum || result != Type::F64 || FUSED;
    Way way = route.asked;  // NONE: as LogSum chooses
    if (way == Way::NONE) way = own ? Way::OWN : log_sum && (suits_log_sum(plan) || !terms) ? Way::NONE : Way::TERMS;
    if (way == Way::OWN || way == Way::TERMS) {
        if (way == Way::OWN ? !own : !terms) cannot_go(way);
        if (route.tell(way)) return;
        if (way == Way::OWN)
            squares_value(plan, kind.parameter, static_cast<const float *>(x), static_cast<float *>(y), route);
    } else if (log_sum) {
        auto value = few_floats ? log_sum_all<float> : log_sum_all<double>;
        value(plan, kind.parameter, kind.count_pad, x, y, route);
        if (route.told) return;
    } else {
        cannot_go(way);
    }
    if (way == Way::TERMS || t) TermsForward{plan, kind, type, result, x, t, y, dy, way == Way::TERMS}.run();
}

// Writes what a cell gets: its weight times what the windows over it hand on, and what windows on their own bring.
// Weights and sums are of type E and A.
template <class E, class A, bool STREAMING = false>
struct SmoothTarget {
    Type result;
    void *gx;         // the slab's
    const E *weight;  // or null, if there is no window
    const double *extra = nullptr;
    static constexpr bool REPEATS = false, STREAMS = std::is_same_v<A, float>, PAST = STREAMING;

    i64 element_bytes() const { return size_of(result); }
    SmoothTarget instead(void *other) const { return {result, other, weight, extra}; }
    SmoothTarget<E, A, true> past_the_caches() const { return {result, gx, weight, extra}; }
    template <int N>
    NDPOOL_INLINE void put(i64 at, vec<A, N> sum, int count) const {
        vec<A, N> zero{}, out = zero;
        // A cell that got nothing stays 0, even if its weight is not finite; and one without weight.
        if (weight) {
            const vec<A, N> w = load_as<A, N>(weight + at);
            out = ((sum == 0) | (w == 0)) ? zero : sum * w;
        }
        if (extra) out += load_as<A, N>(extra + at);
        if (result == Type::F32)
            put_as(static_cast<float *>(gx) + at, out, count);
        else if (result == Type::F64)
            put_as(static_cast<double *>(gx) + at, out, count);
        else  // floats have more bits than enough
            with_narrow(result == Type::BF16, [&](auto zero) NDPOOL_INLINED {
                put_as(static_cast<decltype(zero) *>(gx) + at, convert<float, N>(out), count);
            });
    }

  private:
    template <class T, class V>
    NDPOOL_INLINE static void put_as(T *p, V v, int count) {
        constexpr int N = sizeof(V) / sizeof(v[0]);
        if constexpr (PAST && std::is_same_v<T, float>)
            stream<N>(p, convert<float, N>(v));
        else
            put_some<N>(p, count, [&](T *some) NDPOOL_INLINED { store_as<N>(some, v); });
    }
};

// gx, from terms.
struct TermsBack {
    const Plan &plan;
    const Smooth &kind;
    Type type, result;
    const void *x, *g;
    void *gx;
    Way way;
    const Route &route;
    bool float_sums;  // whether sums of terms are in floats, where the terms are

    void run() const {
        if (!has_long_windows()) return run_in_parts();
        parallel(plan.outer, worth_threads(plan.outer * plan.in_slab), [&](i64 begin, i64 end) {
            for (i64 slab = begin; slab < end; ++slab) {
                if (run_in_pieces(slab)) continue;
                const Plan one = plan.part(0, plan.axes[0].length, 0, 1);
                auto from = [](const void *p, i64 element, Type type) {
                    return static_cast<const char *>(p) + element * size_of(type);
                };
                const i64 cell = slab * plan.in_slab, output = slab * plan.out_slab;
                TermsBack{one,         kind, type,  result,    from(x, cell, type), from(g, output, result),
                          in_gx(cell), way,  route, float_sums}
                    .run_in_parts();
            }
        });
    }

  private:
    void *in_gx(i64 cell) const { return static_cast<char *>(gx) + cell * size_of(result); }

    // Whether there is one window along the first axis, over all of it, that is longer than what stays in the cache.
    bool has_long_windows() const {
        const Axis &axis = plan.axes[0];
        const bool one = axis.output == 1 && axis.dilation == 1 && axis.taps(0).count == axis.length;
        return one && way == Way::SPREAD && plan.in_slab > LONG;
    }

    void run_in_parts() const {
        auto prepare = [&](const InputPart &in, const OutputPart &part, const auto &use) {
            const i64 rows_each = plan.dim_count ? plan.out_rows / plan.axes[0].output : 1;
            const i64 lo = plan.dim_count ? part.row_begin / rows_each : part.begin;
            const i64 hi = plan.dim_count ? part.row_end / rows_each : part.end;
            if (lo == hi) {
                SmoothTarget<double, double> zeros{result, in.gx, nullptr};
                return use(Transposition<SumSource<double>, SmoothTarget<double, double>, false>{
                    {PartPlane<double>(plan, part).data()}, zeros});
            }
            const SmoothPart whole{in.slab, 1, part, lo, hi};
            over_terms(plan, kind, type, result, x, whole, in.begin, in.end, {true, false, true, float_sums},
                       [&](auto &terms) {
                           using S = std::decay_t<decltype(terms.sum[0])>;
                           if (float_sums)
                               hand_on<S>(terms, in, use);
                           else
                               hand_on<double>(terms, in, use);
                       });
        };
        transpose_all(plan, gx, size_of(result), way, route, prepare);
    }

    // Calls use(job) with the Transposition for a part of the input, whose sums are of type Q.
    template <class Q, class Terms, class Use>
    void hand_on(const Terms &terms, const InputPart &in, const Use &use) const {
        using E = std::decay_t<decltype(terms.e[0])>;
        const PartPlane<Q> outputs(plan, terms.part);
        const bool good = divide_cotangents(terms, outputs.data());
        Transposition<SumSource<Q, Q>, SmoothTarget<E, Q>, std::is_same_v<Q, float>> job{{outputs.data()},
                                                                                         {result, in.gx, terms.slope}};
        if (good) return use(job);
        const i64 low = terms.low();
        const Scratch<double> block(terms.length() + 64, "what windows by themselves bring");
        double *extra = block.data();
        std::memset(extra, 0, sizeof(double) * static_cast<std::size_t>(terms.length()));
        terms.over_bad(false, [&](const OutputRow &rows, i64 slab, i64 row, i64 o, i64 e) {
            double share = read(result, g, (slab * plan.out_rows + row) * plan.out_row + o * plan.inner + e);
            auto weigh = [&](i64 cell, double w) {
                if (w != 0) extra[cell - slab * plan.in_slab - low] += w * share;
            };
            kind.window(plan, type, x, slab * plan.in_slab, rows, o, e, &weigh);
        });
        job.to.extra = extra - low;
        use(job);
    }

    // What the outputs of a part hand on, in a plane of the slab: 0 for those that are not good. Says whether all are.
    template <class Q, class Terms>
    bool divide_cotangents(const Terms &terms, Q *plane) const {
        using E = std::decay_t<decltype(terms.e[0])>;
        using S = std::decay_t<decltype(terms.sum[0])>;
        constexpr int N = LANES<S>;
        const i64 start = terms.part.row_begin * plan.out_row + terms.part.begin * plan.inner;
        auto all = terms.template truth<N>();
        over_chunks(terms.count(), [&](i64 first, i64 some) {
            S from[CHUNK];
            terms.load_plane(result, g, terms.slab * plan.out_slab + start + first, some, from);
            for (i64 i = 0; i < some; i += N) {
                vec<S, N> sum = load<N>(terms.sum + first + i), zero{};
                for (i64 past = some; past < i + N; ++past) sum[past - i] = 1;
                auto good = kind.good<E, N>(sum);
                all &= good;
                store_as<N>(plane + start + first + i, good ? kind.share<E, N>(load<N>(from + i), sum) : zero);
            }
        });
        return terms.template everywhere<N>(all);
    }

    // Adds up all terms of a slab, and then fills it piece by piece; says whether all sums were good.
    bool run_in_pieces(i64 slab) const {
        const SmoothPart whole{slab, 1, {0, plan.out_rows, 0, plan.last().output}, 0, 1};
        bool good = false;
        over_terms(plan, kind, type, result, x, whole, plan.axes[0].length, 0, {true, true, false, false},
                   [&](auto &terms) {
                       using E = std::decay_t<decltype(terms.e[0])>;
                       const PartPlane<double> outputs(plan, terms.part);
                       good = terms.in_pieces && divide_cotangents(terms, outputs.data());
                       if (!good) return;
                       terms.over_pieces([&](const Plan &piece, const E *some, i64 from, i64 many) {
                           const E *weights = terms.weights_of(some, many);
                           transpose_all(piece, in_gx(slab * plan.in_slab + from), size_of(result), Way::SPREAD, {},
                                         [&](const InputPart &in, const OutputPart &, const auto &use) {
                                             use(Transposition<SumSource<double>, SmoothTarget<E, double>, false>{
                                                 {outputs.data()}, {result, in.gx, weights}});
                                         });
                       });
                   });
        return good;
    }
};

inline void smooth_vjp(const Plan &plan, const Smooth &kind, Type type, Type result, const void *x, const void *g,
                       void *gx, const Route &route) {
    const bool own = result == Type::F32 && !kind.lp && in_own_squares(plan, kind.parameter);
    const bool float_sums = kind.floats_do_for_sums(plan, result);
    Way way = Way::OWN;
    if (!own || (route.asked != Way::NONE && route.asked != Way::OWN)) {
        way = Way::SPREAD;
        if (float_sums) way = way_back<float>(plan, {0, 0, 0}, Way::SPREAD, route);
        if (way == Way::SPREAD) way = way_back<double>(plan, {0, 0, 0}, Way::SPREAD, route);
    }
    if (route.tell(way)) return;
    if (way == Way::OWN)
        return squares_vjp(plan, kind.parameter, static_cast<const float *>(x), static_cast<const float *>(g),
                           Gradient(plan, gx, sizeof(float), route));
    TermsBack{plan, kind, type, result, x, g, gx, way, route, float_sums}.run();
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
