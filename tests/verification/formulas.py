"""The affine maps of each kind as formulas over whole arrays, in doubles: what the engine's are compared with.

`below_and_above(pool, lo, hi)` gives the slopes `[others, cells of a window, windows]` and the bias `[others, windows]`
of both maps. What has no line is NaN or infinite in them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndpool import Lp, Min, SmoothMax
from ndpool.bounds.frames import frame_of
from ndpool.bounds.rounding import down, up

Array = np.ndarray
Maps = tuple[tuple[Array, Array], tuple[Array, Array]]


def below_and_above(
    pool: Any, lo: Array, hi: Array, upper: str = "volume", lower: Any = "volume", at: Any = None
) -> Maps:
    """Both maps; those of a minimum are of the negated box, as the engine has them before it mirrors them."""
    kind, frame = pool.kind, frame_of(pool, lo.shape)
    lo, hi = lo.astype(np.float64), hi.astype(np.float64)
    if isinstance(kind, Min) or (isinstance(kind, SmoothMax) and kind.beta < 0):
        lo, hi, at = -hi, -lo, None if at is None else -at

    def gathered(a: Any) -> Any:
        return None if a is None else np.where(frame.real, np.take(frame.inputs(np.asarray(a)), frame.places, -1), 0.0)

    low, weights = gathered(lo), None if isinstance(lower, str) else lower
    real = np.broadcast_to(frame.real, low.shape)
    padded = np.broadcast_to(frame.padded, (len(low), len(frame.padded)))
    cells = Cells(low, gathered(hi), real, padded, gathered(at), gathered(weights))
    with np.errstate(all="ignore"):
        if isinstance(kind, SmoothMax):
            return _smooth_max(cells, abs(float(kind.beta)), kind.count_include_pad)
        if isinstance(kind, Lp):
            return _norm(cells, float(kind.p))
        return _max_below(cells, lower), _max_above(cells, upper)


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
