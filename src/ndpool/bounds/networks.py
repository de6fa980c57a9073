"""Bounds through a whole program: what its outputs can be, for all inputs of a box.

    ibp     forwards: the interval of each node from the intervals of those that it reads
    crown   backwards: each output is a row over the last node, which becomes a row over the node before it, through
            affine maps below and above each op, up to the inputs. The intervals that those maps need are found so, too

Both hold for the real numbers that the program's numbers denote. What its floats give may differ in their last places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Array, as_array
from ..ops import Conv, Linear, Matmul
from ..pool import Pool
from ..reprs import brief
from .boxes import check_box
from .op_intervals import RULES, Box, size_of
from .op_lines import LINEAR, Line, dot, from_box, line_of

if TYPE_CHECKING:
    from ..program import Node, Program

METHODS = ("ibp", "crown")

#: Rows go back so many at a time that the largest array has about so many numbers.
ROWS_CELLS = 1 << 19


def bounds(program: Program, inputs_lo: Any, inputs_hi: Any, method: str) -> tuple[list[Array], list[Array]]:
    """The outputs' lower and upper ends; `Program.bounds` says more."""
    network = Network(program, inputs_lo, inputs_hi, method)
    boxes = [network.boxes[i] for i in program.outputs]
    return [lo for lo, _ in boxes], [hi for _, hi in boxes]


class Network:
    """A program over a box of inputs: the box of every node, and the rows of any node over the inputs."""

    def __init__(self, program: Program, inputs_lo: Any, inputs_hi: Any, method: str) -> None:
        if method not in METHODS:
            raise ValueError(f"method={method!r} is not a method; give one of {METHODS}")
        self.program, self.method = program, method
        self.boxes: dict[int, Box] = self._start(inputs_lo, inputs_hi)
        self._lines: dict[int, Line | None] = {}
        wanted = self._wanted() if method == "crown" else set()
        for i, node, op in program._steps:
            self.boxes[i] = self._interval(node, op)
            if i in wanted and self._is_varied(i):
                self._refine(i)

    # --- forwards ---

    def _start(self, inputs_lo: Any, inputs_hi: Any) -> dict[int, Box]:
        program = self.program
        boxes = {i: (n.constant, n.constant) for i, n in enumerate(program.nodes) if n.constant is not None}
        ends = (program._one_each("inputs_lo", inputs_lo), program._one_each("inputs_hi", inputs_hi))
        for i, lo, hi in zip(program.inputs, *ends, strict=True):
            node = program.nodes[i]
            low, high = as_array(node.name, lo), as_array(node.name, hi)
            for end in (low, high):
                if end.shape != node.shape:
                    raise ValueError(
                        f"{node} was declared with shape {node.shape} and got {end.shape}; give that shape"
                    )
            try:
                check_box(low, high)
            except ValueError as error:
                raise ValueError(f"{node}: {error}") from None
            boxes[i] = low, high
        self._varied = {i for i in program.inputs if not np.array_equal(*boxes[i])}
        for i, node, _ in program._steps:
            if not self._varied.isdisjoint(node.inputs):
                self._varied.add(i)
        return {i: (_double(lo), _double(hi)) for i, (lo, hi) in boxes.items()}

    def _is_varied(self, i: int) -> bool:
        return i in self._varied

    def _interval(self, node: Node, op: Any) -> Box:
        given = [self.boxes[j] for j in node.inputs]
        if hasattr(op, "nodes") and hasattr(op, "outputs"):
            found = bounds(op, tuple(lo for lo, _ in given), tuple(hi for _, hi in given), self.method)
            return found[0][0], found[1][0]
        rule = RULES.get(type(op))
        if rule is None:
            known = ", ".join(sorted(each.__name__ for each in RULES))
            raise TypeError(f"{node}: no rule bounds {brief(op)}; there are rules for {known}")
        try:
            with np.errstate(invalid="ignore", over="ignore"):
                lo, hi = rule(op, given)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{node}: {error}") from error
        return lo.astype(np.float64, copy=False), hi.astype(np.float64, copy=False)

    # --- backwards ---

    def _wanted(self) -> set[int]:
        """The nodes whose box matters: outputs, and what ops read that are not linear in it.

        What follows an input by linear ops alone is left out where one op is all: its interval is exact already.
        """
        program = self.program
        wanted = set(program.outputs)
        for _, node, op in program._steps:
            if not isinstance(op, (*LINEAR, Conv, Linear, Matmul)):
                wanted.update(node.inputs)
        return {i for i in wanted if program.nodes[i].op is not None and not self._is_exact(i)}

    def _is_exact(self, i: int) -> bool:
        """Whether the interval from the boxes that are read is as tight as any: each output cell grows with each input.

        Activations and pools of a tight box are tight themselves; a product with fixed numbers is if it reads inputs.
        """
        node = self.program.nodes[i]
        if node.op is None:
            return True
        if isinstance(node.op, Conv | Linear | Matmul):
            return all(self.program.nodes[j].op is None for j in node.inputs)
        one_read = len(node.inputs) == 1 and not isinstance(node.op, LINEAR)
        return one_read and (self._is_exact(node.inputs[0]) or not isinstance(node.op, Pool))

    def _refine(self, i: int) -> None:
        """The box of a node, from rows that are each one of its cells, and its negative."""
        shape, cells = self.program.nodes[i].shape, self.program.nodes[i].cells
        lo, hi = (end.copy() for end in self.boxes[i])
        for start in range(0, cells, each := self._rows_at_once(i)):
            stop = min(start + each, cells)
            rows = np.zeros((2 * (stop - start), cells))
            places = np.arange(start, stop)
            rows[places - start, places] = 1.0
            rows[places - start + (stop - start), places] = -1.0
            least = self.lower(i, rows.reshape(-1, *shape))
            half = stop - start
            lo.flat[start:stop] = np.fmax(lo.flat[start:stop], least[:half])
            hi.flat[start:stop] = np.fmin(hi.flat[start:stop], -least[half:])
        self.boxes[i] = lo, np.maximum(lo, hi)

    def _rows_at_once(self, i: int) -> int:
        largest = max(node.cells for node in self.program.nodes[: i + 1])
        return max(1, ROWS_CELLS // max(1, 2 * largest))

    def lower(self, i: int, rows: Array) -> Array:
        """A number below `rows . y` for each row, where y is the value of node i."""
        total, lost = np.zeros(len(rows)), np.zeros(len(rows))
        waiting = {i: rows}
        with np.errstate(invalid="ignore", over="ignore"):
            for j in range(i, -1, -1):
                g = waiting.pop(j, None)
                if g is None:
                    continue
                line = self._line(j)
                if line is None:
                    bias, gone = from_box(g, self.boxes[j])
                else:
                    back, bias, gone = line(g)
                    for k, row in zip(self.program.nodes[j].inputs, back, strict=True):
                        if row is not None:
                            if k in waiting:
                                row = waiting[k] + row
                                lost = lost + dot(np.abs(row), size_of(self.boxes[k])) * 2.0**-50
                            waiting[k] = row
                total, lost = total + bias, lost + gone
        least = total - 1.01 * lost - np.abs(total) * 2.0**-50
        return np.where(np.isnan(least), -np.inf, least)

    def _line(self, j: int) -> Line | None:
        """The linear rule of a node; None for inputs, for what does not vary, and where only an interval is known."""
        if j not in self._lines:
            node = self.program.nodes[j]
            given = [self.boxes[k] for k in node.inputs]
            varied = [self._is_varied(k) for k in node.inputs]
            has_line = node.op is not None and any(varied)
            self._lines[j] = line_of(node.op, given, node.shape, varied) if has_line else None
        return self._lines[j]


def _double(a: Array) -> Array:
    found = a.astype(np.float64, copy=False)
    if a.dtype.kind in "iu" and a.dtype.itemsize == 8 and not np.array_equal(found.astype(object), a.astype(object)):
        raise ValueError("an input has integers that no double holds exactly; give smaller ones")
    return found
