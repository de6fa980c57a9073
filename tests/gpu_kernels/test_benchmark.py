"""The benchmark's table: every pool of it has a rival, its bytes are counted, and what is missed is said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks.gpu import __main__ as main
from benchmarks.gpu import report, works


def test_every_work_has_rivals_and_a_goal():
    names = [work.name for work in works.works()]
    assert len(names) == len(set(names)) > 30
    for work in works.works():
        assert set(works.functions(work)) == set(works.CONTENDERS)
        assert any(vars(work.goal("forward")).values())


def test_bytes():
    """X and y of float32, a byte for each winner, and nothing more."""
    work = next(works.works())
    inputs, outputs = 64 * 64 * 224 * 224, 64 * 64 * 112 * 112
    assert works.moved(work.plan, "forward") == 4 * (inputs + outputs)
    assert works.moved(work.plan, "VJP") == 4 * (inputs + outputs) + outputs


def test_what_is_missed_is_said():
    record = {"work": "max", "operation": "VJP", "bytes": 10**9, "failed": {}}
    record |= {"goal": {"share": 0.9, "eager": 2, "compiled": 0}, "seconds": {"ndpool": 1e-3, "PyTorch": 5e-3}}
    assert report.missed(record, copy=2e12) == ["share 0.50 < 0.90"]
    assert report.missed(record, copy=1e12) == []
    assert report.line(record, copy=1e12) == "| max | VJP | 1.00 | 0.20 | — | 5.00 x | — | met |"


def test_a_part_of_the_page_does_not_replace_the_others(tmp_path):
    """Only numbers that are there can be told again."""
    assert main.measured_before(tmp_path, anew=False) == {}
    (tmp_path / "gpu.md").write_text("# Pools on the GPU")
    with pytest.raises(SystemExit, match=r"has gpu\.md and no gpu\.json with its numbers, .*; measure --all, or give"):
        main.measured_before(tmp_path, anew=False)
    assert main.measured_before(tmp_path, anew=True) == {}
    (tmp_path / "gpu.json").write_text('{"overhead": []}')
    assert main.measured_before(tmp_path, anew=False) == {"overhead": []}


def test_the_page_says_how_it_was_measured(monkeypatch):
    seconds = {"ndpool": 2e-3, "PyTorch": 3e-3}
    record = {"network": "stem", "numbers": "float32", "order": "NCHW", "seconds": seconds}
    results = {"device": "a card", "torch": "2.13", "triton": "3.6", "training": [record]}
    monkeypatch.setattr("sys.argv", ["benchmarks.gpu", "--training"])
    run = main.this_run()
    assert run.startswith("`python -m benchmarks.gpu --training`, 2")
    page = report.report(results | {"runs": {"training": run, "map": run, "works": "another"}})
    assert f"\nanother: the table of pools.\n\n{run}: the random pools, training steps.\n" in page
    assert "| stem | float32 | NCHW | 3.00 ms | 2.00 ms | 1.50 x |" in page
    for output in (["--output", "here"], ["--output=here"]):  # the folder of one machine
        monkeypatch.setattr("sys.argv", ["benchmarks.gpu", *output, "--training"])
        assert main.this_run() == run
    assert report.report(results).startswith("# Pools on the GPU\n\na card; PyTorch 2.13, Triton 3.6.\n\n## A training")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so():
    done = subprocess.run([sys.executable, "-m", "benchmarks.gpu"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "PyTorch sees no GPU here" in done.stderr
