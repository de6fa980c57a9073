"""Affine maps over windows: `y = A x + bias`, where each output leans on the cells of its own window.

    map(x)                  A x + bias, rounded outward: up for a map above, down for one below
    map.push(t)             A t
    map.pull(g)             A^T g
    map.concretize(lo, hi)  the least and the greatest value over a box, rounded outward

`push` and `pull` also take arrays with more axes in front, one map for each of their entries. A is kept in one of three
forms: a pool of Sum or Avg, one cell of each window with its slope, or the slopes of all cells of each window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, as_array
from ..linear import Linear
from ..memory import Arrays
from ..plan import plan_of
from .boxes import axes_given, check_box, read_box
from .frames import Frame
from .rounding import down, up

if TYPE_CHECKING:
    from ..pool import Pool


class Affine(ABC):
    """`y = A x + bias` in doubles; see the module for what it has.

    >>> from ndpool import Max, Pool, Window
    >>> lower, upper = Pool(Max(), Window((2,))).linear_bounds([0.0, 1.0], [4.0, 2.0])
    >>> upper.bias, upper.push([1.0, 0.0]), upper.pull([2.0])
    (array([2.]), array([0.5]), array([1., 0.]))
    >>> upper.concretize([0.0, 1.0], [4.0, 2.0])
    (array([2.]), array([4.]))
    """

    def __init__(self, frame: Frame, bias: Array, above: bool) -> None:
        self.frame, self.above = frame, above
        self._bias = bias

    @property
    def bias(self) -> Array:
        """What is added, shaped like the output."""
        return self.frame.as_output(self._bias)

    def __repr__(self) -> str:
        side = "above" if self.above else "below"
        return f"<affine map {side}, {self.frame.shape} -> {self.frame.output_shape}>"

    # --- what a form says ---

    @abstractmethod
    def _pushed(self, t: Array) -> Array:
        """(..., others, cells) -> (..., others, windows)."""

    @abstractmethod
    def _pulled(self, g: Array) -> Array:
        """(..., others, windows) -> (..., others, cells)."""

    @abstractmethod
    def _sizes(self, x: Array) -> Array:
        """`sum of |a_i| |x_i|`, for what rounding may lose."""

    @abstractmethod
    def _ends(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """The least and the greatest `A x`."""

    @property
    @abstractmethod
    def roundings(self) -> int:
        """How many roundings an entry of `A x + bias` has."""

    @abstractmethod
    def _mirrored(self) -> Affine:
        """`x -> -map(-x)`, which has the same slopes."""

    # --- what follows ---

    def __call__(self, x: ArrayLike) -> Array:
        """The bound at x."""
        rows = self._rows(x)
        y, size = self._pushed(rows) + self._bias, self._sizes(rows) + np.abs(self._bias)
        return self.frame.as_output((up if self.above else down)(y, size, self.roundings))

    def push(self, t: ArrayLike) -> Array:
        """`A t`."""
        return self.frame.as_output(self._pushed(self._rows(t)))

    def pull(self, g: ArrayLike) -> Array:
        """`A^T g`."""
        g = as_array("g", g).astype(np.float64, copy=False)
        shape = self.frame.output_shape
        if g.shape[max(0, g.ndim - len(shape)) :] != shape:
            raise ValueError(f"g has shape {g.shape} and should have {shape}, or more axes before these")
        return self.frame.as_input(self._pulled(self.frame.results(g)))

    def concretize(self, lo: ArrayLike, hi: ArrayLike) -> tuple[Array, Array]:
        """The least and the greatest value over the box."""
        low, high = read_box(lo, hi)
        check_box(low, high)
        a, b = self._rows(low), self._rows(high)
        least, greatest = self._ends(a, b)
        size = self._sizes(np.maximum(np.abs(a), np.abs(b))) + np.abs(self._bias)
        return (
            self.frame.as_output(down(least + self._bias, size, self.roundings)),
            self.frame.as_output(up(greatest + self._bias, size, self.roundings)),
        )

    def _rows(self, x: ArrayLike) -> Array:
        x = as_array("x", x).astype(np.float64, copy=False)
        shape = self.frame.shape
        if x.shape[max(0, x.ndim - len(shape)) :] != shape:
            raise ValueError(f"x has shape {x.shape} and should have {shape}, or more axes before these")
        return self.frame.inputs(x)


class Constant(Affine):
    """The same whatever x is."""

    @property
    def roundings(self) -> int:
        return 0

    def _pushed(self, t: Array) -> Array:
        return np.zeros((*t.shape[:-1], self.frame.places.shape[1]))

    def _pulled(self, g: Array) -> Array:
        return np.zeros((*g.shape[:-1], self.frame.cells))

    def _sizes(self, x: Array) -> Array:
        return self._pushed(x)

    def _ends(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        return self._pushed(lo), self._pushed(hi)

    def _mirrored(self) -> Affine:
        return Constant(self.frame, -self._bias, not self.above)


class OneCell(Affine):
    """One cell of each window, `y = slope * x[winner] + bias`: the winners of a pool of Max, which the engine hands on.

    `slope` and `bias` are shaped like the output; without them they are 1 and 0.
    """

    def __init__(
        self, frame: Frame, pool: Pool, winners: Array, slope: Array | None, bias: Array | None, above: bool
    ) -> None:
        self.frame, self.above = frame, above
        self._pool, self._winners, self._slope, self._offset = pool, winners, slope, bias

    @cached_property
    def _bias(self) -> Array:  # type: ignore[override]
        if self._offset is None:
            return np.zeros((self.frame.rows, self.frame.places.shape[1]))
        return self.frame.results(self._offset.astype(np.float64, copy=False))

    @cached_property
    def _slopes(self) -> Array | float:
        return 1.0 if self._slope is None else self.frame.results(self._slope.astype(np.float64, copy=False))

    @property
    def roundings(self) -> int:
        return 3

    def _linear(self, lead: tuple[int, ...]) -> Linear:
        """The engine's map from cells to winners, for as many arrays as there are."""
        pool = _with_axes_at_the_end(self._pool, self.frame)
        arrays = Arrays(plan_of(pool, (*lead, *self.frame.shape), "float64"), np.dtype(np.float64))
        winners = np.ascontiguousarray(np.broadcast_to(self._winners, (*lead, *self._winners.shape)))
        return Linear(arrays, (None, None, winners))

    def _taken(self, x: Array) -> Array:
        return self.frame.results(self._linear(x.shape[:-2]).push(self.frame.as_input(x)))

    def _pushed(self, t: Array) -> Array:
        return _product(self._slopes, self._taken(t))

    def _pulled(self, g: Array) -> Array:
        return self.frame.inputs(self._linear(g.shape[:-2]).pull(self.frame.as_output(g * self._slopes)))

    def _sizes(self, x: Array) -> Array:
        return _product(np.abs(self._slopes), self._taken(np.abs(x)))

    def _ends(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        return self._pushed(lo), self._pushed(hi)  # no slope is negative

    def _mirrored(self) -> Affine:
        offset = None if self._offset is None else -self._offset
        return OneCell(self.frame, self._pool, self._winners, self._slope, offset, not self.above)


class AllCells(Affine):
    """A slope for each cell of each window: `slopes[others, k, windows]`, 0 where there is no cell."""

    def __init__(self, frame: Frame, slopes: Array, bias: Array, above: bool) -> None:
        self.frame, self.above = frame, above
        self._slopes, self._kept = slopes, bias

    @cached_property
    def _bias(self) -> Array:  # type: ignore[override]
        return self._kept.astype(np.float64, copy=False)

    @property
    def roundings(self) -> int:
        return int(self._slopes.shape[1]) + 2

    def _pushed(self, t: Array) -> Array:
        total = np.zeros((*t.shape[:-1], self.frame.places.shape[1]))
        for k, places in enumerate(self.frame.places):
            total += _product(self._slopes[:, k], t[..., places])
        return total

    def _pulled(self, g: Array) -> Array:
        gx = np.zeros((*g.shape[:-1], self.frame.cells))
        for k, (places, real) in enumerate(zip(self.frame.places, self.frame.real, strict=True)):
            handed = (self._slopes[:, k] * g)[..., real]
            if self.frame.repeats:
                np.add.at(gx, (..., places[real]), handed)  # type: ignore[arg-type]
            else:
                gx[..., places[real]] += handed
        return gx

    def _sizes(self, x: Array) -> Array:
        return self._with(np.abs(self._slopes))._pushed(np.abs(x))

    def _ends(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        positive, negative = self._with(np.maximum(self._slopes, 0)), self._with(np.minimum(self._slopes, 0))
        return positive._pushed(lo) + negative._pushed(hi), positive._pushed(hi) + negative._pushed(lo)

    def _with(self, slopes: Array) -> AllCells:
        return AllCells(self.frame, slopes, self._kept, self.above)

    def _mirrored(self) -> Affine:
        return AllCells(self.frame, self._slopes, -self._kept, not self.above)


def _product(slopes: Array | float, x: Array) -> Array:
    """`slopes * x`, with 0 where the slope is: a cell that does not matter may be infinite."""
    with np.errstate(invalid="ignore"):
        return np.where(np.equal(slopes, 0), 0.0, slopes * x)


class Pooled(Affine):
    """Sum or Avg of the cells themselves, computed by the engine; `at` has the cells that are not there."""

    def __init__(self, frame: Frame, pool: Pool, at: Array | None, bias: Array, above: bool) -> None:
        super().__init__(frame, bias, above)
        self._pool, self._at = pool, at

    @property
    def roundings(self) -> int:
        return int(self.frame.places.shape[0]) + 2

    def _linear(self, lead: tuple[int, ...]) -> Any:
        shape = (*lead, *self.frame.shape)
        x = np.zeros(shape) if self._at is None else np.broadcast_to(self._at, shape)
        return _with_axes_at_the_end(self._pool, self.frame).linearize(x)[1]

    def _pushed(self, t: Array) -> Array:
        lead = t.shape[:-2]
        return self.frame.results(self._linear(lead).push(self.frame.as_input(t)))

    def _pulled(self, g: Array) -> Array:
        lead = g.shape[:-2]
        return self.frame.inputs(self._linear(lead).pull(self.frame.as_output(g)))

    def _sizes(self, x: Array) -> Array:
        return self._pushed(np.abs(x))

    def _ends(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        return self._pushed(lo), self._pushed(hi)

    def _mirrored(self) -> Affine:
        return Pooled(self.frame, self._pool, self._at, -self._bias, not self.above)


def _with_axes_at_the_end(pool: Pool, frame: Frame) -> Pool:
    """The same pool, for arrays with more axes in front."""
    from ..pool import Pool

    ndim = len(frame.shape)
    axes = tuple(axis - ndim for axis in axes_given(pool, ndim))
    return Pool(pool.kind, pool.window, axes, pool.skip, pool.min_count)
