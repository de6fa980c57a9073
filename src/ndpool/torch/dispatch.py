"""What a `Pool` does when it is given tensors: all that it does with arrays, and each step can be differentiated.

>>> import torch
>>> from ndpool import Lp, Pool, Window
>>> pool, x = Pool(Lp(2), Window((2,))), torch.tensor([3.0, 4.0])
>>> y, pullback = pool.vjp(x)
>>> y, pullback(torch.tensor([10.0]))
(tensor([5.]), tensor([6., 8.]))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..pool import Pool
from . import autograd, functional
from .engine import NAMES, PLAIN
from .pools import over_pool


def forward(pool: Pool, x: Tensor) -> Tensor:
    """`y`. Other kinds, and what only passes for a tensor, are for `functional.pool` to know."""
    if type(x) in PLAIN and type(pool.kind) in NAMES:
        return autograd.forward(over_pool(pool, x.dim()), x)
    return functional.pool(x, pool)


def with_indices(pool: Pool, x: Tensor) -> tuple[Tensor, Tensor]:
    """`y`, and the flat index over the pooled axes of the first winner in each window."""
    return autograd.with_indices(over_pool(pool, x.dim()), x)


def jvp(pool: Pool, x: Tensor, t: Any) -> tuple[Tensor, Tensor]:
    """`y`, and its change `dy` along `t`."""
    found = over_pool(pool, x.dim())
    _check_float(x)
    t = _direction("t", t, x.shape, x.dtype)
    return autograd.forward(found, x), autograd.jvp(found, t, x, None)


def vjp(pool: Pool, x: Tensor) -> tuple[Tensor, Callable[[Any], Tensor]]:
    """`y`, and the function that takes a cotangent back to `x`. It keeps the winners, nothing, or `x`."""
    found = over_pool(pool, x.dim())
    _check_float(x)
    kept_x = winners = None
    if found.wins:
        y, winners = autograd.forward_with_winners(found, x)
    else:
        y = autograd.forward(found, x)
        kept_x = None if found.linear else x
    size, order, outputs, dtype = x.shape, found.order_of(x), y.shape, x.dtype

    def pullback(g: Any) -> Tensor:
        return autograd.vjp(found, _direction("g", g, outputs, dtype), size, order, kept_x, None, winners)

    return y, pullback


def _check_float(x: Tensor) -> None:
    if not x.is_floating_point():
        raise TypeError(f"x has dtype {x.dtype}, and derivatives of tensors are for floats; give x.double()")


def _direction(name: str, a: Any, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """A tangent or a cotangent, in the dtype of `x`."""
    if not isinstance(a, Tensor):
        raise TypeError(f"{name} is a {type(a).__name__} and x is a tensor; give torch.as_tensor({name})")
    if a.is_complex():
        raise TypeError(f"{name} has dtype {a.dtype} beside an input of real numbers; give real numbers")
    if a.shape != shape:
        raise ValueError(f"{name} has shape {tuple(a.shape)} and should have {tuple(shape)}")
    return a.to(dtype)
