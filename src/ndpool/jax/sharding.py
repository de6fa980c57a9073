"""Pools of arrays that lie on several devices: the carried axes may be split, the pooled ones are gathered.

Under `jit`, XLA asks how to split a call of the engine (`custom_partitioning`): each device then pools its own part, by
a plan of its own. Inside of `shard_map`, and on one device, there is nothing to ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
from jax._src import dispatch  # the one thing here that JAX has no public name for
from jax.experimental.custom_partitioning import custom_partitioning
from jax.interpreters import mlir
from jax.sharding import NamedSharding, PartitionSpec

from ..plan import Plan, plan_of
from ..pool import Pool
from . import cpu

Shape = tuple[int, ...]

#: Which arrays of an operation have the axes of the input: what it takes first, and what it gives.
_LIKE_INPUT = {"forward": (True, False), "linearize": (True, False), "push": (True, False), "pull": (False, True)}


# --- types of arrays ------------------------------------------------------------------------------


def of_output(x: Any, plan: Plan, dtype: Any) -> Any:
    """The type of an array shaped like y, where x has this one: split as x is along the carried axes."""
    entries = [x.sharding.spec[d] for d in _carried(plan, True)]
    for d in plan.axes:
        if x.sharding.spec[d] is not None:
            raise ValueError(
                f"axis {d} of x is pooled and is split over {x.sharding.spec[d]!r}; give jax.sharding.reshard(x, ...) "
                "with the pooled axes whole, or split other axes"
            )
    return _typed(x, plan.output_shape, dtype, _spec(plan, False, entries))


def of_input(g: Any, plan: Plan) -> Any:
    """The type of an array shaped like x, where g, shaped like y, has this one."""
    entries = [g.sharding.spec[d] for d in _carried(plan, False)]
    return _typed(g, plan.shape, g.dtype, _spec(plan, True, entries))


def _typed(like: Any, shape: Shape, dtype: Any, spec: Any) -> Any:
    sharding = NamedSharding(like.sharding.mesh, spec)
    return like.update(shape=shape, dtype=jax.numpy.dtype(dtype), weak_type=False, sharding=sharding)


def varying_alike(*arrays: Any) -> Sequence[Any]:
    """The arrays, each of which varies along all axes of a `shard_map` that any of them varies along."""
    axes: list[frozenset[str]] = [getattr(jax.typeof(a), "vma", frozenset()) for a in arrays]
    every = frozenset().union(*axes)
    if not every:
        return arrays
    return [_varied(a, tuple(sorted(every - own))) for a, own in zip(arrays, axes, strict=True)]


def _varied(a: Any, axes: tuple[str, ...]) -> Any:
    if not axes:
        return a
    return jax.lax.pcast(a, axes, to="varying") if hasattr(jax.lax, "pcast") else jax.lax.pvary(a, axes)


def _carried(plan: Plan, of_input: bool) -> list[int]:
    """The places of the axes that are not pooled, in an array shaped like x or in one shaped like y."""
    found = [d for d in range(len(plan.shape)) if d not in plan.axes]
    return found if of_input or len(plan.output_shape) == len(plan.shape) else list(range(len(found)))


def _spec(plan: Plan, of_input: bool, entries: Sequence[Any]) -> Any:
    """How an array is split whose carried axes are split so."""
    spec: list[Any] = [None] * len(plan.shape if of_input else plan.output_shape)
    for d, entry in zip(_carried(plan, of_input), entries, strict=True):
        spec[d] = entry
    return PartitionSpec(*spec)


# --- the engine on several devices ----------------------------------------------------------------


def lowering_for_cpu(operation: str, several: bool) -> Any:
    """How XLA computes an operation on the CPU: by the engine, on as many devices as the arrays lie on."""

    def whole(*arrays: Any, pool: Pool, dtype: str, shape: Shape | None = None) -> Any:
        return getattr(cpu, operation)(plan_of(pool, arrays[0].shape if shape is None else shape, dtype), *arrays)

    def parts(*arrays: Any, pool: Pool, dtype: str, shape: Shape | None = None) -> Any:
        return _partitioned(operation, pool, dtype, arrays[0].shape if shape is None else shape)(*arrays)

    def lower(context: Any, *arrays: Any, **known: Any) -> Any:
        found = context.module_context.axis_context
        devices = getattr(found, "num_devices", None) or found.mesh.size
        return mlir.lower_fun(parts if devices > 1 else whole, several)(context, *arrays, **known)

    return lower


def ask_for_devices(primitive: Any) -> None:
    """Let JAX say on which devices a program with this primitive runs: whoever splits a call has to know."""
    dispatch.prim_requires_devices_during_lowering.add(primitive)


@cache
def _partitioned(operation: str, pool: Pool, dtype: str, shape: Shape) -> Any:
    plan = plan_of(pool, shape, dtype)
    takes, gives = _LIKE_INPUT[operation]
    kept = {"push": plan.residual, "pull": plan.residual}.get(operation)
    like_input = [takes, *((True,) * kept.x + (False,) * kept.y + (False,) * (kept.winners > 0) if kept else ())]
    results = 2 if operation == "linearize" else 1

    def local(*arrays: Any) -> Any:
        """One device's part, or all of it."""
        own = list(shape)
        for d, place in zip(_carried(plan, True), _carried(plan, takes), strict=True):
            own[d] = arrays[0].shape[place]
        return getattr(cpu, operation)(plan_of(pool, tuple(own), dtype), *arrays)

    def shardings(mesh: Any, given: Any) -> tuple[Any, Any]:
        """Those of the arguments and of the results: along each carried axis, the first that an argument has."""
        specs = [[_at(a.sharding, d) for d in _carried(plan, of)] for a, of in zip(given, like_input, strict=True)]
        entries = _once(next((e for e in each if e is not None), None) for each in zip(*specs, strict=True))
        found = [NamedSharding(mesh, _spec(plan, of, entries)) for of in (*like_input, gives)]
        return tuple(found[:-1]), found[-1] if results == 1 else (found[-1],) * results

    def partition(mesh: Any, given: Any, result: Any) -> Any:
        arguments, results = shardings(mesh, given)
        return mesh, local, results, arguments

    def infer(mesh: Any, given: Any, result: Any) -> Any:
        return shardings(mesh, given)[1]

    wrapped = custom_partitioning(local)
    left = ", ".join(_factors(plan, of) for of in like_input)
    wrapped.def_partition(
        partition,
        infer_sharding_from_operands=infer,
        sharding_rule=f"{left} -> {', '.join([_factors(plan, gives)] * results)}",
    )
    return wrapped


def _at(sharding: Any, d: int) -> Any:
    spec = getattr(sharding, "spec", ())
    return spec[d] if d < len(spec) else None


def _once(entries: Any) -> list[Any]:
    """The entries, of which none names an axis of the mesh that one before it has named."""
    named: set[Any] = set()
    found = []
    for entry in entries:
        names = set(entry if isinstance(entry, tuple) else (entry,)) - {None}
        found.append(None if names & named else entry)
        named |= names
    return found


def _factors(plan: Plan, of_input: bool) -> str:
    """The axes of an array by name, as a rule of sharding has them: the carried ones have the same in x and y."""
    carried = _carried(plan, of_input)
    length = len(plan.shape if of_input else plan.output_shape)
    pooled = "i" if of_input else "o"
    return " ".join(f"c{carried.index(d)}" if d in carried else f"{pooled}{d}" for d in range(length))
