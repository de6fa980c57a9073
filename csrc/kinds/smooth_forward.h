// The values of SmoothMax and Lp, and their changes along a tangent.
#pragma once
#include "kinds/window_sums.h"
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
    bool value;  // whether y is asked for

    void run() const {
        const TermUse use{true, t != nullptr, kind.floats_do_for_sums(plan, result)};
        over_output_parts(plan, [&](const SmoothPart &part) {
            over_terms(plan, kind, type, result, x, part, plan.axes[0].length, 0, use, [&](auto &sums) { fill(sums); });
        });
    }

  private:
    using Weigh = void(i64, double);

    template <class Sums>
    void fill(Sums &sums) const {
        using S = typename Sums::Sum;
        const OutputPart &part = sums.part;
        const i64 count = sums.count();
        // The part is contiguous.
        const i64 first = sums.terms.slab * plan.out_slab + part.row_begin * plan.out_row + part.begin * plan.inner;
        if (t) {
            const Scratch<S> out(count + 64, "changes of a part");
            sums.weigh(result, t, out.data());
            store_plane(result, dy, first, out.data(), count);
            sums.over_bad(false, [&](const OutputRow &rows, i64 slab, i64 row, i64 o, i64 e) {
                double change = 0;
                auto weigh = [&](i64 cell, double w) {
                    if (w != 0) change += w * read(result, t, cell);
                };
                kind.window(plan, type, x, slab * plan.in_slab, rows, o, e, &weigh);
                write(result, dy, (slab * plan.out_rows + row) * plan.out_row + o * plan.inner + e, change);
            });
        }
        if (!value) return;
        i64 bad = sums.bad;
        over_chunks(count, [&](i64 i, i64 some) {
            S out[CHUNK];
            bad += sums.values(i, some, out);
            store_plane(result, y, first + i, out, some);
        });
        if (bad > count / 8 && !kind.lp && sums.terms.has_plan())
            fill_by_log_sums(sums.terms, first, count);
        else if (bad)
            sums.over_bad(true, [&](const OutputRow &rows, i64 slab, i64 row, i64 o, i64 e) {
                double v = kind.window(plan, type, x, slab * plan.in_slab, rows, o, e, static_cast<Weigh *>(nullptr));
                write(result, y, (slab * plan.out_rows + row) * plan.out_row + o * plan.inner + e, v);
            });
        if (!kind.several && !kind.lp) fill_single(sums.terms);
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

    // With a scale for each window.
    template <class Terms>
    void fill_by_log_sums(const Terms &terms, i64 first, i64 count) const {
        const Scratch<double> in(terms.length() + 64, "cells of a part"), out(count + 64, "outputs of a part");
        load_plane(type, x, terms.slab * plan.in_slab + terms.low(), terms.length(), in.data());
        log_sum_all<double>(terms.own_plan(), kind.parameter, kind.count_pad, in.data(), out.data(), {});
        store_plane(result, y, first, out.data(), count);
    }
};

// y, and with a tangent dy.
inline void smooth_forward(const Plan &plan, const Smooth &kind, Type type, Type result, const void *x, void *y,
                           const void *t, void *dy, const Route &route) {
    const bool few_floats = result == Type::F32 && !kind.lp && floats_do_for(plan, kind.parameter);
    const bool log_sum = few_floats || (result == Type::F64 && !kind.lp);
    const bool own = few_floats && in_own_squares(plan, kind.parameter);
    const bool terms = !log_sum || result != Type::F64 || FUSED;
    Way way = route.asked;  // NONE: as LogSum chooses
    if (way == Way::NONE) way = own ? Way::OWN : log_sum && (suits_log_sum(plan) || !terms) ? Way::NONE : Way::TERMS;
    if (way == Way::OWN || way == Way::TERMS) {
        if (way == Way::OWN ? !own : !terms) cannot_go(way);
        if (route.tell(way)) return;
        if (way == Way::OWN)
            squares_value(plan, kind.parameter, static_cast<const float *>(x), static_cast<float *>(y), route);
    } else if (log_sum) {
        auto value = few_floats ? log_sum_all<float> : log_sum_all<double>;
        value(plan, kind.parameter, kind.count_pad, x, y, route);
        if (route.told) return;
    } else {
        cannot_go(way);
    }
    if (way == Way::TERMS || t) TermsForward{plan, kind, type, result, x, t, y, dy, way == Way::TERMS}.run();
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
