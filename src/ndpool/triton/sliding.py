"""The kernels for wide windows in steps of one along an axis: a place of the tile has several outputs that share cells.

`slide` reads the cells under OUTPUTS neighbours once, and joins them in twos, fours, eights and so on. A window is one
of each length whose sum it is:

    13 cells = 1 + 4 + 8      ranges of 1, 2, 4, 8 cells are known for every start after 3 rounds

So an output costs as many steps as its kernel has binary digits, and a part of the cells around it.

`slide_far` is for windows of more cells than registers hold. They go by blocks of OUTPUTS cells. Those that all
neighbours see are joined once, in a loop. At both ends, each neighbour has some cells more:

    blocks      |. . . .|. . . .|. . . .|. . . .|. . . .|
    windows       [. . .+. . . . . . . .+. . .]
                    [. .+. . . . . . . .+. . . .]
"""

from __future__ import annotations

import triton
import triton.language as tl

from .arithmetic import NAME, SUMS, WORST, are_equal, beats, better, number, scaled, two_sum
from .chaining import wait_for_the_one_before
from .groups import parted, side_by_side
from .walking import store_result
from .windows import aligned, along_axes, below, is_among, tile_of_program, wide_number, widened


@triton.jit
def _joined(a, p, b, q, KIND: tl.constexpr, PLACES: tl.constexpr, SOURCE: tl.constexpr):
    """Two ranges as one, of which the first comes before the other, but for states; a place of -1 is no cell.

    Beside sums of doubles are their errors.
    """
    if KIND[SUMS] == "error":
        sum, error = two_sum(a, b)
        return sum, (p + q) + error
    elif KIND[NAME] == "sum" or KIND[NAME] == "avg":
        return a + b, p
    elif PLACES:
        wins = beats(b, a, KIND) | (p < 0)
        if SOURCE == "states":
            wins = wins | (are_equal(a, b) & (q < p))
        wins = wins & (q >= 0)
        return tl.where(wins, b, a), tl.where(wins, q, p)
    else:
        return better(a, b, KIND), p


@triton.jit
def slide(
    a_in, b_in, a_out, b_out, rows, scale, all_cells, size, out, inner,
    o0, o1, o2, o3, o4, o5, o6, o7,
    f0, f1, f2, f3, f4, f5, f6, f7,
    KIND: tl.constexpr, RANK: tl.constexpr, WHOLE: tl.constexpr, DIVISOR: tl.constexpr, SOURCE: tl.constexpr,
    SINK: tl.constexpr, PLACES: tl.constexpr, COMPUTE: tl.constexpr, SECOND: tl.constexpr, SLOPE: tl.constexpr,
    KERNEL: tl.constexpr, LO: tl.constexpr, DIGITS: tl.constexpr, TAKEN: tl.constexpr, OUTPUTS: tl.constexpr,
    ALIGN: tl.constexpr, CHAINED: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Rows number what is outside of the axis, columns its groups of outputs and what is inside of it.

    `ALIGN` is 0 where something is inside of it. Else rows start at multiples of so many cells, and are read whole.
    `TAKEN` has for each binary digit of the kernel how many cells the ranges before it take, and -1 where it is 0.
    """
    wait_for_the_one_before(CHAINED)
    outs = widened((o0, o1, o2, o3, o4, o5, o6, o7), WIDE)
    inner = wide_number(inner, WIDE)
    scale = wide_number(scale, WIDE)
    columns = tl.cdiv(out, OUTPUTS) * inner
    row, start = tile_of_program(WIDE, ROWS, COLS)
    row = row + tl.arange(0, ROWS)[:, None]
    col = start + tl.arange(0, COLS)[None, :]
    inside_rows = row < rows
    inside = inside_rows & (col < columns)
    row = tl.minimum(row, rows - 1)
    first = col // inner * OUTPUTS
    within = col % inner

    if ALIGN:
        values = _neighbours(a_in, row, start, size, number(KIND[WORST]), KERNEL, LO, OUTPUTS, ALIGN, ROWS, COLS)
        kept = values
        if PLACES and SOURCE == "states":
            kept = _neighbours(b_in, row, start, size, 0, KERNEL, LO, OUTPUTS, ALIGN, ROWS, COLS)
    else:
        values = ()
        kept = ()
        for j in tl.static_range(OUTPUTS + KERNEL - 1):
            i = first + (j - LO)
            real = inside & is_among(i, size)
            at = (row * size + i) * inner + within
            values = values + (tl.load(a_in + at, mask=real, other=number(KIND[WORST])),)
            if PLACES and SOURCE == "states":
                kept = kept + (tl.load(b_in + at, mask=real, other=0),)
    places = ()
    read = values
    values = ()
    for j in tl.static_range(OUTPUTS + KERNEL - 1):
        value = read[j].to(COMPUTE)
        values = values + (scaled(value, KIND) if SOURCE == "cells" else value,)
        place = tl.zeros([ROWS, COLS], SECOND)
        if PLACES:
            place = place + j * scale
            if SOURCE == "states":
                place = place + kept[j]
            place = tl.where((first + (j - LO) >= 0) & (first + (j - LO) < size), place, -1)
        places = places + (place,)
    found = values
    found_places = places
    for digit in tl.static_range(DIGITS):
        if TAKEN[digit] >= 0:
            joined = ()
            joined_places = ()
            for r in tl.static_range(OUTPUTS):
                if TAKEN[digit] == 0:
                    joined = joined + (values[r],)
                    joined_places = joined_places + (places[r],)
                else:
                    a, p = _joined(
                        found[r],
                        found_places[r],
                        values[r + TAKEN[digit]],
                        places[r + TAKEN[digit]],
                        KIND,
                        PLACES,
                        SOURCE,
                    )
                    joined = joined + (a,)
                    joined_places = joined_places + (p,)
            found = joined
            found_places = joined_places
        if digit < DIGITS - 1:
            twice = ()
            twice_places = ()
            for j in tl.static_range(OUTPUTS + KERNEL - 1):
                if j + 2 * 2**digit <= OUTPUTS + KERNEL - 1:
                    a, p = _joined(
                        values[j], places[j], values[j + 2**digit], places[j + 2**digit], KIND, PLACES, SOURCE
                    )
                    twice = twice + (a,)
                    twice_places = twice_places + (p,)
            values = twice
            places = twice_places
    if PLACES:
        own = ()
        for r in tl.static_range(OUTPUTS):
            own = own + (found_places[r] - r * scale,)
        found_places = own
    _store_neighbours(
        found, found_places, a_in, a_out, b_out, row, start, first, within, inside, inside_rows, out, inner, outs,
        (f0, f1, f2, f3, f4, f5, f6, f7), all_cells,
        KIND, RANK, WHOLE, DIVISOR, SINK, PLACES, SLOPE, OUTPUTS, ALIGN, ROWS, COLS,
    )  # fmt: skip


@triton.jit
def _store_neighbours(
    found, beside, a_in, a_out, b_out, row, start, first, within, inside, inside_rows, out, inner, outs, whole,
    all_cells,
    KIND: tl.constexpr, RANK: tl.constexpr, WHOLE: tl.constexpr, DIVISOR: tl.constexpr, SINK: tl.constexpr,
    PLACES: tl.constexpr, SLOPE: tl.constexpr, OUTPUTS: tl.constexpr, ALIGN: tl.constexpr, ROWS: tl.constexpr,
    COLS: tl.constexpr,
):  # fmt: skip
    """What the sink takes of OUTPUTS neighbours, and of the places or errors beside them."""
    SECONDS: tl.constexpr = PLACES or KIND[SUMS] != "plain"
    if ALIGN:
        o = start * OUTPUTS + tl.arange(0, OUTPUTS * COLS)[None, :]
        nothing = tl.zeros([ROWS, OUTPUTS * COLS], tl.int32)
        store_result(
            side_by_side(found, OUTPUTS), side_by_side(beside, OUTPUTS), nothing, nothing,
            along_axes(row, outs, RANK), o, row * out + o, inside_rows & (o < out), a_in, a_out, b_out, a_in, a_in,
            whole, outs, all_cells, KIND, RANK, WHOLE, DIVISOR, SINK, False, PLACES, SLOPE, SECONDS,
        )  # fmt: skip
    else:
        nothing = tl.zeros([ROWS, COLS], tl.int32)
        for r in tl.static_range(OUTPUTS):
            at = (row * out + first + r) * inner + within
            store_result(
                found[r], beside[r], nothing, nothing,
                along_axes(at // outs[RANK - 1], outs, RANK), at % outs[RANK - 1], at, inside & (first + r < out),
                a_in, a_out, b_out, a_in, a_in, whole, outs, all_cells,
                KIND, RANK, WHOLE, DIVISOR, SINK, False, PLACES, SLOPE, SECONDS,
            )  # fmt: skip


@triton.jit
def _neighbours(
    x, row, start, size, other, KERNEL: tl.constexpr, LO: tl.constexpr, OUTPUTS: tl.constexpr, ALIGN: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The cells under the windows of OUTPUTS neighbours along the last axis, which are read in whole vectors."""
    BEFORE: tl.constexpr = (LO + OUTPUTS - 1) // OUTPUTS
    AFTER: tl.constexpr = (KERNEL - 1 - LO + OUTPUTS - 1) // OUTPUTS
    read = ()
    for shift in tl.static_range(-BEFORE, AFTER + 1):
        i = (start + shift) * OUTPUTS + tl.arange(0, OUTPUTS * COLS)[None, :]
        v = tl.load(x + aligned(row, size, ALIGN) + i, mask=(i >= 0) & below(i, size, ALIGN), other=other)
        read = read + parted(v, ROWS, COLS, OUTPUTS)
    found = ()
    for j in tl.static_range(OUTPUTS + KERNEL - 1):
        found = found + (read[BEFORE * OUTPUTS - LO + j],)
    return found


@triton.jit
def slide_far(
    a_in, b_in, a_out, b_out, rows, scale, all_cells, size, out, inner,
    o0, o1, o2, o3, o4, o5, o6, o7,
    f0, f1, f2, f3, f4, f5, f6, f7,
    KIND: tl.constexpr, RANK: tl.constexpr, WHOLE: tl.constexpr, DIVISOR: tl.constexpr, SOURCE: tl.constexpr,
    SINK: tl.constexpr, PLACES: tl.constexpr, COMPUTE: tl.constexpr, SECOND: tl.constexpr, SLOPE: tl.constexpr,
    KERNEL: tl.constexpr, LO: tl.constexpr, OUTPUTS: tl.constexpr, ALIGN: tl.constexpr, CHAINED: tl.constexpr,
    WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """As `slide`. Cells and blocks of a group are counted from the place of its first output on.

    Its output r sees the cells from `r - LO` to `KERNEL - LO + r`, and all of its outputs those from `OUTPUTS - 1 - LO`
    to `KERNEL - LO`: at least one block of them.
    """
    wait_for_the_one_before(CHAINED)
    outs = widened((o0, o1, o2, o3, o4, o5, o6, o7), WIDE)
    inner = wide_number(inner, WIDE)
    scale = wide_number(scale, WIDE)
    columns = tl.cdiv(out, OUTPUTS) * inner
    row, start = tile_of_program(WIDE, ROWS, COLS)
    row = row + tl.arange(0, ROWS)[:, None]
    col = start + tl.arange(0, COLS)[None, :]
    inside_rows = row < rows
    inside = inside_rows & (col < columns)
    row = tl.minimum(row, rows - 1)
    first = col // inner * OUTPUTS
    within = col % inner
    # Blocks from FIRST on have cells that any neighbour sees, and those from COMMON to END are seen by all as a whole.
    FIRST: tl.constexpr = -LO // OUTPUTS
    COMMON: tl.constexpr = -((LO - OUTPUTS + 1) // OUTPUTS)
    END: tl.constexpr = (KERNEL - LO) // OUTPUTS
    LAST: tl.constexpr = (KERNEL - LO + OUTPUTS - 2) // OUTPUTS
    # How many cells of the block before COMMON, and of that at END, are seen by all.
    LEFT: tl.constexpr = COMMON * OUTPUTS + LO - (OUTPUTS - 1)
    OVER: tl.constexpr = KERNEL - LO - END * OUTPUTS

    if ALIGN:
        # Rows are joined as they lie in memory. Cells are handed to the thread that has their group at the end alone.
        best = tl.full([ROWS, OUTPUTS * COLS], number(KIND[WORST]), COMPUTE)
        seconds = tl.full([ROWS, OUTPUTS * COLS], -1 if PLACES else 0, SECOND)
        for block in tl.range(COMMON, END):
            cells, more = _row_of_blocks(
                block, a_in, b_in, row, start, size, scale,
                KIND, SOURCE, PLACES, COMPUTE, SECOND, LO, OUTPUTS, ALIGN, ROWS, COLS,
            )  # fmt: skip
            best, seconds = _joined(best, seconds, cells, more, KIND, PLACES, SOURCE)
        each = parted(best, ROWS, COLS, OUTPUTS)
        seconds_of_each = _parted_seconds(seconds, KIND, PLACES, SECOND, ROWS, COLS, OUTPUTS)
        shared = each[0]
        beside = seconds_of_each[0]
        for s in tl.static_range(1, OUTPUTS):  # whose places are in no order
            shared, beside = _joined(shared, beside, each[s], seconds_of_each[s], KIND, PLACES, "states")
    else:
        shared = tl.full([ROWS, COLS], number(KIND[WORST]), COMPUTE)
        beside = tl.full([ROWS, COLS], -1 if PLACES else 0, SECOND)
        for block in tl.range(COMMON, END):
            cells, more = _block(
                block, a_in, b_in, row, start, first, within, inside, size, inner, scale,
                KIND, SOURCE, PLACES, COMPUTE, SECOND, LO, OUTPUTS, ALIGN, ROWS, COLS,
            )  # fmt: skip
            for s in tl.static_range(OUTPUTS):
                shared, beside = _joined(shared, beside, cells[s], more[s], KIND, PLACES, SOURCE)

    heads = ()
    head_seconds = ()
    for block in tl.static_range(FIRST, COMMON):
        cells, more = _block(
            block, a_in, b_in, row, start, first, within, inside, size, inner, scale,
            KIND, SOURCE, PLACES, COMPUTE, SECOND, LO, OUTPUTS, ALIGN, ROWS, COLS,
        )  # fmt: skip
        heads = heads + cells
        head_seconds = head_seconds + more
    BEFORE: tl.constexpr = (COMMON - FIRST) * OUTPUTS - LEFT
    for back in tl.static_range(1, LEFT + 1):
        shared, beside = _joined(
            heads[BEFORE + LEFT - back], head_seconds[BEFORE + LEFT - back], shared, beside, KIND, PLACES, SOURCE
        )
    tails = ()
    tail_seconds = ()
    for block in tl.static_range(END, LAST + 1):
        cells, more = _block(
            block, a_in, b_in, row, start, first, within, inside, size, inner, scale,
            KIND, SOURCE, PLACES, COMPUTE, SECOND, LO, OUTPUTS, ALIGN, ROWS, COLS,
        )  # fmt: skip
        tails = tails + cells
        tail_seconds = tail_seconds + more
    for s in tl.static_range(OVER):
        shared, beside = _joined(shared, beside, tails[s], tail_seconds[s], KIND, PLACES, SOURCE)

    # Each neighbour has one cell more at its head than the next one has, and one less at its tail.
    ahead = (shared,)
    ahead_seconds = (beside,)
    for back in tl.static_range(1, OUTPUTS):
        shared, beside = _joined(
            heads[BEFORE - back], head_seconds[BEFORE - back], shared, beside, KIND, PLACES, SOURCE
        )  # fmt: skip
        ahead = (shared,) + ahead
        ahead_seconds = (beside,) + ahead_seconds
    found = (ahead[0],)
    found_seconds = (ahead_seconds[0],)
    tail = tails[OVER]
    beside = tail_seconds[OVER]
    for r in tl.static_range(1, OUTPUTS):
        shared, second = _joined(ahead[r], ahead_seconds[r], tail, beside, KIND, PLACES, SOURCE)
        found = found + (shared,)
        found_seconds = found_seconds + ((second - r * scale) if PLACES else second,)
        if r < OUTPUTS - 1:
            tail, beside = _joined(tail, beside, tails[OVER + r], tail_seconds[OVER + r], KIND, PLACES, SOURCE)
    _store_neighbours(
        found, found_seconds, a_in, a_out, b_out, row, start, first, within, inside, inside_rows, out, inner, outs,
        (f0, f1, f2, f3, f4, f5, f6, f7), all_cells,
        KIND, RANK, WHOLE, DIVISOR, SINK, PLACES, SLOPE, OUTPUTS, ALIGN, ROWS, COLS,
    )  # fmt: skip


@triton.jit
def _block(
    block, a_in, b_in, row, start, first, within, inside, size, inner, scale,
    KIND: tl.constexpr, SOURCE: tl.constexpr, PLACES: tl.constexpr, COMPUTE: tl.constexpr, SECOND: tl.constexpr,
    LO: tl.constexpr, OUTPUTS: tl.constexpr, ALIGN: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The cells of one block of each group, and their places in the first window, or the errors of sums."""
    if ALIGN:
        cells, seconds = _row_of_blocks(
            block, a_in, b_in, row, start, size, scale,
            KIND, SOURCE, PLACES, COMPUTE, SECOND, LO, OUTPUTS, ALIGN, ROWS, COLS,
        )  # fmt: skip
        cells = parted(cells, ROWS, COLS, OUTPUTS)
        return cells, _parted_seconds(seconds, KIND, PLACES, SECOND, ROWS, COLS, OUTPUTS)
    else:
        cells = ()
        seconds = ()
        for s in tl.static_range(OUTPUTS):
            i = first + (block * OUTPUTS + s)
            real = inside & is_among(i, size)
            at = (row * size + i) * inner + within
            cell, second = _cells(
                at, real, is_among(i, size), (block * OUTPUTS + s + LO) * scale, a_in, b_in,
                KIND, SOURCE, PLACES, COMPUTE, SECOND,
            )  # fmt: skip
            cells = cells + (cell,)
            seconds = seconds + (second,)
        return cells, seconds


@triton.jit
def _row_of_blocks(
    block, a_in, b_in, row, start, size, scale,
    KIND: tl.constexpr, SOURCE: tl.constexpr, PLACES: tl.constexpr, COMPUTE: tl.constexpr, SECOND: tl.constexpr,
    LO: tl.constexpr, OUTPUTS: tl.constexpr, ALIGN: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The same of groups that lie along rows, as they lie there: the cells of a group are neighbours."""
    s = tl.arange(0, OUTPUTS * COLS)[None, :]
    i = (start + block) * OUTPUTS + s
    real = (i >= 0) & below(i, size, ALIGN)
    place = (block * OUTPUTS + s % OUTPUTS + LO) * scale
    return _cells(aligned(row, size, ALIGN) + i, real, real, place, a_in, b_in, KIND, SOURCE, PLACES, COMPUTE, SECOND)


@triton.jit
def _cells(
    at, real, is_cell, place, a_in, b_in,
    KIND: tl.constexpr, SOURCE: tl.constexpr, PLACES: tl.constexpr, COMPUTE: tl.constexpr, SECOND: tl.constexpr,
):  # fmt: skip
    """What lies at these offsets, and their places, of which that of no cell is -1, or the errors of sums."""
    cell = tl.load(a_in + at, mask=real, other=number(KIND[WORST])).to(COMPUTE)
    if SOURCE == "cells":
        cell = scaled(cell, KIND)
    second = tl.zeros(cell.shape, SECOND)
    if SOURCE == "states" and (PLACES or KIND[SUMS] == "error"):
        second = second + tl.load(b_in + at, mask=real, other=0)
    if PLACES:
        second = tl.where(is_cell, second + place, -1).to(SECOND)
    return cell, second


@triton.jit
def _parted_seconds(
    seconds, KIND: tl.constexpr, PLACES: tl.constexpr, SECOND: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, OUTPUTS: tl.constexpr,
):  # fmt: skip
    """Those of each cell of a group; where nothing is beside them, there is nothing to hand over."""
    if PLACES or KIND[SUMS] == "error":
        return parted(seconds, ROWS, COLS, OUTPUTS)
    else:
        found = ()
        for _ in tl.static_range(OUTPUTS):
            found = found + (tl.zeros([ROWS, COLS], SECOND),)
        return found
