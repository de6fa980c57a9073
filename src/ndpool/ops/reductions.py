"""Sums and means over whole axes, which are linear maps."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .arithmetic import divided, total
from .axes import axis_of
from .linear_maps import LinearMap
from .protocol import Array, Shape


@dataclass(frozen=True)
class ReduceSum(LinearMap):
    """`y = sum of x` over `axes` (None: over all), which are dropped, or kept at length 1 with `keepdims`.

    >>> ReduceSum(axes=0)([[1.0, 2.0], [3.0, 4.0]])
    array([4., 6.])
    """

    axes: int | tuple[int, ...] | None = None
    keepdims: bool = False

    integers: ClassVar[str] = "widen"

    def __post_init__(self) -> None:
        if self.axes is not None:
            axes = self.axes if isinstance(self.axes, Sequence) else (self.axes,)
            object.__setattr__(self, "axes", tuple(operator.index(a) for a in axes))
        if not isinstance(self.keepdims, bool):
            raise TypeError(f"keepdims={self.keepdims!r} is not a bool; give True or False")

    def _reduced(self, shape: Shape) -> tuple[int, ...]:
        axes = range(len(shape)) if self.axes is None else self.axes
        found = tuple(axis_of(self, axis, shape) for axis in axes)  # type: ignore[union-attr]
        if len(set(found)) != len(found):
            raise ValueError(f"{type(self).__name__} with axes={self.axes} of shape {shape}; name each axis once")
        return found

    def _divisor(self, shape: Shape) -> int:
        return 1

    def value_shape(self, *shapes: Shape) -> Shape:
        shape = shapes[0]
        gone = self._reduced(shape)
        self._divisor(shape)
        return tuple(1 if d in gone else n for d, n in enumerate(shape) if self.keepdims or d not in gone)

    def value(self, *xs: Array) -> Any:
        return total(xs[0], self._reduced(xs[0].shape), self.keepdims)

    def transposed(self, g: Array, *shapes: Shape) -> Array:
        gone = self._reduced(shapes[0])
        kept = tuple(1 if d in gone else n for d, n in enumerate(shapes[0]))
        return np.broadcast_to(g.reshape(kept), shapes[0])


@dataclass(frozen=True)
class ReduceMean(ReduceSum):
    """`y = (sum of x) / n` over `axes` (None: over all), where n is how many cells are summed.

    >>> ReduceMean(axes=1, keepdims=True)([[1.0, 2.0], [3.0, 4.0]])
    array([[1.5],
           [3.5]])
    """

    integers: ClassVar[str] = "float64"

    def _divisor(self, shape: Shape) -> int:
        n = math.prod(shape[d] for d in self._reduced(shape))
        if n == 0:
            raise ValueError(f"ReduceMean with axes={self.axes} of shape {shape} has no cell; a mean needs one")
        return n

    def value(self, *xs: Array) -> Any:
        return divided(super().value(*xs), self._divisor(xs[0].shape))

    def transposed(self, g: Array, *shapes: Shape) -> Array:
        return super().transposed(divided(g, self._divisor(shapes[0])), *shapes)
