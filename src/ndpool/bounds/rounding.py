"""Outward rounding: by how much a pool's output may be off, kind by kind, from what the engine promises.

`u` is half the distance from 1 to the next number of the result's dtype, n the cells of a window, and M the largest
magnitude of a cell.

    Max, Min, Quantile of one cell   nothing: the output is one of the cells; so is a Median of an odd number of them
    Avg with rounding                nothing: the exact mean is rounded once, and rounding keeps the order
    Sum, Avg                         rule "Accumulation": floats of 16 and 32 bits are added up in double, which loses
                                     at most n 2^-53 of the sum of magnitudes, and are rounded once: u |y|. Doubles
                                     keep the errors of their additions, and lose n^2 2^-104 of that sum. (With
                                     `skip`, long stretches are plain doubles.) A division rounds once more
    Quantile between two cells       three roundings in double of numbers that are at most 2 M, then u |y|
    SmoothMax                        a part in a million (float32), 1e-14 (float64) or two last places (16 bits) of
                                     |y| + log(n)/|beta|, and what a sum of n terms loses, n 2^-53 / |beta|
    Lp                               the same parts of y itself, and n 2^-53 of it

A bound has to hold for the reals and for what the engine gives at any point of the box. Both kinds of error are at
most what is listed, and all of the functions grow with every cell (Lp: with every magnitude). So twice the error,
added to what the engine gives at the end of the box, is enough. It is taken a little larger for its own rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Array
from ..kinds import Avg, Lp, Max, Median, Min, Quantile, SmoothMax

if TYPE_CHECKING:
    from ..pool import Pool

#: Half a unit in the last place of 1, by the names of dtypes, and the smallest positive number.
UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
LEAST = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 2.0**-1074}
#: The largest finite number.
LARGEST = {
    "float16": 65504.0,
    "bfloat16": math.ldexp(255, 120),
    "float32": math.ldexp(2**24 - 1, 104),
    "float64": math.ldexp(2**53 - 1, 971),
}
#: What the smooth kinds promise, relative to their size.
SMOOTH = {"float16": 2.0**-9, "bfloat16": 2.0**-6, "float32": 1e-6, "float64": 1e-14}


@dataclass(frozen=True)
class Error:
    """How far an output y may be off: `relative * |y| + per_size * size + floor`.

    The size is the largest finite magnitude of the cells that are looked at: those of one window, or more.
    """

    relative: float
    per_size: float
    floor: float
    #: No output of finite cells is larger than so many times the size; None where that is not known.
    mass: float | None = None

    def absolute(self, size: Any) -> Any:
        """The part that does not depend on y."""
        return self.per_size * size + self.floor


def error_of(pool: Pool, cells: int, result: str) -> Error | None:
    """The error of a pool whose windows have so many cells; None where there is none."""
    kind, unit = pool.kind, UNIT.get(result, 0.0)
    if isinstance(kind, Max | Min) or result not in UNIT:
        return None
    if isinstance(kind, SmoothMax):
        part = SMOOTH[result]
        return Error(part, 0.0, (part * math.log(cells + 1) + cells * 2.0**-53) / abs(kind.beta) + LEAST[result])
    if isinstance(kind, Lp):
        return Error(SMOOTH[result] + cells * 2.0**-53, 0.0, 2 * LEAST[result])
    if isinstance(kind, Quantile | Median):
        return None if kind.one_winner() is not None else Error(2 * unit, 2.0**-50, LEAST[result])
    mass = _mass(pool, cells)
    return Error(2 * unit, lost_in_sums(cells, result, pool.skip is not None) * mass, LEAST[result], mass)


def lost_in_sums(cells: int, result: str, skips: bool) -> float:
    """The part of the sum of magnitudes that a sum of so many cells may lose, before it is rounded."""
    plain = (cells + 4) * 2.0**-52
    return plain * plain if result == "float64" and not skips else plain


def _mass(pool: Pool, cells: int) -> float:
    """The sum of magnitudes of a window whose cells are at most 1, over what it is divided by."""
    if isinstance(pool.kind, Avg):
        return 1.0 if pool.kind.divisor_override is None else cells / pool.kind.divisor_override
    return float(cells)


#: Twice the error, and a little for its own rounding.
COUNTED = 2.01


def outward(y: Array, error: Error, size: Any, up: bool) -> Array:
    """`y` moved outward by twice its error, in its own memory if it is a float of 32 bits or more.

    The sum itself is rounded, by at most u |y|: the relative part is at least twice that, and is counted twice.
    """
    wide = y if y.dtype.itemsize > 2 else y.astype(np.float32)
    move = np.abs(wide)
    move *= wide.dtype.type(COUNTED * error.relative)
    move += np.asarray(error.absolute(size) * COUNTED + LEAST[_name(wide)]).astype(wide.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        (np.add if up else np.subtract)(wide, move, out=wide)
    with np.errstate(over="ignore"):
        return wide if wide is y else np.asarray(wide.astype(y.dtype))


def for_engine(error: Error, result: str) -> tuple[float, float, float, float, float]:
    """The numbers of the same, as the engine takes them: relative, per size, floor, how they count, and the least."""
    wide = result if result in ("float32", "float64") else "float32"
    return COUNTED * error.relative, error.per_size, error.floor, COUNTED, LEAST[wide]


def _name(a: Array) -> str:
    return str(a.dtype.name)


def up(a: Array, size: Array, roundings: int) -> Array:
    """A double that is at least the number of which `a` is a computed value, off by so many roundings of `size`."""
    return np.asarray(a + (size * (roundings * 2.0**-52) + 2.0**-1070))


def down(a: Array, size: Array, roundings: int) -> Array:
    """Likewise, one that is at most that number."""
    return np.asarray(a - (size * (roundings * 2.0**-52) + 2.0**-1070))
