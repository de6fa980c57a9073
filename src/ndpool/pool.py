"""A pool is a kind over a window: forward, JVP and VJP of one operation, ready to be applied.

The work is done by the native engine, from a plan that is made once for each shape, dtype and order of axes in memory.
Kinds and numbers that no engine can know (a kind of your own, Fractions) run on the specification.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _engine, native, spec
from .arrays import Array, as_array, front_end, is_native
from .kind import Kind, form_of, no_winner
from .linear import Linear, SlowLinear
from .memory import Arrays, Kept, check_out, check_shape, copy_into, memory_order
from .parameters import documented
from .plan import computes, plan_of, put
from .skipping import check_count, checked_skip
from .windows import (
    Adaptive,
    AnyWindow,
    Global,
    Ints,
    Layout,
    Window,
    checked_axes,
    checked_shape,
    layout,
    whole,
)

if TYPE_CHECKING:
    from .bounds import Affine, Lipschitz

#: `pullback(g, out=None)`.
Pullback: TypeAlias = Callable[..., Array]

#: Plans that one pool remembers the shortest way to.
_PLANS_KEPT = 64


class LinearMap(Protocol):
    """What `linearize` gives: the derivative at x, by whoever computes it."""

    @property
    def residual(self) -> Kept: ...
    def push(self, t: Any) -> Any: ...
    def pull(self, g: Any, out: Any = None) -> Any: ...
    def indices(self) -> Any: ...


@_engine.call_quickly  # on small arrays, of which the engine knows the plan
@documented
@dataclass(frozen=True)
class Pool(_engine.QuickPool):
    """`kind` in every place of `window`, over `axes` of an array of any rank.

    `axes` names the pooled axes, the j-th of which has the window's j-th numbers; by default the last ones.
    The other axes, in any place and number, are carried along.

    Arrays in any memory order are taken, with gaps between their cells or without, and none is copied whole: what is
    not dense goes through the cache a piece at a time. The results have the order of the input's axes in memory. Sums
    may then be added up in another order, which shows in the last place alone. The exception is whatever asks for the
    first winner in row-major order: the derivatives of Max and Min with ties="first", and `with_indices`. If the pooled
    axes themselves are out of order, as in a Fortran-ordered image, their results are C-ordered.

    An input is a NumPy array or what becomes one without loss: nested lists, whatever has `__array__` or a buffer. A
    PyTorch tensor goes to `ndpool.torch` and gives tensors, which can be differentiated; an array of JAX goes to
    `ndpool.jax` likewise. A Dask array goes to `ndpool.dask` and gives Dask arrays. What xarray has goes to
    `ndpool.xarray`, and `axes` may name its dimensions. What means more than its numbers is refused otherwise: a
    masked array, and what has labels or units.

    The engine takes bools, integers, and floats of 16 to 64 bits; Sum and Avg of complex numbers too, as sums of their
    real and imaginary parts. Objects (Fractions, say), and everything under a kind of your own, go to `ndpool.spec`,
    which is thousands of times slower. Other dtypes (long doubles, text, times, records) are refused.

    >>> from ndpool import Max, Window
    >>> pool = Pool(Max(), Window((2, 2)))
    >>> x = np.array([[1.0, 2.0], [4.0, 3.0]])
    >>> pool(x)
    array([[4.]])
    >>> y, dy = pool.jvp(x, np.array([[0.1, 0.2], [0.3, 0.4]]))
    >>> dy
    array([[0.3]])
    >>> y, pullback = pool.vjp(x)
    >>> pullback(np.array([[10.0]]))
    array([[ 0.,  0.],
           [10.,  0.]])
    """

    kind: Kind
    window: AnyWindow
    axes: tuple[int, ...] | None = None
    skip: float | None = None
    min_count: int = 1

    def __init__(
        self,
        kind: Kind,
        window: AnyWindow,
        axes: Ints | str | Sequence[str] | None = None,
        skip: float | None = None,
        min_count: int = 1,
    ) -> None:
        if not isinstance(kind, Kind):
            raise TypeError(f"kind={kind!r} is not a Kind; give for example Max() or Avg()")
        if not isinstance(window, Window | Adaptive | Global):
            raise TypeError(f"window={window!r} is not a window; give a Window, an Adaptive or a Global")
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "window", window)
        object.__setattr__(self, "axes", checked_axes(axes, window))
        skip, min_count = (None, 1) if skip is None and min_count == 1 else checked_skip(skip, min_count, kind)
        object.__setattr__(self, "skip", skip)
        object.__setattr__(self, "min_count", min_count)
        object.__setattr__(self, "handles", {})  # what front ends have made of the pool, by their names
        object.__setattr__(self, "_plans", {})
        # The plans of the array before, if small: the next is often its like. One is for the pool itself, which the
        # engine looks up as well, and one for its derivative.
        object.__setattr__(self, "_latest", None)
        object.__setattr__(self, "_latest_linear", None)

    def __reduce__(self) -> tuple[Any, ...]:
        return Pool, (self.kind, self.window, self.axes, self.skip, self.min_count)

    def _layout(self, shape: tuple[int, ...]) -> Layout:
        cell_for = type(self.kind).__name__ if self.kind.needs_cell else None
        found = layout(self.window, self.axes, shape, cell_for)
        if self.min_count > 1:
            check_count(self.min_count, math.prod(axis.kernel for axis in found.geometry))
        return found

    @documented
    def output_shape(self, shape: Sequence[int] | NDArray[np.integer[Any]]) -> tuple[int, ...]:
        """The shape of the output for an input of this shape.

        >>> from ndpool import Max
        >>> Pool(Max(), Window((3, 3), stride=2, padding=1)).output_shape((8, 64, 112, 112))
        (8, 64, 56, 56)
        """
        return self._layout(checked_shape(shape)).output_shape

    # --- forward ---

    @documented
    def __call__(self, x: ArrayLike, out: Array | None = None) -> Array:
        """The pooled array, written into `out` where that is given."""
        latest: Arrays | None = self._latest  # type: ignore[attr-defined]
        if latest is not None and type(x) is np.ndarray:  # a compiler must not see what follows
            try:
                y: Array | None = latest.quick.forward(x, out)  # type: ignore[union-attr]
            except MemoryError:
                raise native.starved(latest.plan) from None
            if y is not None:
                return y
        if type(x) is not np.ndarray:
            if (elsewhere := front_end(x)) is not None:
                _check_no_out(out, elsewhere)
                return elsewhere.forward(self, x)  # type: ignore[no-any-return]
            x = as_array("x", x)
        arrays = self._plan(x)
        if arrays is None:
            y = spec.forward(self, x)
            return y if out is None else copy_into(out, y, x=x)
        if out is not None:
            check_out(out, arrays.shape, arrays.result, x=x)
        return arrays.forward(x, out)

    @documented
    def with_indices(self, x: ArrayLike, out: Array | None = None) -> tuple[Array, NDArray[np.int64]]:
        """The output, and where each came from: the flat row-major index over the pooled axes.

        For Max and Min with any policy, of which it is the first winner; for Mode; and for a Quantile whose method
        chooses one cell. Where too few cells are there, it is -1.

        >>> from ndpool import Max
        >>> Pool(Max(), Window((2,))).with_indices([1, 5, 7, 7])[1]
        array([1, 2])
        """
        if (elsewhere := front_end(x)) is not None:
            _check_no_out(out, elsewhere)
            self._one_winner()
            return elsewhere.with_indices(self, x)  # type: ignore[no-any-return]
        x = as_array("x", x)
        first = self if self._one_wins else self._first
        arrays = first._plan(x, ordered=True)
        if arrays is None:
            y, indices = spec.forward(first, x), spec.winners(first, x)
        else:
            y, kept = arrays.linearize(x)
            assert kept[2] is not None
            indices = arrays.indices(kept[2])
        return (y if out is None else copy_into(out, y, x=x)), indices

    @cached_property
    def _first(self) -> Pool:
        """The pool with one winner in each window, which has plans of its own."""
        return Pool(self._one_winner(), self.window, self.axes, self.skip, self.min_count)

    def _one_winner(self) -> Kind:
        """The kind whose one winner in a window has the index that is asked for."""
        kind = self.kind.one_winner()
        if kind is None:
            raise no_winner(self.kind)
        return kind

    # --- derivatives ---

    @documented
    def jvp(self, x: ArrayLike, t: ArrayLike) -> tuple[Array, Array]:
        """The output and its change along the input tangent `t`: `dy = sum of w_i * t_i`."""
        if (elsewhere := front_end(x)) is not None:
            return elsewhere.jvp(self, x, t)  # type: ignore[no-any-return]
        x, t = as_array("x", x), as_array("t", t)
        check_shape("t", t, x.shape)
        arrays = self._plan(x, ordered=self._one_wins)
        if arrays is None:
            self._check_slow("t", t)
            return spec.jvp(self, x, t)
        arrays.check_direction("t", t, x.shape)
        return arrays.jvp(x, t)

    @documented
    def vjp(self, x: ArrayLike) -> tuple[Array, Pullback]:
        """The output, and the function that takes an output cotangent back: `gx_i += w_i * g`.

        That is `pull` of what `linearize` gives, and keeps as much. `pullback(g, out)` writes into `out`, an array that
        has the shape of `x` and the dtype of its derivatives.
        """
        y, linear = self.linearize(x)
        return y, linear.pull

    @documented
    def linearize(self, x: ArrayLike) -> tuple[Array, LinearMap]:
        """The output, and the derivative at x as a thing of its own.

        `linear.push(t)` is `dy = sum of w_i * t_i`, and `linear.pull(g, out=None)` is its transpose, `gx_i += w_i * g`.
        `linear.residual` has the arrays that are kept, as (x, y, winners), with None for those that are not. Max and
        Min with ties="first", Mode and Quantiles that are a cell keep their winners, in one byte each for windows of up
        to 256 cells. Sum and Avg keep nothing, or with `skip` the `x`; SmoothMax, Lp, Median and other Quantiles keep
        `x`, the other policies for ties `x` and a copy of y. An `x` that is kept must
        not be written to. `linear.indices()` says where the winners stand, if these are kept.

        >>> from ndpool import Avg
        >>> y, linear = Pool(Avg(), Window((2,))).linearize(np.array([1.0, 3.0, 5.0, 9.0]))
        >>> linear.push(np.array([0.0, 1.0, 0.0, 4.0])), linear.pull(np.array([2.0, 6.0]))
        (array([0.5, 2. ]), array([1., 1., 3., 3.]))
        >>> linear.residual
        Kept(x=None, y=None, winners=None)
        """
        latest: Arrays | None = self._latest_linear  # type: ignore[attr-defined]
        if latest is not None and type(x) is np.ndarray:
            try:
                made = latest.quick.linearize(x)  # type: ignore[union-attr]
            except MemoryError:
                raise native.starved(latest.plan) from None
            if made is not None:
                return made[0], Linear(latest, made[1])
        if (elsewhere := front_end(x)) is not None:
            return elsewhere.linearize(self, x)  # type: ignore[no-any-return]
        x = as_array("x", x)
        arrays = self._plan(x, ordered=self._one_wins)
        if arrays is None:
            return spec.forward(self, x), SlowLinear(self, x, self._check_slow)
        y, kept = arrays.linearize(x)
        return y, Linear(arrays, kept)

    @cached_property
    def _one_wins(self) -> bool:
        """Whether the derivative depends on which of several winners comes first."""
        return self.kind.one_winner() == self.kind

    @property
    def keeps(self) -> str:
        """What the derivative keeps where an engine computes it: "nothing", "winners", "x", or "x and y".

        Which cells are skipped is to be seen in x.
        """
        form = form_of(self.kind)
        keeps = "x" if form is None else form.keeps
        return "x" if keeps == "nothing" and self.skip is not None else keeps

    # --- bounds ---

    @documented
    def bounds(self, lo: ArrayLike, hi: ArrayLike) -> tuple[Array, Array]:
        """`(ylo, yhi)`: the least and the greatest output over all x with `lo <= x <= hi`, rounded outward.

        What the reals give at any point of the box lies between them, and so does what the engine gives. Max, Min and
        Quantiles that are a cell need no rounding; `ndpool.bounds.rounding` says how much the others get. Ends may be
        infinite. Mode has no such bounds and is refused. With `skip`, each cell is there for all of the box or for
        none of it: a cell whose two ends are the skipped value is not there.

        >>> from ndpool import Max
        >>> Pool(Max(), Window((2,))).bounds([0.0, 1.0, -2.0, -1.0], [2.0, 1.5, 3.0, 0.0])
        (array([ 1., -1.]), array([2., 3.]))
        """
        from .bounds import intervals

        return intervals.bounds(self, lo, hi)

    @documented
    def linear_bounds(
        self,
        lo: ArrayLike,
        hi: ArrayLike,
        upper: str = "volume",
        lower: str | ArrayLike = "volume",
        at: ArrayLike | None = None,
    ) -> tuple[Affine, Affine]:
        """`(lower, upper)`: affine maps with `lower(x) <= pool(x) <= upper(x)` for all x with `lo <= x <= hi`.

        Avg and Sum are their own bounds. Max lies above each of its cells: `lower` is the one with the largest
        midpoint ("volume", which is the least volume between the two), the one with the largest lo ("lo"), or a mixture
        with weights that you give. With `L = max lo_i` and any c from L to the largest hi, it lies below

            c + sum a_i (x_i - lo_i),   a_i = max(0, hi_i - c) / (hi_i - lo_i)

        and `upper` chooses c: the largest hi ("constant"), the second largest ("maxlin"), the third ("tilin"). The
        latter two, and any c between them, have the least volume; "volume" is the one of these whose greatest value is
        the least, which is "maxlin". With `at`, c is such that the map is tightest at that point. Min is mirrored.
        SmoothMax and Lp are bounded by tangents and chords, and Quantiles by constants.

        Each map has `(x)`, `push(t)`, `pull(g)`, `bias` and `concretize(lo, hi)`.

        >>> from ndpool import Max
        >>> lower, upper = Pool(Max(), Window((2,))).linear_bounds([0.0, 1.0], [4.0, 2.0])
        >>> lower([3.0, 1.5]), upper([3.0, 1.5])
        (array([3.]), array([3.5]))
        >>> upper.pull([1.0])
        array([0.5, 0. ])
        """
        from .bounds import relaxations

        return relaxations.linear_bounds(self, lo, hi, upper, lower, at)

    @documented
    def lipschitz(self, shape: Sequence[int], norm: float = math.inf) -> Lipschitz:
        """The least k with `|pool(x) - pool(z)| <= k |x - z|` in the norm 1, 2 or inf, for inputs of this shape.

        With n the most cells of a window, and r the most windows over one cell:

            Max, Min     1 in the largest norm, r in norm 1, sqrt(r) in norm 2; SmoothMax the same
            Sum, Avg     the norms of their matrices, products of those along the axes
            Lp           n^(1/p), r, and sqrt(r) for p >= 2

        Where that is only known to be large enough, `exact` is False: Quantiles that are not the smallest or the
        largest cell, and Lp of p < 2 in norm 2 where windows overlap. Mode jumps and has none.

        >>> from ndpool import Max
        >>> Pool(Max(), Window((3,), 1)).lipschitz((8,), 1)
        Lipschitz(value=3.0, exact=True)
        """
        from .bounds.lipschitz import lipschitz

        return lipschitz(self, checked_shape(shape), norm)

    # --- plans ---

    def _plan(self, x: Array, ordered: bool = False) -> Arrays | None:
        """The plan for such an array, or None where the specification has to do it.

        Where the first winner is looked for, the cells of a window are to be `ordered`.
        """
        usual = x.flags.c_contiguous
        key = (x.shape, x.dtype) if usual else (x.shape, x.dtype, x.strides, ordered)
        plans: dict[Any, Arrays | None] = self._plans  # type: ignore[attr-defined]
        try:
            arrays = plans[key]
        except KeyError:
            arrays = put(plans, key, self._planned(x, usual, ordered), _PLANS_KEPT)
        if arrays is not None and arrays.quick is not None:
            if usual or not ordered:
                object.__setattr__(self, "_latest", arrays)
                _engine.answer_quickly(self)
            if ordered or arrays.plan.finds_first or not self._one_wins:
                object.__setattr__(self, "_latest_linear", arrays)
        return arrays

    def _planned(self, x: Array, usual: bool, ordered: bool) -> Arrays | None:
        order = None if usual else memory_order(x, self._layout(x.shape).axes if ordered else ())
        if type(self.kind).engine and (is_native("x", x.dtype) or computes(self.kind, x.dtype.name)):
            dtype = x.dtype if x.dtype.isnative else x.dtype.newbyteorder("=")
            return Arrays(plan_of(self, x.shape, x.dtype.name, order), dtype, strides=() if usual else x.strides)
        return None

    def _check_slow(self, name: str, a: Array) -> None:
        """A kind of your own may be for any numbers at all."""
        if type(self.kind).engine:
            is_native(name, a.dtype)


@documented
def set_num_threads(n: int) -> None:
    """Let every call use `n` threads; results are the same, to the bit, for any number.

    The default is the environment variable NDPOOL_NUM_THREADS, or else all processors.
    """
    n = whole("n", n, 1)
    if n > _MOST_THREADS:
        raise ValueError(f"n={n} is more than {_MOST_THREADS} threads; give fewer")
    _engine.set_num_threads(n)


_MOST_THREADS = 1024


def _check_no_out(out: Any, elsewhere: Any) -> None:
    if out is not None:
        raise TypeError(f"out is given beside {elsewhere.NO_OUT}")
