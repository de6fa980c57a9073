"""Pools drawn at random, as `benchmarks.map` draws them, on the device: is any slower than PyTorch's?

Beside both stands a copy of as many bytes as the work has to move. Most of these arrays are small for a GPU, so that a
copy takes little more than its launch, and PyTorch's time beside the copy's is the most that anyone can gain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from ndpool.plan import plan_of

from ..map.data import Data, make
from ..map.drawing import Drawn, draws
from ..map.rivals import rivals
from .timing import median_seconds
from .works import moved

#: From so many elements on, there is more to time than a launch.
SMALLEST, LARGEST = 1e5, 3e7
CLOSE = {"float64": 1e-10, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}


def drawn_pools(seed: int, count: int) -> list[Drawn]:
    """The first pools of so many draws that PyTorch has as well."""
    found = [drawn for drawn in draws(seed, 4 * count, SMALLEST, LARGEST) if rivals(drawn).torch is not None]
    return found[:count]


def _on(device: str, drawn: Drawn) -> Data:
    x, g = make(drawn)
    moved = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device).copy_(x)
    return Data(moved, None if g is None else g.to(device))


def _operations(function: Callable[[torch.Tensor], torch.Tensor], data: Data) -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {"forward": torch.no_grad()(lambda: function(data.x))}
    if data.g is not None:
        leaf = data.x.detach().requires_grad_()
        y = function(leaf)
        g = torch.empty_like(y).copy_(data.g)  # which lies as y does, as behind a layer that keeps the order of axes
        found["VJP"] = lambda: torch.autograd.grad(y, leaf, g, retain_graph=True)[0]
    return found


def measured(drawn: Drawn, device: str, budget_s: float) -> Iterator[dict[str, Any]]:
    """A record for each operation: the seconds of both, and whether they agree. None where PyTorch has no kernel."""
    data, both = _on(device, drawn), rivals(drawn)
    assert both.torch is not None
    try:
        theirs = _operations(both.torch, data)
        expected = {name: work() for name, work in theirs.items()}
    except (RuntimeError, NotImplementedError):  # which has no such dtype, layout or size
        return
    limit, plan = CLOSE.get(drawn.dtype, 0.0), plan_of(drawn.pool, drawn.shape, drawn.dtype)
    for name, work in theirs.items():
        record = {"pool": drawn.name, "operation": name}
        try:
            ours = _operations(both.ours, data)[name]
            agree = torch.allclose(ours().double(), expected[name].double(), limit, limit, equal_nan=True)
            mine = median_seconds(ours, device, budget_s)
        except Exception as error:
            yield record | {"failed": f"{type(error).__name__}: {error}"[:300]}
        else:
            copy = median_seconds(_copy(moved(plan, name), device), device, budget_s)
            seconds = {"ndpool": mine, "PyTorch": median_seconds(work, device, budget_s), "copy": copy}
            yield record | {"seconds": seconds, "agree": agree}


def _copy(size: int, device: str) -> Callable[[], Any]:
    """A copy that moves so many bytes, half of them read and half written."""
    source = torch.zeros(size // 2, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def warmed(drawn: Drawn, device: str) -> None:
    for work in _operations(rivals(drawn).ours, _on(device, drawn)).values():
        work()
