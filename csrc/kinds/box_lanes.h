// The cells of a group of windows, in registers: one window a lane.
#pragma once
#include "base/lanes.h"
#include "kinds/box_kernels.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Lanes 0, 2, 4, ... of a register and, from its lane 1 on, of another that starts one element early: so nothing behind
// the last cell is read.
struct EverySecondOfBoth {
    static constexpr int of(int n, int i) { return i < n / 2 ? 2 * i : n + 2 * i - n + 1; }
};

// The k-th cells of a group; `elsewhere` where there is none.
template <class T, int N>
NDPOOL_INLINE vec<T, N> cells_at(const T *row, const Tap &tap, const i64 *scattered, T elsewhere) {
    if (tap.step == 1) return load<N>(row + tap.first);
    if (tap.step == 2)
        return picked<N, EverySecondOfBoth>(load<N>(row + tap.first), load<N>(row + tap.first + N - 1));
    vec<T, N> v = splat<T, N>(elsewhere);
    if (tap.step == Tap::NOWHERE) return v;
    T lanes[N];
    if (tap.step == Tap::SCATTERED) {
        const i64 *place = scattered + tap.first;
        for (int i = 0; i < N; ++i) {
            const T found = row[place[i] < 0 ? 0 : place[i]];
            lanes[i] = place[i] < 0 ? elsewhere : found;
        }
    } else {
        const T *p = row + tap.first;
        for (int i = 0; i < N; ++i, p += tap.step) lanes[i] = *p;
    }
    std::memcpy(&v, lanes, sizeof v);
    return v;
}

// Writes lanes from..to-1.
template <int N, class T>
NDPOOL_INLINE void store_between(T *p, vec<T, N> v, int from, int to) {
    if (from == 0 && to == N) return store<N>(p, v);
    for (int i = from; i < to; ++i) p[i] = v[i];
}

// Calls f(group, from, to) for the groups from..to-1 of a block of rows: lanes from..to-1 are to be written.
template <class F>
NDPOOL_INLINE void over_groups(const LaneWindows &windows, i64 block, i64 begin, i64 end, const F &f) {
    const int skipped = static_cast<int>(windows.repeated(block));
    for (i64 group = begin; group < end; ++group) f(group, skipped, windows.used);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
