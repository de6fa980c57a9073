// Lp(2): sums of squares, right from the cells.
//
// A float's square is exact as a double, and never too large or too small for one. So squares are not held as floats
// times a power of 2: cells are squared while they are added up, and what is scaled is the sum.
#pragma once
#include "kinds/norms.h"
#include "kinds/totals.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

template <class T>
struct SquareSum : Total<double> {
    using In = T;
    using Lanes = Total<double>;

    Lanes lanes() const { return {}; }
    template <int N>
    typename Lanes::template State<N> lift(const T *p, i64) const {
        const vec<double, N> v = load_as<double, N>(p);
        return {v * v};
    }
};

// Of doubles, which are rounded, and then added up exactly. A cell that is not 0 has no square that is.
template <>
struct SquareSum<double> : ExactTotal {
    using In = double;
    using Lanes = ExactTotal;

    Lanes lanes() const { return {}; }
    template <int N>
    Exact<N> lift(const double *p, i64) const {
        const vec<double, N> v = load<N>(p), square = v * v, least = splat<double, N>(0x1p-1000);
        return {((square < least) & (v != 0)) ? least : square};
    }
};

// Whether the first `count` of N comparisons are true, of numbers of so many words.
template <int N, int WORDS, class Truth>
NDPOOL_INLINE bool all_true(const Truth &truth, int count) {
    if (count >= N) return all_zero<N * WORDS>(bits<vec<std::uint32_t, N * WORDS>>(~truth));
    bool all = true;
    for (int i = 0; i < count; ++i) all &= truth[i] != 0;
    return all;
}

// Rows of outputs in one array, which are all written alike.
template <class T>
struct RowsOf {
    static constexpr bool STREAMS = false;
    T *y;
    T *row = nullptr;

    void move_to(const Plan &plan, i64 index, const OutputRow &) { row = y + index * plan.out_row; }
    void finish(const Plan &, i64, const OutputRow &, i64, i64) {}
    static bool finishes() { return false; }
    static Scratch<double> take_room(const Plan &) { return {}; }
    static bool rows_differ() { return false; }
    template <class Use>
    NDPOOL_INLINE void over_arrays(const Use &use) {
        use(y, row);
    }
};

// Sums of squares times a power of 2, as floats, or the roots of them. A sum that is out of range is not good, or its
// root NaN; and then `odd` is set.
template <class R>
struct SquareSink : RowsOf<R> {
    using RowsOf<R>::row;
    double scale;  // of the sums
    float cell;    // of the roots
    bool root;
    bool *odd;

    template <int N>
    NDPOOL_INLINE void put(i64 at, const Total<double>::State<N> &s, int count) const {
        using V = vec<float, N>;
        // However small: a sum is 0 if all of its cells are, and else is not.
        const vec<double, N> least = splat<double, N>(0x1p-126), sum = s.v * scale;
        const V own = convert<float, N>(((sum < least) & (s.v != 0)) ? least : sum);
        if (!root) return put_some<N>(row + at, count, [&](R *p) NDPOOL_INLINED { store_as<N>(p, own); });
        const auto good = ((own >= 0x1p-60f) & (own <= 0x1p60f)) | (own == 0);
        if (!all_true<N, 1>(good, count)) *odd = true;
        put_some<N>(row + at, count, [&](R *p) NDPOOL_INLINED { store_as<N>(p, cell * sqrt_lanes<N>(own)); });
    }
};

// Roots of sums of squares of doubles, NaN and `odd` as above.
struct ExactRootSink : RowsOf<double> {
    bool *odd;

    template <int N>
    NDPOOL_INLINE void put(i64 at, const ExactTotal::State<N> &s, int count) const {
        const vec<double, N> sum = ExactTotal::total<N>(s);
        const auto good = ((sum >= 0x1p-900) & (sum <= 0x1p1000)) | (sum == 0);
        if (!all_true<N, 2>(good, count)) *odd = true;
        put_some<N>(row + at, count, [&](double *p) NDPOOL_INLINED { store<N>(p, sqrt_lanes<N>(sum)); });
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
