"""The kernel that takes winners back along one axis, for windows that see too many cells for each to ask them all.

Along the innermost axis, a cell gets the gradient of all windows whose winner lies in its column. These windows agree
on the rest of the place: it is the first of the best cells of that column, whichever windows see it. So the sum goes on
along the next axis with that rest, and the cost is the sum of the kernel's sides.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .arithmetic import rounded
from .windows import tile_of_program


@triton.jit
def _taken(
    sum, rest, g, winners, offset, place, seen, all_cells,
    KERNEL: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr, SLOPE: tl.constexpr,
):  # fmt: skip
    """The sum with the gradient of one window, if its winner is at this place, and the rest of that winner's place."""
    winner = tl.load(winners + offset, mask=seen, other=-1 if winners.dtype.element_ty == tl.int32 else 0).to(tl.int32)
    seen = seen & ((winner < all_cells) if FIRST else (winner >= 0))
    if LAST:
        wins = seen & (winner == place)
    else:
        wins = seen & (winner % KERNEL == place)
        rest = tl.where(wins, winner // KERNEL, rest)
    return sum + tl.load(g + offset, mask=wins, other=0).to(SLOPE), rest


@triton.jit
def winners_along(
    g, winners, g_out, rest_out, rows, windows, all_cells, size, out, inner,
    KERNEL: tl.constexpr, STRIDE: tl.constexpr, DILATION: tl.constexpr, LO: tl.constexpr,
    FIRST: tl.constexpr, LAST: tl.constexpr, UNROLL: tl.constexpr, SLOPE: tl.constexpr,
    WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Rows number what is outside of the axis, columns its cells and what is inside of it.

    The `FIRST` kernel of several reads the winners of a plan; the `LAST` writes no rest.
    """
    columns = size * inner
    row, first = tile_of_program(columns, WIDE, ROWS, COLS)
    col = first + tl.arange(0, COLS)[None, :]
    inside = (row < rows) & (col < columns)
    row = tl.minimum(row, rows - 1)
    i = col // inner
    top = tl.minimum((i + LO) // STRIDE, out - 1)
    sum = tl.zeros([ROWS, COLS], SLOPE)
    rest = tl.full([ROWS, COLS], -1, tl.int32)
    if UNROLL:
        # In steps of one, the windows over a cell have it at every place, one after the other.
        for place in tl.static_range(KERNEL):
            o = i + (LO - place * DILATION)
            seen = inside & (o >= 0) & (o < out)
            offset = row * out * inner + o * inner + col % inner
            sum, rest = _taken(sum, rest, g, winners, offset, place, seen, all_cells, KERNEL, FIRST, LAST, SLOPE)
    else:
        for j in range(windows):
            o = top - j
            away = i + LO - o * STRIDE
            place = away // DILATION
            seen = inside & (o >= 0) & (place < KERNEL) & (away == place * DILATION)
            offset = row * out * inner + o * inner + col % inner
            sum, rest = _taken(sum, rest, g, winners, offset, place, seen, all_cells, KERNEL, FIRST, LAST, SLOPE)
    at = row * columns + col
    tl.store(g_out + at, rounded(sum, g_out.dtype), mask=inside)
    if not LAST:
        tl.store(rest_out + at, rest, mask=inside)
