// The way back, the transposed map: what every cell of the input gets from the windows that see it, an input row at a
// time.
//
// Nothing is scattered: a cell's windows are known, so a register of cells gathers from each of them in turn, in an
// order that does not depend on where the cell is. What a window hands to its cells is a Source:
//   A                      the type in which a cell's share is summed
//   add<N>(sum, output, place)  a sum, and what N outputs hand to the cell at that place in their windows
//   ahead<N>(output)       asks for what outputs that follow these will hand on
//   with(border, copies)   the same from copies with a border, whose first output is number 0
//   FIRST                  by squares: the lines of outputs that are added up by themselves first
//   rows_first             by gathering: whether rows are; or else none
//   SPARES_PADDING         whether outputs hand nothing on at the places of their windows that are padding
// and where the result goes is a Target:
//   put<N>(at, sum, count) the first `count` of N sums, for the cells from element `at` of the slab on
//   REPEATS                whether cells that the same outputs see get the same
//   instead(other)         the same to other memory; with element_bytes()
//   STREAMS                whether past_the_caches() is the same, with stores that go there
#pragma once
#include "passes/squares.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// --- parts of the input ---------------------------------------------------------------------------

// Elements of the slab for one cell of its first pooled axis.
inline i64 first_stride(const Plan &plan) { return plan.in_slab / plan.axes[0].length; }

// The array of the gradient.
struct Gradient {
    char *gx;
    i64 element_bytes;
    bool streamed;  // whether it is better written past the caches

    Gradient(void *gx, i64 element_bytes)
        : gx(static_cast<char *>(gx)), element_bytes(element_bytes), streamed(false) {}
    // One that is gathered, and so written from end to end.
    Gradient(const Plan &plan, void *gx, i64 element_bytes, const Route &route) : Gradient(gx, element_bytes) {
        const i64 written = plan.outer * plan.in_slab * element_bytes,
                  read = plan.outer * plan.out_slab * element_bytes;
        streamed = route.streams(gx, written, read + written);
    }
    // Whether it is, and rows of so many elements are whole lines, which are best stored there right away.
    bool in_lines(i64 row) const {
        return streamed && reinterpret_cast<std::uintptr_t>(gx) % LINE == 0 && row * element_bytes % LINE == 0;
    }
};

// Some whole cells of a slab along its first pooled axis, and where their gradient is to be written.
struct InputPart {
    i64 slab, begin, end;
    char *gx;  // of the slab
    bool streamed, in_lines;
};

// Into how many parts a slab is cut, of about so many elements each. A part that is narrow beside what its windows
// reach over would look at every output many times. Other slabs do not matter: what is beside it does not change a
// result.
inline i64 cuts_of(const Plan &plan, i64 elements, i64 reach) {
    i64 cuts = plan.in_slab / elements;
    const i64 most = plan.axes[0].length / (4 * reach);
    if (cuts > most) cuts = most;
    return cuts < 1 ? 1 : cuts;
}
inline i64 cuts_of(const Plan &plan) {
    const Axis &axis = plan.axes[0];
    if (axis.adaptive && plan.dim_count == 0) return 1;
    return cuts_of(plan, 1 << 16, axis.adaptive ? axis.kernel : axis.dilation * axis.kernel);
}

// Calls work(over) on several threads, and there over(f) calls f(part) for the parts of the input. Whoever fills a part
// adds what all windows over it bring. The parts follow from the shape alone, so the result does not depend on the
// number of threads.
template <class Work>
void over_input_parts(const Plan &plan, const Gradient &to, i64 cuts, const Work &work) {
    const Axis &axis = plan.axes[0];
    // Pairs of cells are not cut in two.
    auto edge = [&](i64 cut) { return cut == cuts ? axis.length : axis.length * cut / cuts / 2 * 2; };
    parallel(plan.outer * cuts, worth_threads(plan.outer * plan.in_slab), [&](i64 first, i64 stop) {
        const bool in_lines = to.in_lines(plan.in_row);
        work([&](auto &&f) {
            for (i64 unit = first; unit < stop; ++unit) {
                i64 slab = unit / cuts, cut = unit % cuts;
                f(InputPart{slab, edge(cut), edge(cut + 1), to.gx + slab * plan.in_slab * to.element_bytes, to.streamed,
                            in_lines});
            }
        });
        if (to.streamed) end_streaming();
    });
}
template <class Work>
void over_input_parts(const Plan &plan, const Gradient &to, const Work &work) {
    over_input_parts(plan, to, cuts_of(plan), work);
}

// Where a part of the outputs lies: rows of the slab and outputs of a row, both from begin to end.
struct OutputPart {
    i64 row_begin, row_end, begin, end;
};
inline OutputPart outputs_over(const Plan &plan, i64 in_begin, i64 in_end) {
    i64 lo, hi;
    plan.axes[0].outputs_over(in_begin, in_end, &lo, &hi);
    if (plan.dim_count == 0) return {0, 1, lo, hi};
    i64 rows = plan.out_rows / plan.axes[0].output;
    return {lo * rows, hi * rows, 0, plan.last().output};
}

// --- which windows see a cell ---------------------------------------------------------------------

// How many outputs see a cell at most.
inline i64 most_over(const Axis &axis) {
    const i64 most =
        axis.adaptive ? axis.output / axis.length + 2 : axis.dilation * (axis.kernel - 1) / axis.stride + 1;
    return most < axis.output ? most : axis.output;
}

// The outputs lo..hi-1 along one axis whose windows reach over a cell, from cell to cell without a division.
class Cursor {
  public:
    i64 cell, lo, hi;

    void move_to(const Axis &axis, i64 to) {
        cell = to;
        axis.outputs_over(cell, cell + 1, &lo, &hi);
        next_start = start(axis, hi);
        first_end = end(axis, lo);
    }
    void step(const Axis &axis) {
        ++cell;
        while (next_start <= cell) next_start = start(axis, ++hi);
        while (first_end <= cell) first_end = end(axis, ++lo);
    }
    // The first cell after this one over which there are others.
    i64 same_until() const { return next_start < first_end ? next_start : first_end; }
    void move_on(const Axis &axis, i64 to) {
        cell = to - 1;
        step(axis);
    }
    // Calls f(o, place) for those whose windows have the cell itself.
    template <class F>
    void over(const Axis &axis, const F &f) const {
        for (i64 o = lo; o < hi; ++o) {
            i64 place = cell - axis.start(o);
            if (axis.dilation > 1) {
                if (place % axis.dilation) continue;
                place /= axis.dilation;
            }
            f(o, place);
        }
    }

  private:
    i64 next_start, first_end;  // where window hi starts, and the first cell beyond window lo

    static i64 start(const Axis &axis, i64 o) { return o < axis.output ? axis.start(o) : INT64_MAX; }
    static i64 end(const Axis &axis, i64 o) {
        if (o >= axis.output) return INT64_MAX;
        if (axis.adaptive) return ((o + 1) * axis.length + axis.output - 1) / axis.output;
        return axis.start(o) + axis.dilation * (axis.kernel - 1) + 1;
    }
};

// Which output rows see a row of the input; or, with fewer of the dimensions, which planes see a plane.
class InputRow {
  public:
    i64 count = 0;
    i64 *row = nullptr;  // of each, its number in the slab
    i64 *tag = nullptr;  // and the place in its window without the axes that are left out

    InputRow(const Plan &plan, int dims) : plan(plan), dims(dims) {
        i64 capacity = 1;
        for (int d = 0; d < dims; ++d)
            if (plan.dims[d].axis >= 0) {
                const Axis &axis = plan.axes[plan.dims[d].axis];
                i64 most =
                    axis.adaptive ? axis.output / axis.length + 2 : axis.dilation * (axis.kernel - 1) / axis.stride + 1;
                capacity *= most < axis.output ? most : axis.output;
            }
        block.grow(2 * capacity, "output rows that see a row");
        row = block.data();
        tag = row + capacity;
    }
    explicit InputRow(const Plan &plan) : InputRow(plan, plan.dim_count) {}

    void move_to(i64 in_row) {
        for (int d = dims - 1; d >= 0; --d) {
            place_at(d, in_row % plan.dims[d].in_count);
            in_row /= plan.dims[d].in_count;
        }
        find();
    }
    // Moves to the row that follows in the slab.
    void next() {
        for (int d = dims - 1; d >= 0; --d) {
            const Dim &dim = plan.dims[d];
            if (cursor[d].cell + 1 == dim.in_count) {
                place_at(d, 0);
                continue;
            }
            if (dim.axis >= 0)
                cursor[d].step(plan.axes[dim.axis]);
            else
                ++cursor[d].cell;
            break;
        }
        find();
    }

  private:
    const Plan &plan;
    Scratch<i64> block;
    int dims;
    Cursor cursor[MAX_DIMS];

    void place_at(int d, i64 cell) {
        if (plan.dims[d].axis >= 0)
            cursor[d].move_to(plan.axes[plan.dims[d].axis], cell);
        else
            cursor[d].cell = cell;
    }
    void find() {
        count = 1;
        row[0] = tag[0] = 0;
        for (int d = 0; d < dims; ++d) {
            const Dim &dim = plan.dims[d];
            if (dim.axis < 0)
                for (i64 i = 0; i < count; ++i) row[i] = row[i] * dim.out_count + cursor[d].cell;
            else
                extend(plan.axes[dim.axis], cursor[d], dim.out_count);
        }
    }
    // Every row so far, times the outputs of this axis; from the back, so that it can be done in place.
    NDPOOL_INLINE void extend(const Axis &axis, const Cursor &at, i64 out_count) {
        i64 outputs = 0;
        at.over(axis, [&](i64, i64) { ++outputs; });
        for (i64 i = count - 1; i >= 0; --i) {
            i64 base = row[i] * out_count, prefix = tag[i] * axis.kernel, k = i * outputs;
            at.over(axis, [&](i64 o, i64 place) {
                NDPOOL_SHORT_LOOP;
                row[k] = base + o;
                tag[k++] = prefix + place;
            });
        }
        count *= outputs;
    }
};

// Calls f(row, begin, end) for the input rows of a part and their cells in it.
template <class F>
void over_part_rows(const Plan &plan, InputRow &rows, const InputPart &part, const F &f) {
    if (plan.dim_count == 0) {  // the row itself is cut
        rows.move_to(0);
        return f(i64(0), part.begin, part.end);
    }
    i64 each = plan.in_rows / plan.axes[0].length, first = part.begin * each;
    for (i64 row = first; row < part.end * each; ++row) {
        if (row == first)
            rows.move_to(row);
        else
            rows.next();
        f(row, i64(0), plan.last().length);
    }
}

// --- gathering ------------------------------------------------------------------------------------

// What the choice depends on, with sums in A; `narrow` says that what is summed has fewer bits.
template <class A>
Lanes lanes_back(bool narrow = false) {
    return {LANES<A>, FEW_LANES<A>, false, false, LEVEL_IS_TUNED ? Tuned::ALL : Tuned::NOT, narrow, !LEVEL_IS_TUNED};
}
// The way back of a plan; `always` is the one that can always be gone.
template <class A>
Way way_back(const Plan &plan, const BySquares &squares, Way always, const Route &route) {
    return choose_back(plan, lanes_back<A>(), squares, always, route.asked);
}

// Fills the rows of a part of the input, N lanes at a time.
template <int N, class Source, class Target>
class RowGatherer {
    using A = typename Source::A;

  public:
    RowGatherer(const Plan &plan, const InputPart &part, const Source &from, const Target &to)
        : plan(plan), axis(plan.last()), part(part), from(from), to(to) {}

    void gather_in_squares() const {
        if (axis.kernel == 2) return gather_squares<2, 0>();
        return axis.pad_lo % 2 ? gather_squares<3, 1>() : gather_squares<3, 0>();
    }

    void gather_part(InputRow &rows) const {
        const bool places_in_lines = plan.inner >= N && part.in_lines && plan.inner * to.element_bytes() % LINE == 0;
        over_part_rows(plan, rows, part, [&](i64 row, i64 begin, i64 end) {
            i64 at = row * plan.in_row;
            if constexpr (Target::STREAMS)
                if (places_in_lines) return gather_places(rows, at, begin, end, to.past_the_caches());
            write(at + begin * plan.inner, (end - begin) * plan.inner,
                  [&](const Target &target) { gather_places(rows, at, begin, end, target); });
        });
    }

  private:
    const Plan &plan;
    const Axis &axis;
    const InputPart &part;
    const Source &from;
    const Target &to;
    mutable Outbox outbox;

    // Calls fill(target), which writes the elements at..at+length-1 of the slab.
    template <class Fill>
    NDPOOL_INLINE void write(i64 at, i64 length, const Fill &fill) const {
        if (!part.streamed) return fill(to);
        const i64 bytes = to.element_bytes();
        fill(to.instead(outbox.room(part.gx + at * bytes, bytes * length, bytes * 2 * plan.in_row) - at * bytes));
    }

    // The planes of a part, by squares.
    template <int K, int E>
    void gather_squares() const {
        const Axis &down = plan.axes[plan.axis_count - 2];
        const OutputPart seen = outputs_over(plan, part.begin, part.end);
        Border border{seen.row_begin, 1, seen.row_end - seen.row_begin, axis.output};
        i64 top = part.begin, bottom = part.end, first = 0, stop = 1;
        i64 before = seen.row_begin * border.strides().row;  // what comes before the copy in the slab, with borders
        if (plan.dim_count > 1) {
            i64 each = plan.in_rows / down.length / plan.axes[0].length;
            first = part.begin * each, stop = part.end * each;
            top = 0, bottom = down.length;
            border.planes = border.height / down.output, border.height = down.output;
            before = seen.row_begin / down.output * border.strides().plane;
        }
        // Whether the outputs can be read without a border. Every square must have one of its own, and windows of 2 by
        // 2 need no other. Those of 3 by 3 after one cell of padding ask the next, too, at their first places. After
        // the last of a row, a plane or a slab that is the first of the next one, where these places are padding. So a
        // row and an output more are read.
        auto in_pairs = [](const Axis &a) {
            return (K == 2 || (Source::SPARES_PADDING && a.pad_lo == 1)) &&
                   a.pad_lo / 2 + (a.length + 1) / 2 <= a.output;
        };
        const i64 after =
            (plan.outer - part.slab) * plan.out_slab - seen.row_end * plan.out_row;  // outputs after those seen
        const bool as_is = in_pairs(down) && in_pairs(axis) && (K == 2 || after > plan.out_row);
        Scratch<char> copies[2];
        const Source source = as_is ? from : from.with(border, copies);
        const OutputStrides apart = as_is ? OutputStrides{plan.out_row, down.output * plan.out_row} : border.strides();
        if (as_is) before = 0;

        InputRow planes(plan, plan.dim_count - 1);
        for (i64 plane = first; plane < stop; ++plane) {
            if (plane == first)
                planes.move_to(plane);
            else
                planes.next();
            auto fill = [&](i64 row, i64 rows, const auto &target) {
                using To = std::decay_t<decltype(target)>;
                i64 output = (row / 2 + down.pad_lo / 2) * apart.row + axis.pad_lo / 2 - before;
                Squares<N, K, E, Source, To>{source,      target,     (plane * down.length + row) * plan.in_row,
                                             plan.in_row, rows,       output,
                                             apart,       planes.row, planes.tag,
                                             planes.count}
                    .fill();
            };
            if (!part.streamed) {
                fill(top, bottom - top, to);
                continue;
            }
            if constexpr (Target::STREAMS) {
                if (part.in_lines) {
                    fill(top, bottom - top, to.past_the_caches());
                    continue;
                }
            }
            for (i64 row = top; row < bottom; row += 2) {
                i64 rows = bottom - row < 2 ? 1 : 2;
                write((plane * down.length + row) * plan.in_row, rows * plan.in_row,
                      [&](const Target &target) { fill(row, rows, target); });
            }
        }
    }

    // Channels last: along the elements of a place.
    template <class To>
    void gather_places(const InputRow &rows, i64 at, i64 begin, i64 end, const To &target) const {
        if (from.rows_first)
            gather_places_by<true>(rows, at, begin, end, target);
        else
            gather_places_by<false>(rows, at, begin, end, target);
    }
    template <bool ROWS, class To>
    void gather_places_by(const InputRow &rows, i64 at, i64 begin, i64 end, const To &target) const {
        constexpr int U = 4;
        i64 inner = plan.inner;
        Cursor seen;
        seen.move_to(axis, begin);
        for (i64 w = begin; w < end; ++w, seen.step(axis)) {
            i64 i = 0;
            for (; i + U * N <= inner; i += U * N) gather_place<U, ROWS>(rows, seen, at + w * inner, i, target);
            for (; i + N <= inner; i += N) gather_place<1, ROWS>(rows, seen, at + w * inner, i, target);
            if (i < inner) gather_place<1, ROWS>(rows, seen, at + w * inner, inner - N, target);
        }
    }
    template <int U, bool ROWS, class To>
    void gather_place(const InputRow &rows, const Cursor &seen, i64 at, i64 i, const To &target) const {
        vec<A, N> sum[U] = {};
        auto add_row = [&](i64 r, vec<A, N>(&to)[U]) NDPOOL_INLINED {
            seen.over(axis, [&](i64 o, i64 place) {
                i64 output = rows.row[r] * plan.out_row + o * plan.inner + i;
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u)
                    to[u] = from.template add<N>(to[u], output + u * N, rows.tag[r] * axis.kernel + place);
            });
        };
        for (i64 r = 0; r < rows.count; ++r) {
            if constexpr (!ROWS) {
                add_row(r, sum);
            } else {
                vec<A, N> part[U] = {};
                add_row(r, part);
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u) sum[u] += part[u];
            }
        }
        NDPOOL_UNROLL
        for (int u = 0; u < U; ++u) target.template put<N>(at + i + u * N, sum[u], N);
    }
};

// All of a part by squares, where its rows are long enough; says whether.
template <class Source, class Target>
bool fill_squares(const Plan &plan, const InputPart &part, const Source &from, const Target &to) {
    if constexpr (LEVEL_IS_TUNED) {  // elsewhere it is never chosen; see choice.cpp
        using A = typename Source::A;
        constexpr int MANY = LANES<A>, FEW = FEW_LANES<A>;
        const Axis &axis = plan.last();
        const bool few = FEW < MANY && (axis.output < MANY + axis.kernel || axis.length < 2 * MANY);
        if (axis.length < 2 * (few ? FEW : MANY)) return false;
        if (few)
            RowGatherer<FEW, Source, Target>(plan, part, from, to).gather_in_squares();
        else
            RowGatherer<MANY, Source, Target>(plan, part, from, to).gather_in_squares();
        return true;
    }
    return false;
}

// All of a part, by squares or, where registers go along the elements of a place, by gathering.
template <class Source, class Target>
void gather_part(const Plan &plan, InputRow &rows, const InputPart &part, const Source &from, const Target &to,
                 Way way) {
    if constexpr (LEVEL_IS_TUNED) {  // elsewhere it is never chosen; see choice.cpp
        if (way == Way::SQUARES && fill_squares(plan, part, from, to)) return;
        RowGatherer<LANES<typename Source::A>, Source, Target>(plan, part, from, to).gather_part(rows);
    }
}

// Calls f(type) with the type of 16-bit floats.
template <class F>
NDPOOL_INLINE void with_narrow(bool brain, const F &f) {
    if (brain)
        f(BFloat());
    else
        f(Half());
}

// Writes sums as 16-bit floats, of one sort or the other, times a number.
template <class A>
struct NarrowTarget {
    void *gx;  // the slab's
    bool brain;
    A scale;
    static constexpr bool REPEATS = true, STREAMS = false, PAST = false;

    static i64 element_bytes() { return 2; }
    NarrowTarget instead(void *other) const { return {other, brain, scale}; }
    template <int N>
    NDPOOL_INLINE void put(i64 at, vec<A, N> sum, int count) const {
        with_narrow(brain, [&](auto zero) {
            using G = decltype(zero);
            put_some<N>(static_cast<G *>(gx) + at, count, [&](G *p) { store_as<N>(p, sum * scale); });
        });
    }
};

// Writes sums as G, times a number.
template <class G, class A, bool STREAMING = false>
struct GradientTarget {
    G *gx;  // the slab's
    A scale;
    static constexpr bool REPEATS = true, STREAMS = std::is_floating_point_v<G>, PAST = STREAMING;

    static i64 element_bytes() { return sizeof(G); }
    GradientTarget<G, A, true> past_the_caches() const { return {gx, scale}; }
    GradientTarget instead(void *other) const { return {static_cast<G *>(other), scale}; }
    template <int N>
    void put(i64 at, vec<A, N> sum, int count) const {
        if constexpr (PAST)
            stream<N>(gx + at, convert<G, N>(sum * scale));
        else
            put_some<N>(gx + at, count, [&](G *p) { store_as<N>(p, sum * scale); });
    }
    template <int N>
    NDPOOL_INLINE void put_zipped(i64 at, vec<A, N> even, vec<A, N> odd) const {
        const vec<float, 2 * N> all = zipped_as_floats<N>(even * scale, odd * scale);
        if constexpr (PAST)
            stream<2 * N>(gx + at, all);
        else
            store<2 * N>(gx + at, all);
    }
};
template <bool STREAMING, int N>
constexpr bool PUTS_ZIPPED<GradientTarget<float, double, STREAMING>, N> = ZIPS_AS_FLOATS<N>;

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
