"""How a program looks: as a table of its nodes and their memory, and as a graph for Graphviz."""

from __future__ import annotations

import dataclasses
import math
import shutil
import subprocess
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .kinds import Avg, Max, Min, Sum
from .ops import Flatten, Reshape, Transpose
from .pool import Pool
from .windows import layout

if TYPE_CHECKING:
    from .program import Node, Program

VIEWS = (Flatten, Reshape, Transpose)
WRITTEN = (".dot", ".gv")
RENDERED = (".png", ".svg")


def brief(value: Any) -> str:
    """What one would type to get `value`: its repr, without the arguments that are at their defaults.

    >>> from ndpool import Max, Pool, Window
    >>> brief(Pool(Max(), Window((2, 2), padding=1)))
    'Pool(Max(), Window((2, 2), padding=1))'
    """
    written_by_dataclass = getattr(getattr(value, "__dataclass_params__", None), "repr", False)
    if not written_by_dataclass or isinstance(value, type):
        return repr(value)
    shown = []
    for field in dataclasses.fields(value):
        argument = getattr(value, field.name)
        if field.default is dataclasses.MISSING:
            shown.append(brief(argument))
        elif argument != field.default:
            shown.append(f"{field.name}={brief(argument)}")
    return f"{type(value).__name__}({', '.join(shown)})"


# --- memory ---------------------------------------------------------------------------------------


def winner_bytes(pool: Pool, shape: Sequence[int]) -> int:
    """What the winners of a Max or Min take: for each output its place in the window, in the smallest unsigned type.

    >>> from ndpool import Max, Pool, Window
    >>> winner_bytes(Pool(Max(), Window((2, 2))), (8, 8)), winner_bytes(Pool(Max(), Window((17, 17))), (17, 17))
    (16, 2)
    """
    laid = layout(pool.window, pool.axes, tuple(shape), None)
    largest_place = math.prod(axis.kernel for axis in laid.geometry) - 1
    return math.prod(laid.output_shape) * np.min_scalar_type(largest_place).itemsize


def kept(program: Program, i: int) -> tuple[set[int], int]:
    """What the pullback of node i holds on to: values of nodes, and bytes of its own."""
    node = program.nodes[i]
    keeps = getattr(node.op, "keeps", "inputs")
    own = 0
    if isinstance(node.op, Pool):
        if isinstance(node.op.kind, Max | Min) and node.op.kind.ties == "first":
            return set(), winner_bytes(node.op, program.nodes[node.inputs[0]].shape)
        keeps = "nothing" if isinstance(node.op.kind, Sum | Avg) else "inputs"
        # Which cells won is found again from the output, of which the pullback has a copy.
        own = node.nbytes if isinstance(node.op.kind, Max | Min) else 0
    values = {"nothing": (), "inputs": node.inputs, "output": (i,)}[keeps]
    return {_memory_of(program, j) for j in values}, own


def _memory_of(program: Program, i: int) -> int:
    """The node whose memory the value of node i lies in: a reshaped array is a view of what it was made from."""
    while isinstance(program.nodes[i].op, VIEWS):
        (i,) = program.nodes[i].inputs
    return i


# --- the table ------------------------------------------------------------------------------------


def table(program: Program) -> str:
    """One line a node; what several nodes keep together counts once in the total."""
    rows: list[tuple[str, ...]] = [("node", "op", "of", "shape", "dtype", "cells", "kept for backward")]
    all_kept: set[int] = set()
    own = 0
    for i, node in enumerate(program.nodes):
        values, extra = kept(program, i) if node.op is not None else (set(), 0)
        all_kept |= values
        own += extra
        rows.append(_row(program, node, sum(program.nodes[j].nbytes for j in values) + extra))
    total = sum(program.nodes[j].nbytes for j in all_kept) + own
    cells = sum(node.cells for node in program.nodes)
    rows.append(("total, shared once", "", "", "", "", f"{cells:,}", f"{total:,} B"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [_line(row, widths) for row in rows]
    rule = "-" * max(map(len, lines))
    outputs = ", ".join(program.nodes[i].name for i in program.outputs)
    return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1], f"outputs: {outputs}"])


def _row(program: Program, node: Node, nbytes: int) -> tuple[str, ...]:
    of = ", ".join(program.nodes[j].name for j in node.inputs)
    return node.name, node.label, of, str(node.shape), str(node.dtype), f"{node.cells:,}", f"{nbytes:,} B"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    """Words to the left, numbers to the right."""
    cells = [c.rjust(w) if k >= 5 else c.ljust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))]
    return "  ".join(cells).rstrip()


# --- the drawing ----------------------------------------------------------------------------------


def dot(program: Program) -> str:
    """The program in the language of Graphviz: boxes are ops, ellipses inputs, outputs have a double edge."""
    lines = ["digraph program {", "  rankdir=TB;", '  node [fontname="sans-serif"];']
    for i, node in enumerate(program.nodes):
        shape = "box" if node.op is not None else "ellipse"
        label = "\\n".join(_escaped(part) for part in (node.name, node.label, str(node.shape)))
        lines.append(f'  n{i} [label="{label}", shape={shape}, peripheries={2 if i in program.outputs else 1}];')
    for i, node in enumerate(program.nodes):
        lines.extend(f"  n{j} -> n{i};" for j in node.inputs)
    return "\n".join([*lines, "}"]) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def draw(program: Program, path: str | PathLike[str]) -> None:
    """Write the program's picture; the ending of `path` says how."""
    path = Path(path)
    if path.suffix in WRITTEN:
        path.write_text(dot(program), encoding="utf-8")
    elif path.suffix in RENDERED:
        _render(dot(program), path)
    else:
        endings = ", ".join(WRITTEN + RENDERED)
        raise ValueError(
            f"path={str(path)!r} ends in {path.suffix!r}, which says no format; end it in one of {endings}"
        )


def _render(text: str, path: Path) -> None:
    executable = shutil.which("dot")
    if executable is None:
        raise RuntimeError(
            f"path={str(path)!r} needs Graphviz's program `dot`, which is not on the PATH; install Graphviz, "
            "or write the text to a .dot file"
        )
    subprocess.run([executable, f"-T{path.suffix[1:]}", "-o", str(path)], input=text, text=True, check=True)
