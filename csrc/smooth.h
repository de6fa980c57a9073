// SmoothMax and Lp, each as a sum of terms.
//
//   SmoothMax   e_i = exp(beta (x_i - s))     y = s + log(sum e) / beta     dy/dx_i = e_i / sum e
//   Lp          e_i = (|x_i| / s)^p           y = s (sum e)^(1/p)           dy/dx_i = sign(x_i) (|x_i|/s)^(p-1) (sum e)^((1-p)/p)
//
// The scale s is one for a whole part of the input, so every term is computed once, in double, and what is left is a
// sum over windows and its transpose. A window whose sum is out of the range in which that is accurate (far below s, or not
// finite) is computed again by itself, with a scale of its own.
#pragma once
#include "engine.h"
#include "sums.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// --- exp and log --------------------------------------------------------------------------------

// For x <= 709, to the last place or so; 0 below -708.
template <int N>
inline vec<double, N> exp_lanes(vec<double, N> x) {
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
    V power = bits<V>((bits<vec<std::int64_t, N>>(shifted) << 52) + bits<vec<std::int64_t, N>>(p));
    V large = x > 709.0 ? splat<double, N>(__builtin_inf()) : power;
    V result = x < -708.0 ? splat<double, N>(0.0) : large;
    return x == x ? result : x;
}

// For positive normal x.
template <int N>
inline vec<double, N> log_lanes(vec<double, N> x) {
    using V = vec<double, N>;
    using I = vec<std::int64_t, N>;
    I b = bits<I>(x);
    // x = m 2^e with m from sqrt(1/2) to sqrt(2).
    I e = (b - 0x3fe6a09e667f3bcdll) >> 52;
    V m = bits<V>(b - (e << 52));
    V f = (m - 1.0) / (m + 1.0), s = f * f;
    V p = splat<double, N>(1.0 / 21.0);
    p = p * s + 1.0 / 19.0;
    p = p * s + 1.0 / 17.0;
    p = p * s + 1.0 / 15.0;
    p = p * s + 1.0 / 13.0;
    p = p * s + 1.0 / 11.0;
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

// --- one window by itself -----------------------------------------------------------------------

inline double read(Type type, const void *x, i64 i) {
    switch (type) {
#define NDPOOL_READ(NAME, T) \
    case Type::NAME: return load_as<double, 1>(static_cast<const T *>(x) + i)[0];
        NDPOOL_NUMBERS(NDPOOL_READ)
#undef NDPOOL_READ
    }
    return 0;
}

// The smooth kinds, and their windows when each is computed by itself.
struct Smooth {
    bool lp;
    double parameter;  // beta or p
    bool count_pad;    // whether a padded cell is the number 0 (SmoothMax)

    double exp1(double v) const { return exp_lanes<1>(vec<double, 1>{v})[0]; }
    double log1(double v) const { return log_lanes<1>(vec<double, 1>{v})[0]; }
    double pow1(double v, double p) const { return pow_lanes<1>(vec<double, 1>{v}, p)[0]; }

    // The output of one window; calls weigh(cell, weight) for each of its cells if asked to.
    template <class F>
    double window(const Plan &plan, Type type, const void *x, i64 slab_start, const OutputRow &rows, i64 o, i64 e,
                  const F *weigh) const {
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

    // The scale s of some cells, from the finite ones.
    double scale_of(const double *x, i64 length, bool zero) const {
        double sign = lp || parameter > 0 ? 1 : -1, best = zero || lp ? 0.0 : -__builtin_inf();
        constexpr int N = LANES<double>;
        vec<double, N> lanes = splat<double, N>(best);
        auto take = [&](auto v, auto &into) {
            auto key = lp ? (v < 0 ? -v : v) : sign * v;
            into = (key > into) & (v - v == 0) ? key : into;
        };
        i64 i = 0;
        for (; i + N <= length; i += N) take(load<N>(x + i), lanes);
        for (; i < length; ++i) {
            vec<double, 1> v = load<1>(x + i), into = {best};
            take(v, into);
            best = into[0];
        }
        for (int l = 0; l < N; ++l) best = lanes[l] > best ? lanes[l] : best;
        if (lp) return best > 0 ? best : 1.0;
        return best - best == 0 ? sign * best : 0.0;
    }

    // x becomes its terms; `slope`, if given, sign(x) (|x|/s)^(p-1).
    void terms(double *x, i64 length, double scale, double *slope) const {
        constexpr int N = LANES<double>;
        double by = 1.0 / scale;
        bool halved = !(by - by == 0);  // the reciprocal of a subnormal number overflows
        for (i64 i = 0; i < length; i += N) {
            vec<double, N> v = load<N>(x + i);
            if (!lp) {
                store<N>(x + i, exp_lanes<N>(parameter * (v - scale)));
                continue;
            }
            vec<double, N> size = v < 0 ? -v : v;
            vec<double, N> r = halved ? size / scale : size * by;
            store<N>(x + i, pow_lanes<N>(r, parameter));
            if (!slope) continue;
            vec<double, N> w = pow_lanes<N>(r, parameter - 1);
            vec<double, N> zero = splat<double, N>(0.0);
            store<N>(slope + i, v > 0 ? w : v < 0 ? -w : v == 0 ? zero : v);
        }
    }

    // What the weights of a window are divided by, from its sum.
    template <int N>
    vec<double, N> norm(vec<double, N> sum) const {
        return lp ? pow_lanes<N>(pow_lanes<N>(sum, 1 / parameter), parameter - 1) : sum;
    }

    // Whether the sum of a window is good for its value, or for its weights alone.
    template <int N>
    auto good(vec<double, N> sum, bool precise) const {
        double least = lp ? 1e-250 : precise ? 1e-13 : 1e-260;
        return (sum >= least) & (sum <= 1e300);
    }
};

// --- parts --------------------------------------------------------------------------------------

// Writes sums as they are into rows of a plane.
struct PlaneSink {
    double *row;
    template <int N>
    void put(i64 at, const PlainSum<double, double>::State<N> &s, int count) {
        put_some<N>(row + at, count, [&](double *p) { store<N>(p, s.v); });
    }
};

// The input of one slab from cell in_begin to in_end-1 of its first pooled axis, as terms, and the sums of the windows of
// one part of the outputs.
struct TermPart {
    const Plan &plan;
    const Smooth &kind;
    i64 slab, in_begin, in_end;
    OutputPart part;
    double scale;
    double *e, *slope;  // as if from the slab's start
    double *sum;        // rows of the part one after the other

    i64 outputs() const { return (part.end - part.begin) * plan.inner; }

    // The part's outputs are lo..hi-1 along the first pooled axis; the cells from begin to end-1 are taken in any case.
    TermPart(const Plan &plan, const Smooth &kind, Type type, const void *x, i64 slab, OutputPart part, i64 lo, i64 hi,
             i64 begin, i64 end, bool with_slope)
        : plan(plan), kind(kind), slab(slab), in_begin(begin), in_end(end), part(part), slope(nullptr) {
        const Axis &axis = plan.axes[0];
        i64 first = axis.start(lo), last = axis.start(hi - 1) + axis.dilation * (axis.kernel - 1);
        if (first < in_begin) in_begin = first < 0 ? 0 : first;
        if (last >= in_end) in_end = last < axis.length ? last + 1 : axis.length;
        i64 low = in_begin * first_stride(plan), length = in_end * first_stride(plan) - low;
        auto *plane = static_cast<double *>(scratch(PLANE, sizeof(double) * (length + 64)));
        load_plane(type, x, slab * plan.in_slab + low, length, plane);
        scale = kind.scale_of(plane, length, kind.count_pad && plan.padded);
        double *slope_plane = nullptr;
        if (kind.lp && with_slope) slope_plane = static_cast<double *>(scratch(PLANE2, sizeof(double) * (length + 64)));
        kind.terms(plane, length, scale, slope_plane);
        e = plane - low;
        slope = slope_plane ? slope_plane - low : e;
        sum = static_cast<double *>(scratch(PLANE3, sizeof(double) * ((part.row_end - part.row_begin) * outputs() + 64)));
        pool(e, sum);
        if (kind.count_pad && plan.padded) add_padding();
    }

    static void load_plane(Type type, const void *x, i64 from, i64 length, double *to) {
        constexpr int N = LANES<double>;
        switch (type) {
#define NDPOOL_LOAD(NAME, T)                                                                        \
    case Type::NAME: {                                                                              \
        const T *p = static_cast<const T *>(x) + from;                                              \
        i64 i = 0;                                                                                  \
        for (; i + N <= length; i += N) store<N>(to + i, load_as<double, N>(p + i));                \
        for (; i < length; ++i) to[i] = load_as<double, 1>(p + i)[0];                               \
        break;                                                                                      \
    }
            NDPOOL_NUMBERS(NDPOOL_LOAD)
#undef NDPOOL_LOAD
        }
    }

    // Sums over the windows of the part.
    void pool(const double *cells, double *to) const {
        using P = PlainSum<double, double>;
        const P p{};
        OutputRow rows(plan);
        RowPooler<P, PlaneSink> pooler(plan, p, -1);
        i64 step = part_of_row(plan);
        for (i64 row = part.row_begin; row < part.row_end; ++row) {
            rows.move_to(row);
            PlaneSink sink{to + (row - part.row_begin) * outputs() - part.begin * plan.inner};
            for (i64 o = part.begin; o < part.end; o += step)
                pooler.pool(cells, rows, sink, o, o + step < part.end ? o + step : part.end);
        }
    }

    void add_padding() {
        double zero = kind.exp1(kind.parameter * (0.0 - scale));
        OutputRow rows(plan);
        double *to = sum;
        for (i64 row = part.row_begin; row < part.row_end; ++row) {
            rows.move_to(row);
            for (i64 o = part.begin; o < part.end; ++o) {
                i64 zeros = rows.counted * plan.last().counted(o) - rows.real * plan.last().taps(o).count;
                for (i64 e = 0; e < plan.inner; ++e, ++to)
                    if (zeros) *to += static_cast<double>(zeros) * zero;
            }
        }
    }

    // Calls bad(row, o, e, at) for each output whose sum is not good.
    template <class F>
    void over_bad(bool precise, const F &bad) const {
        OutputRow rows(plan);
        for (i64 row = part.row_begin; row < part.row_end; ++row) {
            const double *from = sum + (row - part.row_begin) * outputs();
            bool moved = false;
            for (i64 i = 0; i < outputs(); ++i) {
                if (kind.good<1>(vec<double, 1>{from[i]}, precise)[0]) continue;
                if (!moved) rows.move_to(row), moved = true;
                bad(rows, row, part.begin + i / plan.inner, i % plan.inner, (row - part.row_begin) * outputs() + i);
            }
        }
    }
};

// Parts of the outputs along the first pooled axis, small enough that their terms stay in the cache.
template <class Piece>
void over_output_parts(const Plan &plan, const Piece &piece) {
    const Axis &axis = plan.axes[0];
    i64 cuts = plan.in_slab >> 16;
    i64 overlap = axis.adaptive ? 1 : 4 * (axis.dilation * axis.kernel / axis.stride + 1);
    if (cuts > axis.output / overlap) cuts = axis.output / overlap;
    if (cuts < 1) cuts = 1;
    parallel(plan.outer * cuts, worth_threads(plan.outer * plan.in_slab), [&](i64 begin, i64 end) {
        for (i64 unit = begin; unit < end; ++unit) {
            i64 cut = unit % cuts, lo = axis.output * cut / cuts, hi = axis.output * (cut + 1) / cuts;
            i64 rows = plan.dim_count ? plan.out_rows / axis.output : 1;
            OutputPart part = {lo * rows, hi * rows, 0, plan.last().output};
            if (plan.dim_count == 0) part = {0, 1, lo, hi};
            piece(unit / cuts, part, lo, hi);
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

inline void store_row(Type type, void *y, i64 to, const double *from, i64 length) {
    constexpr int N = LANES<double>;
    switch (type) {
#define NDPOOL_STORE(NAME, T)                                                                                         \
    case Type::NAME:                                                                                                  \
        blocks<N>(length, [&](i64 i, int count) {                                                                     \
            put_some<N>(static_cast<T *>(y) + to + i, count, [&](T *p) { store_as<N>(p, load<N>(from + i)); });       \
        });                                                                                                           \
        break;
        NDPOOL_FLOATS(NDPOOL_STORE)
#undef NDPOOL_STORE
        default: break;
    }
}

// y, and with a tangent dy.
inline void smooth_forward(const Plan &plan, const Smooth &kind, Type type, Type result, const void *x, void *y,
                           const void *t, void *dy) {
    constexpr int N = LANES<double>;
    bool precise = result == Type::F64;
    over_output_parts(plan, [&](i64 slab, const OutputPart &part, i64 lo, i64 hi) {
        TermPart terms(plan, kind, type, x, slab, part, lo, hi, plan.axes[0].length, 0, t != nullptr);
        i64 length = terms.outputs(), rows = part.row_end - part.row_begin;
        auto at = [&](i64 row) { return (slab * plan.out_rows + part.row_begin + row) * plan.out_row + part.begin * plan.inner; };
        auto *out = static_cast<double *>(scratch(PLANE4, sizeof(double) * (rows * length + 64)));
        if (t) {
            i64 low = terms.in_begin * first_stride(plan), count = terms.in_end * first_stride(plan) - low;
            double *weighted = terms.slope + low;
            auto *tangent = static_cast<double *>(scratch(BLOCK, sizeof(double) * (count + 64)));
            TermPart::load_plane(result, t, slab * plan.in_slab + low, count, tangent);
            // A cell without weight does not meet its tangent, which may be infinite.
            for (i64 i = 0; i < count; ++i) weighted[i] = weighted[i] == 0 ? 0 : weighted[i] * tangent[i];
            terms.pool(weighted - low, out);
            for (i64 i = 0; i < rows * length; i += N) store<N>(out + i, load<N>(out + i) / kind.norm<N>(load<N>(terms.sum + i)));
            for (i64 row = 0; row < rows; ++row) store_row(result, dy, at(row), out + row * length, length);
        }
        for (i64 i = 0; i < rows * length; i += N) {
            vec<double, N> sum = load<N>(terms.sum + i);
            vec<double, N> v;
            if (!kind.lp)
                v = log_lanes<N>(sum) / kind.parameter + terms.scale;
            else if (kind.parameter == 2)
                for (int l = 0; l < N; ++l) v[l] = terms.scale * __builtin_sqrt(sum[l] > 0 ? sum[l] : 0);
            else
                v = terms.scale * pow_lanes<N>(sum, 1 / kind.parameter);
            store<N>(out + i, v);
        }
        for (i64 row = 0; row < rows; ++row) store_row(result, y, at(row), out + row * length, length);
        auto again = [&](bool exact, bool value) {
            terms.over_bad(exact, [&](const OutputRow &rows, i64 row, i64 o, i64 e, i64) {
                i64 to = (slab * plan.out_rows + row) * plan.out_row + o * plan.inner + e;
                double change = 0;
                auto weigh = [&](i64 cell, double w) {
                    if (w != 0) change += w * read(result, t, cell);
                };
                double v = kind.window(plan, type, x, slab * plan.in_slab, rows, o, e, value ? nullptr : &weigh);
                if (value)
                    write(result, y, to, v);
                else
                    write(result, dy, to, change);
            });
        };
        again(precise, true);
        if (t) again(false, false);
    });
}

inline void smooth_vjp(const Plan &plan, const Smooth &kind, Type type, Type result, const void *x, const void *g, void *gx) {
    constexpr int N = LANES<double>;
    // One part's terms serve both callbacks, which run one after the other on one thread.
    struct Current {
        double *weights;
        const double *extra;
        i64 low;
    };
    static thread_local Current current;
    transpose_all(
        plan,
        [&](i64 slab, i64 begin, i64 end, const OutputPart &part, double *q) {
            const Axis &axis = plan.axes[0];
            i64 rows_each = plan.dim_count ? plan.out_rows / axis.output : 1;
            i64 lo = plan.dim_count ? part.row_begin / rows_each : part.begin;
            i64 hi = plan.dim_count ? part.row_end / rows_each : part.end;
            current = {nullptr, nullptr, 0};
            if (lo == hi) return;
            TermPart terms(plan, kind, type, x, slab, part, lo, hi, begin, end, true);
            i64 length = terms.outputs(), rows = part.row_end - part.row_begin;
            for (i64 row = 0; row < rows; ++row)
                TermPart::load_plane(result, g, (slab * plan.out_rows + part.row_begin + row) * plan.out_row + part.begin * plan.inner,
                                     length, q + row * length);
            vec<std::int64_t, N> all_good = splat<std::int64_t, N>(-1);
            for (i64 i = 0; i < rows * length; i += N) {
                vec<double, N> sum = load<N>(terms.sum + i), zero{};
                for (i64 past = rows * length; past < i + N; ++past) sum[past - i] = 1;
                auto good = kind.good<N>(sum, false);
                all_good &= good;
                store<N>(q + i, good ? load<N>(q + i) / kind.norm<N>(sum) : zero);
            }
            current.weights = terms.slope;
            bool every = true;
            for (int l = 0; l < N; ++l) every &= all_good[l] != 0;
            if (every) return;
            // What the windows on their own bring is added at the end.
            i64 low = terms.in_begin * first_stride(plan), count = terms.in_end * first_stride(plan) - low;
            auto *extra = static_cast<double *>(scratch(EXTRA, sizeof(double) * (count + 64)));
            std::memset(extra, 0, sizeof(double) * count);
            terms.over_bad(false, [&](const OutputRow &rows, i64 row, i64 o, i64 e, i64) {
                double share = read(result, g, (slab * plan.out_rows + row) * plan.out_row + o * plan.inner + e);
                auto weigh = [&](i64 cell, double w) { extra[cell - slab * plan.in_slab - low] += w * share; };
                kind.window(plan, type, x, slab * plan.in_slab, rows, o, e, &weigh);
            });
            current.extra = extra - low;
        },
        [&](i64 slab, i64 row, const double *spread, i64 first, i64 stop, bool) {
            i64 at = row * plan.in_row + first;
            auto *out = static_cast<double *>(scratch(FRONT, sizeof(double) * (stop - first + 64)));
            for (i64 i = 0; i < stop - first; ++i) {
                double v = spread[i] == 0 ? 0 : spread[i] * current.weights[at + i];
                out[i] = current.extra ? v + current.extra[at + i] : v;
            }
            store_row(result, gx, slab * plan.in_slab + at, out, stop - first);
        });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
