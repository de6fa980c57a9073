"""How far float32 may take a network from its exact numbers: values and bounds of their errors, node by node.

    |W x + b - computed|  <=  |W| e_x + (n + 1) u (|W| (|x| + e_x) + |b|)        u = 2^-24, n products in a sum

and likewise for the others: a maximum moves by no more than its cells do, a norm by no more than the norm of their
moves.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kinds import Avg, Lp, Max, Min, SmoothMax, Sum
from ..ops import Conv, Linear, Softmax
from ..plan import plan_of
from ..pool import Pool
from ..program import Program

Array = NDArray[Any]

#: Half a last place of float32, relative.
ROUNDING = 2.0**-24


def with_errors(program: Program, x: Array) -> tuple[Array, Array]:
    """The output for x in float64, weights rounded to float32, and how far float32 may be from it."""
    found: dict[int, tuple[Array, Array]] = {}
    for i, node in enumerate(program.nodes):
        if node.op is None:
            value = x if node.constant is None else np.asarray(node.constant, np.float32)
            found[i] = value.astype(np.float64), np.zeros(value.shape)
        else:
            values, errors = zip(*(found[j] for j in node.inputs), strict=True)
            y = np.asarray(node.op(*values), np.float64)
            found[i] = y, _error(node.op, y, values, errors[0])
    return found[program.outputs[0]]


def _error(op: Any, y: Array, values: tuple[Array, ...], e: Array) -> Array:
    x = values[0]
    if isinstance(op, Conv | Linear):
        w = np.abs(values[1])
        products = math.prod(w.shape[1:])
        return np.asarray(op(e, w) + (products + 1) * ROUNDING * op(np.abs(x) + e, w, *map(np.abs, values[2:])))
    if isinstance(op, Softmax):
        cells = x.shape[op.axis]
        return np.asarray(y * (np.expm1(2 * e.max(initial=0.0)) + (cells + 8) * ROUNDING))
    if isinstance(op, Pool):
        return _error_of_pool(op, y, x, e)
    return np.asarray(op(e))  # relu and views


def _error_of_pool(pool: Pool, y: Array, x: Array, e: Array) -> Array:
    most = Pool(Max(), pool.window, pool.axes)
    cells = plan_of(most, x.shape, "float64").cells
    kind = pool.kind
    if isinstance(kind, Sum | Avg):
        return np.asarray(pool(e) + (cells + 1) * ROUNDING * pool(np.abs(x) + e))
    if isinstance(kind, Lp):
        return np.asarray(pool(e) + (cells + 4) * ROUNDING * (y + pool(e)))
    if isinstance(kind, SmoothMax):
        size = np.abs(y) + (1 + math.log(cells)) / abs(kind.beta)
        return np.asarray(np.full(y.shape, e.max(initial=0.0)) + (cells + 8) * ROUNDING * size)
    assert isinstance(kind, Max | Min)
    return np.asarray(most(e))
