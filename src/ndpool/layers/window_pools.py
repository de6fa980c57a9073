"""Pools over windows, which say what becomes of the cells that no window reaches."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..kinds import Avg, Max, SmoothMax
from ..ops import Shape
from ..windows import Axis, Ints, PaddingLike, Window
from .pool_layer import MaxLayer, PoolLayer

REMAINDERS = ("drop", "warn", "error", "ceil")

#: None, for all axes or for one of them, stands for the kernel's side.
StrideLike: TypeAlias = int | Sequence[int | None] | None


class RemainderWarning(UserWarning):
    """Cells at the end of an axis are in no window, and nobody said that they may be dropped."""


class WindowLayer(PoolLayer):
    """A pool over windows; `remainder` says what becomes of the cells that no window reaches."""

    def __init__(
        self,
        kernel_size: Sequence[int],
        stride: StrideLike = None,
        padding: PaddingLike = 0,
        dilation: Ints = 1,
        *,
        remainder: str = "warn",
    ) -> None:
        if remainder not in REMAINDERS:
            raise ValueError(f"remainder={remainder!r} is not a policy; give one of {REMAINDERS}")
        if not isinstance(kernel_size, Iterable):
            raise TypeError(f"kernel_size={kernel_size!r} is for no axis; give one int for each, such as (2, 2)")
        kernel = tuple(kernel_size)
        steps: tuple[Any, ...] = tuple(stride) if isinstance(stride, Iterable) else (stride,) * len(kernel)
        if len(steps) != len(kernel):
            raise ValueError(
                f"stride={stride!r} has {len(steps)} entries and the kernel {len(kernel)}; make them agree"
            )
        chosen = tuple(k if _means_kernel(s) else s for k, s in zip(kernel, steps, strict=True))
        self._window = Window(kernel, chosen, padding, dilation, ceil_mode=remainder == "ceil")
        self.rank, self.remainder = len(kernel), remainder
        # For the repr, as one would type them: None stands for the kernel's side.
        self._strides = tuple(None if k == s else s for k, s in zip(kernel, chosen, strict=True))
        self.kernel_size: Any = self._window.kernel_size
        self.stride: Any = None if chosen == kernel else self._window.stride
        self.padding, self.dilation = self._window.padding, self._window.dilation

    def window(self, shape: Shape) -> Window:
        if self.remainder in ("warn", "error"):
            dropped = [
                f"the last {_dropped(axis)} of {axis.length} cells of axis {2 + d}"
                for d, axis in enumerate(self._window.axes_of(shape[2:]))
                if _dropped(axis)
            ]
            if dropped:
                self._complain(f"{self!r} drops {' and '.join(dropped)}, which are in no window")
        return self._window

    def _complain(self, message: str) -> None:
        remedy = (
            "pad or crop the input, or choose remainder='drop' to drop them silently or 'ceil' for a partial window"
        )
        if self.remainder == "error":
            raise ValueError(f"{message}; {remedy}")
        warnings.warn(f"{message}; {remedy}", RemainderWarning, stacklevel=5)


def _means_kernel(stride: Any) -> bool:
    """Whether a stride stands for the kernel's side: None, or tiny_pool's negative number."""
    return stride is None or (isinstance(stride, int | np.integer) and int(stride) < 0)


def _dropped(axis: Axis) -> int:
    """How many cells at the end only another, partial window would see.

    Gaps between windows, which a stride longer than the kernel leaves, do not count.
    """
    end = (axis.output - 1) * axis.stride - axis.pad_lo + axis.dilation * (axis.kernel - 1) + 1
    next_start = axis.output * axis.stride - axis.pad_lo
    return max(0, axis.length - max(end, next_start))


class MaxPoolND(WindowLayer, MaxLayer):
    """`y = max x_i` over windows of `kernel_size`, one int for each axis after batch and channels.

    `stride`, `padding` and `dilation` are as in `Window`; a negative stride means the kernel, as None does. Ties go to
    the first. `remainder` says what happens to cells at the end that fill no window: they are dropped silently ("drop")
    or with a warning ("warn"), are an error ("error"), or get a partial window ("ceil").

    >>> import numpy as np
    >>> MaxPoolND((2, 2, 2)).forward(np.arange(8.0).reshape(1, 1, 2, 2, 2))
    array([[[[[7.]]]]])
    """

    kind = Max()


class AvgPoolND(WindowLayer):
    """`y = (sum x_i) / n` over windows of `kernel_size`; other arguments as in `MaxPoolND`.

    Padding counts in n, unless `count_include_pad` is False.

    >>> import numpy as np
    >>> AvgPoolND((2, 2, 2)).forward(np.arange(8.0).reshape(1, 1, 2, 2, 2))
    array([[[[[3.5]]]]])
    """

    def __init__(
        self,
        kernel_size: Sequence[int],
        stride: StrideLike = None,
        padding: PaddingLike = 0,
        dilation: Ints = 1,
        *,
        count_include_pad: bool = True,
        remainder: str = "warn",
    ) -> None:
        self.kind, self.count_include_pad = Avg(count_include_pad), count_include_pad
        super().__init__(kernel_size, stride, padding, dilation, remainder=remainder)


class SmoothMaxPoolND(WindowLayer):
    """`y = log(sum exp(beta x_i)) / beta` over windows of `kernel_size`; other arguments as in `MaxPoolND`.

    A padded cell is the number 0, unless `count_include_pad` is False: then it is ignored.

    >>> SmoothMaxPoolND(1.0, (2,)).forward([[[0.0, 1.0]]]).round(6)
    array([[[1.313262]]])
    """

    def __init__(
        self,
        beta: float,
        kernel_size: Sequence[int],
        stride: StrideLike = None,
        padding: PaddingLike = 0,
        dilation: Ints = 1,
        *,
        count_include_pad: bool = True,
        remainder: str = "warn",
    ) -> None:
        self.kind = SmoothMax(beta, count_include_pad)
        self.beta, self.count_include_pad = self.kind.beta, count_include_pad
        super().__init__(kernel_size, stride, padding, dilation, remainder=remainder)


# --- over signals and pictures, with the arguments that these have --------------------------------


class _OverSignals(WindowLayer):
    """Over `[B, C, L]`, with one number for the kernel and one for the stride."""

    def __init__(self, kernel_size: int, stride: int | None = None, *, remainder: str = "warn") -> None:
        super().__init__((kernel_size,), (stride,), remainder=remainder)
        (self.kernel_size,), (self.stride,) = self.kernel_size, self._strides


class _OverPictures(WindowLayer):
    """Over `[B, C, H, W]`, with two numbers for the kernel and two for the stride."""

    def __init__(
        self, kH: int, kW: int, sH: int | None = None, sW: int | None = None, *, remainder: str = "warn"
    ) -> None:
        super().__init__((kH, kW), (sH, sW), remainder=remainder)
        (self.kH, self.kW), (self.sH, self.sW) = self.kernel_size, self._strides


class MaxPool1D(_OverSignals, MaxPoolND):
    """Max over windows of `kernel_size` cells of `[B, C, L]`; a stride of None, or below 0, is the kernel size.

    >>> layer = MaxPool1D(2)
    >>> layer.forward([[[1.0, 3.0, 2.0, 5.0, 4.0, 6.0]]])
    array([[[3., 5., 6.]]])
    >>> layer.backward([[[0.1, 0.2, 0.3]]])
    array([[[0. , 0.1, 0. , 0.2, 0. , 0.3]]])
    """


class AvgPool1D(_OverSignals, AvgPoolND):
    """Mean over windows of `kernel_size` cells of `[B, C, L]`; arguments as in `MaxPool1D`.

    >>> layer = AvgPool1D(2)
    >>> layer.forward([[[1.0, 3.0, 2.0, 6.0]]]), layer.backward([[[0.2, 0.4]]])
    (array([[[2., 4.]]]), array([[[0.1, 0.1, 0.2, 0.2]]]))
    """


class MaxPool2D(_OverPictures, MaxPoolND):
    """Max over windows of kH x kW cells of `[B, C, H, W]`, in steps of sH x sW.

    A step of None, or below 0, is the kernel's side along that axis.

    >>> layer = MaxPool2D(2, 2)
    >>> layer.forward([[[[1.0, 2.0], [4.0, 3.0]]]])
    array([[[[4.]]]])
    >>> layer.mask()
    array([[[[1, 0]]]])
    """


class AvgPool2D(_OverPictures, AvgPoolND):
    """Mean over windows of kH x kW cells of `[B, C, H, W]`, in steps of sH x sW; arguments as in `MaxPool2D`.

    >>> AvgPool2D(2, 2).forward([[[[1.0, 2.0], [4.0, 3.0]]]])
    array([[[[2.5]]]])
    """
