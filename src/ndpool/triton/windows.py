"""Where the cells of a window lie: device functions over axes that are known when a kernel is compiled.

A kernel has its axes as two tuples of lengths, `sizes` of the input and `outs` of the output, and as a constant, AXES,
with an `AxisNumbers` for each. An axis that is carried has a kernel of one cell. A tile has rows, which number all axes
but the last, and columns, which number the last.

Offsets are 32-bit numbers where the rows of a tile are, and 64-bit numbers in larger arrays.
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
    #: 1 where the windows are bins, 4 where their bounds are beyond floats and 3 where they are beyond 32 bits, 2 where
    #: one window is over the whole axis.
    adaptive: int
    inner: int
    #: Whether a window may reach beyond the last cell.
    overhangs: int
    #: The outputs of one bin, each of which sees as many of its cells as the stride says.
    parts: int


KERNEL, STRIDE, DILATION, LO, HI, ADAPTIVE, INNER, OVERHANGS, PARTS = (
    tl.constexpr(i) for i in range(len(AxisNumbers._fields))
)


@triton.jit
def wide_number(n, WIDE: tl.constexpr):
    """A length as a number of 64 bits, where products with it may need so many."""
    return n + tl.full([], 0, tl.int64) if WIDE else n


@triton.jit
def widened(lengths, WIDE: tl.constexpr):
    """The same of the lengths of all axes."""
    found = ()
    for axis in tl.static_range(8):
        found = found + (wide_number(lengths[axis], WIDE),)
    return found


@triton.jit
def row_block(WIDE: tl.constexpr):
    """Which rows of tiles are this program's: they are numbered over two axes of the grid, of which each is short."""
    block = tl.program_id(1) + tl.program_id(2) * tl.num_programs(1)
    return block.to(tl.int64) if WIDE else block


@triton.jit
def tile_of_program(WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """The first row of this program's tile, and the first of its columns. Tiles go along the columns first."""
    column = tl.program_id(0)
    if WIDE:
        column = column.to(tl.int64)
    return row_block(WIDE) * ROWS, column * COLS


@triton.jit
def below(i, size, ALIGN: tl.constexpr):
    """Whether i < size, where ALIGN divides the size: so the compiler sees that neighbours have the same answer.

    Only then are they read and written together.
    """
    return i // ALIGN < size // ALIGN


@triton.jit
def is_among(i, size):
    """Whether 0 <= i < size, in one step: without its sign, a negative number is larger than any size.

    A size that is 1 may be a constant to the compiler, which has none of a number's methods.
    """
    if i.dtype == tl.int64:
        return i.to(tl.uint64, bitcast=True) < tl.cast(size, tl.uint64)
    else:
        return i.to(tl.uint32, bitcast=True) < tl.cast(size, tl.uint32)


@triton.jit
def aligned(row, size, ALIGN: tl.constexpr):
    """Where a row of this size starts, where ALIGN divides it: so the compiler sees that it does."""
    return row * (size // ALIGN) * ALIGN


@triton.jit
def along_axes(row, lengths, RANK: tl.constexpr):
    """The coordinates of rows along each axis but the last: a tuple of tiles."""
    found = ()
    rest = row
    for axis in tl.static_range(RANK - 2, 0, -1):
        found = (rest % lengths[axis],) + found
        rest = rest // lengths[axis]
    return (rest,) + found


@triton.jit
def tile_along_axes(first, lengths, RANK: tl.constexpr, WRAPS: tl.constexpr, ROWS: tl.constexpr):
    """The same for the rows of a tile from the first on. Those beyond the last one are some other row.

    A division of integers takes some twenty steps. So the first row alone is divided, and the others go on from it:

        12 rows a picture, from row 20 on       8 9 10 11 | 0 1 2 3       8 = 20 % 12, and those from 12 on less 12

    `WRAPS` says of each axis whether the rows go over its end once at most. Else it is shorter than a tile, and floats
    are exact enough to say how often.
    """
    more = tl.arange(0, ROWS)[:, None]
    if RANK == 1:
        return (first + more,)
    else:
        found = ()
        rest = first
        for axis in tl.static_range(RANK - 2, 0, -1):
            at = rest % lengths[axis] + more
            rest = rest // lengths[axis]
            if WRAPS[axis]:
                more = (at >= lengths[axis]).to(tl.int32)
                found = (tl.where(more > 0, at - lengths[axis], at),) + found
            else:
                more = ((at.to(tl.float32) + 0.5) * (1.0 / lengths[axis])).to(tl.int32)
                found = (at - more * lengths[axis],) + found
        return (tl.minimum(rest + more, lengths[0] - 1),) + found


@triton.jit
def found_anew(coords, zero, RANK: tl.constexpr):
    """The same coordinates, for a branch that is seldom taken: what is found from them there is not kept until then.

    `zero` is one, which the compiler does not know. So it has registers for what is often done.
    """
    found = (coords[0] + zero,)
    for axis in tl.static_range(1, RANK - 1):
        found = found + (coords[axis] + zero,)
    return found


@triton.jit
def bin_quotient(n, d, ADAPTIVE: tl.constexpr):
    """How often d goes into n, where bins start and end. A division of integers takes five times as long as floats."""
    if ADAPTIVE == 1:
        return ((n.to(tl.float32) + 0.5) * (1.0 / d)).to(tl.int32)
    else:
        return n // d


@triton.jit
def bin_product(o, size, ADAPTIVE: tl.constexpr):
    """What is divided there."""
    return o.to(tl.int64) * size if ADAPTIVE == 3 else o * size


@triton.jit
def _bin_start(o, size, out, ADAPTIVE: tl.constexpr):
    return bin_quotient(bin_product(o, size, ADAPTIVE), out, ADAPTIVE).to(o.dtype)


@triton.jit
def _bin_end(o, size, out, ADAPTIVE: tl.constexpr):
    return bin_quotient(bin_product(o + 1, size, ADAPTIVE) + out - 1, out, ADAPTIVE).to(o.dtype)


@triton.jit
def window_start(o, size, out, AXES: tl.constexpr, axis: tl.constexpr):
    """The first cell that output o sees along an axis; it may be padding."""
    if AXES[axis][ADAPTIVE] == 2:
        return o * 0
    elif AXES[axis][PARTS] > 1:
        start = _bin_start(o // AXES[axis][PARTS], size, out // AXES[axis][PARTS], AXES[axis][ADAPTIVE])
        return start + o % AXES[axis][PARTS] * AXES[axis][STRIDE]
    elif AXES[axis][ADAPTIVE]:
        return _bin_start(o, size, out, AXES[axis][ADAPTIVE])
    else:
        return o * AXES[axis][STRIDE] - AXES[axis][LO]


@triton.jit
def window_end(o, size, out, AXES: tl.constexpr, axis: tl.constexpr):
    """The cell after the last one that output o can see along an axis."""
    if AXES[axis][PARTS] > 1:
        end = _bin_end(o // AXES[axis][PARTS], size, out // AXES[axis][PARTS], AXES[axis][ADAPTIVE])
        return tl.minimum(end, window_start(o, size, out, AXES, axis) + AXES[axis][STRIDE])
    elif AXES[axis][ADAPTIVE] and AXES[axis][ADAPTIVE] != 2:
        return _bin_end(o, size, out, AXES[axis][ADAPTIVE])
    else:
        return o * 0 + size


@triton.jit
def along(o, place, real, size, out, AXES: tl.constexpr, axis: tl.constexpr, CLAMP: tl.constexpr):
    """The cell at a place of the windows of o along one axis, its place there, and whether that too is a real one.

    With `CLAMP`, a place without a real cell is that of the window's nearest real cell: for kinds that do not mind to
    see a cell twice.
    """
    if AXES[axis][KERNEL] == 1 and AXES[axis][STRIDE] == 1 and AXES[axis][LO] + AXES[axis][OVERHANGS] == 0:
        return o, 0, real
    else:
        if AXES[axis][KERNEL] == 0:
            k = place
        else:
            k = place // AXES[axis][INNER] % AXES[axis][KERNEL]
        start = window_start(o, size, out, AXES, axis)
        if CLAMP:
            if AXES[axis][LO] > 0:
                k = tl.maximum(k, (AXES[axis][DILATION] - 1 - start) // AXES[axis][DILATION])
            if AXES[axis][OVERHANGS]:
                last = window_end(o, size, out, AXES, axis) - 1 - start
                k = tl.minimum(k, last // AXES[axis][DILATION])
            at = start + k * AXES[axis][DILATION]
        else:
            at = start + k * AXES[axis][DILATION]
            if AXES[axis][LO] > 0:
                real = real & (at >= 0)
            if AXES[axis][OVERHANGS]:
                real = real & (at < window_end(o, size, out, AXES, axis))
        return at, k * AXES[axis][INNER], real


@triton.jit
def row_cell(place, coords, real, step, sizes, outs, RANK: tl.constexpr, AXES: tl.constexpr, CLAMP: tl.constexpr):
    """The offset of the first column of the cells at a place, along all axes but the last, which is `step` long.

    `coords` are those of the outputs along these axes. Also the part of the place that lies along them, and whether
    the cells are real ones.
    """
    offset = coords[0] * 0
    found = 0
    for axis in tl.static_range(RANK - 2, -1, -1):
        at, k, real = along(coords[axis], place, real, sizes[axis], outs[axis], AXES, axis, CLAMP)
        offset = offset + at * step
        found = found + k
        step = step * sizes[axis]
    return offset, found, real


@triton.jit
def cell(place, coords, col, inside, sizes, outs, RANK: tl.constexpr, AXES: tl.constexpr, CLAMP: tl.constexpr):
    """The cell at this place of every window of a tile: its offset, its place, and whether it is a real one."""
    offset, rows_place, real = row_cell(place, coords, inside, sizes[RANK - 1], sizes, outs, RANK, AXES, CLAMP)
    at, k, real = along(col, place, real, sizes[RANK - 1], outs[RANK - 1], AXES, RANK - 1, CLAMP)
    return offset + at, rows_place + k, real


@triton.jit
def cells_seen(coords, col, sizes, outs, RANK: tl.constexpr, AXES: tl.constexpr):
    """How many real cells each window of a tile has, and how many of them and of padded ones count in a mean."""
    real = col * 0 + 1
    counted = col * 0 + 1
    for axis in tl.static_range(RANK - 1, -1, -1):
        o = col if axis == RANK - 1 else coords[axis]
        real_along, counted_along = cells_along(o, sizes[axis], outs[axis], AXES, axis)
        real = real * real_along
        counted = counted * counted_along
    return real, counted


@triton.jit
def cells_along(o, size, out, AXES: tl.constexpr, axis: tl.constexpr):
    """The same of the windows of o along one axis."""
    if AXES[axis][ADAPTIVE]:
        seen = window_end(o, size, out, AXES, axis) - window_start(o, size, out, AXES, axis)
        return seen, seen
    elif AXES[axis][KERNEL] > 1 or AXES[axis][STRIDE] > 1 or AXES[axis][LO] + AXES[axis][OVERHANGS] > 0:
        start = window_start(o, size, out, AXES, axis)
        first = (tl.maximum(-start, 0) + AXES[axis][DILATION] - 1) // AXES[axis][DILATION]
        last = (tl.maximum(size - start, 0) + AXES[axis][DILATION] - 1) // AXES[axis][DILATION]
        beyond = (size + AXES[axis][HI] - start + AXES[axis][DILATION] - 1) // AXES[axis][DILATION]
        real = tl.maximum(tl.minimum(last, AXES[axis][KERNEL]) - first, 0)
        return real, tl.minimum(beyond, AXES[axis][KERNEL])
    else:
        return 1, 1
