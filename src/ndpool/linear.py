"""The derivative of a pool at one input, as a thing of its own: the linear map J and its transpose.

    push(t)   dy = J t       dy = sum of w_i * t_i
    pull(g)   gx = J^T g     gx_i += w_i * g

It holds what it needs and nothing else: `residual`. So it outlives the input wherever the input is not needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import native, spec
from .arrays import Array, as_array
from .memory import Arrays, Kept, KeptArrays, check_out, check_shape, copy_into

if TYPE_CHECKING:
    from .pool import Pool


class Linear:
    """The derivative where the engine computes it.

    >>> from ndpool import Max, Pool, Window
    >>> y, linear = Pool(Max(), Window((2,))).linearize(np.array([1.0, 5.0, 7.0, 7.0]))
    >>> linear.push(np.array([0.1, 0.2, 0.3, 0.4]))
    array([0.2, 0.3])
    >>> linear.pull(np.array([10.0, 20.0]))
    array([ 0., 10., 20.,  0.])
    >>> linear.residual
    Kept(x=None, y=None, winners=array([1, 0], dtype=uint8))
    >>> linear.indices()
    array([1, 2])
    """

    __slots__ = ("_arrays", "_kept")

    def __init__(self, arrays: Arrays, kept: KeptArrays) -> None:
        self._arrays, self._kept = arrays, kept

    @property
    def residual(self) -> Kept:
        """The arrays that are kept, which must not be written to: none, the winners, x, or x and y.

        A winner is a place in its window, counted in row-major order over the cells of the kernel.
        """
        return self._arrays.kept_outside(self._kept)

    def push(self, t: ArrayLike) -> Array:
        """`dy = J t` of an input tangent."""
        t = as_array("t", t)
        self._arrays.check_direction("t", t, self._arrays.plan.shape)
        return self._arrays.push(self._kept, t)

    def pull(self, g: ArrayLike, out: Array | None = None) -> Array:
        """`gx = J^T g` of an output cotangent, written into `out` where that is given."""
        arrays, kept = self._arrays, self._kept
        x, y, winners = kept
        if arrays.quick is not None:
            try:
                gx: Array | None = arrays.quick.pull(x, y, winners, g, out)
            except MemoryError:
                raise native.starved(arrays.plan) from None
            if gx is not None:
                return gx
        g = as_array("g", g)
        arrays.check_direction("g", g, arrays.shape)
        if out is not None:
            check_out(out, arrays.plan.shape, arrays.derivative, g=g, x=x, y=y, winners=winners)
        return arrays.pull(kept, g, out)

    def indices(self) -> NDArray[np.int64]:
        """Where each winner stands: its flat row-major index over the pooled axes."""
        winners = self._kept[2]
        if winners is None:
            raise TypeError(f"{self._arrays.plan.kind} keeps no winners here; call with_indices on the pool")
        return self._arrays.indices(winners)


class SlowLinear:
    """The derivative where the specification computes it: `x` is kept."""

    def __init__(self, pool: Pool, x: Array, check: Callable[[str, Array], None]) -> None:
        self._pool, self._x, self._check = pool, x, check

    @property
    def residual(self) -> Kept:
        """The input, which must not be written to."""
        return Kept(x=self._x)

    def push(self, t: ArrayLike) -> Array:
        """`dy = J t` of an input tangent."""
        t = as_array("t", t)
        check_shape("t", t, self._x.shape)
        self._check("t", t)
        return spec.jvp(self._pool, self._x, t)[1]

    def pull(self, g: ArrayLike, out: Array | None = None) -> Array:
        """`gx = J^T g` of an output cotangent, written into `out` where that is given."""
        g = as_array("g", g)
        self._check("g", g)
        gx = spec.vjp(self._pool, self._x, g)
        return gx if out is None else copy_into(out, gx, g=g, x=self._x)

    def indices(self) -> NDArray[np.int64]:
        """Where each winner stands: its flat row-major index over the pooled axes."""
        if not self._pool._one_wins:
            raise TypeError(f"{self._pool.kind!r} keeps no winners; call with_indices on the pool")
        return spec.winners(self._pool, self._x)
