"""Arrays that lie on several devices: each pools its own part, and the pooled axes are gathered first."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jax_cases import POOLS, name_of, normal

from ndpool import Lp, Max, Pool, Window

shard_map = getattr(jax, "shard_map", None)
if shard_map is None:
    from jax.experimental.shard_map import shard_map

SHAPE = (4, 6, 8, 10)
BY_BATCH = [P("a"), P("a", "b"), P(("a", "b")), P(None, "b")]
ACROSS_WINDOWS = [P(None, None, "a"), P("a", None, None, "b"), P(None, None, "b", "a")]


@pytest.fixture(scope="module")
def mesh():
    assert len(jax.devices()) == 4
    return Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"))


def value_and_slopes(pool):
    def both(x, t):
        y, pullback = jax.vjp(pool, x)
        return y, jax.jvp(pool, (x,), (t,))[1], pullback(y)[0]

    return both


@pytest.mark.parametrize("spec", [*BY_BATCH, *ACROSS_WINDOWS], ids=str)
@pytest.mark.parametrize("pool", [POOLS[0], POOLS[1], POOLS[4], POOLS[6]], ids=name_of)
def test_sharded_arrays(mesh, pool, spec):
    x, t = normal(0, SHAPE), normal(1, SHAPE)
    expected = jax.jit(value_and_slopes(pool))(x, t)
    sharded = [jax.device_put(a, NamedSharding(mesh, spec)) for a in (x, t)]
    for found, single in zip(jax.jit(value_and_slopes(pool))(*sharded), expected, strict=True):
        np.testing.assert_array_equal(found, single)


@pytest.mark.parametrize("spec", BY_BATCH, ids=str)
def test_no_device_sees_the_part_of_another(mesh, spec):
    pool = Pool(Max(), Window((3, 3), stride=2, padding=1))
    x = jax.device_put(normal(0, SHAPE), NamedSharding(mesh, spec))
    step = jax.jit(jax.value_and_grad(lambda x: pool(x).sum()))
    program = step.lower(x).compile().as_text()
    assert "all-gather" not in program
    assert "all-to-all" not in program
    assert jax.jit(pool)(x).sharding.is_equivalent_to(x.sharding, 4)
    assert step(x)[1].sharding.is_equivalent_to(x.sharding, 4)


def test_a_tangent_and_an_input_that_lie_differently(mesh):
    pool = Pool(Lp(2), Window((2, 2)))
    x, t = normal(0, SHAPE), normal(1, SHAPE)
    expected = pool.jvp(np.asarray(x), np.asarray(t))[1]
    x = jax.device_put(x, NamedSharding(mesh, P(None, "b")))
    t = jax.device_put(t, NamedSharding(mesh, P("a")))
    np.testing.assert_array_equal(jax.jit(lambda x, t: jax.jvp(pool, (x,), (t,))[1])(x, t), expected)


@pytest.mark.parametrize("pool", POOLS, ids=name_of)
def test_shard_map(mesh, pool):
    x = normal(0, SHAPE)
    spec = P("a", "b")
    mapped = shard_map(pool, mesh=mesh, in_specs=spec, out_specs=spec)
    np.testing.assert_allclose(jax.jit(mapped)(x), pool(np.asarray(x)), rtol=1e-14, atol=1e-14)
    found, expected = (jax.jit(jax.grad(lambda x, f=f: (f(x) ** 2).sum()))(x) for f in (mapped, pool))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_shard_map_where_the_input_is_the_same_everywhere(mesh):
    pool = Pool(Lp(2), Window((2, 2)))

    def energy(x, t):
        return (jax.jvp(pool, (x,), (t,))[1] ** 2).sum()

    x, t = normal(0, (1, 6, 8, 10)), normal(1, SHAPE)
    mapped = shard_map(
        lambda x, t: jax.lax.psum(energy(x, t), "a"),
        mesh=Mesh(np.array(jax.devices()), ("a",)),
        in_specs=(P(), P("a")),
        out_specs=P(),
    )

    def plain(x, t):
        return sum(energy(x, each[None]) for each in t)

    np.testing.assert_allclose(jax.jit(mapped)(x, t), jax.jit(plain)(x, t), rtol=1e-12)
    grads = (jax.jit(jax.grad(f, (0, 1)))(x, t) for f in (mapped, plain))
    for found, expected in zip(*grads, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


class TestExplicitAxes:
    """A mesh whose axes are part of the types of arrays."""

    @pytest.fixture
    def mesh(self):
        explicit = jax.sharding.AxisType.Explicit
        made = jax.make_mesh((2, 2), ("a", "b"), axis_types=(explicit, explicit))
        with jax.set_mesh(made) if hasattr(jax, "set_mesh") else jax.sharding.use_mesh(made):
            yield made

    def test_results_have_the_axes_of_the_input(self, mesh):
        x = normal(0, SHAPE)
        pool = Pool(Max(), Window((3, 3), stride=2, padding=1))
        expected, grad = pool(x), jax.grad(lambda x: (pool(x) ** 2).sum())(x)
        sharded = jax.device_put(x, NamedSharding(mesh, P("a", "b", None, None)))
        y = jax.jit(pool)(sharded)
        assert y.sharding.spec == P("a", "b", None, None)
        np.testing.assert_array_equal(y, expected)
        gx = jax.jit(jax.grad(lambda x: (pool(x) ** 2).sum()))(sharded)
        assert gx.sharding.spec == P("a", "b", None, None)
        np.testing.assert_array_equal(gx, grad)

    def test_a_pooled_axis_that_is_split_is_refused(self, mesh):
        x = jax.device_put(normal(0, SHAPE), NamedSharding(mesh, P(None, None, "a", None)))
        with pytest.raises(ValueError, match=r"axis 2 of x is pooled and is split over 'a'; give jax.sharding.reshard"):
            jax.jit(Pool(Max(), Window((2, 2))))(x)


def test_one_device_of_several():
    x = jax.device_put(normal(0, (3, 8)), jax.devices()[2])
    y = Pool(Max(), Window((2,)))(x)
    assert y.devices() == {jax.devices()[2]}
    np.testing.assert_array_equal(y, jnp.maximum(x[:, ::2], x[:, 1::2]))
