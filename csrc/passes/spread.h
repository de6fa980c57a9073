// The transpose of a sum over windows, one axis after the other: every cell gets what the windows over it hold.
//
// Along the first axis, the planes of outputs that see a plane of cells are added up into one; along the next its rows,
// and at last a row is spread over its cells. A row is made of lanes, and in one of five ways:
//
//   PLACES    channels last: for every place, the outputs over it are added up, registers of channels at a time
//   RUNS      every output fills a run of cells
//   STEPS     steps of 1 or 2: rows of outputs, shifted, are added up; two of them are interleaved
//   SEGMENTS  a long row is cut into as many segments as a register has lanes, and these become channels
//   COLUMNS   as many short rows become channels
#pragma once
#include "base/transpose.h"
#include "passes/back.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// --- which outputs see a cell ---------------------------------------------------------------------

// Along one axis: first, first + step, ..., `count` of them. The step is the axis's.
struct Seen {
    i64 first, count;
    bool operator==(const Seen &other) const { return first == other.first && count == other.count; }
};

inline i64 step_of(const Axis &axis) {
    i64 a = axis.dilation, b = axis.stride;
    while (b) {
        const i64 rest = a % b;
        a = b, b = rest;
    }
    return axis.dilation / a;
}

NDPOOL_INLINE Seen seen_from(const Axis &axis, i64 step, const Cursor &at) {
    if (axis.dilation == 1) return {at.lo, at.hi - at.lo};
    i64 first = at.lo;
    while (first < at.hi && (at.cell - axis.start(first)) % axis.dilation) ++first;
    return {first, first < at.hi ? (at.hi - 1 - first) / step + 1 : 0};
}

// At most so many.
inline i64 most_over(const Axis &axis) {
    const i64 most =
        axis.adaptive ? axis.output / axis.length + 2 : axis.dilation * (axis.kernel - 1) / axis.stride + 1;
    return most < axis.output ? most : axis.output;
}

inline i64 floor_quotient(i64 a, i64 b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

// --- sums of arrays -------------------------------------------------------------------------------

// to = the sum of `count` arrays that are `apart` elements apart, each of `width`.
template <class A>
struct ArraySum {
    template <int N, int U, class T>
    NDPOOL_INLINE static void block(const T *from, i64 count, i64 apart, A *to) {
        vec<A, N> sum[U] = {};
        for (i64 j = 0; j < count; ++j, from += apart) {
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) sum[u] += load_as<A, N>(from + u * N);
        }
        NDPOOL_UNROLL
        for (int u = 0; u < U; ++u) store<N>(to + u * N, sum[u]);
    }
    template <int N, class T>
    NDPOOL_INLINE static void blocks_of(const T *from, i64 count, i64 apart, i64 width, A *to) {
        whole_blocks<N>(width, [&](i64 i) NDPOOL_INLINED { block<N, 1>(from + i, count, apart, to + i); });
    }
    template <class T>
    NDPOOL_INLINE static void of(const T *from, i64 count, i64 apart, i64 width, A *to) {
        constexpr int N = LANES<A>, FEW = FEW_LANES<A>;
        i64 i = 0;
        for (; i + 4 * N <= width; i += 4 * N) block<N, 4>(from + i, count, apart, to + i);
        if (i + 2 * N <= width) block<N, 2>(from + i, count, apart, to + i), i += 2 * N;
        if (i + N <= width) block<N, 1>(from + i, count, apart, to + i), i += N;
        if (i == width) return;
        if (width >= N) return block<N, 1>(from + width - N, count, apart, to + width - N);
        if (width >= FEW) return blocks_of<FEW>(from, count, apart, width, to);
        blocks_of<1>(from, count, apart, width, to);
    }
};

// The sums over the windows of one cell after the other, where these are many. Outputs first..middle-1 are held as the
// sums of each of them with all that follow, those from the middle on as their sum. So every output is added twice,
// however many cells see it, and nothing is ever taken away.
template <class A>
class RunningSums {
  public:
    // Worth it for so many.
    static bool suit(const Axis &axis) { return axis.dilation == 1 && most_over(axis) >= 6; }
    static i64 room(const Axis &axis, i64 width) { return suit(axis) ? (most_over(axis) + 1) * width + 64 : 0; }

    RunningSums() = default;
    RunningSums(const Axis &axis, i64 width, A *room)
        : width(width), front(room), back(room + most_over(axis) * width) {}
    // Before other outputs, or cells that are before those asked for.
    void restart() { middle = next = INT64_MIN; }

    template <class T>
    void sum(const T *q, const Seen &seen, A *to) {
        const i64 stop = seen.first + seen.count;
        if (seen.count == 0) {
            std::memset(to, 0, sizeof(A) * static_cast<std::size_t>(width));
        } else if (seen.first >= middle) {
            refill(q, seen);
            std::memcpy(to, front, sizeof(A) * static_cast<std::size_t>(width));
        } else {
            for (; next < stop; ++next) add(next == middle, q + next * width);
            const A *sums = front + (seen.first - begin) * width;
            if (next == middle)
                std::memcpy(to, sums, sizeof(A) * static_cast<std::size_t>(width));
            else
                two(sums, back, to);
        }
    }

  private:
    static constexpr int N = LANES<A>;
    i64 width = 0, begin = 0, middle = 0, next = 0;
    A *front = nullptr, *back = nullptr;

    template <class T>
    void refill(const T *q, const Seen &seen) {
        begin = seen.first;
        middle = next = seen.first + seen.count;
        ArraySum<A>::of(q + (middle - 1) * width, 1, 0, width, front + (seen.count - 1) * width);
        for (i64 o = seen.count - 2; o >= 0; --o)
            two(q + (begin + o) * width, front + (o + 1) * width, front + o * width);
    }
    template <class T>
    void add(bool is_first, const T *q) {
        if (is_first) return ArraySum<A>::of(q, 1, 0, width, back);
        i64 i = 0;
        for (; i + N <= width; i += N) store<N>(back + i, load<N>(back + i) + load_as<A, N>(q + i));
        for (; i < width; ++i) back[i] += load_as<A, 1>(q + i)[0];
    }
    // None of the arrays is the other's.
    template <class T>
    NDPOOL_INLINE void two(const T *a, const A *b, A *to) {
        i64 i = 0;
        for (; i + N <= width; i += N) store<N>(to + i, load_as<A, N>(a + i) + load<N>(b + i));
        for (; i < width; ++i) to[i] = load_as<A, 1>(a + i)[0] + b[i];
    }
};

// --- rows -----------------------------------------------------------------------------------------

enum class RowWay { PLACES, RUNS, STEPS, SEGMENTS, COLUMNS };

// Spreads rows of outputs along the last axis, in lanes of A.
template <class A>
class RowSpreader {
    static constexpr int N = LANES<A>;
    using Bits = typename IntOf<sizeof(A)>::u;

  public:
    const RowWay way;
    const i64 chunk;  // cells at a time

    // For so many rows.
    RowSpreader(const Axis &axis, i64 inner, i64 rows)
        : way(choose(axis, inner, rows)),
          chunk(chunk_of(axis, inner, way)),
          axis(axis),
          inner(inner),
          step(step_of(axis)),
          reach(axis.adaptive ? 0 : axis.dilation * (axis.kernel - 1)) {
        if (way == RowWay::PLACES)
            take_room_for_places();
        else if (way == RowWay::RUNS && !short_runs())
            places.grow(chunk + 4 * N, "runs of cells");
        else
            take_room_for_outputs();
        if (way == RowWay::STEPS) list_shifts();
    }

    // The cells begin..end-1, a chunk at most, from a row of outputs; not by COLUMNS.
    template <class T>
    const A *spread(const T *q, i64 begin, i64 end) {
        switch (way) {
            case RowWay::PLACES: return spread_places(axis, inner, q, begin, end, places.data()), places.data();
            case RowWay::RUNS: return short_runs() ? spread_short_runs(q, begin, end) : spread_runs(q, begin, end);
            case RowWay::STEPS: return spread_steps(q, begin, end);
            default: return spread_segments(q, begin, end);
        }
    }

    // By COLUMNS: takes in row number `row` of N, and then spreads them all.
    template <class T>
    void take(const T *q, i64 row) {
        load_middle(q, first_output(0), outputs_of(0, axis.length),
                    middle.data() + row * outputs_of(0, axis.length) * inner);
    }
    // Row after row.
    const A *spread_taken() {
        const i64 outputs = outputs_of(0, axis.length), cells = axis.length;
        Axis part = axis;
        if (!axis.adaptive) part.output = outputs, part.pad_lo = axis.pad_lo - first_output(0) * axis.stride;
        spread_columns(part, outputs, outputs * inner, cells);
        return places.data();
    }

  private:
    const Axis axis;
    const i64 inner, step, reach;
    Scratch<A> middle, places, columns, sums, queue;
    Scratch<i64> shifts;
    i64 taps[2] = {0, 0};  // of each phase

    static constexpr i64 MOST_STEPS = 9;

    void take_room_for_places() {
        places.grow(chunk * inner + N, "sums of places");
        queue.grow(RunningSums<A>::room(axis, inner), "sums of outputs");
    }
    void take_room_for_outputs() {
        const i64 stride = axis.adaptive ? 1 : axis.stride, rows = way == RowWay::COLUMNS ? N : 1;
        // Of a chunk, outputs that do not exist included.
        const i64 outputs = axis.adaptive ? axis.output : (chunk + reach) / stride + 3;
        const i64 cells = chunk + 3 * stride * N;
        middle.grow((outputs * rows + N * N) * inner + 8 * N, "sums of output rows");
        places.grow(cells * rows * inner + 8 * N, "a row of the gradient");
        if (way != RowWay::SEGMENTS && way != RowWay::COLUMNS) return;
        columns.grow((outputs * rows + (reach / stride + 8) * N) * inner + 8 * N, "outputs as columns");
        sums.grow(cells * rows * inner + 8 * N, "cells as columns");
        Axis endless = axis;
        if (!axis.adaptive) endless.output = INT64_MAX;
        queue.grow(RunningSums<A>::room(endless, inner * N), "sums of outputs");
    }

    static RowWay choose(const Axis &axis, i64 inner, i64 rows) {
        if (inner >= N) return RowWay::PLACES;
        const bool few = 2 * rows < N;
        if (axis.adaptive) {
            if (inner == 1 && axis.length >= (few ? 1 : 8) * axis.output) return RowWay::RUNS;
            return few ? RowWay::PLACES : RowWay::COLUMNS;
        }
        const bool apart = axis.kernel == 1 || (axis.dilation == 1 && axis.kernel <= axis.stride);
        if (inner == 1 && apart && axis.stride > 1) return RowWay::RUNS;
        if (axis.stride <= (inner == 1 ? 2 : 1) && axis.kernel <= MOST_STEPS * axis.stride) return RowWay::STEPS;
        return few || axis.length >= 64 * N ? RowWay::SEGMENTS : RowWay::COLUMNS;
    }
    static i64 chunk_of(const Axis &axis, i64 inner, RowWay way) {
        i64 cells = 2048 / inner + 1;
        if (way == RowWay::COLUMNS) return axis.length;
        if (way == RowWay::SEGMENTS) {
            // Each segment looks at some outputs of its neighbour's.
            i64 segment = 4 * (axis.dilation * (axis.kernel - 1) + 1);
            if (segment < 64) segment = 64;
            cells = N * segment;
        }
        cells = (cells + 63) / 64 * 64;
        return cells < axis.length ? cells : axis.length;
    }

    bool short_runs() const { return !axis.adaptive && axis.stride <= 64; }

    // Of the cells from `begin` on. Outputs that do not exist are counted, too.
    i64 first_output(i64 begin) const {
        return axis.adaptive ? 0 : floor_quotient(begin + axis.pad_lo - reach, axis.stride);
    }
    i64 outputs_of(i64 begin, i64 end) const {
        if (axis.adaptive) return axis.output;
        return (end - 1 + axis.pad_lo) / axis.stride + 1 - first_output(begin);
    }
    // Outputs first, first+1, ... of a row as lanes, with zeros for those that do not exist.
    template <class T>
    void load_middle(const T *q, i64 first, i64 count, A *to) {
        i64 before = first < 0 ? -first : 0;
        if (before > count) before = count;
        i64 there = axis.output - (first + before);
        if (there > count - before) there = count - before;
        if (there < 0) there = 0;
        std::memset(to, 0, sizeof(A) * static_cast<std::size_t>(before * inner));
        to += before * inner;
        ArraySum<A>::of(q + (first + before) * inner, 1, 0, there * inner, to);
        std::memset(to + there * inner, 0, sizeof(A) * static_cast<std::size_t>((count - before - there) * inner));
    }

    // Cells begin..end-1 of an axis whose places have `width` elements.
    template <class T>
    void spread_places(const Axis &along, i64 width, const T *q, i64 begin, i64 end, A *to) {
        Cursor at;
        at.move_to(along, begin);
        if (RunningSums<A>::suit(along)) {
            RunningSums<A> running(along, width, queue.data());
            running.restart();
            for (i64 w = begin; w < end; ++w, to += width, at.step(along)) running.sum(q, {at.lo, at.hi - at.lo}, to);
            return;
        }
        for (i64 w = begin; w < end; ++w, to += width, at.step(along)) {
            const Seen seen = seen_from(along, step, at);
            ArraySum<A>::of(q + seen.first * width, seen.count, step * width, width, to);
        }
    }

    // Windows that do not overlap, or bins of which two may have a cell in common.
    template <class T>
    const A *spread_runs(const T *q, i64 begin, i64 end) {
        A *to = places.data() - begin;
        i64 lo, hi, filled = begin;
        axis.outputs_over(begin, end, &lo, &hi);
        auto fill = [&](i64 stop, A value) {
            const vec<A, N> v = splat<A, N>(value);
            for (i64 w = filled; w < stop; w += N) store<N>(to + w, v);
            if (stop > filled) filled = stop;
        };
        for (i64 o = lo; o < hi; ++o) {
            const i64 start = axis.start(o);
            const i64 stop =
                axis.adaptive ? ((o + 1) * axis.length + axis.output - 1) / axis.output : start + axis.kernel;
            const A value = load_as<A, 1>(q + o)[0];
            fill(start < end ? start : end, 0);
            for (i64 w = start > begin ? start : begin; w < filled; ++w) to[w] += value;
            fill(stop < end ? stop : end, value);
        }
        fill(end, 0);
        return places.data();
    }
    template <class T>
    const A *spread_short_runs(const T *q, i64 begin, i64 end) {
        const i64 s = axis.stride, first = (begin + axis.pad_lo) / s, count = (end - 1 + axis.pad_lo) / s + 1 - first;
        load_middle(q, first, count, middle.data());
        constexpr int FEW = FEW_LANES<A>;
        if (s <= FEW)
            fill_runs<FEW>(count);
        else
            fill_runs<N>(count);
        return places.data() + begin - (first * s - axis.pad_lo);
    }
    // Every run overwrites what the one before has written beyond its end.
    template <int M>
    void fill_runs(i64 count) const {
        const A *from = middle.data();
        A *to = places.data();
        const i64 k = axis.kernel, s = axis.stride;
        const vec<A, M> zero{};
        if (k == s && s <= M) {
            for (i64 o = 0; o < count; ++o, to += s) store<M>(to, splat<A, M>(from[o]));
            return;
        }
        for (i64 o = 0; o < count; ++o, to += s) {
            const vec<A, M> v = splat<A, M>(from[o]);
            for (i64 i = 0; i < k; i += M) store<M>(to + i, v);
            for (i64 i = k; i < s; i += M) store<M>(to + i, zero);
        }
    }

    // For each phase of the stride, by how much the outputs are shifted.
    void list_shifts() {
        shifts.grow(2 * axis.kernel, "cells of a window");
        for (i64 f = 0; f < axis.stride; ++f)
            for (i64 c = 0; c < axis.kernel; ++c)
                if (c * axis.dilation % axis.stride == f)
                    shifts[f * axis.kernel + taps[f]++] = c * axis.dilation / axis.stride * inner;
    }
    template <class T>
    const A *spread_steps(const T *q, i64 begin, i64 end) {
        const i64 s = axis.stride, first = (begin + axis.pad_lo) / s, stop = (end - 1 + axis.pad_lo) / s + 1;
        const i64 before = reach / s;
        load_middle(q, first - before, stop - first + before, middle.data());
        const A *from = middle.data() + before * inner;
        if (s == 1)
            add_shifted<1>(from, (stop - first) * inner);
        else
            add_shifted<2>(from, stop - first);
        return places.data() + (begin - (first * s - axis.pad_lo)) * inner;
    }
    template <int S>
    void add_shifted(const A *from, i64 length) const {
        constexpr int U = 4 / S;
        const i64 *shift[2] = {shifts.data(), shifts.data() + axis.kernel}, own_taps[2] = {taps[0], taps[1]};
        A *to = places.data();
        for (i64 i = 0; i < length; i += U * N) {
            vec<A, N> sum[S][U] = {};
            for (int f = 0; f < S; ++f)
                for (i64 c = 0; c < own_taps[f]; ++c) {
                    const A *p = from + i - shift[f][c];
                    NDPOOL_UNROLL
                    for (int u = 0; u < U; ++u) sum[f][u] += load<N>(p + u * N);
                }
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) {
                if (S == 2) zip<N>(sum[0][u], sum[S - 1][u]);
                for (int f = 0; f < S; ++f) store<N>(to + (i + u * N) * S + f * N, sum[f][u]);
            }
        }
    }

    // N rows of `outputs` outputs in the middle, `apart` elements apart, to rows of `cells` cells in `places`.
    void spread_columns(const Axis &along, i64 outputs, i64 apart, i64 cells) {
        transpose(reinterpret_cast<const Bits *>(middle.data()), apart, reinterpret_cast<Bits *>(columns.data()), N, N,
                  outputs * inner);
        spread_places(along, inner * N, static_cast<const A *>(columns.data()), 0, cells, sums.data());
        transpose(reinterpret_cast<const Bits *>(sums.data()), N, reinterpret_cast<Bits *>(places.data()),
                  cells * inner, cells * inner, N);
    }
    // A segment is a whole number of strides, so all have the same windows.
    template <class T>
    const A *spread_segments(const T *q, i64 begin, i64 end) {
        const i64 s = axis.stride, cells = ((end - begin + N - 1) / N + s - 1) / s * s;
        const i64 first = first_output(begin), outputs = outputs_of(begin, begin + cells);
        load_middle(q, first, (N - 1) * (cells / s) + outputs, middle.data());
        Axis part = axis;
        part.length = cells, part.output = outputs, part.pad_lo = begin + axis.pad_lo - first * s;
        spread_columns(part, outputs, cells / s * inner, cells);
        return places.data();
    }
};

// --- a part of the input --------------------------------------------------------------------------

// Copies the first of some pieces that follow each other to the others.
inline void replicate(char *piece, i64 bytes, i64 copies) {
    constexpr i64 MOST = 1 << 14;
    const i64 all = bytes * (copies + 1);
    for (i64 done = bytes, length = bytes; done < all; done += length) {
        length = done < MOST || done == bytes ? done : (MOST / bytes ? MOST / bytes * bytes : bytes);
        if (length > all - done) length = all - done;
        std::memcpy(piece + done, piece, static_cast<std::size_t>(length));
    }
}

template <class A, class Target>
class PartSpreader {
    static constexpr int N = LANES<A>;

  public:
    PartSpreader(const Plan &plan, const InputPart &part, const Target &to)
        : plan(plan),
          part(part),
          to(to),
          row_spreader(plan.last(), plan.inner, rows_of(plan, part)),
          bytes(to.element_bytes()) {
        i64 room = 0;
        for (int pass = 0; pass < 2; ++pass) {  // counted, then shared out
            A *block = sum_block.data();
            i64 in_each = plan.in_row, out_each = plan.out_row;
            for (int d = plan.dim_count - 1; d >= 0; --d) {
                const Dim &dim = plan.dims[d];
                if (dim.axis >= 0) {
                    const Axis &axis = plan.axes[dim.axis];
                    const i64 own = out_each + 64, queue = RunningSums<A>::room(axis, out_each);
                    if (pass) {
                        levels[d] = {in_each,
                                     out_each,
                                     step_of(axis),
                                     block,
                                     RunningSums<A>::suit(axis),
                                     RunningSums<A>(axis, out_each, block + own)};
                        block += own + queue;
                    } else {
                        room += own + queue;
                    }
                } else if (pass) {
                    levels[d] = {in_each, out_each, 1, nullptr, false, {}};
                }
                in_each *= dim.in_count;
                out_each *= dim.out_count;
            }
            if (!pass) sum_block.grow(room, "sums of output planes");
        }
    }

    // From the slab's outputs.
    template <class T>
    void fill(const T *q) {
        if (plan.dim_count == 0)
            fill_row(q, 0, 1, part.begin, part.end);
        else
            fill_level(0, q, 0, part.begin, part.end);
        flush();
    }

  private:
    struct Level {
        i64 in_each, out_each;  // elements for each index
        i64 step;
        A *sum;
        bool runs;
        RunningSums<A> running;
    };
    const Plan &plan;
    const InputPart &part;
    const Target &to;
    RowSpreader<A> row_spreader;
    const i64 bytes;
    Level levels[MAX_DIMS];
    Scratch<A> sum_block;
    Outbox outbox;
    // Rows that COLUMNS has taken: where they go, and how often.
    i64 taken = 0, taken_at[N], taken_times[N];

    static i64 rows_of(const Plan &plan, const InputPart &part) {
        return plan.dim_count ? plan.in_rows / plan.axes[0].length * (part.end - part.begin) : 1;
    }

    template <class T>
    void fill_level(int d, const T *q, i64 at, i64 begin, i64 end) {
        const Dim &dim = plan.dims[d];
        Level &level = levels[d];
        if (dim.axis < 0) {
            for (i64 c = begin; c < end; ++c) fill_next(d, q + c * level.out_each, at + c * level.in_each, 1);
            return;
        }
        const Axis &axis = plan.axes[dim.axis];
        Cursor cursor;
        cursor.move_to(axis, begin);
        level.running.restart();
        for (i64 c = begin; c < end;) {
            const Seen seen = seen_from(axis, level.step, cursor);
            i64 times = 0;
            do {
                ++times;
                cursor.step(axis);
            } while (c + times < end && seen_from(axis, level.step, cursor) == seen);
            const i64 cell = at + c * level.in_each;
            if (seen.count == 1) {
                fill_next(d, q + seen.first * level.out_each, cell, times);
            } else {
                if (level.runs)
                    level.running.sum(q, seen, level.sum);
                else
                    ArraySum<A>::of(q + seen.first * level.out_each, seen.count, level.step * level.out_each,
                                    level.out_each, level.sum);
                fill_next(d, static_cast<const A *>(level.sum), cell, times);
            }
            c += times;
        }
    }

    // What one index of dimension d holds, as often as it comes.
    template <class T>
    void fill_next(int d, const T *q, i64 at, i64 times) {
        const i64 each = levels[d].in_each;
        if (d + 1 == plan.dim_count) return fill_row(q, at, times, 0, plan.last().length);
        auto once = [&](i64 where) { fill_level(d + 1, q, where, 0, plan.dims[d + 1].in_count); };
        once(at);
        if (times == 1) return;
        if (Target::REPEATS && !part.streamed) {
            flush();
            return replicate(part.gx + at * bytes, each * bytes, times - 1);
        }
        for (i64 i = 1; i < times; ++i) once(at + i * each);
    }

    template <class T>
    void fill_row(const T *q, i64 at, i64 times, i64 begin, i64 end) {
        if (row_spreader.way == RowWay::COLUMNS) {
            row_spreader.take(q, taken);
            taken_at[taken] = at, taken_times[taken] = times;
            if (++taken == N) flush();
            return;
        }
        for (i64 c = begin; c < end; c += row_spreader.chunk) {
            const i64 stop = c + row_spreader.chunk < end ? c + row_spreader.chunk : end;
            put(row_spreader.spread(q, c, stop), at + c * plan.inner, (stop - c) * plan.inner, times);
        }
    }
    void flush() {
        if (!taken) return;
        const A *rows = row_spreader.spread_taken();
        for (i64 r = 0; r < taken; ++r) put(rows + r * plan.in_row, taken_at[r], plan.in_row, taken_times[r]);
        taken = 0;
    }

    template <class To>
    NDPOOL_INLINE static void put_lanes(const To &target, const A *lanes, i64 at, i64 length) {
        blocks<N>(length,
                  [&](i64 i, int count) NDPOOL_INLINED { target.template put<N>(at + i, load<N>(lanes + i), count); });
    }

    // Elements of a row, and of the rows after it.
    void put(const A *lanes, i64 at, i64 length, i64 times) {
        const i64 row = plan.in_row;
        if (part.streamed) return put_past_the_caches(lanes, at, length, times);
        put_lanes(to, lanes, at, length);
        if (!Target::REPEATS)
            for (i64 i = 1; i < times; ++i) put_lanes(to, lanes, at + i * row, length);
        else if (length == row)
            replicate(part.gx + at * bytes, length * bytes, times - 1);
        else
            for (i64 i = 1; i < times; ++i)
                std::memcpy(part.gx + (at + i * row) * bytes, part.gx + at * bytes,
                            static_cast<std::size_t>(length * bytes));
    }
    void put_past_the_caches(const A *lanes, i64 at, i64 length, i64 times) {
        constexpr i64 ENOUGH = 4096;
        const i64 row = plan.in_row;
        if constexpr (Target::STREAMS)
            if (part.in_lines && (at * bytes) % LINE == 0 && (length * bytes) % LINE == 0) {
                const auto past = to.past_the_caches();
                for (i64 i = 0; i < times; ++i) put_lanes(past, lanes, at + i * row, length);
                return;
            }
        i64 many = Target::REPEATS && length == row ? ENOUGH / (length * bytes) + 1 : 1;
        const i64 longest = (row_spreader.chunk * plan.inner + 64) * bytes;
        for (i64 i = 0; i < times; i += many) {
            if (many > times - i) many = times - i;
            const i64 first = at + i * row;
            char *room = outbox.room(part.gx + first * bytes, many * length * bytes, ENOUGH + longest);
            put_lanes(to.instead(room - first * bytes), lanes, first, length);
            replicate(room, length * bytes, many - 1);
        }
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
