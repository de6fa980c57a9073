#include "plan/choice.h"

#include <cstring>
#include <stdexcept>
#include <string>

namespace ndpool {
namespace {

const char *const NAMES[] = {"slide",   "direct", "tiles",   "cells",  "segments", "widen", "rows",
                             "squares", "gather", "scatter", "spread", "own",      "terms", "ties"};

using Condition = bool (*)(const Plan &, const Lanes &);

struct Entry {
    Way way;
    Condition can, suits;
};

bool always(const Plan &, const Lanes &) { return true; }

// --- forward ------------------------------------------------------------------------------------

bool can_slide(const Plan &plan, const Lanes &lanes) {
    const Axis &axis = plan.axes[0];
    return plan.dim_count > 0 && lanes.one_plane && lanes.in_parts && !axis.adaptive && axis.dilation == 1;
}
bool is_wide(const Axis &axis) { return axis.kernel >= 6 && axis.kernel >= 4 * axis.stride; }
bool suits_slide(const Plan &plan, const Lanes &) { return is_wide(plan.axes[0]); }

bool small_steps_of_two(const Axis &axis) {
    return !axis.adaptive && axis.stride == 2 && axis.dilation == 1 && (axis.kernel == 2 || axis.kernel == 3);
}
bool can_direct(const Plan &plan, const Lanes &lanes) {
    if (lanes.tuned < Tuned::ROWS || plan.inner > 1 || !small_steps_of_two(plan.last())) return false;
    const DirectOutputs direct = direct_outputs(plan.last());
    return direct.stop - direct.first >= lanes.few;
}

bool can_tiles(const Plan &plan, const Lanes &lanes) {
    return lanes.tuned == Tuned::ALL && plan.inner >= lanes.many && !plan.last().adaptive &&
           plan.last().kernel == plan.outer_cells && (plan.last().kernel == 2 || plan.last().kernel == 3);
}

bool channels_last(const Plan &plan, const Lanes &) { return plan.inner > 1; }
// Loads and merges for each output: of all cells, or of the rows once and then along the row.
bool suits_cells(const Plan &plan, const Lanes &lanes) {
    const Axis &axis = plan.last();
    const i64 step = axis.adaptive ? axis.kernel : axis.stride < axis.kernel ? axis.stride : axis.kernel;
    // Rows are merged by whole registers, however short a place is.
    if (plan.inner < lanes.many && (plan.outer_cells > 1 || (axis.stride == 1 && !axis.adaptive))) return false;
    return plan.outer_cells * axis.kernel <= plan.outer_cells * step + axis.kernel + 2 * step;
}

bool can_segments(const Plan &plan, const Lanes &) { return plan.inner == 1; }
bool suits_segments(const Plan &plan, const Lanes &) { return plan.last().adaptive || plan.last().stride >= 8; }

bool can_widen(const Plan &plan, const Lanes &lanes) {
    return !lanes.short_build && !lanes.tagged && !plan.last().adaptive && plan.last().kernel >= 3;
}
bool suits_widen(const Plan &plan, const Lanes &) { return is_wide(plan.last()); }

bool can_rows(const Plan &plan, const Lanes &) { return plan.inner > 1 || !plan.last().adaptive; }

const Entry FORWARD[] = {
    {Way::SLIDE, can_slide, suits_slide},
    {Way::DIRECT, can_direct, always},
    {Way::TILES, can_tiles, always},
    {Way::CELLS, channels_last, suits_cells},
    {Way::SEGMENTS, can_segments, suits_segments},
    {Way::WIDEN, can_widen, suits_widen},
    {Way::ROWS, can_rows, always},
};

}  // namespace

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
        if (entry.can(plan, lanes) && (asked != Way::NONE || entry.suits(plan, lanes))) return entry.way;
    }
    cannot_go(asked);
}

// --- back ---------------------------------------------------------------------------------------

Way choose_back(const Plan &plan, const Lanes &lanes, const GatherLimits &limits, Way always, Way asked) {
    const Axis &axis = plan.last();
    const bool can = limits.can && !lanes.short_build;
    const bool places = can && plan.inner >= lanes.many;
    const bool cells = can && plan.inner == 1 && !axis.adaptive && axis.dilation == 1 && axis.stride <= 2;
    const bool squares = lanes.tuned != Tuned::NOT && cells && in_squares(plan) && axis.length >= 2 * lanes.few;
    if (asked == Way::SQUARES ? squares : asked == Way::GATHER ? places || cells : asked == always) return asked;
    if (asked != Way::NONE) cannot_go(asked);
    const bool short_row = axis.output < lanes.few + axis.kernel / axis.stride;
    const i64 most = places ? limits.channels_last : short_row ? limits.in_short_rows : limits.most;
    if (squares && (!short_row || plan.cells <= most)) return Way::SQUARES;
    return (places || cells) && plan.cells <= most ? Way::GATHER : always;
}

// --- what the ways ask ----------------------------------------------------------------------------

DirectOutputs direct_outputs(const Axis &axis) {
    const i64 stop = (axis.length + axis.pad_lo - axis.kernel) / 2 + 1;
    return {(axis.pad_lo + 3 - axis.kernel) / 2, stop < axis.output ? stop : axis.output};
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
