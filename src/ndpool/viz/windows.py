"""Windows as pictures: which cells each output sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..pool import Pool
from .figures import new_figure
from .seen import Line, lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .figures import AnyFigure

MOST_WINDOWS = 36
PADDED, EDGE = "#e9a23b", "#8a8f98"
CELLS = "#7f8ea3"


def plot_windows(pool: Pool, shape: Sequence[int], *, figure: AnyFigure | None = None) -> AnyFigure:
    """Which cells each output sees: one colour an output, orange dashes around padding.

    With one pooled axis there is a row of marks for each output; with two, a cell carries a small square of the
    colour of each output that sees it. Other axes than the pooled ones are left out.

    >>> from ndpool import Max, Pool, Window
    >>> figure = plot_windows(Pool(Max(), Window((3,), stride=2, padding=1)), (5,))
    """
    over = lines(pool, shape)
    outputs = [line.geometry.output for line in over]
    if len(over) > 2 or int(np.prod(outputs)) > MOST_WINDOWS:
        raise ValueError(
            f"{len(over)} pooled axes with {tuple(outputs)} outputs cannot be drawn; "
            f"give one or two axes with at most {MOST_WINDOWS} outputs"
        )
    figure = figure if figure is not None else new_figure()
    (_draw_line if len(over) == 1 else _draw_plane)(figure, over)
    return figure


def _colours(count: int) -> list[Any]:
    from matplotlib import colormaps

    if count <= 10:
        return [colormaps["tab10"](k) for k in range(count)]
    return [colormaps["turbo"](0.05 + 0.9 * k / (count - 1)) for k in range(count)]


def _cell(panel: Axes, i: float, j: float, states: set[str]) -> None:
    """One cell of the input: solid if real, dashed if padded, and nothing beyond the padding."""
    from matplotlib.patches import Rectangle

    if "beyond" in states:
        panel.text(j, i, "\N{MULTIPLICATION SIGN}", ha="center", va="center", color=EDGE, alpha=0.8, fontsize="small")
        return
    padded = "padded" in states
    cell = Rectangle((j - 0.46, i - 0.46), 0.92, 0.92, linewidth=1.0)
    cell.set(edgecolor=PADDED if padded else EDGE, linestyle="--" if padded else "-")
    cell.set_facecolor("none" if padded else (*_rgb(CELLS), 0.12))
    panel.add_patch(cell)


def _rgb(colour: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(colour)


def _square(panel: Axes, i: float, j: float, side: float, colour: Any) -> None:
    from matplotlib.patches import Rectangle

    panel.add_patch(Rectangle((j - side / 2, i - side / 2), side, side, facecolor=colour, edgecolor="none"))


def _bare(panel: Axes, rows: tuple[float, float], columns: tuple[float, float]) -> None:
    panel.set(xlim=(columns[0] - 0.7, columns[1] + 0.7), ylim=(rows[1] + 0.7, rows[0] - 0.7), aspect="equal")
    panel.axis("off")


def _draw_line(figure: AnyFigure, over: Sequence[Line]) -> None:
    """The cells of one axis in a row; below it, for each output, marks under the cells that it sees."""
    (line,) = over
    panel = figure.subplots(1, 1)
    reach, outputs = line.reach(), line.geometry.output
    for place in reach:
        _cell(panel, 0, place, {line.state(place)})
        if line.state(place) == "real":
            panel.text(place, 0, str(place), ha="center", va="center", fontsize="small")
    for output, colour in enumerate(_colours(outputs)):
        row, seen = 1 + 0.62 * output, line.places(output)
        panel.plot([seen[0], seen[-1]], [row, row], color=colour, linewidth=1.2, alpha=0.6)
        for place in seen:
            counts = line.state(place) != "beyond"
            marker = {"markerfacecolor": colour if line.state(place) == "real" else "none", "markeredgecolor": colour}
            panel.plot(place, row, marker="s" if counts else "x", markersize=8 if counts else 6, **marker)
        panel.text(reach[0] - 0.8, row, f"output {output}", ha="right", va="center", fontsize="small", color=colour)
    _bare(panel, (0, 1 + 0.62 * (outputs - 1)), (reach[0] - 1.6, reach[-1]))


def _draw_plane(figure: AnyFigure, over: Sequence[Line]) -> None:
    """The cells of two axes, each with a small square for every output that sees it, beside the output."""
    down, across = over
    rows, columns = down.geometry.output, across.geometry.output
    colours = np.array(_colours(rows * columns)).reshape(rows, columns, 4)
    reach_down, reach_across = down.reach(), across.reach()
    left, right = figure.subplots(1, 2, width_ratios=[len(reach_across) + 1, columns + 1])
    for i in reach_down:
        for j in reach_across:
            _cell(left, i, j, {down.state(i), across.state(j)})
    step = 0.84 / max(rows, columns)
    for a in range(rows):
        for b in range(columns):
            for i in down.places(a):
                for j in across.places(b):
                    if "beyond" not in (down.state(i), across.state(j)):
                        at = i + (a - (rows - 1) / 2) * step, j + (b - (columns - 1) / 2) * step
                        _square(left, *at, 0.82 * step, colours[a, b])
            _square(right, a, b, 0.86, colours[a, b])
            right.text(b, a, f"{a},{b}", ha="center", va="center", fontsize="small", color="white", fontweight="bold")
    _bare(left, (reach_down[0], reach_down[-1]), (reach_across[0], reach_across[-1]))
    _bare(right, (0, rows - 1), (0, columns - 1))
    left.set_title("the input, and who sees each cell", fontsize="small")
    right.set_title("the output", fontsize="small")
