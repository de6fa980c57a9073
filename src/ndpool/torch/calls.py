"""What the functions on tensors have in common: from a call's arguments to the operators that differentiate.

`pool` takes any `ndpool.Pool`. The others are what the functions that are made from the table call.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling
from torch.overrides import has_torch_function_unary

from ..kind import Kind
from ..kinds import SmoothMax
from ..parameters import documented
from ..pool import Pool
from . import autograd, custom, learnable
from .engine import TensorPool
from .overriding import handed_over
from .pools import over_pool

#: The parameter of a kind that may be a tensor, which is then differentiated in as well.
LEARNABLE: dict[type[Kind], str] = {SmoothMax: "beta"}


class _Unseen:
    """Stands for a tensor of any shape, where only the other arguments are looked at: the call gives its pool."""

    axes = 64


UNSEEN: Any = _Unseen()


def axes_of_unseen(axes: list[int]) -> list[int]:
    """The axes of a pool over `UNSEEN` as they were given: from the end, or from the start."""
    return [axis + _Unseen.axes if axis < -_Unseen.axes // 2 else axis for axis in axes]


def ndim_of(x: Any) -> int:
    if isinstance(x, torch.Tensor):
        return x.dim()
    if x is UNSEEN:
        return _Unseen.axes
    raise TypeError(f"x is a {type(x).__name__}; give a tensor, or use the functions of ndpool itself")


def pooled(pool: TensorPool, x: Tensor) -> Tensor:
    """The output; of `UNSEEN`, the pool itself."""
    if x is UNSEEN:
        return pool  # type: ignore[return-value]
    y = autograd.again(pool, x)
    return autograd.forward(pool, x) if y is None else y


def result(pool: TensorPool, x: Tensor, return_indices: bool) -> Any:
    """The output and, where they are asked for, the indices."""
    if not isinstance(return_indices, bool):
        raise TypeError(f"return_indices={return_indices!r} is not a bool; give True or False")
    return autograd.with_indices(pool, x) if return_indices and x is not UNSEEN else pooled(pool, x)


def learned(pool: TensorPool, x: Tensor, beta: float | Tensor) -> Tensor:
    """The result of a pool that has this beta or, where it is a tensor, beta 1."""
    if not isinstance(beta, Tensor):
        return pooled(pool, x)
    if x is not UNSEEN:
        return learnable.smooth_max(pool, x, beta)
    learnable.check_beta(beta)
    return pooled(pool, x)


def fixed(beta: float | Tensor) -> float:
    """The beta that a pool for this one has."""
    return 1.0 if isinstance(beta, Tensor) else beta


@documented
def pool(x: Tensor, pool: Pool) -> Tensor:
    """Any `ndpool.Pool` on a tensor. A kind of your own is computed by the specification, and differentiable once.

    >>> from ndpool import Global
    >>> pool(torch.tensor([[3.0, 4.0]]), Pool(Lp(2), Global(keepdims=False), axes=-1))
    tensor([5.])
    """
    if has_torch_function_unary(x) and not is_compiling():
        return handed_over(_pool, locals())
    if not isinstance(pool, Pool):
        raise TypeError(
            f"pool={pool!r} is a {type(pool).__name__}; give an ndpool.Pool, such as Pool(Max(), Window((2, 2))), or "
            "call a function that takes numbers, such as max_pool2d"
        )
    ndim = ndim_of(x)
    if not type(pool.kind).engine:
        return x if x is UNSEEN else custom.forward(pool, x)
    return pooled(over_pool(pool, ndim), x)


_pool = pool  # which has a parameter of its own name
pool.__module__ = f"{__package__}.functional"  # where a traced graph finds it
