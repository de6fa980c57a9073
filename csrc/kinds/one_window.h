// Ties of one window over all cells of a slab, side by side: a global pool.
//
// The output's elements repeat along the cells. So they are laid out, again and again, over a stretch that is whole
// places and whole registers, and the cells are compared with that, a piece of the slab at a time.
#pragma once
#include "kinds/ties.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

inline bool is_one_window(const Plan &plan) {
    return plan.dim_count == 0 && plan.last().output == 1 && plan.last().dilation == 1;
}

// Few cells equal their output, so most stretches are compared and left. Of the others, some dozen findings are added
// up in A, and then in doubles.
template <class A, bool COUNTS, Carried CARRIED>
class OneWindow {
  public:
    using I = typename IntOf<sizeof(A)>::s;
    static constexpr int N = LANES<A>;
    static constexpr A NO_PLACE = static_cast<A>(0x1p60);

    OneWindow(const Plan &plan, const TiedArrays<A> &arrays)
        : plan(plan), arrays(arrays), inner(plan.inner), taps(plan.last().taps(0)), period(inner) {
        while (period % N || period < 4 * N) period += period;  // N is a power of two
        piece = PIECE / period * period;
        if (piece < period) piece = period;
        floats.grow(4 * period + 2 * inner, "a window's findings");
        counts = floats.data(), sums = counts + period, share = sums + period, numbers = share + period;
        count = numbers + period, sum = count + inner;
        doubles.grow(2 * inner, "sums of a window's findings");
        total_count = doubles.data(), total = total_count + inner;
        keys.grow(period + piece + N + inner, "a window's keys");
        wanted = keys.data(), cells = wanted + period, y = cells + piece + N;
    }

    // Looks at the cells of a slab: `count` and `sum` are those that equal the output, for each of its elements.
    void look(i64 slab) {
        arrays.keys.read(arrays.y, slab * inner, inner, arrays.flip, y);
        for (i64 i = 0, e = 0; i < period; ++i, e = e + 1 < inner ? e + 1 : 0) wanted[i] = y[e];
        if (!COUNTS && CARRIED == Carried::NOTHING) return;
        for (i64 e = 0; e < inner; ++e) total_count[e] = 0, total[e] = NOTHING;
        clear();
        i64 added = 0;
        over_stretches(
            slab, [](i64, i64) {},
            [&](i64 at, i64 length, const I *cell) {
                if (CARRIED == Carried::SUM) arrays.floats.read(arrays.t, first(slab) + at, length, numbers);
                if (CARRIED == Carried::PLACE)
                    for (i64 i = 0; i < length; ++i) numbers[i] = static_cast<A>((at + i) / inner);
                add(cell, length);
                if (++added % FEW == 0) gather_findings();
            });
        gather_findings();
        for (i64 e = 0; e < inner; ++e) count[e] = static_cast<A>(total_count[e]), sum[e] = static_cast<A>(total[e]);
    }

    // Hands g, or its share, to these cells.
    void hand(i64 slab, const InputPart &part, i64 element_bytes, Outbox &outbox) {
        arrays.floats.read(arrays.g, slab * inner, inner, sum);
        if (COUNTS) divide(sum, count, inner);
        for (i64 i = 0, e = 0; i < period; ++i, e = e + 1 < inner ? e + 1 : 0) share[i] = sum[e];
        char *to = nullptr;
        auto start = [&](i64 at, i64 length) {
            to = part.gx + at * element_bytes;
            if (part.streamed) to = outbox.room(to, length * element_bytes, piece * element_bytes);
            std::memset(to, 0, static_cast<std::size_t>(length * element_bytes));
        };
        auto zeros = [&](i64 begin, i64 end) {
            for (i64 at = begin; at < end; at += piece) start(at, end - at < piece ? end - at : piece);
        };
        const i64 before = taps.first * inner, all = taps.count * inner;
        zeros(0, before);
        auto start_piece = [&](i64 at, i64 length) { start(before + at, length); };
        over_stretches(slab, start_piece, [&](i64 at, i64 length, const I *cell) {
            const vec<A, N> none{};
            for (i64 k = 0; k < length; k += N)
                store<N>(numbers + k, load<N>(cell + k) == load<N>(wanted + k) ? load<N>(share + k) : none);
            arrays.floats.write(numbers, length, to + at % piece * element_bytes);
        });
        zeros(before + all, plan.in_slab);
    }

    A *count, *sum;

  private:
    static constexpr i64 PIECE = 512, FEW = 64;
    static constexpr A NOTHING = CARRIED == Carried::PLACE ? NO_PLACE : 0;
    const Plan &plan;
    const TiedArrays<A> &arrays;
    const i64 inner;
    const Axis::Taps taps;
    i64 period, piece;
    Scratch<A> floats;
    Scratch<double> doubles;
    Scratch<I> keys;
    A *counts, *sums, *share, *numbers;
    double *total_count, *total;
    I *wanted, *cells, *y;

    i64 first(i64 slab) const { return slab * plan.in_slab + taps.first * inner; }

    // Calls f(at, length, keys) for stretches of up to a period in which cells equal their output; before, start(at,
    // length) for the piece that they are of. After the last one, keys are no output's.
    template <class Start, class F>
    NDPOOL_INLINE void over_stretches(i64 slab, const Start &start, const F &f) {
        const i64 all = taps.count * inner;
        for (i64 at = 0; at < all; at += piece) {
            const i64 length = all - at < piece ? all - at : piece;
            start(at, length);
            if (!arrays.keys.find(arrays.x, first(slab) + at, length, arrays.flip, wanted, period)) continue;
            arrays.keys.read(arrays.x, first(slab) + at, length, arrays.flip, cells);
            for (i64 i = length; i < length + N; ++i) cells[i] = ~wanted[i % period];
            for (i64 i = 0; i < length; i += period) {
                const i64 here = length - i < period ? length - i : period;
                vec<I, N> any{};
                for (i64 k = 0; k < here; k += N) any |= load<N>(cells + i + k) == load<N>(wanted + k);
                if (any_lane<N, I>(any)) f(at + i, here, cells + i);
            }
        }
    }
    NDPOOL_INLINE void add(const I *cell, i64 length) {
        const I *key = wanted;
        const A *number = numbers;
        A *counted = counts, *summed = sums;
        const vec<A, N> none{}, one = none + 1;
        for (i64 i = 0; i < length; i += N) {
            const vec<I, N> equal = load<N>(cell + i) == load<N>(key + i);
            if constexpr (COUNTS) store<N>(counted + i, load<N>(counted + i) + (equal ? one : none));
            if constexpr (CARRIED == Carried::SUM)
                store<N>(summed + i, load<N>(summed + i) + (equal ? load<N>(number + i) : none));
            if constexpr (CARRIED == Carried::PLACE) {
                const vec<A, N> place = load<N>(number + i), least = load<N>(summed + i);
                store<N>(summed + i, (equal & (place < least)) ? place : least);
            }
        }
    }
    void clear() {
        for (i64 i = 0; i < period; ++i) counts[i] = 0, sums[i] = NOTHING;
    }
    void gather_findings() {
        for (i64 i = 0, e = 0; i < period; ++i, e = e + 1 < inner ? e + 1 : 0) {
            total_count[e] += static_cast<double>(counts[i]);
            const double found = static_cast<double>(sums[i]);
            if (CARRIED != Carried::PLACE)
                total[e] += found;
            else if (found < total[e])
                total[e] = found;
        }
        clear();
    }
};

// --- the derivative ---------------------------------------------------------------------------------

template <class A, bool SPLIT>
void ties_vjp_as(const Plan &plan, const TiedArrays<A> &arrays, const Gradient &gradient) {
    if (!is_one_window(plan)) return pull_by_rows<A>(plan, gradient, [&] { return TieMaker<A, SPLIT>(plan, arrays); });
    over_input_parts(plan, gradient, [&](const auto &over) {
        OneWindow<A, SPLIT, Carried::NOTHING> window(plan, arrays);
        Outbox outbox;
        over([&](const InputPart &part) {
            window.look(part.slab);
            window.hand(part.slab, part, gradient.element_bytes, outbox);
        });
    });
}
template <class A>
void ties_vjp(const Plan &plan, const TiedArrays<A> &arrays, const Gradient &gradient) {
    if (arrays.policy == Ties::SPLIT)
        ties_vjp_as<A, true>(plan, arrays, gradient);
    else
        ties_vjp_as<A, false>(plan, arrays, gradient);
}

// Calls f as over_asked does.
template <class A, bool COUNTS, Carried CARRIED, class F>
void look_at_all(const Plan &plan, const TiedArrays<A> &arrays, const F &f) {
    if (!is_one_window(plan)) return over_asked<Looker<A, COUNTS, CARRIED>>(plan, arrays, f);
    parallel(plan.outer, worth_threads(plan.outer * plan.in_slab), [&](i64 begin, i64 end) {
        OneWindow<A, COUNTS, CARRIED> window(plan, arrays);
        for (i64 slab = begin; slab < end; ++slab) {
            window.look(slab);
            f(window, i64(0), slab * plan.inner, plan.inner);
        }
    });
}

template <class T>
bool are_finite(const T *numbers, i64 count) {
    using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
    constexpr int N = LANES<A>;
    vec<A, N> zeros{};  // of finite numbers
    i64 i = 0;
    for (; i + N <= count; i += N) zeros += load_as<A, N>(numbers + i) - load_as<A, N>(numbers + i);
    bool all = true;
    for (; i < count; ++i) all &= load_as<A, 1>(numbers + i)[0] - load_as<A, 1>(numbers + i)[0] == 0;
    for (int l = 0; l < N; ++l) all &= zeros[l] == 0;
    return all;
}

// `element_bytes` are those of an element of dy. Says whether all sums are finite.
template <class A>
bool ties_jvp(const Plan &plan, const TiedArrays<A> &arrays, void *dy, i64 element_bytes) {
    bool finite = true;
    auto put = [&](auto &look, i64, i64 at, i64 outputs) {
        if (arrays.policy == Ties::SPLIT) divide(look.sum, look.count, outputs);
        if (!are_finite(look.sum, outputs)) __atomic_store_n(&finite, false, __ATOMIC_RELAXED);
        arrays.floats.write(look.sum, outputs, static_cast<char *>(dy) + at * element_bytes);
    };
    if (arrays.policy == Ties::ALL)
        look_at_all<A, false, Carried::SUM>(plan, arrays, put);
    else
        look_at_all<A, true, Carried::SUM>(plan, arrays, put);
    return finite;
}

// Calls f(output, place, start) for every output, with the place of the first cell that equals it and where the windows
// of its row start. For windows with more places than a lane of the merging way can hold.
template <class F>
void over_first(const Plan &plan, const TiedArrays<double> &arrays, const F &f) {
    look_at_all<double, false, Carried::PLACE>(plan, arrays, [&](auto &look, i64 start, i64 at, i64 outputs) {
        // The window's own padding stands before its first cell.
        const double skipped = is_one_window(plan) ? static_cast<double>(plan.last().taps(0).skipped) : 0;
        for (i64 i = 0; i < outputs; ++i) f(at + i, static_cast<i64>(look.sum[i] + skipped), start);
    });
}

inline void find_winners(const Plan &plan, const TiedArrays<double> &arrays, void *winners, int bytes) {
    over_first(plan, arrays, [&](i64 output, i64 place, i64) {
        if (bytes == 1)
            static_cast<std::uint8_t *>(winners)[output] = static_cast<std::uint8_t>(place);
        else if (bytes == 2)
            static_cast<std::uint16_t *>(winners)[output] = static_cast<std::uint16_t>(place);
        else
            static_cast<std::uint32_t *>(winners)[output] = static_cast<std::uint32_t>(place);
    });
}

// Tangents as they are, of the first of the cells that tie.
inline void first_jvp(const Plan &plan, const TiedArrays<double> &arrays, const void *t, void *dy, i64 element_bytes) {
    const Places places(plan);
    over_first(plan, arrays, [&](i64 output, i64 place, i64 start) {
        const i64 o = output % plan.out_row / plan.inner, e = output % plan.inner;
        const i64 cell = output / plan.out_slab * plan.in_slab + start + plan.last().start(o) * plan.inner + e +
                         places.distance(place);
        std::memcpy(static_cast<char *>(dy) + output * element_bytes,
                    static_cast<const char *>(t) + cell * element_bytes, static_cast<std::size_t>(element_bytes));
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
