// The transpose of a sum in steps of one, which is a sum itself: a cell gets what the outputs over it hand on, and
// these are a window of outputs that moves by one output from cell to cell.
//
//     cells     0   1   2   3   4          windows of 3:  output o sees the cells o, o + 1, o + 2
//     outputs   0   1   2                                 cell c gets the outputs c - 2, c - 1, c
//
// So it goes by SLIDE, one axis after the other, as the sum does.
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
// Where windows are wide, running sums take less. Where there are few windows, most of what would slide is padding.
inline bool suits_slide_back(const Plan &plan) {
    constexpr i64 WIDE = 16;
    if (3 * plan.out_slab < plan.in_slab) return false;
    for (int a = 0; a < plan.axis_count; ++a)
        if (plan.axes[a].kernel >= WIDE) return false;
    Lanes lanes = lanes_by_rows<Total<double>>();
    lanes.slides = true;
    return choose_forward(transposed(plan), lanes, Way::NONE) == Way::SLIDE;
}

// Says whether it was.
template <class G>
bool slides_back(const Plan &plan, const Divisor &divisor, const G *g, G *gx, const Route &route) {
    if (!can_slide_back<G>(plan, divisor)) return false;
    if (route.asked == Way::NONE ? !suits_slide_back(plan) : route.asked != Way::SLIDE) return false;
    if (route.tell(Way::SLIDE)) return true;
    const Plan back = transposed(plan);
    const SumSink<Total<double>, G> sink{gx, {Count::FIXED, divisor.fixed, divisor.share}};
    slide_all(back, PlainSum<G, double>{}, g, sink, streams_outputs<G>(back, sink.y, route));
    return true;
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
