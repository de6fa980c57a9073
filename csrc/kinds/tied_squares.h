// Ties on the way back in squares, where cells are floats: a cell is compared with the outputs over it.
#pragma once
#include "kinds/ties.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Cells, and which of them are NaN. A NaN ties for all windows that see it; any other cell, for those that it equals.
template <int N>
struct TiedCells {
    vec<float, N> v;
    vec<std::int32_t, N> nan;

    NDPOOL_INLINE void set(vec<float, N> cells) { v = cells, nan = cells != cells; }
    // A sum, and a share where they tie.
    NDPOOL_INLINE vec<float, N> add(vec<float, N> sum, vec<float, N> y, vec<float, N> share) const {
        const vec<float, N> none{};
        return sum + ((v == y) | nan ? share : none);
    }
};
#if defined(__AVX512F__)  // where the compiler would make vectors of masks
template <>
struct TiedCells<16> {
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
#endif

// What an output hands to the cells that equal it.
struct TieSource {
    using A = float;
    template <int N>
    using Cells = TiedCells<N>;
    static constexpr bool SPARES_PADDING = false;
    static constexpr Lines FIRST = Lines::ROWS;
    const float *x, *y, *share;  // the slab's

    template <int N>
    NDPOOL_INLINE void ahead(i64 output) const {
        prefetch<N>(y + output);
        prefetch<N>(share + output);
    }
    // The cells of N squares, from element `at` of the slab on, as even and odd ones. The last may not be there.
    template <int N>
    NDPOOL_INLINE void look(i64 at, bool all, TiedCells<N> (&cells)[2]) const {
        prefetch<2 * N>(x + at);
        const vec<float, N> low = load<N>(x + at), high = all ? load<N>(x + at + N) : load_some<N>(x + at + N, N - 1);
        cells[0].set(every_second<N, 0>(low, high)), cells[1].set(every_second<N, 1>(low, high));
    }
    template <int N>
    NDPOOL_INLINE vec<A, N> add(vec<A, N> sum, i64 output, const TiedCells<N> &cells) const {
        return cells.add(sum, load<N>(y + output), load<N>(share + output));
    }
    TieSource with(const Border &border, Scratch<char> *copies) const {
        return {x, border.around(y, copies[0]), border.around(share, copies[1])};
    }
};
template <>
constexpr bool LOOKS_AT_CELLS<TieSource> = true;

// The shares of outputs that are split among the cells that tie for them. Windows are those of squares.
class SquareShares {
  public:
    SquareShares(const Plan &plan, const float *x, const float *y, const float *g)
        : plan(plan), axis(plan.last()), x(x), y(y), g(g), whole(whole_outputs(axis, 0, axis.output)), rows(plan) {}

    // Those of the output rows begin..end-1, of the slab where x, y and g start.
    void make(i64 begin, i64 end, float *to) {
        for (i64 row = begin; row < end; ++row, to += plan.out_row) {
            row == begin ? rows.move_to(row) : rows.move_on(1);
            axis.kernel == 2 ? make_row<2>(row * plan.out_row, to) : make_row<3>(row * plan.out_row, to);
        }
    }

  private:
    static constexpr int N = LANES<float>;
    const Plan &plan;
    const Axis &axis;
    const float *x, *y, *g;
    const WholeOutputs whole;
    OutputRow rows;

    template <int K>
    void make_row(i64 at, float *to) const {
        const i64 outputs = axis.output, whole_from = starts_in_memory() ? 0 : whole.first;
        const bool short_row = whole.stop - whole_from < N;
        const i64 begin = short_row ? outputs : whole_from, end = short_row ? outputs : whole.stop;
        for (i64 o = 0; o < begin; ++o) to[o] = share(at, o);
        for (i64 i = begin; i < end; i += N) {
            const i64 o = i + N <= end ? i : end - N;
            const vec<float, N> best = load<N>(y + at + o), shares = load<N>(g + at + o), one = vec<float, N>{} + 1;
            const bool nans = any_lane<N, std::int32_t>(best != best);
            vec<float, N> n = nans ? count<K, true>(o, best) : count<K, false>(o, best);
            if (o < whole.first) n[0] -= tied_before_row(best[0], nans);
            store<N>(to + o, any_lane<N, std::int32_t>(n > 1) ? shares / (n > 1 ? n : one) : shares);
        }
        for (i64 o = end; o < outputs; ++o) to[o] = share(at, o);
    }
    // Whether the first window of a row sees one cell of padding before it, where the last cell of another row lies. So
    // it can be counted as if it were whole, and that cell be taken away again.
    bool starts_in_memory() const {
        return axis.pad_lo == 1 && whole.first == 1 && rows.count > 0 && rows.base + rows.offset[0] > 0;
    }
    float tied_before_row(float best, bool nans) const {
        float tied = 0;
        for (i64 r = 0; r < rows.count; ++r) {
            const float v = x[rows.base + rows.offset[r] - 1];
            tied += v == best || (nans && v != v) ? 1.0f : 0.0f;
        }
        return tied;
    }
    // How many cells tie for N outputs from number o on. Where none of these is NaN, no cell is.
    template <int K, bool NANS>
    NDPOOL_INLINE vec<float, N> count(i64 o, vec<float, N> best) const {
        vec<float, N> sum{}, one = sum + 1;
        auto add = [&](vec<float, N> v) NDPOOL_INLINED {
            if constexpr (NANS)
                sum = ((v == best) | (v != v)) ? sum + one : sum;
            else
                sum = v == best ? sum + one : sum;
        };
        const float *const start = x + rows.base + (2 * o - axis.pad_lo);
        for (i64 r = 0; r < rows.count; ++r) {
            const float *cell = start + rows.offset[r];
            if (r + 2 >= rows.count) prefetch<2 * N>(cell);  // the others were the last rows before
            const vec<float, N> low = load<N>(cell), high = load<N>(cell + N);
            add(every_second<N, 0>(low, high));
            add(every_second<N, 1>(low, high));
            if constexpr (K == 3) add(every_second<N, 1>(load<N>(cell + 1), load<N>(cell + 1 + N)));
        }
        return sum;
    }
    float share(i64 at, i64 o) const {
        const Axis::Taps taps = axis.taps(o);
        const float best = y[at + o];
        i64 count = 0;
        for (i64 r = 0; r < rows.count; ++r) {
            const float *cell = x + rows.base + rows.offset[r] + taps.first;
            for (i64 k = 0; k < taps.count; ++k) count += cell[k] == best || cell[k] != cell[k];
        }
        return g[at + o] / static_cast<float>(count > 1 ? count : 1);
    }
};

// Fills the gradient. What the outputs of a part hand on is shares(part, block), counted from the slab's first output,
// with a block to hold it.
template <class Shares>
void pull_by_squares(const Plan &plan, const Gradient &gradient, const float *x, const float *y, const Shares &shares) {
    over_input_parts(plan, gradient, [&](const auto &over) {
        Scratch<float> block;
        over([&](const InputPart &part) {
            const TieSource from{x + part.slab * plan.in_slab, y + part.slab * plan.out_slab, shares(part, block)};
            const GradientTarget<float, float> to{reinterpret_cast<float *>(part.gx), 1};
            RowGatherer<LANES<float>, TieSource, GradientTarget<float, float>>(plan, part, from, to)
                .gather_in_squares();
        });
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
