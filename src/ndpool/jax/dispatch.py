"""What a `Pool` does when it is given JAX's arrays, or the tracers that stand for them inside of a transformation.

>>> import jax.numpy as jnp
>>> from ndpool import Lp, Pool, Window
>>> pool, x = Pool(Lp(2), Window((2,))), jnp.array([3.0, 4.0])
>>> y, linear = pool.linearize(x)
>>> y, linear.push(jnp.array([1.0, 0.0])), linear.pull(jnp.array([10.0]))
(Array([5.], dtype=float32), Array([0.6], dtype=float32), Array([6., 8.], dtype=float32))
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..kind import form_of
from ..memory import Kept
from ..plan import ITEM_BYTES, Plan
from ..pool import Pool
from . import primitives

#: Why there is no `out` for arrays of JAX.
NO_OUT = "an array of JAX, and these cannot be written to; leave it out"


def forward(pool: Pool, x: Any) -> Any:
    """`y`."""
    pool, dtype = _prepared(pool, x)
    return primitives.forward(_computed(_plan(pool, x, dtype), x), pool, dtype)


def with_indices(pool: Pool, x: Any) -> tuple[Any, Any]:
    """`y`, and the flat index over the pooled axes of the first winner in each window, int64 where JAX has it.

    For Max and Min with any policy; where too few cells are there, it is -1.
    """
    pool, dtype = _prepared(pool, x)
    kind = pool.kind.one_winner()
    assert kind is not None  # the pool has asked
    first = replace(pool, kind=kind)
    plan = _plan(first, x, dtype)
    y, (winners,) = primitives.linearize(_computed(plan, x), first, dtype)
    if kind != pool.kind:
        y = forward(pool, x)
    return y, indices(plan, winners)


def jvp(pool: Pool, x: Any, t: Any) -> tuple[Any, Any]:
    """`y`, and its change `dy` along `t`."""
    y, linear = linearize(pool, x)
    return y, linear.push(t)


def linearize(pool: Pool, x: Any) -> tuple[Any, JaxLinear]:
    """`y`, and the derivative at x: `push` and `pull`, each of which can be differentiated."""
    pool, dtype = _prepared(pool, x)
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        raise TypeError(f"x has dtype {x.dtype}, and derivatives of JAX's arrays are for floats; give x.astype(float)")
    y, kept = primitives.linearize(x, pool, dtype)
    return y, JaxLinear(pool, _plan(pool, x, dtype), x.dtype, kept)


class JaxLinear:
    """The derivative J of a pool at x, and its transpose. It keeps the winners, nothing, x, or x and y."""

    def __init__(self, pool: Pool, plan: Plan, dtype: Any, kept: tuple[Any, ...]) -> None:
        self._pool, self._plan, self._dtype, self._kept = pool, plan, dtype, kept

    @property
    def residual(self) -> Kept:
        """The arrays that are kept."""
        kept, given = self._plan.residual, iter(self._kept)
        return Kept(*(next(given) if one else None for one in (kept.x, kept.y, kept.winners)))

    def push(self, t: Any) -> Any:
        """`dy = J t`."""
        t = self._direction("t", t, self._plan.shape)
        return primitives.push(t, self._kept, self._pool, self._plan.input)

    def pull(self, g: Any, out: None = None) -> Any:
        """`gx = J^T g`."""
        if out is not None:
            raise TypeError(f"out is given beside {NO_OUT}")
        g = self._direction("g", g, self._plan.output_shape)
        return primitives.pull(g, self._kept, self._pool, self._plan.input, self._plan.shape)

    def indices(self) -> Any:
        """Where each winner stands: its flat row-major index over the pooled axes."""
        if not self._plan.residual.winners:
            raise TypeError(f"{self._pool.kind!r} keeps no winners; call with_indices on the pool")
        return indices(self._plan, self._kept[0])

    def _direction(self, name: str, a: Any, shape: tuple[int, ...]) -> Any:
        """A tangent or a cotangent, in the dtype of `x`."""
        a = jnp.asarray(a)
        if jnp.iscomplexobj(a) and not self._plan.is_complex:
            raise TypeError(f"{name} has dtype {a.dtype} beside an input of real numbers; give real numbers")
        if a.shape != shape:
            raise ValueError(f"{name} has shape {a.shape} and should have {shape}")
        return a.astype(self._dtype)


# --- what goes in ---------------------------------------------------------------------------------


def _prepared(pool: Pool, x: Any) -> tuple[Pool, str]:
    """The pool with its axes counted from the end, and the name of the dtype of x."""
    if not isinstance(x, jax.Array):
        raise TypeError(f"x is a {type(x).__name__} and no array of JAX; give jax.numpy.asarray(x)")
    if form_of(pool.kind) is None:
        raise TypeError(
            f"{pool.kind!r} is a kind of your own, which the specification computes, and JAX compiles what it "
            "computes; give np.asarray(x), or one of ndpool's kinds"
        )
    dtype = jnp.dtype(x.dtype).name
    if dtype not in ITEM_BYTES:
        raise TypeError(f"x has dtype {dtype}, which ndpool does not pool; give x.astype(jax.numpy.float32)")
    pool._layout(x.shape)
    axes = pool.axes if pool.axes is not None else range(-(pool.window.rank or 0), 0)
    return replace(pool, axes=tuple(axis - x.ndim if axis >= 0 else axis for axis in axes)), dtype


def _plan(pool: Pool, x: Any, dtype: str) -> Plan:
    plan = primitives.planned(pool, x.shape, dtype)
    for name in (plan.result, plan.dtype):
        if ITEM_BYTES[name] == 8 and name != "complex64" and not jax.config.jax_enable_x64:
            raise TypeError(
                f'{pool.kind!r} of {dtype} is {plan.result} (rule "Integers"), and JAX has no numbers of 64 bits '
                'unless jax.config.update("jax_enable_x64", True) is called; call it, or give '
                "x.astype(jax.numpy.float32)"
            )
    return plan


def _computed(plan: Plan, x: Any) -> Any:
    """The array in the dtype that engines compute with: the smooth kinds make floats of integers."""
    if plan.input == "bool" or plan.is_complex or plan.dtype == plan.input:
        return x
    skip, made = plan.skipped_as_nan, x.astype(plan.dtype)
    return made if skip is None else jnp.where(x == skip, math.nan, made)


# --- indices --------------------------------------------------------------------------------------


def indices(plan: Plan, winners: Any) -> Any:
    """The flat row-major index over the pooled axes of each winner, which is a place in its window."""
    cells = math.prod(axis.length for axis in plan.geometry)
    dtype = jnp.dtype("int64" if jax.config.jax_enable_x64 else "int32")
    if cells > jnp.iinfo(dtype).max:
        raise OverflowError(
            f"the pooled axes have {cells} cells, too many for an index of {dtype}; call "
            'jax.config.update("jax_enable_x64", True)'
        )
    place = winners.astype(dtype).reshape(plan.kept_shape)
    absent, found = place >= plan.cells, jnp.zeros(plan.kept_shape, dtype)
    steps = np.cumprod([1, *(axis.length for axis in reversed(plan.geometry))])
    for step, d, axis in zip(steps, reversed(plan.axes), reversed(plan.geometry), strict=False):
        place, k = place // axis.kernel, place % axis.kernel
        i = jax.lax.broadcasted_iota(dtype, plan.kept_shape, d)
        start = i * axis.length // axis.output if axis.adaptive else i * axis.stride - axis.pad_lo
        found = found + (start + k * axis.dilation) * int(step)
    found = found if plan.skipped is None else jnp.where(absent, -1, found)
    return found.reshape(plan.output_shape)
