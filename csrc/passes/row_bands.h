// Winners that hand to their cells a row of outputs at a time.
//
// What a row of outputs hands on is added up in a band by itself: the rows of cells that its windows see. Then the band
// is added to the cells. So a cell adds up the outputs of a row first, and then the rows, as it does by columns.
#pragma once
#include "passes/back.h"
#include "passes/places.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

template <class A>
class RowBands {
    static constexpr int N = LANES<A>;

  public:
    // `used` says that there will be any.
    RowBands(const Plan &plan, bool used) : plan(plan), axis(plan.last()), at_once(plan.inner == 1 ? MOST : 1) {
        if (!used) return;
        pitch = ((axis.output - 1) * axis.stride + axis.dilation * (axis.kernel - 1) + 1) * plan.inner;
        size = plan.outer_cells * pitch;
        bands.grow(at_once * size, "what rows of outputs hand on");
        for (i64 place = 0; place < PLACES && place < plan.cells; ++place)
            distance[place] = place / axis.kernel * pitch + place % axis.kernel * axis.dilation * plan.inner;
    }

    // Adds to the sums of a part, from the winners and cotangents of its slab. Rows start as `starts` says.
    template <class W>
    void scatter(const InputPart &in, const Places &places, const i64 *starts, const W *winners, const A *g, A *sum) {
        const OutputPart part = outputs_over(plan, in.begin, in.end);
        for (i64 row = part.row_begin; row < part.row_end; row += at_once) {
            const i64 rows = row + at_once < part.row_end ? at_once : part.row_end - row;
            std::memset(bands.data(), 0, sizeof(A) * static_cast<std::size_t>(rows * size));
            const W *won = winners + row * plan.out_row;
            const A *from = g + row * plan.out_row;
            if (rows == MOST)
                hand<MOST>(won, from);
            else
                for (i64 r = 0; r < rows; ++r) hand<1>(won + r * plan.out_row, from + r * plan.out_row, r * size);
            for (i64 r = 0; r < rows; ++r) add(in, places, starts[row + r], bands.data() + r * size, sum);
        }
    }

  private:
    // Rows in turn: windows side by side often have the same winner, and to add to a cell over and over takes as long
    // as the memory takes to hand back what was just written.
    static constexpr i64 MOST = 4, PLACES = 256;
    const Plan &plan;
    const Axis &axis;
    const i64 at_once;
    i64 pitch = 0, size = 0;  // of a row of a band, from where the first window starts, and of a band
    i64 distance[PLACES] = {};
    Scratch<A> bands;

    template <i64 ROWS, class W>
    NDPOOL_INLINE void hand(const W *winners, const A *g, i64 band = 0) const {
        A *to = bands.data() + band;
        for (i64 o = 0; o < axis.output; ++o, to += axis.stride * plan.inner)
            for (i64 e = 0; e < plan.inner; ++e) {
                const i64 i = o * plan.inner + e;
                NDPOOL_UNROLL
                for (i64 r = 0; r < ROWS; ++r)
                    to[e + r * size + distance[static_cast<std::uint8_t>(winners[i + r * plan.out_row])]] +=
                        g[i + r * plan.out_row];
            }
    }

    // Rows of a band that are padding have no winners: what is added to others in their place is 0.
    void add(const InputPart &in, const Places &places, i64 start, const A *band, A *sum) const {
        const i64 each = first_stride(plan), before = axis.pad_lo * plan.inner, most = pitch - before;
        const i64 length = most < plan.in_row ? most : plan.in_row;
        for (i64 r = 0; r < plan.outer_cells; ++r) {
            const i64 row = start + places.distance(r * axis.kernel) - in.begin * each;
            if (row < 0 || row + plan.in_row > (in.end - in.begin) * each) continue;
            const A *from = band + r * pitch + before;
            A *to = sum + row;
            i64 i = 0;
            for (; i + N <= length; i += N) store<N>(to + i, load<N>(to + i) + load<N>(from + i));
            for (; i < length; ++i) to[i] += from[i];
        }
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
