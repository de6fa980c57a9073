// Max and Min by looking: every cell that equals the output.
//
// Cells are compared as keys: whole numbers in the same order, as wide as the sums. Equal numbers have equal keys, both
// zeros among them, and so do all NaNs, whose key is the largest. A window is looked at in two steps, as the way back
// by columns does: the best key of each of its columns, and then the columns that are as good as the output.
#pragma once
#include "passes/columns.h"
#include "passes/places.h"
#include "plan/call.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// --- keys -------------------------------------------------------------------------------------------

template <int N, class F>
NDPOOL_INLINE auto float_keys(vec<F, N> v, typename IntOf<sizeof(F)>::s flip) {
    using I = typename IntOf<sizeof(F)>::s;
    constexpr I MOST = static_cast<I>(~typename IntOf<sizeof(F)>::u(0) >> 1);
    vec<I, N> key = bits<vec<I, N>>(v), none{};
    key ^= (key >> (8 * sizeof(F) - 1)) & MOST;  // the larger a negative number's size, the lower
    key = (v == 0 ? none : key) ^ flip;
    return v == v ? key : none + MOST;
}

// `flip` is -1 where the order is turned round (Min).
template <class I, class T, int N>
NDPOOL_INLINE vec<I, N> keys_of(const T *p, I flip) {
    vec<I, N> key;
    if constexpr (std::is_same_v<T, double>)
        key = float_keys<N, double>(load<N>(p), flip);
    else if constexpr (std::is_same_v<T, float> || std::is_class_v<T>)
        key = convert<I, N>(float_keys<N, float>(load_as<float, N>(p), static_cast<std::int32_t>(flip)));
    else
        key = convert<I, N>(load<N>(p)) ^ flip;
    if constexpr (std::is_same_v<T, std::uint64_t>) key ^= INT64_MIN;
    return key;
}
template <class I, class T>
void read_keys(const void *from, i64 at, i64 count, I flip, I *to) {
    auto *p = static_cast<const T *>(from) + at;
    exact_blocks<LANES<I>>(count, [&](auto size, i64 i) NDPOOL_INLINED {
        constexpr int N = decltype(size)::value;
        prefetch<N>(p + i);
        store<N>(to + i, keys_of<I, T, N>(p + i, flip));
    });
}

// Whether any lane of a comparison is true.
template <int N, class I>
NDPOOL_INLINE bool any_lane(vec<I, N> mask) {
    if constexpr (N == 1) {
        return mask[0] != 0;
    } else {
#if defined(__AVX512F__)
        if constexpr (sizeof(mask) == 64) return _mm512_test_epi32_mask(bits<__m512i>(mask), bits<__m512i>(mask)) != 0;
#endif
        using Words = vec<std::uint64_t, static_cast<int>(sizeof(mask)) / 8>;
        const Words words = bits<Words>(mask);
        std::uint64_t any = 0;
        for (std::size_t w = 0; w < sizeof(mask) / 8; ++w) any |= words[w];
        return any != 0;
    }
}
// Whether any cell has the key that is wanted of it. These repeat after `period`, which is whole registers.
template <class I, class T>
bool find_keys(const void *from, i64 at, i64 count, I flip, const I *wanted, i64 period) {
    constexpr int N = LANES<I>;
    auto *p = static_cast<const T *>(from) + at;
    vec<I, N> any{};
    i64 i = 0, k = 0;
    for (; i + N <= count; i += N, k = k + N < period ? k + N : 0) {
        prefetch<N>(p + i);
        any |= keys_of<I, T, N>(p + i, flip) == load<N>(wanted + k);
    }
    bool found = any_lane<N, I>(any);
    for (; i < count; ++i, ++k) found |= keys_of<I, T, 1>(p + i, flip)[0] == wanted[k];
    return found;
}

template <class I>
struct KeyRows {
    void (*read)(const void *from, i64 at, i64 count, I flip, I *to);
    bool (*find)(const void *from, i64 at, i64 count, I flip, const I *wanted, i64 period);
};

template <class I>
KeyRows<I> key_rows(Type type) {
    if constexpr (sizeof(I) == 8) {
        switch (type) {
#define NDPOOL_CASE(name, T) \
    case Type::name: return {read_keys<I, T>, find_keys<I, T>};
            NDPOOL_INTEGERS(NDPOOL_CASE)
            NDPOOL_FLOATS(NDPOOL_CASE)
#undef NDPOOL_CASE
        }
    }
    if (type == Type::F32) return {read_keys<I, float>, find_keys<I, float>};
    if (type == Type::F16) return {read_keys<I, Half>, find_keys<I, Half>};
    return {read_keys<I, BFloat>, find_keys<I, BFloat>};
}

// The arrays of a call: how they are read, and how many lie beside each other.
template <class A>
struct TiedArrays {
    using I = typename IntOf<sizeof(A)>::s;
    const void *x, *y, *t, *g;  // of t, what is to be summed up
    KeyRows<I> keys;
    FloatRows<A> floats;
    I flip;
    Ties policy;
    bool some_absent;  // whether an output may equal none of its cells
};

// --- rows of the input ------------------------------------------------------------------------------

// How many rows of a slab a window reaches over.
inline i64 rows_under_window(const Plan &plan) {
    i64 rows = 1;
    for (int d = 0; d < plan.dim_count; ++d) {
        const Dim &dim = plan.dims[d];
        if (dim.axis < 0) continue;
        const Axis &axis = plan.axes[dim.axis];
        rows += axis.dilation * (axis.kernel - 1) * (dim.in_stride / plan.in_row);
    }
    return rows < plan.in_rows ? rows : plan.in_rows;
}

// The rows that were read last, as keys, with the tangent beside them where there is one.
template <class A>
class RecentRows {
  public:
    using I = typename IntOf<sizeof(A)>::s;

    RecentRows(const TiedArrays<A> &arrays, const Plan &plan) : arrays(arrays), rows(rows_under_window(plan)) {}

    // Rows of so many elements from now on; they start so many apart.
    void start(i64 elements, i64 apart) {
        if (elements == length) return;
        inverse = 1 / static_cast<double>(apart);
        length = elements;
        room = (elements + 2 * LANES<A>)*(arrays.t ? 2 : 1);
        slots = ENOUGH / (room * static_cast<i64>(sizeof(A)));
        if (slots < AT_ONCE) slots = AT_ONCE;
        if (slots > rows) slots = rows;
        numbers.grow(slots * room, "rows as keys");
        starts.grow(slots, "where rows start");
        for (i64 slot = 0; slot < slots; ++slot) starts[slot] = -1;
    }
    // Where the row goes that starts at an element of the slab. Its number among the slab's rows decides.
    i64 slot_of(i64 offset) const {
        const i64 row = static_cast<i64>(static_cast<double>(offset) * inverse + 0.5);
        return row % slots;
    }
    const I *keys(i64 slot, i64 at) {
        I *to = numbers.data() + slot * room;
        if (starts[slot] != at) {
            arrays.keys.read(arrays.x, at, length, arrays.flip, to);
            if (arrays.t) arrays.floats.read(arrays.t, at, length, reinterpret_cast<A *>(to + room / 2));
            starts[slot] = at;
        }
        return to;
    }
    const A *tangent(i64 slot) const { return reinterpret_cast<const A *>(numbers.data() + slot * room + room / 2); }

    static constexpr i64 AT_ONCE = 8;

  private:
    static constexpr i64 ENOUGH = i64(256) << 10;
    const TiedArrays<A> &arrays;
    const i64 rows;
    i64 length = -1, room = 0, slots = 0;
    double inverse = 1;
    Scratch<I> numbers;
    Scratch<i64> starts;
};

// --- the best of each column ------------------------------------------------------------------------

// What is carried along with it: how many cells of the column there are, and the sum of their tangents or, to find the
// first of them, its row's place in the window.
enum class Carried { NOTHING, SUM, PLACE };

// A row of columns.
template <class A>
struct BestRow {
    typename IntOf<sizeof(A)>::s *key;
    A *count, *carried;
};

template <class A, bool COUNTS, Carried CARRIED>
class Looker {
  public:
    using I = typename IntOf<sizeof(A)>::s;
    static constexpr int N = LANES<A>;
    static constexpr A NO_PLACE = static_cast<A>(0x1p60);  // after all others
    static constexpr A NOTHING = CARRIED == Carried::PLACE ? NO_PLACE : 0;

    Looker(const Plan &plan, const TiedArrays<A> &arrays) : plan(plan), arrays(arrays), recent(arrays, plan) {}

    // Outputs, and the columns that they see, from now on.
    void start(const Columns<A> &given, i64 of_slab) {
        slab = of_slab;
        const bool as_before = columns && given.is_like(shape);
        columns = &given;
        if (as_before) return;
        shape = given.shape();
        if (plan.dim_count) recent.start(given.cells * given.inner, plan.in_row);
        const i64 room = given.column_room(), phases = given.steps > 1 ? given.steps * given.apart + 2 * N : 0;
        floats.grow(2 * (room + phases) + 3 * given.output_room(), "columns and their outputs");
        row.count = floats.data(), row.carried = row.count + room;
        phase.count = row.carried + room, phase.carried = phase.count + phases;
        count = phase.carried + phases, sum = count + given.output_room(), share = sum + given.output_room();
        // Padding counts for nothing, and where there is no output none is handed on.
        std::memset(row.count, 0, sizeof(A) * room);
        for (i64 i = 0; i < room; ++i) row.carried[i] = NOTHING;
        std::memset(share, 0, sizeof(A) * given.output_room());
        keys.grow(room + phases + given.output_room(), "keys of columns and their outputs");
        row.key = keys.data(), phase.key = row.key + room, y = phase.key + phases;
        std::memset(keys.data(), 0, sizeof(I) * (room + phases + given.output_room()));
        if (plan.dim_count == 0)
            for (i64 i = 0; i < given.cells * given.inner; ++i)
                row.count[given.lead + i] = 1, row.carried[given.lead + i] = 0;
        if (given.steps == 1) phase = row;
        if (given.along == Along::PHASES) taps = given.taps(taps_room);
        if (given.along == Along::SEGMENTS) lay_out_lanes();
    }

    // The best key of each column of an output row; it may be made at `key`.
    void find_best(const OutputRow &rows, I *key) {
        if (key) {
            row.key = key;
            if (columns->steps == 1) phase.key = key;
        }
        BestRow<A> to = row;
        to.key += columns->lead, to.count += columns->lead, to.carried += columns->lead;
        const i64 length = columns->cells * columns->inner;
        if (plan.dim_count == 0) {  // a column is one cell
            arrays.keys.read(arrays.x, start_of(0), length, arrays.flip, to.key);
            if (CARRIED == Carried::SUM) arrays.floats.read(arrays.t, start_of(0), length, to.carried);
        } else {
            for (i64 r = 0; r < rows.count;) r = merge_some(rows, r, to, length);
        }
        const vec<A, N> none{};
        store<N>(to.count + length, none);
        store<N>(to.carried + length, none + NOTHING);
        if (columns->steps == 1) return;
        columns->split(row.key, phase.key);
        if (COUNTS) columns->split(row.count, phase.count);
        if (CARRIED != Carried::NOTHING) columns->split(row.carried, phase.carried);
    }

    // Reads the outputs from `at` on, and asks their windows: `count` and `sum` are those of the cells that lean on
    // them.
    void ask(i64 at) {
        arrays.keys.read(arrays.y, at, outputs(), arrays.flip, y + columns->border);
        if (!COUNTS && CARRIED == Carried::NOTHING) return;
        if (columns->along == Along::PHASES)
            ask_phases();
        else if (columns->along == Along::PLACES)
            ask_places();
        else
            ask_segments();
    }
    void look(const OutputRow &rows, i64 at) {
        find_best(rows, nullptr);
        ask(at);
    }
    i64 outputs() const { return (columns->end - columns->begin) * columns->inner; }

    const I *row_keys(i64 offset) { return recent.keys(recent.slot_of(offset), start_of(offset)); }

    const Plan &plan;
    const TiedArrays<A> &arrays;
    const Columns<A> *columns = nullptr;
    BestRow<A> row{}, phase{};
    I *y = nullptr;  // the outputs' keys, after a border
    A *count = nullptr, *sum = nullptr, *share = nullptr;
    typename Columns<A>::Taps taps{};

  private:
    i64 slab = 0;
    RecentRows<A> recent;
    Scratch<A> floats;
    Scratch<I> keys;
    Scratch<i64> taps_room;
    typename Columns<A>::Shape shape{};

    i64 start_of(i64 offset) const { return slab * plan.in_slab + offset + columns->first_cell * columns->inner; }

    // Merges rows from number `r` on, as many as can be held at once; says which is next.
    i64 merge_some(const OutputRow &rows, i64 r, const BestRow<A> &to, i64 length) {
        constexpr i64 MOST = RecentRows<A>::AT_ONCE;
        const I *key[MOST];
        const A *carried[MOST] = {};
        i64 slot[MOST], held = 0;
        for (; r + held < rows.count && held < MOST; ++held) {
            const i64 offset = rows.base + rows.offset[r + held];
            slot[held] = recent.slot_of(offset);
            bool taken = false;
            for (i64 before = 0; before < held; ++before) taken |= slot[before] == slot[held];
            if (taken) break;
            key[held] = recent.keys(slot[held], start_of(offset));
            if (CARRIED == Carried::SUM) carried[held] = recent.tangent(slot[held]);
        }
        const i64 *tags = rows.tag + r;
        const bool first = r == 0;
        for (i64 i = 0; i < length; i += N) {
            auto with = [&](i64 k) NDPOOL_INLINED {
                if constexpr (CARRIED == Carried::SUM) return load<N>(carried[k] + i);
                return splat<A, N>(static_cast<A>(tags[k]));
            };
            const vec<A, N> none{}, one = none + 1;
            vec<I, N> best = first ? load<N>(key[0] + i) : load<N>(to.key + i);
            vec<A, N> count = first ? one : load<N>(to.count + i), sum = first ? with(0) : load<N>(to.carried + i);
            for (i64 k = first; k < held; ++k) {
                const vec<I, N> next = load<N>(key[k] + i);
                const vec<I, N> better = next > best, as_good = next >= best;
                best = better ? next : best;
                if constexpr (COUNTS) count = (better ? none : count) + (as_good ? one : none);
                if constexpr (CARRIED == Carried::SUM) sum = (better ? none : sum) + (as_good ? with(k) : none);
                if constexpr (CARRIED == Carried::PLACE) sum = better ? with(k) : sum;
            }
            store<N>(to.key + i, best);
            if constexpr (COUNTS) store<N>(to.count + i, count);
            if constexpr (CARRIED != Carried::NOTHING) store<N>(to.carried + i, sum);
        }
        return r + held;
    }

    // What windows have found so far.
    struct Found {
        vec<A, N> count{}, sum{};
        NDPOOL_INLINE Found() {
            if constexpr (CARRIED == Carried::PLACE) sum = sum + NO_PLACE;
        }
        // The columns that equal the output; `tap` is their place along the row.
        NDPOOL_INLINE void add(const BestRow<A> &from, i64 i, vec<I, N> equal, A kernel, vec<A, N> tap) {
            const vec<A, N> none{};
            if constexpr (COUNTS) count += equal ? load<N>(from.count + i) : none;
            if constexpr (CARRIED == Carried::SUM) sum += equal ? load<N>(from.carried + i) : none;
            if constexpr (CARRIED == Carried::PLACE) {
                const vec<A, N> place = load<N>(from.carried + i) * kernel + tap;
                sum = (equal & (place < sum)) ? place : sum;
            }
        }
        NDPOOL_INLINE void put(A *count_to, A *sum_to) const {
            if constexpr (COUNTS) store<N>(count_to, count);
            if constexpr (CARRIED != Carried::NOTHING) store<N>(sum_to, sum);
        }
    };

    // Windows side by side, whose cells of one place are side by side, too.
    void ask_phases() {
        const Axis &axis = columns->axis;
        const i64 *offset = taps.cell;
        const BestRow<A> from = phase;
        const I *wanted = y + columns->border;
        const i64 length = outputs(), kernel = axis.kernel;
        A *count_to = count, *sum_to = sum;
        for (i64 i = 0; i < length; i += N) {
            const vec<I, N> best = load<N>(wanted + i);
            Found found;
            for (i64 j = 0; j < kernel; ++j)
                found.add(from, offset[j] + i, load<N>(from.key + offset[j] + i) == best, static_cast<A>(kernel),
                          splat<A, N>(static_cast<A>(j)));
            found.put(count_to + i, sum_to + i);
        }
    }
    void ask_places() {
        const Axis &axis = columns->axis;
        const i64 inner = columns->inner, step = axis.dilation * inner;
        const BestRow<A> from = row;
        const I *wanted = y;
        A *count_to = count, *sum_to = sum;
        for (i64 o = columns->begin; o < columns->end; ++o) {
            const Axis::Taps taps = axis.taps(o);
            const i64 first = (taps.first - columns->first_cell) * inner, at = (o - columns->begin) * inner;
            whole_blocks<N>(inner, [&](i64 e) NDPOOL_INLINED {
                const vec<I, N> best = load<N>(wanted + at + e);
                Found found;
                for (i64 j = 0; j < taps.count; ++j) {
                    const i64 i = first + j * step + e;
                    found.add(from, i, load<N>(from.key + i) == best, static_cast<A>(axis.kernel),
                              splat<A, N>(static_cast<A>(taps.skipped + j)));
                }
                found.put(count_to + at + e, sum_to + at + e);
            });
        }
    }

  public:
    // Calls f(i, equal, tap) for registers that cover the cells of output o's window along the row: elements i.. of the
    // row of columns, of which those that equal the output are marked; the first is at place `tap`. The output's
    // elements repeat along the lanes.
    template <class F>
    NDPOOL_INLINE void over_segment(i64 o, const F &f) const {
        const Axis &axis = columns->axis;
        const i64 inner = columns->inner, period = axis.dilation * inner;
        const Axis::Taps taps = axis.taps(o);
        const i64 first = (taps.first - columns->first_cell) * inner;
        const i64 span = taps.count ? (taps.count - 1) * period + inner : 0;
        const vec<I, N> best = repeated(y + (o - columns->begin) * inner), there = load<N>(lanes_there);
        for (i64 i = 0; i < span; i += step) {
            vec<I, N> equal = (load<N>(row.key + first + i) == best) & there;
            if (span - i < N) equal &= load<N>(lane) < static_cast<I>(span - i);
            f(first + i, equal, CARRIED == Carried::PLACE ? taps.skipped + i / period : 0);
        }
    }

    // The elements of a place, again and again.
    template <class T>
    NDPOOL_INLINE vec<T, N> repeated(const T *place) const {
        if (columns->inner == 1) return splat<T, N>(*place);
        T lanes[N];
        for (int l = 0; l < N; ++l) lanes[l] = place[element[l]];
        return load<N>(lanes);
    }

  private:
    i64 step = N;                  // of a segment, at a time
    I lanes_there[N], element[N];  // which lanes are cells of the window, and which element of a place they are
    I lane[N];                     // its number
    A ahead[N];                    // how far along the window

    void lay_out_lanes() {
        const i64 inner = columns->inner, period = columns->axis.dilation * inner;
        const i64 taken = period <= N ? N / period * period : inner;  // lanes
        step = period <= N ? taken : period;
        for (i64 l = 0; l < N; ++l) {
            lanes_there[l] = l < taken && l % period < inner ? -1 : 0;
            element[l] = static_cast<I>(l % inner);
            lane[l] = static_cast<I>(l);
            ahead[l] = static_cast<A>(l / period);
        }
    }
    // Windows one by one, along their cells.
    void ask_segments() {
        const i64 inner = columns->inner;
        const BestRow<A> from = row;
        const vec<A, N> along = load<N>(ahead);
        for (i64 o = columns->begin; o < columns->end; ++o) {
            Found found;
            const A kernel = static_cast<A>(columns->axis.kernel);
            over_segment(o, [&](i64 i, vec<I, N> equal, i64 tap)
                                NDPOOL_INLINED { found.add(from, i, equal, kernel, along + static_cast<A>(tap)); });
            const i64 at = (o - columns->begin) * inner;
            for (i64 e = 0; e < inner; ++e) {
                if constexpr (COUNTS) count[at + e] = folded(found.count, e, inner);
                if constexpr (CARRIED == Carried::SUM) sum[at + e] = folded(found.sum, e, inner);
                if constexpr (CARRIED == Carried::PLACE) {
                    sum[at + e] = NO_PLACE;
                    for (i64 l = e; l < N; l += inner)
                        if (found.sum[l] < sum[at + e]) sum[at + e] = found.sum[l];
                }
            }
        }
    }
    // The sum of every `inner`-th lane, from lane e on.
    static A folded(vec<A, N> v, i64 e, i64 inner) {
        A lanes[N], all = 0;
        store<N>(lanes, v);
        if (inner > 1) {
            for (i64 l = e; l < N; l += inner) all += lanes[l];
            return all;
        }
        vec<A, 2> pair = load<2>(lanes);
        if constexpr (N >= 4) {
            vec<A, 4> some = load<4>(lanes);
            for (int l = 4; l < N; l += 4) some += load<4>(lanes + l);
            store<4>(lanes, some);
            pair = load<2>(lanes) + load<2>(lanes + 2);
        }
        return pair[0] + pair[1];
    }
};

// --- the derivative ---------------------------------------------------------------------------------

// An output that no cell equals, and so has the count 0, hands nothing on.
template <class A>
void divide(A *shares, const A *count, i64 outputs) {
    constexpr int N = LANES<A>;
    const vec<A, N> one = vec<A, N>{} + 1;
    i64 i = 0;
    for (; i + N <= outputs; i += N) {
        const vec<A, N> n = load<N>(count + i);
        store<N>(shares + i, load<N>(shares + i) / (n > 1 ? n : one));
    }
    for (; i < outputs; ++i) shares[i] /= count[i] > 1 ? count[i] : 1;
}

// What windows hand to the columns that equal them.
template <class A>
struct TieShares {
    using I = typename IntOf<sizeof(A)>::s;
    static constexpr int N = LANES<A>;
    const I *columns, *y;
    const A *share;
    A *to;

    struct State {
        vec<I, N> key;
        vec<A, N> sum;
    };
    NDPOOL_INLINE State begin(i64 i) const { return {load<N>(columns + i), vec<A, N>{}}; }
    NDPOOL_INLINE void take(State &state, i64 output, i64) const {
        const vec<A, N> none{};
        state.sum += load<N>(y + output) == state.key ? load<N>(share + output) : none;
    }
    NDPOOL_INLINE void finish(i64 i, const State &state) const { store<N>(to + i, state.sum); }
};

template <class A, bool SPLIT>
class TieMaker {
  public:
    using I = typename IntOf<sizeof(A)>::s;
    TieMaker(const Plan &plan, const TiedArrays<A> &arrays) : look(plan, arrays), arrays(arrays), made(plan) {}

    void start(const Columns<A> &columns, i64 slab) {
        look.start(columns, slab);
        made.grow(columns.column_room());
        if (columns.steps > 1) apart.grow(columns.steps * columns.apart + LANES<A>, "shares of phases");
    }
    void make(const OutputRow &seen, i64 at, i64 row) {
        const Columns<A> &columns = *look.columns;
        A *share = made.share(row);
        I *owner = made.owner(row);
        look.find_best(seen, owner);
        look.ask(at);
        A *shares = look.share + columns.border;
        arrays.floats.read(arrays.g, at, look.outputs(), shares);
        if (SPLIT) divide(shares, look.count, look.outputs());
        if (columns.along == Along::SEGMENTS) return hand_segments(share);
        const TieShares<A> from{look.phase.key, look.y, look.share, columns.steps > 1 ? apart.data() : share};
        columns.hand(columns.along == Along::PLACES ? TieShares<A>{owner, look.y, look.share, share} : from, look.taps,
                     list);
        if (columns.steps > 1) columns.join(apart.data(), share);
    }
    void sums(const InputRow &over, i64 offset, i64 from, i64 length, void *to) {
        if (look.plan.dim_count == 0 && over.count) return arrays.floats.write(made.share(0) + from, length, to);
        const I *keys = look.row_keys(offset);
        if (arrays.floats.as_they_are) return made.collect(over, from, length, keys, static_cast<A *>(to));
        cells.grow(length, "sums of a row");
        made.collect(over, from, length, keys, cells.data());
        arrays.floats.write(cells.data(), length, to);
    }

  private:
    Looker<A, SPLIT, Carried::NOTHING> look;
    const TiedArrays<A> &arrays;
    ColumnRows<A> made;
    Scratch<A> apart, cells;
    Scratch<i64> list;

    // A window's cells are stored and not added to, where no other has them: to load what was just stored, in part,
    // takes long. Where neighbours share cells, every other window is stored apart.
    void hand_segments(A *to) {
        constexpr int N = LANES<A>;
        const Columns<A> &columns = *look.columns;
        const Axis &axis = columns.axis;
        const i64 room = columns.column_room(), reach = axis.dilation * (axis.kernel - 1);
        const bool alone = axis.adaptive ? axis.length % axis.output == 0 : axis.stride > reach;
        const bool in_turns = axis.adaptive ? axis.length >= axis.output : 2 * axis.stride > reach;
        std::memset(to, 0, sizeof(A) * static_cast<std::size_t>(room));
        auto store_each = [&](i64 first, i64 step, A *at) {
            for (i64 o = first; o < columns.end; o += step)
                hand_segment(o, [&](i64 i, vec<A, N> v) NDPOOL_INLINED { store<N>(at + i, v); });
        };
        if (alone) return store_each(columns.begin, 1, to);
        if (!in_turns) {
            for (i64 o = columns.begin; o < columns.end; ++o)
                hand_segment(o, [&](i64 i, vec<A, N> v) NDPOOL_INLINED { store<N>(to + i, load<N>(to + i) + v); });
            return;
        }
        apart.grow(room, "shares of every other window");
        std::memset(apart.data(), 0, sizeof(A) * static_cast<std::size_t>(room));
        store_each(columns.begin, 2, to);
        store_each(columns.begin + 1, 2, apart.data());
        for (i64 i = 0; i + N <= room; i += N) store<N>(to + i, load<N>(to + i) + load<N>(apart.data() + i));
    }
    // Calls f(i, shares) for registers that cover the cells of a window.
    template <class F>
    NDPOOL_INLINE void hand_segment(i64 o, const F &f) const {
        constexpr int N = LANES<A>;
        const Columns<A> &columns = *look.columns;
        const vec<A, N> share = look.repeated(look.share + (o - columns.begin) * columns.inner), none{};
        look.over_segment(o, [&](i64 i, vec<I, N> equal, i64) NDPOOL_INLINED { f(i, equal ? share : none); });
    }
};

// Calls f(look, start, at, outputs) for all outputs, some of a row at a time, after their windows were asked: those
// from output `at` on, of the row whose windows start at element `start` of the slab. They are in look.count and
// look.sum.
template <class Look, class A, class F>
void over_asked(const Plan &plan, const TiedArrays<A> &arrays, const F &f) {
    const i64 outputs = plan.last().output, part = part_of_row(plan), parts = (outputs + part - 1) / part;
    parallel(plan.outer * plan.out_rows * parts, worth_threads(plan.outer * plan.in_slab), [&](i64 begin, i64 end) {
        OutputRow rows(plan);
        Look look(plan, arrays);
        for (i64 unit = begin; unit < end; ++unit) {
            // Row after row of the same part, so that what was read for one serves the next.
            const i64 slab = unit / (parts * plan.out_rows), rest = unit % (parts * plan.out_rows);
            const i64 row = rest % plan.out_rows, from = rest / plan.out_rows * part;
            const i64 to = from + part < outputs ? from + part : outputs;
            i64 first = 0, last = plan.last().length;
            if (parts > 1) Columns<A>::seen(plan.last(), from, to, &first, &last);
            const Columns<A> columns(plan, from, to, first, last);
            unit == begin || row == 0 ? rows.move_to(row) : rows.move_on(1);
            const i64 at = (slab * plan.out_rows + row) * plan.out_row + from * plan.inner;
            look.start(columns, slab);
            look.look(rows, at);
            f(look, rows.start, at, look.outputs());
        }
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
