"""The map of benchmarks: pools drawn at random are the same for a seed, and a wrong result is found."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import ndpool
from ndpool import Adaptive, Avg, Global, Lp, Max, Min, SmoothMax, Sum, Window, spec

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[1]
TINY = ("--largest", "2e3", "--budget", "0")


@pytest.fixture(autouse=True)
def _path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.fixture
def drawing():
    return importlib.import_module("benchmarks.map.drawing")


@pytest.fixture
def truth():
    return importlib.import_module("benchmarks.map.truth")


@pytest.fixture
def main(monkeypatch):
    """The command in this process, which is left with all its processors and threads."""
    command = importlib.import_module("benchmarks.map.__main__")
    monkeypatch.setattr(command, "settle", lambda threads: None)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["map", *map(str, arguments)])
        command.main(list(map(str, arguments)))

    return run


# --- drawing --------------------------------------------------------------------------------------


def test_a_seed_draws_the_same_pools(drawing):
    drawn = drawing.draws(3, 40)
    assert drawing.draws(3, 40) == drawn
    assert drawing.draws(3, 10) == drawn[:10]
    assert drawing.draws(4, 10) != drawn[:10]
    assert len({one.name for one in drawn}) == 40


def test_the_whole_space_is_drawn(drawing):
    drawn = drawing.draws(0, 2000, largest=1e5)
    assert {one.kind for one in drawn} == set(drawing.KINDS)
    assert {one.dtype for one in drawn} == set(drawing.DTYPES)
    assert {one.rank for one in drawn} == {1, 2, 3, 4}
    assert {one.layout for one in drawn} == set(drawing.LAYOUTS)
    assert {one.sort for one in drawn} == set(drawing.SORTS)
    assert all(np.prod(one.pool.output_shape(one.shape)) > 0 for one in drawn)


def test_names_say_all_numbers(drawing):
    window = Window((3, 5), 2, 1, 2, ceil_mode=True)
    one = drawing.Drawn(Max("split"), window, (1, 3, 20, 30), "float32", "fortran")
    assert one.name == "max:split k3,5s2p1d2c 1x3x20x30 float32 fortran"


# --- truth ----------------------------------------------------------------------------------------

KINDS = [
    *(Max(), Max("split"), Max("all"), Min(), Avg(), Avg(count_include_pad=False)),
    *(Sum(), SmoothMax(2.0), SmoothMax(-1.0), Lp(2), Lp(2.5)),
]
WINDOWS = [Window((3, 2), (2, 1), (1, 0), ceil_mode=True), Window((2, 2), 1, 1, 2), Adaptive((3, 2)), Global()]


@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: type(window).__name__)
@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_truth_is_the_specification(drawing, truth, kind, window):
    """Every output and every cell, by the two definitions that know nothing of each other."""
    one = drawing.Drawn(kind, window, (2, 1, 5, 6), "float64", "channels first")
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=one.shape) * 2) / 2
    g = rng.normal(size=one.pool.output_shape(one.shape))
    found = truth.Truth(one, x)
    places = np.argwhere(np.ones(g.shape, bool))
    np.testing.assert_allclose(found.values(places)[0].reshape(g.shape), spec.forward(one.pool, x), atol=1e-12)
    gx = [found.gradient(cell, g)[0] for cell in np.argwhere(np.ones(x.shape, bool))]
    np.testing.assert_allclose(np.reshape(gx, x.shape), spec.vjp(one.pool, x, g), atol=1e-12)


def test_windows_of_more_cells_than_are_gathered_go_one_by_one(drawing, truth, monkeypatch):
    one = drawing.Drawn(Avg(), Window((4, 4), 3), (1, 1, 7, 7), "float64", "channels first")
    x, g = np.ones(one.shape), np.random.default_rng(0).normal(size=(1, 1, 2, 2))
    cells = [(0, 0, 3, 3), (0, 0, 3, 0), (0, 0, 6, 6)]  # that four windows see, two and one
    expected = [spec.vjp(one.pool, x, g)[cell] for cell in cells]
    monkeypatch.setattr(truth, "NUMBERS", 1)
    found = [truth.Truth(one, x).gradient(np.array(cell), g)[0] for cell in cells]
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("kind", [Min(), Avg(), SmoothMax(2.0), Lp(3)], ids=repr)
def test_wrong_numbers_are_found(drawing, truth, kind, dtype):
    one = drawing.Drawn(kind, Window((2, 2), 1), (2, 3, 8, 9), dtype, "channels first")
    rng = np.random.default_rng(0)
    x = rng.normal(size=one.shape).astype(dtype)
    y, pullback = one.pool.vjp(x)
    g = rng.normal(size=y.shape).astype(dtype)
    gx, found = pullback(g), truth.Truth(one, x)
    truth.check_values(found, y)
    truth.check_gradient(found, g, gx)
    with pytest.raises(truth.WrongResultError, match=r"y.* should be"):
        truth.check_values(found, y * np.asarray(1.01, dtype) + np.asarray(0.01, dtype))
    with pytest.raises(truth.WrongResultError, match=r"gx.* should be"):
        truth.check_gradient(found, g, gx * np.asarray(1.03, dtype))


# --- bare loops -----------------------------------------------------------------------------------


@pytest.fixture
def windows():
    return importlib.import_module("benchmarks.windows")


@pytest.mark.parametrize(
    ("kernel", "stride", "of_max", "of_sum", "back"),
    [
        (1, 1, 0, 0, 0),
        (2, 1, 1, 1, 1),
        (3, 1, 2, 2, 2),
        (5, 1, 3, 3, 3),
        (13, 1, 3, 3, 3),
        (2, 2, 1, 1, 0),
        (9, 2, 5, 5, 3),
    ],
)
def test_cells_are_merged_as_often_as_windows_need(windows, kernel, stride, of_max, of_sum, back):
    axis = windows.Axis(100, 50, kernel, stride)
    assert (windows.merges(axis, True), windows.merges(axis, False)) == (of_max, of_sum)
    assert windows.merges_back(axis) == back


@pytest.mark.parametrize("back", [False, True], ids=["forward", "back"])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("kind", [Max(), Min(), Sum(), Avg(), SmoothMax(2.0), Lp(2), Lp(3)], ids=repr)
def test_bare_loops_merge_ones(windows, kind, dtype, back):
    """So many cells are read, so many outputs written, and each is made of as many ones as its axes merge."""
    pool, shape = ndpool.Pool(kind, Window((3, 2), (1, 2)), axes=(-2, -1)), (20, 60, 80)
    loop = windows.loop(pool, shape, dtype, row=1, back=back)
    selects, plain = isinstance(kind, Max | Min), isinstance(kind, Max | Min | Sum | Avg)
    if kind == Lp(3) or ("int" in dtype and (back or not plain)) or (back and selects):
        assert loop is None
        return
    if loop is None:
        pytest.skip("there is no compiler")
    loop()
    cells, outputs = np.prod(shape), np.prod(pool.output_shape(shape))
    assert loop.read == pytest.approx(outputs if back else cells, rel=0.2)
    assert loop.written == pytest.approx(cells if back else outputs, rel=0.2)
    merged = np.prod([axis.merges + 1 for axis in loop.axes])
    assert merged == (3 if back else 6)
    value = {SmoothMax: merged * np.e if back else 1 + np.log(merged), Lp: merged if back else np.sqrt(merged)}
    right = np.isclose(loop.target.astype(float), 1 if selects else value.get(type(kind), merged), rtol=0.02)
    assert right.mean() > 0.98  # at the end of a piece there may be no line to merge


def test_windows_that_overlap_are_told(windows):
    def overlap(window, axes=(-2, -1)):
        return windows.overlap(ndpool.Pool(Avg(), window, axes=axes), (2, 7, 8))

    assert overlap(Window((2, 3), (2, 2)))
    assert overlap(Adaptive((2, 3)))
    assert not overlap(Window((2, 3)))
    assert not overlap(Window((7, 8), 1))
    assert not overlap(Adaptive((7, 4)))
    assert not overlap(Global())


def test_what_a_pool_takes_at_least():
    measures = importlib.import_module("benchmarks.map.measures")
    one = record(seconds={"forward": 5.0, "vjp": 12.0, "copy": 1.0}, limits={"forward": 1.0, "vjp": 3.0})
    assert (measures.least(one, "forward"), measures.least(one, "vjp")) == (1.0, 3.0)
    one["seconds"] |= {"forward loop": 4.0, "back loop": 3.5}
    assert (measures.least(one, "forward"), measures.least(one, "vjp")) == (4.0, 7.5)
    one["seconds"] |= {"forward loop": 6.0}  # which the pool is better than
    assert (measures.least(one, "forward"), measures.least(one, "vjp")) == (5.0, 9.5)
    assert measures.least_against_limit("vjp", "plain")(one) == pytest.approx(9.5 / 3)
    assert measures.against_least("vjp", "plain")(one) == pytest.approx(12 / 9.5)
    assert measures.against_least("vjp", "smooth")(one) is None


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")  # PyTorch's own
def test_the_map_is_measured_and_drawn(main, tmp_path, capsys):
    main("--count", 3, "--seed", 2, *TINY, "--output", tmp_path, "--json", tmp_path / "again.json")
    said = capsys.readouterr().out
    assert "3 pools. " in said
    everything = json.loads((tmp_path / "map.json").read_text())
    assert everything == json.loads((tmp_path / "again.json").read_text())
    assert [set(record) for record in everything["records"]] == [
        {"name", "family", "sort", "bytes", "elements", "paths", "seconds", "limits"}
    ] * 3
    page = (tmp_path / "map.md").read_text(encoding="utf-8")
    assert page.startswith("# The map\n")
    assert "--count 3 --seed 2" in page
    for style in ("light", "dark"):
        assert (tmp_path / f"map-{style}.svg").read_text().startswith("<?xml")
    main("--count", 3, "--seed", 2, *TINY, "--compare", tmp_path / "map.json")
    assert "new / old of 3 pools" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("operation", ["forward", "pull"])
def test_an_engine_that_errs_is_found(main, truth, monkeypatch, operation):
    right = getattr(ndpool.memory.Arrays, operation)

    def wrong(self, *arguments):
        found = right(self, *arguments)
        found *= found.dtype.type(2)
        return found

    monkeypatch.setattr(ndpool.memory.Arrays, operation, wrong)
    monkeypatch.setattr(ndpool.memory.Arrays, "_quick", lambda *_: None)
    with pytest.raises(truth.WrongResultError):
        main("--count", 12, "--seed", 2, *TINY, "--only", "float32|float64")


@pytest.mark.filterwarnings("ignore")
def test_kinds_and_pools_are_chosen(main, capsys):
    main("--count", 30, *TINY, "--kinds", "avg", "--only", "float32")
    said = capsys.readouterr().out
    assert "max" not in said.split("the worst", 1)[-1].replace("max, min, avg, sum", "")
    main("--count", 2, *TINY, "--kinds", "nothing")
    assert "0 pools. PyTorch has none" in capsys.readouterr().out


def record(**changes):
    seconds = {"forward": 2.0, "forward tensor": 2.0, "forward torch": 3.0, "forward bare": 1.5, "copy": 1.0}
    about = {"name": "a", "family": "plain", "sort": "blocks", "bytes": 8_000_000, "elements": 1_000_000}
    return about | {"paths": {"forward": "rows"}, "seconds": seconds, "limits": {"forward": 1.0}} | changes


def test_times_that_look_slow_are_measured_again():
    suspect = importlib.import_module("benchmarks.map.measures").is_suspect
    assert not suspect(record())
    assert suspect(record(seconds={"forward": 3.1, "copy": 1.0}))
    assert not suspect(record(seconds={"forward": 3.1, "copy": 1.0}, bytes=1000))
    assert not suspect(record(seconds={"forward": 3.1, "copy": 1.0}, family="smooth"))
    assert suspect(record(seconds={"forward": 1.0, "forward tensor": 2.0, "forward torch": 1.9, "copy": 1.0}))


def test_quantiles_stand_beside_their_goals():
    report = importlib.import_module("benchmarks.map.report")
    torch_row, array_row, limit_row, loop_row, left_row, bound_row, least_row = report.quantile_rows([record()] * 3)
    assert (torch_row[0], array_row[0]) == tuple(f"PyTorch / ndpool on {on}, forward" for on in ("tensors", "arrays"))
    assert (
        torch_row[1:]
        == array_row[1:]
        == [
            "3",
            "worst 1.50, 1 % 1.50, 5 % 1.50, 25 % 1.50, median 1.50",
            "worst ≥ 1: met; 5 % ≥ 1.2: met; median ≥ 8: missed",
        ]
    )
    assert limit_row[2:] == ["median 2.00, 95 % 2.00, worst 2.00", "95 % ≤ 3: met"]
    assert loop_row[0].startswith("bare loop / memory's limit, forward")
    assert (loop_row[2], left_row[2]) == ("median 1.00, 95 % 1.00, worst 1.00", "median 2.00, 95 % 2.00, worst 2.00")
    assert bound_row[0] == "PyTorch / memory's limit, forward"
    assert least_row[0].startswith("PyTorch / the longer of")
    assert least_row[2] == "worst 2.00, 1 % 2.00, 5 % 2.00, 25 % 2.00, median 2.00"


def test_the_page_is_that_of_the_records():
    command = importlib.import_module("benchmarks.map.__main__")
    report = importlib.import_module("benchmarks.map.report")
    folder = importlib.import_module("benchmarks.report").RESULTS
    if not (folder / "map.json").exists():
        pytest.skip("benchmarks/results has no map: python -m benchmarks.map has not been run")
    everything = json.loads((folder / "map.json").read_text(encoding="utf-8"))
    written = (folder / "map.md").read_text(encoding="utf-8")
    assert written == report.markdown(everything), f"run python -m benchmarks.map --redraw {folder}; see {command}"


def test_all_ways_of_pools_are_timed_beside_the_chosen_one(main, monkeypatch, capsys):
    ways = importlib.import_module("benchmarks.map.ways")
    monkeypatch.setattr(ways, "WORTH_TELLING", 0)
    ways.main(["--count", "6", "--seed", "2", "--budget", "0", "--smallest", "1e3", "--largest", "2e3"])
    said = capsys.readouterr().out.splitlines()
    assert {line.split()[1] for line in said if " us" in line} == {"forward", "linearize", "pull"}
    assert [line.partition(":")[0] for line in said[-3:]] == ["forward", "linearize", "pull"]
    one = ways.Measured("pull", "max", "rows", {"rows": 3.0, "slide": 2.0})
    assert (one.quickest, one.ratio) == ("slide", 1.5)
    assert ways.summary("pull", [one]) == (
        "pull: 1 pools, 1.500 x the quickest way's time in the mean; 1 beyond 1.15, 1 beyond 1.3, 0 beyond 2"
    )
