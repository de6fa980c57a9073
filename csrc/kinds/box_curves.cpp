// Affine maps below and above Max, SmoothMax and Lp on a box, with a slope for each cell of each window.
//
// All is computed in doubles, one window a lane. `up(a, size, n)` is at least the number of which `a` is a computed value
// that n roundings of numbers up to `size` may have changed, and `down` is at most that. exp, log and powers are counted
// as several roundings. Slopes are kept in the type T of the box, and a bound takes them as they are kept: that a slope
// is rounded costs tightness and never soundness. What is not finite, and what is too near the smallest doubles to be
// relied on, is told: it has no line.
#include "base/functions.h"
#include "base/scratch.h"
#include "kinds/box_lanes.h"

namespace ndpool {
namespace NDPOOL_LEVEL {
namespace {

constexpr int N = 8;
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
// A number that is not negative, with the sign of x.
NDPOOL_INLINE V signed_as(V x, V number) {
    using U = vec<std::uint64_t, N>;
    return bits<V>(bits<U>(number) | (bits<U>(x) & (std::uint64_t(1) << 63)));
}

// Both ends of the cells of a group, NaN where there is none, and what each kind keeps of them: some numbers a cell.
class Cells {
  public:
    Cells(i64 taps, int kept) : taps(taps), room(taps * N * (2 + kept), "the cells of some windows") {}

    template <class T>
    NDPOOL_INLINE void gather(const LaneWindows &windows, const T *lo, const T *hi, i64 group, bool minimum) {
        const Tap *tap = windows.tap + group * taps;
        const T none = static_cast<T>(__builtin_nan(""));
        const double sign = minimum ? -1 : 1;
        for (i64 k = 0; k < taps; ++k) {
            const V a = convert<double, N>(cells_at<T, N>(lo, tap[k], windows.scattered, none)) * sign,
                    b = convert<double, N>(cells_at<T, N>(hi, tap[k], windows.scattered, none)) * sign;
            set(0, k, minimum ? b : a), set(1, k, minimum ? a : b);
        }
    }
    // One more number of each cell, 0 where there is none.
    NDPOOL_INLINE void gather(int which, const LaneWindows &windows, const double *row, i64 group, double sign) {
        const Tap *tap = windows.tap + group * taps;
        for (i64 k = 0; k < taps; ++k) set(which, k, cells_at<double, N>(row, tap[k], windows.scattered, 0.0) * sign);
    }
    NDPOOL_INLINE V lo(i64 k) const { return at(0, k); }
    NDPOOL_INLINE V hi(i64 k) const { return at(1, k); }
    NDPOOL_INLINE V at(int which, i64 k) const { return load<N>(room.data() + (which * taps + k) * N); }
    NDPOOL_INLINE void set(int which, i64 k, V v) const { store<N>(room.data() + (which * taps + k) * N, v); }

    const i64 taps;

  private:
    Scratch<double> room;
};

using Mask = decltype(V{} == V{});

// Where the maps of a group are written.
template <class T>
class Written {
  public:
    NDPOOL_INLINE Written(const LaneWindows &windows, const CellLines &lines, i64 row, i64 group, int from, int to)
        : windows(windows), lines(lines), row(row), start(windows.start[group]), from(from), to(to) {}

    // The slopes of the k-th cells, as they are kept.
    NDPOOL_INLINE V below(i64 k, V slope) const { return put(static_cast<T *>(lines.below_slopes), k, slope); }
    NDPOOL_INLINE V above(i64 k, V slope) const { return put(static_cast<T *>(lines.above_slopes), k, slope); }
    // The biases, which are both NaN where a map is no line; and which are lines.
    NDPOOL_INLINE Mask biases(V below, V above, Mask can_be) const {
        const Mask lines_both = can_be & (below - below + (above - above) == 0);
        const i64 at = row * windows.windows + start;
        store_between<N>(lines.below_bias + at, lines_both ? below : all_of(__builtin_nan("")), from, to);
        store_between<N>(lines.above_bias + at, lines_both ? above : all_of(__builtin_nan("")), from, to);
        return lines_both;
    }

  private:
    const LaneWindows &windows;
    const CellLines &lines;
    const i64 row, start;
    const int from, to;

    NDPOOL_INLINE V put(T *slopes, i64 k, V slope) const {
        const auto kept = convert<T, N>(slope);
        const i64 count = windows.windows;
        if (windows.rows_at_once == 1)
            store_between<N>(slopes + (row * windows.taps + k) * count + start, kept, from, to);
        else
            for (int i = from; i < to; ++i)
                slopes[((row + i / count) * windows.taps + k) * count + i % count] = kept[i];
        return convert<double, N>(kept);
    }
};

template <class T, class Kind>
bool over_rows(const LaneWindows &windows, const CellLines &lines, i64 block, i64 begin, i64 end, const Kind &kind) {
    const i64 row = windows.row_of(block), first = row * windows.cells;
    const T *lo = static_cast<const T *>(lines.lo) + first, *hi = static_cast<const T *>(lines.hi) + first;
    Cells cells(windows.taps, Kind::KEPT);
    Mask all = V{} == V{};
    over_groups(windows, block, begin, end, [&](i64 group, int from, int to) NDPOOL_INLINED {
        cells.gather(windows, lo, hi, group, lines.minimum);
        if (lines.at) cells.gather(2, windows, lines.at + first, group, lines.minimum ? -1 : 1);
        if (lines.weights) cells.gather(3, windows, lines.weights + first, group, 1);
        V zeros{};
        if (lines.zeros)
            for (int i = 0; i < N; ++i)
                zeros[i] = lines.zeros[(windows.start[group] + i % windows.used) % windows.windows];
        all &= kind.template relax<T>(cells, zeros, Written<T>(windows, lines, row, group, from, to));
    });
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

    template <class T>
    NDPOOL_INLINE Mask relax(const Cells &cells, V, const Written<T> &written) const {
        const V below = has_weights ? mixture(cells, written) : one_cell(cells, written);
        const V bias = above(cells, larger(level_of(cells), largest(cells, 0)), written);
        return written.biases(below, bias, below == below);
    }

  private:
    static NDPOOL_INLINE V largest(const Cells &cells, int which) {
        V most = all_of(-__builtin_inf());
        for (i64 k = 0; k < cells.taps; ++k) most = larger(cells.at(which, k), most);
        return most;
    }

    NDPOOL_INLINE V level_of(const Cells &cells) const {
        if (has_point) return cells.taps <= 32 ? level_at_by_pairs(cells) : level_at_by_halves(cells);
        V h[3];
        h[0] = h[1] = h[2] = all_of(-__builtin_inf());
        for (i64 k = 0; k < cells.taps; ++k) {
            V v = cells.hi(k);
            for (V &each : h) {
                const auto is_larger = v > each;
                const V lesser = is_larger ? each : v;
                each = is_larger ? v : each;
                v = lesser;
            }
        }
        return h[level];
    }

    // The smallest c at which the cells above it have shares (x - lo) / (hi - lo) of at most 1 together: the largest hi
    // at which those from it up have more.
    NDPOOL_INLINE V level_at_by_pairs(const Cells &cells) const {
        shares(cells);
        V c = all_of(-__builtin_inf());
        for (i64 k = 0; k < cells.taps; ++k) {
            const V hi = cells.hi(k);
            c = (together(cells, hi) > 1) & (hi > c) ? hi : c;
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
        V needed = all_of(-__builtin_inf()), shift{}, lost{}, sizes{}, others = needed, leader = -needed, ones{}, some{};
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
            leader = is_one & (lo < leader) ? lo : leader;
            ones += is_one ? all_of(1) : V{}, some += has_slope ? all_of(1) : V{};
        }
        const V bias = up(needed - shift, size(needed) + lost + sizes, static_cast<double>(cells.taps) + 6);
        // One cell that leads everywhere is the maximum itself.
        return (ones == 1) & (some == 1) & (others <= leader) ? V{} : bias;
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

    // max x >= sum of s_i x_i for weights s that add up to 1, and rounding is made up for.
    template <class T>
    NDPOOL_INLINE V mixture(const Cells &cells, const Written<T> &written) const {
        V total{}, count{}, lost{};
        for (i64 k = 0; k < cells.taps; ++k) {
            const auto real = cells.hi(k) == cells.hi(k);
            total += real ? cells.at(3, k) : V{}, count += real ? all_of(1) : V{};
        }
        for (i64 k = 0; k < cells.taps; ++k) {
            const V lo = cells.lo(k), hi = cells.hi(k);
            V mixed = total > 0 ? cells.at(3, k) / total : 1 / count;
            mixed = written.below(k, hi == hi ? mixed : V{});
            lost += hi == hi ? mixed * larger(size(lo), size(hi)) : V{};
        }
        return down(V{}, lost, static_cast<double>(cells.taps) + 4 + 2 * SLOPE_LOSS<T> * 0x1p52);
    }
};

// --- SmoothMax ------------------------------------------------------------------------------------

// With e(x) = exp(beta (x - s)) and S = sum e(x_i) + zeros, y = s + log(S) / beta is convex for beta > 0. Below: the
// tangent at the centre. Above, for any r > 0: log S <= r S - 1 - log r, where e lies below its chords.
//
// Half a box down from hi, e is q = exp(-beta (hi - lo) / 2) times less, and once more down to lo. Every e is off by its
// exponents' last places, of which t exp(-t) <= 0.37 is left; the rest is rounding. A slope exp(-t) / S is off by as many
// last places as t = -log(slope) - log(S) has, and the tangent by that part of slope and width. For a box of floats, exp
// and log have fewer digits: log is off by less than 2^-29 of itself, and exp by EXP_LOSS.
//
// exp(x) for x <= 0, and 0 below -600: a power of two in floats, times a whole one. Its polynomial is off by 1.7e-8 of
// itself, its rest by 1e-8, and three roundings to floats add less than 1e-7.
constexpr double EXP_LOSS = 1.5e-7;
NDPOOL_INLINE V exp_for_floats(V x) {
    using U = vec<std::uint64_t, N>;
    const V least = all_of(-900), magic = all_of(0x1.8p52);
    const V a = larger(x * PER_LOG_2, least), shifted = a + magic;
    const V power = convert<double, N>(exp2_of<N>(vec<float, N>{}, convert<float, N>(a - (shifted - magic)), -1.0f));
    const V result = bits<V>((bits<U>(shifted) << 52) + bits<U>(power));
    return a > least ? result : x == x ? V{} : x;
}

struct Smooth {
    static constexpr int KEPT = 3;  // e at both ends and in the middle
    double beta;
    bool has_zeros;

    template <class T>
    NDPOOL_INLINE Mask relax(const Cells &cells, V zeros, const Written<T> &written) const {
        constexpr bool FOR_FLOATS = sizeof(T) == 4;
        const double n = static_cast<double>(cells.taps + 1), per_beta = 1 / beta;
        const double roundings = 2 * n + 20 + (FOR_FLOATS ? 0x1p25 : 0), loss = FOR_FLOATS ? EXP_LOSS : 0;
        V s = all_of(-__builtin_inf());
        for (i64 k = 0; k < cells.taps; ++k) s = larger(cells.hi(k), s);
        V padding{};
        if (has_zeros) {
            s = zeros > 0 ? larger(s, V{}) : s;
            padding = zeros > 0 ? zeros * exp_of<T>(-beta * s) : V{};
        }
        V middle = padding, ends = padding;
        for (i64 k = 0; k < cells.taps; ++k) {
            const V lo = cells.lo(k), hi = cells.hi(k);
            const V top = exp_of<T>(beta * (hi - s)), q = exp_of<T>(-beta / 2 * (hi - lo));
            const V high = hi == hi ? top : V{}, mid = hi == hi ? top * q : V{}, low = hi == hi ? top * q * q : V{};
            cells.set(2, k, low), cells.set(3, k, high), cells.set(4, k, mid);
            middle += mid, ends += (low + high) / 2;
        }
        const V r = 1 / ends, per_middle = 1 / middle, scale = r * per_beta;
        const V log_middle = log_lanes<N, FOR_FLOATS>(middle), log_r = -log_lanes<N, FOR_FLOATS>(ends);
        V centre{}, centre_size{}, widths{}, leaning{}, above{}, above_size{}, above_loss = padding;
        for (i64 k = 0; k < cells.taps; ++k) {
            const auto real = cells.hi(k) == cells.hi(k);
            const V lo = real ? cells.lo(k) : V{}, hi = real ? cells.hi(k) : V{}, width = hi - lo;
            const V mid = lo / 2 + hi / 2, slope = written.below(k, cells.at(4, k) * per_middle);
            centre += slope * mid, centre_size += slope * size(mid);
            widths += width, leaning += slope * width;
            const V low = cells.at(2, k), high = cells.at(3, k);
            const V chord = written.above(k, scale * held((high - low) * inverse<T>(width), beta * low, beta * high));
            above += larger(scale * low - chord * lo, scale * high - chord * hi);
            above_size += (real ? scale * (low + high + 1) : V{}) + chord * larger(size(lo), size(hi));
            above_loss += 3 * low + high;
        }
        const V y = s + log_middle * per_beta;
        const V logs = size(log_middle) + n;
        const V below_size = size(s) + logs * per_beta + centre_size + widths + leaning * logs;
        const V bias = s + (r * padding - 1 - log_r) * per_beta + above;
        above_size += size(s) + (r * padding + 1 + size(log_r)) * per_beta;
        const V below = down(y - centre, below_size, roundings);
        // What exp has lost of the middle, twice, and with it each slope; and what the slope has lost.
        const V below_loss = 2 * loss * per_beta + (4 * loss + SLOPE_LOSS<T>) * leaning;
        return written.biases(below - below_loss, up(bias, above_size, roundings) + loss * scale * above_loss,
                              (middle > TOO_SMALL) & (ends > TOO_SMALL));
    }

  private:
    template <class T>
    static NDPOOL_INLINE V exp_of(V x) {
        if constexpr (sizeof(T) == 4) return exp_for_floats(x);
        return exp_lanes<N>(x);
    }
    // 1 / width, as good as a slope has to be; anything where there is no width.
    template <class T>
    static NDPOOL_INLINE V inverse(V width) {
        if constexpr (sizeof(T) == 4) return convert<double, N>(1.0f / convert<float, N>(width));
        return 1 / width;
    }
};

// --- Lp -------------------------------------------------------------------------------------------

// |x|^(p - 1) and |x|^p, for |x| <= 4. Whole powers are products; others go through log and exp, whose exponent's last
// places leave t exp(-t) <= 0.37 of an error that is counted as 1.
class Powers {
  public:
    explicit Powers(double p) : p(p), whole(p <= 8 && p == static_cast<int>(p) ? static_cast<int>(p) : 0) {}
    NDPOOL_INLINE V less_one(V x) const {
        if (whole == 2) return x;
        if (!whole) return pow_lanes<N>(x, p - 1);
        V power = all_of(1);
        for (int i = 1; i < whole; ++i) power *= x;
        return power;
    }
    NDPOOL_INLINE V root(V x) const { return whole == 2 ? sqrt_lanes<N>(x) : pow_lanes<N>(x, 1 / p); }

    const double p;
    const int whole;  // 0 for p that is not, or too large
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
struct Norm {
    static constexpr int KEPT = 6;
    Powers powers;

    template <class T>
    NDPOOL_INLINE Mask relax(const Cells &cells, V, const Written<T> &written) const {
        V most{}, middle{};
        for (i64 k = 0; k < cells.taps; ++k) {
            const V lo = cells.lo(k), hi = cells.hi(k);
            most = larger(size(lo), most), most = larger(size(hi), most);
            middle = larger(size(lo / 2 + hi / 2), middle);
        }
        below(cells, Scale(middle), written);
        Mask can_be = most - most == 0;
        const V bias = above(cells, Scale(most), written, can_be);
        return written.biases(V{}, bias, can_be);
    }

  private:
    // The centre has a scale of its own, so that its powers are neither too small nor too large.
    template <class T>
    NDPOOL_INLINE void below(const Cells &cells, const Scale &scale, const Written<T> &written) const {
        const double p = powers.p;
        V sum{};
        for (i64 k = 0; k < cells.taps; ++k) {
            const V lo = cells.lo(k), hi = cells.hi(k), m = (lo / 2 + hi / 2) * scale.inverse, x = m == m ? m : V{};
            cells.set(2, k, x);
            sum += size(x) * powers.less_one(size(x));
        }
        const V per_norm = sum > TOO_SMALL ? 1 / powers.root(sum) : V{};
        // So that the dual norm is at most 1 after all roundings.
        const V shrunk = all_of(1 - (static_cast<double>(cells.taps) + 16) * (1 + p) * 0x1p-50 - 2 * SLOPE_LOSS<T>);
        for (i64 k = 0; k < cells.taps; ++k) {
            const V m = cells.at(2, k);
            if (p == 1)
                written.below(k, m == 0 ? V{} : signed_as(m, all_of(1)));
            else
                written.below(k, signed_as(m, powers.less_one(size(m) * per_norm) * shrunk));
        }
    }

    // For S = sum |x_i|^p, S^(1/p) lies below its tangent where S is M, the mean of both ends: below h + r S with
    // r = M^(1/p) / (p M) and h = (1 - 1/p) M^(1/p). If the root R of M is off by a part e of itself, and r by some
    // roundings, then the h of this r is off by at most (e and these) R (1 + 1/p), which is less than is counted.
    template <class T>
    NDPOOL_INLINE V above(const Cells &cells, const Scale &scale, const Written<T> &written, Mask &can_be) const {
        const double p = powers.p, n = static_cast<double>(cells.taps), lost = powers.whole ? 0 : 1;
        V middle{};
        for (i64 k = 0; k < cells.taps; ++k)
            middle += (end(cells, 0, k, scale) + end(cells, 1, k, scale)) / 2;
        const auto none = middle == 0;
        V r = all_of(1 / p), h{};
        if (p > 1) {
            const V root = powers.root(middle);
            r = none ? r : root / (p * middle), h = none ? h : (1 - 1 / p) * root;
        }
        V total{}, total_size = size(h) * (1 + p), steep{};
        for (i64 k = 0; k < cells.taps; ++k) {
            const auto real = cells.hi(k) == cells.hi(k);
            const V lo = cells.at(2, k), hi = cells.at(3, k), low = cells.at(4, k), high = cells.at(5, k);
            const V chord = written.above(k, r * chord_of(cells, k));
            total += larger(r * low - chord * lo, r * high - chord * hi);
            total_size += r * (low + high) * (1 + p) + size(chord) * larger(size(lo), size(hi));
            steep += real ? size(chord) + r * p : V{};
            total_size += real ? r * lost : V{};
        }
        can_be &= none | (middle > TOO_SMALL);
        V bias = none ? V{} : up(h + total, total_size, n + 16);
        // The smallest doubles lose some of themselves where they are scaled, each with its slope.
        bias = up(bias, steep * 0x1p-50, 1);
        return up(bias * scale.value, size(bias) * scale.value, 1);
    }

    // An end of the k-th cells, scaled, and its powers are kept; all are 0 where there is no cell. Says |x|^p.
    NDPOOL_INLINE V end(const Cells &cells, int which, i64 k, const Scale &scale) const {
        const V given = cells.at(which, k), x = given == given ? given * scale.inverse : V{};
        const V less_one = powers.less_one(size(x)), power = size(x) * less_one;
        cells.set(2 + which, k, x), cells.set(4 + which, k, power), cells.set(6 + which, k, less_one);
        return power;
    }
    // The chord of |x|^p over a cell, held between its slopes at the ends. Any slope would do.
    NDPOOL_INLINE V chord_of(const Cells &cells, i64 k) const {
        const V lo = cells.at(2, k), hi = cells.at(3, k), width = hi - lo;
        if (powers.whole == 2) return lo + hi;
        const V least = signed_as(lo, powers.p * cells.at(6, k));
        const V chord = width > 0 ? (cells.at(5, k) - cells.at(4, k)) / width : least;
        return held(chord, least, signed_as(hi, powers.p * cells.at(7, k)));
    }
};

}  // namespace

bool smooth_lines(Type type, const LaneWindows &windows, const CellLines &lines, i64 block, i64 from, i64 to) {
    return over_rows(type, windows, lines, block, from, to, Smooth{lines.parameter, lines.zeros != nullptr});
}

bool norm_lines(Type type, const LaneWindows &windows, const CellLines &lines, i64 block, i64 from, i64 to) {
    return over_rows(type, windows, lines, block, from, to, Norm{Powers(lines.parameter)});
}

bool maximum_lines(Type type, const LaneWindows &windows, const CellLines &lines, i64 block, i64 from, i64 to) {
    const Maximum kind{static_cast<int>(lines.parameter), lines.by_lo, lines.at != nullptr, lines.weights != nullptr};
    return over_rows(type, windows, lines, block, from, to, kind);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
