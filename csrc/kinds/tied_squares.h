// Ties on the way back in squares: a cell is compared with the outputs over it, as floats or doubles.
#pragma once
#include "kinds/ties.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Cells, and which of them are NaN. A NaN ties for all windows that see it; any other cell, for those that it equals.
template <class F, int N>
struct TiedCells {
    vec<F, N> v;
    vec<typename IntOf<sizeof(F)>::s, N> nan;

    NDPOOL_INLINE void set(vec<F, N> cells) { v = cells, nan = cells != cells; }
    // A sum, and a share where they tie.
    NDPOOL_INLINE vec<F, N> add(vec<F, N> sum, vec<F, N> y, vec<F, N> share) const {
        const vec<F, N> none{};
        return sum + ((v == y) | nan ? share : none);
    }
};
#if defined(__AVX512F__)  // where the compiler would make vectors of masks
template <>
struct TiedCells<float, 16> {
    vec<float, 16> v;
    __mmask16 nan;

    NDPOOL_INLINE void set(vec<float, 16> cells) {
        v = cells, nan = _mm512_cmp_ps_mask(bits<__m512>(v), bits<__m512>(v), _CMP_UNORD_Q);
    }
    NDPOOL_INLINE vec<float, 16> add(vec<float, 16> sum, vec<float, 16> y, vec<float, 16> share) const {
        const __mmask16 tie = _mm512_cmp_ps_mask(bits<__m512>(v), bits<__m512>(y), _CMP_EQ_OQ) | nan;
        return bits<vec<float, 16>>(_mm512_mask_add_ps(bits<__m512>(sum), tie, bits<__m512>(sum), bits<__m512>(share)));
    }
};
template <>
struct TiedCells<double, 8> {
    vec<double, 8> v;
    __mmask8 nan;

    NDPOOL_INLINE void set(vec<double, 8> cells) {
        v = cells, nan = _mm512_cmp_pd_mask(bits<__m512d>(v), bits<__m512d>(v), _CMP_UNORD_Q);
    }
    NDPOOL_INLINE vec<double, 8> add(vec<double, 8> sum, vec<double, 8> y, vec<double, 8> share) const {
        const __mmask8 tie = _mm512_cmp_pd_mask(bits<__m512d>(v), bits<__m512d>(y), _CMP_EQ_OQ) | nan;
        return bits<vec<double, 8>>(
            _mm512_mask_add_pd(bits<__m512d>(sum), tie, bits<__m512d>(sum), bits<__m512d>(share)));
    }
};
#endif

// What an output hands to the cells that equal it.
template <class F>
struct TieSource {
    using A = F;
    template <int N>
    using Cells = TiedCells<F, N>;
    static constexpr bool SPARES_PADDING = false;
    static constexpr Lines FIRST = Lines::ROWS;
    const F *x, *y, *share;  // the slab's

    template <int N>
    NDPOOL_INLINE void ahead(i64 output) const {
        prefetch<N>(y + output);
        prefetch<N>(share + output);
    }
    // The cells of N squares, from element `at` of the slab on, as even and odd ones. The last may not be there.
    template <int N>
    NDPOOL_INLINE void look(i64 at, bool all, Cells<N> (&cells)[2]) const {
        prefetch<2 * N>(x + at);
        const vec<F, N> low = load<N>(x + at), high = all ? load<N>(x + at + N) : load_some<N>(x + at + N, N - 1);
        cells[0].set(every_second<N, 0>(low, high)), cells[1].set(every_second<N, 1>(low, high));
    }
    template <int N>
    NDPOOL_INLINE vec<F, N> add(vec<F, N> sum, i64 output, const Cells<N> &cells) const {
        return cells.add(sum, load<N>(y + output), load<N>(share + output));
    }
    TieSource with(const Border &border, Scratch<char> *copies) const {
        return {x, border.around(y, copies[0]), border.around(share, copies[1])};
    }
};
template <class F>
constexpr bool LOOKS_AT_CELLS<TieSource<F>> = true;

// The shares of outputs that are split among the cells that tie for them. Windows are those of squares.
template <class F>
class SquareShares {
  public:
    SquareShares(const Plan &plan, const F *x, const F *y, const F *g)
        : plan(plan), axis(plan.last()), x(x), y(y), g(g), whole(whole_outputs(axis, 0, axis.output)), rows(plan) {}

    // Those of the output rows begin..end-1, of the slab where x, y and g start.
    void make(i64 begin, i64 end, F *to) {
        for (i64 row = begin; row < end; ++row, to += plan.out_row) {
            row == begin ? rows.move_to(row) : rows.move_on(1);
            axis.kernel == 2 ? make_row<2>(row * plan.out_row, to) : make_row<3>(row * plan.out_row, to);
        }
    }

  private:
    using I = typename IntOf<sizeof(F)>::s;
    static constexpr int N = LANES<F>;
    const Plan &plan;
    const Axis &axis;
    const F *x, *y, *g;
    const WholeOutputs whole;
    OutputRow rows;

    template <int K>
    void make_row(i64 at, F *to) const {
        const i64 outputs = axis.output, whole_from = starts_in_memory() ? 0 : whole.first;
        const bool short_row = whole.stop - whole_from < N;
        const i64 begin = short_row ? outputs : whole_from, end = short_row ? outputs : whole.stop;
        for (i64 o = 0; o < begin; ++o) to[o] = share(at, o);
        for (i64 i = begin; i < end; i += N) {
            const i64 o = i + N <= end ? i : end - N;
            const vec<F, N> best = load<N>(y + at + o), shares = load<N>(g + at + o), one = vec<F, N>{} + 1;
            const bool nans = any_lane<N, I>(best != best);
            vec<F, N> n = nans ? count<K, true>(o, best) : count<K, false>(o, best);
            if (o < whole.first) n[0] -= tied_before_row(best[0], nans);
            store<N>(to + o, any_lane<N, I>(n > 1) ? shares / (n > 1 ? n : one) : shares);
        }
        for (i64 o = end; o < outputs; ++o) to[o] = share(at, o);
    }
    // Whether the first window of a row sees one cell of padding before it, where the last cell of another row lies. So
    // it can be counted as if it were whole, and that cell be taken away again.
    bool starts_in_memory() const {
        return axis.pad_lo == 1 && whole.first == 1 && rows.count > 0 && rows.base + rows.offset[0] > 0;
    }
    F tied_before_row(F best, bool nans) const {
        F tied = 0;
        for (i64 r = 0; r < rows.count; ++r) {
            const F v = x[rows.base + rows.offset[r] - 1];
            tied += v == best || (nans && v != v) ? 1 : 0;
        }
        return tied;
    }
    // How many cells tie for N outputs from number o on. Where none of these is NaN, no cell is.
    template <int K, bool NANS>
    NDPOOL_INLINE vec<F, N> count(i64 o, vec<F, N> best) const {
        vec<F, N> sum{}, one = sum + 1;
        auto add = [&](vec<F, N> v) NDPOOL_INLINED {
            if constexpr (NANS)
                sum = ((v == best) | (v != v)) ? sum + one : sum;
            else
                sum = v == best ? sum + one : sum;
        };
        const F *const start = x + rows.base + (2 * o - axis.pad_lo);
        for (i64 r = 0; r < rows.count; ++r) {
            const F *cell = start + rows.offset[r];
            if (r + 2 >= rows.count) prefetch<2 * N>(cell);  // the others were the last rows before
            const vec<F, N> low = load<N>(cell), high = load<N>(cell + N);
            add(every_second<N, 0>(low, high));
            add(every_second<N, 1>(low, high));
            if constexpr (K == 3) add(every_second<N, 1>(load<N>(cell + 1), load<N>(cell + 1 + N)));
        }
        return sum;
    }
    F share(i64 at, i64 o) const {
        const Axis::Taps taps = axis.taps(o);
        const F best = y[at + o];
        i64 count = 0;
        for (i64 r = 0; r < rows.count; ++r) {
            const F *cell = x + rows.base + rows.offset[r] + taps.first;
            for (i64 k = 0; k < taps.count; ++k) count += cell[k] == best || cell[k] != cell[k];
        }
        return g[at + o] / static_cast<F>(count > 1 ? count : 1);
    }
};

// Numbers begin..end-1 of an array, as those of F, counted from the array's start. `block` holds them, if they are
// others, and 0 before them.
template <class F, class T>
const F *numbers_of(const T *array, i64 begin, i64 end, [[maybe_unused]] Scratch<F> &block) {
    if constexpr (std::is_same_v<F, T>) {
        return array;
    } else {
        constexpr i64 BEFORE = LANES<F>;
        block.grow(BEFORE + end - begin + 2 * LANES<F>, "numbers as floats");
        F *to = block.data() + BEFORE;
        to[-1] = 0;
        read_numbers<F, T>(array, begin, end - begin, to);
        return to - begin;
    }
}

// The VJP of floats of T.
template <class T>
void pull_by_squares(const Plan &plan, const Call &call, const Gradient &gradient) {
    using F = std::conditional_t<std::is_same_v<T, double>, double, float>;
    auto *x = static_cast<const T *>(call.x), *y = static_cast<const T *>(call.y_in), *g = static_cast<const T *>(call.g);
    over_input_parts(plan, gradient, [&](const auto &over) {
        Scratch<F> cells, outputs, cotangents, shares;
        over([&](const InputPart &part) {
            const OutputPart seen = outputs_over(plan, part.begin, part.end);
            const i64 first = seen.row_begin * plan.out_row, stop = seen.row_end * plan.out_row,
                      out = part.slab * plan.out_slab;
            i64 begin = part.begin, end = part.end;  // cells that are looked at, along the first axis
            if (first < stop) {
                const i64 rows = plan.out_rows / plan.axes[0].output;
                i64 lo, hi;
                Columns<F>::seen(plan.axes[0], seen.row_begin / rows, seen.row_end / rows, &lo, &hi);
                if (lo < begin) begin = lo;
                if (hi > end) end = hi;
            }
            const i64 each = first_stride(plan);
            TieSource<F> from{numbers_of(x + part.slab * plan.in_slab, begin * each, end * each, cells),
                              numbers_of(y + out, first, stop, outputs), numbers_of(g + out, first, stop, cotangents)};
            // Ties are counted where they are needed next, so that the cells are near.
            if (call.ties == Ties::SPLIT && first < stop) {
                shares.grow(stop - first, "shares of outputs");
                SquareShares<F>(plan, from.x, from.y, from.share).make(seen.row_begin, seen.row_end, shares.data());
                from.share = shares.data() - first;
            }
            auto fill = [&](const auto &to) {
                RowGatherer<LANES<F>, TieSource<F>, std::decay_t<decltype(to)>>(plan, part, from, to)
                    .gather_in_squares();
            };
            if constexpr (std::is_same_v<F, T>)
                fill(GradientTarget<F, F>{reinterpret_cast<F *>(part.gx), 1});
            else
                fill(NarrowTarget<F>{part.gx, std::is_same_v<T, BFloat>, 1});
        });
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
