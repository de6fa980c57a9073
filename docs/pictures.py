"""Draws the pictures of the documentation and the README, each for light and for dark pages.

    python docs/pictures.py              writes docs/images/*-light.svg and *-dark.svg

They come from `ndpool.viz` and from ndpool itself, so a picture cannot say what the code does not do.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from ndpool import Adaptive, Avg, Lp, Max, Median, Min, Mode, Pool, SmoothMax, Sum, Window, viz
from ndpool.cli.demo import photograph

IMAGES = Path(__file__).parent / "images"
CERTIFIED = Path(__file__).parents[1] / "benchmarks" / "results" / "certified.json"
STYLES = {
    "light": {
        "text.color": "#1d2530",
        "axes.labelcolor": "#1d2530",
        "xtick.color": "#1d2530",
        "ytick.color": "#1d2530",
    },
    "dark": {"text.color": "#e6eaf0", "axes.labelcolor": "#e6eaf0", "xtick.color": "#e6eaf0", "ytick.color": "#e6eaf0"},
}
ALWAYS = {"savefig.transparent": True, "svg.hashsalt": "ndpool", "font.size": 10, "axes.edgecolor": "#8a8f98"}
SEEN, OTHER, GREY = "#3b82c4", "#d1495b", "#8a8f98"

PLATEAU = np.array([[1, 2, 2, 1, 0], [3, 7, 7, 2, 1], [2, 7, 7, 4, 1], [1, 3, 4, 9, 9], [0, 1, 2, 9, 5]])


def figure(width: float, height: float) -> Figure:
    return plt.figure(figsize=(width, height), layout="constrained")


def windows(window: Window | Adaptive, shape: tuple[int, ...], width: float = 6, height: float = 2.6) -> Figure:
    drawn = figure(width, height)
    viz.plot_windows(Pool(Sum(), window), shape, figure=drawn)
    return drawn


# --- the README's ---------------------------------------------------------------------------------


def overview() -> Figure:
    """A photograph through four kinds, and one gradient."""
    photo = photograph()[40:200, 100:300]
    drawn = figure(11.5, 2.4)
    panels = drawn.subplots(1, 5, width_ratios=[1.25, 1.25, 1.25, 1.25, 1.15])
    window = Window((7, 7), stride=5)
    shown = [("input", photo)]
    shown += [
        (name, Pool(kind, window, axes=(0, 1))(photo))
        for name, kind in (("Max", Max()), ("Min", Min()), ("Avg", Avg()))
    ]
    for panel, (title, image) in zip(panels, shown, strict=False):
        panel.imshow(np.clip(image, 0, 255).astype(np.uint8), interpolation="nearest")
        panel.set_title(f"{title}  {image.shape[0]} x {image.shape[1]}", fontsize="small")
        panel.axis("off")
    y, pullback = Pool(Max("split"), Window((3, 3), stride=2)).vjp(PLATEAU)
    viz.show_array(panels[-1], pullback(np.ones(y.shape)), "gradient of Max, ties split", cmap="Reds", vmin=0, vmax=2)
    return drawn


# --- the rules ------------------------------------------------------------------------------------


def output_size() -> Figure:
    drawn = figure(8, 2.3)
    left, right = drawn.subfigures(1, 2)
    for part, ceil, title in ((left, False, "ceil_mode=False"), (right, True, "ceil_mode=True")):
        viz.plot_windows(Pool(Sum(), Window((3,), 2, ceil_mode=ceil)), (6,), figure=part)
        part.suptitle(f"6 cells, kernel 3, stride 2, {title}", fontsize="small")
    return drawn


def padding() -> Figure:
    drawn = figure(9, 2.4)
    for part, word in zip(drawn.subfigures(1, 3), ("valid", "same", "same_lower"), strict=True):
        viz.plot_windows(Pool(Sum(), Window((3,), 2, word)), (6,), figure=part)
        part.suptitle(f'padding="{word}"', fontsize="small")
    return drawn


def padded_cells() -> Figure:
    drawn = figure(7.6, 2.8)
    panel = drawn.subplots()
    x = -np.array([3.0, 1.0, 2.0, 2.5])
    kinds = {"Max()": Max(), "Avg()": Avg(), "Avg(count_include_pad=False)": Avg(False)}
    kinds |= {"SmoothMax(2)": SmoothMax(2.0), "SmoothMax(2, count_include_pad=False)": SmoothMax(2.0, False)}
    colours = [GREY, SEEN, SEEN, OTHER, OTHER]
    for k, ((name, kind), colour) in enumerate(zip(kinds.items(), colours, strict=True)):
        y = Pool(kind, Window((3,), 1, 1))(x)
        panel.plot(y, marker="o", color=colour, linestyle="--" if "False" in name else "-", label=name, zorder=3 + k)
    panel.plot(x, marker="s", color=GREY, linestyle=":", label="x")
    panel.axhline(0, color=GREY, linewidth=0.7)
    panel.set(xticks=range(4), xlabel="output, 3 cells wide, padding 1")
    panel.set_facecolor("none")
    panel.spines[["top", "right"]].set_visible(False)
    drawn.legend(loc="outside right", fontsize="small", frameon=False)
    return drawn


def ties() -> Figure:
    drawn = figure(9, 2.6)
    panels = drawn.subplots(1, 4)
    viz.show_array(panels[0], PLATEAU, "x", cmap="gray", vmin=-2, vmax=9)
    for panel, policy in zip(panels[1:], ("first", "split", "all"), strict=True):
        y, pullback = Pool(Max(policy), Window((3, 3), stride=2)).vjp(PLATEAU)
        viz.show_array(panel, pullback(np.ones(y.shape)), f'gx, ties="{policy}"', cmap="Reds", vmin=0, vmax=4)
    return drawn


def nan() -> Figure:
    drawn = figure(7, 2.1)
    x = np.array([[1.0, np.nan, 2.0, 5.0, -np.inf, -np.inf]])
    panels = drawn.subplots(1, 3)
    pool = Pool(Max(), Window((1, 2)))
    y, pullback = pool.vjp(x)
    for panel, array, title in zip(
        panels, (x, y, pullback([[1.0, 2.0, 3.0]])), ("x", "y", "gx for g = 1, 2, 3"), strict=True
    ):
        viz.show_array(
            panel, array, title, cmap="gray" if title in "xy" else "Reds", vmin=-4 if title in "xy" else 0, vmax=6
        )
    return drawn


def overlap() -> Figure:
    drawn = figure(7, 2.4)
    x = np.array([[1.0, 2.0, 9.0, 2.0, 1.0]])
    viz.plot_gradient(Pool(Max(), Window((1, 3), stride=1)), x, np.array([[1.0, 10.0, 100.0]]), figure=drawn)
    return drawn


def smooth_max() -> Figure:
    drawn = figure(6, 2.8)
    panel = drawn.subplots()
    x = np.linspace(-3, 3, 121)
    for beta, colour in ((0.5, "#9ec5e8"), (1.0, SEEN), (4.0, "#1d4e89"), (-1.0, OTHER)):
        y = [float(Pool(SmoothMax(beta), Window((2,)))(np.array([cell, 0.0]))[0]) for cell in x]
        panel.plot(x, y, color=colour, label=f"SmoothMax({beta:g})")
    panel.plot(x, np.maximum(x, 0), color=GREY, linestyle="--", label="Max")
    panel.set(xlabel="x, beside a cell that is 0")
    panel.set_facecolor("none")
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(fontsize="small", frameon=False)
    return drawn


def norms() -> Figure:
    drawn = figure(4.2, 3.4)
    panel = drawn.subplots()
    grid = np.linspace(-1.2, 1.2, 161)
    cells = np.stack(np.meshgrid(grid, grid), axis=-1)
    for p, colour in ((1, "#9ec5e8"), (2, SEEN), (4, "#1d4e89")):
        y = Pool(Lp(p), Window((2,)))(cells)[..., 0]
        panel.contour(grid, grid, y, levels=[1.0], colors=[colour])
        panel.plot([], [], color=colour, label=f"Lp({p}) = 1")
    panel.set(aspect="equal", xlabel="one cell", ylabel="the other")
    panel.set_facecolor("none")
    panel.legend(fontsize="small", frameon=False, loc="center")
    return drawn


# --- images ---------------------------------------------------------------------------------------


def morphology() -> Figure:
    """A photograph through the pools that people with images know by other names."""
    photo = photograph()[60:180, 130:290]
    window = Window((7, 7), stride=1, padding="same")
    dilated, eroded = (Pool(kind, window, axes=(0, 1))(photo) for kind in (Max(), Min()))
    shown = {
        "x": photo,
        "dilation, 7 x 7": dilated,
        "erosion, 7 x 7": eroded,
        "dilation - erosion": dilated - eroded,
        "block means, 8 x 8": Pool(Avg(), Window((8, 8)), axes=(0, 1))(photo),
    }
    drawn = figure(11.5, 2.1)
    for panel, (title, image) in zip(drawn.subplots(1, 5), shown.items(), strict=True):
        panel.imshow(image.astype(np.uint8), interpolation="nearest")
        panel.set_title(title, fontsize="medium")
        panel.axis("off")
    return drawn


# --- labels and measurements ----------------------------------------------------------------------


def waves(shape: tuple[int, int], count: int, seed: int) -> np.ndarray:
    """A smooth random surface, a sum of plane waves, about -1 to 1."""
    rng = np.random.default_rng(seed)
    i, j = np.mgrid[: shape[0], : shape[1]] / max(shape)
    turns, phases = rng.normal(0, 2.2, (count, 2)), rng.uniform(0, 2 * np.pi, count)
    return sum(np.sin(2 * np.pi * (a * i + b * j) + c) for (a, b), c in zip(turns, phases, strict=True)) / count**0.5


def strangers(labels: np.ndarray, y: np.ndarray, side: int) -> int:
    """How many blocks have a label that none of their cells has."""
    blocks = labels.reshape(y.shape[0], side, y.shape[1], side).swapaxes(1, 2).reshape(*y.shape, -1)
    return int((blocks != y[..., None]).all(axis=-1).sum())


def labels() -> Figure:
    """Regions with numbers for names, by their means and by their majorities."""
    rng = np.random.default_rng(4)
    shape, side = (64, 96), 8
    seeds, bent = rng.uniform((0, 0), shape, (10, 2)), np.stack([6 * waves(shape, 6, seed) for seed in (1, 2)])
    cells = np.moveaxis(np.mgrid[: shape[0], : shape[1]] + bent, 0, -1)
    regions = np.argmin(((cells[..., None, :] - seeds) ** 2).sum(axis=-1), axis=-1).astype(np.uint8)
    drawn = figure(9, 2.4)
    panels = drawn.subplots(1, 3)
    show_regions(panels[0], regions, "labels, 64 x 96")
    for panel, name, kind in ((panels[1], "Avg", Avg(rounding="half_even")), (panels[2], "Mode", Mode())):
        y = Pool(kind, Window((side, side)))(regions)
        show_regions(panel, y, f"{name}: {strangers(regions, y, side)} of {y.size} labels are made up")
    return drawn


def show_regions(panel, regions: np.ndarray, title: str) -> None:
    panel.imshow(regions, cmap="tab10", vmin=0, vmax=9, interpolation="nearest")
    panel.set_title(title, fontsize="small")
    panel.axis("off")


def clouds() -> Figure:
    """A raster with gaps, pooled as it is, without the gaps, and only where half of the cells are there."""
    shape, side = (60, 80), 5
    raster = 15 + 6 * waves(shape, 8, 7)
    raster[waves(shape, 8, 3) + 0.6 * waves(shape, 24, 5) > 0.75] = np.nan
    raster[waves(shape, 60, 6) > 1.6] = np.nan
    drawn = figure(11, 2.5)
    shown = [("a raster under clouds", raster)]
    for words, how in (
        ("Avg()", {}),
        ("skip=nan", {"skip": np.nan}),
        ("skip=nan, min_count=13", {"skip": np.nan, "min_count": 13}),
    ):
        shown.append((words, Pool(Avg(), Window((side, side)), **how)(raster)))
    low, high = float(np.nanmin(raster)), float(np.nanmax(raster))
    for panel, (title, array) in zip(drawn.subplots(1, 4), shown, strict=True):
        words = f"{title}, {array.shape[0]} x {array.shape[1]}"
        viz.show_array(panel, array, words, np.isnan(array), cmap="viridis", vmin=low, vmax=high)
    return drawn


def noise() -> Figure:
    """A photograph with broken pixels, by the mean and by the median."""
    photo = photograph()[70:160, 150:280]
    rng = np.random.default_rng(0)
    broken = np.where(rng.random(photo.shape[:2])[..., None] < 0.1, rng.choice([0, 255], (*photo.shape[:2], 1)), photo)
    window = Window((3, 3), stride=1, padding="same")
    shown = {
        "x": photo,
        "one pixel in ten is broken": broken,
        "Avg, 3 x 3": Pool(Avg(count_include_pad=False), window, axes=(0, 1))(broken),
        "Median, 3 x 3": Pool(Median(), window, axes=(0, 1))(broken),
    }
    drawn = figure(11, 2.2)
    for panel, (title, image) in zip(drawn.subplots(1, 4), shown.items(), strict=True):
        panel.imshow(np.rint(image).astype(np.uint8), interpolation="nearest")
        panel.set_title(title, fontsize="small")
        panel.axis("off")
    return drawn


def pyramid() -> Figure:
    """Half the size at each level: means that are cut off lose light, means that are rounded do not."""
    rng = np.random.default_rng(2)
    light = 3.2 + 6 * np.clip(waves((128, 128), 12, 9), 0, None) ** 2
    first = rng.poisson(light).astype(np.uint8)
    drawn = figure(10, 3.9)
    for row, rounding in zip(drawn.subplots(2, 6), ("truncate", "half_even"), strict=True):
        x = first
        for level, panel in enumerate(row):
            panel.imshow(x, cmap="gray", vmin=0, vmax=12, interpolation="nearest")
            panel.set_title(f"level {level}, mean {x.mean():.2f}", fontsize="small")
            panel.set(xticks=[], yticks=[])
            x = Pool(Avg(rounding=rounding), Window((2, 2)))(x)
        row[0].set_ylabel(f'"{rounding}"')
    return drawn


def levels() -> Figure:
    """The levels of a pyramid over the same frame: where each lies is in its scale and its translation."""
    first = photograph()
    drawn = figure(11.5, 2.1)
    for level, panel in enumerate(drawn.subplots(1, 5)):
        side = 2**level
        x = Pool(Avg(rounding="half_even"), Window((side, side), ceil_mode=True), axes=(0, 1))(first)
        height, width = (n * side for n in x.shape[:2])
        panel.imshow(x, extent=(-0.5, width - 0.5, height - 0.5, -0.5), interpolation="nearest")
        panel.set(xlim=(-0.5, first.shape[1] - 0.5), ylim=(first.shape[0] - 0.5, -0.5))
        panel.set_title(f"{x.shape[1]} x {x.shape[0]}\nscale {side}, translation {(side - 1) / 2:g}", fontsize="small")
        panel.axis("off")
    return drawn


# --- the engine -----------------------------------------------------------------------------------


def row_of_cells(panel, y: float, cells: range, texts: list[str], colours: list[str], height: float = 0.8) -> None:
    for j, text, colour in zip(cells, texts, colours, strict=True):
        panel.add_patch(Rectangle((j, y), 0.94, height, facecolor=colour, edgecolor=GREY, alpha=0.9, linewidth=0.8))
        panel.text(j + 0.47, y + height / 2, text, ha="center", va="center", fontsize="small", color="#10151c")


def bare(panel, width: float, top: float, bottom: float = 0) -> None:
    panel.set(xlim=(-0.3, width), ylim=(top, bottom))
    panel.axis("off")


PALE, BLUE, RED = "#e8edf3", "#9ec5e8", "#f2b5bd"


def separable() -> Figure:
    """3 x 3 as a pass over rows and a pass along them."""
    drawn = figure(8, 2.7)
    panel = drawn.subplots()
    x = np.array([[1, 5, 2, 0, 3], [4, 0, 1, 7, 2], [2, 3, 6, 1, 0]])
    merged = x.max(axis=0)
    y = [int(merged[j : j + 3].max()) for j in range(3)]
    for i, row in enumerate(x):
        row_of_cells(panel, i, range(5), [str(cell) for cell in row], [BLUE] * 3 + [PALE] * 2)
    row_of_cells(panel, 1, range(7, 12), [str(cell) for cell in merged], [BLUE] * 3 + [PALE] * 2)
    row_of_cells(panel, 1, range(14, 17), [str(cell) for cell in y], [RED, PALE, PALE])
    for start, text in ((5.2, "1. merge\nthe rows"), (12.2, "2. pool\nalong")):
        panel.add_patch(
            FancyArrowPatch((start, 1.4), (start + 1.5, 1.4), arrowstyle="-|>", mutation_scale=14, color=GREY)
        )
        panel.text(start + 0.75, 0.55, text, ha="center", va="center", fontsize="small")
    bare(panel, 17.3, 3.2, -0.2)
    return drawn


def prefix_suffix() -> Figure:
    """A window of 4 is the end of one block and the beginning of the next."""
    drawn = figure(8, 2.9)
    panel = drawn.subplots()
    x = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
    prefix = [max(x[j - j % 4 : j + 1]) for j in range(12)]
    suffix = [max(x[j : j - j % 4 + 4]) for j in range(12)]
    row_of_cells(panel, 0, range(12), [str(cell) for cell in x], [BLUE if 2 <= j < 6 else PALE for j in range(12)])
    row_of_cells(panel, 1.4, range(12), [str(cell) for cell in suffix], [RED if j == 2 else PALE for j in range(12)])
    row_of_cells(panel, 2.4, range(12), [str(cell) for cell in prefix], [RED if j == 5 else PALE for j in range(12)])
    for edge in (4, 8):
        panel.plot([edge - 0.03] * 2, [-0.2, 3.4], color=OTHER, linestyle="--", linewidth=1)
    for y, text in (
        (0.4, "x, in blocks of 4"),
        (1.8, "largest from here to the block's end"),
        (2.8, "largest from the block's start"),
    ):
        panel.text(12.3, y, text, va="center", fontsize="small")
    panel.text(2, 3.75, "window 2..5: the larger of the two red cells", fontsize="small", color=OTHER)
    bare(panel, 17.8, 4.0, -0.3)
    return drawn


def winner_byte() -> Figure:
    """Where a winner stands in its window is one small number."""
    drawn = figure(7, 2.4)
    panel = drawn.subplots()
    x = np.array([[1, 5, 2], [4, 0, 7], [2, 3, 6]])
    for i, row in enumerate(x):
        row_of_cells(panel, i, range(3), [str(cell) for cell in row], [RED if cell == 7 else BLUE for cell in row])
        row_of_cells(
            panel, i, range(5, 8), [str(3 * i + j) for j in range(3)], [RED if cell == 7 else PALE for cell in row]
        )
    panel.text(1.4, -0.35, "the window", ha="center", fontsize="small")
    panel.text(6.4, -0.35, "places in it", ha="center", fontsize="small")
    row_of_cells(panel, 1, range(10, 11), ["5"], [RED])
    panel.text(11.2, 1.4, "kept: one byte for each output", va="center", fontsize="small")
    panel.add_patch(FancyArrowPatch((8.2, 1.4), (9.8, 1.4), arrowstyle="-|>", mutation_scale=14, color=GREY))
    bare(panel, 16.5, 3.2, -0.8)
    return drawn


# --- what is verified -----------------------------------------------------------------------------


def relaxations() -> Figure:
    """Max of two cells over a box, with a map below it and maps above it."""
    lo, hi = np.array([0.0, 0.3]), np.array([2.0, 1.5])
    sides = [np.linspace(a, b, 9) for a, b in zip(lo, hi, strict=True)]
    grid = np.stack(np.meshgrid(*sides), -1)
    drawn = figure(10, 3)
    shown = [("below", 0, "volume"), *((f"above, {upper}", 1, upper) for upper in ("constant", "maxlin", "tilin"))]
    for k, (title, which, upper) in enumerate(shown):
        panel = drawn.add_subplot(1, 4, k + 1, projection="3d")
        bound = Pool(Max(), Window((2,))).linear_bounds(lo, hi, upper)[which]
        slopes = np.array([float(bound.push(unit)[0]) for unit in np.eye(2)])
        plane = grid @ slopes + float(bound.bias[0])
        panel.plot_surface(grid[..., 0], grid[..., 1], grid.max(-1), color=SEEN, alpha=0.75, linewidth=0)
        panel.plot_surface(grid[..., 0], grid[..., 1], plane, color=OTHER, alpha=0.45, linewidth=0)
        panel.set_title(title, fontsize="small")
        panel.set(xticks=[0, 1, 2], yticks=[0.5, 1, 1.5], zticks=[0, 1, 2, 3], zlim=(0, 3.3))
        panel.tick_params(labelsize="x-small", pad=-3)
        panel.patch.set_alpha(0)
        for axis in (panel.xaxis, panel.yaxis, panel.zaxis):
            axis.pane.set_alpha(0)
        panel.view_init(22, -125)
    return drawn


def certified() -> Figure:
    """What `examples/certified.py` has found."""
    found = json.loads(CERTIFIED.read_text(encoding="utf-8"))
    drawn = figure(6.4, 3)
    panel = drawn.subplots()
    styles = (("not refuted", ":", GREY), ("crown", "-", SEEN), ("ibp", "--", OTHER))
    for name, line, colour in styles:
        panel.plot(found["eps"], [100 * share for share in found[name]], line, marker="o", color=colour, label=name)
    panel.set(xlabel="eps, of a pixel from 0 to 1", ylabel=f"% of {found['digits']} held-out digits", ylim=(-3, 103))
    panel.set_facecolor("none")
    panel.spines[["top", "right"]].set_visible(False)
    drawn.legend(loc="outside right", fontsize="small", frameon=False)
    return drawn


PICTURES: dict[str, Callable[[], Figure]] = {
    "overview": overview,
    "window": lambda: windows(Window((3, 3), stride=2, padding=1), (5, 5), 6.4, 3.4),
    "dilation": lambda: windows(Window((3,), stride=1, dilation=2), (7,), 5, 2.2),
    "adaptive": lambda: windows(Adaptive((3,)), (7,), 5, 2.2),
    "output_size": output_size,
    "padding": padding,
    "padded_cells": padded_cells,
    "ties": ties,
    "nan": nan,
    "overlap": overlap,
    "smooth_max": smooth_max,
    "norms": norms,
    "morphology": morphology,
    "labels": labels,
    "clouds": clouds,
    "noise": noise,
    "pyramid": pyramid,
    "levels": levels,
    "separable": separable,
    "prefix_suffix": prefix_suffix,
    "winner_byte": winner_byte,
    "relaxations": relaxations,
    "certified": certified,
}


def draw_all(folder: Path, ending: str = "svg") -> None:
    """Every picture in every style."""
    folder.mkdir(parents=True, exist_ok=True)
    for style, colours in STYLES.items():
        with plt.rc_context(ALWAYS | colours):
            for name, draw in PICTURES.items():
                drawn = draw()
                metadata = {"Date": None} if ending == "svg" else None
                drawn.savefig(folder / f"{name}-{style}.{ending}", metadata=metadata, dpi=80)
                plt.close(drawn)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=IMAGES)
    parser.add_argument("--ending", default="svg")
    options = parser.parse_args()
    draw_all(options.folder, options.ending)
