"""Which input cells each output cell sees.

A window is a small value: what the user asked for, checked once when it is made and once more against
a shape. `layout` turns it into plain numbers, one `Axis` for each pooled axis, and that is all the
engine ever sees of it. Every error about a shape, an axis or a window argument is raised here.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .parameters import documented

#: One int for all axes or one for each, in a tuple, a list or an array.
Ints: TypeAlias = int | Sequence[int] | NDArray[np.integer[Any]]
PaddingLike: TypeAlias = int | str | Sequence[int | Sequence[int]] | NDArray[np.integer[Any]]
#: The same as `Ints`, with None for an axis that keeps its length.
OutputSize: TypeAlias = int | Sequence[int | None] | NDArray[np.integer[Any]]

PADDING_WORDS = ("valid", "same", "same_lower")


# --- arguments ------------------------------------------------------------------------------------


def whole(name: str, value: Any, least: int) -> int:
    """`value` as an int that is at least `least`; bools and floats are refused, never rounded."""
    if isinstance(value, bool):
        raise TypeError(f"{name}={value!r} is a bool; give an int >= {least}")
    try:
        number = operator.index(value)
    except TypeError:
        rounded = ", which would have to be rounded" if isinstance(value, Number) else ""
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}{rounded}; give an int >= {least}") from None
    if number < least:
        raise ValueError(f"{name}={value!r} is less than {least}; give an int >= {least}")
    return number


def listed(value: Any) -> Any:
    """An array as the lists that it holds; anything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else value


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def checked_shape(shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of ints."""
    shape = listed(shape)
    if not _is_sequence(shape):
        raise TypeError(f"shape={shape!r} is a {type(shape).__name__}; give one int for each axis, as x.shape has")
    return tuple(whole("shape", n, 0) for n in shape)


def _whole_or_each(name: str, value: Any, least: int) -> int | tuple[int, ...]:
    """An int for all axes, or a tuple with one int an axis."""
    value = listed(value)
    if not _is_sequence(value):
        return whole(name, value, least)
    if not value:
        raise ValueError(f"{name}={value!r} is empty; give one int, or one for each pooled axis")
    return tuple(whole(f"{name}[{i}]", v, least) for i, v in enumerate(value))


def _padding(value: Any) -> int | str | tuple[int | tuple[int, int], ...]:
    value = listed(value)
    if isinstance(value, str):
        if value not in PADDING_WORDS:
            raise ValueError(f"padding={value!r} is not a padding word; give one of {PADDING_WORDS} or numbers")
        return value
    if not _is_sequence(value):
        return whole("padding", value, 0)
    if not value:
        raise ValueError("padding=() is empty; give one int, or one int or (lo, hi) pair for each pooled axis")
    return tuple(_padding_entry(f"padding[{i}]", listed(entry)) for i, entry in enumerate(value))


def _padding_entry(name: str, entry: Any) -> int | tuple[int, int]:
    if not _is_sequence(entry):
        return whole(name, entry, 0)
    if len(entry) != 2:
        raise ValueError(f"{name}={entry!r} has {len(entry)} entries; an axis has two ends, give (lo, hi)")
    return whole(f"{name}[0]", entry[0], 0), whole(f"{name}[1]", entry[1], 0)


def _for_axes(name: str, value: Any, rank: int) -> tuple[Any, ...]:
    """`value` for each of `rank` axes: one that is not a tuple is meant for all of them."""
    if not isinstance(value, tuple):
        return (value,) * rank
    if len(value) != rank:
        raise ValueError(
            f"{name}={value!r} has {len(value)} entries and {rank} axes are pooled; give one int, or one for each axis"
        )
    return value


# --- windows --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """One pooled axis as numbers: output i sees the cells `i*stride - pad_lo + k*dilation`, 0 <= k < kernel.

    Those below 0 or from `length` on are padding up to `pad_hi` beyond the end, and nothing after that.
    With `adaptive`, output i sees `floor(i*length/output)` up to, not including, `ceil((i+1)*length/output)`
    instead, and `kernel` is a bound on how many those are.
    """

    length: int
    output: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    pad_lo: int = 0
    pad_hi: int = 0
    adaptive: bool = False

    def empty_window(self) -> int | None:
        """The first output that sees no real cell, if there is one.

        A window whose first cell is real is not empty, so only those that start in the padding are looked at.
        """
        if self.adaptive:
            return None
        for i in range(min(self.output, -(-self.pad_lo // self.stride))):
            start = i * self.stride - self.pad_lo
            skipped = -(start // self.dilation)
            if skipped >= self.kernel or start + skipped * self.dilation >= self.length:
                return i
        beyond = -(-(self.length + self.pad_lo) // self.stride)
        return beyond if beyond < self.output else None


@documented
@dataclass(frozen=True)
class Window:
    """A box of `kernel_size` cells that moves in steps of `stride` over the padded input.

    Along one axis of length L, output i sees the cells `i*stride - pad_lo + k*dilation` for k in 0..kernel-1.
    The number of outputs is `floor((L + pad_lo + pad_hi - dilation*(kernel-1) - 1)/stride) + 1`; with `ceil_mode`,
    ceil in place of floor, less one if the last window would start in the right padding.

    Each argument is one int for all pooled axes or one an axis, in a tuple, a list or an array of ints. `stride=None`
    means the kernel size.
    `padding` may also give a `(lo, hi)` pair for an axis, or be `"valid"` (none), `"same"` or `"same_lower"`
    (as much as makes the output `ceil(L/stride)` long, the odd cell at the end or at the start).

    >>> Window((3, 3), stride=2, padding=1).axes_of((7, 8))[0].output
    4
    """

    kernel_size: int | tuple[int, ...]
    stride: int | tuple[int, ...] | None = None
    padding: int | str | tuple[int | tuple[int, int], ...] = 0
    dilation: int | tuple[int, ...] = 1
    ceil_mode: bool = False

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: PaddingLike = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
    ) -> None:
        if not isinstance(ceil_mode, bool):
            raise TypeError(f"ceil_mode={ceil_mode!r} is not a bool; give True or False")
        put = object.__setattr__
        put(self, "kernel_size", _whole_or_each("kernel_size", kernel_size, 1))
        put(self, "stride", None if stride is None else _whole_or_each("stride", stride, 1))
        put(self, "padding", _padding(padding))
        put(self, "dilation", _whole_or_each("dilation", dilation, 1))
        put(self, "ceil_mode", ceil_mode)
        if isinstance(self.kernel_size, tuple):
            self.of_axis(0, len(self.kernel_size))

    @property
    def rank(self) -> int | None:
        """How many axes the window has, or None where an int leaves that to `axes`."""
        return len(self.kernel_size) if isinstance(self.kernel_size, tuple) else None

    def of_axis(self, j: int, rank: int) -> tuple[int, int, int | str | tuple[int, int], int]:
        """Kernel, stride, padding and dilation of the j-th of `rank` axes."""
        kernel = _for_axes("kernel_size", self.kernel_size, rank)
        stride = kernel if self.stride is None else _for_axes("stride", self.stride, rank)
        padding = _for_axes("padding", self.padding, rank)
        return kernel[j], stride[j], padding[j], _for_axes("dilation", self.dilation, rank)[j]

    def axes_of(self, lengths: Sequence[int]) -> tuple[Axis, ...]:
        """The geometry over pooled axes of these lengths."""
        return tuple(self._axis(*self.of_axis(j, len(lengths)), length) for j, length in enumerate(lengths))

    def _axis(self, kernel: int, stride: int, padding: int | str | tuple[int, int], dilation: int, length: int) -> Axis:
        reach = dilation * (kernel - 1) + 1
        lo, hi = _pad_both_ends(padding, length, stride, reach)
        room = length + lo + hi - reach
        output = (-(-room // stride) if self.ceil_mode else room // stride) + 1
        if self.ceil_mode and (output - 1) * stride >= length + lo:
            output -= 1
        if output < 1:
            raise ValueError(
                f"kernel_size={kernel} with dilation={dilation} reaches over {reach} cells, and the padded axis has "
                f"{length + lo + hi} (length {length}, padding {lo} and {hi}); use a smaller kernel or more padding"
            )
        return Axis(length, output, kernel, stride, dilation, lo, hi)


def _pad_both_ends(padding: int | str | tuple[int, int], length: int, stride: int, reach: int) -> tuple[int, int]:
    if isinstance(padding, int):
        return padding, padding
    if isinstance(padding, tuple):
        return padding
    if padding == "valid":
        return 0, 0
    total = max(0, (-(-length // stride) - 1) * stride + reach - length)
    small, large = total // 2, total - total // 2
    return (small, large) if padding == "same" else (large, small)


@documented
@dataclass(frozen=True)
class Adaptive:
    """As many windows as there should be outputs, laid evenly over the axis.

    Along one axis of length L, output i of n sees the cells from `floor(i*L/n)` up to, not including,
    `ceil((i+1)*L/n)`: neighbours share a cell where n does not divide L. None for an axis keeps its length.

    >>> Adaptive((3,)).axes_of((5,))[0].output
    3
    """

    output_size: int | tuple[int | None, ...]

    def __init__(self, output_size: OutputSize) -> None:
        object.__setattr__(self, "output_size", _output_size(output_size))

    @property
    def rank(self) -> int | None:
        return len(self.output_size) if isinstance(self.output_size, tuple) else None

    def axes_of(self, lengths: Sequence[int]) -> tuple[Axis, ...]:
        """The geometry over pooled axes of these lengths."""
        outputs = _for_axes("output_size", self.output_size, len(lengths))
        return tuple(_bins(length, length if n is None else n) for length, n in zip(lengths, outputs, strict=True))


def _output_size(value: Any) -> int | tuple[int | None, ...]:
    value = listed(value)
    if not _is_sequence(value):
        return whole("output_size", value, 1)
    if not value:
        raise ValueError("output_size=() is empty; give one int, or one (or None) for each pooled axis")
    return tuple(None if v is None else whole(f"output_size[{i}]", v, 1) for i, v in enumerate(value))


def _bins(length: int, output: int) -> Axis:
    if length % output == 0:
        return Axis(length, output, kernel=length // output, stride=length // output)
    return Axis(length, output, kernel=min(length, length // output + 2), adaptive=True)


@documented
@dataclass(frozen=True)
class Global:
    """One window that sees the whole of every pooled axis.

    The pooled axes stay, one cell long (`keepdims=True`), or go (`keepdims=False`).

    >>> Global().axes_of((5, 7))[1].kernel
    7
    """

    keepdims: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.keepdims, bool):
            raise TypeError(f"keepdims={self.keepdims!r} is not a bool; give True or False")

    @property
    def rank(self) -> None:
        return None

    def axes_of(self, lengths: Sequence[int]) -> tuple[Axis, ...]:
        """The geometry over pooled axes of these lengths."""
        return tuple(Axis(length, output=1, kernel=length, stride=length) for length in lengths)


AnyWindow: TypeAlias = Window | Adaptive | Global


# --- a window over a shape ------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """A window laid over a shape: the pooled axes in ascending order, their geometry, and the output's shape."""

    axes: tuple[int, ...]
    geometry: tuple[Axis, ...]
    output_shape: tuple[int, ...]


def checked_axes(axes: Any, window: AnyWindow) -> tuple[int, ...] | None:
    """`axes` as a tuple of ints, consistent with the window's rank; None means the last `rank` axes.

    Or of names, for arrays whose dimensions have some; whoever knows these arrays finds the numbers.
    """
    if axes is None:
        if window.rank is None:
            raise ValueError(
                f"{window!r} does not say how many axes to pool; give axes=..., or one number for each pooled axis"
            )
        return None
    axes = listed(axes)
    chosen: tuple[Any, ...] = tuple(axes) if _is_sequence(axes) else (axes,)
    if not chosen:
        raise ValueError("axes=() pools nothing; give at least one axis")
    if any(isinstance(axis, str) for axis in chosen):
        chosen = _names(chosen)
    else:
        lowest = -(1 << 31)
        chosen = tuple(whole("axes" if len(chosen) == 1 else f"axes[{i}]", a, lowest) for i, a in enumerate(chosen))
    if window.rank not in (None, len(chosen)):
        raise ValueError(f"axes={chosen} names {len(chosen)} axes and {window!r} has {window.rank}; make them agree")
    if isinstance(window, Window):
        window.of_axis(0, len(chosen))
    return chosen


def are_names(axes: Any) -> bool:
    """Whether axes are the names of dimensions, as xarray has them."""
    return axes is not None and isinstance(axes[0], str)


def _names(axes: tuple[Any, ...]) -> tuple[Any, ...]:
    """The names of dimensions, as xarray has them."""
    if not all(isinstance(axis, str) for axis in axes):
        raise TypeError(f"axes={axes} mixes names and numbers; give either")
    if len(set(axes)) != len(axes):
        raise ValueError(f"axes={axes} names a dimension twice; name each pooled dimension once")
    return axes


def _axes_in(axes: tuple[int, ...] | None, window: AnyWindow, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The pooled axes as numbers from 0 up, in the order the user gave them."""
    ndim = len(shape)
    rank = len(axes) if axes is not None else window.rank or 0
    if rank > ndim:
        raise ValueError(f"{rank} axes are pooled and the input of shape {shape} has {ndim}; give fewer axes")
    found = []
    if are_names(axes):
        raise TypeError(f"axes={axes} are names, and x has no named dimensions; give numbers, or an array of xarray")
    for axis in range(-rank, 0) if axes is None else axes:
        if not -ndim <= axis < ndim:
            raise ValueError(f"axes={axes}: {axis} is out of range for shape {shape}; give {-ndim} to {ndim - 1}")
        found.append(axis % ndim)
    if len(set(found)) != rank:
        raise ValueError(f"axes={axes} names an axis of shape {shape} twice; name each pooled axis once")
    return tuple(found)


def layout(window: AnyWindow, axes: tuple[int, ...] | None, shape: tuple[int, ...], cell_for: str | None) -> Layout:
    """Lay `window` over `axes` of `shape`; `cell_for` names the kind that needs a real cell in every window.

    The j-th number of a window belongs to the j-th of `axes`, in whatever order these are given;
    "row-major" always means the array's own order of axes, which is the order of the result.
    """
    places = _axes_in(axes, window, shape)
    for place in places:
        if shape[place] == 0:
            raise ValueError(f"axis {place} of shape {shape} is pooled and has length 0; a pooled axis needs a cell")
    geometry = dict(zip(places, window.axes_of([shape[p] for p in places]), strict=True))
    for place, axis in geometry.items():
        empty = axis.empty_window() if cell_for else None
        if empty is not None:
            raise ValueError(
                f"output {empty} along axis {place} of shape {shape} sees no real cell, only padding, and {cell_for} "
                f"needs one; use less padding (here {axis.pad_lo} and {axis.pad_hi}, kernel {axis.kernel})"
            )
    keep = not isinstance(window, Global) or window.keepdims
    output_shape = tuple(
        geometry[d].output if d in geometry else length for d, length in enumerate(shape) if keep or d not in geometry
    )
    return Layout(tuple(sorted(places)), tuple(geometry[d] for d in sorted(geometry)), output_shape)
