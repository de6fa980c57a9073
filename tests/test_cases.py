"""The cases of `make bench`: each has a name of its own, and peers that compute the same."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
PEERS = {"torch": "torch", "numpy": "numpy", "scipy": "scipy"}


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


def test_names_tell_cases_apart(benchmarks):
    cases = benchmarks("targets").CASES
    assert len({case.name for case in cases}) == len(cases)
    names = {case.name for case in benchmarks("targets").ELSEWHERE[4].cases}
    assert names == {"max k2s2 DHW fortran", "avg k2s2 DHW fortran"}


def small(case):
    """The case on an array that takes no time, in which its windows still fit."""
    least = 2 * getattr(case.window, "kernel", 3)
    shape = [min(length, least if case.layout[d] in "DHW" else 3) for d, length in enumerate(case.shape)]
    return replace(case, shape=tuple(shape))


@pytest.mark.parametrize("peer", PEERS)
def test_peers_compute_the_same(benchmarks, peer):
    pytest.importorskip(PEERS[peer])
    measure, peers = benchmarks("measure"), benchmarks("peers")
    compared = 0
    for work in benchmarks("targets").ELSEWHERE:
        for case in map(small, work.cases):
            data = benchmarks("cases").draw(case, peers.ndpool_pool(case).output_shape(case.shape))
            assert data.x.flags.f_contiguous or case.order == "C"
            ours = peers.ndpool(case, data, 1)
            expected = ours.read(ours.run())
            assert expected[0].dtype == data.g.dtype
            theirs = peers.PEERS[peer](case, data, 1)
            if theirs is not None:
                compared += 1
                tolerated = case.dtype == "bfloat16"  # whose sums some round at every step
                assert tolerated or measure.difference(case, theirs, expected) is None, case.name
    assert compared > 2


def test_a_copy_moves_every_byte_in_any_order(benchmarks):
    x = np.asfortranarray(np.arange(24.0).reshape(2, 3, 4))
    copy, times = benchmarks("measure").copier(x, 1)
    copy.run()
    assert times == 2**25 // x.nbytes
