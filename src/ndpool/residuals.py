"""What derivatives keep of a forward sweep, and how many bytes that takes.

A pool's plan says what its derivative keeps; the other ops say it by `keeps`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .ops import Flatten, Reshape, Shape, Transpose
from .plan import COMPUTED_AS, plan_of
from .pool import Pool

if TYPE_CHECKING:
    from .program import Program

VIEWS = (Flatten, Reshape, Transpose)


class PoolKeeps(NamedTuple):
    """What the derivative of a pool keeps: the input itself or not, and the bytes of winners and of copies.

    A copy is one of the output, or of an input that the engine computes in another dtype.
    """

    x: bool = False
    winners: int = 0
    copies: int = 0


def kept_by_pool(pool: Pool, shape: Shape, dtype: np.dtype[Any]) -> PoolKeeps:
    """What the derivative of a pool keeps of an input of this shape and dtype.

    >>> from ndpool import Avg, Max, Window
    >>> kept_by_pool(Pool(Max(), Window((2, 2))), (8, 8), np.dtype(np.float32))
    PoolKeeps(x=False, winners=16, copies=0)
    >>> kept_by_pool(Pool(Max("all"), Window((2, 2))), (8, 8), np.dtype(np.float32))
    PoolKeeps(x=True, winners=0, copies=64)
    """
    try:
        plan = plan_of(pool, shape, dtype.name)
    except TypeError:  # No engine computes this; the specification keeps the input.
        return PoolKeeps(x=True)
    if plan.residual.winners:
        return PoolKeeps(winners=plan.residual_bytes)
    as_it_is = plan.dtype == COMPUTED_AS.get(plan.input, plan.input) and dtype.isnative
    x = plan.residual.x and as_it_is
    return PoolKeeps(x, copies=plan.residual_bytes - (math.prod(shape) * dtype.itemsize if x else 0))


def kept(program: Program, i: int) -> tuple[set[int], int]:
    """What the pullback of node i keeps: the values of these nodes, and so many bytes of its own."""
    node = program.nodes[i]
    if isinstance(node.op, Pool):
        (j,) = node.inputs
        keeps = kept_by_pool(node.op, program.nodes[j].shape, program.nodes[j].dtype)
        return {_memory_of(program, j)} if keeps.x else set(), keeps.winners + keeps.copies
    values = {"nothing": (), "inputs": node.inputs, "output": (i,)}[getattr(node.op, "keeps", "inputs")]
    return {_memory_of(program, j) for j in values}, 0


def _memory_of(program: Program, i: int) -> int:
    """The node whose memory the value of node i lies in: a reshaped array is a view of what it was made from."""
    while isinstance(program.nodes[i].op, VIEWS):
        (i,) = program.nodes[i].inputs
    return i
