// The terms of the cells under a part of the outputs.
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
// A part has about so many cells.
constexpr i64 PART = i64(1) << 14;

// The input of a part from cell in_begin to in_end-1 of its first pooled axis, and its terms, of type E.
template <class E>
struct PartTerms {
    using Term = E;
    const Plan &plan;
    const Smooth &kind;
    const Type type;
    const void *x;
    const i64 slab, slabs;
    const OutputPart part;
    const i64 lo, hi;
    i64 in_begin, in_end;
    bool in_pieces;  // whether there are too many cells to be held at once; then the terms are those of a piece
    TermScale scale;
    double apart = 0;                         // how far the exponents of windows of few cells seem to be apart
    double reach = 0;                         // how far the exponents of 2 of the terms are apart, once it is measured
    bool near = true;                         // whether exponents were near the scale's until now
    bool accurate = true;                     // whether no weight is too small for E
    const E *e = nullptr, *weight = nullptr;  // as if from the slab's start

    i64 low() const { return in_begin * first_stride(plan); }
    i64 length() const { return slabs > 1 ? slabs * plan.in_slab : (in_end - in_begin) * first_stride(plan); }

    // The cells from begin to end-1 are taken in any case. Cells of one window may be taken in pieces, if so asked.
    PartTerms(const Plan &plan, const Smooth &kind, Type type, const void *x, const SmoothPart &of, i64 begin, i64 end,
              bool can_be_in_pieces)
        : plan(plan),
          kind(kind),
          type(type),
          x(x),
          slab(of.slab),
          slabs(of.slabs),
          part(of.outputs),
          lo(of.lo),
          hi(of.hi),
          in_begin(begin),
          in_end(end) {
        const Axis &axis = plan.axes[0];
        i64 first = axis.start(lo), last = axis.start(hi - 1) + axis.dilation * (axis.kernel - 1);
        if (slabs > 1) first = 0, last = axis.length;
        if (axis.adaptive && hi - lo == 1) last = first + axis.taps(lo).count - 1;
        if (first < in_begin) in_begin = first < 0 ? 0 : first;
        if (last >= in_end) in_end = last < axis.length ? last + 1 : axis.length;
        in_pieces = can_be_in_pieces && slabs == 1 && hi - lo == 1 && axis.dilation == 1 && length() > LONG;
    }

    // Sets the scale by some of the cells, spread over the part: with it, the sums of the windows may not be good.
    void guess_scale() {
        constexpr i64 RUNS = 8, RUN = 32;
        E some[RUNS * RUN];
        const i64 all = length(), runs = all < RUNS * RUN ? 1 : RUNS, run = runs == 1 ? all : RUN;
        for (i64 r = 0; r < runs; ++r) {
            const i64 at = runs == 1 ? 0 : r * (all - run) / (runs - 1);
            load_plane(type, x, slab * plan.in_slab + low() + at, run, some + r * run);
        }
        scale = kind.scale_of(kind.range_of(some, runs * run, no_range()));
        if (!kind.lp && plan.cells <= run) apart = kind.best_apart(some, runs * run, plan.cells);
    }
    // By all of them.
    void measure_scale() {
        auto range = no_range();
        over_chunks(length(), [&](i64 first, i64 many) {
            E room[CHUNK];
            range = kind.range_of(cells(low() + first, many, room), many, range);
        });
        scale = kind.scale_of(range), reach = kind.reach(range);
    }

    // Whether all cells that are not NaN are so small that no sum is NaN because of them.
    bool is_plain_beside_nan() const {
        if (!kind.tells_nan()) return false;
        constexpr int N = LANES<double>;
        const double most = kind.plain_size();
        i64 odd = 0;
        over_chunks(length(), [&](i64 first, i64 many) {
            double room[CHUNK];
            load_plane(type, x, slab * plan.in_slab + low() + first, many, room);
            vec<std::int64_t, N> large{};
            over_cells(room, many, [&](i64, vec<double, N> v) NDPOOL_INLINED { large |= size_of_each<N>(v) > most; });
            for (int l = 0; l < N; ++l) odd |= large[l];
        });
        return odd == 0;
    }

    // Makes the terms and, if asked for, the weights of all cells; not in pieces.
    void fill(bool with_weights) {
        fill(low(), length(), with_weights);
        e -= low(), weight -= low();
    }
    // Calls f(plan, from, many) for pieces of a window, as windows of their own: `many` cells from an element of the
    // slab on.
    template <class F>
    void over_piece_plans(const F &f) const {
        const i64 each = first_stride(plan), length = PIECE / each + 1;
        for (i64 begin = in_begin; begin < in_end; begin += length) {
            Plan piece = plan.part(begin, begin + length < in_end ? begin + length : in_end, lo, hi);
            Axis &axis = piece.axes[0];
            axis = {axis.length, 1, axis.length, axis.length, 1, 0, 0, false};
            piece.outer_cells = plan.dim_count ? plan.outer_cells / plan.axes[0].kernel * axis.kernel : 1;
            piece.cells = plan.cells / plan.axes[0].kernel * axis.kernel;
            f(piece, begin * each, axis.length * each);
        }
    }
    // The same, when their terms are at `e` and `weight`.
    template <class F>
    void over_pieces(bool with_weights, const F &f) {
        over_piece_plans([&](const Plan &piece, i64 from, i64 many) {
            fill(from, many, with_weights);
            f(piece, from, many);
        });
    }

    // The weights of Lp(2) are the cells themselves, over the norm of the window; where scales are not extreme.
    bool cells_are_weights() const { return kind.lp && kind.parameter == 2 && scale.cell > -40 && scale.cell < 40; }
    // How many outputs the part has, and where they start in the slab.
    i64 outputs() const { return (part.row_end - part.row_begin) * (part.end - part.begin) * plan.inner; }
    i64 start() const { return part.row_begin * plan.out_row + part.begin * plan.inner; }

    // What the weights of a window's cells are to be multiplied by, but for the norm of the window.
    E weight_factor() const { return cells_are_weights() ? scale.inverse<E>() : 1; }

    // Whether terms are squares that need not be made: then `e` are the cells.
    bool are_squares() const { return std::is_same_v<E, float> && kind.squares; }
    // What squares are times a power of 2 that the terms have.
    double square_scale() const { return scale.inverse<double>() * scale.inverse<double>(); }

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

  private:
    Scratch<E> term_block, weight_block;

    auto no_range() const { return kind.template no_range<E>(kind.count_pad && plan.padded); }
    bool is_plain() const { return type == (std::is_same_v<E, float> ? Type::F32 : Type::F64); }
    const E *plain(i64 from) const { return static_cast<const E *>(x) + slab * plan.in_slab + from; }

    // `many` cells as E, from an element of the slab on: where they are or, if of another type, in the room.
    const E *cells(i64 from, i64 many, E *room) const {
        if (is_plain()) return plain(from);
        load_plane(type, x, slab * plan.in_slab + from, many, room);
        return room;
    }

    void keep_cells(i64 from, i64 many) {
        if (is_plain()) {
            e = weight = plain(from);
            return;
        }
        weight_block.grow(many + 64, "weights of a part");
        load_plane(type, x, slab * plan.in_slab + from, many, weight_block.data());
        e = weight = weight_block.data();
    }
    void fill(i64 from, i64 many, bool with_weights) {
        if constexpr (std::is_same_v<E, float>)
            if (kind.squares) return keep_cells(from, many);
        term_block.grow(many + 64, "terms of a part");
        E *terms = term_block.data(), *weights = nullptr, *slopes = nullptr;
        const bool keep = with_weights && cells_are_weights() && !is_plain();
        if (with_weights && kind.lp && (keep || !cells_are_weights())) {
            weight_block.grow(many + 64, "weights of a part");
            weights = weight_block.data();
            if (!keep) slopes = weights;
        }
        over_chunks(many, [&](i64 first, i64 some) {
            if constexpr (std::is_same_v<E, float>) {  // right from the cells, where that is enough
                const i64 start = slab * plan.in_slab + from + first;
                if (near && size_of(type) == 2)
                    if ((near = kind.near_terms(type, x, start, some, scale, terms + first))) return;
            }
            E room[CHUNK];
            const E *own = cells(from + first, some, keep ? weights + first : room);
            accurate &= kind.terms(own, some, scale, terms + first, slopes ? slopes + first : nullptr, &near);
        });
        e = terms;
        weight = weights ? weights : kind.lp && with_weights ? plain(from) : terms;
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
