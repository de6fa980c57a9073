"""Linear maps, whose change is the map applied to the tangents: what they share, and add, sub and scale."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import as_array
from .arithmetic import computed, lifted, pythons
from .axes import broadcast, unbroadcast
from .directions import Directions, read_tangents
from .protocol import Array, Promoting, Shape, check_count


class LinearMap(Promoting, ABC):
    """`y = value(*xs)`, linear in all inputs together: `dy = value(*ts)`, and `transposed` is the map back.

    `inputs` is their number. The pullback needs the inputs' shapes and nothing else.
    """

    keeps: ClassVar[str] = "nothing"
    integers: ClassVar[str] = "keep"
    inputs: ClassVar[int] = 1

    @abstractmethod
    def value_shape(self, *shapes: Shape) -> Shape:
        """The shape of `value(*xs)`."""

    @abstractmethod
    def value(self, *xs: Array) -> Any:
        """The output."""

    @abstractmethod
    def transposed(self, g: Array, *shapes: Shape) -> Any:
        """The cotangent of the input; where there are several inputs, a tuple with one for each."""

    def output_shape(self, *shapes: Sequence[int]) -> Shape:
        """The shape of the output for inputs of these shapes."""
        check_count(self, shapes, self.inputs)
        return self.value_shape(*map(tuple, shapes))

    def __call__(self, *xs: ArrayLike) -> Array:
        """The output."""
        arrays = [as_array("x", x) for x in xs]
        self.output_shape(*(x.shape for x in arrays))
        y: Array = computed(self.value, *arrays)
        return y

    def jvp(self, x: Any, t: Any) -> tuple[Array, Array]:
        """The output, and its change along `t`; with several inputs both are tuples."""
        xs, ts = ((x,), (t,)) if self.inputs == 1 else (x, t)
        arrays = [as_array("x", x) for x in xs]
        return self(*arrays), computed(self.value, *read_tangents(ts, arrays))

    def vjp(self, *xs: ArrayLike) -> tuple[Array, Callable[[ArrayLike], Any]]:
        """The output, and the function that takes its cotangent back to the inputs; it keeps no array."""
        y = self(*xs)
        shapes = [np.shape(x) for x in xs]
        directions = Directions.of(y)

        def pullback(g: ArrayLike) -> Any:
            return computed(lambda wide: self.transposed(wide, *shapes), directions.read("g", g))

        return y, pullback


class _OfTwo(LinearMap):
    """A map of two arrays that broadcast as NumPy's do."""

    inputs: ClassVar[int] = 2

    def value_shape(self, *shapes: Shape) -> Shape:
        return broadcast(self, *shapes)


@dataclass(frozen=True)
class Add(_OfTwo):
    """`y = a + b`, broadcasting as NumPy does.

    >>> Add()([1.0, 2.0], [[10.0], [20.0]])
    array([[11., 12.],
           [21., 22.]])
    """

    def value(self, *xs: Array) -> Any:
        return np.add(*xs)

    def transposed(self, g: Array, *shapes: Shape) -> tuple[Array, ...]:
        return unbroadcast(g, shapes[0]), unbroadcast(g, shapes[1])


@dataclass(frozen=True)
class Sub(_OfTwo):
    """`y = a - b`, broadcasting as NumPy does.

    >>> Sub()([1.0, 2.0], 10.0)
    array([-9., -8.])
    """

    def value(self, *xs: Array) -> Any:
        return np.subtract(*xs)

    def transposed(self, g: Array, *shapes: Shape) -> tuple[Array, ...]:
        return unbroadcast(g, shapes[0]), np.asarray(-unbroadcast(g, shapes[1]))


@dataclass(frozen=True)
class Scale(LinearMap):
    """`y = factor * x`, for a fixed number.

    >>> Scale(3)([1.0, 2.0])
    array([3., 6.])
    """

    factor: Any

    def __post_init__(self) -> None:
        if np.ndim(self.factor) != 0:
            raise TypeError(f"factor={self.factor!r} is not one number; for an array of factors use Mul")
        object.__setattr__(self, "factor", pythons(self.factor))

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        whole = dtypes[0].kind in "biu" and not isinstance(self.factor, int)
        return np.dtype(np.float64) if whole else dtypes[0]

    def value_shape(self, *shapes: Shape) -> Shape:
        return shapes[0]

    def value(self, *xs: Array) -> Any:
        return xs[0] * lifted(self.factor, xs[0])

    def transposed(self, g: Array, *shapes: Shape) -> Array:
        return np.asarray(g * lifted(self.factor, g))
