// Everything that a level can do.
#include "kinds/families.h"
#include "passes/batch.h"
#include "passes/views.h"

namespace ndpool {
namespace NDPOOL_LEVEL {
namespace {

void run_family(const Plan &plan, const Call &call) {
    const Route route{call.decided ? call.decided->way : call.asked, call.past_the_caches, call.told};
    if (call.order != Order::NONE) return run_order(plan, call, route);
    switch (call.op) {
        case Op::SUM:
        case Op::SUM_VJP: return run_linear(plan, call, route);
        case Op::SMOOTH:
        case Op::SMOOTH_VJP: return run_smooth(plan, call, route);
        default: return run_selection(plan, call, route);
    }
}

bool goes_by_batch(const Plan &plan, const Call &call) {
    const bool forward = is_forward(call.op);
    if (call.op == Op::EXPAND) return false;
    const bool by_order = call.op == Op::ORDER || call.op == Op::ORDER_VJP;
    const OrderTraits traits{is_mode(call.order), call.skip.any, size_of(call.type), false};
    if (by_order && call.asked == Way::NONE && !suits_network(with_lanes(plan, 2), traits)) return false;
    if (call.asked != Way::NONE) return call.asked == Way::BATCH && can_batch(plan, forward);
    if (call.op == Op::WINNERS_VJP && few_winners(plan, LANES<float>)) return false;
    const i64 bytes = size_of(call.type), lanes = lanes_of(static_cast<int>(bytes));
    // Windows that have their cells to themselves are laid out over long rows.
    if (call.op == Op::TIES_VJP && call.type == call.derivative && plan.in_row >= 6 * lanes &&
        can_tied_apart(plan, lanes, bytes))
        return false;
    const bool tagged = call.op == Op::WINNERS;
    if ((tagged || call.op == Op::VALUE) && suits_batch_overlapping(plan, tagged, lanes, bytes)) return true;
    const bool sums = call.op == Op::SUM || call.op == Op::SUM_VJP;
    const bool terms = call.op == Op::SMOOTH || call.op == Op::SMOOTH_VJP;
    const Adds adds = sums ? Adds::CELLS : terms ? Adds::TERMS : Adds::NOTHING;
    return suits_batch(plan, forward, adds, tagged, lanes, bytes, bytes_of_y(call));
}

// Whether the slabs are one long row to an operation. A place in a window is the same there.
bool is_in_one_row(const Plan &plan, Op op) {
    if (!tiles_rows(plan)) return false;
    switch (op) {
        case Op::EXPAND: return false;  // an index in a slab is not
        case Op::SMOOTH:
        case Op::SMOOTH_VJP: {  // one by one, slabs of some dozen cells are left to lanes
            const i64 cells = plan.last().length / plan.last().output;
            return plan.inner == 1 && plan.in_slab < 64 && (cells <= 6 || cells >= 32);
        }
        case Op::FIND_WINNERS:
        case Op::TIES_JVP: return plan.in_slab < 64;  // one long window has a shorter way
        case Op::TIES_VJP: return plan.in_slab < 512;
        default: return true;
    }
}

}  // namespace

Decision decide(const Plan &plan, const Call &call) {
    Decision made;
    Call own = call;
    own.decided = nullptr, own.told = &made.way;
    made.in_one_row = is_in_one_row(plan, call.op);
    const Plan row = made.in_one_row ? in_one_row(plan) : plan;
    run_dense(row, own);
    if (made.way != Way::BATCH) return made;
    own.asked = Way::NONE, own.told = &made.of_strands;
    run_family(strands_of(row, own, pieces_of(row, own)).each, own);
    return made;
}

void run_dense(const Plan &plan, const Call &call) {
    const Decision *const decided = call.decided;
    if (decided ? decided->in_one_row : is_in_one_row(plan, call.op)) {
        Decision of_row{false, Way::NONE, Way::NONE};
        Call own = call;
        if (decided) of_row.way = decided->way, of_row.of_strands = decided->of_strands, own.decided = &of_row;
        return run_dense(in_one_row(plan), own);
    }
    const bool batch = decided ? decided->way == Way::BATCH : goes_by_batch(plan, call);
    if (call.asked == Way::BATCH && !batch) cannot_go(call.asked);
    if (!batch) return run_family(plan, call);
    if (call.told)
        *call.told = Way::BATCH;
    else
        run_in_batches(plan, call, run_family);
}

namespace {

// Whether skipped cells are looked after for the operation, which knows nothing of them. Order statistics do it
// themselves.
bool is_run_skipping(const Call &call) { return call.skip.any && call.op != Op::EXPAND && call.order == Order::NONE; }

}  // namespace

void run(const Plan &plan, const Call &call) {
    if (is_run_skipping(call) && !call.told) {
        if (call.asked != Way::NONE) {  // which must be one for the whole
            Call own = call;
            Way way = Way::NONE;
            own.told = &way;
            if (call.op == Op::SUM && call.t) own.type = call.derivative, own.t = nullptr;  // the sum is that of t
            run_dense(plan, own);
        }
        if (!(call.views && call.views->any()) && skips_in_one_pass(plan, call)) return run_skipping(plan, call);
        return run_on_views(plan, call, run_skipping);
    }
    if (call.views && call.views->any()) return run_on_views(plan, call, run_dense);
    run_dense(plan, call);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
