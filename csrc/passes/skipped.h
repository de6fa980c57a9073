// Cells that are skipped, in arrays that are moved as bits: which they are, and what stands in their place.
#pragma once
#include "base/scratch.h"
#include "base/stream.h"
#include "passes/batch.h"
#include "passes/rows.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Which bits are those of a skipped cell. With some bits left out, they are `first` or one of the `more` after it: a
// NaN is any number beyond infinity, zeros of both signs are one, and all else is a single number.
struct SkippedBits {
    std::uint64_t kept, first, more;

    SkippedBits(Type type, std::uint64_t value) : kept(low_bits(8 * size_of(type))), first(value & kept), more(0) {
        if (!is_float(type)) return;
        const std::uint64_t size = kept >> 1, infinity = infinity_of(type);
        if ((first & size) > infinity)
            kept = size, first = infinity + 1, more = size - first;
        else if ((first & size) == 0)
            kept = size, first = 0;
    }
    // Whether these bits are.
    bool are(std::uint64_t bits) const { return (bits & kept) - first <= more; }

    static std::uint64_t low_bits(i64 count) { return ~std::uint64_t(0) >> (64 - count); }
    static std::uint64_t infinity_of(Type type) {
        return type == Type::F16    ? 0x7c00
               : type == Type::BF16 ? 0x7f80
               : type == Type::F32  ? 0x7f800000
                                    : std::uint64_t(0x7ff) << 52;
    }
};

// What was seen of some cells.
struct Looked {
    bool skipped = false;  // whether any is skipped
    bool filling = false;  // whether any that is there is itself what skipped ones are replaced by
};

// Copies cells, with skipped ones replaced; and marks with 1 the ones that are there, with 0 the others. Either may be
// left out (null).
template <class U>
Looked replace(const U *x, i64 count, const SkippedBits &bits_of, U filling, U *to, std::uint8_t *there) {
    constexpr int N = LANES<U>;
    using Truth = typename IntOf<sizeof(U)>::s;
    const auto kept = static_cast<U>(bits_of.kept), first = static_cast<U>(bits_of.first),
               more = static_cast<U>(bits_of.more);
    vec<Truth, N> any{}, same{};
    const vec<U, N> other = splat<U, N>(filling);
    i64 i = 0;
    for (; i + N <= count; i += N) {
        prefetch<N>(x + i);
        const vec<U, N> v = load<N>(x + i);
        const vec<Truth, N> skipped = ((v & kept) - first) <= more;
        any |= skipped;
        same |= ~skipped & (v == other);
        if (to) store<N>(to + i, skipped ? other : v);
        if (there) store<N>(there + i, convert<std::uint8_t, N>(skipped + 1));
    }
    Looked looked;
    for (int l = 0; l < N; ++l) looked.skipped |= any[l] != 0, looked.filling |= same[l] != 0;
    for (; i < count; ++i) {
        const bool skipped = static_cast<U>((x[i] & kept) - first) <= more;
        looked.skipped |= skipped;
        looked.filling |= !skipped && x[i] == filling;
        if (to) to[i] = skipped ? filling : x[i];
        if (there) there[i] = !skipped;
    }
    return looked;
}
inline Looked replace(Type type, const void *x, i64 count, const SkippedBits &skipped, std::uint64_t filling, void *to,
                      std::uint8_t *there) {
    Looked looked;
    with_bits(size_of(type), [&](auto zero) {
        using U = decltype(zero);
        looked =
            replace(static_cast<const U *>(x), count, skipped, static_cast<U>(filling), static_cast<U *>(to), there);
    });
    return looked;
}

// Copies numbers where a byte says 1, and puts another where it says 0. The two arrays may be one. With PAST, whole
// registers are stored past the caches.
template <bool PAST, class U>
void choose(const std::uint8_t *there, i64 count, const U *from, U other, U *to) {
    constexpr int N = LANES<U>;
    using Truth = typename IntOf<sizeof(U)>::s;
    const vec<U, N> instead = splat<U, N>(other);
    i64 i = 0;
    if (PAST)
        for (; i < count && reinterpret_cast<std::uintptr_t>(to + i) % LINE; ++i) to[i] = there[i] ? from[i] : other;
    for (; i + N <= count; i += N) {
        const vec<Truth, N> is = convert<Truth, N>(load<N>(there + i)) != 0;
        const vec<U, N> v = is ? load<N>(from + i) : instead;
        if constexpr (PAST)
            stream<N>(to + i, v);
        else
            store<N>(to + i, v);
    }
    for (; i < count; ++i) to[i] = there[i] ? from[i] : other;
    if (PAST) end_streaming();
}
inline void choose(const std::uint8_t *there, i64 count, const void *from, std::uint64_t other, void *to, i64 bytes,
                   bool past_the_caches = false) {
    with_bits(bytes, [&](auto zero) {
        using U = decltype(zero);
        const auto run = past_the_caches && sizeof(U) > 1 ? choose<sizeof(U) != 1, U> : choose<false, U>;
        run(there, count, static_cast<const U *>(from), static_cast<U>(other), static_cast<U *>(to));
    });
}

// Copies numbers where the cells of x are there, and puts 0 where they are skipped. With PAST, whole registers are
// stored past the caches.
template <bool PAST, class U>
void keep_there(const U *x, i64 count, const SkippedBits &bits_of, const U *from, U *to) {
    constexpr int N = LANES<U>;
    using Truth = typename IntOf<sizeof(U)>::s;
    const auto kept = static_cast<U>(bits_of.kept), first = static_cast<U>(bits_of.first),
               more = static_cast<U>(bits_of.more);
    auto one = [&](i64 i) { to[i] = static_cast<U>((x[i] & kept) - first) <= more ? U(0) : from[i]; };
    i64 i = 0;
    if (PAST)
        for (; i < count && reinterpret_cast<std::uintptr_t>(to + i) % LINE; ++i) one(i);
    for (; i + N <= count; i += N) {
        const vec<Truth, N> skipped = ((load<N>(x + i) & kept) - first) <= more;
        const vec<U, N> v = skipped ? vec<U, N>{} : load<N>(from + i);
        if constexpr (PAST)
            stream<N>(to + i, v);
        else
            store<N>(to + i, v);
    }
    for (; i < count; ++i) one(i);
}

// Calls f(rows, first output of the row, slab) for every row of outputs.
template <class F>
void over_rows(const Plan &plan, const F &f) {
    OutputRow rows(plan);
    for (i64 slab = 0; slab < plan.outer; ++slab)
        for (i64 row = 0; row < plan.out_rows; ++row) {
            if (row == 0)
                rows.move_to(0);
            else
                rows.move_on(1);
            f(rows, (slab * plan.out_rows + row) * plan.out_row, slab * plan.in_slab);
        }
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
