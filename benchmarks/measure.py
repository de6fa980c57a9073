"""How it is measured: the contenders take turns, and the best time of each is kept.

A copy of the input takes its turns too. Copying n bytes moves 2n, and from its best time comes the memory
limit of the case: the time in which the bytes that it must move would be moved at the speed of the copy. So do, with
one thread, bare loops that move those bytes and do nothing else; with several, the case with one thread, and as
many callers side by side with one thread each, which is what several can gain at best. A case that is compared
with another takes turns with it.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .bare import bare_loops
from .cases import Case, Data, draw, relayout
from .peers import PEERS, Contender, ndpool, ndpool_pool, with_threads

SAMPLE_S = 1e-3
TURN_S = 20e-3
COPIED_BYTES = 2**25
CALLED_BYTES = 2**23
ENOUGH_SAMPLES = 3
PATIENCE = 4  # how far one that is slow may go over its budget to get enough samples


def copier(x: np.ndarray, threads: int) -> tuple[Contender, int]:
    """Each thread copies its part of x into an array made before, and so many times that starting it is free."""
    source = x.ravel(order="K").view(np.uint8)
    parts = list(zip(np.array_split(np.zeros_like(source), threads), np.array_split(source, threads), strict=True))
    times = max(1, COPIED_BYTES // x.nbytes)
    each = map if threads == 1 else ThreadPoolExecutor(threads).map

    def copy(part: tuple[np.ndarray, np.ndarray]) -> None:
        for _ in range(times):
            np.copyto(*part)

    return Contender(lambda: list(each(copy, parts)), tuple, ""), times


def side_by_side(case: Case, data: Data, callers: int) -> tuple[Contender, int]:
    """Each caller has one thread and arrays of its own, and calls so many times that starting it is free."""
    works = [ndpool(case, Data(*(array.copy(order="K") for array in data)), threads=1).run for _ in range(callers)]
    times = max(2, CALLED_BYTES // data.x.nbytes)
    executor = ThreadPoolExecutor(callers)

    def call(work: Callable[[], Any]) -> None:
        for _ in range(times):
            work()

    return Contender(with_threads(1, lambda: list(executor.map(call, works))), tuple, ""), times * callers


def bytes_moved(case: Case, data: Data) -> int:
    """Read x and write y; a VJP also reads g and writes gx, a JVP also reads t and writes dy."""
    return (data.x.nbytes + data.g.nbytes) * (1 if case.mode == "forward" else 2)


class Stopwatch:
    """The best time of one work, and the time spent on it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.best, self.spent, self.samples = float("inf"), 0.0, 0
        self.calls = 1
        self.sample()
        self.calls = max(1, int(SAMPLE_S / self.best))

    def sample(self) -> None:
        """Time so many calls in a row that the clock's own cost does not matter."""
        start = time.perf_counter()
        for _ in range(self.calls):
            self.work()
        seconds = time.perf_counter() - start
        self.best = min(self.best, seconds / self.calls)
        self.spent += seconds
        self.samples += 1

    def turn(self) -> None:
        end = self.spent + TURN_S
        while self.spent < end:
            self.sample()

    def done(self, budget_s: float) -> bool:
        return self.spent >= budget_s and (self.samples > ENOUGH_SAMPLES or self.spent >= PATIENCE * budget_s)


def best_times(contenders: dict[str, Contender], budget_s: float) -> dict[str, float]:
    """The best time of each, from turns taken in a circle until each has spent its budget."""
    watches = {name: Stopwatch(contender.run) for name, contender in contenders.items()}
    while waiting := [watch for watch in watches.values() if not watch.done(budget_s)]:
        for watch in waiting:
            watch.turn()
    return {name: watch.best for name, watch in watches.items()}


def difference(case: Case, theirs: Contender, expected: tuple[np.ndarray, ...]) -> str | None:
    """How a contender's arrays differ from those expected, in words; None where they agree."""
    tolerance = 1e-12 if case.dtype == "float64" else 2e-5
    pairs = zip(theirs.read(theirs.run()), expected, strict=True)
    for name, (got, want) in zip(("y", "derivative"), pairs, strict=False):
        got = relayout(got, theirs.layout, case.layout)
        if got.shape != want.shape:
            return f"mismatch: {name} has the shape {got.shape}, not {want.shape}"
        got, want = (np.asarray(array, np.float64) for array in (got, want))
        if not np.allclose(got, want, rtol=tolerance, atol=tolerance):
            return f"mismatch: {name} is off by {np.abs(got - want).max():.2g}"
    return None


def measure_case(case: Case, reference: Case | None, peers: list[str], threads: int, budget_s: float) -> dict[str, Any]:
    """The record of one case; see `results`. A peer is timed only when it computes what ndpool computes."""
    data = draw(case, ndpool_pool(case).output_shape(case.shape))
    ours = ndpool(case, data, threads)
    expected = ours.read(ours.run())
    copy, times = copier(data.x, threads)
    contenders = {"ndpool": ours, "copy": copy}
    bare = bare_loops(case, data) if threads == 1 and not case.tiny else []
    contenders |= {f"bare {way}": Contender(loop, tuple, "") for way, loop in enumerate(bare)}
    if reference:
        other = draw(reference, ndpool_pool(reference).output_shape(reference.shape))
        contenders["reference"] = ndpool(reference, other, threads)
    calls = 0
    if threads > 1 and not case.tiny:
        contenders["one thread"] = ndpool(case, data, threads=1)
        contenders["side by side"], calls = side_by_side(case, data, threads)
    absent = {}
    for name in peers:
        try:
            peer = PEERS[name](case, data, threads)
            fault = "—" if peer is None else difference(case, peer, expected)
        except ImportError:
            fault = "missing"
        except Exception as error:  # whatever a peer throws belongs in the report, and the others go on
            fault = f"error: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        if fault:
            absent[name] = fault
        else:
            contenders[name] = peer
    seconds = best_times(contenders, budget_s)
    seconds["copy"] /= times
    if calls:
        seconds["side by side"] /= calls
    if bare:
        seconds["bare"] = min(seconds.pop(f"bare {way}") for way in range(len(bare)))
    moved = bytes_moved(case, data)
    limit = seconds["copy"] * moved / (2 * data.x.nbytes)
    about = {"case": case.name, "threads": threads, "moved": moved, "limit": limit}
    return about | {"seconds": seconds, "absent": absent}
