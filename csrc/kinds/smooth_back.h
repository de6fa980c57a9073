// The gradients of SmoothMax and Lp.
#pragma once
#include "kinds/bands.h"
#include "kinds/far_windows.h"
#include "kinds/own_squares.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Writes what a cell gets: its weight, held as E, times what the windows over it hand on.
template <class E, bool STREAMING = false>
struct SmoothTarget {
    Type result;
    void *gx;                       // the slab's
    const E *weight;                // or null, if there is no window
    bool narrow;                    // whether weights and sums have no more bits than floats
    float least;                    // what is not more than that is 0
    const double *known = nullptr;  // if set, what the cells get
    static constexpr bool REPEATS = false, STREAMS = std::is_same_v<E, float>, PAST = STREAMING;

    i64 element_bytes() const { return size_of(result); }
    SmoothTarget instead(void *other) const { return {result, other, weight, narrow, least, known}; }
    SmoothTarget<E, true> past_the_caches() const { return {result, gx, weight, narrow, least, known}; }
    template <int N>
    NDPOOL_INLINE void put(i64 at, vec<double, N> sum, int count) const {
        // A cell that got nothing stays 0, even if its weight is not finite; and one without weight.
        if constexpr (std::is_same_v<E, float>) {
            put_all<N>(at, weighed<N>(convert<float, N>(sum), load<N>(weight + at)), count);
        } else {
            vec<double, N> out{};
            if (known)
                out = load<N>(known + at);
            else if (weight)
                out = weighed<N>(rounded<N>(sum), load<N>(weight + at));
            put_all<N>(at, out, count);
        }
    }
    // Of two registers that lie side by side.
    template <int N>
    NDPOOL_INLINE void put_joined(i64 at, vec<double, N> first, vec<double, N> second) const {
        put_all<2 * N>(at, weighed<2 * N>(joined_as_floats<2 * N>(first, second), load<2 * N>(weight + at)), 2 * N);
    }
    template <int N>
    NDPOOL_INLINE void put_zipped(i64 at, vec<double, N> even, vec<double, N> odd) const {
        put_all<2 * N>(at, weighed<2 * N>(zipped_as_floats<N>(even, odd), load<2 * N>(weight + at)), 2 * N);
    }

  private:
    template <int N, class V>
    NDPOOL_INLINE static V weighed(V sum, V w) {
        const V zero{};
        return ((sum == 0) | (w == 0)) ? zero : sum * w;
    }
    template <int N>
    NDPOOL_INLINE vec<double, N> rounded(vec<double, N> sum) const {
        return narrow ? to_float_bits<N>(sum) : sum;
    }
    template <int N, class V>
    NDPOOL_INLINE void put_all(i64 at, V out, int count) const {
        if (result == Type::F64)
            return put_as<N>(static_cast<double *>(gx) + at, unsigned_zeros<N>(out, least), count);
        const auto floats = convert<float, N>(out);  // which have more bits than enough for 16-bit ones
        if (result == Type::F32)
            return put_as<N>(static_cast<float *>(gx) + at, unsigned_zeros<N>(floats, least), count);
        with_narrow(result == Type::BF16, [&](auto zero) NDPOOL_INLINED {
            put_as<N>(static_cast<decltype(zero) *>(gx) + at, unsigned_zeros<N>(floats, least), count);
        });
    }
    template <int N, class T, class V>
    NDPOOL_INLINE static void put_as(T *p, V v, int count) {
        if constexpr (PAST && std::is_same_v<T, float>)
            stream<N>(p, convert<float, N>(v));
        else
            put_some<N>(p, count, [&](T *some) NDPOOL_INLINED { store_as<N>(some, v); });
    }
};
template <bool STREAMING, int N>
constexpr bool PUTS_JOINED<SmoothTarget<float, STREAMING>, N> = 2 * N == LANES<float>;
template <bool STREAMING, int N>
constexpr bool PUTS_ZIPPED<SmoothTarget<float, STREAMING>, N> = ZIPS_AS_FLOATS<N>;

// What a cell must get more than: of 16 bits, those that do not round to 0.
inline float least_share(const Smooth &kind, Type result) {
    if (result == Type::F16) return 0x1p-25f;
    if (result == Type::BF16) return 0x1p-134f;
    return result == Type::F32 && !kind.lp ? LEAST_SHARE : 0;
}

// gx, from terms.
struct TermsBack {
    const Plan &plan;
    const Smooth &kind;
    Type type, result;
    const void *x, *g;
    void *gx;
    Way way;
    const Route &route;

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
                TermsBack{one, own, type, result, from(x, cell, type), from(g, output, result), in_gx(cell), way, route}
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
                return use(Transposition<SumSource<double>, SmoothTarget<double>, false>{
                    {PartPlane<double>(plan, part).data()}, {result, in.gx, nullptr, false, 0}});
            }
            const SmoothPart whole{in.slab, 1, part, lo, hi};
            over_terms(plan, kind, type, x, whole, in.begin, in.end, {false, true}, [&](auto &sums) {
                hand_on(sums, in, use);
                hand_on_nans(sums, in);
            });
        };
        const Axis &axis = plan.axes[0];
        const i64 reach = axis.adaptive ? axis.kernel : axis.dilation * axis.kernel;
        transpose_all(plan, gx, size_of(result), way, route, prepare,
                      axis.adaptive && plan.dim_count == 0 ? 1 : cuts_of(plan, PART, reach));
    }

    // Calls use(job) with the Transposition for a part of the input.
    template <class Sums, class Use>
    void hand_on(Sums &sums, const InputPart &in, const Use &use) const {
        using E = typename Sums::Term;
        const float least = least_share(kind, result);
        if constexpr (FarWindows::MAY_SUIT<Sums>)
            if (FarWindows::suit(sums) && (sums.are_many_bad() || Bands(sums).waiting()))
                return fill_far(sums, in, {result, in.gx, nullptr, kind.narrow, least});
        const PartPlane<double> outputs(plan, sums.part);
        divide_cotangents(sums, outputs.data());
        Transposition<SumSource<double>, SmoothTarget<E>, std::is_same_v<E, float>> job{
            {outputs.data()}, {result, in.gx, sums.terms.weight, kind.narrow, least}};
        if constexpr (std::is_same_v<E, double>) {
            const i64 length = sums.terms.length() + 64;
            const Scratch<double> known(sums.bad ? length : 0, "what the cells of a part get");
            if (sums.bad) {
                std::memset(known.data(), 0, sizeof(double) * static_cast<std::size_t>(length));
                fill_in_bands(sums, in, outputs.data(), known.data() - sums.terms.low());
                job.to.known = known.data() - sums.terms.low();
            }
            use(job);
        } else {
            use(job);
        }
    }

    // All cells of a window with a NaN get one.
    template <class Sums>
    void hand_on_nans(const Sums &sums, const InputPart &in) const {
        if (!sums.nans) return;
        if (in.streamed) end_streaming();
        const i64 each = first_stride(plan);
        sums.over_nans([&](const OutputRow &rows, i64, i64, i64 o, i64 e) {
            const Axis::Taps taps = plan.last().taps(o);
            for (i64 r = 0; r < rows.count; ++r)
                for (i64 k = 0; k < taps.count; ++k) {
                    const i64 cell =
                        rows.base + rows.offset[r] + (taps.first + k * plan.last().dilation) * plan.inner + e;
                    if (cell >= in.begin * each && cell < in.end * each)
                        write(result, in.gx, cell, __builtin_nan(""));
                }
        });
    }

    // What cells get, where some windows are out of range of those around them.
    void fill_far(const WindowSums<double, double> &sums, const InputPart &in, SmoothTarget<double> to) const {
        constexpr int N = LANES<double>;
        const Scratch<double> known(sums.terms.length() + 64, "what the cells of a part get");
        const FarWindows far(sums);
        far.hand_back(result, g, in.begin, in.end, known.data());
        double *cells = known.data() - sums.terms.low();
        if (!far.all_plain())
            add_others(sums, cells, [&](i64 output, const auto &) { return far.is_plain(output); });
        to.known = cells;
        const i64 each = first_stride(plan), first = in.begin * each;
        blocks<N>((in.end - in.begin) * each,
                  [&](i64 i, int count) NDPOOL_INLINED { to.put<N>(first + i, vec<double, N>{}, count); });
    }
    // The same in bands. A cell gets what it gets in the lowest band that a window over it is in: beside that, what the
    // windows above bring is nothing.
    void fill_in_bands(WindowSums<double, double> &sums, const InputPart &in, double *plane, double *known) const {
        auto &terms = sums.terms;
        const i64 low = terms.low(), length = terms.length();
        const i64 start = sums.start();
        const Scratch<double> block(3 * length + 256, "a band");
        double *found = block.data(), *under = found + length + 64, *ones = under + length + 64;
        for (i64 i = 0; i < length; ++i) under[i] = ones[i] = 1;
        auto spread = [&](const double *weight, bool narrow, double *to) {
            InputPart own = in;
            own.gx = reinterpret_cast<char *>(to - low), own.streamed = own.in_lines = false;
            const i64 rows = plan.dim_count ? plan.in_rows / plan.axes[0].length * (in.end - in.begin) : 1;
            const SmoothTarget<double> target{Type::F64, to - low, weight, narrow, 0};
            PartSpreader<double, SmoothTarget<double>>(plan, rows, false, kind.exact).fill(plane, own, target);
        };
        Bands bands(sums);
        const TermScale scale = terms.scale;
        bool any = true;
        for (bool first = true; first || (any && bands.waiting()); first = false) {
            if (first) {
                spread(terms.weight, kind.narrow, found);
            } else {
                terms.scale = bands.scale(kind);
                WindowSums<double, double> own(terms, true);
                divide_cotangents(own, plane);
                spread(terms.weight, kind.narrow, found);
                any = bands.take(own, [](i64) {});
            }
            for (i64 i = 0; i < length; ++i)
                if (under[i] != 0) known[low + i] = found[i];
            for (i64 i = 0; i < sums.count(); ++i) plane[start + i] = bands.waits(i);
            spread(ones - low, false, under);
        }
        terms.scale = scale;
        add_others(sums, known, [&](i64 output, const auto &window) {
            return !bands.waits(output) && window(true).is_plain();
        });
    }
    // What windows bring whose sums are not good, but for those that are done already.
    template <class Done>
    void add_others(const WindowSums<double, double> &sums, double *known, const Done &is_done) const {
        sums.over_bad([&](const OutputRow &rows, i64 slab, i64 row, i64 o, i64 e) {
            auto lone = [&](bool best_alone) {
                return LoneWindow(plan, kind, type, x, slab * plan.in_slab, rows, o, e, best_alone);
            };
            if (is_done(sums.place_of(slab, row, o, e), lone)) return;
            const LoneWindow window = lone(false);
            const double own = read(result, g, (slab * plan.out_rows + row) * plan.out_row + o * plan.inner + e);
            window.weigh(own, [&](i64 cell, double w, double share) {
                if (w != 0) known[cell - slab * plan.in_slab] += w * share;
            });
        });
    }

    // What the outputs of a part hand on, in a plane of the slab: 0 for those that are not good.
    template <class E, class S>
    void divide_cotangents(const WindowSums<E, S> &sums, double *plane) const {
        constexpr int N = LANES<S>;
        const i64 start = sums.start();
        const auto factor = static_cast<S>(sums.terms.weight_factor());
        const Smooth own = kind;  // a copy, which no store can change
        over_chunks(sums.count(), [&](i64 first, i64 some) {
            S from[CHUNK];
            const S *sum = sums.sum + first;
            double *to = plane + start + first;
            load_plane(result, g, sums.terms.slab * plan.out_slab + start + first, some, from);
            with_share<S>(own, sums.terms.scale, [&](const auto &share) NDPOOL_INLINED {
                for (i64 i = 0; i < some; i += N)
                    store<N>(to + i, convert<double, N>(share(load<N>(from + i) * factor, load<N>(sum + i))));
            });
            if (!sums.bad && !sums.nans) return;
            for (i64 i = 0; i < some; ++i)
                if (!own.good<E, 1>(vec<S, 1>{sum[i]})[0]) to[i] = 0;
        });
    }

    // Adds up all terms of a slab, and then fills it piece by piece; says whether all sums were good.
    bool run_in_pieces(i64 slab) const {
        const SmoothPart whole{slab, 1, {0, plan.out_rows, 0, plan.last().output}, 0, 1};
        bool good = false;
        over_terms(plan, kind, type, x, whole, plan.axes[0].length, 0, {true, true}, [&](auto &sums) {
            using E = typename std::decay_t<decltype(sums)>::Term;
            auto &terms = sums.terms;
            const PartPlane<double> outputs(plan, sums.part);
            good = terms.in_pieces && !sums.bad && !sums.nans;
            if (!good) return;
            divide_cotangents(sums, outputs.data());
            terms.over_pieces(true, [&](const Plan &piece, i64 from, i64) {
                transpose_all(
                    piece, in_gx(slab * plan.in_slab + from), size_of(result), Way::SPREAD, {},
                    [&](const InputPart &in, const OutputPart &, const auto &use) {
                        use(Transposition<SumSource<double>, SmoothTarget<E>, false>{
                            {outputs.data()}, {result, in.gx, terms.weight, kind.narrow, least_share(kind, result)}});
                    },
                    cuts_of(piece));
            });
        });
        return good;
    }
};

inline void smooth_vjp(const Plan &plan, const Smooth &kind, Type type, Type result, const void *x, const void *g,
                       void *gx, const Route &route) {
    const bool own = result == Type::F32 && !kind.lp && in_own_squares(plan, kind);
    Way way = Way::OWN;
    if (!own || (route.asked != Way::NONE && route.asked != Way::OWN))
        way = way_back<double>(plan, {0, kind.narrow}, Way::SPREAD, route);
    if (route.tell(way)) return;
    if (way == Way::OWN)
        return squares_vjp(plan, kind, static_cast<const float *>(x), static_cast<const float *>(g),
                           Gradient(plan, gx, sizeof(float), route));
    TermsBack{plan, kind, type, result, x, g, gx, way, route}.run();
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
