"""Pools that are found again by the arguments they were made of: making one costs more than pooling a small array."""

from __future__ import annotations

from operator import is_
from typing import Any, Generic, TypeVar

import numpy as np

from .plan import put

Made = TypeVar("Made")

#: Whose values cannot change, nor mean more than they say.
_FIXED = (int, float, bool, str, type(None))


class Remembered(Generic[Made]):
    """What was made of some arguments, of which the latest `most` are kept.

    Equal arguments are not enough: 2, 2.0 and True are equal, and only the first is a kernel size. So their types are
    compared as well. A list is read anew at every call. Arguments that cannot be compared so are not kept.

    >>> made = Remembered(10)
    >>> made.keep((2, [3]), "a pool")
    'a pool'
    >>> made.find((2, [3])), made.find((2.0, [3])), made.find((2, (3,)))
    ('a pool', None, None)
    """

    __slots__ = ("_by_equality", "_by_type", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        #: The shortest way: found by their hash, and then seen to be of the same types.
        self._by_equality: dict[tuple[Any, ...], tuple[tuple[Any, ...], Made]] = {}
        self._by_type: dict[tuple[Any, ...], Made] = {}

    def find(self, arguments: tuple[Any, ...]) -> Made | None:
        try:
            kept, made = self._by_equality[arguments]
        except (KeyError, TypeError):  # a list has no hash
            pass
        else:
            if all(map(is_, arguments, kept)) or all(map(have_same_types, arguments, kept)):
                return made
        try:
            return self._by_type.get(tuple(map(_typed, arguments)))
        except TypeError:
            return None

    def keep(self, arguments: tuple[Any, ...], made: Made) -> Made:
        """`made` itself."""
        try:
            put(self._by_type, tuple(map(_typed, arguments)), made, self._most)
            put(self._by_equality, arguments, (arguments, made), self._most)
        except TypeError:
            pass
        return made


def have_same_types(a: Any, b: Any) -> bool:
    """Whether two equal values are also of one type, and so are all their entries."""
    return a is b or (type(a) is type(b) and (type(a) is not tuple or all(map(have_same_types, a, b))))


def _typed(value: Any) -> Any:
    """A key that holds the value and its type; a TypeError if the value may change."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind, tuple(map(_typed, value))
    if kind in _FIXED or isinstance(value, np.number | type):
        return kind, value
    raise TypeError
