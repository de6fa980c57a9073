"""What the kinds do with the cells of one window, as C functions.

A `Walk` goes over the cells: written out one by one, or in loops whose ends are constants or parameters. A kind says
what it does at each cell and at the end, once for every walk.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..plan import Plan
from .loops import UNROLLED, Nest
from .text import C_TYPES, block, comment, function, number, plus, product

#: Names of the loops over the cells of a window, from the outermost.
CELL_LOOPS = ("r", "q", "p", "o")


@dataclass(frozen=True)
class Walk:
    """The cells of a window from `cell` on: written out one by one, or in a loop along each axis.

    The numbers of cells along the axes are `constant`, or parameters of the function where windows differ.
    """

    nest: Nest
    written_out: bool
    constant: bool

    def sizes(self) -> list[str]:
        """How many cells there are along each axis."""
        return [str(level.axis.kernel) if self.constant else level.size() for level in self.nest.pooled]

    @property
    def parameters(self) -> list[str]:
        """The sizes that a function is told, as it declares them."""
        return [f"{self.nest.index} {size}" for size in self.sizes() if not size.isdigit()]

    @property
    def count(self) -> str:
        """How many cells there are, as C or as a number."""
        sizes = self.sizes()
        known = math.prod(int(size) for size in sizes if size.isdigit())
        return product(*(size for size in sizes if not size.isdigit()), str(known))

    def each(self, statement: Callable[[str], list[str]], but_first: bool = False) -> list[str]:
        """A statement at each cell, given its place from `cell` on."""
        if self.written_out:
            offsets = self.nest.offsets()[1 if but_first else 0 :]
            return [line for offset in offsets for line in statement(str(offset))]
        return self._loop(0, [], statement)

    def _loop(self, depth: int, terms: list[str], statement: Callable[[str], list[str]]) -> list[str]:
        if depth == len(self.nest.pooled):
            return statement(plus(*terms))
        level, name, size = self.nest.pooled[depth], _loop_name(depth), self.sizes()[depth]
        if size == "1":
            return self._loop(depth + 1, terms, statement)
        inner = self._loop(depth + 1, [*terms, product(name, str(level.step))], statement)
        return block(f"for ({self.nest.index} {name} = 0; {name} < {size}; ++{name})", inner)

    def place(self) -> str:
        """The number of a cell in its window, inside the loops."""
        sides = [level.axis.kernel for level in self.nest.pooled]
        looped = [d for d, size in enumerate(self.sizes()) if size != "1"]
        return plus(*(product(_loop_name(d), str(math.prod(sides[d + 1 :]))) for d in looped))


def _loop_name(depth: int) -> str:
    return CELL_LOOPS[depth] if depth < len(CELL_LOOPS) else f"cell_{depth}"


def parameters(*each: str) -> str:
    return ", ".join(each)


class Cells(ABC):
    """One kind: the functions that make an output of its cells. `name` stands before all that it defines."""

    #: Whether small windows are written out; not where each cell costs hundreds of instructions.
    writes_out: bool = True
    #: Whether the function of a part of a window is told how many cells count.
    counts: bool = False
    #: Headers that it needs.
    headers: tuple[str, ...] = ()

    #: Whether one function does all windows where these differ, those inside too.
    small: bool = False

    def __init__(self, plan: Plan, nest: Nest, name: str) -> None:
        self.plan, self.nest, self.name = plan, nest, name
        self.x, self.y = C_TYPES[plan.input], C_TYPES[plan.result]

    @abstractmethod
    def formula(self) -> list[str]:
        """What one output is, in lines for people."""

    @abstractmethod
    def body(self, walk: Walk, count: str) -> list[str]:
        """The value of a window, in C; `count` is how many cells count, padding included."""

    def accuracy(self) -> str:
        """How far results may be from the specification's, in words."""
        return "exact"

    def helpers(self, walk: Walk) -> list[list[str]]:
        """Functions that `body` calls."""
        return []

    # --- functions ---

    @property
    def whole(self) -> Walk | None:
        """The walk over a window that lies inside, where that has a function of its own."""
        small = self.writes_out and self.nest.cells <= UNROLLED
        if not self.nest.varies:
            return Walk(self.nest, small, constant=True)
        apart = small and self.nest.has_inside and not self.small
        return Walk(self.nest, True, constant=True) if apart else None

    @property
    def part(self) -> Walk | None:
        """The walk over what is real of a window, where windows differ."""
        return Walk(self.nest, False, constant=False) if self.nest.varies else None

    @property
    def any_walk(self) -> Walk:
        """The walk in loops, which does every window."""
        return self.part or Walk(self.nest, False, constant=True)

    @property
    def counted(self) -> str:
        """How many cells of a window count where it is called, padding included."""
        return product(*(level.counted() for level in self.nest.pooled if level.counted() != "1"))

    @property
    def count_varies(self) -> bool:
        return any(level.count_varies for level in self.nest.pooled)

    def functions(self) -> list[list[str]]:
        """All that the loops call."""
        found = self.helpers(self.any_walk)
        all_cells = str(self.nest.cells)
        if self.whole is not None:
            which = "A window that lies inside" if self.nest.varies else "A window"
            found.append(self._function("whole", self.whole, all_cells, f"{which}: {_sides(self.nest)}."))
        if self.part is not None:
            count = "count" if self.counts and self.count_varies else all_cells
            found.append(self._function("part", self.part, count, "The real cells of a window, from the first on."))
        return found

    def _function(self, which: str, walk: Walk, count: str, said: str) -> list[str]:
        told = [f"{self.nest.index} count"] if count == "count" else []
        given = parameters(f"const {self.x} *cell", *walk.parameters, *told)
        return [*comment(said), *function(f"static {self.y} {self.name}_{which}({given})", self.body(walk, count))]

    def call_whole(self, cell: str) -> str:
        return f"{self.name}_whole({cell})"

    def call_part(self, cell: str) -> str:
        """The call at an output whose extents are known."""
        sizes = [size for size in self.any_walk.sizes() if not size.isdigit()]
        told = [self.counted] if self.counts and self.count_varies else []
        return f"{self.name}_part({parameters(cell, *sizes, *told)})"


def _sides(nest: Nest) -> str:
    sides = [level.axis.kernel for level in nest.pooled]
    cells = math.prod(sides)
    return f"{' x '.join(map(str, sides)) or '1'} cell{'s' * (cells != 1)}"


# --- Max and Min ----------------------------------------------------------------------------------


class Extreme(Cells):
    """The cell that beats the others, the first of equals. Floats are compared by integers that are in their order."""

    def formula(self) -> list[str]:
        if self.x != "float":
            return [f"y = {self.plan.kind} x_i"]
        return [f"y = {self.plan.kind} x_i, and NaN if a cell is NaN"]

    @property
    def beats(self) -> str:
        return ">" if self.plan.kind == "max" else "<"

    def body(self, walk: Walk, count: str) -> list[str]:
        if self.x != "float":
            # As wide as the chip's registers are: a narrower one is made so again after every comparison.
            fast = self.x.replace("int", "int_fast")
            return [f"{fast} best = cell[0];", *walk.each(self._better, but_first=True), f"return ({self.x})best;"]
        last = str(self.nest.offsets()[-1]) if walk.written_out else ""
        steps = walk.each(lambda place: self.better_float(place, place != last), but_first=True)
        return [*self.start_of_floats(), *steps, "return best;"]

    def _better(self, place: str) -> list[str]:
        return block(f"if (cell[{place}] {self.beats} best)", [f"best = cell[{place}];"])

    def start_of_floats(self) -> list[str]:
        if self.nest.cells == 1:
            return ["float best = cell[0];"]
        return ["float best = cell[0];", f"int32_t most = {self.name}_rank(best);", "int32_t rank;"]

    def better_float(self, place: str, more: bool = True, *also: str) -> list[str]:
        """What is done at a cell; `also` where it beats all before it. The rank is kept if there are `more` to come."""
        if self.nest.cells == 1:
            return []
        taken = block(
            f"if (rank {self.beats} most)", [*(["most = rank;"] if more else []), f"best = cell[{place}];", *also]
        )
        return [f"rank = {self.name}_rank(cell[{place}]);", *taken]

    def helpers(self, walk: Walk) -> list[list[str]]:
        if self.x != "float" or self.nest.cells == 1:
            return []
        body = [
            "union {",
            "    float number;",
            "    int32_t bits;",
            "} same;",
            "same.number = value;",
            "const int32_t size = same.bits & INT32_C(0x7fffffff);",
            *block("if (size > INT32_C(0x7f800000))", [f"return INT32_{self.plan.kind.upper()};"]),
            "return same.bits < 0 ? -size : size;",
        ]
        said = (
            "An integer in the order of the floats, which chips without an FPU compare faster. A NaN beats all of them."
        )
        return [[*comment(said), *function(f"static int32_t {self.name}_rank(float value)", body)]]


# --- Sum and Avg ----------------------------------------------------------------------------------


class FloatSum(Cells):
    """The sum or mean of floats, added in float32 in row-major order."""

    def __init__(self, plan: Plan, nest: Nest, name: str) -> None:
        super().__init__(plan, nest, name)
        self.counts = plan.kind == "avg" and plan.option == "counted"

    def formula(self) -> list[str]:
        return [_mean_formula(self.plan)]

    def accuracy(self) -> str:
        return "n roundings of float32, relative to the sum of magnitudes, for a window of n cells"

    def body(self, walk: Walk, count: str) -> list[str]:
        start = "cell[0]" if walk.written_out else "0.0f"
        steps = walk.each(lambda place: [f"sum += cell[{place}];"], but_first=True)
        return [f"float sum = {start};", *steps, f"return {self._end(walk, count)};"]

    def _end(self, walk: Walk, count: str) -> str:
        by = self.divisor(walk, count)
        return "sum" if by == "1" else f"sum / {as_float(by)}"

    def divisor(self, walk: Walk, count: str) -> str:
        """What the sum is divided by."""
        if self.plan.kind == "sum":
            return "1"
        if self.plan.option == "fixed":
            return str(int(self.plan.parameter))
        return count if self.plan.option == "counted" else walk.count


def as_float(count: str) -> str:
    return f"{count}.0f" if count.isdigit() else f"(float)({count})"


def _mean_formula(plan: Plan) -> str:
    if plan.kind == "sum":
        return "y = sum of x_i"
    counted = plan.option.partition(" ")[0]
    by = {
        "fixed": f"{int(plan.parameter)}",
        "counted": "n, the number of its cells, padding included",
        "real": "n, the number of its cells, padding left out",
    }[counted]
    return f"y = (sum of x_i) / {by}"


@dataclass(frozen=True)
class Accumulator:
    """The integer that sums of a window are added up in, and why it is wide enough."""

    c_type: str
    why: str

    @property
    def unsigned(self) -> str:
        return self.c_type if self.c_type.startswith("u") else f"u{self.c_type}"


def accumulator(dtype: str, cells: int, rounded: bool) -> Accumulator:
    """The narrowest that holds the sum of so many cells, and what is added to round it.

    >>> accumulator("int8", 4, True)
    Accumulator(c_type='int_fast16_t', why='4 cells * 256 < 2^15')
    >>> accumulator("int8", 2**25, True).c_type
    'int64_t'
    """
    limits = np.iinfo(dtype)
    signed = limits.min < 0
    size = -int(limits.min) if signed else int(limits.max) + 1
    # A mean is made positive before it is rounded, which doubles a signed sum; a half of the divisor is less than that.
    most = size * (2 if rounded else 1)
    fits = [bits for bits in (15, 31, 63) if cells * most < 1 << bits]
    c_type = {15: "int_fast16_t", 31: "int32_t", 63: "int64_t"}[fits[0]]
    return Accumulator(c_type if signed else f"u{c_type}", f"{cells} cells * {most} < 2^{fits[0]}")


class IntegerSum(Cells):
    """The sum of integers, or their mean rounded once; exact."""

    def __init__(self, plan: Plan, nest: Nest, name: str) -> None:
        super().__init__(plan, nest, name)
        self.counted_by, _, self.rounding = plan.option.partition(" ")
        self.counts = plan.kind == "avg" and self.counted_by == "counted"
        self.accumulator = accumulator(plan.input, nest.cells, plan.kind == "avg")
        #: Added to a mean to make it positive, so that a division rounds down; even, so that parity stays.
        self.shift = -int(np.iinfo(plan.input).min)

    def formula(self) -> list[str]:
        lines = [_mean_formula(self.plan)]
        if self.rounding:
            lines.append(f"rounded {ROUNDED[self.rounding]}")
        return [*lines, f"The sum is {self.accumulator.c_type}: {self.accumulator.why}."]

    def body(self, walk: Walk, count: str) -> list[str]:
        sum_ = self.accumulator.c_type
        start = "cell[0]" if walk.written_out else "0"
        lines = [f"{sum_} sum = {start};", *walk.each(lambda place: [f"sum += cell[{place}];"], but_first=True)]
        if self.plan.kind == "sum":
            return [*lines, f"return ({self.y})sum;"]
        by = count if self.counted_by == "counted" else walk.count
        if by.isdigit():
            return [*lines, *self._mean(int(by))]
        return [*lines, f"const {sum_} n = ({sum_})({by});", *self._mean_of_any()]

    def _mean(self, n: int) -> list[str]:
        """The rounded mean for a divisor that is known."""
        rounding = "half_up" if self.rounding == "half_even" and n % 2 else self.rounding
        if n == 1:
            return [f"return ({self.y})sum;"]
        if rounding == "truncate" or (rounding == "floor" and not self.shift):
            return [f"return ({self.y})(sum / {n}{'' if self.shift else 'u'});"]
        if rounding == "half_even":
            return self._half_even(str(n))
        ahead = {"floor": 0, "half_up": n // 2, "half_away": n // 2}[rounding] + n * self.shift
        down = " - (sum < 0 ? 1 : 0)" if rounding == "half_away" and self.shift and n % 2 == 0 else ""
        return self._divided(f"sum + {ahead}{down}" if ahead or down else "sum", str(n))

    def _mean_of_any(self) -> list[str]:
        """The same for a divisor n that is known when it runs."""
        if self.rounding == "truncate" or (self.rounding == "floor" and not self.shift):
            return [f"return ({self.y})(sum / n);"]
        if self.rounding == "half_even":
            return self._half_even("n")
        if self.rounding == "half_away" and self.shift:
            return [f"return ({self.y})((sum + (sum < 0 ? -(n / 2) : n / 2)) / n);"]
        ahead = ["n / 2"] if self.rounding != "floor" else []
        return self._divided(" + ".join(["sum", *ahead, *([f"n * {self.shift}"] if self.shift else [])]), "n")

    def _divided(self, positive: str, n: str) -> list[str]:
        wide = self.accumulator.unsigned
        by = f"{n}u" if n.isdigit() else f"({wide})n"
        if not self.shift:
            return [f"return ({self.y})(({positive}) / {by});"]
        return [f"return ({self.y})(({self.accumulator.c_type})(({wide})({positive}) / {by}) - {self.shift});"]

    def _half_even(self, n: str) -> list[str]:
        wide = self.accumulator.unsigned
        ahead = str(int(n) * self.shift) if n.isdigit() else f"n * {self.shift}"
        moved = f"sum + {ahead}" if self.shift else "sum"
        of = f"{n}u" if n.isdigit() else f"({wide})n"
        lines = [
            f"const {wide} moved = ({wide})({moved});" if self.shift else f"const {wide} moved = sum;",
            f"{wide} mean = ({wide})(moved / {of});",
            f"const {wide} twice = ({wide})(2u * (moved - mean * {of}));",
            *block(f"if (twice > {of} || (twice == {of} && mean % 2u == 1u))", ["++mean;"]),
        ]
        back = f"({self.accumulator.c_type})mean - {self.shift}" if self.shift else "mean"
        return [*lines, f"return ({self.y})({back});"]


ROUNDED = {
    "half_even": "to the nearest integer, to the even one at halves",
    "half_up": "to the nearest integer, up at halves",
    "half_away": "to the nearest integer, away from zero at halves",
    "floor": "down",
    "truncate": "towards zero",
}


# --- Lp and SmoothMax -----------------------------------------------------------------------------


class SumOfMagnitudes(Cells):
    """Lp(1)."""

    def formula(self) -> list[str]:
        return ["y = sum of |x_i|"]

    def accuracy(self) -> str:
        return "n roundings of float32 for a window of n cells"

    def body(self, walk: Walk, count: str) -> list[str]:
        step = walk.each(lambda place: [f"sum += cell[{place}] < 0.0f ? -cell[{place}] : cell[{place}];"])
        return ["float sum = 0.0f;", *step, "return sum;"]


class Norm(Cells):
    """Lp(2): squares are added up as they are; where they might have over- or underflown, once more, scaled."""

    headers = ("math.h",)

    def formula(self) -> list[str]:
        return ["y = sqrt(sum of x_i^2), by the largest magnitude where squares would overflow"]

    def accuracy(self) -> str:
        return "n + 4 roundings of float32 for a window of n cells"

    def body(self, walk: Walk, count: str) -> list[str]:
        varying = [level for level in self.nest.pooled if level.varies]
        sizes = [str(level.axis.kernel) if walk.constant else level.cells for level in varying]
        return [
            "float sum = 0.0f;",
            *walk.each(lambda place: [f"sum += cell[{place}] * cell[{place}];"]),
            *block("if (sum > 1e-24f && sum < 1e+36f)", ["return sqrtf(sum);"]),
            f"return {self.name}_scaled({parameters('cell', *sizes)});",
        ]

    def helpers(self, walk: Walk) -> list[list[str]]:
        largest = walk.each(
            lambda place: [
                f"const float size = fabsf(cell[{place}]);",
                *block("if (!(size <= most))", ["most = size;", *block("if (most != most)", ["return most;"])]),
            ]
        )
        body = [
            "float most = 0.0f;",
            *largest,
            *block("if (most <= 0.0f || most - most != 0.0f)", ["return most;"]),
            "float sum = 0.0f;",
            *walk.each(lambda place: [f"const float share = cell[{place}] / most;", "sum += share * share;"]),
            "return most * sqrtf(sum);",
        ]
        given = parameters("const float *cell", *walk.parameters)
        said = "The same over the largest magnitude, for squares too large or too small for float32."
        return [[*comment(said), *function(f"static float {self.name}_scaled({given})", body)]]


class LogSumExp(Cells):
    """SmoothMax: shifted by the largest cell, or by the smallest for a negative beta."""

    headers = ("math.h",)
    writes_out = False

    def __init__(self, plan: Plan, nest: Nest, name: str) -> None:
        super().__init__(plan, nest, name)
        self.beta = number(np.float32(plan.parameter))
        self.pads = plan.option == "counted" and any(level.starts_before or level.ends_after for level in nest.pooled)
        self.counts = self.pads

    def formula(self) -> list[str]:
        lines = [f"y = log(sum of exp(beta x_i)) / beta, beta = {self.beta}"]
        return [*lines, "A padded cell is the number 0."] if self.pads else lines

    def accuracy(self) -> str:
        return "n + 8 roundings of float32, relative to |y| + (1 + log n) / |beta|, for a window of n cells"

    def _padded(self, walk: Walk, count: str) -> list[str]:
        """The declaration of how many padded cells the window has."""
        return [f"const {self.nest.index} padded = {count} - {walk.count};"] if self.pads and not walk.constant else []

    def _given(self, walk: Walk) -> list[str]:
        told = [f"{self.nest.index} padded"] if self.pads and not walk.constant else []
        return ["const float *cell", *walk.parameters, *told]

    def _passed(self, walk: Walk) -> list[str]:
        sizes = [size for size in walk.sizes() if not size.isdigit()]
        return ["cell", *sizes, *(["padded"] if self.pads and not walk.constant else [])]

    def body(self, walk: Walk, count: str) -> list[str]:
        passed = self._passed(walk)
        return [
            *self._padded(walk, count),
            f"const float shift = {self.name}_shift({parameters(*passed)});",
            f"const float sum = {self.name}_sum({parameters(*passed, 'shift')});",
            f"return logf(sum) / {self.beta} + shift;",
        ]

    def helpers(self, walk: Walk) -> list[list[str]]:
        up = self.plan.parameter > 0
        compare = "<=" if up else ">="
        pads = self.pads and not walk.constant
        start = ["float best = cell[0];"]
        if pads:
            start = ["float best = padded > 0 ? 0.0f : cell[0];"]
        shift = [
            *start,
            *walk.each(
                lambda place: block(
                    f"if (!(cell[{place}] {compare} best))",
                    [f"best = cell[{place}];", *block("if (best != best)", ["return best;"])],
                )
            ),
            "return best;",
        ]
        terms = walk.each(lambda place: [f"sum += {self.term(f'cell[{place}]')};"])
        padding = [f"sum += (float)padded * {self.term('0.0f')};"] if pads else []
        given = self._given(walk)
        return [
            [
                *comment(f"The {'largest' if up else 'smallest'} cell, or a NaN: the others are counted from it."),
                *function(f"static float {self.name}_shift({parameters(*given)})", shift),
            ],
            [
                *comment("The sum of exp(beta (x_i - shift)), of which the largest term is 1."),
                *function(
                    f"static float {self.name}_sum({parameters(*given, 'float shift')})",
                    [
                        "float sum = 0.0f;",
                        *terms,
                        *(block("if (padded > 0)", padding) if padding else []),
                        "return sum;",
                    ],
                ),
            ],
        ]

    def term(self, cell: str) -> str:
        """exp(beta (cell - shift)); 1 where the two are equal, infinite ones too."""
        return f"({cell} == shift ? 1.0f : expf({self.beta} * ({cell} - shift)))"


def cells_of(plan: Plan, nest: Nest, name: str) -> Cells:
    """The kind of a plan in C."""
    if plan.kind in ("max", "min"):
        return Extreme(plan, nest, name)
    if plan.kind in ("sum", "avg"):
        return (FloatSum if plan.input == "float32" else IntegerSum)(plan, nest, name)
    if plan.kind == "lp":
        return (SumOfMagnitudes if plan.parameter == 1 else Norm)(plan, nest, name)
    return LogSumExp(plan, nest, name)
