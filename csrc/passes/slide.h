// Wide windows that overlap: the first pooled axis by block prefixes and suffixes, then the others as ever.
//
// Cut the axis into blocks as long as the kernel (van Herk; Gil and Werman). A window is the end of one block and the
// beginning of the next: its value is a suffix of the one merged with a prefix of the other. That is three merges an
// output, whatever the kernel's side. Nothing is ever subtracted.
#pragma once
#include "passes/forward.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// The first pooled axis of one slab, columns begin..end-1: `in` is (length, rest), `out` (output, rest).
template <class P>
void slide(const P &p, const Axis &axis, const typename P::In *in, typename P::Lane *out, i64 rest, i64 begin, i64 end) {
    using Lane = typename P::Lane;
    constexpr int N = LANES<Lane>;
    using State = typename P::template State<N>;
    const i64 k = axis.kernel, width = end - begin, apart = width + N;
    const P own = p;
    auto *suffix = static_cast<Lane *>(scratch(BLOCK, sizeof(Lane) * (k + 1) * apart));
    Lane *prefix = suffix + k * apart;
    // Merges the row of cells at a place with `more`, if there is any, into `to`. The next place will be `place + step`.
    auto merge_cells = [&](i64 place, i64 step, const Lane *more, Lane *to) {
        const i64 cell = place - axis.pad_lo;
        if (cell < 0 || cell >= axis.length) {
            for (i64 i = 0; i < width; i += N) P::template put<N>(to + i, 0, more ? P::template get<N>(more + i, 0) : P::template empty<N>());
            return;
        }
        const typename P::In *from = in + cell * rest + begin;
        constexpr i64 ROWS_AHEAD = 8;
        const auto later = reinterpret_cast<std::uintptr_t>(from) + static_cast<std::uintptr_t>(ROWS_AHEAD * step * rest) * sizeof(*from);
        auto block = [&](i64 i, State s) NDPOOL_INLINED {
            __builtin_prefetch(reinterpret_cast<const void *>(later + static_cast<std::uintptr_t>(i) * sizeof(*from)));
            if (more) own.template merge_any<N>(s, P::template get<N>(more + i, 0));
            P::template put<N>(to + i, 0, s);
        };
        // Not `blocks`: the prefix grows in place, and no element may be merged twice.
        i64 i = 0;
        for (; i + N <= width; i += N) block(i, own.template lift<N>(from + i, 0));
        if (i < width) block(i, lift_some<N>(own, from + i, 0, static_cast<int>(width - i)));
    };
    for (i64 block = 0; block * k <= (axis.output - 1) * axis.stride; ++block) {
        for (i64 q = k - 1; q >= 0; --q) merge_cells(block * k + q, -1, q < k - 1 ? suffix + (q + 1) * apart : nullptr, suffix + q * apart);
        i64 filled = 0;  // cells of the next block that the prefix has
        i64 first = (block * k + axis.stride - 1) / axis.stride;
        for (i64 o = first; o < axis.output && o * axis.stride < (block + 1) * k; ++o) {
            i64 q = o * axis.stride - block * k;
            for (; filled < q; ++filled) merge_cells((block + 1) * k + filled, 1, filled ? prefix : nullptr, prefix);
            Lane *to = out + o * rest + begin;
            const Lane *tail = suffix + q * apart;
            blocks<N>(width, [&](i64 i, int count) NDPOOL_INLINED {
                State s = P::template get<N>(tail + i, 0);
                if (q) own.template merge_any<N>(s, P::template get<N>(prefix + i, 0));
                put_some<N>(to + i, count, [&](Lane *l) { P::template put<N>(l, 0, s); });
            });
        }
    }
}

// The plan that is left when the first pooled axis is done.
inline Plan without_first_axis(const Plan &plan) {
    Plan rest = plan;
    const Axis &axis = plan.axes[0];
    rest.outer = plan.outer * axis.output;
    rest.dim_count = plan.dim_count - 1;
    // Free dimensions that now lead are outer ones.
    int skip = 1;
    while (skip < plan.dim_count && plan.dims[skip].axis < 0) {
        rest.outer *= plan.dims[skip].in_count;
        ++skip;
    }
    rest.dim_count = plan.dim_count - skip;
    for (int d = 0; d < rest.dim_count; ++d) {
        rest.dims[d] = plan.dims[d + skip];
        if (rest.dims[d].axis >= 0) --rest.dims[d].axis;
    }
    rest.axis_count = plan.axis_count - 1;
    for (int a = 0; a < rest.axis_count; ++a) rest.axes[a] = plan.axes[a + 1];
    rest.in_rows = rest.out_rows = 1;
    for (int d = 0; d < rest.dim_count; ++d) {
        rest.in_rows *= rest.dims[d].in_count;
        rest.out_rows *= rest.dims[d].out_count;
    }
    rest.in_slab = rest.in_rows * rest.in_row;
    rest.out_slab = rest.out_rows * rest.out_row;
    rest.cells = plan.cells / axis.kernel;
    rest.outer_cells = plan.outer_cells / axis.kernel;
    return rest;
}

// The first axis by blocks, then the others by a way of their own.
template <class P, class Sink>
void pool_by_sliding(const Plan &plan, const P &p, const typename P::In *x, const Sink &sink, const Route &route) {
    using Lane = typename P::Lane;
    using L = typename P::Lanes;
    const Axis &axis = plan.axes[0];
    const bool streamed = streams_outputs<typename P::In>(plan, sink.y, route);
    const L lanes = p.lanes();
    const Plan left = without_first_axis(plan);
    const Way way = choose_forward(left, lanes_of<L>(Tuned::NOT, false), Way::NONE);
    i64 rest = plan.in_slab / axis.length;
    // So few slabs at a time that the second-level cache holds what is in between, and there are parts for all threads.
    i64 group = (i64(1) << 15) / (axis.output * rest) + 1;
    if (group > plan.outer) group = plan.outer;
    // And so few columns that a block of them, as long as the kernel, stays near.
    i64 columns = (i64(72) << 10) / static_cast<i64>(sizeof(Lane)) / (axis.kernel + 1) / 32 * 32;
    columns = columns < 32 ? 32 : columns > 256 ? 256 : columns;
    if (columns > rest) columns = rest;
    i64 cuts = (rest + columns - 1) / columns;
    i64 groups = (plan.outer + group - 1) / group;
    auto pool_group = [&](i64 first, i64 count, Lane *between) {
        parallel(count * cuts, worth_threads(count * plan.in_slab), [&](i64 begin, i64 end) {
            for (i64 unit = begin; unit < end; ++unit) {
                i64 slab = unit / cuts, column = unit % cuts * columns;
                slide(p, axis, x + (first + slab) * plan.in_slab, between + slab * axis.output * rest, rest, column,
                      column + columns < rest ? column + columns : rest);
            }
        });
        Plan part = left;
        part.outer = left.outer / plan.outer * count;
        Sink to = sink;
        to.advance(first * plan.out_slab);
        const auto from = source_of(lanes, static_cast<const Lane *>(between), part.outer * part.in_slab);
        pool_lanes(part, lanes, from, to, way, streamed);
    };
    parallel(groups, groups > 1 && worth_threads(plan.outer * plan.in_slab), [&](i64 begin, i64 end) {
        for (i64 unit = begin; unit < end; ++unit) {
            i64 first = unit * group, count = first + group < plan.outer ? group : plan.outer - first;
            auto *between = static_cast<Lane *>(scratch(BETWEEN, sizeof(Lane) * (count * axis.output * rest + 64)));
            pool_group(first, count, between);
        }
    });
}

// --- any way --------------------------------------------------------------------------------------

// Pools by the way that suits the plan, or that is asked for.
template <Tuned TUNED, class P, class Sink>
void pool_all(const Plan &plan, const P &p, const typename P::In *x, const Sink &sink, const Route &route) {
    constexpr Tuned HERE = LEVEL_IS_TUNED ? TUNED : Tuned::NOT;
    const Way way = choose_forward(plan, lanes_of<P>(HERE, sink.in_parts()), route.asked);
    if (route.tell(way)) return;
    if constexpr (P::PLANES == 1)
        if (way == Way::SLIDE) return pool_by_sliding(plan, p, x, sink, route);
    pool_by<HERE>(way, plan, p, x, sink, route);
}

// How far a kind over cells of type T is tuned.
template <class T>
constexpr Tuned BY_TYPE = std::is_same_v<T, float> ? Tuned::ALL : Tuned::ROWS;

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
