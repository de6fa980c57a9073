// What a level offers: each family of kinds is a translation unit of its own, and so are the ties of Max and Min.
#pragma once
#include "passes/forward.h"
#include "plan/call.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

void run_selection(const Plan &plan, const Call &call, const Route &route);
void run_ties(const Plan &plan, const Call &call, const Route &route);
void run_linear(const Plan &plan, const Call &call, const Route &route);
void run_smooth(const Plan &plan, const Call &call, const Route &route);
void run_order(const Plan &plan, const Call &call, const Route &route);

// How an operation goes on dense arrays: decided here, before anything runs.
Decision decide(const Plan &plan, const Call &call);
// Any operation on dense arrays.
void run_dense(const Plan &plan, const Call &call);
// The same where cells are skipped.
void run_skipping(const Plan &plan, const Call &call);
// Whether that is one pass over the array, so that no pieces of it have to stay in the cache.
bool skips_in_one_pass(const Plan &plan, const Call &call);

// Calls f(zero) with a zero of the type of floats.
template <class F>
void with_float(Type type, const F &f) {
    switch (type) {
        case Type::F16: return f(Half());
        case Type::BF16: return f(BFloat());
        case Type::F32: return f(float());
        case Type::F64: return f(double());
        default: return;
    }
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
