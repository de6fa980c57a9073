"""The example certifies digits at a small scale, and the benchmark measures and writes its tables."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def loaded(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_digits_are_certified(tmp_path, monkeypatch, capsys):
    for needed in ("matplotlib", "sklearn", "tqdm"):
        pytest.importorskip(needed, reason=f"the examples draw and load with {needed}: install ndpool[examples]")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    certified = loaded(ROOT / "examples" / "certified.py", "example_certified")
    monkeypatch.setattr(certified, "EPSILONS", (0.001, 0.05))
    results = tmp_path / "shares.json"
    found = certified.main(epochs=2, digits_asked=5, picture=tmp_path / "certified.png", results=results)
    assert (tmp_path / "certified.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads(results.read_text())["crown"] == found["crown"]
    assert "5 held-out digits" in capsys.readouterr().out
    for small, large in found.values():
        assert small >= large
    for ibp, crown, not_refuted in zip(*found.values(), strict=True):
        assert ibp <= crown <= not_refuted
    assert found["crown"][0] > 0


def test_the_benchmark_writes_its_tables(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    import ndpool

    threads = ndpool.get_num_threads()
    benchmark = importlib.import_module("benchmarks.verified")
    try:
        found = benchmark.main(quick=True, output=tmp_path)
    finally:
        ndpool.set_num_threads(threads)
    rows = [benchmark.Row(**row) for row in found["speed"]["rows"]]
    assert {row.pool for row in rows} == {"Max 2x2", "Max 3x3 s2 p1", "Max 3x3 s1 p1"}
    assert all(row.forward > 0 and row.bounds > 0 and row.linear_bounds > 0 for row in rows)
    written = json.loads((tmp_path / "verified.json").read_text())
    assert written["gaps"][0]["crown, volume"] <= written["gaps"][0]["crown, constant"] <= written["gaps"][0]["ibp"]
    text = (tmp_path / "verified.md").read_text()
    assert text.startswith("# Verified\n")
    assert "| proved |" in text
    missed = benchmark.speed_table([benchmark.Row("Max", "float32", 1e-3, 3.1, 12.1)])
    assert missed.count("target missed") == 2


def test_the_benchmark_leaves_the_relaxation_as_it_was(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from ndpool.bounds import relaxations

    before = relaxations.linear_bounds
    importlib.import_module("benchmarks.verified").gaps((0.01,))
    assert relaxations.linear_bounds is before


def test_auto_lirpa_itself_is_wider_and_refuses_windows(monkeypatch):
    """Its latest package, where it is installed: the same intervals, wider maps, no padding, overlap or dilation."""
    monkeypatch.syspath_prepend(str(ROOT))
    lirpa = importlib.import_module("benchmarks.lirpa")
    try:
        lirpa.auto_lirpa()
    except ImportError as error:
        pytest.skip(str(error))
    for row in importlib.import_module("benchmarks.verified").gaps((0.003, 0.1)):
        assert row["ibp"] == pytest.approx(row["auto_LiRPA, IBP"], rel=1e-4)
        assert row["crown, volume"] < 0.9 * row["auto_LiRPA, CROWN"]
    low, high = lirpa.of_a_pool(kernel_size=3)
    assert (low <= high).all()
    for window in ({"padding": 1}, {"stride": 2}, {"dilation": 2}):
        with pytest.raises((ValueError, AssertionError, RuntimeError)):
            lirpa.of_a_pool(kernel_size=3, **window)
