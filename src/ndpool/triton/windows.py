"""Where the cells of a window lie: device functions over axes that are known when a kernel is compiled.

A kernel has its axes as two tuples of lengths, `sizes` of the input and `outs` of the output, and as a constant, AXES,
with an `AxisNumbers` for each. An axis that is carried has a kernel of one cell. A tile has rows, which number all axes
but the last, and columns, which number the last.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl


class AxisNumbers(NamedTuple):
    """What a kernel is compiled for. `inner` is how many places of a window lie between two along this axis."""

    #: 0 where a window lies along this axis alone, and its places are its cells.
    kernel: int
    stride: int
    dilation: int
    lo: int
    hi: int
    adaptive: int
    inner: int


KERNEL, STRIDE, DILATION, LO, HI, ADAPTIVE, INNER = (tl.constexpr(i) for i in range(7))


@triton.jit
def window_start(o, size, out, AXES: tl.constexpr, axis: tl.constexpr):
    """The first cell that output o sees along an axis; it may be padding."""
    if AXES[axis][ADAPTIVE]:
        return (o.to(tl.int64) * size // out).to(o.dtype)
    else:
        return o * AXES[axis][STRIDE] - AXES[axis][LO]


@triton.jit
def window_end(o, size, out, AXES: tl.constexpr, axis: tl.constexpr):
    """The cell after the last one that output o can see along an axis."""
    if AXES[axis][ADAPTIVE]:
        return (((o + 1).to(tl.int64) * size + out - 1) // out).to(o.dtype)
    else:
        return o * 0 + size


@triton.jit
def cell(place, row, col, sizes, outs, RANK: tl.constexpr, AXES: tl.constexpr):
    """The cell at this place of every window of a tile: its offset, and whether it is a real one."""
    real = col < outs[RANK - 1]
    offset = row.to(tl.int64) * 0
    rest = row
    step = row.to(tl.int64) * 0 + 1
    for axis in tl.static_range(RANK - 1, -1, -1):
        if axis == RANK - 1:
            o = col
        elif axis == 0:
            o = rest
        else:
            o = rest % outs[axis]
            rest = rest // outs[axis]
        if AXES[axis][KERNEL] == 1 and AXES[axis][STRIDE] == 1 and AXES[axis][LO] + AXES[axis][ADAPTIVE] == 0:
            at = o
        else:
            if AXES[axis][KERNEL] == 0:
                k = place
            else:
                k = place // AXES[axis][INNER] % AXES[axis][KERNEL]
            at = window_start(o, sizes[axis], outs[axis], AXES, axis) + k * AXES[axis][DILATION]
            real = real & (at >= 0) & (at < window_end(o, sizes[axis], outs[axis], AXES, axis))
        if axis == RANK - 1:
            offset = offset + at
        else:
            offset = offset + at * step
        step = step * sizes[axis]
    return offset, real


@triton.jit
def cells_seen(row, col, sizes, outs, RANK: tl.constexpr, AXES: tl.constexpr):
    """How many real cells each window of a tile has, and how many of them and of padded ones count in a mean."""
    real = col * 0 + 1
    counted = col * 0 + 1
    rest = row
    for axis in tl.static_range(RANK - 1, -1, -1):
        if axis == RANK - 1:
            o = col
        elif axis == 0:
            o = rest
        else:
            o = rest % outs[axis]
            rest = rest // outs[axis]
        if AXES[axis][ADAPTIVE]:
            start = window_start(o, sizes[axis], outs[axis], AXES, axis)
            seen = window_end(o, sizes[axis], outs[axis], AXES, axis) - start
            real = real * seen
            counted = counted * seen
        elif AXES[axis][KERNEL] > 1 or AXES[axis][STRIDE] > 1 or AXES[axis][LO] > 0:
            start = window_start(o, sizes[axis], outs[axis], AXES, axis)
            first = (tl.maximum(-start, 0) + AXES[axis][DILATION] - 1) // AXES[axis][DILATION]
            last = (tl.maximum(sizes[axis] - start, 0) + AXES[axis][DILATION] - 1) // AXES[axis][DILATION]
            beyond = (sizes[axis] + AXES[axis][HI] - start + AXES[axis][DILATION] - 1) // AXES[axis][DILATION]
            real = real * tl.maximum(tl.minimum(last, AXES[axis][KERNEL]) - first, 0)
            counted = counted * tl.minimum(beyond, AXES[axis][KERNEL])
    return real, counted
