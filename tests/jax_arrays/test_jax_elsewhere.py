"""Every pool in JAX's own operations, which is what runs on GPUs and TPUs: the same results as the engine's."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax_cases import FEW, POOLS, name_of, narrow, normal, pooled_arrays

import ndpool.jax
from ndpool import Avg, Max, Min, Mode, Pool, Quantile, Sum, Window
from ndpool.jax import dispatch, elsewhere
from ndpool.kinds import ROUNDINGS
from ndpool.plan import plan_of

#: How far sums in the precision of the dtype itself, and roundings of halves, may be off.
CLOSE = {"float64": 1e-11, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}


def close(actual, expected):
    actual = np.asarray(actual)
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    if actual.dtype.kind in "biu":
        return np.testing.assert_array_equal(actual, expected)
    allowed = CLOSE[actual.dtype.name]
    np.testing.assert_allclose(actual.astype(float), expected.astype(float), rtol=allowed, atol=allowed)


def planned(pool, x):
    """The plan, and the array as it is computed with."""
    array = jnp.asarray(x)
    pool, dtype = dispatch._prepared(pool, array)
    plan = plan_of(pool, x.shape, dtype)
    return plan, dispatch._computed(plan, array)


@FEW
@given(pooled_arrays(), st.integers(0, 2**32))
def test_all_operations_are_the_engines(drawn, seed):
    pool, x = drawn
    plan, array = planned(pool, x)
    y = pool(x)
    if x.dtype.kind not in "fV":
        return close(jax.jit(partial(elsewhere.forward, plan))(array), y)
    _, linear = pool.linearize(x)
    rng = np.random.default_rng(seed)
    t, g = (rng.normal(size=shape).astype(x.dtype) for shape in (x.shape, y.shape))
    kept = [jnp.asarray(each) for each in linear.residual if each is not None]

    @jax.jit  # all at once: what takes the time is to compile
    def operations(x, t, g, *kept):
        winners = elsewhere.linearize(plan, x) if plan.residual.winners else None
        return elsewhere.forward(plan, x), elsewhere.push(plan, t, *kept), elsewhere.pull(plan, g, *kept), winners

    value, dy, gx, winners = operations(array, t, g, *kept)
    close(value, y)
    close(dy, linear.push(t))
    close(gx, linear.pull(g))
    if winners is not None:
        close(winners[0], y)
        np.testing.assert_array_equal(dispatch.indices(plan, winners[1]), linear.indices())


@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
@pytest.mark.parametrize("stride", [1, 2, 3, 7])
@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_phases(kernel, stride, dilation):
    """Cells gather from the windows that they won, for every way in which strides and dilations can meet."""
    x, padding = np.asarray(normal(kernel, (2, 17, 19))), (kernel - 1) // 2
    pool = Pool(Max(), Window((kernel, 2), (stride, 1), ((padding, 1), 0), (dilation, 1), ceil_mode=True))
    plan, array = planned(pool, x)
    y, pullback = pool.vjp(x)
    g = np.asarray(normal(9, y.shape))

    @jax.jit
    def there_and_back(x, g):
        winners = elsewhere.linearize(plan, x)[1]
        return elsewhere.push(plan, x, winners), elsewhere.pull(plan, g, winners)

    value, gx = there_and_back(array, g)
    close(value, y)
    close(gx, pullback(g))


@pytest.mark.parametrize("kind", [Max(), Min(), Max("split"), Avg(), Sum(), Quantile(0.3, "lower"), Mode()], ids=repr)
def test_windows_of_many_cells(kind):
    x = np.asarray(normal(0, (2, 40, 30)))
    pool = Pool(kind, Window((11, 9), stride=(5, 4), padding=3))
    plan, array = planned(pool, x)
    assert plan.cells > elsewhere.FEW_CELLS
    y, pullback = pool.vjp(x)
    close(jax.jit(partial(elsewhere.forward, plan))(array), y)
    g = np.asarray(normal(1, y.shape))
    kept = [jnp.asarray(each) for each in pool.linearize(x)[1].residual if each is not None]
    close(jax.jit(partial(elsewhere.pull, plan))(g, *kept), pullback(g))


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
def test_rounded_means(rounding, dtype):
    limits = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(limits.min, limits.max, (3, 40), dtype, endpoint=True)
    for pool in (Pool(Avg(rounding=rounding), Window((n,), stride=1, padding=1)) for n in (2, 3, 4)):
        plan, array = planned(pool, x)
        close(elsewhere.forward(plan, array), pool(x))


def test_means_that_need_wider_integers_are_refused():
    plan, array = planned(Pool(Avg(rounding="floor"), Window((2,))), np.arange(4))
    with pytest.raises(NotImplementedError, match="rounding='floor' of int64 over 2 cells needs wider integers"):
        elsewhere.forward(plan, array)


@pytest.mark.parametrize("pool", POOLS, ids=name_of)
def test_other_platforms_get_operations_of_their_own(pool):
    """Lowered here for devices that are not here: no call of the engine is left in the program."""
    x = jax.ShapeDtypeStruct((2, 3, 7, 8), "float32")
    step = jax.jit(lambda x: jax.value_and_grad(lambda x: (pool(x) ** 2).sum())(x))
    assert "@ndpool_" not in jax.export.export(step, platforms=["cuda", "tpu"])(x).mlir_module()


@pytest.mark.parametrize("pool", POOLS, ids=name_of)
def test_other_platforms_without_64_bits(pool):
    """Nor is anyone warned of numbers that are not there."""
    with narrow():
        x = jnp.ones((2, 7, 8), "float32")
        step = jax.jit(lambda x: jax.value_and_grad(lambda x: (pool(x) ** 2).sum())(x))
        assert "f64" not in jax.export.export(step, platforms=["cuda"])(x).mlir_module()


def test_one_program_for_several_platforms():
    pool = Pool(Max(), Window((2, 2)))
    x = normal(0, (3, 6, 6), "float32")
    checks = ndpool.jax.export_checks()
    exported = jax.export.export(jax.jit(pool), platforms=["cpu", "cuda"], disabled_checks=checks)(x)
    assert "@ndpool_forward" in exported.mlir_module()
    np.testing.assert_array_equal(exported.call(x), pool(x))
