"""The loops over the outputs of a plan, as C: which cells each output sees, without a test inside a window.

    for each output, in row-major order
        along each pooled axis: where its real cells begin, and how many they are
        hand these cells to a function of the kind

Along the innermost pooled axis, outputs whose windows lie inside are a loop of their own, with constant windows, if the
windows along the other axes lie inside as well. The edges are what is left.

Everything is read from the `Axis`es of a plan: output i starts at `i*stride - pad_lo`, its cells are `dilation` apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..plan import Plan
from ..windows import Axis
from .text import block, indented, plus, product

#: What the axes of a window are called, by their number: the output's place, and the cells along it.
NAMES = {
    1: (("place", "cells"),),
    2: (("row", "rows"), ("column", "columns")),
    3: (("plane", "planes"), ("row", "rows"), ("column", "columns")),
}
#: What the axes are called that are carried along, from the outermost.
CARRIED = ("channel", "group", "part")

#: Inputs and outputs have fewer cells than these.
MOST_CELLS = 1 << 28
#: Windows of so many cells are written out, cell by cell.
UNROLLED = 16


@dataclass(frozen=True)
class Carried:
    """An axis that is not pooled: so many slabs, so far apart in the input."""

    name: str
    size: int
    apart: int


@dataclass(frozen=True)
class Pooled:
    """A pooled axis: its numbers, and how far apart its cells are in the input."""

    name: str
    cells: str
    axis: Axis
    apart: int

    @property
    def step(self) -> int:
        """From one cell of a window to the next, in memory."""
        return self.axis.dilation * self.apart

    def start(self, i: int) -> int:
        return i * self.axis.stride - self.axis.pad_lo

    @cached_property
    def starts_before(self) -> bool:
        """Whether a window starts in the padding before the axis."""
        return not self.axis.adaptive and self.axis.pad_lo > 0

    @cached_property
    def ends_after(self) -> bool:
        """Whether a window reaches beyond the axis."""
        return not self.axis.adaptive and self._end(self.axis.output - 1) > self.axis.length

    def _end(self, i: int) -> int:
        return self.start(i) + self.axis.dilation * (self.axis.kernel - 1) + 1

    @cached_property
    def varies(self) -> bool:
        """Whether windows have different numbers of real cells along the axis."""
        return self.axis.adaptive or self.starts_before or self.ends_after

    @cached_property
    def may_be_empty(self) -> bool:
        return self.axis.empty_window() is not None

    @cached_property
    def count_varies(self) -> bool:
        """Whether windows reach beyond the padding at the end, where cells do not count."""
        axis = self.axis
        return axis.adaptive or self._end(axis.output - 1) > axis.length + axis.pad_hi

    @cached_property
    def inside(self) -> range:
        """The outputs whose windows lie inside the axis; none, if the windows are bins."""
        axis = self.axis
        if axis.adaptive:
            return range(0)
        first = min(axis.output, -(-axis.pad_lo // axis.stride))
        room = axis.length - 1 - axis.dilation * (axis.kernel - 1) + axis.pad_lo
        return range(first, max(first, min(axis.output, room // axis.stride + 1)))

    def reach(self) -> int:
        """A bound on every number that is computed along the axis."""
        axis = self.axis
        if axis.adaptive:
            return (axis.output + 1) * axis.length + axis.output
        far = axis.output * axis.stride + axis.dilation * axis.kernel
        return far + axis.length + axis.pad_lo + axis.pad_hi

    # --- in C ---

    def extent(self, index: str, *, count: bool = False, start: bool = False) -> list[str]:
        """Where the cells of an output begin along this axis, and how many they are.

        With `count`, also how many cells of it count, padding included; with `start`, only where the window starts.
        """
        axis, name = self.axis, self.name
        if axis.adaptive:
            end = f"(({name} + 1) * {axis.length} + {axis.output - 1}) / {axis.output}"
            lines = [f"const {index} {name}_first = {name} * {axis.length} / {axis.output};"]
            return lines if start else [*lines, f"const {index} {self.cells} = {end} - {name}_first;"]
        started = [f"const {index} {name}_start = {self._started()};"]
        if start:
            return started
        if not self.varies:
            return []
        counted = self._within(index, f"{self.cells}_counted", axis.length + axis.pad_hi)
        return started + self._real_cells(index) + (counted if count and self.count_varies else [])

    def _started(self) -> str:
        text = product(self.name, str(self.axis.stride))
        return f"{text} - {self.axis.pad_lo}" if self.axis.pad_lo else text

    def _real_cells(self, index: str) -> list[str]:
        axis, name = self.axis, self.name
        lines: list[str] = []
        if self.starts_before:
            missing = (
                f"-{name}_start" if axis.dilation == 1 else f"({axis.dilation - 1} - {name}_start) / {axis.dilation}"
            )
            lines.append(f"const {index} {name}_skipped = {name}_start < 0 ? {missing} : 0;")
        end = str(axis.kernel)
        if self.ends_after:
            lines += self._within(index, f"{name}_end", axis.length)
            end = f"{name}_end"
        if self.varies:
            cells = f"{end} - {name}_skipped" if self.starts_before else end
            if self.may_be_empty:
                begun = f"{name}_skipped" if self.starts_before else "0"
                cells = f"{end} > {begun} ? {cells} : 0"
            lines.append(f"const {index} {self.cells} = {cells};")
        if self.may_be_empty:
            lines.append(f"const {index} {name}_first = {self.cells} > 0 ? {self._first()} : 0;")
        elif self.starts_before:
            lines.append(f"const {index} {name}_first = {self._first()};")
        return lines

    def _within(self, index: str, name: str, limit: int) -> list[str]:
        """How many cells of the window lie before a limit."""
        axis = self.axis
        left = f"{limit} - {self.name}_start"
        if axis.dilation > 1:
            left = f"({limit + axis.dilation - 1} - {self.name}_start) / {axis.dilation}"
        return [
            f"const {index} {name}_left = {left};",
            f"const {index} {name} = {name}_left < {axis.kernel} ? {name}_left : {axis.kernel};",
        ]

    def first(self) -> str:
        """The place of the first real cell of a window along the axis."""
        if self.axis.adaptive or self.starts_before or self.may_be_empty:
            return f"{self.name}_first"
        return self._first() if self.varies else self._started()

    def _first(self) -> str:
        if not self.starts_before:
            return f"{self.name}_start"
        skipped = product(f"{self.name}_skipped", str(self.axis.dilation))
        return f"{self.name}_start + {skipped}"

    def skipped(self) -> str:
        """How many cells of a window lie before the first that is real."""
        return f"{self.name}_skipped" if self.starts_before else "0"

    def size(self) -> str:
        """How many real cells a window has along the axis."""
        return self.cells if self.varies else str(self.axis.kernel)

    def counted(self) -> str:
        """How many cells of a window count along the axis, padding included."""
        if self.axis.adaptive:
            return self.cells
        return f"{self.cells}_counted" if self.count_varies else str(self.axis.kernel)


class Nest:
    """The axes of a plan in the order of memory, as few as they can be, and the loops over its outputs."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.levels = _levels(plan)
        self.pooled = [level for level in self.levels if isinstance(level, Pooled)]
        self.index = _index_type(plan, self.levels)

    @cached_property
    def varies(self) -> bool:
        """Whether windows have different numbers of real cells."""
        return any(level.varies for level in self.pooled)

    @cached_property
    def cells(self) -> int:
        """How many cells a window has that lies inside; of bins, a bound."""
        return math.prod(level.axis.kernel for level in self.pooled)

    @cached_property
    def has_inside(self) -> bool:
        """Whether there is an output whose window lies inside along every axis."""
        return all(level.inside for level in self.pooled)

    def offsets(self) -> list[int]:
        """Where the cells of a whole window are, from its first, in row-major order."""
        found = [0]
        for level in self.pooled:
            found = [place + k * level.step for place in found for k in range(level.axis.kernel)]
        return found

    def first_cell(self) -> str:
        """The place in the input of the first real cell of an output."""
        return self._place(lambda level: level.first())

    def first_whole(self) -> str:
        """The same of an output whose window lies inside."""
        return self._place(lambda level: level._started())

    def window_start(self) -> str:
        """The place in the input where a window starts, which may lie in the padding."""
        return self._place(lambda level: f"{level.name}_start" if not level.axis.adaptive else level.first())

    def _place(self, of: Callable[[Pooled], str]) -> str:
        terms = []
        for level in self.levels:
            place = level.name if isinstance(level, Carried) else of(level)
            if level.apart != 1 and " " in place:
                place = f"({place})" if "+" in place or " - " in place else place
            terms.append(product(place, str(level.apart)))
        return plus(*terms)

    def loops(self, part: Sequence[str], whole: Sequence[str] | None, **wanted: bool) -> list[str]:
        """The loops: `whole` at the outputs inside, `part` at the others; without `whole`, `part` everywhere.

        `wanted` is what else `part` wants to know of each axis; see `Pooled.extent`.
        """
        return self._level(0, list(part), None if whole is None else list(whole), wanted)

    def _level(self, depth: int, part: list[str], whole: list[str] | None, wanted: dict[str, bool]) -> list[str]:
        if depth == len(self.levels):
            return part if whole is None else whole
        level = self.levels[depth]
        if isinstance(level, Carried):
            return self._for(level.name, 0, level.size, self._level(depth + 1, part, whole, wanted))
        if whole is not None and level is self.pooled[-1]:
            return self._split(depth, level, part, whole, wanted)
        inner = [*level.extent(self.index, **wanted), *self._level(depth + 1, part, whole, wanted)]
        return self._for(level.name, 0, level.axis.output, inner)

    def _split(
        self, depth: int, level: Pooled, part: list[str], whole: list[str], wanted: dict[str, bool]
    ) -> list[str]:
        """The innermost pooled axis: a loop over the inside where it begins, and one output at a time elsewhere."""
        inside, outputs = level.inside, level.axis.output
        inner = self._level(depth + 1, whole, None, wanted)
        if not self.varies:
            return self._for(level.name, 0, outputs, inner)
        edge = [*level.extent(self.index, **wanted), *self._level(depth + 1, part, None, wanted), f"++{level.name};"]
        run = block(f"for (; {level.name} < {inside.stop}; ++{level.name})", inner)
        whole_elsewhere = [f"{other.cells} == {other.axis.kernel}" for other in self.pooled[:-1] if other.varies]
        begins = " && ".join([*whole_elsewhere, f"{level.name} == {inside.start}"])
        either = [*block(f"if ({begins})", run)[:-1], "} else {", *indented(edge), "}"]
        return [f"{self.index} {level.name} = 0;", *block(f"while ({level.name} < {outputs})", either)]

    def _for(self, name: str, start: int, stop: int, body: list[str]) -> list[str]:
        return block(f"for ({self.index} {name} = {start}; {name} < {stop}; ++{name})", body)


def _levels(plan: Plan) -> list[Carried | Pooled]:
    """The axes from the outermost in memory to the innermost, those joined that lie together and go alike."""
    pooled = dict(zip(plan.axes, plan.geometry, strict=True))
    joined: list[int | Axis] = []
    for d in plan.places:
        each: int | Axis = pooled.get(d, plan.shape[d])
        if isinstance(each, Axis) and _keeps_all(each):
            each = each.length
        if each == 1 or (isinstance(each, Axis) and each == Axis(1, 1, 1)):
            continue
        before = joined[-1] if joined else None
        if isinstance(each, int) and isinstance(before, int):
            joined[-1] = before * each
        elif isinstance(each, Axis) and isinstance(before, Axis) and _is_whole(each) and _is_whole(before):
            length = before.length * each.length
            joined[-1] = Axis(length, 1, kernel=length, stride=length)
        else:
            joined.append(each)
    return _named(joined)


def _keeps_all(axis: Axis) -> bool:
    """Whether every cell is a window by itself, so that nothing is pooled."""
    return (
        not axis.adaptive
        and (axis.kernel, axis.pad_lo) == (1, 0)
        and axis.output == axis.length
        and (axis.stride == 1 or axis.length == 1)
    )


def _is_whole(axis: Axis) -> bool:
    """Whether one window sees the whole axis."""
    plain = axis.dilation == 1 or axis.kernel == 1
    return not axis.adaptive and plain and (axis.output, axis.pad_lo) == (1, 0) and axis.kernel == axis.length


def _named(joined: list[int | Axis]) -> list[Carried | Pooled]:
    rank = sum(isinstance(each, Axis) for each in joined)
    names = list(NAMES.get(rank) or ((f"place_{d}", f"cells_{d}") for d in range(rank)))
    others = list(CARRIED) + [f"slab_{d}" for d in range(len(joined))]
    levels: list[Carried | Pooled] = []
    apart = 1
    for each in reversed(joined):
        if isinstance(each, int):
            levels.append(Carried("", each, apart))
            apart *= each
        else:
            levels.append(Pooled(*names.pop(), each, apart))
            apart *= each.length
    levels.reverse()
    return [
        Carried(others.pop(0), level.size, level.apart) if isinstance(level, Carried) else level for level in levels
    ]


def _index_type(plan: Plan, levels: Sequence[Carried | Pooled]) -> str:
    """`int`, which has 16 bits at least, where these do; `int32_t` where 32 are needed."""
    most = max(math.prod(plan.shape), math.prod(plan.output_shape), plan.cells)
    for level in levels:
        if isinstance(level, Pooled):
            most = max(most, level.reach() * (1 if level.axis.adaptive else level.apart))
    if most >= MOST_CELLS:
        raise ValueError(plan.too_large(f"it needs places from {MOST_CELLS} on, which no microcontroller has"))
    return "int" if most < 1 << 15 else "int32_t"
