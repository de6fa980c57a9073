"""How a drawn pool is measured: it is checked, then ndpool, PyTorch and a copy of x take turns. Best times count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import ndpool
from ndpool import native
from ndpool.memory import memory_order
from ndpool.plan import Plan, plan_of

from .. import windows
from ..measure import best_times, copier
from ..peers import Contender
from . import data, truth
from .drawing import Drawn
from .measures import LARGE, Record, is_suspect
from .rivals import Call, bare, rivals

Work = Callable[[], Any]
AGAIN = 10  # times as long, where a time is to be measured again


def plan_for(drawn: Drawn, x: np.ndarray[Any, Any], ordered: bool) -> Plan:
    """The plan that ndpool has for such an array, as a `Pool` makes it."""
    pooled = range(2, x.ndim) if ordered else ()
    order = None if x.flags.c_contiguous else memory_order(x, pooled)
    return plan_of(drawn.pool, drawn.shape, drawn.dtype, order)


def extent(x: torch.Tensor) -> int:
    """The bytes from the first to the last number of x. Of every second number, memory brings the others along."""
    last = sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True))
    return (last + 1) * x.element_size()


class Bench:
    """The works of one drawn pool, each a call without arguments, and what they should come to."""

    def __init__(self, drawn: Drawn, threads: int) -> None:
        self.drawn, self.threads = drawn, threads
        self.x, self.g = data.make(drawn)
        self.array, self.pool = data.as_array(self.x), drawn.pool
        self.ours, self.torch = rivals(drawn)
        self.y = self.pool(self.array)
        self.room = np.empty_like(self.y)
        if self.g is not None:
            self.watched = self.x.detach().requires_grad_()
            self.g_array = np.empty_like(self.y)
            self.g_array[...] = data.as_array(self.g)
            self.gx = np.empty_like(self.array)

    # --- works ---

    def forward(self) -> Any:
        return self.pool(self.array, out=self.room)

    def vjp(self) -> tuple[Any, Any]:
        y, pullback = self.pool.vjp(self.array)
        return y, pullback(self.g_array, out=self.gx)

    def tensor_vjp(self, call: Call) -> Work:
        """Forward and backward of tensors, with a cotangent that lies as the output does."""
        y = call(self.watched)
        g = torch.empty_like(y)
        g.copy_(self.g)

        def work() -> tuple[torch.Tensor, torch.Tensor]:
            y = call(self.watched)
            return y, *torch.autograd.grad(y, self.watched, g)

        return work

    def without_gradients(self, call: Call) -> Work:
        return lambda: call(self.x)

    def works(self) -> dict[str, Work]:
        """All that are timed, by name; PyTorch's only where it has the pool and takes the dtype."""
        works: dict[str, Work] = {"forward": self.forward, "forward tensor": self.without_gradients(self.ours)}
        theirs = self.torch
        if theirs is not None:
            try:
                theirs(self.x)
            except RuntimeError:  # as it says that it has no such dtype, rank or window
                theirs = None
        if theirs is not None:
            y = theirs(self.x)
            works |= {
                "forward torch": self.without_gradients(theirs),
                "forward bare": self.without_gradients(bare(y, None)),
            }
        if self.g is not None:
            works |= {"vjp": self.vjp, "vjp tensor": self.tensor_vjp(self.ours)}
            if theirs is not None:
                nothing = self.tensor_vjp(bare(y, torch.empty_like(self.x)))
                works |= {"vjp torch": self.tensor_vjp(theirs), "vjp bare": nothing}
        return works | self.loops()

    def loops(self) -> dict[str, Work]:
        """The bare loops of a pool on a large array, where more than its bytes takes time: merges, or curved kinds."""
        drawn, found = self.drawn, dict[str, Work | None]()
        takes = drawn.family == "smooth" or (drawn.family == "plain" and windows.overlap(drawn.pool, drawn.shape))
        if not takes or self.threads > 1 or self.x.numel() * self.x.element_size() < LARGE:
            return {}
        for name, back in (("forward loop", False), ("back loop", True)):
            if not back or self.g is not None:
                found[name] = windows.loop(drawn.pool, drawn.shape, drawn.dtype, drawn.row, back)
        return {name: work for name, work in found.items() if work is not None}

    # --- checks ---

    def check(self, works: dict[str, Work]) -> None:
        """Compare ndpool's results with the definition and with PyTorch's, or raise `truth.WrongResultError`."""
        expected = truth.Truth(self.drawn, self.array)
        y = self.forward()
        truth.check_values(expected, y)
        self._check_equal("y on a tensor", works["forward tensor"](), y, "the array's is")
        if "forward torch" in works and not self._torch_rounds_often():
            self._check_equal("y", works["forward torch"](), y, "in PyTorch it is", theirs=True)
        if self.g is None:
            return
        y, gx = self.vjp()
        truth.check_values(expected, y)
        truth.check_gradient(expected, self.g_array, gx)
        self._check_equal("gx on a tensor", works["vjp tensor"]()[1], gx, "the array's is")
        if "vjp torch" in works and self.drawn.dtype not in ("float16", "bfloat16"):
            self._check_equal("gx", works["vjp torch"]()[1], gx, "in PyTorch it is", theirs=True)

    def _torch_rounds_often(self) -> bool:
        """Sums of 16 bits are rounded at each step in some of PyTorch's pools."""
        return self.drawn.dtype in ("float16", "bfloat16") and not isinstance(self.drawn.kind, ndpool.Max)

    def _check_equal(self, what: str, tensor: torch.Tensor, ours: Any, whose: str, theirs: bool = False) -> None:
        other = data.as_array(tensor.detach())
        got, other = (other, ours) if not theirs else (ours, other)
        truth.check_equal(self.drawn, what, got, other, whose)

    # --- what is measured ---

    def limits(self, copy_s: float) -> dict[str, float]:
        """The memory's limits: the times in which the bytes would be moved at the speed of the copy."""
        x, y = self.x.numel() * self.x.element_size(), self.y.nbytes
        read = extent(self.x)
        keeps = plan_for(self.drawn, self.array, ordered=True).residual
        winners = 2 * keeps.winners * self.y.size
        back = y + winners + (read if keeps.x else 0) + (y if keeps.y else 0) + x
        moved = {"forward": read + y} | ({"vjp": read + y + back} if self.g is not None else {})
        return {mode: copy_s * size / (2 * x) for mode, size in moved.items()}

    def paths(self) -> dict[str, str]:
        """The ways that the engine takes."""
        first = isinstance(self.drawn.kind, ndpool.Max | ndpool.Min) and self.drawn.kind.ties == "first"
        plan, back = (plan_for(self.drawn, self.array, ordered) for ordered in (False, first))
        taken = {"forward": native.path(plan, "forward")}
        if self.g is not None:
            taken["vjp"] = f"{native.path(back, 'linearize')}, {native.path(back, 'pull')}"
        return taken

    def times(self, names: list[str], works: dict[str, Work], budget_s: float) -> dict[str, float]:
        copy, times = copier(np.empty(self.x.numel() * self.x.element_size(), np.uint8), self.threads)
        contenders = {name: Contender(works[name], tuple, "") for name in names} | {"copy": copy}
        found = best_times(contenders, budget_s)
        return found | {"copy": found["copy"] / times}


def measure(drawn: Drawn, threads: int, budget_s: float) -> Record:
    """The record of one drawn pool; where a time is suspect, from more and longer turns."""
    bench = Bench(drawn, threads)
    works = bench.works()
    bench.check(works)
    seconds = bench.times(list(works), works, budget_s)
    about = {
        "name": drawn.name,
        "family": drawn.family,
        "sort": drawn.sort,
        "bytes": bench.x.numel() * bench.x.element_size(),
        "elements": bench.x.numel(),
        "paths": bench.paths(),
    }
    record = about | {"seconds": seconds, "limits": bench.limits(seconds["copy"])}
    if is_suspect(record):
        again = bench.times(list(works), works, AGAIN * budget_s)
        seconds = {name: min(seconds[name], again[name]) for name in seconds}
        record |= {"seconds": seconds, "limits": bench.limits(seconds["copy"])}
    return record
