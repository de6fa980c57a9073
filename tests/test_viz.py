"""The pictures show what the specification says: marks, squares and numbers are counted and read."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window, spec, viz

X = np.array([[1.0, 4.0, 2.0], [4.0, 3.0, 0.5], [-1.0, 7.0, 7.0]])


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def written(panel):
    return [text.get_text() for text in panel.texts]


@pytest.mark.parametrize(
    "window",
    [
        Window((3,), 2, 1),
        Window((2,), 1, dilation=2),
        Window((3,), 2, ceil_mode=True),
        Window((3,), 1, "same"),
        Adaptive((4,)),
    ],
)
def test_marks_of_one_axis_are_the_windows(window):
    pool = Pool(Sum(), window)
    (panel,) = viz.plot_windows(pool, (6,)).axes
    marks = [line for line in panel.lines if line.get_marker() == "s"]
    real = [mark for mark in marks if mark.get_markerfacecolor() != "none"]
    cells = [cell for cells in spec.windows(pool, (6,)).values() for cell in cells]
    assert sorted(int(mark.get_xdata()[0]) for mark in real) == sorted(cell[0] for cell in cells if cell is not None)
    assert len(marks) - len(real) == cells.count(None)


@pytest.mark.parametrize(
    "window", [Window((3, 2), 2, 1), Window((2, 2), 1, dilation=2), Window((3, 3), 2, ceil_mode=True), Adaptive((2, 3))]
)
def test_squares_of_two_axes_are_the_windows(window):
    pool = Pool(Sum(), window)
    left, right = viz.plot_windows(pool, (4, 5)).axes
    windows = spec.windows(pool, (4, 5))
    assert written(right) == [f"{i},{j}" for i, j in windows]
    # In the left panel the squares of an output have its colour in the right one.
    filled = [patch for patch in left.patches if patch.get_edgecolor()[3] == 0]
    colours = [to_hex(patch.get_facecolor()) for patch in right.patches]
    assert len(set(colours)) == len(windows)
    for colour, cells in zip(colours, windows.values(), strict=True):
        assert sum(to_hex(patch.get_facecolor()) == colour for patch in filled) == len(cells)


@pytest.mark.parametrize(
    "kind", [Max(), Max("split"), Max("all"), Min(), Avg(), Sum(), SmoothMax(2.0), Lp(2)], ids=lambda kind: repr(kind)
)
def test_numbers_are_those_of_the_specification(kind):
    pool = Pool(kind, Window((2, 2), stride=1))
    left, right = viz.plot_pool(pool, X).axes
    expected = [viz._number(float(cell)) for cell in spec.forward(pool, X).ravel()]
    assert (len(written(left)), written(right)) == (9, expected)
    g = np.array([[1.0, -2.0], [3.0, 5.0]])
    *_, last = viz.plot_gradient(pool, X, g).axes
    assert written(last) == [viz._number(float(cell)) for cell in spec.vjp(pool, X, g).ravel()]


def test_gradient_of_ones_by_default():
    pool = Pool(Max("split"), Window((2, 2)))
    *_, last = viz.plot_gradient(pool, X[:2, :2]).axes
    assert written(last) == ["0", "0.5", "0.5", "0"]


@pytest.mark.parametrize("shape", [(30,), (30, 40), (30, 40, 3), (2, 3, 30, 40)])
def test_images_of_any_rank(shape, tmp_path):
    pool = Pool(Avg(), Window((3, 3), 2), axes=(0, 1)) if shape[-1] == 3 else Pool(Avg(), Window((3,), 2))
    x = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    figure = viz.plot_pool(pool, x)
    figure.savefig(tmp_path / "figure.png")
    assert written(figure.axes[0]) == []


def test_not_only_finite_numbers():
    x = np.array([[np.nan, 1.0], [-np.inf, np.inf]])
    *_, right = viz.plot_pool(Pool(Max(), Window((1, 1))), x).axes
    assert written(right) == ["nan", "1", "\N{MINUS SIGN}inf", "inf"]


def test_draws_into_a_figure_that_is_given():
    figure = plt.figure()
    part, _ = figure.subfigures(1, 2)
    assert viz.plot_windows(Pool(Max(), Window((2,))), (4,), figure=part) is part
    assert len(part.axes) == 1


def test_too_much_to_draw_is_refused():
    with pytest.raises(
        ValueError, match=r"3 pooled axes with \(2, 2, 2\) outputs cannot be drawn; give one or two axes"
    ):
        viz.plot_windows(Pool(Max(), Window((2, 2, 2))), (4, 4, 4))
    with pytest.raises(ValueError, match="at most 36 outputs"):
        viz.plot_windows(Pool(Max(), Window((2,), 1)), (100,))
    assert viz.plot_windows(Pool(Max(), Global(), axes=(0, 1)), (3, 3))
