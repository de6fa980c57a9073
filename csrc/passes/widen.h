// A row of cells becomes a row of wide windows.
#pragma once
#include "passes/source.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Every cell becomes the window of `kernel` cells that starts there. Nothing is ever subtracted. The result is in
// `total`; `row` is overwritten.
template <class P, int N>
class Widener {
    using Lane = typename P::Lane;
    using State = typename P::template State<N>;

  public:
    const P &p;
    Lane *row, *total;
    i64 plane, cells, inner, kernel, dilation;

    // The memory that is needed: `total` has ROWS rows, and all rows are MARGIN lanes longer than the cells.
    static constexpr bool IN_REGISTERS = P::PLANES == 1 && N > 1 && sizeof(Lane) >= 4;
    static constexpr int DOUBLINGS = __builtin_ctz(N);  // from a cell to a register of cells
    static constexpr i64 ROWS = IN_REGISTERS ? 2 + DOUBLINGS : P::PLANES, MARGIN = (3 + DOUBLINGS) * N;

    void widen() const {
        if constexpr (IN_REGISTERS)
            if (dilation * inner == 1 && kernel >= 2 * N && kernel <= 512) return widen_in_registers();
        if (!P::IDEMPOTENT && kernel <= 256)
            widen_in_two();
        else
            widen_by_doubling();
    }

  private:
    // For cells that lie side by side. First windows of 2, 4, ..., N cells are made. A window of `kernel` cells is then
    // made of windows of N cells, N cells apart, and of smaller ones for the rest: for 2N + 5 cells two of N, one of 4
    // and one of 1. Where a cell may be merged twice (Max), the rest is one more window of N cells, which ends where
    // the wide one ends. Only whole registers are read, and what lies across two of them is shifted together: a load
    // across two lines of the cache takes as long as two loads.
    void widen_in_registers() const {
        double_up_to_n();
        const Lane *const most = windows(N);
        const i64 whole = kernel / N, length = cells - kernel + 1;
        const Lane *from[8];
        LaneShift<Lane, N> shift[8];
        i64 pieces = 0, covered = 0;
        for (i64 width = N / 2; width; width /= 2)
            if (!P::IDEMPOTENT && kernel % N & width) {
                from[pieces] = windows(width) + whole * N;
                shift[pieces++] = LaneShift<Lane, N>(covered);
                covered += width;
            }
        if (P::IDEMPOTENT && kernel % N) {
            from[pieces] = most + (whole - 1) * N;
            shift[pieces++] = LaneShift<Lane, N>(kernel % N);
        }
        const P own = p;
        auto block = [&](auto registers, i64 i) NDPOOL_INLINED {
            constexpr int U = decltype(registers)::value;
            State s[U];
            merge_registers<U>(own, most + i, whole, s);
            for (i64 piece = 0; piece < pieces; ++piece) {
                const Lane *lanes = from[piece] + i;
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u)
                    own.template merge_any<N>(
                        s[u], State{shift[piece].of(load<N>(lanes + u * N), load<N>(lanes + (u + 1) * N))});
            }
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) P::template put<N>(total + i + u * N, plane, s[u]);
        };
        over_blocks(length, block);
    }
    // s[u] = the `count` registers from the u-th on, merged. Most of them are common to all U results and are merged
    // once.
    template <int U>
    NDPOOL_INLINE void merge_registers(const P &own, const Lane *lanes, i64 count, State (&s)[U]) const {
        auto one = [&](i64 c) NDPOOL_INLINED { return P::template get<N>(lanes + c * N, plane); };
        if (count < U) {
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) s[u] = one(u);
            for (i64 c = 1; c < count; ++c) {
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u) own.template merge_any<N>(s[u], one(c + u));
            }
            return;
        }
        // First what all results have in common, then what is before it, then what is after.
        s[U - 1] = one(U - 1);
        for (i64 c = U; c < count; ++c) own.template merge_any<N>(s[U - 1], one(c));
        NDPOOL_UNROLL
        for (int u = U - 2; u >= 0; --u) own.template merge_any<N>(s[u] = s[u + 1], one(u));
        if constexpr (U > 1) {
            State after = one(count);
            NDPOOL_UNROLL
            for (int u = 1; u < U; ++u) {
                own.template merge_any<N>(s[u], after);
                if (u < U - 1) own.template merge_any<N>(after, one(count + u));
            }
        }
    }
    // Calls block(how many registers, position) until `length` lanes are done: four registers at a time, then one.
    template <class Block>
    NDPOOL_INLINE static void over_blocks(i64 length, const Block &block) {
        i64 i = 0;
        for (; i + 4 * N <= length; i += 4 * N) block(std::integral_constant<int, 4>(), i);
        for (; i < length; i += N) block(std::integral_constant<int, 1>(), i);
    }
    // Makes windows of all widths in one pass over the row. Two registers of windows of WIDTH cells, side by side, give
    // one register of windows of 2 WIDTH cells.
    void double_up_to_n() const {
        const Widener own = *this;  // a copy, which no store can change
        vec<Lane, N> before[DOUBLINGS + 1] = {};
        for (i64 i = 0; i < own.cells + DOUBLINGS * N; i += N) own.template doubled<1>(before, load<N>(own.row + i), i);
    }
    template <int WIDTH>
    NDPOOL_INLINE void doubled(vec<Lane, N> *before, vec<Lane, N> next, i64 i) const {
        if constexpr (WIDTH < N) {
            State s = {*before};
            p.template merge_any<N>(s, State{picked<N, From<WIDTH>>(*before, next)});
            *before = next;
            if (i < N) return;  // there was none before
            if (2 * WIDTH == N || !P::IDEMPOTENT) P::template put<N>(windows(2 * WIDTH) + i - N, plane, s);
            doubled<2 * WIDTH>(before + 1, s.v, i - N);
        }
    }
    // Where the windows of this width, a power of two, are kept.
    Lane *windows(i64 width) const {
        return width == 1 ? row : total + (1 + __builtin_ctzll(static_cast<unsigned long long>(width))) * plane;
    }

    // Windows of `part` cells, then as many of those side by side as fit, and single cells for the rest: about twice
    // the square root of the kernel.
    void widen_in_two() const {
        i64 part = 1;
        auto merges = [&](i64 a) { return a + kernel / a + kernel % a; };
        for (i64 a = 2; a * a <= 2 * kernel; ++a)
            if (merges(a) < merges(part)) part = a;
        if (part == 1) return several(total, row, kernel, 1, 0, 0);
        several(total, row, part, 1, 0, 0);
        several(total, total, kernel / part, part, kernel / part * part, kernel % part);
    }

    // to[i] = the windows from[i], from[i + step], ..., `count` of them, and `more` cells of the row from i + skip on.
    void several(Lane *to, const Lane *from, i64 count, i64 step, i64 skip, i64 more) const {
        i64 cell = dilation * inner, reach = more ? skip + more : count * step;  // cells that a window has now
        i64 length = (cells - (reach - 1) * dilation) * inner;
        auto block = [&](auto registers, i64 i) {
            constexpr int U = decltype(registers)::value;
            State s[U];
            auto merge = [&](const Lane *lanes) NDPOOL_INLINED {
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u) p.template merge_any<N>(s[u], P::template get<N>(lanes + u * N, plane));
            };
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) s[u] = P::template get<N>(from + i + u * N, plane);
            for (i64 c = 1; c < count; ++c) merge(from + c * step * cell + i);
            for (i64 c = 0; c < more; ++c) merge(row + (skip + c) * cell + i);
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) P::template put<N>(to + i + u * N, plane, s[u]);
        };
        over_blocks(length, block);
    }

    // Windows of 1, 2, 4, ... cells are each two of the half, and any kernel is two overlapping ones (Max) or a few
    // side by side (sums): the time of log(kernel) merges.
    void widen_by_doubling() const {
        auto merge_at = [&](Lane *to, const Lane *a, const Lane *b, i64 length) {
            for (i64 i = 0; i < length; i += N) {
                State s = P::template get<N>(a + i, plane);
                p.template merge_any<N>(s, P::template get<N>(b + i, plane));
                P::template put<N>(to + i, plane, s);
            }
        };
        bool started = false;
        i64 covered = 0;  // cells that `total` has
        for (i64 width = 1;; width *= 2) {
            bool last = width * 2 > kernel;
            bool take = P::IDEMPOTENT ? last : (kernel & width) != 0;
            if (take) {
                i64 valid = (cells - (covered + width - 1) * dilation) * inner;
                if (P::IDEMPOTENT)
                    merge_at(total, row, row + (kernel - width) * dilation * inner,
                             (cells - (kernel - 1) * dilation) * inner);
                else if (started)
                    merge_at(total, total, row + covered * dilation * inner, valid);
                else
                    for (int q = 0; q < P::PLANES; ++q)
                        std::memcpy(total + q * plane, row + q * plane, sizeof(*row) * valid);
                started = true;
                covered += width;
            }
            if (last) return;
            merge_at(row, row, row + width * dilation * inner, (cells - (2 * width - 1) * dilation) * inner);
        }
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
