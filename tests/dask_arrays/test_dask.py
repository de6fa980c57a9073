"""Dask arrays: any window across any chunks, equal to the pool of the whole array."""

from __future__ import annotations

import pickle

import dask
import dask.array as da
import numpy as np
import pytest
from chunked import (
    DTYPES,
    chunkings,
    derivative_of,
    directions,
    few_chunks,
    numbers,
    same_bits,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import ndpool
from ndpool import Adaptive, Avg, Global, Kind, Lp, Max, Pool, SmoothMax, Sum, Window
from ndpool.dask import tasks
from strategies import ALL_KINDS, cases

#: Powers that are products, and others; exponents that reach far.
SMOOTH = [*(kind for kind in ALL_KINDS if isinstance(kind, SmoothMax | Lp)), Lp(1), Lp(3), Lp(7.5), SmoothMax(-25.0)]
OTHERS = [kind for kind in ALL_KINDS if kind not in SMOOTH]


def skipping(pool, skip):
    return Pool(pool.kind, pool.window, pool.axes, skip)


@st.composite
def problems(draw, kinds):
    case = draw(cases(kinds, max_rank=3, max_side=8, max_cells=300, large=draw(st.booleans())))
    dtype, seed = draw(st.sampled_from(DTYPES)), draw(st.integers(0, 2**32))
    x = numbers(case.shape, dtype, seed)
    pool = case.pool if draw(st.integers(0, 3)) else skipping(case.pool, draw(st.sampled_from([0, 1])))
    if isinstance(pool.window, Global):
        return pool, x, tuple((n,) for n in case.shape), seed  # several chunks: see the tests of trees
    return pool, x, draw(chunkings(case.shape)), seed


@settings(max_examples=160)
@given(problems(OTHERS) | problems(SMOOTH))
def test_equal_to_the_bit(problem):
    pool, x, chunks, seed = problem
    lazy, dtype = da.from_array(x, chunks), derivative_of(x)
    if getattr(pool.kind, "rounding", None) and x.dtype.kind == "f":
        return
    y, linear = pool.linearize(x)
    t, g = directions((x.shape, y.shape), dtype, seed)
    same_bits(pool(lazy), y)
    lazy_y, lazy_linear = pool.linearize(lazy)
    same_bits(lazy_y, y)
    same_bits(lazy_linear.push(t), linear.push(t))
    for found, expected in zip(pool.jvp(lazy, da.from_array(t, -1)), pool.jvp(x, t), strict=True):
        same_bits(found, expected)
    gx = lazy_linear.pull(da.from_array(g, -1))
    assert gx.chunks == lazy.chunks
    same_bits(gx, linear.pull(g))
    if pool.kind.one_winner() is not None:
        for found, expected in zip(pool.with_indices(lazy), pool.with_indices(x), strict=True):
            same_bits(found, expected)


#: The lengths of the pooled axes, so that chunks go other ways through the engine than the whole.
LONG = {1: (200, 2000), 2: (30, 90), 3: (8, 22)}


@st.composite
def long_problems(draw, kinds):
    """Small windows mostly, wide ones and bins, over long axes with others before and after them."""
    kind, rank = draw(st.sampled_from(kinds)), draw(st.integers(1, 3))
    dtype = draw(st.sampled_from(["f4", "f8", "f2"]))

    def each(low, high):
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    lead, pooled, last = (draw(st.integers(1, 4)),), each(*LONG[rank]), (draw(st.sampled_from([1, 3, 20])),)
    if draw(st.integers(0, 5)) == 0:
        window = Adaptive(each(1, LONG[rank][0] // 3))
    else:
        kernel = each(1, draw(st.sampled_from([3, 5, min(24, LONG[rank][0])])))
        padding = tuple(draw(st.integers(0, k // 2)) for k in kernel)
        window = Window(kernel, each(1, 4), padding, 1, draw(st.booleans()))
    seed = draw(st.integers(0, 2**32))
    x = numbers(lead + pooled + last, dtype, seed, hostile=False)
    return Pool(kind, window, tuple(range(1, 1 + rank))), x, draw(few_chunks(x.shape)), seed


@settings(max_examples=200)
@given(long_problems(OTHERS) | long_problems(SMOOTH))
def test_equal_to_the_bit_over_long_axes(problem):
    pool, x, chunks, seed = problem
    y, linear = pool.linearize(x)
    t, g = directions((x.shape, y.shape), x.dtype, seed)
    lazy_y, lazy_linear = pool.linearize(da.from_array(x, chunks))
    same_bits(lazy_y, y)
    same_bits(lazy_linear.push(t), linear.push(t))
    same_bits(lazy_linear.pull(g), linear.pull(g))


@pytest.mark.parametrize("kind", SMOOTH, ids=repr)
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_smooth_kinds_of_numbers_far_apart(kind, dtype):
    """Chunks find other scales than the whole, and some windows are out of range of those around them."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((48, 70)) * 10.0 ** rng.uniform(-3, 2, (48, 1))
    x[:, 30:40] -= 1000.0
    x[20:30, :5] = 0
    pool = Pool(kind, Window((3, 2), (2, 1), (1, 0)))
    x = x.astype(dtype)
    y, linear = pool.linearize(x)
    t, g = directions((x.shape, y.shape), x.dtype, 4)
    lazy_y, lazy_linear = pool.linearize(da.from_array(x, (11, 9)))
    same_bits(lazy_y, y)
    same_bits(lazy_linear.push(t), linear.push(t))
    same_bits(lazy_linear.pull(g), linear.pull(g))


def test_threads_give_the_same():
    x = numbers((60, 61), "f4", 3, hostile=False)
    pool = Pool(Avg(), Window((5, 4), stride=(2, 3), padding=2, ceil_mode=True))
    with dask.config.set(scheduler="threads"):
        same_bits(pool(da.from_array(x, (7, 11))), pool(x))


def test_complex_numbers_and_times_two_chunkings():
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((20, 9)) + 1j * rng.standard_normal((20, 9))).astype(np.complex64)
    pool = Pool(Sum(), Window((3,), stride=2), axes=(0,))
    same_bits(pool(da.from_array(x, (4, 5))), pool(x))
    _, pull = pool.vjp(da.from_array(x, (4, 5)))
    same_bits(pull(da.from_array(pool(x), (1, 9))), pool.vjp(x)[1](pool(x)))


def test_bytes_in_the_other_order():
    x = numbers((20, 9), "f4", 3, hostile=False)
    for pool in (Pool(Max(), Window((3, 3), stride=2)), Pool(Avg(), Global(), axes=(0, 1))):
        swapped = da.from_array(x.astype(">f4"), 4)
        same_bits(pool(swapped), pool(da.from_array(x, 4)).compute())
        same_bits(pool.vjp(swapped)[1](pool(swapped)), pool.vjp(da.from_array(x, 4))[1](pool(x)).compute())


def test_nothing_is_computed_before_it_is_asked_for():
    def fail(block):
        raise AssertionError("computed")

    x = da.zeros((40, 40), chunks=7).map_blocks(fail, dtype=float, meta=np.empty((0, 0)))
    pool = Pool(Max(), Window((3, 3), stride=2))
    y, pull = pool.vjp(x)
    assert pull(y).shape == (40, 40)
    assert pool.with_indices(x)[1].dtype == np.int64
    assert ndpool.global_avg_pool(x).shape == (1, 1)


def test_functions_take_dask_arrays():
    x = numbers((12, 13), "f8", 1)
    lazy = da.from_array(x, 5)
    same_bits(ndpool.max_pool(lazy, 3, axes=(0, 1), stride=2), ndpool.max_pool(x, 3, axes=(0, 1), stride=2))
    same_bits(ndpool.adaptive_avg_pool2d(lazy, 5), ndpool.adaptive_avg_pool2d(x, 5))
    for found, expected in zip(
        ndpool.max_pool1d(lazy, 2, return_indices=True), ndpool.max_pool1d(x, 2, return_indices=True), strict=True
    ):
        same_bits(found, expected)


def test_tasks_are_named_and_their_number_is_linear_in_the_chunks():
    pool = Pool(Max(), Window((3, 3), stride=2, padding=1))

    def tasks_of(chunks):
        x = da.zeros((chunks * 10, chunks * 10), chunks=10)
        return [key for key in dict(pool(x).__dask_graph__()) if str(key[0]).startswith("ndpool-max-")]

    small, large = len(tasks_of(15)), len(tasks_of(30))
    assert large < 4.2 * small
    assert large <= 30 * 30 * 5


def test_halves_that_divide_need_no_task_but_their_own():
    x = da.zeros((64, 64), chunks=16)
    made = [key for key in dict(Pool(Avg(), Window((2, 2)))(x).__dask_graph__()) if str(key[0]).startswith("ndpool")]
    assert len(made) == 16


def test_the_same_pool_of_the_same_array_is_the_same_graph():
    x = da.zeros((64, 64), chunks=16)
    first, second = (Pool(Avg(), Window((3, 3)))(x).name for _ in range(2))
    assert first == second
    assert first != Pool(Avg(), Window((3, 3), stride=1))(x).name


def test_cells_that_are_read_are_those_that_are_seen():
    """Stride 10 and kernel 2 of chunks of 5: no task needs a chunk in which no window lies."""
    read = []

    def seen(block, block_info=None):
        read.append(block_info[0]["chunk-location"])
        return block

    x = da.zeros(100, chunks=5).map_blocks(seen, dtype=float, meta=np.empty(0))
    Pool(Max(), Window((2,), stride=10))(x).compute()
    assert sorted(set(read)) == [(i,) for i in range(0, 20, 2)]


def test_one_thread_a_task(monkeypatch):
    used = []
    forward = tasks.Arrays.forward
    monkeypatch.setattr(
        tasks.Arrays, "forward", lambda self, x, out=None: used.append(self.threads) or forward(self, x)
    )
    Pool(Avg(), Window((3, 3)))(da.zeros((300, 300), chunks=100)).compute()
    assert set(used) == {1}


def test_what_is_kept():
    x = da.from_array(numbers((9,), "f4", 2), 4)
    assert Pool(Avg(), Window((2,))).linearize(x)[1].residual == (None, None, None)
    assert Pool(Max(), Window((2,))).linearize(x)[1].residual.winners.dtype == np.uint8
    assert Pool(Lp(2), Window((2,))).linearize(x)[1].residual.x is x
    kept = Pool(Max("all"), Window((2,))).linearize(x)[1].residual
    assert kept.y.shape == (4,)
    same_bits(
        Pool(Max(), Window((2,))).linearize(x)[1].indices(), Pool(Max(), Window((2,))).with_indices(x.compute())[1]
    )


def test_graphs_travel():
    y = Pool(Max(), Adaptive((3,)))(da.from_array(np.arange(10.0), 3))
    assert pickle.loads(pickle.dumps(y)).compute().tolist() == [3.0, 6.0, 9.0]


# --- errors ---------------------------------------------------------------------------------------

POOL = Pool(Max(), Window((2,)))
X = da.from_array(np.arange(6.0), 4)


class Own(Kind):
    def value(self, x, pad=0):
        return x[0]

    def weights(self, x, pad=0):
        return [(0, 1)]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: POOL(X, out=np.empty(3)), TypeError, "out is given beside a Dask array, .*; leave it out"),
        (lambda: POOL.vjp(X)[1](np.zeros(3), out=1), TypeError, "out is given beside a Dask array"),
        (lambda: POOL.jvp(X, [1.0] * 6), TypeError, "t is a list and x is a Dask array; give t as a dask.array"),
        (lambda: POOL.jvp(X, np.zeros(5)), ValueError, r"t has shape \(5,\) and should have \(6,\)"),
        (
            lambda: POOL.jvp(X, np.zeros(6, complex)),
            TypeError,
            "t has dtype complex128 beside an input of plain numbers",
        ),
        (lambda: POOL.vjp(X)[1](np.zeros(2)), ValueError, r"g has shape \(2,\) and should have \(3,\)"),
        (lambda: POOL(X[X > 2]), ValueError, "chunks of unknown lengths; call x.compute_chunk_sizes"),
        (lambda: POOL(X.astype("M8[s]")), TypeError, "no engine computes Max"),
        (lambda: Pool(Own(), Window((2,)))(X), TypeError, "call ndpool.spec"),
        (lambda: POOL.jvp(np.zeros(6), X), TypeError, "t is a dask.array.core.Array where a NumPy array is taken"),
        (lambda: Pool(Avg(), Window((2,))).with_indices(X), TypeError, "has no winner"),
        (lambda: Pool(Avg(), Window((2,))).linearize(X)[1].indices(), TypeError, "keeps no winners; call with_indices"),
        (lambda: Pool(Max(), Window((9,)))(X), ValueError, "reaches over 9 cells"),
        (lambda: Pool(Max(), Window((2,)), axes="x")(X), TypeError, r"axes=\('x',\) are names"),
        (
            lambda: POOL(da.ma.masked_array(X, X > 3)).compute(),
            TypeError,
            "a chunk of x is a masked array, and the numbers under its mask would be pooled",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_other_collections_of_dask_are_named():
    bag = pytest.importorskip("dask.bag").from_sequence([1, 2])
    with pytest.raises(TypeError):
        POOL(bag)
