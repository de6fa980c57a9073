"""Lipschitz constants of pools: `|pool(x) - pool(z)| <= k |x - z|` in the norms 1, 2 and infinity.

A pool's constant is the largest norm of its derivative. Rows of the derivative are windows, columns are cells. In the
largest norm it is the largest sum of a row, in norm 1 the largest sum of a column, and in norm 2 at most the root of
the product of both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kinds import Avg, Lp, Max, Median, Min, Quantile, SmoothMax, Sum
from ..windows import Axis
from .frames import along
from .intervals import check_kind

if TYPE_CHECKING:
    from ..pool import Pool

#: The longest axis whose matrix is written out for its norm 2.
LONGEST = 2048


@dataclass(frozen=True)
class Lipschitz:
    """A constant, and whether no smaller one will do; else it is only known to be large enough.

    >>> float(Lipschitz(2.0, exact=True))
    2.0
    """

    value: float
    exact: bool

    def __float__(self) -> float:
        return self.value


def lipschitz(pool: Pool, shape: tuple[int, ...], norm: float) -> Lipschitz:
    """The constant of a pool over a shape; `Pool.lipschitz` says more."""
    if norm not in (1, 2, math.inf):
        raise ValueError(f"norm={norm!r} is not one of 1, 2 and inf; give one of these")
    check_kind(pool.kind)
    if pool.skip is not None:
        raise ValueError(f"skip={pool.skip!r}: an output jumps where a cell becomes one that is skipped; leave it out")
    if getattr(pool.kind, "rounding", None) is not None:
        raise ValueError(f"{pool.kind!r} is rounded to integers, and jumps from one to the next; leave rounding out")
    axes = pool._layout(shape).geometry
    kind = pool.kind
    if isinstance(kind, Sum | Avg):
        return _linear(kind, axes, norm)
    cells = math.prod(_most_in_a_window(axis) for axis in axes)
    overlap = math.prod(_most_over_a_cell(axis) for axis in axes)
    if isinstance(kind, Lp):
        return _norms(float(kind.p), cells, overlap, norm)
    root = {1: float(overlap), 2: math.sqrt(overlap), math.inf: 1.0}[norm]
    one_end = isinstance(kind, Max | Min | SmoothMax) or (isinstance(kind, Quantile) and kind.q in (0.0, 1.0))
    exact = one_end or norm == math.inf or (overlap == 1 and _chooses_a_cell(kind, cells))
    return Lipschitz(root, exact)


def _chooses_a_cell(kind: Any, cells: int) -> bool:
    """Whether an order statistic of so many cells is one of them, so that its weight on it is 1."""
    assert isinstance(kind, Quantile | Median)
    lo, hi, _ = kind.place(cells)
    return lo == hi


def _norms(p: float, cells: int, overlap: int, norm: float) -> Lipschitz:
    """Of Lp: the weights of a window have norm 1 in the dual norm, and one large cell has weight 1 in all windows."""
    if norm == math.inf:
        return Lipschitz(cells ** (1 / p), True)
    if norm == 1:
        return Lipschitz(float(overlap), True)
    widest = max(1.0, cells ** (1 / p - 1 / 2))
    return Lipschitz(widest * math.sqrt(overlap), p >= 2 or overlap == 1 or cells == 1)


def _linear(kind: Sum | Avg, axes: tuple[Axis, ...], norm: float) -> Lipschitz:
    """A product over the axes, as windows and divisors are: the matrix of a pool is that of each axis, multiplied."""
    found = [_along(kind, axis, norm) for axis in axes]
    fixed = kind.divisor_override if isinstance(kind, Avg) and kind.divisor_override is not None else 1
    return Lipschitz(math.prod(each.value for each in found) / fixed, all(each.exact for each in found))


def _along(kind: Sum | Avg, axis: Axis, norm: float) -> Lipschitz:
    outputs, cells, weights = _entries(kind, axis)
    rows = np.bincount(outputs, weights, axis.output).max()
    columns = np.bincount(cells, weights, axis.length).max()
    if norm != 2:
        return Lipschitz(float(rows if norm == math.inf else columns), True)
    if max(axis.length, axis.output) > LONGEST:
        return Lipschitz(math.sqrt(rows * columns), False)
    matrix = np.zeros((axis.output, axis.length))
    np.add.at(matrix, (outputs, cells), weights)
    return Lipschitz(float(np.linalg.norm(matrix, 2)) * (1 + 1e-12), True)


def _entries(kind: Sum | Avg, axis: Axis) -> tuple[Any, Any, Any]:
    """The matrix of one axis: of each entry that is not 0 the output, the cell and the number."""
    places, real, counted = along(axis)
    if isinstance(kind, Sum) or kind.divisor_override is not None:
        divisor: Any = np.ones(axis.output)
    else:
        divisor = counted if kind.count_include_pad else real.sum(0)
    outputs = np.broadcast_to(np.arange(axis.output), places.shape)[real]
    return outputs, places[real], 1 / divisor[outputs]


def _most_in_a_window(axis: Axis) -> int:
    return int(along(axis)[1].sum(0).max())


def _most_over_a_cell(axis: Axis) -> int:
    places, real, _ = along(axis)
    return int(np.bincount(places[real], minlength=axis.length).max())
