"""What one task does: a piece of a pool, on NumPy arrays, with one thread of the engine.

A piece comes as the plan of the whole, the outputs that are asked for along each pooled axis, and the cells that these
see, in the nested lists of chunks that they were cut from. The scheduler runs several tasks at once; so a task has one
thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from ..arrays import Array, as_array
from ..memory import Arrays, KeptArrays
from ..pieces import Piece, piece, plan_of_piece
from ..plan import Plan

#: The first output and the one after the last, along each pooled axis.
Outputs: TypeAlias = tuple[tuple[int, int], ...]
Blocks: TypeAlias = Any


class Job:
    """A piece of a plan, ready for arrays: these are put among what its bins have beside them, and results cut out."""

    def __init__(self, plan: Plan, outputs: Outputs, lengths: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.pieces = tuple(piece(axis, *o) for axis, o in zip(plan.geometry, outputs, strict=True))
        self.arrays = _arrays(plan_of_piece(plan, self.pieces, lengths), dtype)
        self._exact = all(p.is_exact for p in self.pieces)
        along = dict(zip(plan.axes, self.pieces, strict=True))
        places = range(len(lengths))
        self._cells = tuple(_from(along[d].cell, along[d].end - along[d].begin) if d in along else _ALL for d in places)
        self._outputs = tuple(
            _from(along[d].output, along[d].stop - along[d].first) if d in along else _ALL for d in places
        )

    def inside(self, x: Array) -> Array:
        """Cells, on the axes that compute them."""
        return np.ascontiguousarray(x) if self._exact else _within(x, self.arrays.plan.shape, self._cells)

    def cotangent(self, g: Array) -> Array:
        """An array shaped like the outputs, likewise."""
        return np.ascontiguousarray(g) if self._exact else _within(g, self.arrays.plan.output_shape, self._outputs)

    def output(self, y: Array) -> Array:
        return y if self._exact else np.ascontiguousarray(y[self._outputs])

    def input(self, gx: Array) -> Array:
        return gx if self._exact else gx[self._cells]

    def kept(self, x: Blocks, y: Blocks, winners: Blocks) -> KeptArrays:
        """What the derivative keeps; None for what it does not."""
        memory = None if x is None else self.arrays.inside(self.inside(assembled(x)))
        return memory, *(None if a is None else self.cotangent(assembled(a)) for a in (y, winners))  # type: ignore[return-value]


_ALL = slice(None)


def _from(start: int, count: int) -> slice:
    return slice(start, start + count)


def _within(a: Array, shape: tuple[int, ...], place: tuple[slice, ...]) -> Array:
    room = np.zeros(shape, a.dtype)
    room[place] = a
    return room


@lru_cache(512)
def _arrays(plan: Plan, dtype: np.dtype[Any]) -> Arrays:
    """The same for all pieces of one size, as nearly all are."""
    return Arrays(plan, dtype, threads=1)


# --- operations -----------------------------------------------------------------------------------


def forward(plan: Plan, outputs: Outputs, x: Blocks) -> Array:
    """`y`."""
    x = assembled(x)
    job = Job(plan, outputs, x.shape, x.dtype)
    return job.output(job.arrays.forward(job.inside(x)))


def linearize(plan: Plan, outputs: Outputs, x: Blocks) -> tuple[Array, Array]:
    """`y`, and the winners as places in their windows."""
    x = assembled(x)
    job = Job(plan, outputs, x.shape, x.dtype)
    y, kept = job.arrays.linearize(job.inside(x))
    assert kept[2] is not None
    return job.output(y), job.output(kept[2])


def jvp(plan: Plan, outputs: Outputs, x: Blocks, t: Blocks) -> tuple[Array, Array]:
    """`y`, and its change along `t`."""
    x, t = assembled(x), assembled(t)
    job = Job(plan, outputs, x.shape, x.dtype)
    y, dy = job.arrays.jvp(job.inside(x), job.inside(t))
    return job.output(y), job.output(dy)


def push(plan: Plan, outputs: Outputs, dtype: np.dtype[Any], x: Blocks, y: Blocks, winners: Blocks, t: Blocks) -> Array:
    """`dy = J t`, from what the derivative keeps."""
    t = assembled(t)
    job = Job(plan, outputs, t.shape, dtype)
    kept = job.kept(x, y, winners)
    return job.output(job.arrays.push(kept, job.inside(t)))


def pull(
    plan: Plan,
    outputs: Outputs,
    dtype: np.dtype[Any],
    chunk: tuple[tuple[int, int], ...],
    x: Blocks,
    y: Blocks,
    winners: Blocks,
    g: Blocks,
) -> Array:
    """`gx` of one chunk of the input, from all the outputs that see it: nothing is added to it anywhere else."""
    g = assembled(g)
    job = Job(plan, outputs, g.shape, dtype)
    kept = job.kept(x, y, winners)
    gx = job.input(job.arrays.pull(kept, job.cotangent(g)))
    return _cut_out(gx, plan, job.pieces, chunk)


def _cut_out(gx: Array, plan: Plan, pieces: Sequence[Piece], chunk: tuple[tuple[int, int], ...]) -> Array:
    """The cells of the chunk, of which those that no output sees are 0."""
    along = dict(zip(plan.axes, pieces, strict=True))
    shape, source, target = [], [], []
    for d, (begin, end) in enumerate(chunk):
        shape.append(end - begin)
        low, high = (along[d].begin, along[d].end) if d in along else (begin, end)
        first, last = max(low, begin), min(high, end)
        source.append(slice(first - low, max(first, last) - low))
        target.append(slice(first - begin, max(first, last) - begin))
    if all(s == slice(0, n) for s, n in zip(target, shape, strict=True)):
        return np.ascontiguousarray(gx[tuple(source)])
    room = np.zeros(shape, gx.dtype)
    room[tuple(target)] = gx[tuple(source)]
    return room


def unseen(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """The gradient of a chunk that no output sees."""
    return np.zeros(shape, dtype)


def indices(plan: Plan, outputs: Outputs, dtype: np.dtype[Any], winners: Blocks) -> Array:
    """Where winners stand: their flat row-major index over the pooled axes of the whole."""
    winners = assembled(winners)
    job = Job(plan, outputs, winners.shape, dtype)
    found = job.output(job.arrays.indices(job.cotangent(winners)))
    return global_indices(found, [p.axis.length for p in job.pieces], job.pieces, plan)


def global_indices(found: Array, lengths: Sequence[int], pieces: Sequence[Piece], plan: Plan) -> Array:
    """Flat indices over axes of these lengths as flat indices over those of the whole; -1 stays."""
    places = np.unravel_index(np.maximum(found, 0), tuple(lengths))
    flat = np.zeros_like(found)
    for place, p, axis in zip(places, pieces, plan.geometry, strict=True):
        flat = flat * axis.length + (place + (p.begin - p.cell))
    return np.where(found < 0, found, flat)


# --- chunks ---------------------------------------------------------------------------------------


def cut(block: Array, place: tuple[slice, ...]) -> Array:
    """Some cells of a chunk. A small part is copied, so that it does not keep the chunk in memory."""
    part = as_array("a chunk of x", block)[place]
    return part.copy() if 2 * part.size < block.size else part


def assembled(blocks: Blocks) -> Array:
    """Nested lists of chunks as one array, copied once; a chunk that is alone is taken as it is.

    >>> assembled([[np.array([[1, 2]]), np.array([[3]])]])
    array([[1, 2, 3]])
    """
    first = blocks
    depth, alone = 0, True
    while isinstance(first, list):
        alone &= len(first) == 1
        first, depth = first[0], depth + 1
    if alone:
        return as_array("a chunk of x", first)
    lengths = []
    along = blocks
    for d in range(depth):
        lengths.append([_first(b).shape[d] for b in along])
        along = along[0]
    whole = np.empty([sum(each) for each in lengths], first.dtype)
    _fill(whole, blocks, 0)
    return whole


def _first(block: Blocks) -> Any:
    while isinstance(block, list):
        block = block[0]
    return block


def _fill(room: Array, blocks: Blocks, d: int) -> None:
    if not isinstance(blocks, list):
        room[...] = as_array("a chunk of x", blocks)
        return
    start = 0
    for block in blocks:
        length = _first(block).shape[d]
        _fill(room[(_ALL,) * d + (slice(start, start + length),)], block, d + 1)
        start += length
