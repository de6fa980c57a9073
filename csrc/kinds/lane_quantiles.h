// Quantiles of small windows, one a lane, by networks.
#pragma once
#include "kinds/key_registers.h"
#include "kinds/networks.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// The ranks between which a quantile of n cells lies, for every n.
struct Ranks {
    std::uint8_t lo[MOST_IN_NETWORK + 1], hi[MOST_IN_NETWORK + 1];
};

// Runs a network on U registers of each cell.
template <int U, class V>
NDPOOL_INLINE void run(const Network &network, V (*v)[U]) {
    for (int i = 0; i < network.count; ++i) {
        const Comparison step = network.steps[i];
        V a[U], b[U];
        NDPOOL_UNROLL
        for (int u = 0; u < U; ++u) a[u] = v[step.lo][u], b[u] = v[step.hi][u];
        if (step.made != Comparison::GREATER) NDPOOL_UNROLL
        for (int u = 0; u < U; ++u) v[step.lo][u] = lesser(a[u], b[u]);
        if (step.made != Comparison::LESSER) NDPOOL_UNROLL
        for (int u = 0; u < U; ++u) v[step.hi][u] = greater(a[u], b[u]);
    }
}

// What stands at one or two ranks.
template <class K, bool PLACES>
class LaneQuantiles {
    static constexpr int N = KEY_LANES<K>;
    using V = vec<K, N>;

  public:
    const Ranks &ranks;
    K nan;
    bool looks_for_nan, two;

    // All cells are there. U registers of windows, whose cells `sorted` has in the order that the network asks for.
    template <int U>
    NDPOOL_INLINE void find_of_all(const LaneCells<K> &cells, const K *const *sorted, const Network &network,
                                   LaneFound<K> (&found)[U]) const {
        V v[MOST_IN_NETWORK][U];
        const int n = cells.count, lo = ranks.lo[n], hi = ranks.hi[n];
        for (int i = 0; i < n; ++i) NDPOOL_UNROLL
        for (int u = 0; u < U; ++u) v[i][u] = load<N>(sorted[i] + cells.element + u * N);
        V is_nan[U] = {};
        if (looks_for_nan)
            for (int i = 0; i < n; ++i) NDPOOL_UNROLL
        for (int u = 0; u < U; ++u) is_nan[u] |= bits<V>(v[i][u] == nan);
        run<U>(network, v);
        NDPOOL_UNROLL
        for (int u = 0; u < U; ++u) {
            LaneFound<K> &one = found[u];
            one.lo = v[network.at[lo]][u], one.hi = v[network.at[hi]][u];
            if (looks_for_nan) one.lo = is_nan[u] ? splat<K, N>(nan) : one.lo, one.hi = is_nan[u] ? one.lo : one.hi;
            if constexpr (PLACES) {
                LaneCells<K> own = cells;
                own.element += u * N;
                find_places(own, splat<K, N>(static_cast<K>(lo)), splat<K, N>(static_cast<K>(hi)), one);
            }
        }
    }

    // As many are there as found.count says; the others have the largest key. The network finds all ranks that a window
    // may ask for.
    NDPOOL_INLINE void find_of_some(const LaneCells<K> &cells, const K *const *sorted, const Network &network,
                                    LaneFound<K> &found) const {
        V v[MOST_IN_NETWORK][1], last{}, lo_rank{}, hi_rank{};
        const int n = cells.count;
        for (int i = 0; i < n; ++i) v[i][0] = load<N>(sorted[i] + cells.element);
        run<1>(network, v);
        found.lo = found.hi = v[network.at[0]][0];
        for (int c = 1; c <= n; ++c) {
            const V here = bits<V>(found.count == static_cast<K>(c));
            const int lo = ranks.lo[c], hi = ranks.hi[c];
            found.lo = here ? v[network.at[lo]][0] : found.lo;
            found.hi = here ? v[network.at[hi]][0] : found.hi;
            if (looks_for_nan) last = here ? v[network.at[c - 1]][0] : last;
            if constexpr (PLACES) {
                lo_rank = here ? splat<K, N>(static_cast<K>(lo)) : lo_rank;
                hi_rank = here ? splat<K, N>(static_cast<K>(hi)) : hi_rank;
            }
        }
        if (looks_for_nan) {
            const V is_nan = bits<V>(last == nan);
            found.lo = is_nan ? splat<K, N>(nan) : found.lo, found.hi = is_nan ? found.lo : found.hi;
        }
        if constexpr (PLACES) find_places(cells, lo_rank, hi_rank, found);
    }

  private:
    // Of the cells with a key, the one that has the rank: equal cells count in row-major order. Of NaNs, the first.
    NDPOOL_INLINE void find_places(const LaneCells<K> &cells, V lo_rank, V hi_rank, LaneFound<K> &found) const {
        found.lo_place = place_of(cells, found.lo, lo_rank);
        found.hi_place = two ? place_of(cells, found.hi, hi_rank) : found.lo_place;
    }
    // As many cells stand before it as there are at which fewer than the wanted number of equal ones were seen.
    NDPOOL_INLINE V place_of(const LaneCells<K> &cells, V wanted, V rank) const {
        V less{}, seen{}, place{};
        for (int i = 0; i < cells.count; ++i) less = count_less(less, load<N>(cells.at[i] + cells.element), wanted);
        V number = rank - less + 1;
        if (looks_for_nan) number = wanted == nan ? splat<K, N>(1) : number;
        for (int i = 0; i < cells.count; ++i) {
            const V key = load<N>(cells.at[i] + cells.element);
            if (cells.there)
                seen -= bits<V>(key == wanted) & load<N>(cells.there[i] + cells.element);
            else
                seen = count_equal(seen, key, wanted);
            place = count_less(place, seen, number);
        }
        return place;
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
