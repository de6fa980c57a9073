"""Products, which are linear in each of two factors: what they share, and mul, matmul and linear."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import as_array
from .arithmetic import computed
from .axes import broadcast, unbroadcast
from .directions import Directions, read_tangents
from .protocol import Array, Promoting, Shape, check_count


class Product(Promoting, ABC):
    """`y = value(a, b)`, linear in `a` and in `b`: `dy = value(da, b) + value(a, db)`.

    Where `bias_axis` is set there may be a third input, a vector that is added along that axis of y.
    """

    keeps: ClassVar[str] = "inputs"
    integers: ClassVar[str] = "keep"
    bias_axis: ClassVar[int | None] = None

    @abstractmethod
    def value_shape(self, a: Shape, b: Shape) -> Shape:
        """The shape of `value(a, b)`."""

    @abstractmethod
    def value(self, a: Array, b: Array) -> Any:
        """The output, without a bias."""

    @abstractmethod
    def transposed(self, g: Array, a: Array, b: Array) -> tuple[Array, Array]:
        """The cotangents of a and b."""

    def output_shape(self, *shapes: Sequence[int]) -> Shape:
        """The shape of the output for inputs of these shapes: a, b, and a bias if there is one."""
        check_count(self, shapes, *((2,) if self.bias_axis is None else (2, 3)))
        a, b, *bias = map(tuple, shapes)
        y = self.value_shape(a, b)
        if self.bias_axis is not None and bias and bias[0] != (y[self.bias_axis],):
            raise ValueError(
                f"{type(self).__name__} adds a bias of shape {bias[0]} along axis {self.bias_axis} of {y}; "
                f"give shape ({y[self.bias_axis]},)"
            )
        return y

    def _along(self, bias: Array, ndim: int) -> Array:
        """The bias with `ndim` axes: its cells along `bias_axis`, the other axes of length 1."""
        assert self.bias_axis is not None
        return bias.reshape([-1 if d == self.bias_axis % ndim else 1 for d in range(ndim)])

    def __call__(self, *xs: ArrayLike) -> Array:
        """The output."""
        arrays = [as_array("x", x) for x in xs]
        self.output_shape(*(x.shape for x in arrays))
        y: Array = computed(self._with_bias, *arrays)
        return y

    def _with_bias(self, a: Array, b: Array, *bias: Array) -> Any:
        y = np.asarray(self.value(a, b))
        return y + self._along(bias[0], y.ndim) if bias else y

    def _change(self, a: Array, b: Array, da: Array, db: Array, *dbias: Array) -> Any:
        return self._with_bias(da, b, *dbias) + self.value(a, db)

    def jvp(self, xs: Sequence[ArrayLike], ts: Sequence[ArrayLike]) -> tuple[Array, Array]:
        """The output, and its change along the tangents `ts`, one for each input."""
        arrays = [as_array("x", x) for x in xs]
        return self(*arrays), computed(self._change, *arrays[:2], *read_tangents(ts, arrays))

    def vjp(self, *xs: ArrayLike) -> tuple[Array, Callable[[ArrayLike], tuple[Array, ...]]]:
        """The output, and the function that takes its cotangent back to each input; it keeps the inputs."""
        arrays = [as_array("x", x) for x in xs]
        y = self(*arrays)
        a, b, *bias = arrays
        directions = Directions.of(y)

        def pullback(g: ArrayLike) -> tuple[Array, ...]:
            gs: tuple[Array, ...] = computed(self._all_transposed, directions.read("g", g), a, b, *bias)
            return gs

        return y, pullback

    def _all_transposed(self, g: Array, a: Array, b: Array, *bias: Array) -> tuple[Array, ...]:
        return *self.transposed(g, a, b), *(unbroadcast(g, self._along(c, g.ndim).shape).ravel() for c in bias)


@dataclass(frozen=True)
class Mul(Product):
    """`y = a * b` cell by cell, broadcasting as NumPy does.

    >>> Mul()([1.0, 2.0], [3.0, 4.0])
    array([3., 8.])
    """

    def value_shape(self, a: Shape, b: Shape) -> Shape:
        return broadcast(self, a, b)

    def value(self, a: Array, b: Array) -> Any:
        return np.multiply(a, b)

    def transposed(self, g: Array, a: Array, b: Array) -> tuple[Array, Array]:
        return unbroadcast(np.asarray(g * b), a.shape), unbroadcast(np.asarray(g * a), b.shape)


@dataclass(frozen=True)
class Matmul(Product):
    """`y = a @ b` of matrices, or of stacks of them, whose leading axes broadcast.

    >>> Matmul()([[1.0, 2.0]], [[3.0], [4.0]])
    array([[11.]])
    """

    def value_shape(self, a: Shape, b: Shape) -> Shape:
        if len(a) < 2 or len(b) < 2:
            raise ValueError(f"Matmul of shapes {a} and {b}; both need 2 axes or more, reshape a vector to a matrix")
        if a[-1] != b[-2]:
            raise ValueError(
                f"Matmul of shapes {a} and {b}: rows of {a[-1]} meet columns of {b[-2]}; make these lengths equal"
            )
        return (*broadcast(self, a[:-2], b[:-2]), a[-2], b[-1])

    def value(self, a: Array, b: Array) -> Any:
        return a @ b

    def transposed(self, g: Array, a: Array, b: Array) -> tuple[Array, Array]:
        ga, gb = g @ np.swapaxes(b, -1, -2), np.swapaxes(a, -1, -2) @ g
        return unbroadcast(ga, a.shape), unbroadcast(gb, b.shape)


@dataclass(frozen=True)
class Linear(Product):
    """`y = x w^T + bias`: x of shape (..., n), w (m, n), and bias, which may be left out, (m,).

    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]], [0.5, 0.0])
    array([[11.5, 17. ]])
    """

    bias_axis: ClassVar[int | None] = -1

    def value_shape(self, a: Shape, b: Shape) -> Shape:
        if len(a) < 1 or len(b) != 2 or a[-1] != b[1]:
            raise ValueError(
                f"Linear of x {a} and w {b}; w has shape (outputs, inputs), and inputs is the last length of x"
            )
        return (*a[:-1], b[0])

    def value(self, a: Array, b: Array) -> Any:
        return a @ b.T

    def transposed(self, g: Array, a: Array, b: Array) -> tuple[Array, Array]:
        return g @ b, g.reshape(-1, b.shape[0]).T @ a.reshape(-1, b.shape[1])
