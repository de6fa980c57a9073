"""What no pool can be below, where a target of the map is missed: a bare loop or a bare call beside the pool itself.

    python -m benchmarks.bounds

Sums are exact to the last place, which costs additions that other libraries spare: loops that add up, and do nothing
else, show how many bytes a nanosecond are left. Images that no cache holds cost what it takes to read them and to write
the result: loops that do this alone show how much. Small tensors with gradients cost what PyTorch asks for any function
that is written in Python: one that hands its input through shows how much. All contenders take turns, with one thread.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

import ndpool
import ndpool.torch.functional

from .bare import library, lines
from .measure import Stopwatch
from .report import table

NEAR, FAR = 2048, 2**21  # cells in the nearest cache, and in the last one
BUDGET_S = 0.2
SMALL = (2, 16, 8, 8)
LARGE, COPIES = (8, 64, 112, 112), 4  # together more than a cache holds, so that each comes from memory


def best(works: dict[str, Callable[[], Any]]) -> dict[str, float]:
    watches = {name: Stopwatch(work) for name, work in works.items()}
    while min(watch.spent for watch in watches.values()) < BUDGET_S:
        for watch in watches.values():
            watch.sample()
    return {name: watch.best for name, watch in watches.items()}


# --- sums -----------------------------------------------------------------------------------------

LOOPS = {
    "doubles, plain": ("add_doubles", np.float64),
    "doubles with their errors": ("add_doubles_and_errors", np.float64),
    "floats, as doubles": ("add_floats_as_doubles", np.float32),
}


def bare_sum(name: str, x: np.ndarray[Any, Any]) -> Callable[[], float]:
    """The loop over x, so many times that the call does not count."""
    loop = getattr(library(), name)
    loop.argtypes, loop.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t], ctypes.c_double
    return partial(loop, x.ctypes.data, x.size, FAR // x.size)


def sums() -> str:
    """Bytes a nanosecond of each loop, and of the pool that must do the same."""
    if library() is None:
        return "There is no compiler for the bare loops.\n"
    rows = []
    for words, (name, dtype) in LOOPS.items():
        near, far = (np.random.default_rng(0).random(cells).astype(dtype) for cells in (NEAR, FAR))
        pool, y = ndpool.Pool(ndpool.Sum(), ndpool.Global(), axes=0), np.empty(1, dtype)
        works = {"near": bare_sum(name, near), "far": bare_sum(name, far), "pool": partial(pool, far, out=y)}
        speeds = {which: f"{far.nbytes / seconds / 1e9:.0f}" for which, seconds in best(works).items()}
        rows.append([words, speeds["near"], speeds["far"], "—" if "plain" in words else speeds["pool"]])
    return table(["bytes a nanosecond", "loop, nearest cache", "loop, last cache", "pool, last cache"], rows)


# --- large images -----------------------------------------------------------------------------------

POOLS = {
    "max k2s2": ndpool.Pool(ndpool.Max(), ndpool.Window((2, 2))),
    "max k3s2p1": ndpool.Pool(ndpool.Max(), ndpool.Window((3, 3), 2, 1)),
    "avg k2s2": ndpool.Pool(ndpool.Avg(), ndpool.Window((2, 2))),
    "avg to (7, 7)": ndpool.Pool(ndpool.Avg(), ndpool.Adaptive((7, 7))),
    "max to (7, 7)": ndpool.Pool(ndpool.Max(), ndpool.Adaptive((7, 7))),
    "avg to (9, 9)": ndpool.Pool(ndpool.Avg(), ndpool.Adaptive((9, 9))),
}


def in_turn(work: Callable[[Any], Any], arguments: list[Any]) -> Callable[[], Any]:
    following = itertools.cycle(arguments)
    return lambda: work(next(following))


def bare_moves(images: list[np.ndarray[Any, Any]], y: np.ndarray[Any, Any]) -> dict[str, Callable[[], Any]]:
    """Loops that read an image and write as much as y has: past the caches, and not."""
    loops, to = library(), lines(y)
    if loops is None:
        return {}
    move = loops.move_bytes
    move.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

    def work(past_the_caches: int, x: np.ndarray[Any, Any]) -> None:
        move(x.ctypes.data, x.nbytes // 4, to.ctypes.data, to.nbytes // 4, past_the_caches)

    return {f"loop {past}": in_turn(partial(work, past), images) for past in (0, 1)}


def large_images() -> str:
    x = np.random.default_rng(0).standard_normal(LARGE, np.float32)
    images = [lines(x).view(np.float32).reshape(LARGE) for _ in range(COPIES)]
    for image in images:
        image[...] = x
    rows = []
    for name, pool in POOLS.items():
        y = pool(x)
        found = best({"pool": in_turn(partial(pool, out=y), images), **bare_moves(images, y)})
        loop = min((found[which] for which in found if which != "pool"), default=float("nan"))
        rows.append([name, f"{loop * 1e3:.2f}", f"{found['pool'] * 1e3:.2f}", f"{found['pool'] / loop:.2f}"])
    return table([f"{LARGE} from memory, milliseconds", "loop", "pool", "pool / loop"], rows)


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
    print(large_images())
    print(small_tensors())


if __name__ == "__main__":
    main()
