"""SmoothMax and Lp of integers, which the engine reads as they are, and of numbers that are far from each other."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from ndpool import (
    Adaptive,
    Global,
    Lp,
    Pool,
    SmoothMax,
    Window,
    _engine,
    get_num_threads,
    native,
    set_num_threads,
    spec,
)
from ndpool.plan import plan_of

DTYPES = ["bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))]
KINDS = [Lp(1), Lp(2), Lp(3), Lp(4), Lp(2.5), SmoothMax(2), SmoothMax(-0.5, False), SmoothMax(30)]

#: Windows over the last two axes, and shapes that take the ways there are: parts, pieces, rows of bins, many slabs.
ROADS = [
    (Window((2, 2)), (3, 40, 50)),
    (Window((3, 3), 1, 1), (2, 150, 260)),
    (Window((12, 3), (1, 3), (5, 1)), (1, 200, 190)),
    (Window((5, 4), (2, 7), 2, 2), (70, 9, 11)),
    (Window((1, 9), 1), (1, 3, 30000)),
    (Adaptive((15, 7)), (2, 190, 240)),
    (Global(), (2, 300, 290)),
    (Global(), (40, 5, 6)),
]
roads = pytest.mark.parametrize(("window", "shape"), ROADS, ids=lambda v: str(v) if isinstance(v, tuple) else None)


def integers(seed, dtype, shape, most=None):
    """Some up to `most` in size, or any."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    info = np.iinfo(dtype)
    low, high = (info.min, info.max) if most is None else (max(info.min, -most), min(info.max, most))
    return rng.integers(low, high, shape, dtype=dtype, endpoint=True)


def same_bits(a, b):
    np.testing.assert_array_equal(a.view(np.uint64), b.view(np.uint64))


@roads
@pytest.mark.parametrize("dtype", DTYPES)
def test_integers_give_the_bits_of_the_same_floats(dtype, window, shape):
    for seed, (kind, most) in enumerate((kind, most) for kind in KINDS for most in (None, 1000)):
        x = integers(seed, dtype, shape, most)
        pool = Pool(kind, window, axes=(1, 2))
        y = pool(x)
        assert y.dtype == np.float64
        same_bits(y, pool(x.astype(np.float64)))
        same_bits(y, pool.linearize(x)[0])
        last = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 0, -1)), -1, 0)
        same_bits(y, np.ascontiguousarray(pool(last)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_norms_of_integers_are_rounded_once(dtype):
    window = Window((3, 4), (2, 3), 1)
    for most in (1, 9, 255, 30000):
        x = integers(most, dtype, (9, 31), most)
        sums = {p: spec.forward(Pool(Lp(1), window), np.abs(x.astype(object)) ** p) for p in (1, 2)}
        assert np.array_equal(Pool(Lp(1), window)(x), sums[1].astype(np.float64))
        assert np.array_equal(Pool(Lp(2), window)(x), [[math.sqrt(s) for s in row] for row in sums[2]])


@pytest.mark.parametrize("p", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", DTYPES)
def test_norms_of_integers_are_those_of_the_definition(dtype, p):
    for seed, most in enumerate((3, 300, 70000, None)):
        x = integers(seed, dtype, (7, 20), most)
        y = Pool(Lp(p), Window((3, 4), 2))(x)
        sums = spec.forward(Pool(Lp(1), Window((3, 4), 2)), np.abs(x.astype(object)) ** p)
        for got, want in zip(y.flat, sums.flat, strict=True):
            # The power of a result is as far from the sum as p times its own error, which is some last places.
            error = abs(Fraction(float(got)) ** p - Fraction(want))
            assert error <= 4 * p * Fraction(want) * Fraction(2) ** -52, (got, want)


@pytest.mark.parametrize("kind", [Lp(2), Lp(3), SmoothMax(2), SmoothMax(-7)])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64"])
def test_a_piece_of_an_array_has_the_same_bits(dtype, kind):
    x = integers(5, dtype, (300, 170), 5000)
    x[:100] = 3  # so that pieces are computed in other ways
    whole = Pool(kind, Window((6, 5), (2, 1)))(x)
    for first, stop in ((0, 10), (30, 70), (101, 148)):
        piece = Pool(kind, Window((6, 5), (2, 1)))(x[2 * first : 2 * (stop - 1) + 6])
        same_bits(piece, np.ascontiguousarray(whole[first:stop]))


@pytest.mark.parametrize("kind", [Lp(2), SmoothMax(2)])
@pytest.mark.parametrize("window", [Window((3, 3), 1, 1), Adaptive((15, 7)), Global()])
def test_threads_change_no_bit(kind, window):
    x, before, found = integers(6, "int16", (3, 300, 290), 900), get_num_threads(), []
    for threads in (1, 2, 3):
        set_num_threads(threads)
        found.append(Pool(kind, window, axes=(1, 2))(x))
    set_num_threads(before)
    same_bits(found[0], found[1])
    same_bits(found[0], found[2])


@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("beta", [2, -2, 40, 5e5])
@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_windows_far_apart_have_the_same_values_with_a_tangent(dtype, beta, padding):
    rng = np.random.default_rng(7)
    x = rng.integers(-1000, 1000, (2, 130, 140)).astype(dtype)
    x[:, 20:60, 20:60] -= 3000
    if dtype == "float64":
        x[0, 70, 70:76], x[1, 5, 5], x[1, 99, 3] = -np.inf, np.inf, np.nan
        x[0, 100:112, 100:112] = -np.inf
    pool = Pool(SmoothMax(beta), Window((4, 4), 1, padding))
    y = pool(x)
    with np.errstate(invalid="ignore"):
        same_bits(y, pool.jvp(x.astype(np.float64), np.ones(x.shape))[0])
    some = np.s_[:, 40:74, 52:76] if dtype == "float64" else np.s_[:, 50:70, 50:70]
    small = Pool(SmoothMax(beta), Window((4, 4), 1, padding))
    np.testing.assert_allclose(small(x[some]), spec.forward(small, x[some]), rtol=1e-14)


def test_integers_of_either_byte_order_and_of_views():
    x = integers(8, "int16", (40, 60))
    y = Pool(Lp(2), Window((3, 3)))(x)
    same_bits(y, Pool(Lp(2), Window((3, 3)))(x.astype(">i2")))
    every = Pool(Lp(2), Window((3, 3)))(x[::2, ::3])
    same_bits(every, Pool(Lp(2), Window((3, 3)))(x[::2, ::3].astype(np.float64)))
    out = np.empty((13, 20))
    assert Pool(Lp(2), Window((3, 3)))(x, out) is out
    same_bits(out, y)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64"])
@pytest.mark.parametrize("kind", [Lp(1), Lp(2), Lp(3), SmoothMax(2), SmoothMax(-0.01)])
@pytest.mark.parametrize(("window", "shape"), [ROADS[1], ROADS[3], ROADS[6]], ids=str)
def test_the_engine_derives_integers_as_the_same_floats(window, shape, kind, dtype):
    x, rng = integers(10, dtype, shape), np.random.default_rng(11)
    plan = plan_of(Pool(kind, window, axes=(1, 2)), shape, dtype)
    t, g = rng.standard_normal(shape), rng.standard_normal(plan.output_shape)
    found = []
    for cells in (x, x.astype(np.float64)):
        engine = _engine.Plan(**native.request(plan) | {"dtype": cells.dtype.name})
        y, dy, gx = np.empty(plan.output_shape), np.empty(plan.output_shape), np.empty(shape)
        engine.jvp(cells, t, y, dy)
        engine.pull(cells, None, None, g, gx)
        found.append((y, dy, gx))
    for of_integers, of_floats in zip(*found, strict=True):
        same_bits(of_integers, of_floats)


def test_the_engine_refuses_integers_that_are_skipped():
    plan = plan_of(Pool(SmoothMax(2), Window((2,)), skip=3), (8,), "uint8")
    with pytest.raises(ValueError, match="'smooth_max' of integers that are skipped is computed in floats"):
        _engine.Plan(**native.request(plan) | {"dtype": "uint8"})


def test_skipped_integers_are_not_there():
    x = integers(9, "int32", (40, 60), 5)
    pool = Pool(Lp(2), Window((3, 3)), skip=2)
    np.testing.assert_allclose(pool(x), spec.forward(pool, x), rtol=1e-15)
