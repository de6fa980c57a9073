// Max and Min by looking, for cells of every type.
#include "kinds/families.h"
#include "kinds/one_window.h"

namespace ndpool {
namespace NDPOOL_LEVEL {
namespace {

template <class A, class G>
TiedArrays<A> tied_arrays(const Call &call) {
    using I = typename IntOf<sizeof(A)>::s;
    const Type type = call.type;
    return {
        call.x,   call.y_in, call.t, call.g, key_rows<I>(type), FLOAT_ROWS<A, G>, static_cast<I>(call.minimum ? -1 : 0),
        call.ties};
}

void find(const Plan &plan, const Call &call) {
    find_winners(plan, tied_arrays<double, double>(call), call.winners, call.winner_bytes);
}

// How many numbers are added up at most: those that tie for an output, or what the windows over a cell hand to it.
i64 most_terms(const Plan &plan, Op op) {
    i64 terms = 1;
    for (int a = 0; a < plan.axis_count; ++a) {
        const Axis &axis = plan.axes[a];
        if (op == Op::TIES_JVP)
            terms *= axis.kernel;
        else
            terms *= axis.adaptive ? axis.output / axis.length + 2 : axis.kernel / axis.stride + 1;
    }
    return terms;
}

template <class A, class G>
void ties_as(const Plan &plan, const Call &call, const Route &route) {
    const TiedArrays<A> arrays = tied_arrays<A, G>(call);
    if (call.op == Op::TIES_VJP) return ties_vjp<A>(plan, arrays, Gradient(plan, call.gx, sizeof(G), route));
    // A sum of floats may be beyond all floats where its share is not, so what is not finite is added up again.
    if (!ties_jvp<A>(plan, arrays, call.dy, sizeof(G)) && sizeof(A) < sizeof(double))
        ties_as<double, G>(plan, call, route);
}

}  // namespace

void run_ties(const Plan &plan, const Call &call, const Route &route) {
    if (call.op == Op::FIND_WINNERS) return find(plan, call);
    if (route.asked != Way::NONE && route.asked != Way::TIES) cannot_go(route.asked);
    if (route.tell(Way::TIES)) return;
    if (call.ties == Ties::FIRST) {
        TiedArrays<double> arrays = tied_arrays<double, double>(call);
        arrays.t = nullptr;
        return first_jvp(plan, arrays, call.t, call.dy, size_of(call.derivative));
    }
    constexpr i64 FEW = 64;  // that floats can add up without losing more than a last place or two
    const bool few = most_terms(plan, call.op) <= FEW && plan.cells < (1 << 24);
    with_float(call.derivative, [&](auto zero) {
        using G = decltype(zero);
        if constexpr (!std::is_same_v<G, double>)
            if (few) return ties_as<float, G>(plan, call, route);
        ties_as<double, G>(plan, call, route);
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
