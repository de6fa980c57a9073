// Sum and Avg, and the transpose of a sum: every cell gets the sum of what the windows over it hold.
#pragma once
#include "kinds/totals.h"
#include "passes/back.h"
#include "plan/call.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// What a window's sum is divided by.
struct Divisor {
    Count by;
    double fixed;
    double share = 1 / fixed;

    // A rule under which all windows count alike is a fixed number.
    static Divisor of(const Plan &plan, Count by, double fixed) {
        if ((by == Count::COUNTED && plan.same_count) || (by == Count::REAL && plan.same_real))
            return {Count::FIXED, static_cast<double>(plan.cells)};
        return {by, by == Count::NONE ? 1.0 : fixed};
    }
    bool varies() const { return by == Count::COUNTED || by == Count::REAL; }
    double at(const Plan &plan, const OutputRow &rows, i64 o) const {
        if (by == Count::COUNTED) return static_cast<double>(rows.counted * plan.last().counted(o));
        if (by == Count::REAL) return static_cast<double>(rows.real * plan.last().taps(o).count);
        return fixed;
    }
};

// How many cells each output of a row counts along the row, or one over it; of long rows only where that varies.
struct CountsAlong {
    i64 whole_from = 0, whole_to = 0, left_out = 0;  // elements that count as many as the kernel has, and are not kept
    double common = 1;
    const double *table = nullptr;

    // Sets itself up; what it gives is to be held as long as it is used.
    Scratch<double> fill(const Plan &plan, Count by, bool reciprocals) {
        const Axis &axis = plan.last();
        const i64 inner = plan.inner;
        auto cells = [&](i64 o) { return by == Count::REAL ? axis.taps(o).count : axis.counted(o); };
        auto kept = [&](i64 n) { return reciprocals ? 1 / static_cast<double>(n) : static_cast<double>(n); };
        i64 first = 0, stop = axis.adaptive ? 0 : axis.output;
        while (first < stop && cells(first) != axis.kernel) ++first;
        while (stop > first && cells(stop - 1) != axis.kernel) --stop;
        whole_from = first * inner, whole_to = stop * inner, common = kept(axis.kernel);
        // A register that is not all in the middle starts before it, or less than a register before its end.
        const i64 middle = stop - first - 2 * (MARGIN / inner + 1), gap = first + MARGIN / inner + 1;
        left_out = middle > 0 ? middle : 0;
        Scratch<double> block((axis.output - left_out) * inner + MARGIN, "divisors of a row");
        double *to = block.data();
        for (i64 o = 0; o < axis.output; o += o + 1 == gap ? 1 + left_out : 1)
            for (i64 e = 0; e < inner; ++e) *to++ = kept(cells(o));
        left_out *= inner;
        table = block.data();
        return block;
    }
    // Of the outputs from element `at` of the row on.
    template <int N>
    NDPOOL_INLINE vec<double, N> at(i64 at) const {
        if (at >= whole_from && at + N <= whole_to) return splat<double, N>(common);
        return load<N>(table + (at < whole_from ? at : at - left_out));
    }

  private:
    static constexpr i64 MARGIN = 64;
};

// Writes totals of P, divided, as R. A total that is wider than R may be multiplied by the reciprocal instead: the
// error is far below R's last place.
template <class P, class R, bool PAST = false>
struct SumSink {
    using A = typename P::Lane;
    static constexpr bool STREAMS = std::is_same_v<R, float>, BY_RECIPROCAL = sizeof(R) < sizeof(double);
    R *y;
    Divisor divisor;
    R *row = nullptr;
    CountsAlong along = {};       // where divisors vary
    double across = 1;            // the row's part of the divisor, or one over it
    const Plan *whole = nullptr;  // with the first axis, where that was done before, from output `lo` on
    i64 lo = 0;

    SumSink<P, R, true> past_the_caches() const { return {y, divisor, row, along, across, whole, lo}; }
    Scratch<double> take_room(const Plan &plan) {
        if (!divisor.varies()) return {};
        return along.fill(whole && whole->axis_count == 1 ? *whole : plan, divisor.by, BY_RECIPROCAL);
    }
    void move_to(const Plan &plan, i64 index, const OutputRow &rows) {
        row = y + index * plan.out_row;
        if (!divisor.varies()) return;
        i64 cells = divisor.by == Count::REAL ? rows.real : rows.counted;
        if (whole && whole->axis_count > 1) {
            const Axis &first = whole->axes[0];
            const i64 o = lo + index / (whole->out_rows / first.output) % first.output;
            cells *= divisor.by == Count::REAL ? first.taps(o).count : first.counted(o);
        }
        across = BY_RECIPROCAL ? 1 / static_cast<double>(cells) : static_cast<double>(cells);
    }
    void finish(const Plan &, i64, const OutputRow &, i64, i64) {}
    static bool finishes() { return false; }
    // The first axis is done, and what follows is without it.
    void leave_first_axis(const Plan &plan, i64 output) { whole = &plan, lo = output; }
    void advance(i64 elements) { y += elements; }
    template <class Use>
    NDPOOL_INLINE void over_arrays(const Use &use) {
        use(y, row);
    }
    template <int N>
    void put(i64 at, const typename P::template State<N> &s, int count) {
        const i64 from = whole && whole->axis_count == 1 ? lo * whole->inner : 0;  // of the table
        put_some<N, PAST>(row + at, count, [&](R *p) {
            vec<A, N> total = P::template total<N>(s);
            if ((std::is_same_v<R, A> || std::is_integral_v<R>) && divisor.by == Count::NONE) {
                store_as<N>(p, total);
                return;
            }
            vec<double, N> sum = convert<double, N>(total);
            if (divisor.varies() && BY_RECIPROCAL)
                sum *= along.at<N>(from + at) * across;
            else if (divisor.varies())
                sum /= along.at<N>(from + at) * across;
            else if (BY_RECIPROCAL)
                sum *= divisor.share;
            else if (divisor.by != Count::NONE)
                sum /= divisor.fixed;
            // The mean of integers is a double, in the same eight bytes.
            if constexpr (std::is_same_v<R, std::int64_t>)
                store<N>(p, bits<vec<std::int64_t, N>>(sum));
            else
                store_as<N>(p, sum);
        });
    }
};

// --- the transpose ------------------------------------------------------------------------------

// Spreads the sum of the output rows q along one input row: to[w] = sum of q[o] over the windows o that see cell w.
class RowSpreader {
    static constexpr int N = LANES<double>;

  public:
    RowSpreader(const Axis &axis, i64 inner) : axis(axis), inner(inner) {
        margin = axis.adaptive ? 0 : axis.dilation * (axis.kernel - 1) / axis.stride + 1;
        sums.grow((axis.output + 2 * margin) * inner + 4 * N, "sums of output rows");
        phase_length = ((axis.length + axis.pad_lo) / axis.stride + 2) * inner + N;
        if (!by_phases()) return;
        phase_block.grow(phase_length * axis.stride, "phases of a row");
        phases = phase_block.data();
        shifts.grow(axis.kernel, "cells of a window");
        i64 *shift = shifts.data();
        i64 taps = 0;
        for (i64 f = 0; f < axis.stride; ++f) {
            first_tap[f] = taps;
            for (i64 c = 0; c < axis.kernel; ++c)
                if (c * axis.dilation % axis.stride == f) shift[taps++] = c * axis.dilation / axis.stride * inner;
        }
        first_tap[axis.stride] = taps;
    }

    // q holds the slab's output rows. `to` has room for N doubles more than the row.
    void spread(const double *q, const InputRow &rows, double *to) {
        double *sum = sums.data(), *middle = sum + margin * inner;
        i64 length = axis.output * inner;
        std::memset(sum, 0, sizeof(double) * margin * inner);
        std::memset(middle + length, 0, sizeof(double) * (margin * inner + 2 * N));
        const double *from = rows.count ? q + rows.row[0] * length : nullptr;
        if (rows.count == 0)
            std::memset(middle, 0, sizeof(double) * length);
        else if (rows.count == 1)
            std::memcpy(middle, from, sizeof(double) * length);
        else
            for (i64 i = 0; i < length; ++i) middle[i] = from[i] + from[(rows.row[1] - rows.row[0]) * length + i];
        for (i64 r = 2; r < rows.count; ++r) {
            const double *more = q + rows.row[r] * length;
            for (i64 i = 0; i < length; ++i) middle[i] += more[i];
        }
        if (by_phases())
            spread_phases(middle, to);
        else
            spread_windows(middle, to);
    }

  private:
    const Axis axis;
    i64 inner, margin, phase_length;
    Scratch<double> sums, phase_block;
    double *phases = nullptr;
    // The taps that fall on each phase, one phase after the other, and by how much each is shifted.
    i64 first_tap[9];
    Scratch<i64> shifts;

    bool by_phases() const { return !axis.adaptive && axis.stride < 8; }

    // The cell at padded place m*stride + f gets q[m - c*dilation/stride] for each tap c that falls on phase f.
    void spread_phases(const double *middle, double *to) {
        i64 s = axis.stride, beyond = (axis.output + margin) * inner;
        const i64 *shift = shifts.data();
        for (i64 f = 0; f < s; ++f) {
            i64 first = (axis.pad_lo - f + s - 1) / s;  // the first m whose cell is real
            i64 stop = (axis.pad_lo + axis.length - f + s - 1) / s;
            double *phase = s == 1 ? to - first * inner : phases + f * phase_length;
            for (i64 i = first * inner; i < stop * inner; i += N) {
                vec<double, N> v{};
                for (i64 c = first_tap[f]; c < first_tap[f + 1]; ++c)
                    if (i - shift[c] <= beyond) v += load<N>(middle + i - shift[c]);  // no outputs are beyond
                store<N>(phase + i, v);
            }
        }
        if (s > 1) interleave(to);
    }

    void interleave(double *to) {
        i64 s = axis.stride, p = axis.pad_lo;
        if (s == 2 && inner == 1) {
            i64 w = 0;
            if (p % 2) to[w++] = phases[phase_length + p / 2];
            const double *even = phases + (p + 1) / 2, *odd = phases + phase_length + (p + 1) / 2;
            i64 pairs = (axis.length - w) / 2;
            for (i64 j = 0; j < pairs; ++j) {
                to[w + 2 * j] = even[j];
                to[w + 2 * j + 1] = odd[j];
            }
            if (w + 2 * pairs < axis.length) to[axis.length - 1] = even[pairs];
            return;
        }
        for (i64 w = 0; w < axis.length; ++w)
            for (i64 e = 0; e < inner; ++e)
                to[w * inner + e] = phases[(w + p) % s * phase_length + (w + p) / s * inner + e];
    }

    void spread_windows(const double *middle, double *to) {
        std::memset(to, 0, sizeof(double) * axis.length * inner);
        for (i64 o = 0; o < axis.output; ++o) {
            Axis::Taps taps = axis.taps(o);
            for (i64 k = 0; k < taps.count; ++k) {
                double *cell = to + (taps.first + k * axis.dilation) * inner;
                for (i64 e = 0; e < inner; ++e) cell[e] += middle[o * inner + e];
            }
        }
    }
};

// A row by itself is cut along itself: the part of its axis that has cells begin..end-1 and outputs from lo to hi-1.
inline Axis part_of_axis(const Axis &axis, i64 begin, i64 end, i64 *lo, i64 *hi) {
    if (begin == 0 && end == axis.length) {
        *lo = 0, *hi = axis.output;
        return axis;
    }
    axis.outputs_over(begin, end, lo, hi);
    // An output more, which sees none of the cells, where the first would start after the first cell.
    if (*lo > 0 && axis.start(*lo) > begin) --*lo;
    Axis part = axis;
    part.length = end - begin;
    part.output = *hi - *lo;
    part.pad_lo = begin - axis.start(*lo);
    return part;
}

// What an output hands to each of its cells.
template <class T, class Sum = double>
struct SumSource {
    using A = Sum;
    static constexpr bool SPARES_PADDING = false;
    const T *q;  // the slab's
    template <int N>
    NDPOOL_INLINE void ahead(i64 output) const {
        prefetch<N>(q + output);
    }
    template <int N>
    NDPOOL_INLINE vec<A, N> add(vec<A, N> sum, i64 output, i64) const {
        return sum + load_as<A, N>(q + output);
    }
    SumSource with(const Border &border, Scratch<char> *copies) const { return {border.around(q, copies[0])}; }
};

// The rows of a part of the input, each spread from the rows of outputs that see it; `along` is the part of the last
// axis.
template <class Target>
void spread_part(const Plan &plan, InputRow &rows, const InputPart &in, const OutputPart &part, const Axis &along,
                 const SumSource<double> &from, const Target &to) {
    constexpr int N = LANES<double>;
    RowSpreader spreader(along, plan.inner);
    const Scratch<double> block(along.length * plan.inner + 64, "a row of the gradient");
    double *spread = block.data();
    over_part_rows(plan, rows, in, [&](i64 row, i64 begin, i64 end, bool others) {
        if (others) spreader.spread(from.q + part.begin * plan.inner, rows, spread);
        i64 at = row * plan.in_row + begin * plan.inner;
        blocks<N>((end - begin) * plan.inner,
                  [&](i64 i, int count) { to.template put<N>(at + i, load<N>(spread + i), count); });
    });
}

// SQUARES_TOO says whether the way by squares is compiled for it.
template <class From, class To, bool SQUARES_TOO>
struct Transposition {
    static constexpr bool SQUARES = SQUARES_TOO;
    From from;
    To to;
};

// The transpose of the sum, by gathering or by spreading rows. prepare(in, part, use) calls use(job) with the
// Transposition for a part of the input and the part of the outputs that is over it.
template <class Prepare>
void transpose_all(const Plan &plan, void *gx, i64 element_bytes, Way way, const Route &route, const Prepare &prepare) {
    const bool gather = way != Way::SPREAD;
    over_input_parts(plan, gather ? Gradient(plan, gx, element_bytes, route) : Gradient(gx, element_bytes),
                     [&](const auto &over) {
                         InputRow rows(plan);
                         over([&](const InputPart &in) {
                             OutputPart part = outputs_over(plan, in.begin, in.end);
                             Axis along = plan.last();
                             if (!gather && plan.dim_count == 0)
                                 along = part_of_axis(plan.last(), in.begin, in.end, &part.begin, &part.end);
                             prepare(in, part, [&](const auto &job) {
                                 using Job = std::decay_t<decltype(job)>;
                                 if (gather) return gather_part<Job::SQUARES>(plan, rows, in, job.from, job.to, way);
                                 // What is not in doubles is only ever gathered.
                                 if constexpr (std::is_same_v<decltype(job.from), SumSource<double>>)
                                     spread_part(plan, rows, in, part, along, job.from, job.to);
                             });
                         });
                     });
}

// Room for what the outputs of a part hand on.
template <class T>
class PartPlane {
  public:
    PartPlane(const Plan &plan, const OutputPart &part)
        : first(part.row_begin * plan.out_row + part.begin * plan.inner),
          block((part.row_end - part.row_begin) * (part.end - part.begin) * plan.inner + 64, "outputs of a part") {}
    // Counted from the slab's first output.
    T *data() const { return block.data() - first; }

  private:
    const i64 first;
    Scratch<T> block;
};

// What each output of a part hands to its cells, as doubles: its cotangent over the divisor. `read(i)` gives cotangent
// i.
template <class Read>
void divide(const Plan &plan, const Divisor &divisor, const OutputPart &part, const Read &read, double *q) {
    OutputRow rows(plan);
    for (i64 row = part.row_begin; row < part.row_end; ++row) {
        if (divisor.varies()) rows.move_to(row);
        for (i64 o = part.begin; o < part.end; ++o) {
            double n = divisor.at(plan, rows, o);
            for (i64 i = row * plan.out_row + o * plan.inner, e = 0; e < plan.inner; ++e, ++i) q[i] = read(i) / n;
        }
    }
}

// `target(part)` is the Target of a part of the input.
template <class G, class Make>
void sum_vjp_to(const Plan &plan, Divisor divisor, const G *g, void *gx, Way way, const Route &route,
                const Make &target) {
    constexpr bool FLOATS = std::is_same_v<G, float>;
    // Doubles have none wider to be added up in, so theirs are divided first.
    if constexpr (FLOATS)
        if (!divisor.varies() && way != Way::SPREAD)
            return transpose_all(
                plan, gx, sizeof(G), way, route, [&](const InputPart &in, const OutputPart &, const auto &use) {
                    auto to = target(in);
                    to.scale = divisor.share;
                    use(Transposition<SumSource<G>, decltype(to), true>{{g + in.slab * plan.out_slab}, to});
                });
    transpose_all(plan, gx, sizeof(G), way, route, [&](const InputPart &in, const OutputPart &part, const auto &use) {
        const G *from = g + in.slab * plan.out_slab;
        const PartPlane<double> q(plan, part);
        divide(plan, divisor, part, [&](i64 i) NDPOOL_INLINED { return load_as<double, 1>(from + i)[0]; }, q.data());
        auto to = target(in);
        use(Transposition<SumSource<double>, decltype(to), !FLOATS>{{q.data()}, to});
    });
}

template <class G>
void sum_vjp(const Plan &plan, Divisor divisor, const G *g, G *gx, const Route &route) {
    const Way way = way_back<double>(plan, {25, 4, 16}, Way::SPREAD, route);
    if (route.tell(way)) return;
    sum_vjp_to(plan, divisor, g, gx, way, route, [&](const InputPart &in) {
        if constexpr (sizeof(G) == 2)
            return NarrowTarget<double>{in.gx, std::is_same_v<G, BFloat>, 1, plan.in_row};
        else
            return GradientTarget<G, double>{reinterpret_cast<G *>(in.gx), 1, plan.in_row};
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
