"""One window over whole axes, from the partial results of chunks.

A Global sees all chunks, which do not fit into memory together. So each chunk gives a partial result, and the answer is
the same pool of these, or nearly so:

    Max, Min     the largest of the largest, and of those the one with the smallest index
    Sum, Avg     the sum of the sums, each in two floats: the sum, and what was lost when it was rounded
    SmoothMax    log(sum exp(beta y_c)) / beta over the partial results y_c; a chunk of skipped cells is exp(..) = 0
    Lp           (sum y_c^p)^(1/p)

Partial results are arrays of float64 with an entry for each chunk. They are pooled in groups, in an order that their
places give and not the time at which they are ready. Other kinds have no partial results, and take all cells of a
window in one task.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, reduce
from typing import Any

import dask.array as da
import numpy as np

from ..arrays import Array
from ..kind import INTEGERS, Kind
from ..kinds import Avg, Lp, Max, Min, SmoothMax, Sum
from ..memory import Arrays, Kept
from ..plan import plan_of
from ..pool import Pool
from ..windows import Global
from . import dispatch
from .blocks import Range, built, entry, ranges_of
from .tasks import Blocks, assembled

#: As many partial results are pooled in one task.
_GROUP = 4096

_WIDE = np.dtype(np.float64)


def are_for(pool: Pool, x: Any) -> bool:
    """Whether a pool of such an array is made of partial results: several chunks a window, and a kind that can."""
    kinds = (Max, Min, Sum, Avg, SmoothMax, Lp)
    if not isinstance(pool.window, Global) or type(pool.kind) not in kinds or getattr(pool.kind, "rounding", None):
        return False
    return bool(math.prod(x.numblocks[d] for d in pool._layout(x.shape).axes) > 1)


def forward(pool: Pool, x: da.Array) -> da.Array:
    """`y`."""
    tree = Tree(pool, x)
    return tree.flat(tree.value())


def with_indices(pool: Pool, x: da.Array) -> tuple[da.Array, da.Array]:
    """`y`, and the flat index of the first winner over the pooled axes."""
    tree = Tree(pool, x)
    y, indices = tree.first()
    return tree.flat(y), tree.flat(indices)


def linearize(pool: Pool, x: da.Array) -> tuple[da.Array, TreeLinear]:
    """`y`, and the derivative at x."""
    tree = Tree(pool, x)
    y, winners = tree.first() if pool.keeps == "winners" else (tree.value(), None)
    return tree.flat(y), TreeLinear(tree, y, winners)


class Tree:
    """A pool of one of these kinds over all of some axes, which are kept until the end."""

    def __init__(self, pool: Pool, x: da.Array) -> None:
        self.pool, self.x = pool, x
        self.plan = plan_of(pool, x.shape, x.dtype.name)  # which checks all that there is to check
        self.axes, self.kind = self.plan.axes, pool.kind
        self.name = f"ndpool-{self.plan.kind}"
        self.result = x.dtype if self.plan.result == self.plan.input else np.dtype(self.plan.result)
        self.derivative = x.dtype if self.plan.derivative == self.plan.input else np.dtype(self.plan.derivative)
        self.cells = math.prod(x.shape[d] for d in self.axes)

    def flat(self, y: da.Array) -> da.Array:
        return dispatch._flat(self.pool, y)

    # --- values ---

    def value(self) -> da.Array:
        kind = self.kind
        if isinstance(kind, Max | Min):
            y = pooled(type(kind)(), self._partial("extreme", type(kind)(), self.x.dtype), self.axes, self.pool.skip)
        elif isinstance(kind, Sum | Avg):
            y = self.sum() if isinstance(kind, Sum) else self.sum() / self.divisor()
        else:
            y = pooled(kind, self.partials(), self.axes)
        return self.unless_few(y, self.pool.skip).astype(self.result)

    def sum(self) -> da.Array:
        return pooled(Sum(), self._partial("sum", Sum(), self._sum_dtype(), halves=True), self.axes)

    def _sum_dtype(self) -> np.dtype[Any]:
        """Integers are summed as such, but where 64 bits of them are for a mean."""
        name = self.x.dtype.name
        if name in INTEGERS and (isinstance(self.kind, Sum) or not name.endswith("64")):
            return np.dtype(Sum().result_name(name))
        return np.dtype(np.complex128) if self.plan.is_complex else _WIDE

    def partials(self) -> da.Array:
        """The result of each chunk, for the smooth kinds."""
        return self._partial("smooth", self.kind, _WIDE)

    def _partial(self, what: str, kind: Kind, dtype: np.dtype[Any], halves: bool = False) -> da.Array:
        """An array with an entry for each chunk of x; two for sums of which something may have been lost."""
        halves = halves and self.x.dtype == _WIDE
        entries = 2 if halves else 1
        last = self.axes[-1]
        found = [ranges_of(lengths) for lengths in self.x.chunks]
        chunks = tuple(
            (entries if d == last else 1,) * len(lengths) if d in self.axes else lengths
            for d, lengths in enumerate(self.x.chunks)
        )
        task = _TASKS[what]

        def made(ranges: tuple[Range, ...], given: list[Any]) -> tuple[Any, ...]:
            cells = tuple(
                found[d][each[0] // (entries if d == last else 1)] if d in self.axes else each
                for d, each in enumerate(ranges)
            )
            return task, kind, self.axes, self.pool.skip, dtype, given[0](cells)

        said = kind, self.axes, self.pool.skip, dtype
        return built(f"{self.name}-partial", [self.x], chunks, dtype, made, what, said)

    # --- cells that are there ---

    def count(self) -> da.Array:
        """How many cells are there, where some are skipped."""
        return pooled(Sum(), self._partial("count", Sum(), np.dtype(np.int64)), self.axes)

    def divisor(self) -> Any:
        """What a sum is divided by to be a mean."""
        fixed = getattr(self.kind, "divisor_override", None)
        if fixed is not None:
            return fixed
        return self.cells if self.pool.skip is None else da.maximum(self.count(), 1)

    def unless_few(self, y: da.Array, few: Any) -> da.Array:
        """`y`, with `few` where fewer cells are there than there have to be."""
        if self.pool.skip is None:
            return y
        return da.where(self.count() >= self.pool.min_count, y, np.asarray(few).astype(y.dtype))

    # --- winners ---

    def first(self) -> tuple[da.Array, da.Array]:
        """The extreme, and where it stands first."""
        lengths = tuple(self.x.shape[d] for d in self.axes)
        found = [ranges_of(each) for each in self.x.chunks]
        chunks = tuple((1,) * len(c) if d in self.axes else c for d, c in enumerate(self.x.chunks))

        def made(ranges: tuple[Range, ...], given: list[Any]) -> tuple[Any, ...]:
            cells = tuple(found[d][each[0]] if d in self.axes else each for d, each in enumerate(ranges))
            starts = tuple(cells[d][0] for d in self.axes)
            return first_of_chunk, self.kind, self.axes, self.pool.skip, starts, lengths, given[0](cells)

        said = self.kind, self.axes, self.pool.skip
        pairs = built(f"{self.name}-first", [self.x], chunks, self.x.dtype, made, said)
        while math.prod(pairs.numblocks[d] for d in self.axes) > 1:
            pairs = self._first_of_groups(pairs)
        y, indices = entry(pairs, 0, self.x.dtype), entry(pairs, 1, np.dtype(np.int64))
        return self.unless_few(y, self.pool.skip), self.unless_few(indices, -1)

    def _first_of_groups(self, pairs: da.Array) -> da.Array:
        """One pair for each group of pairs, which are not arrays yet and cannot be cut."""
        side = _side(len(self.axes))
        groups = tuple(
            tuple(len(c[i : i + side]) for i in range(0, len(c), side)) if d in self.axes else c
            for d, c in enumerate(pairs.chunks)
        )
        places = [ranges_of(each) for each in groups]
        chunks = tuple((1,) * len(c) if d in self.axes else c for d, c in enumerate(groups))

        def made(ranges: tuple[Range, ...], given: list[Any]) -> tuple[Any, ...]:
            cells = tuple(places[d][each[0]] if d in self.axes else each for d, each in enumerate(ranges))
            return first_of_pairs, self.kind, given[0](cells)

        return built(f"{self.name}-first", [pairs], chunks, self.x.dtype, made, self.kind, self.axes)


class TreeLinear:
    """The derivative J of a pool over whole axes at x, and its transpose."""

    def __init__(self, tree: Tree, y: da.Array, winners: da.Array | None) -> None:
        self._tree, self._y, self._winners = tree, y, winners

    @property
    def residual(self) -> Kept:
        """The arrays that are kept. The place of a winner is its index."""
        tree = self._tree
        keeps = tree.pool.keeps
        return Kept(
            tree.x if keeps in ("x", "x and y") else None,
            tree.flat(self._y) if keeps == "x and y" else None,
            None if self._winners is None else tree.flat(self._winners),
        )

    def indices(self) -> da.Array:
        """Where each winner stands: its flat row-major index over the pooled axes."""
        if self._winners is None:
            raise TypeError(f"{self._tree.kind!r} keeps no winners; call with_indices on the pool")
        return self._tree.flat(self._winners)

    def push(self, t: Any) -> da.Array:
        """`dy = J t`."""
        tree = self._tree
        t = dispatch.direction("t", t, tree.x.shape, tree.plan).astype(tree.derivative).rechunk(tree.x.chunks)
        if self._winners is not None:
            dy = self._summed("push_first", t, self._winners)
        elif isinstance(tree.kind, Sum | Avg):
            dy = self._summed("push_all", t, None)
            dy = dy if isinstance(tree.kind, Sum) else dy / tree.divisor()
        elif isinstance(tree.kind, Max | Min):
            dy = self._shared(self._summed("push_ties", t, self._y))
        else:
            partials, linear = self._of_partials()
            dy = linear.push(self._chunkwise("push_smooth", partials, tree.kind, t, None))
        return tree.flat(tree.unless_few(dy, 0).astype(tree.derivative))

    def pull(self, g: Any, out: None = None) -> da.Array:
        """`gx = J^T g`, in the chunks of x."""
        dispatch.check_no_out(out)
        tree = self._tree
        g = dispatch.direction("g", g, tree.pool.output_shape(tree.x.shape), tree.plan)
        if g.ndim < tree.x.ndim:
            g = da.expand_dims(g, tree.axes)
        g = tree.unless_few(g.astype(tree.derivative), 0)
        if self._winners is not None:
            return self._chunkwise("pull_first", tree.x, tree.kind, self._winners, g)
        if isinstance(tree.kind, Sum | Avg):
            wide = g if isinstance(tree.kind, Sum) else (g / tree.divisor()).astype(tree.derivative)
            return self._chunkwise("pull_all", tree.x, tree.kind, None, wide)
        if isinstance(tree.kind, Max | Min):
            return self._chunkwise("pull_ties", tree.x, tree.kind, self._y, self._shared(g).astype(tree.derivative))
        _, linear = self._of_partials()
        return self._chunkwise("pull_smooth", tree.x, tree.kind, None, linear.pull(g.astype(_WIDE)))

    def _shared(self, a: da.Array) -> da.Array:
        """Each of m winners has the m-th part, where they share."""
        tree = self._tree
        if getattr(tree.kind, "ties", "") != "split":
            return a
        ones = da.ones(tree.x.shape, chunks=tree.x.chunks, dtype=tree.derivative)
        return a / da.maximum(self._summed("push_ties", ones, self._y), 1)

    def _of_partials(self) -> tuple[da.Array, Any]:
        """The partial results of the chunks, and the derivative of what is made of them."""
        tree = self._tree
        partials = tree.partials()
        one = partials.rechunk(dict.fromkeys(tree.axes, -1))
        return partials, dispatch.linearize(Pool(tree.kind, Global(), tree.axes), one)[1]

    def _summed(self, what: str, t: da.Array, y: da.Array | None) -> da.Array:
        """The sum of what each chunk gives."""
        tree = self._tree
        dtype = np.dtype(np.complex128) if tree.plan.is_complex else _WIDE
        chunks = tuple((1,) * len(c) if d in tree.axes else c for d, c in enumerate(tree.x.chunks))
        like = da.empty([sum(c) for c in chunks], chunks=chunks, dtype=dtype)
        return pooled(Sum(), self._chunkwise(what, like, tree.kind, t, y), tree.axes)

    def _chunkwise(self, what: str, like: da.Array, kind: Kind, a: da.Array | None, b: da.Array | None) -> da.Array:
        """A task for each chunk of x, whose result is one of `like`; `a` and `b` are taken where they meet the chunk.

        An array with one cell along the pooled axes meets all chunks; one with a cell for each chunk, its own.
        """
        tree = self._tree
        found = [ranges_of(lengths) for lengths in tree.x.chunks]
        counted = [{each: i for i, each in enumerate(ranges_of(lengths))} for lengths in like.chunks]
        lengths = tuple(tree.x.shape[d] for d in tree.axes)

        def at(array: da.Array | None, cells: Any, places: tuple[int, ...]) -> tuple[Range, ...] | None:
            if array is None:
                return None
            return tuple(
                cells[d]
                if d not in tree.axes or array.shape[d] == tree.x.shape[d]
                else (0, 1)
                if array.shape[d] == 1
                else (places[d], places[d] + 1)
                for d in range(array.ndim)
            )

        def made(ranges: tuple[Range, ...], given: list[Any]) -> tuple[Any, ...]:
            places = tuple(counted[d][each] for d, each in enumerate(ranges))
            cells = tuple(found[d][i] for d, i in enumerate(places))
            starts = tuple(cells[d][0] for d in tree.axes)
            more = [
                None if of is None else of(at(of_array, cells, places))
                for of, of_array in zip(given[1:], (a, b), strict=True)
            ]
            return run_chunk, what, kind, tree.axes, tree.pool.skip, (starts, lengths), given[0](cells), *more

        dtype = tree.derivative if like is tree.x else like.dtype
        said = what, kind, tree.axes, tree.pool.skip, dtype
        return built(f"{tree.name}-{what}", [tree.x, a, b], like.chunks, dtype, made, said)


def pooled(kind: Kind, partials: da.Array, axes: tuple[int, ...], skip: Any = None) -> da.Array:
    """The pool of partial results over whole axes, in groups of them."""
    side = _side(len(axes))
    return dispatch.forward(Pool(kind, Global(), axes, skip), partials.rechunk(dict.fromkeys(axes, side)))


def _side(rank: int) -> int:
    """How long a group is along each axis: more than the two entries that a group of sums becomes."""
    return max(4, int(_GROUP ** (1 / rank)))


# --- what one task does ---------------------------------------------------------------------------


@lru_cache(256)
def _arrays(
    kind: Kind, axes: tuple[int, ...], skip: Any, count: int, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Arrays:
    return Arrays(plan_of(Pool(kind, Global(), axes, skip, count), shape, dtype.name), dtype, threads=1)


def _over(kind: Kind, axes: tuple[int, ...], skip: Any, x: Array, count: int = 1) -> Arrays:
    return _arrays(kind, axes, skip, 1 if skip is None else count, x.shape, x.dtype)


def _there(x: Array, skip: Any) -> Array:
    """Which cells are there."""
    if skip is None:
        return np.ones(x.shape, bool)
    return ~np.isnan(x) if skip != skip else x != np.asarray(skip).astype(x.dtype)


def _extreme(kind: Kind, axes: Any, skip: Any, dtype: Any, x: Blocks) -> Array:
    x = np.ascontiguousarray(assembled(x))
    return _over(kind, axes, skip, x).forward(x)


def _sum(kind: Kind, axes: Any, skip: Any, dtype: np.dtype[Any], x: Blocks) -> Array:
    """The sum of a chunk; of one of float64, two entries: that, and what it lost by rounding."""
    x = np.ascontiguousarray(assembled(x))
    halves = x.dtype == _WIDE
    if skip is not None:
        x = np.where(_there(x, skip), x, np.zeros((), x.dtype))
    if dtype.kind not in "iu":
        x = x.astype(dtype, copy=False)
    y = _over(Sum(), axes, None, x).forward(x)
    if not halves:
        return y.astype(dtype, copy=False)
    # The sum of all cells and of -y is what y lacks.
    last = np.moveaxis(x, axes, range(-len(axes), 0))
    rows = last.reshape(*last.shape[: x.ndim - len(axes)], -1)
    finite = np.where(np.isfinite(y), y, 0)
    with_y = np.concatenate([rows, -finite.reshape(*rows.shape[:-1], 1)], -1)
    lost = _over(Sum(), (rows.ndim - 1,), None, with_y).forward(with_y).reshape(y.shape)
    return np.concatenate([y, np.where(np.isfinite(y), lost, 0)], axes[-1])


def _smooth(kind: Kind, axes: Any, skip: Any, dtype: Any, x: Blocks) -> Array:
    x = np.ascontiguousarray(assembled(x))
    wide = _as_wide(x, skip)
    y = _over(kind, axes, skip, wide).forward(wide)
    if skip is None:
        return y
    nothing = math.copysign(math.inf, -kind.beta) if isinstance(kind, SmoothMax) else 0.0
    return np.where(np.any(_there(x, skip), axes, keepdims=True), y, nothing)


def _as_wide(x: Array, skip: Any) -> Array:
    """Float64, in which the cells that are skipped still equal `skip`, and no others do."""
    wide = x.astype(_WIDE)
    return wide if skip is None else np.where(_there(x, skip), wide, skip)


def _count(kind: Kind, axes: Any, skip: Any, dtype: Any, x: Blocks) -> Array:
    return np.asarray(np.sum(_there(assembled(x), skip), axes, np.int64, keepdims=True))


_TASKS: dict[str, Callable[..., Array]] = {"extreme": _extreme, "sum": _sum, "smooth": _smooth, "count": _count}


def first_of_chunk(kind: Kind, axes: Any, skip: Any, starts: Any, lengths: Any, x: Blocks) -> tuple[Array, Array]:
    """The extreme of a chunk, and the index that its first winner has in the whole."""
    x = np.ascontiguousarray(assembled(x))
    arrays = _over(kind, axes, skip, x)
    y, kept = arrays.linearize(x)
    found = arrays.indices(kept[2])  # type: ignore[arg-type]
    places = np.unravel_index(np.maximum(found, 0), [x.shape[d] for d in axes])
    flat = reduce(lambda flat, each: flat * each[2] + each[0] + each[1], zip(places, starts, lengths, strict=True), 0)
    return y, np.where(found < 0, found, flat)


def first_of_pairs(kind: Kind, pairs: Any) -> tuple[Array, Array]:
    """The extreme of all pairs, and the smallest index of those that have it."""
    listed = _listed(pairs)
    best, index = listed[0]
    for y, i in listed[1:]:
        same = (y == best) | ((y != y) & (best != best))
        wins = (y > best) if isinstance(kind, Max) else (y < best)
        wins |= (y != y) & (best == best)
        wins &= best == best
        wins = (i >= 0) & ((index < 0) | wins | (same & (i < index)))
        best, index = np.where(wins, y, best), np.where(wins, i, index)
    return best, index


def _listed(pairs: Any) -> list[tuple[Array, Array]]:
    return [pairs] if isinstance(pairs, tuple) else [each for inner in pairs for each in _listed(inner)]


def run_chunk(what: str, kind: Kind, axes: Any, skip: Any, place: Any, x: Blocks, a: Blocks, b: Blocks) -> Array:
    """One of the operations below."""
    x = np.ascontiguousarray(assembled(x))
    a, b = (None if each is None else np.ascontiguousarray(assembled(each)) for each in (a, b))
    return _OPERATIONS[what](kind, axes, skip, place, x, a, b)


def _flat_places(axes: Any, place: Any, x: Array, winners: Array) -> tuple[Array, Array]:
    """Where winners stand among the cells of a chunk, in a row, and whether they stand there at all."""
    starts, lengths = place
    within, inside = np.zeros_like(winners), winners >= 0
    for start, d, i in zip(starts, axes, np.unravel_index(np.maximum(winners, 0), lengths), strict=True):
        inside &= (i >= start) & (i < start + x.shape[d])
        within = within * x.shape[d] + (i - start)
    return np.where(inside, within, 0), inside


def _in_rows(x: Array, axes: Any) -> Array:
    """The pooled axes at the end and joined."""
    last = np.moveaxis(x, axes, range(-len(axes), 0))
    return last.reshape(*last.shape[: x.ndim - len(axes)], -1)


def _push_first(kind: Kind, axes: Any, skip: Any, place: Any, x: Array, t: Array, winners: Array) -> Array:
    where, inside = _flat_places(axes, place, x, winners)
    rows = _in_rows(t, axes)
    taken = np.take_along_axis(rows, where.reshape(*rows.shape[:-1], 1), -1).reshape(winners.shape)
    return np.where(inside, taken, 0).astype(_WIDE)


def _pull_first(kind: Kind, axes: Any, skip: Any, place: Any, x: Array, winners: Array, g: Array) -> Array:
    where, inside = _flat_places(axes, place, x, winners)
    moved = np.moveaxis(np.zeros(x.shape, g.dtype), axes, range(-len(axes), 0))
    rows = np.zeros((*moved.shape[: x.ndim - len(axes)], math.prod(x.shape[d] for d in axes)), g.dtype)
    # A sum that is zero is not -0.
    found = (np.where(inside, g, 0) + np.zeros((), g.dtype)).astype(g.dtype).reshape(*rows.shape[:-1], 1)
    np.put_along_axis(rows, where.reshape(found.shape), found, -1)
    return np.ascontiguousarray(np.moveaxis(rows.reshape(moved.shape), range(-len(axes), 0), axes))


def _push_all(kind: Kind, axes: Any, skip: Any, place: Any, x: Array, t: Array, _: None) -> Array:
    t = np.where(_there(x, skip), t, np.zeros((), t.dtype))
    wide = t.astype(np.complex128 if t.dtype.kind == "c" else _WIDE)
    return _over(Sum(), axes, None, wide).forward(wide)


def _pull_all(kind: Kind, axes: Any, skip: Any, place: Any, x: Array, _: None, g: Array) -> Array:
    spread = np.broadcast_to(g + np.zeros((), g.dtype), x.shape)
    return np.where(_there(x, skip), spread, np.zeros((), g.dtype)).astype(g.dtype)


def _ties(x: Array, y: Array, skip: Any) -> Array:
    """Which cells win, in all chunks together. NaNs are equal here."""
    equal: Array = (x == y) | ((x != x) & (y != y))
    return equal & _there(x, skip)


def _push_ties(kind: Kind, axes: Any, skip: Any, place: Any, x: Array, t: Array, y: Array) -> Array:
    wide = np.where(_ties(x, y, skip), t, np.zeros((), t.dtype)).astype(_WIDE)
    return _over(Sum(), axes, None, wide).forward(wide)


def _pull_ties(kind: Kind, axes: Any, skip: Any, place: Any, x: Array, y: Array, g: Array) -> Array:
    zero = np.zeros((), g.dtype)
    return np.where(_ties(x, y, skip), g + zero, zero).astype(g.dtype)


def _push_smooth(kind: Kind, axes: Any, skip: Any, place: Any, x: Array, t: Array, _: None) -> Array:
    wide = _as_wide(x, skip)
    arrays = _over(kind, axes, skip, wide)
    return arrays.push((arrays.inside(wide), None, None), t.astype(_WIDE))


def _pull_smooth(kind: Kind, axes: Any, skip: Any, place: Any, x: Array, _: None, g: Array) -> Array:
    wide = _as_wide(x, skip)
    arrays = _over(kind, axes, skip, wide)
    return arrays.pull((arrays.inside(wide), None, None), g).astype(x.dtype if x.dtype.kind == "f" else _WIDE)


_OPERATIONS: dict[str, Callable[..., Array]] = {
    "push_first": _push_first,
    "pull_first": _pull_first,
    "push_all": _push_all,
    "pull_all": _pull_all,
    "push_ties": _push_ties,
    "pull_ties": _pull_ties,
    "push_smooth": _push_smooth,
    "pull_smooth": _pull_smooth,
}
