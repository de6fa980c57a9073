// How many marked cells a window sees, in bytes: for windows of so few cells that a byte holds their number.
//
// Marks are bytes of 0 or 1. Rows that a window sees are added up, a register of bytes at a time, and then the columns
// beside each other. Where windows are further apart than a cell, all places of the row are computed, as they are
// cheaper than a few that are not side by side.
#pragma once
#include "passes/rows.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

class SmallCounts {
    using Byte = std::uint8_t;

  public:
    // Whether this way is short. Elsewhere windows are sums like any other.
    static bool suits(const Plan &plan) {
        for (int a = 0; a < plan.axis_count; ++a)
            if (plan.axes[a].adaptive) return false;
        return plan.cells < 256 && plan.outer_cells <= 64 && plan.last().kernel <= 32;
    }

    explicit SmallCounts(const Plan &plan)
        : plan(plan),
          axis(plan.last()),
          before(axis.pad_lo * plan.inner),
          length(larger((axis.output - 1) * axis.stride + axis.dilation * (axis.kernel - 1) + 1,
                        axis.pad_lo + axis.length) *
                 plan.inner),
          columns(length + MARGIN, "marks of columns"),
          sums(length + MARGIN, "marks of windows") {
        std::memset(columns.data(), 0, static_cast<std::size_t>(length + MARGIN));
    }

    // Of every output.
    void count(const Byte *marks, Byte *to) {
        OutputRow rows(plan);
        for (i64 slab = 0; slab < plan.outer; ++slab, marks += plan.in_slab)
            for (i64 row = 0; row < plan.out_rows; ++row, to += plan.out_row) {
                if (row == 0)
                    rows.move_to(0);
                else
                    rows.move_on(1);
                add_rows(marks + rows.base, rows);
                add_columns(to);
            }
    }

  private:
    static constexpr i64 MARGIN = 64;
    const Plan &plan;
    const Axis &axis;
    const i64 before, length;  // elements of padding before a row, and of a row with all padding that is seen
    const Scratch<Byte> columns, sums;

    static i64 larger(i64 a, i64 b) { return a > b ? a : b; }

    void add_rows(const Byte *marks, const OutputRow &rows) {
        Byte *to = columns.data() + before;
        const i64 row = plan.in_row;
        if (rows.count == 0) return static_cast<void>(std::memset(to, 0, static_cast<std::size_t>(row)));
        i64 r = 0;
        auto add = [&](auto many, bool anew) {
            constexpr int M = decltype(many)::value;
            const Byte *from[M];
            for (int m = 0; m < M; ++m) from[m] = marks + rows.offset[r + m];
            over_bytes(row, [&](auto size, i64 i) NDPOOL_INLINED {
                constexpr int N = decltype(size)::value;
                vec<Byte, N> sum = load<N>(from[0] + i);
                NDPOOL_UNROLL
                for (int m = 1; m < M; ++m) sum += load<N>(from[m] + i);
                if (!anew) sum += load<N>(to + i);
                store<N>(to + i, sum);
            });
            r += M;
        };
        for (; r + 4 <= rows.count;) add(std::integral_constant<int, 4>(), r == 0);
        while (r < rows.count) add(std::integral_constant<int, 1>(), r == 0);
    }

    void add_columns(Byte *to) {
        const i64 inner = plan.inner, step = axis.dilation * inner;
        const Byte *from = columns.data();
        // All places side by side, or the elements of each place that is asked for.
        if (axis.stride == 1 || inner == 1) {
            Byte *sum = axis.stride == 1 ? to : sums.data();
            add_along(from, step, ((axis.output - 1) * axis.stride + 1) * inner, sum);
            if (axis.stride > 1) take_every(axis.stride, sum, to);
            return;
        }
        for (i64 o = 0; o < axis.output; ++o) add_along(from + o * axis.stride * inner, step, inner, to + o * inner);
    }
    // Every second one is a matter of registers, and so is every second one of these.
    void take_every(i64 stride, Byte *sum, Byte *to) const {
        constexpr int N = LANES<Byte>;
        for (; stride % 2 == 0; stride /= 2) {
            const i64 left = (axis.output - 1) * (stride / 2) + 1;
            Byte *half = stride == 2 ? to : sum;
            i64 i = 0;
            for (; i + N <= left; i += N)
                store<N>(half + i, every_second<N, 0>(load<N>(sum + 2 * i), load<N>(sum + 2 * i + N)));
            for (; i < left; ++i) half[i] = sum[2 * i];
            if (stride == 2) return;
        }
        for (i64 o = 0; o < axis.output; ++o) to[o] = sum[o * stride];
    }
    void add_along(const Byte *from, i64 step, i64 count, Byte *to) const {
        over_bytes(count, [&](auto size, i64 i) NDPOOL_INLINED {
            constexpr int N = decltype(size)::value;
            vec<Byte, N> sum = load<N>(from + i);
            for (i64 k = 1; k < axis.kernel; ++k) sum += load<N>(from + i + k * step);
            store<N>(to + i, sum);
        });
    }
    // Calls f(size, i) for registers, and for single bytes of the rest.
    template <class F>
    NDPOOL_INLINE static void over_bytes(i64 count, const F &f) {
        constexpr int N = NDPOOL_VECTOR_BYTES;
        i64 i = 0;
        for (; i + N <= count; i += N) f(std::integral_constant<int, N>(), i);
        for (; i + 8 <= count; i += 8) f(std::integral_constant<int, 8>(), i);
        for (; i < count; ++i) f(std::integral_constant<int, 1>(), i);
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
