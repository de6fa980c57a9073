// Windows that overlap along several axes: one axis after the other, each over whole planes.
//
// Some cells are lifted, with their padding, into a block that stays in the second-level cache. There an axis is a
// number of planes, each of which has all cells of the axes after it. A plane of windows is some planes merged, whole
// registers at a time, and neighbours have most of their planes in common:
//
//     planes     a   b   c   d   e   f
//     windows of 4 planes:   c + d is common to all three,   b + (c + d),   a + (b + (c + d)),   e + f, ...
//
// Where planes are short, as the places of a row are, all of the block is one long row: every cell is merged with those
// that lie so many lanes further on. What windows across the end of a row or plane are made of is not asked for.
//
// An output costs about as many merges as the window has sides, and a register holds neighbours however short rows are.
#pragma once
#include "passes/widen.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Some outputs that follow each other along one axis, and what they see: padding, cells from `first` on, and padding.
struct Reach {
    i64 kernel, stride, dilation, outputs, before, first, cells, after;

    i64 size() const { return before + cells + after; }
    bool is_moved() const { return kernel > 1 || stride > 1; }

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

    // The windows of `count` slabs that lie side by side, the first at element `at` of the array. reach[d] is that of
    // dimension d, or of the last axis.
    void pool(const Reach *reach, i64 at, i64 count) {
        this->reach = reach;
        i64 size = plan.inner;
        whole_after = last;
        for (int d = last; d >= 0; --d) {
            lanes_of[d] = size;
            extent[d] = reach[d].size();
            size *= extent[d];
            const i64 length = d == last ? plan.last().length : plan.dims[d].in_count;
            if (whole_after == d && d > 0 && reach[d].cells == length && extent[d] == length) --whole_after;
        }
        slab = size, slabs = count;
        plane = count * size + 4 * N;
        cells.grow(L::PLANES * plane, "cells of windows that overlap");
        other.grow(L::PLANES * plane, "cells of windows that overlap");
        for (i64 s = 0; s < count; ++s) lift(0, at + s * plan.in_slab, cells.data() + s * size);
        for (int d = 0; d <= last; ++d)
            if (reach[d].is_moved()) pool_axis(d);
    }

    // Calls f(lanes) for the outputs of each row, in order, of output o along the first dimension of a slab. Those of a
    // place lie side by side, and the places step_along() places apart; planes of States are apart().
    template <class F>
    NDPOOL_INLINE void over_rows(i64 number, i64 o, const F &f) const {
        const Lane *start = cells.data() + number * slab + o * lanes_of[0];
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
    i64 step_along() const { return extent[last] == reach[last].outputs ? 1 : reach[last].stride; }

  private:
    const Plan &plan;
    const L &l;
    const RowSource<L> &from;
    const int last;
    OutputRow one;                 // a row by itself
    i64 place_step[MAX_DIMS + 1];  // by how much a place grows from cell to cell along a dimension
    const Reach *reach = nullptr;
    i64 extent[MAX_DIMS + 1];            // of each dimension, as it is now
    i64 lanes_of[MAX_DIMS + 1];          // from one cell of a dimension to the next
    i64 slab = 0, slabs = 0, plane = 0;  // lanes of a slab; how many; and how far apart the planes of States are
    int whole_after = 0;                 // dimensions after it have all of their cells, and no padding
    Scratch<Lane> cells, other, rows;    // now and next; and some that are worked on

    // --- lifting ---

    i64 in_stride(int d) const { return d == last ? plan.inner : plan.dims[d].in_stride; }

    // And up to a register more.
    void fill(Lane *to, i64 length) const {
        for (i64 i = 0; i < length; i += N) L::template put<N>(to + i, plane, L::template empty<N>());
    }
    // The cells of dimension d and all after it. What is written beyond their end is written again, or not read.
    void lift(int d, i64 at, Lane *to) {
        const Reach &own = reach[d];
        const i64 rest = lanes_of[d], begin = at + own.first * in_stride(d);
        fill(to, own.before * rest);
        Lane *first = to + own.before * rest;
        if (d >= whole_after)
            from.merge(from, begin, one, 0, own.cells * rest, first, plane);
        else if (d == last - 1 && plan.in_row < 4 * N)
            lift_short_rows(begin, own.cells, first);
        else
            for (i64 c = 0; c < own.cells; ++c) lift(d + 1, begin + c * in_stride(d), first + c * rest);
        fill(first + own.cells * rest, own.after * rest);
    }
    // Rows side by side are lifted at once, and then moved apart.
    void lift_short_rows(i64 at, i64 count, Lane *to) {
        const Reach &along = reach[last];
        const i64 inner = plan.inner, step = plan.in_row, most = 2048 / step + 1, rest = lanes_of[last - 1];
        const i64 room = most * step + 2 * N;
        rows.grow(L::PLANES * room, "short rows");
        for (i64 begin = 0; begin < count; begin += most) {
            const i64 many = begin + most < count ? most : count - begin;
            from.merge(from, at + begin * step, one, 0, many * step, rows.data(), room);
            for (i64 r = 0; r < many; ++r, to += rest) {
                fill(to, along.before * inner);
                const Lane *row = rows.data() + r * step + along.first * inner;
                const i64 length = along.cells * inner;
                for (i64 i = 0; i < length; i += N)
                    L::template put<N>(to + along.before * inner + i, plane, L::template get<N>(row + i, room));
                fill(to + along.before * inner + length, along.after * inner);
            }
        }
    }

    // --- pooling ---

    void pool_axis(int d) {
        const Reach &own = reach[d];
        const i64 rest = lanes_of[d];
        if (rest >= 4 * N || rest % N == 0 || (rest >= N && (own.stride > 1 || own.kernel > 8)))
            across(d);
        else if (Widened::IN_REGISTERS && !L::PLACED && rest * own.dilation == 1 && own.kernel >= 2 * N &&
                 own.kernel <= 512)
            widen(own.kernel);
        else
            flat(d);
    }
    // Makes windows of planes, which lie side by side.
    void across(int d) {
        const Reach &own = reach[d];
        const i64 rest = lanes_of[d], size = extent[d] * rest, step = place_step[d];
        i64 before = slabs;
        for (int e = 0; e < d; ++e) before *= extent[e];
        for (i64 b = 0; b < before; ++b) {
            const Lane *in = cells.data() + b * size;
            Lane *out = other.data() + b * own.outputs * rest;
            if (own.dilation == 1 && own.kernel >= 8 * own.stride && own.kernel > (own.stride > 1 ? 8 : 32))
                merge_wide(own, in, rest, step, out);
            else if (own.dilation > 1 || own.stride > 1)
                for (i64 o = 0; o < own.outputs; ++o)
                    merge_planes(own, in + o * own.stride * rest, rest, step, out + o * rest);
            else if (own.kernel == 2)
                merge_few<2>(in, rest, own.outputs, step, out);
            else if (own.kernel == 3)
                merge_few<3>(in, rest, own.outputs, step, out);
            else if (own.kernel < 12)
                merge_together<4>(in, rest, own.kernel, own.outputs, step, out);
            else
                merge_together<8>(in, rest, own.kernel, own.outputs, step, out);
        }
        shrink(d, own.outputs);
    }
    // Dimension d has so many cells from now on.
    void shrink(int d, i64 outputs) {
        std::swap(cells, other);
        extent[d] = outputs;
        i64 size = lanes_of[d] * outputs;
        for (int e = d - 1; e >= 0; --e) lanes_of[e] = size, size *= extent[e];
        slab = size;
    }
    State get(const Lane *p) const { return L::template get<N>(p, plane); }
    void put(Lane *p, const State &s) const { L::template put<N>(p, plane, s); }
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
        const i64 apart = own.dilation * lanes_of[d], kernel = own.kernel, step = place_step[d];
        constexpr i64 FEW = 5;
        if (kernel > FEW) {  // of windows of fewer cells, and cells that are left over
            i64 part = 2;
            auto merges = [&](i64 a) { return a + kernel / a + (L::IDEMPOTENT ? kernel % a > 0 : kernel % a); };
            for (i64 a = 3; a * a <= 2 * kernel; ++a)
                if (merges(a) < merges(part)) part = a;
            merge_flat(other.data(), cells.data(), part, apart, step, 0, 0);
            merge_flat(cells.data(), other.data(), kernel / part, part * apart, part * step, kernel % part, part);
        } else if (kernel > 1) {
            merge_flat(other.data(), cells.data(), kernel, apart, step, 0, 0);
            std::swap(cells, other);
        }
        if (own.stride > 1 && d < last) pick_planes(d);
    }
    // The same of cells side by side where windows are wide, some of the nearest cache at a time; see widen.h.
    void widen(i64 kernel) {
        const i64 length = slabs * slab - kernel + 1, most = kernel < 512 ? 2048 : 4 * kernel;
        const i64 room = (most + kernel + Widened::MARGIN) / N * N + 2 * N;
        rows.grow((1 + Widened::ROWS) * room, "wide windows of a row");
        Lane *row = rows.data(), *total = row + room;
        for (i64 begin = 0; begin < length; begin += most) {
            const i64 many = begin + most < length ? most : length - begin;
            std::memcpy(row, cells.data() + begin, sizeof(Lane) * static_cast<std::size_t>(many + kernel - 1));
            Widened{l, row, total, room, many + kernel - 1, 1, kernel, 1}.widen();
            std::memcpy(other.data() + begin, total, sizeof(Lane) * static_cast<std::size_t>(many));
        }
        std::swap(cells, other);
    }
    // to[i] = `count` States of `in`, each `apart` lanes and `step` places after the one before, and `more` cells after
    // these; each of the States has `width` cells. Cells are still where windows will be.
    void merge_flat(Lane *to, const Lane *in, i64 count, i64 apart, i64 step, i64 more, i64 width) {
        const i64 cell = width ? apart / width : 0, cell_step = width ? step / width : 0;
        const i64 reach = (count - 1) * apart + (width ? (width + more - 1) * cell : 0), length = slabs * slab - reach;
        // Where cells may be merged twice, those that are left over are the last of one more State.
        const bool again = L::IDEMPOTENT && more > 0;
        const i64 tail = (count - 1) * apart + more * cell, tail_step = (count - 1) * step + more * cell_step;
        const Lane *rest = cells.data() + count * apart;
        auto block = [&](auto registers, i64 i) NDPOOL_INLINED {
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
                for (i64 c = 0; c < more; ++c) add(rest + c * cell, count * step + c * cell_step);
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
