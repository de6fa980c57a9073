"""Names that stand in several files and are imported from one module."""

from __future__ import annotations

import inspect
import sys
from typing import Any


def publish(module: str, written_in: str | None = None) -> None:
    """Let the classes and functions that `module` imports from the package `written_in` call `module` their own.

    The package is `module` itself unless another is named. Reprs, pickles and `help` then say the name that users
    import, whichever file a class stands in, and a pickle can still be read after a class has moved to another file.

    >>> from ndpool.layers import Dense
    >>> Dense
    <class 'ndpool.layers.Dense'>
    """
    inside = f"{written_in or module}."
    for value in list(vars(sys.modules[module]).values()):
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__.startswith(inside):
            value.__module__ = module
            for method in map(_function, vars(value).values()):
                if method is not None and method.__module__.startswith(inside):
                    method.__module__ = module


def _function(member: Any) -> Any:
    """The function that a member of a class is made from, or None."""
    member = getattr(member, "__func__", member)
    return member if inspect.isfunction(member) else None
