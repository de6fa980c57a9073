"""How a drawn pool is called on tensors, by PyTorch where it defines the same pool, and by ndpool in the same words."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional

import ndpool.torch.functional
from ndpool import Adaptive, Avg, Lp, Max, Sum, Window

from .drawing import Drawn

Call = Callable[[torch.Tensor], torch.Tensor]


class Rivals(NamedTuple):
    """Both take a tensor. PyTorch's is None where it has no such pool."""

    ours: Call
    torch: Call | None


class Bare(torch.autograd.Function):
    """What any pool with a gradient costs in Python: it is given its results, and computes nothing."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor, gx: torch.Tensor) -> torch.Tensor:
        ctx.gx = gx
        return y.view_as(y)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:  # type: ignore[override]
        return ctx.gx, None, None


def bare(y: torch.Tensor, gx: torch.Tensor | None) -> Call:
    """A call that returns a fresh tensor like y, or, where a gradient is asked for, y itself."""
    if gx is None:
        return lambda x: torch.empty_like(y)
    return lambda x: Bare.apply(x, y, gx)  # type: ignore[no-untyped-call, no-any-return]


def rivals(drawn: Drawn) -> Rivals:
    found = _spelled(drawn)
    if found is None:
        return Rivals(partial(ndpool.torch.functional.pool, pool=drawn.pool), None)
    ours, theirs, arguments, options, theirs_alone = found
    return Rivals(
        partial(_second, getattr(ndpool.torch.functional, ours), arguments, options),
        partial(_second, getattr(torch.nn.functional, theirs), arguments, options | theirs_alone),
    )


def _second(
    function: Callable[..., torch.Tensor], arguments: tuple[Any, ...], options: Any, x: torch.Tensor
) -> torch.Tensor:
    return function(x, *arguments, **options)


def _spelled(drawn: Drawn) -> tuple[str, str, tuple[Any, ...], dict[str, Any], dict[str, Any]] | None:
    """Our function, PyTorch's, the arguments, those by keyword, and those that PyTorch alone takes; None without."""
    kind, window, rank = drawn.kind, drawn.window, drawn.rank
    if rank > 3 or (not drawn.is_float and kind != Max()):
        return None  # of integers, PyTorch has the largest alone; its averages are integers
    if not isinstance(window, Window):
        if kind not in (Max(), Avg()):
            return None
        name = f"adaptive_{type(kind).__name__.lower()}_pool{rank}d"
        return name, name, (window.output_size if isinstance(window, Adaptive) else 1,), {}, {}
    geometry = window.kernel_size, window.stride, window.padding
    options: dict[str, Any] = {"ceil_mode": window.ceil_mode}
    if kind == Max():
        name = f"max_pool{rank}d"
        return name, name, geometry, options | {"dilation": window.dilation}, {}
    if window.dilation != 1:
        return None
    if kind == Lp(2) and window.padding == 0 and not window.ceil_mode:
        name = f"lp_pool{rank}d"
        return name, name, (2.0, *(_one_if_same(n) for n in geometry[:2])), options, {}
    if isinstance(kind, Avg):
        name = f"avg_pool{rank}d"
        return name, name, geometry, options | {"count_include_pad": kind.count_include_pad}, {}
    if kind == Sum() and rank > 1:
        return f"sum_pool{rank}d", f"avg_pool{rank}d", geometry, options, {"divisor_override": 1}
    return None


def _one_if_same(numbers: Any) -> Any:
    """PyTorch's `lp_pool1d` takes an int alone."""
    return numbers[0] if isinstance(numbers, tuple) and len(numbers) == 1 else numbers
