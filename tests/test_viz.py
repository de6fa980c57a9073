"""The pictures show what the specification says: where marks, squares and numbers stand, and in which colours."""

from __future__ import annotations

from collections import defaultdict

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
from matplotlib import colormaps
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

from ndpool import (
    Adaptive,
    Avg,
    Global,
    Lp,
    Max,
    Median,
    Min,
    Mode,
    Pool,
    Quantile,
    SmoothMax,
    Sum,
    Window,
    spec,
    viz,
)
from ndpool.viz import arrays, windows

X = np.array([[1.0, 4.0, 2.0], [4.0, 3.0, 0.5], [-1.0, 7.0, 7.0]])


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def written(panel):
    return [text.get_text() for text in panel.texts]


def square(patch):
    """Row and column of a square's middle, and its side."""
    (left, top), side = patch.get_xy(), patch.get_width()
    assert patch.get_height() == side
    return top + side / 2, left + side / 2, side


def places(window, shape, axis=0):
    """For each output the places that it looks at along an axis, by the definition; and the padding at both ends."""
    length, outputs = shape[axis], Pool(Sum(), window).output_shape(shape)[axis]
    if isinstance(window, Adaptive):
        return [list(range(i * length // outputs, -(-(i + 1) * length // outputs))) for i in range(outputs)], (0, 0)
    kernel, stride, padding, dilation = window.of_axis(axis, len(shape))
    total = (-(-length // stride) - 1) * stride + dilation * (kernel - 1) + 1 - length
    ends = (total // 2, total - total // 2) if padding == "same" else padding
    low, high = ends if isinstance(ends, tuple) else (ends, ends)
    return [[i * stride - low + k * dilation for k in range(kernel)] for i in range(outputs)], (low, high)


# --- windows of one axis --------------------------------------------------------------------------

ONE_AXIS = [
    Window((3,), 2, 1),
    Window((3,), 2, ((0, 2),)),
    Window((2,), 1, dilation=2),
    Window((3,), 2, ceil_mode=True),
    Window((4,), 4, ceil_mode=True),
    Window((3,), 1, "same"),
    Adaptive((4,)),
]


@pytest.mark.parametrize("window", ONE_AXIS)
def test_marks_of_one_axis_are_the_windows(window):
    pool, length = Pool(Sum(), window), 6
    (panel,) = viz.plot_windows(pool, (length,)).axes
    expected, (_, high) = places(window, (length,))
    spec_cells = [[cell[0] for cell in cells if cell] for cells in spec.windows(pool, (length,)).values()]
    assert spec_cells == [[place for place in seen if 0 <= place < length] for seen in expected]
    rows = defaultdict(list)
    for line in panel.lines:
        rows[round(line.get_ydata()[0], 6)].append(line)
    labels = [text for text in panel.texts if text.get_text().startswith("output")]
    assert [text.get_text() for text in labels] == [f"output {output}" for output in range(len(expected))]
    assert list(rows) == sorted(rows) == [round(text.get_position()[1], 6) for text in labels]
    assert len({to_hex(text.get_color()) for text in labels}) == len(expected)
    for seen, label, (span, *marks) in zip(expected, labels, rows.values(), strict=True):
        assert list(span.get_xdata()) == [seen[0], seen[-1]]
        assert [mark.get_xdata()[0] for mark in marks] == seen
        for place, mark in zip(seen, marks, strict=True):
            real, counts = 0 <= place < length, place < length + high
            assert mark.get_marker() == ("s" if counts else "x")
            assert mark.get_markeredgecolor() == label.get_color() == span.get_color()
            assert (mark.get_markerfacecolor() != "none") == real
            assert not real or mark.get_markerfacecolor() == label.get_color()


@pytest.mark.parametrize("window", ONE_AXIS)
def test_cells_of_one_axis(window):
    length = 6
    (panel,) = viz.plot_windows(Pool(Sum(), window), (length,)).axes
    expected, (low, high) = places(window, (length,))
    last = max(max(seen) for seen in expected)
    cells = [(*square(patch), to_hex(patch.get_edgecolor()), patch.get_linestyle()) for patch in panel.patches]
    padded = [*range(-low, 0), *range(length, length + high)]
    np.testing.assert_allclose([cell[:2] for cell in cells], [(0, j) for j in range(-low, length + high)], atol=1e-9)
    for _, j, side, edge, line in cells:
        assert side < 1
        assert (edge, line) == ((windows.PADDED, "--") if round(j) in padded else (windows.EDGE, "-"))
    numbers = {text.get_text(): text.get_position() for text in panel.texts if text.get_text().isdigit()}
    assert numbers == {str(j): (j, 0) for j in range(length)}
    crosses = [text.get_position() for text in panel.texts if text.get_text() == "\N{MULTIPLICATION SIGN}"]
    assert crosses == [(j, 0) for j in range(length + high, last + 1)]
    (left, right), (bottom, top) = panel.get_xlim(), panel.get_ylim()
    marks = [line.get_ydata()[0] for line in panel.lines]
    assert left < -low - 1
    assert right > max(last, length + high - 1) + 0.46
    assert top < -0.46 < max(marks) < bottom  # rows go down


# --- windows of two axes --------------------------------------------------------------------------

TWO_AXES = [
    Window((3, 2), 2, 1),
    Window((2, 2), 1, dilation=2),
    Window((3, 3), 2, ceil_mode=True),
    Window((2, 2), 2, ceil_mode=True),  # the last column of windows reaches beyond, no row does
    Window((2, 3), (1, 2), ((0, 1), (2, 0))),
    Adaptive((2, 3)),
]


@pytest.mark.parametrize("window", TWO_AXES)
def test_squares_of_two_axes_are_the_windows(window):
    shape = (4, 5)
    pool = Pool(Sum(), window)
    left, right = viz.plot_windows(pool, shape).axes
    (down, (_, below)), (across, (_, behind)) = places(window, shape, 0), places(window, shape, 1)
    outputs = [(a, b) for a in range(len(down)) for b in range(len(across))]
    assert written(right) == [f"{a},{b}" for a, b in outputs]
    colours = [to_hex(patch.get_facecolor()) for patch in right.patches]
    assert len(set(colours)) == len(outputs)
    np.testing.assert_allclose([square(patch)[:2] for patch in right.patches], outputs, atol=1e-9)
    assert [text.get_position() for text in right.texts] == [(b, a) for a, b in outputs]
    small = defaultdict(dict)
    for patch in left.patches:
        if patch.get_edgecolor()[3] == 0:
            i, j, side = square(patch)
            small[to_hex(patch.get_facecolor())][round(i), round(j)] = (i, j, side)
    for (a, b), colour in zip(outputs, colours, strict=True):
        counted = {(i, j) for i in down[a] if i < 4 + below for j in across[b] if j < 5 + behind}
        assert set(small[colour]) == counted
        assert len(counted) == len(spec.windows(pool, shape)[a, b])
        for (i, j), (y, x, side) in small[colour].items():  # in its cell, at the place that the output has in the plane
            assert max(abs(y - i), abs(x - j)) + side / 2 < 0.46
            assert np.sign(y - i) == np.sign(a - (len(down) - 1) / 2)
            assert np.sign(x - j) == np.sign(b - (len(across) - 1) / 2)


def test_no_two_squares_meet():
    left, _ = viz.plot_windows(Pool(Sum(), Window((3, 3), 1, 1)), (4, 5)).axes
    small = [square(patch) for patch in left.patches if patch.get_edgecolor()[3] == 0]
    assert len(small) == 9 * 20
    for k, (i, j, side) in enumerate(small):
        assert all(max(abs(i - other[0]), abs(j - other[1])) >= side for other in small[k + 1 :])


def test_cells_of_two_axes():
    window = Window((3, 2), 2, ((1, 0), (0, 2)), ceil_mode=True)
    left, right = viz.plot_windows(Pool(Sum(), window), (5, 4)).axes  # down: -1 to 5, of which 5 never counts
    cells = {}
    for patch in left.patches:
        if patch.get_edgecolor()[3] != 0:
            i, j, side = square(patch)
            cells[round(i), round(j)] = to_hex(patch.get_edgecolor()), patch.get_linestyle(), side
    assert set(cells) == {(i, j) for i in range(-1, 5) for j in range(6)}
    for (i, j), (edge, line, side) in cells.items():
        padded = i < 0 or j > 3
        assert (edge, line) == ((windows.PADDED, "--") if padded else (windows.EDGE, "-"))
        assert 0.8 < side < 1
    assert {text.get_position() for text in left.texts} == {(j, 5) for j in range(6)}
    assert left.get_xlim() == (-0.7, 5.7)
    assert left.get_ylim() == (5.7, -1.7)
    assert right.get_xlim() == (-0.7, 1.7)
    assert right.get_ylim() == (2.7, -0.7)
    assert (left.get_title(), right.get_title()) == ("the input, and who sees each cell", "the output")
    assert left.get_gridspec().get_width_ratios() == [7, 3]  # cells of both panels are about as large


def test_colours_stay_apart():
    for count in (1, 10, 11, 36):
        assert len({to_hex(colour) for colour in windows._colours(count)}) == count
    assert windows._colours(2) == [colormaps["tab10"](0), colormaps["tab10"](1)]


# --- arrays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        *(Max(), Max("split"), Max("all"), Min(), Avg(), Sum(), SmoothMax(2.0), Lp(2)),
        *(Mode(), Quantile(0.3), Quantile(0.3, "nearest"), Median()),
    ],
    ids=lambda kind: repr(kind),
)
def test_numbers_are_those_of_the_specification(kind):
    pool = Pool(kind, Window((2, 2), stride=1))
    figure = viz.plot_pool(pool, X)
    left, right = figure.axes
    y = spec.forward(pool, X)
    assert written(left) == [arrays._number(float(cell)) for cell in X.ravel()]
    assert written(right) == [arrays._number(float(cell)) for cell in y.ravel()]
    assert [text.get_position() for text in left.texts] == [(j, i) for i in range(3) for j in range(3)]
    np.testing.assert_array_equal(left.images[0].get_array(), X)
    np.testing.assert_allclose(right.images[0].get_array(), y, rtol=1e-12)
    assert (left.get_title(), right.get_title()) == ("x  3 x 3", "y  2 x 2")
    assert figure.get_suptitle().startswith(f"Pool({type(kind).__name__}(")
    g = np.array([[1.0, -2.0], [3.0, 5.0]])
    gradient = viz.plot_gradient(pool, X, g)
    shown = (X, g, spec.vjp(pool, X, g))
    for panel, array, name in zip(gradient.axes, shown, ("x", "g", "gx"), strict=True):
        assert written(panel) == [arrays._number(float(cell)) for cell in array.ravel()]
        np.testing.assert_allclose(panel.images[0].get_array(), array, rtol=1e-12)
        assert panel.get_title() == f"{name}  {array.shape[0]} x {array.shape[1]}"
    assert gradient.get_suptitle() == figure.get_suptitle()


def test_gradient_of_ones_by_default():
    pool = Pool(Max("split"), Window((2, 2)))
    _, middle, last = viz.plot_gradient(pool, X[:2, :2]).axes
    assert (written(middle), written(last)) == (["1"], ["0", "0.5", "0.5", "0"])


def scale(panel):
    (image,) = panel.images
    return image.get_cmap().name, *image.get_clim()


def test_greys_are_those_of_the_input_where_the_output_is_among_them():
    left, right = viz.plot_pool(Pool(Max(), Window((2, 2))), X).axes
    assert scale(left) == scale(right) == ("gray", -1, 7)
    left, right = viz.plot_pool(Pool(Sum(), Window((2, 2), 1)), X).axes
    assert scale(left) == ("gray", -1, 7)
    assert scale(right) == ("gray", 9.5, 17.5)
    # A quarter of the input's range beyond it is still shown on the input's scale, and no more.
    for beyond, expected in ((2.0, (0, 8)), (2.1, (-2.1, 10.1))):
        x, y = np.array([[0.0, 8.0]]), np.array([[-beyond, 8 + beyond]])
        assert arrays._within(arrays._limits(y), arrays._limits(x)) == (expected == (0, 8))
        assert not arrays._within(arrays._limits(y[:, :1] - 1), arrays._limits(x))
        assert not arrays._within(arrays._limits(y[:, 1:] + 1), arrays._limits(x))


def test_gradients_are_red_above_and_blue_below_zero():
    pool = Pool(Sum(), Window((2, 2), 1))
    g = np.array([[1.0, -20.0], [3.0, 5.0]])
    left, middle, right = viz.plot_gradient(pool, X, g).axes
    assert scale(left) == ("gray", -1, 7)
    assert scale(middle) == ("RdBu_r", -28, 28)
    gx = spec.vjp(pool, X, g)
    assert scale(right) == ("RdBu_r", -1.4 * np.abs(gx).max(), 1.4 * np.abs(gx).max())
    _, middle, right = viz.plot_gradient(pool, X, np.zeros((2, 2))).axes
    assert scale(middle) == scale(right) == ("RdBu_r", -1.4, 1.4)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_limits_are_those_of_the_finite_cells(special, tmp_path):
    x = np.array([[special, 1.0], [5.0, 2.0]])
    assert arrays._limits(x) == (1.0, 5.0)
    assert arrays._limits(np.full(3, special)) == (0.0, 1.0)
    pool = Pool(Sum(), Window((1, 2)))
    figure = viz.plot_pool(pool, x)
    left, right = figure.axes
    assert scale(left) == ("gray", 1, 5)
    assert scale(right) == ("gray", 7, 7)
    figure.savefig(tmp_path / "figure.png")
    figure = viz.plot_gradient(pool, x, np.array([[special], [-4.0]]))
    assert [scale(panel)[1:] for panel in figure.axes] == [(1, 5), (-5.6, 5.6), (-5.6, 5.6)]
    figure.savefig(tmp_path / "figure.png")
    viz.plot_gradient(pool, x, np.full((2, 1), special)).savefig(tmp_path / "figure.png")


# --- cells that are not there ---------------------------------------------------------------------


def hatched(panel):
    """The cells that are hatched, as rows and columns."""
    found = set()
    for collection in panel.collections:
        assert set(collection.get_hatch()) == {"/"}
        for path in collection.get_paths():
            (left, top), (right, bottom) = path.vertices.min(axis=0) + 0.5, path.vertices.max(axis=0) - 0.5
            assert top == bottom
            found |= {(int(top), j) for j in range(int(left), int(right) + 1)}
    return found


GAPS = np.array(
    [[np.nan, np.nan, 3.0, np.nan], [np.nan, 5.0, 6.0, 7.0], [-9.0, 8.0, -9.0, -9.0], [1.0, 2.0, -9.0, 0.0]]
)


@pytest.mark.parametrize(
    ("skip", "min_count", "no_x", "no_y"),
    [
        (np.nan, 1, {(0, 0), (0, 1), (0, 3), (1, 0)}, set()),
        (np.nan, 2, {(0, 0), (0, 1), (0, 3), (1, 0)}, {(0, 0)}),
        (-9, 3, {(2, 0), (2, 2), (2, 3), (3, 2)}, {(1, 1)}),
        (1.5, 1, set(), set()),
        (None, 1, set(), set()),
    ],
)
def test_cells_that_are_not_there_are_hatched(skip, min_count, no_x, no_y):
    pool = Pool(Sum(), Window((2, 2)), skip=skip, min_count=min_count)
    left, right = viz.plot_pool(pool, GAPS).axes
    assert (hatched(left), hatched(right)) == (no_x, no_y)
    for panel, array, absent in ((left, GAPS, no_x), (right, spec.forward(pool, GAPS), no_y)):
        assert written(panel) == [arrays._number(float(cell)) for cell in array.ravel()]
        blank = {tuple(map(int, cell)) for cell in np.argwhere(np.ma.getmaskarray(panel.images[0].get_array()))}
        assert blank == absent | {tuple(map(int, cell)) for cell in np.argwhere(np.isnan(array))}
        there = [cell for at, cell in np.ndenumerate(array) if at not in absent and np.isfinite(cell)]
        assert panel.images[0].get_clim() == (min(there), max(there))  # skipped numbers have no share in the greys
    x, g, gx = viz.plot_gradient(pool, GAPS).axes
    assert (hatched(x), hatched(g), hatched(gx)) == (no_x, no_y, no_x)
    assert written(gx) == [arrays._number(cell) for cell in spec.vjp(pool, GAPS, np.ones((2, 2))).ravel()]


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, object])
def test_what_is_not_there_is_asked_of_every_dtype(dtype):
    x = np.array([[0, 3, 0, 0, 7]]).astype(dtype)
    skipped, absent = arrays.not_there(Pool(Max(), Window((1, 2), ceil_mode=True), skip=0), x)
    assert (skipped.tolist(), absent.tolist()) == ([[True, False, True, True, False]], [[False, True, False]])
    _, absent = arrays.not_there(Pool(Max(), Global(keepdims=False), (0, 1), skip=0, min_count=3), x)
    assert absent.tolist() is True
    figure = viz.plot_pool(Pool(Max(), Global(keepdims=False), (0, 1), skip=0, min_count=3), x)
    assert hatched(figure.axes[1]) == {(0, 0)}


def test_a_pixel_of_a_colour_image_is_hatched_where_all_its_channels_are_skipped(tmp_path):
    x = np.random.default_rng(0).integers(1, 256, (6, 8, 3), dtype=np.uint8)
    x[1:3, 2:5], x[4, 4, 0] = 0, 0
    figure = viz.plot_pool(Pool(Max(), Window((1, 1)), axes=(0, 1), skip=0), x)
    for panel in figure.axes:
        assert hatched(panel) == {(i, j) for i in (1, 2) for j in (2, 3, 4)}
    figure.savefig(tmp_path / "figure.png")


def test_a_skip_that_the_cells_cannot_be_is_refused():
    with pytest.raises(ValueError, match="skip=nan is no uint8; give an integer from 0 to 255"):
        viz.plot_pool(Pool(Max(), Window((1, 1)), skip=np.nan), np.zeros((2, 2), np.uint8))


def test_not_only_finite_numbers():
    x = np.array([[np.nan, 1.0], [-np.inf, np.inf]])
    with plt.style.context({"text.color": "#123456"}):
        *_, right = viz.plot_pool(Pool(Max(), Window((1, 1))), x).axes
    assert written(right) == ["nan", "1", "\N{MINUS SIGN}inf", "inf"]
    assert [text.get_color() == "#123456" for text in right.texts] == [True, False, True, True]


def test_ink_can_be_read():
    dark, middle, light = viz.plot_pool(Pool(Max(), Window((1, 1))), np.array([[0.0, 4.0, 10.0]])).axes[0].texts
    assert [text.get_color() for text in (dark, middle, light)] == ["white", "white", "black"]
    *_, panel = viz.plot_gradient(Pool(Max(), Window((1, 1))), np.zeros((1, 3)), np.array([[-5.0, 0.0, 5.0]])).axes
    blue, white, red = ((colormaps["RdBu_r"](0.5 + side / 2.8))[:3] for side in (-1, 0, 1))
    expected = ["black" if np.mean(shade) > 0.5 else "white" for shade in (blue, white, red)]
    assert [text.get_color() for text in panel.texts] == expected


def test_how_numbers_are_written():
    cells = [0.0, -0.0, 1.0, -2.5, 1 / 3, 123456.0, 1e-9]
    minus = "\N{MINUS SIGN}"
    assert [arrays._number(cell) for cell in cells] == [
        *("0", "0", "1", f"{minus}2.5", "0.333", "1.23e+05", f"1e{minus}09")
    ]


@pytest.mark.parametrize(("side", "size"), [(7, "small"), (8, "x-small"), (12, "x-small"), (13, None)])
def test_numbers_where_there_is_room_for_them(side, size):
    left, _ = viz.plot_pool(Pool(Max(), Window((1, 1))), np.zeros((2, side))).axes
    assert len(left.texts) == (2 * side if size else 0)
    plain = plt.figure().text(0, 0, "", fontsize=size or "small").get_fontsize()
    assert all(text.get_fontsize() == plain for text in left.texts)


@pytest.mark.parametrize("shape", [(30,), (30, 40), (30, 40, 3), (2, 3, 30, 40)])
def test_images_of_any_rank(shape):
    pool = Pool(Avg(), Window((3, 3), 2), axes=(0, 1)) if shape[-1] == 3 else Pool(Avg(), Window((3,), 2))
    x = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    left, right = viz.plot_pool(pool, x).axes
    assert written(left) == []
    first = {1: x.reshape(1, -1), 2: x, 3: x, 4: x[0, 0] if x.ndim == 4 else x}[x.ndim]
    np.testing.assert_array_equal(left.images[0].get_array(), first)
    assert left.get_title() == f"x  {' x '.join(map(str, shape))}"
    if x.ndim == 3:  # colours are shares of 255
        np.testing.assert_allclose(right.images[0].get_array(), pool(x) / 255)


def test_colours_of_floats_up_to_one_are_shown_as_they_are():
    x = np.random.default_rng(1).random((6, 5, 3))
    left, _ = viz.plot_pool(Pool(Max(), Window((2, 2)), axes=(0, 1)), x).axes
    np.testing.assert_array_equal(left.images[0].get_array(), x)
    few_rows = np.zeros((4, 5, 3))  # four channels of 5 x 3, not a picture of four rows
    left, _ = viz.plot_pool(Pool(Max(), Window((2, 2))), few_rows).axes
    assert left.images[0].get_array().shape == (5, 3)


def test_one_number():
    *_, right = viz.plot_pool(Pool(Max(), Global(keepdims=False), axes=(0, 1)), X).axes
    assert (right.get_title(), written(right)) == ("y  one number", ["7"])


# --- figures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plot", "panels"),
    [
        (lambda **how: viz.plot_windows(Pool(Max(), Window((2,))), (4,), **how), 1),
        (lambda **how: viz.plot_windows(Pool(Max(), Window((2, 2))), (4, 4), **how), 2),
        (lambda **how: viz.plot_pool(Pool(Max(), Window((2, 2))), X, **how), 2),
        (lambda **how: viz.plot_gradient(Pool(Max(), Window((2, 2))), X, **how), 3),
    ],
    ids=["line", "plane", "pool", "gradient"],
)
def test_draws_into_a_figure_that_is_given(plot, panels):
    figure = plt.figure()
    part, other = figure.subfigures(1, 2)
    assert plot(figure=part) is part
    assert (len(part.axes), len(other.axes)) == (panels, 0)
    assert plt.get_fignums() == [figure.number]
    own = plot()
    assert own is not figure
    assert len(own.axes) == panels
    assert len(plt.get_fignums()) == 2


def test_too_much_to_draw_is_refused():
    with pytest.raises(
        ValueError, match=r"3 pooled axes with \(2, 2, 2\) outputs cannot be drawn; give one or two axes"
    ):
        viz.plot_windows(Pool(Max(), Window((2, 2, 2))), (4, 4, 4))
    for window, shape in ((Window((2,), 1), (38,)), (Window((1, 1)), (1, 37))):
        with pytest.raises(ValueError, match="at most 36 outputs"):
            viz.plot_windows(Pool(Max(), window), shape)
    assert viz.plot_windows(Pool(Max(), Window((2,), 1)), (37,))
    assert viz.plot_windows(Pool(Max(), Window((1, 1))), (6, 6))
    assert viz.plot_windows(Pool(Max(), Global(), axes=(0, 1)), (3, 3))
    with pytest.raises(ValueError, match=r"an array of shape \(0, 2, 2\) has no cell, and cannot be drawn"):
        viz.plot_pool(Pool(Max(), Window((2,))), np.zeros((0, 2, 2)))
