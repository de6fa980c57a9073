"""The arguments of a call as a `TensorPool`: checked and laid out once, then found again by how they are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import numpy as np
import torch
from torch import Tensor
from torch.compiler import is_compiling

from .._engine import are_same
from ..kind import Kind
from ..pool import Pool
from ..remembering import have_same_types
from ..windows import PADDING_WORDS, Adaptive, AnyWindow, Global, Ints, PaddingLike, Window, checked_axes, whole
from .engine import TensorPool, check_dense_layout, put

P = ParamSpec("P")

_POOLS_KEPT = 512


def remembered(make: Callable[P, TensorPool]) -> Callable[P, TensorPool]:
    """`make`, which is called once for each way in which its arguments can be written.

    Equal arguments of the same types are found first; then what is written the same. Equality alone is not enough: 2,
    2.0 and True are equal, and only the first is a kernel size. What can be written to, a list or a tensor, is read
    anew at every call.
    """
    same: dict[Any, tuple[Any, TensorPool]] = {}
    made: dict[str, TensorPool] = {}

    def remember(*args: P.args, **kwargs: P.kwargs) -> TensorPool:
        if is_compiling():
            return make(*args, **kwargs)
        try:
            kept, pool = same[args]
            if are_same(args, kept) or all(map(have_same_types, args, kept)):
                return pool
        except (KeyError, TypeError):  # a list has no hash
            pass
        values: Any = tuple(map(as_tuples, args))
        if not all(map(_is_fixed, values)):
            return make(*values, **kwargs)
        key = repr(values)
        pool = made[key] if key in made else put(made, key, make(*values, **kwargs), _POOLS_KEPT)
        if all(map(_is_fixed, args)):
            entry: tuple[Any, TensorPool] = args, pool
            put(same, args, entry, _POOLS_KEPT)
        return pool

    return remember


def as_tuples(value: Any) -> Any:
    """Arrays, tensors and lists as tuples of Python's numbers; everything else as it is, and all that is compiled.

    >>> as_tuples([1, np.array([2, 3])]), as_tuples(np.array(4)), as_tuples("same")
    ((1, (2, 3)), 4, 'same')
    """
    if is_compiling():
        return value
    if isinstance(value, np.ndarray | np.generic | Tensor):
        value = value.tolist()
    return tuple(map(as_tuples, value)) if isinstance(value, list | tuple) else value


#: Whose values cannot change behind their names, and are all in how they are written.
_FIXED = (int, float, str, type, type(None))


def _is_fixed(value: Any) -> bool:
    return all(map(_is_fixed, value)) if type(value) is tuple else isinstance(value, _FIXED)


def tensor_pool(
    kind: Kind, window: AnyWindow, axes: Ints | None, ndim: int, skip: float | None = None, min_count: int = 1
) -> TensorPool:
    """A pool over axes counted from the end of a tensor with `ndim` of them."""
    chosen = checked_axes(axes, window)
    if chosen is None:
        chosen = tuple(range(-(window.rank or 0), 0))
    for axis in chosen:
        if axis >= ndim:
            raise ValueError(f"axes={chosen}: {axis} is out of range for {ndim} axes; give {-ndim} to {ndim - 1}")
    places = tuple(axis - ndim if axis >= 0 else axis for axis in chosen)
    return TensorPool(Pool(kind, window, places, skip, min_count))


# --- as ndpool spells it --------------------------------------------------------------------------


def over_pool(pool: Pool, ndim: int) -> TensorPool:
    """A pool of one of the engine's kinds, for tensors with `ndim` axes."""
    arguments = pool.kind, pool.window, pool.axes, ndim, pool.skip, pool.min_count
    if is_compiling():
        return tensor_pool(*arguments)
    handles: dict[Any, TensorPool] = pool.handles  # type: ignore[attr-defined]
    try:
        return handles["torch", ndim]
    except KeyError:
        return put(handles, ("torch", ndim), tensor_pool(*arguments), _POOLS_KEPT)


@remembered
def over_window(
    kind: type[Kind],
    kernel_size: Ints,
    stride: Ints | None,
    padding: PaddingLike,
    dilation: Ints,
    ceil_mode: bool,
    axes: Ints | None,
    ndim: int,
    skip: float | None,
    min_count: int,
    *options: Any,
) -> TensorPool:
    window = Window(kernel_size, stride, padding, dilation, ceil_mode)
    return tensor_pool(kind(*options), window, axes, ndim, skip, min_count)


@remembered
def over_bins(
    kind: type[Kind],
    output_size: Any,
    axes: Ints | None,
    ndim: int,
    skip: float | None,
    min_count: int,
    *options: Any,
) -> TensorPool:
    return tensor_pool(kind(*options), Adaptive(output_size), axes, ndim, skip, min_count)


@remembered
def over_all(
    kind: type[Kind], keepdims: bool, axes: Ints, ndim: int, skip: float | None, min_count: int, *options: Any
) -> TensorPool:
    return tensor_pool(kind(*options), Global(keepdims), axes, ndim, skip, min_count)


# --- as PyTorch spells it -------------------------------------------------------------------------


@remembered
def over_torch_window(
    kind: type[Kind],
    rank: int,
    kernel_size: Ints,
    stride: Ints | None,
    padding: Any,
    dilation: Ints,
    ceil_mode: bool,
    *options: Any,
) -> TensorPool:
    """The last `rank` axes. PyTorch takes one number in a tuple for all axes, and padding up to half the kernel."""
    if isinstance(padding, str):
        own = f"{kind.__name__.lower()}_pool"
        raise TypeError(
            f"padding={padding!r} is a word, which PyTorch's {own}{rank}d does not take; give ints, or use {own} (the "
            f"module {kind.__name__}Pool), which takes the words {', '.join(map(repr, PADDING_WORDS))}"
        )
    kernel = for_each("kernel_size", kernel_size, rank, 1)
    steps = kernel if stride is None or stride == () or stride == [] else for_each("stride", stride, rank, 1)
    pads, apart = for_each("padding", padding, rank, 0), for_each("dilation", dilation, rank, 1)
    for k, pad, step in zip(kernel, pads, apart, strict=True):
        reach = step * (k - 1) + 1
        if 2 * pad > reach:
            raise ValueError(
                f"padding={padding!r} is more than half of the {reach} cells that kernel_size={kernel_size!r} reaches "
                "over; give less, or call the function without a number in its name, which takes any padding"
            )
    return tensor_pool(kind(*options), Window(kernel, steps, pads, apart, ceil_mode), None, rank)


@remembered
def over_torch_bins(kind: type[Kind], rank: int, output_size: Any) -> TensorPool:
    """The last `rank` axes, each in so many bins."""
    if isinstance(output_size, Sequence) and len(output_size) != rank:
        raise ValueError(f"output_size={output_size!r} has {len(output_size)} entries; give one int, or {rank}")
    return tensor_pool(kind(), Adaptive(output_size), tuple(range(-rank, 0)), rank)


def for_each(name: str, value: Any, rank: int, least: int) -> tuple[int, ...]:
    """One int for each axis, from an int, a sequence of one, or a sequence of `rank`."""
    value = as_tuples(value)
    if isinstance(value, str):
        raise TypeError(f"{name}={value!r} is a word; give an int, or {rank} of them")
    given = tuple(value) if isinstance(value, Sequence) else (value,)
    if len(given) not in (1, rank):
        raise ValueError(f"{name}={value!r} has {len(given)} entries; give one int, or {rank}")
    return tuple(whole(name, number, least) for number in (given * rank if len(given) == 1 else given))


def may_ask() -> bool:
    """Whether a shape may be asked questions: `torch.jit.trace` warns of each, and its kernels ask as well."""
    return is_compiling() or not torch._C._is_tracing()


def check_torch_input(name: str, x: Tensor, rank: int) -> None:
    """PyTorch's shapes: channels and `rank` axes, none of them empty, with or without a batch, which may be."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} takes a tensor and got a {type(x).__name__}; call torch.as_tensor on it")
    empty = may_ask() and x.numel() == 0 and 0 in x.shape[-rank - 1 :]
    if x.dim() not in (rank + 1, rank + 2) or empty:
        check_dense_layout(x)
        raise ValueError(
            f"{name} got a tensor of shape {tuple(x.shape)}; give {rank + 1} axes, none of length 0, or a batch of such"
        )
