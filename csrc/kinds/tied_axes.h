// Ties on the way back, one axis after the other.
//
// Pool the first axis alone, then the next one, and so on: what the last axis leaves are the outputs. A cell that
// equals its output equals all that is between them, too. So what an output hands back goes the same road in the other
// direction, and along each axis a cell asks the few windows over it whether it is as good as they are:
//
//     cells  --best-->  pooled along one axis  --best-->  ...  --best-->  outputs
//     cells  <--hand--                         <--hand--  ...  <--hand--  shares
//
// How many cells tie for an output is counted on the way there. Both are the same sum: of the numbers at those places
// of a line whose keys equal one's own. So a cell costs about the sum of a window's sides, whatever their number.
//
// The first axis goes a plane at a time, and the planes that are still asked for are kept. All other axes are pooled
// within a plane, and registers go along what follows an axis. Nothing follows the last one, so that its rows are
// transposed: many rows side by side, one a lane.
#pragma once
#include "base/transpose.h"
#include "kinds/ties.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// --- lines ------------------------------------------------------------------------------------------

// For each index along an axis, some others: the cells of an output, or the outputs over a cell. They are counted in
// elements, of which each index has `rest`.
class Links {
  public:
    const i64 *of(i64 index) const { return items.data() + starts[index]; }
    i64 count(i64 index) const { return starts[index + 1] - starts[index]; }

    // Outputs lo..hi-1, whose cells are counted from `first` on.
    void list_cells(const Axis &axis, i64 lo, i64 hi, i64 first, i64 rest) {
        start((hi - lo) * axis.kernel, hi - lo);
        for (i64 o = lo; o < hi; ++o) {
            const Axis::Taps taps = axis.taps(o);
            for (i64 i = 0; i < taps.count; ++i) add((taps.first + i * axis.dilation - first) * rest);
            end_index();
        }
    }
    // Cells first..stop-1, and of the outputs over them those from lo to hi-1, which are counted from lo on.
    void list_windows(const Axis &axis, i64 lo, i64 hi, i64 first, i64 stop, i64 rest) {
        start((stop - first) * most_over(axis), stop - first);
        Cursor over;
        if (first < stop) over.move_to(axis, first);
        for (i64 c = first; c < stop; ++c) {
            if (c > first) over.step(axis);
            over.over(axis, [&](i64 o, i64) {
                if (o >= lo && o < hi) add((o - lo) * rest);
            });
            end_index();
        }
    }

  private:
    Scratch<i64> starts, items;
    i64 filled = 0, indices = 0;

    void start(i64 most, i64 length) {
        starts.grow(length + 1, "lines of an axis");
        items.grow(most, "lines of an axis");
        starts[0] = filled = indices = 0;
    }
    void add(i64 item) { items[filled++] = item; }
    void end_index() { starts[++indices] = filled; }
};

// Sums along lines: those whose keys equal what is wanted, a register of elements beside each other at a time.
template <class A>
struct TiedLines {
    using I = typename IntOf<sizeof(A)>::s;
    static constexpr int N = LANES<A>;
    const I *keys;
    const A *values;  // null where each is 1
    const i64 *at;    // where the numbers of the line start
    i64 count;

    // sum of values[at + i] where keys[at + i] == wanted[i], of `length` elements
    void add_equal(const I *wanted, i64 length, A *to) const {
        over_blocks(length, [&](auto registers, i64 i, i64 many) NDPOOL_INLINED {
            constexpr int U = decltype(registers)::value;
            vec<I, N> key[U];
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) key[u] = load<N>(wanted + i + u * N);
            put<U>(added<U, false>(key, i), many, to + i);
        });
    }
    // The best key of each line, and how many have it.
    void find_best(i64 length, bool counts, I *best, A *number) const {
        over_blocks(length, [&](auto registers, i64 i, i64 many) NDPOOL_INLINED {
            constexpr int U = decltype(registers)::value;
            Registers<I, U> key;
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) key.of[u] = load<N>(keys + at[0] + i + u * N);
            for (i64 s = 1; s < count; ++s) {
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u) {
                    const vec<I, N> next = load<N>(keys + at[s] + i + u * N);
                    key.of[u] = next > key.of[u] ? next : key.of[u];
                }
            }
            put<U>(key, many, best + i);
            if (counts) put<U>(values ? added<U, false>(key.of, i) : added<U, true>(key.of, i), many, number + i);
        });
    }

  private:
    template <class T, int U>
    struct Registers {
        vec<T, N> of[U];
    };
    template <int U, bool ONES>
    NDPOOL_INLINE Registers<A, U> added(const vec<I, N> (&key)[U], i64 i) const {
        Registers<A, U> sum{};
        const vec<A, N> none{}, one = none + 1;
        for (i64 s = 0; s < count; ++s) {
            const i64 from = at[s] + i;
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u)
                sum.of[u] += load<N>(keys + from + u * N) == key[u]
                                 ? (ONES ? one : load<N>(values + from + u * N))
                                 : none;
        }
        return sum;
    }
    // Blocks that cover the elements, of which the last may overlap its neighbour. Less than a register is read as one.
    template <class F>
    NDPOOL_INLINE static void over_blocks(i64 length, const F &f) {
        if (length >= 4 * N)
            whole_blocks<4 * N>(length, [&](i64 i) NDPOOL_INLINED { f(Size<4>(), i, 4 * N); });
        else if (length >= N)
            whole_blocks<N>(length, [&](i64 i) NDPOOL_INLINED { f(Size<1>(), i, N); });
        else
            f(Size<1>(), 0, length);
    }
    template <int U, class T>
    NDPOOL_INLINE static void put(const Registers<T, U> &v, i64 many, T *to) {
        if (many == U * N) {
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) store<N>(to + u * N, v.of[u]);
        } else {
            T some[N];
            store<N>(some, v.of[0]);
            std::memcpy(to, some, sizeof(T) * static_cast<std::size_t>(many));
        }
    }
};

// --- planes -----------------------------------------------------------------------------------------

template <class A>
class TiedAxes {
  public:
    using I = typename IntOf<sizeof(A)>::s;
    static constexpr int N = LANES<A>;

    TiedAxes(const Plan &plan, const TiedArrays<A> &arrays, i64 element_bytes)
        : plan(plan),
          arrays(arrays),
          element_bytes(element_bytes),
          splits(arrays.policy == Ties::SPLIT),
          dims(plan.dim_count),
          transposes(plan.inner < N) {}

    void fill(const InputPart &part) {
        const Axis &axis = plan.axes[0];
        axis.outputs_over(part.begin, part.end, &first_output, &stop_output);
        const i64 length = dims > 1 ? plan.dims[1].in_count : 1, band = rows_of_band();
        for (i64 begin = 0; begin < length; begin += band) {
            look_at(begin, begin + band < length ? begin + band : length);
            i64 made = first_output;
            for (i64 slot = 0; slot < cell_turns; ++slot) plane_at[slot] = -1;
            Cursor over;
            over.move_to(axis, part.begin);
            for (i64 c = part.begin; c < part.end; ++c) {
                if (c > part.begin) over.step(axis);
                i64 asked = 0;
                over.over(axis, [&](i64 o, i64) {
                    for (; made <= o; made += at_once) make(part.slab, made);
                    over_cell[asked++] = (o - first_output) % turns * plane;
                });
                emit(part, c, asked);
            }
        }
    }

  private:
    // One dimension: where outputs and cells of it are, of which some are looked at.
    struct Stage {
        const Axis *axis = nullptr;  // or null, if it is carried along
        i64 lo = 0, hi = 0, first = 0, stop = 0, rest = 1;
        Links cells, windows;

        i64 in() const { return stop - first; }
        i64 out() const { return hi - lo; }
    };
    static constexpr i64 NEAR = i64(640) << 10;  // bytes, of which a part of the second-level cache has room
    const Plan &plan;
    const TiedArrays<A> &arrays;
    const i64 element_bytes;
    const bool splits;
    const int dims;
    const bool transposes;
    Stage stages[MAX_DIMS + 1];                  // by dimension, and at last the row
    i64 first_output = 0, stop_output = 0;       // along the first axis
    i64 own_begin = 0, own_end = 0;              // elements of a plane that are filled
    i64 plane = 0, rows = 0;                     // elements of a plane of cells, and rows of a plane of outputs
    i64 at_once = 1, turns = 1, cell_turns = 1;  // planes that are made together, and that are kept
    i64 lanes = 0;                               // rows that are transposed together
    Scratch<i64> plane_at, over_cell, seen;
    Scratch<I> cells, firsts, between, y, turned_keys, turned_y;
    Scratch<A> shares, counts[2], handed[2], g, found, turned_counts, turned_g, turned_shares, wide_sums;
    Outbox outbox;

    // How many rows of outputs are worked on together, so that they fill registers when they are transposed.
    i64 wanted_rows() const {
        const i64 row = (plan.in_row + plan.out_row) * static_cast<i64>(sizeof(A));
        return !transposes ? 1 : row * 4 * N > NEAR / 8 ? N : 4 * N;
    }
    static i64 reach_of(const Axis &axis) { return axis.adaptive ? axis.kernel : axis.dilation * (axis.kernel - 1); }
    static i64 step_of(const Axis &axis) { return axis.adaptive ? axis.length / axis.output + 1 : axis.stride; }
    void count_turns(i64 of_plane) {
        const Axis &axis = plan.axes[0];
        at_once = (wanted_rows() + of_plane - 1) / of_plane;
        if (at_once > stop_output - first_output) at_once = stop_output - first_output;
        if (at_once < 1) at_once = 1;
        turns = ((most_over(axis) + at_once - 2) / at_once + 1) * at_once;
        cell_turns = reach_of(axis) + (at_once - 1) * step_of(axis) + 1;
    }
    // Of the second dimension, as many cells as stay near with all that is made of them, but not so few that windows
    // over two bands are most of them.
    i64 rows_of_band() {
        if (dims < 2) return 1;
        i64 each = plan.in_row, of_plane = 1;
        for (int d = dims - 1; d > 1; --d) each *= plan.dims[d].in_count;
        for (int d = dims - 1; d > 0; --d) of_plane *= plan.dims[d].out_count;
        count_turns(of_plane);
        const i64 bytes = each * (cell_turns + 2 * turns + at_once * (dims + 4)) * static_cast<i64>(sizeof(A));
        const int axis = plan.dims[1].axis;
        const i64 least = axis < 0 ? 1 : 4 * reach_of(plan.axes[axis]) + 1, band = NEAR / bytes;
        return band < least ? least : band;
    }

    // Prepares for cells begin..end-1 of the second dimension.
    void look_at(i64 begin, i64 end) {
        i64 rest = plan.in_row;
        rows = 1, plane = plan.in_row;
        own_begin = 0, own_end = dims > 1 ? 0 : 1;
        for (int d = dims - 1; d > 0; --d) {
            Stage &stage = stages[d];
            const Dim &dim = plan.dims[d];
            stage.axis = dim.axis < 0 ? nullptr : &plan.axes[dim.axis];
            stage.lo = stage.first = 0, stage.hi = dim.out_count, stage.stop = dim.in_count;
            if (d == 1) narrow(stage, begin, end);
            stage.rest = rest;
            rest *= stage.in();
            rows *= stage.out(), plane *= stage.in();
            if (d == 1) own_begin = (begin - stage.first) * stage.rest, own_end = (end - stage.first) * stage.rest;
        }
        if (dims == 1) own_end = plane;
        // After an axis is pooled, those that follow it still have all their cells.
        for (int d = 1; d < dims; ++d) {
            Stage &stage = stages[d];
            if (!stage.axis) continue;
            stage.cells.list_cells(*stage.axis, stage.lo, stage.hi, stage.first, stage.rest);
            stage.windows.list_windows(*stage.axis, stage.lo, stage.hi, stage.first, stage.stop, stage.rest);
        }
        count_turns(rows ? rows : 1);
        lanes = (at_once * rows + N - 1) / N * N;
        if (lanes > wanted_rows()) lanes = wanted_rows();
        Stage &row = stages[dims];
        const Axis &last = plan.last();
        row.rest = transposes ? plan.inner * lanes : plan.inner;
        row.cells.list_cells(last, 0, last.output, 0, row.rest);
        row.windows.list_windows(last, 0, last.output, 0, last.length, row.rest);
        take_room();
    }
    // To the outputs over these cells, and all cells that these see.
    static void narrow(Stage &stage, i64 begin, i64 end) {
        stage.lo = stage.first = begin, stage.hi = stage.stop = end;
        if (!stage.axis) return;
        stage.axis->outputs_over(begin, end, &stage.lo, &stage.hi);
        for (i64 o = stage.lo; o < stage.hi; ++o) {
            const Axis::Taps taps = stage.axis->taps(o);
            const i64 last = taps.first + (taps.count - 1) * stage.axis->dilation;
            if (taps.count && taps.first < stage.first) stage.first = taps.first;
            if (taps.count && last >= stage.stop) stage.stop = last + 1;
        }
    }
    void take_room() {
        constexpr i64 MORE = 4 * N;  // that may be read
        i64 most = at_once * plane, all = 0;  // elements of a plane on its way, and of all that are kept
        for (int d = 1; d < dims; ++d) {
            i64 size = at_once * plan.in_row;
            for (int e = 1; e < dims; ++e) size *= e <= d ? stages[e].out() : stages[e].in();
            if (size > most) most = size;
            all += size;
        }
        const i64 outputs = at_once * rows * plan.out_row;
        cells.grow(cell_turns * plane + MORE, "planes of cells");
        firsts.grow(turns * plane + MORE, "planes along one axis");
        shares.grow(turns * plane + MORE, "shares of planes");
        between.grow(all + MORE, "planes along some axes");
        for (int i = 0; i < 2; ++i) {
            if (splits) counts[i].grow(most + MORE, "cells that tie");
            if (dims > 1) handed[i].grow(most + MORE, "shares of planes");
        }
        y.grow(outputs + MORE, "keys of outputs");
        g.grow(outputs + MORE, "shares of outputs");
        found.grow(stages[dims].rest + MORE, "cells that tie");
        plane_at.grow(cell_turns, "planes of cells");
        over_cell.grow(most_over(plan.axes[0]), "windows over a cell");
        seen.grow(plan.axes[0].kernel, "cells of a window");
        if (!transposes) return;
        turned_keys.grow(plan.in_row * lanes + MORE, "rows side by side");
        turned_y.grow(plan.out_row * lanes + MORE, "rows side by side");
        turned_g.grow(plan.out_row * lanes + MORE, "rows side by side");
        turned_shares.grow(plan.in_row * lanes + MORE, "rows side by side");
        if (splits) turned_counts.grow(plan.in_row * lanes + MORE, "rows side by side");
    }

    // Where the first cell, or the first output, of what is looked at lies in its plane.
    i64 first_cell() const { return dims > 1 ? stages[1].first * stages[1].rest : 0; }
    const I *plane_of_cells(i64 slab, i64 c) {
        I *to = cells.data() + c % cell_turns * plane;
        if (plane_at[c % cell_turns] == c) return to;
        plane_at[c % cell_turns] = c;
        arrays.keys.read(arrays.x, slab * plan.in_slab + c * plan.dims[0].in_stride + first_cell(), plane, arrays.flip,
                         to);
        return to;
    }

    // Planes of outputs from number o on: what they hand to the cells of their plane.
    void make(i64 slab, i64 o) {
        const i64 many = o + at_once < stop_output ? at_once : stop_output - o;
        const i64 slot = (o - first_output) % turns * plane, outputs = rows * plan.out_row;
        I *keys = firsts.data() + slot;
        for (i64 p = 0; p < many; ++p) {
            pool_first(slab, o + p, keys + p * plane, counts[0].data() + p * plane);
            i64 at = slab * plan.out_slab + (o + p) * (plan.out_slab / plan.axes[0].output);
            if (dims > 1) at += stages[1].lo * (plan.out_slab / plan.axes[0].output / plan.dims[1].out_count);
            arrays.keys.read(arrays.y, at, outputs, arrays.flip, y.data() + p * outputs);
            arrays.floats.read(arrays.g, at, outputs, g.data() + p * outputs);
        }
        pool_from(1, many, 0, keys, between.data(), shares.data() + slot);
    }
    void pool_first(i64 slab, i64 o, I *best, A *number) {
        const Axis::Taps taps = plan.axes[0].taps(o);
        for (i64 i = 0; i < taps.count; ++i)
            seen[i] = plane_of_cells(slab, taps.first + i * plan.axes[0].dilation) - cells.data();
        TiedLines<A>{cells.data(), nullptr, seen.data(), taps.count}.find_best(plane, splits, best, number);
    }
    // Pools dimension d and all after it, of so many planes, and hands back what they get. The keys are those of the
    // cells, `counted` says which of the counts belong to them, and `room` is where other keys go.
    void pool_from(int d, i64 before, int counted, const I *keys, I *room, A *to) {
        if (d == dims) return pool_rows(before, counted, keys, to);
        const Stage &stage = stages[d];
        const i64 rest = stage.rest, in = stage.in() * rest, out = stage.out() * rest;
        if (!stage.axis) return pool_from(d + 1, before * stage.in(), counted, keys, room, to);
        const A *values = counts[counted].data();
        A *numbers = counts[1 - counted].data();
        for (i64 b = 0; b < before; ++b)
            for (i64 o = 0; o < stage.out(); ++o)
                TiedLines<A>{keys + b * in, splits ? values + b * in : nullptr, stage.cells.of(o), stage.cells.count(o)}
                    .find_best(rest, splits, room + b * out + o * rest, numbers + b * out + o * rest);
        A *shares = handed[counted].data();
        pool_from(d + 1, before * stage.out(), 1 - counted, room, room + before * out, shares);
        // Of the second dimension, others than its own cells are not asked for.
        const i64 first = d == 1 ? own_begin / rest : 0, stop = d == 1 ? own_end / rest : stage.in();
        for (i64 b = 0; b < before; ++b)
            for (i64 c = first; c < stop; ++c)
                TiedLines<A>{room + b * out, shares + b * out, stage.windows.of(c), stage.windows.count(c)}.add_equal(
                    keys + b * in + c * rest, rest, to + b * in + c * rest);
    }

    // --- rows ---

    void pool_rows(i64 many, int counted, const I *keys, A *to) {
        const A *numbers = counts[counted].data();
        const i64 in = plan.in_row, out = plan.out_row;
        if (!transposes) {
            for (i64 r = 0; r < many; ++r)
                pool_places(keys + r * in, numbers + r * in, y.data() + r * out, g.data() + r * out, to + r * in);
            return;
        }
        for (i64 r = 0; r < many; r += lanes) {
            const i64 some = r + lanes < many ? lanes : many - r;
            turn(keys + r * in, in, turned_keys.data(), lanes, some, in);
            if (splits) turn(numbers + r * in, in, turned_counts.data(), lanes, some, in);
            turn(y.data() + r * out, out, turned_y.data(), lanes, some, out);
            turn(g.data() + r * out, out, turned_g.data(), lanes, some, out);
            pool_places(turned_keys.data(), turned_counts.data(), turned_y.data(), turned_g.data(),
                        turned_shares.data());
            turn(turned_shares.data(), lanes, to + r * in, in, in, some);
        }
    }
    template <class T>
    static void turn(const T *from, i64 from_row, T *to, i64 to_row, i64 rows, i64 columns) {
        using Bits = typename IntOf<sizeof(T)>::u;
        transpose(reinterpret_cast<const Bits *>(from), from_row, reinterpret_cast<Bits *>(to), to_row, rows, columns);
    }
    // A row, or rows side by side.
    void pool_places(const I *keys, const A *numbers, const I *wanted, A *share, A *to) {
        const Stage &row = stages[dims];
        const i64 rest = row.rest;
        if (splits)
            for (i64 o = 0; o < plan.last().output; ++o) {
                TiedLines<A>{keys, numbers, row.cells.of(o), row.cells.count(o)}.add_equal(wanted + o * rest, rest,
                                                                                          found.data());
                divide(share + o * rest, found.data(), rest);
            }
        for (i64 c = 0; c < plan.last().length; ++c)
            TiedLines<A>{wanted, share, row.windows.of(c), row.windows.count(c)}.add_equal(keys + c * rest, rest,
                                                                                          to + c * rest);
    }

    // --- cells ---

    // Writes the gradient of a plane, from so many planes of outputs over it.
    void emit(const InputPart &part, i64 c, i64 asked) {
        constexpr i64 SOME = 1024;  // which stay in the nearest cache
        const i64 first = c * plan.dims[0].in_stride + first_cell();
        const I *own = asked ? plane_of_cells(part.slab, c) : nullptr;
        for (i64 begin = own_begin; begin < own_end; begin += SOME) {
            const i64 count = begin + SOME < own_end ? SOME : own_end - begin;
            char *to = part.gx + (first + begin) * element_bytes;
            if (part.streamed) to = outbox.room(to, count * element_bytes, SOME * element_bytes);
            A *sums = reinterpret_cast<A *>(to);
            if (!arrays.floats.as_they_are) {
                wide_sums.grow(SOME + 4 * N, "sums of cells");
                sums = wide_sums.data();
            }
            if (asked)
                TiedLines<A>{firsts.data() + begin, shares.data() + begin, over_cell.data(), asked}.add_equal(
                    own + begin, count, sums);
            else
                std::memset(sums, 0, sizeof(A) * static_cast<std::size_t>(count));
            if (!arrays.floats.as_they_are) arrays.floats.write(sums, count, to);
        }
    }
};

// The VJP of a pool over several axes.
template <class A>
void pull_by_axes(const Plan &plan, const TiedArrays<A> &arrays, const Gradient &gradient) {
    over_input_parts(plan, gradient, [&](const auto &over) {
        TiedAxes<A> axes(plan, arrays, gradient.element_bytes);
        over([&](const InputPart &part) { axes.fill(part); });
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
