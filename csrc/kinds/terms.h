// The terms of a part of the input, and the sums of its windows.
#pragma once
#include "kinds/smooth.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Some outputs that are computed together: those lo..hi-1 along the first pooled axis of one slab, or all of several
// slabs. The rows are counted on from slab to slab.
struct SmoothPart {
    i64 slab, slabs;
    OutputPart outputs;
    i64 lo, hi;
};

// The cells of a window that is longer than this are taken in pieces, of about so many.
constexpr i64 PIECE = i64(1) << 15, LONG = 2 * PIECE;

// The input of a part from cell in_begin to in_end-1 of its first pooled axis, as terms of type E, and the sums of its
// windows, of type S.
template <class E, class S>
struct TermPart {
    const Plan &plan;
    const Smooth &kind;
    Type type;
    const void *x;
    i64 slab, slabs, in_begin, in_end;
    OutputPart part;
    i64 lo, hi;
    bool in_pieces;  // whether there are too many cells to be held at once; then e and slope are those of a piece
    E scale;
    double reach;
    const E *cells;                       // the part's
    E *e, *slope;                         // as if from the slab's start
    S *sum;                               // rows of the part one after the other
    Scratch<E> terms_block, slope_block;  // where these are, if not in the input itself
    Scratch<S> sum_block;

    i64 outputs() const { return (part.end - part.begin) * plan.inner; }
    i64 count() const { return (part.row_end - part.row_begin) * outputs(); }
    i64 low() const { return in_begin * first_stride(plan); }
    i64 length() const { return slabs > 1 ? slabs * plan.in_slab : (in_end - in_begin) * first_stride(plan); }

    // The cells from begin to end-1 are taken in any case. Cells of one window may be taken in pieces, if so asked.
    TermPart(const Plan &plan, const Smooth &kind, Type type, const void *x, const SmoothPart &of, i64 begin, i64 end,
             bool can_be_in_pieces)
        : plan(plan),
          kind(kind),
          type(type),
          x(x),
          slab(of.slab),
          slabs(of.slabs),
          in_begin(begin),
          in_end(end),
          part(of.outputs),
          lo(of.lo),
          hi(of.hi),
          slope(nullptr) {
        const Axis &axis = plan.axes[0];
        i64 first = axis.start(lo), last = axis.start(hi - 1) + axis.dilation * (axis.kernel - 1);
        if (slabs > 1) first = 0, last = axis.length;
        if (axis.adaptive && hi - lo == 1) last = first + axis.taps(lo).count - 1;
        if (first < in_begin) in_begin = first < 0 ? 0 : first;
        if (last >= in_end) in_end = last < axis.length ? last + 1 : axis.length;
        in_pieces = can_be_in_pieces && slabs == 1 && hi - lo == 1 && axis.dilation == 1 && length() > LONG;
        const auto none = kind.no_range<E>(kind.count_pad && plan.padded);
        if (in_pieces) {
            auto range = none;
            over_pieces([&](const Plan &, const E *some, i64, i64 many) { range = kind.range_of(some, many, range); });
            scale = kind.scale_of(range, &reach);
            return;
        }
        cells = load_cells(low(), length());
        scale = kind.scale_of(kind.range_of(cells, length(), none), &reach);
        e = terms_block.data() - low();
    }
    // The same, with other sums.
    template <class Other>
    explicit TermPart(const TermPart<E, Other> &same)
        : plan(same.plan),
          kind(same.kind),
          type(same.type),
          x(same.x),
          slab(same.slab),
          slabs(same.slabs),
          in_begin(same.in_begin),
          in_end(same.in_end),
          part(same.part),
          lo(same.lo),
          hi(same.hi),
          in_pieces(same.in_pieces),
          scale(same.scale),
          reach(same.reach),
          cells(same.cells),
          e(same.e),
          slope(nullptr) {}

    void sum_terms(bool with_slope) {
        sum_block.grow(count() + 64, "sums of a part");
        sum = sum_block.data();
        if (in_pieces)
            sum_pieces(sum, [&](const E *some, i64, i64 many) {
                kind.terms(some, many, scale, terms_block.data(), static_cast<E *>(nullptr));
                return terms_block.data();
            });
        else
            fill_terms(with_slope), pool(e, sum);
        if (kind.count_pad && plan.padded) add_padding();
    }
    void fill_terms(bool with_slope) {
        E *slope_plane = nullptr;
        if (kind.lp && with_slope) {
            slope_block.grow(length() + 64, "slopes of a part");
            slope_plane = slope_block.data();
        }
        kind.terms(cells, length(), scale, e + low(), slope_plane);
        slope = slope_plane ? slope_plane - low() : e;
    }

    // `many` cells as E, from an element of the slab on, with room for their terms in terms_block.
    const E *load_cells(i64 from, i64 many) {
        terms_block.grow(many + 64, "terms of a part");
        if (type == (std::is_same_v<E, float> ? Type::F32 : Type::F64))
            return static_cast<const E *>(x) + slab * plan.in_slab + from;
        load_plane(type, x, slab * plan.in_slab + from, many, terms_block.data());
        return terms_block.data();
    }

    // Calls f(plan, cells, from, many) for pieces of a window, as windows of their own: `many` cells from an element of
    // the slab on.
    template <class F>
    void over_pieces(const F &f) {
        const i64 each = first_stride(plan), length = PIECE / each + 1;
        for (i64 begin = in_begin; begin < in_end; begin += length) {
            Plan piece = plan.part(begin, begin + length < in_end ? begin + length : in_end, lo, hi);
            Axis &axis = piece.axes[0];
            axis = {axis.length, 1, axis.length, axis.length, 1, 0, 0, false};
            piece.outer_cells = plan.dim_count ? plan.outer_cells / plan.axes[0].kernel * axis.kernel : 1;
            piece.cells = plan.cells / plan.axes[0].kernel * axis.kernel;
            f(piece, load_cells(begin * each, axis.length * each), begin * each, axis.length * each);
        }
    }
    // What the weights of a piece's cells are, but for the divisor of their window.
    E *weights_of(const E *some, i64 many) {
        if (kind.lp) slope_block.grow(many + 64, "slopes of a piece");
        E *terms = terms_block.data(), *weights = kind.lp ? slope_block.data() : terms;
        kind.terms(some, many, scale, terms, kind.lp ? weights : nullptr);
        return weights;
    }
    // The sums of what terms(cells, from, many) makes of the cells of each piece.
    template <class Terms>
    void sum_pieces(S *to, const Terms &terms) {
        constexpr int N = LANES<S>;
        const Scratch<S> block(count() + 64, "sums of a piece");
        S *more = block.data();
        std::memset(to, 0, sizeof(S) * static_cast<std::size_t>(count()));
        over_pieces([&](const Plan &piece, const E *some, i64 from, i64 many) {
            pool_plan(piece, terms(some, from, many), more);
            for (i64 i = 0; i < count(); i += N) store<N>(to + i, load<N>(to + i) + load<N>(more + i));
        });
    }

    // Whether the part can be pooled as a plan of its own: some bins of an adaptive axis are not those of a shorter
    // one.
    bool has_plan() const { return !plan.axes[0].adaptive || (lo == 0 && hi == plan.axes[0].output); }
    Plan own_plan() const {
        if (plan.axes[0].adaptive || slabs > 1) {
            Plan own = plan;
            own.outer = slabs;
            return own;
        }
        return plan.part(in_begin, in_end, lo, hi);
    }

    // Sums over the windows of the part.
    void pool(const E *cells, S *to) const {
        if (has_plan()) return pool_plan(own_plan(), cells + low(), to);
        const PlainSum<E, S> p{};
        SumSink<Total<S>, S> sink{to, {Count::NONE, 1}};
        OutputRow rows(plan);
        const auto lanes = p.lanes();
        const auto from = source_of(p, cells, in_end * first_stride(plan));
        LanePooler<Total<S>, SumSink<Total<S>, S>> pooler(plan, lanes, from, plan.last().output,
                                                          choose_forward(plan, lanes_alone<Total<S>>(), Way::NONE));
        for (i64 row = part.row_begin; row < part.row_end; ++row) {
            rows.move_to(row);
            sink.move_to(plan, row - part.row_begin, rows);
            sink.row -= part.begin * plan.inner;
            pooler.pool(0, rows, sink, part.begin, part.end, part.end * plan.inner + 32, 0);
        }
    }

    static void pool_plan(const Plan &plan, const E *cells, S *to) {
        constexpr Tuned TUNED = std::is_same_v<S, float>   ? Tuned::ALL
                                : std::is_same_v<E, float> ? Tuned::ROWS
                                                           : Tuned::NOT;
        const SumSink<Total<S>, S> sink{to, {Count::NONE, 1}};
        pool_all<TUNED>(plan, PlainSum<E, S>{}, cells, sink, {});
    }

    // A padded cell that counts is the number 0.
    void add_padding() {
        const double zero = kind.exp1(kind.parameter * (0.0 - static_cast<double>(scale)));
        const Axis &last = plan.last();
        // Of every element of a row, the cells that count and the real ones, along the row; all are real from `inside`
        // to `beyond` - 1.
        const i64 length = outputs();
        const Scratch<double> counts(2 * length, "cells of a row's windows");
        double *counted = counts.data(), *real = counted + length;
        i64 inside = length, beyond = 0;
        for (i64 o = part.begin, i = 0; o < part.end; ++o) {
            i64 cells = last.counted(o), taps = last.taps(o).count;
            for (i64 e = 0; e < plan.inner; ++e, ++i) {
                counted[i] = static_cast<double>(cells), real[i] = static_cast<double>(taps);
                if (cells != taps || (inside < length && beyond < i)) continue;
                if (inside == length) inside = i;
                beyond = i + 1;
            }
        }
        if (inside == length) beyond = length;
        OutputRow rows(plan);
        for (i64 row = part.row_begin; row < part.row_end; ++row) {
            if (row == part.row_begin || row % plan.out_rows == 0)
                rows.move_to(row % plan.out_rows);
            else
                rows.move_on(1);
            S *to = sum + (row - part.row_begin) * length;
            const auto all = static_cast<double>(rows.counted), here = static_cast<double>(rows.real);
            auto add = [=](i64 begin, i64 end) {
                for (i64 i = begin; i < end; ++i) to[i] += static_cast<S>((all * counted[i] - here * real[i]) * zero);
            };
            if (rows.counted != rows.real)
                add(0, length);
            else
                add(0, inside), add(beyond, length);
        }
    }

    // The windows' changes along a tangent, which the weights of its cells take part in.
    void weigh(Type tangent_type, const void *t, S *to) {
        const Scratch<E> block((in_pieces ? 2 * PIECE + first_stride(plan) : length()) + 64, "a part of the tangent");
        E *tangent = block.data();
        // Multiplies weights by the tangent of their cells.
        auto multiply = [&](E *weighted, i64 from, i64 many) {
            constexpr int N = LANES<E>;
            load_plane(tangent_type, t, slab * plan.in_slab + from, many, tangent);
            for (i64 i = 0; i < many; i += N) {
                // A cell without weight does not meet its tangent, which may be infinite.
                vec<E, N> w = load<N>(weighted + i), zero{};
                store<N>(weighted + i, w == 0 ? zero : w * load<N>(tangent + i));
            }
        };
        if (in_pieces) {
            sum_pieces(to, [&](const E *some, i64 from, i64 many) {
                E *weighted = weights_of(some, many);
                multiply(weighted, from, many);
                return weighted;
            });
        } else {
            multiply(slope + low(), low(), length());
            pool(slope, to);
        }
        constexpr int M = LANES<S>;
        for (i64 i = 0; i < count(); i += M) store<M>(to + i, kind.share<E, M>(load<M>(to + i), load<M>(sum + i)));
    }

    // The outputs first..first+count-1, from the sums; says how many are not good.
    i64 values(i64 first, i64 count, S *to) const {
        constexpr int N = LANES<S>;
        const Smooth own = kind;  // a copy, which no store can change
        const double s = static_cast<double>(scale);
        Truth<N> bad{};  // less one for each
        for (i64 i = 0; i < count; i += N) {
            vec<S, N> total = load<N>(sum + first + i);
            if (i + N > count)
                for (i64 l = count - i; l < N; ++l) total[l] = total[0];
            vec<S, N> v = own.value<E, N>(s, total);
            bad += ~(own.good<E, N>(total) & own.good_value<E>(s, v));
            store<N>(to + i, v);
        }
        i64 all = 0;
        for (int l = 0; l < N; ++l) all -= bad[l];
        return all;
    }

    // What comparisons of N sums give.
    template <int N>
    using Truth = vec<typename IntOf<sizeof(S)>::s, N>;
    template <int N>
    static Truth<N> truth() {
        return ~Truth<N>{};
    }
    template <int N>
    static bool everywhere(Truth<N> all) {
        bool every = true;
        for (int l = 0; l < N; ++l) every &= all[l] != 0;
        return every;
    }

    // Whether the sum is good and, if `values` are asked about, what follows from it.
    template <int M>
    auto good(bool values, vec<S, M> sum) const {
        auto good = kind.good<E, M>(sum);
        double s = static_cast<double>(scale);
        return values ? good & kind.good_value<E>(s, kind.value<E, M>(s, sum)) : good;
    }

    // Calls bad(rows, slab, row, o, e) for each output that is not good.
    template <class F>
    void over_bad(bool values, const F &bad) const {
        constexpr int N = LANES<S>;
        OutputRow rows(plan);
        for (i64 row = part.row_begin; row < part.row_end; ++row) {
            const S *here = sum + (row - part.row_begin) * outputs();
            bool moved = false;
            for (i64 i = 0; i < outputs(); i += N) {
                const Truth<N> truths = good<N>(values, load<N>(here + i));
                if (everywhere<N>(truths)) continue;
                if (!moved) rows.move_to(row % plan.out_rows), moved = true;
                for (i64 k = i; k < outputs() && k < i + N; ++k)
                    if (!truths[k - i])
                        bad(rows, slab + row / plan.out_rows, row % plan.out_rows, part.begin + k / plan.inner,
                            k % plan.inner);
            }
        }
    }
};

// What terms are for: the way back, or forward; whether they may be taken in pieces; whether slopes are wanted with
// them, and sums in floats, where the terms are.
struct TermUse {
    bool back, pieces, slopes, float_sums;
};

// Calls f(terms) with the terms in floats where those do; in doubles where not.
template <class F>
void over_terms(const Plan &plan, const Smooth &kind, Type type, Type result, const void *x, const SmoothPart &part,
                i64 begin, i64 end, const TermUse &use, const F &f) {
    if (result != Type::F64 && kind.floats_do(0, result, use.back)) {
        TermPart<float, float> terms(plan, kind, type, x, part, begin, end, use.pieces);
        if (kind.floats_do(terms.reach, result, use.back)) {
            if (use.float_sums) {
                terms.sum_terms(use.slopes);
                return f(terms);
            }
            TermPart<float, double> wider(terms);
            wider.sum_terms(use.slopes);
            return f(wider);
        }
    }
    TermPart<double, double> terms(plan, kind, type, x, part, begin, end, use.pieces);
    terms.sum_terms(use.slopes);
    f(terms);
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
    i64 cuts = plan.in_slab >> 16;
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
