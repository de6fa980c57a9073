"""Windows as arrays of places: which cells each output sees, for all outputs at once.

An input of any shape is a matrix here, of (others, cells): the pooled axes in row-major order, all others before them.
An output is a matrix of (others, windows). `places[k, w]` is the k-th cell of window w, and `real[k, w]` says whether
there is one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import _engine
from ..arrays import Array
from ..windows import Axis

if TYPE_CHECKING:
    from ..pool import Pool


@dataclass(frozen=True, eq=False)
class Frame:
    """A pool's windows over one shape."""

    shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    axes: tuple[int, ...]
    places: NDArray[np.intp]
    real: NDArray[np.bool_]
    #: How many padded cells each window has beside the real ones.
    padded: NDArray[np.int64]
    #: Outputs along each pooled axis.
    outputs: tuple[int, ...]

    @property
    def cells(self) -> int:
        """How many cells there are along the pooled axes."""
        return math.prod(self.shape[axis] for axis in self.axes)

    @property
    def others(self) -> tuple[int, ...]:
        """The lengths of the other axes."""
        return tuple(n for d, n in enumerate(self.shape) if d not in self.axes)

    @property
    def rows(self) -> int:
        """How many rows the matrices have."""
        return math.prod(self.others)

    @cached_property
    def repeats(self) -> bool:
        """Whether two windows have the same cell at the same of their places, as more bins than cells have."""
        cells = [places[real] for places, real in zip(self.places, self.real, strict=True)]
        return any(len(np.unique(each)) != len(each) for each in cells)

    def lanes(self, count: int) -> _engine.BoxWindows:
        """The windows as the engine looks at so many of them at a time."""
        if count not in self._tables:
            windows = self.places.shape[1]
            places, real = np.ascontiguousarray(self.places, np.int64), np.ascontiguousarray(self.real)
            line = self.outputs[-1] if windows else 1
            self._tables[count] = _engine.BoxWindows(places, real, windows, self.rows, self.cells, line, count)
        return self._tables[count]

    @cached_property
    def _tables(self) -> dict[int, _engine.BoxWindows]:
        return {}

    def inputs(self, x: Array) -> Array:
        """(..., *shape) as (..., others, cells)."""
        return self._matrix(x, self.shape, self.cells)

    def results(self, y: Array) -> Array:
        """(..., *output_shape) as (..., others, windows)."""
        lead = y.ndim - len(self.output_shape)
        kept = tuple(1 if d in self.axes else n for d, n in enumerate(self.shape))
        if len(self.output_shape) != len(self.shape):
            y = y.reshape((*y.shape[:lead], *kept))
        return self._matrix(y, y.shape[lead:], self.places.shape[1])

    def _matrix(self, x: Array, shape: tuple[int, ...], columns: int) -> Array:
        lead = x.ndim - len(shape)
        moved = np.moveaxis(x, [lead + axis for axis in self.axes], range(-len(self.axes), 0))
        return moved.reshape(*x.shape[:lead], math.prod(self.others), columns)

    def as_input(self, rows: Array) -> Array:
        """(..., others, cells) as (..., *shape)."""
        return self._shaped(rows, tuple(self.shape[axis] for axis in self.axes), self.shape)

    def as_output(self, rows: Array) -> Array:
        """(..., others, windows) as (..., *output_shape)."""
        return self._shaped(rows, self.outputs, self.output_shape)

    def _shaped(self, rows: Array, pooled: tuple[int, ...], shape: tuple[int, ...]) -> Array:
        lead = rows.ndim - 2
        whole = rows.reshape(*rows.shape[:lead], *self.others, *pooled)
        moved = np.moveaxis(whole, range(-len(self.axes), 0), [lead + axis for axis in self.axes])
        return np.asarray(moved.reshape((*rows.shape[:lead], *shape)))


@lru_cache(maxsize=256)
def frame_of(pool: Pool, shape: tuple[int, ...]) -> Frame:
    """The frame of a pool over a shape, made or found again."""
    found = pool._layout(shape)
    places, real = np.zeros((1, 1), np.intp), np.ones((1, 1), bool)
    counted = np.ones(1, np.int64)
    for axis in found.geometry:
        line, is_real, count = along(axis)
        places = _product(places, line, lambda a, b, n=axis.length: a * n + b)
        real = _product(real, is_real, np.logical_and)
        counted = (counted[:, None] * count[None, :]).ravel()
    outputs = tuple(axis.output for axis in found.geometry)
    padded = counted - real.sum(0)
    return Frame(shape, found.output_shape, found.axes, np.where(real, places, 0), real, padded, outputs)


def _product(a: NDArray[Any], b: NDArray[Any], together: Any) -> NDArray[Any]:
    """(k, w) of the axes before and (k, w) of one more, as (k, w) of all."""
    both = together(a[:, None, :, None], b[None, :, None, :])
    return np.asarray(both.reshape(a.shape[0] * b.shape[0], a.shape[1] * b.shape[1]))


def along(axis: Axis) -> tuple[NDArray[np.intp], NDArray[np.bool_], NDArray[np.int64]]:
    """The places (k, output) along one axis, which of them are real, and how many each output counts."""
    i, k = np.arange(axis.output)[None, :], np.arange(axis.kernel)[:, None]
    if axis.adaptive:
        start, end = i * axis.length // axis.output, -(-(i + 1) * axis.length // axis.output)
        places = start + k
        real = places < end
        return places.astype(np.intp), real, real.sum(0)
    places = i * axis.stride - axis.pad_lo + k * axis.dilation
    real = (places >= 0) & (places < axis.length)
    return places.astype(np.intp), real, (places < axis.length + axis.pad_hi).sum(0)
