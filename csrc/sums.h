// Sum and Avg, and the transpose of a sum: every cell gets the sum of what the windows over it hold.
#pragma once
#include "engine.h"
#include "extreme.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// What a window's sum is divided by.
struct Divisor {
    Count by;
    double fixed;

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

// Writes totals of P, divided, as R. A total that is wider than R may be multiplied by the reciprocal instead: the
// error is far below R's last place.
template <class P, class R>
struct SumSink {
    using A = typename P::Lane;
    R *y;
    Divisor divisor;
    R *row;
    double *each;  // the divisor of every element of the row, where they vary

    void move_to(const Plan &plan, i64 index, const OutputRow &rows) {
        row = y + index * plan.out_row;
        if (!divisor.varies()) return;
        each = static_cast<double *>(scratch(PLANE2, sizeof(double) * (plan.out_row + 64)));
        for (i64 o = 0; o < plan.last().output; ++o) {
            double n = divisor.at(plan, rows, o);
            for (i64 e = 0; e < plan.inner; ++e) each[o * plan.inner + e] = n;
        }
    }
    void finish(const Plan &, i64, const OutputRow &, i64, i64) {}
    bool needs_counts() const { return divisor.varies(); }
    void advance(i64 elements) { y += elements; }
    template <int N>
    void put(i64 at, const typename P::template State<N> &s, int count) {
        put_some<N>(row + at, count, [&](R *p) {
            vec<A, N> total = P::template total<N>(s);
            if (std::is_same_v<R, std::int64_t> && divisor.by == Count::NONE) {
                store_as<N>(p, total);
                return;
            }
            vec<double, N> sum = convert<double, N>(total);
            if (divisor.varies())
                sum /= load<N>(each + at);
            else if (sizeof(R) < sizeof(double))
                sum *= 1.0 / divisor.fixed;
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

// Which output rows a row of the input is in.
class InputRow {
  public:
    i64 count = 0;
    i64 *row = nullptr;  // of each, its number in the slab

    explicit InputRow(const Plan &plan) : plan(plan) {
        capacity = 1;
        for (int d = 0; d < plan.dim_count; ++d)
            if (plan.dims[d].axis >= 0) {
                const Axis &axis = plan.axes[plan.dims[d].axis];
                i64 most = axis.adaptive ? axis.output / axis.length + 2 : axis.dilation * (axis.kernel - 1) / axis.stride + 1;
                capacity *= most < axis.output ? most : axis.output;
            }
        row = static_cast<i64 *>(scratch(ROWS, 2 * sizeof(i64) * capacity));
        before = row + capacity;
    }

    // Moves to an input row of the slab; says whether it is in other output rows than the one before.
    bool move_to(i64 in_row) {
        i64 index[MAX_DIMS];
        for (int d = plan.dim_count - 1; d >= 0; --d) {
            index[d] = in_row % plan.dims[d].in_count;
            in_row /= plan.dims[d].in_count;
        }
        i64 last_count = count;
        std::memcpy(before, row, sizeof(i64) * count);
        count = 1;
        row[0] = 0;
        for (int d = 0; d < plan.dim_count; ++d) extend(plan.dims[d], index[d]);
        return count != last_count || std::memcmp(before, row, sizeof(i64) * count) != 0;
    }

  private:
    const Plan &plan;
    i64 capacity;
    i64 *before;

    void extend(const Dim &dim, i64 cell) {
        i64 lo = cell, hi = cell + 1, outputs = 0;
        if (dim.axis >= 0) plan.axes[dim.axis].outputs_over(cell, cell + 1, &lo, &hi);
        for (i64 o = lo; o < hi; ++o) outputs += sees(dim, o, cell);
        for (i64 i = count - 1; i >= 0; --i) {
            i64 base = row[i] * dim.out_count, k = outputs;
            for (i64 o = hi - 1; o >= lo; --o)
                if (sees(dim, o, cell)) row[i * outputs + --k] = base + o;
        }
        count *= outputs;
    }
    bool sees(const Dim &dim, i64 o, i64 cell) const {
        return dim.axis < 0 || plan.axes[dim.axis].adaptive || (cell - plan.axes[dim.axis].start(o)) % plan.axes[dim.axis].dilation == 0;
    }
};

// Spreads the sum of the output rows q along one input row: to[w] = sum of q[o] over the windows o that see cell w.
class RowSpreader {
    static constexpr int N = LANES<double>;

  public:
    RowSpreader(const Axis &axis, i64 inner) : axis(axis), inner(inner) {
        margin = axis.adaptive ? 0 : axis.dilation * (axis.kernel - 1) / axis.stride + 1;
        sum = static_cast<double *>(scratch(ROW, sizeof(double) * ((axis.output + 2 * margin) * inner + 4 * N)));
        phase_length = ((axis.length + axis.pad_lo) / axis.stride + 2) * inner + N;
        if (!by_phases()) return;
        phases = static_cast<double *>(scratch(PHASES, sizeof(double) * phase_length * axis.stride));
        shift = static_cast<i64 *>(scratch(FRONT, sizeof(i64) * axis.kernel));
        i64 taps = 0;
        for (i64 f = 0; f < axis.stride; ++f) {
            first_tap[f] = taps;
            for (i64 c = 0; c < axis.kernel; ++c)
                if (c * axis.dilation % axis.stride == f) shift[taps++] = c * axis.dilation / axis.stride * inner;
        }
        first_tap[axis.stride] = taps;
    }

    // q holds the slab's output rows from row `first_row` on. `to` has room for N doubles more than the row.
    void spread(const double *q, i64 first_row, const InputRow &rows, double *to) {
        double *middle = sum + margin * inner;
        i64 length = axis.output * inner;
        std::memset(sum, 0, sizeof(double) * margin * inner);
        std::memset(middle + length, 0, sizeof(double) * (margin * inner + 2 * N));
        const double *from = rows.count ? q + (rows.row[0] - first_row) * length : nullptr;
        if (rows.count == 0)
            std::memset(middle, 0, sizeof(double) * length);
        else if (rows.count == 1)
            std::memcpy(middle, from, sizeof(double) * length);
        else
            for (i64 i = 0; i < length; ++i) middle[i] = from[i] + from[(rows.row[1] - rows.row[0]) * length + i];
        for (i64 r = 2; r < rows.count; ++r) {
            const double *more = q + (rows.row[r] - first_row) * length;
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
    double *sum, *phases = nullptr;
    // The taps that fall on each phase, one phase after the other, and by how much each is shifted.
    i64 first_tap[9], *shift = nullptr;

    bool by_phases() const { return !axis.adaptive && axis.stride < 8; }

    // The cell at padded place m*stride + f gets q[m - c*dilation/stride] for each tap c that falls on phase f.
    void spread_phases(const double *middle, double *to) {
        i64 s = axis.stride, beyond = (axis.output + margin) * inner;
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
            for (i64 e = 0; e < inner; ++e) to[w * inner + e] = phases[(w + p) % s * phase_length + (w + p) / s * inner + e];
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

// gx = the transpose of the sum, applied to what the outputs hold.
//
// prepare(slab, begin, end, part, q) writes what each output of the part, the one over cells begin..end-1, hands to its
// cells; finish(slab, row, spread, first, stop, fresh)
// takes the elements first..stop-1 of a row of the result, and `fresh` is false if it equals the row before.
template <class Prepare, class Finish>
void transpose_all(const Plan &plan, const Prepare &prepare, const Finish &finish) {
    over_input_parts(plan, [&](i64 slab, i64 in_begin, i64 in_end) {
        OutputPart part = outputs_over(plan, in_begin, in_end);
        bool one_row = plan.dim_count == 0;
        Axis along = plan.last();
        if (one_row) along = part_of_axis(plan.last(), in_begin, in_end, &part.begin, &part.end);
        i64 outputs = (part.row_end - part.row_begin) * (part.end - part.begin) * plan.inner;
        auto *q = static_cast<double *>(scratch(PLANE4, sizeof(double) * (outputs + 64)));
        prepare(slab, in_begin, in_end, part, q);
        RowSpreader spreader(along, plan.inner);
        InputRow rows(plan);
        auto *spread = static_cast<double *>(scratch(BLOCK, sizeof(double) * (along.length * plan.inner + 64)));
        i64 rows_each = one_row ? 1 : plan.in_rows / plan.axes[0].length;
        i64 begin = one_row ? 0 : in_begin * rows_each, end = one_row ? 1 : in_end * rows_each;
        i64 first = one_row ? in_begin * plan.inner : 0;
        for (i64 row = begin; row < end; ++row) {
            bool fresh = rows.move_to(row) || row == begin;
            if (fresh) spreader.spread(q, part.row_begin, rows, spread);
            finish(slab, row, spread, first, first + along.length * plan.inner, fresh);
        }
    });
}

template <class G>
void sum_vjp(const Plan &plan, Divisor divisor, const G *g, G *gx) {
    constexpr int N = LANES<double>;
    transpose_all(
        plan,
        [&](i64 slab, i64, i64, const OutputPart &part, double *q) {
            OutputRow rows(plan);
            i64 length = (part.end - part.begin) * plan.inner;
            for (i64 row = part.row_begin; row < part.row_end; ++row, q += length) {
                const G *from = g + (slab * plan.out_rows + row) * plan.out_row + part.begin * plan.inner;
                if (divisor.varies()) {
                    rows.move_to(row);
                    for (i64 i = 0; i < length; ++i)
                        q[i] = load_as<double, 1>(from + i)[0] / divisor.at(plan, rows, part.begin + i / plan.inner);
                    continue;
                }
                double n = divisor.fixed, by = 1.0 / n;
                i64 i = 0;
                for (; i + N <= length; i += N) {
                    vec<double, N> v = load_as<double, N>(from + i);
                    store<N>(q + i, sizeof(G) == sizeof(double) ? v / n : v * by);
                }
                for (; i < length; ++i) q[i] = load_as<double, 1>(from + i)[0] / n;
            }
        },
        [&](i64 slab, i64 row, const double *spread, i64 first, i64 stop, bool fresh) {
            G *to = gx + slab * plan.in_slab + row * plan.in_row + first;
            if (!fresh) {
                std::memcpy(to, to - plan.in_row, sizeof(G) * (stop - first));
                return;
            }
            blocks<N>(stop - first, [&](i64 i, int count) {
                put_some<N>(to + i, count, [&](G *p) { store_as<N>(p, load<N>(spread + i)); });
            });
        });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
