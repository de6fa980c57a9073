// The cells that won, read from an array that is shaped like the input.
#pragma once
#include "plan/geometry.h"

namespace ndpool {

// dy[o] = t[winner of o], for every output o. A winner is its place in its window, in `winner_bytes` bytes; an element
// has `element_bytes`. Throws std::invalid_argument if a place is none of the window's real cells.
void gather(const Plan &plan, const void *winners, int winner_bytes, i64 element_bytes, const void *t, void *dy);

}  // namespace ndpool
