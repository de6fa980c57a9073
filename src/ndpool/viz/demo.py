"""The demo's picture: the photograph, what each kind makes of it, and where the gradient goes at ties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..kind import Kind
from ..kinds import TIES, Max, Sum
from ..pool import Pool
from ..reprs import brief
from ..windows import Window
from .arrays import show_array

Array: TypeAlias = NDArray[Any]

MANY = 8  # so many kinds have room in three rows alone

# Two flat spots that overlapping windows share. The policies for ties differ here, in numbers that are easy to follow.
PLATEAU = np.array(
    [
        [1, 2, 2, 1, 0],
        [3, 7, 7, 2, 1],
        [2, 7, 7, 4, 1],
        [1, 3, 4, 9, 9],
        [0, 1, 2, 9, 5],
    ]
)


def draw(photo: Array, window: Window, kinds: Sequence[Kind], file: IO[bytes], format_: str) -> None:
    """Write the figure; Matplotlib is loaded here, so that the other commands start fast."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure = plt.figure(figsize=(13, 9.4), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[1.55, 1])
    above, below = parts
    _outputs(above, photo, window, kinds)
    _gradients(below)
    figure.savefig(file, dpi=110, format=format_)
    plt.close(figure)


def _outputs(figure: Any, photo: Array, window: Window, kinds: Sequence[Kind]) -> None:
    figure.suptitle(f"One photograph, {brief(window)}", fontweight="bold")
    rows = 2 if len(kinds) < MANY else 3
    panels = figure.subplots(rows, -(-(len(kinds) + 1) // rows)).ravel()
    panels[0].imshow(photo)
    panels[0].set_title(f"input, {photo.shape[0]} x {photo.shape[1]}")
    for panel, kind in zip(panels[1:], kinds, strict=False):
        y = Pool(kind, window, axes=(0, 1))(photo)
        panel.imshow(np.clip(_to_bytes(kind, y, window), 0, 255).astype(np.uint8), interpolation="nearest")
        panel.set_title(f"{brief(kind)}, {y.shape[0]} x {y.shape[1]}")
    for panel in panels:
        panel.axis("off")


def _to_bytes(kind: Kind, y: Array, window: Window) -> Array:
    """Sums and norms grow with the window; they are shown on the scale of one cell."""
    cells = float(np.prod(window.kernel_size))
    if isinstance(kind, Sum):
        return y / cells
    return y / cells ** (1 / kind.p) if hasattr(kind, "p") else y


def _gradients(figure: Any) -> None:
    """The plateau, and the gradient of the sum of its 3 x 3 maxima under each policy."""
    figure.suptitle("Where a gradient of 1 for each output goes: Max over 3 x 3, stride 2, at ties", fontweight="bold")
    panels = figure.subplots(1, 1 + len(TIES))
    show_array(panels[0], PLATEAU, "x", cmap="gray", vmin=-2, vmax=9)
    for panel, ties in zip(panels[1:], TIES, strict=True):
        y, pullback = Pool(Max(ties), Window((3, 3), stride=2)).vjp(PLATEAU)
        show_array(panel, pullback(np.ones(y.shape)), f'gx, ties="{ties}"', cmap="Reds", vmin=0, vmax=4)
