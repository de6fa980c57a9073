// Squares: the way back where windows have 2 by 2 or 3 by 3 cells, in steps of 2, along the last two axes.
//
// Two cells of a row and the two below them are a square. Which outputs see its cells, and at which places of their
// windows, is the same for all squares. So N squares side by side take hardly more than the arithmetic. At the edges
// some of those outputs do not exist. There the outputs are read from a copy that has a border of zeros around it.
#pragma once
#include "passes/forward.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// How far apart the rows and the planes of outputs are.
struct OutputStrides {
    i64 row, plane;
};

// Some planes of outputs, each with a border of one output around it.
struct Border {
    i64 first_row, planes;  // of the slab, and how many follow
    i64 height, width;      // rows of a plane, and outputs of a row

    OutputStrides strides() const { return {width + 2, (height + 2) * (width + 2)}; }

    // The copy, from its first output on; `copy` holds it.
    template <class T>
    const T *around(const T *outputs, Scratch<char> &copy) const {
        using Bits = typename IntOf<sizeof(T)>::u;
        constexpr int N = LANES<Bits>;
        const OutputStrides apart = strides();
        auto *from = reinterpret_cast<const Bits *>(outputs) + first_row * width;
        copy.grow(static_cast<i64>(sizeof(T)) * planes * apart.plane, "outputs with a border");
        auto *to = reinterpret_cast<Bits *>(copy.data());
        auto *first = to + apart.row + 1;
        auto zeros = [&](i64 length) NDPOOL_INLINED {
            for (i64 i = 0; i < length; ++i) *to++ = 0;
        };
        for (i64 plane = 0; plane < planes; ++plane) {
            zeros(apart.row + 1);
            for (i64 row = 0; row < height; ++row) {
                if (width >= N)
                    whole_blocks<N>(width, [&](i64 i) NDPOOL_INLINED {
                        prefetch<N>(from + i);
                        store<N>(to + i, load<N>(from + i));
                    });
                else
                    std::memcpy(to, from, sizeof(T) * static_cast<std::size_t>(width));
                from += width;
                to += width;
                zeros(2);
            }
            zeros(apart.row - 1);
        }
        return reinterpret_cast<const T *>(first);
    }
};

// What a cell adds up first: the outputs of a row; or, of all planes, those of a place, and then of a column; or one
// output after the other, row by row.
enum class Lines { NONE, ROWS, PLANES };

// Whether a Source is asked with the cells themselves, and not with their places.
template <class Source>
constexpr bool LOOKS_AT_CELLS = false;

// Whether an output hands the same to all its cells, which of<N>(output) gives.
template <class Source>
constexpr bool HANDS_ALL_THE_SAME = false;

// Whether a Target has put_joined<N>(at, first, second), which stores the sums of 2N cells side by side.
template <class Target, int N>
constexpr bool PUTS_JOINED = false;
// Whether a Target has put_zipped<N>(at, even, odd), which stores the sums of 2N cells in one line of memory or less.
template <class Target, int N>
constexpr bool PUTS_ZIPPED = false;

// Rows of squares, with all that is needed in one place, of which the compiler knows that no store changes it. With
// padding E, modulo 2, cell b of a square is at place c of the window that is (b + E - c) / 2 after the square's own.
template <int N, int K, int E, class Source, class Target>
struct Squares {
    using A = typename Source::A;
    const Source from;
    const Target target;
    const i64 at, in_row, rows;  // where the cells are, elements of a row, and how many rows of cells there are
    const i64 output;            // of the first square, in its plane
    const OutputStrides apart;
    const i64 *const plane, *const tag, planes;

    void fill() const {
        const Squares own = *this;
        for (i64 row = 0; row < own.rows; row += 2) {
            if constexpr (K == 3 && HANDS_ALL_THE_SAME<Source>)
                own.fill_pair_alike(row);
            else
                own.fill_pair(row);
        }
    }

  private:
    // The cells of N squares, for a Source that looks at them. Below the last row there may be none.
    NDPOOL_INLINE auto look([[maybe_unused]] i64 row, [[maybe_unused]] i64 m) const {
        if constexpr (LOOKS_AT_CELLS<Source>) {
            struct {
                typename Source::template Cells<N> of[2][2];
            } cells;
            const bool all = 2 * (m + N) <= in_row;
            NDPOOL_UNROLL
            for (int r = 0; r < 2; ++r)
                from.template look<N>(at + (row + r < rows ? row + r : row) * in_row + 2 * m, all, cells.of[r]);
            return cells;
        } else {
            return 0;
        }
    }
    // What the windows of a plane hand on: one output after the other or, if rows are first, a row after the other.
    // Calls add(sum, plane, r, c) for the places r, c.
    template <class Add>
    NDPOOL_INLINE void add_plane(vec<A, N> (&sum)[2][2], i64 p, const Add &add) const {
        NDPOOL_UNROLL
        for (int r = K - 1; r >= 0; --r) {
            vec<A, N> part[2] = {};
            NDPOOL_UNROLL
            for (int c = K - 1; c >= 0; --c)
                add(K > 2 && Source::FIRST == Lines::ROWS ? part[(c + E) % 2] : sum[(r + E) % 2][(c + E) % 2], p, r, c);
            if constexpr (K > 2 && Source::FIRST == Lines::ROWS)
                sum[(r + E) % 2][0] += part[0], sum[(r + E) % 2][1] += part[1];
        }
    }
    // What all windows hand on, where planes are first, then rows: there may be one plane ALONE.
    template <bool ALONE, class Add>
    NDPOOL_INLINE void add_planes(vec<A, N> (&sum)[2][2], const Add &add) const {
        NDPOOL_UNROLL
        for (int c = K - 1; c >= 0; --c) {
            vec<A, N> part[2] = {};
            NDPOOL_UNROLL
            for (int r = K - 1; r >= 0; --r) {
                vec<A, N> one{};
                for (i64 p = ALONE ? 0 : planes - 1; p >= 0; --p) add(one, p, r, c);
                part[(r + E) % 2] = r >= K - 2 ? one : part[(r + E) % 2] + one;
            }
            NDPOOL_UNROLL
            for (int a = 0; a < 2; ++a) sum[a][(c + E) % 2] = c >= K - 2 ? part[a] : sum[a][(c + E) % 2] + part[a];
        }
    }

    // The squares that have their upper cells in a row.
    NDPOOL_INLINE void fill_pair(i64 row) const {
        const Squares &own = *this;
        const i64 below = own.output + row / 2 * own.apart.row;
        whole_blocks<N>((own.in_row + 1) / 2, [&](i64 m) NDPOOL_INLINED {
            vec<A, N> sum[2][2] = {};
            [[maybe_unused]] const auto cells = look(row, m);
            const auto add = [&](vec<A, N> &to, i64 p, int r, int c) NDPOOL_INLINED {
                const int a = (r + E) % 2, b = (c + E) % 2;
                const i64 at =
                    own.plane[p] * own.apart.plane + below + m + (a + E - r) / 2 * own.apart.row + (b + E - c) / 2;
                if constexpr (LOOKS_AT_CELLS<Source>)
                    to = own.from.template add<N>(to, at, cells.of[a][b]);
                else
                    to = own.from.template add<N>(to, at, own.tag[p] * K * K + r * K + c);
            };
            if constexpr (Source::FIRST == Lines::PLANES) {
                if (own.planes == 1)
                    own.template add_planes<true>(sum, add);
                else
                    own.template add_planes<false>(sum, add);
            } else {
                for (i64 p = 0; p < own.planes; ++p) {
                    const i64 output = own.plane[p] * own.apart.plane + below + m;
                    if (K == 2 || Source::SPARES_PADDING) own.from.template ahead<N>(output);
                    if constexpr (Source::FIRST == Lines::ROWS) {  // and then planes
                        vec<A, N> part[2][2] = {};
                        own.add_plane(part, p, add);
                        NDPOOL_UNROLL
                        for (int r = 0; r < 2; ++r) sum[r][0] += part[r][0], sum[r][1] += part[r][1];
                    } else {
                        own.add_plane(sum, p, add);
                    }
                }
            }
            put_squares(row, m, sum);
        });
    }
    // The same where windows have 3 by 3 cells, and hand the same to all. Of the two rows of a square, one is under a
    // single row of windows and the other under two; and so are its columns. What two columns of windows hand to the
    // rows is added up for both.
    NDPOOL_INLINE void fill_pair_alike(i64 row) const {
        constexpr int ONE = 1 - E, TWO = E, NEXT = E ? 1 : -1;
        const Squares &own = *this;
        const i64 below = own.output + row / 2 * own.apart.row;
        whole_blocks<N>((own.in_row + 1) / 2, [&](i64 m) NDPOOL_INLINED {
            vec<A, N> seen[2][2] = {}, sum[2][2];
            auto over = [&](i64 p, const auto &use) NDPOOL_INLINED {
                const i64 output = own.plane[p] * own.apart.plane + below + m;
                NDPOOL_UNROLL
                for (int r = 0; r < 2; ++r) NDPOOL_UNROLL
                for (int c = 0; c < 2; ++c)
                    use(seen[r][c], own.from.template of<N>(output + NEXT * (r * own.apart.row + c)));
            };
            if (own.planes) over(0, [](vec<A, N> &to, vec<A, N> first) NDPOOL_INLINED { to = first; });
            for (i64 p = 1; p < own.planes; ++p)
                over(p, [](vec<A, N> &to, vec<A, N> next) NDPOOL_INLINED { to += next; });
            sum[ONE][ONE] = seen[0][0];
            sum[ONE][TWO] = sum_by_product<N>(seen[0][0], seen[0][1]);
            sum[TWO][ONE] = sum_by_product<N>(seen[0][0], seen[1][0]);
            sum[TWO][TWO] = sum_by_product<N>(sum[TWO][ONE], sum_by_product<N>(seen[0][1], seen[1][1]));
            put_squares(row, m, sum);
        });
    }
    NDPOOL_INLINE void put_squares(i64 row, i64 m, vec<A, N> (&sum)[2][2]) const {
        const bool all = 2 * (m + N) <= in_row;
        // To store past the caches twice would cost twice.
        [[maybe_unused]] const bool again = Target::PAST && half_done<N>(m);
        NDPOOL_UNROLL
        for (int r = 0; r < 2; ++r) {
            if (row + r == rows) break;
            const i64 cell = at + (row + r) * in_row + 2 * m;
            if constexpr (PUTS_ZIPPED<Target, N>)
                if (all) {
                    target.template put_zipped<N>(cell, sum[r][0], sum[r][1]);
                    continue;
                }
            zip<N>(sum[r][0], sum[r][1]);
            if (!again) target.template put<N>(cell, sum[r][0], N);
            target.template put<N>(cell + N, sum[r][1], all ? N : N - 1);
        }
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
