"""A pool is a kind over a window: forward, JVP and VJP of one operation, ready to be applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import spec
from .kinds import Kind, Max, Min
from .windows import Adaptive, AnyWindow, Global, Ints, Layout, Window, checked_axes, layout, whole

Array: TypeAlias = NDArray[Any]
Pullback: TypeAlias = Callable[[ArrayLike], Array]


@dataclass(frozen=True)
class Pool:
    """`kind` in every place of `window`, over `axes` of an array of any rank.

    `axes` names the pooled axes, the j-th of which has the window's j-th numbers; by default the last ones.
    The other axes, in any place and number, are carried along.

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

    def __init__(self, kind: Kind, window: AnyWindow, axes: Ints | None = None) -> None:
        if not isinstance(kind, Kind):
            raise TypeError(f"kind={kind!r} is not a Kind; give for example Max() or Avg()")
        if not isinstance(window, Window | Adaptive | Global):
            raise TypeError(f"window={window!r} is not a window; give a Window, an Adaptive or a Global")
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "window", window)
        object.__setattr__(self, "axes", checked_axes(axes, window))

    def _layout(self, shape: tuple[int, ...]) -> Layout:
        cell_for = type(self.kind).__name__ if self.kind.needs_cell else None
        return layout(self.window, self.axes, shape, cell_for)

    def output_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the output for an input of this shape.

        >>> Pool(Max(), Window((3, 3), stride=2, padding=1)).output_shape((8, 64, 112, 112))
        (8, 64, 56, 56)
        """
        return self._layout(tuple(whole("shape", n, 0) for n in shape)).output_shape

    def __call__(self, x: ArrayLike, out: Array | None = None) -> Array:
        """The pooled array, written into `out` where that is given."""
        y = spec.forward(self, x)
        if out is None:
            return y
        check_out(out, y, x)
        np.copyto(out, y)
        return out

    def with_indices(self, x: ArrayLike, out: Array | None = None) -> tuple[Array, NDArray[np.int64]]:
        """The output, and where each came from: the flat row-major index over the pooled axes.

        For Max and Min with any policy; at ties it is the first winner.

        >>> Pool(Max(), Window((2,))).with_indices([1, 5, 7, 7])[1]
        array([1, 2])
        """
        if not isinstance(self.kind, Max | Min):
            raise TypeError(f"{self.kind!r} has no winner in a window; indices exist for Max and Min")
        return self(x, out), spec.winners(Pool(type(self.kind)(), self.window, self.axes), x)

    def jvp(self, x: ArrayLike, t: ArrayLike) -> tuple[Array, Array]:
        """The output and its change along the input tangent `t`: `dy = sum of w_i * t_i`."""
        return spec.jvp(self, x, t)

    def vjp(self, x: ArrayLike) -> tuple[Array, Pullback]:
        """The output, and the function that takes an output cotangent back: `gx_i += w_i * g`."""
        return spec.forward(self, x), lambda g: spec.vjp(self, x, g)


def check_out(out: Any, y: Array, x: ArrayLike) -> None:
    """`out` must be an array that can take `y` as it is, and must not lie over the input."""
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out is a {type(out).__name__}; give a NumPy array")
    if out.shape != y.shape or out.dtype != y.dtype:
        raise ValueError(f"out has {out.dtype}{out.shape} and the result is {y.dtype}{y.shape}; make them agree")
    if not out.flags.writeable:
        raise ValueError("out is read-only; give an array that can be written")
    if np.may_share_memory(out, np.asarray(x)):
        raise ValueError("out overlaps x, and an input is never changed; give memory of its own")
