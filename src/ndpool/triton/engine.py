"""The operations of the engine. Each is a recipe, which is made from the plan once: a few launches of kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor

from .._engine import CudaTensors
from ..plan import Plan
from .launching import Recipe, tracers
from .recipes import Work

#: The x, the y and the winners that a derivative is made from; None for those that the plan does not keep.
Kept: TypeAlias = tuple[Tensor | None, Tensor | None, Tensor | None]


def work_of(plan: Plan) -> Work:
    """What the engine has made of a plan."""
    try:
        return plan.handles["triton"]  # type: ignore[no-any-return]
    except KeyError:
        return plan.handles.setdefault("triton", Work(plan))  # type: ignore[no-any-return]


def recipe(plan: Plan, operation: str) -> Recipe:
    """How an operation goes: "forward", "linearize", "jvp", "push", "pull" or "indices"."""
    return work_of(plan).recipe(operation)


def forward(plan: Plan, x: Tensor, y: Tensor, threads: int = 0) -> None:
    recipe(plan, "forward").run(x=x, y=y)


def linearize(plan: Plan, x: Tensor, y: Tensor, winners: Tensor | None, threads: int = 0) -> None:
    if winners is None:
        forward(plan, x, y)
    else:
        recipe(plan, "linearize").run(x=x, y=y, winners=winners)


def jvp(plan: Plan, x: Tensor, t: Tensor, y: Tensor, dy: Tensor, threads: int = 0) -> None:
    if plan.is_linear:
        forward(plan, x, y)
        forward(plan, t, dy)
    else:
        recipe(plan, "jvp").run(x=x, t=t, y=y, dy=dy)


def push(plan: Plan, kept: Kept, t: Tensor, dy: Tensor, threads: int = 0) -> None:
    x, _, winners = kept
    if winners is not None:
        recipe(plan, "push").run(winners=winners, t=t, dy=dy)
    elif plan.is_linear:
        forward(plan, t, dy)
    else:
        assert x is not None
        jvp(plan, x, t, dy.new_empty(dy.shape), dy)


def pull(plan: Plan, kept: Kept, g: Tensor, gx: Tensor, threads: int = 0) -> None:
    x, y, winners = kept
    given = {name: a for name, a in (("x", x), ("y", y), ("winners", winners)) if a is not None}
    recipe(plan, "pull").run(g=g, gx=gx, **given)


def indices(plan: Plan, winners: Tensor, found: Tensor, threads: int = 0) -> None:
    recipe(plan, "indices").run(winners=winners, found=found)


class TensorPlan:
    """A plan for tensors of one layout, which makes those that it returns: the shortest way, for calls on small ones.

    The answer is None where a tensor is not of just this size, strides and dtype, dense and on CUDA, where tensors are
    on several cards, where someone watches what PyTorch does, and where the kernels are yet to be compiled. The recipe
    itself serves all of these but tensors on several cards.
    """

    def __init__(self, plan: Plan, dtype: torch.dtype, result: torch.dtype, winner: torch.dtype | None) -> None:
        self.plan, self.dtype, self.result, self.winner = plan, dtype, result, winner
        self.size, self.strides = plan.shape, plan.strides
        self.y_size, self.y_strides = plan.output_shape, plan.output_strides
        self._x = _addresses(self.size, self.strides, dtype)
        self._g, self._y, self._won = (
            _addresses(self.y_size, self.y_strides, of or result) for of in (dtype, result, winner)
        )

    @cached_property
    def _forward(self) -> Recipe:
        return recipe(self.plan, "forward")

    @cached_property
    def _linearize(self) -> Recipe:
        return recipe(self.plan, "linearize")

    @cached_property
    def _pull(self) -> Recipe:
        return recipe(self.plan, "pull")

    def takes(self, x: Tensor) -> bool:
        """Whether this is such a tensor."""
        return bool(self._x(x)) and not tracers()

    def forward(self, x: Tensor, threads: int = 0) -> Tensor | None:
        if not (at := self._x(x)) or tracers():
            return None
        y = x.new_empty_strided(self.y_size, self.y_strides, dtype=self.result)
        return y if self._forward.run_again(x, [at, y.data_ptr()]) else None

    def linearize(self, x: Tensor, threads: int = 0) -> tuple[Tensor, Tensor] | None:
        """Give y and the winners."""
        if not (at := self._x(x)) or tracers():
            return None
        y = x.new_empty_strided(self.y_size, self.y_strides, dtype=self.result)
        winners = x.new_empty_strided(self.y_size, self.y_strides, dtype=self.winner)
        return (y, winners) if self._linearize.run_again(x, [winners.data_ptr(), at, y.data_ptr()]) else None

    def pull(
        self, x: Tensor | None, y: Tensor | None, winners: Tensor | None, g: Tensor, threads: int = 0
    ) -> Tensor | None:
        keeps = self.plan.residual
        given = {"g": self._g(g)}
        if keeps.x:
            given["x"] = self._x(x)
        if keeps.y:
            given["y"] = self._y(y)
        if keeps.winners:
            given["winners"] = self._won(winners)
        if not all(given.values()) or tracers() or _any_elsewhere(g.get_device(), x, y, winners):
            return None
        gx = g.new_empty_strided(self.size, self.strides)
        given["gx"] = gx.data_ptr()
        return gx if self._pull.run_again(g, [given[name] for name in self._pull.names]) else None


def _any_elsewhere(device: int, x: Tensor | None, y: Tensor | None, winners: Tensor | None) -> bool:
    """Whether one of these lies on another card, where its address means something else. Loops take longer."""
    if winners is not None and winners.get_device() != device:
        return True
    return (x is not None and x.get_device() != device) or (y is not None and y.get_device() != device)


def _addresses(size: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Callable[[Tensor | None], int]:
    """What gives the address of a tensor of this layout on CUDA, and 0 for all others.

    PyTorch's own functions take five times as long to look at one; a PyTorch that does not open its tensors has no
    other way.
    """
    if hasattr(Tensor, "__dlpack_c_exchange_api__"):
        return CudaTensors(Tensor, size, strides, str(dtype).removeprefix("torch.")).address

    def address(a: Tensor | None) -> int:
        such = type(a) is Tensor and a.is_cuda and a.dtype is dtype and a.shape == size and a.stride() == strides
        try:
            return a.data_ptr() if such and a is not None else 0
        except RuntimeError:  # what a transform made, or left
            return 0

    return address
