// Everything that a level can do.
#include "kinds/families.h"
#include "passes/batch.h"
#include "passes/views.h"

namespace ndpool {
namespace NDPOOL_LEVEL {
namespace {

void run_family(const Plan &plan, const Call &call) {
    const Route route{call.asked, call.past_the_caches, call.told};
    switch (call.op) {
        case Op::SUM:
        case Op::SUM_VJP: return run_linear(plan, call, route);
        case Op::SMOOTH:
        case Op::SMOOTH_VJP: return run_smooth(plan, call, route);
        default: return run_selection(plan, call, route);
    }
}

void run_dense(const Plan &plan, const Call &call) {
    const bool forward = is_forward(call.op);
    const i64 bytes = size_of(call.type);
    const bool batch = call.op != Op::EXPAND &&
                       (call.asked == Way::BATCH
                            ? can_batch(plan, forward)
                            : call.asked == Way::NONE && suits_batch(plan, forward, lanes_of(static_cast<int>(bytes)),
                                                                     bytes, bytes_of_y(call)));
    if (call.asked == Way::BATCH && !batch) cannot_go(call.asked);
    if (!batch) return run_family(plan, call);
    if (call.told)
        *call.told = Way::BATCH;
    else
        run_in_batches(plan, call, run_family);
}

}  // namespace

void run(const Plan &plan, const Call &call) {
    if (call.views) return run_on_views(plan, call, run_dense);
    run_dense(plan, call);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
