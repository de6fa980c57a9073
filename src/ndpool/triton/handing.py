"""The way back of winners where cells are many and windows few: hardly any cell wins, so winners are visited.

All cells are cleared first. Then each window finds the cell that won it, which asks all windows over it:

    windows    0       1            0 and 1 are won by the same cell, to which 0 hands g_0 + g_1, and 1 nothing
                \\     /
    cells      . . . * . . .

The first window that a cell has won hands it all that it gets. So one window at most writes to a cell, and nothing is
atomic.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .arithmetic import rounded
from .chaining import wait_for_the_one_before
from .gathering import ASKED_AT_ONCE, window_over
from .windows import along, row_block, tile_along_axes, tile_of_program, widened


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
    g, winners, gx, rows, windows, all_cells,
    s0, s1, s2, s3, s4, s5, s6, s7,
    o0, o1, o2, o3, o4, o5, o6, o7,
    RANK: tl.constexpr, AXES: tl.constexpr, ASKED: tl.constexpr, SLOPE: tl.constexpr, UNROLL: tl.constexpr,
    CHAINED: tl.constexpr, WRAPS: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """A tile of windows; for `ASKED` see `gather_any`, in whose order the windows over a cell are asked."""
    sizes = widened((s0, s1, s2, s3, s4, s5, s6, s7), WIDE)
    outs = widened((o0, o1, o2, o3, o4, o5, o6, o7), WIDE)
    first_row, first = tile_of_program(WIDE, ROWS, COLS)
    row = first_row + tl.arange(0, ROWS)[:, None]
    col = first + tl.arange(0, COLS)[None, :]
    inside = (row < rows) & (col < outs[RANK - 1])
    coords = tile_along_axes(first_row, outs, RANK, WRAPS, ROWS)
    own = row * outs[RANK - 1] + col
    place = _place(winners + own, inside, WIDE)
    hands = inside & (place < all_cells)  # else too few of its cells are there
    won = ()
    at = col * 0
    step = 1
    for back in tl.static_range(RANK):
        o = col if back == 0 else coords[RANK - 1 - back]
        i, _, _ = along(o, place, hands, sizes[RANK - 1 - back], outs[RANK - 1 - back], AXES, RANK - 1 - back, False)
        won = (i,) + won
        at = at + i * step
        step = step * sizes[RANK - 1 - back]
    sum = tl.zeros([ROWS, COLS], SLOPE)
    if UNROLL == 1:  # nobody else can have won the cell
        sum = tl.load(g + own, mask=inside, other=0)
    elif UNROLL:
        sum, hands = _also_won(
            0, sum, hands, own, won, inside, windows, g, winners, sizes, outs, RANK, AXES, ASKED, UNROLL, WIDE
        )
    else:
        for number in range(0, windows, ASKED_AT_ONCE):
            sum, hands = _also_won(
                number, sum, hands, own, won, inside, windows, g, winners, sizes, outs,
                RANK, AXES, ASKED, ASKED_AT_ONCE, WIDE,
            )  # fmt: skip
    wait_for_the_one_before(CHAINED)  # until all cells are cleared
    tl.store(gx + at, rounded(sum, gx.dtype), mask=hands)


@triton.jit
def _place(winners, real, WIDE: tl.constexpr):
    """The places of winners, as numbers that all places of a window fit into."""
    places = tl.load(winners, mask=real, other=0)
    return places.to(tl.int64) if WIDE else places.to(tl.int32)


@triton.jit
def _also_won(
    first, sum, hands, own, won, seen, windows, g, winners, sizes, outs,
    RANK: tl.constexpr, AXES: tl.constexpr, ASKED: tl.constexpr, COUNT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The sum with what COUNT of the windows over the cell `won` have for it, and whether none before `own` has.

    All winners are on their way from memory before the first is looked at.
    """
    offsets = ()
    wins = ()
    for i in tl.static_range(COUNT):
        offset, place, there = window_over(first + i, won, won[RANK - 1], seen, sizes, outs, RANK, AXES, ASKED)
        there = there & (tl.full([1, 1], first + i, tl.int32) < windows)
        offsets = offsets + (offset,)
        wins = wins + (there & (_place(winners + offset, there, WIDE) == place),)
    for i in tl.static_range(COUNT):
        share = tl.load(g + offsets[i], mask=wins[i], other=0)
        sum = tl.where(wins[i], sum + share.to(sum.dtype), sum)
        hands = hands & ~(wins[i] & (offsets[i] < own))
    return sum, hands
