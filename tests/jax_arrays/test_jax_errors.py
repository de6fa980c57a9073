"""Errors: raised while JAX traces, with the argument, the value, the rule and the remedy; and none that ends Python."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_cases import narrow

import ndpool.jax
from ndpool import Avg, Kind, Max, Pool, SmoothMax, Sum, Window
from ndpool.jax import cpu
from ndpool.jax.versions import check_versions
from ndpool.plan import plan_of

MAX = Pool(Max(), Window((3,)))


def test_shapes_are_refused_while_tracing():
    reached = []

    @jax.jit
    def step(x):
        y = MAX(x)
        reached.append(True)
        return y

    with pytest.raises(ValueError, match=r"kernel_size=3 .* reaches over 3 cells, and the padded axis has 2"):
        step(jnp.ones(2))
    with pytest.raises(ValueError, match=r"1 axes are pooled and the input of shape .* has 0; give fewer axes"):
        jax.vmap(step)(jnp.ones(4))
    assert not reached


def test_versions_that_are_too_old():
    for old in ("0.4.38", "0.5.3"):
        with pytest.raises(ImportError, match=rf"needs jax and jaxlib 0\.6\.0 or later.* jax {old} and jaxlib {old}"):
            check_versions(old, old)
    with pytest.raises(ImportError, match=r"here are jax 0.10.2 and jaxlib 0.5.1"):
        check_versions("0.10.2", "0.5.1")
    check_versions("0.10.2", "0.6.0")
    check_versions("1.0.0", "1.0")


def test_dtypes_that_are_not_pooled():
    with pytest.raises(TypeError, match=r"x has dtype float8_e4m3fn, which ndpool does not pool; give x.astype"):
        MAX(jnp.ones(4, jnp.float8_e4m3fn))
    with pytest.raises(TypeError, match="no engine computes"):
        MAX(jnp.ones(4, "complex64"))


@pytest.mark.parametrize("kind", [Sum(), Avg(), SmoothMax(1.0)], ids=repr)
def test_results_of_64_bits_where_jax_has_none(kind):
    with narrow():
        x = jnp.arange(4, dtype="int32")
        with pytest.raises(TypeError, match=r'of int32 is (u?int|float)64 \(rule "Integers"\).*jax_enable_x64'):
            Pool(kind, Window((2,)))(x)
        assert Pool(kind, Window((2,)))(x.astype("float32")).dtype == jnp.float32


def test_integers_without_64_bits():
    with narrow():
        x = jnp.array([3, 1, 2, 7], "int32")
        y, indices = jax.jit(Pool(Max(), Window((2,))).with_indices)(x)
        assert (y.dtype, indices.dtype) == (jnp.int32, jnp.int32)
        np.testing.assert_array_equal(indices, [0, 3])


def test_too_many_cells_for_an_index():
    pool = Pool(Max(), Window((2, 2)))
    with narrow(), pytest.raises(OverflowError, match="the pooled axes have 4294967296 cells, too many for an index"):
        jax.eval_shape(pool.with_indices, jax.ShapeDtypeStruct((2**16, 2**16), "float32"))


def test_windows_that_are_too_large():
    # Windows of 2**33 cells: their winners' places do not fit.
    pool = Pool(Max(), Window((2**17, 2**16), padding=(2**16, 2**15)))
    with pytest.raises(ValueError, match=r"engines find winners in windows of up to 2\*\*32 cells"):
        pool.linearize(jnp.ones((4, 4)))


def test_a_kind_of_ones_own():
    class Range(Kind):
        def value(self, x, pad=0):
            return max(x) - min(x)

        def weights(self, x, pad=0):
            return [(x.index(max(x)), 1), (x.index(min(x)), -1)]

    with pytest.raises(TypeError, match=r"is a kind of your own, .* give np.asarray\(x\), or one of ndpool's kinds"):
        Pool(Range(), Window((2,)))(jnp.ones(4))


def test_arrays_that_are_not_taken_together():
    x = np.ones(4)
    with pytest.raises(TypeError, match=r"where a NumPy array is taken; call np\.asarray on it"):
        MAX.jvp(x, jnp.ones(4))
    with pytest.raises(TypeError, match="out is given beside an array of JAX, and these cannot be written to"):
        MAX(jnp.ones(4), out=np.empty(1))
    _, linear = MAX.linearize(jnp.ones(4))
    with pytest.raises(TypeError, match="out is given beside an array of JAX, and these cannot be written to"):
        linear.pull(jnp.ones(1), out=np.empty(4))


def test_directions_that_do_not_fit():
    _, linear = MAX.linearize(jnp.ones(4))
    with pytest.raises(ValueError, match=r"t has shape \(3,\) and should have \(4,\)"):
        linear.push(jnp.ones(3))
    with pytest.raises(ValueError, match=r"g has shape \(4,\) and should have \(1,\)"):
        linear.pull(jnp.ones(4))
    with pytest.raises(TypeError, match="t has dtype complex128 beside an input of real numbers"):
        linear.push(jnp.ones(4, complex))
    with pytest.raises(TypeError, match="x has dtype int64, and derivatives of JAX's arrays are for floats"):
        MAX.linearize(jnp.arange(4))
    _, linear = Pool(Avg(), Window((2,))).linearize(jnp.ones(4))
    with pytest.raises(TypeError, match="keeps no winners; call with_indices on the pool"):
        linear.indices()


def test_functions_take_no_bools_for_numbers():
    with pytest.raises(TypeError, match="kernel_size=True is a bool"):
        ndpool.jax.max_pool1d(jnp.ones(4), True)
    with pytest.raises(TypeError, match="return_indices=1 is not a bool"):
        ndpool.jax.max_pool1d(jnp.ones(4), 2, return_indices=1)


# --- the handlers themselves ----------------------------------------------------------------------

TEXT = cpu.text_of(plan_of(Pool(Max(), Window((2,))), (4,), "float32"))
Y = jax.ShapeDtypeStruct((2,), "float32")


def called(text, *arrays, target="ndpool_forward", results=Y):
    return jax.block_until_ready(jax.jit(lambda *a: jax.ffi.ffi_call(target, results)(*a, plan=text))(*arrays))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it has no kind"),
        ("kind", "has no '='"),
        (TEXT.replace("kind=max;", ""), "it has no kind"),
        (TEXT.replace("winners=1", "winners=-1"), "'-1' is no number"),
        (TEXT.replace("winners=1", "winners="), "a number is missing"),
        (TEXT.replace("parameter=0", "parameter=99999999999999999999999"), "is no number"),
        (TEXT.replace("skip=", "skip=1,2"), "skip has 2 numbers"),
    ],
    ids=repr,
)
def test_a_text_that_is_no_plan_is_an_error(text, why):
    with pytest.raises(Exception, match=f"not one that this version of ndpool reads .*{why}"):
        called(text, jnp.ones(4, "float32"))


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("kind=max", "kind=maximum"),
        TEXT.replace("dtype=float32", "dtype=float31"),
        TEXT.replace("dims=", "dims=3 "),
        TEXT.replace("dims=4,2,2", "dims=4,2"),
        TEXT.replace("dims=4,2,2", "dims=4,9,2"),
        TEXT.replace("winners=1", "winners=3"),
        TEXT.replace("pooled=0", "pooled=0,1"),
    ],
)
def test_a_plan_that_does_not_fit_the_buffers_is_an_error(text):
    with pytest.raises(Exception, match=r"INVALID_ARGUMENT|INTERNAL"):
        called(text, jnp.ones(4, "float32"))


def test_buffers_that_do_not_fit_are_an_error():
    x = jnp.ones(4, "float32")
    with pytest.raises(Exception, match="the operation takes 1 arrays and gives 1"):
        called(TEXT, x, x)
    with pytest.raises(Exception, match="the operation takes 2 arrays and gives 1"):
        called(TEXT, x, target="ndpool_pull")
    with pytest.raises(Exception, match="INVALID_ARGUMENT"):
        called(TEXT, jnp.ones(5, "float32"))
    with pytest.raises(Exception, match="there is none"):
        jax.block_until_ready(jax.jit(lambda x: jax.ffi.ffi_call("ndpool_forward", Y)(x))(x))
    np.testing.assert_array_equal(called(TEXT, x), [1, 1])  # and all is well afterwards
