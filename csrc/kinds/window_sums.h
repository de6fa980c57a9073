// The sums of the windows of a part, over the terms of their cells.
#pragma once
#include "kinds/lone_window.h"
#include "kinds/square_sums.h"
#include "kinds/terms.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Writes sums as they are, in doubles: what an exact one has lost is so much further on.
template <class L>
struct WholeSumSink : RowsOf<double> {
    i64 further;

    template <int N>
    void put(i64 at, const typename L::template State<N> &s, int count) {
        put_some<N>(row + at, count, [&](double *p) { store<N>(p, s.v); });
        if constexpr (L::PLANES == 2) put_some<N>(row + further + at, count, [&](double *p) { store<N>(p, s.with); });
    }
};

// Pools the cells of a part, or what they have become, into a sink for its outputs, which follow each other.
template <Tuned TUNED, class P, class Terms, class Sink>
void pool_part(const Terms &terms, const typename P::In *cells, Sink sink, const Route &route) {
    using Lanes = typename P::Lanes;
    const Plan &plan = terms.plan;
    const OutputPart part = terms.part;
    const P p{};
    if (terms.has_plan()) return pool_all<TUNED>(terms.own_plan(), p, cells, sink, route);
    OutputRow rows(plan);
    const auto lanes = p.lanes();
    const auto from = source_of(p, cells - terms.low(), terms.in_end * first_stride(plan));
    LanePooler<Lanes, Sink> pooler(plan, lanes, from, plan.last().output,
                                   choose_forward(plan, lanes_by_rows<Lanes>(), Way::NONE));
    for (i64 row = part.row_begin; row < part.row_end; ++row) {
        rows.move_to(row);
        sink.move_to(plan, row - part.row_begin, rows);
        sink.row -= part.begin * plan.inner;
        pooler.pool(0, rows, sink, part.begin, part.end, part.end * plan.inner, 0);
    }
}

// Sums, of type S, over terms of type E. They are added up in doubles, those of doubles with the errors of all
// additions.
template <class E, class S>
struct WindowSums {
    using Term = E;
    using Sum = S;
    PartTerms<E> &terms;
    const Plan &plan;
    const Smooth &kind;
    const OutputPart part;
    const bool unknown;  // whether nothing was added up, as most of them would not be good
    S *sum;              // rows of the part one after the other
    i64 bad;             // how many are not good, but for those that are NaN
    i64 nans = 0;        // how many are NaN because of a cell that is

    i64 outputs() const { return (part.end - part.begin) * plan.inner; }
    i64 count() const { return terms.outputs(); }
    // Where the outputs start in the slab.
    i64 start() const { return terms.start(); }
    // Whether what is done for the whole part takes no longer than to do it for the windows whose sums are not good.
    bool are_many_bad() const { return unknown || 16 * bad * plan.cells > terms.length(); }
    // Where the sum of output (o, e) is, in a row of a slab.
    i64 place_of(i64 slab, i64 row, i64 o, i64 e) const {
        const i64 all_rows = (slab - terms.slab) * plan.out_rows + row - part.row_begin;
        return all_rows * outputs() + (o - part.begin) * plan.inner + e;
    }

    WindowSums(PartTerms<E> &terms, bool with_weights, bool unknown = false)
        : terms(terms),
          plan(terms.plan),
          kind(terms.kind),
          part(terms.part),
          unknown(unknown),
          block(count() + 64, "sums of a part") {
        sum = block.data();
        if (unknown)
            for (i64 i = 0; i < count(); ++i) sum[i] = static_cast<S>(__builtin_nan(""));
        else if (terms.in_pieces)
            sum_pieces(sum, false, terms.are_squares(), [&](i64, i64) { return terms.e; });
        else
            terms.fill(with_weights), terms.are_squares() ? pool_squares() : pool(terms.e, sum);
        if (kind.count_pad && plan.padded && !unknown) add_padding();
        if (kind.few) pass_over_absent(kind.few);
        if (kind.many) pass_over_absent(kind.many);
        bad = count_bad();
        if (bad && !unknown && !terms.in_pieces) count_nans();
    }

    // The windows' changes along a tangent, which the weights of its cells take part in.
    void weigh(Type tangent_type, const void *t, S *to) {
        Scratch<E> block;
        // The tangent of cells, times their weights.
        auto weighted = [&](i64 from, i64 many, const E *weight) {
            block.grow(many + 64, "a part of the tangent");
            constexpr int M = LANES<E>;
            E *tangent = block.data();
            load_plane(tangent_type, t, terms.slab * plan.in_slab + from, many, tangent);
            over_cells(weight, many, [tangent](i64 i, vec<E, M> w) NDPOOL_INLINED {
                // A cell without weight does not meet its tangent, which may be infinite.
                const vec<E, M> zero{};
                store<M>(tangent + i, w == 0 ? zero : w * load<M>(tangent + i));
            });
            if constexpr (std::is_same_v<E, double>)
                if (kind.narrow)  // as of floats
                    over_cells(tangent, many, [tangent](i64 i, vec<E, M> v) NDPOOL_INLINED {
                        store<M>(tangent + i, to_float_bits<M>(v));
                    });
            return tangent;
        };
        if (terms.in_pieces)
            sum_pieces(to, true, false, [&](i64 from, i64 many) { return weighted(from, many, terms.weight); });
        else
            pool(weighted(terms.low(), terms.length(), terms.weight + terms.low()) - terms.low(), to);
        const auto factor = static_cast<S>(terms.weight_factor());
        with_share<S>(kind, terms.scale, [&](const auto &share) NDPOOL_INLINED {
            for (i64 i = 0; i < count(); i += N) store<N>(to + i, share(load<N>(to + i) * factor, load<N>(sum + i)));
        });
    }

    // The outputs first..first+count-1, from the sums. What becomes infinite is no good sum any more.
    void values(i64 first, i64 count, S *to) {
        S *from = sum + first;
        Truth infinite{};
        with_value<S>(kind, terms.scale, [&](const auto &value) NDPOOL_INLINED {
            Truth seen{};
            over_cells(from, count, [&value, &seen, to](i64 i, vec<S, N> total) NDPOOL_INLINED {
                const vec<S, N> v = value(total);
                seen |= size_of_each<N>(v) == static_cast<S>(__builtin_inf());
                store<N>(to + i, v);
            });
            infinite = seen;
        });
        bool any = false;
        for (int l = 0; l < N; ++l) any |= infinite[l] != 0;
        if (!any) return;
        for (i64 i = 0; i < count; ++i)
            if (size_of_each<1>(vec<S, 1>{to[i]})[0] == static_cast<S>(__builtin_inf()))
                from[i] = -1, ++bad;
    }

    bool is_nan(i64 output) const { return nans && sum[output] != sum[output]; }
    bool is_good(i64 output) const { return kind.good<E, 1>(vec<S, 1>{sum[output]})[0]; }

    // Calls f(rows, slab, row, o, e) for each output whose sum is not good, but for those that are NaN.
    template <class F>
    void over_bad(const F &f) const {
        if (bad) over_others(false, f);
    }
    // And for these.
    template <class F>
    void over_nans(const F &f) const {
        if (nans) over_others(true, f);
    }

    // Calls f(output of the part, cell) for those of one cell alone, where others are skipped: outputs that are good.
    template <class F>
    void over_alone(const F &f) {
        if (kind.few)
            over_alone_in(kind.few, f);
        else if (kind.many)
            over_alone_in(kind.many, f);
    }

  private:
    const Scratch<S> block;
    static constexpr int N = LANES<S>;
    static constexpr Tuned TUNED = std::is_same_v<E, float> ? Tuned::ROWS : Tuned::NOT;
    using Truth = vec<typename IntOf<sizeof(S)>::s, N>;  // what comparisons of N sums give

    template <class F>
    void over_others(bool nan, const F &f) const {
        OutputRow rows(plan);
        for (i64 row = part.row_begin; row < part.row_end; ++row) {
            const i64 start = (row - part.row_begin) * outputs();
            bool moved = false;
            for (i64 i = 0; i < outputs(); i += N) {
                const Truth good = kind.good<E, N>(load<N>(sum + start + i));
                for (i64 k = i; k < outputs() && k < i + N; ++k) {
                    if (good[k - i] || is_nan(start + k) != nan) continue;
                    if (!moved) rows.move_to(row % plan.out_rows), moved = true;
                    f(rows, terms.slab + row / plan.out_rows, row % plan.out_rows, part.begin + k / plan.inner,
                      k % plan.inner);
                }
            }
        }
    }

    template <class T, class F>
    void over_alone_in(const T *there, const F &f) {
        there += terms.slab * plan.out_slab + start();
        bool any = false;
        for (i64 i = 0; i < count(); ++i) any |= there[i] == 1;
        if (!any || terms.in_pieces) return;
        // The sum of a window's cells, without those that are skipped.
        const i64 low = terms.low(), length = terms.length();
        const Scratch<E> cells(length + 64, "cells of a part");
        const Scratch<S> sums(count() + 64, "cells that are alone");
        load_plane(terms.type, terms.x, terms.slab * plan.in_slab + low, length, cells.data());
        over_cells(cells.data(), length, [to = cells.data()](i64 i, vec<E, LANES<E>> v) NDPOOL_INLINED {
            const vec<E, LANES<E>> zero{};
            store<LANES<E>>(to + i, v - v == 0 ? v : zero);
        });
        pool(cells.data() - low, sums.data());
        OutputRow rows(plan);
        for (i64 i = 0, at = -1; i < count(); ++i) {
            if (there[i] != 1 || !is_good(i)) continue;
            const i64 row = (part.row_begin + i / outputs()) % plan.out_rows,
                      o = part.begin + i % outputs() / plan.inner;
            if (kind.count_pad && plan.padded) {
                if (row != at) rows.move_to(at = row);
                if (rows.counted * plan.last().counted(o) > rows.real * plan.last().taps(o).count) continue;
            }
            f(i, static_cast<double>(sums.data()[i]));
        }
    }

    // An output all of whose cells are skipped has no terms. Nobody reads it, so that any good sum will do.
    template <class T>
    void pass_over_absent(const T *there) {
        constexpr S GOOD = std::is_same_v<E, float> ? 1 : 0x1p100;
        there += terms.slab * plan.out_slab + start();  // side by side
        for (i64 i = 0; i < count(); i += N) {
            const auto none = load_as<S, N>(there + i) == 0;
            store<N>(sum + i, none ? splat<S, N>(GOOD) : load<N>(sum + i));
        }
    }

    i64 count_bad() const {
        const Smooth own = kind;  // a copy, which no store can change
        Truth bad{};              // less one for each
        over_cells(sum, count(), [&](i64, vec<S, N> some) NDPOOL_INLINED { bad += ~own.good<E, N>(some); });
        i64 all = 0;
        for (int l = 0; l < N; ++l) all -= bad[l];
        return all;
    }

    void count_nans() {
        i64 all = 0;
        for (i64 i = 0; i < count(); ++i) all += sum[i] != sum[i];
        if (all && terms.is_plain_beside_nan()) nans = all, bad -= all;
    }

    // The sums of what cells(from, many) gives for the cells of each piece, or of its squares. What additions lose is
    // kept until the end.
    template <class Cells>
    void sum_pieces(S *to, bool with_weights, bool squares, const Cells &cells) {
        const i64 all = count();
        const Scratch<CarefulSum> totals(all, "sums of pieces");
        const Scratch<double> piece_sums(2 * all + 64, "sums of a piece");
        double *own = piece_sums.data(), *lost = own + all;
        for (i64 i = 0; i < all; ++i) totals.data()[i] = {}, lost[i] = 0;
        terms.over_pieces(with_weights, [&](const Plan &piece, i64 from, i64 many) {
            if constexpr (std::is_same_v<E, double>)
                pool_piece<ExactSum<double>>(piece, cells(from, many), own, lost);
            else if (squares)
                pool_piece<SquareSum<E>>(piece, cells(from, many), own, lost);
            else
                pool_piece<PlainSum<E, double>>(piece, cells(from, many), own, lost);
            for (i64 i = 0; i < all; ++i) totals.data()[i].add(own[i]), totals.data()[i].lost += lost[i];
        });
        const double scale = squares ? terms.square_scale() : 1;
        for (i64 i = 0; i < all; ++i) to[i] = static_cast<S>(totals.data()[i].total() * scale);
    }
    template <class P>
    static void pool_piece(const Plan &piece, const E *cells, double *own, double *lost) {
        const WholeSumSink<typename P::Lanes> sink{{own}, lost - own};
        pool_all<TUNED>(piece, P{}, cells, sink, {});
    }

    // Sums over the windows of the part, whose order does not matter.
    void pool(const E *cells, S *to) const {
        if constexpr (std::is_same_v<E, double>)
            if (kind.exact) return pool_as<ExactSum<double>>(cells, to);
        pool_as<PlainSum<E, double>>(cells, to);
    }
    template <class P>
    void pool_as(const E *cells, S *to) const {
        pool_into<P>(cells, SumSink<typename P::Lanes, S>{to, {Count::NONE, 1}});
    }
    void pool_squares() const {
        if constexpr (std::is_same_v<E, float>) {
            bool odd = false;
            pool_into<SquareSum<float>>(terms.e, SquareSink<S>{{sum}, terms.square_scale(), 1, false, &odd});
        }
    }
    template <class P, class Sink>
    void pool_into(const E *cells, const Sink &sink) const {
        pool_part<TUNED, P>(terms, cells + terms.low(), sink, {});
    }

    static S in_float_bits(S v) { return static_cast<S>(to_float_bits<1>(vec<double, 1>{static_cast<double>(v)})[0]); }
    // A padded cell that counts is the number 0.
    void add_padding() {
        // No more than the largest power, so that no padding at all adds nothing.
        const double up = -terms.scale.term < 1022 ? -terms.scale.term : 1022;
        const double zero = power_of_two<LANES<double>>(splat<double, LANES<double>>(up))[0];
        const Axis &last = plan.last();
        // Along the row, windows from `whole.first` to `whole.stop` - 1 see no padding. Of the others, the cells that
        // count and the real ones.
        WholeOutputs whole = whole_outputs(last, part.begin, part.end);
        if (whole.first >= whole.stop) whole = {part.end, part.end};
        const i64 inner = plan.inner, before = whole.first - part.begin, ends = before + part.end - whole.stop;
        const Scratch<double> counts(2 * ends, "cells of a row's windows");
        double *counted = counts.data(), *real = counted + ends;
        auto output = [&](i64 i) { return i < before ? part.begin + i : whole.stop + i - before; };
        for (i64 i = 0; i < ends; ++i) {
            counted[i] = static_cast<double>(last.counted(output(i)));
            real[i] = static_cast<double>(last.taps(output(i)).count);
        }
        OutputRow rows(plan);
        for (i64 row = part.row_begin; row < part.row_end; ++row) {
            if (row == part.row_begin || row % plan.out_rows == 0)
                rows.move_to(row % plan.out_rows);
            else
                rows.move_on(1);
            S *to = sum + (row - part.row_begin) * outputs();
            const bool narrow = kind.narrow && std::is_same_v<S, double>;  // as floats are rounded before
            auto add = [to, narrow](i64 begin, i64 end, double more) {
                const auto v = static_cast<S>(more);
                for (i64 i = begin; i < end; ++i) to[i] = (narrow ? in_float_bits(to[i]) : to[i]) + v;
            };
            const auto all = static_cast<double>(rows.counted), here = static_cast<double>(rows.real);
            for (i64 i = 0; i < ends; ++i) {
                const i64 at = (output(i) - part.begin) * inner;
                add(at, at + inner, (all * counted[i] - here * real[i]) * zero);
            }
            if (rows.counted != rows.real)
                add(before * inner, (whole.stop - part.begin) * inner,
                    (all - here) * static_cast<double>(last.kernel) * zero);
        }
    }
};

// Whether values of windows that are far from each other can be found in so many passes, with lower and lower scales.
constexpr int MOST_PASSES = 4;
inline bool can_find_in_passes(const Smooth &kind) {
    return kind.exact && kind.only_values && !kind.lp && !kind.is_extreme();
}

// What terms are for: whether they may be taken in pieces, and whether weights are wanted with them.
struct TermUse {
    bool pieces, weights;
};

// Calls f(sums) with the sums over terms that are held as floats, where those do and all sums are good; as doubles
// where not.
template <class F>
void over_terms(const Plan &plan, const Smooth &kind, Type type, const void *x, const SmoothPart &part, i64 begin,
                i64 end, const TermUse &use, const F &f) {
    // With the scale as it is; says whether that did. Unless it is the last one, it did not if any sum is not good.
    auto done_as = [&](auto &terms, auto sum, bool last) {
        using E = typename std::decay_t<decltype(terms)>::Term;
        terms.accurate = true;
        WindowSums<E, decltype(sum)> sums(terms, use.weights);
        const bool accurate = std::is_same_v<E, double> || !use.weights || terms.accurate;
        if (!last && (!accurate || sums.bad)) return false;
        f(sums);
        return true;
    };
    if (kind.narrow) {
        PartTerms<float> terms(plan, kind, type, x, part, begin, end, use.pieces);
        // Powers of sums of floats would lose more than the last place.
        const bool wide = kind.is_power() && !kind.rough;
        auto done = [&] { return wide ? done_as(terms, double(), false) : done_as(terms, float(), false); };
        // Cells that are squared are not held in another scale.
        auto can = [&] { return !kind.squares || terms.cells_are_weights(); };
        terms.guess_scale();
        if (terms.apart < 120) {
            if (can() && done()) return;
            terms.measure_scale();
            if ((kind.lp ? can() : terms.reach < 120) && done()) return;
        }
    }
    PartTerms<double> terms(plan, kind, type, x, part, begin, end, use.pieces);
    terms.guess_scale();
    // Several passes find the values of windows that are not too far from each other.
    const bool in_passes = can_find_in_passes(kind) && !terms.in_pieces;
    // Windows so far from each other are not tried with a scale that they have in common.
    const double most = in_passes ? MOST_PASSES * kind.pass_apart() : kind.exact ? 640 : 1300;
    if (terms.apart > most && !terms.in_pieces && !kind.is_extreme()) {
        WindowSums<double, double> sums(terms, use.weights, true);
        return f(sums);
    }
    if (!kind.narrow && done_as(terms, double(), in_passes)) return;
    terms.measure_scale();
    done_as(terms, double(), true);
}

// Calls piece(part) for parts of the outputs small enough that their terms stay in the cache, and large enough that
// what is done once for each does not show.
template <class Piece>
void over_output_parts(const Plan &plan, const Piece &piece) {
    const Axis &axis = plan.axes[0];
    const i64 rows = plan.dim_count ? plan.out_rows / axis.output : 1, all = plan.last().output;
    const bool threads = worth_threads(plan.outer * plan.in_slab);
    const i64 together = (i64(1) << 13) / (plan.in_slab + 1);
    if (together > 1) {
        const i64 groups = (plan.outer + together - 1) / together;
        return parallel(groups, threads, [&](i64 begin, i64 end) {
            for (i64 group = begin; group < end; ++group) {
                const i64 slab = group * together, left = plan.outer - slab, slabs = left < together ? left : together;
                piece(SmoothPart{slab, slabs, {0, slabs * plan.out_rows, 0, all}, 0, axis.output});
            }
        });
    }
    i64 cuts = plan.in_slab / PART;
    i64 overlap = axis.adaptive ? 1 : 4 * (axis.dilation * axis.kernel / axis.stride + 1);
    if (cuts > axis.output / overlap) cuts = axis.output / overlap;
    if (cuts < 1) cuts = 1;
    parallel(plan.outer * cuts, threads, [&](i64 begin, i64 end) {
        for (i64 unit = begin; unit < end; ++unit) {
            i64 cut = unit % cuts, lo = axis.output * cut / cuts, hi = axis.output * (cut + 1) / cuts;
            OutputPart part = {lo * rows, hi * rows, 0, all};
            if (plan.dim_count == 0) part = {0, 1, lo, hi};
            piece(SmoothPart{unit / cuts, 1, part, lo, hi});
        }
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
