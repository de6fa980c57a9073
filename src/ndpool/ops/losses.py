"""Losses: one number for how far predictions are from targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import as_array
from ..kind import derivative_dtype
from .activations import log_softmax
from .arithmetic import a_number_of, divided, floats, in_one_arithmetic, rounded, total, wide, wide_dtype
from .directions import Directions, read_tangents
from .protocol import Array, Promoting, Shape, check_count


@dataclass(frozen=True)
class CrossEntropy(Promoting):
    """`y = -(1/n) sum over n rows of sum_c q_c log softmax(x)_c`, the classes along the last axis of the logits x.

    The second input is q, of the shape of x; or integer labels, of that shape less its last axis, each standing for a q
    that is 1 at its class. Nothing leans on a label: its tangent is ignored and its cotangent is 0.

    >>> round(float(CrossEntropy()([[0.0, 0.0]], [1])), 6)
    0.693147
    """

    keeps: ClassVar[str] = "inputs"

    def output_shape(self, *shapes: Sequence[int]) -> Shape:
        """`()`, for inputs of these shapes."""
        check_count(self, shapes, 2)
        x, q = map(tuple, shapes)
        if not x or q not in (x, x[:-1]):
            raise ValueError(
                f"CrossEntropy of logits {x} and targets {q}; give targets of shape {x}, or integer labels of {x[:-1]}"
            )
        if math.prod(x) == 0:
            raise ValueError(f"CrossEntropy of logits {x}, which has no cell; a mean needs one")
        return ()

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype of the loss: that of the logits, and of the targets unless these are integers."""
        x, q = dtypes
        return super().result_dtype(x) if q.kind in "biu" else super().result_dtype(x, q)

    def _read(self, x: Array, q: Array) -> tuple[Array, Array, Array, int]:
        """`log softmax(x)`, the targets as weights, their sum in each row, and the number of rows."""
        self.output_shape(x.shape, q.shape)
        logits, weights = floats(self, x), None if q.shape != x.shape else floats(self, q)
        dtype = wide_dtype(x.dtype if weights is None else self.result_dtype(x.dtype, q.dtype))
        log_p = log_softmax(logits.astype(derivative_dtype(dtype), copy=False), -1)
        q = _one_hot(q, log_p) if weights is None else weights.astype(log_p.dtype, copy=False)
        return log_p, q, np.sum(q, axis=-1, keepdims=True), math.prod(x.shape[:-1])

    def _value(self, log_p: Array, q: Array, n: int) -> Any:
        # Where q is 0 the logarithm may be -inf, and does not matter.
        return -np.sum(np.multiply(q, log_p, where=q != 0, out=np.zeros_like(log_p))) / n

    def __call__(self, x: ArrayLike, q: ArrayLike) -> Array:
        """The loss of the logits `x` against `q`, labels or weights."""
        x, q = as_array("x", x), as_array("q", q)
        log_p, weights, _, n = self._read(x, q)
        return rounded(self._value(log_p, weights, n), self.result_dtype(x.dtype, q.dtype))

    def jvp(self, xs: Sequence[ArrayLike], ts: Sequence[ArrayLike]) -> tuple[Array, Array]:
        """The loss, and its change along the tangents `ts` of logits and targets; that of labels is ignored."""
        (x, q), (tx, tq) = (as_array("x", v) for v in xs), ts
        log_p, weights, total, n = self._read(x, q)
        dy = np.sum((np.exp(log_p) * total - weights) * Directions.of(x).read("ts[0]", tx)) / n
        if q.shape == x.shape:
            dy = dy + self._value(log_p, Directions.of(q).read("ts[1]", tq), n)
        dtype = self.result_dtype(x.dtype, q.dtype)
        return rounded(self._value(log_p, weights, n), dtype), rounded(dy, dtype)

    def vjp(self, x: ArrayLike, q: ArrayLike) -> tuple[Array, Callable[[ArrayLike], tuple[Array, Array]]]:
        """The loss, and the function that takes its cotangent back to logits and targets; 0 for labels."""
        x, q = as_array("x", x), as_array("q", q)
        log_p, weights, total, n = self._read(x, q)
        slope = np.exp(log_p) * total - weights
        slope_q = -log_p if q.shape == log_p.shape else None
        dtype, labels, directions = self.result_dtype(x.dtype, q.dtype), Directions.of(q), Directions((), slope.dtype)

        def pullback(g: ArrayLike) -> tuple[Array, Array]:
            share = directions.read("g", g) / n
            gq = labels.zeros() if slope_q is None else rounded(share * slope_q, dtype)
            return rounded(share * slope, dtype), gq

        return rounded(self._value(log_p, weights, n), dtype), pullback


def _one_hot(labels: Array, like: Array) -> Array:
    """1 at each row's class, 0 elsewhere, in the shape and dtype of `like`."""
    if labels.dtype.kind not in "iu":
        raise TypeError(f"labels of dtype {labels.dtype} are not class numbers; give integers, or one weight a class")
    classes = like.shape[-1]
    if labels.min() < 0 or labels.max() >= classes:
        wrong = labels.min() if labels.min() < 0 else labels.max()
        raise ValueError(f"label {wrong} among {classes} classes; give labels from 0 to {classes - 1}")
    result = np.zeros_like(like)
    np.put_along_axis(result, labels[..., None].astype(np.intp), 1, axis=-1)
    return result


@dataclass(frozen=True)
class MeanSquaredError(Promoting):
    """`y = (1/n) sum of (a_i - b_i)^2` over all n cells of two arrays of one shape; `dy = (2/n) sum (a - b)(da - db)`.

    >>> MeanSquaredError()([1.0, 2.0], [1.0, 4.0])
    array(2.)
    """

    keeps: ClassVar[str] = "inputs"

    def output_shape(self, *shapes: Sequence[int]) -> Shape:
        """`()`, for inputs of these shapes."""
        check_count(self, shapes, 2)
        a, b = map(tuple, shapes)
        if a != b:
            raise ValueError(f"MeanSquaredError of shapes {a} and {b}; make them equal, nothing is broadcast here")
        if math.prod(a) == 0:
            raise ValueError(f"MeanSquaredError of shape {a}, which has no cell; a mean needs one")
        return ()

    def _gap(self, a: Array, b: Array) -> Array:
        self.output_shape(a.shape, b.shape)
        a, b = in_one_arithmetic(wide(a), wide(b))
        # Unsigned integers would wrap around.
        return rounded(a.astype(derivative_dtype(a.dtype), copy=False) - b, a.dtype)

    def _mean(self, products: Any, gap: Array) -> Array:
        return divided(total(np.asarray(products, gap.dtype)), gap.size)

    def __call__(self, a: ArrayLike, b: ArrayLike) -> Array:
        """The loss."""
        a, b = as_array("a", a), as_array("b", b)
        gap = self._gap(a, b)
        return rounded(self._mean(gap * gap, gap), self.result_dtype(a.dtype, b.dtype))

    def jvp(self, xs: Sequence[ArrayLike], ts: Sequence[ArrayLike]) -> tuple[Array, Array]:
        """The loss, and its change along the tangents `ts` of both arrays."""
        a, b = arrays = [as_array("x", x) for x in xs]
        gap, da, db = in_one_arithmetic(self._gap(a, b), *read_tangents(ts, arrays))
        dy = self._mean(2 * gap * (wide(da) - wide(db)), gap)
        return self(a, b), rounded(dy, self.result_dtype(a.dtype, b.dtype))

    def vjp(self, a: ArrayLike, b: ArrayLike) -> tuple[Array, Callable[[ArrayLike], tuple[Array, Array]]]:
        """The loss, and the function that takes its cotangent back to both arrays; it keeps their difference."""
        a, b = as_array("a", a), as_array("b", b)
        gap, dtype = self._gap(a, b), self.result_dtype(a.dtype, b.dtype)
        directions = Directions((), gap.dtype, a_number_of(gap))

        def pullback(g: ArrayLike) -> tuple[Array, Array]:
            ga = divided(np.asarray(2 * directions.read("g", g) * gap, gap.dtype), gap.size)
            return rounded(ga, dtype), rounded(-ga, dtype)

        return self(a, b), pullback
