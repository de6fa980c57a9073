// Where a winner is, from its place in the window.
#pragma once
#include "base/scratch.h"
#include "plan/geometry.h"

namespace ndpool {

// The distance from a window's first cell, in elements of the slab.
class Places {
  public:
    explicit Places(const Plan &plan)
        : cells(plan.cells),
          kernel(plan.last().kernel),
          step(plan.last().dilation * plan.inner),
          inverse(~std::uint64_t(0) / static_cast<std::uint64_t>(kernel) + 1),
          rows(plan.outer_cells, "rows of a window") {
        for (i64 tag = 0; tag < plan.outer_cells; ++tag) rows[tag] = distance_of_row(plan, tag);
        for (i64 place = 0; place < cells && place < TABLE; ++place) table[place] = decoded(place);
        const Axis &last = plan.last();
        if (!last.adaptive || last.output > MOST_BINS) return;
        bins.grow(last.output, "starts of bins");
        for (i64 o = 0; o < last.output; ++o) bins[o] = last.start(o);
    }
    // 0 for what is no place in this window.
    template <class W>
    NDPOOL_INLINE i64 distance(W place) const {
        if constexpr (sizeof(W) == 1) return table[place];
        if (static_cast<i64>(place) < TABLE) return table[place];
        return static_cast<i64>(place) < cells ? decoded(static_cast<i64>(place)) : 0;
    }

    // Calls f(i, cell) for the elements i of an output row, outputs begin..end-1, with the cell that won each, counted
    // from where the row's windows start.
    template <class W, class F>
    NDPOOL_INLINE void over_row(const Plan &plan, const W *winners, i64 begin, i64 end, const F &f) const {
        const Axis &last = plan.last();
        const i64 inner = plan.inner;
        auto one = [&](i64 i, i64 start) NDPOOL_INLINED { f(i, start + distance(winners[i])); };
        if (inner == 1 && !last.adaptive) {
            i64 start = last.start(begin);
            for (i64 o = begin; o < end; ++o, start += last.stride) one(o, start);
        } else if (inner == 1 && bins.data()) {
            for (i64 o = begin; o < end; ++o) one(o, bins[o]);
        } else {
            for (i64 o = begin; o < end; ++o) {
                i64 start = last.start(o) * inner;
                for (i64 e = o * inner; e < (o + 1) * inner; ++e, ++start) one(e, start);
            }
        }
    }

  private:
    static constexpr i64 TABLE = 256;  // every value of a byte has its entry
    static constexpr i64 MOST_BINS = 1 << 12;
    const i64 cells, kernel, step;
    const std::uint64_t inverse;  // 2**64 / kernel and a little more; 0 for 1
    Scratch<i64> rows, bins;      // bins start there, if they are not too many
    i64 table[TABLE] = {};

    // A place is a number whose digits are the steps along each pooled axis, those along the row last.
    NDPOOL_INLINE i64 decoded(i64 place) const {
        // Up to 32 bits, the upper half of a product is the quotient.
        __extension__ using Wide = unsigned __int128;
        const i64 row = place >> 32 || kernel == 1
                            ? place / kernel
                            : static_cast<i64>((static_cast<Wide>(inverse) * static_cast<std::uint64_t>(place)) >> 64);
        return rows[row] + (place - row * kernel) * step;
    }
    static i64 distance_of_row(const Plan &plan, i64 tag) {
        i64 distance = 0;
        for (int d = plan.dim_count - 1; d >= 0; --d) {
            if (plan.dims[d].axis < 0) continue;
            const Axis &axis = plan.axes[plan.dims[d].axis];
            distance += tag % axis.kernel * axis.dilation * plan.dims[d].in_stride;
            tag /= axis.kernel;
        }
        return distance;
    }
};

// Where the windows of one output row start, along all dimensions but the last pooled one.
NDPOOL_INLINE i64 start_of_row(const Plan &plan, i64 row) {
    i64 start = 0;
    for (int d = plan.dim_count - 1; d >= 0; --d) {
        const Dim &dim = plan.dims[d];
        const i64 o = row % dim.out_count;
        row /= dim.out_count;
        start += (dim.axis < 0 ? o : plan.axes[dim.axis].start(o)) * dim.in_stride;
    }
    return start;
}

}  // namespace ndpool
