"""Tangents and cotangents: read in the shape and the dtype of the array that they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import as_array
from ..kind import derivative_dtype
from .arithmetic import a_number_of, as_objects, zeros
from .protocol import Array, Shape


@dataclass(frozen=True)
class Directions:
    """The tangents and cotangents of an array: they have its shape and the dtype of its derivatives.

    Those of an object array are in the arithmetic of `number`, which is one of its cells. The array itself is not held,
    so that it need not stay alive.

    >>> from fractions import Fraction
    >>> import numpy as np
    >>> Directions.of(np.zeros(2, np.float32)).read("g", [1, 2]).dtype
    dtype('float32')
    >>> Directions.of(np.array([Fraction(1, 3)])).read("g", [0.5])
    array([Fraction(1, 2)], dtype=object)
    """

    shape: Shape
    dtype: np.dtype[Any]
    number: Any = None

    @classmethod
    def of(cls, array: Array) -> Directions:
        """Those of this array."""
        return cls(array.shape, derivative_dtype(array.dtype), a_number_of(array))

    def read(self, name: str, v: ArrayLike) -> Array:
        """`v` as one of them; `name` is what an error calls it."""
        v = as_array(name, v)
        if v.shape != self.shape:
            raise ValueError(
                f"{name} has shape {v.shape} and belongs to an array of shape {self.shape}; make them equal"
            )
        if self.dtype.kind == "O":
            return as_objects(self.number, v)
        if v.dtype.kind == "O":
            return v
        if v.dtype.kind not in "biufV" and v.dtype.kind != self.dtype.kind:
            raise TypeError(f"{name} has dtype {v.dtype} and belongs to an array of {self.dtype}; give real numbers")
        return v.astype(self.dtype, copy=False)

    def zeros(self) -> Array:
        """The direction in which nothing changes."""
        return zeros(self.shape, self.dtype, self.number)


def read_tangents(ts: Sequence[ArrayLike], xs: Sequence[Array]) -> list[Array]:
    """One tangent for each input."""
    if len(ts) != len(xs):
        raise ValueError(f"ts has {len(ts)} tangents and there are {len(xs)} inputs; give one for each")
    return [Directions.of(x).read(f"ts[{i}]", t) for i, (t, x) in enumerate(zip(ts, xs, strict=True))]
