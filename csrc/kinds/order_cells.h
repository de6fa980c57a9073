// The cells of windows one by one, for the ways that are compiled once.
#pragma once
#include <type_traits>

#include "kinds/order.h"

namespace ndpool {

// The rows of the input that an output row sees: where each starts, and the place of its first cell in the window.
class RowsOfWindow {
  public:
    struct Row {
        i64 at, place;
    };
    i64 count = 0;
    Row *rows = nullptr;

    RowsOfWindow(const Plan &plan, const Weights &weights)
        : plan(plan), weights(weights), room(plan.outer_cells, "rows of a window") {
        rows = room.data();
    }

    void move_to(i64 row) {
        count = 1;
        rows[0] = {0, 0};
        i64 index[MAX_DIMS];
        for (int d = plan.dim_count - 1; d >= 0; --d) {
            index[d] = row % plan.dims[d].out_count;
            row /= plan.dims[d].out_count;
        }
        for (int d = 0; d < plan.dim_count; ++d) {
            const Dim &dim = plan.dims[d];
            if (dim.axis >= 0)
                extend(plan.axes[dim.axis].taps(index[d]), plan.axes[dim.axis].dilation, dim.in_stride,
                       weights.of[dim.axis]);
            else
                for (i64 i = 0; i < count; ++i) rows[i].at += index[d] * dim.in_stride;
        }
    }

  private:
    const Plan &plan;
    const Weights &weights;
    Scratch<Row> room;

    // From the back, so that it can be done in place.
    void extend(const Axis::Taps &taps, i64 dilation, i64 stride, i64 weight) {
        for (i64 i = count - 1; i >= 0; --i) {
            const Row row = rows[i];
            for (i64 k = taps.count - 1; k >= 0; --k)
                rows[i * taps.count + k] = {row.at + (taps.first + k * dilation) * stride,
                                            row.place + (taps.skipped + k) * weight};
        }
        count *= taps.count;
    }
};

// A cell's key. FLOATS is known when this is compiled.
template <class K, bool FLOATS>
inline K key_of(K bits, const Keying &keying) {
    K key;
    if constexpr (FLOATS) {
        if ((bits & ~keying.top) > keying.infinity) return static_cast<K>(keying.skips_nan ? keying.ones : keying.nan);
        if (bits == keying.top) bits = 0;
        key = static_cast<K>(bits ^ (bits & keying.top ? keying.ones : keying.top) ^ keying.flip);
        return keying.skips && key == keying.skipped ? static_cast<K>(keying.ones) : key;
    } else {
        key = static_cast<K>(bits ^ keying.flip);
        if (!keying.skips) return key;
        return key == keying.skipped ? static_cast<K>(keying.ones) : static_cast<K>(key - (key > keying.skipped));
    }
}

// Calls f(zero, floats) with a zero of the keys' type, and whether cells are floats, as a constant.
template <class F>
void with_keys(Type type, const F &f) {
    const bool floats = is_float(type);
    auto as = [&](auto zero) { floats ? f(zero, std::true_type()) : f(zero, std::false_type()); };
    switch (size_of(type)) {
        case 1: return f(std::uint8_t(), std::false_type());
        case 2: return as(std::uint16_t());
        case 4: return as(std::uint32_t());
        default: return as(std::uint64_t());
    }
}

}  // namespace ndpool
