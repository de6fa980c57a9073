// Max and Min: the values, their winners, and the derivative as a walk over the winners.
#pragma once
#include "kinds/keys.h"
#include "passes/columns.h"
#include "passes/places.h"
#include "passes/row_bands.h"
#include "passes/winner_axes.h"
#include "passes/winner_columns.h"
#include "plan/call.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

template <class K, bool PAST = false>
struct ValueSink {
    using T = typename K::In;
    static constexpr bool STREAMS = std::is_same_v<T, float>;
    K key;
    T *y;
    T *row;

    ValueSink<K, true> past_the_caches() const { return {key, y, row}; }
    static bool take_room(const Plan &) { return false; }  // none is needed
    void move_to(const Plan &plan, i64 index, const OutputRow &) { row = y + index * plan.out_row; }
    void finish(const Plan &, i64, const OutputRow &, i64, i64) {}
    static bool finishes() { return false; }
    static bool rows_differ() { return false; }
    template <class Use>
    NDPOOL_INLINE void over_arrays(const Use &use) {
        use(y, row);
    }
    template <int N>
    void put(i64 at, const typename Extreme<K>::template State<N> &s, int count) {
        put_some<N, PAST>(row + at, count, [&](T *p) { key.template out<N>(p, s.v); });
    }
};

// The values, and what was carried along with them.
template <class K, bool PAST = false>
struct TangentSink {
    using T = typename K::In;
    using G = typename K::Key;
    static constexpr bool STREAMS = std::is_same_v<T, float>;
    K key;
    T *y;
    G *dy;
    T *row;
    G *dy_row;

    TangentSink<K, true> past_the_caches() const { return {key, y, dy, row, dy_row}; }
    static bool take_room(const Plan &) { return false; }  // none is needed
    void move_to(const Plan &plan, i64 index, const OutputRow &) {
        row = y + index * plan.out_row;
        dy_row = dy + index * plan.out_row;
    }
    void finish(const Plan &, i64, const OutputRow &, i64, i64) {}
    static bool finishes() { return false; }
    template <class Use>
    NDPOOL_INLINE void over_arrays(const Use &use) {
        use(y, row);
        use(dy, dy_row);
    }
    template <int N>
    void put(i64 at, const typename ArgExtreme<K, true>::template State<N> &s, int count) {
        put_some<N, PAST>(row + at, count, [&](T *p) { key.template out<N>(p, s.v); });
        put_some<N, PAST>(dy_row + at, count, [&](G *p) { store<N>(p, s.t); });
    }
};

// The values and the winners' places; with a tangent, what it is at the winners.
template <class K, bool PAST = false>
struct WinnerSink {
    using T = typename K::In;
    static constexpr bool STREAMS = std::is_same_v<T, float>;
    K key;
    T *y;
    void *winners;  // or null, if only the tangent is wanted
    int bytes;      // of a winner
    const void *t;
    void *dy;
    int tangent_bytes;  // of an element of both
    const Places *places;
    T *row;
    void *winner_row;
    i64 index;

    WinnerSink<K, true> past_the_caches() const {
        return {key, y, winners, bytes, t, dy, tangent_bytes, places, row, winner_row, index};
    }
    Scratch<char> take_room(const Plan &plan) {
        Scratch<char> room;
        if (!winners) room.grow((plan.out_row + 64) * bytes, "winners of a row");
        winner_row = room.data();
        return room;
    }
    void move_to(const Plan &plan, i64 at, const OutputRow &) {
        index = at;
        row = y + at * plan.out_row;
        if (winners) winner_row = static_cast<char *>(winners) + at * plan.out_row * bytes;
    }
    template <class Use>
    NDPOOL_INLINE void over_arrays(const Use &use) {
        use(y, row);
        if (!winners) return;
        if (bytes == 1)
            use_winners<std::uint8_t>(use);
        else if (bytes == 2)
            use_winners<std::uint16_t>(use);
        else
            use_winners<std::uint32_t>(use);
    }
    bool finishes() const { return t != nullptr; }
    static bool rows_differ() { return false; }
    template <int N>
    void put(i64 at, const typename ArgExtreme<K>::template State<N> &s, int count) {
        put_some<N, PAST>(row + at, count, [&](T *p) { key.template out<N>(p, s.v); });
        put_places<N>(at, s.place, count);
    }
    void finish(const Plan &plan, i64 slab, const OutputRow &rows, i64 begin, i64 end) {
        if (!t) return;
        if (bytes == 1)
            pick<std::uint8_t>(plan, slab, rows, begin, end);
        else if (bytes == 2)
            pick<std::uint16_t>(plan, slab, rows, begin, end);
        else
            pick<std::uint32_t>(plan, slab, rows, begin, end);
    }

    template <int N, class V>
    void put_places(i64 at, const V &places, int count) {
        if (bytes == 1)
            put_places_as<std::uint8_t, N>(at, places, count);
        else if (bytes == 2)
            put_places_as<std::uint16_t, N>(at, places, count);
        else
            put_places_as<std::uint32_t, N>(at, places, count);
    }

  private:
    template <class W, class Use>
    NDPOOL_INLINE void use_winners(const Use &use) {
        auto *row = static_cast<W *>(winner_row);
        use(static_cast<W *>(winners), row);
        winner_row = row;
    }
    template <class W, int N, class V>
    void put_places_as(i64 at, const V &places, int count) {
        put_some<N, PAST>(static_cast<W *>(winner_row) + at, count, [&](W *p) { store<N>(p, convert<W, N>(places)); });
    }
    template <class W>
    void pick(const Plan &plan, i64 slab, const OutputRow &rows, i64 begin, i64 end) {
        if (tangent_bytes == 2)
            pick_as<std::uint16_t>(static_cast<const W *>(winner_row), plan, slab, rows, begin, end);
        else if (tangent_bytes == 4)
            pick_as<std::uint32_t>(static_cast<const W *>(winner_row), plan, slab, rows, begin, end);
        else
            pick_as<std::uint64_t>(static_cast<const W *>(winner_row), plan, slab, rows, begin, end);
    }
    template <class E, class W>
    void pick_as(const W *winners, const Plan &plan, i64 slab, const OutputRow &rows, i64 begin, i64 end) {
        const E *from = static_cast<const E *>(t) + slab * plan.in_slab + rows.start;
        E *to = static_cast<E *>(dy) + index * plan.out_row;
        places->over_row(plan, winners, begin, end, [&](i64 i, i64 cell) { to[i] = from[cell]; });
    }
};

// The same from keys and places in one number.
template <class K>
struct PackedSink : WinnerSink<K> {
    using Base = WinnerSink<K>;
    using Lane = typename Packed<K>::Lane;
    template <int N>
    void put(i64 at, const typename PackedBest<Lane>::template State<N> &s, int count) {
        put_some<N>(this->row + at, count,
                    [&](typename K::In *p) { Packed<K>::template unpack<N>(this->key, s.v, p); });
        this->template put_places<N>(at, PackedBest<Lane>::template place<N>(s.v), count);
    }
};

// And from keys and places beside each other.
template <class K>
struct PlacedSink : WinnerSink<K> {
    using Base = WinnerSink<K>;
    template <int N>
    void put(i64 at, const typename Placed<K>::template State<N> &s, int count) {
        put_some<N>(this->row + at, count,
                    [&](typename K::In *p) { Placed<K>::template unpack<N>(this->key, s, p); });
        this->template put_places<N>(at, Placed<K>::template place<N>(s), count);
    }
};

// --- the derivative -----------------------------------------------------------------------------

// What an output hands to the cell that won it.
template <class G, class Sum>
struct WinnerSource {
    using A = Sum;
    static constexpr bool SPARES_PADDING = true;
    static constexpr Lines FIRST = Lines::NONE;
    const std::uint8_t *winners;  // the slab's
    const G *g;
    bool rows_first = true;
    const ByteRows *bytes = byte_rows();
    template <int N>
    NDPOOL_INLINE void ahead(i64 output) const {
        prefetch<N>(g + output);
    }
    template <int N>
    NDPOOL_INLINE vec<A, N> add(vec<A, N> sum, i64 output, i64 place) const {
        return add_where_equal<A, N>(sum, winners + output, place, *bytes, load_as<A, N>(g + output));
    }
    WinnerSource with(const Border &border, Scratch<char> *copies) const {
        return {border.around(winners, copies[0]), border.around(g, copies[1]), rows_first};
    }
};

// What the outputs of a part hand on, 16-bit floats as floats, counted from the slab's first output; `block` holds
// them.
inline const float *widened(const Plan &plan, const InputPart &in, const FloatRows<float> &floats, const void *g,
                            Scratch<float> &block) {
    const OutputPart part = outputs_over(plan, in.begin, in.end);
    const i64 begin = part.row_begin * plan.out_row + part.begin * plan.inner;
    if (part.row_begin == part.row_end || part.begin == part.end) return nullptr;
    // Squares may read a row more, of which they take nothing.
    const i64 end = plan.dim_count == 0 ? part.end * plan.inner : part.row_end * plan.out_row + 1;
    block.grow(end + plan.out_row - begin + 64, "cotangents as floats");
    floats.read(g, in.slab * plan.out_slab + begin, (end < plan.out_slab ? end : plan.out_slab) - begin, block.data());
    return block.data() - begin;
}

// gx[winner] += g, by asking every window over a cell: for small windows. The cotangents of a part are cotangents(part,
// block), with a block to hold them in, and its Target is target(part).
template <class A, class Cotangents, class Make>
void gather_winners(const Plan &plan, const std::uint8_t *winners, const Gradient &gradient, Way way, bool rows_first,
                    const Cotangents &cotangents, const Make &target) {
    over_input_parts(plan, gradient, [&](const auto &over) {
        InputRow rows(plan);
        over([&](const InputPart &part) {
            Scratch<A> block;
            WinnerSource<A, A> from{winners + part.slab * plan.out_slab, cotangents(part, block), rows_first};
            gather_part(plan, rows, part, from, target(part), way);
        });
    });
}

inline void gather_narrow_winners(const Plan &plan, const std::uint8_t *winners, const Gradient &gradient, Way way,
                                  bool rows_first, bool brain, const FloatRows<float> &floats, const void *g) {
    gather_winners<float>(
        plan, winners, gradient, way, rows_first,
        [&](const InputPart &in, Scratch<float> &block) { return widened(plan, in, floats, g, block); },
        [&](const InputPart &in) { return NarrowTarget<float>{in.gx, brain, 1}; });
}

// Where winners are: from where the windows of their row start.
struct WinnerCells {
    const Places places;
    const Scratch<i64> starts;  // of the rows of a slab

    explicit WinnerCells(const Plan &plan) : places(plan), starts(plan.out_rows, "where rows of windows start") {
        for (i64 row = 0; row < plan.out_rows; ++row) starts[row] = start_of_row(plan, row);
    }
};

// Some parts of the input whose winners are visited in turn, each in the order of its outputs.
//
// Windows side by side often have the same winner, and to add to a cell over and over takes as long as the memory takes
// to hand back what was just written. Cells of different parts have no windows in common to wait for.
template <class W, class A>
class PartsInTurn {
  public:
    static constexpr int MOST = 4;

    PartsInTurn(const Plan &plan, const WinnerCells &cells)
        : plan(plan), axis(plan.last()), cells(cells), one_row(plan.dim_count == 0) {}

    bool are_all() const { return count == MOST; }
    // With the winners and the cotangents of its slab, and the sums of its cells, which are cleared.
    void take(const InputPart &in, const W *winners, const A *g, A *sum) {
        const i64 low = in.begin * first_stride(plan), size = in.end * first_stride(plan) - low;
        std::memset(sum, 0, sizeof(A) * static_cast<std::size_t>(size));
        const OutputPart outputs = outputs_over(plan, in.begin, in.end);
        parts[count++] = {outputs, one_row ? outputs.end - outputs.begin : outputs.row_end - outputs.row_begin,
                          low,     static_cast<std::uint64_t>(size),
                          winners, g,
                          sum};
    }
    // Adds what their windows hand on.
    void visit() {
        if (count == MOST) {
            i64 least = parts[0].length;
            for (const Part &part : parts) least = part.length < least ? part.length : least;
            if (one_row && least)
                along<MOST>(parts, 0, least);
            else
                for (i64 r = 0; r < least; ++r) along<MOST>(parts, r, axis.output);
            for (Part &part : parts) rest(part, least);
        } else {
            for (int p = 0; p < count; ++p) rest(parts[p], 0);
        }
        count = 0;
    }

  private:
    struct Part {
        OutputPart outputs;
        i64 length;  // in rows or, of one row, in outputs
        i64 low;     // the part's first cell in the slab
        std::uint64_t size;
        const W *winners;
        const A *g;
        A *sum;
    };
    const Plan &plan;
    const Axis &axis;
    const WinnerCells &cells;
    const bool one_row;
    int count = 0;
    Part parts[MOST];

    // All but the first rows, or the first outputs of the row.
    void rest(const Part &part, i64 first) const {
        if (one_row && first < part.length) return along<1>(&part, first, part.length - first);
        for (i64 r = first; r < part.length && !one_row; ++r) along<1>(&part, r, axis.output);
    }
    // `many` outputs of each of Q parts, from a row (or output) of the part on.
    template <int Q>
    NDPOOL_INLINE void along(const Part *of, i64 first, i64 many) const {
        const W *winners[Q];
        const A *g[Q];
        A *sum[Q];
        i64 start[Q];
        std::uint64_t size[Q];
        for (int q = 0; q < Q; ++q) {
            const i64 row = one_row ? 0 : of[q].outputs.row_begin + first,
                      o = one_row ? of[q].outputs.begin + first : 0;
            winners[q] = of[q].winners + row * plan.out_row + o;
            g[q] = of[q].g + row * plan.out_row + o;
            sum[q] = of[q].sum, size[q] = of[q].size;
            start[q] = cells.starts[row] + axis.start(o) - of[q].low;
        }
        const i64 stride = axis.stride;
        for (i64 i = 0, step = 0; i < many; ++i, step += stride) {
            NDPOOL_UNROLL
            for (int q = 0; q < Q; ++q) {
                const i64 cell = start[q] + step + cells.places.distance(winners[q][i]);
                if (static_cast<std::uint64_t>(cell) < size[q]) sum[q][cell] += g[q][i];
            }
        }
    }
};

// Calls f(output, cell) for all outputs of a slab that may be won by a cell of a part, with the cell counted from the
// part's first, and for no cell outside of it. The winners are the slab's, and no cell is seen by two windows. The
// outputs go in four strands, far from each other, in turn.
template <class W, class F>
NDPOOL_INLINE void over_winners(const Plan &plan, const InputPart &in, const WinnerCells &cells, const W *winners,
                                const F &f) {
    const Axis &axis = plan.last();
    const i64 low = in.begin * first_stride(plan), size = in.end * first_stride(plan) - low;
    const OutputPart part = outputs_over(plan, in.begin, in.end);
    auto hand = [&](i64 output, i64 cell) NDPOOL_INLINED {
        if (static_cast<std::uint64_t>(cell) < static_cast<std::uint64_t>(size)) f(output, cell);
    };
    if (axis.adaptive || plan.inner > 1) {  // the elements of a place do not wait for each other
        for (i64 row = part.row_begin; row < part.row_end; ++row) {
            const i64 first = row * plan.out_row, start = cells.starts[row] - low;
            cells.places.over_row(plan, winners + first, part.begin, part.end,
                                  [&](i64 i, i64 cell) NDPOOL_INLINED { hand(first + i, start + cell); });
        }
        return;
    }
    // `count` outputs of each of Q strands, which are the rows (or start with the outputs) first, first + apart, ...
    const bool one_row = plan.dim_count == 0;
    auto along = [&](auto strands, i64 first, i64 apart, i64 count) NDPOOL_INLINED {
        constexpr int Q = decltype(strands)::value;
        i64 output[Q], start[Q];
        for (int q = 0; q < Q; ++q) {
            const i64 at = first + q * apart, row = one_row ? 0 : at, o = one_row ? at : part.begin;
            output[q] = row * plan.out_row + o;
            start[q] = cells.starts[row] + axis.start(o) - low;
        }
        for (i64 i = 0, step = 0; i < count; ++i, step += axis.stride) {
            NDPOOL_UNROLL
            for (int q = 0; q < Q; ++q)
                hand(output[q] + i, start[q] + step + cells.places.distance(winners[output[q] + i]));
        }
    };
    // Strands are rows or, of one row, pieces.
    const i64 first = one_row ? part.begin : part.row_begin, end = one_row ? part.end : part.row_end;
    const i64 quarter = (end - first) / 4, rounds = one_row ? quarter > 0 : quarter;
    for (i64 r = 0; r < rounds; ++r) along(Size<4>(), first + r, quarter, one_row ? quarter : part.end - part.begin);
    for (i64 r = first + 4 * quarter; r < end; ++r) along(Size<1>(), r, 0, one_row ? 1 : part.end - part.begin);
}

// Into how many parts a slab is cut whose winners are visited, so many parts by turns: an array that is smaller than
// these would be is cut into as many.
inline i64 cuts_for_winners(const Plan &plan, i64 turns) {
    constexpr i64 NEAR = 1 << 15;  // elements of a part that stays near
    if (turns == 1 || plan.dim_count > 1) return cuts_of(plan);
    const Axis &axis = plan.axes[0];
    const bool many = plan.outer >= turns || plan.in_slab >= turns * NEAR || plan.in_slab < turns;
    return cuts_of(plan, many ? NEAR : plan.in_slab / turns,
                   axis.adaptive ? axis.kernel : axis.dilation * axis.kernel);
}

// gx[winner] += g, by visiting every winner. Narrow floats are added up as floats and rounded once.
template <class W, class A, class Cotangents>
void scatter_winners(const Plan &plan, const W *winners, const Gradient &gradient, bool rows_first,
                     const FloatRows<A> &floats, const Cotangents &cotangents) {
    const WinnerCells cells(plan);
    const bool wide = gradient.element_bytes == sizeof(A),
               in_turn = !rows_first && !plan.last().adaptive && plan.inner == 1;
    constexpr int TURNS = PartsInTurn<W, A>::MOST;
    over_input_parts(plan, gradient, cuts_for_winners(plan, in_turn ? TURNS : 1), [&](const auto &over) {
        Scratch<A> block[TURNS], wider[TURNS];
        InputPart taken[TURNS];
        int count = 0;
        PartsInTurn<W, A> parts(plan, cells);
        RowBands<A> bands(plan, rows_first);
        auto size_of = [&](const InputPart &in) { return (in.end - in.begin) * first_stride(plan); };
        auto first_of = [&](const InputPart &in) {
            return in.gx + in.begin * first_stride(plan) * gradient.element_bytes;
        };
        auto finish = [&] {
            parts.visit();
            for (int p = 0; p < count && !wide; ++p)
                floats.write(wider[p].data(), size_of(taken[p]), first_of(taken[p]));
            count = 0;
        };
        over([&](const InputPart &in) {
            if (!wide) wider[count].grow(size_of(in), "sums of a part");
            A *sum = wide ? reinterpret_cast<A *>(first_of(in)) : wider[count].data();
            const A *g = cotangents(in, block[count]);
            const W *own = winners + in.slab * plan.out_slab;
            taken[count++] = in;
            if (in_turn) {
                parts.take(in, own, g, sum);
                if (parts.are_all()) finish();
                return;
            }
            std::memset(sum, 0, sizeof(A) * static_cast<std::size_t>(size_of(in)));
            if (rows_first)
                bands.scatter(in, cells.places, cells.starts.data(), own, g, sum);
            else
                over_winners(plan, in, cells, own,
                             [&](i64 output, i64 cell) NDPOOL_INLINED { sum[cell] += g[output]; });
            finish();
        });
        finish();
    });
}

// The same where no cell is seen by two windows: nothing is added up, and elements are moved as bits.
template <class W, class Bits>
void move_to_winners(const Plan &plan, const W *winners, const Bits *g, Bits *gx) {
    const WinnerCells cells(plan);
    // What few windows reach over the edge of a part are visited twice.
    const bool bins = plan.last().adaptive && plan.dim_count == 0;
    const i64 cuts = bins ? 1 : cuts_of(plan, 1 << 16, plan.axes[0].kernel / 4 + 1);
    over_input_parts(plan, Gradient(gx, sizeof(Bits)), cuts, [&](const auto &over) {
        over([&](const InputPart &in) {
            const i64 low = in.begin * first_stride(plan), size = in.end * first_stride(plan) - low;
            Bits *to = reinterpret_cast<Bits *>(in.gx) + low;
            std::memset(to, 0, sizeof(Bits) * static_cast<std::size_t>(size));
            const Bits *from = g + in.slab * plan.out_slab;
            over_winners(plan, in, cells, winners + in.slab * plan.out_slab, [&](i64 output, i64 cell) NDPOOL_INLINED {
                const Bits bits = from[output];
                to[cell] = static_cast<Bits>(bits << 1) ? bits : 0;  // a sum that is zero is not -0
            });
        });
    });
}

// G is the type of the cotangents, A that in which they are added up.
template <class W, class G, class A>
void winners_vjp(const Plan &plan, const W *winners, const G *g, G *gx, const Route &route) {
    const Way way =
        choose_winners_back(plan, lanes_back<A>(sizeof(G) < sizeof(A)), sizeof(W), route.one_of_column, route.asked);
    if (route.tell(way)) return;
    if (way == Way::OWN) {
        using Bits = typename IntOf<sizeof(G)>::u;
        return move_to_winners(plan, winners, reinterpret_cast<const Bits *>(g), reinterpret_cast<Bits *>(gx));
    }
    const FloatRows<A> floats = FLOAT_ROWS<A, G>;
    auto cotangents = [&](const InputPart &in, [[maybe_unused]] Scratch<A> &block) -> const A * {
        if constexpr (std::is_same_v<G, A>)
            return g + in.slab * plan.out_slab;
        else
            return widened(plan, in, floats, g, block);
    };
    const bool rows_first = plan.dim_count > 0 && adds_rows_first(plan, LANES<A>, route.one_of_column);
    if constexpr (sizeof(W) <= 2)
        if (way == Way::AXES)
            return pull_by_winner_axes<A>(plan, winners, g, Gradient(plan, gx, sizeof(G), route), floats);
    if constexpr (sizeof(W) == 1) {
        const Gradient gradient(plan, gx, sizeof(G), route);
        if (way == Way::COLUMNS) return pull_by_winner_columns<A>(plan, winners, g, gradient, floats);
        if (way != Way::SCATTER) {
            if constexpr (std::is_same_v<G, A>)
                return gather_winners<A>(
                    plan, winners, gradient, way, rows_first, cotangents,
                    [&](const InputPart &in) { return GradientTarget<G, A>{reinterpret_cast<G *>(in.gx), 1}; });
            else
                return gather_narrow_winners(plan, winners, gradient, way, rows_first, std::is_same_v<G, BFloat>,
                                             floats, g);
        }
    }
    scatter_winners<W, A>(plan, winners, Gradient(gx, sizeof(G)), rows_first, floats, cotangents);
}

// The flat index over the pooled axes of every winner: where it is in a slab without the dimensions that are carried
// along; -1 for a place that is none of the window's.
template <class W>
void expand(const Plan &plan, const W *winners, i64 *indices) {
    Plan bare = plan;
    i64 stride = plan.last().length;
    for (int d = plan.dim_count - 1; d >= 0; --d) {
        const int axis = plan.dims[d].axis;
        bare.dims[d].in_stride = axis < 0 ? 0 : stride;
        if (axis >= 0) stride *= plan.axes[axis].length;
    }
    bare.inner = 1;
    const Places places(bare);
    parallel(plan.outer * plan.out_rows, worth_threads(plan.outer * plan.out_slab), [&](i64 begin, i64 end) {
        for (i64 row = begin; row < end; ++row) {
            const i64 first = start_of_row(bare, row % plan.out_rows);
            const W *won = winners + row * plan.out_row;
            i64 *to = indices + row * plan.out_row;
            for (i64 o = 0; o < plan.last().output; ++o) {
                const i64 start = first + plan.last().start(o);
                for (i64 e = 0; e < plan.inner; ++e, ++won)
                    *to++ = static_cast<i64>(*won) < plan.cells ? start + places.distance(*won) : -1;
            }
        }
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
