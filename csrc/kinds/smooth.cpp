// SmoothMax and Lp.
#include "kinds/smooth.h"

#include "kinds/families.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

void run_smooth(const Plan &plan, const Call &call, const Route &route) {
    const Smooth smooth(plan, call.lp, call.parameter, call.count_pad);
    if (call.op == Op::SMOOTH)
        smooth_forward(plan, smooth, call.type, call.derivative, call.x, call.y, call.t, call.dy, route);
    else
        smooth_vjp(plan, smooth, call.type, call.derivative, call.x, call.g, call.gx, route);
}

// Everything that the level can do.
void run(const Plan &plan, const Call &call) {
    const Route route{call.asked, call.past_the_caches, call.told};
    switch (call.op) {
        case Op::SUM:
        case Op::SUM_VJP: return run_linear(plan, call, route);
        case Op::SMOOTH:
        case Op::SMOOTH_VJP: return run_smooth(plan, call, route);
        default: return run_selection(plan, call, route);
    }
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
