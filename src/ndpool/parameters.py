"""What each parameter means, said once: every public function with a parameter of that name shows the same lines.

>>> @documented
... def halved(x, *, keepdims=True):
...     '''Half of `x`.'''
>>> print(halved.__doc__)
Half of `x`.
<BLANKLINE>
Parameters:
    x: The input, of any rank: an array, nested lists of numbers, or a tensor.
    keepdims: Whether the pooled axes stay, one cell long.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from textwrap import fill
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

#: A line or two for each name.
DESCRIPTIONS: dict[str, str] = {
    # arrays
    "x": "The input, of any rank: an array, nested lists of numbers, or a tensor.",
    "input": "The tensor: channels and the pooled axes, with or without a batch in front.",
    "t": "A tangent: how the input moves. It has the input's shape.",
    "g": "A cotangent. It has the output's shape.",
    "out": "A NumPy array with the result's shape and dtype, to write into and return; it must not overlap `x`.",
    "indices": "Where each number goes: what `return_indices` gave.",
    "shape": "The shape of an input.",
    # boxes
    "lo": "The lower end of a box: an array, or nested lists of numbers.",
    "hi": "The upper end of a box. It has the shape of the lower one.",
    "upper": 'How the map above Max (below Min) is chosen: "volume", "constant", "maxlin" or "tilin".',
    "lower": 'How the map below Max (above Min) is chosen: "volume", "lo", or weights of the shape of `lo`.',
    "at": "A point of the box, at which the map above is to be tightest; None is nowhere in particular.",
    "norm": "Which norm: 1, 2 or inf.",
    # the pool
    "pool": "An `ndpool.Pool`: a kind over a window.",
    "kind": "What one output is, given the cells that it sees: `Max()`, `Avg()`, or a `Kind` of your own.",
    "window": "Which cells each output sees: a `Window`, an `Adaptive` or a `Global`.",
    "axes": "The pooled axes, the j-th of which has the window's j-th numbers; None is the last ones.",
    "skip": "The value of cells that are not there: they neither win, count, nor get a gradient. NaN is a value here.",
    "min_count": "How many cells that are there an output needs; one with fewer is `skip` and has no gradient.",
    # windows
    "kernel_size": "Cells that a window has along each pooled axis: one int, or one an axis.",
    "stride": "Cells from one window to the next: one int, or one an axis; None is the kernel size.",
    "padding": (
        "Cells around the input: one int, or one an axis. Where PyTorch has no such function, also a `(lo, hi)` pair "
        'an axis, or "valid", "same" or "same_lower".'
    ),
    "dilation": "Cells from one cell of a window to the next: one int, or one an axis.",
    "ceil_mode": "Whether the output size is rounded up, so that the last window may reach over the end.",
    "output_size": "Cells of the result along each pooled axis: one int, or one an axis; None keeps the axis.",
    "keepdims": "Whether the pooled axes stay, one cell long.",
    # kinds
    "ties": 'Who gets the gradient among equal winners: the "first", each the same share ("split"), or "all" in full.',
    "Mode.ties": 'Which of the values that most cells have: the one seen "first", the "smallest" or the "largest".',
    "return_indices": "Whether to give `(y, indices)`, with each winner's flat row-major index over the pooled axes.",
    "count_include_pad": "Whether padded cells count: as cells in an average, as the number 0 in a smooth maximum.",
    "divisor_override": "What sums are divided by in place of the number of cells; None is that number.",
    "beta": (
        "How sharp the maximum is: a number that is not 0, a minimum if negative. In `ndpool.torch` also a tensor to "
        "differentiate in: one number, or one a channel."
    ),
    "rounding": (
        "How the mean of integers becomes an integer of their dtype: half_even, half_up, half_away, floor or truncate; "
        "None gives float64."
    ),
    "q": "Which quantile: from 0, the smallest cell, to 1, the largest.",
    "method": "What a quantile is between two cells, by NumPy's names: linear, midpoint, lower, higher or nearest.",
    "p": "The power of the norm, at least 1.",
    "norm_type": "The power; `inf` for the largest magnitude.",
    # the rest
    "n": "How many threads.",
}

_HEAD = "\n\nParameters:\n"


def documented(function: F) -> F:
    """`function`, or a class, with a line for each of its parameters at the end of its docstring."""
    if function.__doc__ is not None:  # python -OO takes docstrings away
        names = inspect.signature(function).parameters
        function.__doc__ = inspect.cleandoc(function.__doc__) + section(name for name in names if name != "self")
    return function


def section(names: Iterable[str], others: Mapping[str, str] | None = None, owner: str = "") -> str:
    """The part of a docstring that describes these parameters, in the form that the reference is made from.

    What the table does not have may be among the `others`. What it has for an `owner` alone goes before all else.
    """
    known = {**(others or {}), **DESCRIPTIONS}
    return _HEAD + "\n".join(
        _line(name, known[f"{owner}.{name}" if f"{owner}.{name}" in known else name]) for name in names
    )


@cache
def _line(name: str, description: str) -> str:
    return fill(f"{name}: {description}", 112, initial_indent=4 * " ", subsequent_indent=8 * " ")
