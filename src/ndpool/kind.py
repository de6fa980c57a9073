"""What a kind of pooling is: two functions of the cells that one output sees, and what engines know of it.

    value(x, pad)   -> y             the output
    weights(x, pad) -> [(i, w_i)]    dy = sum of w_i * dx_i, over the cells that matter and no others

`x` lists the real cells of one window in row-major order; `pad` is how many padded cells the window has
beside them. Both are written for any number that has the arithmetic they use, so the same text is run on
floats, Fractions, mpmath numbers and symbols.

A kind that engines compute says so where it is defined, `class Max(Kind, engine="max")`, and states its `Form` there:
all that a plan has to know of it. What its second derivative is, if it has one, stands beside it as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

Cells: TypeAlias = Sequence[Any]
Weights: TypeAlias = list[tuple[int, Any]]

#: The integers among the dtypes, by name.
INTEGERS = frozenset({"bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))})

#: The kinds that engines compute, by the names that engines have for them.
ENGINE_KINDS: dict[str, type[Kind]] = {}


@dataclass(frozen=True)
class Form:
    """A kind as engines know it: a name, an option, a number, and what its derivative is made from.

    `keeps` says what the derivative needs of a call: "nothing" (the weights are the same everywhere), "winners" (one
    cell in each window has weight 1), "x", or "x and y". `curved` says whether there is a second derivative that is
    not 0, and `in_floats` whether integers are computed as float64.
    """

    name: str
    option: str = ""
    parameter: float = 0.0
    keeps: str = "nothing"
    curved: bool = False
    in_floats: bool = False


class Kind(ABC):
    """What a pool computes in each window; see the module for the two functions."""

    #: What integers become: "keep" their dtype, "widen" to 64 bits, or "float64" (rule "Integers").
    integers: ClassVar[str] = "float64"

    #: Whether the weights are real and the same everywhere, so that complex numbers are pooled as pairs of real ones.
    in_parts: ClassVar[bool] = False

    #: What engines call the kind; "" for one that they do not have. A class that derives from theirs is another kind.
    engine: ClassVar[str] = ""

    def __init_subclass__(cls, engine: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.engine = engine
        if engine:
            ENGINE_KINDS[engine] = cls

    @abstractmethod
    def value(self, x: Cells, pad: int = 0) -> Any:
        """The output of a window whose real cells are `x`, beside `pad` padded ones."""

    @abstractmethod
    def weights(self, x: Cells, pad: int = 0) -> Weights:
        """The derivative of `value`: pairs of a cell's place in `x` and its weight."""

    @property
    def needs_cell(self) -> bool:
        """Whether a window with no real cell has no value (rule "A window with no real cell")."""
        return True

    @property
    def needs_one_there(self) -> bool:
        """Whether a window all of whose cells are skipped has no value, whatever its padding (rule "Skipped cells")."""
        return self.needs_cell

    def value_of_padding(self, pad: int, zero: Any) -> Any:
        """The output of a window with no real cell, where there is one; `zero` is 0 in the arithmetic of the others."""
        return self.value([], pad)

    def result_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype of the output for inputs of this dtype."""
        kept = dtype.name not in INTEGERS or self.integers == "keep"  # its byte order too
        return dtype if kept else np.dtype(self.result_name(dtype.name))

    def result_name(self, dtype: str) -> str:
        """The same by names, which every library has (rule "Integers").

        >>> from ndpool import Avg, Max, Sum
        >>> Sum().result_name("uint8"), Avg().result_name("uint8"), Max().result_name("bfloat16")
        ('uint64', 'float64', 'bfloat16')
        """
        if dtype not in INTEGERS or self.integers == "keep":
            return dtype
        if self.integers == "float64":
            return "float64"
        return "uint64" if dtype.startswith("u") else "int64"

    def check_dtype(self, dtype: str) -> None:
        """Raises a TypeError where cells of this dtype have no such pool."""
        return None

    def one_winner(self) -> Kind | None:
        """The kind whose one winner in a window is the index that this one gives; None where there is no winner."""
        return None

    # --- for kinds that engines compute ---

    def _form(self) -> Form:
        raise NotImplementedError

    @classmethod
    def _of_form(cls, option: str, parameter: float) -> Kind:
        raise NotImplementedError

    def bend(self, at: Slope, t: Any, v: Any) -> Any:
        """`t H v`, shaped like y: the derivative of `J t` when x moves along v."""
        raise NotImplementedError(f"{self!r} states no second derivative")

    def bend_back(self, at: Slope, g: Any, v: Any) -> Any:
        """`g H v`, shaped like x: the derivative of `J^T g` when x moves along v, and the gradient of `g J v` in x."""
        raise NotImplementedError(f"{self!r} states no second derivative")


def form_of(kind: Kind) -> Form | None:
    """The kind as engines know it; None for a kind of your own.

    >>> from ndpool import Max
    >>> form_of(Max())
    Form(name='max', option='first', parameter=0.0, keeps='winners', curved=False, in_floats=False)
    """
    return kind._form() if type(kind).engine else None


def kind_of(name: str, option: str, parameter: float) -> Kind:
    """The kind that has this form.

    >>> kind_of("avg", "fixed", 9.0)
    Avg(count_include_pad=True, divisor_override=9, rounding=None)
    """
    return ENGINE_KINDS[name]._of_form(option, parameter)


class Slope(Protocol):
    """A pool's derivative J at x, in the arrays of any library: all that a second derivative is written with.

    Beside these four, the arrays have to have `+ - * /` and `==`, with each other and with numbers.
    """

    @property
    def x(self) -> Any: ...
    @property
    def y(self) -> Any:
        """The pool's output at x."""

    def push(self, t: Any) -> Any:
        """`J t`, shaped like y."""

    def pull(self, g: Any) -> Any:
        """`J^T g`, shaped like x."""

    def sums(self) -> Slope:
        """The same of a sum over the same windows: `push` and `pull` with all weights 1."""

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        """`a` where the condition holds and `b` elsewhere; either may be a number."""


def places_checked(kind: Kind, x: Cells, pad: int) -> Weights:
    """The weights of a window, every one of which must belong to one of its cells."""
    weights = list(kind.weights(x, pad))
    for place, _ in weights:
        if isinstance(place, bool) or not isinstance(place, int | np.integer) or not 0 <= place < len(x):
            raise ValueError(
                f"{kind!r}.weights gave a weight for cell {place!r} of a window of {len(x)} cells; "
                f"a place is an int from 0 up that is less than {len(x)}"
            )
    return weights


def no_winner(kind: Kind) -> TypeError:
    """What to say where an index is asked for and no one cell is the output."""
    return TypeError(
        f"{kind!r} has no winner in a window; indices exist for Max, Min and Mode, and for a Quantile whose method "
        "chooses a cell"
    )


def derivative_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of tangents and cotangents for inputs of this dtype: derivatives of integers are float64."""
    return np.dtype(np.float64) if dtype.name in INTEGERS else dtype


def derivative_name(dtype: str) -> str:
    """The same by names."""
    return "float64" if dtype in INTEGERS else dtype
