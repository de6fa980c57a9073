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
        floats.grow(3 * period + 2 * piece + 2 * inner, "a window's findings");
        counts = floats.data(), sums = counts + period, share = sums + period;
        numbers = share + period, count = numbers + 2 * piece, sum = count + inner;
        keys.grow(period + piece + inner, "a window's keys");
        wanted = keys.data(), cells = wanted + period, y = cells + piece;
    }

    // Looks at the cells of a slab: `count` and `sum` are those that equal the output, for each of its elements.
    void look(i64 slab) {
        arrays.keys(arrays.y, slab * inner, inner, arrays.flip, y);
        for (i64 i = 0; i < period; ++i) {
            wanted[i] = y[i % inner];
            counts[i] = 0;
            sums[i] = CARRIED == Carried::PLACE ? NO_PLACE : 0;
        }
        if (!COUNTS && CARRIED == Carried::NOTHING) return;
        over_pieces(slab, [&](i64 at, i64 length) {
            if (CARRIED == Carried::SUM) arrays.floats.read(arrays.t, first(slab) + at, length, numbers);
            if (CARRIED == Carried::PLACE)
                for (i64 i = 0; i < length; ++i) numbers[i] = static_cast<A>((at + i) / inner);
            for (i64 i = 0; i < length; i += period) add(i, length - i < period ? length - i : period);
        });
        for (i64 e = 0; e < inner; ++e) {
            count[e] = 0, sum[e] = CARRIED == Carried::PLACE ? NO_PLACE : 0;
            for (i64 i = e; i < period; i += inner) {
                count[e] += counts[i];
                if (CARRIED != Carried::PLACE)
                    sum[e] += sums[i];
                else if (sums[i] < sum[e])
                    sum[e] = sums[i];
            }
        }
    }

    // Hands g, or its share, to these cells.
    void hand(i64 slab, const InputPart &part, i64 element_bytes, Outbox &outbox) {
        arrays.floats.read(arrays.g, slab * inner, inner, sum);
        for (i64 i = 0; i < period; ++i) share[i] = COUNTS ? sum[i % inner] / count[i % inner] : sum[i % inner];
        auto to = [&](i64 at, i64 length) {
            char *place = part.gx + at * element_bytes;
            return part.streamed ? outbox.room(place, length * element_bytes, piece * element_bytes) : place;
        };
        auto zeros = [&](i64 begin, i64 end) {
            for (i64 at = begin, length; at < end; at += length) {
                length = end - at < piece ? end - at : piece;
                std::memset(to(at, length), 0, static_cast<std::size_t>(length * element_bytes));
            }
        };
        const i64 before = taps.first * inner;
        zeros(0, before);
        over_pieces(slab, [&](i64 at, i64 length) {
            const vec<A, N> none{};
            for (i64 i = 0; i < length; i += period)
                for (i64 k = 0; k < period && i + k < length; k += N)
                    store<N>(numbers + i + k,
                             load<N>(cells + i + k) == load<N>(wanted + k) ? load<N>(share + k) : none);
            arrays.floats.write(numbers, length, to(before + at, length));
        });
        zeros(before + taps.count * inner, plan.in_slab);
    }

    A *count, *sum;

  private:
    static constexpr i64 PIECE = 2048;
    const Plan &plan;
    const TiedArrays<A> &arrays;
    const i64 inner;
    const Axis::Taps taps;
    i64 period, piece;
    Scratch<A> floats;
    Scratch<I> keys;
    A *counts, *sums, *share, *numbers;
    I *wanted, *cells, *y;

    i64 first(i64 slab) const { return slab * plan.in_slab + taps.first * inner; }

    // Calls f(at, length) for pieces of the window, with their keys in `cells`. After the last one these are no
    // output's.
    template <class F>
    NDPOOL_INLINE void over_pieces(i64 slab, const F &f) {
        const i64 all = taps.count * inner;
        for (i64 at = 0; at < all; at += piece) {
            const i64 length = all - at < piece ? all - at : piece;
            arrays.keys(arrays.x, first(slab) + at, length, arrays.flip, cells);
            for (i64 i = length; i < piece && i < length + N; ++i) cells[i] = ~wanted[i % period];
            f(at, length);
        }
    }
    // Some cells of a piece, from a whole period on.
    NDPOOL_INLINE void add(i64 from, i64 length) {
        const I *cell = cells + from, *key = wanted;
        const A *number = numbers + from;
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
};

// --- the derivative ---------------------------------------------------------------------------------

template <class A, bool SPLIT>
void ties_vjp_as(const Plan &plan, const TiedArrays<A> &arrays, const Gradient &gradient) {
    if (!is_one_window(plan))
        return pull_by_columns<A>(plan, gradient, arrays.floats, [&] { return TieMaker<A, SPLIT>(plan, arrays); });
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

// `element_bytes` are those of an element of dy. Says whether all sums are finite.
template <class A>
bool ties_jvp(const Plan &plan, const TiedArrays<A> &arrays, void *dy, i64 element_bytes) {
    bool finite = true;
    auto put = [&](auto &look, i64, i64 at, i64 outputs) {
        bool here = true;
        for (i64 i = 0; i < outputs; ++i) here &= look.sum[i] - look.sum[i] == 0;
        if (!here) __atomic_store_n(&finite, false, __ATOMIC_RELAXED);
        arrays.floats.write(look.sum, outputs, static_cast<char *>(dy) + at * element_bytes);
    };
    if (arrays.policy == Ties::ALL) {
        look_at_all<A, false, Carried::SUM>(plan, arrays, put);
    } else {
        look_at_all<A, true, Carried::SUM>(plan, arrays, [&](auto &look, i64 start, i64 at, i64 outputs) {
            // A y that no cell has has no share of anything.
            for (i64 i = 0; i < outputs; ++i) look.sum[i] /= look.count[i] > 1 ? look.count[i] : 1;
            put(look, start, at, outputs);
        });
    }
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
