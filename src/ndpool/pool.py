"""A pool is a kind over a window: forward, JVP and VJP of one operation, ready to be applied.

The work is done by the native engine, from a plan that is made once for each shape, dtype and order of axes in memory.
Kinds and numbers that no engine can know (a kind of your own, Fractions, complex numbers) run on the specification.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _engine, spec
from .arrays import NATIVE_TYPES, Array, as_array, check_type, front_end, is_native
from .kinds import Avg, Kind, Lp, Max, Min, SmoothMax, Sum, derivative_dtype
from .parameters import documented
from .windows import (
    Adaptive,
    AnyWindow,
    Axis,
    Global,
    Ints,
    Layout,
    Window,
    checked_axes,
    checked_shape,
    layout,
    whole,
)

Pullback: TypeAlias = Callable[[ArrayLike], Array]

#: What the engine calls each kind, with its number and its option.
_NATIVE_KINDS: dict[type[Kind], Callable[[Any], tuple[str, float, str]]] = {
    Max: lambda kind: ("max", 0.0, kind.ties),
    Min: lambda kind: ("min", 0.0, kind.ties),
    Sum: lambda kind: ("sum", 1.0, ""),
    Avg: lambda kind: ("avg", float(kind.divisor_override or 0), _count_rule(kind)),
    SmoothMax: lambda kind: ("smooth_max", _float("beta", kind), "counted" if kind.count_include_pad else "real"),
    Lp: lambda kind: ("lp", _float("p", kind), ""),
}


def _float(name: str, kind: Kind) -> float:
    """A parameter as the engine takes it: exactly, or not at all."""
    value = getattr(kind, name)
    if isinstance(value, int | float) and abs(value) <= sys.float_info.max and float(value) == value:
        return float(value)
    raise TypeError(
        f"{name}={value!r} in {kind!r} is no float, and the engine computes with floats; give {name} as a float "
        "(rounded by you), or x as an array of objects, which the specification computes"
    )


def _count_rule(kind: Avg) -> str:
    if kind.divisor_override is not None:
        return "fixed"
    return "counted" if kind.count_include_pad else "real"


#: Plans that one pool keeps, before it starts anew.
_PLANS_KEPT = 64

#: An array of so many elements starts at a whole line of the cache, as the engine may write it past the cache.
_LARGE = 1 << 18


class _Plan:
    """A pool over one shape, dtype and order of axes in memory: what the engine needs, and what it gives."""

    __slots__ = ("axes", "derivative", "dtype", "kept_shape", "native", "order", "result", "shape", "small", "what")

    def __init__(self, pool: Pool, shape: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...] | None) -> None:
        found = pool._layout(shape)
        self.axes = found.axes
        self.shape = found.output_shape
        self.small = math.prod(self.shape) < _LARGE
        self.order = order
        # The smooth kinds compute integers in float64, which is what they give for them.
        self.dtype = np.dtype(np.float64) if isinstance(pool.kind, SmoothMax | Lp) and dtype.kind in "biu" else dtype
        self.result = pool.kind.result_dtype(dtype)
        self.derivative = derivative_dtype(dtype)
        pooled = dict(zip(found.axes, found.geometry, strict=True))
        numbers = [_numbers(pooled[d]) if d in pooled else [shape[d]] for d in order or range(len(shape))]
        self.kept_shape = tuple(pooled[d].output if d in pooled else shape[d] for d in order or range(len(shape)))
        name, parameter, option = _NATIVE_KINDS[type(pool.kind)](pool.kind)
        type_name = "uint8" if self.dtype.kind == "b" else self.dtype.name
        self.what = pool.window, shape
        try:
            self.native = _engine.Plan(numbers, name, type_name, self.derivative.name, parameter, option)
        except OverflowError as error:
            raise ValueError(self.too_large(f"{error}, with an output of shape {self.shape}")) from None

    def too_large(self, why: str) -> str:
        window, shape = self.what
        return f"{window!r} over shape {shape} is too large: {why}; use a smaller kernel_size or less padding"

    def run(self, method: Callable[..., None], *arrays: Array | None) -> None:
        """One of the engine's methods, which may need more memory than there is: an enormous window does."""
        try:
            method(*arrays)
        except MemoryError:
            raise self.starved() from None

    def starved(self) -> MemoryError:
        return MemoryError(self.too_large("there is no memory to work in"))

    def empty(self, dtype: np.dtype[Any]) -> Array:
        """Room for an output, with its axes in the order in which the engine writes them."""
        try:
            return _empty_in_lines(self.shape if self.order is None else self.kept_shape, dtype)
        except (MemoryError, ValueError):  # a ValueError is how NumPy refuses more bytes than can be counted
            raise MemoryError(self.too_large(f"there is no memory for an output of shape {self.shape}")) from None

    def outside(self, y: Array) -> Array:
        """An output with its axes in the caller's order."""
        if self.order is None:
            return y
        y = y.transpose(np.argsort(self.order))
        return y if y.shape == self.shape else y.reshape(self.shape)

    def inside(self, x: Array) -> Array:
        """An input as the engine wants it: in its order and byte order, copied only if it must be."""
        if self.order is not None:
            x = x.transpose(self.order)
        return _plain(x, self.dtype)

    def tangent(self, t: Array) -> Array:
        """A tangent, likewise."""
        t = t if self.order is None else t.transpose(self.order)
        return _plain(t, self.derivative)

    def cotangent(self, g: Array) -> Array:
        """A cotangent, likewise: its pooled axes may be gone."""
        if self.order is not None:
            g = g if g.ndim == len(self.order) else np.expand_dims(g, self.axes)
            g = g.transpose(self.order)
        return _plain(g, self.derivative)


def _is_plain(a: Array) -> bool:
    """Whether the engine can read or write the memory as it is."""
    return a.flags.c_contiguous and a.flags.aligned


def _plain(a: Array, dtype: np.dtype[Any]) -> Array:
    a = np.ascontiguousarray(a, dtype=dtype)
    return a if a.flags.aligned else a.copy()


def _numbers(axis: Axis) -> list[int]:
    return [
        axis.length,
        axis.output,
        axis.kernel,
        axis.stride,
        axis.dilation,
        axis.pad_lo,
        axis.pad_hi,
        int(axis.adaptive),
    ]


@documented
@dataclass(frozen=True)
class Pool:
    """`kind` in every place of `window`, over `axes` of an array of any rank.

    `axes` names the pooled axes, the j-th of which has the window's j-th numbers; by default the last ones.
    The other axes, in any place and number, are carried along.

    Arrays in any memory order are taken. One that is contiguous in another order of its axes (Fortran, channels last
    under channels-first axes) is not copied, and the results have its order. Sums may then be added up in another
    order, which shows in the last place alone. The exception is whatever asks for the first winner in row-major
    order: the derivatives of Max and Min with ties="first", and `with_indices`. If the pooled axes themselves are out
    of order, as in a Fortran-ordered image, these copy the array, and their results are C-ordered.

    An input is a NumPy array or what becomes one without loss: nested lists, whatever has `__array__` or a buffer. A
    PyTorch tensor goes to `ndpool.torch` and gives tensors, which can be differentiated. What means more than its
    numbers is refused: a masked array, and what has labels or units or is not computed yet.

    The engine takes bools, integers, and floats of 16 to 64 bits. Objects (Fractions, say), complex numbers, and
    everything under a kind of your own go to `ndpool.spec`, which is thousands of times slower. Other dtypes (long
    doubles, text, times, records) are refused.

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
        object.__setattr__(self, "_plans", {})
        object.__setattr__(self, "_ready", {})  # those of them that take an array as it is, for the shortest way

    def __reduce__(self) -> tuple[Any, ...]:
        return Pool, (self.kind, self.window, self.axes)

    def _layout(self, shape: tuple[int, ...]) -> Layout:
        cell_for = type(self.kind).__name__ if self.kind.needs_cell else None
        return layout(self.window, self.axes, shape, cell_for)

    @documented
    def output_shape(self, shape: Sequence[int] | NDArray[np.integer[Any]]) -> tuple[int, ...]:
        """The shape of the output for an input of this shape.

        >>> Pool(Max(), Window((3, 3), stride=2, padding=1)).output_shape((8, 64, 112, 112))
        (8, 64, 56, 56)
        """
        return self._layout(checked_shape(shape)).output_shape

    # --- forward ---

    @documented
    def __call__(self, x: ArrayLike, out: Array | None = None) -> Array:
        """The pooled array, written into `out` where that is given."""
        if type(x) is not np.ndarray:
            if (elsewhere := front_end(x)) is not None:
                _check_no_out(out)
                return elsewhere.forward(self, x)  # type: ignore[no-any-return]
            x = as_array("x", x)
        if out is None and (plan := self._ready.get((x.shape, x.dtype))) is not None and _is_plain(x):  # type: ignore[attr-defined]
            y = np.empty(plan.shape, plan.result) if plan.small else plan.empty(plan.result)
            try:
                plan.native.forward(x, y)
            except MemoryError:
                raise plan.starved() from None
            return y
        plan = self._plan(x)
        if plan is None:
            y = spec.forward(self, x)
            return y if out is None else _copy_into(out, y, x)
        if out is None:
            y = plan.empty(plan.result)
            plan.run(plan.native.forward, plan.inside(x), y)
            return plan.outside(y)
        _check_out(out, plan.shape, plan.result, x)
        if plan.order is None and _is_plain(out):
            plan.run(plan.native.forward, plan.inside(x), out)
            return out
        return _copy_into(out, self(x), x)

    @documented
    def with_indices(self, x: ArrayLike, out: Array | None = None) -> tuple[Array, NDArray[np.int64]]:
        """The output, and where each came from: the flat row-major index over the pooled axes.

        For Max and Min with any policy; at ties it is the first winner.

        >>> Pool(Max(), Window((2,))).with_indices([1, 5, 7, 7])[1]
        array([1, 2])
        """
        if not isinstance(self.kind, Max | Min):
            raise TypeError(f"{self.kind!r} has no winner in a window; indices exist for Max and Min")
        if (elsewhere := front_end(x)) is not None:
            _check_no_out(out)
            return elsewhere.with_indices(self, x)  # type: ignore[no-any-return]
        x = as_array("x", x)
        plan = self._plan(x, ordered=True)
        if plan is None:
            first = Pool(type(self.kind)(), self.window, self.axes)
            y, indices = spec.forward(first, x), spec.winners(first, x)
        else:
            y, winners = self._with_winners(plan, x)
            indices = plan.empty(np.dtype(np.int64))
            plan.run(plan.native.indices, winners, indices)
            y, indices = plan.outside(y), plan.outside(indices)
        return (y if out is None else _copy_into(out, y, x)), indices

    def _with_winners(self, plan: _Plan, x: Array) -> tuple[Array, Array]:
        """The output, and the winners as places in their windows, one byte each for ordinary windows."""
        y, winners = plan.empty(plan.result), plan.empty(np.dtype(f"u{plan.native.winner_bytes}"))
        plan.run(plan.native.forward_with_winners, plan.inside(x), y, winners)
        return y, winners

    # --- derivatives ---

    @documented
    def jvp(self, x: ArrayLike, t: ArrayLike) -> tuple[Array, Array]:
        """The output and its change along the input tangent `t`: `dy = sum of w_i * t_i`."""
        if (elsewhere := front_end(x)) is not None:
            return elsewhere.jvp(self, x, t)  # type: ignore[no-any-return]
        x, t = as_array("x", x), as_array("t", t)
        _check_shape("t", t, x.shape)
        plan = self._plan(x, ordered=self._one_wins)
        if plan is None:
            self._check_slow("t", t)
            return spec.jvp(self, x, t)
        _check_real("t", t)
        y, dy = plan.empty(plan.result), plan.empty(plan.derivative)
        plan.run(plan.native.jvp, plan.inside(x), plan.tangent(t), y, dy)
        return plan.outside(y), plan.outside(dy)

    @documented
    def vjp(self, x: ArrayLike) -> tuple[Array, Pullback]:
        """The output, and the function that takes an output cotangent back: `gx_i += w_i * g`.

        Max and Min with ties="first" keep their winners, Sum and Avg nothing. The other policies, SmoothMax and Lp keep
        `x`, which must not be written to before the pullback has run.
        """
        if (elsewhere := front_end(x)) is not None:
            return elsewhere.vjp(self, x)  # type: ignore[no-any-return]
        x = as_array("x", x)
        plan = self._plan(x, ordered=self._one_wins)
        if plan is None:
            return spec.forward(self, x), lambda g: self._slow_pullback(x, as_array("g", g))
        kept_x = kept_y = winners = None
        if self._one_wins:
            y, winners = self._with_winners(plan, x)
        else:
            inside = plan.inside(x)
            y = plan.empty(plan.result)
            plan.run(plan.native.forward, inside, y)
            if not isinstance(self.kind, Sum | Avg):
                kept_x = inside
            if isinstance(self.kind, Max | Min):
                kept_y = y.copy()  # the caller may write to the one that is handed out
        return plan.outside(y), _pullback(plan, x.shape, kept_x, kept_y, winners)

    def _slow_pullback(self, x: Array, g: Array) -> Array:
        self._check_slow("g", g)
        return spec.vjp(self, x, g)

    @property
    def _one_wins(self) -> bool:
        """Whether the derivative depends on which of several winners comes first."""
        return isinstance(self.kind, Max | Min) and self.kind.ties == "first"

    # --- plans ---

    def _plan(self, x: Array, ordered: bool = False) -> _Plan | None:
        """The plan for such an array, or None where the specification has to do it.

        Where the first winner is looked for, the cells of a window are to be `ordered`.
        """
        order = None if x.flags.c_contiguous else _memory_order(x, self._layout(x.shape).axes if ordered else ())
        key = (x.shape, x.dtype, order)
        plans: dict[Any, _Plan | None] = self._plans  # type: ignore[attr-defined]
        try:
            return plans[key]
        except KeyError:
            pass
        plan = None
        if type(self.kind) in _NATIVE_KINDS and is_native("x", x.dtype):
            plan = _Plan(self, x.shape, x.dtype.newbyteorder("="), order)
        ready: dict[Any, _Plan] = self._ready  # type: ignore[attr-defined]
        if len(plans) >= _PLANS_KEPT:
            plans.clear()
            ready.clear()
        plans[key] = plan
        if plan is not None and order is None and plan.dtype == x.dtype:
            ready[x.shape, x.dtype] = plan
        return plan

    def _check_slow(self, name: str, a: Array) -> None:
        """A kind of your own may be for any numbers at all."""
        if type(self.kind) in _NATIVE_KINDS:
            is_native(name, a.dtype)


def _memory_order(x: Array, pooled: Sequence[int]) -> tuple[int, ...] | None:
    """The axes from the longest stride to the shortest; None if that is the usual order.

    None too if it would change the order of the `pooled` axes, or if cells share their memory. An axis with one cell
    stays where it is, as its stride says nothing.
    """
    several = [d for d in range(x.ndim) if x.shape[d] > 1]
    if any(x.strides[d] == 0 for d in several):
        return None
    ranked = sorted(several, key=lambda d: -abs(x.strides[d]))
    places = iter(ranked)
    order = tuple(next(places) if x.shape[d] > 1 else d for d in range(x.ndim))
    kept = [d for d in ranked if d in pooled]
    return None if ranked == several or kept != sorted(kept) else order


def _pullback(plan: _Plan, shape: tuple[int, ...], x: Array | None, y: Array | None, winners: Array | None) -> Pullback:
    """The VJP with what it needs, and nothing else, kept alive."""
    inside_shape = shape if plan.order is None else tuple(shape[d] for d in plan.order)

    def pullback(g: ArrayLike) -> Array:
        g = as_array("g", g)
        _check_shape("g", g, plan.shape)
        _check_real("g", g)
        gx = _empty_in_lines(inside_shape, plan.derivative)
        plan.run(plan.native.vjp, x, y, winners, plan.cotangent(g), gx)
        return gx if plan.order is None else gx.transpose(np.argsort(plan.order))

    return pullback


def _empty_in_lines(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Room for an array that, if large, starts at a whole line of the cache: best for the engine's stores past it."""
    line, elements = 64, math.prod(shape)
    if elements < _LARGE:
        return np.empty(shape, dtype)
    size = elements * dtype.itemsize
    room = np.empty(size + line, np.uint8)
    start = -room.ctypes.data % line
    return room[start : start + size].view(dtype).reshape(shape)


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


def _check_real(name: str, a: Array) -> None:
    if a.dtype.name not in NATIVE_TYPES:
        raise TypeError(f"{name} has dtype {a.dtype} beside an input of plain numbers; give real numbers")


def _check_shape(name: str, a: Array, shape: tuple[int, ...]) -> None:
    if a.shape != shape:
        raise ValueError(f"{name} has shape {a.shape} and should have {shape}")


def _check_no_out(out: Any) -> None:
    if out is not None:
        raise TypeError("out is given beside a tensor x, and is for NumPy arrays alone; write out.copy_(pool(x))")


def _check_out(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], x: Array) -> None:
    """`out` must be an array that can take the result as it is, and must not lie over the input."""
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out is a {type(out).__name__}; give a NumPy array")
    if isinstance(out, np.ma.MaskedArray):
        raise TypeError("out is a masked array, whose mask would not be that of the result; give out.data")
    check_type("out", type(out))
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(f"out has {out.dtype}{out.shape} and the result is {dtype}{shape}; make them agree")
    if not out.flags.writeable:
        raise ValueError("out is read-only; give an array that can be written")
    if np.may_share_memory(out, x):
        raise ValueError("out overlaps x, and an input is never changed; give memory of its own")


def _copy_into(out: Array, y: Array, x: Array) -> Array:
    _check_out(out, y.shape, y.dtype, x)
    np.copyto(out, y)
    return out
