"""How a program looks: as a table of its nodes and their memory, and as a graph for Graphviz."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from ..residuals import kept

if TYPE_CHECKING:
    from ..program import Node, Program

WRITTEN = (".dot", ".gv")
RENDERED = (".png", ".svg")


# --- the table ------------------------------------------------------------------------------------


def table(program: Program) -> str:
    """One line for each node. An array that several nodes keep counts once in the total."""
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
