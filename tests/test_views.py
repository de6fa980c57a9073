"""Views: arrays with gaps, steps, other orders and repeated cells are read where they lie, a piece at a time."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window, _engine, get_num_threads
from ndpool import set_num_threads as set_threads
from strategies import ALL_KINDS, cases

DTYPES = [np.float32, np.float64, np.float16, np.uint8, np.int16]


@pytest.fixture(autouse=True)
def as_it_was():
    level, threads = _engine.level(), get_num_threads()
    yield
    _engine.set_level(level)
    set_threads(threads)


def seen(shape, dtype, rng, view):
    """An array of random numbers, with ties, that lies as `view` says: for each axis its step and gap, and an order."""
    order, steps = view
    laid = tuple(shape[d] for d in order)
    room = rng.integers(0, 5, [abs(step) * side + 2 for side, step in zip(laid, steps, strict=True)]).astype(dtype)
    x = room[tuple(slice(1, 1 + abs(step) * side, abs(step)) for side, step in zip(laid, steps, strict=True))]
    x = x[tuple(slice(None, None, 1 if step > 0 else -1) for step in steps)]
    assert x.shape == laid
    return x.transpose(np.argsort(order))


def arrangements(ndim):
    return st.tuples(
        st.permutations(range(ndim)), st.lists(st.sampled_from([1, 1, 2, 3, -1, -2]), min_size=ndim, max_size=ndim)
    )


def close(found, expected):
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    if expected.dtype.kind in "iu":
        np.testing.assert_array_equal(found, expected)
    else:
        tolerance = 4 * np.finfo(expected.dtype).eps
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=10 * tolerance)


def same_as_dense(pool, x, t, g):
    """Every operation on views gives what it gives on dense copies of them."""
    plain, dense_t, dense_g = (np.array(a, order="C") for a in (x, t, g))
    y, pull = pool.vjp(x)
    expected_y, expected_pull = pool.vjp(plain)
    close(pool(x), expected_y)
    close(y, expected_y)
    close(pull(g), expected_pull(dense_g))
    out = np.zeros((*x.shape, 2), pull(g).dtype)[..., 1]
    assert pull(g, out) is out
    close(out, expected_pull(dense_g))
    found, expected = pool.jvp(x, t), pool.jvp(plain, dense_t)
    close(found[0], expected[0])
    close(found[1], expected[1])
    close(pool.linearize(x)[1].push(t), expected[1])
    into = np.zeros((*y.shape, 3), y.dtype)[..., ::-2][..., 1]
    assert pool(x, into) is into
    close(into, expected_y)
    if isinstance(pool.kind, Max | Min):
        np.testing.assert_array_equal(pool.with_indices(x)[1], pool.with_indices(plain)[1])


@given(st.data(), st.sampled_from(DTYPES), st.sampled_from(_engine.levels()), st.integers(0, 2**32 - 1))
@settings(max_examples=250, deadline=None)
def test_views_are_pooled_as_their_copies_are(data, dtype, level, seed):
    case = data.draw(cases(ALL_KINDS, large=True, max_cells=2000))
    _engine.set_level(level)
    rng, ndim = np.random.default_rng(seed), len(case.shape)
    x = seen(case.shape, dtype, rng, data.draw(arrangements(ndim)))
    outputs = case.pool.output_shape(case.shape)
    derivative = dtype if np.dtype(dtype).kind == "f" else np.float64
    t = seen(case.shape, derivative, rng, data.draw(arrangements(ndim)))
    g = seen(outputs, derivative, rng, data.draw(arrangements(len(outputs))))
    same_as_dense(case.pool, x, t, g)


KINDS = [Max(), Max("split"), Min("all"), Avg(), Avg(count_include_pad=False), Sum(), SmoothMax(0.5), Lp(2)]
LARGE = {
    "many slabs": (Window((3, 3), 2, 1), (12, 20, 50, 60)),
    "bands of a slab": (Window((3, 3), 2, 1), (1100, 700)),
    "bands under wide windows": (Window((40, 3), (7, 2), (19, 1), (3, 1)), (1100, 500)),
    "a slab that is not cut": (Adaptive((3, 4)), (1300, 900)),
    "one window": (Global(keepdims=False), (1300, 900)),
    "rows": (Window((5,), 3, 2), (70, 9000)),
    "one row": (Window((5,), 3, 2, 2), (700001,)),
}


@pytest.mark.parametrize("kind", KINDS, ids=repr)
@pytest.mark.parametrize("name", LARGE)
def test_pieces_of_large_views(kind, name):
    """Whatever the number of threads, to the bit."""
    window, shape = LARGE[name]
    rank = 1 if "row" in name else 2
    rng = np.random.default_rng(3)
    pool = Pool(kind, window, tuple(range(-rank, 0)))
    crop = rng.integers(0, 50, [side + 3 for side in shape]).astype(np.float32)[tuple(slice(1, -2) for _ in shape)]
    turned = rng.integers(0, 50, shape[::-1]).astype(np.float32).T
    g = rng.normal(size=pool.output_shape(shape)).astype(np.float32)
    repeated = np.broadcast_to(np.float32(2.5), g.shape)
    for x in (crop, turned):
        results = []
        for threads in (1, 5):
            set_threads(threads)
            y, pull = pool.vjp(x)
            results.append((pool(x), y, pull(g), pull(repeated)))
        for one, other in zip(*results, strict=True):
            np.testing.assert_array_equal(one, other)
        plain = np.ascontiguousarray(x)
        y, pull = pool.vjp(plain)
        for found, expected in zip(results[0], (y, y, pull(g), pull(repeated.copy())), strict=True):
            close(found, expected)


def as_a_copy_has_it(pool, x, rng):
    """Compares values, places and the gradient of a view with those of a copy; gives a cotangent and both pullbacks."""
    plain = np.array(x, order="C")
    (y, pull), (expected_y, expected_pull) = pool.vjp(x), pool.vjp(plain)
    close(y, expected_y)
    np.testing.assert_array_equal(pool.with_indices(x)[1], pool.with_indices(plain)[1])
    g = rng.integers(1, 9, y.shape).astype(pull(y).dtype)
    np.testing.assert_array_equal(pull(g), expected_pull(g))
    return g, pull, expected_pull


@pytest.mark.parametrize("window", [Window((3, 4), (2, 1), (1, 2)), Window((2, 2)), Adaptive((9, 5))], ids=repr)
@pytest.mark.parametrize("inside", [1, 2, 3, 5, 8, 13, 16, 17])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
def test_pooled_axes_that_lie_the_other_way_round(dtype, inside, window):
    """What lies inside of them is copied by runs, of any number of bytes, in bands and whole, to and fro."""
    rng = np.random.default_rng(4)
    pool = Pool(Max(), window, (1, 2))
    for shape in ((2, 7, 9), (3, 130, 520)):
        room = rng.integers(0, 50, (shape[2], shape[0], shape[1], inside + 2)).astype(dtype)
        for x in (room[..., 1:-1].transpose(1, 2, 0, 3), np.ascontiguousarray(room[..., 2:]).transpose(1, 2, 0, 3)):
            g, pull, expected_pull = as_a_copy_has_it(pool, x, rng)
            around = np.full(room.shape, 7, g.dtype)
            pull(g, around[..., 1:-1].transpose(1, 2, 0, 3))
            np.testing.assert_array_equal(around[..., 1:-1].transpose(1, 2, 0, 3), expected_pull(g))
            assert (around[..., 0] == 7).all()
            assert (around[..., -1] == 7).all()


@pytest.mark.parametrize("shape", [(2, 3, 7, 9), (2, 3, 90, 700), (3, 2, 40, 30, 60), (2, 300, 5, 6), (1, 2, 3, 2, 3)])
@pytest.mark.parametrize("kernel", [2, 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
def test_all_axes_the_other_way_round(dtype, kernel, shape):
    """Few neighbours along each of the first dimensions are copied as one row of them, in bands and whole."""
    rng = np.random.default_rng(6)
    rank = len(shape) - 2
    pool = Pool(Max(), Window((kernel,) * rank, 2, 1), tuple(range(-rank, 0)))
    room = rng.integers(0, 50, (*shape[:1:-1], shape[1], shape[0] + 3)).astype(dtype)
    for x in (np.ascontiguousarray(room[..., 3:]).T, room[..., 1:-2].T):
        g, pull, expected_pull = as_a_copy_has_it(pool, x, rng)
        around = np.full(room.shape, 7, g.dtype)
        pull(g, around[..., 1:-2].T)
        np.testing.assert_array_equal(around[..., 1:-2].T, expected_pull(g))
        assert (around[..., :1] == 7).all()
        assert (around[..., -2:] == 7).all()


@pytest.mark.parametrize("kind", [Sum(), Avg()], ids=repr)
def test_complex_views(kind):
    rng = np.random.default_rng(0)
    room = rng.normal(size=(6, 20, 22)) + 1j * rng.normal(size=(6, 20, 22))
    pool = Pool(kind, Window((2, 3), 1))
    for x in (room[:, ::2, 1:-1], room.transpose(0, 2, 1), room[::-1, :, ::-1]):
        same_as_dense(pool, x, x, pool(x)[:, ::-1])


@pytest.mark.parametrize("kind", [Max(), Min("split"), Avg(), Lp(2)], ids=repr)
def test_no_view_is_copied_whole(kind):
    """The largest array that is made is the result."""
    rng = np.random.default_rng(0)
    pool, room = Pool(kind, Window((4, 4))), rng.normal(size=(9, 40, 66, 68)).astype(np.float32)
    for x in (room[1:, :, 1:-1, 2:-2], np.repeat(room, 2, 0)[::2], room[..., ::-1], room.transpose(0, 1, 3, 2)):
        y, pull = pool.vjp(x)
        g, out = np.broadcast_to(np.float32(1), y.shape), np.zeros((*x.shape, 2), np.float32)[..., 0]
        for call, results in ((partial(pool, x), 1), (partial(pool.vjp, x), 3), (partial(pull, g, out), 0)):
            call()
            tracemalloc.start()
            try:
                call()
                assert tracemalloc.get_traced_memory()[1] < results * y.nbytes + 8192
            finally:
                tracemalloc.stop()


def test_a_view_of_other_lengths_is_refused():
    x, y = np.zeros((6, 8), np.float32), np.zeros((3, 4), np.float32)
    plan = Pool(Max(), Window((2, 2)))._plan(x).native
    plan.forward(np.zeros((6, 16), np.float32)[:, ::2], y)
    with pytest.raises(ValueError, match="x is a view of other lengths"):
        plan.forward(np.zeros((8, 12), np.float32)[:, ::2], y)
    apart = np.zeros((6, 8), [("a", np.float32), ("b", np.uint8)])["a"]
    with pytest.raises(ValueError, match="not whole elements"):
        plan.forward(apart, y)
