"""One thin function for each kind and window; array first, PyTorch's names.

The spellings with a number (`max_pool2d`) pool the last 1, 2 or 3 axes, so an int serves as kernel size.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from numpy.typing import ArrayLike

from .arrays import Array
from .kinds import Avg, Kind, Lp, Max, Min, SmoothMax, Sum
from .parameters import documented, section_of
from .pool import Pool
from .windows import Adaptive, AnyWindow, Global, Ints, OutputSize, PaddingLike, Window

P = ParamSpec("P")
R = TypeVar("R")


def _apply(kind: Kind, window: AnyWindow, x: ArrayLike, axes: Ints | None, out: Array | None) -> Array:
    return Pool(kind, window, axes)(x, out)


def _apply_with_indices(
    kind: Kind, window: AnyWindow, x: ArrayLike, axes: Ints | None, out: Array | None, return_indices: bool
) -> Any:
    if not isinstance(return_indices, bool):
        raise TypeError(f"return_indices={return_indices!r} is not a bool; give True or False")
    pool = Pool(kind, window, axes)
    return pool.with_indices(x, out) if return_indices else pool(x, out)


# --- over a Window --------------------------------------------------------------------------------


@documented
def max_pool(
    x: ArrayLike,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: PaddingLike = 0,
    *,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    ties: str = "first",
    return_indices: bool = False,
    axes: Ints | None = None,
    out: Array | None = None,
) -> Any:
    """`y = max x_i` over each window; with `return_indices`, `(y, indices)`.

    An index is flat and row-major over the pooled axes, int64, the first maximum's.

    >>> max_pool([[1, 2], [4, 3]], (2, 2))
    array([[4]])
    >>> max_pool([3, 3, 1, 5, 7], (2,), return_indices=True)
    (array([3, 5]), array([0, 3]))
    """
    window = Window(kernel_size, stride, padding, dilation, ceil_mode)
    return _apply_with_indices(Max(ties), window, x, axes, out, return_indices)


@documented
def min_pool(
    x: ArrayLike,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: PaddingLike = 0,
    *,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    ties: str = "first",
    return_indices: bool = False,
    axes: Ints | None = None,
    out: Array | None = None,
) -> Any:
    """`y = min x_i` over each window; with `return_indices`, `(y, indices)` as in `max_pool`.

    >>> min_pool([3, 3, 1, 5, 7], (2,))
    array([3, 1])
    """
    window = Window(kernel_size, stride, padding, dilation, ceil_mode)
    return _apply_with_indices(Min(ties), window, x, axes, out, return_indices)


@documented
def avg_pool(
    x: ArrayLike,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: PaddingLike = 0,
    *,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    axes: Ints | None = None,
    out: Array | None = None,
) -> Array:
    """`y = (sum x_i) / n` over each window; n counts padding with `count_include_pad`, or is `divisor_override`.

    >>> avg_pool([1, 2, 3, 4, 5, 6, 7, 8], (4,), 3, ceil_mode=True)
    array([2.5, 5.5, 7.5])
    """
    window = Window(kernel_size, stride, padding, dilation, ceil_mode)
    return _apply(Avg(count_include_pad, divisor_override), window, x, axes, out)


@documented
def sum_pool(
    x: ArrayLike,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: PaddingLike = 0,
    *,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    axes: Ints | None = None,
    out: Array | None = None,
) -> Array:
    """`y = sum x_i` over each window.

    >>> sum_pool([1, 2, 3, 4], (2,))
    array([3, 7])
    """
    return _apply(Sum(), Window(kernel_size, stride, padding, dilation, ceil_mode), x, axes, out)


@documented
def smooth_max_pool(
    x: ArrayLike,
    beta: float,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: PaddingLike = 0,
    *,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    axes: Ints | None = None,
    out: Array | None = None,
) -> Array:
    """`y = log(sum exp(beta x_i)) / beta` over each window; a padded cell is the number 0, or ignored.

    >>> smooth_max_pool([0.0, 1.0], 1.0, (2,)).round(6)
    array([1.313262])
    """
    window = Window(kernel_size, stride, padding, dilation, ceil_mode)
    return _apply(SmoothMax(beta, count_include_pad), window, x, axes, out)


@documented
def lp_pool(
    x: ArrayLike,
    p: float,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: PaddingLike = 0,
    *,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    axes: Ints | None = None,
    out: Array | None = None,
) -> Array:
    """`y = (sum |x_i|^p)^(1/p)` over each window.

    >>> lp_pool([3.0, -4.0], 2, (2,))
    array([5.])
    """
    return _apply(Lp(p), Window(kernel_size, stride, padding, dilation, ceil_mode), x, axes, out)


# --- over an Adaptive window ----------------------------------------------------------------------


@documented
def adaptive_max_pool(
    x: ArrayLike,
    output_size: OutputSize,
    *,
    ties: str = "first",
    return_indices: bool = False,
    axes: Ints | None = None,
    out: Array | None = None,
) -> Any:
    """`y = max x_i` over `output_size` even bins; with `return_indices`, `(y, indices)` as in `max_pool`.

    >>> adaptive_max_pool([1, 2, 3, 4, 5], (3,))
    array([2, 4, 5])
    """
    return _apply_with_indices(Max(ties), Adaptive(output_size), x, axes, out, return_indices)


@documented
def adaptive_min_pool(
    x: ArrayLike,
    output_size: OutputSize,
    *,
    ties: str = "first",
    return_indices: bool = False,
    axes: Ints | None = None,
    out: Array | None = None,
) -> Any:
    """`y = min x_i` over `output_size` even bins; with `return_indices`, `(y, indices)` as in `max_pool`.

    >>> adaptive_min_pool([1, 2, 3, 4, 5], (3,))
    array([1, 2, 4])
    """
    return _apply_with_indices(Min(ties), Adaptive(output_size), x, axes, out, return_indices)


@documented
def adaptive_avg_pool(
    x: ArrayLike, output_size: OutputSize, *, axes: Ints | None = None, out: Array | None = None
) -> Array:
    """`y = (sum x_i) / n` over `output_size` even bins.

    >>> adaptive_avg_pool([1, 2, 3, 4, 5], (3,))
    array([1.5, 3. , 4.5])
    """
    return _apply(Avg(), Adaptive(output_size), x, axes, out)


@documented
def adaptive_sum_pool(
    x: ArrayLike, output_size: OutputSize, *, axes: Ints | None = None, out: Array | None = None
) -> Array:
    """`y = sum x_i` over `output_size` even bins.

    >>> adaptive_sum_pool([1, 2, 3, 4, 5], (3,))
    array([3, 9, 9])
    """
    return _apply(Sum(), Adaptive(output_size), x, axes, out)


@documented
def adaptive_smooth_max_pool(
    x: ArrayLike,
    beta: float,
    output_size: OutputSize,
    *,
    axes: Ints | None = None,
    out: Array | None = None,
) -> Array:
    """`y = log(sum exp(beta x_i)) / beta` over `output_size` even bins.

    >>> adaptive_smooth_max_pool([0.0, 1.0], 1.0, (1,)).round(6)
    array([1.313262])
    """
    return _apply(SmoothMax(beta), Adaptive(output_size), x, axes, out)


@documented
def adaptive_lp_pool(
    x: ArrayLike,
    p: float,
    output_size: OutputSize,
    *,
    axes: Ints | None = None,
    out: Array | None = None,
) -> Array:
    """`y = (sum |x_i|^p)^(1/p)` over `output_size` even bins.

    >>> adaptive_lp_pool([3.0, -4.0], 2, (1,))
    array([5.])
    """
    return _apply(Lp(p), Adaptive(output_size), x, axes, out)


# --- over everything ------------------------------------------------------------------------------


@documented
def global_max_pool(
    x: ArrayLike, *, ties: str = "all", axes: Ints = (-2, -1), keepdims: bool = True, out: Array | None = None
) -> Array:
    """`y = max x_i` over the whole of `axes`, which stay at length 1 or, without `keepdims`, go.

    >>> global_max_pool([[1, 2], [4, 3]])
    array([[4]])
    """
    return _apply(Max(ties), Global(keepdims), x, axes, out)


@documented
def global_min_pool(
    x: ArrayLike, *, ties: str = "all", axes: Ints = (-2, -1), keepdims: bool = True, out: Array | None = None
) -> Array:
    """`y = min x_i` over the whole of `axes`, which stay at length 1 or, without `keepdims`, go.

    >>> global_min_pool([[1, 2], [4, 3]])
    array([[1]])
    """
    return _apply(Min(ties), Global(keepdims), x, axes, out)


@documented
def global_avg_pool(x: ArrayLike, *, axes: Ints = (-2, -1), keepdims: bool = True, out: Array | None = None) -> Array:
    """`y = (sum x_i) / n` over the whole of `axes`, which stay at length 1 or, without `keepdims`, go.

    >>> global_avg_pool([[[1, 2], [4, 3]]], keepdims=False)
    array([2.5])
    """
    return _apply(Avg(), Global(keepdims), x, axes, out)


@documented
def global_sum_pool(x: ArrayLike, *, axes: Ints = (-2, -1), keepdims: bool = True, out: Array | None = None) -> Array:
    """`y = sum x_i` over the whole of `axes`, which stay at length 1 or, without `keepdims`, go.

    >>> global_sum_pool([[1, 2], [4, 3]])
    array([[10]])
    """
    return _apply(Sum(), Global(keepdims), x, axes, out)


@documented
def global_smooth_max_pool(
    x: ArrayLike, beta: float, *, axes: Ints = (-2, -1), keepdims: bool = True, out: Array | None = None
) -> Array:
    """`y = log(sum exp(beta x_i)) / beta` over the whole of `axes`, which stay at length 1 or, without `keepdims`, go.

    >>> global_smooth_max_pool([[0.0, 1.0]], 1.0).round(6)
    array([[1.313262]])
    """
    return _apply(SmoothMax(beta), Global(keepdims), x, axes, out)


@documented
def global_lp_pool(
    x: ArrayLike, p: float, *, axes: Ints = (-2, -1), keepdims: bool = True, out: Array | None = None
) -> Array:
    """`y = (sum |x_i|^p)^(1/p)` over the whole of `axes`, which stay at length 1 or, without `keepdims`, go.

    >>> global_lp_pool([[3.0, -4.0]], 2)
    array([[5.]])
    """
    return _apply(Lp(p), Global(keepdims), x, axes, out)


# --- 1d, 2d and 3d spellings ----------------------------------------------------------------------


def over_last(rank: int, function: Callable[P, R]) -> Callable[P, R]:
    """`function` under the name that says its rank, pooling the last `rank` axes unless `axes` names others."""

    @functools.wraps(function)
    def spelled(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs.get("axes") is None:
            kwargs["axes"] = tuple(range(-rank, 0))
        return function(*args, **kwargs)

    spelled.__name__ = spelled.__qualname__ = f"{function.__name__}{rank}d"
    spelled.__doc__ = f"`{function.__name__}` over the last {rank} axes: an int serves as one number for each of them."
    spelled.__doc__ += section_of(function.__doc__)
    return spelled


max_pool1d = over_last(1, max_pool)
max_pool2d = over_last(2, max_pool)
max_pool3d = over_last(3, max_pool)
min_pool1d = over_last(1, min_pool)
min_pool2d = over_last(2, min_pool)
min_pool3d = over_last(3, min_pool)
avg_pool1d = over_last(1, avg_pool)
avg_pool2d = over_last(2, avg_pool)
avg_pool3d = over_last(3, avg_pool)
sum_pool1d = over_last(1, sum_pool)
sum_pool2d = over_last(2, sum_pool)
sum_pool3d = over_last(3, sum_pool)
smooth_max_pool1d = over_last(1, smooth_max_pool)
smooth_max_pool2d = over_last(2, smooth_max_pool)
smooth_max_pool3d = over_last(3, smooth_max_pool)
lp_pool1d = over_last(1, lp_pool)
lp_pool2d = over_last(2, lp_pool)
lp_pool3d = over_last(3, lp_pool)

adaptive_max_pool1d = over_last(1, adaptive_max_pool)
adaptive_max_pool2d = over_last(2, adaptive_max_pool)
adaptive_max_pool3d = over_last(3, adaptive_max_pool)
adaptive_min_pool1d = over_last(1, adaptive_min_pool)
adaptive_min_pool2d = over_last(2, adaptive_min_pool)
adaptive_min_pool3d = over_last(3, adaptive_min_pool)
adaptive_avg_pool1d = over_last(1, adaptive_avg_pool)
adaptive_avg_pool2d = over_last(2, adaptive_avg_pool)
adaptive_avg_pool3d = over_last(3, adaptive_avg_pool)
adaptive_sum_pool1d = over_last(1, adaptive_sum_pool)
adaptive_sum_pool2d = over_last(2, adaptive_sum_pool)
adaptive_sum_pool3d = over_last(3, adaptive_sum_pool)
adaptive_smooth_max_pool1d = over_last(1, adaptive_smooth_max_pool)
adaptive_smooth_max_pool2d = over_last(2, adaptive_smooth_max_pool)
adaptive_smooth_max_pool3d = over_last(3, adaptive_smooth_max_pool)
adaptive_lp_pool1d = over_last(1, adaptive_lp_pool)
adaptive_lp_pool2d = over_last(2, adaptive_lp_pool)
adaptive_lp_pool3d = over_last(3, adaptive_lp_pool)
