"""What a call costs: ndpool against PyTorch on a tensor so small that nothing else is left to time.

    python -m benchmarks.torch_overhead [--quick]

Every function in every way to call it: as a function and as a module, on both orders in memory, in inference, with
gradients recorded, and with the gradient taken. The two take turns of a millisecond, so that a processor that slows
down slows both, and the best time of each is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import ndpool.torch.functional
import ndpool.torch.nn

from .measure import Stopwatch

GOAL = 3.0  # times as long as PyTorch
SHAPE = (1, 4, 8, 8)


@dataclass(frozen=True)
class Call:
    """One pool, as a function and as the module of the same arguments."""

    name: str
    function: str
    module: str
    arguments: tuple[Any, ...]

    def made(self, functions: Any, modules: Any, form: str) -> Callable[[torch.Tensor], torch.Tensor]:
        if form == "module":
            module: Callable[[torch.Tensor], torch.Tensor] = getattr(modules, self.module)(*self.arguments)
            return module
        function, arguments = getattr(functions, self.function), self.arguments
        return lambda x: function(x, *arguments)


CALLS = (
    Call("max 2/2", "max_pool2d", "MaxPool2d", (2, 2)),
    Call("max 3/2 pad 1", "max_pool2d", "MaxPool2d", (3, 2, 1)),
    Call("avg 2/2", "avg_pool2d", "AvgPool2d", (2, 2)),
    Call("avg 3/2 pad 1", "avg_pool2d", "AvgPool2d", (3, 2, 1)),
    Call("adaptive avg to 4", "adaptive_avg_pool2d", "AdaptiveAvgPool2d", (4,)),
    Call("adaptive avg to 1", "adaptive_avg_pool2d", "AdaptiveAvgPool2d", (1,)),
    Call("lp 2/2", "lp_pool2d", "LPPool2d", (2, 2, 2)),
    Call("lp 3/2", "lp_pool2d", "LPPool2d", (2, 3, 2)),
)
FORMATS = {"contiguous": torch.contiguous_format, "channels last": torch.channels_last}
WORKS = ("inference mode", "no_grad", "forward with grad", "forward + backward")
FORMS = ("function", "module")


def prepared(pool: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, work: str) -> Callable[[], Any]:
    """The work as a function of nothing. A mode is entered by the one who measures: entering it costs as much."""
    if work in ("inference mode", "no_grad"):
        return lambda: pool(x)
    leaf = x.detach().requires_grad_()
    if work == "forward with grad":
        return lambda: pool(leaf)
    torch.manual_seed(0)
    g = torch.randn_like(pool(x))
    return lambda: torch.autograd.grad(pool(leaf), leaf, g)[0]


def measured(call: Call, form: str, order: str, work: str, budget_s: float) -> dict[str, Any]:
    """The best seconds of each, after a look whether they compute the same."""
    x = torch.randn(SHAPE).to(memory_format=FORMATS[order])
    mode = {"inference mode": torch.inference_mode, "no_grad": torch.no_grad}.get(work, contextlib.nullcontext)
    works = {
        "ndpool": prepared(call.made(ndpool.torch.functional, ndpool.torch.nn, form), x, work),
        "PyTorch": prepared(call.made(torch.nn.functional, torch.nn, form), x, work),
    }
    with mode():
        torch.testing.assert_close(works["ndpool"](), works["PyTorch"](), rtol=1e-5, atol=1e-5)
        watches = {name: Stopwatch(run) for name, run in works.items()}
        while min(watch.spent for watch in watches.values()) < budget_s:
            for watch in watches.values():
                watch.sample()
    seconds = {name: watch.best for name, watch in watches.items()}
    return {"call": call.name, "form": form, "order": order, "work": work, "seconds": seconds}


def measure_all(budget_s: float) -> list[dict[str, Any]]:
    cases = itertools.product(CALLS, FORMS, FORMATS, WORKS)
    return [measured(*case, budget_s) for case in cases]


def times(record: dict[str, Any]) -> float:
    """How many times PyTorch's time ndpool takes."""
    ratio: float = record["seconds"]["ndpool"] / record["seconds"]["PyTorch"]
    return ratio


def report(records: list[dict[str, Any]]) -> str:
    """A row a pool, form and order; a column a work: PyTorch's microseconds, ndpool's, and their ratio."""
    lines = [
        f"## Calls on tiny tensors: {SHAPE}, float32, one thread\n",
        f"Microseconds of PyTorch → of ndpool (ratio). The target is {GOAL:g} x PyTorch's time at most; "
        f"{sum(times(record) <= GOAL for record in records)} of {len(records)} calls meet it, the worst takes "
        f"{max(map(times, records)):.2f} x.\n",
        f"| pool | as | in memory | {' | '.join(WORKS)} |",
        "|---" * (3 + len(WORKS)) + "|",
    ]
    for first, row in itertools.groupby(records, key=lambda record: (record["call"], record["form"], record["order"])):
        lines.append("| " + " | ".join((*first, *map(cell, row))) + " |")
    return "\n".join([*lines, ""])


def cell(record: dict[str, Any]) -> str:
    theirs, ours = (record["seconds"][name] * 1e6 for name in ("PyTorch", "ndpool"))
    ratio = times(record)
    return f"{theirs:.1f} → {ours:.1f} ({ratio:.2f} x{'' if ratio <= GOAL else ', missed'})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torch_overhead", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the repetitions: less precise")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(report(measure_all(0.04 if options.quick else 0.2)))


if __name__ == "__main__":
    main()
