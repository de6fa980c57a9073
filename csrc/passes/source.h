// Cells of any type, handed on as lanes.
//
// The type of the cells ends here: a RowSource reads them, and what comes after it knows lanes alone. So the passes are
// compiled once for each type of lanes, and not for each type of cells.
#pragma once
#include "passes/slide.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// An array of cells, of which the passes know lanes alone.
template <class L>
struct RowSource {
    using Lane = typename L::Lane;
    const void *kind, *x;
    i64 elements;

    // Merges `length` elements of all rows, from element `begin` of each, into States at `to`; `base` is where the rows
    // start.
    void (*merge)(const RowSource &, i64 base, const OutputRow &, i64 begin, i64 length, Lane *to, i64 plane);
    // Reduces `count` cells side by side, from element `at` on, into one State at `to`. They are in the row with tag
    // `row`, and the first is at place `tag`, of `radix`, along it.
    void (*reduce_row)(const RowSource &, i64 at, i64 row, i64 count, i64 radix, i64 tag, Lane *to);
    // The first pooled axis of a slab that starts at element `at`, columns begin..end-1, by block prefixes and
    // suffixes: from (length, rest) to (output, rest). For States of one plane; see slide.h.
    void (*slide)(const RowSource &, const Axis &, i64 at, Lane *to, i64 rest, i64 begin, i64 end);
    // Merges all cells of a window, elements i..i+count-1 of each place, into States at `to`, a plane of `plane` lanes
    // each.
    void (*merge_place)(const RowSource &, i64 base, const OutputRow &, const Axis &, const Axis::Taps &, i64 inner,
                        i64 i, i64 count, Lane *to, i64 plane);
};

// Where a RowSource gets its functions from, for one type of cells.
template <class P>
struct Cells {
    using L = typename P::Lanes;
    using In = typename P::In;
    using Lane = typename P::Lane;
    using Source = RowSource<L>;
    static constexpr int N = LANES<Lane>;

    static const P &kind(const Source &from) { return *static_cast<const P *>(from.kind); }
    static const In *cell(const Source &from, i64 at) { return static_cast<const In *>(from.x) + at; }

    static void merge(const Source &from, i64 base, const OutputRow &rows, i64 begin, i64 length, Lane *to, i64 plane) {
        const P own = kind(from);  // a copy, which no store can change
        merge_rows<N>(own, cell(from, base), cell(from, from.elements), rows, begin, length, to, plane);
    }
    static void reduce_row(const Source &from, i64 at, i64 row, i64 count, i64 radix, i64 tag, Lane *to) {
        const P own = kind(from);
        const In *x = cell(from, at);
        auto cells = [&](auto size, i64 k) NDPOOL_INLINED {
            constexpr int M = decltype(size)::value;
            if constexpr (M > 1) prefetch<M>(x + k);
            return own.template lift<M>(x + k, row);
        };
        L::template put<1>(to, 1, reduce(own.lanes(), cells, count, radix, tag));
    }
    static void merge_place(const Source &from, i64 base, const OutputRow &rows, const Axis &axis,
                            const Axis::Taps &taps, i64 inner, i64 i, i64 count, Lane *to, i64 plane) {
        const P own = kind(from);
        const i64 step = axis.dilation * inner;
        const In *x = cell(from, base + taps.first * inner + i);
        const In *last = x + rows.offset[rows.count - 1] + (taps.count - 1) * step;
        if (cell(from, from.elements) - last < N) {
            auto lift = [&](const In *p, i64 tag) {
                return lift_some<N>(own, p, tag, static_cast<int>(count < N ? count : N));
            };
            return merge_all<1>(own, x, rows, axis.kernel, taps, step, to, plane, lift);
        }
        auto lift = [&](const In *p, i64 tag) NDPOOL_INLINED { return own.template lift<N>(p, tag); };
        if (count <= N)
            merge_all<1>(own, x, rows, axis.kernel, taps, step, to, plane, lift);
        else
            merge_all<P::HEAVY ? 1 : 4>(own, x, rows, axis.kernel, taps, step, to, plane, lift);
    }

    static void slide_columns(const Source &from, const Axis &axis, i64 at, Lane *to, i64 rest, i64 begin, i64 end) {
        slide(kind(from), axis, cell(from, at), to, rest, begin, end);
    }

  private:
    // U registers of every cell.
    template <int U, class Lift>
    NDPOOL_INLINE static void merge_all(const P &own, const In *x, const OutputRow &rows, i64 kernel,
                                        const Axis::Taps &taps, i64 step, Lane *to, i64 plane, const Lift &lift) {
        typename P::template State<N> state[U];
        bool first = true;
        for (i64 r = 0; r < rows.count; ++r) {
            const In *p = x + rows.offset[r];
            const i64 tag = rows.tag[r] * kernel + taps.skipped;
            for (i64 k = 0; k < taps.count; ++k, p += step) {
                prefetch<U * N>(p);
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u) {
                    auto next = lift(p + u * N, tag + k);
                    if (first)
                        state[u] = next;
                    else
                        own.template merge<N>(state[u], next);
                }
                first = false;
            }
        }
        NDPOOL_UNROLL
        for (int u = 0; u < U; ++u) L::template put<N>(to + u * N, plane, state[u]);
    }
};

// `slide` is null for States of several planes.
template <class P>
RowSource<typename P::Lanes> source_of(const P &p, const typename P::In *x, i64 elements) {
    using C = Cells<P>;
    if constexpr (P::PLANES == 1)
        return {&p, x, elements, C::merge, C::reduce_row, C::slide_columns, C::merge_place};
    else
        return {&p, x, elements, C::merge, C::reduce_row, nullptr, C::merge_place};
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
