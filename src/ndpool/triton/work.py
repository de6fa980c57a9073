"""A plan as the kernels see it: axes that lie together are one, and each operation is a list of walks.

direct   all axes at once, or some of them: the cost is the number of a window's cells
axes     one axis after the other: the cost is the sum of the kernel's sides
parts    few long windows, cut into parts so that there is work for the whole card
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ..plan import ITEM_BYTES, Plan
from . import times
from .arithmetic import KindNumbers, is_nvidia
from .windows import AxisNumbers

#: The axes that a kernel can have, after those that lie together are joined.
MOST_AXES = 8

#: Windows of up to so many cells may go over several axes at once.
DIRECT_CELLS = 256

#: Windows in steps of one are wide from this kernel on: neighbours share what they have of their cells.
WIDE_KERNEL = 8

#: How many neighbours share the cells of longer ones: those that are no longer written out; see `slide_far`. Of two
#: blocks of cells one at least is seen by all.
FAR_NEIGHBOURS = 8

#: Loops of up to so many steps are unrolled; those with exponentials and powers in each, which compile for long.
UNROLLED, UNROLLED_POWERS = 32, 9

#: Windows from this length on are read by neighbouring threads, where they lie along the last axis and apart: threads
#: that read so far from each other ask the nearest cache for a line each. Unless they are long, windows so near to each
#: other are not apart. On the way back, rows of blocks are cut from a length on.
LONG, FAR, LONG_BLOCK = 24, 10, 16

#: How far apart the cells of a window may lie where channels and the axis outside of them are one.
FARTHEST = 32

#: Outputs that keep the whole card busy: one in each place of a tile, or one a tile.
MANY_OUTPUTS, MANY_TREES = 1 << 18, 1 << 9

#: The cells of a part of a window where there are fewer: at most, and at least.
PART, LEAST_PART = 4096, 32

#: Up to so many channels are few; how many cells a part of theirs has, all channels counted: at most, and at least.
#: Parts are large where there are so many.
FEW_CHANNELS, PART_OF_CHANNELS, LEAST_OF_CHANNELS, MANY_PARTS = 8, 8192, 2048, 1 << 10

LARGEST_INT = 2**31 - 1

#: Numbers up to here are divided exactly by floats.
EXACT_QUOTIENTS = 2**21

#: How often the smallest bfloat16 can be halved until a float32 has no smaller number.
ROOM_BELOW_BFLOAT16 = 16

#: The columns over which the cells of one window lie, and how many of 16 bits may be added one after the other. Windows
#: over several axes are read by neighbouring threads if they have so many cells, and up to so many.
COLUMNS_OF_TREE = 512
IN_A_ROW = 512
FEWEST_OF_TREE, CELLS_OF_TREE = 16, 4096


#: Powers of a float32 or bfloat16 that a double holds, whatever the number, and of a float16 that a float32 holds;
#: those of a double, as a rule.
WHOLE_POWERS = (1, 2, 3, 4)


class Axis(NamedTuple):
    """One axis in the order of memory."""

    length: int
    output: int
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    lo: int = 0
    hi: int = 0
    adaptive: int = 0
    #: The outputs of one bin, each of which sees as many of its cells as the stride says; the last may see fewer.
    parts: int = 1

    @property
    def padded(self) -> int:
        """The length with its padding: no number that places are found by is twice as large."""
        return self.length + self.lo + self.hi

    @property
    def is_carried(self) -> bool:
        return self.length == self.output and self[2:] == (1, 1, 1, 0, 0, 0, 1)

    @property
    def end(self) -> int:
        """The place after the last one that a window has; it may be beyond the last cell."""
        return (self.output - 1) * self.stride - self.lo + (self.kernel - 1) * self.dilation + 1

    @property
    def is_whole(self) -> bool:
        """Whether there is one window, over all cells and nothing else."""
        return self.output == 1 and self.kernel == self.length and not (self.lo or self.hi) and self.dilation == 1

    @property
    def is_blocks(self) -> bool:
        """Whether windows lie side by side and leave no cell out."""
        return self == Axis(self.output * self.kernel, self.output, self.kernel, self.kernel)


def carried(length: int) -> Axis:
    return Axis(length, length)


@dataclass(frozen=True)
class Walk:
    """One launch: axes of the source with the numbers of their windows, and where its places stand among the pool's."""

    axes: tuple[Axis, ...]
    scale: int
    tree: bool

    @cached_property
    def cells(self) -> int:
        return math.prod(axis.kernel for axis in self.axes)

    @cached_property
    def rows(self) -> int:
        return math.prod(axis.output for axis in self.axes[:-1])

    @cached_property
    def outputs(self) -> int:
        return self.rows * self.axes[-1].output


def joined(plan: Plan) -> tuple[Axis, ...]:
    """The axes of a plan in the order of memory, with neighbours as one where they are all carried or all whole.

    A pooled axis whose windows have one cell is carried.

    >>> from ndpool import Max, Pool, Window
    >>> from ndpool.plan import plan_of
    >>> [axis[:4] for axis in joined(plan_of(Pool(Max(), Window((2,)), axes=1), (3, 8, 5, 4), "float32"))]
    [(3, 3, 1, 1), (8, 4, 2, 2), (20, 20, 1, 1)]
    """
    found = in_one(axis for axis, _ in _axes_of(plan))
    if plan.kind in ("max", "min", "sum", "avg") and ITEM_BYTES[plan.dtype] <= 4:
        found[-2:] = _with_channels(found[-2:])  # more numbers for each cell would leave no registers
    return _as_many_as_there_are(plan, found)


def joined_for_indices(plan: Plan) -> tuple[tuple[Axis, ...], tuple[int, ...]]:
    """The same where winners are read, and of each axis whether it is pooled: such axes count in a winner's index.

    So no pooled axis is one with another that is not.

    >>> from ndpool import Max, Pool, Window
    >>> from ndpool.plan import plan_of
    >>> axes, pooled = joined_for_indices(plan_of(Pool(Max(), Window((1, 2)), axes=(2, 3)), (3, 8, 5, 4), "float32"))
    >>> [axis[:4] for axis in axes], pooled
    ([(24, 24, 1, 1), (5, 5, 1, 1), (4, 2, 2, 2)], (0, 1, 1))
    """
    found: list[Axis] = []
    flags: list[int] = []
    for pooled, alike in itertools.groupby(_axes_of(plan), key=lambda each: each[1]):
        axes = in_one(axis for axis, _ in alike)
        found += axes
        flags += [int(pooled)] * len(axes)
    return _as_many_as_there_are(plan, found), tuple(flags) or (0,)


def _axes_of(plan: Plan) -> list[tuple[Axis, bool]]:
    """The axes in the order of memory that have more than one cell, or windows over padding; and which are pooled."""
    found = [
        (carried(*numbers) if len(numbers) == 1 else _plain(Axis(*numbers)), len(numbers) > 1) for numbers in plan.dims
    ]
    return [(axis, pooled) for axis, pooled in found if axis.length != 1 or not axis.is_carried]


def _as_many_as_there_are(plan: Plan, axes: list[Axis]) -> tuple[Axis, ...]:
    """The axes, if a kernel can have so many; one where there are none."""
    if len(axes) > MOST_AXES:
        raise NotImplementedError(
            f"{plan.window!r} over shape {plan.shape} has {len(axes)} axes that cannot be joined, and the engine "
            f"for GPUs has {MOST_AXES}; call .cpu() on the tensor"
        )
    return tuple(axes) or (carried(1),)


def in_one(axes: Iterable[Axis]) -> list[Axis]:
    """The axes, with neighbours as one that are all carried or all whole."""
    found: list[Axis] = []
    for axis in axes:
        cells = found[-1].length * axis.length if found else 0
        if found and found[-1].is_carried and axis.is_carried:
            found[-1] = carried(cells)
        elif found and found[-1].is_whole and axis.is_whole and not (found[-1].is_carried or axis.is_carried):
            found[-1] = Axis(cells, 1, cells, cells)
        else:
            found.append(axis)
    return found


def _with_channels(last: list[Axis]) -> list[Axis]:
    """Windows in steps of one, and the few channels inside of each of their cells, as one axis.

    The cells of one channel lie as far apart as there are channels:

        3 channels, windows of 2        r g b r g b r g b
                                        *     *                the first window of the first channel
                                          *     *              that of the second one

    >>> _with_channels([Axis(8, 7, 2), carried(3)])[0][:5]
    (24, 21, 2, 1, 3)
    """
    if len(last) < 2 or not last[1].is_carried:
        return last
    axis, channels = last[0], last[1].length
    near = 1 < axis.kernel < WIDE_KERNEL and axis.dilation * (axis.kernel - 1) * channels <= FARTHEST
    if not near or axis.stride > 1 or axis.adaptive or axis.is_whole:
        return last
    length, output, dilation, lo, hi = (n * channels for n in (axis.length, axis.output, *axis[4:7]))
    return [Axis(length, output, axis.kernel, 1, dilation, lo, hi)]


def _plain(axis: Axis) -> Axis:
    """Bins that are all of one length are windows."""
    if axis.adaptive and axis.output and axis.length % axis.output == 0:
        side = axis.length // axis.output
        return Axis(axis.length, axis.output, side, side)
    return axis


def cut(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """A last axis whose windows lie side by side as two: one of windows, and one that each window sees the whole of.

    >>> [axis[:4] for axis in cut((carried(3), Axis(224, 7, 32, 32)))]
    [(3, 3, 1, 1), (7, 7, 1, 1), (32, 1, 32, 32)]
    """
    last = axes[-1]
    if not last.is_blocks or last.kernel < LONG_BLOCK or last.output == 1 or len(axes) == MOST_AXES:
        return axes
    return *axes[:-1], carried(last.output), Axis(last.kernel, 1, last.kernel, last.kernel)


def power_of_two(n: int) -> int:
    """The next one.

    >>> power_of_two(5), power_of_two(8), power_of_two(0)
    (8, 8, 1)
    """
    return 1 << max(n - 1, 0).bit_length()


def walks(plan: Plan, axes: tuple[Axis, ...]) -> tuple[Walk, ...]:
    """The launches that make one state or output for each window: the way that should take the least time."""
    return min(possible_walks(axes), key=lambda steps: _time(plan, steps))


def possible_walks(axes: tuple[Axis, ...]) -> Iterator[tuple[Walk, ...]]:
    """All ways that may be good, each of which gives the same."""
    pooled = [i for i, axis in enumerate(axes) if not axis.is_carried]
    if not pooled:
        yield (Walk(axes, 1, False),)
        return
    for groups in _ways(axes, pooled):
        yield _walked(axes, groups)
    if len(pooled) > 1 and FEWEST_OF_TREE <= math.prod(axis.kernel for axis in axes) <= CELLS_OF_TREE:
        yield (Walk(axes, 1, True),)  # one launch, where few windows have many cells


def _ways(axes: tuple[Axis, ...], pooled: list[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """The pooled axes in groups of neighbours, each of which is walked over at once, in the orders that may be good.

    Of more than three groups, that which leaves least of its axes comes first.
    """
    for cuts in itertools.product((True, False), repeat=len(pooled) - 1):
        groups: list[tuple[int, ...]] = [(pooled[0],)]
        for i, is_cut in zip(pooled[1:], cuts, strict=True):
            groups[-1:] = [groups[-1], (i,)] if is_cut else [(*groups[-1], i)]
        if not all(_at_once(axes, group) for group in groups):
            continue
        groups.sort(key=lambda group: (math.prod(axes[i].output / max(axes[i].length, 1) for i in group), -group[0]))
        yield from itertools.permutations(groups) if len(groups) <= 3 else [tuple(groups)]


def _at_once(axes: tuple[Axis, ...], group: tuple[int, ...]) -> bool:
    return len(group) == 1 or math.prod(axes[i].kernel for i in group) <= DIRECT_CELLS


def _walked(axes: tuple[Axis, ...], groups: Iterable[tuple[int, ...]]) -> tuple[Walk, ...]:
    found: list[Walk] = []
    left = {i: axis.length for i, axis in enumerate(axes)}
    for group in groups:
        alone = tuple(axis if i in group else carried(left[i]) for i, axis in enumerate(axes))
        inner = math.prod(axis.kernel for axis in axes[group[-1] + 1 :])
        found += _along(alone, group[0], inner) if len(group) == 1 else (Walk(alone, inner, False),)
        left |= {i: axes[i].output for i in group}
    return tuple(found)


def _time(plan: Plan, steps: tuple[Walk, ...]) -> float:
    item, state, slow = ITEM_BYTES[plan.dtype], _state_bytes(plan, steps), _slowness(plan, steps)
    slides = plan.kind not in ("smooth_max", "lp")
    total = 0.0
    for i, step in enumerate(steps):
        inputs = math.prod(axis.length for axis in step.axes)
        last = step.axes[-1]
        slower = times.UNALIGNED if last.is_carried and last.length % 2 else 1
        moved = slower * ((state if i else item) * inputs + (item if i == len(steps) - 1 else state) * step.outputs)
        total += times.of_kernel(moved, _time_of_cells(step, item, slow, slides, i == 0, len(steps) == 1))
    return total


def _state_bytes(plan: Plan, steps: tuple[Walk, ...]) -> int:
    """What is kept of a window between two kernels: sums have twice the bits of cells, curved kinds more."""
    item = ITEM_BYTES[plan.dtype]
    if plan.kind in ("smooth_max", "lp"):
        return _bytes_of_powers(plan) if sums_powers(plan, steps) else 4 * item
    return item if plan.kind in ("max", "min") else 2 * item


def _bytes_of_powers(plan: Plan) -> int:
    return 4 if plan.dtype == "float16" else 8


def _slowness(plan: Plan, steps: tuple[Walk, ...]) -> float:
    """How many times as long a cell takes as a maximum of float32."""
    if plan.kind in ("smooth_max", "lp"):
        powers = times.POWER_AS_DOUBLE if _bytes_of_powers(plan) == 8 else 1
        return powers if sums_powers(plan, steps) else times.CURVED
    if plan.kind in ("max", "min"):
        if plan.dtype == "float64":
            return times.MAXIMUM_OF_DOUBLES * (2 if any(step.tree for step in steps) else 1)
        return 0.5 if "float16" in plan.dtype else max(1, ITEM_BYTES[plan.dtype] / 4)  # floats of 16 bits go in pairs
    return times.WITH_ERROR if plan.dtype == "float64" else 1


def _time_of_cells(step: Walk, item: int, slow: float, slides: bool, first: bool, alone: bool) -> float:
    """What a launch does with cells. Windows in steps of two share what they read."""
    if step.tree:
        if sum(not axis.is_carried for axis in step.axes) == 1:
            return slow * times.CELL_OF_TREE * step.cells * step.outputs
        columns = min(COLUMNS_OF_TREE, power_of_two(step.cells))
        each = -(-step.cells // columns) * columns
        return times.JOINED + slow * times.CELL_OF_TREE_OVER_AXES * each * step.outputs
    last = step.axes[-1]
    apart = item * last.stride if last.stride > 2 else 0
    further = max(1, min(apart, times.SECTOR) / times.NEAR)
    if slides and is_wide(step):
        in_rows = not (first or last.is_carried)
        cells = times.SLIDING_IN_ROWS if in_rows else times.SLIDING
        if step.cells <= UNROLLED:
            return slow * times.CELL * min(step.cells, cells) * step.outputs
        work = slow * times.CELL * (cells + step.cells // FAR_NEIGHBOURS) * step.outputs
        return max(work, times.CELL_IN_TURN * step.cells)
    if step.cells <= (UNROLLED_POWERS if slow == times.CURVED else UNROLLED):
        cell = times.CELL_IN_GROUP if slides and alone and in_groups(last) else times.CELL
        work = slow * cell * step.cells * step.outputs * further
        return max(work, times.WRITTEN_OUT_IN_TURN * step.cells)
    further = times.APART_IN_SHORT_ROWS if apart and last.output < times.SHORT_ROW else further
    work = slow * times.CELL_IN_LOOP * step.cells * step.outputs * further
    return max(work, times.CELL_IN_TURN * step.cells)


def in_groups(axis: Axis) -> bool:
    """Whether windows go in steps of 1 or 2, over rows that are worth to be read whole."""
    return axis.stride <= 2 and axis.dilation == 1 and axis.kernel > 1 and axis.output >= 8 and not axis.adaptive


def is_wide(step: Walk) -> bool:
    """Whether windows are long, along one axis, in steps of one, and neighbours enough to share what they have."""
    pooled = [axis for axis in step.axes if not axis.is_carried]
    in_ones = len(pooled) == 1 and pooled[0][3:5] == (1, 1) and not pooled[0].adaptive
    if not in_ones or pooled[0].kernel < WIDE_KERNEL:
        return False
    return not is_far(pooled[0]) or (pooled[0].output >= FAR_NEIGHBOURS and pooled[0].kernel >= 2 * FAR_NEIGHBOURS)


def is_far(axis: Axis) -> bool:
    """Whether a window has more cells than are written out."""
    return axis.kernel > UNROLLED


def _is_long(axes: tuple[Axis, ...], i: int) -> bool:
    """Whether windows along the last axis are so long and far apart that neighbours would read far from each other."""
    axis = axes[i]
    apart = axis.length // max(axis.output, 1)
    far = 2 * apart >= axis.kernel and (apart >= FAR or axis.kernel > UNROLLED)
    return i == len(axes) - 1 and axis.kernel >= LONG and far


def _along(axes: tuple[Axis, ...], i: int, scale: int) -> tuple[Walk, ...]:
    """The windows along one axis: at once or, where they are few and long, their parts and then the windows over these.

    Those are cut in the same way, as long as they starve the card.
    """
    axis, inner = axes[i], math.prod(each.length for each in axes[i + 1 :])
    if not ((axis.adaptive or axis.is_blocks) and _is_starved(axes, i)):
        return (Walk(axes, scale, _is_long(axes, i)),)
    # With few channels inside, a part and all its channels are read by neighbouring threads.
    together = inner <= FEW_CHANNELS
    cells, part = math.prod(each.length for each in axes), PART
    if together and inner > 1:
        part = PART_OF_CHANNELS
        while part > LEAST_OF_CHANNELS and cells < part * MANY_PARTS:
            part //= 2
        part >>= (inner - 1).bit_length()
    if together and axis.kernel <= 2 * part:
        return (Walk(axes, scale, True),)
    while not together and part > LEAST_PART and cells < part * MANY_OUTPUTS:
        part //= 2
    # No part may be empty, not even the last one of the shortest bin.
    while (-(-axis.kernel // part) - 1) * part >= axis.length // axis.output:
        part += 1
    count = -(-axis.kernel // part)
    parts = Axis(axis.length, axis.output * count, part, part)
    if not axis.is_whole:
        parts = parts._replace(adaptive=1, parts=count)
    windows = Axis(axis.output * count, axis.output, count, count)
    first = Walk((*axes[:i], parts, *axes[i + 1 :]), scale, together)
    rest = *axes[:i], windows, *axes[i + 1 :]
    if inner > 1 and count <= PART and math.prod(each.output for each in rest) < MANY_TREES:
        return first, Walk(rest, scale * part, True)  # so few that neighbours may read far from each other
    return first, *_along(rest, i, scale * part)


def _is_starved(axes: tuple[Axis, ...], i: int) -> bool:
    """Whether there are so few outputs, of so many cells each, that most of the card would have nothing to do."""
    outputs = math.prod(axis.output for axis in axes)
    if i == len(axes) - 1:
        return 0 < outputs < MANY_TREES and axes[i].kernel > 2 * PART
    return 0 < outputs < MANY_OUTPUTS and axes[i].kernel > 2 * LEAST_PART


def axis_numbers(axes: tuple[Axis, ...], unrolled: bool = True) -> tuple[tuple[int, ...], ...]:
    """The axes as a kernel is compiled for them.

    One window over the whole axis is a bin, of which there is one, so that no length is among the numbers. Nor is that
    of the kernel where a loop is not unrolled and the window lies along one axis: its places are the cells themselves.
    """
    inner = [math.prod(axis.kernel for axis in axes[i + 1 :]) for i in range(len(axes))]
    alone = not unrolled and sum(not axis.is_carried for axis in axes) == 1
    return tuple(tuple(_axis_numbers(axis, inner[i], alone)) for i, axis in enumerate(axes))


def _axis_numbers(axis: Axis, inner: int, alone: bool) -> AxisNumbers:
    if axis.is_whole and axis.length > 1:
        return AxisNumbers(0 if alone else axis.kernel, 1, 1, 0, 0, 2, inner, 0, 1)
    kernel = 0 if alone and axis.kernel > 1 and axis.adaptive else axis.kernel
    overhangs = int(bool(axis.adaptive) or axis.end > axis.length)
    products = (axis.length + 1) * (axis.output + 1)
    bins = axis.adaptive and (3 if products > LARGEST_INT else 4 if products > EXACT_QUOTIENTS else 1)
    return AxisNumbers(kernel, axis.stride, axis.dilation, axis.lo, axis.hi, bins, inner, overhangs, axis.parts)


def divisor(plan: Plan, axes: tuple[Axis, ...]) -> int:
    """What all means are divided by; 0 where that differs from window to window, or from one long axis to another."""
    option = plan.option.partition(" ")[0]
    if plan.kind != "avg" or (plan.skipped is not None and option != "fixed"):
        return 1 if plan.kind != "avg" else 0
    if option == "fixed":
        return int(plan.parameter)
    for axis in axes:
        beyond = axis.hi if option == "counted" else 0
        before = axis.lo if option == "real" else 0
        of_any_length = axis.is_whole and axis.kernel > UNROLLED
        if axis.adaptive or of_any_length or before or axis.end > axis.length + beyond:
            return 0
    return math.prod(axis.kernel for axis in axes)


@dataclass(frozen=True)
class Numbers:
    """The numbers that a kernel computes with: the kind, and the dtypes of its state and of derivatives."""

    kind: KindNumbers
    compute: str
    second: str
    slope: str


def numbers(plan: Plan, steps: tuple[Walk, ...]) -> Numbers:
    """How a kind is computed. Sums of floats have more bits than these (rule "Accumulation").

    Those of 16 bits have 32, or 64 where many cells are added one after the other. Those of 32 bits have 64, and those
    of 64 bits are kept beside their error. A bfloat16 is as large as a float32 can be. So its sums of 32 bits are of
    cells that are divided by a power of two, which leaves no bit of them out: their smallest has that much room.
    """
    cells = math.prod(step.cells for step in steps)
    in_a_row = max(step.cells // COLUMNS_OF_TREE if step.tree else step.cells for step in steps)
    option, _, rounding = plan.option.partition(" ")
    dtype, narrow = plan.dtype, plan.dtype in ("float16", "bfloat16")
    floats, places = "float" in dtype, "int32" if cells <= LARGEST_INT else "int64"
    wide, scale = "float32" if narrow and in_a_row <= IN_A_ROW else "float64", 1.0
    if plan.kind in ("sum", "avg") and dtype == "bfloat16" and wide == "float32":
        halvings = (cells - 1).bit_length()
        wide, scale = ("float32", 0.5**halvings) if halvings <= ROOM_BELOW_BFLOAT16 else ("float64", 1.0)
    sums, slope = "plain", wide
    if plan.kind in ("sum", "avg"):
        compute = second = wide if floats else "int64"
        if dtype == "float64":
            sums = "error"
        elif dtype in ("int64", "uint64") and plan.kind == "avg":
            sums = "halves"
    elif plan.kind in ("max", "min"):
        in_pairs = is_nvidia() and not any(step.tree for step in steps)
        compute = "float32" if dtype == "bfloat16" and not in_pairs else dtype
        second = places
        slope = dtype if option == "first" and dtype in ("float32", "float64") else wide
    else:
        compute = "float32" if narrow or (dtype == "float32" and plan.kind == "smooth_max") else "float64"
        if sums_powers(plan, steps):
            sums = "powers of doubles" if dtype == "float64" else "powers"
            compute = "float32" if dtype == "float16" else "float64"
        second = slope = compute if cells <= 64 else "float64"
    lead = "min" if plan.kind == "min" or (plan.kind == "smooth_max" and plan.parameter < 0) else "max"
    skip, value, least = "no", "0", 1
    if plan.skipped is not None:
        value, least = repr(plan.skipped.value), plan.skipped.min_count
        skip = "nan" if value == "nan" or plan.skipped_as_nan is not None else "value"
    worst = pad = repr(_worst(plan, lead, compute))
    if plan.kind == "smooth_max" and option == "counted" and skip == "no" and _pads_are_cells(steps):
        option, pad = "real", "0.0"
    cells_not_there = skip, value, least, places
    kind = KindNumbers(plan.kind, option, plan.parameter, sums, rounding, lead, worst, pad, *cells_not_there, scale)
    return Numbers(kind, compute, second, slope)


def sums_powers(plan: Plan, steps: tuple[Walk, ...]) -> bool:
    """Whether powers are added up as they are: a float32 holds those of every float16, and a double all but its own.

    Those of doubles may be unusual, and then the whole window is walked over again.
    """
    if plan.kind != "lp" or plan.parameter not in WHOLE_POWERS or any(step.tree for step in steps):
        return False
    return len(steps) == 1 or plan.dtype != "float64"


def _pads_are_cells(steps: tuple[Walk, ...]) -> bool:
    """Whether all padded cells count that a window has, and are read with the others.

    Those beyond the padding, which only `ceil_mode` reaches, do not count.
    """
    if len(steps) > 1 or steps[0].tree:
        return False
    return not any(axis.adaptive or axis.end > axis.length + axis.hi for axis in steps[0].axes)


def _worst(plan: Plan, lead: str, compute: str) -> float:
    """What every cell beats, or is at least as good as; of the kinds that add up, 0."""
    if plan.kind in ("sum", "avg", "lp"):
        return 0 if "int" in compute else 0.0
    if "float" in compute:
        return -math.inf if lead == "max" else math.inf
    bits = int(compute.lstrip("uint"))
    least, most = (0, (1 << bits) - 1) if compute.startswith("u") else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return least if lead == "max" else most


def asked(axes: tuple[Axis, ...]) -> tuple[tuple[int, int], ...]:
    """For each axis, how many windows may see a cell along it, and the product of those numbers of the axes inside."""
    counts = [windows_over_a_cell(axis) for axis in axes]
    return tuple((count, math.prod(counts[i + 1 :])) for i, count in enumerate(counts))


def windows_over_a_cell(axis: Axis) -> int:
    """How many windows may see a cell along an axis: in steps of one, those that have it at one of their places."""
    near = windows_in_reach(axis)
    return min(near, axis.kernel) if axis.stride == 1 and not (axis.adaptive or axis.is_whole) else near


def windows_in_reach(axis: Axis) -> int:
    """How many windows may have a cell between their first and last one."""
    if axis.adaptive or axis.is_whole:
        return min(axis.output, -(-axis.output // axis.length) + 1)
    return min(axis.output, axis.dilation * (axis.kernel - 1) // axis.stride + 1) if axis.kernel > 1 else 1


class Taps(NamedTuple):
    """The way back of windows in small steps; see `gathering`."""

    steps: tuple[int, ...]
    taps: tuple[tuple[tuple[int, ...], ...], ...]
    margins: tuple[int, ...]
    phases: int
    blocks: tuple[int, ...]

    @property
    def constants(self) -> dict[str, object]:
        """What the kernel is compiled for: every phase has as many taps, of which it may use fewer."""
        most, none = max(map(len, self.taps)), (0,) * (len(self.steps) + 1)
        return {
            "STEPS": self.steps,
            "TAPS": tuple(tap for phase in self.taps for tap in (*phase, *[none] * (most - len(phase)))),
            "COUNTS": tuple(map(len, self.taps)),
            "MOST": most,
            "MARGINS": self.margins,
            "PHASES": self.phases,
        }


#: The way back goes by taps where blocks have up to so many cells, and these up to so many taps in all.
BLOCK_CELLS = 8
MOST_TAPS = 64


def taps(axes: tuple[Axis, ...]) -> Taps | None:
    """Who sees each phase of a block of cells; None where that is not the same in all blocks, or too much."""
    steps = tuple(axis.stride if axis.kernel > 1 or axis.stride > 1 else 1 for axis in axes)
    if (
        any(a.adaptive or (a.is_whole and a.length > 1) for a in axes)
        or math.prod(steps) > BLOCK_CELLS
        or steps[-1] > 2
    ):
        return None
    lines = [_taps_along(axis, math.prod(a.kernel for a in axes[i + 1 :])) for i, axis in enumerate(axes)]
    if math.prod(sum(map(len, line)) for line in lines) > MOST_TAPS:
        return None
    # The last axis's phase comes first, then those of the axes before it, from the inside.
    orders = itertools.product(*(range(step) for step in steps))
    found = {
        phase: tuple(
            (*(o for o, _ in each), sum(place for _, place in each))
            for each in itertools.product(*(line[p] for line, p in zip(lines, phase, strict=True)))
        )
        for phase in orders
    }
    listed = tuple(found[phase] for phase in sorted(found, key=lambda phase: (phase[:-1], phase[-1])))
    blocks = tuple(-(-axis.length // step) for axis, step in zip(axes, steps, strict=True))
    furthest = [max((o for phase in line for o, _ in phase), default=0) for line in lines]
    margins = tuple(min(a.output - n, most) for n, most, a in zip(blocks, furthest, axes, strict=True))
    return Taps(steps, listed, margins, math.prod(steps[:-1]), blocks)


def _taps_along(axis: Axis, inner: int) -> list[list[tuple[int, int]]]:
    """For each phase along one axis, how far from its block the outputs over it are, and the place it has in them."""
    found: list[list[tuple[int, int]]] = []
    for phase in range(axis.stride if axis.kernel > 1 or axis.stride > 1 else 1):
        away = [phase + axis.lo - k * axis.dilation for k in range(axis.kernel)]
        found.append([(a // axis.stride, k * inner) for k, a in enumerate(away) if a % axis.stride == 0][::-1])
    return found
