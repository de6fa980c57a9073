// Max and Min with all cells that tie: how many they are, and the sum of their tangents, in the pass that finds the
// value. Columns are merged first, each from row to row, and then they are, one after the other: so a sum has the order
// in which windows look for the cells that tie (ties.h), and its bits.
#pragma once
#include "kinds/keys.h"
#include "kinds/ties.h"
#include "passes/forward.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

template <class L>
struct TiedBest : Untagged {
    using Lane = L;
    static constexpr int PLANES = 3;
    static constexpr bool COLUMNS_FIRST = true, IDEMPOTENT = false;

    template <int N>
    struct State {
        vec<L, N> v, count, sum;
    };
    template <int N>
    static void merge(State<N> &a, const State<N> &b) {
#if defined(__AVX512F__)  // where the compiler would make vectors of masks
        if constexpr (sizeof(a.v) == 64) return merge_by_masks(a, b);
#endif
        const auto better = Order<L>::template better<N>(b.v, a.v), as_good = Order<L>::template as_good<N>(b.v, a.v);
        const vec<L, N> none{};
        a.v = better ? b.v : a.v;
        a.count = (better ? none : a.count) + (as_good ? b.count : none);
        a.sum = (better ? none : a.sum) + (as_good ? b.sum : none);
    }
    template <int N>
    static void merge_any(State<N> &a, const State<N> &b) {
        merge<N>(a, b);
    }
    // It counts nothing, so that it may tie with the lowest number.
    template <int N>
    static State<N> empty() {
        return {splat<L, N>(Order<L>::lowest()), vec<L, N>{}, vec<L, N>{}};
    }
    template <int N>
    static State<N> get(const L *p, i64 plane) {
        return {load<N>(p), load<N>(p + plane), load<N>(p + 2 * plane)};
    }
    template <int N>
    static void put(L *p, i64 plane, const State<N> &a) {
        store<N>(p, a.v);
        store<N>(p + plane, a.count);
        store<N>(p + 2 * plane, a.sum);
    }
    template <int N>
    static void unzip(State<N> &a, State<N> &b) {
        const State<N> even = {every_second<N, 0>(a.v, b.v), every_second<N, 0>(a.count, b.count),
                               every_second<N, 0>(a.sum, b.sum)};
        b = {every_second<N, 1>(a.v, b.v), every_second<N, 1>(a.count, b.count), every_second<N, 1>(a.sum, b.sum)};
        a = even;
    }
    template <int N>
    static State<N> shift_in(const State<N> &a, const State<N> &b) {
        return {shift_lane_in<N>(a.v, b.v), shift_lane_in<N>(a.count, b.count), shift_lane_in<N>(a.sum, b.sum)};
    }

#if defined(__AVX512F__)
  private:
    NDPOOL_INLINE static void merge_by_masks(State<16> &a, const State<16> &b) {
        const __m512 v = bits<__m512>(a.v), other = bits<__m512>(b.v);
        const __mmask16 number = _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q),
                        nan = _mm512_cmp_ps_mask(other, other, _CMP_UNORD_Q);
        const __mmask16 better = _mm512_mask_cmp_ps_mask(number, other, v, _CMP_NLE_UQ),
                        as_good = _mm512_cmp_ps_mask(other, v, _CMP_GE_OQ) | nan,
                        stays = static_cast<__mmask16>(~better);
        auto added = [&](vec<float, 16> &to, vec<float, 16> more) NDPOOL_INLINED {
            const __m512 kept = _mm512_maskz_mov_ps(stays, bits<__m512>(to));
            to = bits<vec<float, 16>>(_mm512_mask_add_ps(kept, as_good, kept, bits<__m512>(more)));
        };
        a.v = bits<vec<float, 16>>(_mm512_mask_mov_ps(v, better, other));
        added(a.count, b.count);
        added(a.sum, b.sum);
    }
    NDPOOL_INLINE static void merge_by_masks(State<8> &a, const State<8> &b) {
        const __m512d v = bits<__m512d>(a.v), other = bits<__m512d>(b.v);
        const __mmask8 number = _mm512_cmp_pd_mask(v, v, _CMP_ORD_Q),
                       nan = _mm512_cmp_pd_mask(other, other, _CMP_UNORD_Q);
        const __mmask8 better = _mm512_mask_cmp_pd_mask(number, other, v, _CMP_NLE_UQ),
                       as_good = _mm512_cmp_pd_mask(other, v, _CMP_GE_OQ) | nan, stays = static_cast<__mmask8>(~better);
        auto added = [&](vec<double, 8> &to, vec<double, 8> more) NDPOOL_INLINED {
            const __m512d kept = _mm512_maskz_mov_pd(stays, bits<__m512d>(to));
            to = bits<vec<double, 8>>(_mm512_mask_add_pd(kept, as_good, kept, bits<__m512d>(more)));
        };
        a.v = bits<vec<double, 8>>(_mm512_mask_mov_pd(v, better, other));
        added(a.count, b.count);
        added(a.sum, b.sum);
    }
#endif
};

// Floats of 16 bits are merged as those of 32.
template <class T>
using TiedLane = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Floats, with their tangents in an array of the same shape; the key turns the order round (Min).
template <class T>
struct TiedExtreme : TiedBest<TiedLane<T>> {
    using In = T;
    using Lane = TiedLane<T>;
    using Lanes = TiedBest<Lane>;
    static constexpr bool CARRIES = true;
    template <int N>
    using State = typename Lanes::template State<N>;
    FloatKey<Lane> key;
    const T *x, *t;  // where both start

    TiedExtreme(const FloatKey<Lane> &key, const T *x, const T *t) : key(key), x(x), t(t) {}
    Lanes lanes() const { return {}; }
    template <int N>
    State<N> lift(const T *p, i64) const {
        prefetch<N>(t + (p - x));
        return {key.template turned<N>(load_as<Lane, N>(p)), splat<Lane, N>(1), load_as<Lane, N>(t + (p - x))};
    }
    template <int N>
    State<N> lift_some(const T *p, i64, int count) const {
        T cells[N], tangents[N];
        for (int i = 0; i < N; ++i) cells[i] = p[i < count ? i : 0], tangents[i] = t[(p - x) + (i < count ? i : 0)];
        return {key.template turned<N>(load_as<Lane, N>(cells)), splat<Lane, N>(1), load_as<Lane, N>(tangents)};
    }
};

// The values, if they are wanted, and the sums or their shares.
enum class Tied { SUM, SHARE };
template <class T, bool PAST = false>
struct TiedSink {
    using Lane = TiedLane<T>;
    static constexpr bool STREAMS = std::is_same_v<T, float>;
    FloatKey<Lane> key;
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
    void put(i64 at, const typename TiedBest<Lane>::template State<N> &s, int count) {
        if (y) put_some<N, PAST>(row + at, count, [&](T *p) { store_as<N>(p, key.template turned<N>(s.v)); });
        const vec<Lane, N> none{}, one = none + 1, sum = s.sum + none;  // which is not -0
        const vec<Lane, N> found = wanted == Tied::SUM ? sum : sum / (s.count > 1 ? s.count : one);
        put_some<N, PAST>(dy_row + at, count, [&](T *p) { store_as<N>(p, found); });
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
