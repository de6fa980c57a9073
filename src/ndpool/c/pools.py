"""A pool as C functions: forward, in place where that can be, and for training the way back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..plan import Plan
from .cells import Cells, Extreme, LogSumExp, as_float, cells_of, parameters
from .loops import Nest, Pooled
from .text import C_TYPES, comment, function, plus, product, shape_of


@dataclass(frozen=True)
class Function:
    """A function that is offered: what it is for, its declaration, and its body."""

    said: str
    declared: str
    body: list[str]

    def declaration(self) -> list[str]:
        return [*comment(self.said), f"{self.declared};"]

    def definition(self, static: bool = False) -> list[str]:
        return function(f"static {self.declared}" if static else self.declared, self.body)


class PoolCode:
    """The C of one plan. `functions` are offered, `helpers` are what they call; `name` stands before all names."""

    def __init__(self, plan: Plan, name: str, vjp: bool = False, small: bool = False) -> None:
        self.plan, self.name = plan, name
        self.nest = Nest(plan)
        self.cells: Cells = cells_of(plan, self.nest, name)
        self.cells.small = small
        self.x, self.y = C_TYPES[plan.input], C_TYPES[plan.result]
        self.back = Back(self) if vjp else None

    @cached_property
    def forward(self) -> Function:
        nest, cells = self.nest, self.cells
        part = [f"*y = {cells.call_part(self._at(nest.first_cell()))};", "++y;"] if cells.part else []
        whole = [f"*y = {cells.call_whole(self._at(nest.first_whole()))};", "++y;"] if cells.whole else None
        said = f"y, {shape_of(self.y, self.plan.output_shape)}, from x, {shape_of(self.x, self.plan.shape)}."
        if self.in_place is not None:
            said += f" y may be x: then it lies in its first {math.prod(self.plan.output_shape)} cells."
        declared = f"void {self.name}(const {self.x} *x, {self.y} *y)"
        return Function(said, declared, nest.loops(part, whole, count=cells.counts))

    @staticmethod
    def _at(place: str) -> str:
        return "x" if place == "0" else f"x + {place}"

    @cached_property
    def in_place(self) -> Function | None:
        """The pool of x into x itself, where every write lands on a cell that is never read again."""
        if self.x != self.y or not stays_behind(self.nest):
            return None
        count = math.prod(self.plan.output_shape)
        said = (
            f"The same where x lies: y is its first {count} cells. No write lands on a cell that is still to be read."
        )
        return Function(said, f"void {self.name}_in_place({self.x} *x)", [f"{self.name}(x, x);"])

    def functions(self) -> list[Function]:
        """All that are offered."""
        found = [self.forward]
        if self.in_place is not None:
            found.append(self.in_place)
        return found if self.back is None else [*found, *self.back.functions()]

    def helpers(self) -> list[list[str]]:
        return self.cells.functions() + (self.back.helpers() if self.back else [])


def stays_behind(nest: Nest) -> bool:
    """Whether output o, written to place o, finds no cell before place o that it still has to read, for every o."""
    first = np.zeros(1, np.int64)
    for level in nest.levels:
        if isinstance(level, Pooled):
            places = np.array([_first_real(level, i) for i in range(level.axis.output)], np.int64)
        else:
            places = np.arange(level.size)
        first = (first[:, None] + places[None, :] * level.apart).ravel()
    return bool((first >= np.arange(first.size)).all())


def _first_real(level: Pooled, i: int) -> int:
    axis = level.axis
    if axis.adaptive:
        return i * axis.length // axis.output
    start = level.start(i)
    return start if start >= 0 else start + -(start // axis.dilation) * axis.dilation


class Back:
    """The derivative of a pool of floats: what forward keeps for it, and the way back of a cotangent."""

    def __init__(self, code: PoolCode) -> None:
        self.code, self.plan, self.nest, self.cells = code, code.plan, code.nest, code.cells
        self.name = code.name
        self.winner = f"uint{8 * self.plan.residual.winners}_t" if self.plan.residual.winners else ""

    def functions(self) -> list[Function]:
        return [self.train, self.pull] if self.winner else [self.pull]

    def helpers(self) -> list[list[str]]:
        if self.winner:
            return [self._first_winner()]
        return [self._spread()]

    @property
    def kept(self) -> list[str]:
        """The parameters of the way back that forward has kept."""
        if self.winner:
            return [f"const {self.winner} *winners"]
        names = [name for name, wanted in (("x", self.plan.residual.x), ("y", self.plan.residual.y)) if wanted]
        return [f"const float *{name}" for name in names]

    # --- winners ---

    @cached_property
    def train(self) -> Function:
        """Forward that keeps the winners."""
        walk, nest = self.cells.any_walk, self.nest
        sizes = [size for size in walk.sizes() if not size.isdigit()]
        skipped = [f"const {nest.index} skipped = {each};" for each in self._skipped_place()]
        given = [PoolCode._at(nest.first_cell()), *sizes, *(["skipped"] if skipped else []), "winners"]
        call = f"*y = {self.name}_first({parameters(*given)});"
        said = (
            f"The same, and for each output the place of its first winner in its window, "
            f"{shape_of(self.winner, self.plan.output_shape)}, which {self.name}_back takes."
        )
        declared = f"void {self.name}_train(const float *x, float *y, {self.winner} *winners)"
        return Function(said, declared, nest.loops([*skipped, call, "++y;", "++winners;"], None))

    def _skipped_place(self) -> list[str]:
        """The number in its window of the first cell that is real, where that is not 0."""
        pooled, terms = self.nest.pooled, []
        for d, level in enumerate(pooled):
            below = math.prod(other.axis.kernel for other in pooled[d + 1 :])
            if level.starts_before:
                terms.append(level.skipped() if below == 1 else f"{level.skipped()} * {below}")
        return [" + ".join(terms)] if terms else []

    def _first_winner(self) -> list[str]:
        assert isinstance(self.cells, Extreme)
        walk, cells = self.cells.any_walk, self.cells
        skips = bool(self._skipped_place())
        place = walk.place()
        found = plus("first", place) if skips else place
        given = [f"{self.nest.index} first"] if skips else []
        head = parameters("const float *cell", *walk.parameters, *given, f"{self.winner} *winner")
        start = f"*winner = ({self.winner})first;" if skips else "*winner = 0;"
        steps = walk.each(lambda at: cells.better_float(at, True, f"*winner = ({self.winner})({found});"))
        body = [*cells.start_of_floats(), start, *steps, "return best;"]
        said = "The winner of a window, and its place there."
        return [*comment(said), *function(f"static float {self.name}_first({head})", body)]

    # --- the way back ---

    @cached_property
    def pull(self) -> Function:
        count = math.prod(self.plan.shape)
        zeroed = [f"for ({self.nest.index} i = 0; i < {count}; ++i) {{", "    gx[i] = 0.0f;", "}"]
        moved = ["++g;", *(["++winners;"] if self.winner else []), *(["++y;"] if self.plan.residual.y else [])]
        if self.winner:
            loops = self.nest.loops([*self._to_winner(), *moved], None, start=True)
        else:
            loops = self.nest.loops([*self._call_spread(), *moved], None, count=self.cells.counts)
        said = (
            f"gx, {shape_of('float', self.plan.shape)}: what g, {shape_of('float', self.plan.output_shape)}, "
            "the gradient of a loss in y, is in x. Overlapping windows add up."
        )
        declared = f"void {self.name}_back({parameters('const float *g', *self.kept, 'float *gx')})"
        return Function(said, declared, [*zeroed, *loops])

    def _to_winner(self) -> list[str]:
        """The gradient goes to the cell whose number in the window was kept."""
        pooled, index = self.nest.pooled, self.nest.index
        terms = [self.nest.window_start()]
        for d, level in enumerate(pooled):
            below = math.prod(other.axis.kernel for other in pooled[d + 1 :])
            along = "winner" if below == 1 else f"winner / {below}"
            if d > 0:
                along = f"{along} % {level.axis.kernel}"
            terms.append(product(f"({along})" if " " in along else along, str(level.step)))
        place = plus(*terms)
        return (
            [f"const {index} winner = ({index})*winners;", f"gx[{place}] += *g;"] if pooled else [f"gx[{place}] += *g;"]
        )

    def _call_spread(self) -> list[str]:
        walk, residual = self.cells.any_walk, self.plan.residual
        sizes = [size for size in walk.sizes() if not size.isdigit()]
        told = [self.cells.counted] if self.cells.counts and self.cells.count_varies else []
        at = self.nest.first_cell()
        here = "" if at == "0" else " + at"
        placed = [] if at == "0" else [f"const {self.nest.index} at = {at};"]
        given = [
            f"gx{here}",
            *([f"x{here}"] if residual.x else []),
            *sizes,
            *told,
            *(["*y"] if residual.y else []),
            "*g",
        ]
        return [*placed, f"{self.name}_spread({parameters(*given)});"]

    def _spread(self) -> list[str]:
        """The function that gives each cell of a window its share of the window's gradient."""
        walk, residual = self.cells.any_walk, self.plan.residual
        told = [f"{self.nest.index} count"] if self.cells.counts and self.cells.count_varies else []
        given = [
            "float *gx",
            *(["const float *cell"] if residual.x else []),
            *walk.parameters,
            *told,
            *(["float y"] if residual.y else []),
            "float g",
        ]
        count = "count" if told else str(self.nest.cells)
        body = {"max": self._ties, "min": self._ties, "lp": self._lp, "smooth_max": self._smooth}.get(
            self.plan.kind, self._linear
        )(count)
        said = "Each cell of a window gets its share of the gradient."
        return [*comment(said), *function(f"static void {self.name}_spread({parameters(*given)})", body)]

    def _linear(self, count: str) -> list[str]:
        walk = self.cells.any_walk
        by = self.cells.divisor(walk, count)  # type: ignore[attr-defined]
        share = "g" if by == "1" else f"g / {as_float(by)}"
        return [f"const float share = {share};", *walk.each(lambda at: [f"gx[{at}] += share;"])]

    def _ties(self, count: str) -> list[str]:
        """By `ties`: each winner in full, or the same share each. NaNs are equal to each other here."""
        walk = self.cells.any_walk
        wins = "cell[{0}] == y || (cell[{0}] != cell[{0}] && y != y)"
        lines = ["const float share = g;"]
        if self.plan.option == "split":
            lines = [
                f"{self.nest.index} winners = 0;",
                *walk.each(lambda at: [f"if ({wins.format(at)}) {{", "    ++winners;", "}"]),
                "const float share = g / (float)winners;",
            ]
        return [*lines, *walk.each(lambda at: [f"if ({wins.format(at)}) {{", f"    gx[{at}] += share;", "}"])]

    def _lp(self, count: str) -> list[str]:
        walk = self.cells.any_walk
        if self.plan.parameter == 1:
            return walk.each(
                lambda at: [
                    f"if (cell[{at}] > 0.0f) {{",
                    f"    gx[{at}] += g;",
                    f"}} else if (cell[{at}] < 0.0f) {{",
                    f"    gx[{at}] -= g;",
                    "} else {",
                    "    /* the sign of 0 is 0 */",
                    "}",
                ]
            )
        sizes = [size for size in walk.sizes() if not size.isdigit()]
        value = f"{self.name}_part" if self.cells.part else f"{self.name}_whole"
        return [
            f"const float y = {value}({parameters('cell', *sizes)});",
            "if (y > 0.0f) {",
            *("    " + line for line in walk.each(lambda at: [f"gx[{at}] += cell[{at}] / y * g;"])),
            "}",
        ]

    def _smooth(self, count: str) -> list[str]:
        assert isinstance(self.cells, LogSumExp)
        walk = self.cells.any_walk
        passed = self.cells._passed(walk)
        return [
            *self.cells._padded(walk, count),
            f"const float shift = {self.name}_shift({parameters(*passed)});",
            f"const float share = g / {self.name}_sum({parameters(*passed, 'shift')});",
            *walk.each(lambda at: [f"gx[{at}] += share * {self.cells.term(f'cell[{at}]')};"]),  # type: ignore[attr-defined]
        ]
