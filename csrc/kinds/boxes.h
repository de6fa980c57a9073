// Pools over boxes: what they give for all x with lo <= x <= hi, cell by cell.
#pragma once
#include <memory>
#include <vector>

#include "kinds/box_kernels.h"
#include "kinds/engine.h"

namespace ndpool {

// How the ends of an interval are rounded: outward by |y| relative + (size * per_size + floor) * counted + least.
struct EndsError {
    enum class Size { NONE, OF_PIECE, OF_WINDOW };  // the largest magnitude in what is looked at, or 0
    bool any = false;
    Size size = Size::NONE;
    double relative = 0, per_size = 0, floor = 0, counted = 0, least = 0;
};

// A pool that grows with every cell (or, as Lp, with every magnitude): the ends of its interval.
//
// The box is read once. It is cut into pieces that stay in the cache: each is checked, pooled at both ends, and
// rounded.
class BoxedPool {
  public:
    explicit BoxedPool(const Request &request);

    // Whether lo <= hi everywhere; if not, nothing is said of the results. Into `odd` go the pieces, of so many outer
    // slabs, that have an end or an output which is not finite where numbers were to be rounded: their results are
    // wrong.
    bool bounds(const Array &lo, const Array &hi, const Array &ylo, const Array &yhi, const EndsError &error,
                int threads, std::vector<i64> &odd) const;

    i64 slabs_of_piece() const { return piece; }

  private:
    bool by_magnitude;
    i64 outer = 1, piece = 1;
    std::unique_ptr<PlannedPool> full, rest;              // over a piece, and over the last one if that is smaller
    std::unique_ptr<PlannedPool> full_sizes, rest_sizes;  // the largest cell of each window, of quantiles

    bool run_piece(i64 number, const Array &lo, const Array &hi, const Array &ylo, const Array &yhi,
                   const EndsError &error, bool &is_odd) const;
};

// Windows over matrices of (rows, cells), as the lanes of registers.
class Boxes {
  public:
    // places[taps][windows] are cells of a row, where `real` says that there is one. Outputs lie in lines of so many.
    Boxes(const i64 *places, const bool *real, i64 taps, i64 windows, i64 rows, i64 cells, i64 line, int lanes);
    Boxes(const Boxes &) = delete;
    Boxes &operator=(const Boxes &) = delete;

    // The cell below a maximum and the line above it. Whether lo <= hi everywhere.
    bool select(Type type, const SelectLines &lines, int threads) const;

    enum class Kind { MAX, SMOOTH_MAX, LP };
    // The maps below and above a kind with a slope for each cell. `is_odd` tells whether some window has no line, and
    // NaN for its biases. A NaN in both ends is a cell that is not there, where `check` is false.
    bool relax(Kind kind, Type type, const CellLines &lines, bool check, int threads, bool &is_odd) const;

    i64 inputs() const { return view.rows * view.cells; }
    i64 outputs() const { return view.rows * view.windows; }
    i64 taps() const { return view.taps; }
    i64 windows() const { return view.windows; }
    int lanes() const { return view.lanes; }

  private:
    LaneWindows view{};
    std::vector<Tap> tap;
    std::vector<i64> starts, scattered;
    std::vector<std::uint32_t> first_places;
    std::vector<Run> runs;
    std::vector<i64> run_starts;

    void add_runs(const i64 *places, const bool *real);
    void add_group(const i64 *places, const bool *real, i64 start);
    template <class Work>
    bool over_blocks(Type type, const void *lo, const void *hi, bool check, int threads, const Work &work) const;
};

}  // namespace ndpool
