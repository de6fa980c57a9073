"""A small network as C: one function a step, weights as constants, one arena for what lies between the steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..graph import Graph
from ..layers import Sequential
from ..layers.sequential import _places
from ..ops import Conv, Flatten, Linear, Relu, Reshape, Softmax
from ..pool import Pool
from ..program import Node, Program
from ..windows import checked_shape
from . import layers
from .arena import Lifetime, offsets
from .code import Code
from .files import header, source
from .pools import Function, PoolCode, stays_behind
from .report import Sizes
from .selftest import test_of_network
from .text import array, shape_of

VIEWS = (Flatten, Reshape)
WRITTEN = "Conv over 1 or 2 axes, Linear, Relu, Softmax, Flatten, Reshape and pools"


@dataclass
class Step:
    """One function that runs: what it computes of which value, and into which."""

    node: int
    input: int
    name: str
    text: list[list[str]]
    constants: list[str] = field(default_factory=list)
    headers: tuple[str, ...] = ()
    operations: int = 0
    constant_bytes: int = 0
    may_be_in_place: bool = False


def export_network(what: Any, shape: Sequence[int] | None, dtype: Any, name: str, small: bool = False) -> Code:
    """The C of a program, or of a Sequential over an input of this shape."""
    if np.dtype(dtype) != np.float32:
        raise TypeError(f"dtype={np.dtype(dtype).name!r} of a network is not written in C; networks are float32")
    program = _program(what, shape)
    return _Network(program, name, small).code()


def _program(what: Any, shape: Sequence[int] | None) -> Program:
    if isinstance(what, Program):
        if shape is not None:
            raise TypeError(f"shape={shape!r} beside a program, which says its shape itself; leave it out")
        return what
    if not isinstance(what, Sequential):
        raise TypeError(f"{what!r} is not written in C; give a Pool, a program that Graph.build made, or a Sequential")
    if shape is None:
        raise TypeError("shape is missing; give that of the network's input, batch included, such as (1, 1, 64)")
    graph = Graph()
    y = graph.input(checked_shape(shape), name="x", dtype=np.float32)
    for layer in _places(what):
        learned = [graph.constant(np.asarray(p.value, np.float32)) for p in layer.parameters()]
        y = graph.apply(layer.op(y.shape), y, *learned)
    return graph.build(y)


class _Network:
    """A program on its way to C."""

    def __init__(self, program: Program, name: str, small: bool) -> None:
        self.program, self.name, self.small = program, name, small
        self.nodes = program.nodes
        self._check()
        self.readers = self._readers()
        self.steps = self._steps()
        self.places = self._places()

    def _check(self) -> None:
        program = self.program
        if len(program.inputs) != 1:
            names = ", ".join(self.nodes[i].name for i in program.inputs)
            raise ValueError(
                f"the program has {len(program.inputs)} inputs ({names}), and C is written for one; make the weights "
                "constants with graph.constant"
            )
        if len(program.outputs) != 1:
            raise ValueError(
                f"the program has {len(program.outputs)} outputs, and C is written for one; build it with one"
            )
        if self.nodes[program.inputs[0]].dtype.kind != "f":
            raise TypeError(
                f"the input is {self.nodes[program.inputs[0]].dtype}, and networks are written in float32; declare it "
                "with dtype=np.float32"
            )
        if 0 in self.nodes[program.inputs[0]].shape:
            raise ValueError(
                f"the input's shape {self.nodes[program.inputs[0]].shape} has no cells; give a batch of 1 or more"
            )
        if self.nodes[self._root(program.outputs[0])].op is None:
            raise ValueError("the program gives its input or a constant as it is; there is nothing to compute")

    # --- steps ---

    def _readers(self) -> dict[int, list[int]]:
        """Who reads each value, views looked through."""
        found: dict[int, list[int]] = {}
        for i, node in enumerate(self.nodes):
            if node.op is not None and not isinstance(node.op, VIEWS):
                for j in node.inputs:
                    found.setdefault(self._root(j), []).append(i)
        return found

    def _root(self, i: int) -> int:
        """The value whose memory this one is a view of."""
        while isinstance(self.nodes[i].op, VIEWS):
            (i,) = self.nodes[i].inputs
        return i

    def _fused(self, i: int) -> bool:
        """Whether this is a relu that its input's own step does; nobody else may want that input."""
        node = self.nodes[i]
        if not isinstance(node.op, Relu):
            return False
        before = self._root(node.inputs[0])
        outside = self._root(self.program.outputs[0]) == before
        return isinstance(self.nodes[before].op, Conv | Linear) and self.readers[before] == [i] and not outside

    def _steps(self) -> list[Step]:
        steps: list[Step] = []
        fused = {self._root(self.nodes[i].inputs[0]): i for i in range(len(self.nodes)) if self._fused(i)}
        for i, node in enumerate(self.nodes):
            if node.op is None or isinstance(node.op, VIEWS) or self._fused(i):
                continue
            steps.append(self._step(len(steps), i, node, fused.get(i)))
        return steps

    def _step(self, number: int, i: int, node: Node, relu: int | None) -> Step:
        inputs = [self.nodes[j] for j in node.inputs]
        x = inputs[0]
        if x.constant is not None:
            raise ValueError(f"{node} is computed of a constant; compute it before, and make the result the constant")
        kind = type(node.op).__name__.lower()
        if isinstance(node.op, Pool):
            kind = f"{type(node.op.kind).__name__.lower()}_pool"
        step = Step(i if relu is None else relu, self._root(node.inputs[0]), f"{self.name}_{kind}_{number}", [])
        if isinstance(node.op, Pool):
            self._pool(step, node, x)
        elif isinstance(node.op, Conv | Linear):
            self._affine(step, node, inputs, relu is not None)
        elif isinstance(node.op, Relu):
            step.text, step.may_be_in_place, step.operations = [layers.relu(step.name, x.cells)], True, x.cells
        elif isinstance(node.op, Softmax):
            step.text, step.headers = [layers.softmax(step.name, x.shape, node.op.axis)], ("math.h",)
            step.may_be_in_place, step.operations = True, x.cells
        else:
            raise TypeError(f"{node} is not written in C; the ops that are: {WRITTEN}")
        return step

    def _pool(self, step: Step, node: Node, x: Node) -> None:
        from .exporting import planned

        assert isinstance(node.op, Pool)
        try:
            plan, _ = planned(node.op, x.shape, "float32", None)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{node}: {error}") from error
        code = PoolCode(plan, step.name, small=self.small)
        step.text = [*code.helpers(), code.forward.definition(static=True)]
        step.headers, step.operations = code.cells.headers, node.cells * plan.cells
        step.may_be_in_place = stays_behind(code.nest)

    def _affine(self, step: Step, node: Node, inputs: list[Node], relu: bool) -> None:
        constants = []
        for each in inputs[1:]:
            if each.constant is None:
                raise ValueError(
                    f"{node} has weights that are computed ({each}); make them constants with graph.constant"
                )
            constants.append(layers.weights_checked(str(each), each.constant))
        x, w = inputs[0].shape, constants[0].shape
        bias = len(constants) > 1
        if isinstance(node.op, Conv):
            if len(w) > 4:
                raise TypeError(f"{node} has {len(w) - 2} axes, and convolutions of 1 or 2 are written in C")
            step.text = [layers.convolution(step.name, node.op, x, w, bias, relu)]
        else:
            step.text = [layers.dense(step.name, math.prod(x[:-1]), w, bias, relu)]
        for what, values in zip(("weight", "bias"), constants, strict=False):
            step.constants += array("float", f"{step.name}_{what}", values, str(values.size))
            step.constant_bytes += values.nbytes
        step.operations = node.cells * math.prod(w[1:])

    # --- memory ---

    def _places(self) -> tuple[dict[int, str], int]:
        """Where each value lies, as C, and the bytes of the arena."""
        output = self._root(self.program.outputs[0])
        made = {self._root(step.node): s for s, step in enumerate(self.steps)}
        last = dict(made)
        for s, step in enumerate(self.steps):
            if step.input in last:
                last[step.input] = max(last[step.input], s)
        places = {self.program.inputs[0]: "x", output: "y"}
        # In place takes less memory, but for networks in which a value stays where another had room.
        arenas = [self._arena(output, made, last, in_place) for in_place in (True, False)]
        placed, total = min(arenas, key=lambda arena: arena[1])
        for value, at in placed.items():
            places[value] = "memory" if at == 0 else f"memory + {at // 4}"
        return places, total

    def _arena(
        self, output: int, made: dict[int, int], last: dict[int, int], in_place: bool
    ) -> tuple[dict[int, int], int]:
        """Where each value lies in the arena, with steps that overwrite their input or without."""
        groups: dict[int, list[int]] = {}
        holder: dict[int, int] = {}
        for s, step in enumerate(self.steps):
            value, before = self._root(step.node), step.input
            if value == output:
                continue
            takes_over = in_place and step.may_be_in_place and last.get(before) == s and before in holder
            holder[value] = holder[before] if takes_over else value
            groups.setdefault(holder[value], []).append(value)
        lives = [[Lifetime(4 * self.nodes[v].cells, made[v], last[v]) for v in group] for group in groups.values()]
        found, total = offsets(lives)
        return {v: at for group, at in zip(groups.values(), found, strict=True) for v in group}, total

    # --- text ---

    def code(self) -> Code:
        places, total = self.places
        program, nodes, name = self.program, self.nodes, self.name
        x, y = nodes[program.inputs[0]], nodes[program.outputs[0]]
        calls = [f"{step.name}({places[step.input]}, {places[self._root(step.node)]});" for step in self.steps]
        memory = ["float *memory = (float *)arena;"] if total else ["(void)arena;"]
        said = (
            f"y, {shape_of('float', y.shape)}, from x, {shape_of('float', x.shape)}. "
            f"arena has {name.upper()}_SCRATCH_BYTES bytes, aligned as a float is."
        )
        run = Function(said, f"void {name}_run(const float *x, float *y, void *arena)", [*memory, *calls])
        constant_bytes = sum(step.constant_bytes for step in self.steps)
        about = [f"{name}: a network, {shape_of('float', x.shape)} to {shape_of('float', y.shape)}", ""]
        about += [f"    {step.name.removeprefix(name + '_'):<18} {nodes[step.node].shape}" for step in self.steps]
        about += ["", f"arena    {total} bytes", f"weights  {constant_bytes} bytes"]
        macros = {
            "IN": (x.cells, "cells of x"),
            "OUT": (y.cells, "cells of y"),
            "SCRATCH_BYTES": (total, "memory of the arena"),
        }
        helpers = [part for step in self.steps for part in (step.constants, *step.text) if part]
        headers = tuple(sorted({each for step in self.steps for each in step.headers}))
        sizes = Sizes(
            inputs=x.cells,
            outputs=y.cells,
            input_bytes=4 * x.cells,
            output_bytes=4 * y.cells,
            input_type="float",
            output_type="float",
            operations=sum(step.operations for step in self.steps),
            headers=headers,
            scratch_bytes=total,
            constant_bytes=constant_bytes,
        )
        return Code(
            name=name,
            header=header(name, about, macros, [run]),
            source=source(name, about, headers, helpers, [run]),
            test=test_of_network(program, name, total),
            sizes=sizes,
        )
