// Windows as numbers: which input cells each output sees, along one axis and over all of them.
#pragma once
#include "base/types.h"

namespace ndpool {

// One pooled axis; see `Axis` in windows.py, whose fields these are.
struct Axis {
    i64 length, output, kernel, stride, dilation, pad_lo, pad_hi;
    bool adaptive;

    // The first cell of output o's window, real or padded.
    NDPOOL_INLINE i64 start(i64 o) const { return adaptive ? (o * length) / output : o * stride - pad_lo; }

    // The real cells of output o's window are `first + i*dilation`, 0 <= i < count; `skipped` padded ones stand before.
    struct Taps {
        i64 first, count, skipped;
    };
    NDPOOL_INLINE Taps taps(i64 o) const {
        i64 begin = start(o);
        if (adaptive) return {begin, ((o + 1) * length + output - 1) / output - begin, 0};
        if (dilation == 1) {  // the same without a division, which is most of the work of a short row
            i64 skipped = begin < 0 ? (-begin < kernel ? -begin : kernel) : 0;
            i64 first = begin + skipped, left = kernel - skipped, fit = first < length ? length - first : 0;
            return {first, fit < left ? fit : left, skipped};
        }
        i64 skipped = begin < 0 ? (-begin + dilation - 1) / dilation : 0;
        i64 first = begin + skipped * dilation;
        i64 fit = first < length ? (length - 1 - first) / dilation + 1 : 0;
        i64 left = kernel > skipped ? kernel - skipped : 0;
        return {first, fit < left ? fit : left, skipped};
    }

    // How many cells of output o's window count, real and padded: not those that only ceil_mode reaches.
    NDPOOL_INLINE i64 counted(i64 o) const {
        if (adaptive) return taps(o).count;
        i64 room = length + pad_hi - start(o);
        if (dilation > 1) room = (room + dilation - 1) / dilation;
        return room < kernel ? room : kernel;
    }

    // The outputs whose windows reach over cells begin..end-1 are within lo..hi-1.
    NDPOOL_INLINE void outputs_over(i64 begin, i64 end, i64 *lo, i64 *hi) const {
        if (adaptive) {
            // Bin o covers cell c exactly when floor(o*L/n) <= c < ceil((o+1)*L/n).
            *lo = (begin * output) / length;
            *hi = (end * output + length - 1) / length;
        } else {
            i64 reach = dilation * (kernel - 1);
            i64 first = begin + pad_lo - reach;
            *lo = first > 0 ? (first + stride - 1) / stride : 0;
            *hi = end - 1 + pad_lo < 0 ? 0 : (end - 1 + pad_lo) / stride + 1;
        }
        if (*hi > output) *hi = output;
        if (*lo > *hi) *lo = *hi;
    }
};

// Of outputs begin..end-1 along an axis, those whose windows are whole: no cell is padding or beyond the end.
struct WholeOutputs {
    i64 first, stop;
};
NDPOOL_INLINE WholeOutputs whole_outputs(const Axis &axis, i64 begin, i64 end) {
    if (axis.adaptive) return {0, 0};
    const i64 first = (axis.pad_lo + axis.stride - 1) / axis.stride, reach = axis.dilation * (axis.kernel - 1);
    const i64 stop = axis.length > reach ? (axis.length - 1 - reach + axis.pad_lo) / axis.stride + 1 : 0;
    return {first > begin ? first : begin, stop < end ? stop : end};
}

// The cells that the windows lo..hi-1 of an axis reach over; one at least, where they see padding alone.
struct CellRange {
    i64 begin, end;
};
NDPOOL_INLINE CellRange cells_under(const Axis &axis, i64 lo, i64 hi) {
    const i64 first = axis.start(lo), stop = axis.start(hi - 1) + axis.dilation * (axis.kernel - 1) + 1;
    const i64 begin = first < 0 ? 0 : first < axis.length ? first : axis.length - 1;
    const i64 end = stop < axis.length ? stop : axis.length;
    return {begin, end > begin ? end : begin + 1};
}

constexpr int MAX_DIMS = 64;

// A dimension between the leading ones and the last pooled axis: pooled itself, or carried along.
struct Dim {
    int axis;  // into Plan::axes, or -1
    i64 in_count, out_count;
    i64 in_stride;  // in elements
};

// The numbers of a plan, without its dimensions and axes.
struct PlanNumbers {
    i64 outer;
    int dim_count, axis_count;
    i64 inner;
    // Derived.
    i64 in_slab, out_slab;  // elements for each outer index
    i64 in_rows, out_rows;  // rows for each outer index
    i64 in_row, out_row;    // elements of a row
    i64 cells;              // in the largest window
    i64 outer_cells;        // the same without the last axis
    bool padded;            // whether some window sees a padded cell that counts
    bool same_count;        // whether all windows count the same number of cells, `cells`
    bool same_real;         // whether all windows have the same number of real cells, `cells`
};

// A window over a contiguous array: (outer, dims..., last pooled axis, inner).
//
// The last pooled axis with `inner` is a row. All arrays are C-contiguous, so the output's rows, in the order of
// (outer, dims...), lie one after the other.
struct Plan : PlanNumbers {
    Dim dims[MAX_DIMS];
    Axis axes[MAX_DIMS];

    Plan() = default;
    // Those that are there are copied, and not the kilobytes behind them: calls make plans of their own.
    Plan(const Plan &other) : PlanNumbers(other) { copy_axes(other); }
    Plan &operator=(const Plan &other) {
        PlanNumbers::operator=(other);
        copy_axes(other);
        return *this;
    }

    NDPOOL_INLINE const Axis &last() const { return axes[axis_count - 1]; }

    // One slab's outputs lo..hi-1 along the first pooled axis, over its cells begin..end-1, which are all that they
    // see.
    NDPOOL_INLINE Plan part(i64 begin, i64 end, i64 lo, i64 hi) const {
        Plan own = *this;
        Axis &axis = own.axes[0];
        own.outer = 1;
        if (begin == 0 && end == axis.length && lo == 0 && hi == axis.output) return own;
        axis.pad_lo = begin - axis.start(lo);
        axis.length = end - begin;
        axis.output = hi - lo;
        if (dim_count) {
            own.dims[0].in_count = axis.length, own.dims[0].out_count = axis.output;
            own.in_rows = in_rows / axes[0].length * axis.length;
            own.out_rows = out_rows / axes[0].output * axis.output;
        } else {
            own.in_row = axis.length * inner, own.out_row = axis.output * inner;
        }
        own.in_slab = own.in_rows * own.in_row;
        own.out_slab = own.out_rows * own.out_row;
        return own;
    }

  private:
    NDPOOL_INLINE void copy_axes(const Plan &other) {
        for (int d = 0; d < dim_count; ++d) dims[d] = other.dims[d];
        for (int a = 0; a < axis_count; ++a) axes[a] = other.axes[a];
    }
};

}  // namespace ndpool
