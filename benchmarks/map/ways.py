"""Every way that the engine can go on pools drawn at random, beside the one that it chooses.

    python -m benchmarks.map.ways [--count N] [--seed S] [--budget SECONDS] [--kinds REGEX] [--only REGEX]

The conditions of csrc/plan/choice.cpp choose a way. One that takes much longer than another shows which condition is
wrong. Pools are those of the map but for strided ones, which the engine takes apart before it chooses.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ndpool.native import engine_plan
from ndpool.plan import Plan

from ..measure import best_times
from ..peers import Contender
from . import __main__ as command
from . import data
from .drawing import Drawn
from .timing import Work, plan_for

WORST, WORTH_TELLING = 40, 1.1


class Measured(NamedTuple):
    operation: str
    pool: str
    chosen: str
    seconds: dict[str, float]  # of each way

    @property
    def quickest(self) -> str:
        return min(self.seconds, key=self.seconds.__getitem__)

    @property
    def ratio(self) -> float:
        """The chosen way's time over the quickest one's."""
        return self.seconds[self.chosen] / self.seconds[self.quickest]


def operations(drawn: Drawn) -> Iterator[tuple[str, dict[str, Work]]]:
    """Each operation and all of its ways, the chosen one first, on arrays that lie as the engine has them."""
    x, g = data.make(drawn)
    array = data.as_array(x)
    plan = plan_for(drawn, array, ordered=False)
    yield "forward", _ways(plan, "forward", _as_kept(plan, array), _room(plan, plan.result))
    plan = plan_for(drawn, array, ordered=bool(plan.residual.winners))
    x_kept, y = _as_kept(plan, array), _room(plan, plan.result)
    winners = _room(plan, f"u{plan.residual.winners}") if plan.residual.winners else None
    if winners is not None:
        yield "linearize", _ways(plan, "linearize", x_kept, y, winners)
    if g is None:
        return
    engine = engine_plan(plan)
    engine.forward(x_kept, y) if winners is None else engine.linearize(x_kept, y, winners)
    g_kept, gx = _room(plan, plan.derivative), np.empty_like(x_kept)
    g_kept[...] = np.random.default_rng(0).standard_normal(g_kept.shape)
    yield "pull", _ways(plan, "pull", x_kept, y, winners, g_kept, gx)


def _as_kept(plan: Plan, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(x.transpose(plan.places))


def _room(plan: Plan, dtype: str) -> np.ndarray[Any, Any]:
    from ..cases import numpy_dtype

    return np.empty(plan.kept_shape, numpy_dtype(dtype))


def _ways(plan: Plan, operation: str, *arrays: np.ndarray[Any, Any] | None) -> dict[str, Work]:
    engine = engine_plan(plan)
    method = getattr(engine, operation)
    return {way: lambda way=way: method(*arrays, path=way) for way in engine.paths(operation)}


def measure(drawn: Drawn, budget_s: float) -> Iterator[Measured]:
    """What each way takes, of those operations that have several."""
    for operation, ways in operations(drawn):
        if len(ways) > 1:
            seconds = best_times({way: Contender(work, tuple, "") for way, work in ways.items()}, budget_s)
            yield Measured(operation, drawn.name, next(iter(ways)), seconds)


def summary(operation: str, found: list[Measured]) -> str:
    mean = math.exp(sum(math.log(one.ratio) for one in found) / len(found))
    beyond = ", ".join(f"{sum(one.ratio > limit for one in found)} beyond {limit}" for limit in (1.15, 1.3, 2))
    return f"{operation}: {len(found)} pools, {mean:.3f} x the quickest way's time in the mean; {beyond}"


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.map.ways", description=__doc__)
    parser.add_argument("--count", default=300, type=int, metavar="N", help="pools, default: 300")
    parser.add_argument("--seed", default=1, type=int, metavar="S", help="of the drawing, default: 1")
    parser.add_argument("--budget", default=0.02, type=float, metavar="SECONDS", help="of each way, default: 0.02")
    parser.add_argument("--kinds", default="max|min|avg|sum", metavar="REGEX", help="only kinds like this")
    parser.add_argument("--only", default="", metavar="REGEX", help="only pools whose name has this")
    parser.add_argument("--smallest", default=1e4, type=float, metavar="N", help="elements, default: 1e4")
    parser.add_argument("--largest", default=6e6, type=float, metavar="N", help="elements, default: 6e6")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> None:
    options = arguments(given)
    command.settle(threads=1)
    wanted = [drawn for drawn in command.chosen(options) if drawn.layout != "strided"]
    found = [one for drawn in wanted for one in measure(drawn, options.budget)]
    for one in sorted((one for one in found if one.ratio > WORTH_TELLING), key=lambda one: -one.ratio)[:WORST]:
        ways = ", ".join(f"{way} {1e6 * one.seconds[way]:.1f} us" for way in (one.chosen, one.quickest))
        print(f"{one.ratio:5.2f} {one.operation:9} {ways}: {one.pool}")
    for operation in dict.fromkeys(one.operation for one in found):
        print(summary(operation, [one for one in found if one.operation == operation]))


if __name__ == "__main__":
    main()
