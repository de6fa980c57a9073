"""The kernel for windows in steps of 1 or 2 along the last axis: a place of the tile has neighbouring outputs.

    cells     -1 | 0 1 2 3 | 4 5 6 7 | ...      a group of two outputs reads its four cells at once,
    windows   [. . .]   .                       and as many before and after them, where windows see any
                  [. . .]

So a row is read in whole vectors, and cells that two windows of a group see are read once.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .arithmetic import NAME, PAD, SKIP, SUMS, WORST, anchor, better, none_yet, number, plus_cell, scaled
from .walking import look, look_again, store_result
from .windows import aligned, below, found_anew, row_cell, tile_along_axes, tile_of_program, widened


@triton.jit
def parted(v, ROWS: tl.constexpr, COLS: tl.constexpr, PARTS: tl.constexpr):
    """Every PARTS-th column of a tile, from each of the first PARTS ones on."""
    if PARTS == 1:
        return (v,)
    elif PARTS == 2:
        return tl.split(tl.reshape(v, [ROWS, COLS, 2]))
    else:
        even, odd = tl.split(tl.reshape(v, [ROWS, COLS * (PARTS // 2), 2]))
        evens = _parted_once_more(even, ROWS, COLS, PARTS // 2)
        odds = _parted_once_more(odd, ROWS, COLS, PARTS // 2)
        found = ()
        for i in tl.static_range(PARTS // 2):
            found = found + (evens[i], odds[i])
        return found


@triton.jit
def _parted_once_more(v, ROWS: tl.constexpr, COLS: tl.constexpr, PARTS: tl.constexpr):
    """The same of a half: a function cannot call itself."""
    even, odd = tl.split(tl.reshape(v, [ROWS, COLS * (PARTS // 2), 2]))
    if PARTS == 2:
        return (even, odd)
    else:
        a, c = tl.split(tl.reshape(even, [ROWS, COLS, 2]))
        b, d = tl.split(tl.reshape(odd, [ROWS, COLS, 2]))
        return (a, b, c, d)


@triton.jit
def side_by_side(parts, PARTS: tl.constexpr):
    """Tiles as one, whose columns they have in turn."""
    if PARTS == 1:
        return parts[0]
    elif PARTS == 2:
        return tl.interleave(parts[0], parts[1])
    elif PARTS == 4:
        return tl.interleave(tl.interleave(parts[0], parts[2]), tl.interleave(parts[1], parts[3]))
    else:
        return tl.interleave(
            tl.interleave(tl.interleave(parts[0], parts[4]), tl.interleave(parts[2], parts[6])),
            tl.interleave(tl.interleave(parts[1], parts[5]), tl.interleave(parts[3], parts[7])),
        )


@triton.jit
def _line(
    x, at, first, real, size,
    KIND: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr, OVER: tl.constexpr, CELLS: tl.constexpr,
    ALIGN: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The cells of one line, of each group and so many groups before and after it, one tile for each cell."""
    found = ()
    for shift in tl.static_range(-BEFORE, AFTER + 1):
        i = (first + shift) * CELLS + tl.arange(0, CELLS * COLS)[None, :]
        kept = real
        if shift < 0:
            kept = kept & (i >= 0)
        if OVER or shift > 0:
            kept = kept & below(i, size, ALIGN)
        found = found + parted(tl.load(x + at + i, mask=kept, other=number(KIND[PAD])), ROWS, COLS, CELLS)
    return found


@triton.jit
def _is_real(
    i: tl.constexpr, col, real, size, CELLS: tl.constexpr, OVER: tl.constexpr, CLAMP: tl.constexpr,
):  # fmt: skip
    """Whether the i-th cell of each group is a real one. With CLAMP that is not asked, see `along`."""
    if not CLAMP:
        if i < 0:
            real = real & (col * CELLS + i >= 0)
        if OVER or i >= CELLS:
            real = real & (col * CELLS + i < size)
    return real


@triton.jit
def _place(i: tl.constexpr, k: tl.constexpr, col, CELLS: tl.constexpr, CLAMP: tl.constexpr):
    """The place along the last axis of the i-th cell of each group, the k-th of a window."""
    if CLAMP and i < 0:
        return tl.maximum(k, k - i - col * CELLS)
    else:
        return k


@triton.jit
def walk_groups(
    x, g, a_out, b_out, d_out, rows, all_cells, zero,
    s0, s1, s2, s3, s4, s5, s6, s7,
    o0, o1, o2, o3, o4, o5, o6, o7,
    KIND: tl.constexpr, RANK: tl.constexpr, AXES: tl.constexpr, WHOLE: tl.constexpr, LINES: tl.constexpr,
    KERNEL: tl.constexpr, STEP: tl.constexpr, LO: tl.constexpr, GROUP: tl.constexpr, BEFORE: tl.constexpr,
    AFTER: tl.constexpr, ALIGN: tl.constexpr, ALIGN_OUT: tl.constexpr, OVER: tl.constexpr, DIVISOR: tl.constexpr,
    SINK: tl.constexpr, PLACES: tl.constexpr, AGAIN: tl.constexpr, CLAMP: tl.constexpr, COMPUTE: tl.constexpr,
    SECOND: tl.constexpr,
    SLOPE: tl.constexpr, WRAPS: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """As `walk`, from cells. Columns number groups; windows see cells of up to AFTER groups behind theirs."""
    sizes = widened((s0, s1, s2, s3, s4, s5, s6, s7), WIDE)
    outs = widened((o0, o1, o2, o3, o4, o5, o6, o7), WIDE)
    first_row, first = tile_of_program(WIDE, ROWS, COLS)
    row = first_row + tl.arange(0, ROWS)[:, None]
    inside = row < rows
    coords = tile_along_axes(first_row, outs, RANK, WRAPS, ROWS)

    a = ()
    b = ()
    n = ()
    for _ in tl.static_range(GROUP):
        a = a + (tl.full([ROWS, COLS], number(KIND[WORST]), COMPUTE),)
        b = b + (tl.full([ROWS, COLS], -1 if PLACES else 0, SECOND),)
        n = n + (tl.zeros([ROWS, COLS], tl.int32),)
    if joins_columns(KIND):
        a = _joined_columns(
            x, coords, first, sizes, outs,
            KIND, RANK, AXES, LINES, KERNEL, STEP, LO, GROUP, BEFORE, AFTER, ALIGN, OVER, CLAMP, COMPUTE, ROWS, COLS,
        )  # fmt: skip
    else:
        for line in tl.static_range(LINES):
            a, b, n = _lines(
                line, a, b, n, x, coords, first, sizes, outs,
                KIND, RANK, AXES, KERNEL, STEP, LO, GROUP, BEFORE, AFTER, ALIGN, OVER, PLACES, CLAMP, COMPUTE, SLOPE,
                ROWS, COLS, "",
            )  # fmt: skip
    if AGAIN or PLACES:
        for back in tl.static_range(LINES):
            a, b, n = _lines(
                LINES - 1 - back, a, b, n, x, coords, first, sizes, outs,
                KIND, RANK, AXES, KERNEL, STEP, LO, GROUP, BEFORE, AFTER, ALIGN, OVER, PLACES, CLAMP, COMPUTE, SLOPE,
                ROWS, COLS, "numbers",
            )  # fmt: skip
    nans = a[0] != a[0]
    for r in tl.static_range(1, GROUP):
        nans = nans | (a[r] != a[r])
    if PLACES and COMPUTE.is_floating() and tl.max(nans.to(tl.int32)) > 0:
        winners = ()
        for r in tl.static_range(GROUP):
            winners = winners + (tl.where(a[r] != a[r], none_yet(b[r]), b[r]),)
        b = winners
        for left in tl.static_range(LINES):
            a, b, n = _lines(
                LINES - 1 - left, a, b, n, x, found_anew(coords, zero, RANK), first + zero, sizes, outs,
                KIND, RANK, AXES, KERNEL, STEP, LO, GROUP, BEFORE, AFTER, ALIGN, OVER, PLACES, CLAMP, COMPUTE, SLOPE,
                ROWS, COLS, "NaNs",
            )  # fmt: skip
    out = first * GROUP + tl.arange(0, GROUP * COLS)[None, :]
    nothing = tl.zeros([ROWS, GROUP * COLS], SLOPE)
    store_result(
        side_by_side(a, GROUP), side_by_side(b, GROUP), nothing, side_by_side(n, GROUP), coords, out,
        aligned(row, outs[RANK - 1], ALIGN_OUT) + out, inside & below(out, outs[RANK - 1], ALIGN_OUT),
        g, a_out, b_out, d_out, x, sizes, outs, all_cells, KIND, RANK, WHOLE, DIVISOR, SINK, False, PLACES, SLOPE, True,
    )  # fmt: skip


@triton.constexpr_function
def joins_columns(kind):
    """Whether the lines of a window can be joined before its columns: those of sums without an error, and of maxima."""
    adds_up = kind[NAME.value] in ("sum", "avg") and kind[SUMS.value] == "plain"
    return kind[SKIP.value] == "no" and (adds_up or kind[NAME.value] in ("max", "min"))


@triton.jit
def _joined(a, b, KIND: tl.constexpr):
    if KIND[NAME] == "max" or KIND[NAME] == "min":
        return better(a, b, KIND)
    else:
        return a + b


@triton.jit
def _with_cell(a, cell, KIND: tl.constexpr):
    if KIND[NAME] == "max" or KIND[NAME] == "min":
        return better(a, cell, KIND)
    else:
        return plus_cell(a, cell, KIND)


@triton.jit
def _joined_columns(
    x, coords, first, sizes, outs,
    KIND: tl.constexpr, RANK: tl.constexpr, AXES: tl.constexpr, LINES: tl.constexpr, KERNEL: tl.constexpr,
    STEP: tl.constexpr, LO: tl.constexpr, GROUP: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr,
    ALIGN: tl.constexpr, OVER: tl.constexpr, CLAMP: tl.constexpr, COMPUTE: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The states of a group: each column over all lines first, which neighbouring windows share."""
    CELLS: tl.constexpr = STEP * GROUP
    there = tl.full([1, 1], True, tl.int1)
    columns = ()
    for line in tl.static_range(LINES):
        at, _, real = row_cell(line * KERNEL, coords, there, sizes[RANK - 1] // ALIGN, sizes, outs, RANK, AXES, CLAMP)
        cells = _line(x, at * ALIGN, first, real, sizes[RANK - 1], KIND, BEFORE, AFTER, OVER, CELLS, ALIGN, ROWS, COLS)
        longer = ()
        for c in tl.static_range(CELLS * (BEFORE + 1 + AFTER)):
            cell = cells[c].to(COMPUTE)
            longer = longer + (_with_cell(columns[c], cell, KIND) if line > 0 else scaled(cell, KIND),)
        columns = longer
    found = ()
    for r in tl.static_range(GROUP):
        state = tl.full([ROWS, COLS], number(KIND[WORST]), COMPUTE)
        for j in tl.static_range(KERNEL):
            state = _joined(state, columns[STEP * (r + BEFORE * GROUP) - LO + j], KIND)
        found = found + (state,)
    return found


@triton.jit
def _lines(
    line: tl.constexpr, a, b, n, x, coords, first, sizes, outs,
    KIND: tl.constexpr, RANK: tl.constexpr, AXES: tl.constexpr, KERNEL: tl.constexpr, STEP: tl.constexpr,
    LO: tl.constexpr, GROUP: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr, ALIGN: tl.constexpr,
    OVER: tl.constexpr, PLACES: tl.constexpr, CLAMP: tl.constexpr, COMPUTE: tl.constexpr, SLOPE: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, WINNERS: tl.constexpr,
):  # fmt: skip
    """The states of a group with one line of cells more, or what `look_again` finds of `WINNERS` in it."""
    size = sizes[RANK - 1]
    col = first + tl.arange(0, COLS)[None, :]
    there = tl.full([1, 1], True, tl.int1)
    nothing = tl.zeros([ROWS, COLS], SLOPE)
    at, where, real = row_cell(line * KERNEL, coords, there, size // ALIGN, sizes, outs, RANK, AXES, CLAMP)
    cells = _line(x, at * ALIGN, first, real, size, KIND, BEFORE, AFTER, OVER, STEP * GROUP, ALIGN, ROWS, COLS)
    new_a = ()
    new_b = ()
    new_n = ()
    for r in tl.static_range(GROUP):
        best = anchor(a[r], KIND) if WINNERS != "" else a[r]
        second = b[r]
        count = n[r]
        for j in tl.static_range(KERNEL):
            if WINNERS != "":
                second, nothing = look_again(
                    best, second, nothing, cells[STEP * (r + BEFORE * GROUP) - LO + KERNEL - 1 - j], at,
                    _is_real(STEP * r - LO + KERNEL - 1 - j, col, real, size, STEP * GROUP, OVER, CLAMP),
                    where + _place(STEP * r - LO + KERNEL - 1 - j, KERNEL - 1 - j, col, STEP * GROUP, CLAMP), 1,
                    x, x, x, KIND, "cells", False, PLACES, COMPUTE, SLOPE, WINNERS,
                )  # fmt: skip
            else:
                best, second, nothing, count = look(
                    best, second, nothing, count, cells[STEP * (r + BEFORE * GROUP) - LO + j], at,
                    _is_real(STEP * r - LO + j, col, real, size, STEP * GROUP, OVER, CLAMP),
                    where + _place(STEP * r - LO + j, j, col, STEP * GROUP, CLAMP), 1,
                    x, x, x, KIND, "cells", False, False, COMPUTE, SLOPE, line + j == 0,
                )  # fmt: skip
        new_a = new_a + (a[r] if WINNERS != "" else best,)
        new_b = new_b + (second,)
        new_n = new_n + (count,)
    return new_a, new_b, new_n
