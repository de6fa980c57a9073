// Rows become columns, in the cache.
#pragma once
#include "base/lanes.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// A register is worked on in groups of 16 bytes, as the processor's own interleaving does: low and high halves of the
// groups of a and b, lane by lane.
template <int G, int HALF>
struct Interleaved {
    static constexpr int of(int n, int i) { return i / G * G + HALF * (G / 2) + i % G / 2 + i % 2 * n; }
};

// A register of N elements whose groups of 16 bytes are at p, p + apart, p + 2 apart, ...
template <int N, class Bits>
NDPOOL_INLINE vec<Bits, N> load_groups(const Bits *p, [[maybe_unused]] i64 apart) {
    if constexpr (N * sizeof(Bits) == 16) return load<N>(p);
#if defined(__AVX2__)
    auto group = [&](int q)
                     NDPOOL_INLINED { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(p + q * apart)); };
    auto two = [&](int q) NDPOOL_INLINED {
        return _mm256_inserti128_si256(_mm256_castsi128_si256(group(q)), group(q + 1), 1);
    };
    if constexpr (N * sizeof(Bits) == 32) return bits<vec<Bits, N>>(two(0));
#if defined(__AVX512F__)
    if constexpr (N * sizeof(Bits) == 64)
        return bits<vec<Bits, N>>(_mm512_inserti64x4(_mm512_castsi256_si512(two(0)), two(2), 1));
#endif
#endif
}

// The squares that the groups of some registers are: interleaving register j with the one half of them further on,
// over and over, transposes each.
//
//     a0 a1 a2 a3            a0 c0 a1 c1            a0 b0 c0 d0
//     b0 b1 b2 b3     ->     a2 c2 a3 c3     ->     a1 b1 c1 d1
//     c0 c1 c2 c3            b0 d0 b1 d1            a2 b2 c2 d2
//     d0 d1 d2 d3            b2 d2 b3 d3            a3 b3 c3 d3
template <int N, class Bits, int G>
NDPOOL_INLINE void transpose_groups(vec<Bits, N> (&a)[G]) {
    vec<Bits, N> b[G];
#pragma GCC unroll 4
    for (int width = 1; width < G; width *= 2) {
#pragma GCC unroll 16
        for (int j = 0; j < G / 2; ++j) {
            b[2 * j] = picked<N, Interleaved<G, 0>>(a[j], a[j + G / 2]);
            b[2 * j + 1] = picked<N, Interleaved<G, 1>>(a[j], a[j + G / 2]);
        }
#pragma GCC unroll 16
        for (int j = 0; j < G; ++j) a[j] = b[j];
    }
}

// One block: G elements, 16 bytes, of each of N rows. Register j gets the elements of the rows j, j + G, j + 2 G, ...,
// a group each.
template <int N, class Bits>
NDPOOL_INLINE void transpose_block(const Bits *from, i64 from_row, Bits *to, i64 to_row) {
    constexpr int G = 16 / sizeof(Bits);
    vec<Bits, N> a[G];
#pragma GCC unroll 16
    for (int j = 0; j < G; ++j) a[j] = load_groups<N>(from + j * from_row, G * from_row);
    transpose_groups<N, Bits, G>(a);
#pragma GCC unroll 16
    for (int j = 0; j < G; ++j) store<N>(to + j * to_row, a[j]);
}

// N rows and all columns, of which there are 16 bytes at least; the last block overlaps its neighbour.
template <int N, class Bits>
void transpose_rows(const Bits *from, i64 from_row, Bits *to, i64 to_row, i64 columns) {
    constexpr int G = 16 / sizeof(Bits);
    whole_blocks<G>(columns,
                    [&](i64 c) NDPOOL_INLINED { transpose_block<N>(from + c, from_row, to + c * to_row, to_row); });
}

// Rows shorter than a group, without gaps between them. What is read beyond a row is the next one, and is dropped; what
// is written beyond a row is written again with the next one. These say how many rows have a group to their right.
template <class Bits>
i64 rows_with_groups(i64 rows, i64 columns) {
    constexpr int G = 16 / sizeof(Bits);
    return rows * columns < G ? 0 : (rows * columns - G) / columns + 1;
}
template <int N, class Bits>
NDPOOL_INLINE void transpose_short_block(const Bits *from, Bits *to, i64 to_row, i64 columns) {
    Bits block[16 / sizeof(Bits) * N];
    transpose_block<N>(from, columns, block, N);
    for (i64 c = 0; c < columns; ++c) store<N>(to + c * to_row, load<N>(block + c * N));
}
template <int N, class Bits>
NDPOOL_INLINE void transpose_to_short_block(const Bits *from, i64 from_row, Bits *to, i64 columns) {
    constexpr int G = 16 / sizeof(Bits);
    vec<Bits, N> a[G];
    Bits block[G * N];
#pragma GCC unroll 16
    for (int j = 0; j < G; ++j) a[j] = j < columns ? load<N>(from + j * from_row) : vec<Bits, N>{};
    transpose_groups<N, Bits, G>(a);
#pragma GCC unroll 16
    for (int j = 0; j < G; ++j) store<N>(block + j * N, a[j]);
    for (int i = 0; i < N; ++i) store<G>(to + i * columns, load<G>(block + i % G * N + i / G * G));
}
template <int N, class Bits>
void transpose_short_rows(const Bits *from, Bits *to, i64 to_row, i64 rows, i64 columns) {
    whole_blocks<N>(rows, [&](i64 r) { transpose_short_block<N>(from + r * columns, to + r, to_row, columns); });
}
template <int N, class Bits>
void transpose_to_short_rows(const Bits *from, i64 from_row, Bits *to, i64 rows, i64 columns) {
    whole_blocks<N>(rows, [&](i64 r) { transpose_to_short_block<N>(from + r, from_row, to + r * columns, columns); });
}

template <class Bits>
void transpose_by_one(const Bits *from, i64 from_row, Bits *to, i64 to_row, i64 rows, i64 columns) {
    for (i64 r = 0; r < rows; ++r)
        for (i64 c = 0; c < columns; ++c) to[c * to_row + r] = from[r * from_row + c];
}

// to[c][r] = from[r][c]: rows are `from_row` elements apart there, and columns `to_row` here.
template <class Bits>
void transpose(const Bits *from, i64 from_row, Bits *to, i64 to_row, i64 rows, i64 columns) {
    constexpr int N = NDPOOL_VECTOR_BYTES / sizeof(Bits), G = 16 / sizeof(Bits);
    if (columns >= G && rows >= N) {
        whole_blocks<N>(rows,
                        [&](i64 r) { transpose_rows<N>(from + r * from_row, from_row, to + r, to_row, columns); });
        return;
    }
    if (columns >= G && rows >= G) {
        whole_blocks<G>(rows,
                        [&](i64 r) { transpose_rows<G>(from + r * from_row, from_row, to + r, to_row, columns); });
        return;
    }
    i64 done = 0;  // of the many
    if (columns < G && from_row == columns) {
        done = rows_with_groups<Bits>(rows, columns);
        if (done >= N)
            transpose_short_rows<N>(from, to, to_row, done, columns);
        else if (done >= G)
            transpose_short_rows<G>(from, to, to_row, done, columns);
        else
            done = 0;
        return transpose_by_one(from + done * from_row, from_row, to + done, to_row, rows - done, columns);
    }
    if (rows < G && to_row == rows) {
        done = rows_with_groups<Bits>(columns, rows);
        if (done >= N)
            transpose_to_short_rows<N>(from, from_row, to, done, rows);
        else if (done >= G)
            transpose_to_short_rows<G>(from, from_row, to, done, rows);
        else
            done = 0;
    }
    transpose_by_one(from + done, from_row, to + done * to_row, to_row, rows, columns - done);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
