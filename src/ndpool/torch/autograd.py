"""Differentiation: four operations that are closed under it, to every order, in both modes.

With the weights w of the kind, `forward` is `y`, `jvp` is `dy = sum of w_i t_i` and `vjp` is `gx_i = sum of w_i g`: a
linear map J and its transpose. They are linear in t and g, so there the derivative of each is J or its transpose again.
Max, Min, Avg and Sum have weights that stay the same when x moves a little. The two that bend have

    SmoothMax   dw_i/dx_j = beta (w_i [i=j] - w_i w_j)
    Lp          dw_i/dx_j = (p - 1) (w_i / x_i [i=j] - w_i w_j / y)

and so, with H the second derivative of y,

    g H v = factor * (v * D^T g  -  J^T (g * J v * scale))      shaped like x
    t H v = factor * (D (t * v)  -  J t * J v * scale)          shaped like y

with diagonal D = J, scale 1 and factor beta for SmoothMax, D = J / x, scale 1/y and factor p - 1 for Lp.

Each operation has two roads. Eager code goes through an `autograd.Function`, or past it to the engine when nobody
differentiates. While PyTorch traces (compile, export, fake and meta tensors) it goes through the registered operators
of `operators`: Dynamo does not trace a Function that has forward mode, and operators do not have it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.compiler import is_compiling, is_exporting

from ..kinds import Lp, Max, Min, SmoothMax, Sum
from ..pool import Pool
from . import engine
from .engine import PLAIN, Order, Size, TensorPool
from .schema import encode

Dims: TypeAlias = tuple[int | None, ...]

# --- the roads ------------------------------------------------------------------------------------

_BATCHED = torch._C._dispatch_key_parse("Batched")
_modes, _tracing, _transforms = (
    torch._C._len_torch_dispatch_stack,
    torch._C._is_tracing,
    torch._C._are_functorch_transforms_active,
)


def is_plain(a: Tensor) -> bool:
    """Whether the engine may have this call to itself, but for a derivative that is recorded for backward.

    That is the case of nearly all calls, and the quickest to see: a tensor on the CPU that is no subclass, and no
    compiler, tracer, mode, transform or forward mode at work.
    """
    return (
        not is_compiling()
        and type(a) in PLAIN
        and a.is_cpu
        and not _modes()
        and not _transforms()
        and not _tracing()
        and forward_ad._current_level < 0
    )


def is_traced(a: Tensor) -> bool:
    """Whether someone else than the engine has to see this call; checks the device as well."""
    if is_compiling():
        return True
    if not a.is_cpu and a.device.type != "meta":
        raise NotImplementedError(
            f"the tensor is on {a.device}, for which ndpool has no engine; call .cpu() on it, or PyTorch's own function"
        )
    return _modes() > 0 or _tracing() or not a.is_cpu or type(a) not in PLAIN


def is_kept() -> bool:
    """Whether the graph in the making outlives its tensors: `torch.export`, `torch.onnx` and `torch.jit.trace`.

    It says what is computed, with gradients or without, so that it says nothing of winners. Its derivative is there
    all the same, and finds them again from x.
    """
    return is_exporting() or (not is_compiling() and _tracing())


def _is_batched_the_old_way(a: Tensor) -> bool:
    """Whether `autograd.grad(is_grads_batched=True)` and its like made this tensor; only operators see through it."""
    return bool(torch._C._dispatch_keys(a).has(_BATCHED))


def is_differentiated(*tensors: Tensor | None) -> bool:
    """Whether eager code records derivatives of a call with these tensors, or `torch.func` is at work."""
    if _transforms() or forward_ad._current_level >= 0:
        return True
    if torch.is_grad_enabled():
        for a in tensors:
            if a is not None and a.requires_grad:
                return True
    return False


def _applied(function: type[torch.autograd.Function], *inputs: Any) -> Any:
    """`function.apply(*inputs)`, without its look at the signature, which costs more than a small pool does."""
    if _transforms():
        return function.apply(*inputs)  # type: ignore[no-untyped-call]
    return super(torch.autograd.Function, function).apply(*inputs)  # type: ignore[misc]


def forward(pool: TensorPool, x: Tensor) -> Tensor:
    """`y`."""
    if is_plain(x):
        if x.requires_grad and torch.is_grad_enabled():
            return _recorded(x, pool)
        return engine.forward(pool, x)
    if is_traced(x):
        if pool.wins and torch.is_grad_enabled() and x.requires_grad and not is_kept():
            return forward_with_winners(pool, x)[0]
        y: Tensor = torch.ops.ndpool.forward(x, *encode(pool.pool))
    elif is_differentiated(x):
        y = _applied(Forward, x, pool)[0]
    else:
        y = engine.forward(pool, x)
    return y


def forward_with_winners(pool: TensorPool, x: Tensor) -> tuple[Tensor, Tensor]:
    """`y` and the winners, for Max and Min with ties="first"."""
    if is_traced(x):
        y, winners = torch.ops.ndpool.forward_with_winners(x, *encode(pool.pool))
    elif is_differentiated(x):
        y, winners = _applied(Forward, x, pool)
    else:
        y, winners = engine.forward_with_winners(pool, x)
    return y, winners


def with_indices(pool: TensorPool, x: Tensor) -> tuple[Tensor, Tensor]:
    """`y`, and the flat index over the pooled axes of the first winner in each window, whatever the policy for ties."""
    if pool.wins:
        if is_traced(x) and is_kept():
            y, found = torch.ops.ndpool.forward_with_indices(x, *encode(pool.pool))
            return y, found
        y, winners = forward_with_winners(pool, x)
        return y, indices(pool, winners, x.shape)
    if not isinstance(pool.kind, Max | Min):
        raise TypeError(f"{pool.kind!r} has no winner in a window; indices exist for Max and Min")
    first = TensorPool(Pool(type(pool.kind)(), pool.pool.window, pool.pool.axes))
    return forward(pool, x), with_indices(first, x.detach())[1]


def indices(pool: TensorPool, winners: Tensor, size: Size) -> Tensor:
    """The winners' flat indices over the pooled axes of an input of this size."""
    found: Tensor
    if is_traced(winners):
        found = torch.ops.ndpool.indices(winners, size, *encode(pool.pool))
    elif is_differentiated(winners):
        found = _applied(Indices, winners, size, pool)
    else:
        found = engine.indices(pool, winners, size)
    return found


def jvp(pool: TensorPool, t: Tensor, x: Tensor | None, winners: Tensor | None) -> Tensor:
    """`dy = J t`, where J is known from x or from the winners."""
    dy: Tensor
    if is_traced(t) or _is_batched_the_old_way(t):
        dy = torch.ops.ndpool.jvp(t, x, winners, *encode(pool.pool))
    elif is_differentiated(t, x):
        dy = _applied(Jvp, t, x, winners, pool)
    else:
        dy = engine.jvp(pool, t, x, winners)
    return dy


def vjp(
    pool: TensorPool, g: Tensor, size: Size, order: Order, x: Tensor | None, y: Tensor | None, winners: Tensor | None
) -> Tensor:
    """`gx = J^T g`, with the size and the order in memory of x."""
    gx: Tensor
    if is_traced(g) or _is_batched_the_old_way(g):
        gx = torch.ops.ndpool.vjp(g, size, order, x, y, winners, *encode(pool.pool))
    elif is_differentiated(g, x):
        gx = _applied(Vjp, g, size, order, x, y, winners, pool)
    else:
        gx = engine.vjp(pool, g, size, order, x, y, winners)
    return gx


# --- second derivatives ---------------------------------------------------------------------------


def bend(pool: TensorPool, t: Tensor, v: Tensor, x: Tensor) -> Tensor:
    """`t H v`: the derivative of `J t` when x moves along v. Shaped like y."""
    product = jvp(pool, t, x, None) * jvp(pool, v, x, None)
    if isinstance(pool.kind, SmoothMax):
        return pool.kind.beta * (jvp(pool, t * v, x, None) - product)
    assert isinstance(pool.kind, Lp)
    y = _not_zero(forward(pool, x))
    if pool.kind.p == 2:
        return (forward(_sum(pool), t * v) - product) / y
    return (pool.kind.p - 1) * (jvp(pool, _quotient(t * v, x), x, None) - product / y)


def bend_back(pool: TensorPool, g: Tensor, v: Tensor, x: Tensor) -> Tensor:
    """`g H v`: the derivative of `J^T g` when x moves along v, and the gradient of `g . J v` in x. Shaped like x."""
    size, order = x.shape, pool.order_of(x)
    turned = g * jvp(pool, v, x, None)
    if isinstance(pool.kind, SmoothMax):
        straight = v * vjp(pool, g, size, order, x, None, None)
        return pool.kind.beta * (straight - vjp(pool, turned, size, order, x, None, None))
    assert isinstance(pool.kind, Lp)
    value = forward(pool, x)
    y = _not_zero(value)
    rest = vjp(pool, turned / y, size, order, x, None, None)
    if pool.kind.p == 2:
        share = torch.where(value == 0, torch.zeros_like(g), g / y)
        return v * vjp(_sum(pool), share, size, order, None, None, None) - rest
    return (pool.kind.p - 1) * (_quotient(v * vjp(pool, g, size, order, x, None, None), x) - rest)


def _not_zero(y: Tensor) -> Tensor:
    """y, and 1 where it is 0: all cells of such a window are 0, and none of them weighs."""
    return torch.where(y == 0, torch.ones_like(y), y)


def _quotient(a: Tensor, x: Tensor) -> Tensor:
    return torch.where(x == 0, torch.zeros_like(a), a / _not_zero(x))


def _sum(pool: TensorPool) -> TensorPool:
    return TensorPool(Pool(Sum(), pool.pool.window, pool.pool.axes))


# --- the Functions --------------------------------------------------------------------------------


def keep(ctx: Any, *tensors: Tensor | None) -> None:
    """For the derivative in either mode."""
    keep_apart(ctx, tensors, tensors)


def keep_apart(ctx: Any, backward: Sequence[Tensor | None], forward: Sequence[Tensor | None]) -> None:
    """For the one mode and for the other, which is over when the call is: it may have more at no cost."""
    ctx.save_for_backward(*backward)
    ctx.save_for_forward(*forward)
    ctx.set_materialize_grads(False)


def kept_of_forward(
    pool: TensorPool, x: Tensor, y: Tensor, winners: Tensor | None
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """What of x, y and the winners the derivative needs: the winners alone, nothing, x and y, or x."""
    if pool.wins and winners is not None:
        return None, None, winners
    if pool.linear:
        return None, None, None
    return x, (y if isinstance(pool.kind, Max | Min) and not pool.wins else None), None


def _total(a: Tensor | None, b: Tensor | None, like: Tensor | None, size: Size) -> Tensor:
    """The sum of those that are there, or zeros."""
    if a is not None and b is not None:
        return a + b
    if a is None and b is None:
        assert like is not None
        return like.new_zeros(size)
    return a if a is not None else b  # type: ignore[return-value]


class Forward(torch.autograd.Function):
    """y, and the winners if they say all about the derivative."""

    @staticmethod
    def forward(x: Tensor, pool: TensorPool) -> tuple[Tensor, ...]:
        return engine.forward_with_winners(pool, x) if pool.wins else (engine.forward(pool, x),)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, TensorPool], output: tuple[Tensor, ...]) -> None:
        x, pool = inputs
        winners = output[1] if len(output) > 1 else None
        if winners is not None:
            ctx.mark_non_differentiable(winners)
        ctx.pool, ctx.size, ctx.order = pool, x.shape, pool.order_of(x)
        keep_apart(ctx, kept_of_forward(pool, x, output[0], winners), (x, None, winners))

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, *_: None) -> tuple[Tensor | None, None]:
        return None if g is None else vjp(ctx.pool, g, ctx.size, ctx.order, *ctx.saved_tensors), None

    @staticmethod
    def jvp(ctx: Any, t: Tensor, _: None) -> tuple[Tensor | None, ...]:
        x, _, winners = ctx.saved_tensors
        dy = jvp(ctx.pool, t, x, winners)
        return (dy, None) if ctx.pool.wins else (dy,)

    @staticmethod
    def vmap(info: Any, dims: Dims, x: Tensor, pool: TensorPool) -> tuple[tuple[Tensor, ...], Dims]:
        x = _in_front(x, dims[0], info.batch_size)
        outputs = forward_with_winners(pool, x) if pool.wins else (forward(pool, x),)
        return outputs, (0,) * len(outputs)


class Recorded(torch.autograd.Function):
    """y where only backward is to come: what it needs is kept without being a result, which `torch.func` would want."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, pool: TensorPool) -> Tensor:
        ctx.set_materialize_grads(False)
        plan = pool.plan_of(x)
        ctx.made = pool, plan
        if pool.linear:
            return plan.forward(x)
        y, winners = plan.forward_with_winners(x) if pool.wins else (plan.forward(x), None)
        ctx.save_for_backward(*kept_of_forward(pool, x, y, winners))
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor | None) -> tuple[Tensor | None, None]:
        if g is None:
            return None, None
        pool, plan = ctx.made
        known = (None, None, None) if pool.linear else ctx.saved_tensors
        return vjp(pool, g, plan.size, plan.order, *known), None


_recorded: Callable[[Tensor, TensorPool], Tensor] = super(torch.autograd.Function, Recorded).apply


class Indices(torch.autograd.Function):
    """The winners' indices, which have no derivative."""

    @staticmethod
    def forward(winners: Tensor, size: Size, pool: TensorPool) -> Tensor:
        return engine.indices(pool, winners, size)

    @staticmethod
    def setup_context(ctx: Any, _: Any, output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(_: Any, *__: Tensor) -> tuple[None, None, None]:
        return None, None, None

    @staticmethod
    def vmap(info: Any, dims: Dims, winners: Tensor, size: Size, pool: TensorPool) -> tuple[Tensor, int]:
        return indices(pool, _in_front(winners, dims[0], info.batch_size), (info.batch_size, *size)), 0


class Jvp(torch.autograd.Function):
    """`dy = J t`."""

    @staticmethod
    def forward(t: Tensor, x: Tensor | None, winners: Tensor | None, pool: TensorPool) -> Tensor:
        return engine.jvp(pool, t, x, winners)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        t, x, winners, pool = inputs
        ctx.pool, ctx.size, ctx.order = pool, t.shape, pool.order_of(t)
        bent = t if pool.curved else None
        keep_apart(ctx, (bent, x if winners is None else None, winners), (bent, x, winners))

    @staticmethod
    def backward(ctx: Any, h: Tensor | None) -> tuple[Tensor | None, ...]:
        t, x, winners = ctx.saved_tensors
        to_t = to_x = None
        if h is not None and ctx.needs_input_grad[0]:
            to_t = vjp(ctx.pool, h, ctx.size, ctx.order, x, None, winners)
        if h is not None and ctx.needs_input_grad[1] and ctx.pool.curved:
            to_x = bend_back(ctx.pool, h, t, x)
        return to_t, to_x, None, None

    @staticmethod
    def jvp(ctx: Any, dt: Tensor | None, v: Tensor | None, *_: None) -> Tensor:
        t, x, winners = ctx.saved_tensors
        along_t = None if dt is None else jvp(ctx.pool, dt, x, winners)
        along_x = bend(ctx.pool, t, v, x) if v is not None and ctx.pool.curved else None
        return _total(along_t, along_x, v, ctx.pool.pool._layout(tuple(ctx.size)).output_shape)

    @staticmethod
    def vmap(info: Any, dims: Dims, *inputs: Any) -> tuple[Tensor, int]:
        t, x, winners = (_in_front(a, d, info.batch_size) for a, d in zip(inputs[:3], dims[:3], strict=True))
        return jvp(inputs[3], t, x, winners), 0


class Vjp(torch.autograd.Function):
    """`gx = J^T g`."""

    @staticmethod
    def forward(
        g: Tensor,
        size: Size,
        order: Order,
        x: Tensor | None,
        y: Tensor | None,
        winners: Tensor | None,
        pool: TensorPool,
    ) -> Tensor:
        return engine.vjp(pool, g, size, order, x, y, winners)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        g, ctx.size, ctx.order, x, y, winners, ctx.pool = inputs
        keep(ctx, g if ctx.pool.curved else None, x, y, winners)

    @staticmethod
    def backward(ctx: Any, c: Tensor | None) -> tuple[Tensor | None, ...]:
        g, x, _, winners = ctx.saved_tensors
        to_g = to_x = None
        if c is not None and ctx.needs_input_grad[0]:
            to_g = jvp(ctx.pool, c, x, winners)
        if c is not None and ctx.needs_input_grad[3] and ctx.pool.curved:
            to_x = bend_back(ctx.pool, g, c, x)
        return to_g, None, None, to_x, None, None, None

    @staticmethod
    def jvp(ctx: Any, dg: Tensor | None, _: None, __: None, v: Tensor | None, *___: None) -> Tensor:
        g, x, y, winners = ctx.saved_tensors
        along_g = None if dg is None else vjp(ctx.pool, dg, ctx.size, ctx.order, x, y, winners)
        along_x = bend_back(ctx.pool, g, v, x) if v is not None and ctx.pool.curved else None
        return _total(along_g, along_x, v, ctx.size)

    @staticmethod
    def vmap(info: Any, dims: Dims, *inputs: Any) -> tuple[Tensor, int]:
        n, (g, size, order, *known, pool) = info.batch_size, inputs
        order = None if order is None else (0, *(d + 1 for d in order))
        g, x, y, winners = (_in_front(a, d, n) for a, d in zip((g, *known), (dims[0], *dims[3:6]), strict=True))
        return vjp(pool, g, (n, *size), order, x, y, winners), 0


def _in_front(a: Tensor | None, dim: int | None, n: int) -> Any:
    """A tensor with the batch of `vmap` as its first axis, among the carried ones."""
    if a is None:
        return None
    return a.expand(n, *a.shape) if dim is None else a.movedim(dim, 0)
