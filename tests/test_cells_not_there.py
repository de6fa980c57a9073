"""Rule "Skipped cells", by hand: what the specification says of cells that are not there, and what is refused."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import ndpool
from ndpool import Avg, Global, Kind, Lp, Max, Median, Min, Mode, Pool, Quantile, SmoothMax, Sum, Window, spec
from ndpool.skipping import decoded, encoded, held, is_there

nan, inf = math.nan, math.inf

#: Pairs of cells: both there, one of the two, none.
X = [3.0, 5.0, nan, 4.0, nan, nan]


@pytest.mark.parametrize(
    ("kind", "pair", "weights"),
    [
        (Max(), 5.0, [0, 1]),
        (Min("all"), 3.0, [1, 0]),
        (Avg(), 4.0, [0.5, 0.5]),
        (Sum(), 8.0, [1, 1]),
        (Mode(), 3.0, [1, 0]),
        (Median(), 4.0, [0.5, 0.5]),
        (Quantile(0.25), 3.5, [0.75, 0.25]),
    ],
    ids=repr,
)
def test_by_hand(kind, pair, weights):
    pool = Pool(kind, Window((2,)), skip=nan)
    np.testing.assert_array_equal(spec.forward(pool, X), [pair, 4.0, nan])
    t = np.array([10.0, 20.0, nan, 30.0, nan, nan])
    _, dy = spec.jvp(pool, X, t)
    np.testing.assert_array_equal(dy, [10 * weights[0] + 20 * weights[1], 30.0, 0.0])
    gx = spec.vjp(pool, X, [1.0, 2.0, nan])
    np.testing.assert_array_equal(gx, [*weights, 0, 2.0, 0, 0])


def test_smooth_kinds_pass_over_what_is_not_there():
    for kind in (SmoothMax(2.0), SmoothMax(-1.0, count_include_pad=False), Lp(2), Lp(2.5)):
        pool = Pool(kind, Window((2,)), skip=nan)
        y = spec.forward(pool, X)
        np.testing.assert_array_equal(y[:1], spec.forward(Pool(kind, Window((2,))), X[:2]))
        np.testing.assert_allclose(y[1:], [4.0, nan])
        np.testing.assert_allclose(spec.vjp(pool, X, [0.0, 2.0, 3.0]), [0, 0, 0, 2.0, 0, 0])


def test_too_few_cells_give_the_value_itself():
    pool = Pool(Max(), Window((2,)), skip=nan, min_count=2)
    np.testing.assert_array_equal(spec.forward(pool, X), [5.0, nan, nan])
    np.testing.assert_array_equal(spec.vjp(pool, X, [1.0, 2.0, 3.0]), [0, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(spec.winners(pool, X), [1, -1, -1])


def test_a_nan_beside_another_value_is_a_cell():
    x = [nan, 0.0, 0.0, 2.0]
    np.testing.assert_array_equal(spec.forward(Pool(Max(), Window((2,)), skip=0), x), [nan, 2.0])
    np.testing.assert_array_equal(spec.forward(Pool(Sum(), Window((2,)), skip=0), x), [nan, 2.0])


def test_a_background_does_not_win():
    labels = np.array([0, 0, 0, 7, 0, 0, 0, 0], np.uint16)
    y = spec.forward(Pool(Mode(), Window((4,)), skip=0), labels)
    assert y.dtype == np.uint16
    assert y.tolist() == [7, 0]


def test_padding_counts_where_it_does_without_skip():
    x = [nan, 6.0, nan]
    np.testing.assert_array_equal(spec.forward(Pool(Avg(), Window((3,), 1, 1), skip=nan), x), [3.0, 6.0, 3.0])
    real = Pool(Avg(count_include_pad=False), Window((3,), 1, 1), skip=nan)
    np.testing.assert_array_equal(spec.forward(real, x), [6.0, 6.0, 6.0])
    # A window in which only padding is left has too few cells.
    np.testing.assert_array_equal(spec.forward(Pool(Avg(), Window((2,), 2, 1), skip=nan), [nan, 1.0, nan]), [nan, 1.0])


def test_a_sum_of_no_cell_where_none_is_needed():
    assert spec.forward(Pool(Sum(), Window((2,)), skip=7, min_count=0), [7, 7, 7, 1]).tolist() == [0, 1]
    fixed = Pool(Avg(divisor_override=4), Window((2,)), skip=nan, min_count=0)
    np.testing.assert_array_equal(spec.forward(fixed, X), [2.0, 1.0, 0.0])


def test_means_of_integers_count_what_is_there():
    x = np.array([1, 0, 4, 0, 5, 6, 0, 0], np.uint8)
    assert spec.forward(Pool(Avg(rounding="half_up"), Window((4,)), skip=0), x).tolist() == [3, 6]
    plain = spec.forward(Pool(Avg(), Window((4,)), skip=0), x)
    assert (plain.dtype, plain.tolist()) == (np.float64, [2.5, 5.5])
    assert spec.forward(Pool(Sum(), Window((2,)), skip=0), x).tolist() == [1, 4, 11, 0]


def test_exact_numbers():
    pool = Pool(Avg(), Window((3,)), skip=Fraction(1, 3))
    y = spec.forward(pool, [Fraction(1, 3), Fraction(1), Fraction(2)])
    assert y.tolist() == [Fraction(3, 2)]
    assert spec.exact(Pool(Median(), Window((3,)), skip=0), [0.0, 1.0, 2.0]).tolist() == [Fraction(3, 2)]


class Range(Kind):
    """Of a user's own."""

    def value(self, x, pad=0):
        return max(x) - min(x)

    def weights(self, x, pad=0):
        return [(x.index(max(x)), 1), (x.index(min(x)), -1)]


def test_a_kind_of_your_own_sees_the_cells_that_are_there():
    pool = Pool(Range(), Window((2,)), skip=nan)
    np.testing.assert_array_equal(pool(np.array(X)), [2.0, 0.0, nan])


# --- pools as values ------------------------------------------------------------------------------


def test_pools_with_nan_are_equal_and_travel():
    a, b = (Pool(Max(), Window((2,)), skip=float("nan"), min_count=2) for _ in range(2))
    assert a == b
    assert hash(a) == hash(b)
    c = pickle.loads(pickle.dumps(a))
    assert (c == a, c.min_count) == (True, 2)
    assert a != Pool(Max(), Window((2,)), skip=0, min_count=2)
    assert repr(a).endswith("skip=nan, min_count=2)")


@pytest.mark.parametrize("skip", [0, 0.0, -0.0, False, np.float32(0), np.array(0), Fraction(0)], ids=repr)
def test_one_zero(skip):
    assert Pool(Max(), Window((2,)), skip=skip) == Pool(Max(), Window((2,)), skip=0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_values_as_a_dtype_has_them(dtype):
    numpy = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    for value in (0.1, -9999.9, 1 / 3, 65504.0, 2.0**-20, inf, -inf, 0.0):
        assert held(value, dtype) == float(numpy.type(value))
        assert decoded(encoded(value, dtype), dtype) == float(numpy.type(value))
        bits = np.array(value).astype(numpy).view(f"u{numpy.itemsize}")
        assert encoded(value, dtype) == int(bits)
    assert math.isnan(held(nan, dtype))
    assert math.isnan(decoded(encoded(nan, dtype), dtype))


def test_whole_values():
    assert held(255.0, "uint8") == 255
    assert held(2**64 - 1, "uint64") == 2**64 - 1
    assert encoded(-1, "int16") == 2**64 - 1
    assert held(True, "bool") == 1
    assert not is_there(nan, nan)
    assert is_there(nan, 0)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"skip": "0"}, TypeError, "skip='0' is a str; give the number that stands for a cell not there"),
        ({"skip": 1j}, TypeError, "skip=1j is a complex; give the number"),
        ({"skip": 0, "min_count": -1}, ValueError, "min_count=-1 is less than 0"),
        ({"skip": 0, "min_count": 1.5}, TypeError, "min_count=1.5 is a float"),
        ({"min_count": 2}, ValueError, "min_count=2 counts the cells that are not skipped; give skip=... beside it"),
        ({"skip": 0, "min_count": 0}, ValueError, r"min_count=0, and Max\(ties='first'\) of no cell has no value"),
    ],
)
def test_bad_arguments(arguments, error, said):
    with pytest.raises(error, match=said):
        Pool(Max(), Window((2,)), **arguments)


@pytest.mark.parametrize("kind", [Avg(), Avg(False), SmoothMax(1.0), Lp(2), Median(), Mode(), Min("split")], ids=repr)
def test_kinds_that_need_a_cell(kind):
    with pytest.raises(ValueError, match="of no cell has no value; give min_count >= 1"):
        Pool(kind, Window((2,)), skip=0, min_count=0)


@pytest.mark.parametrize(
    ("skip", "dtype", "said"),
    [
        (300, "uint8", "skip=300 is no uint8; give an integer from 0 to 255"),
        (-1, "uint64", "skip=-1 is no uint64"),
        (0.5, "int32", "skip=0.5 is no int32"),
        (nan, "int64", "skip=nan is no int64"),
        (inf, "int8", "skip=inf is no int8; give an integer from -128 to 127"),
        (2, "bool", "skip=2 is no bool; give an integer from 0 to 1"),
        (1e39, "float32", r"skip=1e\+39 is beyond float32"),
        (70000, "float16", "skip=70000 is beyond float16; give a number from -65504.0 to 65504.0"),
        (10**400, "float64", "is beyond float64"),
    ],
)
def test_a_value_that_the_dtype_does_not_have(skip, dtype, said):
    pool, x = Pool(Max(), Window((2,)), skip=skip), np.zeros(4, dtype)
    for compute in (pool, lambda x: spec.forward(pool, x)):
        with pytest.raises(ValueError, match=said):
            compute(x)
    assert not x.any()


def test_complex_numbers_have_no_skip():
    with pytest.raises(TypeError, match="skip=0 is for real numbers, and x has complex128"):
        ndpool.sum_pool(np.zeros(4, complex), (2,), skip=0)


@pytest.mark.parametrize("window", [Window((2, 2)), Global()])
def test_more_cells_than_a_window_has(window):
    with pytest.raises(ValueError, match="min_count=5, and a window has 4 cells at most; give min_count <= 4"):
        Pool(Sum(), window, (0, 1), skip=0, min_count=5)(np.zeros((2, 2)))
