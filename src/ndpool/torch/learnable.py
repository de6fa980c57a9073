"""A smooth maximum whose sharpness is a tensor: it is differentiated in beta as well as in x.

With S the smooth maximum of beta 1,

    y = S(beta x) / beta        dy/dbeta = (sum of w_i x_i  -  y) / beta

for every beta that is not 0; a padded cell, the number 0, stays 0. So the product and the quotient are PyTorch's, the
pool is the engine's, and every derivative of every order follows from theirs.

The two terms of dy/dbeta nearly cancel where the cells are large beside 1/beta, and the product may overflow. Both are
computed in float64, whatever the dtype of x, and the result is rounded to that dtype once.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.compiler import is_compiling

from . import autograd
from .engine import TYPES, TensorPool, check_dense_layout, result_dtype


def smooth_max(pool: TensorPool, x: Tensor, beta: Tensor) -> Tensor:
    """`y`, where `pool` is the pool with beta 1."""
    check_beta(beta)
    check_dense_layout(x)
    if x.dtype not in TYPES:
        raise TypeError(f"x has dtype {x.dtype}, which ndpool does not pool; give one of {', '.join(map(str, TYPES))}")
    axes = pool.axes_of(x.dim())
    wide = spread(beta, x.shape, axes).double()
    y = autograd.forward(pool, _times(x.double(), wide))
    if y.dim() != x.dim() and wide.dim():
        wide = wide.squeeze(axes)
    return _over(y, wide).to(result_dtype(pool.kind, x.dtype))


def check_beta(beta: Tensor) -> None:
    """Real numbers, finite and not 0, wherever numbers are there to be looked at."""
    if beta.is_complex() or beta.dtype == torch.bool:
        raise TypeError(f"beta has dtype {beta.dtype}; give real numbers")
    if is_compiling() or autograd.is_traced(beta):
        return
    numbers = torch.func.debug_unwrap(beta.detach(), recurse=True)
    wrong = numbers[~numbers.isfinite() | (numbers == 0)]
    if wrong.numel():
        raise ValueError(f"beta has {wrong[0].item()!r} in it and must be finite and not 0; for a hard maximum use Max")


def spread(beta: Tensor, size: torch.Size, axes: list[int]) -> Tensor:
    """The beta as it is multiplied with x: one number, one a channel, or one for each place of the axes that stay.

    The channels are dimension 1, or 0 where the only dimension that is not pooled is they.
    """
    if beta.dim() == 0 or beta.shape == (1,):
        return beta.reshape(())
    ndim = len(size)
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


def _times(x: Tensor, beta: Tensor) -> Tensor:
    """`beta x`. An infinite cell weighs nothing, or everything for every beta: beta has no gradient from it."""
    infinite = x.isinf()
    return torch.where(infinite, x * beta.detach(), x.masked_fill(infinite, 0) * beta)


def _over(y: Tensor, beta: Tensor) -> Tensor:
    """`y / beta`, likewise."""
    infinite = y.isinf()
    return torch.where(infinite, y / beta.detach(), y.masked_fill(infinite, 0) / beta)
