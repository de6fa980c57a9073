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

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling
from torch.overrides import has_torch_function_unary, has_torch_function_variadic

from ..kinds import Avg, Lp, Max, Min, SmoothMax, Sum
from ..parameters import documented
from ..pool import Pool
from ..windows import Ints, PaddingLike
from . import autograd, custom, learnable
from .engine import TensorPool
from .overriding import call_of, handed_over
from .pools import over_all, over_bins, over_pool, over_window
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


class _Unseen:
    """Stands for a tensor of any shape, where only the other arguments are looked at: the call gives its pool."""

    axes = 64


UNSEEN: Any = _Unseen()


def axes_of_unseen(axes: list[int]) -> list[int]:
    """The axes of a pool over `UNSEEN` as they were given: from the end, or from the start."""
    return [axis + _Unseen.axes if axis < -_Unseen.axes // 2 else axis for axis in axes]


def _ndim(x: Any) -> int:
    if isinstance(x, torch.Tensor):
        return x.dim()
    if x is UNSEEN:
        return _Unseen.axes
    raise TypeError(f"x is a {type(x).__name__}; give a tensor, or use the functions of ndpool itself")


def _pooled(pool: TensorPool, x: Tensor) -> Tensor:
    if x is UNSEEN:
        return pool  # type: ignore[return-value]
    return autograd.forward(pool, x)


def _result(pool: TensorPool, x: Tensor, return_indices: bool) -> Any:
    if not isinstance(return_indices, bool):
        raise TypeError(f"return_indices={return_indices!r} is not a bool; give True or False")
    return autograd.with_indices(pool, x) if return_indices and x is not UNSEEN else _pooled(pool, x)


def _smoothed(pool: TensorPool, x: Tensor, beta: float | Tensor) -> Tensor:
    """The pool of this beta or, where it is a tensor, of beta 1."""
    if not isinstance(beta, Tensor):
        return _pooled(pool, x)
    if x is not UNSEEN:
        return learnable.smooth_max(pool, x, beta)
    learnable.check_beta(beta)
    return _pooled(pool, x)


def _fixed(beta: float | Tensor) -> float:
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
    ndim = _ndim(x)
    if not type(pool.kind).engine:
        return x if x is UNSEEN else custom.forward(pool, x)
    return _pooled(over_pool(pool, ndim), x)


_pool = pool  # which has a parameter of its own name


# --- over a Window --------------------------------------------------------------------------------


@documented
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
    if has_torch_function_unary(x) and not is_compiling():
        return handed_over(max_pool, locals())
    chosen = over_window(Max, kernel_size, stride, padding, dilation, ceil_mode, axes, _ndim(x), ties)
    return _result(chosen, x, return_indices)


@documented
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
    if has_torch_function_unary(x) and not is_compiling():
        return handed_over(min_pool, locals())
    chosen = over_window(Min, kernel_size, stride, padding, dilation, ceil_mode, axes, _ndim(x), ties)
    return _result(chosen, x, return_indices)


@documented
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
    if has_torch_function_unary(x) and not is_compiling():
        return handed_over(avg_pool, locals())
    chosen = over_window(
        Avg, kernel_size, stride, padding, dilation, ceil_mode, axes, _ndim(x), count_include_pad, divisor_override
    )
    return _pooled(chosen, x)


@documented
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
    if has_torch_function_unary(x) and not is_compiling():
        return handed_over(sum_pool, locals())
    chosen = over_window(Sum, kernel_size, stride, padding, dilation, ceil_mode, axes, _ndim(x))
    return _pooled(chosen, x)


@documented
def smooth_max_pool(
    x: Tensor,
    beta: float | Tensor,
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

    A beta that is a tensor is differentiated in, too: one number, or one a channel, which is dimension 1 (0 where there
    is no batch), or a tensor of as many axes as x.

    >>> smooth_max_pool(torch.tensor([0.0, 1.0]), 1.0, (2,))
    tensor([1.3133])
    """
    if has_torch_function_variadic(x, beta) and not is_compiling():
        return handed_over(smooth_max_pool, locals())
    options = _fixed(beta), count_include_pad
    chosen = over_window(SmoothMax, kernel_size, stride, padding, dilation, ceil_mode, axes, _ndim(x), *options)
    return _smoothed(chosen, x, beta)


@documented
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
    if has_torch_function_unary(x) and not is_compiling():
        return handed_over(lp_pool, locals())
    chosen = over_window(Lp, kernel_size, stride, padding, dilation, ceil_mode, axes, _ndim(x), p)
    return _pooled(chosen, x)


# --- over an Adaptive window ----------------------------------------------------------------------


@documented
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
    if has_torch_function_unary(x) and not is_compiling():
        return handed_over(adaptive_max_pool, locals())
    return _result(over_bins(Max, output_size, axes, _ndim(x), ties), x, return_indices)


@documented
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
    if has_torch_function_unary(x) and not is_compiling():
        return handed_over(adaptive_min_pool, locals())
    return _result(over_bins(Min, output_size, axes, _ndim(x), ties), x, return_indices)


@documented
def adaptive_avg_pool(x: Tensor, output_size: int | tuple[int | None, ...], *, axes: Ints | None = None) -> Tensor:
    """`y = (sum x_i) / n` over `output_size` even bins.

    >>> adaptive_avg_pool(torch.arange(1.0, 6.0), (3,))
    tensor([1.5000, 3.0000, 4.5000])
    """
    if has_torch_function_unary(x) and not is_compiling():
        return handed_over(adaptive_avg_pool, locals())
    return _pooled(over_bins(Avg, output_size, axes, _ndim(x)), x)


@documented
def adaptive_sum_pool(x: Tensor, output_size: int | tuple[int | None, ...], *, axes: Ints | None = None) -> Tensor:
    """`y = sum x_i` over `output_size` even bins.

    >>> adaptive_sum_pool(torch.tensor([1, 2, 3, 4, 5]), (3,))
    tensor([3, 9, 9])
    """
    if has_torch_function_unary(x) and not is_compiling():
        return handed_over(adaptive_sum_pool, locals())
    return _pooled(over_bins(Sum, output_size, axes, _ndim(x)), x)


@documented
def adaptive_smooth_max_pool(
    x: Tensor, beta: float | Tensor, output_size: int | tuple[int | None, ...], *, axes: Ints | None = None
) -> Tensor:
    """`y = log(sum exp(beta x_i)) / beta` over `output_size` even bins.

    >>> adaptive_smooth_max_pool(torch.tensor([0.0, 1.0]), 1.0, (1,))
    tensor([1.3133])
    """
    if has_torch_function_variadic(x, beta) and not is_compiling():
        return handed_over(adaptive_smooth_max_pool, locals())
    return _smoothed(over_bins(SmoothMax, output_size, axes, _ndim(x), _fixed(beta)), x, beta)


@documented
def adaptive_lp_pool(
    x: Tensor, p: float, output_size: int | tuple[int | None, ...], *, axes: Ints | None = None
) -> Tensor:
    """`y = (sum |x_i|^p)^(1/p)` over `output_size` even bins.

    >>> adaptive_lp_pool(torch.tensor([3.0, -4.0]), 2, (1,))
    tensor([5.])
    """
    if has_torch_function_unary(x) and not is_compiling():
        return handed_over(adaptive_lp_pool, locals())
    return _pooled(over_bins(Lp, output_size, axes, _ndim(x), p), x)


# --- over everything ------------------------------------------------------------------------------


@documented
def global_max_pool(x: Tensor, *, ties: str = "all", axes: Ints = (-2, -1), keepdims: bool = True) -> Tensor:
    """`y = max x_i` over the whole of `axes`, which stay at length 1 or, without `keepdims`, go.

    >>> global_max_pool(torch.tensor([[1, 2], [4, 3]]))
    tensor([[4]])
    """
    if has_torch_function_unary(x) and not is_compiling():
        return handed_over(global_max_pool, locals())
    return _pooled(over_all(Max, keepdims, axes, _ndim(x), ties), x)


@documented
def global_min_pool(x: Tensor, *, ties: str = "all", axes: Ints = (-2, -1), keepdims: bool = True) -> Tensor:
    """`y = min x_i` over the whole of `axes`, which stay at length 1 or, without `keepdims`, go.

    >>> global_min_pool(torch.tensor([[1, 2], [4, 3]]))
    tensor([[1]])
    """
    if has_torch_function_unary(x) and not is_compiling():
        return handed_over(global_min_pool, locals())
    return _pooled(over_all(Min, keepdims, axes, _ndim(x), ties), x)


@documented
def global_avg_pool(x: Tensor, *, axes: Ints = (-2, -1), keepdims: bool = True) -> Tensor:
    """`y = (sum x_i) / n` over the whole of `axes`, which stay at length 1 or, without `keepdims`, go.

    >>> global_avg_pool(torch.tensor([[[1.0, 2.0], [4.0, 3.0]]]), keepdims=False)
    tensor([2.5000])
    """
    if has_torch_function_unary(x) and not is_compiling():
        return handed_over(global_avg_pool, locals())
    return _pooled(over_all(Avg, keepdims, axes, _ndim(x)), x)


@documented
def global_sum_pool(x: Tensor, *, axes: Ints = (-2, -1), keepdims: bool = True) -> Tensor:
    """`y = sum x_i` over the whole of `axes`, which stay at length 1 or, without `keepdims`, go.

    >>> global_sum_pool(torch.tensor([[1, 2], [4, 3]]))
    tensor([[10]])
    """
    if has_torch_function_unary(x) and not is_compiling():
        return handed_over(global_sum_pool, locals())
    return _pooled(over_all(Sum, keepdims, axes, _ndim(x)), x)


@documented
def global_smooth_max_pool(x: Tensor, beta: float | Tensor, *, axes: Ints = (-2, -1), keepdims: bool = True) -> Tensor:
    """`y = log(sum exp(beta x_i)) / beta` over the whole of `axes`, which stay at length 1 or, without `keepdims`, go.

    >>> global_smooth_max_pool(torch.tensor([[0.0, 1.0]]), 1.0)
    tensor([[1.3133]])
    """
    if has_torch_function_variadic(x, beta) and not is_compiling():
        return handed_over(global_smooth_max_pool, locals())
    return _smoothed(over_all(SmoothMax, keepdims, axes, _ndim(x), _fixed(beta)), x, beta)


@documented
def global_lp_pool(x: Tensor, p: float, *, axes: Ints = (-2, -1), keepdims: bool = True) -> Tensor:
    """`y = (sum |x_i|^p)^(1/p)` over the whole of `axes`, which stay at length 1 or, without `keepdims`, go.

    >>> global_lp_pool(torch.tensor([[3.0, -4.0]]), 2)
    tensor([[5.]])
    """
    if has_torch_function_unary(x) and not is_compiling():
        return handed_over(global_lp_pool, locals())
    return _pooled(over_all(Lp, keepdims, axes, _ndim(x), p), x)


# --- 1d, 2d and 3d spellings of what PyTorch does not have ----------------------------------------


def _over_last(rank: int, function: Callable[..., Any]) -> Any:
    """`function` under the name that says its rank, pooling the last `rank` axes unless `axes` names others."""
    axes = tuple(range(-rank, 0))

    @functools.wraps(function)
    def spelled(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if has_torch_function_unary(x) and not is_compiling():
            return call_of(spelled, x, *args, **kwargs)
        if kwargs.get("axes") is None:
            kwargs["axes"] = axes
        return function(x, *args, **kwargs)

    spelled.__name__ = spelled.__qualname__ = f"{function.__name__}{rank}d"
    spelled.__doc__ = f"`{function.__name__}` over the last {rank} axes: an int serves as one number for each of them."
    return documented(spelled)


min_pool1d = _over_last(1, min_pool)
min_pool2d = _over_last(2, min_pool)
min_pool3d = _over_last(3, min_pool)
sum_pool1d = _over_last(1, sum_pool)
sum_pool2d = _over_last(2, sum_pool)
sum_pool3d = _over_last(3, sum_pool)
smooth_max_pool1d = _over_last(1, smooth_max_pool)
smooth_max_pool2d = _over_last(2, smooth_max_pool)
smooth_max_pool3d = _over_last(3, smooth_max_pool)
adaptive_min_pool1d = _over_last(1, adaptive_min_pool)
adaptive_min_pool2d = _over_last(2, adaptive_min_pool)
adaptive_min_pool3d = _over_last(3, adaptive_min_pool)
adaptive_sum_pool1d = _over_last(1, adaptive_sum_pool)
adaptive_sum_pool2d = _over_last(2, adaptive_sum_pool)
adaptive_sum_pool3d = _over_last(3, adaptive_sum_pool)
adaptive_smooth_max_pool1d = _over_last(1, adaptive_smooth_max_pool)
adaptive_smooth_max_pool2d = _over_last(2, adaptive_smooth_max_pool)
adaptive_smooth_max_pool3d = _over_last(3, adaptive_smooth_max_pool)
adaptive_lp_pool1d = _over_last(1, adaptive_lp_pool)
adaptive_lp_pool2d = _over_last(2, adaptive_lp_pool)
adaptive_lp_pool3d = _over_last(3, adaptive_lp_pool)
