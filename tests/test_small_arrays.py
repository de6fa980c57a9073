"""Small arrays take a short way of their own, which looks at nothing but whether an array is like the one before."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window, _engine
from ways import forward_by, ways

KINDS = [Max(), Max("split"), Min("all"), Avg(), Sum(), SmoothMax(2.0), Lp(2)]
WINDOWS = [Window((2, 2)), Window((3, 2), 1, 1), Adaptive((2, 3)), Global(), Global(keepdims=False)]
DTYPES = [np.float32, np.float64, np.float16, np.uint8, np.int64, np.bool_]


class Unlike(np.ndarray):
    """A subclass may mean more than its numbers."""


OTHERS = {
    "dtype": lambda x: x.astype(np.float64),
    "as many bytes": lambda x: x.view(np.int32),
    "byte order": lambda x: x.astype(">f4"),
    "shape": lambda x: x[:-2],
    "rank": lambda x: x[None],
    "order": np.asfortranarray,
    "backwards": lambda x: x[::-1].copy()[::-1],
    "unaligned": lambda x: np.frombuffer(b"." + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape),
    "subclass": lambda x: x.view(Unlike),
    "list": lambda x: x.tolist(),
    "none": lambda x: None,
}
#: What a cotangent, and what the derivative keeps, may lie as all the same.
READ_ANYHOW = {"order", "backwards"}


#: How x lies in memory, from outside to inside. The last two axes are pooled.
ORDERS = {"usual": (0, 1, 2), "channels last": (1, 2, 0), "fortran": (2, 1, 0)}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("window", WINDOWS, ids=repr)
@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_both_ways_are_one(kind, window, dtype, order):
    x = np.random.default_rng(0).integers(0, 2 if dtype is np.bool_ else 5, (3, 6, 7)).astype(dtype)
    x = np.ascontiguousarray(x.transpose(ORDERS[order])).transpose(np.argsort(ORDERS[order]))
    short, long = Pool(kind, window, (1, 2)), Pool(kind, window, (1, 2))
    for pool in (short, long):
        pool(x), pool.vjp(x)
    for arrays in long._plans.values():
        # The smooth kinds compute integers as floats.
        none = arrays.dtype != x.dtype or (arrays.order is not None and window == Global(keepdims=False))
        assert (arrays.quick is None) == none
        assert none or kind != Max() or short._latest_linear.plan.finds_first
        arrays.quick = None
    object.__setattr__(long, "_latest", None)
    object.__setattr__(long, "_latest_linear", None)
    wide = np.empty_like(short(x), np.float64)
    wide[...] = np.random.default_rng(1).normal(size=wide.shape)
    for g in (wide.astype(long.vjp(x)[1](wide).dtype), wide):
        (y, pull), (expected_y, expected_pull) = short.vjp(x), long.vjp(x)
        out, gx = np.full_like(expected_y, 9), np.full_like(expected_pull(g), 9)
        for found, expected in (
            (short(x), long(x)),
            (short(x, out=out), long(x)),
            (y, expected_y),
            (pull(g), expected_pull(g)),
            (pull(g, out=gx), expected_pull(g)),
        ):
            assert found.dtype == expected.dtype
            assert found.flags.writeable
            np.testing.assert_array_equal(found, expected)
    for found, expected in zip(pull.__self__.residual, expected_pull.__self__.residual, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_an_array_to_write_to_is_looked_at():
    """The short way leaves it to the long one to say what is wrong, and writes nothing."""
    pool, x = Pool(Max(), Window((2, 2))), np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    y, linear = pool.linearize(x)
    before, room, fixed = x.copy(), np.zeros(48, np.float32), np.zeros_like(y)
    fixed.flags.writeable = False
    for out, said in (
        (fixed, "out is read-only"),
        (np.zeros((2, 3)), "out has float64"),
        (np.zeros((3, 2), np.float32), "out has float32"),
        (x[:1].reshape(2, 3), "out overlaps x"),
    ):
        assert pool._latest.quick.forward(x, out) is None
        with pytest.raises(ValueError, match=said):
            pool(x, out=out)
    with pytest.raises(TypeError, match="out is a list"):
        pool(x, out=[1.0])
    g = room[20:26].reshape(2, 3)
    for out, said in ((room[:24].reshape(4, 6), "out overlaps g"), (np.zeros((4, 6)), "out has float64")):
        with pytest.raises(ValueError, match=said):
            linear.pull(g, out=out)
    np.testing.assert_array_equal(x, before)
    written_the_long_way = np.zeros((6, 4), np.float32).T, np.zeros((4, 12), np.float32)[:, ::2]
    for out in written_the_long_way:
        np.testing.assert_array_equal(linear.pull(np.ones_like(y), out=out), linear.pull(np.ones_like(y)))


@pytest.mark.parametrize("name", OTHERS)
def test_another_array_is_none_of_its_business(name):
    x = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    y, g = np.zeros((3, 4), np.float32), np.ones((3, 4), np.float32)
    winners = np.zeros((3, 4), np.uint8)
    for kind in (Max(), Max("split"), Avg(), Lp(2)):
        quick = Pool(kind, Window((2, 2)))._plan(x).quick
        other = OTHERS[name](x)
        assert quick.forward(other, None) is None
        assert quick.linearize(other) is None
        refused = name not in READ_ANYHOW
        assert (quick.pull(x, y, winners, OTHERS[name](g), None) is None) == refused
        if kind == Max():
            assert quick.pull(x, y, OTHERS[name](x), g, None) is None
        elif kind != Avg():
            assert (quick.pull(other, y, winners, g, None) is None) == refused
        assert quick.pull(x, y, winners, g, None) is not None


@pytest.mark.parametrize("name", sorted(OTHERS.keys() - {"none", "subclass"}))
def test_another_array_is_pooled_all_the_same(name):
    """And so is the one that comes after it."""
    x = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    pool, other = Pool(Max(), Window((2, 2))), OTHERS[name](x)
    expected = Pool(Max(), Window((2, 2)))(np.array(other))
    for each, y in ((x, pool(x)), (other, expected), (x, pool(x)), (other, expected)):
        np.testing.assert_array_equal(pool(each), y)
        np.testing.assert_array_equal(pool.vjp(each)[0], y)


#: Views whose axes lie in an order that an array without gaps has, too, and which of these it is.
VIEWS = {
    "steps": (lambda x: np.repeat(x, 2, 2)[..., ::2], "usual"),
    "crop": (lambda x: np.pad(x, 2)[2:-2, 2:-2, 2:-2], "usual"),
    "crop of channels last": (
        lambda x: np.pad(x.transpose(1, 2, 0), 1)[1:-1, 1:-1, 1:-1].transpose(2, 0, 1),
        "channels last",
    ),
    "part of records": (lambda x: np.stack([x, x], -1)[..., 0], "usual"),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("window", WINDOWS, ids=repr)
@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_views_take_the_short_way(kind, window, name):
    x = np.random.default_rng(0).integers(0, 5, (3, 6, 7)).astype(np.float32)
    view, order = VIEWS[name]
    dense = np.ascontiguousarray(x.transpose(ORDERS[order])).transpose(np.argsort(ORDERS[order]))
    pool, other = Pool(kind, window, (1, 2)), view(x)
    expected, expected_pull = pool.vjp(dense)
    g = np.random.default_rng(1).normal(size=expected.shape).astype(np.float32)
    flat = expected.ndim < 3
    if order == "usual" or not flat:
        quick = pool._plan(dense, ordered=True).quick
        y, kept = quick.linearize(other)
        np.testing.assert_array_equal(y, expected)
        assert y.strides == expected.strides
        np.testing.assert_array_equal(quick.forward(other, None), expected)
        cotangents = np.repeat(g, 2, -1)[..., ::2], np.broadcast_to(g.mean(), g.shape).astype(np.float32)
        for each in (g, *cotangents):
            given = quick.pull(*kept, each, None)
            assert (given is None) == (flat and each is cotangents[0])
            if given is not None:
                np.testing.assert_array_equal(given, expected_pull(np.ascontiguousarray(each)))
                assert given.strides == expected_pull(each).strides
    y, pull = pool.vjp(other)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(pull(g), expected_pull(g))


def test_a_view_is_not_written_over():
    """Not between its cells either: what lies there is the caller's."""
    room = np.arange(64, dtype=np.float32)
    x = room.reshape(4, 16)[:, ::2]
    pool = Pool(Avg(), Window((2, 2)))
    assert pool(x).shape == (2, 4)
    for start in (0, 24, 55):
        out = room[start : start + 8].reshape(2, 4)
        assert pool._latest.quick.forward(x, out) is None
        with pytest.raises(ValueError, match="out overlaps x"):
            pool(x, out=room[:16:2].reshape(2, 4))
    np.testing.assert_array_equal(room, np.arange(64))


def test_what_is_handed_out_is_not_what_is_kept():
    x, g = np.random.default_rng(0).normal(size=(4, 4)), np.random.default_rng(1).normal(size=(2, 2))
    pool = Pool(Max("split"), Window((2, 2)))
    pool(x)
    y, pull = pool.vjp(x)
    expected = pull(g)
    y[:] = 0
    np.testing.assert_array_equal(pull(g), expected)


def test_the_native_plan_checks_what_it_is_made_for():
    plan = Pool(Max(), Window((2,)))._plan(np.zeros((3, 8), np.float32)).native
    dtypes = [np.dtype(np.float32)] * 3 + [np.dtype(np.uint8)]

    def made(shape, y_shape, order=()):
        return _engine.ArrayPlan(plan, np.ndarray, shape, y_shape, order, *dtypes)

    assert made((3, 8), (3, 4)).forward(np.zeros((3, 8), np.float32), None).shape == (3, 4)
    for shape, y_shape in (((3, 9), (3, 4)), ((3, 8), (3, 5))):
        with pytest.raises(ValueError, match="the shapes are not the plan's"):
            made(shape, y_shape)
    with pytest.raises(OverflowError, match="the array is too large"):
        made((2**62, 8), (3, 4))
    for order in ((0,), (0, 0), (0, 2), (-1, 0), (0, 1, 2)):
        with pytest.raises(ValueError, match="the order does not have each axis once"):
            made((3, 8), (3, 4), order)


# --- calls ----------------------------------------------------------------------------------------


def called():
    """A pool that has seen such an array before, and the array."""
    pool, x = Pool(Max(), Window((2, 2))), np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    pool(x)
    return pool, x


def test_a_call_may_be_written_in_any_way():
    pool, x = called()
    y = Pool(Max(), Window((2, 2)))(x)
    out = np.empty_like(y)
    for result in (
        pool(x, None),
        pool(x, out),
        pool(x, out=out),
        pool(x=x),
        pool(x=x, out=out),
        pool(out=out, x=x),
        pool(*(x,), **{"o" + "ut": out}),
        pool.__call__(x),
        Pool.__call__(pool, x, out=out),
    ):
        np.testing.assert_array_equal(result, y)
    for wrong, said in (
        (lambda: pool(), "missing 1 required positional argument: 'x'"),
        (lambda: pool(out=out), "missing 1 required positional argument: 'x'"),
        (lambda: pool(x, x=x), "got multiple values for argument 'x'"),
        (lambda: pool(x, out, out=out), "got multiple values for argument 'out'"),
        (lambda: pool(x, wide=out), "got an unexpected keyword argument 'wide'"),
        (lambda: pool(x, out, out), "takes from 2 to 3 positional arguments but 4 were given"),
    ):
        with pytest.raises(TypeError, match=said):
            wrong()


def test_another_meaning_of_a_call_is_heeded(monkeypatch):
    class Twice(Pool):
        def __call__(self, x, out=None):
            return 2 * super().__call__(x, out)

    class Same(Pool):
        pass

    pool, x = called()
    y = pool(x)
    twice, same = Twice(Max(), Window((2, 2))), Same(Max(), Window((2, 2)))
    for _ in range(3):
        np.testing.assert_array_equal(twice(x), 2 * y)
        np.testing.assert_array_equal(same(x), y)
    with monkeypatch.context() as changed:
        changed.setattr(Pool, "__call__", lambda self, x, out=None: "another")
        assert pool(x) == same(x) == "another"
    np.testing.assert_array_equal(pool(x), y)
    np.testing.assert_array_equal(same(x), y)


def test_only_a_class_of_pools_has_quick_calls():
    class Uncalled(_engine.QuickPool):
        pass

    for wrong in (object, int, Avg, Uncalled, _engine.QuickPool):
        with pytest.raises(TypeError, match="only a class with a __call__ whose base is QuickPool"):
            _engine.call_quickly(wrong)
    for wrong in (_engine.QuickPool(), Uncalled(), Avg(), None):
        with pytest.raises(TypeError):
            _engine.answer_quickly(wrong)
    for uncalled in (_engine.QuickPool(), Uncalled()):
        with pytest.raises(TypeError, match="not callable"):
            uncalled(np.zeros(3))


def test_a_pool_is_an_object_like_others():
    pool, x = called()
    for other in (copy.copy(pool), copy.deepcopy(pool), pickle.loads(pickle.dumps(pool))):
        assert other == pool
        assert hash(other) == hash(pool)
        np.testing.assert_array_equal(other(x), pool(x))
    with pytest.raises(AttributeError, match="cannot assign to field 'kind'"):
        pool.kind = Avg()
    object.__setattr__(pool, "_latest", [pool])  # a cycle
    watched = weakref.ref(pool)
    del pool
    gc.collect()
    assert watched() is None


def test_an_order_of_axes_that_was_seen_is_known():
    """Where the first winner is asked for, a Fortran-ordered array is a view of the plan, which takes its strides."""
    pool, x = Pool(Max(), Window((2, 2))), np.asfortranarray(np.random.default_rng(0).normal(size=(4, 6)))
    y, linear = pool.linearize(x)
    quick, gx = pool._latest_linear.quick, np.empty_like(x)
    found, kept = quick.linearize(x)
    np.testing.assert_array_equal(found, y)
    assert quick.linearize(np.asfortranarray(np.zeros((8, 6)))[::2]) is None
    assert quick.pull(*kept, np.ones_like(y), gx) is gx
    np.testing.assert_array_equal(gx, linear.pull(np.ones_like(y)))
    assert pool(x).flags.f_contiguous
    assert pool._latest.quick.forward(x, None).flags.f_contiguous


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_each_level_goes_its_own_way(kind):
    """What was decided for one level is not taken for another."""
    x = np.random.default_rng(0).integers(0, 5, (24, 6, 7)).astype(np.float32)
    level, pool = _engine.level(), Pool(kind, Window((3, 3), 1, 1))
    try:
        for name in 2 * _engine.levels():
            _engine.set_level(name)
            expected = forward_by(pool, x, ways(pool, x, "forward")[0])
            for _ in range(2):
                np.testing.assert_array_equal(pool(x), expected)
    finally:
        _engine.set_level(level)
