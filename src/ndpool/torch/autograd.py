"""Differentiation: four operations that are closed under it, to every order, in both modes.

With the weights w of the kind, `forward` is `y`, `jvp` is `dy = sum of w_i t_i` and `vjp` is `gx_i = sum of w_i g`: a
linear map J and its transpose. They are linear in t and g, so there the derivative of each is J or its transpose again.
Where the weights change when x moves, the kind states by how much (`Kind.bend`), in terms of J and its transpose.

Each operation has two roads. Eager code goes straight to the engine, through a `Recorded` where backward is to come.
Everyone else (compile, export, fake and meta tensors, forward mode, the transforms of `torch.func`, second derivatives)
goes through the operators of `operators`. `kernel` below is what they have for their derivatives: the same rules in
both modes, at any number of levels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.compiler import is_compiling, is_dynamo_compiling, is_exporting

from ..kind import no_winner
from ..kinds import Sum
from ..plan import Order
from ..pool import Pool
from . import engine
from .devices import check_device
from .engine import PLAIN, Size, TensorPool, Tensors, opaque
from .schema import Values, encode

Dims: TypeAlias = tuple[int | None, ...]

# --- the roads ------------------------------------------------------------------------------------

_BATCHED = torch._C._dispatch_key_parse("Batched")
_modes, _tracing, _transforms, _profiled = (
    torch._C._len_torch_dispatch_stack,
    torch._C._is_tracing,
    torch._C._are_functorch_transforms_active,
    torch._C._autograd._profiler_enabled,
)


def is_plain(a: Tensor) -> bool:
    """Whether the engine may have this call to itself, but for a derivative that is recorded for backward.

    That is the case of nearly all calls: a tensor where there is an engine, no subclass, and nobody who watches.
    """
    return _is_unwatched() and type(a) in PLAIN and (a.is_cpu or a.is_cuda)


def _is_unwatched() -> bool:
    """Whether no compiler, tracer, mode, transform or forward mode is at work."""
    return (
        not is_dynamo_compiling()
        and not _modes()
        and not _transforms()
        and not _tracing()
        and forward_ad._current_level < 0
    )


def is_kept() -> bool:
    """Whether the graph in the making outlives its tensors: `torch.export`, `torch.onnx` and `torch.jit.trace`.

    Such a graph says what is computed and nothing of winners, which only derivatives ask for.
    """
    return is_exporting() or (not is_compiling() and _tracing())


def _is_recorded(*tensors: Tensor | None) -> bool:
    """Whether backward is to come through a call with these tensors."""
    if torch.is_grad_enabled():
        for a in tensors:
            if a is not None and a.requires_grad:
                return True
    return False


def is_batched_the_old_way(a: Tensor) -> bool:
    """Whether `autograd.grad(is_grads_batched=True)` and its like made this tensor; only operators see through it."""
    return bool(torch._C._dispatch_keys(a).has(_BATCHED))


def check_engine(a: Tensor) -> None:
    """That there is an engine where the tensor is; compiled code finds that out when it runs."""
    if not is_compiling():
        check_device(a.device)


def _shown(pool: TensorPool, run: Callable[[TensorPool, Tensor], Any], x: Tensor) -> Any:
    """`run(pool, x)`, with a line of its own in the profile."""
    with torch._C._profiler._RecordFunctionFast(f"ndpool::{pool.name}"):
        return run(pool, x)


def again(pool: TensorPool, x: Tensor) -> Tensor | None:
    """`y` of a tensor that is as the one before it was: checked, laid out, planned. None of any other."""
    if (plan := pool.latest) is None or not _is_unwatched() or _profiled() or not plan.takes(x):
        return None
    y: Tensor = _RECORDED[pool.name](plan, x) if x.requires_grad and torch.is_grad_enabled() else plan.forward(x)
    return y


def forward(pool: TensorPool, x: Tensor) -> Tensor:
    """`y`."""
    y: Tensor
    if is_plain(x):
        run = _recorded if x.requires_grad and torch.is_grad_enabled() else engine.forward
        y = _shown(pool, run, x) if _profiled() else run(pool, x)
    else:
        check_engine(x)
        y = torch.ops.ndpool.forward(x, *encode(pool.pool))
    return y


def forward_with_winners(pool: TensorPool, x: Tensor) -> tuple[Tensor, Tensor]:
    """`y` and the winners, for Max and Min with ties="first"."""
    if is_plain(x):
        run = _recorded_with_winners if _is_recorded(x) else engine.forward_with_winners
        y, winners = _shown(pool, run, x) if _profiled() else run(pool, x)
    else:
        check_engine(x)
        y, winners = torch.ops.ndpool.forward_with_winners(x, *encode(pool.pool))
    return y, winners


def with_indices(pool: TensorPool, x: Tensor) -> tuple[Tensor, Tensor]:
    """`y`, and the flat index over the pooled axes of the first winner in each window, whatever the policy for ties."""
    if pool.wins:
        if is_kept():
            check_engine(x)
            y, found = torch.ops.ndpool.forward_with_indices(x, *encode(pool.pool))
            return y, found
        y, winners = forward_with_winners(pool, x)
        return y, indices(pool, winners, x.shape)
    kind = pool.kind.one_winner()
    if kind is None:
        raise no_winner(pool.kind)
    first = TensorPool(replace(pool.pool, kind=kind))
    return forward(pool, x), with_indices(first, x.detach())[1]


def indices(pool: TensorPool, winners: Tensor, size: Size) -> Tensor:
    """The winners' flat indices over the pooled axes of an input of this size."""
    if is_plain(winners):
        return engine.indices(pool, winners, size)
    found: Tensor = torch.ops.ndpool.indices(winners, size, *encode(pool.pool))
    return found


def jvp(pool: TensorPool, t: Tensor, x: Tensor | None, winners: Tensor | None) -> Tensor:
    """`dy = J t`, where J is known from x or from the winners."""
    if is_plain(t) and not _is_recorded(t, x) and not is_batched_the_old_way(t):
        return engine.jvp(pool, t, x, winners)
    dy: Tensor = torch.ops.ndpool.jvp(t, x, winners, *encode(pool.pool))
    return dy


def vjp(
    pool: TensorPool, g: Tensor, size: Size, order: Order, x: Tensor | None, y: Tensor | None, winners: Tensor | None
) -> Tensor:
    """`gx = J^T g`, with the size and the order in memory of x."""
    if is_plain(g) and not _is_recorded(g, x) and not is_batched_the_old_way(g):
        return engine.vjp(pool, g, size, order, x, y, winners)
    gx: Tensor = torch.ops.ndpool.vjp(g, size, order, x, y, winners, *encode(pool.pool))
    return gx


# --- second derivatives ---------------------------------------------------------------------------


class Slope:
    """The derivative at x, in terms of which the kinds that bend state their second one.

    Skipped cells are 0 in its x, and so are outputs that have too few others in its y: what is 0 does not bend.
    """

    __slots__ = ("known", "pool", "whole")

    def __init__(self, pool: TensorPool, x: Tensor) -> None:
        self.pool, self.whole = pool, x
        self.known = None if pool.linear else x

    @property
    def x(self) -> Tensor:
        there = are_there(self.pool.pool, self.whole)
        return self.whole if there is None else torch.where(there, self.whole, 0.0)

    @property
    def y(self) -> Tensor:
        y = forward(self.pool, self.whole)
        if self.pool.pool.skip is None:
            return y
        return torch.where(self.sums().push(torch.ones_like(self.whole)) == 0, 0.0, y)

    def push(self, t: Tensor) -> Tensor:
        return jvp(self.pool, t, self.known, None)

    def pull(self, g: Tensor) -> Tensor:
        return vjp(self.pool, g, self.whole.shape, self.pool.order_of(self.whole), self.known, None, None)

    def sums(self) -> Slope:
        return Slope(TensorPool(replace(self.pool.pool, kind=Sum())), self.whole)

    def where(self, condition: Tensor, a: Any, b: Any) -> Tensor:
        return torch.where(condition, a, b)


def are_there(pool: Pool, x: Tensor) -> Tensor | None:
    """Which cells of a float tensor are not skipped; None where none is."""
    if pool.skip is None:
        return None
    return ~x.isnan() if pool.skip != pool.skip else x != pool.skip


def bend(pool: TensorPool, t: Tensor, v: Tensor, x: Tensor) -> Tensor:
    """`t H v`, shaped like y."""
    bent: Tensor = pool.kind.bend(Slope(pool, x), t, v)
    return bent


def bend_back(pool: TensorPool, g: Tensor, v: Tensor, x: Tensor) -> Tensor:
    """`g H v`, shaped like x."""
    bent: Tensor = pool.kind.bend_back(Slope(pool, x), g, v)
    return bent


# --- what is kept ---------------------------------------------------------------------------------


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
    return x, (y if pool.pool.keeps == "x and y" else None), None


def _total(a: Tensor | None, b: Tensor | None, like: Tensor | None, size: Size) -> Tensor:
    """The sum of those that are there, or zeros."""
    if a is not None and b is not None:
        return a + b
    if a is None and b is None:
        assert like is not None
        return like.new_zeros(size)
    return a if a is not None else b  # type: ignore[return-value]


# --- the short road -------------------------------------------------------------------------------


class Recorded(torch.autograd.Function):
    """y where only backward is to come."""

    @staticmethod
    @opaque
    def forward(ctx: Any, plan: Tensors, x: Tensor) -> Tensor:
        ctx.plan, ctx.materialize_grads = plan, False
        if plan.wins:
            y, winners = plan.forward_with_winners(x)
            ctx.save_for_backward(None, None, winners)
            return y
        y = plan.forward(x)
        if plan.keeps_x:
            ctx.save_for_backward(x, y if plan.keeps_y else None, None)
        return y

    @staticmethod
    @opaque
    def backward(ctx: Any, g: Tensor | None, *_: None) -> tuple[None, Tensor | None]:
        if g is None:
            return None, None
        plan = ctx.plan
        known = ctx.saved_tensors if plan.wins or plan.keeps_x else (None, None, None)
        if not torch.is_grad_enabled() and _is_unwatched() and (gx := plan.pull(g, *known)) is not None:
            return None, gx
        return None, vjp(plan.pool, g, plan.size, plan.order, *known)


class RecordedWithWinners(Recorded):
    """The same, and the winners, for whom wants to see them."""

    @staticmethod
    @opaque
    def forward(ctx: Any, plan: Tensors, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        ctx.plan, ctx.materialize_grads = plan, False
        y, winners = plan.forward_with_winners(x)
        ctx.mark_non_differentiable(winners)
        ctx.save_for_backward(None, None, winners)
        return y, winners


class _Named(dict[str, Callable[..., Any]]):
    """How to apply a Function to each kind of pool, under the name that PyTorch shows: "MaxPool" for "max_pool".

    `Function.apply` itself looks at the signature each time, which costs more than a small pool does. So does its way
    back, at whether `backward` or `vjp` was written. Here both are found once.
    """

    def __init__(self, function: type[torch.autograd.Function], what: str = "") -> None:
        self.function, self.what = function, what

    def __missing__(self, name: str) -> Callable[..., Any]:
        title = "".join(word.title() for word in name.split("_")) + self.what
        made = type(title, (self.function,), {"__doc__": self.function.__doc__, "__module__": __name__})
        if issubclass(made, Recorded):
            made._backward_cls.apply = made.backward  # type: ignore[attr-defined]
        self[name] = super(torch.autograd.Function, made).apply  # type: ignore[misc]
        return self[name]


_RECORDED = _Named(Recorded)
_RECORDED_WITH_WINNERS = _Named(RecordedWithWinners)


@opaque
def _recorded(pool: TensorPool, x: Tensor) -> Any:
    return _RECORDED[pool.name](pool.plan_of(x), x)


@opaque
def _recorded_with_winners(pool: TensorPool, x: Tensor) -> Any:
    return _RECORDED_WITH_WINNERS[pool.name](pool.plan_of(x), x)


# --- the operators --------------------------------------------------------------------------------


class Level:
    """Where an operator is differentiated: a level of `torch.func`, or the only one. The next is below.

    PyTorch turns both modes off inside of a Function. The levels below want them as they were.
    """

    __slots__ = ("forward_mode", "keys", "reverse_mode", "values")

    def __init__(self, keys: Any, values: Values) -> None:
        self.keys, self.values = keys & torch._C._after_autograd_keyset, values
        self.reverse_mode, self.forward_mode = torch.is_grad_enabled(), torch._C._is_fwd_grad_enabled()

    def below(self, name: str, *inputs: Any) -> Any:
        """What an operator gives at the next level; at the last, what the engine does."""
        operator = getattr(torch.ops.ndpool, name).default
        with (
            torch.set_grad_enabled(self.reverse_mode),
            forward_ad._set_fwd_grad_enabled(self.forward_mode),
            torch._C._AutoDispatchBelowAutograd(),
        ):
            return operator.redispatch(self.keys, *inputs, *self.values)


def kernel(name: str, pool_of: Callable[..., TensorPool], values: int) -> Callable[..., Any]:
    """What the dispatcher calls for an operator whose inputs may be differentiated; the last `values` are the pool's.

    `torch.library.register_autograd` would know nothing of forward mode, and give no tangent without a word.
    """
    functions = _OPERATORS.get(name)

    @opaque
    def differentiated(keys: Any, *inputs: Any) -> Any:
        level, tensors = Level(keys, inputs[-values:]), inputs[:-values]
        if functions is None or not (_is_recorded(*_tensors(tensors)) or _has_tangent(*_tensors(tensors))):
            return level.below(name, *tensors)
        pool = pool_of(*inputs[-values:])
        with enable_single_level_autograd_function():
            return functions[pool.name](level, pool, *tensors)

    return differentiated


def _tensors(inputs: Sequence[Any]) -> list[Tensor]:
    return [a for a in inputs if isinstance(a, Tensor)]


def _unpacked(a: Tensor) -> tuple[Tensor, Tensor | None]:
    """The number and the tangent that a tensor has at this level."""
    primal, tangent = torch._VF._unpack_dual(a, level=0)
    return primal, tangent


def _has_tangent(*tensors: Tensor) -> bool:
    return any(a.is_floating_point() and _unpacked(a)[1] is not None for a in tensors)


def rule(jvp: Callable[..., Any]) -> Callable[..., Any]:
    """A rule for forward mode, `jvp(ctx, kept, *tangents)`, with what was kept as it is without tangents of this level.

    PyTorch turns forward mode off in there, so that those tangents are not seen. The levels below would lose theirs.
    """

    def at_this_level(ctx: Any, *tangents: Tensor | None) -> Any:
        with forward_ad._set_fwd_grad_enabled(True):
            kept = [a if a is None or not a.is_floating_point() else _unpacked(a)[0] for a in ctx.saved_tensors]
            return jvp(ctx, kept, *tangents)

    return at_this_level


class Forward(torch.autograd.Function):
    """y."""

    @staticmethod
    def forward(ctx: Any, level: Level, pool: TensorPool, x: Tensor) -> Any:
        y, winners = level.below("forward_with_winners", x) if pool.wins else (level.below("forward", x), None)
        ctx.pool, ctx.size, ctx.order = pool, x.shape, pool.order_of(x)
        keep_apart(ctx, kept_of_forward(pool, x, y, winners), (x, winners))
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        return None, None, None if g is None else vjp(ctx.pool, g, ctx.size, ctx.order, *ctx.saved_tensors)

    @staticmethod
    @rule
    def jvp(ctx: Any, kept: list[Any], _: None, __: None, t: Tensor) -> Any:
        return jvp(ctx.pool, t, *kept)

    @staticmethod
    def vmap(info: Any, dims: Dims, x: Tensor, pool: TensorPool) -> tuple[Tensor, int]:
        return forward(pool, in_front(x, dims[0], info.batch_size)), 0


class ForwardWithWinners(Forward):
    """y and the winners, which say all about the derivative and have none."""

    @staticmethod
    def forward(ctx: Any, level: Level, pool: TensorPool, x: Tensor) -> tuple[Tensor, Tensor]:
        y, winners = level.below("forward_with_winners", x)
        ctx.mark_non_differentiable(winners)
        ctx.pool, ctx.size, ctx.order = pool, x.shape, pool.order_of(x)
        keep_apart(ctx, (None, None, winners), (x, winners))
        return y, winners

    @staticmethod
    @rule
    def jvp(ctx: Any, kept: list[Any], _: None, __: None, t: Tensor) -> Any:
        return jvp(ctx.pool, t, *kept), None

    @staticmethod
    def vmap(info: Any, dims: Dims, x: Tensor, pool: TensorPool) -> tuple[Any, Any]:
        return forward_with_winners(pool, in_front(x, dims[0], info.batch_size)), (0, 0)


class ForwardWithIndices(ForwardWithWinners):
    """y and the winners' indices."""

    @staticmethod
    def forward(ctx: Any, level: Level, pool: TensorPool, x: Tensor) -> tuple[Tensor, Tensor]:
        y, winners = level.below("forward_with_winners", x)
        found = level.below("indices", winners, x.shape)
        ctx.mark_non_differentiable(found)
        ctx.pool, ctx.size, ctx.order = pool, x.shape, pool.order_of(x)
        keep_apart(ctx, (None, None, winners), (x, winners))
        return y, found

    @staticmethod
    def vmap(info: Any, dims: Dims, x: Tensor, pool: TensorPool) -> tuple[Any, Any]:
        return with_indices(pool, in_front(x, dims[0], info.batch_size)), (0, 0)


class Indices:
    """The winners' indices, which have no derivative."""

    @staticmethod
    def vmap(info: Any, dims: Dims, winners: Tensor, size: Size, pool: TensorPool) -> tuple[Tensor, int]:
        return indices(pool, in_front(winners, dims[0], info.batch_size), (info.batch_size, *size)), 0


class Jvp(torch.autograd.Function):
    """`dy = J t`."""

    @staticmethod
    def forward(
        ctx: Any, level: Level, pool: TensorPool, t: Tensor, x: Tensor | None, winners: Tensor | None
    ) -> Tensor:
        ctx.pool, ctx.size, ctx.order = pool, t.shape, pool.order_of(t)
        bent = t if pool.curved else None
        keep_apart(ctx, (bent, x if winners is None else None, winners), (bent, x, winners))
        dy: Tensor = level.below("jvp", t, x, winners)
        return dy

    @staticmethod
    def backward(ctx: Any, h: Tensor | None) -> tuple[Tensor | None, ...]:
        t, x, winners = ctx.saved_tensors
        to_t = to_x = None
        if h is not None and ctx.needs_input_grad[2]:
            to_t = vjp(ctx.pool, h, ctx.size, ctx.order, x, None, winners)
        if h is not None and ctx.needs_input_grad[3] and ctx.pool.curved:
            to_x = bend_back(ctx.pool, h, t, x)
        return None, None, to_t, to_x, None

    @staticmethod
    @rule
    def jvp(ctx: Any, kept: list[Any], _: None, __: None, dt: Tensor | None, v: Tensor | None, *___: None) -> Tensor:
        t, x, winners = kept
        along_t = None if dt is None else jvp(ctx.pool, dt, x, winners)
        along_x = bend(ctx.pool, t, v, x) if v is not None and ctx.pool.curved else None
        return _total(along_t, along_x, v, ctx.pool.pool._layout(tuple(ctx.size)).output_shape)

    @staticmethod
    def vmap(info: Any, dims: Dims, *inputs: Any) -> tuple[Tensor, int]:
        t, x, winners = (in_front(a, d, info.batch_size) for a, d in zip(inputs[:3], dims[:3], strict=True))
        return jvp(inputs[3], t, x, winners), 0


class Vjp(torch.autograd.Function):
    """`gx = J^T g`."""

    @staticmethod
    def forward(
        ctx: Any,
        level: Level,
        pool: TensorPool,
        g: Tensor,
        size: Size,
        order: Order,
        x: Tensor | None,
        y: Tensor | None,
        winners: Tensor | None,
    ) -> Tensor:
        ctx.pool, ctx.size, ctx.order = pool, tuple(size), order
        keep(ctx, g if pool.curved else None, x, y, winners)
        gx: Tensor = level.below("vjp", g, size, order, x, y, winners)
        return gx

    @staticmethod
    def backward(ctx: Any, c: Tensor | None) -> tuple[Tensor | None, ...]:
        g, x, _, winners = ctx.saved_tensors
        to_g = to_x = None
        if c is not None and ctx.needs_input_grad[2]:
            to_g = jvp(ctx.pool, c, x, winners)
        if c is not None and ctx.needs_input_grad[5] and ctx.pool.curved:
            to_x = bend_back(ctx.pool, g, c, x)
        return None, None, to_g, None, None, to_x, None, None

    @staticmethod
    @rule
    def jvp(ctx: Any, kept: list[Any], *tangents: Tensor | None) -> Tensor:
        (g, x, y, winners), (_, _, dg, _, _, v, *_) = kept, tangents
        along_g = None if dg is None else vjp(ctx.pool, dg, ctx.size, ctx.order, x, y, winners)
        along_x = bend_back(ctx.pool, g, v, x) if v is not None and ctx.pool.curved else None
        return _total(along_g, along_x, v, ctx.size)

    @staticmethod
    def vmap(info: Any, dims: Dims, *inputs: Any) -> tuple[Tensor, int]:
        n, (g, size, order, *known, pool) = info.batch_size, inputs
        order = None if order is None else (0, *(d + 1 for d in order))
        g, x, y, winners = (in_front(a, d, n) for a, d in zip((g, *known), (dims[0], *dims[3:6]), strict=True))
        return vjp(pool, g, (n, *size), order, x, y, winners), 0


_OPERATORS = {
    "forward": _Named(Forward),
    "forward_with_winners": _Named(ForwardWithWinners),
    "forward_with_indices": _Named(ForwardWithIndices),
    "jvp": _Named(Jvp, "Jvp"),
    "vjp": _Named(Vjp, "Vjp"),
}


def in_front(a: Tensor | None, dim: int | None, n: int) -> Any:
    """A tensor with the batch of `vmap` as its first axis, among the carried ones."""
    if a is None:
        return None
    return a.expand(n, *a.shape) if dim is None else a.movedim(dim, 0)
