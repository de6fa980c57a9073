"""Pictures of pools, with Matplotlib (the extra `viz`).

    plot_windows(pool, shape)     which cells each output sees
    plot_pool(pool, x)            the input beside the output
    plot_gradient(pool, x, g)     where an output cotangent goes

Each returns a figure of its own, or draws into the `figure` that it is given, which may be a subfigure. Lines and
letters take the colours of Matplotlib's current style, so that dark styles work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import as_array
from .explain import Line, lines
from .pictures import brief
from .pool import Pool

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    AnyFigure: TypeAlias = Figure | SubFigure

__all__ = ["plot_gradient", "plot_pool", "plot_windows"]

MOST_WINDOWS = 36
WRITTEN_SIDE = 12  # up to this many cells a side, numbers are written into them
PADDED, EDGE = "#e9a23b", "#8a8f98"
CELLS = "#7f8ea3"


# --- the three pictures ---------------------------------------------------------------------------


def plot_windows(pool: Pool, shape: Sequence[int], *, figure: AnyFigure | None = None) -> AnyFigure:
    """Which cells each output sees: one colour an output, orange dashes around padding.

    With one pooled axis there is a row of marks for each output; with two, a cell carries a small square of the
    colour of each output that sees it. Other axes than the pooled ones are left out.

    >>> from ndpool import Max, Window
    >>> figure = plot_windows(Pool(Max(), Window((3,), stride=2, padding=1)), (5,))
    """
    over = lines(pool, shape)
    outputs = [line.geometry.output for line in over]
    if len(over) > 2 or int(np.prod(outputs)) > MOST_WINDOWS:
        raise ValueError(
            f"{len(over)} pooled axes with {tuple(outputs)} outputs cannot be drawn; "
            f"give one or two axes with at most {MOST_WINDOWS} outputs"
        )
    figure = figure if figure is not None else _new_figure()
    (_draw_line if len(over) == 1 else _draw_plane)(figure, over)
    return figure


def plot_pool(pool: Pool, x: ArrayLike, *, figure: AnyFigure | None = None) -> AnyFigure:
    """The input beside the output. Small arrays are written out, colour images (height, width, 3) shown as such.

    >>> from ndpool import Avg, Window
    >>> figure = plot_pool(Pool(Avg(), Window((2, 2))), [[1.0, 2.0], [4.0, 3.0]])
    """
    x = as_array("x", x)
    y = pool(x)
    figure = figure if figure is not None else _new_figure()
    left, right = figure.subplots(1, 2)
    same = dict(zip(("vmin", "vmax"), _limits(x), strict=True))
    show_array(left, x, f"x  {_size(x)}", cmap="gray", **same)
    show_array(right, y, f"y  {_size(y)}", cmap="gray", **(same if _within(y, x) else {}))
    figure.suptitle(brief(pool), fontsize="medium")
    return figure


def plot_gradient(
    pool: Pool, x: ArrayLike, g: ArrayLike | None = None, *, figure: AnyFigure | None = None
) -> AnyFigure:
    """The input, an output cotangent (ones by default) and where it goes: red for more than 0, blue for less.

    >>> from ndpool import Max, Window
    >>> figure = plot_gradient(Pool(Max("split"), Window((2, 2))), [[1.0, 4.0], [4.0, 3.0]])
    """
    x = as_array("x", x)
    y, pullback = pool.vjp(x)
    g = np.ones(y.shape) if g is None else as_array("g", g)
    gx = pullback(g)
    figure = figure if figure is not None else _new_figure(width=9.6)
    panels = figure.subplots(1, 3)
    vmin, vmax = _limits(x)
    show_array(panels[0], x, f"x  {_size(x)}", cmap="gray", vmin=vmin, vmax=vmax)
    for panel, array, name in zip(panels[1:], (g, gx), ("g", "gx"), strict=True):
        most = max(map(abs, _limits(array))) or 1.0
        show_array(panel, array, f"{name}  {_size(array)}", cmap="RdBu_r", vmin=-1.4 * most, vmax=1.4 * most)
    figure.suptitle(brief(pool), fontsize="medium")
    return figure


# --- arrays ---------------------------------------------------------------------------------------


def _new_figure(width: float = 6.4, height: float = 3.4) -> Figure:
    from matplotlib import pyplot as plt

    return plt.figure(figsize=(width, height), layout="constrained")


def _plane(a: NDArray[Any]) -> NDArray[Any]:
    """A picture of the array: two axes, or three with colours last; leading axes are taken at 0."""
    if a.size == 0:
        raise ValueError(f"an array of shape {a.shape} has no cell, and cannot be drawn; give one without a side of 0")
    if a.ndim == 3 and a.shape[2] in (3, 4) and a.shape[0] > 4:
        return a
    while a.ndim > 2:
        a = a[0]
    return a.reshape(1, -1) if a.ndim < 2 else a


def _size(a: NDArray[Any]) -> str:
    return " x ".join(map(str, a.shape)) or "one number"


def _limits(x: NDArray[Any]) -> tuple[float, float]:
    """The least and the most of the finite cells; 0 and 1 if there are none."""
    finite = x[np.isfinite(x)].astype(float)
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)


def _within(y: NDArray[Any], x: NDArray[Any]) -> bool:
    """Whether the output can be shown on the input's scale of greys."""
    (y_min, y_max), (x_min, x_max) = _limits(y), _limits(x)
    room = 0.25 * (x_max - x_min)
    return y_min >= x_min - room and y_max <= x_max + room


def show_array(panel: Axes, array: NDArray[Any], title: str, **how: Any) -> None:
    """One array: as pixels, and with its numbers where there is room for them."""
    from matplotlib import colormaps, rcParams
    from matplotlib.colors import Normalize

    plane = _plane(array)
    colours = plane.ndim == 3
    if colours and plane.dtype != np.uint8:
        plane = np.clip(plane / 255 if _limits(plane)[1] > 1 else plane, 0, 1)
    how = dict(zip(("vmin", "vmax"), _limits(plane), strict=True)) | how
    panel.imshow(plane if colours else plane.astype(float), interpolation="nearest", **({} if colours else how))
    panel.set_title(title, fontsize="small")
    panel.set(xticks=[], yticks=[])
    if not colours and max(plane.shape) <= WRITTEN_SIDE:
        shade = colormaps[how["cmap"]](Normalize(how["vmin"], how["vmax"])(plane))
        for (i, j), cell in np.ndenumerate(plane):
            ink = "black" if shade[i, j, :3].mean() > 0.5 else "white"
            ink = ink if np.isfinite(cell) else rcParams["text.color"]  # such a cell is not filled
            size = "small" if max(plane.shape) <= 7 else "x-small"
            panel.text(j, i, _number(float(cell)), ha="center", va="center", color=ink, fontsize=size)


def _number(cell: float) -> str:
    return f"{cell:.3g}".replace("-", "\N{MINUS SIGN}") if cell else "0"


# --- windows --------------------------------------------------------------------------------------


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
