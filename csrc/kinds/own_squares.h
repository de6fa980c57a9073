// SmoothMax where every window has its cells to itself: squares of 2 by 2 floats, side by side.
#pragma once
#include "kinds/lone_window.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Whether the windows are such squares.
inline bool in_own_squares(const Plan &plan, const Smooth &kind) {
    if (!in_squares(plan) || plan.dim_count != 1 || plan.last().kernel != 2 || plan.last().output < LANES<float>)
        return false;
    auto inside = [](const Axis &a) { return a.pad_lo == 0 && a.output == a.length / 2; };
    return kind.narrow && inside(plan.axes[0]) && inside(plan.last());
}

// N windows side by side: the terms of their cells, times a power of 2 that is each window's own, and their sums.
template <int N>
struct OwnSquares {
    using V = vec<float, N>;
    V term[2][2], exponent, sum;
    bool good, accurate;  // whether all of them are in range, and all weights too

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
        // Shares between those that floats hold and those that are nothing beside any cotangent.
        const V zero{}, infinite = splat<float, N>(__builtin_inff());
        V small = zero;
        NDPOOL_UNROLL
        for (int i = 0; i < 4; ++i) {
            const V n = parts[i / 2][i % 2].n - exponent;
            term[i / 2][i % 2] = times_power<N>(parts[i / 2][i % 2].p, n);
            small = ((n < -125.0f) & (n > -300.0f)) ? infinite : small;
        }
        Halves<N> all(term[0][0]);
        all.add(Halves<N>(term[0][1])), all.add(Halves<N>(term[1][0])), all.add(Halves<N>(term[1][1]));
        sum = all.as_floats();
        good = all_finite<N>(size_of_each<N>(exponent) < 0x1p20f ? sum : infinite);
        accurate = all_finite<N>(small);
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
    // Calls f(i, window) for `count` windows of a row of them, from output m on, each by itself.
    template <class F>
    __attribute__((noinline)) void over_lone(i64 unit, i64 m, int count, const F &f) const {
        OutputRow rows(plan);
        rows.move_to(unit % plan.axes[0].output);
        for (int i = 0; i < count; ++i)
            f(i, LoneWindow(plan, kind, Type::F32, x, unit / plan.axes[0].output * plan.in_slab, rows, m + i, 0));
    }
};

inline void squares_value(const Plan &plan, const Smooth &kind, const float *x, float *y, const Route &route) {
    constexpr int N = LANES<float>;
    const SquareCells cells(plan, kind, x);
    const LogValue<float> log(0, kind.parameter);
    const i64 width = plan.in_row, outputs = plan.out_row, height = plan.axes[0].output;
    const bool streamed = streams_outputs<float>(plan, y, route);
    parallel(plan.outer * height, worth_threads(plan.outer * plan.in_slab), [&](i64 begin, i64 end) {
        Outbox outbox;
        for (i64 unit = begin; unit < end; ++unit) {
            const float *from = x + cells.start(unit);
            float *to = y + unit * outputs;
            if (streamed) to = outbox.room(to, outputs, outputs);
            whole_blocks<N>(outputs, [=, &cells](i64 m) NDPOOL_INLINED {
                const OwnSquares<N> squares(cells.exp, from + 2 * m, width);
                store<N>(to + m, log.of<N>(squares.sum, squares.exponent));
                if (!squares.good)
                    cells.over_lone(unit, m, N, [to, m](int i, const LoneWindow &window) {
                        to[m + i] = static_cast<float>(window.value());
                    });
            });
        }
    });
}

// What the cells of two rows get.
template <bool PAST>
NDPOOL_INLINE void fill_two_rows(const SquareCells &cells, i64 unit, const float *g, float *gx) {
    constexpr int N = LANES<float>;
    using V = vec<float, N>;
    const i64 width = cells.plan.in_row;
    const float *x = cells.x + cells.start(unit);
    auto put = [](float *p, V v) NDPOOL_INLINED {
        if constexpr (PAST)
            stream<LANES<float>>(p, v);
        else
            store<LANES<float>>(p, v);
    };
    whole_blocks<N>(cells.plan.out_row, [=, &cells](i64 m) NDPOOL_INLINED {
        OwnSquares<N> squares(cells.exp, x + 2 * m, width);
        const V share = load<N>(g + m) * reciprocal<N>(squares.sum), zero{};
        NDPOOL_UNROLL
        for (int i = 0; i < 4; ++i) {
            V &c = squares.term[i / 2][i % 2];
            c = ((c == 0) | (share == 0)) ? zero : c * share;
        }
        if (!squares.good || !squares.accurate) {
            const i64 first = cells.start(unit) + 2 * m;
            cells.over_lone(unit, m, N, [&](int i, const LoneWindow &window) {
                for (auto &row : squares.term)
                    for (V &c : row) c[i] = 0;
                window.weigh(static_cast<double>(g[m + i]), [&](i64 cell, double w, double by) {
                    const i64 at = cell - first - 2 * i, r = at >= width ? 1 : 0;
                    if (w != 0 && by != 0) squares.term[r][at - r * width][i] = static_cast<float>(w * by);
                });
            });
        }
        NDPOOL_UNROLL
        for (int r = 0; r < 2; ++r) {
            V low = squares.term[r][0], high = squares.term[r][1];
            zip<N>(low, high);
            if (!PAST || !half_done<N>(m)) put(gx + r * width + 2 * m, low);
            put(gx + r * width + 2 * m + N, high);
        }
    });
    if (width % 2) gx[width - 1] = gx[2 * width - 1] = 0;
}

// gx = g exp(beta x) / sum exp(beta x), two rows at a time.
inline void squares_vjp(const Plan &plan, const Smooth &kind, const float *x, const float *g, const Gradient &to) {
    const Axis &rows = plan.axes[0];
    const SquareCells cells(plan, kind, x);
    const i64 width = plan.in_row, outputs = plan.out_row;
    const bool lines = to.in_lines(width);
    parallel(plan.outer * rows.output, worth_threads(plan.outer * plan.in_slab), [&](i64 begin, i64 end) {
        Outbox outbox;
        for (i64 unit = begin; unit < end; ++unit) {
            char *place = to.gx + cells.start(unit) * to.element_bytes;
            const bool one_more = unit % rows.output + 1 == rows.output && rows.length % 2;  // a last row in no window
            if (lines && !one_more) {
                fill_two_rows<true>(cells, unit, g + unit * outputs, reinterpret_cast<float *>(place));
                continue;
            }
            const i64 bytes = 2 * width * to.element_bytes, last = one_more ? bytes / 2 : 0;
            char *gx = to.streamed ? outbox.room(place, bytes + last, bytes + bytes / 2) : place;
            fill_two_rows<false>(cells, unit, g + unit * outputs, reinterpret_cast<float *>(gx));
            std::memset(gx + bytes, 0, static_cast<std::size_t>(last));
        }
        if (to.streamed) end_streaming();
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
