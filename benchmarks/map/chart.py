"""The map as a picture: a point for each pool, its size to the right, a ratio upwards, in the colour of its window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..report import GREY, INK
from .drawing import SORTS
from .measures import WORDS, Record, against_torch

COLOURS = ("#d1495b", "#e9a23b", "#3b82c4", "#4fa36c", "#9a6fc2", "#3fa7a3", "#8f6b4a", "#8a8f98")


def over_limit(mode: str, record: Record) -> float | None:
    return record["seconds"][mode] / record["limits"][mode] if mode in record["seconds"] else None


def figure(records: list[Record], about: dict[str, Any]) -> Any:
    """Four panels: forward and forward + VJP, against PyTorch and against the memory's limit."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    made = plt.figure(figsize=(9, 7.5), layout="constrained")
    panels = made.subplots(2, 2, sharex=True, sharey="row")
    for column, mode in enumerate(WORDS):
        _scatter(panels[0][column], records, lambda record, mode=mode: against_torch(mode)(record))
        _scatter(panels[1][column], records, lambda record, mode=mode: over_limit(mode, record))
        panels[0][column].set_title(WORDS[mode], fontsize=10.5)
        panels[1][column].set_xlabel("elements", fontsize=10)
    panels[0][0].set_ylabel("PyTorch's time / ndpool's: more is better", fontsize=10)
    panels[1][0].set_ylabel("time / memory's limit: less is better", fontsize=10)
    handles, labels = panels[1][0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=len(SORTS), frameon=False, fontsize=9)
    threads = "1 thread" if about["threads"] == 1 else f"{about['threads']} threads"
    made.suptitle(f"{len(records)} pools drawn at random, {about['cpu']}, {threads}", fontsize=10.5)
    return made


def _scatter(panel: Any, records: list[Record], ratio: Any) -> None:
    for sort, colour in zip(SORTS, COLOURS, strict=True):
        points = [(r["elements"], value) for r in records if r["sort"] == sort and (value := ratio(r)) is not None]
        xs, ys = zip(*points, strict=True) if points else ((), ())
        panel.scatter(xs, ys, s=14, color=colour, alpha=0.8, linewidths=0, label=sort)
    panel.set(xscale="log", yscale="log")
    panel.axhline(1, color=GREY, linewidth=1)
    panel.set_facecolor("none")
    panel.spines[["right", "top"]].set_visible(False)
    panel.yaxis.set_major_formatter("{x:g}")


def write(records: list[Record], about: dict[str, Any], folder: Path) -> None:
    """The picture in ink for light pages and for dark ones, on no ground of its own."""
    from matplotlib import pyplot as plt

    for style, ink in INK.items():
        names = ("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color")
        colours = dict.fromkeys(names, ink) | {"axes.edgecolor": GREY}
        with plt.rc_context(colours | {"savefig.transparent": True, "svg.hashsalt": "ndpool"}):
            made = figure(records, about)
            made.savefig(folder / f"map-{style}.svg", metadata={"Date": None})
            plt.close(made)
