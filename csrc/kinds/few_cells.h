// Quantiles of very small windows, whose cells stay in registers.
#pragma once
#include "kinds/key_registers.h"
#include "kinds/networks.h"
#include "passes/rows.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// What stands at ranks LO and HI of COUNT cells in registers, by a network that is known when this is compiled.
template <int COUNT, int LO, int HI>
struct FewCells {
    struct Steps {
        int count = 0;
        Comparison step[32] = {};
    };
    // The same steps as network_of().
    static constexpr Steps made() {
        Steps all, kept;
        int half = 1;
        while (2 * half < COUNT) half *= 2;
        for (int p = half; p > 0; p /= 2) {
            int q = half, r = 0, d = p;
            for (bool last = false; !last; d = q - p, q /= 2, r = p) {
                for (int i = 0; i + d < COUNT; ++i)
                    if ((i & p) == r)
                        all.step[all.count++] = {static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(i + d),
                                                 Comparison::BOTH};
                last = q == p;
            }
        }
        bool wanted[COUNT] = {};
        wanted[LO] = true;
        wanted[HI] = true;
        for (int i = all.count - 1; i >= 0; --i) {
            const Comparison s = all.step[i];
            if (!wanted[s.lo] && !wanted[s.hi]) continue;
            kept.step[kept.count++] = {s.lo, s.hi,
                                       !wanted[s.hi]   ? Comparison::LESSER
                                       : !wanted[s.lo] ? Comparison::GREATER
                                                       : Comparison::BOTH};
            wanted[s.lo] = wanted[s.hi] = true;
        }
        return kept;  // the last one first
    }
    static constexpr Steps STEPS = made();

    template <int I, class V>
    static NDPOOL_INLINE void step(V (&v)[COUNT]) {
        constexpr Comparison S = STEPS.step[STEPS.count - 1 - I];
        const V a = v[S.lo], b = v[S.hi];
        if constexpr (S.made != Comparison::GREATER) v[S.lo] = lesser(a, b);
        if constexpr (S.made != Comparison::LESSER) v[S.hi] = greater(a, b);
    }
    template <class V, int... I>
    static NDPOOL_INLINE void run(V (&v)[COUNT], std::integer_sequence<int, I...>) {
        (step<I>(v), ...);
    }

    // Of `count` elements of a row, into lo and, where that is another rank, hi.
    template <class K>
    static void find(const K *const *at, i64 first, i64 count, K *lo, K *hi) {
        constexpr int N = KEY_LANES<K>;
        const K *cell[COUNT];
        for (int i = 0; i < COUNT; ++i) cell[i] = at[i];
        for (i64 e = first; e < first + count; e += N) {
            vec<K, N> v[COUNT];
            _Pragma("GCC unroll 16") for (int i = 0; i < COUNT; ++i) v[i] = load<N>(cell[i] + e);
            run(v, std::make_integer_sequence<int, STEPS.count>());
            store<N>(lo + e, v[LO]);
            if (LO != HI) store<N>(hi + e, v[HI]);
        }
    }
};

// Calls the one for ranks that are known only now.
template <int COUNT, class K, int... LO>
NDPOOL_INLINE void find_of_few(int lo, int hi, const K *const *at, i64 first, i64 count, K *to_lo, K *to_hi,
                               std::integer_sequence<int, LO...>) {
    auto with = [&](auto rank) {
        constexpr int R = decltype(rank)::value, NEXT = R + 1 < COUNT ? R + 1 : R;
        if (R != lo) return;
        if (hi == lo)
            FewCells<COUNT, R, R>::find(at, first, count, to_lo, to_hi);
        else
            FewCells<COUNT, R, NEXT>::find(at, first, count, to_lo, to_hi);
    };
    (with(Size<LO>()), ...);
}
// Says whether there is one for so many cells: not for the widest, of which a register holds few.
template <class K>
bool find_of_few(int cells, int lo, int hi, const K *const *at, i64 first, i64 count, K *to_lo, K *to_hi) {
    if constexpr (LEVEL_IS_TUNED && sizeof(K) < 8) {
        if (cells == 4) find_of_few<4>(lo, hi, at, first, count, to_lo, to_hi, std::make_integer_sequence<int, 4>());
        if (cells == 9) find_of_few<9>(lo, hi, at, first, count, to_lo, to_hi, std::make_integer_sequence<int, 9>());
        return cells == 4 || cells == 9;
    }
    return false;
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
