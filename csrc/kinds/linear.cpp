// Sum and Avg, for cells of every type.
#include "kinds/linear.h"

#include "kinds/families.h"

namespace ndpool {
namespace NDPOOL_LEVEL {
namespace {

// --- sums ---------------------------------------------------------------------------------------

// The sum of P, divided, as R.
template <class P, class R>
void sum_as(const Plan &plan, const Call &call, const Route &route) {
    SumSink<typename P::Lanes, R> sink{static_cast<R *>(call.y), Divisor::of(plan, call)};
    pool_all<std::is_same_v<typename P::In, float>    ? Tuned::ALL
             : std::is_same_v<typename P::In, double> ? Tuned::ROWS
                                                      : Tuned::NOT>(
        plan, P{}, static_cast<const typename P::In *>(call.x), sink, route);
}

// Integers are summed modulo 2^64; their mean is a double. A sum of so many that it may go beyond doubles' exact whole
// numbers keeps the errors, for the mean.
template <class T>
void sum_integers(const Plan &plan, const Call &call, const Route &route) {
    if constexpr (sizeof(T) == 8)
        if (call.count != Count::NONE) return sum_as<ExactSum<T>, double>(plan, call, route);
    // Twice as many at a time, where 32 bits hold any sum of a window.
    if constexpr (sizeof(T) <= 2)
        if (plan.cells <= i64(1) << (31 - 8 * sizeof(T)))
            return sum_as<PlainSum<T, std::int32_t>, std::int64_t>(plan, call, route);
    sum_as<PlainSum<T, std::int64_t>, std::int64_t>(plan, call, route);
}

void sum(const Plan &plan, const Call &call, const Route &route) {
    switch (call.type) {
#define NDPOOL_SUM(NAME, T) \
    case Type::NAME: return sum_integers<T>(plan, call, route);
        NDPOOL_INTEGERS(NDPOOL_SUM)
#undef NDPOOL_SUM
        case Type::F16: return sum_as<PlainSum<Half, double>, Half>(plan, call, route);
        case Type::BF16: return sum_as<PlainSum<BFloat, double>, BFloat>(plan, call, route);
        case Type::F32: return sum_as<PlainSum<float, double>, float>(plan, call, route);
        case Type::F64: return sum_as<ExactSum<double>, double>(plan, call, route);
    }
}

}  // namespace

void run_linear(const Plan &plan, const Call &call, const Route &route) {
    if (call.op == Op::SUM) return sum(plan, call, route);
    with_float(call.derivative, [&](auto zero) {
        using G = decltype(zero);
        sum_vjp(plan, Divisor::of(plan, call), static_cast<const G *>(call.g),
                static_cast<G *>(call.gx), route);
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
