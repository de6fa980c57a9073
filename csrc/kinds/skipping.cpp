// Cells that are not there, for all kinds that are computed by passes.
//
// A skipped cell is replaced by a number that changes nothing: the lowest one for a maximum, 0 for a sum. Then the
// operation runs as it does elsewhere. Beside it the cells that are there are counted, as the sum of their marks. An
// output that sees too few of them is overwritten, and so is what a skipped cell got on the way back. All this is done
// to pieces that stay in the cache; see passes/views.h.
#include <stdexcept>

#include "kinds/families.h"
#include "kinds/long_sums.h"
#include "kinds/planes.h"
#include "kinds/skipped_sums.h"
#include "passes/skipped.h"
#include "passes/small_counts.h"

namespace ndpool {
namespace NDPOOL_LEVEL {
namespace {

using Byte = std::uint8_t;

// --- numbers ------------------------------------------------------------------------------------

std::uint64_t sign_of(Type type) { return std::uint64_t(1) << (8 * size_of(type) - 1); }

// What no cell of a maximum is less than, or of a minimum is more than.
std::uint64_t worst(Type type, bool minimum) {
    const std::uint64_t sign = sign_of(type), all = SkippedBits::low_bits(8 * size_of(type));
    if (is_float(type)) return SkippedBits::infinity_of(type) | (minimum ? 0 : sign);
    const bool is_signed = type == Type::I8 || type == Type::I16 || type == Type::I32 || type == Type::I64;
    if (is_signed) return minimum ? all >> 1 : sign;
    return minimum ? all : 0;
}

// What stands in place of a skipped cell. A sum of negative zeros is one, so these change no sum; an empty sum is 0.
std::uint64_t filling_of(const Call &call) {
    switch (call.op) {
        case Op::SUM:
        case Op::SUM_VJP: return is_float(call.type) && call.skip.min_count > 0 ? sign_of(call.type) : 0;
        case Op::SMOOTH:
        case Op::SMOOTH_VJP: return call.lp ? 0 : worst(call.type, call.parameter < 0);
        default: return worst(call.type, call.minimum);
    }
}

// How many real cells the smallest window has.
i64 least_real(const Plan &plan) {
    if (plan.same_real) return plan.cells;
    i64 all = 1;
    for (int a = 0; a < plan.axis_count; ++a) {
        const Axis &axis = plan.axes[a];
        i64 least = axis.kernel;
        for (i64 o = 0; o < axis.output; ++o) {
            const i64 here = axis.taps(o).count;
            least = here < least ? here : least;
        }
        all *= least;
    }
    return all;
}

// Calls f(cell, place) for the real cells of one window, in order, until it says that it has seen enough.
template <class F>
void over_window(const Plan &plan, const OutputRow &rows, i64 slab_start, i64 element, const F &f) {
    const i64 o = element / plan.inner, e = element % plan.inner;
    const Axis &last = plan.last();
    const Axis::Taps taps = last.taps(o);
    for (i64 r = 0; r < rows.count; ++r)
        for (i64 k = 0; k < taps.count; ++k)
            if (f(slab_start + rows.base + rows.offset[r] + (taps.first + k * last.dilation) * plan.inner + e,
                  rows.tag[r] * last.kernel + taps.skipped + k))
                return;
}

// --- one operation ------------------------------------------------------------------------------

class Skipping {
  public:
    Skipping(const Plan &plan, const Call &call)
        : plan(plan),
          call(call),
          cells(plan.outer * plan.in_slab),
          outputs(plan.outer * plan.out_slab),
          skipped(call.type, call.skip.value),
          filling(filling_of(call)),
          least(call.count == Count::NONE || call.count == Count::FIXED || call.skip.min_count > 1 ? call.skip.min_count
                                                                                                   : 1),
          filled_as_it_is(skipped.are(filling) && skipped.more == 0) {}

    void run() {
        if (LongSums::suits(plan, call)) return LongSums(plan, call, skipped, least).run();
        if (is_one_pass()) return CountedSums(plan, call, skipped, filling, least).run();
        switch (call.op) {
            case Op::VALUE:
            case Op::WINNERS: return select();
            case Op::FIND_WINNERS: return find_winners();
            case Op::WINNERS_VJP: return pull_winners();
            case Op::TIES_JVP: return push_ties();
            case Op::TIES_VJP: return pull_ties();
            case Op::SUM: return sum();
            case Op::SUM_VJP: return pull_sum();
            case Op::SMOOTH: return smooth();
            case Op::SMOOTH_VJP: return pull_smooth();
            default: return run_usual(call);
        }
    }

    // Whether sums and numbers of cells are found together. Small slabs, a lane each, have no such way, nor has one
    // that is asked for.
    bool is_one_pass() const {
        if (call.asked != Way::NONE || !CountedSums::suit(plan, call)) return false;
        Way way = Way::NONE;
        Call own = call;
        own.skip = Skip(), own.told = &way;
        run_dense(plan, own);
        return way != Way::BATCH;
    }

  private:
    const Plan &plan;
    const Call &call;
    const i64 cells, outputs;
    const SkippedBits skipped;
    const std::uint64_t filling;
    const i64 least;             // cells that an output has to see
    const bool filled_as_it_is;  // whether the skipped value is what it would be replaced by

    // x with skipped cells replaced, a mark for each that is there, and for each output that sees enough of them.
    Scratch<std::uint64_t> filled;
    Scratch<Byte> there, enough;
    // How many cells of each output are there, in bytes where these hold the number.
    bool small = false;
    Scratch<Byte> few;
    Scratch<double> many;
    Looked looked;
    bool all_enough = true;

    // The operation as it is without skipped cells. A way that was asked for may be one for larger pieces.
    void run_usual(Call own) const {
        own.skip = Skip();
        if (own.asked != Way::NONE && !can_go(own)) own.asked = Way::NONE;
        run_dense(plan, own);
    }
    bool can_go(Call own) const {
        Way way = Way::NONE;
        own.told = &way;
        try {
            run_dense(plan, own);
        } catch (const std::invalid_argument &) {
            return false;
        }
        return true;
    }

    // Bits that are just these.
    SkippedBits exactly(std::uint64_t bits) const {
        SkippedBits one = skipped;
        one.kept = SkippedBits::low_bits(8 * size_of(call.type)), one.first = bits, one.more = 0;
        return one;
    }

    // --- what is there ---

    void look(bool fill, bool mark) {
        if (fill) filled.grow((cells * size_of(call.type) + 7) / 8 + 16, "cells without skipped ones");
        if (mark) there.grow(cells + 64, "marks of cells");
        looked = replace(call.type, call.x, cells, skipped, filling, fill ? filled.data() : nullptr,
                         mark ? there.data() : nullptr);
    }
    bool nothing_to_do() const { return !looked.skipped && least <= least_real(plan); }

    // The operation on marks. A sum is divided by 1, which makes it a double.
    void on_marks(Op op, void *y) const {
        Call own;
        own.op = op, own.type = Type::U8, own.derivative = Type::F64;
        own.count = Count::FIXED, own.divisor = 1;
        own.x = there.data(), own.y = y;
        run_dense(plan, own);
    }
    // Counts the cells of each output that are there, and marks the outputs that see enough.
    void count(int absent = 1) {
        enough.grow(outputs + 64, "marks of outputs");
        small = SmallCounts::suits(plan) && least < 256;
        if (small) {
            few.grow(outputs + 64, "cells of each output");
            SmallCounts(plan).count(there.data(), few.data());
            mark_enough(few.data(), absent);
        } else {
            many.grow(outputs + 64, "cells of each output");
            on_marks(Op::SUM, many.data());
            mark_enough(many.data(), absent);
        }
    }
    // What an output counts that sees too few cells is `absent`, from then on.
    template <class T>
    void mark_enough(T *counts, int absent) {
        constexpr int N = LANES<T>;
        const auto some = static_cast<T>(least > 0 ? least : 0), other = static_cast<T>(absent);
        vec<Byte, N> all = splat<Byte, N>(1);
        i64 i = 0;
        for (; i + N <= outputs; i += N) {
            const vec<T, N> n = load<N>(counts + i);
            const auto is = n >= some;
            const vec<Byte, N> mark = convert<Byte, N>(is) & Byte(1);
            all &= mark;
            store<N>(enough.data() + i, mark);
            store<N>(counts + i, is ? n : splat<T, N>(other));
        }
        all_enough = true;
        for (int l = 0; l < N; ++l) all_enough &= all[l] != 0;
        for (; i < outputs; ++i) {
            all_enough &= enough[i] = counts[i] >= some;
            if (!enough[i]) counts[i] = other;
        }
    }
    void set_counts(Call &own) const {
        own.count_bytes = small ? 1 : 8;
        own.counts = small ? static_cast<const void *>(few.data()) : many.data();
    }
    // Of outputs that have the type of the cells: they are skipped if they see too few.
    void mark_enough_by(const void *y) {
        enough.grow(outputs + 64, "marks of outputs");
        all_enough = !replace(call.type, y, outputs, skipped, 0, nullptr, enough.data()).skipped;
    }

    // --- what is overwritten ---

    // y and dy of outputs that see too few cells.
    void write_absent(void *y, void *dy) const {
        if (all_enough) return;
        if (y) choose(enough.data(), outputs, y, call.skip.absent, y, bytes_of_y(call));
        if (dy) choose(enough.data(), outputs, dy, 0, dy, size_of(call.derivative));
    }
    // Cotangents, with 0 for such outputs; `room` is to be held.
    const void *cotangents(Scratch<std::uint64_t> &room) const {
        if (all_enough) return call.g;
        const i64 bytes = size_of(call.derivative);
        room.grow((outputs * bytes + 7) / 8 + 16, "cotangents without absent ones");
        choose(enough.data(), outputs, call.g, 0, room.data(), bytes);
        return room.data();
    }
    // Runs the way back of own, and clears what skipped cells got.
    void pull(Call own) const {
        const i64 bytes = size_of(call.derivative);
        own.past_the_caches = false;
        Scratch<std::uint64_t> room;
        if (call.past_the_caches) {
            room.grow((cells * bytes + 7) / 8 + 16, "gradients of a piece");
            own.gx = room.data();
            run_usual(own);
            return choose(there.data(), cells, own.gx, 0, call.gx, bytes, true);
        }
        run_usual(own);
        choose(there.data(), cells, call.gx, 0, call.gx, bytes);
    }

    // --- Max and Min ---

    void select() {
        const bool by_value = least <= 1;  // so that only an output without any cell is absent
        if (!(filled_as_it_is && by_value)) look(true, false);
        Call own = call;
        if (filled.data()) own.x = filled.data();
        run_usual(own);
        const bool absent_as_it_is = filled_as_it_is && !call.winners && !call.dy;
        if (filled.data() ? nothing_to_do() : absent_as_it_is) return;
        if (by_value && !looked.filling) {
            // None but an output without any cell is what skipped cells were replaced by.
            enough.grow(outputs + 64, "marks of outputs");
            all_enough =
                !replace(call.type, call.y, outputs, exactly(filling), call.skip.absent, call.y, enough.data()).skipped;
            write_absent(nullptr, call.dy);
            return add_to_absent();
        }
        look(false, true);
        count();
        if (call.winners || call.dy) mend_winners(call.y);
        write_absent(call.y, call.dy);
        add_to_absent();
    }

    // The place of an absent output's winner is told from the others by as many as there are cells in a window.
    void add_to_absent() const {
        if (all_enough || !call.winners) return;
        with_bits(call.winner_bytes, [&](auto zero) {
            using W = decltype(zero);
            auto *winners = static_cast<W *>(call.winners);
            const auto more = static_cast<W>(plan.cells);
            constexpr int N = LANES<W>;
            i64 i = 0;
            for (; i + N <= outputs; i += N) {
                const vec<W, N> absent = convert<W, N>(load<N>(enough.data() + i)) - W(1);  // all bits, or none
                store<N>(winners + i, load<N>(winners + i) + (absent & more));
            }
            for (; i < outputs; ++i) winners[i] = static_cast<W>(winners[i] + (enough[i] ? 0 : more));
        });
    }

    // Where cells that are there are no better than what skipped ones were replaced by, the first of all cells may have
    // won and be a skipped one. Then the first that is there is the winner, of an absent output too: so of all cells in
    // a column of a row of windows, only one wins.
    void mend_winners(const void *y) const {
        Scratch<Byte> better(outputs + 64, "marks of outputs");
        if (!replace(call.type, y, outputs, exactly(filling), 0, nullptr, better.data()).skipped) return;
        over_rows(plan, [&](const OutputRow &rows, i64 first, i64 slab) {
            for (i64 i = 0; i < plan.out_row; ++i)
                if (!better[first + i])
                    over_window(plan, rows, slab, i, [&](i64 cell, i64 place) {
                        if (there[cell]) put_winner(first + i, cell, place);
                        return there[cell] != 0;
                    });
        });
    }
    void put_winner(i64 output, i64 cell, i64 place) const {
        if (call.winners) put_place(output, place);
        if (!call.dy) return;
        const i64 bytes = size_of(call.derivative);
        std::memcpy(static_cast<char *>(call.dy) + output * bytes, static_cast<const char *>(call.t) + cell * bytes,
                    static_cast<std::size_t>(bytes));
    }
    void put_place(i64 output, i64 place) const {
        with_bits(call.winner_bytes, [&](auto zero) {
            using W = decltype(zero);
            static_cast<W *>(call.winners)[output] = static_cast<W>(place);
        });
    }

    // Looks for the winners where no lane holds their places. An absent output may be equal to none of its cells, so
    // that all outputs are computed again, from cells without skipped ones.
    void find_winners() {
        mark_enough_by(call.y_in);
        look(true, true);
        Scratch<std::uint64_t> y((outputs * size_of(call.type) + 7) / 8 + 16, "outputs of a piece");
        Call own = call;
        own.x = filled.data(), own.op = Op::VALUE, own.asked = Way::NONE;
        own.y_in = own.t = nullptr, own.winners = own.dy = nullptr, own.y = y.data();
        run_usual(own);
        own = call, own.x = filled.data(), own.y_in = y.data();
        run_usual(own);
        if (looked.filling && looked.skipped) mend_winners(y.data());
        write_absent(nullptr, call.dy);
        add_to_absent();
    }

    void pull_winners() {
        Scratch<std::uint64_t> winners, g;
        with_bits(call.winner_bytes, [&](auto zero) {
            using W = decltype(zero);
            auto *from = static_cast<const W *>(call.winners_in);
            const auto all = static_cast<W>(plan.cells);
            winners.grow((outputs * call.winner_bytes + 7) / 8 + 16, "winners without absent ones");
            enough.grow(outputs + 64, "marks of outputs");
            auto *to = reinterpret_cast<W *>(winners.data());
            constexpr int N = LANES<W>;
            vec<typename IntOf<sizeof(W)>::s, N> any{};
            i64 i = 0;
            for (; i + N <= outputs; i += N) {
                const vec<W, N> place = load<N>(from + i);
                const auto absent = place >= all;
                any |= absent;
                store<N>(enough.data() + i, convert<Byte, N>(absent + 1));
                store<N>(to + i, absent ? place - all : place);
            }
            all_enough = true;
            for (int l = 0; l < N; ++l) all_enough &= any[l] == 0;
            for (; i < outputs; ++i) {
                all_enough &= enough[i] = from[i] < all;
                to[i] = enough[i] ? from[i] : static_cast<W>(from[i] - all);
            }
        });
        Call own = call;
        if (!all_enough) own.winners_in = winners.data();
        own.g = cotangents(g);
        run_usual(own);
    }

    // --- ties ---

    // y comes first, and which outputs see enough cells. The cells are then those without skipped ones.
    Call with_cells() {
        Call own = call;
        if (call.y) {
            own.op = Op::VALUE, own.t = nullptr, own.dy = nullptr, own.asked = Way::NONE;
            Skipping(plan, own).run();
            own = call, own.y = nullptr, own.y_in = call.y;
        }
        mark_enough_by(own.y_in);
        own.some_absent = !all_enough;
        if (filled_as_it_is) return own;
        look(true, false);
        own.x = filled.data();
        return own;
    }
    // Marks the outputs that are what skipped cells were replaced by, so that these tie too. All of their cells that
    // are there do: the derivative is that of a sum, or a mean, over them. Says whether there are any.
    bool find_tied(const void *y, Scratch<Byte> &others, Call &own) {
        if (filled_as_it_is || !looked.filling || !looked.skipped) return false;
        others.grow(outputs + 64, "marks of outputs");
        if (!replace(call.type, y, outputs, exactly(filling), 0, nullptr, others.data()).skipped) return false;
        look(false, true);
        own = call;
        own.x = own.y_in = own.t = own.g = nullptr, own.y = own.dy = nullptr;
        own.asked = Way::NONE, own.type = call.derivative, own.count = Count::NONE;
        if (call.ties == Ties::SPLIT) {
            count();
            own.count = Count::EACH, set_counts(own);
        }
        return true;
    }
    void push_ties() {
        Call own = with_cells(), sums;
        if (call.ties == Ties::FIRST) {
            Call first = call;
            first.y = nullptr, first.y_in = own.y_in;
            return Skipping(plan, first).find_winners();
        }
        run_usual(own);
        Scratch<Byte> others;
        if (find_tied(own.y_in, others, sums)) {
            const i64 bytes = size_of(call.derivative);
            Scratch<std::uint64_t> t((cells * bytes + 7) / 8 + 16, "tangents of cells that are there"),
                changes((outputs * bytes + 7) / 8 + 16, "changes of outputs");
            choose(there.data(), cells, call.t, 0, t.data(), bytes);
            sums.op = Op::SUM, sums.x = t.data(), sums.y = changes.data();
            run_usual(sums);
            with_bits(bytes, [&](auto zero) {
                using U = decltype(zero);
                auto *dy = static_cast<U *>(call.dy);
                auto *from = reinterpret_cast<const U *>(changes.data());
                for (i64 i = 0; i < outputs; ++i) dy[i] = others[i] ? dy[i] : from[i];
            });
        }
        write_absent(nullptr, call.dy);
    }
    void pull_ties() {
        Call own = with_cells(), sums;
        Scratch<std::uint64_t> g;
        own.g = cotangents(g);
        Scratch<Byte> others;
        if (!find_tied(own.y_in, others, sums)) return run_usual(own);
        const i64 bytes = size_of(call.derivative);
        Scratch<std::uint64_t> shares((outputs * bytes + 7) / 8 + 16, "cotangents of ties"),
            rest((outputs * bytes + 7) / 8 + 16, "cotangents of others"),
            gx((cells * bytes + 7) / 8 + 16, "gradients of a piece");
        choose(others.data(), outputs, own.g, 0, rest.data(), bytes);
        for (i64 i = 0; i < outputs; ++i) others[i] ^= 1;
        choose(others.data(), outputs, own.g, 0, shares.data(), bytes);
        own.g = rest.data(), own.past_the_caches = false;
        run_usual(own);
        sums.op = Op::SUM_VJP, sums.g = shares.data(), sums.gx = gx.data(), sums.past_the_caches = false;
        run_usual(sums);
        choose(there.data(), cells, gx.data(), 0, gx.data(), bytes);
        with_float(call.derivative, [&](auto zero) {
            using G = decltype(zero);
            constexpr int N = LANES<double>;
            auto *to = static_cast<G *>(call.gx);
            auto *more = reinterpret_cast<const G *>(gx.data());
            auto add = [&](auto size, i64 i) NDPOOL_INLINED {
                constexpr int M = decltype(size)::value;
                store_as<M>(to + i, load_as<double, M>(to + i) + load_as<double, M>(more + i));
            };
            i64 i = 0;
            for (; i + N <= cells; i += N) add(std::integral_constant<int, N>(), i);
            for (; i < cells; ++i) add(std::integral_constant<int, 1>(), i);
        });
    }

    // --- sums ---

    bool divides_by_count() const { return call.count == Count::COUNTED || call.count == Count::REAL; }

    // Sets what each output's sum is divided by, and marks the outputs that see enough cells.
    void set_divisors(Call &own) {
        if (least > 0 || divides_by_count()) count();
        if (!divides_by_count()) return;
        if (call.count == Count::COUNTED && plan.padded && small) add_padding(few.data());
        if (call.count == Count::COUNTED && plan.padded && !small) add_padding(many.data());
        own.count = Count::EACH, set_counts(own);
    }
    // Padded cells that count.
    template <class T>
    void add_padding(T *counts) const {
        const Axis &last = plan.last();
        const auto [whole, stop] = whole_outputs(last, 0, last.output);  // in between, there is none along the row
        over_rows(plan, [&, whole = whole, stop = stop](const OutputRow &rows, i64 first, i64) {
            auto add = [&](i64 begin, i64 end) {
                for (i64 o = begin; o < end; ++o) {
                    const i64 more = rows.counted * last.counted(o) - rows.real * last.taps(o).count;
                    T *to = counts + first + o * plan.inner;
                    for (i64 e = 0; e < plan.inner; ++e) to[e] = static_cast<T>(to[e] + static_cast<T>(more));
                }
            };
            if (rows.counted != rows.real || whole >= stop) return add(0, last.output);
            add(0, whole);
            add(stop, last.output);
        });
    }

    void sum() {
        const bool pushes = call.t;  // the change of the sum along t, and not the sum
        look(!pushes, pushes || divides_by_count() || least > 0);
        Call own = call;
        own.x = pushes ? call.t : filled.data();
        if (pushes) own.type = call.derivative, own.t = nullptr, own.y = call.dy, own.dy = nullptr;
        if (nothing_to_do()) return run_usual(own);
        set_divisors(own);
        if (pushes) {
            filled.grow((cells * size_of(call.derivative) + 7) / 8 + 16, "tangents of cells that are there");
            choose(there.data(), cells, call.t, 0, filled.data(), size_of(call.derivative));
            own.x = filled.data();
        }
        run_usual(own);
        write_absent(call.y, call.dy);
    }
    void pull_sum() {
        look(false, true);
        Call own = call;
        own.x = nullptr;
        if (nothing_to_do()) return run_usual(own);
        Scratch<std::uint64_t> g;
        set_divisors(own);
        own.g = cotangents(g);
        pull(own);
    }

    // --- SmoothMax and Lp ---

    // Replaces skipped cells and counts the others; says whether there was anything to do.
    bool look_for_smooth(Call &own) {
        look(true, true);
        if (nothing_to_do()) return false;
        count(0);
        own.x = filled.data(), set_counts(own);
        return true;
    }
    void smooth() {
        Call own = call;
        if (!look_for_smooth(own)) return run_usual(own);
        run_usual(own);
        if (call.dy && !call.lp && looked.filling)
            over_infinite([&](i64 output, i64 n, const auto &over) {
                double change = 0;
                over([&](i64 cell) { change += read(call.derivative, call.t, cell) / static_cast<double>(n); });
                write(call.derivative, call.dy, output, change);
            });
        write_absent(call.y, call.dy);
    }
    void pull_smooth() {
        Call own = call;
        Scratch<std::uint64_t> g;
        if (!look_for_smooth(own)) return run_usual(own);
        const bool mends = !call.lp && looked.filling;
        if (mends) over_infinite([&](i64 output, i64, const auto &) { enough[output] = 0, all_enough = false; });
        own.g = cotangents(g);
        if (mends) own.past_the_caches = false;
        pull(own);
        if (mends)
            over_infinite([&](i64 output, i64 n, const auto &over) {
                const double share = read(call.derivative, call.g, output) / static_cast<double>(n);
                over([&](i64 cell) {
                    write(call.derivative, call.gx, cell, read(call.derivative, call.gx, cell) + share);
                });
            });
    }

    // Where all cells that are there are the infinity that skipped ones are replaced by, they share the output, and
    // skipped ones do not. Calls use(output, their number, over) for each such output, where over(f) calls f(cell).
    template <class Use>
    void over_infinite(const Use &use) const {
        over_rows(plan, [&](const OutputRow &rows, i64 first, i64 slab) {
            for (i64 i = 0; i < plan.out_row; ++i) {
                const i64 o = i / plan.inner;
                const i64 padding = rows.counted * plan.last().counted(o) - rows.real * plan.last().taps(o).count;
                if (call.count_pad && padding > 0) continue;
                i64 seen = 0;
                bool all = true;
                over_window(plan, rows, slab, i, [&](i64 cell, i64) {
                    seen += there[cell];
                    all &= !there[cell] || is_infinite_alike(cell);
                    return !all;
                });
                if (!all || seen == 0 || seen < least) continue;
                use(first + i, seen, [&](const auto &f) {
                    over_window(plan, rows, slab, i, [&](i64 cell, i64) {
                        if (there[cell]) f(cell);
                        return false;
                    });
                });
            }
        });
    }
    bool is_infinite_alike(i64 cell) const {
        return read(call.type, call.x, cell) == (call.parameter > 0 ? -__builtin_inf() : __builtin_inf());
    }
};

}  // namespace

void run_skipping(const Plan &plan, const Call &call) { Skipping(plan, call).run(); }

bool skips_in_one_pass(const Plan &plan, const Call &call) {
    return call.op == Op::SUM && !LongSums::suits(plan, call) && Skipping(plan, call).is_one_pass();
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
