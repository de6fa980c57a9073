"""Linear relaxations: for each kind, affine maps below and above it on a box.

A bias is never derived from the slopes that were meant, but from those that were computed: for any slopes whatever
there is a least bias that bounds the kind. It has a closed form, and that form is rounded outward. So a slope that was
rounded costs tightness in the last place, and never soundness. The engine does this for all windows at once, each in a
lane of its registers (csrc/kinds/box_ends.cpp and box_curves.cpp); what has no line, it hands back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, as_array
from ..kind import INTEGERS
from ..kinds import Avg, Lp, Max, Median, Min, Quantile, SmoothMax, Sum
from ..plan import plan_of
from . import intervals
from .affine import Affine, AllCells, Constant, OneCell, Pooled
from .boxes import cells_there, check_box, read_box, skips_nan, with_kind
from .frames import Frame, frame_of

if TYPE_CHECKING:
    from ..pool import Pool

#: The ways to choose the map above a maximum, and which of the largest hi each is drawn from, counted from 0.
UPPER = {"volume": 1, "constant": 0, "maxlin": 1, "tilin": 2}
LOWER = ("volume", "lo")


def linear_bounds(
    pool: Pool, lo: ArrayLike, hi: ArrayLike, upper: str, lower: str | ArrayLike, at: ArrayLike | None
) -> tuple[Affine, Affine]:
    """`(lower, upper)`; `Pool.linear_bounds` says more."""
    intervals.check_kind(pool.kind)
    low, high = _in_floats(*read_box(lo, hi))
    _check_choices(pool, upper, lower)
    frame = frame_of(pool, low.shape)
    if isinstance(pool.kind, Sum | Avg):
        check_box(low, high, skips_nan(pool))
        return _themselves(pool, frame, low, high)
    if isinstance(pool.kind, Quantile | Median):
        return _constants(frame, *intervals.bounds(pool, low, high))
    point = None if at is None else _like("at", at, low)
    weights = None if isinstance(lower, str) else _like("lower", lower, low)
    if point is not None or weights is not None:
        check_box(low, high, skips_nan(pool))
        _check_point(point, weights, low, high)
    elif isinstance(pool.kind, Max | Min) and pool.skip is None and upper != "tilin":
        return _selected(pool, frame, low, high, upper, str(lower) == "lo")
    return _by_windows(pool, frame, low, high, UPPER[upper], str(lower) == "lo", point, weights)


def _in_floats(lo: Array, hi: Array) -> tuple[Array, Array]:
    """The box in floats of 32 or 64 bits that the engine is fast with, exactly."""
    if lo.dtype.name in INTEGERS:
        wide = lo.astype(np.float64), hi.astype(np.float64)
        for name, a, b in (("lo", lo, wide[0]), ("hi", hi, wide[1])):
            if lo.dtype.itemsize == 8 and not np.array_equal(a.astype(object), b.astype(object)):
                raise ValueError(f"{name} has integers that no double holds exactly; give smaller ones, or floats")
        return wide
    if lo.dtype.itemsize == 2:
        return lo.astype(np.float32), hi.astype(np.float32)
    return lo, hi


def _check_choices(pool: Pool, upper: Any, lower: Any) -> None:
    if not isinstance(upper, str) or upper not in UPPER:
        raise ValueError(f"upper={upper!r} is not a way to choose the map above; give one of {tuple(UPPER)}")
    if isinstance(lower, str) and lower not in LOWER:
        raise ValueError(f"lower={lower!r} is not a way to choose the map below; give one of {LOWER}, or weights")
    if getattr(pool.kind, "rounding", None) is not None:
        raise TypeError(f"{pool.kind!r} is rounded to integers and no affine map is near it; leave rounding out")


# --- Sum, Avg and Quantiles -----------------------------------------------------------------------


def _themselves(pool: Pool, frame: Frame, lo: Array, hi: Array) -> tuple[Affine, Affine]:
    there, bias = cells_there(pool, lo, hi), np.zeros(frame.results(np.empty(frame.output_shape)).shape)
    at = None
    if there is not None:
        at = np.where(there, 1.0 if pool.skip != 1 else 2.0, float(pool.skip or 0.0))
        seen = _count(frame, there)
        bias = np.where(seen < pool.min_count, float(pool.skip or 0.0), 0.0)
    return Pooled(frame, pool, at, bias, above=False), Pooled(frame, pool, at, bias, above=True)


def _count(frame: Frame, there: Array) -> Array:
    """How many cells of each window are there."""
    rows = frame.inputs(there)
    return np.asarray((np.take(rows, frame.places, -1) & frame.real).sum(-2))


def _constants(frame: Frame, ylo: Array, yhi: Array) -> tuple[Affine, Affine]:
    below, above = (frame.results(y.astype(np.float64)) for y in (ylo, yhi))
    return Constant(frame, below, above=False), Constant(frame, above, above=True)


# --- Max and Min where one cell of each window will do -----------------------------------------------


def _selected(pool: Pool, frame: Frame, lo: Array, hi: Array, upper: str, by_lo: bool) -> tuple[Affine, Affine]:
    """Below: one cell. Above: the cell with the largest hi, from which the others are told by the second largest.

    The engine finds both cells, keeps their places in a byte each, and draws the line. A minimum is the maximum of the
    negated box.
    """
    is_min = isinstance(pool.kind, Min)
    whole = with_kind(pool, Max())
    shape = frame.rows, frame.places.shape[1]
    slope, bias = (np.empty(shape, lo.dtype.newbyteorder("=")) for _ in range(2))
    places = plan_of(whole, lo.shape, lo.dtype.name).residual.winners
    below, above = (np.empty(shape, f"u{places}") for _ in range(2))
    in_order = frame.lanes(64 // lo.dtype.itemsize).select(
        _matrix(frame, lo),
        _matrix(frame, hi),
        lo.dtype.name,
        below,
        above,
        places,
        slope,
        bias,
        minimum=is_min,
        by_lo=by_lo,
        constant=upper == "constant",
    )
    if not in_order:
        check_box(lo, hi)
    shaped = [frame.as_output(each) for each in (below, above, slope, bias)]
    maps = (
        OneCell(frame, whole, shaped[0], None, None, above=False),
        OneCell(frame, whole, shaped[1], shaped[2], shaped[3], above=True),
    )
    return (maps[1]._mirrored(), maps[0]._mirrored()) if is_min else maps


def _matrix(frame: Frame, a: Array) -> Array:
    """An array as the engine reads it: dense (others, cells)."""
    return np.require(frame.inputs(a), a.dtype.newbyteorder("="), ["C", "A"])


# --- where all cells of a window have a slope ---------------------------------------------------------


def _by_windows(
    pool: Pool,
    frame: Frame,
    lo: Array,
    hi: Array,
    level: int,
    by_lo: bool,
    point: Array | None,
    weights: Array | None,
) -> tuple[Affine, Affine]:
    """The engine's maps, in the box's own dtype.

    A cell that is not there is NaN at both ends. Minima are mirrored maxima.
    """
    kind = pool.kind
    least = isinstance(kind, Min) or (isinstance(kind, SmoothMax) and kind.beta < 0)
    if pool.skip is not None:
        check_box(lo, hi, skips_nan(pool))
    there = cells_there(pool, lo, hi)
    ends = (lo, hi) if there is None else (np.where(there, lo, np.nan), np.where(there, hi, np.nan))
    name, parameter = _of_kind(kind, level)
    shape = frame.rows, *frame.places.shape
    dtype = lo.dtype.newbyteorder("=")
    slopes = [np.empty(shape, dtype) for _ in range(2)]
    biases = [np.empty((shape[0], shape[2]), dtype) for _ in range(2)]
    is_odd = frame.lanes(8).relax(
        name,
        _matrix(frame, ends[0]),
        _matrix(frame, ends[1]),
        lo.dtype.name,
        parameter,
        slopes[0],
        biases[0],
        slopes[1],
        biases[1],
        minimum=least,
        by_lo=by_lo,
        at=None if point is None or name != "max" else _matrix(frame, point),
        weights=None if weights is None or name != "max" else _matrix(frame, weights),
        zeros=_zeros(kind, frame),
        check=pool.skip is None,
    )
    if is_odd is None:
        check_box(lo, hi)
    maps = [AllCells(frame, slopes[k], biases[k], bool(k)) for k in range(2)]
    if is_odd or there is not None:
        _keep_in_bounds(pool, frame, maps, lo, hi, there, least)
    return (maps[1]._mirrored(), maps[0]._mirrored()) if least else (maps[0], maps[1])


def _of_kind(kind: Any, level: int) -> tuple[str, float]:
    """The kind as the engine knows it here, and its number."""
    if isinstance(kind, Lp):
        return "lp", float(kind.p)
    if isinstance(kind, SmoothMax):
        return "smooth_max", abs(float(kind.beta))
    return "max", float(level)


def _zeros(kind: Any, frame: Frame) -> Array | None:
    """How many padded cells each window counts as zeros; None where none does."""
    counts = isinstance(kind, SmoothMax) and kind.count_include_pad and frame.padded.any()
    return frame.padded.astype(np.float64) if counts else None


def _like(name: str, a: Any, lo: Array) -> Array:
    found = as_array(name, a).astype(np.float64)
    if found.shape != lo.shape:
        raise ValueError(f"{name} has shape {found.shape} and the box {lo.shape}; make them equal")
    return np.asarray(found)


def _check_point(point: Array | None, weights: Array | None, lo: Array, hi: Array) -> None:
    if point is not None and not ((lo <= point) & (point <= hi)).all():
        at = [int(i) for i in np.argwhere(~((lo <= point) & (point <= hi)))[0]]
        place = tuple(at)
        raise ValueError(f"at{at} = {point[place]} is not between {lo[place]} and {hi[place]}; give a point of the box")
    if weights is not None and not ((weights >= 0) & np.isfinite(weights)).all():
        raise ValueError("lower has a weight that is negative or not finite; give weights from 0 up")


def _keep_in_bounds(
    pool: Pool, frame: Frame, maps: list[AllCells], lo: Array, hi: Array, there: Array | None, least: bool
) -> None:
    """What has no line is a constant: windows with infinite ends, and those that see too few cells."""
    odd = ~np.isfinite(maps[0]._kept) | ~np.isfinite(maps[1]._kept)
    if there is not None:
        odd |= _count(frame, there) < pool.min_count
    if not odd.any():
        return
    ends = intervals.bounds(pool, lo, hi)
    for chosen, y in zip(maps, ends[::-1] if least else ends, strict=True):
        rows = frame.results(y.astype(np.float64))
        np.copyto(chosen._kept, -rows if least else rows, where=odd, casting="same_kind")
        np.copyto(chosen._slopes, 0.0, where=odd[:, None])
