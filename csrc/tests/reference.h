// What every result should be, from the definition of pooling: each window's cells are listed one by one, and nothing
// of the engine's geometry is used.
#pragma once
#include <string>
#include <vector>

#include "tests/numbers.h"

namespace ndpool_tests {

enum class Side { CARRIED, WINDOW, ADAPTIVE, GLOBAL };

// One dimension of the input.
struct Dimension {
    Side side = Side::CARRIED;
    i64 length = 1;
    i64 kernel = 1, stride = 1, dilation = 1, pad_lo = 0, pad_hi = 0;  // of a WINDOW
    bool ceil_mode = false;
    i64 bins = 1;  // of ADAPTIVE

    bool pooled() const { return side != Side::CARRIED; }
    i64 outputs() const;
    // The cells that output o sees, in order: -1 for a padded one that counts, and none for one beyond the padding.
    std::vector<i64> cells(i64 o) const;
    // What the engine is told.
    std::vector<i64> numbers() const;
};

using Shape = std::vector<Dimension>;

// The window of one output.
struct Window {
    std::vector<i64> cells;    // the real ones, as elements of the input, in row-major order
    std::vector<i64> indices;  // the same as flat indices over the pooled axes
    i64 padded = 0;            // cells of the padding that count
};

i64 inputs_of(const Shape &shape);
i64 outputs_of(const Shape &shape);
Window window_of(const Shape &shape, i64 output);
bool every_window_has_a_cell(const Shape &shape);

struct KindSpec {
    std::string name, option;
    double parameter = 0;
    bool selects() const { return name == "max" || name == "min"; }
    bool is_smooth() const { return name == "smooth_max" || name == "lp"; }
    // What the option of a mean counts, and how that is rounded; empty if it is not.
    std::string counts() const { return option.substr(0, option.find(' ')); }
    std::string rounding() const {
        const std::size_t space = option.find(' ');
        return space == std::string::npos ? "" : option.substr(space + 1);
    }
    bool needs_cell() const { return selects() || name == "lp" || counts() == "real"; }
};

__extension__ typedef __int128 Wide;  // holds any sum of 64-bit integers

// One output: its value, its weight on each cell of the window, the place of the first winner among the window's cells,
// and the size of what was added up, which rounding errors are relative to.
struct Expected {
    Real value = 0, size = 0;
    std::vector<Real> weights;
    std::size_t winner = 0;
};

// The mean of integers whose sum is this, as the kind rounds it.
std::int64_t rounded_mean(const KindSpec &kind, Wide sum, i64 divisor);

Expected expected_of(const KindSpec &kind, const std::vector<Real> &cells, i64 padded);

}  // namespace ndpool_tests
