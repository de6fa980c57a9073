// Quantiles of square windows of up to 7 x 7 cells: groups are sorted and merged in registers, whatever the rank.
//
//     3 groups   1 with 2                             | 3
//     4 groups   1 with 2                             | 3 with 4
//     5 groups   1 with 2, 3 with 4, these two        | 5
//     6 groups   1 with 2, 3 with 4, these two        | 5 with 6
//     7 groups   1 with 2, 3 with 4, these two        | 5 with 6, and 7
//
// The rank is found in the two lists. The k-th of two sorted lists has i cells of the one and the others of the other
// before it or at it. It is the least, over all i, of the greater of the last ones of both. So one network serves every
// rank, and is known when this is compiled. The groups of windows that overlap are columns, which are sorted once for
// all of them.
#pragma once
#include <utility>

#include "kinds/key_registers.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Comparisons of a network, and where the cells of each rank are afterwards.
template <int MOST>
struct MergeSteps {
    int count = 0;
    std::uint8_t lo[MOST] = {}, hi[MOST] = {};

    constexpr void compare(std::uint8_t a, std::uint8_t b) { lo[count] = a, hi[count] = b, ++count; }
};
struct MergeList {
    int count = 0;
    std::uint8_t at[32] = {};

    constexpr void add(std::uint8_t place) { at[count++] = place; }
    static constexpr MergeList of(int first, int count) {
        MergeList list;
        for (int i = 0; i < count; ++i) list.add(static_cast<std::uint8_t>(first + i));
        return list;
    }
    constexpr MergeList every_second(int first) const {
        MergeList list;
        for (int i = first; i < count; i += 2) list.add(at[i]);
        return list;
    }
};

// Batcher's odd-even merge, as in networks.cpp.
template <int MOST>
constexpr MergeList merge_lists(MergeSteps<MOST> &steps, const MergeList &a, const MergeList &b) {
    if (a.count == 0) return b;
    if (b.count == 0) return a;
    MergeList all;
    if (a.count == 1 && b.count == 1) {
        steps.compare(a.at[0], b.at[0]);
        all.add(a.at[0]), all.add(b.at[0]);
        return all;
    }
    const MergeList even = merge_lists(steps, a.every_second(0), b.every_second(0)),
                    odd = merge_lists(steps, a.every_second(1), b.every_second(1));
    all.add(even.at[0]);
    for (int i = 0; i < odd.count || i + 1 < even.count; ++i) {
        if (i < odd.count) all.add(odd.at[i]);
        if (i + 1 < even.count) all.add(even.at[i + 1]);
        if (i < odd.count && i + 1 < even.count) steps.compare(odd.at[i], even.at[i + 1]);
    }
    return all;
}

// Sorts A + B cells, of which the first A and the others are sorted already.
template <int A, int B>
struct Merge {
    struct Made {
        MergeSteps<80> steps;
        MergeList order;
    };
    static constexpr Made made() {
        Made all;
        all.order = merge_lists(all.steps, MergeList::of(0, A), MergeList::of(A, B));
        return all;
    }
    static constexpr Made MADE = made();

    template <class V>
    static NDPOOL_INLINE void run(const V *a, const V *b, V *to) {
        V v[A + B];
        _Pragma("GCC unroll 32") for (int i = 0; i < A; ++i) v[i] = a[i];
        _Pragma("GCC unroll 32") for (int i = 0; i < B; ++i) v[A + i] = b[i];
        steps(v, std::make_integer_sequence<int, MADE.steps.count>());
        put(v, to, std::make_integer_sequence<int, A + B>());
    }

  private:
    template <int I, class V>
    static NDPOOL_INLINE void step(V *v) {
        constexpr int LO = MADE.steps.lo[I], HI = MADE.steps.hi[I];
        const V a = v[LO], b = v[HI];
        v[LO] = lesser(a, b), v[HI] = greater(a, b);
    }
    template <class V, int... I>
    static NDPOOL_INLINE void steps(V *v, std::integer_sequence<int, I...>) {
        (step<I>(v), ...);
    }
    template <class V, int... I>
    static NDPOOL_INLINE void put(const V *v, V *to, std::integer_sequence<int, I...>) {
        ((to[I] = v[MADE.order.at[I]]), ...);
    }
};
template <int H, class V>
NDPOOL_INLINE void sort_group(V *v) {
    if constexpr (H > 1) {
        sort_group<H / 2>(v);
        sort_group<H - H / 2>(v + H / 2);
        Merge<H / 2, H - H / 2>::run(v, v + H / 2, v);
    }
}

// The cell of rank k in two sorted lists of A and B cells.
template <int A, int B, class V>
NDPOOL_INLINE V of_rank(const V *a, const V *b, int k) {
    const int first = k + 1 > A ? k + 1 - A : 0, last = k + 1 < B ? k + 1 : B;  // how many of b
    V best = first == 0 ? a[k] : first == k + 1 ? b[k] : greater(a[k - first], b[first - 1]);
    for (int i = first + 1; i <= last; ++i) best = lesser(best, i == k + 1 ? b[i - 1] : greater(a[k - i], b[i - 1]));
    return best;
}

// Windows of G groups of G cells each.
template <int G>
struct GroupedCells {
    static constexpr int LEFT = (G < 5 ? 2 : 4) * G, RIGHT = G * G - LEFT;

    template <class V>
    static NDPOOL_INLINE void merge_groups(const V *v, V *left, V *right) {
        if constexpr (G < 5) {
            Merge<G, G>::run(v, v + G, left);
        } else {
            V pairs[4 * G];
            Merge<G, G>::run(v, v + G, pairs);
            Merge<G, G>::run(v + 2 * G, v + 3 * G, pairs + 2 * G);
            Merge<2 * G, 2 * G>::run(pairs, pairs + 2 * G, left);
        }
        const V *others = v + LEFT;
        if constexpr (RIGHT == G) {
            _Pragma("GCC unroll 8") for (int i = 0; i < G; ++i) right[i] = others[i];
        } else if constexpr (RIGHT == 2 * G) {
            Merge<G, G>::run(others, others + G, right);
        } else {
            V pair[2 * G];
            Merge<G, G>::run(others, others + G, pair);
            Merge<2 * G, G>::run(pair, others + 2 * G, right);
        }
    }

    // Of `count` elements of a row, what stands at rank lo and, where that is another, hi. at[g * G + i] is cell i of
    // group g; groups are sorted already or not.
    template <bool SORTED, class K>
    static void find(const K *const *at, i64 first, i64 count, int lo, int hi, K *to_lo, K *to_hi) {
        constexpr int N = KEY_LANES<K>;
        using V = vec<K, N>;
        const K *cell[G * G];
        for (int i = 0; i < G * G; ++i) cell[i] = at[i];
        for (i64 e = first; e < first + count; e += N) {
            V v[G * G], left[LEFT], right[RIGHT];
            _Pragma("GCC unroll 64") for (int i = 0; i < G * G; ++i) v[i] = load<N>(cell[i] + e);
            if constexpr (!SORTED) {
                _Pragma("GCC unroll 8") for (int g = 0; g < G; ++g) sort_group<G>(v + g * G);
            }
            merge_groups(v, left, right);
            store<N>(to_lo + e, of_rank<LEFT, RIGHT>(left, right, lo));
            if (lo != hi) store<N>(to_hi + e, of_rank<LEFT, RIGHT>(left, right, hi));
        }
    }

    // Sorts the columns of G rows; what was sorted lies `room` apart.
    template <class K>
    static void sort_columns(const K *const *row, i64 count, i64 room, K *to) {
        constexpr int N = KEY_LANES<K>;
        for (i64 e = 0; e < count; e += N) {
            vec<K, N> v[G];
            _Pragma("GCC unroll 32") for (int r = 0; r < G; ++r) v[r] = load<N>(row[r] + e);
            sort_group<G>(v);
            _Pragma("GCC unroll 32") for (int r = 0; r < G; ++r) store<N>(to + r * room + e, v[r]);
        }
    }
};

// Calls f with the number of groups for windows of so many cells; says whether there is one. The smallest windows of
// narrow keys have a network for each rank.
template <class K, class F>
NDPOOL_INLINE bool with_groups(i64 cells, const F &f) {
    if constexpr (LEVEL_IS_TUNED) {
        if (cells == 9) return f(Size<3>()), true;
        if (cells == 16) return f(Size<4>()), true;
        if (cells == 25) return f(Size<5>()), true;
        if (cells == 36) return f(Size<6>()), true;
        if (cells == 49) return f(Size<7>()), true;
    }
    return false;
}
template <class K>
bool suits_groups(i64 cells) {
    return with_groups<K>(cells, [](auto) {});
}
template <class K>
void find_of_groups(int cells, bool sorted, int lo, int hi, const K *const *at, i64 first, i64 count, K *to_lo,
                    K *to_hi) {
    with_groups<K>(cells, [&](auto groups) {
        using Cells = GroupedCells<decltype(groups)::value>;
        sorted ? Cells::template find<true>(at, first, count, lo, hi, to_lo, to_hi)
               : Cells::template find<false>(at, first, count, lo, hi, to_lo, to_hi);
    });
}
// Says whether it has sorted columns of this height.
template <class K>
bool sort_short_columns(i64 height, const K *const *row, i64 count, i64 room, K *to) {
    return with_groups<K>(height * height, [&](auto groups) {
        GroupedCells<decltype(groups)::value>::sort_columns(row, count, room, to);
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
