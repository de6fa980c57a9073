"""Every pool in JAX's own operations, for devices that the native engine is not on: GPUs and TPUs.

The cells of every window are laid side by side on an axis of their own, by one gather along each pooled axis, or by no
more than a new shape where windows do not overlap. What a kind does with them stands in `formulas`. A window of few
cells that all lie evenly, which is what networks have, goes by shifted slices instead: nothing is gathered then.

Half-precision sums are added up in float32, the others in their own precision.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..plan import Plan, plan_of
from ..pool import Pool
from ..windows import Axis
from . import formulas

Shape = tuple[int, ...]

#: Windows of so many cells at most go by slices.
FEW_CELLS = 64


def run(operation: str, *arrays: Any, pool: Pool, dtype: str, shape: Shape | None = None) -> Any:
    """An operation of a pool."""
    plan = plan_of(pool, arrays[0].shape if shape is None else shape, dtype)
    return _OPERATIONS[operation](plan, *arrays)


# --- the operations -------------------------------------------------------------------------------


def forward(plan: Plan, x: Any) -> Any:
    """`y`."""
    x = _computed(plan, x)
    if plan.kind in ("max", "min") and _is_even(plan):
        return _output(plan, _extreme(plan, x), plan.result)
    if plan.is_linear and _is_even(plan) and " " not in plan.option:
        return _linear(plan, x, plan.result)
    return _output(plan, formulas.value(plan, _seen(plan, x)), plan.result)


def linearize(plan: Plan, x: Any) -> Any:
    """`y` and the winners, of a plan that keeps these."""
    x = _computed(plan, x)
    if plan.kind in ("max", "min") and _has_few_cells(plan):
        y = _extreme(plan, x)
        places = _first_equal(plan, x, y)
    else:
        y, places = formulas.winners(plan, _seen(plan, x))
    return _output(plan, y, plan.result), _output(plan, places, f"uint{8 * plan.residual.winners}")


def push(plan: Plan, t: Any, *kept: Any) -> Any:
    """`dy = J t`."""
    if plan.is_linear and _is_even(plan):
        return _linear(plan, t, t.dtype)
    if plan.residual.winners and _has_few_cells(plan):
        winners = _with_all_axes(plan, kept[0])
        chosen = (jnp.where(winners == place, cell, 0) for place, cell in enumerate(_slices(plan, t, 0)))
        return _output(plan, sum(chosen, jnp.zeros(winners.shape, t.dtype)), t.dtype)
    tangents = unfolded(plan, t.astype(formulas.wide(t.dtype)))
    weights = _weights(plan, kept).astype(tangents.dtype)
    # A cell that does not matter never meets the arithmetic.
    return _output(plan, jnp.where(weights != 0, weights * tangents, 0).sum(-1), t.dtype)


def _weights(plan: Plan, kept: tuple[Any, ...]) -> Any:
    """The weight of every cell of every window."""
    if plan.residual.winners:
        return jnp.arange(plan.cells) == _with_all_axes(plan, kept[0])[..., None]
    y = _with_all_axes(plan, kept[1])[..., None] if plan.residual.y else None
    return formulas.weights(plan, _seen(plan, kept[0] if kept else None), y)


def pull(plan: Plan, g: Any, *kept: Any) -> Any:
    """`gx = J^T g`."""
    if plan.residual.winners and _has_few_cells(plan):
        return _pull_by_phases(plan, _with_all_axes(plan, g), _with_all_axes(plan, kept[0]))
    like_x = jax.ShapeDtypeStruct(plan.shape, g.dtype)
    (gx,) = jax.linear_transpose(lambda t: push(plan, t, *kept), like_x)(g)
    return gx


_OPERATIONS: dict[str, Callable[..., Any]] = {"forward": forward, "linearize": linearize, "push": push, "pull": pull}


# --- cells side by side ---------------------------------------------------------------------------


def places(axis: Axis) -> tuple[Any, Any, Any]:
    """Along one axis, for each output and each cell of its window: where it is, whether it is real, and counted."""
    i, k = np.arange(axis.output)[:, None], np.arange(axis.kernel)[None, :]
    if axis.adaptive:
        found = i * axis.length // axis.output + k
        real = found < -(-(i + 1) * axis.length // axis.output)
        return found, real, real
    found = i * axis.stride - axis.pad_lo + k * axis.dilation
    return found, (found >= 0) & (found < axis.length), found < axis.length + axis.pad_hi


def _seen(plan: Plan, x: Any) -> formulas.Seen:
    """The cells of every window, behind the axes of y with the pooled ones kept; without x, which they are."""
    cells = None if x is None else unfolded(plan, x)
    there, (count, pad) = _masks(plan), _counts(plan)
    if plan.skipped is not None:
        there = there & formulas.is_there(plan, cells)
        count = there.sum(-1)
    return formulas.Seen(cells, there, count, pad)


def unfolded(plan: Plan, x: Any) -> Any:
    """The cells themselves; what is not real is some number."""
    for before, (axis, geometry) in enumerate(zip(plan.axes, plan.geometry, strict=True)):
        at = axis + before  # each pooled axis before this one has become two
        found = np.clip(places(geometry)[0], 0, geometry.length - 1)
        if not np.array_equal(found.ravel(), np.arange(geometry.length)):
            x = jnp.take(x, found.ravel(), axis=at, mode="clip")
        x = x.reshape(*x.shape[:at], geometry.output, geometry.kernel, *x.shape[at + 1 :])
    kernels = [axis + i + 1 for i, axis in enumerate(plan.axes)]
    others = [d for d in range(x.ndim) if d not in kernels]
    return x.transpose(*others, *kernels).reshape(*(x.shape[d] for d in others), plan.cells)


def _masks(plan: Plan) -> Any:
    """Which cells are real, in the order of `unfolded`, with axes of length 1 where it does not matter."""
    found = np.ones((1,) * len(plan.shape) + (1,), bool)
    for axis, geometry in zip(plan.axes, plan.geometry, strict=True):
        shape = [1] * len(plan.shape)
        shape[axis] = geometry.output
        real = places(geometry)[1].reshape(*shape, 1, geometry.kernel)
        found = (found[..., None] & real).reshape(*np.broadcast_shapes(found.shape[:-1], tuple(shape)), -1)
    return found if not found.all() else np.ones((1,) * found.ndim, bool)


def _counts(plan: Plan) -> tuple[Any, Any]:
    """How many real cells each window has, and how many padded ones that count."""
    real, counted = (np.ones((1,) * len(plan.shape), np.int64) for _ in range(2))
    for axis, geometry in zip(plan.axes, plan.geometry, strict=True):
        shape = [1] * len(plan.shape)
        shape[axis] = geometry.output
        _, is_real, is_counted = places(geometry)
        real, counted = real * is_real.sum(1).reshape(shape), counted * is_counted.sum(1).reshape(shape)
    return real, counted - real


def _computed(plan: Plan, x: Any) -> Any:
    """The input as it is computed with: bools as numbers."""
    return x.astype(plan.dtype) if plan.input == "bool" else x


def _output(plan: Plan, y: Any, dtype: Any) -> Any:
    """An array that has all axes, as the output has them: the pooled ones may be gone there."""
    return y.reshape(plan.output_shape).astype(dtype)


def _with_all_axes(plan: Plan, y: Any) -> Any:
    """The other way: the pooled axes are kept."""
    return y.reshape(plan.kept_shape)


# --- windows of evenly lying cells ----------------------------------------------------------------


def _is_even(plan: Plan) -> bool:
    return plan.skipped is None and not any(axis.adaptive for axis in plan.geometry)


def _has_few_cells(plan: Plan) -> bool:
    return _is_even(plan) and plan.cells <= FEW_CELLS


def _beyond(axis: Axis) -> int:
    """How far the last window reaches over the end; negative where cells are left over."""
    return (axis.output - 1) * axis.stride + axis.dilation * (axis.kernel - 1) + 1 - axis.length - axis.pad_lo


def _padded(plan: Plan, x: Any, fill: Any) -> Any:
    """The input with all that windows reach, and no more."""
    config = [(0, 0, 0)] * x.ndim
    for d, axis in zip(plan.axes, plan.geometry, strict=True):
        config[d] = (axis.pad_lo, _beyond(axis), 0)
    return lax.pad(x, jnp.asarray(fill, x.dtype), config)


def _windows_of(plan: Plan, x: Any, fill: Any, reduce: Any) -> Any:
    """The windows of the input reduced."""
    numbers = {d: (a.kernel, a.stride, a.dilation) for d, a in zip(plan.axes, plan.geometry, strict=True)}
    kernel, stride, dilation = zip(*(numbers.get(d, (1, 1, 1)) for d in range(x.ndim)), strict=True)
    padding = [(0, 0)] * x.ndim
    for d, axis in zip(plan.axes, plan.geometry, strict=True):
        padding[d] = (axis.pad_lo, _beyond(axis))
    return lax.reduce_window(
        x, np.asarray(fill, x.dtype)[()], reduce, kernel, stride, padding, window_dilation=dilation
    )


def _linear(plan: Plan, a: Any, dtype: Any) -> Any:
    """The sum over every window by its divisor."""
    total = _windows_of(plan, a.astype(formulas.wide(dtype)), 0, lax.add)
    if plan.kind != "sum":
        total = total / jnp.asarray(formulas.divisors(plan, *_counts(plan)), total.real.dtype)
    return _output(plan, total, dtype)


def _extreme(plan: Plan, x: Any) -> Any:
    """The largest or smallest cell of every window."""
    reduce = lax.max if plan.kind == "max" else lax.min
    least = formulas.never_wins(plan, x.dtype)
    if not _has_few_cells(plan):
        return _windows_of(plan, x, least, reduce)
    first, *rest = _slices(plan, x, least)
    for cell in rest:
        first = reduce(first, cell)
    return first


def _slices(plan: Plan, x: Any, fill: Any) -> Iterator[Any]:
    """For each place in a window, in row-major order, the cells that all windows have there."""
    padded = _padded(plan, x, fill)
    for place in itertools.product(*(range(axis.kernel) for axis in plan.geometry)):
        start, stop, stride = [0] * x.ndim, list(padded.shape), [1] * x.ndim
        for k, d, axis in zip(place, plan.axes, plan.geometry, strict=True):
            start[d], stride[d] = k * axis.dilation, axis.stride
            stop[d] = start[d] + (axis.output - 1) * axis.stride + 1
        yield lax.slice(padded, start, stop, stride)


def _first_equal(plan: Plan, x: Any, y: Any) -> Any:
    """The place of the first real cell that is y."""
    winners = jnp.zeros(y.shape, jnp.int32)
    masks = np.moveaxis(_masks(plan), -1, 0)
    masks = np.broadcast_to(masks, (plan.cells, *masks.shape[1:]))
    cells = list(_slices(plan, x, formulas.never_wins(plan, x.dtype)))
    for place in reversed(range(len(cells))):
        wins = (cells[place] == y) | (cells[place] != cells[place])
        winners = jnp.where(wins if masks[place].all() else wins & masks[place], place, winners)
    return winners


def _pull_by_phases(plan: Plan, g: Any, winners: Any) -> Any:
    """Each cell gathers from the windows that it won.

    Along one axis, cell p is the k-th of window o where p + pad_lo = o stride + k dilation. So cells that are `stride`
    apart, a phase, see windows at the same distances, and by the same places k:

        stride 2, kernel 3     phase 0   sees window m by its place 0, and window m - 1 by its place 2
                               phase 1   sees window m by its place 1

    The phases are computed one by one and laid between each other.
    """
    strides = [axis.stride for axis in plan.geometry]
    rows = [-(-(axis.pad_lo + axis.length) // axis.stride) for axis in plan.geometry]
    phases = {phase: _phase(plan, g, winners, phase, rows) for phase in itertools.product(*(range(s) for s in strides))}
    return _interleaved(plan, phases, rows)


def _phase(plan: Plan, g: Any, winners: Any, phase: tuple[int, ...], rows: list[int]) -> Any:
    shape = list(g.shape)
    for d, row in zip(plan.axes, rows, strict=True):
        shape[d] = row
    total = jnp.zeros(shape, formulas.wide(g.dtype))
    kernels = [axis.kernel for axis in plan.geometry]
    for number, place in enumerate(itertools.product(*map(range, kernels))):
        config = [(0, 0, 0)] * g.ndim
        for k, r, d, axis, row in zip(place, phase, plan.axes, plan.geometry, rows, strict=True):
            away, rest = divmod(k * axis.dilation - r, axis.stride)
            if rest:
                break
            config[d] = (away, row - axis.output - away, 0)
        else:
            won = jnp.where(winners == number, g, 0).astype(total.dtype)
            total = total + lax.pad(won, jnp.zeros((), won.dtype), config)
    return total.astype(g.dtype)


def _interleaved(plan: Plan, phases: dict[tuple[int, ...], Any], rows: list[int]) -> Any:
    """The phases laid between each other, along the last pooled axis first."""
    for j in reversed(range(len(plan.axes))):
        d, axis = plan.axes[j], plan.geometry[j]
        heads = dict.fromkeys(phase[:j] for phase in phases)
        merged = {}
        for head in heads:
            parts = [phases[(*head, r)] for r in range(axis.stride)]
            a = parts[0] if axis.stride == 1 else jnp.stack(parts, axis=d + 1)
            a = a.reshape(*parts[0].shape[:d], rows[j] * axis.stride, *parts[0].shape[d + 1 :])
            merged[head] = lax.slice_in_dim(a, axis.pad_lo, axis.pad_lo + axis.length, axis=d)
        phases = merged
    return phases[()]
