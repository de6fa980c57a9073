"""Convolution in any rank, as one product of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..windows import Axis, Ints, PaddingLike, Window
from .arithmetic import zeros_as_in
from .products import Product
from .protocol import Array, Shape


@dataclass(frozen=True)
class Conv(Product):
    """`y[n, o, i] = bias[o] + sum over c, k of w[o, c, k] * x[n, c, i*stride - pad_lo + k*dilation]`, in any rank.

    x has shape (batch, channels, *lengths), w (outputs, channels, *kernel), bias, which may be left out, (outputs,).
    It is what networks call convolution: the kernel is not flipped. `stride`, `padding` and `dilation` are as in
    `Window`, words for padding included; a padded cell is the number 0.

    All windows become the columns of one matrix, and the convolution is one matrix product.

    >>> Conv(padding=1)([[[1.0, 2.0, 3.0]]], [[[1.0, 0.0, -1.0]]])
    array([[[-2., -2.,  2.]]])
    """

    stride: Ints = 1
    padding: PaddingLike = 0
    dilation: Ints = 1

    bias_axis: ClassVar[int | None] = 1

    def __post_init__(self) -> None:
        checked = Window(1, self.stride, self.padding, self.dilation)
        for name in ("stride", "padding", "dilation"):
            object.__setattr__(self, name, getattr(checked, name))

    def _axes(self, x: Shape, w: Shape) -> tuple[Axis, ...]:
        return Window(w[2:], self.stride, self.padding, self.dilation).axes_of(x[2:])

    def value_shape(self, a: Shape, b: Shape) -> Shape:
        if len(a) < 3 or len(a) != len(b) or a[1] != b[1]:
            raise ValueError(
                f"Conv of x {a} and w {b}; x has shape (batch, channels, *lengths) and w (outputs, channels, *kernel), "
                "with the same number of axes, at least 3, and of channels"
            )
        return (a[0], b[0], *(axis.output for axis in self._axes(a, b)))

    def value(self, a: Array, b: Array) -> Any:
        axes = self._axes(a.shape, b.shape)
        y = b.reshape(len(b), -1) @ _columns(a, axes)
        y = y.reshape(len(b), len(a), *(axis.output for axis in axes))
        return np.ascontiguousarray(np.swapaxes(y, 0, 1))

    def transposed(self, g: Array, a: Array, b: Array) -> tuple[Array, Array]:
        # The columns are made again rather than kept: they are as many times larger than x as the kernel has cells.
        axes = self._axes(a.shape, b.shape)
        rows = np.swapaxes(g, 0, 1).reshape(len(b), -1)
        gb = (rows @ _columns(a, axes).T).reshape(b.shape)
        return self.transposed_to_input(g, a.shape, b), gb

    def transposed_to_input(self, g: Array, shape: Shape, b: Array) -> Array:
        """The cotangent of a alone, which has this shape and need not be there."""
        rows = np.swapaxes(g, 0, 1).reshape(len(b), -1)
        return _columns_transposed(b.reshape(len(b), -1).T @ rows, shape, self._axes(shape, b.shape))


def _columns(x: Array, axes: Sequence[Axis]) -> Array:
    """The windows of x as a matrix of (channels * kernel cells) rows and (batch * output cells) columns."""
    rank = len(axes)
    lengths = [axis.pad_lo + axis.length + axis.pad_hi for axis in axes]
    padded = zeros_as_in(x, (*x.shape[:2], *lengths))
    padded[(slice(None), slice(None), *(slice(axis.pad_lo, axis.pad_lo + axis.length) for axis in axes))] = x
    reach = [axis.dilation * (axis.kernel - 1) + 1 for axis in axes]
    windows = sliding_window_view(padded, reach, tuple(range(2, 2 + rank)))
    steps = [slice(None, None, axis.stride) for axis in axes] + [slice(None, None, axis.dilation) for axis in axes]
    windows = windows[(slice(None), slice(None), *steps)]
    ordered = windows.transpose(1, *range(2 + rank, 2 + 2 * rank), 0, *range(2, 2 + rank))
    rows, columns = math.prod(ordered.shape[: 1 + rank]), math.prod(ordered.shape[1 + rank :])
    return ordered.reshape(rows, columns)


def _columns_transposed(columns: Array, shape: Shape, axes: Sequence[Axis]) -> Array:
    """Every column added back to the cells of x that it was read from.

    One addition of a whole slab for each cell of the kernel, whatever the size of x.
    """
    batch, channels = shape[:2]
    kernel, outputs = [axis.kernel for axis in axes], [axis.output for axis in axes]
    slabs = columns.reshape(channels, *kernel, batch, *outputs)
    lengths = [axis.pad_lo + axis.length + axis.pad_hi for axis in axes]
    padded = zeros_as_in(columns, (channels, batch, *lengths))
    for cell in np.ndindex(*kernel):
        places = [
            slice(k * axis.dilation, k * axis.dilation + axis.stride * (axis.output - 1) + 1, axis.stride)
            for k, axis in zip(cell, axes, strict=True)
        ]
        padded[(slice(None), slice(None), *places)] += slabs[(slice(None), *cell)]
    real = [slice(axis.pad_lo, axis.pad_lo + axis.length) for axis in axes]
    return np.ascontiguousarray(np.swapaxes(padded[(slice(None), slice(None), *real)], 0, 1))
