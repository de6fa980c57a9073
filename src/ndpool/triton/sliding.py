"""The kernel for wide windows in steps of one along an axis: a place of the tile has several outputs that share cells.

The cells under OUTPUTS neighbours are read once, and joined in twos, fours, eights and so on. A window is one of each
length whose sum it is:

    13 cells = 1 + 4 + 8      ranges of 1, 2, 4, 8 cells are known for every start after 3 rounds

So an output costs as many steps as its kernel has binary digits, and a part of the cells around it.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .arithmetic import NAME, WORST, are_equal, beats, better, number
from .chaining import wait_for_the_one_before
from .groups import parted, side_by_side
from .walking import store_result
from .windows import aligned, along_axes, below, is_among, tile_of_program, wide_number, widened


@triton.jit
def _joined(a, p, b, q, KIND: tl.constexpr, PLACES: tl.constexpr, SOURCE: tl.constexpr):
    """Two ranges as one, of which the first comes before the other, but for states; a place of -1 is no cell."""
    if KIND[NAME] == "sum" or KIND[NAME] == "avg":
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
        values = values + (read[j].to(COMPUTE),)
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
    if ALIGN:
        o = start * OUTPUTS + tl.arange(0, OUTPUTS * COLS)[None, :]
        nothing = tl.zeros([ROWS, OUTPUTS * COLS], tl.int32)
        store_result(
            side_by_side(found, OUTPUTS), side_by_side(found_places, OUTPUTS), nothing, nothing,
            along_axes(row, outs, RANK), o, row * out + o, inside_rows & (o < out), a_in, a_out, b_out, a_in, a_in,
            (f0, f1, f2, f3, f4, f5, f6, f7), outs, all_cells,
            KIND, RANK, WHOLE, DIVISOR, SINK, False, PLACES, SLOPE, PLACES,
        )  # fmt: skip
    else:
        nothing = tl.zeros([ROWS, COLS], tl.int32)
        for r in tl.static_range(OUTPUTS):
            at = (row * out + first + r) * inner + within
            store_result(
                found[r], found_places[r], nothing, nothing,
                along_axes(at // outs[RANK - 1], outs, RANK), at % outs[RANK - 1], at, inside & (first + r < out),
                a_in, a_out, b_out, a_in, a_in, (f0, f1, f2, f3, f4, f5, f6, f7), outs, all_cells,
                KIND, RANK, WHOLE, DIVISOR, SINK, False, PLACES, SLOPE, PLACES,
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
