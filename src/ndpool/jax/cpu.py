"""The native engine inside of compiled programs: XLA calls it itself, with its own buffers, and without Python.

Each operation is a foreign function that XLA knows by name. The plan goes with the call, as a text: what is compiled,
cached or exported says all that it computes, in whatever process it runs.
"""

from __future__ import annotations

import struct
from typing import Any

import jax
import jax.export
import jax.numpy as jnp

from .. import _engine, native
from ..plan import Plan

#: How XLA knows each operation of the engine.
_TARGETS = {name: f"ndpool_{name}" for name in _engine.xla_handlers()}


def register() -> None:
    """Let XLA know the engine's operations."""
    for name, handler in _engine.xla_handlers().items():
        jax.ffi.register_ffi_target(_TARGETS[name], handler, platform="cpu")


def export_checks() -> list[Any]:
    """What `jax.export.export` wants to hear of programs that call the engine: give it as `disabled_checks`.

    JAX exports foreign functions only where someone vouches for them. A program that is exported so runs wherever
    `ndpool.jax` has been imported.

    >>> str(export_checks()[0])
    'custom_call:ndpool_forward'
    """
    return [jax.export.DisabledSafetyCheck.custom_call(target) for target in _TARGETS.values()]


def text_of(plan: Plan) -> str:
    """The plan as the engine's foreign functions read it.

    >>> from ndpool import Max, Pool, Window
    >>> from ndpool.plan import plan_of
    >>> print(text_of(plan_of(Pool(Max(), Window(2), axes=(1,)), (8, 6), "float32")).replace(";", "\\n"))
    kind=max
    option=first
    parameter=0
    dtype=float32
    result=float32
    derivative=float32
    winners=1
    dims=8 6,3,2,2,1,0,0,0
    skip=
    pooled=1
    """
    asked = native.request(plan)
    fields = {
        "kind": asked["kind"],
        "option": asked["option"],
        "parameter": struct.unpack("<Q", struct.pack("<d", asked["parameter"]))[0],
        "dtype": asked["dtype"],
        "result": asked["result"],
        "derivative": asked["derivative"],
        "winners": asked["winner_bytes"],
        "dims": " ".join(_listed(dim) for dim in asked["dims"]),
        "skip": _listed(asked["skip"] or ()),
        "pooled": _listed(asked["pooled"]),
    }
    return ";".join(f"{name}={value}" for name, value in fields.items())


def _listed(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def _call(operation: str, plan: Plan, results: Any, *arrays: Any) -> Any:
    native.engine_plan(plan)  # says what is too large before anything is compiled
    if all(0 in result.shape for result in jax.tree.leaves(results)):
        return jax.tree.map(lambda result: jnp.zeros(result.shape, result.dtype), results)
    return jax.ffi.ffi_call(_TARGETS[operation], results)(*arrays, plan=text_of(plan))


def forward(plan: Plan, x: Any) -> Any:
    """`y`."""
    return _call("forward", plan, jax.ShapeDtypeStruct(plan.output_shape, plan.result), x)


def linearize(plan: Plan, x: Any) -> Any:
    """`y` and the winners, of a plan that keeps these."""
    y = jax.ShapeDtypeStruct(plan.output_shape, plan.result)
    winners = jax.ShapeDtypeStruct(plan.output_shape, f"uint{8 * plan.residual.winners}")
    return _call("linearize", plan, (y, winners), x)


def push(plan: Plan, t: Any, *kept: Any) -> Any:
    """`dy = J t`."""
    return _call("push", plan, jax.ShapeDtypeStruct(plan.output_shape, plan.derivative), t, *kept)


def pull(plan: Plan, g: Any, *kept: Any) -> Any:
    """`gx = J^T g`."""
    return _call("pull", plan, jax.ShapeDtypeStruct(plan.shape, plan.derivative), g, *kept)
