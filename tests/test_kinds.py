"""The kinds as values and as mathematics: value and weights on windows small enough to check by hand."""

from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndpool import Avg, Kind, Lp, Max, Min, Pool, SmoothMax, Sum, Window
from ndpool.kinds import TIES
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
    (lambda: SmoothMax("1"), TypeError, "beta='1' is a str; give an int or a float"),
    (lambda: SmoothMax(True), TypeError, "beta=True is a bool"),
    (lambda: SmoothMax(Fraction(1, 3)), TypeError, "beta=Fraction(1, 3) is a Fraction"),
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
