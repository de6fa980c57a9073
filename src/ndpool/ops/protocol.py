"""What every op has: the protocol, and the dtype that an output gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Shape: TypeAlias = tuple[int, ...]


@runtime_checkable
class Op(Protocol):
    """What an op has. `Pool` is one, and so is any object of yours with these four methods.

    An op may also have two members that only the table of a program reads. `keeps` says what the pullback keeps:
    "nothing", "inputs" or "output"; an op without it counts as one that keeps its inputs. `result_dtype(*dtypes)` is
    the dtype of the output; without it, that is the common dtype of the inputs that are not integers.
    """

    def output_shape(self, *shapes: Any) -> Shape:
        """The shape of the output for inputs of these shapes."""

    def __call__(self, *xs: Any) -> Array:
        """The output."""

    def jvp(self, x: Any, t: Any, /) -> tuple[Array, Array]:
        """The output and its change along `t`; with several inputs both are tuples."""

    def vjp(self, *xs: Any) -> tuple[Array, Callable[[Any], Any]]:
        """The output and the pullback, which gives a tuple where there are several inputs."""


class Promoting:
    """An op whose output has the dtype that NumPy makes of its inputs' dtypes.

    `integers` says what whole numbers become: "keep" their dtype, "widen" to 64 bits, or "float64", as in `Kind`.
    """

    integers: ClassVar[str] = "float64"

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype of the output for inputs of these dtypes."""
        dtype = np.result_type(*dtypes)
        if dtype.kind not in "biu" or self.integers == "keep":
            return dtype
        if self.integers == "float64":
            return np.dtype(np.float64)
        return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)


def check_count(op: object, given: Sequence[Any], *counts: int) -> None:
    """An error unless there are as many inputs as one of `counts`."""
    if len(given) not in counts:
        takes = " or ".join(map(str, counts))
        raise TypeError(f"{type(op).__name__} takes {takes} inputs and got {len(given)}; see its documentation")
