"""The native Plan checks all that it is given; the module is what its stub says; a Pool keeps few plans."""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import pickle
import re
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import ndpool
from closeness import same, within
from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window, _engine, native
from ndpool import plan as plan_module
from ndpool.plan import Residual, plan_of

LINE = [8, 4, 2, 2, 1, 0, 0, 0]  # length, output, kernel, stride, dilation, two paddings, adaptive


def plan(dims=(LINE,), kind="max", option="first", parameter=0.0, winners=None, **dtypes):
    """A plan of the engine's own; its winners are those of a window of up to 256 cells, where there are any."""
    dtypes = {"dtype": "float32", "result": "float32", "derivative": "float32", **dtypes}
    winners = (kind in ("max", "min") and option == "first") if winners is None else winners
    numbers = [list(d) for d in dims]
    return _engine.Plan(numbers, kind, option, parameter, **dtypes, winner_bytes=int(winners))


# --- what makes a plan ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["", "MAX", "midrange", "max\0"])
def test_unknown_kind(kind):
    with pytest.raises(ValueError, match="kind"):
        plan(kind=kind)


@pytest.mark.parametrize("dtype", ["", "float", "complex64", "float128", "float32 "])
def test_unknown_dtype(dtype):
    with pytest.raises(ValueError, match="type"):
        plan(dtype=dtype)
    with pytest.raises(ValueError, match="type"):
        plan(derivative=dtype)
    with pytest.raises(ValueError, match="type"):
        plan(result=dtype)


@pytest.mark.parametrize("derivative", ["int8", "uint64"])
def test_derivatives_are_floats(derivative):
    with pytest.raises(ValueError, match="float"):
        plan(derivative=derivative)


@pytest.mark.parametrize(
    ("kind", "parameter", "option"),
    [
        ("max", 0.0, ""),
        ("min", 0.0, "last"),
        ("avg", 0.0, "every"),
        ("avg", 0.0, "fixed"),
        ("avg", -2.0, "fixed"),
        ("avg", float("nan"), "fixed"),
        ("smooth_max", 0.0, "real"),
        ("smooth_max", float("inf"), "real"),
        ("smooth_max", 1.0, "some"),
        ("lp", 0.5, ""),
        ("lp", float("nan"), ""),
    ],
)
def test_unknown_options_and_parameters(kind, parameter, option):
    """What the Python side never asks for is refused, not taken for something else."""
    with pytest.raises(ValueError, match=r"\w"):
        plan(kind=kind, parameter=parameter, option=option)


@pytest.mark.parametrize("numbers", [[], [8, 4], LINE[:-1], [*LINE, 0], [8] * 9])
def test_wrong_number_of_numbers(numbers):
    with pytest.raises(ValueError, match="one number, its length, or the eight"):
        plan(dims=[numbers, LINE])


@pytest.mark.parametrize("dims", [[], [[3]], [[3], [4]]])
def test_nothing_pooled(dims):
    with pytest.raises(ValueError, match="pooled"):
        plan(dims=dims)


def test_negative_dimension():
    with pytest.raises(ValueError, match=r"\w"):
        plan(dims=[[-1], LINE])
    with pytest.raises(ValueError, match=r"\w"):
        plan(dims=[LINE, [-1]])


@pytest.mark.parametrize("place", range(7))
@pytest.mark.parametrize("value", [-1, -(2**63)])
def test_negative_numbers_of_an_axis(place, value):
    numbers = list(LINE)
    numbers[place] = value
    with pytest.raises((ValueError, OverflowError)):
        plan(dims=[numbers])


@pytest.mark.parametrize("place", range(5))
def test_zero_of_an_axis(place):
    numbers = list(LINE)
    numbers[place] = 0
    with pytest.raises(ValueError, match=r"\w"):
        plan(dims=[numbers])


@pytest.mark.parametrize("adaptive", [0, 1])
@pytest.mark.parametrize("place", range(7))
@pytest.mark.parametrize("value", [2**40 + 1, 2**62, 2**63 - 1])
def test_huge_numbers_of_an_axis(place, value, adaptive):
    """An error that says the limit, never an overflow into a small number; and the next plan is as good as any."""
    numbers = [*LINE[:-1], adaptive]
    numbers[place] = value
    with pytest.raises(OverflowError, match=r"above 2\*\*40|more than 2\*\*40"):
        plan(dims=[numbers], kind="sum", option="")
    y = np.zeros(4, np.float32)
    plan(kind="sum", option="").forward(np.arange(8, dtype=np.float32), y)
    assert y.tolist() == [1, 5, 9, 13]


@pytest.mark.parametrize("place", [0, 1])
def test_arrays_are_smaller_than_the_largest_axis(place):
    """At the limit there is a plan, which finds every array too small."""
    numbers = [2**40, 2**40, 1, 1, 1, 0, 0, 0]
    made = plan(dims=[numbers], kind="sum", option="")
    with pytest.raises(ValueError, match=r"x has 32 bytes in elements of 4; expected 1099511627776 elements of 4"):
        made.forward(np.zeros(8, np.float32), np.zeros(4, np.float32))


def test_numbers_beyond_64_bits():
    with pytest.raises(TypeError):
        plan(dims=[[2**63, *LINE[1:]]])


def test_more_elements_than_there_can_be():
    with pytest.raises(OverflowError):
        plan(dims=[[2**32], [2**31], LINE])


def test_more_outputs_than_fit_the_padded_axis():
    """A window that would start beyond the padding."""
    with pytest.raises(ValueError, match="window"):
        plan(dims=[[8, 40, 2, 2, 1, 0, 0, 0]])


def test_too_many_dimensions():
    with pytest.raises(ValueError, match="dimensions"):
        plan(dims=[[1]] * 65 + [LINE])


@pytest.mark.parametrize("kind", [Sum(), Max(), SmoothMax(1.0)], ids=repr)
@pytest.mark.parametrize("log_size", [44, 61])
@pytest.mark.parametrize("axis", [0, 1])
def test_kernels_beyond_all_memory(kind, log_size, axis):
    """Enormous windows over enormous padding are legal, and too large: the error names them and the remedy."""
    half, x = 2 ** (log_size - 1), np.ones((3, 3), np.float32)
    kernel, padding = [1, 1], [(0, 0), (0, 0)]
    kernel[axis], padding[axis] = 2 * half, (half, half)
    pool = Pool(kind, Window(kernel, 1, padding))
    assert pool.output_shape(x.shape)[axis] == 4
    named = rf"Window\(kernel_size=.*{2 * half}.*padding=.*{half}.* over shape \(3, 3\) is too large: .*2\*\*40"
    for _ in range(2):
        for act in (pool, pool.vjp, lambda x: pool.jvp(x, x)):
            with pytest.raises(ValueError, match=named + ".*; use a smaller kernel_size or less padding"):
                act(x)


def test_outputs_beyond_all_memory():
    """More cells than 64 bits count, and more bytes than can be addressed: the padding is named in both."""
    x = np.ones((2, 3, 8, 8))
    with pytest.raises(
        ValueError, match=r"padding=1000000000.* more than 2\*\*63 elements.*; use a smaller kernel_size"
    ):
        ndpool.avg_pool(x, (3, 3), 1, 10**9)
    with pytest.raises(
        MemoryError, match=r"padding=268435456.*no memory for an output of shape \(536870918,.*; use a smaller"
    ):
        ndpool.sum_pool(x[0, 0], (3, 3), 1, 2**28)


class Starving:
    """In place of a native plan: every method wants more memory than there is."""

    def __getattr__(self, name):
        def method(*arrays, threads=0):
            raise MemoryError("std::bad_alloc")

        return method


@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("kind", [Max(), Max("all"), SmoothMax(1.0)], ids=repr)
def test_memory_that_runs_out_is_explained(kind, layout, monkeypatch):
    pool, x = Pool(kind, Window((2, 2), padding=1)), np.ones((4, 4), order=layout)
    linear = pool.linearize(x)[1]
    acts = [pool, pool.vjp, lambda x: pool.jvp(x, x), lambda x: pool(x, np.empty((3, 3)))]
    acts += [pool.with_indices] if kind == Max() else []
    for act in acts:
        act(x)
    for arrays in pool._plans.values():
        monkeypatch.setitem(arrays.plan.handles, "native", Starving())
        arrays.quick = arrays.quick and Starving()
    for act in [*acts, linear.push, lambda x: linear.pull(np.ones((3, 3)))]:
        with pytest.raises(
            MemoryError, match=r"kernel_size=\(2, 2\).* over shape \(4, 4\) is too large: there is no memory"
        ):
            act(x)


# --- arrays ---------------------------------------------------------------------------------------


def arrays(**other):
    """Right arguments for each method, with some replaced."""
    right = {
        "x": np.arange(8, dtype=np.float32),
        "t": np.ones(8, np.float32),
        "y": np.zeros(4, np.float32),
        "dy": np.zeros(4, np.float32),
        "g": np.ones(4, np.float32),
        "gx": np.zeros(8, np.float32),
        "winners": np.zeros(4, np.uint8),
        "indices": np.zeros(4, np.int64),
    }
    return {**right, **other}


METHODS = {
    "forward": ("x", "y"),
    "linearize": ("x", "y", "winners"),
    "push": ("x", "y", "winners", "t", "dy"),
    "pull": ("x", "y", "winners", "g", "gx"),
    "jvp": ("x", "t", "y", "dy"),
    "indices": ("winners", "indices"),
}
OUTPUTS = {"forward": "y", "linearize": "y winners", "push": "dy", "pull": "gx", "jvp": "y dy", "indices": "indices"}
USED = {
    "first": {"push": ("winners", "t", "dy"), "pull": ("winners", "g", "gx")},
    "split": {"linearize": ("x", "y"), "push": ("x", "y", "t", "dy"), "pull": ("x", "y", "g", "gx"), "indices": ()},
}


def call(made, method, option="first", **other):
    """A method with what it uses under this policy, and None for the rest."""
    given, used = arrays(**other), USED[option].get(method, METHODS[method])
    return getattr(made, method)(*(given[name] if name in used else None for name in METHODS[method]))


def every_argument(option):
    for method, names in METHODS.items():
        for name in USED[option].get(method, names):
            yield method, name


ARGUMENTS = [(o, m, n) for o in ("first", "split") for m, n in every_argument(o)]


@pytest.mark.parametrize(("option", "method", "name"), ARGUMENTS)
def test_sizes_are_checked(option, method, name):
    made = plan(option=option)
    call(made, method, option)
    right = arrays()[name]
    for wrong in (right[:-1], np.concatenate([right, right]), np.zeros(0, right.dtype), right.reshape(2, -1)[:1]):
        with pytest.raises(ValueError, match=f"{name} has"):
            call(made, method, option, **{name: wrong})


@pytest.mark.parametrize(("option", "method", "name"), ARGUMENTS)
def test_sizes_of_elements_are_checked(option, method, name):
    """As many bytes, in elements of another size."""
    made = plan(option=option)
    right = arrays()[name]
    other = np.dtype(np.uint16 if right.itemsize == 1 else np.uint8)
    for wrong in (right.astype(np.complex128), np.zeros(right.nbytes // other.itemsize, other)):
        with pytest.raises(ValueError, match=f"{name} has"):
            call(made, method, option, **{name: wrong})


def is_needed_dense(option, method, name):
    if method in ("push", "pull") and name == "y":
        return True
    return name in ("winners", "indices", "dy") or (option, method, name) in DENSE


DENSE = [("first", "push", "t")]


@pytest.mark.parametrize(("option", "method", "name"), ARGUMENTS)
def test_strides_are_checked(option, method, name):
    """Some arrays need not be dense; their lengths are the plan's."""
    made = plan(option=option)
    right = arrays()[name]
    apart = np.repeat(right, 2)[::2]
    if is_needed_dense(option, method, name):
        with pytest.raises(ValueError, match=f"{name} is a view, and is needed dense here"):
            call(made, method, option, **{name: apart})
    else:
        call(made, method, option, **{name: apart})
        plain = right.copy()
        call(made, method, option, **{name: plain})
        np.testing.assert_array_equal(apart, plain)
    with pytest.raises(ValueError, match=f"{name} is a view"):
        call(made, method, option, **{name: np.repeat(right.reshape(2, -1), 2, 1)[:, ::2]})


@pytest.mark.parametrize(("option", "method", "name"), ARGUMENTS)
def test_what_is_no_array_is_refused(option, method, name):
    made = plan(option=option)
    for wrong in (None, 3, "text", [1.0] * 8, object()):
        with pytest.raises((TypeError, ValueError) if wrong is None else TypeError):
            call(made, method, option, **{name: wrong})


class TensorLike:
    """What has no buffer but says its address and its bytes, as PyTorch's tensors do."""

    def __init__(self, array, address=None):
        self.array, self.address, self.nbytes = array, address, array.nbytes

    def data_ptr(self):
        return self.array.ctypes.data if self.address is None else self.address


@pytest.mark.parametrize(("option", "method", "name"), ARGUMENTS)
def test_tensors_are_taken_by_their_address(option, method, name):
    made = plan(option=option)
    expected, given = arrays(), arrays()
    call(made, method, option, **expected)
    call(made, method, option, **{**given, name: TensorLike(given[name])})
    for output in OUTPUTS[method].split():
        same(given[output], expected[output])


@pytest.mark.parametrize(("option", "method", "name"), ARGUMENTS)
def test_tensors_are_checked(option, method, name):
    made = plan(option=option)
    right = arrays()[name]
    missing, strange = TensorLike(right), TensorLike(right, "here")
    del missing.nbytes
    for wrong, error, message in (
        (TensorLike(right[:-1]), ValueError, f"{name} has .* bytes"),
        (TensorLike(right, 0), ValueError, f"{name} has .* and no memory; expected"),
        (TensorLike(right, 2**64), OverflowError, "too large|too big"),
        (strange, TypeError, "int"),
        (missing, AttributeError, "nbytes"),
    ):
        with pytest.raises(error, match=message):
            call(made, method, option, **{name: wrong})
    if right.itemsize > 1:
        with pytest.raises(ValueError, match=f"{name} has .*, aligned to their size"):
            call(made, method, option, **{name: TensorLike(right, right.ctypes.data + 1)})


@pytest.mark.parametrize(("method", "name"), [(m, n) for m, names in OUTPUTS.items() for n in names.split()])
def test_outputs_must_be_writable(method, name):
    made = plan()
    locked = arrays()[name]
    locked.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        call(made, method, **{name: locked})


def test_only_extremes_have_winners():
    for kind, parameter, option in (
        ("sum", 1.0, ""),
        ("avg", 0.0, "real"),
        ("smooth_max", 1.0, "real"),
        ("lp", 2.0, ""),
        ("max", 0.0, "split"),
    ):
        with pytest.raises(ValueError, match="winners"):
            plan(kind=kind, parameter=parameter, option=option, winners=1)
        made = plan(kind=kind, parameter=parameter, option=option)
        for method in ("linearize", "indices"):
            with pytest.raises(ValueError, match="winners"):
                call(made, method)


@pytest.mark.parametrize(("cells", "size"), [(1, 1), (256, 1), (257, 2), (65536, 2), (65537, 4)])
def test_winners_take_as_few_bytes_as_they_can(cells, size):
    """One byte for each output where the window has up to 256 cells, then two, then four; the engine takes no fewer."""
    made = plan_of(Pool(Max(), Window((cells,))), (cells,), "float32")
    assert made.residual == Residual(winners=size)
    for fewer in {1, 2, 4} - set(range(size, 5)):
        with pytest.raises(ValueError, match="too few"):
            plan(dims=made.dims, winners=fewer)


@pytest.mark.parametrize(
    ("window", "shape", "axes"),
    [
        (Window((2, 2)), (5, 8, 8), None),
        (Window((3, 3), 2, 2), (5, 8, 9), None),
        (Window((3, 5), (2, 9), 2, 2), (5, 18, 19), None),
        (Adaptive((3, 4)), (5, 7, 9), None),
        (Window((17, 17), 5), (2, 40, 41), None),
        (Window((300, 300)), (1, 310, 310), None),
        (Window((3, 3), 2, 1), (7, 9, 17), (0, 1)),
        (Window((3, 3), 2, 1), (1, 300, 301), None),
    ],
)
@pytest.mark.parametrize("derivative", ["float32", "float64", "float16"])
def test_winners_that_cannot_be(window, shape, axes, derivative):
    """Any bytes at all given as winners: some result, and nothing outside of the arrays is touched."""
    pool = Pool(Max(), window, axes)
    made = pool._plan(np.zeros(shape, derivative))
    engine = made.native
    outputs = pool.output_shape(shape)
    rng = np.random.default_rng(0)
    dtype = np.dtype(f"u{made.plan.residual.winners}")
    for winners in (
        np.full(outputs, np.iinfo(dtype).max, dtype),
        rng.integers(0, np.iinfo(dtype).max, outputs, dtype=dtype, endpoint=True),
    ):
        guarded = np.full(int(np.prod(shape)) + 128, 7, derivative)
        gx = guarded[64:-64].reshape(shape)
        engine.pull(None, None, winners, np.ones(outputs, derivative), gx)
        assert (guarded[:64] == 7).all()
        assert (guarded[-64:] == 7).all()
        assert gx.sum(dtype=np.float64) <= np.prod(outputs)
        dy = np.zeros(outputs, derivative)
        with pytest.raises(ValueError, match="winners holds a place that is no cell of its window"):
            engine.push(None, None, winners, np.ones(shape, derivative), dy)
        engine.indices(winners, np.zeros(outputs, np.int64))


@pytest.mark.parametrize("ties", ["split", "all"])
def test_outputs_that_no_cell_has(ties):
    """A `y` that is not this input's: no cell ties for it, so none gets a share, and there is no 0/0.

    The push of floats finds the values again, and that of others looks for `y`.
    """
    engine = Pool(Max(ties), Window((2,)))._plan(np.zeros(8, np.float32)).native
    gx = np.full(8, 7, np.float32)
    x, y = np.arange(8, dtype=np.float32), np.full(4, 99, np.float32)
    engine.pull(x, y, None, np.ones(4, np.float32), gx)
    assert gx.tolist() == [0] * 8
    dy = np.full(4, 7, np.float32)
    engine.push(x, y, None, np.ones(8, np.float32), dy)
    assert dy.tolist() == [1] * 4
    engine.push(x, y, None, np.ones(8, np.float32), dy, path="ties")
    assert dy.tolist() == [0] * 4


def test_unknown_level():
    before = _engine.level()
    for name in ("", "sse9", "AVX2"):
        with pytest.raises(ValueError, match="level"):
            _engine.set_level(name)
    assert _engine.level() == before == _engine.levels()[-1]


# --- the stub -------------------------------------------------------------------------------------


def declared():
    """Names and signatures of the stub: {"forward": ["self", "x", ...]}."""
    tree = ast.parse((Path(ndpool.__file__).parent / "_engine.pyi").read_text())
    found, docstrings = {}, {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name], docstrings[node.name] = parameters(node), ast.get_docstring(node)
        elif isinstance(node, ast.ClassDef):
            found[node.name], docstrings[node.name] = None, ast.get_docstring(node)
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    found[f"{node.name}.{method.name}"] = parameters(method)
    return found, docstrings


def parameters(node):
    named = node.args.args + node.args.kwonlyargs
    defaults = [default for default in node.args.defaults + node.args.kw_defaults if default is not None]
    return [a.arg for a in named if a.arg != "self"], len(defaults)


def actual(function):
    """Parameters, and how many have defaults, from nanobind's own signature."""
    ((signature, _, defaults),) = function.__nb_signature__
    inside = re.search(r"\((.*)\) ->", signature, re.S).group(1)
    names = re.findall(r"(?:^|, )(\w+)(?=[:,=]|$)", re.sub(r"\[[^\]]*(\[[^\]]*\])*[^\]]*\]", "", inside))
    return [n for n in names if n != "self"], len(defaults or ())


def test_the_stub_is_the_module():
    """The same names in both, with the same parameters, defaults and docstrings."""
    found, docstrings = declared()
    public = {name for name in vars(_engine) if not name.startswith("_")}
    assert public == {name for name in found if "." not in name}
    classes = [each for each in vars(_engine).values() if isinstance(each, type)]
    methods = {f"{each.__name__}.{name}" for each in classes for name in vars(each) if not name.startswith("_")}
    assert methods == {name for name in found if "." in name and not name.endswith("__init__")}
    for name, expected in found.items():
        if expected is None:
            continue
        function = _engine
        for part in name.split("."):
            function = inspect.getattr_static(function, part) if part == "__init__" else getattr(function, part)
        assert actual(function) == expected, name
    for name, text in docstrings.items():
        said = getattr(_engine, name).__doc__.splitlines()[-1]  # after the signature; the stub may say more
        assert said.rstrip(".") in text


def test_keywords_work_as_the_stub_says():
    dtypes = {"dtype": "float32", "result": "float32", "derivative": "float32"}
    made = _engine.Plan(dims=[LINE], kind="max", option="first", parameter=0.0, **dtypes, winner_bytes=1)
    y = np.zeros(4, np.float32)
    made.forward(x=np.arange(8, dtype=np.float32), y=y, threads=1, path="")
    assert y.tolist() == [1, 3, 5, 7]


# --- what a Pool keeps ----------------------------------------------------------------------------


def test_plans_are_kept_and_bounded():
    """The same shape, dtype and order of axes has one plan; a pool keeps at most 64, and no others anywhere."""
    pool = Pool(Max(), Window((2,)))
    x = np.zeros((3, 8), np.float32)
    assert pool._plan(x) is pool._plan(x.copy())
    assert pool._plan(x) is not pool._plan(x.astype(np.float64))
    for n in range(2, 300):
        pool(np.zeros(n))
        assert len(pool._plans) <= 64
    assert pool(np.zeros(2)).shape == (1,)
    assert pool._plan(x) is pool._plan(x)


def answers(pool, x):
    """All that a pool says of an array."""
    t = np.random.default_rng(3).normal(size=x.shape)
    y, dy = pool.jvp(x, t)
    g = np.random.default_rng(4).normal(size=y.shape)
    found = [pool(x), y, dy, pool.vjp(x)[1](g)]
    return [*found, pool.with_indices(x)[1]] if isinstance(pool.kind, Max | Min) else found


def in_turn():
    """Arrays that differ in one thing each: dtype, byte order, memory order, shape, alignment."""
    numbers = np.random.default_rng(0).integers(-9, 9, (4, 4, 6))
    for dtype in ("f8", "i8", "f4", "i4", "u4", "f2", "i2", "u8", "?", ">f8", ">i4", "f8"):
        yield numbers.astype(dtype)
    plain = numbers.astype(np.float64)
    yield plain.astype(object)
    for order in ((0, 1, 2), (1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0), (0, 1, 2)):
        yield np.ascontiguousarray(plain.transpose(order)).transpose(np.argsort(order))
        yield np.ascontiguousarray(plain.astype(np.float32).transpose(order)).transpose(np.argsort(order))
    yield plain[:, :, ::-1]
    yield plain.reshape(4, 6, 4)
    yield plain.reshape(6, 4, 4)
    yield plain[:2]
    memory = np.zeros(plain.nbytes + 1, np.uint8)
    memory[1:].view(np.float64).reshape(plain.shape)[...] = plain
    yield memory[1:].view(np.float64).reshape(plain.shape)
    yield plain


@pytest.mark.parametrize("kind", [Max(), Min("split"), Avg(), Sum(), SmoothMax(1.5), Lp(2)], ids=repr)
@pytest.mark.parametrize("window", [Window((2, 3), (1, 2), (1, 0)), Global(keepdims=False)], ids=repr)
def test_one_pool_over_arrays_in_turn(kind, window):
    """A plan that is found again is the right one: forwards, backwards, and each twice."""
    axes = (0, 2)
    used = Pool(kind, window, axes)
    rational = not isinstance(kind, SmoothMax | Lp)
    arrays = [x for x in in_turn() if rational or x.dtype != object]
    for x in [*arrays, *arrays[::-1]]:
        for ours, theirs in zip(answers(used, x), answers(Pool(kind, window, axes), x), strict=True):
            same(ours, theirs)
        if x.dtype != object:
            within(used(x), used(np.array(x, x.dtype.newbyteorder("="), order="C")), 1e-5 if x.dtype.kind == "f" else 0)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda pool: pickle.loads(pickle.dumps(pool))])
@pytest.mark.parametrize("kind", [Max("split"), Avg(False, 3), SmoothMax(2.0), Lp(2)], ids=repr)
@pytest.mark.parametrize("window", [Window((2, 3), 1, "same"), Adaptive((2, None)), Global(False)], ids=repr)
def test_pools_can_be_copied_and_pickled(duplicate, kind, window):
    """Before and after use; the copy is equal, hashes alike, has plans of its own and gives the same."""
    axes = (1, 2) if isinstance(window, Global) else None
    pool = Pool(kind, window, axes)
    x = np.random.default_rng(0).normal(size=(2, 5, 6))
    y = pool(x)
    other = duplicate(pool)
    assert other == pool
    assert hash(other) == hash(pool)
    assert other._plans is not pool._plans
    same(other(x), y)


def test_plans_do_not_change_what_a_pool_is():
    """Equality and the text of a pool know nothing of its plans."""
    used, fresh = Pool(Min(), Window((2,))), Pool(Min(), Window((2,)))
    used(np.zeros(4))
    assert used == fresh
    assert repr(used) == repr(fresh)


def test_a_lock_is_not_needed_to_pickle():
    """A pool in use in another thread can be pickled."""
    pool = Pool(Max(), Window((3, 3), 1))
    x = np.zeros((50, 100, 100), np.float32)
    thread = threading.Thread(target=lambda: [pool(x) for _ in range(5)])
    thread.start()
    for _ in range(50):
        assert pickle.loads(pickle.dumps(pool)) == pool
    thread.join()


# --- Plan, the seam -------------------------------------------------------------------------------


def test_a_plan_says_all_about_a_pool():
    made = plan_of(Pool(Avg(False), Window((3, 2), (2, 1), (1, 0)), (1, 3)), (2, 5, 3, 4), "float16", (0, 3, 1, 2))
    assert (made.kind, made.option, made.parameter, made.curved) == ("avg", "real", 0.0, False)
    assert (made.shape, made.output_shape, made.kept_shape) == ((2, 5, 3, 4), (2, 3, 3, 3), (2, 3, 3, 3))
    assert (made.axes, made.places) == ((1, 3), (0, 3, 1, 2))
    assert made.dims == ((2,), (4, 3, 2, 1, 1, 0, 0, 0), (5, 3, 3, 2, 1, 1, 1, 0), (3,))
    assert (made.strides, made.output_strides) == ((60, 3, 1, 15), (27, 3, 1, 9))
    assert (made.input, made.dtype, made.result, made.derivative) == ("float16",) * 4
    assert (made.residual, made.residual_bytes, made.is_linear, made.cells) == (Residual(), 0, True, 6)
    assert not made.finds_first


@pytest.mark.parametrize(
    ("kind", "dtype", "dtypes", "residual", "nbytes"),
    [
        (Max(), "bool", ("uint8", "bool", "float64"), Residual(winners=1), 8),
        (Max(), "bfloat16", ("bfloat16", "bfloat16", "bfloat16"), Residual(winners=1), 8),
        (Min("all"), "int16", ("int16", "int16", "float64"), Residual(x=True, y=True), 64 + 16),
        (Sum(), "uint8", ("uint8", "uint64", "float64"), Residual(), 0),
        (Sum(), "bool", ("uint8", "int64", "float64"), Residual(), 0),
        (Avg(), "int32", ("int32", "float64", "float64"), Residual(), 0),
        (Avg(), "complex64", ("float32", "complex64", "complex64"), Residual(), 0),
        (Sum(), "complex128", ("float64", "complex128", "complex128"), Residual(), 0),
        (SmoothMax(1.0), "uint16", ("float64", "float64", "float64"), Residual(x=True), 256),
        (SmoothMax(1.0), "bool", ("float64", "float64", "float64"), Residual(x=True), 256),
        (Lp(2), "float16", ("float16", "float16", "float16"), Residual(x=True), 64),
    ],
)
def test_dtypes_and_residuals_of_plans(kind, dtype, dtypes, residual, nbytes):
    """Each a name; what the engine computes, gives and differentiates in, and what it keeps of 32 cells."""
    made = plan_of(Pool(kind, Window((4,))), (2, 16), dtype)
    assert (made.dtype, made.result, made.derivative) == dtypes
    assert (made.residual, made.residual_bytes) == (residual, nbytes)
    assert made.curved == isinstance(kind, SmoothMax | Lp)
    assert made.dims == ((2,), (16, 4, 4, 4, 1, 0, 0, 0)) + (((2,),) if made.is_complex else ())


def test_plans_are_values():
    """Equal by their numbers, with one hash; each thing that they are made from tells them apart."""
    pool = Pool(Max(), Window((2, 2)))
    made = plan_of(pool, (3, 4, 6), "float32")
    assert made is plan_of(Pool(Max(), Window((2, 2))), (3, 4, 6), "float32")
    for duplicate in (
        copy.copy(made),
        copy.deepcopy(made),
        pickle.loads(pickle.dumps(made)),
        dataclasses.replace(made),
    ):
        assert (duplicate, hash(duplicate)) == (made, hash(made))
    assert dataclasses.replace(made, dtype="float64").handles == {}
    assert plan_of(pool, (3, 4, 6), "float32", (0, 1, 2)) == made
    same_numbers = plan_of(Pool(Max(), Window(2, 2, "valid"), (-2, -1)), (3, 4, 6), "float32")
    assert (same_numbers, hash(same_numbers)) == (made, hash(made))
    others = [
        plan_of(pool, (3, 4, 7), "float32"),
        plan_of(pool, (3, 4, 6), "float64"),
        plan_of(pool, (3, 4, 6), "float32", (1, 2, 0)),
        plan_of(Pool(Min(), Window((2, 2))), (3, 4, 6), "float32"),
        plan_of(Pool(Max("all"), Window((2, 2))), (3, 4, 6), "float32"),
        plan_of(Pool(Max(), Window((2, 2)), (0, 1)), (3, 4, 6), "float32"),
        plan_of(Pool(Max(), Window((2, 2), 1)), (3, 4, 6), "float32"),
        plan_of(Pool(SmoothMax(1.0), Window((2, 2))), (3, 4, 6), "float32"),
        plan_of(Pool(SmoothMax(2.0), Window((2, 2))), (3, 4, 6), "float32"),
        plan_of(Pool(Avg(True, 4), Window((2, 2))), (3, 4, 6), "float32"),
        plan_of(Pool(Avg(True, 5), Window((2, 2))), (3, 4, 6), "float32"),
    ]
    assert len({made, *others}) == 12
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.kind = "min"


def test_there_is_one_cache_of_plans():
    """Two pools that are equal have one plan, which one handle of the engine belongs to; and it is bounded."""
    x = np.zeros((3, 8), np.float32)
    one, other = (Pool(Sum(), Window((2,)))._plan(x) for _ in range(2))
    assert one.plan is other.plan
    assert one.native is other.native
    for n in range(plan_module.PLANS_KEPT + 10):
        plan_of(Pool(Sum(), Window((1,))), (n + 1,), "int8")
    assert len(plan_module._plans) == plan_module.PLANS_KEPT
    assert one.plan is not Pool(Sum(), Window((2,)))._plan(x).plan
    same(Pool(Sum(), Window((2,)))(x), np.zeros((3, 4), np.float32))


class Own(Max):
    """A kind of one's own, for all that it derives from the engine's: it does not compute the same."""

    def value(self, x, pad=0):
        return -super().value(x, pad)


def test_no_plan_for_what_no_engine_computes():
    for kind, dtype in ((Own(), "float32"), (Max(), "complex64"), (Lp(2), "complex128"), (Sum(), "object")):
        with pytest.raises(TypeError, match=f"no engine computes .* of {dtype}; call ndpool.spec"):
            plan_of(Pool(kind, Window((2,))), (4,), dtype)
    assert Pool(Own(), Window((2,)))([1.0, 3.0]).tolist() == [-3]
    with pytest.raises(TypeError, match=r"beta=Fraction\(1, 3\).* is no float"):
        plan_of(Pool(SmoothMax(Fraction(1, 3)), Window((2,))), (4,), "float32")
    objects = np.array([Fraction(1), Fraction(2)], object)
    assert Pool(Max(), Window((2,)))(objects).tolist() == [2]


def test_first_winners_are_not_looked_for_in_another_order():
    """An engine would find the first in the order of memory; it is not asked."""
    made = plan_of(Pool(Max(), Window((2, 2))), (4, 4), "float32", (1, 0))
    x, y = np.zeros((4, 4), np.float32), np.zeros((2, 2), np.float32)
    winners = np.zeros((2, 2), np.uint8)
    native.forward(made, x, y)
    for act in (
        lambda: native.linearize(made, x, y, winners),
        lambda: native.push(made, (None, None, winners), x, y),
        lambda: native.pull(made, (None, None, winners), y, x),
        lambda: native.jvp(made, x, x, y, y),
        lambda: native.indices(made, winners, np.zeros((2, 2), np.int64)),
    ):
        with pytest.raises(ValueError, match=r"order=\(1, 0\) changes the order of the pooled axes \(0, 1\)"):
            act()


def test_windows_of_more_cells_than_places_can_count():
    """Forward and JVP need no places. What does is refused, with the remedy."""
    x = np.arange(12.0).reshape(3, 4)
    pool = Pool(Max(), Window((2**17, 2**16), 1, ((2**17 - 2, 2), (2**16 - 2, 2))))
    same(pool(x)[0], np.array([5.0, 6, 7, 7, 7]))
    same(pool.jvp(x, -x)[1], -pool(x))
    for act in (pool.vjp, pool.linearize, pool.with_indices):
        with pytest.raises(ValueError, match=r"kernel_size=\(131072, .* up to 2\*\*32 cells; use a smaller"):
            act(x)


def test_threads_of_a_call():
    """The number holds for the call, and the process keeps its own."""
    made = plan_of(Pool(Sum(), Window((2, 2))), (40, 60, 60), "float32")
    x, before = np.random.default_rng(0).normal(size=(40, 60, 60)).astype(np.float32), ndpool.get_num_threads()
    results = []
    for threads in (0, 1, 3):
        y = np.empty(made.output_shape, np.float32)
        native.forward(made, x, y, threads)
        results.append(y)
    same(results[0], results[1])
    same(results[0], results[2])
    assert ndpool.get_num_threads() == before


class Watched:
    """In place of a native plan: it writes nothing and says how it was called."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *memory, threads: self.calls.append((name, memory, threads))


def test_the_engine_is_handed_what_it_is_to_do(monkeypatch):
    """Each function is one method, with the memory in its order, and the number of threads as it is."""
    made, watched = plan_of(Pool(Max(), Window((2,))), (8,), "float32"), Watched()
    monkeypatch.setitem(made.handles, "native", watched)
    for threads in ((), (3,)):
        native.forward(made, "x", "y", *threads)
        native.linearize(made, "x", "y", "winners", *threads)
        native.push(made, ("x", "y", "winners"), "t", "dy", *threads)
        native.pull(made, ("x", "y", "winners"), "g", "gx", *threads)
        native.jvp(made, "x", "t", "y", "dy", *threads)
        native.indices(made, "winners", "indices", *threads)
    expected = [(name, memory, threads) for threads in (0, 3) for name, memory in METHODS.items()]
    assert watched.calls == expected
