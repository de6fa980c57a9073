// Ties on the way back in squares, where cells are floats: a cell is compared with the outputs over it.
#pragma once
#include "kinds/ties.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// What an output hands to the cells that equal it.
struct TieSource {
    using A = float;
    using Key = std::int32_t;
    static constexpr bool SPARES_PADDING = false;
    const float *x, *y, *share;  // the slab's

    template <int N>
    NDPOOL_INLINE static vec<Key, N> key(const float *p) {
        return keys_of<Key, float, N>(p, 0);
    }
    template <int N>
    NDPOOL_INLINE void ahead(i64 output) const {
        prefetch<N>(y + output);
        prefetch<N>(share + output);
    }
    // The cells of N squares, from element `at` of the slab on, as even and odd ones. The last may not be there.
    template <int N>
    NDPOOL_INLINE void look(i64 at, bool all, vec<Key, N> (&cells)[2]) const {
        float some[N];
        prefetch<2 * N>(x + at);
        if (!all) store<N>(some, load_some<N>(x + at + N, N - 1));
        const vec<Key, N> low = key<N>(x + at), high = key<N>(all ? x + at + N : some);
        cells[0] = every_second<N, 0>(low, high), cells[1] = every_second<N, 1>(low, high);
    }
    template <int N>
    NDPOOL_INLINE vec<A, N> add(vec<A, N> sum, i64 output, vec<Key, N> cell) const {
        const vec<A, N> none{};
        return sum + (key<N>(y + output) == cell ? load<N>(share + output) : none);
    }
    TieSource with(const Border &border, Scratch<char> *copies) const {
        return {x, border.around(y, copies[0]), border.around(share, copies[1])};
    }
};
template <>
constexpr bool LOOKS_AT_CELLS<TieSource> = true;

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
