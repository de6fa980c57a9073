"""The bare loop of any window: what it takes to move cells, and to merge them in lines that the nearest cache holds.

It reads as many cells as x has, merges lines along one pooled axis after the other as often as such windows need at
least, and writes as many outputs; `bare.cpp` has the loops. Cells become lanes as exactness asks: floats of up to 32
bits are added up as doubles, doubles with what they lose. SmoothMax takes an exponential of each cell and a logarithm
of each output, Lp(2) squares and roots. On the way back of a sum, outputs are merged into cells in the same way.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

import ndpool
from ndpool import Avg, Lp, Max, Min, SmoothMax, Sum

from .bare import library, lines
from .cases import numpy_dtype

REGISTER, REGISTERS = 64, 128  # bytes, and of a piece before or after an axis, as in bare.cpp


class Axis(NamedTuple):
    """One pooled axis. Bins are windows of as many cells as the longest."""

    length: int
    output: int
    kernel: int
    stride: int


def axes_of(pool: ndpool.Pool, shape: tuple[int, ...]) -> list[Axis]:
    """The pooled axes of a pool over the last ones of a shape."""
    outputs, window = pool.output_shape(shape), pool.window
    found = []
    for a in range(-len(pool.axes or ()), 0):
        length, output = shape[a], outputs[a]
        if isinstance(window, ndpool.Window):
            kernel, stride = _along(window.kernel_size, a), _along(window.stride or window.kernel_size, a)
        else:
            kernel, stride = -(-length // output), max(1, length // output)
        found.append(Axis(length, output, kernel, stride))
    return found


def _along(numbers: int | Sequence[int], axis: int) -> int:
    return numbers if isinstance(numbers, int) else numbers[axis]


def overlap(pool: ndpool.Pool, shape: tuple[int, ...]) -> bool:
    return any(axis.kernel > axis.stride and axis.output > 1 for axis in axes_of(pool, shape))


def merges(axis: Axis, may_overlap: bool) -> int:
    """How often cells are merged for an output along an axis, by whichever method takes the fewest.

    All cells in turn; the end of a block and the beginning of the next; in steps of one, windows of 2, 4, 8, ... cells.
    Two of these may overlap where a cell that is merged twice counts once.
    """
    k = axis.kernel
    least = min(k - 1, 2 * axis.stride + 1)
    doubled = (k - 1).bit_length() if may_overlap else k.bit_length() + k.bit_count() - 2
    return min(least, doubled) if axis.stride == 1 else least


def merges_back(axis: Axis) -> int:
    """How often outputs are merged for a cell: those over it are a window in steps of one."""
    over = -(-axis.kernel // axis.stride)
    return merges(Axis(axis.output, axis.length, over, 1), may_overlap=False)


# --- the work of a loop -----------------------------------------------------------------------------


class Turn(NamedTuple):
    """What an axis does to the lines of a piece: of so many it makes so many, with so many merges each."""

    of: int
    to: int
    merges: int
    in_row: bool  # whether lines start within registers


class Along(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("registers", "merges", "step", "apart")]


class Pieces(ctypes.Structure):
    _fields_ = [
        ("count", ctypes.c_size_t),
        ("registers", ctypes.c_size_t),
        ("axes", ctypes.POINTER(Along)),
        ("axis_count", ctypes.c_size_t),
    ]


def one_after_the_other(turns: Iterable[Turn], registers: int, lanes: int) -> list[Along]:
    """The work of each axis on a piece of so many registers."""
    made = []
    for turn in turns:
        count = max(1, round(registers * turn.to / turn.of))
        step, merged = registers * lanes // count, min(turn.merges, registers - 1)
        apart = max(1, step // (merged + 1))
        if not turn.in_row:
            apart = max(1, round(apart / lanes)) * lanes
        made.append(Along(count, merged, step, apart))
        registers = count
    return made


def work_of(made: Iterable[Along]) -> int:
    """Loads, merges and stores."""
    return sum(along.registers * (along.merges + 2) for along in made)


class Lanes(NamedTuple):
    loop: str  # its name in bare.cpp
    bytes: int  # of a lane
    result: int  # bytes of an output


def lanes_of(kind: ndpool.Kind, dtype: str, back: bool) -> Lanes | None:
    """None where there is no such loop."""
    size = numpy_dtype(dtype).itemsize
    match kind:
        case Max() | Min() if not back:
            return Lanes(f"max {size if size < 4 else dtype}", size, size)
        case Sum() | Avg() if "float" in dtype:
            name = "sum"
        case Sum() | Avg() if not back:
            return Lanes(f"sum {dtype}", max(4, min(8, 2 * size)), 8)
        case SmoothMax() if "float" in dtype:
            name = "smooth"
        case Lp(p=2) if "float" in dtype:
            name = "lp"
        case _:
            return None
    return Lanes(f"{name} {dtype}{' back' if back else ''}", 8, size)


class Loop:
    """The loop of a pool, a call without arguments, over arrays of its own, which are full of ones."""

    def __init__(self, lanes: Lanes, dtype: str, turns: Sequence[Turn], cells: int) -> None:
        grown = math.prod(turn.to / turn.of for turn in turns)
        registers, in_register = max(1, int(REGISTERS / max(1, grown))), REGISTER // lanes.bytes
        orders = itertools.permutations(turns)
        made = min((one_after_the_other(order, registers, in_register) for order in orders), key=work_of)
        count = max(1, cells // (registers * in_register))
        self.name, self.axes = lanes.loop, made
        self.read, self.written = count * registers * in_register, count * made[-1].registers * in_register
        self.source = _ones(self.read, dtype)
        self.target = _ones(self.written, "int64" if lanes.result > self.source.itemsize else dtype)
        self.x = _ones(self.written, dtype)
        self._pieces = Pieces(count, registers, (Along * len(made))(*made), len(made))

    def __call__(self) -> None:
        loops = library()
        assert loops is not None
        addresses = (ctypes.c_void_p(array.ctypes.data) for array in (self.source, self.x, self.target))
        if not loops.run_windows(self.name.encode(), ctypes.byref(self._pieces), *addresses):
            raise ValueError(f"bare.cpp has no loop '{self.name}'")


def _ones(count: int, dtype: str) -> np.ndarray[Any, Any]:
    array = lines(np.empty(count, numpy_dtype(dtype))).view(numpy_dtype(dtype))
    array[...] = 1
    return array


def loop(pool: ndpool.Pool, shape: tuple[int, ...], dtype: str, row: int | None, back: bool = False) -> Loop | None:
    """The loop of a pool over the last axes of an array, of which number `row` lies along the rows of memory.

    None where there is none, or no compiler.
    """
    lanes = lanes_of(pool.kind, dtype, back)
    if lanes is None or library() is None:
        return None
    turns = []
    for a, axis in enumerate(axes_of(pool, shape)):
        if back:
            turns.append(Turn(axis.output, axis.length, merges_back(axis), a == row))
        else:
            turns.append(Turn(axis.length, axis.output, merges(axis, isinstance(pool.kind, Max | Min)), a == row))
    return Loop(lanes, dtype, turns, math.prod(pool.output_shape(shape) if back else shape))
