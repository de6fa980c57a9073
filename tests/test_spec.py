"""The specification: known answers, exact adjointness, the JVP by another road, and every number it runs on."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from closeness import same
from ndpool import (
    Adaptive,
    Avg,
    Dual,
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
    avg_pool,
    max_pool,
    spec,
)
from ndpool.kinds import TIES
from strategies import ALL_KINDS, RATIONAL_KINDS, SMOOTH_KINDS, Case, cases


def inner(a, b):
    return sum((p * q for p, q in zip(a.ravel(), b.ravel(), strict=True)), start=0)


def draw_fractions(draw, shape, low=-4, high=4):
    """Few different numbers, so that ties abound."""
    count = math.prod(shape)
    numbers = draw(st.lists(st.integers(low, high), min_size=count, max_size=count))
    result = np.empty(shape, dtype=object)
    result.ravel()[:] = [Fraction(n, 3) for n in numbers]
    return result


# --- known answers --------------------------------------------------------------------------------


def test_max_sends_its_gradient_to_the_maximum():
    pool = Pool(Max(), Window((2, 2)))
    assert spec.vjp(pool, [[1, 2], [4, 3]], [[1.0]]).tolist() == [[0, 0], [1, 0]]


def test_overlapping_windows_add_up():
    pool = Pool(Max(), Window((3,), 1))
    assert spec.vjp(pool, [1, 9, 2, 9], [1.0, 1.0]).tolist() == [0, 2, 0, 0]


def test_first_of_equals_wins_and_the_tail_is_dropped():
    pool = Pool(Max(), Window((2,)))
    assert spec.forward(pool, [3, 3, 1, 5, 7]).tolist() == [3, 5]
    assert spec.vjp(pool, [3, 3, 1, 5, 7], [1.0, 1.0]).tolist() == [1, 0, 0, 1, 0]


def test_padding_never_wins():
    pool = Pool(Max(), Window((3,), 2, 1))
    assert spec.forward(pool, [-5.0, -3.0, -9.0]).tolist() == [-3, -3]
    assert spec.forward(Pool(Min(), Window((3,), 2, 1)), [5.0, 3.0, 9.0]).tolist() == [3, 3]
    assert spec.vjp(pool, [-5.0, -3.0, -9.0], [1.0, 10.0]).tolist() == [0, 11, 0]


def test_ceil_mode_average_divides_by_what_it_sees():
    pool = Pool(Avg(), Window((4,), 3, ceil_mode=True))
    assert spec.forward(pool, range(1, 9)).tolist() == [2.5, 5.5, 7.5]
    # With padding, the padded cells count and those beyond do not: 1 + 2 cells, 4, and 8 with one padded.
    padded = Pool(Avg(), Window((4,), 3, 1, ceil_mode=True))
    assert spec.forward(padded, range(1, 9)).tolist() == [6 / 4, 18 / 4, 21 / 4]


@pytest.mark.parametrize(
    ("length", "outputs", "bins"),
    [(5, 3, [(0, 2), (1, 4), (3, 5)]), (7, 4, [(0, 2), (1, 4), (3, 6), (5, 7)]), (2, 3, [(0, 1), (0, 2), (1, 2)])],
)
def test_adaptive_bins(length, outputs, bins):
    seen = spec.windows(Pool(Avg(), Adaptive((outputs,))), (length,))
    assert [(cells[0][0], cells[-1][0] + 1) for cells in seen.values()] == bins
    x = np.arange(length) ** 2
    expected = [x[start:end].mean() for start, end in bins]
    np.testing.assert_allclose(spec.forward(Pool(Avg(), Adaptive((outputs,))), x), expected)


def test_windows_mark_padding():
    pool = Pool(Avg(), Window((2, 2), 2, 1))
    assert spec.windows(pool, (2, 2)) == {
        (0, 0): [None, None, None, (0, 0)],
        (0, 1): [None, None, (0, 1), None],
        (1, 0): [None, (1, 0), None, None],
        (1, 1): [(1, 1), None, None, None],
    }


def test_the_odd_cell_of_the_padding():
    """To the end with "same", to the start with "same_lower" (rule "Padding")."""
    seen = {word: spec.windows(Pool(Sum(), Window((3,), 2, word)), (4,)) for word in ("valid", "same", "same_lower")}
    assert seen == {
        "valid": {(0,): [(0,), (1,), (2,)]},
        "same": {(0,): [(0,), (1,), (2,)], (1,): [(2,), (3,), None]},
        "same_lower": {(0,): [None, (0,), (1,)], (1,): [(1,), (2,), (3,)]},
    }


def test_global_policies():
    x = [[[2.0, 7.0], [7.0, 1.0]]]
    g = [[[6.0]]]
    for ties, expected in zip(TIES, ([0, 6, 0, 0], [0, 3, 3, 0], [0, 6, 6, 0]), strict=True):
        assert spec.vjp(Pool(Max(ties), Global(), axes=(1, 2)), x, g).ravel().tolist() == expected


def test_winners_are_flat_over_the_pooled_axes():
    x = np.array([[[1, 2], [9, 0]], [[5, 5], [5, 5]]])
    assert spec.winners(Pool(Max(), Global(), axes=(1, 2)), x).tolist() == [[[2]], [[0]]]
    assert spec.winners(Pool(Min(), Global(keepdims=False), axes=(0, 2)), x).tolist() == [0, 1]
    # Row-major is the array's order, in whatever order the axes are named.
    a, b = (spec.winners(Pool(Max(), Global(), axes=axes), x) for axes in [(0, 1), (1, 0)])
    np.testing.assert_array_equal(a, b)


def test_axes_carry_their_own_numbers():
    x = np.arange(24).reshape(2, 3, 4)
    np.testing.assert_array_equal(
        spec.forward(Pool(Max(), Window((4, 3)), axes=(2, 1)), x),
        spec.forward(Pool(Max(), Window((3, 4)), axes=(1, 2)), x),
    )


def test_nan_touches_only_the_windows_that_see_it():
    x = np.array([1.0, math.nan, 3.0, 4.0, 5.0, 6.0])
    for kind in ALL_KINDS:
        seen = kind != Mode()  # of two values that are seen once each, the first is the mode
        assert np.isnan(spec.forward(Pool(kind, Window((2,))), x)).tolist() == [seen, False, False]


# --- adjointness, exactly -------------------------------------------------------------------------


@given(st.data(), cases(RATIONAL_KINDS))
@settings(max_examples=400, deadline=None)
def test_adjoint_exactly(data, case: Case):
    """`<J t, g> == <t, J^T g>` over Fractions, ties included."""
    x = draw_fractions(data.draw, case.shape, -1, 1)
    t = draw_fractions(data.draw, case.shape)
    g = draw_fractions(data.draw, case.pool.output_shape(case.shape))
    _, dy = spec.jvp(case.pool, x, t)
    assert inner(dy, g) == inner(t, spec.vjp(case.pool, x, g))


@given(st.data(), cases(SMOOTH_KINDS, max_cells=60))
@settings(max_examples=100, deadline=None)
def test_adjoint_to_forty_digits(data, case: Case):
    with mpmath.workdps(50):
        real = np.vectorize(lambda q: mpmath.mpf(q.numerator) / q.denominator, otypes=[object])
        x, t = (real(draw_fractions(data.draw, case.shape)) for _ in range(2))
        g = real(draw_fractions(data.draw, case.pool.output_shape(case.shape)))
        _, dy = spec.jvp(case.pool, x, t)
        assert abs(inner(dy, g) - inner(t, spec.vjp(case.pool, x, g))) < mpmath.mpf("1e-40")


# --- the JVP by another road ----------------------------------------------------------------------


def duals(x, t):
    result = np.empty(x.shape, dtype=object)
    result.ravel()[:] = [Dual(a, b) for a, b in zip(x.ravel(), t.ravel(), strict=True)]
    return result


FIRST = [kind for kind in ALL_KINDS if getattr(kind, "ties", "first") == "first"]


@given(st.data(), cases(FIRST, max_cells=80))
@settings(max_examples=300, deadline=None)
def test_forward_over_duals_is_the_jvp(data, case: Case):
    """At ties too, for ties="first"; the rational kinds exactly."""
    x, t = draw_fractions(data.draw, case.shape), draw_fractions(data.draw, case.shape)
    if case.pool.kind in SMOOTH_KINDS:
        x, t = x.astype(float).astype(object), t.astype(float).astype(object)
    y, dy = spec.jvp(case.pool, x, t)
    both = spec.forward(case.pool, duals(x, t)).ravel()
    values = [d.value if isinstance(d, Dual) else d for d in both]
    tangents = [d.tangent if isinstance(d, Dual) else 0 for d in both]
    if case.pool.kind in SMOOTH_KINDS:
        np.testing.assert_allclose(np.array(values, float), y.ravel().astype(float), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(np.array(tangents, float), dy.ravel().astype(float), rtol=1e-10, atol=1e-12)
    else:
        assert values == y.ravel().tolist()
        assert tangents == dy.ravel().tolist()


@given(st.data(), cases([SmoothMax(0.7), SmoothMax(-2.0), Lp(3), Lp(2.5)], max_cells=40))
@settings(max_examples=60, deadline=None)
def test_jvp_is_the_limit_of_differences(data, case: Case):
    with mpmath.workdps(60):
        x = np.vectorize(lambda q: mpmath.mpf(float(q)) + mpmath.mpf("0.1"), otypes=[object])(
            draw_fractions(data.draw, case.shape)
        )
        t = np.vectorize(lambda q: mpmath.mpf(float(q)), otypes=[object])(draw_fractions(data.draw, case.shape))
        h = mpmath.mpf("1e-20")
        _, dy = spec.jvp(case.pool, x, t)
        difference = (spec.forward(case.pool, x + h * t) - spec.forward(case.pool, x - h * t)) / (2 * h)
        assert all(abs(a - b) < 1e-25 * (1 + abs(b)) for a, b in zip(np.ravel(dy), np.ravel(difference), strict=True))


# --- numbers of every sort ------------------------------------------------------------------------


def test_decimal_computes_in_decimal():
    x = [Decimal("0.1"), Decimal("0.2"), Decimal("0.3"), Decimal("0.6")]
    assert spec.forward(Pool(Sum(), Window((2,))), x).tolist() == [Decimal("0.3"), Decimal("0.9")]
    assert spec.forward(Pool(Avg(), Window((2,))), x).tolist() == [Decimal("0.15"), Decimal("0.45")]
    assert spec.vjp(Pool(Max("split"), Window((4,))), x, [Decimal(3)]).tolist() == [0, 0, 0, Decimal(3)]
    smooth = spec.forward(Pool(SmoothMax(2.0), Window((2,), padding=1)), x).tolist()
    assert all(isinstance(y, Decimal) for y in smooth)
    floats = spec.forward(Pool(SmoothMax(2.0), Window((2,), padding=1)), np.array(x, float))
    np.testing.assert_allclose(np.array(smooth, float), floats, rtol=1e-15)
    assert spec.forward(Pool(Lp(2), Window((2,))), [Decimal(3), Decimal(4)]).tolist() == [
        pytest.approx(Decimal(5), abs=Decimal("1e-26"))
    ]
    assert spec.forward(Pool(Lp(1.5), Window((2,))), [Decimal(1), Decimal(1)])[0] == pytest.approx(
        Decimal(2) ** (2 / Decimal(3)), abs=Decimal("1e-26")
    )


def test_complex_sums_and_averages():
    x = [1 + 2j, 3 - 1j]
    assert spec.forward(Pool(Sum(), Window((2,))), x).tolist() == [4 + 1j]
    assert spec.forward(Pool(Avg(), Window((2,))), x).tolist() == [2 + 0.5j]
    assert spec.vjp(Pool(Avg(), Window((2,))), x, [2j]).tolist() == [1j, 1j]
    assert spec.jvp(Pool(Sum(), Window((2,))), x, [1j, 1])[1].tolist() == [1 + 1j]


def test_sympy_gives_formulas():
    a, b, t, u = sympy.symbols("a b t u", real=True)
    assert spec.forward(Pool(Sum(), Window((2,))), [a, b]).tolist() == [a + b]
    assert spec.forward(Pool(Avg(), Window((2,))), [a, b]).tolist() == [(a + b) / 2]
    pool = Pool(SmoothMax(2), Window((2,)))
    (y,), (dy,) = spec.jvp(pool, [a, b], [t, u])
    assert sympy.simplify(y - sympy.log(sympy.exp(2 * a) + sympy.exp(2 * b)) / 2) == 0
    # The weights are what SymPy's own differentiation of the value gives.
    assert sympy.simplify(dy - (sympy.diff(y, a) * t + sympy.diff(y, b) * u)) == 0
    assert sympy.simplify(spec.vjp(pool, [a, b], [t])[1] - sympy.diff(y, b) * t) == 0


def test_numbers_of_python_and_numpy():
    for x in ([1, 5], np.array([1, 5], np.int8), np.array([1, 5], np.uint16), np.array([1, 5], np.float16)):
        assert spec.forward(Pool(Max(), Window((2,))), x).tolist() == [5]
    x = np.array([1, 5], object)
    assert spec.forward(Pool(Avg(), Window((2,))), x).tolist() == [3.0]
    assert spec.vjp(Pool(Avg(), Window((2,))), x, [Fraction(1)]).dtype == object


@pytest.mark.parametrize(
    ("kind", "dtype", "result"),
    [
        (Max(), np.int8, np.int8),
        (Max(), bool, bool),
        (Min(), np.uint16, np.uint16),
        (Sum(), np.int8, np.int64),
        (Sum(), np.uint8, np.uint64),
        (Sum(), bool, np.int64),
        (Avg(), np.int32, np.float64),
        (SmoothMax(1.0), np.int32, np.float64),
        (Lp(2), np.uint8, np.float64),
        (Avg(), np.float16, np.float16),
        (Avg(), ml_dtypes.bfloat16, ml_dtypes.bfloat16),
        (Sum(), np.float32, np.float32),
        (Max(), np.float64, np.float64),
    ],
)
def test_dtypes(kind, dtype, result):
    """Rule "Integers"; floats keep theirs. Derivatives of integers are float64."""
    x = np.array([1, 0, 1, 1]).astype(dtype)
    pool = Pool(kind, Window((2,)))
    assert spec.forward(pool, x).dtype == result
    derivative = np.float64 if x.dtype.kind in "biu" else x.dtype
    t, g = np.array([0.5, -2.0, 3.0, 0.25]), np.array([-1.5, 4.0])
    y, dy = spec.jvp(pool, x, t)
    gx = spec.vjp(pool, x, g)
    assert (y.dtype, dy.dtype, gx.dtype) == (result, derivative, derivative)
    for ours, engines in ((y, pool(x)), (dy, pool.jvp(x, t)[1]), (gx, pool.vjp(x)[1](g))):
        assert ours.dtype == engines.dtype
        np.testing.assert_allclose(ours.astype(float), engines.astype(float), rtol=1e-12)


def test_narrow_floats_are_rounded_once():
    x = np.full(4096, 1, np.float16)
    assert spec.forward(Pool(Avg(), Global(), axes=0), x).tolist() == [1]
    assert spec.forward(Pool(Sum(), Global(), axes=0), np.full(100_000, 1, np.float16)).tolist() == [math.inf]


def test_integer_sums_wrap_as_numpy_does():
    x = np.array([2**63 - 1, 1], np.int64)
    assert spec.forward(Pool(Sum(), Window((2,))), x).tolist() == [-(2**63)]
    assert spec.forward(Pool(Sum(), Window((2,))), np.array([200, 100], np.uint8)).tolist() == [300]


@pytest.mark.parametrize("kind", [Max(), Min("all"), SmoothMax(1.0), SmoothMax(-1.0)], ids=repr)
@pytest.mark.parametrize("kernel", [1, 2])
def test_numbers_without_order(kind, kernel):
    with pytest.raises(TypeError, match="complex numbers have no order, and Max, Min, SmoothMax and Lp compare cells"):
        spec.forward(Pool(kind, Window((kernel,))), [1 + 2j, 2 - 1j])


def test_symbols_have_no_order():
    a, b = sympy.symbols("a b")
    with pytest.raises(TypeError, match="Symbol numbers have no order, and Max, Min, SmoothMax and Lp compare cells"):
        spec.forward(Pool(Max(), Window((2,))), [a, b])


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (SmoothMax(1.0), "Fraction numbers have no exp, which SmoothMax and Lp need; use floats"),
        (Lp(2), "root 2 of 5/4 is no Fraction, which Lp needs; use floats"),
        (Lp(1.5), "root 2 of 1/2 is no Fraction, which Lp needs; use floats"),
    ],
)
def test_numbers_without_functions(kind, wanted):
    for x in ([Fraction(1), Fraction(2)], np.array([1, 2], object)):
        for act in (
            spec.forward,
            lambda pool, x: spec.jvp(pool, x, x),
            lambda pool, x: spec.vjp(pool, x, [Fraction(1)]),
        ):
            with pytest.raises(TypeError, match=wanted):
                act(Pool(kind, Window((2,))), x)


@pytest.mark.parametrize("kind", [*map(Max, TIES), *map(Min, TIES)], ids=repr)
def test_winners_are_those_of_with_indices(kind):
    """For every policy the first of them, of floats and of Fractions."""
    x = np.array([[1.0, 3.0, 3.0, 2.0], [math.nan, 1.0, math.nan, 1.0], [2.0, 2.0, 1.0, 1.0]])
    pool = Pool(kind, Window((2, 3), 1))
    same(spec.winners(pool, x), pool.with_indices(x)[1])
    y, indices = pool.with_indices(spec.fractions(x[::2]))
    same(indices, spec.winners(Pool(type(kind)(), pool.window), x[::2]))
    assert y.tolist() == spec.forward(pool, x[::2]).tolist()


def test_winners_exist_for_max_and_min():
    for kind in (Avg(), SmoothMax(1.0)):
        for act in (lambda pool: spec.winners(pool, [1, 2]), lambda pool: pool.with_indices([1, 2])):
            with pytest.raises(TypeError, match="has no winner in a window; indices exist for Max, Min and Mode"):
                act(Pool(kind, Window((2,))))


def test_directions_must_have_the_right_shape():
    pool = Pool(Max(), Window((2,)))
    with pytest.raises(ValueError, match=r"t has shape \(3,\) and should have \(4,\)"):
        spec.jvp(pool, np.zeros(4), np.zeros(3))
    with pytest.raises(ValueError, match=r"g has shape \(4,\) and should have \(2,\)"):
        spec.vjp(pool, np.zeros(4), np.zeros(4))


# --- exact numbers stay exact ---------------------------------------------------------------------

#: How each sort of number is written, which numbers its results are, and whether it has an exp.
SORTS = {
    "int": (int, Fraction, False),
    "bool": (lambda q: q > 0, Fraction, False),
    "NumPy's bool": (lambda q: np.bool_(q > 0), Fraction, False),
    "NumPy's int8": (np.int8, Fraction, False),
    "Fraction": (Fraction, Fraction, False),
    "Fractions and ints": (lambda q: int(q) if q == 0 or q == 3 else Fraction(q), Fraction, False),
    "Decimal": (lambda q: Decimal(int(q)), Decimal, True),
    "Decimals and ints": (lambda q: int(q) if q == 0 or q == 3 else Decimal(int(q)), Decimal, True),
    "mpf": (lambda q: mpmath.mpf(int(q)), mpmath.mpf, True),
    "mpf and ints": (lambda q: int(q) if q == 0 or q == 3 else mpmath.mpf(int(q)), mpmath.mpf, True),
    "SymPy": (lambda q: sympy.Integer(int(q)), sympy.Basic, True),
    "SymPy and ints": (lambda q: int(q) if q == 0 or q == 3 else sympy.Integer(int(q)), sympy.Basic, True),
}
#: Windows with a rational norm, with ties, between which cells stand that no window sees; the third has all zeros.
APART = Window((2,), stride=3)
CELLS = [3, -4, 9, 5, 0, 9, 0, 0, 9, 8, 6, 9, 7, 7]
SEEN = [0, 1, 3, 4, 6, 7, 9, 10, 12, 13]


def objects(numbers):
    result = np.empty(len(numbers), dtype=object)
    result[:] = numbers
    return result


def all_are(values, number):
    """Every one is a number of this sort and no other, and has no float in it."""
    for value in values:
        if isinstance(value, Dual):
            all_are([value.value, value.tangent], number)
        else:
            assert isinstance(value, number), (value, type(value))
            assert not (number is sympy.Basic and value.has(sympy.Float)), value


def floats(values):
    return np.array([float(v.value if isinstance(v, Dual) else v) for v in values])


@pytest.mark.parametrize("kind", ALL_KINDS, ids=repr)
@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("sort", SORTS)
def test_exact_numbers_stay_exact_or_are_refused(sort, kind, dual):
    """Every number of every result is of the sort that went in, zeros included, and the engine agrees with it."""
    write, number, has_exp = SORTS[sort]
    x = objects([write(Fraction(c)) for c in CELLS])
    t = objects([write(Fraction(c)) for c in reversed(CELLS)])
    g = objects([write(Fraction(c)) for c in (3, 0, -2, 1, 5)])
    plain = [np.array([float(v) for v in a]) for a in (x, t, g)]
    if dual:
        x = objects([Dual(c, c) for c in x])
    pool = Pool(kind, APART)
    acts = (spec.forward, lambda p, x: spec.jvp(p, x, t)[1], lambda p, x: spec.vjp(p, x, g))
    irrational = isinstance(kind, Lp) and kind.p != 1 and number is Fraction
    if irrational or (isinstance(kind, SmoothMax) and not has_exp):
        for act in acts:
            with pytest.raises(TypeError, match=r"numbers have no exp|is no Fraction"):
                act(pool, x)
        return
    if number is sympy.Basic and dual and isinstance(kind, Lp) and kind.p == 2.5:
        return  # right, and slow
    results = [act(pool, x) for act in acts]
    expected = [pool(plain[0]), pool.jvp(plain[0], plain[1])[1], pool.vjp(plain[0])[1](plain[2])]
    for i, (result, numbers) in enumerate(zip(results, expected, strict=True)):
        kept = i == 0 and kind.integers != "float64" and number is Fraction and "Fraction" not in sort
        all_are(result, int if kept else number)
        np.testing.assert_allclose(floats(result), numbers, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sort", SORTS)
def test_lp_of_every_exact_number_with_a_rational_norm(sort):
    write, number, _ = SORTS[sort]
    cells = [Fraction(c) for c in ([1, 0] if "bool" in sort else [3, -4])]
    x = objects([write(c) for c in cells])
    y, dy = spec.jvp(Pool(Lp(2), Window((2,))), x, x)
    gx = spec.vjp(Pool(Lp(2), Window((2,))), x, [1])
    norm = 1 if "bool" in sort else 5
    for values, expected in ((y, [norm]), (dy, [norm]), (gx, [c / norm for c in cells])):
        all_are(values, number)
        assert [Fraction(str(v)) for v in values] == [pytest.approx(e, abs=1e-12) for e in expected]
    if number is Fraction or number is sympy.Basic:
        assert gx.tolist() == [c / norm for c in cells]


def test_sympys_gradients_are_rational():
    x = [sympy.Integer(7)] * 3
    third = sympy.Rational(1, 3)
    for kind in (Avg(), Max("split"), Min("split")):
        gx = spec.vjp(Pool(kind, Window((3,))), x, [sympy.Integer(1)])
        assert gx.tolist() == [third] * 3
        assert all(isinstance(v, sympy.Rational) for v in gx)
    a, b = sympy.symbols("a b", real=True)
    (y,) = spec.forward(Pool(SmoothMax(3), Window((2,))), [a, b])
    assert y == sympy.log(sympy.exp(3 * a) + sympy.exp(3 * b)) / 3
    gx = spec.vjp(Pool(SmoothMax(3), Window((2,))), [a, b], [1])
    assert [sympy.simplify(v - sympy.diff(y, c)) for v, c in zip(gx, (a, b), strict=True)] == [0, 0]
    assert not any(v.has(sympy.Float) for v in gx)
    assert spec.vjp(Pool(Avg(), Window((3,))), [a, b, 0], [1]).tolist() == [third] * 3


def test_the_gradient_of_max_can_be_averaged_exactly():
    gx = spec.vjp(Pool(Max(), Window((3,))), [Fraction(1), Fraction(3), Fraction(2)], [Fraction(1)])
    assert spec.forward(Pool(Avg(), Window((3,))), gx).tolist() == [Fraction(1, 3)]
    assert (gx[0] + gx[2]) / 3 == 0
    assert type((gx[0] + gx[2]) / 3) is Fraction


def test_ints_beside_floats_stay_ints():
    """2**60 + 1 is no float, and Max does not make one of it."""
    x = objects([2**60 + 1, 0.5])
    assert spec.forward(Pool(Max(), Window((2,))), x).tolist() == [2**60 + 1]
    assert type(spec.forward(Pool(Max(), Window((2,))), x)[0]) is int
    assert spec.vjp(Pool(Max(), Window((2,))), x, [1.5]).tolist() == [1.5, 0]
    assert spec.forward(Pool(SmoothMax(1.0), Window((2,))), objects([1, 0.5])).tolist() == [
        pytest.approx(math.log(math.e + math.sqrt(math.e)))
    ]


def test_ints_beside_mpmaths_are_exact_at_any_precision():
    x = objects([2**60 + 1, mpmath.mpf(0)])
    assert int(spec.forward(Pool(Max(), Window((2,))), x)[0]) == 2**60 + 1


def test_lists_of_large_ints_are_not_rounded():
    """NumPy makes floats of 2**63 beside -1."""
    assert spec.forward(Pool(Sum(), Window((2,))), [2**63, -1]).tolist() == [2**63 - 1]
    assert spec.forward(Pool(Avg(), Window((2,))), ([2**63, -1],)).tolist() == [[Fraction(2**63 - 1, 2)]]
    assert spec.forward(Pool(Sum(), Window((2,))), [2**64, -1]).tolist() == [2**64 - 1]
    assert spec.forward(Pool(Sum(), Window((2,))), [0.5, 1]).dtype == np.float64


def test_directions_bring_their_arithmetic():
    third = Fraction(1, 3)
    pool = Pool(Avg(), Window((3,)))
    gx = spec.vjp(pool, np.array([1, 2, 3]), [Fraction(1)])
    assert gx.tolist() == [third] * 3
    all_are(gx, Fraction)
    dy = spec.jvp(pool, np.array([1, 2, 3]), np.array([1, 0, 0], object))[1]
    assert dy.tolist() == [third]
    all_are(dy, Fraction)
    # The weights of floats are floats, and Max has none but 1.
    assert spec.vjp(Pool(Max(), Window((3,))), np.array([1.0, 2.0, 3.0]), [third]).tolist() == [0, 0, third]
    all_are(spec.vjp(Pool(Max(), Window((3,))), np.array([1.0, 2.0, 3.0]), [third]), Fraction)
    with pytest.raises(
        TypeError, match="g has float numbers, which have no product with a weight, a Decimal; give g in"
    ):
        spec.vjp(pool, [Decimal(1)] * 3, [1.5])
    with pytest.raises(
        TypeError, match="t has float numbers, which have no product with a weight, a Decimal; give t in"
    ):
        spec.jvp(pool, [Decimal(1)] * 3, [1.5] * 3)


class Halves(Kind):
    """Half of the first cell, in floats; or its square root, by Python's power."""

    def __init__(self, half, root=False):
        self.half, self.root = half, root

    def value(self, x, pad=0):
        return x[0] ** Fraction(1, 2) if self.root else self.half * x[0]

    def weights(self, x, pad=0):
        return [(0, self.half)]


@pytest.mark.parametrize("number", [Fraction(2), sympy.Integer(2), sympy.Symbol("a")], ids=repr)
def test_a_kind_that_rounds_is_refused_for_exact_numbers(number):
    pool = Pool(Halves(0.5), Window((1,)))
    for act in (spec.forward, lambda p, x: spec.jvp(p, x, x)[1], lambda p, x: spec.vjp(p, x, x)):
        with pytest.raises(TypeError, match=r"gave .* for exact numbers, of which none is rounded; give floats"):
            act(pool, objects([number]))
    exact = spec.vjp(Pool(Halves(Fraction(1, 2)), Window((1,))), [number], [number])
    assert exact.tolist() == [number * Fraction(1, 2)]


def test_exact_refuses_a_root_that_is_rounded():
    with pytest.raises(TypeError, match=r"gave 1\.41.* for exact numbers, of which none is rounded"):
        spec.exact(Pool(Halves(0.5, root=True), Window((1,))), [2.0])
    assert spec.forward(Pool(Halves(0.5, root=True), Window((1,))), objects([2.25])).tolist() == [1.5]


# --- windows of padding alone, axes without cells -------------------------------------------------

FAR = Window((2,), stride=3, padding=4)  # over four cells: two windows of padding alone, one of cells, and so on


@pytest.mark.parametrize("sort", SORTS)
def test_windows_of_padding_alone_are_of_the_same_arithmetic(sort):
    write, number, has_exp = SORTS[sort]
    x = objects([write(Fraction(c)) for c in (1, 2, 0, 3)])
    seen = spec.windows(Pool(Sum(), FAR), (4,))
    alone = [i for (i,), cells in seen.items() if cells == [None, None]]
    assert len(alone) == 2
    kept = int if number is Fraction and "Fraction" not in sort else number
    for kind, result in ((Sum(), kept), (Avg(), number), (Avg(divisor_override=3), number)):
        y = spec.forward(Pool(kind, FAR), x)
        all_are(y, result)
        assert [y[i] for i in alone] == [0, 0]
        y, dy = spec.jvp(Pool(kind, FAR), x, x)
        all_are(dy, number)
        assert [dy[i] for i in alone] == [0, 0]
    if has_exp:
        y = spec.forward(Pool(SmoothMax(Fraction(1, 3)), FAR), x)
        all_are(y, number)
        assert float(y[alone[0]]) == pytest.approx(3 * math.log(2), rel=1e-15)


def test_the_smooth_maximum_of_padding_has_all_digits():
    with mpmath.workdps(40):
        y = spec.forward(Pool(SmoothMax(1.5), FAR), [mpmath.mpf(c) for c in (1, 2, 0, 3)])
        assert abs(y[0] - mpmath.log(2) / mpmath.mpf("1.5")) < mpmath.mpf("1e-38")
        (dual, *_) = spec.forward(Pool(SmoothMax(1.5), FAR), [Dual(mpmath.mpf(c), mpmath.mpf(1)) for c in (1, 2, 0, 3)])
        assert abs(dual.value - y[0]) < mpmath.mpf("1e-38")
        assert dual.tangent == 0
    x = np.array([1.0, 2.0, 0.0, 3.0])
    np.testing.assert_allclose(spec.forward(Pool(SmoothMax(1.5), FAR), x), Pool(SmoothMax(1.5), FAR)(x), rtol=1e-15)


def test_padding_alone_pools_to_zero_when_nothing_else_is_seen():
    pool = Pool(Sum(), Window((1,), stride=4, padding=2))
    y = spec.forward(pool, [Fraction(1)])
    assert y.tolist() == [0, 0]
    all_are(y, Fraction)
    gx = spec.vjp(pool, [Fraction(1)], [Fraction(1), Fraction(2)])
    assert gx.tolist() == [0]
    all_are(gx, Fraction)


@pytest.mark.parametrize("kind", ALL_KINDS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.int16, object])
@pytest.mark.parametrize(
    "window", [Window(1, padding=1), Window(2, padding="same"), Adaptive(2), Adaptive((None,)), Global()], ids=repr
)
def test_a_pooled_axis_has_a_cell(kind, dtype, window):
    """Rule "A window with no real cell": for every kind, Sum and Avg too, whatever the padding."""
    pool = Pool(kind, window, axes=1)
    for shape in ((3, 0), (0, 0), (1, 0, 4)):
        x = np.zeros(shape, dtype)
        for act in (pool, pool.vjp, lambda x: pool.jvp(x, x), lambda x: spec.forward(pool, x)):
            with pytest.raises(
                ValueError, match=r"axis 1 of shape .* is pooled and has length 0; a pooled axis needs a"
            ):
                act(x)
        with pytest.raises(ValueError, match="a pooled axis needs a cell"):
            pool.output_shape(shape)


@pytest.mark.parametrize("kind", ALL_KINDS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.int16, object])
def test_a_carried_axis_without_cells_gives_an_empty_result(kind, dtype):
    x = np.zeros((2, 0, 6), dtype)
    pool = Pool(kind, Window((2,)))
    y, dy = spec.jvp(pool, x, x.astype(float) if dtype is not object else x)
    g = np.zeros((2, 0, 3)) if dtype is not object else np.zeros((2, 0, 3), object)
    same(y, pool(x))
    assert y.shape == (2, 0, 3) == dy.shape
    gx = spec.vjp(pool, x, g)
    assert gx.shape == (2, 0, 6)
    same(gx, pool.vjp(x)[1](g))
    if isinstance(kind, Max | Min):
        same(spec.winners(pool, x), pool.with_indices(x)[1])


@pytest.mark.parametrize("kind", [Sum(), Avg(), Max(), SmoothMax(1.0)], ids=repr)
def test_a_window_that_does_not_fit_is_an_error(kind):
    for act in (Pool(kind, Window((5,), padding=1)), lambda x: spec.forward(Pool(kind, Window((5,), padding=1)), x)):
        with pytest.raises(
            ValueError, match="kernel_size=5 with dilation=1 reaches over 5 cells, and the padded axis has 4"
        ):
            act(np.zeros(2))


def test_torch_refuses_axes_without_cells_as_well():
    torch = pytest.importorskip("torch")
    functions = torch.nn.functional
    for pool in (functions.max_pool2d, functions.avg_pool2d):
        with pytest.raises(RuntimeError, match="Expected 3D or 4D"):
            pool(torch.zeros(1, 1, 0, 4), 2, 1, 1)
        assert pool(torch.zeros(0, 1, 4, 4), 2).shape == (0, 1, 2, 2)
    for ours in (max_pool, avg_pool):
        with pytest.raises(ValueError, match="a pooled axis needs a cell"):
            ours(np.zeros((1, 1, 0, 4)), (2, 2), 1, 1)
        assert ours(np.zeros((0, 1, 4, 4)), (2, 2)).shape == (0, 1, 2, 2)


# --- exact ----------------------------------------------------------------------------------------


def test_exact_has_no_rounding():
    pool = Pool(Avg(), Window((3,), 1))
    x = np.array([0.1, 0.2, 0.3, 1e300])
    third = Fraction(1, 3)
    a, b, c, huge = map(Fraction, [0.1, 0.2, 0.3, 1e300])
    expected = [third * (a + b + c), third * (b + c + huge)]
    assert spec.exact(pool, x).tolist() == expected
    y, dy = spec.exact(pool, x, t=[1.0, 0.0, 0.0, 0.5])
    assert (y.tolist(), dy.tolist()) == (expected, [third, third / 2])
    assert spec.exact(pool, x, g=[1.0, 2.0]).tolist() == [third, 1, 1, 2 * third]
    narrow = x[:3].astype(np.float32)
    assert spec.exact(pool, narrow).tolist() == [third * sum(Fraction(float(v)) for v in narrow)]


def test_exact_errors():
    pool = Pool(Avg(), Window((2,)))
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match=rf"x\[1\] = {bad} is not a rational number; give finite numbers"):
            spec.exact(pool, [1.0, bad])
    with pytest.raises(ValueError, match="t and g are both given"):
        spec.exact(pool, [1.0, 2.0], t=[1.0, 1.0], g=[1.0])
    with pytest.raises(ValueError, match=r"g\[0\] = inf is not a rational number"):
        spec.exact(pool, [1.0, 2.0], g=[math.inf])
    with pytest.raises(ValueError, match=r"t\[1\] = a is not a rational number"):
        spec.exact(pool, [1.0, 2.0], t=[1, sympy.Symbol("a")])
    with pytest.raises(TypeError, match="Fraction numbers have no exp"):
        spec.exact(Pool(SmoothMax(1.0), Window((2,))), [1.0, 2.0])
    with pytest.raises(TypeError, match="root 2 of 2 is no Fraction"):
        spec.exact(Pool(Lp(2), Window((2,))), [1.0, 1.0])


def test_exact_takes_every_rational_number():
    numbers = [
        1,
        True,
        0.5,
        np.float32(0.1),
        Decimal("0.1"),
        mpmath.mpf("-0.75"),
        sympy.Rational(1, 3),
        sympy.Float(0.5),
    ]
    x = np.empty(len(numbers), dtype=object)
    x[:] = numbers
    a = [1, 1, Fraction(1, 2), Fraction(float(np.float32(0.1))), Fraction(1, 10), Fraction(-3, 4)]
    a += [Fraction(1, 3), Fraction(1, 2)]
    assert spec.fractions(x).tolist() == a
    assert all(type(v) is Fraction for v in spec.fractions(x))
    assert spec.exact(Pool(Sum(), Window((8,))), x).tolist() == [sum(a)]


def test_exact_lp_where_its_roots_are_rational():
    pool = Pool(Lp(2), Window((2,)))
    y, dy = spec.exact(pool, [3.0, -4.0], t=[5.0, 10.0])
    assert (y.tolist(), dy.tolist()) == ([5], [-5])
    assert spec.exact(pool, [3.0, -4.0], g=[5.0]).tolist() == [3, -4]


# --- Dual -----------------------------------------------------------------------------------------


def test_dual_arithmetic():
    x, y = Dual(3.0, 1.0), Dual(2.0, 10.0)

    def parts(d):
        return d.value, d.tangent

    assert parts(x + y) == (5, 11)
    assert parts(1 - x) == (-2, -1)
    assert parts(x * y) == (6, 32)
    assert parts(x / y) == (1.5, (1 - 1.5 * 10) / 2)
    assert parts(6 / x) == (2, pytest.approx(-2 / 3))
    assert parts(-x) == (-3, -1)
    assert parts(abs(-x)) == (3, 1)
    assert parts(x**2) == (9, 6)
    assert y < x > 2
    assert x == 3
    assert hash(x) == hash(3.0)
    assert list(itertools.accumulate([x, y]))[1].tangent == 11


def test_dual_keeps_the_order_of_its_value():
    assert Dual(2.0, 9.0) <= Dual(2.0, 1.0) <= 3
    assert 2 <= Dual(2.0, 9.0) >= Dual(2.0, 10.0)
    assert not Dual(2.0) >= 3
    assert not Dual(4.0) <= 3


def test_dual_of_duals_gives_second_derivatives():
    """From two nested duals of the smooth maximum, `beta * (w*(v*v) - (w*v)^2)`."""
    beta, x, v = 1.5, np.array([0.2, -0.4, 1.0]), np.array([1.0, -2.0, 0.5])
    nested = np.array([Dual(Dual(a, b), Dual(b, 0.0)) for a, b in zip(x, v, strict=True)], dtype=object)
    (y,) = spec.forward(Pool(SmoothMax(beta), Window((3,))), nested)
    w = np.exp(beta * x) / np.exp(beta * x).sum()
    assert y.tangent.tangent == pytest.approx(beta * (w @ v**2 - (w @ v) ** 2))


def tangent(a):
    return a.tangent if isinstance(a, Dual) else 0


POINTS = [("1.3", "-0.4", "2.2"), ("0", "-0.4", "1.5"), ("0", "0", "-3"), ("0.5", "0.5", "0.5")]
DIRECTIONS = [("0.7", "-1.1", "0.4"), ("1.2", "0.3", "-0.9"), ("-0.2", "0.8", "1.7")]


@pytest.mark.parametrize("kind", [*FIRST, Lp(3), Lp(4), Lp(Fraction(11, 3))], ids=repr)
@pytest.mark.parametrize("cells", POINTS)
def test_nested_duals_give_second_derivatives(kind, cells):
    """Of value, of weights, and of value by differences, which know nothing of Duals: at cells that are 0 too."""
    with mpmath.workdps(80):
        x, u, v = ([mpmath.mpf(c) for c in row] for row in (cells, *DIRECTIONS[:2]))
        h = mpmath.mpf("1e-20")

        def at(s, t):
            return kind.value([c + s * a + t * b for c, a, b in zip(x, u, v, strict=True)], 1)

        # Selections and Lp(1) have corners, which differences would cross, and no second derivative but 0.
        flat = isinstance(kind, Max | Min | Mode | Quantile | Median) or kind == Lp(1)
        expected = 0 if flat else (at(h, h) - at(h, -h) - at(-h, h) + at(-h, -h)) / (4 * h * h)
        nested = [Dual(Dual(c, a), Dual(b, mpmath.mpf(0))) for c, a, b in zip(x, u, v, strict=True)]
        second = tangent(tangent(kind.value(nested, 1)))
        (along,) = spec.jvp(
            Pool(kind, Window((4,), padding=((0, 1),))), objects([d.value for d in nested]), objects(v)
        )[1]
        # A second derivative of |x|^p at 0 is one that differences reach only slowly, unless p is even.
        slow = "0" in cells and kind in (Lp(2.5), Lp(3), Lp(Fraction(11, 3)))
        allowed = mpmath.mpf("1e-8" if slow else "1e-25")
        assert abs(second - expected) <= allowed * (1 + abs(expected))
        assert abs(tangent(along) - second) <= mpmath.mpf("1e-60")
        if isinstance(kind, SmoothMax | Lp) and kind != Lp(1) and len(set(cells)) == 3:
            assert abs(second) > 1e-3


@pytest.mark.parametrize("kind", [SmoothMax(1.5), Lp(2), Lp(3), Lp(4), Lp(Fraction(11, 3))], ids=repr)
def test_threefold_duals_give_third_derivatives(kind):
    with mpmath.workdps(100):
        x, u, v, w = ([mpmath.mpf(c) for c in row] for row in (POINTS[0], *DIRECTIONS))
        h = mpmath.mpf("1e-15")

        def at(r, s, t):
            return kind.value([c + r * a + s * b + t * d for c, a, b, d in zip(x, u, v, w, strict=True)])

        signs = list(itertools.product((1, -1), repeat=3))
        expected = sum(r * s * t * at(r * h, s * h, t * h) for r, s, t in signs) / (8 * h**3)
        none = mpmath.mpf(0)
        nested = [
            Dual(Dual(Dual(c, a), Dual(b, none)), Dual(Dual(d, none), Dual(none, none)))
            for c, a, b, d in zip(x, u, v, w, strict=True)
        ]
        third = kind.value(nested).tangent.tangent.tangent
        assert abs(third) > 1e-3
        assert abs(third - expected) < mpmath.mpf("1e-25")


def test_nested_duals_of_every_exact_number():
    """The Hessian of the norm of (3, -4) is ((16, 12), (12, 9)) / 125; beside a 0, 1 / y."""
    for write in (Fraction, sympy.Integer):
        for (i, j), expected in {(0, 0): 16, (0, 1): 12, (1, 1): 9}.items():
            one, none = write(1), write(0)
            cells = [
                Dual(Dual(write(c), one if k == i else none), Dual(one if k == j else none, none))
                for k, c in enumerate((3, -4))
            ]
            assert Lp(2).value(cells).tangent.tangent == Fraction(expected, 125)
    flat = [
        Dual(Dual(Fraction(0), Fraction(1)), Dual(Fraction(1), Fraction(0))),
        Dual(Dual(Fraction(5)), Dual(Fraction(0))),
    ]
    assert Lp(2).value(flat).tangent.tangent == Fraction(1, 5)
    assert Lp(1).value(flat).tangent.tangent == 0
    (first, _), weight = Lp(2).weights([Dual(Fraction(0), Fraction(1)), Dual(Fraction(5), Fraction(0))])
    assert (first, weight[1].value) == (0, 1)


def test_a_derivative_that_is_infinite_is_an_error():
    """The second derivative of |x|^1.5 at 0."""
    cells = [Dual(Dual(0.0, 1.0), Dual(1.0, 0.0)), Dual(Dual(1.0, 0.0), Dual(0.0, 0.0))]
    with pytest.raises(ZeroDivisionError, match=r"0 \*\* -0\.5: a derivative is infinite at a cell that is 0"):
        Lp(1.5).value(cells)
    assert Lp(1.5).value([Dual(0.0, 1.0), Dual(1.0, 0.0)]).tangent == 0
    (y,) = spec.forward(Pool(Lp(2), Window((2,))), objects([Dual(0.0, 1.0), Dual(0.0, 2.0)]))
    assert (y.value, y.tangent) == (0, 0)
