"""Names that stand in the files of a package and are imported from the package itself."""

from __future__ import annotations

import inspect
import sys
from typing import Any


def publish(package: str) -> None:
    """Let the classes and functions that a package imports from its own files name the package as their module.

    Reprs, pickles and `help` then say the name that users import, whichever file a class stands in, and a pickle can
    still be read after a class has moved to another file.

    >>> from ndpool.layers import Dense
    >>> Dense
    <class 'ndpool.layers.Dense'>
    """
    inside = f"{package}."
    for value in list(vars(sys.modules[package]).values()):
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__.startswith(inside):
            value.__module__ = package
            for method in map(_function, vars(value).values()):
                if method is not None and method.__module__.startswith(inside):
                    method.__module__ = package


def _function(member: Any) -> Any:
    """The function that a member of a class is made from, or None."""
    member = getattr(member, "__func__", member)
    return member if inspect.isfunction(member) else None
