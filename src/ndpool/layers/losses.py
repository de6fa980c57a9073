"""Losses: `forward(x, target)`, then `backward()`."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .. import ops
from ..ops import Array, Directions, Op
from .layer import Keeper, OpKept


class _Loss(Keeper):
    """A number that says how far predictions are from targets: `forward(x, target)`, then `backward()`."""

    op: ClassVar[Op]

    def forward(self, x: ArrayLike, target: ArrayLike) -> Array:
        """The loss of the predictions `x`, an array with one number."""
        lost, self._kept = self._loses(), None
        y, pullback = self.op.vjp(x, target)
        self._kept = OpKept(pullback, np.shape(x), Directions.of(y), lost=lost)
        return y

    def __call__(self, x: ArrayLike, target: ArrayLike) -> Array:
        """`forward(x, target)`."""
        return self.forward(x, target)

    def backward(self) -> Array:
        """The gradient of the last loss for the predictions."""
        kept = self._used_by_backward()
        gx, _ = kept.pullback(kept.outputs.read("1", 1))
        return np.asarray(gx)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class CrossEntropyLoss(_Loss):
    """The mean over a batch of `-log softmax(x)[label]`; targets may be weights of the classes too.

    >>> loss = CrossEntropyLoss()
    >>> round(float(loss.forward([[0.0, 0.0]], [1])), 6)
    0.693147
    >>> loss.backward()
    array([[ 0.5, -0.5]])
    """

    op = ops.CrossEntropy()


class MeanSquaredErrorLoss(_Loss):
    """The mean of `(x_i - target_i)^2` over all cells.

    >>> loss = MeanSquaredErrorLoss()
    >>> float(loss.forward([1.0, 2.0], [1.0, 4.0]))
    2.0
    >>> loss.backward()
    array([ 0., -2.])
    """

    op = ops.MeanSquaredError()
