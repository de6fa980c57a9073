// Short rows and small slabs, many at a time: one a lane.
//
// A window along a row of few cells, or in large steps, leaves most of a register empty. So strands, which are slabs or
// pieces of a long row, are transposed in the cache, and cell c of all of them lies side by side:
//
//     strand 0   a0 a1 a2 ...                a0 b0 c0 d0
//     strand 1   b0 b1 b2 ...     ->         a1 b1 c1 d1
//     strand 2   c0 c1 c2 ...                a2 b2 c2 d2
//
// There every window is one of whole registers, as with channels last. The same operation runs on them, and what it
// wrote is transposed back. Arrays are moved as bits, whatever their type.
#pragma once
#include "base/scratch.h"
#include "base/threads.h"
#include "base/transpose.h"
#include "plan/call.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// --- the arrays of an operation -------------------------------------------------------------------

// Calls use(pointer, bytes of an element, whether it has the input's shape) for each array, a pointer to const where it
// is read.
template <class C, class Use>
void over_arrays(C &call, const Use &use) {
    const i64 derivative = size_of(call.derivative);
    use(call.x, size_of(call.type), true);
    use(call.t, derivative, true);
    use(call.gx, derivative, true);
    use(call.y, bytes_of_y(call), false);
    use(call.y_in, bytes_of_y(call), false);
    use(call.dy, derivative, false);
    use(call.g, derivative, false);
    use(call.winners, call.winner_bytes, false);
    use(call.winners_in, call.winner_bytes, false);
    use(call.counts, call.count_bytes, false);
}

constexpr int MOST_ARRAYS = 10;

NDPOOL_INLINE bool is_read(const void *) { return true; }
NDPOOL_INLINE bool is_read(void *) { return false; }

template <class F>
void with_bits(i64 bytes, const F &f) {
    if (bytes == 1) return f(std::uint8_t());
    if (bytes == 2) return f(std::uint16_t());
    if (bytes == 4) return f(std::uint32_t());
    f(std::uint64_t());
}

// --- strands ----------------------------------------------------------------------------------------

// Strands in groups, in each of which they start a fixed step apart: all slabs; or a piece of all rows; or all pieces
// of a row.
struct Strands {
    Plan each;  // one strand by itself, as many times as there are lanes
    i64 lanes;  // strands at a time
    i64 groups, in_group;
    struct Steps {
        i64 elements, seen;        // of a strand, and up to the last that a window sees
        i64 first, strand, group;  // where the first one starts, and from one to the next
    } in, out;

    i64 blocks_of_group() const { return (in_group + lanes - 1) / lanes; }
};

// Some strands of a group, side by side in lanes.
struct Block {
    i64 group, first, count;
};

// A plan whose places have so many lanes for each element.
inline Plan with_lanes(const Plan &plan, i64 lanes) {
    Plan own = plan;
    own.outer = 1;
    own.inner *= lanes;
    own.in_row *= lanes, own.out_row *= lanes;
    own.in_slab *= lanes, own.out_slab *= lanes;
    for (int d = 0; d < own.dim_count; ++d) own.dims[d].in_stride *= lanes;
    return own;
}

// Up to the last one that a window sees, of the elements of a slab.
inline i64 seen_elements(const Plan &plan) {
    auto last_seen = [&](const Axis &axis) { return cells_under(axis, 0, axis.output).end - 1; };
    i64 last = last_seen(plan.last()) * plan.inner;
    for (int d = 0; d < plan.dim_count; ++d) {
        const Dim &dim = plan.dims[d];
        last += (dim.axis < 0 ? dim.in_count - 1 : last_seen(plan.axes[dim.axis])) * dim.in_stride;
    }
    return last + plan.inner;
}

// Every slab is a strand. As many at a time as have BATCH_BYTES, and a register of them at least.
inline Strands whole_slabs(const Plan &plan, i64 bytes) {
    const i64 register_of = lanes_of(static_cast<int>(bytes)),
              all = (plan.outer + register_of - 1) / register_of * register_of;
    i64 lanes = BATCH_BYTES / (plan.in_slab * bytes) / register_of * register_of;
    lanes = lanes < register_of ? register_of : lanes > all ? all : lanes;
    return {with_lanes(plan, lanes),
            lanes,
            1,
            plan.outer,
            {plan.in_slab, seen_elements(plan), 0, plan.in_slab, 0},
            {plan.out_slab, plan.out_slab, 0, plan.out_slab, 0}};
}

// Every row is cut into pieces that see no padding.
inline Strands pieces_of_rows(const Plan &plan, const RowPieces &cut, i64 lanes) {
    Plan piece = plan;
    Axis &axis = piece.axes[0];
    axis.output = cut.outputs, axis.length = (cut.outputs - 1) * axis.stride + axis.dilation * (axis.kernel - 1) + 1;
    axis.pad_lo = axis.pad_hi = 0;
    piece.in_row = piece.in_slab = axis.length * plan.inner;
    piece.out_row = piece.out_slab = axis.output * plan.inner;
    piece.padded = false, piece.same_count = piece.same_real = true;
    const i64 in_step = cut.outputs * axis.stride * plan.inner, out_step = cut.outputs * plan.inner;
    const i64 first_in = plan.last().start(cut.first) * plan.inner, first_out = cut.first * plan.inner;
    const Plan each = with_lanes(piece, lanes);
    if (cut.of_all_rows)
        return {each,
                lanes,
                cut.count,
                plan.outer,
                {piece.in_slab, piece.in_slab, first_in, plan.in_slab, in_step},
                {piece.out_slab, piece.out_slab, first_out, plan.out_slab, out_step}};
    return {each,
            lanes,
            plan.outer,
            cut.count,
            {piece.in_slab, piece.in_slab, first_in, in_step, plan.in_slab},
            {piece.out_slab, piece.out_slab, first_out, out_step, plan.out_slab}};
}

// --- running them -----------------------------------------------------------------------------------

// Runs the operation on one block, with run(plan, call).
template <class Run>
void run_block(const Strands &strands, const Call &call, const Block &block, const Run &run) {
    Call own = call;
    own.asked = Way::NONE, own.past_the_caches = false;
    const Decision of_strands{false, call.decided ? call.decided->of_strands : Way::NONE, Way::NONE};
    if (call.decided) own.decided = &of_strands;
    // Lanes without a strand are computed too, and dropped. Max and Min take no longer for what was there before.
    const bool clears = block.count < strands.lanes && call.op != Op::VALUE && (call.op != Op::WINNERS || call.t);
    // These look at the cells of windows alone; others look at all cells for a scale, say.
    const bool of_windows = call.op == Op::VALUE || call.op == Op::WINNERS || call.op == Op::SUM;
    Scratch<std::uint64_t> room[MOST_ARRAYS];
    int used = 0;
    auto start = [&](const Strands::Steps &steps) {
        return steps.first + block.group * steps.group + block.first * steps.strand;
    };
    over_arrays(own, [&](auto *&array, i64 bytes, bool input) {
        if (!array) return;
        const Strands::Steps &steps = input ? strands.in : strands.out;
        const i64 elements = steps.elements * strands.lanes;
        room[used].grow((elements * bytes + 7) / 8 + 16, "strands side by side");
        auto *lanes = room[used++].data();
        if (is_read(array)) {
            if (clears) std::memset(lanes, 0, static_cast<std::size_t>(elements * bytes));
            with_bits(bytes, [&](auto zero) {
                using Bits = decltype(zero);
                transpose(static_cast<const Bits *>(array) + start(steps), steps.strand,
                          reinterpret_cast<Bits *>(lanes), strands.lanes, block.count,
                          of_windows ? steps.seen : steps.elements);
            });
        }
        array = lanes;
    });
    run(strands.each, own);
    used = 0;
    over_arrays(call, [&](auto *array, i64 bytes, bool input) {
        if (!array) return;
        const Strands::Steps &steps = input ? strands.in : strands.out;
        auto *lanes = room[used++].data();
        if (is_read(array)) return;
        with_bits(bytes, [&](auto zero) {
            using Bits = decltype(zero);
            transpose(reinterpret_cast<const Bits *>(lanes), strands.lanes,
                      static_cast<Bits *>(const_cast<void *>(array)) + start(steps), steps.strand, steps.elements,
                      block.count);
        });
    });
}

// The outputs lo..hi-1 of every row, as they are.
template <class Run>
void run_rest(const Plan &plan, const Call &call, i64 lo, i64 hi, const Run &run) {
    if (lo == hi) return;
    const CellRange cells = cells_under(plan.last(), lo, hi);
    const Plan part = plan.part(cells.begin, cells.end, lo, hi);
    for (i64 slab = 0; slab < plan.outer; ++slab) {
        Call own = call;
        own.asked = Way::NONE, own.past_the_caches = false, own.decided = nullptr;
        over_arrays(own, [&](auto *&array, i64 bytes, bool input) {
            using Byte = std::conditional_t<std::is_same_v<decltype(array), void *&>, char, const char>;
            const i64 at =
                input ? slab * plan.in_slab + cells.begin * plan.inner : slab * plan.out_slab + lo * plan.inner;
            if (array) array = static_cast<Byte *>(array) + at * bytes;
        });
        run(part, own);
    }
}

// How an operation's rows are cut into pieces, if they are, and its strands.
inline RowPieces pieces_of(const Plan &plan, const Call &call) {
    const i64 bytes = size_of(call.type);
    return is_forward(call.op) ? row_pieces(plan, lanes_of(static_cast<int>(bytes)), bytes) : RowPieces();
}
inline Strands strands_of(const Plan &plan, const Call &call, const RowPieces &cut) {
    const i64 bytes = size_of(call.type);
    return cut.count ? pieces_of_rows(plan, cut, lanes_of(static_cast<int>(bytes))) : whole_slabs(plan, bytes);
}

// Runs the operation on all strands, with run(plan, call).
template <class Run>
void run_in_batches(const Plan &plan, const Call &call, const Run &run) {
    const RowPieces cut = pieces_of(plan, call);
    const Strands strands = strands_of(plan, call, cut);
    const i64 each = strands.blocks_of_group();
    parallel(strands.groups * each, worth_threads(plan.outer * plan.in_slab), [&](i64 begin, i64 end) {
        for (i64 unit = begin; unit < end; ++unit) {
            const i64 first = unit % each * strands.lanes, left = strands.in_group - first;
            run_block(strands, call, {unit / each, first, left < strands.lanes ? left : strands.lanes}, run);
        }
    });
    if (!cut.count) return;
    run_rest(plan, call, 0, cut.first, run);
    run_rest(plan, call, cut.first + cut.count * cut.outputs, plan.last().output, run);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
