"""Cells that are not there (rule "Skipped cells"): which value stands for them, in which dtype, and who has it.

A pool with `skip=v` passes over every cell that equals v; a NaN equals v if v is NaN. An output with fewer than
`min_count` cells that are there is v itself.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from numbers import Real
from typing import Any

from .kind import INTEGERS, Kind
from .scalars import is_nan
from .windows import whole

#: The finite floats of each dtype reach so far on both sides.
_LARGEST = {
    "float16": 65504.0,
    "bfloat16": math.ldexp(255, 120),
    "float32": math.ldexp(2**24 - 1, 104),
    "float64": math.ldexp(2**53 - 1, 971),
}


@dataclass(frozen=True)
class Skipped:
    """What a plan says of skipped cells: their value as the input's dtype has it, and how many cells an output needs.

    >>> Skipped(float("nan"), 1) == Skipped(float("nan"), 1)
    True
    """

    value: float
    min_count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", one_nan(self.value))


def one_nan(value: Any) -> Any:
    """The value; if it is NaN the one that is equal to itself, as an object, so that pools and plans compare by it."""
    return math.nan if isinstance(value, float) and value != value else value


def checked_skip(skip: Any, min_count: Any, kind: Kind) -> tuple[Any, int]:
    """The arguments of a pool, whichever its input is."""
    count = whole("min_count", min_count, 0)
    if skip is None:
        if count != 1:
            raise ValueError(f"min_count={count} counts the cells that are not skipped; give skip=... beside it")
        return None, count
    number = skip if type(skip) in (int, float) else _number(skip)
    if number is None:
        raise TypeError(f"skip={skip!r} is a {type(skip).__name__}; give the number that stands for a cell not there")
    if count == 0 and kind.needs_one_there:
        raise ValueError(f"min_count=0, and {kind!r} of no cell has no value; give min_count >= 1")
    return one_nan(number + 0), count  # zeros of both signs are one, and so is a bool and its number


def _number(skip: Any) -> Any:
    """A real number as Python has it, or None."""
    if hasattr(skip, "item") and getattr(skip, "ndim", 0) == 0:
        skip = skip.item()
    return skip if isinstance(skip, Real) else None


def check_count(min_count: int, cells: int) -> None:
    """An output that can never have so many cells is asked for by mistake."""
    if min_count > cells:
        raise ValueError(f"min_count={min_count}, and a window has {cells} cells at most; give min_count <= {cells}")


def held(skip: Any, dtype: str) -> float:
    """The value as cells of this dtype have it: rounded among floats, an integer among integers.

    >>> held(0.1, "float32"), held(255.0, "uint8")
    (0.10000000149011612, 255)
    """
    if dtype in INTEGERS:
        lo, hi = _range(dtype)
        if skip != skip or skip in (math.inf, -math.inf) or int(skip) != skip or not lo <= skip <= hi:
            raise ValueError(f"skip={skip!r} is no {dtype}; give an integer from {lo} to {hi}")
        return int(skip)
    if dtype not in _LARGEST:
        raise TypeError(f"skip={skip!r} is for real numbers, and x has {dtype}; pool the real and imaginary parts")
    try:
        value = decoded(encoded(float(skip), dtype), dtype)
    except OverflowError:
        value = math.inf
    if math.isinf(value) and skip not in (math.inf, -math.inf):
        raise ValueError(f"skip={skip!r} is beyond {dtype}; give a number from {-_LARGEST[dtype]} to {_LARGEST[dtype]}")
    return value if value == value else math.nan


def is_there(cell: Any, skip: Any) -> bool:
    """Whether a cell is not one of those that are skipped."""
    return not (is_nan(cell) if is_nan(skip) else bool(cell == skip))


def encoded(value: float, dtype: str) -> int:
    """The bits of a number of this dtype; a float is rounded to it."""
    if dtype in INTEGERS:
        return int(value) & (2**64 - 1)
    if dtype == "bfloat16":
        bits = encoded(value, "float32")
        return (bits | 0x400000) >> 16 if value != value else (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    form = {"float16": "e", "float32": "f", "float64": "d"}[dtype]
    return int.from_bytes(struct.pack(f"<{form}", value), "little")


def decoded(bits: int, dtype: str) -> float:
    """The float that has these bits."""
    if dtype == "bfloat16":
        return decoded(bits << 16, "float32")
    form, size = {"float16": ("e", 2), "float32": ("f", 4), "float64": ("d", 8)}[dtype]
    return float(struct.unpack(f"<{form}", bits.to_bytes(size, "little"))[0])


def _range(dtype: str) -> tuple[int, int]:
    if dtype == "bool":
        return 0, 1
    bits = int(dtype.lstrip("uint"))
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
