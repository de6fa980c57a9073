"""Interval bounds: nothing lies outside, in exact arithmetic or in the engine's; both ends are attained; bad boxes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from boxes import FLAVOURS, as_fraction, ends, exactly, points, seeds
from hypothesis import given
from hypothesis import strategies as st

import hostile
from ndpool import (
    Adaptive,
    Avg,
    Global,
    Kind,
    Lp,
    Max,
    Median,
    Min,
    Mode,
    Pool,
    Quantile,
    SmoothMax,
    Sum,
    Window,
    spec,
)
from ndpool.bounds import boxes as slabs
from ndpool.bounds.rounding import UNIT
from strategies import ALL_KINDS, cases

KINDS = [kind for kind in ALL_KINDS if not isinstance(kind, Mode)]
SELECTIONS = [Max(), Min("split"), Quantile(0.7, "nearest"), Quantile(0.2, "lower")]


def inside(y, ylo, yhi, x, pool):
    """Every number of y between the ends; a NaN, from infinities of both signs or a sum that overflows, is nowhere."""
    wide = [a.astype(np.float64) for a in (ylo, y, yhi)]
    known = ~np.isnan(wide[1])
    assert not np.isnan(wide[0]).any()
    assert (wide[0] <= wide[2]).all()
    assert ((wide[0] <= wide[1]) | ~known).all(), (pool, x, y, ylo)
    assert ((wide[1] <= wide[2]) | ~known).all(), (pool, x, y, yhi)


@given(cases(KINDS, max_cells=60), seeds(), st.sampled_from(FLAVOURS), st.sampled_from(hostile.FLOATS))
def test_the_engine_stays_inside(case, seed, flavour, dtype):
    rng = np.random.default_rng(seed)
    lo, hi = ends(rng, flavour, case.shape, dtype)
    ylo, yhi = case.pool.bounds(lo, hi)
    assert ylo.dtype == yhi.dtype == case.pool.kind.result_dtype(lo.dtype)
    for x in points(rng, lo, hi, 4):
        inside(case.pool(x), ylo, yhi, x, case.pool)


@given(cases(KINDS, max_cells=24, max_rank=2), seeds(), st.sampled_from(FLAVOURS), st.sampled_from(hostile.FLOATS))
def test_the_reals_stay_inside(case, seed, flavour, dtype):
    """At vertices and between them, in Fractions or by Arb."""
    rng = np.random.default_rng(seed)
    lo, hi = ends(rng, flavour, case.shape, dtype)
    ylo, yhi = case.pool.bounds(lo, hi)
    for x in points(rng, lo, hi, 2):
        for out, exact in np.ndenumerate(exactly(case.pool, x)):
            if exact is not None:
                assert as_fraction(ylo[out]) <= exact[1], (case.pool, x, float(exact[1]), ylo[out])
                assert exact[0] <= as_fraction(yhi[out]), (case.pool, x, float(exact[0]), yhi[out])


@given(cases(SELECTIONS, max_cells=60), seeds(), st.sampled_from([*hostile.FLOATS, *hostile.INTEGERS, hostile.BOOL]))
def test_selections_are_exact(case, seed, dtype):
    """Max, Min and Quantiles of one cell: the ends are what the pool gives at the ends, to the bit."""
    rng = np.random.default_rng(seed)
    a, b = (hostile.numbers(rng, "ties", case.shape, dtype) for _ in range(2))
    lo, hi = np.minimum(a, b), np.maximum(a, b)
    for end, x in zip(case.pool.bounds(lo, hi), (lo, hi), strict=True):
        np.testing.assert_array_equal(end, case.pool(x))


@pytest.mark.parametrize("kind", [Median(), Quantile(0.25), Quantile(0.75, "midpoint")], ids=repr)
@pytest.mark.parametrize("dtype", hostile.FLOATS)
def test_quantiles_that_fall_on_a_cell_are_exact(kind, dtype):
    """Of 5 or 9 cells, and infinities among them; those of 4 lie between two and are rounded."""
    lo, hi = ends(np.random.default_rng(0), "infinite", (4, 45), dtype)
    for cells in (5, 9):
        pool = Pool(kind, Window((cells,)))
        for end, x in zip(pool.bounds(lo, hi), (lo, hi), strict=True):
            np.testing.assert_array_equal(end, pool(x))
            assert np.isin(end, x).all()
    lo, hi = ends(np.random.default_rng(0), "normal", (4, 48), dtype)
    low, high = (end.astype(np.float64) for end in Pool(kind, Window((4,))).bounds(lo, hi))
    assert (low < Pool(kind, Window((4,)))(lo)).any()
    assert (high > Pool(kind, Window((4,)))(hi)).any()


@given(
    cases([Sum(), Avg(), SmoothMax(2.0), SmoothMax(-0.5), Median(), Quantile(0.3), Lp(2), Lp(3.5)], max_cells=60),
    seeds(),
)
def test_both_ends_are_attained(case, seed):
    """But for the rounding: a few last places, and those that smooth kinds are off by."""
    rng = np.random.default_rng(seed)
    kind = case.pool.kind
    for dtype in (np.float32, np.float64):
        lo, hi = ends(rng, "normal", case.shape, dtype)
        ylo, yhi = case.pool.bounds(lo, hi)
        attained = lo, hi
        if isinstance(kind, Lp):
            attained = np.maximum(np.maximum(lo, -hi), 0), np.maximum(-lo, hi)
        smooth = {np.float32: 4e-6, np.float64: 4e-14}[dtype] * (1 + 3 / abs(getattr(kind, "beta", 1.0)))
        for end, x in zip((ylo, yhi), attained, strict=True):
            y = case.pool(x).astype(np.float64)
            slack = 12 * UNIT[np.dtype(dtype).name] * (np.abs(y) + 1e-6)
            if isinstance(kind, SmoothMax | Lp):
                slack = smooth * (np.abs(y) + 1)
            if isinstance(kind, Median | Quantile):
                slack = slack + 2.0**-48 * 10
            if isinstance(kind, Sum):
                slack = slack * 10
            assert (np.abs(end.astype(np.float64) - y) <= slack).all()


@pytest.mark.parametrize("kind", [Max(), Avg(), Sum(), SmoothMax(1.0), Lp(2), Median()], ids=repr)
def test_slabs_and_layouts_make_no_difference(kind, monkeypatch):
    rng = np.random.default_rng(0)
    shape = (3, 5, 9, 10)
    a, b = rng.normal(size=shape).astype(np.float32), rng.normal(size=shape).astype(np.float32)
    lo, hi = np.minimum(a, b), np.maximum(a, b)
    for window, axes in ((Window((3, 3), 2, 1), (2, 3)), (Window((2, 2)), (1, 2)), (Global(keepdims=False), (2, 3))):
        pool = Pool(kind, window, axes)
        whole = pool.bounds(lo, hi)
        monkeypatch.setattr(slabs, "SLAB_BYTES", 500)
        parts = pool.bounds(lo, hi)
        strided = pool.bounds(np.asfortranarray(lo), np.asfortranarray(hi))
        monkeypatch.undo()
        for one, two, three in zip(whole, parts, strided, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(one, three, rtol=1e-5, atol=1e-6)
            assert one.shape == pool.output_shape(shape)


def test_integers():
    lo, hi = np.array([[0, 3, 250, 7]], np.uint8), np.array([[1, 9, 255, 7]], np.uint8)
    window = Window((2,))
    assert [a.tolist() for a in Pool(Sum(), window).bounds(lo, hi)] == [[[3, 257]], [[10, 262]]]
    assert [a.tolist() for a in Pool(Avg(rounding="half_up"), window).bounds(lo, hi)] == [[[2, 129]], [[5, 131]]]
    low, high = Pool(Avg(), window).bounds(lo, hi)
    assert low.dtype == np.float64
    assert (low <= [[1.5, 128.5]]).all()
    assert (high >= [[5, 131]]).all()
    assert np.ptp(low - [[1.5, 128.5]]) < 1e-10
    low, high = Pool(Lp(2), window).bounds(np.array([-3, -4]), np.array([1, 4]))
    assert low[0] == 0
    assert high[0] == pytest.approx(5)
    with pytest.raises(ValueError, match="may be beyond 9223372036854775807, where sums of integers wrap around"):
        Pool(Sum(), window).bounds(np.array([0, 0]), np.array([2**62, 2**62]))


def test_infinite_ends():
    window = Window((2,))
    lo, hi = np.array([-np.inf, 1.0, 2.0, 3.0, np.inf, -1.0]), np.array([0.0, 2.0, np.inf, 4.0, np.inf, 0.0])
    assert Pool(Max(), window).bounds(lo, hi)[0].tolist() == [1, 3, np.inf]
    low, high = Pool(Sum(), window).bounds(lo, hi)
    assert low[0] == -np.inf
    assert low[1] == pytest.approx(5)
    assert low[2] == np.inf
    assert high[0] == pytest.approx(2)
    assert high[1:].tolist() == [np.inf, np.inf]
    both = Pool(Sum(), window).bounds([-np.inf, np.inf], [-np.inf, np.inf])
    assert [float(end[0]) for end in both] == [-np.inf, np.inf]
    low, high = Pool(Lp(2), window).bounds(lo, hi)
    assert low[0] == pytest.approx(1)
    assert high[0] == np.inf


@pytest.mark.parametrize("kind", [Sum(), Avg(), Lp(2), SmoothMax(1.0)], ids=repr)
def test_sums_beyond_the_largest_float(kind):
    """A real number lies below infinity: the largest float may be a lower end, infinity may not."""
    big = np.finfo(np.float64).max
    low, high = Pool(kind, Window((2,))).bounds([big, big], [big, big])
    assert low[0] <= big
    assert high[0] >= big if isinstance(kind, Avg | SmoothMax) else high[0] == np.inf


# --- cells that are not there ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", [k for k in KINDS if not getattr(k, "rounding", None)], ids=repr)
@pytest.mark.parametrize("skip", [math.nan, -9.0])
def test_skipped_cells(kind, skip):
    rng = np.random.default_rng(1)
    pool = Pool(kind, Window((3,), 2, 1), None, skip, 2)
    for _ in range(20):
        lo, hi = ends(rng, "normal", (2, 9), np.float64)
        gone = rng.random(lo.shape) < 0.5
        lo[gone] = hi[gone] = skip
        ylo, yhi = pool.bounds(lo, hi)
        few = np.array([y is None for y in exactly(pool, lo).ravel()]).reshape(ylo.shape)
        for x in points(rng, lo, hi, 3):
            x = np.where(gone, skip, x)
            y = pool(x)
            np.testing.assert_array_equal(y[few], skip)
            for end in (ylo, yhi):
                np.testing.assert_allclose(end[few], skip, rtol=1e-5)
            assert (ylo[~few] <= y[~few]).all()
            assert (y[~few] <= yhi[~few]).all()


def test_a_box_with_the_skipped_value_in_it_is_refused():
    pool = Pool(Avg(), Window((2,)), skip=0)
    with pytest.raises(ValueError, match=r"lo\[1\] = -1.0 and hi\[1\] = 2.0 have the skipped value 0.0 between them"):
        pool.bounds([1.0, -1.0], [2.0, 2.0])
    with pytest.raises(ValueError, match=r"lo\[0\] = nan and hi\[0\] = 1.0: NaN is no end of a box"):
        Pool(Max(), Window((2,)), skip=math.nan).bounds([math.nan, 0.0], [1.0, 1.0])


# --- what is refused ------------------------------------------------------------------------------


def test_bad_boxes():
    pool = Pool(Max(), Window((2, 2)))
    x = np.zeros((3, 4, 4))
    lo = x.copy()
    lo[1, 2, 3] = 1.5
    with pytest.raises(ValueError, match=r"lo\[1, 2, 3\] = 1.5 is above hi\[1, 2, 3\] = 0.0; give the lower end first"):
        pool.bounds(lo, x)
    lo[1, 2, 3] = np.nan
    with pytest.raises(ValueError, match=r"lo\[1, 2, 3\] = nan and hi\[1, 2, 3\] = 0.0: NaN is no end of a box"):
        pool.bounds(lo, x)
    with pytest.raises(ValueError, match=r"lo has shape \(2,\) and hi \(3,\); a box has two ends of one shape"):
        Pool(Max(), Window((2,))).bounds([0, 1], [1, 2, 3])
    with pytest.raises(TypeError, match="lo has dtype complex128; a box has ends that are ordered"):
        Pool(Sum(), Window((2,))).bounds([0j, 1], [1j, 2])
    for method in (pool.linear_bounds, pool.bounds):
        with pytest.raises(ValueError, match="above"):
            method(x + 1, x)


def test_the_first_bad_cell_is_named_by_its_place_in_the_whole(monkeypatch):
    monkeypatch.setattr(slabs, "SLAB_BYTES", 64)
    x = np.zeros((3, 10, 4, 4))
    lo = x.copy()
    lo[2, 1, 2, 1] = 2.0
    pool = Pool(Max(), Window((2, 2)))
    for method in (pool.bounds, pool.linear_bounds):
        with pytest.raises(ValueError, match=r"lo\[2, 1, 2, 1\] = 2.0 is above"):
            method(lo, x)


def test_kinds_without_bounds():
    with pytest.raises(TypeError, match="has no bounds: the value that most cells have jumps"):
        Pool(Mode(), Window((2,))).bounds([0.0, 1.0], [1.0, 2.0])

    class Middle(Kind):
        def value(self, x, pad=0):
            return x[len(x) // 2]

        def weights(self, x, pad=0):
            return [(len(x) // 2, 1)]

    with pytest.raises(TypeError, match="has no bounds: ndpool does not know how it grows"):
        Pool(Middle(), Window((2,))).bounds([0.0, 1.0], [1.0, 2.0])


def test_empty_batches():
    for kind in (Max(), Sum(), SmoothMax(1.0), Lp(2), Median()):
        low, high = Pool(kind, Window((2,))).bounds(np.zeros((0, 4)), np.zeros((0, 4)))
        assert low.shape == high.shape == (0, 2)


def test_adaptive_bins_beside_the_specification():
    rng = np.random.default_rng(3)
    pool = Pool(Max(), Adaptive((3, 2)))
    lo, hi = ends(rng, "normal", (2, 7, 5), np.float32)
    low, high = pool.bounds(lo, hi)
    np.testing.assert_array_equal(low, spec.forward(pool, lo))
    np.testing.assert_array_equal(high, spec.forward(pool, hi))
