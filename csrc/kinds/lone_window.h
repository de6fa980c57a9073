// A window of SmoothMax or Lp that is computed by itself.
#pragma once
#include "kinds/norms.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Doubles, and what their sum has lost.
struct CarefulSum {
    double sum = 0, lost = 0;
    void add(double v) {
        const double next = sum + v, part = next - sum;
        lost += (sum - (next - part)) + (v - part);
        sum = next;
    }
    double total() const { return lost - lost == 0 ? sum + lost : sum; }
};

class LoneWindow {
  public:
    // Output (o, e) of a row; it may be only asked about its best cell.
    LoneWindow(const Plan &plan, const Smooth &kind, Type type, const void *x, i64 slab_start, const OutputRow &rows,
               i64 o, i64 e, bool best_alone = false)
        : kind(kind),
          type(type),
          x(x),
          rows(rows),
          taps(plan.last().taps(o)),
          step(plan.last().dilation * plan.inner),
          first(slab_start + taps.first * plan.inner + e),
          zeros(static_cast<double>(
              kind.count_pad && !kind.lp ? rows.counted * plan.last().counted(o) - rows.real * taps.count : 0)),
          sign(kind.lp || kind.parameter > 0 ? 1 : -1) {
        find_best();
        if (best_alone) return;
        if (is_plain())
            add_up();
        else
            total = odd_sum();
    }

    double value() const {
        if (kind.lp && best == 0) return 0;
        if (!is_plain()) return odd_value(total);
        double y = 0;
        with_value<double>(kind, scale, [&](const auto &value) { y = value(all(total))[0]; });
        return y - y == 0 ? y : odd_value(odd_sum());  // the largest number may be one rounding away
    }

    // The change along a tangent.
    double change(Type tangent_type, const void *t) const {
        CarefulSum sum;
        weigh(1, [&](i64 cell, double weight, double) {
            if (weight == 0) return;
            const double product = weight * read(tangent_type, t, cell);
            sum.add(kind.narrow && is_plain() ? to_float_bits<N>(all(product))[0] : product);
        });
        return is_plain() ? share_of(sum.total()) : sum.total();
    }

    // Calls f(cell, weight, share) for all cells: what they get of g is a product of both. Of a plain window, weights
    // are the same as those of any other but for a power of 2.
    template <class F>
    void weigh(double g, const F &f) const {
        if (kind.lp && best == 0) return;
        if (!is_plain()) return weigh_oddly(g, f);
        const double share = share_of(g);
        over_plain([&](i64 cell, double term, double slope) { f(cell, kind.lp ? slope : term, share); });
    }
    // Whether no cell is so large, or so far beyond all numbers, that no power of 2 would bring the terms into range.
    bool is_plain() const {
        const double exponent = best * kind.parameter * PER_LOG_2 * sign;
        return best - best == 0 && !kind.is_extreme() && (kind.lp || (exponent < most() && exponent > -most()));
    }

    // The largest key of a cell: its size, or the cell itself with the sign of beta. And the scale that follows from
    // it.
    double best_key() const { return best; }
    static TermScale scale_by(const Smooth &kind, double key) {
        return kind.scale_of_best<double>(kind.lp || kind.parameter > 0 ? key : -key, most_of(kind));
    }

  private:
    static constexpr int N = LANES<double>;
    const Smooth &kind;
    const Type type;
    const void *const x;
    const OutputRow &rows;
    const Axis::Taps taps;
    const i64 step, first;
    const double zeros;  // padded cells that count
    const double sign;
    double best = 0, total = 0;  // the largest cell, or size; infinite where there is none, and NaN beside a NaN
    TermScale scale;

    static double most_of(const Smooth &kind) { return 0.9 * kind.limit(); }
    double most() const { return most_of(kind); }
    static vec<double, N> all(double v) { return splat<double, N>(v); }
    static double exp1(double v) { return exp_lanes<N>(all(v))[0]; }
    static double log1(double v) { return log_lanes<N>(all(v))[0]; }
    static double pow1(double v, double p) { return p == 0 ? 1 : p == 1 ? v : pow_lanes<N>(all(v), p)[0]; }

    template <class F>
    void over(const F &seen) const {
        for (i64 r = 0; r < rows.count; ++r)
            for (i64 k = 0; k < taps.count; ++k) {
                const i64 cell = first + rows.offset[r] + k * step;
                seen(cell, read(type, x, cell));
            }
    }
    void find_best() {
        best = zeros > 0 ? 0.0 : -__builtin_inf();
        bool nan = false;
        over([&](i64, double v) {
            const double key = kind.lp ? (v < 0 ? -v : v) : sign * v;
            if (key > best) best = key;
            nan |= v != v;
        });
        if (nan) best = __builtin_nan("");
    }

    // --- as all others ---

    // Calls f(cell, term, slope) for all cells, some of which are computed together.
    template <class F>
    void over_plain(const F &f) const {
        constexpr int MOST = 8 * N;
        double v[MOST], term[MOST + N], slope[MOST + N];
        i64 cells[MOST];
        int many = 0;
        auto compute = [&] {
            kind.terms(v, many, scale, term, kind.lp ? slope : nullptr);
            for (int i = 0; i < many; ++i) f(cells[i], term[i], kind.lp ? slope[i] : 0);
            many = 0;
        };
        over([&](i64 cell, double own) {
            cells[many] = cell, v[many] = own;
            if (++many == MOST) compute();
        });
        compute();
    }
    void add_up() {
        scale = scale_by(kind, best);
        CarefulSum sum;
        over_plain([&](i64, double term, double) { sum.add(term); });
        total = sum.total();
        if (zeros == 0) return;
        if (kind.narrow) total = to_float_bits<N>(all(total))[0];
        total += zeros * power_of_two<N>(all(-scale.term))[0];
    }
    double share_of(double v) const {
        double share = 0;
        with_share<double>(kind, scale, [&](const auto &of) { share = of(all(v), all(total))[0]; });
        return share;
    }

    // --- by distances from the best ---

    // Equal infinities cancel.
    double odd_term(double v) const {
        const double scale = sign * best;
        if (kind.lp) {
            const double size = v < 0 ? -v : v;
            return size == scale ? 1.0 : size / scale;
        }
        return v == scale ? 1.0 : exp1(kind.parameter * (v - scale));
    }
    double odd_sum() const {
        if (best != best) return best;
        double sum = zeros > 0 ? zeros * odd_term(0.0) : 0.0;
        over([&](i64, double v) { sum += kind.lp ? pow1(odd_term(v), kind.parameter) : odd_term(v); });
        return sum;
    }
    double odd_value(double sum) const {
        if (sum != sum) return sum;
        const double scale = sign * best;
        return kind.lp ? scale * pow1(sum, 1 / kind.parameter) : scale + log1(sum) / kind.parameter;
    }
    template <class F>
    void weigh_oddly(double g, const F &f) const {
        const double p = kind.parameter, norm = kind.lp && total == total ? pow1(total, 1 / p) : total;
        over([&](i64 cell, double v) {
            double w = odd_term(v) / norm;
            if (kind.lp) w = (v > 0 ? 1.0 : v < 0 ? -1.0 : v == 0 ? 0.0 : v) * pow1(w, p - 1);
            f(cell, w, g);
        });
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
