"""How a kernel is launched: at once, or as a node of the graph that PyTorch's compiler is tracing."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.library import wrap_triton


class _Spelled(float):
    """A float whose `repr` is an expression: the compiler writes constants into a program, where `inf` is no name."""

    def __repr__(self) -> str:
        return f"float({str(float(self))!r})"


def spelled(value: Any) -> Any:
    """A constant, however deep in tuples, that can be written down and read again.

    >>> spelled(("max", (1, float("-inf"))))
    ('max', (1, float('-inf')))
    """
    if isinstance(value, tuple):
        return tuple(map(spelled, value))
    return _Spelled(value) if isinstance(value, float) and not math.isfinite(value) else value


def launch(kernel: Any, grid: int, arguments: list[Any], constants: dict[str, Any]) -> None:
    """`kernel` over so many programs. Who traces PyTorch's operators has a mode, and sees the kernel as one of them."""
    if torch._C._len_torch_dispatch_stack():
        kernel = wrap_triton(kernel)
        constants = {name: spelled(value) for name, value in constants.items()}
    kernel[(grid,)](*arguments, **constants)
