// SmoothMax where every window has its cells to itself: squares of 2 by 2 floats, side by side.
#pragma once
#include "kinds/lone_window.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// What a cell of floats gets that is not more than this, the largest number below the normal ones, is 0, whichever way
// it is found.
constexpr float LEAST_SHARE = 0x1.fffffcp-127f;

// Numbers without those that are too small, which have no sign.
template <int N, class V>
NDPOOL_INLINE V unsigned_zeros(V v, float least) {
    const V zero{};
    return size_of_each<N>(v) <= static_cast<std::decay_t<decltype(v[0])>>(least) ? zero : v;
}

// Whether the windows are such squares.
inline bool in_own_squares(const Plan &plan, const Smooth &kind) {
    if (!in_squares(plan) || plan.dim_count != 1 || plan.last().kernel != 2 || plan.last().output < LANES<float>)
        return false;
    auto inside = [](const Axis &a) { return a.pad_lo == 0 && a.output == a.length / 2; };
    return kind.narrow && inside(plan.axes[0]) && inside(plan.last());
}

// N windows side by side whose exponents of 2 are not far from those of a row: the terms of their cells, as these lie
// in memory, times one power of 2, and their sums.
template <int N>
struct NearSquares {
    using V = vec<float, N>;
    V term[2][2], sum;
    bool good;  // whether all of them are near

    NDPOOL_INLINE NearSquares(const ExpTerm<float> &exp, float shift, const float *x, i64 width) {
        using U = vec<std::uint32_t, N>;
        vec<double, N / 2> all[2];
        U far{};
        NDPOOL_UNROLL
        for (int i = 0; i < 4; ++i) {
            const float *from = x + i / 2 * width + i % 2 * N;
            if (i % 2 == 0) prefetch<2 * N>(from);
            term[i / 2][i % 2] = exp.near<N>(load<N>(from), shift, far);
            const vec<double, N / 2> pairs = sums_of_pairs<N>(term[i / 2][i % 2]);
            all[i % 2] = i < 2 ? pairs : all[i % 2] + pairs;
        }
        sum = joined_as_floats<N>(all[0] * PAIRS_ARE_LESS, all[1] * PAIRS_ARE_LESS);
        good = all_zero<N>(far);
    }
};

// N windows side by side: the terms of their cells, times a power of 2 that is each window's own, and their sums.
template <int N>
struct OwnSquares {
    using V = vec<float, N>;
    V term[2][2], exponent, sum;
    V lost;     // the largest exponent, beside the window's own, of a term that is 0 because floats do not hold it
    bool good;  // whether all windows are in range

    NDPOOL_INLINE OwnSquares(const ExpTerm<float> &exp, const float *x, i64 width) {
        Scaled<float, N> parts[2][2];
        NDPOOL_UNROLL
        for (int r = 0; r < 2; ++r) {
            prefetch<2 * N>(x + r * width);
            const V low = load<N>(x + r * width), high = load<N>(x + r * width + N);
            parts[r][0] = exp.of<N>(every_second<N, 0>(low, high));
            parts[r][1] = exp.of<N>(every_second<N, 1>(low, high));
        }
        auto larger = [](V a, V b) NDPOOL_INLINED { return a > b ? a : b; };
        exponent = larger(larger(parts[0][0].n, parts[0][1].n), larger(parts[1][0].n, parts[1][1].n));
        const V infinite = splat<float, N>(__builtin_inff());
        lost = -infinite;
        NDPOOL_UNROLL
        for (int i = 0; i < 4; ++i) {
            const V n = parts[i / 2][i % 2].n - exponent;
            term[i / 2][i % 2] = times_power<N>(parts[i / 2][i % 2].p, n);
            lost = ((n < -125.0f) & (n > lost)) ? n : lost;
        }
        // In doubles, whose order does not matter.
        NDPOOL_UNROLL
        for (int i = 0; i < N; ++i) {
            double all = 0;
            for (int c = 0; c < 4; ++c) all += static_cast<double>(term[c / 2][c % 2][i]);
            sum[i] = static_cast<float>(all);
        }
        good = all_finite<N>(size_of_each<N>(exponent) < 0x1p20f ? sum : infinite);
    }
};

// What squares are computed with.
struct SquareCells {
    const Plan &plan;
    const Smooth &kind;
    const float *x;
    const ExpTerm<float> exp;

    SquareCells(const Plan &plan, const Smooth &kind, const float *x)
        : plan(plan), kind(kind), x(x), exp(kind.parameter) {}
    i64 start(i64 unit) const {
        return unit / plan.axes[0].output * plan.in_slab + 2 * (unit % plan.axes[0].output) * plan.in_row;
    }
    // About the exponent of the largest term in two rows: an even number.
    __attribute__((noinline)) float shift(i64 unit) const {
        const float *row = x + start(unit);
        const i64 middle = plan.in_row / 2;
        double most = -0x1p20;
        for (const float v : {row[0], row[middle], row[plan.in_row], row[plan.in_row + middle]}) {
            const double exponent = static_cast<double>(v) * kind.parameter * PER_LOG_2;
            if (exponent > most && exponent < 0x1p20) most = exponent;
        }
        return static_cast<float>(2 * (most / 2 + WHOLE_DOUBLE - WHOLE_DOUBLE));
    }
    // Calls f(i, window) for `count` windows of a row of them, from output m on, each by itself.
    template <class F>
    __attribute__((noinline)) void over_lone(i64 unit, i64 m, int count, const F &f) const {
        OutputRow rows(plan);
        rows.move_to(unit % plan.axes[0].output);
        for (int i = 0; i < count; ++i)
            f(i, LoneWindow(plan, kind, Type::F32, x, unit / plan.axes[0].output * plan.in_slab, rows, m + i, 0));
    }
};

// The outputs of a register of windows that are not near.
__attribute__((noinline)) inline void far_values(const SquareCells &cells, i64 unit, i64 m, float *to) {
    constexpr int N = LANES<float>;
    const OwnSquares<N> squares(cells.exp, cells.x + cells.start(unit) + 2 * m, cells.plan.in_row);
    if (squares.good)
        return store<N>(to, LogValue<float>(0, cells.kind.parameter).of<N>(squares.sum, squares.exponent));
    cells.over_lone(unit, m, N, [to](int i, const LoneWindow &window) { to[i] = static_cast<float>(window.value()); });
}

inline void squares_value(const Plan &plan, const Smooth &kind, const float *x, float *y, const Route &route) {
    constexpr int N = LANES<float>;
    const SquareCells cells(plan, kind, x);
    const LogValue<float> log(0, kind.parameter);
    const i64 width = plan.in_row, outputs = plan.out_row, height = plan.axes[0].output;
    const bool streamed = streams_outputs<float>(plan, y, route);
    parallel(plan.outer * height, worth_threads(plan.outer * plan.in_slab), [&](i64 begin, i64 end) {
        Outbox outbox;
        const ExpTerm<float> exp = cells.exp;
        float shift = cells.shift(begin);
        for (i64 unit = begin; unit < end; ++unit) {
            const float *from = x + cells.start(unit);
            float *to = y + unit * outputs;
            if (streamed) to = outbox.room(to, outputs, outputs);
            bool near = true;
            // All sums first: so more of them are on their way at a time.
            for (i64 first = 0; first < outputs; first += CHUNK) {
                const i64 start = outputs - first < N ? outputs - N : first;
                const i64 some = outputs - start < CHUNK ? outputs - start : CHUNK;
                float sums[CHUNK];
                whole_blocks<N>(some, [=, &sums, &near](i64 m) NDPOOL_INLINED {
                    const NearSquares<N> squares(exp, shift, from + 2 * (start + m), width);
                    store<N>(sums + m, squares.sum);
                    near &= squares.good;
                });
                whole_blocks<N>(some, [=, &sums](i64 m) NDPOOL_INLINED {
                    store<N>(to + start + m, log.of<N>(load<N>(sums + m), splat<float, N>(shift)));
                });
            }
            if (near) continue;
            whole_blocks<N>(outputs, [=, &cells](i64 m) { far_values(cells, unit, m, to + m); });
            if (unit + 1 < end) shift = cells.shift(unit + 1);
        }
    });
}

// What the cells of a register of windows get that are not near.
__attribute__((noinline)) inline void far_shares(const SquareCells &cells, i64 unit, i64 m, const float *g,
                                                 vec<float, LANES<float>> (&to)[2][2]) {
    constexpr int N = LANES<float>;
    using V = vec<float, N>;
    const i64 width = cells.plan.in_row, first = cells.start(unit) + 2 * m;
    OwnSquares<N> squares(cells.exp, cells.x + first, width);
    const V share = load<N>(g) * reciprocal<N>(squares.sum), zero{};
    for (int i = 0; i < 4; ++i) {
        V &c = squares.term[i / 2][i % 2];
        c = c == 0 ? zero : unsigned_zeros<N>(c * share, LEAST_SHARE);
    }
    for (int i = 0; i < N; ++i) {
        // A term that is lost may be a share that is not, if it is more than 2^-127 over the cotangent's power of 2.
        const int exponent = static_cast<int>(bits<std::uint32_t>(g[i]) >> 23 & 255) - 127;
        if (squares.good && squares.lost[i] < static_cast<float>(-127 - exponent)) continue;
        cells.over_lone(unit, m + i, 1, [&](int, const LoneWindow &window) {
            for (auto &row : squares.term)
                for (V &c : row) c[i] = 0;
            window.weigh(static_cast<double>(g[i]), [&](i64 cell, double w, double by) {
                const i64 at = cell - first - 2 * i, r = at >= width ? 1 : 0;
                const vec<float, 1> gets{static_cast<float>(w * by)};
                if (w != 0 && by != 0) squares.term[r][at - r * width][i] = unsigned_zeros<1>(gets, LEAST_SHARE)[0];
            });
        });
    }
    for (int r = 0; r < 2; ++r) {
        to[r][0] = squares.term[r][0], to[r][1] = squares.term[r][1];
        zip<N>(to[r][0], to[r][1]);
    }
}

// What the cells of two rows get.
template <bool PAST>
NDPOOL_INLINE void fill_two_rows(const SquareCells &cells, i64 unit, i64 start, float &around, const float *g,
                                 float *gx) {
    constexpr int N = LANES<float>;
    using V = vec<float, N>;
    const ExpTerm<float> exp = cells.exp;
    const i64 width = cells.plan.in_row;
    const float *x = cells.x + start;
    const float shift = around;
    bool near = true;
    auto put = [](float *p, V v) NDPOOL_INLINED {
        if constexpr (PAST)
            stream<LANES<float>>(p, v);
        else
            store<LANES<float>>(p, v);
    };
    whole_blocks<N>(cells.plan.out_row, [=, &cells, &near](i64 m) NDPOOL_INLINED {
        NearSquares<N> squares(exp, shift, x + 2 * m, width);
        const V own = load<N>(g + m), zero{}, infinite = splat<float, N>(__builtin_inff());
        V share[2] = {own * reciprocal<N>(squares.sum), zero};
        share[1] = share[0];
        zip<N>(share[0], share[1]);
        NDPOOL_UNROLL
        for (int i = 0; i < 4; ++i) {
            squares.term[i / 2][i % 2] = unsigned_zeros<N>(squares.term[i / 2][i % 2] * share[i % 2], LEAST_SHARE);
        }
        // Shares of small cotangents may be too small for floats.
        const bool usual = all_finite<N>(((size_of_each<N>(own) < 0x1p-50f) & (own != 0)) ? infinite : own);
        if (!squares.good || !usual) near = squares.good, far_shares(cells, unit, m, g + m, squares.term);
        NDPOOL_UNROLL
        for (int r = 0; r < 2; ++r) {
            if (!PAST || !half_done<N>(m)) put(gx + r * width + 2 * m, squares.term[r][0]);
            put(gx + r * width + 2 * m + N, squares.term[r][1]);
        }
    });
    if (width % 2) gx[width - 1] = gx[2 * width - 1] = 0;
    if (!near) around = cells.shift(unit);
}

// gx = g exp(beta x) / sum exp(beta x), two rows at a time.
inline void squares_vjp(const Plan &plan, const Smooth &kind, const float *x, const float *g, const Gradient &to) {
    const Axis &rows = plan.axes[0];
    const SquareCells cells(plan, kind, x);
    const i64 width = plan.in_row, outputs = plan.out_row;
    const bool lines = to.in_lines(width);
    parallel(plan.outer * rows.output, worth_threads(plan.outer * plan.in_slab), [&](i64 begin, i64 end) {
        Outbox outbox;
        float around = cells.shift(begin);
        for (i64 unit = begin; unit < end; ++unit) {
            const i64 start = cells.start(unit);
            char *place = to.gx + start * to.element_bytes;
            const bool one_more = unit % rows.output + 1 == rows.output && rows.length % 2;  // a last row in no window
            if (lines && !one_more) {
                fill_two_rows<true>(cells, unit, start, around, g + unit * outputs, reinterpret_cast<float *>(place));
                continue;
            }
            const i64 bytes = 2 * width * to.element_bytes, last = one_more ? bytes / 2 : 0;
            char *gx = to.streamed ? outbox.room(place, bytes + last, bytes + bytes / 2) : place;
            fill_two_rows<false>(cells, unit, start, around, g + unit * outputs, reinterpret_cast<float *>(gx));
            std::memset(gx + bytes, 0, static_cast<std::size_t>(last));
        }
        if (to.streamed) end_streaming();
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
