"""The numbers that ops compute with: 16-bit floats in 32 bits, objects in their own arithmetic, others as NumPy does.

The cells of an object array may be ints, Fractions, Decimals or SymPy's numbers. Python has no sum of a Fraction and a
Decimal, and its sum of a Fraction and a float is a float. So numbers that meet objects are first brought into the
arithmetic of these objects, exactly. One cell of the array, here called `number`, stands for that arithmetic.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from ..kind import derivative_dtype
from ..scalars import lift, one
from .protocol import Array, Shape

# --- objects --------------------------------------------------------------------------------------


def a_number_of(*arrays: Array) -> Any:
    """A cell that stands for the arithmetic of object arrays: an int only if all are ints, None without any cell."""
    cells = (cell for x in arrays if x.dtype.kind == "O" for cell in x.flat)
    first = next(cells, None)
    return next((cell for cell in itertools.chain((first,), cells) if not isinstance(cell, int)), first)


def in_arithmetic_of(number: Any, cell: Any) -> Any:
    """An int or a float in the arithmetic of `number`, exactly: every float is rational. Other numbers stay."""
    if not isinstance(cell, int | float) or isinstance(number, int | float):
        return cell
    try:
        found = lift(cell, number)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{cell} meets numbers of type {type(number).__name__}, which have no such number; give finite numbers"
        ) from None
    return one(number) * found if isinstance(found, int | float) else found


def as_objects(number: Any, v: Array) -> Array:
    """`v` as an object array; its ints and floats are brought into the arithmetic of `number`, unless that is None."""
    cells = wide(v).astype(object)
    if number is None:
        return cells
    return np.asarray(np.frompyfunc(lambda cell: in_arithmetic_of(number, cell), 1, 1)(cells), dtype=object)


def in_one_arithmetic(*arrays: Array) -> tuple[Array, ...]:
    """The arrays as they are; if some are object arrays, all of them in the arithmetic of these."""
    if all(x.dtype.kind != "O" for x in arrays):
        return arrays
    number = a_number_of(*arrays)
    return tuple(as_objects(number, x) for x in arrays)


def lifted(number: Any, x: Array) -> Any:
    """`number` in the arithmetic of the cells of x: exactly where these are objects, as a float where they are not."""
    if x.dtype.kind == "O" and x.size:
        cell = a_number_of(x)
        return in_arithmetic_of(cell, number) if isinstance(number, int | float) else lift(number, cell)
    return number if isinstance(number, int | float | complex) else float(number)


def pythons(number: Any) -> Any:
    """A NumPy scalar as Python's number, which leaves the dtype of an array that it multiplies as it is."""
    return number.item() if isinstance(number, np.generic) else number


# --- what NumPy does otherwise with objects -------------------------------------------------------


def total(x: Array, axis: tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """NumPy's sum, always as an array: over all axes of an object array, NumPy gives the object itself."""
    return np.asarray(np.sum(x, axis=axis, keepdims=keepdims), dtype=object if x.dtype.kind == "O" else None)


def divided(x: Array, n: int) -> Array:
    """`x / n`; ints that are objects become Fractions, since Python divides them to floats."""
    if x.dtype.kind != "O":
        return np.asarray(x / n)
    quotients = np.frompyfunc(lambda cell: Fraction(cell, n) if isinstance(cell, int) else cell / n, 1, 1)(x)
    return np.asarray(quotients, dtype=object).reshape(x.shape)


def positive(x: Array) -> Array:
    """`x > 0`; NumPy warns of a NaN among objects, though not of one among floats."""
    with np.errstate(invalid="ignore"):
        return np.asarray(x > 0)


def zeros(shape: Shape, dtype: np.dtype[Any], number: Any) -> Array:
    """Zeros, in the arithmetic of `number` unless that is None."""
    return np.zeros(shape, dtype) if number is None else np.full(shape, in_arithmetic_of(number, 0), dtype)


def zeros_as_in(x: Array, shape: Shape) -> Array:
    """Zeros of the dtype of x, and of its arithmetic if its cells are objects."""
    return zeros(shape, x.dtype, a_number_of(x))


# --- floats ---------------------------------------------------------------------------------------


def is_half(dtype: np.dtype[Any]) -> bool:
    """Whether the dtype is a float of 16 bits; bfloat16 is of NumPy's kind "V"."""
    return dtype.kind in "fV" and dtype.itemsize == 2


def wide_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that is computed in: float32 for floats of 16 bits, else the same."""
    return np.dtype(np.float32) if is_half(dtype) else dtype


def wide(x: Array) -> Array:
    """`x` in the dtype that is computed in."""
    return x.astype(wide_dtype(x.dtype), copy=False)


def rounded(y: Any, dtype: np.dtype[Any]) -> Array:
    """`y` as an array of `dtype` if that is a 16-bit float or object; other dtypes are left as NumPy made them."""
    return np.asarray(y).astype(dtype) if is_half(dtype) or dtype.kind == "O" else np.asarray(y)


def computed(function: Callable[..., Any], *arrays: Array) -> Any:
    """What `function` makes of the arrays, an array or a tuple of them.

    16-bit floats are computed in 32 bits and rounded once. Numbers beside objects are in the arithmetic of the objects.
    """
    result = function(*map(wide, in_one_arithmetic(*arrays)))
    dtype = arrays[0].dtype if len(arrays) == 1 else np.result_type(*(x.dtype for x in arrays))
    return tuple(rounded(y, dtype) for y in result) if isinstance(result, tuple) else rounded(result, dtype)


def floats(op: object, x: Array) -> Array:
    """`x` as floats, for functions that have no exact values: integers become float64, objects are refused."""
    if x.dtype.kind == "O":
        raise TypeError(f"{type(op).__name__} of an object array has no exact value; give an array of floats")
    return x.astype(derivative_dtype(x.dtype), copy=False)
