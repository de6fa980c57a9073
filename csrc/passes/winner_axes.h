// The way back of winners, one axis after the other.
//
// A winner is the first of the best cells of its window. So it is that of every part of the window that has it, too: of
// all outputs along one axis that are won at the same index of it, other indices being equal, the winner is the same
// cell. What they hand back is added up there, and goes on along the next axis as one number:
//
//     outputs  ->  cells of the first axis  ->  cells of the first and the second  ->  ...  ->  cells
//
// A place in the window is a number whose first digit is the step along the first axis. Where an output takes part, the
// digit is taken off, and what is left is the place for the axes that follow. That takes the sum of a window's sides
// for each cell, not their product, all in registers. A cell adds up along the first axis, then along the second, and
// along the row at last, each in the order of the outputs.
#pragma once
#include "passes/columns.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Some registers of sums, and in those lanes whose byte is below another, what is added to them.
template <class T, int N, int R>
NDPOOL_INLINE void add_where_below(vec<T, N> (&sum)[R], vec<std::uint8_t, R * N> bytes, std::uint8_t most, const T *p) {
    if constexpr (N == 1) {
        if (bytes[0] < most) sum[0][0] += *p;
        return;
    }
#if defined(__AVX512F__)
    // One mask for all of them.
    if constexpr (N * sizeof(T) == 64) {
        std::uint64_t mask;
        if constexpr (R * N == 64)
            mask = _mm512_cmplt_epu8_mask(bits<__m512i>(bytes), _mm512_set1_epi8(static_cast<char>(most)));
        else if constexpr (R * N == 32)
            mask = _mm256_cmplt_epu8_mask(bits<__m256i>(bytes), _mm256_set1_epi8(static_cast<char>(most)));
        else {
            std::uint8_t some[16] = {};
            store<R * N>(some, bytes);
            mask = _mm_cmplt_epu8_mask(bits<__m128i>(load<16>(some)), _mm_set1_epi8(static_cast<char>(most)));
        }
        NDPOOL_UNROLL
        for (int r = 0; r < R; ++r) {
            const std::uint64_t own = mask >> (r * N);
            const vec<T, N> v = load<N>(p + r * N);
            if constexpr (sizeof(T) == 4)
                sum[r] = bits<vec<T, N>>(_mm512_mask_add_ps(bits<__m512>(sum[r]), static_cast<__mmask16>(own),
                                                            bits<__m512>(sum[r]), bits<__m512>(v)));
            else
                sum[r] = bits<vec<T, N>>(_mm512_mask_add_pd(bits<__m512d>(sum[r]), static_cast<__mmask8>(own),
                                                            bits<__m512d>(sum[r]), bits<__m512d>(v)));
        }
        return;
    }
#endif
    using I = typename IntOf<sizeof(T)>::s;
    std::uint8_t some[R * N];
    store<R * N>(some, bytes);
    NDPOOL_UNROLL
    for (int r = 0; r < R; ++r) {  // a sum is never -0, so adding 0 does not change it
        const vec<T, N> none{};
        sum[r] += convert<I, N>(load<N>(some + r * N)) < static_cast<I>(most) ? load<N>(p + r * N) : none;
    }
}

// For each cell of an axis, the outputs over it and at which digit of the place they have it.
class WindowsOver {
  public:
    struct Window {
        i64 share, winner;  // where what it hands on starts, and where its winner is
        i64 place;
    };
    const Window *of(i64 cell) const { return windows.data() + starts[cell]; }
    i64 count(i64 cell) const { return starts[cell + 1] - starts[cell]; }

    // Over cells begin..end-1. An output has `rest` elements, of which the first is that of output lo; a step along the
    // axis changes a place by `places`.
    void list(const Axis &axis, i64 begin, i64 end, i64 lo, i64 rest, i64 places) {
        starts.grow(end - begin + 1, "windows over cells");
        windows.grow((end - begin) * most_over(axis), "windows over cells");
        Cursor over;
        over.move_to(axis, begin);
        i64 filled = 0;
        for (i64 c = begin; c < end; ++c) {
            if (c > begin) over.step(axis);
            starts[c - begin] = filled;
            over.over(axis, [&](i64 o, i64 place) {
                windows[filled++] = {(o - lo) * rest, (o - lo) * rest, place * places};
            });
        }
        starts[end - begin] = filled;
    }

  private:
    Scratch<i64> starts;
    Scratch<Window> windows;
};

template <class A>
class WinnerAxes {
    static constexpr int N = LANES<A>, U = 4;
    static constexpr std::uint8_t NOBODY = 255;

  public:
    // `element_bytes` are those of g and gx.
    WinnerAxes(const Plan &plan, const FloatRows<A> &floats, i64 element_bytes)
        : plan(plan),
          row(plan.last()),
          floats(floats),
          element_bytes(element_bytes),
          out_plane(plan.out_slab / plan.axes[0].output),
          before(row.dilation * (row.kernel - 1) * plan.inner),
          pitch(plan.in_row + before) {
        list_taps();
    }

    void fill(const InputPart &part, const std::uint8_t *winners, const void *g) {
        const i64 length = plan.dims[1].in_count, most = cells_of_band();
        for (i64 begin = 0; begin < length; begin += most) {
            look_at(begin, begin + most < length ? begin + most : length);
            fill_band(part, winners, g);
        }
    }

  private:
    // A dimension between the first and the row.
    struct Stage {
        bool pooled = false;
        i64 in = 1, out = 1, rest = 1;  // cells, outputs, and elements of each
        i64 places = 1;                 // of the axes that follow
        WindowsOver windows;
    };
    static constexpr i64 NEAR = i64(400) << 10;  // bytes, of which a part of the second-level cache has room
    const Plan &plan;
    const Axis &row;
    const FloatRows<A> floats;
    const i64 element_bytes;
    const i64 out_plane;      // outputs for each of the first axis
    const i64 before, pitch;  // elements of a row before its first cell, where there may be outputs; and of all
    Stage stages[MAX_DIMS];
    i64 first_cell = 0, first_output = 0;  // of the band in its plane
    i64 outputs = 0, rows = 0;             // of a band
    Scratch<i64> taps, plane_at;
    Scratch<WindowsOver::Window> over_cell;
    Scratch<A> planes, sums[2], line, cells;
    Scratch<std::uint8_t> places[2], columns;
    Outbox outbox;

    // The windows over a cell of the row: how far they are from where it is, and at which place they have it.
    void list_taps() {
        taps.grow(2 * row.kernel, "windows over a cell");
        i64 t = 0;
        for (i64 j = row.kernel - 1; j >= 0; --j) {  // the first output first
            taps[t++] = before - j * row.dilation * plan.inner;
            taps[t++] = j;
        }
    }
    // Of the second dimension, as many cells as stay near with the outputs over them, but not so few that most outputs
    // are looked at twice.
    i64 cells_of_band() const {
        const i64 bytes = out_plane / plan.dims[1].out_count * (static_cast<i64>(sizeof(A)) + 1) *
                          (most_over(plan.axes[0]) + 4);
        const int axis = plan.dims[1].axis;
        const i64 least = axis < 0 ? 1 : 4 * plan.axes[axis].dilation * plan.axes[axis].kernel, most = NEAR / bytes;
        return most < least ? least : most;
    }
    void look_at(i64 begin, i64 end) {
        i64 each = plan.out_row, in_each = plan.in_row, kept = plan.last().kernel, most = 0;
        rows = 1;
        for (int d = plan.dim_count - 1; d > 0; --d) {
            const Dim &dim = plan.dims[d];
            Stage &stage = stages[d];
            stage.pooled = dim.axis >= 0;
            stage.in = dim.in_count, stage.out = dim.out_count, stage.rest = each, stage.places = kept;
            i64 lo = 0, hi = dim.out_count;
            if (d == 1) {
                lo = begin, hi = end;
                if (stage.pooled) plan.axes[dim.axis].outputs_over(begin, end, &lo, &hi);
                stage.in = end - begin, stage.out = hi - lo;
                first_cell = begin * in_each, first_output = lo * each;
            }
            if (stage.pooled) {
                const Axis &axis = plan.axes[dim.axis];
                stage.windows.list(axis, d == 1 ? begin : 0, d == 1 ? end : dim.in_count, lo, each, kept);
                kept *= axis.kernel;
            }
            each *= stage.out, in_each *= stage.in, rows *= stage.in;
        }
        outputs = most = each;
        for (int d = 1; d < plan.dim_count; ++d) {
            each = stages[d].out ? each / stages[d].out * stages[d].in : 0;
            most = each > most ? each : most;
        }
        const i64 chunk = rows_of_chunk();
        for (int i = 0; i < 2; ++i) {
            sums[i].grow(most + U * N, "sums along some axes");
            places[i].grow(most + U * N, "places along some axes");
        }
        if (!floats.as_they_are) planes.grow(most_over(plan.axes[0]) * outputs + U * N, "planes of outputs");
        plane_at.grow(most_over(plan.axes[0]), "planes of outputs");
        over_cell.grow(most_over(plan.axes[0]), "windows over a cell");
        line.grow(chunk * pitch + before + 2 * U * N, "rows of outputs");
        columns.grow(chunk * pitch + before + 2 * U * N, "columns of winners");
        cells.grow(chunk * pitch + 2 * U * N, "rows of cells");
        std::memset(line.data(), 0, sizeof(A) * static_cast<std::size_t>(chunk * pitch + before + 2 * U * N));
        std::memset(columns.data(), NOBODY, static_cast<std::size_t>(chunk * pitch + before + 2 * U * N));
    }
    i64 rows_of_chunk() const {
        const i64 some = 1024 / pitch + 1;
        return some < rows ? some : rows;
    }

    void fill_band(const InputPart &part, const std::uint8_t *winners, const void *g) {
        const Axis &axis = plan.axes[0];
        const i64 start = part.slab * plan.out_slab + first_output, turns = most_over(axis),
                  left = plan.cells / axis.kernel;
        const A *shares = floats.as_they_are ? static_cast<const A *>(g) + start : planes.data();
        for (i64 slot = 0; slot < turns; ++slot) plane_at[slot] = -1;
        Cursor over;
        over.move_to(axis, part.begin);
        for (i64 c = part.begin; c < part.end; ++c) {
            if (c > part.begin) over.step(axis);
            i64 asked = 0;
            over.over(axis, [&](i64 o, i64 place) {
                const i64 at = floats.as_they_are ? o * out_plane : widened(g, start, o, o % turns);
                over_cell[asked++] = {at, o * out_plane, place * left};
            });
            add_up(shares, winners + start, over_cell.data(), asked, left, outputs, sums[0].data(), places[0].data());
            emit(part, c, add_up_stages());
        }
    }
    // Where the outputs are as numbers of A, of number o of the first axis.
    i64 widened(const void *g, i64 start, i64 o, i64 slot) {
        if (plane_at[slot] != o)
            floats.read(g, start + o * out_plane, outputs, planes.data() + slot * outputs), plane_at[slot] = o;
        return slot * outputs;
    }
    // All axes after the first and before the row; says where the sums are.
    int add_up_stages() {
        int now = 0;
        i64 lines = 1;
        for (int d = 1; d < plan.dim_count; lines *= stages[d++].in) {
            const Stage &stage = stages[d];
            if (!stage.pooled) continue;
            const i64 in = stage.in * stage.rest, out = stage.out * stage.rest;
            for (i64 l = 0; l < lines; ++l)
                for (i64 c = 0; c < stage.in; ++c)
                    add_up(sums[now].data() + l * out, places[now].data() + l * out, stage.windows.of(c),
                           stage.windows.count(c), stage.places, stage.rest,
                           sums[1 - now].data() + l * in + c * stage.rest,
                           places[1 - now].data() + l * in + c * stage.rest);
            now = 1 - now;
        }
        return now;
    }

    // What `count` windows hand to a line of cells, and the places that are `left` of their winners' then.
    static void add_up(const A *shares, const std::uint8_t *winners, const WindowsOver::Window *windows, i64 count,
                       i64 left, i64 length, A *sum, std::uint8_t *place) {
        auto block = [&](auto registers, auto size, i64 i) NDPOOL_INLINED {
            constexpr int R = decltype(registers)::value, M = decltype(size)::value;
            vec<A, M> own[R] = {};
            vec<std::uint8_t, R * M> owner = splat<std::uint8_t, R * M>(NOBODY);
            const auto most = static_cast<std::uint8_t>(left);
            for (i64 w = 0; w < count; ++w) {
                const A *share = shares + windows[w].share + i;
                const std::uint8_t *winner = winners + windows[w].winner + i,
                                   first = static_cast<std::uint8_t>(windows[w].place);
                const vec<std::uint8_t, R * M> rest = load<R * M>(winner) - first;
                add_where_below<A, M, R>(own, rest, most, share);
                owner = rest < most ? rest : owner;
            }
            NDPOOL_UNROLL
            for (int r = 0; r < R; ++r) store<M>(sum + i + r * M, own[r]);
            store<R * M>(place + i, owner);
        };
        if (length >= U * N)
            whole_blocks<U * N>(length, [&](i64 i) NDPOOL_INLINED { block(Size<U>(), Size<N>(), i); });
        else if (length >= N)
            whole_blocks<N>(length, [&](i64 i) NDPOOL_INLINED { block(Size<1>(), Size<N>(), i); });
        else
            for (i64 i = 0; i < length; ++i) block(Size<1>(), Size<1>(), i);
    }

    // Along the row: the outputs of some rows, with a border of such that hand on nothing, are one long row.
    void emit(const InputPart &part, i64 c, int now) {
        const i64 inner = plan.inner, first = row.pad_lo * inner - before;  // the output at the start of the border
        const i64 lo = first > 0 ? first : 0, end = plan.in_row + row.pad_lo * inner,
                  hi = end < plan.out_row ? end : plan.out_row, count = hi > lo ? hi - lo : 0;
        const i64 chunk = rows_of_chunk(), bytes = plan.in_row * element_bytes;
        char *to = part.gx + (c * plan.dims[0].in_stride + first_cell) * element_bytes;
        for (i64 r = 0; r < rows; r += chunk) {
            const i64 many = r + chunk < rows ? chunk : rows - r;
            for (i64 k = 0; k < many; ++k) {
                const i64 from = (r + k) * plan.out_row + lo, at = k * pitch + lo - first;
                std::memcpy(line.data() + at, sums[now].data() + from, sizeof(A) * static_cast<std::size_t>(count));
                std::memcpy(columns.data() + at, places[now].data() + from, static_cast<std::size_t>(count));
            }
            add_up_rows(many * pitch);
            for (i64 k = 0; k < many; ++k, to += bytes) {
                char *memory = part.streamed ? outbox.room(to, bytes, bytes) : to;
                floats.write(cells.data() + k * pitch, plan.in_row, memory);
            }
        }
    }
    void add_up_rows(i64 length) const {
        const i64 *tap = taps.data(), kernel = row.kernel;
        const A *from = line.data();
        const std::uint8_t *column = columns.data();
        A *to = cells.data();
        const ByteRows *bytes = byte_rows();
        for (i64 i = 0; i < length; i += U * N) {
            vec<A, N> sum[U] = {};
            for (i64 t = 0; t < kernel; ++t) {
                const i64 at = i + tap[2 * t];
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u)
                    sum[u] = add_where_equal<A, N>(sum[u], column + at + u * N, tap[2 * t + 1], *bytes,
                                                   load<N>(from + at + u * N));
            }
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) store<N>(to + i + u * N, sum[u]);
        }
    }
};

// gx[winner] += g, over three axes and more. Places are bytes, and windows go in steps of one along the row.
template <class A>
void pull_by_winner_axes(const Plan &plan, const std::uint8_t *winners, const void *g, const Gradient &gradient,
                         const FloatRows<A> &floats) {
    over_input_parts(plan, gradient, [&](const auto &over) {
        WinnerAxes<A> axes(plan, floats, gradient.element_bytes);
        over([&](const InputPart &part) { axes.fill(part, winners, g); });
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
