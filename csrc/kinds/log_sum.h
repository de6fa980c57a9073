// SmoothMax with a scale for each window: the largest of its cells.
#pragma once
#include "base/functions.h"
#include "kinds/linear.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// The largest cell (the smallest for beta < 0) and the sum of exp(-|beta| gap) over the cells' distances from it. It
// costs an exp a merge, and every window has a scale of its own: no digits are lost to one in common, so that floats do
// for windows of a few cells.
template <class F>
struct LogSum : TwoLanes<F>, Untagged {
    using In = F;
    using Lanes = LogSum;
    static constexpr bool IDEMPOTENT = false, HEAVY = true, FLOATS = std::is_same_v<F, float>;
    template <int N>
    using State = typename TwoLanes<F>::template State<N>;
    F beta, rate;

    // Shares of floats are powers of 2, which are cheaper.
    explicit LogSum(double beta)
        : beta(static_cast<F>(beta)), rate(static_cast<F>((beta > 0 ? -beta : beta) * (FLOATS ? PER_LOG_2 : 1.0))) {}
    Lanes lanes() const { return *this; }
    template <int N>
    State<N> lift(const F *p, i64) const {
        vec<F, N> x = load<N>(p);
        return {beta > 0 ? x : -x, splat<F, N>(1)};
    }
    template <int N>
    void merge(State<N> &a, const State<N> &b) const {
        auto wins = (b.v > a.v) | (b.v != b.v);
        vec<F, N> none{}, gap = a.v == b.v ? none : b.v - a.v;  // equal infinities cancel
        vec<F, N> share = share_at<N>(size_of_each<N>(gap) * rate);
        a.with = (wins ? b.with : a.with) + (wins ? a.with : b.with) * share;
        a.v = wins ? b.v : a.v;
    }
    template <int N>
    void merge_any(State<N> &a, const State<N> &b) const {
        merge<N>(a, b);
    }
    template <int N>
    static State<N> empty() {
        return {splat<F, N>(-static_cast<F>(__builtin_inf())), splat<F, N>(0)};
    }
    template <int N>
    static vec<F, N> share_at(vec<F, N> exponent) {
        if constexpr (FLOATS)
            return exp2_lanes<N>(exponent);
        else
            return exp_lanes<N>(exponent);
    }
    template <int N>
    vec<F, N> value(const State<N> &a) const {
        // A sum of 1 is a window of one cell, as good as; log 0 belongs to no cell at all.
        vec<F, N> rest = log_lanes<N>(a.with);
        rest = FLOATS ? rest * (1 / beta) : rest / beta;
        return (beta > 0 ? a.v : -a.v) + (a.with == a.with ? rest : a.with);
    }
};

// Writes LogSums as numbers; a padded cell that counts is the number 0.
template <class F>
struct LogSumSink {
    template <int N>
    using State = typename LogSum<F>::template State<N>;
    static constexpr bool STREAMS = false;
    LogSum<F> kind;
    F *y;
    bool count_pad;
    F *row;
    F *zeros;  // padded cells of every element's window, where they count

    Scratch<F> take_room(const Plan &plan) {
        Scratch<F> room;
        if (count_pad) room.grow(plan.out_row + 64, "padded cells of a row's windows");
        zeros = room.data();
        return room;
    }
    void move_to(const Plan &plan, i64 index, const OutputRow &rows) {
        row = y + index * plan.out_row;
        if (!count_pad) return;
        for (i64 o = 0; o < plan.last().output; ++o) {
            i64 padded = rows.counted * plan.last().counted(o) - rows.real * plan.last().taps(o).count;
            for (i64 e = 0; e < plan.inner; ++e) zeros[o * plan.inner + e] = static_cast<F>(padded);
        }
    }
    void finish(const Plan &, i64, const OutputRow &, i64, i64) {}
    static bool finishes() { return false; }
    template <class Use>
    NDPOOL_INLINE void over_arrays(const Use &use) {
        use(y, row);
    }
    template <int N>
    void put(i64 at, State<N> s, int count) {
        if (count_pad) {
            vec<F, N> none{}, padded = load<N>(zeros + at);
            State<N> with = s;
            kind.template merge<N>(with, {none, padded});
            s.v = padded > 0 ? with.v : s.v;
            s.with = padded > 0 ? with.with : s.with;
        }
        put_some<N>(row + at, count, [&](F *p) { store<N>(p, kind.template value<N>(s)); });
    }
};

// Whether LogSum does in floats: its sum has a rounding error or two for each cell.
inline bool floats_do_for(const Plan &plan, double beta) {
    double size = beta < 0 ? -beta : beta;
    return plan.cells <= 4 && size > 1e-30 && size < 1e30;
}

// Whether it is faster than the terms of all cells and their sums: where merges are few, and rows of cells are merged.
// In steps of one, a window has as many new cells as outputs, and a term for each is less than two merges.
inline bool suits_log_sum(const Plan &plan) {
    const Axis &axis = plan.last();
    if (plan.cells > 4) return false;
    if (plan.cells > 2 && !axis.adaptive && axis.stride == 1) return false;
    return plan.inner > 1 || (!axis.adaptive && axis.stride < 8 && (axis.kernel == 2 || axis.stride == 2));
}

template <class F>
void log_sum_all(const Plan &plan, double beta, bool count_pad, const void *x, void *y, const Route &route) {
    LogSum<F> kind{beta};
    LogSumSink<F> sink{kind, static_cast<F *>(y), count_pad && plan.padded, nullptr, nullptr};
    pool_all<std::is_same_v<F, float> ? Tuned::ROWS : Tuned::NOT>(plan, kind, static_cast<const F *>(x), sink, route);
}

// --- where every window has its cells to itself ----------------------------------------------------

// Whether the windows are the squares of 2 by 2 cells of a plane, side by side, and floats do for their weights.
inline bool in_own_squares(const Plan &plan, double beta) {
    if (!in_squares(plan) || plan.dim_count != 1 || plan.last().kernel != 2 || plan.last().output < LANES<float>)
        return false;
    auto inside = [](const Axis &a) { return a.pad_lo == 0 && a.output == a.length / 2; };
    return FUSED && inside(plan.axes[0]) && inside(plan.last()) && floats_do_for(plan, beta);
}

// Such windows, N side by side, with the best of its four cells as the scale of each; that is the smallest if LEAST.
template <int N, bool LEAST>
struct OwnSquares {
    using V = vec<float, N>;
    V cell[2][2];
    V best;

    NDPOOL_INLINE OwnSquares(const float *x, i64 width) {
        V total{};
        NDPOOL_UNROLL
        for (int r = 0; r < 2; ++r) {
            prefetch<2 * N>(x + r * width);
            V low = load<N>(x + r * width), high = load<N>(x + r * width + N);
            cell[r][0] = every_second<N, 0>(low, high);
            cell[r][1] = every_second<N, 1>(low, high);
            total += low + high;
        }
        finite = all_finite<N>(total);
    }

    // Puts term(cell, best) in the place of every cell, and gives their sums. The best one's is 1, so where all is
    // finite three are computed: of the other row's best, and of the worse one in each row.
    template <class F>
    NDPOOL_INLINE V sum_terms(const F &term) {
        const V one = splat<float, N>(1);
        V in_row[2] = {better(cell[0][0], cell[0][1]), better(cell[1][0], cell[1][1])};
        best = better(in_row[0], in_row[1]);
        if (finite) {
            V other_best = term(worse(in_row[0], in_row[1]), best), sum = one + other_best;
            NDPOOL_UNROLL
            for (int r = 0; r < 2; ++r) {
                V first = in_row[r] == best ? one : other_best, second = term(worse(cell[r][0], cell[r][1]), best);
                sum += second;
                NDPOOL_UNROLL
                for (int c = 0; c < 2; ++c) cell[r][c] = cell[r][c] == in_row[r] ? first : second;
            }
            return sum;
        }
        V sum{};
        NDPOOL_UNROLL
        for (int i = 0; i < 4; ++i) {
            V &c = cell[i / 2][i % 2];
            c = c == best ? one : term(c, best);  // equal infinities cancel
            sum += c;
        }
        return sum;
    }

  private:
    bool finite;

    NDPOOL_INLINE static V better(V a, V b) { return LEAST ? (a < b ? a : b) : (a > b ? a : b); }
    NDPOOL_INLINE static V worse(V a, V b) { return LEAST ? (a > b ? a : b) : (a < b ? a : b); }
};

// Calls f(least) with whether the smallest cell is the best.
template <class F>
void with_order(double beta, const F &f) {
    if (beta < 0)
        f(std::true_type());
    else
        f(std::false_type());
}

inline void squares_value(const Plan &plan, double beta, const float *x, float *y, const Route &route) {
    constexpr int N = LANES<float>;
    using V = vec<float, N>;
    const i64 width = plan.in_row, outputs = plan.out_row, height = plan.axes[0].output;
    const float rate = static_cast<float>(beta * PER_LOG_2), per_beta = static_cast<float>(1 / beta);
    const bool streamed = streams_outputs<float>(plan, y, route);
    parallel(plan.outer * height, worth_threads(plan.outer * plan.in_slab), [&](i64 begin, i64 end) {
        Outbox outbox;
        with_order(beta, [&](auto least) {
            for (i64 unit = begin; unit < end; ++unit) {
                const float *from = x + unit / height * plan.in_slab + 2 * (unit % height) * width;
                float *to = y + unit * outputs;
                if (streamed) to = outbox.room(to, outputs, outputs);
                whole_blocks<N>(outputs, [=](i64 m) NDPOOL_INLINED {
                    OwnSquares<N, decltype(least)::value> squares(from + 2 * m, width);
                    V sum = squares.sum_terms([rate](V cell, V scale) NDPOOL_INLINED {
                        return exp2_lanes<LANES<float>>((cell - scale) * rate);
                    });
                    V rest = log_lanes<N>(sum) * per_beta;
                    store<N>(to + m, squares.best + (sum == sum ? rest : sum));
                });
            }
        });
    });
}

// gx = g exp(beta (x - s)) / sum exp(beta (x - s)), two rows at a time.
inline void squares_vjp(const Plan &plan, double beta, const float *x, const float *g, const Gradient &to) {
    constexpr int N = LANES<float>;
    using V = vec<float, N>;
    const Axis &rows = plan.axes[0];
    const ExpTerm<float> exp_term(beta);
    const i64 width = plan.in_row, outputs = plan.out_row;
    auto two_rows = [=](auto least, auto past, const float *x, const float *g, float *gx) NDPOOL_INLINED {
        constexpr bool PAST = decltype(past)::value;
        auto put = [](float *p, V v) NDPOOL_INLINED {
            if constexpr (PAST)
                stream<LANES<float>>(p, v);
            else
                store<LANES<float>>(p, v);
        };
        whole_blocks<N>(outputs, [=](i64 m) NDPOOL_INLINED {
            OwnSquares<N, decltype(least)::value> squares(x + 2 * m, width);
            V sum = squares.sum_terms([&exp_term](V cell, V scale)
                                          NDPOOL_INLINED { return exp_term.of<LANES<float>>(cell, scale); });
            V share = load<N>(g + m) * reciprocal<N>(sum);
            NDPOOL_UNROLL
            for (int r = 0; r < 2; ++r) {
                V low = squares.cell[r][0] * share, high = squares.cell[r][1] * share;
                zip<N>(low, high);
                if (!PAST || !half_done<N>(m)) put(gx + r * width + 2 * m, low);
                put(gx + r * width + 2 * m + N, high);
            }
        });
        if (width % 2) gx[width - 1] = gx[2 * width - 1] = 0;
    };
    const bool lines = to.in_lines(width);
    parallel(plan.outer * rows.output, worth_threads(plan.outer * plan.in_slab), [&](i64 begin, i64 end) {
        Outbox outbox;
        for (i64 unit = begin; unit < end; ++unit) {
            i64 slab = unit / rows.output, row = unit % rows.output, at = slab * plan.in_slab + 2 * row * width;
            char *place = to.gx + at * to.element_bytes;
            auto fill = [&](auto past, void *gx) {
                with_order(beta, [&](auto least) {
                    two_rows(least, past, x + at, g + unit * outputs, static_cast<float *>(gx));
                });
            };
            bool one_more = row + 1 == rows.output && rows.length % 2;  // a last row in no window
            if (lines && !one_more) {
                fill(std::true_type(), place);
                continue;
            }
            i64 bytes = 2 * width * to.element_bytes, last = one_more ? bytes / 2 : 0;
            char *gx = to.streamed ? outbox.room(place, bytes + last, bytes + bytes / 2) : place;
            fill(std::false_type(), gx);
            std::memset(gx + bytes, 0, static_cast<std::size_t>(last));
        }
        if (to.streamed) end_streaming();
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
