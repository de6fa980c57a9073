"""The operations of the engine: each is a few launches of kernels, from the plan alone."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..plan import Plan
from .gathering import gather
from .places import place_kernel
from .tree import tree
from .walking import walk
from .work import (
    LARGEST_INT,
    MOST_AXES,
    UNROLLED,
    Axis,
    Walk,
    asked,
    axis_numbers,
    divisor,
    joined,
    numbers,
    walks,
)

_TYPES = {
    **{name: getattr(tl, name) for name in ("float16", "bfloat16", "float32", "float64")},
    **{f"{sign}int{bits}": getattr(tl, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_TENSORS = {name: getattr(torch, name) for name in _TYPES}

#: The x, the y and the winners that a derivative is made from; None for those that the plan does not keep.
Kept: TypeAlias = tuple[Tensor | None, Tensor | None, Tensor | None]

_KINDS = ("max", "min", "sum", "avg", "smooth_max", "lp")


class Work:
    """What the engine has made of a plan."""

    def __init__(self, plan: Plan) -> None:
        if plan.kind not in _KINDS:
            raise NotImplementedError(
                f"{plan.kind} has no kernel for GPUs yet, which have {', '.join(_KINDS)}; call .cpu() on the tensor"
            )
        self.plan = plan
        self.axes = joined(plan)
        self.cells = math.prod(axis.kernel for axis in self.axes)
        self.numbers = numbers(plan, self.cells)
        self.walks = walks(self.axes)
        self.divisor = divisor(plan, self.axes)
        self.whole = axis_numbers(self.axes, unrolled=False)
        self.inputs, self.outputs = math.prod(plan.shape), math.prod(plan.output_shape)


def work_of(plan: Plan) -> Work:
    try:
        return plan.handles["triton"]  # type: ignore[no-any-return]
    except KeyError:
        return plan.handles.setdefault("triton", Work(plan))  # type: ignore[no-any-return]


# --- the operations -------------------------------------------------------------------------------


def forward(plan: Plan, x: Tensor, y: Tensor, threads: int = 0) -> None:
    _walk(work_of(plan), x, None, "outputs", y, None, None)


def linearize(plan: Plan, x: Tensor, y: Tensor, winners: Tensor | None, threads: int = 0) -> None:
    _walk(work_of(plan), x, None, "outputs", y, winners, None)


def jvp(plan: Plan, x: Tensor, t: Tensor, y: Tensor, dy: Tensor, threads: int = 0) -> None:
    if plan.is_linear:
        forward(plan, x, y)
        forward(plan, t, dy)
    else:
        _walk(work_of(plan), x, t, "outputs", y, None, dy)


def push(plan: Plan, kept: Kept, t: Tensor, dy: Tensor, threads: int = 0) -> None:
    x, _, winners = kept
    if winners is not None:
        _places(work_of(plan), winners, t, dy)
    elif plan.is_linear:
        forward(plan, t, dy)
    else:
        assert x is not None
        jvp(plan, x, t, torch.empty_like(dy), dy)


def indices(plan: Plan, winners: Tensor, found: Tensor, threads: int = 0) -> None:
    _places(work_of(plan), winners, None, found)


def pull(plan: Plan, kept: Kept, g: Tensor, gx: Tensor, threads: int = 0) -> None:
    work, kind = work_of(plan), plan.kind
    x, y, winners = kept
    if plan.residual.winners:
        _gather(work, "winners", g, winners, None, None, gx, 1)
    elif plan.is_linear and work.divisor:
        _gather(work, "sums", g, None, None, None, gx, work.divisor)
    elif plan.is_linear:
        share = torch.empty_like(g, dtype=_TENSORS[work.numbers.slope])
        _scale(work, g, share)
        _gather(work, "sums", share, None, None, None, gx, 1)
    else:
        assert x is not None
        reference, share = y, g
        if not (kind in ("max", "min") and plan.option == "all"):
            share = torch.empty_like(g, dtype=_TENSORS[work.numbers.slope])
            if kind in ("smooth_max", "lp"):
                reference = torch.empty_like(g, dtype=_TENSORS[work.numbers.compute])
            _walk(work, x, g, "slopes", reference, None, share)
        _gather(work, "slopes", share, None, reference, x, gx, 1)


# --- launches -------------------------------------------------------------------------------------


def _sizes(lengths: list[int]) -> list[int]:
    return lengths + [1] * (MOST_AXES - len(lengths))


def _walk(
    work: Work, x: Tensor, t: Tensor | None, sink: str, a_out: Any, b_out: Tensor | None, d_out: Tensor | None
) -> None:
    """All walks of a plan. With `t` in a sink of outputs, tangents go along; in a sink of slopes it is the cotangent."""
    if not work.outputs:
        return
    tangent = t is not None and sink == "outputs"
    numbers, name = work.numbers, work.plan.kind
    places = name in ("max", "min") and (b_out is not None or (tangent and work.plan.option == "first"))
    ties = work.plan.option in ("split", "all") and name in ("max", "min")
    again = name in ("smooth_max", "lp") or (ties and not places and (tangent or sink == "slopes"))
    source: tuple[Any, ...] = (x, None, t, None)
    for i, step in enumerate(work.walks):
        last = i == len(work.walks) - 1
        made = (a_out, b_out, d_out, None) if last else _states(work, step, x, tangent)
        if sink == "slopes" and last:
            source = (*source[:2], t, source[3])
        _launch_walk(work, step, "states" if i else "cells", sink if last else "states", source, made, tangent, places, again)
        source = made


def _states(work: Work, step: Walk, x: Tensor, tangent: bool) -> tuple[Tensor | None, ...]:
    def room(dtype: str) -> Tensor:
        return torch.empty(step.outputs, dtype=_TENSORS[dtype], device=x.device)

    numbers = work.numbers
    counts = room("int32") if work.plan.skipped is not None else None
    return room(numbers.compute), room(numbers.second), room(numbers.slope) if tangent else None, counts


def _launch_walk(
    work: Work,
    step: Walk,
    source: str,
    sink: str,
    given: tuple[Any, ...],
    made: tuple[Any, ...],
    tangent: bool,
    places: bool,
    again: bool,
) -> None:
    numbers, axes = work.numbers, step.axes
    some = given[0]
    pointers = [some if each is None else each for each in (*given, *made)]
    unroll = not step.tree and step.cells <= UNROLLED
    if step.tree:
        cols = min(COLUMNS, triton.next_power_of_2(step.cells))
        rows_of_tile, rows = max(1, TILE // cols), step.outputs
        grid = triton.cdiv(rows, rows_of_tile)
        kernel, more = tree, {}
    else:
        rows_of_tile, cols = tile(step.rows, axes[-1].output)
        rows = step.rows
        grid = triton.cdiv(rows, rows_of_tile) * triton.cdiv(axes[-1].output, cols)
        kernel, more = walk, {"UNROLL": unroll}
    kernel[(grid,)](
        *pointers,
        rows,
        step.cells,
        step.scale,
        work.cells,
        *_sizes([axis.length for axis in axes]),
        *_sizes([axis.output for axis in axes]),
        *_sizes([axis.length for axis in work.axes]),
        KIND=tuple(numbers.kind),
        RANK=len(axes),
        AXES=axis_numbers(axes, unroll),
        WHOLE=work.whole,
        CELLS=step.cells if unroll else 0,
        DIVISOR=work.divisor,
        SOURCE=source,
        SINK=sink,
        TANGENT=tangent,
        PLACES=places,
        AGAIN=again,
        COMPUTE=_TYPES[numbers.compute],
        SECOND=_TYPES[numbers.second],
        SLOPE=_TYPES[numbers.slope],
        WIDE=rows > LARGEST_INT // 2,
        ROWS=rows_of_tile,
        COLS=cols,
        **more,
    )


TILE = 1024
COLUMNS = 128


def tile(rows: int, columns: int, most: int = TILE) -> tuple[int, int]:
    """The sides of a tile over an array of so many rows and columns: long rows lie in memory as they are."""
    cols = min(most, 256, triton.next_power_of_2(columns))
    return max(1, min(most // cols, triton.next_power_of_2(rows))), cols


def _scale(work: Work, g: Tensor, share: Tensor) -> None:
    """Each cotangent by the divisor of its window."""
    step = Walk(tuple(Axis(a.output, a.output) for a in work.axes), 1, False)
    if work.outputs:
        _launch_scale(work, step, g, share)


def _launch_scale(work: Work, step: Walk, g: Tensor, share: Tensor) -> None:
    numbers, axes = work.numbers, step.axes
    rows_of_tile, cols = tile(step.rows, axes[-1].output)
    grid = triton.cdiv(step.rows, rows_of_tile) * triton.cdiv(axes[-1].output, cols)
    lengths = _sizes([axis.output for axis in axes])
    walk[(grid,)](
        g, g, g, g, g, g, share, g, step.rows, 0, 1, work.cells, *lengths, *lengths,
        *_sizes([axis.length for axis in work.axes]),
        KIND=tuple(numbers.kind), RANK=len(axes), AXES=axis_numbers(axes), WHOLE=work.whole, CELLS=0, DIVISOR=work.divisor,
        SOURCE="cells", SINK="slopes", TANGENT=False, PLACES=False, AGAIN=False, COMPUTE=_TYPES[numbers.compute],
        SECOND=_TYPES[numbers.second], SLOPE=_TYPES[numbers.slope], UNROLL=True, WIDE=step.rows > LARGEST_INT // 2,
        ROWS=rows_of_tile, COLS=cols,
    )  # fmt: skip


def _gather(
    work: Work, form: str, g: Tensor, winners: Any, reference: Any, x: Any, gx: Tensor, by: int
) -> None:
    if not work.inputs:
        return
    axes, numbers = work.axes, work.numbers
    counts = asked(axes)
    windows = counts[0][0] * counts[0][1]
    last = axes[-1]
    pairs = last.stride == 2 and last.dilation == 1 and not last.adaptive and last.kernel > 1 and last.length > 16
    slope = numbers.slope
    if form == "winners" and windows > 1 and numbers.slope == "float32" and work.plan.dtype == "float32":
        slope = "float64"
    sums = "error" if slope == "float64" and work.plan.derivative == "float64" and windows > 1 else "plain"
    rows = math.prod(axis.length for axis in axes[:-1])
    rows_of_tile, cols = tile(rows, last.length)
    grid = triton.cdiv(rows, rows_of_tile) * triton.cdiv(last.length, cols)
    gather[(grid,)](
        g,
        g if winners is None else winners,
        g if reference is None else reference,
        g if x is None else x,
        gx,
        rows,
        *_sizes([axis.length for axis in axes]),
        *_sizes([axis.output for axis in axes]),
        KIND=tuple(numbers.kind._replace(sums=sums)),
        RANK=len(axes),
        AXES=axis_numbers(axes),
        ASKED=counts,
        WINDOWS=windows,
        DIVISOR=by,
        FORM=form,
        COMPUTE=_TYPES[numbers.compute],
        SLOPE=_TYPES[slope],
        UNROLL=windows <= UNROLLED,
        WIDE=rows > LARGEST_INT // 2,
        PAIRS=pairs,
        ROWS=rows_of_tile,
        COLS=cols,
    )


def _places(work: Work, winners: Tensor, t: Tensor | None, found: Tensor) -> None:
    if not work.outputs:
        return
    axes = joined(work.plan, indexed=True)
    rows = math.prod(axis.output for axis in axes[:-1])
    rows_of_tile, cols = tile(rows, axes[-1].output)
    grid = triton.cdiv(rows, rows_of_tile) * triton.cdiv(axes[-1].output, cols)
    pooled = [int(len(each) > 1) for each in work.plan.dims if len(each) > 1 or each[0] != 1]
    place_kernel[(grid,)](
        winners,
        winners if t is None else t,
        found,
        rows,
        work.cells,
        *_sizes([axis.length for axis in axes]),
        *_sizes([axis.output for axis in axes]),
        RANK=len(axes),
        AXES=axis_numbers(axes),
        POOLED=tuple(pooled) or (0,),
        INDICES=t is None,
        SKIPS=work.plan.skipped is not None,
        WIDE=rows > LARGEST_INT // 2,
        ROWS=rows_of_tile,
        COLS=cols,
    )
