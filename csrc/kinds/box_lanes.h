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

// The k-th cells of N windows of a group, from lane `offset` on; `elsewhere` where there is none.
template <class T, int N>
NDPOOL_INLINE vec<T, N> cells_at(const T *row, const Tap &tap, const i64 *scattered, int offset, T elsewhere) {
    const i64 first = tap.first + offset * tap.step;
    if (tap.step == 1) return load<N>(row + first);
    if (tap.step == 2) return picked<N, EverySecondOfBoth>(load<N>(row + first), load<N>(row + first + N - 1));
    vec<T, N> v = splat<T, N>(elsewhere);
    if (tap.step == Tap::NOWHERE) return v;
    T lanes[N];
    if (tap.step == Tap::SCATTERED) {
        const i64 *place = scattered + tap.first + offset;
        for (int i = 0; i < N; ++i) {
            const T found = row[place[i] < 0 ? 0 : place[i]];
            lanes[i] = place[i] < 0 ? elsewhere : found;
        }
    } else {
        const T *p = row + first;
        for (int i = 0; i < N; ++i) lanes[i] = p[i * tap.step];
    }
    std::memcpy(&v, lanes, sizeof v);
    return v;
}

// Writes lanes from..to-1.
template <int N, class T>
NDPOOL_INLINE void store_between(T *p, vec<T, N> v, int from, int to) {
    if (from == 0 && to == N) return store<N>(p, v);
    T lanes[N];
    std::memcpy(lanes, &v, sizeof v);
    for (int i = from; i < to; ++i) p[i] = lanes[i];
}

// N windows of a group, from lane `offset` on, of which lanes from..to-1 are to be written.
struct Part {
    i64 group;
    int offset, from, to;
};

// Part i of the groups of a block of rows, which is the i-th N windows; a group has EACH of them.
template <int N, int EACH>
NDPOOL_INLINE Part part_of(const LaneWindows &windows, i64 repeated, i64 i) {
    const int offset = static_cast<int>(i % EACH) * N;
    const int from = static_cast<int>(repeated) - offset, to = windows.used - offset;
    return {i / EACH, offset, from < 0 ? 0 : from, to < N ? to : N};
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
