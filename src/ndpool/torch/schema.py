"""A pool as the plain values that an operator of PyTorch may take, and back.

kind, parameter, option   as the engine calls them: ("avg", 0.0, "counted")
skip                      the value of cells that are not there, and how many others an output needs: "nan 1"; or ""
window                    "floor" and "ceil", perhaps with a padding word; "adaptive"; "global" and "global flat"
numbers                   kernel, stride, dilation, lo and hi for each axis; its output size; or nothing
axes                      counted from the end
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ..kind import form_of, kind_of
from ..pool import Pool
from ..windows import Adaptive, AnyWindow, Global, Window
from .engine import TensorPool, put

Values: TypeAlias = tuple[str, float, str, str, str, list[int], list[int]]

SCHEMA = "str kind, float parameter, str option, str skip, str window, int[] numbers, int[] axes"

_KEEP_LENGTH = -1  # an output size of None


def encode(pool: Pool) -> Values:
    form, axes = form_of(pool.kind), pool.axes
    assert form is not None
    assert axes is not None
    skip = "" if pool.skip is None else f"{_encode_skip(pool.skip)} {pool.min_count}"
    return (form.name, form.parameter, form.option, skip, *_encode_window(pool.window, len(axes)), list(axes))


def _encode_skip(skip: float) -> str:
    """Whole numbers as such: of the integers of 64 bits, a float holds but some."""
    return str(skip) if isinstance(skip, int) else repr(float(skip))


def _encode_window(window: AnyWindow, rank: int) -> tuple[str, list[int]]:
    if isinstance(window, Global):
        return "global" if window.keepdims else "global flat", []
    if isinstance(window, Adaptive):
        sizes = window.output_size if isinstance(window.output_size, tuple) else (window.output_size,) * rank
        return "adaptive", [_KEEP_LENGTH if n is None else n for n in sizes]
    rounding = "ceil" if window.ceil_mode else "floor"
    numbers: list[int] = []
    for j in range(rank):
        kernel, stride, padding, dilation = window.of_axis(j, rank)
        if isinstance(padding, str):
            rounding, padding = rounding.split()[0] + " " + padding, 0
        lo, hi = padding if isinstance(padding, tuple) else (padding, padding)
        numbers += [kernel, stride, dilation, lo, hi]
    return rounding, numbers


def decode(
    kind: str, parameter: float, option: str, skip: str, window: str, numbers: Sequence[int], axes: Sequence[int]
) -> TensorPool:
    key = (kind, parameter, option, skip, window, tuple(numbers), tuple(axes))
    try:
        return _decoded[key]
    except KeyError:
        pass
    pool = Pool(kind_of(kind, option, parameter), _decode_window(window, numbers), tuple(axes), *_decode_skip(skip))
    return put(_decoded, key, TensorPool(pool), _DECODED_KEPT)


_decoded: dict[tuple[object, ...], TensorPool] = {}
_DECODED_KEPT = 256


def _decode_skip(skip: str) -> tuple[float | None, int]:
    if not skip:
        return None, 1
    value, min_count = skip.split()
    return int(value) if value.lstrip("-").isdigit() else float(value), int(min_count)


def _decode_window(window: str, numbers: Sequence[int]) -> AnyWindow:
    if window.startswith("global"):
        return Global(keepdims=window == "global")
    if window == "adaptive":
        return Adaptive([None if n == _KEEP_LENGTH else n for n in numbers])
    rounding, _, word = window.partition(" ")
    kernel, stride, dilation, lo, hi = (list(numbers[i::5]) for i in range(5))
    return Window(kernel, stride, word or list(zip(lo, hi, strict=True)), dilation, rounding == "ceil")
