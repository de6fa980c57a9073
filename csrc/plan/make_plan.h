// A Plan from the numbers of its dimensions.
#pragma once
#include <vector>

#include "plan/geometry.h"

namespace ndpool {

// One list for each dimension of the array, in the order in which they lie in memory: one number for a dimension that
// is carried along, its length; the eight of an Axis for one that is pooled, in the order of its members.
using Dims = std::vector<std::vector<i64>>;

// With `join`, pooled neighbours that have one window each become one axis.
//
// Throws std::invalid_argument where the numbers make no window, and std::overflow_error, which says of what there are
// too many, where something cannot be counted in 64 bits.
Plan make_plan(const Dims &dims, bool join = true);

// a * b; std::overflow_error("WHAT more than 2**63 UNITS") if that is too large.
i64 counted_product(i64 a, i64 b, const char *what, const char *units);

}  // namespace ndpool
