"""Golden vectors: inputs drawn by a rule of one line, and what the specification makes of them.

The numbers come from a linear congruential generator, which is the same in Python and in C: what is written does not
depend on a version of any library. Large inputs are drawn on the chip, and a part of their outputs is compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import spec
from ..pool import Pool
from ..program import Program
from .files import macro
from .pools import PoolCode
from .rounding import ROUNDING, with_errors
from .text import array, block, comment, function, joined, number, written_by

Array = NDArray[Any]

#: Inputs of more cells than these are drawn on the chip.
WRITTEN_OUT = 2048
#: So many of their outputs are compared.
COMPARED = 256
#: So many cells are looked at by the specification in seconds; beyond, the engine does it, which is tested against it.
FOR_THE_SPECIFICATION = 200_000

_FACTOR, _ADDED = 1664525, 1013904223


def drawn(count: int, dtype: str, seed: int = 1) -> Array:
    """So many numbers: integers of all sizes, floats in eighths from -16 to 16.

    >>> drawn(3, "int8"), drawn(2, "float32")
    (array([-68, -34,   1], dtype=int8), array([-8.5 , -4.25], dtype=float32))
    """
    # All at once: state n is `factor^n * seed + added * (1 + factor + ... + factor^(n-1))`, modulo 2^32.
    powers = np.cumprod(np.full(count, _FACTOR, np.uint32), dtype=np.uint32)
    sums = np.cumsum(np.concatenate(([1], powers[:-1])), dtype=np.uint32)
    states = (powers * np.uint32(seed) + sums * np.uint32(_ADDED)).astype(np.int64)
    if dtype == "float32":
        return (((states >> 24) - 128) / 8).astype(np.float32)
    return ((states >> (32 - np.iinfo(dtype).bits)) + int(np.iinfo(dtype).min)).astype(dtype)


def _draw_in_c(c_type: str, dtype: str) -> str:
    if dtype == "float32":
        return "(float)((int32_t)(state >> 24) - 128) / 8.0f"
    bits, least = np.iinfo(dtype).bits, -int(np.iinfo(dtype).min)
    moved = f"(int32_t)(state >> {32 - bits})"
    return f"({c_type})({moved} - {least})" if least else f"({c_type})(state >> {32 - bits})"


@dataclass(frozen=True)
class Slack:
    """How far a float may be from the golden one: `relative * (|golden| + size)`."""

    relative: float = 0.0
    size: float = 0.0

    def text(self) -> str:
        return f"{number(np.float32(self.relative))}, {number(np.float32(self.size))}"


def slack_of(code: PoolCode) -> Slack:
    """What `Cells.accuracy` says, for the numbers that are drawn here, whose sums are exact."""
    plan, cells = code.plan, code.nest.cells
    if plan.kind == "avg":
        return Slack(2 * ROUNDING)
    if plan.kind == "lp" and plan.parameter != 1:
        return Slack((cells + 4) * ROUNDING)
    if plan.kind == "smooth_max":
        return Slack((cells + 8) * ROUNDING, (1 + math.log(max(cells, 1))) / abs(plan.parameter))
    return Slack()


@dataclass
class SelfTest:
    """The text of a self test: arrays, and checks one after another."""

    name: str
    about: str
    floats: bool
    arrays: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)

    def named(self, what: str) -> str:
        return f"{self.name}_golden_{what}"

    def constant(self, c_type: str, what: str, values: Array) -> str:
        self.arrays += [*array(c_type, self.named(what), values, str(values.size)), ""]
        return self.named(what)

    def room(self, c_type: str, what: str, cells: int) -> str:
        self.arrays += [f"static {c_type} {self.named(what)}[{cells}];", ""]
        return self.named(what)

    def run(self, *lines: str) -> None:
        self.checks += lines

    def compare(self, actual: str, golden: str, count: int, slack: Slack | None, apart: int = 1) -> None:
        """Check `actual[i * apart]` against `golden[i]`, floats within their slack."""
        place = "i" if apart == 1 else f"i * {apart}"
        fails = f"{actual}[{place}] != {golden}[i]"
        if slack is not None:
            fails = f"{self.name}_differ({actual}[{place}], {golden}[i], {slack.text()})"
        inner = block(f"if ({fails})", ["return 1 + (int)i;"])
        self.checks += block(f"for (int32_t i = 0; i < {count}; ++i)", inner)

    def text(self) -> str:
        test = macro(self.name, "SELF_TEST")
        differ = [
            *comment("Whether two numbers are further apart than `relative * (|golden| + size)`. A NaN is."),
            *function(
                f"static int {self.name}_differ(float actual, float golden, float relative, float size)",
                [
                    "const float apart = actual < golden ? golden - actual : actual - golden;",
                    "const float most = relative * ((golden < 0.0f ? -golden : golden) + size);",
                    "return apart <= most ? 0 : 1;",
                ],
            ),
        ]
        return joined(
            comment([*self.about.splitlines(), "", written_by()]),
            [f'#include "{self.name}.h"'],
            [f"#ifdef {test}"],
            self.arrays[:-1],
            differ if self.floats else [],
            function(f"int {self.name}_self_test(void)", [*self.checks, "return 0;"]),
            [
                f"#ifndef {test}_NO_MAIN",
                *function("int main(void)", [f"return {self.name}_self_test() == 0 ? 0 : 1;"]),
                "#endif",
            ],
            ["#endif"],
        )


def _filled(c_type: str, dtype: str, room: str, cells: int) -> list[str]:
    return [
        "uint32_t state = 1;",
        *block(
            f"for (int32_t i = 0; i < {cells}; ++i)",
            [f"state = state * UINT32_C({_FACTOR}) + UINT32_C({_ADDED});", f"{room}[i] = {_draw_in_c(c_type, dtype)};"],
        ),
    ]


def test_of_pool(pool: Pool, code: PoolCode) -> str:
    """The self test of a pool: forward, in place and for training, as far as it has these."""
    plan, name = code.plan, code.name
    x = drawn(math.prod(plan.shape), plan.input).reshape(plan.shape)
    looked_at = math.prod(plan.output_shape) * plan.cells
    y = spec.forward(pool, x) if looked_at <= FOR_THE_SPECIFICATION else np.asarray(pool(x))
    by = (
        "ndpool.spec"
        if looked_at <= FOR_THE_SPECIFICATION
        else "ndpool's engine, which is tested against its specification"
    )
    run = f"cc -std=c99 -D{macro(name, 'SELF_TEST')} {name}.c {name}_test.c -lm"
    test = SelfTest(name, f"The self test of {name}: its numbers are those of {by}.\n\n    {run}", code.y == "float")
    slack = slack_of(code) if code.y == "float" else None
    if x.size > WRITTEN_OUT:
        _add_large(test, code, x, y, slack)
        return test.text()
    golden_x = test.constant(code.x, "x", x)
    golden_y = test.constant(code.y, "y", y)
    room = test.room(code.y, "out", y.size)
    test.run(f"{name}({golden_x}, {room});")
    test.compare(room, golden_y, y.size, slack)
    if code.in_place is not None:
        copy = test.room(code.x, "copy", x.size)
        test.run(
            f"for (int32_t i = 0; i < {x.size}; ++i) {{",
            f"    {copy}[i] = {golden_x}[i];",
            "}",
            f"{name}_in_place({copy});",
        )
        test.compare(copy, golden_y, y.size, slack)
    if code.back is not None:
        _add_back(test, pool, code, x, y, golden_x, golden_y, room)
    return test.text()


def _add_large(test: SelfTest, code: PoolCode, x: Array, y: Array, slack: Slack | None) -> None:
    """Numbers drawn on the chip, and outputs at equal distances."""
    apart = max(1, y.size // COMPARED)
    room_x, room_y = test.room(code.x, "x", x.size), test.room(code.y, "out", y.size)
    some = np.ravel(y)[::apart]
    golden = test.constant(code.y, "y", some)
    test.run(*_filled(code.x, code.plan.input, room_x, x.size), f"{test.name}({room_x}, {room_y});")
    test.compare(room_y, golden, some.size, slack, apart)


def _add_back(
    test: SelfTest, pool: Pool, code: PoolCode, x: Array, y: Array, golden_x: str, golden_y: str, room: str
) -> None:
    """The way back of drawn cotangents, after the winners."""
    assert code.back is not None
    name, winner = test.name, code.back.winner
    g = drawn(y.size, "float32", seed=2).reshape(y.shape)
    gx = spec.vjp(pool, x, g)
    kept: Sequence[str] = []
    if winner:
        winners = test.room(winner, "winners", y.size)
        test.run(f"{name}_train({golden_x}, {room}, {winners});")
        test.compare(room, golden_y, y.size, Slack())
        kept = [winners]
    else:
        residual = code.plan.residual
        kept = [*([golden_x] if residual.x else []), *([golden_y] if residual.y else [])]
    golden_g, golden_gx = test.constant("float", "g", g), test.constant("float", "gx", gx)
    room_gx = test.room("float", "back", x.size)
    test.run(f"{name}_back({', '.join([golden_g, *kept, room_gx])});")
    test.compare(room_gx, golden_gx, x.size, back_slack(pool, code, x, g))


def back_slack(pool: Pool, code: PoolCode, x: Array, g: Array) -> Slack:
    """Roundings of the weights and of the sum over the windows that see a cell, relative to their magnitudes."""
    magnitudes = np.abs(x) if code.plan.kind == "lp" else x
    mass = float(np.max(np.abs(spec.vjp(pool, magnitudes, np.abs(g))), initial=0.0))
    return Slack(2 * (code.nest.cells + 8) * ROUNDING, mass)


def test_of_network(program: Program, name: str, scratch: int) -> str:
    """The self test of a network: what its program gives in float64, within what float32 may round."""
    node = program.nodes[program.inputs[0]]
    x = drawn(node.cells, "float32").reshape(node.shape)
    y, error = with_errors(program, x)
    golden_values = np.asarray(y, np.float32)
    # The bound itself, beside the last place of the golden number.
    slack = Slack(ROUNDING, float(error.max(initial=0.0)) / ROUNDING)
    run = f"cc -std=c99 -D{macro(name, 'SELF_TEST')} {name}.c {name}_test.c -lm"
    test = SelfTest(
        name, f"The self test of {name}: its numbers are those of the program in float64.\n\n    {run}", True
    )
    arena = test.room("float", "arena", max(1, scratch // 4))
    if x.size > WRITTEN_OUT:
        given = test.room("float", "x", x.size)
        test.run(*_filled("float", "float32", given, x.size))
    else:
        given = test.constant("float", "x", x)
    apart = max(1, y.size // COMPARED)
    some = np.ravel(golden_values)[::apart]
    golden = test.constant("float", "y", some)
    room = test.room("float", "out", y.size)
    test.run(f"{name}_run({given}, {room}, {arena});")
    test.compare(room, golden, some.size, slack, apart)
    return test.text()
