// Modes and quantiles, for cells of every type.
#include "base/stream.h"
#include "kinds/narrowed.h"
#include "kinds/order_histograms.h"
#include "kinds/order_lanes.h"

namespace ndpool {
namespace NDPOOL_LEVEL {
namespace {

// Where a part's arrays start.
Call call_of(const Call &call, const Part &part) {
    Call own = call;
    over_arrays(own, [&](auto *&array, i64 bytes, bool input) {
        using Byte = std::conditional_t<std::is_same_v<decltype(array), void *&>, char, const char>;
        if (array) array = static_cast<Byte *>(array) + (input ? part.in : part.out) * bytes;
    });
    return own;
}

// Calls f(zero) with a zero of the keys' type.
template <class F>
void with_key(const Call &call, const F &f) {
    with_bits(size_of(call.type), f);
}

void find(const Plan &plan, const Call &call, Way way, const FoundRows &rows) {
    if (way == Way::NETWORK)
        return with_key(call, [&](auto zero) { OrderPooler<decltype(zero)>(plan, call, &rows).pool(); });
    if (way == Way::RANKS) return find_by_ranks(plan, call, rows);
    find_by_windows(plan, call, rows);
}

// Of a part, more or less: as many as stay in the second-level cache as cells and as keys.
i64 elements_of(const Call &call) { return size_of(call.type) > 4 ? 1 << 15 : 1 << 16; }

void pool_by_network(const Plan &plan, const Call &call) {
    auto pool = [&](const Call &own) {
        with_key(own, [&](auto zero) { OrderPooler<decltype(zero)>(plan, own, nullptr).pool(); });
    };
    if (!NarrowedCells::suit(plan, call) || !NarrowedCells::run(plan, call, pool)) pool(call);
}

void forward(const Plan &plan, const Call &call, Way way) {
    const Parts parts(plan, elements_of(call));
    parallel(parts.count, worth_threads(plan.outer * plan.in_slab), [&](i64 begin, i64 end) {
        for (i64 i = begin; i < end; ++i) {
            const Part part = parts[i];
            const Call own = call_of(call, part);
            if (way == Way::HISTOGRAMS)
                HistogramPooler(part.plan, own).pool();
            else if (way == Way::NETWORK)
                pool_by_network(part.plan, own);
            else
                find(part.plan, own, way, rows_into(OrderResults{own, part.plan.out_row}));
        }
    });
}

// --- back -----------------------------------------------------------------------------------------

// Cells begin..end-1 along the first pooled axis of a slab, from all windows over them. Windows are taken in their
// order, so sums do not depend on who does which part.
template <class T>
void pull_part(const Plan &plan, const Call &call, Way way, i64 slab, i64 begin, i64 end) {
    const Axis &axis = plan.axes[0];
    const i64 each = plan.in_slab / axis.length;
    T *gx = static_cast<T *>(call.gx) + slab * plan.in_slab + begin * each;
    i64 lo = 0, hi = axis.output;
    CellRange cells{0, axis.length};
    if (end - begin < axis.length) {
        axis.outputs_over(begin, end, &lo, &hi);
        if (lo < hi) cells = cells_under(axis, lo, hi);
    }
    Scratch<double> sums((lo < hi ? cells.end - cells.begin : 0) * each, "cotangents of cells");
    if (lo < hi) {
        const Part part{plan.part(cells.begin, cells.end, lo, hi), slab * plan.in_slab + cells.begin * each,
                        slab * plan.out_slab + lo * (plan.out_slab / axis.output)};
        Call own = call_of(call, part);
        std::memset(sums.data(), 0, static_cast<std::size_t>((cells.end - cells.begin) * each) * sizeof(double));
        const OrderCotangents<T> cotangents{static_cast<const T *>(own.g), sums.data(), part.plan.out_row};
        find(part.plan, own, way, rows_into(cotangents));
    }
    for (i64 cell = begin; cell < end; ++cell, gx += each) {
        const bool seen = lo < hi && cell >= cells.begin && cell < cells.end;
        const double *sum = sums.data() + (cell - cells.begin) * each;
        constexpr int N = LANES<double>;
        i64 e = 0;
        for (; seen && e + N <= each; e += N) store_as<N>(gx + e, load<N>(sum + e));
        for (; e < each; ++e) put_double(gx + e, seen ? sum[e] : 0);
    }
}

void pull(const Plan &plan, const Call &call, Way way) {
    const Axis &axis = plan.axes[0];
    const i64 each = plan.in_slab / axis.length, reach = axis.dilation * (axis.kernel - 1);
    i64 at_a_time = elements_of(call) / each;
    if (at_a_time < 4 * reach) at_a_time = 4 * reach;
    if (at_a_time < 1) at_a_time = 1;
    if (axis.adaptive || at_a_time > axis.length) at_a_time = axis.length;
    const i64 bands = (axis.length + at_a_time - 1) / at_a_time;
    with_float(call.derivative, [&](auto zero) {
        using T = decltype(zero);
        parallel(plan.outer * bands, worth_threads(plan.outer * plan.in_slab), [&](i64 first, i64 stop) {
            for (i64 i = first; i < stop; ++i) {
                const i64 begin = i % bands * at_a_time, end = begin + at_a_time;
                pull_part<T>(plan, call, way, i / bands, begin, end < axis.length ? end : axis.length);
            }
        });
    });
}

// --- winners of windows that see too few cells ------------------------------------------------------

// Calls use(i) for each output that sees too few.
template <class W, class Use>
void over_absent(const W *winners, i64 count, i64 cells, const Use &use) {
    for (i64 i = 0; i < count; ++i)
        if (static_cast<i64>(winners[i]) >= cells) use(i);
}

// The same operation with their cotangents 0, and each at a cell that there is.
void pull_winners(const Plan &plan, const Call &call, const Route &route) {
    const i64 count = plan.outer * plan.out_slab, bytes = size_of(call.derivative);
    Scratch<std::uint64_t> places((count * call.winner_bytes + 7) / 8, "winners"),
        cotangents((count * bytes + 7) / 8, "cotangents");
    std::memcpy(places.data(), call.winners_in, static_cast<std::size_t>(count * call.winner_bytes));
    std::memcpy(cotangents.data(), call.g, static_cast<std::size_t>(count * bytes));
    with_bits(call.winner_bytes, [&](auto place) {
        with_bits(bytes, [&](auto zero) {
            auto *own = reinterpret_cast<decltype(place) *>(places.data());
            auto *g = reinterpret_cast<decltype(zero) *>(cotangents.data());
            over_absent(own, count, call.skip.beyond,
                        [&](i64 i) { own[i] = static_cast<decltype(place)>(own[i] - call.skip.beyond), g[i] = 0; });
        });
    });
    Call own = call;
    own.winners_in = places.data(), own.g = cotangents.data(), own.skip = {};
    run_selection(plan, own, route);
}

void expand_winners(const Plan &plan, const Call &call, const Route &route) {
    run_selection(plan, call, route);
    with_bits(call.winner_bytes, [&](auto zero) {
        over_absent(static_cast<const decltype(zero) *>(call.winners_in), plan.outer * plan.out_slab, call.skip.beyond,
                    [&](i64 i) { call.indices[i] = -1; });
    });
}

}  // namespace

void run_order(const Plan &plan, const Call &call, const Route &given) {
    if (call.op == Op::EXPAND || call.op == Op::WINNERS_VJP) {
        Route route = given;
        route.one_of_column = false;
        if (!call.skip.any || call.told) return run_selection(plan, call, route);
        return call.op == Op::EXPAND ? expand_winners(plan, call, route) : pull_winners(plan, call, route);
    }
    const bool values = call.op == Op::ORDER && !call.winners && !call.t;
    const OrderTraits traits{is_mode(call.order), call.skip.any, size_of(call.type), values};
    const Way way = choose_order(plan, traits, given.asked);
    if (given.tell(way)) return;
    if (call.op == Op::ORDER_VJP) return pull(plan, call, way);
    forward(plan, call, way);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
