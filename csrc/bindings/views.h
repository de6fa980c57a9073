// How an array that is handed over may lie in memory, and the view that it then is.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kinds/engine.h"

namespace ndpool {

// Dense in the order of axes that is expected; or with gaps, but in no order that could be taken for another; or anyhow.
enum class Lies { DENSE, IN_ORDER, ANYHOW };

// The lengths and steps of a view, as its axes are expected in memory. They last as long as the call.
class ViewAxes {
  public:
    void set(int axis, i64 length, i64 step) { lengths[axis] = length, steps[axis] = step; }

    // Whether each axis is nearer in memory than the one before, forward. That of an axis with one cell says nothing.
    bool are_in_order(int dims) const {
        i64 before = INT64_MAX;
        for (int d = 0; d < dims; ++d) {
            if (lengths[d] == 1) continue;
            if (steps[d] <= 0 || steps[d] >= before) return false;
            before = steps[d];
        }
        return true;
    }

    Array view_of(void *data, i64 bytes, i64 element_bytes, int dims) const {
        return {data, bytes, element_bytes, dims, lengths, steps};
    }

  private:
    i64 lengths[MAX_DIMS], steps[MAX_DIMS];
};

// The first address of an array, and the one behind its last.
inline std::pair<std::uintptr_t, std::uintptr_t> reach_of(const Array &array) {
    const auto start = reinterpret_cast<std::uintptr_t>(array.data);
    if (!array.dims) return {start, start + static_cast<std::uintptr_t>(array.bytes)};
    i64 first = 0, last = array.element_bytes;
    for (int d = 0; d < array.dims; ++d) {
        const i64 far = (array.lengths[d] - 1) * array.steps[d] * array.element_bytes;
        (far < 0 ? first : last) += far;
    }
    return {start + static_cast<std::uintptr_t>(first), start + static_cast<std::uintptr_t>(last)};
}

// The axes in the order in which they lie in memory: as they are given, or the usual one where none are.
inline std::vector<int> whole_order(const std::vector<int> &order, std::size_t axes) {
    std::vector<int> whole(order);
    if (order.empty())
        for (std::size_t d = 0; d < axes; ++d) whole.push_back(static_cast<int>(d));
    return whole;
}

// The place in memory of each axis of such an order, which has each of so many once.
inline std::vector<int> check_order(const std::vector<int> &order, std::size_t axes) {
    std::vector<int> places(axes, -1);
    for (std::size_t d = 0; d < order.size(); ++d)
        if (order.size() == axes && order[d] >= 0 && order[d] < static_cast<int>(axes))
            places[static_cast<std::size_t>(order[d])] = static_cast<int>(d);
    for (int place : places)
        if (place < 0) throw std::invalid_argument("the order does not have each axis once");
    return places;
}

}  // namespace ndpool
