// Affine maps below and above Max, SmoothMax and Lp on a box, with a slope for each cell of each window.
//
// All numbers are doubles, one window a lane. `up(a, size, n)` is at least the number of which `a` is a computed value
// that n roundings of numbers up to `size` may have changed, and `down` is at most that. exp, log and powers are counted
// as several roundings. Where a bound takes a slope, it takes the slope that was computed, so that a rounded slope costs
// tightness and never soundness. What is not finite, and what is too near the smallest doubles to be relied on, is told:
// it has no line.
#include "base/functions.h"
#include "base/scratch.h"
#include "kinds/box_lanes.h"

namespace ndpool {
namespace NDPOOL_LEVEL {
namespace {

constexpr int N = 8;
using V = vec<double, N>;

constexpr double TOO_SMALL = 0x1p-900;  // a sum of powers that may have lost some of its terms

NDPOOL_INLINE V all_of(double x) { return splat<double, N>(x); }
NDPOOL_INLINE V size(V v) { return size_of_each<N>(v); }
NDPOOL_INLINE V larger(V a, V b) { return a > b ? a : b; }
NDPOOL_INLINE V up(V a, V size, double roundings) { return a + (size * (roundings * 0x1p-52) + 0x1p-1070); }
NDPOOL_INLINE V down(V a, V size, double roundings) { return a - (size * (roundings * 0x1p-52) + 0x1p-1070); }
// v, held from `least` to `most`.
NDPOOL_INLINE V held(V v, V least, V most) {
    v = v < least ? least : v;
    return v > most ? most : v;
}
// The sign of x, as -1, 0 or 1, times a number.
NDPOOL_INLINE V signed_as(V x, V number) { return x > 0 ? number : x < 0 ? -number : V{}; }

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

// Where the maps of a group are written.
class Written {
  public:
    NDPOOL_INLINE Written(const LaneWindows &windows, const CellLines &lines, i64 row, i64 group, int from, int to)
        : windows(windows), lines(lines), row(row), start(windows.start[group]), from(from), to(to) {}

    NDPOOL_INLINE void below(i64 k, V slope) const { put(lines.below_slopes, k, slope); }
    NDPOOL_INLINE void above(i64 k, V slope) const { put(lines.above_slopes, k, slope); }
    // The biases, and whether both maps are lines.
    NDPOOL_INLINE bool biases(V below, V above, V odd) const {
        below = odd != 0 ? all_of(__builtin_nan("")) : below, above = odd != 0 ? all_of(__builtin_nan("")) : above;
        const i64 at = row * windows.windows + start;
        store_between<N>(lines.below_bias + at, below, from, to);
        store_between<N>(lines.above_bias + at, above, from, to);
        const V both = below - below + (above - above);
        for (int i = 0; i < N; ++i)
            if (!(both[i] == 0)) return false;
        return true;
    }

  private:
    const LaneWindows &windows;
    const CellLines &lines;
    const i64 row, start;
    const int from, to;

    NDPOOL_INLINE void put(double *slopes, i64 k, V slope) const {
        const i64 count = windows.windows;
        if (windows.rows_at_once == 1)
            return store_between<N>(slopes + (row * windows.taps + k) * count + start, slope, from, to);
        for (int i = from; i < to; ++i) slopes[((row + i / count) * windows.taps + k) * count + i % count] = slope[i];
    }
};

template <class T, class Kind>
bool over_rows(const LaneWindows &windows, const CellLines &lines, i64 block, i64 begin, i64 end, const Kind &kind) {
    const i64 row = windows.row_of(block), first = row * windows.cells;
    const T *lo = static_cast<const T *>(lines.lo) + first, *hi = static_cast<const T *>(lines.hi) + first;
    Cells cells(windows.taps, Kind::KEPT);
    bool all = true;
    over_groups(windows, block, begin, end, [&](i64 group, int from, int to) NDPOOL_INLINED {
        cells.gather(windows, lo, hi, group, lines.minimum);
        if (lines.at) cells.gather(2, windows, lines.at + first, group, lines.minimum ? -1 : 1);
        if (lines.weights) cells.gather(3, windows, lines.weights + first, group, 1);
        V zeros{};
        if (lines.zeros)
            for (int i = 0; i < N; ++i)
                zeros[i] = lines.zeros[(windows.start[group] + i % windows.used) % windows.windows];
        all &= kind.relax(cells, zeros, Written(windows, lines, row, group, from, to));
    });
    return all;
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

    NDPOOL_INLINE bool relax(const Cells &cells, V, const Written &written) const {
        const V below = has_weights ? mixture(cells, written) : one_cell(cells, written);
        const V bias = above(cells, larger(level_of(cells), largest(cells, 0)), written);
        const auto is_line = (below - below == 0) & (bias - bias == 0);
        return written.biases(below, bias, is_line ? V{} : all_of(1));
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
    NDPOOL_INLINE V above(const Cells &cells, V c, const Written &written) const {
        V needed = all_of(-__builtin_inf()), shift{}, lost{}, sizes{}, others = needed, leader = -needed, ones{}, some{};
        for (i64 k = 0; k < cells.taps; ++k) {
            const V lo = cells.lo(k), hi = cells.hi(k), width = hi - lo;
            V slope = width > 0 ? larger(hi - c, V{}) / width : V{};
            slope = slope > 1 ? all_of(1) : slope;
            slope = hi == hi ? slope : V{};
            written.above(k, slope);
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
    NDPOOL_INLINE V one_cell(const Cells &cells, const Written &written) const {
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
    NDPOOL_INLINE V mixture(const Cells &cells, const Written &written) const {
        V total{}, count{}, lost{};
        for (i64 k = 0; k < cells.taps; ++k) {
            const auto real = cells.hi(k) == cells.hi(k);
            total += real ? cells.at(3, k) : V{}, count += real ? all_of(1) : V{};
        }
        for (i64 k = 0; k < cells.taps; ++k) {
            const V lo = cells.lo(k), hi = cells.hi(k);
            V mixed = total > 0 ? cells.at(3, k) / total : 1 / count;
            mixed = hi == hi ? mixed : V{};
            written.below(k, mixed);
            lost += hi == hi ? mixed * larger(size(lo), size(hi)) : V{};
        }
        return down(V{}, lost, static_cast<double>(cells.taps) + 4);
    }
};

// --- SmoothMax ------------------------------------------------------------------------------------

// With e(x) = exp(beta (x - s)) and S = sum e(x_i) + zeros, y = s + log(S) / beta is convex for beta > 0. Below: the
// tangent at the centre. Above, for any r > 0: log S <= r S - 1 - log r, where e lies below its chords.
//
// Every e is off by its exponent's last places, of which t exp(-t) <= 0.37 is left; the rest is rounding.
struct Smooth {
    static constexpr int KEPT = 3;  // e at both ends and in the middle
    double beta;

    NDPOOL_INLINE bool relax(const Cells &cells, V zeros, const Written &written) const {
        const double n = static_cast<double>(cells.taps + 1), per_beta = 1 / beta;
        V s = all_of(-__builtin_inf());
        for (i64 k = 0; k < cells.taps; ++k) s = larger(cells.hi(k), s);
        s = zeros > 0 ? larger(s, V{}) : s;
        V middle = zeros > 0 ? zeros * exp_lanes<N>(-beta * s) : V{}, ends = middle;
        const V padding = middle;
        for (i64 k = 0; k < cells.taps; ++k) {
            const V lo = cells.lo(k), hi = cells.hi(k);
            const V low = e(lo, s), high = e(hi, s), mid = e(lo / 2 + hi / 2, s);
            cells.set(2, k, low), cells.set(3, k, high), cells.set(4, k, mid);
            middle += mid, ends += low / 2 + high / 2;
        }
        const V r = 1 / ends, per_middle = 1 / middle, log_middle = log_lanes<N>(middle), log_r = log_lanes<N>(r);
        const V scale = r * per_beta;
        V centre{}, centre_size{}, widths{}, above{}, above_size{};
        for (i64 k = 0; k < cells.taps; ++k) {
            const auto real = cells.hi(k) == cells.hi(k);
            const V lo = real ? cells.lo(k) : V{}, hi = real ? cells.hi(k) : V{}, width = hi - lo;
            const V mid = lo / 2 + hi / 2, slope = cells.at(4, k) * per_middle;
            written.below(k, slope);
            centre += slope * mid, centre_size += slope * size(mid), widths += width;
            const V low = cells.at(2, k), high = cells.at(3, k);
            V chord = width > 0 ? (high - low) / width : V{};
            chord = scale * held(chord, beta * low, beta * high);
            written.above(k, chord);
            above += larger(scale * low - chord * lo, scale * high - chord * hi);
            above_size += (real ? scale * (low + high + 1) : V{}) + chord * larger(size(lo), size(hi));
        }
        const V y = s + log_middle * per_beta;
        const V below_size = size(s) + (size(log_middle) + n) * per_beta + centre_size + widths;
        const V bias = s + (r * padding - 1 - log_r) * per_beta + above;
        above_size += size(s) + (r * padding + 1 + size(log_r)) * per_beta;
        const auto odd = ~((middle > TOO_SMALL) & (ends > TOO_SMALL));
        return written.biases(down(y - centre, below_size, 2 * n + 18), up(bias, above_size, 2 * n + 18),
                              odd ? all_of(1) : V{});
    }
    NDPOOL_INLINE V e(V x, V s) const { return x == x ? exp_lanes<N>(beta * (x - s)) : V{}; }
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
    static constexpr int KEPT = 0;
    Powers powers;

    NDPOOL_INLINE bool relax(const Cells &cells, V, const Written &written) const {
        V most{}, middle{};
        for (i64 k = 0; k < cells.taps; ++k) {
            const V lo = cells.lo(k), hi = cells.hi(k);
            most = larger(size(lo), most), most = larger(size(hi), most);
            middle = larger(size(lo / 2 + hi / 2), middle);
        }
        const V finite = most - most;  // NaN where it is not
        below(cells, Scale(middle), written);
        V odd{};
        const V bias = above(cells, Scale(most), written, odd);
        return written.biases(finite, bias + finite, odd);
    }

  private:
    // The centre has a scale of its own, so that its powers are neither too small nor too large.
    NDPOOL_INLINE void below(const Cells &cells, const Scale &scale, const Written &written) const {
        const double p = powers.p;
        V sum{};
        for (i64 k = 0; k < cells.taps; ++k) {
            const V x = size(centre(cells, k) * scale.inverse);
            sum += x * powers.less_one(x);
        }
        const V norm = powers.root(sum), per_norm = sum > TOO_SMALL ? 1 / norm : V{};
        // So that the dual norm is at most 1 after all roundings.
        const double shrunk = 1 - (static_cast<double>(cells.taps) + 16) * (1 + p) * 0x1p-50;
        for (i64 k = 0; k < cells.taps; ++k) {
            const V m = centre(cells, k) * scale.inverse;
            if (p == 1)
                written.below(k, signed_as(m, all_of(1)));
            else
                written.below(k, signed_as(m, powers.less_one(size(m) * per_norm) * shrunk));
        }
    }
    NDPOOL_INLINE V centre(const Cells &cells, i64 k) const {
        const V m = cells.lo(k) / 2 + cells.hi(k) / 2;
        return m == m ? m : V{};
    }

    // S^(1/p) <= h + r S for any r > 0, with h = (1 - 1/p) (r p)^(1/(1-p)), and S = sum |x_i|^p.
    NDPOOL_INLINE V above(const Cells &cells, const Scale &scale, const Written &written, V &odd) const {
        const double p = powers.p, n = static_cast<double>(cells.taps), lost = powers.whole ? 0 : 1;
        V middle{};
        for (i64 k = 0; k < cells.taps; ++k) {
            const End lo(cells.lo(k), scale, powers), hi(cells.hi(k), scale, powers);
            middle += lo.power / 2 + hi.power / 2;
        }
        V r = all_of(1), h{};
        if (powers.whole == 2) {
            r = 1 / (2 * sqrt_lanes<N>(middle)), h = 1 / (4 * r);
        } else if (p > 1) {
            r = pow_lanes<N>(middle, 1 / p - 1) / p, h = (1 - 1 / p) * pow_lanes<N>(r * p, 1 / (1 - p));
        }
        const auto none = middle == 0;
        r = none ? all_of(1 / p) : r, h = none ? V{} : h;
        V total{}, total_size = size(h) * (1 + p), steep{};
        for (i64 k = 0; k < cells.taps; ++k) {
            const auto real = cells.hi(k) == cells.hi(k);
            const End lo(cells.lo(k), scale, powers), hi(cells.hi(k), scale, powers);
            const V width = hi.x - lo.x, least = signed_as(lo.x, p * lo.less_one);
            V chord = width > 0 ? (hi.power - lo.power) / width : least;
            chord = r * held(chord, least, signed_as(hi.x, p * hi.less_one));
            written.above(k, chord);
            total += larger(r * lo.power - chord * lo.x, r * hi.power - chord * hi.x);
            total_size += r * (lo.power + hi.power) * (1 + p) + size(chord) * larger(size(lo.x), size(hi.x));
            steep += real ? size(chord) + r * p : V{};
            total_size += real ? r * lost : V{};
        }
        odd = none | (middle > TOO_SMALL) ? V{} : all_of(1);
        V bias = none ? V{} : up(h + total, total_size, n + 16);
        // The smallest doubles lose some of themselves where they are scaled, each with its slope.
        bias = up(bias, steep * 0x1p-50, 1);
        return up(bias * scale.value, size(bias) * scale.value, 1);
    }

    // An end of a cell, scaled, and its powers; all are 0 where there is no cell.
    struct End {
        V x, less_one, power;
        NDPOOL_INLINE End(V end, const Scale &scale, const Powers &powers) {
            x = end == end ? end * scale.inverse : V{};
            less_one = powers.less_one(size(x));
            power = size(x) * less_one;
        }
    };
};

}  // namespace

bool smooth_lines(Type type, const LaneWindows &windows, const CellLines &lines, i64 block, i64 from, i64 to) {
    return over_rows(type, windows, lines, block, from, to, Smooth{lines.parameter});
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
