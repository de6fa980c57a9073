"""Every way that a pool can go on the GPU: how long it takes, beside its price, the way that is chosen, and PyTorch.

    python -m benchmarks.gpu.ways [--count N] [--seed S] [--only REGEX]

Ways are chosen by the prices of `ndpool.triton.times`. A way that is chosen and is not the quickest shows which of them
is wrong. Kernels are compiled first, by as many processes as --jobs says.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from ndpool.plan import COMPUTED_AS, plan_of
from ndpool.torch.engine import memory_order
from ndpool.triton import recipes, work
from ndpool.triton.recipes import Work

from ..map.data import Data
from ..map.drawing import Drawn
from ..map.rivals import rivals
from .random_pools import _on, _operations, drawn_pools
from .timing import median_seconds

BUDGET_S = 0.01


class Way(NamedTuple):
    operation: str
    name: str
    price: float
    chosen: bool
    run: Callable[[], Any]


def words(steps: tuple[work.Walk, ...]) -> str:
    """The launches forward: the pooled axes of each, and its cells."""
    parts = []
    for step in steps:
        pooled = [str(i) for i, axis in enumerate(step.axes) if not axis.is_carried]
        parts.append(f"{'tree ' if step.tree else ''}{'+'.join(pooled)}:{step.cells}")
    return ", ".join(parts)


def ways(drawn: Drawn, data: Data, device: str) -> Iterator[Way]:
    """All ways forward, and back where there are several, on tensors that lie as the engine would have them."""
    plan = plan_of(drawn.pool, drawn.shape, drawn.dtype)
    order = memory_order(data.x, plan.axes)
    plan = plan_of(drawn.pool, drawn.shape, drawn.dtype, order)
    x = data.x.permute(plan.places).contiguous()

    def room(dtype: str) -> torch.Tensor:
        return torch.empty(plan.kept_shape, dtype=getattr(torch, COMPUTED_AS.get(dtype, dtype)), device=device)

    y = room(plan.result)
    chosen = Work(plan)
    for steps in work.possible_walks(chosen.axes):
        recipe = Work(plan, steps).recipe("forward")
        price = work._time(plan, steps) / 1e12
        yield Way("forward", words(steps), price, steps == chosen.walks, lambda recipe=recipe: recipe.run(x=x, y=y))
    if data.g is None or not (plan.residual.winners or (plan.is_linear and chosen.divisor)):
        return
    given = {"g": room(plan.derivative).normal_(), "gx": torch.empty_like(x)}
    prices = recipes.times_of_sums(chosen)
    if plan.residual.winners:
        given["winners"] = room(f"uint{8 * plan.residual.winners}")
        chosen.recipe("linearize").run(x=x, y=y, winners=given["winners"])
        prices = recipes.times_of_winners(chosen)
    for name, price in prices.items():
        recipe = Work(plan, back=name).recipe("pull")
        run = lambda recipe=recipe: recipe.run(**given)  # noqa: E731
        yield Way("VJP", name, price / 1e12, name == recipes.quickest(prices), run)


def table(drawn: Drawn, device: str) -> Iterator[str]:
    """A line for each operation, and one for each of its ways."""
    data = _on(device, drawn)
    theirs = rivals(drawn).torch
    try:
        peers = _operations(theirs, data) if theirs else {}
        peers = {name: median_seconds(work, device, BUDGET_S) for name, work in peers.items()}
    except (RuntimeError, NotImplementedError):  # which has no such dtype, layout or size
        peers = {}
    found = [(way, median_seconds(way.run, device, BUDGET_S)) for way in ways(drawn, data, device)]
    for operation in dict.fromkeys(way.operation for way, _ in found):
        lines = [(seconds, way) for way, seconds in found if way.operation == operation]
        best, own = min(seconds for seconds, _ in lines), min(seconds for seconds, way in lines if way.chosen)
        peer = peers.get(operation, 0.0)
        yield f"{own / best:.2f} x best, {peer / own:.2f} x PyTorch ({1e6 * peer:.1f} us)  {operation}  {drawn.name}"
        for seconds, way in sorted(lines, key=lambda line: line[0])[:6]:
            mark = "*" if way.chosen else " "
            yield f"   {mark} {1e6 * seconds:8.1f} us, priced {1e6 * way.price:8.1f}  {way.name}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.ways", description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=40, metavar="N", help="pools; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of the random pools; default: %(default)s")
    parser.add_argument("--only", default="", metavar="REGEX", help="only pools whose name has this")
    parser.add_argument("--jobs", type=int, default=min(14, os.cpu_count() or 1), help="default: %(default)s")
    parser.add_argument("--device", default="cuda", help="cpu: only for a test of this program")
    parser.add_argument("--warm", default="", help=argparse.SUPPRESS)  # I/N: compile the kernels of every N-th pool
    return parser.parse_args()


def main() -> None:
    options = arguments()
    drawn = [one for one in drawn_pools(options.seed, options.count) if re.search(options.only, one.name)]
    if options.warm:
        i, n = map(int, options.warm.split("/"))
        for one in drawn[i::n]:
            for way in ways(one, _on(options.device, one), options.device):
                way.run()
        return
    if options.jobs > 1:
        command = [sys.executable, "-m", "benchmarks.gpu.ways", *sys.argv[1:]]
        running = [subprocess.Popen([*command, "--warm", f"{i}/{options.jobs}"]) for i in range(options.jobs)]
        for process in running:
            process.wait()
    for one in drawn:
        for line in table(one, options.device):
            print(line, flush=True)


if __name__ == "__main__":
    main()
