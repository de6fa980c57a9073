"""Memory: nothing leaks, nothing is kept that is not needed, and sizes are 64-bit."""

from __future__ import annotations

import gc
import os
import tracemalloc
import weakref

import numpy as np
import pytest

from ndpool import Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window, _engine

KINDS = [Max(), Max("split"), Min("all"), Avg(), Sum(), SmoothMax(3.0), Lp(2.5)]


def resident():
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def everything(pool, x):
    y, pullback = pool.vjp(x)
    pullback(y)
    pool.jvp(x, x)
    pool(x, np.empty_like(y))
    if isinstance(pool.kind, Max | Min):
        pool.with_indices(x)


# --- results --------------------------------------------------------------------------------------


def test_a_large_result_is_where_the_last_one_was():
    """But never where one is that somebody still holds."""
    pool, x = Pool(Avg(), Window((2, 2))), np.ones((4, 512, 1024), np.float32)
    y = pool(x)
    held, last = pool(x), y.ctypes.data
    assert y.flags.c_contiguous
    assert y.flags.writeable
    assert last % 64 == held.ctypes.data % 64 == 0
    assert not np.shares_memory(y, held)
    view = y[1:]
    del y
    assert pool(x).ctypes.data != last
    view[:] = 2
    np.testing.assert_array_equal(pool(x), held)
    del view
    again = pool(x)
    assert again.ctypes.data == last
    np.testing.assert_array_equal(again, held)
    with pytest.raises(ValueError, match="resize"):
        again.resize((3,))


# --- leaks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_python_memory_does_not_grow(kind):
    """Thousands of calls of all functions leave no object behind."""
    pool, x = Pool(kind, Window((2, 2))), np.zeros((2, 8, 8), np.float32)
    for _ in range(50):
        everything(pool, x)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(1500):
            everything(pool, x)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 1500 * 8  # no object is as small as that


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="the size of the process is read from /proc")
def test_native_memory_does_not_grow():
    """Neither do plans, nor the memory that the engine works in, nor calls that fail."""
    x = np.random.default_rng(0).normal(size=(4, 60, 60)).astype(np.float32)
    right, wrong = np.empty((4, 30, 30), np.float32), np.empty(3, np.float32)

    def rounds(n):
        for i in range(n):
            for kind in KINDS:
                pool = Pool(kind, Window((2, 2)))
                everything(pool, x)
                with pytest.raises(ValueError, match="has"):
                    pool._plan(x).native.forward(x, wrong)
                with pytest.raises((ValueError, OverflowError)):
                    _engine.Plan([[2**61, 1, 2, 2, 1, 0, 0, 0]] * 3, "max", "first", 0.0, *["float32"] * 3, 1)
                pool(x[: 1 + i % 4], right[: 1 + i % 4])

    rounds(30)
    before = resident()
    rounds(300)
    assert resident() - before < 8 << 20


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="the size of the process is read from /proc")
def test_working_memory_of_a_large_call_is_given_back():
    """What one enormous row needed is not kept by the thread for ever."""
    x = np.ones(16_000_000, np.float32)
    pool = Pool(SmoothMax(1.0), Global(), 0)
    pool(x[:1000])
    before = resident()
    pool(x)
    pool.vjp(x)[1](np.ones(1, np.float32))
    gc.collect()
    assert resident() - before < 2 * x.nbytes


# --- what is kept ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Max(), Min(), Sum(), Avg()], ids=repr)
def test_pullbacks_keep_no_input_that_they_do_not_need(kind):
    """Max and Min with ties="first" keep their winners, Sum and Avg nothing."""
    x = np.ones((4, 4))
    alive = weakref.ref(x)
    _, pullback = Pool(kind, Window((2, 2))).vjp(x)
    del x
    gc.collect()
    assert alive() is None
    assert pullback(np.ones((2, 2))).shape == (4, 4)


@pytest.mark.parametrize("kind", [Max(), Min(), Sum(), Avg()], ids=repr)
def test_writing_to_an_input_that_is_not_kept_is_harmless(kind):
    x, g = np.random.default_rng(0).normal(size=(6, 6)), np.random.default_rng(1).normal(size=(3, 3))
    _, pullback = Pool(kind, Window((2, 2))).vjp(x)
    expected = pullback(g)
    x[:] = 0
    np.testing.assert_array_equal(pullback(g), expected)


LAYOUTS = {
    "C": np.ascontiguousarray,
    "channels last": lambda x: np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    "fortran": np.asfortranarray,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", [Max(), Max("split"), Min("all"), Avg(), Sum(), SmoothMax(2.0), Lp(2)], ids=repr)
def test_a_pullback_into_memory_that_is_there_makes_no_arrays(kind, layout):
    x = LAYOUTS[layout](np.random.default_rng(0).normal(size=(4, 8, 60, 60)).astype(np.float32))
    pool = Pool(kind, Window((3, 3), 2, 1))
    y, pullback = pool.vjp(x)
    g, gx, expected = np.array(y, order="K"), np.empty_like(x), pullback(y)
    pullback(g, out=gx)
    tracemalloc.start()
    try:
        pullback(g, gx)
        assert tracemalloc.get_traced_memory()[1] < 4096
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(gx, expected)


def test_plans_keep_no_arrays():
    """A cached plan is numbers only."""
    pool = Pool(Max("split"), Window((2, 2)))
    x = np.ones((4, 4))
    alive = weakref.ref(x)
    everything(pool, x)
    del x
    gc.collect()
    assert alive() is None


# --- sizes beyond 32 bits -------------------------------------------------------------------------

ENOUGH = 8 << 30


def free_memory():
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(free_memory() < ENOUGH, reason="needs 8 GiB of free memory: arrays of more than 2**31 elements")
def test_more_than_two_to_the_31_elements():
    """One slab and one row-major index beyond 2**31, in uint8: the last cells are read, won and found again."""
    rows, columns = 2**15 + 1, 2**16
    x = np.zeros((rows, columns), np.uint8)
    assert x.size > 2**31
    x[-1, -1], x[-1, -2], x[0, 0], x[rows // 2, 5] = 9, 7, 3, 4
    pool = Pool(Max(), Window((rows, 2**10), (1, 2**10)))
    y, indices = pool.with_indices(x)
    assert y[0, :2].tolist() == [4, 0]
    assert y[0, -1] == 9
    assert indices[0, -1] == x.size - 1
    assert indices[0, 0] == (rows // 2) * columns + 5
    assert pool(x).tolist() == y.tolist()
    total = Pool(Sum(), Global(), (0, 1))(x)
    assert total.tolist() == [[9 + 7 + 3 + 4]]
    many = Pool(Max(), Window((2,)), axes=(1,))(x)
    assert many.size > 2**30
    assert (many[-1, -1], many[0, 0], int(many.sum(dtype=np.int64))) == (9, 3, 9 + 3 + 4)
