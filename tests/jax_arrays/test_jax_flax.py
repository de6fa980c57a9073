"""Flax's functions and a network that is trained with them, before and after the swap."""

from __future__ import annotations

import inspect

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.linen import pooling as theirs
from jax_cases import normal

import ndpool.jax.flax as ours

NAMES = ("max_pool", "min_pool", "avg_pool")


@pytest.mark.parametrize("name", NAMES)
def test_the_signatures_are_flaxs(name):
    mine, other = (inspect.signature(getattr(module, name)) for module in (ours, theirs))
    assert [(p.name, p.default, p.kind) for p in mine.parameters.values()] == [
        (p.name, p.default, p.kind) for p in other.parameters.values()
    ]


@pytest.mark.parametrize("padding", ["VALID", "SAME", ((1, 0), (0, 1))], ids=repr)
@pytest.mark.parametrize("strides", [None, (2, 1), (3, 3)])
@pytest.mark.parametrize("shape", [(9, 8, 3), (2, 9, 8, 3), (2, 1, 9, 8, 3)])
@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_are_flaxs(name, shape, strides, padding):
    if len(shape) == 5 and not isinstance(padding, str):
        pytest.skip("Flax takes pairs of padding with one axis in front alone")
    x = normal(0, shape)
    options = [{}] if name != "avg_pool" else [{"count_include_pad": True}, {"count_include_pad": False}]
    for each in options:
        mine = getattr(ours, name)(x, (3, 2), strides, padding, **each)
        np.testing.assert_allclose(mine, getattr(theirs, name)(x, (3, 2), strides, padding, **each), rtol=1e-12)


def test_one_and_three_axes():
    for shape, window in (((2, 9, 3), (4,)), ((2, 5, 6, 7, 3), (2, 3, 2))):
        x = normal(0, shape)
        np.testing.assert_array_equal(ours.max_pool(x, window, window), theirs.max_pool(x, window, window))


def test_padding_that_flax_does_not_have():
    with pytest.raises(TypeError, match='padding=1 is an int; give "VALID", "SAME" or a'):
        ours.max_pool(jnp.ones((1, 4, 4, 1)), (2, 2), padding=1)
    with pytest.raises(ValueError, match="padding='circular' is not a padding word"):
        ours.max_pool(jnp.ones((1, 4, 4, 1)), (2, 2), padding="CIRCULAR")


def losses(pooling):
    class Network(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(8, (3, 3))(x))
            x = pooling.max_pool(x, (3, 3), (2, 2), "SAME")
            x = nn.relu(nn.Conv(8, (3, 3))(x))
            x = pooling.avg_pool(x, (2, 2), (2, 2))
            return nn.Dense(3)(x.reshape(len(x), -1))

    network, x = Network(), normal(0, (6, 12, 12, 2), "float32")
    labels = jnp.arange(6) % 3
    weights = network.init(jax.random.key(0), x)

    def loss(weights):
        return -jax.nn.log_softmax(network.apply(weights, x))[jnp.arange(6), labels].mean()

    @jax.jit
    def step(weights):
        value, slope = jax.value_and_grad(loss)(weights)
        return value, jax.tree.map(lambda w, s: w - 0.1 * s, weights, slope)

    found = []
    for _ in range(8):
        value, weights = step(weights)
        found.append(float(value))
    return found


def test_a_network_trains_as_before():
    before, after = losses(theirs), losses(ours)
    assert before[-1] < 0.9 * before[0]
    np.testing.assert_allclose(after, before, rtol=1e-4)
