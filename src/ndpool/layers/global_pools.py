"""Pools over the whole of some axes."""

from __future__ import annotations

from ..kinds import Avg, Max
from ..ops import Shape
from ..windows import Global, Ints, checked_axes
from .pool_layer import MaxLayer, PoolLayer


class _GlobalLayer(PoolLayer):
    """A pool over the whole of some axes."""

    def __init__(self, axes: Ints | None, keepdims: bool) -> None:
        self._window = Global(keepdims)
        self.axes = None if axes is None else checked_axes(axes, self._window)
        self.keepdims = keepdims

    def pooled_axes(self, shape: Shape) -> tuple[int, ...]:
        """The axes that were named, or all after batch and channels."""
        return super().pooled_axes(shape) if self.axes is None else self.axes

    def window(self, shape: Shape) -> Global:
        return self._window


class GlobalMaxPool(_GlobalLayer, MaxLayer):
    """Max over everything in a channel, whatever its rank: `[B, C, ...]` to `[B, C, 1, ...]`.

    As in the function `ndpool.global_max_pool`, `ties` is "all": every maximum gets the full gradient, for which the
    input is kept. With "first" the winners alone are kept. `axes` and `keepdims` are as in the function too, but
    without `axes` all axes after batch and channels are pooled, where the function pools the last two.

    >>> layer = GlobalMaxPool()
    >>> layer.forward([[[1.0, 3.0, 3.0]]]), layer.mask()
    (array([[[3.]]]), array([[[1]]]))
    >>> layer.backward([[[0.5]]])
    array([[[0. , 0.5, 0.5]]])
    """

    def __init__(self, *, ties: str = "all", axes: Ints | None = None, keepdims: bool = True) -> None:
        super().__init__(axes, keepdims)
        self.kind, self.ties = Max(ties), ties


class GlobalAvgPool(_GlobalLayer):
    """Mean over everything in a channel, whatever its rank: `[B, C, ...]` to `[B, C, 1, ...]`.

    `axes` and `keepdims` are as in the function `ndpool.global_avg_pool`, but without `axes` all axes after batch and
    channels are pooled, where the function pools the last two. For a sequence of features, `[B, S, F]` to `[B, F]`, as
    tiny_pool's layer of this name has it, that is `GlobalAvgPool(axes=1, keepdims=False)`.

    >>> GlobalAvgPool().forward([[[1.0, 3.0, 2.0]]])
    array([[[2.]]])
    >>> GlobalAvgPool(axes=1, keepdims=False).forward([[[1.0, 3.0], [2.0, 5.0]]])
    array([[1.5, 4. ]])
    """

    kind = Avg()

    def __init__(self, *, axes: Ints | None = None, keepdims: bool = True) -> None:
        super().__init__(axes, keepdims)
