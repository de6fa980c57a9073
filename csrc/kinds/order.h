// Order statistics: what all their ways have in common, whatever the instruction level.
//
// A way finds, for each output, the one or two cells that it leans on. What is done with them, a value, a derivative,
// is the same for all.
#pragma once
#include "base/scratch.h"
#include "plan/call.h"

namespace ndpool {

// Between which two of n cells in order a quantile lies, and the share of the latter; twice one that it is.
struct Between {
    i64 lo, hi;
    double share;
};
Between between(i64 n, Order method, double q);

// The number between a and b, from the nearer one, so that it is never beyond the other. If they are infinite, or too
// far apart for their distance to be a number, their shares are added up.
inline double mixed(double a, double b, double share) {
    const double apart = b - a;
    if (apart - apart != 0) return (1 - share) * a + share * b;
    return share < 0.5 ? a + apart * share : b - apart * (1 - share);
}

// How many cells an output needs.
i64 least_count(const Call &call);

// The cells that an output leans on, as elements of x; -1 where it sees too few (rule "Skipped cells").
struct Found {
    i64 lo, hi;
    double share;  // of `hi`, which is `lo` where there is one cell
    i64 place;     // of `lo`, in the window; of any real cell where there are too few
};
// Takes what was found for the elements of one output row.
struct FoundRows {
    const void *self;
    void (*take)(const void *self, i64 row, const Found *found);
};

// --- keys -----------------------------------------------------------------------------------------

// Cells as unsigned numbers of their size, in whose order they are: equal cells have equal keys.
//
//     integers  bits ^ flip
//     floats    bits ^ (all ones or the sign) ^ flip, one key for all NaNs and one for both zeros
//
// Cells that are skipped have the largest key, which no other has: integers beyond the skipped one move down by one.
struct Keying {
    i64 bytes;
    bool floats;
    std::uint64_t top;       // the highest bit
    std::uint64_t ones;      // all bits of a cell
    std::uint64_t flip;      // all bits where the largest is wanted first; and the sign of signed integers
    std::uint64_t infinity;  // as bits
    std::uint64_t nan;       // the key of NaNs
    bool skips, skips_nan;
    std::uint64_t skipped;  // the key that is skipped

    explicit Keying(const Call &call);

    bool is_identity() const { return !floats && !skips && flip == 0; }
};

// --- parts ----------------------------------------------------------------------------------------

// Some outputs along the first pooled axis of one slab, with the cells that they see.
struct Part {
    Plan plan;
    i64 in, out;  // where it starts in the arrays
};
// Parts that threads share, each of about so many elements of input.
struct Parts {
    const Plan &plan;
    i64 outputs, bands, count;

    Parts(const Plan &plan, i64 elements);
    Part operator[](i64 number) const;
};

// How much the place in a window grows by a step along each pooled axis, in the order of the caller's axes.
struct Weights {
    i64 of[MAX_DIMS];
    Weights(const Plan &plan, const i64 *pooled);
};

// --- ways that are compiled once ----------------------------------------------------------------------

// Both look at x alone, of which `plan` has one slab.
void find_by_windows(const Plan &plan, const Call &call, const FoundRows &rows);
void find_by_ranks(const Plan &plan, const Call &call, const FoundRows &rows);

}  // namespace ndpool
