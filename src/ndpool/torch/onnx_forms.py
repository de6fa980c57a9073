"""What a pool is in ONNX: one of the standard's pools, a reduction, or its cells gathered and reduced.

    native    MaxPool and AveragePool, where ONNX Runtime means by them what ndpool means: up to three axes, padding
              less than the kernel, float32 (MaxPool float64 too), and lengths that are known if the window needs them
    reduced   ReduceMax, ReduceMin, ReduceSum, ReduceMean over the whole of the axes
    cells     along one axis after the other, Gather lays the cells of each window side by side and a reduction takes
              them together. That says everything: any rank, padding, dilation and dtype, and lengths that are known
              only when the model runs. SmoothMax and Lp are shifted and scaled in each window, as in ndpool.

ONNX's own ceil_mode is not used: versions of ONNX Runtime differ in it, and padding says the same. Its LpPool is not
used either: it takes powers of cells as they are, which overflow.
16-bit floats are computed in 32 bits and rounded once; integers in int64, or in float64 where that is the result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ..kind import Kind
from ..kinds import Avg, Lp, Max, Min, SmoothMax, Sum
from ..pool import Pool
from ..windows import Adaptive, AnyWindow, Global, Window
from .onnx_graph import (
    BFLOAT16,
    DOUBLE,
    FLOAT,
    FLOAT16,
    INT64,
    INTEGERS,
    UINT64,
    UNSIGNED,
    Graph,
    Later,
    Value,
    Whole,
    choose,
    column,
    count,
    joined,
    larger,
    smaller,
    up_to,
)
from .sizes import number_of_outputs, padding_of

#: ONNX Runtime pools over up to so many axes.
_MOST_AXES = 3

_NUMPY: dict[int, Any] = {FLOAT: np.float32, DOUBLE: np.float64, INT64: np.int64}


@dataclass(frozen=True)
class Task:
    """A pool and what is known of its input while it is exported."""

    graph: Graph
    pool: Pool
    size: tuple[int | None, ...]
    dtype: int  # of the input,
    work: int  # of the computation,
    result: int  # and of the output

    @property
    def kind(self) -> Kind:
        return self.pool.kind

    @property
    def axes(self) -> list[int]:
        """The pooled axes, in the order of the window's numbers."""
        return [len(self.size) + axis for axis in self.pool.axes or ()]

    def number(self, value: float) -> Value:
        return self.graph.constant(np.array(value, _NUMPY[self.work]))


def pooled(graph: Graph, x: Value, pool: Pool) -> Value:
    """`y` as nodes."""
    task = _task(graph, x, pool)
    x = graph.cast(x, task.dtype, task.work)
    if isinstance(task.pool.window, Global):
        y = _reduced(task, x, sorted(task.axes), task.pool.window.keepdims)
    elif (boxes := _boxes(task)) is not None:
        y = _native(task, x, boxes)
    else:
        y = _over_cells(task, x)
    return graph.cast(y, task.work, task.result)


def pooled_with_indices(graph: Graph, x: Value, pool: Pool) -> tuple[Value, Value]:
    """`y`, and each winner's flat row-major index over the pooled axes, as nodes."""
    task = _task(graph, x, pool)
    boxes = None if task.dtype in INTEGERS else _boxes(task)
    if boxes is None:
        raise _refused(
            pool,
            "only MaxPool has indices there, which takes floats, up to 3 axes, padding less than the kernel, bins of "
            "one length, and no ceil_mode or 'same' over a length that is not fixed; export it without return_indices",
        )
    x = graph.cast(x, task.dtype, task.work)
    y, indices = _max_pool(task, x, boxes, with_indices=True)
    return graph.cast(y, task.work, task.result), indices


class RefusedError(NotImplementedError):
    """A pool, or an operator, that has no form in ONNX."""


def _refused(pool: Pool, reason: str) -> RefusedError:
    return RefusedError(f"{pool!r} cannot be exported to ONNX: {reason}")


def _task(graph: Graph, x: Value, pool: Pool) -> Task:
    kind, dtype, size = pool.kind, graph.dtype(x), graph.size(x)
    if type(kind) not in (Max, Min, Sum, Avg, SmoothMax, Lp):
        raise _refused(pool, f"{type(kind).__name__} has no form there; pool outside of the exported model")
    if pool.skip is not None or getattr(kind, "rounding", None) is not None:
        said = "skip" if pool.skip is not None else "rounding"
        raise _refused(pool, f"{said} has no form there; pool outside of the exported model")
    if dtype is None or size is None:
        raise _refused(pool, "the exporter does not know the dtype and the rank of its input; cast it and reshape it")
    if dtype == UINT64:
        raise _refused(pool, "ONNX Runtime does not compute with uint64; cast to int64 before the pool")
    if isinstance(pool.window, Adaptive):
        outputs = pool.window.output_size
        if all(n == 1 for n in (outputs if isinstance(outputs, tuple) else (outputs,))):
            pool = replace(pool, window=Global())
    if dtype not in INTEGERS:
        work, result = FLOAT if dtype in (FLOAT16, BFLOAT16) else dtype, dtype
    elif kind.integers == "float64":
        work = result = DOUBLE
    else:
        work = INT64
        result = dtype if kind.integers == "keep" else UINT64 if dtype in UNSIGNED else INT64
    return Task(graph, pool, size, dtype, work, result)


# --- native ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Box:
    """One axis as ONNX writes it, in floor mode."""

    kernel: int
    stride: int
    dilation: int = 1
    lo: int = 0
    hi: int = 0
    padded: bool = False  # whether there are cells outside that count,
    beyond: bool = False  # and whether there are any that never do


Boxes: TypeAlias = dict[int, Box]


def _boxes(task: Task) -> Boxes | None:
    """The pooled axes, in ascending order, if ONNX's own pool means the same; else None."""
    window, kind = task.pool.window, task.kind
    found = {axis: _box(window, j, len(task.axes), task.size[axis]) for j, axis in enumerate(task.axes)}
    boxes = {axis: box for axis, box in sorted(found.items()) if box is not None and max(box.lo, box.hi) < box.kernel}
    if len(boxes) < len(found) or len(boxes) > _MOST_AXES:
        return None
    if isinstance(kind, Max | Min):
        return boxes if task.work in (FLOAT, DOUBLE) else None
    if not isinstance(kind, Sum | Avg) or task.work != FLOAT or any(box.dilation > 1 for box in boxes.values()):
        return None
    both = any(box.padded for box in boxes.values()) and any(box.beyond for box in boxes.values())
    return None if both and isinstance(kind, Avg) and kind.count_include_pad else boxes


def _box(window: AnyWindow, j: int, rank: int, length: int | None) -> Box | None:
    if isinstance(window, Adaptive):
        outputs = (window.output_size if isinstance(window.output_size, tuple) else (window.output_size,) * rank)[j]
        if outputs is None:
            return Box(1, 1)
        return None if length is None or length % outputs else Box(length // outputs, length // outputs)
    assert isinstance(window, Window)
    kernel, stride, padding, dilation = window.of_axis(j, rank)
    if length is None:
        if window.ceil_mode or padding in ("same", "same_lower"):
            return None
        lo, hi = padding_of(window, j, rank, 0, max)
        return Box(kernel, stride, dilation, lo, hi, lo + hi > 0)
    lo, hi = padding_of(window, j, rank, length, max)
    outputs = number_of_outputs(window, j, rank, length, max, min)
    needed = max(0, (outputs - 1) * stride + dilation * (kernel - 1) + 1 - length - lo)
    return Box(kernel, stride, dilation, lo, needed, lo + hi > 0, needed > hi)


def _native(task: Task, x: Value, boxes: Boxes) -> Value:
    """MaxPool; or AveragePool, which with all its cells counted, times their number, is a Sum."""
    graph, kind = task.graph, task.kind
    if isinstance(kind, Max | Min):
        return _max_pool(task, x, boxes, with_indices=False)[0]
    cells, fixed = math.prod(box.kernel for box in boxes.values()), _fixed_divisor(kind)
    counted = isinstance(kind, Avg) and kind.count_include_pad and not any(box.beyond for box in boxes.values())
    inside = _channels_first(task, x)
    y = graph.op("AveragePool", inside, count_include_pad=int(counted or fixed is not None), **_numbers(boxes))
    y = _channels_back(task, x, y)
    return y if fixed is None else graph.op("Mul", y, task.number(cells / fixed))


def _fixed_divisor(kind: Kind) -> int | None:
    """What every sum is divided by, or None where the cells are counted."""
    return kind.divisor_override if isinstance(kind, Avg) else 1


def _max_pool(task: Task, x: Value, boxes: Boxes, with_indices: bool) -> tuple[Value, Value | None]:
    """The largest, or the smallest as -max(-x). ONNX counts indices over all axes, of which the last are ours."""
    graph, negative = task.graph, isinstance(task.kind, Min)
    inside = _channels_first(task, x)
    inside = graph.op("Neg", inside) if negative else inside
    dilations = [box.dilation for box in boxes.values()]
    made = graph.op("MaxPool", inside, outputs=1 + with_indices, dilations=dilations, **_numbers(boxes))
    y, indices = made if with_indices else (made, None)
    y = _channels_back(task, x, graph.op("Neg", y) if negative else y)
    if with_indices:
        cells: Whole = 1
        for axis in boxes:
            cells = graph.length(x, task.size, axis) * cells
        indices = _channels_back(task, x, graph.op("Mod", indices, graph.whole(cells)))
    return y, indices


def _numbers(boxes: Boxes) -> dict[str, Any]:
    each = list(boxes.values())
    return {
        "kernel_shape": [box.kernel for box in each],
        "strides": [box.stride for box in each],
        "pads": [*(box.lo for box in each), *(box.hi for box in each)],
    }


def _channels_first(task: Task, x: Value) -> Value:
    """`x` as ONNX's pools take it: two carried axes, then the pooled ones."""
    graph, carried, order, outside = task.graph, _carried(task), _order(task), x
    if order != sorted(order):
        x = graph.op("Transpose", x, perm=order)
    if len(carried) < 2:
        return graph.op("Unsqueeze", x, graph.whole(list(range(2 - len(carried)))))
    if len(carried) == 2:
        return x
    sides = [graph.length(outside, task.size, axis) for axis in sorted(task.axes)]
    return graph.op("Reshape", x, joined(graph, [1, -1, *sides]))


def _channels_back(task: Task, x: Value, y: Value) -> Value:
    """`y` with the axes of x in their places."""
    graph, carried, order = task.graph, _carried(task), _order(task)
    if len(carried) < 2:
        y = graph.op("Squeeze", y, graph.whole(list(range(2 - len(carried)))))
    elif len(carried) > 2:
        lengths = joined(graph, [graph.length(x, task.size, axis) for axis in carried])
        sides = graph.lengths(y, range(2, 2 + len(task.axes)))
        y = graph.op("Reshape", y, graph.op("Concat", lengths, sides, axis=0))
    return y if order == sorted(order) else graph.op("Transpose", y, perm=[order.index(d) for d in range(len(order))])


def _carried(task: Task) -> list[int]:
    return [d for d in range(len(task.size)) if d not in task.axes]


def _order(task: Task) -> list[int]:
    return [*_carried(task), *sorted(task.axes)]


# --- reduced --------------------------------------------------------------------------------------


def _reduced(task: Task, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
    """The kind over the whole of the axes."""
    graph, kind = task.graph, task.kind
    if isinstance(kind, Avg) and kind.divisor_override is None:
        return graph.reduce("ReduceMean", x, axes, keepdims)
    y = _together(task, x, axes, keepdims)
    return _divided(task, y)


def _together(task: Task, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
    """The kind over the whole of the axes, but for the division of an Avg. No cell of it can be told from another."""
    graph, kind = task.graph, task.kind
    if isinstance(kind, SmoothMax | Lp):
        y = _smooth_max(task, x, kind.beta, axes) if isinstance(kind, SmoothMax) else _norm(task, x, kind.p, axes)
        return y if keepdims else graph.op("Squeeze", y, graph.whole(list(axes)))
    if task.work == INT64 and isinstance(kind, Sum):
        for axis in sorted(axes, reverse=True):
            x = _whole_sum(task, x, axis, keepdims)
        return x
    name = "ReduceMax" if isinstance(kind, Max) else "ReduceMin" if isinstance(kind, Min) else "ReduceSum"
    return graph.reduce(name, x, axes, keepdims)


def _whole_sum(task: Task, x: Value, axis: int, keepdims: bool) -> Value:
    """The sum of int64 along an axis, modulo 2**64. ONNX Runtime adds them up as float64: its halves fit into that."""
    op, half = task.graph.op, task.number(1 << 32)
    low = op("Mod", x, half)
    high = op("Div", op("Sub", x, low), half)
    low, high = (task.graph.reduce("ReduceSum", part, [axis], keepdims) for part in (low, high))
    return op("Add", op("Mul", high, half), low)


def _divided(task: Task, total: Value) -> Value:
    """A total over what every total is divided by."""
    fixed = _fixed_divisor(task.kind)
    return total if fixed in (None, 1) else task.graph.op("Div", total, task.number(fixed))


def _smooth_max(task: Task, x: Value, beta: float, axes: Sequence[int]) -> Value:
    """`log(sum exp(beta (x - s))) / beta + s`, with s the largest cell for beta > 0, the smallest for beta < 0."""
    op, beta_value = task.graph.op, task.number(beta)
    extreme = task.graph.reduce("ReduceMax" if beta > 0 else "ReduceMin", x, axes, keepdims=True)
    shift = op("Where", op("IsInf", extreme), task.number(0), extreme)
    terms = op("Exp", op("Mul", op("Sub", x, shift), beta_value))
    total = task.graph.reduce("ReduceSum", terms, axes, keepdims=True)
    return op("Add", op("Div", op("Log", total), beta_value), shift)


def _norm(task: Task, x: Value, p: float, axes: Sequence[int]) -> Value:
    """`s (sum (|x| / s)^p)^(1/p)`, with s the largest size."""
    op, sizes = task.graph.op, task.graph.op("Abs", x)
    largest = task.graph.reduce("ReduceMax", sizes, axes, keepdims=True)
    zero, one = task.number(0), task.number(1)
    scale = op("Where", op("Or", op("IsInf", largest), op("Equal", largest, zero)), one, largest)
    powers = op("Pow", op("Div", sizes, scale), task.number(p))
    total = task.graph.reduce("ReduceSum", powers, axes, keepdims=True)
    return op("Mul", op("Pow", total, task.number(1 / p)), scale)


# --- cells ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """One axis: what is put around it, and which of its cells each output sees, as rows of places in all that."""

    lo: Whole
    hi: Whole
    beyond: Whole  # after that, cells that never count
    places: Whole
    counted: Whole  # whether a place is a cell that counts, for those that count padding,
    real: Whole  # and for those that do not


def _over_cells(task: Task, x: Value) -> Value:
    """The kind over the gathered cells, along one axis after the other."""
    graph, kind = task.graph, task.kind
    sides = {axis: side for j, axis in enumerate(task.axes) if (side := _side(task, x, j, axis)) is not None}
    if not sides and isinstance(kind, Lp):
        return graph.op("Abs", x)
    outside, nothing = _surroundings(task)
    x = _surrounded(task, x, {axis: (side.lo, side.hi) for axis, side in sides.items()}, outside)
    x = _surrounded(task, x, {axis: (0, side.beyond) for axis, side in sides.items()}, nothing)
    for axis, side in sides.items():
        cells = graph.op("Gather", x, graph.whole(side.places), axis=axis)
        x = _together(task, cells, [axis + 1], keepdims=False)
        if isinstance(kind, Avg) and kind.divisor_override is None:
            number = column(count(side.counted if kind.count_include_pad else side.real), len(task.size) - 1 - axis)
            x = graph.op("Div", x, graph.cast(graph.whole(number), INT64, task.work))
    return _divided(task, x)


def _surroundings(task: Task) -> tuple[float, float]:
    """What stands in the padding, and what in cells that never count."""
    kind = task.kind
    if isinstance(kind, Max | Min):
        integers = task.work == INT64
        least, most = (np.iinfo(np.int64).min, np.iinfo(np.int64).max) if integers else (-math.inf, math.inf)
        return (least, least) if isinstance(kind, Max) else (most, most)
    if not isinstance(kind, SmoothMax):
        return 0, 0
    nothing = -math.inf if kind.beta > 0 else math.inf
    return 0 if kind.count_include_pad else nothing, nothing


def _surrounded(task: Task, x: Value, sides: Mapping[int, tuple[Whole, Whole]], value: float) -> Value:
    """`x` with so many cells of a value before and after its axes."""
    both = [sides.get(d, (0, 0)) for d in range(len(task.size))]
    pads = [lo for lo, _ in both] + [hi for _, hi in both]
    if not any(isinstance(pad, Later) or pad for pad in pads):
        return x
    return task.graph.op("Pad", x, joined(task.graph, pads), task.number(value), mode="constant")


def _side(task: Task, x: Value, j: int, axis: int) -> Side | None:
    """The j-th pooled axis; None where each output sees its own cell alone, which changes it for Lp only."""
    window, rank, length = task.pool.window, len(task.axes), task.graph.length(x, task.size, axis)
    if isinstance(window, Adaptive):
        outputs = (window.output_size if isinstance(window.output_size, tuple) else (window.output_size,) * rank)[j]
        return None if outputs is None else _bins(length, outputs)
    assert isinstance(window, Window)
    kernel, stride, _, dilation = window.of_axis(j, rank)
    lo, hi = padding_of(window, j, rank, length, larger)
    outputs = number_of_outputs(window, j, rank, length, larger, smaller)
    places = column(up_to(outputs)) * stride + np.arange(kernel) * dilation
    beyond = larger((outputs - 1) * stride + dilation * (kernel - 1) + 1 - (length + lo + hi), 0)
    real = choose(places < lo, 1, 0) < choose(places < length + lo, 1, 0)
    return Side(lo, hi, beyond, places, places < length + lo + hi, real)


def _bins(length: Whole, outputs: int) -> Side:
    """Bins are not all of one length: the shorter ones see a cell beyond the end."""
    numbers = np.arange(outputs)
    starts, ends = length * numbers // outputs, (length * (numbers + 1) + (outputs - 1)) // outputs
    places = column(starts) + up_to(length // outputs + 2)
    inside = places < column(ends)
    return Side(0, 0, 1, choose(inside, places, length), inside, inside)
