"""How long something takes on the device: the median between two events, with the host well ahead.

Before each measurement the device is told to wait for half a millisecond. By then everything is launched, so that the
time between the events is the device's alone. What a launch costs the host is measured in `overhead`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

#: Cycles for which the device waits: half a millisecond at two gigahertz.
_WAIT = 1_000_000
_FEWEST, _MOST = 5, 60


def median_seconds(work: Callable[[], Any], device: str, budget_s: float = 0.05) -> float:
    """The median of at least five runs, and of as many as the budget pays for."""
    if device != "cuda":
        return _median_on_host(work, budget_s)
    work()
    seconds = _between_events(work, 2)
    return statistics.median(_between_events(work, _count(max(seconds), budget_s)))


def _between_events(work: Callable[[], Any], count: int) -> list[float]:
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
    for start, end in events:
        torch.cuda._sleep(_WAIT)
        start.record()
        work()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) / 1e3 for start, end in events]


def _count(seconds: float, budget_s: float) -> int:
    return max(_FEWEST, min(_MOST, int(budget_s / seconds)))


def _median_on_host(work: Callable[[], Any], budget_s: float) -> float:
    """The same where there is no device, for a test of these programs."""
    found: list[float] = []
    while len(found) < _FEWEST or (sum(found) < budget_s and len(found) < _MOST):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def copy_speed(device: str, elements: int = 2**28) -> float:
    """The bytes that a copy moves in a second, read and written."""
    source = torch.ones(elements, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / median_seconds(lambda: target.copy_(source), device, 0.2)
