"""The kernel for windows in steps of 2 along the last axis: rows are read whole, two cells to a place of the tile.

    row       0 1 2 3 4 5 ...         read at once, and split into
    left      0   2   4   ...
    right       1   3   5 ...

A window over cells -1, 0 and 1 sees the right cell of the pair before, and both cells of its own. `SHIFTS` lists the
pairs that windows see: (how far the pair is, the place of its left cell or -1, the place of its right cell or -1).
"""

from __future__ import annotations

import triton
import triton.language as tl

from .arithmetic import WORST, number
from .walking import look, look_again, store_result
from .windows import row_cell, tile_of_program


@triton.jit
def _pair(x, at, col, inside, size, SHIFT: tl.constexpr, OVER: tl.constexpr, KIND: tl.constexpr, COLS: tl.constexpr):
    """The left and the right cell of each pair, and whether they are real."""
    i = (col + SHIFT) * 2 + tl.arange(0, 2 * COLS)[None, :]
    real = inside
    if SHIFT < 0:
        real = real & (i >= 0)
    if OVER:
        real = real & (i < size)
    v = tl.load(x + at + i, mask=real, other=number(KIND[WORST]))
    left, right = tl.split(tl.reshape(v, [v.shape[0], COLS, 2]))
    return left, right


@triton.jit
def _is_real(col, inside, size, SHIFT: tl.constexpr, SIDE: tl.constexpr, OVER: tl.constexpr):
    if SHIFT < 0:
        inside = inside & (col + SHIFT >= 0)
    if OVER:
        inside = inside & ((col + SHIFT) * 2 + SIDE < size)
    return inside


@triton.jit
def walk_pairs(
    x, g, a_out, b_out, d_out, rows, all_cells,
    s0, s1, s2, s3, s4, s5, s6, s7,
    o0, o1, o2, o3, o4, o5, o6, o7,
    KIND: tl.constexpr, RANK: tl.constexpr, AXES: tl.constexpr, WHOLE: tl.constexpr, ROW_CELLS: tl.constexpr,
    SHIFTS: tl.constexpr, PAIRS: tl.constexpr, KERNEL: tl.constexpr, ALIGN: tl.constexpr, OVER: tl.constexpr,
    DIVISOR: tl.constexpr, SINK: tl.constexpr, PLACES: tl.constexpr, AGAIN: tl.constexpr,
    COMPUTE: tl.constexpr, SECOND: tl.constexpr, SLOPE: tl.constexpr,
    WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """As `walk`, from cells."""
    sizes = (s0, s1, s2, s3, s4, s5, s6, s7)
    outs = (o0, o1, o2, o3, o4, o5, o6, o7)
    size = sizes[RANK - 1]
    row, first = tile_of_program(outs[RANK - 1], WIDE, ROWS, COLS)
    col = first + tl.arange(0, COLS)[None, :]
    inside = (row < rows) & (col < outs[RANK - 1])
    row = tl.minimum(row, rows - 1)
    there = tl.full([1, 1], True, tl.int1)

    a = tl.full([ROWS, COLS], number(KIND[WORST]), COMPUTE)
    b = tl.full([ROWS, COLS], -1 if PLACES else 0, SECOND)
    d = tl.zeros([ROWS, COLS], SLOPE)
    n = tl.zeros([ROWS, COLS], tl.int32)
    for line in tl.static_range(ROW_CELLS):
        at, real = row_cell(line * KERNEL, row, there, size // ALIGN, sizes, outs, RANK, AXES)
        at = at * ALIGN
        for s in tl.static_range(PAIRS):
            left, right = _pair(x, at, first, real, size, SHIFTS[s][0], OVER, KIND, COLS)
            if SHIFTS[s][1] >= 0:
                is_real = _is_real(col, real, size, SHIFTS[s][0], 0, OVER)
                a, b, d, n = look(
                    a, b, d, n, left, at, is_real, x, x, x, KIND, "cells", False, COMPUTE, SLOPE, line + s == 0
                )
            if SHIFTS[s][2] >= 0:
                is_real = _is_real(col, real, size, SHIFTS[s][0], 1, OVER)
                a, b, d, n = look(
                    a,
                    b,
                    d,
                    n,
                    right,
                    at,
                    is_real,
                    x,
                    x,
                    x,
                    KIND,
                    "cells",
                    False,
                    COMPUTE,
                    SLOPE,
                    (line + s == 0) and (SHIFTS[s][1] < 0),
                )
    if AGAIN:
        for line in tl.static_range(ROW_CELLS - 1, -1, -1):
            at, real = row_cell(line * KERNEL, row, there, size // ALIGN, sizes, outs, RANK, AXES)
            at = at * ALIGN
            for s in tl.static_range(PAIRS - 1, -1, -1):
                left, right = _pair(x, at, first, real, size, SHIFTS[s][0], OVER, KIND, COLS)
                if SHIFTS[s][2] >= 0:
                    is_real = _is_real(col, real, size, SHIFTS[s][0], 1, OVER)
                    b, d = look_again(
                        a, b, d, right, at, is_real, line * KERNEL + SHIFTS[s][2], 1, x, x, x,
                        KIND, "cells", False, PLACES, COMPUTE, SLOPE,
                    )  # fmt: skip
                if SHIFTS[s][1] >= 0:
                    is_real = _is_real(col, real, size, SHIFTS[s][0], 0, OVER)
                    b, d = look_again(
                        a, b, d, left, at, is_real, line * KERNEL + SHIFTS[s][1], 1, x, x, x,
                        KIND, "cells", False, PLACES, COMPUTE, SLOPE,
                    )  # fmt: skip
    store_result(
        a, b, d, n, row, col, row * outs[RANK - 1] + col, inside, g, a_out, b_out, d_out, x,
        sizes, outs, all_cells, KIND, RANK, WHOLE, DIVISOR, SINK, False, PLACES, SLOPE, True,
    )  # fmt: skip
