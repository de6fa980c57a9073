"""What each parameter of the pooling functions means, said once and written into every docstring that has it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

#: One line a name. A function of another front end has the same words for the same thing.
DESCRIPTIONS: dict[str, str] = {
    "x": "The array or tensor; axes that are not pooled are carried along.",
    "input": "The tensor: channels and the pooled axes, with or without a batch in front.",
    "pool": "An `ndpool.Pool`: a kind over a window. The kind is one of ndpool's own.",
    "kernel_size": "Cells that a window has along each pooled axis: one int, or one an axis.",
    "stride": "Cells from a window to the next: one int, or one an axis; None is the kernel size.",
    "padding": "Cells added at both ends of each axis: an int, or one an axis. Where PyTorch has no such function, "
    'also a (lo, hi) pair an axis, or "same", "same_lower" or "valid".',
    "dilation": "The distance between the cells of one window: one int, or one an axis.",
    "ceil_mode": "Whether the output size is rounded up, so that the last window may reach over the end.",
    "ties": 'Who gets the gradient among equal winners: the "first", each the same share ("split"), or "all" in full.',
    "return_indices": "Whether to give `(y, indices)`, with each winner's flat row-major index over the pooled axes.",
    "count_include_pad": "Whether padded cells count: as cells in an average, as the number 0 in a smooth maximum.",
    "divisor_override": "What sums are divided by in place of the number of cells; None is that number.",
    "beta": "How sharp the maximum is: a number that is not 0, a minimum if negative. In PyTorch also a tensor to "
    "differentiate in: one number, or one a channel.",
    "p": "The power of the norm, at least 1.",
    "norm_type": "The power; `inf` for the largest magnitude.",
    "output_size": "Cells of the result along each pooled axis: one int, or one an axis; None keeps the axis.",
    "axes": "The pooled axes; None is the last ones, as many as the window has numbers.",
    "keepdims": "Whether the pooled axes stay, at length 1.",
    "indices": "Where each number goes: what `return_indices` gave.",
}


def parameters_of(names: Iterable[str]) -> str:
    """The part of a docstring that says what these are."""
    return "Parameters\n----------\n" + "\n".join(f"{name}\n    {DESCRIPTIONS[name]}" for name in names)


def documented(function: F) -> F:
    """The function itself, with its parameters described at the end of its docstring."""
    text = inspect.cleandoc(function.__doc__ or "")
    function.__doc__ = f"{text}\n\n{parameters_of(inspect.signature(function).parameters)}\n"
    return function
