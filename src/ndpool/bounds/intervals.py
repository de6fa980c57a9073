"""Interval bounds: the least and the greatest output over all inputs of a box.

    grows with every cell (all kinds but Lp and Mode)   [f(lo), f(hi)]
    Lp, which grows with every magnitude                [f(least magnitudes), f(largest magnitudes)]

Both ends are attained, so no interval is narrower; beside that they are rounded outward.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .. import native
from ..arrays import Array
from ..kind import INTEGERS
from ..kinds import Avg, Lp, Max, Median, Min, Mode, Quantile, SmoothMax, Sum
from ..plan import plan_of
from .boxes import cells_there, check_box, flattened, read_box, skips_nan, slabs
from .frames import along
from .rounding import LARGEST, Error, error_of, for_engine, outward

if TYPE_CHECKING:
    from ..kind import Kind
    from ..pool import Pool

GROWING = (Max, Min, Avg, Sum, SmoothMax, Quantile, Median)


def bounds(pool: Pool, lo: ArrayLike, hi: ArrayLike) -> tuple[Array, Array]:
    """`(ylo, yhi)` with `ylo <= pool(x) <= yhi` for every x of the box; `Pool.bounds` says more."""
    check_kind(pool.kind)
    whole = read_box(lo, hi)
    flat, low, high, shape = flattened(pool, *whole)
    flat.kind.check_dtype(low.dtype.name)
    result = flat.kind.result_dtype(low.dtype.newbyteorder("="))
    ylo, yhi = (np.empty(flat.output_shape(low.shape), result) for _ in range(2))
    in_one_go = _is_the_engines(flat, low, result)
    for part, a, b in _parts(flat, low, high, in_one_go):
        ends = (ylo, yhi) if a.shape == low.shape else (ylo[part], yhi[part])
        if in_one_go:
            _engine_bounds(flat, whole, a, b, ends)
        else:
            check_box(*whole, skips_nan(flat), (a, b))
            _slab_bounds(flat, a, b, ends)
    return ylo.reshape(shape), yhi.reshape(shape)


def _parts(pool: Pool, lo: Array, hi: Array, in_one_go: bool) -> Iterator[tuple[slice, Array, Array]]:
    """The box as it is, where the engine can read it so; else slab by slab."""
    if in_one_go and all(a.flags.c_contiguous and a.flags.aligned and a.dtype.isnative for a in (lo, hi)):
        yield slice(None), lo, hi
    else:
        yield from slabs(pool, lo, hi)


# --- in one go ------------------------------------------------------------------------------------


def _is_the_engines(pool: Pool, lo: Array, result: np.dtype[Any]) -> bool:
    """Whether the engine checks, pools and rounds the box by itself: where all cells are there and nothing can wrap.

    Of integers it takes the kinds that are not rounded here.
    """
    if pool.skip is not None:
        return False
    return lo.dtype.name not in INTEGERS or (result.name in INTEGERS and not isinstance(pool.kind, Sum))


def _engine_bounds(pool: Pool, whole: tuple[Array, Array], lo: Array, hi: Array, ends: tuple[Array, Array]) -> None:
    """The engine's way, which leaves what is not finite to the slabs."""
    native_dtype = lo.dtype.newbyteorder("=")
    pool, a, b, _ = flattened(pool, *(np.require(x, native_dtype, ["C", "A"]) for x in (lo, hi)))
    ends = ends[0].reshape(pool.output_shape(a.shape)), ends[1].reshape(pool.output_shape(a.shape))
    plan = plan_of(pool, a.shape, lo.dtype.name)
    error = _error(pool, a, ends[0].dtype.name)
    given = None if error is None else (_size_of(pool, error), *for_engine(error, ends[0].dtype.name))
    odd = native.bounds(plan, a, b, *ends, given)
    if odd is None:
        check_box(*whole)
    parts: list[Any] = [...] if odd and 0 in plan.axes else odd or []
    for part in parts:
        _slab_bounds(pool, a[part], b[part], (ends[0][part], ends[1][part]))


def _error(pool: Pool, lo: Array, result: str) -> Error | None:
    """What the outputs may be off; None where they are cells, as a Median of an odd number of cells is."""
    axes = pool._layout(lo.shape).geometry
    if isinstance(pool.kind, Quantile | Median) and pool.skip is None and _is_quarter(pool.kind):
        counts = itertools.product(*({int(n) for n in along(axis)[1].sum(0)} for axis in axes))
        places = (pool.kind.place(math.prod(count)) for count in counts)
        if all(below == above for below, above, _ in places):
            return None
    return error_of(pool, math.prod(axis.kernel for axis in axes), result)


def _is_quarter(kind: Quantile | Median) -> bool:
    """Whether places in the order of the cells are found without any rounding."""
    return isinstance(kind, Median) or float(4 * kind.q).is_integer()


def _size_of(pool: Pool, error: Error) -> str:
    """Whose largest magnitude the error depends on: that of a piece of the box, or of each window."""
    if not error.per_size:
        return "none"
    return "window" if isinstance(pool.kind, Quantile | Median) else "piece"


# --- slab by slab ---------------------------------------------------------------------------------


def _slab_bounds(pool: Pool, lo: Array, hi: Array, ends: tuple[Array, Array]) -> None:
    """Both ends of a slab that has been checked, with all that may be in it."""
    _check_sum(pool, lo, hi)
    if isinstance(pool.kind, Lp):
        _norm_bounds(pool, lo, hi, ends)
    else:
        _growing_bounds(pool, lo, hi, ends)


def check_kind(kind: Kind) -> None:
    """Raises a TypeError where nothing is known that would bound the kind."""
    if isinstance(kind, Mode):
        raise TypeError(
            f"{kind!r} has no bounds: the value that most cells have jumps where two cells become equal; "
            "bound Min and Max over the same window, between which it lies"
        )
    if type(kind) not in (*GROWING, Lp):
        raise TypeError(
            f"{kind!r} has no bounds: ndpool does not know how it grows with its cells; use a kind of ndpool's own"
        )


def _check_sum(pool: Pool, lo: Array, hi: Array) -> None:
    """Sums of integers wrap around at 2**64, and do not grow there."""
    if not isinstance(pool.kind, Sum) or lo.dtype.name not in INTEGERS or not lo.size:
        return
    cells = math.prod(axis.kernel for axis in pool._layout(lo.shape).geometry)
    most = cells * max(abs(int(lo.min())), abs(int(hi.max())))
    limit = np.iinfo(pool.kind.result_dtype(lo.dtype)).max
    if most > limit:
        raise ValueError(
            f"a sum of {cells} cells between {lo.min()} and {hi.max()} may be beyond {limit}, where sums "
            "of integers wrap around and have no bounds; give floats"
        )


def _growing_bounds(pool: Pool, lo: Array, hi: Array, ends: tuple[Array, Array]) -> None:
    if pool.skip is not None:
        cells_there(pool, lo, hi)
    pool(lo, out=ends[0])
    pool(hi, out=ends[1])
    error = _error(pool, lo, ends[0].dtype.name) if lo.size else None
    if error is not None:
        _widened(pool, lo, hi, ends, error, *_sizes(pool, lo, hi))


def _sizes(pool: Pool, lo: Array, hi: Array) -> tuple[Any, bool]:
    """The largest finite magnitude of the slab, or of each window of a Quantile; and whether all ends are finite."""
    if isinstance(pool.kind, SmoothMax):
        return 0.0, False
    if not isinstance(pool.kind, Quantile | Median):
        return _largest(lo, hi)
    from ..pool import Pool

    sizes = _magnitudes(pool, lo, hi)[1]
    sizes[np.isinf(sizes)] = 0.0  # beside them, a Quantile may lie between finite cells
    return Pool(Max(), pool.window, pool.axes, pool.skip, pool.min_count)(sizes).astype(np.float64), False


def _largest(lo: Array, hi: Array) -> tuple[float, bool]:
    """The largest finite magnitude of a box, and whether all of its ends are finite."""
    with np.errstate(invalid="ignore"):
        found = max(-float(lo.min()), float(hi.max()))
    if math.isfinite(found):
        return found, True
    sizes = [np.abs(a[np.isfinite(a)].astype(np.float64)) for a in (lo, hi)]
    return max((float(size.max()) for size in sizes if size.size), default=0.0), False


def _widened(
    pool: Pool, lo: Array, hi: Array, ends: tuple[Array, Array], error: Error, size: Any = 0.0, finite: bool = False
) -> None:
    """Both ends moved outward; what is not finite is looked at by itself."""
    for y, x, is_up in ((ends[0], lo, False), (ends[1], hi, True)):
        stays = finite and error.mass is not None and error.mass * size < LARGEST[y.dtype.name] / 2
        special = None if stays or np.isfinite(y).all() else (np.isfinite(y), y.copy())
        y[...] = outward(y, error, size, is_up)
        if special is not None:
            _mend(pool, x, y, *special, is_up)


def _mend(pool: Pool, x: Array, y: Array, finite: Array, before: Array, is_up: bool) -> None:
    """Outputs that were infinite or NaN: infinite cells make them so, or numbers that are too large to be added.

    An infinity stays where the cells have it and no other. An output that is only beyond the largest float is at least
    that float. A sum of both infinities, and one that overflowed on its way, may be anything. An output that sees too
    few cells stays the value that is skipped.
    """
    beyond = -np.inf if not is_up else np.inf
    largest = y.dtype.type(LARGEST[y.dtype.name])
    has_plus, has_minus = (_sees(pool, x, np.asarray(x == sign)) for sign in (np.inf, -np.inf))
    keeps = np.where(before > 0, has_plus & ~has_minus, has_minus & ~has_plus)
    too_large = np.where(before > 0, largest, -largest) if not isinstance(pool.kind, Sum | Avg) else beyond
    inward = (before > 0) != is_up
    chosen = np.where(keeps | ~inward, before, too_large)
    chosen = np.where(before != before, beyond, chosen)
    if skips_nan(pool):
        there = _sees(pool, x, np.asarray(x == x), pool.min_count)
        chosen = np.where(there, chosen, before)
    y[...] = np.where(finite, y, chosen)


def _sees(pool: Pool, x: Array, cells: Array, count: int = 1) -> Array:
    """Which outputs see so many of these cells."""
    from ..pool import Pool

    seen = Pool(Sum(), pool.window, pool.axes)(cells.astype(np.int64))
    return np.asarray(seen >= count)


# --- Lp -------------------------------------------------------------------------------------------


def _magnitudes(pool: Pool, lo: Array, hi: Array) -> tuple[Array, Array]:
    """The least and the largest magnitude of each cell."""
    if lo.dtype.name in INTEGERS:
        lo, hi = lo.astype(np.float64), hi.astype(np.float64)
    least = np.negative(hi)
    np.maximum(least, lo, out=least)
    np.maximum(least, lo.dtype.type(0), out=least)
    largest = np.negative(lo)
    np.maximum(largest, hi, out=largest)
    return least, largest


def _norm_bounds(pool: Pool, lo: Array, hi: Array, ends: tuple[Array, Array]) -> None:
    there = cells_there(pool, lo, hi)
    least, largest = _magnitudes(pool, lo, hi)
    norm = pool
    if there is not None:  # a magnitude may be the skipped value though its cell is not: NaN stands for it
        from ..pool import Pool

        norm = Pool(pool.kind, pool.window, pool.axes, math.nan, pool.min_count)
        least[~there] = largest[~there] = math.nan
    for y, x in zip(ends, (least, largest), strict=True):
        norm(x, out=y)
    too_few = np.isnan(ends[0]) if there is not None else None
    error = _error(norm, lo, ends[0].dtype.name)
    assert error is not None
    _widened(norm, least, largest, ends, error)
    np.maximum(ends[0], ends[0].dtype.type(0), out=ends[0])
    if too_few is not None:
        for y in ends:
            y[too_few] = pool.skip
