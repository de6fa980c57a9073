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
    // Cells may be places that are read as one number.
    for (i64 i = done * S; i < cells; ++i) std::memcpy(to + i % S * apart + i / S, row + i, sizeof(T));
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
        for (i64 i = f; i < cells; i += steps) std::memcpy(phase++, row + i, sizeof(T));
    }
}

// --- places of several lanes ---
//
// Registers hold whole places of G lanes each; what is left over of a register is whatever it is, and is written over
// by the next one. So up to a register more is written.

// Every second place of two registers, from place F on.
template <int G, int F>
struct EverySecondPlace {
    static constexpr int of(int n, int i) { return i < n / G * G ? i / G * 2 * G + F * G + i % G : 0; }
};
// Places of two registers by turns, from as many on as R registers hold.
template <int G, int R>
struct PlacesByTurns {
    static constexpr int of(int n, int i) {
        const int place = R * (n / G) + i / G;
        return i < n / G * G ? place % 2 * n + place / 2 * G + i % G : 0;
    }
};
// There is no shuffle of all bytes of two registers, but of 16 bytes there is.
template <int G, class T>
constexpr int PLACE_LANES = sizeof(T) == 1 && G > 1 ? 16 : LANES<T>;

template <int G, class T>
void split_in_two(const T *row, i64 cells, T *to, i64 apart) {
    constexpr int N = PLACE_LANES<G, T>;
    const i64 lanes = cells / 2 * G;
    for (i64 i = 0; i < lanes; i += N / G * G) {
        const vec<T, N> low = load<N>(row + 2 * i), high = load<N>(row + 2 * i + N);
        store<N>(to + i, picked<N, EverySecondPlace<G, 0>>(low, high));
        store<N>(to + apart + i, picked<N, EverySecondPlace<G, 1>>(low, high));
    }
    if (cells % 2) std::memcpy(to + lanes, row + 2 * lanes, G * sizeof(T));
}
template <int G, class T>
void join_two(const T *phases, i64 apart, i64 places, T *to) {
    constexpr int N = PLACE_LANES<G, T>;
    for (i64 i = 0; i < places * G; i += N / G * G) {
        const vec<T, N> first = load<N>(phases + i), second = load<N>(phases + apart + i);
        store<N>(to + 2 * i, picked<N, PlacesByTurns<G, 0>>(first, second));
        store<N>(to + 2 * i + N / G * G, picked<N, PlacesByTurns<G, 1>>(first, second));
    }
}
// One place after the other.
template <class T>
void split_one_by_one(const T *row, i64 cells, i64 inner, i64 steps, T *to, i64 apart) {
    constexpr int N = 16 / static_cast<int>(sizeof(T));
    for (i64 f = 0; f < steps; ++f) {
        T *phase = to + f * apart;
        for (i64 i = f; i < cells; i += steps, phase += inner)
            for (i64 e = 0; e < inner; e += N) store<N>(phase + e, load<N>(row + i * inner + e));
    }
}
// Calls use(G, number): a place of `inner` lanes is G such numbers. False if it is none that has a shuffle.
template <class T, class Use>
bool as_numbers(i64 inner, const Use &use) {
    const i64 bytes = inner * static_cast<i64>(sizeof(T));
    if (bytes == 2) return use(std::integral_constant<int, 1>(), std::uint16_t()), true;
    if (bytes == 4) return use(std::integral_constant<int, 1>(), std::uint32_t()), true;
    if (bytes == 8) return use(std::integral_constant<int, 1>(), std::uint64_t()), true;
    if constexpr (LANES<std::uint64_t> > 2)
        if (bytes == 16) return use(std::integral_constant<int, 2>(), std::uint64_t()), true;
    if constexpr (LANES<T> > 2)
        if (inner == 3) return use(std::integral_constant<int, 3>(), T()), true;
    return false;
}
// Whether so many steps of such places are shuffled, and not moved one by one.
template <class T>
bool has_shuffle(i64 inner, i64 steps) {
    bool has = false;
    as_numbers<T>(inner, [&](auto size, auto) { has = size == 1 || steps == 2; });
    return has;
}
// Splits a row of places of `inner` lanes. `apart` is a multiple of `inner`; after each phase there is room for a
// register.
template <class T>
void split_places(const T *row, i64 cells, i64 inner, i64 steps, T *to, i64 apart) {
    if (inner == 1) return split_phases(row, cells, steps, to, apart);
    if (!has_shuffle<T>(inner, steps)) return split_one_by_one(row, cells, inner, steps, to, apart);
    as_numbers<T>(inner, [&](auto size, auto number) {
        using Number = decltype(number);
        constexpr int G = decltype(size)::value;
        const auto *from = reinterpret_cast<const Number *>(row);
        auto *phases = reinterpret_cast<Number *>(to);
        const i64 numbers_apart = apart * static_cast<i64>(sizeof(T)) / static_cast<i64>(sizeof(Number));
        if constexpr (G == 1)
            split_phases(from, cells, steps, phases, numbers_apart);
        else
            split_in_two<G>(from, cells, phases, numbers_apart);
    });
}
// And back: the places of two phases by turns. Up to a register more is written.
template <class T>
void join_places(const T *phases, i64 apart, i64 places, i64 inner, T *to) {
    const bool done = as_numbers<T>(inner, [&](auto size, auto number) {
        using Number = decltype(number);
        const i64 numbers_apart = apart * static_cast<i64>(sizeof(T)) / static_cast<i64>(sizeof(Number));
        join_two<decltype(size)::value>(reinterpret_cast<const Number *>(phases), numbers_apart, places,
                                        reinterpret_cast<Number *>(to));
    });
    if (done) return;
    constexpr int N = 16 / static_cast<int>(sizeof(T));
    for (i64 p = 0; p < 2 * places; ++p)
        for (i64 e = 0; e < inner; e += N)
            store<N>(to + p * inner + e, load<N>(phases + p % 2 * apart + p / 2 * inner + e));
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
