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
//
// Planes of the first axis go one by one; over two axes, they are rows. In a plane, rows may be short, and so may be
// the planes of the axes after it. So outputs lie in a frame, whose lines have room for the cells and, before the
// outputs, for as many elements as windows reach over. There is nobody's place:
//
//     frame      . . a b c d . . e f g h . . i j k l . .      windows of 3 cells
//     cell                 ^
//     outputs          ^ ^ ^                                  so far back for every cell, in whichever line
//
// In steps of one, the windows over a cell are equally far from all cells. So a frame is one long row along any axis,
// and registers are full however short its lines are. Along an axis in larger steps, the lines of its cells go one by
// one.
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

// What is left of winners' places when the first digit is taken off, where it is that of `first`; or else more, up to
// what a byte holds.
template <int N, class W>
NDPOOL_INLINE vec<std::uint8_t, N> without_digit(const W *winners, i64 first) {
#if defined(__AVX512BW__)
    if constexpr (sizeof(W) == 2 && N % 32 == 0) {
        const auto some = _mm512_set1_epi16(static_cast<std::int16_t>(first));
        __m256i bytes[N / 32];
        NDPOOL_UNROLL
        for (int i = 0; i < N / 32; ++i)
            bytes[i] = _mm512_cvtusepi16_epi8(_mm512_sub_epi16(_mm512_loadu_si512(winners + 32 * i), some));
        if constexpr (N == 32)
            return bits<vec<std::uint8_t, N>>(bytes[0]);
        else
            return bits<vec<std::uint8_t, N>>(_mm512_inserti64x4(_mm512_castsi256_si512(bytes[0]), bytes[1], 1));
    }
#endif
    const vec<W, N> rest = load<N>(winners) - static_cast<W>(first);
    if constexpr (sizeof(W) == 1)
        return rest;
    else
        return convert<std::uint8_t, N>(rest < W(255) ? rest : splat<W, N>(255));
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
    // In steps of one they are equally far from every cell: the first output first, which is `ahead` of it.
    void list_steps(const Axis &axis, i64 ahead, i64 rest, i64 places) {
        windows.grow(axis.kernel, "windows over cells");
        for (i64 t = 0; t < axis.kernel; ++t) {
            const i64 at = (ahead + t * axis.dilation) * rest;
            windows[t] = {at, at, (axis.kernel - 1 - t) * places};
        }
    }
    const Window *steps() const { return windows.data(); }

  private:
    Scratch<i64> starts;
    Scratch<Window> windows;
};

template <class A>
class WinnerAxes {
    static constexpr int N = LANES<A>, U = 4;
    static constexpr std::uint8_t NOBODY = 255;
    using Window = WindowsOver::Window;

  public:
    // `element_bytes` are those of g and gx.
    WinnerAxes(const Plan &plan, const FloatRows<A> &floats, i64 element_bytes)
        : plan(plan),
          floats(floats),
          element_bytes(element_bytes),
          row(plan.dim_count),
          out_plane(plan.out_slab / plan.axes[0].output) {}

    template <class W>
    void fill(const InputPart &part, const W *winners, const void *g) {
        const i64 length = cells_of(1), most = row == 1 ? length : cells_of_band();
        for (i64 begin = 0; begin < length; begin += most) {
            look_at(begin, begin + most < length ? begin + most : length);
            fill_band(part, winners, g);
        }
    }

  private:
    // A dimension after the first, the row at last: cells first..first+in-1, and outputs lo..lo+out-1 over them. In a
    // frame it has `before` indices before it is pooled and `after` then. The first output is number `lead` of them.
    struct Stage {
        const Axis *axis = nullptr;  // null if it is carried along
        bool in_steps_of_one = false;
        i64 first = 0, in = 1, lo = 0, out = 1;
        i64 before = 1, after = 1, lead = 0;
        i64 reach = 0;   // indices from that of a cell to the last output over it, in steps of one
        i64 rest = 1;    // elements of an index
        i64 places = 1;  // of the axes that follow
        WindowsOver windows;
    };
    struct Frame {
        Scratch<A> sums;
        Scratch<std::uint8_t> places;

        void grow(i64 count) {
            sums.grow(count, "sums along some axes");
            places.grow(count, "places along some axes");
        }
    };
    static constexpr i64 NEAR = i64(512) << 10;  // bytes, of which a part of the second-level cache has room
    static constexpr i64 SOME = 1024;            // elements that stay in the nearest cache
    static constexpr i64 MORE = 2 * U * N;       // that may be read or written beyond
    const Plan &plan;
    const FloatRows<A> floats;
    const i64 element_bytes;
    const int row;                         // the number of its stage
    const i64 out_plane;                   // outputs for each of the first axis
    Stage stages[MAX_DIMS + 1];            // by dimension
    i64 band_begin = 0, band_end = 0;      // of the second dimension's cells
    i64 first_cell = 0, first_output = 0;  // of the band in its plane
    i64 outputs = 0, most_reach = 0;       // of the band; elements from a cell to the farthest output over it
    Scratch<i64> output_rows, cell_rows;   // where they start in the first frame, and in the last one
    i64 output_count = 0, cell_count = 0;  // of such rows
    bool is_dense = false;                 // whether cells in the last frame lie as they do in the plane
    Scratch<i64> plane_at;
    Scratch<Window> over_cell;
    Scratch<A> planes, cells, line;
    Frame loose, framed, frames[2];
    Outbox outbox;

    // --- bands ---

    // Of the second dimension, as many cells as stay near with the outputs over them, but not so few that most outputs
    // are looked at twice.
    i64 cells_of_band() const {
        const i64 bytes =
            out_plane / plan.dims[1].out_count * (static_cast<i64>(sizeof(A)) + 1) * (most_over(plan.axes[0]) + 4);
        const int axis = plan.dims[1].axis;
        const i64 least = axis < 0 ? 1 : 3 * plan.axes[axis].dilation * plan.axes[axis].kernel, most = NEAR / bytes;
        return most < least ? least : most;
    }
    void look_at(i64 begin, i64 end) {
        if (band_begin == begin && band_end == end) return;
        band_begin = begin, band_end = end;
        i64 rest = plan.inner, kept = 1;
        for (int d = row; d > 0; --d) {
            Stage &stage = stages[d];
            const int axis = d == row ? plan.axis_count - 1 : plan.dims[d].axis;
            stage.axis = axis < 0 ? nullptr : &plan.axes[axis];
            stage.first = stage.lo = 0, stage.in = cells_of(d), stage.out = outputs_of(d);
            stage.rest = rest, stage.places = kept;
            const bool band = d == 1 && d < row;
            if (band) narrow(stage, begin, end);
            measure(stage, band);
            rest *= stage.before, kept *= stage.axis ? stage.axis->kernel : 1;
        }
        const i64 each = out_plane / outputs_of(1);
        first_cell = row == 1 ? 0 : begin * plan.dims[1].in_stride, first_output = stages[1].lo * each;
        outputs = stages[1].out * each;
        list_rows();
        take_room(rest);
    }
    i64 cells_of(int d) const { return d == row ? plan.last().length : plan.dims[d].in_count; }
    i64 outputs_of(int d) const { return d == row ? plan.last().output : plan.dims[d].out_count; }
    static void narrow(Stage &stage, i64 begin, i64 end) {
        stage.first = stage.lo = begin, stage.in = end - begin;
        i64 hi = end;
        if (stage.axis) stage.axis->outputs_over(begin, end, &stage.lo, &hi);
        stage.out = hi - stage.lo;
    }
    // Lines that follow each other share what is nobody's between them. A band is one line alone.
    static void measure(Stage &stage, bool band) {
        stage.in_steps_of_one = stage.axis && stage.axis->stride == 1;
        stage.before = stage.out, stage.after = stage.in, stage.lead = stage.reach = 0;
        if (!stage.axis) return;
        const Axis &axis = *stage.axis;
        if (!stage.in_steps_of_one)
            return stage.windows.list(axis, stage.first, stage.first + stage.in, stage.lo, stage.rest, stage.places);
        const i64 window = axis.dilation * (axis.kernel - 1), start = stage.first + axis.pad_lo - window,
                  ahead = start > stage.lo ? start - stage.lo : 0;
        stage.windows.list_steps(axis, ahead, stage.rest, stage.places);
        stage.reach = ahead + window, stage.lead = stage.lo + ahead - start;
        const i64 all = stage.in + axis.pad_lo, filled = stage.lead + stage.out;
        stage.before = band ? stage.in + stage.reach : all > filled ? all : filled;
        if (!band) stage.after = stage.before;
    }
    // Where rows of outputs start in the first frame, and rows of cells in the last one.
    void list_rows() {
        output_count = cell_count = 1;
        for (int d = 1; d < row; ++d) output_count *= stages[d].out, cell_count *= stages[d].in;
        output_rows.grow(output_count + 1, "rows of outputs");
        cell_rows.grow(cell_count + 1, "rows of cells");
        output_rows[0] = stages[row].lead * plan.inner, cell_rows[0] = 0;
        i64 listed = 1, cells_listed = 1, rest = stages[row].before * plan.inner;
        for (int d = row - 1; d > 0; --d) {
            const Stage &stage = stages[d];
            spread(output_rows.data(), listed, stage.out, stage.rest, stage.lead * stage.rest);
            spread(cell_rows.data(), cells_listed, stage.in, rest, 0);
            listed *= stage.out, cells_listed *= stage.in, rest *= stage.after;
        }
        is_dense = plan.in_row == stages[row].before * plan.inner &&
                   cell_rows[cell_count - 1] == (cell_count - 1) * plan.in_row;
    }
    // The same numbers `times` over, each time more by a step.
    static void spread(i64 *numbers, i64 count, i64 times, i64 step, i64 first) {
        for (i64 t = times - 1; t >= 0; --t)
            for (i64 i = 0; i < count; ++i) numbers[t * count + i] = numbers[i] + first + t * step;
    }
    // The first frame has `size` elements.
    void take_room(i64 size) {
        i64 most = 0, reach = stages[row].reach * plan.inner;
        const i64 first = size, longest = plan.in_row > SOME ? plan.in_row : SOME;
        for (int d = 1; d < row; ++d) {
            const Stage &stage = stages[d];
            size = stage.before ? size / stage.before * stage.after : 0;
            most = size > most ? size : most;
            reach = stage.reach * stage.rest > reach ? stage.reach * stage.rest : reach;
        }
        most_reach = reach;
        framed.grow(first + reach + MORE);
        std::memset(framed.places.data(), NOBODY, static_cast<std::size_t>(first + reach + MORE));
        for (Frame &frame : frames) frame.grow(most + reach + MORE);
        loose.grow(outputs + MORE);
        if (!floats.as_they_are) planes.grow(most_over(plan.axes[0]) * outputs + MORE, "planes of outputs");
        plane_at.grow(most_over(plan.axes[0]), "planes of outputs");
        over_cell.grow(most_over(plan.axes[0]), "windows over a cell");
        cells.grow(longest + MORE, "rows of cells");
        line.grow(longest + MORE, "rows of cells");
    }

    // --- the first axis ---

    template <class W>
    void fill_band(const InputPart &part, const W *winners, const void *g) {
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
            // After the outputs of other planes or slabs, a block more may be read.
            const bool spare = start + over.hi * out_plane + U * N <= plan.outer * plan.out_slab;
            add_up_planes(shares, winners + start, asked, left, spare);
            emit(part, c, add_up_stages());
        }
    }
    // Where the outputs are as numbers of A, of number o of the first axis.
    i64 widened(const void *g, i64 start, i64 o, i64 slot) {
        if (plane_at[slot] != o)
            floats.read(g, start + o * out_plane, outputs, planes.data() + slot * outputs), plane_at[slot] = o;
        return slot * outputs;
    }
    // Long rows go to where they belong in the frame. Short ones are one, and then moved apart.
    template <class W>
    void add_up_planes(const A *shares, const W *winners, i64 asked, i64 left, bool spare) {
        A *sum = framed.sums.data();
        std::uint8_t *place = framed.places.data();
        const i64 length = plan.out_row, *to = output_rows.data();
        const Window *windows = over_cell.data();
        if (length >= 2 * U * N) {
            for (i64 r = 0; r < output_count; ++r)
                add_up<false, true>(shares + r * length, winners + r * length, windows, asked, left, length,
                                    sum + to[r], place + to[r]);
            return;
        }
        if (spare)
            add_up<true, true>(shares, winners, windows, asked, left, outputs, loose.sums.data(), loose.places.data());
        else
            add_up<false, true>(shares, winners, windows, asked, left, outputs, loose.sums.data(), loose.places.data());
        // A register at a time, and nobody's places after it. What is written too much is written again.
        const A *from = loose.sums.data();
        const std::uint8_t *place_from = loose.places.data();
        const auto nobody = splat<std::uint8_t, N>(NOBODY);
        for (i64 r = 0; r < output_count; ++r, from += length, place_from += length) {
            for (i64 i = 0; i < length; i += N) {
                store<N>(sum + to[r] + i, load<N>(from + i));
                store<N>(place + to[r] + i, load<N>(place_from + i));
            }
            store<N>(place + to[r] + length, nobody);
        }
    }

    // --- the axes after it ---

    // All before the row; says which frame has the sums.
    const Frame *add_up_stages() {
        const Frame *now = &framed;
        i64 lines = 1;
        int next = 0;
        for (int d = 1; d < row; lines *= stages[d++].after) {
            const Stage &stage = stages[d];
            if (!stage.axis) continue;
            const Frame &to = frames[next];
            const i64 before = stage.before * stage.rest, after = stage.after * stage.rest;
            if (stage.in_steps_of_one)
                add_up<true, false>(now->sums.data(), now->places.data(), stage.windows.steps(), stage.axis->kernel,
                                    stage.places, lines * after, to.sums.data(), to.places.data());
            else
                for (i64 l = 0; l < lines; ++l)
                    for (i64 c = 0; c < stage.in; ++c)
                        add_up<true, false>(now->sums.data() + l * before, now->places.data() + l * before,
                                            stage.windows.of(c), stage.windows.count(c), stage.places, stage.rest,
                                            to.sums.data() + l * after + c * stage.rest,
                                            to.places.data() + l * after + c * stage.rest);
            std::memset(to.places.data() + lines * after, NOBODY, static_cast<std::size_t>(most_reach + U * N));
            now = &to, next = 1 - next;
        }
        return now;
    }

    // What `count` windows hand to a line of cells, and the places that are `left` of their winners' then. SPARE says
    // that a block may be read and written where the line is shorter, FIRST that the shares are those of outputs.
    template <bool SPARE, bool FIRST, class W>
    static void add_up(const A *shares, const W *winners, const Window *windows, i64 count, i64 left, i64 length,
                       A *sum, std::uint8_t *place) {
        auto block = [&](auto registers, auto size, i64 i) NDPOOL_INLINED {
            constexpr int R = decltype(registers)::value, M = decltype(size)::value;
            vec<A, M> own[R] = {};
            vec<std::uint8_t, R *M> owner = splat<std::uint8_t, R * M>(NOBODY);
            const auto most = static_cast<std::uint8_t>(left);
            if (FIRST && count > 0) {  // the others were read for the cells before
                prefetch<R * M>(shares + windows[count - 1].share + i);
                prefetch<R * M>(winners + windows[count - 1].winner + i);
            }
            for (i64 w = 0; w < count; ++w) {
                const vec<std::uint8_t, R *M> rest =
                    without_digit<R * M>(winners + windows[w].winner + i, windows[w].place);
                add_where_below<A, M, R>(own, rest, most, shares + windows[w].share + i);
                owner = rest < most ? rest : owner;
            }
            NDPOOL_UNROLL
            for (int r = 0; r < R; ++r) store<M>(sum + i + r * M, own[r]);
            store<R * M>(place + i, owner);
        };
        if (length >= U * N)
            whole_blocks<U * N>(length, [&](i64 i) NDPOOL_INLINED { block(Size<U>(), Size<N>(), i); });
        else if (SPARE && length > N)
            block(Size<U>(), Size<N>(), 0);
        else if (length >= N || SPARE)
            whole_blocks<N>(length < N ? N : length, [&](i64 i) NDPOOL_INLINED { block(Size<1>(), Size<N>(), i); });
        else
            for (i64 i = 0; i < length; ++i) block(Size<1>(), Size<1>(), i);
    }

    // --- the row ---

    // Writes the gradient of a plane: some rows of cells at a time, with what is between them in the frame.
    void emit(const InputPart &part, i64 c, const Frame *frame) {
        const i64 length = plan.in_row, *start = cell_rows.data();
        char *to = part.gx + (c * plan.dims[0].in_stride + first_cell) * element_bytes;
        for (i64 r = 0, stop; r < cell_count; r = stop) {
            stop = r + 1;
            while (stop < cell_count && start[stop] + length - start[r] <= SOME) ++stop;
            const i64 count = (stop - r) * length, seen = start[stop - 1] + length - start[r],
                      bytes = count * element_bytes;
            char *memory = part.streamed ? outbox.room(to, bytes, (length > SOME ? length : SOME) * element_bytes) : to;
            A *made = floats.as_they_are ? reinterpret_cast<A *>(memory) : line.data();
            if ((is_dense || stop == r + 1) && seen >= U * N) {
                add_up_rows(*frame, start[r], seen, made);
            } else {
                add_up_rows(*frame, start[r], seen < U * N ? U * N : seen, cells.data());
                for (i64 k = r; k < stop; ++k)
                    copy_row(cells.data() + start[k] - start[r], length, made + (k - r) * length, made + count);
            }
            if (!floats.as_they_are) floats.write(made, count, memory);
            to += bytes;
        }
    }
    // A row of cells, and as much more as belongs to the rows after it, which end at `end`.
    static void copy_row(const A *from, i64 length, A *to, const A *end) {
        if (length >= N)
            whole_blocks<N>(length, [&](i64 i) NDPOOL_INLINED { store<N>(to + i, load<N>(from + i)); });
        else if (to + N <= end)
            store<N>(to, load<N>(from));
        else
            for (i64 i = 0; i < length; ++i) to[i] = from[i];
    }
    // The cells from element `start` of the frame on, a block at least.
    void add_up_rows(const Frame &frame, i64 start, i64 length, A *to) const {
        const Window *tap = stages[row].windows.steps();
        const i64 kernel = plan.last().kernel;
        const A *from = frame.sums.data() + start;
        const std::uint8_t *column = frame.places.data() + start;
        const ByteRows *bytes = byte_rows();
        whole_blocks<U * N>(length, [&](i64 i) NDPOOL_INLINED {
            vec<A, N> sum[U] = {};
            for (i64 t = 0; t < kernel; ++t) {
                const i64 at = i + tap[t].share;
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u)
                    sum[u] = add_where_equal<A, N>(sum[u], column + at + u * N, tap[t].place, *bytes,
                                                   load<N>(from + at + u * N));
            }
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) store<N>(to + i + u * N, sum[u]);
        });
    }
};

// gx[winner] += g, over two axes and more. Places without the first axis are bytes, and windows go in steps of one
// along the row.
template <class A, class W>
void pull_by_winner_axes(const Plan &plan, const W *winners, const void *g, const Gradient &gradient,
                         const FloatRows<A> &floats) {
    over_input_parts(plan, gradient, [&](const auto &over) {
        WinnerAxes<A> axes(plan, floats, gradient.element_bytes);
        over([&](const InputPart &part) { axes.fill(part, winners, g); });
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
