// Channels last, windows of 2 or 3 cells along a row, or 2 by 2 or 3 by 3 of them: all cells of a window at once, in
// registers, along the elements of a place.
#pragma once
#include "passes/direct.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

template <class P, class Sink>
class TilePooler {
    using In = typename P::In;
    using Lane = typename P::Lane;
    using L = typename P::Lanes;
    static constexpr int N = LANES<Lane>;
    template <int M>
    using State = typename P::template State<M>;

  public:
    // `in_lines` says that the elements of a place are whole lines of the cache, to be stored past the caches.
    TilePooler(const Plan &plan, const P &p, const RowSource<L> &from, bool in_lines)
        : axis(plan.last()), p(p), from(from), inner(plan.inner), in_lines(in_lines) {
        constexpr i64 NEAR =
            16384 / sizeof(Lane) / P::PLANES;  // two columns of more would not stay in the nearest cache
        if (inner > NEAR || axis.dilation > 1) return;
        plane = (2 * inner + 3 * N - 1) / N * N;
        block.grow(P::PLANES * plane, "columns of windows");
        columns[0] = block.data();
        columns[1] = columns[0] + plane / 2 / N * N;
    }

    static i64 rows_at_a_time(const OutputRow &, const Sink &, i64) { return 1; }

    void pool(i64 base, const OutputRow &rows, Sink &sink, i64 begin, i64 end, i64, i64) {
        auto pool = [&](const auto &to) { pool_to(base, rows, to, begin, end); };
        if constexpr (Sink::STREAMS)
            if (in_lines) return with_simplest(sink.past_the_caches(), pool);
        with_simplest(sink, pool);
    }

  private:
    const Axis &axis;
    const P &p;
    const RowSource<L> &from;
    const i64 inner;
    const bool in_lines;
    Scratch<Lane> block, edge;
    Lane *columns[2] = {};  // the last ones of two windows side by side, if they are kept
    i64 plane = 0;

    template <class To>
    void pool_to(i64 base, const OutputRow &rows, const To &sink, i64 begin, i64 end) {
        if (rows.count == 2 && axis.kernel == 2)
            pool_tiles<2, 2>(base, rows, sink, begin, end);
        else if (rows.count == 3 && axis.kernel == 3)
            pool_tiles<3, 3>(base, rows, sink, begin, end);
        else if (rows.count == 1)
            pool_tiles<1, 0>(base, rows, sink, begin, end);
        else
            for (i64 o = begin; o < end; ++o) pool_cells(base, rows, sink, o);
    }

    // With R rows and windows of K cells along them, or of as many as the kernel says.
    template <int R, int K, class To>
    void pool_tiles(i64 base, const OutputRow &rows, const To &sink, i64 begin, i64 end) {
        // Copies, which no store can change.
        const P own = p;
        const FewRows<R> few(rows);
        const i64 inner = this->inner, step = axis.dilation * inner;
        const i64 shared = axis.kernel - axis.stride;  // columns that the next window has, too, if above 0
        const bool keeps = R > 1 && !P::TAGGED && shared == 1 && columns[0];
        To to = sink;
        const Lane *known = nullptr;  // the window's first column, if the one before had it
        for (i64 o = begin; o < end; ++o) {
            const Axis::Taps taps = axis.taps(o);
            if (taps.count != axis.kernel) {
                pool_cells(base, rows, sink, o);
                known = nullptr;
                continue;
            }
            const In *cell = static_cast<const In *>(from.x) + base + taps.first * inner;
            // Pools with merge(state, i), which gives the States of U registers of elements from the i-th on.
            auto over_elements = [&](const auto &merge) NDPOOL_INLINED {
                auto pool = [&](auto registers, i64 i) NDPOOL_INLINED {
                    constexpr int U = decltype(registers)::value;
                    State<N> state[U];
                    merge(state, i);
                    NDPOOL_UNROLL
                    for (int u = 0; u < U; ++u) to.template put<N>(o * inner + i + u * N, state[u], N);
                };
                constexpr int U = 4;
                i64 i = 0;
                for (; i + U * N <= inner; i += U * N) pool(Size<U>(), i);
                for (; i < inner; i += N) pool(Size<1>(), i + N <= inner ? i : inner - N);
            };
            if (!keeps) {
                over_elements([&](auto &state, i64 i)
                                  NDPOOL_INLINED { merge_tile<R, K>(own, cell + i, few, step, shared, state); });
            } else if constexpr (R > 1 && !P::TAGGED) {
                Lane *last = columns[o % 2];
                if (!known) known = merge_first_column<K>(own, cell, few, columns[1 - o % 2]);
                over_elements([&](auto &state, i64 i) NDPOOL_INLINED {
                    merge_columns<K>(own, cell + i, few, step, known + i, last + i, state);
                });
                known = last;
            }
        }
    }

    // The States of U registers of elements over R rows of K cells, from `cell` on in steps of `step` elements. If K is
    // 0, there is one row.
    template <int R, int K, std::size_t U, class Rows>
    NDPOOL_INLINE void merge_tile(const P &own, const In *cell, const Rows &rows, i64 step, i64 shared,
                                  State<N> (&state)[U]) const {
        const int kernel = K ? K : static_cast<int>(axis.kernel);
        auto merge_one = [&](int r, int k) NDPOOL_INLINED {
            const In *next = cell + rows.offset[r] + k * step;
            if (k >= shared) prefetch<U * N>(next);
            merge_cell(own, next, rows.tag[r] * kernel + k, r + k == 0, state);
        };
        if constexpr (K == 0) {
            merge_one(0, 0);
            for (int k = 1; k < kernel; ++k) merge_one(0, k);
        } else {
            NDPOOL_UNROLL
            for (int r = 0; r < R; ++r) NDPOOL_UNROLL
            for (int k = 0; k < K; ++k) merge_one(r, k);
        }
    }
    // The same by columns, where the order does not matter and the first one is known; keeps the last one.
    template <int K, std::size_t U, class Rows>
    NDPOOL_INLINE void merge_columns(const P &own, const In *cell, const Rows &rows, i64 step, const Lane *known,
                                     Lane *last, State<N> (&state)[U]) const {
        NDPOOL_UNROLL
        for (std::size_t u = 0; u < U; ++u) state[u] = P::template get<N>(known + u * N, plane);
        NDPOOL_UNROLL
        for (int k = 1; k < K; ++k) {
            State<N> column[U];
            NDPOOL_UNROLL
            for (int r = 0; r < K; ++r) {
                const In *next = cell + rows.offset[r] + k * step;
                prefetch<U * N>(next);
                merge_cell(own, next, 0, r == 0, column);
            }
            NDPOOL_UNROLL
            for (std::size_t u = 0; u < U; ++u) {
                own.template merge_any<N>(state[u], column[u]);
                if (k == K - 1) P::template put<N>(last + u * N, plane, column[u]);
            }
        }
    }
    // The first column of a window that follows none which had it.
    template <int K, class Rows>
    const Lane *merge_first_column(const P &own, const In *cell, const Rows &rows, Lane *to) const {
        whole_blocks<N>(inner, [&](i64 i) {
            State<N> column[1];
            for (int r = 0; r < K; ++r) merge_cell(own, cell + rows.offset[r] + i, 0, r == 0, column);
            P::template put<N>(to + i, plane, column[0]);
        });
        return to;
    }
    // One cell more, or the first.
    template <std::size_t U>
    NDPOOL_INLINE void merge_cell(const P &own, const In *cell, i64 tag, bool first, State<N> (&state)[U]) const {
        NDPOOL_UNROLL
        for (std::size_t u = 0; u < U; ++u) {
            State<N> next = own.template lift<N>(cell + u * N, tag);
            if (first)
                state[u] = next;
            else if constexpr (WIDENS_FLOATS<P>)
                P::template merge_beside<N>(state[u], next);
            else
                own.template merge<N>(state[u], next);
        }
    }

    // A window at the edge, cell by cell.
    template <class To>
    void pool_cells(i64 base, const OutputRow &rows, const To &sink, i64 o) {
        const i64 apart = inner + N;
        edge.grow(P::PLANES * apart, "a window at the edge");
        from.merge_places(from, base, rows, axis, inner, o, o + 1, edge.data(), apart);
        To to = sink;
        whole_blocks<N>(
            inner, [&](i64 i) { to.template put<N>(o * inner + i, L::template get<N>(edge.data() + i, apart), N); });
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
