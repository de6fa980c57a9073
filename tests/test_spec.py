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

from ndpool import Adaptive, Avg, Dual, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window, spec
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
        assert np.isnan(spec.forward(Pool(kind, Window((2,))), x)).tolist() == [True, False, False]


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
    y, dy = spec.jvp(pool, x, np.ones(4))
    assert (y.dtype, dy.dtype) == (result, derivative)
    assert spec.vjp(pool, x, np.ones(2)).dtype == derivative


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


@pytest.mark.parametrize(("kind", "wanted"), [(SmoothMax(1.0), "exp"), (Lp(2), "root 2"), (Lp(1.5), "power 1.5")])
def test_numbers_without_functions(kind, wanted):
    with pytest.raises(TypeError, match=rf"Fraction numbers have no {wanted}, which SmoothMax and Lp need; use floats"):
        spec.forward(Pool(kind, Window((2,))), [Fraction(1), Fraction(2)])


def test_winners_need_a_single_one():
    for kind in (Max("all"), Min("split"), Avg()):
        with pytest.raises(ValueError, match="has no single winner in a window; use Max or Min with ties='first'"):
            spec.winners(Pool(kind, Window((2,))), [1, 2])


def test_directions_must_have_the_right_shape():
    pool = Pool(Max(), Window((2,)))
    with pytest.raises(ValueError, match=r"t has shape \(3,\) and should have \(4,\)"):
        spec.jvp(pool, np.zeros(4), np.zeros(3))
    with pytest.raises(ValueError, match=r"g has shape \(4,\) and should have \(2,\)"):
        spec.vjp(pool, np.zeros(4), np.zeros(4))


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
    with pytest.raises(TypeError, match="Fraction numbers have no exp"):
        spec.exact(Pool(SmoothMax(1.0), Window((2,))), [1.0, 2.0])


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


def test_dual_of_duals_gives_second_derivatives():
    """From two nested duals of the smooth maximum, `beta * (w*(v*v) - (w*v)^2)`."""
    beta, x, v = 1.5, np.array([0.2, -0.4, 1.0]), np.array([1.0, -2.0, 0.5])
    nested = np.array([Dual(Dual(a, b), Dual(b, 0.0)) for a, b in zip(x, v, strict=True)], dtype=object)
    (y,) = spec.forward(Pool(SmoothMax(beta), Window((3,))), nested)
    w = np.exp(beta * x) / np.exp(beta * x).sum()
    assert y.tangent.tangent == pytest.approx(beta * (w @ v**2 - (w @ v) ** 2))
