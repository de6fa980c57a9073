// Sums of numbers that are too far from each other for any type: every one has a power of 2 of its own, and so has
// every sum, that of its largest term.
//
// They are added up along one axis after the other, so that the cost is the sum of a window's sides. Powers of 2 change
// no mantissa: the bits are those of sums in a common scale, wherever there is one.
#pragma once
#include "passes/spread.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Numbers times powers of 2, whose exponents are -infinity where there is no number. EXACT sums keep what they have
// lost, times the same power.
struct ScaledPlanes {
    double *v, *lost, *power;
};

// Which elements along an axis one sum is made of: `first`, first + step, ..., so many of them.
struct Addends {
    i64 first, count;
};

// Arrays (before, length, inner) become (before, targets, inner).
struct ScaledShape {
    i64 before, length, targets, inner;
};

// What sums are made of along one axis: of each target, those that are said for it.
struct ScaledSource {
    ScaledPlanes from;
    const Addends *of;
    i64 step;
};

template <bool EXACT>
class ScaledPass {
    static constexpr int N = LANES<double>;
    static constexpr double NONE = -__builtin_inf();
    using V = vec<double, N>;

  public:
    static constexpr int MOST = 16;  // sources

    ScaledPass(const ScaledShape &shape, const ScaledSource *sources, int count, const ScaledPlanes &to)
        : shape(shape), sources(sources), count(count), to(to) {}

    void run() {
        if (shape.inner >= N)
            run_places();
        else if (shape.targets * shape.inner >= N)
            run_rows();
        else
            run_short_rows();
    }

  private:
    // Where the first numbers of N sums are, and how many each of them has.
    struct Side {
        i64 at[N], count[N];
        i64 most;
        i64 apart;  // how far they are from each other, if all are as far, or 0
        bool same;  // whether all have as many

        void settle() {
            most = 0, apart = N > 1 ? at[1] - at[0] : 1, same = true;
            for (int l = 0; l < N; ++l) {
                if (count[l] > most) most = count[l];
                same &= count[l] == count[0];
                if (at[l] != at[0] + l * apart) apart = 0;
            }
            if (apart > 2 || !same) apart = 0;
        }
    };
    const ScaledShape shape;
    const ScaledSource *const sources;
    const int count;
    const ScaledPlanes to;

    // Registers of a place.
    void run_places() {
        Side sides[MOST];
        for (i64 a = 0; a < shape.before; ++a)
            for (i64 j = 0; j < shape.targets; ++j) {
                for (int s = 0; s < count; ++s) {
                    const Addends &own = sources[s].of[j];
                    sides[s].at[0] = own.first * shape.inner, sides[s].most = own.count;
                    sides[s].apart = 1, sides[s].same = true;
                }
                for (i64 i = 0; i < shape.inner; i += N) {
                    const i64 e = i + N <= shape.inner ? i : shape.inner - N;
                    add_up(sides, a * shape.length * shape.inner + e, (a * shape.targets + j) * shape.inner + e, N);
                }
            }
    }
    // Registers of a row, which are as those of the next one.
    void run_rows() {
        const i64 width = shape.targets * shape.inner, blocks = (width + N - 1) / N;
        const Scratch<Side> sides(blocks * count, "where the numbers of a row's sums are");
        auto start = [&](i64 b) { return b + 1 < blocks ? b * N : width - N; };
        for (i64 b = 0; b < blocks; ++b)
            for (int s = 0; s < count; ++s) {
                Side &side = sides[b * count + s];
                place(side, sources[s].of, start(b), N);
                side.settle();
            }
        for (i64 a = 0; a < shape.before; ++a)
            for (i64 b = 0; b < blocks; ++b)
                add_up(sides.data() + b * count, a * shape.length * shape.inner, a * width + start(b), N);
    }
    // Registers of several rows.
    void run_short_rows() {
        const i64 width = shape.targets * shape.inner, all = shape.before * width;
        Side sides[MOST];
        for (i64 i = 0; i < all; i += N) {
            const int many = all - i < N ? static_cast<int>(all - i) : N;
            for (int s = 0; s < count; ++s) {
                place(sides[s], sources[s].of, i, many);
                sides[s].settle();
            }
            add_up(sides, 0, i, many);
        }
    }
    // The elements from one on, as if all rows were one; after `many` of them, the last one again.
    void place(Side &side, const Addends *of, i64 element, int many) const {
        i64 place = element / shape.inner, e = element % shape.inner, row = place / shape.targets;
        const Addends *own = of + place % shape.targets;
        for (int l = 0; l < N; ++l) {
            side.at[l] = (row * shape.length + own->first) * shape.inner + e, side.count[l] = own->count;
            if (l + 1 >= many || ++e < shape.inner) continue;
            e = 0;
            if (++own == of + shape.targets) own = of, ++row;
        }
    }

    NDPOOL_INLINE static V get(const Side &side, const double *from, i64 further, i64 k, double otherwise = 0) {
        if (side.apart == 1) return load<N>(from + side.at[0] + further);
        if constexpr (N > 1)
            if (side.apart == 2) {
                const double *p = from + side.at[0] + further;
                return every_second<N, 0>(load<N>(p), load<N>(p + N));
            }
        return gathered(side, from + further, k, otherwise);
    }
    NDPOOL_INLINE static V gathered(const Side &side, const double *from, i64 k, double otherwise) {
#if defined(__AVX512F__)
        if constexpr (N == 8) {
            const __m512i at = _mm512_loadu_si512(side.at), count = _mm512_loadu_si512(side.count);
            const __mmask8 there = _mm512_cmpgt_epi64_mask(count, _mm512_set1_epi64(k));
            return bits<V>(_mm512_mask_i64gather_pd(_mm512_set1_pd(otherwise), there, at, from, 8));
        }
#endif
        V v;
        for (int l = 0; l < N; ++l) v[l] = k < side.count[l] ? from[side.at[l]] : otherwise;
        return v;
    }
    // Calls f(side, planes, further, k) for each number of the sums, in order, from an element on.
    template <class F>
    NDPOOL_INLINE void over(const Side *sides, i64 start, const F &f) const {
        for (int s = 0; s < count; ++s) {
            const Side &side = sides[s];
            const ScaledPlanes &from = sources[s].from;
            const i64 step = sources[s].step * shape.inner, most = side.most;
            i64 further = start;
            for (i64 k = 0; k < most; ++k, further += step) f(side, from, further, k);
        }
    }
    NDPOOL_INLINE void add_up(const Side *sides, i64 start, i64 target, int many) const {
        using Sum = LaneSum<double, N, EXACT>;
        const V none{};
        V top = splat<double, N>(NONE);
        over(sides, start, [&](const Side &side, const ScaledPlanes &from, i64 further, i64 k) NDPOOL_INLINED {
            const V power = get(side, from.power, further, k, NONE);
            top = power > top ? power : top;
        });
        const V own = top == NONE ? none : top;
        Sum sum{};
        over(sides, start, [&](const Side &side, const ScaledPlanes &from, i64 further, i64 k) NDPOOL_INLINED {
            const V factor = power_of_two<N>(get(side, from.power, further, k, NONE) - own);
            // What is too far below does not meet the number, which may be infinite.
            const auto lost = factor == 0;
            Sum part{};
            part.v = lost ? none : get(side, from.v, further, k) * factor;
            if constexpr (EXACT) part.lost = lost ? none : get(side, from.lost, further, k) * factor;
            sum.add(part);
        });
        put_some<N>(to.v + target, many, [&](double *p) NDPOOL_INLINED { store<N>(p, sum.v); });
        if constexpr (EXACT)
            put_some<N>(to.lost + target, many, [&](double *p) NDPOOL_INLINED { store<N>(p, sum.lost); });
        put_some<N>(to.power + target, many, [&](double *p) NDPOOL_INLINED { store<N>(p, top); });
    }
};

// Sums along an axis, of those addends. Where they overlap much, and may be added up in any order, they are made of the
// sums of 4, 16, 64, ... numbers, each of four of the ones before.
template <bool EXACT>
class ScaledAxis {
  public:
    ScaledAxis(const ScaledShape &shape, i64 step, const Addends *addends, bool in_any_order)
        : shape(shape), step(step), addends(addends), in_any_order(in_any_order) {}

    void run(const ScaledPlanes &from, const ScaledPlanes &to) const {
        i64 all = 0, most = 0;
        for (i64 j = 0; j < shape.targets; ++j) {
            all += addends[j].count;
            if (addends[j].count > most) most = addends[j].count;
        }
        if (in_any_order && all > 12 * shape.length) return run_levels(from, to, most);
        const ScaledSource source{from, addends, step};
        ScaledPass<EXACT>(shape, &source, 1, to).run();
    }

  private:
    static constexpr int MOST = ScaledPass<EXACT>::MOST;
    const ScaledShape shape;
    const i64 step;
    const Addends *const addends;
    const bool in_any_order;

    void run_levels(const ScaledPlanes &from, const ScaledPlanes &to, i64 most) const {
        int levels = 1;
        while (levels < MOST && most >> (2 * levels)) ++levels;
        const i64 size = shape.before * shape.length * shape.inner + 64;
        const Scratch<double> block(3 * (levels - 1) * size, "sums of 4, 16, 64, ... numbers");
        const Scratch<Addends> table(levels * shape.targets + shape.length, "what sums are made of");
        ScaledSource sources[MOST];
        sources[0] = {from, table.data(), step};
        for (int i = 1; i < levels; ++i) {
            double *own = block.data() + 3 * (i - 1) * size;
            sources[i] = {
                {own, own + size, own + 2 * size}, table.data() + i * shape.targets, step * (i64(1) << (2 * i))};
            add_fours(sources[i - 1], sources[i].from, table.data() + levels * shape.targets);
        }
        for (i64 j = 0; j < shape.targets; ++j) {
            i64 first = addends[j].first, left = addends[j].count;
            for (int i = levels - 1; i >= 0; --i) {
                const i64 some = left >> (2 * i);
                table[i * shape.targets + j] = {some ? first : 0, some};
                first += some * sources[i].step, left -= some << (2 * i);
            }
        }
        ScaledPass<EXACT>(shape, sources, levels, to).run();
    }
    // Sums of four, at every place; nobody asks for those that reach beyond the end.
    void add_fours(const ScaledSource &from, const ScaledPlanes &to, Addends *room) const {
        const i64 size = from.step > 0 ? from.step : -from.step;
        for (i64 p = 0; p < shape.length; ++p) {
            const i64 left = from.step > 0 ? shape.length - 1 - p : p;
            room[p] = {p, left / size < 3 ? left / size + 1 : 4};
        }
        const ScaledSource source{from.from, room, from.step};
        ScaledPass<EXACT>({shape.before, shape.length, shape.length, shape.inner}, &source, 1, to).run();
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
