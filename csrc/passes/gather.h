// The cells that won, read from an array that is shaped like the input.
#pragma once
#include "plan/geometry.h"

namespace ndpool {

// dy[o] = t[winner of o], for every output o. A winner is its place in its window, in `winner_bytes` bytes; an element
// has `element_bytes`. Where cells are skipped, an output with too few has a place beyond those of the window, and
// dy is 0. Throws std::invalid_argument if any other place is none of the window's real cells.
void gather(const Plan &plan, const void *winners, int winner_bytes, i64 element_bytes, const void *t, void *dy,
            bool skips);

}  // namespace ndpool
