"""One block: read once, in parts that are pooled to all levels while they are in memory, and written whole.

It is what a thread, or a worker on another machine, does. To do it twice does no harm.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from threading import BoundedSemaphore
from typing import Any

import numpy as np

from ..arrays import Array
from ..kind import Kind
from ..memory import Arrays
from ..plan import plan_of
from ..pool import Pool
from ..windows import Window
from . import chunks
from .rooms import room as own_room
from .sizes import Region, Shape, Sizes
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
    #: Whether the first level has the chunks of the source, and these are copied as they are.
    copies: bool
    #: Whether bytes are shuffled before they are compressed: good for intensities, and not for labels.
    shuffles: bool
    #: Another one for each run, as a target may have been another array in the one before.
    run: str


#: Half of the threads write smaller levels at a time: each needs room for another chunk, to compress it into.
_writers = BoundedSemaphore(max(1, (os.cpu_count() or 1) // 2))


def make(work: Work, region: Region) -> int:
    """Make one block of all levels, part by part; returns how many bytes of the source were read."""
    levels = work.sizes.levels
    rooms = [_room_of(work, number, region) for number in range(1, len(levels))]
    read = 0
    for part in work.sizes.parts(region):
        x = _read(work, part)
        read += x.nbytes
        ys = [room[_place(part, level.factors, region)] for room, level in zip(rooms, levels[1:], strict=True)]
        for above, level, larger, y in zip(levels, levels[1:], [x, *ys], ys, strict=False):
            if work.cascade:
                steps = tuple(a // b for a, b in zip(level.factors, above.factors, strict=True))
                pooled(work.kind, larger, steps, work.skip, y)
            else:
                pooled(work.kind, x, level.factors, work.skip, y)
    with _writers:
        for number, (level, room) in enumerate(zip(levels[1:], rooms, strict=True), 1):
            own = room[_place(region, level.factors, region)]
            _write(work, number, region, own if level.shards else room)
    return read


def _read(work: Work, part: Region) -> Array:
    """A part of the source, which is the first level: written at once, or copied where both have the same chunks."""
    if work.first == 0 and work.copies:
        return work.source.read(part, partial(_copy, work))
    x = work.source.read(part)
    if work.first == 0:
        _write(work, 0, part, x)
    return x


def _place(box: Region, factors: Shape, within: Region) -> tuple[slice, ...]:
    """Where a box lies at a level, counted from where another begins."""
    return tuple(
        slice((begin - start) // step, -(-(end - start) // step))
        for (begin, end), (start, _), step in zip(box, within, factors, strict=True)
    )


def _room_of(work: Work, number: int, region: Region) -> Array:
    """Room for what a block has at a level, with zeros beyond the end of the array: its chunks are whole."""
    steps = work.sizes.levels[number].factors
    shape = tuple(side // step for side, step in zip(work.sizes.block, steps, strict=True))
    whole = own_room(f"level {number}", shape, work.source.dtype.newbyteorder("="))
    if any(end - begin < side for (begin, end), side in zip(region, work.sizes.block, strict=True)):
        whole[...] = 0
    return whole


def pooled(kind: Kind, x: Array, steps: tuple[int, ...], skip: float | None, out: Array) -> None:
    """The pool over windows of `steps` cells side by side; the last ones have the cells that are there."""
    if all(step == 1 for step in steps):
        out[...] = x
    else:
        _arrays(kind, steps, skip, x.shape, x.dtype).forward(x, out)


@lru_cache(64)
def _arrays(
    kind: Kind, steps: tuple[int, ...], skip: float | None, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Arrays:
    axes = tuple(d for d, step in enumerate(steps) if step > 1)
    sides = tuple(min(steps[d], shape[d]) for d in axes)  # a window no longer than the axis needs no overhang
    pool = Pool(kind, Window(sides, ceil_mode=True), axes, skip)
    return Arrays(plan_of(pool, shape, dtype.name), dtype if dtype.isnative else dtype.newbyteorder("="), threads=1)


def _write(work: Work, number: int, region: Region, y: Array) -> None:
    level = work.sizes.levels[number]
    with _named(work):
        begin = tuple(begin // step for (begin, _), step in zip(region, level.factors, strict=True))
        chunks.write(work.target, number, level, begin, y, work.run, work.shuffles)


def _copy(work: Work, index: tuple[int, ...], raw: Any) -> None:
    with _named(work):
        chunks.put(work.target, 0, index, raw)


@contextmanager
def _named(work: Work) -> Iterator[None]:
    """A full disk is said by name."""
    try:
        yield
    except OSError as fault:
        if fault.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(
                fault.errno, f"{work.target}: the disk is full; free some space and run again with resume"
            ) from fault
        raise
