"""From a plan to launches: what each operation does, in which kernels, with which tiles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import triton.language as tl

from ..plan import ITEM_BYTES, Plan
from . import times
from .blocks import pull_blocks
from .columns import slide_back, winners_over
from .gathering import gather_any, gather_taps
from .groups import walk_groups
from .handing import clear, hand_over
from .launching import Launch, Recipe
from .places import place_kernel
from .sliding import slide, slide_far
from .tree import tree
from .walking import walk
from .work import (
    COLUMNS_OF_TREE,
    FAR_NEIGHBOURS,
    LARGEST_INT,
    MOST_AXES,
    UNROLLED,
    UNROLLED_POWERS,
    Axis,
    Taps,
    Walk,
    asked,
    axis_numbers,
    carried,
    cut,
    divisor,
    in_groups,
    in_one,
    is_far,
    is_wide,
    joined,
    joined_for_indices,
    numbers,
    power_of_two,
    taps,
    walks,
    windows_over_a_cell,
)

_TYPES = {
    **{name: getattr(tl, name) for name in ("float16", "bfloat16", "float32", "float64")},
    **{f"{sign}int{bits}": getattr(tl, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_TENSORS = {name: getattr(torch, name) for name in _TYPES}

_KINDS = ("max", "min", "sum", "avg", "smooth_max", "lp")

#: The places of a tile, and those of a tile whose columns are the cells of one window.
TILE, TREE = 1024, 1024

#: Windows of more cells are read by more threads.
LONG_TREE = 16384

#: The bytes of a tile whose places walk over many cells each, one after the other, and of one on the way back by
#: `gather_any`; the places of one from bins.
LOOP_BYTES, TILE_BYTES, TILE_OF_BINS = 1024, 8192, 2048

#: Rows of fewer cells are narrow. Cells that ask more windows have tiles of fewer places.
NARROW, MANY_WINDOWS = 64, 4

#: Rows of fewer cells are short. A tile may be so much larger than what is in it.
SHORT, MOST_EMPTY = 32, 1.2

#: The programs that keep the card busy. Small arrays have tiles of fewer places, down to so many, to have as many; so
#: have windows in steps of more than two along the last axis. Threads have vectors of fewer cells, to be so many.
BUSY, FEWEST_PLACES, MANY_THREADS = 1056, 256, 100_000

#: Wide kernels slide, so many neighbouring outputs at a time, in smaller tiles for their many numbers.
#: Sums have fewer numbers than maxima with their places, and take more neighbours.
NEIGHBOURS, NEIGHBOURS_IN_A_ROW, SLIDE_TILE = 8, 4, 256
NEIGHBOURS_OF_SUMS, SLIDE_TILE_OF_SUMS = 16, 128

#: The same on the way back from winners. Small arrays have fewer neighbours, to have enough threads.
NEIGHBOURS_BACK, NEIGHBOURS_BACK_IN_A_ROW, FEWEST_NEIGHBOURS, SLIDE_TILE_BACK = 16, 8, 2, 128

#: The bytes that a program clears, before winners are visited on the way back.
CLEARED = 4096

#: The threads of a program, and the bytes of cells that each of them may keep: more of those that it takes in pairs.
THREADS, KEPT_BYTES, KEPT_BYTES_OF_PAIRS = 128, 80, 160

#: The bytes that a thread reads at once.
VECTOR = 16

#: The rows of tiles that a grid can have along its second axis.
GRID_ROWS = 65535

#: Exact tiles are at least so wide. Where there are several rows, tiles are at most so wide.
LEAST_COLUMNS, WIDEST_TILE = 8, 256

#: The widths of tiles, and how many times as long a column of them takes.
NARROW_TILES = {8: 1.25, 16: 1.12, 32: 1.05, 64: 1.03, 128: 1.01, 256: 1.0}


class Work:
    """A plan as the kernels see it, and the recipes that have been made of it.

    The `steps` forward and the way `back` are those that should take the least time, unless they are given.
    """

    def __init__(self, plan: Plan, steps: tuple[Walk, ...] | None = None, back: str = "") -> None:
        if plan.kind not in _KINDS:
            raise NotImplementedError(
                f"{plan.kind} has no kernel for GPUs yet, which have {', '.join(_KINDS)}; call .cpu() on the tensor"
            )
        self.plan, self.back = plan, back
        self.axes = joined(plan)
        self.cells = math.prod(axis.kernel for axis in self.axes)
        self.walks = steps or walks(plan, self.axes)
        self.numbers = numbers(plan, self.walks)
        self.divisor = divisor(plan, self.axes)
        self.inputs, self.outputs = math.prod(plan.shape), math.prod(plan.output_shape)
        between = [step.outputs for step in self.walks]
        between += [math.prod(axis.length for axis in axes) for _, axes in in_turn(self.axes)]
        padded = [axis.padded for axis in self.axes]
        #: Whether offsets are beyond 32 bits, in what is made on the way as well, or places of windows in the padding.
        self.wide = max(self.inputs, self.outputs, self.cells, *between, *padded) > LARGEST_INT // 2
        self._recipes: dict[str, Recipe] = {}

    def recipe(self, operation: str) -> Recipe:
        try:
            return self._recipes[operation]
        except KeyError:
            return self._recipes.setdefault(operation, _MAKERS[operation](self).recipe())


class Maker:
    """A recipe in the making."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.launches: list[Launch] = []
        self.rooms: dict[str, tuple[int, torch.dtype]] = {}

    def recipe(self) -> Recipe:
        return Recipe(self.launches, self.rooms)

    def room(self, name: str, length: int, dtype: str) -> str:
        self.rooms[name] = length, _TENSORS[dtype]
        return name

    def launch(
        self,
        kernel: Any,
        over: tuple[int, int],
        sides: tuple[int, int],
        tensors: Iterable[str],
        values: Iterable[int],
        constants: dict[str, Any],
        warps: int = 4,
        lengths: Iterable[int] = (),
    ) -> None:
        """A kernel over so many rows and columns, in tiles with these sides.

        `lengths` are those of the axes that the rows number, where the kernel asks for the coordinates of its rows.
        """
        rows, columns = -(-over[0] // sides[0]), -(-over[1] // sides[1])
        if rows and columns:
            layers = -(-rows // GRID_ROWS)
            grid = columns, -(-rows // layers), layers
            constants = {**constants, "WIDE": self.work.wide, "ROWS": sides[0], "COLS": sides[1]}
            if "CHAINED" in kernel.arg_names:
                constants["CHAINED"] = False  # until it is known where it runs; see `Launch`
            if lengths:
                constants["WRAPS"] = wraps(sides, lengths)
            self.launches.append(Launch(kernel, grid, tuple(tensors), tuple(values), constants, warps))


def _sizes(lengths: Iterable[int]) -> list[int]:
    """The lengths of the axes, and 1 for those that are not there."""
    found = list(lengths)
    return found + [1] * (MOST_AXES - len(found))


def _both(axes: tuple[Axis, ...]) -> list[int]:
    return [*_sizes(axis.length for axis in axes), *_sizes(axis.output for axis in axes)]


def _outputs(axes: tuple[Axis, ...]) -> list[int]:
    return [axis.output for axis in axes]


def align(*lengths: int) -> int:
    """What all rows of these lengths start at multiples of, up to as many cells as are read at once.

    >>> align(56), align(28), align(56, 28), align(7)
    (8, 4, 4, 1)
    """
    return math.gcd(*lengths, 8)


def tile(rows: int, columns: int, most: int, exact: bool = False) -> tuple[int, int]:
    """The sides of a tile over an array of so many rows and columns: long rows lie in memory as they are.

    An `exact` tile leaves no column over, where it can be wide enough so, and there are rows enough to fill it.

    >>> tile(1000, 112, 1024), tile(1000, 112, 1024, exact=True), tile(2, 7, 1024), tile(1, 5000, 1024)
    ((8, 128), (64, 16), (2, 8), (1, 1024))
    >>> tile(2, 5000, 1024, exact=True)
    (2, 512)
    """
    dividing = columns & -columns  # the largest power of two that divides it
    widest = max(WIDEST_TILE, most // power_of_two(rows))
    exact = exact and dividing >= max(LEAST_COLUMNS, most // power_of_two(rows))
    cols = min(most, widest, dividing if exact else power_of_two(columns))
    return max(1, min(most // cols, power_of_two(rows))), cols


def fitting_tile(rows: int, columns: int, most: int) -> tuple[int, int]:
    """The same for a kernel that works more than it reads: of its tiles, few columns may lie beyond the last one.

    Narrow ones are weighed against that, since more of what they do is done for each row.

    >>> fitting_tile(1000, 139, 4096), fitting_tile(1000, 250, 1024), fitting_tile(2, 7, 1024)
    ((256, 16), (4, 256), (2, 8))
    """
    widths = [cols for cols in NARROW_TILES if cols <= most]
    cols = min(widths, key=lambda cols: -(-columns // cols) * cols * NARROW_TILES[cols])
    return tile(rows, columns if cols == WIDEST_TILE else min(columns, cols), most)


def enough(most: int, total: int, fewest: int = FEWEST_PLACES) -> int:
    """The places of a tile, up to so many, with which an array of so many places keeps the card busy.

    >>> enough(1024, 10**9), enough(1024, 600_000), enough(1024, 1000)
    (1024, 512, 256)
    """
    while most > fewest and total < most * BUSY:
        most //= 2
    return most


def vector(dtype: str, cells: int) -> int:
    """How many cells a thread takes at once: as many as it reads, and fewer of small arrays, to have enough threads.

    >>> vector("float32", 10**9), vector("bfloat16", 10**9), vector("float32", 10**5), vector("bfloat16", 10**5)
    (4, 8, 1, 2)
    """
    most, fewest = min(8, VECTOR // ITEM_BYTES[dtype]), max(1, 4 // ITEM_BYTES[dtype])
    while most > fewest and cells < most * MANY_THREADS:
        most //= 2
    return most


def flat(axes: tuple[Axis, ...], columns: int) -> tuple[Axis, ...]:
    """The axes, and one of length 1 where rows are so short that most tiles of them would be partly empty.

    Then the rows of a tile number all of its places, and lie one after the other in memory.

    >>> len(flat((carried(8), carried(5)), 5)), len(flat((carried(8), carried(16)), 16))
    (3, 2)
    """
    ragged = columns < SHORT and power_of_two(columns) > columns * MOST_EMPTY
    return (*axes, carried(1)) if ragged and len(axes) < MOST_AXES else axes


def wraps(sides: tuple[int, int], lengths: Iterable[int]) -> tuple[bool, ...]:
    """Of each axis, whether the rows of a tile go over its end once at most; see `tile_along_axes`.

    >>> wraps((32, 8), (5, 7, 112, 112))
    (False, False, True, True)
    """
    return tuple(length >= sides[0] for length in lengths)


# --- walks ----------------------------------------------------------------------------------------


def _walk(maker: Maker, sink: str, made: tuple[str, str, str], tangent: str = "", g: str = "") -> None:
    """All walks of a plan, into the tensors `made`: y, winners and dy; for slopes the reference, nothing, the share."""
    work, name, option = maker.work, maker.work.plan.kind, maker.work.plan.option
    extreme = name in ("max", "min")
    places = extreme and (bool(made[1]) or (bool(tangent) and option == "first"))
    counts = extreme and option != "first" and not made[1] and bool(tangent or g)
    # Powers of a tangent's window are not walked over again from states.
    powers = work.numbers.kind.sums.startswith("powers") and not (tangent and len(work.walks) > 1)
    again = name == "smooth_max" or (name == "lp" and not powers) or counts
    source: tuple[str, ...] = ("x", "x", tangent or "x", "x")
    for i, step in enumerate(work.walks):
        last = i == len(work.walks) - 1
        sinks = (made[0], made[1], made[2], "")
        if not last:
            sinks = _states(maker, i, step, bool(tangent), again or places, powers)
        if last and g:
            source = (*source[:2], g, source[3])
        tensors = [each or source[0] for each in (*source, *sinks)]
        flags = {"SINK": sink if last else "states", "TANGENT": bool(tangent), "PLACES": places, "AGAIN": again}
        flags |= {"SOURCE": "states" if i else "cells", "POWERS": powers}
        _one_walk(maker, step, flags, tensors)
        source = tuple(each or sinks[0] for each in sinks)
        if powers:
            source = (source[0], "x", *source[2:])


def _states(maker: Maker, i: int, step: Walk, tangent: bool, again: bool, powers: bool) -> tuple[str, str, str, str]:
    """What a walk leaves for the next one: the best, what is beside it, the slope, and how many cells are there.

    Of powers their sum alone.
    """
    kind = maker.work.numbers
    second = again or kind.kind.sums == "error" or kind.kind.sums == "halves"
    return (
        maker.room(f"a{i}", step.outputs, kind.second if powers else kind.compute),
        maker.room(f"b{i}", step.outputs, kind.second) if second else "",
        maker.room(f"d{i}", step.outputs, kind.slope) if tangent else "",
        maker.room(f"n{i}", step.outputs, kind.kind.count) if maker.work.plan.skipped is not None else "",
    )


def _constants_of_axes(work: Work, axes: tuple[Axis, ...], unrolled: bool) -> dict[str, Any]:
    """Those of the walk, and those of the pool, which are as many."""
    whole = axis_numbers((*work.axes, *axes[len(work.axes) :]), unrolled=False)
    return {"RANK": len(axes), "AXES": axis_numbers(axes, unrolled), "WHOLE": whole}


def _constants(work: Work, axes: tuple[Axis, ...], unrolled: bool) -> dict[str, Any]:
    return {
        **_constants_of_axes(work, axes, unrolled),
        "KIND": tuple(work.numbers.kind),
        "DIVISOR": work.divisor,
        "COMPUTE": _TYPES[work.numbers.compute],
        "SECOND": _TYPES[work.numbers.second],
        "SLOPE": _TYPES[work.numbers.slope],
    }


def _one_walk(maker: Maker, step: Walk, flags: dict[str, Any], tensors: list[str]) -> None:
    work, last = maker.work, step.axes[-1]
    powers, flags = flags["POWERS"], {name: flag for name, flag in flags.items() if name != "POWERS"}
    unroll = not step.tree and step.cells <= (UNROLLED_POWERS if flags["AGAIN"] else UNROLLED)
    constants = {**_constants(work, step.axes, unroll), **flags, "CLAMP": _clamps(work, flags)}
    if _can_be_anchored(work, step, flags):
        constants["KIND"] = tuple(work.numbers.kind._replace(sums="anchored"))
    if work.plan.kind == "lp" and not powers:
        constants["KIND"] = tuple(work.numbers.kind._replace(sums="plain"))
    whole = flags["SOURCE"] == "cells" and flags["SINK"] != "states" and not flags["TANGENT"]
    if unroll and whole and in_groups(last) and not powers:
        _walk_in_groups(maker, step, constants, tensors)
    elif _slides(work, step, flags):
        _slide(maker, step, constants, tensors)
    elif step.tree:
        _walk_by_tree(maker, step, constants, tensors)
    else:
        _walk_by_places(maker, step, constants, tensors, unroll)


def _walk_by_tree(maker: Maker, step: Walk, constants: dict[str, Any], tensors: list[str]) -> None:
    cols = min(COLUMNS_OF_TREE, power_of_two(step.cells))
    sides = max(1, min(enough(TREE, step.outputs * cols) // cols, power_of_two(step.outputs))), cols
    warps = 8 if step.cells > LONG_TREE else 4
    constants = {**constants, "CELLS": 0}
    del constants["CLAMP"]
    values, lengths = _values(maker.work, step, step.outputs), _outputs(step.axes)
    maker.launch(tree, (step.outputs, 1), sides, tensors, values, constants, warps, lengths=lengths)


def _walk_by_places(maker: Maker, step: Walk, constants: dict[str, Any], tensors: list[str], unroll: bool) -> None:
    work, size, strided = maker.work, ITEM_BYTES[maker.work.plan.dtype], step.axes[-1].stride > 2
    step = Walk(flat(step.axes, step.axes[-1].output), step.scale, False)
    constants = {**constants, **_constants_of_axes(work, step.axes, unroll), "CELLS": step.cells if unroll else 0}
    if unroll:
        most = _places(work, step, constants)
        places = enough(min(most, FEWEST_PLACES) if strided else most, step.outputs)
    else:
        # A long loop waits for memory: the more threads wait at once, the better. Narrow cells go in pairs.
        most = min(LOOP_BYTES // size, FEWEST_PLACES) if strided else LOOP_BYTES // size
        places = enough(most, step.outputs, THREADS if size >= 4 else FEWEST_PLACES)
    columns = step.axes[-1].output
    sides = tile(step.rows, columns, places)
    constants |= {"EDGE": columns % sides[1] > 0, "ALIGN_OUT": align(columns)}
    values, lengths = _values(work, step, step.rows), _outputs(step.axes)
    maker.launch(walk, (step.rows, columns), sides, tensors, values, constants, lengths=lengths)


def _values(work: Work, step: Walk, rows: int) -> list[int]:
    whole = _sizes(axis.length for axis in work.axes)
    return [rows, step.cells, step.scale, work.cells, 0, *_both(step.axes), *whole]


def _can_be_anchored(work: Work, step: Walk, flags: dict[str, Any]) -> bool:
    """Whether smooth maxima are made of cells, no padding is added to them later, and their exponents are finite."""
    values_alone = flags["SOURCE"] == "cells" and flags["SINK"] == "outputs" and not flags["TANGENT"]
    if work.plan.kind != "smooth_max" or not values_alone or step.tree or work.numbers.kind.option == "counted":
        return False
    return abs(work.plan.parameter) < (1e38 if work.numbers.compute == "float32" else 1e307)


def _clamps(work: Work, flags: dict[str, Any]) -> bool:
    """Whether a cell that is seen twice changes nothing: it does where cells are added up, counted or skipped."""
    return work.plan.kind in ("max", "min") and not flags["AGAIN"] and work.plan.skipped is None


def _walk_in_groups(maker: Maker, step: Walk, constants: dict[str, Any], tensors: list[str]) -> None:
    work, last, plan = maker.work, step.axes[-1], maker.work.plan
    inputs = math.prod(axis.length for axis in step.axes)
    cells = max(last.stride, vector(plan.dtype, inputs))
    group = cells // last.stride
    groups = -(-last.output // group)
    places = _places(work, step, constants)
    if not constants["PLACES"] and ITEM_BYTES[plan.dtype] > 2:
        places = min(places, TILE // 2)
    exact = constants["PLACES"] or ITEM_BYTES[plan.dtype] < 4
    places = max(THREADS, enough(places, step.outputs) // group)
    sides = tile(step.rows, groups, places, exact=True) if exact else fitting_tile(step.rows, groups, places)
    before, after = (-(-max(0, n) // cells) for n in (last.lo, last.kernel - last.stride - last.lo))
    over = cells * -(-groups // sides[1]) * sides[1] > last.length
    constants |= {"LINES": step.cells // last.kernel, "KERNEL": last.kernel, "STEP": last.stride, "LO": last.lo}
    constants |= {"GROUP": group, "BEFORE": before, "AFTER": after, "OVER": over}
    constants |= {"ALIGN": align(last.length), "ALIGN_OUT": align(last.output)}
    for name in ("SOURCE", "TANGENT"):
        del constants[name]
    values = [step.rows, maker.work.cells, 0, *_both(step.axes)]
    tensors, lengths = [tensors[0], tensors[2], *tensors[4:7]], _outputs(step.axes)
    maker.launch(walk_groups, (step.rows, groups), sides, tensors, values, constants, lengths=lengths)


def _places(work: Work, step: Walk, constants: dict[str, Any]) -> int:
    """The places of a tile: fewer where all cells of its windows are kept until their best is known."""
    size = ITEM_BYTES[work.plan.dtype]
    if not constants["PLACES"]:
        sums = work.plan.kind in ("sum", "avg") and size <= 2
        return TILE // 2 if work.numbers.compute == "float64" else TILE * 2 if sums else TILE
    kept = (KEPT_BYTES_OF_PAIRS if size <= 2 else KEPT_BYTES) // size // step.cells
    return THREADS * max(1, min(power_of_two(kept + 1) // 2, TILE // THREADS))


def _slides(work: Work, step: Walk, flags: dict[str, Any]) -> bool:
    """Whether windows are wide, and no more than values and places are asked for."""
    more = flags["TANGENT"] or flags["AGAIN"] or flags["SINK"] == "slopes" or work.plan.skipped is not None
    if more or not is_wide(step):
        return False
    if work.plan.kind in ("max", "min"):
        return True
    axis, kind = next(axis for axis in step.axes if not axis.is_carried), work.numbers.kind
    adds_up = kind.sums == "plain" or (kind.sums == "error" and is_far(axis))
    return adds_up and work.plan.is_linear and not kind.rounding


def _slide(maker: Maker, step: Walk, constants: dict[str, Any], tensors: list[str]) -> None:
    work, axes = maker.work, step.axes
    at = next(i for i, axis in enumerate(axes) if not axis.is_carried)
    axis, inner = axes[at], math.prod(each.length for each in axes[at + 1 :])
    sums, far = work.plan.kind in ("sum", "avg"), is_far(axis)
    outputs = (NEIGHBOURS_OF_SUMS if sums else NEIGHBOURS) if inner > 1 else NEIGHBOURS_IN_A_ROW
    outputs = FAR_NEIGHBOURS if far else outputs
    rows, columns = math.prod(each.length for each in axes[:at]), -(-axis.output // outputs) * inner
    own = ("KIND", "RANK", "WHOLE", "DIVISOR", "SOURCE", "SINK", "PLACES", "COMPUTE", "SECOND", "SLOPE")
    constants = {name: constants[name] for name in own} | {"KERNEL": axis.kernel, "LO": axis.lo, "OUTPUTS": outputs}
    constants["ALIGN"] = align(axis.length) if at == len(axes) - 1 else 0
    if not far:
        digits = axis.kernel.bit_length()
        taken = [axis.kernel & ((1 << d) - 1) if axis.kernel >> d & 1 else -1 for d in range(digits)]
        constants |= {"DIGITS": digits, "TAKEN": tuple(taken)}
    values = [rows, step.scale, work.cells, axis.length, axis.output, inner]
    values += [*_sizes(each.output for each in axes), *_sizes(each.length for each in work.axes)]
    sides = tile(rows, columns, SLIDE_TILE_OF_SUMS if sums else SLIDE_TILE)
    tensors = [tensors[0], tensors[1], tensors[4], tensors[5]]
    maker.launch(slide_far if far else slide, (rows, columns), sides, tensors, values, constants)


def _scale(maker: Maker, share: str) -> None:
    """Each cotangent by the divisor of its window: a walk over no cells."""
    work = maker.work
    axes = tuple(carried(axis.output) for axis in work.axes)
    rows, last = math.prod(axis.output for axis in axes[:-1]), axes[-1]
    flags = {"SOURCE": "cells", "SINK": "slopes", "TANGENT": False, "PLACES": False, "AGAIN": False}
    sides = tile(rows, last.output, TILE)
    constants = {**_constants(work, axes, True), **flags, "CLAMP": False, "CELLS": 0, "EDGE": True}
    constants["ALIGN_OUT"] = align(last.output)
    tensors = ["g"] * 6 + [share, "g"]
    values = [rows, 0, 1, work.cells, 0, *_both(axes), *_sizes(axis.length for axis in work.axes)]
    maker.launch(walk, (rows, last.output), sides, tensors, values, constants, lengths=_outputs(axes))


# --- the way back ---------------------------------------------------------------------------------


def quickest(ways: dict[str, float]) -> str:
    return min(ways, key=lambda way: ways[way])


def _time_asked(axes: tuple[Axis, ...], item: int, tap: float, many_taps: int) -> float:
    """How long it should take if cells ask all windows over them at once, where one of few taps takes so long."""
    inputs, last, found = math.prod(axis.length for axis in axes), axes[-1], _taps(axes)
    if found is not None:
        count = sum(map(len, found.taps)) / math.prod(found.steps)
        work = tap * count * (1 + count / many_taps)
    elif (last.is_whole or cut(axes) != axes) and not _has_bins(axes[:-1]):
        work = times.ASKED_BY_ROWS * _windows(axes)
    else:
        each = times.ASKED_OF_BINS if _has_bins(axes) else times.ASKED
        work = each * _windows(axes) + _time_found(axes)
    if (found is None or last.is_carried) and _is_ragged(axes):
        work += times.RAGGED * item / 4
    moved = item * (inputs + math.prod(_outputs(axes))) * (times.UNALIGNED_GRADIENTS if align(last.length) == 1 else 1)
    return times.of_kernel(moved, work * inputs)


def _time_found(axes: tuple[Axis, ...]) -> float:
    """How long it takes a cell to find the windows over it by division."""
    return times.FOUND * sum(not axis.is_carried for axis in axes) + times.ROW / max(axes[-1].length, times.SHORT_ROW)


def _taps(axes: tuple[Axis, ...]) -> Taps | None:
    """The taps of windows in small steps; None for steps of one over rows that are better `flat`."""
    found = taps(axes)
    return None if found is not None and math.prod(found.steps) == 1 and _is_ragged(axes) else found


def _is_ragged(axes: tuple[Axis, ...]) -> bool:
    """Whether rows of cells are so short that they are better `flat`."""
    return flat(axes, axes[-1].length) != axes


def _has_bins(axes: tuple[Axis, ...]) -> bool:
    return any(axis.adaptive for axis in axes)


def _windows(axes: tuple[Axis, ...]) -> int:
    """How many windows may see a cell."""
    return math.prod(windows_over_a_cell(axis) for axis in axes)


def times_of_sums(work: Work) -> dict[str, float]:
    """How long each way back of a sum should take: cells "ask", or some axes go after the others."""
    item, between = ITEM_BYTES[work.plan.derivative], ITEM_BYTES[work.numbers.slope]
    taps = times.TAP * item / 4, times.MANY_TAPS
    found = {"ask": _time_asked(work.axes, item, *taps)}
    for name, counts in groupings(work.axes).items():
        found[name] = sum(_time_asked(axes, between, *taps) for _, axes in in_turn(work.axes, counts))
    return found


def _sums_back(maker: Maker, g: str, by: int) -> None:
    work, wide = maker.work, g != "g"
    way = work.back or quickest(times_of_sums(work))
    if way == "ask":
        _gather(maker, work.axes, "sums", (g, "", "", ""), "gx", by, wide)
        return
    for left, axes in in_turn(work.axes, groupings(work.axes)[way]):
        cells = math.prod(axis.length for axis in axes)
        made = maker.room(f"sum{left}", cells, work.numbers.slope) if left else "gx"
        _gather(maker, axes, "sums", (g, "", "", ""), made, 1 if left else by, wide=True)
        g = made


def _means_back(maker: Maker) -> None:
    """Where windows have different divisors, or one that is no constant: gradients are divided first, or in passing."""
    work, item = maker.work, ITEM_BYTES[maker.work.plan.derivative]
    inputs, outputs = work.inputs, work.outputs
    if _are_whole(work) and work.axes[-1].is_whole:
        _gather(maker, work.axes, "sums", ("g", "", "", ""), "gx", by=0)
        return
    each = times.DIVIDED + (times.ASKED_OF_BINS - times.ASKED if _has_bins(work.axes) else 0)
    in_passing = each * _windows(work.axes) + _time_found(work.axes)
    first = times.of_kernel(3 * item * outputs, 0) + min(times_of_sums(work).values())
    if times.of_kernel(item * (inputs + outputs), in_passing * inputs) < first:
        _gather(maker, work.axes, "sums", ("g", "", "", ""), "gx", by=-1, wide=True)
    else:
        _scale(maker, maker.room("share", outputs, work.numbers.slope))
        _sums_back(maker, "share", 1)


def times_of_winners(work: Work) -> dict[str, float]:
    """How long each way back should take: cells "ask", winners are "visited", or some axes go after the others."""
    item, inputs = ITEM_BYTES[work.plan.derivative], work.inputs
    found = {"ask": _time_asked(work.axes, item, times.TAP_OF_WINNER * item / 4, times.MANY_TAPS_OF_WINNERS)}
    windows = _windows(work.axes)
    handed = times.HANDED * windows + (times.HANDED_OF_MANY - times.HANDED) * max(0, windows - times.FEW_WINDOWS)
    visited = work.outputs * (times.VISITED + handed)
    if item * inputs > times.CACHE:
        visited += times.CHANGED * min(work.outputs, item * inputs // times.SECTOR)
    visited = times.IN_THREE_STEPS + max(visited, times.IN_TURN * windows)
    found["visited"] = times.of_kernel(0, times.CLEARED_BYTE * item * inputs) + times.of_kernel(0, visited)
    if work.cells > LARGEST_INT:
        return found  # places that are taken apart, axis by axis, have 32 bits
    for name, counts in groupings(work.axes).items():
        found[name] = sum(_time_over(axes, item) for _, axes in in_turn(work.axes, counts))
    return found


def _are_whole(work: Work) -> bool:
    return all(axis.is_carried or axis.is_whole for axis in work.axes)


def _time_over(axes: tuple[Axis, ...], item: int) -> float:
    """How long it should take to bring winners back over the pooled axes: a gradient, and the rest of a place."""
    cells = math.prod(axis.length for axis in axes)
    window = times.SLID_BACK if _slides_back(axes) else times.ASKED_OF_BINS if _has_bins(axes) else times.ALONG
    moved = (max(item, 4) + 1) * (cells + math.prod(_outputs(axes)))
    slower = times.UNALIGNED_BACK if align(axes[-1].length) == 1 else 1
    return times.of_kernel(0, slower * (times.BYTE * moved + window * _windows(axes) * cells))


def _winners_by_axes(maker: Maker, counts: tuple[int, ...]) -> None:
    work, g, winners, slope = maker.work, "g", "winners", maker.work.numbers.slope
    steps = list(in_turn(work.axes, counts))
    places = work.cells  # those that are left of a winner's
    for number, (left, axes) in enumerate(steps):
        cells, own = (math.prod(n) for n in zip(*((axis.length, axis.kernel) for axis in axes), strict=True))
        places //= own
        made = maker.room(f"sum{left}", cells, slope) if left else "gx"
        rest = maker.room(f"rest{left}", cells, "int8" if places < 128 else "int32") if left else "gx"
        constants = {"FIRST": number == 0, "LAST": left == 0, "SLOPE": _TYPES[slope]}
        step = _slide_back if _slides_back(axes) else _winners_over
        step(maker, axes, [g, winners, made, rest], constants)
        g, winners = made, rest


def _slide_back(maker: Maker, axes: tuple[Axis, ...], tensors: list[str], constants: dict[str, Any]) -> None:
    at = next(i for i, axis in enumerate(axes) if not axis.is_carried)
    axis, inner = axes[at], math.prod(a.length for a in axes[at + 1 :])
    rows = math.prod(a.length for a in axes[:at])
    neighbours = NEIGHBOURS_BACK if inner > 1 else NEIGHBOURS_BACK_IN_A_ROW
    while neighbours > FEWEST_NEIGHBOURS and rows * axis.length * inner < neighbours * MANY_THREADS:
        neighbours //= 2
    columns = -(-axis.length // neighbours) * inner
    constants |= {"KERNEL": axis.kernel, "LO": axis.lo, "CELLS": neighbours}
    constants["ALIGN"] = align(axis.length, axis.output) if inner == 1 else 0
    values = [rows, maker.work.cells, axis.length, axis.output, inner]
    maker.launch(slide_back, (rows, columns), tile(rows, columns, SLIDE_TILE_BACK), tensors, values, constants)


def _winners_over(maker: Maker, axes: tuple[Axis, ...], tensors: list[str], constants: dict[str, Any]) -> None:
    axes, windows, own = flat(axes, axes[-1].length), _windows(axes), math.prod(axis.kernel for axis in axes)
    over = math.prod(axis.length for axis in axes[:-1]), axes[-1].length
    constants |= {"RANK": len(axes), "AXES": axis_numbers(axes), "ASKED": asked(axes), "PLACES": own}
    constants["UNROLL"] = windows if windows <= UNROLLED else 0
    values, sides = [over[0], windows, maker.work.cells, *_both(axes)], tile(*over, enough(TILE, over[0] * over[1]))
    maker.launch(winners_over, over, sides, tensors, values, constants, lengths=[axis.length for axis in axes])


def _slides_back(axes: tuple[Axis, ...]) -> bool:
    """Whether windows move by one cell along one axis, and along no other."""
    (axis, *more) = (axis for axis in axes if not axis.is_carried)
    return not more and axis.stride == axis.dilation == 1 and axis.kernel <= UNROLLED and not axis.adaptive


def groupings(axes: tuple[Axis, ...]) -> dict[str, tuple[int, ...]]:
    """Ways back on which some axes go after the others, and how many go at once, from the innermost.

    >>> groupings((carried(8), Axis(9, 7, 3), Axis(9, 7, 3), Axis(9, 7, 3)))
    {'axes 1,2': (1, 2), 'axes 2,1': (2, 1), 'axes 1,1,1': (1, 1, 1)}
    """
    pooled = sum(not axis.is_carried for axis in axes)
    ends = (cut for n in range(1, pooled) for cut in itertools.combinations(range(1, pooled), n))
    found = [tuple(b - a for a, b in itertools.pairwise((0, *cut, pooled))) for cut in ends]
    return {f"axes {','.join(map(str, counts))}": counts for counts in found}


def in_turn(axes: tuple[Axis, ...], counts: tuple[int, ...] = ()) -> Iterator[tuple[int, tuple[Axis, ...]]]:
    """The axes with so many pooled at a time, from the innermost, or one by one; and how many are left after them.

    >>> [(left, [axis[:3] for axis in step]) for left, step in in_turn((Axis(9, 7, 3), Axis(5, 4, 2)))]
    [(1, [(7, 7, 1), (5, 4, 2)]), (0, [(9, 7, 3), (5, 5, 1)])]
    """
    pooled = [i for i, axis in enumerate(axes) if not axis.is_carried]
    left = len(pooled)
    for count in counts or (1,) * left:
        left -= count
        inside = pooled[left + count] if left + count < len(pooled) else len(axes)
        before = tuple(carried(axis.output) for axis in axes[: pooled[left]])
        after = tuple(carried(axis.length) for axis in axes[inside:])
        yield left, tuple(in_one((*before, *axes[pooled[left] : inside], *after)))


def _gather(
    maker: Maker,
    axes: tuple[Axis, ...],
    form: str,
    given: tuple[str, str, str, str],
    gx: str,
    by: int,
    wide: bool = False,
) -> None:
    """`given` are the gradients of windows, their winners, their references and x; "" for those that are not asked.

    Sums are divided by `by`, for which see `gather_any`. `wide` gradients have more bits than
    cells have, or go on in as many.
    """
    work, windows = maker.work, _windows(axes)
    found = _taps(axes)
    if found is None or by < 0 or axes[-1].is_carried:
        axes = flat(axes, axes[-1].length)
        found = found and taps(axes)
    counts, last = asked(axes), axes[-1]
    slope, sums = _added_in(work, form, windows, wide)
    sums = "powers" if work.numbers.kind.sums == "powers" else sums
    tensors = [*(each or given[0] for each in given), gx]
    constants = {
        "KIND": tuple(work.numbers.kind._replace(sums=sums)),
        "RANK": len(axes),
        "ALIGN": align(last.length),
        "DIVISOR": by,
        "FORM": form,
        "COMPUTE": _TYPES[work.numbers.compute],
        "SLOPE": _TYPES[slope],
    }
    if found is not None and by >= 0:
        inputs = math.prod(axis.length for axis in axes)
        alone = last.is_carried or last.dilation > 1  # neighbours have no window in common
        cells = max(last.stride, 1 if alone else vector(work.plan.derivative, inputs))
        group = cells // last.stride
        away = [tap[-2] for phase in found.taps for tap in phase]
        before, after = -(-max(0, -min(away)) // group), -(-max(0, max(away)) // group)
        groups = -(-found.blocks[-1] // group)
        over = math.prod(found.blocks[:-1]), groups
        places, exact = _places_of_taps(work, form, windows, last.is_carried)
        places = max(THREADS, enough(places, over[0] * found.blocks[-1]) // group)
        sides = tile(*over, THREADS if form == "slopes" else places, exact)
        edge = group * -(-groups // sides[1]) * sides[1] > last.output
        constants |= found.constants | {"GROUP": group, "BEFORE": before, "AFTER": after, "EDGE": edge}
        constants["ALIGN_OUT"] = align(last.output)
        values = [over[0], *_both(axes), *_sizes(found.blocks)]
        maker.launch(gather_taps, over, sides, tensors, values, constants, lengths=found.blocks)
    else:
        given_axes, axes = axes, cut(axes)
        counts, last = asked(axes), axes[-1]
        constants |= {"RANK": len(axes), "ALIGN": align(last.length)}
        over = math.prod(axis.length for axis in axes[:-1]), last.length
        unroll = windows if windows <= (UNROLLED_POWERS if form == "slopes" else UNROLLED) else 0
        constants |= {"AXES": axis_numbers(axes), "ASKED": counts, "UNROLL": unroll}
        # It takes divisions to find the bins over a column, once for all rows.
        most = max(TILE, TILE_BYTES // ITEM_BYTES[work.plan.derivative])
        most = max(most, TILE_OF_BINS) if _has_bins(axes) else most
        # Few columns are many rows, and what is found for a row serves few cells. Many windows leave few registers.
        small = (last.length < NARROW and axes == given_axes) or windows > MANY_WINDOWS
        sides = fitting_tile(*over, enough(TILE // 2 if small else most, over[0] * over[1]))
        values, lengths = [over[0], windows, work.cells, *_both(axes)], [axis.length for axis in axes]
        maker.launch(gather_any, over, sides, tensors, values, constants, lengths=lengths)


def _places_of_taps(work: Work, form: str, windows: int, channels_last: bool) -> tuple[int, bool]:
    """The blocks of a tile, and whether it should leave no column over, as it was measured."""
    narrow = ITEM_BYTES[work.plan.derivative] == 2
    if windows == 1:
        return (TILE // 2 if narrow else TILE // 4), narrow
    if form == "winners":
        return (TILE if narrow else TILE // 2), narrow
    return (2 * TILE if narrow else TILE // 2 if channels_last else TILE // 4), True


def _hand_over(maker: Maker) -> None:
    work, axes, windows = maker.work, maker.work.axes, _windows(maker.work.axes)
    axes, cleared = flat(axes, axes[-1].output), CLEARED // ITEM_BYTES[work.plan.derivative]
    maker.launch(clear, (-(-work.inputs // cleared), 1), (1, cleared), ["gx"], [work.inputs], {})
    over = math.prod(axis.output for axis in axes[:-1]), axes[-1].output
    slope, _ = _added_in(work, "winners", windows)
    constants = {"RANK": len(axes), "AXES": axis_numbers(axes), "ASKED": asked(axes), "SLOPE": _TYPES[slope]}
    constants["UNROLL"] = windows if windows <= UNROLLED else 0
    values, sides = [over[0], windows, work.cells, *_both(axes)], tile(*over, THREADS)
    maker.launch(hand_over, over, sides, ["g", "winners", "gx"], values, constants, lengths=_outputs(axes))


def _are_blocks(work: Work) -> bool:
    """Whether windows lie side by side, so that a block of cells is one window, and all that the way back needs."""
    plan, found = work.plan, taps(work.axes)
    if found is None or max(map(len, found.taps)) > 1 or work.numbers.kind.sums.startswith("powers"):
        return False
    if plan.kind in ("max", "min") and plan.option == "all":
        return False
    return all(a.lo == 0 and a.kernel == a.stride and a.end <= a.length and _is_dense(a) for a in work.axes)


def _is_dense(axis: Axis) -> bool:
    return axis.dilation == 1 or axis.kernel == 1


def _pull_blocks(maker: Maker) -> None:
    work, axes, last = maker.work, maker.work.axes, maker.work.axes[-1]
    found, numbers = taps(axes), maker.work.numbers
    assert found is not None
    cells = max(last.stride, 1 if last.is_carried else vector(work.plan.dtype, work.inputs))
    group = cells // last.stride
    over = math.prod(found.blocks[:-1]), -(-found.blocks[-1] // group)
    constants = {
        "KIND": tuple(numbers.kind),
        "RANK": len(axes),
        "STEPS": found.steps,
        "TAPS": found.taps[0],
        "MARGINS": found.margins,
        "PHASES": found.phases,
        "GROUP": group,
        "ALIGN": align(last.length),
        "ALIGN_OUT": align(last.output),
        "DIVISOR": work.divisor,
        "COMPUTE": _TYPES[numbers.compute],
        "SECOND": _TYPES[numbers.second],
        "SLOPE": _TYPES[numbers.slope],
    }
    values, sides = [over[0], *_both(axes), *_sizes(found.blocks)], tile(*over, THREADS, exact=True)
    maker.launch(pull_blocks, over, sides, ["g", "x", "gx"], values, constants, lengths=found.blocks)


def _added_in(work: Work, form: str, windows: int, wide: bool = False) -> tuple[str, str]:
    """The dtype in which gradients are added up, and how: more bits than they have, where there is more than one.

    Those of winners are added up as on the CPU: in float32 if they have 16 bits, and in their own dtype else.
    """
    dtype = work.plan.derivative
    if wide and dtype != "float64":
        return work.numbers.slope, "plain"
    if form == "winners":
        return (dtype if windows == 1 else work.numbers.slope), "plain"
    if windows > 1 and dtype in ("float32", "float64") and form != "slopes":
        return dtype, "error"
    if windows > 1 and dtype == "float64":
        return dtype, "error"
    return (dtype if dtype == "float32" and form != "slopes" else work.numbers.slope), "plain"


# --- the operations -------------------------------------------------------------------------------


def _forward(work: Work) -> Maker:
    maker = Maker(work)
    _walk(maker, "outputs", ("y", "", ""))
    return maker


def _linearize(work: Work) -> Maker:
    maker = Maker(work)
    _walk(maker, "outputs", ("y", "winners", ""))
    return maker


def _jvp(work: Work) -> Maker:
    maker = Maker(work)
    _walk(maker, "outputs", ("y", "", "dy"), tangent="t")
    return maker


def _pull(work: Work) -> Maker:
    maker, plan, kind = Maker(work), work.plan, work.numbers
    if plan.residual.winners:
        way = work.back or quickest(times_of_winners(work))
        if way == "visited":
            _hand_over(maker)
        elif way != "ask":
            _winners_by_axes(maker, groupings(work.axes)[way])
        else:
            _gather(maker, work.axes, "winners", ("g", "winners", "", ""), "gx", 1)
    elif plan.is_linear and work.divisor:
        _sums_back(maker, "g", work.divisor)
    elif plan.is_linear:
        _means_back(maker)
    elif _are_blocks(work):
        _pull_blocks(maker)
    else:
        share, reference = "g", "y"
        if not (plan.kind in ("max", "min") and plan.option == "all"):
            share = maker.room("share", work.outputs, kind.slope)
            smooth = plan.kind in ("smooth_max", "lp")
            # A smooth maximum is shifted by one of its cells, or by 0: a number of their own dtype. Powers that have no
            # scale are beside 1, or infinity.
            dtype = plan.dtype if plan.kind == "smooth_max" else kind.compute
            dtype = plan.derivative if kind.kind.sums == "powers" else dtype
            reference = maker.room("reference", work.outputs, dtype) if smooth else ("y" if plan.residual.y else "")
            _walk(maker, "slopes", (reference if smooth else "", "", share), g="g")
        _gather(maker, work.axes, "slopes", (share, "", reference, "x"), "gx", 1)
    return maker


def _indices(work: Work) -> Maker:
    return _by_places(work, "", "found")


def _push(work: Work) -> Maker:
    return _by_places(work, "t", "dy")


def _by_places(work: Work, t: str, found: str) -> Maker:
    maker, (axes, pooled) = Maker(work), joined_for_indices(work.plan)
    over = math.prod(axis.output for axis in axes[:-1]), axes[-1].output
    constants = {"RANK": len(axes), "AXES": axis_numbers(axes), "POOLED": pooled, "INDICES": not t}
    constants["SKIPS"] = work.plan.skipped is not None
    values, sides = [over[0], work.cells, *_both(axes)], tile(*over, TILE)
    tensors = ["winners", t or "winners", found]
    maker.launch(place_kernel, over, sides, tensors, values, constants, lengths=_outputs(axes))
    return maker


_MAKERS = {
    "forward": _forward,
    "linearize": _linearize,
    "jvp": _jvp,
    "push": _push,
    "pull": _pull,
    "indices": _indices,
}
