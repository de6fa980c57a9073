// A row in phases: phase f has the cells f, f + s, f + 2s, ... So a window that moves by s cells moves by one in each.
#pragma once
#include "base/lanes.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// GCC 12 makes one shuffle of several, and a wrong one where lanes are 64 bits.
template <class V>
NDPOOL_INLINE void hide_from_folding([[maybe_unused]] V &v) {
#if defined(__AVX512F__) && !defined(__clang__)
    asm("" : "+v"(v));
#endif
}

// Lane i of phase F is element S*i + F of the registers: of the first two, and then of register R, with those before it
// done.
template <int S, int F>
struct OfFirstTwo {
    static constexpr int of(int n, int i) { return S * i + F < 2 * n ? S * i + F : i; }
};
template <int S, int F, int R>
struct OfNext {
    static constexpr int of(int n, int i) { return (S * i + F) / n == R ? n + (S * i + F) % n : i; }
};
// Takes from register FROM what Pick says, then from the next, up to the S-th.
template <int N, int S, int TO, template <int, int, int> class Pick, int FROM, class V>
NDPOOL_INLINE V picked_in_turn(const V *from, V sofar) {
    hide_from_folding(sofar);
    if constexpr (FROM == S)
        return sofar;
    else
        return picked_in_turn<N, S, TO, Pick, FROM + 1>(from, picked<N, Pick<S, TO, FROM>>(sofar, from[FROM]));
}
template <int N, int S, class V, int... F>
NDPOOL_INLINE void phases_of_odd(const V *from, V *to, std::integer_sequence<int, F...>) {
    ((to[F] = picked_in_turn<N, S, F, OfNext, 2>(from, picked<N, OfFirstTwo<S, F>>(from[0], from[1]))), ...);
}

// The phases of S registers side by side. Of an even S, the even cells and the odd ones are split by themselves.
template <int N, int S, class V>
NDPOOL_INLINE void phases_of(const V *from, V *to) {
    if constexpr (S == 1) {
        to[0] = from[0];
    } else if constexpr (S % 2) {
        phases_of_odd<N, S>(from, to, std::make_integer_sequence<int, S>());
    } else {
        constexpr int H = S / 2;
        V half[2][H], split[2][H];
        NDPOOL_UNROLL
        for (int r = 0; r < H; ++r) {
            half[0][r] = every_second<N, 0>(from[2 * r], from[2 * r + 1]);
            half[1][r] = every_second<N, 1>(from[2 * r], from[2 * r + 1]);
        }
        phases_of<N, H>(half[0], split[0]);
        phases_of<N, H>(half[1], split[1]);
        NDPOOL_UNROLL
        for (int f = 0; f < S; ++f) to[f] = split[f % 2][f / 2];
    }
}

// And back. Lane i of register R is of phase (R*N + i) % S.
template <int S, int R, int F>
struct OfRegister {
    static constexpr int of(int n, int i) { return (R * n + i) % S == F ? n + (R * n + i) / S : i; }
};
template <int N, int S, class V, int... R>
NDPOOL_INLINE void join_phases(const V *phases, V *to, std::integer_sequence<int, R...>) {
    ((to[R] = picked_in_turn<N, S, R, OfRegister, 0>(phases, phases[0])), ...);
}
template <int N, int S, class V>
NDPOOL_INLINE void join_phases(const V *phases, V *to) {
    join_phases<N, S>(phases, to, std::make_integer_sequence<int, S>());
}

// Splits a row of `cells` cells into S phases, which are `apart` lanes apart.
template <int S, class T, int N = LANES<T>>
void split_by(const T *row, i64 cells, T *to, i64 apart) {
    i64 done = 0;  // lanes of each phase
    if (cells / S >= N) {
        whole_blocks<N>(cells / S, [&](i64 i) NDPOOL_INLINED {
            vec<T, N> from[S], phase[S];
            NDPOOL_UNROLL
            for (int r = 0; r < S; ++r) from[r] = load<N>(row + S * i + r * N);
            phases_of<N, S>(from, phase);
            NDPOOL_UNROLL
            for (int f = 0; f < S; ++f) store<N>(to + f * apart + i, phase[f]);
        });
        done = cells / S;
    }
    for (i64 i = done * S; i < cells; ++i) to[i % S * apart + i / S] = row[i];
}
template <class T>
void split_phases(const T *row, i64 cells, i64 steps, T *to, i64 apart) {
    // There is no shuffle of all bytes of two registers, but of 16 bytes there is.
    if constexpr (sizeof(T) == 1 && LEVEL_IS_TUNED) {
        if (steps == 3) return split_by<3, T, 16>(row, cells, to, apart);
        if (steps == 5) return split_by<5, T, 16>(row, cells, to, apart);
        if (steps == 6) return split_by<6, T, 16>(row, cells, to, apart);
        if (steps == 7) return split_by<7, T, 16>(row, cells, to, apart);
    }
    if constexpr (sizeof(T) >= 2) {
        if (steps == 3) return split_by<3>(row, cells, to, apart);
        if (steps == 4) return split_by<4>(row, cells, to, apart);
        if (steps == 5) return split_by<5>(row, cells, to, apart);
        if (steps == 6) return split_by<6>(row, cells, to, apart);
        if (steps == 7) return split_by<7>(row, cells, to, apart);
        if (steps == 8) return split_by<8>(row, cells, to, apart);
    }
    if (steps == 2) return split_by<2>(row, cells, to, apart);
    for (i64 f = 0; f < steps; ++f) {
        T *phase = to + f * apart;
        for (i64 i = f; i < cells; i += steps) *phase++ = row[i];
    }
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
