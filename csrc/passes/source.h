// Cells of any type, handed on as lanes.
//
// The type of the cells ends here: a RowSource reads them, and what comes after it knows lanes alone. So the passes are
// compiled once for each type of lanes, and not for each type of cells.
#pragma once
#include <limits>

#include "passes/segments.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Whether the first axis of a kind can go by itself: no place in the window is kept, and merging is cheap.
template <class P>
constexpr bool SLIDES = LEVEL_IS_TUNED && !P::TAGGED && !P::HEAVY && !columns_first<P>();

// Whether the windows along each row can be kept for all windows that see the row.
template <class L>
constexpr bool KEEPS = LEVEL_IS_TUNED && !L::HEAVY && !columns_first<L>();

// The windows in steps of one along a row, whose places have `inner` elements: those from `first` to `stop` are whole,
// and fill a register at least, if there are any. The others see the cells that `edges` list.
struct RowWindows {
    i64 outputs, first, stop, kernel, inner;
    i64 step, before;  // elements from cell to cell, and those of the padding before the row
    const Axis::Taps *edges;
};

// A row whose first cell is at element `at`, and where the windows along it go; there is room for a register more.
template <class Lane>
struct KeptRow {
    i64 at;
    Lane *to;
};

// An array of cells, of which the passes know lanes alone.
template <class L>
struct RowSource {
    using Lane = typename L::Lane;
    const void *kind, *x;
    i64 elements;

    // Merges `length` elements of all rows, from element `begin` of each, into States at `to`; `base` is where the rows
    // start.
    void (*merge)(const RowSource &, i64 base, const OutputRow &, i64 begin, i64 length, Lane *to, i64 plane);
    // Reduces the windows begin..end-1 along a row, which has tag `row` and whose first cell is at element `at`, into
    // States side by side at `to`, which has room for a register more. Cells lie side by side, without dilation.
    void (*reduce_row)(const RowSource &, i64 at, i64 row, const Axis &, i64 begin, i64 end, Lane *to, i64 plane);
    // Merges all cells of the windows begin..end-1 along the last axis, for every element of a place, into States side
    // by side at `to`, which has room for a register more.
    void (*merge_places)(const RowSource &, i64 base, const OutputRow &, const Axis &, i64 inner, i64 begin, i64 end,
                         Lane *to, i64 plane);
    // All windows in steps of one along each of `many` rows, as States side by side. Places count along the row alone.
    // Of kinds that keep them.
    void (*windows)(const RowSource &, const RowWindows &, const KeptRow<Lane> *rows, i64 many, i64 plane);
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
    static void reduce_row(const Source &from, i64 at, i64 row, const Axis &axis, i64 begin, i64 end, Lane *to,
                           i64 plane) {
        // Sums with errors are folded together where they have a register of cells, and others where they do not end so
        // soon that to put them down and to take them up again takes as long.
        constexpr int M = WIDENS_FLOATS<P> ? WIDENED : N;
        constexpr i64 LEAST = P::PLANES > 1 ? M : std::is_integral_v<Lane> ? 128 : 64;
        if constexpr (adds_up<L>() && !P::HEAVY)
            if (axis.kernel >= LEAST) return reduce_together<M>(from, at, row, axis, begin, end, to, plane);
        const P own = kind(from);
        const In *x = cell(from, at);
        for (i64 o = begin; o < end; ++o) L::template put<1>(to++, plane, reduced<M>(own, x, axis, o, row));
    }
    static void merge_places(const Source &from, i64 base, const OutputRow &rows, const Axis &axis, i64 inner,
                             i64 begin, i64 end, Lane *to, i64 plane) {
        const P own = kind(from);
        const In *x = cell(from, base), *beyond = cell(from, from.elements);
        const i64 step = axis.dilation * inner, furthest = rows.count ? rows.offset[rows.count - 1] : 0;
        const WholeOutputs whole = rows.count ? whole_outputs(axis, begin, end) : WholeOutputs{0, 0};
        for (i64 o = begin; o < end; ++o, to += inner) {
            const Axis::Taps taps = axis.taps(o);
            const Place place{x + taps.first * inner, rows, axis.kernel, taps, step};
            const In *last = place.x + furthest + (taps.count - 1) * step;
            const i64 shortest_run = inner < N ? 8 * N : !P::TAGGED && inner <= 4 * N ? 64 * N : NO_RUN;
            if (axis.dilation == 1 && rows.count && taps.count * inner >= shortest_run) {
                merge_runs(own, place, inner, to, plane);
                continue;
            }
            // Several windows at a time where places are short, or else several registers of a place.
            constexpr int U = P::HEAVY ? 1 : 4;
            const bool together = U > 1 && inner < U * N && o >= whole.first && o + U <= whole.stop &&
                                  (inner >= N || beyond - (last + (U - 1) * axis.stride * inner) >= N);
            const Registers across = together ? Registers{axis.stride * inner, 1, 0, inner} : Registers{N, 1, 0, N};
            // Of a long window, every fourth cell, so that none waits for the other.
            const bool in_quarters = U > 1 && !together && inner < U * N && taps.count >= 16;
            // Whether a register may be read at every cell of a place that is shorter.
            const bool can_read = inner >= N || beyond - last >= N;
            // Of a long sum, twice as many registers of a place: memory is read in longer stretches.
            const bool is_long = adds_up<L>() && U > 1 && !together && rows.count * taps.count >= 8;
            for (i64 i = 0; i < inner;) {
                if (inner - i < N && inner >= N) i = inner - N;  // the last block overlaps its neighbour
                if (rows.count == 0 || taps.count == 0)
                    L::template put<N>(to + i, plane, L::template empty<N>());
                else if (!can_read)
                    merge_some(own, place, static_cast<int>(inner), to, plane);
                else if (is_long && inner - i >= 2 * U * N)
                    merge_all<2 * U>(own, place, i, across, to + i, plane), i += (2 * U - 1) * N;
                else if (U > 1 && (together || inner - i >= U * N))
                    merge_all<U>(own, place, i, across, to + i, plane), i += together ? 0 : (U - 1) * N;
                else if (in_quarters)
                    merge_quarters<U>(own, place, i, to + i, plane);
                else
                    merge_all<1>(own, place, i, across, to + i, plane);
                i += N;
            }
            if (together) o += U - 1, to += (U - 1) * inner;
        }
    }

    static void windows(const Source &from, const RowWindows &rows, const KeptRow<Lane> *row, i64 many, i64 plane) {
        if constexpr (KEEPS<L>) {
            const P own = kind(from);
            const RowWindows by = rows;  // copies, which no store can change
            const In *beyond = cell(from, from.elements);
            // Of 2 or 3 cells, or of so many.
            auto all = [&](auto cells) NDPOOL_INLINED {
                for (i64 r = 0; r < many; ++r)
                    windows_of<decltype(cells)::value>(own, cell(from, row[r].at), beyond, by, row[r].to, plane);
            };
            by.kernel == 2 ? all(Size<2>()) : by.kernel == 3 ? all(Size<3>()) : all(Size<0>());
        }
    }

  private:
    static constexpr i64 NO_RUN = std::numeric_limits<i64>::max();

    // Those of one row, of K cells, or of as many as the kernel says.
    template <int K>
    NDPOOL_INLINE static void windows_of(const P &own, const In *x, const In *beyond, const RowWindows &by, Lane *to,
                                         i64 plane) {
        const i64 length = (by.stop - by.first) * by.inner, kernel = K ? K : by.kernel;
        const In *first = x + by.first * by.inner - by.before;
        Lane *out = to + by.first * by.inner;
        auto block = [&](auto registers, i64 i) NDPOOL_INLINED {
            constexpr int U = decltype(registers)::value;
            typename P::template State<N> state[U];
            const In *p = first + i;
            prefetch<U * N>(p);
            NDPOOL_UNROLL_ALL
            for (int u = 0; u < U; ++u) state[u] = own.template lift<N>(p + u * N, 0);
            for (i64 k = 1; k < kernel; ++k) {
                p += by.step;
                NDPOOL_UNROLL_ALL
                for (int u = 0; u < U; ++u) own.template merge<N>(state[u], own.template lift<N>(p + u * N, k));
            }
            NDPOOL_UNROLL_ALL
            for (int u = 0; u < U; ++u) L::template put<N>(out + i + u * N, plane, state[u]);
        };
        for (i64 o = 0; o < by.first; ++o) window_at_edge(own, x, beyond, by, o, by.edges[o], to, plane);
        i64 i = 0;
        for (; i + 4 * N <= length; i += 4 * N) block(Size<4>(), i);
        for (; i < length; i += N) block(Size<1>(), i + N <= length ? i : length - N);
        for (i64 o = by.stop; o < by.outputs; ++o)
            window_at_edge(own, x, beyond, by, o, by.edges[o - by.stop + by.first], to, plane);
    }
    // One window of a row in steps of one, of its real cells, for every element of a place. In whole registers, if so
    // much can be read: what is written beyond the place is written again later, or not read.
    NDPOOL_INLINE static void window_at_edge(const P &own, const In *x, const In *beyond, const RowWindows &by,
                                             i64 output, const Axis::Taps &taps, Lane *to, i64 plane) {
        const In *first = x + taps.first * by.inner, *last = first + (taps.count - 1) * by.step;
        auto some = [&](auto size, i64 e) NDPOOL_INLINED {
            constexpr int M = decltype(size)::value;
            typename P::template State<M> state = L::template empty<M>();
            if (taps.count) state = own.template lift<M>(first + e, taps.skipped);
            for (i64 k = 1; k < taps.count; ++k)
                own.template merge<M>(state, own.template lift<M>(first + e + k * by.step, taps.skipped + k));
            L::template put<M>(to + output * by.inner + e, plane, state);
        };
        if (by.inner >= N)
            whole_blocks<N>(by.inner, [&](i64 e) NDPOOL_INLINED { some(Size<N>(), e); });
        else if (!taps.count || beyond - last >= N)
            some(Size<N>(), 0);
        else
            for (i64 e = 0; e < by.inner; ++e) some(Size<1>(), e);
    }
    // One window of a row that starts at x.
    template <int M>
    NDPOOL_INLINE static typename L::template State<1> reduced(const P &own, const In *x, const Axis &axis, i64 output,
                                                               i64 row) {
        const Axis::Taps taps = axis.taps(output);
        if (taps.count == 0) return L::template empty<1>();
        x += taps.first;
        if constexpr (P::TAGGED)
            if (taps.count >= 8 * N) {
                const i64 first = first_best(own, x, taps.count);
                return L::template retag<1>(own.template lift<1>(x + first, row), axis.kernel, taps.skipped + first);
            }
        auto cells = [&](auto size, i64 k)
                         NDPOOL_INLINED { return own.template lift<decltype(size)::value>(x + k, row); };
        return reduce_by<M>(own.lanes(), cells, taps.count, axis.kernel, taps.skipped);
    }
    // The windows of a row as registers, and M of these as one.
    template <int M>
    static void reduce_together(const Source &from, i64 at, i64 row, const Axis &its_axis, i64 begin, i64 end, Lane *to,
                                i64 plane) {
        const P own = kind(from);
        const Axis axis = its_axis;  // a copy, too
        const auto l = own.lanes();
        typename L::template State<M> states[M];
        i64 many = 0;
        auto fold_states = [&] {
            if (many) L::template put<M>(to, plane, (Together<L, M>{l, 1, 0}.fold(states, many)));
            to += many, many = 0;
        };
        for (i64 o = begin; o < end; ++o) {
            const Axis::Taps taps = axis.taps(o);
            if (taps.count < M) {
                fold_states();
                L::template put<1>(to++, plane, reduced<M>(own, cell(from, at), axis, o, row));
                continue;
            }
            const In *x = cell(from, at + taps.first);
            auto cells = [&](auto size, i64 k)
                             NDPOOL_INLINED { return own.template lift<decltype(size)::value>(x + k, row); };
            i64 done;
            states[many++] = reduce_to_register<M>(l, cells, taps.count, &done);
            if (many == M) fold_states();
        }
        fold_states();
    }
    // Which of `count` cells side by side, at least a register, is the first of the best: the best value of one chunk
    // after the other, without its place, and then the place in the chunk that had it.
    static i64 first_best(const P &own, const In *x, i64 count) {
        constexpr i64 CHUNK = 64 * N;
        auto key = [&](i64 i) NDPOOL_INLINED { return own.key.template in<N>(x + i); };
        vec<Lane, 1> best{};
        i64 best_chunk = 0, best_length = 0;
        for (i64 begin = 0; begin < count; begin += CHUNK) {
            // The last chunk is a register at least, and overlaps its neighbour where it would be less.
            const i64 at = count - begin < N ? count - N : begin, length = count - at < CHUNK ? count - at : CHUNK;
            const vec<Lane, 1> value = best_of(length, [&](i64 i) NDPOOL_INLINED { return key(at + i); });
            if (begin == 0 || P::template beats<1>(value, best)[0]) best = value, best_chunk = at, best_length = length;
        }
        const vec<Lane, N> all = splat<Lane, N>(best[0]);
        for (i64 i = best_chunk;; i += N) {
            const i64 at = i + N <= best_chunk + best_length ? i : best_chunk + best_length - N;
            const auto found = P::template equals_best<N>(key(at), all);
            for (int l = 0; l < N; ++l)
                if (found[l]) return at + l;
        }
    }
    // The best of `length` cells, a register at least; cells(i) are those from the i-th on.
    template <class F>
    NDPOOL_INLINE static vec<Lane, 1> best_of(i64 length, const F &cells) {
        constexpr int U = 4;
        vec<Lane, N> best[U];
        for (int u = 0; u < U; ++u) best[u] = cells(0);
        i64 i = 0;
        for (; i + U * N <= length; i += U * N) {
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) best[u] = P::template best<N>(best[u], cells(i + u * N));
        }
        for (; i + N <= length; i += N) best[0] = P::template best<N>(best[0], cells(i));
        if (i < length) best[1] = P::template best<N>(best[1], cells(length - N));
        for (int u = 1; u < U; ++u) best[0] = P::template best<N>(best[0], best[u]);
        vec<Lane, 1> one{best[0][0]};
        for (int l = 1; l < N; ++l) one = P::template best<1>(one, vec<Lane, 1>{best[0][l]});
        return one;
    }

    // The cells of one window: the first in each row is at x + offset, and they are `step` elements apart.
    struct Place {
        const In *x;
        const OutputRow &rows;
        i64 kernel;
        const Axis::Taps &taps;
        i64 step;

        // Calls f(cell, tag, number) for the cells of each row in turn; the first has number 0, and no other has.
        template <class F>
        NDPOOL_INLINE void over_cells(const F &f) const {
            for (i64 r = 0; r < rows.count; ++r) {
                const In *p = x + rows.offset[r];
                const i64 tag = rows.tag[r] * kernel + taps.skipped;
                for (i64 k = 0; k < taps.count; ++k, p += step) f(p, tag + k, r + k);
            }
        }
    };

    // Several registers at a time: how far apart they are, by how much the tag grows from cell to cell and from
    // register to register, and how far apart their results are.
    struct Registers {
        i64 apart, tag_step, tag_apart, to_apart;
    };

    // U registers of every cell, from element i of each place on. Of windows that follow each other, a place that is
    // shorter than a register is written over by the next.
    template <int U>
    NDPOOL_INLINE static void merge_all(const P &kind, const Place &place, i64 i, const Registers &across, Lane *to,
                                        i64 plane) {
        // As so many registers that a short window does not pay for it.
        if constexpr (WIDENS_FLOATS<P> && N > WIDENED && U == 4)
            if (place.rows.count * place.taps.count >= 64)
                return merge_all_by<U, WIDENED>(kind, place, i, across, to, plane);
        merge_all_by<U, N>(kind, place, i, across, to, plane);
    }
    template <int U, int M>
    __attribute__((noinline)) static void merge_all_by(const P &kind, const Place &place, i64 i,
                                                       const Registers &across, Lane *to, i64 plane) {
        const P own = kind;
        const Registers by = across;  // copies, which no store can change
        constexpr int EACH = N / M, ALL = U * EACH;
        typename P::template State<M> state[ALL];
        auto lift = [&](const In *p, i64 tag, int u) NDPOOL_INLINED {
            return own.template lift<M>(p + i + u / EACH * by.apart + u % EACH * M, tag + u / EACH * by.tag_apart);
        };
        auto merge = [&](auto &to, const auto &next) NDPOOL_INLINED {
            if constexpr (M < N)
                P::template merge_beside<M>(to, next);
            else
                own.template merge<M>(to, next);
        };
        const i64 count = place.taps.count, step = place.step;
        [[maybe_unused]] const bool side_by_side = in_pairs<P>() && by.apart == N;
        for (i64 r = 0; r < place.rows.count; ++r) {
            const In *p = place.x + place.rows.offset[r];
            // What is read next: the same cells of the next row.
            const std::uintptr_t next = reinterpret_cast<std::uintptr_t>(
                r + 1 < place.rows.count ? place.x + place.rows.offset[r + 1] : p + PREFETCHED / sizeof(In));
            const std::uintptr_t ahead = next - reinterpret_cast<std::uintptr_t>(p);
            i64 tag = place.rows.tag[r] * place.kernel + place.taps.skipped, k = 0;
            if constexpr (in_pairs<P>() && U > 1)
                if (side_by_side) {
                    for (; k < count; ++k, p += step) {
                        prefetch<U * N>(p + i, ahead);
                        merge_next<U, N>(own, p + i, tag, r + k == 0, state);
                    }
                    continue;
                }
            if (r == 0) {
                NDPOOL_UNROLL_ALL
                for (int u = 0; u < ALL; ++u) state[u] = lift(p, tag, u);
                k = 1, p += step, tag += by.tag_step;
            }
            auto merge_cells = [&](const auto &ask) NDPOOL_INLINED {
                for (; k < count; ++k, p += step, tag += by.tag_step) {
                    ask(p + i);
                    NDPOOL_UNROLL_ALL
                    for (int u = 0; u < ALL; ++u) merge(state[u], lift(p, tag, u));
                }
            };
            if (U == 1 || by.apart == N)
                merge_cells([&](const In *cell) NDPOOL_INLINED { prefetch<U * N>(cell, ahead); });
            else
                merge_cells([&](const In *cell) NDPOOL_INLINED {
                    NDPOOL_UNROLL
                    for (int u = 0; u < U; ++u) prefetch<N>(cell + u * by.apart, ahead);
                });
        }
        if constexpr (in_pairs<P>())
            if (side_by_side) zip_pairs<U, N, P>(state);
        NDPOOL_UNROLL_ALL
        for (int u = 0; u < ALL; ++u) L::template put<M>(to + u / EACH * by.to_apart + u % EACH * M, plane, state[u]);
    }

    // One register of every cell: as many windows in one as there are registers, each of every U-th cell, and the cells
    // that are left.
    template <int U>
    static void merge_quarters(const P &own, const Place &place, i64 i, Lane *to, i64 plane) {
        const Axis::Taps &taps = place.taps;
        const i64 many = taps.count / U, left = taps.count % U;
        const Axis::Taps quarter{taps.first, many, taps.skipped}, rest{taps.first, left, taps.skipped + U * many};
        Lane lanes[L::PLANES * (U + 1) * N];
        constexpr i64 apart = (U + 1) * N;
        merge_all<U>(own, {place.x, place.rows, place.kernel, quarter, U * place.step}, i, {place.step, U, 1, N}, lanes,
                     apart);
        if (left)
            merge_all<1>(own, {place.x + U * many * place.step, place.rows, place.kernel, rest, place.step}, i,
                         {N, 1, 0, N}, lanes + U * N, apart);
        const auto l = own.lanes();
        auto state = L::template get<N>(lanes, apart);
        for (int u = 1; u < U + (left > 0); ++u)
            l.template merge_any<N>(state, L::template get<N>(lanes + u * N, apart));
        L::template put<N>(to, plane, state);
    }

    // Long windows over places shorter than a register: a row's cells lie side by side, and whole registers of them are
    // merged. After so many registers that places start where the first one does, it is the turn of the first again.
    static void merge_runs(const P &own, const Place &place, i64 inner, Lane *to, i64 plane) {
        i64 registers = 4;
        while (registers * N % inner) ++registers;
        const i64 length = place.taps.count * inner, period = registers * N, places = period / inner;
        const Scratch<Lane> block(L::PLANES * period, "cells of a long window");
        Lane *turn = block.data();
        // Places are counted by whole periods, and what is left over is the same for all cells of a lane.
        auto merge = [&](auto size, const In *p, i64 tag, i64 at, bool first) NDPOOL_INLINED {
            constexpr int M = decltype(size)::value;
            const auto next = own.template lift<M>(p, tag);
            if (first) return L::template put<M>(turn + at, period, next);
            auto state = L::template get<M>(turn + at, period);
            own.lanes().template merge_any<M>(state, next);
            L::template put<M>(turn + at, period, state);
        };
        for (i64 r = 0; r < place.rows.count; ++r) {
            const In *p = place.x + place.rows.offset[r];
            i64 tag = place.rows.tag[r] * place.kernel + place.taps.skipped, i = 0;
            auto whole_periods = [&](auto count) NDPOOL_INLINED {
                i = merge_periods<decltype(count)::value>(own, p, length, tag, places, r == 0, turn);
                tag += i / period * places;
            };
            if (registers == 4)
                whole_periods(Size<4>());
            else if (registers == 6)  // of three channels
                whole_periods(Size<6>());
            for (; i + period <= length; i += period, tag += places)
                for (i64 at = 0; at < period; at += N) {
                    prefetch<N>(p + i + at);
                    merge(Size<N>(), p + i + at, tag, at, r + i == 0);
                }
            i64 at = 0;
            for (; i + N <= length; i += N, at += N) merge(Size<N>(), p + i, tag, at, r + i - at == 0);
            for (; i < length; ++i, ++at) merge(Size<1>(), p + i, tag, at, r + i - at == 0);
        }
        const i64 filled = length < period ? length : period;
        for (i64 e = 0; e < inner; ++e) {
            auto state = L::template get<1>(turn + e, period);
            for (i64 at = e + inner; at < filled; at += inner)
                own.lanes().template merge_any<1>(
                    state, L::template retag<1>(L::template get<1>(turn + at, period), 1, at / inner));
            L::template put<1>(to + e, plane, state);
        }
    }

    // The whole periods of a row, each of R registers, into what these have at `turn`; of the first row, in its place.
    // Says how many elements that are. Tags grow by `places` from period to period.
    template <int R>
    static i64 merge_periods(const P &own, const In *p, i64 length, i64 tag, i64 places, bool first, Lane *turn) {
        constexpr i64 PERIOD = R * N;
        if (length < PERIOD) return 0;
        const auto l = own.lanes();
        typename L::template State<N> state[R];
        i64 i = 0;
        NDPOOL_UNROLL_ALL
        for (int u = 0; u < R; ++u)
            if (first)
                state[u] = own.template lift<N>(p + u * N, tag);
            else
                state[u] = L::template get<N>(turn + u * N, PERIOD);
        if (first) i = PERIOD, tag += places;
        for (; i + PERIOD <= length; i += PERIOD, tag += places) {
            prefetch<PERIOD>(p + i);
            NDPOOL_UNROLL_ALL
            for (int u = 0; u < R; ++u) l.template merge_any<N>(state[u], own.template lift<N>(p + i + u * N, tag));
        }
        NDPOOL_UNROLL_ALL
        for (int u = 0; u < R; ++u) L::template put<N>(turn + u * N, PERIOD, state[u]);
        return i;
    }

    // Places of `count` < N elements at the end of the array, after which nothing may be read.
    static void merge_some(const P &own, const Place &place, int count, Lane *to, i64 plane) {
        typename P::template State<N> state;
        place.over_cells([&](const In *p, i64 tag, i64 number) {
            auto next = lift_some<N>(own, p, tag, count);
            if (number == 0)
                state = next;
            else
                own.template merge<N>(state, next);
        });
        L::template put<N>(to, plane, state);
    }
};

template <class P>
RowSource<typename P::Lanes> source_of(const P &p, const typename P::In *x, i64 elements) {
    using C = Cells<P>;
    return {&p, x, elements, C::merge, C::reduce_row, C::merge_places, C::windows};
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
