// The ends of boxes: whether they are in order, what they become when they are rounded outward, and the cells that lead
// a window. Compiled without fused products, so that every level gives the same bits.
#include "kinds/box_lanes.h"

namespace ndpool {
namespace NDPOOL_LEVEL {
namespace {

// What cells of a type are compared in.
template <class T>
struct ComparedAs {
    using type = T;
};
template <>
struct ComparedAs<Half> {
    using type = float;
};
template <>
struct ComparedAs<BFloat> {
    using type = float;
};
template <class T>
using compared_as = typename ComparedAs<T>::type;

template <class A, int N, class T>
NDPOOL_INLINE vec<A, N> load_part(const T *p, int count) {
    if (count == N) return load_as<A, N>(p);
    T few[N];
    for (int i = 0; i < N; ++i) few[i] = p[i < count ? i : 0];
    return load_as<A, N>(few);
}
template <int N, class T, class V>
NDPOOL_INLINE void store_part(T *p, V v, int count) {
    if (count == N) return store_as<N>(p, v);
    T few[N];
    store_as<N>(few, v);
    for (int i = 0; i < count; ++i) p[i] = few[i];
}

// Calls f(position, count) for neighbours of N that cover 0..length-1, each cell once.
template <int N, class F>
NDPOOL_INLINE void each_part(i64 length, const F &f) {
    i64 i = 0;
    for (; i + N <= length; i += N) f(i, N);
    if (i < length) f(i, static_cast<int>(length - i));
}

template <int N, class V>
NDPOOL_INLINE bool any_lane(V mask) {
    typename IntOf<sizeof(mask[0])>::s any = 0;
    for (int i = 0; i < N; ++i) any |= mask[i];
    return any != 0;
}

template <class T>
BoxCheck checked(const T *lo, const T *hi, i64 count, bool wants_largest) {
    using A = compared_as<T>;
    constexpr int N = LANES<A>;
    using V = vec<A, N>;
    using Mask = decltype(V{} <= V{});
    Mask wrong{};
    if (!wants_largest || !std::is_floating_point_v<A>) {
        each_part<N>(count, [&](i64 i, int some) NDPOOL_INLINED {
            wrong |= ~(load_part<A, N>(lo + i, some) <= load_part<A, N>(hi + i, some));
        });
        return {!any_lane<N>(wrong), 0};
    }
    V lowest{}, highest{};
    each_part<N>(count, [&](i64 i, int some) NDPOOL_INLINED {
        const V a = load_part<A, N>(lo + i, some), b = load_part<A, N>(hi + i, some);
        wrong |= ~(a <= b);
        lowest = a < lowest ? a : lowest;
        highest = b > highest ? b : highest;
    });
    A largest = 0;
    for (int i = 0; i < N; ++i) {
        largest = -lowest[i] > largest ? -lowest[i] : largest;
        largest = highest[i] > largest ? highest[i] : largest;
    }
    return {!any_lane<N>(wrong), static_cast<double>(largest)};
}

// The least magnitude of a cell is max(lo, -hi, 0), and the largest max(-lo, hi).
template <class T>
void magnitudes_of(const T *lo, const T *hi, T *least, T *largest, i64 count) {
    using A = compared_as<T>;
    constexpr int N = LANES<A>;
    using V = vec<A, N>;
    each_part<N>(count, [&](i64 i, int some) NDPOOL_INLINED {
        const V a = load_part<A, N>(lo + i, some), b = load_part<A, N>(hi + i, some);
        if (least) {
            V v = a > -b ? a : -b;
            v = v > 0 ? v : V{};
            store_part<N>(least + i, v, some);
        }
        store_part<N>(largest + i, b > -a ? b : -a, some);
    });
}

// The results are moved in the type that they are computed in, floats of 16 bits in 32.
template <class T>
bool moved(T *y, const T *sizes, i64 count, const Outward &error) {
    using A = compared_as<T>;
    constexpr int N = LANES<A>;
    using V = vec<A, N>;
    const V relative = splat<A, N>(static_cast<A>(error.relative)),
            absolute = splat<A, N>(static_cast<A>(error.absolute));
    decltype(V{} == V{}) all = V{} == V{};
    each_part<N>(count, [&](i64 i, int some) NDPOOL_INLINED {
        V v = load_part<A, N>(y + i, some);
        all &= v - v == 0;
        V move = size_of_each<N>(v) * relative;
        if (sizes) {
            const auto size = load_part<double, N>(sizes + i, some);
            move += convert<A, N>((size * error.per_size + error.floor) * error.counted + error.least);
        } else {
            move += absolute;
        }
        v = error.up ? v + move : v - move;
        if (error.from_zero) v = v > 0 ? v : V{};
        store_part<N>(y + i, v, some);
    });
    return !any_lane<N>(~all);
}

// --- the cells that lead --------------------------------------------------------------------------

// Of each window: the largest hi with its place and its lo, the second largest hi, the largest lo, and the place of the
// cell below.
template <class T, int N>
struct Leaders {
    using V = vec<T, N>;
    using P = vec<typename IntOf<sizeof(T)>::u, N>;
    V h1, h2, lo1, largest_lo, chosen;
    P above, below;

    NDPOOL_INLINE explicit Leaders(P first_place) : above(first_place), below(first_place) {
        h1 = h2 = lo1 = largest_lo = chosen = splat<T, N>(-static_cast<T>(__builtin_inf()));
    }
    // A midpoint of both infinities is NaN, which beats every number as it does in a maximum.
    NDPOOL_INLINE void see(V lo, V hi, P here, bool by_lo) {
        const auto leads = hi > h1;
        const V lesser = leads ? h1 : hi;
        h2 = lesser > h2 ? lesser : h2;
        h1 = leads ? hi : h1;
        lo1 = leads ? lo : lo1;
        above = leads ? here : above;
        largest_lo = lo > largest_lo ? lo : largest_lo;
        const V value = by_lo ? lo : lo + hi;
        const auto better = ~(value <= chosen) & (chosen == chosen);
        chosen = better ? value : chosen;
        below = better ? here : below;
    }
    // All lanes are parts of one window: lane 0 becomes the whole. Of equal cells the first one leads.
    NDPOOL_INLINE void join() {
        for (int i = 1; i < N; ++i) {
            const bool leads = h1[i] > h1[0] || (h1[i] == h1[0] && above[i] < above[0]);
            const T lesser = leads ? h1[0] : h1[i], rest = h2[i] > h2[0] ? h2[i] : h2[0];
            h2[0] = lesser > rest ? lesser : rest;
            if (leads) h1[0] = h1[i], lo1[0] = lo1[i], above[0] = above[i];
            largest_lo[0] = largest_lo[i] > largest_lo[0] ? largest_lo[i] : largest_lo[0];
            const bool is_nan = chosen[i] != chosen[i], was_nan = chosen[0] != chosen[0];
            const bool ties = is_nan == was_nan && (is_nan || chosen[i] == chosen[0]);
            if (ties ? below[i] < below[0] : is_nan || chosen[i] > chosen[0])
                chosen[0] = chosen[i], below[0] = below[i];
        }
    }
};

// The slope a of the cell with the largest hi, and the bias. For any a from 0 to 1 the least bias is the larger of
// (1 - a) h1, for that cell, and h2 - a lo1, for the others. With a = (h1 - c) / (h1 - lo1) both are c - a lo1, but for
// what the roundings of a change: a last place or two of the larger of |h1| and |lo1|, between which c lies.
template <class T, int N>
NDPOOL_INLINE void line_above(const Leaders<T, N> &found, vec<T, N> &slope, vec<T, N> &bias) {
    using V = vec<T, N>;
    constexpr T EPSILON = sizeof(T) == 4 ? static_cast<T>(0x1p-23) : static_cast<T>(0x1p-52);
    constexpr T TINY = sizeof(T) == 4 ? static_cast<T>(0x1p-126) : static_cast<T>(0x1p-1022);
    const V c = found.h2 > found.largest_lo ? found.h2 : found.largest_lo, width = found.h1 - found.lo1;
    slope = (found.h1 - c) / width;
    const V size = found.h1 > -found.lo1 ? found.h1 : -found.lo1;
    bias = (c - slope * found.lo1) + (size * (16 * EPSILON) + TINY);
    // One cell that leads everywhere is the maximum itself. What is not finite, or wider than any finite number, has no
    // line, but a constant.
    const auto leads = found.h2 <= found.lo1;
    slope = leads ? splat<T, N>(1) : slope;
    bias = leads ? V{} : bias;
    const auto is_line = (bias - bias == 0) & (leads | (width - width == 0));
    slope = is_line ? slope : V{};
    bias = is_line ? bias : found.h1;
}

template <int N, class P>
NDPOOL_INLINE void store_places(void *to, int bytes, i64 at, P places, int from, int end) {
    switch (bytes) {
        case 1:
            return store_between<N>(static_cast<std::uint8_t *>(to) + at, convert<std::uint8_t, N>(places), from, end);
        case 2:
            return store_between<N>(static_cast<std::uint16_t *>(to) + at, convert<std::uint16_t, N>(places), from,
                                    end);
        default:
            return store_between<N>(static_cast<std::uint32_t *>(to) + at, convert<std::uint32_t, N>(places), from,
                                    end);
    }
}

// A minimum is a maximum of the negated box, whose ends change places.
template <class T, bool MINIMUM>
class Selection {
  public:
    Selection(const LaneWindows &windows, const SelectLines &lines, i64 block)
        : windows(windows), lines(lines), row(windows.row_of(block)) {}

    // One window a lane.
    void by_groups(i64 block, i64 begin, i64 end) const {
        const T *lo = row_of(lines.lo, row), *hi = row_of(lines.hi, row);
        constexpr int EACH = 64 / sizeof(T) / N;
        const i64 repeated = windows.repeated(block);
        for (i64 i = begin * EACH; i < end * EACH; ++i) {
            const Part part = part_of<N, EACH>(windows, repeated, i);
            if (part.from >= part.to) continue;
            const Tap *tap = windows.tap + part.group * windows.taps;
            Leaders<T, N> found(convert<U, N>(load<N>(windows.first_place + part.group * windows.lanes + part.offset)));
            for (i64 k = 0; k < windows.taps; ++k)
                see(found, cells_at<T, N>(lo, tap[k], windows.scattered, part.offset, NONE),
                    cells_at<T, N>(hi, tap[k], windows.scattered, part.offset, NONE), splat<U, N>(static_cast<U>(k)));
            write(found, row * windows.windows + windows.start[part.group] + part.offset, part.from, part.to);
        }
    }

    // One window at a time, its cells in lanes.
    void by_runs(i64 block) const {
        const i64 repeated = windows.repeated(block) / windows.windows;
        for (i64 r = row + repeated; r < row + windows.rows_at_once; ++r) {
            const T *lo = row_of(lines.lo, r), *hi = row_of(lines.hi, r);
            for (i64 w = 0; w < windows.windows; ++w) {
                const Run *run = windows.runs + windows.run_start[w], *end = windows.runs + windows.run_start[w + 1];
                const i64 first_place = run < end ? run->place : 0;
                Leaders<T, N> found(splat<U, N>(static_cast<U>(first_place)));
                for (; run < end; ++run) see_run(found, lo + run->first, hi + run->first, *run);
                found.join();
                write(found, r * windows.windows + w, 0, 1);
            }
        }
    }

  private:
    static constexpr int N = LANES<T>;
    static constexpr T NONE = (MINIMUM ? 1 : -1) * static_cast<T>(__builtin_inf());
    using V = vec<T, N>;
    using U = typename IntOf<sizeof(T)>::u;
    const LaneWindows &windows;
    const SelectLines &lines;
    const i64 row;

    NDPOOL_INLINE const T *row_of(const void *ends, i64 r) const {
        return static_cast<const T *>(ends) + r * windows.cells;
    }
    NDPOOL_INLINE void see(Leaders<T, N> &found, V lo, V hi, vec<U, N> place) const {
        if constexpr (MINIMUM)
            found.see(-hi, -lo, place, lines.by_lo);
        else
            found.see(lo, hi, place, lines.by_lo);
    }
    NDPOOL_INLINE void see_run(Leaders<T, N> &found, const T *lo, const T *hi, const Run &run) const {
        vec<U, N> place;
        for (int i = 0; i < N; ++i) place[i] = static_cast<U>(run.place + i);
        i64 i = 0;
        for (; i + N <= run.count; i += N, place += static_cast<U>(N))
            see(found, load<N>(lo + i), load<N>(hi + i), place);
        if (i == run.count) return;
        V a = splat<T, N>(NONE), b = a;
        for (int j = 0; i + j < run.count; ++j) a[j] = lo[i + j], b[j] = hi[i + j];
        see(found, a, b, place);
    }
    NDPOOL_INLINE void write(const Leaders<T, N> &found, i64 at, int from, int to) const {
        V slope{}, bias = found.h1;
        if (!lines.constant) line_above<T, N>(found, slope, bias);
        store_between<N>(static_cast<T *>(lines.slope) + at, slope, from, to);
        store_between<N>(static_cast<T *>(lines.bias) + at, bias, from, to);
        store_places<N>(lines.below, lines.place_bytes, at, found.below, from, to);
        store_places<N>(lines.above, lines.place_bytes, at, found.above, from, to);
    }
};

template <class T, bool MINIMUM>
void select(const LaneWindows &windows, const SelectLines &lines, i64 block, i64 from, i64 to) {
    const Selection<T, MINIMUM> selection(windows, lines, block);
    if (windows.runs)
        selection.by_runs(block);
    else
        selection.by_groups(block, from, to);
}

}  // namespace

BoxCheck check_box(Type type, const void *lo, const void *hi, i64 count, bool wants_largest) {
#define NDPOOL_CASE(NAME, T) \
    case Type::NAME: return checked(static_cast<const T *>(lo), static_cast<const T *>(hi), count, wants_largest);
    switch (type) {
        NDPOOL_FLOATS(NDPOOL_CASE)
        NDPOOL_INTEGERS(NDPOOL_CASE)
    }
#undef NDPOOL_CASE
    return {false, 0};
}

void magnitudes(Type type, const void *lo, const void *hi, void *least, void *largest, i64 count) {
#define NDPOOL_CASE(NAME, T)                                                                                  \
    case Type::NAME:                                                                                          \
        return magnitudes_of(static_cast<const T *>(lo), static_cast<const T *>(hi), static_cast<T *>(least), \
                             static_cast<T *>(largest), count);
    switch (type) {
        NDPOOL_FLOATS(NDPOOL_CASE)
        default: return;
    }
#undef NDPOOL_CASE
}

bool move_outward(Type type, void *y, const void *sizes, i64 count, const Outward &error) {
#define NDPOOL_CASE(NAME, T) \
    case Type::NAME: return moved(static_cast<T *>(y), static_cast<const T *>(sizes), count, error);
    switch (type) {
        NDPOOL_FLOATS(NDPOOL_CASE)
        default: return true;
    }
#undef NDPOOL_CASE
}

void select_lines(Type type, const LaneWindows &windows, const SelectLines &lines, i64 block, i64 from, i64 to) {
    const auto of_floats = lines.minimum ? select<float, true> : select<float, false>;
    const auto of_doubles = lines.minimum ? select<double, true> : select<double, false>;
    (type == Type::F32 ? of_floats : of_doubles)(windows, lines, block, from, to);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
