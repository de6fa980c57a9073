"""Arrays as pictures: an input beside its output, and where an output cotangent goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import as_array
from ..pool import Pool
from ..reprs import brief
from .figures import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .figures import AnyFigure

WRITTEN_SIDE = 12  # up to this many cells a side, numbers are written into them


def plot_pool(pool: Pool, x: ArrayLike, *, figure: AnyFigure | None = None) -> AnyFigure:
    """The input beside the output. Small arrays are written out, colour images (height, width, 3) shown as such.

    >>> from ndpool import Avg, Pool, Window
    >>> figure = plot_pool(Pool(Avg(), Window((2, 2))), [[1.0, 2.0], [4.0, 3.0]])
    """
    x = as_array("x", x)
    y = pool(x)
    figure = figure if figure is not None else new_figure()
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

    >>> from ndpool import Max, Pool, Window
    >>> figure = plot_gradient(Pool(Max("split"), Window((2, 2))), [[1.0, 4.0], [4.0, 3.0]])
    """
    x = as_array("x", x)
    y, pullback = pool.vjp(x)
    g = np.ones(y.shape) if g is None else as_array("g", g)
    gx = pullback(g)
    figure = figure if figure is not None else new_figure(width=9.6)
    panels = figure.subplots(1, 3)
    vmin, vmax = _limits(x)
    show_array(panels[0], x, f"x  {_size(x)}", cmap="gray", vmin=vmin, vmax=vmax)
    for panel, array, name in zip(panels[1:], (g, gx), ("g", "gx"), strict=True):
        most = max(map(abs, _limits(array))) or 1.0
        show_array(panel, array, f"{name}  {_size(array)}", cmap="RdBu_r", vmin=-1.4 * most, vmax=1.4 * most)
    figure.suptitle(brief(pool), fontsize="medium")
    return figure


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
