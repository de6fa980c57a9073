"""A box: all arrays x with `lo <= x <= hi`, cell by cell. It is read and checked here, and cut into slabs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array, as_array, is_native
from ..skipping import held

if TYPE_CHECKING:
    from ..kind import Kind
    from ..pool import Pool

#: Bytes of each end of a slab: both ends, and what is made of them, stay in the nearest caches.
SLAB_BYTES = 1 << 20


def read_box(lo: ArrayLike, hi: ArrayLike) -> tuple[Array, Array]:
    """Both ends as arrays of one shape and dtype."""
    low, high = as_array("lo", lo), as_array("hi", hi)
    if low.shape != high.shape:
        raise ValueError(f"lo has shape {low.shape} and hi {high.shape}; a box has two ends of one shape")
    if low.dtype != high.dtype:
        common = np.result_type(low, high)
        low, high = low.astype(common), high.astype(common)
    if not is_native("lo", low.dtype):
        raise TypeError(f"lo has dtype {low.dtype}; a box has ends that are ordered: give floats or integers")
    return low, high


def check_box(lo: Array, hi: Array, may_be_nan: bool = False, part: tuple[Array, Array] | None = None) -> None:
    """Raises a ValueError that names the first cell whose ends are not in order; only a `part` may be looked at."""
    a, b = part or (lo, hi)
    with np.errstate(invalid="ignore"):  # some dtypes warn of the NaN that is named below
        if np.less_equal(a, b).all():
            return
        bad = ~np.less_equal(lo, hi)
    if may_be_nan:
        bad &= ~(_is_nan(lo) & _is_nan(hi))
        if not bad.any():
            return
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    low, high = lo[place], hi[place]
    at = list(place)
    if low != low or high != high:
        both = "; where a cell is not there, skip=nan says so and both ends are NaN" if not may_be_nan else ""
        raise ValueError(f"lo{at} = {low} and hi{at} = {high}: NaN is no end of a box; give numbers{both}")
    raise ValueError(f"lo{at} = {low} is above hi{at} = {high}; give the lower end first")


def _is_nan(a: Array) -> Array:
    return np.asarray(a != a)


def cells_there(pool: Pool, lo: Array, hi: Array) -> Array | None:
    """Which cells are there for every point of the box; None where none can be skipped.

    A box that has the skipped value beside others has a jump in it, and is refused (rule "Skipped cells").
    """
    if pool.skip is None:
        return None
    skip = held(pool.skip, lo.dtype.name)
    if skip != skip:
        return ~_is_nan(lo)
    value = lo.dtype.type(skip)
    gone = np.asarray((lo == value) & (hi == value))
    doubtful = (lo <= value) & (value <= hi) & ~gone
    if doubtful.any():
        at = [int(i) for i in np.argwhere(doubtful)[0]]
        place = tuple(at)
        raise ValueError(
            f"lo{at} = {lo[place]} and hi{at} = {hi[place]} have the skipped value {skip} between them, so that the "
            "cell is there for some inputs and not for others; give a box on one side of it, or skip=nan"
        )
    return ~gone


def skips_nan(pool: Pool) -> bool:
    """Whether a cell both of whose ends are NaN is one that is not there."""
    return pool.skip is not None and pool.skip != pool.skip


def slabs(pool: Pool, lo: Array, hi: Array) -> Iterator[tuple[slice, Array, Array]]:
    """Parts of a box along its first axis that are pooled by themselves, each small enough for the caches."""
    whole = slice(0, lo.shape[0] if lo.ndim else 1)
    if not _can_be_cut(pool, lo) or lo.nbytes <= SLAB_BYTES:
        yield whole, lo, hi
        return
    each = max(1, SLAB_BYTES * lo.shape[0] // lo.nbytes)
    for start in range(0, lo.shape[0], each):
        part = slice(start, start + each)
        yield part, lo[part], hi[part]


def _can_be_cut(pool: Pool, lo: Array) -> bool:
    return lo.ndim > 1 and lo.shape[0] > 1 and 0 not in pool._layout(lo.shape).axes


def flattened(pool: Pool, lo: Array, hi: Array) -> tuple[Pool, Array, Array, tuple[int, ...]]:
    """The same box with the axes before the pooled ones as one, and the pool over it, and the output's shape.

    So there is an axis to cut it along, where the memory allows.
    """
    found = pool._layout(lo.shape)
    before = min(found.axes)
    if before < 2 or not (lo.flags.c_contiguous and hi.flags.c_contiguous) or 0 in lo.shape:
        return pool, lo, hi, found.output_shape
    shape = (math.prod(lo.shape[:before]), *lo.shape[before:])
    flat = _with_axes(pool, tuple(axis - before + 1 for axis in axes_given(pool, lo.ndim)))
    return flat, lo.reshape(shape), hi.reshape(shape), found.output_shape


def axes_given(pool: Pool, ndim: int) -> tuple[int, ...]:
    """The pooled axes from 0 up, in the order of the window's numbers."""
    axes = pool.axes if pool.axes is not None else range(-(pool.window.rank or 0), 0)
    return tuple(axis % ndim for axis in axes)


# Pools remember their plans, so those that are made here are kept.


@lru_cache(maxsize=128)
def _with_axes(pool: Pool, axes: tuple[int, ...]) -> Pool:
    from ..pool import Pool

    return Pool(pool.kind, pool.window, axes, pool.skip, pool.min_count)


@lru_cache(maxsize=128)
def with_kind(pool: Pool, kind: Kind) -> Pool:
    """Another kind over the same window, of all cells."""
    from ..pool import Pool

    return Pool(kind, pool.window, pool.axes)
