// Cells of 32-bit floats some of which are skipped: which are there, and what sums over them are divided by.
#pragma once
#include "kinds/families.h"
#include "passes/skipped.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Which of N cells are there, all ones each; or as a mask.
template <int N>
class CellsThere {
    using Bits = vec<std::uint32_t, N>;

  public:
    NDPOOL_INLINE CellsThere(Bits cells, const SkippedBits &skipped) {
        const auto kept = static_cast<std::uint32_t>(skipped.kept), first = static_cast<std::uint32_t>(skipped.first),
                   more = static_cast<std::uint32_t>(skipped.more);
        const Bits beyond = (cells & kept) - first;
#if defined(__AVX512VL__)
        if constexpr (N == 8)
            mask = _mm256_cmpgt_epu32_mask(bits<__m256i>(beyond), bits<__m256i>(splat<std::uint32_t, N>(more)));
#endif
        there = bits<Bits>(beyond > more);
    }
    // The cells as doubles, with another in place of those that are not there.
    NDPOOL_INLINE vec<double, N> doubles(Bits cells, std::uint32_t other) const {
#if defined(__AVX512VL__)
        if constexpr (N == 8) {
            const __m512d instead = _mm512_set1_pd(static_cast<double>(bits<float>(other)));  // of -0, splat makes 0
            return bits<vec<double, N>>(_mm512_mask_cvtps_pd(instead, mask, bits<__m256>(cells)));
        }
#endif
        return convert<double, N>(bits<vec<float, N>>((cells & there) | (~there & other)));
    }
    // 1 for each that is.
    NDPOOL_INLINE vec<double, N> ones() const {
#if defined(__AVX512VL__)
        if constexpr (N == 8) return bits<vec<double, N>>(_mm512_maskz_mov_pd(mask, _mm512_set1_pd(1)));
#endif
        return convert<double, N>(float_ones());
    }
    NDPOOL_INLINE vec<float, N> float_ones() const { return only(splat<float, N>(1)); }
    // Numbers where cells are there, and 0 elsewhere.
    NDPOOL_INLINE vec<float, N> only(vec<float, N> v) const { return bits<vec<float, N>>(there & bits<Bits>(v)); }

  private:
    Bits there;
#if defined(__AVX512VL__)
    __mmask8 mask = 0;
#endif
};

// What sums are divided by: the number of cells, or else one number.
struct CountedDivisor {
    bool by_count;
    double fixed;
    double least;  // cells that an output needs

    // What outputs that see so many cells hand to each of them. Rounded once: as a double, a quotient of floats has so
    // many digits that it is rounded as the true one would be.
    template <int N>
    NDPOOL_INLINE vec<float, N> shares(vec<float, N> g, vec<float, N> number) const {
        return by_count ? g / number : convert<float, N>(convert<double, N>(g) / fixed);
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
