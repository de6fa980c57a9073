"""The same cells in another shape or order of axes: linear maps whose outputs may be views of their inputs."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..windows import whole
from .axes import axis_of
from .linear_maps import LinearMap
from .protocol import Array, Shape


@dataclass(frozen=True)
class Reshape(LinearMap):
    """The same cells in row-major order under another `shape`; one length may be -1, and follows from the others.

    >>> Reshape((2, -1))([1, 2, 3, 4])
    array([[1, 2],
           [3, 4]])
    """

    shape: Shape

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(whole(f"shape[{i}]", n, -1) for i, n in enumerate(self.shape)))
        if self.shape.count(-1) > 1:
            raise ValueError(f"shape={self.shape} leaves more than one length open; give at most one -1")

    def value_shape(self, *shapes: Shape) -> Shape:
        cells, known = math.prod(shapes[0]), math.prod(n for n in self.shape if n != -1)
        fits = cells == known if -1 not in self.shape else known > 0 and cells % known == 0
        if not fits:
            raise ValueError(
                f"Reshape to shape={self.shape} of {shapes[0]}, which has {cells} cells; "
                "give lengths whose product is that"
            )
        return tuple(cells // known if n == -1 else n for n in self.shape)

    def value(self, *xs: Array) -> Any:
        return xs[0].reshape(self.shape)

    def transposed(self, g: Array, *shapes: Shape) -> Array:
        return g.reshape(shapes[0])


@dataclass(frozen=True)
class Flatten(LinearMap):
    """The axes from `start` on as one, in row-major order; by default all but the batch.

    >>> Flatten()([[[1, 2], [3, 4]]])
    array([[1, 2, 3, 4]])
    """

    start: int = 1

    def __post_init__(self) -> None:
        whole("start", self.start, 0)

    def value_shape(self, *shapes: Shape) -> Shape:
        shape = shapes[0]
        if self.start > len(shape):
            raise ValueError(f"Flatten from start={self.start} of shape {shape}; give at most {len(shape)}")
        return (*shape[: self.start], math.prod(shape[self.start :]))

    def value(self, *xs: Array) -> Any:
        return xs[0].reshape(self.value_shape(xs[0].shape))

    def transposed(self, g: Array, *shapes: Shape) -> Array:
        return g.reshape(shapes[0])


@dataclass(frozen=True)
class Transpose(LinearMap):
    """The axes in another order: axis d of y is axis `axes[d]` of x; None reverses them all.

    >>> Transpose()([[1, 2], [3, 4]])
    array([[1, 3],
           [2, 4]])
    """

    axes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.axes is not None:
            object.__setattr__(self, "axes", tuple(operator.index(a) for a in self.axes))

    def _order(self, shape: Shape) -> tuple[int, ...]:
        if self.axes is None:
            return tuple(reversed(range(len(shape))))
        order = tuple(axis_of(self, axis, shape) for axis in self.axes)
        if sorted(order) != list(range(len(shape))):
            raise ValueError(f"Transpose with axes={self.axes} of shape {shape}; name each axis once")
        return order

    def value_shape(self, *shapes: Shape) -> Shape:
        return tuple(shapes[0][d] for d in self._order(shapes[0]))

    def value(self, *xs: Array) -> Any:
        return np.transpose(xs[0], self._order(xs[0].shape))

    def transposed(self, g: Array, *shapes: Shape) -> Array:
        return np.transpose(g, np.argsort(self._order(shapes[0])))
