"""Pooling functions for tensors: PyTorch's own, spelled as PyTorch spells them, and everything that ndpool adds.

With a number in its name, a function that PyTorch has takes PyTorch's arguments (`max_pool2d`, `lp_pool1d`): they come
from `signatures`. Without one it takes ndpool's: any rank, any `axes`, `ties=`, any padding, dilation for every kind.

    >>> import torch
    >>> x = torch.tensor([[1.0, 2.0], [4.0, 3.0]], requires_grad=True)
    >>> max_pool(x, (2, 2)).sum().backward()
    >>> x.grad
    tensor([[0., 0.],
            [1., 0.]])
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..functional import over_last
from ..kinds import Avg, Lp, Max, Min, SmoothMax, Sum
from ..pool import Pool
from ..windows import Ints, PaddingLike
from . import autograd, custom
from .engine import NAMES, TensorPool
from .pools import over_all, over_bins, over_window, tensor_pool
from .signatures import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool3d,
    max_pool3d_with_indices,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)

__all__ = [
    "adaptive_avg_pool",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_lp_pool",
    "adaptive_lp_pool1d",
    "adaptive_lp_pool2d",
    "adaptive_lp_pool3d",
    "adaptive_max_pool",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "adaptive_min_pool",
    "adaptive_min_pool1d",
    "adaptive_min_pool2d",
    "adaptive_min_pool3d",
    "adaptive_smooth_max_pool",
    "adaptive_smooth_max_pool1d",
    "adaptive_smooth_max_pool2d",
    "adaptive_smooth_max_pool3d",
    "adaptive_sum_pool",
    "adaptive_sum_pool1d",
    "adaptive_sum_pool2d",
    "adaptive_sum_pool3d",
    "avg_pool",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "global_avg_pool",
    "global_lp_pool",
    "global_max_pool",
    "global_min_pool",
    "global_smooth_max_pool",
    "global_sum_pool",
    "lp_pool",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "min_pool",
    "min_pool1d",
    "min_pool2d",
    "min_pool3d",
    "pool",
    "smooth_max_pool",
    "smooth_max_pool1d",
    "smooth_max_pool2d",
    "smooth_max_pool3d",
    "sum_pool",
    "sum_pool1d",
    "sum_pool2d",
    "sum_pool3d",
]


def _ndim(x: Tensor) -> int:
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"x is a {type(x).__name__}; give a tensor, or use the functions of ndpool itself")
    return x.dim()


def _result(pool: TensorPool, x: Tensor, return_indices: bool) -> Any:
    if not isinstance(return_indices, bool):
        raise TypeError(f"return_indices={return_indices!r} is not a bool; give True or False")
    return autograd.with_indices(pool, x) if return_indices else autograd.forward(pool, x)


def pool(x: Tensor, pool: Pool) -> Tensor:
    """Any `ndpool.Pool` on a tensor. A kind of your own is computed by the specification, and differentiable once.

    >>> from ndpool import Global
    >>> pool(torch.tensor([[3.0, 4.0]]), Pool(Lp(2), Global(keepdims=False), axes=-1))
    tensor([5.])
    """
    ndim = _ndim(x)
    if type(pool.kind) not in NAMES:
        return custom.forward(pool, x)
    return autograd.forward(tensor_pool(pool.kind, pool.window, pool.axes, ndim), x)


# --- over a Window --------------------------------------------------------------------------------


def max_pool(
    x: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: PaddingLike = 0,
    *,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    ties: str = "first",
    return_indices: bool = False,
    axes: Ints | None = None,
) -> Any:
    """`y = max x_i` over each window; with `return_indices`, `(y, indices)`.

    An index is flat and row-major over the pooled axes, int64, the first maximum's.

    >>> max_pool(torch.tensor([3, 3, 1, 5, 7]), (2,), return_indices=True)
    (tensor([3, 5]), tensor([0, 3]))
    """
    chosen = over_window(Max, kernel_size, stride, padding, dilation, ceil_mode, axes, _ndim(x), ties)
    return _result(chosen, x, return_indices)


def min_pool(
    x: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: PaddingLike = 0,
    *,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    ties: str = "first",
    return_indices: bool = False,
    axes: Ints | None = None,
) -> Any:
    """`y = min x_i` over each window; with `return_indices`, `(y, indices)` as in `max_pool`.

    >>> min_pool(torch.tensor([3, 3, 1, 5, 7]), (2,))
    tensor([3, 1])
    """
    chosen = over_window(Min, kernel_size, stride, padding, dilation, ceil_mode, axes, _ndim(x), ties)
    return _result(chosen, x, return_indices)


def avg_pool(
    x: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: PaddingLike = 0,
    *,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    axes: Ints | None = None,
) -> Tensor:
    """`y = (sum x_i) / n` over each window; n counts padding with `count_include_pad`, or is `divisor_override`.

    >>> avg_pool(torch.arange(1.0, 9.0), (2,), 3, dilation=2)
    tensor([2., 5.])
    """
    chosen = over_window(
        Avg, kernel_size, stride, padding, dilation, ceil_mode, axes, _ndim(x), count_include_pad, divisor_override
    )
    return autograd.forward(chosen, x)


def sum_pool(
    x: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: PaddingLike = 0,
    *,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    axes: Ints | None = None,
) -> Tensor:
    """`y = sum x_i` over each window.

    >>> sum_pool(torch.tensor([1, 2, 3, 4]), (2,))
    tensor([3, 7])
    """
    chosen = over_window(Sum, kernel_size, stride, padding, dilation, ceil_mode, axes, _ndim(x))
    return autograd.forward(chosen, x)


def smooth_max_pool(
    x: Tensor,
    beta: float,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: PaddingLike = 0,
    *,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    axes: Ints | None = None,
) -> Tensor:
    """`y = log(sum exp(beta x_i)) / beta` over each window; a padded cell is the number 0, or ignored.

    >>> smooth_max_pool(torch.tensor([0.0, 1.0]), 1.0, (2,))
    tensor([1.3133])
    """
    chosen = over_window(
        SmoothMax, kernel_size, stride, padding, dilation, ceil_mode, axes, _ndim(x), beta, count_include_pad
    )
    return autograd.forward(chosen, x)


def lp_pool(
    x: Tensor,
    p: float,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: PaddingLike = 0,
    *,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    axes: Ints | None = None,
) -> Tensor:
    """`y = (sum |x_i|^p)^(1/p)` over each window.

    >>> lp_pool(torch.tensor([3.0, -4.0]), 2, (2,))
    tensor([5.])
    """
    chosen = over_window(Lp, kernel_size, stride, padding, dilation, ceil_mode, axes, _ndim(x), p)
    return autograd.forward(chosen, x)


# --- over an Adaptive window ----------------------------------------------------------------------


def adaptive_max_pool(
    x: Tensor,
    output_size: int | tuple[int | None, ...],
    *,
    ties: str = "first",
    return_indices: bool = False,
    axes: Ints | None = None,
) -> Any:
    """`y = max x_i` over `output_size` even bins; with `return_indices`, `(y, indices)` as in `max_pool`.

    >>> adaptive_max_pool(torch.tensor([1, 2, 3, 4, 5]), (3,))
    tensor([2, 4, 5])
    """
    return _result(over_bins(Max, output_size, axes, _ndim(x), ties), x, return_indices)


def adaptive_min_pool(
    x: Tensor,
    output_size: int | tuple[int | None, ...],
    *,
    ties: str = "first",
    return_indices: bool = False,
    axes: Ints | None = None,
) -> Any:
    """`y = min x_i` over `output_size` even bins; with `return_indices`, `(y, indices)` as in `max_pool`.

    >>> adaptive_min_pool(torch.tensor([1, 2, 3, 4, 5]), (3,))
    tensor([1, 2, 4])
    """
    return _result(over_bins(Min, output_size, axes, _ndim(x), ties), x, return_indices)


def adaptive_avg_pool(x: Tensor, output_size: int | tuple[int | None, ...], *, axes: Ints | None = None) -> Tensor:
    """`y = (sum x_i) / n` over `output_size` even bins.

    >>> adaptive_avg_pool(torch.arange(1.0, 6.0), (3,))
    tensor([1.5000, 3.0000, 4.5000])
    """
    return autograd.forward(over_bins(Avg, output_size, axes, _ndim(x)), x)


def adaptive_sum_pool(x: Tensor, output_size: int | tuple[int | None, ...], *, axes: Ints | None = None) -> Tensor:
    """`y = sum x_i` over `output_size` even bins.

    >>> adaptive_sum_pool(torch.tensor([1, 2, 3, 4, 5]), (3,))
    tensor([3, 9, 9])
    """
    return autograd.forward(over_bins(Sum, output_size, axes, _ndim(x)), x)


def adaptive_smooth_max_pool(
    x: Tensor, beta: float, output_size: int | tuple[int | None, ...], *, axes: Ints | None = None
) -> Tensor:
    """`y = log(sum exp(beta x_i)) / beta` over `output_size` even bins.

    >>> adaptive_smooth_max_pool(torch.tensor([0.0, 1.0]), 1.0, (1,))
    tensor([1.3133])
    """
    return autograd.forward(over_bins(SmoothMax, output_size, axes, _ndim(x), beta), x)


def adaptive_lp_pool(
    x: Tensor, p: float, output_size: int | tuple[int | None, ...], *, axes: Ints | None = None
) -> Tensor:
    """`y = (sum |x_i|^p)^(1/p)` over `output_size` even bins.

    >>> adaptive_lp_pool(torch.tensor([3.0, -4.0]), 2, (1,))
    tensor([5.])
    """
    return autograd.forward(over_bins(Lp, output_size, axes, _ndim(x), p), x)


# --- over everything ------------------------------------------------------------------------------


def global_max_pool(x: Tensor, *, ties: str = "all", axes: Ints = (-2, -1), keepdims: bool = True) -> Tensor:
    """`y = max x_i` over the whole of `axes`, which stay at length 1 or, without `keepdims`, go.

    >>> global_max_pool(torch.tensor([[1, 2], [4, 3]]))
    tensor([[4]])
    """
    return autograd.forward(over_all(Max, keepdims, axes, _ndim(x), ties), x)


def global_min_pool(x: Tensor, *, ties: str = "all", axes: Ints = (-2, -1), keepdims: bool = True) -> Tensor:
    """`y = min x_i` over the whole of `axes`, which stay at length 1 or, without `keepdims`, go.

    >>> global_min_pool(torch.tensor([[1, 2], [4, 3]]))
    tensor([[1]])
    """
    return autograd.forward(over_all(Min, keepdims, axes, _ndim(x), ties), x)


def global_avg_pool(x: Tensor, *, axes: Ints = (-2, -1), keepdims: bool = True) -> Tensor:
    """`y = (sum x_i) / n` over the whole of `axes`, which stay at length 1 or, without `keepdims`, go.

    >>> global_avg_pool(torch.tensor([[[1.0, 2.0], [4.0, 3.0]]]), keepdims=False)
    tensor([2.5000])
    """
    return autograd.forward(over_all(Avg, keepdims, axes, _ndim(x)), x)


def global_sum_pool(x: Tensor, *, axes: Ints = (-2, -1), keepdims: bool = True) -> Tensor:
    """`y = sum x_i` over the whole of `axes`, which stay at length 1 or, without `keepdims`, go.

    >>> global_sum_pool(torch.tensor([[1, 2], [4, 3]]))
    tensor([[10]])
    """
    return autograd.forward(over_all(Sum, keepdims, axes, _ndim(x)), x)


def global_smooth_max_pool(x: Tensor, beta: float, *, axes: Ints = (-2, -1), keepdims: bool = True) -> Tensor:
    """`y = log(sum exp(beta x_i)) / beta` over the whole of `axes`, which stay at length 1 or, without `keepdims`, go.

    >>> global_smooth_max_pool(torch.tensor([[0.0, 1.0]]), 1.0)
    tensor([[1.3133]])
    """
    return autograd.forward(over_all(SmoothMax, keepdims, axes, _ndim(x), beta), x)


def global_lp_pool(x: Tensor, p: float, *, axes: Ints = (-2, -1), keepdims: bool = True) -> Tensor:
    """`y = (sum |x_i|^p)^(1/p)` over the whole of `axes`, which stay at length 1 or, without `keepdims`, go.

    >>> global_lp_pool(torch.tensor([[3.0, -4.0]]), 2)
    tensor([[5.]])
    """
    return autograd.forward(over_all(Lp, keepdims, axes, _ndim(x), p), x)


# --- 1d, 2d and 3d spellings of what PyTorch does not have ----------------------------------------

min_pool1d = over_last(1, min_pool)
min_pool2d = over_last(2, min_pool)
min_pool3d = over_last(3, min_pool)
sum_pool1d = over_last(1, sum_pool)
sum_pool2d = over_last(2, sum_pool)
sum_pool3d = over_last(3, sum_pool)
smooth_max_pool1d = over_last(1, smooth_max_pool)
smooth_max_pool2d = over_last(2, smooth_max_pool)
smooth_max_pool3d = over_last(3, smooth_max_pool)
adaptive_min_pool1d = over_last(1, adaptive_min_pool)
adaptive_min_pool2d = over_last(2, adaptive_min_pool)
adaptive_min_pool3d = over_last(3, adaptive_min_pool)
adaptive_sum_pool1d = over_last(1, adaptive_sum_pool)
adaptive_sum_pool2d = over_last(2, adaptive_sum_pool)
adaptive_sum_pool3d = over_last(3, adaptive_sum_pool)
adaptive_smooth_max_pool1d = over_last(1, adaptive_smooth_max_pool)
adaptive_smooth_max_pool2d = over_last(2, adaptive_smooth_max_pool)
adaptive_smooth_max_pool3d = over_last(3, adaptive_smooth_max_pool)
adaptive_lp_pool1d = over_last(1, adaptive_lp_pool)
adaptive_lp_pool2d = over_last(2, adaptive_lp_pool)
adaptive_lp_pool3d = over_last(3, adaptive_lp_pool)
