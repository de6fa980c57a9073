"""Arrays of xarray: dimensions by name, coordinates at the centres of windows, and the same numbers as elsewhere."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from chunked import numbers
from hypothesis import given, settings
from hypothesis import strategies as st

import ndpool
from ndpool import Adaptive, Avg, Global, Max, Mode, Pool, Window

xarray = pytest.importorskip("xarray")


def field(dtype="f8"):
    x = numbers((4, 9, 10), dtype, 7, hostile=False)
    time = np.datetime64("2024-02-28", "ns") + np.arange(4) * np.timedelta64(1, "D")
    lat = np.arange(90.0).reshape(9, 10)
    coords = {"time": time, "y": np.arange(9) * 2.0, "x": np.arange(10), "lat": (("y", "x"), lat), "run": 3}
    return xarray.DataArray(x, coords, ("time", "y", "x"), "q", {"units": "K"})


X = field()


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("axes", [("y", "x"), ("x", "y"), ("time",), "x", ("time", "x")])
def test_names_are_numbers(axes):
    names = (axes,) if isinstance(axes, str) else axes
    window = Window(tuple(range(2, 2 + len(names))), stride=1)
    y = Pool(Max(), window, axes=axes)(X)
    places = tuple(X.dims.index(name) for name in names)
    np.testing.assert_array_equal(y.values, Pool(Max(), window, axes=places)(X.values))
    assert (y.dims, y.name, y.attrs) == (X.dims, X.name, X.attrs)


def test_numbers_work_as_well_and_so_do_the_last_axes():
    xarray.testing.assert_identical(ndpool.max_pool(X, (2, 2)), ndpool.max_pool(X, 2, axes=("y", "x")))
    xarray.testing.assert_identical(ndpool.max_pool(X, 2, axes=(1, 2)), ndpool.max_pool(X, 2, axes=("y", "x")))


@settings(max_examples=40)
@given(st.integers(1, 4), st.integers(1, 4), st.sampled_from(["avg", "max", "min", "sum", "median"]))
def test_as_coarsen(ky, kx, kind):
    """Windows side by side, with what is left over trimmed."""
    plain = X.drop_vars(["lat"])
    y = getattr(ndpool, f"{kind}_pool")(plain, (ky, kx), axes=("y", "x"))
    coarse = plain.coarsen(y=ky, x=kx, boundary="trim")
    xarray.testing.assert_allclose(y, getattr(coarse, "mean" if kind == "avg" else kind)())


@settings(max_examples=30)
@given(st.integers(1, 5), st.sampled_from(["mean", "max", "min", "sum"]))
def test_as_rolling(k, name):
    """Windows one cell apart. Rolling fills what has no whole window with NaN, which is dropped."""
    kind = "avg" if name == "mean" else name
    y = getattr(ndpool, f"{kind}_pool")(X, k, axes="y", stride=1)
    rolled = getattr(X.rolling(y=k), name)().isel(y=slice(k - 1, None))
    np.testing.assert_allclose(y.values, rolled.values)
    np.testing.assert_allclose(y.y.values, rolled.y.values - (k - 1))  # a step is 2, and rolling labels the end


def test_missing_data_as_coarsen_skips_it():
    x = X.where(X > 0)
    y = ndpool.avg_pool(x, 3, axes=("y", "x"), skip=np.nan)
    xarray.testing.assert_allclose(y, x.coarsen(y=3, x=3, boundary="trim").mean())
    few = ndpool.avg_pool(x, 3, axes=("y", "x"), skip=np.nan, min_count=9)
    assert int(few.isnull().sum()) > int(y.isnull().sum())


# --- coordinates ----------------------------------------------------------------------------------


def test_centres_of_windows():
    y = ndpool.avg_pool(X, 3, axes=("y", "x"), stride=2, padding=1)
    np.testing.assert_array_equal(y.y, [0.0, 4.0, 8.0, 12.0, 16.0])
    np.testing.assert_array_equal(y.x, [0, 2, 4, 6, 8])
    np.testing.assert_array_equal(y.lat[1, 1], X.lat[2, 2])
    assert y.x.dtype == X.x.dtype
    assert int(y.run) == 3


def test_centres_lie_halfway_and_go_on_beyond_the_ends():
    y = ndpool.max_pool(X, 2, axes=("y", "x"), padding=1)
    np.testing.assert_array_equal(y.x, [-0.5, 1.5, 3.5, 5.5, 7.5, 9.5])
    np.testing.assert_array_equal(y.y, [-1.0, 3.0, 7.0, 11.0, 15.0])


def test_centres_of_times():
    y = ndpool.max_pool(X, 2, axes="time")
    assert y.time.values.tolist() == np.array(["2024-02-28T12", "2024-03-01T12"], "M8[ns]").tolist()
    whole = ndpool.global_max_pool(X, axes="time")
    assert whole.time.values.tolist() == np.array(["2024-02-29T12"], "M8[ns]").tolist()


def test_centres_of_times_of_other_calendars():
    pytest.importorskip("cftime")
    time = xarray.date_range("2001-02-28", periods=4, calendar="360_day", use_cftime=True)
    y = ndpool.max_pool(X.assign_coords(time=time), 2, axes="time")
    assert [str(t) for t in y.time.values] == ["2001-02-28 12:00:00", "2001-02-30 12:00:00"]


def test_centres_of_bins():
    y = Pool(Max(), Adaptive(4), axes="x")(X)
    np.testing.assert_array_equal(y.x, [1.0, 3.0, 6.0, 8.0])


def test_text_is_dropped_along_pooled_dimensions_alone():
    x = X.assign_coords(row=("y", list("abcdefghi")), day=("time", list("MTWT")))
    y = ndpool.max_pool(x, 2, axes="y")
    assert "row" not in y.coords
    assert y.day.values.tolist() == list("MTWT")


def test_dimensions_without_coordinates_have_none():
    y = ndpool.max_pool(xarray.DataArray(np.zeros((4, 4))), 2, axes=("dim_0", "dim_1"))
    assert not y.coords


def test_dimensions_that_go():
    y = Pool(Avg(), Global(keepdims=False), axes=("y", "x"))(X)
    assert y.dims == ("time",)
    assert set(y.coords) == {"time", "run"}


# --- lazily ---------------------------------------------------------------------------------------


def test_chunks_stay_lazy():
    lazy = X.chunk({"y": 4, "x": 3})
    for pool in (
        Pool(Avg(), Window((3, 3), stride=2, padding=1), axes=("y", "x")),
        Pool(Mode(), Window((2,)), axes="time"),
        Pool(Max(), Global(), axes=("y", "x")),
    ):
        y = pool(lazy)
        assert isinstance(y.data, da.Array)
        xarray.testing.assert_identical(y.compute(), pool(X))


# --- Datasets -------------------------------------------------------------------------------------


def test_datasets():
    data = xarray.Dataset(
        {"q": X, "r": 2 * X.transpose("x", "y", "time"), "day": ("time", [1, 2, 3, 4])}, attrs={"a": 1}
    )
    y = ndpool.max_pool(data, 2, axes=("y", "x"))
    xarray.testing.assert_identical(y.q, ndpool.max_pool(X, 2, axes=("y", "x")))
    np.testing.assert_array_equal(y.r.transpose("time", "y", "x"), 2 * y.q)
    assert y.day.values.tolist() == [1, 2, 3, 4]
    assert y.attrs == {"a": 1}
    assert list(y.data_vars) == ["q", "r", "day"]


# --- derivatives ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lazy", [False, True])
def test_derivatives(lazy):
    x = X.chunk({"y": 4, "x": 3}) if lazy else X
    pool, plain = (Pool(Max(), Window((3, 3), stride=2), axes=axes) for axes in (("y", "x"), (1, 2)))
    y, pull = pool.vjp(x)
    g = y.transpose("x", "time", "y")
    gx = pull(g)
    np.testing.assert_array_equal(gx.values, plain.vjp(X.values)[1](y.values))
    assert gx.dims == X.dims
    xarray.testing.assert_identical(gx.y, X.y)
    y, dy = pool.jvp(x, x)
    np.testing.assert_array_equal(dy.values, y.values)
    y, linear = pool.linearize(x)
    np.testing.assert_array_equal(linear.push(X.values).values, y.values)
    y, indices = pool.with_indices(x)
    np.testing.assert_array_equal(indices.values, plain.with_indices(X.values)[1])
    xarray.testing.assert_identical(indices.y, y.y)
    np.testing.assert_array_equal(linear.indices().values, indices.values)
    assert linear.residual.winners.dtype == np.uint8


# --- errors ---------------------------------------------------------------------------------------

DATA = xarray.Dataset({"q": X, "t": ("time", [1, 2, 3, 4]), "half": ("y", np.zeros(9))})
PAIRS = Pool(Max(), Window((2, 2)), axes=("y", "x"))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: ndpool.max_pool(X, 2, axes="z"),
            ValueError,
            r"names 'z', and x has the dimensions \('time', 'y', 'x'\)",
        ),
        (lambda: ndpool.max_pool(DATA, 2, axes="z"), ValueError, "names 'z', and x has the dimensions"),
        (lambda: ndpool.max_pool(X, 2, axes=("y", 2)), TypeError, r"axes=\('y', 2\) mixes names and numbers"),
        (lambda: ndpool.max_pool(X, 2, axes=("y", "y")), ValueError, "names a dimension twice"),
        (lambda: ndpool.max_pool(X.values, 2, axes="y"), TypeError, "are names, and x has no named dimensions"),
        (lambda: ndpool.max_pool(DATA, (2, 2)), TypeError, "x is a Dataset, .* give axes by their names"),
        (lambda: PAIRS(DATA), ValueError, r"the variable 'half' has the dimensions \('y',\)"),
        (lambda: PAIRS(DATA.drop_dims("x")), ValueError, "names 'x', and x has the dimensions"),
        (lambda: PAIRS.vjp(DATA), TypeError, "x is a Dataset of xarray, and this is for one array"),
        (lambda: PAIRS.jvp(X, X.rename(x="u")), ValueError, "t has the dimensions"),
        (lambda: PAIRS(X, out=np.empty(3)), TypeError, "out is given beside an array of xarray, .*; leave it out"),
        (lambda: PAIRS.vjp(X)[1](PAIRS(X), out=1), TypeError, "out is given beside a DataArray"),
        (lambda: PAIRS.jvp(X.values[0], X), TypeError, "are names|give its .values"),
        (
            lambda: Pool(Max(), Window((2,))).jvp(np.zeros(2), X),
            TypeError,
            "give its .values, or all arrays as xarray's",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
