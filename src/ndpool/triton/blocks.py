"""The kernel for the way back from windows that lie side by side: a block of cells is a window.

Each program reads blocks, finds what the gradient of each leans on, and writes the gradient of the same cells:

    cells      0 1 | 2 3 | 4 5 | 6        x is read once, and nothing is kept between two passes
    windows     0     1     2
"""

from __future__ import annotations

import triton
import triton.language as tl

from .arithmetic import WORST, number, rounded
from .gathering import finished, part_of, phase_row, window_row
from .groups import parted, side_by_side
from .walking import look, look_again, slopes
from .windows import below, tile_along_axes, tile_of_program, widened


@triton.jit
def pull_blocks(
    g, x, gx, rows,
    s0, s1, s2, s3, s4, s5, s6, s7,
    o0, o1, o2, o3, o4, o5, o6, o7,
    b0, b1, b2, b3, b4, b5, b6, b7,
    KIND: tl.constexpr, RANK: tl.constexpr, STEPS: tl.constexpr, TAPS: tl.constexpr, MARGINS: tl.constexpr,
    PHASES: tl.constexpr, GROUP: tl.constexpr, ALIGN: tl.constexpr, ALIGN_OUT: tl.constexpr, DIVISOR: tl.constexpr,
    COMPUTE: tl.constexpr, SECOND: tl.constexpr, SLOPE: tl.constexpr, WRAPS: tl.constexpr, WIDE: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """As `gather_taps`, with one tap. Cells behind the last window are in blocks too, whose gradient is 0."""
    sizes = widened((s0, s1, s2, s3, s4, s5, s6, s7), WIDE)
    outs = widened((o0, o1, o2, o3, o4, o5, o6, o7), WIDE)
    blocks = widened((b0, b1, b2, b3, b4, b5, b6, b7), WIDE)
    STEP: tl.constexpr = STEPS[RANK - 1]
    CELLS: tl.constexpr = GROUP * STEP
    first_row, first = tile_of_program(WIDE, ROWS, COLS)
    inside = first_row + tl.arange(0, ROWS)[:, None] < rows
    coords = tile_along_axes(first_row, blocks, RANK, WRAPS, ROWS)
    i = first * CELLS + tl.arange(0, CELLS * COLS)[None, :]

    cells = ()
    for phase in tl.static_range(PHASES):
        at, real = phase_row(phase, coords, inside, sizes[RANK - 1] // ALIGN, sizes, RANK, STEPS)
        v = tl.load(x + at * ALIGN + i, mask=real & below(i, sizes[RANK - 1], ALIGN), other=number(KIND[WORST]))
        cells = cells + parted(v, ROWS, COLS, CELLS)

    window, seen = window_row(0, coords, outs, RANK, TAPS, MARGINS, ALIGN_OUT)
    seen = seen & inside
    o = first * GROUP + tl.arange(0, GROUP * COLS)[None, :]
    shares = parted(
        tl.load(g + window * ALIGN_OUT + o, mask=seen & below(o, outs[RANK - 1], ALIGN_OUT), other=0), ROWS, COLS, GROUP
    )
    col = first + tl.arange(0, COLS)[None, :]
    gets = ()
    for r in tl.static_range(GROUP):
        gets = gets + _window_back(
            r, cells, shares[r], seen & (col * GROUP + r < outs[RANK - 1]), x, gx,
            KIND, PHASES, CELLS, STEP, DIVISOR, COMPUTE, SECOND, SLOPE, ROWS, COLS,
        )  # fmt: skip
    for phase in tl.static_range(PHASES):
        line = ()
        for c in tl.static_range(CELLS):
            line = line + (gets[c // STEP * PHASES * STEP + phase * STEP + c % STEP],)
        at, real = phase_row(phase, coords, inside, sizes[RANK - 1] // ALIGN, sizes, RANK, STEPS)
        tl.store(gx + at * ALIGN + i, side_by_side(line, CELLS), mask=real & below(i, sizes[RANK - 1], ALIGN))


@triton.jit
def _window_back(
    r: tl.constexpr, cells, g, seen, x, gx,
    KIND: tl.constexpr, PHASES: tl.constexpr, CELLS: tl.constexpr, STEP: tl.constexpr, DIVISOR: tl.constexpr,
    COMPUTE: tl.constexpr, SECOND: tl.constexpr, SLOPE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """What the cells of the r-th block of each group get: one tile for each, in row-major order."""
    a = tl.full([ROWS, COLS], number(KIND[WORST]), COMPUTE)
    b = tl.zeros([ROWS, COLS], SECOND)
    nothing = tl.zeros([ROWS, COLS], SLOPE)
    n = tl.zeros([ROWS, COLS], tl.int32)
    for k in tl.static_range(PHASES * STEP):
        v = cells[k // STEP * CELLS + r * STEP + k % STEP]
        a, b, nothing, n = look(
            a, b, nothing, n, v, 0, seen, 0, 1, x, x, x, KIND, "cells", False, False, COMPUTE, SLOPE, k == 0
        )
    for k in tl.static_range(PHASES * STEP):
        v = cells[k // STEP * CELLS + r * STEP + k % STEP]
        b, nothing = look_again(
            a, b, nothing, v, 0, seen, 0, 1, x, x, x, KIND, "cells", False, False, COMPUTE, SLOPE, ""
        )
    reference, share = slopes(a, b, n, g.to(SLOPE), n, n, KIND, DIVISOR)
    gets = ()
    for k in tl.static_range(PHASES * STEP):
        v = cells[k // STEP * CELLS + r * STEP + k % STEP].to(COMPUTE)
        part, nothing = part_of(nothing, nothing, v, 0, seen, share, 0, reference, KIND, "slopes", SLOPE, False, True)
        gets = gets + (rounded(finished(part, nothing, v, KIND, 1, "slopes", False), gx.dtype),)
    return gets
