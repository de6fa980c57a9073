#include "plan/choice.h"

#include <cstring>
#include <stdexcept>
#include <string>

namespace ndpool {
namespace {

const char *const NAMES[] = {"batch", "slide", "pairs",   "direct", "tiles",   "cells",      "segments", "kept",
                             "widen", "rows",  "squares", "gather", "columns", "scatter",    "spread",   "own",
                             "terms", "ties",  "taps",    "axes",   "network", "histograms", "ranks",    "windows"};

using Condition = bool (*)(const Plan &, const Lanes &);

struct Entry {
    Way way;
    Condition can, suits;
};

bool always(const Plan &, const Lanes &) { return true; }

// --- forward ------------------------------------------------------------------------------------

bool can_slide(const Plan &plan, const Lanes &lanes) {
    for (int a = 0; a < plan.axis_count; ++a)
        if (plan.axes[a].adaptive) return false;
    return lanes.slides && (plan.dim_count > 0 || plan.inner >= lanes.many);
}
bool is_wide(const Axis &axis) { return !axis.adaptive && axis.kernel >= 6 && axis.kernel >= 4 * axis.stride; }
i64 seen_along(const Axis &axis) { return (axis.output - 1) * axis.stride + axis.dilation * (axis.kernel - 1) + 1; }
bool small_steps_of_two(const Axis &axis) {
    return !axis.adaptive && axis.stride == 2 && axis.dilation == 1 && (axis.kernel == 2 || axis.kernel == 3);
}

// What it takes, as it was measured, in loads, merges and stores of a register: between two rows; and, where one axis
// goes after the other, to read a cell, for each output and for each of its cells along an axis, and to pick outputs in
// steps.
struct Prices {
    double between_rows, cell, output, tap, pick;
};
constexpr Prices OF_VALUES{35, 1, 2.3, 0.37, 6}, OF_WINNERS{20, 4.6, 2.5, 0.23, 8};
const Prices &prices(const Lanes &lanes) { return lanes.tagged ? OF_WINNERS : OF_VALUES; }

// How much there is to do for each output.
double rows_take(const Plan &plan, const Lanes &lanes) {
    const Axis &axis = plan.last();
    const bool pairs = plan.inner == 1 && small_steps_of_two(axis);         // both steps are in registers there
    const i64 along = pairs ? 2 : 4 + (axis.kernel < 8 ? axis.kernel : 8);  // wide ones have a way of their own
    auto registers = [&](i64 elements) { return (elements + lanes.many - 1) / lanes.many; };
    const i64 merges = plan.outer_cells * registers(seen_along(axis) * plan.inner),
              pooled = along * registers(plan.out_row);
    const double takes = static_cast<double>(merges + pooled) + (pairs ? 20 : prices(lanes).between_rows);
    return takes * static_cast<double>(lanes.many) / static_cast<double>(plan.out_row);
}
double slide_takes(const Plan &plan, const Lanes &lanes) {
    const Prices &price = prices(lanes);
    auto outputs = [](const Axis &axis) { return static_cast<double>(axis.output); };
    auto seen = [](const Axis &axis) { return static_cast<double>(seen_along(axis)); };
    double cells = 1, all = 1;  // that are left, for each output; lanes of a slab
    for (int a = 0; a < plan.axis_count; ++a) cells *= seen(plan.axes[a]) / outputs(plan.axes[a]);
    for (int a = 0; a < plan.axis_count; ++a) all *= seen(plan.axes[a]);
    double takes = price.cell * cells + 4;
    // Along the rows first, unless the first axis leaves fewer of them.
    const bool first = !lanes.tagged && plan.dim_count && plan.dims[0].axis == 0 &&
                       slides_first_axis_first(plan.axes[0].kernel, plan.axes[0].stride);
    for (int n = 0; n < plan.axis_count; ++n) {
        const int a = first ? (plan.axis_count - n) % plan.axis_count : plan.axis_count - 1 - n;
        const Axis &axis = plan.axes[a];
        const bool flat = a + 1 == plan.axis_count && plan.inner == 1;
        cells *= outputs(axis) / seen(axis);
        const double each = price.output + price.tap * static_cast<double>(axis.kernel < 20 ? axis.kernel : 20);
        takes +=
            cells * (each * (flat ? static_cast<double>(axis.stride) : 1) + (flat && axis.stride > 1 ? price.pick : 0));
    }
    // Blocks of more dimensions overlap more; and where they do not even hold what one output along the first axis
    // sees, its planes are handed on from block to block, past the second-level cache.
    constexpr double BLOCK = 1 << 17;
    const Axis &axis = plan.axes[0];
    const double slab = all * static_cast<double>(plan.inner),
                 planes = static_cast<double>(axis.dilation * (axis.kernel - 1) + 1);
    const bool handed_on = !first && plan.axis_count > 1 && slab / seen(axis) * planes > BLOCK;
    if (lanes.in_two) takes *= lanes.tagged ? 1.2 : 1.3;
    return takes * (handed_on ? 1.4 : slab > BLOCK && plan.axis_count > 2 ? 1.1 : 1);
}
bool can_pairs(const Plan &plan, const Lanes &lanes) {
    return plan.inner == 1 && small_steps_of_two(plan.last()) && plan.last().kernel == 2 &&
           plan.cells <= lanes.in_words;
}
bool suits_pairs(const Plan &plan, const Lanes &lanes) { return plan.last().output >= 2 * lanes.many + 2; }

bool can_direct(const Plan &plan, const Lanes &lanes) {
    if (lanes.tuned < Tuned::ROWS || plan.inner > 1 || !small_steps_of_two(plan.last())) return false;
    const DirectOutputs direct = direct_outputs(plan.last());
    return direct.stop - direct.first >= lanes.few;
}
// So many rows are better merged first, a long row at a time. What is left of a short row is taken cell by cell, each
// of which takes long to widen where it is narrow.
bool suits_direct(const Plan &plan, const Lanes &lanes) {
    // Of four axes, the planes of a window are too many to be asked for ahead, and rows at their edges are many.
    if (plan.axis_count > 3 && (plan.padded || plan.outer * plan.in_slab >= 1 << 23)) return false;
    if (!lanes.narrow) return plan.outer_cells < 16;
    const bool three = plan.last().kernel == 3;
    return plan.outer_cells < (three ? 3 : 6) && plan.last().output >= (three ? 8 : 2) * lanes.many;
}

bool can_tiles(const Plan &plan, const Lanes &lanes) {
    return lanes.tuned == Tuned::ALL && plan.inner >= lanes.many && !plan.last().adaptive &&
           (plan.outer_cells == 1 || plan.outer_cells == plan.last().kernel) &&
           (plan.last().kernel == 2 || plan.last().kernel == 3);
}
// In steps of one, rows that are merged once serve two or three windows.
// Narrow cells are better widened a row at a time where places are short, or where two of them are widened together.
bool suits_tiles(const Plan &plan, const Lanes &lanes) {
    if (lanes.sums && lanes.narrow && (plan.inner <= 3 * lanes.many || (lanes.in_pairs && plan.outer_cells == 3)))
        return false;
    return plan.last().stride > 1 || plan.inner > 2 * lanes.many;
}

// Windows over a cell, or so, along the axes before `stop`.
double windows_before(const Plan &plan, int stop) {
    double over = 1;
    for (int a = 0; a < stop; ++a)
        if (plan.axes[a].output > 1 && plan.axes[a].kernel > plan.axes[a].stride)
            over *= static_cast<double>(plan.axes[a].kernel) / static_cast<double>(plan.axes[a].stride);
    return over;
}
bool can_widen(const Plan &plan, const Lanes &lanes) {
    return !lanes.short_build && !plan.last().adaptive && plan.last().kernel >= 3;
}
// Places are twice as much to merge and to store.
bool suits_widen(const Plan &plan, const Lanes &lanes) {
    const Axis &axis = plan.last();
    // Of sums over several rows, a few cells are merged as soon.
    if (lanes.sums && plan.dim_count && axis.kernel < 8) return false;
    return is_wide(axis) && (!lanes.tagged || axis.kernel >= (plan.dim_count ? 6 : 12) * axis.stride);
}

// What is in registers along both axes is better than any estimate of rows.
bool suits_slide(const Plan &plan, const Lanes &lanes) {
    const Axis &axis = plan.axes[0];
    if (plan.axis_count == 1) return axis.kernel >= 16 && axis.kernel >= 8 * axis.stride;
    if (can_direct(plan, lanes) && suits_direct(plan, lanes)) return windows_before(plan, plan.axis_count - 1) >= 8;
    if (plan.last().stride > 1 && can_tiles(plan, lanes)) return false;
    if (plan.inner >= lanes.many && windows_before(plan, plan.axis_count) < 2) return false;
    // Two numbers for each cell are as much to merge as windows that double.
    if (lanes.in_two && plan.axis_count == 2 && can_widen(plan, lanes) && suits_widen(plan, lanes)) return false;
    return slide_takes(plan, lanes) < rows_take(plan, lanes);
}

bool can_cells(const Plan &plan, const Lanes &) { return plan.inner > 1; }
// Loads and merges for each output: of all cells, or of the rows once and then along the row. To read a narrow cell is
// as much as two merges.
bool suits_cells(const Plan &plan, const Lanes &lanes) {
    const Axis &axis = plan.last();
    const i64 step = axis.adaptive ? axis.kernel : axis.stride < axis.kernel ? axis.stride : axis.kernel;
    if (is_wide(axis)) return false;
    const bool one_window = plan.out_row == plan.inner;
    // A long window that is all of its rows is read from end to end.
    if (one_window && plan.outer_cells > 1 && plan.in_row >= 32 * lanes.many) return true;
    // Cells that are widened are better widened a row at a time, unless places are long.
    if (lanes.sums && !lanes.in_two && plan.outer_cells > 1 && plan.inner <= (lanes.narrow ? 16 : 2) * lanes.many)
        return false;
    // Memory is not read ahead where short parts of many rows take turns.
    const bool far = plan.outer * plan.in_slab >= 1 << 20;
    if (far && !one_window && plan.outer_cells >= 8 && axis.kernel * plan.inner < 2048) return false;
    // Rows are merged by whole registers, however short a place is.
    if (4 * plan.inner < lanes.many && axis.kernel * plan.inner < 8 * lanes.many) return false;
    if (plan.inner < lanes.many && (plan.outer_cells > 1 || (!axis.adaptive && axis.stride <= 2))) return false;
    // In steps of one, rows are long loops over all places, where this is a loop for each.
    if (axis.stride == 1 && !axis.adaptive && !one_window) return false;
    // A loop for each of many short rows of a window costs more than to merge whole rows first.
    if (!one_window && plan.outer_cells >= 2 * axis.kernel && plan.inner <= 2 * lanes.many) return false;
    const i64 read = lanes.narrow ? 2 * plan.outer_cells : plan.outer_cells;
    return read * axis.kernel <= read * step + axis.kernel + 2 * step;
}

bool can_segments(const Plan &plan, const Lanes &) { return plan.inner == 1; }
bool suits_segments(const Plan &plan, const Lanes &lanes) {
    const Axis &axis = plan.last();
    if (axis.adaptive) return true;
    if (axis.stride < 8 || axis.dilation > 1) return false;
    // Places are twice as much to fold, and up to 8 phases of them are made in registers. Of a sum, a part of a
    // register that is left over costs as much as a whole one.
    if (lanes.tagged) return axis.stride > 8 && axis.kernel >= 14;
    return axis.kernel >= 14 || (lanes.sums ? axis.kernel == 8 : axis.kernel >= 8);
}

bool can_keep(const Plan &plan, const Lanes &lanes) {
    const Axis &axis = plan.last();
    if (!lanes.keeps || axis.adaptive || axis.stride > 1 || axis.kernel == 1) return false;
    if (rows_to_keep(plan) * plan.out_row > i64(1) << 24) return false;
    for (int d = 0; d < plan.dim_count; ++d)
        if (plan.dims[d].in_stride % plan.in_row) return false;
    return plan.in_slab % plan.in_row == 0;
}
// Windows of few cells, in rows of some registers. Over several rows, only where each row is seen by some windows, and
// all that is kept stays in the second-level cache; of 2 x 2 cells, TILES is better than to keep much.
bool suits_keep(const Plan &plan, const Lanes &lanes) {
    const bool tiles = can_tiles(plan, lanes) && suits_tiles(plan, lanes);
    if (plan.outer_cells == 1)
        return !tiles && plan.last().kernel <= (lanes.tagged ? 11 : 8) && plan.out_row >= 4 * lanes.many;
    if (windows_before(plan, plan.axis_count - 1) < 2) return false;
    const i64 registers = plan.out_row / lanes.many, rows = plan.outer_cells, cells = plan.last().kernel;
    const i64 planes = lanes.tagged || lanes.in_two ? 2 : 1, room = planes * rows_to_keep(plan) * plan.out_row;
    if (room > 8192 * lanes.many) return false;
    if (tiles && cells == 2 && room > 1024 * lanes.many) return false;
    if (rows <= 3 && cells <= 8) return registers >= (lanes.tagged ? 3 : 4);
    if (rows <= 5 && cells <= 5) return registers >= (plan.inner > 1 ? 4 : 8);
    if (lanes.tagged || lanes.in_two || rows > 9 || cells > 4) return false;
    // Each row of outputs merges so many rows, which is quick over long ones.
    return plan.inner == 1 ? 2 * registers >= 3 * rows : lanes.sums && registers >= 16;
}

bool can_rows(const Plan &plan, const Lanes &) { return plan.inner > 1 || !plan.last().adaptive; }

const Entry FORWARD[] = {
    {Way::KEPT, can_keep, suits_keep},
    {Way::SLIDE, can_slide, suits_slide},
    {Way::PAIRS, can_pairs, suits_pairs},
    {Way::DIRECT, can_direct, suits_direct},
    {Way::TILES, can_tiles, suits_tiles},
    {Way::CELLS, can_cells, suits_cells},
    {Way::SEGMENTS, can_segments, suits_segments},
    {Way::WIDEN, can_widen, suits_widen},
    {Way::ROWS, can_rows, always},
};

}  // namespace

i64 rows_to_keep(const Plan &plan) {
    i64 rows = 1;
    for (int d = 0; d < plan.dim_count; ++d)
        if (const int a = plan.dims[d].axis; a >= 0)
            rows += plan.axes[a].dilation * (plan.axes[a].kernel - 1) * (plan.dims[d].in_stride / plan.in_row);
    return rows;
}

const char *name_of(Way way) { return NAMES[static_cast<int>(way)]; }

Way way_named(const char *name) {
    for (int i = 0; i < static_cast<int>(Way::NONE); ++i)
        if (std::strcmp(NAMES[i], name) == 0) return static_cast<Way>(i);
    throw std::invalid_argument(std::string("the engine has no way '") + name + "'");
}

void cannot_go(Way asked) {
    throw std::invalid_argument(std::string("this plan cannot go by '") + name_of(asked) + "'");
}

Way choose_forward(const Plan &plan, const Lanes &lanes, Way asked) {
    for (const Entry &entry : FORWARD) {
        if (asked != Way::NONE && entry.way != asked) continue;
        if (lanes.columns_first && entry.way != Way::DIRECT && entry.way != Way::ROWS) continue;
        if (entry.can(plan, lanes) && (asked != Way::NONE || entry.suits(plan, lanes))) return entry.way;
    }
    cannot_go(asked);
}

// --- either -------------------------------------------------------------------------------------

bool fill_lanes(i64 rows, i64 lanes) { return rows >= lanes - lanes / 4; }
// Whether a slab a lane, as it lies in memory and transposed, stays in the second-level cache beside all else; or in
// all of it, where rows are so short that other ways lose more.
bool slabs_stay_near(const Plan &plan, i64 lanes, i64 bytes, i64 room = 320 << 10) {
    return plan.in_slab <= (plan.in_row <= 2 * lanes && room < 1 << 20 ? 1 << 20 : room) / (lanes * bytes);
}

RowPieces row_pieces(const Plan &plan, i64 lanes, i64 bytes) {
    const Axis &axis = plan.last();
    if (plan.dim_count > 0 || axis.adaptive) return {};
    const i64 reach = axis.dilation * (axis.kernel - 1), s = axis.stride;
    const auto [first, stop] = whole_outputs(axis, 0, axis.output);
    // Pieces read the cells twice that windows of two of them see.
    const i64 least = reach < s ? 1 : 4 * reach / s + 1, near = BATCH_BYTES / (lanes * bytes) / (s * plan.inner);
    i64 count = (stop - first) / (near < least ? least : near);
    const bool of_all_rows = fill_lanes(plan.outer, lanes);
    if (!of_all_rows) {
        count = (count + lanes - 1) / lanes * lanes;
        while (count && (stop - first) / count < least) count -= lanes;
    }
    if (count < 2) return {};
    return {count, (stop - first) / count, first, of_all_rows};
}

bool can_batch(const Plan &plan, bool forward) {
    return plan.outer > 1 || (forward && row_pieces(plan, 8, 8).count > 0);
}

// Small windows in steps of two have ways in registers, along rows of some outputs.
bool in_long_pairs(const Plan &plan, i64 least = 16) {
    return plan.inner == 1 && small_steps_of_two(plan.last()) && plan.last().output >= least;
}
// Windows that overlap along several axes go one axis after the other, whatever a row is. That is better than to
// compute lanes that no slab has.
bool slides_as_well(const Plan &plan, i64 lanes, i64 bytes) {
    const bool half_empty = 4 * plan.outer < 3 * ((plan.outer + lanes - 1) / lanes * lanes);
    const Axis &axis = plan.last();
    return half_empty && plan.axis_count > 2 && !axis.adaptive && axis.kernel > 1 && axis.stride == 1 &&
           plan.in_slab > (320 << 10) / (lanes * bytes);
}

bool moves_in_steps(const Plan &plan) {
    bool steps = false;
    for (int a = 0; a < plan.axis_count; ++a) {
        if (plan.axes[a].adaptive) return false;
        steps |= plan.axes[a].stride > 1;
    }
    return steps;
}

// On the way back, it is rows of cells that are short.
bool suits_batch_back(const Plan &plan, Adds adds, i64 lanes, i64 bytes) {
    // Sums of narrow cells have lanes twice as wide: rows twice as long are as short, and half a register is as full.
    const bool widens = adds == Adds::CELLS && bytes == 2;
    // Terms are made for each row by itself, which takes as long as some hundred cells.
    if (adds == Adds::TERMS && plan.dim_count == 0 && plan.inner == 1)
        return fill_lanes(plan.outer, lanes) && slabs_stay_near(plan, lanes, bytes) && plan.in_row < 1000;
    if (in_long_pairs(plan) && !(widens && plan.last().output < lanes)) return false;
    if (!fill_lanes(plan.outer, widens && plan.in_row < 64 ? lanes / 2 : lanes)) return false;
    // Short rows of cells that several windows see lose more than slabs that are far away.
    const bool many_windows = adds == Adds::CELLS && bytes <= 4 && plan.axis_count > 2 && plan.in_row <= 32 &&
                              moves_in_steps(plan) && !windows_apart(plan);
    if (!slabs_stay_near(plan, lanes, bytes, many_windows ? 12 << 20 : 320 << 10)) return false;
    // Few doubles are in a register: larger slabs are transposed where rows are short and many windows over a cell.
    if (adds == Adds::CELLS && bytes == 8 && plan.inner == 1 && plan.in_slab >= 600)
        return plan.in_row < 32 && !windows_apart(plan);
    const bool short_rows = adds == Adds::NOTHING && plan.inner < lanes;  // of winners, most of which are only moved
    return plan.in_row < (widens ? 150 : short_rows ? 64 : 100) && plan.inner <= 2 * lanes;
}

bool tiles_rows(const Plan &plan) {
    const Axis &axis = plan.last();
    if (plan.outer == 1 || plan.dim_count > 0 || axis.length % axis.output) return false;
    return axis.adaptive || (axis.dilation == 1 && axis.pad_lo == 0 && axis.kernel == axis.stride &&
                             axis.length == axis.output * axis.stride);
}

Plan in_one_row(const Plan &plan) {
    Plan own = plan;
    Axis &axis = own.axes[0];
    own.cells = axis.length / axis.output;
    axis = {plan.outer * axis.length, plan.outer * axis.output, own.cells, own.cells, 1, 0, 0, false};
    own.outer = 1;
    own.in_row = own.in_slab = axis.length * own.inner;
    own.out_row = own.out_slab = axis.output * own.inner;
    own.padded = false, own.same_count = own.same_real = true;
    return own;
}

namespace {

// Forward: many slabs at a time, or pieces of a long row.
struct ForwardBatch {
    const Plan &plan;
    const Adds adds;
    const bool tagged;
    const i64 lanes, bytes, result_bytes;
    const Axis &axis = plan.last();
    const bool sums = adds == Adds::CELLS, narrow = bytes <= 2 && adds != Adds::TERMS,
               one_row = plan.dim_count == 0 && plan.inner == 1, is_full = fill_lanes(plan.outer, lanes);

    bool suits() const {
        // Of narrow cells, as many fill a register or two.
        const i64 long_row = one_row && narrow && bytes == 2 ? 4 * lanes : narrow && !sums ? lanes : 16;
        if (in_long_pairs(plan, long_row)) return false;
        if (adds != Adds::TERMS && slides_as_well(plan, lanes, bytes)) return false;
        if (has_long_windows()) return false;
        const bool fill = fills() && is_near();
        // To transpose a cell takes as much time as is lost between two rows over some hundred cells. Where places fill
        // registers by themselves, only very short rows lose more.
        const i64 cells_of_row = plan.in_slab / plan.out_rows;
        if (plan.inner >= lanes) return fill && cells_of_row < 100 && plan.inner <= 2 * lanes;
        const bool rows_of_a_register = is_full && bytes <= 2 && 2 * plan.in_row <= lanes;
        if (fill && is_one_short_row()) return true;
        if (fill && has_short_rows() && (cells_of_row < few_cells() || rows_of_a_register)) return true;
        return plan.dim_count == 0 && suits_pieces() && (fill || row_pieces(plan, lanes, bytes).count > 0);
    }

  private:
    // A long window is reduced along itself. To look for its winner there takes longer than to transpose it, until a
    // window a lane is too much for the nearest caches.
    bool has_long_windows() const {
        const i64 for_sums = bytes == 1 ? 128 : bytes == 2 ? 64 : bytes == 4 ? 56 : 32, others = 16 * lanes;
        const bool sums_of_row = sums && plan.inner == 1 && axis.dilation == 1;
        const i64 is_long = sums_of_row ? for_sums : tagged ? 8192 / bytes : others;
        return (axis.adaptive || axis.stride >= axis.kernel) && axis.kernel >= is_long;
    }
    // Half of the lanes, or a quarter, are enough for rows that would fill no more. Bins would otherwise be reduced one
    // by one: the fewer cells they have, the fewer lanes are enough.
    bool fills() const {
        const bool small_bins = axis.adaptive && plan.in_slab * lanes <= 30 * plan.out_slab * plan.outer;
        const bool as_full = (2 * plan.outer >= lanes && 2 * plan.out_row <= lanes) ||
                             (4 * plan.outer >= lanes && 4 * plan.out_row <= lanes);
        return is_full || ((as_full || small_bins) && plan.inner == 1 && plan.outer > 1);
    }
    // How many bytes may be far away: other ways take long for each winner, and have more narrow cells to shift.
    i64 room() const {
        if (tagged && bytes <= 4) return bytes <= 2 ? 6 << 20 : 2560 << 10;
        return narrow ? 640 << 10 : 320 << 10;
    }
    // Rows of a register or two lose so much that even slabs which are further away are better transposed; but not for
    // bins so large that to reduce one by itself takes less time than to transpose its cells.
    bool is_near() const {
        if (slabs_stay_near(plan, lanes, bytes, room())) return true;
        const i64 short_row = axis.adaptive || plan.dim_count == 0 ? 2 * lanes : lanes / 2;
        const bool large_bins =
            axis.adaptive && plan.dim_count > 0 && plan.in_slab >= (sums ? 48 : 128) * plan.out_slab;
        return !large_bins && plan.out_row <= short_row && plan.in_slab <= (8 << 20) / (lanes * bytes);
    }
    bool loses_more() const { return one_row && (bytes == 2 || (bytes == 4 && axis.stride > 2)); }
    // Whether a row has phases that are made by shuffles, of places or of numbers.
    bool has_small_steps() const {
        if (axis.adaptive) return false;
        if (plan.inner > 1) return axis.stride <= (plan.dim_count == 0 ? 2 : 1);
        if (result_bytes == 1 && !sums) return axis.stride <= 3;
        if (one_row && sums && bytes == 8) return axis.stride <= (axis.kernel > 3 ? 1 : 2);
        return axis.stride <= (bytes == 8 || one_row ? 4 : 5);
    }
    // Whether a slab is one row, with so few outputs that to split it into phases takes longer than to transpose it.
    // Sums of narrow cells have wide lanes, so that fewer outputs fill a register.
    bool is_one_short_row() const {
        const i64 few = sums && bytes <= 2 ? 96 : (bytes == 1 ? 3 : 6) * lanes;
        return one_row && !axis.adaptive && axis.stride > 1 && plan.out_row < few;
    }
    bool has_short_rows() const {
        const bool longer = !has_small_steps() || loses_more() || (sums && bytes == 8);
        return plan.out_row < (longer ? 4 : 2) * lanes;
    }
    i64 few_cells() const {
        if (axis.adaptive && plan.inner == 1) return 4000;
        if (plan.dim_count == 0) return !loses_more() ? 100 : axis.stride > 2 ? 640 / bytes : 160;
        if (is_full && tagged && bytes <= 2) return 3000;
        if (is_full && (bytes <= 2 || (tagged && bytes <= 4))) return 1200;
        return sums ? 450 : 600;
    }
    // Along a long row, windows in small steps are shifted registers, places of many elements are moved whole, and
    // other windows are best one a lane. So are wide sums of doubles, whose errors make seven additions of one: block
    // prefixes and suffixes take three for any window.
    bool suits_pieces() const {
        if (plan.inner > 1 && axis.stride <= 8 && (plan.inner >= 16 || plan.inner * bytes >= 32)) return false;
        const bool wide = sums && bytes == 8 && axis.dilation == 1 && axis.kernel >= 32 * axis.stride;
        return (wide || !has_small_steps()) && plan.out_slab * result_bytes <= 2 * plan.in_slab * bytes;
    }
};

}  // namespace

bool suits_batch(const Plan &plan, bool forward, Adds adds, bool tagged, i64 lanes, i64 bytes, i64 result_bytes) {
    if (!forward) return suits_batch_back(plan, adds, lanes, bytes);
    return ForwardBatch{plan, adds, tagged, lanes, bytes, result_bytes}.suits();
}

bool suits_batch_overlapping(const Plan &plan, bool tagged, i64 lanes, i64 bytes) {
    const Axis &axis = plan.last();
    if (axis.adaptive || axis.kernel <= axis.stride || plan.dim_count == 0 || plan.inner > 1) return false;
    if (in_long_pairs(plan) || !fill_lanes(plan.outer, lanes) || slides_as_well(plan, lanes, bytes)) return false;
    const bool short_row = plan.out_row < 4 * lanes, many_merges = plan.cells >= (tagged ? 9 : 100);
    const i64 near = many_merges ? 4 << 20 : 320 << 10;
    return short_row && bytes <= 4 && plan.cells >= 9 && plan.in_slab <= near / (lanes * bytes);
}

// --- back ---------------------------------------------------------------------------------------

Way choose_back(const Plan &plan, const Lanes &lanes, const BySquares &squares, Way always, Way asked) {
    const Axis &axis = plan.last();
    const bool can = squares.can && !lanes.short_build && lanes.tuned != Tuned::NOT && in_squares(plan) &&
                     axis.length >= 2 * lanes.few;
    if (asked == Way::SQUARES ? can : asked == always) return asked;
    if (asked != Way::NONE) cannot_go(asked);
    const bool short_row = axis.output < lanes.few + axis.kernel / axis.stride;
    return can && (!short_row || plan.cells <= squares.in_short_rows) ? Way::SQUARES : always;
}

// --- back, of winners ---------------------------------------------------------------------------------

// Of windows over a cell, or so, along the axes from `first` to before `stop`.
double windows_over(const Plan &plan, int first, int stop) {
    double over = 1;
    for (int a = first; a < stop; ++a) {
        const Axis &axis = plan.axes[a];
        over *= axis.adaptive ? static_cast<double>(axis.output) / static_cast<double>(axis.length) + 1
                              : static_cast<double>(axis.kernel) / static_cast<double>(axis.stride);
    }
    return over;
}

bool can_tied_apart(const Plan &plan, i64 lanes, i64 bytes) {
    // Of one long window, the elements of a place are not laid out over its cells.
    const bool one_of_few = plan.dim_count == 0 && plan.last().output == 1 && plan.inner > 1 && plan.inner < lanes;
    return windows_apart(plan) && plan.last().dilation == 1 && plan.cells < i64(1) << (bytes == 2 ? 15 : 24) &&
           !one_of_few;
}
bool suits_tied_taps(const Plan &plan, bool far_apart, i64 lanes) {
    if (plan.inner >= lanes)  // the windows over each place are looked up, which takes as long as a register or two
        return plan.inner >= 2 * lanes && (plan.dim_count == 0 || windows_over(plan, 0, plan.axis_count) <= 4);
    return far_apart ? plan.in_row >= 2 * lanes : plan.dim_count == 0;
}

bool can_tied_axes(const Plan &plan) { return plan.dim_count > 0; }
// Over two axes, where windows are not side by side along the row, so that it would be split into phases. Rows that are
// transposed together stay in the caches.
bool suits_tied_axes(const Plan &plan) {
    if (plan.axis_count > 2) return true;
    return plan.dim_count > 0 && plan.inner == 1 && plan.in_row <= 1024 &&
           (plan.last().adaptive || plan.last().stride > 1);
}

// Whether no cell is within the reach of two rows of outputs.
bool one_row_over_each(const Plan &plan) {
    for (int a = 0; a + 1 < plan.axis_count; ++a)
        if (plan.axes[a].adaptive || plan.axes[a].stride <= plan.axes[a].dilation * (plan.axes[a].kernel - 1))
            return false;
    return true;
}

bool adds_rows_first(const Plan &plan, i64 lanes, bool one_of_column) {
    constexpr i64 MOST = 256;  // cells, whose places are bytes
    for (int a = 0; a < plan.axis_count; ++a)
        if (plan.axes[a].adaptive) return false;
    const Axis &axis = plan.last();
    if (plan.cells > MOST || axis.stride > 1) return false;
    // By columns a cell takes less than a winner's visit at best; see below.
    const double along = windows_over(plan, plan.axis_count - 1, plan.axis_count),
                 across = windows_over(plan, 0, plan.axis_count - 1);
    return one_of_column && 16 / static_cast<double>(lanes) * (0.3 + 0.11 * along + 0.09 * across) < 1.5;
}

// Whether winners hand on along one axis after the other. That follows from the window alone, as rows first do, and
// decides in which order a cell adds up.
bool adds_axis_by_axis(const Plan &plan, const Lanes &lanes) {
    constexpr i64 MOST = 255;            // places without the first axis, which are bytes: one is nobody's
    constexpr i64 MOST_CELLS = 1 << 15;  // whose places are two bytes at most, skipped ones counted
    const Axis &last = plan.last();
    if (plan.axis_count < 2 || last.stride > 1 || plan.cells > MOST_CELLS) return false;
    if (plan.cells / plan.axes[0].kernel >= MOST) return false;
    double outputs = 1, asked = 0;  // for each cell: that are left after an axis, and windows that are asked
    for (int a = plan.axis_count - 1; a >= 0; --a) {
        if (plan.axes[a].adaptive) return false;
        const double stride = static_cast<double>(plan.axes[a].stride);
        asked += outputs * static_cast<double>(plan.axes[a].kernel) / stride;
        outputs /= stride;
    }
    // In nanoseconds as they were measured, beside a visit of each winner.
    const double registers = 16 / static_cast<double>(lanes.many);
    // Over two axes, sums that are visited are near each other. In steps down the columns, these are as good.
    if (plan.axis_count == 2) return plan.axes[0].stride == 1 && registers * (0.05 + 0.035 * asked) < 0.53;
    return registers * (0.35 + 0.03 * asked) < 1.5 * outputs;
}

struct WinnerWays {
    const Plan &plan;
    const Lanes &lanes;
    const int winner_bytes;
    const bool one_of_column;

    bool can(Way way) const {
        const Axis &axis = plan.last();
        const bool in_bytes = winner_bytes == 1, asks = in_bytes && !lanes.short_build;
        const bool by_axes = one_of_column && winner_bytes <= 2 && adds_axis_by_axis(plan, lanes);
        if (by_axes && way != Way::OWN) return way == Way::AXES;  // no other adds up in that order
        switch (way) {
            case Way::SQUARES: return asks && in_squares(plan) && axis.length >= 2 * lanes.few;
            case Way::OWN: return windows_apart(plan);
            case Way::GATHER: return asks && plan.inner >= lanes.many;
            case Way::COLUMNS:
                return one_of_column && in_bytes && !axis.adaptive && axis.kernel < 256 &&
                       (axis.stride == 1 || (axis.stride == 2 && 2 * plan.inner <= lanes.many)) &&
                       (one_row_over_each(plan) || adds_rows_first(plan, lanes.many, true));
            default: return way == Way::SCATTER;
        }
    }
    bool suits(Way way) const {
        const Axis &axis = plan.last();
        const bool many_elements = plan.inner >= 4 * lanes.many;
        const bool large = plan.in_slab > 1 << 18;  // so that sums of a part would leave the caches
        switch (way) {
            case Way::SQUARES: return axis.output >= lanes.many + axis.kernel && (plan.dim_count == 1 || !lanes.narrow);
            case Way::OWN:  // what is gathered can go past the caches, and long rows of columns are whole registers
                if (can(Way::COLUMNS) && columns_take() < 0.75 * winners()) return false;
                // Short loops, one for each window. To add up narrow numbers takes longer.
                if (!lanes.narrow && plan.inner > 1 && 2 * plan.inner <= lanes.many) return false;
                return lanes.narrow || !many_elements || (plan.cells > 4 && plan.outer * plan.in_slab <= 1 << 20);
            case Way::GATHER:
                if (can(Way::COLUMNS) && windows_over(plan, 0, plan.axis_count) > 4) return false;
                return many_elements && plan.cells <= 50 && windows_over(plan, 0, plan.axis_count) <= 9 &&
                       ((large && winners() > 0.03) || (!lanes.narrow && winners() > 0.2));
            case Way::COLUMNS: return columns_take() < visit_takes() * winners();
            default: return true;
        }
    }

  private:
    // For each cell.
    double winners() const { return static_cast<double>(plan.out_slab) / static_cast<double>(plan.in_slab); }

    // What a winner's visit takes beside that. Where rows are first, what a row of outputs hands on is added to the
    // rows of cells by itself.
    double visit_takes() const {
        if (plan.dim_count == 0 || !adds_rows_first(plan, lanes.many, one_of_column)) return 1.5;
        return 1.7 + static_cast<double>(plan.outer_cells) * (0.15 + 7 / static_cast<double>(plan.in_row));
    }
    // What a cell takes by columns, in nanoseconds as they were measured where a winner's visit takes 1.5.
    double columns_take() const {
        const double along = windows_over(plan, plan.axis_count - 1, plan.axis_count);
        const i64 block = 4 * lanes.many, length = plan.in_row;
        const double filled = static_cast<double>(length) / static_cast<double>((length + block - 1) / block * block);
        const double registers = 16 / static_cast<double>(lanes.many) / filled;
        if (plan.dim_count == 0) return registers * (0.1 + 0.08 * along);
        const double rows = static_cast<double>(plan.out_rows) / static_cast<double>(plan.in_rows);
        const double across = windows_over(plan, 0, plan.axis_count - 1);
        return registers * (0.1 + rows * (0.1 + 30 / static_cast<double>(length) + 0.11 * along) + 0.09 * across);
    }
};

Way choose_winners_back(const Plan &plan, const Lanes &lanes, int winner_bytes, bool one_of_column, Way asked) {
    const WinnerWays ways{plan, lanes, winner_bytes, one_of_column};
    for (const Way way : {Way::SQUARES, Way::OWN, Way::AXES, Way::GATHER, Way::COLUMNS, Way::SCATTER})
        if (asked == Way::NONE ? ways.can(way) && ways.suits(way) : asked == way && ways.can(way)) return way;
    cannot_go(asked);
}

// --- order statistics ---------------------------------------------------------------------------------

namespace {

// Bins of several sizes fill lanes with channels alone.
bool can_network(const Plan &plan) {
    return plan.cells <= MOST_IN_NETWORK && (!plan.last().adaptive || plan.inner > 1);
}

// Windows that move by a small part of themselves along the row. A mode has no rank that could slide.
bool can_ranks(const Plan &plan, const OrderTraits &traits) {
    const Axis &axis = plan.last();
    const bool countable = plan.in_slab < i64(1) << 31;
    return !traits.mode && !axis.adaptive && axis.dilation == 1 && axis.stride < axis.kernel && countable;
}
// Counts of two bytes.
bool can_histograms(const Plan &plan, const OrderTraits &traits) {
    return traits.bytes == 1 && traits.values && plan.cells < 1 << 16 && can_ranks(plan, traits);
}
bool suits_ranks(const Plan &plan) { return 4 * plan.last().stride <= plan.last().kernel; }

}  // namespace

// The steps of a network grow faster than the cells, and a register holds the fewer windows the larger a cell is. Where
// cells are skipped, all ranks have to be found.
bool suits_network(const Plan &plan, const OrderTraits &traits) {
    const i64 bytes = plan.cells * traits.bytes;
    return can_network(plan) && (plan.cells <= 32 || bytes <= (traits.skips && !traits.mode ? 300 : 600));
}

Way choose_order(const Plan &plan, const OrderTraits &traits, Way asked) {
    const bool any = asked == Way::NONE;
    if (any ? suits_network(plan, traits) : asked == Way::NETWORK && can_network(plan)) return Way::NETWORK;
    if (can_histograms(plan, traits) && (any ? suits_ranks(plan) : asked == Way::HISTOGRAMS)) return Way::HISTOGRAMS;
    if (can_ranks(plan, traits) && (any ? suits_ranks(plan) : asked == Way::RANKS)) return Way::RANKS;
    if (any || asked == Way::WINDOWS) return Way::WINDOWS;
    cannot_go(asked);
}

// --- what the ways ask ----------------------------------------------------------------------------

DirectOutputs direct_outputs(const Axis &axis) {
    const i64 stop = (axis.length + axis.pad_lo - axis.kernel) / 2 + 1;
    return {(axis.pad_lo + 3 - axis.kernel) / 2, stop < axis.output ? stop : axis.output};
}

bool few_winners(const Plan &plan, i64 lanes) {
    const bool apart = windows_apart(plan);
    // Where winners hand on axis by axis, none is visited. But planes may be long enough for registers by themselves.
    if (!apart && adds_axis_by_axis(plan, {lanes, lanes, true, false, Tuned::NOT, false, false, false}))
        return plan.in_slab >= 2048 && plan.in_slab >= 128 * plan.axes[0].length;
    if (!apart && plan.dim_count > 0 && plan.in_row < 64 && adds_rows_first(plan, lanes, true)) return false;
    if (plan.in_slab < 128) return false;  // each slab takes as long as some dozen visits
    if (plan.last().adaptive && !apart) return plan.in_slab >= 256;
    return plan.in_slab >= 2048 || apart || 10 * plan.out_slab <= 3 * plan.in_slab;
}

bool windows_apart(const Plan &plan) {
    for (int a = 0; a < plan.axis_count; ++a) {
        const Axis &axis = plan.axes[a];
        const bool apart =
            axis.adaptive ? axis.length % axis.output == 0 : axis.stride > axis.dilation * (axis.kernel - 1);
        if (axis.output > 1 && !apart) return false;
    }
    return true;
}

bool in_squares(const Plan &plan) {
    if (plan.dim_count == 0 || plan.inner > 1 || plan.dims[plan.dim_count - 1].axis < 0) return false;
    const Axis &down = plan.axes[plan.axis_count - 2], &along = plan.last();
    auto fits = [&](const Axis &a) {
        return !a.adaptive && a.stride == 2 && a.dilation == 1 && a.kernel == along.kernel;
    };
    if (!fits(down) || !fits(along) || (down.pad_lo - along.pad_lo) % 2) return false;
    return along.kernel == 3 || (along.kernel == 2 && along.pad_lo % 2 == 0);
}

}  // namespace ndpool
