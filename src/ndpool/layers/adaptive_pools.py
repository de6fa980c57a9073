"""Pools over even bins."""

from __future__ import annotations

from ..kinds import Avg, Max
from ..ops import Shape
from ..windows import Adaptive
from .pool_layer import MaxLayer, PoolLayer


class _AdaptiveLayer(PoolLayer):
    """A pool over even bins, as many as there should be outputs."""

    def __init__(self, output_size: int | tuple[int | None, ...]) -> None:
        self.output_size = Adaptive(output_size).output_size
        self.rank = len(self.output_size) if isinstance(self.output_size, tuple) else None

    def window(self, shape: Shape) -> Adaptive:
        return Adaptive(self.output_size)


class AdaptiveMaxPool(_AdaptiveLayer, MaxLayer):
    """Max over `output_size` even bins of each axis after batch and channels: one int for all, or one an axis.

    >>> AdaptiveMaxPool(3).forward([[[1.0, 2.0, 3.0, 4.0, 5.0]]])
    array([[[2., 4., 5.]]])
    """

    kind = Max()


class AdaptiveAvgPool(_AdaptiveLayer):
    """Mean over `output_size` even bins of each axis after batch and channels: one int for all, or one an axis.

    >>> AdaptiveAvgPool(3).forward([[[1.0, 2.0, 3.0, 4.0, 5.0]]])
    array([[[1.5, 3. , 4.5]]])
    """

    kind = Avg()
