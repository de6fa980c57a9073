// SmoothMax of floats where cells are so far from each other that no power of 2 serves all windows of a part: every
// window has one of its own.
//
// The mantissas and the exponents of all cells are found once. A window's power of 2 is that of its largest cell, and it
// adds up its own terms: the cost is that of its cells, however far it is from its neighbours. Registers hold windows
// side by side.
#pragma once
#include "kinds/window_sums.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

class FarWindows {
    using Sums = WindowSums<double, double>;

  public:
    // Terms that have more bits than floats would be added up in another order than elsewhere.
    static bool suit(const Sums &sums) { return sums.kind.narrow && !sums.kind.lp && !sums.terms.in_pieces; }

    explicit FarWindows(const Sums &sums)
        : sums(sums),
          plan(sums.plan),
          kind(sums.kind),
          low(sums.terms.low()),
          length(sums.terms.length()),
          count(sums.count()),
          cells(2 * length + 128, "mantissas and exponents of cells"),
          windows(2 * count + 128, "sums of windows, and their exponents"),
          mantissa(cells.data() - low),
          exponent(mantissa + length + 64),
          total(windows.data()),
          scale(total + count + 64) {
        take_apart();
        add_up();
    }

    // Whether its terms are in range. All others are infinite, or NaN, or have no cells.
    bool is_plain(i64 output) const {
        const double most = scale[output] + ABOVE, limit = 0.9 * kind.limit();
        return total[output] - total[output] == 0 && most < limit && most > -limit;
    }

    void values(double *to) const {
        const LogValue<float> log(0, kind.parameter);
        for (i64 i = 0; i < count; i += N) store<N>(to + i, log.of<N>(load<N>(total + i), load<N>(scale + i)));
    }

    // Writes a good sum where a window is plain and its value finite, and NaN elsewhere; says how many those are.
    i64 say_which_are_plain(const double *values, double *sum) const {
        i64 others = 0;
        for (i64 i = 0; i < count; ++i) {
            const bool plain = is_plain(i) && values[i] - values[i] == 0;
            sum[i] = plain ? 1 : __builtin_nan(""), others += !plain;
        }
        return others;
    }

    // Their changes along a tangent.
    void changes(Type type, const void *t, double *to) const {
        const Scratch<double> block(length + 64, "a part of the tangent");
        const double *tangent = block.data() - low;
        load_plane(type, t, sums.terms.slab * plan.in_slab + low, length, block.data());
        over_windows([&](const auto &window) NDPOOL_INLINED {
            constexpr int M = std::decay_t<decltype(window)>::LANES_HERE;
            const vec<double, M> own = load<M>(scale + window.first), none{};
            vec<double, M> sum{};
            window.over([&](i64 cell) NDPOOL_INLINED {
                const vec<double, M> w =
                    times_power<M>(window.get(mantissa + cell), window.get(exponent + cell) - own);
                sum += w == 0 ? none : to_float_bits<M>(w * window.get(tangent + cell));
            });
            store<M>(to + window.first, sum);
        });
        share(to);
    }

    // What the cells get of the outputs' cotangents, those of plain windows alone; counted from the slab's start.
    void hand_back(Type type, const void *g, double *to) const {
        const Scratch<double> block(count + 64, "cotangents of a part");
        double *shares = block.data();
        load_plane(type, g, sums.terms.slab * plan.out_slab + sums.start(), count, shares);
        share(shares);
        for (i64 i = 0; i < count; ++i)
            if (!is_plain(i)) shares[i] = 0;
        over_windows([&](const auto &window) NDPOOL_INLINED {
            constexpr int M = std::decay_t<decltype(window)>::LANES_HERE;
            const vec<double, M> own = load<M>(scale + window.first), none{};
            vec<double, M> all = load<M>(shares + window.first);
            for (int l = 0; l < window.again; ++l) all[l] = 0;
            window.over([&](i64 cell) NDPOOL_INLINED {
                const vec<double, M> power = power_of_two<M>(window.get(exponent + cell) - own);
                window.add(to + cell, ((all == 0) | (power == 0)) ? none : all * power);
            });
        });
        for (i64 i = low; i < low + length; i += N) {
            const V sum = to_float_bits<N>(load<N>(to + i)), p = load<N>(mantissa + i), none{};
            store<N>(to + i, sum == 0 ? none : sum * p);
        }
    }

  private:
    static constexpr int N = LANES<double>;
    static constexpr double ABOVE = 600;  // the exponent of a window's largest term, so that there is more below
    using V = vec<double, N>;
    const Sums &sums;
    const Plan &plan;
    const Smooth &kind;
    const i64 low, length, count;
    const Scratch<double> cells, windows;
    double *const mantissa, *const exponent;  // as if from the slab's start
    double *const total, *const scale;

    // M windows side by side, of as many cells each.
    template <int M>
    struct Side {
        static constexpr int LANES_HERE = M;
        const OutputRow &rows;
        const i64 step, taps;
        i64 first;     // output of the part
        i64 at[M];     // where the first cells of a row are
        double zeros;  // padded cells that count
        i64 apart;     // how far they are from each other, if all are as far, or 0
        int again;     // so many of them were there before

        template <class F>
        NDPOOL_INLINE void over(const F &f) const {
            for (i64 r = 0; r < rows.count; ++r)
                for (i64 k = 0; k < taps; ++k) f(rows.offset[r] + k * step);
        }
        NDPOOL_INLINE vec<double, M> get(const double *from) const {
            if (apart == 1) return load<M>(from + at[0]);
            if constexpr (M > 1)
                if (apart == 2) return every_second<M, 0>(load<M>(from + at[0]), load<M>(from + at[0] + M));
            vec<double, M> v;
            for (int l = 0; l < M; ++l) v[l] = from[at[l]];
            return v;
        }
        NDPOOL_INLINE void add(double *to, vec<double, M> v) const {
            if (apart == 1) return store<M>(to + at[0], load<M>(to + at[0]) + v);
            for (int l = 0; l < M; ++l) to[at[l]] += v[l];
        }
    };

    // Calls f(windows) for all of them.
    template <class F>
    void over_windows(const F &f) const {
        const Axis &axis = plan.last();
        const OutputPart &part = sums.part;
        const i64 inner = plan.inner, step = axis.dilation * inner;
        // Elements of a row whose windows are whole, if they are as many as a register has.
        const WholeOutputs whole = whole_outputs(axis, part.begin, part.end);
        const i64 begin = (whole.first - part.begin) * inner, stop = (whole.stop - part.begin) * inner,
                  end = stop - begin >= N ? stop : begin;
        OutputRow rows(plan);
        for (i64 index = part.row_begin; index < part.row_end; ++index) {
            rows.move_to(index % plan.out_rows);
            const i64 slab = index / plan.out_rows * plan.in_slab, first = (index - part.row_begin) * sums.outputs();
            const auto all = static_cast<double>(rows.counted), real = static_cast<double>(rows.real);
            for (i64 i = 0; i < sums.outputs();) {
                if (i >= begin && i < end) {
                    const i64 from = i + N <= end ? i : end - N;
                    i64 o = part.begin + from / inner, e = from % inner;
                    const double zeros = kind.count_pad ? (all - real) * static_cast<double>(axis.kernel) : 0;
                    const i64 apart = e + N <= inner || axis.stride == 1 ? 1 : inner == 1 ? axis.stride : 0;
                    Side<N> side{rows, step, axis.kernel, first + from, {}, zeros, apart, static_cast<int>(i - from)};
                    for (int l = 0; l < N; ++l) {
                        side.at[l] = slab + axis.start(o) * inner + e;
                        if (++e == inner) e = 0, ++o;
                    }
                    f(side);
                    i = from + N;
                } else {
                    const i64 o = part.begin + i / inner;
                    const Axis::Taps taps = axis.taps(o);
                    const auto counted = static_cast<double>(axis.counted(o)), own = static_cast<double>(taps.count);
                    const double zeros = kind.count_pad ? all * counted - real * own : 0;
                    f(Side<1>{rows, step, taps.count, first + i, {slab + taps.first * inner + i % inner}, zeros, 1, 0});
                    ++i;
                }
            }
        }
    }

    void take_apart() {
        const ExpTerm<float> exp(kind.parameter);
        over_chunks(length, [&](i64 first, i64 some) {
            float x[CHUNK];
            load_plane(sums.terms.type, sums.terms.x, sums.terms.slab * plan.in_slab + low + first, some, x);
            for (i64 i = 0; i < some; i += N) {
                const Scaled<double, N> parts = widened<N>(exp.of<N>(load<N>(x + i)));
                store<N>(mantissa + low + first + i, parts.p), store<N>(exponent + low + first + i, parts.n);
            }
        });
    }
    void add_up() {
        over_windows([&](const auto &window) NDPOOL_INLINED {
            constexpr int M = std::decay_t<decltype(window)>::LANES_HERE;
            using W = vec<double, M>;
            W most = splat<double, M>(window.zeros > 0 ? 0 : -__builtin_inf()), sum{};
            window.over([&](i64 cell) NDPOOL_INLINED {
                const W n = window.get(exponent + cell);
                most = n > most ? n : most;
            });
            const W own = most - ABOVE;
            window.over([&](i64 cell) NDPOOL_INLINED {
                sum += times_power<M>(window.get(mantissa + cell), window.get(exponent + cell) - own);
            });
            // A padded cell that counts is the number 0.
            if (window.zeros > 0) sum = to_float_bits<M>(sum) + window.zeros * power_of_two<M>(-own);
            store<M>(total + window.first, sum), store<M>(scale + window.first, own);
        });
    }
    // Numbers of windows, over the sums of these.
    void share(double *of) const {
        with_share<double>(kind, {}, [&](const auto &share) NDPOOL_INLINED {
            for (i64 i = 0; i < count; i += N) store<N>(of + i, share(load<N>(of + i), load<N>(total + i)));
        });
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
