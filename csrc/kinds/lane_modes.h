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
        if (all && is_zero(differ)) {
            found.lo = v[0];
            return;
        }
        if (all && n > 6 && find_majority(v, n, found)) return;
        if (all)
            find_most<false>(v, v, n, found);
        else
            find_most_there(v, cells, found);
    }

  private:
    // The one that more than half of the cells have, if it is so in all lanes (Boyer and Moore).
    NDPOOL_INLINE bool find_majority(const V *v, int n, LaneFound<K> &found) const {
        V candidate = v[0], votes = splat<K, N>(1), count{};
        for (int i = 1; i < n; ++i) {
            const V none = bits<V>(votes == 0);
            candidate = none ? v[i] : candidate;
            const V equal = bits<V>(v[i] == candidate);
            votes += 1 - 2 * (~equal & 1);
        }
        for (int i = 0; i < n; ++i) count = count_equal(count, v[i], candidate);
        if (!is_zero(bits<V>(count <= static_cast<K>(n / 2)))) return false;
        found.lo = candidate;
        if constexpr (PLACES)
            for (int i = n - 1; i >= 0; --i)
                found.lo_place = v[i] == candidate ? splat<K, N>(static_cast<K>(i)) : found.lo_place;
        return true;
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
