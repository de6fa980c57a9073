"""One window over whole axes of several chunks: trees of partial results."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from chunked import chunkings, derivative_of, near, numbers, same_numbers
from hypothesis import given, settings
from hypothesis import strategies as st

from ndpool import Global, Lp, Max, Min, Pool, SmoothMax, Sum
from ndpool.dask import trees
from strategies import ALL_KINDS


@pytest.fixture(autouse=True, scope="module")
def _small_groups():
    """So that there are trees of several levels."""
    before, trees._GROUP = trees._GROUP, 4
    yield
    trees._GROUP = before


@st.composite
def problems(draw):
    kind, ndim = draw(st.sampled_from(ALL_KINDS)), draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 7)) for _ in range(ndim))
    axes = tuple(sorted(draw(st.permutations(range(ndim)))[: draw(st.integers(1, ndim))]))
    dtype, seed = draw(st.sampled_from(["f4", "f8", "f2", "i2", "u1", "u8", "i8"])), draw(st.integers(0, 2**32))
    x = numbers(shape, dtype, seed, hostile=not isinstance(kind, SmoothMax | Lp))
    skip = draw(st.sampled_from([None, None, 0, float("nan")]))
    if skip is None or (skip != skip and x.dtype.kind != "f"):
        pool = Pool(kind, Global(draw(st.booleans())), axes)
    else:
        count = draw(st.integers(1, min(3, int(np.prod([shape[d] for d in axes])))))
        pool = Pool(kind, Global(draw(st.booleans())), axes, skip, count)
    return pool, x, draw(chunkings(shape)), seed


@settings(max_examples=100)
@given(problems())
def test_partial_results_make_the_whole(problem):
    pool, x, chunks, seed = problem
    if getattr(pool.kind, "rounding", None) and x.dtype.kind == "f":
        return
    lazy, places = da.from_array(x, chunks), 64 if isinstance(pool.kind, SmoothMax | Lp) else 4
    y, linear = pool.linearize(x)
    if isinstance(pool.kind, Max | Min):
        same_numbers(pool(lazy), y)
    else:
        near(pool(lazy), y, places, size=8.0)
    rng = np.random.default_rng(seed)
    t, g = (rng.standard_normal(shape).astype(derivative_of(x)) for shape in (x.shape, y.shape))
    lazy_linear = pool.linearize(lazy)[1]
    near(lazy_linear.push(t), linear.push(t), places, size=16.0)
    near(lazy_linear.pull(g), linear.pull(g), places, size=16.0)
    near(pool.jvp(lazy, t)[1], pool.jvp(x, t)[1], places, size=16.0)
    if pool.kind.one_winner() is not None:
        for found, expected in zip(pool.with_indices(lazy), pool.with_indices(x), strict=True):
            same_numbers(found, expected)


def test_sums_lose_nothing_between_chunks():
    x = np.array([1e16, 1.0, 1.0, 1.0, -1e16, 1.0] * 50)
    found = Pool(Sum(), Global(), axes=(0,))(da.from_array(x, 7)).compute()
    assert found.tolist() == [200.0]


def test_the_order_does_not_depend_on_who_is_ready_first():
    x = da.from_array(np.random.default_rng(0).standard_normal(10_000).astype("f4"), 97)
    pool = Pool(Sum(), Global(), axes=(0,))
    with dask.config.set(scheduler="threads"):
        assert len({pool(x).compute().tobytes() for _ in range(10)}) == 1


def test_kinds_without_partial_results_take_all_cells():
    x = numbers((5, 30), "i2", 4)
    for kind in (each for each in ALL_KINDS if not isinstance(each, Max | Min | Sum | Lp | SmoothMax)):
        pool = Pool(kind, Global(), axes=(1,))
        near(pool(da.from_array(x, (2, 7))), pool(x), 2)


def test_the_first_of_equal_winners_is_the_first_of_the_array():
    """Chunks are not in the order of the cells: the first winner is in a later chunk."""
    x = np.zeros((4, 4))
    x[0, 3] = x[1, 0] = 7
    for found, expected in zip(
        Pool(Max(), Global(), axes=(0, 1)).with_indices(da.from_array(x, (2, 2))), ([[7.0]], [[3]]), strict=True
    ):
        assert found.compute().tolist() == expected


def test_what_is_kept():
    x = da.from_array(np.arange(6.0), 4)
    assert Pool(Max(), Global(), axes=(0,)).linearize(x)[1].residual.winners.compute().tolist() == [5]
    assert Pool(Max("all"), Global(), axes=(0,)).linearize(x)[1].residual.x is x
    linear = Pool(Sum(), Global(), axes=(0,)).linearize(x)[1]
    assert linear.residual == (None, None, None)
    with pytest.raises(TypeError, match="keeps no winners"):
        linear.indices()
    with pytest.raises(TypeError, match="out is given beside a Dask array"):
        linear.pull(np.ones(1), out=1)
    with pytest.raises(ValueError, match=r"g has shape \(2,\) and should have \(1,\)"):
        linear.pull(np.ones(2))
