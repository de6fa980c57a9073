"""Linear relaxations: for each kind, affine maps below and above it on a box.

A bias is never derived from the slopes that were meant, but from those that were computed: for any slopes whatever
there is a least bias that bounds the kind. It has a closed form here, and that form is rounded outward. So a slope that
was rounded costs tightness in the last place, and never soundness.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, as_array
from ..kind import INTEGERS
from ..kinds import Avg, Lp, Max, Median, Min, Quantile, SmoothMax, Sum
from ..plan import plan_of
from . import intervals
from .affine import Affine, AllCells, Constant, OneCell, Pooled
from .boxes import cells_there, check_box, flattened, read_box, skips_nan, slabs, with_kind
from .frames import Frame, along, frame_of
from .rounding import down, up

if TYPE_CHECKING:
    from ..pool import Pool

UPPER = ("volume", "constant", "maxlin", "tilin")
LOWER = ("volume", "lo")

#: Cells of a part of the box that is worked on at a time: some arrays of doubles that the caches hold.
PART_CELLS = 1 << 14


def linear_bounds(
    pool: Pool, lo: ArrayLike, hi: ArrayLike, upper: str, lower: str | ArrayLike, at: ArrayLike | None
) -> tuple[Affine, Affine]:
    """`(lower, upper)`; `Pool.linear_bounds` says more."""
    intervals.check_kind(pool.kind)
    low, high = _in_floats(*read_box(lo, hi))
    _check_choices(pool, upper, lower)
    frame = frame_of(pool, low.shape)
    kind = pool.kind
    if isinstance(kind, Sum | Avg):
        check_box(low, high, skips_nan(pool))
        return _themselves(pool, frame, low, high)
    if isinstance(kind, Quantile | Median):
        return _constants(pool, frame, *intervals.bounds(pool, low, high))
    plain = isinstance(kind, Max | Min) and pool.skip is None and at is None and upper != "tilin"
    if plain and isinstance(lower, str):
        return _selected(pool, frame, low, high, upper, lower)
    check_box(low, high, skips_nan(pool))
    return _by_windows(pool, frame, low, high, upper, lower, at)


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
        raise ValueError(f"upper={upper!r} is not a way to choose the map above; give one of {UPPER}")
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
        seen = _count(pool, frame, there)
        bias = np.where(seen < pool.min_count, float(pool.skip or 0.0), 0.0)
    return Pooled(frame, pool, at, bias, above=False), Pooled(frame, pool, at, bias, above=True)


def _count(pool: Pool, frame: Frame, there: Array) -> Array:
    """How many cells of each window are there."""
    rows = frame.inputs(there)
    return np.asarray((np.take(rows, frame.places, -1) & frame.real).sum(-2))


def _constants(pool: Pool, frame: Frame, ylo: Array, yhi: Array) -> tuple[Affine, Affine]:
    below, above = (frame.results(y.astype(np.float64)) for y in (ylo, yhi))
    return Constant(frame, below, above=False), Constant(frame, above, above=True)


# --- Max and Min where one cell of each window will do -----------------------------------------------


def _selected(pool: Pool, frame: Frame, lo: Array, hi: Array, upper: str, lower: str) -> tuple[Affine, Affine]:
    """Below: one cell. Above: the cell with the largest hi, from which the others are told by the second largest.

    The engine finds both cells and keeps their places in a byte each. The rest is made slab by slab in the caches.
    """
    is_min = isinstance(pool.kind, Min)
    flat, low, high, _ = flattened(pool, lo, hi)
    largest, second = with_kind(flat, Max()), _second_largest(flat, low.shape)
    outputs = flat.output_shape(low.shape)
    slope, bias = (np.empty(outputs, low.dtype) for _ in range(2))
    below, above = (np.empty(outputs, _winner_dtype(largest, low)) for _ in range(2))
    alone = _windows_of_one_cell(flat, low.shape)
    for part, a, b in slabs(flat, low, high):
        check_box(lo, hi, part=(a, b))
        if is_min:
            a, b = np.negative(b), np.negative(a)
        these: Any = ... if a.shape == low.shape else part
        below[these] = largest.linearize(_chosen(a, b, lower))[1].residual.winners
        h1, linear = largest.linearize(b)
        above[these] = linear.residual.winners
        if upper == "constant":
            slope[these], bias[these] = 0.0, h1
            continue
        h2 = second(b, h1, linear)
        if alone is not None:
            np.copyto(h2, -np.inf, where=alone)
        _line_above(h1, h2, linear.push(a), largest(a), slope[these], bias[these])
    whole = with_kind(pool, Max())
    shaped = [each.reshape(frame.output_shape) for each in (below, above, slope, bias)]
    maps = (
        OneCell(frame, whole, shaped[0], None, None, above=False),
        OneCell(frame, whole, shaped[1], shaped[2], shaped[3], above=True),
    )
    return (maps[1]._mirrored(), maps[0]._mirrored()) if is_min else maps


def _winner_dtype(pool: Pool, x: Array) -> Any:
    return np.dtype(f"u{plan_of(pool, x.shape, x.dtype.name).residual.winners}")


def _chosen(lo: Array, hi: Array, lower: str) -> Array:
    """What the cell below has the most of: twice its midpoint, or its lo."""
    if lower == "lo":
        return lo
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(lo + hi)


def _second_largest(pool: Pool, shape: tuple[int, ...]) -> Callable[[Array, Array, Any], Array]:
    """What finds the second largest cell of each window, from the cells, the largest ones and the map to these.

    Where windows share no cell, the largest are taken away, and it is the largest of the others. Else it is the order
    statistic n - 2 of a window's n cells, whatever n is up to the kernel's k: the place `(n - 1) q` with
    `q = (k - 3/2) / (k - 1)` lies between n - 2 and n - 1, and the lower one is taken.
    """
    axes = pool._layout(shape).geometry
    cells = math.prod(axis.kernel for axis in axes)
    if all(not axis.adaptive and axis.stride > axis.dilation * (axis.kernel - 1) for axis in axes):
        return partial(_largest_of_others, with_kind(pool, Max()))
    ordered = with_kind(pool, Quantile((cells - 1.5) / (cells - 1), "lower"))
    return lambda hi, h1, linear: ordered(hi)


def _largest_of_others(largest: Pool, hi: Array, h1: Array, linear: Any) -> Array:
    with np.errstate(invalid="ignore"):
        return largest(hi - linear.pull(np.full_like(h1, np.inf)))


def _windows_of_one_cell(pool: Pool, shape: tuple[int, ...]) -> Array | None:
    """Which outputs see one cell alone, as an array that broadcasts; None where none does."""
    found = pool._layout(shape)
    one: Any = np.ones((1,) * len(shape), bool)
    for d, axis in zip(found.axes, found.geometry, strict=True):
        here = along(axis)[1].sum(0) == 1
        one = one & here.reshape([-1 if k == d else 1 for k in range(len(shape))])
    if not one.any():
        return None
    return one if len(found.output_shape) == len(shape) else np.asarray(one.all())


def _line_above(h1: Array, h2: Array, lo1: Array, least: Array, slope: Array, bias: Array) -> None:
    """The slope a of the cell with the largest hi, and the bias, into their places.

    For any a from 0 to 1 the least bias is the larger of `(1 - a) h1`, for that cell, and `h2 - a lo1`, for the others.
    With `a = (h1 - c) / (h1 - lo1)` both are `c - a lo1`, but for what the roundings of a change: a last place or two
    of the larger of |h1| and |lo1|, between which c lies.
    """
    limits = np.finfo(h1.dtype)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        c = np.maximum(least, h2)
        np.divide(h1 - c, h1 - lo1, out=slope)
        np.subtract(c, slope * lo1, out=bias)
        size = np.negative(lo1)
        np.maximum(size, h1, out=size)
        size *= 16 * limits.eps
        size += limits.tiny
        bias += size
    # One cell that leads everywhere is the maximum itself. What is not finite has no line, but a constant.
    leads = h2 <= lo1
    np.copyto(slope, 1.0, where=leads)
    np.copyto(bias, 0.0, where=leads)
    lines = np.isfinite(bias)
    if not lines.all():
        np.copyto(slope, 0.0, where=~lines)
        np.copyto(bias, h1, where=~lines)


# --- where all cells of a window have a slope ---------------------------------------------------------


@dataclass(frozen=True)
class Cells:
    """The cells of some windows, `[others, k, windows]`; where `real` is False there is none, and lo and hi are 0."""

    lo: Array
    hi: Array
    real: Array
    padded: Array
    at: Array | None
    weights: Array | None

    @property
    def least(self) -> Array:
        """The largest lo of each window."""
        return np.asarray(np.where(self.real, self.lo, -np.inf).max(1, keepdims=True))

    @property
    def highs(self) -> Array:
        """Every hi, and `-inf` where there is no cell."""
        return np.where(self.real, self.hi, -np.inf)

    @property
    def sizes(self) -> Array:
        """The largest magnitude of each cell."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    @property
    def bounded(self) -> Array:
        """Which windows have only finite ends."""
        return np.asarray((np.isfinite(self.lo) & np.isfinite(self.hi)).all(1))


#: `(slopes, bias)` of the map below, and of the map above.
Maps = tuple[tuple[Array, Array], tuple[Array, Array]]


def _by_windows(
    pool: Pool, frame: Frame, lo: Array, hi: Array, upper: str, lower: Any, at: ArrayLike | None
) -> tuple[Affine, Affine]:
    kind = pool.kind
    least = isinstance(kind, Min) or (isinstance(kind, SmoothMax) and kind.beta < 0)
    point = None if at is None else _like("at", at, lo)
    weights = None if isinstance(lower, str) else _like("lower", lower, lo)
    _check_point(point, weights, lo, hi)
    there = cells_there(pool, lo, hi)
    if there is not None:
        lo, hi = np.where(there, lo, 0.0), np.where(there, hi, 0.0)
    if least:
        lo, hi, point = -hi, -lo, None if point is None else -point
    relax = _relaxation(kind, upper, lower)
    rows = len(frame.inputs(lo))
    slopes = [np.empty((rows, *frame.places.shape)) for _ in range(2)]
    biases = [np.empty((rows, frame.places.shape[1])) for _ in range(2)]
    for part in _parts(rows, frame.places.size):
        cells = _cells(frame, part, lo, hi, there, point, weights)
        with np.errstate(all="ignore"):
            for k, (slope, bias) in enumerate(relax(cells)):
                slopes[k][part], biases[k][part] = slope, bias
    maps = [AllCells(frame, slopes[k], biases[k], bool(k)) for k in range(2)]
    _keep_in_bounds(pool, frame, maps, lo, hi, there, least)
    return (maps[1]._mirrored(), maps[0]._mirrored()) if least else (maps[0], maps[1])


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


def _parts(rows: int, cells: int) -> Iterator[slice]:
    each = max(1, PART_CELLS // max(cells, 1))
    return (slice(start, start + each) for start in range(0, rows, each))


def _cells(
    frame: Frame, part: slice, lo: Array, hi: Array, there: Array | None, point: Array | None, weights: Array | None
) -> Cells:
    def gathered(a: Array) -> Array:
        return frame.gathered(frame.inputs(a)[part].astype(np.float64, copy=False), 0.0)

    low, high = gathered(lo), gathered(hi)
    real = np.broadcast_to(frame.real, low.shape)
    if there is not None:
        real = real & np.take(frame.inputs(there)[part], frame.places, -1)
    extra = [None if a is None else np.where(real, gathered(a), 0.0) for a in (point, weights)]
    return Cells(low, high, real, np.broadcast_to(frame.padded, (len(low), len(frame.padded))), *extra)


def _relaxation(kind: Any, upper: str, lower: Any) -> Callable[[Cells], Maps]:
    if isinstance(kind, SmoothMax):
        counted = kind.count_include_pad
        return lambda cells: _smooth_max(cells, abs(float(kind.beta)), counted)
    if isinstance(kind, Lp):
        return lambda cells: _norm(cells, float(kind.p))
    return lambda cells: (_max_below(cells, lower), _max_above(cells, upper))


def _keep_in_bounds(
    pool: Pool, frame: Frame, maps: list[AllCells], lo: Array, hi: Array, there: Array | None, least: bool
) -> None:
    """What has no line is a constant: windows with infinite ends, and those that see too few cells."""
    odd = ~np.isfinite(maps[0]._bias) | ~np.isfinite(maps[1]._bias)
    odd |= ~np.isfinite(maps[0]._slopes).all(1) | ~np.isfinite(maps[1]._slopes).all(1)
    few = np.zeros(odd.shape, bool) if there is None else _count(pool, frame, there) < pool.min_count
    if not (odd | few).any():
        return
    a, b = (-hi, -lo) if least else (lo, hi)
    if there is not None:
        gone = float(pool.skip or 0.0)
        a, b = np.where(there, a, gone), np.where(there, b, gone)
    ends = intervals.bounds(pool, a, b)
    for chosen, y in zip(maps, ends[::-1] if least else ends, strict=True):
        rows = frame.results(y.astype(np.float64))
        np.copyto(chosen._bias, -rows if least else rows, where=odd | few)
        np.copyto(chosen._slopes, 0.0, where=(odd | few)[:, None])


# --- Max ------------------------------------------------------------------------------------------


def _max_below(cells: Cells, lower: Any) -> tuple[Array, Array]:
    """One cell, or a mixture: `max x >= sum of s_i x_i` for weights that add up to 1, and rounding is made up for."""
    if isinstance(lower, str):
        most = np.where(cells.real, cells.lo if lower == "lo" else cells.lo / 2 + cells.hi / 2, -np.inf)
        slopes = np.zeros(cells.lo.shape)
        np.put_along_axis(slopes, most.argmax(1)[:, None], 1.0, 1)
        return np.where(cells.real, slopes, 0.0), np.zeros((len(most), most.shape[2]))
    assert cells.weights is not None
    total = cells.weights.sum(1, keepdims=True)
    alike = cells.real / cells.real.sum(1, keepdims=True)
    mixed: Array = np.where(total > 0, cells.weights / np.where(total > 0, total, 1), alike)
    lost = (mixed * cells.sizes).sum(1)
    return mixed, down(np.zeros(lost.shape), lost, mixed.shape[1] + 4)


def _max_above(cells: Cells, upper: str) -> tuple[Array, Array]:
    c = np.maximum(cells.least, _level(cells, upper))
    width = cells.hi - cells.lo
    slopes = np.where(cells.real & (width > 0), np.maximum(cells.highs - c, 0) / width, 0.0)
    slopes = np.minimum(slopes, 1.0)
    # For these slopes the least c is the largest `hi - a (hi - lo)`: each cell lies below c + a (x - lo).
    needed = np.where(cells.real, cells.hi - slopes * width, -np.inf).max(1)
    shift = (slopes * cells.lo).sum(1)
    size = np.abs(needed) + (slopes * np.abs(cells.lo)).sum(1) + cells.sizes.max(1)
    bias = up(needed - shift, size, slopes.shape[1] + 6)
    # One cell that leads everywhere is the maximum itself.
    alone = ((slopes == 1).sum(1) == 1) & ((slopes > 0).sum(1) == 1)
    leads = np.where(slopes == 1, -np.inf, cells.highs).max(1) <= np.where(slopes == 1, cells.lo, np.inf).min(1)
    return slopes, np.where(alone & leads, 0.0, bias)


def _level(cells: Cells, upper: str) -> Array:
    """The c that was asked for, before it is held above the largest lo."""
    highs = np.sort(cells.highs, axis=1)[:, ::-1]
    if cells.at is not None:
        return _level_at(cells, highs)
    place = {"constant": 0, "volume": 1, "maxlin": 1, "tilin": 2}[upper]
    if place >= highs.shape[1]:
        return np.full((highs.shape[0], 1, highs.shape[2]), -np.inf)
    return highs[:, place : place + 1]


def _level_at(cells: Cells, highs: Array) -> Array:
    """The smallest c at which the cells above it have shares `(x - lo) / (hi - lo)` of at most 1 together."""
    assert cells.at is not None
    width = cells.hi - cells.lo
    shares = np.where(cells.real & (width > 0), (cells.at - cells.lo) / np.where(width > 0, width, 1), 0.0)
    order = np.argsort(cells.highs, axis=1)[:, ::-1]
    together = np.take_along_axis(shares, order, 1).cumsum(1)
    over: Array = np.asarray(together > 1)
    first = over.argmax(1, keepdims=True)
    return np.where(over.any(1, keepdims=True), np.take_along_axis(highs, first, 1), -np.inf)


# --- SmoothMax ------------------------------------------------------------------------------------


def _smooth_max(cells: Cells, beta: float, counted: bool) -> Maps:
    """For beta > 0, with `e(x) = exp(beta (x - s))` and `S = sum e(x_i) + zeros`: y = s + log(S) / beta is convex.

    Below, the tangent at the centre. Above, for any r > 0: `log S <= r S - 1 - log r`, where e lies below its chords.
    """
    zeros = cells.padded if counted else np.zeros(cells.padded.shape)
    s = cells.highs.max(1)
    s = np.where(zeros > 0, np.maximum(s, 0), s)[:, None]

    def e(x: Array) -> Array:
        return np.where(cells.real, np.exp(beta * (x - s)), 0.0)

    padding = zeros * np.exp(-beta * s[:, 0])
    return _tangent(cells, beta, s, e, padding), _chords(cells, beta, s, e, padding)


def _tangent(cells: Cells, beta: float, s: Array, e: Callable[[Array], Array], padding: Array) -> tuple[Array, Array]:
    n = cells.lo.shape[1] + 1
    middle = cells.lo / 2 + cells.hi / 2
    terms = e(middle)
    total = terms.sum(1) + padding
    slopes = terms / total[:, None]
    y = s[:, 0] + np.log(total) / beta
    bias = y - (slopes * middle).sum(1)
    # Every term is off by at most its exponent's last places, of which t exp(-t) <= 0.37 is left; the rest is rounding.
    widths = np.where(cells.real, cells.hi - cells.lo, 0.0).sum(1)
    size = np.abs(s[:, 0]) + (np.abs(np.log(total)) + n) / beta + (slopes * np.abs(middle)).sum(1) + widths
    return slopes, down(bias, size, 2 * n + 16)


def _chords(cells: Cells, beta: float, s: Array, e: Callable[[Array], Array], padding: Array) -> tuple[Array, Array]:
    n = cells.lo.shape[1] + 1
    low, high, width = e(cells.lo), e(cells.hi), cells.hi - cells.lo
    r = 1 / ((low / 2 + high / 2).sum(1) + padding)
    chord = np.clip(np.where(width > 0, (high - low) / np.where(width > 0, width, 1), 0), beta * low, beta * high)
    slopes = (r[:, None] / beta) * chord
    ends = np.maximum(r[:, None] / beta * low - slopes * cells.lo, r[:, None] / beta * high - slopes * cells.hi)
    bias = s[:, 0] + (r * padding - 1 - np.log(r)) / beta + np.where(cells.real, ends, 0).sum(1)
    size = np.abs(s[:, 0]) + (r * padding + 1 + np.abs(np.log(r))) / beta
    # exp is off by its exponent's last places: beta |x - s|, of which t exp(-t) is left.
    size = size + (np.where(cells.real, r[:, None] / beta, 0) * (low + high + 1)).sum(1) + (slopes * cells.sizes).sum(1)
    return slopes, up(bias, size, 2 * n + 16)


# --- Lp -------------------------------------------------------------------------------------------


def _norm(cells: Cells, p: float) -> Maps:
    """Below: `w(m) . x`, the tangent at the centre m, for any w of dual norm 1 or less. Above: chords of `|x|^p`."""
    scale = cells.sizes.max(1)
    scale = np.where(scale > 0, scale, 1.0)[:, None]
    return _norm_below(cells, p, scale), _norm_above(cells, p, scale)


def _norm_below(cells: Cells, p: float, scale: Array) -> tuple[Array, Array]:
    n = cells.lo.shape[1]
    middle = np.where(cells.real, cells.lo / 2 + cells.hi / 2, 0.0) / scale
    if p == 1:
        slopes = np.sign(middle)
    else:
        norm = (np.abs(middle) ** p).sum(1, keepdims=True) ** (1 / p)
        slopes = np.where(norm > 0, np.sign(middle) * (np.abs(middle) / np.where(norm > 0, norm, 1)) ** (p - 1), 0.0)
        slopes *= 1 - (n + 16) * (1 + p) * 2.0**-50  # so that the dual norm is at most 1 after all roundings
    return slopes, np.zeros((len(slopes), slopes.shape[2]))


def _norm_above(cells: Cells, p: float, scale: Array) -> tuple[Array, Array]:
    """`S^(1/p) <= h + r S` for any r > 0, with `h = (1 - 1/p) (r p)^(1/(1-p))`, and `S = sum |x_i|^p`."""
    n = cells.lo.shape[1]
    lo, hi = (np.where(cells.real, a, 0.0) / scale for a in (cells.lo, cells.hi))
    low, high, width = np.abs(lo) ** p, np.abs(hi) ** p, hi - lo
    middle = (low / 2 + high / 2).sum(1)
    if p == 1:
        r, h = np.ones(middle.shape), np.zeros(middle.shape)
    else:
        r = np.where(middle > 0, np.where(middle > 0, middle, 1) ** (1 / p - 1) / p, 1 / p)
        h = np.where(middle > 0, (1 - 1 / p) * (r * p) ** (1 / (1 - p)), 0.0)
    steep = [p * np.sign(a) * np.abs(a) ** (p - 1) for a in (lo, hi)]
    chord = np.clip(np.where(width > 0, (high - low) / np.where(width > 0, width, 1), steep[0]), *steep)
    slopes = r[:, None] * chord
    ends = np.maximum(r[:, None] * low - slopes * lo, r[:, None] * high - slopes * hi)
    size = np.abs(h) * (1 + p) + (
        r[:, None] * (low + high) * (1 + p) + np.abs(slopes) * np.maximum(np.abs(lo), np.abs(hi))
    ).sum(1)
    bias = np.where(middle > 0, up(h + ends.sum(1), size, n + 16), 0.0)
    # lo / scale and hi / scale are rounded: by a last place of numbers that are at most 1, each with its slope.
    bias = up(bias, (np.abs(slopes) + r[:, None] * p).sum(1), 4)
    return slopes, up(bias * scale[:, 0], np.abs(bias) * scale[:, 0], 4)
