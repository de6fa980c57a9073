// Order statistics of small windows, as many windows at a time as a register has lanes.
#pragma once
#include "kinds/networks.h"
#include "kinds/order_results.h"
#include "kinds/order_rows.h"
#include "passes/rows.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// --- registers of keys ----------------------------------------------------------------------------

template <class V>
NDPOOL_INLINE V lesser(V a, V b) {
#if defined(__AVX512F__)
    if constexpr (sizeof a == 64) {
        const __m512i x = bits<__m512i>(a), y = bits<__m512i>(b);
        if constexpr (sizeof a[0] == 1) return bits<V>(_mm512_min_epu8(x, y));
        if constexpr (sizeof a[0] == 2) return bits<V>(_mm512_min_epu16(x, y));
        if constexpr (sizeof a[0] == 4) return bits<V>(_mm512_min_epu32(x, y));
        if constexpr (sizeof a[0] == 8) return bits<V>(_mm512_min_epu64(x, y));
    }
#elif defined(__AVX2__)
    if constexpr (sizeof a == 32 && sizeof a[0] < 8) {
        const __m256i x = bits<__m256i>(a), y = bits<__m256i>(b);
        if constexpr (sizeof a[0] == 1) return bits<V>(_mm256_min_epu8(x, y));
        if constexpr (sizeof a[0] == 2) return bits<V>(_mm256_min_epu16(x, y));
        if constexpr (sizeof a[0] == 4) return bits<V>(_mm256_min_epu32(x, y));
    }
#endif
    return a < b ? a : b;
}
template <class V>
NDPOOL_INLINE V greater(V a, V b) {
#if defined(__AVX512F__)
    if constexpr (sizeof a == 64) {
        const __m512i x = bits<__m512i>(a), y = bits<__m512i>(b);
        if constexpr (sizeof a[0] == 1) return bits<V>(_mm512_max_epu8(x, y));
        if constexpr (sizeof a[0] == 2) return bits<V>(_mm512_max_epu16(x, y));
        if constexpr (sizeof a[0] == 4) return bits<V>(_mm512_max_epu32(x, y));
        if constexpr (sizeof a[0] == 8) return bits<V>(_mm512_max_epu64(x, y));
    }
#elif defined(__AVX2__)
    if constexpr (sizeof a == 32 && sizeof a[0] < 8) {
        const __m256i x = bits<__m256i>(a), y = bits<__m256i>(b);
        if constexpr (sizeof a[0] == 1) return bits<V>(_mm256_max_epu8(x, y));
        if constexpr (sizeof a[0] == 2) return bits<V>(_mm256_max_epu16(x, y));
        if constexpr (sizeof a[0] == 4) return bits<V>(_mm256_max_epu32(x, y));
    }
#endif
    return a < b ? b : a;
}
// sum + 1 where a and b are equal, or where a is less, and the sum elsewhere.
#if defined(__AVX512BW__)
#define NDPOOL_COUNT(COMPARE, BITS)                                              \
    bits<V>(_mm512_mask_add_epi##BITS(s, _mm512_##COMPARE##BITS##_mask(x, y), s, \
                                      bits<__m512i>(splat<std::decay_t<decltype(a[0])>, sizeof a / sizeof a[0]>(1))))
#define NDPOOL_COUNT_IN_REGISTER(COMPARE)                                                 \
    if constexpr (sizeof a == 64) {                                                       \
        const __m512i x = bits<__m512i>(a), y = bits<__m512i>(b), s = bits<__m512i>(sum); \
        if constexpr (sizeof a[0] == 1) return NDPOOL_COUNT(COMPARE, 8);                  \
        if constexpr (sizeof a[0] == 2) return NDPOOL_COUNT(COMPARE, 16);                 \
        if constexpr (sizeof a[0] == 4) return NDPOOL_COUNT(COMPARE, 32);                 \
        if constexpr (sizeof a[0] == 8) return NDPOOL_COUNT(COMPARE, 64);                 \
    }
#else
#define NDPOOL_COUNT_IN_REGISTER(COMPARE)
#endif
template <class V>
NDPOOL_INLINE V count_equal(V sum, V a, V b) {
    NDPOOL_COUNT_IN_REGISTER(cmpeq_epu)
    return sum - bits<V>(a == b);
}
template <class V>
NDPOOL_INLINE V count_less(V sum, V a, V b) {
    NDPOOL_COUNT_IN_REGISTER(cmplt_epu)
    return sum - bits<V>(a < b);
}

// --- one register of windows ------------------------------------------------------------------------

// Which cells a register of windows sees: their keys, and which of them are there.
template <class K>
struct LaneCells {
    const K *const *at;     // of each cell
    const K *const *there;  // of each cell, all ones in the lanes where it is real; null where it is in all
    int count;
    i64 element;  // the first of the row's that the register has
    bool skips;   // whether cells with the largest key are not there
};

// What was found for it.
template <class K>
struct LaneFound {
    vec<K, KEY_LANES<K>> lo, hi;              // keys
    vec<K, KEY_LANES<K>> count;               // of cells that are there
    vec<K, KEY_LANES<K>> lo_place, hi_place;  // numbers of cells
};

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
template <class K>
bool find_of_few(int cells, int lo, int hi, const K *const *at, i64 first, i64 count, K *to_lo, K *to_hi) {
    if constexpr (!LEVEL_IS_TUNED) return false;
    if (cells == 4)
        find_of_few<4>(lo, hi, at, first, count, to_lo, to_hi, std::make_integer_sequence<int, 4>());
    else if (cells == 9)
        find_of_few<9>(lo, hi, at, first, count, to_lo, to_hi, std::make_integer_sequence<int, 9>());
    else
        return false;
    return true;
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

    // As many are there as found.count says; the others have the largest key.
    NDPOOL_INLINE void find_of_some(const LaneCells<K> &cells, const Network &sorts, LaneFound<K> &found) const {
        V v[MOST_IN_NETWORK][1], last{}, lo_rank{}, hi_rank{};
        const int n = cells.count;
        for (int i = 0; i < n; ++i) v[i][0] = load<N>(cells.at[i] + cells.element);
        run<1>(sorts, v);
        found.lo = found.hi = v[0][0];
        for (int c = 1; c <= n; ++c) {
            const V here = bits<V>(found.count == static_cast<K>(c));
            const int lo = ranks.lo[c], hi = ranks.hi[c];
            found.lo = here ? v[lo][0] : found.lo;
            found.hi = here ? v[hi][0] : found.hi;
            if (looks_for_nan) last = here ? v[c - 1][0] : last;
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

// --- rows of windows --------------------------------------------------------------------------------

// A row of outputs as it was found.
template <class K>
struct FoundKeys {
    Scratch<K> lo, hi, count, lo_place, hi_place;

    explicit FoundKeys(i64 row)
        : lo(row + 2 * KEY_LANES<K>, "keys of a row"),
          hi(row + 2 * KEY_LANES<K>, "keys of a row"),
          count(row + 2 * KEY_LANES<K>, "counts of a row"),
          lo_place(row + 2 * KEY_LANES<K>, "places of a row"),
          hi_place(row + 2 * KEY_LANES<K>, "places of a row") {}
};

template <class K>
class OrderPooler {
    static constexpr int N = KEY_LANES<K>;
    using V = vec<K, N>;

  public:
    // `found` is where all goes if the values are not all that is asked for.
    OrderPooler(const Plan &plan, const Call &call, const FoundRows *found)
        : plan(plan),
          call(call),
          keying(call),
          found_rows(found),
          rows(plan, keying, call.x),
          axis(plan.last()),
          whole(whole_outputs(axis, 0, axis.output)),
          window(plan, call),
          keys(plan.out_row) {
        // What the sign of a zero is, the cell itself says.
        by_cells = found || call.dy || (rows.odd.negative_zero && keying.floats) || (axis.adaptive && call.winners);
        needs_places = by_cells || call.winners;
        least = call.skip.any && call.skip.min_count > 1 ? call.skip.min_count : 1;
        if (is_between_cells(call.order) || !is_mode(call.order)) {
            ranks.lo[0] = ranks.hi[0] = 0, shares[0] = 0;
            for (i64 n = 1; n <= plan.cells; ++n) {
                const Between between_cells = between(n, call.order, call.parameter);
                ranks.lo[n] = static_cast<std::uint8_t>(between_cells.lo);
                ranks.hi[n] = static_cast<std::uint8_t>(between_cells.hi);
                shares[n] = between_cells.share;
            }
        }
        if (by_cells) cells_found = Scratch<Found>(plan.out_row, "cells of a row");
        if (!keying.skips && !axis.adaptive && !plan.same_real) mark_edges();
    }

    void pool() {
        OutputRow seen(plan);
        seen.move_to(0);
        for (i64 row = 0; row < plan.out_rows; ++row) {
            const bool like_before = row > 0 && seen.ahead > 0;
            if (row > 0) seen.move_on(1);
            if (axis.adaptive) {
                for (i64 o = 0; o < axis.output; ++o) pool_bin(seen, o);
            } else {
                if (like_before && rows.are_alike())
                    move_cells(seen.step);
                else
                    list_cells(seen, 0, axis.kernel, axis.start(0));
                pool_row(seen);
            }
            finish(row);
        }
    }

  private:
    // The cells of a whole window in the caller's row-major order.
    struct Cell {
        i64 tag, tap, place;
    };
    struct WholeWindow {
        Scratch<Cell> cells;
        WholeWindow(const Plan &plan, const Call &call) : cells(plan.cells, "cells of a window") {
            const Weights weights(plan, call.pooled);
            const Axis &last = plan.last();
            for (i64 tag = 0; tag < plan.outer_cells; ++tag) {
                i64 first = 0, rest = tag;
                for (int a = plan.axis_count - 2; a >= 0; --a) {
                    first += rest % plan.axes[a].kernel * weights.of[a];
                    rest /= plan.axes[a].kernel;
                }
                for (i64 tap = 0; tap < last.kernel; ++tap) {
                    const i64 place = first + tap * weights.of[plan.axis_count - 1];
                    cells[place] = {tag, tap, place};
                }
            }
        }
    };

    const Plan &plan;
    const Call &call;
    const Keying keying;
    const FoundRows *found_rows;
    const KeyRows<K> rows;
    const Axis &axis;
    const WholeOutputs whole;  // along a row
    const WholeWindow window;
    FoundKeys<K> keys;
    bool by_cells, needs_places;
    i64 least;
    Ranks ranks;
    double shares[MOST_IN_NETWORK + 1];
    Scratch<Found> cells_found;
    Scratch<K> real_taps, there_of_tap;  // of each element of a row: real cells along it; which of them are there
    i64 there_room = 0;

    // The cells of the row at hand.
    int count = 0;
    const K *at[MOST_IN_NETWORK];
    const K *there[MOST_IN_NETWORK];
    i64 distance[MOST_IN_NETWORK], place[MOST_IN_NETWORK], tap[MOST_IN_NETWORK];
    bool counts = false;  // whether counts differ in the row
    const Network *selecting = nullptr, *sorting = nullptr;
    int selecting_of = -1, selecting_height = -1, sorting_of = -1;
    bool by_columns = false;
    const K *column_at[MOST_IN_NETWORK];
    Scratch<K> columns;

    // Which cells along a row are real, for each element of it.
    void mark_edges() {
        there_room = plan.out_row + N;
        real_taps = Scratch<K>(there_room, "real cells of a row");
        there_of_tap = Scratch<K>(axis.kernel * there_room, "real cells of a row");
        for (i64 o = 0; o < axis.output; ++o) {
            const Axis::Taps taps = axis.taps(o);
            for (i64 e = o * plan.inner; e < (o + 1) * plan.inner; ++e) {
                real_taps[e] = static_cast<K>(taps.count);
                for (i64 k = 0; k < axis.kernel; ++k) {
                    const bool real = k >= taps.skipped && k < taps.skipped + taps.count;
                    there_of_tap[k * there_room + e] = real ? static_cast<K>(keying.ones) : K(0);
                }
            }
        }
    }

    // Lists the cells of the rows that are there, from tap `first` on.
    void list_cells(const OutputRow &seen, i64 first, i64 taps, i64 start) {
        std::int16_t row_of_tag[MOST_IN_NETWORK];
        for (i64 tag = 0; tag < plan.outer_cells; ++tag) row_of_tag[tag] = -1;
        i64 row[MOST_IN_NETWORK];
        for (i64 r = 0; r < seen.count; ++r) {
            row_of_tag[seen.tag[r]] = static_cast<std::int16_t>(r);
            row[r] = (seen.base + seen.offset[r]) / plan.in_row;
        }
        count = 0;
        const i64 dilation = axis.adaptive ? 1 : axis.dilation;
        for (i64 i = 0; i < plan.cells; ++i) {
            const Cell &cell = window.cells[i];
            const i64 r = row_of_tag[cell.tag];
            if (r < 0 || cell.tap >= taps) continue;
            const i64 offset = seen.base + seen.offset[r];
            at[count] = rows.cell(row[r], cell.tap + first);
            there[count] = there_of_tap.data() + cell.tap * there_room;
            distance[count] = offset + (start + cell.tap * dilation) * plan.inner;
            tap[count] = cell.tap;
            place[count++] = cell.place;
        }
    }

    // The next row sees the same cells, so many elements further on.
    void move_cells(i64 step) {
        const i64 in_keys = step / plan.in_row * rows.row_room;
        for (int i = 0; i < count; ++i) at[i] += in_keys, distance[i] += step;
    }

    void pool_row(const OutputRow &seen) {
        const i64 first = whole.first * plan.inner, stop = whole.stop * plan.inner;
        counts = keying.skips || first > 0 || stop < plan.out_row;
        const bool by_rank = !is_mode(call.order) && !keying.skips;
        // Of few cells, values alone are found in registers.
        const bool known = by_rank && !needs_places && !rows.odd.nan && stop > first &&
                           find_of_few<K>(count, ranks.lo[count], ranks.hi[count], at, first, stop - first,
                                          keys.lo.data(), keys.hi.data());
        by_columns = by_rank && !known && axis.kernel > axis.stride && seen.count > 1;
        if (by_columns) sort_columns(seen);
        if (known && counts)
            for (i64 e = first; e < stop; ++e) keys.count[e] = static_cast<K>(count);
        for (i64 e = 0; e < plan.out_row;) {
            if (known && e >= first && e < stop) {
                e = stop;
                continue;
            }
            auto is_whole = [&](i64 lanes) {
                return !keying.skips && e >= first && (e + lanes <= stop || stop == plan.out_row);
            };
            // Two registers at a time keep the processor busy between the steps of a network.
            const bool two = plan.out_row - e > N && is_whole(2 * N);
            pool_block(e, two, is_whole(N), static_cast<K>(seen.count));
            e += two ? 2 * N : N;
        }
    }

    // A bin has cells of its own, which all elements of its place share.
    void pool_bin(const OutputRow &seen, i64 o) {
        const Axis::Taps taps = axis.taps(o);
        list_cells(seen, taps.first, taps.count, taps.first);
        counts = true;
        const i64 begin = o * plan.inner;
        for (int i = 0; i < count; ++i) at[i] -= begin;
        for (i64 e = begin; e < begin + plan.inner; e += N) {
            pool_block(e, false, !keying.skips, 0);
            if (by_cells) note_cells(e, e + N < begin + plan.inner ? e + N : begin + plan.inner, begin);
        }
    }

    // The rows of the window, sorted in each place along them: windows that overlap share the columns.
    void sort_columns(const OutputRow &seen) {
        const int height = static_cast<int>(seen.count);
        const i64 room = (rows.row_room + N - 1) / N * N;
        columns.grow(height * room + 2 * N, "sorted columns");
        const Network &network = network_of(height, ALL_RANKS, ALL_RANKS);
        const K *row[MOST_IN_NETWORK];
        for (int r = 0; r < height; ++r) row[r] = rows.cell((seen.base + seen.offset[r]) / plan.in_row, 0);
        for (i64 e = 0; e < rows.row_room; e += N) {
            V v[MOST_IN_NETWORK][1];
            for (int r = 0; r < height; ++r) v[r][0] = load<N>(row[r] + e);
            run<1>(network, v);
            for (int r = 0; r < height; ++r) store<N>(columns.data() + r * room + e, v[r][0]);
        }
        const K *const first = rows.cell(0, 0);
        for (int t = 0; t < static_cast<int>(axis.kernel); ++t)
            for (int r = 0; r < height; ++r)
                column_at[t * height + r] = columns.data() + r * room + (rows.cell(0, t) - first);
    }

    void pool_block(i64 e, bool two, bool whole, K row_count) {
        if (needs_places)
            pool_block_with<true>(e, two, whole, row_count);
        else
            pool_block_with<false>(e, two, whole, row_count);
    }
    template <bool PLACES>
    void pool_block_with(i64 e, bool two, bool whole, K row_count) {
        if (two && !is_mode(call.order)) return pool_quantiles<PLACES, 2>(e);
        if (whole && !is_mode(call.order)) return pool_quantiles<PLACES, 1>(e);
        pool_some<PLACES>(e, whole, row_count);
        if (two) pool_some<PLACES>(e + N, whole, row_count);
    }
    template <bool PLACES, int U>
    void pool_quantiles(i64 e) {
        LaneFound<K> found[U];
        const LaneCells<K> cells{at, nullptr, count, e, false};
        quantiles<PLACES>().find_of_all(cells, by_columns ? column_at : at, selects(), found);
        NDPOOL_UNROLL
        for (int u = 0; u < U; ++u) {
            found[u].count = splat<K, N>(static_cast<K>(count));
            put<PLACES>(e + u * N, found[u]);
        }
    }
    template <bool PLACES>
    LaneQuantiles<K, PLACES> quantiles() const {
        return {ranks, static_cast<K>(keying.nan), rows.odd.nan && !keying.skips_nan, is_between_cells(call.order)};
    }
    template <bool PLACES>
    void pool_some(i64 e, bool whole, K row_count) {
        LaneFound<K> found;
        const bool edge = !whole && !keying.skips;
        const LaneCells<K> cells{at, edge ? there : nullptr, count, e, keying.skips};
        if (whole)
            found.count = splat<K, N>(static_cast<K>(count));
        else if (edge)
            found.count = load<N>(real_taps.data() + e) * row_count;
        else
            found.count = count_there(cells);
        if (is_mode(call.order)) {
            LaneModes<K, PLACES>{call.order != Order::MODE_FIRST}.find(cells, found);
            found.hi_place = found.lo_place;
        } else {
            quantiles<PLACES>().find_of_some(cells, sorts(), found);
        }
        put<PLACES>(e, found);
    }
    template <bool PLACES>
    NDPOOL_INLINE void put(i64 e, const LaneFound<K> &found) {
        store<N>(keys.lo.data() + e, found.lo);
        if (is_between_cells(call.order)) store<N>(keys.hi.data() + e, found.hi);
        if (counts) store<N>(keys.count.data() + e, found.count);
        if constexpr (PLACES) {
            store<N>(keys.lo_place.data() + e, found.lo_place);
            store<N>(keys.hi_place.data() + e, found.hi_place);
        }
    }

    NDPOOL_INLINE V count_there(const LaneCells<K> &cells) const {
        V sum{};
        const V missing = splat<K, N>(static_cast<K>(keying.ones));
        for (int i = 0; i < cells.count; ++i) sum = count_equal(sum, load<N>(cells.at[i] + cells.element), missing);
        return static_cast<K>(cells.count) - sum;
    }

    // The networks of as many cells as the row at hand has.
    const Network &selects() {
        const int height = by_columns ? count / static_cast<int>(axis.kernel) : 1;
        if (selecting_of != count || selecting_height != height)
            selecting = &network_of_columns(count / height, height, ranks.lo[count], ranks.hi[count]),
            selecting_of = count, selecting_height = height;
        return *selecting;
    }
    const Network &sorts() {
        if (sorting_of != count) sorting = &network_of(count, ALL_RANKS, ALL_RANKS), sorting_of = count;
        return *sorting;
    }

    // --- results ----

    // What the elements begin..end-1 lean on; the first of those with the same list of cells is `base`.
    void note_cells(i64 begin, i64 end, i64 base) {
        const i64 step = axis.adaptive ? 0 : axis.stride * plan.inner;
        const bool two = is_between_cells(call.order);
        i64 output = (begin - base) / plan.inner, element = (begin - base) % plan.inner;
        for (i64 e = begin; e < end; ++e) {
            const i64 from = output * step + element;
            const i64 n = counts ? static_cast<i64>(keys.count[e]) : count;
            if (n < least) {
                cells_found[e] = {-1, -1, 0, first_real(e)};
            } else {
                const auto lo = keys.lo_place[e], hi = keys.hi_place[e];
                cells_found[e] = {distance[lo] + from, distance[two ? hi : lo] + from, two ? shares[n] : 0, place[lo]};
            }
            if (++element == plan.inner) element = 0, ++output;
        }
    }
    // The place of a cell that is real, skipped or not.
    i64 first_real(i64 e) const {
        const i64 o = e / plan.inner;
        const Axis::Taps taps = axis.taps(o);
        for (int i = 0; i < count; ++i) {
            if (axis.adaptive || (tap[i] >= taps.skipped && tap[i] < taps.skipped + taps.count)) return place[i];
        }
        return 0;
    }

    void finish(i64 row) {
        if (by_cells) {
            if (!axis.adaptive) note_cells(0, plan.out_row, 0);
            if (found_rows) return found_rows->take(found_rows->self, row, cells_found.data());
            return OrderResults{call, plan.out_row}.take(row, cells_found.data());
        }
        if (call.winners) put_winners(row * plan.out_row);
        if (is_between_cells(call.order))
            put_between(row * plan.out_row);
        else
            put_cells(row * plan.out_row);
    }

    void put_winners(i64 start) const {
        with_bits(call.winner_bytes, [&](auto zero) {
            using W = decltype(zero);
            W *to = static_cast<W *>(call.winners) + start;
            const K *numbers = keys.lo_place.data();
            if (count == plan.cells)  // all are there, and each has its number's place
                for (i64 e = 0; e < plan.out_row; ++e) to[e] = static_cast<W>(numbers[e]);
            else
                for (i64 e = 0; e < plan.out_row; ++e) to[e] = static_cast<W>(place[numbers[e]]);
            if (!counts) return;
            for (i64 e = 0; e < plan.out_row; ++e)
                if (static_cast<i64>(keys.count[e]) < least) to[e] = static_cast<W>(first_real(e) + call.skip.beyond);
        });
    }

    void put_cells(i64 start) const {
        K *const y = static_cast<K *>(call.y) + start, *const found = keys.lo.data();
        cells_of_keys(keying, found, plan.out_row);
        const K absent = static_cast<K>(call.skip.absent);
        if (keying.skips)
            for (i64 e = 0; e < plan.out_row; ++e) y[e] = static_cast<i64>(keys.count[e]) < least ? absent : found[e];
        else
            std::memcpy(y, found, static_cast<std::size_t>(plan.out_row) * sizeof(K));
    }

    void put_between(i64 start) const {
        cells_of_keys(keying, keys.lo.data(), plan.out_row);
        cells_of_keys(keying, keys.hi.data(), plan.out_row);
        with_type(call.type, [&](auto zero) {
            using T = decltype(zero);
            if constexpr (sizeof(T) == sizeof(K)) {
                using Y = std::conditional_t<std::is_integral_v<T>, double, T>;
                put_between_as<T>(static_cast<Y *>(call.y) + start);
            }
        });
    }
    template <class T, class Y>
    void put_between_as(Y *y) const {
        constexpr int D = LANES<double>;
        const T *a = reinterpret_cast<const T *>(keys.lo.data()), *b = reinterpret_cast<const T *>(keys.hi.data());
        Y some[D];
        for (i64 e = 0; e < plan.out_row; e += D) {
            vec<double, D> share = splat<double, D>(counts ? 0 : shares[count]);
            if (counts)
                for (int i = 0; i < D; ++i) share[i] = shares[keys.count[e + i < plan.out_row ? e + i : e]];
            const vec<double, D> lo = load_as<double, D>(a + e), hi = load_as<double, D>(b + e);
            vec<double, D> mix = (1 - share) * lo + share * hi;
            auto equal = lo == hi;
            if constexpr (std::is_integral_v<T> && sizeof(T) == 8) equal = load<D>(a + e) == load<D>(b + e);
            mix = (equal | (share == 0)) ? lo : mix;
            Y *const to = e + D <= plan.out_row ? y + e : some;
            store_as<D>(to, mix);
            if (to == some)
                for (i64 i = e; i < plan.out_row; ++i) y[i] = some[i - e];
        }
        if (!keying.skips) return;
        for (i64 e = 0; e < plan.out_row; ++e)
            if (static_cast<i64>(keys.count[e]) < least) std::memcpy(y + e, &call.skip.absent, sizeof(Y));
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
