// All outputs by a SlidingBlock after the other, on several threads.
#pragma once
#include "base/stream.h"
#include "base/threads.h"
#include "passes/slide.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Rows of outputs on their way from a SlidingBlock to a Sink. Short ones that follow each other go together, where the
// sink writes all rows alike.
template <class L, class Sink>
class SlidOutputs {
    using Lane = typename L::Lane;
    static constexpr int N = LANES<Lane>;
    static constexpr i64 MOST = 1024, LONG = 8 * N;  // elements that go together; and of a row that goes by itself

  public:
    // Each row has `length` elements.
    SlidOutputs(const Plan &plan, Sink &sink, Outbox *outboxes, i64 length)
        : plan(plan), sink(sink), outboxes(outboxes), length(length), plane(MOST + length + 2 * N) {
        line.grow(L::PLANES * plane, "outputs side by side");
    }
    // The outputs from element `begin` of a row of a slab on. `rows` are what the row sees, if the sink asks.
    void add(i64 slab, i64 row, i64 begin, const OutputRow &rows, const Lane *lanes, i64 apart) {
        const i64 index = slab * plan.out_rows + row, to = index * plan.out_row + begin;
        if (to != next || filled >= MOST || sink.rows_differ()) {
            finish();
            sink.move_to(plan, index, rows);
            first = index * plan.out_row;
        }
        next = to + length;
        if (length >= LONG || sink.rows_differ()) {
            finish();
            return put(lanes, apart, to, length);
        }
        if (!filled) line_at = to;
        for (i64 i = 0; i < length; i += N)
            L::template put<N>(line.data() + filled + i, plane, L::template get<N>(lanes + i, apart));
        filled += length;
    }
    void finish() {
        if (filled) put(line.data(), plane, line_at, filled);
        filled = 0;
    }

  private:
    const Plan &plan;
    Sink &sink;
    Outbox *const outboxes;
    const i64 length, plane;
    Scratch<Lane> line;
    i64 filled = 0, line_at = 0;  // elements of the line, and where they belong
    i64 first = 0, next = -1;     // where the sink's row starts, and the next one to come

    // `many` elements, which belong at element `to` of all.
    void put(const Lane *lanes, i64 apart, i64 to, i64 many) {
        const i64 at = to - first;
        if (Outbox *outbox = outboxes)
            sink.over_arrays([&](auto array, auto &row) {
                row = outbox++->room(array + to, many, MOST + length) - at;
            });
        const int count = many < N ? static_cast<int>(many) : N;
        for (i64 i = 0; i < many; i += N) {
            const i64 from = i + N <= many || many < N ? i : many - N;
            sink.template put<N>(at + from, L::template get<N>(lanes + from, apart), count);
        }
    }
};

// One axis after the other; see slide.h. The outputs go in blocks: some slabs at a time, or a part of one, cut along
// its first two dimensions. Blocks that follow each other along the first one make what they have in common once, if
// they can: they roll.
template <class L, class Sink>
class SlidingPooler {
    using Lane = typename L::Lane;
    static constexpr int N = LANES<Lane>;

  public:
    SlidingPooler(const Plan &plan, const L &lanes, const RowSource<L> &source, const Sink &sink, bool streamed)
        : plan(plan), lanes(lanes), source(source), sink(sink), streamed(streamed), last(plan.dim_count) {
        for (int d = 0; d <= last; ++d) whole[d] = reach_of(d, 0, outputs_of(d));
        for (int d = last; d > 1; --d) cells_below *= whole[d].size(), outputs_below *= outputs_of(d);
        const i64 all = outputs_of(0), second = last ? outputs_of(1) : 1;
        double least = 0;
        auto offer = [&](const Cut &other) {
            if (least == 0 || other.takes < 0.95 * least) least = other.takes, cut = other;
        };
        offer(block_of(second));
        // Where that is near and has all outputs, smaller blocks would only make more cells twice.
        const bool in_one = cut.many == all && whole[0].size() * lanes_of_cell(second) <= 2 * LANES_OF_BLOCK;
        for (i64 cuts = 2; !in_one && cuts <= 32 && cuts <= second; ++cuts)
            offer(block_of((second + cuts - 1) / cuts));
        if (last && cut.many < all)
            for (i64 cuts = 1; cuts <= 32 && cuts <= second; ++cuts) {
                const i64 columns = (second + cuts - 1) / cuts;
                const i64 narrowest = second - (second - 1) / columns * columns;
                if (SlidingBlock<L>::can_roll(whole[0], outputs_below * narrowest)) offer(rolling_of(columns));
            }
        parts = (second + cut.columns - 1) / cut.columns;
        // What rolls begins anew now and then, so that threads find enough to do.
        const i64 begins = cut.rolls ? 8 * whole[0].overlap() / whole[0].stride + cut.many : cut.many;
        strip = (begins + cut.many - 1) / cut.many * cut.many;
        strips = (all + strip - 1) / strip;
        const i64 slab = whole[0].size() * cells_below * (last ? whole[1].size() : 1);
        group = strips * parts > 1 || cut.many < all || slab > LANES_OF_BLOCK ? 1 : LANES_OF_BLOCK / slab;
        if (group > plan.outer) group = plan.outer;
    }

    void pool() const {
        const i64 groups = (plan.outer + group - 1) / group, each = strips * parts;
        parallel(groups * each, worth_threads(plan.outer * plan.in_slab), [&](i64 begin, i64 end) {
            SlidingBlock<L> block(plan, lanes, source);
            Sink own = sink;
            [[maybe_unused]] const auto room = own.take_room(plan);  // held for the sink
            Outbox outboxes[2];
            OutputRow rows(plan);
            for (i64 unit = begin; unit < end; ++unit) {
                const i64 first = unit / each * group, count = group < plan.outer - first ? group : plan.outer - first;
                const i64 start = unit % each / parts * strip, all = outputs_of(0);
                const i64 stop = start + strip < all ? start + strip : all;
                for (i64 lo = start; lo < stop; lo += cut.many)
                    pool_block(block, own, outboxes, rows, first, count, lo, unit % parts * cut.columns, lo > start);
            }
        });
    }

  private:
    static constexpr i64 LANES_OF_BLOCK = (i64(512) << 10) / static_cast<i64>(sizeof(Lane)) / L::PLANES;
    // Outputs of a block along the first and second dimension, and lanes that are worked on for each of them.
    struct Cut {
        i64 many, columns;
        bool rolls;
        double takes;
    };
    const Plan &plan;
    const L &lanes;
    const RowSource<L> &source;
    const Sink &sink;
    const bool streamed;
    const int last;
    Reach whole[MAX_DIMS + 1];
    i64 cells_below = plan.inner, outputs_below = plan.inner;  // lanes for a cell, an output of the second dimension
    Cut cut{1, 1, false, 0};
    i64 strip = 1, strips = 1, parts = 1, group = 1;  // outputs along the first dimension that go on end; slabs

    i64 outputs_of(int d) const { return d == last ? plan.last().output : plan.dims[d].out_count; }
    Reach reach_of(int d, i64 lo, i64 hi) const {
        const int axis = d == last ? plan.axis_count - 1 : plan.dims[d].axis;
        return axis < 0 ? Reach::of(lo, hi) : Reach::of(plan.axes[axis], lo, hi);
    }
    i64 lanes_of_cell(i64 columns) const { return cells_below * (last ? reach_of(1, 0, columns).size() : 1); }
    // A row loses a register or two.
    double wasted(i64 lanes_of_row) const {
        return last == 1 ? 1 + 2.0 * N / static_cast<double>(lanes_of_row) : 1;
    }
    i64 at_most_all(i64 many) const { return many < 1 ? 1 : many > outputs_of(0) ? outputs_of(0) : many; }

    // A block as large as stays near.
    Cut block_of(i64 columns) const {
        const Reach &first = whole[0];
        const i64 of_cell = lanes_of_cell(columns), reach = first.overlap() + first.stride;
        // One axis alone is rows that are pooled along themselves: as long ones as stay nearest.
        const i64 near = LANES_OF_BLOCK / 32 / of_cell;
        const i64 cells = last ? LANES_OF_BLOCK / of_cell : near > 8 * reach ? near : 8 * reach;
        const i64 many = at_most_all((cells - reach) / first.stride + 1);
        const i64 block = reach_of(0, 0, many).size() * of_cell;
        const double far = block > 2 * LANES_OF_BLOCK ? 1.5 : 1;
        const double takes = far * wasted(of_cell) * static_cast<double>(block);
        return {many, columns, false, takes / static_cast<double>(many * columns)};
    }
    // One that makes the planes of its own outputs alone: some outputs at a time, which have planes in common, and of
    // wide windows as many as a window has cells.
    Cut rolling_of(i64 columns) const {
        const Reach &first = whole[0];
        const i64 of_cell = lanes_of_cell(columns), rest = outputs_below * columns;
        const i64 fit = LANES_OF_BLOCK / 4 / (first.stride * of_cell), some = fit < 4 ? 4 : fit > 16 ? 16 : fit;
        const i64 many = at_most_all(first.kernel > 32 ? 2 * first.kernel : some), fresh = many * first.stride;
        const double far = (first.overlap() + fresh) * rest + fresh * of_cell > 2 * LANES_OF_BLOCK ? 1.2 : 1;
        // To hand a plane on takes half of what it takes to make it.
        const double takes = far * wasted(of_cell) * static_cast<double>(fresh) *
                             (static_cast<double>(of_cell) + 0.5 * static_cast<double>(rest));
        return {many, columns, true, takes / static_cast<double>(many * columns)};
    }

    // `count` slabs, and the outputs from lo on along the first dimension and from `column` on along the second.
    void pool_block(SlidingBlock<L> &block, Sink &to, Outbox *outboxes, OutputRow &rows, i64 first, i64 count, i64 lo,
                    i64 column, bool goes_on) const {
        Reach reach[MAX_DIMS + 1];
        for (int d = 0; d <= last; ++d) reach[d] = whole[d];
        auto stop = [&](int d, i64 to) { return to < outputs_of(d) ? to : outputs_of(d); };
        reach[0] = reach_of(0, lo, stop(0, lo + cut.many));
        if (last) reach[1] = reach_of(1, column, stop(1, column + cut.columns));
        if (cut.rolls)
            block.roll(reach, first * plan.in_slab, goes_on ? whole[0].overlap() : 0);
        else
            block.pool(reach, first * plan.in_slab, count);
        // All rows of an output along the first dimension are one, if they lie side by side and are written alike.
        const i64 row_length = last < 2 ? reach[last].outputs * plan.inner : plan.out_row;
        const i64 together = to.rows_differ() ? 1 : block.rows_side_by_side(), along = together * row_length,
                  begin = last == 0 ? lo * plan.inner : last == 1 ? column * plan.inner : 0,
                  in_plane = last ? plan.out_rows / outputs_of(0) : 1,
                  skipped = last > 1 ? column * (in_plane / outputs_of(1)) : 0;
        SlidOutputs<L, Sink> out(plan, to, streamed ? outboxes : nullptr, along);
        block.over_first([&](i64 s, i64 o, const Lane *outputs) NDPOOL_INLINED {
            i64 row = last ? (lo + o) * in_plane + skipped : 0;
            if (together > 1) return out.add(first + s, row, begin, rows, outputs, block.apart());
            block.over_rows(outputs, [&](const Lane *lanes) NDPOOL_INLINED {
                if (to.rows_differ()) rows.move_to(row);
                out.add(first + s, row++, begin, rows, lanes, block.apart());
            });
        });
        out.finish();
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
