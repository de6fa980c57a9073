"""The operations of the engine. Each is a recipe, which is made from the plan once: a few launches of kernels."""

from __future__ import annotations

from typing import TypeAlias

from torch import Tensor

from ..plan import Plan
from .launching import Recipe
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
