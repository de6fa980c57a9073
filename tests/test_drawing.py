"""Windows as text and the demo's picture, read line by line and pixel by pixel."""

from __future__ import annotations

import re

import matplotlib
import numpy as np
import pytest
from PIL import Image
from rich.console import Console

matplotlib.use("Agg")
from matplotlib import pyplot as plt

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
)
from ndpool.cli import demo as demo_module
from ndpool.table import KINDS as TABLED
from ndpool.viz import demo as demo_figure
from ndpool.viz.terminal import explanation

CROSS = "\N{MULTIPLICATION SIGN}"


def drawn(pool, shape):
    """The explanation as lines without colours."""
    console = Console(width=200, color_system=None)
    with console.capture() as captured:
        console.print(explanation(pool, shape))
    return [line.rstrip() for line in captured.get().splitlines()]


def rows_of(lines):
    """What is drawn below each cell: the line of cells, and for each output its number and line."""
    (cells,) = [line for line in lines if line.startswith("  cell")]
    outputs = [re.match(r"  output (\d+)  ", line) for line in lines]
    return cells, [(int(found[1]), found.string) for found in outputs if found]


@pytest.mark.parametrize(
    ("window", "length", "first", "expected"),
    [
        (Window((3,), 2, 1), 6, -1, ["□■■·····", "··■■■···", "····■■■·"]),
        (Window((3,), 3, ((0, 1),), ceil_mode=True), 7, 0, ["■■■······", "···■■■···", f"······■□{CROSS}"]),
        (Window((2,), 1, ((2, 0),), 2), 4, -2, ["□·■···", "·□·■··", "··■·■·", "···■·■"]),
        (Adaptive((3,)), 7, 0, ["■■■····", "··■■■··", "····■■■"]),
        (Window((2,), 3), 12, 0, ["■■··········", "···■■·······", "······■■····", "·········■■·"]),
    ],
)
def test_marks_stand_below_their_cells(window, length, first, expected):
    cells, outputs = rows_of(drawn(Pool(Sum(), window), (length,)))
    ends = [found.end() for found in re.finditer(r"\d+|·", cells[6:])]
    reach = range(first, first + len(expected[0]))
    assert re.findall(r"\d+|·", cells[6:]) == [str(place) if 0 <= place < length else "·" for place in reach]
    assert [output for output, _ in outputs] == list(range(len(expected)))
    for (_, line), marks in zip(outputs, expected, strict=True):
        assert "".join(line[6 + end - 1] for end in ends) == marks
        assert len(re.findall(rf"[■□{CROSS}·]", line)) == len(marks)


def test_outputs_with_as_many_real_cells_may_count_differently():
    """Of the first output's three cells one is padded, and counts; of the last one's, one is beyond, and does not."""
    lines = drawn(Pool(Avg(), Window((3,), 3, ((1, 0),), ceil_mode=True)), (4,))
    at = lines.index("divisor, for each output:")
    assert lines[at + 1].split() == ["3", "2"]


@pytest.mark.parametrize(
    ("pool", "shape", "words"),
    [
        (Pool(Max(), Window((3,), 2)), (7,), "axis 0  7 cells, kernel 3, stride 2: 3 outputs"),
        (Pool(Max(), Window((3,), 2, dilation=2)), (5,), "axis 0  5 cells, kernel 3, stride 2, dilation 2: 1 output"),
        (
            Pool(Max(), Window((3,), 1, ((0, 2),))),
            (2, 4),
            "axis 1  4 cells, kernel 3, stride 1, padding 0 and 2: 4 outputs",
        ),
        (Pool(Max(), Adaptive((3,)), axes=(0,)), (7, 2), "axis 0  7 cells shared out to 3 outputs"),
    ],
)
def test_titles_of_axes(pool, shape, words):
    lines = drawn(pool, shape)
    assert words in lines
    assert lines[1] == f"{shape} becomes {pool.output_shape(shape)}"


def test_a_long_axis_is_said_in_words():
    assert any(line.startswith("  cell") for line in drawn(Pool(Max(), Window((3,))), (32,)))
    lines = drawn(Pool(Max(), Window((3,), 3, ((4, 0),), 2)), (33,))
    assert not any(line.startswith("  cell") for line in lines)
    assert "  output 0  sees 0 to 0 in steps of 2 and 2 padded" in lines
    assert "  output 1  sees 1 to 3 in steps of 2 and 1 padded" in lines
    assert "  output 2  sees 2 to 6 in steps of 2" in lines
    lines = drawn(Pool(Sum(), Window((2,), 2, ((2, 0),))), (40,))
    assert "  output 0  sees none and 2 padded" in lines
    assert "  output 1  sees 0 to 1" in lines


@pytest.mark.parametrize(("length", "shown"), [(12, [*range(12)]), (13, [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12])])
@pytest.mark.parametrize("long", [False, True])
def test_outputs_in_the_middle_are_left_out(length, shown, long):
    kernel = 4 if long else 1
    lines = drawn(Pool(Sum(), Window((kernel,))), (kernel * length,))
    found = [int(found[1]) for line in lines if (found := re.match(r"  output (\d+)", line))]
    assert found == shown
    assert lines.count("  ...") == (length > 12)
    if length > 12:
        assert lines[lines.index("  ...") + 1].startswith("  output 7")


def test_the_legend_has_what_is_there():
    legends = {
        (Window((2,)), 4): "  ■ a cell",
        (Window((2,), 2, 1), 4): "  ■ a cell   □ padding",
        (Window((2,), 2, ceil_mode=True), 5): f"  ■ a cell   {CROSS} beyond the padding: never counts",
    }
    for (window, length), legend in legends.items():
        assert legend in drawn(Pool(Sum(), window), (length,))


COUNTED = Window((3,), 2, 1, ceil_mode=True)  # over 6 cells: 2 and a padded one, 3, 3, 1 and a padded one


@pytest.mark.parametrize(
    ("kind", "words", "counts"),
    [
        (Avg(), "divisor", [3, 3, 3, 2]),
        (Avg(count_include_pad=False), "divisor", [2, 3, 3, 1]),
        (SmoothMax(1.0), "terms in the sum", [3, 3, 3, 2]),
        (SmoothMax(1.0, False), "terms in the sum", [2, 3, 3, 1]),
        (Max(), "cells that can win", [2, 3, 3, 1]),
        (Min(), "cells that can win", [2, 3, 3, 1]),
        (Mode(), "cells that can win", [2, 3, 3, 1]),
        (Quantile(0.9, "lower"), "cells that can win", [2, 3, 3, 1]),
        (Quantile(0.9), "cells that are sorted", [2, 3, 3, 1]),
        (Median(), "cells that are sorted", [2, 3, 3, 1]),
        (Avg(rounding="floor"), "divisor", [3, 3, 3, 2]),
        (Lp(2), "cells in the norm", [2, 3, 3, 1]),
        (Sum(), "cells", [2, 3, 3, 1]),
    ],
    ids=str,
)
def test_what_every_output_counts(kind, words, counts):
    lines = drawn(Pool(kind, COUNTED), (6,))
    place = lines.index(f"{words}, for each output:")
    assert [int(count) for count in lines[place + 1].split()] == counts
    lines = drawn(Pool(kind, Window((3, 3), 2, 1, ceil_mode=True)), (6, 6))
    place = lines.index(f"{words}, for each output:")
    table = [[int(count) for count in line.split()] for line in lines[place + 1 : place + 5]]
    windows = spec.windows(Pool(Sum(), Window((3, 3), 2, 1, ceil_mode=True)), (6, 6))
    padded = words in ("divisor", "terms in the sum") and kind.count_include_pad
    expected = {out: sum(padded or cell is not None for cell in cells) for out, cells in windows.items()}
    assert table == [[expected[i, j] for j in range(4)] for i in range(4)]
    least, most = min(expected.values()), max(expected.values())
    deep = drawn(Pool(kind, Window((1, 3, 3), (1, 2, 2), (0, 1, 1), ceil_mode=True)), (2, 6, 6))
    assert f"{words}: from {least} to {most}" in deep


def test_one_count_for_all():
    assert "divisor: 5 in every window" in drawn(Pool(Avg(divisor_override=5), COUNTED), (6,))
    assert "cells that can win: 6 in every window" in drawn(Pool(Max(), Global(), axes=(0, 1)), (2, 3))
    thirteen = drawn(Pool(Avg(), Window((2,), 1, ((1, 0),), ceil_mode=True)), (13,))
    assert "divisor: 2 in every window" in thirteen
    assert "divisor: from 1 to 2" in drawn(Pool(Avg(False), Window((2,), 1, ((1, 0),))), (13,))


@pytest.mark.parametrize(
    ("window", "shape", "said"),
    [
        (Window((2,), 3), (5,), ["dropped: along axis 0, cell 2 is in no window"]),
        (Window((2,), 4), (6,), ["dropped: along axis 0, cells 2, 3 are in no window"]),
        (Window((1,), 2), (16,), ["dropped: along axis 0, cells 1, 3, 5, 7, 9, 11, 13, 15 are in no window"]),
        (Window((1,), 2), (18,), ["dropped: along axis 0, cells 1, 3, 5, 7, 9, 11, 13, 15, ... are in no window"]),
        (Window((2, 2)), (4, 5), ["dropped: along axis 1, cell 4 is in no window"]),
        (Window((2, 2)), (4, 4), ["no cell is dropped: every one is in some window"]),
    ],
)
def test_what_is_dropped(window, shape, said):
    lines = drawn(Pool(Sum(), window), shape)
    assert [line for line in lines if "drop" in line] == said


@pytest.mark.parametrize(
    ("pool", "count", "said"),
    [
        (
            Pool(Avg(), Window((2,)), skip=np.nan),
            "divisor if none is skipped: 2 in every window",
            "each cell that is nan; an output that has no other is nan",
        ),
        (
            Pool(Mode(), Window((3,)), skip=0, min_count=2),
            "cells that can win if none is skipped: 3 in every window",
            "each cell that is 0; an output with fewer than 2 others is 0",
        ),
        (
            Pool(Avg(divisor_override=4), Window((2,)), skip=-9999.0, min_count=0),
            "divisor: 4 in every window",
            "each cell that is -9999.0; an output needs no other",
        ),
        (
            Pool(Median(), Window((3,), 3, 1, ceil_mode=True), skip=1),
            "cells that are sorted if none is skipped, for each output:",
            "each cell that is 1; an output that has no other is 1",
        ),
        (Pool(Max(), Window((2,))), "cells that can win: 2 in every window", None),
    ],
)
def test_what_is_skipped_is_said(pool, count, said):
    lines = drawn(pool, (6,))
    assert count in lines
    assert [line for line in lines if line.startswith("skipped")] == ([f"skipped: {said}"] if said else [])
    assert ("skip=" in lines[0]) == (said is not None)


# --- the demo's picture ---------------------------------------------------------------------------


@pytest.fixture
def figure():
    yield plt.figure()
    plt.close("all")


def test_the_demo_shows_every_kind_on_the_scale_of_one_cell(figure):
    photo = np.random.default_rng(2).integers(0, 256, (20, 24, 3)).astype(np.uint8)
    window, kinds = Window((4, 4), 3, 1), (Max(), Avg(), Sum(), Lp(2), SmoothMax(0.125))
    demo_figure._outputs(figure, photo, window, kinds)
    shown, *panels = figure.axes
    np.testing.assert_array_equal(shown.images[0].get_array(), photo)
    assert shown.get_title() == "input, 20 x 24"
    assert figure.get_suptitle() == "One photograph, Window((4, 4), stride=3, padding=1)"
    assert len(panels) == len(kinds)
    scales = {Sum: 16, Lp: 4}
    for panel, kind in zip(panels, kinds, strict=True):
        y = np.asarray(Pool(kind, window, axes=(0, 1))(photo)) / scales.get(type(kind), 1)
        np.testing.assert_array_equal(panel.images[0].get_array(), np.clip(y, 0, 255).astype(np.uint8))
        assert panel.get_title().startswith(type(kind).__name__)
        assert panel.get_title().endswith(", 7 x 8")
        assert not panel.axison
    np.testing.assert_array_equal(panels[2].images[0].get_array(), panels[1].images[0].get_array())  # Sum is Avg


@pytest.mark.parametrize(("count", "rows"), [(3, 2), (7, 2), (8, 3), (11, 3)])
def test_many_kinds_stand_in_three_rows(figure, count, rows):
    demo_figure._outputs(figure, np.zeros((8, 8, 3), np.uint8), Window((2, 2)), (Max(),) * count)
    shape = figure.axes[0].get_gridspec().get_geometry()
    assert shape == (rows, -(-(count + 1) // rows))


def test_the_demo_has_every_kind():
    assert {type(kind) for kind in demo_module.KINDS} == {type(kind) for kind in demo_module.DRAWN} == set(TABLED)


def test_what_a_byte_cannot_hold_is_clipped(figure):
    demo_figure._outputs(figure, np.full((4, 4, 3), 255, np.uint8), Window((2, 2)), (SmoothMax(0.125),))
    assert (figure.axes[1].images[0].get_array() == 255).all()


def test_the_demo_shows_ties(figure):
    demo_figure._gradients(figure)
    first, *others = figure.axes
    np.testing.assert_array_equal(first.images[0].get_array(), demo_figure.PLATEAU)
    for panel, ties in zip(others, ("first", "split", "all"), strict=True):
        pool = Pool(Max(ties), Window((3, 3), stride=2))
        gx = spec.vjp(pool, demo_figure.PLATEAU.astype(float), np.ones((2, 2)))
        np.testing.assert_allclose(panel.images[0].get_array(), gx)
        assert panel.get_title() == f'gx, ties="{ties}"'
        assert panel.images[0].get_clim() == (0, 4)
    assert len({panel.images[0].get_array().tobytes() for panel in others}) == 3


def test_the_demo_is_written_and_closed(tmp_path):
    photo = np.zeros((12, 12, 3), np.uint8)
    with (tmp_path / "picture").open("wb") as file:
        demo_figure.draw(photo, Window((3, 3)), (Max(), Min(), Avg()), file, "png")
    assert plt.get_fignums() == []
    with Image.open(tmp_path / "picture") as picture:
        assert (picture.format, picture.size) == ("PNG", (1430, 1034))
