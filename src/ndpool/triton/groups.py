"""The kernel for windows in steps of 2 along the last axis: a place of the tile has a group of neighbouring outputs.

    cells     -1 | 0 1 2 3 | 4 5 6 7 | ...      a group of two outputs reads its four cells at once,
    windows   [. . .]   .                       and as many before and after them, where windows see any
                  [. . .]

So a row is read in whole vectors, and cells that two windows of a group see are read once.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .arithmetic import WORST, number
from .walking import look, look_again, store_result
from .windows import row_cell, tile_of_program


@triton.jit
def _parted(v, ROWS: tl.constexpr, COLS: tl.constexpr, PARTS: tl.constexpr):
    """Every PARTS-th column of a tile, from each of the first PARTS ones on."""
    even, odd = tl.split(tl.reshape(v, [ROWS, COLS * (PARTS // 2), 2]))
    if PARTS == 2:
        return (even, odd)
    else:
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
def _side_by_side(parts, PARTS: tl.constexpr):
    """Tiles as one, whose columns they have in turn."""
    if PARTS == 1:
        return parts[0]
    elif PARTS == 2:
        return tl.interleave(parts[0], parts[1])
    else:
        return tl.interleave(tl.interleave(parts[0], parts[2]), tl.interleave(parts[1], parts[3]))


@triton.jit
def _line(
    x, at, first, real, size,
    KIND: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr, OVER: tl.constexpr, CELLS: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The cells of one line, of each group and so many groups before and after it, one tile for each cell."""
    found = ()
    for shift in tl.static_range(-BEFORE, AFTER + 1):
        i = (first + shift) * CELLS + tl.arange(0, CELLS * COLS)[None, :]
        kept = real
        if shift < 0:
            kept = kept & (i >= 0)
        if OVER or shift > 0:
            kept = kept & (i < size)
        found = found + _parted(tl.load(x + at + i, mask=kept, other=number(KIND[WORST])), ROWS, COLS, CELLS)
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
    x, g, a_out, b_out, d_out, rows, all_cells,
    s0, s1, s2, s3, s4, s5, s6, s7,
    o0, o1, o2, o3, o4, o5, o6, o7,
    KIND: tl.constexpr, RANK: tl.constexpr, AXES: tl.constexpr, WHOLE: tl.constexpr, LINES: tl.constexpr,
    KERNEL: tl.constexpr, LO: tl.constexpr, GROUP: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr,
    ALIGN: tl.constexpr, OVER: tl.constexpr, DIVISOR: tl.constexpr, SINK: tl.constexpr, PLACES: tl.constexpr, AGAIN: tl.constexpr,
    CLAMP: tl.constexpr, COMPUTE: tl.constexpr, SECOND: tl.constexpr, SLOPE: tl.constexpr,
    WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """As `walk`, from cells. Columns number groups; windows see cells of up to AFTER groups behind theirs."""
    sizes = (s0, s1, s2, s3, s4, s5, s6, s7)
    outs = (o0, o1, o2, o3, o4, o5, o6, o7)
    size = sizes[RANK - 1]
    row, first = tile_of_program(tl.cdiv(outs[RANK - 1], GROUP), WIDE, ROWS, COLS)
    col = first + tl.arange(0, COLS)[None, :]
    numbers = row < rows
    row = tl.minimum(row, rows - 1)
    there = tl.full([1, 1], True, tl.int1)

    a = ()
    b = ()
    n = ()
    for _ in tl.static_range(GROUP):
        a = a + (tl.full([ROWS, COLS], number(KIND[WORST]), COMPUTE),)
        b = b + (tl.full([ROWS, COLS], -1 if PLACES else 0, SECOND),)
        n = n + (tl.zeros([ROWS, COLS], tl.int32),)
    d = tl.zeros([ROWS, COLS], SLOPE)
    for line in tl.static_range(LINES):
        at, _, real = row_cell(line * KERNEL, row, there, size // ALIGN, sizes, outs, RANK, AXES, CLAMP)
        cells = _line(x, at * ALIGN, first, real, size, KIND, BEFORE, AFTER, OVER, 2 * GROUP, ROWS, COLS)
        new_a = ()
        new_b = ()
        new_n = ()
        for r in tl.static_range(GROUP):
            best, second, count = a[r], b[r], n[r]
            for k in tl.static_range(KERNEL):
                is_real = _is_real(2 * r - LO + k, col, real, size, 2 * GROUP, OVER, CLAMP)
                best, second, d, count = look(
                    best, second, d, count, cells[2 * (r + BEFORE * GROUP) - LO + k], at, is_real, x, x, x,
                    KIND, "cells", False, COMPUTE, SLOPE, line + k == 0,
                )  # fmt: skip
            new_a = new_a + (best,)
            new_b = new_b + (second,)
            new_n = new_n + (count,)
        a = new_a
        b = new_b
        n = new_n
    if AGAIN:
        b = _again(
            a, b, d, x, row, first, col, there, sizes, outs,
            KIND, RANK, AXES, LINES, KERNEL, LO, GROUP, BEFORE, AFTER, ALIGN, OVER, PLACES, CLAMP, COMPUTE, SLOPE, ROWS, COLS,
            "numbers" if CLAMP else "all",
        )  # fmt: skip
        if CLAMP and COMPUTE.is_floating():
            nans = a[0] != a[0]
            for r in tl.static_range(1, GROUP):
                nans = nans | (a[r] != a[r])
            if tl.max(nans.to(tl.int32)) > 0:
                b = _again(
                    a, b, d, x, row, first, col, there, sizes, outs,
                    KIND, RANK, AXES, LINES, KERNEL, LO, GROUP, BEFORE, AFTER, ALIGN, OVER, PLACES, CLAMP, COMPUTE, SLOPE,
                    ROWS, COLS, "NaNs",
                )  # fmt: skip
    out = first * GROUP + tl.arange(0, GROUP * COLS)[None, :]
    nothing = tl.zeros([ROWS, GROUP * COLS], SLOPE)
    store_result(
        _side_by_side(a, GROUP), _side_by_side(b, GROUP), nothing, _side_by_side(n, GROUP), row, out,
        row * outs[RANK - 1] + out, numbers & (out < outs[RANK - 1]), g, a_out, b_out, d_out, x,
        sizes, outs, all_cells, KIND, RANK, WHOLE, DIVISOR, SINK, False, PLACES, SLOPE, True,
    )  # fmt: skip


@triton.jit
def _again(
    a, b, d, x, row, first, col, there, sizes, outs,
    KIND: tl.constexpr, RANK: tl.constexpr, AXES: tl.constexpr, LINES: tl.constexpr, KERNEL: tl.constexpr,
    LO: tl.constexpr, GROUP: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr, ALIGN: tl.constexpr,
    OVER: tl.constexpr, PLACES: tl.constexpr, CLAMP: tl.constexpr, COMPUTE: tl.constexpr, SLOPE: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, WINNERS: tl.constexpr,
):  # fmt: skip
    """What depends on the best cells, of all outputs of the groups; see `look_again`."""
    size = sizes[RANK - 1]
    for back in tl.static_range(LINES):
        line = LINES - 1 - back
        at, where, real = row_cell(line * KERNEL, row, there, size // ALIGN, sizes, outs, RANK, AXES, CLAMP)
        cells = _line(x, at * ALIGN, first, real, size, KIND, BEFORE, AFTER, OVER, 2 * GROUP, ROWS, COLS)
        if not CLAMP:
            where = line * KERNEL
        found = ()
        for r in tl.static_range(GROUP):
            second = b[r]
            for k in tl.static_range(KERNEL - 1, -1, -1):
                second, d = look_again(
                    a[r], second, d, cells[2 * (r + BEFORE * GROUP) - LO + k], at,
                    _is_real(2 * r - LO + k, col, real, size, 2 * GROUP, OVER, CLAMP),
                    where + _place(2 * r - LO + k, k, col, 2 * GROUP, CLAMP), 1, x, x, x,
                    KIND, "cells", False, PLACES, COMPUTE, SLOPE, WINNERS,
                )  # fmt: skip
            found = found + (second,)
        b = found
    return b
