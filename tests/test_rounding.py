"""Means of integers that stay integers: the exact mean, rounded once, whatever the window, the dtype and the way."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hostile
from closeness import same, same_bytes
from ndpool import Adaptive, Avg, Global, Pool, Sum, Window, _engine, get_num_threads, set_num_threads, spec
from ndpool.kinds import ROUNDINGS
from oracle import Gathered
from strategies import cases
from ways import forward_by, jvp_by, push_by, vjp_by, ways

NAMES = list(ROUNDINGS)
INTEGERS = hostile.INTEGERS
KINDS = [Avg(pad, rounding=name) for pad in (True, False) for name in NAMES]


@pytest.fixture(autouse=True)
def as_it_was():
    """Tests may choose the instruction level and the number of threads."""
    level, threads = _engine.level(), get_num_threads()
    yield
    _engine.set_level(level)
    set_num_threads(threads)


def exact(pool, x):
    """The outputs from Python's integers, for arrays that are too large for the specification's loops."""
    gathered = Gathered(pool, x)
    sums = np.where(gathered.real, gathered.cells().astype(object), 0).sum(-1)
    rounded = np.frompyfunc(lambda total, n: ROUNDINGS[pool.kind.rounding](int(total), int(n)), 2, 1)
    return gathered.output(rounded(sums, gathered._count())).astype(x.dtype)


def by_every_way(pool, x):
    """The path and the result of each way at each level, into memory and past the caches."""
    for level in _engine.levels():
        _engine.set_level(level)
        for way in ways(pool, x, "forward"):
            for path in (way, f"{way}+stream"):
                yield f"{path} at {level}", forward_by(pool, x, path, offset=3)


def edges(dtype, shape, rng):
    """All the smallest number, all the largest, both mixed, and numbers around 0."""
    limits = np.iinfo(dtype)
    least, most = np.full(shape, limits.min, dtype), np.full(shape, limits.max, dtype)
    small = rng.integers(max(limits.min, -3), 4, shape).astype(dtype)
    return least, most, np.where(rng.random(shape) < 0.5, least, most), small


# --- known answers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rounding", "means"),
    [
        # of -5 -3 -1 1 3 5 halves, then of -5 -4 -2 -1 1 2 4 5 thirds
        ("half_even", [-2, -2, 0, 0, 2, 2, -2, -1, -1, 0, 0, 1, 1, 2]),
        ("half_up", [-2, -1, 0, 1, 2, 3, -2, -1, -1, 0, 0, 1, 1, 2]),
        ("half_away", [-3, -2, -1, 1, 2, 3, -2, -1, -1, 0, 0, 1, 1, 2]),
        ("floor", [-3, -2, -1, 0, 1, 2, -2, -2, -1, -1, 0, 0, 1, 1]),
        ("truncate", [-2, -1, 0, 0, 1, 2, -1, -1, 0, 0, 0, 0, 1, 1]),
    ],
)
@pytest.mark.parametrize("dtype", [each for each in INTEGERS if each.kind == "i"])
def test_halves_and_thirds_on_both_sides_of_zero(rounding, means, dtype):
    kind = Avg(rounding=rounding)
    for level in _engine.levels():
        _engine.set_level(level)
        halves = np.array([[s, 0] for s in (-5, -3, -1, 1, 3, 5)], dtype)
        thirds = np.array([[s, 0, 0] for s in (-5, -4, -2, -1, 1, 2, 4, 5)], dtype)
        found = [*Pool(kind, Window((2,)))(halves).ravel(), *Pool(kind, Window((3,)))(thirds).ravel()]
        assert found == means, level


def test_padding_counts_or_does_not():
    x = np.array([[7, 8, 7]], np.uint8)
    assert Pool(Avg(True, rounding="half_up"), Window((3,), 1, 1))(x).tolist() == [[5, 7, 5]]
    assert Pool(Avg(False, rounding="half_up"), Window((3,), 1, 1))(x).tolist() == [[8, 7, 8]]


def test_bools_stay_bools():
    x = np.array([[True, False, True, True, False, False]])
    y = Pool(Avg(rounding="half_up"), Window((2,)))(x)
    assert y.dtype == bool
    assert y.tolist() == [[True, True, False]]
    same(y, spec.forward(Pool(Avg(rounding="half_up"), Window((2,))), x))


def test_a_pyramid_keeps_its_mean():
    """Halves that are rounded to even do not darken an image level by level, where halves cut off do."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (512, 512), dtype=np.uint8)
    even, cut = x, x
    for _ in range(6):
        even, cut = (
            Pool(Avg(rounding="half_even"), Window((2, 2)))(even),
            Pool(Avg(rounding="floor"), Window((2, 2)))(cut),
        )
    assert abs(float(even.mean()) - float(x.mean())) < 0.1
    assert float(x.mean()) - float(cut.mean()) > 1.5


# --- against the specification ----------------------------------------------------------------------


@given(
    cases(KINDS, max_rank=5, large=True),
    st.sampled_from([*INTEGERS, hostile.BOOL]),
    st.sampled_from(["ties", "extremes", "any"]),
    st.sampled_from(list(hostile.LAYOUTS)),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 5]),
)
@settings(max_examples=150, deadline=None)
def test_equals_the_specification(case, dtype, flavour, layout, seed, threads):
    rng = np.random.default_rng(seed)
    x = hostile.layout(layout, hostile.numbers(rng, flavour, case.shape, dtype), rng)
    plain = np.array(x, dtype=dtype, order="C")
    expected = spec.forward(case.pool, plain)
    assert expected.dtype == dtype
    set_num_threads(threads)
    for level in _engine.levels():
        _engine.set_level(level)
        same(case.pool(x), expected)
        if plain.size:
            for path in (*ways(case.pool, plain, "forward"), "stream"):
                same(forward_by(case.pool, plain, path), expected)


ROADS = {
    "2x2": (Window((2, 2)), (3, 6, 150), None),
    "2x2, ceil_mode": (Window((2, 2), ceil_mode=True), (2, 5, 151), None),
    "2x2, padded": (Window((2, 2), 2, ((1, 0), (1, 1))), (2, 5, 140), None),
    "2x2, short rows": (Window((2, 2)), (9, 6, 22), None),
    "2x2x2": (Window((2, 2, 2)), (4, 6, 90), None),
    "3x2": (Window((3, 2), (1, 2), (1, 0)), (2, 5, 100), None),
    "two of a long row": (Window((2,), 2, 1), (10007,), None),
    "128 cells in pairs": (Window((64, 2)), (65, 70), None),
    "130 cells in pairs": (Window((65, 2)), (65, 70), None),
    "3x3s2p1": (Window((3, 3), 2, 1), (2, 9, 71), None),
    "3x3s1": (Window((3, 3), 1, 1), (2, 6, 70), None),
    "4x4": (Window((4, 4)), (2, 8, 80), None),
    "k5s3d2, ceil_mode": (Window((5, 3), (2, 3), 2, 2, True), (2, 13, 40), None),
    "wide": (Window((9, 9), 1, 4), (1, 14, 40), None),
    "wide along a row": (Window((40,), 1, 20), (2, 180), None),
    "wide across rows": (Window((24, 1), 2, ((3, 9), (0, 0))), (2, 50, 37), None),
    "strands": (Window((7,), 6, 3), (37, 50), None),
    "adaptive": (Adaptive((3, 7)), (2, 11, 50), None),
    "bins of a row": (Adaptive((5,)), (20, 33), None),
    "global": (Global(), (2, 20, 33), (1, 2)),
    "channels last, 5": (Window((3, 3), 2, 1), (2, 7, 9, 5), (1, 2)),
    "channels last, 40": (Window((2, 2), 2, 1, 1, True), (1, 5, 8, 40), (1, 2)),
    "channels last, adaptive": (Adaptive((3, 2)), (2, 7, 5, 19), (1, 2)),
}


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("road", ROADS)
def test_every_way(road, dtype):
    """Every way at every level; each rounding and each policy of the padding over some of the numbers."""
    window, shape, axes = ROADS[road]
    rng = np.random.default_rng(len(road))
    several = [hostile.numbers(rng, "any", shape, dtype), *edges(dtype, shape, rng)]
    for i, rounding in enumerate(NAMES):
        pool = Pool(Avg(i % 2 == 0, rounding=rounding), window, axes)
        expected = exact(pool, several[i])
        for how, y in by_every_way(pool, several[i]):
            assert y.dtype == dtype, how
            np.testing.assert_array_equal(y, expected, how)


def test_the_pairs_go_their_way():
    for dtype, way in ((np.uint8, "pairs"), (np.int16, "pairs"), (np.int32, "rows")):
        for kind in (Avg(rounding="half_even"), Avg(), Sum()):
            x = np.zeros((4, 8, 200), dtype)
            for level in set(_engine.levels()) - {"baseline"}:
                _engine.set_level(level)
                assert ways(Pool(kind, Window((2, 2))), x, "forward")[0] == way


@pytest.mark.parametrize("dtype", [each for each in INTEGERS if each.itemsize <= 2], ids=str)
@pytest.mark.parametrize("road", [name for name in ROADS if "2x2" in name or "two" in name or "pairs" in name])
def test_pairs_of_sums_and_means(road, dtype):
    """The way of pairs is that of Sum and of the float64 mean as well."""
    window, shape, axes = ROADS[road]
    rng = np.random.default_rng(1)
    for x in (hostile.numbers(rng, "any", shape, dtype), *edges(dtype, shape, rng)[:2]):
        for kind in (Sum(), Avg(), Avg(False)):
            pool = Pool(kind, window, axes)
            expected = Gathered(pool, x).value()
            for how, y in by_every_way(pool, x):
                np.testing.assert_array_equal(y, expected.astype(y.dtype), how)


# --- 64 bits, and many cells ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.dtype(np.int64), np.dtype(np.uint64)], ids=str)
@pytest.mark.parametrize("cells", [2, 3, 7, 8, 64, 243, 999, 1000])
def test_no_sum_overflows(cells, dtype):
    rng = np.random.default_rng(cells)
    for x in (hostile.numbers(rng, "any", (3, 2011), dtype), *edges(dtype, (3, 2011), rng)):
        for rounding in NAMES:
            pool = Pool(Avg(cells % 2 == 0, rounding=rounding), Window((cells,), max(cells // 3, 1), cells // 4))
            expected = exact(pool, x)
            for level in _engine.levels():
                _engine.set_level(level)
                np.testing.assert_array_equal(pool(x), expected, f"{rounding} at {level}")


@pytest.mark.parametrize("rounding", NAMES)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_sums_beyond_the_first_lanes(dtype, rounding):
    """Windows of more cells than 32 bits have the sums of: lanes of 64."""
    rng = np.random.default_rng(4)
    pool = Pool(Avg(rounding=rounding), Global(), (1,))
    for x in edges(dtype, (2, 40001), rng):
        expected = [[ROUNDINGS[rounding](sum(row), len(row))] for row in x.tolist()]
        for level in _engine.levels():
            _engine.set_level(level)
            assert pool(x).tolist() == expected, level


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_quotients_at_their_edges(data):
    """Sums just below, at and just above a multiple of the divisor, and of its half."""
    dtype = np.dtype(data.draw(st.sampled_from([np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])))
    n = data.draw(st.integers(1, 400))
    limits = np.iinfo(dtype)
    windows = []
    for _ in range(24):
        half = data.draw(st.integers(2 * int(limits.min), 2 * int(limits.max)))
        total = half * n // 2 + data.draw(st.integers(-1, 1))
        total = min(max(total, int(limits.min) * n), int(limits.max) * n)
        each, rest = divmod(total, n)
        windows.append([each + (i < rest) for i in range(n)])
    x = np.array(windows, dtype=object).astype(dtype)
    rounding = data.draw(st.sampled_from(NAMES))
    expected = [[ROUNDINGS[rounding](sum(row), n)] for row in windows]
    for level in _engine.levels():
        _engine.set_level(level)
        assert Pool(Avg(rounding=rounding), Window((n,)))(x).tolist() == expected


def test_the_rules_are_those_of_fractions():
    """Each rule from the rational mean alone."""
    half = Fraction(1, 2)
    for n in range(1, 9):
        for total in range(-40, 41):
            mean = Fraction(total, n)
            away = abs(mean) + half
            assert ROUNDINGS["half_even"](total, n) == round(mean)
            assert ROUNDINGS["half_up"](total, n) == (mean + half).__floor__()
            assert ROUNDINGS["half_away"](total, n) == away.__floor__() * (1 if mean > 0 else -1)
            assert ROUNDINGS["floor"](total, n) == mean.__floor__()
            assert ROUNDINGS["truncate"](total, n) == mean.__trunc__()


# --- arrays -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.uint64])
def test_fortran_order_is_read_and_kept(dtype):
    rng = np.random.default_rng(5)
    x = np.asfortranarray(rng.integers(0, 200, (70, 12, 8)).astype(dtype))
    pool = Pool(Avg(rounding="half_even"), Window((2, 2, 2)))
    y = pool(x)
    assert y.flags.f_contiguous
    same(y, pool(np.ascontiguousarray(x)))


def test_results_go_where_they_are_asked_to():
    rng = np.random.default_rng(6)
    x = rng.integers(-100, 100, (5, 31, 61)).astype(np.int8)
    pool = Pool(Avg(False, rounding="half_away"), Window((3, 3), 2, 1))
    expected = pool(x)
    base = np.full((5, 33, 66), 77, np.int8)
    out = base[:, 1:32:2, 3:65:2]
    assert pool(x, out=out) is out
    same(out.copy(), expected)
    out[...] = 77
    assert (base == 77).all()


@pytest.mark.parametrize("shape", [(0, 4, 4), (3, 4, 4, 0)])
def test_nothing_gives_nothing(shape):
    pool = Pool(Avg(rounding="half_even"), Window((2, 2)), (1, 2))
    x = np.empty(shape, np.uint16)
    assert pool(x).dtype == np.uint16
    assert pool(x).shape == pool.output_shape(shape)


def test_large_arrays_on_several_threads():
    """Results that go past the caches, and the same on any number of threads."""
    rng = np.random.default_rng(7)
    x = rng.integers(0, 2**16, (9, 1200, 1210), dtype=np.uint16)
    pool = Pool(Avg(rounding="half_even"), Window((2, 2)))
    total = x.astype(np.uint32).reshape(9, 600, 2, 605, 2).sum((2, 4))
    expected = ((total + 1 + (total >> 2 & 1)) >> 2).astype(np.uint16)
    out = np.zeros_like(expected)
    for threads in (1, 2, 5):
        set_num_threads(threads)
        same_bytes(pool(x, out=out), expected)


# --- derivatives ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64])
@pytest.mark.parametrize("road", ["2x2, padded", "k5s3d2, ceil_mode", "adaptive", "channels last, 5"])
def test_derivatives_are_those_of_the_mean(road, dtype):
    window, shape, axes = ROADS[road]
    rng = np.random.default_rng(8)
    x = hostile.numbers(rng, "any", shape, dtype)
    for pad in (True, False):
        rounded, mean = (Pool(Avg(pad, rounding=name), window, axes) for name in ("half_even", None))
        t, g = rng.normal(size=shape), rng.normal(size=mean.output_shape(shape))
        y, dy = rounded.jvp(x, t)
        same(y, rounded(x))
        same_bytes(dy, mean.jvp(x, t)[1])
        same_bytes(rounded.vjp(x)[1](g), mean.vjp(x)[1](g))
        linear = rounded.linearize(x)[1]
        same_bytes(linear.push(t), dy)
        same_bytes(linear.pull(g), rounded.vjp(x)[1](g))
        for level in _engine.levels():
            _engine.set_level(level)
            for by, direction in ((push_by, t), (vjp_by, g)):
                for path in ways(rounded, x, "push" if by is push_by else "pull"):
                    same_bytes(by(rounded, x, direction, path), by(mean, x, direction, path))
            for path in ways(rounded, x, "jvp"):
                same(jvp_by(rounded, x, t, path)[0], y)


def test_derivatives_are_the_specifications():
    rng = np.random.default_rng(9)
    x = rng.integers(-9, 9, (2, 5, 7)).astype(np.int16)
    pool = Pool(Avg(False, rounding="truncate"), Window((2, 3), 2, 1))
    t, g = rng.integers(-4, 4, x.shape) * 0.5, rng.integers(-4, 4, pool.output_shape(x.shape)) * 0.5
    np.testing.assert_allclose(pool.jvp(x, t)[1], spec.jvp(pool, x, t)[1], rtol=1e-15)
    np.testing.assert_allclose(pool.vjp(x)[1](g), spec.vjp(pool, x, g), rtol=1e-15, atol=1e-15)


# --- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*hostile.FLOATS, np.dtype(np.complex64)], ids=str)
def test_floats_are_not_rounded(dtype):
    pool = Pool(Avg(rounding="half_even"), Window((2,)))
    said = f"rounding='half_even' is for integers, and x has {dtype.name}; leave rounding out"
    with pytest.raises(TypeError, match=re.escape(said)):
        pool(np.zeros((3, 4), dtype))


@pytest.mark.parametrize("rounding", ["even", "HALF_UP", "", 0, True, "half_even "])
def test_unknown_roundings(rounding):
    with pytest.raises(ValueError, match=re.escape(f"rounding={rounding!r} is not a way to round; give one of")):
        Avg(rounding=rounding)


def test_not_with_another_divisor():
    with pytest.raises(ValueError, match=r"rounding='floor' with divisor_override=3: .* leave one of the two out"):
        Avg(divisor_override=3, rounding="floor")


def engine_plan(option, dtype="uint8", result="uint8", derivative="float64", cells=4):
    line = (cells, 2, cells // 2, cells // 2, 1, 0, 0, 0)
    return _engine.Plan([line], "avg", option, 0.0, dtype, result, derivative, 0)


@pytest.mark.parametrize("option", [f"{counts} {name}" for counts in ("counted", "real") for name in NAMES])
def test_what_the_engine_takes(option):
    x, y = np.array([0, 1, 2, 5], np.uint8), np.zeros(2, np.uint8)
    engine_plan(option).forward(x, y)
    assert y.tolist() == [ROUNDINGS[option.split()[1]](total, 2) for total in (1, 7)]


@pytest.mark.parametrize("option", ["counted even", "fixed floor", "half_even", "counted  floor", "real half_even "])
def test_options_that_the_engine_has_not(option):
    with pytest.raises(ValueError, match=f"'avg' has no option '{option}'"):
        engine_plan(option)


@pytest.mark.parametrize(("dtype", "result"), [("uint8", "float64"), ("uint8", "int8"), ("int32", "int64")])
def test_types_that_the_engine_refuses(dtype, result):
    with pytest.raises(ValueError, match=f"'avg' of {dtype} does not give {result}"):
        engine_plan("counted half_up", dtype, result)


def test_floats_that_the_engine_refuses():
    with pytest.raises(ValueError, match="'avg' rounds means of integers, not of float32"):
        engine_plan("counted half_up", "float32", "float32", "float32")


def test_results_of_another_size_are_refused():
    with pytest.raises(ValueError, match="y has 16 bytes in elements of 8; expected 2 elements of 1"):
        engine_plan("counted half_up").forward(np.zeros(4, np.uint8), np.zeros(2))


def test_more_cells_than_are_added_up_exactly():
    for dtype, most in (("int32", 2**31), ("uint64", 2**31), ("uint8", 2**39)):
        engine_plan("counted floor", dtype, dtype, cells=2 * most)
    for dtype in ("uint32", "int64"):
        with pytest.raises(OverflowError, match=rf"a mean that is rounded has at most 2\*\*31 cells of {dtype}"):
            engine_plan("counted floor", dtype, dtype, cells=2**32 + 2)
