"""The derivative as a thing of its own: push and pull are the specification's, from what is kept and nothing else."""

from __future__ import annotations

import gc
import inspect
import weakref
from fractions import Fraction

import numpy as np
import pytest

from closeness import same, within
from ndpool import Adaptive, Avg, Global, Kind, Lp, Max, Min, Pool, SmoothMax, Sum, Window, spec
from ndpool.memory import Kept
from ndpool.plan import plan_of
from ndpool.scalars import Dual

KINDS = [Max(), Max("split"), Min("all"), Min(), Sum(), Avg(False), Avg(True, 7), SmoothMax(-1.5), Lp(3), Lp(1)]
WINDOWS = [
    (Window((3, 2), 2, 1), (1, 3)),
    (Window((2, 2), (1, 2), ((1, 0), (0, 1)), (2, 1)), None),
    (Global(keepdims=False), (1, 3)),
    (Adaptive((2, 3)), None),
]
SHAPE = (2, 3, 2, 4)


class Range(Kind):
    """A kind of one's own: the largest cell less the smallest."""

    def __repr__(self):
        return "Range()"

    def value(self, x, pad=0):
        return max(x) - min(x)

    def weights(self, x, pad=0):
        return [(x.index(max(x)), 1), (x.index(min(x)), -1)]


def small_numbers(rng, dtype, shape=SHAPE):
    """Whole numbers with ties; the parts of complex ones differ."""
    x = rng.integers(-3, 4, shape)
    return (x + 1j * rng.integers(-3, 4, shape)).astype(dtype) if np.dtype(dtype).kind == "c" else x.astype(dtype)


def directions(rng, x, y):
    t, g = rng.normal(size=x.shape), rng.normal(size=y.shape)
    if x.dtype.kind == "c":
        t, g = t + 1j * rng.normal(size=x.shape), g - 1j * rng.normal(size=y.shape)
    return t, g


# --- push and pull --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "order"),
    [("f8", "F"), ("f4", "last"), ("f2", "C"), ("i4", "F"), ("?", "C"), (">f8", "last")],
)
@pytest.mark.parametrize(("window", "axes"), WINDOWS, ids=repr)
@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_push_and_pull_are_the_specification(kind, window, axes, dtype, order):
    rng = np.random.default_rng(0)
    pool, x = Pool(kind, window, axes), small_numbers(rng, dtype)
    x = (
        np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
        if order == "last"
        else np.asarray(x, order=order)
    )
    y, linear = pool.linearize(x)
    same(y, pool(x))
    t, g = (a.astype(np.float32).astype(x.dtype if x.dtype.kind == "f" else "f8") for a in directions(rng, x, y))
    dy, gx = linear.push(t), linear.pull(g)
    allowed = 4e-3 if dtype == "f2" else 1e-5
    for ours, theirs in ((dy, spec.jvp(pool, x, t)[1]), (gx, spec.vjp(pool, x, g)), (dy, pool.jvp(x, t)[1])):
        assert (ours.dtype.newbyteorder("="), ours.shape) == (theirs.dtype.newbyteorder("="), theirs.shape)
        np.testing.assert_allclose(ours.astype("f8"), theirs.astype("f8"), allowed, allowed)
    same(pool.vjp(x)[1](g), gx)


@pytest.mark.parametrize(("dtype", "order"), [("c8", "C"), ("c16", "F"), (">c8", "C"), ("c8", "F")])
@pytest.mark.parametrize(("window", "axes"), WINDOWS, ids=repr)
@pytest.mark.parametrize("kind", [Sum(), Avg(), Avg(False), Avg(True, 7)], ids=repr)
def test_complex_numbers_are_pooled_as_their_parts(kind, window, axes, dtype, order, monkeypatch):
    """By the engine: value, JVP and VJP, with real directions and complex ones, into `out` too."""
    rng = np.random.default_rng(1)
    pool, x = Pool(kind, window, axes), np.asarray(small_numbers(rng, dtype), order=order)
    want = spec.forward(pool, x)
    t, g = directions(rng, x, want)
    wanted = [(spec.jvp(pool, x, a)[1], spec.vjp(pool, x, b)) for a, b in ((t, g), (t.real, g.imag))]
    for name in ("forward", "jvp", "vjp"):
        monkeypatch.delattr(spec, name)  # it is not asked
    y, linear = pool.linearize(x)
    assert linear.residual == Kept()
    for (dy, gx), (a, b) in zip(wanted, ((t, g), (t.real, g.imag)), strict=True):
        for ours, theirs in ((y, want), (pool.jvp(x, a)[1], dy), (linear.push(a), dy), (pool.vjp(x)[1](b), gx)):
            assert ours.dtype == theirs.dtype.newbyteorder("=")
            np.testing.assert_allclose(ours, theirs, 1e-6, 1e-6)
        out = np.empty(x.shape, gx.dtype.newbyteorder("="))
        np.testing.assert_array_equal(linear.pull(b, out), linear.pull(b))
    out = np.empty(want.shape, y.dtype)
    assert pool(x, out) is out
    np.testing.assert_array_equal(out, y)
    np.testing.assert_allclose(pool(x[::-1, ::-1]), pool(np.ascontiguousarray(x[::-1, ::-1])))


def test_complex_sums_are_accumulated_in_more_bits():
    x = np.array([1e8 + 1j, 1 + 1e8j, -1e8 - 1j, 1 - 1e8j], np.complex64)
    assert Pool(Sum(), Window((4,)))(x).tolist() == [2 + 0j]


def test_infinite_parts_stay_where_they_are():
    x = np.array([complex(np.inf, 1), 2 + 2j])
    y = Pool(Sum(), Window((2,)))(x)
    assert (y[0].real, y[0].imag) == (np.inf, 3)


@pytest.mark.parametrize("kind", [Sum(), Avg()], ids=repr)
def test_complex_numbers_beside_others(kind):
    """Real input has real directions. Other kinds of complex numbers are the specification's."""
    pool, x = Pool(kind, Window((2,))), np.array([1.0, 2.0])
    linear = pool.linearize(x)[1]
    for act in (lambda: linear.push(x * 1j), lambda: linear.pull(np.array([1j])), lambda: pool.jvp(x, x * 1j)):
        with pytest.raises(TypeError, match="complex128 beside an input of plain numbers; give real numbers"):
            act()
    linear = pool.linearize(x * 1j)[1]
    with pytest.raises(TypeError, match="t has dtype object beside an input of complex numbers; give real or complex"):
        linear.push(x.astype(object))
    norms = Pool(Lp(2), Window((2,)))
    np.testing.assert_array_equal(norms(x * 1j), spec.forward(norms, x * 1j))


@pytest.mark.parametrize("kind", [Max(), Min("split"), Sum(), Avg()], ids=repr)
def test_fractions(kind):
    """Objects are the specification's, and what it keeps is x."""
    numbers = [Fraction(n, 7) for n in (3, 5, 5, -1, 2, 0)]
    pool, x = Pool(kind, Window((3,))), np.array(numbers, object)
    y, linear = pool.linearize(x)
    t, g = np.array(numbers[::-1], object), np.array([Fraction(2, 3), Fraction(-5)], object)
    assert linear.push(t).tolist() == spec.jvp(pool, x, t)[1].tolist()
    gx = linear.pull(g)
    assert gx.tolist() == spec.vjp(pool, x, g).tolist()
    assert sum(gx * t) == sum(linear.push(t) * g)
    assert y.tolist() == spec.forward(pool, x).tolist()
    out = np.empty(6, object)
    assert linear.pull(g, out=out) is out
    assert out.tolist() == gx.tolist()
    assert linear.residual == Kept(x=x)


def test_a_kind_of_ones_own():
    pool, x = Pool(Range(), Window((2,))), np.array([1.0, 5.0, 2.0, 4.0])
    y, linear = pool.linearize(x)
    assert (y.tolist(), linear.push(x).tolist()) == ([4, 2], [4, 2])
    out = np.empty(4)
    assert linear.pull([10.0, 1.0], out).tolist() == [-10, 10, -1, 1]
    with pytest.raises(ValueError, match="out overlaps x"):
        linear.pull([10.0, 1.0], x)
    with pytest.raises(ValueError, match=r"t has shape \(2,\) and should have \(4,\)"):
        linear.push([1.0, 2.0])
    with pytest.raises(ValueError, match=r"g has shape \(4,\) and should have \(2,\)"):
        linear.pull(x)


def test_every_place_of_every_window_is_pushed_alone():
    """From the winners: the tangent at the winner and at no other cell."""
    rng = np.random.default_rng(3)
    for pool in (Pool(Max(), Window((3, 4), 1, 2, 2), (0, 2)), Pool(Min(), Adaptive((3, 2)), (0, 2))):
        x = rng.normal(size=(7, 2, 9)).astype(np.float32)
        y, linear = pool.linearize(x)
        same(linear.push(x), y)
        _, indices = pool.with_indices(x)
        same(linear.indices(), indices)
        x[:] = 0
        same(linear.indices(), indices)


@pytest.mark.parametrize("kind", [Max(), Min()], ids=repr)
def test_a_pooled_axis_of_one_cell_may_lie_anywhere(kind):
    """It says nothing of which cell is the first, and the array is read in the order in which it lies."""
    x = np.random.default_rng(0).integers(0, 3, (2, 1, 3, 4)).astype(float)
    lying = np.ascontiguousarray(x.transpose(3, 1, 2, 0)).transpose(3, 1, 2, 0)
    for window in (Window((2, 3), 1, (0, 1)), Global(keepdims=False)):
        pool = Pool(kind, window, (0, 1))
        t = np.random.default_rng(1).normal(size=x.shape)
        (y, linear), (want, wanted) = pool.linearize(lying), pool.linearize(x)
        same(y, want)
        same(linear.push(t), wanted.push(t))
        same(linear.indices(), wanted.indices())
        same(linear.pull(want), wanted.pull(want))
        same(pool.jvp(lying, t)[1], pool.jvp(x, t)[1])


# --- what is kept ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        (Max(), "winners"),
        (Min(), "winners"),
        (Max("split"), "x y"),
        (Min("all"), "x y"),
        (Sum(), ""),
        (Avg(), ""),
        (SmoothMax(2.0), "x"),
        (Lp(2), "x"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_residual_is_the_plans(kind, kept, order):
    """As many bytes as the plan says, in the caller's order of axes, and nothing else stays alive."""
    pool, x = Pool(kind, Window((2, 2), 1)), np.asarray(np.random.default_rng(0).normal(size=(3, 6, 5)), order=order)
    y, linear = pool.linearize(x)
    residual = linear.residual
    assert [name for name, a in residual._asdict().items() if a is not None] == kept.split()
    plan = plan_of(pool, x.shape, "float64")
    assert sum(a.nbytes for a in residual if a is not None) == plan.residual_bytes
    if residual.x is not None:
        same(residual.x, x)
    if residual.y is not None:
        same(residual.y, y)
        assert not np.shares_memory(residual.y, y)
    if residual.winners is not None:
        assert (residual.winners.dtype, residual.winners.shape) == (np.uint8, y.shape)
        place = residual.winners.astype(int)
        rows, columns = np.meshgrid(range(5), range(4), indexing="ij")
        batch = np.arange(3)[:, None, None]
        same(x[batch, rows + place // 2, columns + place % 2], y)
    alive, wanted = weakref.ref(x), linear.pull(np.ones_like(y))
    del x
    residual = None
    gc.collect()
    assert (alive() is not None) == ("x" in kept.split())
    same(linear.pull(np.ones_like(y)), wanted)


def test_indices_where_there_are_none():
    for kind in (Max("all"), Sum(), Lp(2)):
        with pytest.raises(TypeError, match=r"keeps no winners.*; call with_indices"):
            Pool(kind, Window((2,))).linearize([1.0, 2.0])[1].indices()
    with pytest.raises(TypeError, match=r"keeps no winners.*; call with_indices"):
        Pool(Range(), Window((2,))).linearize([1.0, 2.0])[1].indices()
    objects = np.array([Fraction(1), Fraction(2)], object)
    assert Pool(Max(), Window((2,))).linearize(objects)[1].indices().tolist() == [1]


# --- into memory that the caller keeps ------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=repr)
@pytest.mark.parametrize("order", ["C", "F"])
def test_pullbacks_write_into_out(kind, order):
    """However `out` lies: in the order of x, in another one, with gaps, not aligned."""
    pool, x = Pool(kind, Window((2, 2), 1), (0, 2)), np.random.default_rng(0).normal(size=(4, 3, 5))
    x = np.asarray(x, order=order)
    y, pullback = pool.vjp(x)
    g = np.random.default_rng(1).normal(size=y.shape)
    wanted = pullback(g)
    bytes_beside = np.zeros(x.nbytes + 1, np.uint8)[1:]
    for out in (
        np.full(x.shape, 7.0),
        np.full(x.shape, 7.0, order="F"),
        np.full((8, 3, 10), 7.0)[::2, :, ::-2],
        bytes_beside.view(np.float64).reshape(x.shape),
    ):
        assert pullback(g, out) is out
        same(out, wanted)
        assert pullback(g=g, out=out) is out


def test_pullbacks_write_into_out_of_integers_and_flat_pools():
    x = np.arange(24).reshape(2, 3, 4)
    _, pullback = Pool(Avg(), Global(keepdims=False), (1, 2)).vjp(np.asfortranarray(x))
    out = np.empty((2, 3, 4))
    assert pullback(np.array([12.0, 24.0]), out=out) is out
    assert out[:, 0, 0].tolist() == [1, 2]


def overlapping():
    """The same memory as what is kept, or as the cotangent."""
    x = np.arange(8.0)
    linear = Pool(Max("split"), Window((2,))).linearize(x)[1]
    g = np.ones(4)
    yield linear, g, x, "out overlaps x"
    yield linear, x[:4], x, "out overlaps g"
    wide = np.zeros(16)
    yield linear, wide[2:6], wide[4:12], "out overlaps g"
    winners = Pool(Max(), Window((2,))).linearize(np.arange(16, dtype=np.float16))[1]
    kept = np.lib.stride_tricks.as_strided(winners.residual.winners.view(np.float16), (16,), (0,))
    yield winners, np.ones(8), kept, "out overlaps winners"


@pytest.mark.parametrize("place", range(4))
def test_out_must_not_overlap(place):
    linear, g, out, message = list(overlapping())[place]
    before, residual = out.copy(), linear.residual
    with pytest.raises(ValueError, match=f"{message}, and an input is never changed; give memory of its own"):
        linear.pull(g, out)
    same(out, before)
    assert residual is not None


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        (np.zeros(5), ValueError, r"out has float64\(5,\) and the result is float64\(4,\); make them agree"),
        (np.zeros((1, 4)), ValueError, r"out has float64\(1, 4\)"),
        (np.zeros(4, np.float32), ValueError, r"out has float32\(4,\) and the result is float64\(4,\)"),
        (np.zeros(4, ">f8"), ValueError, "out has >f8"),
        (np.broadcast_to(0.0, 4), ValueError, "out is read-only; give an array that can be written"),
        ([0.0] * 4, TypeError, "out is a list; give a NumPy array"),
        (np.ma.zeros(4), TypeError, "out is a masked array"),
    ],
)
def test_out_that_cannot_take_the_gradient(out, error, message):
    for numbers in (np.arange(4.0), np.arange(4)):
        pullback = Pool(Sum(), Window((2,))).vjp(numbers)[1]
        with pytest.raises(error, match=message):
            pullback(np.ones(2), out=out)


def test_the_signature_says_out():
    assert list(inspect.signature(Pool(Sum(), Window((2,))).vjp([1.0, 2.0])[1]).parameters) == ["g", "out"]


# --- second derivatives ---------------------------------------------------------------------------


class ArraySlope:
    """What the kinds' second derivatives are written with, in NumPy's arrays."""

    def __init__(self, pool, x):
        self.pool, self.x = pool, x
        self.y, self.linear = pool.linearize(x)
        self.push, self.pull = self.linear.push, self.linear.pull

    def sums(self):
        return ArraySlope(Pool(Sum(), self.pool.window, self.pool.axes), self.x)

    where = staticmethod(np.where)


@pytest.mark.parametrize("kind", [SmoothMax(1.5), SmoothMax(-0.7, False), Lp(2), Lp(3), Lp(1.5)], ids=repr)
@pytest.mark.parametrize(("window", "axes"), WINDOWS, ids=repr)
def test_second_derivatives_of_arrays(kind, window, axes):
    """The kinds state them for any library's arrays. Dual numbers, through the specification, say what they are."""
    rng = np.random.default_rng(5)
    pool, x = Pool(kind, window, axes), rng.normal(size=(1, 4, 2, 4))
    at = ArraySlope(pool, x)
    t, v, g = rng.normal(size=x.shape), rng.normal(size=x.shape), rng.normal(size=at.y.shape)

    def moving(a):
        return np.frompyfunc(Dual, 2, 1)(x, a)

    turned = spec.jvp(pool, moving(v), t.astype(object))[1]
    within(kind.bend(at, t, v), np.vectorize(lambda a: a.tangent, otypes=[float])(turned), 1e-9)
    back = spec.vjp(pool, moving(v), g.astype(object))
    within(kind.bend_back(at, g, v), np.vectorize(lambda a: getattr(a, "tangent", 0.0), otypes=[float])(back), 1e-9)


def test_cells_that_are_0_do_not_bend():
    """No 0/0: neither for a cell nor for a window of zeros. For p = 2 a cell of 0 beside others bends by 1/y."""
    x, v, g = np.array([0.0, 2.0, 0.0, 0.0]), np.array([3.0, 1.0, 5.0, 1.0]), np.array([2.0, 7.0])
    for p, cell in ((2, 3 / 2), (3, 0.0)):
        at = ArraySlope(Pool(Lp(p), Window((2,))), x)
        assert Lp(p).bend_back(at, g, v).tolist() == [g[0] * cell, 0, 0, 0]
        assert Lp(p).bend(at, v, v).tolist() == [3 * cell, 0]


@pytest.mark.parametrize("kind", [Max(), Sum(), Range()], ids=repr)
def test_kinds_that_state_no_second_derivative(kind):
    for name in ("bend", "bend_back"):
        with pytest.raises(NotImplementedError, match="states no second derivative"):
            getattr(kind, name)(None, None, None)


# --- one pool, arrays that lie in many ways --------------------------------------------------------


def arrangements(x):
    """The same numbers in memory of many orders and strides."""
    room = np.zeros((2 * x.shape[0], *x.shape[1:], 2), x.dtype)
    room[::2, ..., 1] = x
    backwards = np.ascontiguousarray(x[::-1, :, ::-1])
    yield from (x, np.asfortranarray(x), room[::2, ..., 1], backwards[::-1, :, ::-1])
    for order in ((0, 2, 1), (1, 0, 2), (2, 0, 1), (1, 2, 0)):
        yield np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))


@pytest.mark.parametrize("kind", [Max(), Max("split"), Min(), Avg(), Lp(2)], ids=repr)
def test_a_pool_does_not_mistake_one_arrangement_for_another(kind):
    """Each is met twice: the second time its plan is found again."""
    x = np.random.default_rng(0).integers(0, 4, (4, 5, 6)).astype(np.float64)
    pool = Pool(kind, Window((2, 2), 1, 1))
    y, g = pool(x), np.random.default_rng(1).normal(size=pool.output_shape(x.shape))
    gx, dy = spec.vjp(pool, x, g), spec.jvp(pool, x, x)[1]
    for _ in range(2):
        for a in arrangements(x):
            np.testing.assert_allclose(pool(a), y)
            np.testing.assert_allclose(pool.vjp(a)[1](g), gx, atol=1e-12)
            np.testing.assert_allclose(pool.jvp(a, a)[1], dy, atol=1e-12)
