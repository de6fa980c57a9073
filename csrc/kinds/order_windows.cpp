// Order statistics of each window by itself: a selection in linear time, or counts of equal cells in a table.
#include <algorithm>
#include <cstring>

#include "kinds/order_cells.h"

namespace ndpool {
namespace {

// The cells of one window that are there.
template <class K>
struct Cells {
    Scratch<K> keys;
    Scratch<i64> at, place;
    i64 count = 0;
    i64 first = 0;  // the place of the first real cell, there or not

    explicit Cells(i64 most)
        : keys(most, "cells of a window"), at(most, "cells of a window"), place(most, "cells of a window") {}
};

template <class K, bool FLOATS>
void gather_window(const Plan &plan, const Keying &keying, const K *x, const RowsOfWindow &rows, i64 weight, i64 o,
                   i64 element, Cells<K> &cells) {
    const Axis &axis = plan.last();
    const Axis::Taps taps = axis.taps(o);
    const K missing = static_cast<K>(keying.ones);
    i64 n = 0;
    cells.first = rows.rows[0].place + taps.skipped * weight;
    for (i64 r = 0; r < rows.count; ++r) {
        i64 at = rows.rows[r].at + taps.first * plan.inner + element,
            place = rows.rows[r].place + taps.skipped * weight;
        for (i64 k = 0; k < taps.count; ++k, at += axis.dilation * plan.inner, place += weight) {
            const K key = key_of<K, FLOATS>(x[at], keying);
            cells.keys[n] = key, cells.at[n] = at, cells.place[n] = place;
            n += !keying.skips || key != missing;
        }
    }
    cells.count = n;
}

// --- quantiles ------------------------------------------------------------------------------------

// The cell that is the `wanted`-th in row-major order of those with this key.
template <class K>
i64 cell_with(const Cells<K> &cells, K key, i64 wanted, bool in_order, Scratch<i64> &equal) {
    if (in_order) {
        for (i64 i = 0;; ++i)
            if (cells.keys[i] == key && wanted-- == 0) return i;
    }
    equal.grow(cells.count, "equal cells of a window");
    i64 n = 0;
    for (i64 i = 0; i < cells.count; ++i)
        if (cells.keys[i] == key) equal[n++] = i;
    std::nth_element(equal.data(), equal.data() + wanted, equal.data() + n,
                     [&](i64 a, i64 b) { return cells.place[a] < cells.place[b]; });
    return equal[wanted];
}

template <class K>
struct Ordered {
    K lo, hi;
    i64 below_lo, below_hi;  // cells with lesser keys
};

// The keys at two neighbouring ranks of bytes, by counting them.
Ordered<std::uint8_t> ranked(const std::uint8_t *keys, i64 n, i64 lo, i64 hi, Scratch<std::uint8_t> &) {
    i64 counts[256] = {};
    for (i64 i = 0; i < n; ++i) ++counts[keys[i]];
    Ordered<std::uint8_t> found{};
    i64 below = 0;
    int key = 0;
    while (below + counts[key] <= lo) below += counts[key++];
    found.lo = static_cast<std::uint8_t>(key), found.below_lo = below;
    while (below + counts[key] <= hi) below += counts[key++];
    found.hi = static_cast<std::uint8_t>(key), found.below_hi = below;
    return found;
}
template <class K>
Ordered<K> ranked(const K *keys, i64 n, i64 lo, i64 hi, Scratch<K> &room) {
    room.grow(n, "cells of a window in order");
    K *const copy = room.data();
    std::memcpy(copy, keys, static_cast<std::size_t>(n) * sizeof(K));
    std::nth_element(copy, copy + lo, copy + n);
    Ordered<K> found{copy[lo], copy[lo], 0, 0};
    if (hi != lo) found.hi = *std::min_element(copy + hi, copy + n);
    for (i64 i = 0; i < n; ++i) found.below_lo += keys[i] < found.lo, found.below_hi += keys[i] < found.hi;
    return found;
}

template <class K>
struct QuantileOfWindow {
    const Keying &keying;
    const Call &call;
    Scratch<K> room;
    Scratch<i64> equal;

    Found operator()(const Cells<K> &cells) {
        const bool in_order = !call.pooled;
        const Between wanted = between(cells.count, call.order, call.parameter);
        const Ordered<K> ranks = ranked(cells.keys.data(), cells.count, wanted.lo, wanted.hi, room);
        if (keying.floats && !keying.skips_nan)
            for (i64 i = 0; i < cells.count; ++i)
                if (cells.keys[i] == static_cast<K>(keying.nan)) return found(cells, first_nan(cells, in_order));
        Found result = found(cells, cell_with(cells, ranks.lo, wanted.lo - ranks.below_lo, in_order, equal));
        if (wanted.hi == wanted.lo) return result;
        result.hi = cells.at[cell_with(cells, ranks.hi, wanted.hi - ranks.below_hi, in_order, equal)];
        result.share = wanted.share;
        return result;
    }

  private:
    static Found found(const Cells<K> &cells, i64 i) { return {cells.at[i], cells.at[i], 0, cells.place[i]}; }
    i64 first_nan(const Cells<K> &cells, bool in_order) {
        return cell_with(cells, static_cast<K>(keying.nan), 0, in_order, equal);
    }
};

// --- modes ----------------------------------------------------------------------------------------

// How many cells have each key: a table with open addressing, at most half full.
template <class K>
class ModeOfWindow {
    struct Entry {
        K key;
        i64 count, first;  // of its cells, the first in row-major order, by its number
    };

  public:
    ModeOfWindow(const Keying &, const Call &call, i64 most) : call(call) {
        bits = 1;
        while ((i64(1) << bits) < 2 * most && bits < 8 * static_cast<i64>(sizeof(K)) + 1) ++bits;
        slots = Scratch<std::int32_t>(i64(1) << bits, "keys of a window");
        std::fill_n(slots.data(), i64(1) << bits, -1);
        entries = Scratch<Entry>(most, "keys of a window");
        used = Scratch<i64>(most, "keys of a window");
    }

    Found operator()(const Cells<K> &cells) {
        i64 n = 0;
        for (i64 i = 0; i < cells.count; ++i) {
            const i64 slot = slot_of(cells.keys[i]);
            if (slots[slot] < 0) {
                used[n] = slot, entries[n] = {cells.keys[i], 1, i};
                slots[slot] = static_cast<std::int32_t>(n++);
                continue;
            }
            Entry &entry = entries[slots[slot]];
            ++entry.count;
            if (cells.place[i] < cells.place[entry.first]) entry.first = i;
        }
        i64 best = 0;
        for (i64 e = 1; e < n; ++e)
            if (beats(entries[e], entries[best], cells)) best = e;
        const i64 cell = entries[best].first;
        for (i64 e = 0; e < n; ++e) slots[used[e]] = -1;
        return {cells.at[cell], cells.at[cell], 0, cells.place[cell]};
    }

  private:
    const Call &call;
    i64 bits;
    Scratch<std::int32_t> slots;
    Scratch<Entry> entries;
    Scratch<i64> used;

    i64 slot_of(K key) const {
        const std::uint64_t mask = (std::uint64_t(1) << bits) - 1;
        std::uint64_t slot = (std::uint64_t(key) * 0x9e3779b97f4a7c15u) >> (64 - bits);
        while (slots[static_cast<i64>(slot)] >= 0 && entries[slots[static_cast<i64>(slot)]].key != key)
            slot = (slot + 1) & mask;
        return static_cast<i64>(slot);
    }
    bool beats(const Entry &a, const Entry &b, const Cells<K> &cells) const {
        if (a.count != b.count) return a.count > b.count;
        if (call.order == Order::MODE_FIRST) return cells.place[a.first] < cells.place[b.first];
        return a.key < b.key;
    }
};

// --- all windows ----------------------------------------------------------------------------------

template <class K, bool FLOATS, class Of>
void find_in_rows(const Plan &plan, const Call &call, const Keying &keying, Of &of, const FoundRows &to) {
    const Weights weights(plan, call.pooled);
    RowsOfWindow rows(plan, weights);
    Cells<K> cells(plan.cells);
    const i64 least = least_count(call);
    Scratch<Found> found(plan.out_row, "cells of a row");
    for (i64 row = 0; row < plan.out_rows; ++row) {
        rows.move_to(row);
        for (i64 o = 0; o < plan.last().output; ++o)
            for (i64 e = 0; e < plan.inner; ++e) {
                gather_window<K, FLOATS>(plan, keying, static_cast<const K *>(call.x), rows,
                                         weights.of[plan.axis_count - 1], o, e, cells);
                found[o * plan.inner + e] = cells.count < least ? Found{-1, -1, 0, cells.first} : of(cells);
            }
        to.take(to.self, row, found.data());
    }
}

template <class K, bool FLOATS>
void find_in_windows(const Plan &plan, const Call &call, const FoundRows &to) {
    const Keying keying(call);
    if (is_mode(call.order)) {
        ModeOfWindow<K> mode(keying, call, plan.cells);
        return find_in_rows<K, FLOATS>(plan, call, keying, mode, to);
    }
    QuantileOfWindow<K> quantile{keying, call, {}, {}};
    find_in_rows<K, FLOATS>(plan, call, keying, quantile, to);
}

}  // namespace

void find_by_windows(const Plan &plan, const Call &call, const FoundRows &to) {
    with_keys(call.type, [&](auto zero, auto floats) {
        find_in_windows<decltype(zero), decltype(floats)::value>(plan, call, to);
    });
}

}  // namespace ndpool
