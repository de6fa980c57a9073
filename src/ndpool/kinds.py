"""The kinds: what one output cell is, given the cells that it sees, and how it leans on each of them.

Each is `value` and `weights` side by side; `kind.py` says what these are. To add a kind, derive from `Kind` and write
the two: it works everywhere. `check_kind` tests the two against each other.
"""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cmp_to_key
from typing import Any, ClassVar

import numpy as np

from .kind import INTEGERS, Cells, Form, Kind, Slope, Weights
from .scalars import (
    exp,
    gap,
    greater,
    has_symbols,
    is_nan,
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

TIES = ("first", "split", "all")

#: Which of the values that most cells have is the mode.
MODE_TIES = ("first", "smallest", "largest")

#: NumPy's names for what a quantile is between two cells. The latter three choose one of the two.
METHODS = ("linear", "midpoint", "lower", "higher", "nearest")

#: How the mean of integers becomes an integer; each with a function of the sum and its divisor, which is positive.
ROUNDINGS: dict[str, Callable[[int, int], int]] = {
    "half_even": lambda total, n: round(Fraction(total, n)),
    "half_up": lambda total, n: (2 * total + n) // (2 * n),
    "half_away": lambda total, n: (2 * abs(total) + n) // (2 * n) * (1 if total > 0 else -1),
    "floor": lambda total, n: total // n,
    "truncate": lambda total, n: abs(total) // n * (1 if total > 0 else -1),
}


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


# --- Mode, Quantile and Median --------------------------------------------------------------------


@dataclass(frozen=True)
class Mode(Kind, engine="mode"):
    """The value that most cells have: `y = mode x_i`, which leans on the first cell that has it, with weight 1.

    Where several values are had by as many cells, `ties` says which it is: the one seen `"first"` in row-major order,
    the `"smallest"` or the `"largest"`. NaNs are equal to each other here, and a NaN among such values is both, as in
    `Min` and `Max`. Zeros of both signs are equal.

    >>> Mode().value([7, 3, 3, 7, 1]), Mode("smallest").value([7, 3, 3, 7, 1])
    (7, 3)
    >>> Mode("smallest").weights([7, 3, 3, 7, 1])
    [(1, 1)]
    """

    ties: str = "first"

    integers: ClassVar[str] = "keep"

    def __post_init__(self) -> None:
        if self.ties not in MODE_TIES:
            raise ValueError(f"ties={self.ties!r} is not a policy of Mode; give one of {MODE_TIES}")

    def winners(self, x: Cells) -> list[int]:
        """The place of the cell that stands for all that have the mode: the first of them."""
        counts: dict[int, int] = {}  # how many cells have each value, by the place where it is seen first
        for i, cell in enumerate(x):
            first = next((j for j in counts if _are_equal(x[j], cell)), i)
            counts[first] = counts.get(first, 0) + 1
        most = [i for i, count in counts.items() if count == max(counts.values())]
        if self.ties == "first":
            return most[:1]
        beats = less if self.ties == "smallest" else greater
        best = most[0]
        for i in most[1:]:
            best = i if beats(x[i], x[best]) else best
        return [best]

    def value(self, x: Cells, pad: int = 0) -> Any:
        return x[self.winners(x)[0]]

    def weights(self, x: Cells, pad: int = 0) -> Weights:
        return [(i, 1) for i in self.winners(x)]

    def one_winner(self) -> Kind:
        return self

    def _form(self) -> Form:
        return Form(self.engine, self.ties, keeps="winners")

    @classmethod
    def _of_form(cls, option: str, parameter: float) -> Kind:
        return cls(option)


def _are_equal(a: Any, b: Any) -> bool:
    return bool(a == b) or (is_nan(a) and is_nan(b))


class _Order(Kind):
    """The cell, or the two cells, at a place in the order of the cells; equal ones count in row-major order."""

    @abstractmethod
    def place(self, n: int) -> tuple[int, int, Any]:
        """Between which two of n cells in order the value lies, and the share of the latter."""

    def places(self, x: Cells) -> Weights:
        """The one or two cells between which the quantile lies, and the share of each. One NaN is all that counts."""
        for i, cell in enumerate(x):
            if is_nan(cell):
                return [(i, 1)]
        by_value = cmp_to_key(_compared)
        order = sorted(range(len(x)), key=lambda i: by_value(x[i]))
        lo, hi, share = self.place(len(x))
        if lo == hi:
            return [(order[lo], 1)]
        share = lift(share, one(x[0]))
        return [(order[lo], 1 - share), (order[hi], share)]

    def value(self, x: Cells, pad: int = 0) -> Any:
        cells = [(x[i], share) for i, share in self.places(x)]
        if len(cells) == 1:
            return cells[0][0]
        (a, rest), (b, share) = cells
        if isinstance(a, int):
            a, b = float(a), float(b)
        apart = b - a
        if not abs(primal(apart)) < math.inf:  # an infinite cell, two of them, or numbers that are too far apart
            return rest * a + share * b
        # From the nearer one, so that it is never beyond the other.
        return a + apart * share if share < 0.5 else b - apart * rest

    def weights(self, x: Cells, pad: int = 0) -> Weights:
        return self.places(x)


def _compared(a: Any, b: Any) -> int:
    return -1 if less(a, b) else 1 if less(b, a) else 0


def between(n: int, q: Any, method: str) -> tuple[int, int, Any]:
    """Between which two of n cells in order a quantile lies, and the share of the latter; twice one that it is.

    >>> between(4, 0.5, "linear"), between(4, 0.5, "higher"), between(5, 0.5, "linear")
    ((1, 2, 0.5), (2, 2, 0), (2, 2, 0))
    """
    place = (n - 1) * q
    lo, hi = math.floor(place), math.ceil(place)
    if method == "nearest":
        lo = hi = round(place)  # halfway: the even one, as NumPy has it
    elif method in ("lower", "higher"):
        lo = hi = lo if method == "lower" else hi
    if lo == hi:
        return lo, lo, 0
    return lo, hi, place - lo if method == "linear" else type(place)(1) / 2


@dataclass(frozen=True)
class Quantile(_Order, engine="quantile"):
    """The quantile of the cells: `y = quantile(x, q)`, between the cells at the place `q (n - 1)` of n in order.

    `method` is NumPy's. Where the place is not whole, `"linear"` weighs the two cells beside it by how near it is, and
    `"midpoint"` weighs them alike; `"lower"`, `"higher"` and `"nearest"` choose one of the two. The weights are on
    these cells; equal cells count in row-major order. A NaN in the window is the result and has all the weight.

    Integers become float64 by the first two methods, whose results lie between cells, and stay what they are by the
    others.

    >>> Quantile(0.25).value([1.0, 4.0, 2.0]), Quantile(0.25).weights([1.0, 4.0, 2.0])
    (1.5, [(0, 0.5), (2, 0.5)])
    >>> Quantile(0.25, "higher").value([1, 4, 2])
    2
    """

    q: float
    method: str = "linear"

    def __post_init__(self) -> None:
        q = _parameter("q", self.q)
        if has_symbols(q) or not 0 <= q <= 1:
            raise ValueError(f"q={self.q!r} is not a share of the cells; give a number from 0 to 1")
        object.__setattr__(self, "q", q)
        if self.method not in METHODS:
            raise ValueError(f"method={self.method!r} is not a method; give one of {METHODS}")
        if self._is_one_cell:
            object.__setattr__(self, "integers", "keep")

    def place(self, n: int) -> tuple[int, int, Any]:
        return between(n, self.q, self.method)

    @property
    def _is_one_cell(self) -> bool:
        return self.method in METHODS[2:]

    def winners(self, x: Cells) -> list[int]:
        """The place of the cell that the quantile is, by a method that chooses one."""
        return [i for i, _ in self.places(x)]

    def one_winner(self) -> Kind | None:
        return self if self._is_one_cell else None

    def _form(self) -> Form:
        keeps = "winners" if self._is_one_cell else "x"
        return Form(self.engine, self.method, _as_float("q", self), keeps=keeps)

    @classmethod
    def _of_form(cls, option: str, parameter: float) -> Kind:
        return cls(parameter, option)


@dataclass(frozen=True)
class Median(_Order, engine="median"):
    """The median of the cells: `y = median(x)`, the one in the middle of their order or the mean of the two there.

    The same as `Quantile(0.5)`: integers become float64. To keep them integers, take `Quantile(0.5, "lower")`.

    >>> Median().value([5.0, 1.0, 2.0]), Median().value([5.0, 1.0, 2.0, 3.0])
    (2.0, 2.5)
    >>> Median().weights([5.0, 1.0, 2.0, 3.0])
    [(2, 0.5), (3, 0.5)]
    """

    def place(self, n: int) -> tuple[int, int, Any]:
        return between(n, 0.5, "linear")

    def _form(self) -> Form:
        return Form(self.engine, "linear", 0.5, keeps="x")

    @classmethod
    def _of_form(cls, option: str, parameter: float) -> Kind:
        return cls()


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

    With `rounding`, integers stay integers of their dtype: the exact mean is rounded once, to the nearest one
    (`"half_even"`, `"half_up"` towards +inf or `"half_away"` from zero where it lies halfway), down (`"floor"`) or
    towards zero (`"truncate"`). The weights are those of the mean.

    >>> Avg().value([1, 2, 3], pad=1), Avg(count_include_pad=False).value([1, 2, 3], pad=1)
    (1.5, 2.0)
    >>> Avg().weights([1, 2, 3], pad=1)
    [(0, 0.25), (1, 0.25), (2, 0.25)]
    >>> [Avg(rounding=each).value([-2, -3]) for each in ROUNDINGS]
    [-2, -2, -3, -3, -2]
    """

    count_include_pad: bool = True
    divisor_override: int | None = None
    rounding: str | None = None

    in_parts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_bool("count_include_pad", self.count_include_pad)
        if self.divisor_override is not None:
            object.__setattr__(self, "divisor_override", whole("divisor_override", self.divisor_override, 1))
        if self.rounding is None:
            return
        if self.rounding not in ROUNDINGS:
            raise ValueError(
                f"rounding={self.rounding!r} is not a way to round; give one of {tuple(ROUNDINGS)} or None"
            )
        if self.divisor_override is not None:
            raise ValueError(
                f"rounding={self.rounding!r} with divisor_override={self.divisor_override}: a sum by another divisor "
                "than its cells need not fit into the cells' dtype; leave one of the two out"
            )
        object.__setattr__(self, "integers", "keep")

    def count(self, real: int, pad: int) -> int:
        """What the sum over a window is divided by."""
        if self.divisor_override is not None:
            return self.divisor_override
        return real + pad if self.count_include_pad else real

    def value(self, x: Cells, pad: int = 0) -> Any:
        n = self.count(len(x), pad)
        if self.rounding is None or not x:
            return total(x) / n if x else 0
        if not all(isinstance(cell, int) for cell in x):
            raise self._not_for("numbers that are not integers")
        return ROUNDINGS[self.rounding](sum(x), n)

    def check_dtype(self, dtype: str) -> None:
        if self.rounding is not None and dtype not in INTEGERS:
            raise self._not_for(dtype)

    def _not_for(self, cells: str) -> TypeError:
        return TypeError(
            f"rounding={self.rounding!r} is for integers, and x has {cells}; leave rounding out, as the mean of floats "
            "is rounded to their dtype anyway, or convert x to integers"
        )

    def weights(self, x: Cells, pad: int = 0) -> Weights:
        n = self.count(len(x), pad)
        return [(i, one(cell) / n) for i, cell in enumerate(x)]

    @property
    def needs_cell(self) -> bool:
        return not self.count_include_pad and self.divisor_override is None

    @property
    def needs_one_there(self) -> bool:
        return self.divisor_override is None

    def _form(self) -> Form:
        if self.divisor_override is not None:
            return Form(self.engine, "fixed", float(self.divisor_override))
        counted = "counted" if self.count_include_pad else "real"
        return Form(self.engine, counted if self.rounding is None else f"{counted} {self.rounding}")

    @classmethod
    def _of_form(cls, option: str, parameter: float) -> Kind:
        counted, _, rounding = option.partition(" ")
        return cls(counted != "real", int(parameter) if counted == "fixed" else None, rounding or None)


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

    @property
    def needs_one_there(self) -> bool:
        return True

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
