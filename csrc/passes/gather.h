// The cells that won, read from an array that is shaped like the input.
#pragma once
#include "plan/geometry.h"

namespace ndpool {

// dy[o] = t[winner of o], for every output o. A winner is its place in its window, in `winner_bytes` bytes; an element
// has `element_bytes`. Throws std::invalid_argument if a place is none of the window's real cells. Where some are
// `skipped`, a place beyond the window's is that of an output which sees too few cells, and dy is 0 there.
void gather(const Plan &plan, const void *winners, int winner_bytes, i64 element_bytes, const void *t, void *dy,
            bool skipped = false);

}  // namespace ndpool
