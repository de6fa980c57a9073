// Max and Min: cells as keys, in an order in which the largest wins, and the States that find it.
#pragma once
#include "passes/states.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// --- keys ---------------------------------------------------------------------------------------

// Integers; `flip` reverses the order (Min), or moves unsigned numbers into the order of signed ones, or both.
template <class K>
struct IntegerKey {
    using In = K;
    using Key = K;
    K flip;
    template <int N>
    vec<K, N> in(const K *p) const {
        return load<N>(p) ^ flip;
    }
    template <int N>
    void out(K *p, vec<K, N> key) const {
        store<N>(p, key ^ flip);
    }
    template <int N>
    static auto equal(vec<K, N> a, vec<K, N> b) {
        return a == b;
    }
};

// Floats; `sign` turns the order round (Min). NaN beats every number (rule "NaN").
template <class T>
struct FloatKey {
    using In = T;
    using Key = T;
    using Bits = typename IntOf<sizeof(T)>::u;
    Bits sign;
    template <int N>
    vec<T, N> turned(vec<T, N> v) const {
        return bits<vec<T, N>>(bits<vec<Bits, N>>(v) ^ sign);
    }
    template <int N>
    vec<T, N> in(const T *p) const {
        return turned<N>(load<N>(p));
    }
    template <int N>
    void out(T *p, vec<T, N> key) const {
        store<N>(p, turned<N>(key));
    }
    template <int N>
    static auto equal(vec<T, N> a, vec<T, N> b) {
        return (a == b) | ((a != a) & (b != b));
    }
};

// Floats as they are.
template <class T>
struct PlainKey {
    using In = T;
    using Key = T;
    template <int N>
    vec<T, N> in(const T *p) const {
        return load<N>(p);
    }
};

// 16-bit numbers as signed integers. Floats keep their order, with both zeros equal and NaN above all; see with_key.
struct ShortKey {
    using In = std::int16_t;
    using Key = std::int16_t;
    std::int16_t flip;           // reverses the order, or moves unsigned integers into that of signed ones, or both
    std::int16_t infinity, nan;  // of floats, without the sign
    std::int16_t turn;           // the bits that turn round where the sign is set: for floats, all others
    std::int16_t zeros;          // -1 if -0 is 0
    template <int N>
    vec<Key, N> in(const In *p) const {
        using V = vec<Key, N>;
        V b = load<N>(p);
        V magnitude = b & std::int16_t(0x7fff);
        V key = b ^ ((b >> 15) & turn);
        key &= ~((key == std::int16_t(-1)) & zeros);
        key ^= flip;
        V is_nan = magnitude > infinity;
        return (is_nan & std::int16_t(0x7fff)) | (~is_nan & key);
    }
    template <int N>
    void out(In *p, vec<Key, N> key) const {
        using V = vec<Key, N>;
        V is_nan = key == std::int16_t(0x7fff);
        key ^= flip;
        V b = key ^ ((key >> 15) & turn);
        store<N>(p, (is_nan & nan) | (~is_nan & b));
    }
    template <int N>
    static auto equal(vec<Key, N> a, vec<Key, N> b) {
        return a == b;
    }
};

// 16-bit floats for the value alone, with less to do: all NaNs are above all numbers, but not equal, and neither are
// the zeros.
struct HalfOrder {
    using In = std::int16_t;
    using Key = std::uint16_t;
    In flip;             // the sign, to turn the order round (Min)
    Key minus_infinity;  // where the numbers start: NaNs with a sign are below it, and come round to the top
    template <int N>
    vec<Key, N> in(const In *p) const {
        return bits<vec<Key, N>>(turned<N>(load<N>(p) ^ flip)) - minus_infinity;
    }
    template <int N>
    void out(In *p, vec<Key, N> key) const {
        store<N>(p, turned<N>(bits<vec<In, N>>(key + minus_infinity)) ^ flip);
    }

  private:
    // The larger a negative number's size, the lower.
    template <int N>
    static vec<In, N> turned(vec<In, N> b) {
        return b ^ ((b >> 15) & In(0x7fff));
    }
};

// --- the order of keys --------------------------------------------------------------------------

// The largest wins; of floats, NaN.
template <class T>
struct Order {
    static constexpr bool FLOAT = std::is_floating_point_v<T>;
    template <int N>
    static auto better(vec<T, N> a, vec<T, N> b) {
        if constexpr (FLOAT)
            return ~(a <= b) & (b == b);
        else
            return a > b;
    }
    template <int N>
    static auto as_good(vec<T, N> a, vec<T, N> b) {
        if constexpr (FLOAT)
            return (a >= b) | (a != a);
        else
            return a >= b;
    }
    template <int N>
    static vec<T, N> best(vec<T, N> a, vec<T, N> b) {
        if constexpr (FLOAT)
            return best_of_floats<T, N>(a, b);
        else
            return a > b ? a : b;
    }
    static T lowest() {
        if constexpr (FLOAT) return static_cast<T>(-__builtin_inff());
        if constexpr (!FLOAT) return std::is_signed_v<T> ? static_cast<T>(-(i64(1) << (sizeof(T) * 8 - 2)) * 2) : T(0);
    }
};

// --- Max and Min: the value alone ---------------------------------------------------------------

template <class L>
struct Best : OneLane<L>, Untagged {
    using In = L;
    using Lanes = Best;
    static constexpr bool IDEMPOTENT = true;
    template <int N>
    using State = typename OneLane<L>::template State<N>;

    Lanes lanes() const { return *this; }
    template <int N>
    State<N> lift(const L *p, i64) const {
        return {load<N>(p)};
    }
    template <int N>
    static void merge(State<N> &a, const State<N> &b) {
        a.v = Order<L>::template best<N>(a.v, b.v);
    }
    template <int N>
    static void merge_any(State<N> &a, const State<N> &b) {
        merge<N>(a, b);
    }
    template <int N>
    static State<N> empty() {
        return {splat<L, N>(Order<L>::lowest())};
    }
};

template <class K>
struct Extreme : Best<typename K::Key> {
    using In = typename K::In;
    using Lanes = Best<typename K::Key>;
    K key;

    explicit Extreme(const K &key) : key(key) {}
    Lanes lanes() const { return {}; }
    template <int N>
    typename Lanes::template State<N> lift(const In *p, i64) const {
        return {key.template in<N>(p)};
    }
};

// --- Max and Min: the value and its place in the window ------------------------------------------

// With TANGENT, what an array of the same shape holds there is carried along.
template <class L, bool TANGENT>
struct ArgBest {
    using Lane = L;
    using Place = typename IntOf<sizeof(L)>::u;
    static constexpr int PLANES = TANGENT ? 3 : 2;
    static constexpr bool TAGGED = true, CARRIES = false, HEAVY = false, IDEMPOTENT = false;

    template <int N>
    struct State {
        vec<L, N> v;
        vec<Place, N> place;
        vec<L, N> t;
    };
    template <int N>
    static void merge(State<N> &a, const State<N> &b) {
        take<N>(a, b, Order<L>::template better<N>(b.v, a.v));
    }
    template <int N>
    static void merge_any(State<N> &a, const State<N> &b) {
        if constexpr (N == 1) {  // without masks, of which GCC 12 for ARM makes wrong ones for a single 64-bit lane
            const bool better = Order<L>::template better<1>(b.v, a.v)[0] != 0,
                       as_good = Order<L>::template as_good<1>(b.v, a.v)[0] != 0;
            if (better || (as_good && b.place[0] < a.place[0])) a = b;
        } else {
            take<N>(a, b,
                    Order<L>::template better<N>(b.v, a.v) |
                        (Order<L>::template as_good<N>(b.v, a.v) & (b.place < a.place)));
        }
    }
    template <int N, class Mask>
    static void take(State<N> &a, const State<N> &b, Mask wins) {
        a.v = wins ? b.v : a.v;
        a.place = wins ? b.place : a.place;
        if constexpr (TANGENT) a.t = wins ? b.t : a.t;
    }
    template <int N>
    static State<N> retag(State<N> a, i64 radix, i64 tag) {
        a.place = a.place * static_cast<Place>(radix) + static_cast<Place>(tag);
        return a;
    }
    template <int N>
    static State<N> further(State<N> a, i64 places) {
        a.place += static_cast<Place>(places);
        return a;
    }
    template <int N>
    static State<N> retag_each(State<N> a, i64 radix, i64 tag) {
        State<N> b = retag<N>(a, radix, tag);
        for (int i = 0; i < N; ++i) b.place[i] += static_cast<Place>(i);
        return b;
    }
    template <int N>
    static State<N> get(const L *p, i64 plane) {
        State<N> a;
        a.v = load<N>(p);
        a.place = bits<vec<Place, N>>(load<N>(p + plane));
        if constexpr (TANGENT) a.t = load<N>(p + 2 * plane);
        return a;
    }
    template <int N>
    static void put(L *p, i64 plane, const State<N> &a) {
        store<N>(p, a.v);
        store<N>(p + plane, bits<vec<L, N>>(a.place));
        if constexpr (TANGENT) store<N>(p + 2 * plane, a.t);
    }
    template <int N>
    static void unzip(State<N> &a, State<N> &b) {
        State<N> even, odd;
        even.v = every_second<N, 0>(a.v, b.v), odd.v = every_second<N, 1>(a.v, b.v);
        even.place = every_second<N, 0>(a.place, b.place), odd.place = every_second<N, 1>(a.place, b.place);
        if constexpr (TANGENT) even.t = every_second<N, 0>(a.t, b.t), odd.t = every_second<N, 1>(a.t, b.t);
        a = even, b = odd;
    }
    template <int N>
    static State<N> shift_in(const State<N> &a, const State<N> &b) {
        State<N> c;
        c.v = shift_lane_in<N>(a.v, b.v);
        c.place = shift_lane_in<N>(a.place, b.place);
        if constexpr (TANGENT) c.t = shift_lane_in<N>(a.t, b.t);
        return c;
    }
    template <int N>
    static State<N> empty() {
        // Its place is after all others, so that it is never first.
        return {splat<L, N>(Order<L>::lowest()), splat<Place, N>(static_cast<Place>(-1)), vec<L, N>{}};
    }
};

template <class K, bool TANGENT = false>
struct ArgExtreme : ArgBest<typename K::Key, TANGENT> {
    using In = typename K::In;
    using Lane = typename K::Key;
    using Lanes = ArgBest<Lane, TANGENT>;
    using Place = typename Lanes::Place;
    static constexpr bool CARRIES = TANGENT;
    template <int N>
    using State = typename Lanes::template State<N>;
    K key;
    const In *x;  // where both arrays start
    const Lane *t;

    explicit ArgExtreme(const K &key, const In *x = nullptr, const Lane *t = nullptr) : key(key), x(x), t(t) {}
    Lanes lanes() const { return {}; }
    // Of values without places: the better one, whether a is better, and whether v is as good as the best there is.
    template <int N>
    static vec<Lane, N> best(vec<Lane, N> a, vec<Lane, N> b) {
        return Order<Lane>::template best<N>(a, b);
    }
    template <int N>
    static auto beats(vec<Lane, N> a, vec<Lane, N> b) {
        return Order<Lane>::template better<N>(a, b);
    }
    template <int N>
    static auto equals_best(vec<Lane, N> v, vec<Lane, N> best) {
        return Order<Lane>::template as_good<N>(v, best);
    }
    template <int N>
    State<N> lift(const In *p, i64 tag) const {
        State<N> a;
        a.v = key.template in<N>(p);
        a.place = splat<Place, N>(static_cast<Place>(tag));
        if constexpr (TANGENT) {
            prefetch<N>(t + (p - x));
            a.t = load<N>(t + (p - x));
        }
        return a;
    }
    template <int N>
    State<N> lift_some(const In *p, i64 tag, int count) const {
        In some[N];
        for (int i = 0; i < N; ++i) some[i] = p[i < count ? i : 0];
        return {key.template in<N>(some), splat<Place, N>(static_cast<Place>(tag)), load_some<N>(t + (p - x), count)};
    }
};

// --- Max and Min: the value and its place, as one number ------------------------------------------

// A key, and below it how far a place is from the last one: of equal keys, the first is the largest. So the better of
// two is one maximum, in any order and over and over, and cells further on in a window have so much less.
template <class I>
struct PackedBest : Best<I> {
    using Lanes = PackedBest;
    static constexpr bool PLACED = true;
    using U = typename IntOf<sizeof(I)>::u;
    static constexpr int BITS = 4 * sizeof(I) - 1;  // below the key
    static constexpr I LAST = (I(1) << (BITS - 1)) - 1;
    static constexpr i64 MOST_CELLS = LAST + 1;
    template <int N>
    using State = typename Best<I>::template State<N>;

    Lanes lanes() const { return *this; }
    // The lowest bit is free, for the sign of a zero.
    template <int N>
    static State<N> further(const State<N> &a, i64 places) {
        return {bits<vec<I, N>>(bits<vec<U, N>>(a.v) - static_cast<U>(2 * places))};
    }
    // Below all that a cell can be, wherever it is.
    template <int N>
    static State<N> empty() {
        return {splat<I, N>(Order<I>::lowest() + 2 * (LAST + 1))};
    }
    template <int N, class V>
    static vec<I, N> packed(V key, vec<I, N> lowest_bit) {
        return bits<vec<I, N>>(bits<vec<U, N>>(convert<I, N>(key)) << BITS) + 2 * LAST + lowest_bit;
    }
    template <int N>
    static vec<I, N> place(vec<I, N> v) {
        return LAST - ((v & 2 * LAST) >> 1);
    }
};

// The same of cells that fill a number: the key and, beside it, twice the place and the sign of a zero.
template <class I>
struct PlacedBest : TwoLanes<I>, Untagged {
    using In = I;
    using Lanes = PlacedBest;
    static constexpr bool PLACED = true, IDEMPOTENT = true;
    template <int N>
    using State = typename TwoLanes<I>::template State<N>;

    Lanes lanes() const { return *this; }
    template <int N>
    State<N> lift(const I *p, i64) const {
        return {load<N>(p), vec<I, N>{}};
    }
    template <int N>
    static void merge(State<N> &a, const State<N> &b) {
#if defined(__AVX512F__)  // where the compiler would make vectors of masks
        if constexpr (N * sizeof(I) == 64) {
            const auto v = bits<__m512i>(a.v), other = bits<__m512i>(b.v), with = bits<__m512i>(a.with);
            const auto better = _mm512_cmpgt_epi64_mask(other, v), equal = _mm512_cmpeq_epi64_mask(other, v),
                       first = _mm512_mask_cmplt_epi64_mask(equal, bits<__m512i>(b.with), with);
            a.v = bits<vec<I, N>>(_mm512_max_epi64(v, other));
            a.with = bits<vec<I, N>>(
                _mm512_mask_mov_epi64(with, static_cast<__mmask8>(better | first), bits<__m512i>(b.with)));
            return;
        }
#endif
        const auto wins = (b.v > a.v) | ((b.v == a.v) & (b.with < a.with));
        a.v = b.v > a.v ? b.v : a.v;
        a.with = wins ? b.with : a.with;
    }
    template <int N>
    static void merge_any(State<N> &a, const State<N> &b) {
        merge<N>(a, b);
    }
    template <int N>
    static State<N> further(const State<N> &a, i64 places) {
        return {a.v, a.with + static_cast<I>(2 * places)};
    }
    // Its place is after all others, so that it is never first.
    template <int N>
    static State<N> empty() {
        return {splat<I, N>(Order<I>::lowest()), splat<I, N>(I(1) << 60)};
    }
    template <int N>
    static vec<I, N> place(const State<N> &s) {
        return s.with >> 1;
    }
};

// Floats as integers in the same order, with both zeros equal and NaN above all.
template <int N>
NDPOOL_INLINE vec<std::int32_t, N> turned_with_sign(vec<std::int32_t, N> b) {
    return b ^ ((b >> 31) & INT32_MAX);
}
template <int N>
NDPOOL_INLINE vec<std::int64_t, N> turned_with_sign(vec<std::int64_t, N> b) {
    return b ^ ((b >> 63) & INT64_MAX);
}

// The cells of K as such numbers.
template <class K>
struct Packed : PackedBest<std::conditional_t<sizeof(typename K::Key) <= 2, std::int32_t, std::int64_t>> {
    using In = typename K::In;
    using Lane = std::conditional_t<sizeof(typename K::Key) <= 2, std::int32_t, std::int64_t>;
    using Lanes = PackedBest<Lane>;
    template <int N>
    using State = typename Lanes::template State<N>;
    K key;

    explicit Packed(const K &key) : key(key) {}
    Lanes lanes() const { return {}; }
    template <int N>
    State<N> lift(const In *p, i64) const {
        const auto cells = key.template in<N>(p);
        if constexpr (std::is_same_v<In, float>) {
            using I = vec<std::int32_t, N>;
            const I b = bits<I>(cells), zero{}, nan = zero + INT32_MAX;
            const I number = cells == 0 ? zero : turned_with_sign<N>(b), minus = b == INT32_MIN;
            return {Lanes::template packed<N>(cells == cells ? number : nan, convert<Lane, N>(minus) & 1)};
        } else {
            return {Lanes::template packed<N>(cells, vec<Lane, N>{})};
        }
    }
    template <int N>
    static void unpack(const K &key, vec<Lane, N> v, In *p) {
        const vec<Lane, N> of_key = v >> Lanes::BITS;
        if constexpr (std::is_same_v<In, float>) {
            const auto b = turned_with_sign<N>(convert<std::int32_t, N>(of_key));
            const auto minus = convert<std::int32_t, N>(v & 1) << 31;
            key.template out<N>(p, bits<vec<float, N>>(b | minus));
        } else {
            key.template out<N>(p, convert<typename K::Key, N>(of_key));
        }
    }
};
template <class K>
constexpr bool PACKS = LEVEL_IS_TUNED && sizeof(typename K::Key) <= 4;

// The cells of K beside their places.
template <class K>
struct Placed : PlacedBest<std::int64_t> {
    using In = typename K::In;
    using Lane = std::int64_t;
    using Lanes = PlacedBest<Lane>;
    template <int N>
    using State = typename Lanes::template State<N>;
    K key;

    explicit Placed(const K &key) : key(key) {}
    Lanes lanes() const { return {}; }
    template <int N>
    State<N> lift(const In *p, i64) const {
        using I = vec<Lane, N>;
        const auto cells = key.template in<N>(p);
        if constexpr (std::is_floating_point_v<In>) {
            const I b = bits<I>(cells), zero{}, nan = zero + INT64_MAX;
            const I number = cells == 0 ? zero : turned_with_sign<N>(b), minus = b == INT64_MIN;
            return {cells == cells ? number : nan, minus & 1};
        } else {
            return {cells, I{}};
        }
    }
    template <int N>
    static void unpack(const K &key, const State<N> &s, In *p) {
        if constexpr (std::is_floating_point_v<In>)
            key.template out<N>(p, bits<vec<In, N>>(turned_with_sign<N>(s.v) | (s.with << 63)));
        else
            key.template out<N>(p, s.v);
    }
};

// Min of floats turns signs, and Max does not.
template <class T>
bool turns_signs(const Extreme<FloatKey<T>> &p) {
    return p.key.sign != 0;
}
template <class T, bool TANGENT>
bool turns_signs(const ArgExtreme<FloatKey<T>, TANGENT> &p) {
    return p.key.sign != 0;
}
template <class T>
Extreme<PlainKey<T>> unturned(const Extreme<FloatKey<T>> &) {
    return Extreme<PlainKey<T>>({});
}
template <class T, bool TANGENT>
ArgExtreme<PlainKey<T>, TANGENT> unturned(const ArgExtreme<FloatKey<T>, TANGENT> &p) {
    return ArgExtreme<PlainKey<T>, TANGENT>({}, p.x, p.t);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
