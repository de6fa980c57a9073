"""A graph of ONNX in the making, whoever's exporter makes it, and arithmetic on whole numbers in it.

A length is an int where it is known now, and a `Later` where it is known when the model runs. The same formulas are
written for both: on ints and arrays they are NumPy's, on a `Later` they make nodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Value: TypeAlias = Any  # a value in the exporter's graph
Whole: TypeAlias = Any  # whole numbers, or truths: an int, an array, or a `Later`

#: The standard's numbers for dtypes.
FLOAT, INT64, BOOL, FLOAT16, DOUBLE, UINT64, BFLOAT16 = 1, 7, 9, 10, 11, 13, 16
UNSIGNED = {2, 4, 12, UINT64}
INTEGERS = {3, 5, 6, INT64, BOOL, *UNSIGNED}

#: The least version of ONNX's operators: since then all reductions take their axes as an input.
OPSET = 18


class Graph(ABC):
    """A graph in the making."""

    @abstractmethod
    def op(self, name: str, *inputs: Value, outputs: int = 1, **attributes: Any) -> Any:
        """One node."""

    @abstractmethod
    def constant(self, array: Array) -> Value:
        """An array as a value."""

    @abstractmethod
    def size(self, x: Value) -> tuple[int | None, ...] | None:
        """The lengths of the axes, as far as they are known."""

    @abstractmethod
    def dtype(self, x: Value) -> int | None:
        """The standard's number for the dtype, if it is known."""

    def whole(self, numbers: Whole) -> Value:
        """Whole numbers as a value."""
        return numbers.value if isinstance(numbers, Later) else self.constant(np.asarray(numbers, np.int64))

    def reduce(self, name: str, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
        return self.op(name, x, self.whole(list(axes)), keepdims=int(keepdims))

    def cast(self, x: Value, dtype: int, to: int) -> Value:
        return x if dtype == to else self.op("Cast", x, to=to)

    def lengths(self, x: Value, axes: Sequence[int]) -> Value:
        """The lengths of some axes, when the model runs. TorchScript's exporter misreads the attributes of Shape."""
        return self.op("Gather", self.op("Shape", x), self.whole(list(axes)), axis=0)

    def length(self, x: Value, size: Sequence[int | None], axis: int) -> Whole:
        """The length of one axis of `x`, which has this size as far as it is known."""
        known = size[axis]
        return Later(self, self.lengths(x, [axis])) if known is None else known


@dataclass(frozen=True, eq=False)
class Later:
    """Whole numbers that are known when the model runs, in one axis or more: arithmetic on them makes nodes."""

    graph: Graph
    value: Value

    def made(self, name: str, left: Whole, right: Whole) -> Later:
        return Later(self.graph, self.graph.op(name, self.graph.whole(left), self.graph.whole(right)))

    def __add__(self, other: Whole) -> Later:
        return self.made("Add", self, other)

    def __sub__(self, other: Whole) -> Later:
        return self.made("Sub", self, other)

    def __mul__(self, other: Whole) -> Later:
        return self.made("Mul", self, other)

    def __floordiv__(self, other: Whole) -> Later:
        return self.made("Div", self - self.made("Mod", self, other), other)  # Div alone rounds towards 0

    def __lt__(self, other: Whole) -> Later:
        return self.made("Less", self, other)


def larger(a: Whole, b: Whole) -> Whole:
    later = a if isinstance(a, Later) else b
    return later.made("Max", a, b) if isinstance(later, Later) else max(a, b)


def smaller(a: Whole, b: Whole) -> Whole:
    later = a if isinstance(a, Later) else b
    return later.made("Min", a, b) if isinstance(later, Later) else min(a, b)


def up_to(n: Whole) -> Whole:
    """0, 1, ..., n - 1."""
    if not isinstance(n, Later):
        return np.arange(n)
    graph = n.graph
    end = graph.op("Squeeze", n.value)
    return Later(graph, graph.op("Range", graph.whole(0), end, graph.whole(1)))


def column(numbers: Whole, after: int = 1) -> Whole:
    """Numbers in one axis, with so many axes of length 1 after it."""
    if not isinstance(numbers, Later):
        return np.reshape(numbers, (-1, *(1,) * after))
    graph = numbers.graph
    return Later(graph, graph.op("Reshape", numbers.value, graph.whole([-1, *(1,) * after])))


def count(truths: Whole) -> Whole:
    """How many of each row are true."""
    if not isinstance(truths, Later):
        return truths.sum(1)
    graph = truths.graph
    return Later(graph, graph.reduce("ReduceSum", graph.op("Cast", truths.value, to=INT64), [1], keepdims=False))


def choose(truths: Whole, yes: Whole, no: Whole) -> Whole:
    if not isinstance(truths, Later):
        return np.where(truths, yes, no)
    graph = truths.graph
    return Later(graph, graph.op("Where", truths.value, graph.whole(yes), graph.whole(no)))


def joined(graph: Graph, numbers: Sequence[Whole]) -> Value:
    """A list of single numbers as one value."""
    if not any(isinstance(number, Later) for number in numbers):
        return graph.whole([int(number) for number in numbers])
    one_each = [number if isinstance(number, Later) else [int(number)] for number in numbers]
    return graph.op("Concat", *map(graph.whole, one_each), axis=0)
