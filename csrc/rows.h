// Pooling, an output row at a time.
//
// First all input rows that the row sees are merged, cell by cell, into one row of States (`merge_rows`): contiguous
// memory, whole registers. Then that row, which is in the nearest cache, is pooled along itself (`pool_row`): a strided
// window becomes contiguous when the row is split into its phases, cells 0, s, 2s, ... and 1, s+1, 2s+1, ... So
// the input is read once and the output written once. Where the window is small (`pool_direct`), or many elements
// belong to one place (channels last, `pool_places`), both steps are one, in registers.
//
// Where the outputs go is a Sink:
//   move_to(plan, index, rows)  to a row of all outputs, which sees these rows of the input
//   put<N>(at, state, count)    writes the first `count` of N outputs, from element `at` of the row on
//   finish(plan, slab, rows, begin, end)  is called after outputs begin..end-1 of each row, if finishes()
//   over_arrays(use)            calls use(array, row) for the arrays that are written, with where each and its row start
//   STREAMS                     whether past_the_caches() is the same, with stores that go there
#pragma once
#include "kinds.h"
#include "stream.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// --- which input rows an output row sees ---------------------------------------------------------

class OutputRow {
  public:
    i64 count = 0;         // of input rows
    i64 base = 0;          // in elements from the slab's start
    i64 *offset = nullptr; // of each, from `base`
    i64 *tag = nullptr;    // its place in the window without the last axis
    i64 start = 0;         // where the window starts in the slab, padding included: may be negative
    i64 counted = 1;       // cells that count, and real ones, in the window without the last axis
    i64 real = 1;

    explicit OutputRow(const Plan &plan) : plan(plan) {
        offset = static_cast<i64 *>(scratch(ROWS, 2 * sizeof(i64) * plan.outer_cells));
        tag = offset + plan.outer_cells;
    }

    // After this, `base` is 0.
    void move_to(i64 row) {
        at = row;
        base = ahead = 0;
        i64 index[MAX_DIMS];
        for (int d = plan.dim_count - 1; d > 0; --d) {
            index[d] = row % plan.dims[d].out_count;
            row /= plan.dims[d].out_count;
        }
        index[0] = row;
        count = 1;
        offset[0] = tag[0] = start = 0;
        counted = real = 1;
        for (int d = 0; d < plan.dim_count; ++d) {
            const Dim &dim = plan.dims[d];
            if (dim.axis < 0) {
                start += index[d] * dim.in_stride;
                for (i64 i = 0; i < count; ++i) offset[i] += index[d] * dim.in_stride;
            } else {
                extend(plan.axes[dim.axis], index[d], dim.in_stride);
            }
        }
        if (plan.dim_count) look_ahead(plan.dims[plan.dim_count - 1], index[plan.dim_count - 1]);
    }

    // Most rows see what the one before saw, a step further: so many that follow, in steps of so many elements.
    i64 ahead = 0, step = 0;

    // Moves on by some rows, of which all but the last are such.
    void move_on(i64 rows) {
        if (rows > ahead) return move_to(at + rows);
        ahead -= rows, at += rows;
        base += rows * step;
        start += rows * step;
    }

  private:
    const Plan &plan;
    i64 at = 0;

    void look_ahead(const Dim &dim, i64 o) {
        if (dim.axis < 0) {
            step = dim.in_stride;
            ahead = dim.out_count - 1 - o;
            return;
        }
        const Axis &axis = plan.axes[dim.axis];
        i64 room = axis.length - 1 - axis.dilation * (axis.kernel - 1) - axis.start(o);  // to the row's end
        if (axis.adaptive || axis.start(o) < 0 || room < axis.stride) return;
        step = axis.stride * dim.in_stride;
        ahead = room / axis.stride;
        if (ahead > axis.output - 1 - o) ahead = axis.output - 1 - o;
    }

    // Every row so far, times the cells that this axis adds; from the back, so that it can be done in place.
    void extend(const Axis &axis, i64 o, i64 stride) {
        Axis::Taps taps = axis.taps(o);
        for (i64 i = count - 1; i >= 0; --i) {
            i64 base = offset[i], prefix = tag[i] * axis.kernel + taps.skipped;
            for (i64 k = taps.count - 1; k >= 0; --k) {
                NDPOOL_SHORT_LOOP;
                offset[i * taps.count + k] = base + (taps.first + k * axis.dilation) * stride;
                tag[i * taps.count + k] = prefix + k;
            }
        }
        count *= taps.count;
        start += axis.start(o) * stride;
        counted *= axis.counted(o);
        real *= taps.count;
    }
};

// --- the two steps ------------------------------------------------------------------------------

// As many rows as windows of two axes mostly see, in one place that no store can change.
template <int R>
struct FewRows {
    static constexpr i64 count = R;
    i64 offset[R], tag[R];

    NDPOOL_INLINE explicit FewRows(const OutputRow &rows) {
        NDPOOL_UNROLL
        for (int r = 0; r < R; ++r) offset[r] = rows.offset[r], tag[r] = rows.tag[r];
    }
};

// The States of cells i..i+N-1 of all rows, merged; U registers' worth at a time.
template <int U, int N, class P, class Rows>
NDPOOL_INLINE void merge_cells(const P &p, const typename P::In *x, const Rows &rows, i64 i,
                        typename P::template State<N> (&state)[U]) {
    NDPOOL_UNROLL
    for (int u = 0; u < U; ++u) state[u] = p.template lift<N>(x + rows.offset[0] + i + u * N, rows.tag[0]);
    prefetch<U * N>(x + rows.offset[0] + i);
    for (i64 r = 1; r < rows.count; ++r) {
        const typename P::In *row = x + rows.offset[r] + i;
        prefetch<U * N>(row);
        NDPOOL_UNROLL
        for (int u = 0; u < U; ++u) p.template merge<N>(state[u], p.template lift<N>(row + u * N, rows.tag[r]));
    }
}

// Fewer than N elements, brought where N can be read.
template <int N, class P>
inline typename P::template State<N> lift_some(const P &p, const typename P::In *x, i64 tag, int count) {
    if constexpr (P::CARRIES) {
        return p.template lift_some<N>(x, tag, count);
    } else {
        typename P::In some[N];
        for (int i = 0; i < N; ++i) some[i] = i < count ? x[i] : x[0];
        return p.template lift<N>(some, tag);
    }
}

// Runs out(to) with room for N elements, of which `count` are wanted at `p`; with PAST all, and past the caches.
template <int N, bool PAST = false, class T, class F>
inline void put_some(T *p, int count, const F &out) {
    if constexpr (PAST) {
        T all[N];
        out(all);
        stream<N>(p, load<N>(all));
    } else if (count == N) {
        out(p);
    } else {
        T some[N];
        out(some);
        for (int i = 0; i < count; ++i) p[i] = some[i];
    }
}

// Merges `length` elements of all rows, from element `begin` of each, into States at `to`.
template <int N, class P>
void merge_rows(const P &p, const typename P::In *x, const OutputRow &rows, i64 begin, i64 length,
                typename P::Lane *to, i64 plane) {
    using State = typename P::template State<N>;
    if (rows.count == 0 || length < N) {
        if (length <= 0) return;
        State state = P::template empty<N>();
        for (i64 done = 0; done < length; done += N) {
            int count = length - done < N ? static_cast<int>(length - done) : N;
            for (i64 r = 0; r < rows.count; ++r) {
                State next = lift_some<N>(p, x + rows.offset[r] + begin + done, rows.tag[r], count);
                if (r == 0)
                    state = next;
                else
                    p.template merge<N>(state, next);
            }
            typename P::Lane some[P::PLANES * N];
            P::template put<N>(some, N, state);
            for (int q = 0; q < P::PLANES; ++q)
                std::memcpy(to + q * plane + done, some + q * N, sizeof(typename P::Lane) * count);
        }
        return;
    }
    constexpr int U = 4;
    i64 i = 0;
    for (; i + U * N <= length; i += U * N) {
        State state[U];
        merge_cells<U, N>(p, x, rows, begin + i, state);
        NDPOOL_UNROLL
        for (int u = 0; u < U; ++u) P::template put<N>(to + i + u * N, plane, state[u]);
    }
    auto one = [&](i64 at) {
        State state[1];
        merge_cells<1, N>(p, x, rows, begin + at, state);
        P::template put<N>(to + at, plane, state[0]);
    };
    for (; i + N <= length; i += N) one(i);
    if (i < length) one(length - N);
}

// Phase f of a row of cells of `inner` lanes: cells f, f+s, f+2s, ...
template <class L>
void split_phases(const L *from, L *to, i64 cells, i64 inner, i64 s, i64 phase_length) {
    if (inner == 1 && s == 2) {
        L *even = to, *odd = to + phase_length;
        for (i64 j = 0; j < cells / 2; ++j) {
            even[j] = from[2 * j];
            odd[j] = from[2 * j + 1];
        }
        if (cells % 2) even[cells / 2] = from[cells - 1];
        return;
    }
    if (inner == 1 && s == 3) {
        L *a = to, *b = to + phase_length, *c = to + 2 * phase_length;
        for (i64 j = 0; j < cells / 3; ++j) {
            a[j] = from[3 * j];
            b[j] = from[3 * j + 1];
            c[j] = from[3 * j + 2];
        }
        for (i64 i = cells / 3 * 3; i < cells; ++i) to[i % 3 * phase_length + i / 3] = from[i];
        return;
    }
    for (i64 f = 0; f < s; ++f) {
        L *phase = to + f * phase_length;
        for (i64 i = f; i < cells; i += s, phase += inner)
            for (i64 e = 0; e < inner; ++e) phase[e] = from[i * inner + e];
    }
}

// Every cell becomes the window of `kernel` cells that starts there. Nothing is ever subtracted. Leaves the result in `total`;
// `row` is used up.
template <class P, int N>
class Widener {
    using Lane = typename P::Lane;
    using State = typename P::template State<N>;

  public:
    const P &p;
    Lane *row, *total;
    i64 plane, cells, inner, kernel, dilation;

    // How many rows there must be room for in `total`, and how much longer than the cells they all must be.
    static constexpr bool IN_REGISTERS = P::PLANES == 1 && N > 1 && sizeof(Lane) >= 4;
    static constexpr int DOUBLINGS = __builtin_ctz(N);  // from a cell to a register of cells
    static constexpr i64 ROWS = IN_REGISTERS ? 2 + DOUBLINGS : P::PLANES, MARGIN = (3 + DOUBLINGS) * N;

    void widen() const {
        if constexpr (IN_REGISTERS)
            if (dilation * inner == 1 && kernel >= 2 * N && kernel <= 512) return widen_in_registers();
        if (!P::IDEMPOTENT && kernel <= 256)
            widen_in_two();
        else
            widen_by_doubling();
    }

  private:
    // For cells that lie side by side: windows of 2, 4, ..., N cells. A larger one is some of the last, a register apart, and
    // one of each that its size has beside; or, where cells may be merged twice (Max), one more that ends where it ends. Only
    // whole registers are read, and what lies across two is shifted together: a load across two lines of the cache takes as
    // long as two.
    void widen_in_registers() const {
        double_up_to_n();
        const Lane *const most = windows(N);
        const i64 whole = kernel / N, length = cells - kernel + 1;
        const Lane *from[8];
        LaneShift<Lane, N> shift[8];
        i64 pieces = 0, covered = 0;
        for (i64 width = N / 2; width; width /= 2)
            if (!P::IDEMPOTENT && kernel % N & width) {
                from[pieces] = windows(width) + whole * N;
                shift[pieces++] = LaneShift<Lane, N>(covered);
                covered += width;
            }
        if (P::IDEMPOTENT && kernel % N) {
            from[pieces] = most + (whole - 1) * N;
            shift[pieces++] = LaneShift<Lane, N>(kernel % N);
        }
        const P own = p;
        auto block = [&](auto registers, i64 i) NDPOOL_INLINED {
            constexpr int U = decltype(registers)::value;
            State s[U];
            merge_registers<U>(own, most + i, whole, s);
            for (i64 piece = 0; piece < pieces; ++piece) {
                const Lane *lanes = from[piece] + i;
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u)
                    own.template merge_any<N>(s[u], State{shift[piece].of(load<N>(lanes + u * N), load<N>(lanes + (u + 1) * N))});
            }
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) P::template put<N>(total + i + u * N, plane, s[u]);
        };
        over_blocks(length, block);
    }
    // Of U registers side by side, each merged with those that follow it, `count` in all.
    template <int U>
    NDPOOL_INLINE void merge_registers(const P &own, const Lane *lanes, i64 count, State (&s)[U]) const {
        auto one = [&](i64 c) NDPOOL_INLINED { return P::template get<N>(lanes + c * N, plane); };
        if (count < U) {
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) s[u] = one(u);
            for (i64 c = 1; c < count; ++c) {
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u) own.template merge_any<N>(s[u], one(c + u));
            }
            return;
        }
        // What all have, then what is before it, then what is after.
        s[U - 1] = one(U - 1);
        for (i64 c = U; c < count; ++c) own.template merge_any<N>(s[U - 1], one(c));
        NDPOOL_UNROLL
        for (int u = U - 2; u >= 0; --u) own.template merge_any<N>(s[u] = s[u + 1], one(u));
        if constexpr (U > 1) {
            State after = one(count);
            NDPOOL_UNROLL
            for (int u = 1; u < U; ++u) {
                own.template merge_any<N>(s[u], after);
                if (u < U - 1) own.template merge_any<N>(after, one(count + u));
            }
        }
    }
    // Calls block(how many registers, position) until `length` lanes are done: four registers at a time, then one.
    template <class Block>
    NDPOOL_INLINE static void over_blocks(i64 length, const Block &block) {
        i64 i = 0;
        for (; i + 4 * N <= length; i += 4 * N) block(std::integral_constant<int, 4>(), i);
        for (; i < length; i += N) block(std::integral_constant<int, 1>(), i);
    }
    // All widths in one go. A register of windows of WIDTH cells gives, with the one before, one of twice the width.
    void double_up_to_n() const {
        const Widener own = *this;  // a copy, which no store can change
        vec<Lane, N> before[DOUBLINGS + 1] = {};
        for (i64 i = 0; i < own.cells + DOUBLINGS * N; i += N) own.template doubled<1>(before, load<N>(own.row + i), i);
    }
    template <int WIDTH>
    NDPOOL_INLINE void doubled(vec<Lane, N> *before, vec<Lane, N> next, i64 i) const {
        if constexpr (WIDTH < N) {
            State s = {*before};
            p.template merge_any<N>(s, State{picked<N, From<WIDTH>>(*before, next)});
            *before = next;
            if (i < N) return;  // there was none before
            if (2 * WIDTH == N || !P::IDEMPOTENT) P::template put<N>(windows(2 * WIDTH) + i - N, plane, s);
            doubled<2 * WIDTH>(before + 1, s.v, i - N);
        }
    }
    // Where those of a width that is a power of two are.
    Lane *windows(i64 width) const { return width == 1 ? row : total + (1 + __builtin_ctzll(static_cast<unsigned long long>(width))) * plane; }

    // Windows of `part` cells, then as many of those side by side as fit, and single cells for the rest: about twice
    // the square root of the kernel.
    void widen_in_two() const {
        i64 part = 1;
        auto merges = [&](i64 a) { return a + kernel / a + kernel % a; };
        for (i64 a = 2; a * a <= 2 * kernel; ++a)
            if (merges(a) < merges(part)) part = a;
        if (part == 1) return several(total, row, kernel, 1, 0, 0);
        several(total, row, part, 1, 0, 0);
        several(total, total, kernel / part, part, kernel / part * part, kernel % part);
    }

    // to[i] = the windows from[i], from[i + step], ..., `count` of them, and `more` cells of the row from i + skip on.
    void several(Lane *to, const Lane *from, i64 count, i64 step, i64 skip, i64 more) const {
        i64 cell = dilation * inner, reach = more ? skip + more : count * step;  // cells that a window has now
        i64 length = (cells - (reach - 1) * dilation) * inner;
        auto block = [&](auto registers, i64 i) {
            constexpr int U = decltype(registers)::value;
            State s[U];
            auto merge = [&](const Lane *lanes) NDPOOL_INLINED {
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u) p.template merge_any<N>(s[u], P::template get<N>(lanes + u * N, plane));
            };
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) s[u] = P::template get<N>(from + i + u * N, plane);
            for (i64 c = 1; c < count; ++c) merge(from + c * step * cell + i);
            for (i64 c = 0; c < more; ++c) merge(row + (skip + c) * cell + i);
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) P::template put<N>(to + i + u * N, plane, s[u]);
        };
        over_blocks(length, block);
    }

    // Windows of 1, 2, 4, ... cells are each two of the half, and any kernel is two overlapping ones (Max) or a few side by
    // side (sums): the time of log(kernel) merges.
    void widen_by_doubling() const {
        auto merge_at = [&](Lane *to, const Lane *a, const Lane *b, i64 length) {
            for (i64 i = 0; i < length; i += N) {
                State s = P::template get<N>(a + i, plane);
                p.template merge_any<N>(s, P::template get<N>(b + i, plane));
                P::template put<N>(to + i, plane, s);
            }
        };
        bool started = false;
        i64 covered = 0;  // cells that `total` has
        for (i64 width = 1;; width *= 2) {
            bool last = width * 2 > kernel;
            bool take = P::IDEMPOTENT ? last : (kernel & width) != 0;
            if (take) {
                i64 valid = (cells - (covered + width - 1) * dilation) * inner;
                if (P::IDEMPOTENT)
                    merge_at(total, row, row + (kernel - width) * dilation * inner, (cells - (kernel - 1) * dilation) * inner);
                else if (started)
                    merge_at(total, total, row + covered * dilation * inner, valid);
                else
                    for (int q = 0; q < P::PLANES; ++q)
                        std::memcpy(total + q * plane, row + q * plane, sizeof(*row) * valid);
                started = true;
                covered += width;
            }
            if (last) return;
            merge_at(row, row, row + width * dilation * inner, (cells - (2 * width - 1) * dilation) * inner);
        }
    }
};

// Whether the method for wide windows is left to choose; `forced` as in Call.
inline bool is_free(int forced) { return forced < 0 || forced == 2; }

// Which way a row is pooled along itself.
enum class Along { DIRECT, PHASES, WIDEN, SEGMENTS };

// Of windows of k cells in steps of 2, the outputs whose last two cells are real.
inline void direct_outputs(const Axis &axis, i64 k, i64 *first, i64 *stop) {
    *first = (axis.pad_lo + 3 - k) / 2;
    *stop = (axis.length + axis.pad_lo - k) / 2 + 1;
    if (*stop > axis.output) *stop = axis.output;
}

template <class P, int N>
Along way_along(const Plan &plan, int forced) {
    const Axis &axis = plan.last();
    if (axis.adaptive || axis.stride >= 8) return Along::SEGMENTS;
    bool small = plan.inner == 1 && axis.stride == 2 && axis.dilation == 1 && (axis.kernel == 2 || axis.kernel == 3);
    i64 first, stop;
    direct_outputs(axis, axis.kernel, &first, &stop);
    if (small && is_free(forced) && stop - first >= N) return Along::DIRECT;
    if (P::TAGGED || axis.kernel < 3) return Along::PHASES;
    bool wide = axis.kernel >= 6 && axis.kernel >= 4 * axis.stride;
    return (is_free(forced) ? wide : forced == 1) ? Along::WIDEN : Along::PHASES;
}

// Pools the outputs begin..end-1 of a row, N lanes at a time.
template <class P, class Sink, int N>
class RowPooler {
    using In = typename P::In;
    using Lane = typename P::Lane;
    template <int M>
    using State = typename P::template State<M>;

  public:
    // Fewer lanes than there can be are for places that are less than a line.
    static constexpr bool STREAMS = Sink::STREAMS && N == LANES<Lane>;

    // For at most `part` outputs at a time; `in_lines` says whether those of a place are whole lines, to go past the caches.
    RowPooler(const Plan &plan, const P &p, i64 part, int forced, bool in_lines = false)
        : axis(plan.last()), p(p), inner(plan.inner), in_lines(in_lines), way(way_along<P, N>(plan, forced)) {
        direct_outputs(axis, axis.kernel, &direct_first, &direct_stop);
        constexpr i64 NEAR = 16384 / sizeof(Lane) / P::PLANES;  // two columns of more would not stay in the nearest cache
        if (inner >= N && inner <= NEAR && axis.dilation == 1 && !axis.adaptive) {
            columns[0] = row_memory(ROW, 2 * inner, &plane);
            columns[1] = columns[0] + plane / 2 / N * N;
        }
        if (inner >= N || way == Along::SEGMENTS || way == Along::DIRECT) return;
        i64 s = axis.stride, d = axis.dilation, k = axis.kernel;
        i64 cells = (part - 1) * s + (k - 1) * d + 1;
        i64 margin = way == Along::WIDEN ? Widener<P, N>::MARGIN : 0;
        row = row_memory(ROW, cells * inner + margin, &plane);
        if (way == Along::WIDEN) {
            total = static_cast<Lane *>(scratch(BLOCK, sizeof(Lane) * Widener<P, N>::ROWS * plane));
            k = 1;
        }
        phase_length = (cells + s - 1) / s * inner + N;
        phase_plane = plane;
        if (s > 1) phases = row_memory(PHASES, s * phase_length, &phase_plane);
        tap = static_cast<i64 *>(scratch(FRONT, sizeof(i64) * k));
        for (i64 c = 0; c < k; ++c) tap[c] = c * d % s * phase_length + c * d / s * inner;
    }

    // How many rows, of at most `most`, are best pooled at a time: those that see the same, where little is done for each.
    i64 rows_at_a_time(const OutputRow &rows, const Sink &sink, i64 most) const {
        if (inner > 1 || way != Along::DIRECT || sink.finishes()) return 1;
        return rows.ahead + 1 < most ? rows.ahead + 1 : most;
    }

    // The outputs begin..end-1 of a row, and of `more` rows that follow.
    void pool(const In *x, const OutputRow &rows, Sink &sink, i64 begin, i64 end, i64 more = 0) {
        if constexpr (STREAMS)
            if (in_lines) return pool_places(x, rows, sink.past_the_caches(), begin, end);
        if (inner >= N)
            pool_places(x, rows, sink, begin, end);
        else if (way == Along::SEGMENTS)
            pool_segments(x, rows, sink, begin, end);
        else if (way == Along::DIRECT)
            axis.kernel == 2 ? pool_direct<2>(x, rows, sink, begin, end, more) : pool_direct<3>(x, rows, sink, begin, end, more);
        else
            pool_row(x, rows, sink, begin, end);
    }

  private:
    const Axis &axis;
    const P &p;
    i64 inner;
    bool in_lines;
    Along way;
    i64 direct_first, direct_stop;
    Lane *row = nullptr, *total = nullptr, *phases = nullptr;
    Lane *columns[2] = {};    // the last ones of two windows side by side, if they are kept
    i64 plane = 0, phase_plane = 0, phase_length = 0;
    i64 *tap = nullptr;       // where the cells of each tap start, among the phases
    i64 edges_filled = -1;    // the part whose padded cells are in the row

    Lane *row_memory(Slot slot, i64 lanes, i64 *distance) {
        *distance = (lanes + 3 * N - 1) / N * N;
        return static_cast<Lane *>(scratch(slot, sizeof(Lane) * P::PLANES * *distance));
    }

    // The commonest windows, of 2 or 3 cells in steps of 2. The last two cells of N windows are the even and the odd
    // ones of 2N cells; the first of three is the odd one before.
    template <int K>
    void pool_direct(const In *x, const OutputRow &rows, Sink &sink, i64 begin, i64 end, i64 more) {
        i64 first = direct_first < begin ? begin : direct_first, stop = direct_stop > end ? end : direct_stop;
        if (stop - first < N || rows.count == 0) first = stop = end;
        if (begin < first || stop < end) {
            Sink to = sink;
            for (i64 row = 0; row <= more; ++row, next_row(to)) {
                for (i64 o = begin; o < first; ++o) pool_one(x + row * rows.step, rows, to, o);
                for (i64 o = stop; o < end; ++o) pool_one(x + row * rows.step, rows, to, o);
            }
        }
        if (first == end) return;
        if (rows.count == K)
            pool_blocks<K>(x, FewRows<K>(rows), sink, first, stop, more, rows.step);
        else
            pool_blocks<K>(x, rows, sink, first, stop, more, rows.step);
    }
    NDPOOL_INLINE void next_row(Sink &sink) const {
        sink.over_arrays([&](auto *, auto *&row) { row += axis.output; });
    }
    template <int K, class Rows>
    NDPOOL_INLINE void pool_blocks(const In *x, const Rows &rows, const Sink &sink, i64 first, i64 stop, i64 more, i64 step) {
        // Copies, which no store can change.
        const P own = p;
        Sink to = sink;
        for (i64 row = 0; row <= more; ++row, x += step, next_row(to)) pool_row_of_blocks<K>(own, x, rows, to, first, stop);
    }
    template <int K, class Rows>
    NDPOOL_INLINE void pool_row_of_blocks(const P &own, const In *x, const Rows &rows, Sink &to, i64 first, i64 stop) {
        const i64 shift = K - 2 - axis.pad_lo;
        State<N> before;
        for (i64 o = first; o < stop; o += N) {
            bool jump = o == first || o + N > stop;  // the last block overlaps its neighbour
            i64 at = o + N > stop ? stop - N : o;
            if (K == 3 && jump) before = cell_before(x, rows, 2 * at - axis.pad_lo);
            State<N> pair[2];
            merge_cells<2, N>(own, x, rows, 2 * at + shift, pair);
            P::template unzip<N>(pair[0], pair[1]);
            State<N> state = P::template retag<N>(pair[0], K, K - 2);
            own.template merge_any<N>(state, P::template retag<N>(pair[1], K, K - 1));
            if (K == 3) {
                State<N> cell = P::template shift_in<N>(before, pair[1]);
                own.template merge_any<N>(state, P::template retag<N>(cell, K, 0));
                before = pair[1];
            }
            to.template put<N>(at, state, N);
        }
    }

    // One cell of all rows, merged, in the last lane. Padding ties with the lowest cell but does not win: its place, -1
    // modulo 2^b, is 2^b - 3 when retagged, and the real cell beside it has 3 r + 1 <= 2^b - 3 for every row r that there can be.
    template <class Rows>
    NDPOOL_INLINE State<N> cell_before(const In *x, const Rows &rows, i64 cell) {
        if (cell < 0) return P::template empty<N>();
        if (cell >= N - 1) {
            State<N> state[1];
            merge_cells<1, N>(p, x, rows, cell - (N - 1), state);
            return state[0];
        }
        State<N> state = lift_some<N>(p, x + rows.offset[0] + cell, rows.tag[0], 1);
        for (i64 r = 1; r < rows.count; ++r)
            p.template merge<N>(state, lift_some<N>(p, x + rows.offset[r] + cell, rows.tag[r], 1));
        return state;
    }

    template <bool ORDERED>
    void merge_in_order(State<N> &a, const State<N> &b) {
        if (ORDERED)
            p.template merge<N>(a, b);
        else
            p.template merge_any<N>(a, b);
    }

    // One window by itself, cell by cell.
    void pool_one(const In *x, const OutputRow &rows, Sink &sink, i64 o) {
        Axis::Taps taps = axis.taps(o);
        State<1> state = P::template empty<1>();
        bool any = false;
        for (i64 r = 0; r < rows.count; ++r)
            for (i64 k = 0; k < taps.count; ++k) {
                State<1> next = p.template lift<1>(x + rows.offset[r] + taps.first + k * axis.dilation,
                                                   rows.tag[r] * axis.kernel + taps.skipped + k);
                if (any)
                    p.template merge<1>(state, next);
                else
                    state = next;
                any = true;
            }
        sink.template put<1>(o, state, 1);
    }

    // Cells of a row that has the window of output `begin` at 0.
    void pool_row(const In *x, const OutputRow &rows, Sink &sink, i64 begin, i64 end) {
        i64 s = axis.stride, d = axis.dilation, k = axis.kernel;
        i64 origin = begin * s - axis.pad_lo;
        i64 cells = (end - 1 - begin) * s + (k - 1) * d + 1;
        i64 from = origin < 0 ? -origin : 0;  // the first real cell, and the first beyond
        if (from > cells) from = cells;       // padding may be longer than this part of the row
        i64 to = axis.length - origin < cells ? axis.length - origin : cells;
        if (to < from) to = from;
        const bool fill = edges_filled != begin || way == Along::WIDEN;
        if (fill) fill_empty(0, from * inner);
        merge_rows<N>(p, x, rows, (origin + from) * inner, (to - from) * inner, row + from * inner, plane);
        if (fill) fill_empty(to * inner, cells * inner + N);
        edges_filled = begin;
        // A padded cell may tie with a real one and must not win, so with tags the windows at the edges go one by one.
        i64 inner_begin = begin, inner_end = end;
        if (P::TAGGED) {
            while (inner_begin < end && (inner_begin - begin) * s < from) pool_edge(sink, begin, inner_begin++);
            while (inner_end > inner_begin && (inner_end - 1 - begin) * s + (k - 1) * d >= to)
                pool_edge(sink, begin, --inner_end);
            if (inner_begin == inner_end) return;
        }
        const Lane *cell = row;
        if (way == Along::WIDEN) {
            Widener<P, N>{p, row, total, plane, cells, inner, k, d}.widen();
            cell = total;
            cells -= (k - 1) * d;
            k = 1;
        }
        if (s > 1) {
            for (int q = 0; q < P::PLANES; ++q)
                split_phases(cell + q * plane, phases + q * phase_plane, cells, inner, s, phase_length);
            cell = phases;
        }
        cell += (inner_begin - begin) * inner;
        i64 outputs = inner_end - inner_begin;
        if (rows.count <= 1)
            merge_taps<true>(cell, k, sink, inner_begin * inner, outputs * inner);
        else
            merge_taps<false>(cell, k, sink, inner_begin * inner, outputs * inner);
    }

    template <bool ORDERED>
    void merge_taps(const Lane *cell, i64 k, Sink &sink, i64 to, i64 length) {
        blocks<N>(length, [&](i64 i, int count) {
            State<N> state = P::template retag<N>(P::template get<N>(cell + i, phase_plane), axis.kernel, 0);
            for (i64 c = 1; c < k; ++c) {
                State<N> next = P::template retag<N>(P::template get<N>(cell + tap[c] + i, phase_plane), axis.kernel, c);
                merge_in_order<ORDERED>(state, next);
            }
            sink.template put<N>(to + i, state, count);
        });
    }

    // And up to N - 1 lanes more.
    void fill_empty(i64 begin, i64 end) {
        for (i64 i = begin; i < end; i += N) P::template put<N>(row + i, plane, P::template empty<N>());
    }

    void pool_edge(Sink &sink, i64 begin, i64 o) {
        Axis::Taps taps = axis.taps(o);
        i64 first = taps.first - (begin * axis.stride - axis.pad_lo);
        for (i64 e = 0; e < inner; ++e) {
            State<1> state{};
            for (i64 k = 0; k < taps.count; ++k) {
                const Lane *cell = row + (first + k * axis.dilation) * inner + e;
                State<1> next = P::template retag<1>(P::template get<1>(cell, plane), axis.kernel, taps.skipped + k);
                if (k == 0)
                    state = next;
                else
                    p.template merge_any<1>(state, next);
            }
            sink.template put<1>(o * inner + e, state, 1);
        }
    }

    // Windows that hardly overlap, each pooled by itself.
    void pool_segments(const In *x, const OutputRow &rows, Sink &sink, i64 begin, i64 end) {
        if (rows.count == 1) {
            auto cells = [&](auto size, i64 at) {
                constexpr int M = decltype(size)::value;
                return p.template lift<M>(x + rows.offset[0] + at, rows.tag[0]);
            };
            for (i64 o = begin; o < end; ++o) pool_segment(cells, x + rows.offset[0], sink, o);
            return;
        }
        // The real cells from the first window's start to the last one's end.
        Axis::Taps last = axis.taps(end - 1);
        i64 origin = axis.start(begin);
        i64 stop = axis.adaptive ? last.first + last.count : axis.start(end - 1) + axis.dilation * (axis.kernel - 1) + 1;
        if (origin < 0) origin = 0;
        if (origin > axis.length) origin = axis.length;
        if (stop > axis.length) stop = axis.length;
        i64 length = stop > origin ? stop - origin : 0;
        row = row_memory(ROW, length * inner, &plane);
        merge_rows<N>(p, x, rows, origin * inner, length * inner, row, plane);
        auto cells = [&](auto size, i64 at) {
            constexpr int M = decltype(size)::value;
            return P::template get<M>(row + (at - origin * inner), plane);
        };
        for (i64 o = begin; o < end; ++o) pool_segment(cells, nullptr, sink, o);
    }

    template <int M>
    using Size = std::integral_constant<int, M>;

    // The cells at a place and after it are cells(how many, place); `memory` is where they come from, if not from the cache.
    template <class Cells>
    void pool_segment(const Cells &cells, const In *memory, Sink &sink, i64 o) {
        Axis::Taps taps = axis.taps(o);
        i64 step = axis.dilation * inner;
        for (i64 e = 0; e < inner; ++e) {
            i64 at = taps.first * inner + e, k = 0;
            State<1> state = P::template empty<1>();
            bool any = false;
            if (step == 1 && taps.count >= N) {
                state = fold(sum_of_blocks(cells, memory, at, taps, &k));
                any = true;
            }
            for (; k < taps.count; ++k) {
                State<1> next = P::template retag<1>(cells(Size<1>(), at + k * step), axis.kernel, taps.skipped + k);
                if (any)
                    p.template merge_any<1>(state, next);
                else
                    state = next;
                any = true;
            }
            sink.template put<1>(o * inner + e, state, 1);
        }
    }

    // Whole registers of a segment, merged lane by lane; several at a time, so that none waits for the other.
    template <class Cells>
    State<N> sum_of_blocks(const Cells &cells, const In *memory, i64 at, const Axis::Taps &taps, i64 *done) {
        constexpr int U = 4;
        auto block = [&](i64 k) {
            return P::template retag_each<N>(cells(Size<N>(), at + k), axis.kernel, taps.skipped + k);
        };
        State<N> state[U] = {};
        int used = 0;
        i64 k = 0;
        for (; used < U && k + N <= taps.count; ++used, k += N) state[used] = block(k);
        for (; k + U * N <= taps.count; k += U * N) {
            if (memory) prefetch<U * N>(memory + at + k);
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) p.template merge_any<N>(state[u], block(k + u * N));
        }
        for (; k + N <= taps.count; k += N) p.template merge_any<N>(state[0], block(k));
        for (int u = 1; u < used; ++u) p.template merge_any<N>(state[0], state[u]);
        *done = k;
        return state[0];
    }

    // All lanes merged into one: halves of halves.
    State<1> fold(const State<N> &state) {
        alignas(64) Lane lanes[P::PLANES * N];
        P::template put<N>(lanes, N, state);
        return fold_lanes<N>(lanes);
    }
    template <int M>
    State<1> fold_lanes(Lane *lanes) {
        if constexpr (M == 1) {
            return P::template get<1>(lanes, N);
        } else {
            State<M / 2> half = P::template get<M / 2>(lanes, N);
            p.template merge_any<M / 2>(half, P::template get<M / 2>(lanes + M / 2, N));
            P::template put<M / 2>(lanes, N, half);
            return fold_lanes<M / 2>(lanes);
        }
    }

    // Channels last: all cells of a window at once, in row-major order, along the elements of a place.
    template <class To>
    void pool_places(const In *x, const OutputRow &rows, const To &sink, i64 begin, i64 end) {
        if (rows.count == 2 && axis.kernel == 2)
            pool_places_of<2>(x, rows, sink, begin, end);
        else if (rows.count == 3 && axis.kernel == 3)
            pool_places_of<3>(x, rows, sink, begin, end);
        else
            pool_places_of<0>(x, rows, sink, begin, end);
    }
    // With K rows and windows of K cells along them, or 0 if there are others.
    template <int K, class To>
    void pool_places_of(const In *x, const OutputRow &rows, const To &sink, i64 begin, i64 end) {
        // Copies, which no store can change.
        const P own = p;
        const FewRows<K == 0 ? 1 : K> few(rows);
        const i64 inner = this->inner, step = axis.dilation * inner;
        const i64 shared = K - axis.stride;  // columns that a window has in common with the next one, if above 0
        const bool keeps = !P::TAGGED && shared == 1 && columns[0];
        To to = sink;
        const Lane *known = nullptr;  // the window's first column, if the one before had it
        for (i64 o = begin; o < end; ++o) {
            const Axis::Taps taps = axis.taps(o);
            const In *cell = x + taps.first * inner;
            // Pools with merge(state, i), which gives the States of U registers of elements from the i-th on.
            auto over_elements = [&](const auto &merge) NDPOOL_INLINED {
                auto pool = [&](auto registers, i64 i) NDPOOL_INLINED {
                    constexpr int U = decltype(registers)::value;
                    State<N> state[U];
                    merge(state, i);
                    NDPOOL_UNROLL
                    for (int u = 0; u < U; ++u) to.template put<N>(o * inner + i + u * N, state[u], N);
                };
                constexpr int U = 4;
                i64 i = 0;
                for (; i + U * N <= inner; i += U * N) pool(Size<U>(), i);
                for (; i < inner; i += N) pool(Size<1>(), i + N <= inner ? i : inner - N);
            };
            if (K == 0 || taps.count != K) {
                over_elements([&](auto &state, i64 i) NDPOOL_INLINED { merge_place(own, x, rows, taps, i, state); });
                known = nullptr;
            } else if (!keeps) {
                over_elements([&](auto &state, i64 i) NDPOOL_INLINED { merge_whole_place<K>(own, cell + i, few, step, shared, state); });
            } else if constexpr (!P::TAGGED && K > 0) {
                Lane *last = columns[o % 2];
                if (!known) known = merge_first_column<K>(own, cell, few, columns[1 - o % 2]);
                over_elements([&](auto &state, i64 i) NDPOOL_INLINED { merge_columns<K>(own, cell + i, few, step, known + i, last + i, state); });
                known = last;
            }
        }
    }

    // The States of U registers of elements from the i-th on, over all cells of a window.
    template <std::size_t U>
    void merge_place(const P &own, const In *x, const OutputRow &rows, const Axis::Taps &taps, i64 i, State<N> (&state)[U]) {
        i64 step = axis.dilation * inner;
        bool none = rows.count == 0 || taps.count == 0;
        const In *cell = x + (none ? 0 : rows.offset[0]) + taps.first * inner + i;
        NDPOOL_UNROLL
        for (std::size_t u = 0; u < U; ++u)
            state[u] = none ? P::template empty<N>()
                            : own.template lift<N>(cell + u * N, rows.tag[0] * axis.kernel + taps.skipped);
        for (i64 r = 0; r < rows.count; ++r) {
            cell = x + rows.offset[r] + taps.first * inner + i;
            i64 tag = rows.tag[r] * axis.kernel + taps.skipped;
            if (r == 0) prefetch<U * N>(cell);
            for (i64 k = r == 0 ? 1 : 0; k < taps.count; ++k) {
                prefetch<U * N>(cell + k * step);
                NDPOOL_UNROLL
                for (std::size_t u = 0; u < U; ++u)
                    own.template merge<N>(state[u], own.template lift<N>(cell + k * step + u * N, tag + k));
            }
        }
    }

    // The same of K rows of K cells, from `cell` on in steps of `step` elements, with all loops unrolled.
    template <int K, std::size_t U, class Rows>
    NDPOOL_INLINE void merge_whole_place(const P &own, const In *cell, const Rows &rows, i64 step, i64 shared, State<N> (&state)[U]) const {
        NDPOOL_UNROLL
        for (int r = 0; r < K; ++r)
            NDPOOL_UNROLL
            for (int k = 0; k < K; ++k) {
                const In *next = cell + rows.offset[r] + k * step;
                if (k >= shared) prefetch<U * N>(next);
                merge_cell(own, next, rows.tag[r] * K + k, r + k == 0, state);
            }
    }
    // The same by columns, where the order does not matter and the first one is known; keeps the last one.
    template <int K, std::size_t U, class Rows>
    NDPOOL_INLINE void merge_columns(const P &own, const In *cell, const Rows &rows, i64 step, const Lane *known, Lane *last, State<N> (&state)[U]) const {
        NDPOOL_UNROLL
        for (std::size_t u = 0; u < U; ++u) state[u] = P::template get<N>(known + u * N, plane);
        NDPOOL_UNROLL
        for (int k = 1; k < K; ++k) {
            State<N> column[U];
            NDPOOL_UNROLL
            for (int r = 0; r < K; ++r) {
                const In *next = cell + rows.offset[r] + k * step;
                prefetch<U * N>(next);
                merge_cell(own, next, 0, r == 0, column);
            }
            NDPOOL_UNROLL
            for (std::size_t u = 0; u < U; ++u) {
                own.template merge_any<N>(state[u], column[u]);
                if (k == K - 1) P::template put<N>(last + u * N, plane, column[u]);
            }
        }
    }
    // The first column of a window that follows none which had it.
    template <int K, class Rows>
    const Lane *merge_first_column(const P &own, const In *cell, const Rows &rows, Lane *to) const {
        blocks<N>(inner, [&](i64 i, int) {
            State<N> column[1];
            for (int r = 0; r < K; ++r) merge_cell(own, cell + rows.offset[r] + i, 0, r == 0, column);
            P::template put<N>(to + i, plane, column[0]);
        });
        return to;
    }
    // One cell more, or the first.
    template <std::size_t U>
    NDPOOL_INLINE void merge_cell(const P &own, const In *cell, i64 tag, bool first, State<N> (&state)[U]) const {
        NDPOOL_UNROLL
        for (std::size_t u = 0; u < U; ++u) {
            State<N> next = own.template lift<N>(cell + u * N, tag);
            if (first)
                state[u] = next;
            else
                own.template merge<N>(state[u], next);
        }
    }
};

// --- all rows -----------------------------------------------------------------------------------

// Rows longer than the nearest cache go in parts of this many outputs.
inline i64 part_of_row(const Plan &plan) {
    const Axis &axis = plan.last();
    i64 stride = axis.adaptive ? (axis.length + axis.output - 1) / axis.output : axis.stride;
    i64 part = 4096 / (stride * plan.inner) + 1;
    i64 reach = axis.adaptive ? 1 : 4 * axis.dilation * axis.kernel / axis.stride;
    if (part < reach) part = reach;
    return part < axis.output ? part : axis.output;
}

// Below this many elements, waking a thread costs more than it saves.
inline bool worth_threads(i64 elements) { return elements >= (1 << 15); }

// Whether outputs are better written past the caches. `forced` as in Call.
template <class In, class Out>
bool streams_outputs(const Plan &plan, const Out *y, int forced) {
    const i64 read = plan.outer * plan.in_slab * static_cast<i64>(sizeof(In));
    const i64 written = plan.outer * plan.out_slab * static_cast<i64>(sizeof(Out));
    return streams(y, written, read + written, forced);
}

// Whether they can go there straight from registers of N elements: in every array those of a place are whole lines.
template <int N, class Sink>
bool places_in_lines(const Plan &plan, Sink sink) {
    bool are = plan.inner >= N && plan.inner % N == 0 && !sink.finishes();
    sink.over_arrays([&](auto *array, auto *&) {
        are = are && reinterpret_cast<std::uintptr_t>(array) % LINE == 0 && plan.inner * static_cast<i64>(sizeof(*array)) % LINE == 0;
    });
    return are;
}

template <int N, class P, class Sink>
void pool_in_lanes(const Plan &plan, const P &p, const typename P::In *x, const Sink &proto, int forced) {
    i64 part = part_of_row(plan), outputs = plan.last().output;
    i64 parts = (outputs + part - 1) / part;
    const bool streamed = streams_outputs<typename P::In>(plan, proto.y, forced);
    const bool in_lines = streamed && RowPooler<P, Sink, N>::STREAMS && places_in_lines<N>(plan, proto);
    // At a time. To send many past the caches at once would keep the memory from being read meanwhile.
    const i64 most_rows = parts > 1 ? 1 : (streamed ? 128 : 1024) / plan.out_row + 1;
    parallel(plan.outer * plan.out_rows * parts, worth_threads(plan.outer * plan.in_slab), [&](i64 begin, i64 end) {
        OutputRow rows(plan);
        RowPooler<P, Sink, N> pooler(plan, p, part, forced, in_lines);
        Sink sink = proto;
        Outbox outboxes[] = {Outbox(MADE), Outbox(MADE2)};
        i64 index = begin / parts, done = begin % parts;  // of output rows, and parts of the row
        i64 slab = index / plan.out_rows, row = index % plan.out_rows;
        rows.move_to(row);
        sink.move_to(plan, index, rows);
        for (i64 unit = begin;;) {
            i64 first = done * part, stop = first + part < outputs ? first + part : outputs;
            const i64 many = pooler.rows_at_a_time(rows, sink, most_rows < end - unit ? most_rows : end - unit);
            if (streamed && !in_lines) {
                Outbox *outbox = outboxes;
                sink.over_arrays([&](auto *array, auto *&row) {
                    i64 at = first * plan.inner, length = (many - 1) * plan.out_row + (stop - first) * plan.inner;
                    row = outbox++->room(array + index * plan.out_row + at, length, most_rows * part * plan.inner) - at;
                });
            }
            pooler.pool(x + slab * plan.in_slab + rows.base, rows, sink, first, stop, many - 1);
            sink.finish(plan, slab, rows, first, stop);
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
            sink.move_to(plan, index, rows);
        }
        if (in_lines) end_streaming();
    });
}

template <class P, class Sink>
void pool_all(const Plan &plan, const P &p, const typename P::In *x, const Sink &sink, int forced) {
    constexpr int MANY = LANES<typename P::Lane>, FEW = FEW_LANES<typename P::Lane>;
    const Axis &last = plan.last();
    bool in_segments = last.adaptive || last.stride >= 8;
    if constexpr (FEW < MANY)
        if (plan.inner == 1 ? last.output < MANY && !in_segments : plan.inner < MANY && plan.inner >= FEW)
            return pool_in_lanes<FEW>(plan, p, x, sink, forced);
    pool_in_lanes<MANY>(plan, p, x, sink, forced);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
