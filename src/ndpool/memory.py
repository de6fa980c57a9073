"""NumPy arrays as the memory that an engine reads and writes.

Nothing is copied that the engine can read as it lies: an array is handed over in the order of its axes in memory, with
gaps between its cells or without, and results are written in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from . import _engine, native
from .arrays import NATIVE_TYPES, PART_TYPES, Array, check_type
from .plan import COMPUTED_AS, Order, Plan

#: An array of so many elements starts at a whole line of the cache, as the engine may write it past the cache.
_LARGE = 1 << 18

#: Bytes of cells side by side that are worth a copy of their own.
_RUN = 32

_PLACES = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
_INDEX = np.dtype(np.int64)


class Kept(NamedTuple):
    """The arrays that a derivative keeps: none, the winners, x, or x and y.

    A winner is a place in its window, counted in row-major order over the cells of the kernel.
    """

    x: Any = None
    y: Any = None
    winners: Any = None


#: The same as they lie in memory.
KeptArrays: TypeAlias = tuple[Array | None, Array | None, Array | None]


class Arrays:
    """A plan on NumPy arrays: they come in with their axes as the caller has them, and the results have them so."""

    __slots__ = (
        "back",
        "derivative",
        "dtype",
        "inputs",
        "order",
        "outputs",
        "parts",
        "plan",
        "quick",
        "result",
        "shape",
        "small",
        "threads",
        "whole",
    )

    def __init__(self, plan: Plan, dtype: np.dtype[Any], threads: int = 0, strides: tuple[int, ...] = ()) -> None:
        def known(name: str) -> np.dtype[Any]:
            return dtype if name == plan.input else np.dtype(name)  # NumPy itself has no bfloat16 to be found by name

        native.engine_plan(plan)  # which says what is too large before any memory is asked for
        self.plan, self.shape, self.order = plan, plan.output_shape, plan.order
        self.back = None if plan.order is None else tuple(np.argsort(plan.order))
        #: The shapes of input and output in the order of memory.
        self.inputs = tuple(plan.shape[d] for d in plan.places)
        self.outputs = self.shape if plan.order is None else plan.kept_shape
        self.small = math.prod(plan.shape) < _LARGE and math.prod(self.shape) < _LARGE
        self.result, self.derivative = known(plan.result), known(plan.derivative)
        as_it_is = plan.dtype == COMPUTED_AS.get(plan.input, plan.input)
        self.dtype = dtype if as_it_is else np.dtype(plan.dtype)
        #: The dtype of integers of which results are made as they are, though derivatives need them as floats.
        self.whole = np.dtype(plan.input) if native.reads_integers(plan) else None
        #: The dtype of the parts of complex numbers.
        self.parts = np.dtype(plan.dtype) if plan.is_complex else None
        self.quick = self._quick(dtype, strides)
        #: How many threads a call may use, apart from the quick ones; 0 is the number of `set_num_threads`.
        self.threads = threads

    @property
    def native(self) -> _engine.Plan:
        return native.engine_plan(self.plan)

    def _quick(self, dtype: np.dtype[Any], strides: tuple[int, ...]) -> _engine.ArrayPlan | None:
        """The short way for small arrays, which takes and makes them without a word of Python.

        An input may have these `strides`, whatever order that is. Where axes lie in another order, the output has to
        have all of them.
        """
        winners, flat = self.plan.residual.winners, len(self.shape) < len(self.plan.shape)
        if not self.small or self.parts is not None or self.dtype != dtype or winners > 4:
            return None
        if self.order is not None and flat:
            return None
        layout = self.inputs, self.outputs, self.order or ()
        dtypes = self.dtype, self.result, self.derivative, _PLACES[winners or 1]
        return _engine.ArrayPlan(self.native, np.ndarray, *layout, *dtypes, strides)

    # --- arrays as memory, and back ---

    def inside(self, x: Array) -> Array:
        """An input as the engine wants it: in its order and byte order, copied only if it must be."""
        skip = self.plan.skipped_as_nan
        if skip is not None:
            x = np.where(x == x.dtype.type(skip), math.nan, x)
        return self._raw(_readable(x if self.order is None else x.transpose(self.order), self.dtype))

    def tangent(self, t: Array) -> Array:
        """A tangent, likewise."""
        return self._raw(_readable(t if self.order is None else t.transpose(self.order), self.derivative))

    def cotangent(self, g: Array) -> Array:
        """A cotangent, likewise: its pooled axes may be gone."""
        return self._raw(_readable(g if _is_plain(g) and self.order is None else self._laid_output(g), self.derivative))

    def empty(self, dtype: np.dtype[Any]) -> Array:
        """Room for an output, with its axes in the order in which the engine writes them."""
        if self.small:
            return np.empty(self.outputs, dtype)
        try:
            return _empty_in_lines(self.outputs, dtype)
        except (MemoryError, ValueError, OverflowError):  # the latter two for more bytes than can be counted
            raise self.plan.no_room() from None

    def outside(self, y: Array) -> Array:
        """An output with its axes in the caller's order."""
        if self.back is None:
            return y
        y = y.transpose(self.back)
        return y if y.shape == self.shape else y.reshape(self.shape)

    def _laid_output(self, y: Array) -> Array:
        """An array shaped like the output, with its axes as they lie in memory, the pooled ones too."""
        whole = y if y.ndim == len(self.plan.shape) else np.expand_dims(y, self.plan.axes)
        return whole if self.order is None else whole.transpose(self.order)

    def _raw(self, a: Array) -> Array:
        """Complex numbers as their parts, on an axis more; all others as they are."""
        return a if self.parts is None else a[..., None].view(self.parts)

    # --- what the engine does ---

    def forward(self, x: Array, out: Array | None = None) -> Array:
        if out is None:
            y = self.empty(self.result)
            self._write(x, y)
            return self.outside(y)
        if out.flags.aligned:
            self._write(x, self._laid_output(out))
        else:
            out[...] = self.forward(x)
        return out

    def _write(self, x: Array, y: Array) -> None:
        """The output, into an array that lies as outputs do in memory."""
        if self.whole is None:
            return native.forward(self.plan, self.inside(x), self._raw(y), self.threads)
        whole = _readable(x if self.order is None else x.transpose(self.order), self.whole)
        native.forward_of_integers(self.plan, whole, y, self.threads)

    def linearize(self, x: Array) -> tuple[Array, KeptArrays]:
        """The output as the caller has it, and what the derivative keeps, as it lies in memory."""
        keeps, inside, y = self.plan.residual, self.inside(x), self.empty(self.result)
        winners = self.empty(_PLACES[keeps.winners]) if keeps.winners else None
        native.linearize(self.plan, inside, self._raw(y), winners, self.threads)
        kept_y = y.copy() if keeps.y else None  # the caller may write to the one that is handed out
        return self.outside(y), (inside if keeps.x else None, kept_y, winners)

    def push(self, kept: KeptArrays, t: Array) -> Array:
        dy, t = self.empty(self.derivative), self.tangent(t)
        native.push(self.plan, kept, t if kept[2] is None else np.ascontiguousarray(t), self._raw(dy), self.threads)
        return self.outside(dy)

    def pull(self, kept: KeptArrays, g: Array, out: Array | None = None) -> Array:
        if out is None:
            gx = np.empty(self.inputs, self.derivative) if self.small else _empty_in_lines(self.inputs, self.derivative)
            native.pull(self.plan, kept, self.cotangent(g), self._raw(gx), self.threads)
            return gx if self.back is None else gx.transpose(self.back)
        if out.flags.aligned:
            room = out if self.order is None else out.transpose(self.order)
            native.pull(self.plan, kept, self.cotangent(g), self._raw(room), self.threads)
        else:
            out[...] = self.pull(kept, g)
        return out

    def jvp(self, x: Array, t: Array) -> tuple[Array, Array]:
        y, dy = self.empty(self.result), self.empty(self.derivative)
        native.jvp(self.plan, self.inside(x), self.tangent(t), self._raw(y), self._raw(dy), self.threads)
        return self.outside(y), self.outside(dy)

    def indices(self, winners: Array) -> Array:
        found = self.empty(_INDEX)
        native.indices(self.plan, winners, found, self.threads)
        return self.outside(found)

    def kept_outside(self, kept: KeptArrays) -> Kept:
        """What is kept, with the axes in the caller's order."""
        x = kept[0] if kept[0] is None or self.back is None else kept[0].transpose(self.back)
        return Kept(x, *(None if a is None else self.outside(a) for a in kept[1:]))

    # --- checks ---

    def check_direction(self, name: str, a: Array, shape: tuple[int, ...]) -> None:
        """A tangent or a cotangent has a known shape, and real numbers beside an input of real numbers."""
        check_shape(name, a, shape)
        if (
            a.dtype == self.derivative
            or a.dtype.name in NATIVE_TYPES
            or (self.plan.is_complex and a.dtype.name in PART_TYPES)
        ):
            return
        beside = "complex numbers; give real or complex" if self.plan.is_complex else "plain numbers; give real"
        raise TypeError(f"{name} has dtype {a.dtype} beside an input of {beside} numbers")


def memory_order(x: Array, pooled: Sequence[int]) -> Order:
    """The axes from the longest stride to the shortest, with the `pooled` ones in their usual order; see `in_order`.

    None if that is the usual order, or if cells share their memory. An axis with one cell stays where it is, as its
    stride says nothing.
    """
    several = [d for d in range(x.ndim) if x.shape[d] > 1]
    if any(x.strides[d] == 0 for d in several):
        return None
    ranked = in_order(sorted(several, key=lambda d: -abs(x.strides[d])), pooled, x.shape, x.itemsize)
    if ranked is None or ranked == several:
        return None
    places = iter(ranked)
    return tuple(next(places) if x.shape[d] > 1 else d for d in range(x.ndim))


def in_order(ranked: list[int], pooled: Sequence[int], lengths: Sequence[int], itemsize: int) -> list[int] | None:
    """Axes as they lie in memory, but for the `pooled` ones, which change places until they ascend.

    Then cells lie in the order in which the first winner is looked for. If they did not before, the engine reads them
    as a view, by runs of what lies inside of all pooled axes. None if such a run is too short for that: then it is
    better to leave no axis where it is.
    """
    places = [i for i, d in enumerate(ranked) if d in pooled]
    axes = sorted(ranked[i] for i in places)
    if axes == [ranked[i] for i in places]:
        return ranked
    if itemsize * math.prod(lengths[d] for d in ranked[places[-1] + 1 :]) < _RUN:
        return None
    moved = list(ranked)
    for i, d in zip(places, axes, strict=True):
        moved[i] = d
    return moved


def _is_plain(a: Array) -> bool:
    """Whether the memory says all about the array."""
    return a.flags.c_contiguous and a.flags.aligned


def _readable(a: Array, dtype: np.dtype[Any]) -> Array:
    """The array itself, if the engine can read it where it lies; else a copy."""
    if a.dtype != dtype:
        return a.astype(dtype, order="C")
    return a if a.flags.aligned else a.copy()


def _empty_in_lines(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Room for an array that, if large, starts at a whole line of the cache: best for the engine's stores past it.

    And where the last one of its size was, if that is gone.
    """
    large = math.prod(shape) >= _LARGE
    return _engine.large_array(shape, dtype) if large else np.empty(shape, dtype)


def check_shape(name: str, a: Array, shape: tuple[int, ...]) -> None:
    if a.shape != shape:
        raise ValueError(f"{name} has shape {a.shape} and should have {shape}")


def check_out(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], **others: Array | None) -> None:
    """`out` must be an array that can take the result as it is, and must not lie over any of the others."""
    if type(out) is not np.ndarray:
        _check_type_of_out(out)
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(f"out has {out.dtype}{out.shape} and the result is {dtype}{shape}; make them agree")
    if not out.flags.writeable:
        raise ValueError("out is read-only; give an array that can be written")
    for name, other in others.items():
        if other is not None and np.may_share_memory(out, other):
            raise ValueError(f"out overlaps {name}, and an input is never changed; give memory of its own")


def _check_type_of_out(out: Any) -> None:
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out is a {type(out).__name__}; give a NumPy array")
    if isinstance(out, np.ma.MaskedArray):
        raise TypeError("out is a masked array, whose mask would not be that of the result; give out.data")
    check_type("out", type(out))


def copy_into(out: Array, result: Array, **others: Array | None) -> Array:
    check_out(out, result.shape, result.dtype, **others)
    np.copyto(out, result)
    return out
