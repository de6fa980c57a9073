"""PyTorch's own pooling functions: the same names, signatures, defaults, shapes and results, from ndpool's engine.

What they do that ndpool's functions do not: `lp_pool*d` sums `x^p` and not `|x|^p`, averages of integers are truncated,
and padding is at most half the kernel. One function is written for all ranks, and spelled for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling
from torch.overrides import has_torch_function_unary, has_torch_function_variadic

from ..kinds import Avg, Lp, Max
from ..parameters import documented
from ..windows import Ints
from . import autograd
from .engine import TYPES, TensorPool, check_dense_layout
from .overriding import handed_over
from .pools import as_tuples, check_torch_input, for_each, may_ask, over_torch_bins, over_torch_window

Sizes = int | Sequence[int | None]


def _spelled(function: Callable[..., Any], name: str, more: str = ".") -> Any:
    """The function under the name by which it is called, so that a traced graph finds it there."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = f"{__package__}.functional"
    function.__doc__ = f"As `torch.nn.functional.{name}`{more}"
    return documented(function)


# --- max ------------------------------------------------------------------------------------------


def _selected(name: str, pool: TensorPool, x: Tensor, rank: int, return_indices: bool) -> Any:
    if not return_indices and (y := autograd.again(pool, x)) is not None:
        return y
    check_torch_input(name, x, rank)
    return autograd.with_indices(pool, x) if return_indices else autograd.forward(pool, x)


def _max_pool(rank: int, always_indices: bool = False) -> Any:
    name = f"max_pool{rank}d"

    def max_pool(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = always_indices,
    ) -> Any:
        if has_torch_function_unary(input) and not is_compiling():
            return handed_over(max_pool, locals())
        pool = over_torch_window(Max, rank, kernel_size, stride, padding, dilation, ceil_mode)
        return _selected(name, pool, input, rank, return_indices or always_indices)

    return _spelled(max_pool, name + "_with_indices" * always_indices)


def _adaptive_max_pool(rank: int, always_indices: bool = False) -> Any:
    name = f"adaptive_max_pool{rank}d"

    def adaptive_max_pool(input: Tensor, output_size: Sizes, return_indices: bool = always_indices) -> Any:
        if has_torch_function_unary(input) and not is_compiling():
            return handed_over(adaptive_max_pool, locals())
        pool = over_torch_bins(Max, rank, output_size)
        return _selected(name, pool, input, rank, return_indices or always_indices)

    return _spelled(adaptive_max_pool, name + "_with_indices" * always_indices)


# --- avg ------------------------------------------------------------------------------------------


def _mean(name: str, pool: TensorPool, x: Tensor, rank: int) -> Tensor:
    """The averages of integers are integers, rounded towards 0: PyTorch's rule."""
    y = autograd.again(pool, x)
    if y is None:
        check_torch_input(name, x, rank)
        y = autograd.forward(pool, x)
    return y if x.is_floating_point() else y.trunc().to(x.dtype)


def _avg_pool(rank: int) -> Any:
    name = f"avg_pool{rank}d"

    def avg_pool(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        if has_torch_function_unary(input) and not is_compiling():
            return handed_over(avg_pool, locals())
        divisor = None if divisor_override is None else positive_divisor(divisor_override)
        pool = over_torch_window(Avg, rank, kernel_size, stride, padding, 1, ceil_mode, count_include_pad, divisor)
        y = _mean(name, pool, input, rank)
        return -y if divisor != divisor_override else y

    def avg_pool_without_divisor(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Tensor:
        if has_torch_function_unary(input) and not is_compiling():
            return handed_over(avg_pool_without_divisor, locals())
        return avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad)

    return _spelled(avg_pool_without_divisor if rank == 1 else avg_pool, name)


def positive_divisor(divisor_override: int | None) -> int | None:
    """The divisor without its sign, which PyTorch allows."""
    if divisor_override == 0:
        raise ValueError("divisor_override=0 divides by zero; give another int, or None")
    return None if divisor_override is None else abs(divisor_override)


def _adaptive_avg_pool(rank: int) -> Any:
    name = f"adaptive_avg_pool{rank}d"

    def adaptive_avg_pool(input: Tensor, output_size: Sizes) -> Tensor:
        if has_torch_function_unary(input) and not is_compiling():
            return handed_over(adaptive_avg_pool, locals())
        return _mean(name, over_torch_bins(Avg, rank, output_size), input, rank)

    return _spelled(adaptive_avg_pool, name)


# --- lp -------------------------------------------------------------------------------------------


def _lp_pool(rank: int) -> Any:
    name, maximum, average = f"lp_pool{rank}d", _max_pool(rank), _avg_pool(rank)

    def lp_pool(
        input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
    ) -> Tensor:
        if has_torch_function_unary(input) and not is_compiling():
            return handed_over(lp_pool, locals())
        check_torch_input(name, input, rank)
        if abs(norm_type) == math.inf:
            sign = 1 if norm_type > 0 else -1
            y: Tensor = sign * maximum(sign * input.abs(), kernel_size, stride, 0, 1, ceil_mode)
            return y
        check_norm_type(norm_type)
        if is_norm(norm_type, ceil_mode) and input.is_floating_point():
            pool = over_torch_window(Lp, rank, kernel_size, stride, 0, 1, ceil_mode, norm_type)
            return autograd.forward(pool, input)
        # Odd powers keep their sign, and a window cut short by the end counts as if it were whole.
        mean: Tensor = average(_powered(name, input, norm_type), kernel_size, stride, 0, ceil_mode)
        cells = math.prod(for_each("kernel_size", kernel_size, rank, 1))
        return (mean.sign() * mean.abs().relu()).mul(cells).pow(1.0 / norm_type)

    return _spelled(lp_pool, name, ": `(sum x_i^p)^(1/p)`, not of |x_i|, so odd p differ from ndpool's `lp_pool`.")


def check_norm_type(norm_type: float) -> None:
    if isinstance(norm_type, bool) or not isinstance(norm_type, int | float):
        raise TypeError(f"norm_type={norm_type!r} is a {type(norm_type).__name__}; give an int or a float")
    if norm_type == 0:
        raise ValueError("norm_type=0 has no root; give another number")


def is_norm(norm_type: float, ceil_mode: bool) -> bool:
    """Whether PyTorch's formula is the p-norm of every window."""
    return norm_type >= 1 and norm_type % 2 == 0 and not ceil_mode


def _powered(name: str, x: Tensor, norm_type: float) -> Tensor:
    """`x^p`; an integer of fewer than 64 bits would not hold it, and PyTorch does not average such."""
    check_dense_layout(x)
    if x.dtype not in TYPES:
        raise TypeError(f"{name} got {x.dtype}, which ndpool does not pool; give real numbers, not quantised")
    powers = x.pow(norm_type)
    if not powers.is_floating_point() and powers.dtype != torch.int64:
        raise TypeError(
            f"{name} got {x.dtype}, in which the power norm_type={norm_type!r} may overflow; give floats, as from "
            f".double(), or call lp_pool, which computes integers in float64"
        )
    return powers


# --- unpool ---------------------------------------------------------------------------------------


def _max_unpool(rank: int) -> Any:
    name = f"max_unpool{rank}d"

    def max_unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        output_size: Sequence[int] | None = None,
    ) -> Tensor:
        if has_torch_function_variadic(input, indices) and not is_compiling():
            return handed_over(max_unpool, locals())
        check_torch_input(name, input, rank)
        if indices.dtype != torch.int64 or (may_ask() and indices.shape != input.shape):
            raise ValueError(
                f"indices has {indices.dtype}{tuple(indices.shape)} beside an input of shape {tuple(input.shape)}; "
                "give what return_indices=True gave: int64, of the same shape"
            )
        sides = _unpooled(rank, input.shape[-rank:], kernel_size, stride, padding, output_size)
        flat = input.new_zeros((*input.shape[:-rank], math.prod(sides)))
        return flat.scatter(-1, indices.flatten(-rank), input.flatten(-rank)).reshape(*input.shape[:-rank], *sides)

    return _spelled(max_unpool, name, ": each value at its index, zeros elsewhere.")


def _unpooled(
    rank: int, lengths: Sequence[int], kernel_size: Ints, stride: Ints | None, padding: Ints, output_size: Any
) -> tuple[int, ...]:
    """The sides of what was pooled: as asked for, if a pool of it could have these lengths."""
    kernel, pads = for_each("kernel_size", kernel_size, rank, 1), for_each("padding", padding, rank, 0)
    steps = kernel if stride is None else for_each("stride", stride, rank, 1)
    usual = tuple((n - 1) * s + k - 2 * p for n, s, k, p in zip(lengths, steps, kernel, pads, strict=True))
    if output_size is None:
        return usual
    asked: tuple[int, ...] = tuple(as_tuples(output_size))
    sides = asked[2:] if len(asked) == rank + 2 else asked
    if len(sides) != rank or any(abs(n - m) >= s for n, m, s in zip(sides, usual, steps, strict=True)):
        raise ValueError(
            f"output_size={asked} does not fit: {rank} sides, each less than its stride {steps} away from "
            f"{usual}, give an input of {tuple(lengths)}"
        )
    return sides


#: All of them, by name.
SPELLED: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for rank in (1, 2, 3)
    for function in (
        _max_pool(rank),
        _max_pool(rank, always_indices=True),
        _adaptive_max_pool(rank),
        _adaptive_max_pool(rank, always_indices=True),
        _avg_pool(rank),
        _adaptive_avg_pool(rank),
        _lp_pool(rank),
        _max_unpool(rank),
    )
}
