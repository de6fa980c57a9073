// The transpose of a sum over windows, one axis after the other: every cell gets what the windows over it hold.
//
// Along the first axis, the planes of outputs that see a plane of cells are added up into one; along the next its rows,
// and at last a row is spread over its cells. A row is made of lanes, and in one of five ways:
//
//   PLACES    channels last: for every place, the outputs over it are added up, registers of channels at a time
//   RUNS      cells side by side that the same outputs see are filled with one number
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

// to = the sum of `count` arrays that are `apart` elements apart, each of `width`; `times` times, one after the other.
template <class A>
struct ArraySum {
    template <int N, int U, class T>
    NDPOOL_INLINE static void block(const T *from, i64 count, i64 apart, A *to, i64 times, i64 width) {
        vec<A, N> sum[U] = {};
        for (i64 j = 0; j < count; ++j, from += apart) {
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) sum[u] += load_as<A, N>(from + u * N);
        }
        for (i64 t = 0; t < times; ++t, to += width) {
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) store<N>(to + u * N, sum[u]);
        }
    }
    template <int N, class T>
    NDPOOL_INLINE static void blocks_of(const T *from, i64 count, i64 apart, i64 width, A *to, i64 times) {
        whole_blocks<N>(width,
                        [&](i64 i) NDPOOL_INLINED { block<N, 1>(from + i, count, apart, to + i, times, width); });
    }
    template <class T>
    NDPOOL_INLINE static void of(const T *from, i64 count, i64 apart, i64 width, A *to, i64 times = 1) {
        constexpr int N = LANES<A>, FEW = FEW_LANES<A>;
        if (width < N && times > 2) return repeat(from, count, apart, width, to, times);
        i64 i = 0;
        for (; i + 4 * N <= width; i += 4 * N) block<N, 4>(from + i, count, apart, to + i, times, width);
        for (; i + N <= width; i += N) block<N, 1>(from + i, count, apart, to + i, times, width);
        if (i == width) return;
        if (width >= N) return block<N, 1>(from + width - N, count, apart, to + width - N, times, width);
        if (width >= FEW) return blocks_of<FEW>(from, count, apart, width, to, times);
        blocks_of<1>(from, count, apart, width, to, times);
    }
    // Once, and then copies of what is there, ever longer ones.
    template <class T>
    static void repeat(const T *from, i64 count, i64 apart, i64 width, A *to, i64 times) {
        of(from, count, apart, width, to);
        for (i64 filled = width, all = times * width; filled < all;) {
            const i64 more = filled < all - filled ? filled : all - filled;
            std::memcpy(to + filled, to, sizeof(A) * static_cast<std::size_t>(more));
            filled += more;
        }
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
    const i64 chunk;       // cells at a time
    bool uniform = false;  // whether all cells that were spread last got the same

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
        else if (way == RowWay::RUNS && long_runs())
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
            case RowWay::RUNS: return long_runs() ? spread_long_runs(q, begin, end) : spread_runs(q, begin, end);
            case RowWay::STEPS: return spread_steps(q, begin, end);
            default: return spread_segments(q, begin, end);
        }
    }

    // By COLUMNS: takes in row number `row` of N, and then spreads them all.
    template <class T>
    void take(const T *q, i64 row) {
        load_middle(q, 0, axis.length, first_output(0), outputs_of(0, axis.length),
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
        queue.grow(RunningSums<A>::room(axis, 2 * N), "sums of outputs");
    }
    void take_room_for_outputs() {
        const i64 stride = axis.adaptive ? 1 : axis.stride, rows = way == RowWay::COLUMNS ? N : 1;
        // Of a chunk, outputs that do not exist included.
        const i64 outputs = axis.adaptive ? axis.output : (chunk + reach) / stride + 3;
        const i64 cells = chunk + 3 * stride * (way == RowWay::RUNS ? 1 : N);
        middle.grow((outputs * rows + N * N) * inner + 8 * N, "sums of output rows");
        places.grow(cells * rows * inner + 8 * N, "a row of the gradient");
        if (way == RowWay::RUNS) sums.grow(2 * outputs + 4 * N, "sums of outputs");
        if (way != RowWay::SEGMENTS && way != RowWay::COLUMNS) return;
        columns.grow((outputs * rows + (reach / stride + 8) * N) * inner + 8 * N, "outputs as columns");
        sums.grow(cells * rows * inner + 8 * N, "cells as columns");
        Axis endless = axis;
        if (!axis.adaptive) endless.output = INT64_MAX;
        queue.grow(RunningSums<A>::room(endless, 2 * N), "sums of outputs");
    }

    static RowWay choose(const Axis &axis, i64 inner, i64 rows) {
        if (inner >= N) return RowWay::PLACES;
        const bool few = rows == 1 || 2 * rows < N;
        if (axis.adaptive) {
            if (inner == 1 && axis.length >= (few ? 1 : 8) * axis.output) return RowWay::RUNS;
            return few ? RowWay::PLACES : RowWay::COLUMNS;
        }
        if (axis.stride <= (inner == 1 ? 2 : 1) && axis.kernel <= MOST_STEPS * axis.stride) return RowWay::STEPS;
        if (inner == 1 && axis.dilation == 1 && axis.kernel <= MOST_STEPS * axis.stride * axis.stride)
            return RowWay::RUNS;
        if (inner > 1 && axis.kernel <= axis.stride && axis.kernel >= 8) return RowWay::PLACES;
        return few || axis.length >= 64 * N ? RowWay::SEGMENTS : RowWay::COLUMNS;
    }
    static i64 chunk_of(const Axis &axis, i64 inner, RowWay way) {
        const i64 reach = axis.adaptive ? 1 : axis.dilation * (axis.kernel - 1) + 1;
        i64 cells = 2048 / inner + 1;
        if (way == RowWay::COLUMNS) return axis.length;
        // Chunks look at some outputs of their neighbours', and so does each segment of one.
        if (way == RowWay::SEGMENTS) {
            i64 segment = 4 * reach < 64 ? 64 : 4 * reach;
            if (segment < axis.stride) segment = axis.stride;
            cells = N * segment;
        } else if (axis.adaptive || axis.kernel > axis.stride) {
            const i64 least = 4 * (axis.stride < reach ? reach : axis.stride);
            if (cells < least) cells = least;
        }
        if (inner < 64) cells = (cells + 63) / 64 * 64;  // whole lines
        if (way == RowWay::RUNS && cells < axis.length / axis.output) cells = 8192;
        return cells < axis.length ? cells : axis.length;
    }

    bool long_runs() const { return axis.adaptive || (axis.stride > 64 && axis.kernel <= axis.stride); }

    // Of the cells from `begin` on. Outputs that do not exist are counted, too.
    i64 first_output(i64 begin) const {
        return axis.adaptive ? 0 : floor_quotient(begin + axis.pad_lo - reach, axis.stride);
    }
    i64 outputs_of(i64 begin, i64 end) const {
        if (axis.adaptive) return axis.output;
        return (end - 1 + axis.pad_lo) / axis.stride + 1 - first_output(begin);
    }
    // Outputs first, first+1, ... of a row as lanes, with zeros for those that the cells begin..end-1 do not ask for.
    template <class T>
    void load_middle(const T *q, i64 begin, i64 end, i64 first, i64 count, A *to) const {
        i64 lo, hi;
        axis.outputs_over(begin, end, &lo, &hi);
        if (hi > first + count) hi = first + count;
        if (lo > hi) lo = hi;
        if (lo > first) zeros(to, (lo - first) * inner);
        ArraySum<A>::of(q + lo * inner, 1, 0, (hi - lo) * inner, to + (lo - first) * inner);
        if (hi < first + count) zeros(to + (hi - first) * inner, (first + count - hi) * inner);
    }
    static void zeros(A *to, i64 length) { std::memset(to, 0, sizeof(A) * static_cast<std::size_t>(length)); }

    // Cells begin..end-1 of an axis whose places have `width` elements.
    template <class T>
    void spread_places(const Axis &along, i64 width, const T *q, i64 begin, i64 end, A *to) {
        if (RunningSums<A>::suit(along) && width >= N) {
            i64 i = 0;
            for (; i + 2 * N <= width; i += 2 * N) run_places<2>(along, width, q + i, begin, end, to + i);
            for (; i + N <= width; i += N) run_places<1>(along, width, q + i, begin, end, to + i);
            if (i < width) run_places<1>(along, width, q + width - N, begin, end, to + width - N);
            return;
        }
        Cursor at;
        at.move_to(along, begin);
        for (i64 w = begin; w < end;) {
            i64 stop = along.dilation == 1 ? at.same_until() : w + 1;
            if (stop > end) stop = end;
            const Seen seen = seen_from(along, step, at);
            ArraySum<A>::of(q + seen.first * width, seen.count, step * width, width, to, stop - w);
            to += (stop - w) * width;
            w = stop;
            at.move_on(along, w);
        }
    }
    // The same for U registers of every place, as RunningSums does it.
    template <int U, class T>
    void run_places(const Axis &along, i64 width, const T *q, i64 begin, i64 end, A *to) const {
        A *front = queue.data();
        vec<A, N> back[U] = {}, sum[U] = {};
        i64 first = 0, middle = INT64_MIN, next = 0;
        Cursor at;
        at.move_to(along, begin);
        for (i64 w = begin; w < end;) {
            i64 stop = at.same_until();
            if (stop > end) stop = end;
            if (at.lo >= middle) {
                first = at.lo, middle = next = at.hi;
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u) sum[u] = back[u] = vec<A, N>{};
                for (i64 o = middle - 1; o >= first; --o) {
                    NDPOOL_UNROLL
                    for (int u = 0; u < U; ++u) {
                        sum[u] += load_as<A, N>(q + o * width + u * N);
                        store<N>(front + ((o - first) * U + u) * N, sum[u]);
                    }
                }
            } else {
                for (; next < at.hi; ++next) {
                    NDPOOL_UNROLL
                    for (int u = 0; u < U; ++u) back[u] += load_as<A, N>(q + next * width + u * N);
                }
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u) sum[u] = load<N>(front + ((at.lo - first) * U + u) * N) + back[u];
            }
            for (; w < stop; ++w, to += width) {
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u) store<N>(to + u * N, sum[u]);
            }
            at.move_on(along, w);
        }
    }

    // The first cell beyond an output's window.
    i64 end_of(i64 o) const {
        return axis.adaptive ? ((o + 1) * axis.length + axis.output - 1) / axis.output : axis.start(o) + axis.kernel;
    }

    // Windows far apart that do not overlap, or bins of which two may have a cell in common.
    template <class T>
    const A *spread_long_runs(const T *q, i64 begin, i64 end) {
        A *to = places.data() - begin;
        i64 lo, hi, filled = begin;
        axis.outputs_over(begin, end, &lo, &hi);
        auto fill = [&](i64 stop, A value) {
            const vec<A, N> v = splat<A, N>(value);
            for (i64 w = filled; w < stop; w += N) store<N>(to + w, v);
            if (stop > filled) filled = stop;
        };
        uniform = hi - lo == 1 && axis.start(lo) <= begin && end_of(lo) >= end;
        for (i64 o = lo; o < hi; ++o) {
            const i64 start = axis.start(o), stop = end_of(o);
            const A value = load_as<A, 1>(q + o)[0];
            fill(start < end ? start : end, 0);
            for (i64 w = start > begin ? start : begin; w < filled; ++w) to[w] += value;
            fill(stop < end ? stop : end, value);
        }
        fill(end, 0);
        return places.data();
    }

    // Windows that overlap see the cells in runs, too. With k = c s + r, the first r of the s cells from place m s on
    // get the outputs m - c to m, the others those from m - c + 1 on.
    template <class T>
    const A *spread_runs(const T *q, i64 begin, i64 end) {
        const i64 s = axis.stride, c = axis.kernel / s, first = (begin + axis.pad_lo) / s,
                  count = (end - 1 + axis.pad_lo) / s + 1 - first;
        load_middle(q, begin, end, first - c, count + c, middle.data());
        const A *from = middle.data() + c;
        A *others = sums.data(), *firsts = others + (count + N - 1) / N * N;
        for (i64 m = 0; m < count; m += N) {
            vec<A, N> sum{};
            for (i64 j = 0; j < c; ++j) sum += load<N>(from + m - j);
            store<N>(others + m, sum);
            store<N>(firsts + m, sum + load<N>(from + m - c));
        }
        constexpr int FEW = FEW_LANES<A>;
        if (s <= FEW)
            fill_periods(count, firsts, others);
        else
            fill_runs(count, firsts, others);
        return places.data() + begin - (first * s - axis.pad_lo);
    }
    // Every store is overwritten beyond the run by the next.
    void fill_runs(i64 count, const A *firsts, const A *others) const {
        const i64 s = axis.stride, r = axis.kernel % s;
        A *to = places.data();
        for (i64 m = 0; m < count; ++m, to += s) {
            const vec<A, N> first = splat<A, N>(firsts[m]), other = splat<A, N>(others[m]);
            for (i64 i = 0; i < r; i += N) store<N>(to + i, first);
            for (i64 i = r; i < s; i += N) store<N>(to + i, other);
        }
    }
    void fill_periods(i64 count, const A *firsts, const A *others) const {
        constexpr int FEW = FEW_LANES<A>;
        const i64 s = axis.stride, r = axis.kernel % s;
        A *to = places.data();
        vec<typename IntOf<sizeof(A)>::s, FEW> is_first;
        for (int i = 0; i < FEW; ++i) is_first[i] = i < r ? -1 : 0;
        for (i64 m = 0; m < count; ++m, to += s)
            store<FEW>(to, is_first ? splat<A, FEW>(firsts[m]) : splat<A, FEW>(others[m]));
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
        load_middle(q, begin, end, first - before, stop - first + before, middle.data());
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
        load_middle(q, begin, end, first, (N - 1) * (cells / s) + outputs, middle.data());
        Axis part = axis;
        part.length = cells, part.output = outputs, part.pad_lo = begin + axis.pad_lo - first * s;
        spread_columns(part, outputs, cells / s * inner, cells);
        return places.data();
    }
};

// --- a part of the input --------------------------------------------------------------------------

// Fills memory with copies of its first bytes.
inline void repeat_bytes(char *memory, i64 bytes, i64 all) {
    constexpr i64 MOST = 1 << 14;  // copied at a time, from the nearest cache
    const i64 whole = bytes < MOST ? MOST / bytes * bytes : bytes;
    for (i64 done = bytes; done < all;) {
        i64 length = done < whole ? done : whole;
        if (length > all - done) length = all - done;
        std::memcpy(memory + done, memory, static_cast<std::size_t>(length));
        done += length;
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
          bytes(to.element_bytes()),
          levels(plan.dim_count, "axes of a pool") {
        i64 in_each = plan.in_row, out_each = plan.out_row, room = 0;
        for (int d = plan.dim_count - 1; d >= 0; --d) {
            const Dim &dim = plan.dims[d];
            levels[d] = Level{};
            levels[d].in_each = in_each, levels[d].out_each = out_each;
            if (dim.axis >= 0) room += levels[d].room(plan.axes[dim.axis]);
            in_each *= dim.in_count, out_each *= dim.out_count;
        }
        sum_block.grow(room, "sums of output planes");
        A *block = sum_block.data();
        for (int d = 0; d < plan.dim_count; ++d)
            if (plan.dims[d].axis >= 0) block = levels[d].take(plan.axes[plan.dims[d].axis], block);
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
    // One dimension before the last axis; what is of a pooled one alone comes after the first line.
    struct Level {
        i64 in_each = 0, out_each = 0;  // elements for each index
        i64 step = 1;
        bool runs = false;
        A *sum = nullptr;
        RunningSums<A> running;

        i64 room(const Axis &axis) const { return out_each + 64 + RunningSums<A>::room(axis, out_each); }
        A *take(const Axis &axis, A *block) {
            step = step_of(axis);
            runs = RunningSums<A>::suit(axis);
            sum = block;
            running = RunningSums<A>(axis, out_each, block + out_each + 64);
            return block + room(axis);
        }
    };
    const Plan &plan;
    const InputPart &part;
    const Target &to;
    RowSpreader<A> row_spreader;
    const i64 bytes;
    const Scratch<Level> levels;
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
            return repeat_bytes(part.gx + at * bytes, each * bytes, times * each * bytes);
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

    // The same at `memory`, which belongs to the target, and there as often as it comes.
    NDPOOL_INLINE void make(const Target &target, char *memory, const A *lanes, i64 at, i64 length, i64 times) const {
        constexpr i64 PIECE = 256;
        const bool in_pieces = Target::REPEATS && row_spreader.uniform && length > PIECE;
        put_lanes(target, lanes, at, in_pieces ? PIECE : length);
        if (in_pieces || times > 1) repeat_bytes(memory, (in_pieces ? PIECE : length) * bytes, times * length * bytes);
    }

    // Elements of a row, and of the rows after it.
    void put(const A *lanes, i64 at, i64 length, i64 times) {
        const i64 row = plan.in_row;
        if (part.streamed) return put_past_the_caches(lanes, at, length, times);
        const bool side_by_side = Target::REPEATS && length == row;
        make(to, part.gx + at * bytes, lanes, at, length, side_by_side ? times : 1);
        if (!side_by_side)
            for (i64 i = 1; i < times; ++i) put_lanes(to, lanes, at + i * row, length);
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
            make(to.instead(room - first * bytes), room, lanes, first, length, many);
        }
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
