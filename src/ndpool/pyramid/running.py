"""Who makes the blocks: threads of this process, or the workers of a cluster of Dask."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from .blocks import Work, make
from .sizes import Region

Block = tuple[int, Region]

#: Blocks that wait for a thread or a worker, for each one that is made.
_AHEAD = 2

#: On a cluster, so many blocks are one task at most, and each worker has so many tasks if there are blocks enough.
_TOGETHER, _TURNS = 8, 8


def in_threads(work: Work, blocks: Sequence[Block]) -> Iterator[tuple[int, int]]:
    """The number of each block that is done, and the bytes that it read. Few blocks are in memory at a time."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    waiting = iter(blocks)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="ndpool-pyramid")
    running: dict[Future[int], int] = {}
    try:
        while True:
            while len(running) < threads and (block := next(waiting, None)) is not None:
                running[pool.submit(make, work, block[1])] = block[0]
            if not running:
                return
            finished = wait(running, return_when=FIRST_COMPLETED).done
            for future in sorted(finished, key=lambda each: each.exception() is not None):  # those that failed last
                yield running.pop(future), future.result()
    finally:
        for future in running:
            future.cancel()
        pool.shutdown(wait=True, cancel_futures=True)


def on_cluster(client: Any, work: Work, blocks: Sequence[Block]) -> Iterator[tuple[int, int]]:
    """The same by the workers of a cluster. A block whose worker is lost is made again by another.

    Some blocks go to a worker together, as the scheduler takes its time for each task.
    """
    from distributed import as_completed

    shared = client.scatter(work, broadcast=True, hash=False)
    workers = max(1, sum(client.nthreads().values()))
    together = max(1, min(_TOGETHER, len(blocks) // (_TURNS * workers)))
    waiting = iter([blocks[i : i + together] for i in range(0, len(blocks), together)])
    running: dict[Any, Sequence[Block]] = {}

    def submitted(some: Sequence[Block]) -> Any:
        key = f"ndpool-pyramid-{work.run}-{some[0][0]}"
        future = client.submit(make_each, shared, [region for _, region in some], key=key, pure=False)
        running[future.key] = some
        return future

    ahead = [submitted(some) for _, some in zip(range(_AHEAD * workers + 1), waiting, strict=False)]
    queue = as_completed(ahead)
    del ahead
    for future in queue:
        read = future.result()
        done = running.pop(future.key)
        if (some := next(waiting, None)) is not None:
            queue.add(submitted(some))
        for (number, _), size in zip(done, read, strict=True):
            yield number, size


def make_each(work: Work, regions: Sequence[Region]) -> list[int]:
    """Make some blocks, one after the other; returns the bytes that each read."""
    return [make(work, region) for region in regions]


def client_of(client: Any) -> Any:
    """The client that was given, or the one that this process has, if any."""
    if client is not None:
        return client
    if "distributed" not in sys.modules:
        return None
    from distributed import get_client

    try:
        return get_client()
    except ValueError:
        return None


def peak_memory(client: Any = None) -> int:
    """The most bytes that this process has had in memory, or that a worker of the cluster has."""
    if client is None:
        return _peak()
    return max(client.run(_peak).values(), default=0)


def _peak() -> int:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


@contextmanager
def progress(wanted: bool, blocks: int, done: int) -> Iterator[Callable[[], None]]:
    """A bar on the error stream over the blocks, each of which is of all levels; none without `rich`."""
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ModuleNotFoundError:
        wanted = False
    if not wanted:
        yield lambda: None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("pyramid", total=blocks, completed=done)
        yield lambda: bar.advance(task)
