"""Every op: its derivatives are one map and its transpose; it agrees with PyTorch; its errors say what is wrong."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy
import torch
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from ml_dtypes import bfloat16, finfo
from torch.nn import functional

from ndpool import Max, Pool, Window, ops, spec

LABELS = np.array([2, 0, 1, 2])

# op, shapes of its inputs, the same in PyTorch; ops whose results are rational are also run over Fractions.
RATIONAL = [
    (ops.Relu(), [(3, 4)], torch.relu),
    (ops.LeakyRelu(0.25), [(3, 4)], lambda x: functional.leaky_relu(x, 0.25)),
    (ops.Scale(1.5), [(3, 4)], lambda x: 1.5 * x),
    (ops.Add(), [(3, 4), (3, 4)], torch.add),
    (ops.Add(), [(2, 1, 4), (3, 1)], torch.add),
    (ops.Add(), [(1, 3), (1,)], torch.add),
    (ops.Sub(), [(4,), (2, 3, 4)], torch.sub),
    (ops.Sub(), [(), (2, 1)], torch.sub),
    (ops.Mul(), [(3, 4), (3, 4)], torch.mul),
    (ops.Mul(), [(2, 1, 4), (3, 1)], torch.mul),
    (ops.Matmul(), [(3, 4), (4, 2)], torch.matmul),
    (ops.Matmul(), [(5, 1, 3, 4), (2, 4, 2)], torch.matmul),
    (ops.Linear(), [(3, 4), (2, 4)], functional.linear),
    (ops.Linear(), [(2, 3, 4), (2, 4), (2,)], functional.linear),
    (ops.Linear(), [(4,), (2, 4), (2,)], functional.linear),
    (ops.Reshape((4, -1)), [(2, 3, 4)], lambda x: x.reshape(4, -1)),
    (ops.Flatten(), [(2, 3, 4)], lambda x: x.flatten(1)),
    (ops.Flatten(0), [(2, 3)], lambda x: x.flatten()),
    (ops.Transpose(), [(2, 3, 4)], lambda x: x.permute(2, 1, 0)),
    (ops.Transpose((1, -1, 0)), [(2, 3, 4)], lambda x: x.permute(1, 2, 0)),
    (ops.ReduceSum(), [(2, 3)], torch.sum),
    (ops.ReduceSum((0, -1)), [(2, 3, 4)], lambda x: x.sum((0, 2))),
    (ops.ReduceSum(1, keepdims=True), [(2, 3, 4)], lambda x: x.sum(1, keepdim=True)),
    (ops.ReduceMean(), [(2, 3)], torch.mean),
    (ops.ReduceMean((0, -1), keepdims=True), [(2, 3, 4)], lambda x: x.mean((0, 2), keepdim=True)),
    (ops.MeanSquaredError(), [(2, 3), (2, 3)], functional.mse_loss),
    (ops.Conv(), [(2, 3, 5), (4, 3, 2)], functional.conv1d),
    (ops.Conv(2, 1, 2), [(2, 3, 7), (4, 3, 2), (4,)], lambda x, w, b: functional.conv1d(x, w, b, 2, 1, 2)),
    (ops.Conv(), [(2, 2, 4, 5), (3, 2, 2, 3), (3,)], functional.conv2d),
    (
        ops.Conv((2, 1), (1, 2), (1, 2)),
        [(2, 2, 6, 5), (3, 2, 3, 2), (3,)],
        lambda x, w, b: functional.conv2d(x, w, b, (2, 1), (1, 2), (1, 2)),
    ),
    (ops.Conv(padding="same"), [(1, 2, 4, 5), (2, 2, 3, 3)], lambda x, w: functional.conv2d(x, w, padding="same")),
    (ops.Conv(2, 1), [(1, 2, 3, 4, 3), (2, 2, 2, 3, 2)], lambda x, w: functional.conv3d(x, w, None, 2, 1)),
]
TRANSCENDENTAL = [
    (ops.Tanh(), [(3, 4)], torch.tanh),
    (ops.Sigmoid(), [(3, 4)], torch.sigmoid),
    (ops.Softmax(), [(3, 4)], lambda x: torch.softmax(x, -1)),
    (ops.Softmax(0), [(3, 4)], lambda x: torch.softmax(x, 0)),
    (ops.LogSoftmax(), [(3, 4)], lambda x: torch.log_softmax(x, -1)),
    (ops.LogSoftmax(1), [(3, 4, 2)], lambda x: torch.log_softmax(x, 1)),
    (ops.CrossEntropy(), [(3, 4), (3, 4)], functional.cross_entropy),
]
RATIONAL_IDS = [f"{op}-{shapes}" for op, shapes, _ in RATIONAL]
ALL = RATIONAL + TRANSCENDENTAL
ALL_IDS = [f"{op}-{shapes}" for op, shapes, _ in ALL]


def rationals(rng, shape):
    """Small exact numbers, zeros among them."""
    return np.asarray(spec.fractions(rng.integers(-6, 7, shape)) / 12)


def packed(arrays):
    """One is itself, several are a tuple: the protocol's way."""
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def unpacked(result, count):
    return (result,) if count == 1 else result


def inner(a, b):
    return np.sum(np.asarray(a) * np.asarray(b))


def adjoint_defect(op, xs, ts, draw):
    y, dy = op.jvp(packed(xs), packed(ts))
    g = draw(np.shape(y))
    same, pullback = op.vjp(*xs)
    np.testing.assert_array_equal(y, same)
    np.testing.assert_array_equal(y, op(*xs))
    assert np.shape(y) == np.shape(dy) == op.output_shape(*(x.shape for x in xs))
    gs = unpacked(pullback(g), len(xs))
    assert [gx.shape for gx in gs] == [x.shape for x in xs]
    return inner(dy, g) - sum(inner(t, gx) for t, gx in zip(ts, gs, strict=True))


@pytest.mark.parametrize(("op", "shapes", "theirs"), RATIONAL, ids=RATIONAL_IDS)
def test_adjoint_exactly(op, shapes, theirs):
    rng = np.random.default_rng(0)
    xs, ts = [[rationals(rng, shape) for shape in shapes] for _ in range(2)]
    defect = adjoint_defect(op, xs, ts, lambda shape: rationals(rng, shape))
    assert isinstance(defect, Fraction | int)
    assert defect == 0


@pytest.mark.parametrize(("op", "shapes", "theirs"), ALL, ids=ALL_IDS)
@pytest.mark.parametrize("dtype", [np.float16, bfloat16, np.float32, np.float64])
def test_adjoint_in_floats(op, shapes, theirs, dtype):
    rng = np.random.default_rng(1)
    xs, ts = [[rng.normal(size=shape).astype(dtype) for shape in shapes] for _ in range(2)]
    defect = adjoint_defect(op, xs, ts, lambda shape: rng.normal(size=shape))
    assert abs(defect) < 200 * float(finfo(dtype).eps)
    y, pullback = op.vjp(*xs)
    gs = unpacked(pullback(np.ones(y.shape)), len(xs))
    assert {y.dtype, op.jvp(packed(xs), packed(ts))[1].dtype, *(gx.dtype for gx in gs)} == {np.dtype(dtype)}


@pytest.mark.parametrize(("op", "shapes", "theirs"), ALL, ids=ALL_IDS)
@pytest.mark.parametrize("dtype", [np.float16, bfloat16])
def test_half_precision_is_rounded_once(op, shapes, theirs, dtype):
    """What comes out is the result in 32 bits, rounded to 16."""
    rng = np.random.default_rng(6)
    xs = [rng.normal(size=shape).astype(dtype) for shape in shapes]
    y, pullback = op.vjp(*xs)
    wide, wide_pullback = op.vjp(*(x.astype(np.float32) for x in xs))
    np.testing.assert_array_equal(y, wide.astype(dtype))
    g = rng.normal(size=y.shape).astype(dtype)
    for gx, wanted in zip(unpacked(pullback(g), len(xs)), unpacked(wide_pullback(g), len(xs)), strict=True):
        # The pullback of an op that keeps its output starts from the rounded one.
        eps = float(finfo(dtype).eps)
        np.testing.assert_allclose(gx.astype(float), wanted, rtol=2 * eps, atol=8 * eps)


def test_a_mean_of_half_precision_does_not_overflow():
    assert ops.ReduceMean()(np.full(100, 6e4, np.float16)) == np.float16(6e4)


@pytest.mark.parametrize(("op", "shapes", "theirs"), ALL, ids=ALL_IDS)
def test_against_torch(op, shapes, theirs):
    rng = np.random.default_rng(2)
    xs = [rng.normal(size=shape) for shape in shapes]
    leaves = [torch.tensor(x, requires_grad=True) for x in xs]
    y, pullback = op.vjp(*xs)
    expected = theirs(*leaves)
    np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-12, atol=1e-13)
    g = rng.normal(size=y.shape)
    expected.backward(torch.tensor(g))
    for gx, leaf in zip(unpacked(pullback(g), len(xs)), leaves, strict=True):
        np.testing.assert_allclose(gx, leaf.grad.numpy(), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("op", "shapes", "theirs"), ALL, ids=ALL_IDS)
def test_inputs_are_not_changed_and_may_be_anyhow_in_memory(op, shapes, theirs):
    rng = np.random.default_rng(3)
    plain = [rng.normal(size=shape) for shape in shapes]
    y, pullback = op.vjp(*plain)
    g = rng.normal(size=y.shape)
    expected = unpacked(pullback(g), len(plain))
    hostile = [np.asfortranarray(x) for x in plain]
    hostile[0] = np.repeat(hostile[0], 2, axis=-1)[..., ::2] if hostile[0].ndim else hostile[0]
    for x in [*hostile, g]:
        x.flags.writeable = False
    same, pullback = op.vjp(*hostile)
    np.testing.assert_allclose(same, y, rtol=1e-13, atol=1e-14)
    for gx, wanted in zip(unpacked(pullback(g), len(plain)), expected, strict=True):
        np.testing.assert_allclose(gx, wanted, rtol=1e-12, atol=1e-13)
    for x, original in zip(hostile, plain, strict=True):
        np.testing.assert_array_equal(x, original)


@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        *((op, [(0, 3)]) for op in (ops.Relu(), ops.LeakyRelu(), ops.Tanh(), ops.Sigmoid(), ops.Scale(2))),
        *((op, [(0, 3)]) for op in (ops.Softmax(), ops.LogSoftmax(), ops.Flatten(), ops.Transpose(), ops.ReduceSum())),
        *((op, [(0, 3), (3,)]) for op in (ops.Add(), ops.Sub(), ops.Mul())),
        (ops.Reshape((0, 5)), [(0, 3)]),
        (ops.ReduceMean(1), [(0, 3)]),
        (ops.Matmul(), [(0, 3), (3, 2)]),
        (ops.Linear(), [(0, 3), (2, 3), (2,)]),
        (ops.Conv(padding=1), [(0, 3, 4), (2, 3, 2), (2,)]),
        (ops.Conv(2, 1), [(0, 3, 4, 4), (2, 3, 2, 2)]),
    ],
    ids=str,
)
def test_empty_batches(op, shapes):
    xs = [np.ones(shape) for shape in shapes]
    y, pullback = op.vjp(*xs)
    assert y.shape == op.output_shape(*shapes)
    gs = unpacked(pullback(np.ones(y.shape)), len(xs))
    assert [g.shape for g in gs] == shapes
    assert all(np.all(g == 0) for g in gs)


# --- exact numbers --------------------------------------------------------------------------------

SORTS = {
    "Fraction": (Fraction, lambda i: Fraction(i, 7)),
    "Decimal": (Decimal, lambda i: Decimal(i) / 8),
    "SymPy": (sympy.Rational, lambda i: sympy.Rational(i, 7)),
    "mpmath": (mpmath.mpf, lambda i: mpmath.mpf(i) / 8),
    "int": (Fraction | int, lambda i: i),
}


def exact_numbers(sort, shape, seed):
    draws = np.random.default_rng(seed).integers(-6, 7, shape)
    made = np.empty(shape, dtype=object)
    for place in np.ndindex(*shape):
        made[place] = SORTS[sort][1](int(draws[place]))
    return made


def as_floats(array):
    return np.asarray(array).astype(float)


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize(("op", "shapes", "theirs"), RATIONAL, ids=RATIONAL_IDS)
def test_exact_numbers_stay_exact(op, shapes, theirs, sort):
    """Value, JVP and VJP are numbers of the same sort in every cell, and what floats give; directions may be floats."""
    if sort == "int" and isinstance(op, ops.Scale | ops.LeakyRelu):
        pytest.skip("a float factor of ints gives floats, as it does in Python")
    xs = [exact_numbers(sort, shape, i) for i, shape in enumerate(shapes)]
    rng = np.random.default_rng(5)
    draw = rng.integers if sort == "int" else lambda low, high, shape: rng.integers(low, high, shape) / 4
    ts = [np.asarray(draw(-3, 4, shape)) for shape in shapes]
    y, dy = op.jvp(packed(xs), packed(ts))
    g = np.asarray(draw(-3, 4, y.shape))
    gs = unpacked(op.vjp(*xs)[1](g), len(xs))
    for array in (y, dy, *gs):
        assert array.dtype == object
        assert {type(cell) for cell in array.ravel() if not isinstance(cell, SORTS[sort][0])} == set()
    floats = [as_floats(x) for x in xs]
    wanted, wanted_dy = op.jvp(packed(floats), packed(ts))
    np.testing.assert_allclose(as_floats(y), wanted, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(as_floats(dy), wanted_dy, rtol=1e-12, atol=1e-14)
    for gx, expected in zip(gs, unpacked(op.vjp(*floats)[1](g), len(xs)), strict=True):
        np.testing.assert_allclose(as_floats(gx), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("op", [ops.Add(), ops.Sub(), ops.Mul(), ops.MeanSquaredError()], ids=repr)
@pytest.mark.parametrize("order", [1, -1])
def test_floats_beside_fractions_count_as_the_numbers_that_they_are(op, order):
    """0.1 is 3602879701896397 / 2**55, and nothing is rounded on the way, whichever stands first."""
    third = np.array([Fraction(1, 3), Fraction(-2)])
    tenth, exactly = np.array([0.1, 0.5]), spec.fractions([0.1, 0.5])
    for dtype in (np.float64, np.float32, bfloat16):
        floats, exactly = tenth.astype(dtype), spec.fractions(tenth.astype(dtype).astype(float))
        y, pullback = op.vjp(*(third, floats)[::order])
        wanted, wanted_pullback = op.vjp(*(third, exactly)[::order])
        assert np.all(y == wanted)
        g = 0.3 if y.ndim == 0 else [0.3, 2.0]
        exact_g = spec.fractions(g)
        for gx, expected in zip(pullback(g), wanted_pullback(exact_g), strict=True):
            assert all(type(cell) is Fraction for cell in gx)
            assert np.all(gx == expected)


def test_zeros_among_exact_numbers_are_of_their_sort():
    """An int 0 would be divided to another sort of number later."""
    x = np.array([Decimal(-1), Decimal(2), Decimal("Infinity"), Decimal("-Infinity")])
    y, pullback = ops.Relu().vjp(x)
    assert y.tolist() == [0, 2, Decimal("Infinity"), 0]
    assert all(type(cell) is Decimal for cell in (*y, *pullback([1, 1, 1, 1])))
    mixed = np.array([0, Fraction(1, 2), 1], dtype=object)
    assert all(type(cell) is Fraction for cell in ops.Flatten(0).vjp(mixed)[1]([1, 2, 3]))
    relu = ops.Relu()(np.array([np.inf, np.nan, -np.inf], dtype=object))
    np.testing.assert_array_equal(relu.astype(float), [np.inf, np.nan, 0])


def test_means_of_ints_that_are_objects_are_fractions():
    x = np.array([[10**30, 1], [2, 4]], dtype=object)
    assert ops.ReduceMean(1)(x).tolist() == [Fraction(10**30 + 1, 2), 3]
    assert ops.ReduceSum()(x).item() == 10**30 + 7
    assert ops.ReduceSum()(x[1:]).dtype == object
    assert ops.MeanSquaredError()(x[1], np.zeros(2, dtype=object)).item() == 10
    assert ops.ReduceMean().vjp(x)[1](1).ravel().tolist() == [Fraction(1, 4)] * 4
    assert ops.MeanSquaredError()(np.array(Fraction(1, 3)), np.array(Fraction(1, 2))).item() == Fraction(1, 36)


@pytest.mark.parametrize("op", [ops.Add(), ops.Sub(), ops.Mul()], ids=repr)
def test_one_number_that_is_an_object_stays_one(op):
    """NumPy makes a plain number of an object array without axes, and a product of these would wrap around."""
    a, b = np.array(2**40, dtype=object), np.array(3, dtype=object)
    y, pullback = op.vjp(a, b)
    assert {v.dtype for v in (y, op(a, b), op.jvp((a, b), (1, 2))[1], *pullback(1))} == {np.dtype(object)}
    assert ops.Mul()(y, y).item() == int(y) ** 2


def test_a_factor_that_is_a_fraction_leaves_the_dtype_alone():
    x = np.array([-3.0, 3.0], np.float32)
    for op, wanted in [(ops.Scale(Fraction(1, 4)), [-0.75, 0.75]), (ops.LeakyRelu(Fraction(1, 4)), [-0.75, 3.0])]:
        y, pullback = op.vjp(x)
        assert (y.tolist(), y.dtype, pullback(x).dtype) == (wanted, np.float32, np.float32)


# --- labels, extreme values, ties -----------------------------------------------------------------


@pytest.mark.parametrize("weights", [False, True])
def test_cross_entropy_of_rank_three(weights):
    """Classes last, and a mean over all rows: PyTorch has the classes second."""
    rng = np.random.default_rng(4)
    x, t = rng.normal(size=(2, 4, 3, 5))
    q = rng.uniform(size=(4, 3, 5)) if weights else rng.integers(0, 5, (4, 3))
    leaf, target = torch.tensor(x, requires_grad=True), torch.tensor(q, requires_grad=weights)
    expected = functional.cross_entropy(leaf.movedim(-1, 1), target.movedim(-1, 1) if weights else target)
    y, pullback = ops.CrossEntropy().vjp(x, q)
    np.testing.assert_allclose(y, expected.item(), rtol=1e-13)
    expected.backward(torch.tensor(0.7, dtype=torch.float64))
    gx, gq = pullback(0.7)
    np.testing.assert_allclose(gx, leaf.grad.numpy(), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(gq, target.grad.numpy() if weights else np.zeros((4, 3)), rtol=1e-11)
    tq = rng.normal(size=q.shape) if weights else None
    same, dy = ops.CrossEntropy().jvp((x, q), (t, tq))
    np.testing.assert_array_equal(same, y)
    np.testing.assert_allclose(0.7 * dy, inner(t, gx) + (inner(tq, gq) if weights else 0), rtol=1e-11)


@pytest.mark.parametrize(
    ("x", "q", "wanted"),
    [
        (np.float32, np.float32, np.float32),
        (np.float32, np.float64, np.float64),
        (np.float64, np.float32, np.float64),
        (np.float16, np.float16, np.float16),
        (np.float16, np.float32, np.float32),
        (bfloat16, bfloat16, bfloat16),
        (np.float32, np.int64, np.float32),
        (np.float16, np.uint8, np.float16),
        (np.int32, np.int64, np.float64),
        (np.int32, np.float32, np.float64),
    ],
)
def test_losses_of_mixed_dtypes(x, q, wanted):
    """Value and derivatives in one dtype; whole weights say nothing about it."""
    rng = np.random.default_rng(0)
    logits, weights = (4 * rng.normal(size=(3, 4))).astype(x), (4 * rng.uniform(size=(3, 4))).astype(q)
    reference = [np.asarray(v).astype(np.float64) for v in (logits, weights)]
    for op in (ops.CrossEntropy(), ops.MeanSquaredError()):
        if isinstance(op, ops.MeanSquaredError) and np.dtype(q).kind in "iu" and np.dtype(x).kind == "f":
            continue  # two inputs of one sort, whose common dtype is NumPy's
        y, pullback = op.vjp(logits, weights)
        same, dy = op.jvp((logits, weights), (np.ones((3, 4)), np.ones((3, 4))))
        gx, gq = pullback(0.5)
        assert {v.dtype for v in (y, same, dy, gx, gq)} == {np.dtype(wanted)}
        assert op.result_dtype(np.dtype(x), np.dtype(q)) == wanted
        exact, exact_pullback = op.vjp(*reference)
        eps = float(finfo(wanted).eps)
        np.testing.assert_allclose(y.astype(float), exact, rtol=20 * eps)
        np.testing.assert_allclose(gx.astype(float), exact_pullback(0.5)[0], rtol=20 * eps, atol=40 * eps)


def test_cross_entropy_along_an_impossible_class():
    """A tangent of 0 does not meet the logarithm of 0 either."""
    x, q = np.array([[0.0, -np.inf, 0.0]]), np.array([[1.0, 0.0, 0.0]])
    _, dy = ops.CrossEntropy().jvp((x, q), (np.zeros((1, 3)), np.array([[1.0, 0.0, 0.0]])))
    np.testing.assert_allclose(dy, np.log(2))


def test_cross_entropy_with_labels():
    rng = np.random.default_rng(4)
    x, t = rng.normal(size=(2, 4, 3))
    leaf = torch.tensor(x, requires_grad=True)
    expected = functional.cross_entropy(leaf, torch.tensor(LABELS))
    y, pullback = ops.CrossEntropy().vjp(x, LABELS)
    np.testing.assert_allclose(y, expected.item(), rtol=1e-14)
    expected.backward(torch.tensor(0.7, dtype=torch.float64))
    gx, glabels = pullback(0.7)
    np.testing.assert_allclose(gx, leaf.grad.numpy(), rtol=1e-12)
    np.testing.assert_array_equal(glabels, np.zeros(4))
    assert glabels.dtype == np.float64
    dy = ops.CrossEntropy().jvp((x, LABELS), (t, None))[1]
    np.testing.assert_allclose(0.7 * dy, inner(t, gx), rtol=1e-12)
    one_hot = np.eye(3)[LABELS]
    np.testing.assert_allclose(ops.CrossEntropy()(x, one_hot), y, rtol=1e-14)


def test_cross_entropy_where_a_class_is_impossible():
    """A logit of -inf has probability 0; a target that is 0 there does not meet its logarithm."""
    x = np.array([[0.0, -np.inf, 0.0]])
    y, pullback = ops.CrossEntropy().vjp(x, [[1.0, 0.0, 0.0]])
    np.testing.assert_allclose(y, np.log(2))
    np.testing.assert_allclose(pullback(1.0)[0], [[-0.5, 0.0, 0.5]])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_extreme_values_neither_overflow_nor_vanish(dtype):
    big = np.array([[-3e4, 0.0, 3e4]], dtype)
    np.testing.assert_array_equal(ops.Sigmoid()(big), [[0, 0.5, 1]])
    np.testing.assert_array_equal(ops.Softmax()(big), [[0, 0, 1]])
    assert ops.LogSoftmax()(big)[0, 1] == -dtype(3e4)
    assert ops.CrossEntropy()(big, [0]) > 3e4
    assert all(op(big).dtype == dtype for op in (ops.Sigmoid(), ops.Softmax(), ops.LogSoftmax(), ops.Relu()))


def test_relu_at_zero_nan_and_infinity():
    x = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, -1.0])
    y, pullback = ops.Relu().vjp(x)
    np.testing.assert_array_equal(y, [0, 0, np.nan, np.inf, 0, 0])
    np.testing.assert_array_equal(pullback(np.full(6, np.inf)), [0, 0, 0, np.inf, 0, 0])
    _, pullback = ops.LeakyRelu(0.5).vjp(np.array([0.0, -1.0]))
    np.testing.assert_array_equal(pullback([2.0, 4.0]), [1.0, 2.0])


def test_a_numpy_number_does_not_change_the_dtype():
    x = np.ones(2, np.float32)
    assert {op(x).dtype for op in (ops.Scale(np.float64(2)), ops.LeakyRelu(np.float64(0.1)))} == {np.dtype(np.float32)}


def test_unsigned_integers_do_not_wrap_in_a_mean_square():
    """0 - 20 is 236 modulo 256, and 255 - 20 squared is 185: neither may come out."""
    for dtype in (np.uint8, np.uint16, np.uint64, np.int8):
        for a, b in [(0, 20), (20, 0), (100, 20)]:
            a, b = np.array([a], dtype), np.array([b], dtype)
            y, pullback = ops.MeanSquaredError().vjp(a, b)
            gap = int(a[0]) - int(b[0])
            assert (y, y.dtype, pullback(0.5)[0].tolist(), pullback(0.5)[1].tolist()) == (gap**2, float, [gap], [-gap])
            assert ops.MeanSquaredError().jvp((a, b), ([1.0], [0.5]))[1] == gap
    assert ops.MeanSquaredError()(np.array([0.5], np.float32), np.array([3], np.uint8)) == 6.25
    assert ops.MeanSquaredError()(np.array([3], np.uint8), np.array([0.5], np.float32)) == 6.25


@pytest.mark.parametrize("op", [ops.Tanh(), ops.Sigmoid(), ops.Softmax(), ops.LogSoftmax()], ids=repr)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint64, np.int8, np.int64])
def test_transcendental_ops_of_integers_are_those_of_floats(op, dtype):
    """Unsigned integers have no negative numbers, and 8 bits of them few large ones."""
    x = np.array([[0, 5, 3], [100, 1, 0]], dtype)
    y, pullback = op.vjp(x)
    wanted, wanted_pullback = op.vjp(x.astype(float))
    np.testing.assert_array_equal(y, wanted)
    assert y.dtype == np.float64
    g = np.array([[1.0, -2.0, 3.0], [0.5, 0.25, 2.0]])
    np.testing.assert_array_equal(pullback(g), wanted_pullback(g))
    np.testing.assert_array_equal(op.jvp(x, g)[1], op.jvp(x.astype(float), g)[1])
    logits = ops.CrossEntropy()
    np.testing.assert_array_equal(logits(x, [1, 0]), logits(x.astype(float), [1, 0]))


def test_derivatives_of_integers_are_float64():
    y, pullback = ops.Linear().vjp(np.array([[1, 2]]), np.array([[3, 4]]))
    assert (y.tolist(), y.dtype) == ([[11]], np.int64)
    gx, gw = pullback([[0.5]])
    assert (gx.tolist(), gw.tolist()) == ([[1.5, 2.0]], [[0.5, 1.0]])


@st.composite
def convolutions(draw):
    """Any geometry over small lengths, of rank 1 to 3, in exact integers."""
    rank = draw(st.integers(1, 3))

    def each(low, high):
        return draw(st.tuples(*[st.integers(low, high)] * rank))

    pairs = st.tuples(*[st.tuples(st.integers(0, 2), st.integers(0, 2))] * rank)
    padding = draw(st.integers(0, 2) | pairs | st.sampled_from(["valid", "same", "same_lower"]))
    op = ops.Conv(each(1, 3), padding, each(1, 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = rng.integers(-5, 6, (draw(st.integers(1, 2)), 2, *each(1, 5)))
    return op, x, rng.integers(-5, 6, (3, 2, *each(1, 3))), rng.integers(-5, 6, 3), rng


@given(convolutions())
@settings(max_examples=100, deadline=None)
def test_a_convolution_is_its_definition(problem):
    """`sum over c, k of w[o, c, k] * x[n, c, i*stride - pad_lo + k*dilation]`, cell by cell, and exactly adjoint."""
    op, x, w, bias, rng = problem
    try:
        shape = op.output_shape(x.shape, w.shape, bias.shape)
    except ValueError:
        reject()  # the kernel reaches over more than there is: an error with a test of its own
    expected = np.zeros(shape, int)
    axes = Window(w.shape[2:], op.stride, op.padding, op.dilation).axes_of(x.shape[2:])
    for n, o, *i in np.ndindex(*shape):
        expected[(n, o, *i)] = bias[o]
        for c, *k in np.ndindex(*w.shape[1:]):
            place = [a * axis.stride - axis.pad_lo + b * axis.dilation for a, b, axis in zip(i, k, axes, strict=True)]
            if all(0 <= p < axis.length for p, axis in zip(place, axes, strict=True)):
                expected[(n, o, *i)] += w[(o, c, *k)] * x[(n, c, *place)]
    np.testing.assert_array_equal(op(x, w, bias), expected)
    xs = [spec.fractions(v) for v in (x, w, bias)]
    assert adjoint_defect(op, xs, [rationals(rng, v.shape) for v in xs], lambda shape: rationals(rng, shape)) == 0


def test_convolution_of_rank_four():
    """No rank is special: a kernel of 1 x 1 x 1 x 1 is a matrix product over the channels."""
    rng = np.random.default_rng(5)
    x, w = rng.normal(size=(2, 3, 2, 3, 2, 2)), rng.normal(size=(4, 3, 1, 1, 1, 1))
    expected = np.moveaxis(np.moveaxis(x, 1, -1) @ w[..., 0, 0, 0, 0].T, -1, 1)
    np.testing.assert_allclose(ops.Conv()(x, w), expected, rtol=1e-12)


def test_pools_and_ops_are_ops():
    for op in [Pool(Max(), Window((2,))), *(op for op, _, _ in ALL)]:
        assert isinstance(op, ops.Op)
    assert not isinstance(np.sin, ops.Op)


def test_ops_are_values():
    assert ops.Conv([2, 1]) == ops.Conv((2, 1))
    for op, _, _ in ALL:
        assert eval(repr(op), vars(ops)) == op
        assert hash(op) == hash(eval(repr(op), vars(ops)))


# --- errors ---------------------------------------------------------------------------------------

F = spec.fractions([1.0, 2.0])
ERRORS = [
    (lambda: ops.Add()([1, 2], [1, 2, 3]), ValueError, "Add takes shapes that broadcast, and (2,) and (3,) do not"),
    (lambda: ops.Mul()(np.ones((2, 3)), np.ones(2)), ValueError, "Mul takes shapes that broadcast"),
    (lambda: ops.Add()([1, 2]), TypeError, "Add takes 2 inputs and got 1"),
    (lambda: ops.Relu().output_shape((1,), (2,)), TypeError, "positional argument"),
    (lambda: ops.Mul()(1, 2, 3), TypeError, "Mul takes 2 inputs and got 3"),
    (lambda: ops.Linear()([1.0]), TypeError, "Linear takes 2 or 3 inputs and got 1"),
    (lambda: ops.CrossEntropy().output_shape((1,)), TypeError, "CrossEntropy takes 2 inputs and got 1"),
    (
        lambda: ops.Linear()(np.ones((2, 3)), np.ones((4, 5))),
        ValueError,
        "Linear of x (2, 3) and w (4, 5); w has shape (outputs, inputs), and inputs is the last length of x",
    ),
    (
        lambda: ops.Linear()(np.ones((2, 3)), np.ones((4, 3)), np.ones(3)),
        ValueError,
        "Linear adds a bias of shape (3,) along axis -1 of (2, 4); give shape (4,)",
    ),
    (
        lambda: ops.Conv()(np.ones((2, 3, 8)), np.ones((4, 5, 3))),
        ValueError,
        "Conv of x (2, 3, 8) and w (4, 5, 3); x has shape (batch, channels, *lengths)",
    ),
    (lambda: ops.Conv()(np.ones((2, 3)), np.ones((4, 3))), ValueError, "with the same number of axes, at least 3"),
    (
        lambda: ops.Conv()(np.ones((1, 1, 2)), np.ones((1, 1, 5))),
        ValueError,
        "kernel_size=5 with dilation=1 reaches over 5 cells, and the padded axis has 2",
    ),
    (lambda: ops.Conv(stride=0), ValueError, "stride=0 is less than 1"),
    (lambda: ops.Conv(padding="full"), ValueError, "padding='full' is not a padding word"),
    (lambda: ops.Matmul()([1.0], [[1.0]]), ValueError, "Matmul of shapes (1,) and (1, 1); both need 2 axes or more"),
    (
        lambda: ops.Matmul()(np.ones((2, 3)), np.ones((4, 2))),
        ValueError,
        "Matmul of shapes (2, 3) and (4, 2): rows of 3 meet columns of 4; make these lengths equal",
    ),
    (lambda: ops.Matmul()(np.ones((2, 1, 1)), np.ones((3, 1, 1))), ValueError, "Matmul takes shapes that broadcast"),
    (lambda: ops.Reshape((2, -1))([1, 2, 3]), ValueError, "Reshape to shape=(2, -1) of (3,), which has 3 cells"),
    (lambda: ops.Reshape((-1, -1)), ValueError, "shape=(-1, -1) leaves more than one length open; give at most one -1"),
    (lambda: ops.Reshape((2.0,)), TypeError, "shape[0]=2.0 is a float, which would have to be rounded"),
    (lambda: ops.Flatten(3)([1]), ValueError, "Flatten from start=3 of shape (1,); give at most 1"),
    (lambda: ops.Flatten(-1), ValueError, "start=-1 is less than 0"),
    (
        lambda: ops.Transpose((0, 0))([[1]]),
        ValueError,
        "Transpose with axes=(0, 0) of shape (1, 1); name each axis once",
    ),
    (lambda: ops.Transpose((0, 2))([[1]]), ValueError, "Transpose over axis=2 of shape (1, 1), which has 2 axes"),
    (
        lambda: ops.ReduceSum(2)([[1]]),
        ValueError,
        "ReduceSum over axis=2 of shape (1, 1), which has 2 axes; give -2 to 1",
    ),
    (
        lambda: ops.ReduceSum((0, -2))([[1]]),
        ValueError,
        "ReduceSum with axes=(0, -2) of shape (1, 1); name each axis once",
    ),
    (lambda: ops.ReduceSum(keepdims=1), TypeError, "keepdims=1 is not a bool; give True or False"),
    (lambda: ops.ReduceMean()([]), ValueError, "ReduceMean with axes=None of shape (0,) has no cell; a mean needs one"),
    (lambda: ops.Softmax(1)([1.0]), ValueError, "Softmax over axis=1 of shape (1,), which has 1 axes"),
    (
        lambda: ops.LogSoftmax()(np.ones((2, 0))),
        ValueError,
        "LogSoftmax over axis=-1 of shape (2, 0), which has length 0",
    ),
    (lambda: ops.Tanh()(F), TypeError, "Tanh of an object array has no exact value; give an array of floats"),
    (
        lambda: ops.Relu().vjp([1.0, 2.0])[1]([1.0, 2j]),
        TypeError,
        "g has dtype complex128 and belongs to an array of float64; give real numbers",
    ),
    (lambda: ops.Relu().jvp([1.0], ["1"]), TypeError, "t has dtype <U1 and belongs to an array of float64"),
    (lambda: ops.Add()(F, [np.inf, 1.0]), ValueError, "inf meets numbers of type Fraction, which have no such number"),
    (lambda: ops.Relu().vjp(F)[1]([np.nan, 1.0]), ValueError, "nan meets numbers of type Fraction"),
    (
        lambda: ops.CrossEntropy()(np.ones((1, 2)), spec.fractions([[0.5, 0.5]])),
        TypeError,
        "CrossEntropy of an object array has no exact value",
    ),
    (lambda: ops.Softmax()(F), TypeError, "Softmax of an object array has no exact value"),
    (lambda: ops.LeakyRelu(0), ValueError, "slope=0 must be finite and > 0; for a slope of 0 use Relu"),
    (lambda: ops.LeakyRelu("1"), TypeError, "slope='1' is a str; give a number"),
    (lambda: ops.Scale([1, 2]), TypeError, "factor=[1, 2] is not one number; for an array of factors use Mul"),
    (
        lambda: ops.CrossEntropy()(np.ones((2, 3)), [0, 1, 2]),
        ValueError,
        "CrossEntropy of logits (2, 3) and targets (3,); give targets of shape (2, 3), or integer labels of (2,)",
    ),
    (
        lambda: ops.CrossEntropy()(np.ones((2, 3)), [0, 3]),
        ValueError,
        "label 3 among 3 classes; give labels from 0 to 2",
    ),
    (lambda: ops.CrossEntropy()(np.ones((2, 3)), [0, -1]), ValueError, "label -1 among 3 classes"),
    (
        lambda: ops.CrossEntropy()(np.ones((2, 3)), [0.0, 1.0]),
        TypeError,
        "labels of dtype float64 are not class numbers",
    ),
    (lambda: ops.CrossEntropy()(np.ones((2, 3)), F), TypeError, "labels of dtype object are not class numbers"),
    (lambda: ops.CrossEntropy()(np.ones((0, 3)), np.ones((0, 3))), ValueError, "has no cell; a mean needs one"),
    (
        lambda: ops.MeanSquaredError()([1.0], [1.0, 2.0]),
        ValueError,
        "MeanSquaredError of shapes (1,) and (2,); make them equal, nothing is broadcast here",
    ),
    (lambda: ops.MeanSquaredError()([], []), ValueError, "MeanSquaredError of shape (0,), which has no cell"),
    (
        lambda: ops.Relu().vjp([1.0, 2.0])[1]([1.0]),
        ValueError,
        "g has shape (1,) and belongs to an array of shape (2,); make them equal",
    ),
    (lambda: ops.Relu().jvp([1.0, 2.0], [1.0]), ValueError, "t has shape (1,) and belongs to an array of shape (2,)"),
    (lambda: ops.Add().jvp(([1.0], [2.0]), ([1.0],)), ValueError, "ts has 1 tangents and there are 2 inputs"),
    (lambda: ops.Mul().jvp(([1.0], [2.0]), ([1.0], 2.0)), ValueError, "ts[1] has shape ()"),
    (
        lambda: ops.Linear().vjp([[1.0]], [[1.0]])[1](1.0),
        ValueError,
        "g has shape () and belongs to an array of shape (1, 1)",
    ),
]


@pytest.mark.parametrize(("act", "error", "message"), ERRORS, ids=[message for _, _, message in ERRORS])
def test_error(act, error, message):
    with pytest.raises(error, match=re.escape(message)):
        act()
