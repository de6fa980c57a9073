"""Windows as text: for each pooled axis its cells and who sees them, then the output's shape and divisors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..kinds import Avg, Lp, Median, Quantile, SmoothMax
from ..pool import Pool
from ..reprs import brief
from .seen import Line, divisor, lines

WIDEST_DRAWING = 32  # cells of an axis
MOST_OUTPUTS = 12  # of an axis, before the middle ones are left out
MARKS = {"real": ("■", "bold cyan"), "padded": ("□", "yellow"), "beyond": ("\N{MULTIPLICATION SIGN}", "red")}
LEGEND = {"real": "a cell", "padded": "padding", "beyond": "beyond the padding: never counts"}


def explanation(pool: Pool, shape: Sequence[int]) -> RenderableType:
    """Everything that follows from the shape alone."""
    over = lines(pool, shape)
    parts: list[RenderableType] = [_title(pool, shape)]
    for line in over:
        parts += [Text(), _axis_title(line), _drawing(line) if len(line.reach()) <= WIDEST_DRAWING else _list(line)]
    parts += [Text(), _legend(over), Text(), *_counts(pool, over), *_skipped(pool), *_left_out(over)]
    return Group(*parts)


def _title(pool: Pool, shape: Sequence[int]) -> Text:
    return Text.assemble(
        (brief(pool), "bold"), f"\n{tuple(shape)} becomes ", (f"{pool.output_shape(shape)}", "bold green")
    )


def _axis_title(line: Line) -> Text:
    a = line.geometry
    if a.adaptive:
        return Text.assemble((f"axis {line.axis}", "bold"), f"  {a.length} cells shared out to {a.output} outputs")
    words = [f"{a.length} cells", f"kernel {a.kernel}", f"stride {a.stride}"]
    words += [f"dilation {a.dilation}"] * (a.dilation > 1) + [f"padding {a.pad_lo} and {a.pad_hi}"] * (
        a.pad_lo + a.pad_hi > 0
    )
    outputs = "1 output" if a.output == 1 else f"{a.output} outputs"
    return Text.assemble((f"axis {line.axis}", "bold"), f"  {', '.join(words)}: ", (outputs, "green"))


def _some_outputs(line: Line) -> list[int | None]:
    """All outputs, or the first and last ones with None for those between."""
    outputs = line.geometry.output
    if outputs <= MOST_OUTPUTS:
        return list(range(outputs))
    half = MOST_OUTPUTS // 2
    return [*range(half), None, *range(outputs - half, outputs)]


def _drawing(line: Line) -> Text:
    """The cells in a row, and below them a row of marks for each output."""
    reach = line.reach()
    width = max(len(str(line.geometry.length)), 2) + 1
    margin = len(f"output {line.geometry.output}") + 3
    text = Text("  cell".ljust(margin))
    for place in reach:
        state = line.state(place)
        text.append(
            (str(place) if state == "real" else "·").rjust(width), "bold" if state == "real" else MARKS[state][1]
        )
    for output in _some_outputs(line):
        text.append("\n" + ("  ..." if output is None else f"  output {output}").ljust(margin), "dim")
        seen = [] if output is None else line.places(output)
        for place in reach:
            mark, style = MARKS[line.state(place)] if place in seen else ("·", "bright_black")
            text.append(("" if output is None else mark).rjust(width), style)
    return text


def _list(line: Line) -> Text:
    """The same in words, for an axis that is too long to be drawn."""
    text = Text()
    for output in _some_outputs(line):
        if output is None:
            text.append("  ...\n", "dim")
            continue
        places = [place for place in line.places(output) if line.state(place) == "real"]
        padded = line.count(output, "padded")
        cells = f"{places[0]} to {places[-1]}" if places else "none"
        step = f" in steps of {line.geometry.dilation}" if line.geometry.dilation > 1 else ""
        text.append(f"  output {output}", "dim")
        text.append(f"  sees {cells}{step}" + (f" and {padded} padded\n" if padded else "\n"))
    text.rstrip()
    return text


def _legend(over: Sequence[Line]) -> Text:
    present = {line.state(place) for line in over for i in range(line.geometry.output) for place in line.places(i)}
    text = Text("  ")
    for state in ("real", "padded", "beyond"):
        if state in present:
            mark, style = MARKS[state]
            text.append(mark, style).append(f" {LEGEND[state]}   ")
    text.rstrip()
    return text


def _counts(pool: Pool, over: Sequence[Line]) -> list[RenderableType]:
    """What every output counts: one number where that is the same everywhere, a grid for one axis or two."""
    heading = _counting(pool)
    sizes = [line.geometry.output for line in over]
    least, most = _range(pool, over, sizes)
    if least == most:
        return [Text.assemble(heading, ": ", (str(least), "bold"), " in every window")]
    if len(over) > 2 or max(sizes) > MOST_OUTPUTS:
        return [Text.assemble(heading, ": from ", (str(least), "bold"), " to ", (str(most), "bold"))]
    table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=True)
    rows, columns = (1, sizes[0]) if len(sizes) == 1 else sizes
    for i in range(rows):
        table.add_row(*(str(divisor(pool.kind, over, (j,) if len(sizes) == 1 else (i, j))) for j in range(columns)))
    return [Text(f"{heading}, for each output:"), table]


def _range(pool: Pool, over: Sequence[Line], sizes: Sequence[int]) -> tuple[int, int]:
    """The least and the most that an output counts.

    Along an axis, outputs that see equally many real and equally many padded places count alike: one of them is enough.
    """
    sorts = [
        {(line.count(i, "real"), line.count(i, "padded")): i for i in range(size)}.values()
        for line, size in zip(over, sizes, strict=True)
    ]
    found = [divisor(pool.kind, over, output) for output in product(*sorts)]
    return min(found), max(found)


def _counting(pool: Pool) -> str:
    """What the numbers are that every output has; skipped cells make them smaller."""
    fixed = isinstance(pool.kind, Avg) and pool.kind.divisor_override is not None
    return _counted(pool) + ("" if pool.skip is None or fixed else " if none is skipped")


def _counted(pool: Pool) -> str:
    if isinstance(pool.kind, Avg):
        return "divisor"
    if isinstance(pool.kind, SmoothMax):
        return "terms in the sum"
    if pool.kind.one_winner() is not None:
        return "cells that can win"
    if isinstance(pool.kind, Quantile | Median):
        return "cells that are sorted"
    return "cells in the norm" if isinstance(pool.kind, Lp) else "cells"


def _skipped(pool: Pool) -> list[RenderableType]:
    """A note on the cells that are not there, and on the outputs that have too few others."""
    if pool.skip is None:
        return []
    least = {0: "an output needs no other", 1: f"an output that has no other is {pool.skip}"}
    words = least.get(pool.min_count, f"an output with fewer than {pool.min_count} others is {pool.skip}")
    return [Text.assemble(("skipped: ", "bold yellow"), f"each cell that is {pool.skip}; {words}")]


def _left_out(over: Sequence[Line]) -> list[RenderableType]:
    """A note for each axis with cells that no window sees, or one note that there are none."""
    notes: list[RenderableType] = []
    for line in over:
        unseen = line.unseen()
        if unseen:
            places = ", ".join(map(str, unseen[:8])) + (", ..." if len(unseen) > 8 else "")
            which = f"cell {places} is" if len(unseen) == 1 else f"cells {places} are"
            notes.append(Text.assemble(("dropped: ", "bold red"), f"along axis {line.axis}, {which} in no window"))
    total = math.prod(line.geometry.length for line in over)
    seen = math.prod(line.geometry.length - len(line.unseen()) for line in over)
    if seen == total:
        notes.append(Text("no cell is dropped: every one is in some window", "dim"))
    return notes
