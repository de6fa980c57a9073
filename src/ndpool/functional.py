"""One thin function for each kind and window; array first, PyTorch's names. They are made from the table.

The spellings with a number (`max_pool2d`) pool the last 1, 2 or 3 axes, so an int serves as kernel size.
"""

from __future__ import annotations

from inspect import Parameter
from typing import Any

from numpy.typing import ArrayLike

from .arrays import Array
from .kinds import Kind
from .making import Style, explained, make
from .pool import Pool
from .table import TABLE, Pooling
from .windows import AnyWindow, Ints, OutputSize, PaddingLike  # noqa: F401 - annotations of what is made

__all__ = list(TABLE)


def _apply(kind: Kind, window: AnyWindow, x: ArrayLike, axes: Ints | None, out: Array | None) -> Array:
    return Pool(kind, window, axes)(x, out)


def _apply_with_indices(
    kind: Kind, window: AnyWindow, x: ArrayLike, axes: Ints | None, out: Array | None, return_indices: bool
) -> Any:
    if not isinstance(return_indices, bool):
        raise TypeError(f"return_indices={return_indices!r} is not a bool; give True or False")
    pool = Pool(kind, window, axes)
    return pool.with_indices(x, out) if return_indices else pool(x, out)


def _body(pooling: Pooling, axes: str) -> list[str]:
    arguments = f"{pooling.kind_call}, {pooling.window_call}, x, {axes}, out"
    if pooling.has_indices:
        return [f"return _apply_with_indices({arguments}, return_indices)"]
    return [f"return _apply({arguments})"]


STYLE = Style(
    array="ArrayLike",
    result="Array",
    body=_body,
    text=explained,
    last=(Parameter("out", Parameter.KEYWORD_ONLY, default=None, annotation="Array | None"),),
)

globals().update(make(TABLE.values(), STYLE, globals()))
