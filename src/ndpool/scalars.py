"""What pooling asks of a number, for every number that the specification runs on.

Plain arithmetic is the number's own. What is here is the rest: an order in which NaN comes out on top,
exp, log, powers and roots, and differences in which equal infinities cancel. A number that cannot do what is
asked gives a TypeError that says so: no exact number is rounded in silence. `Dual` is a number with a derivative.
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

import numpy as np


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

    def __pow__(self, p: Any) -> Dual:
        return _dual(power(self, p))

    def __lt__(self, other: Any) -> Any:
        return self.value < primal(other)

    def __gt__(self, other: Any) -> Any:
        return self.value > primal(other)

    def __le__(self, other: Any) -> Any:
        return self.value <= primal(other)

    def __ge__(self, other: Any) -> Any:
        return self.value >= primal(other)

    def __eq__(self, other: object) -> Any:
        return self.value == primal(other)

    def __hash__(self) -> int:
        return hash(self.value)


def _dual(a: Any) -> Dual:
    return a if isinstance(a, Dual) else Dual(a)


def primal(a: Any) -> Any:
    """The number itself, without its derivative."""
    return primal(a.value) if isinstance(a, Dual) else a


# --- arithmetics ----------------------------------------------------------------------------------


def is_symbolic(a: Any) -> bool:
    """Whether `a` is SymPy's: a number of it, or an expression."""
    sympy = sys.modules.get("sympy")
    return sympy is not None and isinstance(a, sympy.Basic)


def has_symbols(a: Any) -> bool:
    """Whether `a` is an expression with symbols in it, which only assumptions can compare."""
    return is_symbolic(a) and bool(a.free_symbols)


def _is_mpf(a: Any) -> bool:
    """Whether `a` is a real number of mpmath, which keeps its functions with its precision."""
    return hasattr(a, "_mpf_") and hasattr(a, "context")


def one(a: Any) -> Any:
    """The number 1 in the arithmetic of `a`."""
    a = primal(a)
    return sys.modules["sympy"].Integer(1) if is_symbolic(a) else type(a)(1)


def zero(a: Any) -> Any:
    """The number 0 in the arithmetic of `a`; that of a `Dual` is a `Dual`."""
    return Dual(zero(a.value), zero(a.tangent)) if isinstance(a, Dual) else one(a) * 0


def rational(a: Any) -> Fraction:
    """The rational number that `a` is; a number that is none gives a ValueError or a TypeError.

    >>> rational(0.5), rational(Decimal("0.1"))
    (Fraction(1, 2), Fraction(1, 10))
    """
    if _is_mpf(a) and math.isfinite(a):
        sign_bit, mantissa, exponent, _ = a._mpf_
        scale: Fraction = Fraction(2) ** exponent
        return (-scale if sign_bit else scale) * int(mantissa)
    if is_symbolic(a) and a.is_Float:
        return rational(a._to_mpmath(a._prec))
    if isinstance(a, np.floating):
        return Fraction(*a.as_integer_ratio())
    return Fraction(a)


def lift(number: Any, like: Any) -> Any:
    """A number such as beta in the arithmetic of `like`: exactly where that can be, as every float is rational.

    >>> lift(0.5, Fraction(1, 3)), lift(Fraction(1, 4), 1.0)
    (Fraction(1, 2), 0.25)
    """
    if isinstance(number, Dual):
        return Dual(lift(number.value, like), lift(number.tangent, like))
    like = primal(like)
    if is_symbolic(like):
        return number if is_symbolic(number) else sys.modules["sympy"].Rational(rational(number))
    if getattr(like, "is_exact", False):  # a kind of number that says so itself, as the symbols of proofs do
        return type(like)(number)
    if isinstance(like, Decimal | Fraction) and isinstance(number, int | float):
        return type(like)(number)
    if isinstance(like, Fraction):
        return rational(number)
    if isinstance(like, Decimal):
        exact = rational(number)
        return Decimal(exact.numerator) / exact.denominator
    if isinstance(number, int | float):
        return number
    if not _is_mpf(like):
        return float(number)
    exact = rational(number)
    return type(like)(exact.numerator) / exact.denominator


def arithmetic(cells: Iterable[Any]) -> Any:
    """One of the numbers, as a sample of the arithmetic that all are in: the first that is no int, or else None."""
    for cell in cells:
        part = arithmetic((cell.value, cell.tangent)) if isinstance(cell, Dual) else cell
        if part is not None and not isinstance(part, int):
            return part
    return None


def settled(a: Any, like: Any) -> Any:
    """`a`, where an int beside Fractions, Decimals, mpmath's or SymPy's numbers is one of them.

    An int alone would be divided by Python's rule, which gives a float.

    >>> settled(0, Fraction(1, 2)), settled(0, 1.5)
    (Fraction(0, 1), 0)
    """
    if isinstance(a, Dual):
        return Dual(settled(a.value, like), settled(a.tangent, like))
    if not isinstance(a, int):
        return a
    if _is_mpf(like):
        return like.context.mpf(int(a), prec=max(a.bit_length(), 1))  # exact, whatever the precision is
    return lift(int(a), like) if isinstance(like, Fraction | Decimal) or is_symbolic(like) else a


def is_rounded(a: Any) -> bool:
    """Whether `a` is a float, or has one in it: a number that stands for others near to it."""
    if isinstance(a, Dual):
        return is_rounded(a.value) or is_rounded(a.tangent)
    if is_symbolic(a):
        return bool(a.has(sys.modules["sympy"].Float))
    return isinstance(a, float | complex | np.inexact)


def total(cells: Iterable[Any]) -> Any:
    """The sum, from left to right; 0 if there are none."""
    rest = iter(cells)
    result = next(rest, 0)
    for cell in rest:
        result = result + cell
    return result


# --- order ----------------------------------------------------------------------------------------


def is_nan(a: Any) -> bool:
    a = primal(a)
    return a is sys.modules["sympy"].nan if is_symbolic(a) else bool(a != a)


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
    """1, 0 or -1; NaN for NaN; SymPy's sign of a symbol."""
    a = primal(a)
    if has_symbols(a) and a.is_extended_real is not False:
        return sys.modules["sympy"].sign(a)
    if is_nan(a):
        return a
    return int(greater(a, 0)) - int(less(a, 0))


def leading(cells: list[Any], beats: Any) -> Any:
    """The cell that no other beats, without its derivative; None of symbols, which have no order."""
    plain = [primal(cell) for cell in cells]
    if any(has_symbols(cell) for cell in plain):
        return None
    best = plain[0]
    for cell in plain:
        if beats(cell, best):
            best = cell
    # A lone complex number meets no comparison above; it is refused all the same.
    beats(best, best)
    return best


def gap(a: Any, b: Any) -> Any:
    """`a - b`, where equal infinities cancel to 0."""
    if isinstance(a, Dual):
        return Dual(gap(a.value, b), a.tangent)
    return zero(a) if a == b else a - b


def ratio(a: Any, b: Any) -> Any:
    """`a / b` for `b > 0`, where infinities cancel to 1 or -1."""
    if isinstance(a, Dual):
        return Dual(ratio(a.value, b), a.tangent / b)
    if a == b:
        return one(a)
    return -one(a) if a == -b else a / b


# --- elementary functions -------------------------------------------------------------------------


def exp(a: Any) -> Any:
    """`e ** a`."""
    if isinstance(a, Dual):
        value = exp(a.value)
        return Dual(value, value * a.tangent)
    return _functions(a, "exp").exp(a)


def log(a: Any) -> Any:
    """The natural logarithm."""
    if isinstance(a, Dual):
        return Dual(log(a.value), a.tangent / a.value)
    return _functions(a, "log").log(a)


def power(a: Any, p: Any) -> Any:
    """`a ** p` for `a >= 0`, and for any `a` if p is an int, which needs nothing but products."""
    if not has_symbols(p) and p == 0:
        return one(a)
    if isinstance(a, Dual):
        return Dual(power(a.value, p), lift(p, a) * power(a.value, p - 1) * a.tangent)
    if not has_symbols(a) and not has_symbols(p) and p < 0 and a == 0:
        raise ZeroDivisionError(f"0 ** {p}: a derivative is infinite at a cell that is 0; give cells that are not 0")
    if isinstance(p, int):
        return a**p
    if isinstance(a, Fraction):
        p = rational(p)
        return _root_of_fraction(a, p.denominator) ** p.numerator
    _functions(a, f"power {p}")
    return a ** lift(p, a)


def magnitude(a: Any, p: Any) -> Any:
    """`|a| ** p`, with the derivative `p * sign(a) |a| ** (p-1)`."""
    if isinstance(a, Dual) and p != 0:
        return Dual(magnitude(a.value, p), lift(p, a) * signed(a.value, p - 1) * a.tangent)
    return power(abs(primal(a)), p)


def signed(a: Any, p: Any) -> Any:
    """`sign(a) |a| ** p`, with the derivative `p * |a| ** (p-1)`: at 0 too, where that of |a| alone is not known."""
    if isinstance(a, Dual) and p != 0:
        return Dual(signed(a.value, p), lift(p, a) * magnitude(a.value, p - 1) * a.tangent)
    if has_symbols(a) and isinstance(p, int) and p % 2 and a.is_extended_real is not False:
        return a**p  # the same, and SymPy knows more about it
    return sign(a) * magnitude(a, p)


def root(a: Any, p: Any) -> Any:
    """`a ** (1/p)` for `a > 0`."""
    if p == 1:
        return a
    if isinstance(a, Dual):
        value = root(a.value, p)
        return Dual(value, value / (lift(p, a) * a.value) * a.tangent)
    if isinstance(a, Fraction):
        p = rational(p)
        return _root_of_fraction(a, p.numerator) ** p.denominator
    if isinstance(a, Decimal) and p == 2:
        return a.sqrt()
    _functions(a, f"root {p}")
    return a ** (one(a) / lift(p, a))


def unless_zero(norm: Any, weight: Any) -> Any:
    """`weight`, or 0 where `norm` is 0: SymPy's Piecewise of the two for symbols, which may yet be anything."""
    norm = primal(norm)
    if not has_symbols(norm) or norm.is_zero is False:
        return weight
    if isinstance(weight, Dual):
        return Dual(unless_zero(norm, weight.value), unless_zero(norm, weight.tangent))
    sympy = sys.modules["sympy"]
    return sympy.Piecewise((weight, sympy.Ne(norm, 0)), (0, True))


def _root_of_fraction(a: Fraction, n: int) -> Fraction:
    """The n-th root of `a >= 0` where it is rational; an error where it is not."""
    above, below = _whole_root(a.numerator, n), _whole_root(a.denominator, n)
    if above is None or below is None:
        raise TypeError(
            f"root {n} of {a} is no Fraction, which Lp needs; use floats, Decimal or mpmath.mpf, SymPy's numbers, "
            "or a kind that is rational (Max, Min, Avg, Sum)"
        )
    return Fraction(above, below)


def _whole_root(a: int, n: int) -> int | None:
    """The int of which the n-th power is `a >= 0`, or None."""
    low, high = 0, 1 << -(-a.bit_length() // n)  # low**n <= a < high**n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**n <= a else (low, middle)
    return low if low**n == a else None


def _functions(a: Any, wanted: str) -> Any:
    """Where exp and log of `a` are to be found."""
    if _is_mpf(a):
        return a.context
    if is_symbolic(a):
        return sys.modules["sympy"]
    if isinstance(a, Decimal):
        return _DECIMAL_FUNCTIONS
    if _has_functions(a):
        return _OWN_FUNCTIONS
    if isinstance(a, numbers.Real) and not isinstance(a, Fraction):
        return math
    raise TypeError(
        f"{type(a).__name__} numbers have no {wanted}, which SmoothMax and Lp need; "
        "use floats, Decimal or mpmath.mpf, or a kind that is rational (Max, Min, Avg, Sum)"
    )


def _has_functions(a: Any) -> bool:
    """Whether a number brings its own, as methods: balls do."""
    return hasattr(type(a), "exp") and hasattr(type(a), "log")


_DECIMAL_FUNCTIONS = SimpleNamespace(exp=Decimal.exp, log=Decimal.ln)
_OWN_FUNCTIONS = SimpleNamespace(exp=lambda a: a.exp(), log=lambda a: a.log())
