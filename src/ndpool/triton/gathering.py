"""The kernel of the way back: every cell asks the windows that see it, in a fixed order. Nothing is scattered.

    sums       gx_i = sum of h_o
    winners    gx_i = sum of g_o where the winner of o is i
    slopes     gx_i = sum of f(x_i, r_o) h_o

Along an axis, cell i is seen by the outputs (i + lo)//stride - j, for j from 0 up. Where the last axis goes in steps of
2, a place of the tile stands for a pair of cells, which ask the same windows and are stored side by side.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .arithmetic import LEAD, NAME, OPTION, PARAMETER, SKIP, SUMS, are_equal, is_there, power, shifted, sign_of, two_sum
from .windows import ADAPTIVE, DILATION, INNER, KERNEL, LO, STRIDE, window_start


@triton.jit
def _window(i, j, size, out, AXES: tl.constexpr, axis: tl.constexpr):
    """The j-th output over cell i along an axis, the cell's place in it, and whether there is such an output."""
    if AXES[axis][ADAPTIVE]:
        o = (((i + 1).to(tl.int64) * out + size - 1) // size - 1).to(i.dtype) - j
        place = i - window_start(o, size, out, AXES, axis)
        first = (i.to(tl.int64) * out // size).to(i.dtype)
        return o, place, o >= first
    elif AXES[axis][KERNEL] == 1 and AXES[axis][STRIDE] == 1 and AXES[axis][LO] == 0:
        return i, i * 0, i >= 0
    else:
        o = tl.minimum((i + AXES[axis][LO]) // AXES[axis][STRIDE], out - 1) - j
        away = i + AXES[axis][LO] - o * AXES[axis][STRIDE]
        place = away // AXES[axis][DILATION]
        seen = (o >= 0) & (place < AXES[axis][KERNEL])
        if AXES[axis][DILATION] > 1:
            seen = seen & (away == place * AXES[axis][DILATION])
        return o, place, seen


@triton.jit
def _asked(number, row, col, sizes, outs, RANK: tl.constexpr, AXES: tl.constexpr, ASKED: tl.constexpr):
    """One of the windows over each cell of a tile: its offset, the cell's place in it, and whether it is there.

    `ASKED` has for each axis how many windows may see a cell, and how many of these numbers lie inside it.
    """
    offset = row.to(tl.int64) * 0
    place = col * 0
    seen = col < sizes[RANK - 1]
    rest = row
    step = row.to(tl.int64) * 0 + 1
    for axis in tl.static_range(RANK - 1, -1, -1):
        if axis == RANK - 1:
            i = col
        elif axis == 0:
            i = rest
        else:
            i = rest % sizes[axis]
            rest = rest // sizes[axis]
        o, at, is_seen = _window(i, number // ASKED[axis][1] % ASKED[axis][0], sizes[axis], outs[axis], AXES, axis)
        seen = seen & is_seen
        place = place + at * AXES[axis][INNER]
        if axis == RANK - 1:
            offset = offset + o
        else:
            offset = offset + o * step
        step = step * outs[axis]
    return offset, place, seen


@triton.jit
def _part(
    sum, error, x, offset, place, seen, g, winners, reference, KIND: tl.constexpr, FORM: tl.constexpr, SLOPE: tl.constexpr
):
    """The sum with what one window gives to each cell."""
    if FORM == "winners":
        wins = seen & (tl.load(winners + offset, mask=seen, other=0) == place.to(winners.dtype.element_ty))
        part = tl.where(wins, tl.load(g + offset, mask=seen, other=0).to(SLOPE), 0)
    else:
        part = tl.load(g + offset, mask=seen, other=0).to(SLOPE)
    if FORM == "slopes":
        r = tl.load(reference + offset, mask=seen, other=0).to(x.dtype)
        if KIND[NAME] == "max" or KIND[NAME] == "min":
            part = tl.where(are_equal(x, r), part, 0)
        elif KIND[NAME] == "smooth_max":
            part = shifted(x, r, KIND) * part
        elif KIND[NAME] == "lp":
            part = sign_of(x) * power(shifted(x, r, KIND), KIND[PARAMETER] - 1) * part
        part = tl.where(seen, part, 0)
    if KIND[SUMS] == "error":
        sum, e = two_sum(sum, part)
        return sum, error + e
    else:
        return sum + part, error


@triton.jit
def gather(
    g, winners, reference, x, gx, rows,
    s0, s1, s2, s3, s4, s5, s6, s7,
    o0, o1, o2, o3, o4, o5, o6, o7,
    KIND: tl.constexpr, RANK: tl.constexpr, AXES: tl.constexpr, ASKED: tl.constexpr, WINDOWS: tl.constexpr,
    DIVISOR: tl.constexpr, FORM: tl.constexpr, COMPUTE: tl.constexpr, SLOPE: tl.constexpr, UNROLL: tl.constexpr,
    WIDE: tl.constexpr, PAIRS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    sizes = (s0, s1, s2, s3, s4, s5, s6, s7)
    outs = (o0, o1, o2, o3, o4, o5, o6, o7)
    last = sizes[RANK - 1]
    col_blocks = tl.cdiv(last, COLS)
    program = tl.program_id(0)
    row = program // col_blocks
    if WIDE:
        row = row.to(tl.int64)
    row = row * ROWS + tl.arange(0, ROWS)[:, None]
    inside = row < rows
    row = tl.minimum(row, rows - 1)
    if PAIRS:
        col = program % col_blocks * COLS + 2 * tl.arange(0, COLS // 2)[None, :]
        left = _gathered(row, col, sizes, outs, g, winners, reference, x, KIND, RANK, AXES, ASKED, WINDOWS, DIVISOR, FORM, COMPUTE, SLOPE, UNROLL)
        right = _gathered(row, col + 1, sizes, outs, g, winners, reference, x, KIND, RANK, AXES, ASKED, WINDOWS, DIVISOR, FORM, COMPUTE, SLOPE, UNROLL)
        found = tl.interleave(left, right)
    else:
        col = program % col_blocks * COLS + tl.arange(0, COLS)[None, :]
        found = _gathered(row, col, sizes, outs, g, winners, reference, x, KIND, RANK, AXES, ASKED, WINDOWS, DIVISOR, FORM, COMPUTE, SLOPE, UNROLL)
    col = program % col_blocks * COLS + tl.arange(0, COLS)[None, :]
    tl.store(gx + row.to(tl.int64) * last + col, found.to(gx.dtype.element_ty), mask=inside & (col < last))


@triton.jit
def _gathered(
    row, col, sizes, outs, g, winners, reference, x,
    KIND: tl.constexpr, RANK: tl.constexpr, AXES: tl.constexpr, ASKED: tl.constexpr, WINDOWS: tl.constexpr,
    DIVISOR: tl.constexpr, FORM: tl.constexpr, COMPUTE: tl.constexpr, SLOPE: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """What each cell of a tile gets."""
    sum = tl.zeros([row.shape[0], col.shape[1]], SLOPE)
    error = tl.zeros([row.shape[0], col.shape[1]], SLOPE)
    cells = sum
    if FORM == "slopes":
        cells = tl.load(x + row.to(tl.int64) * sizes[RANK - 1] + col, mask=col < sizes[RANK - 1], other=0).to(COMPUTE)
    if UNROLL:
        for number in tl.static_range(WINDOWS):
            offset, place, seen = _asked(number, row, col, sizes, outs, RANK, AXES, ASKED)
            sum, error = _part(sum, error, cells, offset, place, seen, g, winners, reference, KIND, FORM, SLOPE)
    else:
        for number in range(WINDOWS):
            offset, place, seen = _asked(number, row, col, sizes, outs, RANK, AXES, ASKED)
            sum, error = _part(sum, error, cells, offset, place, seen, g, winners, reference, KIND, FORM, SLOPE)
    if KIND[SUMS] == "error":
        sum = sum + error
    if DIVISOR > 1:
        sum = sum / DIVISOR
    if FORM == "slopes" and KIND[SKIP] != "no":
        sum = tl.where(is_there(cells, KIND), sum, 0)
    return sum
