// Rows of the gradient as runs: cells side by side that the same outputs see get the same number.
//
// Windows of k = c s + r cells in steps of s see the cells in periods of s. In period m, the first r cells get the
// outputs m - c to m, the others those from m - c + 1 on. Bins have periods, too: one starts with each bin. Its first
// cell may be the last one of the bin before, and the others are the bin's own.
//
//     period m        period m + 1
//     | first | others | first | others |
//
// The numbers are few beside the cells. So they are added up and converted first, and then stored over and over. A
// store may reach beyond its run, where the next one follows.
#pragma once
#include "passes/back.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

inline i64 floor_quotient(i64 a, i64 b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

// Outputs that do not exist and are asked for, before the first of a row and after its last.
struct Missing {
    i64 before = 0, after = 0;
};

// Fills memory with copies of its first bytes.
inline void repeat_bytes(char *memory, i64 bytes, i64 all) {
    constexpr i64 MOST = 1 << 14;  // copied at a time, from the nearest cache
    const i64 whole = bytes < MOST ? MOST / bytes * bytes : bytes;
    for (i64 done = bytes; done < all;) {
        i64 length = done < whole ? done : whole;
        if (length > all - done) length = all - done;
        std::memcpy(memory + done, memory, static_cast<std::size_t>(length));
        done += length;
    }
}

template <class A>
class Runs {
    static constexpr int N = LANES<A>;

  public:
    // Whether there is more than a cell in a run, or as good as that, and not too many outputs over each.
    static bool suit(const Axis &axis, i64 inner) {
        if (axis.adaptive) return axis.length >= axis.output;
        return axis.dilation == 1 && axis.stride > (inner == 1 ? 2 : 1) &&
               axis.kernel <= MOST_OVER * axis.stride * axis.stride;
    }

    // For at most `chunk` cells at a time.
    void take_room(const Axis &its_axis, i64 its_inner, i64 chunk) {
        axis = its_axis, inner = its_inner;
        whole = axis.adaptive ? 1 : axis.kernel / axis.stride, rest = axis.adaptive ? 1 : axis.kernel % axis.stride;
        const i64 periods = axis.adaptive ? (chunk + 1) * axis.output / axis.length + 3 : chunk / axis.stride + 3;
        room = inner > 64 ? 0 : (periods * inner + 2 * N) * 8;  // places of many elements need none
        values.grow(2 * room, "numbers of runs");
        if (whole == 0) std::memset(values.data() + room, 0, static_cast<std::size_t>(room));
        if (axis.adaptive) list_bins();
    }
    Missing missing() const {
        if (axis.adaptive) return {};
        const i64 last = period_of(axis.length - 1), after = last - axis.output + 1,
                  before = (rest ? whole : whole - 1) - period_of(0);
        return {before > 0 ? before : 0, after > 0 ? after : 0};
    }
    // The outputs that the cells begin..end-1 ask for, those that do not exist included.
    CellRange outputs(i64 begin, i64 end) const { return {period_of(begin) - whole, period_of(end - 1) + 1}; }

    // Writes the cells begin..end-1, from a row of outputs, to `memory`, which is where the first one belongs, and up
    // to 64 bytes beyond. `to` says what becomes of a sum.
    template <class Target>
    void fill(const A *q, i64 begin, i64 end, const Target &to, char *memory) const {
        const i64 first = period_of(begin), stop = period_of(end - 1) + 1, bytes = to.element_bytes();
        const Cells cells{memory - begin * inner * bytes, begin, end, first, stop, inner * bytes};
        if (inner >= N && cells.place > 64) return put_places(q + first * inner, cells, to.instead(cells.memory));
        add_up(q + first * inner, first, (stop - first) * inner, to);
        if (inner == 1) {
            if (bytes == 2) return store_numbers<std::uint16_t>(cells);
            if (bytes == 4) return store_numbers<std::uint32_t>(cells);
            return store_numbers<std::uint64_t>(cells);
        }
        with_width(cells.place, [&](auto width) {
            constexpr int W = decltype(width)::value;
            over_runs(cells, [&](char *at, char *end, const char *value) NDPOOL_INLINED {
                const auto v = load<W>(value);
                char *const start = at, *const some = end - at > 1024 ? at + 512 / cells.place * cells.place : end;
                for (; at < some; at += cells.place) store<W>(at, v);
                if (some < end) repeat_bytes(start, some - start, end - start);
            });
        });
    }

  private:
    static constexpr i64 MOST_OVER = 9;
    Axis axis{};
    i64 inner = 1, whole = 0, rest = 0;  // c and r
    i64 room = 0;
    Scratch<char> values;     // the first ones of all periods, then the others
    Scratch<i64> starts;      // of bins
    Scratch<char> is_shared;  // whether a bin's first cell is another's, too

    struct Cells {
        char *memory;  // of cell 0
        i64 begin, end, first, stop, place;
    };

    void list_bins() {
        starts.grow(axis.output + 1, "starts of bins");
        is_shared.grow(axis.output, "bins that share a cell");
        for (i64 o = 0; o <= axis.output; ++o) starts[o] = axis.start(o);
        for (i64 o = 0; o < axis.output; ++o) is_shared[o] = (o * axis.length) % axis.output != 0;
    }
    i64 period_of(i64 cell) const {
        if (!axis.adaptive) return (cell + axis.pad_lo) / axis.stride;
        return ((cell + 1) * axis.output - 1) / axis.length;  // the last bin that starts no later
    }
    i64 typical() const {
        return axis.adaptive ? axis.length / axis.output : axis.stride - rest > rest ? axis.stride - rest : rest;
    }

    // The sums for all periods from number `first` on, its outputs being at q.
    template <class Target>
    void add_up(const A *q, i64 first, i64 length, const Target &to) const {
        const auto firsts = to.instead(values.data()), others = to.instead(values.data() + room);
        const bool none_before = axis.adaptive && first == 0;  // and no output before the first bin may be read
        for (i64 i = 0; i < length; i += N) {
            vec<A, N> sum{};
            for (i64 j = 0; j < whole; ++j) sum += load<N>(q + i - j * inner);
            if (whole) others.template put<N>(i, sum, N);
            if (!rest) continue;
            vec<A, N> before{};
            if (none_before && i < inner)
                for (i64 k = inner - i; k < N; ++k) before[k] = q[i + k - inner];
            else
                before = load<N>(q + i - whole * inner);
            firsts.template put<N>(i, sum + before, N);
        }
    }

    // Places of many elements: what a run gets is put at the first one, and copied from there.
    template <class Target>
    void put_places(const A *q, const Cells &cells, const Target &to) const {
        for (i64 m = cells.first; m < cells.stop; ++m, q += inner) {
            const i64 start = axis.adaptive ? starts[m] : m * axis.stride - axis.pad_lo,
                      other = start + (axis.adaptive ? is_shared[m] : rest),
                      next = axis.adaptive ? starts[m + 1] : start + axis.stride;
            const i64 edges[] = {within(cells, start), within(cells, other), within(cells, next)};
            i64 i = 0;
            for (; i + 4 * N <= inner; i += 4 * N) put_period<4>(q + i, cells, to, edges, i);
            for (; i < inner; i += N) {
                if (i + N > inner) i = inner - N;
                put_period<1>(q + i, cells, to, edges, i);
            }
        }
    }
    template <int U, class Target>
    NDPOOL_INLINE void put_period(const A *q, const Cells &cells, const Target &to, const i64 *edges, i64 i) const {
        vec<A, N> sum[U] = {};
        auto add = [&](const A *p) NDPOOL_INLINED {
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) sum[u] += load<N>(p + u * N);
        };
        for (i64 j = 0; j < whole; ++j) add(q - j * inner);
        auto put = [&](i64 begin, i64 end) NDPOOL_INLINED {
            if (begin == end) return;
            NDPOOL_UNROLL
            for (int u = 0; u < U; ++u) to.template put<N>(begin * inner + i + u * N, sum[u], N);
            const i64 bytes = to.element_bytes();
            char *const at = cells.memory + (begin * inner + i) * bytes;
            for (i64 p = 1; p < end - begin; ++p)
                std::memcpy(at + p * cells.place, at, static_cast<std::size_t>(U * N * bytes));
        };
        put(edges[1], edges[2]);
        if (edges[0] == edges[1]) return;
        add(q - whole * inner);
        put(edges[0], edges[1]);
    }
    static i64 within(const Cells &cells, i64 cell) {
        return cell < cells.begin ? cells.begin : cell > cells.end ? cells.end : cell;
    }

    // Calls f(16 bytes, 32 or 64) as the size of a run suggests.
    template <class F>
    NDPOOL_INLINE static void with_width(i64 bytes, const F &f) {
        if (bytes <= 16) return f(Size<16>());
        if (bytes <= 32) return f(Size<32>());
        f(Size<64>());
    }

    // Single cells: registers of one number, or a whole period in one register.
    template <class Bits>
    void store_numbers(const Cells &cells) const {
        const bool in_one = !axis.adaptive && axis.stride * cells.place <= 64;
        with_width((in_one ? axis.stride : typical()) * cells.place, [&](auto width) {
            constexpr int M = decltype(width)::value / sizeof(Bits);
            auto number = [](const char *value) NDPOOL_INLINED {
                Bits one;
                std::memcpy(&one, value, sizeof one);
                return splat<Bits, M>(one);
            };
            auto put = [](char *at, auto v) NDPOOL_INLINED { store<M>(reinterpret_cast<Bits *>(at), v); };
            auto run = [&](char *at, char *end, const char *value) NDPOOL_INLINED {
                const auto v = number(value);
                for (; at < end; at += M * sizeof(Bits)) put(at, v);
            };
            if (!in_one) return over_runs(cells, run);
            vec<typename IntOf<sizeof(Bits)>::s, M> is_first;
            for (int i = 0; i < M; ++i) is_first[i] = i < rest ? -1 : 0;
            const i64 size = axis.stride * cells.place;
            over_periods(cells, run, [&](char *at, const char *first, const char *other, i64 periods) NDPOOL_INLINED {
                for (i64 m = 0; m < periods; ++m, at += size) {
                    auto v = number(other + m * sizeof(Bits));
                    if (rest) v = is_first ? number(first + m * sizeof(Bits)) : v;
                    put(at, v);
                }
            });
        });
    }

    // Calls run(start, end, value) for all runs, in order.
    template <class Run>
    NDPOOL_INLINE void over_runs(const Cells &cells, const Run &run) const {
        if (!axis.adaptive) {
            const i64 place = cells.place, r = rest * place, size = axis.stride * place;
            return over_periods(cells, run,
                                [&](char *at, const char *first, const char *other, i64 periods) NDPOOL_INLINED {
                                    for (i64 m = 0; m < periods; ++m, at += size, first += place, other += place) {
                                        if (r) run(at, at + r, first);
                                        run(at + r, at + size, other);
                                    }
                                });
        }
        const char *first = values.data(), *other = values.data() + room;
        for (i64 m = cells.first; m < cells.stop; ++m, first += cells.place, other += cells.place) {
            if (is_shared[m]) clipped(cells, run, starts[m], starts[m] + 1, first);
            clipped(cells, run, starts[m] + is_shared[m], starts[m + 1], other);
        }
    }
    // The same with whole(start, first values, other values, how many) for periods of which all cells are asked for.
    template <class Run, class Whole>
    NDPOOL_INLINE void over_periods(const Cells &cells, const Run &run, const Whole &whole_ones) const {
        const char *first = values.data(), *other = values.data() + room;
        const i64 s = axis.stride;
        i64 m = cells.first;
        auto start = [&] { return m * s - axis.pad_lo; };
        auto one = [&] {
            clipped(cells, run, start(), start() + rest, first);
            clipped(cells, run, start() + rest, start() + s, other);
            ++m, first += cells.place, other += cells.place;
        };
        if (start() < cells.begin) one();
        const i64 many = (cells.end - start()) / s;
        if (many > 0) {
            whole_ones(cells.memory + start() * cells.place, first, other, many);
            m += many, first += many * cells.place, other += many * cells.place;
        }
        while (m < cells.stop) one();
    }
    template <class Run>
    NDPOOL_INLINE static void clipped(const Cells &cells, const Run &run, i64 from, i64 to, const char *value) {
        if (from < cells.begin) from = cells.begin;
        if (to > cells.end) to = cells.end;
        if (from < to) run(cells.memory + from * cells.place, cells.memory + to * cells.place, value);
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
