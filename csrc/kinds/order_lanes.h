// Order statistics of small windows, as many windows at a time as a register has lanes.
#pragma once
#include "kinds/few_cells.h"
#include "kinds/grouped_cells.h"
#include "kinds/lane_modes.h"
#include "kinds/lane_quantiles.h"
#include "kinds/order_results.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

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

// Finds all outputs of a part, a row at a time.
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
        least = least_count(call);
        if (!is_mode(call.order)) {
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
        const bool by_rank = !is_mode(call.order);
        // Of few cells, values alone are found in registers.
        const bool in_registers = by_rank && !keying.skips && !needs_places && !rows.odd.nan && stop > first;
        const int lo = ranks.lo[count], hi = ranks.hi[count];
        bool known =
            in_registers && find_of_few<K>(count, lo, hi, at, first, stop - first, keys.lo.data(), keys.hi.data());
        by_columns = by_rank && !known && axis.kernel > axis.stride && seen.count > 1;
        const bool grouped = in_registers && !known && suits_groups<K>(count);
        if (grouped && seen.count != axis.kernel) by_columns = false;  // columns are no groups
        if (by_columns) sort_columns(seen);
        if (grouped) {
            find_of_groups<K>(count, by_columns, lo, hi, by_columns ? column_at : at, first, stop - first,
                              keys.lo.data(), keys.hi.data());
            known = true;
        }
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
            pool_block(e, two, is_whole(N), static_cast<K>(seen.count), plan.out_row);
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
            pool_block(e, false, !keying.skips, 0, begin + plan.inner);
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
        const bool sorted = sort_short_columns<K>(height, row, rows.row_room, room, columns.data());
        for (i64 e = 0; e < rows.row_room && !sorted; e += N) {
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

    // Up to element `end`, where that is before the registers'.
    void pool_block(i64 e, bool two, bool whole, K row_count, i64 end) {
        if (needs_places)
            pool_block_with<true>(e, two, whole, row_count, end);
        else
            pool_block_with<false>(e, two, whole, row_count, end);
    }
    template <bool PLACES>
    void pool_block_with(i64 e, bool two, bool whole, K row_count, i64 end) {
        if (two && !is_mode(call.order)) return pool_quantiles<PLACES, 2>(e);
        if (whole && !is_mode(call.order)) return pool_quantiles<PLACES, 1>(e);
        pool_some<PLACES>(e, whole, row_count, end);
        if (two) pool_some<PLACES>(e + N, whole, row_count, end);
    }
    template <bool PLACES, int U>
    void pool_quantiles(i64 e) {
        LaneFound<K> found[U];
        const LaneCells<K> cells{at, nullptr, count, e, false, N};
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
    void pool_some(i64 e, bool whole, K row_count, i64 end) {
        LaneFound<K> found;
        const bool edge = !whole && !keying.skips;
        const LaneCells<K> cells{at, edge ? there : nullptr, count, e, keying.skips, end - e};
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
            quantiles<PLACES>().find_of_some(cells, by_columns ? column_at : at, sorts(), found);
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
    struct KnownNetwork {
        const Network *network = nullptr;
        int cells = 0, height = 0;
    } selecting, sorting;

    const Network &network_for(KnownNetwork &known, int lo, int hi) {
        const int height = by_columns ? count / static_cast<int>(axis.kernel) : 1;
        if (known.cells != count || known.height != height)
            known = {&network_of_columns(count / height, height, lo, hi), count, height};
        return *known.network;
    }
    const Network &selects() { return network_for(selecting, ranks.lo[count], ranks.hi[count]); }
    // Where some cells are missing, any rank up to that of all cells may be asked for, and NaNs stand last.
    const Network &sorts() { return network_for(sorting, 0, rows.odd.nan ? count - 1 : ranks.hi[count]); }

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
            const vec<double, D> apart = hi - lo;
            vec<double, D> mix = share < 0.5 ? lo + apart * share : hi - apart * (1 - share);  // as `mixed` does
            mix = apart - apart != 0 ? (1 - share) * lo + share * hi : mix;
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
