"""Layers: known answers; agreement with Pool, Graph and PyTorch over training runs; masks, memory, errors."""

from __future__ import annotations

import copy
import re
import tracemalloc
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from ndpool import Avg, Graph, Max, Pool, SmoothMax, Window, layers, spec
from ndpool.layers import (
    SGD,
    Adam,
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool1D,
    AvgPool2D,
    AvgPoolND,
    Conv1D,
    Conv2D,
    CrossEntropyLoss,
    Dense,
    Flatten,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxPool1D,
    MaxPool2D,
    MaxPoolND,
    MeanSquaredErrorLoss,
    Parameter,
    ReLU,
    RemainderWarning,
    Sequential,
    SmoothMaxPoolND,
)


def row(*values):
    """One signal in one channel."""
    return np.array(values, dtype=float).reshape(1, 1, -1)


# --- known answers --------------------------------------------------------------------------------


def test_known_answers_of_max():
    layer = MaxPool1D(2)
    np.testing.assert_array_equal(layer.forward(row(1, 3, 2, 5, 4, 6)), row(3, 5, 6))
    np.testing.assert_array_equal(layer.mask(), row(1, 3, 5))
    np.testing.assert_array_equal(layer.backward(row(0.1, 0.2, 0.3)), row(0, 0.1, 0, 0.2, 0, 0.3))


def test_known_answers_of_avg():
    layer = AvgPool1D(2)
    np.testing.assert_array_equal(layer.forward(row(1, 3, 2, 6, 4, 8)), row(2, 4, 6))
    np.testing.assert_array_equal(layer.backward(row(0.2, 0.4, 0.6)), row(0.1, 0.1, 0.2, 0.2, 0.3, 0.3))


def test_the_mask_of_a_picture_is_row_and_column_side_by_side():
    x = np.zeros((2, 1, 4, 4))
    x[0, 0, 1, 0] = x[0, 0, 0, 3] = x[0, 0, 3, 1] = x[0, 0, 2, 2] = 1
    layer = MaxPool2D(2, 2)
    layer.forward(x)
    mask = layer.mask()
    assert (mask.shape, mask.dtype) == ((2, 1, 2, 4), np.int64)
    assert mask[0, 0].tolist() == [[1, 0, 0, 3], [3, 1, 2, 2]]
    assert mask[1, 0].tolist() == [[0, 0, 0, 2], [2, 0, 2, 2]]  # ties go to the first


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (MaxPool1D(3, 1), (2, 2, 6)),
        (MaxPool1D(2, 3, remainder="drop"), (1, 2, 9)),
        (MaxPool2D(3, 2, 2, 1, remainder="ceil"), (1, 2, 6, 4)),
        (MaxPoolND((3, 3), 1, 1), (1, 1, 4, 4)),
        (MaxPoolND((2,), 1, ((2, 1),), 2), (1, 1, 5)),
        (MaxPoolND((2, 1, 2), -1, remainder="ceil"), (1, 1, 3, 2, 4)),
        (AdaptiveMaxPool(3), (1, 2, 5)),
        (AdaptiveMaxPool((2, 4)), (1, 1, 3, 3)),
        (GlobalMaxPool(), (2, 2, 3, 3)),
    ],
    ids=repr,
)
def test_masks_are_pools_indices(layer, shape):
    """Read off the pullback, for overlapping, padded, dilated, partial and adaptive windows, with many ties."""
    layer = copy.copy(layer)
    x = np.random.default_rng(0).integers(-2, 3, shape).astype(float)
    pool = layer.op(shape)
    y, indices = pool.with_indices(x)
    np.testing.assert_array_equal(layer.forward(x), y)
    coordinates = np.stack(np.unravel_index(indices, shape[2:]), axis=-1)
    np.testing.assert_array_equal(layer.mask(), coordinates.reshape(*y.shape[:-1], -1))


# --- agreement with Pool, Graph and PyTorch -------------------------------------------------------

POOLS = [
    (MaxPool1D(2), Max(), Window((2,)), (2, 3, 6)),
    (MaxPool1D(3, 2), Max(), Window((3,), 2), (2, 3, 7)),
    (AvgPool1D(2, -5), Avg(), Window((2,)), (2, 3, 6)),
    (MaxPool2D(2, 3), Max(), Window((2, 3)), (1, 2, 4, 6)),
    (MaxPool2D(2, 3, 1, -1), Max(), Window((2, 3), (1, 3)), (1, 2, 4, 6)),
    (AvgPool2D(2, 2, 2, 1), Avg(), Window((2, 2), (2, 1)), (1, 2, 4, 3)),
    (AvgPoolND((2, 2), 1, 1, count_include_pad=False), Avg(False), Window((2, 2), 1, 1), (1, 1, 3, 3)),
    (MaxPoolND((2, 2, 2), remainder="ceil"), Max(), Window((2, 2, 2), ceil_mode=True), (1, 1, 3, 2, 4)),
    (SmoothMaxPoolND(2.0, (3,), 1, 1), SmoothMax(2.0), Window((3,), 1, 1), (1, 2, 5)),
]


@pytest.mark.parametrize(("layer", "kind", "window", "shape"), POOLS, ids=[repr(p[0]) for p in POOLS])
def test_layer_graph_and_pool_agree_to_the_bit(layer, kind, window, shape):
    layer = copy.copy(layer)
    rng = np.random.default_rng(1)
    x = rng.normal(size=shape).astype(np.float32)
    pool = Pool(kind, window)
    y, pullback = pool.vjp(x)
    g = rng.normal(size=y.shape).astype(np.float32)
    graph = Graph()
    f = graph.build(graph.apply(pool, graph.input(shape, dtype=np.float32)))
    for ours, pulled in [(layer.forward(x), layer.backward(g)), (f(x), f.vjp(x)[1](g))]:
        assert (ours.dtype, pulled.dtype) == (np.float32, np.float32)
        np.testing.assert_array_equal(ours, y)
        np.testing.assert_array_equal(pulled, pullback(g))
    np.testing.assert_array_equal(layer.eval()(x), y)


@pytest.mark.parametrize(
    ("layer", "theirs", "shape"),
    [
        (GlobalAvgPool(), nn.AdaptiveAvgPool2d(1), (2, 2, 3, 4)),
        (GlobalMaxPool(), nn.AdaptiveMaxPool1d(1), (2, 2, 5)),
        (AdaptiveAvgPool((2, None)), nn.AdaptiveAvgPool2d((2, None)), (1, 2, 5, 3)),
        (AdaptiveMaxPool(2), nn.AdaptiveMaxPool2d(2), (1, 2, 5, 3)),
        (MaxPool2D(2, 2, remainder="ceil"), nn.MaxPool2d(2, ceil_mode=True), (1, 2, 5, 3)),
        (AvgPool2D(2, 2, remainder="drop"), nn.AvgPool2d(2), (1, 2, 5, 3)),
    ],
    ids=repr,
)
def test_pools_against_torch(layer, theirs, shape):
    layer = copy.copy(layer)
    rng = np.random.default_rng(2)
    x = rng.normal(size=shape)
    leaf = torch.tensor(x, requires_grad=True)
    expected = theirs(leaf)
    y = layer.forward(x)
    np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-13)
    g = rng.normal(size=y.shape)
    expected.backward(torch.tensor(g))
    np.testing.assert_allclose(layer.backward(g), leaf.grad.numpy(), rtol=1e-13)


def network(rng=0, dtype=np.float64):
    return Sequential(
        Conv1D(1, 3, 3, rng=rng, dtype=dtype),
        ReLU(),
        MaxPool1D(2),
        Conv1D(3, 4, 3, padding="same", rng=rng + 1, dtype=dtype),
        ReLU(),
        AvgPool1D(2, remainder="drop"),
        Flatten(),
        Dense(8, 3, rng=rng + 2, dtype=dtype),
    )


def as_graph(batch, parameters, dtype):
    """The same network as `network`, the same parameters in the same order."""
    g = Graph()
    x, labels = g.input((batch, 1, 12), name="x", dtype=dtype), g.input((batch,), name="labels", dtype=np.int64)
    w1, b1, w2, b2, w3, b3 = (g.input(p.value.shape, dtype=dtype) for p in parameters)
    h = g.max_pool1d(g.relu(g.conv(x, w1, b1)), 2)
    h = g.avg_pool1d(g.relu(g.conv(h, w2, b2, padding="same")), 2)
    return g.build(g.cross_entropy(g.linear(g.flatten(h), w3, b3), labels))


def as_torch(parameters):
    theirs = nn.Sequential(
        nn.Conv1d(1, 3, 3),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Conv1d(3, 4, 3, padding="same"),
        nn.ReLU(),
        nn.AvgPool1d(2),
        nn.Flatten(),
        nn.Linear(8, 3),
    ).double()
    with torch.no_grad():
        for theirs_p, ours in zip(theirs.parameters(), parameters, strict=True):
            theirs_p.copy_(torch.tensor(ours.value))
    return theirs


OPTIMIZERS = [
    (lambda p: SGD(p, lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
    (lambda p: SGD(p, lr=0.1, momentum=0.9), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    (lambda p: Adam(p, lr=0.05), lambda p: torch.optim.Adam(p, lr=0.05)),
]


@pytest.mark.parametrize(("ours", "theirs"), OPTIMIZERS, ids=["sgd", "momentum", "adam"])
def test_a_training_run_against_torch(ours, theirs):
    rng = np.random.default_rng(3)
    mine = network()
    other = as_torch(mine.parameters())
    optimizer, their_optimizer = ours(mine.parameters()), theirs(other.parameters())
    loss, first = CrossEntropyLoss(), None
    x, labels = rng.normal(size=(6, 1, 12)), rng.integers(0, 3, 6)
    for _ in range(8):
        value = loss.forward(mine.forward(x), labels)
        mine.backward(loss.backward())
        optimizer.step()
        their_optimizer.zero_grad()
        their_loss = nn.functional.cross_entropy(other(torch.tensor(x)), torch.tensor(labels))
        their_loss.backward()
        their_optimizer.step()
        np.testing.assert_allclose(value, their_loss.item(), rtol=1e-9)
        first = value if first is None else first
    assert value < first
    for parameter, their_p in zip(mine.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(parameter.value, their_p.detach().numpy(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_training_run_of_layers_and_graph_is_the_same_to_the_bit(dtype):
    rng = np.random.default_rng(4)
    by_layers = network(dtype=dtype)
    by_graph = [Parameter(p.name, p.value) for p in by_layers.parameters()]
    f = as_graph(5, by_graph, dtype)
    loss = CrossEntropyLoss()
    optimizers = Adam(by_layers.parameters(), lr=0.05), Adam(by_graph, lr=0.05)
    for _ in range(5):
        x, labels = rng.normal(size=(5, 1, 12)).astype(dtype), rng.integers(0, 3, 5)
        value = loss.forward(by_layers.forward(x), labels)
        by_layers.backward(loss.backward())
        same, (_, _, *gradients) = f.value_and_grad(x, labels, *(p.value for p in by_graph))
        for parameter, gradient in zip(by_graph, gradients, strict=True):
            parameter.grad = gradient
        for optimizer in optimizers:
            optimizer.step()
        assert value == same
        assert value.dtype == dtype
        for a, b in zip(by_layers.parameters(), by_graph, strict=True):
            assert a.value.dtype == dtype
            np.testing.assert_array_equal(a.value, b.value)


def test_the_recipe_for_signals_has_the_lengths_it_should():
    """64 -> 60 -> 30 -> 28 -> 14."""
    stack = [Conv1D(1, 2, 5, rng=0), ReLU(), MaxPool1D(2), Conv1D(2, 3, 3, rng=0), ReLU(), MaxPool1D(2)]
    x, lengths = np.zeros((1, 1, 64), np.float32), []
    for layer in stack:
        x = layer.forward(x)
        lengths.append(x.shape[-1])
    assert lengths == [60, 60, 30, 28, 28, 14]


def test_mean_squared_error():
    loss = MeanSquaredErrorLoss()
    assert loss(np.array([1.0, 2.0]), np.array([1.0, 4.0])) == 2
    np.testing.assert_array_equal(loss.backward(), [0, -2])


def test_two_dimensional_convolution_and_no_bias():
    rng = np.random.default_rng(5)
    layer = Conv2D(2, 3, (3, 2), (2, 1), 1, bias=False, rng=rng, dtype=np.float64)
    assert [p.value.shape for p in layer.parameters()] == [(3, 2, 3, 2)]
    x = rng.normal(size=(2, 2, 5, 4))
    leaf, weight = torch.tensor(x, requires_grad=True), torch.tensor(layer.weight.value, requires_grad=True)
    expected = nn.functional.conv2d(leaf, weight, None, (2, 1), 1)
    y = layer.forward(x)
    np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-12, atol=1e-14)
    g = rng.normal(size=y.shape)
    expected.backward(torch.tensor(g))
    np.testing.assert_allclose(layer.backward(g), leaf.grad.numpy(), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(layer.weight.grad, weight.grad.numpy(), rtol=1e-11, atol=1e-13)


def test_exact_numbers_go_through_layers():
    x = spec.fractions(np.arange(12).reshape(1, 2, 6) % 5)
    stack = Sequential(ReLU(), AvgPool1D(3), Flatten())
    y = stack.forward(x)
    g = spec.fractions(np.arange(4).reshape(1, 4))
    assert np.sum(stack.backward(g) * x) == np.sum(y * g)


def test_weights_start_with_the_size_that_they_should_have():
    layer = Dense(1000, 200, rng=0)
    assert (layer.weight.value.dtype, layer.weight.value.shape) == (np.float32, (200, 1000))
    assert abs(layer.weight.value.std() / np.sqrt(2 / 1000) - 1) < 0.01
    np.testing.assert_array_equal(layer.weight.value, Dense(1000, 200, rng=0).weight.value)


# --- training and eval, memory --------------------------------------------------------------------


def test_eval_keeps_nothing_and_says_so():
    layer = MaxPool1D(2)
    layer.forward(row(1, 2))
    assert layer.eval() is layer
    assert layer._kept is None
    np.testing.assert_array_equal(layer.forward(row(1, 2)), row(2))
    message = r"MaxPool1D(2).{} in eval, where forward keeps nothing; call train(), then forward"
    with pytest.raises(RuntimeError, match=re.escape(message.format("backward"))):
        layer.backward(row(1))
    with pytest.raises(RuntimeError, match=re.escape(message.format("mask"))):
        layer.mask()
    assert layer.train() is layer
    with pytest.raises(RuntimeError, match=re.escape("backward before forward; call forward first")):
        layer.backward(row(1))


def test_a_sequential_takes_its_layers_along():
    inner = Sequential(ReLU(), MaxPool1D(2))
    outer = Sequential(inner, Flatten())
    outer.eval()
    assert not any(layer.training for layer in [outer, inner, *inner.layers])
    outer.forward(row(1, 2))
    with pytest.raises(RuntimeError, match="in eval"):
        outer.backward([[1.0]])
    outer.train()
    assert inner.layers[1].training
    assert repr(outer) == "Sequential(Sequential(ReLU(), MaxPool1D(2)), Flatten())"


@pytest.mark.parametrize(
    ("layer", "dtype", "expected"),
    [
        (MaxPool2D(2, 2), np.float32, (4 * 64, 64, 4 * 256)),
        (MaxPool2D(2, 2), np.int8, (64, 64, 8 * 256)),
        (MaxPool2D(2, 2), np.float16, (2 * 64, 64, 2 * 256)),
        (MaxPool2D(16, 16), np.float32, (4, 1, 4 * 256)),
        (MaxPoolND((17, 17), 1, 1), np.float32, (16, 8, 4 * 256)),
        (GlobalMaxPool(ties="first"), np.float64, (8, 1, 8 * 256)),
        (GlobalMaxPool(), np.float64, (8, 0, 2 * 8 * 256 + 8)),
        (GlobalMaxPool(ties="split"), np.float32, (4, 0, 2 * 4 * 256 + 4)),
        (AvgPool2D(2, 2), np.float32, (4 * 64, 0, 4 * 256)),
        (AvgPool2D(2, 2), np.int8, (8 * 64, 0, 8 * 256)),
        (SmoothMaxPoolND(1.0, (2, 2)), np.float32, (4 * 64, 0, 2 * 4 * 256)),
    ],
    ids=repr,
)
def test_memory(layer, dtype, expected):
    layer = copy.copy(layer)
    memory = layer.memory((1, 1, 16, 16), dtype)
    assert memory == expected
    assert memory.total == sum(expected)
    assert layer.eval().memory([1, 1, 16, 16], dtype) == (expected[0], 0, 0)


def test_memory_is_what_the_arrays_take():
    for dtype in (np.float32, np.float64, np.int8):
        layer = MaxPool1D(2)
        x = np.arange(6).reshape(1, 1, 6).astype(dtype)
        y = layer.forward(x)
        memory = layer.memory(x.shape, dtype)
        assert (y.nbytes, layer.backward(y).nbytes) == (memory.output, memory.scratch)


def bytes_held_after_forward(layer, shape):
    """What stays allocated when forward is done and its input and output are gone."""
    layer.forward(np.ones(shape, np.float32))  # what is made once: the engine's plan
    tracemalloc.start()
    layer.forward(np.ones(shape, np.float32))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return held


@pytest.mark.parametrize("layer", [MaxPool2D(2, 2), AvgPool2D(2, 2)], ids=repr)
def test_training_keeps_the_winners_and_nothing_else(layer):
    layer, shape = copy.copy(layer), (1, 8, 256, 256)
    held = bytes_held_after_forward(layer, shape)
    assert abs(held - layer.memory(shape).mask) < 10_000


@pytest.mark.parametrize("layer", [MaxPool2D(2, 2), AvgPool2D(2, 2), SmoothMaxPoolND(1.0, (2, 2)), ReLU()], ids=repr)
def test_eval_keeps_nothing(layer):
    assert bytes_held_after_forward(copy.copy(layer).eval(), (1, 8, 256, 256)) < 10_000


# --- remainders -----------------------------------------------------------------------------------


def test_a_remainder_is_dropped_with_a_warning_that_counts():
    x = np.random.default_rng(6).normal(size=(1, 1, 5, 7))
    layer = MaxPool2D(2, 3)
    message = "MaxPool2D(2, 3) drops the last 1 of 5 cells of axis 2 and the last 1 of 7 cells of axis 3"
    with pytest.warns(RemainderWarning, match=re.escape(message)) as caught:
        y = layer.forward(x)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(y, Pool(Max(), Window((2, 3)))(x))


def test_remainder_policies():
    x = row(1, 2, 3, 4, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(MaxPool1D(2, remainder="drop").forward(x), row(2, 4))
        np.testing.assert_array_equal(MaxPool1D(2, remainder="ceil").forward(x), row(2, 4, 5))
        np.testing.assert_array_equal(AvgPool1D(2, remainder="ceil").forward(x), row(1.5, 3.5, 5))
    message = (
        "drops the last 1 of 5 cells of axis 2, which are in no window; pad or crop the input, or choose remainder="
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        AvgPool1D(2, remainder="error").forward(x)


@pytest.mark.parametrize(
    ("layer", "length", "dropped"),
    [
        (MaxPool1D(2), 6, 0),
        (MaxPool1D(2), 7, 1),
        (MaxPool1D(3), 8, 2),
        (MaxPool1D(3, 2), 7, 0),
        (MaxPool1D(3, 2), 8, 1),
        (MaxPool1D(3, 1), 8, 0),
        (MaxPool1D(2, 4), 6, 0),
        (MaxPool1D(2, 4), 7, 0),  # a gap that the stride leaves anyway
        (MaxPool1D(2, 4), 9, 1),
        (MaxPoolND((3,), 3, ((1, 0),)), 9, 1),
        (MaxPoolND((3,), 3, 1), 7, 0),
        (MaxPoolND((2,), 2, 0, 3), 7, 1),
    ],
)
def test_how_many_cells_are_dropped(layer, length, dropped):
    """Dropped are those that a partial window more would see: with "ceil" there is none."""
    layer = copy.copy(layer)
    x = np.zeros((1, 1, length))
    if dropped:
        with pytest.warns(RemainderWarning, match=f"drops the last {dropped} of {length} cells"):
            layer.forward(x)
    else:
        layer.forward(x)


# --- errors ---------------------------------------------------------------------------------------


def backward_with(g):
    layer = MaxPool1D(2)
    layer.forward(row(1, 2, 3, 4))
    layer.backward(g)


P = Parameter("p", np.zeros(2))
ERRORS = [
    (lambda: MaxPool1D(5).forward(row(1, 2, 3)), ValueError, "kernel_size=5 with dilation=1 reaches over 5 cells"),
    (
        lambda: MaxPool2D(2, 9).forward(np.zeros((1, 1, 4, 4))),
        ValueError,
        "kernel_size=9 with dilation=1 reaches over 9",
    ),
    (lambda: MaxPool1D(2, 0), ValueError, "stride[0]=0 is less than 1"),
    (lambda: AvgPool2D(2, 2, 0, 2), ValueError, "stride[0]=0 is less than 1"),
    (lambda: MaxPool1D(0), ValueError, "kernel_size[0]=0 is less than 1"),
    (lambda: MaxPool1D(2.0), TypeError, "kernel_size[0]=2.0 is a float"),
    (
        lambda: MaxPool1D(2, remainder="keep"),
        ValueError,
        "remainder='keep' is not a policy; give one of ('drop', 'warn'",
    ),
    (lambda: MaxPoolND((2, 2), (1, 1, 1)), ValueError, "stride=(1, 1, 1) has 3 entries and the kernel 2"),
    (
        lambda: MaxPool1D(2).forward(np.zeros((4, 4))),
        ValueError,
        "MaxPool1D(2) takes x with batch, channels and 1 length, and got shape (4, 4)",
    ),
    (lambda: MaxPool2D(2, 2).forward(np.zeros((1, 4, 4))), ValueError, "takes x with batch, channels and 2 lengths"),
    (
        lambda: GlobalAvgPool().forward(np.zeros((4, 4))),
        ValueError,
        "takes x with batch, channels and one length or more",
    ),
    (lambda: AdaptiveMaxPool((2, 2)).forward(np.zeros((1, 1, 4))), ValueError, "AdaptiveMaxPool((2, 2)) takes x with"),
    (lambda: AdaptiveAvgPool(0), ValueError, "output_size=0 is less than 1"),
    (
        lambda: backward_with(row(1, 2, 3)),
        ValueError,
        "MaxPool1D(2).backward got g of shape (1, 1, 3), and the last forward gave (1, 1, 2)",
    ),
    (lambda: GlobalMaxPool().mask(), RuntimeError, "GlobalMaxPool().mask before forward; call forward first"),
    (lambda: ReLU().backward([1.0]), RuntimeError, "ReLU().backward before forward; call forward first"),
    (lambda: CrossEntropyLoss().backward(), RuntimeError, "CrossEntropyLoss().backward before forward"),
    (lambda: Dense(3, 0), ValueError, "outputs=0 is less than 1"),
    (lambda: Dense(3, 2, rng=0).forward(np.zeros((1, 4))), ValueError, "Linear of x (1, 4) and w (2, 3)"),
    (lambda: Conv1D(1, 2, (3, 3)), ValueError, "kernel_size=(3, 3) has 2 entries; give one int, or 1"),
    (lambda: Conv2D(1, 2, 3, rng=0).forward(np.zeros((1, 1, 4))), ValueError, "Conv of x (1, 1, 4) and w (2, 1, 3, 3)"),
    (lambda: Conv1D(1, 2, 3, stride=0), ValueError, "stride=0 is less than 1"),
    (lambda: Sequential(ReLU), TypeError, "is not a Layer; give layers one by one"),
    (lambda: SGD([P], lr=0.1).step(), RuntimeError, "parameter 'p' has no gradient; call backward before step"),
    (lambda: SGD([P], lr=-1), ValueError, "lr=-1 must be at least 0 and less than inf"),
    (lambda: SGD([P], lr="1"), TypeError, "lr='1' is a str; give a number"),
    (lambda: SGD([P], 0.1, momentum=1.0), ValueError, "momentum=1.0 must be at least 0 and less than 1"),
    (lambda: Adam([P], betas=(0.9, 1.0)), ValueError, "betas[1]=1.0 must be at least 0 and less than 1"),
    (
        lambda: Adam([np.zeros(2)]),
        TypeError,
        "parameters[0]=array([0., 0.]) is not a Parameter; give layer.parameters()",
    ),
]


@pytest.mark.parametrize(("act", "error", "message"), ERRORS, ids=[message for _, _, message in ERRORS])
def test_error(act, error, message):
    with pytest.raises(error, match=re.escape(message)):
        act()


def test_every_public_layer_says_what_it_is():
    for name in layers.__all__:
        assert getattr(layers, name).__doc__, name
