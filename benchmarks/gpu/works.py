"""The table of pools, and what is done with each: forward, forward with winners, and the way back.

The bytes of a work are those that it has to move: x and y, the winners, and what the derivative keeps. All contenders
are held to the same bytes, and their speed is told as a share of the copy's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional

from ndpool import Adaptive, Avg, Global, Max, SmoothMax, Window
from ndpool.plan import ITEM_BYTES, Plan, plan_of

from ..map.drawing import Drawn, kind_name, window_name
from ..map.rivals import rivals
from .timing import median_seconds

OPERATIONS = ("forward", "forward with winners", "VJP")
CONTENDERS = ("ndpool", "PyTorch", "compiled PyTorch")

IMAGE, VOLUME, SIGNAL, WIDE = (64, 64, 224, 224), (16, 64, 32, 64, 64), (64, 64, 50176), (16, 16, 512, 512)
BLOCKS, OVERLAPPING = {"kernel_size": 2, "stride": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}


@dataclass(frozen=True)
class Goal:
    """What a work is held to: a share of the copy's speed, and times as fast as PyTorch and as compiled PyTorch."""

    share: float = 0.0
    eager: float = 0.0
    compiled: float = 0.0


@dataclass(frozen=True)
class Work:
    """One pool over one tensor; `sort` names the row of targets that it belongs to."""

    sort: str
    drawn: Drawn

    @property
    def name(self) -> str:
        layout = {"channels first": "NCHW", "channels last": "NHWC"}[self.drawn.layout]
        shape = ",".join(map(str, self.drawn.shape))
        window = window_name(self.drawn.window)
        return f"{kind_name(self.drawn.kind)} {window}, {self.drawn.dtype} ({shape}) {layout}"

    @property
    def plan(self) -> Plan:
        return plan_of(self.drawn.pool, self.drawn.shape, self.drawn.dtype)

    def goal(self, operation: str) -> Goal:
        narrow, forward = self.drawn.dtype != "float32", operation == "forward"
        if self.sort == "common":
            three = isinstance(self.drawn.window, Window) and self.drawn.window.kernel_size[0] == 3
            low = 0.75 if three and self.drawn.layout == "channels first" else 0.85
            share = (low if narrow else 0.9) if forward else (0.75 if narrow else 0.85)
            if operation != "VJP":
                return Goal(share, 2, 1 / 1.03)
            return Goal(share, 7, 5 if three and self.drawn.kind == Max() else 1.5)
        if self.sort == "wide":
            return Goal(0.25 if forward else 0.0, 10)
        if self.sort == "smooth":
            return Goal(0.6 if forward else 0.5, 5)
        return Goal({"global": 0.85}.get(self.sort, 0.7))


def _drawn(kind: Any, window: Any, shape: tuple[int, ...], dtype: str, last: bool = False) -> Drawn:
    if isinstance(window, dict):
        window = Window(**{k: (v,) * (len(shape) - 2) for k, v in window.items()})
    return Drawn(kind, window, shape, dtype, "channels last" if last else "channels first")


def works() -> Iterator[Work]:
    for dtype in ("float32", "bfloat16"):
        for last in (False, True):
            for kind in (Max(), Avg()):
                for window in (BLOCKS, OVERLAPPING):
                    yield Work("common", _drawn(kind, window, IMAGE, dtype, last))
    for dtype in ("float32", "bfloat16"):
        for window in (BLOCKS, OVERLAPPING):
            yield Work("smooth", _drawn(SmoothMax(1.0), window, IMAGE, dtype))
            yield Work("volume", _drawn(Max(), window, VOLUME, dtype))
            yield Work("signal", _drawn(Max(), window, SIGNAL, dtype))
        for kind in (Max(), Avg()):
            yield Work("adaptive", _drawn(kind, Adaptive((7, 7)), IMAGE, dtype))
            yield Work("global", _drawn(kind, Global(), IMAGE, dtype))
    yield Work("global", _drawn(Avg(), Global(), IMAGE, "float32", True))
    for kind in (Max(), Avg()):
        yield Work("wide", _drawn(kind, {"kernel_size": 15, "stride": 1, "padding": 7}, WIDE, "float32"))


# --- contenders -----------------------------------------------------------------------------------


def _log_sum_exp(drawn: Drawn) -> Callable[[torch.Tensor], torch.Tensor]:
    """A smooth maximum as it is written in PyTorch, which has none: over the windows that `unfold` lays out."""
    window = drawn.window
    assert isinstance(window, Window)
    (kernel, *_), (stride, *_) = window.kernel_size, window.stride  # type: ignore[misc]
    pad = window.padding[0] if window.padding else 0  # type: ignore[index]

    def pool(x: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.pad(x, (pad,) * 4) if pad else x
        return x.unfold(2, kernel, stride).unfold(3, kernel, stride).flatten(-2).logsumexp(-1)

    return pool


def functions(work: Work) -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    found = rivals(work.drawn)
    theirs = _log_sum_exp(work.drawn) if isinstance(work.drawn.kind, SmoothMax) else found.torch
    assert theirs is not None
    return {"ndpool": found.ours, "PyTorch": theirs, "compiled PyTorch": torch.compile(theirs, dynamic=False)}


def tensors(work: Work, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """An input and a cotangent."""
    torch.manual_seed(0)
    drawn, dtype = work.drawn, getattr(torch, work.drawn.dtype)
    x, g = (torch.randn(shape, device=device, dtype=dtype) for shape in (drawn.shape, work.plan.output_shape))
    if drawn.layout == "channels last":
        x, g = (a.to(memory_format=torch.channels_last) for a in (x, g))
    return x, g


def prepared(
    function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, g: torch.Tensor, operation: str
) -> Callable[[], Any]:
    """The operation as a function of nothing."""
    if operation == "forward":
        return torch.no_grad()(lambda: function(x))
    leaf = x.detach().requires_grad_()
    if operation == "forward with winners":
        return lambda: function(leaf)
    y = function(leaf)
    return lambda: torch.autograd.grad(y, leaf, g, retain_graph=True)[0]


def moved(plan: Plan, operation: str) -> int:
    """The bytes that the operation has to move."""
    inputs, outputs = torch.Size(plan.shape).numel(), torch.Size(plan.output_shape).numel()
    both = inputs * ITEM_BYTES[plan.dtype] + outputs * ITEM_BYTES[plan.result]
    return both + (plan.residual_bytes if operation != "forward" else 0)


def operations(work: Work) -> tuple[str, ...]:
    """Forward with winners is an operation of its own where there are winners."""
    return OPERATIONS if work.plan.residual.winners else ("forward", "VJP")


def measured(work: Work, device: str, budget_s: float) -> Iterator[dict[str, Any]]:
    """A record for each operation: the seconds of each contender, and the bytes. A contender that fails has none."""
    torch.compiler.reset()  # every case is compiled for itself
    torch._functorch.config.donated_buffer = False  # which would not let a way back be gone twice
    x, g = tensors(work, device)
    contenders = functions(work)
    for operation in operations(work):
        seconds, failed = {}, {}
        for name, function in contenders.items():
            try:
                seconds[name] = median_seconds(prepared(function, x, g, operation), device, budget_s)
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
        yield {
            "sort": work.sort,
            "work": work.name,
            "operation": operation,
            "bytes": moved(work.plan, operation),
            "goal": vars(work.goal(operation)),
            "seconds": seconds,
            "failed": failed,
        }


def warmed(work: Work, device: str) -> None:
    """Every kernel of the work compiled, into the caches that all processes share."""
    torch._functorch.config.donated_buffer = False
    x, g = tensors(work, device)
    for function in functions(work).values():
        for operation in operations(work):
            prepared(function, x, g, operation)()
