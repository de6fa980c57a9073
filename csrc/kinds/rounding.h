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

// Means of N sums, in lanes of A. Where A is as wide as the integers themselves, their sum is two lanes.
template <class A, int N>
class RoundedMeans {
    using V = vec<A, N>;
    using U = vec<typename IntOf<sizeof(A)>::u, N>;
    using F = QuotientFloat<A>;

  public:
    NDPOOL_INLINE explicit RoundedMeans(const Rounder &by)
        : n(splat<A, N>(static_cast<A>(by.n))),
          added(splat<A, N>(static_cast<A>(by.terms.added))),
          to_negative(splat<A, N>(static_cast<A>(by.terms.to_negative))),
          even(splat<A, N>(static_cast<A>(by.terms.even))),
          share(splat<F, N>(static_cast<F>(by.share))),
          shift(by.shift) {}
    // Each sum by a number of its own.
    NDPOOL_INLINE RoundedMeans(Rounding rounding, V n) : RoundedMeans(n, RoundingTerms<V>(rounding, n)) {}

    NDPOOL_INLINE V of(const typename OneLane<A>::template State<N> &sum) const {
        if (shift >= 0) return by_shift(sum.v);
        const Parts parts = divide(with_terms(sum.v));
        return made_even(parts.quotient, parts.rest);
    }
    // The same, if it is known that a shift does it.
    NDPOOL_INLINE V by_shift(V sum) const {
        const V s = with_terms(sum);
        return made_even(s >> shift, s & (n - 1));
    }
    // The upper half first, as by hand. What remains of it stands before the lower half.
    NDPOOL_INLINE V of(const typename TwoLanes<A>::template State<N> &sum) const {
        V upper = sum.v + (sum.with >> HALF), lower = sum.with & LOWER;
        lower += added + (sign(upper) & to_negative);
        upper += lower >> HALF, lower &= LOWER;
        if (shift >= 0)
            return made_even(as_signed((as_unsigned(upper) << (HALF - shift)) + (as_unsigned(lower) >> shift)),
                             lower & (n - 1));
        const Parts first = divide(upper), second = divide((first.rest << HALF) + lower);
        return made_even(as_signed((as_unsigned(first.quotient) << HALF) + as_unsigned(second.quotient)), second.rest);
    }

  private:
    static constexpr int HALF = 4 * sizeof(A);
    static constexpr A LOWER = (A(1) << HALF) - 1;
    const V n, added, to_negative, even;
    const vec<F, N> share;
    const int shift;

    struct Parts {
        V quotient, rest;
    };
    NDPOOL_INLINE RoundedMeans(V n, const RoundingTerms<V> &terms)
        : n(n),
          added(terms.added),
          to_negative(terms.to_negative),
          even(terms.even),
          share(1 / near_float<A, N>(n)),
          shift(-1) {}

    static NDPOOL_INLINE V sign(V v) { return v >> (8 * static_cast<int>(sizeof(A)) - 1); }
    static NDPOOL_INLINE U as_unsigned(V v) { return bits<U>(v); }
    static NDPOOL_INLINE V as_signed(U v) { return bits<V>(v); }

    NDPOOL_INLINE V with_terms(V sum) const { return sum + added + (sign(sum) & to_negative); }
    // Rounded down. A quotient has half of the bits that A has, and so an estimate of it is off by far less than a
    // half: the nearest whole number is the quotient or one more.
    NDPOOL_INLINE Parts divide(V sum) const {
        constexpr F LARGE =
            sizeof(A) == 4 ? F(0x1.8p23) : F(0x1.8p52);  // beside it, a float has no digits for fractions
        const U near = bits<U>(near_float<A, N>(sum) * share + LARGE) - bits<U>(splat<F, N>(LARGE));
        const V rest = as_signed(as_unsigned(sum) - near * as_unsigned(n)), below = sign(rest);
        return {as_signed(near) + below, rest + (n & below)};
    }
    NDPOOL_INLINE V made_even(V quotient, V rest) const { return quotient - (quotient & even & (rest == 0)); }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
