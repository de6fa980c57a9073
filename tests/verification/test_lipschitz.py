"""Lipschitz constants: nothing moves faster, and where no smaller one will do, something moves as fast."""

from __future__ import annotations

import math

import numpy as np
import pytest
from boxes import seeds
from hypothesis import given

from ndpool import Adaptive, Avg, Global, Lp, Max, Median, Min, Mode, Pool, Quantile, SmoothMax, Sum, Window
from ndpool.bounds import Lipschitz
from ndpool.bounds import lipschitz as module
from strategies import ALL_KINDS, cases

NORMS = [1, 2, math.inf]
KINDS = [kind for kind in ALL_KINDS if not isinstance(kind, Mode)]


def jacobian(pool, x):
    """The derivative as a matrix of (outputs, inputs)."""
    _, linear = pool.linearize(x)
    units = np.eye(x.size).reshape(-1, *x.shape)
    return np.stack([linear.push(unit).ravel() for unit in units], 1)


@given(cases(KINDS, max_cells=40, empty=False), seeds())
def test_no_derivative_is_larger(case, seed):
    rng = np.random.default_rng(seed)
    constants = {norm: case.pool.lipschitz(case.shape, norm) for norm in NORMS}
    for _ in range(4):
        # Distinct cells: at ties the policy "all" gives more than any slope.
        x = rng.permutation(math.prod(case.shape)).reshape(case.shape) * 0.37 - 2 + 0.01 * rng.random(case.shape)
        matrix = jacobian(case.pool, x.astype(np.float64))
        for norm, constant in constants.items():
            assert np.linalg.norm(matrix, norm) <= constant.value * (1 + 1e-9)


@given(cases([Sum(), Avg(), Avg(False), Avg(divisor_override=3)], max_cells=40, empty=False))
def test_linear_kinds_have_the_norm_of_their_matrix(case):
    matrix = jacobian(case.pool, np.zeros(case.shape))
    for norm in NORMS:
        constant = case.pool.lipschitz(case.shape, norm)
        assert constant.exact
        assert constant.value == pytest.approx(np.linalg.norm(matrix, norm), rel=1e-9)


@given(cases([Max(), Min(), SmoothMax(1.0), SmoothMax(-2.0), Lp(2), Lp(3)], max_cells=40, empty=False))
def test_one_cell_that_leads_attains_norms_one_and_two(case):
    """The cell that most windows see is far above the others: all of its windows lean on it alone."""
    pool = Pool(case.pool.kind, case.pool.window, case.pool.axes)
    windows = jacobian(Pool(Sum(), pool.window, pool.axes), np.zeros(case.shape)).sum(0)
    x = np.zeros(case.shape)
    far = -1e4 if isinstance(pool.kind, Min) or getattr(pool.kind, "beta", 1) < 0 else 1e4
    x.flat[int(windows.argmax())] = far
    matrix = jacobian(pool, x)
    for norm in (1, 2):
        constant = pool.lipschitz(case.shape, norm)
        assert constant.exact
        assert np.linalg.norm(matrix, norm) == pytest.approx(constant.value, rel=1e-9)


def test_the_largest_norm():
    x = np.full((1, 9), 2.0)
    for kind in (Max("split"), Min(), SmoothMax(3.0), Median(), Quantile(0.3), Lp(2), Lp(3), Lp(1)):
        pool = Pool(kind, Window((3,), 1))
        constant = pool.lipschitz(x.shape)
        assert constant.exact
        assert np.linalg.norm(jacobian(pool, x), np.inf) == pytest.approx(constant.value)


def test_closed_forms():
    pool = Pool(Max(), Window((3, 3), 2, 1))
    assert [pool.lipschitz((2, 8, 8), norm).value for norm in NORMS] == [4, 2, 1]
    assert Pool(Lp(2), Window((2, 2))).lipschitz((4, 4)) == Lipschitz(2.0, True)
    assert Pool(Lp(1.5), Window((4,))).lipschitz((8,), 2) == Lipschitz(4 ** (1 / 1.5 - 0.5), True)
    assert not Pool(Lp(1.5), Window((4,), 1)).lipschitz((8,), 2).exact
    assert Pool(Avg(), Adaptive((3,))).lipschitz((5,), 1).value == pytest.approx(1 / 2 + 1 / 3)
    assert Pool(Sum(), Global(), (0, 1)).lipschitz((3, 5), 2).value == pytest.approx(math.sqrt(15))
    assert not Pool(Median(), Window((3,), 1)).lipschitz((8,), 1).exact
    assert Pool(Median(), Window((3,))).lipschitz((9,), 1) == Lipschitz(1.0, True)
    assert not Pool(Median(), Window((4,))).lipschitz((8,), 1).exact


def test_long_axes_have_a_bound(monkeypatch):
    pool = Pool(Avg(), Window((3,), 1, 1))
    exact = pool.lipschitz((50,), 2)
    monkeypatch.setattr(module, "LONGEST", 10)
    bound = pool.lipschitz((50,), 2)
    assert exact.exact
    assert not bound.exact
    assert exact.value <= bound.value


def test_bad_arguments():
    pool = Pool(Max(), Window((2,)))
    for norm in (3, "2", math.nan):
        with pytest.raises(ValueError, match=r"is not one of 1, 2 and inf; give one of these"):
            pool.lipschitz((4,), norm)
    with pytest.raises(TypeError, match="has no bounds: the value that most cells have jumps"):
        Pool(Mode(), Window((2,))).lipschitz((4,))
    with pytest.raises(ValueError, match="an output jumps where a cell becomes one that is skipped"):
        Pool(Max(), Window((2,)), skip=0).lipschitz((4,))
    with pytest.raises(ValueError, match="is rounded to integers, and jumps from one to the next"):
        Pool(Avg(rounding="floor"), Window((2,))).lipschitz((4,))
    with pytest.raises(ValueError, match="kernel_size=5"):
        Pool(Max(), Window((5,))).lipschitz((4,))
