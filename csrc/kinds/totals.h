// Sums: the States that add cells up.
#pragma once
#include "passes/states.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// The last `count` lanes, and in the others what a sum does not change by: of floats that is -0.
template <class A, int N>
NDPOOL_INLINE vec<A, N> last_lanes(vec<A, N> v, i64 count) {
    static constexpr std::int64_t NONE_AND_ALL[16] = {0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1};
    const char *all = reinterpret_cast<const char *>(NONE_AND_ALL + 8);
    using Bits = vec<typename IntOf<sizeof(A)>::u, N>;
    Bits taken;
    std::memcpy(&taken, all - (N - count) * static_cast<i64>(sizeof(A)), sizeof taken);
    constexpr auto SIGN = std::is_integral_v<A> ? 0 : typename IntOf<sizeof(A)>::u(1) << (8 * sizeof(A) - 1);
    return bits<vec<A, N>>((bits<Bits>(v) & taken) | (~taken & SIGN));
}

// The sum of integers, modulo 2^32 or 2^64. Lanes that are not wanted may have any number.
template <class A, int N>
NDPOOL_INLINE vec<A, N> wrapped_sum(vec<A, N> a, vec<A, N> b) {
    using U = vec<typename IntOf<sizeof(A)>::u, N>;
    return bits<vec<A, N>>(bits<U>(a) + bits<U>(b));
}

// In a type wide enough that rounding does not show: 64-bit integers, double for narrower floats.
template <class A>
struct Total : OneLane<A>, Untagged {
    using In = A;
    using Lanes = Total;
    static constexpr bool IDEMPOTENT = false, ADDS_UP = true;
    template <int N>
    using State = typename OneLane<A>::template State<N>;

    Lanes lanes() const { return *this; }
    template <int N>
    State<N> lift(const A *p, i64) const {
        return {load<N>(p)};
    }
    template <int N>
    static void merge(State<N> &a, const State<N> &b) {
        if constexpr (std::is_integral_v<A>)
            a.v = wrapped_sum<A, N>(a.v, b.v);
        else
            a.v += b.v;
    }
    template <int N>
    static void merge_any(State<N> &a, const State<N> &b) {
        merge<N>(a, b);
    }
    // To the bit the same, where much else is done by the unit that adds.
    template <int N>
    NDPOOL_INLINE static void merge_beside(State<N> &a, const State<N> &b) {
        a.v = sum_by_product<N>(a.v, b.v);
    }
    template <int N>
    static State<N> empty() {
        return {splat<A, N>(0)};
    }
    template <int N>
    static State<N> only_last(const State<N> &a, i64 count) {
        return {last_lanes<A, N>(a.v, count)};
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
    static constexpr bool IN_PAIRS = LEVEL_IS_TUNED && std::is_same_v<T, BFloat> && std::is_same_v<A, double>,
                          IN_WORDS = LEVEL_IS_TUNED && std::is_same_v<A, std::int32_t>;
    static constexpr i64 MOST_IN_WORDS = !IN_WORDS ? 0 : sizeof(T) == 1 ? 1 << 7 : 1 << 15;

    Lanes lanes() const { return {}; }
    template <int N, class State>
    static void lift_pairs(const T *p, State &a, State &b) {
        vec<float, N> even, odd;
        widen_pairs<N>(p, even, odd);
        a = {convert<A, N>(even)}, b = {convert<A, N>(odd)};
    }
    template <int N>
    typename Lanes::template State<N> lift(const T *p, i64) const {
        return {load_as<A, N>(p)};
    }
};

// Doubles, and with them the rounding errors of all additions.
struct ExactTotal : TwoLanes<double>, Untagged {
    static constexpr bool IDEMPOTENT = false, ADDS_UP = true;

    // Numbers that are exact.
    template <int N>
    struct Exact {
        vec<double, N> v;
        operator State<N>() const { return {v, splat<double, N>(0)}; }
    };
    template <int N>
    static void merge(State<N> &a, const Exact<N> &b) {
        const vec<double, N> s = a.v + b.v, part = difference_by_product<N>(s, a.v);
        a.with += difference_by_product<N>(a.v, s - part) + difference_by_product<N>(b.v, part);
        a.v = s;
    }
    template <int N>
    static void merge(State<N> &a, const State<N> &b) {
        merge<N>(a, Exact<N>{b.v});
        a.with += b.with;
    }
    template <int N, class B>
    static void merge_any(State<N> &a, const B &b) {
        merge<N>(a, b);
    }
    template <int N>
    static State<N> only_last(const State<N> &a, i64 count) {
        return {last_lanes<double, N>(a.v, count), last_lanes<double, N>(a.with, count)};
    }
    template <int N>
    static Exact<N> only_last(const Exact<N> &a, i64 count) {
        return {last_lanes<double, N>(a.v, count)};
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
    auto lift(const T *p, i64) const {
        const vec<T, N> x = load<N>(p);
        if constexpr (std::is_same_v<T, double>) {
            return Exact<N>{x};
        } else {
            // The upper half alone is exact as a double, and so is the lower one.
            const vec<T, N> lower = x & T(0xffffffff);
            return State<N>{convert<double, N>(x - lower), convert<double, N>(lower)};
        }
    }
};

// 64-bit integers without a loss: the sum of their upper halves, and beside it that of the lower ones, of up to 2^31
// cells.
struct WholeTotal : TwoLanes<std::int64_t>, Untagged {
    static constexpr bool IDEMPOTENT = false, ADDS_UP = true;

    template <int N>
    static void merge(State<N> &a, const State<N> &b) {
        a.v = wrapped_sum<Lane, N>(a.v, b.v), a.with = wrapped_sum<Lane, N>(a.with, b.with);
    }
    template <int N>
    static void merge_any(State<N> &a, const State<N> &b) {
        merge<N>(a, b);
    }
    template <int N>
    static State<N> only_last(const State<N> &a, i64 count) {
        return {last_lanes<Lane, N>(a.v, count), last_lanes<Lane, N>(a.with, count)};
    }
    template <int N>
    static State<N> empty() {
        return {splat<Lane, N>(0), splat<Lane, N>(0)};
    }
};
template <class T>
struct WholeSum : WholeTotal {
    using In = T;
    using Lanes = WholeTotal;

    Lanes lanes() const { return {}; }
    template <int N>
    State<N> lift(const T *p, i64) const {
        const vec<T, N> x = load<N>(p);
        return {bits<vec<Lane, N>>(x >> 32), bits<vec<Lane, N>>(x & T(0xffffffff))};
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
