"""The numbers of a window over a length that may be a symbol: computed, with no question asked about it.

`windows` checks a window over a length that it knows, and a check is a question. A symbol that answers one binds the
program it stands in to the answer. So what a window may not be is left to the one who runs it, who knows the length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ..windows import Adaptive, AnyWindow, Global, Window

Whole: TypeAlias = Any  # an int, or what stands for one in a graph
Choice: TypeAlias = Callable[[Whole, Whole], Whole]


def number_of_outputs(window: AnyWindow, j: int, rank: int, length: Whole, larger: Choice, smaller: Choice) -> Whole:
    """How many outputs the j-th of `rank` pooled axes has; `larger` and `smaller` choose between two symbols.

    >>> number_of_outputs(Window(2, 3, 0, ceil_mode=True), 0, 1, 7, max, min)
    3
    """
    if isinstance(window, Global):
        return 1
    if isinstance(window, Adaptive):
        outputs = window.output_size if isinstance(window.output_size, tuple) else (window.output_size,) * rank
        return outputs[j] or length
    kernel, stride, padding, dilation = window.of_axis(j, rank)
    if padding in ("same", "same_lower"):
        return (length + stride - 1) // stride
    lo, hi = padding_of(window, j, rank, length, larger)
    reach = dilation * (kernel - 1) + 1
    room = length + lo + hi - reach
    if not window.ceil_mode:
        return room // stride + 1
    at_most = (room + stride - 1) // stride + 1
    if hi + stride <= reach:  # no window can start in the right padding
        return at_most
    starts_before_it = (length + lo + stride - 1) // stride
    return smaller(at_most, larger(at_most - 1, starts_before_it))


def padding_of(window: Window, j: int, rank: int, length: Whole, larger: Choice) -> tuple[Whole, Whole]:
    """The padding before and after the j-th of `rank` pooled axes.

    >>> padding_of(Window(4, 1, "same"), 0, 1, 7, max)
    (1, 2)
    """
    kernel, stride, padding, dilation = window.of_axis(j, rank)
    if isinstance(padding, tuple):
        return padding
    if not isinstance(padding, str):
        return padding, padding
    if padding == "valid":
        return 0, 0
    outputs = (length + stride - 1) // stride
    total = larger(0, (outputs - 1) * stride + dilation * (kernel - 1) + 1 - length)
    small = total // 2
    return (small, total - small) if padding == "same" else (total - small, small)
