"""The engine's own interface, below every front end: what it refuses, and with which words."""

from __future__ import annotations

import array
import ctypes
import gc

import numpy as np
import pytest

from ndpool import _engine
from processes import run_python

#: Two images of 5 by 7 under windows of 3 by 3, two cells apart, with a border of one: 24 outputs of 70 inputs.
IMAGES = [[2], [5, 3, 3, 2, 1, 1, 1, 0], [7, 4, 3, 2, 1, 1, 1, 0]]

#: Each kind with its option and its number.
KINDS = [
    ("max", "first", 0.0),
    ("min", "first", 0.0),
    ("max", "split", 0.0),
    ("min", "all", 0.0),
    ("sum", "", 0.0),
    ("avg", "counted", 0.0),
    ("avg", "real", 0.0),
    ("avg", "fixed", 7.0),
    ("smooth_max", "counted", 1.5),
    ("smooth_max", "real", -2.0),
    ("lp", "", 2.5),
]


def made(kind="max", option="first", parameter=0.0, dims=IMAGES, dtype="float32", **other):
    """A plan with the types that the kind has for this dtype."""
    whole = "int" in dtype or dtype == "bool"
    result = {"sum": "int64", "avg": "float64"}.get(kind, dtype) if whole else dtype
    types = {"result": result, "derivative": "float64" if whole else dtype, "winner_bytes": int(option == "first")}
    return _engine.Plan(dims, kind, option, parameter, dtype, **{**types, **other})


def arrays(dtype="float32", result=None, derivative=None):
    """x, y, winners, t, dy, g, gx for the images."""
    rng = np.random.default_rng(0)
    result, derivative = result or dtype, derivative or dtype
    return {
        "x": (rng.normal(size=(2, 5, 7)) * 20).round().astype(dtype),
        "y": np.zeros((2, 3, 4), result),
        "winners": np.zeros((2, 3, 4), np.uint8),
        "t": rng.normal(size=(2, 5, 7)).astype(derivative),
        "dy": np.zeros((2, 3, 4), derivative),
        "g": rng.normal(size=(2, 3, 4)).astype(derivative),
        "gx": np.zeros((2, 5, 7), derivative),
    }


#: The operations, with the names of what they read and of what they write.
OPERATIONS = {
    "forward": (("x",), ("y",)),
    "linearize": (("x",), ("y", "winners")),
    "push": (("winners", "t"), ("dy",)),
    "pull": (("winners", "g"), ("gx",)),
    "jvp": (("x", "t"), ("y", "dy")),
    "indices": (("winners",), ("indices",)),
}


def call(plan, operation, given, **keywords):
    residual = {"x": None, "y": None} if operation in ("push", "pull") else {}
    reads, writes = OPERATIONS[operation]
    getattr(plan, operation)(**residual, **{name: given[name] for name in reads + writes}, **keywords)


def given_for_max():
    given = arrays()
    given["indices"] = np.zeros((2, 3, 4), np.int64)
    made().linearize(given["x"], given["y"], given["winners"])
    return given


# --- plans ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "midrange"}, "the engine has no kind 'midrange'"),
        ({"option": "last"}, "'max' has no option 'last'"),
        ({"dtype": "complex64"}, "the engine has no type 'complex64'"),
        ({"dtype": "float128"}, "the engine has no type 'float128'"),
        ({"result": "float64"}, "'max' of float32 does not give float64"),
        ({"derivative": "float64"}, "derivatives of floats are of their own type"),
        ({"winner_bytes": 3}, "winner_bytes=3 is not one of 0, 1, 2 and 4"),
        ({"winner_bytes": -1}, "winner_bytes=-1 is not one of 0, 1, 2 and 4"),
        ({"option": "split", "winner_bytes": 1}, "winner_bytes=1, but only Max and Min with ties 'first', modes"),
        ({"dims": [[257, 1, 257, 1, 1, 0, 0, 0]]}, "too few for the places in a window of 257 cells"),
        ({"dims": [[3], [4]]}, "no dimension is pooled"),
        ({"dims": [[3, 4], *IMAGES]}, "a dimension is one number"),
        ({"dims": [[5, 9, 3, 2, 1, 1, 1, 0]]}, "do not make a window"),
        ({"kind": "avg", "option": "fixed", "parameter": 0.0}, "the divisor must be"),
        ({"kind": "smooth_max", "option": "real", "parameter": 0.0}, "beta must be finite and not 0"),
        ({"kind": "lp", "option": "", "parameter": 0.5}, "p must be finite and at least 1"),
        ({"kind": "lp", "option": "", "parameter": 2.0, "dtype": "int32"}, "'lp' of int32 does not give int32"),
        ({"kind": "sum", "option": "", "dtype": "int8", "result": "uint64"}, "'sum' of int8 does not give uint64"),
        (
            {"kind": "sum", "option": "", "dtype": "bool", "derivative": "float32"},
            "those of integers float64, not float32",
        ),
    ],
    ids=str,
)
def test_what_does_not_fit_together_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        made(**wrong)


@pytest.mark.parametrize(
    "arguments",
    [
        {"dims": 5},
        {"dims": [5]},
        {"dims": [[2.5], *IMAGES]},
        {"dims": [["2"], *IMAGES]},
        {"dims": [[2**64], *IMAGES]},
        {"kind": 3},
        {"parameter": "1"},
        {"winner_bytes": 1.5},
        {"result": None},
    ],
    ids=str,
)
def test_arguments_of_another_type_are_refused(arguments):
    with pytest.raises(TypeError, match="incompatible function arguments"):
        made(**arguments)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ([[2**41, 1, 1, 1, 1, 0, 0, 0]], r"a number of the window is above 2\*\*40"),
        ([[3, 2**40, 3, 1, 1, 2**40, 2**40, 0]] * 2, r"the output has more than 2\*\*63 elements"),
        ([[2**40], [2**40], *IMAGES], r"the array has more than 2\*\*63 elements"),
        ([[9, 1, 2**40, 1, 1, 2**40, 2**40, 0]] * 2, r"a window has more than 2\*\*63 cells"),
        ([[9, 1, 2**30, 1, 2**20, 2**40, 2**40, 0]], r"a window reaches over more than 2\*\*40 cells"),
    ],
)
def test_what_is_too_large_to_count_is_named(dims, message):
    with pytest.raises(OverflowError, match=message):
        made(dims=dims, winner_bytes=0)


def test_memory_that_cannot_be_had_is_named():
    """A window with so many rows that a list of them has terabytes. The process goes on as before."""
    wide = 2**39
    plan = made("avg", "counted", dims=[[4, 1, wide, wide, 1, wide, wide, 0], [4, 2, 3, 1, 1, 0, 0, 0]])
    x, y = np.ones((4, 4), np.float32), np.zeros((1, 2), np.float32)
    for _ in range(3):
        with pytest.raises(MemoryError, match=r"there is no memory for \d{10,} bytes \([\w ]+\)"):
            plan.forward(x, y)
    # The way back needs no list, and these windows see padding alone.
    plan.pull(None, None, None, np.float32([[3 * wide, 6 * wide]]), x)
    assert not x.any()
    given = arrays()
    made("sum", "").forward(np.ones_like(given["x"]), given["y"])
    assert given["y"][0].tolist() == [[4, 6, 6, 4], [6, 9, 9, 6], [4, 6, 6, 4]]


# --- operations -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint16", "int64"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_push_and_pull_are_one_map_and_its_transpose(kind, dtype):
    """To push gives what jvp gives, and <g, push t> = <pull g, t>."""
    if kind[0] in ("smooth_max", "lp") and "int" in dtype:
        dtype = "float64"
    plan = made(*kind, dtype=dtype)
    whole = "int" in dtype
    result = {"sum": "int64", "avg": "float64"}.get(kind[0], dtype) if whole else dtype
    a = arrays(dtype, result, "float64" if whole else dtype)
    winners = a["winners"] if kind[1] == "first" else None
    plan.linearize(a["x"], a["y"], winners)
    plan.push(a["x"], a["y"], winners, a["t"], a["dy"])
    y, dy = np.zeros_like(a["y"]), np.zeros_like(a["dy"])
    plan.jvp(a["x"], a["t"], y, dy)
    np.testing.assert_array_equal(y, a["y"])
    np.testing.assert_array_equal(dy, a["dy"])
    plan.pull(a["x"], a["y"], winners, a["g"], a["gx"])
    pushed = np.vdot(a["g"].astype(np.float64), a["dy"].astype(np.float64))
    pulled = np.vdot(a["gx"].astype(np.float64), a["t"].astype(np.float64))
    size = np.abs(a["g"].astype(np.float64)).sum() * np.abs(a["t"].astype(np.float64)).max() * 4
    assert abs(pushed - pulled) <= size * float(np.finfo(a["g"].dtype).eps)
    assert np.abs(a["dy"].astype(np.float64)).min() > 0


def test_push_reads_the_winners_alone():
    """Between carried axes, with winners of each width: the tangents at the indices that the engine itself names."""
    dims = [[3], [6, 7, 3, 1, 1, 2, 1, 0], [2], [9, 5, 2, 2, 3, 3, 2, 0], [5]]
    rng = np.random.default_rng(1)
    x = rng.integers(0, 4, (3, 6, 2, 9, 5)).astype(np.float32)
    t = rng.normal(size=x.shape).astype(np.float32)
    for width in (1, 2, 4):
        plan = made(dims=dims, winner_bytes=width)
        y, dy = np.zeros((3, 7, 2, 5, 5), np.float32), np.zeros((3, 7, 2, 5, 5), np.float32)
        winners, indices = np.zeros(y.shape, f"u{width}"), np.zeros(y.shape, np.int64)
        plan.linearize(x, y, winners)
        plan.indices(winners, indices)
        plan.push(None, None, winners, t, dy)
        cells = np.moveaxis(t, 2, 1).reshape(3, 2, 54, 5)
        at = np.moveaxis(indices, 2, 1).reshape(3, 2, 35, 5)
        expected = np.moveaxis(np.take_along_axis(cells, at, 2).reshape(3, 2, 7, 5, 5), 1, 2)
        np.testing.assert_array_equal(dy, expected)


def test_winners_that_are_no_places_are_refused():
    """Nothing outside of t is read for a winner that no forward pass can have written."""
    for at, place in ((0, 0), (5, 9), (5, 255)):  # in the border in front of the images, and beyond an inner window
        given = given_for_max()
        given["winners"].reshape(-1)[at] = place
        with pytest.raises(ValueError, match="winners holds a place that is no cell of its window"):
            made().push(None, None, given["winners"], given["t"], given["dy"])


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name != "indices"])
def test_results_do_not_depend_on_the_threads_of_a_call(operation):
    rng = np.random.default_rng(2)
    dims = [[6], [100, 50, 3, 2, 1, 1, 1, 0], [100, 50, 3, 2, 1, 1, 1, 0]]
    plan = made(dims=dims)
    x, t = (rng.normal(size=(6, 100, 100)).astype(np.float32) for _ in range(2))
    g = rng.normal(size=(6, 50, 50)).astype(np.float32)
    given = {"x": x, "t": t, "g": g, "winners": np.zeros((6, 50, 50), np.uint8)}
    plan.linearize(x, np.zeros_like(g), given["winners"])
    before = _engine.get_num_threads()

    def results(threads):
        outputs = {"y": np.zeros_like(g), "dy": np.zeros_like(g), "gx": np.zeros_like(x)}
        call(plan, operation, {**given, **outputs}, threads=threads)
        return b"".join(outputs[name].tobytes() for name in outputs)

    one = results(1)
    assert results(2) == one
    assert results(5) == one
    assert _engine.get_num_threads() == before


def test_threads_hold_for_one_call():
    """As the operating system counts them: none is started for one, two for three, and the next call has its own."""
    code = """
    import os
    import numpy as np
    from ndpool import _engine
    _engine.set_num_threads(1)
    plan = _engine.Plan([[400], [400, 200, 2, 2, 1, 0, 0, 0]], "sum", "", 0.0, "float32", "float32", "float32", 0)
    x, y = np.ones((400, 400), np.float32), np.zeros((400, 200), np.float32)
    count = lambda: len(os.listdir("/proc/self/task"))
    before = count()
    for threads in (0, 1, 3, 0, 2, 4):
        plan.forward(x, y, threads=threads)
        print(count() - before, _engine.get_num_threads())
    """
    assert run_python(code, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1") == list("010121212131")


@pytest.mark.parametrize("threads", [-1, 1025, 2**30])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_numbers_of_threads_that_there_cannot_be(operation, threads):
    with pytest.raises(ValueError, match=f"threads={threads} is not a number of threads; give 1 to 1024"):
        call(made(), operation, given_for_max(), threads=threads)


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name != "indices"])
def test_a_path_that_does_not_exist(operation):
    with pytest.raises(ValueError, match="the engine has no way 'scenic'"):
        call(made(), operation, given_for_max(), path="scenic")
    with pytest.raises(ValueError, match=r"path='rows\+fast' ends in 'fast'; only 'stream' can follow a way"):
        call(made(), operation, given_for_max(), path="rows+fast")


@pytest.mark.parametrize(
    ("operation", "path"),
    [("forward", "terms"), ("linearize", "pairs"), ("push", "rows"), ("pull", "spread"), ("jvp", "own")],
)
def test_a_path_that_the_plan_cannot_go(operation, path):
    with pytest.raises(ValueError, match=f"this plan cannot go by '{path}'"):
        call(made(), operation, given_for_max(), path=path)


def test_the_paths_of_a_plan():
    plan = made()
    for operation in ("forward", "linearize", "push", "pull", "jvp"):
        assert plan.path(operation) == plan.paths(operation)[0]
    assert "rows" in plan.paths("forward")
    with pytest.raises(
        ValueError, match="operation='backward' is none of 'forward', 'linearize', 'push', 'pull', 'jvp'"
    ):
        plan.path("backward")


# --- arrays ---------------------------------------------------------------------------------------

#: Every array of every operation, as a case of its own.
EACH = [(operation, name) for operation, names in OPERATIONS.items() for name in names[0] + names[1]]


@pytest.mark.parametrize(("operation", "name"), [pair for pair in EACH if pair[1] != "winners"])
def test_an_array_between_two_addresses(operation, name):
    given = given_for_max()
    a = given[name]
    odd = np.zeros(a.nbytes + 1, np.uint8)[1:].view(a.dtype).reshape(a.shape)
    odd[...] = a
    with pytest.raises(
        ValueError, match=f"{name} has .* expected {a.size} elements of {a.itemsize}, aligned to their size"
    ):
        call(made(), operation, {**given, name: odd})


@pytest.mark.parametrize(("operation", "name"), EACH)
def test_none_where_an_array_is_needed(operation, name):
    """A ValueError where another kind does without it, and a TypeError where none does."""
    given = given_for_max()
    optional = name == "winners" and operation != "indices"
    error, message = (ValueError, f"{name} is None and is needed here") if optional else (TypeError, "incompatible")
    with pytest.raises(error, match=message):
        call(made(), operation, {**given, name: None})


@pytest.mark.parametrize("method", ["push", "pull"])
@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        (("max", "split", 0.0), "xy"),
        (("min", "all", 0.0), "xy"),
        (("smooth_max", "real", 1.0), "x"),
        (("lp", "", 2.0), "x"),
    ],
    ids=str,
)
def test_what_the_derivative_keeps_is_needed(kind, kept, method):
    plan, a = made(*kind), arrays()
    plan.linearize(a["x"], a["y"], None)
    rest = (a["t"], a["dy"]) if method == "push" else (a["g"], a["gx"])
    run = getattr(plan, method)
    run(a["x"], a["y"] if "y" in kept else None, None, *rest)
    for name in kept:
        known = {"x": a["x"], "y": a["y"], name: None}
        with pytest.raises(ValueError, match=f"{name} is None and is needed here"):
            run(known["x"], known["y"], None, *rest)


def test_anything_with_a_buffer():
    """Not only NumPy's arrays: the engine reads and writes memory."""
    given = given_for_max()
    expected = given["y"].copy()
    y = bytearray(96)
    made().forward(memoryview(given["x"].tobytes()).cast("f"), memoryview(y).cast("f"))
    np.testing.assert_array_equal(np.frombuffer(y, np.float32).reshape(2, 3, 4), expected)
    made().forward(array.array("f", given["x"].reshape(-1).tolist()), memoryview(y).cast("f"))
    np.testing.assert_array_equal(np.frombuffer(y, np.float32).reshape(2, 3, 4), expected)
    bools = made(dtype="bool")
    out = np.zeros((2, 3, 4), np.bool_)
    bools.forward(given["x"] > 25, out)
    np.testing.assert_array_equal(out, expected > 25)


def test_a_buffer_is_let_go():
    """After a call that ended well, and after one that did not, the owner may do with it as it likes."""
    plan, x = made(dtype="uint8"), bytearray(70)
    plan.forward(x, bytearray(24))
    x.append(0)
    for y in (bytearray(24), b"too short", object()):
        with pytest.raises((ValueError, TypeError, BufferError)):
            plan.forward(x, y)
        x.append(0)


class Tensorlike:
    """An array as a tensor shows it: by its address and its bytes."""

    def __init__(self, a, nbytes=None):
        self.a, self.nbytes = a, a.nbytes if nbytes is None else nbytes

    def data_ptr(self):
        return self.a.ctypes.data


def test_tensors_are_read_by_their_address():
    given = given_for_max()
    expected = given["y"].copy()
    given["y"][...] = 0
    made().forward(Tensorlike(given["x"]), Tensorlike(given["y"]))
    np.testing.assert_array_equal(given["y"], expected)
    with pytest.raises(ValueError, match="x has 276 bytes in elements of 4; expected 70 elements of 4"):
        made().forward(Tensorlike(given["x"], 276), given["y"])
    with pytest.raises(OverflowError):
        made().forward(Tensorlike(given["x"], 2**70), given["y"])
    with pytest.raises(TypeError):
        made().forward(Tensorlike(given["x"], "many"), given["y"])


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, AttributeError])
def test_a_tensor_that_has_no_memory_says_so(error):
    class Broken(Tensorlike):
        def data_ptr(self):
            raise error("no memory behind it")

    given = given_for_max()
    # Without the attribute it is no tensor, and then it should have a buffer.
    expected, message = (TypeError, "bytes-like") if error is AttributeError else (error, "no memory behind it")
    with pytest.raises(expected, match=message):
        made().forward(Broken(given["x"]), given["y"])


def test_a_tensor_at_address_zero():
    class Nowhere(Tensorlike):
        def data_ptr(self):
            return 0

    given = given_for_max()
    with pytest.raises(ValueError, match="x has 280 bytes in elements of 4 and no memory"):
        made().forward(Nowhere(given["x"]), given["y"])


# --- tensors that the engine makes ----------------------------------------------------------------


class Managed(ctypes.Structure):
    """DLPack's description of a block of memory that has an owner."""


Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))
Managed._fields_ = [
    ("version", ctypes.c_uint32 * 2),
    ("context", ctypes.c_void_p),
    ("deleter", Deleter),
    ("flags", ctypes.c_uint64),
    ("data", ctypes.c_void_p),
    ("device", ctypes.c_int32 * 2),
    ("ndim", ctypes.c_int32),
    ("dtype", ctypes.c_uint8 * 4),
    ("shape", ctypes.POINTER(ctypes.c_int64)),
    ("strides", ctypes.POINTER(ctypes.c_int64)),
    ("offset", ctypes.c_uint64),
]
ToObject = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(Managed), ctypes.POINTER(ctypes.c_void_p))
FromObject = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)


class Table(ctypes.Structure):
    """DLPack's table of functions, as far as the engine reads it."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("older", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("from_object_owning", ctypes.c_void_p),
        ("to_object", ToObject),
        ("from_object", FromObject),
        ("stream", ctypes.c_void_p),
    ]


N = 2048


class FakeTensor:
    """The type of tensors of a framework that takes blocks, and fails to make a tensor of them."""

    calls = 0
    releases = False
    taken = None

    def __init__(self):
        self.a = np.ones(N)


@FromObject
def describe(tensor, out):
    tensor.shape, tensor.strides = (ctypes.c_int64 * 1)(N), (ctypes.c_int64 * 1)(1)
    described = Managed(
        data=tensor.a.ctypes.data,
        device=(1, 0),
        ndim=1,
        dtype=(2, 64, 1, 0),
        shape=tensor.shape,
        strides=tensor.strides,
    )
    start = Managed.data.offset
    ctypes.memmove(out, ctypes.addressof(described) + start, ctypes.sizeof(Managed) - start)
    return 0


@ToObject
def take(managed, out):
    """Take the block for good, or fail."""
    if isinstance(FakeTensor.taken, list):
        FakeTensor.taken.append(managed)
        made = "a tensor"
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
        out[0] = id(made)
        return 0
    FakeTensor.calls += 1
    if FakeTensor.releases:
        managed.contents.deleter(managed)
    return -1


TABLE = Table(version=(1, 0), to_object=take, from_object=describe)
ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
ctypes.pythonapi.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
CAPSULE_NAME = b"dlpack_exchange_api"
FakeTensor.__dlpack_c_exchange_api__ = ctypes.pythonapi.PyCapsule_New(ctypes.addressof(TABLE), CAPSULE_NAME, None)


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.parametrize("releases", [False, True])
def test_a_block_that_no_tensor_was_made_of_is_freed_once(releases, monkeypatch):
    """A framework that fails with the block in its hands: it may have released it, or not."""
    monkeypatch.setattr(FakeTensor, "releases", releases)
    plan = made("sum", "", dims=[[N, N, 1, 1, 1, 0, 0, 0]], dtype="float64")
    tensors = _engine.TensorPlan(plan, FakeTensor, (N,), (1,), (N,), (1,), "float64", "float64", (0,))
    x = FakeTensor()

    def failures(count):
        for _ in range(count):
            with pytest.raises(RuntimeError, match="the framework made no tensor of the result, and did not say why"):
                tensors.forward(x)

    failures(200)
    gc.collect()
    before, calls = resident_bytes(), FakeTensor.calls
    failures(4000)
    assert FakeTensor.calls == calls + 4000
    assert resident_bytes() - before < 4000 * N * 8 / 4  # where every block is lost, it is all of that


def test_a_block_that_a_tensor_was_made_of_is_the_tensors(monkeypatch):
    """It holds the result, is not touched any more, and is freed by the deleter that goes with it."""
    monkeypatch.setattr(FakeTensor, "taken", [])
    plan = made("sum", "", dims=[[N, N, 1, 1, 1, 0, 0, 0]], dtype="float64")
    tensors = _engine.TensorPlan(plan, FakeTensor, (N,), (1,), (N,), (1,), "float64", "float64", (0,))
    x = FakeTensor()
    assert [tensors.forward(x) for _ in range(3)] == ["a tensor"] * 3
    assert len(FakeTensor.taken) == 3
    for managed in FakeTensor.taken:
        block = managed.contents
        assert (block.context, block.ndim, block.shape[0], block.strides[0]) == (None, 1, N, 1)
        assert list(block.dtype) == [2, 64, 1, 0]
        result = np.ctypeslib.as_array(ctypes.cast(block.data, ctypes.POINTER(ctypes.c_double)), (N,))
        np.testing.assert_array_equal(result, x.a)
        block.deleter(managed)
