// The way back by columns: along the row first, then across the rows.
//
// Of all cells of a window that lie in one column, only the best can matter to the window. So what a row of outputs
// hands back goes to columns first: each asks the windows that reach over it, along the row alone. Then a cell asks the
// rows of outputs over it whether it is the one of its column. That takes the sum of a window's sides for each cell,
// not their product.
//
//     outputs of a row  --hand-->  shares of the columns, and who of a column gets them  --collect-->  cells
//
// The one of its column is who has its key; see ties.h.
#pragma once
#include "base/phases.h"
#include "passes/back.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// --- numbers of any type, as rows of A --------------------------------------------------------------

// Calls f(size, i) for blocks that cover 0..length-1 and nothing else; a block may overlap its neighbour.
template <int N, class F>
NDPOOL_INLINE void exact_blocks(i64 length, const F &f) {
    if (length < N)
        for (i64 i = 0; i < length; ++i) f(Size<1>(), i);
    else
        whole_blocks<N>(length, [&](i64 i) NDPOOL_INLINED { f(Size<N>(), i); });
}

template <class A, class T>
void read_numbers(const void *from, i64 at, i64 count, A *to) {
    auto *p = static_cast<const T *>(from) + at;
    exact_blocks<LANES<A>>(count, [&](auto size, i64 i) NDPOOL_INLINED {
        constexpr int N = decltype(size)::value;
        prefetch<N>(p + i);
        store<N>(to + i, load_as<A, N>(p + i));
    });
}
template <class A, class T>
void write_numbers(const A *from, i64 count, void *to) {
    auto *p = static_cast<T *>(to);
    exact_blocks<LANES<A>>(count, [&](auto size, i64 i) NDPOOL_INLINED {
        constexpr int N = decltype(size)::value;
        store_as<N>(p + i, load<N>(from + i));
    });
}

// How a row of floats is read and written, whatever their type.
template <class A>
struct FloatRows {
    bool as_they_are;  // whether they are numbers of A
    void (*read)(const void *from, i64 at, i64 count, A *to);
    void (*write)(const A *from, i64 count, void *to);
};
template <class A, class G>
constexpr FloatRows<A> FLOAT_ROWS = {std::is_same_v<A, G>, read_numbers<A, G>, write_numbers<A, G>};

// --- along the row ----------------------------------------------------------------------------------

// Some outputs of a row, and the cells that they see, in the order in which registers take them.
//
// With many elements to a place, registers go along these. Else they go along the row, over the windows. For that the
// row is split into phases: the cells at places that are a multiple of the stride, those one further on, and so forth.
// Windows far apart, or of varying length, are taken one by one, and registers go along their cells.
enum class Along { PLACES, PHASES, SEGMENTS };

template <class A>
class Columns {
  public:
    using I = typename IntOf<sizeof(A)>::s;
    static constexpr int N = LANES<A>;

    static constexpr i64 MOST_PHASES = 6;
    const Axis &axis;
    const i64 inner, begin, end;  // outputs
    const i64 first_cell, cells;  // of the row
    Along along;
    i64 origin = 0;                         // the output whose window would start where the rows of columns do
    i64 lead = 0;                           // elements of such a row before the first cell
    i64 size = 0;                           // of its elements in all, a register more not counted
    i64 border = 0;                         // and of a row of outputs, before the first
    i64 outputs = 0, steps = 1, apart = 0;  // elements of a row of outputs; phases, and how far they are apart

    static Along along_of(const Plan &plan) {
        const Axis &axis = plan.last();
        return plan.inner >= N                              ? Along::PLACES
               : axis.adaptive || axis.stride > MOST_PHASES ? Along::SEGMENTS
                                                            : Along::PHASES;
    }

    Columns(const Plan &plan, i64 begin, i64 end, i64 first_cell, i64 last_cell)
        : axis(plan.last()),
          inner(plan.inner),
          begin(begin),
          end(end),
          first_cell(first_cell),
          cells(last_cell - first_cell),
          along(along_of(plan)) {
        outputs = (end - begin) * inner;
        size = cells * inner;
        if (along != Along::PHASES) return;
        steps = axis.stride;
        const i64 reach = (axis.kernel - 1) * axis.dilation / steps, before = first_cell + axis.pad_lo;
        origin = before / steps < begin ? before / steps : begin;
        lead = (before - origin * steps) * inner;
        i64 windows = (last_cell + axis.pad_lo - origin * steps + steps - 1) / steps;
        if (windows < end - origin + reach) windows = end - origin + reach;
        apart = windows * inner + N;
        size = windows * steps * inner;
        border = (begin - origin + reach) * inner;
        outputs = reach * inner + windows * inner;
    }
    // What decides where everything is in these rows.
    struct Shape {
        i64 outputs, cells, lead, size, border;
    };
    Shape shape() const { return {end - begin, cells, lead, size, border}; }
    bool is_like(const Shape &s) const {
        return s.outputs == end - begin && s.cells == cells && s.lead == lead && s.size == size && s.border == border;
    }

    // How much room a row of columns and one of outputs need.
    i64 column_room() const { return size + (steps + 1) * N; }
    i64 output_room() const { return outputs + 2 * N; }

    // The first and the last cell + 1 that outputs begin..end-1 see, or a little more.
    static void seen(const Axis &axis, i64 begin, i64 end, i64 *first, i64 *last) {
        *first = axis.start(begin);
        *last = axis.adaptive ? (end * axis.length + axis.output - 1) / axis.output
                              : axis.start(end - 1) + axis.dilation * (axis.kernel - 1) + 1;
        if (*first < 0) *first = 0;
        if (*last > axis.length) *last = axis.length;
        if (*last < *first) *last = *first;
    }

    // The phases of a row of columns: the cells that windows have at the same places, side by side.
    template <class T>
    void split(const T *row, T *phases) const {
        with_steps([&](auto many) NDPOOL_INLINED {
            constexpr int S = decltype(many)::value;
            for (i64 i = 0; S * i < size; i += N) {
                vec<T, N> from[S], to[S];
                for (int r = 0; r < S; ++r) from[r] = load<N>(row + S * i + r * N);
                phases_of<N, S>(from, to);
                for (int f = 0; f < S; ++f) store<N>(phases + f * apart + i, to[f]);
            }
        });
        if (inner > 1)
            over_phases([&](i64 in_row, i64 in_phases)
                            NDPOOL_INLINED { store<N>(phases + in_phases, load<N>(row + in_row)); });
    }
    // And back.
    template <class T>
    void join(const T *phases, T *row) const {
        with_steps([&](auto many) NDPOOL_INLINED {
            constexpr int S = decltype(many)::value;
            for (i64 i = 0; S * i < size; i += N) {
                vec<T, N> from[S], to[S];
                for (int f = 0; f < S; ++f) from[f] = load<N>(phases + f * apart + i);
                join_phases<N, S>(from, to);
                for (int r = 0; r < S; ++r) store<N>(row + S * i + r * N, to[r]);
            }
        });
        if (inner > 1)
            over_phases([&](i64 in_row, i64 in_phases)
                            NDPOOL_INLINED { store<N>(row + in_row, load<N>(phases + in_phases)); });
    }

    // Where the cells of a window are, in phases from the window on, and where the windows over a column are, in a row
    // of outputs. `list` holds it.
    struct Taps {
        const i64 *cell, *window, *place, *asks;  // the first `asks` windows are those of the first phase, and so forth
    };
    Taps taps(Scratch<i64> &list) const {
        const i64 kernel = axis.kernel;
        list.grow(3 * kernel + steps, "cells of a window");
        i64 *cell = list.data(), *window = cell + kernel, *place = window + kernel, *asks = place + kernel, k = 0;
        for (i64 j = 0; j < kernel; ++j)
            cell[j] = j * axis.dilation % steps * apart + (j * axis.dilation / steps + begin - origin) * inner;
        for (i64 phase = 0; phase < steps; ++phase) {
            const i64 first = k;
            for (i64 j = kernel - 1; j >= 0; --j)  // the first output first
                if (j * axis.dilation % steps == phase) {
                    window[k] = border - (j * axis.dilation / steps + begin - origin) * inner;
                    place[k++] = j;
                }
            asks[phase] = k - first;
        }
        return {cell, window, place, asks};
    }

    // Every column asks the windows over it, N elements at a time:
    //   from.begin(i), state.take(output, place), from.finish(i, state)
    // with i in a row of columns (or of phases) and `output` in a row of outputs.
    template <class From>
    void hand(const From &from, const Taps &taps, Scratch<i64> &list) const {
        if (along == Along::PLACES)
            hand_places(from, list);
        else
            hand_phases(from, taps);
    }

  private:
    // Calls f with the number of phases, where places are single elements.
    template <class F>
    NDPOOL_INLINE void with_steps(const F &f) const {
        if (inner > 1) return;
        switch (steps) {
            case 2: return f(Size<2>());
            case 3: return f(Size<3>());
            case 4: return f(Size<4>());
            case 5: return f(Size<5>());
            case 6: return f(Size<6>());
        }
    }
    // Calls f(i, k) for the elements i at which the places of a row of columns start, with theirs in phases. A register
    // of each may be moved: what it has of the next place is written over by that.
    template <class F>
    NDPOOL_INLINE void over_phases(const F &f) const {
        const i64 windows = size / (steps * inner);
        for (i64 m = 0; m < windows; ++m)
            for (i64 phase = 0; phase < steps; ++phase) f((m * steps + phase) * inner, phase * apart + m * inner);
    }
    template <class From>
    void hand_phases(const From &given, const Taps &taps) const {
        const From from = given;  // a copy, which no store can change
        const i64 *window = taps.window, *place = taps.place, length = size / steps;
        for (i64 phase = 0; phase < steps; ++phase) {
            const i64 base = phase * apart, asks = taps.asks[phase];
            for (i64 i = 0; i < length; i += N) {
                auto state = from.begin(base + i);
                for (i64 a = 0; a < asks; ++a) from.take(state, i + window[a], place[a]);
                from.finish(base + i, state);
            }
            window += asks, place += asks;
        }
    }
    template <class From>
    void hand_places(const From &given, Scratch<i64> &list) const {
        const From from = given;
        Cursor over;
        for (i64 w = 0; w < cells; ++w) {
            if (w == 0)
                over.move_to(axis, first_cell);
            else
                over.step(axis);
            list.grow(2 * (over.hi - over.lo), "windows over a column");
            i64 *output = list.data(), *place = output + (over.hi - over.lo), asks = 0;
            over.over(axis, [&](i64 o, i64 at) {
                if (o < begin || o >= end) return;
                output[asks] = (o - begin) * inner;
                place[asks++] = at;
            });
            whole_blocks<N>(inner, [&](i64 e) NDPOOL_INLINED {
                auto state = from.begin(w * inner + e);
                for (i64 a = 0; a < asks; ++a) from.take(state, output[a] + e, place[a]);
                from.finish(w * inner + e, state);
            });
        }
    }
};

// --- across the rows --------------------------------------------------------------------------------

// How many rows of outputs are over one cell of the first pooled axis, where that is not the last.
inline i64 rows_over_cell(const Plan &plan) {
    if (plan.dim_count == 0) return 1;
    const Axis &axis = plan.axes[0];
    const i64 over =
        axis.adaptive ? axis.output / axis.length + 2 : axis.dilation * (axis.kernel - 1) / axis.stride + 1;
    return plan.out_rows / axis.output * (over < axis.output ? over : axis.output);
}

// The rows of columns that are over a cell of the first axis: their shares, and the keys of the cells that get them.
// Rows take turns, so that they stay near.
template <class A>
class ColumnRows {
  public:
    static constexpr int N = LANES<A>;
    using I = typename IntOf<sizeof(A)>::s;

    explicit ColumnRows(const Plan &plan) : turns(rows_over_cell(plan)) {}

    void grow(i64 each) {
        room = each;
        shares.grow(turns * each, "shares of columns");
        owners.grow(turns * each, "owners of columns");
        starts.grow(turns, "rows of columns");
    }
    A *share(i64 row) const { return shares.data() + row % turns * room; }
    I *owner(i64 row) const { return owners.data() + row % turns * room; }

    // The sums of `length` cells of an input row, from element `from` of a row of columns on, as numbers of A.
    void collect(const InputRow &rows, i64 from, i64 length, const I *keys, A *sums) {
        const i64 count = rows.count;
        for (i64 r = 0; r < count; ++r) starts[r] = rows.row[r] % turns * room + from;
        const i64 *start = starts.data();
        const A *shares = this->shares.data();
        const I *owners = this->owners.data();
        exact_blocks<N>(length, [&](auto size, i64 i) NDPOOL_INLINED {
            constexpr int M = decltype(size)::value;
            const vec<I, M> key = load<M>(keys + i);
            vec<A, M> sum{}, none{};
            for (i64 r = 0; r < count; ++r)
                sum += load<M>(owners + start[r] + i) == key ? load<M>(shares + start[r] + i) : none;
            store<M>(sums + i, sum);
        });
    }

  private:
    const i64 turns;
    i64 room = 0;
    Scratch<A> shares;
    Scratch<I> owners;
    Scratch<i64> starts;
};

// A row that is cut itself goes in parts that stay in the nearest cache with all that is made of them.
inline i64 cuts_by_rows(const Plan &plan) {
    const Axis &axis = plan.axes[0];
    if (plan.dim_count > 0 || axis.adaptive) return cuts_of(plan);
    return cuts_of(plan, 1 << 12, axis.dilation * axis.kernel);
}

// Fills the gradient, part by part. A Maker, of which each thread has its own, makes what the cells of a part ask:
//   start(columns, slab)           before a part
//   make(seen, at, row)            that of an output row; `at` is its first output in the array
//   sums(over, offset, from, length, to)   what the cells get of the input row that starts at element `offset` of the
//                                  slab, from element `from` of a row of columns on
template <class A, class MakeMaker>
void pull_by_rows(const Plan &plan, const Gradient &gradient, const MakeMaker &maker) {
    over_input_parts(plan, gradient, cuts_by_rows(plan), [&](const auto &over) {
        auto own = maker();
        InputRow in_rows(plan);
        OutputRow out_rows(plan);
        Outbox outbox;
        over([&](const InputPart &part) {
            const OutputPart seen = outputs_over(plan, part.begin, part.end);
            i64 first = 0, last = plan.last().length;
            if (plan.dim_count == 0) {  // the row itself is cut
                first = part.begin, last = part.end;
                if (seen.begin < seen.end) Columns<A>::seen(plan.last(), seen.begin, seen.end, &first, &last);
                if (first > part.begin) first = part.begin;
                if (last < part.end) last = part.end;
            }
            const Columns<A> columns(plan, seen.begin, seen.end, first, last);
            const i64 rows = seen.begin < seen.end ? seen.row_end - seen.row_begin : 0;
            own.start(columns, part.slab);
            i64 made = seen.row_begin;
            over_part_rows(plan, in_rows, part, [&](i64 row, i64 begin, i64 end) {
                if (!rows) in_rows.count = 0;
                // Outputs are made when the first cell asks them, so that their cells are near.
                const i64 asked = in_rows.count ? in_rows.row[in_rows.count - 1] : -1;
                for (; made <= asked; ++made) {
                    made == seen.row_begin ? out_rows.move_to(made) : out_rows.move_on(1);
                    own.make(out_rows, (part.slab * plan.out_rows + made) * plan.out_row + seen.begin * plan.inner,
                             made);
                }
                const i64 length = (end - begin) * plan.inner, at = row * plan.in_row + begin * plan.inner;
                char *to = part.gx + at * gradient.element_bytes;
                if (part.streamed)
                    to = outbox.room(to, length * gradient.element_bytes, plan.in_row * gradient.element_bytes);
                own.sums(in_rows, row * plan.in_row, columns.lead + (begin - first) * plan.inner, length, to);
            });
        });
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
