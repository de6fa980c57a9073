// Max and Min by looking, for cells of every type.
#include "kinds/families.h"
#include "kinds/one_window.h"
#include "kinds/tied_apart.h"
#include "kinds/tied_axes.h"
#include "kinds/tied_squares.h"
#include "kinds/tied_sums.h"
#include "kinds/tied_taps.h"

namespace ndpool {
namespace NDPOOL_LEVEL {
namespace {

template <class A, class G>
TiedArrays<A> tied_arrays(const Call &call) {
    using I = typename IntOf<sizeof(A)>::s;
    const Type type = call.type;
    return {call.x,
            call.y_in,
            call.t,
            call.g,
            key_rows<I>(type),
            FLOAT_ROWS<A, G>,
            static_cast<I>(call.minimum ? -1 : 0),
            call.ties,
            call.some_absent};
}

void find(const Plan &plan, const Call &call) {
    find_winners(plan, tied_arrays<double, double>(call), call.winners, call.winner_bytes);
}

// How many additions the error of a sum may come from. All that ties for an output is one sum. What the windows over a
// cell hand to it is added up along one axis after the other.
i64 most_terms(const Plan &plan, Op op) {
    i64 cells = 1, windows = 0;
    for (int a = 0; a < plan.axis_count; ++a) {
        const Axis &axis = plan.axes[a];
        cells *= axis.kernel;
        windows += axis.adaptive ? axis.output / axis.length + 2 : axis.kernel / axis.stride + 1;
    }
    return op == Op::TIES_JVP ? cells : windows;
}

template <class A, class G>
void ties_as(const Plan &plan, const Call &call, const Route &route) {
    const TiedArrays<A> arrays = tied_arrays<A, G>(call);
    if (call.op == Op::TIES_VJP && route.asked == Way::TAPS)
        return pull_by_rows<A>(plan, Gradient(plan, call.gx, sizeof(G), route),
                               [&] { return TapMaker<A>(plan, arrays); });
    if (call.op == Op::TIES_VJP && route.asked == Way::AXES)
        return pull_by_axes<A>(plan, arrays, Gradient(plan, call.gx, sizeof(G), route));
    if (call.op == Op::TIES_VJP) return ties_vjp<A>(plan, arrays, Gradient(plan, call.gx, sizeof(G), route));
    // A sum of floats may be beyond all floats where its share is not, so what is not finite is added up again.
    if (!ties_jvp<A>(plan, arrays, call.dy, sizeof(G)) && sizeof(A) < sizeof(double))
        ties_as<double, G>(plan, call, route);
}

// y, where it is wanted, and with it the sums or shares of the cells that tie, in one pass.
template <class T>
void find_tied(const Plan &plan, const Call &call, const void *t, Tied wanted, T *found, const Route &route) {
    using Lane = TiedLane<T>;
    using Bits = typename IntOf<sizeof(Lane)>::u;
    auto *x = static_cast<const T *>(call.x);
    const FloatKey<Lane> key{call.minimum ? Bits(1) << (8 * sizeof(Lane) - 1) : 0};
    const TiedSink<T> sink{key, static_cast<T *>(call.y), found, wanted, nullptr, nullptr};
    constexpr Tuned TUNED = sizeof(T) < 4 ? Tuned::NOT : Tuned::ROWS;
    pool_all<TUNED>(plan, TiedExtreme<T>(key, x, static_cast<const T *>(t)), x, sink, route);
}

// The JVP in one pass. Says whether dy is finite.
template <class T>
bool tied_sums(const Plan &plan, const Call &call, const Route &route) {
    auto *dy = static_cast<T *>(call.dy);
    find_tied<T>(plan, call, call.t, call.ties == Ties::SPLIT ? Tied::SHARE : Tied::SUM, dy, route);
    return route.told || are_finite(dy, plan.outer * plan.out_slab);
}

// Whether the VJP goes window by window, as each has its cells to itself.
bool goes_apart(const Plan &plan, const Call &call, const Route &route) {
    const i64 lanes = lanes_of(static_cast<int>(size_of(call.type)));
    return call.op == Op::TIES_VJP && call.type == call.derivative && can_tied_apart(plan, lanes, size_of(call.type)) &&
           (route.asked == Way::NONE || route.asked == Way::OWN);
}
void apart_vjp(const Plan &plan, const Call &call, const Route &route) {
    with_float(call.derivative, [&](auto zero) {
        using T = decltype(zero);
        pull_apart<T>(plan, call, Gradient(plan, call.gx, sizeof(T), route));
    });
}

// Whether the VJP goes by squares. Planes are added up one after the other, whatever axes they are of.
bool goes_by_squares(const Plan &plan, const Call &call, bool floats, const Route &route) {
    if (call.op != Op::TIES_VJP || (route.asked != Way::NONE && route.asked != Way::SQUARES)) return false;
    if (call.type != call.derivative || plan.axis_count > 3) return false;
    // Narrow cells are compared as they are where windows share none.
    if (route.asked == Way::NONE && size_of(call.type) == 2 && windows_apart(plan)) return false;
    const i64 length = plan.last().length;
    if (call.type == Type::F64)
        return way_back<double>(plan, {0, length >= 2 * LANES<double>}, Way::TIES, route) == Way::SQUARES;
    return way_back<float>(plan, {0, floats && length >= 2 * LANES<float>}, Way::TIES, route) == Way::SQUARES;
}
void squares_vjp(const Plan &plan, const Call &call, const Route &route) {
    with_float(call.derivative, [&](auto zero) {
        using T = decltype(zero);
        pull_by_squares<T>(plan, call, Gradient(plan, call.gx, sizeof(T), route));
    });
}

// Whether the VJP goes tap by tap. Integers of 64 bits have no key to spare for where there is no cell.
bool goes_by_taps(const Plan &plan, const Call &call, bool floats, const Route &route) {
    if (call.op != Op::TIES_VJP || (route.asked != Way::NONE && route.asked != Way::TAPS)) return false;
    if (call.type == Type::I64 || call.type == Type::U64 || is_one_window(plan)) return false;
    const Along along = floats ? Columns<float>::along_of(plan) : Columns<double>::along_of(plan);
    if (along == Along::SEGMENTS && layers_of(plan.last()) == 0) return false;
    return route.asked == Way::TAPS ||
           suits_tied_taps(plan, along == Along::SEGMENTS, floats ? LANES<float> : LANES<double>);
}
Way way_of_ties(const Plan &plan, const Call &call, bool floats, const Route &route) {
    const bool back = call.op == Op::TIES_VJP, any = route.asked == Way::NONE;
    if (back && can_tied_axes(plan) && (any ? suits_tied_axes(plan) : route.asked == Way::AXES)) return Way::AXES;
    if (back && plan.axis_count > 2) cannot_go(route.asked);  // sums would have another order; see suits_tied_axes
    if (goes_by_taps(plan, call, floats, route)) return Way::TAPS;
    if (!any && route.asked != Way::TIES) cannot_go(route.asked);
    return Way::TIES;
}

}  // namespace

void run_ties(const Plan &plan, const Call &call, const Route &route) {
    if (call.op == Op::FIND_WINNERS) return find(plan, call);
    constexpr i64 FEW = 64;  // that floats can add up without losing more than a last place or two
    // A window of few cells is added up as its neighbours are, should it have any.
    constexpr i64 ONE_OF_MANY = 1024;
    const bool one = is_one_window(plan) && (call.op != Op::TIES_JVP || plan.cells > ONE_OF_MANY),
               few = most_terms(plan, call.op) <= FEW && plan.cells < (1 << 24);
    const bool floats = call.derivative != Type::F64 && (one || few);
    // Windows that are looked at one by one have sums of another order.
    const Along along = floats ? Columns<float>::along_of(plan) : Columns<double>::along_of(plan);
    const bool in_one_pass = call.op == Op::TIES_JVP && call.ties != Ties::FIRST && !one && along != Along::SEGMENTS &&
                             call.type == call.derivative && (call.type == Type::F64 || floats);
    if (in_one_pass && route.asked != Way::TIES)
        return with_float(call.derivative, [&](auto zero) {
            using G = decltype(zero);
            if (tied_sums<G>(plan, call, route) || sizeof(G) == sizeof(double)) return;
            Call own = call;
            if (call.y) own.y_in = call.y;
            ties_as<double, G>(plan, own, route);
        });
    if (goes_by_squares(plan, call, floats, route)) {
        if (!route.tell(Way::SQUARES)) squares_vjp(plan, call, route);
        return;
    }
    if (goes_apart(plan, call, route)) {
        if (!route.tell(Way::OWN)) apart_vjp(plan, call, route);
        return;
    }
    const Way way = way_of_ties(plan, call, floats, route);
    if (route.tell(way)) return;
    if (call.y) {  // the values come first
        Call own = call;
        own.op = Op::VALUE, own.t = nullptr, own.dy = nullptr;
        run_selection(plan, own, {Way::NONE, route.past_the_caches, nullptr});
        own = call, own.y = nullptr, own.y_in = call.y;
        return run_ties(plan, own, {Way::TIES, route.past_the_caches, nullptr});
    }
    if (call.ties == Ties::FIRST) {
        TiedArrays<double> arrays = tied_arrays<double, double>(call);
        arrays.t = nullptr;
        return first_jvp(plan, arrays, call.t, call.dy, size_of(call.derivative));
    }
    const Route taken{way, route.past_the_caches, nullptr};
    with_float(call.derivative, [&](auto zero) {
        using G = decltype(zero);
        if constexpr (!std::is_same_v<G, double>)
            if (floats) return ties_as<float, G>(plan, call, taken);
        ties_as<double, G>(plan, call, taken);
    });
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
