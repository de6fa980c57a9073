"""What a program keeps for its backward sweep, and how many bytes that takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .kinds import Avg, Max, Min, Sum
from .ops import Flatten, Reshape, Transpose
from .pool import Pool
from .windows import layout

if TYPE_CHECKING:
    from .program import Program

VIEWS = (Flatten, Reshape, Transpose)


def winner_bytes(pool: Pool, shape: Sequence[int]) -> int:
    """What the winners of a Max or Min take: for each output its place in the window, in the smallest unsigned type.

    >>> from ndpool import Max, Pool, Window
    >>> winner_bytes(Pool(Max(), Window((2, 2))), (8, 8)), winner_bytes(Pool(Max(), Window((17, 17))), (17, 17))
    (16, 2)
    """
    laid = layout(pool.window, pool.axes, tuple(shape), None)
    largest_place = math.prod(axis.kernel for axis in laid.geometry) - 1
    return math.prod(laid.output_shape) * np.min_scalar_type(largest_place).itemsize


def kept(program: Program, i: int) -> tuple[set[int], int]:
    """What the pullback of node i holds on to: values of nodes, and bytes of its own."""
    node = program.nodes[i]
    keeps = getattr(node.op, "keeps", "inputs")
    own = 0
    if isinstance(node.op, Pool):
        if isinstance(node.op.kind, Max | Min) and node.op.kind.ties == "first":
            return set(), winner_bytes(node.op, program.nodes[node.inputs[0]].shape)
        keeps = "nothing" if isinstance(node.op.kind, Sum | Avg) else "inputs"
        # Which cells won is found again from the output, of which the pullback has a copy.
        own = node.nbytes if isinstance(node.op.kind, Max | Min) else 0
    values = {"nothing": (), "inputs": node.inputs, "output": (i,)}[keeps]
    return {_memory_of(program, j) for j in values}, own


def _memory_of(program: Program, i: int) -> int:
    """The node whose memory the value of node i lies in: a reshaped array is a view of what it was made from."""
    while isinstance(program.nodes[i].op, VIEWS):
        (i,) = program.nodes[i].inputs
    return i
