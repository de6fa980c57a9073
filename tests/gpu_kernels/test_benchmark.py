"""The benchmark's table: every pool of it has a rival, its bytes are counted, and what is missed is said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
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


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so():
    done = subprocess.run([sys.executable, "-m", "benchmarks.gpu"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "PyTorch sees no GPU here" in done.stderr
