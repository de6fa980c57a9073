"""Four operations that are closed under differentiation, to every order and in both modes, as JAX's own are.

    forward     y  = pool(x)
    linearize   y, and the winners where the derivative is known from these
    push        dy = J t     linear in t, and its transpose is pull
    pull        gx = J^T g   linear in g, and its transpose is push

J is known from what is kept: nothing, the winners, x, or x and y. Where it changes when x moves, the kind states by how
much (`Kind.bend`), in terms of J and its transpose. Every operation is a primitive of JAX: `jit`, `vmap`, `grad` and
the others know it by the rules below. The pooled axes are counted from the end, so `vmap` puts its axis in front.

`dtype` is the name of the dtype that the caller's array had. The array itself has the one that engines compute with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from ..kinds import Sum
from ..plan import Plan, plan_of
from ..pool import Pool
from . import elsewhere, sharding

Shape = tuple[int, ...]


def planned(pool: Pool, shape: Sequence[int], dtype: str) -> Plan:
    """The plan over an array; a ValueError where its winners are beyond what engines count."""
    plan = plan_of(pool, tuple(shape), dtype)
    if plan.residual.winners > 4:
        raise ValueError(plan.too_large("engines find winners in windows of up to 2**32 cells"))
    return plan


# --- the operations -------------------------------------------------------------------------------


def forward(x: Any, pool: Pool, dtype: str) -> Any:
    """`y`."""
    return forward_p.bind(x, pool=pool, dtype=dtype)


def linearize(x: Any, pool: Pool, dtype: str) -> tuple[Any, tuple[Any, ...]]:
    """`y`, and what its derivative keeps of x, y and the winners."""
    residual = planned(pool, x.shape, dtype).residual
    if residual.winners:
        y, winners = linearize_p.bind(x, pool=pool, dtype=dtype)
        return y, (winners,)
    y = forward(x, pool, dtype)
    return y, (x,) * residual.x + (y,) * residual.y


def push(t: Any, kept: Sequence[Any], pool: Pool, dtype: str) -> Any:
    """`dy = J t`."""
    return push_p.bind(*sharding.varying_alike(t, *kept), pool=pool, dtype=dtype)


def pull(g: Any, kept: Sequence[Any], pool: Pool, dtype: str, shape: Shape) -> Any:
    """`gx = J^T g`, for an x of this shape."""
    return pull_p.bind(*sharding.varying_alike(g, *kept), pool=pool, dtype=dtype, shape=tuple(shape))


forward_p = Primitive("ndpool_forward")
linearize_p = Primitive("ndpool_linearize")
linearize_p.multiple_results = True
push_p = Primitive("ndpool_push")
pull_p = Primitive("ndpool_pull")


# --- shapes ---------------------------------------------------------------------------------------


def _forward_shape(x: Any, *, pool: Pool, dtype: str) -> Any:
    plan = planned(pool, x.shape, dtype)
    return sharding.of_output(x, plan, plan.result)


def _linearize_shape(x: Any, *, pool: Pool, dtype: str) -> Any:
    plan = planned(pool, x.shape, dtype)
    winners = f"uint{8 * plan.residual.winners}"
    return [sharding.of_output(x, plan, plan.result), sharding.of_output(x, plan, winners)]


def _push_shape(t: Any, *kept: Any, pool: Pool, dtype: str) -> Any:
    return sharding.of_output(t, planned(pool, t.shape, dtype), t.dtype)


def _pull_shape(g: Any, *kept: Any, pool: Pool, dtype: str, shape: Shape) -> Any:
    return sharding.of_input(g, planned(pool, shape, dtype))


# --- derivatives ----------------------------------------------------------------------------------


def _zero(a: Any) -> Any:
    """The tangent of what does not move; an integer's has no numbers at all."""
    return ad.Zero(jax.typeof(a).to_tangent_aval())


def _forward_jvp(primals: Any, tangents: Any, *, pool: Pool, dtype: str) -> Any:
    (x,), (t,) = primals, tangents
    y, kept = linearize(x, pool, dtype)
    return y, push(ad.instantiate_zeros(t), kept, pool, dtype)


def _linearize_jvp(primals: Any, tangents: Any, *, pool: Pool, dtype: str) -> Any:
    (x,), (t,) = primals, tangents
    y, (winners,) = linearize(x, pool, dtype)
    dy = push(ad.instantiate_zeros(t), (winners,), pool, dtype)
    return [y, winners], [dy, _zero(winners)]


def _linear_jvp(apply: Callable[..., Any], bend: Callable[..., Any], primals: Any, tangents: Any, **known: Any) -> Any:
    """Of push or pull: the same of the tangent, and by how much J changes as x moves."""
    (a, *kept), (da, *moves) = primals, tangents
    out, pool, dtype = apply(a, kept, **known), known["pool"], known["dtype"]
    changes = []
    if not isinstance(da, ad.Zero):
        changes.append(apply(da, kept, **known))
    curved = kept and planned(pool, known.get("shape", a.shape), dtype).curved
    if curved and not isinstance(moves[0], ad.Zero):
        changes.append(bend(Slope(pool, dtype, kept[0]), a, moves[0]))
    return out, sum(changes[1:], changes[0]) if changes else _zero(out)


def _push_jvp(primals: Any, tangents: Any, **known: Any) -> Any:
    return _linear_jvp(push, known["pool"].kind.bend, primals, tangents, **known)


def _pull_jvp(primals: Any, tangents: Any, **known: Any) -> Any:
    return _linear_jvp(pull, known["pool"].kind.bend_back, primals, tangents, **known)


def _forward_transpose(g: Any, x: Any, *, pool: Pool, dtype: str) -> Any:
    """Of a pool that is linear itself."""
    if not planned(pool, x.aval.shape, dtype).is_linear:
        raise TypeError(f"{pool.kind!r} is not linear, and only the transpose of its derivative exists; call jax.vjp")
    return _push_transpose(g, x, pool=pool, dtype=dtype)


def _push_transpose(g: Any, t: Any, *kept: Any, pool: Pool, dtype: str) -> Any:
    _check_linear(kept)
    back = ad.Zero(t.aval) if isinstance(g, ad.Zero) else pull(g, kept, pool, dtype, t.aval.shape)
    return [back, *(None for _ in kept)]


def _pull_transpose(t: Any, g: Any, *kept: Any, pool: Pool, dtype: str, shape: Shape) -> Any:
    _check_linear(kept)
    back = ad.Zero(g.aval) if isinstance(t, ad.Zero) else push(t, kept, pool, dtype)
    return [back, *(None for _ in kept)]


def _check_linear(kept: Sequence[Any]) -> None:
    if any(map(ad.is_undefined_primal, kept)):
        raise TypeError("the derivative of a pool is linear in its tangent alone, not in x; call jax.vjp")


class Slope:
    """The derivative at x, in terms of which the kinds that bend state their second one.

    Skipped cells are 0 in its x, and so are outputs that have too few others in its y: what is 0 does not bend.
    """

    def __init__(self, pool: Pool, dtype: str, x: Any) -> None:
        self._pool, self._dtype, self._whole = pool, dtype, x
        self._kept = (x,) if planned(pool, x.shape, dtype).residual.x else ()

    @property
    def x(self) -> Any:
        skip = self._pool.skip
        if skip is None:
            return self._whole
        return jnp.where(jnp.isnan(self._whole) if skip != skip else self._whole == skip, 0.0, self._whole)

    @property
    def y(self) -> Any:
        y = forward(self._whole, self._pool, self._dtype)
        if self._pool.skip is None:
            return y
        return jnp.where(self.sums().push(jnp.ones_like(self._whole)) == 0, 0.0, y)

    def push(self, t: Any) -> Any:
        return push(t, self._kept, self._pool, self._dtype)

    def pull(self, g: Any) -> Any:
        return pull(g, self._kept, self._pool, self._dtype, self._whole.shape)

    def sums(self) -> Slope:
        return Slope(replace(self._pool, kind=Sum()), self._dtype, self._whole)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        return jnp.where(condition, a, b)


# --- vmap -----------------------------------------------------------------------------------------


def _in_front(arrays: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
    """The arrays with the mapped axis as their first; those that have none are repeated."""
    size = next(a.shape[d] for a, d in zip(arrays, dims, strict=True) if d is not None)
    return [
        jnp.broadcast_to(a, (size, *a.shape)) if d is None else jnp.moveaxis(a, d, 0)
        for a, d in zip(arrays, dims, strict=True)
    ]


def _batched(primitive: Any, arrays: Any, dims: Any, **known: Any) -> Any:
    moved = _in_front(arrays, dims)
    if "shape" in known:
        known["shape"] = (moved[0].shape[0], *known["shape"])
    out = primitive.bind(*sharding.varying_alike(*moved), **known)
    return out, [0, 0] if primitive.multiple_results else 0


# --- who computes ---------------------------------------------------------------------------------


def _register(primitive: Any, shape: Any, jvp: Any) -> None:
    name = primitive.name.removeprefix("ndpool_")
    several = primitive.multiple_results

    def compiled(*arrays: Any, **known: Any) -> Any:
        return _eager(primitive, *arrays, **known)

    primitive.def_impl(compiled)
    primitive.def_abstract_eval(shape)
    ad.primitive_jvps[primitive] = jvp
    batching.primitive_batchers[primitive] = partial(_batched, primitive)
    mlir.register_lowering(primitive, mlir.lower_fun(partial(elsewhere.run, name), several))
    mlir.register_lowering(primitive, sharding.lowering_for_cpu(name, several), platform="cpu")
    sharding.ask_for_devices(primitive)


def _bound(*arrays: Any, primitive: Any, **known: Any) -> Any:
    return primitive.bind(*arrays, **known)


#: What runs outside of `jit` is compiled too, once for each shape.
_jitted = jax.jit(_bound, static_argnames=("primitive", "pool", "dtype", "shape"))


def _eager(primitive: Any, *arrays: Any, **known: Any) -> Any:
    return _jitted(*arrays, primitive=primitive, **known)


_register(forward_p, _forward_shape, _forward_jvp)
_register(linearize_p, _linearize_shape, _linearize_jvp)
_register(push_p, _push_shape, _push_jvp)
_register(pull_p, _pull_shape, _pull_jvp)
ad.primitive_transposes[forward_p] = _forward_transpose
ad.primitive_transposes[push_p] = _push_transpose
ad.primitive_transposes[pull_p] = _pull_transpose
