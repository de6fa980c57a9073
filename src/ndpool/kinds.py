"""What one output cell is, given the cells that it sees, and how it leans on each of them.

A kind is two functions, side by side:

    value(x, pad)   -> y             the output
    weights(x, pad) -> [(i, w_i)]    dy = sum of w_i * dx_i, over the cells that matter and no others

`x` lists the real cells of one window in row-major order; `pad` is how many padded cells the window has
beside them. Both are written for any number that has the arithmetic they use, so the same text is run on
floats, Fractions, mpmath numbers and symbols. To add a kind, derive from `Kind` and write the two: it works
everywhere. `check_kind` tests the two against each other.

A kind that engines compute says so where it is defined, `class Max(Kind, engine="max")`, and states its `Form` there:
all that a plan has to know of it. What its second derivative is, if it has one, stands beside it as well.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Protocol, TypeAlias

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

#: The integers among the dtypes, by name.
INTEGERS = frozenset({"bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))})

#: The kinds that engines compute, by the names that engines have for them.
ENGINE_KINDS: dict[str, type[Kind]] = {}


@dataclass(frozen=True)
class Form:
    """A kind as engines know it: a name, an option, a number, and what its derivative is made from.

    `keeps` says what the derivative needs of a call: "nothing" (the weights are the same everywhere), "winners" (one
    cell in each window has weight 1), "x", or "x and y". `curved` says whether there is a second derivative that is
    not 0, and `in_floats` whether integers are made float64 before anything is computed.
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

    def value_of_padding(self, pad: int, zero: Any) -> Any:
        """The output of a window with no real cell, where there is one; `zero` is 0 in the arithmetic of the others."""
        return self.value([], pad)

    def result_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype of the output for inputs of this dtype."""
        kept = dtype.name not in INTEGERS or self.integers == "keep"  # its byte order too
        return dtype if kept else np.dtype(self.result_name(dtype.name))

    def result_name(self, dtype: str) -> str:
        """The same by names, which every library has (rule "Integers").

        >>> Sum().result_name("uint8"), Avg().result_name("uint8"), Max().result_name("bfloat16")
        ('uint64', 'float64', 'bfloat16')
        """
        if dtype not in INTEGERS or self.integers == "keep":
            return dtype
        if self.integers == "float64":
            return "float64"
        return "uint64" if dtype.startswith("u") else "int64"

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

    >>> form_of(Max())
    Form(name='max', option='first', parameter=0.0, keeps='winners', curved=False, in_floats=False)
    """
    return kind._form() if type(kind).engine else None


def kind_of(name: str, option: str, parameter: float) -> Kind:
    """The kind that has this form.

    >>> kind_of("avg", "fixed", 9.0)
    Avg(count_include_pad=True, divisor_override=9)
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


def derivative_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of tangents and cotangents for inputs of this dtype: derivatives of integers are float64."""
    return np.dtype(np.float64) if dtype.name in INTEGERS else dtype


def derivative_name(dtype: str) -> str:
    """The same by names."""
    return "float64" if dtype in INTEGERS else dtype


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

    def one_winner(self) -> Kind:
        return type(self)()

    def _form(self) -> Form:
        return Form(self.engine, self.ties, keeps="winners" if self.ties == "first" else "x and y")

    @classmethod
    def _of_form(cls, option: str, parameter: float) -> Kind:
        return cls(option)


@dataclass(frozen=True)
class Max(_Extreme, engine="max"):
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
class Min(_Extreme, engine="min"):
    """The smallest cell: `y = min x_i`; ties, padding and NaN as in `Max`.

    >>> Min().value([3, 7, 3]), Min(ties="all").weights([3, 7, 3])
    (3, [(0, 1), (2, 1)])
    """

    beats: ClassVar[Callable[[Any, Any], bool]] = staticmethod(less)


# --- Sum and Avg ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sum(Kind, engine="sum"):
    """The sum of the cells: `y = sum x_i`, with weight 1 on each. Integers are summed modulo 2**64, as NumPy does.

    >>> Sum().value([1, 2, 3]), Sum().weights([1, 2, 3])
    (6, [(0, 1), (1, 1), (2, 1)])
    """

    integers: ClassVar[str] = "widen"
    in_parts: ClassVar[bool] = True

    def value(self, x: Cells, pad: int = 0) -> Any:
        return total(x)

    def weights(self, x: Cells, pad: int = 0) -> Weights:
        return [(i, 1) for i in range(len(x))]

    @property
    def needs_cell(self) -> bool:
        return False

    def _form(self) -> Form:
        return Form(self.engine, parameter=1.0)

    @classmethod
    def _of_form(cls, option: str, parameter: float) -> Kind:
        return cls()


@dataclass(frozen=True)
class Avg(Kind, engine="avg"):
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

    in_parts: ClassVar[bool] = True

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

    def _form(self) -> Form:
        if self.divisor_override is not None:
            return Form(self.engine, "fixed", float(self.divisor_override))
        return Form(self.engine, "counted" if self.count_include_pad else "real")

    @classmethod
    def _of_form(cls, option: str, parameter: float) -> Kind:
        return cls(option != "real", int(parameter) if option == "fixed" else None)


# --- SmoothMax and Lp -----------------------------------------------------------------------------


@dataclass(frozen=True)
class SmoothMax(Kind, engine="smooth_max"):
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

    def _form(self) -> Form:
        counted = "counted" if self.count_include_pad else "real"
        return Form(self.engine, counted, _as_float("beta", self), keeps="x", curved=True, in_floats=True)

    @classmethod
    def _of_form(cls, option: str, parameter: float) -> Kind:
        return cls(parameter, option == "counted")

    # The weights w change by dw_i/dx_j = beta (w_i [i=j] - w_i w_j).

    def bend(self, at: Slope, t: Any, v: Any) -> Any:
        return self.beta * (at.push(t * v) - at.push(t) * at.push(v))

    def bend_back(self, at: Slope, g: Any, v: Any) -> Any:
        return self.beta * (v * at.pull(g) - at.pull(g * at.push(v)))


@dataclass(frozen=True)
class Lp(Kind, engine="lp"):
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

    def _form(self) -> Form:
        return Form(self.engine, parameter=_as_float("p", self), keeps="x", curved=self.p != 1, in_floats=True)

    @classmethod
    def _of_form(cls, option: str, parameter: float) -> Kind:
        return cls(parameter)

    # The weights w change by dw_i/dx_j = (p - 1) (w_i / x_i [i=j] - w_i w_j / y). For p = 2, w_i / x_i is 1/y, and that
    # holds where x_i is 0 too. For other p a cell that is 0 does not bend. Where y is 0, all cells are, and none bends.

    def bend(self, at: Slope, t: Any, v: Any) -> Any:
        value, product = at.y, at.push(t) * at.push(v)
        y = _not_zero(at, value)
        if self.p == 2:
            return at.where(value == 0, 0.0, (at.sums().push(t * v) - product) / y)
        return (self.p - 1) * (at.push(_quotient(at, t * v)) - product / y)

    def bend_back(self, at: Slope, g: Any, v: Any) -> Any:
        value = at.y
        y = _not_zero(at, value)
        rest = at.pull(g * at.push(v) / y)
        if self.p == 2:
            return v * at.sums().pull(at.where(value == 0, 0.0, g / y)) - rest
        return (self.p - 1) * (_quotient(at, v * at.pull(g)) - rest)


def _not_zero(at: Slope, a: Any) -> Any:
    """The array, with 1 where it is 0."""
    return at.where(a == 0, 1.0, a)


def _quotient(at: Slope, a: Any) -> Any:
    """`a / x`, and 0 where x is 0."""
    return at.where(at.x == 0, 0.0, a / _not_zero(at, at.x))


# --- parameters -----------------------------------------------------------------------------------


def _as_float(name: str, kind: Kind) -> float:
    """A parameter as engines take it: exactly, or not at all."""
    value = getattr(kind, name)
    if isinstance(value, int | float) and abs(value) <= sys.float_info.max and float(value) == value:
        return float(value)
    raise TypeError(
        f"{name}={value!r} in {kind!r} is no float, and the engine computes with floats; give {name} as a float "
        "(rounded by you), or x as an array of objects, which the specification computes"
    )


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
