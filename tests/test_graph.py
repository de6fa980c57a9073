"""Programs: values and derivatives of the whole, each node once a sweep, nothing kept too long, errors in place."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import subprocess
import sys
import tracemalloc
import weakref
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import sympy
import torch
from torch.nn import functional

import ndpool
from ndpool import Avg, Graph, Lp, Max, Min, Pool, SmoothMax, Sum, Window, ops, spec
from ndpool.program import Program

RNG = np.random.default_rng(0)


def small_network(dtype=np.float64, loss=True):
    """conv, relu, max pool, conv, smooth or average pool, dense: all inputs in order x, w1, b1, w2, b2, labels."""
    g = Graph()
    x = g.input((2, 1, 8), name="x", dtype=dtype)
    w1, b1 = g.input((3, 1, 3), name="w1", dtype=dtype), g.input((3,), name="b1", dtype=dtype)
    w2, b2 = g.input((4, 9), name="w2", dtype=dtype), g.input((4,), name="b2", dtype=dtype)
    h = g.max_pool1d(g.relu(g.conv(x, w1, b1)), 2)
    logits = g.linear(g.flatten(h), w2, b2, name="logits")
    if not loss:
        return g.build(logits)
    labels = g.input((2,), name="labels", dtype=np.int64)
    return g.build(g.cross_entropy(logits, labels, name="loss"))


def draws(f, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    xs = [rng.normal(size=f.nodes[i].shape).astype(dtype) for i in f.inputs]
    return [np.array([1, 3]) if f.nodes[i].name == "labels" else x for i, x in zip(f.inputs, xs, strict=True)]


# --- values and derivatives -----------------------------------------------------------------------


def test_against_torch():
    f = small_network()
    xs = draws(f)
    value, gradients = f.value_and_grad(*xs)
    x, w1, b1, w2, b2, labels = (torch.tensor(x, requires_grad=x.dtype == np.float64) for x in xs)
    h = functional.max_pool1d(torch.relu(functional.conv1d(x, w1, b1)), 2)
    expected = functional.cross_entropy(functional.linear(h.flatten(1), w2, b2), labels)
    np.testing.assert_allclose(value, expected.item(), rtol=1e-13)
    np.testing.assert_array_equal(f(*xs), value)
    expected.backward()
    for gradient, leaf in zip(gradients[:-1], (x, w1, b1, w2, b2), strict=True):
        np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(gradients[-1], np.zeros(2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_adjoint_to_rounding(dtype):
    f = small_network(dtype)
    assert abs(f.check_adjoint(*draws(f, dtype))) < 100 * np.finfo(dtype).eps


def rational_network():
    """Everything rational in one graph, with fan-out and two outputs."""
    g = Graph()
    x, w, b = g.input((1, 2, 6, 6), name="x"), g.input((2, 2, 3, 3), name="w"), g.input((2,), name="b")
    h = g.relu(g.conv(x, w, b, padding="same"))
    pooled = g.add(g.max_pool2d(h, 2, ties="split"), g.avg_pool2d(h, 2))
    other = g.sub(g.min_pool2d(h, 3, 2, 1), g.scale(g.sum_pool2d(x, 3, 2, 1), 0.5))
    mixed = g.leaky_relu(g.mul(pooled, other), 0.25)
    total = g.mean_squared_error(g.adaptive_max_pool2d(mixed, 2), g.adaptive_avg_pool2d(h, 2))
    product = g.matmul(g.transpose(mixed, (0, 1, 3, 2)), g.reshape(other, (1, 2, 3, 3)))
    return g.build(total, g.global_max_pool(product), g.mean(product, (0, 1)))


@pytest.mark.parametrize("seed", range(3))
def test_adjoint_exactly(seed):
    f = rational_network()
    rng = np.random.default_rng(seed)
    xs = [rng.integers(-4, 5, f.nodes[i].shape) / 2 for i in f.inputs]
    defect = f.check_adjoint(*xs, seed=seed, exact=True)
    assert isinstance(defect, Fraction)
    assert defect == 0


def test_a_wrong_derivative_is_found():
    @dataclass(frozen=True)
    class Wrong(ops.Relu):
        def vjp(self, x):
            y, pullback = super().vjp(x)
            return y, lambda g: 2 * pullback(g)

    g = Graph()
    f = g.build(g.apply(Wrong(), g.input((4,))))
    assert f.check_adjoint(np.array([1.0, -2.0, 3.0, 4.0]), exact=True) != 0


def test_tangents_of_some_inputs():
    """None is a tangent of zeros, and a node that nothing moves is not differentiated."""
    f = small_network()
    xs = draws(f)
    t = RNG.normal(size=xs[1].shape)
    zeros = [np.zeros(x.shape) for x in xs]
    full = f.jvp(tuple(xs), (zeros[0], t, *zeros[2:]))
    some = f.jvp(tuple(xs), (None, t, None, None, None, None))
    np.testing.assert_array_equal(full[0], some[0])
    np.testing.assert_allclose(full[1], some[1], rtol=1e-14)
    np.testing.assert_array_equal(f.jvp(tuple(xs), (None,) * 6)[1], 0)


def test_several_outputs_fan_out_and_unused_inputs():
    g = Graph()
    x, y, unused = g.input((3,)), g.input((3,)), g.input((2,), dtype=np.float32)
    product = g.mul(x, x)
    f = g.build(g.add(product, y), product, x)
    a, b, c = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0]), np.zeros(2, np.float32)
    outputs = f(a, b, c)
    assert [o.tolist() for o in outputs] == [[5, 9, 15], [1, 4, 9], [1, 2, 3]]
    _, dys = f.jvp((a, b, c), (np.ones(3), None, None))
    assert [dy.tolist() for dy in dys] == [[2, 4, 6], [2, 4, 6], [1, 1, 1]]
    _, pullback = f.vjp(a, b, c)
    gx, gy, gz = pullback(([1.0, 0, 0], [0, 1.0, 0], [0, 0, 5.0]))
    assert (gx.tolist(), gy.tolist(), gz.tolist(), gz.dtype) == ([2, 4, 5], [1, 0, 0], [0, 0], np.float32)
    gx, _, _ = pullback((None, None, [1.0, 2.0, 3.0]))
    assert gx.tolist() == [1, 2, 3]
    assert unused.shape == (2,)


def test_a_pullback_serves_again_and_does_not_change_its_argument():
    f = small_network(loss=False)
    xs = draws(f)
    _, pullback = f.vjp(*xs)
    g = RNG.normal(size=(2, 4))
    g.flags.writeable = False
    first, second = pullback(g), pullback(g)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(pullback(2 * g)[1], 2 * first[1], rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64])
def test_what_is_not_reached_has_a_gradient_in_its_own_dtype(dtype):
    """Zeros in the dtype of derivatives, of what no output reads and of what no cotangent comes to."""
    g = Graph()
    x, _, other = g.input((3,), name="x"), g.input((2,), dtype=dtype), g.input((4,), dtype=dtype)
    f = g.build(g.relu(x), g.relu(other))
    xs = np.ones(3), np.ones(2, dtype), np.ones(4, dtype)
    gx, ga, go = f.vjp(*xs)[1]((np.ones(3), None))
    wanted = np.float64 if np.dtype(dtype).kind == "i" else dtype
    assert (ga.dtype, go.dtype, gx.dtype) == (wanted, wanted, np.float64)
    assert (ga.tolist(), go.tolist()) == ([0] * 2, [0] * 4)
    _, (dx, do) = f.jvp(xs, (np.ones(3), None, None))
    assert (dx.dtype, do.dtype, do.tolist()) == (np.float64, wanted, [0] * 4)


def test_the_seed_says_which_directions_are_drawn():
    """Of an op whose derivative is wrong the defect depends on them: the same for one seed, another for another."""

    class Wrong(ops.Relu):
        def vjp(self, x):
            y, pullback = super().vjp(x)
            return y, lambda g: 2 * pullback(g)

    g = Graph()
    f = g.build(g.apply(Wrong(), g.input((4,))))
    x = np.array([1.0, 2.0, 3.0, 4.0])
    for exact in (False, True):
        defects = [f.check_adjoint(x, seed=seed, exact=exact) for seed in (0, 0, 1, 2)]
        assert defects[0] == defects[1] != 0
        assert len(set(defects)) == 3
        assert f.check_adjoint(x, exact=exact) == defects[0]


def test_one_input_needs_no_tuple():
    g = Graph()
    f = g.build(g.relu(g.input((2,))))
    x, t = np.array([1.0, -1.0]), np.array([5.0, 7.0])
    assert f.jvp(x, t)[1].tolist() == f.jvp((x,), (t,))[1].tolist() == [5, 0]
    assert f.jvp([1.0, -1.0], [5.0, 7.0])[1].tolist() == [5, 0]
    assert f.vjp(x)[1](t).tolist() == [5, 0]


def test_constants():
    g = Graph()
    values = np.array([1.0, 2.0])
    c = g.constant(values, name="c")
    x = g.input((2,), name="x")
    f = g.build(g.mul(x, g.relu(g.add(c, c))), g.relu(c))
    values[:] = 99
    ys, dys = f.jvp(np.array([3.0, 4.0]), np.array([1.0, 1.0]))
    assert ([y.tolist() for y in ys], [dy.tolist() for dy in dys]) == ([[6, 16], [1, 2]], [[2, 4], [0, 0]])
    assert f.vjp([3.0, 4.0])[1](([1.0, 1.0], [1.0, 1.0])).tolist() == [2, 4]


def test_constants_cannot_be_written():
    """Neither through the program's nodes nor through an output that is one."""
    g = Graph()
    c = g.constant([1.0, 2.0])
    x = g.input((2,))
    f = g.build(g.add(x, c), c)
    for array in (f.nodes[0].constant, f([0.0, 0.0])[1]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9
    assert f([0.0, 0.0])[0].tolist() == [1, 2]


def test_programs_take_lists_of_ints():
    """In the dtype that was declared, if it has these numbers; arrays of another dtype stay an error."""
    g = Graph()
    x, w, labels = (g.input((2, 2), dtype=np.float32), g.input((2,), dtype=np.float16), g.input((2,), dtype=np.int8))
    f = g.build(g.cross_entropy(g.mul(x, w), labels))
    value, (gx, gw, _) = f.value_and_grad([[1, 2], [3, 4]], (5, 6), [0, 1])
    floats = [np.array([[1, 2], [3, 4]], np.float32), np.array([5, 6], np.float16), np.array([0, 1], np.int8)]
    assert value == f(*floats)
    assert (value.dtype, gx.dtype, gw.dtype) == (np.float32, np.float32, np.float32)
    assert f.jvp(([[1, 2], [3, 4]], [5, 6], [0, 1]), ([[1, 0], [0, 0]], None, None))[0] == value
    one = Graph()
    h = one.build(one.scale(one.input(()), 2))
    assert h(3).tolist() == 6
    assert h(2**53).tolist() == 2.0**54
    for wrong, message in [
        ((np.array([[1, 2], [3, 4]]), [5, 6], [0, 1]), "float32 and got int64"),
        (([[1, 2], [3, 2**24 + 1]], [5, 6], [0, 1]), "float32 and got int64"),
        (([[1, 2], [3, 4]], [5, 70_000], [0, 1]), "float16 and got int64"),
        (([[1, 2], [3, 4]], [5, 6], [0, 200]), "int8 and got int64"),
        (([[1, 2], [3, 4]], [5, 6], [0.0, 1.0]), "int8 and got float64"),
        (([[1, 2], [3, 4]], [True, False], [0, 1]), "float16 and got bool"),
        (([[1.5, 2], [3, 4]], [5, 6], [0, 1]), "float32 and got float64"),
    ]:
        with pytest.raises(TypeError, match=re.escape(message)):
            f(*wrong)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))])
def test_programs_can_be_copied(copied):
    f = small_network()
    xs = draws(f)
    value, gradients = f.value_and_grad(*xs)
    same, others = copied(f).value_and_grad(*xs)
    assert value == same
    for a, b in zip(gradients, others, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_program_is_an_op():
    inner = Graph()
    a, b = inner.input((3,)), inner.input((3,))
    f = inner.build(inner.mul(a, inner.relu(b)))
    assert isinstance(f, ops.Op)
    g = Graph()
    x = g.input((3,))
    whole = g.build(g.sum(g.apply(f, x, g.scale(x, 2.0))))
    value, gradient = whole.value_and_grad([1.0, -2.0, 3.0])
    assert (value, gradient.tolist()) == (20, [4, 0, 12])
    assert whole.check_adjoint([1.0, -2.0, 3.0], exact=True) == 0


# --- every op is a method -------------------------------------------------------------------------

POOLS = {"max": Max(), "min": Min(), "avg": Avg(), "sum": Sum(), "smooth_max": SmoothMax(1.5), "lp": Lp(3)}
PARAMETER = {"smooth_max": (1.5,), "lp": (3,)}
X = RNG.normal(size=(1, 2, 4, 5))


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize(
    ("spelling", "arguments"),
    [
        ("{}_pool", ((2, 2), 1)),
        ("{}_pool1d", (3, 2)),
        ("{}_pool2d", (2,)),
        ("{}_pool3d", (2, 1)),
        ("adaptive_{}_pool", ((2, 3),)),
        ("adaptive_{}_pool1d", (3,)),
        ("adaptive_{}_pool2d", (2,)),
        ("adaptive_{}_pool3d", (2,)),
        ("global_{}_pool", ()),
    ],
)
def test_every_pool_is_a_method_and_agrees_with_its_function(name, spelling, arguments):
    arguments = (*PARAMETER.get(name, ()), *arguments)
    g = Graph()
    f = g.build(getattr(g, spelling.format(name))(g.input(X.shape), *arguments))
    expected = getattr(ndpool, spelling.format(name))(X, *arguments)
    np.testing.assert_array_equal(f(X), expected)
    assert f.output_shape(X.shape) == expected.shape
    assert abs(f.check_adjoint(X)) < 1e-12


OPTIONS = [
    ("max_pool", ((3, 2), 1, 1), {"dilation": (1, 2), "ceil_mode": True, "ties": "split", "axes": (1, 3)}),
    ("min_pool", ((2,), 3), {"padding": ((1, 0),), "ceil_mode": True, "ties": "all", "axes": (-1,)}),
    ("avg_pool", ((3, 3), 2, 1), {"count_include_pad": False, "dilation": 1, "ceil_mode": True}),
    ("avg_pool", ((2, 3),), {"divisor_override": 5, "axes": (3, 1)}),
    ("sum_pool", ((2, 2), 1, "same"), {"dilation": 2, "axes": (2, 3)}),
    ("sum_pool", ((3,), 3), {"ceil_mode": True}),
    ("smooth_max_pool", (2.0, (3, 3), 2, 1), {"count_include_pad": False, "dilation": 1}),
    ("smooth_max_pool", (-1.0, (2,), 3), {"ceil_mode": True, "dilation": 2, "axes": 2}),
    ("lp_pool", (2.5, (2, 2), 3, 1), {"dilation": 2, "ceil_mode": True, "axes": (1, 2)}),
    ("adaptive_max_pool", ((2, 3),), {"ties": "all", "axes": (1, 2)}),
    ("adaptive_min_pool", ((2, 3),), {"ties": "split", "axes": (3, 2)}),
    ("adaptive_avg_pool", ((3,),), {"axes": (2,)}),
    ("adaptive_sum_pool", ((None, 3),), {"axes": (2, 3)}),
    ("adaptive_smooth_max_pool", (2.0, (2, 3)), {"axes": (1, 3)}),
    ("adaptive_lp_pool", (3, (2,)), {"axes": 1}),
    *(
        (f"global_{name}_pool", parameter, {"axes": (1, 3), "keepdims": False} | ties)
        for name, parameter, ties in [
            ("max", (), {"ties": "split"}),
            ("max", (), {}),
            ("min", (), {"ties": "first"}),
            ("min", (), {}),
            ("avg", (), {}),
            ("sum", (), {}),
            ("smooth_max", (2.0,), {}),
            ("lp", (3,), {}),
        ]
    ),
]


@pytest.mark.parametrize(("name", "arguments", "options"), OPTIONS, ids=[f"{o[0]}{o[1:]}" for o in OPTIONS])
def test_no_argument_of_a_pool_is_ignored(name, arguments, options, monkeypatch):
    """A method makes the pool that the function makes, and each of its arguments changes something."""
    made = []
    monkeypatch.setattr(Pool, "__call__", lambda pool, x, out: made.append(pool))
    getattr(ndpool.functional, name)(X, *arguments, **options)
    g = Graph()
    y = getattr(g, name)(g.input((2, 5, 7, 6)), *arguments, **options, name="it")
    pool = g.build(y).nodes[-1].op
    assert pool == made[0]
    for argument in options:
        without = {key: value for key, value in options.items() if key != argument}
        default = inspect.signature(getattr(Graph, name)).parameters[argument].default
        if options[argument] != default and argument not in ("axes", "padding"):
            other = Graph()
            y = getattr(other, name)(other.input((2, 5, 7, 6)), *arguments, **without)
            assert other.build(y).nodes[-1].op != pool
    assert y.name == "it" or y.name.startswith(("max", "min", "avg", "sum", "smooth", "lp"))


@pytest.mark.parametrize("keepdims", [True, False])
def test_global_methods_drop_axes_when_told_to(keepdims):
    g = Graph()
    x = g.input((2, 3, 4))
    for name in POOLS:
        y = getattr(g, f"global_{name}_pool")(x, *PARAMETER.get(name, ()), axes=(0, 2), keepdims=keepdims)
        assert y.shape == ((1, 3, 1) if keepdims else (3,))


def test_pool_methods_have_the_functions_arguments():
    for name, function in vars(ndpool.functional).items():
        if name.endswith("_pool") and not name.startswith("_"):
            theirs = inspect.signature(function).parameters
            ours = inspect.signature(getattr(Graph, name)).parameters
            wanted = {k: (p.default, p.kind) for k, p in theirs.items() if k not in ("return_indices", "out")}
            assert {k: (p.default, p.kind) for k, p in ours.items() if k not in ("self", "name")} == wanted


METHODS = [
    ("conv", [(1, 2, 5), (3, 2, 2), (3,)], {"stride": 2, "padding": 1, "dilation": 2}, ops.Conv(2, 1, 2)),
    ("conv", [(1, 2, 5), (3, 2, 2)], {}, ops.Conv()),
    ("linear", [(2, 3), (4, 3), (4,)], {}, ops.Linear()),
    ("linear", [(2, 3), (4, 3)], {}, ops.Linear()),
    ("matmul", [(2, 3), (3, 4)], {}, ops.Matmul()),
    ("add", [(2, 3), (3,)], {}, ops.Add()),
    ("sub", [(2, 3), (3,)], {}, ops.Sub()),
    ("mul", [(2, 3), (3,)], {}, ops.Mul()),
    ("scale", [(2, 3)], {"factor": 3}, ops.Scale(3)),
    ("relu", [(2, 3)], {}, ops.Relu()),
    ("leaky_relu", [(2, 3)], {"slope": 0.1}, ops.LeakyRelu(0.1)),
    ("tanh", [(2, 3)], {}, ops.Tanh()),
    ("sigmoid", [(2, 3)], {}, ops.Sigmoid()),
    ("flatten", [(2, 3, 4)], {"start": 0}, ops.Flatten(0)),
    ("reshape", [(2, 3)], {"shape": [3, -1]}, ops.Reshape((3, -1))),
    ("transpose", [(2, 3)], {}, ops.Transpose()),
    ("transpose", [(2, 3)], {"axes": [1, 0]}, ops.Transpose((1, 0))),
    ("sum", [(2, 3)], {"axes": 1, "keepdims": True}, ops.ReduceSum(1, True)),
    ("mean", [(2, 3)], {"axes": (0, 1)}, ops.ReduceMean((0, 1))),
    ("mean", [(2, 3)], {"axes": -1, "keepdims": True}, ops.ReduceMean(-1, True)),
    ("softmax", [(2, 3)], {"axis": 0}, ops.Softmax(0)),
    ("log_softmax", [(2, 3)], {"axis": 0}, ops.LogSoftmax(0)),
    ("cross_entropy", [(2, 3), (2, 3)], {}, ops.CrossEntropy()),
    ("mean_squared_error", [(2, 3), (2, 3)], {}, ops.MeanSquaredError()),
]


@pytest.mark.parametrize(("method", "shapes", "options", "op"), METHODS, ids=[m[0] + str(m[2]) for m in METHODS])
def test_every_op_is_a_method(method, shapes, options, op):
    g = Graph()
    f = g.build(getattr(g, method)(*(g.input(shape) for shape in shapes), **options, name="it"))
    assert (f.nodes[-1].op, f.nodes[-1].name) == (op, "it")
    xs = draws(f)
    np.testing.assert_array_equal(f(*xs), op(*xs))


@pytest.mark.parametrize("sorts", ["f", "i", "u", "fi", "if", "ff", "h"])
@pytest.mark.parametrize(("method", "shapes", "options", "op"), METHODS, ids=[m[0] + str(m[2]) for m in METHODS])
def test_a_variable_has_the_dtype_that_its_value_will_have(method, shapes, options, op, sorts):
    """Of whole numbers, of floats, and of both: what is said in the table is what comes out."""
    dtypes = {"f": [np.float32], "i": [np.int16], "u": [np.uint8], "h": [np.float16], "ff": [np.float32, np.float64]}
    dtypes |= {"fi": [np.float32, np.int64], "if": [np.int64, np.float32]}
    chosen = [dtypes[sorts][i % len(dtypes[sorts])] for i in range(len(shapes))]
    g = Graph()
    y = getattr(g, method)(
        *(g.input(shape, dtype=dtype) for shape, dtype in zip(shapes, chosen, strict=True)), **options
    )
    xs = [np.ones(shape, dtype) for shape, dtype in zip(shapes, chosen, strict=True)]
    assert g.build(y)(*xs).dtype == y.dtype


def test_labels_do_not_count_in_the_dtype_of_a_loss():
    g = Graph()
    x, labels = g.input((2, 3), dtype=np.float32), g.input((2,), dtype=np.int64)
    assert g.cross_entropy(x, labels).dtype == np.float32
    assert g.apply(Counting(), x, g.input((2, 3), dtype=np.int64)).dtype == np.float32  # an op that does not say
    inner = Graph()
    f = inner.build(inner.mean(inner.input((2, 3), dtype=np.int8)))
    assert g.apply(f, g.input((2, 3), dtype=np.int8)).dtype == np.float64


def test_names_do_not_collide():
    """A name that was given is never given again, and nodes without one go round those that are taken."""
    g = Graph()
    x = g.input((2,), name="relu_1")
    first, second = g.relu(x), g.relu(x, name="relu_3")
    third = g.relu(x)
    assert [v.name for v in (x, first, second, third)] == ["relu_1", "relu_2", "relu_3", "relu_4"]
    for name in ("relu_1", "relu_2", "relu_3", "relu_4"):
        for make in (lambda n: g.relu(x, name=n), lambda n: g.input((2,), name=n), lambda n: g.constant([1.0], name=n)):
            with pytest.raises(ValueError, match=f"name='{name}' is taken in this graph"):
                make(name)
    assert len(g.build(third).nodes) == 2


def test_no_op_is_without_a_method():
    assert {type(op).__name__ for *_, op in METHODS} == set(ops.__all__) - {"Op"}


# --- linear time and memory -----------------------------------------------------------------------


@dataclass
class Counting:
    """An op of the user's own, with two inputs, that counts what is asked of it."""

    calls: dict[str, int] = field(default_factory=lambda: {"call": 0, "jvp": 0, "vjp": 0, "pullback": 0})

    def output_shape(self, a, b):
        return a

    def __call__(self, a, b):
        self.calls["call"] += 1
        return (a + b) / 2

    def jvp(self, xs, ts):
        self.calls["jvp"] += 1
        return sum(xs) / 2, sum(ts) / 2

    def vjp(self, a, b):
        self.calls["vjp"] += 1

        def pullback(g):
            self.calls["pullback"] += 1
            return g / 2, g / 2

        return (a + b) / 2, pullback


def test_two_thousand_nodes_each_once_a_sweep():
    """Every node reads the two before it: an evaluator that went back for each would take 2^2000 steps."""
    op = Counting()
    g = Graph()
    before, last = g.input((2,)), g.input((2,))
    for _ in range(2000):
        before, last = last, g.apply(op, before, last)
    f = g.build(last)
    a, b = np.array([0.0, 3.0]), np.array([3.0, 0.0])
    y = f(a, b)
    assert op.calls == {"call": 2000, "jvp": 0, "vjp": 0, "pullback": 0}
    np.testing.assert_allclose(y, [2, 1])  # (a + 2 b) / 3
    same, dy = f.jvp((a, b), (np.ones(2), None))
    assert op.calls == {"call": 2000, "jvp": 2000, "vjp": 0, "pullback": 0}
    np.testing.assert_array_equal(y, same)
    np.testing.assert_allclose(dy, [1 / 3, 1 / 3])
    _, pullback = f.vjp(a, b)
    assert op.calls == {"call": 2000, "jvp": 2000, "vjp": 2000, "pullback": 0}
    ga, gb = pullback([3.0, 6.0])
    assert op.calls == {"call": 2000, "jvp": 2000, "vjp": 2000, "pullback": 2000}
    np.testing.assert_allclose([ga, gb], [[1, 2], [2, 4]])


def test_what_the_outputs_do_not_need_is_not_run():
    op = Counting()
    g = Graph()
    x = g.input((2,))
    y = g.apply(op, x, x)
    g.apply(op, y, g.apply(op, y, x))
    f = g.build(g.relu(x))
    f([1.0, 2.0])
    assert op.calls["call"] == 0
    assert len(f.nodes) == 2


def test_what_follows_from_constants_is_not_differentiated():
    op = Counting()
    g = Graph()
    c = g.constant([1.0, 2.0])
    fixed = g.apply(op, c, g.apply(op, c, c))
    f = g.build(g.mul(g.input((2,)), fixed))
    np.testing.assert_array_equal(f.vjp([1.0, 1.0])[1]([3.0, 4.0]), [3.0, 8.0])
    np.testing.assert_array_equal(f.jvp([1.0, 1.0], [3.0, 4.0])[1], [3.0, 8.0])
    assert op.calls == {"call": 4, "jvp": 0, "vjp": 0, "pullback": 0}


class Pick:
    """The cells of x that a second input, of whole numbers, names."""

    def output_shape(self, x, places):
        return places

    def __call__(self, x, places):
        assert places.dtype.kind == "i"
        return x[places]

    def jvp(self, xs, ts):
        assert not np.any(ts[1])
        return self(*xs), ts[0][xs[1]]

    def vjp(self, x, places):
        def pullback(g):
            gx = g[:1] * np.zeros(x.shape, int)
            np.add.at(gx, places, g)
            return gx, np.zeros(places.shape)

        return self(x, places), pullback


@pytest.mark.parametrize("exact", [False, True])
def test_whole_inputs_are_not_moved(exact):
    g = Graph()
    f = g.build(g.apply(Pick(), g.input((4,)), g.input((3,), dtype=np.int64)))
    assert abs(f.check_adjoint([1.0, 2.0, 3.0, 4.0], [2, 0, 2], exact=exact)) < 1e-14


def test_a_gradient_of_exact_numbers_starts_from_an_exact_one():
    """An op of one's own is given a number of the output's sort."""
    given = []

    class Total:
        def output_shape(self, shape):
            return ()

        def __call__(self, x):
            return np.sum(x)

        def jvp(self, x, t):
            return np.sum(x), np.sum(t)

        def vjp(self, x):
            def pullback(g):
                given.append(g.item())
                return np.full(x.shape, g.item())

            return np.sum(x), pullback

    g = Graph()
    f = g.build(g.apply(Total(), g.input((2,))))
    for one in (Fraction(1), Decimal(1), 1.0):
        f.value_and_grad(np.array([one, one]))
        assert type(given[-1]) is type(one)
        assert given[-1] == 1


class Tracked(np.ndarray):
    """An array of which weak references tell whether it lives."""


class Watching:
    """An op that remembers, weakly, all that it made, and counts at each call how much of it is alive."""

    def __init__(self):
        self.made, self.most = [], 0

    def output_shape(self, shape):
        return shape

    def __call__(self, x):
        y = (np.asarray(x) + 1).view(Tracked)
        self.made.append(weakref.ref(y))
        self.most = max(self.most, self.alive())
        return y

    def jvp(self, x, t):
        return self(x), t

    def vjp(self, x):
        return self(x), lambda g: g

    def alive(self):
        return sum(ref() is not None for ref in self.made)


def test_tangents_are_freed_when_no_longer_needed():
    """In a chain of 50, the tangents of two nodes live at a time."""
    alive, most = [], [0]

    class Watched(Watching):
        def jvp(self, x, t):
            dy = (np.asarray(t) * 2).view(Tracked)
            alive.append(weakref.ref(dy))
            most[0] = max(most[0], sum(ref() is not None for ref in alive))
            return np.asarray(x) + 1, dy

    op, g = Watched(), Graph()
    x = g.input((3,))
    for _ in range(50):
        x = g.apply(op, x)
    f = g.build(x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "asarray", np.asanyarray)  # so that the tracked arrays stay what they are
        _, dy = f.jvp(np.zeros(3), np.ones(3))
    assert len(alive) == 50
    assert most[0] == 2
    np.testing.assert_array_equal(dy, [2.0**50] * 3)


@pytest.mark.parametrize("sweep", ["call", "jvp", "vjp"])
def test_values_are_freed_when_no_longer_needed(sweep, monkeypatch):
    """In a chain of 50, two values live at a time, whatever the sweep: the ops keep nothing for their pullbacks."""
    monkeypatch.setattr(np, "asarray", np.asanyarray)  # so that the tracked arrays stay what they are
    op = Watching()
    g = Graph()
    x = g.input((3,))
    for _ in range(50):
        x = g.apply(op, x)
    f = g.build(x)
    zeros = np.zeros(3)
    result = {"call": f, "jvp": lambda v: f.jvp(v, v), "vjp": f.vjp}[sweep](zeros)
    assert len(op.made) == 50
    assert op.most == 2
    assert op.alive() == 1
    del result


def test_the_table_tells_what_the_pullbacks_hold():
    """Measured: what stays allocated after a VJP, beside the inputs that the caller has."""
    g = Graph()
    x, w = g.input((4, 3, 64, 64), name="x"), g.input((4, 3, 3, 3), name="w")
    v, labels = g.input((10, 4 * 62 * 62), name="v"), g.input((4,), name="labels", dtype=np.int64)
    h = g.tanh(g.relu(g.conv(x, w)))
    f = g.build(g.cross_entropy(g.linear(g.flatten(h), v), labels))
    xs = [np.ones(f.nodes[i].shape, f.nodes[i].dtype) for i in f.inputs]
    f.vjp(*xs)
    tracemalloc.start()
    _, pullback = f.vjp(*xs)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    told = int(re.search(r"^total, shared once .* ([\d,]+) B$", str(f), re.MULTILINE).group(1).replace(",", ""))
    told -= sum(a.nbytes for a in xs)
    assert abs(held - told) < 0.02 * told
    del pullback


# --- how a program looks --------------------------------------------------------------------------


def test_table():
    f = small_network(np.float32)
    text = str(f)
    lines = text.splitlines()
    assert lines[0].split() == ["node", "op", "of", "shape", "dtype", "cells", "kept", "for", "backward"]
    rows = {line.split("  ")[0]: line for line in lines}
    assert re.search(r"Conv\(\) +x, w1, b1 +\(2, 3, 6\) +float32 +36 +112 B$", rows["conv_5"])  # x 64, w1 36, b1 12
    assert re.search(r"Relu\(\) +conv_5 +\(2, 3, 6\) +float32 +36 +144 B$", rows["relu_6"])
    assert re.search(r"Pool\(Max\(\), Window\(2\), axes=\(-1,\)\) .* 18 +18 B$", rows["max_pool_7"])
    assert re.search(r"Flatten\(\) .* 0 B$", rows["flatten_8"])
    assert lines[-1] == "outputs: loss"
    # x, w1, b1; the relu's output; the winners; h, w2, b2; logits and labels
    total = (64 + 36 + 12) + 144 + 18 + (72 + 144 + 16) + (32 + 16)
    assert re.search(rf"^total, shared once .* {total} B$", text, re.MULTILINE)
    assert repr(f).endswith("labels(2,) -> loss(), 6 ops)")


def test_what_is_shared_counts_once():
    g = Graph()
    x = g.input((10,), name="x")
    f = g.build(g.mul(x, x, name="a"), g.mul(x, x, name="b"))
    assert re.search(r"^total, shared once +30 +80 B$", str(f), re.MULTILINE)


@pytest.mark.parametrize(
    ("pool", "kept"),
    [
        (Pool(Max(), Window((4,))), 25),
        (Pool(Min(), Window((4,))), 25),
        (Pool(Avg(), Window((4,))), 0),
        (Pool(Sum(), Window((4,))), 0),
        (Pool(Max("split"), Window((4,))), "1,000"),  # x, and a copy of y
        (Pool(SmoothMax(1.0), Window((4,))), 800),
    ],
    ids=str,
)
def test_what_a_pool_keeps(pool, kept):
    g = Graph()
    assert f" {kept} B" in str(g.build(g.apply(pool, g.input((100,))))).splitlines()[3]


def test_dot():
    g = Graph()
    x = g.input((2, 2), name='say "x"')
    f = g.build(g.relu(x, name="y"))
    assert f.to_dot() == (
        'digraph program {\n  rankdir=TB;\n  node [fontname="sans-serif"];\n'
        '  n0 [label="say \\"x\\"\\ninput\\n(2, 2)", shape=ellipse, peripheries=1];\n'
        '  n1 [label="y\\nRelu()\\n(2, 2)", shape=box, peripheries=2];\n'
        "  n0 -> n1;\n}\n"
    )


def test_draw_writes_text(tmp_path):
    f = small_network()
    f.draw(tmp_path / "f.dot")
    assert (tmp_path / "f.dot").read_text() == f.to_dot()


def test_draw_renders_with_graphviz(tmp_path, monkeypatch):
    """With a stand-in for `dot` that writes down how it was called."""
    fake = tmp_path / "dot"
    fake.write_text(f'#!{sys.executable}\nimport sys\nopen(sys.argv[3], "w").write(sys.argv[1] + sys.stdin.read())\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    f = small_network()
    f.draw(str(tmp_path / "f.svg"))
    assert (tmp_path / "f.svg").read_text() == "-Tsvg" + f.to_dot()


def test_draw_without_graphviz(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        RuntimeError, match="needs Graphviz's program `dot`, which is not on the PATH; install Graphviz"
    ):
        small_network().draw(tmp_path / "f.png")
    with pytest.raises(
        ValueError, match=r"ends in '.bmp', which says no format; end it in one of .dot, .gv, .png, .svg"
    ):
        small_network().draw("f.bmp")


# --- errors ---------------------------------------------------------------------------------------


def graph_with(*shapes):
    g = Graph()
    return g, *(g.input(shape, name=name) for shape, name in zip(shapes, "xyz", strict=False))


def building(method, *shapes, **options):
    def act():
        g, *inputs = graph_with(*shapes)
        getattr(g, method)(*inputs, **options)

    return act


def calling(*xs, **options):
    def act():
        g, x, y = graph_with((2,), (2,))
        g.build(g.mul(x, g.relu(y, name="r"), name="m"), **options)(*xs)

    return act


class BadShape(ops.Relu):
    def value(self, x):
        return np.zeros(5)


def with_bad_op():
    g, x = graph_with((2,))
    return g.build(g.apply(BadShape(), x))


def with_two(op):
    g, x, y = graph_with((2,), (2,))
    g.apply(op, x, y)


def program():
    g, x, y = graph_with((2,), (2,))
    return g.build(g.mul(x, y), g.add(x, y))


GOOD = np.array([1.0, 2.0])
ERRORS = [
    (
        building("conv", (2, 3, 8), (4, 5, 3), name="c1"),
        ValueError,
        "c1 = Conv() of x (2, 3, 8), y (4, 5, 3): Conv of x (2, 3, 8) and w (4, 5, 3); x has shape (batch, channels,",
    ),
    (
        building("max_pool2d", (1, 1, 3, 3), kernel_size=4),
        ValueError,
        "max_pool_1 = Pool(Max(), Window(4), axes=(-2, -1)) of x (1, 1, 3, 3): kernel_size=4 with dilation=1",
    ),
    (building("add", (2,), (3,)), ValueError, "add_2 = Add() of x (2,), y (3,): Add takes shapes that broadcast"),
    (building("flatten", (2,), start=2), ValueError, "flatten_1 = Flatten(start=2) of x (2,): Flatten from start=2"),
    (
        lambda: with_two(ops.Flatten()),
        TypeError,
        "flatten_2 = Flatten() of x (2,), y (2,): Flatten takes 1 inputs and got 2",
    ),
    (lambda: with_two(ops.Relu()), TypeError, "relu_2 = Relu() of x (2,), y (2,): "),
    (building("max_pool2d", (4, 4), kernel_size=0), ValueError, "kernel_size=0 is less than 1"),
    (building("relu", (2,), name="x"), ValueError, "name='x' is taken in this graph; give each node a name of its own"),
    (lambda: Graph().input((2, -1)), ValueError, "shape[1]=-1 is less than 0"),
    (lambda: Graph().relu(np.ones(2)), TypeError, "is not a variable of a graph; make it an input or a constant first"),
    (lambda: Graph().relu(Graph().input((2,), name="x")), ValueError, "Var('x', float64(2,)) belongs to another graph"),
    (
        lambda: Graph().apply(np.sin, Graph().input((2,))),
        TypeError,
        "op=<ufunc 'sin'> is not an op; give an object with",
    ),
    (lambda: Graph().apply(ops.Relu, Graph().input((2,))), TypeError, "is not an op; give an object with output_shape"),
    (lambda: Graph().apply(ops.Relu()), TypeError, "Relu() is applied to nothing"),
    (lambda: Graph().build(), TypeError, "build() has no output; give at least one variable"),
    (calling(GOOD), TypeError, "the program takes 2 inputs (x, y) and got 1"),
    (calling(GOOD, np.ones(3)), ValueError, "node 'y' (input) was declared with shape (2,) and got (3,)"),
    (
        calling(GOOD, np.ones(2, np.float32)),
        TypeError,
        "node 'y' (input) was declared with dtype float64 and got float32",
    ),
    (
        calling([np.inf, 1.0], [0.0, 1.0], check_nan=True),
        ValueError,
        "the value of node 'm' (Mul()) is NaN in 1 of 2 cells, the first at (0,); no earlier node had one",
    ),
    (calling([1.0, np.nan], GOOD, check_nan=True), ValueError, "the value of node 'x' (input) is NaN in 1 of 2 cells"),
    (
        lambda: with_bad_op()(GOOD),
        ValueError,
        "the value of node 'bad_shape_1' (BadShape()) has shape (5,), and output_shape said (2,); mend the op",
    ),
    (
        lambda: program().jvp((GOOD,), (GOOD,)),
        ValueError,
        "xs has 1 arrays and the program 2 inputs; give one for each",
    ),
    (lambda: program().jvp((GOOD, GOOD), (GOOD,)), ValueError, "ts has 1 arrays and the program 2 inputs"),
    (
        lambda: program().jvp((GOOD, GOOD), ([1.0], None)),
        ValueError,
        "the tangent of 'x' has shape (1,) and belongs to",
    ),
    (lambda: program().vjp(GOOD, GOOD)[1]((GOOD,)), ValueError, "gs has 1 cotangents and there are 2 outputs"),
    (lambda: program().vjp(GOOD, GOOD)[1]((GOOD, 1.0)), ValueError, "the cotangent of 'add_3' has shape ()"),
    (
        lambda: program().value_and_grad(GOOD, GOOD),
        ValueError,
        "a gradient is of one number, and the outputs have shapes (2,), (2,)",
    ),
    (
        lambda: program().output_shape((2,)),
        ValueError,
        "the program was built for inputs of shapes ((2,), (2,)) and got ((2,),)",
    ),
    (lambda: program().output_shape((2,), (2,)), ValueError, "the program has 2 outputs and an op has one"),
]


@pytest.mark.filterwarnings("ignore:invalid value encountered in multiply")
@pytest.mark.parametrize(("act", "error", "message"), ERRORS, ids=[message for _, _, message in ERRORS])
def test_error(act, error, message):
    with pytest.raises(error, match=re.escape(message)):
        act()


def test_a_failed_line_leaves_the_graph_as_it_was():
    g, x, y = graph_with((2,), (3,))
    with pytest.raises(ValueError, match="broadcast"):
        g.add(x, y, name="sum")
    assert g.build(g.add(x, x, name="sum")).nodes[-1].name == "sum"


def test_an_error_inside_an_op_names_the_node():
    f = small_network()
    xs = draws(f)
    xs[-1] = np.array([0, 4])
    with pytest.raises(ValueError, match=re.escape("node 'loss' (CrossEntropy()): label 4 among 4 classes")):
        f(*xs)
    with pytest.raises(TypeError, match=re.escape("node 'loss' (CrossEntropy()): CrossEntropy of an object array")):
        f.check_adjoint(*draws(f), exact=True)


def test_nan_in_a_gradient_is_found():
    g = Graph()
    x, y = g.input((1,), name="x"), g.input((1,), name="y")
    f = g.build(g.sum(g.mul(x, y)), check_nan=True)
    _, pullback = f.vjp([0.0], [2.0])
    with pytest.raises(ValueError, match=re.escape("the cotangent of node 'reduce_sum_3' (ReduceSum()) is NaN")):
        pullback(np.nan)


def test_programs_cannot_be_changed():
    f = small_network()
    assert isinstance(f, Program)
    with pytest.raises(AttributeError):
        f.nodes = ()


def test_importing_ndpool_imports_numpy_and_nothing_else():
    code = (
        "import sys, numpy; before = set(sys.modules); import ndpool\n"
        "tops = {m.split('.')[0] for m in set(sys.modules) - before}\n"
        "print(sorted(tops - sys.stdlib_module_names - {'numpy'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['ndpool']"


def test_exact_numbers_are_not_rounded_on_the_way():
    f = small_network(loss=False)
    rng = np.random.default_rng(3)
    xs = [spec.fractions(rng.integers(-5, 6, f.nodes[i].shape)) for i in f.inputs]
    assert all(isinstance(v, Fraction | int) for v in f(*xs).ravel())


@pytest.mark.parametrize(
    "number", [lambda i: Fraction(i, 3), lambda i: Decimal(i) / 8, lambda i: sympy.Rational(i, 3)], ids=["F", "D", "S"]
)
def test_programs_of_exact_numbers_are_exact(number):
    """Seeds, zeros and constants too: gradients are numbers of the same sort, whatever was not reached."""
    g = Graph()
    x, w, unused = g.input((2, 3), name="x"), g.input((3,), name="w"), g.input((2,), name="unused")
    h = g.relu(g.sub(g.mul(x, w), g.constant(np.array([0.1, 0.5, -0.25], np.float32))))
    f = g.build(g.add(g.mean(h), g.mean_squared_error(x, h)))
    xs = [
        np.array([number(i) for i in range(-3, n - 3)], dtype=object).reshape(shape)
        for n, shape in [(6, (2, 3)), (3, (3,)), (2, (2,))]
    ]
    value, gradients = f.value_and_grad(*xs)
    _, pullback = f.vjp(*xs)
    sort = sympy.Rational if isinstance(xs[0][0, 0], sympy.Basic) else type(xs[0][0, 0])
    for array in (value, *gradients, *pullback(1), *pullback(1.0), f.jvp(tuple(xs), (np.ones((2, 3)), None, None))[1]):
        assert all(isinstance(cell, sort) for cell in np.asarray(array, dtype=object).ravel())
    floats = [x.astype(float) for x in xs]
    np.testing.assert_allclose(float(value), f(*floats), rtol=1e-12)
    for ours, theirs in zip(gradients, f.value_and_grad(*floats)[1], strict=True):
        np.testing.assert_allclose(ours.astype(float), theirs, rtol=1e-11, atol=1e-13)
    assert abs(f.check_adjoint(*xs)) < Fraction(1, 10**20)
    assert f.check_adjoint(*floats, exact=True) == 0
    assert unused.shape == (2,)


def test_exact_adjoints_of_narrow_floats_and_of_what_is_not_finite():
    g = Graph()
    f = g.build(g.mean(g.relu(g.input((2,), dtype=np.float16))))
    assert f.check_adjoint(np.array([0.1, 0.2], np.float16), exact=True) == 0
    with pytest.raises(ValueError, match="is not a rational number; give finite numbers"):
        f.check_adjoint(np.array([0.1, np.inf], np.float16), exact=True)
