"""Bounds and proofs where their suite is not: what they load, what they refuse, and what is missing."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from ndpool import Avg, Graph, Max, Mode, Pool, Window
from ndpool.cli import main
from processes import run_python


def test_nothing_is_loaded_before_it_is_asked_for():
    parts = "('ndpool.bounds', 'ndpool.prove', 'z3', 'flint')"
    assert run_python(f"import ndpool, sys; print(*[m for m in sys.modules if m.startswith({parts})])") == []


def test_proofs_are_loaded_without_a_solver():
    assert run_python("import ndpool.prove, sys; print('z3' in sys.modules, 'flint' in sys.modules)") == ["False"] * 2


@pytest.mark.parametrize("missing", ["z3", "flint"])
def test_the_command_says_what_is_missing(monkeypatch, capsys, missing):
    for library in ("z3", "flint"):
        monkeypatch.setitem(sys.modules, library, None if library == missing else sys)
    assert main(["prove", "--kernel", "2"]) == 2
    assert capsys.readouterr().err == f"ndpool: proofs need {missing}; install it with: pip install 'ndpool[prove]'\n"


def test_bounds_need_nothing_but_numpy():
    lo, hi = np.array([0.0, 1.0, -1.0, 3.0]), np.array([2.0, 1.5, 0.0, 4.0])
    pool = Pool(Max(), Window((2,)))
    assert [end.tolist() for end in pool.bounds(lo, hi)] == [[1, 3], [2, 4]]
    lower, upper = pool.linear_bounds(lo, hi)
    assert (lower(lo) <= pool(lo)).all()
    assert (pool(hi) <= upper(hi)).all()
    assert float(Pool(Avg(), Window((2,), 1)).lipschitz((4,), 1)) == 1
    g = Graph()
    low, high = g.build(g.relu(g.max_pool1d(g.input((1, 4)), 2))).bounds(lo[None], hi[None])
    assert (low <= [[1, 3]]).all()
    assert (high >= [[2, 4]]).all()


def test_modes_are_refused():
    with pytest.raises(TypeError, match="has no bounds: the value that most cells have jumps"):
        Pool(Mode(), Window((2,))).bounds([0.0, 1.0], [1.0, 2.0])
