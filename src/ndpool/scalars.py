"""What pooling asks of a number, for every number that the specification runs on.

Plain arithmetic is the number's own. What is here is the rest: an order in which NaN comes out on top,
exp, log, powers and roots, and differences in which equal infinities cancel. A number that cannot do what is
asked gives a TypeError that says so. `Dual` is a number with a derivative.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True, eq=False)
class Dual:
    """`value + tangent * e` with `e*e = 0`: computing with it computes the derivative alongside.

    Compares by its value alone, as the order of numbers does.

    >>> x = Dual(3.0, 1.0)
    >>> x * x + 1
    Dual(value=10.0, tangent=6.0)
    """

    value: Any
    tangent: Any = 0

    def __add__(self, other: Any) -> Dual:
        other = _dual(other)
        return Dual(self.value + other.value, self.tangent + other.tangent)

    def __sub__(self, other: Any) -> Dual:
        other = _dual(other)
        return Dual(self.value - other.value, self.tangent - other.tangent)

    def __mul__(self, other: Any) -> Dual:
        other = _dual(other)
        return Dual(self.value * other.value, self.tangent * other.value + self.value * other.tangent)

    def __truediv__(self, other: Any) -> Dual:
        other = _dual(other)
        quotient = self.value / other.value
        return Dual(quotient, (self.tangent - quotient * other.tangent) / other.value)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Any) -> Dual:
        return _dual(other) - self

    def __rtruediv__(self, other: Any) -> Dual:
        return _dual(other) / self

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.tangent)

    def __abs__(self) -> Dual:
        return Dual(abs(self.value), sign(self.value) * self.tangent)

    def __pow__(self, p: float) -> Dual:
        result: Dual = power(self, p)
        return result

    def __lt__(self, other: Any) -> Any:
        return self.value < primal(other)

    def __gt__(self, other: Any) -> Any:
        return self.value > primal(other)

    def __eq__(self, other: object) -> Any:
        return self.value == primal(other)

    def __hash__(self) -> int:
        return hash(self.value)


def _dual(a: Any) -> Dual:
    return a if isinstance(a, Dual) else Dual(a)


def primal(a: Any) -> Any:
    """The number itself, without its derivative."""
    return primal(a.value) if isinstance(a, Dual) else a


def _is_symbolic(a: Any) -> bool:
    sympy = sys.modules.get("sympy")
    return sympy is not None and isinstance(a, sympy.Basic)


def one(a: Any) -> Any:
    """The number 1 in the arithmetic of `a`."""
    a = primal(a)
    return 1 if _is_symbolic(a) else type(a)(1)


def lift(number: float, like: Any) -> Any:
    """A parameter such as beta in the arithmetic of `like`, exactly: every float is rational."""
    like = primal(like)
    if _is_symbolic(like):
        return sys.modules["sympy"].Rational(Fraction(number))
    return type(like)(number) if isinstance(like, Decimal | Fraction) else number


def total(cells: Iterable[Any]) -> Any:
    """The sum, from left to right; 0 if there are none."""
    rest = iter(cells)
    result = next(rest, 0)
    for cell in rest:
        result = result + cell
    return result


# --- order ----------------------------------------------------------------------------------------


def is_nan(a: Any) -> bool:
    return bool(a != a)


def greater(a: Any, b: Any) -> bool:
    """`a > b` in the order of numbers with NaN above them all (rule "NaN")."""
    if is_nan(a) or is_nan(b):
        return is_nan(a) and not is_nan(b)
    try:
        return bool(a > b)
    except TypeError:
        raise TypeError(_no_order(a)) from None


def less(a: Any, b: Any) -> bool:
    """`a < b` in the order of numbers with NaN below them all (rule "NaN")."""
    if is_nan(a) or is_nan(b):
        return is_nan(a) and not is_nan(b)
    try:
        return bool(a < b)
    except TypeError:
        raise TypeError(_no_order(a)) from None


def _no_order(a: Any) -> str:
    return (
        f"{type(primal(a)).__name__} numbers have no order, and Max, Min, SmoothMax and Lp compare cells; "
        "use Sum or Avg, or numbers that can be compared"
    )


def sign(a: Any) -> Any:
    """1, 0 or -1; NaN for NaN."""
    if is_nan(a):
        return a
    return int(greater(a, 0)) - int(less(a, 0))


def shift(cells: list[Any], beats: Any) -> Any:
    """The cell to subtract before exp so that nothing overflows: the one that beats all others.

    Symbols have no order and cannot overflow: theirs is 0.
    """
    if any(_is_symbolic(primal(cell)) for cell in cells):
        return 0
    best = primal(cells[0])
    for cell in cells:
        if beats(primal(cell), best):
            best = primal(cell)
    # A lone complex number meets no comparison above; it is refused all the same.
    beats(best, best)
    return best


def gap(a: Any, b: Any) -> Any:
    """`a - b`, where equal infinities cancel to 0."""
    if isinstance(a, Dual):
        return Dual(gap(a.value, b), a.tangent)
    return one(a) * 0 if a == b else a - b


def ratio(a: Any, b: Any) -> Any:
    """`a / b`, where equal infinities cancel to 1."""
    if isinstance(a, Dual):
        return Dual(ratio(a.value, b), a.tangent / b)
    return one(a) if a == b else a / b


# --- elementary functions -------------------------------------------------------------------------


def exp(a: Any) -> Any:
    if isinstance(a, Dual):
        value = exp(a.value)
        return Dual(value, value * a.tangent)
    return _functions(a, "exp").exp(a)


def log(a: Any) -> Any:
    if isinstance(a, Dual):
        return Dual(log(a.value), a.tangent / a.value)
    return _functions(a, "log").log(a)


def power(a: Any, p: float) -> Any:
    """`a ** p` for `a >= 0`; an int power needs nothing but products."""
    if isinstance(a, Dual):
        return Dual(power(a.value, p), lift(p, a) * power(a.value, p - 1) * a.tangent)
    if isinstance(p, int):
        return a**p if p else one(a)
    _functions(a, f"power {p}")
    return a ** lift(p, a)


def root(a: Any, p: float) -> Any:
    """`a ** (1/p)` for `a > 0`."""
    if isinstance(a, Dual):
        value = root(a.value, p)
        return Dual(value, value / (lift(p, a) * a.value) * a.tangent)
    if p == 1:
        return a
    _functions(a, f"root {p}")
    return a ** (one(a) / lift(p, a))


def _functions(a: Any, wanted: str) -> Any:
    """Where exp and log of `a` are to be found."""
    if hasattr(a, "context") and hasattr(a.context, "exp"):  # mpmath keeps its functions with its precision
        return a.context
    if _is_symbolic(a):
        return sys.modules["sympy"]
    if isinstance(a, Decimal):
        return _DECIMAL_FUNCTIONS
    if isinstance(a, numbers.Real) and not isinstance(a, Fraction):
        return math
    raise TypeError(
        f"{type(a).__name__} numbers have no {wanted}, which SmoothMax and Lp need; "
        "use floats, Decimal or mpmath.mpf, or a kind that is rational (Max, Min, Avg, Sum)"
    )


_DECIMAL_FUNCTIONS = SimpleNamespace(exp=Decimal.exp, log=Decimal.ln)
