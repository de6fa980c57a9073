"""The native engine against the specification: every kind, window, dtype, memory layout and hostile number."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hostile
from closeness import finite_size, jvp_allowance, last_place, same, value_allowance, vjp_allowance, within
from ndpool import (
    Adaptive,
    Avg,
    Global,
    Kind,
    Lp,
    Max,
    Min,
    Pool,
    SmoothMax,
    Sum,
    Window,
    _engine,
    get_num_threads,
    set_num_threads,
    spec,
)
from ndpool.kinds import TIES
from strategies import RATIONAL_KINDS, SMOOTH_KINDS, Case, cases
from ways import forward_by, ways

KINDS: list[Kind] = [*RATIONAL_KINDS, *SMOOTH_KINDS, SmoothMax(40.0), SmoothMax(-7.0, False), Lp(3), Lp(7.5)]
EXTREMES = [kind for kind in KINDS if isinstance(kind, Max | Min)]


@dataclass(frozen=True)
class Problem:
    """A pool and an array for it, with the array in plain memory beside it; what it runs on is set."""

    pool: Pool
    x: np.ndarray
    plain: np.ndarray
    level: str
    threads: int
    rng: np.random.Generator

    def direction(self, shape, special=False):
        """A tangent or a cotangent in some layout, and plain."""
        dtype = np.dtype(np.float64) if self.x.dtype.kind in "biu" else self.plain.dtype
        flavour = self.rng.choice(["normal", "ties", "special"] if special else ["normal", "ties"])
        a = hostile.numbers(self.rng, flavour, shape, dtype)
        a = hostile.layout(self.rng.choice(list(hostile.LAYOUTS)), a, self.rng)
        return a, np.array(a, dtype=dtype, order="C")


@st.composite
def problems(draw, kinds=KINDS, dtypes=hostile.DTYPES):
    case: Case = draw(cases(kinds, max_rank=5, large=True))
    dtype = draw(st.sampled_from(dtypes))
    flavour = draw(st.sampled_from(hostile.flavours(dtype)))
    layout = draw(st.sampled_from(list(hostile.LAYOUTS)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = hostile.layout(layout, hostile.numbers(rng, flavour, case.shape, dtype), rng)
    plain = np.array(x, dtype=dtype, order="C")
    if isinstance(case.pool.kind, SmoothMax | Lp) and dtype in (np.int64, np.uint64):
        # The smooth kinds see integers as float64, where neighbours beyond 2**53 are one number.
        plain = plain.astype(np.float64)
    level = draw(st.sampled_from(_engine.levels()))
    return Problem(case.pool, x, plain, level, draw(st.sampled_from([1, 2, 5])), rng)


@pytest.fixture(autouse=True)
def as_it_was():
    """Tests may choose the instruction level and the number of threads."""
    level, threads = _engine.level(), get_num_threads()
    yield
    _engine.set_level(level)
    set_num_threads(threads)


def run_on(problem):
    _engine.set_level(problem.level)
    set_num_threads(problem.threads)


# --- hypothesis-made everything -------------------------------------------------------------------


@given(problems())
@settings(max_examples=500, deadline=None)
def test_forward(problem):
    """Y as the specification has it, by every method; the input is not changed."""
    run_on(problem)
    before = problem.x.tobytes()
    expected = spec.forward(problem.pool, problem.plain)
    allowed = value_allowance(problem.pool, problem.plain, expected)
    within(problem.pool(problem.x), expected, allowed)
    assert problem.x.tobytes() == before
    if problem.plain.size:
        for path in (*ways(problem.pool, problem.plain, "forward"), "stream"):
            within(forward_by(problem.pool, problem.plain, path), expected, allowed)


@given(problems(), st.sampled_from(["C", "Fortran", "transposed", "strided", "reversed", "sliced", "unaligned"]))
@settings(max_examples=150, deadline=None)
def test_forward_into_out(problem, layout):
    """`out=` takes the very numbers of the plain call, is returned, and nothing beside it is written."""
    run_on(problem)
    y = problem.pool(problem.x)
    out = hostile.layout(layout, np.zeros(y.shape, y.dtype), problem.rng)
    base = out
    while base.base is not None:
        base = base.base
    owner = np.frombuffer(base, np.uint8) if base.flags.c_contiguous and base.size else None
    assert problem.pool(problem.x, out) is out
    same(out, y)
    if owner is not None and y.dtype.kind in "iu":
        # Everything around `out` was 0, and still is.
        inside = np.count_nonzero(np.ascontiguousarray(out).view(np.uint8)) if out.size else 0
        assert np.count_nonzero(owner) == inside


@given(problems())
@settings(max_examples=400, deadline=None)
def test_jvp(problem):
    """Dy = sum of w_i * t_i, beside the y of a forward pass; an infinite t_i reaches only who leans on it."""
    run_on(problem)
    pool = problem.pool
    t, plain = problem.direction(problem.x.shape, special=not isinstance(pool.kind, SmoothMax | Lp))
    with np.errstate(invalid="ignore"):
        expected_y, expected = spec.jvp(pool, problem.plain, plain)
    y, dy = pool.jvp(problem.x, t)
    within(y, expected_y, value_allowance(pool, problem.plain, expected_y))
    within(dy, expected, jvp_allowance(pool, problem.plain, plain, expected))


@given(problems())
@settings(max_examples=400, deadline=None)
def test_vjp(problem):
    """gx_i += w_i * g over every window, with a random cotangent."""
    run_on(problem)
    pool = problem.pool
    y, pullback = pool.vjp(problem.x)
    expected_y = spec.forward(pool, problem.plain)
    within(y, expected_y, value_allowance(pool, problem.plain, expected_y))
    g, plain = problem.direction(y.shape, special=not isinstance(pool.kind, SmoothMax | Lp))
    with np.errstate(invalid="ignore"):
        expected = spec.vjp(pool, problem.plain, plain)
    allowed = vjp_allowance(pool, problem.plain, plain, expected)
    within(pullback(g), expected, allowed)
    within(pullback(g), expected, allowed)  # a pullback may be used again


@given(problems(kinds=EXTREMES))
@settings(max_examples=300, deadline=None)
def test_indices(problem):
    """The first winner in row-major order, whatever the policy (rules "Ties" and "NaN")."""
    run_on(problem)
    y, indices = problem.pool.with_indices(problem.x)
    first = Pool(type(problem.pool.kind)(), problem.pool.window, problem.pool.axes)
    same(indices, spec.winners(first, problem.plain))
    same(y, spec.forward(first, problem.plain))


@given(problems(kinds=RATIONAL_KINDS, dtypes=[d for d in hostile.DTYPES if d.kind != "b"]))
@settings(max_examples=100, deadline=None)
def test_small_whole_numbers_are_exact(problem):
    """Over small integers every sum is exact, so y, dy and gx are the Fractions of `spec.exact`, rounded once.

    Shares of ties are rounded before they are added up, so that where they cancel a last place of theirs may be left.
    """
    run_on(problem)
    pool, rng = problem.pool, problem.rng
    x = rng.integers(0, 4, problem.plain.shape).astype(problem.plain.dtype)
    derivative = np.float64 if x.dtype.kind in "iu" else x.dtype
    t = rng.integers(-3, 4, x.shape).astype(derivative)
    g = rng.integers(-3, 4, pool.output_shape(x.shape)).astype(derivative)
    y, dy = spec.exact(pool, x, t=t)
    gx = spec.exact(pool, x, g=g)
    ours_y, ours_dy = pool.jvp(x, t)
    whole = isinstance(pool.kind, Max | Min | Sum) and getattr(pool.kind, "ties", "all") != "split"
    masses = np.abs(y), spec.exact(pool, x, t=np.abs(t))[1], spec.exact(pool, x, g=np.abs(g))
    for ours, exact, mass in zip((ours_y, ours_dy, pool.vjp(x)[1](g)), (y, dy, gx), masses, strict=True):
        rounded = exact.astype(np.float64).astype(ours.dtype)
        size = np.asarray(mass, np.float64)
        within(ours, rounded, 0.0 if whole else 2 * size * float(hostile.info(np.dtype(derivative)).eps) + 2.0**-40)


# --- what each dtype and layout must do, one by one -----------------------------------------------


@pytest.mark.parametrize("layout", list(hostile.LAYOUTS))
@pytest.mark.parametrize("dtype", hostile.DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize(
    "kind", [Max(), Min("split"), Avg(), Sum(), SmoothMax(2.0), Lp(2)], ids=lambda k: type(k).__name__
)
def test_every_layout_of_every_dtype(kind, dtype, layout):
    """A memory layout never changes a result: not in y, dy, gx or the indices.

    Another order of axes may be summed in another order, which shows in the last place alone.
    """
    rng = np.random.default_rng(7)
    pool = Pool(kind, Window((2, 3), stride=(2, 1), padding=1), axes=(1, 3))
    plain = hostile.numbers(rng, "any" if dtype.kind in "biu" else "normal", (2, 5, 3, 7), dtype)
    x = hostile.layout(layout, plain, rng)
    plain = np.array(x, dtype=dtype, order="C")
    derivative = np.dtype(np.float64) if dtype.kind in "biu" else dtype
    t = hostile.layout(layout, rng.normal(size=x.shape).astype(derivative), rng)
    g = hostile.layout(layout, rng.normal(size=pool.output_shape(x.shape)).astype(derivative), rng)
    plain_t, plain_g = (np.array(a, dtype=derivative, order="C") for a in (t, g))
    results = [pool(x), *pool.jvp(x, t), pool.vjp(x)[1](g)]
    expected = [pool(plain), *pool.jvp(plain, plain_t), pool.vjp(plain)[1](plain_g)]
    for ours, theirs, summed in zip(results, expected, (False, False, True, True), strict=True):
        exact = (isinstance(kind, Max | Min) and not (summed and kind.ties == "split")) or ours.dtype.kind in "iu"
        within(ours, theirs, 0.0 if exact else 4 * last_place(ours.dtype, finite_size(theirs).max()))
    if isinstance(kind, Max | Min):
        same(pool.with_indices(x)[1], pool.with_indices(plain)[1])


# --- the order of axes in memory ------------------------------------------------------------------


def lying(x, order):
    """The same array, contiguous in this order of its axes."""
    return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))


def order_of(x):
    """The axes from the longest stride to the shortest."""
    return tuple(sorted(range(x.ndim), key=lambda d: -x.strides[d]))


def as_followed(x, pooled):
    """The order of a derivative whose windows' cells are looked at in row-major order.

    That is the array's, with the pooled axes among themselves in the usual one: if what lies inside of these is 32
    bytes or more, or nothing had to move. Otherwise it is the usual one.
    """
    order, ascending = order_of(x), iter(sorted(pooled))
    moved = tuple(next(ascending) if d in pooled else d for d in order)
    inside = [x.shape[d] for d in moved[max(moved.index(d) for d in pooled) + 1 :]]
    return moved if moved == order or math.prod(inside) * x.itemsize >= 32 else tuple(range(x.ndim))


ORDERS = list(itertools.permutations(range(4)))
ORDERED_POOLS = [
    *(Pool(kind, Window((2, 3), (1, 2), ((1, 0), (0, 2))), axes=(1, 3)) for kind in KINDS),
    *(Pool(kind, Adaptive((3, 2)), axes=(3, 0)) for kind in (Max(), Avg(), SmoothMax(1.5))),
    *(Pool(kind, Global(keepdims=False), axes=(0, 2)) for kind in (Max(), Min("split"), Avg(), Lp(3))),
    *(Pool(kind, Global(keepdims=False), axes=(1, 2)) for kind in (Max(), Sum(), SmoothMax(-2.0))),
]


@pytest.mark.parametrize("pool", ORDERED_POOLS, ids=repr)
def test_every_order_of_axes(pool):
    """All results as of the C-ordered array, for all 24 orders of four axes, with ties; and in whose order they are."""
    rng = np.random.default_rng(5)
    plain = rng.integers(-2, 3, (3, 4, 5, 6)).astype(np.float64)
    t = rng.normal(size=plain.shape)
    y, dy = pool.jvp(plain, t)
    g = rng.normal(size=y.shape)
    gx = pool.vjp(plain)[1](g)
    first = pool.kind.one_winner() == pool.kind
    for order in ORDERS:
        x = lying(plain, order)
        followed = as_followed(x, {a % 4 for a in pool.axes}) if first else order
        ours_y, ours_dy = pool.jvp(x, lying(t, rng.permutation(4)))
        z, pullback = pool.vjp(x)
        ours_gx = pullback(lying(g, rng.permutation(g.ndim)))
        for ours, theirs in ((pool(x), y), (ours_y, y), (z, y), (ours_dy, dy), (ours_gx, gx)):
            allowed = 0.0 if isinstance(pool.kind, Max | Min) and theirs is y else 8 * last_place(np.float64, 8)
            within(ours, theirs, allowed)
        assert order_of(ours_gx) == followed
        if y.ndim == 4:
            assert order_of(pool(x)) == order
            assert order_of(z) == order_of(ours_dy) == followed
        assert np.shares_memory(pool._plan(x).inside(x), x)
        assert np.shares_memory(pool._plan(x, ordered=first).inside(x), x)
        if pool.kind.one_winner() is not None:
            same(pool.with_indices(x)[1], pool.with_indices(plain)[1])
            same(pool.with_indices(x)[0], y)


@pytest.mark.parametrize("kind", [Max(), Max("all"), Avg(), SmoothMax(2.0)], ids=repr)
def test_orders_of_arrays_that_are_not_contiguous(kind):
    """Corners, steps, repetitions and axes of one cell: the results follow the order in memory where there is one."""
    rng = np.random.default_rng(6)
    base = np.asfortranarray(rng.integers(-2, 3, (9, 8, 7)).astype(np.float64))
    pool = Pool(kind, Window((2, 2), 1), axes=(0, 2))
    for x, order in [
        (base[1:, 1:, 1:], (2, 1, 0)),
        (base[::2, ::3, ::-1], (2, 1, 0)),
        (base.T[:, 1:5], (0, 1, 2)),
        (base[:, :1, :], (2, 1, 0)),
        (base[:, 2:3, :][::2], (2, 1, 0)),
        (base[:, 2][:, np.newaxis], (2, 1, 0)),
        (np.broadcast_to(base[:, :1], base.shape), None),
        (np.broadcast_to(base[:, :, :1], base.shape), None),
    ]:
        plain = np.array(x, order="C")
        g = rng.normal(size=pool.output_shape(x.shape))
        within(pool(x), pool(plain), 8 * last_place(np.float64, 8))
        t = np.asfortranarray(rng.normal(size=x.shape))
        within(pool.jvp(x, t)[1], pool.jvp(plain, t)[1], 8 * last_place(np.float64, 8))
        within(pool.vjp(x)[1](g), pool.vjp(plain)[1](g), 8 * last_place(np.float64, 8))
        several = [d for d in range(3) if x.shape[d] > 1]
        expected = [d for d in order or (0, 1, 2) if d in several]
        assert [d for d in order_of(pool(x)) if d in several] == expected
        if kind == Max():
            same(pool.with_indices(x)[1], pool.with_indices(plain)[1])


@pytest.mark.parametrize("shape", [(0, 4, 4), (3, 0, 4, 4), (0, 0, 4, 4)])
@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_empty_batches(kind, shape):
    """Nothing in, nothing out: right shapes and dtypes, in all four functions."""
    pool = Pool(kind, Window((2, 2)))
    x = np.empty(shape, np.float32)
    out = (*shape[:-2], 2, 2)
    y, dy = pool.jvp(x, x)
    assert y.shape == dy.shape == pool(x).shape == out
    z, pullback = pool.vjp(x)
    assert z.shape == out
    assert pullback(np.empty(out, np.float32)).shape == shape


def test_all_infinite_windows():
    """-inf everywhere gives -inf, won by the first cell, and so does +inf for Min (rule "NaN")."""
    for kind, number in ((Max(), -np.inf), (Min(), np.inf)):
        x = np.full((3, 40), number, np.float32)
        y, indices = Pool(kind, Window((3, 9), (1, 9))).with_indices(x)
        assert (y == x[0, 0]).all()
        assert indices.tolist() == [[0, 9, 18, 27]]


@pytest.mark.parametrize("dtype", [d for d in hostile.DTYPES if d.kind != "b"], ids=lambda d: d.name)
@pytest.mark.parametrize("kind", [Max(), Min()], ids=repr)
def test_padding_never_wins_against_the_lowest_number(kind, dtype):
    """The lowest number that there is may tie with what stands for padding, and must win (rule "Padded cells")."""
    integer = dtype.kind in "iu"
    limits = np.iinfo(dtype) if integer else None
    high = limits.max if integer else np.inf
    low = limits.min if integer else -np.inf
    x = np.full((3, 21), low if isinstance(kind, Max) else high).astype(dtype)
    for window in (
        Window((3, 3), 1, 1),
        Window((3, 3), 2, 2),
        Window((3, 2), (2, 9), ((2, 2), (1, 0))),
        Window((2, 8), 1, (1, 7)),
    ):
        pool = Pool(kind, window)
        y, indices = pool.with_indices(x)
        same(indices, spec.winners(pool, x))
        same(y, np.full(y.shape, x[0, 0], dtype))


# --- segments: windows that go one by one ---------------------------------------------------------


@pytest.mark.parametrize("kind", [Max(), Min("all"), Sum(), Avg(), SmoothMax(2.0), Lp(2)], ids=repr)
@pytest.mark.parametrize(
    ("window", "shape"),
    [
        (Window((2, 2), (1, 8), ((0, 0), (12, 4)), (1, 20)), (2, 40)),
        (Window((2, 3), (1, 8), ((0, 0), (12, 12)), (1, 11)), (3, 40)),
        (Window((2, 2), (1, 9), ((0, 0), (12, 0)), (1, 25)), (2, 40)),
    ],
)
def test_dilation_beyond_the_stride(kind, window, shape):
    """The first window's first real cell need not be the lowest that a row's windows see, nor the last the highest."""
    x = np.random.default_rng(0).normal(size=shape)
    pool = Pool(kind, window)
    expected = spec.forward(pool, x)
    within(pool(x), expected, value_allowance(pool, x, expected))


@pytest.mark.parametrize("kind", [Sum(), Avg(), SmoothMax(2.0)], ids=repr)
@pytest.mark.parametrize("padding", [(0, 20), (20, 0), (20, 20)])
@pytest.mark.parametrize("stride", [1, 2, 9])
def test_windows_in_the_padding_alone(kind, padding, stride):
    """Kinds that need no real cell have windows far outside of the array, which must not be read there."""
    x = np.random.default_rng(0).normal(size=(2, 5))
    pool = Pool(kind, Window((2, 2), (1, stride), ((0, 0), padding)))
    expected = spec.forward(pool, x)
    within(pool(x), expected, value_allowance(pool, x, expected))
    g = np.random.default_rng(1).normal(size=expected.shape)
    gx = spec.vjp(pool, x, g)
    within(pool.vjp(x)[1](g), gx, vjp_allowance(pool, x, g, gx))


# --- what a pool keeps ----------------------------------------------------------------------------


@pytest.mark.parametrize("ties", TIES)
def test_writing_to_the_output_does_not_change_the_pullback(ties):
    """The output belongs to the caller, who may work in place on it."""
    x, g = np.array([1.0, 2.0, 3.0, 3.0]), np.array([5.0, 7.0])
    y, pullback = Pool(Max(ties), Window((2,))).vjp(x)
    expected = pullback(g)
    y *= 0
    same(pullback(g), expected)


# --- numbers that the engine does not know --------------------------------------------------------


class Median(Kind):
    """A kind of the user's own."""

    def value(self, x, pad=0):
        return sorted(x)[len(x) // 2]

    def weights(self, x, pad=0):
        return [(sorted(range(len(x)), key=x.__getitem__)[len(x) // 2], 1)]


def test_a_kind_without_native_code_works():
    """A kind that has no functor yet still works, through the generic path."""
    pool = Pool(Median(), Window((3,), 1))
    x = np.array([3.0, 1.0, 2.0, 9.0])
    same(pool(x), np.array([2.0, 2.0]))
    same(pool.jvp(x, np.array([1.0, 2.0, 3.0, 4.0]))[1], np.array([3.0, 3.0]))
    same(pool.vjp(x)[1](np.array([1.0, 10.0])), np.array([0.0, 0.0, 11.0, 0.0]))


@pytest.mark.parametrize("kind", EXTREMES, ids=repr)
def test_indices_of_fractions(kind):
    """By the specification: the first winner, under every policy, as the engine has it."""
    x = np.random.default_rng(0).integers(0, 3, (4, 5)).astype(np.float64)
    pool = Pool(kind, Window((2, 3), 1, 1))
    y, indices = pool.with_indices(x)
    exact_y, exact_indices = pool.with_indices(spec.fractions(x))
    same(exact_indices, indices)
    assert exact_y.tolist() == y.tolist()
    assert all(isinstance(value, Fraction) for value in exact_y.flat)
    out = np.empty(y.shape, object)
    assert pool.with_indices(spec.fractions(x), out)[0] is out
    assert out.tolist() == y.tolist()


@pytest.mark.parametrize("direction", [np.int32, np.float16, np.float32, np.float64, np.bool_])
def test_directions_of_another_dtype(direction):
    """Tangents and cotangents of any real dtype are taken; the derivative has the input's dtype."""
    pool = Pool(Max(), Window((2,)))
    x = np.array([1, 2, 4, 3], np.float32)
    dy = pool.jvp(x, np.array([0, 1, 1, 0], direction))[1]
    gx = pool.vjp(x)[1](np.array([1, 0], direction))
    same(dy, np.array([1, 1], np.float32))
    same(gx, np.array([0, 1, 0, 0], np.float32))


@pytest.mark.parametrize(
    "x", [np.arange(12.0), np.array([Fraction(n) for n in range(12)])], ids=["floats", "Fractions"]
)
def test_directions_of_another_shape_are_refused(x):
    """Also where there are as many numbers in it, which would be read in another order."""
    x = x.reshape(3, 4)
    pool = Pool(Max(), Window((1, 2)))
    for wrong in (x.T, x.reshape(2, 6), x.ravel(), x[None], x[:, :1], x[0]):
        with pytest.raises(ValueError, match=re.escape(f"t has shape {wrong.shape} and should have (3, 4)")):
            pool.jvp(x, wrong)
    g = x[:, :2]
    for wrong in (g.T, g.ravel(), g[None], g[:1], g[0]):
        with pytest.raises(ValueError, match=re.escape(f"g has shape {wrong.shape} and should have (3, 2)")):
            pool.vjp(x)[1](wrong)


#: A shape, a window, axes and what is skipped: along rows, and over places; short rows, few and many channels; wide
#: windows, whose sums are made of those of 4, 16, ... cells, and gaps.
FAR = {
    "rows with skipped cells": ((6, 2), Window((2,), 1), (1,), np.nan),
    "padded, over two axes apart": ((4, 3, 12, 10), Window((3, 3), (4, 3), (1, 2), 2, True), (0, 2), None),
    "squares": ((3, 6, 40), Window((2, 2)), (1, 2), None),
    "steps of 1": ((2, 5, 41), Window((3, 3), 1, 1), (1, 2), None),
    "steps of 2": ((2, 9, 42), Window((3, 3), 2, 1), (1, 2), None),
    "steps of 3": ((4, 95), Window((4,), 3, ((2, 1),)), (1,), None),
    "short rows": ((3, 5, 4), Window((3, 2), 1, 1), (1, 2), None),
    "few channels": ((7, 30, 3), Window((3, 4), (1, 3)), (0, 1), None),
    "many channels": ((6, 7, 20), Window((3, 3), 2, 1), (0, 1), None),
    "volumes": ((2, 5, 6, 24), Window((2, 3, 3), (1, 2, 1), 1), (1, 2, 3), None),
    "skipped cells": ((6, 9, 23), Window((3, 2), 1, 1), (1, 2), np.nan),
    "gaps": ((3, 60), Window((14,), 1, 20, 3), (1,), None),
    "wide": ((2, 60), Window((37,), 1, 18), (1,), None),
    "wide, many channels": ((40, 9), Window((40,), 1, 39), (0,), None),
    "bins": ((3, 7, 30), Adaptive((3, 8)), (1, 2), None),
    "bins that overlap": ((2, 5, 9), Adaptive((7, 4)), (1, 2), None),
    "all": ((6, 5, 4), Global(), (1, 2), None),
}


@pytest.mark.parametrize("beta", [2.0, 30.0, -300.0, 1000.0])
@pytest.mark.parametrize(("shape", "window", "axes", "skip"), FAR.values(), ids=FAR)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("order", "CF")
def test_smooth_maxima_of_windows_far_from_each_other(order, dtype, shape, window, axes, skip, beta):
    """So far that no power of 2 serves all of them."""
    rng = np.random.default_rng(6)
    x = (8 * rng.normal(size=shape)).astype(dtype, order=order)
    if skip is not None:
        x[3, 1] = skip
    pool = Pool(SmoothMax(beta), window, axes, skip)
    t, g = rng.normal(size=shape).astype(dtype), rng.normal(size=pool.output_shape(shape)).astype(dtype)
    y, dy, gx = spec.forward(pool, x), spec.jvp(pool, x, t)[1], spec.vjp(pool, x, g)
    within(pool(x), y, value_allowance(pool, x, y))
    within(pool.jvp(x, t)[1], dy, jvp_allowance(pool, x, t, dy))
    within(pool.vjp(x)[1](g), gx, vjp_allowance(pool, x, g, gx))


@pytest.mark.parametrize(("shape", "window", "axes", "skip"), FAR.values(), ids=FAR)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("count_include_pad", [True, False])
def test_what_lies_far_away_changes_no_bit_of_a_smooth_maximum(count_include_pad, dtype, shape, window, axes, skip):
    """Slabs of windows that one power of 2 serves, beside others that it does not serve."""
    rng = np.random.default_rng(7)
    near = [(rng.normal(size=shape) + at).astype(dtype) for at in (0, 5000, 70000)]
    if skip is not None and dtype is not np.int32:
        for x in near:
            x[2, 1] = skip
    else:
        skip = None
    pool = Pool(SmoothMax(2.0, count_include_pad), window, tuple(axis + 1 for axis in axes), skip)
    made = np.float64 if dtype is np.int32 else dtype
    t = rng.normal(size=(3, *shape)).astype(made)
    g = rng.normal(size=pool.output_shape(t.shape)).astype(made)
    # Pooled axes come after the slabs or, last in memory, before them.
    for lie in (np.ascontiguousarray, np.asfortranarray):
        x = lie(np.stack(near))
        y, dy, gx = pool(x), pool.jvp(x, lie(t))[1], pool.vjp(x)[1](lie(g))
        for i in range(3):
            alone, some = lie(x[i : i + 1]), slice(i, i + 1)
            same(y[some], pool(alone))
            same(dy[some], pool.jvp(alone, lie(t[some]))[1])
            same(gx[some], pool.vjp(alone)[1](lie(g[some])))


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "window",
    [Window((3, 3), 1, 1), Window((3, 3), 2, 1), Window((2, 2)), Adaptive((3, 7))],
    ids=["1", "2", "squares", "bins"],
)
def test_what_is_not_finite_touches_only_its_windows_far_from_each_other(window, dtype, odd):
    rng = np.random.default_rng(8)
    x, pool = (8 * rng.normal(size=(8, 40))).astype(dtype), Pool(SmoothMax(300.0), window)
    x[3, 17] = odd
    t, g = rng.normal(size=x.shape).astype(dtype), rng.normal(size=pool.output_shape(x.shape)).astype(dtype)
    g[0, 0], g[-1, -1], g[2, 3], g[2, 4] = 1e-20, 1e-35, 1e35, 0
    y, dy, gx = spec.forward(pool, x), spec.jvp(pool, x, t)[1], spec.vjp(pool, x, g)
    within(pool(x), y, value_allowance(pool, x, y))
    within(pool.jvp(x, t)[1], dy, jvp_allowance(pool, x, t, dy))
    within(pool.vjp(x)[1](g), gx, vjp_allowance(pool, x, g, gx))


@pytest.mark.parametrize(
    ("p", "dtype"),
    [(2, np.float32), (2, np.float16), (2.5, np.float32), (1.5, np.float16), (2, np.float64), (2.5, np.float64)],
)
@pytest.mark.parametrize(
    ("window", "axes"),
    [
        (Window((2, 2)), (1, 2)),
        (Window((3, 3), 1, 1), (1, 2)),
        (Window((3, 3), 2, 1), (0, 1)),
        (Adaptive((3, 4)), (1, 2)),
        (Global(), (2,)),
        (Window((5,), 2, 2, 2), (1,)),
    ],
    ids=["squares", "steps of 1", "channels", "bins", "all", "gaps"],
)
@pytest.mark.parametrize(
    "scales",
    [(1, 1, 1), (1e-44, 1e-38, 1e-30), (1e15, 1, 1e-15), (1e30, 1e38, 1e20), (1e-200, 1e180, 1e-310), (1, np.nan, 1)],
    ids=str,
)
def test_roots_of_sums_of_powers_have_no_range_of_their_own(scales, window, axes, p, dtype):
    rng = np.random.default_rng(9)
    with np.errstate(over="ignore", under="ignore"):
        x = np.stack([np.clip(rng.normal(size=(9, 40)), -3, 3) * scale for scale in scales]).astype(dtype)
    x[0, 3, :7] = 0
    pool = Pool(Lp(p), window, axes)
    t, g = rng.normal(size=x.shape).astype(dtype), rng.normal(size=pool.output_shape(x.shape)).astype(dtype)
    y, dy, gx = spec.forward(pool, x), spec.jvp(pool, x, t)[1], spec.vjp(pool, x, g)
    within(pool(x), y, value_allowance(pool, x, y))
    within(pool.jvp(x, t)[1], dy, jvp_allowance(pool, x, t, dy))
    within(pool.vjp(x)[1](g), gx, vjp_allowance(pool, x, g, gx))
    # One image by itself, whose scale is another.
    if 0 not in axes:
        for i in range(3):
            same(pool(x[i : i + 1]), pool(x)[i : i + 1])
            same(pool.vjp(x[i : i + 1])[1](g[i : i + 1]), pool.vjp(x)[1](g)[i : i + 1])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("kind", [SmoothMax(2.0), SmoothMax(-3e4, False), Lp(1), Lp(2), Lp(2.5), Lp(3)], ids=repr)
@pytest.mark.parametrize("odd", [(), (np.inf,), (-np.inf, 6e4)], ids=["alone", "beside inf", "beside large ones"])
def test_many_nans_are_in_their_windows_alone(odd, kind, dtype):
    rng = np.random.default_rng(10)
    x = rng.normal(size=(3, 12, 40)).astype(dtype)
    x[rng.random(x.shape) < 0.05] = np.nan
    for i, value in enumerate(odd):
        x[i, 4, 5 + i] = value
    for window, axes in [(Window((3, 2), 1, 1), (1, 2)), (Window((2, 2)), (0, 1)), (Adaptive((5,)), (2,))]:
        pool = Pool(kind, window, axes)
        t, g = rng.normal(size=x.shape).astype(dtype), rng.normal(size=pool.output_shape(x.shape)).astype(dtype)
        g[0, 0] = 0
        y, dy, gx = spec.forward(pool, x), spec.jvp(pool, x, t)[1], spec.vjp(pool, x, g)
        within(pool(x), y, value_allowance(pool, x, y))
        within(pool.jvp(x, t)[1], dy, jvp_allowance(pool, x, t, dy))
        within(pool.vjp(x)[1](g), gx, vjp_allowance(pool, x, g, gx))
