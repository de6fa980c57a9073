// Ties on the way back where windows have their cells to themselves: nothing is added up.
//
// A cell gets the share of the one window over it, if it equals its output, or nothing. So cells are compared as they
// are, however narrow, and shares are rounded once for each output. Outputs and shares are laid out over the cells of a
// row of windows:
//
//     outputs   a b     laid out   a a a a b b b b     cells   . . a . b . . b
//     shares    s t                s s s s t t t t             0 0 s 0 t 0 0 t
//
// Where a place has many elements, and where windows are long, they are read from where they are. Some rows of outputs
// are laid out at once: registers are full however short these are, and nothing is read that was only just stored.
#pragma once
#include "kinds/ties.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Cells of T as they are compared: equal numbers are alike, both zeros among them, and so are NaNs, if there are any.
template <class T, bool NANS>
struct Alike {
    static constexpr bool NARROW = std::is_class_v<T>;
    using E = std::conditional_t<NARROW, std::int16_t, T>;

    template <int M>
    NDPOOL_INLINE static vec<E, M> read(const T *p) {
        const vec<E, M> v = load<M>(reinterpret_cast<const E *>(p));
        if constexpr (NARROW) {
            constexpr E INFINITE = std::is_same_v<T, Half> ? 0x7c00 : 0x7f80, NO_SIGN = 0x7fff;
            const vec<E, M> none{}, size = v & NO_SIGN, number = size == 0 ? none : v;
            if constexpr (NANS) return size > INFINITE ? none + NO_SIGN : number;
            return number;
        }
        return v;
    }
    // a where x and y are alike, and b elsewhere.
    template <int M, class V>
    NDPOOL_INLINE static V choose(vec<E, M> x, vec<E, M> y, V a, V b) {
        if constexpr (NANS && !NARROW) return x == y ? a : x != x ? a : b;
        return x == y ? a : b;
    }
};

template <class T>
class TiedApart {
    using E = typename Alike<T, true>::E;
    using I = typename IntOf<sizeof(T)>::s;
    using A = std::conditional_t<std::is_same_v<T, double>, double, float>;  // in which shares are divided
    static constexpr int N = LANES<E>;

  public:
    TiedApart(const Plan &plan, const Call &call)
        : plan(plan),
          axis(plan.last()),
          x(static_cast<const T *>(call.x)),
          y(static_cast<const T *>(call.y_in)),
          g(static_cast<const T *>(call.g)),
          splits(call.ties == Ties::SPLIT),
          inner(plan.inner),
          laid_out(inner < N && !(inner == 1 && axis.kernel >= LONG)),
          tiles(tile_rows(plan)),
          in_rows(plan),
          out_rows(plan) {}

    void fill(const InputPart &part) {
        start(part);
        if (tiles && outputs && part.begin == 0 && part.end == plan.axes[0].length) return fill_by_windows(part);
        over_part_rows(plan, in_rows, part, [&](i64 row, i64 begin, i64 end) {
            const i64 length = (end - begin) * inner, at = row * plan.in_row + begin * inner;
            if (!in_rows.count || !outputs)
                return void(std::memset(start_row(part, at, length), 0, sizeof(T) * static_cast<std::size_t>(length)));
            while (in_rows.row[0] >= made) make();
            fill_row(part, at, (begin - first_cell) * inner, length, in_rows.row[0]);
        });
    }

  private:
    // Cells of a window that are long enough to be compared with an output by itself; and how often outputs of a row
    // are at most doubled to lie over their cells.
    static constexpr i64 LONG = 4 * N, MOST_DOUBLED = 16;
    static constexpr i64 TOGETHER = 2048;  // cells of the rows that are laid out at once, or so
    const Plan &plan;
    const Axis &axis;
    const T *const x, *const y, *const g;
    const bool splits;
    const i64 inner;
    const bool laid_out, tiles;  // whether each row of cells is seen by one row of outputs
    InputRow in_rows;
    OutputRow out_rows;
    Outbox outbox;
    i64 slab = 0, first_output = 0, first_cell = 0;   // of the row
    i64 outputs = 0, cells = 0, room = 0;             // elements of a row, and what each takes that is kept
    i64 first_row = 0, stop_row = 0, made = 0;        // rows of outputs, and up to which they are made
    i64 at_once = 1, groups = 1, group_room = 0;      // rows of a group, and groups that are kept
    i64 doubled = 0;  // how many cells each window of a row has that is nothing but windows, if a power of two; or 0
    Scratch<E> wanted, shares, line;
    Scratch<I> counts;
    Scratch<i64> spans;  // of the row: where the cells of each window begin and end
    Scratch<char> nans;  // whether a group has one

    static bool tile_rows(const Plan &plan) {
        for (int a = 0; a + 1 < plan.axis_count; ++a) {
            const Axis &axis = plan.axes[a];
            const bool apart = axis.adaptive || (axis.stride == axis.kernel && axis.dilation == 1 && axis.pad_lo == 0);
            if (!apart || axis.length != axis.output * axis.kernel) return false;
        }
        return plan.dim_count > 0;
    }
    // The rows of cells as those of outputs see them, if each is seen once.
    void fill_by_windows(const InputPart &part) {
        while (made < stop_row) {
            const i64 first = made;
            make();
            for (i64 over = first; over < made; ++over) {
                over > first ? out_rows.move_on(1) : out_rows.move_to(over);
                for (i64 r = 0; r < out_rows.count; ++r)
                    fill_row(part, out_rows.base + out_rows.offset[r], 0, cells, over);
            }
        }
    }
    E *start_row(const InputPart &part, i64 at, i64 length) {
        constexpr i64 BYTES = sizeof(T);
        char *to = part.gx + at * BYTES;
        return reinterpret_cast<E *>(part.streamed ? outbox.room(to, length * BYTES, plan.in_row * BYTES) : to);
    }
    // The elements from `at` of the slab on, which are those from `first` on of a row that is looked at, under a row of
    // outputs.
    void fill_row(const InputPart &part, i64 at, i64 first, i64 length, i64 over) {
        E *to = start_row(part, at, length);
        const i64 group = (over - first_row) / at_once % groups,
                  from = group * group_room + (over - first_row) % at_once * room;
        with_nans(group, [&](auto alike) {
            hand<decltype(alike)>(x + slab * plan.in_slab + at - first, wanted.data() + from, shares.data() + from,
                                  first, first + length, to - first);
        });
    }

    const T *cells_of(i64 offset) const { return x + slab * plan.in_slab + offset + first_cell * inner; }

    template <class F>
    NDPOOL_INLINE void with_nans(i64 group, const F &f) const {
        nans[group] ? f(Alike<T, true>()) : f(Alike<T, false>());
    }
    void start(const InputPart &part) {
        const OutputPart seen = outputs_over(plan, part.begin, part.end);
        i64 last = axis.length;
        slab = part.slab, first_output = seen.begin, first_cell = 0;
        if (plan.dim_count == 0) {  // the row itself is cut
            first_cell = part.begin, last = part.end;
            if (seen.begin < seen.end) Columns<float>::seen(axis, seen.begin, seen.end, &first_cell, &last);
            if (first_cell > part.begin) first_cell = part.begin;
            if (last < part.end) last = part.end;
        }
        outputs = (seen.end - seen.begin) * inner, cells = (last - first_cell) * inner;
        room = laid_out ? cells : outputs;
        first_row = made = seen.row_begin, stop_row = seen.row_end;
        at_once = plan.dim_count == 0 || cells >= TOGETHER ? 1 : TOGETHER / cells;
        groups = (rows_over_cell(plan) + at_once - 2) / at_once + 1;
        group_room = at_once * room + (MOST_DOUBLED + 2) * N;
        wanted.grow(groups * group_room, "outputs over their cells");
        shares.grow(groups * group_room, "shares over their cells");
        counts.grow(group_room, "cells that tie");
        if (laid_out) line.grow(at_once * outputs + inner + N, "outputs of some rows");
        nans.grow(groups, "rows of outputs with a NaN");
        list_spans();
    }
    // The rows of outputs that come next.
    void make() {
        const i64 rows = made + at_once < stop_row ? at_once : stop_row - made,
                  group = (made - first_row) / at_once % groups;
        const i64 at = (slab * plan.out_rows + made) * plan.out_row + first_output * inner;
        E *best = wanted.data() + group * group_room, *share = shares.data() + group * group_room;
        E *few_best = laid_out ? line.data() : best, *few_shares = laid_out ? line.data() : share;
        nans[group] = read_outputs(at, rows * outputs, few_best);
        if (laid_out) lay_out(few_best, rows, best);
        if (splits) {
            with_nans(group, [&](auto alike) {
                for (i64 r = 0; r < rows; ++r) {
                    r ? out_rows.move_on(1) : out_rows.move_to(made);
                    count<decltype(alike)>(best + r * room, counts.data() + r * room);
                }
            });
            if (laid_out) add_up_counts(rows);
        }
        divide_shares(at, rows * outputs, reinterpret_cast<T *>(few_shares));
        if (laid_out) lay_out(few_shares, rows, share);
        made += rows;
    }
    void list_spans() {
        const i64 windows = outputs / inner;
        spans.grow(2 * windows, "cells of windows");
        doubled = inner == 1 && windows ? cells / windows : 0;
        if (doubled < 2 || doubled > MOST_DOUBLED || (doubled & (doubled - 1)) || cells != outputs * doubled)
            doubled = 0;
        for (i64 w = 0; w < windows; ++w) {
            const Axis::Taps taps = axis.taps(first_output + w);
            const i64 begin = (taps.first - first_cell) * inner, end = begin + taps.count * inner;
            spans[2 * w] = begin, spans[2 * w + 1] = end;
            if (begin != w * doubled || end != begin + doubled) doubled = 0;
        }
    }
    // As they are compared; says whether there is a NaN among them.
    bool read_outputs(i64 at, i64 many, E *to) const {
        bool any = false;
        exact_blocks<N>(many, [&](auto size, i64 i) NDPOOL_INLINED {
            constexpr int M = decltype(size)::value;
            prefetch<M>(y + at + i);
            const vec<E, M> v = Alike<T, true>::template read<M>(y + at + i);
            if constexpr (std::is_class_v<T>)
                any |= any_lane<M, I>(v == E(0x7fff));
            else
                any |= any_lane<M, I>(v != v);
            store<M>(to + i, v);
        });
        return any;
    }

    // --- outputs over their cells ---

    // Registers go beyond a window, over what is written next; between windows there is nothing.
    void lay_out(const E *from, i64 rows, E *to) const {
        if (doubled) return double_up(from, rows * outputs, to);
        const vec<E, N> none{};
        const i64 step = inner == 1 ? N : inner;
        for (i64 r = 0; r < rows; ++r, to += cells) {
            i64 done = 0;
            auto leave = [&](i64 until) NDPOOL_INLINED {
                for (; done < until; done += N) store<N>(to + done, none);
            };
            for (i64 w = 0; w * inner < outputs; ++w, from += inner) {
                leave(spans[2 * w]);
                const vec<E, N> v = inner == 1 ? splat<E, N>(*from) : load<N>(from);
                for (i64 i = spans[2 * w]; i < spans[2 * w + 1]; i += step) store<N>(to + i, v);
                done = spans[2 * w + 1];
            }
            leave(cells);
        }
    }
    // Each number twice, and once more, from the last register to the first.
    void double_up(const E *from, i64 length, E *to) const {
        for (i64 times = 1; times < doubled; length *= 2, times *= 2, from = to)
            for (i64 i = (length - 1) / N * N; i >= 0; i -= N) {
                vec<E, N> low = load<N>(from + i), high = low;
                zip<N>(low, high);
                store<N>(to + 2 * i, low);
                store<N>(to + 2 * i + N, high);
            }
    }

    // --- cells that tie ---

    // Those of a row: over cells, so many tie of each column.
    template <class As>
    void count(const E *wanted, I *to) const {
        if (laid_out)
            count_over_cells<As>(wanted, to);
        else if (inner == 1)
            count_along<As>(wanted, to);
        else
            count_at_places<As>(wanted, to);
    }
    const T *row_seen(i64 r) const { return cells_of(out_rows.base + out_rows.offset[r]); }

    template <class As>
    void count_over_cells(const E *wanted, I *to) const {
        exact_blocks<N>(cells, [&](auto size, i64 i) NDPOOL_INLINED {
            constexpr int M = decltype(size)::value;
            const vec<E, M> best = load<M>(wanted + i);
            vec<I, M> found{};
            for (i64 r = 0; r < out_rows.count; ++r) {
                const T *cell = row_seen(r) + i;
                prefetch<M>(cell);
                found = As::template choose<M>(As::template read<M>(cell), best, found + I(1), found);
            }
            store<M>(to + i, found);
        });
    }
    // Of each output, before any cell of the next one.
    void add_up_counts(i64 rows) {
        I *to = counts.data();
        if (doubled) return add_pairs(rows * cells / 2);
        for (i64 r = 0; r < rows; ++r) {
            const I *from = counts.data() + r * cells;
            for (i64 w = 0; w * inner < outputs; ++w)
                for (i64 e = 0; e < inner; ++e) {
                    I sum = 0;
                    for (i64 i = spans[2 * w] + e; i < spans[2 * w + 1]; i += inner) sum += from[i];
                    *to++ = sum;
                }
        }
    }
    void add_pairs(i64 length) {
        I *to = counts.data();
        for (i64 times = 1; times < doubled; length /= 2, times *= 2)
            for (i64 i = 0; i < length; i += N) {
                const vec<I, N> low = load<N>(to + 2 * i), high = load<N>(to + 2 * i + N);
                store<N>(to + i, every_second<N, 0>(low, high) + every_second<N, 1>(low, high));
            }
    }
    // One window after the other.
    template <class As>
    void count_along(const E *wanted, I *to) const {
        constexpr i64 MOST = 1 << 14;  // that a lane counts
        for (i64 w = 0; w < outputs; ++w) {
            const vec<E, N> best = splat<E, N>(wanted[w]);
            vec<I, N> found{};
            i64 counted = 0, all = 0;
            auto add_up = [&] {
                I lanes[N];
                store<N>(lanes, found);
                for (const I lane : lanes) all += lane;
                found = vec<I, N>{}, counted = 0;
            };
            for (i64 r = 0; r < out_rows.count; ++r) {
                const T *row = row_seen(r);
                i64 i = spans[2 * w];
                for (const i64 end = spans[2 * w + 1]; i < end;) {
                    i64 stop = end - i < MOST * N ? end : i + MOST * N;
                    for (; i + N <= stop; i += N, ++counted) {
                        prefetch<N>(row + i);
                        found = As::template choose<N>(As::template read<N>(row + i), best, found + I(1), found);
                    }
                    for (; stop == end && i < end; ++i) {
                        const vec<I, 1> one{1}, none{};
                        all += As::template choose<1>(As::template read<1>(row + i), splat<E, 1>(wanted[w]), one,
                                                      none)[0];
                    }
                    if (counted >= MOST / 2) add_up();
                }
            }
            add_up();
            to[w] = static_cast<I>(all);
        }
    }
    template <class As>
    void count_at_places(const E *wanted, I *to) const {
        for (i64 w = 0; w * inner < outputs; ++w) {
            auto count_some = [&](auto registers, i64 e) NDPOOL_INLINED {
                constexpr int U = decltype(registers)::value;
                vec<I, N> found[U] = {};
                for (i64 r = 0; r < out_rows.count; ++r) {
                    const T *row = row_seen(r) + e;
                    for (i64 i = spans[2 * w]; i < spans[2 * w + 1]; i += inner) {
                        prefetch<U * N>(row + i);
                        NDPOOL_UNROLL
                        for (int u = 0; u < U; ++u)
                            found[u] = As::template choose<N>(As::template read<N>(row + i + u * N),
                                                              load<N>(wanted + w * inner + e + u * N), found[u] + I(1),
                                                              found[u]);
                    }
                }
                NDPOOL_UNROLL
                for (int u = 0; u < U; ++u) store<N>(to + w * inner + e + u * N, found[u]);
            };
            i64 e = 0;
            for (; e + 4 * N <= inner; e += 4 * N) count_some(Size<4>(), e);
            for (; e < inner; e += N) count_some(Size<1>(), e + N <= inner ? e : inner - N);
        }
    }

    // The shares of outputs, of whose cells so many tie.
    void divide_shares(i64 at, i64 many, T *to) const {
        exact_blocks<LANES<A>>(many, [&](auto size, i64 i) NDPOOL_INLINED {
            constexpr int M = decltype(size)::value;
            prefetch<M>(g + at + i);
            vec<A, M> share = load_as<A, M>(g + at + i), none{}, one = none + 1;
            if (splits) {
                const vec<A, M> number = convert<A, M>(load<M>(counts.data() + i));
                if (any_lane<M, typename IntOf<sizeof(A)>::s>(number > one)) share /= number > one ? number : one;
            }
            store_as<M>(to + i, share + none);  // which is not -0
        });
    }

    // --- what cells get ---

    // Elements begin..end-1 of a row.
    template <class As>
    void hand(const T *row, const E *wanted, const E *shares, i64 begin, i64 end, E *to) const {
        const auto get = [&](auto size, i64 i, auto best, auto share) NDPOOL_INLINED {
            constexpr int M = decltype(size)::value;
            const vec<E, M> none{};
            store<M>(to + i, As::template choose<M>(As::template read<M>(row + i), best, share, none));
        };
        if (laid_out)
            return exact_blocks<N>(end - begin, [&](auto size, i64 i) NDPOOL_INLINED {
                constexpr int M = decltype(size)::value;
                get(size, begin + i, load<M>(wanted + begin + i), load<M>(shares + begin + i));
            });
        i64 done = begin;
        auto leave = [&](i64 until) {
            if (done < until) std::memset(to + done, 0, sizeof(E) * static_cast<std::size_t>(until - done));
        };
        for (i64 w = 0; w * inner < outputs; ++w) {
            const i64 first = spans[2 * w] > begin ? spans[2 * w] : begin,
                      stop = spans[2 * w + 1] < end ? spans[2 * w + 1] : end;
            if (first >= stop) continue;
            leave(first);
            done = stop;
            if (inner == 1) {
                exact_blocks<N>(stop - first, [&](auto size, i64 i) NDPOOL_INLINED {
                    constexpr int M = decltype(size)::value;
                    get(size, first + i, splat<E, M>(wanted[w]), splat<E, M>(shares[w]));
                });
                continue;
            }
            for (i64 i = first; i < stop; i += inner)
                whole_blocks<N>(inner, [&](i64 e) NDPOOL_INLINED {
                    get(Size<N>(), i + e, load<N>(wanted + w * inner + e), load<N>(shares + w * inner + e));
                });
        }
        leave(end);
    }
};

// The VJP of floats of T.
template <class T>
void pull_apart(const Plan &plan, const Call &call, const Gradient &gradient) {
    over_input_parts(plan, gradient, cuts_by_rows(plan), [&](const auto &over) {
        TiedApart<T> apart(plan, call);
        over([&](const InputPart &part) { apart.fill(part); });
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
