"""The kernels that take winners back along some axes, for windows that see too many cells for each to ask them all.

Along the innermost axis, a cell gets the gradient of all windows whose winner lies in its column. These windows agree
on the rest of the place: it is the first of the best cells of that column, whichever windows see it. So the sum goes on
along the next axis with that rest, and the cost is the sum of the kernel's sides. Several axes may go at once: in small
arrays, to start another kernel takes longer than to ask more windows.

`slide_back` is for windows in steps of one along one axis. A place of the tile has CELLS neighbouring cells. The
windows over any of them are read once, and each asks whether one of these cells is its winner:

    cells                 0 1 2 3            a window that starts n cells before cell 0 has cell c at place n + c
    windows     [. . . . .]     [. . . . .]
"""

from __future__ import annotations

import triton
import triton.language as tl

from .arithmetic import rounded
from .chaining import wait_for_the_one_before
from .gathering import window_over
from .groups import parted, side_by_side
from .walking import LOADS_AT_ONCE
from .windows import aligned, below, is_among, tile_along_axes, tile_of_program, wide_number, widened


@triton.jit
def _taken(
    sum, rest, g, winners, offset, place, seen, all_cells,
    PLACES: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr, SLOPE: tl.constexpr,
):  # fmt: skip
    """The sum with the gradient of one window, if its winner is at this place, and the rest of that winner's place."""
    share = tl.load(g + offset, mask=seen, other=0).to(SLOPE)  # no matter who wins, so that it need not wait for that
    winner = tl.load(winners + offset, mask=seen, other=0 if FIRST else -1).to(tl.int32)
    seen = seen & ((winner < all_cells) if FIRST else (winner >= 0))
    if LAST:
        wins = seen & (winner == place)
    else:
        wins = seen & (winner % PLACES == place)
        rest = tl.where(wins, winner // PLACES, rest)
    return tl.where(wins, sum + share, sum), rest


@triton.jit
def _narrow(rest, POINTER: tl.constexpr):
    """The rest as the memory at a pointer takes it. A maximum keeps the compiler from narrow steps before it."""
    return tl.maximum(rest, -1).to(POINTER.element_ty)


@triton.jit
def winners_over(
    g, winners, g_out, rest_out, rows, windows, all_cells,
    s0, s1, s2, s3, s4, s5, s6, s7,
    o0, o1, o2, o3, o4, o5, o6, o7,
    RANK: tl.constexpr, AXES: tl.constexpr, ASKED: tl.constexpr, PLACES: tl.constexpr, UNROLL: tl.constexpr,
    FIRST: tl.constexpr, LAST: tl.constexpr, SLOPE: tl.constexpr,
    CHAINED: tl.constexpr, WRAPS: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Windows of any steps, along some axes at once, over which they have so many PLACES; for `ASKED` see `gather_any`.

    The `FIRST` kernel of several reads the winners of a plan; the `LAST` writes no rest.
    """
    wait_for_the_one_before(CHAINED)
    sizes = widened((s0, s1, s2, s3, s4, s5, s6, s7), WIDE)
    outs = widened((o0, o1, o2, o3, o4, o5, o6, o7), WIDE)
    first_row, first = tile_of_program(WIDE, ROWS, COLS)
    row = first_row + tl.arange(0, ROWS)[:, None]
    col = first + tl.arange(0, COLS)[None, :]
    inside = (row < rows) & (col < sizes[RANK - 1])
    coords = tile_along_axes(first_row, sizes, RANK, WRAPS, ROWS)
    sum = tl.zeros([ROWS, COLS], SLOPE)
    rest = tl.full([ROWS, COLS], -1, tl.int32)
    if UNROLL:
        for number in tl.static_range(UNROLL):
            offset, place, seen = window_over(number, coords, col, inside, sizes, outs, RANK, AXES, ASKED)
            sum, rest = _taken(sum, rest, g, winners, offset, place, seen, all_cells, PLACES, FIRST, LAST, SLOPE)
    else:
        for number in tl.range(windows, loop_unroll_factor=LOADS_AT_ONCE):
            offset, place, seen = window_over(number, coords, col, inside, sizes, outs, RANK, AXES, ASKED)
            sum, rest = _taken(sum, rest, g, winners, offset, place, seen, all_cells, PLACES, FIRST, LAST, SLOPE)
    at = row * sizes[RANK - 1] + col
    tl.store(g_out + at, rounded(sum, g_out.dtype), mask=inside)
    if not LAST:
        tl.store(rest_out + at, _narrow(rest, rest_out.dtype), mask=inside)


@triton.jit
def slide_back(
    g, winners, g_out, rest_out, rows, all_cells, size, out, inner,
    KERNEL: tl.constexpr, LO: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr, SLOPE: tl.constexpr,
    CELLS: tl.constexpr, ALIGN: tl.constexpr, CHAINED: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr,
    COLS: tl.constexpr,
):  # fmt: skip
    """As `winners_over`; columns number groups of CELLS neighbours along the axis, and what is inside of it.

    `ALIGN` is 0 where something is inside. Else rows start at multiples of so many cells, and are read in vectors.
    """
    wait_for_the_one_before(CHAINED)
    inner = wide_number(inner, WIDE)
    columns = tl.cdiv(size, CELLS) * inner
    row, start = tile_of_program(WIDE, ROWS, COLS)
    row = row + tl.arange(0, ROWS)[:, None]
    col = start + tl.arange(0, COLS)[None, :]
    inside = (row < rows) & (col < columns)
    inside_rows = row < rows
    first = col // inner * CELLS
    within = col % inner
    BEFORE: tl.constexpr = (KERNEL - 1 - LO + CELLS - 1) // CELLS if KERNEL - 1 > LO else 0
    AFTER: tl.constexpr = (LO + CELLS - 1) // CELLS

    if ALIGN:
        shares = ()
        places = ()
        kept_rests = ()
        for shift in tl.static_range(-BEFORE, AFTER + 1):
            o = (start + shift) * CELLS + tl.arange(0, CELLS * COLS)[None, :]
            seen = inside_rows & (o >= 0) & below(o, out, ALIGN)
            at = aligned(row, out, ALIGN) + o
            shares = shares + parted(tl.load(g + at, mask=seen, other=0), ROWS, COLS, CELLS)
            place, rest = _split(winners, at, seen, all_cells, KERNEL, FIRST, LAST)
            places = places + parted(place, ROWS, COLS, CELLS)
            kept_rests = kept_rests + parted(rest, ROWS, COLS, CELLS)

    sums = ()
    rests = ()
    for _ in tl.static_range(CELLS):
        sums = sums + (tl.zeros([ROWS, COLS], SLOPE),)
        rests = rests + (tl.full([ROWS, COLS], -1, tl.int32),)
    for j in tl.static_range(KERNEL + CELLS - 1):
        # The window that has the first cell at its place KERNEL - 1 - j.
        if ALIGN:
            share = shares[BEFORE * CELLS + LO - KERNEL + 1 + j]
            place = places[BEFORE * CELLS + LO - KERNEL + 1 + j]
            rest = kept_rests[BEFORE * CELLS + LO - KERNEL + 1 + j]
        else:
            o = first + (LO - KERNEL + 1 + j)
            seen = inside & is_among(o, out)
            at = (row * out + o) * inner + within
            share = tl.load(g + at, mask=seen, other=0)
            place, rest = _split(winners, at, seen, all_cells, KERNEL, FIRST, LAST)
        sums, rests = _given(j, share.to(SLOPE), place, rest, sums, rests, KERNEL, LAST, CELLS)

    if ALIGN:
        i = start * CELLS + tl.arange(0, CELLS * COLS)[None, :]
        at = aligned(row, size, ALIGN) + i
        kept = inside_rows & below(i, size, ALIGN)
        tl.store(g_out + at, rounded(side_by_side(sums, CELLS), g_out.dtype), mask=kept)
        if not LAST:
            tl.store(rest_out + at, _narrow(side_by_side(rests, CELLS), rest_out.dtype), mask=kept)
    else:
        for c in tl.static_range(CELLS):
            at = (row * size + first + c) * inner + within
            kept = inside & (first + c < size)
            tl.store(g_out + at, rounded(sums[c], g_out.dtype), mask=kept)
            if not LAST:
                tl.store(rest_out + at, _narrow(rests[c], rest_out.dtype), mask=kept)


@triton.jit
def _split(winners, at, seen, all_cells, KERNEL: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr):
    """The places of winners along this axis, -1 for those that are not there, and the rest of their places."""
    winner = tl.load(winners + at, mask=seen, other=0).to(tl.int32)
    there = seen & ((winner < all_cells) if FIRST else (winner >= 0))
    if LAST:
        return tl.where(there, winner, -1), winner
    else:
        if FIRST and winners.dtype.element_ty == tl.uint8:
            rest = winner * (65536 // KERNEL + 1) >> 16  # exact for numbers below 256
        else:
            rest = winner // KERNEL
        return tl.where(there, winner - rest * KERNEL, -1), rest


@triton.jit
def _given(
    j: tl.constexpr, share, place, rest, sums, rests,
    KERNEL: tl.constexpr, LAST: tl.constexpr, CELLS: tl.constexpr,
):  # fmt: skip
    """The sums and rests of CELLS neighbours with the j-th of the windows over them."""
    new_sums = ()
    new_rests = ()
    for c in tl.static_range(CELLS):
        sum = sums[c]
        kept = rests[c]
        if c + KERNEL - 1 - j >= 0 and c - j <= 0:
            wins = place == c + KERNEL - 1 - j
            sum = tl.where(wins, sum + share, sum)
            kept = tl.where(wins, rest, kept)
        new_sums = new_sums + (sum,)
        new_rests = new_rests + (kept,)
    return new_sums, new_rests
