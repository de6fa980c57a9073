// Sum and Avg, and the transpose of a sum: every cell gets the sum of what the windows over it hold.
#pragma once
#include <cmath>

#include "kinds/rounding.h"
#include "passes/spread.h"
#include "plan/call.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// A divisor for each output, in bytes or doubles.
struct EachDivisor {
    const std::uint8_t *few = nullptr;
    const double *many = nullptr;

    static EachDivisor of(const Call &call) {
        if (call.count_bytes == 1) return {static_cast<const std::uint8_t *>(call.counts), nullptr};
        return {nullptr, static_cast<const double *>(call.counts)};
    }
    EachDivisor from(i64 output) const { return {few ? few + output : nullptr, many ? many + output : nullptr}; }

    template <class A, int N>
    NDPOOL_INLINE vec<A, N> at(i64 i) const {
        // Bytes become floats by way of integers, for which there are instructions.
        return few ? convert<A, N>(load_as<std::int32_t, N>(few + i)) : load_as<A, N>(many + i);
    }
    template <int N>
    NDPOOL_INLINE vec<double, N> share(i64 i) const {
        return one_over<N>(at<double, N>(i));
    }
};

// What a window's sum is divided by.
struct Divisor {
    Count by;
    double fixed;
    double share = 1 / fixed;
    bool whole = fixed < 0x1p50 && fixed == static_cast<double>(static_cast<i64>(fixed));
    EachDivisor each = {};  // where every output has its own

    // A rule under which all windows count alike is a fixed number.
    static Divisor of(const Plan &plan, const Call &call) {
        const Count by = call.count;
        if ((by == Count::COUNTED && plan.same_count) || (by == Count::REAL && plan.same_real))
            return {Count::FIXED, static_cast<double>(plan.cells)};
        Divisor divisor{by, by == Count::FIXED ? call.divisor : 1.0};
        if (by == Count::EACH) divisor.each = EachDivisor::of(call);
        return divisor;
    }
    bool varies() const { return by == Count::COUNTED || by == Count::REAL; }
};

// How many cells each output of a row counts along the row; of long rows only where that varies.
struct CountsAlong {
    i64 whole_from = 0, whole_to = 0, left_out = 0;  // elements that count as many as the kernel has, and are not kept
    double common = 1;
    double *table = nullptr;
    i64 listed = 0;  // elements of the table

    // Sets itself up, with room for `more` tables after its own; what it gives is to be held as long as it is used.
    Scratch<double> fill(const Plan &plan, Count by, int more = 0) {
        const Axis &axis = plan.last();
        const i64 inner = plan.inner;
        auto cells = [&](i64 o) { return by == Count::REAL ? axis.taps(o).count : axis.counted(o); };
        i64 first = 0, stop = axis.adaptive ? 0 : axis.output;
        while (first < stop && cells(first) != axis.kernel) ++first;
        while (stop > first && cells(stop - 1) != axis.kernel) --stop;
        whole_from = first * inner, whole_to = stop * inner, common = static_cast<double>(axis.kernel);
        // A register that is not all in the middle starts before it, or less than a register before its end.
        const i64 middle = stop - first - 2 * (MARGIN / inner + 1), gap = first + MARGIN / inner + 1;
        left_out = middle > 0 ? middle : 0;
        listed = (axis.output - left_out) * inner;
        Scratch<double> block((1 + more) * (listed + MARGIN), "divisors of a row");
        double *to = block.data();
        for (i64 o = 0; o < axis.output; o += o + 1 == gap ? 1 + left_out : 1) {
            const double count = static_cast<double>(cells(o));  // a division, where bins differ
            for (i64 e = 0; e < inner; ++e) *to++ = count;
        }
        for (i64 i = 0; i < MARGIN; ++i) *to++ = 1;  // what is left in memory may be numbers that are slow to work with
        left_out *= inner;
        table = block.data();
        return block;
    }
    // Of the outputs from element `at` of the row on.
    template <int N>
    NDPOOL_INLINE vec<double, N> at(i64 at) const {
        return are_whole<N>(at) ? splat<double, N>(common) : load<N>(table + place_of(at));
    }
    // The place of an output in its table, and in those that follow.
    NDPOOL_INLINE i64 place_of(i64 at) const { return at < whole_from ? at : at - left_out; }
    double *another_table(int number) const { return table + number * (listed + MARGIN); }

    // Whether these all have the common one.
    template <int N>
    NDPOOL_INLINE bool are_whole(i64 at) const {
        return at >= whole_from && at + N <= whole_to;
    }

  private:
    static constexpr i64 MARGIN = 64;
};

// One over what the outputs of a row count, for the rows that differ: divisions take longer than sums do. Rows at edges
// and in bins differ in few ways, so the last ones are kept.
class SharesAlong {
  public:
    static constexpr int KEPT = 4;

    void move_to(const CountsAlong &along, double across) {
        for (int i = 0; i < KEPT; ++i)
            if (kept[i] == across) {
                row = along.another_table(1 + i);
                return;
            }
        oldest = (oldest + 1) % KEPT;
        kept[oldest] = across;
        row = along.another_table(1 + oldest);
        constexpr int N = LANES<double>;
        for (i64 i = 0; i < along.listed + N; i += N) store<N>(row + i, 1 / (load<N>(along.table + i) * across));
    }
    template <int N>
    NDPOOL_INLINE vec<double, N> at(i64 place) const {
        return load<N>(row + place);
    }

  private:
    double kept[KEPT] = {};  // how often each of these rows counts
    int oldest = 0;
    double *row = nullptr;
};

// Writes totals of P, divided, as R. A total that is wider than R may be multiplied by the reciprocal of all that its
// window counts instead: the error is far below R's last place. AnyInteger is 64 bits, or a mean that is rounded to an
// integer of fewer.
template <class P, class R, bool PAST = false>
struct SumSink {
    using A = typename P::Lane;
    using Pointer = typename PointerTo<R>::type;
    static constexpr bool STREAMS = std::is_same_v<R, float>, INTEGERS = std::is_same_v<R, AnyInteger>,
                          BY_RECIPROCAL = !INTEGERS && sizeof(R) < sizeof(double);
    Pointer y;
    Divisor divisor;
    Pointer row = {};
    CountsAlong along = {};       // where divisors vary
    SharesAlong shares = {};      // and are multiplied by
    double across = 1;            // the row's part of the divisor
    double whole_share = 1;       // one over the divisor of the row's windows that count as many as the kernel has
    EachDivisor each = {};        // the row's divisors, where every output has its own
    Rounding rounding = Rounding::NONE;
    Rounder rounder = {};  // by the common divisor

    SumSink<P, R, true> past_the_caches() const {
        return {y, divisor, row, along, shares, across, whole_share, each};
    }
    Scratch<double> take_room(const Plan &plan) {
        if (!divisor.varies()) return {};
        return along.fill(plan, divisor.by, BY_RECIPROCAL ? SharesAlong::KEPT : 0);
    }
    void move_to(const Plan &plan, i64 index, const OutputRow &rows) {
        row = y + index * plan.out_row;
        if (divisor.by == Count::EACH) each = divisor.each.from(index * plan.out_row);
        if (!divisor.varies()) return;
        const i64 cells = divisor.by == Count::REAL ? rows.real : rows.counted;
        across = static_cast<double>(cells);
        whole_share = 1 / (along.common * across);
        if (BY_RECIPROCAL) shares.move_to(along, across);
        if (INTEGERS && rounding != Rounding::NONE)
            if (const i64 n = cells * static_cast<i64>(along.common); n != rounder.n) rounder = {rounding, n};
    }
    void finish(const Plan &, i64, const OutputRow &, i64, i64) {}
    bool finishes() const { return divisor.by == Count::EACH; }  // so that rows come one by one
    bool rows_differ() const { return divisor.varies(); }
    template <class Use>
    NDPOOL_INLINE void over_arrays(const Use &use) {
        use(y, row);
    }
    // What the outputs first..stop-1 of the row are all divided by and rounded, if a shift does that; or else null.
    const Rounder *shifts(i64 first, i64 stop) const {
        if (rounding == Rounding::NONE || rounder.shift < 0 || divisor.by == Count::EACH) return nullptr;
        const bool same = !divisor.varies() || (first >= along.whole_from && stop <= along.whole_to);
        return same ? &rounder : nullptr;
    }
    template <int N>
    NDPOOL_INLINE void put(i64 at, const typename P::template State<N> &s, int count) const {
        if constexpr (INTEGERS)
            put_integers<N>(at, s, count);
        else
            put_floats<N>(at, s, count);
    }

  private:
    template <int N>
    NDPOOL_INLINE void put_floats(i64 at, const typename P::template State<N> &s, int count) const {
        put_some<N, PAST>(row + at, count, [&](R *p) {
            const vec<A, N> total = P::template total<N>(s);
            if (std::is_same_v<R, A> && divisor.by == Count::NONE)
                store_as<N>(p, total);
            else
                store_as<N>(p, quotients<N>(at, convert<double, N>(total)));
        });
    }
    template <int N>
    NDPOOL_INLINE vec<double, N> quotients(i64 at, vec<double, N> sum) const {
        if (divisor.by == Count::EACH)
            return BY_RECIPROCAL ? sum * each.template share<N>(at) : sum / each.template at<double, N>(at);
        if (divisor.varies() && BY_RECIPROCAL)
            return sum * (along.are_whole<N>(at) ? splat<double, N>(whole_share) : shares.at<N>(along.place_of(at)));
        if (INTEGERS && divisor.varies() && along.are_whole<N>(at))
            return quotient_of_integers<N>(sum, along.common * across, whole_share);
        if (divisor.varies()) return sum / (along.at<N>(at) * across);
        if (BY_RECIPROCAL) return sum * divisor.share;
        if (divisor.by == Count::NONE) return sum;
        return divisor.whole ? quotient<N>(sum, divisor.fixed, divisor.share) : sum / divisor.fixed;
    }

    // --- integers ---

    // The first `count` of N, as T, which has as many bytes as the elements.
    template <class T, int N, class V>
    NDPOOL_INLINE void put_as(i64 at, const V &v, int count) const {
        put_some<N>(reinterpret_cast<T *>(row.first) + at, count, [&](T *p) { store_as<N>(p, v); });
    }
    template <int N>
    NDPOOL_INLINE void put_integers(i64 at, const typename P::template State<N> &s, int count) const {
        if constexpr (P::PLANES == 1)
            if (rounding == Rounding::NONE) {
                const vec<A, N> sum = P::template total<N>(s);
                if (divisor.by == Count::NONE) return put_as<std::int64_t, N>(at, sum, count);
                return put_as<double, N>(at, quotients<N>(at, convert<double, N>(sum)), count);
            }
        put_rounded<N>(at, s, count);
    }
    // Not inlined, so that what other sums need can be; and by value, so that these stay in registers.
    template <int N>
    __attribute__((noinline)) void put_rounded(i64 at, typename P::template State<N> s, int count) const {
        const vec<A, N> mean = rounded_means<N>(at, s);
        if constexpr (P::PLANES == 2) {
            put_as<std::uint64_t, N>(at, mean, count);
        } else {
            if (row.bytes == 1) return put_as<std::uint8_t, N>(at, mean, count);
            if (sizeof(A) == 4 || row.bytes == 2) return put_as<std::uint16_t, N>(at, mean, count);
            put_as<std::uint32_t, N>(at, mean, count);
        }
    }
    template <int N>
    NDPOOL_INLINE vec<A, N> rounded_means(i64 at, const typename P::template State<N> &s) const {
        if (divisor.by == Count::EACH) return RoundedMeans<A, N>(rounding, each.template at<A, N>(at)).of(s);
        if (!divisor.varies() || along.are_whole<N>(at)) return RoundedMeans<A, N>(rounder).of(s);
        return RoundedMeans<A, N>(rounding, convert<A, N>(along.at<N>(at) * across)).of(s);
    }
};

// Writes totals times one number for all: sums of floats, divided by a common divisor.
template <bool PAST>
struct ScaledSink {
    float *row;
    double share;

    template <class Use>
    NDPOOL_INLINE void over_arrays(const Use &use) {
        use(row, row);
    }
    template <int N>
    NDPOOL_INLINE void put(i64 at, const Total<double>::State<N> &s, int) const {
        if constexpr (PAST)
            stream<N>(row + at, convert<float, N>(s.v * share));
        else
            store_as<N>(row + at, s.v * share);
    }
};
template <bool PAST, class Use>
NDPOOL_INLINE void with_simplest(const SumSink<Total<double>, float, PAST> &sink, const Use &use) {
    if (sink.divisor.varies() || sink.divisor.by == Count::EACH) return use(sink);
    use(ScaledSink<PAST>{sink.row, sink.divisor.share});
}

// --- the transpose ------------------------------------------------------------------------------

// What an output hands to each of its cells.
template <class T, class Sum = double>
struct SumSource {
    using A = Sum;
    static constexpr bool SPARES_PADDING = false;
    static constexpr Lines FIRST = std::is_same_v<T, double> ? Lines::PLANES : Lines::NONE;  // as by spreading
    const T *q;                                                                              // the slab's
    template <int N>
    NDPOOL_INLINE void ahead(i64 output) const {
        prefetch<N>(q + output);
    }
    template <int N>
    NDPOOL_INLINE vec<A, N> of(i64 output) const {
        return load_as<A, N>(q + output);
    }
    template <int N>
    NDPOOL_INLINE vec<A, N> add(vec<A, N> sum, i64 output, i64) const {
        return sum + of<N>(output);
    }
    SumSource with(const Border &border, Scratch<char> *copies) const { return {border.around(q, copies[0])}; }
};
template <class T, class Sum>
constexpr bool HANDS_ALL_THE_SAME<SumSource<T, Sum>> = true;

// SQUARES_TOO says whether the way by squares is compiled for it.
template <class From, class To, bool SQUARES_TOO>
struct Transposition {
    static constexpr bool SQUARES = SQUARES_TOO;
    From from;
    To to;
};

// The transpose of the sum, by squares or by spreading rows. prepare(in, part, use) calls use(job) with the
// Transposition for a part of the input and the part of the outputs that is over it. A slab is cut into `cuts` parts.
template <class Prepare>
void transpose_all(const Plan &plan, void *gx, i64 element_bytes, Way way, const Route &route, const Prepare &prepare,
                   i64 cuts) {
    over_input_parts(plan, Gradient(plan, gx, element_bytes, route), cuts, [&](const auto &over) {
        over([&](const InputPart &in) {
            prepare(in, outputs_over(plan, in.begin, in.end), [&](const auto &job) {
                using Job = std::decay_t<decltype(job)>;
                if constexpr (Job::SQUARES)
                    if (way == Way::SQUARES && fill_squares(plan, in, job.from, job.to)) return;
                const i64 rows = plan.dim_count ? plan.in_rows / plan.axes[0].length * (in.end - in.begin) : 1;
                using A = typename decltype(job.from)::A;
                const bool exact = sizeof(A) == static_cast<std::size_t>(element_bytes);
                PartSpreader<A, decltype(job.to)>(plan, rows, false, exact).fill(job.from.q, in, job.to);
            });
        });
    });
}

// Room for what the outputs of a part hand on.
template <class T>
class PartPlane {
  public:
    PartPlane(const Plan &plan, const OutputPart &part)
        : first(part.row_begin * plan.out_row + part.begin * plan.inner),
          block((part.row_end - part.row_begin) * (part.end - part.begin) * plan.inner + 64, "outputs of a part") {}
    // Counted from the slab's first output.
    T *data() const { return block.data() - first; }

  private:
    const i64 first;
    Scratch<T> block;
};

// A slab or more at a time, or a part of one: so many elements as stay near. Depends on the shape alone.
class SlabGroups {
  public:
    i64 units;
    i64 most_outputs;  // that a unit sees along the first axis, of each slab
    i64 group;         // slabs of a unit

    SlabGroups(const Plan &plan, const Gradient &to) : plan(plan), axis(plan.axes[0]), to(to) {
        constexpr i64 ELEMENTS = 1 << 14;
        const i64 beyond = axis.adaptive ? 1 : axis.dilation * (axis.kernel - 1) + 1 - axis.stride;
        cuts = cuts_of(plan, ELEMENTS, beyond < 1 ? 1 : beyond);
        group = cuts > 1 ? 1 : ELEMENTS / (plan.in_slab > plan.out_slab ? plan.in_slab : plan.out_slab);
        group = group < 1 ? 1 : group > plan.outer ? plan.outer : group;
        units = (plan.outer + group - 1) / group * cuts;
        most_outputs = cuts == 1 ? axis.output : 0;
        for (i64 cut = 0; cuts > 1 && cut < cuts; ++cut) {
            i64 lo, hi;
            axis.outputs_over(edge(cut), edge(cut + 1), &lo, &hi);
            if (hi - lo > most_outputs) most_outputs = hi - lo;
        }
    }

    // Calls f(part, its outputs, how many slabs) for units begin..end-1.
    template <class F>
    void over(i64 begin, i64 end, const F &f) const {
        const bool in_lines = to.in_lines(plan.in_row);
        for (i64 unit = begin; unit < end; ++unit) {
            const i64 slab = slabs_before(unit), cut = unit % cuts;
            const InputPart part{slab, edge(cut), edge(cut + 1), to.gx + slab * slab_bytes(), to.streamed, in_lines};
            if (cuts > 1)
                f(part, outputs_over(plan, part.begin, part.end), i64(1));
            else
                f(part, OutputPart{0, plan.out_rows, 0, plan.last().output}, slabs_before(unit + 1) - slab);
        }
        if (to.streamed) end_streaming();
    }
    i64 slabs_of(i64 begin, i64 end) const { return slabs_before(end) - slabs_before(begin); }
    // Where the cells of a unit start.
    char *start_of(i64 unit) const {
        return to.gx + slabs_before(unit) * slab_bytes() + edge(unit % cuts) * (slab_bytes() / axis.length);
    }

  private:
    const Plan &plan;
    const Axis &axis;
    const Gradient &to;
    i64 cuts;

    i64 slab_bytes() const { return plan.in_slab * to.element_bytes; }
    i64 slabs_before(i64 unit) const {
        const i64 slabs = unit / cuts * group;
        return slabs < plan.outer ? slabs : plan.outer;
    }
    // Pairs of cells are not cut in two.
    i64 edge(i64 cut) const { return cut == cuts ? axis.length : axis.length * cut / cuts / 2 * 2; }
};

// Of cells of a window without padding, if that is the same for all of them; or else 1.
inline double cells_of_whole(const Plan &plan) {
    for (int a = 0; a < plan.axis_count; ++a)
        if (plan.axes[a].adaptive) return 1;
    return static_cast<double>(plan.cells);
}

// What outputs hand to their cells, in lanes of A: cotangents over divisors.
//
// Where that is rounded to fewer bits in the end, whole windows hand on their cotangents as they are, whose sums are
// exact as a rule, and others the more the fewer cells they count. What a cell gets is multiplied by scale() at last.
template <class A, class G>
class Quotients {
    static constexpr int N = LANES<A>;
    static constexpr bool EXACT = sizeof(A) == sizeof(G);

  public:
    // For so many slabs. Around the outputs of a row there is room for missing ones, with zeros.
    Quotients(const Plan &plan, const Divisor &divisor, const G *all, const SlabGroups &groups, i64 slabs,
              const Missing &missing)
        : plan(plan), divisor(divisor), all(all), missing(missing), start((plan.inner + MARGIN + N - 1) / N * N) {
        const bool one_row = plan.dim_count == 0;
        const i64 outputs = one_row ? groups.most_outputs : plan.last().output,
                  rows = groups.group * (one_row ? 1 : plan.out_rows / plan.axes[0].output * groups.most_outputs);
        pitch = (missing.before + outputs + missing.after) * plan.inner;
        block.grow(start + rows * pitch + MARGIN, "what outputs hand on");
        zeros(block.data(), start);
        zeros(block.data() + start + rows * pitch, MARGIN);
        for (i64 row = 0; row < rows; ++row) clear_around(block.data() + start + row * pitch, outputs * plan.inner);
        if (!divisor.varies()) return;
        counts = along.fill(plan, divisor.by);
        list_counts(slabs > 1);
    }

    static double scale(const Plan &plan, const Divisor &divisor) {
        if (EXACT || divisor.by == Count::EACH) return 1;
        return divisor.varies() ? 1 / cells_of_whole(plan) : divisor.share;
    }

    // Of a part of a slab whose cotangents are at g, or of several slabs, from the first output of the slab on.
    A *of(const G *g, const OutputPart &part, i64 slabs) {
        const i64 each = part.row_end - part.row_begin, first = part.begin * plan.inner,
                  length = (part.end - part.begin) * plan.inner;
        A *to = block.data() + start;
        if (length < plan.out_row) {  // other parts of the row were here before
            clear_around(to, length);
            zeros(to + (missing.before + missing.after) * plan.inner + length, MARGIN);
        }
        const bool side_by_side =
            pitch == plan.out_row && length == plan.out_row && (!divisor.varies() || rows_kept == plan.out_rows);
        for (i64 slab = 0; slab < slabs; ++slab, g += plan.out_slab) {
            A *at = to + slab * each * pitch;
            if (side_by_side) {
                divide(g + part.row_begin * pitch, at, each * pitch, part.row_begin, 0);
                continue;
            }
            at += missing.before * plan.inner;
            for (i64 row = part.row_begin; row < part.row_end; ++row, at += pitch)
                divide(g + row * plan.out_row + first, at, length, row, first);
        }
        return to - part.row_begin * pitch - first;
    }

  private:
    static constexpr i64 MARGIN = 4 * N, MOST_KEPT = 1 << 14;  // elements that may be read beyond; divisors
    const Plan &plan;
    const Divisor divisor;
    const G *const all;  // the cotangents from the first one on
    const Missing missing;
    const i64 start;  // of the outputs in the block
    i64 pitch;        // elements from one row to the next
    i64 rows_kept = 0;
    Scratch<A> block, table;
    CountsAlong along;
    Scratch<double> counts;
    i64 at_row = -2, outputs[MAX_DIMS], cells_up_to[MAX_DIMS];
    const double whole_cells = cells_of_whole(plan);
    double listed = 0;  // of the one row that is kept, how many cells it counts along the other axes

    // The factors of a slab, or of one row.
    void list_counts(bool many) {
        rows_kept = many && plan.out_slab <= MOST_KEPT ? plan.out_rows : plan.out_row <= MOST_KEPT ? 1 : 0;
        table.grow(rows_kept * plan.out_row + N, "divisors of a slab");
        if (rows_kept == plan.out_rows)
            for (i64 row = 0; row < rows_kept; ++row) list_row(table.data() + row * plan.out_row, across_of(row));
    }
    void list_row(A *to, double across) {
        for (i64 i = 0; i < plan.out_row; i += N) store<N>(to + i, factors(i, across));
        listed = across;
    }
    // What outputs from element i of a row on are divided by, or multiplied with. The row counts so many cells along
    // the other axes.
    NDPOOL_INLINE vec<A, N> factors(i64 i, double across) const {
        const vec<double, N> cells = along.at<N>(i) * across;
        return convert<A, N>(EXACT ? cells : whole_cells / cells);
    }
    // What a row's windows count along the other axes. Rows are mostly asked for in order.
    double across_of(i64 row) {
        if (row != at_row + 1 || plan.dim_count == 0) {
            i64 index = row;
            for (int d = plan.dim_count - 1; d >= 0; --d) {
                outputs[d] = index % plan.dims[d].out_count;
                index /= plan.dims[d].out_count;
            }
            count_from(0);
        } else {
            int d = plan.dim_count - 1;
            while (++outputs[d] == plan.dims[d].out_count) outputs[d--] = 0;
            count_from(d);
        }
        at_row = row;
        return static_cast<double>(plan.dim_count ? cells_up_to[plan.dim_count - 1] : 1);
    }
    void count_from(int d) {
        for (; d < plan.dim_count; ++d) {
            const int a = plan.dims[d].axis;
            i64 cells = d > 0 ? cells_up_to[d - 1] : 1;
            if (a >= 0)
                cells *=
                    divisor.by == Count::REAL ? plan.axes[a].taps(outputs[d]).count : plan.axes[a].counted(outputs[d]);
            cells_up_to[d] = cells;
        }
    }
    static void zeros(A *to, i64 length) { std::memset(to, 0, sizeof(A) * static_cast<std::size_t>(length)); }
    void clear_around(A *row, i64 length) const {
        const i64 before = missing.before * plan.inner, after = missing.after * plan.inner;
        for (i64 i = 0; i < before; ++i) row[i] = 0;
        for (i64 i = 0; i < after; ++i) row[before + length + i] = 0;
    }

    // `length` outputs, from element `first` of a row on.
    void divide(const G *from, A *to, i64 length, i64 row, i64 first) {
        using V = vec<A, N>;
        auto each = [&](const auto &quotient) NDPOOL_INLINED {
            if (length >= N)
                return whole_blocks<N>(
                    length, [&](i64 i) NDPOOL_INLINED { store<N>(to + i, quotient(load_as<A, N>(from + i), i)); });
            for (i64 i = 0; i < length; ++i) to[i] = quotient(splat<A, N>(load_as<A, 1>(from + i)[0]), i)[0];
        };
        if (divisor.by == Count::NONE) return each([](V v, i64) NDPOOL_INLINED { return v; });
        auto over = [&](const auto &by) NDPOOL_INLINED {
            each([&](V v, i64 i) NDPOOL_INLINED { return EXACT ? v / by(i) : v * by(i); });
        };
        if (divisor.by == Count::EACH) {
            const EachDivisor own = divisor.each.from(from - all);
            if constexpr (EXACT || sizeof(A) < sizeof(double))
                return each([&](V v, i64 i) NDPOOL_INLINED { return v / own.template at<A, N>(i); });
            else
                return each([&](V v, i64 i) NDPOOL_INLINED { return v * own.template share<N>(i); });
        }
        if (!divisor.varies()) {
            const V by = splat<A, N>(static_cast<A>(divisor.fixed)), share = splat<A, N>(static_cast<A>(divisor.share));
            return each([&](V v, i64) NDPOOL_INLINED { return EXACT ? near_quotient<A, N>(v, by, share) : v; });
        }
        const A *kept = table.data() + first;
        if (rows_kept == plan.out_rows) {
            kept += row * plan.out_row;
            return over([&](i64 i) NDPOOL_INLINED { return load<N>(kept + i); });
        }
        const double across = across_of(row);
        if (rows_kept && across != listed) list_row(table.data(), across);
        if (rows_kept) return over([&](i64 i) NDPOOL_INLINED { return load<N>(kept + i); });
        const V common =
            splat<A, N>(static_cast<A>(EXACT ? along.common * across : whole_cells / (along.common * across)));
        over([&](i64 i) NDPOOL_INLINED { return along.are_whole<N>(first + i) ? common : factors(first + i, across); });
    }
};

// Whether no two windows have a cell in common.
inline bool one_window_each(const Plan &plan) {
    for (int a = 0; a < plan.axis_count; ++a) {
        const Axis &axis = plan.axes[a];
        if (axis.adaptive ? axis.length % axis.output != 0 : axis.kernel > axis.stride || axis.dilation > 1)
            return false;
    }
    return true;
}

// Whether floats hold all divisors exactly.
inline bool floats_hold(const Plan &plan, const Divisor &divisor) {
    if (divisor.varies() || divisor.by == Count::EACH) return plan.cells <= 1 << 24;
    return static_cast<double>(static_cast<float>(divisor.fixed)) == divisor.fixed;
}

inline bool is_power_of_two(double v) {
    int exponent;
    return std::frexp(v, &exponent) == 0.5;
}

// The transpose by spreading; target(gx) is the Target for what is there.
template <class A, class G, class MakeTarget>
void spread_quotients(const Plan &plan, const Divisor &divisor, const G *g, const Gradient &gx,
                      const MakeTarget &target) {
    const SlabGroups groups(plan, gx);
    parallel(groups.units, worth_threads(plan.outer * plan.in_slab), [&](i64 begin, i64 end) {
        PartSpreader<A, decltype(target(gx.gx))> spreader(plan, plan.in_rows * groups.group, true,
                                                          sizeof(A) == sizeof(G), groups.start_of(end));
        Quotients<A, G> quotients(plan, divisor, g, groups, groups.slabs_of(begin, end), spreader.missing());
        groups.over(begin, end, [&](const InputPart &in, const OutputPart &out, i64 slabs) {
            spreader.fill(quotients.of(g + in.slab * plan.out_slab, out, slabs), in, target(in.gx), slabs);
        });
    });
}

// The same by squares.
template <class A, class G, class MakeTarget>
void square_quotients(const Plan &plan, const Divisor &divisor, const G *g, const Gradient &gx,
                      const MakeTarget &target) {
    const SlabGroups groups(plan, gx);
    parallel(groups.units, worth_threads(plan.outer * plan.in_slab), [&](i64 begin, i64 end) {
        Quotients<A, G> quotients(plan, divisor, g, groups, groups.slabs_of(begin, end), {});
        groups.over(begin, end, [&](InputPart in, const OutputPart &out, i64 slabs) {
            const A *q = quotients.of(g + in.slab * plan.out_slab, out, slabs);
            for (const i64 last = in.slab + slabs; in.slab < last; ++in.slab, q += plan.out_slab) {
                fill_squares(plan, in, SumSource<A, A>{q}, target(in.gx));
                in.gx += plan.in_slab * gx.element_bytes;
            }
        });
    });
}

// With one divisor for all windows, floats are read as they are.
template <class A, class MakeTarget>
void square_floats(const Plan &plan, const float *g, const Gradient &gx, const MakeTarget &target) {
    over_input_parts(plan, gx, [&](const auto &over) {
        over([&](const InputPart &in) {
            fill_squares(plan, in, SumSource<float, A>{g + in.slab * plan.out_slab}, target(in.gx));
        });
    });
}

// How many windows are over a cell at most, as the window says.
inline i64 windows_over_cell(const Plan &plan) {
    i64 over = 1;
    for (int a = 0; a < plan.axis_count; ++a) {
        const Axis &axis = plan.axes[a];
        over *= axis.adaptive ? axis.output / axis.length + 2 : axis.dilation * (axis.kernel - 1) / axis.stride + 1;
    }
    return over;
}

// Up to so many numbers of 16 bits are added up as floats, in which their sum is exact as a rule.
constexpr i64 FEW_NARROW = 9;

// Sums in A, which has more bits than what is added up, but for doubles, which have none wider.
template <class A, class G>
void sum_vjp_in(const Plan &plan, const Divisor &divisor, const G *g, G *gx, const Route &route) {
    constexpr bool FLOATS = std::is_same_v<G, float>, DOUBLES = std::is_same_v<G, double>,
                   MANY_NARROW = sizeof(A) > 2 * sizeof(G);
    bool squares = !MANY_NARROW;
    if constexpr (DOUBLES) {  // which are added up in one order: squares keep it over one axis of few planes
        squares = plan.axis_count <= 3;
        if (plan.axis_count == 3 && RunningSums<A>::suit(plan.axes[0], true)) squares = false;
    }
    const Way way = way_back<A>(plan, {4, squares}, Way::SPREAD, route);
    if (route.tell(way)) return;
    const Gradient gradient(plan, gx, sizeof(G), route);
    auto target = [](auto zero, double scale) {
        using Sum = decltype(zero);
        return [scale](char *to) {
            if constexpr (sizeof(G) == 2)
                return NarrowTarget<Sum>{to, std::is_same_v<G, BFloat>, static_cast<Sum>(scale)};
            else
                return GradientTarget<G, Sum>{reinterpret_cast<G *>(to), static_cast<Sum>(scale)};
        };
    };
    if constexpr (FLOATS)
        if (way == Way::SQUARES && !divisor.varies() && divisor.by != Count::EACH) {
            if (one_window_each(plan) && is_power_of_two(divisor.share))  // a product with which is not rounded at all
                return square_floats<float>(plan, g, gradient, target(float(), divisor.share));
            return square_floats<A>(plan, g, gradient, target(A(), divisor.share));
        }
    const double scale = Quotients<A, G>::scale(plan, divisor);
    if constexpr (!MANY_NARROW)
        if (way == Way::SQUARES) return square_quotients<A>(plan, divisor, g, gradient, target(A(), scale));
    if constexpr (FLOATS)  // a quotient by itself is rounded once
        if (one_window_each(plan) && floats_hold(plan, divisor))
            return spread_quotients<float>(plan, divisor, g, gradient, target(float(), 1));
    spread_quotients<A>(plan, divisor, g, gradient, target(A(), scale));
}

template <class G>
void sum_vjp(const Plan &plan, const Divisor &divisor, const G *g, G *gx, const Route &route) {
    if constexpr (sizeof(G) == 2)
        if (windows_over_cell(plan) <= FEW_NARROW) return sum_vjp_in<float>(plan, divisor, g, gx, route);
    sum_vjp_in<double>(plan, divisor, g, gx, route);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
