"""Memory that a thread uses again for every block: fresh memory costs as much as to fill it from a file.

What is in a room is lost when the same thread asks for it again.
"""

from __future__ import annotations

import threading
from math import prod
from typing import Any

import numpy as np

from ..arrays import Array


class _Rooms(threading.local):
    def __init__(self) -> None:
        self.kept: dict[str, Array] = {}


_rooms = _Rooms()


def room(name: str, shape: tuple[int, ...], dtype: Any) -> Array:
    """An array of any numbers, in the memory that this thread has by that name."""
    dtype = np.dtype(dtype)
    size = prod(shape) * dtype.itemsize
    kept = _rooms.kept.get(name)
    if kept is None or kept.size < size:
        # With some to spare, which costs nothing before it is used: sizes of files differ a little.
        kept = _rooms.kept[name] = np.empty(size + size // 4, np.uint8)
    found: Array = kept[:size].view(dtype).reshape(shape)
    return found
