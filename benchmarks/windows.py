"""The bare loop of any window: what it takes to move the cells and to merge them, in lines that the nearest cache holds.

It reads all of x, merges lines along one pooled axis after the other as often as such windows need at least, and writes
as many outputs as there are; `bare.cpp` has the loops. Cells become lanes as exactness asks: floats of up to 32 bits are
added up as doubles, doubles with what they lose. SmoothMax takes an exponential of each cell and a logarithm of each
output, Lp(2) squares and roots. On the way back of a sum, outputs are merged into cells in the same way.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import ndpool
from ndpool import Avg, Lp, Max, Min, SmoothMax, Sum

from .bare import library, lines

PIECE = 8 << 10  # bytes of lanes, as in bare.cpp


class Axis(NamedTuple):
    """One pooled axis. A bin is a window of as many cells as the longest."""

    length: int
    output: int
    kernel: int
    stride: int


class Along(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("registers", "merges", "step", "apart")]


class Pieces(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("count", "registers")]
    _fields_ += [("axes", ctypes.POINTER(Along)), ("axis_count", ctypes.c_size_t)]


# --- what windows need ------------------------------------------------------------------------------


def axes_of(pool: ndpool.Pool, shape: Sequence[int]) -> list[Axis]:
    """The pooled axes of a pool over the last ones of a shape."""
    rank = len(pool.axes or ())
    found = []
    for a, (length, output) in enumerate(zip(shape[-rank:], pool.output_shape(tuple(shape))[-rank:], strict=True)):
        if isinstance(pool.window, ndpool.Window):
            numbers = (pool.window.kernel_size, pool.window.stride or pool.window.kernel_size)
            kernel, stride = (n[a] if isinstance(n, tuple) else n for n in numbers)
        else:
            kernel, stride = -(-length // output), max(1, length // output)
        found.append(Axis(length, output, kernel, stride))
    return found


def merges(axis: Axis, may_overlap: bool) -> int:
    """Those of an output along an axis, by whichever method takes the fewest.

    All cells in turn; the end of a block and the beginning of the next; in steps of one, windows of 2, 4, 8, ... cells.
    Two of these may overlap where a cell that is merged twice counts once.
    """
    k = axis.kernel
    least = min(k - 1, 2 * axis.stride + 1)
    doubled = (k - 1).bit_length() if may_overlap else k.bit_length() + k.bit_count() - 2
    return min(least, doubled) if axis.stride == 1 else least


def merges_back(axis: Axis) -> int:
    """Those of a cell: with what the outputs over it hand on, which are a window in steps of one."""
    over = -(-axis.kernel // axis.stride)
    return merges(Axis(0, 0, over, 1), may_overlap=False)


# --- loops ------------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """How one axis turns some cells into others: `of` each `to`, and the merges of each of these."""

    of: int
    to: int
    merges: int
    in_row: bool


def passes(shapes: Iterable[Shape], registers: int, lanes: int) -> list[Along]:
    """The work of each axis on a piece of so many registers."""
    made = []
    for shape in shapes:
        count = max(1, round(registers * shape.to / shape.of))
        step = registers * lanes // count
        merges = min(shape.merges, max(1, registers - 1)) if shape.merges else 0
        apart = max(1, step // (merges + 1))
        if not shape.in_row:
            apart = max(1, round(apart / lanes)) * lanes
        made.append(Along(count, merges, step, apart))
        registers = count
    return made


def work_of(made: Iterable[Along]) -> int:
    return sum(along.registers * (along.merges + 2) for along in made)


class Lanes(NamedTuple):
    loop: str  # its name in bare.cpp
    lanes: int
    registers: int  # of a piece


def lanes_of(kind: ndpool.Kind, dtype: str, back: bool = False) -> Lanes | None:
    """None where there is no such loop."""
    size = {"bfloat16": 2}.get(dtype) or np.dtype(dtype).itemsize
    match kind:
        case Max() | Min() if not back:
            return Lanes(f"max {size if size < 4 else dtype}", 64 // size, PIECE // 64)
        case Sum() | Avg():
            name, lane = "sum", 4 if dtype in ("uint8", "int16") else 8
        case SmoothMax() | Lp(p=2) if "float" in dtype:
            name, lane = "lp" if isinstance(kind, Lp) else "smooth", 8
        case _:
            return None
    return Lanes(f"{name} {dtype}{' back' * back}", 64 // lane, PIECE // 64)


def loop(pool: ndpool.Pool, shape: Sequence[int], dtype: str, row: int | None, back: bool = False) -> Callable[[], Any] | None:
    """The loop of a pool over the last axes of an array, of which `row` lies along the rows of memory, if one does."""
    found, loops = lanes_of(pool.kind, dtype, back), library()
    if found is None or loops is None:
        return None
    axes = axes_of(pool, shape)
    if back:
        shapes = [Shape(axis.output, axis.length, merges_back(axis), a == row) for a, axis in enumerate(axes)]
    else:
        one = isinstance(pool.kind, Max | Min)
        shapes = [Shape(axis.length, axis.output, merges(axis, one), a == row) for a, axis in enumerate(axes)]
    grown = np.prod([shape.to / shape.of for shape in shapes])  # how many there are in the end, of each at first
    registers = max(1, int(found.registers / max(1, grown)))
    made = min((passes(order, registers, found.lanes) for order in itertools.permutations(shapes)), key=work_of)
    cells = int(np.prod(shape)) if not back else int(np.prod(pool.output_shape(tuple(shape))))
    count = max(1, cells // (registers * found.lanes))
    size = {"bfloat16": 2}.get(dtype) or np.dtype(dtype).itemsize
    out = 8 if "int" in dtype and "sum" in found.loop else size
    source = lines(np.empty(count * registers * found.lanes * size, np.uint8))
    target = lines(np.empty(count * made[-1].registers * found.lanes * out, np.uint8))
    x = lines(np.empty(target.nbytes if back else 0, np.uint8))
    kept = (Along * len(made))(*made)
    pieces = Pieces(count, registers, kept, len(made))
    arguments = (ctypes.byref(pieces), *(ctypes.c_void_p(a.ctypes.data) for a in (source, x, target)))
    if not loops.run_windows(found.loop.encode(), *arguments):
        return None
    return partial(_run, loops.run_windows, found.loop.encode(), arguments, (source, x, target, pieces, kept))


def _run(function: Any, name: bytes, arguments: tuple[Any, ...], kept: object) -> None:
    function(name, *arguments)
