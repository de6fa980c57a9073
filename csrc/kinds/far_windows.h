// SmoothMax where cells are so far from each other that no power of 2 serves all windows of a part: every window has
// one of its own, that of its largest cell.
//
// Mantissas and exponents of all cells are found once, and added up along one axis after the other, each sum with its
// own power of 2. The cost is that of a few usual sums, however far the windows are from each other.
#pragma once
#include "kinds/scaled_sums.h"
#include "kinds/window_sums.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

class FarWindows {
    using Sums = WindowSums<double, double>;

  public:
    template <class Other>
    static constexpr bool MAY_SUIT = std::is_same_v<Other, Sums>;
    // Lp has no such windows but for numbers near the largest and the smallest ones.
    static bool suit(const Sums &sums) {
        return sums.bad && !sums.kind.lp && !sums.kind.is_extreme() && !sums.terms.in_pieces;
    }

    explicit FarWindows(const Sums &sums)
        : sums(sums),
          plan(sums.plan),
          kind(sums.kind),
          low(sums.terms.low()),
          length(sums.terms.length()),
          count(sums.count()),
          room(most_elements() + 64),
          block(2 * (length + count + 128) + 6 * room, "sums of windows that are far from each other"),
          mantissa(block.data()),
          exponent(mantissa + length + 64),
          total(exponent + length + 64),
          power(total + count + 64) {
        over_chunks(length, [&](i64 first, i64 some) {
            double x[CHUNK];
            load_plane(sums.terms.type, sums.terms.x, sums.terms.slab * plan.in_slab + low + first, some, x);
            kind.split(x, some, mantissa + first, exponent + first);
        });
        add_up(mantissa, total, power);
        if (kind.count_pad && plan.padded) add_padding();
    }

    // Whether its terms are in range. All others are infinite, or NaN, or have no cells.
    bool is_plain(i64 output) const {
        const double limit = 0.9 * kind.limit();
        return total[output] - total[output] == 0 && power[output] < limit && power[output] > -limit;
    }

    bool all_plain() const {
        bool all = true;
        for (i64 i = 0; i < count; ++i) all &= is_plain(i);
        return all;
    }

    // Writes the outputs, and a good sum where a window is plain and its value finite.
    void values(double *to, Sums &of) const {
        if (kind.narrow)
            values_by(LogValue<float>(0, kind.parameter), to);
        else
            values_by(LogValue<double>(0, kind.parameter), to);
        of.bad = 0;
        for (i64 i = 0; i < count; ++i) {
            if (is_plain(i) && to[i] - to[i] == 0)
                of.sum[i] = 0x1p100;
            else if (!of.is_nan(i) && (is_plain(i) || !of.is_good(i)))
                of.sum[i] = -1, ++of.bad;
        }
    }

    // The changes along a tangent.
    void changes(Type type, const void *t, double *to) const {
        const Scratch<double> tangent(length + 64, "a part of the tangent"), top(count + 64, "exponents of changes");
        double *cells = tangent.data();
        load_plane(type, t, sums.terms.slab * plan.in_slab + low, length, cells);
        for (i64 i = 0; i < length; i += N) {
            const V none{}, w = load<N>(mantissa + i), product = w * load<N>(cells + i);
            store<N>(cells + i, w == 0 ? none : kind.narrow ? to_float_bits<N>(product) : product);
        }
        add_up(cells, to, top.data());
        with_share<double>(kind, {}, [&](const auto &share) NDPOOL_INLINED {
            for (i64 i = 0; i < count; i += N) {
                const V factor = power_of_two<N>(load<N>(top.data() + i) - load<N>(power + i)), none{};
                const V change = factor == 0 ? none : load<N>(to + i) * factor;
                store<N>(to + i, share(change, load<N>(total + i)));
            }
        });
    }

    // What the cells begin..end-1 of the first axis get of the outputs' cotangents, those of plain windows alone.
    void hand_back(Type type, const void *g, i64 begin, i64 end, double *to) const {
        ScaledPlanes at = planes(0), next = planes(1);
        divide(type, g, at);
        over_axes(false, [&](const ScaledShape &shape, int a) {
            const Scratch<Addends> list(shape.targets, "windows over cells");
            list_cells(a, begin, end, shape.targets, list.data());
            const bool runs = RunningSums<double>::suit(plan.axes[a], kind.exact);
            const i64 step = -step_of(plan.axes[a]);
            if (kind.exact && runs) {
                no_errors(shape.before * shape.length * shape.inner, at);
                ScaledAxis<true>(shape, step, list.data(), true).run(at, next);
                total_of(shape.before * shape.targets * shape.inner, next);
            } else {
                ScaledAxis<false>(shape, step, list.data(), runs).run(at, next);
            }
            const ScaledPlanes from = at;
            at = next, next = from;
        });
        for (i64 i = 0; i < length; i += N) {
            V sum = load<N>(at.v + i), p = load<N>(mantissa + i), none{};
            if (kind.narrow) sum = to_float_bits<N>(sum);
            // By halves, so that a product below the normal numbers is rounded once.
            const V n = load<N>(exponent + i) + load<N>(at.power + i), half = n * 0.5 + WHOLE_DOUBLE - WHOLE_DOUBLE;
            const V share = (sum * power_of_two<N>(half)) * (p * power_of_two<N>(n - half));
            store<N>(to + i, ((sum == 0) | (p == 0) | !(n > -2000.0)) ? none : share);
        }
    }

  private:
    static constexpr int N = LANES<double>;
    // By how much shares are less than they are, so that no sum of them is too large.
    static constexpr double LESS = 64;
    using V = vec<double, N>;
    const Sums &sums;
    const Plan &plan;
    const Smooth &kind;
    const i64 low, length, count;
    const i64 room;  // of a plane
    const Scratch<double> block;
    double *const mantissa, *const exponent;  // of the part's cells
    double *const total, *const power;        // of its outputs

    ScaledPlanes planes(int number) const {
        double *own = block.data() + 2 * (length + count + 128) + 3 * number * room;
        return {own, own + room, own + 2 * room};
    }

    // The axes that become shorter, or longer on the way back: of each, its number or -1, and how long it is.
    struct Side {
        int axis;
        i64 cells, outputs;
    };
    Side side(int d) const {
        const PartTerms<double> &terms = sums.terms;
        const int a = d < plan.dim_count ? plan.dims[d].axis : plan.axis_count - 1;
        if (a == 0) return {a, terms.in_end - terms.in_begin, terms.hi - terms.lo};
        if (a > 0) return {a, plan.axes[a].length, plan.axes[a].output};
        return {a, plan.dims[d].in_count, plan.dims[d].in_count};
    }
    // Calls f(shape, axis number) for one pooled axis after the other: of cells that become windows, or the other way
    // round.
    template <class F>
    void over_axes(bool forward, const F &f) const {
        i64 before = sums.terms.slabs, inner = plan.inner;
        for (int d = 0; d <= plan.dim_count; ++d) inner *= forward ? side(d).cells : side(d).outputs;
        for (int d = 0; d <= plan.dim_count; ++d) {
            const Side own = side(d);
            const i64 from = forward ? own.cells : own.outputs, to = forward ? own.outputs : own.cells;
            inner /= from;
            if (own.axis >= 0) f(ScaledShape{before, from, to, inner}, own.axis);
            before *= to;
        }
    }
    // The cells of each window.
    void list_windows(int a, i64 outputs, Addends *list) const {
        const Axis &axis = plan.axes[a];
        const i64 first_cell = a == 0 ? sums.terms.in_begin : 0, first_output = a == 0 ? sums.terms.lo : 0;
        for (i64 o = 0; o < outputs; ++o) {
            const Axis::Taps taps = axis.taps(first_output + o);
            list[o] = taps.count > 0 ? Addends{taps.first - first_cell, taps.count} : Addends{0, 0};
        }
    }
    // The windows over each cell, the last one first; of the first axis, over the cells begin..end-1.
    void list_cells(int a, i64 begin, i64 end, i64 cells, Addends *list) const {
        const Axis &axis = plan.axes[a];
        const i64 first_cell = a == 0 ? sums.terms.in_begin : 0, first_output = a == 0 ? sums.terms.lo : 0;
        if (a > 0) begin = 0, end = cells;
        const i64 step = step_of(axis);
        for (i64 c = 0; c < cells; ++c) list[c] = {0, 0};
        Cursor cursor;
        cursor.move_to(axis, begin);
        for (i64 c = begin; c < end; ++c) {
            const Seen seen = seen_from(axis, step, cursor);
            if (seen.count) list[c - first_cell] = {seen.first + (seen.count - 1) * step - first_output, seen.count};
            if (c + 1 < end) cursor.step(axis);
        }
    }
    i64 most_elements() const {
        i64 most = length > count ? length : count;
        for (const bool forward : {true, false})
            over_axes(forward, [&](const ScaledShape &shape, int) {
                const i64 elements = shape.before * shape.targets * shape.inner;
                most = elements > most ? elements : most;
            });
        return most;
    }

    // The sums of windows over what cells have.
    void add_up(const double *cells, double *sum, double *top) const {
        ScaledPlanes at{const_cast<double *>(cells), nullptr, exponent}, next = planes(0);
        if (kind.exact) at.lost = planes(1).lost, no_errors(length, at);
        bool second = false;
        over_axes(true, [&](const ScaledShape &shape, int a) {
            const Scratch<Addends> list(shape.targets, "cells of windows");
            list_windows(a, shape.targets, list.data());
            const i64 step = plan.axes[a].dilation;
            if (kind.exact)
                ScaledAxis<true>(shape, step, list.data(), true).run(at, next);
            else
                ScaledAxis<false>(shape, step, list.data(), true).run(at, next);
            at = next, second = !second, next = planes(second);
        });
        if (kind.exact) total_of(count, at);
        std::memcpy(sum, at.v, sizeof(double) * static_cast<std::size_t>(count));
        std::memcpy(top, at.power, sizeof(double) * static_cast<std::size_t>(count));
    }
    static void no_errors(i64 count, const ScaledPlanes &at) {
        std::memset(at.lost, 0, sizeof(double) * static_cast<std::size_t>(count));
    }
    static void total_of(i64 count, const ScaledPlanes &at) {
        for (i64 i = 0; i < count; i += N) {
            const LaneSum<double, N, true> sum{load<N>(at.v + i), load<N>(at.lost + i)};
            store<N>(at.v + i, sum.total());
        }
    }

    // A padded cell that counts is the number 0.
    void add_padding() {
        const Axis &last = plan.last();
        const OutputPart &part = sums.part;
        const WholeOutputs whole = whole_outputs(last, part.begin, part.end);
        OutputRow rows(plan);
        for (i64 row = part.row_begin; row < part.row_end; ++row) {
            rows.move_to(row % plan.out_rows);
            for (i64 o = part.begin; o < part.end; ++o) {
                if (o == whole.first && whole.first < whole.stop && rows.counted == rows.real) o = whole.stop;
                if (o == part.end) break;
                const i64 at = (row - part.row_begin) * sums.outputs() + (o - part.begin) * plan.inner;
                const i64 zeros = rows.counted * last.counted(o) - rows.real * last.taps(o).count;
                for (i64 e = at; zeros > 0 && e < at + plan.inner; ++e) add_zeros(e, static_cast<double>(zeros));
            }
        }
    }
    void add_zeros(i64 output, double zeros) {
        using One = vec<double, 1>;
        const double own = power[output], top = own > 0 ? own : 0;
        if (own == __builtin_inf()) return;
        const double factor = power_of_two<1>(One{own - top})[0];
        const double real = factor == 0 ? 0 : total[output] * factor;
        total[output] = (kind.narrow ? to_float_bits<1>(One{real})[0] : real) + zeros * power_of_two<1>(One{-top})[0];
        power[output] = top;
    }

    template <class Log>
    NDPOOL_INLINE void values_by(const Log &log, double *to) const {
        for (i64 i = 0; i < count; i += N) store<N>(to + i, log.template of<N>(load<N>(total + i), load<N>(power + i)));
    }
    // What the outputs hand on.
    void divide(Type type, const void *g, const ScaledPlanes &to) const {
        load_plane(type, g, sums.terms.slab * plan.out_slab + sums.start(), count, to.v);
        const double up = power_of_two<1>(vec<double, 1>{LESS})[0];
        with_share<double>(kind, {}, [&](const auto &share) NDPOOL_INLINED {
            for (i64 i = 0; i < count; i += N) store<N>(to.v + i, share(load<N>(to.v + i), load<N>(total + i) * up));
        });
        for (i64 i = 0; i < count; ++i) {
            const bool some = is_plain(i) && to.v[i] != 0;
            to.v[i] = some ? to.v[i] : 0, to.power[i] = some ? LESS - power[i] : -__builtin_inf();
        }
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
