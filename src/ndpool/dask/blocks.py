"""Graphs: which chunks a piece is made of, and one task for each chunk of the result.

Chunks are cut only where a piece ends within them. The number of tasks is linear in the number of chunks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise, product
from operator import itemgetter
from typing import Any, TypeAlias

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from . import tasks

Chunks: TypeAlias = tuple[tuple[int, ...], ...]
Range: TypeAlias = tuple[int, int]
Layer: TypeAlias = dict[Any, Any]


def edges_of(lengths: Sequence[int]) -> tuple[int, ...]:
    """Where chunks begin, and where the last ends.

    >>> edges_of((4, 4, 2))
    (0, 4, 8, 10)
    """
    return (0, *accumulate(lengths))


def ranges_of(lengths: Sequence[int]) -> list[Range]:
    """Where each chunk begins and ends."""
    edges = edges_of(lengths)
    return list(pairwise(edges))


def chunks_between(edges: Sequence[int]) -> tuple[int, ...]:
    return tuple(b - a for a, b in pairwise(edges))


class Cells:
    """A Dask array as the chunks of which pieces are made; what is cut for them is put into a layer of the graph."""

    def __init__(self, x: da.Array, name: str, layer: Layer) -> None:
        self._x, self._name, self._layer, self._count = x, name, layer, 0
        self._edges = [edges_of(lengths) for lengths in x.chunks]
        self._found: list[dict[Range, list[tuple[int, slice | None]]]] = [{} for _ in self._edges]

    def __call__(self, ranges: Sequence[Range]) -> Any:
        """Nested lists of the keys of chunks, and of parts of chunks, that make up these cells."""
        along = [self._along(d, each) for d, each in enumerate(ranges)]
        return self._nested(along, ())

    def _along(self, d: int, cells: Range) -> list[tuple[int, slice | None]]:
        """The chunks along one axis, each with the part that is taken, or None for all of it."""
        known = self._found[d]
        if cells not in known:
            known[cells] = list(self._overlaps(self._edges[d], *cells))
        return known[cells]

    @staticmethod
    def _overlaps(edges: tuple[int, ...], begin: int, end: int) -> Iterator[tuple[int, slice | None]]:
        i = max(0, min(bisect_right(edges, begin) - 1, len(edges) - 2))
        while True:
            low, high = max(begin, edges[i]), min(end, edges[i + 1])
            if high > low or begin == end:
                whole = (low, high) == (edges[i], edges[i + 1])
                yield i, None if whole else slice(low - edges[i], high - edges[i])
            i += 1
            if i >= len(edges) - 1 or edges[i] >= end:
                return

    def _nested(self, along: list[list[tuple[int, slice | None]]], chosen: tuple[tuple[int, slice | None], ...]) -> Any:
        if len(chosen) < len(along):
            return [self._nested(along, (*chosen, each)) for each in along[len(chosen)]]
        key = (self._x.name, *(i for i, _ in chosen))
        if all(part is None for _, part in chosen):
            return key
        cut = (self._name, self._count)
        self._count += 1
        self._layer[cut] = (tasks.cut, key, tuple(slice(None) if part is None else part for _, part in chosen))
        return cut


def built(
    what: str,
    inputs: Sequence[da.Array | None],
    chunks: Chunks,
    dtype: np.dtype[Any],
    task: Callable[[tuple[Range, ...], list[Cells | None]], tuple[Any, ...]],
    *said: Any,
) -> da.Array:
    """The Dask array that has these chunks, and `task(ranges, cells)` for the chunk that is at `ranges`.

    The task gets the inputs as `Cells`, in their order. `said` is what else makes it another task, by how it is
    written.
    """
    given = [x for x in inputs if x is not None]
    token = tokenize(what, *(x.name for x in given), chunks, repr(said))
    name = f"{what}-{token}"
    layer: Layer = {}
    cells = [None if x is None else Cells(x, f"{what}-cells-{j}-{token}", layer) for j, x in enumerate(inputs)]
    along = [list(enumerate(ranges_of(lengths))) for lengths in chunks]
    for places in product(*along):
        ranges = tuple(found for _, found in places)
        layer[(name, *(i for i, _ in places))] = task(ranges, cells)
    graph = HighLevelGraph.from_collections(name, layer, dependencies=given)
    return da.Array(graph, name, chunks, dtype=dtype)


def entry(pairs: da.Array, which: int, dtype: np.dtype[Any]) -> da.Array:
    """The array of the first or the second of the pairs that tasks have made."""
    name = f"{pairs.name}-{which}"
    keys = product(*(range(len(lengths)) for lengths in pairs.chunks))
    layer = {(name, *key): (itemgetter(which), (pairs.name, *key)) for key in keys}
    graph = HighLevelGraph.from_collections(name, layer, dependencies=[pairs])
    return da.Array(graph, name, pairs.chunks, dtype=dtype)
