"""What is asked of the times of many pools: measures, each with the pools that it is about, quantiles and goals.

The memory's limit of a pool is the time in which its bytes would be moved at the speed of a copy of x, which reads and
writes x once and takes its turns with the pool. Forward moves x and y. Forward and VJP move x and y, then g, what the
derivative keeps (read, and the winners also written) and gx.

What a pool takes at least is that limit or, of a large array, a bare loop that also merges cells as often as its
windows need, or takes the exponentials of its kind: whichever is longer. A loop that takes longer than the pool does
not count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Record = dict[str, Any]

LARGE = 4_000_000  # bytes


@dataclass(frozen=True)
class Goal:
    quantile: float
    bound: str  # "at least" or "at most"
    value: float

    def met(self, values: list[float]) -> bool:
        found = float(np.quantile(values, self.quantile))
        return found >= self.value if self.bound == "at least" else found <= self.value


@dataclass(frozen=True)
class Measure:
    """A ratio, of the records that have it. The worst are the least or the largest, whichever a `Goal` is against."""

    title: str
    mode: str  # "forward" or "vjp"
    ours: str  # the name of ndpool's time
    value: Callable[[Record], float | None]
    quantiles: tuple[float, ...]
    goals: tuple[Goal, ...]
    least_is_worst: bool

    def values(self, records: list[Record]) -> list[float]:
        return [value for record in records if (value := self.value(record)) is not None]

    def worst(self, records: list[Record], number: int) -> list[Record]:
        having = [record for record in records if self.value(record) is not None]
        return sorted(having, key=lambda r: self.value(r) or 0.0, reverse=not self.least_is_worst)[:number]


def against_torch(mode: str, on: str = " tensor") -> Callable[[Record], float | None]:
    """PyTorch's time over ndpool's: both on tensors, or ndpool on arrays, with `on` empty."""

    def value(record: Record) -> float | None:
        seconds = record["seconds"]
        ours, theirs = seconds.get(mode + on), seconds.get(f"{mode} torch")
        return theirs / ours if ours and theirs else None

    return value


def torch_against_limit(mode: str) -> Callable[[Record], float | None]:
    """PyTorch's time over the memory's limit: what the first measure would be for a pool that only moved its bytes."""

    def value(record: Record) -> float | None:
        theirs = record["seconds"].get(f"{mode} torch")
        return theirs / record["limits"][mode] if theirs else None

    return value


def torch_against_least(mode: str) -> Callable[[Record], float | None]:
    """PyTorch's time over the least that an engine behind Python can take, which bounds the first measure.

    That is the memory's limit, or a call that computes nothing, whichever is longer.
    """

    def value(record: Record) -> float | None:
        seconds = record["seconds"]
        theirs, nothing = seconds.get(f"{mode} torch"), seconds.get(f"{mode} bare")
        return theirs / max(nothing, record["limits"][mode]) if theirs and nothing else None

    return value


def against_limit(mode: str, family: str, least: int = LARGE) -> Callable[[Record], float | None]:
    """Ndpool's time on arrays over the memory's limit, for pools of a family on arrays of so many bytes and more."""

    def value(record: Record) -> float | None:
        if record["family"] != family or record["bytes"] < least or mode not in record["seconds"]:
            return None
        return float(record["seconds"][mode] / record["limits"][mode])

    return value


def least(record: Record, mode: str) -> float:
    """What the pool takes at least."""
    seconds, limits = record["seconds"], record["limits"]
    found = max(limits["forward"], seconds.get("forward loop", 0.0))
    if mode == "vjp":
        found += max(limits["vjp"] - limits["forward"], seconds.get("back loop", 0.0))
    return float(max(limits[mode], min(found, seconds[mode])))


def least_against_limit(mode: str, family: str) -> Callable[[Record], float | None]:
    """What the pool takes at least over the memory's limit, which bounds `against_limit`."""

    def value(record: Record) -> float | None:
        took = against_limit(mode, family)(record)
        return None if took is None else least(record, mode) / record["limits"][mode]

    return value


def against_least(mode: str, family: str) -> Callable[[Record], float | None]:
    """Ndpool's time over what the pool takes at least."""

    def value(record: Record) -> float | None:
        took = against_limit(mode, family)(record)
        return None if took is None else record["seconds"][mode] / least(record, mode)

    return value


LOW, HIGH = (0.0, 0.01, 0.05, 0.25, 0.5), (0.5, 0.95, 1.0)
FAMILIES = {
    "plain": "max, min, avg, sum",
    "smooth": "smooth max, Lp(2)",
    "powers": "Lp(1), (3), (2.5)",
    "ties": "ties split and all",
}
MOST = {("forward", "plain"): 3.0, ("vjp", "plain"): 4.0, ("forward", "smooth"): 10.0, ("vjp", "smooth"): 12.0}
WORDS = {"forward": "forward", "vjp": "forward + VJP"}
PLACES = {" tensor": "tensors", "": "arrays"}  # what ndpool is called on


def _torch_measure(mode: str, on: str, five_percent: float, median: float) -> Measure:
    goals = (Goal(0.0, "at least", 1.0), Goal(0.05, "at least", five_percent), Goal(0.5, "at least", median))
    title = f"PyTorch / ndpool on {PLACES[on]}, {WORDS[mode]}"
    return Measure(title, mode, mode + on, against_torch(mode, on), LOW, goals, least_is_worst=True)


def _bound_measure(mode: str) -> Measure:
    title = f"PyTorch / memory's limit, {WORDS[mode]}"
    return Measure(title, mode, mode, torch_against_limit(mode), LOW, (), least_is_worst=True)


def _least_measure(mode: str) -> Measure:
    title = f"PyTorch / the longer of memory's limit and a call that computes nothing, {WORDS[mode]}"
    return Measure(title, mode, mode, torch_against_least(mode), LOW, (), least_is_worst=True)


def _limit_measure(mode: str, family: str) -> Measure:
    most = MOST.get((mode, family))
    goals = (Goal(0.95, "at most", most),) if most else ()
    title = f"time / memory's limit, {WORDS[mode]}, {FAMILIES[family]}"
    return Measure(title, mode, mode, against_limit(mode, family), HIGH, goals, least_is_worst=False)


def _loop_measures(mode: str, family: str) -> tuple[Measure, Measure]:
    """What stands beside the memory's limit: the share of it that bare loops have, and what is left."""
    of = f"{WORDS[mode]}, {FAMILIES[family]}"
    return (
        Measure(f"bare loop / memory's limit, {of}", mode, mode, least_against_limit(mode, family), HIGH, (), False),
        Measure(f"time / bare loop, {of}", mode, mode, against_least(mode, family), HIGH, (), False),
    )


MEASURES = (
    *(_torch_measure("forward", on, 1.2, 8.0) for on in PLACES),
    *(_torch_measure("vjp", on, 1.5, 6.0) for on in PLACES),
    *(_limit_measure(mode, family) for family in FAMILIES for mode in WORDS),
)

# Shown beside them, with no worst.
BOUNDS = (
    *(measure for mode, family in MOST for measure in _loop_measures(mode, family)),
    *(measure(mode) for measure in (_bound_measure, _least_measure) for mode in WORDS),
)


def is_suspect(record: Record) -> bool:
    """Whether a time should be measured again: slower than PyTorch, or beyond what nineteen in twenty may take."""
    ratios = (against_torch(mode, on)(record) for mode in WORDS for on in PLACES)
    slower = [value for value in ratios if value is not None]
    over = [against_limit(mode, family)(record) for mode, family in MOST if record["family"] == family]
    most = [MOST[mode, family] for mode, family in MOST if record["family"] == family]
    return min(slower, default=1.0) < 1.0 or any(v is not None and v > m for v, m in zip(over, most, strict=True))
