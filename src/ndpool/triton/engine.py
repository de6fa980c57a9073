"""The operations of the engine: each is a few launches of kernels, from the plan alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..plan import Plan
from .columns import winners_along
from .gathering import gather_any, gather_taps
from .launching import launch
from .pairs import walk_pairs
from .places import place_kernel
from .tree import tree
from .walking import walk
from .work import (
    DIRECT_CELLS,
    LARGEST_INT,
    MOST_AXES,
    UNROLLED,
    UNROLLED_POWERS,
    Axis,
    Walk,
    _windows_over_a_cell,
    asked,
    axis_numbers,
    carried,
    divisor,
    joined,
    numbers,
    shifts,
    taps,
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
        over = [_windows_over_a_cell(axis) for axis in self.axes]
        #: Whether cells are seen by so many windows that the way back goes along one axis after the other.
        self.back_by_axes = math.prod(over) > DIRECT_CELLS and sum(n > 1 for n in over) > 1
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
    if not work.inputs:
        return
    if plan.residual.winners:
        if work.back_by_axes:
            _winners_by_axes(work, g, winners, gx)
        else:
            _gather(work, work.axes, "winners", g, winners, None, None, gx, 1)
    elif plan.is_linear and work.divisor:
        _sums_back(work, g, gx, work.divisor)
    elif plan.is_linear:
        share = torch.empty_like(g, dtype=_TENSORS[work.numbers.slope])
        _scale(work, g, share)
        _sums_back(work, share, gx, 1)
    else:
        assert x is not None
        reference, share = y, g
        if not (kind in ("max", "min") and plan.option == "all"):
            share = torch.empty_like(g, dtype=_TENSORS[work.numbers.slope])
            if kind in ("smooth_max", "lp"):
                reference = torch.empty_like(g, dtype=_TENSORS[work.numbers.compute])
            _walk(work, x, g, "slopes", reference, None, share)
        _gather(work, work.axes, "slopes", share, None, reference, x, gx, 1)


# --- launches -------------------------------------------------------------------------------------


def _sizes(lengths: Iterable[int]) -> list[int]:
    """The lengths of the axes, and 1 for those that are not there."""
    found = list(lengths)
    return found + [1] * (MOST_AXES - len(found))


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
    unroll = not step.tree and step.cells <= (UNROLLED_POWERS if again else UNROLLED)
    constants = {
        "KIND": tuple(numbers.kind),
        "RANK": len(axes),
        "AXES": axis_numbers(axes, unroll),
        "WHOLE": work.whole,
        "DIVISOR": work.divisor,
        "SINK": sink,
        "PLACES": places,
        "AGAIN": again,
        "COMPUTE": _TYPES[numbers.compute],
        "SECOND": _TYPES[numbers.second],
        "SLOPE": _TYPES[numbers.slope],
    }
    lengths = [*_sizes(axis.length for axis in axes), *_sizes(axis.output for axis in axes)]
    pointers = [given[0] if each is None else each for each in (*given, *made)]
    last = axes[-1]
    if unroll and source == "cells" and not tangent and _in_pairs(last):
        rows_of_tile, cols = tile(step.rows, last.output)
        constants |= {
            "ROW_CELLS": step.cells // last.kernel,
            "SHIFTS": shifts(last),
            "PAIRS": len(shifts(last)),
            "KERNEL": last.kernel,
            "ALIGN": math.gcd(last.length, 8),
            "OVER": 2 * (last.output + (last.kernel - 1 - last.lo) // 2) > last.length or last.output % cols > 0,
        }
        x, g, outs = pointers[0], pointers[2], pointers[4:7]
        _launch(walk_pairs, step.rows, last.output, (rows_of_tile, cols), [x, g, *outs, step.rows, work.cells, *lengths], constants)
        return
    numbers_of_walk = [*pointers, step.outputs if step.tree else step.rows, step.cells, step.scale, work.cells, *lengths]
    numbers_of_walk += _sizes(axis.length for axis in work.axes)
    constants |= {"SOURCE": source, "TANGENT": tangent, "CELLS": step.cells if unroll else 0}
    if step.tree:
        cols = min(TREE_COLUMNS, triton.next_power_of_2(step.cells))
        _launch(tree, step.outputs, 1, (max(1, TREE // cols), cols), numbers_of_walk, constants)
    else:
        constants["UNROLL"] = unroll
        _launch(walk, step.rows, last.output, tile(step.rows, last.output), numbers_of_walk, constants)


def _in_pairs(axis: Axis) -> bool:
    """Whether windows go in steps of 2, over rows that are worth to be read whole."""
    return axis.stride == 2 and axis.dilation == 1 and axis.kernel > 1 and axis.output >= 8 and not axis.adaptive


def _launch(
    kernel: Any, rows: int, columns: int, sides: tuple[int, int], arguments: list[Any], constants: dict[str, Any]
) -> None:
    rows_of_tile, cols = sides
    grid = -(-rows // rows_of_tile) * (1 if kernel is tree else -(-columns // cols))
    wide = max(a.numel() for a in arguments if isinstance(a, Tensor)) > LARGEST_INT // 2
    more = {"WIDE": wide, "ROWS": rows_of_tile, "COLS": cols, "num_warps": WARPS}
    launch(kernel, grid, arguments, constants | more)


WARPS = 4

#: The places of a tile; those of a tile whose columns are the cells of one window, and how many of these there are.
TILE = 1024
TREE, TREE_COLUMNS = 4096, 2048


def tile(rows: int, columns: int, most: int = TILE) -> tuple[int, int]:
    """The sides of a tile over an array of so many rows and columns: long rows lie in memory as they are."""
    cols = min(most, 256, triton.next_power_of_2(columns))
    return max(1, min(most // cols, triton.next_power_of_2(rows))), cols


def _scale(work: Work, g: Tensor, share: Tensor) -> None:
    """Each cotangent by the divisor of its window: a walk over no cells."""
    axes = tuple(carried(axis.output) for axis in work.axes)
    step = Walk(axes, 1, False)
    numbers = work.numbers
    lengths = _sizes(axis.output for axis in axes)
    constants = {
        "KIND": tuple(numbers.kind),
        "RANK": len(axes),
        "AXES": axis_numbers(axes),
        "WHOLE": work.whole,
        "CELLS": 0,
        "DIVISOR": 0,
        "SOURCE": "cells",
        "SINK": "slopes",
        "TANGENT": False,
        "PLACES": False,
        "AGAIN": False,
        "COMPUTE": _TYPES[numbers.compute],
        "SECOND": _TYPES[numbers.second],
        "SLOPE": _TYPES[numbers.slope],
        "UNROLL": True,
    }
    arguments = [g, g, g, g, g, g, share, g, step.rows, 0, 1, work.cells, *lengths, *lengths]
    arguments += _sizes(axis.length for axis in work.axes)
    if work.outputs:
        _launch(walk, step.rows, axes[-1].output, tile(step.rows, axes[-1].output), arguments, constants)


def _sums_back(work: Work, g: Tensor, gx: Tensor, by: int) -> None:
    if not work.back_by_axes:
        _gather(work, work.axes, "sums", g, None, None, None, gx, by)
        return
    for i, axes in _one_by_one(work.axes):
        shape = math.prod(axis.length for axis in axes)
        last = i == 0
        room = gx if last else torch.empty(shape, dtype=_TENSORS[work.numbers.slope], device=g.device)
        _gather(work, axes, "sums", g, None, None, None, room, by if last else 1)
        g = room


def _winners_by_axes(work: Work, g: Tensor, winners: Any, gx: Tensor) -> None:
    steps = list(_one_by_one(work.axes))
    slope = _slope(work, "winners", 2)
    for i, axes in steps:
        at = next(j for j, axis in enumerate(axes) if not axis.is_carried)
        axis, inner = axes[at], math.prod(a.length for a in axes[at + 1 :])
        rows, cells = math.prod(a.length for a in axes[:at]), math.prod(a.length for a in axes)
        made, rest = gx, gx
        if i:
            made = torch.empty(cells, dtype=_TENSORS[slope], device=g.device)
            rest = torch.empty(cells, dtype=torch.int32, device=g.device)
        windows = _windows_over_a_cell(axis)
        arguments = [g, winners, made, rest, rows, windows, work.cells, axis.length, axis.output, inner]
        constants = dict(zip(("KERNEL", "STRIDE", "DILATION", "LO"), axis[2:6], strict=True))
        constants |= {"FIRST": i == len(steps) - 1, "LAST": i == 0, "SLOPE": _TYPES[slope]}
        columns = axis.length * inner
        _launch(winners_along, rows, columns, tile(rows, columns), arguments, constants)
        g, winners = made, rest


def _one_by_one(axes: tuple[Axis, ...]) -> Iterator[tuple[int, tuple[Axis, ...]]]:
    """The axes with one pooled at a time, from the innermost, for the way back; and how many are left after it."""
    pooled = [i for i, axis in enumerate(axes) if not axis.is_carried]
    for left, i in enumerate(reversed(pooled)):
        before = tuple(carried(axis.output) for axis in axes[:i])
        after = tuple(carried(axis.length) for axis in axes[i + 1 :])
        yield len(pooled) - 1 - left, (*before, axes[i], *after)


def _slope(work: Work, form: str, windows: int) -> str:
    """The dtype in which gradients are added up: more bits than they have, where there is more than one."""
    if form == "winners" and windows > 1 and work.plan.dtype == "float32":
        return "float64"
    return work.numbers.slope


def _gather(
    work: Work, axes: tuple[Axis, ...], form: str, g: Tensor, winners: Any, reference: Any, x: Any, gx: Tensor, by: int
) -> None:
    counts, found, last = asked(axes), taps(axes), axes[-1]
    windows = counts[0][0] * counts[0][1]
    slope = _slope(work, form, windows)
    sums = "error" if slope == "float64" and work.plan.derivative == "float64" and windows > 1 else "plain"
    arguments = [g, g if winners is None else winners, g if reference is None else reference, g if x is None else x, gx]
    lengths = [*_sizes(axis.length for axis in axes), *_sizes(axis.output for axis in axes)]
    constants = {
        "KIND": tuple(work.numbers.kind._replace(sums=sums)),
        "RANK": len(axes),
        "ALIGN": math.gcd(last.length, 8),
        "DIVISOR": by,
        "FORM": form,
        "COMPUTE": _TYPES[work.numbers.compute],
        "SLOPE": _TYPES[slope],
    }
    if found is not None:
        rows, columns = math.prod(found.blocks[:-1]), found.blocks[-1]
        constants |= {
            "STEPS": found.steps,
            "TAPS": found.padded,
            "COUNTS": tuple(map(len, found.taps)),
            "MOST": max(map(len, found.taps)),
            "BELOW": found.below,
            "ABOVE": found.above,
            "PHASES": found.phases,
            "PAIRS": found.pairs,
        }
        sides = tile(rows, columns, TILE // 2 if found.pairs else TILE)
        _launch(gather_taps, rows, columns, sides, [*arguments, rows, *lengths, *_sizes(found.blocks)], constants)
    else:
        rows, columns = math.prod(axis.length for axis in axes[:-1]), last.length
        unroll = windows if windows <= (UNROLLED_POWERS if form == "slopes" else UNROLLED) else 0
        constants |= {"AXES": axis_numbers(axes), "ASKED": counts, "UNROLL": unroll}
        _launch(gather_any, rows, columns, tile(rows, columns), [*arguments, rows, windows, *lengths], constants)


def _places(work: Work, winners: Tensor, t: Tensor | None, found: Tensor) -> None:
    if not work.outputs:
        return
    axes = joined(work.plan, indexed=True)
    rows = math.prod(axis.output for axis in axes[:-1])
    lengths = [*_sizes(axis.length for axis in axes), *_sizes(axis.output for axis in axes)]
    pooled = [int(len(each) > 1) for each in work.plan.dims if len(each) > 1 or each[0] != 1]
    constants = {
        "RANK": len(axes),
        "AXES": axis_numbers(axes),
        "POOLED": tuple(pooled) or (0,),
        "INDICES": t is None,
        "SKIPS": work.plan.skipped is not None,
    }
    arguments = [winners, winners if t is None else t, found, rows, work.cells, *lengths]
    _launch(place_kernel, rows, axes[-1].output, tile(rows, axes[-1].output), arguments, constants)
