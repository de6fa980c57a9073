"""Axes and shapes of inputs: which axis is meant, which shapes broadcast, and the transpose of broadcasting."""

from __future__ import annotations

import numpy as np

from .arithmetic import total
from .protocol import Array, Shape


def broadcast(op: object, *shapes: Shape) -> Shape:
    """The shape that NumPy broadcasts these shapes to."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(
            f"{type(op).__name__} takes shapes that broadcast, and {' and '.join(map(str, shapes))} do not; "
            "make each pair of lengths, counted from the end, equal or 1"
        ) from None


def unbroadcast(g: Array, shape: Shape) -> Array:
    """The transpose of broadcasting from `shape`: the sum over each axis along which cells were repeated."""
    extra = g.ndim - len(shape)
    repeated = [extra + d for d, length in enumerate(shape) if length == 1 and g.shape[extra + d] != 1]
    return total(g, (*range(extra), *repeated)).reshape(shape) if extra or repeated else g


def axis_of(op: object, axis: int, shape: Shape) -> int:
    """The axis counted from the start, for an `axis` that may be counted from the end."""
    if not -len(shape) <= axis < len(shape):
        raise ValueError(
            f"{type(op).__name__} over axis={axis} of shape {shape}, which has {len(shape)} axes; "
            f"give {-len(shape)} to {len(shape) - 1}"
        )
    return axis % len(shape)


def check_not_empty(op: object, axis: int, shape: Shape) -> None:
    """An error if the axis has no cell."""
    if shape[axis_of(op, axis, shape)] == 0:
        raise ValueError(f"{type(op).__name__} over axis={axis} of shape {shape}, which has length 0; it needs a cell")
