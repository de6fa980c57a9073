// Networks that sort, or find what stands at one or two ranks: comparisons in an order that no cell changes.
#pragma once
#include "base/types.h"

namespace ndpool {

// One step: the lesser of two cells goes to `lo`, the greater to `hi`. Where nobody asks for one of the two, it is not
// made.
struct Comparison {
    enum Made : std::uint8_t { BOTH, LESSER, GREATER };
    std::uint8_t lo, hi;
    Made made;
};

struct Network {
    int count;
    const Comparison *steps;
    std::uint8_t at[256];  // where the cell of each rank is afterwards
};

// The network of n < 256 cells after which the cells at ranks lo to hi are found; with ALL_RANKS, all of them. It is
// made once and kept.
constexpr int ALL_RANKS = -1;
const Network &network_of(int n, int lo, int hi);

// The same for cells in columns of `height` that are sorted already, one column after the other.
const Network &network_of_columns(int columns, int height, int lo, int hi);

}  // namespace ndpool
