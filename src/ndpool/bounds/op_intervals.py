"""Interval bounds of the other ops: `rule(op, boxes) -> box`, one short rule for each, found by the type of the op.

Boxes are pairs of doubles. Sums and products are rounded outward by their error bound: n terms lose at most n 2^-52 of
the sum of their magnitudes. tanh and exp are NumPy's, right to a few last places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from .. import ops
from ..arrays import Array
from ..ops.activations import log_softmax
from ..pool import Pool
from .rounding import down, up

Box: TypeAlias = tuple[Array, Array]
Rule: TypeAlias = Callable[[Any, Sequence[Box]], Box]


def size_of(box: Box) -> Array:
    """The largest magnitude of each cell."""
    return np.maximum(np.abs(box[0]), np.abs(box[1]))


def outward(lo: Array, hi: Array, size: Array, roundings: int) -> Box:
    """Both ends with what so many roundings may have lost; a NaN says that nothing is known."""
    with np.errstate(invalid="ignore"):
        low, high = down(lo, size, roundings), up(hi, size, roundings)
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


# --- linear maps ----------------------------------------------------------------------------------


def _add(op: ops.Add, boxes: Sequence[Box]) -> Box:
    (a, b), (c, d) = boxes
    return outward(a + c, b + d, size_of(boxes[0]) + size_of(boxes[1]), 2)


def _sub(op: ops.Sub, boxes: Sequence[Box]) -> Box:
    (a, b), (c, d) = boxes
    return outward(a - d, b - c, size_of(boxes[0]) + size_of(boxes[1]), 2)


def _scale(op: ops.Scale, boxes: Sequence[Box]) -> Box:
    factor = float(op.factor)
    ends = boxes[0][0] * factor, boxes[0][1] * factor
    return outward(np.minimum(*ends), np.maximum(*ends), abs(factor) * size_of(boxes[0]), 2)


def _rearranged(op: Any, boxes: Sequence[Box]) -> Box:
    ((lo, hi),) = boxes
    return np.asarray(op.value(lo)), np.asarray(op.value(hi))


def _reduced(op: ops.ReduceSum, boxes: Sequence[Box]) -> Box:
    ((lo, hi),) = boxes
    lows, highs = np.asarray(op.value(lo)), np.asarray(op.value(hi))
    return outward(lows, highs, np.asarray(op.value(size_of(boxes[0]))), lo.size // max(lows.size, 1) + 2)


# --- products -------------------------------------------------------------------------------------


def centred(box: Box) -> tuple[Array, Array]:
    """A centre and a radius that have the box between them."""
    lo, hi = box
    centre = lo / 2 + hi / 2
    radius = np.maximum(hi - centre, centre - lo)
    return centre, np.where(lo == hi, 0.0, up(radius, radius, 2))


def terms_of(op: ops.Product, shapes: Sequence[tuple[int, ...]]) -> int:
    """How many products an output adds up."""
    if isinstance(op, ops.Conv):
        return math.prod(shapes[1][1:])
    return shapes[0][-1]


def _product(op: ops.Product, boxes: Sequence[Box]) -> Box:
    """`(c + r)(d + s)` lies within `|c| s + r (|d| + s)` of `c d`."""
    (c, r), (d, s) = centred(boxes[0]), centred(boxes[1])
    middle = np.asarray(op.value(c, d))
    radius = np.asarray(op.value(np.abs(c) + r, s)) if s.any() else np.zeros(middle.shape)
    radius = radius + op.value(r, np.abs(d))
    size = np.asarray(op.value(np.abs(c), np.abs(d)))
    lo, hi = middle - radius, middle + radius
    if len(boxes) == 3:
        bias_lo, bias_hi = (op._along(end, middle.ndim) for end in boxes[2])
        lo, hi, size = lo + bias_lo, hi + bias_hi, size + op._along(size_of(boxes[2]), middle.ndim)
    return outward(lo, hi, size + radius, 2 * terms_of(op, [c.shape, d.shape]) + 8)


def _mul(op: ops.Mul, boxes: Sequence[Box]) -> Box:
    """The least and the greatest of the four products of ends."""
    (a, b), (c, d) = boxes
    products = np.stack([np.multiply(*pair) for pair in ((a, c), (a, d), (b, c), (b, d))])
    return outward(products.min(0), products.max(0), size_of(boxes[0]) * size_of(boxes[1]), 2)


# --- activations ----------------------------------------------------------------------------------


def _growing(op: Any, boxes: Sequence[Box]) -> Box:
    """Relu and LeakyRelu."""
    ((lo, hi),) = boxes
    low, high = np.asarray(op.value(lo)), np.asarray(op.value(hi))
    return (low, high) if isinstance(op, ops.Relu) else outward(low, high, np.maximum(np.abs(low), np.abs(high)), 1)


def _saturating(op: Any, boxes: Sequence[Box]) -> Box:
    """Tanh and Sigmoid, which have their limits."""
    ((lo, hi),) = boxes
    least = -1.0 if isinstance(op, ops.Tanh) else 0.0
    low, high = np.asarray(op.value(lo)), np.asarray(op.value(hi))
    low, high = outward(low, high, np.maximum(np.abs(low), np.abs(high)), 8)
    return np.maximum(low, least), np.minimum(high, 1.0)


def _softmax(op: Any, boxes: Sequence[Box]) -> Box:
    """A share is least where its own logit is least and all others are greatest, and the other way round."""
    lo, hi = (np.moveaxis(end, op.axis, -1) for end in boxes[0])
    n = lo.shape[-1]
    ends = []
    for own, other, is_up in ((lo, hi, False), (hi, lo, True)):
        logits = np.where(np.eye(n, dtype=bool), own[..., None, :], other[..., None, :])
        with np.errstate(invalid="ignore"):
            found = np.diagonal(log_softmax(logits, -1), axis1=-2, axis2=-1)
        found = np.where(np.isnan(found), 0.0 if is_up else -np.inf, found)
        size = 1 + np.abs(np.where(np.isfinite(found), found, 0)) + np.abs(np.where(np.isfinite(own), own, 0))
        found = np.minimum((up if is_up else down)(found, size, n + 16), 0.0)
        if isinstance(op, ops.Softmax):
            found = np.minimum((up if is_up else down)(np.exp(found), np.exp(found), 8), 1.0)
            found = np.maximum(found, 0.0)
        ends.append(np.moveaxis(found, -1, op.axis))
    return ends[0], ends[1]


def _pooled(op: Pool, boxes: Sequence[Box]) -> Box:
    return op.bounds(*boxes[0])


RULES: dict[type, Rule] = {
    ops.Add: _add,
    ops.Sub: _sub,
    ops.Scale: _scale,
    ops.Reshape: _rearranged,
    ops.Flatten: _rearranged,
    ops.Transpose: _rearranged,
    ops.ReduceSum: _reduced,
    ops.ReduceMean: _reduced,
    ops.Mul: _mul,
    ops.Matmul: _product,
    ops.Linear: _product,
    ops.Conv: _product,
    ops.Relu: _growing,
    ops.LeakyRelu: _growing,
    ops.Tanh: _saturating,
    ops.Sigmoid: _saturating,
    ops.Softmax: _softmax,
    ops.LogSoftmax: _softmax,
    Pool: _pooled,
}
