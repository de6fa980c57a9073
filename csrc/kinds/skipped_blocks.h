// The way back of means with skipped cells, where windows are blocks side by side, of 2, 4, 8 or 16 cells along the
// row.
//
// Some columns of the cells are read and counted, and handed their shares at once. So the gradient is written while the
// next cells are on their way: to count a piece first, and to write it then, would take both times one after the other.
#pragma once
#include "kinds/skipped_cells.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

template <int BIT>
struct Neighbours {
    static constexpr int of(int, int i) { return i ^ BIT; }
};
template <int SIDE>
struct OfBlock {
    static constexpr int of(int, int i) { return i / SIDE; }
};

// In every lane, the sum over the block of SIDE lanes that it is in.
template <int SIDE, int N>
NDPOOL_INLINE vec<float, N> sums_of_blocks(vec<float, N> v) {
    if constexpr (SIDE >= 2) v += picked<N, Neighbours<1>>(v, v);
    if constexpr (SIDE >= 4) v += picked<N, Neighbours<2>>(v, v);
    if constexpr (SIDE >= 8) v += picked<N, Neighbours<4>>(v, v);
    if constexpr (SIDE >= 16) v += picked<N, Neighbours<8>>(v, v);
    return v;
}

class SkippedBlocks {
    static constexpr int N = LANES<float>;

  public:
    // For windows that have no cell in common.
    static bool suit(const Plan &plan) {
        const Axis &axis = plan.last();
        const i64 side = axis.kernel;
        if (axis.adaptive || axis.stride != side || axis.pad_lo > 0 || plan.inner > 1) return false;
        return side >= 2 && side <= N && (side & (side - 1)) == 0;
    }

    SkippedBlocks(const Plan &plan, const Call &call, const SkippedBits &skipped, const CountedDivisor &divisor)
        : plan(plan),
          axis(plan.last()),
          skipped(skipped),
          divisor(divisor),
          past_the_caches(call.past_the_caches),
          x(static_cast<const float *>(call.x)),
          g(static_cast<const float *>(call.g)),
          gx(static_cast<float *>(call.gx)),
          room(plan.in_row + N, "what a row's cells get") {}

    void pull() const {
        if (axis.kernel == 2) return pull_by<2>();
        if (axis.kernel == 4) return pull_by<4>();
        if constexpr (N >= 8)
            if (axis.kernel == 8) return pull_by<8>();
        if constexpr (N >= 16) pull_by<16>();
    }

  private:
    const Plan &plan;
    const Axis &axis;
    const SkippedBits &skipped;
    const CountedDivisor &divisor;
    const bool past_the_caches;
    const float *const x, *const g;
    float *const gx;
    const Scratch<std::uint32_t> room;   // bits of floats
    static constexpr i64 COLUMNS = 256;  // at a time

    template <int SIDE>
    void pull_by() const {
        const auto keep = past_the_caches ? keep_there<true, std::uint32_t> : keep_there<false, std::uint32_t>;
        const i64 row = plan.in_row;
        over_rows(plan, [&](const OutputRow &rows, i64 output, i64 slab) {
            const i64 base = slab + rows.base;
            for (i64 begin = 0; begin < row; begin += COLUMNS) {
                const i64 end = row - begin <= COLUMNS ? row : begin + COLUMNS;
                make_shares<SIDE>(rows, output, base, begin, end);
                for (i64 r = 0; r < rows.count; ++r) {
                    const i64 at = base + rows.offset[r], first = whole_lines(at, begin), stop = whole_lines(at, end);
                    keep(bits_of(x + at + first), stop - first, skipped, room.data() + first,
                         reinterpret_cast<std::uint32_t *>(gx + at + first));
                }
            }
        });
        if (past_the_caches) end_streaming();
    }
    static const std::uint32_t *bits_of(const float *p) { return reinterpret_cast<const std::uint32_t *>(p); }
    // Up to which column of a row, of those before `column`, lines are whole: a line is sent past the caches as one.
    i64 whole_lines(i64 at, i64 column) const {
        if (!past_the_caches || column == 0 || column == plan.in_row) return column;
        const auto beyond = reinterpret_cast<std::uintptr_t>(gx + at + column) % LINE / sizeof(float);
        return column - static_cast<i64>(beyond);
    }

    // What the cells in columns begin..end-1 get that are there.
    template <int SIDE>
    void make_shares(const OutputRow &rows, i64 output, i64 base, i64 begin, i64 end) const {
        const i64 covered = axis.output * SIDE < end ? axis.output * SIDE : end;  // no window sees what follows
        const SkippedBits own = skipped;                                          // a copy, which no store can change
        std::uint32_t *const to = room.data();
        i64 at = begin;
        for (; at + N <= covered; at += N) {
            vec<float, N> number{};
            for (i64 r = 0; r < rows.count; ++r)
                number += CellsThere<N>(bits<vec<std::uint32_t, N>>(load<N>(x + base + rows.offset[r] + at)), own)
                              .float_ones();
            store<N>(to + at, bits<vec<std::uint32_t, N>>(
                                  shares<SIDE>(g + output + at / SIDE, sums_of_blocks<SIDE, N>(number))));
        }
        for (; at < covered; at += SIDE) make_one<SIDE>(rows, output, base, at, at + SIDE < end ? at + SIDE : end);
        for (at = covered > begin ? covered : begin; at < end; ++at) to[at] = 0;
    }
    template <int SIDE>
    NDPOOL_INLINE vec<float, N> shares(const float *own, vec<float, N> number) const {
        vec<float, N> given{}, none{};
        std::memcpy(&given, own, sizeof(float) * (N / SIDE));
        given = divisor.shares<N>(picked<N, OfBlock<SIDE>>(given, given), number);
        return number >= static_cast<float>(divisor.least) ? given : none;
    }
    // One block, which the row's end may cut off.
    template <int SIDE>
    void make_one(const OutputRow &rows, i64 output, i64 base, i64 first, i64 stop) const {
        i64 number = 0;
        for (i64 r = 0; r < rows.count; ++r)
            for (i64 c = first; c < stop; ++c)
                number += !skipped.are(bits<std::uint32_t>(x[base + rows.offset[r] + c]));
        const vec<float, 1> given = splat<float, 1>(g[output + first / SIDE]),
                            share = divisor.shares<1>(given, splat<float, 1>(static_cast<float>(number)));
        const float own = static_cast<double>(number) >= divisor.least ? share[0] : 0;
        for (i64 c = first; c < stop; ++c) room[c] = bits<std::uint32_t>(own);
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
