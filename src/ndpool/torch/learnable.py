"""A smooth maximum whose sharpness is a tensor: it is differentiated in beta as well as in x.

With S the smooth maximum of beta 1 and z = beta x,

    y = S(z) / beta        dy/dbeta = (sum of w_i x_i  -  y) / beta

for every beta that is not 0; a padded cell, the number 0, stays 0. So the product and the quotient are PyTorch's, the
pool is the engine's, and every derivative of every order follows from theirs.

The two terms of dy/dbeta nearly cancel where the cells are large beside 1/beta, and the product may overflow. Both are
computed in float64, whatever the dtype of x, and the result is rounded to that dtype once.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling

from ..kinds import Sum
from . import autograd
from .engine import PLAIN, TYPES, TensorPool, check_dense_layout, result_dtype


def smooth_max(pool: TensorPool, x: Tensor, beta: Tensor) -> Tensor:
    """`y`, where `pool` is the pool with beta 1."""
    check_beta(beta)
    check_dense_layout(x)
    if x.dtype not in TYPES:
        raise TypeError(f"x has dtype {x.dtype}, which ndpool does not pool; give one of {', '.join(map(str, TYPES))}")
    wide = spread(beta, x.shape, pool.axes_of(x.dim())).double()
    if pool.pool.skip is not None:
        return _value_with_skip(pool, x, wide)
    recorded = torch.is_grad_enabled() and (x.requires_grad or beta.requires_grad)
    if recorded and autograd.is_plain(x) and autograd.is_plain(beta):
        y: Tensor = LearnableSmoothMax.apply(x, wide, pool)  # type: ignore[no-untyped-call]
        return y
    return _value(pool, x, wide)


def _value(pool: TensorPool, x: Tensor, beta: Tensor) -> Tensor:
    y = autograd.forward(pool, _times(x, beta))
    return _over(y, _beside(y, beta, pool)).to(result_dtype(pool.kind, x.dtype))


def _value_with_skip(pool: TensorPool, x: Tensor, beta: Tensor) -> Tensor:
    """The same where cells are skipped, which `beta x` would not show but for NaN; what is absent leans on nothing."""
    whole, skip = pool.pool, pool.pool.skip
    assert skip is not None
    dtype, x = x.dtype, x.double()
    there = ~x.isnan() if skip != skip else x != skip
    z = torch.where(there, _times(x.masked_fill(~there, 0.0), beta), torch.nan)
    y = autograd.forward(TensorPool(replace(whole, skip=math.nan)), z)
    few = autograd.forward(TensorPool(replace(whole, kind=Sum(), skip=None, min_count=1)), there) < whole.min_count
    y = _over(y.masked_fill(few, 0.0), _beside(y, beta, pool)).masked_fill(few, skip)
    return y.to(result_dtype(pool.kind, dtype))


class LearnableSmoothMax(torch.autograd.Function):
    """The same where only backward is to come. It keeps x and beta, and none of the float64 in between."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, beta: Tensor, pool: TensorPool) -> Tensor:
        ctx.save_for_backward(x, beta)
        ctx.pool = pool
        return _value(pool, x, beta)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        pool, (x, beta) = ctx.pool, ctx.saved_tensors
        z = _times(x, beta)
        g_sum = g.double() / _beside(g, beta, pool)
        gz = autograd.vjp(pool, g_sum, z.shape, pool.order_of(z), z, None, None)
        gx = (gz * beta).to(x.dtype) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return gx, None, None
        # sum of gz_i x_i is sum of gz_i z_i over beta.
        rest = g_sum * _without_infinities(autograd.forward(pool, z))
        if rest.dim() != x.dim():
            for axis in pool.axes_of(x.dim()):
                rest = rest.unsqueeze(axis)
        total = (gz * _without_infinities(z)).sum_to_size(beta.shape) - rest.sum_to_size(beta.shape)
        return gx, total / beta, None


def check_beta(beta: Tensor) -> None:
    """Real numbers, finite and not 0, wherever numbers are there to be looked at."""
    if beta.is_complex() or beta.dtype == torch.bool:
        raise TypeError(f"beta has dtype {beta.dtype}; give real numbers")
    if is_compiling() or torch._C._len_torch_dispatch_stack() or torch._C._is_tracing():
        return
    numbers = torch.func.debug_unwrap(beta.detach(), recurse=True)
    if type(numbers) not in PLAIN or not numbers.is_cpu:
        return
    wrong = numbers[~numbers.isfinite() | (numbers == 0)]
    if wrong.numel():
        raise ValueError(f"beta has {wrong[0].item()!r} in it and must be finite and not 0; for a hard maximum use Max")


def spread(beta: Tensor, size: torch.Size, axes: list[int]) -> Tensor:
    """The beta as it is multiplied with x: one number, one a channel, or one for each place of the axes that stay.

    The channels are dimension 1, or 0 where the only dimension that is not pooled is they.
    """
    ndim = len(size)
    if beta.dim() == 0 or beta.shape == (1,):
        return beta.reshape((1,) * ndim)
    if beta.dim() == ndim:
        if all(n == (1 if d in axes else size[d]) or n == 1 for d, n in enumerate(beta.shape)):
            return beta
    elif beta.dim() == 1:
        channels = 0 if ndim == len(axes) + 1 else 1
        if channels < ndim and channels not in axes and beta.shape[0] == size[channels]:
            return beta.reshape([-1 if d == channels else 1 for d in range(ndim)])
    raise ValueError(
        f"beta has shape {tuple(beta.shape)} beside an input of shape {tuple(size)} that is pooled over {tuple(axes)}; "
        f"give one number, one a channel (dimension {0 if ndim == len(axes) + 1 else 1}, if it is not pooled), or a "
        f"tensor of {ndim} axes of length 1 where the input is pooled and of its length or 1 elsewhere"
    )


def _beside(y: Tensor, beta: Tensor, pool: TensorPool) -> Tensor:
    """The beta as it stands beside y, whose pooled axes may be gone."""
    return beta if y.dim() == beta.dim() else beta.squeeze(pool.axes_of(beta.dim()))


def _times(x: Tensor, beta: Tensor) -> Tensor:
    """`beta x`. An infinite cell weighs nothing, or everything for every beta: beta has no gradient from it."""
    if _is_only_a_value(x):
        return x.to(torch.float64, copy=True).mul_(beta)
    x = x.double()
    return torch.where(x.isinf(), x * beta.detach(), _without_infinities(x) * beta)


def _over(y: Tensor, beta: Tensor) -> Tensor:
    """`y / beta`, likewise."""
    if _is_only_a_value(y):
        return y / beta
    return torch.where(y.isinf(), y / beta.detach(), _without_infinities(y) / beta)


def _is_only_a_value(a: Tensor) -> bool:
    """Whether nobody differentiates what is computed here."""
    return not torch.is_grad_enabled() and autograd.is_plain(a)


def _without_infinities(a: Tensor) -> Tensor:
    """0 in the place of infinities. Most tensors have none, which their sum tells in a tenth of the time on the CPU.

    Elsewhere the question would wait for the device.
    """
    if a.is_cpu and _is_only_a_value(a) and a.sum().isfinite():
        return a
    return a.masked_fill(a.isinf(), 0)
