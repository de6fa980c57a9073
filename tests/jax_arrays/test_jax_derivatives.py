"""Derivatives of every order in both modes: one linear map, its transpose, and by how much they change."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from jax_cases import POOLS, name_of, normal, without_ties

import ndpool.jax
from ndpool import Adaptive, Avg, Lp, Max, Min, Pool, SmoothMax, Sum, Window

CURVED = [
    Pool(SmoothMax(0.7), Window((2, 2), stride=1, padding=1)),
    Pool(SmoothMax(-1.2, count_include_pad=False), Adaptive((2, 3))),
    Pool(Lp(2), Window((2, 3), stride=1)),
    Pool(Lp(3), Window((2, 2), stride=1, dilation=(1, 2))),
    Pool(Lp(2.5), Window((2, 2), stride=2, padding=1)),
]


def name(pool):
    return repr(pool.kind)


@pytest.mark.parametrize("pool", [each for each in POOLS if each.skip is None], ids=name_of)
def test_derivatives_in_both_modes(pool):
    x = without_ties(0, (1, 5, 6))
    check_grads(jax.jit(pool), (x,), order=2, modes=("fwd", "rev"), eps=1e-4, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pool", CURVED, ids=name)
def test_third_derivatives_in_both_modes(pool):
    x = without_ties(0, (3, 4))
    for mode in ("fwd", "rev"):
        check_grads(jax.jit(pool), (x,), order=3, modes=mode, eps=1e-4, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("pool", CURVED, ids=name)
def test_all_ways_to_a_hessian_agree(pool):
    x = without_ties(1, (3, 4))

    def loss(x):
        return (pool(x) ** 3).sum()

    expected = jax.jit(jax.hessian(loss))(x)
    assert float(abs(expected).max()) > 0.1
    for found in (jax.jacfwd(jax.jacfwd(loss)), jax.jacrev(jax.jacrev(loss)), jax.jacrev(jax.jacfwd(loss))):
        found = jax.jit(found)
        np.testing.assert_allclose(found(x), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("pool", POOLS, ids=name_of)
def test_jacobians_of_both_modes_are_one(pool):
    x = normal(3, (1, 5, 6))
    np.testing.assert_allclose(jax.jit(jax.jacfwd(pool))(x), jax.jit(jax.jacrev(pool))(x), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(
    ("kind", "weights"),
    [
        (Max(), [0, 1, 0, 0]),
        (Max("split"), [0, 0.5, 0, 0.5]),
        (Max("all"), [0, 1, 0, 1]),
        (Min(), [1, 0, 0, 0]),
        (Min("split"), [0.5, 0, 0.5, 0]),
    ],
    ids=repr,
)
def test_the_rule_at_ties(kind, weights):
    x, pool = jnp.array([3.0, 7.0, 3.0, 7.0]), Pool(kind, Window((4,)))
    np.testing.assert_array_equal(jax.grad(lambda x: pool(x)[0])(x), weights)
    np.testing.assert_array_equal(jax.jacfwd(lambda x: pool(x)[0])(x), weights)


def test_the_rule_at_nans():
    x, pool = jnp.array([1.0, jnp.nan, 2.0, jnp.nan]), Pool(Max("split"), Window((4,)))
    np.testing.assert_array_equal(jax.grad(lambda x: pool(x)[0])(x), [0, 0.5, 0, 0.5])


def test_a_dilated_maximum_has_both_modes():
    x = normal(0, (1, 9, 9))
    pool = Pool(Max(), Window((2, 2), stride=1, dilation=3))
    y, pullback = pool.vjp(np.asarray(x))
    g = np.asarray(normal(1, y.shape))
    np.testing.assert_array_equal(jax.vjp(pool, x)[1](jnp.asarray(g))[0], pullback(g))


def test_second_derivatives_pass_over_skipped_cells():
    """The Hessian of the cells that are there, among cells that are not."""
    x = jnp.array([3.0, jnp.nan, -4.0, jnp.nan, 12.0])
    few = x[jnp.array([0, 2, 4])]
    for kind in (Lp(2), Lp(3), SmoothMax(0.3)):
        found = jax.jit(jax.hessian(lambda x, kind=kind: Pool(kind, Window((5,)), skip=float("nan"))(x)[0]))(x)
        expected = jax.jit(jax.hessian(lambda x, kind=kind: Pool(kind, Window((3,)))(x)[0]))(few)
        np.testing.assert_allclose(found[np.ix_([0, 2, 4], [0, 2, 4])], expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(found[1], np.zeros(5))


def test_a_linear_pool_has_a_transpose_of_its_own():
    x = normal(0, (3, 8))
    for kind in (Sum(), Avg()):
        pool = Pool(kind, Window((3,), stride=2))
        g = normal(1, pool.output_shape(x.shape))
        (gx,) = jax.linear_transpose(pool, x)(g)
        np.testing.assert_array_equal(gx, pool.vjp(np.asarray(x))[1](np.asarray(g)))


def test_another_pool_has_none():
    with pytest.raises(TypeError, match=r"is not linear, .* exists; call jax\.vjp"):
        jax.linear_transpose(Pool(Max(), Window((2,))), jnp.ones(4))(jnp.ones(2))


def test_derivatives_of_integers_are_nothing():
    x = jnp.arange(6)
    y, dy = jax.jvp(Pool(Max(), Window((2,))), (x,), (np.zeros(6, jax.dtypes.float0),))
    assert dy.dtype == jax.dtypes.float0
    np.testing.assert_array_equal(y, [1, 3, 5])


def test_indices_beside_a_value_that_is_differentiated():
    x = without_ties(0, (1, 6, 6))

    def loss(x):
        y, indices = ndpool.jax.max_pool2d(x, 2, return_indices=True)
        return (y * (indices + 1)).sum()

    indices = ndpool.max_pool2d(np.asarray(x), 2, return_indices=True)[1]
    _, pullback = Pool(Max(), Window((2, 2))).vjp(np.asarray(x))
    np.testing.assert_array_equal(jax.jit(jax.grad(loss))(x), pullback(indices + 1.0))


def test_without_a_derivative_no_winners_are_looked_for():
    x = jnp.ones((4, 4))
    pool = Pool(Max(), Window((2, 2)))
    assert "ndpool_linearize" not in str(jax.make_jaxpr(pool)(x))
    assert "ndpool_linearize" in str(jax.make_jaxpr(jax.grad(lambda x: pool(x).sum()))(x))


def test_linearize_gives_the_derivative_as_a_thing_of_its_own():
    x = normal(0, (2, 6))
    for kind in (Max(), Avg(), Lp(2), Max("all")):
        pool = Pool(kind, Window((2,)))
        y, linear = pool.linearize(x)
        expected, other = pool.linearize(np.asarray(x))
        t, g = normal(1, x.shape), normal(2, y.shape)
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(linear.push(t), other.push(np.asarray(t)))
        np.testing.assert_array_equal(linear.pull(g), other.pull(np.asarray(g)))
        np.testing.assert_array_equal(pool.jvp(x, t)[1], other.push(np.asarray(t)))
        for kept, array in zip(linear.residual, other.residual, strict=True):
            assert (kept is None) == (array is None)
            if kept is not None:
                np.testing.assert_array_equal(kept, array)
    _, linear = Pool(Max(), Window((2,))).linearize(x)
    np.testing.assert_array_equal(linear.indices(), Pool(Max(), Window((2,))).with_indices(np.asarray(x))[1])
