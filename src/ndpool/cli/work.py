"""Pooling from file to file, with a progress bar once it has lasted a second."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from ..pool import Pool
from ..reprs import brief
from ..skipping import held
from . import files, images
from .files import Array, Format, Place
from .images import Picture

PIECE_CELLS = 1 << 20
PATIENCE_S = 1.0

#: A pool for an array of so many axes; of an image, also which of them are height and width.
MakePool = Callable[[int, tuple[int, int] | None], Pool]


def pool_file(
    source: Place, target: Place, make: MakePool, force: bool, clip: bool, asked: Format | None, page: int | None
) -> None:
    """Pool every array of `source` into `target`."""
    if target.path is not None:
        files.format_of(target, asked)
    files.check_free(target, force)
    found = files.read(source, page)
    format_ = files.format_of(target, asked, found.format)
    arrays = found.arrays
    if len(arrays) != 1 and format_ is not Format.NPZ:
        raise ValueError(f"{source} holds {len(arrays)} arrays and {target} one; write .npz")
    pools = {name: _pool_for(source, name, x, found.picture, make) for name, x in arrays.items()}
    with progress(sum(pieces_of(pools[name], x) for name, x in arrays.items()), "pooling") as step:
        results = {name: pooled(pools[name], x, step) for name, x in arrays.items()}
    if format_ in files.IMAGES:
        ((name, y),) = results.items()
        like = found.picture or _as_picture(arrays[name], pools[name], target)
        picture = images.result(y, like, (source, target), format_, clip)
        files.write_whole(target, lambda file: images.write(file, picture, format_))
    else:
        files.write_arrays(target, format_, results)
    sizes = " and ".join(f"{x.shape} to {y.shape}" for x, y in zip(arrays.values(), results.values(), strict=True))
    first = next(iter(pools.values()))
    console = Console(highlight=False, soft_wrap=True, stderr=target.path is None)
    console.print(f"{escape(brief(first))}: {sizes}, in [bold]{escape(str(target))}[/]")


def _pool_for(source: Place, name: str, x: Array, picture: Picture | None, make: MakePool) -> Pool:
    """The pool for one array of a file; what is wrong with it is said of that array."""
    where = f"{source}: array {name!r}" if name else f"{source}"
    if x.dtype.kind not in "biuf" or x.dtype.itemsize > 8:
        raise TypeError(f"{where}: has dtype {x.dtype}; give real numbers of at most 64 bits")
    try:
        pool = make(x.ndim, picture.axes if picture else None)
        pool.output_shape(x.shape)
        pool.kind.check_dtype(x.dtype.name)
        if pool.skip is not None:
            held(pool.skip, x.dtype.name)
    except (ValueError, TypeError) as fault:
        raise type(fault)(f"{where}: {fault}") from None
    return pool


def _as_picture(x: Array, pool: Pool, target: Place) -> Picture:
    """Which axes of an array are height and width: two neighbours that are pooled, or else the last two.

    One axis after them is that of the channels, and those before them are pages.
    """
    axes = sorted(_pooled_axes(pool, x.ndim))
    width = axes[1] if len(axes) == 2 and axes[0] + 1 == axes[1] else x.ndim - 1
    if x.ndim < 2 or x.ndim - width > 2:
        what = f"an array of shape {x.shape} pooled over axes {tuple(axes)}"
        raise ValueError(f"{target}: {what} is no image; write .npy or .npz")
    return Picture(x, width == x.ndim - 2)


# --- in pieces ------------------------------------------------------------------------------------


def _pooled_axes(pool: Pool, ndim: int) -> set[int]:
    axes = pool.axes if pool.axes is not None else range(-(pool.window.rank or 0), 0)
    return {axis % ndim for axis in axes}


def _free_axis(pool: Pool, x: Array) -> int | None:
    """The longest axis that is not pooled, if there is one to cut along."""
    taken = _pooled_axes(pool, x.ndim)
    free = [axis for axis in range(x.ndim) if axis not in taken and x.shape[axis] > 1]
    return max(free, key=lambda axis: x.shape[axis]) if free else None


def pieces_of(pool: Pool, x: Array) -> int:
    """How many pieces of about a million cells an array is pooled in."""
    axis = _free_axis(pool, x)
    return 1 if axis is None else min(x.shape[axis], max(1, math.ceil(x.size / PIECE_CELLS)))


def pooled(pool: Pool, x: Array, step: Callable[[], None]) -> Array:
    """`pool(x)`, piece by piece along an axis that is not pooled."""
    axis, count = _free_axis(pool, x), pieces_of(pool, x)
    if axis is None or count == 1:
        y = pool(x)
        step()
        return y
    y = np.empty(pool.output_shape(x.shape), pool.kind.result_dtype(x.dtype))
    parts = zip(np.array_split(x, count, axis), np.array_split(y, count, axis), strict=True)
    for part, room in parts:
        np.copyto(room, pool(part))
        step()
    return y


@contextmanager
def progress(steps: int, what: str) -> Iterator[Callable[[], None]]:
    """A bar on the error stream for work of so many steps, which appears when a second has passed."""
    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=steps if steps > 1 else None)
    timer = Timer(PATIENCE_S, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda: bar.advance(task)
    finally:
        timer.cancel()
        timer.join()
        if bar.live.is_started:  # to stop one that is not would print an empty line
            bar.stop()
