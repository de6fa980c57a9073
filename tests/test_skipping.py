"""Cells that are not there: every kind that is computed by passes, against the specification.

Small pools are drawn at random. Large ones, which the engine takes a piece at a time, are compared with all windows
gathered.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from closeness import FEW_ROUNDINGS, derivative_allowance, finite_size, last_place, same, same_bytes, within
from hostile import DTYPES, FLOATS, INTEGERS, LAYOUTS, flavours, layout, numbers
from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window, _engine, set_num_threads, spec
from ndpool.kinds import ROUNDINGS
from ndpool.skipping import is_there
from oracle import Gathered
from strategies import RATIONAL_KINDS, SMOOTH_KINDS, cases
from ways import forward_by, jvp_by, push_by, vjp_by, ways, winners_by

KINDS = RATIONAL_KINDS + SMOOTH_KINDS
ROUNDED_KINDS = [Avg(count, rounding=rounding) for count in (True, False) for rounding in ROUNDINGS]
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0]


# --- what is expected -------------------------------------------------------------------------------


def skipped_in(pool, x):
    """Which cells are skipped."""
    wide = x.astype(object)
    return np.array([not is_there(cell, pool.skip) for cell in wide.ravel()], bool).reshape(x.shape)


def there_alone(pool, x):
    """The cells that are there, in float64; the others are NaN."""
    return np.where(skipped_in(pool, x), np.nan, x.astype(np.float64))


def unsigned(pool, x):
    """A pool and an input with the same weights without their signs."""
    if not isinstance(pool.kind, Lp):
        return pool, x
    return Pool(pool.kind, pool.window, pool.axes, math.nan, pool.min_count), np.abs(there_alone(pool, x))


def value_allowance(pool, x, y):
    kind = pool.kind
    if isinstance(kind, Max | Min) or y.dtype.kind in "biu":
        return 0.0
    size = finite_size(y)
    if isinstance(kind, Sum | Avg):
        sums = spec.forward(Pool(Sum(), pool.window, pool.axes), finite_size(there_alone(pool, x)))
        return last_place(y.dtype, size) + FEW_ROUNDINGS * sums
    if isinstance(kind, SmoothMax):
        size = size + np.log(2 + x.size) / abs(kind.beta)
    return 2 * last_place(y.dtype, size) + 2.0**-43 * size


def checked(pool, x, t, g):
    """All operations of the engine at x, each compared with the specification."""
    y = spec.forward(pool, x)
    found, linear = pool.linearize(x)
    allowed = value_allowance(pool, x, y)
    within(found, y, allowed)
    within(pool(x), y, allowed)
    sized, size = unsigned(pool, x)
    _, dy = spec.jvp(pool, x, t)
    mass = finite_size(spec.jvp(sized, size, finite_size(t))[1])
    allowed_dy = derivative_allowance(dy.dtype, dy, mass)
    pushed = linear.push(t)
    within(pushed, dy, allowed_dy)
    both = pool.jvp(x, t)
    within(both[0], y, allowed)
    within(both[1], dy, allowed_dy)
    gx = spec.vjp(pool, x, g)
    mass = finite_size(spec.vjp(sized, size, finite_size(g)))
    pulled = linear.pull(g)
    within(pulled, gx, derivative_allowance(gx.dtype, gx, mass))
    if pool.kind.one_winner() is not None:
        same(pool.with_indices(x)[1], spec.winners(pool, x))


# --- small pools, drawn at random -------------------------------------------------------------------


@st.composite
def skips(draw, x):
    """A value to skip: one of the array's own, or a special one."""
    own = sorted({cell for cell in x.ravel().tolist() if cell == cell})
    if x.dtype.kind in "biu":
        return draw(st.sampled_from(own)) if own else 0
    return draw(st.sampled_from([math.nan, *SPECIAL, *own]))


def most_cells(pool, shape):
    return math.prod(axis.kernel for axis in pool._layout(shape).geometry)


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_every_operation_is_that_of_the_specification(data):
    case = data.draw(cases(KINDS + ROUNDED_KINDS, max_cells=150))
    # Smooth kinds compute integers as float64, which do not tell large ones of 64 bits apart.
    exact = [dtype for dtype in DTYPES if dtype.kind not in "iu" or dtype.itemsize < 8]
    dtypes = exact if case.pool.kind in SMOOTH_KINDS else INTEGERS if case.pool.kind in ROUNDED_KINDS else DTYPES
    dtype = data.draw(st.sampled_from(dtypes))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x = numbers(rng, data.draw(st.sampled_from(flavours(dtype))), case.shape, dtype)
    if dtype.kind not in "biu":
        x = np.where(rng.random(x.shape) < data.draw(st.sampled_from([0, 0.3, 0.9])), np.nan, x).astype(dtype)
    x = layout(data.draw(st.sampled_from(sorted(set(LAYOUTS) - {"swapped"}))), x, rng)
    kind, skip = case.pool.kind, data.draw(skips(x))
    low = 1 if kind.needs_one_there else 0
    count = data.draw(st.sampled_from([low, 1, 1, 2, 3]))
    pool = Pool(kind, case.pool.window, case.pool.axes, skip, min(count, most_cells(case.pool, x.shape)))
    derivative = np.float64 if dtype.kind in "biu" else dtype
    t = rng.normal(size=x.shape).astype(derivative)
    # What a skipped cell's tangent is does not matter.
    t[skipped_in(pool, x) & (rng.random(x.shape) < 0.5)] = np.nan
    g = rng.normal(size=pool.output_shape(x.shape)).astype(derivative)
    checked(pool, x, t, g)


# --- large pools, a piece at a time -----------------------------------------------------------------


class Skipped:
    """`pool` over the large array `x`, from all of its windows: y, and the weight of every cell in every window."""

    def __init__(self, pool, x):
        self.pool, self.gathered = pool, Gathered(Pool(pool.kind, pool.window, pool.axes), x)
        cells = self.gathered.cells().astype(np.float64)
        skip = np.isnan(cells) if math.isnan(pool.skip) else cells == pool.skip
        self.there = self.gathered.real & ~skip
        self.count = self.there.sum(-1)
        self.enough = self.count >= pool.min_count
        self.value, self.weights = self._reduced(np.where(self.there, cells, 0), np.maximum(self.count, 1))
        self.weights = np.where(self.there & self.enough[..., None], self.weights, 0)

    def _reduced(self, cells, n):
        kind, there = self.pool.kind, self.there
        if isinstance(kind, Max | Min):
            sign = 1 if isinstance(kind, Max) else -1
            key = np.where(there, sign * cells, -np.inf)
            tied = there & (key == key.max(-1, keepdims=True))
            if kind.ties == "first":
                tied &= np.cumsum(tied, -1) == 1
            m = np.maximum(tied.sum(-1, keepdims=True), 1) if kind.ties == "split" else 1
            return sign * key.max(-1), tied / m
        if isinstance(kind, Sum | Avg):
            if isinstance(kind, Sum):
                n = np.ones_like(n)
            elif kind.divisor_override is not None:
                n = np.full_like(n, kind.divisor_override)
            elif kind.count_include_pad:
                n = n + self.gathered.pad
            return cells.sum(-1) / n, np.broadcast_to(1 / n[..., None], cells.shape)
        if isinstance(kind, Lp):
            y = (np.abs(cells) ** kind.p).sum(-1) ** (1 / kind.p)
            return y, np.sign(cells) * (np.abs(cells) / np.where(y == 0, 1, y)[..., None]) ** (kind.p - 1)
        terms = np.where(there, np.exp(kind.beta * cells), 0)
        total = terms.sum(-1) + (self.gathered.pad if kind.count_include_pad else 0)
        total = np.where(total == 0, 1, total)
        return np.log(total) / kind.beta, terms / total[..., None]

    def forward(self):
        return self.gathered.output(np.where(self.enough, self.value, self.pool.skip))

    def push(self, t):
        return self.gathered.output((self.weights * np.where(self.there, self.gathered.cells(t), 0)).sum(-1))

    def pull(self, g):
        gathered = self.gathered
        g = np.moveaxis(g.reshape(self._kept_shape()), gathered.axes, range(-len(gathered.axes), 0))
        shares = self.weights * g.reshape(*self.count.shape, 1)
        gx = np.zeros(gathered.matrix.shape)
        for row in range(len(gx)):
            np.add.at(gx[row], gathered.flat.ravel(), np.where(gathered.real, shares[row], 0).ravel())
        gx = gx.reshape(*gathered.others, *(gathered.x.shape[axis] for axis in gathered.axes))
        return np.moveaxis(gx, range(-len(gathered.axes), 0), gathered.axes)

    def _kept_shape(self):
        shape = list(self.gathered.x.shape)
        for axis, outputs in zip(self.gathered.axes, self.gathered.outputs, strict=True):
            shape[axis] = outputs
        return shape


def large(rng, shape, dtype, skip, share=0.3):
    """Small whole numbers with many ties, of which some are skipped; and a corner in which all are."""
    x = rng.integers(-4 if np.dtype(dtype).kind != "u" else 1, 9, shape).astype(dtype)
    x[rng.random(shape) < share] = skip
    x[tuple(slice(0, n // 2) for n in shape[-3:])] = skip
    return x


PIECES = [
    # One image, cut into bands on both ways; windows that overlap, tile and leave gaps.
    (Window((3, 3), 1, 1), (1, 450, 331), None),
    (Window((3, 3), 2, 1), (1, 600, 301), None),
    (Window((4, 4)), (1, 604, 268), None),
    (Window((2, 3), (5, 4), (1, 2)), (1, 601, 303), None),
    (Window((5, 3), (2, 1), ((7, 3), (0, 2)), (3, 2)), (1, 400, 262), None),
    (Window((2, 2), ceil_mode=True), (2, 355, 303), None),
    # Many slabs, channels last, one long row, three axes with one between them.
    (Window((3, 3), 2, 1), (64, 64, 33), None),
    (Window((2, 2)), (2, 90, 71, 16), (1, 2)),
    (Window((3, 3), 1, 1), (1, 130, 57, 17), (1, 2)),
    (Window((5,), 2, 3), (2, 70001), None),
    (Window((2, 3), (2, 1), (0, 1)), (60, 9, 250), (0, 2)),
    # Wide windows, bins and all of an axis, whose cells are too many for a byte.
    (Window((17, 16), (9, 8), 3), (1, 300, 330), None),
    (Window((3, 70), (2, 33), (1, 20)), (1, 101, 700), None),
    (Adaptive((7, 5)), (40, 61, 41), (1, 2)),
    (Global(), (70, 40, 41), (1, 2)),
    (Global(), (1, 400, 300), (1, 2)),
    (Adaptive((3, 2)), (1, 500, 202), (1, 2)),
]
LARGE_KINDS = [
    Max(),
    Min("split"),
    Max("all"),
    Sum(),
    Avg(),
    Avg(False),
    Avg(divisor_override=3),
    SmoothMax(0.5),
    Lp(2),
]


@pytest.mark.parametrize(("window", "shape", "axes"), PIECES)
def test_large_arrays(window, shape, axes):
    rng = np.random.default_rng(sum(shape))
    for number, kind in enumerate(LARGE_KINDS):
        dtype = [np.float32, np.float64][number % 2] if isinstance(kind, SmoothMax | Lp) else np.float32
        pool = Pool(kind, window, axes, math.nan, 1 + number % 2)
        x = large(rng, shape, dtype, math.nan)
        expected, (y, linear) = Skipped(pool, x), pool.linearize(x)
        t = rng.normal(size=shape).astype(dtype)
        g = rng.normal(size=y.shape).astype(dtype)
        close = {"rtol": 2e-6, "atol": 2e-5}
        np.testing.assert_allclose(y, expected.forward(), **close)
        np.testing.assert_allclose(linear.push(t), expected.push(t), **close)
        np.testing.assert_allclose(linear.pull(g), expected.pull(g), **close)
        np.testing.assert_array_equal(linear.pull(g)[np.isnan(x)], 0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("channels", [1, 3])
def test_one_long_window(dtype, channels):
    """Means of more cells than caches hold, of which a few thousand are there."""
    rng = np.random.default_rng(channels)
    x = np.full((1201, 1900 // channels, channels), np.nan, dtype)
    there = rng.random(x.shape) < 0.002
    x[there] = rng.integers(-9, 10, there.sum())
    count = there.sum((0, 1), keepdims=True)
    for kind, divisor in ((Avg(), count), (Sum(), 1), (Avg(divisor_override=7), 7)):
        for least in {Sum: [1], Avg: [1, int(count.min()) + 1]}[type(kind)]:
            pool = Pool(kind, Global(), (0, 1), math.nan, least)
            y, linear = pool.linearize(x)
            enough = count >= least
            total = np.nansum(x.astype(np.float64), (0, 1), keepdims=True)
            close = {"rtol": float(np.finfo(dtype).eps)}
            np.testing.assert_allclose(y.astype(np.float64), np.where(enough, total / divisor, np.nan), **close)
            pushed = linear.push(np.where(there, x, np.inf).astype(dtype)).astype(np.float64)
            np.testing.assert_allclose(pushed, np.where(enough, total / divisor, 0), **close)
            g = rng.normal(size=y.shape).astype(dtype)
            gx = np.where(there & enough, g.astype(np.float64) / divisor, 0)
            np.testing.assert_allclose(linear.pull(g).astype(np.float64), gx, 1e-3, 1e-4)


def test_gradients_go_into_views():
    rng = np.random.default_rng(4)
    x = large(rng, (1, 460, 301), np.float32, math.nan)
    for kind in (Max(), Avg(), Max("all"), SmoothMax(0.5)):
        y, linear = Pool(kind, Window((3, 3), 1, 1), skip=math.nan).linearize(x)
        g = rng.normal(size=y.shape).astype(np.float32)
        memory = np.full((1, 460, 2, 400), 7, np.float32)
        linear.pull(g, memory[:, :, 1, 3:304])
        same(memory[:, :, 1, 3:304], linear.pull(g))
        memory[:, :, 1, 3:304] = 7
        assert (memory == 7).all()


@pytest.mark.parametrize("dtype", DTYPES[:-1], ids=str)
def test_large_arrays_of_every_dtype_that_are_views(dtype):
    """The same numbers, dense and not: in Fortran order, and as crops with steps."""
    rng = np.random.default_rng(5)
    skip = math.nan if dtype in FLOATS else 3
    x = large(rng, (6, 150, 131), dtype, skip)
    fortran, steps = np.asfortranarray(x), np.zeros((7, 300, 140), dtype)
    steps[1:, ::2, 9:] = x
    for kind in (Max(), Max("split"), Sum(), Avg(), Lp(2)):
        pool = Pool(kind, Window((3, 2), 2, (1, 0)), skip=skip)
        y, linear = pool.linearize(x)
        g = rng.normal(size=y.shape).astype(linear.push(x.astype(y.dtype if y.dtype.kind == "f" else float)).dtype)
        gx = linear.pull(g)
        for view in (fortran, steps[1:, ::2, 9:]):
            found, other = pool.linearize(view)
            np.testing.assert_allclose(found.astype(float), y.astype(float), 1e-2 if dtype.itemsize == 2 else 1e-6)
            np.testing.assert_allclose(other.pull(g).astype(float), gx.astype(float), 1e-2, 1e-3)


def test_a_value_that_skipped_cells_are_replaced_by():
    """The lowest number of all, in cells that are there: it wins where nothing else does, and the first of it."""
    rng = np.random.default_rng(3)
    low = {np.uint8: 0, np.int16: -(2**15), np.float32: -np.inf, np.float64: -np.inf}
    for dtype, lowest in low.items():
        x = rng.choice(np.array([lowest, lowest, 7, 9], dtype), (3, 41, 67))
        for window in (Window((3, 3), 2, 1), Window((2, 2)), Window((17, 16), 5), Window((2, 9), (1, 4))):
            for kind in (Max(), Max("split"), Max("all")):
                pool = Pool(kind, window, skip=7)
                expected, (y, linear) = Skipped(pool, x), pool.linearize(x)
                g, t = rng.normal(size=y.shape), rng.normal(size=x.shape)
                derivative = np.float64 if np.dtype(dtype).kind in "iu" else dtype
                np.testing.assert_array_equal(y.astype(float), expected.forward())
                close = {"rtol": 1e-5, "atol": 1e-5}
                np.testing.assert_allclose(linear.push(t.astype(derivative)), expected.push(t), **close)
                np.testing.assert_allclose(pool.jvp(x, t.astype(derivative))[1], expected.push(t), **close)
                np.testing.assert_allclose(linear.pull(g.astype(derivative)), expected.pull(g), **close)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_means_that_stay_integers(dtype):
    """Of windows in pairs, of others, and of so many cells that a byte does not hold their number."""
    rng = np.random.default_rng(8)
    x = rng.integers(0, 100, (2, 70, 130)).astype(dtype)
    for window in (Window((2, 2)), Window((3, 3), 2, 1), Window((17, 16), 7)):
        for kind in ROUNDED_KINDS:
            pool = Pool(kind, window, skip=int(x[0, 0, 0]), min_count=2)
            plain = Pool(Avg(kind.count_include_pad), window, skip=pool.skip, min_count=2)(x)
            found = Pool(Sum(), window, skip=pool.skip, min_count=2)(x).astype(np.int64)
            count = np.rint(np.where(plain == 0, 1, found) / np.where(plain == 0, 1, plain)).astype(np.int64)
            count = np.where(found == 0, 1, count)
            rounded = np.vectorize(ROUNDINGS[kind.rounding], otypes=[np.int64])(found, count)
            few = Pool(Max(), window, skip=pool.skip, min_count=2).with_indices(x)[1] < 0
            same(pool(x), np.where(few, pool.skip, rounded).astype(dtype))


# --- paths, levels, threads -------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def engine_as_it_was():
    level = _engine.level()
    yield
    _engine.set_level(level)
    set_num_threads(2)


WAYS = [
    (Window((3, 3), 2, 1), (3, 41, 67), None),
    (Window((2, 2)), (2, 30, 64), None),
    (Window((3, 3), 1, 1), (2, 21, 50), None),
    (Window((4,), 3, 2), (40, 19), None),
    (Window((3, 3), 2, 1), (2, 11, 12, 17), (1, 2)),
    (Window((9, 9), 2, 4), (2, 40, 61), None),
]


@pytest.mark.parametrize(("window", "shape", "axes"), WAYS)
def test_every_way_at_every_level(window, shape, axes):
    rng = np.random.default_rng(11)
    close = {"rtol": 1e-5, "atol": 1e-5}
    for kind in (Max(), Min("split"), Avg(), Sum(), SmoothMax(0.5), Lp(2.5)):
        for dtype, skip in ((np.float32, math.nan), (np.float64, 2.0), (np.uint8, 0)):
            if dtype == np.uint8 and isinstance(kind, SmoothMax | Lp):
                continue
            pool, x = Pool(kind, window, axes, skip), large(rng, shape, dtype, skip)
            derivative = np.float64 if dtype == np.uint8 else dtype
            t, g = rng.normal(size=shape).astype(derivative), rng.normal(size=pool.output_shape(shape))
            expected, g = Skipped(pool, x), g.astype(derivative)
            y, dy, gx = expected.forward(), expected.push(t), expected.pull(g)
            for level in _engine.levels():
                _engine.set_level(level)
                for way in ways(pool, x, "forward"):
                    np.testing.assert_allclose(forward_by(pool, x, way), y, **close)
                if isinstance(kind, Max):
                    for way in ways(pool, x, "linearize"):
                        np.testing.assert_array_equal(winners_by(pool, x, way)[0], y)
                for way in ways(pool, x, "push"):
                    np.testing.assert_allclose(push_by(pool, x, t, way), dy, **close)
                for way in ways(pool, x, "jvp"):
                    np.testing.assert_allclose(jvp_by(pool, x, t, way)[1], dy, **close)
                for way in (*ways(pool, x, "pull"), "stream"):
                    np.testing.assert_allclose(vjp_by(pool, x, g, way), gx, **close)


BLOCKS = [
    # Blocks side by side along the row: whole, cut off, with cells that no window sees, with gaps between the rows.
    (Window((4, 4)), (2, 24, 64), None),
    (Window((2, 2), ceil_mode=True), (3, 9, 301), None),
    (Window((3, 8), (5, 8)), (2, 23, 275), None),
    (Window((2, 16), (2, 16), ((1, 1), (0, 3))), (1, 11, 530), None),
    (Window((2, 3, 4), ceil_mode=True), (2, 5, 7, 37), None),
    (Window((4,)), (5, 1031), None),
    # Others that have their cells to themselves.
    (Window((3, 5)), (2, 17, 83), None),
    (Window((2, 2), 3), (2, 18, 40, 5), (1, 2)),
    (Adaptive((4, 6)), (2, 16, 66), (1, 2)),
    # Those that share cells.
    (Window((3, 3), 2, 1), (2, 23, 70), None),
    (Window((9, 9), 1, 4), (1, 40, 61), None),
    (Window((3, 3), 1, 1), (1, 20, 18, 33), (1, 2)),
]


@pytest.mark.parametrize(("window", "shape", "axes"), BLOCKS)
def test_floats_in_one_pass(window, shape, axes):
    """Sums and numbers of cells together, at every level, past the caches and not, wherever results start in a line."""
    rng = np.random.default_rng(12)
    for kind, skip, least in (
        (Avg(), math.nan, 1),
        (Avg(False), -1.0, 3),
        (Sum(), 0.0, 0),
        (Avg(divisor_override=7), 2.0, 2),
    ):
        pool, x = Pool(kind, window, axes, skip, least), large(rng, shape, np.float32, skip)
        x[rng.random(shape) < 0.02] = -0.0
        g = rng.normal(size=pool.output_shape(shape)).astype(np.float32)
        expected = Skipped(pool, x)
        y, gx = expected.forward(), expected.pull(g)
        for level, path in itertools.product(_engine.levels(), ("", "stream")):
            _engine.set_level(level)
            for offset in (0, 1, 7):
                np.testing.assert_allclose(forward_by(pool, x, path, offset), y, rtol=2e-7, atol=1e-6)
                found = vjp_by(pool, x, g, path, offset)
                np.testing.assert_allclose(found, gx, rtol=5e-7, atol=1e-6)
                np.testing.assert_array_equal(found[skipped_in(pool, x)], 0)


def test_bins_of_a_large_image():
    """It is one piece, whose outputs alone are too many for the caches."""
    x = np.random.default_rng(0).random((1, 2200, 2100), np.float32)
    x[0, ::3, 1::2] = math.nan
    pool, g = Pool(Avg(), Adaptive((1100, 1050)), skip=math.nan), np.full((1, 1100, 1050), 2, np.float32)
    number = (~np.isnan(x)).reshape(1100, 2, 1050, 2).sum((1, 3))
    gx = pool.vjp(x)[1](g)
    want = np.where(np.isnan(x), 0, np.repeat(np.repeat(2 / number, 2, 0), 2, 1)[None])
    np.testing.assert_allclose(gx, want, rtol=1e-6)


def test_infinities_and_negative_zeros_in_one_pass():
    inf, nan = math.inf, math.nan
    x = np.array([[inf, nan, -0.0, nan, -inf, inf, nan, nan], [nan, 1, nan, -0.0, nan, 2, nan, nan]], np.float32)
    y = Pool(Sum(), Window((2, 2)), skip=nan)(x)
    np.testing.assert_array_equal(y, [[inf, -0.0, nan, nan]])
    assert np.signbit(y[0, 1])
    empty = Pool(Sum(), Window((2, 2)), skip=nan, min_count=0)(x)
    np.testing.assert_array_equal(empty, [[inf, 0.0, nan, 0.0]])
    assert not np.signbit(empty[0, 3])


@pytest.mark.parametrize("kind", [Max(), Max("split"), Avg(), SmoothMax(0.5)], ids=repr)
def test_the_number_of_threads_does_not_matter(kind):
    rng = np.random.default_rng(2)
    for shape, axes in (((1, 700, 500), None), ((12, 90, 100), None), ((2, 80, 90, 24), (1, 2))):
        pool, x = Pool(kind, Window((3, 3), 2, 1), axes, math.nan), large(rng, shape, np.float32, math.nan)
        g = rng.normal(size=pool.output_shape(shape)).astype(np.float32)
        results = []
        for threads in (1, 2, 5):
            set_num_threads(threads)
            y, linear = pool.linearize(x)
            results.append((y, linear.push(np.nan_to_num(x)), linear.pull(g)))
        for other in results[1:]:
            for one, two in zip(results[0], other, strict=True):
                same_bytes(one, two)


@settings(max_examples=100, deadline=None)
@given(cases(KINDS, max_cells=300), st.integers(0, 2**32))
def test_push_and_pull_are_transposed(case, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, case.shape).astype(np.float64)
    pool = Pool(case.pool.kind, case.pool.window, case.pool.axes, 2.0)
    y, linear = pool.linearize(x)
    t, g = rng.normal(size=x.shape), rng.normal(size=y.shape)
    size = np.abs(g).sum() * max(1, x.size)
    assert abs((linear.push(t) * g).sum() - (t * linear.pull(g)).sum()) <= 1e-13 * (1 + size)


def test_nothing_is_read_of_what_is_skipped():
    """Known answers: missing data, a background that does not win, too few cells."""
    x = np.array([[1.0, np.nan, 4.0, np.nan], [3.0, np.nan, np.nan, np.nan]])
    window = Window((2, 2))
    same(Pool(Avg(), window, skip=np.nan)(x), np.array([[2.0, 4.0]]))
    same(Pool(Max(), window, skip=np.nan, min_count=2)(x), np.array([[3.0, np.nan]]))
    same(Pool(Max(), window, skip=np.nan, min_count=2).with_indices(x)[1], np.array([[4, -1]]))
    same(Pool(Sum(), window, skip=np.nan, min_count=0)(np.full((2, 2), np.nan)), np.array([[0.0]]))
    labels = np.array([[0, 0, 0, 2], [0, 0, 1, 0]], np.uint8)
    same(Pool(Min(), window, skip=0)(labels), np.array([[0, 1]], np.uint8))
    same(Pool(Min(), window, skip=0).with_indices(labels)[1], np.array([[-1, 6]]))
    linear = Pool(Avg(), window, skip=np.nan).linearize(x)[1]
    same(linear.pull(np.array([[1.0, 1.0]])), np.array([[0.5, 0, 1, 0], [0.5, 0, 0, 0]]))
    assert linear.residual.x is x


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8"])
@pytest.mark.parametrize("channels", [3, 5, 8])
def test_ties_are_split_beside_outputs_that_see_too_few(channels, dtype):
    """An absent output equals none of its cells, so that ties cannot be told from how many cells equal any output."""
    rng = np.random.default_rng(channels)
    for min_count, outputs in ((1, 4), (2, 4), (3, 5)):
        x = rng.integers(0, 3, (7, channels)).astype(dtype)
        pool = Pool(Max("split"), Adaptive((outputs,)), (0,), skip=0, min_count=min_count)
        y, pullback = pool.vjp(x)
        g = rng.standard_normal(y.shape).astype("float32" if dtype == "float32" else "float64")
        within(pullback(g), spec.vjp(pool, x, g), 8 * last_place(g.dtype, np.abs(g).max()))


@pytest.mark.parametrize(
    ("dtype", "skip", "near"),
    [
        ("int64", 2**63 - 1, 2**63 - 2),
        ("int64", -(2**63), 1 - 2**63),
        ("uint64", 2**64 - 2, 2**64 - 1),
        ("int64", 2**53, 2**53 + 1),
    ],
)
@pytest.mark.parametrize("kind", [SmoothMax(1.0), SmoothMax(-1e-18), Lp(2), Avg(), Sum(), Max()], ids=repr)
def test_no_integer_is_skipped_for_its_neighbour(kind, dtype, skip, near):
    """As a float the one that is skipped and the one beside it are the same."""
    x = np.array([skip, near, 5, skip], dtype)
    pool = Pool(kind, Window((2,)), skip=skip)
    np.testing.assert_allclose(pool(x), spec.forward(pool, x), rtol=1e-15)
    g = np.array([0.5, -3.0])
    np.testing.assert_allclose(pool.vjp(x)[1](g), spec.vjp(pool, x, g), rtol=1e-12)
    assert (pool.vjp(x)[1](g)[[0, 3]] == 0).all()
