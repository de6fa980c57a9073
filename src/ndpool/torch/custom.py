"""Kinds of the user's own on tensors: the specification computes them, with derivatives of first order in both modes.

Such a kind says what it weighs each cell with, and not how these weights change. So it has first derivatives, and a
second one is refused rather than guessed. Everything runs in Python, a cell at a time, as it does on arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.compiler import is_compiling

from .. import spec
from ..pool import Pool
from .autograd import Dims, in_front, is_batched_the_old_way, keep, rule
from .engine import PLAIN, check_dtype, dense, opaque, strides


def forward(pool: Pool, x: Tensor) -> Tensor:
    """`y = value(cells)` in each window, with `dy = sum of w_i t_i` and `gx_i = sum of w_i g` by the kind's weights.

    >>> from ndpool import Kind, Window
    >>> class Range(Kind):
    ...     def value(self, x, pad=0):
    ...         return max(x) - min(x)
    ...
    ...     def weights(self, x, pad=0):
    ...         return [(x.index(max(x)), 1), (x.index(min(x)), -1)]
    >>> x = torch.tensor([1.0, 5.0, 2.0, 4.0], requires_grad=True)
    >>> y = forward(Pool(Range(), Window((2,))), x)
    >>> y
    tensor([4., 2.], grad_fn=<CustomPoolBackward>)
    >>> torch.autograd.grad(y, x, torch.tensor([10.0, 1.0]))
    (tensor([-10.,  10.,  -1.,   1.]),)
    """
    _check(pool, x)
    axes = pool.axes if pool.axes is not None else tuple(range(-(pool.window.rank or 0), 0))
    pool.output_shape(x.shape)  # checks the axes
    from_the_end = Pool(pool.kind, pool.window, tuple(axis - x.dim() if axis >= 0 else axis for axis in axes))
    return _applied(CustomPool, x, from_the_end)


def _check(pool: Pool, x: Tensor) -> None:
    traced = is_compiling() or torch._C._len_torch_dispatch_stack() > 0 or torch._C._is_tracing()
    if traced or type(x) not in PLAIN or x.device.type == "meta":
        raise NotImplementedError(
            f"{pool.kind!r} is a kind of your own, which the specification computes from the numbers: it cannot be "
            "compiled, exported, traced or pretended; call it in eager code, or under torch.compiler.disable"
        )
    if not x.is_cpu:
        raise NotImplementedError(
            f"the tensor is on {x.device}, and {pool.kind!r} is a kind of your own, which the specification computes "
            "on the CPU; call .cpu() on the tensor"
        )
    check_dtype(x.dtype)


def _array(a: Tensor) -> NDArray[Any]:
    """The tensor's numbers; NumPy has no bfloat16, whose numbers float64 has all."""
    if is_batched_the_old_way(a):
        raise NotImplementedError(
            "a kind of your own has no batched gradients (is_grads_batched, vectorize=True); call torch.func instead"
        )
    a = dense(a, None, strides(a.shape, None)).detach()
    found: NDArray[Any] = (a.double() if a.dtype == torch.bfloat16 else a).numpy()
    return found


def _tensor(found: NDArray[Any], like: Tensor) -> Tensor:
    made = torch.from_numpy(np.ascontiguousarray(found))
    return made.to(like.dtype) if like.dtype == torch.bfloat16 else made


def _no_second_derivative(pool: Pool) -> NotImplementedError:
    return NotImplementedError(
        f"{pool.kind!r} is a kind of your own, whose weights say nothing of its second derivative; differentiate it "
        "once, or write it with PyTorch's own functions"
    )


class CustomPool(torch.autograd.Function):
    """y."""

    @staticmethod
    @opaque
    def forward(x: Tensor, pool: Pool) -> Tensor:
        return _tensor(spec.forward(pool, _array(x)), x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Pool], output: Tensor) -> None:
        x, ctx.pool = inputs
        keep(ctx, x)

    @staticmethod
    def backward(ctx: Any, g: Tensor | None) -> tuple[Tensor | None, None]:
        return None if g is None else _applied(CustomPoolSlope, g, *ctx.saved_tensors, ctx.pool, True), None

    @staticmethod
    @rule
    def jvp(ctx: Any, kept: list[Any], t: Tensor, _: None) -> Tensor:
        return _applied(CustomPoolSlope, t, *kept, ctx.pool, False)

    @staticmethod
    def vmap(info: Any, dims: Dims, x: Tensor, pool: Pool) -> tuple[Tensor, int]:
        return _applied(CustomPool, in_front(x, dims[0], info.batch_size), pool), 0


class CustomPoolSlope(torch.autograd.Function):
    """`J a`, or `J^T a` on the way back. Each is the other's transpose, as long as x stays what it is."""

    @staticmethod
    @opaque
    def forward(a: Tensor, x: Tensor, pool: Pool, back: bool) -> Tensor:
        if back:
            return _tensor(spec.vjp(pool, _array(x), _array(a)), x)
        return _tensor(spec.jvp(pool, _array(x), _array(a))[1], x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, x, ctx.pool, ctx.back = inputs
        keep(ctx, x)

    @staticmethod
    def backward(ctx: Any, c: Tensor | None) -> tuple[Tensor | None, None, None, None]:
        if c is not None and ctx.needs_input_grad[1]:
            raise _no_second_derivative(ctx.pool)
        to_a = None if c is None else _applied(CustomPoolSlope, c, *ctx.saved_tensors, ctx.pool, not ctx.back)
        return to_a, None, None, None

    @staticmethod
    @rule
    def jvp(ctx: Any, kept: list[Any], along: Tensor, v: Tensor | None, *_: None) -> Tensor:
        if v is not None:
            raise _no_second_derivative(ctx.pool)
        return _applied(CustomPoolSlope, along, *kept, ctx.pool, ctx.back)

    @staticmethod
    def vmap(info: Any, dims: Dims, a: Tensor, x: Tensor, pool: Pool, back: bool) -> tuple[Tensor, int]:
        a, x = in_front(a, dims[0], info.batch_size), in_front(x, dims[1], info.batch_size)
        return _applied(CustomPoolSlope, a, x, pool, back), 0


@opaque
def _applied(function: type[torch.autograd.Function], *inputs: Any) -> Tensor:
    made: Tensor = function.apply(*inputs)  # type: ignore[no-untyped-call]
    return made
