"""The native engine: what a plan does to memory.

Memory is a C-contiguous buffer, or whatever says its address and its size as tensors do (`data_ptr()`, `nbytes`), dense
in the plan's order of axes. `threads=0` stands for the number of `set_num_threads`; another number holds for one call.

    forward     y  = pool(x)
    linearize   y, and the winners where the residual is these
    push        dy = J t    from the residual alone
    pull        gx = J^T g  from the residual alone
    jvp         y and dy in one pass over x and t
    indices     each winner's flat row-major index over the pooled axes
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from . import _engine
from .plan import COMPUTED_AS, Plan

Memory: TypeAlias = Any
#: The x, the y and the winners that a derivative is made from; None for those that the plan does not keep.
Kept: TypeAlias = tuple[Memory | None, Memory | None, Memory | None]


def engine_plan(plan: Plan) -> _engine.Plan:
    """What the engine has made of the plan; a ValueError where that has larger numbers than the engine counts with."""
    try:
        return plan.handles["native"]  # type: ignore[no-any-return]
    except KeyError:
        pass
    derivative, parameter = COMPUTED_AS.get(plan.derivative, plan.derivative), plan.parameter
    try:
        made = _engine.Plan(plan.dims, plan.kind, plan.dtype, derivative, parameter, plan.option)
    except OverflowError as error:
        raise ValueError(plan.too_large(f"{error}, with an output of shape {plan.output_shape}")) from None
    plan.handles["native"] = made
    return made


def forward(plan: Plan, x: Memory, y: Memory, threads: int = 0) -> None:
    _run(plan, engine_plan(plan).forward, x, y)


def linearize(plan: Plan, x: Memory, y: Memory, winners: Memory | None, threads: int = 0) -> None:
    if winners is None:
        return forward(plan, x, y, threads)
    _check_order(plan)
    _run(plan, engine_plan(plan).forward_with_winners, x, y, winners)


def push(plan: Plan, kept: Kept, t: Memory, dy: Memory, threads: int = 0) -> None:
    """For now by way of what the engine has."""
    import numpy as np

    x, y, winners = (a if a is None or isinstance(a, np.ndarray) else a.numpy() for a in kept)
    t, dy = (a if isinstance(a, np.ndarray) else a.numpy() for a in (t, dy))
    if winners is not None:
        found = np.empty(winners.shape, np.int64)
        indices(plan, winners, found)
        axes = [plan.places.index(a) for a in plan.axes]
        last = list(range(-len(axes), 0))
        cells = np.moveaxis(np.asarray(t), axes, last)
        cells = cells.reshape(*cells.shape[: -len(axes)], -1)
        full = found.reshape(plan.kept_shape)
        at = np.moveaxis(full, axes, last)
        flat = at.reshape(*at.shape[: -len(axes)], -1)
        got = np.take_along_axis(cells, flat, -1).reshape(at.shape)
        dy[...] = np.moveaxis(got, last, axes).reshape(dy.shape)
        return
    if x is None:
        from dataclasses import replace

        forward(
            replace(
                plan,
                input=plan.derivative,
                dtype=COMPUTED_AS.get(plan.derivative, plan.derivative),
                result=plan.derivative,
            ),
            t,
            dy,
        )
        return
    jvp(plan, x, t, np.empty(dy.shape, plan.result), dy)


def pull(plan: Plan, kept: Kept, g: Memory, gx: Memory, threads: int = 0) -> None:
    _run(plan, engine_plan(plan).vjp, *kept, g, gx)


def jvp(plan: Plan, x: Memory, t: Memory, y: Memory, dy: Memory, threads: int = 0) -> None:
    _check_order(plan)
    _run(plan, engine_plan(plan).jvp, x, t, y, dy)


def indices(plan: Plan, winners: Memory, found: Memory, threads: int = 0) -> None:
    _run(plan, engine_plan(plan).indices, winners, found)


def _run(plan: Plan, method: Callable[..., None], *memory: Memory | None) -> None:
    """One of the engine's methods, which may need more memory than there is: an enormous window does."""
    try:
        method(*memory)
    except MemoryError:
        raise MemoryError(plan.too_large("there is no memory to work in")) from None


def _check_order(plan: Plan) -> None:
    if plan.residual.winners and not plan.finds_first:
        raise ValueError(
            f"order={plan.order} changes the order of the pooled axes {plan.axes}, and the first winner in row-major "
            "order is asked for; give the array in an order that keeps theirs"
        )
