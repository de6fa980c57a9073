"""Whether the weights of a kind are the derivative of its value.

The derivative is found from `value` alone, on `Dual`s: over Fractions where the kind computes with them exactly, over
floats where it does not. Between ties it must be what `weights` says. At a tie, where the derivative jumps, `weights`
is a choice; it is held against the derivatives at points nearby:

    each weight lies between the least and the greatest of them, and
    the weights add up to what theirs add up to, or each is the largest of its own (the policy "all").
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any, TypeAlias

from .kind import Cells, Kind, places_checked
from .scalars import Dual, is_nan, is_rounded, one, zero

Numbers: TypeAlias = Sequence[float]

#: Windows of one cell and of several, of both signs, without ties and with them, at zero too.
WINDOWS: list[Numbers] = [
    [1.375],
    [-0.625],
    [0.0],
    [0.5, -1.25],
    [-3.5, 0.75],
    [1.375, -0.625, 2.25, 0.875, -1.75],
    [-0.25, -2.0, -1.0, -4.5],
    [8.0, 0.125, 0.25, 3.0, 1.0, 0.5, 2.0, 5.0, 4.0],
    [1.5, 1.5],
    [0.0, 0.0],
    [-2.0, 3.0, 3.0],
    [3.0, -2.0, -2.0],
    [-1.25, -1.25, -1.25, -1.25],
    [2.0, -2.0, 0.0, 2.0, -2.0],
]
WITH_NAN: list[Numbers] = [[math.nan], [math.nan, 1.5, -2.25], [0.5, math.nan, -1.0, math.nan], [1.0, 2.0, math.nan]]
PADDED = (0, 1, 3)

_STEP = Fraction(1, 2**20)  # how near "nearby" is
_DIFFERENCE = 2.0**-24  # less than that, and more than what rounding loses
_JUMP = 1e-3  # by how much derivatives nearby may differ where there is no tie


def check_kind(kind: Kind, windows: Iterable[Numbers] | None = None) -> None:
    """Raise a ValueError if `kind.weights` is not the derivative of `kind.value`; it says where, and what would be.

    Windows with and without padding are tried: single cells, cells of both signs, ties, zeros and NaNs. For a kind that
    takes only some numbers (positive ones, say), give your own `windows`, as lists of numbers.

    >>> from ndpool import Max
    >>> check_kind(Max("split"))
    >>> class Middle(Max):
    ...     def value(self, x, pad=0):
    ...         return x[len(x) // 2]
    >>> check_kind(Middle())
    Traceback (most recent call last):
    ValueError: ...weights gives 1 for cell 0, and the derivative of value there is 0; ...
    """
    if not isinstance(kind, Kind):
        raise TypeError(f"kind={kind!r} is not a Kind; give for example Max() or Avg()")
    chosen = [*WINDOWS, *WITH_NAN] if windows is None else [list(window) for window in windows]
    for pad in PADDED:
        for window in chosen:
            if any(is_nan(cell) for cell in window):
                _check_nan(kind, window, pad)
            else:
                _check_window(kind, _numbers(kind, window, pad), pad)
        if pad and not kind.needs_cell:
            places_checked(kind, [], pad)
            kind.value_of_padding(pad, 0.0)


def _numbers(kind: Kind, window: Numbers, pad: int) -> list[Any]:
    """The window in Fractions, if the kind can compute with them and keeps them exact, or else in floats."""
    exact, floats = [Fraction(cell) for cell in window], [float(cell) for cell in window]
    try:
        found = [kind.value(exact, pad), *(weight for _, weight in kind.weights(exact, pad))]
    except TypeError:
        return floats
    return floats if any(map(is_rounded, found)) else exact


def _given(kind: Kind, x: Cells, pad: int) -> list[Any]:
    """One weight for each cell: those that are named, and 0."""
    given: list[Any] = [0] * len(x)
    for place, weight in places_checked(kind, x, pad):
        given[place] = given[place] + weight
    return given


def _derivative(kind: Kind, x: list[Any], pad: int) -> tuple[list[Any], float]:
    """How `value` moves with each cell, and how far from that a weight may be."""
    floats = [float(cell) for cell in x]
    for cells, slack in ((x, 1e-9 if any(map(is_rounded, x)) else 0.0), (floats, 1e-9)):
        with suppress(TypeError):
            return [_along(kind, cells, pad, i) for i in range(len(cells))], slack
    # The kind calls functions that know nothing of Duals, those of `math` say: differences must do.
    found = []
    for i, cell in enumerate(floats):
        above, below = ([*floats[:i], cell + move, *floats[i + 1 :]] for move in (_DIFFERENCE, -_DIFFERENCE))
        found.append((kind.value(above, pad) - kind.value(below, pad)) / (2 * _DIFFERENCE))
    return found, 1e-5


def _along(kind: Kind, x: list[Any], pad: int, i: int) -> Any:
    y = kind.value([Dual(cell, one(cell) if j == i else zero(cell)) for j, cell in enumerate(x)], pad)
    return y.tangent if isinstance(y, Dual) else 0


def _check_window(kind: Kind, x: list[Any], pad: int) -> None:
    given = _given(kind, x, pad)
    sizes = {abs(cell) for cell in x}
    nearby = [] if len(sizes) == len(x) and 0 not in sizes else [_derivative(kind, y, pad)[0] for y in _around(x)]
    ranges = [(min(column), max(column)) for column in zip(*nearby, strict=True)]
    if any(high - low > _JUMP for low, high in ranges):
        return _check_tie(kind, x, pad, given, ranges, [sum(found) for found in nearby])
    found, slack = _derivative(kind, x, pad)
    for i, (weight, derivative) in enumerate(zip(given, found, strict=True)):
        if not abs(weight - derivative) <= slack * (1 + abs(derivative)):
            raise _contradiction(kind, x, pad, f"gives {weight} for cell {i}", f"there is {derivative}")
    return None


def _around(x: list[Any]) -> list[list[Any]]:
    """Points near to x at which no cells are equal, above it, below it and astride; every cell leads once."""
    n, step = len(x), type(x[0])(_STEP)
    moves: list[list[Any]] = [
        [k + 1 for k in range(n)],
        [-k - 1 for k in range(n)],
        [2 * k - n + Fraction(1, 2) for k in range(n)],
    ]
    orders = [[(k + r) % n for k in range(n)] for r in range(n)]
    orders += [order[::-1] for order in orders]
    return [
        [cell + type(cell)(move[k]) * step for cell, k in zip(x, order, strict=True)]
        for move in moves
        for order in orders
    ]


def _check_tie(
    kind: Kind, x: list[Any], pad: int, given: list[Any], ranges: list[tuple[Any, Any]], sums: list[Any]
) -> None:
    for i, (weight, (low, high)) in enumerate(zip(given, ranges, strict=True)):
        if not low - _JUMP <= weight <= high + _JUMP:
            raise _contradiction(kind, x, pad, f"gives {weight} for cell {i}", f"is {low} to {high} around there")
    largest = [low if abs(low) > abs(high) else high for low, high in ranges]
    every = all(abs(weight - most) <= _JUMP for weight, most in zip(given, largest, strict=True))
    if max(sums) - min(sums) <= _JUMP and not abs(sum(given) - sums[0]) <= _JUMP and not every:
        raise _contradiction(
            kind, x, pad, f"gives {[str(w) for w in given]}, {sum(given)} in all", f"adds up to {sums[0]} around there"
        )


def _check_nan(kind: Kind, x: Numbers, pad: int) -> None:
    """A value that is NaN leans on a NaN, or by a NaN; one that is a number leans on none."""
    try:
        value = kind.value(x, pad)
    except (ArithmeticError, TypeError, ValueError):
        return  # the kind does not take NaNs
    weights = places_checked(kind, x, pad)
    on_nan = [(i, weight) for i, weight in weights if is_nan(weight) or (is_nan(x[i]) and weight != 0)]
    if is_nan(value) and not on_nan:
        raise _contradiction(kind, x, pad, f"gives {weights}, on no NaN", "is one on a NaN, as value is NaN")
    if on_nan and not is_nan(value):
        i, weight = on_nan[0]
        raise _contradiction(kind, x, pad, f"gives {weight} for cell {i}", f"is on numbers alone, as value is {value}")


def _contradiction(kind: Kind, x: Cells, pad: int, given: str, found: str) -> ValueError:
    return ValueError(
        f"{kind!r} over the cells {[float(cell) for cell in x]} with {pad} padded ones: weights {given}, and the "
        f"derivative of value {found}; make weights the derivative of value"
    )
