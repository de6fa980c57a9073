"""Each function is its kind over its window, under every spelling; and Pool as an object."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import ndpool
from ndpool import Adaptive, Avg, Global, Lp, Max, Median, Min, Mode, Pool, Quantile, SmoothMax, Sum, Window, functional
from ndpool.making import numbers
from ndpool.remembering import Remembered
from ndpool.table import ABOUT_PADDING, in_words
from ndpool.table import KINDS as TABLED

X = np.random.default_rng(0).integers(-3, 4, (2, 3, 6, 7)).astype(float)

#: Each kind with its parameters that come before the window.
KINDS = {in_words(kind.__name__): (kind(*numbers(kind)), numbers(kind)) for kind in TABLED}


@pytest.mark.parametrize("name", KINDS)
def test_over_a_window(name):
    kind, parameter = KINDS[name]
    function = getattr(ndpool, f"{name}_pool")
    expected = Pool(kind, Window((3, 2), 2, 1, (1, 2), True))(X)
    np.testing.assert_array_equal(function(X, *parameter, (3, 2), 2, 1, dilation=(1, 2), ceil_mode=True), expected)
    over = Pool(kind, Window((3, 2), (2, 1)), axes=(1, 3))(X)
    np.testing.assert_array_equal(function(X, *parameter, (3, 2), (2, 1), axes=(1, 3)), over)


@pytest.mark.parametrize("name", KINDS)
def test_over_adaptive_bins_and_everything(name):
    kind, parameter = KINDS[name]
    adaptive, everything = getattr(ndpool, f"adaptive_{name}_pool"), getattr(ndpool, f"global_{name}_pool")
    np.testing.assert_array_equal(adaptive(X, *parameter, (4, 5)), Pool(kind, Adaptive((4, 5)))(X))
    np.testing.assert_array_equal(adaptive(X, *parameter, 2, axes=1), Pool(kind, Adaptive(2), axes=1)(X))
    assert everything(X, *parameter).shape == (2, 3, 1, 1)
    np.testing.assert_array_equal(everything(X, *parameter), Pool(kind, Global(), axes=(-2, -1))(X))
    flat = everything(X, *parameter, axes=(1, 2, 3), keepdims=False)
    np.testing.assert_array_equal(flat, Pool(kind, Global(keepdims=False), axes=(1, 2, 3))(X))
    assert flat.shape == (2,)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("name", KINDS)
def test_spellings_with_a_rank(name, rank):
    _, parameter = KINDS[name]
    axes = tuple(range(-rank, 0))
    for function, arguments in [(f"{name}_pool", (3, 2, 1)), (f"adaptive_{name}_pool", (2,))]:
        plain, spelled = getattr(ndpool, function), getattr(ndpool, f"{function}{rank}d")
        np.testing.assert_array_equal(spelled(X, *parameter, *arguments), plain(X, *parameter, *arguments, axes=axes))
        assert spelled.__name__ == f"{function}{rank}d"
        assert f"over the last {rank} axes" in spelled.__doc__
        assert inspect.signature(spelled) == inspect.signature(plain)


class Recorded:
    """In place of Pool: keeps what it is made of, and says what it is asked for."""

    def __init__(self, kind, window, axes, skip, min_count):
        self.made = (kind, window, axes, skip, min_count)

    def __call__(self, x, out=None):
        return ("forward", *self.made, x, out)

    def with_indices(self, x, out=None):
        return ("indices", *self.made, x, out)


#: Each kind with no option as by default, and the parameter that comes before the window.
OPTIONS = {
    "max": ({"ties": "split"}, (), Max("split")),
    "min": ({"ties": "split"}, (), Min("split")),
    "avg": ({"count_include_pad": False, "divisor_override": 5}, (), Avg(False, 5)),
    "sum": ({}, (), Sum()),
    "smooth_max": ({"count_include_pad": False}, (1.5,), SmoothMax(1.5, False)),
    "lp": ({}, (3,), Lp(3)),
    "mode": ({"ties": "largest"}, (), Mode("largest")),
    "quantile": ({"method": "lower"}, (0.25,), Quantile(0.25, "lower")),
    "median": ({}, (), Median()),
}


# --- pools that are found again -------------------------------------------------------------------


@pytest.fixture
def made(monkeypatch):
    """The pools that calls had to make."""
    pools = []

    def make(*arguments):
        pools.append(Pool(*arguments))
        return pools[-1]

    monkeypatch.setattr(functional, "Pool", make)
    monkeypatch.setattr(functional, "_POOLS", Remembered(10))
    return pools


@pytest.mark.parametrize("kernel", [2, (2, 2), [2, 2], np.int64(2), (np.int32(2), 2)], ids=repr)
def test_a_pool_is_made_once(made, kernel):
    kernels = [kernel, type(kernel)(kernel) if isinstance(kernel, list | np.int64) else kernel, kernel]
    for one in kernels:
        np.testing.assert_array_equal(ndpool.max_pool2d(X, one, padding=1), Pool(Max(), Window((2, 2), padding=1))(X))
    assert len(made) == 1


def test_calls_that_differ_in_anything_have_pools_of_their_own(made):
    x = X[0, 0]
    calls = [
        lambda: ndpool.max_pool2d(x, 2),
        lambda: ndpool.max_pool2d(x, 3),
        lambda: ndpool.max_pool2d(x, 2, 1),
        lambda: ndpool.max_pool2d(x, 2, ties="all"),
        lambda: ndpool.min_pool2d(x, 2),
        lambda: ndpool.max_pool2d(x, 2, axes=(1, 0)),
        lambda: ndpool.max_pool(x, 2, axes=0),
        lambda: ndpool.adaptive_max_pool2d(x, 2),
        lambda: ndpool.lp_pool2d(x, 2, 2),
    ]
    expected = [call() for call in calls]
    assert len(made) == len(calls)
    for call, y in zip(calls, expected, strict=True):
        np.testing.assert_array_equal(call(), y)
    assert len(made) == len(calls)


def test_equal_arguments_of_another_type_are_refused_as_ever():
    for _ in range(2):
        ndpool.max_pool2d(X, 2, padding=0, ceil_mode=False)
        with pytest.raises(TypeError, match=r"kernel_size=2\.0"):
            ndpool.max_pool2d(X, 2.0)
        with pytest.raises(TypeError, match=r"kernel_size\[1\]=2\.0"):
            ndpool.max_pool2d(X, (2, 2.0))
        with pytest.raises(TypeError, match="ceil_mode=0"):
            ndpool.max_pool2d(X, 2, padding=0, ceil_mode=0)


def test_a_list_is_read_at_every_call():
    kernel = [1, 2]
    assert ndpool.max_pool(X, kernel).shape == (2, 3, 6, 3)
    kernel[0] = 3
    assert ndpool.max_pool(X, kernel).shape == (2, 3, 2, 3)
    array = np.array([1, 2])
    assert ndpool.max_pool(X, array).shape == (2, 3, 6, 3)
    array[0] = 3
    assert ndpool.max_pool(X, array).shape == (2, 3, 2, 3)


def test_pools_are_let_go(made):
    for size in range(1, 30):
        ndpool.max_pool(np.zeros(40), (size,))
    assert len(made) == 29
    ndpool.max_pool(np.zeros(40), (29,))
    assert len(made) == 29
    ndpool.max_pool(np.zeros(40), (1,))
    assert len(made) == 30


@pytest.mark.parametrize("rank", [None, 1, 2, 3])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_argument_arrives(name, rank, monkeypatch):
    """None is dropped, swapped or replaced by its default, in any spelling."""
    monkeypatch.setattr(functional, "Pool", Recorded)
    monkeypatch.setattr(functional, "_POOLS", Remembered(10))
    options, parameter, kind = OPTIONS[name]
    x, out, suffix = object(), object(), "" if rank is None else f"{rank}d"
    over_window, over_bins = (getattr(functional, f"{family}{name}_pool{suffix}") for family in ("", "adaptive_"))
    window = Window((5, 4), (3, 2), (2, 1), (1, 6), True)
    all_windows = {"axes": (0, 2), "skip": -7, "min_count": 3, "out": out}
    more = {"dilation": (1, 6), "ceil_mode": True, **all_windows, **options}
    wanted = (kind, window, (0, 2), -7, 3, x, out)
    assert over_window(x, *parameter, (5, 4), (3, 2), (2, 1), **more) == ("forward", *wanted)
    few = {key: value for key, value in options.items() if key not in ABOUT_PADDING}
    plain = kind if few else type(kind)(*parameter)
    expected = (plain, Adaptive((4, 7)), (0, 2), -7, 3, x, out)
    assert over_bins(x, *parameter, (4, 7), **all_windows, **few) == ("forward", *expected)
    if hasattr(kind, "winners"):
        asked = over_window(x, *parameter, (5, 4), (3, 2), (2, 1), **more, return_indices=True)
        assert asked == ("indices", *wanted)
        asked = over_bins(x, *parameter, (4, 7), **all_windows, **few, return_indices=True)
        assert asked == ("indices", *expected)
    usual = type(kind)(*parameter)
    if rank is None:
        over_all = getattr(functional, f"global_{name}_pool")
        asked = over_all(x, *parameter, keepdims=False, **all_windows, **few)
        assert asked == ("forward", plain, Global(False), (0, 2), -7, 3, x, out)
        all_of_them = type(kind)("all") if isinstance(kind, Max | Min) else usual
        assert over_all(x, *parameter)[1:6] == (all_of_them, Global(), (-2, -1), None, 1)
    else:
        last = tuple(range(-rank, 0))
        assert over_window(x, *parameter, 2)[1:] == (usual, Window(2), last, None, 1, x, None)
        assert over_bins(x, *parameter, 2, axes=None)[1:] == (usual, Adaptive(2), last, None, 1, x, None)


def test_a_spelling_may_name_other_axes():
    np.testing.assert_array_equal(ndpool.max_pool2d(X, 2, axes=(1, 2)), ndpool.max_pool(X, (2, 2), axes=(1, 2)))


def test_options_reach_the_kind():
    x = np.array([1.0, 5.0, 5.0, 2.0])
    np.testing.assert_array_equal(ndpool.avg_pool(x, (3,), 2, 1, count_include_pad=False), [3, 4])
    np.testing.assert_array_equal(ndpool.avg_pool(x, (3,), 2, 1, divisor_override=2), [3, 6])
    np.testing.assert_allclose(
        ndpool.smooth_max_pool(x, 2.0, (3,), 2, 1, count_include_pad=False),
        Pool(SmoothMax(2.0, count_include_pad=False), Window((3,), 2, 1))(x),
    )


@pytest.mark.parametrize("ties", ["first", "split", "all"])
def test_indices(ties):
    """int64, flat over the pooled axes, the first winner under every policy."""
    x = np.array([[4, 4, 1, 2], [4, 0, 9, 9]])
    y, indices = ndpool.max_pool2d(x, 2, ties=ties, return_indices=True)
    assert (y.tolist(), indices.tolist(), indices.dtype) == ([[4, 9]], [[0, 6]], np.int64)
    y, indices = ndpool.min_pool2d(x, (2, 2), 1, ties=ties, return_indices=True)
    assert (y.tolist(), indices.tolist()) == ([[0, 0, 1]], [[5, 5, 2]])
    y, indices = ndpool.adaptive_max_pool(x, (3,), axes=1, ties=ties, return_indices=True)
    assert (y.tolist(), indices.tolist()) == ([[4, 4, 2], [4, 9, 9]], [[0, 1, 3], [0, 2, 2]])
    assert ndpool.adaptive_min_pool2d(x, 1, ties=ties, return_indices=True)[1].tolist() == [[5]]


def test_global_max_defaults_to_all_ties():
    signature = inspect.signature(ndpool.global_max_pool)
    assert signature.parameters["ties"].default == "all"
    assert inspect.signature(ndpool.global_min_pool).parameters["ties"].default == "all"


def test_out():
    out = np.full((2, 3, 3, 3), 7.0)
    assert ndpool.max_pool2d(X, 2, out=out) is out
    np.testing.assert_array_equal(out, ndpool.max_pool2d(X, 2))
    for name in ("max", "min", "adaptive_max", "adaptive_min"):
        function = getattr(ndpool, f"{name}_pool2d")
        size = 3 if "adaptive" in name else 2
        out[:] = 7
        assert function(X, size, out=out) is out
        np.testing.assert_array_equal(out, function(X, size))
        out[:] = 7
        y, indices = function(X, size, return_indices=True, out=out)
        assert y is out
        np.testing.assert_array_equal(out, function(X, size))
        np.testing.assert_array_equal(indices, function(X, size, return_indices=True)[1])


SHARED = np.zeros((4, 4))
ERRORS = [
    *(
        (
            lambda function=function, size=size: function(X, *size, ties="last"),
            ValueError,
            "ties='last' is not a policy",
        )
        for function, size in [
            (ndpool.max_pool2d, (2,)),
            (ndpool.min_pool2d, (2,)),
            (ndpool.adaptive_max_pool2d, (2,)),
            (ndpool.adaptive_min_pool2d, (2,)),
            (ndpool.global_max_pool, ()),
            (ndpool.global_min_pool, ()),
        ]
    ),
    (lambda: ndpool.max_pool(X, 2), ValueError, "does not say how many axes to pool"),
    (lambda: ndpool.max_pool2d(X, 2, 2, 0, 1), TypeError, "takes from 2 to 4 positional arguments"),
    (lambda: ndpool.max_pool2d(X, 2, return_indices=1), TypeError, "return_indices=1 is not a bool"),
    (lambda: ndpool.avg_pool2d(X, 2, return_indices=True), TypeError, "unexpected keyword argument 'return_indices'"),
    (lambda: ndpool.max_pool2d(X, 2, out=[1]), TypeError, "out is a list; give a NumPy array"),
    (
        lambda: ndpool.max_pool2d(X, 2, out=np.zeros((2, 3))),
        ValueError,
        "out has float64(2, 3) and the result is float64(2, 3, 3, 3); make them agree",
    ),
    (
        lambda: ndpool.max_pool2d(X, 2, out=np.zeros((2, 3, 3, 3), np.float32)),
        ValueError,
        "out has float32(2, 3, 3, 3) and the result is float64(2, 3, 3, 3)",
    ),
    (
        lambda: ndpool.max_pool2d(X, 2, out=np.broadcast_to(0.0, (2, 3, 3, 3))),
        ValueError,
        "out is read-only; give an array that can be written",
    ),
    (lambda: ndpool.max_pool2d(SHARED, 2, out=SHARED[:2, :2]), ValueError, "out overlaps x"),
    (
        lambda: Pool(Avg(), Window((2,))).with_indices([1, 2]),
        TypeError,
        "Avg(count_include_pad=True, divisor_override=None, rounding=None) has no winner in a window; indices",
    ),
]


@pytest.mark.parametrize(("act", "error", "message"), ERRORS, ids=[message for _, _, message in ERRORS])
def test_error(act, error, message):
    with pytest.raises(error, match=re.escape(message)):
        act()


def test_inputs_are_not_changed():
    x, t = X.copy(), X.copy() * 2
    x.flags.writeable = t.flags.writeable = False
    for kind, _ in KINDS.values():
        pool = Pool(kind, Window((2, 2), 1))
        g = np.ones(pool.output_shape(x.shape))
        g.flags.writeable = False
        pool(x), pool.jvp(x, t), pool.vjp(x)[1](g)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(t, 2 * X)


def test_pools_are_values():
    pool = Pool(Max(), Window((2, 2)), axes=[1, 2])
    assert pool == Pool(Max(), Window([2, 2]), axes=(1, 2))
    assert hash(pool) == hash(Pool(Max(), Window([2, 2]), axes=(1, 2)))
    assert eval(repr(pool)) == pool


def test_every_public_name_exists():
    for name in ndpool.__all__:
        assert getattr(ndpool, name).__doc__, name
