"""What JAX makes of functions, with pools in them: vmap, scan, checkpoint, export."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_cases import POOLS, name_of, normal

import ndpool.jax
from ndpool import Avg, Lp, Max, Pool, SmoothMax, Window


@pytest.mark.parametrize("pool", POOLS, ids=name_of)
@pytest.mark.parametrize("axis", [0, 2, -1])
def test_vmap_over_any_axis(pool, axis):
    x = normal(0, (5, 6, 5, 7))
    mapped = jax.jit(jax.vmap(pool, in_axes=axis, out_axes=1))(x)
    expected = [pool(np.ascontiguousarray(each)) for each in np.moveaxis(np.asarray(x), axis, 0)]
    np.testing.assert_allclose(mapped, np.stack(expected, axis=1), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("pool", POOLS, ids=name_of)
def test_nested_vmap_of_a_gradient(pool):
    x = normal(0, (2, 3, 4, 6, 7))
    grad = jax.grad(lambda x: (pool(x) ** 2).sum())
    mapped = jax.jit(jax.vmap(jax.vmap(grad, in_axes=1, out_axes=1)))(x)
    np.testing.assert_allclose(mapped, jax.jit(grad)(x), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("pool", [POOLS[0], POOLS[1], POOLS[3], POOLS[6]], ids=name_of)
def test_vmap_over_tangents_alone(pool):
    x, t = normal(0, (3, 6, 7)), normal(1, (4, 3, 6, 7))
    mapped = jax.vmap(lambda t: jax.jvp(pool, (x,), (t,))[1])(t)
    expected = np.stack([pool.jvp(np.asarray(x), np.asarray(each))[1] for each in t])
    np.testing.assert_allclose(mapped, expected, rtol=1e-14, atol=1e-14)


def test_axes_counted_from_the_front_are_those_of_one_example():
    x = normal(0, (5, 6, 8, 3))
    pool = Pool(Max(), Window((2, 2)), axes=(0, 1))
    np.testing.assert_array_equal(jax.vmap(pool)(x), Pool(Max(), Window((2, 2)), axes=(1, 2))(np.ascontiguousarray(x)))


def test_scan_and_checkpoint():
    pool = Pool(SmoothMax(2.0), Window((3, 3), stride=1, padding=1))
    x = normal(0, (2, 6, 6))

    def steps(step, x):
        return jax.lax.scan(lambda x, _: (step(x), None), x, length=4)[0].sum()

    plain = jax.grad(lambda x: pool(pool(pool(pool(x)))).sum())(x)
    for step in (pool, jax.checkpoint(pool), jax.jit(pool)):
        np.testing.assert_allclose(jax.jit(jax.grad(lambda x, s=step: steps(s, x)))(x), plain, rtol=1e-10)


def test_cond_and_while():
    pool = Pool(Max(), Window((2,)))
    x = normal(0, (64,))
    out = jax.lax.cond(x[0] > 0, pool, lambda x: -pool(-x), x)
    np.testing.assert_array_equal(out, pool(x) if x[0] > 0 else -pool(-x))
    same = jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, pool(jnp.repeat(s[1], 2))), (0, x))[1]
    np.testing.assert_array_equal(same, x)


EXPORTED = """
import sys
import jax, jax.export
jax.config.update("jax_enable_x64", True)
import ndpool.jax
import numpy as np
path = sys.argv[1]
exported = jax.export.deserialize(bytearray(open(path + "/program", "rb").read()))
x = np.load(path + "/x.npy")
np.testing.assert_array_equal(exported.call(x), np.load(path + "/gx.npy"))
print("same")
"""


def test_an_exported_program_runs_in_another_process(tmp_path):
    pool = Pool(Lp(2), Window((3, 3), stride=2, padding=1))
    x = normal(0, (2, 9, 9))
    grad = jax.jit(jax.grad(lambda x: (pool(x) ** 2).sum()))
    exported = jax.export.export(grad, disabled_checks=ndpool.jax.export_checks())(x)
    (tmp_path / "program").write_bytes(exported.serialize())
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "gx.npy", grad(x))
    said = subprocess.run([sys.executable, "-c", EXPORTED, tmp_path], capture_output=True, text=True, check=False)
    assert said.stdout.strip() == "same", said.stderr


def test_a_pool_of_a_jitted_argument_is_compiled_once():
    traced = []

    @jax.jit
    def step(x):
        traced.append(x.shape)
        return ndpool.jax.avg_pool2d(x, 2, skip=float("nan"))

    for seed in range(3):
        step(normal(seed, (2, 4, 4)))
    assert traced == [(2, 4, 4)]
    assert ndpool.jax.primitives._jitted._cache_size() < 2000


def test_eager_calls_are_compiled_once():
    """The pool of each call is another object, with another NaN."""
    x = normal(0, (2, 14, 14))
    size = ndpool.jax.primitives._jitted._cache_size
    Pool(Avg(), Window((7, 7)), skip=float("nan"))(x)
    before = size()
    Pool(Avg(), Window((7, 7)), skip=float("nan"))(x)
    assert size() == before
