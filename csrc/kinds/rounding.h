// The mean of integers as an integer: the exact quotient of their sum and their number, rounded once.
//
// Every rounding is a quotient that is rounded down, when something is added to the sum first. With n for the number:
//
//   floor      nothing
//   truncate   n - 1 if the sum is negative
//   half_up    n / 2, rounded down itself
//   half_away  the same, less one if the sum is negative and n is even
//   half_even  the same as half_up. If n is even and there is no remainder, the mean was halfway: from an odd quotient,
//              one is taken away
#pragma once
#include "kinds/totals.h"
#include "plan/call.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// What is added to sums, and to negative ones beside; and 1 if a quotient without a remainder must be even. A is an
// integer, or a vector of them.
template <class A>
struct RoundingTerms {
    A added, to_negative, even;

    NDPOOL_INLINE RoundingTerms(Rounding rounding, A n) {
        const bool halves =
            rounding == Rounding::HALF_EVEN || rounding == Rounding::HALF_UP || rounding == Rounding::HALF_AWAY;
        const A none = n - n, odd = n & 1;
        added = halves ? n >> 1 : none;
        to_negative = rounding == Rounding::TRUNCATE ? n - 1 : rounding == Rounding::HALF_AWAY ? odd - 1 : none;
        even = rounding == Rounding::HALF_EVEN ? 1 - odd : none;
    }
};

// The float that holds quotients of A: so many bits that an estimate is off by far less than a half.
template <class A>
using QuotientFloat = std::conditional_t<sizeof(A) == 8, double, float>;

template <class A, int N>
NDPOOL_INLINE vec<QuotientFloat<A>, N> near_float(vec<A, N> v) {
#if defined(__x86_64__) && !defined(__AVX512DQ__)
    if constexpr (sizeof(A) == 8) {  // without an instruction for it: the lower and the upper half, as bits of doubles
        using U = vec<std::uint64_t, N>;
        const U lower = (bits<U>(v) & 0xffffffff) | 0x4330000000000000;  // 2^52 and the lower half
        const U upper = (bits<U>(v) >> 32) ^ 0x4530000080000000;         // 2^84 and 2^63 and the upper half
        return (bits<vec<double, N>>(upper) - 0x1.00000801p84) + bits<vec<double, N>>(lower);
    }
#endif
    return convert<QuotientFloat<A>, N>(v);
}

template <class A, int N>
class RoundedMeans;

// One number that many sums are divided by.
struct Rounder {
    i64 n = 1;
    RoundingTerms<i64> terms{Rounding::FLOOR, 1};
    double share = 1;
    int shift = 0;  // the exponent of a power of two; less than 0 if it is none

    Rounder() = default;
    Rounder(Rounding rounding, i64 n)
        : n(n),
          terms(rounding, n),
          share(1 / static_cast<double>(n)),
          shift((n & (n - 1)) == 0 ? __builtin_ctzll(static_cast<unsigned long long>(n)) : -1) {}
    template <class A, int N>
    NDPOOL_INLINE RoundedMeans<A, N> means() const {
        return RoundedMeans<A, N>(*this);
    }
};

// Means of N sums, in lanes of A. Where A is as wide as the integers themselves, their sum is two lanes. The arithmetic
// is unsigned, as lanes that are not wanted may have any number.
template <class A, int N>
class RoundedMeans {
    using V = vec<A, N>;
    using U = vec<typename IntOf<sizeof(A)>::u, N>;
    using F = QuotientFloat<A>;

  public:
    NDPOOL_INLINE explicit RoundedMeans(const Rounder &by)
        : n(all(by.n)),
          added(all(by.terms.added)),
          to_negative(all(by.terms.to_negative)),
          even(all(by.terms.even)),
          share(splat<F, N>(static_cast<F>(by.share))),
          shift(by.shift) {}
    // Each sum by a number of its own.
    NDPOOL_INLINE RoundedMeans(Rounding rounding, V n) : RoundedMeans(n, RoundingTerms<V>(rounding, n)) {}

    NDPOOL_INLINE V of(const typename OneLane<A>::template State<N> &sum) const {
        if (shift >= 0) return by_shift(sum.v);
        const Parts parts = divide(with_terms(bits<U>(sum.v)));
        return made_even(parts.quotient, parts.rest);
    }
    // The same, if it is known that a shift does it.
    NDPOOL_INLINE V by_shift(V sum) const {
        const U s = with_terms(bits<U>(sum));
        return made_even(shifted(s, shift), s & (n - 1));
    }
    // The upper half first, as by hand. What remains of it stands before the lower half.
    NDPOOL_INLINE V of(const typename TwoLanes<A>::template State<N> &sum) const {
        U lower = bits<U>(sum.with), upper = bits<U>(sum.v) + shifted(lower, HALF);
        lower = (lower & LOWER) + added + (sign(upper) & to_negative);
        upper += shifted(lower, HALF), lower &= LOWER;
        if (shift >= 0) return made_even((upper << (HALF - shift)) + (lower >> shift), lower & (n - 1));
        const Parts first = divide(upper), second = divide((first.rest << HALF) + lower);
        return made_even((first.quotient << HALF) + second.quotient, second.rest);
    }

  private:
    using Number = typename IntOf<sizeof(A)>::u;
    static constexpr int BITS = 8 * sizeof(A), HALF = BITS / 2;
    static constexpr Number LOWER = static_cast<Number>((Number(1) << HALF) - 1);
    const U n, added, to_negative, even;
    const vec<F, N> share;
    const int shift;

    struct Parts {
        U quotient, rest;
    };
    NDPOOL_INLINE RoundedMeans(V n, const RoundingTerms<V> &terms)
        : n(bits<U>(n)),
          added(bits<U>(terms.added)),
          to_negative(bits<U>(terms.to_negative)),
          even(bits<U>(terms.even)),
          share(1 / near_float<A, N>(n)),
          shift(-1) {}

    static NDPOOL_INLINE U all(i64 number) { return splat<Number, N>(static_cast<Number>(number)); }
    static NDPOOL_INLINE U shifted(U v, int by) { return bits<U>(bits<V>(v) >> by); }  // with the sign
    static NDPOOL_INLINE U sign(U v) { return shifted(v, BITS - 1); }

    NDPOOL_INLINE U with_terms(U sum) const { return sum + added + (sign(sum) & to_negative); }
    // Rounded down. A quotient has half of the bits that A has, and so an estimate of it is off by far less than a
    // half: the nearest whole number is the quotient or one more.
    NDPOOL_INLINE Parts divide(U sum) const {
        constexpr F LARGE = sizeof(A) == 8 ? F(0x1.8p52) : F(0x1.8p23);  // beside it, a float has no fractions
        const U near = bits<U>(near_float<A, N>(bits<V>(sum)) * share + LARGE) - bits<U>(splat<F, N>(LARGE));
        const U rest = sum - near * n, below = sign(rest);
        return {near + below, rest + (n & below)};
    }
    NDPOOL_INLINE V made_even(U quotient, U rest) const {
        return bits<V>(quotient - (quotient & even & bits<U>(rest == 0)));
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
