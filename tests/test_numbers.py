"""How near the numbers are: sums to the exact ones, smooth kinds to mpmath, 16-bit floats to the nearest, integers."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hostile
from closeness import same
from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window, _engine, spec
from ways import forward_by, ways


@pytest.fixture(params=_engine.levels())
def level(request):
    before = _engine.level()
    _engine.set_level(request.param)
    yield request.param
    _engine.set_level(before)


# --- Sum and Avg against the exact rational result ------------------------------------------------


def exact_total(cells):
    return sum(map(Fraction, cells.astype(np.float64).ravel().tolist()), start=Fraction(0))


def ulps(actual, exact):
    """How many units in the last place of the exact number's own rounding lie between the two."""
    nearest = actual.dtype.type(float(exact))
    unit = Fraction(float(np.spacing(np.abs(nearest))))
    return abs(Fraction(float(actual)) - exact) / unit


def conditioned(rng, n, dtype, condition):
    """N numbers of which the sum is about 1/condition of the sum of their magnitudes."""
    x = rng.uniform(1, 2, n) * rng.choice([-1, 1], n)
    x = x.astype(dtype).astype(np.float64)
    left = np.abs(x).sum() / condition - math.fsum(x)
    x[-1] += left
    return rng.permutation(x.astype(dtype))


#: Ways along which 10**4 cells, or fewer, are summed: a row, columns, blocks, segments, channels.
SUMMED = [
    pytest.param(Window((10000,)), (10000,), None, id="one row"),
    pytest.param(Window((100, 100)), (100, 100), None, id="a square"),
    pytest.param(Window((100, 100), 1), (101, 102), None, id="overlapping squares"),
    pytest.param(Window((2500,), 3), (2509,), None, id="overlapping rows"),
    pytest.param(Window((7, 1)), (7, 40), None, id="columns"),
    pytest.param(Window((1000,), 1000), (3000, 17), (0,), id="channels last"),
    pytest.param(Window((10, 10, 10, 10), 1), (10, 10, 10, 10), None, id="four axes"),
    pytest.param(Adaptive((3,)), (10001,), None, id="adaptive"),
]


@pytest.mark.parametrize("kind", [Sum(), Avg()], ids=repr)
@pytest.mark.parametrize(
    ("dtype", "condition"), [(np.float32, 1), (np.float32, 1e4), (np.float64, 1), (np.float64, 1e10)]
)
@pytest.mark.parametrize(("window", "shape", "axes"), SUMMED)
def test_sums_are_within_two_ulp(kind, dtype, condition, window, shape, axes, level):
    """Sum and Avg of up to 10**4 cells lie within 2 ulp of the exact rational result, for every method.

    `condition` is the sum of magnitudes over the magnitude of the sum. float32 is summed in float64, which loses at
    most n * condition * 2**-53 of the result: less than half an ulp of float32 for n * condition up to 2**29, so for
    10**4 cells of a condition of 5 * 10**4. float64 is summed with its rounding errors kept, as if in twice the
    precision.
    """
    pool = Pool(kind, window, axes)
    rng = np.random.default_rng(5)
    x = conditioned(rng, math.prod(shape), dtype, condition).reshape(shape)
    expected = {out: exact_total(np.array([x[i] for i in seen])) for out, seen in outputs(pool, x.shape, 6, rng)}
    numbers = list(counts(pool, x.shape, expected, kind))
    for way in ways(pool, x, "forward"):
        y = forward_by(pool, x, way)
        for out, (total, n) in zip(expected, numbers, strict=True):
            assert ulps(y[out], total / n) <= 2


def outputs(pool, shape, most, rng):
    """A few of the pool's outputs, with the indices of the cells that each sees."""
    axes, _ = spec._pooled(pool, shape)
    seen = list(spec.windows(pool, shape).items())
    for i in rng.permutation(len(seen))[:most]:
        out, cells = seen[i]
        place = [int(rng.integers(n)) for n in shape]
        yield spec._place(place, axes, out), [spec._place(place, axes, cell) for cell in cells if cell is not None]


def counts(pool, shape, expected, kind):
    axes, _ = spec._pooled(pool, shape)
    cells = spec.windows(pool, shape)
    for out, total in expected.items():
        yield total, len(cells[tuple(out[a] for a in axes)]) if isinstance(kind, Avg) else 1


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=12), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=200, deadline=None)
def test_any_sum_is_near_the_exact_one(cells, dtype):
    """However bad the cancellation: within 2 ulp of the exact sum, or within 2**-49 of the sum of magnitudes."""
    x = np.array(cells, dtype)
    exact = exact_total(x)
    error = abs(Fraction(float(Pool(Sum(), Global(), 0)(x)[0])) - exact)
    unit = Fraction(float(np.spacing(np.abs(dtype(float(exact))))))
    assert error <= max(2 * unit, Fraction(2) ** -49 * exact_total(np.abs(x)))


def test_float64_sums_keep_what_cancels():
    """1e16 + 1 - 1e16 is 1, in whatever order it is met."""
    for order in ([1e16, 1, -1e16], [1, 1e16, -1e16], [1e16, -1e16, 1]):
        for n in (3, 300):
            x = np.zeros(n)
            x[:: n // 3] = order
            assert Pool(Sum(), Global(), 0)(x)[0] == 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "uint8", "int16", "int64"])
def test_rows_of_any_length_keep_to_themselves(dtype, level):
    """Global sums of rows side by side, the odd cells at their ends included: by every way, the row's cells alone."""
    dtype = hostile.BFLOAT16 if dtype == "bfloat16" else np.dtype(dtype)
    rng = np.random.default_rng(0)
    for n in [*range(1, 40), 63, 64, 65, 95, 127, 130, 259]:
        x = rng.integers(0, 9, (5, n)).astype(dtype)
        expected = x.astype(np.float64).sum(1, keepdims=True)
        if dtype.kind != "u" and dtype.kind != "i":
            x[1], x[3, n // 2] = np.nan, np.inf
            expected[1], expected[3] = np.nan, np.inf
        for window in (Global(), Adaptive((1,)), Window((n,))):
            pool = Pool(Sum(), window, 1)
            for way in ways(pool, x, "forward"):
                y = forward_by(pool, x, way)
                np.testing.assert_array_equal(widened(y), widened(expected.astype(y.dtype)))


def test_a_sum_of_negative_zeros_is_one(level):
    """In rows of every length, as the specification has it."""
    for n in (1, 2, 7, 8, 9, 31, 33, 64, 70):
        x = np.full((3, n), -0.0, np.float32)
        for kind in (Sum(), Avg()):
            y = Pool(kind, Global(), 1)(x)
            np.testing.assert_array_equal(np.signbit(y), np.signbit(spec.forward(Pool(kind, Global(), 1), x)))


@pytest.mark.parametrize("flavour", hostile.FLOAT_FLAVOURS)
def test_means_of_doubles_are_divided_once(flavour, level):
    """The mean of one cell over a divisor is the quotient, to the bit, of numbers of every size."""
    rng = np.random.default_rng(0)
    x = hostile.numbers(rng, flavour, (400,), np.dtype(np.float64))
    with np.errstate(all="ignore"):
        x = np.concatenate([x, np.ldexp(x, 700), np.ldexp(x, -700), rng.normal(size=400)])
    for divisor in (1, 2, 3, 7, 9, 49, 10000, 2**49 + 1, 2**50 - 1, 2**50 + 1, 2**53 - 1, 2**200):
        y = Pool(Avg(divisor_override=divisor), Window((1,)))(x)
        with np.errstate(all="ignore"):
            same(y, x / divisor)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_global_mean_over_ten_million_cells(dtype):
    """Not worse than NumPy's pairwise mean."""
    x = np.random.default_rng(0).uniform(0.5, 1.5, 10**7).astype(dtype)
    exact = math.fsum(x) / x.size
    ours = abs(float(Pool(Avg(), Global(), 0)(x)[0]) - exact)
    assert ours <= max(abs(float(x.mean()) - exact), float(np.spacing(dtype(exact))) / 2)


# --- 16-bit floats --------------------------------------------------------------------------------

NARROW = [np.dtype(np.float16), hostile.BFLOAT16]


def widened(x):
    """As float64; a signalling NaN is no reason to warn."""
    with np.errstate(invalid="ignore"):
        return x.astype(np.float64)


def nearest(exact, dtype):
    """The number of a 16-bit dtype that is nearest to a Fraction, ties to even: from all that there are."""
    everything = np.arange(2**16, dtype=np.uint16).view(dtype)
    values = widened(everything)
    everything, values = everything[np.isfinite(values)], values[np.isfinite(values)]
    order = np.argsort(np.abs(values - float(exact)), kind="stable")[:4]
    gaps = [abs(Fraction(float(values[i])) - exact) for i in order]
    best = [int(i) for i, gap in zip(order, gaps, strict=True) if gap == min(gaps)]
    even = [i for i in best if everything[i].view(np.uint16) % 2 == 0]
    return float(values[(even or best)[0]])


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("shape", [(64, 64), (4096,), (16, 16, 16), (255, 257)])
def test_ones_average_to_one(dtype, shape):
    """Accumulated in 16 bits, 4096 ones would stop at 2048."""
    x = np.ones(shape, dtype)
    assert Pool(Avg(), Global(), tuple(range(len(shape))))(x).ravel()[0] == 1


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("kind", [Sum(), Avg()], ids=repr)
@pytest.mark.parametrize("flavour", ["normal", "subnormal", "tiny", "huge", "ties"])
def test_narrow_sums_are_correctly_rounded(kind, dtype, flavour):
    """The 16-bit number nearest to the exact result (rule "Accumulation": rounded once)."""
    rng = np.random.default_rng(0)
    x = hostile.numbers(rng, flavour, (60, 7), dtype)
    y = Pool(kind, Window((7,)))(x)[:, 0]
    for ours, cells in zip(y.astype(np.float64), x, strict=True):
        exact = exact_total(cells) / (7 if isinstance(kind, Avg) else 1)
        assert ours == nearest(exact, dtype)


def test_narrow_sums_are_not_rounded_twice():
    """1 + 2**-11 + 2**-24 lies just above the middle of two float16s, and 1 + 2**-8 + 2**-30 of two bfloat16s.

    Rounded to 32 bits first, each falls on the middle, and from there to the even neighbour below.
    """
    assert Pool(Sum(), Window((3,)))(np.array([1, 2.0**-11, 2.0**-24], np.float16))[0] == 1 + 2.0**-10
    x = np.array([1, 2.0**-8, 2.0**-30]).astype(hostile.BFLOAT16)
    assert float(Pool(Sum(), Window((3,)))(x)[0]) == 1 + 2.0**-7


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_narrow_number_goes_through(dtype):
    """Each of the 65536 numbers: Max, Min, Sum and Avg of one cell are the cell, NaN stays NaN."""
    x = np.arange(2**16, dtype=np.uint16).view(dtype)
    for kind in (Max(), Min(), Sum(), Avg(), Lp(1)):
        y = Pool(kind, Window((1,)))(x)
        assert y.dtype == dtype
        np.testing.assert_array_equal(widened(y), np.abs(widened(x)) if isinstance(kind, Lp) else widened(x))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_the_order_of_all_narrow_numbers(dtype):
    """Max and Min of pairs of all kinds of numbers, with the winner: NaN first, the zeros equal."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2**16, 40000).astype(np.uint16).view(dtype)
    wide = widened(x).reshape(-1, 2)
    for kind, best in ((Max(), np.max), (Min(), np.min)):
        y, indices = Pool(kind, Window((2,))).with_indices(x)
        np.testing.assert_array_equal(widened(y), best(wide, axis=1))
        nan = np.isnan(wide)
        second = nan[:, 1] & ~nan[:, 0] | ~nan.any(1) & (wide[:, 0] != wide[:, 1]) & (best(wide, axis=1) == wide[:, 1])
        np.testing.assert_array_equal(indices % 2, second)


# --- SmoothMax and Lp against mpmath --------------------------------------------------------------


@pytest.fixture(autouse=True)
def fifty_digits():
    with mpmath.workdps(50):
        yield


TOLERANCE = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-14}


def mp_smooth_max(cells, beta):
    cells, beta = [mpmath.mpf(float(c)) for c in cells], mpmath.mpf(beta)
    s = max(cells) if beta > 0 else min(cells)
    return s + mpmath.log(mpmath.fsum(mpmath.exp(beta * (c - s)) for c in cells)) / beta


def mp_lp(cells, p):
    p = mpmath.mpf(p)
    return mpmath.fsum(abs(mpmath.mpf(float(c))) ** p for c in cells) ** (1 / p)


def smooth_cells(rng, count, n, largest):
    """Windows of every size of number, each beside much larger and smaller ones; some of equal and near-equal cells."""
    exponents = rng.uniform(-3, math.log10(largest), (count, 1)) + rng.uniform(-1, 0, (count, n))
    x = 10.0**exponents * rng.choice([-1, 1], (count, n))
    x[::5] = x[::5, :1]
    x[1::5] = x[1::5, :1] * (1 + rng.normal(size=x[1::5].shape) * 1e-3)
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("beta", [1.0, -1.0, 0.01, 7.5, -300.0, 1e4, -1e4])
@pytest.mark.parametrize("n", [1, 2, 9, 100])
@pytest.mark.parametrize("largest", [1e2, 1e30])
def test_smooth_max_against_mpmath(dtype, beta, n, largest):
    """|y - exact| <= tolerance * (|exact| + log(n) / |beta|), with 1e-6 for float32 and 1e-14 for float64.

    y lies between the extreme cell m and m + log(n)/beta. Where these two terms cancel (m = -log(2)/beta for two equal
    cells) the result is near 0 though neither of them is, and one last place of either is any multiple of it: no
    method that rounds its terms has a bound relative to |y| alone. The scale |y| + log(n)/|beta| bounds both terms,
    and leaves no slack for one cell, where y = x.
    """
    rng = np.random.default_rng(0)
    x = smooth_cells(rng, 40, n, largest).astype(dtype)
    # Rows of windows side by side, so that numbers of all sizes share a part of the input.
    y = Pool(SmoothMax(beta), Window((n,)))(x.reshape(4, -1)).reshape(-1)
    for ours, cells in zip(y, x, strict=True):
        exact = mp_smooth_max(cells, beta)
        allowed = TOLERANCE[x.dtype] * (abs(exact) + mpmath.log(n) / abs(beta))
        assert abs(mpmath.mpf(float(ours)) - exact) <= allowed, (float(ours), exact, cells[:4])


def test_smooth_max_lies_between_its_bounds():
    """For beta > 0 and n counted cells: max <= y <= max + log(n)/beta, to the last place (rule "SmoothMax")."""
    x = smooth_cells(np.random.default_rng(1), 300, 7, 1e30)
    for beta in (1e-3, 1.0, 1e4):
        y = Pool(SmoothMax(beta), Window((7,)))(x)[:, 0]
        top = x.max(1)
        slack = 1e-14 * (np.abs(top) + math.log(7) / beta)
        assert (y >= top - slack).all()
        assert (y <= top + math.log(7) / beta + slack).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [1, 1.3, 2, 2.5, 3, 4, 7.5, 10, 100.5])
@pytest.mark.parametrize("n", [1, 2, 9, 100])
@pytest.mark.parametrize("largest", [1e2, 1e30])
def test_lp_against_mpmath(dtype, p, n, largest):
    """|y - exact| <= tolerance * exact: all terms are of one sign, nothing cancels, and the bound is relative."""
    rng = np.random.default_rng(0)
    x = smooth_cells(rng, 40, n, largest).astype(dtype)
    y = Pool(Lp(p), Window((n,)))(x.reshape(4, -1)).reshape(-1)
    for ours, cells in zip(y, x, strict=True):
        exact = mp_lp(cells, p)
        assert abs(mpmath.mpf(float(ours)) - exact) <= TOLERANCE[x.dtype] * exact, (float(ours), exact, cells[:4])


@pytest.mark.parametrize("kind", [SmoothMax(1.0), SmoothMax(-50.0), Lp(2), Lp(2.5), Lp(3), Lp(4)], ids=repr)
@pytest.mark.parametrize("largest", [1e2, 1e30])
def test_smooth_weights_against_mpmath(kind, largest):
    """The weights of every cell, through the JVP along each: absolute error 1e-13, as they lie in -1..1."""
    n = 5
    x = smooth_cells(np.random.default_rng(2), 20, n, largest)
    pool = Pool(kind, Window((n,)))
    scale = 2.0 ** np.random.default_rng(3).integers(-3, 4, (len(x), 1))  # multiplied and divided by without rounding
    for k in range(n):
        t = np.zeros_like(x)
        t[:, k] = scale[:, 0]
        dy = (pool.jvp(x, t)[1] / scale)[:, 0]
        gx = (pool.vjp(x)[1](-scale) / -scale)[:, k]
        for ours, theirs, cells in zip(dy, gx, x, strict=True):
            mp = [mpmath.mpf(float(c)) for c in cells]
            if isinstance(kind, SmoothMax):
                s = max(mp) if kind.beta > 0 else min(mp)
                terms = [mpmath.exp(kind.beta * (c - s)) for c in mp]
                exact = terms[k] / mpmath.fsum(terms)
            else:
                exact = mpmath.sign(mp[k]) * (abs(mp[k]) / mp_lp(cells, kind.p)) ** (mpmath.mpf(kind.p) - 1)
            assert abs(ours - exact) <= 1e-13
            assert abs(theirs - exact) <= 1e-13


@pytest.mark.parametrize("dtype", [d for d in hostile.FLOATS if d != np.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(300, 9), (9, 300, 17)], ids=["rows", "channels last"])
@pytest.mark.parametrize(
    "kind", [SmoothMax(0.7), SmoothMax(-20.0), *(Lp(p) for p in (1, 1.3, 2, 2.5, 3, 4, 6, 7.5, 9, 40))], ids=repr
)
def test_smooth_kinds_of_narrow_floats_are_those_of_float64(kind, shape, dtype):
    """Values within 2 last places and weights within 4, wherever these are normal numbers, at every level."""
    rng = np.random.default_rng(5)
    x = (rng.normal(size=shape) * 10.0 ** rng.uniform(-1, 1, shape)).astype(dtype)
    wide = x.astype(np.float64)
    pool = Pool(kind, Window((9,)), axes=(1,) if len(shape) == 2 else (0,))
    y, pullback = pool.vjp(wide)
    gx = pullback(np.ones_like(y))
    eps, tiny = float(hostile.info(dtype).eps), float(hostile.info(dtype).tiny)
    size = np.abs(y) + (math.log(9) / abs(kind.beta) if isinstance(kind, SmoothMax) else 0)
    for level in _engine.levels():
        _engine.set_level(level)
        ours, pullback = pool.vjp(x)
        assert (np.abs(ours.astype(np.float64) - y) <= 2 * eps * size).all()
        weights = pullback(np.ones_like(ours)).astype(np.float64)
        assert (np.abs(weights - gx) <= 4 * eps * np.abs(gx) + tiny).all()


def surprises(rng, length):
    """Rows of which a few cells tell little: spikes, a far level, infinities and zeros, steep and long ramps."""
    x = rng.normal(size=(5, length)) / 4
    x[0, 1000::3001] = 3e4
    x[1, 5000:9000] = -2e4 + rng.normal(size=4000)
    x[2, 3000:6000:2] = -np.inf
    x[2, 8000:] = 0
    x[3] += np.linspace(-60, 60, length)
    x[4] *= 10.0 ** np.linspace(-4, 4, length)
    return x


def smooth_of_rows(kind, x, g, kernel, stride):
    """The values of windows along rows that are padded by a 0 on both sides, the gradient and its mass, in float64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1)))
    cells = np.lib.stride_tricks.sliding_window_view(padded, kernel, 1)[:, ::stride]
    if isinstance(kind, SmoothMax):
        best = (cells.max if kind.beta > 0 else cells.min)(2, keepdims=True)
        terms = np.exp(kind.beta * (cells - best))
        y, weights = best[..., 0] + np.log(terms.sum(2)) / kind.beta, terms / terms.sum(2, keepdims=True)
    else:
        y = (np.abs(cells) ** kind.p).sum(2) ** (1 / kind.p)
        with np.errstate(invalid="ignore"):
            weights = np.nan_to_num(np.sign(cells) * (np.abs(cells) / y[..., None]) ** (kind.p - 1))
    gx, mass = np.zeros_like(padded), np.zeros_like(padded)
    for k in range(kernel):
        places = np.s_[:, k : k + stride * y.shape[1] : stride]
        gx[places] += weights[..., k] * g
        mass[places] += np.abs(weights[..., k] * g)
    return y, gx[:, 1:-1], mass[:, 1:-1]


@pytest.mark.parametrize("dtype", hostile.FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("kind", [SmoothMax(2.0), SmoothMax(-1.0), Lp(2), Lp(2.5), Lp(3)], ids=repr)
def test_smooth_kinds_where_some_cells_mislead(kind, dtype):
    """The scale of many cells may be chosen by a few of them, and is chosen again where that was wrong."""
    rng = np.random.default_rng(7)
    x = surprises(rng, 20001).astype(dtype)
    if isinstance(kind, Lp) or kind.beta < 0:
        x[np.isinf(x)] = 1
    pool = Pool(kind, Window((5,), 3, 1))
    g = rng.normal(size=pool.output_shape(x.shape)).astype(dtype)
    y, gx, mass = smooth_of_rows(kind, x, g.astype(np.float64), 5, 3)
    # In float64 both lose digits of large exponents, and weights far below the others.
    eps, tiny = max(float(hostile.info(dtype).eps), 2.0**-44), max(float(hostile.info(dtype).tiny), 1e-100)
    size = np.abs(y) + (math.log(5) / abs(kind.beta) if isinstance(kind, SmoothMax) else 0)
    for level in _engine.levels():
        _engine.set_level(level)
        ours, pullback = pool.vjp(x)
        for values in (ours, pool(x)):
            assert (np.abs(values.astype(np.float64) - y) <= 2 * eps * size).all()
        assert (np.abs(pullback(g).astype(np.float64) - gx) <= 4 * eps * mass + tiny).all()


@pytest.mark.parametrize("dtype", hostile.FLOATS, ids=lambda d: d.name)
def test_smooth_kinds_at_the_ends_of_the_range(dtype):
    """Nothing overflows or underflows on the way: the norm and the smooth maximum of the ends are the ends."""
    limits = hostile.info(dtype)
    for size in (float(limits.max), float(limits.tiny), float(limits.smallest_subnormal)):
        x = np.array([size, 0, -size, 0]).astype(dtype)
        norms = [Pool(Lp(p), Window((2,)))(x) for p in (1, 2, 2.5)]
        smooth = Pool(SmoothMax(1e4, False), Window((1,)))(x)[:1]
        np.testing.assert_allclose(
            np.concatenate([*norms, smooth]).astype(np.float64), size, rtol=4 * float(limits.eps)
        )
    big = np.full(2, float(limits.max) / 4).astype(dtype)
    np.testing.assert_allclose(
        float(Pool(Lp(2), Window((2,)))(big)[0]), float(big[0]) * math.sqrt(2), rtol=float(limits.eps)
    )


# --- integers: rule 11 ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", hostile.INTEGERS, ids=lambda d: d.name)
def test_integers_at_their_ends(dtype):
    """Max and Min keep the dtype; Sum is modulo 2**64 in the family's 64-bit dtype; Avg is the mean as float64."""
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    x = hostile.numbers(rng, "extremes", (50, 6), dtype)
    x[0], x[1] = limits.min, limits.max
    cells = [[int(c) for c in row] for row in x]
    window = Window((6,))
    top, bottom, total, mean = (Pool(k, window)(x)[:, 0] for k in (Max(), Min(), Sum(), Avg()))
    wide = np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
    assert (top.dtype, bottom.dtype, total.dtype, mean.dtype) == (dtype, dtype, wide, np.float64)
    assert top.tolist() == [max(row) for row in cells]
    assert bottom.tolist() == [min(row) for row in cells]
    assert total.tolist() == [int(np.array(sum(row) % 2**64, np.uint64).astype(wide)) for row in cells]
    for ours, row in zip(mean, cells, strict=True):
        assert ulps(ours, Fraction(sum(row), 6)) <= 2


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize("shape", [(2, 8), (17, 40), (9, 5000)])
def test_sums_of_64_bits_wrap_as_numpys(dtype, shape):
    """By every method: a sum that does not fit is taken modulo 2**64."""
    x = hostile.numbers(np.random.default_rng(0), "any", shape, np.dtype(dtype))
    expected = x.sum(0, keepdims=True, dtype=dtype)
    pool = Pool(Sum(), Window((shape[0], 1)))
    for way in ways(pool, x, "forward"):
        same(forward_by(pool, x, way), expected)
    same(Pool(Sum(), Global(), 1)(x), x.sum(1, keepdims=True, dtype=dtype))


def test_means_of_64_bit_integers_are_not_rounded_before_they_are_added():
    """2**62 + 1 less 2**62: as float64s the one would be lost. The mean of any large numbers has at most 2 ulp."""
    x = np.array([2**62 + 1, -(2**62), 3, 0], np.int64)
    assert Pool(Avg(), Global(), 0)(x)[0] == 1.0
    x = hostile.numbers(np.random.default_rng(0), "any", (4, 1000), np.dtype(np.int64))
    for ours, row in zip(Pool(Avg(), Global(), 1)(x)[:, 0], x, strict=True):
        assert ulps(ours, Fraction(sum(map(int, row)), 1000)) <= 2


def test_bools():
    """Max is any, Min is all, Sum counts, Avg is a share; derivatives are float64 (rule "Integers")."""
    x = np.array([[True, False, False], [True, True, True], [False, False, False]])
    window = Window((3,))
    same(Pool(Max(), window)(x), x.any(1, keepdims=True))
    same(Pool(Min(), window)(x), x.all(1, keepdims=True))
    same(Pool(Sum(), window)(x), x.sum(1, keepdims=True))
    same(Pool(Avg(), window)(x), x.mean(1, keepdims=True))
    _, pullback = Pool(Max("split"), window).vjp(x)
    same(pullback(np.array([[1.0], [3.0], [6.0]])), np.array([[1, 0, 0], [1, 1, 1], [2, 2, 2]], float))
