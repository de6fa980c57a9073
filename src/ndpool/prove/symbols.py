"""Real numbers that are symbols: arithmetic makes terms of the solver's, and a comparison forks the run.

`Paths.explore(run)` calls `run` once for each way in which all of its comparisons can come out. The first run takes the
first way at each fork, and leaves the other for later. What was decided is known to the solver for the rest of the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import z3

from ..scalars import rational

#: The runs that are going on, the innermost last.
_running: list[Paths] = []


class Real:
    """A real number as a term of the solver's."""

    __slots__ = ("term",)

    #: No float becomes one of these by rounding.
    is_exact = True

    def __init__(self, term: Any) -> None:
        self.term = term if isinstance(term, z3.ExprRef) else _term(term)

    def __add__(self, other: Any) -> Real:
        return Real(self.term + _term(other))

    def __sub__(self, other: Any) -> Real:
        return Real(self.term - _term(other))

    def __rsub__(self, other: Any) -> Real:
        return Real(_term(other) - self.term)

    def __mul__(self, other: Any) -> Real:
        return Real(self.term * _term(other))

    def __truediv__(self, other: Any) -> Real:
        return Real(self.term / _term(other))

    def __rtruediv__(self, other: Any) -> Real:
        return Real(_term(other) / self.term)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Real:
        return Real(-self.term)

    def __abs__(self) -> Real:
        return self if self >= 0 else -self

    def __gt__(self, other: Any) -> bool:
        return _compared(self, other, lambda a, b: a > b)

    def __lt__(self, other: Any) -> bool:
        return _compared(self, other, lambda a, b: a < b)

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __eq__(self, other: object) -> bool:
        return _compared(self, other, lambda a, b: a == b)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.term)

    def __repr__(self) -> str:
        return str(z3.simplify(self.term))


def _constant(number: Any) -> Any:
    exact = Fraction(rational(number))
    return z3.RealVal(f"{exact.numerator}/{exact.denominator}")


def _term(number: Any) -> Any:
    return number.term if isinstance(number, Real) else _constant(number)


def _compared(a: Real, b: Any, how: Callable[[Any, Any], Any]) -> bool:
    if isinstance(b, float) and math.isinf(b):
        return bool(how(0, b))
    other = _term(b)
    if a.term.eq(other):
        return bool(how(0, 0))
    return _running[-1].decide(how(a.term, other))


class Paths:
    """All ways in which the comparisons of a run can come out; `solver` knows those of the run that is going on."""

    def __init__(self, *assumed: Any) -> None:
        self.solver = z3.Solver()
        self.solver.add(*assumed)
        self.count = 0
        self._prefix: list[bool] = []
        self._taken: list[bool] = []
        self._known: dict[Any, bool] = {}
        self._left: list[list[bool]] = []

    def explore(self, run: Callable[[], Any]) -> Iterator[Any]:
        """What `run` gives on each path. While it is looked at, the solver knows the path."""
        self._left = [[]]
        while self._left:
            self._prefix, self._taken, self._known = self._left.pop(), [], {}
            self.solver.push()
            _running.append(self)
            try:
                result = run()
            finally:
                _running.pop()
            self.count += 1
            yield result
            self.solver.pop()

    def decide(self, condition: Any) -> bool:
        """Whether the condition holds on this path."""
        key = condition.sexpr()
        if key in self._known:
            return self._known[key]
        place = len(self._taken)
        if place < len(self._prefix):
            choice = self._prefix[place]
        else:
            choice = self.solver.check(condition) == z3.sat
            if choice and self.solver.check(z3.Not(condition)) == z3.sat:
                self._left.append([*self._taken, False])
        self._taken.append(choice)
        self._known[key] = choice
        self.solver.add(condition if choice else z3.Not(condition))
        return choice


def value_of(model: Any, term: Any) -> Fraction | str:
    """The number that a model has for a term."""
    found = model.eval(term, model_completion=True)
    if z3.is_rational_value(found):
        return Fraction(found.numerator_as_long(), found.denominator_as_long())
    return str(found)
