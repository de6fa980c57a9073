// SmoothMax and Lp.
#include "kinds/smooth_back.h"
#include "kinds/smooth_forward.h"

#include "kinds/families.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

void run_smooth(const Plan &plan, const Call &call, const Route &route) {
    const Smooth smooth(plan, call);
    if (call.op == Op::SMOOTH)
        smooth_forward(plan, smooth, call.type, call.derivative, call.x, call.y, call.t, call.dy, route);
    else
        smooth_vjp(plan, smooth, call.type, call.derivative, call.x, call.g, call.gx, route);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
