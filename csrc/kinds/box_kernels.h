// What a level does for boxes: all x with lo <= x <= hi, cell by cell. kinds/boxes.h says what for.
#pragma once
#include "base/types.h"

namespace ndpool {

// What one look at a part of a box finds.
struct BoxCheck {
    bool in_order;   // lo <= hi everywhere, and no NaN
    double largest;  // magnitude of all ends, where it was asked for; not finite where one of them is not
};

// How far the ends of an interval are moved outward: y by |y| relative + absolute.
struct Outward {
    double relative;
    double absolute;  // where all outputs have the same
    double per_size;  // else (times a size, plus floor) times `counted`, plus `least`, in doubles
    double floor, counted, least;
    bool up;         // which way
    bool from_zero;  // whether no output is negative
};

// Where the cells of a group of windows are, one window a lane: at first, first + step, ... from where the row starts.
// With step SCATTERED the places of the lanes are listed, from number `first` on, with -1 where a window has no cell.
struct Tap {
    static constexpr i64 SCATTERED = 0, NOWHERE = -1;
    i64 first, step;
};

// Cells that follow each other in a window and in its row: so many from `first` on, with places from `place` on.
struct Run {
    i64 first, count, place;
};

// All windows of a pool over matrices of (rows, cells), as groups of lanes. What is computed is a matrix of (rows,
// windows). Where windows are fewer than lanes, a group has those of several rows.
struct LaneWindows {
    int lanes;  // of a group
    int used;   // of these, so many are windows; the others repeat the first
    i64 rows, cells, windows;
    i64 taps;    // cells of the largest window
    i64 groups;  // over rows_at_once rows
    i64 rows_at_once;
    const Tap *tap;    // [groups][taps]
    const i64 *start;  // [groups] the first window
    const i64 *scattered;
    const std::uint32_t *first_place;  // [groups][lanes] the number of the first cell that there is
    // Where windows are few and long: those of window w are runs[run_start[w]..run_start[w + 1] - 1]. Else null.
    const Run *runs;
    const i64 *run_start;

    NDPOOL_INLINE i64 blocks() const { return (rows + rows_at_once - 1) / rows_at_once; }
    // The last block of rows overlaps the one before it, and writes only what that does not.
    NDPOOL_INLINE i64 row_of(i64 block) const {
        const i64 row = block * rows_at_once;
        return row + rows_at_once <= rows ? row : rows - rows_at_once;
    }
    NDPOOL_INLINE i64 repeated(i64 block) const { return (block * rows_at_once - row_of(block)) * windows; }
};

// The line above a maximum and the cell below it, of each window: see Boxes::select.
struct SelectLines {
    const void *lo, *hi;
    void *below, *above;  // places in the window, in place_bytes each
    int place_bytes;
    void *slope, *bias;  // in the type of lo and hi
    bool minimum;        // of the negated box, which gives a maximum
    bool by_lo;          // below: the cell with the largest lo, not the largest midpoint
    bool constant;       // above: the largest hi
};

// The affine maps below and above a kind, with a slope for each cell: [rows][taps][windows] and [rows][windows].
struct CellLines {
    const void *lo, *hi;
    bool minimum;
    double parameter;       // beta > 0, or p; of a maximum, which of the largest hi it is drawn from, counted from 0
    bool by_lo;             // of a maximum: below it is the cell with the largest lo, not the largest midpoint
    const double *at;       // [rows][cells] of a maximum: the point where it is drawn the tightest; null for none
    const double *weights;  // [rows][cells] of a maximum: what is mixed below it; null for one cell
    const double *zeros;    // [windows] of SmoothMax: padded cells that count as zeros; null for none
    void *below_slopes, *below_bias, *above_slopes, *above_bias;  // in the type of lo and hi
};

#define NDPOOL_BOX_KERNELS                                                                                           \
    BoxCheck check_box(Type type, const void *lo, const void *hi, i64 count, bool wants_largest);                    \
    void magnitudes(Type type, const void *lo, const void *hi, void *least, void *largest, i64 count);               \
    bool move_outward(Type type, void *y, const void *sizes, i64 count, const Outward &error);                       \
    void select_lines(Type type, const LaneWindows &windows, const SelectLines &lines, i64 block, i64 from, i64 to); \
    bool smooth_lines(Type type, const LaneWindows &windows, const CellLines &lines, i64 block, i64 from, i64 to);   \
    bool norm_lines(Type type, const LaneWindows &windows, const CellLines &lines, i64 block, i64 from, i64 to);     \
    bool maximum_lines(Type type, const LaneWindows &windows, const CellLines &lines, i64 block, i64 from, i64 to);

namespace a_level {  // has their types, and is none
NDPOOL_BOX_KERNELS
}
#define NDPOOL_BUILT(LEVEL) \
    namespace LEVEL { \
    NDPOOL_BOX_KERNELS \
    }
#include <built_levels.def>  // CMakeLists.txt writes it
#undef NDPOOL_BUILT
#undef NDPOOL_BOX_KERNELS

}  // namespace ndpool
