"""What a `Pool` does when it is given tensors: all that it does with arrays, and each step can be differentiated.

>>> import torch
>>> from ndpool import Lp, Pool, Window
>>> pool, x = Pool(Lp(2), Window((2,))), torch.tensor([3.0, 4.0])
>>> y, linear = pool.linearize(x)
>>> y, linear.push(torch.tensor([1.0, 0.0])), linear.pull(torch.tensor([10.0]))
(tensor([5.]), tensor([0.6000]), tensor([6., 8.]))
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..memory import Kept
from ..pool import Pool
from . import autograd, functional
from .calls import pooled
from .devices import check_same_device
from .engine import PLAIN, TensorPool
from .pools import over_pool

#: Why there is no `out` for tensors.
NO_OUT = "a tensor x, and is for NumPy arrays alone; write out.copy_(pool(x))"


def forward(pool: Pool, x: Tensor) -> Tensor:
    """`y`. Other kinds, and what only passes for a tensor, are for `functional.pool` to know."""
    if type(x) in PLAIN and type(pool.kind).engine:
        return pooled(over_pool(pool, x.dim()), x)
    return functional.pool(x, pool)


def with_indices(pool: Pool, x: Tensor) -> tuple[Tensor, Tensor]:
    """`y`, and the flat index over the pooled axes of the first winner in each window."""
    return autograd.with_indices(over_pool(pool, x.dim()), x)


def jvp(pool: Pool, x: Tensor, t: Any) -> tuple[Tensor, Tensor]:
    """`y`, and its change `dy` along `t`."""
    found = over_pool(pool, x.dim())
    _check_float(x)
    t = _direction("t", t, x.shape, x)
    return autograd.forward(found, x), autograd.jvp(found, t, x, None)


def linearize(pool: Pool, x: Tensor) -> tuple[Tensor, TensorLinear]:
    """`y`, and the derivative at x: `push` and `pull`, each of which can be differentiated."""
    found = over_pool(pool, x.dim())
    _check_float(x)
    if found.wins:
        y, winners = autograd.forward_with_winners(found, x)
        return y, TensorLinear(found, x, y, Kept(winners=winners))
    y = autograd.forward(found, x)
    several = pool.keeps == "x and y"
    # The caller may write to the y that is handed out.
    kept = Kept(None if found.linear else x, y.detach().clone() if several else None)
    return y, TensorLinear(found, x, y, kept)


class TensorLinear:
    """The derivative J of a pool at x, and its transpose. It keeps the winners, nothing, x, or x and y."""

    def __init__(self, pool: TensorPool, x: Tensor, y: Tensor, kept: Kept) -> None:
        self._pool, self._size, self._order = pool, x.shape, pool.order_of(x)
        self._outputs, self._like = y.shape, x.new_empty(0)
        #: The tensors that are kept, which must not be written to.
        self.residual = kept

    def push(self, t: Any) -> Tensor:
        """`dy = J t`."""
        kept = self.residual
        return autograd.jvp(self._pool, _direction("t", t, self._size, self._like), kept.x, kept.winners)

    def pull(self, g: Any, out: None = None) -> Tensor:
        """`gx = J^T g`."""
        if out is not None:
            raise TypeError("out is given beside a tensor x, and is for NumPy arrays alone; write out.copy_(pull(g))")
        g = _direction("g", g, self._outputs, self._like)
        return autograd.vjp(self._pool, g, self._size, self._order, *self.residual)

    def indices(self) -> Tensor:
        """Where each winner stands: its flat row-major index over the pooled axes."""
        if self.residual.winners is None:
            raise TypeError(f"{self._pool.kind!r} keeps no winners; call with_indices on the pool")
        return autograd.indices(self._pool, self.residual.winners, self._size)


def _check_float(x: Tensor) -> None:
    if not x.is_floating_point():
        raise TypeError(f"x has dtype {x.dtype}, and derivatives of tensors are for floats; give x.double()")


def _direction(name: str, a: Any, shape: torch.Size, like: Tensor) -> Tensor:
    """A tangent or a cotangent, in the dtype of `x` and on its device, which `like` has."""
    if not isinstance(a, Tensor):
        raise TypeError(f"{name} is a {type(a).__name__} and x is a tensor; give torch.as_tensor({name})")
    if a.is_complex():
        raise TypeError(f"{name} has dtype {a.dtype} beside an input of real numbers; give real numbers")
    if a.shape != shape:
        raise ValueError(f"{name} has shape {tuple(a.shape)} and should have {tuple(shape)}")
    check_same_device(name, a, like.device)
    return a.to(like.dtype)
