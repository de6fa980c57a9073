"""Equinox's modules and a network that is trained with them, before and after the swap."""

from __future__ import annotations

import inspect

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_cases import normal

import ndpool.jax.equinox as ours
from ndpool import adaptive_avg_pool, adaptive_max_pool

WINDOWED = [name for name in ours.__all__ if not name.startswith("Adaptive")]
SHAPES = {1: (3, 11), 2: (3, 9, 10), 3: (2, 5, 6, 7)}


@pytest.mark.parametrize("name", ours.__all__)
def test_modules_are_equinoxs(name):
    mine, theirs = getattr(ours, name), getattr(equinox.nn, name)
    assert issubclass(mine, theirs)
    assert inspect.signature(mine) == inspect.signature(theirs)
    assert (mine.__name__, mine.__module__) == (name, "ndpool.jax.equinox")


@pytest.mark.parametrize("arguments", [(2,), (3, 2), (3, 2, 1), (3, 2, 1, True), (3, 2, 0, True)], ids=repr)
@pytest.mark.parametrize("name", WINDOWED)
def test_the_numbers_are_equinoxs(name, arguments):
    x = normal(0, SHAPES[int(name[-2])])
    mine, theirs = getattr(ours, name)(*arguments), getattr(equinox.nn, name)(*arguments)
    np.testing.assert_allclose(mine(x), theirs(x), rtol=1e-12, atol=1e-14)
    found, expected = (jax.jit(jax.grad(lambda x, m=m: (m(x) ** 2).sum()))(x) for m in (mine, theirs))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("target", [3, (4, 13), (9, 10)], ids=repr)
def test_adaptive_modules_have_pytorchs_bins(target):
    x = normal(0, SHAPES[2])
    size = target if isinstance(target, tuple) else (target, target)
    for module, function in ((ours.AdaptiveAvgPool2d, adaptive_avg_pool), (ours.AdaptiveMaxPool2d, adaptive_max_pool)):
        np.testing.assert_array_equal(module(target)(x), function(np.asarray(x), size))
    assert bool(jnp.isfinite(ours.AdaptiveAvgPool2d(target)(x)).all())


def test_where_bins_are_even_they_are_equinoxs_too():
    x = normal(0, (3, 8, 12))
    np.testing.assert_allclose(ours.AdaptiveAvgPool2d((4, 3))(x), equinox.nn.AdaptiveAvgPool2d((4, 3))(x), rtol=1e-12)


def test_a_batch_is_mapped():
    x = normal(0, (5, 3, 9, 10))
    with pytest.raises(ValueError, match=r"MaxPool2d got an array of shape \(5, 3, 9, 10\); give channels and 2 axes"):
        ours.MaxPool2d(2)(x)
    assert jax.vmap(ours.MaxPool2d(2))(x).shape == (5, 3, 8, 9)


class Network(equinox.Module):
    layers: list

    def __init__(self, pools, key):
        first, second, third = jax.random.split(key, 3)
        self.layers = [
            equinox.nn.Conv2d(2, 8, 3, padding=1, key=first),
            jax.nn.relu,
            pools.MaxPool2d(3, 2, 1),
            equinox.nn.Conv2d(8, 8, 3, padding=1, key=second),
            jax.nn.relu,
            pools.AvgPool2d(2, 2),
            jnp.ravel,
            equinox.nn.Linear(72, 3, key=third),
        ]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def losses(pools):
    network = Network(pools, jax.random.key(0))
    x, labels = normal(0, (6, 2, 12, 12)), jnp.arange(6) % 3

    @equinox.filter_value_and_grad
    def loss(network):
        return -jax.nn.log_softmax(jax.vmap(network)(x))[jnp.arange(6), labels].mean()

    @equinox.filter_jit
    def step(network):
        value, slope = loss(network)
        return value, equinox.apply_updates(network, jax.tree.map(lambda s: -0.1 * s, slope))

    found = []
    for _ in range(8):
        value, network = step(network)
        found.append(float(value))
    return found


def test_a_network_trains_as_before():
    before, after = losses(equinox.nn), losses(ours)
    assert before[-1] < 0.95 * before[0]
    np.testing.assert_allclose(after, before, rtol=1e-4)
