// One operation on arrays, as the kernels take it.
#pragma once
#include "plan/choice.h"

namespace ndpool {

enum class Op {
    VALUE,
    WINNERS,
    FIND_WINNERS,
    WINNERS_VJP,
    EXPAND,
    TIES_JVP,
    TIES_VJP,
    SUM,
    SUM_VJP,
    SMOOTH,
    SMOOTH_VJP,
    ORDER,
    ORDER_VJP
};
constexpr int OPS = static_cast<int>(Op::ORDER_VJP) + 1;

// Whether windows are computed, each from its cells, and not cells from the windows over them.
NDPOOL_INLINE bool is_forward(Op op) {
    return op == Op::VALUE || op == Op::WINNERS || op == Op::FIND_WINNERS || op == Op::TIES_JVP || op == Op::SUM ||
           op == Op::SMOOTH || op == Op::ORDER;
}

// Who leans on an output that several cells tie for.
enum class Ties { FIRST, SPLIT, ALL };

// What a window's sum is divided by: nothing, a number, its cells with those of the padding, its real cells, or a
// number for each output.
enum class Count { NONE, FIXED, COUNTED, REAL, EACH };

// How the mean of integers becomes an integer (rule "Integers"), if it does.
enum class Rounding { NONE, HALF_EVEN, HALF_UP, HALF_AWAY, FLOOR, TRUNCATE };

// Which order statistic: a mode, by what is done about several, or a quantile, by its method.
enum class Order { NONE, MODE_FIRST, MODE_SMALLEST, MODE_LARGEST, LOWER, HIGHER, NEAREST, LINEAR, MIDPOINT };

NDPOOL_INLINE bool is_mode(Order order) { return order >= Order::MODE_FIRST && order <= Order::MODE_LARGEST; }
// Whether the result lies between two cells, and is no cell itself.
NDPOOL_INLINE bool is_between_cells(Order order) { return order >= Order::LINEAR; }

// Cells that are not there (rule "Skipped cells"): those that equal a value, or are NaN if the value is.
struct Skip {
    bool any = false;          // whether there may be such cells at all
    std::uint64_t value = 0;   // in the lowest bits, as x has it
    std::uint64_t absent = 0;  // the same as y has it: what an output is that sees too few cells
    i64 min_count = 1;         // fewer than so many
    i64 beyond = 0;            // what is added to the place of a winner there: the cells of the plan
};

// Arrays that are not dense: crops, views with steps, other orders of axes, one number repeated.
//
// Each has a step in elements for every dimension of the request; null stands for an array that is dense.
struct Views {
    int dims, leading;    // of which so many stand before the first that is pooled
    const i64 *in, *out;  // the lengths of the input's dimensions, and of the output's
    const i64 *x = nullptr, *t = nullptr, *g = nullptr;
    const i64 *y = nullptr, *gx = nullptr;

    bool any() const { return x || t || g || y || gx; }
};

// How an operation on dense arrays goes. It follows from the plan, and is decided once.
struct Decision {
    bool in_one_row = false;  // whether its slabs are one long row
    Way way = Way::NONE;
    Way of_strands = Way::NONE;  // by BATCH, the way that these go by themselves
};

// One operation on arrays whose sizes have been checked.
struct Call {
    Op op;
    Type type;             // of x and, for Max and Min, y
    Type derivative;       // of t, dy, g, gx
    bool minimum = false;  // Min in place of Max
    Ties ties = Ties::FIRST;
    Count count = Count::NONE;
    double divisor = 1;
    Rounding rounding = Rounding::NONE;  // of the mean, where x has integers
    bool lp = false;
    double parameter = 0;  // beta, p or q
    Order order = Order::NONE;
    // The pooled axes as they lie in memory, by numbers whose order is the caller's; null where both orders are one.
    const i64 *pooled = nullptr;
    bool count_pad = false;
    int winner_bytes = 0;
    Skip skip;
    Way asked = Way::NONE;         // the way that must be gone, if any
    bool past_the_caches = false;  // whether results must be written there, worth it or not
    Way *told = nullptr;           // if set, the way is written here and nothing is run
    const Decision *decided = nullptr;  // if set, how it goes
    const void *x = nullptr, *y_in = nullptr, *t = nullptr, *g = nullptr, *winners_in = nullptr;
    void *y = nullptr, *dy = nullptr, *gx = nullptr, *winners = nullptr;
    i64 *indices = nullptr;
    // Where cells are skipped, a number for each output, in a byte or a double: what its sum is divided by
    // (Count::EACH); or how many cells are there (SMOOTH), so that nobody looks at an output without any.
    const void *counts = nullptr;
    int count_bytes = 0;
    bool some_absent = false;      // whether an output may equal none of its cells (ties)
    const Views *views = nullptr;  // if set, some of the arrays are not dense
};

// Of an element. Sums of integers have 64 bits, and so do their means, unless these are rounded, and what is smooth.
NDPOOL_INLINE i64 bytes_of_y(const Call &call) {
    const bool widens = (call.op == Op::SUM && call.rounding == Rounding::NONE) || call.op == Op::SMOOTH ||
                        is_between_cells(call.order);
    return widens && !is_float(call.type) ? 8 : size_of(call.type);
}

}  // namespace ndpool
