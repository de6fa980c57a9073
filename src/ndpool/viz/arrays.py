"""Arrays as pictures: an input beside its output, and where an output cotangent goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import as_array
from ..kinds import Sum
from ..pool import Pool
from ..reprs import brief
from ..skipping import held, is_there
from .figures import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .figures import AnyFigure

WRITTEN_SIDE = 12  # up to this many cells a side, numbers are written into them
HATCH = "#8a8f98"


def plot_pool(pool: Pool, x: ArrayLike, *, figure: AnyFigure | None = None) -> AnyFigure:
    """The input beside the output. Small arrays are written out, colour images (height, width, 3) shown as such.

    Cells that the pool skips are hatched, and so are outputs that have too few others.

    >>> from ndpool import Avg, Pool, Window
    >>> figure = plot_pool(Pool(Avg(), Window((2, 2))), [[1.0, 2.0], [4.0, 3.0]])
    """
    x = as_array("x", x)
    y = pool(x)
    no_x, no_y = not_there(pool, x)
    figure = figure if figure is not None else new_figure()
    left, right = figure.subplots(1, 2)
    same = dict(zip(("vmin", "vmax"), _limits(x, no_x), strict=True))
    within = _within(_limits(y, no_y), _limits(x, no_x))
    show_array(left, x, f"x  {_size(x)}", no_x, cmap="gray", **same)
    show_array(right, y, f"y  {_size(y)}", no_y, cmap="gray", **(same if within else {}))
    figure.suptitle(brief(pool), fontsize="medium")
    return figure


def plot_gradient(
    pool: Pool, x: ArrayLike, g: ArrayLike | None = None, *, figure: AnyFigure | None = None
) -> AnyFigure:
    """The input, an output cotangent (ones by default) and where it goes: red for more than 0, blue for less.

    Cells that the pool skips are hatched, and so are outputs that have too few others: no gradient goes there.

    >>> from ndpool import Max, Pool, Window
    >>> figure = plot_gradient(Pool(Max("split"), Window((2, 2))), [[1.0, 4.0], [4.0, 3.0]])
    """
    x = as_array("x", x)
    y, pullback = pool.vjp(x)
    g = np.ones(y.shape) if g is None else as_array("g", g)
    gx = pullback(g)
    no_x, no_y = not_there(pool, x)
    figure = figure if figure is not None else new_figure(width=9.6)
    panels = figure.subplots(1, 3)
    vmin, vmax = _limits(x, no_x)
    show_array(panels[0], x, f"x  {_size(x)}", no_x, cmap="gray", vmin=vmin, vmax=vmax)
    for panel, array, name, absent in zip(panels[1:], (g, gx), ("g", "gx"), (no_y, no_x), strict=True):
        most = max(map(abs, _limits(array, absent))) or 1.0
        show_array(panel, array, f"{name}  {_size(array)}", absent, cmap="RdBu_r", vmin=-1.4 * most, vmax=1.4 * most)
    figure.suptitle(brief(pool), fontsize="medium")
    return figure


def not_there(pool: Pool, x: NDArray[Any]) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Which cells of the input are skipped, and which outputs have too few others; None where none can be.

    >>> from ndpool import Max, Window
    >>> not_there(Pool(Max(), Window((2,)), skip=0), np.array([0, 3, 0, 0]))
    (array([ True, False,  True,  True]), array([False,  True]))
    """
    if pool.skip is None:
        return None, None
    if x.dtype.kind == "O":
        skipped = np.array([not is_there(cell, pool.skip) for cell in x.flat], bool).reshape(x.shape)
    else:
        skip = held(pool.skip, x.dtype.name)
        skipped = np.isnan(x) if skip != skip else x == skip
    counts = Pool(Sum(), pool.window, pool.axes)(~skipped)
    return skipped, counts < pool.min_count


def _plane(a: NDArray[Any]) -> NDArray[Any]:
    """The part of the array that is shown: the last two axes, at 0 along all others; a colour image whole."""
    if a.size == 0:
        raise ValueError(f"an array of shape {a.shape} has no cell, and cannot be drawn; give one without a side of 0")
    if a.ndim == 3 and a.shape[2] in (3, 4) and a.shape[0] > 4:
        return a
    while a.ndim > 2:
        a = a[0]
    return a.reshape(1, -1) if a.ndim < 2 else a


def _size(a: NDArray[Any]) -> str:
    return " x ".join(map(str, a.shape)) or "one number"


def _limits(x: NDArray[Any], absent: NDArray[Any] | None = None) -> tuple[float, float]:
    """The least and the most of the finite cells that are there; 0 and 1 if there are none."""
    x = x.astype(float)
    finite = x[np.isfinite(x) if absent is None else np.isfinite(x) & ~absent]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)


def _within(y: tuple[float, float], x: tuple[float, float]) -> bool:
    """Whether the output, which has these limits, can be shown on the input's scale of greys."""
    (y_min, y_max), (x_min, x_max) = y, x
    room = 0.25 * (x_max - x_min)
    return y_min >= x_min - room and y_max <= x_max + room


def show_array(panel: Axes, array: NDArray[Any], title: str, absent: NDArray[Any] | None = None, **how: Any) -> None:
    """One array: as pixels, and with its numbers where there is room for them. Cells that are `absent` are hatched."""
    from matplotlib import colormaps, rcParams
    from matplotlib.colors import Normalize

    plane = _plane(array)
    colours = plane.ndim == 3
    if colours and plane.dtype != np.uint8:
        plane = np.clip(plane / 255 if _limits(plane)[1] > 1 else plane, 0, 1)
    missing = np.zeros(plane.shape, bool) if absent is None else _plane(absent)
    how = dict(zip(("vmin", "vmax"), _limits(plane, missing), strict=True)) | how
    shown = plane if colours else np.where(missing, np.nan, plane.astype(float))  # a NaN is left blank
    panel.imshow(shown, interpolation="nearest", **({} if colours else how))
    panel.set_title(title, fontsize="small")
    panel.set(xticks=[], yticks=[])
    _hatch(panel, np.all(missing, axis=-1) if colours else missing)
    if not colours and max(plane.shape) <= WRITTEN_SIDE:
        shade = colormaps[how["cmap"]](Normalize(how["vmin"], how["vmax"])(plane.astype(float)))
        for (i, j), cell in np.ndenumerate(plane):
            ink = "black" if shade[i, j, :3].mean() > 0.5 else "white"
            ink = ink if np.isfinite(shown[i, j]) else rcParams["text.color"]
            size = "small" if max(plane.shape) <= 7 else "x-small"
            panel.text(j, i, _number(float(cell)), ha="center", va="center", color=ink, fontsize=size)


def _hatch(panel: Axes, cells: NDArray[Any]) -> None:
    """Lines across these cells: one rectangle for each run of neighbours in a row."""
    from matplotlib.collections import PolyCollection

    steps = np.diff(cells.astype(np.int8), axis=1, prepend=0, append=0)
    starts, ends = np.argwhere(steps == 1), np.argwhere(steps == -1)
    corners = [
        [(left - 0.5, row - 0.5), (right - 0.5, row - 0.5), (right - 0.5, row + 0.5), (left - 0.5, row + 0.5)]
        for (row, left), (_, right) in zip(starts, ends, strict=True)
    ]
    if corners:
        panel.add_collection(PolyCollection(corners, facecolor="none", edgecolor=HATCH, linewidth=0, hatch="////"))


def _number(cell: float) -> str:
    return f"{cell:.3g}".replace("-", "\N{MINUS SIGN}") if cell else "0"
