// All outputs, row by row, on several threads.
#pragma once
#include "passes/pairs.h"
#include "passes/sliding.h"
#include "passes/tiles.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// How a call goes: the way asked for by name, if any, and whether results are written past the caches.
struct Route {
    Way asked = Way::NONE;
    bool past_the_caches = false;  // whether or not it is worth it
    Way *told = nullptr;           // if set, the way is written here and nothing is run
    bool one_of_column = true;     // whether of all cells in a column of a row of windows, only one can win

    // Writes down the way, if asked to; says whether that was all.
    bool tell(Way way) const {
        if (told) *told = way;
        return told != nullptr;
    }
    bool streams(const void *p, i64 bytes, i64 moved) const {
        return past_the_caches || worth_streaming(p, bytes, moved);
    }
};

// Rows longer than the nearest cache go in parts of this many outputs, which see about so many elements.
inline i64 part_of_row(const Plan &plan, i64 elements = 4096) {
    const Axis &axis = plan.last();
    i64 stride = axis.adaptive ? (axis.length + axis.output - 1) / axis.output : axis.stride;
    i64 part = elements / (stride * plan.inner) + 1;
    i64 reach = axis.adaptive ? 1 : 4 * axis.dilation * axis.kernel / axis.stride;
    if (part < reach) part = reach;
    // All of a size: a short one would take as long as a long one.
    const i64 parts = axis.output > part ? (axis.output + part / 2) / part : 1;
    return (axis.output + parts - 1) / parts;
}

// Whether outputs are better written past the caches.
template <class In, class Out>
bool streams_outputs(const Plan &plan, const Out &y, const Route &route) {
    const i64 read = plan.outer * plan.in_slab * static_cast<i64>(sizeof(In));
    const i64 written = plan.outer * plan.out_slab * bytes_of(y);
    return route.streams(start_of(y), written, read + written);
}

// Whether they can go there straight from registers of N elements: in every array those of a place are whole lines.
template <int N, class Sink>
bool places_in_lines(const Plan &plan, Sink sink) {
    bool are = plan.inner >= N && plan.inner % N == 0 && !sink.finishes();
    sink.over_arrays([&](auto *array, auto *&) {
        are = are && reinterpret_cast<std::uintptr_t>(array) % LINE == 0 &&
              plan.inner * static_cast<i64>(sizeof(*array)) % LINE == 0;
    });
    return are;
}

// Some outputs that are pooled at a time: the outputs first..stop-1 of row `index` and, where the pooler takes several,
// of up to `most` - 1 rows that follow.
struct RowUnit {
    i64 slab, index, first, stop, most;
    i64 room;           // after this element of the row nothing may be written
    Outbox *outboxes;   // where results are made, if not in place
    i64 most_elements;  // that an Outbox must have room for
};

// A pooler and a sink, as the loop over the rows sees them: the loop is compiled once for all of them.
class RowWork {
  public:
    virtual void move_to(const Plan &plan, i64 index, const OutputRow &rows) = 0;
    // Says how many rows were pooled.
    virtual i64 pool(const Plan &plan, const RowUnit &unit, const OutputRow &rows) = 0;

  protected:
    ~RowWork() = default;
};

template <class Pooler, class Sink>
class RowWorkOf final : public RowWork {
  public:
    RowWorkOf(const Plan &plan, Pooler &pooler, const Sink &sink)
        : pooler(pooler), sink(sink), room(this->sink.take_room(plan)) {}
    void move_to(const Plan &plan, i64 index, const OutputRow &rows) override { sink.move_to(plan, index, rows); }
    i64 pool(const Plan &plan, const RowUnit &unit, const OutputRow &rows) override {
        const i64 many = pooler.rows_at_a_time(rows, sink, unit.most);
        if (Outbox *outbox = unit.outboxes) {
            const i64 at = unit.first * plan.inner,
                      length = (many - 1) * plan.out_row + (unit.stop - unit.first) * plan.inner;
            sink.over_arrays([&](auto array, auto &row) {
                row = outbox++->room(array + unit.index * plan.out_row + at, length, unit.most_elements) - at;
            });
        }
        pooler.pool(unit.slab * plan.in_slab + rows.base, rows, sink, unit.first, unit.stop, unit.room, many - 1);
        sink.finish(plan, unit.slab, rows, unit.first, unit.stop);
        return many;
    }

  private:
    Pooler &pooler;
    Sink sink;
    decltype(sink.take_room(std::declval<const Plan &>())) room;  // held for the sink
};

// How the outputs are shared out. `streamed` says that results go past the caches: through an Outbox or, if `in_lines`,
// as they are.
struct RowUnits {
    const Plan &plan;
    const bool streamed, in_lines;
    const i64 outputs, part, parts;  // of a row, at a time, and how many times
    // Rows at a time, which is an even number. To send many past the caches at once would keep the memory from being
    // read meanwhile.
    const i64 most_rows;

    RowUnits(const Plan &plan, bool streamed, bool in_lines, i64 elements)
        : plan(plan),
          streamed(streamed),
          in_lines(in_lines),
          outputs(plan.last().output),
          part(part_of_row(plan, elements)),
          parts((outputs + part - 1) / part),
          most_rows(parts > 1 ? 1 : ((streamed ? 700 : 1024) / plan.out_row + 2) / 2 * 2) {}
    i64 count() const { return plan.outer * plan.out_rows * parts; }

    // Units begin..end-1, one after the other.
    void run(i64 begin, i64 end, RowWork &work) const {
        OutputRow rows(plan);
        Outbox outboxes[2];
        i64 index = begin / parts, done = begin % parts;  // of output rows, and parts of the row
        i64 slab = index / plan.out_rows, row = index % plan.out_rows;
        const i64 written_to =
            end / parts * plan.out_row + end % parts * part * plan.inner;  // elements up to which these units go
        const bool made_apart = streamed && !in_lines;
        rows.move_to(row);
        work.move_to(plan, index, rows);
        for (i64 unit = begin;;) {
            const i64 first = done * part, stop = first + part < outputs ? first + part : outputs;
            // An Outbox has room for a register more.
            const i64 most_elements = most_rows * part * plan.inner;
            const i64 room = made_apart ? first * plan.inner + most_elements + 32 : written_to - index * plan.out_row;
            const i64 many = work.pool(plan,
                                       {slab, index, first, stop, most_rows < end - unit ? most_rows : end - unit, room,
                                        made_apart ? outboxes : nullptr, most_elements},
                                       rows);
            unit += many;
            if (unit == end) break;
            if (++done < parts) continue;
            done = 0;
            index += many;
            row += many;
            if (row == plan.out_rows)
                row = 0, ++slab, rows.move_to(row);
            else
                rows.move_on(many);
            work.move_to(plan, index, rows);
        }
        if (in_lines) end_streaming();
    }
};

// Pools everything with poolers that make(part) makes, for at most `part` outputs at a time.
template <class Sink, class Make>
void pool_rows(const Plan &plan, const Sink &sink, bool streamed, bool in_lines, const Make &make,
               i64 elements = 4096) {
    const RowUnits units(plan, streamed, in_lines, elements);
    parallel(units.count(), worth_threads(plan.outer * plan.in_slab), [&](i64 begin, i64 end) {
        auto pooler = make(units.part);
        RowWorkOf<decltype(pooler), Sink> work(plan, pooler, sink);
        units.run(begin, end, work);
    });
}

// What the choice of one of the general ways depends on.
template <class L>
constexpr Lanes lanes_by_rows() {
    constexpr int N = LANES<typename L::Lane>;
    return {N, N, L::TAGGED, false, Tuned::NOT, false, !LEVEL_IS_TUNED, adds_up<L>(), false, 0, KEEPS<L>};
}

// The general ways, from cells of any type.
template <class L, class Sink>
void pool_lanes(const Plan &plan, const L &l, const RowSource<L> &from, const Sink &sink, Way way, bool streamed) {
    // A row rests in the nearest cache as States, and in steps once more as phases, beside what is read and written.
    const i64 state = L::PLANES * static_cast<i64>(sizeof(typename L::Lane)),
              elements = way == Way::KEPT && plan.outer_cells > 1 ? plan.out_row : 4096 / (plan.inner > 1 ? 1 : state);
    pool_rows(
        plan, sink, streamed, false, [&](i64 part) { return LanePooler<L, Sink>(plan, l, from, part, way); }, elements);
}

// --- any way --------------------------------------------------------------------------------------

// Whether a kind turns the signs of its cells, which is an instruction for each. It has fewer ways in registers: those
// that unturned() does not give.
template <class P>
bool turns_signs(const P &) {
    return false;
}
// The kind, when it is known to turn none.
template <class P>
const P &unturned(const P &p) {
    return p;
}

template <Tuned TUNED, int FEW, class P, class Sink, class From>
void pool_in_registers(Way way, const Plan &plan, const P &p, const typename P::In *x, const From &from,
                       const Sink &sink, bool streamed) {
    constexpr int MANY = LANES<typename P::Lane>;
    if constexpr (TUNED == Tuned::ALL)
        if (way == Way::TILES) {
            const bool in_lines = streamed && Sink::STREAMS && places_in_lines<MANY>(plan, sink);
            return pool_rows(plan, sink, streamed, in_lines,
                             [&](i64) { return TilePooler<P, Sink>(plan, p, from, in_lines); });
        }
    const DirectOutputs direct = direct_outputs(plan.last());
    if constexpr (FEW < MANY)
        if (direct.stop - direct.first < MANY)
            return pool_rows(plan, sink, streamed, false, [&](i64) { return DirectPooler<P, Sink, FEW>(plan, p, x); });
    pool_rows(plan, sink, streamed, false, [&](i64) { return DirectPooler<P, Sink, MANY>(plan, p, x); });
}

// Pools one axis after the other.
template <class P, class Sink>
void slide_all(const Plan &plan, const P &p, const typename P::In *x, const Sink &sink, bool streamed) {
    const auto lanes = p.lanes();
    const auto from = source_of(p, x, plan.outer * plan.in_slab);
    SlidingPooler<typename P::Lanes, Sink>(plan, lanes, from, sink, streamed).pool();
}

// Pools by the way that suits the plan, or that is asked for.
// `slides` says whether slide(streamed) can pool one axis after the other.
template <Tuned TUNED, class P, class Sink, class Slide>
void pool_all(const Plan &plan, const P &p, const typename P::In *x, const Sink &sink, const Route &route, bool slides,
              const Slide &slide) {
    using In = typename P::In;
    constexpr Tuned HERE = LEVEL_IS_TUNED ? TUNED : Tuned::NOT;
    // Short rows of floats and doubles have registers of their own.
    constexpr int MANY = LANES<typename P::Lane>,
                  FEW = std::is_floating_point_v<In> ? FEW_LANES<typename P::Lane> : MANY;
    const bool turned = turns_signs(p);
    const bool in_two = adds_up<P>() ? P::Lanes::PLANES > 1 : P::TAGGED && sizeof(typename P::Lane) == 8;
    const Way way =
        choose_forward(plan,
                       {MANY, turned ? MANY : FEW, P::TAGGED, slides, turned && HERE == Tuned::ALL ? Tuned::ROWS : HERE,
                        sizeof(In) < 4 && sizeof(In) < sizeof(typename P::Lane), !LEVEL_IS_TUNED, adds_up<P>(), in_two,
                        most_in_words<P>(), KEEPS<typename P::Lanes>, columns_first<P>(), in_pairs<P>()},
                       route.asked);
    if (route.tell(way)) return;
    const bool streamed = streams_outputs<In>(plan, sink.y, route);
    const auto from = source_of(p, x, plan.outer * plan.in_slab);
    const auto lanes = p.lanes();
    if constexpr (HERE != Tuned::NOT)
        if (way == Way::DIRECT || way == Way::TILES) {
            if constexpr (!std::is_same_v<std::decay_t<decltype(unturned(p))>, P>)
                if (turned) return pool_in_registers<Tuned::ROWS, MANY>(way, plan, p, x, from, sink, streamed);
            return pool_in_registers<HERE, FEW>(way, plan, unturned(p), x, from, sink, streamed);
        }
    if constexpr (most_in_words<P>() > 0)
        if (way == Way::PAIRS)
            return pool_rows(plan, sink, streamed, false, [&](i64 part) { return PairPooler<P, Sink>(plan, x, part); });
    if (way == Way::SLIDE) return slide(streamed);
    pool_lanes(plan, lanes, from, sink, way, streamed);
}
template <Tuned TUNED, class P, class Sink>
void pool_all(const Plan &plan, const P &p, const typename P::In *x, const Sink &sink, const Route &route) {
    pool_all<TUNED>(plan, p, x, sink, route, SLIDES<P>, [&]([[maybe_unused]] bool streamed) {
        if constexpr (SLIDES<P>) slide_all(plan, p, x, sink, streamed);
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
