// Order statistics of each window by itself: a selection in linear time, or counts of equal cells in a table.
#include <algorithm>
#include <cstring>

#include "kinds/order_cells.h"

namespace ndpool {
namespace {

// The cells of one window, and those of them that are there.
template <class K>
struct Cells {
    const Plan &plan;
    const i64 weight;  // of a step along the row
    Scratch<K> keys;   // of all; the largest for those that are not there
    i64 all = 0, count = 0;
    // Where they are.
    const RowsOfWindow *rows = nullptr;
    Axis::Taps taps{};
    i64 element = 0;

    Cells(const Plan &plan, i64 weight) : plan(plan), weight(weight), keys(plan.cells, "cells of a window") {}

    template <bool FLOATS>
    void gather(const Keying &keying, const K *x) {
        const i64 step = plan.last().dilation * plan.inner;
        all = 0;
        for (i64 r = 0; r < rows->count; ++r) {
            const K *from = x + rows->rows[r].at + taps.first * plan.inner + element;
            K *to = keys.data() + all;
            if (step == 1)
                for (i64 k = 0; k < taps.count; ++k) to[k] = key_of<K, FLOATS>(from[k], keying);
            else
                for (i64 k = 0; k < taps.count; ++k) to[k] = key_of<K, FLOATS>(from[k * step], keying);
            all += taps.count;
        }
        count = all;
        if (!keying.skips) return;
        for (i64 i = 0; i < all; ++i) count -= keys[i] == static_cast<K>(keying.ones);
    }

    i64 at(i64 i) const {
        return rows->rows[i / taps.count].at + (taps.first + i % taps.count * plan.last().dilation) * plan.inner +
               element;
    }
    i64 place(i64 i) const { return rows->rows[i / taps.count].place + (taps.skipped + i % taps.count) * weight; }
    Found found(i64 i) const { return {at(i), at(i), 0, place(i)}; }
};

// --- quantiles ------------------------------------------------------------------------------------

// The cell that is the `wanted`-th in row-major order of those with this key.
template <class K>
i64 cell_with(const Cells<K> &cells, K key, i64 wanted, bool in_order, Scratch<i64> &equal) {
    if (in_order) {
        for (i64 i = 0;; ++i)
            if (cells.keys[i] == key && wanted-- == 0) return i;
    }
    equal.grow(cells.all, "equal cells of a window");
    i64 n = 0;
    for (i64 i = 0; i < cells.all; ++i)
        if (cells.keys[i] == key) equal[n++] = i;
    std::nth_element(equal.data(), equal.data() + wanted, equal.data() + n,
                     [&](i64 a, i64 b) { return cells.place(a) < cells.place(b); });
    return equal[wanted];
}

template <class K>
struct Ordered {
    K lo, hi;
    i64 below_lo, below_hi;  // cells with lesser keys
};

// The keys at two neighbouring ranks of bytes, by counting them. Cells that are not there have the largest key, which
// is beyond both.
Ordered<std::uint8_t> ranked(const Cells<std::uint8_t> &cells, bool, i64 lo, i64 hi, Scratch<std::uint8_t> &) {
    std::uint32_t counts[4][256] = {};
    i64 i = 0;
    for (; i + 4 <= cells.all; i += 4)
        for (i64 k = 0; k < 4; ++k) ++counts[k][cells.keys[i + k]];
    for (; i < cells.all; ++i) ++counts[0][cells.keys[i]];
    Ordered<std::uint8_t> found{};
    i64 below = 0;
    int key = 0;
    auto here = [&] { return i64(counts[0][key]) + counts[1][key] + counts[2][key] + counts[3][key]; };
    for (; below + here() <= lo; ++key) below += here();
    found.lo = static_cast<std::uint8_t>(key), found.below_lo = below;
    for (; below + here() <= hi; ++key) below += here();
    found.hi = static_cast<std::uint8_t>(key), found.below_hi = below;
    return found;
}
template <class K>
Ordered<K> ranked(const Cells<K> &cells, bool skips, i64 lo, i64 hi, Scratch<K> &room) {
    room.grow(cells.all, "cells of a window in order");
    K *const copy = room.data();
    i64 n = 0;
    if (skips)
        for (i64 i = 0; i < cells.all; ++i) copy[n] = cells.keys[i], n += cells.keys[i] != static_cast<K>(~K(0));
    else
        std::memcpy(copy, cells.keys.data(), static_cast<std::size_t>(n = cells.all) * sizeof(K));
    std::nth_element(copy, copy + lo, copy + n);
    Ordered<K> found{copy[lo], copy[lo], 0, 0};
    if (hi != lo) found.hi = *std::min_element(copy + hi, copy + n);
    for (i64 i = 0; i < cells.all; ++i)
        found.below_lo += cells.keys[i] < found.lo, found.below_hi += cells.keys[i] < found.hi;
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
        const K nan = static_cast<K>(keying.nan);
        if (keying.floats && !keying.skips_nan)
            for (i64 i = 0; i < cells.all; ++i)
                if (cells.keys[i] == nan) return cells.found(cell_with(cells, nan, 0, in_order, equal));
        const Ordered<K> ranks = ranked(cells, keying.skips, wanted.lo, wanted.hi, room);
        Found result = cells.found(cell_with(cells, ranks.lo, wanted.lo - ranks.below_lo, in_order, equal));
        if (wanted.hi == wanted.lo) return result;
        result.hi = cells.at(cell_with(cells, ranks.hi, wanted.hi - ranks.below_hi, in_order, equal));
        result.share = wanted.share;
        return result;
    }
};

// --- modes ----------------------------------------------------------------------------------------

// How many cells have each key: a table with open addressing, at most half full. A byte is its own place in it.
template <class K>
class ModeOfWindow {
    struct Entry {
        K key;
        i64 count, first;  // of its cells, the first in row-major order
    };
    static constexpr bool BYTES = sizeof(K) == 1;

  public:
    ModeOfWindow(const Keying &keying, const Call &call, i64 most) : keying(keying), call(call) {
        bits = BYTES ? 8 : 1;
        while (!BYTES && (i64(1) << bits) < 2 * most) ++bits;
        slots = Scratch<i64>(i64(1) << bits, "keys of a window");
        std::fill_n(slots.data(), i64(1) << bits, -1);
        entries = Scratch<Entry>(most, "keys of a window");
        used = Scratch<i64>(most, "keys of a window");
    }

    Found operator()(const Cells<K> &cells) {
        const bool in_order = !call.pooled;
        i64 n = 0;
        for (i64 i = 0; i < cells.all; ++i) {
            const K key = cells.keys[i];
            if (keying.skips && key == static_cast<K>(keying.ones)) continue;
            i64 &slot = slots[slot_of(key)];
            if (slot < 0) {
                used[n] = &slot - slots.data(), entries[n] = {key, 1, i};
                slot = n++;
            } else {
                Entry &entry = entries[slot];
                ++entry.count;
                if (!in_order && cells.place(i) < cells.place(entry.first)) entry.first = i;
            }
        }
        i64 best = 0;
        for (i64 e = 1; e < n; ++e)
            if (beats(entries[e], entries[best], cells)) best = e;
        for (i64 e = 0; e < n; ++e) slots[used[e]] = -1;
        return cells.found(entries[best].first);
    }

  private:
    const Keying &keying;
    const Call &call;
    i64 bits;
    Scratch<i64> slots, used;
    Scratch<Entry> entries;

    i64 slot_of(K key) const {
        if (BYTES) return static_cast<i64>(key);
        const std::uint64_t mask = (std::uint64_t(1) << bits) - 1;
        std::uint64_t slot = (std::uint64_t(key) * 0x9e3779b97f4a7c15u) >> (64 - bits);
        while (slots[static_cast<i64>(slot)] >= 0 && entries[slots[static_cast<i64>(slot)]].key != key)
            slot = (slot + 1) & mask;
        return static_cast<i64>(slot);
    }
    bool beats(const Entry &a, const Entry &b, const Cells<K> &cells) const {
        if (a.count != b.count) return a.count > b.count;
        if (call.order != Order::MODE_FIRST) return a.key < b.key;
        return call.pooled ? cells.place(a.first) < cells.place(b.first) : a.first < b.first;
    }
};

// --- all windows ----------------------------------------------------------------------------------

template <class K, bool FLOATS, class Of>
void find_in_rows(const Plan &plan, const Call &call, const Keying &keying, Of &of, const FoundRows &to) {
    const Weights weights(plan, call.pooled);
    RowsOfWindow rows(plan, weights);
    Cells<K> cells(plan, weights.of[plan.axis_count - 1]);
    cells.rows = &rows;
    const i64 least = least_count(call);
    Scratch<Found> found(plan.out_row, "cells of a row");
    for (i64 row = 0; row < plan.out_rows; ++row) {
        rows.move_to(row);
        for (i64 o = 0; o < plan.last().output; ++o) {
            cells.taps = plan.last().taps(o);
            for (cells.element = 0; cells.element < plan.inner; ++cells.element) {
                cells.template gather<FLOATS>(keying, static_cast<const K *>(call.x));
                found[o * plan.inner + cells.element] =
                    cells.count < least ? Found{-1, -1, 0, cells.place(0)} : of(cells);
            }
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
