// Affine maps below and above Max, SmoothMax and Lp on a box, with a slope for each cell of each window.
//
// All is computed in doubles, one window a lane. `up(a, size, n)` is at least the number of which `a` is a computed
// value that n roundings of numbers up to `size` may have changed, and `down` is at most that. exp, log and powers are
// counted as several roundings. Maps are kept in the type T of the box. A bias is derived from the slopes as they are
// kept: that a slope is rounded costs tightness and never soundness. What is not finite, and what is too near the
// smallest doubles to be relied on, is told: it has no line.
#include "base/functions.h"
#include "base/scratch.h"
#include "kinds/box_lanes.h"

namespace ndpool {
namespace NDPOOL_LEVEL {
namespace {

constexpr int N = LANES<double>;
using V = vec<double, N>;

constexpr double TOO_SMALL = 0x1p-900;  // a sum of powers that may have lost some of its terms

// What a slope loses in T, of itself.
template <class T>
constexpr double SLOPE_LOSS = sizeof(T) == 4 ? 0x1p-24 : 0;

NDPOOL_INLINE V all_of(double x) { return splat<double, N>(x); }
NDPOOL_INLINE V size(V v) { return size_of_each<N>(v); }
NDPOOL_INLINE V larger(V a, V b) { return a > b ? a : b; }
NDPOOL_INLINE V up(V a, V size, double roundings) { return a + (size * (roundings * 0x1p-52) + 0x1p-1070); }
NDPOOL_INLINE V down(V a, V size, double roundings) { return a - (size * (roundings * 0x1p-52) + 0x1p-1070); }
// v, held from `least` to `most`; a NaN becomes `least`.
NDPOOL_INLINE V held(V v, V least, V most) {
    v = v > least ? v : least;
    return v < most ? v : most;
}
// 1 / width, as good as a slope in T has to be; anything where there is no width.
template <class T>
NDPOOL_INLINE V inverse(V width) {
    if constexpr (sizeof(T) == 4) return convert<double, N>(1.0f / convert<float, N>(width));
    return 1 / width;
}
// A number that is not negative, with the sign of x.
NDPOOL_INLINE V signed_as(V x, V number) {
    using U = vec<std::uint64_t, N>;
    return bits<V>(bits<U>(number) | (bits<U>(x) & (std::uint64_t(1) << 63)));
}

// Both ends of the cells of some windows, NaN where there is none, and what each kind keeps of them: some numbers a
// cell.
class Cells {
  public:
    NDPOOL_INLINE Cells(double *room, i64 taps) : taps(taps), room(room) {}
    static NDPOOL_INLINE i64 elements(i64 taps, int kept) { return taps * N * (2 + kept); }

    template <class T>
    NDPOOL_INLINE void gather(const LaneWindows &windows, const T *lo, const T *hi, const Part &part, bool minimum) {
        const Tap *tap = windows.tap + part.group * taps;
        const T none = static_cast<T>(__builtin_nan(""));
        for (i64 k = 0; k < taps; ++k) {
            const V a = convert<double, N>(cells_at<T, N>(lo, tap[k], windows.scattered, part.offset, none)),
                    b = convert<double, N>(cells_at<T, N>(hi, tap[k], windows.scattered, part.offset, none));
            if (minimum)
                set(0, k, -b), set(1, k, -a);
            else
                set(0, k, a), set(1, k, b);
        }
    }
    // One more number of each cell, 0 where there is none.
    NDPOOL_INLINE void gather(int which, const LaneWindows &windows, const double *row, const Part &part, double sign) {
        const Tap *tap = windows.tap + part.group * taps;
        for (i64 k = 0; k < taps; ++k)
            set(which, k, cells_at<double, N>(row, tap[k], windows.scattered, part.offset, 0.0) * sign);
    }
    NDPOOL_INLINE V lo(i64 k) const { return at(0, k); }
    NDPOOL_INLINE V hi(i64 k) const { return at(1, k); }
    NDPOOL_INLINE V at(int which, i64 k) const { return load<N>(room + (which * taps + k) * N); }
    NDPOOL_INLINE void set(int which, i64 k, V v) const { store<N>(room + (which * taps + k) * N, v); }

    const i64 taps;

  private:
    double *const room;
};

using Mask = decltype(V{} == V{});

// Where the maps of a group are written.
template <class T>
class Written {
  public:
    NDPOOL_INLINE Written(const LaneWindows &windows, const CellLines &lines, i64 row, const Part &part)
        : windows(windows), lines(lines), row(row), start(windows.start[part.group] + part.offset), part(part) {}

    // The slopes of the k-th cells, as they are kept.
    NDPOOL_INLINE V below(i64 k, V slope) const { return put(static_cast<T *>(lines.below_slopes), k, slope); }
    NDPOOL_INLINE V above(i64 k, V slope) const { return put(static_cast<T *>(lines.above_slopes), k, slope); }
    // The biases, which are both NaN where a map is no line; and which are lines.
    NDPOOL_INLINE Mask biases(V below, V above, Mask can_be) const {
        const auto low = outward(below, -1), high = outward(above, 1);
        const V kept = convert<double, N>(low - low + (high - high));
        const Mask both = can_be & (kept == 0);
        const V none = both ? V{} : all_of(__builtin_nan(""));
        const i64 at = row * windows.windows + start;
        store_between<N>(static_cast<T *>(lines.below_bias) + at, low + convert<T, N>(none), part.from, part.to);
        store_between<N>(static_cast<T *>(lines.above_bias) + at, high + convert<T, N>(none), part.from, part.to);
        return both;
    }

  private:
    const LaneWindows &windows;
    const CellLines &lines;
    const i64 row, start;
    const Part part;

    // A bias in T, beyond the one in doubles: more than its rounding takes is added first.
    static NDPOOL_INLINE vec<T, N> outward(V bias, double sign) {
        if constexpr (sizeof(T) == 8) return bias;
        return convert<T, N>(bias + sign * (size(bias) * 0x1p-23 + 0x1p-149));
    }
    NDPOOL_INLINE V put(T *slopes, i64 k, V slope) const {
        const auto kept = convert<T, N>(slope);
        const i64 count = windows.windows;
        if (windows.rows_at_once == 1)
            store_between<N>(slopes + (row * windows.taps + k) * count + start, kept, part.from, part.to);
        else
            scatter(slopes, k, kept);
        return convert<double, N>(kept);
    }
    // Windows of several rows.
    NDPOOL_INLINE void scatter(T *slopes, i64 k, vec<T, N> kept) const {
        T lanes[N];
        std::memcpy(lanes, &kept, sizeof kept);
        for (int i = part.from; i < part.to; ++i) {
            const i64 window = start + i, at = row + window / windows.windows;
            slopes[(at * windows.taps + k) * windows.windows + window % windows.windows] = lanes[i];
        }
    }
};

// The padded cells of the windows that count as zeros.
NDPOOL_INLINE V zeros_of(const LaneWindows &windows, const CellLines &lines, const Part &part) {
    V zeros{};
    if (!lines.zeros) return zeros;
    for (int i = 0; i < N; ++i) {
        const i64 window = windows.start[part.group] + (part.offset + i) % windows.used;
        zeros[i] = lines.zeros[window % windows.windows];
    }
    return zeros;
}

// Several parts at a time, stage by stage: what one of them waits for in a stage, the others do not.
constexpr i64 MOST_PARTS = 8, ROOM_BYTES = 24 << 10;  // of the nearest cache

template <class T, class Kind>
bool over_rows(const LaneWindows &windows, const CellLines &lines, i64 block, i64 begin, i64 end, const Kind &kind) {
    constexpr int EACH = 8 / N;  // parts of a group
    const i64 row = windows.row_of(block), first = row * windows.cells, repeated = windows.repeated(block);
    const T *lo = static_cast<const T *>(lines.lo) + first, *hi = static_cast<const T *>(lines.hi) + first;
    const i64 size = Cells::elements(windows.taps, Kind::KEPT), fit = ROOM_BYTES / (size * 8);
    const i64 most = fit < 1 ? 1 : fit < MOST_PARTS ? fit : MOST_PARTS;
    Scratch<double> room(size * most, "the cells of some windows");
    typename Kind::Sums sums[MOST_PARTS];
    Part parts[MOST_PARTS];
    Mask all = V{} == V{};
    for (i64 i = begin * EACH; i < end * EACH;) {
        i64 count = 0;
        for (; i < end * EACH && count < most; ++i) {
            parts[count] = part_of<N, EACH>(windows, repeated, i);
            count += parts[count].from < parts[count].to;
        }
        auto over_parts = [&](auto stage) NDPOOL_INLINED {
            for (i64 j = 0; j < count; ++j) stage(Cells(room.data() + j * size, windows.taps), parts[j], sums[j]);
        };
        over_parts([&](Cells cells, const Part &part, auto &) NDPOOL_INLINED {
            cells.gather(windows, lo, hi, part, lines.minimum);
            if (lines.at) cells.gather(2, windows, lines.at + first, part, lines.minimum ? -1 : 1);
            if (lines.weights) cells.gather(3, windows, lines.weights + first, part, 1);
        });
        over_parts([&](const Cells &cells, const Part &part, auto &sum)
                       NDPOOL_INLINED { kind.template look<T>(cells, zeros_of(windows, lines, part), sum); });
        over_parts([&](const Cells &cells, const Part &, auto &sum)
                       NDPOOL_INLINED { kind.template add<T>(cells, sum); });
        over_parts([&](const Cells &cells, const Part &part, auto &sum) NDPOOL_INLINED {
            all &= kind.template write<T>(cells, sum, Written<T>(windows, lines, row, part));
        });
    }
    for (int i = 0; i < N; ++i)
        if (!all[i]) return false;
    return true;
}

template <class Kind>
bool over_rows(Type type, const LaneWindows &windows, const CellLines &lines, i64 block, i64 from, i64 to,
               const Kind &kind) {
    return type == Type::F32 ? over_rows<float>(windows, lines, block, from, to, kind)
                             : over_rows<double>(windows, lines, block, from, to, kind);
}

// --- Max ------------------------------------------------------------------------------------------

// Above: c + sum of a_i (x_i - lo_i) with a_i = max(0, hi_i - c) / (hi_i - lo_i), for a c from the largest lo up.
// Below: one cell, or a mixture of weights that add up to 1.
struct Maximum {
    static constexpr int KEPT = 2;  // the point, or each cell's share of it; and the weights
    int level;                      // c is the largest hi (0), the second (1), the third (2)
    bool by_lo, has_point, has_weights;

    struct Sums {
        V c;
    };
    template <class T>
    NDPOOL_INLINE void look(const Cells &cells, V, Sums &sums) const {
        sums.c = larger(level_of(cells), largest(cells, 0));
    }
    template <class T>
    NDPOOL_INLINE void add(const Cells &, Sums &) const {}
    template <class T>
    NDPOOL_INLINE Mask write(const Cells &cells, const Sums &sums, const Written<T> &written) const {
        const V below = has_weights ? mixture(cells, written) : one_cell(cells, written);
        return written.biases(below, above(cells, sums.c, written), below == below);
    }

  private:
    static NDPOOL_INLINE V largest(const Cells &cells, int which) {
        V most = all_of(-__builtin_inf());
        for (i64 k = 0; k < cells.taps; ++k) most = larger(cells.at(which, k), most);
        return most;
    }

    NDPOOL_INLINE V level_of(const Cells &cells) const {
        if (has_point) return cells.taps <= 32 ? level_at_by_pairs(cells) : level_at_by_halves(cells);
        V h1 = all_of(-__builtin_inf()), h2 = h1, h3 = h1;
        for (i64 k = 0; k < cells.taps; ++k) {
            const V hi = cells.hi(k), v = hi == hi ? hi : all_of(-__builtin_inf());
            const V second = v > h1 ? h1 : v, third = second > h2 ? h2 : second;
            h1 = larger(v, h1), h2 = larger(second, h2), h3 = larger(third, h3);
        }
        return level == 0 ? h1 : level == 1 ? h2 : h3;
    }

    // The smallest c at which the cells above it have shares (x - lo) / (hi - lo) of at most 1 together: the largest hi
    // at which those from it up have more.
    NDPOOL_INLINE V level_at_by_pairs(const Cells &cells) const {
        shares(cells);
        V c = all_of(-__builtin_inf());
        for (i64 k = 0; k < cells.taps; ++k) {
            const V hi = cells.hi(k);
            c = ((together(cells, hi) > 1) & (hi > c)) ? hi : c;
        }
        return c;
    }
    // The same for long windows, bit by bit: doubles have the order of their bits, but for the sign.
    NDPOOL_INLINE V level_at_by_halves(const Cells &cells) const {
        using U = vec<std::uint64_t, N>;
        shares(cells);
        const U top = U{} + (std::uint64_t(1) << 63);
        U key{};
        for (int bit = 63; bit >= 0; --bit) {
            const U higher = key | (U{} + (std::uint64_t(1) << bit));
            const U raw = (higher & top) != 0 ? higher ^ top : ~higher;
            key = together(cells, bits<V>(raw)) > 1 ? higher : key;
        }
        const V c = bits<V>((key & top) != 0 ? key ^ top : ~key);
        return together(cells, c) > 1 ? c : all_of(-__builtin_inf());
    }
    NDPOOL_INLINE void shares(const Cells &cells) const {
        for (i64 k = 0; k < cells.taps; ++k) {
            const V lo = cells.lo(k), width = cells.hi(k) - lo;
            cells.set(2, k, width > 0 ? (cells.at(2, k) - lo) / width : V{});
        }
    }
    static NDPOOL_INLINE V together(const Cells &cells, V c) {
        V sum{};
        for (i64 k = 0; k < cells.taps; ++k) sum += cells.hi(k) >= c ? cells.at(2, k) : V{};
        return sum;
    }

    // For these slopes the least c is the largest hi - a (hi - lo): each cell lies below c + a (x - lo).
    template <class T>
    NDPOOL_INLINE V above(const Cells &cells, V c, const Written<T> &written) const {
        V needed = all_of(-__builtin_inf()), shift{}, lost{}, sizes{}, others = needed, leader = -needed, ones{},
          some{};
        for (i64 k = 0; k < cells.taps; ++k) {
            const V lo = cells.lo(k), hi = cells.hi(k), width = hi - lo;
            V slope = width > 0 ? larger(hi - c, V{}) / width : V{};
            slope = slope > 1 ? all_of(1) : slope;
            slope = written.above(k, hi == hi ? slope : V{});
            const auto has_slope = slope != 0, is_one = slope == 1;
            const V real_lo = hi == hi ? lo : V{}, real_hi = hi == hi ? hi : V{};
            needed = larger(has_slope ? hi - slope * width : hi, needed);
            shift += has_slope ? slope * lo : V{}, lost += has_slope ? slope * size(lo) : V{};
            sizes = larger(size(real_lo), sizes), sizes = larger(size(real_hi), sizes);
            others = larger(is_one ? others : hi, others);
            leader = (is_one & (lo < leader)) ? lo : leader;
            ones += is_one ? all_of(1) : V{}, some += has_slope ? all_of(1) : V{};
        }
        const V bias = up(needed - shift, size(needed) + lost + sizes, static_cast<double>(cells.taps) + 6);
        // One cell that leads everywhere is the maximum itself.
        return ((ones == 1) & (some == 1) & (others <= leader)) ? V{} : bias;
    }

    // A midpoint of both infinities is NaN, and leads.
    template <class T>
    NDPOOL_INLINE V one_cell(const Cells &cells, const Written<T> &written) const {
        V most = all_of(-__builtin_inf()), place = all_of(-1);
        for (i64 k = 0; k < cells.taps; ++k) {
            const V lo = cells.lo(k), hi = cells.hi(k), value = by_lo ? lo : lo / 2 + hi / 2;
            const auto better = (hi == hi) & (most == most) & (~(value <= most) | (place < 0));
            most = better ? value : most;
            place = better ? all_of(static_cast<double>(k)) : place;
        }
        for (i64 k = 0; k < cells.taps; ++k) written.below(k, place == static_cast<double>(k) ? all_of(1) : V{});
        return V{};
    }

    // max x >= sum of s_i x_i for weights s that add up to 1, and rounding is made up for. The weights are taken as parts
    // of the largest of them: their own sum may be beyond all numbers.
    template <class T>
    NDPOOL_INLINE V mixture(const Cells &cells, const Written<T> &written) const {
        V largest{}, total{}, count{}, lost{};
        for (i64 k = 0; k < cells.taps; ++k)
            largest = larger(largest, cells.hi(k) == cells.hi(k) ? cells.at(3, k) : V{});
        for (i64 k = 0; k < cells.taps; ++k) {
            const auto real = cells.hi(k) == cells.hi(k);
            total += real ? cells.at(3, k) / largest : V{}, count += real ? all_of(1) : V{};
        }
        for (i64 k = 0; k < cells.taps; ++k) {
            const V lo = cells.lo(k), hi = cells.hi(k);
            V mixed = largest > 0 ? cells.at(3, k) / largest / total : 1 / count;
            mixed = written.below(k, hi == hi ? mixed : V{});
            lost += hi == hi ? mixed * larger(size(lo), size(hi)) : V{};
        }
        return down(V{}, lost, static_cast<double>(cells.taps) + 6 + 2 * SLOPE_LOSS<T> * 0x1p52);
    }
};

// --- SmoothMax ------------------------------------------------------------------------------------

// With e(x) = exp(beta (x - s)) and S = sum e(x_i) + zeros, y = s + log(S) / beta is convex for beta > 0. Below: the
// tangent at the centre. Above, for any r > 0: log S <= r S - 1 - log r, where e lies below its chords.
//
// Half a box down from hi, e is q = exp(-beta (hi - lo) / 2) times less, and once more down to lo. Every e is off by
// its exponents' last places, of which t exp(-t) <= 0.37 is left; the rest is rounding. A slope exp(-t) / S is off by
// as many last places as t = -log(slope) - log(S) has, and the tangent by that part of slope and width. For a box of
// floats, exp and log have fewer digits: log is off by less than 2^-29 of itself, and exp by EXP_LOSS.
//
// 2^x for x <= 0, and 0 below -900 and for a NaN: a power of two in floats, times a whole one. Its polynomial is off
// by 1.7e-8 of itself, its rest by 1e-8, and three roundings to floats add less than 1e-7.
constexpr double EXP_LOSS = 1.5e-7;
NDPOOL_INLINE V exp2_for_floats(V x) {
    using U = vec<std::uint64_t, N>;
    const V least = all_of(-900), magic = all_of(0x1.8p52);
    const V a = larger(x, least), shifted = a + magic;
    const V power = convert<double, N>(exp2_mantissa<N>(convert<float, N>(a - (shifted - magic))));
    const V result = bits<V>((bits<U>(shifted) << 52) + bits<U>(power));
    return a > least ? result : V{};
}

struct Smooth {
    static constexpr int KEPT = 3;  // e at both ends and in the middle
    double beta;
    bool has_zeros;

    struct Sums {
        V s, largest, padding, middle, ends;
    };
    template <class T>
    NDPOOL_INLINE void look(const Cells &cells, V zeros, Sums &sums) const {
        V s = all_of(-__builtin_inf()), least = -s, padding{};
        for (i64 k = 0; k < cells.taps; ++k) {
            s = larger(cells.hi(k), s);
            least = cells.lo(k) < least ? cells.lo(k) : least;
        }
        sums.largest = larger(size(s), size(least));
        if (has_zeros) {
            s = zeros > 0 ? larger(s, V{}) : s;
            padding = zeros > 0 ? zeros * exp_of<T>(-beta * per_exponent<T>() * s) : V{};
        }
        sums.s = s, sums.padding = padding;
    }
    template <class T>
    NDPOOL_INLINE void add(const Cells &cells, Sums &sums) const {
        // In variables of its own, which no store can change.
        const V s = sums.s, by = all_of(beta * per_exponent<T>()), down = by * -0.5;
        V middle = sums.padding, ends = sums.padding;
        for (i64 k = 0; k < cells.taps; ++k) {
            const V lo = cells.lo(k), hi = cells.hi(k);
            const V high = exp_of<T>(by * (hi - s)), q = exp_of<T>(down * (hi - lo));
            const V mid = high * q, low = mid * q;
            cells.set(2, k, low), cells.set(3, k, high), cells.set(4, k, mid);
            middle += mid, ends += (low + high) / 2;
        }
        sums.middle = middle, sums.ends = ends;
    }
    template <class T>
    NDPOOL_INLINE Mask write(const Cells &cells, const Sums &sums, const Written<T> &written) const {
        constexpr bool FOR_FLOATS = sizeof(T) == 4;
        const double n = static_cast<double>(cells.taps + 1), per_beta = 1 / beta;
        const V by = all_of(beta);
        const double roundings = 2 * n + 20 + (FOR_FLOATS ? 0x1p25 : 0), loss = FOR_FLOATS ? EXP_LOSS : 0;
        const V s = sums.s, padding = sums.padding, middle = sums.middle, ends = sums.ends;
        const V r = 1 / ends, per_middle = 1 / middle, scale = r * per_beta;
        const V log_middle = log_lanes<N, FOR_FLOATS>(middle), log_r = -log_lanes<N, FOR_FLOATS>(ends);
        V centre{}, widths{}, leaning{}, above{}, chords{};
        for (i64 k = 0; k < cells.taps; ++k) {
            const auto real = cells.hi(k) == cells.hi(k);
            const V lo = real ? cells.lo(k) : V{}, hi = real ? cells.hi(k) : V{}, width = hi - lo;
            const V slope = written.below(k, cells.at(4, k) * per_middle);
            centre += slope * (lo / 2 + hi / 2), widths += width, leaning += slope * width;
            const V low = cells.at(2, k), high = cells.at(3, k);
            const V chord = written.above(k, scale * held((high - low) * inverse<T>(width), by * low, by * high));
            above += larger(scale * low - chord * lo, scale * high - chord * hi);
            chords += chord;
        }
        // The slopes of the tangent add up to 1 or less, and the ends of all chords to 2 / beta or less.
        const V logs = size(log_middle) + n, y = s + log_middle * per_beta;
        const V below_size = 2 * (size(s) + sums.largest) + logs * per_beta + widths + leaning * logs;
        const V bias = s + (r * padding - 1 - log_r) * per_beta + above;
        const V above_size = size(s) + (4 + size(log_r)) * per_beta + n * scale + chords * sums.largest;
        // What exp has lost of the middle, twice, and with it each slope; and what the slope has lost. Of the ends it
        // has lost three times its part, at most.
        const V below_loss = 2 * loss * per_beta + (4 * loss + SLOPE_LOSS<T>)*leaning;
        return written.biases(down(y - centre, below_size, roundings) - below_loss,
                              up(bias, above_size, roundings) + 6 * loss * per_beta,
                              (middle > TOO_SMALL) & (ends > TOO_SMALL));
    }

  private:
    // What an exponent is counted in: exp, or a power of two for floats.
    template <class T>
    static constexpr double per_exponent() {
        return sizeof(T) == 4 ? PER_LOG_2 : 1;
    }
    // 0 where there is no cell. Where one is infinite, all become so, or some, and then the sizes are infinite.
    template <class T>
    static NDPOOL_INLINE V exp_of(V x) {
        if constexpr (sizeof(T) == 4) return exp2_for_floats(x);
        return x == x ? exp_lanes<N>(x) : V{};
    }
};

// --- Lp -------------------------------------------------------------------------------------------

// |x|^(p - 1) and |x|^p, for |x| <= 4. Whole powers are products; others go through log and exp, whose exponent's last
// places leave t exp(-t) <= 0.37 of some roundings.
//
// WHOLE is p where that is 1, 2 or 3, and else 0.
template <int WHOLE>
class Powers {
  public:
    explicit Powers(double p)
        : p(p),
          factors(WHOLE                                 ? WHOLE
                  : p <= 32 && p == static_cast<int>(p) ? static_cast<int>(p)
                                                        : 0) {}
    // 0 for 0, for p = 1 too.
    NDPOOL_INLINE V less_one(V x) const {
        if constexpr (WHOLE == 1) return x > 0 ? all_of(1) : V{};
        if constexpr (WHOLE == 2) return x;
        if constexpr (WHOLE == 3) return x * x;
        if (!factors) return pow_lanes<N>(x, p - 1);
        V power = x;
        for (int i = 2; i < factors; ++i) power *= x;
        return power;
    }
    NDPOOL_INLINE V root(V x) const {
        if constexpr (WHOLE == 2) return sqrt_lanes<N>(x);
        return pow_lanes<N>(x, 1 / p);
    }
    NDPOOL_INLINE bool are_products() const { return factors != 0; }

    const double p;

  private:
    const int factors;  // 0 for p that is not whole, or too large
};

// The power of two above the numbers up to `most`, or one near it where that is none of the normal doubles; and its
// inverse. Both are exact, and so are products with them, but for the smallest doubles.
struct Scale {
    V value, inverse;

    NDPOOL_INLINE explicit Scale(V most) {
        using U = vec<std::uint64_t, N>;
        U e = (bits<U>(most) >> 52) + 1;
        e = e > 2045 ? U{} + 2045 : e;
        value = bits<V>(e << 52), inverse = bits<V>((2046 - e) << 52);
    }
};

// Below: w . x, the tangent at the centre m, for any w whose dual norm is 1 or less. Above: chords of |x|^p.
template <int WHOLE>
struct Norm {
    static constexpr int KEPT = 5;  // both ends, their powers, and the centre
    Powers<WHOLE> powers;

    struct Sums {
        V most, scale, inverse, centre, middle;
    };
    template <class T>
    NDPOOL_INLINE void look(const Cells &cells, V, Sums &sums) const {
        V most{}, middle{};
        for (i64 k = 0; k < cells.taps; ++k) {
            const V lo = cells.lo(k), hi = cells.hi(k);
            most = larger(size(lo), most), most = larger(size(hi), most);
            middle = larger(size(lo / 2 + hi / 2), middle);
        }
        const Scale ends(most), centres(middle);
        sums.most = most, sums.scale = ends.value, sums.inverse = ends.inverse;
        // The centre has a scale of its own, so that its powers are neither too small nor too large.
        for (i64 k = 0; k < cells.taps; ++k) {
            const V lo = cells.lo(k), hi = cells.hi(k), m = (lo / 2 + hi / 2) * centres.inverse;
            cells.set(6, k, m == m ? m : V{});
        }
    }
    template <class T>
    NDPOOL_INLINE void add(const Cells &cells, Sums &sums) const {
        V centre{}, middle{};
        for (i64 k = 0; k < cells.taps; ++k) {
            const V m = size(cells.at(6, k));
            centre += m * powers.less_one(m);
            middle += (end(cells, 0, k, sums.inverse) + end(cells, 1, k, sums.inverse)) / 2;
        }
        sums.centre = centre, sums.middle = middle;
    }
    template <class T>
    NDPOOL_INLINE Mask write(const Cells &cells, const Sums &sums, const Written<T> &written) const {
        below(cells, sums.centre, written);
        Mask can_be = sums.most - sums.most == 0;
        const V bias = above(cells, sums, written, can_be);
        return written.biases(V{}, bias, can_be);
    }

  private:
    template <class T>
    NDPOOL_INLINE void below(const Cells &cells, V sum, const Written<T> &written) const {
        const double p = powers.p;
        const V per_norm = sum > TOO_SMALL ? 1 / powers.root(sum) : V{};
        // So that the dual norm is at most 1 after all roundings.
        const double lost = (static_cast<double>(cells.taps) + 16) * (1 + p) * 0x1p-50 + 2 * SLOPE_LOSS<T>;
        const V shrunk = all_of(lost < 1 ? 1 - lost : 0);
        for (i64 k = 0; k < cells.taps; ++k) {
            const V m = cells.at(6, k);
            if (WHOLE == 1)
                written.below(k, signed_as(m, powers.less_one(size(m))));
            else
                written.below(k, signed_as(m, powers.less_one(size(m) * per_norm) * shrunk));
        }
    }

    // For S = sum |x_i|^p, S^(1/p) lies below its tangent where S is M, the mean of both ends: below h + r S with
    // r = M^(1/p) / (p M) and h = (1 - 1/p) M^(1/p). If the root R of M is off by a part e of itself, and r by some
    // roundings, then the h of this r is off by at most (e and these) R (1 + 1/p), which is less than is counted.
    template <class T>
    NDPOOL_INLINE V above(const Cells &cells, const Sums &sums, const Written<T> &written, Mask &can_be) const {
        const double p = powers.p, n = static_cast<double>(cells.taps), lost = powers.are_products() ? 0 : 0x1p-49;
        const V middle = sums.middle;
        const auto none = middle == 0;
        V r = all_of(1 / p), h{};
        if (p > 1) {
            const V root = powers.root(middle);
            r = none ? r : root / (p * middle), h = none ? h : (1 - 1 / p) * root;
        }
        V total{}, chords{};
        for (i64 k = 0; k < cells.taps; ++k) {
            const V lo = cells.at(2, k), hi = cells.at(3, k), low = cells.at(4, k), high = cells.at(5, k);
            const V chord = written.above(k, r * chord_of<T>(lo, hi, low, high));
            total += larger(r * low - chord * lo, r * high - chord * hi);
            chords += size(chord);
        }
        can_be &= none | (middle > TOO_SMALL);
        const V total_size = (size(h) + 2 * r * middle) * (1 + p) + chords * (sums.most * sums.inverse);
        V bias = none ? V{} : up(h + total, total_size, n + 16) + n * lost * r;
        // The smallest doubles lose some of themselves where they are scaled, each with its slope.
        bias = up(bias, (chords + n * p * r) * 0x1p-50, 1);
        return up(bias * sums.scale, size(bias) * sums.scale, 1);
    }

    // An end of the k-th cells, scaled, and |x|^p are kept; both are 0 where there is no cell. Says the latter.
    NDPOOL_INLINE V end(const Cells &cells, int which, i64 k, V inverse) const {
        const V given = cells.at(which, k), x = given == given ? given * inverse : V{};
        const V power = size(x) * powers.less_one(size(x));
        cells.set(2 + which, k, x), cells.set(4 + which, k, power);
        return power;
    }
    // The chord of |x|^p over a cell, held between its slopes at the ends. Any slope would do.
    template <class T>
    NDPOOL_INLINE V chord_of(V lo, V hi, V low, V high) const {
        if constexpr (WHOLE == 2) return lo + hi;
        const V least = signed_as(lo, powers.p * powers.less_one(size(lo)));
        return held((high - low) * inverse<T>(hi - lo), least, signed_as(hi, powers.p * powers.less_one(size(hi))));
    }
};

template <int WHOLE>
bool over_norms(Type type, const LaneWindows &windows, const CellLines &lines, i64 block, i64 from, i64 to) {
    return over_rows(type, windows, lines, block, from, to, Norm<WHOLE>{Powers<WHOLE>(lines.parameter)});
}

}  // namespace

bool smooth_lines(Type type, const LaneWindows &windows, const CellLines &lines, i64 block, i64 from, i64 to) {
    return over_rows(type, windows, lines, block, from, to, Smooth{lines.parameter, lines.zeros != nullptr});
}

bool norm_lines(Type type, const LaneWindows &windows, const CellLines &lines, i64 block, i64 from, i64 to) {
    const double p = lines.parameter;
    const auto run = p == 1 ? over_norms<1> : p == 2 ? over_norms<2> : p == 3 ? over_norms<3> : over_norms<0>;
    return run(type, windows, lines, block, from, to);
}

bool maximum_lines(Type type, const LaneWindows &windows, const CellLines &lines, i64 block, i64 from, i64 to) {
    const Maximum kind{static_cast<int>(lines.parameter), lines.by_lo, lines.at != nullptr, lines.weights != nullptr};
    return over_rows(type, windows, lines, block, from, to, kind);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
