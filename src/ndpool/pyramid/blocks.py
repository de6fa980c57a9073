"""One block: read once, pooled to all levels while it is in memory, and written whole.

It is what a thread, or a worker on another machine, does. To do it twice does no harm.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays import Array
from ..kind import Kind
from ..memory import Arrays
from ..plan import plan_of
from ..pool import Pool
from ..windows import Window
from . import chunks
from .sizes import Region, Sizes
from .sources import Source


@dataclass(frozen=True)
class Work:
    """What is the same for all blocks. `first` is the first level that is written: 1 where the source is level 0."""

    source: Source
    target: str
    sizes: Sizes
    kind: Kind
    skip: float | None
    cascade: bool
    first: int
    #: Another one for each run, as a target may have been another array in the one before.
    run: str


def make(work: Work, region: Region) -> int:
    """Make one block of all levels; returns how many bytes of the source were read."""
    x = work.source.read(region)
    y = x
    for number, level in enumerate(work.sizes.levels):
        if number > 0:
            before = work.sizes.levels[number - 1].factors
            steps = tuple(a // b for a, b in zip(level.factors, before, strict=True)) if work.cascade else level.factors
            y = pooled(work.kind, y if work.cascade else x, steps, work.skip)
        if number >= work.first:
            begin = tuple(start // step for (start, _), step in zip(region, level.factors, strict=True))
            _write(work, number, begin, y)
    return x.nbytes


def pooled(kind: Kind, x: Array, steps: tuple[int, ...], skip: float | None) -> Array:
    """The pool over windows of `steps` cells side by side; the last ones have the cells that are there."""
    x = np.ascontiguousarray(x)
    if all(step == 1 for step in steps):
        return x
    return _arrays(kind, steps, skip, x.shape, x.dtype).forward(x)


@lru_cache(64)
def _arrays(
    kind: Kind, steps: tuple[int, ...], skip: float | None, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Arrays:
    axes = tuple(d for d, step in enumerate(steps) if step > 1)
    sides = tuple(min(steps[d], shape[d]) for d in axes)  # a window no longer than the axis needs no overhang
    pool = Pool(kind, Window(sides, ceil_mode=True), axes, skip)
    return Arrays(plan_of(pool, shape, dtype.name), dtype if dtype.isnative else dtype.newbyteorder("="), threads=1)


def _write(work: Work, number: int, begin: tuple[int, ...], y: Array) -> None:
    try:
        chunks.write(work.target, number, work.sizes.levels[number], begin, y, work.run)
    except OSError as fault:
        if fault.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(
                fault.errno, f"{work.target}: the disk is full; free some space and run again with resume"
            ) from fault
        raise
