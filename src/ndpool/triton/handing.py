"""The way back of winners where windows have many cells: hardly any cell wins, so it is winners that are visited.

All cells are cleared first. Then each window looks at the cell that won it, and at the windows around that may see it:

    windows    0       1            0 and 1 are won by the same cell, to which 0 hands g_0 + g_1, and 1 nothing
                \\     /
    cells      . . . * . . .

The first window that a cell has won hands it all that it gets. So one window at most writes to a cell, and nothing is
atomic.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .arithmetic import rounded, two_sum
from .windows import cell, row_block, tile_along_axes, tile_of_program, widened


@triton.jit
def clear(gx, cells, WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    first = row_block(WIDE) * (ROWS * COLS)
    at = first + tl.arange(0, ROWS * COLS)
    zeros = tl.zeros([ROWS * COLS], gx.dtype.element_ty)
    if first + ROWS * COLS <= cells:
        tl.store(gx + at, zeros)  # without a mask, in whole vectors
    else:
        tl.store(gx + at, zeros, mask=at < cells)


@triton.jit
def hand_over(
    g, winners, gx, rows, all_cells,
    s0, s1, s2, s3, s4, s5, s6, s7,
    o0, o1, o2, o3, o4, o5, o6, o7,
    RANK: tl.constexpr, AXES: tl.constexpr, AROUND: tl.constexpr, NUMBER: tl.constexpr, SLOPE: tl.constexpr,
    WRAPS: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """`AROUND` has for each axis how many windows around one may share its cells, and how many of these lie inside it.

    Last, it has the steps between them. There are NUMBER in all, in row-major order, and the window itself is in the
    middle.
    """
    sizes = widened((s0, s1, s2, s3, s4, s5, s6, s7), WIDE)
    outs = widened((o0, o1, o2, o3, o4, o5, o6, o7), WIDE)
    first_row, first = tile_of_program(WIDE, ROWS, COLS)
    row = first_row + tl.arange(0, ROWS)[:, None]
    col = first + tl.arange(0, COLS)[None, :]
    inside = (row < rows) & (col < outs[RANK - 1])
    coords = tile_along_axes(first_row, outs, RANK, WRAPS, ROWS)
    own, hands, sum = _won(NUMBER // 2, coords, col, inside, g, winners, all_cells, sizes, outs, RANK, AXES, AROUND)
    sum = sum.to(SLOPE)
    error = tl.zeros([ROWS, COLS], SLOPE)
    for number in tl.static_range(NUMBER):
        if number != NUMBER // 2:
            won, wins, share = _won(number, coords, col, inside, g, winners, all_cells, sizes, outs, RANK, AXES, AROUND)
            shared = wins & (won == own)
            if number < NUMBER // 2:
                hands = hands & ~shared
            else:
                sum, e = two_sum(sum, tl.where(shared, share, 0).to(SLOPE))
                error += e
    sum = tl.where(sum - sum == 0, sum + error, sum)
    tl.store(gx + own, rounded(sum, gx.dtype), mask=hands)


@triton.jit
def _won(
    number: tl.constexpr, coords, col, real, g, winners, all_cells, sizes, outs,
    RANK: tl.constexpr, AXES: tl.constexpr, AROUND: tl.constexpr,
):  # fmt: skip
    """The cell that has won one of the windows around, whether there is such, and the gradient of the window."""
    last = col + _away(number, AROUND, RANK - 1)
    around = ()
    for axis in tl.static_range(RANK - 1):
        around = around + (coords[axis] + _away(number, AROUND, axis),)
    at = last * 0
    step = 1
    for axis in tl.static_range(RANK - 1, -1, -1):
        o = last if axis == RANK - 1 else around[axis]
        if AROUND[axis][0] > 1:
            real = real & (o >= 0) & (o < outs[axis])
        at = at + o * step
        step = step * outs[axis]
    place = tl.load(winners + at, mask=real, other=0).to(tl.int64)
    wins = real & (place < all_cells)  # else too few of its cells are there
    won, _, wins = cell(place, around if RANK > 1 else coords, last, wins, sizes, outs, RANK, AXES, False)
    return won, wins, tl.load(g + at, mask=wins, other=0)


@triton.constexpr_function
def _away(number, around, axis):
    """How many outputs away one of the windows around lies, along an axis."""
    count, inside, step = around[axis]
    return (number // inside % count - count // 2) * step
