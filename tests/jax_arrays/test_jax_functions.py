"""ndpool's functions by the same names: the same parameters, the same numbers, in either package."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_cases import normal

import ndpool
import ndpool.jax
from ndpool.making import numbers
from ndpool.table import TABLE


@pytest.mark.parametrize("name", TABLE)
def test_every_function_of_ndpool(name):
    mine, theirs = getattr(ndpool.jax, name), getattr(ndpool, name)
    parameters = [*inspect.signature(theirs).parameters.values()]
    mine_too = [*inspect.signature(mine).parameters.values()]
    assert [(p.name, p.default, p.kind) for p in mine_too] == [
        (p.name, p.default, p.kind) for p in parameters if p.name != "out"
    ]
    assert name in ndpool.jax.__all__


@pytest.mark.parametrize("name", [name for name, pooling in TABLE.items() if pooling.rank in (None, 2)])
def test_the_same_numbers(name):
    pooling = TABLE[name]
    x = np.asarray(normal(0, (2, 6, 7)))
    given = [*(numbers(pooling.kind) or ()), *({"": [(2, 3)], "adaptive_": [(2, 4)]}.get(pooling.column.prefix, []))]
    expected = getattr(ndpool, name)(x, *given)
    np.testing.assert_array_equal(jax.jit(lambda x: getattr(ndpool.jax, name)(x, *given))(x), expected)
    np.testing.assert_array_equal(getattr(ndpool, name)(jnp.asarray(x), *given), expected)


def test_lists_and_numpy_arrays_become_arrays_of_jax():
    for x in ([1.0, 5.0, 2.0, 2.0], np.array([1.0, 5.0, 2.0, 2.0])):
        y = ndpool.jax.max_pool1d(x, 2)
        assert isinstance(y, jax.Array)
        np.testing.assert_array_equal(y, [5, 2])


def test_a_pool_and_its_function_know_tracers():
    pool = ndpool.Pool(ndpool.Max(), ndpool.Window((2,)))
    x = jnp.array([1.0, 5.0, 2.0, 2.0])
    for f in (pool, lambda x: ndpool.max_pool1d(x, 2), lambda x: pool.jvp(x, x)[1], lambda x: pool.vjp(x)[0]):
        np.testing.assert_array_equal(jax.jit(f)(x), [5, 2])
