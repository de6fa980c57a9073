"""One thin function for each kind and window; array first, PyTorch's names. They are made from the table.

The spellings with a number (`max_pool2d`) pool the last 1, 2 or 3 axes, so an int serves as kernel size.
"""

from __future__ import annotations

from inspect import Parameter
from typing import Any

from numpy.typing import ArrayLike

from .arrays import Array
from .making import Style, explained, make
from .pool import Pool
from .remembering import Remembered
from .table import TABLE, Pooling
from .windows import Ints, OutputSize, PaddingLike  # noqa: F401 - annotations of what is made

__all__ = list(TABLE)


#: The pools of the latest calls, by their arguments.
_POOLS: Remembered[Pool] = Remembered(512)


def _with_indices(pool: Pool, x: ArrayLike, out: Array | None, return_indices: bool) -> Any:
    if not isinstance(return_indices, bool):
        raise TypeError(f"return_indices={return_indices!r} is not a bool; give True or False")
    return pool.with_indices(x, out) if return_indices else pool(x, out)


def _body(pooling: Pooling, axes: str) -> list[str]:
    given = [
        pooling.kind.__name__,
        *(each.name for each in pooling.own),
        *pooling.window_arguments,
        axes,
        "skip",
        "min_count",
    ]
    lines = [
        f"given = {', '.join(given)}",
        "pool = _POOLS.find(given)",
        "if pool is None:",
        f"    pool = _POOLS.keep(given, Pool({pooling.kind_call}, {pooling.window_call}, {axes}, skip, min_count))",
    ]
    if pooling.has_indices:
        lines += ["if return_indices is not False:", "    return _with_indices(pool, x, out, return_indices)"]
    return [*lines, "return pool(x, out)"]


STYLE = Style(
    array="ArrayLike",
    result="Array",
    body=_body,
    text=explained,
    last=(Parameter("out", Parameter.KEYWORD_ONLY, default=None, annotation="Array | None"),),
)

globals().update(make(TABLE.values(), STYLE, globals()))
