// Windows that overlap along several axes: one axis after the other, each over whole planes.
//
// Some rows at a time are lifted, with their padding, into the nearest cache, and pooled along themselves there. What
// they become is a block that stays in the second-level cache. In it an axis is a number of planes, each of which has
// all outputs of the axes after it. A plane of windows is some planes merged, whole registers at a time, and neighbours
// have most of their planes in common:
//
//     planes     a   b   c   d   e   f
//     windows of 4 planes:   c + d is common to all three,   b + (c + d),   a + (b + (c + d)),   e + f, ...
//
// Where planes are short, as the places of a row are, they are one long row: every cell is merged with those that lie
// so many lanes further on. What windows across the end of a row or plane are made of is not asked for.
//
// The first axis comes last, a few outputs at a time, so that these are still near when they are written. Where its
// windows move on by more than a cell, it comes first: the rows of a window are merged as they are read, and fewer are
// left for the other axes. An output costs about as many merges as the window has sides, and a register holds
// neighbours however short rows are.
//
// Where a block holds few of the planes that a window sees along the first axis, they are handed on to the next block,
// which makes only those after them.
#pragma once
#include "passes/widen.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Some outputs that follow each other along one axis, and what they see: padding, cells from `first` on, and padding.
struct Reach {
    i64 kernel, stride, dilation, outputs, before, first, cells, after;

    i64 size() const { return before + cells + after; }
    bool is_moved() const { return kernel > 1 || stride > 1; }
    // What so many outputs and those that follow them both see.
    i64 overlap() const { return dilation * (kernel - 1) + 1 - stride; }
    // A part of what they see, padding counted.
    Reach part(i64 begin, i64 end) const {
        auto real = [&](i64 at) { return at < before ? 0 : at > before + cells ? cells : at - before; };
        const i64 pads = begin < before ? (end < before ? end : before) - begin : 0, some = real(end) - real(begin);
        return {kernel, stride, dilation, outputs, pads, first + real(begin), some, end - begin - pads - some};
    }

    static Reach of(const Axis &axis, i64 lo, i64 hi) {
        const i64 start = axis.start(lo), seen = (hi - lo - 1) * axis.stride + axis.dilation * (axis.kernel - 1) + 1;
        auto within = [&](i64 at, i64 least) { return at < least ? least : at > axis.length ? axis.length : at; };
        const i64 first = within(start, 0), stop = within(start + seen, first);
        const i64 before = start >= 0 ? 0 : -start < seen ? -start : seen;
        return {axis.kernel, axis.stride, axis.dilation, hi - lo,
                before,      first,       stop - first,  seen - before - (stop - first)};
    }
    // Of a dimension that is carried along.
    static Reach of(i64 lo, i64 hi) { return {1, 1, 1, hi - lo, 0, lo, hi - lo, 0}; }
};

// Cells of some slabs, which become outputs.
template <class L>
class SlidingBlock {
    using Lane = typename L::Lane;
    static constexpr int N = LANES<Lane>;
    using State = typename L::template State<N>;
    using Widened = Widener<L, N>;

  public:
    SlidingBlock(const Plan &plan, const L &lanes, const RowSource<L> &from)
        : plan(plan), l(lanes), from(from), last(plan.dim_count), one(plan) {
        one.count = 1, one.offset[0] = one.tag[0] = 0;
        i64 places = 1;
        for (int d = last; d >= 0; --d) {
            const int axis = axis_of(d);
            place_step[d] = places;
            if (axis >= 0) places *= plan.axes[axis].kernel;
        }
    }
    int axis_of(int d) const { return d == last ? plan.axis_count - 1 : plan.dims[d].axis; }

    // The windows of `count` slabs that lie side by side, the first at element `at` of the array, but for the first
    // axis. reach[d] is that of dimension d, or of the last axis.
    void pool(const Reach *reach, i64 at, i64 count) {
        pool_all_but_first(reach, at, count);
        first_is_left = last > 0 && reach[0].is_moved() && !first_comes_first(reach[0]);
        if (first_is_left && !goes_across(reach[0], lanes_of[0])) pool_axis(0), first_is_left = false;
        first_planes = cells.data();
    }
    // Whether an output's planes along the first axis, with `rest` lanes of outputs each, can be handed on to the next.
    static bool can_roll(const Reach &first, i64 rest) {
        return first.overlap() > 0 && goes_across(first, rest) && !first_comes_first(first);
    }
    // The same of one slab. Outputs follow those of the call before: the first `carried` planes along the first axis are
    // its last ones, and only those after them are made, some at a time, so that they stay near.
    void roll(const Reach *reach, i64 at, i64 carried) {
        const i64 all = reach[0].size();
        Reach own[MAX_DIMS + 1];
        i64 rest = reach[last].outputs * plan.inner, cells_of_plane = reach[last].size() * plan.inner;
        own[last] = reach[last];
        for (int d = last - 1; d > 0; --d)
            own[d] = reach[d], rest *= extent_pooled(own[d], rest), cells_of_plane *= own[d].size();
        if (carried == 0) {
            rolled_plane = all * rest + 4 * N;
            rolled.grow(L::PLANES * rolled_plane, "windows along all axes but the first");
        }
        auto bytes = [rest](i64 planes) { return sizeof(Lane) * static_cast<std::size_t>(planes * rest); };
        auto planes = [this](int q) { return rolled.data() + q * rolled_plane; };
        if (carried)
            for (int q = 0; q < L::PLANES; ++q)
                std::memmove(planes(q), planes(q) + (rolled_count - carried) * rest, bytes(carried));
        const i64 some = SOME / cells_of_plane + 1;
        for (i64 begin = carried, end; begin < all; begin = end) {
            end = begin + some < all ? begin + some : all;
            own[0] = reach[0].part(begin, end);
            pool_all_but_first(own, at, 1);
            for (int q = 0; q < L::PLANES; ++q)
                std::memcpy(planes(q) + begin * rest, cells.data() + q * plane, bytes(end - begin));
        }
        this->reach = reach;
        plane = reach[0].outputs * rest + 4 * N;
        other.grow(L::PLANES * plane, "cells of windows that overlap");
        in_plane = rolled_plane, out_plane = plane, rolled_count = all;
        first_planes = rolled.data(), first_is_left = true;
    }

    // Calls f(slab, output, lanes) for all outputs along the first dimension, in order: where those of the others
    // start.
    template <class F>
    NDPOOL_INLINE void over_first(const F &f) {
        if (last == 0) {
            for (i64 s = 0; s < slabs; ++s) f(s, i64(0), static_cast<const Lane *>(cells.data() + s * slab));
            return;
        }
        const Reach &own = reach[0];
        const i64 rest = lanes_of[0];
        // So many at a time that they have most planes in common; wide ones make all of theirs at once.
        const i64 some = is_wide(own) ? own.outputs : 8;
        for (i64 s = 0; s < slabs; ++s)
            for (i64 o = 0, many; o < own.outputs; o += many) {
                const i64 left = own.outputs - o;
                many = left < 2 * some ? left : some;
                const Lane *in = first_planes + s * slab + o * rest * (first_is_left ? own.stride : 1);
                if (first_is_left) merge_outputs(own, in, rest, many, place_step[0], other.data()), in = other.data();
                for (i64 i = 0; i < many; ++i) f(s, o + i, in + i * rest);
            }
    }
    // Calls f(lanes) for each row of these outputs, in order; planes of States are apart().
    template <class F>
    NDPOOL_INLINE void over_rows(const Lane *start, const F &f) const {
        i64 at[MAX_DIMS];
        for (int d = 1; d < last; ++d) at[d] = 0;
        while (true) {
            f(start);
            int d = last - 1;
            for (; d > 0 && ++at[d] == reach[d].outputs; --d) start -= (at[d] - 1) * lanes_of[d], at[d] = 0;
            if (d <= 0) return;
            start += lanes_of[d];
        }
    }
    i64 apart() const { return plane; }
    // How many rows of an output along the first dimension there are, if all lie side by side; or else 1.
    i64 rows_side_by_side() const {
        i64 rows = 1;
        for (int d = 1; d < last; ++d) {
            if (extent[d] != reach[d].outputs) return 1;
            rows *= extent[d];
        }
        return rows;
    }

  private:
    static constexpr i64 NEAR = (i64(12) << 10) / static_cast<i64>(sizeof(Lane)) / L::PLANES;  // lanes of some rows
    static constexpr i64 SOME = 8 * NEAR;  // lanes of some planes
    const Plan &plan;
    const L &l;
    const RowSource<L> &from;
    const int last;
    OutputRow one;                 // a row by itself
    i64 place_step[MAX_DIMS + 1];  // by how much a place grows from cell to cell along a dimension
    const Reach *reach = nullptr;
    i64 extent[MAX_DIMS + 1];            // of each dimension, as it is now
    i64 lanes_of[MAX_DIMS + 1];          // from one cell of a dimension to the next
    i64 rows_of[MAX_DIMS + 1];           // of a dimension and those after it, before they are pooled
    i64 slab = 0, slabs = 0, plane = 0;  // lanes of a slab; how many; and how far apart the planes of States are
    i64 in_plane = 0, out_plane = 0;     // the same of what is read and written
    int whole_after = 0;                 // dimensions after it but the last have all of their cells, and no padding
    bool first_is_left = false;          // whether the first axis is still to be pooled
    const Lane *first_planes = nullptr;  // where its planes are
    Scratch<Lane> cells, other, rows;    // now and next; and some that are worked on
    Scratch<Lane> rolled;                // cells of the first axis that are handed on from call to call
    i64 rolled_plane = 0, rolled_count = 0;
    // Some rows near by: as they are read, with their padding, and their windows.
    Scratch<Lane> loose, lifted, pooled;
    i64 near = 0, most_rows = 1;  // how far apart their planes are, and how many rows at a time

    // All axes but the first, of all that the first one sees; or, where that comes first, all axes.
    void pool_all_but_first(const Reach *reach, i64 at, i64 count) {
        this->reach = reach;
        i64 size = reach[last].outputs * plan.inner;
        rows_of[last] = 1, lanes_of[last] = plan.inner, extent[last] = reach[last].outputs;
        whole_after = last - 1;
        for (int d = last - 1; d >= 0; --d) {
            lanes_of[d] = size;
            extent[d] = d == 0 && first_comes_first(reach[0]) ? reach[d].outputs : reach[d].size();
            size *= extent[d];
            rows_of[d] = rows_of[d + 1] * extent[d];
            if (whole_after == d && d > 0 && extent[d] == plan.dims[d].in_count && reach[d].cells == extent[d])
                --whole_after;
        }
        slab = size, slabs = count;
        plane = count * size + 4 * N;
        cells.grow(L::PLANES * plane, "cells of windows that overlap");
        other.grow(L::PLANES * plane, "cells of windows that overlap");
        take_room_along();
        for (i64 s = 0; s < count; ++s) {
            if (last && first_comes_first(reach[0]))
                merge_first(at + s * plan.in_slab, cells.data() + s * size);
            else if (last)
                fill_from(0, at + s * plan.in_slab, cells.data() + s * size);
            else
                pool_along(at + s * plan.in_slab, 1, cells.data() + s * size);
        }
        in_plane = out_plane = plane;
        for (int d = last - 1; d > 0; --d)
            if (reach[d].is_moved()) pool_axis(d);
    }

    // --- rows ---

    i64 in_stride(int d) const { return d == last ? plan.inner : plan.dims[d].in_stride; }

    // And up to a register more.
    static void fill(Lane *to, i64 length, i64 apart) {
        for (i64 i = 0; i < length; i += N) L::template put<N>(to + i, apart, L::template empty<N>());
    }
    static void copy(const Lane *from, i64 from_apart, Lane *to, i64 to_apart, i64 length) {
        for (i64 i = 0; i < length; i += N)
            L::template put<N>(to + i, to_apart, L::template get<N>(from + i, from_apart));
    }
    // Dimension d and all after it. What is written beyond their end is written again, or not read.
    void fill_from(int d, i64 at, Lane *to) {
        const Reach &own = reach[d];
        const i64 rest = lanes_of[d], begin = at + own.first * in_stride(d);
        Lane *first = to + own.before * rest;
        fill(to, own.before * rest, plane);
        if (d >= whole_after)
            pool_along(begin, own.cells * rows_of[d + 1], first);
        else
            for (i64 c = 0; c < own.cells; ++c) fill_from(d + 1, begin + c * in_stride(d), first + c * rest);
        fill(first + own.cells * rest, own.after * rest, plane);
    }

    // Whether rows are merged along the first of several axes as they are read. Winners are not: there a row is a place.
    static bool first_comes_first(const Reach &first) {
        return !L::PLACED && slides_first_axis_first(first.kernel, first.stride);
    }
    // All outputs along the first axis: the rows that each sees, as one row, and so on along the other axes.
    void merge_first(i64 at, Lane *to) {
        const Reach &own = reach[0];
        for (i64 o = 0; o < own.outputs; ++o, to += lanes_of[0]) {
            one.count = 0;
            for (i64 k = 0; k < own.kernel; ++k) {
                const i64 c = o * own.stride + k * own.dilation - own.before;
                if (c < 0 || c >= own.cells) continue;
                one.tag[one.count] = 0;
                one.offset[one.count++] = (own.first + c) * in_stride(0);
            }
            if (!one.count)
                fill(to, lanes_of[0], plane);
            else if (whole_after == 0)
                pool_along(at, rows_of[1], to);
            else
                fill_from(1, at, to);
        }
        one.count = 1, one.offset[0] = 0;
    }

    void take_room_along() {
        const i64 row = reach[last].size() * plan.inner;
        most_rows = NEAR / row + 1;
        near = (most_rows * row + Widened::MARGIN) / N * N + 6 * N;
        lifted.grow(L::PLANES * near, "rows");
        pooled.grow((Widened::ROWS > L::PLANES ? Widened::ROWS : L::PLANES) * near, "windows of rows");
    }
    // `count` rows side by side, from element `at` of the array on.
    void pool_along(i64 at, i64 count, Lane *to) {
        const Reach &own = reach[last];
        const i64 step = plan.in_row, outputs = own.outputs * plan.inner;
        if (!own.is_moved() && own.cells * plan.inner == step && own.size() == own.cells)
            return from.merge(from, at, one, 0, count * step, to, plane);
        for (i64 begin = 0, many; begin < count; begin += many, to += many * outputs) {
            many = begin + most_rows < count ? most_rows : count - begin;
            lift(at + begin * step, many);
            in_plane = near, out_plane = plane;
            if (!own.is_moved())
                copy(lifted.data(), near, to, plane, many * outputs);
            else if (goes_across(own, plan.inner))
                for (i64 r = 0; r < many; ++r)
                    merge_outputs(own, lifted.data() + r * own.size() * plan.inner, plan.inner, own.outputs,
                                  place_step[last], to + r * outputs);
            else if (Widened::IN_REGISTERS && !L::PLACED && plan.inner * own.dilation == 1 && own.kernel >= 2 * N &&
                     own.kernel <= 512)
                widen_rows(own, many, to);
            else
                merge_rows_flat(own, many, to);
        }
    }
    // Rows and their padding, side by side. Where rows are short, several are read at once and then moved apart.
    void lift(i64 at, i64 count) {
        const Reach &own = reach[last];
        const i64 inner = plan.inner, step = plan.in_row, length = own.cells * inner;
        if (own.size() * inner == step && length == step)
            return from.merge(from, at, one, 0, count * step, lifted.data(), near);
        const bool apart = step < 4 * N;
        const i64 room = count * step + 2 * N;
        if (apart) {
            loose.grow(L::PLANES * room, "short rows");
            from.merge(from, at, one, 0, count * step, loose.data(), room);
        }
        Lane *to = lifted.data();
        for (i64 r = 0; r < count; ++r, to += own.size() * inner) {
            fill(to, own.before * inner, near);
            Lane *first = to + own.before * inner;
            if (apart)
                copy(loose.data() + r * step + own.first * inner, room, first, near, length);
            else
                from.merge(from, at + r * step + own.first * inner, one, 0, length, first, near);
            fill(first + length, own.after * inner, near);
        }
    }
    // Of what is in `pooled`, the windows that are asked for.
    void pick_rows(const Reach &own, i64 count, Lane *to) {
        const i64 inner = plan.inner, row = own.size() * inner, outputs = own.outputs * inner;
        for (i64 r = 0; r < count; ++r, to += outputs) {
            const Lane *in = pooled.data() + r * row;
            if (own.stride == 1)
                copy(in, near, to, plane, outputs);
            else if (inner > 1)
                for (i64 o = 0; o < own.outputs; ++o)
                    copy(in + o * own.stride * inner, near, to + o * inner, plane, inner);
            else
                for (int q = 0; q < L::PLANES; ++q) pick_cells(in + q * near, own.stride, to + q * plane, outputs);
        }
    }
    // And up to a register more.
    static void pick_cells(const Lane *from, i64 stride, Lane *to, i64 count) {
        if (stride == 2)
            for (i64 i = 0; i < count; i += N)
                store<N>(to + i, every_second<N, 0>(load<N>(from + 2 * i), load<N>(from + 2 * i + N)));
        else
            for (i64 i = 0; i < count; ++i) to[i] = from[i * stride];
    }
    // Wide windows of cells side by side; see widen.h.
    void widen_rows(const Reach &own, i64 count, Lane *to) {
        Widened{l, lifted.data(), pooled.data(), near, count * own.size(), 1, own.kernel, 1}.widen();
        pick_rows(own, count, to);
    }
    void merge_rows_flat(const Reach &own, i64 count, Lane *to) {
        const i64 row = own.size() * plan.inner, outputs = own.outputs * plan.inner, step = place_step[last];
        const FlatSteps steps = flat_steps(own, plan.inner, step);
        const Lane *in = lifted.data();
        out_plane = near;
        if (steps.part > 1) {
            merge_flat(in, in, pooled.data(), count * row, steps.first());
            in = pooled.data();
        }
        // Long rows go to where they belong, one by one.
        if (own.stride == 1 && outputs >= 4 * N) {
            out_plane = plane;
            for (i64 r = 0; r < count; ++r)
                merge_flat(in + r * row, lifted.data() + r * row, to + r * outputs, outputs + steps.reach(),
                           steps.last());
            return;
        }
        merge_flat(in, lifted.data(), pooled.data(), count * row, steps.last());
        pick_rows(own, count, to);
    }

    // --- planes ---

    // Whether the lanes of a cell are as good as whole registers.
    static bool goes_across(const Reach &own, i64 rest) {
        return rest >= 4 * N || rest % N == 0 || (rest >= N && (own.stride > 1 || own.kernel > 8));
    }
    static bool is_wide(const Reach &own) {
        return own.dilation == 1 && own.kernel >= 8 * own.stride && own.kernel > (own.stride > 1 ? 8 : 32);
    }
    // How many cells of a dimension are left then, each of which has `rest` lanes.
    static i64 extent_pooled(const Reach &own, i64 rest) {
        return own.stride > 1 || goes_across(own, rest) ? own.outputs : own.size();
    }
    void pool_axis(int d) {
        if (goes_across(reach[d], lanes_of[d]))
            across(d);
        else
            flat(d);
    }
    // Makes windows of planes, which lie side by side.
    void across(int d) {
        const Reach &own = reach[d];
        const i64 rest = lanes_of[d], size = extent[d] * rest;
        i64 before = slabs;
        for (int e = 0; e < d; ++e) before *= extent[e];
        for (i64 b = 0; b < before; ++b)
            merge_outputs(own, cells.data() + b * size, rest, own.outputs, place_step[d],
                          other.data() + b * own.outputs * rest);
        shrink(d, own.outputs);
    }
    // The first `outputs` of an axis whose cells have `rest` lanes.
    void merge_outputs(const Reach &own, const Lane *in, i64 rest, i64 outputs, i64 step, Lane *out) {
        if (is_wide(own))
            merge_wide(own, in, rest, step, out);
        else if (own.dilation > 1 || own.stride > 1)
            for (i64 o = 0; o < outputs; ++o)
                merge_planes(own, in + o * own.stride * rest, rest, step, out + o * rest);
        else if (own.kernel == 2)
            merge_few<2>(in, rest, outputs, step, out);
        else if (own.kernel == 3)
            merge_few<3>(in, rest, outputs, step, out);
        else if (own.kernel < 12)
            merge_together<4>(in, rest, own.kernel, outputs, step, out);
        else
            merge_together<8>(in, rest, own.kernel, outputs, step, out);
    }
    // Dimension d has so many cells from now on.
    void shrink(int d, i64 outputs) {
        std::swap(cells, other);
        extent[d] = outputs;
        i64 size = lanes_of[d] * outputs;
        for (int e = d - 1; e >= 0; --e) lanes_of[e] = size, size *= extent[e];
        slab = size;
    }
    State get(const Lane *p) const { return L::template get<N>(p, in_plane); }
    void put(Lane *p, const State &s) const { L::template put<N>(p, out_plane, s); }
    // The state merged with one whose cells are so many places further on.
    NDPOOL_INLINE void merge(State &a, const State &b, i64 places) const {
        l.template merge_any<N>(a, L::template further<N>(b, places));
    }

    void merge_planes(const Reach &own, const Lane *in, i64 rest, i64 step, Lane *out) const {
        const i64 apart = own.dilation * rest;
        whole_blocks<N>(rest, [&](i64 i) NDPOOL_INLINED {
            State s = get(in + i);
            for (i64 c = 1; c < own.kernel; ++c) merge(s, get(in + c * apart + i), c * step);
            put(out + i, s);
        });
    }
    // Windows of 2 or 3 planes, four at a time.
    template <int K>
    void merge_few(const Lane *in, i64 rest, i64 outputs, i64 step, Lane *out) const {
        auto some = [&](auto many, i64 o) NDPOOL_INLINED {
            constexpr int U = decltype(many)::value;
            whole_blocks<N>(rest, [&](i64 i) NDPOOL_INLINED {
                const Lane *from = in + o * rest + i;
                State row[U + K - 1];
                NDPOOL_UNROLL_ALL
                for (int r = 0; r < U + K - 1; ++r) row[r] = get(from + r * rest);
                NDPOOL_UNROLL_ALL
                for (int u = 0; u < U; ++u) {
                    if (K == 2) merge(row[u], row[u + 1], step);
                    if (K == 3 && u % 2 == 0) {  // the one between two windows is merged with what both see
                        State both = row[u + 1];
                        merge(both, row[u + K - 1], step);
                        merge(row[u], both, step);
                        if (u + 1 < U) merge(both, row[u + K], 2 * step), row[u + 1] = both;
                    }
                    put(out + (o + u) * rest + i, row[u]);
                }
            });
        };
        over_outputs<4>(outputs, some);
    }
    // Calls some(how many, output) until all are done: U at a time, or else one. The last may be done twice.
    template <int U, class F>
    NDPOOL_INLINE static void over_outputs(i64 outputs, const F &some) {
        if (outputs < U)
            for (i64 o = 0; o < outputs; ++o) some(Size<1>(), o);
        else
            whole_blocks<U>(outputs, [&](i64 o) { some(Size<U>(), o); });
    }
    // Windows of at least U planes, U at a time. What all have in common is merged once; see above.
    template <int U>
    void merge_together(const Lane *in, i64 rest, i64 kernel, i64 outputs, i64 step, Lane *out) const {
        over_outputs<U>(outputs, [&](auto many, i64 o) NDPOOL_INLINED {
            constexpr int M = decltype(many)::value;
            whole_blocks<N>(rest, [&](i64 i) NDPOOL_INLINED {
                const Lane *from = in + o * rest + i;
                auto row = [&](i64 r) NDPOOL_INLINED { return get(from + r * rest); };
                State s[M];
                s[M - 1] = row(M - 1);
                for (i64 r = M; r < kernel; ++r) merge(s[M - 1], row(r), (r - M + 1) * step);
                NDPOOL_UNROLL_ALL
                for (int u = M - 2; u >= 0; --u) s[u] = row(u), merge(s[u], s[u + 1], step);
                if constexpr (M > 1) {
                    State after = row(kernel);
                    NDPOOL_UNROLL_ALL
                    for (int u = 1; u < M; ++u) {
                        merge(s[u], after, (kernel - u) * step);
                        if (u + 1 < M) merge(after, row(kernel + u), u * step);
                    }
                }
                NDPOOL_UNROLL_ALL
                for (int u = 0; u < M; ++u) put(out + (o + u) * rest + i, s[u]);
            });
        });
    }

    // Wide windows. Cut the axis into blocks as long as the kernel (van Herk; Gil and Werman). A window is the end of
    // one block and the beginning of the next: its value is a suffix of the one merged with a prefix of the other. That
    // is three merges for a plane, whatever the kernel. Nothing is ever subtracted.
    void merge_wide(const Reach &own, const Lane *in, i64 rest, i64 step, Lane *out) {
        const i64 k = own.kernel, seen = (own.outputs - 1) * own.stride + k;
        // So few columns that a block of them stays near.
        i64 columns = (i64(72) << 10) / static_cast<i64>(sizeof(Lane)) / L::PLANES / (k + 1) / N * N;
        columns = columns < N ? N : columns > 256 ? 256 : columns;
        if (columns > rest) columns = rest / N * N;
        const i64 near = (k + 1) * columns + N;
        rows.grow(L::PLANES * near, "a block of planes");
        Lane *suffix = rows.data(), *prefix = suffix + k * columns;
        auto kept = [&](const Lane *p) NDPOOL_INLINED { return L::template get<N>(p, near); };
        auto keep = [&](Lane *p, const State &s) NDPOOL_INLINED { L::template put<N>(p, near, s); };
        for (i64 begin = 0; begin < rest; begin += columns) {
            const i64 column = begin + columns <= rest ? begin : rest - columns;
            const Lane *from = in + column;
            for (i64 first = 0; first < seen - k + 1; first += k) {
                for (i64 q = k - 1; q >= 0; --q)
                    for (i64 i = 0; i < columns; i += N) {
                        State s = get(from + (first + q) * rest + i);
                        if (q < k - 1) merge(s, kept(suffix + (q + 1) * columns + i), step);
                        keep(suffix + q * columns + i, s);
                    }
                i64 filled = 0;  // planes of the next block that the prefix has
                i64 o = (first + own.stride - 1) / own.stride;
                for (; o < own.outputs && o * own.stride < first + k; ++o) {
                    const i64 q = o * own.stride - first;
                    for (i64 i = 0; i < columns; i += N) {
                        State head{}, s = kept(suffix + q * columns + i);
                        if (filled) head = kept(prefix + i);
                        for (i64 p = filled; p < q; ++p) {
                            const State next = get(from + (first + k + p) * rest + i);
                            if (p)
                                merge(head, next, p * step);
                            else
                                head = next;
                        }
                        if (q) merge(s, head, (k - q) * step), keep(prefix + i, head);
                        put(out + o * rest + column + i, s);
                    }
                    filled = q;
                }
            }
        }
    }

    // Makes windows of all that lies as far apart as the cells of an axis: those that start at a cell are at its place.
    void flat(int d) {
        const Reach &own = reach[d];
        const FlatSteps steps = flat_steps(own, lanes_of[d], place_step[d]);
        const i64 length = slabs * slab;
        if (steps.part > 1) {  // and back, over the cells, which are not needed any more where windows are
            merge_flat(cells.data(), cells.data(), other.data(), length, steps.first());
            merge_flat(other.data(), cells.data(), cells.data(), length, steps.last());
        } else if (own.kernel > 1) {
            merge_flat(cells.data(), cells.data(), other.data(), length, steps.last());
            std::swap(cells, other);
        }
        if (own.stride > 1) pick_planes(d);
    }
    // Windows of `count` States, each `apart` lanes and `step` places after the one before, and of `more` cells after
    // these. Each of the States has `width` cells.
    struct FlatMerge {
        i64 count, apart, step, more, width;

        i64 cell() const { return apart / width; }
        // From the first lane to the last one that a window is made of.
        i64 reach() const { return (count - 1) * apart + (width > 1 ? (width + more - 1) * cell() : 0); }
    };
    // In two steps, if that takes fewer merges: windows of `part` cells first, and these and what is left over then.
    struct FlatSteps {
        i64 kernel, apart, step, part;

        FlatMerge first() const { return {part, apart, step, 0, 1}; }
        FlatMerge last() const {
            return {kernel / part, part * apart, part * step, part > 1 ? kernel % part : 0, part};
        }
        i64 reach() const { return last().reach(); }
    };
    static FlatSteps flat_steps(const Reach &own, i64 lanes_of_cell, i64 step) {
        constexpr i64 FEW = 5;
        const i64 kernel = own.kernel, apart = own.dilation * lanes_of_cell;
        i64 part = 1;
        auto merges = [&](i64 a) { return a + kernel / a + (L::IDEMPOTENT ? kernel % a > 0 : kernel % a); };
        if (kernel > FEW) part = 2;
        for (i64 a = 3; kernel > FEW && a * a <= 2 * kernel; ++a)
            if (merges(a) < merges(part)) part = a;
        return {kernel, apart, step, part};
    }
    // to[i] = a window of States of `in` and cells, from lane i on, for all that end before lane `length`.
    void merge_flat(const Lane *in, const Lane *cell, Lane *to, i64 length, const FlatMerge &by) const {
        const auto [count, apart, step, more, width] = by;
        const i64 each = by.cell(), cell_step = step / width;
        length -= by.reach();
        // Where cells may be merged twice, those that are left over are the last of one more State.
        const bool again = L::IDEMPOTENT && more > 0;
        const i64 tail = (count - 1) * apart + more * each, tail_step = (count - 1) * step + more * cell_step;
        const Lane *rest = cell + count * apart;
        auto block = [&, count = count, apart = apart, step = step, more = more](auto registers, i64 i) NDPOOL_INLINED {
            constexpr int U = decltype(registers)::value;
            State s[U];
            auto add = [&](const Lane *p, i64 places) NDPOOL_INLINED {
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u) merge(s[u], get(p + i + u * N), places);
            };
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) s[u] = get(in + i + u * N);
            for (i64 c = 1; c < count; ++c) add(in + c * apart, c * step);
            if (again) add(in + tail, tail_step);
            if (!again)
                for (i64 c = 0; c < more; ++c) add(rest + c * each, count * step + c * cell_step);
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) put(to + i + u * N, s[u]);
        };
        i64 i = 0;
        for (; i + 4 * N <= length; i += 4 * N) block(Size<4>(), i);
        for (; i < length; i += N) block(Size<1>(), i);
    }
    // Every `stride`-th plane.
    void pick_planes(int d) {
        const Reach &own = reach[d];
        const i64 rest = lanes_of[d], size = extent[d] * rest;
        i64 before = slabs;
        for (int e = 0; e < d; ++e) before *= extent[e];
        Lane *to = other.data();
        for (i64 b = 0; b < before; ++b)
            for (i64 o = 0; o < own.outputs; ++o, to += rest) {
                const Lane *in = cells.data() + b * size + o * own.stride * rest;
                for (i64 i = 0; i < rest; i += N) put(to + i, get(in + i));
            }
        shrink(d, own.outputs);
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
