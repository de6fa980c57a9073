// The rows of the input that an output row sees, and their cells as States.
#pragma once
#include "base/stream.h"
#include "passes/states.h"
#include "plan/geometry.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// --- which input rows an output row sees ---------------------------------------------------------

class OutputRow {
  public:
    i64 count = 0;          // of input rows
    i64 base = 0;           // in elements from the slab's start
    i64 *offset = nullptr;  // of each, from `base`
    i64 *tag = nullptr;     // its place in the window without the last axis
    i64 start = 0;          // where the window starts in the slab, padding included: may be negative
    i64 counted = 1;        // cells that count, and real ones, in the window without the last axis
    i64 real = 1;

    explicit OutputRow(const Plan &plan) : plan(plan) {
        for (int power = 0; power < 4; ++power) asked[power] = asked_ahead(plan, std::uintptr_t(1) << power);
        block.grow(2 * plan.outer_cells, "input rows of a window");
        offset = block.data();
        tag = offset + plan.outer_cells;
    }

    // After this, `base` is 0.
    void move_to(i64 row) {
        at = row;
        base = ahead = 0;
        i64 index[MAX_DIMS];
        for (int d = plan.dim_count - 1; d > 0; --d) {
            index[d] = row % plan.dims[d].out_count;
            row /= plan.dims[d].out_count;
        }
        index[0] = row;
        count = 1;
        offset[0] = tag[0] = start = 0;
        counted = real = 1;
        for (int d = 0; d < plan.dim_count; ++d) {
            const Dim &dim = plan.dims[d];
            if (dim.axis < 0) {
                start += index[d] * dim.in_stride;
                for (i64 i = 0; i < count; ++i) offset[i] += index[d] * dim.in_stride;
            } else {
                extend(plan.axes[dim.axis], index[d], dim.in_stride);
            }
        }
        if (plan.dim_count) look_ahead(plan.dims[plan.dim_count - 1], index[plan.dim_count - 1]);
    }

    // How many bytes ahead cells are asked for.
    template <class T>
    NDPOOL_INLINE std::uintptr_t ahead_of(const T *) const {
        return asked[sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3];
    }

    // How many of the rows that follow see the same cells as this one, each `step` elements further on.
    i64 ahead = 0, step = 0;

    // Moves on by some rows. Up to `ahead` of them cost nothing.
    void move_on(i64 rows) {
        if (rows > ahead) return move_to(at + rows);
        ahead -= rows, at += rows;
        base += rows * step;
        start += rows * step;
    }

  private:
    const Plan &plan;
    Scratch<i64> block;
    i64 at = 0;
    std::uintptr_t asked[4];  // for cells of 1, 2, 4 and 8 bytes

    // Windows that see several planes at once would ask, in each, for what they are just reading of the next one.
    static std::uintptr_t asked_ahead(const Plan &plan, std::uintptr_t bytes) {
        const int d = plan.dim_count - 2;
        if (d < 0 || plan.dims[d].axis < 0 || plan.outer_cells < 4) return PREFETCHED;
        const std::uintptr_t plane = static_cast<std::uintptr_t>(plan.dims[d].in_stride) * bytes;
        return plane >= PREFETCHED / 4 && plane <= 2 * PREFETCHED ? plane / 4 : PREFETCHED;
    }

    void look_ahead(const Dim &dim, i64 o) {
        if (dim.axis < 0) {
            step = dim.in_stride;
            ahead = dim.out_count - 1 - o;
            return;
        }
        const Axis &axis = plan.axes[dim.axis];
        i64 room = axis.length - 1 - axis.dilation * (axis.kernel - 1) - axis.start(o);  // to the row's end
        if (axis.adaptive || axis.start(o) < 0 || room < axis.stride) return;
        step = axis.stride * dim.in_stride;
        ahead = room / axis.stride;
        if (ahead > axis.output - 1 - o) ahead = axis.output - 1 - o;
    }

    // Every row so far, times the cells that this axis adds; from the back, so that it can be done in place.
    void extend(const Axis &axis, i64 o, i64 stride) {
        Axis::Taps taps = axis.taps(o);
        for (i64 i = count - 1; i >= 0; --i) {
            i64 base = offset[i], prefix = tag[i] * axis.kernel + taps.skipped;
            for (i64 k = taps.count - 1; k >= 0; --k) {
                NDPOOL_SHORT_LOOP;
                offset[i * taps.count + k] = base + (taps.first + k * axis.dilation) * stride;
                tag[i * taps.count + k] = prefix + k;
            }
        }
        count *= taps.count;
        start += axis.start(o) * stride;
        counted *= axis.counted(o);
        real *= taps.count;
    }
};

// --- parts of a register --------------------------------------------------------------------------

// The State of `count` < N cells. Memory beyond them is not read; the other lanes repeat the first.
template <int N, class P>
inline typename P::template State<N> lift_some(const P &p, const typename P::In *x, i64 tag, int count) {
    if constexpr (P::CARRIES) {
        return p.template lift_some<N>(x, tag, count);
    } else {
        typename P::In some[N];
        for (int i = 0; i < N; ++i) some[i] = i < count ? x[i] : x[0];
        return p.template lift<N>(some, tag);
    }
}

// Runs out(to) with room for N elements, of which `count` are wanted at `p`; with PAST all, and past the caches.
template <int N, bool PAST = false, class T, class F>
inline void put_some(T *p, int count, const F &out) {
    if constexpr (PAST) {
        T all[N];
        out(all);
        stream<N>(p, load<N>(all));
    } else if (count == N) {
        out(p);
    } else {
        T some[N];
        out(some);
        for (int i = 0; i < count; ++i) p[i] = some[i];
    }
}

template <int M>
using Size = std::integral_constant<int, M>;

// --- merging rows ---------------------------------------------------------------------------------

// Merges the States of U N cells into `state`, or lets it be them, if `first`. In pairs, each two registers have the
// cells at even and at odd places, until they are zipped.
template <int U, int N, class P>
NDPOOL_INLINE void merge_next(const P &p, const typename P::In *x, i64 tag, bool first,
                              typename P::template State<N> (&state)[U]) {
    auto merge = [&](typename P::template State<N> &to, const auto &next) NDPOOL_INLINED {
        if (first)
            to = next;
        else if constexpr (WIDENS_FLOATS<P>)
            P::template merge_beside<N>(to, next);
        else
            p.template merge<N>(to, next);
    };
    if constexpr (in_pairs<P>() && U % 2 == 0) {
        NDPOOL_UNROLL_ALL
        for (int u = 0; u < U; u += 2) {
            typename P::template State<N> even, odd;
            p.template lift_pairs<N>(x + u * N, even, odd);
            merge(state[u], even);
            merge(state[u + 1], odd);
        }
    } else {
        NDPOOL_UNROLL_ALL
        for (int u = 0; u < U; ++u) merge(state[u], p.template lift<N>(x + u * N, tag));
    }
}
template <int U, int N, class P>
NDPOOL_INLINE void zip_pairs([[maybe_unused]] typename P::template State<N> (&state)[U]) {
    if constexpr (in_pairs<P>() && U % 2 == 0) {
        NDPOOL_UNROLL_ALL
        for (int u = 0; u < U; u += 2) zip<N>(state[u].v, state[u + 1].v);
    }
}

// The States of all rows, merged. In pairs, they are not zipped.
template <int U, int N, class P, class Rows>
NDPOOL_INLINE void merge_unzipped(const P &p, const typename P::In *x, const Rows &rows, i64 i,
                                  typename P::template State<N> (&state)[U]) {
    const std::uintptr_t ahead = rows.ahead_of(x);
    merge_next<U, N>(p, x + rows.offset[0] + i, rows.tag[0], true, state);
    prefetch<U * N>(x + rows.offset[0] + i, ahead);
    for (i64 r = 1; r < rows.count; ++r) {
        const typename P::In *row = x + rows.offset[r] + i;
        prefetch<U * N>(row, ahead);
        merge_next<U, N>(p, row, rows.tag[r], false, state);
    }
}
// The States of cells at even places and of those at odd ones, 2N in all, merged over all rows.
template <int N, class P, class Rows>
NDPOOL_INLINE void merge_even_and_odd(const P &p, const typename P::In *x, const Rows &rows, i64 i,
                                      typename P::template State<N> (&pair)[2]) {
    merge_unzipped<2, N>(p, x, rows, i, pair);
    if constexpr (!in_pairs<P>()) P::template unzip<N>(pair[0], pair[1]);
}

// The States of cells i..i+N-1 of all rows, merged; U registers' worth at a time. To zip costs more than pairs save, if
// there is one row alone.
template <int U, int N, class P, class Rows>
NDPOOL_INLINE void merge_cells(const P &p, const typename P::In *x, const Rows &rows, i64 i,
                               typename P::template State<N> (&state)[U]) {
    if constexpr (in_pairs<P>() && U % 2 == 0)
        if (rows.count == 1) {
            NDPOOL_UNROLL_ALL
            for (int u = 0; u < U; ++u) state[u] = p.template lift<N>(x + rows.offset[0] + i + u * N, rows.tag[0]);
            return prefetch<U * N>(x + rows.offset[0] + i);
        }
    merge_unzipped<U, N>(p, x, rows, i, state);
    zip_pairs<U, N, P>(state);
}

// Merges `length` elements of all rows, from element `begin` of each, into States at `to`, which has room for a
// register more. `beyond` is where the array of the cells ends.
template <int N, class P>
void merge_rows(const P &p, const typename P::In *x, const typename P::In *beyond, const OutputRow &rows, i64 begin,
                i64 length, typename P::Lane *to, i64 plane) {
    using State = typename P::template State<N>;
    if (length <= 0) return;
    if (rows.count == 0) {
        for (i64 i = 0; i < length; i += N) P::template put<N>(to + i, plane, P::template empty<N>());
        return;
    }
    if (length < N && beyond - (x + rows.offset[rows.count - 1] + begin) < N) {
        const int count = static_cast<int>(length);
        State state = lift_some<N>(p, x + rows.offset[0] + begin, rows.tag[0], count);
        for (i64 r = 1; r < rows.count; ++r)
            p.template merge<N>(state, lift_some<N>(p, x + rows.offset[r] + begin, rows.tag[r], count));
        return P::template put<N>(to, plane, state);
    }
    auto block_of = [&](auto size, auto registers, i64 at) NDPOOL_INLINED {
        constexpr int M = decltype(size)::value, U = decltype(registers)::value;
        typename P::template State<M> state[U];
        merge_cells<U, M>(p, x, rows, begin + at, state);
        NDPOOL_UNROLL_ALL
        for (int u = 0; u < U; ++u) P::template put<M>(to + at + u * M, plane, state[u]);
    };
    auto block = [&](auto registers, i64 at) NDPOOL_INLINED { block_of(Size<N>(), registers, at); };
    // Of many rows that are far away, some lines side by side of each. What is left over overlaps its neighbours, where
    // it is more than two registers: each would walk over all rows by itself.
    constexpr int SOME = P::HEAVY ? 1 : 4;
    i64 i = 0;
    if constexpr (WIDENS_FLOATS<P>) {
        constexpr i64 FAR = 1 << 18;
        if constexpr (N > WIDENED) {  // all registers but those that are needed beside
            constexpr int MOST = 28;
            if (rows.count > 4)
                for (; i + MOST * WIDENED <= length; i += MOST * WIDENED) block_of(Size<WIDENED>(), Size<MOST>(), i);
        }
        if (rows.count > 4 && beyond - x >= FAR)
            for (; i + 2 * SOME * N <= length; i += 2 * SOME * N) block(Size<2 * SOME>(), i);
    }
    for (const i64 last = length - SOME * N; i <= last || (last >= 0 && length - i > 2 * N); i += SOME * N)
        block(Size<SOME>(), i < last ? i : last);
    for (; i < length; i += N) block(Size<1>(), i + N <= length || length < N ? i : length - N);
}

// --- reducing a segment ---------------------------------------------------------------------------

// All lanes merged into one: halves of halves.
template <int N, class L>
typename L::template State<1> fold(const L &l, const typename L::template State<N> &state) {
    if constexpr (N == 1) {
        return state;
    } else {
        alignas(64) typename L::Lane lanes[L::PLANES * N];
        L::template put<N>(lanes, N, state);
        auto half = L::template get<N / 2>(lanes, N);
        l.template merge_any<N / 2>(half, L::template get<N / 2>(lanes + N / 2, N));
        return fold<N / 2>(l, half);
    }
}

// Whether cells may be merged that others overlap: sums leave them out, and a place is the same each time.
template <class L>
constexpr bool overlaps() {
    if constexpr (L::TAGGED)
        return true;
    else
        return adds_up<L>() || L::IDEMPOTENT;
}

// The State of M to 2M - 1 cells, or of fewer: those of two registers as large as the cells allow. block(size, k) are
// those of so many cells from the k-th on.
template <int M, class L, class Block>
typename L::template State<1> reduce_few(const L &l, const Block &block, i64 count) {
    if constexpr (M == 1) {
        return block(Size<1>(), 0);
    } else {
        if (count < M) return reduce_few<M / 2>(l, block, count);
        typename L::template State<M> state = block(Size<M>(), 0);
        if constexpr (adds_up<L>())
            l.template merge_any<M>(state, L::template only_last<M>(block(Size<M>(), count - M), count - M));
        else
            l.template merge_any<M>(state, block(Size<M>(), count - M));
        return fold<M>(l, state);
    }
}

// `count` cells side by side, a register at least, as one register. some(size, k) are the States of so many from the
// k-th on. What is left over, where no cell may be merged twice, is from cell `*done` on.
template <int N, class L, class Some>
NDPOOL_INLINE typename L::template State<N> reduce_to_register(const L &l, const Some &some, i64 count, i64 *done) {
    // Several registers at a time, so that none waits for the other. A sum with its errors has enough to do meanwhile.
    constexpr int U = L::HEAVY ? 1 : adds_up<L>() && L::PLANES > 1 ? 2 : 4 * (LANES<typename L::Lane> / N);
    auto merge = [&](auto &to, const auto &next) NDPOOL_INLINED {
        if constexpr (N < LANES<typename L::Lane>)  // floats that are widened
            L::template merge_beside<N>(to, next);
        else
            l.template merge_any<N>(to, next);
    };
    auto block = [&](i64 at) NDPOOL_INLINED { return some(Size<N>(), at); };
    typename L::template State<N> state;
    i64 k = N;
    if (count >= U * N) {
        typename L::template State<N> each[U];
        NDPOOL_UNROLL_ALL
        for (int u = 0; u < U; ++u) each[u] = block(u * N);
        for (k = U * N; k + U * N <= count; k += U * N) {
            NDPOOL_UNROLL_ALL
            for (int u = 0; u < U; ++u) merge(each[u], block(k + u * N));
        }
        NDPOOL_UNROLL
        for (int u = 1; u < U; u += 2) l.template merge_any<N>(each[u - 1], each[u]);
        NDPOOL_UNROLL
        for (int u = 2; u < U; u += 4) l.template merge_any<N>(each[u - 2], each[u]);
        if constexpr (U == 8) l.template merge_any<N>(each[0], each[4]);
        state = each[0];
    } else {
        state = block(0);
    }
    for (; k + N <= count; k += N) l.template merge_any<N>(state, block(k));
    // The last register overlaps its neighbour, if that can be.
    if constexpr (adds_up<L>())
        if (k < count) {
            l.template merge_any<N>(state, L::template only_last<N>(block(count - N), count - k));
            k = count;
        }
    if constexpr (!L::TAGGED && L::IDEMPOTENT)
        if (k < count) l.template merge_any<N>(state, block(count - N)), k = count;
    *done = k;
    return state;
}

// `count` cells side by side as one State. cells(size, k) are the States of so many from the k-th on, which is at place
// `tag + k` of the window along an axis with `radix` places.
template <int N, class L, class Cells>
typename L::template State<1> reduce_by(const L &l, const Cells &cells, i64 count, i64 radix, i64 tag) {
    auto some = [&](auto size, i64 at) NDPOOL_INLINED {
        constexpr int M = decltype(size)::value;
        if constexpr (M == 1)
            return L::template retag<1>(cells(size, at), radix, tag + at);
        else
            return L::template retag_each<M>(cells(size, at), radix, tag + at);
    };
    if constexpr (overlaps<L>())
        if (count < 2 * N) return reduce_few<N>(l, some, count);
    typename L::template State<1> one;
    i64 k = 1;
    if (count >= N)
        one = fold<N>(l, reduce_to_register<N>(l, some, count, &k));
    else
        one = some(Size<1>(), 0);
    for (; k < count; ++k) l.template merge_any<1>(one, some(Size<1>(), k));
    return one;
}
template <class L, class Cells>
typename L::template State<1> reduce(const L &l, const Cells &cells, i64 count, i64 radix, i64 tag) {
    return reduce_by<LANES<typename L::Lane>>(l, cells, count, radix, tag);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
