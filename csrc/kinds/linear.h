// Sum and Avg, and the transpose of a sum: every cell gets the sum of what the windows over it hold.
#pragma once
#include "kinds/totals.h"
#include "passes/spread.h"
#include "plan/call.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// What a window's sum is divided by.
struct Divisor {
    Count by;
    double fixed;
    double share = 1 / fixed;
    bool whole = fixed < 0x1p50 && fixed == static_cast<double>(static_cast<i64>(fixed));

    // A rule under which all windows count alike is a fixed number.
    static Divisor of(const Plan &plan, Count by, double fixed) {
        if ((by == Count::COUNTED && plan.same_count) || (by == Count::REAL && plan.same_real))
            return {Count::FIXED, static_cast<double>(plan.cells)};
        return {by, by == Count::NONE ? 1.0 : fixed};
    }
    bool varies() const { return by == Count::COUNTED || by == Count::REAL; }
};

// How many cells each output of a row counts along the row, or one over it; of long rows only where that varies.
struct CountsAlong {
    i64 whole_from = 0, whole_to = 0, left_out = 0;  // elements that count as many as the kernel has, and are not kept
    double common = 1;
    const double *table = nullptr;

    // Sets itself up; what it gives is to be held as long as it is used.
    Scratch<double> fill(const Plan &plan, Count by, bool reciprocals) {
        const Axis &axis = plan.last();
        const i64 inner = plan.inner;
        auto cells = [&](i64 o) { return by == Count::REAL ? axis.taps(o).count : axis.counted(o); };
        auto kept = [&](i64 n) { return reciprocals ? 1 / static_cast<double>(n) : static_cast<double>(n); };
        i64 first = 0, stop = axis.adaptive ? 0 : axis.output;
        while (first < stop && cells(first) != axis.kernel) ++first;
        while (stop > first && cells(stop - 1) != axis.kernel) --stop;
        whole_from = first * inner, whole_to = stop * inner, common = kept(axis.kernel);
        // A register that is not all in the middle starts before it, or less than a register before its end.
        const i64 middle = stop - first - 2 * (MARGIN / inner + 1), gap = first + MARGIN / inner + 1;
        left_out = middle > 0 ? middle : 0;
        Scratch<double> block((axis.output - left_out) * inner + MARGIN, "divisors of a row");
        double *to = block.data();
        for (i64 o = 0; o < axis.output; o += o + 1 == gap ? 1 + left_out : 1)
            for (i64 e = 0; e < inner; ++e) *to++ = kept(cells(o));
        left_out *= inner;
        table = block.data();
        return block;
    }
    // Of the outputs from element `at` of the row on.
    template <int N>
    NDPOOL_INLINE vec<double, N> at(i64 at) const {
        if (at >= whole_from && at + N <= whole_to) return splat<double, N>(common);
        return load<N>(table + (at < whole_from ? at : at - left_out));
    }

  private:
    static constexpr i64 MARGIN = 64;
};

// Writes totals of P, divided, as R. A total that is wider than R may be multiplied by the reciprocal instead: the
// error is far below R's last place.
template <class P, class R, bool PAST = false>
struct SumSink {
    using A = typename P::Lane;
    static constexpr bool STREAMS = std::is_same_v<R, float>, BY_RECIPROCAL = sizeof(R) < sizeof(double);
    R *y;
    Divisor divisor;
    R *row = nullptr;
    CountsAlong along = {};       // where divisors vary
    double across = 1;            // the row's part of the divisor, or one over it
    const Plan *whole = nullptr;  // with the first axis, where that was done before, from output `lo` on
    i64 lo = 0, from = 0;         // and, where that was the only one, from which element of the counts on

    SumSink<P, R, true> past_the_caches() const { return {y, divisor, row, along, across, whole, lo, from}; }
    Scratch<double> take_room(const Plan &plan) {
        if (!divisor.varies()) return {};
        return along.fill(whole && whole->axis_count == 1 ? *whole : plan, divisor.by, BY_RECIPROCAL);
    }
    void move_to(const Plan &plan, i64 index, const OutputRow &rows) {
        row = y + index * plan.out_row;
        if (!divisor.varies()) return;
        i64 cells = divisor.by == Count::REAL ? rows.real : rows.counted;
        if (whole && whole->axis_count > 1) {
            const Axis &first = whole->axes[0];
            const i64 o = lo + index / (whole->out_rows / first.output) % first.output;
            cells *= divisor.by == Count::REAL ? first.taps(o).count : first.counted(o);
        }
        across = BY_RECIPROCAL ? 1 / static_cast<double>(cells) : static_cast<double>(cells);
    }
    void finish(const Plan &, i64, const OutputRow &, i64, i64) {}
    static bool finishes() { return false; }
    // The first axis is done, and what follows is without it.
    void leave_first_axis(const Plan &plan, i64 output) {
        whole = &plan, lo = output;
        if (plan.axis_count == 1) from = lo * plan.inner;
    }
    void advance(i64 elements) { y += elements; }
    template <class Use>
    NDPOOL_INLINE void over_arrays(const Use &use) {
        use(y, row);
    }
    template <int N>
    void put(i64 at, const typename P::template State<N> &s, int count) {
        put_some<N, PAST>(row + at, count, [&](R *p) {
            vec<A, N> total = P::template total<N>(s);
            if ((std::is_same_v<R, A> || std::is_integral_v<R>) && divisor.by == Count::NONE) {
                store_as<N>(p, total);
                return;
            }
            vec<double, N> sum = convert<double, N>(total);
            if (divisor.varies() && BY_RECIPROCAL)
                sum *= along.at<N>(from + at) * across;
            else if (divisor.varies())
                sum /= along.at<N>(from + at) * across;
            else if (BY_RECIPROCAL)
                sum *= divisor.share;
            else if (divisor.by != Count::NONE)
                sum = divisor.whole ? quotient<N>(sum, divisor.fixed, divisor.share) : sum / divisor.fixed;
            // The mean of integers is a double, in the same eight bytes.
            if constexpr (std::is_same_v<R, std::int64_t>)
                store<N>(p, bits<vec<std::int64_t, N>>(sum));
            else
                store_as<N>(p, sum);
        });
    }
};

// --- the transpose ------------------------------------------------------------------------------

// What an output hands to each of its cells.
template <class T, class Sum = double>
struct SumSource {
    using A = Sum;
    static constexpr bool SPARES_PADDING = false;
    const T *q;  // the slab's
    template <int N>
    NDPOOL_INLINE void ahead(i64 output) const {
        prefetch<N>(q + output);
    }
    template <int N>
    NDPOOL_INLINE vec<A, N> add(vec<A, N> sum, i64 output, i64) const {
        return sum + load_as<A, N>(q + output);
    }
    SumSource with(const Border &border, Scratch<char> *copies) const { return {border.around(q, copies[0])}; }
};

// SQUARES_TOO says whether the way by squares is compiled for it.
template <class From, class To, bool SQUARES_TOO>
struct Transposition {
    static constexpr bool SQUARES = SQUARES_TOO;
    From from;
    To to;
};

// The transpose of the sum, by squares or by spreading rows. prepare(in, part, use) calls use(job) with the
// Transposition for a part of the input and the part of the outputs that is over it. A slab is cut into `cuts` parts.
template <class Prepare>
void transpose_all(const Plan &plan, void *gx, i64 element_bytes, Way way, const Route &route, const Prepare &prepare,
                   i64 cuts) {
    over_input_parts(plan, Gradient(plan, gx, element_bytes, route), cuts, [&](const auto &over) {
        over([&](const InputPart &in) {
            prepare(in, outputs_over(plan, in.begin, in.end), [&](const auto &job) {
                using Job = std::decay_t<decltype(job)>;
                if constexpr (Job::SQUARES)
                    if (way == Way::SQUARES && fill_squares(plan, in, job.from, job.to)) return;
                PartSpreader<typename decltype(job.from)::A, decltype(job.to)>(plan, in, job.to).fill(job.from.q);
            });
        });
    });
}
template <class Prepare>
void transpose_all(const Plan &plan, void *gx, i64 element_bytes, Way way, const Route &route, const Prepare &prepare) {
    transpose_all(plan, gx, element_bytes, way, route, prepare, cuts_of(plan));
}

// Room for what the outputs of a part hand on.
template <class T>
class PartPlane {
  public:
    PartPlane(const Plan &plan, const OutputPart &part)
        : first(part.row_begin * plan.out_row + part.begin * plan.inner),
          block((part.row_end - part.row_begin) * (part.end - part.begin) * plan.inner + 64, "outputs of a part") {}
    // Counted from the slab's first output.
    T *data() const { return block.data() - first; }

  private:
    const i64 first;
    Scratch<T> block;
};

// What each output of a part hands to its cells, in lanes of A: its cotangent over the divisor. Where that is rounded
// to fewer bits in the end, the reciprocal of the divisor will do.
template <class A, class G>
void divide(const Plan &plan, const Divisor &divisor, const OutputPart &part, const G *g, A *q) {
    constexpr int N = LANES<A>;
    constexpr bool EXACT = sizeof(A) == sizeof(G);
    const i64 first = part.begin * plan.inner, length = (part.end - part.begin) * plan.inner;
    auto over_rows = [&](const auto &quotient) NDPOOL_INLINED {
        for (i64 row = part.row_begin; row < part.row_end; ++row) {
            const G *from = g + row * plan.out_row + first;
            A *to = q + row * plan.out_row + first;
            i64 i = 0;
            for (; i + N <= length; i += N) store<N>(to + i, quotient(load_as<A, N>(from + i), row, i));
            for (; i < length; ++i) to[i] = quotient(splat<A, N>(load_as<A, 1>(from + i)[0]), row, i)[0];
        }
    };
    using V = vec<A, N>;
    const auto fixed = static_cast<A>(EXACT ? divisor.fixed : divisor.share);
    if (divisor.by == Count::NONE) return over_rows([](V v, i64, i64) NDPOOL_INLINED { return v; });
    if (!divisor.varies())
        return over_rows([fixed](V v, i64, i64) NDPOOL_INLINED { return EXACT ? v / fixed : v * fixed; });
    // A window's cells are those of its rows times those along the row.
    CountsAlong along;
    const Scratch<double> room = along.fill(plan, divisor.by, !EXACT);
    OutputRow rows(plan);
    i64 at = -1;
    double across = 1;
    over_rows([&](V v, i64 row, i64 i) NDPOOL_INLINED {
        if (row != at) {
            rows.move_to(at = row);
            across = static_cast<double>(divisor.by == Count::REAL ? rows.real : rows.counted);
            if (!EXACT) across = 1 / across;
        }
        const V by = convert<A, N>(along.at<N>(first + i) * across);
        return EXACT ? v / by : v * by;
    });
}

// Whether no two windows have a cell in common.
inline bool one_window_each(const Plan &plan) {
    for (int a = 0; a < plan.axis_count; ++a) {
        const Axis &axis = plan.axes[a];
        if (axis.adaptive ? axis.length % axis.output != 0 : axis.kernel > axis.stride || axis.dilation > 1)
            return false;
    }
    return true;
}

// Whether floats hold all divisors exactly.
inline bool floats_hold(const Plan &plan, const Divisor &divisor) {
    if (divisor.varies()) return plan.cells <= 1 << 24;
    return static_cast<double>(static_cast<float>(divisor.fixed)) == divisor.fixed;
}

template <class G>
void sum_vjp(const Plan &plan, Divisor divisor, const G *g, G *gx, const Route &route) {
    constexpr bool FLOATS = std::is_same_v<G, float>;
    // Sums have more bits than what is added up, but for doubles, which have none wider.
    using A = std::conditional_t<sizeof(G) == 2, float, double>;
    const Way way = way_back<A>(plan, {0, 4, 0, !FLOATS || !divisor.varies()}, Way::SPREAD, route);
    if (route.tell(way)) return;
    const Axis &axis = plan.axes[0];
    const i64 beyond = axis.adaptive ? 1 : axis.dilation * (axis.kernel - 1) + 1 - axis.stride;
    const i64 cuts = cuts_of(plan, 1 << 14, beyond < 1 ? 1 : beyond);
    auto target = [&](const InputPart &in, auto zero, double scale) {
        using Sum = decltype(zero);
        if constexpr (sizeof(G) == 2)
            return NarrowTarget<Sum>{in.gx, std::is_same_v<G, BFloat>, static_cast<Sum>(scale)};
        else
            return GradientTarget<G, Sum>{reinterpret_cast<G *>(in.gx), static_cast<Sum>(scale)};
    };
    auto run = [&](const auto &prepare) { transpose_all(plan, gx, sizeof(G), way, route, prepare, cuts); };
    // Divided first, in a plane of their own.
    auto by_planes = [&](auto zero) {
        using Sum = decltype(zero);
        run([&](const InputPart &in, const OutputPart &part, const auto &use) {
            const PartPlane<Sum> q(plan, part);
            divide(plan, divisor, part, g + in.slab * plan.out_slab, q.data());
            auto to = target(in, zero, 1);
            use(Transposition<SumSource<Sum, Sum>, decltype(to), !FLOATS>{{q.data()}, to});
        });
    };
    if constexpr (FLOATS) {
        // A quotient by itself is rounded once.
        if (way == Way::SPREAD && one_window_each(plan) && floats_hold(plan, divisor)) return by_planes(float());
        if (!divisor.varies())
            return run([&](const InputPart &in, const OutputPart &, const auto &use) {
                auto to = target(in, double(), divisor.share);
                use(Transposition<SumSource<float>, decltype(to), true>{{g + in.slab * plan.out_slab}, to});
            });
    }
    by_planes(A());
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
