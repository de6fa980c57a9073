// The commonest windows, of 2 or 3 cells in steps of 2, in registers: rows are merged and pooled along themselves at
// once.
#pragma once
#include "passes/along.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// As many rows as windows of two axes mostly see, in one place that no store can change.
template <int R>
struct FewRows {
    static constexpr i64 count = R;
    i64 offset[R], tag[R];

    NDPOOL_INLINE explicit FewRows(const OutputRow &rows) {
        NDPOOL_UNROLL
        for (int r = 0; r < R; ++r) offset[r] = rows.offset[r], tag[r] = rows.tag[r];
    }
    template <class T>
    static constexpr std::uintptr_t ahead_of(const T *) {
        return PREFETCHED;
    }
};

// Pools rows of outputs, N at a time.
template <class P, class Sink, int N>
class DirectPooler {
    using In = typename P::In;
    template <int M>
    using State = typename P::template State<M>;

  public:
    DirectPooler(const Plan &plan, const P &p, const In *x)
        : axis(plan.last()), p(p), x(x), direct(direct_outputs(plan.last())) {}

    // How many rows, of at most `most`, are best pooled at a time: those that see the same, as little is done for each.
    i64 rows_at_a_time(const OutputRow &rows, const Sink &sink, i64 most) const {
        if (sink.finishes()) return 1;
        return rows.ahead + 1 < most ? rows.ahead + 1 : most;
    }

    // The outputs begin..end-1 of a row, and of `more` rows that follow; `base` is where its rows start in the array.
    void pool(i64 base, const OutputRow &rows, Sink &sink, i64 begin, i64 end, i64, i64 more) {
        if (axis.kernel == 2)
            pool_rows<2>(x + base, rows, sink, begin, end, more);
        else
            pool_rows<3>(x + base, rows, sink, begin, end, more);
    }

  private:
    const Axis &axis;
    const P &p;
    const In *x;
    const DirectOutputs direct;

    template <int K>
    void pool_rows(const In *x, const OutputRow &rows, Sink &sink, i64 begin, i64 end, i64 more) {
        i64 first = direct.first < begin ? begin : direct.first, stop = direct.stop > end ? end : direct.stop;
        if (stop - first < N || rows.count == 0) first = stop = end;
        if (begin < first || stop < end) {
            Sink to = sink;
            for (i64 row = 0; row <= more; ++row, next_row(to)) {
                for (i64 o = begin; o < first; ++o) pool_one(x + row * rows.step, rows, to, o);
                for (i64 o = stop; o < end; ++o) pool_one(x + row * rows.step, rows, to, o);
            }
        }
        if (first == end) return;
        auto few = [&](const auto &own) NDPOOL_INLINED {
            with_simplest(sink, [&](const auto &simple)
                                    NDPOOL_INLINED { pool_blocks<K>(x, own, simple, first, stop, more, rows.step); });
        };
        if (rows.count == K) return few(FewRows<K>(rows));
        if constexpr (K == 3)
            if (rows.count == 2) return few(FewRows<2>(rows));  // at an edge
        pool_blocks<K>(x, rows, sink, first, stop, more, rows.step);
    }
    template <class To>
    NDPOOL_INLINE void next_row(To &to) const {
        to.over_arrays([&](auto *, auto *&row) { row += axis.output; });
    }
    template <int K, class Rows, class Simple>
    NDPOOL_INLINE void pool_blocks(const In *x, const Rows &rows, const Simple &sink, i64 first, i64 stop, i64 more,
                                   i64 step) {
        // Copies, which no store can change.
        const P own = p;
        Simple to = sink;
        i64 row = 0;
        if constexpr (std::is_same_v<Rows, FewRows<3>> && WIDENS_FLOATS<P> && !std::is_same_v<Simple, Sink>)
            if (rows.offset[2] == rows.offset[0] + step)
                for (; row < more; row += 2, x += 2 * step, next_row(to), next_row(to))
                    pool_some_rows<2>(own, x, rows, step, to, first, stop);
        for (; row <= more; ++row, x += step, next_row(to)) pool_row_of_blocks<K>(own, x, rows, to, first, stop);
    }
    // The last two cells of N windows are the even and the odd ones of 2N cells; the first of three is the odd one
    // before.
    template <int K, class Rows, class To>
    NDPOOL_INLINE void pool_row_of_blocks(const P &own, const In *x, const Rows &rows, To &to, i64 first, i64 stop) {
        const i64 shift = K - 2 - axis.pad_lo;
        State<N> before;
        for (i64 o = first; o < stop; o += N) {
            bool jump = o == first || o + N > stop;  // the last block overlaps its neighbour
            i64 at = o + N > stop ? stop - N : o;
            if (K == 3 && jump) before = cell_before(x, rows, 2 * at - axis.pad_lo);
            State<N> pair[2];
            merge_even_and_odd<N>(own, x, rows, 2 * at + shift, pair);
            State<N> state = P::template retag<N>(pair[0], K, K - 2);
            if constexpr (K == 3 && columns_first<P>()) {
                state = P::template shift_in<N>(before, pair[1]);
                own.template merge<N>(state, pair[0]);
                own.template merge<N>(state, pair[1]);
            } else {
                own.template merge_any<N>(state, P::template retag<N>(pair[1], K, K - 1));
                if (K == 3) {
                    State<N> cell = P::template shift_in<N>(before, pair[1]);
                    own.template merge_any<N>(state, P::template retag<N>(cell, K, 0));
                }
            }
            if (K == 3) before = pair[1];
            to.template put<N>(at, state, N);
        }
    }

    // The same of windows of three cells, for R rows of outputs whose windows start `step` elements apart: a row of
    // cells that two of them see is widened once.
    template <int R, class Rows, class To>
    NDPOOL_INLINE void pool_some_rows(const P &own, const In *x, const Rows &rows, i64 step, const To &to, i64 first,
                                      i64 stop) {
        const In *const cells = x + 1 - axis.pad_lo, *const top = cells + rows.offset[0];
        const i64 beside = rows.offset[1] - rows.offset[0], next = axis.output;
        State<N> before[R];
        auto start = [&](i64 at) NDPOOL_INLINED {
            NDPOOL_UNROLL
            for (int r = 0; r < R; ++r) before[r] = cell_before(x + r * step, rows, 2 * at - axis.pad_lo);
        };
        auto block = [&](i64 at) NDPOOL_INLINED {
            const In *above_it = top + 2 * at;
            State<N> above[2] = {own.template lift<N>(above_it, 0), own.template lift<N>(above_it + N, 0)};
            NDPOOL_UNROLL
            for (int r = 0; r < R; ++r) {
                State<N> pair[2], below[2];
                lift_pair(own, above_it + beside, pair);
                above_it += step;
                lift_pair(own, above_it, below);
                NDPOOL_UNROLL
                for (int half = 0; half < 2; ++half) {
                    P::template merge_beside<N>(pair[half], above[half]);
                    P::template merge_beside<N>(pair[half], below[half]);
                    above[half] = below[half];
                }
                P::template unzip<N>(pair[0], pair[1]);
                P::template merge_beside<N>(pair[0], pair[1]);
                P::template merge<N>(pair[0], P::template shift_in<N>(before[r], pair[1]));
                before[r] = pair[1];
                to.template put<N>(r * next + at, pair[0], N);
            }
        };
        start(first);
        i64 o = first;
        for (; o + N <= stop; o += N) block(o);
        if (o < stop) start(stop - N), block(stop - N);
    }
    NDPOOL_INLINE static void lift_pair(const P &own, const In *cells, State<N> (&pair)[2]) {
        prefetch<2 * N>(cells);
        pair[0] = own.template lift<N>(cells, 0), pair[1] = own.template lift<N>(cells + N, 0);
    }

    // One cell of all rows, merged, in the last lane. A padded cell may tie with a real one, and must not win. Its
    // place is -1 modulo 2^b, which retagged is 2^b - 3. The real cell beside it has place 3 r + 1, at most 2^b - 3 for
    // every row r.
    template <class Rows>
    NDPOOL_INLINE State<N> cell_before(const In *x, const Rows &rows, i64 cell) {
        if (cell < 0) return P::template empty<N>();
        if (cell >= N - 1) {
            State<N> state[1];
            merge_cells<1, N>(p, x, rows, cell - (N - 1), state);
            return state[0];
        }
        State<N> state = lift_some<N>(p, x + rows.offset[0] + cell, rows.tag[0], 1);
        for (i64 r = 1; r < rows.count; ++r)
            p.template merge<N>(state, lift_some<N>(p, x + rows.offset[r] + cell, rows.tag[r], 1));
        return state;
    }

    // One window by itself, cell by cell.
    void pool_one(const In *x, const OutputRow &rows, Sink &sink, i64 o) {
        Axis::Taps taps = axis.taps(o);
        State<1> state = P::template empty<1>();
        bool any = false;
        if constexpr (columns_first<P>()) {
            for (i64 k = 0; k < taps.count && rows.count; ++k) {
                State<1> column = p.template lift<1>(x + rows.offset[0] + taps.first + k, 0);
                for (i64 r = 1; r < rows.count; ++r)
                    p.template merge<1>(column, p.template lift<1>(x + rows.offset[r] + taps.first + k, 0));
                if (k == 0)
                    state = column;
                else
                    p.template merge<1>(state, column);
            }
            return sink.template put<1>(o, state, 1);
        }
        for (i64 r = 0; r < rows.count; ++r)
            for (i64 k = 0; k < taps.count; ++k) {
                State<1> next = p.template lift<1>(x + rows.offset[r] + taps.first + k,
                                                   rows.tag[r] * axis.kernel + taps.skipped + k);
                if (any)
                    p.template merge<1>(state, next);
                else
                    state = next;
                any = true;
            }
        sink.template put<1>(o, state, 1);
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
