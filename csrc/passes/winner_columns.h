// The way back of winners by columns: along the row first, then across the rows.
//
// Of all cells of a window that lie in one column, only one can win: the first of the best. So the outputs of a row
// that are won in a column are all won by the same cell of it. What they hand back is summed for the column. Then a
// cell asks the rows of outputs over it whether it is the one of its column:
//
//     outputs of a row  ->  shares of the columns, and which of its rows owns each  ->  cells
//
// That takes the sum of a window's sides for each cell, not their product, all in registers. A column adds up in the
// order of the outputs of a row, and a cell in the order of the rows.
#pragma once
#include "passes/columns.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Calls f(size, i) for blocks of U registers, or of one where there are fewer, that cover 0..length-1. The last may
// overlap its neighbour, and goes beyond the end where the whole is shorter than a register.
template <int U, int N, class F>
NDPOOL_INLINE void over_registers(i64 length, const F &f) {
    if (length >= U * N) return whole_blocks<U * N>(length, [&](i64 i) NDPOOL_INLINED { f(Size<U>(), i); });
    for (i64 i = 0; i < length; i += N) f(Size<1>(), i + N <= length || length < N ? i : length - N);
}

template <class A>
class WinnerColumns {
    static constexpr int N = LANES<A>, U = 4, BYTES = LANES<std::uint8_t>, BLOCK = U * N > 64 ? U * N : 64;

  public:
    // `element_bytes` are those of g and gx.
    WinnerColumns(const Plan &plan, const FloatRows<A> &floats, i64 element_bytes)
        : plan(plan),
          axis(plan.last()),
          floats(floats),
          element_bytes(element_bytes),
          before(axis.dilation * (axis.kernel - 1) / axis.stride),
          in_rows(plan),
          taps(2 * axis.kernel, "windows over a column") {
        i64 *shift = taps.data(), *place = shift + axis.kernel, t = 0;
        for (i64 phase = 0; phase < axis.stride; ++phase) {
            for (i64 j = axis.kernel - 1; j >= 0; --j)  // the first output first
                if (j * axis.dilation % axis.stride == phase) {
                    shift[t] = (before - j * axis.dilation / axis.stride) * plan.inner;
                    place[t++] = j;
                }
            if (phase == 0) even_taps = t;
        }
    }

    void fill(const InputPart &part, const std::uint8_t *winners, const void *g) {
        const i64 slab = part.slab * plan.out_slab;
        if (plan.dim_count == 0) {
            const i64 most = CELLS / plan.inner + 1;
            for (i64 begin = part.begin; begin < part.end; begin += most) {
                const i64 end = begin + most < part.end ? begin + most : part.end;
                look_at(begin, end, 1);
                hand(winners + slab, g, slab, 0);
                emit(part, begin * plan.inner, (end - begin) * plan.inner, [&](A *) { return shares.data() + lead; });
            }
            return;
        }
        const OutputPart seen = outputs_over(plan, part.begin, part.end);
        look_at(0, axis.length, seen.row_end - seen.row_begin);
        for (i64 row = seen.row_begin; row < seen.row_end; ++row)
            hand(winners + slab + row * plan.out_row, g, slab + row * plan.out_row, row - seen.row_begin);
        over_part_rows(plan, in_rows, part, [&](i64 row, i64, i64) {
            emit(part, row * plan.in_row, plan.in_row, [&](A *room) {
                collect(seen.row_begin, room);
                return room;
            });
        });
    }

  private:
    static constexpr i64 CELLS = 2048;  // of a long row at a time, which stay in the nearest cache
    const Plan &plan;
    const Axis &axis;
    const FloatRows<A> floats;
    const i64 element_bytes;
    const i64 before;  // outputs of a row whose windows reach over a cell, beyond the one that starts last
    InputRow in_rows;
    Scratch<i64> taps;  // how far the windows over a column are, and at which places these have it
    i64 even_taps = 0;  // of the columns at which windows start
    // A row of outputs, with a border of such that hand on nothing.
    Scratch<A> cotangents;
    Scratch<std::uint8_t> columns, rows;  // of the winners in their windows
    i64 first = 0, lo = 0, hi = 0;        // the output at the start of the border, and the real ones
    // Rows of columns, `apart` elements from one to the next.
    Scratch<A> shares, sums;
    Scratch<std::uint8_t> owners;
    i64 length = 0, lead = 0, apart = 0;  // elements of a phase; of a row before the first cell
    // Columns of several elements in steps of 2: those at which windows start, and `phase` elements further the others.
    Scratch<A> share_phases;
    Scratch<std::uint8_t> owner_phases;
    i64 phase = 0;
    Outbox outbox;

    bool joins() const { return axis.stride == 2 && plan.inner > 1; }

    // Prepares for outputs over the cells begin..end-1 of so many rows.
    void look_at(i64 begin, i64 end, i64 count) {
        const i64 s = axis.stride, inner = plan.inner, start = (begin + axis.pad_lo) / s;
        const i64 windows = (end - 1 + axis.pad_lo) / s - start + 1;
        first = start - before;
        lo = first > 0 ? first : 0;
        hi = start + windows < axis.output ? start + windows : axis.output;
        if (hi < lo) lo = hi = first;
        lead = (begin + axis.pad_lo - start * s) * inner;
        length = windows * inner;
        apart = s * ((length + BLOCK - 1) / BLOCK * BLOCK) + BYTES;
        const i64 room = before * inner + length + 2 * BLOCK;
        cotangents.grow(room, "cotangents of a row");
        columns.grow(room, "columns of the winners of a row");
        rows.grow(room, "rows of the winners of a row");
        shares.grow(count * apart, "shares of columns");
        owners.grow(count * apart, "owners of columns");
        if (joins()) {
            phase = (length / inner + BLOCK) * inner;
            share_phases.grow(2 * phase, "shares of columns in two phases");
            owner_phases.grow(2 * phase, "owners of columns in two phases");
        }
        if (plan.dim_count > 0) clear_border();
    }
    void clear_border() {
        auto clear = [&](i64 from, i64 to) {
            std::memset(cotangents.data() + from, 0, sizeof(A) * static_cast<std::size_t>(to - from));
            std::memset(columns.data() + from, NOBODY, static_cast<std::size_t>(to - from));
        };
        clear(0, (lo - first) * plan.inner);
        clear((hi - first) * plan.inner, before * plan.inner + length + 2 * BLOCK);
    }
    static constexpr std::uint8_t NOBODY = 255;

    // The shares of the columns, from a row of outputs: the winners, and g from element `at` on.
    void hand(const std::uint8_t *winners, const void *g, i64 at, i64 row) {
        const i64 inner = plan.inner, to = (lo - first) * inner, count = (hi - lo) * inner;
        A *share = shares.data() + row * apart;
        std::uint8_t *owner = owners.data() + row * apart;
        if (plan.dim_count == 0) {
            if (needs_no_border(at))
                return add_up(share, static_cast<const A *>(g) + at + first * inner, winners + first * inner);
            clear_border();
        }
        floats.read(g, at + lo * inner, count, cotangents.data() + to);
        if (plan.outer_cells == 1) {
            std::memcpy(columns.data() + to, winners + lo * inner, static_cast<std::size_t>(count));
            if (plan.dim_count > 0) std::memset(owner, 0, static_cast<std::size_t>(apart));
        } else {
            split(winners + lo * inner, count, columns.data() + to, rows.data() + to);
            if (axis.stride == 1)
                own<1>(owner);
            else
                own<2>(owner);
        }
        add_up(share, cotangents.data(), columns.data());
    }
    // Whether all outputs that are read are there, a block more than are asked for, as they would be in the copy.
    bool needs_no_border(i64 at) const {
        const i64 end = at + (first + before) * plan.inner + length + BLOCK;
        return element_bytes == sizeof(A) && lo == first && hi == first + before + length / plan.inner &&
               end <= plan.outer * plan.out_slab;
    }

    // A place is the number of its row times the kernel's last side, and that of its column.
    void split(const std::uint8_t *winners, i64 count, std::uint8_t *column, std::uint8_t *row) const {
        constexpr int M = LANES<std::uint32_t>;
        const auto kernel = static_cast<std::uint32_t>(axis.kernel), inverse = 65536 / kernel + 1;  // for a byte
        exact_blocks<M>(count, [&](auto size, i64 i) NDPOOL_INLINED {
            constexpr int L = decltype(size)::value;
            const auto place = convert<std::uint32_t, L>(load<L>(winners + i)), quotient = place * inverse >> 16;
            store<L>(row + i, convert<std::uint8_t, L>(quotient));
            store<L>(column + i, convert<std::uint8_t, L>(place - quotient * kernel));
        });
    }

    // The shares from cotangents and the columns that they go to.
    void add_up(A *share, const A *g, const std::uint8_t *column) const {
        if (axis.stride == 1)
            add_up<1>(share, g, column);
        else
            add_up<2>(share, g, column);
    }
    // With S phases, S registers of columns side by side are one of each phase.
    template <int S>
    void add_up(A *share, const A *g, const std::uint8_t *column) const {
        constexpr int M = U / S;
        const i64 *shift = taps.data(), *place = shift + axis.kernel;
        const i64 stops[2] = {even_taps, axis.kernel}, end = length;
        const ByteRows *bytes = byte_rows();
        const bool joins = S == 2 && this->joins();
        for (i64 i = 0; i < end; i += M * N) {
            vec<A, N> sum[S][M] = {};
            i64 t = 0;
            NDPOOL_UNROLL
            for (int f = 0; f < S; ++f)
                for (; t < stops[f]; ++t) {
                    const i64 from = i + shift[t];
                    NDPOOL_UNROLL
                    for (int u = 0; u < M; ++u)
                        sum[f][u] = add_where_equal<A, N>(sum[f][u], column + from + u * N, place[t], *bytes,
                                                          load<N>(g + from + u * N));
                }
            NDPOOL_UNROLL
            for (int u = 0; u < M; ++u) {
                if (S == 2 && !joins) zip<N>(sum[0][u], sum[S - 1][u]);
                A *to = joins ? share_phases.data() + i + u * N : share + S * (i + u * N);
                NDPOOL_UNROLL
                for (int f = 0; f < S; ++f) store<N>(to + f * (joins ? phase : N), sum[f][u]);
            }
        }
        if (joins) join_places(share_phases.data(), phase, length / plan.inner, plan.inner, share);
    }
    template <int S>
    void own(std::uint8_t *owner) const {
        constexpr int M = 2;
        const std::uint8_t *column = columns.data(), *row = rows.data();
        const i64 *shift = taps.data(), *place = shift + axis.kernel;
        const i64 stops[2] = {even_taps, axis.kernel}, end = length;
        const bool joins = S == 2 && this->joins();
        for (i64 i = 0; i < end; i += M * BYTES) {
            vec<std::uint8_t, BYTES> own[S][M];
            i64 t = 0;
            NDPOOL_UNROLL
            for (int f = 0; f < S; ++f) {
                NDPOOL_UNROLL
                for (int u = 0; u < M; ++u) own[f][u] = splat<std::uint8_t, BYTES>(NOBODY);
                for (; t < stops[f]; ++t) {
                    const i64 from = i + shift[t];
                    const auto wanted = static_cast<std::uint8_t>(place[t]);
                    NDPOOL_UNROLL
                    for (int u = 0; u < M; ++u)
                        own[f][u] = load<BYTES>(column + from + u * BYTES) == wanted
                                        ? load<BYTES>(row + from + u * BYTES)
                                        : own[f][u];
                }
            }
            NDPOOL_UNROLL
            for (int u = 0; u < M; ++u) {
                if (S == 2 && !joins) zip<BYTES>(own[0][u], own[S - 1][u]);
                std::uint8_t *to = joins ? owner_phases.data() + i + u * BYTES : owner + S * (i + u * BYTES);
                NDPOOL_UNROLL
                for (int f = 0; f < S; ++f) store<BYTES>(to + f * (joins ? phase : BYTES), own[f][u]);
            }
        }
        if (joins) join_places(owner_phases.data(), phase, length / plan.inner, plan.inner, owner);
    }

    // The sums of the cells of a row of the input, from the rows of outputs over it.
    void collect(i64 first_row, A *to) const {
        const i64 *row = in_rows.row, *tag = in_rows.tag, count = in_rows.count, apart = this->apart;
        const A *share = shares.data() + lead - first_row * apart;
        const std::uint8_t *owner = owners.data() + lead - first_row * apart;
        const ByteRows *bytes = byte_rows();
        over_registers<U, N>(plan.in_row, [&](auto registers, i64 i) NDPOOL_INLINED {
            constexpr int M = decltype(registers)::value;
            vec<A, N> sum[M] = {};
            for (i64 r = 0; r < count; ++r) {
                const i64 from = row[r] * apart + i;
                NDPOOL_UNROLL
                for (int u = 0; u < M; ++u)
                    sum[u] = add_where_equal<A, N>(sum[u], owner + from + u * N, tag[r], *bytes,
                                                   load<N>(share + from + u * N));
            }
            NDPOOL_UNROLL
            for (int u = 0; u < M; ++u) store<N>(to + i + u * N, sum[u]);
        });
    }

    // Writes `count` elements of the gradient. make(room) says where they are: in the room, or elsewhere.
    template <class Make>
    NDPOOL_INLINE void emit(const InputPart &part, i64 at, i64 count, const Make &make) {
        char *to = part.gx + at * element_bytes;
        const bool as_they_are = element_bytes == sizeof(A);  // 16-bit floats are not as long as any A
        if (part.streamed) to = outbox.room(to, count * element_bytes, (plan.in_row + CELLS) * element_bytes);
        if (as_they_are && (part.streamed || count >= N)) {
            const A *made = make(reinterpret_cast<A *>(to));
            if (reinterpret_cast<const char *>(made) != to)
                std::memcpy(to, made, static_cast<std::size_t>(count * element_bytes));
            return;
        }
        sums.grow(count + N, "sums of a row");
        floats.write(make(sums.data()), count, to);
    }
};

// gx[winner] += g. Places are bytes, and windows go in steps of one or two.
template <class A>
void pull_by_winner_columns(const Plan &plan, const std::uint8_t *winners, const void *g, const Gradient &gradient,
                            const FloatRows<A> &floats) {
    over_input_parts(plan, gradient, [&](const auto &over) {
        WinnerColumns<A> columns(plan, floats, gradient.element_bytes);
        over([&](const InputPart &part) { columns.fill(part, winners, g); });
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
