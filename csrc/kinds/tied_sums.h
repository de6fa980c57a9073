// Max and Min with all cells that tie: how many they are, and the sum of their tangents, in the pass that finds the
// value. The rounding error of every addition is kept beside the sum, so that the order of merges does not matter.
#pragma once
#include "kinds/keys.h"
#include "kinds/ties.h"
#include "passes/forward.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

template <class L>
struct TiedBest : Untagged {
    using Lane = L;
    static constexpr int PLANES = 4;
    static constexpr bool HEAVY = true, IDEMPOTENT = false;

    template <int N>
    struct State {
        vec<L, N> v, count, sum, lost;
    };
    template <int N>
    static void merge(State<N> &a, const State<N> &b) {
        const auto better = Order<L>::template better<N>(b.v, a.v), as_good = Order<L>::template as_good<N>(b.v, a.v);
        const vec<L, N> none{};
        a.v = better ? b.v : a.v;
        a.count = (better ? none : a.count) + (as_good ? b.count : none);
        const vec<L, N> one = better ? none : a.sum, other = as_good ? b.sum : none;
        a.sum = one + other;
        a.lost = (better ? none : a.lost) + (as_good ? b.lost : none);
        if constexpr (N == LANES<L>)  // most cells tie with none
            if (!any_lane<N, typename IntOf<sizeof(L)>::s>(as_good & ~better)) return;
        const vec<L, N> part = a.sum - one;
        a.lost += (one - (a.sum - part)) + (other - part);
    }
    // Beside an infinity the error is not a number, and the infinity is the sum.
    template <int N>
    static vec<L, N> total(const State<N> &a) {
        return a.lost - a.lost == 0 ? a.sum + a.lost : a.sum;
    }
    template <int N>
    static void merge_any(State<N> &a, const State<N> &b) {
        merge<N>(a, b);
    }
    // It counts nothing, so that it may tie with the lowest number.
    template <int N>
    static State<N> empty() {
        return {splat<L, N>(Order<L>::lowest()), vec<L, N>{}, vec<L, N>{}, vec<L, N>{}};
    }
    template <int N>
    static State<N> get(const L *p, i64 plane) {
        return {load<N>(p), load<N>(p + plane), load<N>(p + 2 * plane), load<N>(p + 3 * plane)};
    }
    template <int N>
    static void put(L *p, i64 plane, const State<N> &a) {
        store<N>(p, a.v);
        store<N>(p + plane, a.count);
        store<N>(p + 2 * plane, a.sum);
        store<N>(p + 3 * plane, a.lost);
    }
    template <int N>
    static void unzip(State<N> &a, State<N> &b) {
        const State<N> even = {every_second<N, 0>(a.v, b.v), every_second<N, 0>(a.count, b.count),
                               every_second<N, 0>(a.sum, b.sum), every_second<N, 0>(a.lost, b.lost)};
        b = {every_second<N, 1>(a.v, b.v), every_second<N, 1>(a.count, b.count), every_second<N, 1>(a.sum, b.sum),
             every_second<N, 1>(a.lost, b.lost)};
        a = even;
    }
    template <int N>
    static State<N> shift_in(const State<N> &a, const State<N> &b) {
        return {shift_lane_in<N>(a.v, b.v), shift_lane_in<N>(a.count, b.count), shift_lane_in<N>(a.sum, b.sum),
                shift_lane_in<N>(a.lost, b.lost)};
    }
};

// Floats, with their tangents in an array of the same shape.
template <class T>
struct TiedExtreme : TiedBest<T> {
    using In = T;
    using Lanes = TiedBest<T>;
    static constexpr bool CARRIES = true;
    template <int N>
    using State = typename Lanes::template State<N>;
    FloatKey<T> key;
    const T *x, *t;  // where both start

    TiedExtreme(const FloatKey<T> &key, const T *x, const T *t) : key(key), x(x), t(t) {}
    Lanes lanes() const { return {}; }
    template <int N>
    State<N> lift(const T *p, i64) const {
        prefetch<N>(t + (p - x));
        return {key.template in<N>(p), splat<T, N>(1), load<N>(t + (p - x)), vec<T, N>{}};
    }
    template <int N>
    State<N> lift_some(const T *p, i64, int count) const {
        T some[N];
        for (int i = 0; i < N; ++i) some[i] = p[i < count ? i : 0];
        return {key.template in<N>(some), splat<T, N>(1), load_some<N>(t + (p - x), count), vec<T, N>{}};
    }
};

// The values, if they are wanted, and the sums or their shares.
enum class Tied { SUM, SHARE };
template <class T, bool PAST = false>
struct TiedSink {
    static constexpr bool STREAMS = std::is_same_v<T, float>;
    FloatKey<T> key;
    T *y;  // or null
    T *dy;
    Tied wanted;
    T *row, *dy_row;

    TiedSink<T, true> past_the_caches() const { return {key, y, dy, wanted, row, dy_row}; }
    static bool take_room(const Plan &) { return false; }  // none is needed
    void move_to(const Plan &plan, i64 index, const OutputRow &) {
        row = y ? y + index * plan.out_row : nullptr;
        dy_row = dy + index * plan.out_row;
    }
    void finish(const Plan &, i64, const OutputRow &, i64, i64) {}
    static bool finishes() { return false; }
    template <class Use>
    NDPOOL_INLINE void over_arrays(const Use &use) {
        use(dy, dy_row);
        if (y) use(y, row);
    }
    template <int N>
    void put(i64 at, const typename TiedBest<T>::template State<N> &s, int count) {
        if (y) put_some<N, PAST>(row + at, count, [&](T *p) { key.template out<N>(p, s.v); });
        const vec<T, N> one = vec<T, N>{} + 1;
        const vec<T, N> sum = TiedBest<T>::template total<N>(s);
        const vec<T, N> found = wanted == Tied::SUM ? sum : sum / (s.count > 1 ? s.count : one);
        put_some<N, PAST>(dy_row + at, count, [&](T *p) { store<N>(p, found); });
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
