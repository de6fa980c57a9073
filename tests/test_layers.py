"""Layers: known answers; agreement with Pool, Graph and PyTorch over training runs; sharing, masks, memory, errors."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import tracemalloc
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import sympy
import torch
from torch import nn

import ndpool
from ndpool import Adaptive, Avg, Global, Graph, Max, Pool, SmoothMax, Window, layers, native, ops, spec
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
    Layer,
    MaxPool1D,
    MaxPool2D,
    MaxPoolND,
    MeanSquaredErrorLoss,
    OpLayer,
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
        (GlobalMaxPool(ties="first"), (2, 2, 3, 3)),
        (GlobalMaxPool(ties="split"), (2, 2, 7)),
    ],
    ids=repr,
)
def test_masks_are_pools_indices(layer, shape):
    """For overlapping, padded, dilated, partial, adaptive and global windows, with many ties."""
    layer = copy.copy(layer)
    x = np.random.default_rng(0).integers(-2, 3, shape).astype(float)
    pool = layer.op(shape)
    y, indices = pool.with_indices(x)
    np.testing.assert_array_equal(layer.forward(x), y)
    coordinates = np.stack(np.unravel_index(indices, shape[2:]), axis=-1)
    np.testing.assert_array_equal(layer.mask(), coordinates.reshape(*y.shape[:-1], -1))


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (MaxPoolND((3, 3), 1, 1), (2, 1, 5, 4)),
        (AdaptiveMaxPool((2, 4)), (1, 1, 3, 3)),
        (GlobalMaxPool(), (2, 2, 3, 3)),
        (GlobalMaxPool(ties="first", axes=(-1, 1), keepdims=False), (2, 3, 4, 3)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("exact", [False, True])
def test_a_mask_is_read_and_not_asked_of_the_pullback(layer, shape, exact):
    layer = copy.copy(layer)
    x = np.random.default_rng(1).integers(-2, 3, shape).astype(float)
    y = layer.forward(spec.fractions(x) if exact else x)
    pool, axes = layer.op(shape), sorted(a % len(shape) for a in layer.op(shape).axes)
    expected = np.stack(np.unravel_index(pool.with_indices(x)[1], [shape[a] for a in axes]), axis=-1)

    def asked(*_):
        raise AssertionError("the pullback was run")

    layer._kept.pullback = asked
    for _ in range(2):
        np.testing.assert_array_equal(layer.mask(), expected.reshape(*y.shape[:-1], -1))


def test_each_step_is_one_call_of_the_engine(monkeypatch):
    calls = []

    def counted(name, run):
        return lambda *memory: [calls.append(name), run(*memory)]

    for name in ("forward", "linearize", "push", "pull", "jvp", "indices"):
        monkeypatch.setattr(native, name, counted(name, getattr(native, name)))
    layer, x = MaxPoolND((5, 5), 1, 2), np.random.default_rng(0).normal(size=(1, 1, 600, 500))
    y = layer.forward(x)
    assert calls == ["linearize"]
    layer.mask()
    assert calls == ["linearize", "indices"]
    layer.backward(y)
    assert calls == ["linearize", "indices", "pull"]
    calls.clear()
    layer.eval().forward(x)
    assert set(calls) <= {"forward"}


def test_a_mask_complains_of_no_remainder_again():
    layer = MaxPool1D(2)
    with pytest.warns(RemainderWarning):
        layer.forward(row(1, 3, 2))
    np.testing.assert_array_equal(layer.mask(), row(1))


def test_a_mask_of_an_empty_batch():
    layer = MaxPool2D(2, 2)
    layer.forward(np.zeros((0, 3, 4, 6)))
    assert layer.mask().shape == (0, 3, 2, 6)


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
    (
        MaxPoolND((2, 2), (None, 1), ((1, 0), 1), (1, 2)),
        Max(),
        Window((2, 2), (2, 1), ((1, 0), 1), (1, 2)),
        (1, 2, 5, 4),
    ),
    (AvgPoolND((2, 2), None, 1, 2, remainder="drop"), Avg(), Window((2, 2), None, 1, 2), (1, 1, 6, 5)),
    (AvgPoolND((3,), 2, "same"), Avg(), Window((3,), 2, "same"), (1, 1, 6)),
    (SmoothMaxPoolND(2.0, (3,), 1, 1), SmoothMax(2.0), Window((3,), 1, 1), (1, 2, 5)),
    (SmoothMaxPoolND(2.0, (3,), 1, 1, count_include_pad=False), SmoothMax(2.0, False), Window((3,), 1, 1), (1, 2, 5)),
    (SmoothMaxPoolND(-1.5, (2,), 1, 2, 3), SmoothMax(-1.5), Window((2,), 1, 2, 3), (1, 2, 5)),
    (AdaptiveAvgPool((2, 3)), Avg(), Adaptive((2, 3)), (1, 2, 5, 4)),
    (GlobalAvgPool(), Avg(), Global(), (1, 2, 5, 4)),
]


@pytest.mark.parametrize(("layer", "kind", "window", "shape"), POOLS, ids=[repr(p[0]) for p in POOLS])
def test_layer_graph_and_pool_agree_to_the_bit(layer, kind, window, shape):
    layer = copy.copy(layer)
    rng = np.random.default_rng(1)
    x = rng.integers(-3, 4, shape).astype(np.float32) / 3  # with ties
    pool = Pool(kind, window, tuple(range(2, len(shape))))
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


# --- one object in several places -------------------------------------------------------------------


def dense(seed, inputs=4, outputs=4):
    return Dense(inputs, outputs, rng=seed, dtype=np.float64)


def tied():
    """Two layers with one weight between them."""
    first, second = dense(0), dense(1)
    second.weight = first.weight
    return Sequential(first, ReLU(), second)


def one_relu():
    relu = ReLU()
    return Sequential(dense(0), relu, dense(1), relu)


def one_dense():
    layer = dense(0)
    return Sequential(layer, ReLU(), layer, layer)


def one_network():
    inner = Sequential(dense(0), ReLU())
    return Sequential(inner, dense(1), inner)


def one_in_two_networks():
    layer, relu = dense(0), ReLU()
    return Sequential(Sequential(layer, relu), Sequential(relu, layer, Sequential(relu, dense(1))), relu)


def one_pool():
    pool = MaxPool1D(2)
    return Sequential(pool, ReLU(), pool)


def one_conv():
    conv = Conv1D(2, 2, 3, padding="same", rng=0, dtype=np.float64)
    return Sequential(conv, ReLU(), conv, MaxPool1D(2))


def torch_of(layer, made):
    """The same in PyTorch, with one module for one object and one tensor for one parameter."""
    if isinstance(layer, Sequential):
        return nn.Sequential(*(torch_of(inner, made) for inner in layer.layers))
    if layer not in made:
        module = {ReLU: nn.ReLU, MaxPool1D: lambda: nn.MaxPool1d(2)}.get(type(layer), lambda: None)()
        if isinstance(layer, Dense):
            module = nn.Linear(layer.inputs, layer.outputs)
        if isinstance(layer, Conv1D):
            module = nn.Conv1d(layer.in_channels, layer.out_channels, layer.kernel_size, padding="same")
        for ours, name in zip(layer.parameters(), ("weight", "bias"), strict=False):
            made.setdefault(ours, nn.Parameter(torch.tensor(ours.value)))
            setattr(module, name, made[ours])
        made[layer] = module
    return made[layer]


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (one_relu, (3, 4)),
        (one_dense, (3, 4)),
        (tied, (3, 4)),
        (one_network, (3, 4)),
        (one_in_two_networks, (3, 4)),
        (one_pool, (2, 2, 8)),
        (one_conv, (2, 2, 8)),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_an_object_may_stand_in_several_places(network, shape):
    """Every place has its own memory, and the gradients of what is learned add up, as in PyTorch."""
    network = network()
    made = {}
    theirs = torch_of(network, made)
    for seed in range(3):  # every step starts anew: gradients of the step before do not count
        rng = np.random.default_rng(seed)
        x = rng.normal(size=shape)
        leaf = torch.tensor(x, requires_grad=True)
        expected = theirs(leaf)
        y = network.forward(x)
        np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-12, atol=1e-14)
        g = rng.normal(size=y.shape)
        theirs.zero_grad()
        expected.backward(torch.tensor(g))
        for _ in range(2):  # a second backward for the same forward is the same
            np.testing.assert_allclose(network.backward(g), leaf.grad.numpy(), rtol=1e-12, atol=1e-14)
            for parameter in network.parameters():
                np.testing.assert_allclose(parameter.grad, made[parameter].grad.numpy(), rtol=1e-11, atol=1e-13)


def test_a_shared_layer_shows_the_winners_of_its_last_place():
    pool = MaxPool1D(2)
    network = Sequential(Sequential(pool), pool)
    network.forward(row(1, 2, 3, 4, 9, 8, 7, 6))
    np.testing.assert_array_equal(pool.mask(), row(1, 2))
    network.backward(row(1, 1))
    np.testing.assert_array_equal(pool.mask(), row(1, 2))


def test_what_is_learned_is_listed_once_and_takes_one_step():
    network = one_dense()
    assert network.parameters() == network.layers[0].parameters()
    assert len(tied().parameters()) == 3
    parameters = network.parameters() + network.layers[2].parameters()
    message = "parameters[2] is 'Dense.weight' again, and would take two steps; give it once"
    with pytest.raises(ValueError, match=re.escape(message)):
        SGD(parameters, lr=0.1)


def test_a_layer_that_is_used_beside_its_network_does_not_disturb_it():
    network, same = network_of_signals(), network_of_signals()
    x, g = np.random.default_rng(0).normal(size=(2, 1, 12)), np.random.default_rng(1).normal(size=(2, 3))
    network.forward(x)
    same.forward(x)
    network.layers[0].forward(2 * x)
    network.layers[2].forward(x)
    np.testing.assert_array_equal(network.backward(g), same.backward(g))


def network_of_signals():
    return Sequential(Conv1D(1, 2, 3, rng=0), ReLU(), MaxPool1D(2), Flatten(), Dense(10, 3, rng=1))


class Clipped(ReLU):
    """A layer whose backward alone is its own."""

    def backward(self, g):
        return np.clip(super().backward(g), -1, 1)


def test_a_backward_of_ones_own_is_called_in_every_place():
    clipped = Clipped()
    network = Sequential(clipped, dense(0, 2, 2), clipped)
    network.layers[1].weight.value = np.array([[3.0, 0.0], [0.0, 3.0]])
    network.forward([[1.0, -1.0]])
    np.testing.assert_array_equal(network.backward([[9.0, 9.0]]), [[1.0, 0.0]])  # clipped, tripled, clipped again


class Frozen(Dense):
    """A layer that leaves the gradients of its parameters alone."""

    def backward(self, g):
        return g @ self.weight.value


def test_a_place_that_gives_no_gradient_adds_none():
    """Nor does it count the one that another place, or the step before, has left."""
    network, alone = Sequential(dense(0), Frozen(4, 4, bias=False)), Sequential(dense(0))
    frozen = network.layers[1]
    frozen.weight = network.layers[0].weight
    x, g = np.random.default_rng(0).normal(size=(2, 3, 4))
    for _ in range(2):
        network.forward(x)
        alone.forward(x)
        network.backward(g)
        alone.backward(g @ frozen.weight.value)
        np.testing.assert_allclose(frozen.weight.grad, alone.layers[0].weight.grad, rtol=1e-12)


class Doubled(Layer):
    """A layer with a forward and a backward of its own, around another one."""

    def __init__(self, inner):
        self.layers = (inner,)

    def forward(self, x):
        return 2 * self.layers[0].forward(x)

    def backward(self, g):
        return 2 * self.layers[0].backward(g)


def test_layers_that_keep_things_in_their_own_way():
    """Once they are as good as others; twice, or around a layer that stands elsewhere too, is an error."""
    network = Sequential(Doubled(ReLU()), Flatten())
    network.forward([[1.0, -1.0]])
    np.testing.assert_array_equal(network.backward([[3.0, 4.0]]), [[6.0, 0.0]])
    own = Doubled(ReLU())
    message = "Doubled(...) is there 2 times, and its forward is of its own"
    for network in ((own, Flatten(), own), (Sequential(own), own), (Doubled(own), own)):
        with pytest.raises(TypeError, match=re.escape(message)):
            Sequential(*network)
    relu = ReLU()
    network = Sequential(Doubled(relu), relu)
    network.forward([[1.0, -1.0]])
    with pytest.raises(RuntimeError, match=re.escape("ReLU().backward again, after several forwards")):
        network.backward([[3.0, 4.0]])


@pytest.mark.parametrize("layer", [ReLU(), MaxPool1D(2), Sequential(ReLU(), MaxPool1D(2)), Sequential()], ids=repr)
def test_only_the_last_forward_can_be_gone_back_through(layer):
    layer = copy.deepcopy(layer)
    with pytest.raises(RuntimeError, match=re.escape(f"{layer!r}.backward before forward; call forward first")):
        layer.backward(row(1))
    first, second, g = row(-1, 2, 3, -4), row(1, -2, -3, 4), row(*range(2, 2 + layer.forward(row(1, 2, 3, 4)).size))
    layer.forward(first)
    layer.forward(second)
    expected = layer.backward(g)
    message = f"{layer!r}.backward again, after several forwards, of which only the last is kept"
    with pytest.raises(RuntimeError, match=re.escape(message)):
        layer.backward(g)
    layer.forward(second)
    np.testing.assert_array_equal(layer.backward(g), expected)
    np.testing.assert_array_equal(
        layer.backward(2 * g), 2 * expected
    )  # one forward, and as many backwards as one likes


def test_a_loss_used_twice():
    loss = MeanSquaredErrorLoss()
    loss([1.0], [0.0])
    np.testing.assert_array_equal(loss.backward(), [2])
    np.testing.assert_array_equal(loss.backward(), [2])
    loss([3.0], [0.0])
    loss([5.0], [0.0])
    np.testing.assert_array_equal(loss.backward(), [10])
    with pytest.raises(RuntimeError, match=re.escape("MeanSquaredErrorLoss().backward again, after several forwards")):
        loss.backward()


@pytest.mark.parametrize(
    ("layer", "x", "wrong"),
    [
        (Dense(2, 2, rng=0), [[1.0, 2.0]], [[1.0, 2.0, 3.0]]),
        (Sequential(Flatten(), Dense(2, 2, rng=0)), [[1.0, 2.0]], [[1.0, 2.0, 3.0]]),
        (MaxPool1D(2), row(1, 2), [[1.0, 2.0]]),
        (MaxPool1D(2), row(1, 2), row(1)),
    ],
    ids=repr,
)
def test_a_forward_that_fails_leaves_nothing_to_go_back_through(layer, x, wrong):
    layer = copy.deepcopy(layer)
    y = layer.forward(x)
    with pytest.raises(ValueError, match=r"Linear of x|takes x with|reaches over"):
        layer.forward(wrong)
    with pytest.raises(RuntimeError, match="before forward"):
        layer.backward(y)


# --- copies, pickles, reprs -------------------------------------------------------------------------

EVERY = [
    (MaxPool1D(2), (1, 2, 6)),
    (MaxPool1D(3, 2), (1, 2, 7)),
    (MaxPool1D(2, None), (1, 2, 6)),
    (AvgPool1D(2, 3, remainder="drop"), (1, 2, 6)),
    (MaxPool2D(2, 3), (1, 1, 4, 6)),
    (AvgPool2D(2, 3, 1), (1, 1, 4, 6)),
    (MaxPool2D(2, 2, -1, 1, remainder="ceil"), (1, 1, 5, 4)),
    (MaxPoolND((2, 2), 1, ((1, 0), 2), (1, 2), remainder="error"), (1, 1, 4, 4)),
    (AvgPoolND((3,), 1, "same", count_include_pad=False), (1, 1, 4)),
    (SmoothMaxPoolND(2.5, (3,), 1, 1, count_include_pad=False), (1, 1, 4)),
    (AdaptiveMaxPool(2), (1, 1, 5)),
    (AdaptiveAvgPool((2, None)), (1, 1, 5, 3)),
    (GlobalMaxPool(), (1, 2, 5)),
    (GlobalMaxPool(ties="split", axes=(-1, 1), keepdims=False), (2, 3, 4)),
    (GlobalAvgPool(axes=1), (2, 3, 4)),
    (ReLU(), (2, 3)),
    (Flatten(), (2, 3, 4)),
    (Dense(3, 2, rng=0), (4, 3)),
    (Dense(3, 2, bias=False, rng=0, dtype=np.float64), (4, 3)),
    (Conv1D(2, 3, 2, rng=0), (1, 2, 5)),
    (Conv2D(2, 3, (2, 1), (1, 2), "same", 2, rng=0, dtype=np.float16), (1, 2, 5, 4)),
    (Sequential(Flatten(), Dense(6, 2, rng=0), ReLU()), (1, 2, 3)),
]
REPRS = [
    "MaxPool1D(2)",
    "MaxPool1D(3, stride=2)",
    "MaxPool1D(2)",
    "AvgPool1D(2, stride=3, remainder='drop')",
    "MaxPool2D(2, 3)",
    "AvgPool2D(2, 3, sH=1)",
    "MaxPool2D(2, 2, sW=1, remainder='ceil')",
    "MaxPoolND((2, 2), stride=(1, 1), padding=((1, 0), 2), dilation=(1, 2), remainder='error')",
    "AvgPoolND((3,), stride=(1,), padding='same', count_include_pad=False)",
    "SmoothMaxPoolND(2.5, (3,), stride=(1,), padding=1, count_include_pad=False)",
    "AdaptiveMaxPool(2)",
    "AdaptiveAvgPool((2, None))",
    "GlobalMaxPool()",
    "GlobalMaxPool(ties='split', axes=(-1, 1), keepdims=False)",
    "GlobalAvgPool(axes=(1,))",
    "ReLU()",
    "Flatten()",
    "Dense(3, 2)",
    "Dense(3, 2, bias=False, dtype='float64')",
    "Conv1D(2, 3, 2)",
    "Conv2D(2, 3, (2, 1), stride=(1, 2), padding='same', dilation=2, dtype='float16')",
    "Sequential(Flatten(), Dense(6, 2), ReLU())",
]


@pytest.mark.parametrize(("layer", "shape", "text"), [(*e, t) for e, t in zip(EVERY, REPRS, strict=True)], ids=REPRS)
def test_a_repr_says_what_to_type(layer, shape, text):
    assert repr(layer) == text
    again = eval(text, vars(layers))
    assert repr(again) == text
    for ours, theirs in zip(again.parameters(), layer.parameters(), strict=True):
        ours.value = theirs.value
        assert ours.value.shape == theirs.value.shape
    x = np.random.default_rng(0).normal(size=shape)
    np.testing.assert_array_equal(again.eval()(x), copy.deepcopy(layer).eval()(x))


def test_every_layer_is_among_them():
    public = {getattr(layers, name) for name in layers.__all__}
    found = {cls for cls in public if issubclass(cls, Layer) and not inspect.isabstract(cls)}
    assert {type(layer) for layer, _ in EVERY} == found


def test_a_repr_of_a_layer_of_ones_own():
    class Shifted(OpLayer):
        def __init__(self, by, *, name="shifted"):
            self.by = np.asarray(by)

        def op(self, shape):
            return ops.Scale(1)

    assert repr(Shifted([1, 2])) == "Shifted(array([1, 2]))"


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda layer: pickle.loads(pickle.dumps(layer)),
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize(("layer", "shape"), EVERY, ids=REPRS)
def test_layers_are_copied_without_what_they_keep(layer, shape, how):
    layer = copy.deepcopy(layer)
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape)
    y = layer.forward(x)
    g = rng.normal(size=y.shape)
    other = COPIES[how](layer)
    assert repr(other) == repr(layer)
    with pytest.raises(RuntimeError, match="before forward"):
        other.backward(g)
    expected = layer.backward(g)
    np.testing.assert_array_equal(other.forward(x), y)
    np.testing.assert_array_equal(other.backward(g), expected)
    np.testing.assert_array_equal(layer.backward(g), expected)
    for ours, theirs in zip(other.parameters(), layer.parameters(), strict=True):
        assert (ours is theirs) == (how == "copy")
        np.testing.assert_array_equal(ours.grad, theirs.grad)


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("loss", [CrossEntropyLoss(), MeanSquaredErrorLoss()], ids=repr)
def test_losses_are_copied_without_what_they_keep(loss, how):
    loss, x, q = copy.copy(loss), np.array([[1.0, 2.0]]), np.array([[0.25, 0.75]])
    y = loss(x, q)
    other = COPIES[how](loss)
    with pytest.raises(RuntimeError, match=re.escape(f"{loss!r}.backward before forward")):
        other.backward()
    assert other(x, q) == y
    np.testing.assert_array_equal(other.backward(), loss.backward())


def test_a_pickle_holds_no_activations_and_keeps_what_is_shared():
    network = one_in_two_networks()
    network.forward(np.zeros((10_000, 4)))
    assert len(pickle.dumps(network)) < 10_000
    again = pickle.loads(pickle.dumps(network))
    assert again.layers[0].layers[0] is again.layers[1].layers[1]
    assert len(again.parameters()) == len(network.parameters())


@pytest.mark.parametrize("optimizer", [SGD, Adam])
def test_training_goes_on_after_a_pickle(optimizer):
    """Network and optimizer in one pickle stay together."""
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(6, 4)), rng.integers(0, 4, 6)

    def steps(network, optimizer, count):
        loss = CrossEntropyLoss()
        for _ in range(count):
            loss(network(x), labels)
            network.backward(loss.backward())
            optimizer.step()
        return [p.value for p in network.parameters()]

    network = one_network()
    made = optimizer(network.parameters(), lr=0.1)
    steps(network, made, 2)
    again = pickle.loads(pickle.dumps((network, made)))
    for ours, theirs in zip(steps(*again, 3), steps(network, made, 3), strict=True):
        np.testing.assert_array_equal(ours, theirs)


# --- global pools: axes, ties -----------------------------------------------------------------------


@pytest.mark.parametrize("ties", ["all", "first", "split"])
def test_global_max_by_layer_graph_and_function_is_one(ties):
    """At ties too: by default every maximum gets the full gradient."""
    rng = np.random.default_rng(0)
    x, g = rng.integers(-2, 2, (2, 3, 4, 5)).astype(np.float32), rng.normal(size=(2, 3, 1, 1)).astype(np.float32)
    chosen = {} if ties == "all" else {"ties": ties}
    layer, graph = GlobalMaxPool(**chosen), Graph()
    f = graph.build(graph.global_max_pool(graph.input(x.shape, dtype=np.float32), **chosen))
    y, pullback = Pool(Max(ties), Global(), (-2, -1)).vjp(x)
    assert np.count_nonzero(pullback(g)) > 6 or ties == "first"
    for ours, gx in [(layer.forward(x), layer.backward(g)), (f(x), f.vjp(x)[1](g))]:
        np.testing.assert_array_equal(ours, y)
        np.testing.assert_array_equal(gx, pullback(g))
    np.testing.assert_array_equal(ndpool.global_max_pool(x, **chosen), y)
    assert inspect.signature(GlobalMaxPool).parameters["ties"].default == "all"
    assert inspect.signature(ndpool.global_max_pool).parameters["ties"].default == "all"


def test_global_pools_of_sequences():
    """`[B, S, F]` to `[B, F]` is the middle axis; without `axes` it is what comes after batch and channels."""
    x = np.random.default_rng(0).normal(size=(2, 5, 3))
    mean, most = GlobalAvgPool(axes=1, keepdims=False), GlobalMaxPool(axes=1, keepdims=False)
    np.testing.assert_allclose(mean.forward(x), x.mean(1), rtol=1e-15)
    np.testing.assert_array_equal(most.forward(x), x.max(1))
    np.testing.assert_array_equal(most.mask(), x.argmax(1))
    g = np.array([[10.0, 20.0, 30.0], [40.0, 50.0, 60.0]])
    np.testing.assert_allclose(mean.backward(g), np.repeat(g[:, None] / 5, 5, axis=1), rtol=1e-15)
    np.testing.assert_array_equal(most.backward(g), np.where(x == x.max(1, keepdims=True), g[:, None], 0))
    np.testing.assert_allclose(GlobalAvgPool().forward(x), x.mean(2, keepdims=True), rtol=1e-15)


def test_masks_of_global_pools_over_any_axes():
    x = np.random.default_rng(0).integers(0, 3, (2, 3, 4, 2)).astype(float)
    for keepdims in (True, False):
        layer = GlobalMaxPool(axes=(2, 0), keepdims=keepdims)
        y = layer.forward(x)
        flat = np.moveaxis(x, (0, 2), (-2, -1)).reshape(3, 2, 8).argmax(-1)
        expected = np.stack(np.unravel_index(flat, (2, 4)), axis=-1)
        np.testing.assert_array_equal(layer.mask(), expected.reshape(*y.shape[:-1], -1))


@pytest.mark.parametrize(
    ("layer", "function"),
    [
        (AdaptiveMaxPool(2), lambda x, axes: ndpool.adaptive_max_pool(x, 2, axes=axes)),
        (AdaptiveAvgPool(2), lambda x, axes: ndpool.adaptive_avg_pool(x, 2, axes=axes)),
        (GlobalAvgPool(), lambda x, axes: ndpool.global_avg_pool(x, axes=axes)),
        (GlobalMaxPool(), lambda x, axes: ndpool.global_max_pool(x, axes=axes)),
    ],
    ids=["adaptive max", "adaptive avg", "global avg", "global max"],
)
def test_one_layer_for_inputs_of_several_ranks(layer, function):
    layer, rng = copy.copy(layer), np.random.default_rng(0)
    for lengths in ((5,), (4, 3), (5,), (3, 2, 4), (4, 3)):
        x = rng.normal(size=(2, 3, *lengths))
        np.testing.assert_array_equal(layer.forward(x), function(x, tuple(range(2, x.ndim))))


# --- exact numbers ----------------------------------------------------------------------------------


EXACT = {
    "Fraction": lambda i: Fraction(i, 3),
    "Decimal": lambda i: Decimal(i) / 8,
    "SymPy": lambda i: sympy.Rational(i, 3),
}


def numbers(sort, *shape, seed=0):
    draws = np.random.default_rng(seed).integers(-9, 10, shape)
    return np.array([EXACT[sort](int(i)) for i in draws.ravel()], dtype=object).reshape(shape)


def assert_exact(sort, *arrays):
    """Every cell is one of these numbers, and none a float or an int."""
    sorts = {"Fraction": Fraction, "Decimal": Decimal, "SymPy": sympy.Rational}
    for array in arrays:
        assert array.dtype == object
        assert {type(cell) for cell in array.ravel() if not isinstance(cell, sorts[sort])} == set()


@pytest.mark.parametrize("sort", EXACT)
def test_exact_numbers_stay_exact_through_a_training_step(sort):
    """Parameters in exact numbers, a loss, and a step: all is what floats give, and not one of them a float."""

    def built(exact):
        network = Sequential(Conv1D(1, 2, 3, padding=1, rng=0), ReLU(), MaxPool1D(2), Flatten(), Dense(6, 2, rng=0))
        for seed, p in enumerate(network.parameters()):
            p.value = numbers(sort, *p.value.shape, seed=seed)
            p.value = p.value if exact else p.value.astype(float)
        return network

    x, target = numbers(sort, 2, 1, 6, seed=7), numbers(sort, 2, 2, seed=8)
    network, floats = built(True), built(False)
    loss, other = MeanSquaredErrorLoss(), MeanSquaredErrorLoss()
    value, g = loss(network(x), target), loss.backward()
    gx = network.backward(g)
    assert_exact(sort, value, g, gx, *(p.grad for p in network.parameters()))
    expected = other(floats(x.astype(float)), target.astype(float))
    np.testing.assert_allclose(value.astype(float), expected, rtol=1e-12)
    np.testing.assert_allclose(gx.astype(float), floats.backward(other.backward()), rtol=1e-11, atol=1e-13)
    for run in (network, floats):
        optimizer = SGD(run.parameters(), lr=0.25, momentum=0.5)
        optimizer.step()
        optimizer.step()
    for p, q in zip(network.parameters(), floats.parameters(), strict=True):
        assert_exact(sort, p.value)
        np.testing.assert_allclose(p.value.astype(float), q.value, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("sort", EXACT)
def test_floats_beside_exact_numbers_are_the_numbers_that_they_are(sort):
    layer = Dense(3, 2, rng=0)
    x = numbers(sort, 2, 3)
    y = layer.forward(x)
    gx = layer.backward([[1.0, 0.5], [2, -1]])
    assert_exact(sort, y, gx)
    fractions = [spec.fractions(v.astype(object)) for v in (x, layer.weight.value, layer.bias.value)]
    wanted = fractions[0] @ fractions[1].T + fractions[2]
    if sort != "Decimal":  # whose 28 digits are fewer than the product has
        assert all(Fraction(a.numerator, a.denominator) == b for a, b in zip(y.ravel(), wanted.ravel(), strict=True))
    np.testing.assert_allclose(y.astype(float), wanted.astype(float), rtol=1e-12)
    assert layer.weight.grad.dtype == np.float32


def test_a_mean_squared_error_of_fractions_has_fractions_for_a_gradient():
    loss = MeanSquaredErrorLoss()
    third = Fraction(1, 3)
    assert loss(np.array([third, 2 * third]), [0, 0]).item() == Fraction(5, 18)
    assert loss.backward().tolist() == [third, 2 * third]
    assert all(type(g) is Fraction for g in loss.backward())


def test_steps_with_fractions():
    p = Parameter("p", np.array([Fraction(1, 3)]), grad=np.array([Fraction(1, 2)]))
    SGD([p], lr=Fraction(1, 10)).step()
    assert p.value.tolist() == [Fraction(17, 60)]
    q = Parameter("q", np.array([1.0], np.float32), grad=np.array([0.5], np.float32))
    SGD([q], lr=Fraction(1, 4)).step()
    assert (q.value.tolist(), q.value.dtype) == ([0.875], np.float32)
    p.grad = np.array([Fraction(1, 2)])
    with pytest.raises(TypeError, match="the gradient of 'p' has exact numbers, and Adam a root; use SGD"):
        Adam([p]).step()


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
        # Integers are computed in float64, and a copy in that is what is kept.
        (SmoothMaxPoolND(1.0, (2, 2)), np.int8, (8 * 64, 0, 2 * 8 * 256)),
        # The specification keeps the input.
        (SmoothMaxPoolND(Fraction(1, 2), (2, 2)), np.float32, (4 * 64, 0, 2 * 4 * 256)),
        (MaxPool2D(2, 2), object, (8 * 64, 0, 2 * 8 * 256)),
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


def bytes_held_after_forward(layer, shape, dtype=np.float32):
    """What stays allocated when forward is done and its input and output are gone."""
    layer.forward(np.ones(shape, dtype))  # what is made once: the engine's plan
    tracemalloc.start()
    layer.forward(np.ones(shape, dtype))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return held


@pytest.mark.parametrize("layer", [MaxPool2D(2, 2), AvgPool2D(2, 2)], ids=repr)
def test_training_keeps_the_winners_and_nothing_else(layer):
    layer, shape = copy.copy(layer), (1, 8, 256, 256)
    held = bytes_held_after_forward(layer, shape)
    assert abs(held - layer.memory(shape).mask) < 10_000


@pytest.mark.parametrize("dtype", [np.int8, bool, np.float16, ">f4", np.float64])
@pytest.mark.parametrize("layer", [SmoothMaxPoolND(1.0, (2, 2)), GlobalMaxPool(), MaxPool2D(2, 2)], ids=repr)
def test_training_keeps_what_memory_says(layer, dtype):
    layer, shape = copy.copy(layer), (1, 8, 128, 128)
    memory = layer.memory(shape, dtype)
    gradient = layer.backward(np.ones(layer.forward(np.ones(shape, dtype)).shape)).nbytes
    assert abs(bytes_held_after_forward(layer, shape, dtype) - (memory.mask + memory.scratch - gradient)) < 10_000


@pytest.mark.parametrize("layer", [MaxPool2D(2, 2), AvgPool2D(2, 2), SmoothMaxPoolND(1.0, (2, 2)), ReLU()], ids=repr)
def test_eval_keeps_nothing(layer):
    assert bytes_held_after_forward(copy.copy(layer).eval(), (1, 8, 256, 256)) < 10_000


def pictures_network():
    return Sequential(Conv2D(1, 8, 3, padding=1, rng=0), ReLU(), MaxPool2D(2, 2), Flatten(), Dense(8192, 4, rng=0))


def rows_network():
    return Sequential(Dense(64, 64, rng=0), ReLU(), Dense(64, 64, rng=0), ReLU())


@pytest.mark.parametrize(
    ("network", "shape", "kept"),
    [
        # x for the convolution, what ReLU gave, the winners, and the maxima for Dense: Flatten has a view of them.
        (pictures_network, (4, 1, 64, 64), 4 * (4 * 4096 + 4 * 8 * 4096 + 4 * 8192) + 4 * 8192),
        # ReLU's output is the next Dense's input, and counts once.
        (rows_network, (512, 64), 4 * 3 * 512 * 64),
        (lambda: Sequential(*[ReLU()] * 2, Sequential(AvgPool1D(2))), (1, 64, 512), 4 * 2 * 64 * 512),
        (lambda: Sequential(GlobalMaxPool()), (64, 64, 64), 4 * (64 * 64 * 64 + 64 * 64)),
        (lambda: Sequential(SmoothMaxPoolND(1.0, (2,))), (8, 64, 64), 4 * 8 * 64 * 64),
    ],
)
def test_memory_of_a_network(network, shape, kept):
    """What is said to be kept is what stays allocated after a training forward."""
    network = network()
    memory = network.memory(shape)
    assert memory.kept == kept
    assert memory.parameters == sum(p.value.nbytes for p in network.parameters())
    assert memory.output == network.forward(np.ones(shape, np.float32)).nbytes
    assert memory.total == sum(memory)
    assert abs(bytes_held_after_forward(network, shape) - kept) < 30_000 + 0.01 * kept
    assert network.memory(shape, np.float64).kept > kept
    assert network.eval().memory(shape) == memory._replace(kept=0)


def test_memory_of_a_network_counts_shared_weights_once():
    """And never as something that is kept: that is the input of each Dense, one of which is ReLU's output."""
    assert one_dense().memory((1, 4), np.float64) == (8 * (16 + 4), 8 * 3 * 4, 8 * 4)
    with pytest.raises(TypeError, match=re.escape("Doubled(...) is no OpLayer, and what it keeps is not known")):
        Sequential(Doubled(ReLU())).memory((1, 2))


@pytest.mark.parametrize(("cells", "each"), [(255, 1), (256, 1), (257, 2), (65536, 2), (65537, 4)])
def test_bytes_of_a_winner(cells, each):
    layer = MaxPool1D(cells, 1)
    shape = (1, 1, cells + 2)
    assert layer.memory(shape).mask == 3 * each
    layer.forward(np.zeros(shape, np.float32))
    assert layer._kept.linear.residual.winners.itemsize == each
    assert f"up to {65536:,}" in layers.Memory.__doc__


# --- gradients in the dtype of what they belong to ------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_gradients_have_the_dtype_of_their_parameters(dtype):
    layer = Dense(3, 2, rng=0, dtype=dtype)
    layer.forward(np.ones((4, 3), np.float64))
    layer.backward(np.ones((4, 2)))
    assert {p.grad.dtype for p in layer.parameters()} == {np.dtype(dtype)}
    for optimizer in (SGD(layer.parameters(), 0.1, momentum=0.9), Adam(layer.parameters())):
        optimizer.step()
        optimizer.step()
        assert {p.value.dtype for p in layer.parameters()} == {np.dtype(dtype)}


def test_a_parameter_may_be_one_number():
    p = Parameter("p", np.array(1.0, np.float32), grad=np.array(2.0, np.float32))
    SGD([p], lr=0.25).step()
    assert (p.value.shape, p.value.dtype, float(p.value)) == ((), np.float32, 0.5)


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
    (
        lambda: Dense(3, 2, dtype=np.int32),
        TypeError,
        "dtype='int32' does not hold random floats; give a dtype of floats",
    ),
    (lambda: Conv1D(3, 2, 2, dtype=object), TypeError, "dtype='object' does not hold random floats"),
    (lambda: MaxPoolND(2), TypeError, "kernel_size=2 is for no axis; give one int for each, such as (2, 2)"),
    (lambda: GlobalMaxPool(ties="last"), ValueError, "ties='last' is not a policy"),
    (lambda: GlobalAvgPool(keepdims=1), TypeError, "keepdims=1 is not a bool"),
    (lambda: GlobalAvgPool(axes=1.0), TypeError, "axes=1.0 is a float"),
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


@pytest.mark.parametrize("module", [layers, ops, ndpool.graph, ndpool.program], ids=lambda module: module.__name__)
def test_everything_public_says_what_it_is(module):
    names = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
    found = [value for value in (getattr(module, name) for name in names) if inspect.isclass(value)]
    for cls in (cls for cls in found if cls.__module__ == module.__name__):
        assert cls.__doc__, cls
        for name, method in vars(cls).items():
            if (not name.startswith("_") or name == "__call__") and (callable(method) or isinstance(method, property)):
                assert inspect.getdoc(getattr(cls, name)), f"{cls.__name__}.{name}"
