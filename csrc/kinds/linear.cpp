// Sum and Avg, for cells of every type.
#include "kinds/linear.h"

#include "kinds/families.h"
#include "kinds/steps_of_one.h"

namespace ndpool {
namespace NDPOOL_LEVEL {
namespace {

// --- sums ---------------------------------------------------------------------------------------

// The sum of P, divided, into a sink.
template <class P, class Sink>
void sum_into(const Plan &plan, const Call &call, const Route &route, const Sink &sink) {
    using In = typename P::In;
    constexpr bool FLOATS = std::is_floating_point_v<In> || std::is_same_v<In, Half> || std::is_same_v<In, BFloat>;
    pool_all<FLOATS ? Tuned::ALL : Tuned::NOT>(
        plan, P{}, static_cast<const typename P::In *>(call.x), sink, route);
}
template <class P, class R>
void sum_as(const Plan &plan, const Call &call, const Route &route) {
    const Divisor divisor = Divisor::of(plan, call);
    sum_into<P>(plan, call, route, SumSink<typename P::Lanes, R>{static_cast<R *>(call.y), divisor});
}
template <class P>
void sum_as_integers(const Plan &plan, const Call &call, const Route &route) {
    const Divisor divisor = Divisor::of(plan, call);
    SumSink<typename P::Lanes, AnyInteger> sink{{static_cast<char *>(call.y), bytes_of_y(call)}, divisor};
    sink.rounding = call.rounding;
    if (call.rounding != Rounding::NONE && !divisor.varies())
        sink.rounder = {call.rounding, static_cast<i64>(divisor.fixed)};
    sum_into<P>(plan, call, route, sink);
}

// Integers are summed modulo 2^64. Their mean is a double, and a sum of so many that it may go beyond doubles' exact
// whole numbers keeps the errors; or it is rounded to an integer again, and then the sum is exact.
template <class T>
void sum_integers(const Plan &plan, const Call &call, const Route &route) {
    if constexpr (sizeof(T) == 8) {
        if (call.rounding != Rounding::NONE) return sum_as_integers<WholeSum<T>>(plan, call, route);
        if (call.count != Count::NONE) return sum_as<ExactSum<T>, double>(plan, call, route);
    }
    // Twice as many at a time, where 32 bits hold any sum of a window.
    if constexpr (sizeof(T) <= 2)
        if (plan.cells <= i64(1) << (31 - 8 * sizeof(T)))
            return sum_as_integers<PlainSum<T, std::int32_t>>(plan, call, route);
    sum_as_integers<PlainSum<T, std::int64_t>>(plan, call, route);
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
        const Divisor divisor = Divisor::of(plan, call);
        const G *g = static_cast<const G *>(call.g);
        G *gx = static_cast<G *>(call.gx);
        if constexpr (LEVEL_IS_TUNED && sizeof(G) < 8)
            if (transposes_in_steps_of_one(plan, divisor, g, gx, route)) return;
        sum_vjp(plan, divisor, g, gx, route);
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
