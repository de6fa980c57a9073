// Rows of the input as keys, laid out so that the same cell of neighbouring windows is one load.
//
// With steps of s a row lies in s phases; padding is there as keys of missing cells. So the k-th cell of the windows of
// elements j, j+1, ... of an output row is at a pointer of its own plus j, whatever the window:
//
//     row     . a b c d e f .      windows of 3 in steps of 2
//     phases  . b d f   a c e .    cell 0 at phase 0, cell 1 at phase 1, cell 2 at phase 0 plus 1
#pragma once
#include "base/phases.h"
#include "base/scratch.h"
#include "kinds/order.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

template <class K>
constexpr int KEY_LANES = NDPOOL_VECTOR_BYTES / static_cast<int>(sizeof(K));

// What some cells have among them.
struct Oddities {
    bool nan = false, negative_zero = false;
};

template <class V>
NDPOOL_INLINE bool is_zero(V v) {
#if defined(__AVX512F__)
    if constexpr (sizeof v == 64) return _mm512_test_epi64_mask(bits<__m512i>(v), bits<__m512i>(v)) == 0;
#endif
#if defined(__AVX2__)
    if constexpr (sizeof v == 32) return _mm256_testz_si256(bits<__m256i>(v), bits<__m256i>(v));
#endif
    using Words = vec<std::uint64_t, sizeof v / 8>;
    const Words words = bits<Words>(v);
    std::uint64_t any = 0;
    for (std::size_t i = 0; i < sizeof v / 8; ++i) any |= words[i];
    return any == 0;
}

// Keys of a row's elements.
template <class K, bool FLOATS>
class KeyMaker {
    static constexpr int N = KEY_LANES<K>;
    using S = typename IntOf<sizeof(K)>::s;
    using V = vec<K, N>;

  public:
    explicit KeyMaker(const Keying &keying)
        : flip(static_cast<K>(keying.flip)),
          top(static_cast<K>(keying.top)),
          infinity(static_cast<K>(keying.infinity)),
          nan(static_cast<K>(keying.skips_nan ? keying.ones : keying.nan)),
          skipped(static_cast<K>(keying.skipped)),
          skips(keying.skips && !keying.skips_nan) {}

    void make(const K *from, i64 count, K *to) {
        i64 i = 0;
        for (; i + N <= count; i += N) store<N>(to + i, keys(load<N>(from + i)));
        if (i < count) {
            K some[N];
            for (int e = 0; e < N; ++e) some[e] = from[i + e < count ? i + e : i];
            store<N>(some, keys(load<N>(some)));
            for (int e = 0; i + e < count; ++e) to[i + e] = some[e];
        }
    }
    Oddities oddities() const { return {!is_zero(nans), !is_zero(zeros)}; }

  private:
    const K flip, top, infinity, nan, skipped;
    const bool skips;
    V nans{}, zeros{};

    NDPOOL_INLINE V keys(V v) {
        if constexpr (FLOATS) {
            const V is_nan = bits<V>((v & static_cast<K>(~top)) > infinity), is_zero = bits<V>(v == top);
            nans |= is_nan, zeros |= is_zero;
            v &= ~is_zero;
            const V sign = bits<V>(bits<vec<S, N>>(v) >> (8 * sizeof(K) - 1));
            V key = v ^ (sign | top) ^ flip;
            if (skips) key |= bits<V>(key == skipped);
            return (is_nan & nan) | (~is_nan & key);
        } else {
            V key = v ^ flip;
            if (!skips) return key;
            const V missing = bits<V>(key == skipped);
            return (key + bits<V>(key > skipped)) | missing;
        }
    }
};

// The bits of cells from their keys.
template <class K>
void cells_of_keys(const Keying &keying, K *keys, i64 count) {
    if (keying.is_identity()) return;
    const bool floats = keying.floats;
    constexpr int N = KEY_LANES<K>;
    using V = vec<K, N>;
    using S = typename IntOf<sizeof(K)>::s;
    const K flip = static_cast<K>(keying.flip), top = static_cast<K>(keying.top), nan = static_cast<K>(keying.nan),
            quiet = static_cast<K>(keying.infinity | (keying.infinity >> 1)), skipped = static_cast<K>(keying.skipped);
    const bool closes = keying.skips && !floats;
    for (i64 i = 0; i < count; i += N) {
        V key = load<N>(keys + i);
        if (floats) {
            const V is_nan = bits<V>(key == nan);
            key ^= flip;
            const V negative = ~bits<V>(bits<vec<S, N>>(key) >> (8 * sizeof(K) - 1));
            key ^= negative | top;
            key = (is_nan & quiet) | (~is_nan & key);
        } else {
            if (closes) key -= bits<V>(key >= skipped);
            key ^= flip;
        }
        store<N>(keys + i, key);
    }
}

// All rows of a part as keys.
template <class K>
class KeyRows {
    static constexpr int N = KEY_LANES<K>, LINE_OF_KEYS = 64 / sizeof(K);

  public:
    i64 row_room;  // from one row to the next
    Oddities odd;

    KeyRows(const Plan &plan, const Keying &keying, const void *x)
        : axis(plan.last()),
          inner(plan.inner),
          steps(axis.adaptive ? 1 : axis.stride),
          positions(axis.adaptive ? axis.length
                                  : (axis.output - 1) * axis.stride + axis.dilation * (axis.kernel - 1) + 1),
          apart((positions + steps - 1) / steps * inner + 2 * N),
          missing(static_cast<K>(keying.ones)) {
        row_room = steps * apart;
        const K *from = static_cast<const K *>(x);
        as_they_are = keying.is_identity() && axis.pad_lo == 0 && positions <= axis.length;
        // Rows that are keys already are read where they are, but for the last ones, beyond which nothing may be read.
        if (as_they_are && steps == 1) {
            const i64 beyond = row_room + 2 * N - plan.in_row;
            in_place = plan.in_rows - 1 - (beyond > 0 ? beyond : 0) / plan.in_row;
            if (in_place < 0) in_place = 0;
            given = from, given_room = plan.in_row;
        }
        keys = Scratch<K>((plan.in_rows - in_place) * row_room + 2 * N, "rows as keys");
        if (steps > 1 && inner == 1 && !as_they_are) line = Scratch<K>(positions + N, "a row as keys");
        if (keying.floats)
            make_all<true>(plan, keying, from);
        else
            make_all<false>(plan, keying, from);
    }

    // Whether all rows are equally far apart: none is read in place.
    bool are_alike() const { return in_place == 0; }

    // Where the tap-th cell of the windows over a row is, the one whose window starts first.
    const K *cell(i64 row, i64 tap) const {
        const i64 position = tap * (axis.adaptive ? 1 : axis.dilation);
        if (row < in_place) return given + row * given_room + position * inner;
        return keys.data() + (row - in_place) * row_room + position % steps * apart + position / steps * inner;
    }

  private:
    const Axis &axis;
    const i64 inner, steps, positions, apart;
    const K missing;
    bool as_they_are;          // whether cells are their keys, and no padding stands between them
    const K *given = nullptr;  // the rows that are read in place: how many, and how far apart
    i64 in_place = 0, given_room = 0;
    Scratch<K> keys, line;

    template <bool FLOATS>
    void make_all(const Plan &plan, const Keying &keying, const K *from) {
        KeyMaker<K, FLOATS> maker(keying);
        for (i64 row = in_place; row < plan.in_rows; ++row)
            make_row(maker, from + row * plan.in_row, keys.data() + (row - in_place) * row_room);
        odd = maker.oddities();
    }

    template <class Maker>
    void make_row(Maker &maker, const K *from, K *to) {
        for (i64 i = 0; i < axis.length * inner; i += LINE_OF_KEYS) prefetch<LINE_OF_KEYS>(from + i);
        const i64 before = axis.adaptive ? 0 : axis.pad_lo < positions ? axis.pad_lo : positions;
        const i64 real = axis.length < positions - before ? axis.length : positions - before;
        if (as_they_are && steps > 1 && inner == 1) return split(from, to);
        if (steps == 1 || inner == 1) {
            K *const whole = steps == 1 ? to : line.data();
            fill(whole, before * inner);
            maker.make(from, real * inner, whole + before * inner);
            fill(whole + (before + real) * inner, (positions - before - real) * inner);
            if (steps > 1) split(whole, to);
            return;
        }
        for (i64 position = 0; position < positions; ++position) {
            K *const place = to + position % steps * apart + position / steps * inner;
            const i64 cell = position - before;
            if (cell >= 0 && cell < real)
                maker.make(from + cell * inner, inner, place);
            else
                fill(place, inner);
        }
    }
    void split(const K *row, K *to) const {
        if constexpr (sizeof(K) == 1) {
            if (steps == 4) return split_by<4>(row, positions, to, apart);
            if (steps == 8) return split_by<8>(row, positions, to, apart);
        }
        split_phases(row, positions, steps, to, apart);
    }
    void fill(K *to, i64 count) const {
        for (i64 i = 0; i < count; ++i) to[i] = missing;
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
