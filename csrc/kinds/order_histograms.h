// Quantiles of bytes in wide windows that overlap: histograms of columns, which slide.
//
// Every column of cells that the windows of a row see has a histogram. From one row of windows to the next, a column
// lets a cell go and takes one in. Along the row, the histogram of a window lets columns go and takes others in, whole
// registers of counts at a time, so that a window takes the same time however many cells it has (Perreault and Hebert,
// 2007). No rank is further than 16 counts of 16 and then 16 single ones away.
#pragma once
#include "kinds/order_results.h"
#include "kinds/order_rows.h"
#include "passes/rows.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

class HistogramPooler {
    using Count = std::uint16_t;
    static constexpr i64 FINE = 256, COARSE = 16, SIZE = FINE + COARSE;  // of a histogram: the coarse counts come last

  public:
    HistogramPooler(const Plan &plan, const Call &call)
        : plan(plan),
          call(call),
          keying(call),
          axis(plan.last()),
          least(least_count(call)),
          seen(plan),
          keys(plan.in_slab + 64, "cells as keys"),
          columns(axis.length * SIZE, "histograms of columns"),
          before(plan.outer_cells, "rows of a window") {
        KeyMaker<std::uint8_t, false>(keying).make(static_cast<const std::uint8_t *>(call.x), plan.in_slab,
                                                   keys.data());
        std::uint8_t every[256];
        for (int i = 0; i < 256; ++i) every[i] = static_cast<std::uint8_t>(i);
        cells_of_keys(keying, every, 256);
        for (int i = 0; i < 256; ++i) {
            cell_of[i] = every[i];
            value_of[i] = call.type == Type::I8 ? static_cast<double>(static_cast<std::int8_t>(every[i]))
                                                : static_cast<double>(every[i]);
        }
    }

    void pool() {
        for (i64 element = 0; element < plan.inner; ++element) {
            rows_before = 0;
            std::memset(columns.data(), 0, static_cast<std::size_t>(axis.length * SIZE) * sizeof(Count));
            for (i64 row = 0; row < plan.out_rows; ++row) {
                seen.move_to(row);
                change_rows(element);
                pool_row(row * plan.out_row + element);
            }
        }
    }

  private:
    const Plan &plan;
    const Call &call;
    const Keying keying;
    const Axis &axis;
    const i64 least;
    OutputRow seen;
    Scratch<std::uint8_t> keys;
    Scratch<Count> columns;
    Scratch<i64> before;  // the rows that the columns have
    i64 rows_before = 0;
    std::uint8_t cell_of[256];
    double value_of[256];
    i64 known = -1;
    Between ranks{};  // of `known` cells

    // Rows that are gone from the window leave the columns, and new ones join. Both lists ascend.
    void change_rows(i64 element) {
        i64 a = 0, b = 0;
        while (a < rows_before || b < seen.count) {
            const i64 old_row = a < rows_before ? before[a] : INT64_MAX;
            const i64 new_row = b < seen.count ? seen.offset[b] : INT64_MAX;
            if (old_row < new_row) change_row(old_row + element, static_cast<Count>(-1));
            if (new_row < old_row) change_row(new_row + element, 1);
            a += old_row <= new_row, b += new_row <= old_row;
        }
        rows_before = seen.count;
        for (i64 r = 0; r < seen.count; ++r) before[r] = seen.offset[r];
    }
    void change_row(i64 start, Count by) {
        const std::uint8_t *key = keys.data() + start;
        Count *column = columns.data();
        for (i64 i = 0; i < axis.length; ++i, key += plan.inner, column += SIZE) {
            if (keying.skips && *key == 255) continue;
            column[*key] = static_cast<Count>(column[*key] + by);
            column[FINE + *key / 16] = static_cast<Count>(column[FINE + *key / 16] + by);
        }
    }

    void pool_row(i64 to) {
        alignas(64) Count window[SIZE] = {};
        i64 begin = 0, end = 0;  // the columns in the window
        for (i64 o = 0; o < axis.output; ++o, to += plan.inner) {
            const Axis::Taps taps = axis.taps(o);
            for (; begin < taps.first && begin < end; ++begin) add<-1>(window, columns.data() + begin * SIZE);
            if (end < taps.first) end = taps.first;
            begin = taps.first;
            for (; end < taps.first + taps.count; ++end) add<1>(window, columns.data() + end * SIZE);
            find(window, taps.count * seen.count, to);
        }
    }
    template <int SIGN>
    static NDPOOL_INLINE void add(Count *window, const Count *column) {
        constexpr int N = 16;
        for (i64 i = 0; i < SIZE; i += N) {
            const vec<Count, N> sum = load<N>(window + i), more = load<N>(column + i);
            store<N>(window + i, SIGN > 0 ? sum + more : sum - more);
        }
    }

    void find(const Count *window, i64 all, i64 to) {
        i64 n = all;
        if (keying.skips) {
            n = 0;
            for (i64 i = FINE; i < SIZE; ++i) n += window[i];
        }
        if (n < least) return put_absent(to);
        if (n != known) ranks = between(n, call.order, call.parameter), known = n;
        i64 below = 0, coarse = FINE;
        while (below + window[coarse] <= ranks.lo) below += window[coarse++];
        i64 lo = (coarse - FINE) * 16;
        while (below + window[lo] <= ranks.lo) below += window[lo++];
        i64 hi = lo;
        while (below + window[hi] <= ranks.hi) below += window[hi++];
        put(lo, hi, to);
    }

    void put_absent(i64 to) const {
        if (is_between_cells(call.order))
            std::memcpy(static_cast<double *>(call.y) + to, &call.skip.absent, sizeof(double));
        else
            static_cast<std::uint8_t *>(call.y)[to] = static_cast<std::uint8_t>(call.skip.absent);
    }
    void put(i64 lo, i64 hi, i64 to) const {
        if (!is_between_cells(call.order)) {
            static_cast<std::uint8_t *>(call.y)[to] = cell_of[lo];
            return;
        }
        const double a = value_of[lo], b = value_of[hi];
        static_cast<double *>(call.y)[to] = lo == hi ? a : mixed(a, b, ranks.share);
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
