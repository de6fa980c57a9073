"""Tensors to the engine and back: one pool over one shape, order of axes in memory and dtype. No autograd here.

Nothing is copied that the engine can read as it lies: a tensor that is dense in some order of its axes (channels last,
say) is handed over in that order, and the result is written in the same one.

A small tensor is pooled in less time than PyTorch takes to make the result. There the engine makes it, through the
table of C functions by which PyTorch shares its tensors (`TensorPlan`); where that cannot be, the common way is open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy

from .. import _engine
from ..kinds import Avg, Kind, Lp, Max, Min, SmoothMax, Sum
from ..pool import _NATIVE_KINDS, _PLANS_KEPT, Pool, _numbers

Size: TypeAlias = tuple[int, ...]
Order: TypeAlias = tuple[int, ...] | None

#: What the engine calls each dtype; bool is uint8 there.
TYPES = {
    getattr(torch, name): "uint8" if name == "bool" else name
    for name in (
        "bool",
        *(f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)),
        *("float16", "bfloat16", "float32", "float64"),
    )
}
WINNERS = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32}

#: Where the engine works, whatever `torch.set_default_device` says.
CPU = torch.device("cpu")

#: Tensors that are what they seem, and not a subclass with a meaning of its own.
PLAIN = (Tensor, torch.nn.Parameter)

#: What a profile, and PyTorch's graph of what is recorded, call the pools of each kind.
NAMES = {
    Max: "max_pool",
    Min: "min_pool",
    Sum: "sum_pool",
    Avg: "avg_pool",
    SmoothMax: "smooth_max_pool",
    Lp: "lp_pool",
}

V = TypeVar("V")
Called = TypeVar("Called", bound=Callable[..., Any])

_NOT_COMPILED = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)


def opaque(function: Called) -> Called:
    """The function, into which the compiler does not look, nor into what that calls.

    It would where it has given up on a caller, as it does on compiled code with a transform around it.
    """
    set_code_exec_strategy(function.__code__, _NOT_COMPILED)
    return function


def put(kept: dict[Any, V], key: Any, value: V, most: int) -> V:
    """Keep a value for the next time, and let the oldest go when there are too many."""
    if len(kept) >= most:
        kept.pop(next(iter(kept)), None)
    kept[key] = value
    return value


class TensorPool:
    """A `Pool` for tensors, and its plans. The pooled axes are counted from the end, so more may come in front."""

    __slots__ = ("curved", "linear", "name", "plans", "pool", "seen", "wins")

    def __init__(self, pool: Pool) -> None:
        if type(pool.kind) not in _NATIVE_KINDS:
            raise TypeError(
                f"{pool.kind!r} is not one of the engine's kinds; ndpool.torch.functional.pool takes any kind"
            )
        self.pool = pool
        self.name = NAMES[type(pool.kind)]
        self.plans: dict[Any, Plan] = {}
        #: The plans again, by how a tensor lies: the shortest way to one.
        self.seen: dict[Any, Plan] = {}
        #: Whether one winner a window says all about the derivative.
        self.wins = isinstance(pool.kind, Max | Min) and pool.kind.ties == "first"
        #: Whether the derivative is the same everywhere.
        self.linear = isinstance(pool.kind, Sum | Avg)
        #: Whether there is a second derivative that is not 0.
        self.curved = isinstance(pool.kind, SmoothMax) or (isinstance(pool.kind, Lp) and pool.kind.p != 1)

    @property
    def kind(self) -> Kind:
        return self.pool.kind

    def plan(self, size: Size, order: Order, dtype: torch.dtype) -> Plan:
        key = (size, order, dtype)
        try:
            return self.plans[key]
        except KeyError:
            pass
        return put(self.plans, key, Plan(self.pool, size, order, dtype), _PLANS_KEPT)

    def plan_of(self, x: Tensor) -> Plan:
        try:
            return self.seen[x.shape, x.stride(), x.dtype]
        except KeyError:
            check_dense_layout(x)
        except RuntimeError:  # which is how a tensor says that it has no shape or strides
            check_dense_layout(x)
            raise
        plan = self.plan(x.shape, self.order_of(x), x.dtype)
        return put(self.seen, (x.shape, x.stride(), x.dtype), plan, _PLANS_KEPT)

    def axes_of(self, ndim: int) -> list[int]:
        """The pooled axes of a tensor with so many, in ascending order."""
        return sorted(ndim + axis for axis in self.pool.axes or ())

    def order_of(self, x: Tensor) -> Order:
        """The order of the axes of `x` in memory; None where it is the usual one, or not one the engine can follow."""
        return None if x.is_contiguous() else memory_order(x.stride(), self.axes_of(x.dim()))


def memory_order(strides: Sequence[int], pooled: Sequence[int]) -> Order:
    """The axes from the longest stride to the shortest, if that leaves the pooled ones in their order.

    An axis that is repeated in the same place (stride 0) counts as the outermost.
    """
    order = sorted(range(len(strides)), key=lambda d: -strides[d] if strides[d] else -math.inf)
    usual = order == list(range(len(strides)))
    return None if usual or [d for d in order if d in pooled] != list(pooled) else tuple(order)


def order_without(order: Order, axes: Sequence[int]) -> Order:
    """The order of the axes that are left when some are gone."""
    if order is None:
        return None
    left = sorted(set(order) - set(axes))
    return tuple(left.index(d) for d in order if d in left)


class Plan:
    """What the engine needs for tensors of one size, order and dtype, and the tensors that it gives."""

    __slots__ = (
        "axes",
        "dtype",
        "native",
        "order",
        "quick",
        "result",
        "size",
        "strides",
        "winner",
        "y_order",
        "y_size",
        "y_strides",
    )

    def __init__(self, pool: Pool, size: Size, order: Order, dtype: torch.dtype) -> None:
        check_dtype(dtype)
        self.result = result_dtype(pool.kind, dtype)
        # The smooth kinds compute integers in float64, which is what they give for them.
        dtype = self.result if isinstance(pool.kind, SmoothMax | Lp) else dtype
        found = pool._layout(tuple(size))
        places = order or tuple(range(len(size)))
        pooled = dict(zip(found.axes, found.geometry, strict=True))
        name, parameter, option = _NATIVE_KINDS[type(pool.kind)](pool.kind)
        derivative = TYPES[dtype] if dtype.is_floating_point else "float64"
        numbers = [_numbers(pooled[d]) if d in pooled else [size[d]] for d in places]
        self.native = _engine.Plan(numbers, name, TYPES[dtype], derivative, parameter, option)
        self.axes, self.order, self.dtype = found.axes, order, dtype
        self.size, self.y_size = tuple(size), found.output_shape
        self.y_order = order if len(self.y_size) == len(size) else order_without(order, found.axes)
        self.strides, self.y_strides = strides(self.size, order), strides(self.y_size, self.y_order)
        self.winner = WINNERS[self.native.winner_bytes]
        self.quick = self._quick()

    def _quick(self) -> _engine.TensorPlan | None:
        """The short way for small tensors, in a PyTorch that opens it."""
        small = 0 < math.prod(self.size) <= _SMALL and 0 < math.prod(self.y_size) <= _SMALL
        if not small or not hasattr(Tensor, "__dlpack_c_exchange_api__"):
            return None
        names = (str(dtype).removeprefix("torch.") for dtype in (self.dtype, self.result))
        return _engine.TensorPlan(self.native, Tensor, self.size, self.strides, self.y_size, self.y_strides, *names)

    def inside(self, a: Tensor) -> Tensor:
        """A tensor shaped like x, as the engine reads it."""
        return dense(a if a.dtype == self.dtype else a.to(self.dtype), self.order, self.strides)

    def inside_y(self, a: Tensor) -> Tensor:
        """A tensor shaped like y, whose pooled axes may be gone, likewise."""
        return dense(a, self.y_order, self.y_strides)

    def new_y(self, dtype: torch.dtype) -> Tensor:
        """Room for a result. It must not be a view: forward mode would want tangents with the layout of the base."""
        return torch.empty_strided(self.y_size, self.y_strides, dtype=dtype, device=CPU)

    def new_x(self, dtype: torch.dtype) -> Tensor:
        """Room for a tensor shaped like x."""
        return torch.empty_strided(self.size, self.strides, dtype=dtype, device=CPU)

    def forward(self, x: Tensor) -> Tensor:
        if self.quick is not None and not x.is_neg() and (made := self.quick.forward(x)) is not None:
            return made  # type: ignore[no-any-return]
        use_threads()
        y = self.new_y(self.result)
        self.native.forward(self.inside(x), y)
        return y

    def forward_with_winners(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.quick is not None and not x.is_neg() and (made := self.quick.forward_with_winners(x)) is not None:
            return made
        use_threads()
        y, winners = self.new_y(self.result), self.new_y(self.winner)
        self.native.forward_with_winners(self.inside(x), y, winners)
        return y, winners


def use_threads() -> None:
    """The threads are PyTorch's."""
    threads = torch.get_num_threads()
    if _engine.get_num_threads() != threads:
        _engine.set_num_threads(threads)


#: As far as the engine works on one thread, however many there are.
_SMALL = 2048


def strides(size: Size, order: Order) -> tuple[int, ...]:
    """The strides of a tensor that is dense in this order of its axes.

    >>> strides((2, 3, 4, 5), (0, 2, 3, 1))
    (60, 1, 15, 3)
    """
    found, step = [0] * len(size), 1
    for d in reversed(order or range(len(size))):
        found[d] = step
        step *= max(size[d], 1)
    return tuple(found)


def dense(a: Tensor, order: Order, strides: tuple[int, ...]) -> Tensor:
    """The tensor itself where it lies in memory in this order, with its numbers as they are; else a copy that does."""
    a = torch._C._functorch.unwrap_if_dead(a)  # what a transform that has ended leaves of the tensors it kept
    apart = a.is_neg() or a._is_zerotensor()  # what complex numbers and forward mode put in place of -a and of zeros
    if not apart and a.stride() == strides:
        return a
    check_dense_layout(a)
    a = a.detach().clone() if apart else a.detach()
    return (a if order is None else a.permute(order)).contiguous()


def check_dense_layout(a: Tensor) -> None:
    if a.is_nested:
        raise TypeError(
            "the tensor is nested, which ndpool does not pool; give a dense one, as from torch.nested.to_padded_tensor "
            "or each of x.unbind()"
        )
    if a.layout is not torch.strided:
        raise TypeError(f"the tensor is {a.layout}, which ndpool does not pool; give a dense one, as from .to_dense()")


def check_dtype(dtype: torch.dtype) -> None:
    if dtype not in TYPES:
        raise TypeError(f"x has dtype {dtype}, which ndpool does not pool; give one of {', '.join(map(str, TYPES))}")


def result_dtype(kind: Kind, dtype: torch.dtype) -> torch.dtype:
    """The dtype of the output (rule "Integers")."""
    if dtype.is_floating_point or kind.integers == "keep":
        return dtype
    if kind.integers == "float64":
        return torch.float64
    return torch.uint64 if dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64) else torch.int64


# --- what the engine does -------------------------------------------------------------------------


@opaque
def forward(pool: TensorPool, x: Tensor) -> Tensor:
    """`y`."""
    return pool.plan_of(x).forward(x)


@opaque
def forward_with_winners(pool: TensorPool, x: Tensor) -> tuple[Tensor, Tensor]:
    """`y`, and each winner's place in its window: one byte for windows of up to 256 cells."""
    return pool.plan_of(x).forward_with_winners(x)


@opaque
def indices(pool: TensorPool, winners: Tensor, size: Size) -> Tensor:
    """Each winner's flat row-major index over the pooled axes."""
    plan = pool.plan(size, y_order(pool, winners, size), torch.float32)
    use_threads()
    found = plan.new_y(torch.int64)
    plan.native.indices(plan.inside_y(winners), found)
    return found


@opaque
def jvp(pool: TensorPool, t: Tensor, x: Tensor | None, winners: Tensor | None) -> Tensor:
    """`dy`, linear in `t`; from `x` where it is known, else from the winners or, for linear kinds, from neither."""
    if pool.linear:
        return forward(pool, t)
    if x is None:
        assert winners is not None
        return _gather(pool, t, winners)
    plan = pool.plan_of(x)
    use_threads()
    dy = plan.new_y(plan.dtype)
    plan.native.jvp(plan.inside(x), plan.inside(t), plan.new_y(plan.result), dy)
    return dy


def _gather(pool: TensorPool, t: Tensor, winners: Tensor) -> Tensor:
    """The tangents at the winners: for second derivatives, where x has not been kept."""
    axes = pool.plan_of(t).axes
    found = indices(pool, winners, t.shape)
    last = tuple(range(-len(axes), 0))
    cells = t.movedim(axes, last).flatten(-len(axes))
    if found.dim() != t.dim():
        return cells.gather(-1, found.unsqueeze(-1)).squeeze(-1)
    found = found.movedim(axes, last)
    return cells.gather(-1, found.flatten(-len(axes))).reshape(found.shape).movedim(last, axes).contiguous()


@opaque
def vjp(
    pool: TensorPool, g: Tensor, size: Size, order: Order, x: Tensor | None, y: Tensor | None, winners: Tensor | None
) -> Tensor:
    """`gx`, linear in `g`, for an input of this size and order; what is not known of y and the winners x tells."""
    plan = pool.plan(size, order, g.dtype)
    if plan.quick is not None and not g.is_neg() and (x is None or not x.is_neg()):
        made = plan.quick.vjp(x, y, winners, g)
        if made is not None:
            return made  # type: ignore[no-any-return]
    use_threads()
    known: tuple[Tensor | None, Tensor | None, Tensor | None] = None, None, None
    if pool.wins:
        if winners is None:
            assert x is not None
            winners = forward_with_winners(pool, x)[1]
        known = None, None, plan.inside_y(winners)
    elif not pool.linear:
        assert x is not None
        if isinstance(pool.kind, Max | Min):
            known = plan.inside(x), plan.inside_y(forward(pool, x) if y is None else y), None
        else:
            known = plan.inside(x), None, None
    gx = plan.new_x(g.dtype)
    plan.native.vjp(*known, plan.inside_y(g), gx)
    return gx


def y_order(pool: TensorPool, y: Tensor, size: Size) -> Order:
    """The order of axes in which a tensor shaped like the output lies; unknown, so the usual, if its axes are gone."""
    if y.is_contiguous() or y.dim() != len(size):
        return None
    return memory_order(y.stride(), pool.axes_of(len(size)))
