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

inline i64 bytes_of_y(const Call &call) { return call.op == Op::SUM && !is_float(call.type) ? 8 : size_of(call.type); }

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
}

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

// Strand s is piece s % pieces of slab s / pieces.
struct Strands {
    const Plan &whole;
    Plan each;                                   // one strand by itself, as many times as there are lanes
    i64 count, pieces;                           // in all, and of a slab
    i64 lanes;                                   // strands at a time
    i64 cells, outputs;                          // elements of a strand
    i64 in_step, out_step, first_in, first_out;  // from piece to piece, and where the first one starts in its slab

    i64 in_at(i64 s) const { return s / pieces * whole.in_slab + first_in + s % pieces * in_step; }
    i64 out_at(i64 s) const { return s / pieces * whole.out_slab + first_out + s % pieces * out_step; }
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

// A register of the smallest elements is not filled: what is in the cache would be too much.
inline i64 lanes_of(i64 bytes) { return NDPOOL_VECTOR_BYTES / bytes > 32 ? 32 : NDPOOL_VECTOR_BYTES / bytes; }

constexpr i64 NEAR = 24 << 10;  // bytes that stay in the nearest cache

// Every slab is a strand. As many at a time as stay near, and a register of them at least.
inline Strands whole_slabs(const Plan &plan, i64 bytes) {
    const i64 register_of = lanes_of(bytes), all = (plan.outer + register_of - 1) / register_of * register_of;
    i64 lanes = NEAR / (plan.in_slab * bytes) / register_of * register_of;
    lanes = lanes < register_of ? register_of : lanes > all ? all : lanes;
    return {plan,         with_lanes(plan, lanes), plan.outer, 1, lanes, plan.in_slab, plan.out_slab,
            plan.in_slab, plan.out_slab,           0,          0};
}

// Every row is cut into pieces that see no padding, of as many outputs each as stay near.
inline Strands pieces_of_rows(const Plan &plan, i64 bytes) {
    const RowPieces cut = row_pieces(plan, NEAR / (lanes_of(bytes) * bytes));
    Plan piece = plan;
    Axis &axis = piece.axes[0];
    axis.output = cut.outputs, axis.length = (cut.outputs - 1) * axis.stride + axis.dilation * (axis.kernel - 1) + 1;
    axis.pad_lo = axis.pad_hi = 0;
    piece.in_row = piece.in_slab = axis.length * plan.inner;
    piece.out_row = piece.out_slab = axis.output * plan.inner;
    piece.padded = false, piece.same_count = piece.same_real = true;
    return {plan,
            with_lanes(piece, lanes_of(bytes)),
            plan.outer * cut.count,
            cut.count,
            lanes_of(bytes),
            piece.in_slab,
            piece.out_slab,
            cut.outputs * axis.stride * plan.inner,
            piece.out_slab,
            plan.last().start(cut.first) * plan.inner,
            cut.first * plan.inner};
}

// --- running them -----------------------------------------------------------------------------------

// The strands first..stop-1 of one array and its lanes.
template <class Bits>
void to_lanes(const Strands &strands, bool input, i64 first, i64 stop, const Bits *array, Bits *lanes) {
    const i64 elements = input ? strands.cells : strands.outputs;
    for (i64 s = first; s < stop;) {
        const i64 left = strands.pieces == 1 ? stop - s : strands.pieces - s % strands.pieces;
        const i64 run = left < stop - s ? left : stop - s;
        transpose(array + (input ? strands.in_at(s) : strands.out_at(s)), input ? strands.in_step : strands.out_step,
                  lanes + (s - first), strands.lanes, run, elements);
        s += run;
    }
}
template <class Bits>
void from_lanes(const Strands &strands, bool input, i64 first, i64 stop, const Bits *lanes, Bits *array) {
    const i64 elements = input ? strands.cells : strands.outputs;
    for (i64 s = first; s < stop;) {
        const i64 left = strands.pieces == 1 ? stop - s : strands.pieces - s % strands.pieces;
        const i64 run = left < stop - s ? left : stop - s;
        transpose(lanes + (s - first), strands.lanes, array + (input ? strands.in_at(s) : strands.out_at(s)),
                  input ? strands.in_step : strands.out_step, elements, run);
        s += run;
    }
}

// Runs the operation on the strands first..stop-1, with run(plan, call).
template <class Run>
void run_block(const Strands &strands, const Call &call, i64 first, i64 stop, const Run &run) {
    Call own = call;
    own.asked = Way::NONE, own.past_the_caches = false;
    constexpr int MOST_ARRAYS = 9;
    Scratch<std::uint64_t> room[MOST_ARRAYS];
    int used = 0;
    over_arrays(own, [&](auto *&array, i64 bytes, bool input) {
        if (!array) return;
        const i64 elements = (input ? strands.cells : strands.outputs) * strands.lanes;
        Scratch<std::uint64_t> &block = room[used++];
        block.grow((elements * bytes + 7) / 8 + 16, "strands side by side");
        if (is_read(array)) {
            // Lanes without a strand are computed too, and dropped.
            if (stop - first < strands.lanes) std::memset(block.data(), 0, static_cast<std::size_t>(elements * bytes));
            with_bits(bytes, [&](auto zero) {
                using Bits = decltype(zero);
                to_lanes(strands, input, first, stop, static_cast<const Bits *>(array),
                         reinterpret_cast<Bits *>(block.data()));
            });
        }
        array = block.data();
    });
    run(strands.each, own);
    used = 0;
    over_arrays(call, [&](auto *array, i64 bytes, bool input) {
        if (!array) return;
        const Scratch<std::uint64_t> &block = room[used++];
        if (!is_read(array))
            with_bits(bytes, [&](auto zero) {
                using Bits = decltype(zero);
                from_lanes(strands, input, first, stop, reinterpret_cast<const Bits *>(block.data()),
                           static_cast<Bits *>(const_cast<void *>(array)));
            });
    });
}

// The outputs lo..hi-1 of every row, as they are.
template <class Run>
void run_rest(const Plan &plan, const Call &call, i64 lo, i64 hi, const Run &run) {
    if (lo == hi) return;
    const Axis &axis = plan.last();
    const i64 last = axis.start(hi - 1) + axis.dilation * (axis.kernel - 1);
    i64 begin = axis.start(lo), end = last < axis.length ? last + 1 : axis.length;
    begin = begin < 0 ? 0 : begin < axis.length ? begin : axis.length - 1;
    if (end <= begin) end = begin + 1;
    const Plan part = plan.part(begin, end, lo, hi);
    for (i64 slab = 0; slab < plan.outer; ++slab) {
        Call own = call;
        own.asked = Way::NONE, own.past_the_caches = false;
        over_arrays(own, [&](auto *&array, i64 bytes, bool input) {
            using Byte = std::conditional_t<std::is_same_v<decltype(array), void *&>, char, const char>;
            const i64 at = input ? slab * plan.in_slab + begin * plan.inner : slab * plan.out_slab + lo * plan.inner;
            if (array) array = static_cast<Byte *>(array) + at * bytes;
        });
        run(part, own);
    }
}

// Runs the operation on all strands, with run(plan, call).
template <class Run>
void run_in_batches(const Plan &plan, const Call &call, const Run &run) {
    const i64 bytes = size_of(call.type);
    const bool cut = is_forward(call.op) && row_pieces(plan, NEAR / (lanes_of(bytes) * bytes)).count > 1;
    const Strands strands = cut ? pieces_of_rows(plan, bytes) : whole_slabs(plan, bytes);
    const i64 blocks = (strands.count + strands.lanes - 1) / strands.lanes;
    parallel(blocks, plan.outer * plan.in_slab >= (1 << 15), [&](i64 begin, i64 end) {
        for (i64 block = begin; block < end; ++block) {
            const i64 first = block * strands.lanes, stop = first + strands.lanes;
            run_block(strands, call, first, stop < strands.count ? stop : strands.count, run);
        }
    });
    if (!cut) return;
    const i64 first = strands.first_out / plan.inner;
    run_rest(plan, call, 0, first, run);
    run_rest(plan, call, first + strands.pieces * strands.outputs / plan.inner, plan.last().output, run);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
