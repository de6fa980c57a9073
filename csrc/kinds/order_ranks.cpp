// Quantiles of wide windows that overlap: the ranks of their cells, in a set that slides.
//
// All cells of a part are sorted once. A cell's rank among them is a number that no other has, equal cells in row-major
// order, so the cells of a window are a set of bits, and a quantile is the n-th bit that is set:
//
//     ranks of the part   . x . . x x . | . . x . . . x | ...     words, with a count each
//                               ^ the median of five
//
// A window that moves on takes the cells of its new columns in and lets those of its old ones go.
#include <cstring>
#include <utility>

#include "kinds/order_cells.h"

namespace ndpool {
namespace {

constexpr std::uint32_t NONE = ~std::uint32_t(0);

// The ranks of a part's cells.
struct Ranked {
    Scratch<std::uint32_t> rank_of, cell_at;  // of each element, NONE where it is skipped; and back
    i64 count = 0, numbers = 0;               // ranks; those before the first NaN

    explicit Ranked(i64 elements) : rank_of(elements, "ranks of cells"), cell_at(elements, "cells in order") {}
};

// The elements of a part in the row-major order of the caller's axes. Axes that are carried come first: cells along
// them are never in one window.
class CallersOrder {
  public:
    CallersOrder(const Plan &plan, const i64 *pooled) {
        i64 number[MAX_DIMS + 2];
        auto add = [&](i64 length, i64 step, i64 order) {
            int at = count++;
            for (; at > 0 && number[at - 1] > order; --at) {
                number[at] = number[at - 1];
                lengths[at] = lengths[at - 1], steps[at] = steps[at - 1];
            }
            number[at] = order, lengths[at] = length, steps[at] = step;
        };
        auto order_of = [&](int axis) { return axis < 0 ? i64(-1) : pooled ? pooled[axis] : i64(axis); };
        add(plan.inner, 1, -1);
        for (int d = 0; d < plan.dim_count; ++d)
            add(plan.dims[d].in_count, plan.dims[d].in_stride, order_of(plan.dims[d].axis));
        add(plan.last().length, plan.inner, order_of(plan.axis_count - 1));
    }

    template <class Use>
    void over_elements(const Use &use) const {
        over(0, 0, use);
    }

  private:
    int count = 0;
    i64 lengths[MAX_DIMS + 2], steps[MAX_DIMS + 2];

    template <class Use>
    void over(int depth, i64 at, const Use &use) const {
        for (i64 i = 0; i < lengths[depth]; ++i, at += steps[depth]) {
            if (depth + 1 == count)
                use(at);
            else
                over(depth + 1, at, use);
        }
    }
};

// Sorts the cells that are there by their keys, a digit of 11 bits at a time from the lowest on.
template <class K, bool FLOATS>
void rank_cells(const Plan &plan, const Call &call, const Keying &keying, Ranked &ranked) {
    constexpr int BITS = sizeof(K) == 1 ? 8 : 11, DIGITS = (8 * static_cast<int>(sizeof(K)) + BITS - 1) / BITS;
    constexpr i64 SIZE = i64(1) << BITS;
    Scratch<K> keys(plan.in_slab, "cells as keys");
    Scratch<std::uint32_t> other(plan.in_slab, "cells in order");
    Scratch<std::uint32_t> starts(DIGITS * SIZE, "counts of digits");
    std::memset(starts.data(), 0, static_cast<std::size_t>(DIGITS * SIZE) * sizeof(std::uint32_t));
    const K *x = static_cast<const K *>(call.x), missing = static_cast<K>(keying.ones);
    std::uint32_t *from = ranked.cell_at.data(), *to = other.data();
    i64 n = 0;
    CallersOrder(plan, call.pooled).over_elements([&](i64 at) {
        const K key = key_of<K, FLOATS>(x[at], keying);
        keys[at] = key;
        ranked.rank_of[at] = NONE;
        if (keying.skips && key == missing) return;
        from[n++] = static_cast<std::uint32_t>(at);
        for (int d = 0; d < DIGITS; ++d)
            ++starts[d * SIZE + static_cast<i64>((std::uint64_t(key) >> (d * BITS)) & (SIZE - 1))];
        if (FLOATS && key != static_cast<K>(keying.nan)) ++ranked.numbers;
    });
    ranked.count = n;
    if (!FLOATS) ranked.numbers = n;
    for (int d = 0; d < DIGITS; ++d) {
        std::uint32_t *start = starts.data() + d * SIZE, sum = 0;
        bool one_value = false;
        for (i64 i = 0; i < SIZE; ++i) {
            one_value |= start[i] == static_cast<std::uint32_t>(n);
            const std::uint32_t here = start[i];
            start[i] = sum, sum += here;
        }
        if (one_value) continue;
        for (i64 i = 0; i < n; ++i) to[start[(std::uint64_t(keys[from[i]]) >> (d * BITS)) & (SIZE - 1)]++] = from[i];
        std::swap(from, to);
    }
    if (from != ranked.cell_at.data())
        std::memcpy(ranked.cell_at.data(), from, static_cast<std::size_t>(n) * sizeof(std::uint32_t));
    for (i64 rank = 0; rank < n; ++rank) ranked.rank_of[ranked.cell_at[rank]] = static_cast<std::uint32_t>(rank);
}

// A set of ranks, of which the n-th is found near to where the one before was.
class RankSet {
  public:
    explicit RankSet(i64 ranks)
        : blocks(ranks / (64 * WORDS) + 2),
          words(blocks * WORDS, "a set of ranks"),
          in_word(blocks * WORDS, "counts of ranks"),
          in_block(blocks, "counts of ranks") {
        clear();
    }
    void clear() {
        std::memset(words.data(), 0, static_cast<std::size_t>(blocks * WORDS) * sizeof(std::uint64_t));
        std::memset(in_word.data(), 0, static_cast<std::size_t>(blocks * WORDS));
        std::memset(in_block.data(), 0, static_cast<std::size_t>(blocks) * sizeof(std::int32_t));
        count = at = below = 0;
    }

    i64 count = 0;

    void add(std::uint32_t rank) { change(rank, 1); }
    void remove(std::uint32_t rank) { change(rank, -1); }

    // The n-th rank of the set, from 0.
    std::uint32_t nth(i64 n) {
        while (below > n) below -= in_block[--at];
        while (below + in_block[at] <= n) below += in_block[at++];
        i64 word = at * WORDS, left = n - below;
        while (left >= in_word[word]) left -= in_word[word++];
        std::uint64_t bits = words[word];
        for (; left > 0; --left) bits &= bits - 1;
        return static_cast<std::uint32_t>(64 * word + __builtin_ctzll(bits));
    }
    // The next one after a rank of the set that is not the last.
    std::uint32_t next(std::uint32_t rank) const {
        i64 word = rank / 64;
        std::uint64_t bits = words[word] & (~std::uint64_t(1) << (rank % 64));
        while (!bits) bits = words[++word];
        return static_cast<std::uint32_t>(64 * word + __builtin_ctzll(bits));
    }

  private:
    static constexpr i64 WORDS = 16;  // of a block
    const i64 blocks;
    Scratch<std::uint64_t> words;
    Scratch<std::uint8_t> in_word;
    Scratch<std::int32_t> in_block;
    i64 at = 0, below = 0;  // the block where the last one was, and how many ranks stand before it

    void change(std::uint32_t rank, int by) {
        const i64 word = rank / 64, block = word / WORDS;
        words[word] ^= std::uint64_t(1) << (rank % 64);
        in_word[word] = static_cast<std::uint8_t>(in_word[word] + by);
        in_block[block] += by;
        count += by;
        below += block < at ? by : 0;
    }
};

// The windows of one output row, for one element of each place, from the first to the last.
class SlidingRow {
  public:
    SlidingRow(const Plan &plan, const Call &call, const Ranked &ranked, i64 weight)
        : plan(plan), call(call), ranked(ranked), weight(weight), least(least_count(call)), set(ranked.count) {}

    void find(const RowsOfWindow &rows, i64 element, Found *found) {
        const Axis &axis = plan.last();
        set.clear();
        nans = 0;
        i64 begin = 0, end = 0;  // the cells along the row whose ranks are in the set
        for (i64 o = 0; o < axis.output; ++o) {
            const Axis::Taps taps = axis.taps(o);
            for (; begin < taps.first && begin < end; ++begin) change<false>(rows, begin * plan.inner + element);
            if (end < taps.first) end = taps.first;
            begin = taps.first;
            for (; end < taps.first + taps.count; ++end) change<true>(rows, end * plan.inner + element);
            const i64 start = axis.start(o);
            found[o * plan.inner + element] = set.count < least
                                                  ? Found{-1, -1, 0, rows.rows[0].place + taps.skipped * weight}
                                                  : quantile(rows, start);
        }
    }

  private:
    const Plan &plan;
    const Call &call;
    const Ranked &ranked;
    const i64 weight, least;
    RankSet set;
    i64 nans = 0, known = -1;
    Between ranks{};  // of `known` cells

    template <bool ADD>
    void change(const RowsOfWindow &rows, i64 at) {
        const std::uint32_t *rank_of = ranked.rank_of.data() + at;
        for (i64 r = 0; r < rows.count; ++r) {
            const std::uint32_t rank = rank_of[rows.rows[r].at];
            if (rank == NONE) continue;
            const bool nan = static_cast<i64>(rank) >= ranked.numbers;
            if constexpr (ADD)
                set.add(rank), nans += nan;
            else
                set.remove(rank), nans -= nan;
        }
    }

    Found quantile(const RowsOfWindow &rows, i64 start) {
        if (nans) {  // the first of them
            const i64 cell = ranked.cell_at[set.nth(set.count - nans)];
            return {cell, cell, 0, place_of(rows, cell, start)};
        }
        if (set.count != known) ranks = between(set.count, call.order, call.parameter), known = set.count;
        const std::uint32_t lo = set.nth(ranks.lo);
        const i64 cell = ranked.cell_at[lo];
        const i64 other = ranks.hi == ranks.lo ? cell : i64(ranked.cell_at[set.next(lo)]);
        return {cell, other, ranks.share, call.winners ? place_of(rows, cell, start) : 0};
    }
    i64 place_of(const RowsOfWindow &rows, i64 cell, i64 start) const {
        if (!call.winners) return 0;
        const i64 row = cell / plan.in_row * plan.in_row, tap = (cell - row) / plan.inner - start;
        for (i64 r = 0;; ++r)
            if (rows.rows[r].at == row) return rows.rows[r].place + tap * weight;
    }
};

}  // namespace

void find_by_ranks(const Plan &plan, const Call &call, const FoundRows &to) {
    const Weights weights(plan, call.pooled);
    Ranked ranked(plan.in_slab);
    with_keys(call.type, [&](auto zero, auto floats) {
        rank_cells<decltype(zero), decltype(floats)::value>(plan, call, Keying(call), ranked);
    });
    SlidingRow row_of(plan, call, ranked, weights.of[plan.axis_count - 1]);
    RowsOfWindow rows(plan, weights);
    Scratch<Found> found(plan.out_row, "cells of a row");
    for (i64 row = 0; row < plan.out_rows; ++row) {
        rows.move_to(row);
        for (i64 element = 0; element < plan.inner; ++element) row_of.find(rows, element, found.data());
        to.take(to.self, row, found.data());
    }
}

}  // namespace ndpool
