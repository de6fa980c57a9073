"""The engine inside of compiled programs: to the bit what it gives for NumPy's arrays, and what the definition says."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax_cases import FEW, POOLS, name_of, normal, pooled_arrays

import ndpool
import ndpool.jax
from closeness import jvp_allowance, same, same_bytes, value_allowance, vjp_allowance, within
from ndpool import Avg, Global, Max, Min, Pool, Sum, Window, spec

FLOATS = ("float16", "bfloat16", "float32", "float64")
KINDS_WITH_ALLOWANCES = [Max(), Max("split"), Min("all"), Sum(), Avg(), ndpool.SmoothMax(1.5), ndpool.Lp(2.5)]


@FEW
@given(pooled_arrays())
def test_a_compiled_pool_is_the_engine(drawn):
    pool, x = drawn
    same(np.asarray(jax.jit(pool)(x)), pool(x))


@FEW
@given(pooled_arrays(FLOATS), st.integers(0, 2**32))
def test_derivatives_are_the_engines(drawn, seed):
    pool, x = drawn
    y, linear = pool.linearize(x)
    rng = np.random.default_rng(seed)
    t, g = (rng.normal(size=shape).astype(x.dtype) for shape in (x.shape, y.shape))
    value, dy = jax.jit(lambda x, t: jax.jvp(pool, (x,), (t,)))(x, t)
    same(np.asarray(value), y)
    same(np.asarray(dy), linear.push(t))
    value, pullback = jax.vjp(jax.jit(pool), jnp.asarray(x))
    same(np.asarray(value), y)
    same(np.asarray(pullback(jnp.asarray(g))[0]), linear.pull(g))


@FEW
@given(pooled_arrays(("float32", "float64"), KINDS_WITH_ALLOWANCES), st.integers(0, 2**32))
def test_all_is_what_the_specification_says(drawn, seed):
    pool, x = drawn
    expected = spec.forward(pool, x)
    rng = np.random.default_rng(seed)
    t, g = (rng.normal(size=shape).astype(x.dtype) for shape in (x.shape, expected.shape))
    y, dy = jax.jit(lambda x, t: jax.jvp(pool, (x,), (t,)))(x, t)
    gx = jax.jit(lambda x, g: jax.vjp(pool, x)[1](g)[0])(x, g)
    within(np.asarray(y), expected, value_allowance(pool, x, expected))
    dy_expected, gx_expected = spec.jvp(pool, x, t)[1], spec.vjp(pool, x, g)
    within(np.asarray(dy), dy_expected, jvp_allowance(pool, x, t, dy_expected))
    within(np.asarray(gx), gx_expected, vjp_allowance(pool, x, g, gx_expected))


@FEW
@given(pooled_arrays())
def test_indices_are_the_engines(drawn):
    pool, x = drawn
    try:
        y, indices = pool.with_indices(x)
    except TypeError:
        with pytest.raises(TypeError, match="has no winner in a window"):
            pool.with_indices(jnp.asarray(x))
        return
    found, places = jax.jit(pool.with_indices)(x)
    same(np.asarray(found), y)
    same(np.asarray(places), indices)


@pytest.mark.parametrize("pool", POOLS, ids=name_of)
def test_push_and_pull_are_transposes(pool):
    x = normal(0, (2, 3, 7, 8))
    y, linear = pool.linearize(x)
    t, g = normal(1, x.shape), normal(2, y.shape)
    np.testing.assert_allclose((linear.push(t) * g).sum(), (t * linear.pull(g)).sum(), rtol=1e-12)


@pytest.mark.parametrize("pool", POOLS, ids=name_of)
@pytest.mark.parametrize("shape", [(0, 7, 8), (2, 0, 7, 8)], ids=str)
def test_empty_batches(pool, shape):
    x = jnp.zeros(shape)
    y = jax.jit(pool)(x)
    assert y.shape == pool.output_shape(shape)
    assert jax.grad(lambda x: pool(x).sum())(x).shape == shape
    assert jax.jvp(pool, (x,), (x,))[1].shape == y.shape


def test_sums_of_halves_are_added_up_in_more_bits():
    ones = jnp.ones((1024,), "bfloat16")
    assert ndpool.jax.sum_pool1d(ones, 1024)[0] == 1024
    assert ndpool.jax.avg_pool1d(jnp.full((4096,), 0.1, "float16"), 4096)[0] == jnp.float16(0.1)


def test_minus_infinity_has_one_winner_in_both_modes():
    x = jnp.full((4,), -jnp.inf)
    pool = Pool(Max(), Window((2,)))
    t = jnp.arange(4.0)
    np.testing.assert_array_equal(jax.jvp(pool, (x,), (t,))[1], [0, 2])
    np.testing.assert_array_equal(jax.grad(lambda x: (pool(x) * jnp.array([3.0, 5.0])).sum())(x), [3, 0, 5, 0])


def test_a_padded_window_of_minus_infinity_leans_on_a_real_cell():
    x = jnp.full((3,), -jnp.inf)
    grad = jax.grad(lambda x: Pool(Max(), Window((2,), padding=1))(x).sum())(x)
    np.testing.assert_array_equal(grad, [1, 1, 0])


def test_complex_numbers_go_in_parts():
    x = np.asarray(normal(0, (3, 6)) + 1j * normal(1, (3, 6)), "complex64")
    for kind in (Sum(), Avg()):
        pool = Pool(kind, Window((2,)))
        same_bytes(np.asarray(jax.jit(pool)(x)), pool(x))
        t = x[::-1].copy()
        same_bytes(np.asarray(jax.jvp(pool, (jnp.asarray(x),), (jnp.asarray(t),))[1]), pool.jvp(x, t)[1])


def test_a_pool_takes_arrays_in_any_order_of_axes():
    x = normal(0, (5, 4, 6, 3))
    pool = Pool(Max(), Window((2, 3)), axes=(1, 2))
    turned = jnp.transpose(x, (3, 1, 2, 0))
    same_bytes(np.asarray(jax.jit(pool)(turned)), pool(np.ascontiguousarray(turned)))


def test_threads_change_nothing():
    x = normal(0, (4, 8, 64, 64), "float32")
    pool = Pool(Avg(), Window((3, 3), stride=2, padding=1))
    alone = np.asarray(jax.jit(pool)(x))
    ndpool.set_num_threads(4)
    same_bytes(np.asarray(jax.jit(pool)(x)), alone)


def test_a_whole_axis():
    x = normal(0, (2, 300, 70))
    pool = Pool(Max("all"), Global(), axes=(1,))
    same_bytes(np.asarray(pool(x)), pool(np.asarray(x)))
