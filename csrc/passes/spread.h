// The transpose of a sum over windows, one axis after the other: every cell gets what the windows over it hold.
//
// Along the first axis, the planes of outputs that see a plane of cells are added up into one; along the next its rows,
// and at last a row is spread over its cells, in one of five ways:
//
//   RUNS      cells side by side that the same outputs see are filled with one number
//   STEPS     steps of 1 or 2: rows of outputs, shifted, are added up; two of them are interleaved
//   PLACES    channels last: for every place, the outputs over it are added up, registers of channels at a time
//   SEGMENTS  a long row is cut into as many segments as a register has lanes, and these become channels
//   COLUMNS   as many short rows become channels
#pragma once
#include "base/transpose.h"
#include "passes/runs.h"

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

// --- sums of arrays -------------------------------------------------------------------------------

// A sum of registers. EXACT keeps the rounding error of every addition beside it: it is rounded once, and so the order
// of additions does not matter.
template <class A, int N, bool EXACT>
struct LaneSum {
    vec<A, N> v{};
    void add(vec<A, N> x) { v += x; }
    void add(const LaneSum &x) { v += x.v; }
    vec<A, N> total() const { return v; }
    static LaneSum get(const A *p, i64) { return {load<N>(p)}; }
    void put(A *p, i64) const { store<N>(p, v); }
};
template <class A, int N>
struct LaneSum<A, N, true> {
    vec<A, N> v{}, lost{};
    NDPOOL_INLINE void add(vec<A, N> x) {
        const vec<A, N> sum = v + x, part = difference_by_product<N>(sum, v);
        lost += difference_by_product<N>(v, sum - part) + difference_by_product<N>(x, part);
        v = sum;
    }
    NDPOOL_INLINE void add(const LaneSum &x) { add(x.v), lost += x.lost; }
    // Beside an infinity the error is not a number, and the infinity is the sum.
    NDPOOL_INLINE vec<A, N> total() const { return lost - lost == 0 ? v + lost : v; }
    // From two arrays, of which one is so much further on.
    NDPOOL_INLINE static LaneSum get(const A *p, i64 further) { return {load<N>(p), load<N>(p + further)}; }
    NDPOOL_INLINE void put(A *p, i64 further) const { store<N>(p, v), store<N>(p + further, lost); }
};

// Calls f(exact) with a constant that says so; only doubles are ever added up exactly, as others have wider lanes.
template <class A, class F>
NDPOOL_INLINE void with_exact([[maybe_unused]] bool exact, const F &f) {
    if constexpr (std::is_same_v<A, double>)
        if (exact) return f(std::true_type());
    f(std::false_type());
}

// to = the sum of `count` arrays that are `apart` elements apart, each of `width`, from the last one on; `times` times,
// one after the other.
template <class A>
struct ArraySum {
    template <int N, int U, bool EXACT>
    NDPOOL_INLINE static void block(const A *from, i64 count, i64 apart, A *to, i64 times, i64 width) {
        LaneSum<A, N, EXACT> sum[U] = {};
        from += (count - 1) * apart;
        for (i64 j = 0; j < count; ++j, from -= apart) {
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) sum[u].add(load<N>(from + u * N));
        }
        for (i64 t = 0; t < times; ++t, to += width) {
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) store<N>(to + u * N, sum[u].total());
        }
    }
    template <int N, bool EXACT>
    NDPOOL_INLINE static void blocks_of(const A *from, i64 count, i64 apart, i64 width, A *to, i64 times) {
        whole_blocks<N>(
            width, [&](i64 i) NDPOOL_INLINED { block<N, 1, EXACT>(from + i, count, apart, to + i, times, width); });
    }
    template <bool EXACT = false>
    NDPOOL_INLINE static void of(const A *from, i64 count, i64 apart, i64 width, A *to, i64 times = 1) {
        constexpr int N = LANES<A>, FEW = FEW_LANES<A>;
        if (width < N && times > 2) return repeat<EXACT>(from, count, apart, width, to, times);
        i64 i = 0;
        for (; i + 4 * N <= width; i += 4 * N) block<N, 4, EXACT>(from + i, count, apart, to + i, times, width);
        for (; i + N <= width; i += N) block<N, 1, EXACT>(from + i, count, apart, to + i, times, width);
        if (i == width) return;
        if (width >= N) return block<N, 1, EXACT>(from + width - N, count, apart, to + width - N, times, width);
        if (width >= FEW) return blocks_of<FEW, EXACT>(from, count, apart, width, to, times);
        blocks_of<1, EXACT>(from, count, apart, width, to, times);
    }
    // Once, and then copies of what is there, ever longer ones.
    template <bool EXACT>
    static void repeat(const A *from, i64 count, i64 apart, i64 width, A *to, i64 times) {
        of<EXACT>(from, count, apart, width, to);
        for (i64 filled = width, all = times * width; filled < all;) {
            const i64 more = filled < all - filled ? filled : all - filled;
            std::memcpy(to + filled, to, sizeof(A) * static_cast<std::size_t>(more));
            filled += more;
        }
    }
};

// The sums over the windows of one cell after the other, where these are many. Outputs first..middle-1 are held as the
// sums of each of them with all that follow, those from the middle on as their sum. So every output is added twice,
// however many cells see it, and nothing is ever taken away. Where the middle is depends on which cells are asked for;
// exact sums do not.
template <class A>
class RunningSums {
  public:
    // Worth it for so many, as the window says, whatever the number of outputs; exact ones take longer.
    static bool suit(const Axis &axis, bool exact) {
        const i64 over = axis.adaptive ? most_over(axis) : (axis.kernel - 1) / axis.stride + 1;
        return axis.dilation == 1 && over >= (exact ? 10 : 6);
    }
    static i64 room(const Axis &axis, i64 width, bool exact) {
        return suit(axis, exact) ? (exact ? 2 : 1) * (most_over(axis) + 1) * width + 64 : 0;
    }

    RunningSums() = default;
    RunningSums(const Axis &axis, i64 width, A *room, bool exact)
        : width(width),
          errors((most_over(axis) + 1) * width),
          exact(exact),
          front(room),
          back(room + most_over(axis) * width) {}
    // Before other outputs, or cells that are before those asked for.
    void restart() { middle = next = INT64_MIN; }

    void sum(const A *q, const Seen &seen, A *to) {
        if (seen.count == 0)
            std::memset(to, 0, sizeof(A) * static_cast<std::size_t>(width));
        else
            with_exact<A>(exact, [&](auto exactly) NDPOOL_INLINED { sum_some<exactly.value>(q, seen, to); });
    }

  private:
    static constexpr int N = LANES<A>;
    i64 width = 0, begin = 0, middle = 0, next = 0;
    i64 errors = 0;  // how much further on than the sums their errors are
    bool exact = false;
    A *front = nullptr, *back = nullptr;

    // Calls f(lanes, i) for all elements.
    template <class F>
    NDPOOL_INLINE void over_elements(const F &f) const {
        i64 i = 0;
        for (; i + N <= width; i += N) f(Size<N>(), i);
        for (; i < width; ++i) f(Size<1>(), i);
    }
    template <bool EXACT>
    void sum_some(const A *q, const Seen &seen, A *to) {
        const i64 stop = seen.first + seen.count;
        const bool anew = seen.first >= middle;
        if (anew) {
            begin = seen.first, middle = next = stop;
            for (i64 o = seen.count - 1; o >= 0; --o) extend<EXACT>(o == seen.count - 1, q + (begin + o) * width, o);
        }
        for (; next < stop; ++next) add<EXACT>(next == middle, q + next * width);
        const A *sums = front + (seen.first - begin) * width;
        const bool alone = next == middle;
        over_elements([&](auto lanes, i64 i) NDPOOL_INLINED {
            using Sum = LaneSum<A, decltype(lanes)::value, EXACT>;
            Sum all = Sum::get(sums + i, errors);
            if (!alone) all.add(Sum::get(back + i, errors));
            store<decltype(lanes)::value>(to + i, all.total());
        });
    }
    // The sum from output o of the front on; it may be the last.
    template <bool EXACT>
    void extend(bool is_last, const A *q, i64 o) {
        A *to = front + o * width;
        over_elements([&](auto lanes, i64 i) NDPOOL_INLINED {
            using Sum = LaneSum<A, decltype(lanes)::value, EXACT>;
            Sum all = is_last ? Sum{} : Sum::get(to + width + i, errors);
            all.add(load<decltype(lanes)::value>(q + i));
            all.put(to + i, errors);
        });
    }
    template <bool EXACT>
    void add(bool is_first, const A *q) {
        over_elements([&](auto lanes, i64 i) NDPOOL_INLINED {
            using Sum = LaneSum<A, decltype(lanes)::value, EXACT>;
            Sum all = is_first ? Sum{} : Sum::get(back + i, errors);
            all.add(load<decltype(lanes)::value>(q + i));
            all.put(back + i, errors);
        });
    }
};

// --- rows -----------------------------------------------------------------------------------------

enum class RowWay { RUNS, STEPS, PLACES, SEGMENTS, COLUMNS };

// Spreads rows of outputs along the last axis, in lanes of A.
template <class A>
class RowSpreader {
    static constexpr int N = LANES<A>;
    using Bits = typename IntOf<sizeof(A)>::u;

  public:
    const RowWay way;
    const i64 chunk;  // cells at a time
    // What RUNS and STEPS ask for; see with_missing().
    Missing missing;

    // For so many rows. `in_lanes` says that cells are wanted as lanes, and `exact` that what many windows bring is to
    // be added up exactly.
    RowSpreader(const Axis &axis, i64 inner, i64 rows, bool in_lanes, bool exact)
        : way(choose(axis, inner, rows, in_lanes, exact)),
          chunk(chunk_of(axis, inner, way)),
          axis(axis),
          inner(inner),
          step(step_of(axis)),
          exact(exact),
          reach(axis.adaptive ? 0 : axis.dilation * (axis.kernel - 1)) {
        if (way == RowWay::RUNS) {
            runs.take_room(axis, inner, chunk);
            missing = runs.missing();
        } else if (way == RowWay::STEPS) {
            list_shifts();
        } else {
            take_room();
        }
    }

    // Room for the lanes of a chunk, for who has no other.
    A *room_for_lanes() {
        places.grow(chunk * inner + 8 * N, "a row of the gradient");
        return places.data();
    }

    // By RUNS and STEPS: a row of outputs, with zeros before and after it for those that are missing, as far as the
    // cells begin..end-1 ask for them.
    const A *with_missing(const A *q, i64 begin, i64 end) {
        const auto [first, stop] = way == RowWay::RUNS ? runs.outputs(begin, end) : steps_over(begin, end);
        middle.grow((stop - first) * inner + 8 * N, "a row of outputs");
        load_middle(q, begin, end, first, stop - first, middle.data());
        zeros(middle.data() + (stop - first) * inner, 8 * N);
        return middle.data() - first * inner;
    }

    // By RUNS: the cells begin..end-1, as `to` makes them of sums, to `memory` and some bytes beyond.
    template <class Target>
    void fill_runs(const A *q, i64 begin, i64 end, const Target &to, char *memory) const {
        runs.fill(q, begin, end, to, memory);
    }
    // By STEPS: calls put(i, sum) for registers of cells begin..end-1, and some beyond, from element i on.
    template <class Put>
    NDPOOL_INLINE void add_steps(const A *q, i64 begin, i64 end, const Put &put) const {
        const i64 *const all = shifts.data();
        if (axis.stride == 1) {
            const Phase one[1] = {{q + (begin + axis.pad_lo) * inner, all, taps[0]}};
            return add_phases<1>(one, (end - begin) * inner, put);
        }
        const i64 first = begin + axis.pad_lo, odd = first % 2;
        const Phase two[2] = {{q + first / 2, all + odd * axis.kernel, taps[odd]},
                              {q + (first + 1) / 2, all + (1 - odd) * axis.kernel, taps[1 - odd]}};
        add_phases<2>(two, (end - begin + 1) / 2, put);
    }

    // By PLACES and SEGMENTS: the cells begin..end-1, a chunk at most, from a row of outputs.
    const A *spread(const A *q, i64 begin, i64 end) {
        if (way == RowWay::SEGMENTS) return spread_segments(q, begin, end);
        spread_places(axis, inner, q, begin, end, places.data());
        return places.data();
    }

    // By COLUMNS: takes in row number `row` of N, and then spreads them all.
    void take(const A *q, i64 row) {
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
    const i64 inner, step;
    const bool exact;
    const i64 reach;
    Runs<A> runs;
    Scratch<A> middle, places, columns, sums, queue;
    Scratch<i64> shifts;
    i64 taps[2] = {0, 0};  // of each phase

    // Cells of a window for each step, up to which it is faster to add up all of them than to keep sums.
    static i64 most_steps(const Axis &axis, i64 inner) { return inner >= N || axis.stride > 1 ? 9 : 16; }

    void take_room() {
        if (way == RowWay::PLACES) {
            places.grow(chunk * inner + N, "sums of places");
            queue.grow(RunningSums<A>::room(axis, 2 * N, exact), "sums of outputs");
            return;
        }
        const i64 stride = axis.adaptive ? 1 : axis.stride, rows = way == RowWay::COLUMNS ? N : 1;
        // Of a chunk, outputs that do not exist included.
        const i64 outputs = axis.adaptive ? axis.output : (chunk + reach) / stride + 3;
        const i64 cells = chunk + 3 * stride * N;
        middle.grow((outputs * rows + N * N) * inner + 8 * N, "sums of output rows");
        places.grow(cells * rows * inner + 8 * N, "a row of the gradient");
        columns.grow((outputs * rows + (reach / stride + 8) * N) * inner + 8 * N, "outputs as columns");
        sums.grow(cells * rows * inner + 8 * N, "cells as columns");
        Axis endless = axis;
        if (!axis.adaptive) endless.output = INT64_MAX;
        queue.grow(RunningSums<A>::room(endless, 2 * N, exact), "sums of outputs");
    }

    static RowWay choose(const Axis &axis, i64 inner, i64 rows, bool in_lanes, bool exact) {
        if (in_lanes && inner >= N) return RowWay::PLACES;
        const bool running = exact && RunningSums<A>::suit(axis, true);  // or else in the order of the others
        if (!running && Runs<A>::suit(axis, inner)) return RowWay::RUNS;
        const bool steps = !running && !axis.adaptive && axis.stride <= (inner == 1 ? 2 : 1);
        if (steps && axis.kernel <= most_steps(axis, inner) * axis.stride) return RowWay::STEPS;
        if (inner >= N) return RowWay::PLACES;
        const bool few = rows == 1 || 2 * rows < N;
        if (axis.adaptive) return few ? RowWay::PLACES : RowWay::COLUMNS;
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
        return cells < axis.length ? cells : axis.length;
    }

    // Of the cells from `begin` on. Outputs that do not exist are counted, too.
    i64 first_output(i64 begin) const {
        return axis.adaptive ? 0 : floor_quotient(begin + axis.pad_lo - reach, axis.stride);
    }
    i64 outputs_of(i64 begin, i64 end) const {
        if (axis.adaptive) return axis.output;
        return (end - 1 + axis.pad_lo) / axis.stride + 1 - first_output(begin);
    }
    // Outputs first, first+1, ... of a row, with zeros for those that the cells begin..end-1 do not ask for.
    void load_middle(const A *q, i64 begin, i64 end, i64 first, i64 count, A *to) const {
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
    void spread_places(const Axis &along, i64 width, const A *q, i64 begin, i64 end, A *to) {
        with_exact<A>(exact && RunningSums<A>::suit(along, true),
                      [&](auto exactly) { spread_places<exactly.value>(along, width, q, begin, end, to); });
    }
    template <bool EXACT>
    void spread_places(const Axis &along, i64 width, const A *q, i64 begin, i64 end, A *to) {
        if (RunningSums<A>::suit(along, exact) && width >= N) {
            i64 i = 0;
            for (; i + 2 * N <= width; i += 2 * N) run_places<2, EXACT>(along, width, q + i, begin, end, to + i);
            for (; i + N <= width; i += N) run_places<1, EXACT>(along, width, q + i, begin, end, to + i);
            if (i < width) run_places<1, EXACT>(along, width, q + width - N, begin, end, to + width - N);
            return;
        }
        Cursor at;
        at.move_to(along, begin);
        for (i64 w = begin; w < end;) {
            i64 stop = along.dilation == 1 ? at.same_until() : w + 1;
            if (stop > end) stop = end;
            const Seen seen = seen_from(along, step, at);
            ArraySum<A>::template of<EXACT>(q + seen.first * width, seen.count, step * width, width, to, stop - w);
            to += (stop - w) * width;
            w = stop;
            at.move_on(along, w);
        }
    }
    // The same for U registers of every place, as RunningSums does it.
    template <int U, bool EXACT>
    void run_places(const Axis &along, i64 width, const A *q, i64 begin, i64 end, A *to) const {
        using Sum = LaneSum<A, N, EXACT>;
        A *front = queue.data();
        const i64 errors = (most_over(along) + 1) * U * N;
        Sum back[U] = {}, sum[U] = {};
        i64 first = 0, middle = INT64_MIN, next = 0;
        Cursor at;
        at.move_to(along, begin);
        for (i64 w = begin; w < end;) {
            i64 stop = at.same_until();
            if (stop > end) stop = end;
            if (at.lo >= middle) {
                first = at.lo, middle = next = at.hi;
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u) sum[u] = back[u] = Sum{};
                for (i64 o = middle - 1; o >= first; --o) {
                    NDPOOL_UNROLL
                    for (int u = 0; u < U; ++u) {
                        sum[u].add(load<N>(q + o * width + u * N));
                        sum[u].put(front + ((o - first) * U + u) * N, errors);
                    }
                }
            } else {
                for (; next < at.hi; ++next) {
                    NDPOOL_UNROLL
                    for (int u = 0; u < U; ++u) back[u].add(load<N>(q + next * width + u * N));
                }
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u) {
                    sum[u] = Sum::get(front + ((at.lo - first) * U + u) * N, errors);
                    sum[u].add(back[u]);
                }
            }
            for (; w < stop; ++w, to += width) {
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u) store<N>(to + u * N, sum[u].total());
            }
            at.move_on(along, w);
        }
    }

    // For each phase of the stride, by how much the outputs are shifted.
    void list_shifts() {
        shifts.grow(2 * axis.kernel, "cells of a window");
        for (i64 f = 0; f < axis.stride; ++f)
            for (i64 c = 0; c < axis.kernel; ++c)
                if (c * axis.dilation % axis.stride == f)
                    shifts[f * axis.kernel + taps[f]++] = c * axis.dilation / axis.stride * inner;
        const auto [first, stop] = steps_over(0, axis.length);
        missing = {first < 0 ? -first : 0, stop > axis.output ? stop - axis.output : 0};
    }
    CellRange steps_over(i64 begin, i64 end) const {
        const i64 s = axis.stride;
        return {(begin + axis.pad_lo) / s - reach / s, (end - 1 + axis.pad_lo) / s + 1};
    }
    // Every second cell, or all of them: where their own outputs are, and how far before them the others.
    struct Phase {
        const A *from;
        const i64 *shifts;
        i64 taps;
    };
    template <int S, class Put>
    NDPOOL_INLINE static void add_phases(const Phase (&phase)[S], i64 length, const Put &put) {
        constexpr int U = 4 / S;
        i64 i = 0;
        for (; i + U * N <= length; i += U * N) add_shifted<S, U>(phase, i, put);
        for (; i < length; i += N) add_shifted<S, 1>(phase, i, put);
    }
    template <int S, int U, class Put>
    NDPOOL_INLINE static void add_shifted(const Phase (&phase)[S], i64 i, const Put &put) {
        vec<A, N> sum[S][U] = {};
        for (int f = 0; f < S; ++f)
            for (i64 c = 0; c < phase[f].taps; ++c) {
                const A *p = phase[f].from + i - phase[f].shifts[c];
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u) sum[f][u] += load<N>(p + u * N);
            }
        NDPOOL_UNROLL
        for (int u = 0; u < U; ++u) {
            if (S == 2) zip<N>(sum[0][u], sum[S - 1][u]);
            for (int f = 0; f < S; ++f) put((i + u * N) * S + f * N, sum[f][u]);
        }
    }

    // N rows of `outputs` outputs in the middle, `apart` elements apart, to rows of `cells` cells in `places`.
    void spread_columns(const Axis &along, i64 outputs, i64 apart, i64 cells) {
        transpose(reinterpret_cast<const Bits *>(middle.data()), apart, reinterpret_cast<Bits *>(columns.data()), N, N,
                  outputs * inner);
        spread_places(along, inner * N, columns.data(), 0, cells, sums.data());
        transpose(reinterpret_cast<const Bits *>(sums.data()), N, reinterpret_cast<Bits *>(places.data()),
                  cells * inner, cells * inner, N);
    }
    // A segment is a whole number of strides, so all have the same windows.
    const A *spread_segments(const A *q, i64 begin, i64 end) {
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

// Fills parts of the input, one after the other.
template <class A, class Target>
class PartSpreader {
    static constexpr int N = LANES<A>;

  public:
    // For parts of so many rows. `may_pad` says that rows of outputs can have room around them, where there are zeros.
    // What is before `limit` is written in order, and nothing after it. `exact` says that lanes have no more bits than
    // results, so that sums of many are to be exact along each axis.
    PartSpreader(const Plan &plan, i64 rows, bool may_pad, bool exact, const char *limit = nullptr)
        : plan(plan),
          limit(limit),
          row_spreader(plan.last(), plan.inner, rows, !Target::REPEATS, exact),
          padded(may_pad && pays(plan, row_spreader.missing)),
          levels(plan.dim_count, "axes of a pool") {
        i64 in_each = plan.in_row, out_each = out_row(), room = 0;
        for (int d = plan.dim_count - 1; d >= 0; --d) {
            const Dim &dim = plan.dims[d];
            levels[d] = Level{};
            levels[d].in_each = in_each, levels[d].out_each = out_each;
            if (dim.axis >= 0) room += levels[d].room(plan.axes[dim.axis], exact);
            in_each *= dim.in_count, out_each *= dim.out_count;
        }
        sum_block.grow(room, "sums of output planes");
        A *block = sum_block.data();
        for (int d = 0; d < plan.dim_count; ++d)
            if (plan.dims[d].axis >= 0) block = levels[d].take(plan.axes[plan.dims[d].axis], block, exact);
    }

    // How much room there is around a row of outputs, if there is any, and the elements of one with it.
    Missing missing() const { return padded ? row_spreader.missing : Missing{}; }
    i64 out_row() const { return (missing().before + missing().after) * plan.inner + plan.out_row; }

    // From the slab's outputs; `slabs` of them, of which all is filled if there are several.
    void fill(const A *q, const InputPart &where, const Target &target, i64 slabs = 1) {
        part = &where, to = &target, bytes = target.element_bytes();
        near = plan.outer * plan.in_slab * bytes <= NEAR;
        const i64 out_slab = plan.out_rows * out_row();
        for (i64 slab = 0; slab < slabs; ++slab) {
            if (plan.dim_count == 0)
                fill_row(q + slab * out_slab, slab * plan.in_slab, 1, part->begin, part->end);
            else
                fill_level(0, q + slab * out_slab, slab * plan.in_slab, part->begin, part->end);
        }
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

        i64 room(const Axis &axis, bool exact) const {
            return out_each + 64 + RunningSums<A>::room(axis, out_each, exact);
        }
        A *take(const Axis &axis, A *block, bool exact) {
            step = step_of(axis);
            runs = RunningSums<A>::suit(axis, exact);
            sum = block;
            running = RunningSums<A>(axis, out_each, block + out_each + 64, exact);
            return block + room(axis, exact);
        }
    };
    static constexpr i64 BEYOND = 256;  // bytes that a row may be longer while it is made
    static constexpr i64 NEAR = 1 << 20;
    const Plan &plan;
    const char *const limit;
    const InputPart *part = nullptr;
    const Target *to = nullptr;
    i64 bytes = 0;
    bool near = false;
    RowSpreader<A> row_spreader;
    const bool padded;
    const Scratch<Level> levels;
    Scratch<A> sum_block;
    Scratch<char> spare;
    Outbox outbox;
    // Rows that COLUMNS has taken: where they go, and how often.
    i64 taken = 0, taken_at[N], taken_times[N];

    // Room around rows saves a copy of each, but is added up with them.
    static bool pays(const Plan &plan, const Missing &missing) {
        const i64 more = missing.before + missing.after, outputs = plan.last().output;
        return plan.dim_count == 0 ? more <= outputs + 16 : 3 * more <= outputs;
    }

    void fill_level(int d, const A *q, i64 at, i64 begin, i64 end) {
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
            i64 next = axis.dilation == 1 ? cursor.same_until() : c + 1;
            if (next > end) next = end;
            const i64 cell = at + c * level.in_each, times = next - c;
            if (seen.count == 1) {
                fill_next(d, q + seen.first * level.out_each, cell, times);
            } else {
                if (level.runs)
                    level.running.sum(q, seen, level.sum);
                else
                    ArraySum<A>::of(q + seen.first * level.out_each, seen.count, level.step * level.out_each,
                                    level.out_each, level.sum);
                fill_next(d, level.sum, cell, times);
            }
            cursor.move_on(axis, c = next);
        }
    }

    // What one index of dimension d holds, as often as it comes.
    void fill_next(int d, const A *q, i64 at, i64 times) {
        const i64 each = levels[d].in_each;
        if (d + 1 == plan.dim_count) return fill_row(q, at, times, 0, plan.last().length);
        auto once = [&](i64 where) { fill_level(d + 1, q, where, 0, plan.dims[d + 1].in_count); };
        once(at);
        if (times == 1) return;
        if (Target::REPEATS && !part->streamed) {
            flush();
            return repeat_bytes(part->gx + at * bytes, each * bytes, times * each * bytes);
        }
        for (i64 i = 1; i < times; ++i) once(at + i * each);
    }

    void fill_row(const A *q, i64 at, i64 times, i64 begin, i64 end) {
        if (row_spreader.way == RowWay::COLUMNS) {
            row_spreader.take(q, taken);
            taken_at[taken] = at, taken_times[taken] = times;
            if (++taken == N) flush();
            return;
        }
        if (padded) q += missing().before * plan.inner;
        for (i64 c = begin; c < end; c += row_spreader.chunk)
            fill_cells(q, c, c + row_spreader.chunk < end ? c + row_spreader.chunk : end, at + c * plan.inner, times);
    }
    void flush() {
        if (!taken) return;
        const A *rows = row_spreader.spread_taken();
        for (i64 r = 0; r < taken; ++r) put(rows + r * plan.in_row, taken_at[r], plan.in_row, taken_times[r]);
        taken = 0;
    }

    void fill_cells(const A *q, i64 begin, i64 end, i64 at, i64 times) {
        const RowWay way = row_spreader.way;
        const i64 length = (end - begin) * plan.inner;
        if (way != RowWay::RUNS && way != RowWay::STEPS)
            return put(row_spreader.spread(q, begin, end), at, length, times);
        if (!padded) q = row_spreader.with_missing(q, begin, end);
        if constexpr (Target::REPEATS) {
            write(at, length, times, [&](char *memory) {
                if (way == RowWay::RUNS) return row_spreader.fill_runs(q, begin, end, *to, memory);
                const Target own = to->instead(memory);
                row_spreader.add_steps(q, begin, end,
                                       [&](i64 i, vec<A, N> sum) NDPOOL_INLINED { own.template put<N>(i, sum, N); });
            });
        } else {
            A *lanes = row_spreader.room_for_lanes();
            if (way == RowWay::RUNS)
                row_spreader.fill_runs(q, begin, end, GradientTarget<A, A>{nullptr, 1},
                                       reinterpret_cast<char *>(lanes));
            else
                row_spreader.add_steps(q, begin, end,
                                       [&](i64 i, vec<A, N> sum) NDPOOL_INLINED { store<N>(lanes + i, sum); });
            put(lanes, at, length, times);
        }
    }

    // Elements of a row, and of the rows after it. make(memory) makes them, and some bytes beyond.
    template <class Make>
    NDPOOL_INLINE void write(i64 at, i64 length, i64 times, const Make &make) {
        const i64 size = length * bytes, row = plan.in_row * bytes;
        char *first = part->gx + at * bytes;
        if (part->streamed) {
            constexpr i64 ENOUGH = 4096;
            i64 many = size == row ? ENOUGH / size + 1 : 1;
            const bool again = many < times;
            if (again) {
                spare.grow(size + BEYOND, "a row of the gradient");
                make(spare.data());
            }
            for (i64 i = 0; i < times; i += many) {
                if (many > times - i) many = times - i;
                char *room = outbox.room(first + i * row, many * size,
                                         ENOUGH + row_spreader.chunk * plan.inner * bytes + BEYOND);
                if (again)
                    std::memcpy(room, spare.data(), static_cast<std::size_t>(size));
                else
                    make(room);
                repeat_bytes(room, size, many * size);
            }
            return;
        }
        // Memory that is far away takes whole lines better than the parts of which runs are made.
        const bool in_place = near || row_spreader.way != RowWay::RUNS;
        if (in_place && (size == row || times == 1) && limit - first >= size + BEYOND) {
            make(first);
        } else {
            spare.grow(size + BEYOND, "the end of the gradient");
            make(spare.data());
            std::memcpy(first, spare.data(), static_cast<std::size_t>(size));
        }
        if (size == row) return repeat_bytes(first, size, times * size);
        for (i64 i = 1; i < times; ++i) std::memcpy(first + i * row, first, static_cast<std::size_t>(size));
    }

    template <class To>
    NDPOOL_INLINE static void put_lanes(const To &to, const A *lanes, i64 at, i64 length) {
        const To target = to;  // a copy, which no store can change
        i64 i = 0;
        if constexpr (PUTS_JOINED<To, N>)
            for (; i + 2 * N <= length; i += 2 * N)
                target.template put_joined<N>(at + i, load<N>(lanes + i), load<N>(lanes + i + N));
        for (; i + N <= length; i += N) target.template put<N>(at + i, load<N>(lanes + i), N);
        if (i == length) return;
        if (length >= N) i = length - N;
        const int count = length >= N ? N : static_cast<int>(length);
        target.template put<N>(at + i, load<N>(lanes + i), count);
    }
    // The same from lanes.
    void put(const A *lanes, i64 at, i64 length, i64 times) {
        const i64 row = plan.in_row;
        if constexpr (Target::STREAMS)
            if (part->in_lines && (at * bytes) % LINE == 0 && (length * bytes) % LINE == 0) {
                const auto past = to->past_the_caches();
                for (i64 i = 0; i < times; ++i) put_lanes(past, lanes, at + i * row, length);
                return;
            }
        for (i64 i = 0; i < times; ++i) {
            const i64 first = at + i * row;
            if (!part->streamed) {
                put_lanes(*to, lanes, first, length);
                continue;
            }
            char *room =
                outbox.room(part->gx + first * bytes, length * bytes, row_spreader.chunk * plan.inner * bytes + BEYOND);
            put_lanes(to->instead(room - first * bytes), lanes, first, length);
        }
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
