// Which way a plan goes: decided here, before anything runs.
//
// The ways of an operation stand in a list, in order of preference. A plan goes the first that can do it and suits it;
// the last one suits every plan. A way can also be asked for by its name, wherever it can do the plan.
#pragma once
#include "plan/geometry.h"

namespace ndpool {

enum class Way {
    BATCH,  // any operation: many small slabs or pieces of a row, one a lane
    // Forward.
    SLIDE,     // one pooled axis after the other, each over whole planes
    PAIRS,     // windows of 2 narrow integers in steps of 2, as halves of words
    DIRECT,    // windows of 2 or 3 cells in steps of 2, in registers
    TILES,     // channels last, windows of 2 or 3 cells, or 2 by 2 or 3 by 3 of them, in registers
    CELLS,     // channels last, all cells of a window in turn
    SEGMENTS,  // windows that hardly overlap, each a register by itself, and some folded together
    KEPT,  // windows in steps of one along each row, cell by cell, kept until all windows over the row have merged them
    WIDEN,  // rows merged, then a wide window along the row
    ROWS,   // rows merged, then the cells of a window along the row
    // Back.
    SQUARES,  // cells ask the windows over them, two by two cells at a time
    GATHER,   // cells ask the windows over them
    COLUMNS,  // winners hand to their columns, along the row, and cells ask the rows over them
    SCATTER,  // winners hand to their cells
    SPREAD,   // rows of windows are added up, then spread along the row
    OWN,      // winners, SmoothMax: every window has its cells to itself
    TERMS,    // SmoothMax, Lp: terms with one scale for many windows, then their sums
    TIES,     // windows look for the cells that tie
    TAPS,     // ties: cells ask all windows over them
    AXES,     // winners, ties: one axis after the other
    // Order statistics.
    NETWORK,     // small windows, one a lane: networks that sort, counts of equal cells
    HISTOGRAMS,  // wide windows of bytes that overlap: histograms of columns that slide
    RANKS,       // wide windows that overlap: sets of ranks that slide
    WINDOWS,     // each window by itself
    NONE,
};

const char *name_of(Way way);
// The way of that name; throws std::invalid_argument where there is none.
Way way_named(const char *name);

[[noreturn]] void cannot_go(Way asked);  // throws std::invalid_argument

// Which of the ways in registers are compiled for a kind: none, those along rows, those along rows and with channels
// last.
enum class Tuned { NOT, ROWS, ALL };

// What the choice depends on, of a kind at an instruction level.
struct Lanes {
    i64 many, few;  // how many are worked on at a time, in long rows and in short ones
    bool tagged;    // whether places in the window matter
    bool slides;    // whether one axis can go after the other
    Tuned tuned;
    bool narrow;          // whether cells of one or two bytes are read into wider lanes
    bool short_build;     // whether the level has the ways alone that every plan needs
    bool sums = false;    // whether cells are added up
    bool in_two = false;  // whether one axis after the other takes two numbers for each cell
    i64 in_words = 0;    // of how many narrow integers the sum fits into words of twice their size, if that is compiled
    bool keeps = false;  // whether the windows along each row can be kept
    bool columns_first = false;  // whether sums are in order: down the columns of a window, and then along the row
    bool in_pairs = false;       // whether narrow cells are widened two at a time
};

// BATCH can cut the one row of a slab into pieces of equal windows, none of which sees padding: `count` pieces of
// `outputs` each, from output `first` on. None, if they would be fewer than two.
struct RowPieces {
    i64 count = 0, outputs = 0, first = 0;
    bool of_all_rows = false;  // whether there are rows enough that a piece of each fills the lanes
};
// BATCH works on about so many bytes of input at a time: a part of the second-level cache.
constexpr i64 BATCH_BYTES = 96 << 10;
// Pieces of as many elements of `bytes` as that leaves to a lane, but not much shorter than their windows; where rows
// are few, so many pieces that they fill the lanes.
RowPieces row_pieces(const Plan &plan, i64 lanes, i64 bytes);

// Whether a plan goes by BATCH, with so many lanes of so many bytes, and results of so many; `forward` says that
// windows are what is computed, and not cells, `adds` what is added up in them, and `tagged` that their winners are
// looked for.
enum class Adds { NOTHING, CELLS, TERMS };
bool can_batch(const Plan &plan, bool forward);
bool suits_batch(const Plan &plan, bool forward, Adds adds, bool tagged, i64 lanes, i64 bytes, i64 result_bytes);
// The same of Max and Min where windows overlap: their merges, and twice as many of winners, are the more wasted on the
// shorter a row is.
bool suits_batch_overlapping(const Plan &plan, bool tagged, i64 lanes, i64 bytes);

// Whether windows along one axis stand side by side and leave no cell out, nor from one slab to the next. They are
// windows of one long row then, and what is done for each row is done once.
bool tiles_rows(const Plan &plan);
Plan in_one_row(const Plan &plan);

// The way forward. `asked` is one that must be taken, or NONE; throws std::invalid_argument where it cannot.
Way choose_forward(const Plan &plan, const Lanes &lanes, Way asked);

// Up to how many cells of a window squares are faster in rows too short for a register, and whether a kind has them.
struct BySquares {
    i64 in_short_rows = 0;
    bool can = true;
};
// The way back: SQUARES, or the one that can always be gone.
Way choose_back(const Plan &plan, const Lanes &lanes, const BySquares &squares, Way always, Way asked);

// Whether a cell adds up what a row of outputs hands to it first, and then the rows; or else one output after the
// other. That follows from the window, and not from how many of them there are: a part of an array adds up as the whole
// does, whichever way each of them goes. Rows are first where windows may go by COLUMNS.
bool adds_rows_first(const Plan &plan, i64 lanes, bool one_of_column);

// The way back of winners, which are places of so many bytes. `one_of_column` says that windows of a row which are won
// in the same column are won by the same cell.
Way choose_winners_back(const Plan &plan, const Lanes &lanes, int winner_bytes, bool one_of_column, Way asked);

// The way of an order statistic, a mode or a quantile of cells of so many bytes.
struct OrderTraits {
    bool mode, skips;
    i64 bytes;
    bool values;  // whether values are all that is asked for, and not the cells that they are
};
Way choose_order(const Plan &plan, const OrderTraits &traits, Way asked);

// Windows of up to so many cells are sorted in lanes, whose places a byte counts.
constexpr i64 MOST_IN_NETWORK = 255;
// Whether they are there in less time than another way would take.
bool suits_network(const Plan &plan, const OrderTraits &traits);

// Whether ties go back by OWN: windows have their cells to themselves, and these are counted in numbers of so many
// bytes.
bool can_tied_apart(const Plan &plan, i64 lanes, i64 bytes);
// Whether ties go back by TAPS, with so many lanes, and not by the best of each column: along one row, where that is
// the cell itself; over windows that are `far_apart` and so taken one by one; and with many channels last, where few
// windows are over a cell.
bool suits_tied_taps(const Plan &plan, bool far_apart, i64 lanes);
// Whether ties go back by AXES. Over three axes and more, a cell adds up what it gets along one axis after the other,
// which no other way does but SQUARES.
bool can_tied_axes(const Plan &plan);
bool suits_tied_axes(const Plan &plan);

// The parts of the choice that the ways themselves ask.

// Whether SLIDE pools along the first of several axes before the others: its windows move on by more than a cell, and
// do not overlap so much that to merge each by itself would take longer.
constexpr bool slides_first_axis_first(i64 kernel, i64 stride) {
    return stride > 1 && kernel > 1 && kernel <= 4 * stride;
}

// Whether no cell is within the reach of two windows.
bool windows_apart(const Plan &plan);

// Whether winners are so few beside the cells that to visit them takes less time than to transpose these; and slabs not
// so small that to begin each takes longer, nor so large that the sums of several leave the nearest cache. Of `lanes`
// sums at a time; where the outputs of short rows are added up first, visits take longer.
bool few_winners(const Plan &plan, i64 lanes);

// From the first row that a window sees to the last one: of so many, KEPT keeps the windows along them.
i64 rows_to_keep(const Plan &plan);

// Of windows of 2 or 3 cells in steps of 2, the outputs whose last two cells are real.
struct DirectOutputs {
    i64 first, stop;
};
DirectOutputs direct_outputs(const Axis &axis);

// Whether the last two axes have windows of 2 by 2 or 3 by 3 cells in steps of 2.
bool in_squares(const Plan &plan);

}  // namespace ndpool
