"""Pooling from file to file, with a progress bar once it has lasted a second."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import numpy as np
from rich.console import Console
from rich.progress import Progress

from ..pictures import brief
from ..pool import Pool
from . import files
from .files import Array

PIECE_CELLS = 1 << 20
PATIENCE_S = 1.0

MakePool = Callable[[tuple[int, ...] | None], Pool]


def check_free(path: Path, force: bool) -> None:
    """Nothing is written over without being told so, and only into a folder that exists."""
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists; give another name, or --force to write over it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent}: there is no such folder")


def pool_file(source: Path, target: Path, make: MakePool, force: bool, clip: bool) -> None:
    """Pool every array of `source` into `target`; `make` gets the axes that are usual for such a file."""
    files.check_format(target)
    check_free(target, force)
    arrays = files.read(source)
    if len(arrays) != 1 and target.suffix.lower() != ".npz":
        raise ValueError(f"{source} holds {len(arrays)} arrays and {target} one; write .npz")
    pool = make((0, 1) if files.is_image(source) else None)
    for name, x in arrays.items():
        _check_numbers(source, name, x)
        pool.output_shape(x.shape)
    with progress(sum(pieces_of(pool, x) for x in arrays.values()), "pooling") as step:
        results = {name: pooled(pool, x, step) for name, x in arrays.items()}
    if target.suffix.lower() != ".npz" and set(results) != {""}:
        results = {"": next(iter(results.values()))}
    if files.is_image(target):
        like = next(iter(arrays.values()))
        results = {"": files.as_image(results[""], like, target, clip)}
    files.write(target, results)
    sizes = " and ".join(f"{x.shape} to {y.shape}" for x, y in zip(arrays.values(), results.values(), strict=True))
    Console(highlight=False, soft_wrap=True).print(f"{brief(pool)}: {sizes}, in [bold]{target}[/]")


def _check_numbers(source: Path, name: str, x: Array) -> None:
    if x.dtype.kind not in "biuf":
        which = f" array {name!r}" if name else ""
        raise TypeError(f"{source}:{which} has dtype {x.dtype}; give real numbers")


# --- in pieces ------------------------------------------------------------------------------------


def _free_axis(pool: Pool, x: Array) -> int | None:
    """The longest axis that is not pooled, if there is one to cut along."""
    axes = pool.axes if pool.axes is not None else range(-(pool.window.rank or 0), 0)
    pooled_axes = {axis % x.ndim for axis in axes}
    free = [axis for axis in range(x.ndim) if axis not in pooled_axes and x.shape[axis] > 1]
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
