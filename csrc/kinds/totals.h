// Sums: the States that add cells up.
#pragma once
#include "passes/states.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// In a type wide enough that rounding does not show: 64-bit integers, double for narrower floats.
template <class A>
struct Total : OneLane<A>, Untagged {
    using In = A;
    using Lanes = Total;
    static constexpr bool IDEMPOTENT = false;
    template <int N>
    using State = typename OneLane<A>::template State<N>;

    Lanes lanes() const { return *this; }
    template <int N>
    State<N> lift(const A *p, i64) const {
        return {load<N>(p)};
    }
    template <int N>
    static void merge(State<N> &a, const State<N> &b) {
        if constexpr (std::is_integral_v<A>) {  // modulo 2^64
            using U = vec<typename IntOf<sizeof(A)>::u, N>;
            a.v = bits<vec<A, N>>(bits<U>(a.v) + bits<U>(b.v));
        } else {
            a.v += b.v;
        }
    }
    template <int N>
    static void merge_any(State<N> &a, const State<N> &b) {
        merge<N>(a, b);
    }
    template <int N>
    static State<N> empty() {
        return {splat<A, N>(0)};
    }
    template <int N>
    static vec<A, N> total(const State<N> &a) {
        return a.v;
    }
};
template <class T, class A>
struct PlainSum : Total<A> {
    using In = T;
    using Lanes = Total<A>;

    Lanes lanes() const { return {}; }
    template <int N>
    typename Lanes::template State<N> lift(const T *p, i64) const {
        return {load_as<A, N>(p)};
    }
};

// Doubles, and with them the rounding errors of all additions.
struct ExactTotal : TwoLanes<double>, Untagged {
    static constexpr bool IDEMPOTENT = false;

    template <int N>
    static void merge(State<N> &a, const State<N> &b) {
        vec<double, N> s = a.v + b.v;
        vec<double, N> part = s - a.v;
        vec<double, N> error = (a.v - (s - part)) + (b.v - part);
        a.with = a.with + (error + b.with);
        a.v = s;
    }
    template <int N>
    static void merge_any(State<N> &a, const State<N> &b) {
        merge<N>(a, b);
    }
    template <int N>
    static State<N> empty() {
        return {splat<double, N>(0), splat<double, N>(0)};
    }
    template <int N>
    static vec<double, N> total(const State<N> &a) {
        // Beside an infinity the error is not a number, and the infinity is the sum.
        auto finite = (a.with - a.with) == 0;
        return finite ? a.v + a.with : a.v;
    }
};
// Of doubles, or of 64-bit integers, which enter exactly.
template <class T>
struct ExactSum : ExactTotal {
    using In = T;
    using Lanes = ExactTotal;

    Lanes lanes() const { return {}; }
    template <int N>
    State<N> lift(const T *p, i64) const {
        vec<T, N> x = load<N>(p);
        if constexpr (std::is_same_v<T, double>) return {x, splat<double, N>(0)};
        if constexpr (!std::is_same_v<T, double>) {
            // The upper half alone is exact as a double, and so is the lower one.
            vec<T, N> lower = x & T(0xffffffff);
            return {convert<double, N>(x - lower), convert<double, N>(lower)};
        }
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
