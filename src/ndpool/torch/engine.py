"""Tensors to the engine and back: one pool over one shape, order of axes in memory and dtype. No autograd here.

Nothing is copied that the engine can read as it lies: a tensor that is dense in some order of its axes (channels last,
say) is handed over in that order, and the result is written in the same one.

On the CPU the engine makes the results, through the table of C functions by which PyTorch shares its tensors
(`TensorPlan`): a small tensor is pooled in less time than PyTorch takes to make the result, and a large one is best
written where the one before it was, which the caches still hold. Elsewhere, and where that cannot be, PyTorch makes
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy

from .. import _engine, native
from ..kind import Kind, form_of
from ..memory import in_order
from ..native import Memory
from ..plan import Order, Plan, plan_of
from ..plan import put as put
from ..plan import strides as strides
from ..pool import Pool
from .devices import check_same_device, engine_on

if TYPE_CHECKING:
    from ..triton import TensorPlan as CudaPlan

Size: TypeAlias = tuple[int, ...]

#: The dtypes that the engine computes with, and what every library calls them.
TYPES = {
    getattr(torch, name): name
    for name in (
        "bool",
        *(f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)),
        *("float16", "bfloat16", "float32", "float64"),
    )
}
DTYPES = {name: dtype for dtype, name in TYPES.items()}
WINNERS = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}

#: Tensors that are what they seem, and not a subclass with a meaning of its own.
PLAIN = (Tensor, torch.nn.Parameter)

#: Plans that one pool remembers the shortest way to.
_PLANS_KEPT = 64

Called = TypeVar("Called", bound=Callable[..., Any])

#: Whether someone may be counting the memory of tensors, who sees what PyTorch makes and nothing else.
_profiled = torch._C._autograd._profiler_enabled

_NOT_COMPILED = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)


def opaque(function: Called) -> Called:
    """The function, into which the compiler does not look, nor into what that calls.

    It would where it has given up on a caller, as it does on compiled code with a transform around it.
    """
    set_code_exec_strategy(function.__code__, _NOT_COMPILED)
    return function


class TensorPool:
    """A `Pool` for tensors, and its plans. The pooled axes are counted from the end, so more may come in front."""

    __slots__ = ("curved", "form", "latest", "linear", "name", "plans", "pool", "seen", "seen_forward", "wins")

    def __init__(self, pool: Pool) -> None:
        form = form_of(pool.kind)
        if form is None:
            raise TypeError(
                f"{pool.kind!r} is not one of the engine's kinds; ndpool.torch.functional.pool takes any kind"
            )
        self.pool, self.form = pool, form
        #: What a profile, and PyTorch's graph of what is recorded, call such pools.
        self.name = f"{form.name}_pool"
        self.plans: dict[Any, Tensors] = {}
        #: The plans again, by how a tensor lies: the shortest way to one.
        self.seen: dict[Any, Tensors] = {}
        #: Likewise those of outputs alone.
        self.seen_forward: dict[Any, Tensors] = {}
        #: The plan of the tensor that was met last, if it has the short way: the next one often is its like.
        self.latest: Tensors | None = None
        #: Whether one winner a window says all about the derivative, whether that is the same everywhere, and whether
        #: there is a second derivative that is not 0.
        self.wins, self.linear, self.curved = pool.keeps == "winners", pool.keeps == "nothing", form.curved

    @property
    def kind(self) -> Kind:
        return self.pool.kind

    def plan(self, size: Size, order: Order, dtype: torch.dtype, cuda: bool = False) -> Tensors:
        key = (size, order, dtype, cuda)
        try:
            return self.plans[key]
        except KeyError:
            pass
        check_dtype(dtype)
        plan = plan_of(self.pool, tuple(size), TYPES[dtype], order)
        return put(self.plans, key, Tensors(self, plan, "cuda" if cuda else "cpu"), _PLANS_KEPT)

    def plan_of(self, x: Tensor) -> Tensors:
        """For the output and its derivative."""
        try:
            plan = self.seen[x.shape, x.stride(), x.dtype, x.is_cuda]
        except (KeyError, RuntimeError) as missing:
            plan = self._seen_first(x, self.order_of, self.seen, missing)
        self.latest = plan if plan.quick is not None else None
        return plan

    def forward_plan_of(self, x: Tensor) -> Tensors:
        """For the output alone."""
        try:
            plan = self.seen_forward[x.shape, x.stride(), x.dtype, x.is_cuda]
        except (KeyError, RuntimeError) as missing:
            plan = self._seen_first(x, self.forward_order_of, self.seen_forward, missing)
        if plan.plan.finds_first:
            self.latest = plan if plan.quick is not None else None
        return plan

    def _seen_first(
        self, x: Tensor, order_of: Callable[[Tensor], Order], seen: dict[Any, Tensors], missing: Exception
    ) -> Tensors:
        check_dense_layout(x)
        if isinstance(missing, RuntimeError):  # which is how a tensor says that it has no shape or strides
            raise missing
        plan = self.plan(x.shape, order_of(x), x.dtype, x.is_cuda)
        return put(seen, (x.shape, x.stride(), x.dtype, x.is_cuda), plan, _PLANS_KEPT)

    def axes_of(self, ndim: int) -> list[int]:
        """The pooled axes of a tensor with so many, in ascending order."""
        return sorted(ndim + axis for axis in self.pool.axes or ())

    def order_of(self, x: Tensor) -> Order:
        """The order of the axes of `x` in memory; None where it is the usual one, or not one the engine can follow.

        It cannot where it looks for the first winner in row-major order, and the pooled axes are in another.
        """
        return None if x.is_contiguous() else memory_order(x, self.axes_of(x.dim()) if self.wins else ())

    def forward_order_of(self, x: Tensor) -> Order:
        """The same where nobody asks for winners: the engine can follow any order."""
        return None if x.is_contiguous() else memory_order(x, ())


def memory_order(x: Tensor, pooled: Sequence[int]) -> Order:
    """The axes from the longest stride to the shortest, with the pooled ones in their order; see `memory.in_order`.

    An axis that is repeated in the same place (stride 0) counts as the outermost.
    """
    strides = x.stride()
    usual = list(range(len(strides)))
    ranked = sorted(usual, key=lambda d: -strides[d] if strides[d] else -math.inf)
    # GPUs read no views, and copy what lies in another order than that of the pooled axes whole.
    order = in_order(ranked, pooled, x.shape, 0 if x.is_cuda else x.element_size())
    return None if order is None or order == usual else tuple(order)


class Tensors:
    """A plan on tensors of one size, order and dtype, on devices of one type."""

    __slots__ = (
        *("dtype", "engine", "order", "plan", "pool", "quick", "result", "size", "winner"),
        *("keeps_x", "keeps_y", "wins"),
    )

    def __init__(self, pool: TensorPool, plan: Plan, device: str = "cpu") -> None:
        self.engine = engine_on(device)
        # These say what is too large, or not there, before any memory is asked for.
        native.engine_plan(plan)
        self.engine.engine_plan(plan)
        self.pool, self.plan, self.size, self.order = pool, plan, plan.shape, plan.order
        self.result = DTYPES[plan.result]
        # Bools are computed as they lie; the smooth kinds compute integers in float64.
        self.dtype = torch.bool if plan.input == "bool" and plan.dtype == "uint8" else DTYPES[plan.dtype]
        self.winner = WINNERS.get(plan.residual.winners)
        self.wins, self.keeps_x, self.keeps_y = pool.wins, plan.residual.x, plan.residual.y
        self.quick = self._quick()

    @property
    def native(self) -> _engine.Plan:
        return native.engine_plan(self.plan)

    def _quick(self) -> _engine.TensorPlan | CudaPlan | None:
        """The engine's short way; to the native one, only in a PyTorch that opens its tensors."""
        plan = self.plan
        if self.engine is not native:
            made: CudaPlan = self.engine.TensorPlan(plan, self.dtype, self.result, self.winner)
            return made
        empty = not math.prod(plan.shape) or not math.prod(plan.output_shape)
        if empty or plan.residual.winners > 4 or not hasattr(Tensor, "__dlpack_c_exchange_api__"):
            return None
        layout = plan.shape, plan.strides, plan.output_shape, plan.output_strides
        return _engine.TensorPlan(self.native, Tensor, *layout, TYPES[self.dtype], plan.result, plan.places)

    def inside(self, a: Tensor) -> Memory:
        """A tensor shaped like x, as the engine reads it: where it lies, dense or, for the native one, not."""
        if self.engine is not native:
            return self.inside_x(a)
        return readable(self._computed(a), self.order, self.plan.strides)

    def cotangent(self, g: Tensor) -> Memory:
        """A tensor shaped like y, likewise: its pooled axes may be gone."""
        if self.engine is not native:
            return self.inside_y(g)
        if g.dim() == len(self.size):
            return readable(g, self.order, self.plan.output_strides)
        if g.stride() == self.plan.output_strides:
            return dense(g, self.plan.output_order, self.plan.output_strides)
        for axis in self.plan.axes:
            g = g.unsqueeze(axis)
        return readable(g, self.order, None)

    def inside_x(self, a: Tensor) -> Tensor:
        """A tensor shaped like x, where it has to be dense."""
        return self.bare(dense(self._computed(a), self.order, self.plan.strides))

    def _computed(self, a: Tensor) -> Tensor:
        """A tensor shaped like x in the dtype that is computed with."""
        if a.dtype == self.dtype:
            return a
        skip, made = self.plan.skipped_as_nan, a.to(self.dtype)
        return made if skip is None else made.masked_fill_(a == skip, math.nan)

    def inside_y(self, a: Tensor) -> Tensor:
        """A tensor shaped like y, likewise."""
        return self.bare(dense(a, self.plan.output_order, self.plan.output_strides))

    def bare(self, a: Tensor) -> Tensor:
        """The tensor in the dtype of the plan, which has bytes where the tensor has bools."""
        return a.view(torch.uint8) if a.dtype is torch.bool and self.engine is not native else a

    def new_y(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Room for a result. It must not be a view: forward mode would want tangents with the layout of the base."""
        try:
            return torch.empty_strided(self.plan.output_shape, self.plan.output_strides, dtype=dtype, device=device)
        except RuntimeError:  # which is how PyTorch says that there is no memory
            if device.type != "cpu":  # where it says how much there is, in an error of its own
                raise
            raise self.plan.no_room() from None

    def new_x(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Room for a tensor shaped like x."""
        return torch.empty_strided(self.size, self.plan.strides, dtype=dtype, device=device)

    def run(self, operation: str, *memory: Any) -> None:
        """An operation of the engine."""
        getattr(self.engine, operation)(self.plan, *memory, torch.get_num_threads())

    def takes(self, x: Tensor) -> bool:
        """Whether the short way is for this tensor."""
        return self.quick is not None and self.quick.takes(x)

    def forward(self, x: Tensor) -> Tensor:
        if self.quick is not None and not x.is_neg() and not _profiled():
            try:
                made = self.quick.forward(x, torch.get_num_threads())
            except MemoryError:
                raise native.starved(self.plan) from None
            if made is not None:
                return made
        y = self.new_y(self.result, x.device)
        if self.engine is native and native.reads_integers(self.plan):
            self.run("forward_of_integers", readable(x, self.order, self.plan.strides), y)
        else:
            self.run("forward", self.inside(x), self.bare(y))
        return y

    def forward_with_winners(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.quick is not None and not x.is_neg() and not _profiled():
            try:
                made = self.quick.linearize(x, torch.get_num_threads())
            except MemoryError:
                raise native.starved(self.plan) from None
            if made is not None:
                return made  # type: ignore[return-value]
        assert self.winner is not None
        y, winners = self.new_y(self.result, x.device), self.new_y(self.winner, x.device)
        self.run("linearize", self.inside(x), self.bare(y), winners)
        return y, winners

    def pull(self, g: Tensor, x: Tensor | None, y: Tensor | None, winners: Tensor | None) -> Tensor | None:
        """`gx` the short way; None where that does not take these tensors."""
        if self.quick is None or g.is_neg() or (x is not None and x.is_neg()) or _profiled():
            return None
        try:
            return self.quick.pull(x, y, winners, g, torch.get_num_threads())
        except MemoryError:
            raise native.starved(self.plan) from None


def dense(a: Tensor, order: Order, strides: tuple[int, ...]) -> Tensor:
    """The tensor itself where it lies in memory in this order, with its numbers as they are; else a copy that does."""
    a = _settled(a)
    if a.stride() == strides:
        return a
    return (a.detach() if order is None else a.detach().permute(order)).contiguous()


def readable(a: Tensor, order: Order, strides: tuple[int, ...] | None) -> Memory:
    """The same where gaps do no harm: a tensor that is not dense is a view, with lengths and strides in this order."""
    a = _settled(a)
    if a.stride() == strides:
        return a
    a = a.detach() if order is None else a.detach().permute(order)
    return a if a.is_contiguous() else (a, tuple(a.shape), a.stride())


def _settled(a: Tensor) -> Tensor:
    """A tensor whose memory holds its numbers."""
    a = torch._C._functorch.unwrap_if_dead(a)  # what a transform that has ended leaves of the tensors it kept
    check_dense_layout(a)
    # What complex numbers and forward mode put in place of -a and of zeros.
    return a.detach().clone() if a.is_neg() or a._is_zerotensor() else a


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
    found: torch.dtype = DTYPES[kind.result_name(TYPES[dtype])]
    return found


# --- what the engine does -------------------------------------------------------------------------


@opaque
def forward(pool: TensorPool, x: Tensor) -> Tensor:
    """`y`."""
    return pool.forward_plan_of(x).forward(x)


@opaque
def forward_with_winners(pool: TensorPool, x: Tensor) -> tuple[Tensor, Tensor]:
    """`y`, and each winner's place in its window: one byte for windows of up to 256 cells."""
    return pool.plan_of(x).forward_with_winners(x)


@opaque
def indices(pool: TensorPool, winners: Tensor, size: Size) -> Tensor:
    """Each winner's flat row-major index over the pooled axes."""
    plan = pool.plan(size, y_order(pool, winners, size), torch.float64, winners.is_cuda)
    found = plan.new_y(torch.int64, winners.device)
    plan.run("indices", plan.inside_y(winners), found)
    return found


@opaque
def jvp(pool: TensorPool, t: Tensor, x: Tensor | None, winners: Tensor | None) -> Tensor:
    """`dy`, linear in `t`; from `x` where it is known, else from the winners or, for linear kinds, from neither."""
    if pool.linear:
        return forward(pool, t)
    plan, device = pool.plan_of(t if x is None else x), t.device
    dy = plan.new_y(plan.dtype, device)
    if x is None:
        assert winners is not None
        check_same_device("t", t, winners.device)
        plan.run("push", (None, None, plan.inside_y(winners)), plan.inside_x(t), dy)
    else:
        check_same_device("t", t, x.device)
        plan.run("jvp", plan.inside(x), plan.inside(t), plan.new_y(plan.result, device), dy)
    return dy


@opaque
def vjp(
    pool: TensorPool, g: Tensor, size: Size, order: Order, x: Tensor | None, y: Tensor | None, winners: Tensor | None
) -> Tensor:
    """`gx`, linear in `g`, for an input of this size and order; what is not known of y and the winners x tells."""
    plan = pool.plan(size, order, g.dtype, g.is_cuda)
    if (made := plan.pull(g, x, y, winners)) is not None:
        return made
    for kept in (x, y, winners):
        if kept is not None:
            check_same_device("g", g, kept.device)
    keeps = plan.plan.residual
    if keeps.winners and winners is None:
        assert x is not None
        winners = forward_with_winners(pool, x)[1]
    if keeps.y and y is None:
        assert x is not None
        y = forward(pool, x)
    kept_x = plan.inside(x) if keeps.x and x is not None else None
    kept_y = plan.inside_y(y) if keeps.y and y is not None else None
    kept_winners = plan.inside_y(winners) if keeps.winners and winners is not None else None
    gx = plan.new_x(g.dtype, g.device)
    plan.run("pull", (kept_x, kept_y, kept_winners), plan.cotangent(g), gx)
    return gx


def y_order(pool: TensorPool, y: Tensor, size: Size) -> Order:
    """The order of axes in which a tensor shaped like the output lies; unknown, so the usual, if its axes are gone."""
    if y.is_contiguous() or y.dim() != len(size):
        return None
    return memory_order(y, pool.axes_of(len(size)))
