"""The engine's ways: each operation by a way that is asked for, into memory beside which nothing may be written.

All arrays are contiguous. A path is the name of a way, "stream" for results that go past the caches, or both with "+".
"""

from __future__ import annotations

import math
from contextlib import contextmanager

import numpy as np

from ndpool.native import engine_plan
from ndpool.plan import plan_of


def planned(pool, x):
    plan = plan_of(pool, x.shape, x.dtype.name)
    return plan, engine_plan(plan)


def ways(pool, x, operation):
    """The names of all ways that the operation can go, the engine's choice first."""
    return planned(pool, x)[1].paths(operation)


@contextmanager
def guarded(shape, dtype, offset=0):
    """An array that starts so many elements after a whole line of the cache; nothing beside it may be written."""
    size = math.prod(shape)
    memory = np.full(size + 128, 7, dtype)
    start = -memory.ctypes.data % 64 // memory.itemsize + offset
    beside = np.delete(memory, np.s_[start : start + size])
    yield memory[start : start + size].reshape(shape)
    assert (np.delete(memory, np.s_[start : start + size]) == beside).all()


def forward_by(pool, x, path="", offset=0):
    plan, native = planned(pool, x)
    with guarded(plan.output_shape, plan.result, offset) as y:
        native.forward(computed(plan, x), y, path=path)
    return y


def winners_by(pool, x, path="", offset=0):
    plan, native = planned(pool, x)
    places = np.dtype(f"u{plan.residual.winners}")
    with guarded(plan.output_shape, plan.result, offset) as y, guarded(plan.output_shape, places, offset) as winners:
        native.linearize(computed(plan, x), y, winners, path=path)
    return y, winners


def jvp_by(pool, x, t, path="", offset=0):
    plan, native = planned(pool, x)
    t = np.ascontiguousarray(t, plan.derivative)
    shape = plan.output_shape
    with guarded(shape, plan.result, offset) as y, guarded(shape, plan.derivative, offset) as dy:
        native.jvp(computed(plan, x), t, y, dy, path=path)
    return y, dy


def push_by(pool, x, t, path="", offset=0):
    plan, native = planned(pool, x)
    y, winners = winners_by(pool, x) if plan.residual.winners else (forward_by(pool, x), None)
    t = np.ascontiguousarray(t, plan.derivative)
    with guarded(plan.output_shape, plan.derivative, offset) as dy:
        native.push(computed(plan, x), y, winners, t, dy, path=path)
    return dy


def vjp_by(pool, x, g, path="", offset=0):
    plan, native = planned(pool, x)
    y, winners = winners_by(pool, x) if plan.residual.winners else (forward_by(pool, x), None)
    g = np.ascontiguousarray(g, plan.derivative)
    with guarded(x.shape, plan.derivative, offset) as gx:
        native.pull(computed(plan, x), y, winners, g, gx, path=path)
    return gx


def computed(plan, x):
    """The input as the engine reads it."""
    return np.ascontiguousarray(x, plan.dtype)
