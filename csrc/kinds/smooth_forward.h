// The values of SmoothMax and Lp, and their changes along a tangent.
#pragma once
#include "kinds/bands.h"
#include "kinds/far_windows.h"
#include "kinds/own_squares.h"
#include "kinds/whole_powers.h"
#include "plan/call.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Computes y and, with a tangent, dy, from terms.
struct TermsForward {
    const Plan &plan;
    const Smooth &kind;
    Type type, result;
    const void *x, *t;
    void *y, *dy;
    bool value;            // whether y is asked for
    bool past_the_caches;  // whether y is better written there

    void run() const {
        const TermUse use{true, t != nullptr};
        over_output_parts(plan, [&](const SmoothPart &part) {
            if (value && !t && fill_right_from_cells(part)) return;
            over_terms(plan, kind, type, x, part, plan.axes[0].length, 0, use, [&](auto &sums) { fill(sums); });
        });
    }

  private:
    // Without terms; says whether that did.
    bool fill_right_from_cells(const SmoothPart &part) const {
        if (is_float(type)) return kind.is_root_of_squares() && fill_roots(part);
        if (!WholePowers::suit(kind, type)) return false;
        const PartTerms<double> terms(plan, kind, type, x, part, plan.axes[0].length, 0, true);
        return WholePowers(terms).fill(static_cast<double *>(y), past_the_caches);
    }
    // Of Lp(2) of floats; says whether all sums were in range.
    bool fill_roots(const SmoothPart &part) const {
        PartTerms<float> terms(plan, kind, type, x, part, plan.axes[0].length, 0, false);
        if (!terms.has_plan() || plan.cells > PIECE) return false;
        const i64 from = part.slab * plan.in_slab + terms.low(),
                  to = part.slab * plan.out_slab + part.outputs.row_begin * plan.out_row +
                       part.outputs.begin * plan.inner;
        Route own;
        own.past_the_caches = past_the_caches;
        bool odd = false;
        if (kind.exact) {
            const ExactRootSink sink{{static_cast<double *>(y) + to}, &odd};
            pool_all<Tuned::NOT>(terms.own_plan(), SquareSum<double>{}, static_cast<const double *>(x) + from, sink,
                                 own);
            return !odd;
        }
        terms.guess_scale();
        auto pool = [&](auto zero) {
            using T = decltype(zero);
            const SquareSink<T> sink{{static_cast<T *>(y) + to}, terms.square_scale(),
                                     static_cast<float>(1 / terms.scale.inverse<double>()), true, &odd};
            pool_all<Tuned::ROWS>(terms.own_plan(), SquareSum<T>{}, static_cast<const T *>(x) + from, sink, own);
        };
        if (type == Type::F32)
            pool(float());
        else
            with_narrow(type == Type::BF16, pool);
        return !odd;
    }

    template <class Sums>
    void fill(Sums &sums) const {
        // The part is contiguous.
        const i64 first = sums.terms.slab * plan.out_slab + sums.start();
        const bool in_passes = can_go_in_passes(sums);
        if (in_passes || !fill_far(sums, first)) fill_near(sums, first);
        if (in_passes) fill_far(sums, first);
        sums.over_bad([&](const OutputRow &rows, i64 slab, i64 row, i64 o, i64 e) {
            const LoneWindow window(plan, kind, type, x, slab * plan.in_slab, rows, o, e);
            const i64 to = (slab * plan.out_rows + row) * plan.out_row + o * plan.inner + e;
            if (t) write(result, dy, to, window.change(result, t));
            if (value) write(result, y, to, window.value());
        });
        sums.over_nans([&](const OutputRow &, i64 slab, i64 row, i64 o, i64 e) {
            const i64 to = (slab * plan.out_rows + row) * plan.out_row + o * plan.inner + e;
            if (t) write(result, dy, to, __builtin_nan(""));
            if (value) write(result, y, to, __builtin_nan(""));
        });
        if (!value || kind.lp) return;
        if (!kind.several) fill_single(sums.terms);
        sums.over_alone([&](i64 i, double cell) { write(result, y, first + i, cell); });
    }

    // With the scale of the part.
    template <class Sums>
    void fill_near(Sums &sums, i64 first) const {
        using S = typename Sums::Sum;
        const i64 count = sums.count();
        if (t) {
            const Scratch<S> out(count + 64, "changes of a part");
            sums.weigh(result, t, out.data());
            store_plane(result, dy, first, out.data(), count);
        }
        if (value) {
            Outbox outbox;
            over_chunks(count, [&](i64 i, i64 some) {
                S out[CHUNK];
                sums.values(i, some, out);
                if (!past_the_caches) return store_plane(result, y, first + i, out, some);
                const i64 bytes = size_of(result);
                char *to = static_cast<char *>(y) + (first + i) * bytes;
                store_plane(result, outbox.room(to, some * bytes, CHUNK * bytes), 0, out, some);
            });
        }
        if constexpr (std::is_same_v<S, double>)
            if constexpr (std::is_same_v<typename Sums::Term, double>)
                if (sums.bad) can_go_in_passes(sums) ? fill_in_passes(sums, first) : fill_in_bands(sums, first);
    }

    template <class Sums>
    bool can_go_in_passes(const Sums &sums) const {
        return can_find_in_passes(kind) && !sums.unknown && !sums.terms.in_pieces;
    }
    // Values of windows whose sums are not good, if they are many: with the scale of the largest cells, and then with
    // lower and lower ones. They get a good sum.
    void fill_in_passes(WindowSums<double, double> &sums, i64 first) const {
        auto &terms = sums.terms;
        const i64 count = sums.count();
        if (!sums.are_many_bad()) return;
        const TermScale scale = terms.scale;
        terms.measure_scale();
        const double none = -1, most = MOST_PASSES * kind.pass_apart();
        const Scratch<double> values(count + 64, "outputs of a part");
        double left = terms.reach > most ? none : terms.reach;
        for (; left >= 0 && sums.are_many_bad(); left -= kind.pass_apart()) {
            WindowSums<double, double> own(terms, false);
            own.values(0, count, values.data());
            for (i64 i = 0; i < count; ++i) {
                if (sums.is_good(i) || !own.is_good(i)) continue;
                write(result, y, first + i, values.data()[i]);
                sums.sum[i] = own.sum[i], --sums.bad;
            }
            terms.scale.term -= kind.pass_apart();
        }
        terms.scale = scale;
    }

    // Each window with a scale of its own, where many need one. Says whether that was so; all sums are good then but
    // those of windows that have to be computed by themselves.
    template <class Sums>
    bool fill_far([[maybe_unused]] Sums &sums, [[maybe_unused]] i64 first) const {
        if constexpr (FarWindows::MAY_SUIT<Sums>) {
            if (!FarWindows::suit(sums) || !sums.are_many_bad()) return false;
            const FarWindows far(sums);
            const i64 count = sums.count();
            const Scratch<double> out(count + 64, "outputs of a part");
            if (t) {
                far.changes(result, t, out.data());
                store_plane(result, dy, first, out.data(), count);
            }
            far.values(out.data(), sums);
            if (value) store_plane(result, y, first, out.data(), count);
            return true;
        }
        return false;
    }

    // Outputs whose sums are not good, if they are many; they get a good one.
    void fill_in_bands(WindowSums<double, double> &sums, i64 first) const {
        auto &terms = sums.terms;
        const i64 count = sums.count();
        Bands bands(sums);
        const TermScale scale = terms.scale;
        const Scratch<double> values(count + 64, "outputs of a part"), changes(t ? count + 64 : 0, "changes of a part");
        while (16 * bands.waiting() * plan.cells > terms.length()) {
            terms.scale = bands.scale(kind);
            WindowSums<double, double> own(terms, t != nullptr);
            if (t) own.weigh(result, t, changes.data());
            if (value) own.values(0, count, values.data());
            const bool any = bands.take(own, [&](i64 i) {
                if (t) write(result, dy, first + i, changes.data()[i]);
                if (value) write(result, y, first + i, values.data()[i]);
                sums.sum[i] = own.sum[i], --sums.bad;
            });
            if (!any) break;
        }
        terms.scale = scale;
    }

    // A window of one cell is that cell: log(1) is 0 exactly.
    template <class Terms>
    void fill_single(const Terms &terms) const {
        const OutputPart &part = terms.part;
        const Axis &last = plan.last();
        const bool only_at_ends = !last.adaptive && last.dilation == 1 && last.kernel > 1;
        OutputRow rows(plan);
        for (i64 index = part.row_begin; index < part.row_end; ++index) {
            const i64 slab = terms.slab + index / plan.out_rows, row = index % plan.out_rows;
            if (index == part.row_begin || row == 0)
                rows.move_to(row);
            else
                rows.move_on(1);
            if ((kind.count_pad ? rows.counted : rows.real) != 1) continue;
            for (i64 o = part.begin; o < part.end; ++o) {
                const Axis::Taps taps = last.taps(o);
                if ((kind.count_pad ? last.counted(o) : taps.count) != 1) {
                    if (only_at_ends && o < part.end - last.kernel) o = part.end - last.kernel - 1;
                    continue;
                }
                const bool real = rows.real * taps.count == 1;
                for (i64 e = 0; e < plan.inner; ++e) {
                    const i64 to = (slab * plan.out_rows + row) * plan.out_row + o * plan.inner + e;
                    const i64 cell =
                        slab * plan.in_slab + (real ? rows.base + rows.offset[0] : 0) + taps.first * plan.inner + e;
                    write(result, y, to, real ? read(type, x, cell) : 0.0);
                }
            }
        }
    }
};

// y, and with a tangent dy.
inline void smooth_forward(const Plan &plan, const Smooth &kind, Type type, Type result, const void *x, void *y,
                           const void *t, void *dy, const Route &route) {
    const bool own = result == Type::F32 && !kind.lp && in_own_squares(plan, kind);
    const Way way = route.asked != Way::NONE ? route.asked : own ? Way::OWN : Way::TERMS;
    if (way != Way::TERMS && !(way == Way::OWN && own)) cannot_go(way);
    if (route.tell(way)) return;
    if (way == Way::OWN) squares_value(plan, kind, static_cast<const float *>(x), static_cast<float *>(y), route);
    if (way != Way::TERMS && !t) return;
    const i64 written = plan.outer * plan.out_slab * size_of(result);
    const bool streamed = route.streams(y, written, written + plan.outer * plan.in_slab * size_of(type));
    TermsForward{plan, kind, type, result, x, t, y, dy, way == Way::TERMS, streamed}.run();
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
