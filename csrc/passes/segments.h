// Windows of some registers each, reduced together.
//
// Every window becomes a register by itself. Then each two of them become one, with the halves of both side by side,
// and so on, until every lane is a window:
//
//     a0 a1 a2 a3     b0 b1 b2 b3     c0 c1 c2 c3     d0 d1 d2 d3
//     a01 a23 b01 b23                 c01 c23 d01 d23
//     a b c d
//
// That is a merge for each window, where to fold one by itself takes as many as a register can be halved.
#pragma once
#include "passes/rows.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// How many windows of such lanes are reduced together: one, where they are so long that the folding does not matter, or
// else as many as a register of their cells has lanes.
template <class L>
int windows_together(const Axis &axis) {
    constexpr int ALL = LANES<typename L::Lane>;
    if (!overlaps<L>() || L::HEAVY || axis.dilation > 1 || axis.kernel >= 4 * ALL) return 1;
    const i64 cells = axis.adaptive ? axis.length / axis.output : axis.kernel;  // or more, away from the edges
    return ALL >= 8 && cells >= 8 ? 8 : ALL >= 4 && cells >= 4 ? 4 : 1;
}

// In registers of N lanes.
template <class L, int N>
struct Together {
    using Lane = typename L::Lane;
    using State = typename L::template State<N>;
    const L &l;
    i64 kernel, plane;  // of places along the row, and how far apart the planes of its lanes are

    // All cells of a window, whose first one is at `cell`, in one register.
    NDPOOL_INLINE State in_register(const Lane *cell, const Axis::Taps &taps) const {
        if (taps.count < N) return short_one(cell, taps);
        auto some = [&](i64 k) NDPOOL_INLINED {
            return L::template retag_each<N>(L::template get<N>(cell + k, plane), kernel, taps.skipped + k);
        };
        State state = some(0);
        i64 k = N;
        for (; k + N <= taps.count; k += N) l.template merge_any<N>(state, some(k));
        if (k < taps.count) l.template merge_any<N>(state, only_last(some(taps.count - N), taps.count - k));
        return state;
    }

    // Up to N windows, one a lane; what the others hold is left to the caller.
    State fold(State *states, i64 count) const {
        for (i64 i = count; i < N; ++i) states[i] = states[0];
        return fold_pairs<N>(states);
    }

  private:
    // Registers of which each has N / COUNT parts of as many windows.
    template <int COUNT>
    NDPOOL_INLINE State fold_pairs(const State *states) const {
        if constexpr (COUNT == 1) {
            return states[0];
        } else {
            State half[COUNT / 2];
            NDPOOL_UNROLL_ALL
            for (int i = 0; i < COUNT / 2; ++i) {
                State odd = states[2 * i + 1];
                half[i] = states[2 * i];
                L::template unzip<N>(half[i], odd);
                l.template merge_any<N>(half[i], odd);
            }
            return fold_pairs<COUNT / 2>(half);
        }
    }
    // The last `count` cells alone, where it matters that others are merged twice.
    static State only_last(const State &state, i64 count) {
        if constexpr (adds_up<L>())
            return L::template only_last<N>(state, count);
        else
            return state;
    }
    // At an edge.
    __attribute__((noinline)) State short_one(const Lane *cell, const Axis::Taps &taps) const {
        auto cells = [&](auto size, i64 k)
                         NDPOOL_INLINED { return L::template get<decltype(size)::value>(cell + k, plane); };
        const auto one = taps.count ? reduce(l, cells, taps.count, kernel, taps.skipped) : L::template empty<1>();
        Lane lanes[L::PLANES * N];
        for (int i = 0; i < N; ++i) L::template put<1>(lanes + i, N, one);
        return only_last(L::template get<N>(lanes, N), 1);
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
