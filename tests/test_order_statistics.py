"""Modes and quantiles in the engine, against the specification, NumPy and SciPy."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from closeness import last_place, same_bytes, within
from closeness import same as equal
from ndpool import Adaptive, Global, Median, Mode, Pool, Quantile, Window, _engine, spec
from ways import forward_by, jvp_by, push_by, vjp_by, ways, winners_by

MODES = [Mode(ties) for ties in ("first", "smallest", "largest")]
CHOOSING = [Quantile(0.3, method) for method in ("lower", "higher", "nearest")]
BETWEEN = [Median(), Quantile(0.1), Quantile(0.9), Quantile(0.35, "midpoint"), Quantile(0.0), Quantile(1.0)]
KINDS = [*MODES, *CHOOSING, *BETWEEN]
INTEGERS = [np.dtype(f"{sign}{size}") for sign in "iu" for size in (1, 2, 4, 8)]
FLOATS = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(np.float64)]
DTYPES = [np.dtype(bool), *INTEGERS, *FLOATS]


@pytest.fixture(autouse=True)
def _level_as_before():
    before = _engine.level()
    yield
    _engine.set_level(before)


def cells(rng, shape, dtype, flavour):
    """Many ties; numbers from end to end of the dtype; for floats, what is odd."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.4
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        few = [limits.min, limits.max, 0, 1, 2, 3] if flavour == "odd" else [0, 1, 2, 3]
        if flavour in ("ties", "odd"):
            return rng.choice(np.array(few, dtype), shape)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    if flavour == "ties":
        return rng.integers(-2, 3, shape).astype(np.float64).astype(dtype)
    x = rng.normal(size=shape)
    if flavour == "odd":
        some = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, 1e-40, -1e-40])
        x = np.where(rng.random(shape) < 0.5, rng.choice(some, shape, p=[0.05, *[0.1] * 2, *[0.15] * 5]), x)
    return x.astype(dtype)


def directions(rng, pool, x):
    dtype = np.float64 if x.dtype.kind in "biu" else x.dtype
    return rng.normal(size=x.shape).astype(dtype), rng.normal(size=pool.output_shape(x.shape)).astype(dtype)


def agree(pool, x, rng, levels=None):
    """Every operation, by every way at every level, with the specification."""
    t, g = directions(rng, pool, x)
    with np.errstate(all="ignore"):
        y, dy = spec.jvp(pool, x, t)
        gx = spec.vjp(pool, x, g)
        index = spec.winners(pool, x) if pool.kind.one_winner() else None
    loose = 2e-2 if gx.dtype.itemsize == 2 else 2e-6 if gx.dtype == np.float32 else 1e-14

    def close(a, b):
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=loose, atol=loose)

    def same(a, b):
        """To the bit, but for bfloat16, which NumPy rounds twice."""
        if a.dtype == ml_dtypes.bfloat16 and index is None:
            within(a, b, last_place(a.dtype, b.astype(np.float64)))
        else:
            equal(a, b)

    for level in levels or _engine.levels():
        _engine.set_level(level)
        same(pool(x), y)
        ours, change = pool.jvp(x, t)
        same(ours, y)
        close(change, dy)
        ours, linear = pool.linearize(x)
        same(ours, y)
        close(linear.push(t), dy)
        close(linear.pull(g), gx)
        if index is not None:
            same(pool.with_indices(x)[1], index)
        if x.size == 0 or x.dtype == bool or not x.flags.c_contiguous:
            continue
        for way in ways(pool, x, "forward"):
            same(forward_by(pool, x, way), y)
        for way in ways(pool, x, "jvp"):
            close(jvp_by(pool, x, t, way)[1], dy)
        for way in ways(pool, x, "linearize") if index is not None else ():
            same(winners_by(pool, x, way)[0], y)
        for way in ways(pool, x, "push"):
            close(push_by(pool, x, t, way), dy)
        for way in ways(pool, x, "pull"):
            close(vjp_by(pool, x, g, way), gx)


CASES = [
    (Window((2, 2)), (2, 5, 7), None),
    (Window((3, 3), 1, 1), (2, 6, 21), None),
    (Window((3,), 2, ((2, 0),), 2, ceil_mode=True), (3, 40), None),
    (Window((2, 3), (1, 2), (1, 2)), (1, 6, 9, 5), (1, 2)),
    (Window((2, 2, 2)), (4, 4, 35), None),
    (Window((5,), 3, 4), (2, 11), None),
    (Window((9, 9), 2, 4), (12, 14), None),
    (Window((9, 8), (4, 1), (0, 3)), (11, 13), None),
    (Window((16, 17), 1, (1, 0)), (15, 18), None),
    (Adaptive((3, 2)), (2, 7, 5), None),
    (Adaptive((3, 2)), (7, 5, 3), (0, 1)),
    (Adaptive((3,)), (5, 9), None),
    (Global(), (2, 3, 7), (1, 2)),
    (Global(False), (9, 10, 3), (0, 1)),
]


@pytest.mark.parametrize("flavour", ["ties", "spread", "odd"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype, flavour):
    rng = np.random.default_rng(len(str(dtype)) + len(flavour))
    for number, kind in enumerate(KINDS):
        window, shape, axes = CASES[(number + DTYPES.index(np.dtype(dtype))) % len(CASES)]
        agree(Pool(kind, window, axes), cells(rng, shape, dtype, flavour), rng, _engine.levels()[-1:])


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.int64], ids=str)
@pytest.mark.parametrize("kind", [Mode(), Quantile(0.4, "nearest"), Median()], ids=repr)
def test_every_window_at_every_level(kind, dtype):
    rng = np.random.default_rng(1)
    for window, shape, axes in CASES[np.dtype(dtype).itemsize % 2 :: 2]:
        agree(Pool(kind, window, axes), cells(rng, shape, dtype, "ties"), rng)


SKIPS = {"b": [0, 1], "i": [0, 2, "min", "max"], "u": [0, 2, "max"], "f": [np.nan, 0, 1, np.inf], "V": [np.nan, -1]}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_skipped_cells(dtype):
    rng = np.random.default_rng(2)
    for number, kind in enumerate(KINDS):
        for skip in SKIPS[np.dtype(dtype).kind]:
            window, shape, axes = CASES[(number + int(rng.integers(2))) % len(CASES)]
            value = getattr(np.iinfo(dtype), skip) if isinstance(skip, str) else skip
            x = cells(rng, shape, dtype, "odd" if rng.random() < 0.5 else "ties")
            x[rng.random(shape) < rng.choice([0.3, 0.9])] = value
            pool = Pool(kind, window, axes, skip=value)
            most = int(np.prod([axis.kernel for axis in pool._layout(shape).geometry]))
            least = min(int(rng.integers(1, 4)), most)
            agree(Pool(kind, window, axes, skip=value, min_count=least), x, rng, _engine.levels()[-1:])


@pytest.mark.parametrize("kind", [Mode(), Mode("largest"), Quantile(0.4, "lower"), Median()], ids=repr)
def test_skipped_cells_at_every_level(kind):
    rng = np.random.default_rng(3)
    for number, (window, shape, axes) in enumerate(CASES):
        x = cells(rng, shape, np.float32, "odd")
        agree(Pool(kind, window, axes, skip=(np.nan, 1.5)[number % 2]), x, rng)
        agree(Pool(kind, window, axes, skip=0), cells(rng, shape, np.uint8, "odd"), rng, _engine.levels()[:1])


def test_all_cells_skipped():
    for kind in KINDS:
        pool = Pool(kind, Window((2, 2)), skip=np.nan)
        x = np.full((4, 4), np.nan, np.float32)
        y, pullback = pool.vjp(x)
        assert np.isnan(y).all()
        np.testing.assert_array_equal(pullback(np.ones_like(y)), 0)
        np.testing.assert_array_equal(pool.jvp(x, np.ones_like(x))[1], 0)
        if kind.one_winner():
            np.testing.assert_array_equal(pool.with_indices(x)[1], -1)


# --- known answers --------------------------------------------------------------------------------


def test_known_answers():
    x = np.array([7, 3, 3, 7, 1, 1, 9, 9], np.uint8)
    assert Pool(Mode(), Window((8,)))(x) == [7]
    assert Pool(Mode("smallest"), Window((8,)))(x) == [1]
    assert Pool(Mode("largest"), Window((8,)))(x) == [9]
    assert Pool(Median(), Window((8,)))(x) == [5.0]
    assert Pool(Quantile(0.5, "higher"), Window((8,)))(x) == [7]
    assert Pool(Mode(), Window((8,)), skip=7)(x) == [3]


def test_a_nan_among_modes_is_both():
    x = np.array([np.nan, 1, 2, 1, np.nan, 2], np.float32)
    assert np.isnan(Pool(Mode("smallest"), Window((6,)))(x)).all()
    assert np.isnan(Pool(Mode("largest"), Window((6,)))(x)).all()
    assert Pool(Mode("smallest"), Window((6,)), skip=np.nan)(x) == [1]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("kind", [*MODES, *CHOOSING], ids=repr)
def test_a_zero_has_the_sign_of_its_cell(kind, dtype):
    rng = np.random.default_rng(4)
    for window, shape in ((Window((2, 3), 1, 1), (9, 40)), (Window((9, 9), 1), (12, 30))):
        x = rng.choice(np.array([0.0, -0.0, 1.0]), shape, p=[0.45, 0.45, 0.1]).astype(dtype)
        pool = Pool(kind, window)
        expected = spec.forward(pool, x)
        for level in _engine.levels():
            _engine.set_level(level)
            for way in ways(pool, x, "forward"):
                same_bytes(forward_by(pool, x, way), expected)


# --- other libraries ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32, np.float64])
@pytest.mark.parametrize("method", ["linear", "midpoint", "lower", "higher", "nearest"])
def test_quantiles_are_those_of_numpy(method, dtype):
    rng = np.random.default_rng(5)
    for q in (0, 0.1, 0.25, 0.5, 0.9, 1):
        for k in (2, 3, 5, 9):
            x = cells(rng, (4 * k, 6 * k), dtype, "spread")
            blocks = x.reshape(4, k, 6, k).swapaxes(1, 2).reshape(4, 6, -1)
            ours = Pool(Quantile(q, method), Window((k, k)))(x)
            theirs = np.quantile(blocks.astype(np.float64), q, axis=-1, method=method)  # its int32 overflow
            np.testing.assert_allclose(ours, theirs.astype(ours.dtype), rtol=1e-7 if dtype == np.float32 else 1e-14)


def test_missing_data_as_numpy_has_it():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(48, 60))
    x[rng.random(x.shape) < 0.3] = np.nan
    blocks = x.reshape(12, 4, 15, 4).swapaxes(1, 2).reshape(12, 15, -1)
    np.testing.assert_allclose(Pool(Median(), Window((4, 4)), skip=np.nan)(x), np.nanmedian(blocks, -1), rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("k", [2, 3, 4, 5, 7, 12])
def test_modes_are_those_of_scipy(k, dtype):
    rng = np.random.default_rng(7)
    x = rng.integers(0, 9, (3 * k, 20 * k)).astype(dtype)
    blocks = x.reshape(3, k, 20, k).swapaxes(1, 2).reshape(3, 20, -1)
    np.testing.assert_array_equal(Pool(Mode("smallest"), Window((k, k)))(x), scipy.stats.mode(blocks, axis=-1).mode)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.uint64], ids=str)
@pytest.mark.parametrize("k", [2, 3, 4, 5, 6, 7])
def test_every_rank_of_a_square(k, dtype):
    """Groups of cells are merged in registers: columns where windows overlap, cells of a window where they do not."""
    rng = np.random.default_rng(k)
    x = cells(rng, (2 * k + 3, 150), dtype, "ties" if k % 2 else "ends")
    windows = np.sort(np.lib.stride_tricks.sliding_window_view(x, (k, k)).reshape(k + 4, 151 - k, k * k), axis=-1)
    for level in _engine.levels():
        _engine.set_level(level)
        for rank, stride in itertools.product(range(k * k), (1, 2, k)):
            pool = Pool(Quantile(rank / (k * k - 1), "nearest"), Window((k, k), stride))
            equal(pool(x), windows[::stride, ::stride, rank])
        for q in (0.0, 0.3, 0.5, 1.0):
            want = np.quantile(windows.astype(np.float64), q, axis=-1)
            within(Pool(Quantile(q), Window((k, k), 1))(x).astype(np.float64), want, 1e-6 * np.abs(want))
    wide = Pool(Quantile(0.5, "lower"), Window((1, k * k), 1))(x)
    row = np.sort(np.lib.stride_tricks.sliding_window_view(x, k * k, axis=1), axis=-1)
    equal(wide, row[..., (k * k - 1) // 2])


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.uint64], ids=str)
@pytest.mark.parametrize("values", [2, 5, 9, 200])
def test_modes_of_long_windows(values, dtype):
    """Few values are taken out one by one; of many, every cell is compared. The last lanes of a row are none of it."""
    rng = np.random.default_rng(values)
    for kernel, shape in (((5, 5), (35, 215)), ((4, 4, 4), (8, 8, 36)), ((9, 9), (27, 90)), ((15, 16), (30, 64))):
        x = np.where(rng.random(shape) < 0.5, rng.integers(0, values, shape), 7 % values).astype(dtype)
        index = [np.arange(n // k * k).reshape(-1, k) for n, k in zip(shape, kernel, strict=True)]
        outputs = tuple(len(each) for each in index)
        want = {ties: np.empty(outputs, dtype) for ties in ("first", "smallest", "largest")}
        for out in np.ndindex(outputs):
            block = x[np.ix_(*(each[i] for each, i in zip(index, out, strict=True)))].ravel()
            found, first, counts = np.unique(block, return_index=True, return_counts=True)
            most = counts == counts.max()
            want["first"][out] = block[first[most].min()]
            want["smallest"][out], want["largest"][out] = found[most].min(), found[most].max()
        for level, ties in itertools.product(_engine.levels(), want):
            _engine.set_level(level)
            equal(Pool(Mode(ties), Window(kernel))(x), want[ties])


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64], ids=str)
@pytest.mark.parametrize("bits", [8, 9, 17])
def test_integers_that_differ_in_their_lower_bits_alone(bits, dtype):
    """They are found as narrower ones, whatever their upper bits are; one cell that differs more, and they are not."""
    rng = np.random.default_rng(bits)
    limits = np.iinfo(dtype)
    few = rng.integers(0, 2**bits, 5)
    for start, kernel in itertools.product((limits.min, limits.max - 2**bits + 1, 0), ((3, 3), (2, 2))):
        x = (start + rng.choice([*few, 2**bits - 1], (12, 66)).astype(object)).astype(dtype)
        other = x.copy()
        other[7, 40] ^= np.asarray(1, dtype) << np.asarray(limits.bits - 2, dtype)
        for kind, skip in itertools.product((*MODES, Quantile(0.6, "lower")), (None, int(x[0, 0]), 5)):
            pool = Pool(kind, Window(kernel), skip=skip)
            for cells in (x, other):
                same_bytes(pool(cells), spec.forward(pool, cells))


@pytest.mark.parametrize("k", [3, 5, 7, 9, 15, 31])
def test_wide_medians_are_those_of_scipy(k):
    from scipy.ndimage import median_filter

    rng = np.random.default_rng(8)
    for dtype in (np.uint8, np.uint16, np.float32):
        x = cells(rng, (70, 90), dtype, "spread")
        inside = np.s_[k // 2 : -(k // 2), k // 2 : -(k // 2)]
        pool = Pool(Quantile(0.5, "lower"), Window((k, k), 1))
        np.testing.assert_array_equal(pool(x), median_filter(x, k)[inside])


@pytest.mark.parametrize("skip", [None, 0, 3, 127])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float16], ids=str)
def test_all_ways_of_wide_windows_agree(dtype, skip):
    rng = np.random.default_rng(12)
    for window, shape, axes in (
        (Window((9, 9), 1, 4), (3, 20, 21), None),
        (Window((5, 9), (2, 2), (0, 3)), (20, 21), None),
        (Window((20, 20), 3, 5, ceil_mode=True), (30, 41), None),
        (Window((9, 7), 1), (12, 13, 3), (0, 1)),
        (Window((3, 2, 8), 1, (1, 1, 4)), (5, 6, 17), None),
        (Window((19, 21), 1), (60, 90), None),
    ):
        x = cells(rng, shape, dtype, "spread")
        if skip is not None:
            x[rng.random(shape) < 0.4] = skip
        for kind in (Quantile(0.5, "lower"), Median(), Quantile(0.9), Quantile(0.3, "nearest")):
            pool = Pool(kind, window, axes, skip=skip, min_count=1 if skip is None else 2)
            expected = forward_by(pool, x, "windows")
            for level in _engine.levels():
                _engine.set_level(level)
                for way in ways(pool, x, "forward"):
                    same_bytes(forward_by(pool, x, way), expected)


# --- orders of memory -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Mode(), Mode("largest"), Quantile(0.3, "nearest"), Median()], ids=repr)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.uint64], ids=str)
def test_any_order_of_memory(kind, dtype):
    rng = np.random.default_rng(9)
    for window, shape in (
        (Window((2, 3, 2), 1), (5, 6, 7)),
        (Window((2, 2, 2)), (4, 6, 20)),
        (Window((5, 4, 5), 2, 1), (8, 9, 7)),
        (Global(), (3, 4, 5)),
        (Adaptive((2, 3, 2)), (5, 6, 4)),
    ):
        x = cells(rng, shape, dtype, "ties")
        axes = (0, 1, 2)
        pool = Pool(kind, window, axes)
        for order in ((2, 1, 0), (1, 0, 2), (2, 0, 1), (0, 2, 1))[:: 1 if dtype == np.float32 else 3]:
            turned = x.transpose(order).copy().transpose(np.argsort(order))
            agree(pool, turned, rng, _engine.levels()[-1:])
        agree(pool, x[::-1, :, ::-1], rng, _engine.levels()[-1:])


@pytest.mark.parametrize("skip", [None, 0])
@pytest.mark.parametrize("kind", [Mode(), Mode("largest"), Quantile(0.5, "lower"), Median()], ids=repr)
def test_an_axis_of_one_cell_that_lies_elsewhere(kind, skip):
    """Its stride says nothing, so it may come last in memory, and windows reach over its padding all the same."""
    rng = np.random.default_rng(11)
    pool = Pool(kind, Window((2, 3), 2, padding=1), skip=skip)
    for order in itertools.permutations(range(3)):
        x = np.ascontiguousarray(rng.integers(0, 4, (5, 1, 4)).transpose(order)).transpose(np.argsort(order))
        y, pullback = pool.vjp(x)
        g = rng.standard_normal(y.shape)
        np.testing.assert_allclose(pullback(g), spec.vjp(pool, x, g), rtol=1e-12, atol=1e-12)
        if kind.one_winner():
            np.testing.assert_array_equal(pool.with_indices(x)[1], spec.winners(pool, x))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_random_pools(data):
    rank = data.draw(st.integers(1, 3))
    kernel = tuple(data.draw(st.integers(1, 4)) for _ in range(rank))
    stride = tuple(data.draw(st.integers(1, 4)) for _ in range(rank))
    dilation = tuple(data.draw(st.integers(1, 2)) for _ in range(rank))
    reach = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    padding = tuple((data.draw(st.integers(0, r)), data.draw(st.integers(0, r))) for r in reach)
    window = Window(kernel, stride, padding, dilation, ceil_mode=data.draw(st.booleans()))
    inner = data.draw(st.sampled_from([None, 1, 3, 17]))
    shape = tuple(r + data.draw(st.integers(1, 6)) for r in reach)
    axes = tuple(range(1, rank + 1))
    shape = (2, *shape) if inner is None else (2, *shape, inner)
    kind = data.draw(st.sampled_from(KINDS))
    dtype = data.draw(st.sampled_from(DTYPES))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    x = cells(rng, shape, dtype, data.draw(st.sampled_from(["ties", "spread", "odd"])))
    skip = data.draw(st.sampled_from([None, 1, 0]))
    try:
        pool = Pool(kind, window, axes, skip=skip)
        pool.output_shape(shape)
    except ValueError:
        return
    agree(pool, x, rng, [data.draw(st.sampled_from(_engine.levels()))])


def test_threads_change_nothing():
    rng = np.random.default_rng(10)
    for kind in (Mode(), Quantile(0.2, "higher"), Median()):
        for window in (Window((3, 3), 1, 1), Window((9, 9), 1, 4), Window((11, 11), 3)):
            pool = Pool(kind, window)
            x = cells(rng, (2, 200, 190), np.float32, "odd")
            before = _engine.get_num_threads()
            results = []
            try:
                for threads in (1, 2, 3):
                    _engine.set_num_threads(threads)
                    y, pullback = pool.vjp(x)
                    results.append((y, pullback(np.cos(np.arange(y.size)).reshape(y.shape).astype(np.float32))))
            finally:
                _engine.set_num_threads(before)
            for y, gx in results[1:]:
                same_bytes(y, results[0][0])
                same_bytes(gx, results[0][1])


@pytest.mark.parametrize("kind", [Mode(), Quantile(0.3, "lower"), Median(), Quantile(0.8)], ids=repr)
@pytest.mark.parametrize("skip", [None, np.nan, 0])
def test_push_and_pull_are_adjoint(kind, skip):
    rng = np.random.default_rng(11)
    for window, shape, axes in CASES:
        x = cells(rng, shape, np.float64, "ties")
        if skip is not None:
            x[rng.random(shape) < 0.3] = skip
        pool = Pool(kind, window, axes, skip=skip)
        t, g = directions(rng, pool, x)
        linear = pool.linearize(x)[1]
        np.testing.assert_allclose(np.vdot(linear.push(t), g), np.vdot(t, linear.pull(g)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", [Mode(), Median()], ids=repr)
def test_empty_batches(kind):
    x = np.zeros((0, 4, 4), np.float32)
    y, pullback = Pool(kind, Window((2, 2))).vjp(x)
    assert y.shape == (0, 2, 2)
    assert pullback(y).shape == x.shape


def test_the_ways_that_are_chosen():
    def path(kind, window, shape, dtype=np.uint8, **more):
        return ways(Pool(kind, window, **more), np.zeros(shape, dtype), "forward")[0]

    assert path(Mode(), Window((2, 2, 2)), (8, 64, 64), np.uint32) == "network"
    assert path(Median(), Window((5, 5), 1), (64, 64)) == "network"
    assert path(Median(), Window((15, 15), 1), (64, 64)) == "network"
    assert path(Median(), Window((15, 15), 1), (64, 64), np.float64) == "ranks"
    assert path(Median(), Window((17, 17), 1), (64, 64)) == "histograms"
    assert ways(Pool(Median(), Window((17, 17), 1)), np.zeros((64, 64), np.uint8), "pull")[0] == "ranks"
    assert path(Median(), Window((17, 17)), (64, 64)) == "windows"
    assert path(Mode(), Window((17, 17), 1), (64, 64)) == "windows"
    assert path(Mode(), Window((3, 3), 1, 1), (500, 5, 5)) == "batch"
