"""What no pool can be below, where a target of the map is missed: a bare loop or a bare call beside the pool itself.

    python -m benchmarks.bounds

Sums are exact to the last place, which costs additions that other libraries spare, 16-bit floats are widened twice, and
SmoothMax takes an exponential of each cell: loops that add up, and do nothing else, show how many bytes a nanosecond
are left. The last column is how many times the memory's limit it takes to read each cell once, without an output.
Images that no cache holds cost what it takes to read them and to write the result, and with a gradient to read its
cotangents and winners and to write it: loops that do this alone show how much. Windows in steps of one are merged along
each axis some times at least: loops that read and write the arrays, and merge lines in the nearest cache so often, show
how many times the memory's limit that takes. Where a library asks the system for the memory of every large result, as
XLA does, the system clears it first: a loop that writes to such memory shows what that costs. Small tensors with
gradients cost what PyTorch asks for any function that is written in Python: one that hands its input through shows how
much. All contenders take turns, with one thread. The last table shows how many times as fast pools are with all
processors, and loops that move the same bytes: several threads share the memory.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch

import ndpool
import ndpool.torch.functional

from . import windows
from .bare import library, lines
from .measure import Stopwatch
from .peers import with_threads
from .report import table
from .worker import processors

NEAR, FAR, TIMES = 2048, 2**21, 4  # cells in the nearest cache, in the last one, and so many times these in memory
BUDGET_S = 0.2
SMALL = (2, 16, 8, 8)
LARGE, COPIES = (8, 64, 112, 112), 4  # together more than a cache holds, so that each comes from memory
VOLUME = (8, 32, 32, 64, 64)


def best(works: dict[str, Callable[[], Any]]) -> dict[str, float]:
    watches = {name: Stopwatch(work) for name, work in works.items()}
    while min(watch.spent for watch in watches.values()) < BUDGET_S:
        for watch in watches.values():
            watch.sample()
    return {name: watch.best for name, watch in watches.items()}


# --- sums -----------------------------------------------------------------------------------------

SUM, SMOOTH = ndpool.Sum(), ndpool.SmoothMax(1.0)
LOOPS: dict[str, tuple[str, type[np.floating[Any]], ndpool.Kind | None]] = {
    "doubles, plain": ("add_doubles", np.float64, None),
    "doubles with their errors": ("add_doubles_and_errors", np.float64, SUM),
    "floats, as doubles": ("add_floats_as_doubles", np.float32, SUM),
    "16-bit floats, as doubles": ("add_halves_as_doubles", np.float16, SUM),
    "exponentials of floats, as doubles": ("add_exponentials_of_floats", np.float32, SMOOTH),
    "exponentials of doubles with their errors": ("add_exponentials_of_doubles", np.float64, SMOOTH),
}


def bare_sum(name: str, x: np.ndarray[Any, Any]) -> Callable[[], float]:
    """The loop over x, so many times that the call does not count."""
    loop = getattr(library(), name)
    loop.argtypes, loop.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t], ctypes.c_double
    return partial(loop, x.ctypes.data, x.size, FAR // x.size)


def sums() -> str:
    """Bytes a nanosecond of each loop and of the pool that must do the same, beside those of a copy from memory."""
    if library() is None:
        return "There is no compiler for the bare loops.\n"
    rows = []
    for words, (name, dtype, kind) in LOOPS.items():
        near, far = (np.random.default_rng(0).random(cells).astype(dtype) for cells in (NEAR, FAR))
        images, target = [np.tile(far, TIMES) for _ in range(COPIES)], np.empty(TIMES * FAR, dtype)
        works = {
            "near": bare_sum(name, near),
            "far": bare_sum(name, far),
            "copy": in_turn(partial(np.copyto, target), images),
        }
        if kind is not None:
            y = np.empty(1, dtype)
            works["pool"] = partial(ndpool.Pool(kind, ndpool.Global(), axes=0), far, out=y)
        bytes_of = {"near": far.nbytes, "far": far.nbytes, "pool": far.nbytes, "copy": 2 * target.nbytes}
        speeds = {which: bytes_of[which] / seconds / 1e9 for which, seconds in best(works).items()}
        shown = [f"{speeds[which]:.0f}" if which in speeds else "—" for which in ("near", "far", "pool", "copy")]
        rows.append([words, *shown, f"{speeds['copy'] / speeds['near']:.1f}"])
    heads = ["loop, nearest cache", "loop, last cache", "pool, last cache", "copy, memory", "copy / nearest loop"]
    return table(["bytes a nanosecond", *heads], rows)


# --- large images -----------------------------------------------------------------------------------


def pool_of(kind: ndpool.Kind, *window: Any, axes: tuple[int, ...] | None = None) -> ndpool.Pool:
    return ndpool.Pool(kind, ndpool.Window(*window), axes=axes)


MAX, AVG = ndpool.Max(), ndpool.Avg()
POOLS = {
    "max k2s2": pool_of(MAX, (2, 2)),
    "max k2s2, channels last": pool_of(MAX, (2, 2), axes=(1, 2)),
    "max k3s2p1": pool_of(MAX, (3, 3), 2, 1),
    "avg k2s2": pool_of(AVG, (2, 2)),
    "avg k3s2p1": pool_of(AVG, (3, 3), 2, 1),
    "avg to (7, 7)": ndpool.Pool(AVG, ndpool.Adaptive((7, 7))),
    "max to (7, 7)": ndpool.Pool(MAX, ndpool.Adaptive((7, 7))),
    "avg to (9, 9)": ndpool.Pool(AVG, ndpool.Adaptive((9, 9))),
}
Array = np.ndarray[Any, Any]
Move = Callable[[Array, Array], None]


def moves() -> dict[str, Move]:
    """Loops that read all of an array and write all of another, by turns: past the caches, and not."""
    loops = library()
    if loops is None:
        return {}
    loop = loops.move_bytes
    loop.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

    def move(past_the_caches: int, x: Array, y: Array) -> None:
        loop(x.ctypes.data, x.nbytes // 4, y.ctypes.data, y.nbytes // 4, past_the_caches)

    return {f"loop {past}": partial(move, past) for past in (0, 1)}


def in_turn(work: Callable[[Any], Any], arguments: list[Any]) -> Callable[[], Any]:
    following = itertools.cycle(arguments)
    return lambda: work(next(following))


def beside_loops(name: str, pool: Callable[[], Any], loops: dict[str, Callable[[], Any]]) -> list[str]:
    """A row of a table: the best loop, the pool, and how many times the loop's time that is."""
    found = best({"pool": pool, **loops})
    loop = min((found[which] for which in loops), default=float("nan"))
    return [name, f"{loop * 1e3:.2f}", f"{found['pool'] * 1e3:.2f}", f"{found['pool'] / loop:.2f}"]


def in_lines(x: Array) -> Array:
    """A copy that starts with a line of the cache."""
    copy = lines(x).view(x.dtype).reshape(x.shape)
    copy[...] = x
    return copy


def images(shape: tuple[int, ...]) -> list[Array]:
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    return [in_lines(x) for _ in range(COPIES)]


def pool_shape(pool: ndpool.Pool) -> tuple[int, ...]:
    """LARGE, with the axes where the pool has them."""
    return LARGE if pool.axes is None else (LARGE[0], *LARGE[2:], LARGE[1])


def values() -> str:
    rows = []
    for name, pool in POOLS.items():
        xs = images(pool_shape(pool))
        y = in_lines(pool(xs[0]))
        loops = {which: in_turn(partial(move, y=y), xs) for which, move in moves().items()}
        rows.append(beside_loops(name, in_turn(partial(pool, out=y), xs), loops))
    return table([f"{LARGE} from memory, milliseconds", "loop", "pool", "pool / loop"], rows)


def winner_bytes(pool: ndpool.Pool, x: Array) -> int:
    """Of all winners, where there are any."""
    winners = pool.linearize(x)[1].residual.winners
    return 0 if winners is None else int(winners.nbytes)


def bare_gradient(move: Move, x: Array, y: Array, kept: Array, gx: Array) -> None:
    """Reads x and writes y and the winners; reads them, or as many bytes, and writes gx."""
    move(x, y)
    if kept.nbytes:
        move(kept[:0], kept)
        move(kept, kept[:0])
    move(y, gx)


def values_and_gradients() -> str:
    rows = []
    for name, pool in POOLS.items():
        xs = images(pool_shape(pool))
        g, gx = pool(xs[0]), in_lines(xs[0])
        y, kept = in_lines(g), lines(np.empty(winner_bytes(pool, xs[0]), np.uint8))

        def work(x: Array, pool: ndpool.Pool = pool, g: Array = g, gx: Array = gx) -> None:
            pool.vjp(x)[1](g, out=gx)

        loops = {
            which: in_turn(partial(bare_gradient, move, y=y, kept=kept, gx=gx), xs) for which, move in moves().items()
        }
        rows.append(beside_loops(name, in_turn(work, xs), loops))
    return table([f"{LARGE} from memory, value and gradient, milliseconds", "loop", "pool", "pool / loop"], rows)


# --- threads ----------------------------------------------------------------------------------------

THREADED = {**POOLS, "max k3s1p1": pool_of(MAX, (3, 3), 1, 1), "avg k3s1p1": pool_of(AVG, (3, 3), 1, 1)}
BATCH, CALLS = 32, 8  # images, and how often a thread of a loop goes over its part, so that to start it is free


def pulled(pool: ndpool.Pool, x: Array, g: Array, gx: Array) -> None:
    for _ in range(CALLS):
        pool.vjp(x)[1](g, out=gx)


def moved(move: Move, share: tuple[Array, ...]) -> None:
    for _ in range(CALLS):
        bare_gradient(move, *share)


def in_shares(arrays: tuple[Array, ...], count: int) -> list[tuple[Array, ...]]:
    return list(zip(*(np.array_split(array.reshape(-1), count) for array in arrays), strict=True))


def threads(count: int) -> str:
    """How many times as fast a pool is with so many threads, value and gradient, and a loop that moves as much.

    Each thread of the loop has a part of the arrays to itself, and never waits for another: the memory is all there is.
    """
    moving = moves()
    if count == 1 or not moving:
        return "There is one processor, or no compiler for the bare loops.\n"
    move, rows = partial(moved, moving["loop 1"]), []
    with ThreadPoolExecutor(count) as executor:
        for name, pool in THREADED.items():
            x = images((BATCH, *pool_shape(pool)[1:]))[0]
            y, gx, kept = in_lines(pool(x)), in_lines(x), lines(np.empty(winner_bytes(pool, x), np.uint8))
            works: dict[str, Callable[[], Any]] = {}
            for n in (1, count):
                shares = in_shares((x, y, kept, gx), n)
                works[f"loop {n}"] = lambda shares=shares: list(executor.map(move, shares))
                works[f"pool {n}"] = with_threads(n, partial(pulled, pool, x, y, gx))
            found = best(works)
            took = [f"{found[f'pool {n}'] / CALLS * 1e3:.2f}" for n in (1, count)]
            gains = [f"{found[f'{of} 1'] / found[f'{of} {count}']:.1f}" for of in ("loop", "pool")]
            rows.append([name, *took, *gains])
    ndpool.set_num_threads(1)
    heads = ["1 thread, ms", f"{count} threads, ms", "loop, times as fast", "pool, times as fast"]
    return table([f"value and gradient of {(BATCH, *LARGE[1:])}", *heads], rows)


# --- windows in steps of one ------------------------------------------------------------------------

#: Pools and the shapes of their inputs: those of the map's pools whose time beside the memory's limit is the longest.
STEPS_OF_ONE = {
    "max k6s1, three axes, float16": (MAX, (6, 6, 6), (3, 149, 87, 80), "float16"),
    "max k3s1, four axes, float16": (MAX, (3, 3, 3, 3), (29, 37, 59, 32), "float16"),
    "avg k13s1, two axes, float16": (AVG, (13, 13), (2, 1529, 1786), "float16"),
    "avg k10s1, one axis, float16": (AVG, (10,), (3, 1682849), "float16"),
    "avg k7s1, two axes, float32": (AVG, (7, 7), (2, 1529, 1786), "float32"),
    "avg k3s1, three axes, float32": (AVG, (3, 3, 3), (3, 149, 87, 80), "float32"),
    "smooth max k3s1, two axes, float32": (SMOOTH, (3, 3), (2, 1529, 1786), "float32"),
    "smooth max k3s1, two axes, float64": (SMOOTH, (3, 3), (2, 764, 893), "float64"),
    "Lp(2) k5s1, two axes, float32": (ndpool.Lp(2), (5, 5), (2, 1529, 1786), "float32"),
}


def steps_of_one() -> str:
    """The pool and the loop, both as multiples of the memory's limit: what moving x and y takes at a copy's speed."""
    if library() is None:
        return "There is no compiler for the bare loops.\n"
    rows = []
    for name, (kind, sides, shape, dtype) in STEPS_OF_ONE.items():
        x = np.random.default_rng(0).standard_normal(shape, np.float32).astype(dtype)
        pool = pool_of(kind, sides, 1, axes=tuple(range(-len(sides), 0)))
        y, target = pool(x), np.empty_like(x)
        bare = windows.loop(pool, shape, dtype, row=len(sides) - 1)
        assert bare is not None
        found = best({"pool": partial(pool, x, out=y), "copy": partial(np.copyto, target, x), "loop": bare})
        limit = found["copy"] * (x.nbytes + y.nbytes) / (2 * x.nbytes)
        merged = sum(windows.merges(axis, kind == MAX) for axis in windows.axes_of(pool, shape))
        told = [f"{found[which] / limit:.1f}" for which in ("loop", "pool")]
        rows.append([name, str(merged), *told, f"{found['pool'] / found['loop']:.1f}"])
    return table(["times the memory's limit", "merges a cell", "loop", "pool", "pool / loop"], rows)


# --- memory that the system clears ------------------------------------------------------------------


def cleared(shape: tuple[int, ...]) -> Array:
    """Memory that nobody has had, in large pages where the system has them."""
    memory = mmap.mmap(-1, 4 * int(np.prod(shape)), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.float32).reshape(shape)


def fresh_gradients() -> str:
    """Max k2s2 over three axes: the gradient into memory that is kept, and into memory that is new at every call."""
    pool = ndpool.Pool(MAX, ndpool.Window((2, 2, 2)))
    x = np.random.default_rng(0).standard_normal(VOLUME, np.float32)
    g, kept_gx = pool(x), np.ones_like(x)
    y, kept = in_lines(g), lines(np.empty(winner_bytes(pool, x), np.uint8))
    rows = []
    for name, memory in (("kept", lambda: kept_gx), ("new", lambda: cleared(VOLUME))):

        def work(memory: Callable[[], Array] = memory) -> None:
            pool.vjp(x)[1](g, out=memory())

        def bare(move: Move, memory: Callable[[], Array] = memory) -> None:
            bare_gradient(move, x, y, kept, memory())

        loops = {which: partial(bare, move) for which, move in moves().items()}
        rows.append(beside_loops(f"the gradient's memory is {name}", work, loops))
    return table([f"max k2s2 of {VOLUME}, value and gradient, milliseconds", "loop", "pool", "pool / loop"], rows)


# --- small tensors ----------------------------------------------------------------------------------


class Identity(torch.autograd.Function):
    """What every function in Python costs: it makes nothing, and computes nothing."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return g


def with_gradient(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], Any]:
    leaf = torch.randn(SMALL).requires_grad_()
    g = torch.randn_like(function(leaf))
    return lambda: torch.autograd.grad(function(leaf), leaf, g)


def small_tensors() -> str:
    works = {
        "identity in Python": with_gradient(lambda x: Identity.apply(x)),  # type: ignore[no-untyped-call]
        "PyTorch, max_pool2d": with_gradient(lambda x: torch.nn.functional.max_pool2d(x, 2)),
        "ndpool, max_pool2d": with_gradient(lambda x: ndpool.torch.functional.max_pool2d(x, 2)),
        "PyTorch, avg_pool2d": with_gradient(lambda x: torch.nn.functional.avg_pool2d(x, 2)),
        "ndpool, avg_pool2d": with_gradient(lambda x: ndpool.torch.functional.avg_pool2d(x, 2)),
    }
    rows = [[name, f"{seconds * 1e6:.1f}"] for name, seconds in best(works).items()]
    return table([f"forward and backward of {SMALL}", "microseconds"], rows)


def main() -> None:
    torch.set_num_threads(1)
    ndpool.set_num_threads(1)
    print(sums())
    print(values())
    print(values_and_gradients())
    print(steps_of_one())
    print(fresh_gradients())
    print(small_tensors())
    print(threads(len(processors())))


if __name__ == "__main__":
    main()
