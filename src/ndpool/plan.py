"""The seam: one pool over one shape, dtype and order of axes in memory, as plain numbers that every engine can read.

A `Plan` is made here and nowhere else. Engines, adapters, estimates of memory and whoever else has to know what a pool
does to an array read it, and derive nothing of it a second time. Dtypes are names, so that no library is in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from .kind import INTEGERS, Form, Kind, derivative_name, form_of
from .skipping import Skipped, held
from .windows import AnyWindow, Axis

if TYPE_CHECKING:
    from .pool import Pool

Shape: TypeAlias = tuple[int, ...]
Order: TypeAlias = tuple[int, ...] | None
V = TypeVar("V")

#: How many bytes a number of each dtype has.
ITEM_BYTES = {"bool": 1, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16}
ITEM_BYTES |= {f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)}

#: What engines compute in place of the dtypes that they do not have; a complex number is two of its parts.
COMPUTED_AS = {"bool": "uint8", "complex64": "float32", "complex128": "float64"}

#: Plans that are kept for the next time, of all pools together.
PLANS_KEPT = 1024


@dataclass(frozen=True)
class Residual:
    """What the derivative needs of a call: nothing, the `winners` in so many bytes each, `x`, or `x` and `y`."""

    x: bool = False
    y: bool = False
    winners: int = 0


@dataclass(frozen=True)
class Plan:
    """A pool over one shape, dtype and order of axes in memory.

    `shape` and `output_shape` are the caller's. `axes` are the pooled axes in ascending order, and `geometry` has the
    numbers of each. `order` lists the axes of the input from the outermost in memory to the innermost; None is the
    usual order. The input has dtype `input`, and engines compute it as `dtype`. The output has `result`, and tangents
    and cotangents have `derivative`. `skipped` says
    which cells are not there. `window` is what the caller asked for, to be named in messages.

    >>> from ndpool import Max, Pool, Window
    >>> plan = plan_of(Pool(Max(), Window((2, 2))), (8, 4, 6), "float32")
    >>> plan.output_shape, plan.residual, plan.residual_bytes
    ((8, 2, 3), Residual(x=False, y=False, winners=1), 48)
    >>> plan.dims
    ((8,), (4, 2, 2, 2, 1, 0, 0, 0), (6, 3, 2, 2, 1, 0, 0, 0))
    """

    kind: str
    option: str
    parameter: float
    curved: bool
    shape: Shape
    output_shape: Shape
    axes: tuple[int, ...]
    geometry: tuple[Axis, ...]
    order: Order
    input: str
    dtype: str
    result: str
    derivative: str
    residual: Residual
    skipped: Skipped | None
    window: AnyWindow = field(compare=False)
    #: What each engine has made of the plan, by the engine's name.
    handles: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Plan, tuple(getattr(self, each.name) for each in fields(self) if each.init)

    @cached_property
    def dims(self) -> tuple[tuple[int, ...], ...]:
        """The axes in the order of memory: one number for each that is carried, eight for each that is pooled."""
        pooled = dict(zip(self.axes, self.geometry, strict=True))
        found = tuple(_numbers(pooled[d]) if d in pooled else (self.shape[d],) for d in self.places)
        return (*found, (2,)) if self.is_complex else found

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The axes of the input from the outermost in memory to the innermost."""
        return self.order or tuple(range(len(self.shape)))

    @cached_property
    def pooled_places(self) -> tuple[int, ...]:
        """The pooled axes in the order of memory; in ascending order, the cells of a window are in row-major order."""
        return tuple(d for d in self.places if d in self.axes)

    @cached_property
    def kept_shape(self) -> Shape:
        """The shape of the output in the order of memory, with the pooled axes kept where the caller's are gone."""
        pooled = dict(zip(self.axes, self.geometry, strict=True))
        return tuple(pooled[d].output if d in pooled else self.shape[d] for d in self.places)

    @cached_property
    def output_order(self) -> Order:
        """The order of the output's axes in memory, of which the pooled ones may be gone."""
        if self.order is None or len(self.output_shape) == len(self.shape):
            return self.order
        return without(self.order, self.axes)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """The strides of the input, in elements."""
        return strides(self.shape, self.order)

    @cached_property
    def output_strides(self) -> tuple[int, ...]:
        """The strides of the output, in elements."""
        return strides(self.output_shape, self.output_order)

    @cached_property
    def is_complex(self) -> bool:
        """Whether each number is pooled as two parts, which lie side by side on a carried axis at the end."""
        return self.input.startswith("complex")

    @cached_property
    def makes_floats(self) -> bool:
        """Whether integers are computed as floats, which somebody has to make of them where an engine reads x."""
        return self.input in INTEGERS and self.dtype not in INTEGERS

    @cached_property
    def skipped_as_nan(self) -> int | None:
        """The skipped integer that front ends replace by NaN where they make floats of integers, if any.

        From 2**53 on, several integers become the same float, and only one of them is skipped.
        """
        if self.skipped is None or not self.makes_floats or abs(self.skipped.value) < 2**53:
            return None
        return int(self.skipped.value)

    @cached_property
    def is_linear(self) -> bool:
        """Whether the derivative is the same everywhere."""
        return self.residual == Residual()

    @cached_property
    def finds_first(self) -> bool:
        """Whether a winner that an engine finds is the first in row-major order.

        It is where the pooled axes lie in their order. One that has a single cell may lie anywhere.
        """
        ordered = [d for d in self.axes if self.shape[d] > 1]
        return [d for d in self.places if d in ordered] == ordered

    @cached_property
    def cells(self) -> int:
        """How many cells a window has at most."""
        return math.prod(axis.kernel for axis in self.geometry)

    @cached_property
    def residual_bytes(self) -> int:
        """How many bytes the derivative keeps. The input is kept as engines read it."""
        inputs, outputs = math.prod(self.shape), math.prod(self.output_shape)
        x = inputs * ITEM_BYTES[self.dtype] if self.residual.x else 0
        y = outputs * ITEM_BYTES[self.result] if self.residual.y else 0
        return x + y + outputs * self.residual.winners

    def too_large(self, why: str) -> str:
        """What to say where a plan is more than an engine or the memory can do."""
        said = f"{self.window!r} over shape {self.shape} is too large: {why}"
        return f"{said}; use a smaller kernel_size or less padding"

    def no_room(self) -> MemoryError:
        return MemoryError(self.too_large(f"there is no memory for an output of shape {self.output_shape}"))


# --- making plans ---------------------------------------------------------------------------------


def computes(kind: Kind, dtype: str) -> bool:
    """Whether there can be a plan: for the kinds and dtypes that engines have, and complex ones that go in parts."""
    known = dtype in ITEM_BYTES and (kind.in_parts or not dtype.startswith("complex"))
    return bool(type(kind).engine) and known


def plan_of(pool: Pool, shape: Shape, dtype: str, order: Order = None) -> Plan:
    """The plan of a pool over an array, made or found again."""
    form = form_of(pool.kind)
    if form is None or not computes(pool.kind, dtype):
        raise TypeError(f"no engine computes {pool.kind!r} of {dtype}; call ndpool.spec, which computes any kind")
    key = (form, pool.window, pool.axes, pool.skip, pool.min_count, shape, dtype, order)
    try:
        return _plans[key]
    except KeyError:
        pass
    return put(_plans, key, _made(pool, form, tuple(shape), dtype, order), PLANS_KEPT)


_plans: dict[Any, Plan] = {}


def _made(pool: Pool, form: Form, shape: Shape, dtype: str, order: Order) -> Plan:
    found = pool._layout(shape)
    pool.kind.check_dtype(dtype)
    skipped = None if pool.skip is None else Skipped(held(pool.skip, dtype), pool.min_count)
    usual = order is None or order == tuple(range(len(shape)))
    result = pool.kind.result_name(dtype)
    computed = result if form.in_floats and dtype in INTEGERS else dtype
    cells = math.prod(axis.kernel for axis in found.geometry)
    return Plan(
        kind=form.name,
        option=form.option,
        parameter=form.parameter,
        curved=form.curved,
        shape=shape,
        output_shape=found.output_shape,
        axes=found.axes,
        geometry=found.geometry,
        order=None if usual else order,
        input=dtype,
        dtype=COMPUTED_AS.get(computed, computed),
        result=result,
        derivative=derivative_name(dtype),
        residual=_residual(pool.keeps, cells, skipped is not None),
        skipped=skipped,
        window=pool.window,
    )


def _residual(keeps: str, cells: int, skips: bool) -> Residual:
    if keeps == "winners":
        return Residual(winners=winner_bytes(cells, skips))
    return Residual(x=keeps != "nothing", y=keeps == "x and y")


def winner_bytes(cells: int, skips: bool = False) -> int:
    """How many bytes a winner's place takes in a window of so many cells.

    Where cells may be skipped, a place that is larger by `cells` says that the output sees too few others.

    >>> winner_bytes(256), winner_bytes(257), winner_bytes(2**16 + 1), winner_bytes(2**32 + 1)
    (1, 2, 4, 8)
    """
    places = 2 * cells if skips else cells
    return next(size for size in (1, 2, 4, 8) if places <= 1 << 8 * size)


def _numbers(axis: Axis) -> tuple[int, ...]:
    step = (axis.stride, axis.dilation, axis.pad_lo, axis.pad_hi)
    return (axis.length, axis.output, axis.kernel, *step, int(axis.adaptive))


def without(order: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The order of the axes that are left when some are gone.

    >>> without((3, 0, 2, 1), (2,))
    (2, 0, 1)
    """
    left = sorted(set(order) - set(axes))
    return tuple(left.index(d) for d in order if d in left)


def strides(shape: Shape, order: Order) -> tuple[int, ...]:
    """The strides, in elements, of an array that is dense in this order of its axes.

    >>> strides((2, 3, 4, 5), (0, 2, 3, 1))
    (60, 1, 15, 3)
    """
    found, step = [0] * len(shape), 1
    for d in reversed(order or range(len(shape))):
        found[d] = step
        step *= max(shape[d], 1)
    return tuple(found)


def put(kept: dict[Any, V], key: Any, value: V, most: int) -> V:
    """Keep a value for the next time, and let the oldest go when there are too many. Threads may do so at once."""
    while len(kept) >= most:
        for oldest in tuple(kept)[:1]:
            kept.pop(oldest, None)
    kept[key] = value
    return value
