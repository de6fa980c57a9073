// The general way: the rows that an output row sees are merged, and the merged row is pooled along itself.
//
// Merging is cell by cell: contiguous memory, whole registers. The merged row stays in the nearest cache. So the input
// is read once and the output written once, and an output costs as many merges as the sides of its window together.
//
// Small windows in steps of one go the other way round: the windows along each row are made straight from the cells,
// and kept until all rows of outputs over it have merged them.
//
//     rows of cells      a    b    c    d        windows along them      a'   b'   c'   d'
//     rows of outputs    a' + b' + c',   b' + c' + d'
//
// Where the outputs go is a Sink:
//   take_room(plan)             memory that it needs for itself, to be held as long as it is used
//   move_to(plan, index, rows)  to a row of all outputs, which sees these rows of the input
//   put<N>(at, state, count)    writes the first `count` of N outputs, from element `at` of the row on
//   finish(plan, slab, rows, begin, end)  is called after outputs begin..end-1 of each row, if finishes()
//   rows_differ()               whether rows are written differently; else several may be put as one, where it slides
//   over_arrays(use)            calls use(array, row) for each array that is written: its start, and its current row
//   STREAMS                     whether past_the_caches() is the same, with stores that go there
#pragma once
#include "plan/choice.h"
#include "base/phases.h"
#include "passes/segments.h"
#include "passes/widen.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Calls use(sink), or use with one that does the same for all outputs, wherever they are, with less to ask for each
// register.
template <class Sink, class Use>
NDPOOL_INLINE void with_simplest(const Sink &sink, const Use &use) {
    use(sink);
}

// Pools outputs of one row after the other. Knows the cells as lanes alone.
template <class L, class Sink>
class LanePooler {
    using Lane = typename L::Lane;
    static constexpr int N = LANES<Lane>;
    static constexpr bool WIDENS = LEVEL_IS_TUNED;  // see choice.cpp
    template <int M>
    using State = typename L::template State<M>;

  public:
    // For at most `part` outputs at a time.
    LanePooler(const Plan &plan, const L &l, const RowSource<L> &from, i64 part, Way way)
        : plan(plan),
          axis(plan.last()),
          l(l),
          from(from),
          inner(plan.inner),
          way(way),
          radix(way == Way::WIDEN ? 1 : axis.kernel) {
        if (way == Way::KEPT && plan.outer_cells > 1) make_room_to_keep();
        if (way == Way::SEGMENTS) most_rows = rows_near(axis.length, MOST_ROWS);
        if (way != Way::ROWS && way != Way::WIDEN) return;
        // Where places of several elements are far apart, the row is left as it is.
        if (way == Way::ROWS && inner > 1 && (axis.adaptive || (axis.stride > 1 && !splits_places()))) return;
        i64 s = axis.stride, d = axis.dilation, k = axis.kernel;
        i64 cells = (part - 1) * s + (k - 1) * d + 1;
        const i64 lanes = cells * inner + (way == Way::WIDEN ? Widener<L, N>::MARGIN : 0);
        if (way == Way::ROWS && !L::HEAVY) most_rows = rows_near(lanes, FEW_ROWS);
        plane = room_for(lanes, merged, most_rows);
        if (way == Way::WIDEN) {
            totals = Scratch<Lane>(Widener<L, N>::ROWS * plane, "wide windows of a row");
            k = 1;
        }
        phase_plane = plane;
        if (s > 1) {
            phase_length = ((cells + s - 1) / s + N) * inner;
            phase_plane = room_for(s * phase_length, phases);
        }
        if (L::TAGGED && plan.cells + axis.kernel <= i64(1) << (8 * sizeof(Lane) < 32 ? 8 * sizeof(Lane) : 32))
            place_of_padding = plan.outer_cells;
        shifts = Scratch<i64>(k, "cells of a window");
        for (i64 c = 0; c < k; ++c) shifts[c] = s > 1 ? c * d % s * phase_length + c * d / s * inner : c * d * inner;
    }

    // Whether places are so short that registers of windows side by side are worth phases.
    bool splits_places() const {
        const bool moved_once = axis.kernel >= 2 * axis.stride;  // and then asked for more often
        return 2 * inner <= N && axis.stride <= axis.kernel && (moved_once || has_shuffle<Lane>(inner, axis.stride));
    }

    // How many rows, of at most `most`, are pooled at a time: some that see the same, if they are merged. A register
    // that lies across two which have just been stored can only be read when these have arrived in the cache. So all
    // rows are merged first.
    i64 rows_at_a_time(const OutputRow &rows, const Sink &sink, i64 most) const {
        if (sink.finishes()) return 1;
        const i64 many = rows.ahead + 1 < most ? rows.ahead + 1 : most;
        return many < most_rows ? many : most_rows;
    }

    // The outputs begin..end-1 of a row, and of `more` rows that follow; `base` is where its rows start in the array.
    // After element `room` of the row nothing may be written. Up to there, what follows the last output will be written
    // later.
    void pool(i64 base, const OutputRow &rows, Sink &sink, i64 begin, i64 end, i64 room, i64 more) {
        this->room = room;
        if constexpr (KEEPS<L>)
            if (way == Way::KEPT)
                return plan.outer_cells > 1 ? pool_kept(base, rows, sink, more)
                                            : pool_windows(base, rows, sink, begin, end);
        if (way == Way::CELLS)
            pool_cells(base, rows, sink, begin, end);
        else if (way == Way::SEGMENTS)
            pool_segments(base, rows, sink, begin, end, more);
        else if (!shifts.data())
            pool_places(base, rows, sink, begin, end);
        else if (more)
            pool_rows(base, rows, sink, end, more);
        else
            pool_row(base, rows, sink, begin, end);
    }

  private:
    static constexpr i64 FEW_ROWS = 4, MOST_ROWS = 8;
    static constexpr int SHORT = sizeof(Lane) < 4 ? 16 / static_cast<int>(sizeof(Lane)) : 4;  // a place of few channels
    const Plan &plan;
    const Axis &axis;
    const L &l;
    const RowSource<L> &from;
    const i64 inner;
    const Way way;
    const i64 radix;  // of places along the row; wide windows have counted them
    i64 room = 0;
    Scratch<Lane> merged, totals,
        phases;           // the merged rows; their wide windows; one of them in phases, or places side by side
    i64 most_rows = 1;    // that are merged at a time
    Lane *row = nullptr;  // the one that is worked on
    i64 plane = 0, phase_plane = 0, phase_length = 0;
    Scratch<i64> shifts;  // where the cells of each tap start, among the phases
    // The part whose padded cells are in each of the merged rows.
    i64 edges_filled[FEW_ROWS] = {-1, -1, -1, -1};
    Scratch<Axis::Taps> windows;  // along the row, from output `listed` on
    i64 listed = -1;
    i64 place_of_padding = 0;  // across the rows: one after all others, if lanes can hold the places that it leads to
    // The windows along some rows, and which rows these are: the elements at which they start.
    Scratch<Lane> kept;
    Scratch<i64> kept_rows;
    i64 kept_count = 0;  // a power of two
    const double rows_per_element = 1 / static_cast<double>(plan.in_row);
    RowWindows along_row = {};
    Scratch<const Lane *> lines;  // of the rows that windows see
    Scratch<KeptRow<Lane>> new_rows;
    i64 before_aligned = 0;  // outputs of a row before the first one that is kept at the start of a line of the cache

    // How many rows of so many lanes, of at most `most`, stay in the nearest cache.
    static i64 rows_near(i64 lanes, i64 most) {
        const i64 fit = (i64(24) << 10) / (L::PLANES * static_cast<i64>(sizeof(Lane)) * lanes);
        return fit < 1 ? 1 : fit < most ? fit : most;
    }

    // Makes room for so many lanes of every plane of some rows, and two registers more; says how far apart the planes
    // are.
    static i64 room_for(i64 lanes, Scratch<Lane> &block, i64 rows = 1) {
        const i64 apart = (lanes + 3 * N - 1) / N * N;
        block.grow(rows * L::PLANES * apart, "merged rows");
        return apart;
    }

    // How many outputs of a register are written where `length` outputs start at element `at`: all, if there is room.
    NDPOOL_INLINE int written(i64 at, i64 length) const {
        return length >= N || at + N <= room ? N : static_cast<int>(length);
    }
    // with_simplest for a sink that changes.
    template <class Use>
    NDPOOL_INLINE static void with_simplest_of(Sink &sink, const Use &use) {
        with_simplest(sink, [&](const auto &simple) NDPOOL_INLINED {
            if constexpr (std::is_same_v<std::decay_t<decltype(simple)>, Sink>)
                use(sink);
            else
                use(simple);
        });
    }
    // Writes the States of `length` outputs side by side, from element `to` of the row on.
    void put_simply(Sink &sink, i64 to, const Lane *lanes, i64 apart, i64 length) {
        if (written(to, length) < N) return put_lanes(sink, to, lanes, apart, length);
        with_simplest_of(sink, [&](auto &simple) NDPOOL_INLINED { put_lanes(simple, to, lanes, apart, length); });
    }
    template <class To>
    void put_lanes(To &sink, i64 to, const Lane *lanes, i64 apart, i64 length) {
        const int count = written(to, length);
        for (i64 i = 0; i < length; i += N) {
            const i64 at = i + N <= length || length < N ? i : length - N;
            sink.template put<N>(to + at, L::template get<N>(lanes + at, apart), count);
        }
    }

    // --- windows along each row, kept for all that see the row ---

    void make_room_to_keep() {
        along_row = windows_from(0, axis.output);
        before_aligned = along_row.first * inner % N;

        most_rows = rows_near(plan.out_row, MOST_ROWS);
        const Dim &rows = plan.dims[plan.dim_count - 1];
        const i64 on = rows.in_stride / plan.in_row * (rows.axis < 0 ? 1 : plan.axes[rows.axis].stride);
        for (kept_count = 1; kept_count < rows_to_keep(plan) + (most_rows - 1) * on;) kept_count *= 2;
        plane = room_for(plan.out_row + N, kept, kept_count);
        kept_rows.grow(kept_count, "rows that are kept");
        for (i64 slot = 0; slot < kept_count; ++slot) kept_rows[slot] = -1;
        lines.grow(most_rows * plan.outer_cells, "rows of a window");
        new_rows.grow(most_rows * plan.outer_cells, "rows of a window");
    }
    // A whole row of outputs, and `more` rows that follow: the windows along the rows that each sees, merged. All rows
    // that these see have slots of their own, in which the windows along them stay until others need the slots. They
    // are made for all first: a register that lies across two which have just been stored is read late.
    void pool_kept(i64 base, const OutputRow &rows, Sink &sink, i64 more) {
        const i64 last_room = room - more * plan.out_row, count = rows.count, rows_on = more ? number_of(rows.step) : 0;
        i64 many = 0;
        for (i64 r = 0; r < count; ++r) {
            i64 at = base + rows.offset[r], number = number_of(at);
            for (i64 m = 0; m <= more; ++m, at += rows.step, number += rows_on) {
                const i64 slot = number & (kept_count - 1);
                Lane *to = kept.data() + slot * L::PLANES * plane + (N - before_aligned);
                if (kept_rows[slot] != at) kept_rows[slot] = at, new_rows[many++] = {at, to};
                lines[m * count + r] = to;
            }
        }
        if (many) from.windows(from, along_row, new_rows.data(), many, plane);
        for (i64 m = 0; m <= more; ++m) {
            room = m < more ? 2 * plan.out_row : last_room;
            const int written_at_once = written(0, plan.out_row);
            if (written_at_once < N)
                merge_lines(lines.data() + m * count, rows, sink, written_at_once);
            else
                with_simplest_of(
                    sink, [&](auto &simple) NDPOOL_INLINED { merge_lines(lines.data() + m * count, rows, simple, N); });
            if (m < more) sink.over_arrays([&](auto, auto &to) { to += plan.out_row; });
        }
    }
    // Of the row that starts at an element: without a division, which takes as long as a register of windows.
    i64 number_of(i64 at) const { return static_cast<i64>(static_cast<double>(at) * rows_per_element + 0.5); }

    template <class To>
    NDPOOL_INLINE void merge_lines(const Lane *const *line, const OutputRow &rows, To &to, int count) {
        if (rows.count == 2)
            merge_lines(Size<2>(), line, rows, to, count);
        else if (rows.count == 3)
            merge_lines(Size<3>(), line, rows, to, count);
        else
            merge_lines(Size<0>(), line, rows, to, count);
    }
    // R lines, or so many as the rows are.
    template <int R, class To>
    NDPOOL_INLINE void merge_lines(Size<R>, const Lane *const *line, const OutputRow &rows, To &to, int count) {
        const i64 length = plan.out_row, apart = plane, many = R ? R : rows.count;
        const Lane *first[R + 1];  // copies, which no store can change
        for (int r = 0; r < R; ++r) first[r] = line[r];
        auto block = [&](auto registers, i64 i) NDPOOL_INLINED {
            constexpr int U = decltype(registers)::value;
            State<N> state[U];
            auto get = [&](i64 r, int u) NDPOOL_INLINED {
                return L::template further<N>(L::template get<N>((R ? first[r] : line[r]) + i + u * N, apart),
                                              rows.tag[r] * axis.kernel);
            };
            NDPOOL_UNROLL_ALL
            for (int u = 0; u < U; ++u) state[u] = many ? get(0, u) : L::template empty<N>();
            for (i64 r = 1; r < many; ++r) {
                NDPOOL_UNROLL_ALL
                for (int u = 0; u < U; ++u) l.template merge<N>(state[u], get(r, u));
            }
            NDPOOL_UNROLL_ALL
            for (int u = 0; u < U; ++u) to.template put<N>(i + u * N, state[u], count);
        };
        if (before_aligned || length < N) block(Size<1>(), 0);
        i64 i = before_aligned;
        for (; i + 4 * N <= length; i += 4 * N) block(Size<4>(), i);
        for (; i < length && length >= N; i += N) block(Size<1>(), i + N <= length ? i : length - N);
    }

    // Windows that see one row alone, some at a time: there is nothing to merge, nor to keep.
    void pool_windows(i64 base, const OutputRow &rows, Sink &sink, i64 begin, i64 end) {
        const i64 some = 64 * N / inner + 1, apart = room_for(some * inner, phases);
        for (i64 o = begin, many; o < end; o += many) {
            many = end - o < some ? end - o : some;
            if (rows.count)
                row_of_windows(base + rows.offset[0], o, many, apart);
            else
                for (i64 i = 0; i < many * inner; i += N)
                    L::template put<N>(phases.data() + i, apart, L::template empty<N>());
            put_simply(sink, o * inner, phases.data(), apart, many * inner);
        }
    }
    void row_of_windows(i64 at, i64 first, i64 many, i64 apart) {
        const KeptRow<Lane> row{at + first * inner, phases.data()};
        from.windows(from, windows_from(first, many), &row, 1, apart);
    }
    // Outputs first..first+many-1, as if their row started with the first one.
    RowWindows windows_from(i64 first, i64 many) {
        WholeOutputs whole = whole_outputs(axis, first, first + many);
        if ((whole.stop - whole.first) * inner < N) whole = {first, first};
        windows.grow(many, "windows at the edges of a row");
        Axis::Taps *edge = windows.data();
        for (i64 o = first; o < first + many; ++o) {
            if (o == whole.first) o = whole.stop;
            if (o == first + many) break;
            *edge = axis.taps(o);
            edge++->first -= first;
        }
        return {many,  whole.first - first,   whole.stop - first,  axis.kernel,
                inner, axis.dilation * inner, axis.pad_lo * inner, windows.data()};
    }

    // --- windows along a merged row ---

    // The merged row of outputs begin..end-1, which starts where the window of output `begin` does. Of its cells, those
    // from `first` to `stop` are real.
    struct Span {
        i64 begin, end, origin, cells, first, stop;
    };
    Span span_of(i64 begin, i64 end) const {
        const i64 origin = begin * axis.stride - axis.pad_lo;
        const i64 cells = (end - 1 - begin) * axis.stride + (axis.kernel - 1) * axis.dilation + 1;
        i64 first = origin < 0 ? -origin : 0;
        if (first > cells) first = cells;  // padding may be longer than this part of the row
        i64 stop = axis.length - origin < cells ? axis.length - origin : cells;
        if (stop < first) stop = first;
        return {begin, end, origin, cells, first, stop};
    }
    void merge_row(i64 base, const OutputRow &rows, const Span &span, i64 number) {
        const i64 length = (span.stop - span.first) * inner;
        // A short row is merged beyond its end.
        const bool fill = edges_filled[number] != span.begin || way == Way::WIDEN || length < N;
        row = merged.data() + number * L::PLANES * plane;
        if (fill) fill_empty(0, span.first * inner);
        from.merge(from, base, rows, (span.origin + span.first) * inner, length, row + span.first * inner, plane);
        if (fill) fill_empty(span.stop * inner, span.cells * inner + N);
        edges_filled[number] = span.begin;
    }
    void pool_row(i64 base, const OutputRow &rows, Sink &sink, i64 begin, i64 end) {
        const Span span = span_of(begin, end);
        merge_row(base, rows, span, 0);
        pool_span(rows, sink, span);
    }
    // All outputs of a row, and of `more` rows that follow.
    void pool_rows(i64 base, const OutputRow &rows, Sink &sink, i64 end, i64 more) {
        const Span span = span_of(0, end);
        const i64 last_room = room - more * end * inner;
        for (i64 r = 0; r <= more; ++r) merge_row(base + r * rows.step, rows, span, r);
        for (i64 r = 0; r <= more; ++r) {
            row = merged.data() + r * L::PLANES * plane;
            room = r < more ? 2 * end * inner : last_room;
            pool_span(rows, sink, span);
            sink.over_arrays([&](auto, auto &to) { to += end * inner; });
        }
    }
    // The outputs of a merged row.
    void pool_span(const OutputRow &rows, Sink &sink, const Span &span) {
        const i64 s = axis.stride, d = axis.dilation, k = axis.kernel, begin = span.begin, end = span.end;
        // A padded cell may tie with a real one and must not win. Where no place is left for it that is after all
        // others, the windows at the edges go one by one.
        i64 inner_begin = begin, inner_end = end;
        if (L::TAGGED && !place_of_padding) {
            while (inner_begin < end && (inner_begin - begin) * s < span.first) ++inner_begin;
            while (inner_end > inner_begin && (inner_end - 1 - begin) * s + (k - 1) * d >= span.stop) --inner_end;
        }
        const bool whole = inner_end - inner_begin < end - begin || (span.first == 0 && span.stop == span.cells);
        const bool ordered = !L::TAGGED || (rows.count <= 1 && whole);
        if (inner_begin < inner_end) pool_inside(ordered, sink, begin, inner_begin, inner_end, span.cells);
        for (i64 o = begin; o < inner_begin; ++o) pool_edge(sink, begin, o);
        for (i64 o = inner_end; o < end; ++o) pool_edge(sink, begin, o);
    }

    // The outputs first..end-1 of a row of `cells` cells that starts with the window of output `begin`. `ordered` says
    // that the cells of a window come in row-major order.
    void pool_inside(bool ordered, Sink &sink, i64 begin, i64 first, i64 end, i64 cells) {
        i64 s = axis.stride, d = axis.dilation, k = axis.kernel;
        if (way == Way::ROWS && s == 2 && d == 1 && k <= 3 && inner == 1) return pool_pairs(sink, begin, first, end);
        const Lane *cell = row;
        if (way == Way::WIDEN) {
            if constexpr (WIDENS) Widener<L, N>{l, row, totals.data(), plane, cells, inner, k, d}.widen();
            cell = totals.data();
            cells -= (k - 1) * d;
            k = 1;
        }
        if (way == Way::WIDEN && s > 1 && inner > 1) return copy_places(cell, sink, begin, first, end);
        if (s > 1) {
            for (int q = 0; q < L::PLANES; ++q)
                split_places(cell + q * plane, cells, inner, s, phases.data() + q * phase_plane, phase_length);
            cell = phases.data();
        }
        cell += (first - begin) * inner;
        if (ordered)
            merge_taps<true>(cell, k, sink, first * inner, (end - first) * inner);
        else
            merge_taps<false>(cell, k, sink, first * inner, (end - first) * inner);
    }

    template <bool ORDERED>
    void merge_taps(const Lane *cell, i64 k, Sink &sink, i64 to, i64 length) {
        const int count = written(to, length);
        if (count < N) return merge_taps_into<ORDERED>(cell, k, sink, to, length, count);
        with_simplest_of(
            sink, [&](auto &simple) NDPOOL_INLINED { merge_taps_into<ORDERED>(cell, k, simple, to, length, N); });
    }
    template <bool ORDERED, class To>
    void merge_taps_into(const Lane *cell, i64 k, To &sink, i64 to, i64 length, int count) {
        for (i64 i = 0; i < length; i += N) {
            const i64 at = i + N <= length || length < N ? i : length - N;
            State<N> state = L::template retag<N>(L::template get<N>(cell + at, phase_plane), radix, 0);
            for (i64 c = 1; c < k; ++c) {
                State<N> next = L::template retag<N>(L::template get<N>(cell + shifts[c] + at, phase_plane), radix, c);
                if (ORDERED)
                    l.template merge<N>(state, next);
                else
                    l.template merge_any<N>(state, next);
            }
            sink.template put<N>(to + at, state, count);
        }
    }

    // Windows of up to 3 cells in steps of 2: the first two cells of N windows are the even and the odd ones of 2N
    // cells, and the third is the even one after.
    void pool_pairs(Sink &sink, i64 begin, i64 first, i64 end) {
        const i64 k = axis.kernel;
        const int count = written(first, end - first);
        for (i64 o = first; o < end; o += N) {
            const i64 at = o + N <= end || end - first < N ? o : end - N;
            const Lane *cell = row + 2 * (at - begin);
            State<N> even = L::template get<N>(cell, plane), odd = L::template get<N>(cell + N, plane);
            State<N> state;
            if (k == 3) {
                State<N> third = L::template get<N>(cell + 2, plane), unused = L::template get<N>(cell + 2 + N, plane);
                L::template unzip<N>(even, odd);
                L::template unzip<N>(third, unused);
                state = L::template retag<N>(even, k, 0);
                l.template merge_any<N>(state, L::template retag<N>(odd, k, 1));
                l.template merge_any<N>(state, L::template retag<N>(third, k, 2));
            } else {
                L::template unzip<N>(even, odd);
                state = L::template retag<N>(even, k, 0);
                if (k == 2) l.template merge_any<N>(state, L::template retag<N>(odd, k, 1));
            }
            sink.template put<N>(at, state, count);
        }
    }

    // And up to N - 1 lanes more.
    void fill_empty(i64 begin, i64 end) {
        State<N> empty = L::template empty<N>();
        if (place_of_padding) empty = L::template retag<N>(empty, 0, place_of_padding);
        for (i64 i = begin; i < end; i += N) L::template put<N>(row + i, plane, empty);
    }

    // One window at the edge, of its real cells.
    void pool_edge(Sink &sink, i64 begin, i64 o) {
        if (inner >= N)
            whole_blocks<N>(inner, [&](i64 e) { pool_edge_of<N>(sink, begin, o, e); });
        else
            for (i64 e = 0; e < inner; ++e) pool_edge_of<1>(sink, begin, o, e);
    }
    template <int M>
    void pool_edge_of(Sink &sink, i64 begin, i64 o, i64 e) {
        const Axis::Taps taps = axis.taps(o);
        const i64 first = taps.first - (begin * axis.stride - axis.pad_lo);
        State<M> state{};
        for (i64 k = 0; k < taps.count; ++k) {
            const Lane *cell = row + (first + k * axis.dilation) * inner + e;
            State<M> next = L::template retag<M>(L::template get<M>(cell, plane), axis.kernel, taps.skipped + k);
            if (k == 0)
                state = next;
            else
                l.template merge_any<M>(state, next);
        }
        sink.template put<M>(o * inner + e, state, M);
    }

    // --- places of several elements ---

    // Windows that are done already: every `stride`-th place.
    void copy_places(const Lane *cell, Sink &sink, i64 begin, i64 first, i64 end) {
        const i64 apart = room_for((end - first) * inner, phases);
        const Axis::Taps one{0, 1, 0};
        for (i64 o = first; o < end; ++o) {
            const Lane *place = cell + (o - begin) * axis.stride * inner;
            merge_windows<1, N>(place, one, phases.data() + (o - first) * inner, apart);
        }
        put_lanes(sink, first * inner, phases.data(), apart, (end - first) * inner);
    }

    // Merged rows, then the places of each window.
    void pool_places(i64 base, const OutputRow &rows, Sink &sink, i64 begin, i64 end) {
        const i64 origin = merge_span(base, rows, begin, end), apart = room_for((end - begin) * inner, phases);
        if (SHORT < N && inner <= SHORT)
            merge_places<SHORT>(origin, begin, end, apart);
        else
            merge_places<N>(origin, begin, end, apart);
        put_lanes(sink, begin * inner, phases.data(), apart, (end - begin) * inner);
    }
    // By registers of M lanes, from the merged row, which starts with cell `origin`.
    template <int M>
    void merge_places(i64 origin, i64 begin, i64 end, i64 apart) {
        const WholeOutputs whole = whole_outputs(axis, begin, end);
        constexpr int U = L::HEAVY ? 1 : 4;
        for (i64 o = begin; o < end;) {
            const Axis::Taps taps = axis.taps(o);
            const Lane *cell = merged.data() + (taps.first - origin) * inner;
            Lane *to = phases.data() + (o - begin) * inner;
            if (U > 1 && o >= whole.first && o + U <= whole.stop)
                merge_windows<U, M>(cell, taps, to, apart), o += U;
            else
                merge_windows<1, M>(cell, taps, to, apart), ++o;
        }
    }
    // U windows that follow each other, side by side. A place that is shorter than a register is written over by the
    // next one.
    template <int U, int M>
    NDPOOL_INLINE void merge_windows(const Lane *first, const Axis::Taps &taps, Lane *to, i64 apart) {
        const i64 step = axis.dilation * inner, next_window = axis.stride * inner;
        for (i64 i = 0; i < inner; i += M) {
            const i64 at = i + M <= inner || inner < M ? i : inner - M;
            const Lane *cell = first + at;
            auto get = [&](i64 c, int u) NDPOOL_INLINED {
                return L::template retag<M>(L::template get<M>(cell + c * step + u * next_window, plane), radix,
                                            taps.skipped + c);
            };
            State<M> state[U];
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) state[u] = taps.count ? get(0, u) : L::template empty<M>();
            for (i64 c = 1; c < taps.count; ++c) {
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u) l.template merge_any<M>(state[u], get(c, u));
            }
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) L::template put<M>(to + u * inner + at, apart, state[u]);
        }
    }

    // All cells of each window, straight from the input.
    void pool_cells(i64 base, const OutputRow &rows, Sink &sink, i64 begin, i64 end) {
        const i64 length = (end - begin) * inner, apart = room_for(length, phases);
        from.merge_places(from, base, rows, axis, inner, begin, end, phases.data(), apart);
        put_lanes(sink, begin * inner, phases.data(), apart, length);
    }

    // --- windows that hardly overlap ---

    void pool_segments(i64 base, const OutputRow &rows, Sink &sink, i64 begin, i64 end, i64 more) {
        const bool from_memory = rows.count == 1 && axis.dilation == 1;
        const int together = from_memory ? 1 : windows_together<L>(axis);
        const i64 outputs = end - begin, apart = room_for((more + 1) * outputs, phases);
        i64 origin = 0;
        if (!from_memory) {
            list_windows(begin, end);
            for (i64 r = 0; r <= more; ++r) origin = merge_span(base + r * rows.step, rows, begin, end, r);
        }
        if (together == 8)
            reduce_together<8>(origin, begin, end, more + 1, apart);
        else if (together == 4)
            reduce_together<4>(origin, begin, end, more + 1, apart);
        else
            for (i64 r = 0; r <= more; ++r) {
                Lane *to = phases.data() + r * outputs;
                if (from_memory)
                    from.reduce_row(from, base + r * rows.step + rows.offset[0], rows.tag[0], axis, begin, end, to,
                                    apart);
                else
                    for (i64 o = begin; o < end; ++o)
                        L::template put<1>(to++, apart, reduced(row_of(r) + (window(o).first - origin), window(o)));
            }
        const i64 last_room = room - more * end;
        for (i64 r = 0; r <= more; ++r) {
            room = r < more ? 2 * end : last_room;
            put_lanes(sink, begin, phases.data() + r * outputs, apart, outputs);
            if (more) sink.over_arrays([&](auto, auto &to) { to += end; });
        }
    }
    // Of all outputs of the row, if they are not too many.
    void list_windows(i64 begin, i64 end) {
        const bool all = axis.output <= 1 << 12;
        if (listed == (all ? 0 : begin)) return;
        listed = all ? 0 : begin;
        const i64 stop = all ? axis.output : end;
        windows.grow(stop - listed, "windows of a row");
        for (i64 o = listed; o < stop; ++o) windows[o - listed] = axis.taps(o);
    }
    const Axis::Taps &window(i64 o) const { return windows[o - listed]; }
    Lane *row_of(i64 number) const { return merged.data() + number * L::PLANES * plane; }

    // The windows of some merged rows, which start with cell `origin`.
    template <int M>
    void reduce_together(i64 origin, i64 begin, i64 end, i64 rows, i64 apart) {
        if constexpr (overlaps<L>() && !L::HEAVY && M <= N) {
            const Together<L, M> together{l, axis.kernel, plane};
            State<M> states[M];
            i64 many = 0;
            Lane *to = phases.data();
            auto fold = [&] {
                L::template put<M>(to, apart, together.fold(states, many));
                to += many, many = 0;
            };
            for (i64 r = 0; r < rows; ++r) {
                const Lane *cells = row_of(r) - origin;
                for (i64 o = begin; o < end; ++o) {
                    const Axis::Taps &taps = window(o);
                    states[many++] = together.in_register(cells + taps.first, taps);
                    if (many == M) fold();
                }
            }
            if (many) fold();
        }
    }
    // One window of a merged row.
    State<1> reduced(const Lane *cell, const Axis::Taps &taps) const {
        if (taps.count == 0) return L::template empty<1>();
        if (axis.dilation == 1) {
            auto cells = [&](auto size, i64 k)
                             NDPOOL_INLINED { return L::template get<decltype(size)::value>(cell + k, plane); };
            return reduce(l, cells, taps.count, axis.kernel, taps.skipped);
        }
        State<1> state = L::template retag<1>(L::template get<1>(cell, plane), axis.kernel, taps.skipped);
        for (i64 k = 1; k < taps.count; ++k)
            l.template merge_any<1>(state, L::template retag<1>(L::template get<1>(cell + k * axis.dilation, plane),
                                                                axis.kernel, taps.skipped + k));
        return state;
    }

    // Merges all real cells of the windows begin..end-1 along the row, the number-th of some; says which is the first.
    i64 merge_span(i64 base, const OutputRow &rows, i64 begin, i64 end, i64 number = 0) {
        const Axis::Taps last = axis.taps(end - 1);
        i64 origin = axis.start(begin);
        i64 stop =
            axis.adaptive ? last.first + last.count : axis.start(end - 1) + axis.dilation * (axis.kernel - 1) + 1;
        if (origin < 0) origin = 0;
        if (origin > axis.length) origin = axis.length;
        if (stop > axis.length) stop = axis.length;
        const i64 length = stop > origin ? (stop - origin) * inner : 0;
        plane = room_for(length, merged, most_rows);
        from.merge(from, base, rows, origin * inner, length, row_of(number), plane);
        return origin;
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
