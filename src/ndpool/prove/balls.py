"""Claims about SmoothMax and Lp over a box, shown by balls: intervals of Arb, with every rounding outward.

A function is looked at on a part of the box by its mean value: what it is at the centre, and its slopes over the whole
part. A part that shows nothing is cut in two, along its longest side. Balls show inequalities that are strict, so a
claim with an equality in it is shown up to `TOLERANCE`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from flint import arb, ctx

from ..kinds import Lp, SmoothMax
from ..scalars import Dual, rational

if TYPE_CHECKING:
    from ..pool import Pool

#: How far from its limit a claim with an equality in it is shown.
TOLERANCE = Fraction(1, 64)
#: The parts that are looked at, at most.
MOST_PARTS = 200_000
BITS = 80

Box: TypeAlias = list[tuple[Fraction, Fraction]]


class UndecidedError(Exception):
    """A comparison that comes out both ways within a ball."""


class Ball:
    """A real number of which a ball is known."""

    __slots__ = ("ball",)

    def __init__(self, ball: Any) -> None:
        self.ball = ball if isinstance(ball, arb) else _exact(ball)

    @classmethod
    def between(cls, lo: Fraction, hi: Fraction) -> Ball:
        """The ball that has both ends."""
        return cls(_exact(lo).union(_exact(hi)))

    def __add__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, Dual) else Ball(self.ball + _ball(other))

    def __sub__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, Dual) else Ball(self.ball - _ball(other))

    def __rsub__(self, other: Any) -> Ball:
        return Ball(_ball(other) - self.ball)

    def __mul__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, Dual) else Ball(self.ball * _ball(other))

    def __truediv__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, Dual) else Ball(self.ball / _ball(other))

    def __rtruediv__(self, other: Any) -> Ball:
        return Ball(_ball(other) / self.ball)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Ball:
        return Ball(-self.ball)

    def __abs__(self) -> Ball:
        return Ball(abs(self.ball))

    def __pow__(self, p: Any) -> Ball:
        return Ball(self.ball ** (p if isinstance(p, int) else _ball(p)))

    def exp(self) -> Ball:
        return Ball(self.ball.exp())

    def log(self) -> Ball:
        return Ball(self.ball.log())

    # Cells are compared to choose by which one all are shifted or divided, and any of them will do.

    def __gt__(self, other: Any) -> bool:
        if isinstance(other, Ball):
            return bool(self.ball.mid() > other.ball.mid())
        return _decided(self.ball > _ball(other), self.ball <= _ball(other))

    def __lt__(self, other: Any) -> bool:
        if isinstance(other, Ball):
            return bool(self.ball.mid() < other.ball.mid())
        return _decided(self.ball < _ball(other), self.ball >= _ball(other))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return False if isinstance(other, Ball) else _decided(self.ball == _ball(other), self.ball != _ball(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return str(self.ball)


def _decided(holds: bool, fails: bool) -> bool:
    if not holds and not fails:
        raise UndecidedError
    return bool(holds)


def _exact(number: Any) -> Any:
    found = Fraction(rational(number))
    return arb(found.numerator) / arb(found.denominator)


def _ball(number: Any) -> Any:
    return number.ball if isinstance(number, Ball) else _exact(number)


# --- a claim over a box ---------------------------------------------------------------------------

#: A function of cells, which are Balls or Duals of them.
Function: TypeAlias = Callable[[Sequence[Any]], Any]


class Search:
    """Whether `function <= limit` all over a box, by parts."""

    def __init__(self) -> None:
        self.cases = 0

    def refute(self, function: Function, limit: Fraction, box: Box) -> list[Fraction] | None:
        """A point at which the function is above the limit for sure; None where it is nowhere.

        An OverflowError says that too many parts were undecided.
        """
        ctx.prec = BITS
        left = [box]
        while left:
            part = left.pop()
            self.cases += 1
            if self.cases > MOST_PARTS:
                raise OverflowError("too many parts")
            centre = [(lo + hi) / 2 for lo, hi in part]
            verdict = self._look(function, limit, part, centre)
            if verdict == "above":
                return centre
            if verdict != "below":
                left += _halves(part)
        return None

    def _look(self, function: Function, limit: Fraction, part: Box, centre: list[Fraction]) -> str:
        try:
            at_centre = _value(function([Ball(c) for c in centre]))
            if at_centre.ball > _exact(limit):
                return "above"
            cells = [Ball.between(lo, hi) for lo, hi in part]
            whole = _value(function(cells)).ball
            if whole <= _exact(limit):
                return "below"
            for j, (lo, hi) in enumerate(part):
                along = function([Dual(c, Ball(1 if i == j else 0)) for i, c in enumerate(cells)])
                slope = along.tangent if isinstance(along, Dual) else Ball(0)
                at_centre = at_centre + _as_ball(slope) * Ball.between((lo - hi) / 2, (hi - lo) / 2)
        except (UndecidedError, ZeroDivisionError):
            return "undecided"
        return "below" if at_centre.ball <= _exact(limit) else "undecided"


def _as_ball(a: Any) -> Ball:
    return a if isinstance(a, Ball) else Ball(a)


def _value(a: Any) -> Ball:
    return _as_ball(a.value if isinstance(a, Dual) else a)


def _halves(part: Box) -> list[Box]:
    longest = max(range(len(part)), key=lambda j: part[j][1] - part[j][0])
    lo, hi = part[longest]
    middle = (lo + hi) / 2
    return [[*part[:longest], half, *part[longest + 1 :]] for half in ((lo, middle), (middle, hi))]


# --- the claims -----------------------------------------------------------------------------------


def default_box(kind: Any, n: int) -> Box:
    """Where nothing else is asked for. Lp is not smooth where a cell is 0."""
    ends = (Fraction(1, 2), Fraction(5, 4)) if isinstance(kind, Lp) else (Fraction(-1), Fraction(1))
    return [ends] * n


def functions(
    pool: Pool, claim: str, n: int, pad: int, box: Box, constant: Fraction
) -> list[tuple[Function, Fraction]]:
    """A claim as functions that are to be at most so much all over the box."""
    kind: Any = pool.kind
    if claim == "value":
        return _value_claims(kind, n, pad)
    if claim == "weights":
        return _weight_claims(kind, n, pad)
    if claim == "monotone":
        return [(partial(_negative_weight, kind, pad, i), Fraction(0)) for i in range(n)]
    if claim == "lipschitz":
        return [(lambda x: _total(_size(_weight(kind, x, pad, i)) for i in range(n)), constant + TOLERANCE)]
    if claim == "bounds":
        return _bound_claims(pool, n, pad, box)
    return _line_claims(pool, n, pad, box)


def _total(numbers: Any) -> Any:
    found: Any = 0
    for number in numbers:
        found = number + found
    return found


def _size(a: Any) -> Any:
    return abs(a)


def _negative_weight(kind: Any, pad: int, i: int, x: Sequence[Any]) -> Any:
    return -_weight(kind, x, pad, i)


def _weight(kind: Any, x: Sequence[Any], pad: int, i: int) -> Any:
    return dict(kind.weights(x, pad)).get(i, Ball(0))


def _definition(kind: Any, x: Sequence[Any], pad: int) -> Any:
    """The formula itself, which needs no shift where no number is large."""
    from ..scalars import exp, log, magnitude, root

    if isinstance(kind, SmoothMax):
        zeros = pad if kind.count_include_pad else 0
        return log(_total(exp(cell * kind.beta) for cell in x) + zeros) / kind.beta
    return root(_total(magnitude(cell, kind.p) for cell in x), kind.p)


def _value_claims(kind: Any, n: int, pad: int) -> list[tuple[Function, Fraction]]:
    def above(x: Sequence[Any]) -> Any:
        return kind.value(x, pad) - _definition(kind, x, pad)

    return [(above, TOLERANCE), (lambda x: -above(x), TOLERANCE)]


def _weight_claims(kind: Any, n: int, pad: int) -> list[tuple[Function, Fraction]]:
    """Each weight is the derivative of the value."""

    def off(x: Sequence[Any], i: int) -> Any:
        moved = [Dual(cell, Ball(1 if j == i else 0)) for j, cell in enumerate(x)]
        return _weight(kind, x, pad, i) - kind.value(moved, pad).tangent

    return [
        claim
        for i in range(n)
        for claim in ((lambda x, i=i: off(x, i), TOLERANCE), (lambda x, i=i: -off(x, i), TOLERANCE))
    ]


def _window(pool: Pool, n: int, pad: int) -> Pool:
    """A pool of one window with so many real and padded cells."""
    from ..pool import Pool
    from ..windows import Window

    return Pool(pool.kind, Window((n + pad,), 1, ((0, pad),)))


def _bound_claims(pool: Pool, n: int, pad: int, box: Box) -> list[tuple[Function, Fraction]]:
    """The engine's interval, whose ends are floats, has all values between them."""
    ends = ([float(lo) for lo, _ in box], [float(hi) for _, hi in box])
    ylo, yhi = (Fraction(float(y[0])) for y in _window(pool, n, pad).bounds(*ends))
    return [
        (lambda x: pool.kind.value(x, pad), yhi + TOLERANCE),
        (lambda x: -pool.kind.value(x, pad), -ylo + TOLERANCE),
    ]


def _line_claims(pool: Pool, n: int, pad: int, box: Box) -> list[tuple[Function, Fraction]]:
    """The affine maps, with the slopes and biases that they have as floats."""
    ends = ([float(lo) for lo, _ in box], [float(hi) for _, hi in box])
    maps = _window(pool, n, pad).linear_bounds(*ends)
    claims: list[tuple[Function, Fraction]] = []
    for each, sign in zip(maps, (1, -1), strict=True):
        slopes = [Fraction(float(each.push([float(i == j) for j in range(n)])[0])) for i in range(n)]
        bias = Fraction(float(each.bias[0]))

        def over(x: Sequence[Any], slopes: list[Fraction] = slopes, bias: Fraction = bias, sign: int = sign) -> Any:
            line = _total(cell * slope for cell, slope in zip(x, slopes, strict=True)) + bias
            return (line - pool.kind.value(x, pad)) * sign

        claims.append((over, TOLERANCE))
    return claims


def lipschitz_constant(kind: Any, n: int) -> Fraction:
    """That of one window in the largest norm, rounded up."""
    if isinstance(kind, SmoothMax):
        return Fraction(1)
    return Fraction(math.nextafter(n ** (1 / float(kind.p)), math.inf))
