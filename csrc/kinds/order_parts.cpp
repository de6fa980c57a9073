#include <cmath>

#include "kinds/order.h"

namespace ndpool {

Between between(i64 n, Order method, double q) {
    const double place = static_cast<double>(n - 1) * q;
    const double lo = std::floor(place), hi = std::ceil(place);
    switch (method) {
        case Order::LOWER: return {static_cast<i64>(lo), static_cast<i64>(lo), 0};
        case Order::HIGHER: return {static_cast<i64>(hi), static_cast<i64>(hi), 0};
        case Order::NEAREST: {  // halfway: the even one
            const i64 nearest = static_cast<i64>(std::nearbyint(place));
            return {nearest, nearest, 0};
        }
        default: break;
    }
    const double share = lo == hi ? 0 : method == Order::MIDPOINT ? 0.5 : place - lo;
    return {static_cast<i64>(lo), static_cast<i64>(hi), share};
}

i64 least_count(const Call &call) { return call.skip.any && call.skip.min_count > 1 ? call.skip.min_count : 1; }

Keying::Keying(const Call &call) {
    bytes = size_of(call.type);
    floats = is_float(call.type);
    top = std::uint64_t(1) << (8 * bytes - 1);
    ones = top | (top - 1);
    const bool is_signed =
        call.type == Type::I8 || call.type == Type::I16 || call.type == Type::I32 || call.type == Type::I64;
    flip = (is_signed ? top : 0) ^ (call.order == Order::MODE_LARGEST ? ones : 0);
    infinity = call.type == Type::F16    ? 0x7c00
               : call.type == Type::BF16 ? 0x7f80
               : call.type == Type::F32  ? 0x7f800000
                                         : std::uint64_t(0x7ff) << 52;
    nan = is_mode(call.order) ? 0 : ones - 1;
    skips = call.skip.any, skips_nan = false, skipped = 0;
    if (!skips) return;
    const std::uint64_t value = call.skip.value & ones;
    if (!floats) {
        skipped = value ^ flip;
    } else if ((value & ~top) > infinity) {
        skips_nan = true, skipped = nan;
    } else {
        const std::uint64_t bits = value == top ? 0 : value;
        skipped = bits ^ (bits & top ? ones : top) ^ flip;
    }
}

Parts::Parts(const Plan &plan, i64 elements) : plan(plan) {
    const Axis &axis = plan.axes[0];
    outputs = axis.output;
    if (!axis.adaptive && plan.in_slab > elements) {
        const i64 each = plan.in_slab / axis.length, reach = axis.dilation * (axis.kernel - 1);
        const i64 cells = elements / (each ? each : 1), fit = (cells > 2 * reach ? cells : 2 * reach) / axis.stride;
        outputs = fit < 1 ? 1 : fit < outputs ? fit : outputs;
    }
    bands = (axis.output + outputs - 1) / outputs;
    count = plan.outer * bands;
}

Part Parts::operator[](i64 number) const {
    const Axis &axis = plan.axes[0];
    const i64 slab = number / bands, lo = number % bands * outputs;
    const i64 hi = lo + outputs < axis.output ? lo + outputs : axis.output;
    const CellRange cells = bands == 1 ? CellRange{0, axis.length} : cells_under(axis, lo, hi);
    return {plan.part(cells.begin, cells.end, lo, hi), slab * plan.in_slab + cells.begin * (plan.in_slab / axis.length),
            slab * plan.out_slab + lo * (plan.out_slab / axis.output)};
}

Weights::Weights(const Plan &plan, const i64 *pooled) {
    for (int a = 0; a < plan.axis_count; ++a) {
        of[a] = 1;
        for (int b = 0; b < plan.axis_count; ++b)
            if (pooled ? pooled[b] > pooled[a] : b > a) of[a] *= plan.axes[b].kernel;
    }
}

}  // namespace ndpool
