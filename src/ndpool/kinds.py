"""What one output cell is, given the cells that it sees, and how it leans on each of them.

A kind is two functions, side by side:

    value(x, pad)   -> y             the output
    weights(x, pad) -> [(i, w_i)]    dy = sum of w_i * dx_i, over the cells that matter and no others

`x` lists the real cells of one window in row-major order; `pad` is how many padded cells the window has
beside them. Both are written for any number that has the arithmetic they use, so the same text is run on
floats, Fractions, mpmath numbers and symbols. To add a kind, derive from `Kind` and write the two: it works
everywhere. `check_kind` tests the two against each other.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

import numpy as np

from .scalars import (
    exp,
    gap,
    greater,
    has_symbols,
    is_symbolic,
    leading,
    less,
    lift,
    log,
    magnitude,
    one,
    primal,
    ratio,
    rational,
    root,
    sign,
    signed,
    total,
    unless_zero,
    zero,
)
from .windows import whole

Cells: TypeAlias = Sequence[Any]
Weights: TypeAlias = list[tuple[int, Any]]

TIES = ("first", "split", "all")


class Kind(ABC):
    """What a pool computes in each window; see the module for the two functions."""

    #: What integers become: "keep" their dtype, "widen" to 64 bits, or "float64" (rule "Integers").
    integers: ClassVar[str] = "float64"

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

    def value_of_padding(self, pad: int, zero: Any) -> Any:
        """The output of a window with no real cell, where there is one; `zero` is 0 in the arithmetic of the others."""
        return self.value([], pad)

    def result_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype of the output for inputs of this dtype."""
        if dtype.kind not in "biu" or self.integers == "keep":
            return dtype
        if self.integers == "float64":
            return np.dtype(np.float64)
        return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)


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


def derivative_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of tangents and cotangents for inputs of this dtype: derivatives of integers are float64."""
    return np.dtype(np.float64) if dtype.kind in "biu" else dtype


# --- Max and Min ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Extreme(Kind):
    """The cell that beats the others; `ties` says who leans on it when several do (rule "Ties")."""

    ties: str = "first"

    integers: ClassVar[str] = "keep"
    beats: ClassVar[Callable[[Any, Any], bool]]

    def __post_init__(self) -> None:
        if self.ties not in TIES:
            raise ValueError(f"ties={self.ties!r} is not a policy; give one of {TIES}")

    def winners(self, x: Cells) -> list[int]:
        """The places of all cells that no other beats, in order. NaN beats every number and ties with NaN."""
        best: list[int] = []
        for i, cell in enumerate(x):
            champion = x[best[0]] if best else cell
            if type(self).beats(cell, champion):
                best = [i]
            elif not type(self).beats(champion, cell):
                best.append(i)
        return best

    def value(self, x: Cells, pad: int = 0) -> Any:
        return x[self.winners(x)[0]]

    def weights(self, x: Cells, pad: int = 0) -> Weights:
        best = self.winners(x)
        if self.ties == "first":
            return [(best[0], 1)]
        if self.ties == "split":
            return [(i, one(x[i]) / len(best)) for i in best]
        return [(i, 1) for i in best]


@dataclass(frozen=True)
class Max(_Extreme):
    """The largest cell: `y = max x_i`.

    It leans on the first maximum in row-major order with weight 1 (`ties="first"`), on each of the m maxima
    with 1/m (`"split"`), or on each with 1 (`"all"`). Padded cells never win. A NaN wins against numbers.

    >>> Max().value([3, 7, 7]), Max().weights([3, 7, 7])
    (7, [(1, 1)])
    >>> Max(ties="split").weights([3, 7, 7])
    [(1, 0.5), (2, 0.5)]
    """

    beats: ClassVar[Callable[[Any, Any], bool]] = staticmethod(greater)


@dataclass(frozen=True)
class Min(_Extreme):
    """The smallest cell: `y = min x_i`; ties, padding and NaN as in `Max`.

    >>> Min().value([3, 7, 3]), Min(ties="all").weights([3, 7, 3])
    (3, [(0, 1), (2, 1)])
    """

    beats: ClassVar[Callable[[Any, Any], bool]] = staticmethod(less)


# --- Sum and Avg ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sum(Kind):
    """The sum of the cells: `y = sum x_i`, with weight 1 on each. Integers are summed modulo 2**64, as NumPy does.

    >>> Sum().value([1, 2, 3]), Sum().weights([1, 2, 3])
    (6, [(0, 1), (1, 1), (2, 1)])
    """

    integers: ClassVar[str] = "widen"

    def value(self, x: Cells, pad: int = 0) -> Any:
        return total(x)

    def weights(self, x: Cells, pad: int = 0) -> Weights:
        return [(i, 1) for i in range(len(x))]

    @property
    def needs_cell(self) -> bool:
        return False


@dataclass(frozen=True)
class Avg(Kind):
    """The mean of the cells: `y = (sum x_i) / n`, with weight 1/n on each real cell.

    n counts the padded cells too with `count_include_pad`, only the real ones without, and is
    `divisor_override` where that is given.

    >>> Avg().value([1, 2, 3], pad=1), Avg(count_include_pad=False).value([1, 2, 3], pad=1)
    (1.5, 2.0)
    >>> Avg().weights([1, 2, 3], pad=1)
    [(0, 0.25), (1, 0.25), (2, 0.25)]
    """

    count_include_pad: bool = True
    divisor_override: int | None = None

    def __post_init__(self) -> None:
        _check_bool("count_include_pad", self.count_include_pad)
        if self.divisor_override is not None:
            object.__setattr__(self, "divisor_override", whole("divisor_override", self.divisor_override, 1))

    def count(self, real: int, pad: int) -> int:
        """What the sum over a window is divided by."""
        if self.divisor_override is not None:
            return self.divisor_override
        return real + pad if self.count_include_pad else real

    def value(self, x: Cells, pad: int = 0) -> Any:
        return total(x) / self.count(len(x), pad) if x else 0

    def weights(self, x: Cells, pad: int = 0) -> Weights:
        n = self.count(len(x), pad)
        return [(i, one(cell) / n) for i, cell in enumerate(x)]

    @property
    def needs_cell(self) -> bool:
        return not self.count_include_pad and self.divisor_override is None


# --- SmoothMax and Lp -----------------------------------------------------------------------------


@dataclass(frozen=True)
class SmoothMax(Kind):
    """The smooth maximum: `y = log(sum exp(beta x_i)) / beta`, with weights `softmax(beta x)`.

    For beta > 0 and n cells, `max <= y <= max + log(n)/beta`; beta < 0 gives the smooth minimum.
    With `count_include_pad` a padded cell is the number 0 and takes its share; without, it is ignored.
    Cells are shifted by the largest (the smallest for beta < 0) before exp, so nothing overflows.

    beta may be a Fraction, a Decimal, a number of mpmath or an expression of SymPy. One that a float holds exactly is
    kept as that float. Any other is for the specification; the engine refuses it.

    >>> round(SmoothMax(1.0).value([0.0, 1.0]), 6)
    1.313262
    >>> [(i, round(w, 6)) for i, w in SmoothMax(1.0).weights([0.0, 1.0])]
    [(0, 0.268941), (1, 0.731059)]
    """

    beta: float
    count_include_pad: bool = True

    def __post_init__(self) -> None:
        beta = _parameter("beta", self.beta)
        if not _is_nonzero(beta):
            raise ValueError(f"beta={self.beta!r} must be finite and not 0; for a hard maximum use Max")
        object.__setattr__(self, "beta", beta)
        _check_bool("count_include_pad", self.count_include_pad)

    def _terms(self, x: Cells, pad: int) -> tuple[Any, list[Any], Any]:
        """The shift s, `exp(beta (x_i - s))` for each real cell, and that of all padded cells together."""
        zeros = pad if self.count_include_pad else 0
        none = _beside(self.beta, [zero(primal(x[0])) if x else 0.0])[0]
        x = _beside(self.beta, x)
        s = None
        if not has_symbols(self.beta):
            s = leading([*x, none] if zeros else list(x), greater if self.beta > 0 else less)
        s = none if s is None else s  # symbols cannot overflow, and need no shift
        beta = lift(self.beta, none)
        return s, [exp(beta * gap(cell, s)) for cell in x], zeros * exp(beta * gap(none, s)) if zeros else 0

    def value(self, x: Cells, pad: int = 0) -> Any:
        s, terms, padded = self._terms(x, pad)
        return log(total(terms) + padded) / lift(self.beta, s) + s

    def weights(self, x: Cells, pad: int = 0) -> Weights:
        _, terms, padded = self._terms(x, pad)
        norm = total(terms) + padded
        return [(i, term / norm) for i, term in enumerate(terms)]

    @property
    def needs_cell(self) -> bool:
        return not self.count_include_pad

    def value_of_padding(self, pad: int, zero: Any) -> Any:
        return self.value([zero], pad - 1)


@dataclass(frozen=True)
class Lp(Kind):
    """The p-norm of the cells: `y = (sum |x_i|^p)^(1/p)`, with weights `sign(x_i) (|x_i| / y)^(p-1)`, none where y = 0.

    Cells are divided by the largest magnitude before the power, so nothing overflows. Padded cells are ignored.
    p may be any number from 1 up, as beta may in `SmoothMax`. Roots of Fractions are taken where they are Fractions.

    >>> Lp(2).value([3.0, -4.0])
    5.0
    >>> [(i, round(w, 6)) for i, w in Lp(2).weights([3.0, -4.0])]
    [(0, 0.6), (1, -0.8)]
    """

    p: float

    def __post_init__(self) -> None:
        p = _parameter("p", self.p)
        # Of a symbol little may be known: only one that is known to be less than 1 is refused.
        if (p - 1).is_negative if has_symbols(p) else not _is_finite(p) or p < 1:
            raise ValueError(f"p={self.p!r} must be finite and >= 1 for a norm; for p = infinity use Max over abs(x)")
        object.__setattr__(self, "p", int(p) if not has_symbols(p) and p == int(p) else p)

    def _terms(self, x: Cells) -> tuple[Any, list[Any]]:
        """The largest magnitude m, and every `x_i / m`; none where all cells are 0. Symbols have no largest: m is 1."""
        x = _beside(self.p, x)
        m = leading([abs(cell) for cell in x], greater)
        m = one(x[0]) if m is None else m
        return m, [ratio(cell, m) for cell in x] if m != 0 else []

    def value(self, x: Cells, pad: int = 0) -> Any:
        m, terms = self._terms(x)
        return m * self._norm(terms) if terms else total(abs(cell) for cell in x)

    def weights(self, x: Cells, pad: int = 0) -> Weights:
        _, terms = self._terms(x)
        if self.p == 1 and terms:
            return [(i, sign(cell)) for i, cell in enumerate(x)]
        norm = self._norm(terms) if terms else 0
        return [(i, unless_zero(norm, signed(term / norm, self.p - 1))) for i, term in enumerate(terms)]

    def _norm(self, terms: list[Any]) -> Any:
        return root(total(magnitude(term, self.p) for term in terms), self.p)


# --- parameters -----------------------------------------------------------------------------------


def _check_bool(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name}={value!r} is not a bool; give True or False")


def _parameter(name: str, value: Any) -> Any:
    """A real number: as a float if one holds it exactly, SymPy's rationals as Fractions, any other as it is."""
    if type(value) is float or (type(value) is int and abs(value) <= 2**53):
        return float(value)  # what nearly all are, and all that PyTorch's compiler understands
    known = isinstance(value, int | float | Fraction | Decimal | np.integer | np.floating) or hasattr(value, "_mpf_")
    if is_symbolic(value) and value.is_extended_real is not False:
        known = True
    if isinstance(value, bool) or not known:
        raise TypeError(
            f"{name}={value!r} is a {type(value).__name__}; give a real number: an int, a float, a Fraction, "
            "a Decimal, or one of mpmath's or SymPy's"
        )
    try:
        nearest = float(value)
        if not math.isfinite(nearest):
            return nearest
        exact = rational(value)
    except (TypeError, ValueError, OverflowError):
        return value  # a symbol, an irrational number, one beyond all floats
    if exact == nearest:
        return nearest
    return exact if is_symbolic(value) else value


def _is_nonzero(number: Any) -> bool:
    """Whether a number is finite and not 0, or a symbol that may be so."""
    if type(number) is float:
        return number != 0 and abs(number) < math.inf
    return not number.is_zero if has_symbols(number) else number != 0 and _is_finite(number)


def _is_finite(number: Any) -> bool:
    return bool(number.is_finite) if is_symbolic(number) else bool(-math.inf < number < math.inf)


def _beside(parameter: Any, x: Cells) -> Cells:
    """The cells, in the arithmetic of a parameter that is SymPy's."""
    return [lift(cell, parameter) for cell in x] if is_symbolic(parameter) else x
