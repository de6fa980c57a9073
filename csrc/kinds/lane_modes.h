// Modes of small windows, one a lane.
#pragma once
#include "kinds/key_registers.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// The value that most cells have: every cell is compared with those after it. The first of those that are equal is
// compared with all of them, so its count is the right one, and no other's is greater.
template <class K, bool PLACES>
class LaneModes {
    static constexpr int N = KEY_LANES<K>;
    using V = vec<K, N>;

  public:
    bool smallest;  // of several, the least key; else the first cell

    NDPOOL_INLINE void find(const LaneCells<K> &cells, LaneFound<K> &found) const {
        V v[MOST_IN_NETWORK];
        const int n = cells.count;
        V differ{};
        for (int i = 0; i < n; ++i) {
            v[i] = load<N>(cells.at[i] + cells.element);
            differ |= v[i] ^ v[0];
        }
        found.lo_place = V{};
        const bool all = !cells.there && !cells.skips;
        if (all) differ &= own_lanes(cells.lanes);
        if (all && is_zero(differ)) {
            found.lo = v[0];
            return;
        }
        if (all && n > 6) {
            V lacking = find_majority(v, n, found) & own_lanes(cells.lanes);
            if (is_zero(lacking) || (n > 24 && find_of_few_values(v, n, lacking, found)))
                return find_first(v, n, found);
        }
        if (all)
            find_most<false>(v, v, n, found);
        else
            find_most_there(v, cells, found);
    }

  private:
    // The one that more than half of the cells have (Boyer and Moore). Gives all ones in the lanes that have none.
    NDPOOL_INLINE V find_majority(const V *v, int n, LaneFound<K> &found) const {
        V candidate = v[0], votes = splat<K, N>(1), count{};
        for (int i = 1; i < n; ++i) {
            const V none = bits<V>(votes == 0);
            candidate = none ? v[i] : candidate;
            const V equal = bits<V>(v[i] == candidate);
            votes += 1 - 2 * (~equal & 1);
        }
        for (int i = 0; i < n; ++i) count = count_equal(count, v[i], candidate);
        found.lo = candidate;
        return bits<V>(count <= static_cast<K>(n / 2));
    }
    // The first cell that has what was found.
    NDPOOL_INLINE void find_first(const V *v, int n, LaneFound<K> &found) const {
        if constexpr (PLACES)
            for (int i = n - 1; i >= 0; --i)
                found.lo_place = v[i] == found.lo ? splat<K, N>(static_cast<K>(i)) : found.lo_place;
    }

    // To compare every cell with every other takes the square of their number. So in long windows one value after the
    // other is taken out of the cells of each lane, the one with the most votes first, until those left are too few to
    // have more of any. Says whether that was soon, as it is with labels.
    bool find_of_few_values(const V *v, int n, V lacking, LaneFound<K> &found) const {
        const int few = n / 10;  // at this many turns it would take half as long as the square
        V taken[MOST_IN_NETWORK], value = found.lo, best{}, left = splat<K, N>(static_cast<K>(n));
        for (int i = 0; i < n; ++i) taken[i] = V{};
        for (int turn = 0; turn < few; ++turn) {
            V count{}, next = value;
            for (int i = n - 1; i >= 0; --i) {
                const V equal = bits<V>(v[i] == value), gone = taken[i] | equal;
                count -= equal & ~taken[i];
                next = gone ? next : v[i];
                taken[i] = gone;
            }
            left -= count;
            V better = bits<V>(count > best);
            const V tied = bits<V>(count == best) & bits<V>(count != 0);
            if (!is_zero(tied)) better |= tied & comes_before(v, n, value, found.lo);
            best = better ? count : best, found.lo = better ? value : found.lo;
            // As many that are equal may still be the smallest, or seen first.
            lacking &= bits<V>(left >= best);
            if (is_zero(lacking)) return true;
            // After a few turns without a value that many have, it would take many more.
            if (turn > 1 && !is_zero(lacking & bits<V>((left >> 2) > best))) return false;
            value = next;
        }
        return false;
    }
    // Whether a value is preferred to another that as many cells have.
    NDPOOL_INLINE V comes_before(const V *v, int n, V value, V other) const {
        if (smallest) return bits<V>(value < other);
        V before{}, known{};
        for (int i = 0; i < n; ++i) {
            before |= bits<V>(v[i] == value) & ~known;
            known |= bits<V>(v[i] == value) | bits<V>(v[i] == other);
        }
        return before;
    }
    // All ones in the lanes that are outputs of the row.
    static NDPOOL_INLINE V own_lanes(i64 lanes) {
        K number[N];
        for (int l = 0; l < N; ++l) number[l] = static_cast<K>(l);
        return lanes >= N ? ~V{} : bits<V>(load<N>(number) < static_cast<K>(lanes));
    }

    NDPOOL_INLINE void find_most_there(const V *v, const LaneCells<K> &cells, LaneFound<K> &found) const {
        V there[MOST_IN_NETWORK];
        for (int i = 0; i < cells.count; ++i)
            there[i] = cells.skips ? bits<V>(v[i] != static_cast<K>(~K(0))) : load<N>(cells.there[i] + cells.element);
        find_most<true>(v, there, cells.count, found);
    }

    // SOME says that cells are there where `there` is all ones.
    template <bool SOME>
    NDPOOL_INLINE void find_most(const V *v, const V *there, int n, LaneFound<K> &found) const {
        V best{};
        found.lo = v[0];
        for (int i = 0; i < n; ++i) {
            const V key = v[i];
            V count = splat<K, N>(1);
            for (int j = i + 1; j < n; ++j) {
                if constexpr (SOME)
                    count -= bits<V>(key == v[j]) & there[j];
                else
                    count = count_equal(count, key, v[j]);
            }
            if constexpr (SOME) count &= there[i];
            V better = bits<V>(count > best);
            if (smallest) better |= bits<V>(count == best) & bits<V>(key < found.lo) & bits<V>(count != 0);
            best = better ? count : best;
            found.lo = better ? key : found.lo;
            if constexpr (PLACES) found.lo_place = better ? splat<K, N>(static_cast<K>(i)) : found.lo_place;
        }
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
