"""Boxes in the engine beside NumPy's way: pieces and slabs, lanes and formulas, levels, threads and byte orders."""

from __future__ import annotations

import numpy as np
import pytest
from boxes import ends, seeds
from formulas import below_and_above
from hypothesis import given
from hypothesis import strategies as st

import hostile
from ndpool import (
    Adaptive,
    Avg,
    Global,
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
    _engine,
    get_num_threads,
    native,
    set_num_threads,
)
from ndpool.bounds import intervals, relaxations
from ndpool.bounds.affine import AllCells, OneCell
from ndpool.bounds.frames import frame_of
from ndpool.plan import plan_of
from strategies import ALL_KINDS, cases

FLAVOURS = ["normal", "degenerate", "ties", "huge", "subnormal", "wide", "infinite", "tiny"]
KINDS = [kind for kind in ALL_KINDS if not isinstance(kind, Mode)]
LINES = [Max(), Min("split"), SmoothMax(2.0), SmoothMax(-0.7), SmoothMax(3.0, count_include_pad=False)]
LINES += [Lp(1), Lp(2), Lp(3), Lp(1.3), Lp(11)]
WINDOWS = [
    (Window((2, 2)), (2, 3)),
    (Window((3, 3), 1, 1), (2, 3)),
    (Window((3, 3), 2, 1, ceil_mode=True), (2, 3)),
    (Window((3, 2), (1, 3), ((2, 0), (0, 1)), 2), (1, 3)),
    (Window((2, 3), 2, 1), (1, 2)),
    (Adaptive((2, 3)), (2, 3)),
    (Adaptive((9, 19)), (2, 3)),
    (Global(), (2, 3)),
    (Global(keepdims=False), (0, 3)),
]


def box(shape, dtype, seed=0, flavour="normal"):
    return ends(np.random.default_rng(seed), flavour, shape, dtype)


@pytest.fixture(params=_engine.levels())
def level(request):
    before = _engine.level()
    _engine.set_level(request.param)
    yield request.param
    _engine.set_level(before)


# --- intervals ------------------------------------------------------------------------------------


def by_slabs(pool, lo, hi, monkeypatch):
    """The ends as NumPy rounds them."""
    with monkeypatch.context() as changed:
        changed.setattr(intervals, "_is_the_engines", lambda *_: False)
        return pool.bounds(lo, hi)


@given(
    cases(KINDS, max_cells=60),
    seeds(),
    st.sampled_from(FLAVOURS),
    st.sampled_from([*hostile.FLOATS, *hostile.INTEGERS]),
)
def test_one_piece_is_one_slab_to_the_bit(case, seed, flavour, dtype):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        a, b = (hostile.numbers(rng, "ties", case.shape, dtype) for _ in range(2))
        lo, hi = np.minimum(a, b), np.maximum(a, b)
    else:
        lo, hi = ends(rng, flavour, case.shape, dtype)
    found = case.pool.bounds(lo, hi)
    with pytest.MonkeyPatch.context() as changed:
        wanted = by_slabs(case.pool, lo, hi, changed)
    for one, two in zip(found, wanted, strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    "kind", [Max(), Avg(), Sum(), SmoothMax(1.0), Lp(2), Lp(2.5), Median(), Quantile(0.3)], ids=repr
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_pieces_beside_slabs(kind, dtype, monkeypatch):
    """Some pieces of a large box have infinite ends, and are done by NumPy alone."""
    lo, hi = box((5, 30, 32, 32), dtype)
    hi[3, 7, 20, 30] = np.inf
    lo[4, 29, 31, 31] = -np.inf
    for window, axes in (
        (Window((3, 3), 2, 1), (2, 3)),
        (Global(), (2, 3)),
        (Window((2,)), (0,)),
        (Adaptive((7,)), (1,)),
    ):
        pool = Pool(kind, window, axes)
        for one, two in zip(pool.bounds(lo, hi), by_slabs(pool, lo, hi, monkeypatch), strict=True):
            np.testing.assert_allclose(one.astype(np.float64), two.astype(np.float64), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [Max(), Sum(), Lp(3), Median()], ids=repr)
def test_threads_make_no_difference(kind):
    lo, hi = box((40, 9, 33, 31), np.float32)
    pool, before = Pool(kind, Window((3, 3), 2, 1)), get_num_threads()
    try:
        set_num_threads(1)
        wanted = pool.bounds(lo, hi), described(pool.linear_bounds(lo, hi))
        set_num_threads(3)
        found = pool.bounds(lo, hi), described(pool.linear_bounds(lo, hi))
    finally:
        set_num_threads(before)
    for one, two in zip((*wanted[0], *wanted[1]), (*found[0], *found[1]), strict=True):
        np.testing.assert_array_equal(one, two)


def described(maps):
    """All numbers of both maps."""
    found = []
    for each in maps:
        if isinstance(each, OneCell):
            found += [each._winners, np.asarray(each._slopes), each._bias]
        elif isinstance(each, AllCells):
            found += [each._slopes, each._bias]
        else:
            found += [each._bias]
    return found


def test_the_check_of_every_dtype(level):
    """The first bad cell, in a whole register or in the rest of one, of each dtype."""
    pool = Pool(Max(), Window((2,)))
    for dtype in (*hostile.FLOATS, *hostile.INTEGERS):
        for length, place in ((100, 0), (100, 63), (100, 98), (5, 4), (1000, 999)):
            lo, hi = np.zeros(length, dtype), np.zeros(length, dtype)
            pool.bounds(lo, hi)
            lo[place] = 1
            with pytest.raises(ValueError, match=rf"lo\[{place}\] = 1(\.0)? is above hi\[{place}\] = 0"):
                pool.bounds(lo, hi)
            if np.dtype(dtype).kind not in "iu":
                lo[place], hi[place] = 0, np.nan
                with pytest.raises(ValueError, match=rf"hi\[{place}\] = nan: NaN is no end of a box"):
                    pool.bounds(lo, hi)


def test_the_first_bad_cell_of_many_pieces():
    lo, hi = box((6, 40, 32, 32), np.float64)
    lo[4, 3, 2, 1], lo[5, 0, 0, 0] = 100.0, np.nan
    for kind in (Max(), Sum(), SmoothMax(1.0), Lp(2), Median()):
        pool = Pool(kind, Window((2, 2)))
        for method in (pool.bounds, pool.linear_bounds):
            with pytest.raises(ValueError, match=r"lo\[4, 3, 2, 1\] = 100.0 is above"):
                method(lo, hi)


# --- affine maps ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("window", "axes"), WINDOWS)
@pytest.mark.parametrize("minimum", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("flavour", ["normal", "ties", "infinite"])
def test_the_cells_that_lead(window, axes, minimum, dtype, flavour, level):
    """Their places are those that the pool itself finds, the first of equals; of NaN midpoints too."""
    lo, hi = box((3, 4, 9, 37), dtype, 1, flavour)
    pool = Pool(Min() if minimum else Max(), window, axes)
    lower, upper = pool.linear_bounds(lo, hi)
    below, above = (upper, lower) if minimum else (lower, upper)
    with np.errstate(invalid="ignore"):
        a, b = (-hi, -lo) if minimum else (lo, hi)
        wanted = [Pool(Max(), window, axes).linearize(x)[1].residual.winners for x in (a + b, b)]
    np.testing.assert_array_equal(below._winners, wanted[0])
    np.testing.assert_array_equal(above._winners, wanted[1])


@given(
    cases(LINES, max_cells=60, empty=False),
    seeds(),
    st.sampled_from(["normal", "ties", "degenerate", "wide", "infinite"]),
    st.sampled_from(["volume", "constant", "maxlin", "tilin"]),
    st.sampled_from(["volume", "lo"]),
    st.sampled_from([np.float32, np.float64]),
)
def test_lanes_beside_formulas(case, seed, flavour, upper, lower, dtype):
    agree(case.pool, *ends(np.random.default_rng(seed), flavour, case.shape, dtype), upper=upper, lower=lower)


@pytest.mark.parametrize("kind", LINES, ids=repr)
@pytest.mark.parametrize(("window", "axes"), WINDOWS)
def test_lanes_of_all_windows_beside_formulas(kind, window, axes, level):
    for dtype in (np.float32, np.float64):
        agree(Pool(kind, window, axes), *box((3, 4, 9, 37), dtype, 2), upper="tilin")


def agree(pool, lo, hi, upper="volume", lower="volume", at=None):
    """The engine's maps with all slopes are the formulas', to the last places of the box's dtype.

    Where a formula has no line, neither has the engine. It may have none where the formula has: where doubles end.
    """
    level, by_lo = relaxations.UPPER[upper], str(lower) == "lo"
    weights = None if isinstance(lower, str) else lower
    found = relaxations._by_windows(pool, frame_of(pool, lo.shape), lo, hi, level, by_lo, at, weights)
    least = isinstance(pool.kind, Min) or getattr(pool.kind, "beta", 1) < 0
    maps = [found[1]._mirrored(), found[0]._mirrored()] if least else found
    wanted = below_and_above(pool, lo, hi, upper, lower, at)
    lines = np.ones(maps[0]._bias.shape, bool)
    for slopes, bias in wanted:
        lines &= np.isfinite(bias) & np.isfinite(slopes).all(1)
    exact = lo.dtype == np.float64
    size = 1 + max(np.abs(a[np.isfinite(a)]).max(initial=0) for a in (lo, hi))
    points = [gathered(maps[0].frame, -a if least else a) for a in (lo, hi)]
    for each, (slopes, bias) in zip(maps, wanted, strict=True):
        here = lines & ~((each._slopes == 0).all(1) & (slopes != 0).any(1))  # the engine's is a line, too
        assert np.isfinite(each._slopes).all()
        assert (each._slopes[~np.broadcast_to(each.frame.real, slopes.shape)] == 0).all()
        for x in points:
            found_here = (each._slopes * x).sum(1)[here] + each._bias[here]
            wanted_here = (slopes * x).sum(1)[here] + bias[here]
            leaning = 1 + np.abs(slopes).sum(1)[here].max(initial=0)
            close = (1e-10 if exact else 2e-6) * size * leaning
            np.testing.assert_allclose(found_here, wanted_here, rtol=0, atol=close)
        if exact:
            kept = np.broadcast_to(here[:, None], slopes.shape)
            np.testing.assert_allclose(each._slopes[kept], slopes[kept], rtol=1e-7, atol=1e-8)


def gathered(frame, a):
    """The finite cells of each window, 0 elsewhere."""
    a = np.where(np.isfinite(a), a, 0.0)
    return np.where(frame.real, np.take(frame.inputs(a), frame.places, -1), 0.0)


@pytest.mark.parametrize("cells", [4, 9, 31, 33, 200])
@pytest.mark.parametrize("kind", [Max(), Min()], ids=repr)
def test_a_point_and_weights_beside_formulas(cells, kind, level):
    """Shares are added up for each hi in short windows, and bit by bit in long ones."""
    rng = np.random.default_rng(cells)
    for flavour in ("normal", "ties"):
        lo, hi = box((7, 3 * cells), np.float64, cells, flavour)
        for part in (0.0, 0.1, 0.5, 1.0):
            at = np.clip(lo + (hi - lo) * part * rng.random(lo.shape), lo, hi)
            weights = rng.random(lo.shape) * (rng.random(lo.shape) < 0.3)
            agree(Pool(kind, Window((cells,))), lo, hi, lower=weights, at=at)


def test_tangents_of_boxes_that_are_too_wide():
    """Where every term is near the smallest doubles, the tangent cannot be relied on: the map is a constant."""
    pool = Pool(SmoothMax(1.0), Window((2,)))
    for width in (1200.0, 1420.0, 1480.0, 3000.0):
        lo, hi = np.array([-width, -width]), np.array([0.0, 0.0])
        lower, upper = pool.linear_bounds(lo, hi)
        for x in (lo, hi, (lo + hi) / 2):
            y = float(np.logaddexp(*x))
            assert lower(x)[0] <= y <= upper(x)[0]
        assert (lower.push([1.0, 1.0])[0] == 0) == (width > 1250)


def test_a_norm_beside_a_cell_that_is_tiny():
    """The centre of the large cell is 0: what is left of it has a scale of its own, and a dual norm of at most 1."""
    for p in (2, 3, 1.5):
        for tiny in (1e-100, 1e-160, 1e-200, 1e-320):
            lower, _ = Pool(Lp(p), Window((3,))).linear_bounds([-1.0, tiny, tiny], [1.0, tiny, 2 * tiny])
            slopes = [lower.push(unit)[0] for unit in np.eye(3)]
            q = p / (p - 1)
            assert slopes[0] == 0
            assert 1 - 1e-9 < sum(abs(s) ** q for s in slopes) ** (1 / q) <= 1


@pytest.mark.parametrize(("dtype", "large"), [(np.float32, 3e38), (np.float64, 1.7e308)])
@pytest.mark.parametrize("upper", ["constant", "maxlin", "tilin", "volume"])
def test_boxes_that_are_wider_than_any_number(dtype, large, upper):
    """No slope is known there: the map above is the largest hi, and that below stays below."""
    lo, hi = np.array([-large, 0.0], dtype), np.array([large, 1.0], dtype)
    for kind, sign in ((Max(), 1), (Min(), -1)):
        a, b = (lo, hi) if sign > 0 else (-hi, -lo)
        lower, above = Pool(kind, Window((2,))).linear_bounds(a, b, upper=upper)
        for x in np.stack(np.meshgrid(*zip(a, b, strict=True)), -1).reshape(-1, 2):
            y = float(x.max() if sign > 0 else x.min())
            assert lower(x)[0] <= y <= above(x)[0]


def test_weights_whose_sum_is_beyond_all_numbers():
    lower, _ = Pool(Max(), Window((2,))).linear_bounds([-2.0, -2.0], [-1.0, -1.0], lower=np.array([1e308, 1e308]))
    np.testing.assert_allclose([lower.push(unit)[0] for unit in np.eye(2)], 0.5)
    assert lower(np.array([-1.0, -1.0]))[0] <= -1


@pytest.mark.parametrize("kind", [Avg(), Sum(), SmoothMax(1.0)], ids=repr)
def test_infinite_cells_in_boxes_that_lie_otherwise(kind, monkeypatch):
    """The piece that has them is found, whatever the order of the axes in memory."""
    lo = np.asfortranarray(np.random.default_rng(3).normal(size=(1, 8, 64, 64)).astype(np.float32))
    lo[0, 5, 0, 0] = np.inf
    pool = Pool(kind, Window((2, 2)))
    dense = pool.bounds(np.ascontiguousarray(lo), np.ascontiguousarray(lo))
    for found, expected in zip(pool.bounds(lo, lo), dense, strict=True):
        np.testing.assert_array_equal(found, expected)
        assert found[0, 5, 0, 0] == np.inf
        assert np.isfinite(found).sum() == found.size - 1


def test_slopes_have_the_dtype_of_the_box():
    for dtype, kept in (
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float64),
        (int, np.float64),
    ):
        lo, hi = np.zeros((2, 4), dtype), np.ones((2, 4), dtype)
        for each in Pool(Lp(2), Window((2,))).linear_bounds(lo, hi):
            assert each._slopes.dtype == kept
            assert each.bias.dtype == each.push(lo).dtype == np.float64


@pytest.mark.parametrize("kind", [Max(), SmoothMax(1.0), Lp(2), Avg(), Median()], ids=repr)
def test_other_layouts(kind):
    """Bytes in the other order, memory that is not aligned, and steps: the numbers are what counts."""
    pool = Pool(kind, Window((3, 3), 2, 1))
    lo, hi = box((2, 3, 20, 21), np.float64)
    wanted = *pool.bounds(lo, hi), *described(pool.linear_bounds(lo, hi))
    for change in (swapped, unaligned, stepped):
        a, b = change(lo), change(hi)
        found = *pool.bounds(a, b), *described(pool.linear_bounds(a, b))
        for one, two in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, two)


def swapped(a):
    return a.astype(a.dtype.newbyteorder())


def unaligned(a):
    room = np.zeros(a.nbytes + 1, np.uint8)[1:].view(a.dtype).reshape(a.shape)
    room[...] = a
    return room


def stepped(a):
    room = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
    room[..., ::2] = a
    return room[..., ::2]


# --- what the engine refuses ----------------------------------------------------------------------


def test_the_engine_checks_sizes():
    frame = frame_of(Pool(Max(), Window((2,))), (3, 4))
    x, y, places = np.zeros((3, 4)), np.zeros((3, 2)), np.zeros((3, 2), np.uint8)
    windows = frame.lanes(8)
    choices = {"minimum": False, "by_lo": False, "constant": False}
    assert windows.select(x, x, "float64", places, places, 1, y, y, **choices)
    with pytest.raises(ValueError, match="an array has 64 bytes; expected 12 dense elements of 8"):
        windows.select(x[:2], x, "float64", places, places, 1, y, y, **choices)
    with pytest.raises(ValueError, match="an array has 48 bytes; expected 6 dense elements of 8"):
        windows.select(x, x, "float64", places, places, 1, y, np.zeros((3, 4))[:, ::2], **choices)
    with pytest.raises(ValueError, match="boxes in lanes are of float32 in 16 or of float64 in 8"):
        windows.select(x, x, "float32", places, places, 1, y, y, **choices)
    with pytest.raises(ValueError, match="place_bytes is none of 1, 2 and 4"):
        windows.select(x, x, "float64", places, places, 3, y, y, **choices)
    slopes = np.zeros((3, 2, 2))
    with pytest.raises(ValueError, match="'mode' is none of 'max', 'smooth_max' and 'lp'"):
        windows.relax("mode", x, x, "float64", 1.0, slopes, y, slopes, y, minimum=False, check=True)
    with pytest.raises(ValueError, match="a maximum is drawn from the hi of number 0, 1 or 2"):
        windows.relax("max", x, x, "float64", 3.0, slopes, y, slopes, y, minimum=False, check=True)
    with pytest.raises(ValueError, match="these kinds have 8 lanes"):
        frame.lanes(16).relax("lp", x, x, "float64", 2.0, slopes, y, slopes, y, minimum=False, check=True)
    for bad in ((8, 9), (2, 3)):
        with pytest.raises(ValueError, match=r"a place is not in its row|the numbers make no windows"):
            _engine.BoxWindows(np.full(bad, 7), np.ones(bad, bool), bad[1], 3, 4, 2, 8)
    with pytest.raises(ValueError, match="lanes is neither 8 nor 16"):
        frame.lanes(4)
    one = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    with pytest.raises(OverflowError, match=r"a box has more than 2\*\*63 bytes"):
        _engine.BoxWindows(*one, 1, 2**62, 4, 1, 8)
    with pytest.raises(OverflowError, match=r"a box has more than 2\*\*63 bytes"):
        _engine.BoxWindows(*one, 1, 2**31, 2**31, 1, 8)
    plan = plan_of(Pool(Sum(), Window((2,))), (3, 4), "float64")
    with pytest.raises(ValueError, match="lo has 64 bytes; expected a dense array of 12 elements of 8"):
        native.bounds(plan, x[:2], x, y, y, None)
