"""What every pooling layer has: its pool, its winners and its memory."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..kinds import Kind, Max, SmoothMax, derivative_dtype
from ..memory import winner_bytes
from ..ops import Shape
from ..pool import Pool
from ..windows import AnyWindow, Axis, Layout, layout, whole
from .layer import OpKept, OpLayer


class Memory(NamedTuple):
    """Bytes of a pooling layer for one input: of its output, of its winners, and of what else a training step needs.

    A winner is its place in its window: it takes 1 byte for windows of up to 256 cells, 2 for up to 65,536, then 4.
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
        return self.output + self.mask + self.scratch


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
        pool = self.op(shape)
        output = math.prod(pool.output_shape(shape)) * self.kind.result_dtype(dtype).itemsize
        if not self.training:
            return Memory(output, 0, 0)
        gradient, x = math.prod(shape) * derivative_dtype(dtype).itemsize, math.prod(shape) * dtype.itemsize
        if isinstance(self.kind, Max) and self.kind.ties == "first":
            return Memory(output, winner_bytes(pool, shape), gradient)
        kept = x + output if isinstance(self.kind, Max) else x if isinstance(self.kind, SmoothMax) else 0
        return Memory(output, 0, gradient + kept)


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
        pool = self.op(kept.input_shape)
        winners = self._winners(kept, layout(pool.window, pool.axes, kept.input_shape, None))
        return winners.reshape(*kept.outputs.shape[:-1], -1)

    def _winners(self, kept: OpKept, laid: Layout) -> NDArray[np.int64]:
        """The winners' coordinates, last axis."""
        return _winners_of_windows(kept, laid.geometry)


def _winners_of_windows(kept: OpKept, axes: Sequence[Axis]) -> NDArray[np.int64]:
    """The winners' coordinates, last axis, read off the pullback: where a cotangent of 1 goes is who won.

    All outputs whose windows do not overlap are asked together, so nothing but the pullback has to be kept.
    """
    spans = [_spans(axis) for axis in axes]
    apart = [_apart(starts, ends) for starts, ends in spans]
    winners = np.zeros((*kept.outputs.shape, len(axes)), np.int64)
    for first in itertools.product(*map(range, apart)):
        asked = tuple(slice(r, None, m) for r, m in zip(first, apart, strict=True))
        g = np.zeros(kept.outputs.shape)
        g[(slice(None), slice(None), *asked)] = 1
        batch, channel, *places = np.nonzero(kept.pullback(g))
        outputs = [
            r + m * (np.searchsorted(starts[r::m], place, side="right") - 1)
            for r, m, (starts, _), place in zip(first, apart, spans, places, strict=True)
        ]
        winners[(batch, channel, *outputs)] = np.stack(places, axis=-1)
    return winners


def _spans(axis: Axis) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each window starts, and the place after its last cell."""
    i = np.arange(axis.output)
    if axis.adaptive:
        return i * axis.length // axis.output, -(-(i + 1) * axis.length // axis.output)
    starts = i * axis.stride - axis.pad_lo
    return starts, starts + axis.dilation * (axis.kernel - 1) + 1


def _apart(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
    """How many windows further on none overlaps any more."""
    m = 1
    while np.any(ends[:-m] > starts[m:]):
        m += 1
    return m
