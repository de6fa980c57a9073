// The transpose of a sum in steps of one, which is a sum itself: a cell gets what the outputs over it hand on, and
// these are a window of outputs that moves by one output from cell to cell.
//
//     cells     0   1   2   3   4          windows of 3:  output o sees the cells o, o + 1, o + 2
//     outputs   0   1   2                                 cell c gets the outputs c - 2, c - 1, c
//
// So it goes by SLIDE, one axis after the other, or by KEPT, as the sum does.
#pragma once
#include "kinds/linear.h"
#include "passes/forward.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// The windows of outputs over each cell.
inline Plan transposed(const Plan &plan) {
    Plan own = plan;
    for (int a = 0; a < plan.axis_count; ++a) {
        const Axis &axis = plan.axes[a];
        const i64 before = axis.dilation * (axis.kernel - 1) - axis.pad_lo;
        own.axes[a] = {axis.output, axis.length, axis.kernel, 1, axis.dilation, before, 0, false};
    }
    std::swap(own.in_slab, own.out_slab), std::swap(own.in_rows, own.out_rows), std::swap(own.in_row, own.out_row);
    i64 stride = own.in_row;
    for (int d = plan.dim_count - 1; d >= 0; --d) {
        Dim &dim = own.dims[d];
        std::swap(dim.in_count, dim.out_count);
        dim.in_stride = stride;
        stride *= dim.in_count;
    }
    return own;
}

// Whether a sum of G can be transposed that way, with the same bits as any other: cotangents that are all divided alike
// add up in double without a rounding, as a rule. Few of 16 bits are added up in float32, and doubles in an order of
// their own.
template <class G>
bool can_slide_back(const Plan &plan, const Divisor &divisor) {
    for (int a = 0; a < plan.axis_count; ++a)
        if (plan.axes[a].adaptive || plan.axes[a].stride > 1) return false;
    const bool in_double = sizeof(G) == 4 || (sizeof(G) == 2 && windows_over_cell(plan) > FEW_NARROW);
    return LEVEL_IS_TUNED && in_double && plan.dim_count > 0 && !divisor.varies() && divisor.by != Count::EACH;
}
// The way of the sum, if that is one of these. Where windows are wide, running sums take less. Where there are few
// windows, most of what would slide is padding.
inline Way way_in_steps_of_one(const Plan &plan) {
    constexpr i64 WIDE = 16;
    if (3 * plan.out_slab < plan.in_slab) return Way::NONE;
    for (int a = 0; a < plan.axis_count; ++a)
        if (plan.axes[a].kernel >= WIDE) return Way::NONE;
    Lanes lanes = lanes_by_rows<Total<double>>();
    lanes.slides = true;
    const Way way = choose_forward(transposed(plan), lanes, Way::NONE);
    return way == Way::SLIDE || way == Way::KEPT ? way : Way::NONE;
}

// Says whether it was.
template <class G>
bool transposes_in_steps_of_one(const Plan &plan, const Divisor &divisor, const G *g, G *gx, const Route &route) {
    if (!can_slide_back<G>(plan, divisor)) return false;
    const Way way = route.asked == Way::NONE ? way_in_steps_of_one(plan) : route.asked;
    if (way != Way::SLIDE && way != Way::KEPT) return false;
    const Plan back = transposed(plan);
    if (way == Way::KEPT) choose_forward(back, lanes_by_rows<Total<double>>(), way);  // throws where that cannot be
    if (route.tell(way)) return true;
    const SumSink<Total<double>, G> sink{gx, {Count::FIXED, divisor.fixed, divisor.share}};
    const bool streamed = streams_outputs<G>(back, sink.y, route);
    const PlainSum<G, double> sum;
    if (way == Way::SLIDE)
        slide_all(back, sum, g, sink, streamed);
    else
        pool_lanes(back, sum.lanes(), source_of(sum, g, back.outer * back.in_slab), sink, way, streamed);
    return true;
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
