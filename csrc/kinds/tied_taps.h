// Ties on the way back, tap by tap: a cell is compared with every window over it.
//
// That is one comparison for each cell of each window, and nothing else: no best of a column is looked for, and nothing
// is kept of a row of outputs but its keys and its shares. How many cells tie for an output, of which each gets a
// share, is counted in the same way. Cells lie in phases (see columns.h), so that the windows over a register of cells
// are a register of a row of outputs.
//
// Windows far apart, or of varying length, are laid out over their cells instead: each output again and again, as often
// as its window has cells. Where windows overlap, neighbours are in different layers.
#pragma once
#include "kinds/ties.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// The rows of cells that were read last, as keys, in phases. Where there is no cell, the key is no output's.
template <class A>
class TapRows {
  public:
    using I = typename IntOf<sizeof(A)>::s;
    static constexpr int N = LANES<A>;
    static constexpr i64 AT_ONCE = 8;
    // The highest key is NaN's. That below it is no number's, but for integers of 64 bits.
    static constexpr I NO_KEY = static_cast<I>((~typename IntOf<sizeof(A)>::u(0) >> 1) - 1);

    TapRows(const TiedArrays<A> &arrays, const Plan &plan)
        : arrays(arrays), plan(plan), rows(rows_under_window(plan)), inverse(1 / static_cast<double>(plan.in_row)) {}

    void start(const Columns<A> &given) {
        const bool as_before = columns && given.is_like(shape);
        columns = &given;
        if (as_before) return;
        shape = given.shape();
        room = (given.steps > 1 ? given.steps * given.apart : given.column_room()) + 2 * N;
        slots = ENOUGH / (room * static_cast<i64>(sizeof(I)));
        if (slots < AT_ONCE) slots = AT_ONCE;
        if (slots > rows) slots = rows;
        const i64 whole = given.steps > 1 ? given.column_room() : 0;
        numbers.grow(slots * room + whole, "rows as keys");
        joined = numbers.data() + slots * room;
        if (whole)
            leave_out(joined, whole);
        else
            for (i64 slot = 0; slot < slots; ++slot) leave_out(numbers.data() + slot * room, room);
        starts.grow(slots, "where rows start");
        for (i64 slot = 0; slot < slots; ++slot) starts[slot] = -1;
    }
    // Where the row goes that starts at an element of the slab. Its number among the slab's rows decides.
    i64 slot_of(i64 offset) const { return static_cast<i64>(static_cast<double>(offset) * inverse + 0.5) % slots; }
    // That row, which is `length` elements from element `at` of the array on.
    const I *row(i64 slot, i64 at, i64 length) {
        I *to = numbers.data() + slot * room;
        if (starts[slot] == at) return to;
        starts[slot] = at;
        if (columns->steps == 1) {
            arrays.keys.read(arrays.x, at, length, arrays.flip, to + columns->lead);
        } else {
            arrays.keys.read(arrays.x, at, length, arrays.flip, joined + columns->lead);
            columns->split(joined, to);
        }
        return to;
    }

  private:
    static constexpr i64 ENOUGH = i64(256) << 10;
    const TiedArrays<A> &arrays;
    const Plan &plan;
    const i64 rows;
    const double inverse;
    const Columns<A> *columns = nullptr;
    typename Columns<A>::Shape shape{};
    i64 room = 0, slots = 0;
    Scratch<I> numbers;
    I *joined = nullptr;
    Scratch<i64> starts;

    // What comes before and after the cells of a row.
    void leave_out(I *row, i64 length) const {
        for (i64 i = 0; i < columns->lead; ++i) row[i] = NO_KEY;
        for (i64 i = columns->lead + columns->cells * columns->inner; i < length; ++i) row[i] = NO_KEY;
    }
};

// In how many layers windows are laid out over the row; 0, if they are not. Which layer a window is in depends on where
// it is, so that more than two of them would be added up in any order.
inline i64 layers_of(const Axis &axis) {
    constexpr i64 MOST = 2;
    if (axis.adaptive) return axis.length % axis.output == 0 ? 1 : axis.length > axis.output ? 2 : 0;
    const i64 layers = (axis.kernel + axis.stride - 1) / axis.stride;
    return axis.dilation == 1 && layers <= MOST ? layers : 0;
}

// See pull_by_rows.
template <class A>
class TapMaker {
  public:
    using I = typename IntOf<sizeof(A)>::s;
    static constexpr int N = LANES<A>;
    static constexpr i64 MOST = TapRows<A>::AT_ONCE;

    TapMaker(const Plan &plan, const TiedArrays<A> &arrays)
        : plan(plan), arrays(arrays), turns(rows_over_cell(plan)), recent(arrays, plan) {}

    void start(const Columns<A> &given, i64 of_slab) {
        slab = of_slab;
        recent.start(given);
        const bool as_before = columns && given.is_like(shape);
        columns = &given;
        if (given.along == Along::PLACES && (!as_before || plan.dim_count == 0)) list_windows();
        if (given.along == Along::SEGMENTS && (!as_before || plan.dim_count == 0)) list_spans();
        if (as_before) return;
        shape = given.shape();
        layers = given.along == Along::SEGMENTS ? layers_of(given.axis) : 1;
        layer = given.column_room();
        room = given.along == Along::SEGMENTS ? layers * layer : given.output_room();
        keys.grow(turns * room, "keys of outputs");
        shares.grow(turns * room + room, "shares of outputs");
        count = shares.data() + turns * room;
        cells.grow(given.column_room() + given.steps * given.apart + 2 * N, "sums of a row");
        if (given.along == Along::PHASES) {
            taps = given.taps(taps_room);
            leave_borders();
        }
        if (given.along == Along::SEGMENTS) {
            y.grow(given.output_room(), "keys of outputs");
            found.grow(room, "cells that tie");
            g.grow(2 * given.output_room(), "shares of outputs");
            count = g.data() + given.output_room();
        }
    }

    void make(const OutputRow &seen, i64 at, i64 row) {
        const i64 outputs = (columns->end - columns->begin) * columns->inner,
                  first = row % turns * room + columns->border;
        if (columns->along == Along::SEGMENTS)
            return make_layers(seen, at, outputs, keys.data() + first, shares.data() + first);
        arrays.keys.read(arrays.y, at, outputs, arrays.flip, keys.data() + first);
        arrays.floats.read(arrays.g, at, outputs, shares.data() + first);
        if (arrays.policy != Ties::SPLIT) return;
        std::memset(count, 0, sizeof(A) * static_cast<std::size_t>(outputs));
        for (i64 r = 0; r < seen.count;) r = count_some(seen, r, keys.data() + first, outputs);
        divide(shares.data() + first, count, outputs);
    }

    void sums(const InputRow &over, i64 offset, i64 from, i64 length, void *to) {
        const i64 whole = columns->cells * columns->inner;
        const I *row = over.count ? recent.row(recent.slot_of(offset), start_of(offset), whole) : nullptr;
        const bool in_place = arrays.floats.as_they_are && columns->steps == 1;
        A *sums = in_place ? static_cast<A *>(to) : cells.data();
        if (!row)
            std::memset(sums + (in_place ? 0 : from), 0, sizeof(A) * static_cast<std::size_t>(length));
        else if (columns->along == Along::PLACES)
            ask_places(over, row, from, length, sums);
        else if (columns->along == Along::SEGMENTS)
            ask_layers(over, row, in_place ? from : 0, in_place ? length : columns->size, sums);
        else if (columns->steps == 1)
            ask_phase(over, row, 0, in_place ? from : 0, in_place ? length : columns->size, sums);
        else
            ask_phases(over, row);
        if (!in_place) arrays.floats.write(cells.data() + from, length, to);
    }

  private:
    const Plan &plan;
    const TiedArrays<A> &arrays;
    const i64 turns;                                // rows of outputs that are kept
    i64 slab = 0, room = 0, layers = 1, layer = 0;  // `room` for each row, of layers that are so long
    TapRows<A> recent;
    const Columns<A> *columns = nullptr;
    typename Columns<A>::Shape shape{};
    typename Columns<A>::Taps taps{};
    Scratch<I> keys;
    Scratch<A> shares, cells, g;
    Scratch<I> y, found;
    A *count = nullptr;
    Scratch<i64> taps_room, list;
    Scratch<const I *> tap_room;

    i64 start_of(i64 offset) const { return slab * plan.in_slab + offset + columns->first_cell * columns->inner; }

    // Where there is no output none is handed on.
    void leave_borders() {
        const i64 after = columns->border + (columns->end - columns->begin) * columns->inner;
        for (i64 row = 0; row < turns; ++row)
            for (i64 i = 0; i < room; ++i) {
                if (i == columns->border) i = after;
                keys[row * room + i] = 0, shares[row * room + i] = 0;
            }
    }

    // --- windows count their cells ---

    // Rows of cells from number `r` on, as many as can be held at once; says how many.
    i64 hold_some(const OutputRow &rows, i64 r, const I *(&row)[MOST]) {
        i64 slot[MOST], held = 0;
        for (; r + held < rows.count && held < MOST; ++held) {
            const i64 offset = rows.base + rows.offset[r + held];
            slot[held] = recent.slot_of(offset);
            bool taken = false;
            for (i64 before = 0; before < held; ++before) taken |= slot[before] == slot[held];
            if (taken) break;
            row[held] = recent.row(slot[held], start_of(offset), columns->cells * columns->inner);
        }
        return held;
    }
    // Counts in such rows; says which is next.
    i64 count_some(const OutputRow &rows, i64 r, const I *wanted, i64 outputs) {
        const I *row[MOST];
        const i64 held = hold_some(rows, r, row);
        const Axis &axis = columns->axis;
        const I **tap = grown(held * axis.kernel);
        if (columns->along == Along::PHASES) {
            for (i64 k = 0; k < held; ++k)
                for (i64 j = 0; j < axis.kernel; ++j) tap[k * axis.kernel + j] = row[k] + taps.cell[j];
            for (i64 i = 0; i < outputs; i += N) count_cells<N>(tap, held * axis.kernel, i, wanted, count);
            return r + held;
        }
        const i64 inner = columns->inner;
        for (i64 o = columns->begin, at = 0; o < columns->end; ++o, at += inner) {
            const Axis::Taps own = axis.taps(o);
            const i64 first = (own.first - columns->first_cell) * inner;
            for (i64 k = 0; k < held; ++k)
                for (i64 j = 0; j < own.count; ++j) tap[k * own.count + j] = row[k] + first + j * axis.dilation * inner;
            i64 e = 0;
            for (; e + N <= inner; e += N) count_cells<N>(tap, held * own.count, e, wanted + at, count + at);
            for (; e < inner; ++e) count_cells<1>(tap, held * own.count, e, wanted + at, count + at);
        }
        return r + held;
    }
    template <int M>
    NDPOOL_INLINE static void count_cells(const I *const *tap, i64 taps, i64 i, const I *wanted, A *count) {
        const vec<I, M> best = load<M>(wanted + i);
        vec<I, M> found{};
        for (i64 k = 0; k < taps; ++k) found -= load<M>(tap[k] + i) == best;
        store<M>(count + i, load<M>(count + i) + convert<A, M>(found));
    }
    const I **grown(i64 length) {
        tap_room.grow(length, "cells of windows");
        return tap_room.data();
    }

    // --- cells ask the windows over them ---

    // Elements first.. of a phase of the row, and so the outputs whose keys start at `window`: of rows of outputs, so
    // many of each. A row is added up first, as it is by the best of each column.
    template <int M>
    NDPOOL_INLINE static vec<A, M> asked(const I *cell, const i64 *window, i64 rows, i64 each, const I *keys,
                                         const A *shares) {
        const vec<I, M> key = load<M>(cell);
        vec<A, M> sum{}, none{};
        for (i64 r = 0; r < rows; ++r) {
            vec<A, M> part{};
            for (i64 a = 0; a < each; ++a, ++window)
                part += load<M>(keys + *window) == key ? load<M>(shares + *window) : none;
            sum += part;
        }
        return sum;
    }
    void ask_phase(const InputRow &over, const I *row, i64 phase, i64 from, i64 length, A *to) {
        const i64 *window = taps.window;
        for (i64 f = 0; f < phase; ++f) window += taps.asks[f];
        const i64 each = taps.asks[phase], asks = over.count * each;
        list.grow(asks, "windows over a cell");
        i64 *at = list.data();
        for (i64 r = 0; r < over.count; ++r)
            for (i64 a = 0; a < each; ++a) at[r * each + a] = over.row[r] % turns * room + window[a];
        ask(over.count, each, row + phase * columns->apart, from, length, to);
    }
    // The outputs that are listed.
    void ask(i64 rows, i64 each, const I *cell, i64 from, i64 length, A *to) const {
        const i64 *at = list.data();
        const I *keys = this->keys.data() + from;
        const A *shares = this->shares.data() + from;
        cell += from;
        auto fill = [&](auto alone) NDPOOL_INLINED {
            const i64 one[] = {at[0]};
            exact_blocks<N>(length, [&](auto size, i64 i) NDPOOL_INLINED {
                constexpr int M = decltype(size)::value;
                store<M>(to + i, alone ? asked<M>(cell + i, one, 1, 1, keys + i, shares + i)
                                       : asked<M>(cell + i, at, rows, each, keys + i, shares + i));
            });
        };
        rows *each == 1 ? fill(std::true_type()) : fill(std::false_type());
    }
    void ask_phases(const InputRow &over, const I *row) {
        A *phases = cells.data() + columns->column_room();
        for (i64 phase = 0; phase < columns->steps; ++phase)
            ask_phase(over, row, phase, 0, columns->size / columns->steps, phases + phase * columns->apart);
        columns->join(phases, cells.data());
    }

    // --- windows laid out over their cells ---

    // Where the cells of each window start in a row, and how many elements they are.
    void list_spans() {
        const i64 inner = columns->inner;
        taps_room.grow(2 * (columns->end - columns->begin), "cells of windows");
        i64 *to = taps_room.data();
        for (i64 o = columns->begin; o < columns->end; ++o) {
            const Axis::Taps own = columns->axis.taps(o);
            *to++ = (own.first - columns->first_cell) * inner;
            *to++ = own.count * inner;
        }
    }
    // Writes outputs over their cells in every layer, and `none` where a layer has no window. Registers go beyond a
    // window, over what is written next.
    template <class T>
    void lay_out(const T *outputs, T none, T *to) const {
        const i64 inner = columns->inner, windows = columns->end - columns->begin, *spans = taps_room.data();
        const vec<T, N> nothing = splat<T, N>(none);
        for (i64 l = 0; l < layers; ++l, to += layer) {
            i64 done = 0;
            auto leave = [&](i64 until) NDPOOL_INLINED {
                for (; done < until; done += N) store<N>(to + done, nothing);
            };
            for (i64 w = l; w < windows; w += layers) {
                const i64 begin = spans[2 * w], end = begin + spans[2 * w + 1];
                leave(begin);
                const vec<T, N> v = inner == 1 ? splat<T, N>(outputs[w]) : load<N>(outputs + w * inner);
                const i64 step = inner == 1 ? N : inner;
                for (i64 i = begin; i < end; i += step) store<N>(to + i, v);
                done = end;
            }
            leave(columns->size);
        }
    }
    void make_layers(const OutputRow &seen, i64 at, i64 outputs, I *wanted, A *handed) {
        arrays.keys.read(arrays.y, at, outputs, arrays.flip, y.data());
        arrays.floats.read(arrays.g, at, outputs, g.data());
        lay_out(y.data(), TapRows<A>::NO_KEY, wanted);
        if (arrays.policy == Ties::SPLIT) {
            i64 all = 0;
            for (i64 r = 0; r < seen.count;) r = find_some(seen, r, wanted, &all);
            // Every window has a cell that equals it, unless it sees too few that are there. So if there are no more
            // such cells than windows, each has one.
            if (all > outputs || arrays.some_absent) {
                count_found(outputs);
                divide(g.data(), count, outputs);
            }
        }
        lay_out(g.data(), A(0), handed);
    }
    // Marks the cells that tie, in rows from number `r` on; says which is next.
    i64 find_some(const OutputRow &rows, i64 r, const I *wanted, i64 *all) {
        const I *row[MOST];
        const i64 held = hold_some(rows, r, row), size = columns->size;
        vec<I, N> total{};
        for (i64 l = 0; l < layers; ++l) {
            const I *key = wanted + l * layer;
            I *to = found.data() + l * layer;
            for (i64 i = 0; i < size; i += N) {
                const vec<I, N> best = load<N>(key + i);
                vec<I, N> sum{};
                for (i64 k = 0; k < held; ++k) sum -= load<N>(row[k] + i) == best;
                // After the last cell there may be anything.
                if (size - i < N) sum = first_lanes(sum, size - i);
                total += sum;
                store<N>(to + i, r ? load<N>(to + i) + sum : sum);
            }
        }
        *all += sum_of(total, 1, 0);
        return r + held;
    }
    void count_found(i64 outputs) {
        const i64 inner = columns->inner, *spans = taps_room.data(), step = N / inner * inner;
        for (i64 w = 0; w * inner < outputs; ++w) {
            const I *from = found.data() + w % layers * layer + spans[2 * w];
            vec<I, N> sum{};
            for (i64 i = 0, left = spans[2 * w + 1]; left > 0; i += step, left -= step)
                sum += first_lanes(load<N>(from + i), left < step ? left : step);
            for (i64 e = 0; e < inner; ++e) count[w * inner + e] = static_cast<A>(sum_of(sum, inner, e));
        }
    }
    NDPOOL_INLINE static vec<I, N> first_lanes(vec<I, N> v, i64 lanes) {
        I number[N];
        for (int l = 0; l < N; ++l) number[l] = static_cast<I>(l);
        const vec<I, N> none{};
        return load<N>(number) < static_cast<I>(lanes) ? v : none;
    }
    // Of every `step`-th lane, from lane e on.
    NDPOOL_INLINE static i64 sum_of(vec<I, N> v, i64 step, i64 e) {
        I lanes[N];
        store<N>(lanes, v);
        i64 sum = 0;
        for (i64 l = e; l < N; l += step) sum += lanes[l];
        return sum;
    }
    void ask_layers(const InputRow &over, const I *row, i64 from, i64 length, A *to) {
        list.grow(over.count * layers, "windows over a cell");
        for (i64 r = 0; r < over.count; ++r)
            for (i64 l = 0; l < layers; ++l) list[r * layers + l] = over.row[r] % turns * room + l * layer;
        ask(over.count, layers, row, from, length, to);
    }

    // --- channels last ---

    // For each place of the row, the outputs over it, as elements of a row of outputs. `taps_room` holds first where
    // those of each place start, and then them.
    void list_windows() {
        const Axis &axis = columns->axis;
        const i64 most =
            axis.adaptive ? axis.output / axis.length + 2 : axis.dilation * (axis.kernel - 1) / axis.stride + 1;
        taps_room.grow((1 + most) * columns->cells + 1, "windows over places");
        i64 *start = taps_room.data(), *to = start + columns->cells + 1, next = 0;
        Cursor over;
        over.move_to(axis, columns->first_cell);
        for (i64 w = 0; w < columns->cells; ++w, over.step(axis)) {
            start[w] = next;
            over.over(axis, [&](i64 o, i64) {
                if (o >= columns->begin && o < columns->end) to[next++] = (o - columns->begin) * columns->inner;
            });
        }
        start[columns->cells] = next;
    }
    // The places of elements from..from+length-1 of a row; `to` is where the first of them goes.
    void ask_places(const InputRow &over, const I *row, i64 from, i64 length, A *to) {
        const i64 inner = columns->inner, *start = taps_room.data(), *output = start + columns->cells + 1;
        if (!arrays.floats.as_they_are) to += from;
        for (i64 w = from / inner; w < (from + length) / inner; ++w, to += inner) {
            const i64 each = start[w + 1] - start[w], asks = each * over.count;
            list.grow(asks, "windows over a cell");
            i64 *at = list.data();
            for (i64 r = 0; r < over.count; ++r)
                for (i64 a = 0; a < each; ++a) at[r * each + a] = over.row[r] % turns * room + output[start[w] + a];
            const I *keys = this->keys.data(), *cell = row + w * inner;
            const A *shares = this->shares.data();
            whole_blocks<N>(inner, [&](i64 e) NDPOOL_INLINED {
                store<N>(to + e, asked<N>(cell + e, at, over.count, each, keys + e, shares + e));
            });
        }
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
