// The gradients of SmoothMax and Lp.
#pragma once
#include "kinds/window_sums.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Writes what a cell gets: its weight times what the windows over it hand on, and what windows on their own bring.
// Weights and sums are of type E and A.
template <class E, class A, bool STREAMING = false>
struct SmoothTarget {
    Type result;
    void *gx;         // the slab's
    const E *weight;  // or null, if there is no window
    const double *extra = nullptr;
    static constexpr bool REPEATS = false, STREAMS = std::is_same_v<A, float>, PAST = STREAMING;

    i64 element_bytes() const { return size_of(result); }
    SmoothTarget instead(void *other) const { return {result, other, weight, extra}; }
    SmoothTarget<E, A, true> past_the_caches() const { return {result, gx, weight, extra}; }
    template <int N>
    NDPOOL_INLINE void put(i64 at, vec<A, N> sum, int count) const {
        vec<A, N> zero{}, out = zero;
        // A cell that got nothing stays 0, even if its weight is not finite; and one without weight.
        if (weight) {
            const vec<A, N> w = load_as<A, N>(weight + at);
            out = ((sum == 0) | (w == 0)) ? zero : sum * w;
        }
        if (extra) out += load_as<A, N>(extra + at);
        if (result == Type::F32)
            put_as(static_cast<float *>(gx) + at, out, count);
        else if (result == Type::F64)
            put_as(static_cast<double *>(gx) + at, out, count);
        else  // floats have more bits than enough
            with_narrow(result == Type::BF16, [&](auto zero) NDPOOL_INLINED {
                put_as(static_cast<decltype(zero) *>(gx) + at, convert<float, N>(out), count);
            });
    }

  private:
    template <class T, class V>
    NDPOOL_INLINE static void put_as(T *p, V v, int count) {
        constexpr int N = sizeof(V) / sizeof(v[0]);
        if constexpr (PAST && std::is_same_v<T, float>)
            stream<N>(p, convert<float, N>(v));
        else
            put_some<N>(p, count, [&](T *some) NDPOOL_INLINED { store_as<N>(some, v); });
    }
};

// gx, from terms.
struct TermsBack {
    const Plan &plan;
    const Smooth &kind;
    Type type, result;
    const void *x, *g;
    void *gx;
    Way way;
    const Route &route;
    bool float_sums;  // whether sums of terms are in floats, where the terms are

    void run() const {
        if (!has_long_windows()) return run_in_parts();
        parallel(plan.outer, worth_threads(plan.outer * plan.in_slab), [&](i64 begin, i64 end) {
            for (i64 slab = begin; slab < end; ++slab) {
                if (run_in_pieces(slab)) continue;
                const Plan one = plan.part(0, plan.axes[0].length, 0, 1);
                auto from = [](const void *p, i64 element, Type type) {
                    return static_cast<const char *>(p) + element * size_of(type);
                };
                const i64 cell = slab * plan.in_slab, output = slab * plan.out_slab;
                Smooth own = kind;
                if (own.few) own.few += output;
                if (own.many) own.many += output;
                TermsBack{one,         own, type,  result,    from(x, cell, type), from(g, output, result),
                          in_gx(cell), way, route, float_sums}
                    .run_in_parts();
            }
        });
    }

  private:
    void *in_gx(i64 cell) const { return static_cast<char *>(gx) + cell * size_of(result); }

    // Whether there is one window along the first axis, over all of it, that is longer than what stays in the cache.
    bool has_long_windows() const {
        const Axis &axis = plan.axes[0];
        const bool one = axis.output == 1 && axis.dilation == 1 && axis.taps(0).count == axis.length;
        return one && way == Way::SPREAD && plan.in_slab > LONG;
    }

    void run_in_parts() const {
        auto prepare = [&](const InputPart &in, const OutputPart &part, const auto &use) {
            const i64 rows_each = plan.dim_count ? plan.out_rows / plan.axes[0].output : 1;
            const i64 lo = plan.dim_count ? part.row_begin / rows_each : part.begin;
            const i64 hi = plan.dim_count ? part.row_end / rows_each : part.end;
            if (lo == hi) {
                SmoothTarget<double, double> zeros{result, in.gx, nullptr};
                return use(Transposition<SumSource<double>, SmoothTarget<double, double>, false>{
                    {PartPlane<double>(plan, part).data()}, zeros});
            }
            const SmoothPart whole{in.slab, 1, part, lo, hi};
            over_terms(plan, kind, type, result, x, whole, in.begin, in.end, {false, true, float_sums},
                       [&](auto &sums) {
                           using Sums = std::decay_t<decltype(sums)>;
                           if constexpr (std::is_same_v<typename Sums::Sum, float>)
                               if (float_sums) return hand_on<float>(sums, in, use);
                           hand_on<double>(sums, in, use);
                       });
        };
        const Axis &axis = plan.axes[0];
        const i64 reach = axis.adaptive ? axis.kernel : axis.dilation * axis.kernel;
        transpose_all(plan, gx, size_of(result), way, route, prepare,
                      axis.adaptive && plan.dim_count == 0 ? 1 : cuts_of(plan, PART, reach));
    }

    // Calls use(job) with the Transposition for a part of the input, whose sums are of type A.
    template <class A, class Sums, class Use>
    void hand_on(const Sums &sums, const InputPart &in, const Use &use) const {
        using E = typename Sums::Term;
        const PartPlane<A> outputs(plan, sums.part);
        divide_cotangents(sums, outputs.data());
        Transposition<SumSource<A, A>, SmoothTarget<E, A>, std::is_same_v<A, float>> job{
            {outputs.data()}, {result, in.gx, sums.terms.weight}};
        if (!sums.bad) return use(job);
        const i64 low = sums.terms.low(), length = sums.terms.length();
        const Scratch<double> block(length + 64, "what windows by themselves bring");
        double *extra = block.data();
        std::memset(extra, 0, sizeof(double) * static_cast<std::size_t>(length));
        sums.over_bad(false, [&](const OutputRow &rows, i64 slab, i64 row, i64 o, i64 e) {
            double share = read(result, g, (slab * plan.out_rows + row) * plan.out_row + o * plan.inner + e);
            auto weigh = [&](i64 cell, double w) {
                if (w != 0) extra[cell - slab * plan.in_slab - low] += w * share;
            };
            kind.window(plan, type, x, slab * plan.in_slab, rows, o, e, &weigh);
        });
        job.to.extra = extra - low;
        use(job);
    }

    // What the outputs of a part hand on, in a plane of the slab: 0 for those that are not good.
    template <class E, class S, class A>
    void divide_cotangents(const WindowSums<E, S> &sums, A *plane) const {
        constexpr int N = LANES<S>;
        const i64 start = sums.part.row_begin * plan.out_row + sums.part.begin * plan.inner;
        const auto factor = static_cast<S>(sums.terms.weight_factor());
        const Smooth own = kind;  // a copy, which no store can change
        over_chunks(sums.count(), [&](i64 first, i64 some) {
            S from[CHUNK];
            const S *sum = sums.sum + first;
            A *to = plane + start + first;
            load_plane(result, g, sums.terms.slab * plan.out_slab + start + first, some, from);
            with_share<E, S>(own, [&](const auto &share) NDPOOL_INLINED {
                for (i64 i = 0; i < some; i += N)
                    store<N>(to + i, convert<A, N>(share(load<N>(from + i) * factor, load<N>(sum + i))));
            });
            if (!sums.bad) return;
            for (i64 i = 0; i < some; ++i)
                if (!own.good<E, 1>(vec<S, 1>{sum[i]})[0]) to[i] = 0;
        });
    }

    // Adds up all terms of a slab, and then fills it piece by piece; says whether all sums were good.
    bool run_in_pieces(i64 slab) const {
        const SmoothPart whole{slab, 1, {0, plan.out_rows, 0, plan.last().output}, 0, 1};
        bool good = false;
        over_terms(plan, kind, type, result, x, whole, plan.axes[0].length, 0, {true, true, false}, [&](auto &sums) {
            using E = typename std::decay_t<decltype(sums)>::Term;
            auto &terms = sums.terms;
            const PartPlane<double> outputs(plan, sums.part);
            good = terms.in_pieces && !sums.bad;
            if (!good) return;
            divide_cotangents(sums, outputs.data());
            terms.over_pieces(true, [&](const Plan &piece, i64 from, i64) {
                transpose_all(
                    piece, in_gx(slab * plan.in_slab + from), size_of(result), Way::SPREAD, {},
                    [&](const InputPart &in, const OutputPart &, const auto &use) {
                        use(Transposition<SumSource<double>, SmoothTarget<E, double>, false>{
                            {outputs.data()}, {result, in.gx, terms.weight}});
                    },
                    cuts_of(piece));
            });
        });
        return good;
    }
};

inline void smooth_vjp(const Plan &plan, const Smooth &kind, Type type, Type result, const void *x, const void *g,
                       void *gx, const Route &route) {
    const bool own = result == Type::F32 && !kind.lp && in_own_squares(plan, kind.parameter);
    const bool float_sums = kind.floats_do_for_sums(plan, result);
    Way way = Way::OWN;
    if (!own || (route.asked != Way::NONE && route.asked != Way::OWN)) {
        way = Way::SPREAD;
        if (float_sums) way = way_back<float>(plan, {}, Way::SPREAD, route);
        if (way == Way::SPREAD) way = way_back<double>(plan, {}, Way::SPREAD, route);
    }
    if (route.tell(way)) return;
    if (way == Way::OWN)
        return squares_vjp(plan, kind.parameter, static_cast<const float *>(x), static_cast<const float *>(g),
                           Gradient(plan, gx, sizeof(float), route));
    TermsBack{plan, kind, type, result, x, g, gx, way, route, float_sums}.run();
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
