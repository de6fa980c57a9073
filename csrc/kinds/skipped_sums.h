// Sums and means of floats with cells that are skipped, in one pass: a State is the sum of the cells that are there,
// and how many they are.
//
// It serves what most rasters ask for: 32-bit floats, divisors that know no padding. All else is done in several
// passes, in skipping.cpp.
#pragma once
#include "kinds/linear.h"
#include "kinds/skipped_blocks.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// A sum of doubles, and beside it the number of cells.
struct CountedTotal : TwoLanes<double>, Untagged {
    static constexpr bool IDEMPOTENT = false, ADDS_UP = true;

    template <int N>
    static void merge(State<N> &a, const State<N> &b) {
        a.v += b.v, a.with += b.with;
    }
    template <int N>
    static void merge_any(State<N> &a, const State<N> &b) {
        merge<N>(a, b);
    }
    template <int N>
    static State<N> only_last(const State<N> &a, i64 count) {
        return {last_lanes<double, N>(a.v, count), last_lanes<double, N>(a.with, count)};
    }
    template <int N>
    static State<N> empty() {
        return {splat<double, N>(0), splat<double, N>(0)};
    }
};
struct CountedSum : CountedTotal {
    using In = float;
    using Lanes = CountedTotal;
    SkippedBits skipped;
    std::uint32_t filling;  // what changes no sum

    CountedSum(const SkippedBits &skipped, std::uint64_t filling)
        : skipped(skipped), filling(static_cast<std::uint32_t>(filling)) {}
    Lanes lanes() const { return {}; }
    template <int N>
    State<N> lift(const float *p, i64) const {
        const auto x = bits<vec<std::uint32_t, N>>(load<N>(p));
        const CellsThere<N> there(x, skipped);
        return {there.doubles(x, filling), there.ones()};
    }
};
// The number alone, in floats, which hold it up to 2^24.
struct NumberOfCells : Total<float> {
    using Lanes = Total<float>;
    SkippedBits skipped;

    explicit NumberOfCells(const SkippedBits &skipped) : skipped(skipped) {}
    Lanes lanes() const { return {}; }
    template <int N>
    State<N> lift(const float *p, i64) const {
        return {CellsThere<N>(bits<vec<std::uint32_t, N>>(load<N>(p)), skipped).float_ones()};
    }
};

// Where results of floats go, row by row.
struct FloatRowSink {
    static constexpr bool STREAMS = false;
    float *y, *row = nullptr;

    char take_room(const Plan &) const { return 0; }
    void move_to(const Plan &plan, i64 index, const OutputRow &) { row = y + index * plan.out_row; }
    void finish(const Plan &, i64, const OutputRow &, i64, i64) {}
    bool finishes() const { return false; }
    static bool rows_differ() { return false; }
    template <class Use>
    NDPOOL_INLINE void over_arrays(const Use &use) {
        use(y, row);
    }
};
// Means, or sums; `absent` where cells are too few.
struct CountedSink : FloatRowSink {
    CountedDivisor divisor;
    std::uint64_t absent;  // the bits of a double: a sum, which splat is, would lose the sign of -0

    CountedSink(float *y, const CountedDivisor &divisor, double absent)
        : FloatRowSink{y}, divisor(divisor), absent(bits<std::uint64_t>(absent)) {}
    template <int N>
    NDPOOL_INLINE void put(i64 at, const CountedTotal::State<N> &s, int count) const {
        const vec<double, N> mean = divisor.by_count ? s.v * one_over<N>(s.with) : s.v / divisor.fixed;
        const auto none = bits<vec<double, N>>(splat<std::uint64_t, N>(absent));
        put_some<N>(row + at, count, [&](float *p) { store_as<N>(p, s.with >= divisor.least ? mean : none); });
    }
};
// What outputs hand to each cell: cotangents, divided; 0 where cells are too few.
struct ShareSink : FloatRowSink {
    CountedDivisor divisor;
    const float *g, *g_row = nullptr;

    ShareSink(float *y, const CountedDivisor &divisor, const float *g) : FloatRowSink{y}, divisor(divisor), g(g) {}
    void move_to(const Plan &plan, i64 index, const OutputRow &rows) {
        FloatRowSink::move_to(plan, index, rows);
        g_row = g + index * plan.out_row;
    }
    bool finishes() const { return true; }  // so that rows come one by one
    template <int N>
    NDPOOL_INLINE void put(i64 at, const Total<float>::State<N> &s, int count) const {
        const float *own = g_row + at;
        const vec<float, N> given = count == N ? load<N>(own) : load_some<N>(own, count), none{};
        const vec<float, N> share = divisor.shares<N>(given, s.v);
        put_some<N>(row + at, count,
                    [&](float *p) { store<N>(p, s.v >= static_cast<float>(divisor.least) ? share : none); });
    }
};

// One operation on a dense array.
class CountedSums {
  public:
    static bool suit(const Plan &plan, const Call &call) {
        if (!LEVEL_IS_TUNED || call.type != Type::F32 || call.derivative != Type::F32 || call.t) return false;
        if (call.count == Count::COUNTED && plan.padded) return false;
        return call.op == Op::SUM || (call.op == Op::SUM_VJP && one_window_each(plan) && plan.cells <= 1 << 24);
    }

    CountedSums(const Plan &plan, const Call &call, const SkippedBits &skipped, std::uint64_t filling, i64 least)
        : plan(plan), call(call), skipped(skipped), filling(filling), least(least) {}

    void run() const { call.op == Op::SUM ? sum() : pull(); }

  private:
    void sum() const {
        float absent;
        std::memcpy(&absent, &call.skip.absent, sizeof absent);
        const CountedSink sink(static_cast<float *>(call.y), divisor(), static_cast<double>(absent));
        pool_all<Tuned::NOT>(plan, CountedSum(skipped, filling), static_cast<const float *>(call.x), sink,
                             {Way::NONE, call.past_the_caches});
    }

    // What outputs hand to their cells is spread along the rows first. Each of the rows that an output row sees is
    // that, without what skipped cells would get.
    void pull() const {
        if (!sees_all_rows())
            std::memset(call.gx, 0, static_cast<std::size_t>(plan.outer * plan.in_slab) * sizeof(float));
        const CountedDivisor by = divisor();
        if (SkippedBlocks::suit(plan)) return SkippedBlocks(plan, call, skipped, by).pull();
        const Scratch<float> shares(plan.outer * plan.out_slab + 64, "what outputs hand on"),
            rows(plan.outer * plan.out_rows * plan.in_row + 64, "what outputs hand on along rows");
        pool_all<Tuned::NOT>(plan, NumberOfCells(skipped), static_cast<const float *>(call.x),
                             ShareSink(shares.data(), by, static_cast<const float *>(call.g)), {});
        spread(shares.data(), rows.data());
        hand_on(rows.data());
    }

    const Plan &plan;
    const Call &call;
    const SkippedBits &skipped;
    const std::uint64_t filling;
    const i64 least;

    CountedDivisor divisor() const {
        const bool by_count = call.count == Count::COUNTED || call.count == Count::REAL;
        return {by_count, call.count == Count::FIXED ? call.divisor : 1, static_cast<double>(least)};
    }
    void spread(const float *shares, float *rows) const {
        Plan along = plan;
        along.outer = plan.outer * plan.out_rows, along.dim_count = 0, along.axis_count = 1;
        along.axes[0] = plan.last();
        along.in_rows = along.out_rows = along.outer_cells = 1;
        along.in_slab = plan.in_row, along.out_slab = plan.out_row, along.cells = plan.last().kernel;
        Call own;
        own.op = Op::SUM_VJP, own.type = own.derivative = Type::F32;
        own.g = shares, own.gx = rows;
        run_dense(along, own);
    }
    void hand_on(const float *rows) const {
        const auto keep = call.past_the_caches ? keep_there<true, std::uint32_t> : keep_there<false, std::uint32_t>;
        auto *from = reinterpret_cast<const std::uint32_t *>(rows);
        auto *x = static_cast<const std::uint32_t *>(call.x);
        auto *gx = static_cast<std::uint32_t *>(call.gx);
        over_rows(plan, [&](const OutputRow &seen, i64, i64 slab) {
            for (i64 r = 0; r < seen.count; ++r) {
                const i64 at = slab + seen.base + seen.offset[r];
                keep(x + at, plan.in_row, skipped, from, gx + at);
            }
            from += plan.in_row;
        });
        if (call.past_the_caches) end_streaming();
    }
    // Whether every row of cells is under a window.
    bool sees_all_rows() const {
        for (int a = 0; a + 1 < plan.axis_count; ++a) {
            const Axis &axis = plan.axes[a];
            if (axis.adaptive) continue;
            const bool gaps = axis.kernel < axis.stride && axis.output > 1;
            if (gaps || axis.start(0) > 0 || axis.start(axis.output - 1) + axis.kernel < axis.length) return false;
        }
        return true;
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
