"""What counts as an array: nothing is lost on the way in, and what would be is refused by name."""

from __future__ import annotations

import array
import re
from collections import UserList
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import ndpool
from closeness import same
from ndpool import (
    Avg,
    Graph,
    Kind,
    Lp,
    Max,
    Min,
    Pool,
    SmoothMax,
    Sum,
    Window,
    explain,
    layers,
    ops,
    spec,
    viz,
)
from ndpool.arrays import NATIVE_TYPES, as_array
from processes import run_python

POOL = Pool(Max(), Window((2,)))
X = np.array([1.0, 2.0, 4.0, 3.0])
MASKED = np.ma.array([1.0, 2.0, 9.0, 3.0], mask=[False, False, True, False])


class Labelled:
    """As in pandas or xarray: its own idea of NumPy's functions, and an array without it."""

    def __array__(self, dtype=None, copy=None):
        return X

    def __array_ufunc__(self, *args, **kwargs):
        raise AssertionError("not called")


class Lazy:
    """As in Dask: NumPy's functions build a graph."""

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("computed without being asked")

    def __array_function__(self, *args, **kwargs):
        raise AssertionError("not called")


class WithUnits(np.ndarray):
    """As in astropy: a subclass of NumPy's array."""

    def __array_ufunc__(self, *args, **kwargs):
        raise AssertionError("not called")


class Elsewhere:
    """As in JAX, h5py or zarr: numbers that NumPy can read, and no more than that."""

    def __init__(self, numbers=X):
        self.numbers = numbers

    def __array__(self, dtype=None, copy=None):
        return self.numbers


class Buffer:
    """As an image of Pillow."""

    __array_interface__ = X.__array_interface__


# --- everywhere where an array enters -------------------------------------------------------------

FUNCTIONS = [
    getattr(ndpool, name) for name in ndpool.__all__ if name.endswith("_pool") and callable(getattr(ndpool, name))
]


def of_function(function):
    """The function with arguments for one axis, over four cells."""
    name = function.__name__
    number = (2.0,) if "smooth" in name or "lp" in name else (0.5,) if "quantile" in name else ()
    size = () if "global" in name else ((2,),)
    return lambda x, **more: function(x, *number, *size, axes=-1, **more)


def program():
    graph = Graph()
    return graph.build(graph.relu(graph.input((4,))))


def stepped(layer):
    """A layer after a forward in training."""
    layer.forward(X)
    return layer


ENTRANCES = {
    "call": lambda a: POOL(a),
    "with_indices": lambda a: POOL.with_indices(a),
    "jvp of x": lambda a: POOL.jvp(a, X),
    "jvp along t": lambda a: POOL.jvp(X, a),
    "vjp of x": lambda a: POOL.vjp(a),
    "pullback of g": lambda a: POOL.vjp(X)[1](a[:2] if isinstance(a, np.ndarray) else a),
    "jvp of Fractions along t": lambda a: POOL.jvp(spec.fractions(X), a),
    "pullback of Fractions": lambda a: POOL.vjp(spec.fractions(X))[1](a[:2] if isinstance(a, np.ndarray) else a),
    "spec.forward": lambda a: spec.forward(POOL, a),
    "spec.jvp of x": lambda a: spec.jvp(POOL, a, X),
    "spec.jvp along t": lambda a: spec.jvp(POOL, X, a),
    "spec.vjp of x": lambda a: spec.vjp(POOL, a, X[:2]),
    "spec.vjp of g": lambda a: spec.vjp(POOL, X, a[:2] if isinstance(a, np.ndarray) else a),
    "spec.winners": lambda a: spec.winners(POOL, a),
    "spec.fractions": lambda a: spec.fractions(a),
    "an op": lambda a: ops.Relu()(a),
    "an op of two": lambda a: ops.Add()(X, a),
    "a product": lambda a: ops.Mul()(X, a),
    "an op along t": lambda a: ops.Relu().jvp((X,), (a,)),
    "an op's vjp": lambda a: ops.Relu().vjp(a),
    "an op's pullback": lambda a: ops.Relu().vjp(X)[1](a),
    "log softmax": lambda a: ops.LogSoftmax()(a),
    "cross entropy": lambda a: ops.CrossEntropy()(X, a),
    "a loss": lambda a: layers.MeanSquaredErrorLoss().forward(X, a),
    "a layer": lambda a: layers.ReLU().forward(a),
    "a layer's backward": lambda a: stepped(layers.ReLU()).backward(a),
    "a network": lambda a: layers.Sequential(layers.ReLU()).forward(a),
    "a network's backward": lambda a: stepped(layers.Sequential(layers.ReLU())).backward(a),
    "a program": lambda a: program()(a),
    "a program along t": lambda a: program().jvp((X,), (a,)),
    "a program's pullback": lambda a: program().vjp(X)[1](a),
    "a constant": lambda a: Graph().constant(a),
    "a plot": lambda a: viz.plot_pool(POOL, a),
    "a plot's g": lambda a: viz.plot_gradient(POOL, X, a),
    "a page": lambda a: explain.page(POOL, a),
    **{function.__name__: of_function(function) for function in FUNCTIONS},
}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_masked_arrays_are_refused_everywhere(entrance):
    """Under the mask stands the largest number, which must not win."""
    for masked in (MASKED, MASKED.astype(np.int32), np.ma.array(X)):
        with pytest.raises(TypeError, match=r"is a masked array.*; give x\.filled\(value\)"):
            ENTRANCES[entrance](masked)


@pytest.mark.parametrize("kind", [Labelled, Lazy], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_what_means_more_is_refused_everywhere(entrance, kind):
    with pytest.raises(TypeError, match=rf"is a test_arrays\.{kind.__name__}, which is more .* give np\.asarray\(x\)"):
        ENTRANCES[entrance](kind())


def test_errors_name_the_argument():
    for name, act in [("x", lambda a: POOL.jvp(a, X)), ("t", lambda a: POOL.jvp(X, a)), ("g", POOL.vjp(X)[1])]:
        for wrong in (MASKED, Labelled()):
            with pytest.raises(TypeError, match=rf"^{name} is a "):
                act(wrong)


def test_the_remedies_work():
    assert POOL(MASKED.filled(-np.inf)).tolist() == [2, 3]
    assert POOL(np.asarray(Labelled())).tolist() == [2, 4]
    units = X.view(WithUnits)
    with pytest.raises(TypeError, match="WithUnits"):
        POOL(units)
    assert POOL(np.asarray(units)).tolist() == [2, 4]


@pytest.mark.parametrize(
    "entries",
    [
        [1.0, np.ma.masked],
        [MASKED[:2], MASKED[2:]],
        ([[MASKED]],),
        [X.tolist(), MASKED],
        [np.float64(1), Labelled()],
        [X, X.view(WithUnits)],
    ],
    ids=["constant", "arrays", "deep", "among lists", "labelled", "units"],
)
def test_what_stands_in_lists_is_looked_at(entries):
    with pytest.raises(TypeError, match="an entry of x is a "):
        POOL(entries)


def test_what_makes_a_masked_array_of_itself_is_refused():
    """As a variable of netCDF4, whose `__array__` is masked."""
    with pytest.raises(TypeError, match="x is a masked array"):
        POOL(Elsewhere(MASKED))


@pytest.mark.parametrize(
    "x",
    [
        X.tolist(),
        tuple(X),
        [np.float64(n) for n in X],
        Elsewhere(),
        Buffer(),
        array.array("d", X),
        memoryview(X),
        UserList(X),
        range(1, 5),
        np.arange(4.0).view(np.recarray),
    ],
    ids=lambda x: type(x).__name__,
)
def test_what_loses_nothing_is_taken(x):
    y = POOL(x)
    assert type(y) is np.ndarray
    same(y, POOL(np.array(x)))
    same(POOL.jvp(x, x)[1], POOL.jvp(np.array(x), np.array(x, float))[1])


def test_matrices_and_maps_are_arrays(tmp_path):
    """Subclasses that do nothing of their own; the results are plain, and may have any number of axes."""
    matrix = np.array([[1.0, 5.0], [4.0, 3.0]]).view(np.matrix)
    for y in (ndpool.max_pool2d(matrix, 2), ndpool.global_max_pool(matrix), ndpool.max_pool2d(matrix, 1).ravel()):
        assert type(y) is np.ndarray
    assert ndpool.global_max_pool(matrix, keepdims=False).shape == ()
    assert ndpool.max_pool(matrix, (2,), axes=1).tolist() == [[5], [4]]
    mapped = np.memmap(tmp_path / "numbers", np.float64, "w+", shape=(4,))
    mapped[:] = X
    y, pullback = POOL.vjp(mapped)
    assert (type(y), y.tolist(), pullback(mapped[:2]).tolist()) == (np.ndarray, [2, 4], [0, 1, 2, 0])


def test_ints_in_lists_are_not_rounded():
    """NumPy makes floats of ints above 2**63 beside negative ones, and of ints beside floats."""
    assert POOL([2**63 + 1, -1]).tolist() == [2**63 + 1]
    assert POOL([2**53 + 1, 0.5]).tolist() == [2**53 + 1]
    assert POOL([2**53, 0.5]).dtype == np.float64
    assert POOL([1, 2.5]).dtype == np.float64


# --- out ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [POOL, lambda x, out: POOL.with_indices(x, out)], ids=["call", "with_indices"])
@pytest.mark.parametrize("x", [X, spec.fractions(X)], ids=["engine", "specification"])
def test_out_is_a_plain_array(call, x):
    """A mask would stay as it was, and units would not be those of the result."""
    result = POOL(x)
    with pytest.raises(TypeError, match=r"out is a masked array.*; give out\.data"):
        call(x, out=np.ma.array(result, mask=[False, True]))
    with pytest.raises(TypeError, match=r"out is a test_arrays\.WithUnits"):
        call(x, out=result.copy().view(WithUnits))
    with pytest.raises(TypeError, match="out is a list; give a NumPy array"):
        call(x, out=result.tolist())
    out = np.ma.array(result, mask=[False, True])
    out.data[:] = 0
    call(x, out=out.data)
    assert out.data.tolist() == result.tolist()


# --- dtypes ---------------------------------------------------------------------------------------

NUMBERS = [Max(), Min("split"), Avg(), Sum(), SmoothMax(1.0), Lp(2)]
REFUSED = [
    (np.array(["a", "b"]), "give numbers"),
    (np.array([b"a", b"b"]), "give numbers"),
    (np.zeros(2, "V8"), "give numbers"),
    (np.zeros(2, [("height", "f4"), ("width", "f4")]), "give one field of the records, as x['height'] is"),
    (np.array(["2000-01-01", "2000-01-02"], "M8[D]"), "give x.astype(np.int64)"),
    (np.array([1, 2], "m8[s]"), "give x.astype(np.int64)"),
    (np.zeros(2, np.longdouble), "give x.astype(np.float64), or call ndpool.spec"),
    (np.zeros(2, np.clongdouble), "give x.astype(np.complex128), or call ndpool.spec"),
    (np.zeros(2, ml_dtypes.float8_e4m3fn), "give x.astype(np.float32), or call ndpool.spec"),
    (np.zeros(2, ml_dtypes.int4), "give x.astype(np.float32), or call ndpool.spec"),
]


@pytest.mark.parametrize(("x", "remedy"), REFUSED, ids=[str(x.dtype) for x, _ in REFUSED])
@pytest.mark.parametrize("kind", NUMBERS, ids=repr)
def test_other_dtypes_are_refused(kind, x, remedy):
    """Not handed to the specification unasked, which would take thousands of times as long."""
    pool = Pool(kind, Window((2,)))
    message = re.escape(f"x has dtype {x.dtype}, which ndpool does not pool; {remedy}")
    for act in (pool, pool.vjp, lambda x: pool.jvp(x, x), pool):  # twice: a refusal is not forgotten
        with pytest.raises(TypeError, match=message):
            act(x)
    if isinstance(kind, Max | Min):
        with pytest.raises(TypeError, match=message):
            pool.with_indices(x)


@pytest.mark.parametrize("x", [X, spec.fractions(X)], ids=["engine", "specification"])
def test_directions_of_other_dtypes_are_refused(x):
    for wrong in (np.zeros(4, "M8[D]"), np.array(list("abcd")), np.zeros(4, np.longdouble)):
        with pytest.raises(TypeError, match="t has dtype"):
            POOL.jvp(x, wrong)
        with pytest.raises(TypeError, match="g has dtype"):
            POOL.vjp(x)[1](wrong[:2])


@pytest.mark.parametrize("dtype", [object, np.complex64, np.complex128])
def test_numbers_that_are_only_the_specifications(dtype):
    x = np.array([1, 2, 3, 5]).astype(dtype)
    t = np.array([1, 10, 100, 1000]).astype(dtype)
    pool = Pool(Sum(), Window((2,)))
    y, dy = pool.jvp(x, t)
    assert (y.tolist(), dy.tolist(), y.dtype, dy.dtype) == ([3, 8], [11, 1100], x.dtype, x.dtype)
    assert pool.vjp(x)[1](t[:2]).tolist() == [1, 1, 10, 10]
    if dtype is not object:
        with pytest.raises(TypeError, match="complex numbers have no order"):
            POOL(x)


def test_every_native_dtype_has_a_plan():
    for name in NATIVE_TYPES:
        x = np.array([0, 1, 1, 0]).astype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
        assert POOL._plan(x) is not None
        assert POOL._plan(x.astype(x.dtype.newbyteorder())) is not None
        assert POOL(x).tolist() == [1, 1]


class Longest(Kind):
    """A kind of the user's own, for text."""

    integers = "keep"

    def value(self, x, pad=0):
        return max(x, key=lambda cell: len(str(cell)))

    def weights(self, x, pad=0):
        return [(0, 1)]


def test_a_kind_of_your_own_takes_any_dtype():
    pool = Pool(Longest(), Window((2,)))
    assert pool(np.array(["a", "bc", "d", "e"])).tolist() == ["bc", "d"]
    assert pool(np.array([10, 2, 3, 4], np.longdouble)).tolist() == [10, 3]
    x, t = np.zeros(4, np.longdouble), np.array([1, 2, 3, 4], np.longdouble)
    assert pool.jvp(x, t)[1].tolist() == [1, 3]
    assert pool.vjp(x)[1](t[:2]).tolist() == [1, 0, 2, 0]


# --- other libraries ------------------------------------------------------------------------------


def test_arrays_need_nobody_but_numpy():
    """Neither does looking for a front end import a library."""
    code = """
    import sys
    import numpy as np
    import ndpool
    pool = ndpool.Pool(ndpool.Max(), ndpool.Window((2,)))
    pool([1, 2]), pool.jvp([1.0, 2.0], [1, 2]), pool.vjp([1.0, 2.0])[1]([1])

    class Tensor:  # of a library that says the same of itself
        def __torch_function__(self): ...
    try:
        pool(Tensor())
    except TypeError as error:
        print("is a __main__.Tensor where a NumPy array is taken" in str(error))
    print("torch" in sys.modules)
    """
    assert run_python(code) == ["True", "False"]


def test_the_adapter_need_not_be_imported_first():
    code = """
    import sys, torch, ndpool
    print("ndpool.torch" in sys.modules)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = ndpool.max_pool(x, (2,))
    y.backward()
    print(type(y).__name__, x.grad.tolist() == [0, 1])
    """
    assert run_python(code) == ["False", "Tensor", "True"]


def test_as_array_is_not_a_copy():
    assert as_array("x", X) is X
    matrix = np.eye(2).view(np.matrix)
    assert np.shares_memory(as_array("x", matrix), matrix)
    assert as_array("x", Fraction(1, 2)).shape == ()
