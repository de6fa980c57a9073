// Arrays that are not dense, or have cells that are skipped, a piece at a time.
//
// To copy such an array whole would move it through memory twice more. So pieces of it are copied to where the cache
// holds them, the operation runs on each as it does on a whole array, and what belongs into a view is copied out again.
#pragma once
#include <algorithm>

#include "base/stream.h"
#include "passes/batch.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// --- copies -----------------------------------------------------------------------------------------

enum class Towards { DENSE, VIEW };

// A loop over a dimension of a copy: so many times, in these steps.
struct CopyLoop {
    i64 count, view, dense;
};

// The dimensions of an array, as loops: the outermost has the longest step in the view, so that memory is read in its
// order. Two that are one in both places are joined. The one with neighbours in the dense array stands apart.
struct CopyLoops {
    int count = 0;
    CopyLoop loops[MAX_DIMS + 1];
    CopyLoop row{1, 1, 1};

    // Of an array in a dense one, whose lengths may be longer.
    CopyLoops(const i64 *lengths, const i64 *steps, const i64 *dense_lengths, int dims) {
        i64 dense = 1;
        for (int d = dims - 1; d >= 0; --d) {
            const CopyLoop next{lengths[d], steps[d], dense};
            dense *= dense_lengths[d];
            if (next.count == 1) continue;
            CopyLoop &before = count ? loops[count - 1] : row;
            if (before.count == 1)
                row = next;
            else if (next.view == before.view * before.count && next.dense == before.dense * before.count)
                before.count *= next.count;
            else
                loops[count++] = next;
        }
    }

    // Leaves the dimension of the view's neighbours out, if it is another than the dense array's, and gives it.
    CopyLoop take_column() {
        for (int i = 0; i < count; ++i)
            if (loops[i].view == 1 && row.view != 1) return take(i);
        return {1, 1, 1};
    }

    // The loop with the shortest steps in the one place or in the other, and to leave it out.
    int nearest(i64 CopyLoop::*step) const {
        auto size = [&](int i) { return loops[i].*step < 0 ? -(loops[i].*step) : loops[i].*step; };
        int found = 0;
        for (int i = 1; i < count; ++i)
            if (size(i) < size(found)) found = i;
        return found;
    }
    CopyLoop take(int i) {
        const CopyLoop taken = loops[i];
        loops[i] = loops[--count];
        return taken;
    }

    i64 elements() const {
        i64 all = 1;
        for (int i = 0; i < count; ++i) all *= loops[i].count;
        return all;
    }

    void sort() {
        auto length = [](i64 step) { return step < 0 ? -step : step; };
        std::sort(loops, loops + count,
                  [&](const CopyLoop &a, const CopyLoop &b) { return length(a.view) > length(b.view); });
    }
};

// Calls use(view, dense) with the offsets of each turn of the loops from `depth` on.
template <class Use>
void over_loops(const CopyLoops &all, int depth, i64 view, i64 dense, const Use &use) {
    if (depth == all.count) return use(view, dense);
    const CopyLoop &loop = all.loops[depth];
    for (i64 i = 0; i < loop.count; ++i) over_loops(all, depth + 1, view + i * loop.view, dense + i * loop.dense, use);
}

// The same from the outermost loop on, which threads share if the array is large and nobody else shares the work.
template <class Use>
void over_all_loops(const CopyLoops &all, i64 elements, const Use &use) {
    if (all.count == 0) return use(0, 0);
    const CopyLoop &loop = all.loops[0];
    parallel(loop.count, worth_threads(elements), [&](i64 begin, i64 end) {
        for (i64 i = begin; i < end; ++i) over_loops(all, 1, i * loop.view, i * loop.dense, use);
    });
}

template <Towards TO, class Bits>
void copy_row(Bits *__restrict view, i64 step, Bits *__restrict dense, i64 count) {
    auto copied = [&](auto step) {
        for (i64 i = 0; i < count; ++i) {
            if constexpr (TO == Towards::DENSE)
                dense[i] = view[i * step];
            else
                view[i * step] = dense[i];
        }
    };
    // Steps that the compiler knows are vectors' work.
    if (step == 1) return copied(std::integral_constant<i64, 1>());
    if (step == -1) return copied(std::integral_constant<i64, -1>());
    if (step == 2) return copied(std::integral_constant<i64, 2>());
    if (step == 0 && TO == Towards::DENSE) return std::fill(dense, dense + count, *view);
    copied(step);
}

// Copies `bytes`, 8 to 64 of them, without a loop: the halves overlap.
NDPOOL_INLINE void copy_short(char *to, const char *from, i64 bytes) {
    auto halves = [&](auto half) NDPOOL_INLINED {
        constexpr std::size_t HALF = decltype(half)::value;
        char first[HALF], last[HALF];
        const i64 rest = bytes - static_cast<i64>(HALF);
        std::memcpy(first, from, HALF), std::memcpy(last, from + rest, HALF);
        std::memcpy(to, first, HALF), std::memcpy(to + rest, last, HALF);
    };
    if (bytes >= 32) return halves(std::integral_constant<std::size_t, 32>());
    if (bytes >= 16) return halves(std::integral_constant<std::size_t, 16>());
    halves(std::integral_constant<std::size_t, 8>());
}

// Copies short runs that follow each other along one dimension in the view, and along another in the dense array. Some
// of the latter at a time, as with rows that become columns.
template <Towards TO, class Bits>
void copy_runs(CopyLoops &all, Bits *view, Bits *dense, i64 elements) {
    const i64 bytes = all.row.count * static_cast<i64>(sizeof(Bits));
    const int next = all.nearest(&CopyLoop::dense);
    const bool same = next == all.nearest(&CopyLoop::view);
    const CopyLoop across = all.take(next), along = all.take(all.nearest(&CopyLoop::view));
    const i64 many = same ? across.count : 1024 / bytes;
    all.sort();
    for (i64 first = 0; first < across.count; first += many) {
        const i64 stop = std::min(across.count, first + many);
        over_all_loops(all, elements / across.count * (stop - first), [&](i64 from, i64 to) {
            for (i64 i = 0; i < along.count; ++i)
                for (i64 r = first; r < stop; ++r) {
                    Bits *here = view + from + i * along.view + r * across.view,
                         *there = dense + to + i * along.dense + r * across.dense;
                    if constexpr (TO == Towards::DENSE) std::swap(here, there);
                    copy_short(reinterpret_cast<char *>(here), reinterpret_cast<const char *>(there), bytes);
                }
        });
    }
}

// The neighbours in a view along several dimensions, the nearest first, where the dense array has them in another
// order: how many there are, and where each is in the dense array.
struct Neighbours {
    static constexpr i64 MOST = 512;
    i64 count = 1, dense[MOST] = {};

    // Takes their loops out, while each goes on where the one before ends.
    int take_from(CopyLoops &all) {
        int taken = 0;
        for (int i = 0; i < all.count; ++i) {
            const CopyLoop &loop = all.loops[i];
            if (loop.view != count || count * loop.count > MOST) continue;
            for (i64 c = 1; c < loop.count; ++c)
                for (i64 k = 0; k < count; ++k) dense[c * count + k] = dense[k] + c * loop.dense;
            count *= loop.count;
            all.take(i), ++taken;
            i = -1;  // from the start again
        }
        return taken;
    }
};

// Copies neighbours in the view that are so few along one dimension that rows of these and of the dense array make no
// block to transpose: those along several dimensions are one row, some rows at a time. Says whether there are any.
template <Towards TO, class Bits>
bool copy_neighbours(CopyLoops all, Bits *view, Bits *dense, i64 elements) {
    constexpr i64 FEW = LINE / sizeof(Bits), NEAR = (i64(24) << 10) / sizeof(Bits);
    Neighbours near;
    const CopyLoop row = all.row;
    for (int i = 0; i < all.count; ++i)
        if (all.loops[i].view == 1 && all.loops[i].count >= FEW) return false;
    if (row.view == 1 || near.take_from(all) < 2) return false;
    all.sort();
    const i64 count = near.count, fit = NEAR / count < 8 ? 8 : NEAR / count, some = fit < row.count ? fit : row.count;
    over_all_loops(all, elements, [&](i64 from, i64 to) {
        const Scratch<Bits> block(count * some, "neighbours on their way");
        for (i64 first = 0; first < row.count; first += some) {
            const i64 many = first + some < row.count ? some : row.count - first;
            Bits *const here = view + from + first * row.view, *const there = dense + to + first;
            if (TO == Towards::DENSE) transpose<Bits>(here, row.view, block.data(), many, many, count);
            for (i64 k = 0; k < count; ++k) {
                Bits *own = block.data() + k * many, *other = there + near.dense[k];
                if (TO == Towards::DENSE) std::swap(own, other);
                std::memcpy(own, other, sizeof(Bits) * static_cast<std::size_t>(many));
            }
            if (TO == Towards::VIEW) transpose<Bits>(block.data(), many, here, row.view, count, many);
        }
    });
    return true;
}

// Copies an array of these lengths between a view with these steps and a dense array, which may be longer.
template <Towards TO, class Bits>
void copy_view(Bits *view, const i64 *steps, Bits *dense, const i64 *lengths, const i64 *dense_lengths, int dims) {
    CopyLoops all(lengths, steps, dense_lengths, dims);
    const i64 elements = all.elements() * all.row.count, run = all.row.count * static_cast<i64>(sizeof(Bits));
    if (all.row.view == 1 && run >= 8 && run <= 64 && all.count > 1) return copy_runs<TO>(all, view, dense, elements);
    if (copy_neighbours<TO>(all, view, dense, elements)) return;
    const CopyLoop column = all.take_column(), row = all.row;
    all.sort();
    if (column.count == 1)
        return over_all_loops(all, elements,
                              [&](i64 from, i64 to) { copy_row<TO>(view + from, row.view, dense + to, row.count); });
    // Rows of the one are columns of the other. Some rows at a time: the view has few pages for each.
    constexpr i64 MANY = (TO == Towards::DENSE ? 64 : 32) / sizeof(Bits);
    for (i64 first = 0; first < row.count; first += MANY) {
        const i64 many = row.count - first < MANY ? row.count - first : MANY;
        over_all_loops(all, elements / row.count * many, [&](i64 from, i64 to) {
            Bits *const here = view + from + first * row.view, *const there = dense + to + first;
            if constexpr (TO == Towards::DENSE)
                transpose<Bits>(here, row.view, there, column.dense, many, column.count);
            else
                transpose<Bits>(there, column.dense, here, row.view, column.count, many);
        });
    }
}

template <Towards TO>
void copy_view(void *view, const i64 *steps, void *dense, const i64 *lengths, const i64 *dense_lengths, int dims,
               i64 bytes) {
    with_bits(bytes, [&](auto zero) {
        using Bits = decltype(zero);
        copy_view<TO>(static_cast<Bits *>(view), steps, static_cast<Bits *>(dense), lengths, dense_lengths, dims);
    });
}
template <Towards TO>
void copy_view(void *view, const i64 *steps, void *dense, const i64 *lengths, int dims, i64 bytes) {
    copy_view<TO>(view, steps, dense, lengths, lengths, dims, bytes);
}

// --- pieces -----------------------------------------------------------------------------------------

// Pieces of the arrays: some slabs, which are a range of every leading dimension, and of these all outputs, or lo..hi-1
// along the first pooled axis with the cells that they see. On the way back, pieces of the cells have all outputs that
// see them, and other cells that these see as well: a gradient is that of its own cells alone.
class Pieces {
  public:
    struct Piece {
        i64 first[MAX_DIMS], count[MAX_DIMS];  // of the leading dimensions
        CellRange cells, own;
        i64 lo, hi;

        bool sees_others() const { return own.begin != cells.begin || own.end != cells.end; }
    };

    Pieces(const Plan &plan, const Call &call) : plan(plan), views(*call.views), forward(is_forward(call.op)) {
        const i64 bytes = std::max(size_of(call.type), call.t || call.g ? size_of(call.derivative) : 1);
        // Where cells are skipped, those that are there are counted, in 8 bytes for each output.
        const i64 slab_bytes = std::max(plan.in_slab * bytes, plan.out_slab * (call.skip.any ? 8 : bytes));
        const i64 *steps = views.x ? views.x : views.g ? views.g : views.t ? views.t : views.y ? views.y : views.gx;
        const i64 dense[MAX_DIMS] = {};
        if (!steps) steps = dense;  // in the order of the dimensions
        // The dimensions whose neighbours are nearest come first, so that lines of the cache are read whole.
        int nearest[MAX_DIMS];
        for (int d = 0; d < views.leading; ++d) nearest[d] = views.leading - 1 - d;
        std::stable_sort(nearest, nearest + views.leading,
                         [&](int a, int b) { return near(steps[a]) < near(steps[b]); });
        i64 slabs = std::max<i64>(1, BYTES / slab_bytes);
        if (views.leading && near(steps[nearest[0]]) == 1) slabs = std::max(slabs, std::min(plan.outer, RUN / bytes));
        const i64 piece_bytes = slabs * slab_bytes;
        for (int i = 0; i < views.leading; ++i) {
            const int d = nearest[i];
            at_a_time[d] = std::min(slabs, views.in[d]);
            slabs = std::max<i64>(1, slabs / views.in[d]);
            total *= (views.in[d] + at_a_time[d] - 1) / at_a_time[d];
        }
        const bool cut = piece_bytes > (call.skip.any ? 2 * BYTES : MOST);
        // Where cells along the first pooled axis are near each other, so many at a time that few pages are read by
        // several pieces.
        const i64 step = std::max<i64>(1, near(steps[views.leading]));
        outputs = cut ? outputs_at_a_time(piece_bytes, 4 * RUN / (bytes * step)) : plan.axes[0].output;
        bands = (plan.axes[0].output + outputs - 1) / outputs;
        total *= bands;
        too_large = bands == 1 && piece_bytes > TOO_LARGE;
    }

    i64 count() const { return total; }
    // Whether a piece would be so large that threads had better share it.
    bool are_too_large() const { return too_large; }

    Piece operator[](i64 number) const {
        const Axis &axis = plan.axes[0];
        Piece piece;
        piece.lo = number % bands * outputs, piece.hi = std::min(piece.lo + outputs, axis.output);
        piece.own = piece.cells = bands == 1 ? CellRange{0, axis.length} : cells_under(axis, piece.lo, piece.hi);
        if (bands > 1 && !forward) look_back(piece);
        number /= bands;
        for (int d = views.leading - 1; d >= 0; --d) {
            const i64 ranges = (views.in[d] + at_a_time[d] - 1) / at_a_time[d];
            piece.first[d] = number % ranges * at_a_time[d];
            piece.count[d] = std::min(at_a_time[d], views.in[d] - piece.first[d]);
            number /= ranges;
        }
        return piece;
    }

    // The lengths of such a piece of an array, and where it starts in a view.
    void lengths(const Piece &piece, bool input, i64 *to) const {
        std::copy_n(input ? views.in : views.out, views.dims, to);
        std::copy_n(piece.count, views.leading, to);
        if (bands > 1) to[views.leading] = input ? piece.cells.end - piece.cells.begin : piece.hi - piece.lo;
    }
    // One slab of a piece.
    Piece slab_of(const Piece &piece, i64 slab) const {
        Piece one = piece;
        for (int d = views.leading - 1; d >= 0; --d) {
            one.first[d] += slab % piece.count[d], one.count[d] = 1;
            slab /= piece.count[d];
        }
        return one;
    }
    // Elements of a slab for one cell of its first pooled axis.
    i64 first_step() const { return plan.in_slab / plan.axes[0].length; }
    i64 start(const Piece &piece, bool input, const i64 *steps) const {
        i64 at = (input ? piece.cells.begin : piece.lo) * (bands > 1 ? steps[views.leading] : 0);
        for (int d = 0; d < views.leading; ++d) at += piece.first[d] * steps[d];
        return at;
    }
    // In a dense array, where slab `slab` of the piece starts, and how many slabs follow each other from there on.
    i64 dense_start(const Piece &piece, bool input, i64 slab) const {
        const i64 size = input ? plan.in_slab : plan.out_slab;
        i64 at = 0, step = size;
        for (int d = views.leading - 1; d >= 0; --d) {
            at += (piece.first[d] + slab % piece.count[d]) * step;
            slab /= piece.count[d];
            step *= views.in[d];
        }
        if (bands == 1) return at;
        return at +
               (input ? piece.cells.begin * (size / plan.axes[0].length) : piece.lo * (size / plan.axes[0].output));
    }
    i64 slabs_in_a_row(const Piece &piece) const {
        i64 slabs = 1;
        if (bands > 1) return slabs;
        for (int d = views.leading - 1; d >= 0; --d) {
            slabs *= piece.count[d];
            if (piece.count[d] != views.in[d]) break;
        }
        return slabs;
    }

  private:
    // A piece of about so many bytes stays in the second-level cache with what is made of it. Slabs of up to MOST are
    // not cut.
    static constexpr i64 BYTES = i64(192) << 10, MOST = i64(1) << 20, TOO_LARGE = i64(4) << 20, RUN = 4 * LINE;
    const Plan &plan;
    const Views &views;
    const bool forward;
    i64 at_a_time[MAX_DIMS], outputs, bands, total = 1;
    bool too_large;

    static i64 near(i64 step) { return step < 0 ? -step : step; }

    // Makes a piece of outputs one of the cells from where they start to where the next ones do.
    void look_back(Piece &piece) const {
        const Axis &axis = plan.axes[0];
        auto start = [&](i64 o) { return o <= 0 ? 0 : o >= axis.output ? axis.length : within(axis.start(o)); };
        piece.own = {start(piece.lo), start(piece.hi)};
        if (piece.own.begin >= piece.own.end) return;
        i64 lo, hi;
        axis.outputs_over(piece.own.begin, piece.own.end, &lo, &hi);
        piece.lo = std::min(lo, piece.lo), piece.hi = std::max(hi, piece.hi);
        const CellRange seen = cells_under(axis, piece.lo, piece.hi);
        piece.cells = {std::min(seen.begin, piece.own.begin), std::max(seen.end, piece.own.end)};
    }
    i64 within(i64 cell) const { return std::max<i64>(0, std::min(cell, plan.axes[0].length)); }

    // Along the first pooled axis, so many that the cells seen twice are few; and `least` cells, should these fit.
    i64 outputs_at_a_time(i64 piece_bytes, i64 least) const {
        const Axis &axis = plan.axes[0];
        if (axis.adaptive) return axis.output;
        const i64 reach = axis.dilation * (axis.kernel - 1), cell_bytes = std::max<i64>(1, piece_bytes / axis.length),
                  fit = std::max(BYTES / cell_bytes, std::min(least, MOST / cell_bytes));
        const i64 some = std::max<i64>(std::max(fit, 4 * reach) / axis.stride, 1);
        return some > axis.output / 2 ? axis.output : some;
    }
};

// --- running them -----------------------------------------------------------------------------------

// The steps of each array, in the order of over_arrays.
struct StepsOfArrays {
    const i64 *of[MOST_ARRAYS];
    explicit StepsOfArrays(const Views &v)
        : of{v.x, v.t, v.gx, v.y, nullptr, nullptr, v.g, nullptr, nullptr, nullptr} {}
};

// Copies what the cells of a piece got, without the other cells that it has, from `room` to where it belongs.
inline void copy_own(const Call &call, const Pieces &pieces, const Pieces::Piece &piece, i64 slabs, bool streamed,
                     char *room) {
    const i64 bytes = size_of(call.derivative), cell = pieces.first_step() * bytes,
              slab_bytes = (piece.cells.end - piece.cells.begin) * cell;
    room += (piece.own.begin - piece.cells.begin) * cell;
    if (const i64 *steps = call.views->gx) {
        Pieces::Piece own = piece;
        own.cells = piece.own;
        i64 lengths[MAX_DIMS], lengths_of_room[MAX_DIMS];
        pieces.lengths(own, true, lengths);
        pieces.lengths(piece, true, lengths_of_room);
        return copy_view<Towards::VIEW>(static_cast<char *>(call.gx) + pieces.start(own, true, steps) * bytes, steps,
                                        room, lengths, lengths_of_room, call.views->dims, bytes);
    }
    for (i64 slab = 0; slab < slabs; ++slab) {
        Pieces::Piece one = pieces.slab_of(piece, slab);
        one.cells = piece.own;
        char *from = room + slab * slab_bytes;
        char *to = static_cast<char *>(call.gx);
        const i64 length = (piece.own.end - piece.own.begin) * cell;
        if (streamed) {
            stream_bytes(to + pieces.dense_start(one, true, 0) * bytes, from, length);
        } else {
            std::memcpy(to + pieces.dense_start(one, true, 0) * bytes, from, static_cast<std::size_t>(length));
        }
    }
    if (streamed) end_streaming();
}

// Runs the operation on one piece, with run(plan, call).
template <class Run>
void run_piece(const Plan &plan, const Call &call, const Pieces &pieces, const Pieces::Piece &piece, bool streamed,
               const Run &run) {
    if (piece.own.begin >= piece.own.end) return;
    const StepsOfArrays steps(*call.views);
    const int dims = call.views->dims, gradient = 2;  // the number of gx
    const bool own_alone = call.gx && piece.sees_others();
    auto has_room = [&](int i) { return steps.of[i] || (i == gradient && own_alone); };
    Scratch<std::uint64_t> room[MOST_ARRAYS];
    i64 lengths[MAX_DIMS];
    const Plan part = plan.part(piece.cells.begin, piece.cells.end, piece.lo, piece.hi);
    auto slab_of = [&](bool input) { return input ? part.in_slab : part.out_slab; };
    i64 slabs = 1;
    for (int d = 0; d < call.views->leading; ++d) slabs *= piece.count[d];
    int number = 0;
    over_arrays(call, [&](auto *array, i64 bytes, bool input) {
        const int i = number++;
        if (!array || !has_room(i)) return;
        room[i].grow((slabs * slab_of(input) * bytes + 7) / 8 + 16, "a piece of a view");
        if (!is_read(array)) return;
        pieces.lengths(piece, input, lengths);
        char *from = static_cast<char *>(const_cast<void *>(static_cast<const void *>(array)));
        copy_view<Towards::DENSE>(from + pieces.start(piece, input, steps.of[i]) * bytes, steps.of[i], room[i].data(),
                                  lengths, dims, bytes);
    });
    const i64 together = pieces.slabs_in_a_row(piece);
    for (i64 slab = 0; slab < slabs; slab += together) {
        Call own = call;
        own.views = nullptr, own.past_the_caches = streamed && !own_alone;
        Plan some = part;
        some.outer = together;
        number = 0;
        over_arrays(own, [&](auto *&array, i64 bytes, bool input) {
            using Byte = std::conditional_t<std::is_same_v<decltype(array), void *&>, char, const char>;
            const int i = number++;
            if (!array) return;
            if (has_room(i))
                array = reinterpret_cast<char *>(room[i].data()) + slab * slab_of(input) * bytes;
            else
                array = static_cast<Byte *>(array) + pieces.dense_start(piece, input, slab) * bytes;
        });
        run(some, own);
    }
    if (own_alone) copy_own(call, pieces, piece, slabs, streamed, reinterpret_cast<char *>(room[gradient].data()));
    number = 0;
    over_arrays(call, [&](auto *array, i64 bytes, bool input) {
        const int i = number++;
        if (!array || !steps.of[i] || is_read(array) || (i == gradient && own_alone)) return;
        pieces.lengths(piece, input, lengths);
        char *to = static_cast<char *>(const_cast<void *>(static_cast<const void *>(array)));
        copy_view<Towards::VIEW>(to + pieces.start(piece, input, steps.of[i]) * bytes, steps.of[i], room[i].data(),
                                 lengths, dims, bytes);
    });
}

// Whether the result is a dense array that is better written past the caches.
inline bool streams_result(const Plan &plan, const Call &call) {
    if (call.past_the_caches) return true;
    const i64 inputs = plan.outer * plan.in_slab, outputs = plan.outer * plan.out_slab;
    const i64 moved = inputs * size_of(call.type) + outputs * bytes_of_y(call);
    if (call.gx) return !call.views->gx && worth_streaming(call.gx, inputs * size_of(call.derivative), moved);
    return call.y && !call.views->y && worth_streaming(call.y, outputs * bytes_of_y(call), moved);
}

// Runs the operation on all pieces, with run(plan, call).
template <class Run>
void run_on_views(const Plan &plan, const Call &call, const Run &run) {
    const Pieces pieces(plan, call);
    const bool streamed = streams_result(plan, call);
    auto some = [&](i64 begin, i64 end) {
        for (i64 number = begin; number < end; ++number) run_piece(plan, call, pieces, pieces[number], streamed, run);
    };
    if (pieces.are_too_large()) return some(0, pieces.count());
    parallel(pieces.count(), worth_threads(plan.outer * plan.in_slab), some);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
