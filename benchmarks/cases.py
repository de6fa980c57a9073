"""What is measured: a case is a kind over a window, on one array, in one mode; here as plain data.

A layout is a string that names each axis, as in ``"NCHW"``: the axes called D, H or W are pooled, and
moving an array between layouts is a transposition by letters. A mean over the channels of an image is thus one over the
axis W of "NCW".
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

BETA = 2.0


@dataclass(frozen=True)
class Sliding:
    """A window with the same kernel, stride and padding along every pooled axis."""

    kernel: int
    stride: int
    padding: int = 0

    def __str__(self) -> str:
        return f"k{self.kernel}s{self.stride}" + (f"p{self.padding}" if self.padding else "")


@dataclass(frozen=True)
class Adaptive:
    """As many windows along every pooled axis as the output has cells."""

    size: int

    def __str__(self) -> str:
        return f"adaptive{self.size}"


@dataclass(frozen=True)
class Global:
    """One window over everything."""

    def __str__(self) -> str:
        return "global"


@dataclass(frozen=True)
class Case:
    """One line of the benchmark."""

    kind: Literal["max", "avg", "smooth", "lp3", "lp2.5"]
    window: Sliding | Adaptive | Global
    shape: tuple[int, ...]
    layout: str
    mode: Literal["forward", "forward+vjp", "jvp"] = "forward"
    dtype: str = "float32"
    tiny: bool = False
    ties: Literal["first", "split", "all"] = "first"
    order: Literal["C", "F"] = "C"
    note: str = ""  # what tells it from a case of another shape

    @property
    def name(self) -> str:
        usual = ("float32", "forward", "first", "C", "")
        order = "fortran" if self.order == "F" else "C"
        named = [word for word in (self.dtype, self.mode, self.ties, order, self.note) if word not in usual]
        return " ".join([self.kind, str(self.window), self.layout, *named, *["tiny"] * self.tiny])

    @property
    def is_usual(self) -> bool:
        """Whether other libraries may have it: some know no other policies for ties, nor means of integers."""
        return self.kind in ("max", "avg") and self.ties == "first" and self.result == self.dtype

    @property
    def result(self) -> str:
        """The dtype of the output: means of integers are float64."""
        return "float64" if self.dtype == "uint8" and self.kind != "max" else self.dtype

    @property
    def spatial(self) -> str:
        return "".join(letter for letter in self.layout if letter in "DHW")

    @property
    def rank(self) -> int:
        """How many axes are pooled."""
        return len(self.spatial)

    @property
    def axes(self) -> tuple[int, ...]:
        return tuple(self.layout.index(letter) for letter in self.spatial)

    @property
    def channels_first(self) -> str:
        return "NC" + self.spatial

    @property
    def channels_last(self) -> str:
        return "N" + self.spatial + "C"

    def on_pooled(self, value: int, elsewhere: int) -> tuple[int, ...]:
        """One number for each axis of the array: `value` on those that are pooled."""
        return tuple(value if letter in self.spatial else elsewhere for letter in self.layout)


class Data(NamedTuple):
    """The arrays of a case: input, input tangent, and output cotangent."""

    x: np.ndarray
    t: np.ndarray
    g: np.ndarray


def numpy_dtype(name: str) -> np.dtype:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Integers of the whole range of an unsigned dtype, normal numbers of a float dtype."""
    if dtype.kind == "u":
        return rng.integers(0, 256, shape, dtype=dtype)
    return rng.standard_normal(shape, dtype=np.float32).astype(dtype)


def draw(case: Case, output_shape: tuple[int, ...]) -> Data:
    """Random arrays for a case, the same at every call."""
    rng, dtypes = np.random.default_rng(20), map(numpy_dtype, (case.dtype, case.dtype, case.result))
    shapes = (case.shape, case.shape, output_shape)
    arrays = (random_array(rng, shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True))
    return Data(*(np.asarray(array, order=case.order) for array in arrays))


def relayout(array: np.ndarray, source: str, target: str) -> np.ndarray:
    """A view of the array with its axes in the target's order; an axis that one side lacks has length 1."""
    added = [letter for letter in target if letter not in source]
    dropped = [letter for letter in source if letter not in target]
    letters = [*added, *source]
    order = [letters.index(letter) for letter in [*dropped, *target]]
    return array[(np.newaxis,) * len(added)].transpose(order)[(0,) * len(dropped)]
