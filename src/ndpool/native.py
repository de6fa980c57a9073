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

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from . import _engine
from .plan import COMPUTED_AS, Plan
from .skipping import Skipped, encoded

Memory: TypeAlias = Any
#: The x, the y and the winners that a derivative is made from; None for those that the plan does not keep.
Kept: TypeAlias = tuple[Memory | None, Memory | None, Memory | None]


def engine_plan(plan: Plan) -> _engine.Plan:
    """What the engine has made of the plan; a ValueError where that has larger numbers than the engine counts with."""
    try:
        return plan.handles["native"]  # type: ignore[no-any-return]
    except KeyError:
        pass
    try:
        made = _engine.Plan(**request(plan))
    except OverflowError as error:
        raise ValueError(plan.too_large(f"{error}, with an output of shape {plan.output_shape}")) from None
    plan.handles["native"] = made
    return made


def request(plan: Plan) -> dict[str, Any]:
    """The plan as the engine takes it, by the names of its arguments."""
    return {
        "dims": plan.dims,
        "kind": plan.kind,
        "option": plan.option,
        "parameter": plan.parameter,
        "dtype": plan.dtype,
        "result": COMPUTED_AS.get(plan.result, plan.result),
        "derivative": COMPUTED_AS.get(plan.derivative, plan.derivative),
        "winner_bytes": 0 if _places_are_too_wide(plan) else plan.residual.winners,
        "skip": None if plan.skipped is None else _skip_in_bits(plan, plan.skipped),
        "pooled": plan.pooled_places,
    }


def _skip_in_bits(plan: Plan, skipped: Skipped) -> tuple[int, int, int]:
    """The value of a skipped cell as the engine finds it in x and as it writes it into y, and `min_count`."""
    result = COMPUTED_AS.get(plan.result, plan.result)
    value = skipped.value if plan.skipped_as_nan is None else math.nan
    return encoded(value, plan.dtype), encoded(skipped.value, result), skipped.min_count


def forward(plan: Plan, x: Memory, y: Memory, threads: int = 0) -> None:
    try:
        engine_plan(plan).forward(x, y, threads=threads)
    except MemoryError:
        raise starved(plan) from None


def reads_integers(plan: Plan) -> bool:
    """Whether integers of which floats would have to be made can go to `forward_of_integers` as they are."""
    return plan.makes_floats and plan.skipped is None


def forward_of_integers(plan: Plan, x: Memory, y: Memory, threads: int = 0) -> None:
    """The same as `forward` of these numbers as floats, which nobody has to make, to the bit."""
    try:
        made = plan.handles["native of integers"]
    except KeyError:
        own = request(plan) | {"dtype": COMPUTED_AS.get(plan.input, plan.input)}
        made = plan.handles["native of integers"] = _engine.Plan(**own)
    try:
        made.forward(x, y, threads=threads)
    except MemoryError:
        raise starved(plan) from None


def linearize(plan: Plan, x: Memory, y: Memory, winners: Memory | None, threads: int = 0) -> None:
    if not plan.finds_first:
        _check_order(plan)
    if _places_are_too_wide(plan):
        raise ValueError(plan.too_large("the engine finds winners in windows of up to 2**32 cells"))
    _run(plan, engine_plan(plan).linearize, threads, x, y, winners)


def push(plan: Plan, kept: Kept, t: Memory, dy: Memory, threads: int = 0) -> None:
    if not plan.finds_first:
        _check_order(plan)
    _run(plan, engine_plan(plan).push, threads, *kept, t, dy)


def pull(plan: Plan, kept: Kept, g: Memory, gx: Memory, threads: int = 0) -> None:
    if not plan.finds_first:
        _check_order(plan)
    _run(plan, engine_plan(plan).pull, threads, *kept, g, gx)


def jvp(plan: Plan, x: Memory, t: Memory, y: Memory, dy: Memory, threads: int = 0) -> None:
    if not plan.finds_first:
        _check_order(plan)
    _run(plan, engine_plan(plan).jvp, threads, x, t, y, dy)


def indices(plan: Plan, winners: Memory, found: Memory, threads: int = 0) -> None:
    if not plan.finds_first:
        _check_order(plan)
    _run(plan, engine_plan(plan).indices, threads, winners, found)


def bounds(
    plan: Plan, lo: Memory, hi: Memory, ylo: Memory, yhi: Memory, error: tuple[Any, ...] | None, threads: int = 0
) -> list[slice] | None:
    """Write the plan's results at both ends of a box, rounded outward by an error; None if the box is not in order.

    Else the parts, along the axes before the pooled ones as one, which have something in them that is not finite, and
    that the caller has to do again.
    """
    engine_plan(plan)
    boxed = plan.handles.get("boxed")
    if boxed is None:
        boxed = plan.handles["boxed"] = _engine.BoxedPool(**request(plan))
    try:
        odd = boxed.bounds(lo, hi, ylo, yhi, error, threads=threads)
    except MemoryError:
        raise starved(plan) from None
    each = boxed.slabs_of_piece()
    return None if odd is None else [slice(number * each, (number + 1) * each) for number in odd]


def path(plan: Plan, operation: str) -> str:
    """The way that "forward", "linearize", "push", "pull" or "jvp" goes in the engine, by its name."""
    return engine_plan(plan).path(operation)


def _run(plan: Plan, method: Callable[..., None], threads: int, *memory: Memory | None) -> None:
    """One of the engine's methods, which may need more memory than there is: an enormous window does."""
    try:
        method(*memory, threads=threads)
    except MemoryError:
        raise starved(plan) from None


def starved(plan: Plan) -> MemoryError:
    return MemoryError(plan.too_large("there is no memory to work in"))


def _places_are_too_wide(plan: Plan) -> bool:
    return plan.residual.winners > 4


def _check_order(plan: Plan) -> None:
    """The pooled axes lie in another order than theirs: no place for what asks for the first winner."""
    if plan.residual.winners:
        raise ValueError(
            f"order={plan.order} changes the order of the pooled axes {plan.axes}, and the first winner in row-major "
            "order is asked for; give the array in an order that keeps theirs"
        )
