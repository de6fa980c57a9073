"""Figures. Matplotlib is imported when one is asked for, so that the rest of ndpool does not need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

    AnyFigure: TypeAlias = Figure | SubFigure


def new_figure(width: float = 6.4, height: float = 3.4) -> Figure:
    from matplotlib import pyplot as plt

    return plt.figure(figsize=(width, height), layout="constrained")
