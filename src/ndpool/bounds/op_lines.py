"""Linear rules of ops, for the way back: rows over an op's output become rows over its inputs.

A row g stands for `g . y`, which is to be bounded from below for all y that the op can give. A rule answers with rows
over the inputs, a number for each row, and how much the roundings of the two may have lost:

    g . y >= sum of rows_j . x_j + bias - lost

Ops without a rule here are bounded by their interval, as inputs are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .. import ops
from ..arrays import Array
from ..pool import Pool
from .op_intervals import Box, centred, size_of, terms_of

#: What one rounding of a double may lose.
ROUNDING = 2.0**-52


class Back(NamedTuple):
    """Rows over each input, None for an input that is not varied; a number for each row; what was lost."""

    rows: tuple[Array | None, ...]
    bias: Array
    lost: Array


Line: TypeAlias = Callable[[Array], Back]


def dot(g: Array, x: Array) -> Array:
    """`g . x` for each row."""
    return np.asarray(g.reshape(len(g), -1) @ x.ravel())


def from_box(g: Array, box: Box) -> tuple[Array, Array]:
    """The least `g . x` over a box, and what its roundings may have lost."""
    flat, (lo, hi) = g.reshape(len(g), -1), (end.ravel() for end in box)
    if not (np.isfinite(lo).all() and np.isfinite(hi).all()):
        with np.errstate(invalid="ignore"):
            products = np.where(flat == 0, 0.0, np.where(flat > 0, flat * lo, flat * hi))
        finite = np.where(np.isfinite(products), np.abs(products), 0.0)
        return products.sum(1), finite.sum(1) * ((flat.shape[1] + 8) * ROUNDING)
    centre, radius = lo / 2 + hi / 2, hi / 2 - lo / 2
    size = np.abs(flat)
    lost = (size @ (np.abs(centre) + radius)) * ((flat.shape[1] + 8) * ROUNDING)
    return flat @ centre - size @ radius, lost


def _unbroadcast(g: Array, shape: tuple[int, ...]) -> Array:
    """The transpose of broadcasting, row by row."""
    extra = g.ndim - 1 - len(shape)
    g = g.sum(tuple(range(1, 1 + extra)))
    repeated = tuple(1 + d for d, n in enumerate(shape) if n == 1 and g.shape[1 + d] != 1)
    return np.asarray(g.sum(repeated, keepdims=True) if repeated else g)


def _exact(rows: tuple[Array | None, ...], g: Array) -> Back:
    return Back(rows, np.zeros(len(g)), np.zeros(len(g)))


# --- linear maps ----------------------------------------------------------------------------------


def _sum_of_two(op: Any, boxes: Sequence[Box], shape: tuple[int, ...]) -> Line:
    sign = -1.0 if isinstance(op, ops.Sub) else 1.0
    size = np.broadcast_to(size_of(boxes[0]) + size_of(boxes[1]), shape)
    spread = math.prod(shape) // max(1, min(box[0].size for box in boxes)) + 2

    def back(g: Array) -> Back:
        a, b = (box[0].shape for box in boxes)
        lost = dot(np.abs(g), size) * (spread * ROUNDING)
        return Back((_unbroadcast(g, a), sign * _unbroadcast(g, b)), np.zeros(len(g)), lost)

    return back


def _scale(op: ops.Scale, boxes: Sequence[Box], shape: tuple[int, ...]) -> Line:
    factor, size = float(op.factor), size_of(boxes[0]) * abs(float(op.factor))
    return lambda g: Back((g * factor,), np.zeros(len(g)), dot(np.abs(g), size) * (2 * ROUNDING))


def _reshaped(op: Any, boxes: Sequence[Box], shape: tuple[int, ...]) -> Line:
    return lambda g: _exact((g.reshape(len(g), *boxes[0][0].shape),), g)


def _transposed(op: ops.Transpose, boxes: Sequence[Box], shape: tuple[int, ...]) -> Line:
    order = op._order(boxes[0][0].shape)
    back = (0, *(1 + int(i) for i in np.argsort(order)))
    return lambda g: _exact((g.transpose(back),), g)


def _reduced(op: ops.ReduceSum, boxes: Sequence[Box], shape: tuple[int, ...]) -> Line:
    whole = boxes[0][0].shape
    gone = op._reduced(whole)
    kept = tuple(1 if d in gone else n for d, n in enumerate(whole))
    divisor = op._divisor(whole)
    size = np.asarray(op.value(size_of(boxes[0])))

    def back(g: Array) -> Back:
        rows = np.broadcast_to(g.reshape(len(g), *kept) / divisor, (len(g), *whole))
        return Back((rows,), np.zeros(len(g)), dot(np.abs(g), size) * (2 * ROUNDING))

    return back


# --- products -------------------------------------------------------------------------------------


def _product(op: Any, boxes: Sequence[Box], shape: tuple[int, ...], varied: Sequence[bool]) -> Line | None:
    """Linear in the one factor that varies; None where both do. What is left of the other's box is lost."""
    if varied[0] and varied[1]:
        return None
    which = 0 if varied[0] else 1
    if which == 1 and not isinstance(op, ops.Matmul):
        return None
    fixed, radius = centred(boxes[1 - which])
    size_x = size_of(boxes[which])
    pair = (size_x, np.abs(fixed)) if which == 0 else (np.abs(fixed), size_x)
    size = np.asarray(op.value(*pair))
    wide = np.asarray(op.value(*((size_x, radius) if which == 0 else (radius, size_x)))) if radius.any() else None
    if len(boxes) == 3:
        size = size + op._along(size_of(boxes[2]), size.ndim)
    shapes = [box[0].shape for box in boxes]
    # An entry of a row adds up over the outputs that see its cell: no more than the weights' lengths say, and repeats.
    seen = max(shapes[1 - which]) + math.prod(shapes[1][2:]) + math.prod(shape) // max(1, math.prod(shapes[which]))
    roundings = 2 * (terms_of(op, shapes) + seen) + 16

    def back(g: Array) -> Back:
        rows: list[Array | None] = [None] * len(boxes)
        rows[which] = _pulled(op, g, fixed, shapes[which], which)
        if len(boxes) == 3:
            rows[2] = _along_axis(g, op.bias_axis, len(shape))
        lost = dot(np.abs(g), size) * (roundings * ROUNDING)
        if wide is not None:
            lost = lost + dot(np.abs(g), wide) * (1 + roundings * ROUNDING)
        return Back(tuple(rows), np.zeros(len(g)), lost)

    return back


def _pulled(op: Any, g: Array, fixed: Array, shape: tuple[int, ...], which: int) -> Array:
    m = len(g)
    if isinstance(op, ops.Conv):
        stacked = op.transposed_to_input(g.reshape(m * shape[0], *g.shape[2:]), (m * shape[0], *shape[1:]), fixed)
        return stacked.reshape(m, *shape)
    if isinstance(op, ops.Linear):
        return np.asarray(g @ fixed)
    swapped = np.swapaxes(fixed, -1, -2)
    return _unbroadcast(g @ swapped if which == 0 else swapped @ g, shape)


def _along_axis(g: Array, axis: int, ndim: int) -> Array:
    keep = 1 + axis % ndim
    return np.asarray(g.sum(tuple(d for d in range(1, g.ndim) if d != keep)))


def _mul(op: ops.Mul, boxes: Sequence[Box], shape: tuple[int, ...]) -> Line:
    """McCormick's planes: `(x - lo)(y - lo) >= 0` below, and `(x - lo)(hi - y) >= 0` above."""
    (a, b), (c, d) = ((np.broadcast_to(end, shape) for end in box) for box in boxes)
    del b
    size = np.broadcast_to(size_of(boxes[0]) * size_of(boxes[1]), shape) * 3
    spread = math.prod(shape) // max(1, min(box[0].size for box in boxes)) + 6
    shapes = [box[0].shape for box in boxes]

    def back(g: Array) -> Back:
        below, above = np.maximum(g, 0), np.minimum(g, 0)
        rows_x = below * c + above * d
        rows_y = g * a
        bias = -dot(below, a * c) - dot(above, a * d)
        lost = dot(np.abs(g), size) * ((spread + g[0].size) * ROUNDING)
        return Back((_unbroadcast(rows_x, shapes[0]), _unbroadcast(rows_y, shapes[1])), bias, lost)

    return back


# --- activations ----------------------------------------------------------------------------------


def _between(box: Box, below: tuple[Array, Array], above: tuple[Array, Array]) -> Line:
    """Cell by cell: `a x + b` below, `c x + d` above."""
    (a, b), (c, d) = below, above
    size = np.maximum(np.abs(a), np.abs(c)) * size_of(box) + np.maximum(np.abs(b), np.abs(d))

    def back(g: Array) -> Back:
        positive, negative = np.maximum(g, 0), np.minimum(g, 0)
        rows = positive * a + negative * c
        bias = dot(positive, b) + dot(negative, d)
        return Back((rows,), bias, dot(np.abs(g), size) * ((g[0].size + 8) * ROUNDING))

    return back


def _hinge(op: Any, boxes: Sequence[Box], shape: tuple[int, ...]) -> Line | None:
    """Relu and LeakyRelu: `max(x, s x)`, or `min` for slopes s above 1. The chord on one side, a piece on the other."""
    (lo, hi) = boxes[0]
    if not (np.isfinite(lo).all() and np.isfinite(hi).all()):
        return None
    slope = float(getattr(op, "slope", 0.0))
    width = hi - lo
    unsure = (lo < 0) & (hi > 0)
    steep = np.where(hi <= 0, slope, 1.0)
    chord = np.where(unsure, (hi - slope * lo) / np.where(unsure, width, 1), steep)
    # The chord passes both ends; for the slope as it was rounded, the bias is the least that does.
    ends = (hi - chord * hi, slope * lo - chord * lo)
    size = np.abs(hi) + np.abs(lo) * (1 + slope) * 2
    shift = (np.maximum(*ends) + size * 4 * ROUNDING) if slope <= 1 else (np.minimum(*ends) - size * 4 * ROUNDING)
    line = (chord, np.where(unsure, shift, 0.0))
    piece = np.where(unsure, np.where(hi >= -lo, 1.0, slope), steep)
    other = (piece, np.zeros(lo.shape))
    return _between(boxes[0], other, line) if slope <= 1 else _between(boxes[0], line, other)


def _saturating(op: Any, boxes: Sequence[Box], shape: tuple[int, ...]) -> Line | None:
    """Tanh and Sigmoid: two parallel lines through the ends, with the smaller of the slopes there.

    The slope between the ends is nowhere smaller, as it rises up to 0 and falls after it.
    """
    lo, hi = boxes[0]
    if not (np.isfinite(lo).all() and np.isfinite(hi).all()):
        return None
    low, high = (np.asarray(op.value(end)) for end in boxes[0])
    slopes = [np.maximum(np.asarray(op.lean(y, np.ones(y.shape))) - 8 * ROUNDING, 0.0) for y in (low, high)]
    slope = np.minimum(*slopes)
    size = 1 + slope * size_of(boxes[0])
    below, above = low - slope * lo - size * 16 * ROUNDING, high - slope * hi + size * 16 * ROUNDING
    return _between(boxes[0], (slope, below), (slope, above))


# --- pools ----------------------------------------------------------------------------------------


def _pool(op: Pool, boxes: Sequence[Box], shape: tuple[int, ...]) -> Line:
    lower, upper = op.linear_bounds(*boxes[0])
    x = lower.frame.inputs(size_of(boxes[0]))
    with np.errstate(invalid="ignore"):
        sizes = [each._sizes(x) + np.abs(each._bias) for each in (lower, upper)]
    size = lower.frame.as_output(np.maximum(*sizes))
    overlap = lower.frame.places.shape[0] + 8

    def back(g: Array) -> Back:
        positive, negative = np.maximum(g, 0), np.minimum(g, 0)
        rows = lower.pull(positive) + upper.pull(negative)
        bias = dot(positive, lower.bias) + dot(negative, upper.bias)
        return Back((rows,), bias, dot(np.abs(g), size) * ((g[0].size + lower.roundings + overlap) * ROUNDING))

    return back


def line_of(op: Any, boxes: Sequence[Box], shape: tuple[int, ...], varied: Sequence[bool]) -> Line | None:
    """The rule of an op over these boxes; None where only its interval bounds it."""
    if type(op) in (ops.Matmul, ops.Linear, ops.Conv):
        return _product(op, boxes, shape, varied)
    if isinstance(op, Pool) and not all(np.isfinite(end).all() for end in boxes[0]):
        return None
    rule = _RULES.get(type(op))
    return None if rule is None else rule(op, boxes, shape)


_RULES: dict[type, Callable[[Any, Sequence[Box], tuple[int, ...]], Line | None]] = {
    ops.Add: _sum_of_two,
    ops.Sub: _sum_of_two,
    ops.Scale: _scale,
    ops.Reshape: _reshaped,
    ops.Flatten: _reshaped,
    ops.Transpose: _transposed,
    ops.ReduceSum: _reduced,
    ops.ReduceMean: _reduced,
    ops.Mul: _mul,
    ops.Relu: _hinge,
    ops.LeakyRelu: _hinge,
    ops.Tanh: _saturating,
    ops.Sigmoid: _saturating,
    Pool: _pool,
}

#: Ops whose linear rule is the op itself: nothing is gained by tighter bounds of their inputs.
LINEAR = (ops.Add, ops.Sub, ops.Scale, ops.Reshape, ops.Flatten, ops.Transpose, ops.ReduceSum, ops.ReduceMean)
