"""Activations: relu, tanh, softmax and their like, whose derivative is known from the output alone."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import as_array
from .arithmetic import computed, floats, lifted, positive, pythons, zeros_as_in
from .axes import check_not_empty
from .directions import Directions
from .linear_maps import Scale
from .protocol import Array, Promoting, Shape


class Activation(Promoting, ABC):
    """`y = value(x)`, of the shape of x, with derivatives that are known from y: `change` is J, `transposed` J^T."""

    keeps: ClassVar[str] = "output"

    @abstractmethod
    def value(self, x: Array) -> Any:
        """The output."""

    @abstractmethod
    def change(self, y: Array, t: Array) -> Any:
        """`J t`, where the output is y."""

    @abstractmethod
    def transposed(self, y: Array, g: Array) -> Any:
        """`J^T g`, where the output is y."""

    def output_shape(self, shape: Sequence[int]) -> Shape:
        """The shape of the output, which is that of the input."""
        return tuple(shape)

    def __call__(self, x: ArrayLike) -> Array:
        """The output."""
        x = as_array("x", x)
        self.output_shape(x.shape)
        y: Array = computed(self.value, x)
        return y

    def jvp(self, x: ArrayLike, t: ArrayLike) -> tuple[Array, Array]:
        """The output, and its change along the tangent `t`."""
        x = as_array("x", x)
        y = self(x)
        return y, computed(self.change, y, Directions.of(x).read("t", t))

    def vjp(self, x: ArrayLike) -> tuple[Array, Callable[[ArrayLike], Array]]:
        """The output, and the function that takes its cotangent back to x; it keeps the output."""
        y = self(x)
        directions = Directions.of(y)
        return y, lambda g: computed(self.transposed, y, directions.read("g", g))


class SelfAdjoint(Activation):
    """An activation whose Jacobian is symmetric: `lean(y, v) = J v = J^T v`."""

    @abstractmethod
    def lean(self, y: Array, v: Array) -> Any:
        """`J v`, which is `J^T v`, where the output is y."""

    def change(self, y: Array, t: Array) -> Any:
        return self.lean(y, t)

    def transposed(self, y: Array, g: Array) -> Any:
        return self.lean(y, g)


# --- cell by cell ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeakyRelu(SelfAdjoint):
    """`y = x where x > 0, slope * x elsewhere`; the derivative at 0 is `slope`, and NaN stays NaN.

    >>> LeakyRelu(0.5)([-2.0, 0.0, 3.0])
    array([-1.,  0.,  3.])
    """

    slope: Any = 0.01

    def __post_init__(self) -> None:
        if not isinstance(self.slope, int | float | Fraction | np.floating):
            raise TypeError(f"slope={self.slope!r} is a {type(self.slope).__name__}; give a number")
        if not 0 < self.slope < math.inf:
            raise ValueError(f"slope={self.slope!r} must be finite and > 0; for a slope of 0 use Relu")
        object.__setattr__(self, "slope", pythons(self.slope))

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        return Scale(self.slope).result_dtype(*dtypes)

    def value(self, x: Array) -> Any:
        return np.where(positive(x), x, x * lifted(self.slope, x))

    def lean(self, y: Array, v: Array) -> Any:
        # y has the sign of x, since the slope is positive.
        return np.where(positive(y), v, v * lifted(self.slope, v))


@dataclass(frozen=True)
class Relu(SelfAdjoint):
    """`y = max(x, 0)`; the derivative at 0 is 0, and NaN stays NaN.

    >>> Relu()([-2.0, 0.0, 3.0])
    array([0., 0., 3.])
    """

    integers: ClassVar[str] = "keep"

    def value(self, x: Array) -> Any:
        if x.dtype.kind != "O":
            return np.maximum(x, x.dtype.type(0))
        # The zero is one of x's own numbers: among Decimals an int 0 would later divide to a Fraction.
        return np.where(positive(x) | (x != x), x, zeros_as_in(x, x.shape))

    def lean(self, y: Array, v: Array) -> Any:
        # Copied, not multiplied by 0: what comes from a cell that does not matter may be infinite.
        kept = zeros_as_in(v, v.shape)
        np.copyto(kept, v, where=positive(y))
        return kept


@dataclass(frozen=True)
class Tanh(SelfAdjoint):
    """`y = tanh x`, `dy = (1 - y^2) dx`.

    >>> Tanh()([0.0, 1.0]).round(6)
    array([0.      , 0.761594])
    """

    def value(self, x: Array) -> Any:
        return np.tanh(floats(self, x))

    def lean(self, y: Array, v: Array) -> Any:
        return v * (1 - y * y)


@dataclass(frozen=True)
class Sigmoid(SelfAdjoint):
    """`y = 1 / (1 + exp(-x))`, `dy = y (1 - y) dx`; computed from `exp(-|x|)`, which cannot overflow.

    >>> Sigmoid()([-1000.0, 0.0, 1000.0])
    array([0. , 0.5, 1. ])
    """

    def value(self, x: Array) -> Any:
        decay = np.exp(-np.abs(floats(self, x)))
        return np.where(x < 0, decay, np.ones_like(decay)) / (1 + decay)

    def lean(self, y: Array, v: Array) -> Any:
        return v * y * (1 - y)


# --- along an axis --------------------------------------------------------------------------------


def log_softmax(x: Array, axis: int) -> Array:
    """`x - log(sum exp x)`, shifted by the largest before exp so that nothing overflows."""
    shifted = x - np.max(x, axis=axis, keepdims=True)
    result: Array = shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))
    return result


@dataclass(frozen=True)
class Softmax(SelfAdjoint):
    """`y_i = exp(x_i) / sum exp(x_j)` along `axis`, `dy = y (dx - sum y_j dx_j)`; shifted by the largest before exp.

    >>> Softmax()([1000.0, 1000.0])
    array([0.5, 0.5])
    """

    axis: int = -1

    def output_shape(self, shape: Sequence[int]) -> Shape:
        """The shape of the output, which is that of the input."""
        check_not_empty(self, self.axis, tuple(shape))
        return tuple(shape)

    def value(self, x: Array) -> Any:
        return np.exp(log_softmax(floats(self, x), self.axis))

    def lean(self, y: Array, v: Array) -> Any:
        return y * (v - np.sum(y * v, axis=self.axis, keepdims=True))


@dataclass(frozen=True)
class LogSoftmax(Activation):
    """`y_i = x_i - log(sum exp(x_j))` along `axis`, `dy = dx - sum p_j dx_j` with `p = exp y`.

    >>> LogSoftmax()([0.0, 0.0]).round(6)
    array([-0.693147, -0.693147])
    """

    axis: int = -1

    def output_shape(self, shape: Sequence[int]) -> Shape:
        """The shape of the output, which is that of the input."""
        check_not_empty(self, self.axis, tuple(shape))
        return tuple(shape)

    def value(self, x: Array) -> Any:
        return log_softmax(floats(self, x), self.axis)

    def change(self, y: Array, t: Array) -> Any:
        return t - np.sum(np.exp(y) * t, axis=self.axis, keepdims=True)

    def transposed(self, y: Array, g: Array) -> Any:
        return g - np.exp(y) * np.sum(g, axis=self.axis, keepdims=True)
