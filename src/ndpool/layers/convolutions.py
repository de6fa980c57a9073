"""Convolutions with a learned kernel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from .. import ops
from ..ops import Shape
from ..windows import Ints, PaddingLike, whole
from .dense import Affine


class _Conv(Affine):
    """A convolution whose rank the class states; see `ndpool.ops.Conv`."""

    rank: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: PaddingLike = 0,
        dilation: Ints = 1,
        *,
        bias: bool = True,
        rng: np.random.Generator | int | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        kernel = tuple(kernel_size) if isinstance(kernel_size, Iterable) else (kernel_size,) * self.rank
        if len(kernel) != self.rank:
            raise ValueError(f"kernel_size={kernel_size!r} has {len(kernel)} entries; give one int, or {self.rank}")
        sides = tuple(whole("kernel_size", k, 1) for k in kernel)
        self.in_channels = whole("in_channels", in_channels, 1)
        self.out_channels = whole("out_channels", out_channels, 1)
        self.kernel_size = sides if isinstance(kernel_size, Iterable) else sides[0]
        self._op = ops.Conv(stride, padding, dilation)
        self.stride, self.padding, self.dilation = self._op.stride, self._op.padding, self._op.dilation
        super().__init__((self.out_channels, self.in_channels, *sides), bias, rng, dtype)

    def op(self, shape: Shape) -> ops.Conv:
        """`ops.Conv` with this stride, padding and dilation."""
        return self._op


class Conv1D(_Conv):
    """`[B, C, L]` to `[B, out_channels, Lo]`: a learned kernel over each place of a signal.

    `stride`, `padding` and `dilation` are as in `ndpool.ops.Conv`; `bias`, `rng` and `dtype` as in `Dense`.

    >>> import numpy as np
    >>> Conv1D(1, 4, 5, rng=0).forward(np.zeros((2, 1, 64))).shape
    (2, 4, 60)
    """

    rank = 1


class Conv2D(_Conv):
    """`[B, C, H, W]` to `[B, out_channels, Ho, Wo]`: a learned kernel over each place of a picture.

    `stride`, `padding` and `dilation` are as in `ndpool.ops.Conv`; `bias`, `rng` and `dtype` as in `Dense`.

    >>> import numpy as np
    >>> Conv2D(1, 4, 3, padding="same", rng=0).forward(np.zeros((2, 1, 8, 8))).shape
    (2, 4, 8, 8)
    """

    rank = 2
