"""What every pooling layer has: its pool, its winners and its memory."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..kind import Kind, derivative_dtype
from ..ops import Array, Directions, Shape
from ..pool import LinearMap, Pool
from ..residuals import kept_by_pool
from ..windows import AnyWindow, layout, whole
from .layer import OpKept, OpLayer


class Memory(NamedTuple):
    """Bytes of a pooling layer for one input: of its output, of its winners, and of what else a training step needs.

    A winner is its place in its window: it takes 1 byte for windows of up to 256 cells, 2 for up to 65,536, then more.
    `scratch` is the gradient of the input, which backward makes, and what else forward keeps: the input of a smooth
    maximum, which its weights are computed from, and input and output of a maximum without single winners. In eval,
    mask and scratch are 0.
    """

    output: int
    mask: int
    scratch: int

    @property
    def total(self) -> int:
        """All of them together."""
        return sum(self)


@dataclass
class PoolKept(OpKept):
    """What the forward of a pool keeps: its derivative, whose residual has the winners or what they are found from."""

    pool: Pool
    linear: LinearMap


class PoolLayer(OpLayer):
    """A kind over all axes after batch and channels."""

    kind: Kind
    rank: int | None = None
    _pool: Pool | None = None

    @abstractmethod
    def window(self, shape: Shape) -> AnyWindow:
        """The window for an input of this shape."""

    def pooled_axes(self, shape: Shape) -> tuple[int, ...]:
        """The axes that are pooled: all after batch and channels."""
        spatial = len(shape) - 2
        if spatial < 1 or self.rank not in (None, spatial):
            lengths = "one length or more" if self.rank is None else f"{self.rank} length{'s' * (self.rank > 1)}"
            raise ValueError(
                f"{self!r} takes x with batch, channels and {lengths}, and got shape {shape}; reshape it, "
                "with lengths of 1 for a batch or channels that are missing"
            )
        return tuple(range(2, len(shape)))

    def op(self, shape: Shape) -> Pool:
        """The pool for an input of this shape."""
        axes, window = self.pooled_axes(shape), self.window(shape)
        # One pool for all calls: it holds the engine's plans for the shapes that it has seen.
        if self._pool is None or self._pool.axes != axes:
            self._pool = Pool(self.kind, window, axes)
        return self._pool

    def _differentiated(self, op: Pool, inputs: tuple[Array, ...], lost: bool) -> tuple[Array, PoolKept]:
        (x,) = inputs
        y, linear = op.linearize(x)
        return y, PoolKept(linear.pull, x.shape, Directions.of(y), op, linear, lost=lost)

    def memory(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> Memory:
        """The bytes for an input of this shape and dtype, in the mode that the layer is in.

        >>> from ndpool.layers import MaxPool2D
        >>> layer = MaxPool2D(2, 2)
        >>> layer.memory((1, 8, 16, 16), np.int8).mask, layer.memory((1, 8, 16, 16), np.float32).mask
        (512, 512)
        >>> layer.eval().memory((1, 8, 16, 16))
        Memory(output=2048, mask=0, scratch=0)
        """
        shape, dtype = tuple(whole("shape", n, 0) for n in shape), np.dtype(dtype)
        pool, cells = self.op(shape), math.prod(shape)
        output = math.prod(pool.output_shape(shape)) * self.kind.result_dtype(dtype).itemsize
        if not self.training:
            return Memory(output, 0, 0)
        keeps = kept_by_pool(pool, shape, dtype)
        gradient, x = cells * derivative_dtype(dtype).itemsize, cells * dtype.itemsize if keeps.x else 0
        return Memory(output, keeps.winners, gradient + x + keeps.copies)


class MaxLayer(PoolLayer):
    """A max pool whose winners can be looked at."""

    def mask(self) -> NDArray[np.int64]:
        """Where each output came from in the last forward: its place in x, without padding, the first one at ties.

        In one dimension the index, `[B, C, Lo]`; in two, row and column side by side, `[B, C, OH, OW*2]`; and so on.

        >>> from ndpool.layers import MaxPool1D
        >>> layer = MaxPool1D(2)
        >>> layer.forward([[[1.0, 3.0, 2.0, 5.0, 4.0, 6.0]]])
        array([[[3., 5., 6.]]])
        >>> layer.mask()
        array([[[1, 3, 5]]])
        """
        kept = self._kept_for("mask")
        outputs = kept.outputs.shape
        axes = layout(kept.pool.window, kept.pool.axes, kept.input_shape, None).axes
        coordinates = np.unravel_index(_indices(kept), [kept.input_shape[axis] for axis in axes])
        return np.stack(coordinates, axis=-1).reshape(*outputs[:-1], math.prod(outputs[-1:]) * len(axes))


def _indices(kept: PoolKept) -> NDArray[np.int64]:
    """The flat indices of the winners. A policy for ties that keeps the input has no winners; they are found in it."""
    x = kept.linear.residual.x
    if x is None:
        return np.asarray(kept.linear.indices())
    return kept.pool.with_indices(x)[1]
