"""What a `Pool` does when it is given a Dask array: all that it does with NumPy arrays, lazily and in pieces.

>>> import dask.array as da
>>> from ndpool import Max, Pool, Window
>>> x = da.from_array(np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0]), chunks=2)
>>> y = Pool(Max(), Window((3,), stride=2)).__call__(x)
>>> y.chunks, y.compute()
(((1, 1, 1),), array([4., 5., 9.]))
"""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np

from ..arrays import NATIVE_TYPES, PART_TYPES
from ..memory import Kept
from ..pieces import output_edges, outputs_over, piece
from ..plan import Plan, plan_of
from ..pool import Pool
from ..windows import Global
from . import tasks, trees
from .blocks import Cells, Chunks, Range, built, chunks_between, edges_of, entry

#: Why `out` is refused.
NO_OUT = "a Dask array, and is for NumPy arrays alone; leave it out"


def forward(pool: Pool, x: da.Array) -> da.Array:
    """`y`, a chunk of which has the outputs that start in a chunk of `x`."""
    x = checked("x", x)
    if trees.are_for(pool, x):
        return trees.forward(pool, x)
    return _flat(pool, Whole(pool, x).forward())


def with_indices(pool: Pool, x: da.Array) -> tuple[da.Array, da.Array]:
    """`y`, and the flat index over the pooled axes of the first winner in each window."""
    x = checked("x", x)
    if not pool._one_wins:
        pool = pool._first
    if trees.are_for(pool, x):
        return trees.with_indices(pool, x)
    whole = Whole(pool, x)
    y, winners = whole.linearize()
    return _flat(pool, y), _flat(pool, whole.indices(winners))


def jvp(pool: Pool, x: da.Array, t: Any) -> tuple[da.Array, da.Array]:
    """`y`, and its change `dy` along `t`."""
    x = checked("x", x)
    if trees.are_for(pool, x):
        y, linear = trees.linearize(pool, x)
        return y, linear.push(t)
    whole = Whole(pool, x)
    y, dy = whole.jvp(direction("t", t, x.shape, whole.plan))
    return _flat(pool, y), _flat(pool, dy)


def linearize(pool: Pool, x: da.Array) -> tuple[da.Array, Any]:
    """`y`, and the derivative at x, whose `push` and `pull` take and give Dask arrays."""
    x = checked("x", x)
    if trees.are_for(pool, x):
        return trees.linearize(pool, x)
    whole = Whole(pool, x)
    keeps = whole.plan.residual
    if keeps.winners:
        y, winners = whole.linearize()
        return _flat(pool, y), DaskLinear(pool, whole, Kept(winners=winners))
    y = whole.forward()
    return _flat(pool, y), DaskLinear(pool, whole, Kept(x if keeps.x else None, y if keeps.y else None))


class DaskLinear:
    """The derivative J of a pool at x, and its transpose. It keeps the winners, nothing, x, or x and y, all lazily."""

    def __init__(self, pool: Pool, whole: Whole, kept: Kept) -> None:
        self._pool, self._whole, self._kept = pool, whole, kept

    @property
    def residual(self) -> Kept:
        """The arrays that are kept."""
        x, *others = self._kept
        return Kept(x, *(None if a is None else _flat(self._pool, a) for a in others))

    def push(self, t: Any) -> da.Array:
        """`dy = J t`."""
        whole = self._whole
        return _flat(self._pool, whole.push(self._kept, direction("t", t, whole.x.shape, whole.plan)))

    def pull(self, g: Any, out: None = None) -> da.Array:
        """`gx = J^T g`, in the chunks of x."""
        check_no_out(out)
        whole = self._whole
        g = direction("g", g, self._pool.output_shape(whole.x.shape), whole.plan)
        if g.ndim < whole.x.ndim:
            g = da.expand_dims(g, whole.plan.axes)
        return whole.pull(self._kept, g)

    def indices(self) -> da.Array:
        """Where each winner stands: its flat row-major index over the pooled axes."""
        if self._kept.winners is None:
            raise TypeError(f"{self._pool.kind!r} keeps no winners; call with_indices on the pool")
        return _flat(self._pool, self._whole.indices(self._kept.winners))


class Whole:
    """A pool over all of a Dask array: its plan, and each operation as a graph over the pieces.

    The pooled axes are kept, whatever the window says.
    """

    def __init__(self, pool: Pool, x: da.Array) -> None:
        if isinstance(pool.window, Global):
            pool = Pool(pool.kind, Global(), pool.axes, pool.skip, pool.min_count)
        self.x = x
        self.plan: Plan = plan_of(pool, x.shape, x.dtype.name)
        self.name = f"ndpool-{self.plan.kind}"
        self.result, self.derivative = self._dtype(self.plan.result), self._dtype(self.plan.derivative)
        along = dict(zip(self.plan.axes, self.plan.geometry, strict=True))
        self.chunks: Chunks = tuple(
            chunks_between(output_edges(along[d], edges_of(lengths))) if d in along else lengths
            for d, lengths in enumerate(x.chunks)
        )

    def _dtype(self, name: str) -> np.dtype[Any]:
        return self.x.dtype if name == self.plan.input else np.dtype(name)  # NumPy has no bfloat16 by name

    # --- ranges ---

    def outputs(self, ranges: tuple[Range, ...]) -> tasks.Outputs:
        """What is asked for along the pooled axes."""
        return tuple(ranges[d] for d in self.plan.axes)

    def cells(self, ranges: tuple[Range, ...]) -> tuple[Range, ...]:
        """The cells that outputs see."""
        seen = list(ranges)
        for d, axis in zip(self.plan.axes, self.plan.geometry, strict=True):
            found = piece(axis, *ranges[d])
            seen[d] = (found.begin, found.end)
        return tuple(seen)

    def seen_by(self, ranges: tuple[Range, ...]) -> tuple[Range, ...]:
        """The outputs that see cells."""
        seen = list(ranges)
        for d, axis in zip(self.plan.axes, self.plan.geometry, strict=True):
            seen[d] = outputs_over(axis, *ranges[d])
        return tuple(seen)

    # --- operations ---

    def forward(self) -> da.Array:
        def task(ranges: tuple[Range, ...], given: list[Any]) -> tuple[Any, ...]:
            return tasks.forward, self.plan, self.outputs(ranges), given[0](self.cells(ranges))

        return built(self.name, [self.x], self.chunks, self.result, task, self.plan)

    def linearize(self) -> tuple[da.Array, da.Array]:
        def task(ranges: tuple[Range, ...], given: list[Any]) -> tuple[Any, ...]:
            return tasks.linearize, self.plan, self.outputs(ranges), given[0](self.cells(ranges))

        pairs = built(f"{self.name}-linearize", [self.x], self.chunks, self.result, task, self.plan)
        return entry(pairs, 0, self.result), entry(pairs, 1, np.dtype(f"u{self.plan.residual.winners}"))

    def indices(self, winners: da.Array) -> da.Array:
        def task(ranges: tuple[Range, ...], given: list[Any]) -> tuple[Any, ...]:
            return tasks.indices, self.plan, self.outputs(ranges), self.x.dtype, given[0](ranges)

        return built(f"{self.name}-indices", [winners], self.chunks, np.dtype(np.int64), task, self.plan)

    def jvp(self, t: da.Array) -> tuple[da.Array, da.Array]:
        def task(ranges: tuple[Range, ...], given: list[Any]) -> tuple[Any, ...]:
            cells = self.cells(ranges)
            return tasks.jvp, self.plan, self.outputs(ranges), given[0](cells), given[1](cells)

        pairs = built(f"{self.name}-jvp", [self.x, t], self.chunks, self.result, task, self.plan)
        return entry(pairs, 0, self.result), entry(pairs, 1, self.derivative)

    def push(self, kept: Kept, t: da.Array) -> da.Array:
        def task(ranges: tuple[Range, ...], given: list[Any]) -> tuple[Any, ...]:
            x, y, winners, t = given
            cells = self.cells(ranges)
            found = _asked(x, cells), _asked(y, ranges), _asked(winners, ranges), t(cells)
            return tasks.push, self.plan, self.outputs(ranges), self.x.dtype, *found

        return built(f"{self.name}-push", [*kept, t], self.chunks, self.derivative, task, self.plan)

    def pull(self, kept: Kept, g: da.Array) -> da.Array:
        def task(ranges: tuple[Range, ...], given: list[Any]) -> tuple[Any, ...]:
            x, y, winners, g = given
            seen = self.seen_by(ranges)
            if any(seen[d][0] == seen[d][1] for d in self.plan.axes):
                return tasks.unseen, self.derivative, tuple(end - begin for begin, end in ranges)
            found = _asked(x, self.cells(seen)), _asked(y, seen), _asked(winners, seen), g(seen)
            return tasks.pull, self.plan, self.outputs(seen), self.x.dtype, ranges, *found

        return built(f"{self.name}-vjp", [*kept, g], self.x.chunks, self.derivative, task, self.plan)


def _asked(cells: Cells | None, ranges: tuple[Range, ...]) -> Any:
    return None if cells is None else cells(ranges)


def _flat(pool: Pool, y: da.Array) -> da.Array:
    """`y`, without the axes that a global window drops."""
    if not isinstance(pool.window, Global) or pool.window.keepdims:
        return y
    gone = {axis % y.ndim for axis in pool.axes or ()}
    return y[tuple(0 if d in gone else slice(None) for d in range(y.ndim))]


# --- checks ---------------------------------------------------------------------------------------


def checked(name: str, x: Any) -> da.Array:
    """A Dask array of known lengths, with numbers in the usual order of bytes."""
    if not isinstance(x, da.Array):
        said = f"{type(x).__module__}.{type(x).__qualname__}"
        raise TypeError(f"{name} is a {said}, which is not an array of Dask; give a dask.array")
    if any(np.isnan(n) for n in x.shape):
        raise ValueError(
            f"{name} has shape {x.shape}, and chunks of unknown lengths; call {name}.compute_chunk_sizes() first"
        )
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def direction(name: str, a: Any, shape: tuple[int, ...], plan: Plan) -> da.Array:
    """A tangent or a cotangent: a Dask array in any chunks, or a NumPy array, of a known shape."""
    if not isinstance(a, da.Array):
        if type(a) is not np.ndarray:
            raise TypeError(f"{name} is a {type(a).__name__} and x is a Dask array; give {name} as a dask.array")
        a = da.from_array(a)
    a = checked(name, a)
    if a.shape != shape:
        raise ValueError(f"{name} has shape {a.shape} and should have {shape}")
    if a.dtype.name not in NATIVE_TYPES and not (plan.is_complex and a.dtype.name in PART_TYPES):
        beside = "complex numbers; give real or complex" if plan.is_complex else "plain numbers; give real"
        raise TypeError(f"{name} has dtype {a.dtype} beside an input of {beside} numbers")
    return a


def check_no_out(out: Any) -> None:
    if out is not None:
        raise TypeError(f"out is given beside {NO_OUT}")
