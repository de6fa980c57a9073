"""The kinds as values and as mathematics: value and weights on windows small enough to check by hand."""

from __future__ import annotations

import itertools
import math
import re
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from ndpool import (
    Avg,
    Dual,
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
    check_kind,
    lp_pool,
    scalars,
    smooth_max_pool,
    spec,
)
from ndpool.kinds import METHODS, ROUNDINGS, TIES
from strategies import ALL_KINDS

nan, inf = math.nan, math.inf


def test_kinds_are_values():
    assert Max() == Max("first") != Max("split")
    assert hash(SmoothMax(2)) == hash(SmoothMax(2.0))
    assert repr(SmoothMax(2)) == "SmoothMax(beta=2.0, count_include_pad=True)"
    assert repr(Lp(2.0)) == "Lp(p=2)"
    assert Max() != Min()
    with pytest.raises(AttributeError, match="cannot assign"):
        Max().ties = "all"


ERRORS = [
    (lambda: Max("last"), ValueError, "ties='last' is not a policy; give one of ('first', 'split', 'all')"),
    (lambda: Min(ties=None), ValueError, "ties=None is not a policy"),
    (lambda: SmoothMax(0), ValueError, "beta=0 must be finite and not 0"),
    (lambda: SmoothMax(nan), ValueError, "beta=nan must be finite and not 0"),
    (lambda: SmoothMax(-inf), ValueError, "beta=-inf must be finite and not 0"),
    (lambda: SmoothMax("1"), TypeError, "beta='1' is a str; give a real number: an int, a float, a Fraction, "),
    (lambda: SmoothMax(True), TypeError, "beta=True is a bool"),
    (lambda: SmoothMax(1j), TypeError, "beta=1j is a complex"),
    (lambda: SmoothMax(sympy.I), TypeError, "beta=I is a ImaginaryUnit"),
    (lambda: SmoothMax(Fraction(0)), ValueError, "beta=Fraction(0, 1) must be finite and not 0"),
    (lambda: SmoothMax(Decimal("NaN")), ValueError, "beta=Decimal('NaN') must be finite and not 0"),
    (lambda: SmoothMax(sympy.oo), ValueError, "beta=oo must be finite and not 0"),
    (lambda: SmoothMax(sympy.Symbol("z", zero=True)), ValueError, "beta=z must be finite and not 0"),
    (lambda: Lp(Fraction(2, 3)), ValueError, "p=Fraction(2, 3) must be finite and >= 1"),
    (lambda: Lp(sympy.sqrt(2) / 2), ValueError, "p=sqrt(2)/2 must be finite and >= 1"),
    (lambda: Lp(mpmath.inf), ValueError, "p=mpf('+inf') must be finite and >= 1"),
    (lambda: Lp(sympy.Symbol("n", negative=True)), ValueError, "p=n must be finite and >= 1"),
    (lambda: Lp(sympy.Symbol("i", imaginary=True)), TypeError, "p=i is a Symbol"),
    (lambda: SmoothMax(1.0, count_include_pad=0), TypeError, "count_include_pad=0 is not a bool"),
    (lambda: Lp(0.5), ValueError, "p=0.5 must be finite and >= 1 for a norm; for p = infinity use Max over abs(x)"),
    (lambda: Lp(inf), ValueError, "p=inf must be finite and >= 1"),
    (lambda: Lp(nan), ValueError, "p=nan must be finite and >= 1"),
    (lambda: Lp(None), TypeError, "p=None is a NoneType"),
    (lambda: Avg(count_include_pad=1), TypeError, "count_include_pad=1 is not a bool"),
    (lambda: Avg(divisor_override=0), ValueError, "divisor_override=0 is less than 1"),
    (lambda: Avg(divisor_override=2.0), TypeError, "divisor_override=2.0 is a float"),
    (lambda: Sum(1), TypeError, "takes 1 positional argument"),
    (lambda: Kind(), TypeError, "abstract"),
]


@pytest.mark.parametrize(("act", "error", "message"), ERRORS, ids=[message for _, _, message in ERRORS])
def test_error(act, error, message):
    with pytest.raises(error, match=re.escape(message)):
        act()


@pytest.mark.parametrize(
    ("cells", "first", "split", "every"),
    [
        ([1, 9, 2, 9], [(1, 1)], [(1, 0.5), (3, 0.5)], [(1, 1), (3, 1)]),
        ([5], [(0, 1)], [(0, 1.0)], [(0, 1)]),
        ([-inf, -inf], [(0, 1)], [(0, 0.5), (1, 0.5)], [(0, 1), (1, 1)]),
        ([1.0, nan, inf, nan], [(1, 1)], [(1, 0.5), (3, 0.5)], [(1, 1), (3, 1)]),
        ([0.0, -0.0], [(0, 1)], [(0, 0.5), (1, 0.5)], [(0, 1), (1, 1)]),
    ],
)
def test_ties_policies(cells, first, split, every):
    assert [Max(ties).weights(cells) for ties in TIES] == [first, split, every]
    mirrored = [-cell for cell in cells]
    assert [Min(ties).weights(mirrored) for ties in TIES] == [first, split, every]
    np.testing.assert_equal(Max().value(cells), cells[first[0][0]])
    np.testing.assert_equal(Min().value(mirrored), mirrored[first[0][0]])


def test_average_divisors():
    assert Avg().value([1, 2], pad=2) == 0.75
    assert Avg(count_include_pad=False).value([1, 2], pad=2) == 1.5
    assert Avg(divisor_override=3).value([1, 2], pad=2) == 1
    assert Avg(divisor_override=3).weights([Fraction(1)], pad=2) == [(0, Fraction(1, 3))]


def test_smooth_max_counts_padding_as_zero():
    cells = [0.3, -1.2]
    assert SmoothMax(2.0).value(cells, pad=3) == pytest.approx(SmoothMax(2.0).value([*cells, 0, 0, 0]))
    assert SmoothMax(2.0, count_include_pad=False).value(cells, pad=3) == SmoothMax(2.0).value(cells)
    with_pad = dict(SmoothMax(2.0).weights(cells, pad=3))
    assert with_pad == pytest.approx(dict(SmoothMax(2.0).weights([*cells, 0.0, 0.0, 0.0])[:2]))
    assert sum(with_pad.values()) < 1


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=8), st.floats(0.01, 100))
def test_smooth_max_bounds(cells, beta):
    slack = 1e-12 * (1 + max(map(abs, cells)))
    y = SmoothMax(beta).value(cells)
    assert max(cells) - slack <= y <= max(cells) + math.log(len(cells)) / beta + slack
    low = SmoothMax(-beta).value(cells)
    assert min(cells) - math.log(len(cells)) / beta - slack <= low <= min(cells) + slack
    # Negative beta is the smooth minimum.
    assert low == pytest.approx(-SmoothMax(beta).value([-c for c in cells]), abs=slack)


@pytest.mark.parametrize("beta", [1e3, -1e3, 1e-3, -1e-3])
@pytest.mark.parametrize("cells", [[1e20, -1e20], [1e20, 1e20], [-1e20, -1e20], [1e20, 0.0, 1.0], [0.0, -0.5, 0.25]])
def test_smooth_max_stays_finite_and_right(beta, cells):
    with mpmath.workdps(60):
        # Without any shift: mpmath's exponents have no bound.
        terms = [mpmath.exp(mpmath.mpf(beta) * mpmath.mpf(c)) for c in cells]
        expected = float(mpmath.log(mpmath.fsum(terms)) / beta)
        shares = [float(term / mpmath.fsum(terms)) for term in terms]
    assert SmoothMax(beta).value(cells) == pytest.approx(expected, rel=1e-14, abs=1e-13 / abs(beta))
    assert [w for _, w in SmoothMax(beta).weights(cells)] == pytest.approx(shares, abs=1e-14)


def test_smooth_max_tends_to_max():
    cells = [0.1, 0.9, 0.4]
    gaps = [SmoothMax(beta).value(cells) - 0.9 for beta in (1, 4, 16, 64)]
    assert all(later < earlier for earlier, later in itertools.pairwise(gaps))
    assert 0 <= gaps[-1] < 1e-12
    assert SmoothMax(1e4).value(cells) == 0.9


@pytest.mark.parametrize(
    ("cells", "value", "shares"),
    [
        ([1.0, inf], inf, [0, 1]),
        ([inf, -inf, inf], inf, [0.5, 0, 0.5]),
        ([-inf, -inf], -inf, [0.5, 0.5]),
        ([-inf, 2.0], 2.0, [0, 1]),
        ([nan, 2.0], nan, [nan, nan]),
        ([nan, inf], nan, [nan, nan]),
    ],
)
def test_smooth_max_of_infinities_and_nan(cells, value, shares):
    np.testing.assert_equal(SmoothMax(1.0).value(cells), value)
    np.testing.assert_equal([w for _, w in SmoothMax(1.0).weights(cells)], shares)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3, 7])
def test_lp_is_the_norm(p):
    cells = [3.0, -4.0, 0.0, 1e-3]
    assert Lp(p).value(cells) == pytest.approx(np.linalg.norm(cells, p))
    y = np.linalg.norm(cells, p)
    expected = [np.sign(c) * abs(c) ** (p - 1) / y ** (p - 1) for c in cells]
    assert [w for _, w in Lp(p).weights(cells)] == pytest.approx(expected)


def test_lp_neither_overflows_nor_divides_by_zero():
    assert Lp(4).value([1e200, -1e200]) == pytest.approx(2**0.25 * 1e200)
    assert Lp(4).value([1e-200, 0.0]) == pytest.approx(1e-200)
    assert Lp(2).value([0.0, -0.0]) == 0
    assert Lp(2).weights([0.0, -0.0]) == []
    assert Lp(3).value([inf, 1.0]) == inf
    assert [w for _, w in Lp(3).weights([-inf, 1.0])] == [-1, 0]
    assert math.isnan(Lp(3).value([nan, inf]))
    # The sign of a cell does not depend on the others.
    np.testing.assert_equal(Lp(1).weights([-inf, 1.0, -2.0, 0.0]), [(0, -1), (1, 1), (2, -1), (3, 0)])
    np.testing.assert_equal(Lp(1).weights([nan, 1.0, -2.0, 0.0]), [(0, nan), (1, 1), (2, -1), (3, 0)])


def test_a_kind_of_your_own_works_everywhere():
    class Middle(Kind):
        """The cell in the middle of the window."""

        def value(self, x, pad=0):
            return x[len(x) // 2]

        def weights(self, x, pad=0):
            return [(len(x) // 2, 1)]

    pool = Pool(Middle(), Window((3,)))
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    np.testing.assert_array_equal(pool(x), [2, 5])
    np.testing.assert_array_equal(pool.jvp(x, x * 10)[1], [20, 50])
    np.testing.assert_array_equal(pool.vjp(x)[1]([1.0, -1.0]), [0, 1, 0, 0, -1, 0])


@pytest.mark.parametrize("kind", ALL_KINDS, ids=repr)
def test_repr_evaluates_to_the_kind(kind):
    assert eval(repr(kind)) == kind


# --- beta and p -----------------------------------------------------------------------------------

THIRD = Fraction(1, 3)


@pytest.mark.parametrize(
    "written", [2.5, Fraction(5, 2), Decimal("2.5"), mpmath.mpf("2.5"), sympy.Rational(5, 2), np.float32(2.5)], ids=repr
)
def test_a_number_that_a_float_holds_is_kept_as_the_float(written):
    for kind, kept in ((SmoothMax(written), SmoothMax(written).beta), (Lp(written), Lp(written).p)):
        assert type(kept) is float
        assert kept == 2.5
        assert (kind, hash(kind)) == (type(kind)(2.5), hash(type(kind)(2.5)))
        assert eval(repr(kind)) == kind
        x = np.array([1.0, 2.0, 4.0, 0.5])
        np.testing.assert_array_equal(Pool(kind, Window((2,)))(x), Pool(type(kind)(2.5), Window((2,)))(x))
    assert Lp(Fraction(3)) == Lp(sympy.Integer(3)) == Lp(mpmath.mpf(3)) == Lp(Decimal(3)) == Lp(3)
    assert type(Lp(Fraction(3)).p) is int


@pytest.mark.parametrize(
    "number",
    [
        THIRD + 1,
        Decimal("1.1"),
        sympy.Rational(4, 3),
        sympy.sqrt(2),
        sympy.Symbol("p", positive=True),
        2**53 + 1,
        10**400,
    ],
    ids=lambda number: repr(number)[:20],
)
def test_the_engine_refuses_what_is_no_float(number):
    x = np.array([1.0, 2.0])
    kept = Fraction(4, 3) if isinstance(number, sympy.Rational) else number
    message = (
        re.escape(f"={kept!r} in ") + ".* is no float, and the engine computes with floats; give (beta|p) as a float"
    )
    for act in (lambda: smooth_max_pool(x, number, (2,)), lambda: lp_pool(x.astype(np.int8), number, (2,))):
        with pytest.raises(TypeError, match=message):
            act()
    pool = Pool(SmoothMax(number), Window((2,)))
    for act in (lambda: pool.jvp(x, x), lambda: pool.vjp(x)):
        with pytest.raises(TypeError, match=message):
            act()
    assert SmoothMax(number).beta == Lp(number).p == kept


def test_large_powers_are_floats_to_the_engine():
    """1e300 is a whole number, kept as an int, and a float all the same."""
    assert lp_pool(np.array([1.0, -2.0]), 1e300, (2,)).tolist() == [2]


@pytest.mark.parametrize("beta", [THIRD, -THIRD, Decimal("0.1"), sympy.Rational(2, 7)], ids=repr)
def test_a_rational_beta_is_not_rounded(beta):
    exact = Fraction(beta) if not isinstance(beta, sympy.Rational) else Fraction(beta.p, beta.q)
    with mpmath.workdps(40):
        b = mpmath.mpf(exact.numerator) / exact.denominator
        cells = [mpmath.mpf(1), mpmath.mpf(-2), mpmath.mpf("0.3")]
        expected = mpmath.log(mpmath.fsum(mpmath.exp(b * c) for c in cells) + 1) / b
        assert abs(SmoothMax(beta).value(cells, 1) - expected) < mpmath.mpf("1e-38")
        p = exact + 2
        norm = mpmath.fsum(abs(c) ** (b + 2) for c in cells) ** (1 / (b + 2))
        assert abs(Lp(p).value(cells) - norm) < mpmath.mpf("1e-38")
        shares = [mpmath.sign(c) * (abs(c) / norm) ** (b + 1) for c in cells]
        assert all(abs(w - s) < mpmath.mpf("1e-37") for (_, w), s in zip(Lp(p).weights(cells), shares, strict=True))
    decimals = [Decimal(1), Decimal(-2), Decimal("0.3")]
    assert abs(SmoothMax(beta).value(decimals, 1) - Decimal(mpmath.nstr(expected, 40))) < Decimal("1e-26")
    floats = [1.0, -2.0, 0.3]
    assert SmoothMax(beta).value(floats, 1) == pytest.approx(float(expected), rel=1e-15)
    assert Lp(p).value(floats) == pytest.approx(float(norm), rel=1e-15)


def test_an_mpmath_beta_keeps_its_digits():
    with mpmath.workdps(40):
        beta = mpmath.mpf(1) / 3
        assert type(SmoothMax(beta).beta) is mpmath.mpf
        cells = [mpmath.mpf(1), mpmath.mpf(2)]
        expected = mpmath.log(mpmath.exp(beta) + mpmath.exp(2 * beta)) / beta
        assert abs(SmoothMax(beta).value(cells) - expected) < mpmath.mpf("1e-38")


def test_symbols_for_beta_and_p():
    """Numbers become SymPy's beside them, exactly; the weights are what SymPy's own differentiation gives."""
    b, p = sympy.symbols("b p", positive=True)
    a, c = sympy.symbols("a c", positive=True)
    for cells in ([1, Fraction(1, 3)], [sympy.Integer(1), sympy.Rational(1, 3)], [Dual(1, 0), Dual(Fraction(1, 3), 0)]):
        y = scalars.primal(SmoothMax(b).value(cells, 2))
        assert sympy.simplify(y - sympy.log(sympy.exp(b) + sympy.exp(b / 3) + 2) / b) == 0
        norm = scalars.primal(Lp(p).value(cells))
        assert sympy.simplify(norm - (1 + sympy.Rational(1, 3) ** p) ** (1 / p)) == 0
    for kind in (SmoothMax(b), Lp(p), SmoothMax(sympy.Symbol("undecided")), Lp(3)):
        y = kind.value([a, c])
        for (_, weight), cell in zip(kind.weights([a, c]), (a, c), strict=True):
            difference = (weight - sympy.diff(y, cell)).subs({a: 2, c: 3, b: 1.5, p: 2.5, "undecided": -0.5})
            assert abs(sympy.N(difference)) < 1e-12
    with pytest.raises(TypeError, match=r"gave numbers that are no float64 .* give x as an array of objects"):
        spec.forward(Pool(SmoothMax(b), Window((2,))), [1.0, 2.0])


# --- Lp of exact numbers and of symbols -----------------------------------------------------------


def test_lp_of_sympys_integers():
    cells = [sympy.Integer(3), sympy.Integer(-4)]
    assert Lp(2).value(cells) == 5
    assert Lp(2).weights(cells) == [(0, sympy.Rational(3, 5)), (1, -sympy.Rational(4, 5))]
    assert lp_pool(cells, 2, (2,)).tolist() == [5]
    assert Lp(2).value([sympy.Integer(1)] * 2) == sympy.sqrt(2)
    assert Lp(1).value(cells) == 7
    assert Lp(1).weights(cells) == [(0, 1), (1, -1)]
    assert Lp(3).value([sympy.Integer(0)] * 2) == 0
    assert Lp(3).weights([sympy.Integer(0)] * 2) == []
    assert Lp(3).weights([-sympy.oo, sympy.Integer(1)]) == [(0, -1), (1, 0)]


@pytest.mark.parametrize("p", [1, 2, 3, 4, 2.5, Fraction(7, 3)])
@pytest.mark.parametrize("real", [True, None])
def test_lp_of_symbols(p, real):
    """The weights are right at every point, at 0 too, whatever is known about the symbols."""
    a, b = sympy.symbols("a b", real=real)
    exact = sympy.Rational(Fraction(p))
    y = Lp(p).value([a, b])
    weights = dict(Lp(p).weights([a, b]))
    for point in [(3, -4), (-1, 2), (0, 5)]:
        at = dict(zip((a, b), map(sympy.Integer, point), strict=True))
        norm = sum(abs(c) ** exact for c in at.values()) ** (1 / exact)
        assert sympy.simplify(y.subs(at) - norm) == 0
        for i, c in enumerate(at.values()):
            assert sympy.simplify(weights[i].subs(at) - sympy.sign(c) * (abs(c) / norm) ** (exact - 1)) == 0
    nowhere = {a: sympy.Integer(0), b: sympy.Integer(0)}
    assert [weight.subs(nowhere) for weight in weights.values()] == [0, 0]
    assert not any(scalars.is_rounded(term) for term in (y, *weights.values()))


def test_lp_of_symbols_is_simple_where_they_are_known():
    a, b = sympy.symbols("a b", positive=True)
    assert Lp(2).weights([a, b]) == [(0, a / sympy.sqrt(a**2 + b**2)), (1, b / sympy.sqrt(a**2 + b**2))]
    with pytest.raises(TypeError, match="Symbol numbers have no order"):
        Lp(1).weights([sympy.Symbol("i", imaginary=True), a])


@pytest.mark.parametrize(
    ("p", "cells", "value", "weights"),
    [
        (2, [3, -4], 5, [Fraction(3, 5), Fraction(-4, 5)]),
        (2, [Fraction(-5, 3), Fraction(12, 3)], Fraction(13, 3), [Fraction(-5, 13), Fraction(12, 13)]),
        (3, [3, 4, 5], 6, [Fraction(1, 4), Fraction(4, 9), Fraction(25, 36)]),
        (Fraction(3, 2), [0, Fraction(-9, 4)], Fraction(9, 4), [0, -1]),
        (1.5, [9, -16, 25], 36, [Fraction(1, 2), Fraction(-2, 3), Fraction(5, 6)]),
        (1.1, [0, 7], 7, [0, 1]),
        (1, [Fraction(1, 3), -2], Fraction(7, 3), [1, -1]),
    ],
)
def test_lp_of_fractions_where_the_root_is_one(p, cells, value, weights):
    cells = [Fraction(c) for c in cells]
    assert Lp(p).value(cells) == value
    assert type(Lp(p).value(cells)) is Fraction
    assert [w for _, w in Lp(p).weights(cells)] == weights


@pytest.mark.parametrize("cells", [[1, 1], [2, Fraction(1, 3)]])
@pytest.mark.parametrize("p", [2, 3, 1.5, 1.1, Fraction(7, 3), 100])
def test_lp_of_fractions_refuses_what_is_irrational(p, cells):
    cells = [Fraction(c) for c in cells]
    for act in (Lp(p).value, Lp(p).weights):
        with pytest.raises(TypeError, match=r"root \d+ of .* is no Fraction, which Lp needs; use floats"):
            act(cells)


@given(st.fractions(min_value=0, max_denominator=50), st.integers(1, 9))
def test_roots_of_fractions(a, n):
    assert scalars.root(a**n, n) == a
    assert scalars.power(a**n, Fraction(1, n)) == a


def test_lp_of_decimals():
    three, four, zero = Decimal(3), Decimal(-4), Decimal(0)
    assert Lp(2).value([three, four]) == 5
    for p in (1, 2, 2.5):
        assert Lp(p).value([zero, zero]) == 0
        assert type(Lp(p).value([zero, zero])) is Decimal
        assert Lp(p).weights([zero, zero]) == []
    assert Lp(1).value([three, zero, four]) == 7
    assert Lp(1).weights([three, zero, four]) == [(0, 1), (1, 0), (2, -1)]


# --- weights that are wrong -----------------------------------------------------------------------


class Wrong(Kind):
    """A kind made of two functions, which may contradict each other."""

    def __init__(self, value, weights, needs_cell=True):
        self._value, self._weights, self._needs_cell = value, weights, needs_cell

    def value(self, x, pad=0):
        return self._value(x, pad)

    def weights(self, x, pad=0):
        return self._weights(x, pad)

    @property
    def needs_cell(self):
        return self._needs_cell

    def __repr__(self):
        return "Wrong()"


def mean(x, pad):
    return sum(x[1:], start=x[0]) / (len(x) + pad)


def range_of(x, pad):
    return Max().value(x) - Min().value(x)


def range_weights(x, pad):
    return [*Max().weights(x), *((i, -w) for i, w in Min().weights(x))]


def square(x, pad):
    return sum((c * c for c in x[1:]), start=x[0] * x[0])


@pytest.mark.parametrize("kind", [*ALL_KINDS, SmoothMax(1e4), SmoothMax(THIRD), Lp(7), Lp(Fraction(4, 3))], ids=repr)
def test_every_kind_passes_its_check(kind):
    assert check_kind(kind) is None


RIGHT = [
    Wrong(range_of, range_weights),
    Wrong(mean, lambda x, pad: [(i, 1 / (len(x) + pad)) for i in range(len(x))]),  # floats
    Wrong(square, lambda x, pad: [(i, 2 * c) for i, c in enumerate(x)]),
    Wrong(lambda x, pad: len(x), lambda x, pad: [], needs_cell=False),
    Wrong(lambda x, pad: x[0], lambda x, pad: ((i, 1) for i in [0])),  # a generator
    # The functions of `math` know neither Fractions nor Duals.
    Wrong(lambda x, pad: math.fsum(map(math.exp, x)), lambda x, pad: [(i, math.exp(c)) for i, c in enumerate(x)]),
]


@pytest.mark.parametrize("kind", RIGHT)
def test_a_kind_of_your_own_passes_its_check(kind):
    assert check_kind(kind) is None


WRONG = [
    (mean, lambda x, pad: [(i, Fraction(1, len(x))) for i in range(len(x))], "with 1 padded ones: weights gives 1 for"),
    (range_of, lambda x, pad: Max().weights(x), "weights gives 1 for cell 0, and the derivative of value there is 0"),
    (range_of, lambda x, pad: [*Max().weights(x), *Min().weights(x)], "weights gives 2 for cell 0, and .* there is 0"),
    (
        square,
        lambda x, pad: [(i, c) for i, c in enumerate(x)],
        r"cells \[1.375\] with 0 .* gives 11/8 for cell 0, .* is 11/4",
    ),
    (
        lambda x, pad: math.fsum(map(math.exp, x)),
        lambda x, pad: [(i, math.exp(c) + 0.01) for i, c in enumerate(x)],
        "gives",
    ),
    # Only at ties: leaning on nothing, on a loser, too much, or by half.
    (Max().value, lambda x, pad: Max().weights(x) if x.count(max(x)) == 1 else [], "adds up to 1 around there"),
    (
        Max().value,
        lambda x, pad: Max().weights(x) if x.count(max(x)) == 1 else [(x.index(min(x)), 1)],
        r"cells \[-2.0, 3.0, 3.0\] .* gives 1 for cell 0, and the derivative of value is 0 to 0 around there",
    ),
    (
        Max().value,
        lambda x, pad: [(i, Fraction(3, x.count(max(x)) + 2)) for i in Max().winners(x)],
        "gives .* 3/2 in all",
    ),
    (
        Max().value,
        lambda x, pad: [(i, w * 2 if len(x) > 1 and x.count(max(x)) > 1 else w) for i, w in Max().weights(x)],
        "gives 2",
    ),
    # Only at a zero.
    (
        Lp(1).value,
        lambda x, pad: [(i, -2 if c == 0 else scalars.sign(c)) for i, c in enumerate(x)],
        "gives -2 for cell 0",
    ),
    # Only beside padding, or without any cell.
    (
        lambda x, pad: mean(x, 0),
        lambda x, pad: [(i, Fraction(1, len(x) + (pad > 2))) for i in range(len(x))],
        "with 3 padded",
    ),
    # A place that is none.
    (Max().value, lambda x, pad: [(-1, 1)], "a weight for cell -1 of a window of 1 cells; a place is an int from 0 up"),
    (Max().value, lambda x, pad: [(len(x), 1)], "a weight for cell 1 of a window of 1 cells"),
    (Max().value, lambda x, pad: [(0.0, 1)], "a weight for cell 0.0"),
    (Max().value, lambda x, pad: [(False, 1)], "a weight for cell False"),
    # Only beside NaN.
    (
        Max().value,
        lambda x, pad: Max().weights(x) if x == x[:] and not any(map(math.isnan, x)) else [(len(x) - 1, 1)],
        r"cells \[nan, 1.5, -2.25\] with 0 padded ones: weights gives \[\(2, 1\)\], on no NaN",
    ),
    (
        lambda x, pad: Max().value([c for c in x if c == c] or [0.0]),
        lambda x, pad: Max().weights(x),
        "gives 1 for cell 0, and the derivative of value is on numbers alone, as value is",
    ),
]


@pytest.mark.parametrize(("value", "weights", "message"), WRONG, ids=[message for _, _, message in WRONG])
def test_wrong_weights_are_told(value, weights, message):
    with pytest.raises(ValueError, match=message):
        check_kind(Wrong(value, weights))


def test_weights_of_padding_alone_are_told():
    with pytest.raises(ValueError, match="a weight for cell 0 of a window of 0 cells"):
        check_kind(
            Wrong(lambda x, pad: sum(x), lambda x, pad: [(i, 1) for i in range(max(1, len(x)))], needs_cell=False)
        )


def test_windows_of_your_own():
    """The logarithm of the product, for positive cells; wrong at one cell only."""
    kind = Wrong(
        lambda x, pad: sum((scalars.log(c) for c in x[1:]), start=scalars.log(x[0])),
        lambda x, pad: [(i, 1 / c if c != 7 else 1) for i, c in enumerate(x)],
    )
    assert check_kind(kind, windows=[[1, 2, 3], [0.5], [2, 2]]) is None
    with pytest.raises(
        ValueError, match=r"cells \[2.0, 7.0\] .* gives 1 for cell 1, and the derivative of value there is 0.14"
    ):
        check_kind(kind, windows=[[1, 2], [2, 7]])


def test_check_kind_wants_a_kind():
    for bad in (Max, "max", None):
        with pytest.raises(TypeError, match="is not a Kind; give for example Max"):
            check_kind(bad)


@pytest.mark.parametrize("place", [-1, 2, 1.0, True, None])
def test_a_weight_outside_of_its_window_is_refused(place):
    """Python would take -1 for the last cell."""
    pool = Pool(Wrong(mean, lambda x, pad: [(place, 1)]), Window((2,)))
    x = np.array([1.0, 2.0, 3.0, 4.0])
    for act in (lambda: pool.jvp(x, x), lambda: pool.vjp(x)[1](np.ones(2)), lambda: spec.vjp(pool, x, x[:2])):
        with pytest.raises(ValueError, match=r"Wrong\(\).weights gave a weight for cell .* of a window of 2 cells"):
            act()


def test_a_value_that_cannot_be_is_refused():
    with pytest.raises(TypeError, match=r"Wrong\(\).value gave None for a window of 2 cells; return a number"):
        Pool(Wrong(lambda x, pad: None, lambda x, pad: []), Window((2,)))([1.0, 2.0])

    class Half(Wrong):
        integers = "keep"

    pool = Pool(Half(lambda x, pad: x[0] / 2, lambda x, pad: [(0, 0.5)]), Window((1,)))
    assert pool(np.array([2, 4])).tolist() == [1, 2]
    with pytest.raises(TypeError, match=r"gave 1\.5 for integers, which it keeps; let it have integers = 'float64'"):
        pool(np.array([2, 3]))


# --- Mode, Quantile, Median, and means that stay integers -------------------------------------------


@pytest.mark.parametrize(
    ("cells", "first", "smallest", "largest"),
    [
        ([5], 0, 0, 0),
        ([1, 2, 2], 1, 1, 1),
        ([9, 4, 4, 9], 0, 1, 0),
        ([3, 1, 2], 0, 1, 0),
        ([nan, 1.0, nan, 1.0], 0, 0, 0),
        ([1.0, nan, 1.0, nan], 0, 1, 1),
        ([-0.0, 7.0, 0.0], 0, 0, 0),
        ([7.0, 0.0, -0.0, 7.0], 0, 1, 0),
        ([inf, -inf, -inf, inf], 0, 1, 0),
    ],
)
def test_the_mode_is_the_first_cell_that_has_it(cells, first, smallest, largest):
    for ties, place in (("first", first), ("smallest", smallest), ("largest", largest)):
        assert Mode(ties).weights(cells) == [(place, 1)]
        assert Mode(ties).value(cells) is cells[place]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("q", [0, 0.1, 0.25, 0.5, 0.9, 1, Fraction(1, 3)])
def test_quantiles_are_those_of_numpy(q, method):
    rng = np.random.default_rng(5)
    for n in range(1, 13):
        cells = rng.integers(-3, 4, n).astype(float)
        want = np.quantile(cells, float(q), method=method)
        kind = Quantile(q, method)
        assert kind.value(cells.tolist()) == pytest.approx(want, rel=1e-15, abs=1e-15)
        # The weights are shares of cells between which it lies.
        assert sum(w for _, w in kind.weights(cells.tolist())) == pytest.approx(1)
        assert sum(w * cells[i] for i, w in kind.weights(cells.tolist())) == pytest.approx(want)
        if q == 0.5 and method == "linear":
            assert Median().value(cells.tolist()) == np.median(cells)


def test_quantiles_by_hand():
    assert Quantile(0.5).weights([2, 1, 2, 2]) == [(0, 0.5), (2, 0.5)]  # equal cells in row-major order
    assert Quantile(0.5, "lower").weights([2, 1, 2, 2]) == [(0, 1)]
    assert Median().value([1, 2]) == 1.5
    assert Quantile(0.1).value([3.0, 3.0]) == 3.0
    assert Quantile(Fraction(1, 3)).value([Fraction(0), Fraction(1)]) == Fraction(1, 3)


@pytest.mark.parametrize(
    ("cells", "y"),
    [([-inf, 3.0], -inf), ([inf, 3.0], inf), ([inf, inf], inf), ([-1e308, 1e308], 0.0), ([-inf, inf], nan)],
)
def test_quantiles_between_infinities(cells, y):
    assert Median().value(cells) == pytest.approx(y, nan_ok=True)


def test_a_nan_is_the_quantile_and_has_all_the_weight():
    for kind in (Median(), Quantile(0.1), Quantile(1, "lower")):
        assert math.isnan(kind.value([1.0, nan, nan]))
        assert kind.weights([1.0, nan, nan]) == [(1, 1)]


@pytest.mark.parametrize(
    ("rounding", "halves", "quarters"),
    [
        ("half_even", [-2, -1, 0, 0, 0, 1, 2], [-1, 0, 0, 0, 0, 0, 1]),
        ("half_up", [-1, -1, 0, 0, 1, 1, 2], [-1, 0, 0, 0, 0, 1, 1]),
        ("half_away", [-2, -1, -1, 0, 1, 1, 2], [-1, -1, 0, 0, 0, 1, 1]),
        ("floor", [-2, -1, -1, 0, 0, 1, 1], [-1, -1, -1, 0, 0, 0, 0]),
        ("truncate", [-1, -1, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0, 0]),
    ],
)
def test_roundings_by_hand(rounding, halves, quarters):
    """Of -3 to 3 halves, and of -3 to 3 quarters."""
    kind = Avg(rounding=rounding)
    assert [kind.value([n, 0]) for n in range(-3, 4)] == halves
    assert [kind.value([n, 0, 0, 0]) for n in range(-3, 4)] == quarters


@given(st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=9), st.sampled_from(list(ROUNDINGS)))
def test_roundings_are_of_the_exact_mean(cells, rounding):
    mean = Fraction(sum(cells), len(cells))
    below, above = math.floor(mean), math.ceil(mean)
    half = mean - below == Fraction(1, 2)
    nearest = below if mean - below < Fraction(1, 2) else above
    want = {
        "floor": below,
        "truncate": below if mean > 0 else above,
        "half_even": (below if below % 2 == 0 else above) if half else nearest,
        "half_up": above if half else nearest,
        "half_away": (above if mean > 0 else below) if half else nearest,
    }
    assert Avg(rounding=rounding).value(cells) == want[rounding]
    assert Avg(rounding=rounding).weights(cells) == Avg().weights(cells)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: Mode("all"), ValueError, r"ties='all' is not a policy of Mode; give one of \('first', 'smallest'"),
        (lambda: Quantile(1.5), ValueError, "q=1.5 is not a share of the cells; give a number from 0 to 1"),
        (lambda: Quantile(nan), ValueError, "q=nan is not a share of the cells"),
        (lambda: Quantile("half"), TypeError, "q='half' is a str; give a real number"),
        (lambda: Quantile(0.5, "middle"), ValueError, "method='middle' is not a method; give one of"),
        (lambda: Avg(rounding="up"), ValueError, "rounding='up' is not a way to round; give one of"),
        (lambda: Avg(True, 4, "floor"), ValueError, "rounding='floor' with divisor_override=4"),
        (lambda: Avg(rounding="floor").value([0.5]), TypeError, "rounding='floor' is for integers"),
        (lambda: Avg(rounding="floor").check_dtype("float16"), TypeError, "is for integers, and x has float16"),
    ],
)
def test_bad_parameters_of_the_kinds_of_images(make, error, said):
    with pytest.raises(error, match=said):
        make()
