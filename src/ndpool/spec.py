"""The definition, executable: forward, JVP and VJP of any kind over any window, on any numbers.

    forward   y    = value(cells)
    jvp       dy   = sum of w_i * t_i
    vjp       gx_i += w_i * g

Everything else in ndpool is measured against this file. It finds the cells of a window by itself, from the
definitions, and shares no geometry with the engine. It is slow and meant to be read.

Arrays of floats are computed in double precision and rounded once to their dtype. Object arrays, and nested lists
of Fractions, Decimals, mpmath numbers, SymPy expressions or `Dual`s, are computed in their own arithmetic, and so is
every number of the result. An int among such numbers is one of them. Ints alone, as objects, become Fractions where
integers of a dtype would become float64. Where the numbers are exact, a result that would have to be rounded to a
float is refused.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import as_array
from .kind import Kind, derivative_dtype, no_winner, places_checked
from .scalars import Dual, arithmetic, is_rounded, rational, settled, total, zero
from .skipping import held, is_there
from .windows import Adaptive, Global, Window

if TYPE_CHECKING:
    from .pool import Pool

Index: TypeAlias = tuple[int, ...]

__all__ = ["exact", "forward", "fractions", "jvp", "vjp", "windows", "winners"]


# --- the three loops ------------------------------------------------------------------------------


def forward(pool: Pool, x: ArrayLike) -> NDArray[Any]:
    """`y = value(cells)` in every window.

    >>> from ndpool import Max, Pool, Window
    >>> forward(Pool(Max(), Window((2, 2))), [[1, 2], [4, 3]])
    array([[4]])
    """
    x, cells = _read(x)
    ((cells,), exact) = _in_their_arithmetic((x,), (cells,), keep=pool.kind.integers != "float64")
    y = np.empty(pool.output_shape(x.shape), dtype=object)
    for out, seen, pad in _looks(pool, x, cells):
        y[out] = pool.skip if seen is None else _value(pool.kind, [cells[i] for i in seen], pad, cells)
    return _write(y, pool.kind.result_dtype(x.dtype), pool.kind, cells, exact)


def jvp(pool: Pool, x: ArrayLike, t: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """`dy = sum of w_i * t_i` in every window, beside `y`.

    >>> from ndpool import Max, Pool, Window
    >>> jvp(Pool(Max(), Window((2, 2))), [[1, 2], [4, 3]], [[0.1, 0.2], [0.3, 0.4]])[1]
    array([[0.3]])
    """
    x, cells = _read(x)
    t, tangents = _read(t, shape=x.shape, name="t")
    ((cells, tangents), exact) = _in_their_arithmetic((x, t), (cells, tangents))
    dy = np.empty(pool.output_shape(x.shape), dtype=object)
    for out, seen, pad in _looks(pool, x, cells):
        weights = _weights(pool.kind, seen, pad, cells)
        dy[out] = total(_product(w, tangents[i], "t") for i, w in weights)
    return forward(pool, x), _write(dy, _derivative_dtype(x, t), pool.kind, tangents, exact)


def vjp(pool: Pool, x: ArrayLike, g: ArrayLike) -> NDArray[Any]:
    """`gx_i += w_i * g` over every window: the transpose of the map that `jvp` applies.

    >>> from ndpool import Max, Pool, Window
    >>> vjp(Pool(Max(), Window((2, 2))), [[1, 2], [4, 3]], [[10.0]])
    array([[ 0.,  0.],
           [10.,  0.]])
    """
    x, cells = _read(x)
    g, cotangents = _read(g, shape=pool.output_shape(x.shape), name="g")
    ((cells, cotangents), exact) = _in_their_arithmetic((x, g), (cells, cotangents))
    gx = np.full(x.shape, 0, dtype=object)
    for out, seen, pad in _looks(pool, x, cells):
        for i, w in _weights(pool.kind, seen, pad, cells):
            gx[i] = gx[i] + _product(w, cotangents[out], "g")
    return _write(gx, _derivative_dtype(x, g), pool.kind, cotangents, exact)


def winners(pool: Pool, x: ArrayLike) -> NDArray[np.int64]:
    """Where each output that is one cell came from: the flat row-major index in the pooled axes.

    At ties it is the first winner, by any policy of Max and Min. An output that has too few cells has index -1.

    >>> from ndpool import Max, Pool, Window
    >>> winners(Pool(Max(), Window((2, 2))), [[1, 2], [4, 3]])
    array([[2]])
    """
    kind: Any = pool.kind.one_winner()
    if kind is None:
        raise no_winner(pool.kind)
    x, cells = _read(x)
    axes, sizes = _pooled(pool, x.shape)
    index = np.full(pool.output_shape(x.shape), -1, dtype=np.int64)
    for out, seen, _ in _looks(pool, x, cells):
        if seen is not None:
            first = kind.winners([cells[i] for i in seen])[0]
            index[out] = _flat([seen[first][axis] for axis in axes], sizes)
    return index


# --- one window -----------------------------------------------------------------------------------


def _value(kind: Kind, x: list[Any], pad: int, cells: NDArray[Any]) -> Any:
    """What the window becomes; one of padding alone in the arithmetic of the others."""
    y = kind.value(x, pad) if x else kind.value_of_padding(pad, zero(cells.flat[0]))
    if y is None:
        raise TypeError(f"{kind!r}.value gave None for a window of {len(x)} cells; return a number")
    return y


def _weights(kind: Kind, seen: list[Index] | None, pad: int, cells: NDArray[Any]) -> Iterator[tuple[Index, Any]]:
    """The cells that the window leans on, as indices of the input, and how much; none where it has too few."""
    if seen is not None:
        for k, w in places_checked(kind, [cells[i] for i in seen], pad):
            yield seen[k], w


def _product(weight: Any, direction: Any, name: str) -> Any:
    try:
        return weight * direction
    except TypeError:
        raise TypeError(
            f"{name} has {type(direction).__name__} numbers, which have no product with a weight, a "
            f"{type(weight).__name__}; give {name} in the arithmetic of x"
        ) from None


# --- the cells of a window ------------------------------------------------------------------------

PAD = -1  # a padded cell's place along an axis


def windows(pool: Pool, shape: Sequence[int]) -> dict[Index, list[Index | None]]:
    """For each output index in the pooled axes, the cells that it sees there; None is a padded cell.

    >>> from ndpool import Max, Pool, Window
    >>> windows(Pool(Max(), Window((2,), stride=2, padding=1)), (3,))
    {(0,): [None, (0,)], (1,): [(1,), (2,)]}
    """
    pool.output_shape(shape)
    axes, sizes = _pooled(pool, shape)
    lines = [_line(pool.window, j, len(axes), size) for j, size in zip(_order(pool, shape), sizes, strict=True)]
    return {
        out: [None if PAD in cell else cell for cell in itertools.product(*picks)]
        for out, picks in zip(
            itertools.product(*(range(len(line)) for line in lines)), itertools.product(*lines), strict=True
        )
    }


def _line(window: Any, j: int, rank: int, length: int) -> list[list[int]]:
    """Along one axis, what each output sees: places in 0..length-1, and PAD for each padded cell."""
    if isinstance(window, Global):
        return [list(range(length))]
    if isinstance(window, Adaptive):
        n = window.output_size[j] if isinstance(window.output_size, tuple) else window.output_size
        n = length if n is None else n
        bins = [(Fraction(i * length, n), Fraction((i + 1) * length, n)) for i in range(n)]
        return [list(range(math.floor(start), math.ceil(end))) for start, end in bins]
    kernel, stride, padding, dilation = window.of_axis(j, rank)
    lo, hi = _ends(padding, length, kernel, stride, dilation)
    line = []
    for start in _starts(window, length, lo, hi, kernel, stride, dilation):
        places = range(start, start + kernel * dilation, dilation)
        line.append([p if 0 <= p < length else PAD for p in places if p < length + hi])
    return line


def _ends(padding: Any, length: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """How many padded cells stand before and after (rule "Padding")."""
    if padding == "valid":
        return 0, 0
    if padding in ("same", "same_lower"):
        # The windows that start at 0, stride, 2*stride, ... below `length`, centred over it.
        last = max(range(0, length, stride))
        missing = max(0, last + dilation * (kernel - 1) - (length - 1))
        half, odd = divmod(missing, 2)
        return (half, half + odd) if padding == "same" else (half + odd, half)
    return padding if isinstance(padding, tuple) else (padding, padding)


def _starts(window: Window, length: int, lo: int, hi: int, kernel: int, stride: int, dilation: int) -> list[int]:
    """Where each window starts: as many as fit, and with ceil_mode one more that may overhang (rule "Output size")."""
    starts = []
    for start in itertools.count(-lo, stride):
        end = start + dilation * (kernel - 1)
        fits = end < length + hi
        overhangs = window.ceil_mode and end - stride < length + hi - 1
        if not fits and not overhangs:
            break
        starts.append(start)
    if window.ceil_mode and starts[-1] >= length:
        starts.pop()
    return starts


def _looks(pool: Pool, x: NDArray[Any], cells: NDArray[Any]) -> Iterator[tuple[Index, list[Index] | None, int]]:
    """For each output index: the real cells it sees that are there, as indices of the input, and how many padded ones.

    None in place of the cells says that they are too few (rule "Skipped cells").
    """
    axes, _ = _pooled(pool, x.shape)
    seen = windows(pool, x.shape)
    flat = isinstance(pool.window, Global) and not pool.window.keepdims
    others = [range(1) if d in axes else range(size) for d, size in enumerate(x.shape)]
    there = _there(pool, x, cells)
    for place in itertools.product(*others):
        for out, window in seen.items():
            where = _place(place, axes, out)
            real = [_place(place, axes, cell) for cell in window if cell is not None]
            pad = len(window) - len(real)
            left: list[Index] | None = real
            if there is not None:
                real = [i for i in real if there[i]]
                left = real if len(real) >= pool.min_count else None
            yield tuple(i for d, i in enumerate(where) if not (flat and d in axes)), left, pad


def _there(pool: Pool, x: NDArray[Any], cells: NDArray[Any]) -> NDArray[Any] | None:
    """Which cells are there; None where none is skipped."""
    if pool.skip is None:
        return None
    skip = pool.skip if x.dtype.kind == "O" else held(pool.skip, x.dtype.name)
    return _each(lambda cell: is_there(cell, skip), cells)


def _place(place: Index, axes: Sequence[int], values: Sequence[int]) -> Index:
    """`place` with `values` put at `axes`."""
    result = list(place)
    for axis, value in zip(axes, values, strict=True):
        result[axis] = value
    return tuple(result)


def _order(pool: Pool, shape: Sequence[int]) -> list[int]:
    """The places of a window's numbers, in the order in which the array has the axes that they belong to."""
    axes = pool.axes if pool.axes is not None else range(-(pool.window.rank or 0), 0)
    return sorted(range(len(axes)), key=lambda j: axes[j] % len(shape))


def _pooled(pool: Pool, shape: Sequence[int]) -> tuple[list[int], list[int]]:
    """The pooled axes in the array's order, and their lengths."""
    axes = pool.axes if pool.axes is not None else range(-(pool.window.rank or 0), 0)
    ordered = sorted(axis % len(shape) for axis in axes)
    return ordered, [shape[axis] for axis in ordered]


def _flat(index: Sequence[int], sizes: Sequence[int]) -> int:
    result = 0
    for i, size in zip(index, sizes, strict=True):
        result = result * size + i
    return result


# --- exact arithmetic, and arrays in and out ------------------------------------------------------


def fractions(x: ArrayLike, name: str = "x") -> NDArray[Any]:
    """The exact rational numbers that an array of floats or integers denotes.

    >>> fractions([0.5, 0.1])[1]
    Fraction(3602879701896397, 36028797018963968)
    """
    x, cells = _read(x)
    result = np.empty(x.shape, dtype=object)
    for index in np.ndindex(x.shape):
        cell: Any = cells[index]
        try:
            result[index] = rational(cell)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{name}{list(index)} = {cell} is not a rational number; give finite numbers") from None
    return result


def exact(
    pool: Pool, x: ArrayLike, *, t: ArrayLike | None = None, g: ArrayLike | None = None
) -> NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]:
    """The result over the Fractions that the inputs denote, without any rounding.

    Gives `y`; with `t`, `(y, dy)`; with `g`, `gx`. For the rational kinds, Max, Min, Avg, Sum and Lp(1), and for Lp
    where its roots are rational. What is not rational is refused.

    >>> from ndpool import Avg, Lp, Pool, Window
    >>> exact(Pool(Avg(), Window((3,))), [1.0, 2.0, 5.0])
    array([Fraction(8, 3)], dtype=object)
    >>> exact(Pool(Lp(2), Window((2,))), [3.0, -4.0], g=[1.0])
    array([Fraction(3, 5), Fraction(-4, 5)], dtype=object)
    """
    if t is not None and g is not None:
        raise ValueError("t and g are both given; give t for (y, dy) or g for gx, not both")
    if t is not None:
        return jvp(pool, fractions(x), fractions(t, "t"))
    if g is not None:
        return vjp(pool, fractions(x), fractions(g, "g"))
    return forward(pool, fractions(x))


def _read(x: Any, shape: Index | None = None, name: str = "x") -> tuple[NDArray[Any], NDArray[Any]]:
    """The array, and its numbers as Python objects; bfloat16 and float16 are exact as floats."""
    x = as_array(name, x)
    if shape is not None and x.shape != shape:
        raise ValueError(f"{name} has shape {x.shape} and should have {shape}")
    cells = (x.astype(np.float64) if _is_narrow(x.dtype) else x).astype(object)
    if x.dtype.kind == "O":
        cells = _each(_pythons, cells)
    return x, cells


def _pythons(cell: Any) -> Any:
    """A number of NumPy's as Python's: its integers wrap around, and True + True is True among its bools."""
    if isinstance(cell, Dual):
        return Dual(_pythons(cell.value), _pythons(cell.tangent))
    return cell.item() if isinstance(cell, np.generic) else cell


def _each(change: Callable[[Any], Any], cells: NDArray[Any]) -> NDArray[Any]:
    result = np.empty(cells.shape, dtype=object)
    for index in np.ndindex(cells.shape):
        result[index] = change(cells[index])
    return result


def _in_their_arithmetic(
    arrays: Sequence[NDArray[Any]], numbers: Sequence[NDArray[Any]], keep: bool = False
) -> tuple[list[NDArray[Any]], bool]:
    """The numbers of arrays of objects, with no int among others; and whether they all are exact.

    The ints of an array become numbers of the arithmetic that the array has, or the other array has, or Fractions;
    with `keep`, ints alone stay ints.
    """
    if not any(x.dtype.kind == "O" for x in arrays):
        return list(numbers), False
    exact = not any(is_rounded(cell) for cells in numbers for cell in cells.flat)
    samples = [arithmetic(cells.flat) for cells in numbers]
    other = next((sample for sample in samples if sample is not None), None if keep else Fraction(0))
    pairs = zip(numbers, samples, strict=True)
    return [_each(partial(settled, like=other if sample is None else sample), cells) for cells, sample in pairs], exact


def _write(values: NDArray[Any], dtype: np.dtype[Any], kind: Kind, cells: NDArray[Any], exact: bool) -> NDArray[Any]:
    """The numbers as an array of this dtype, rounded once; integers modulo the dtype's range."""
    if dtype.kind == "O":
        return _as_objects(values, kind, cells, exact)
    if dtype.kind in "biu":
        for v in values.flat:
            if int(v) != v:
                raise TypeError(f"{kind!r} gave {v!r} for integers, which it keeps; let it have integers = 'float64'")
        bits = [int(v) & (2**64 - 1) for v in values.ravel()]
        return np.array(bits, dtype=np.uint64).astype(dtype).reshape(values.shape)
    try:
        with np.errstate(over="ignore"):
            return (values.astype(np.float64) if _is_narrow(dtype) else values).astype(dtype)
    except TypeError as error:
        raise TypeError(f"{kind!r} gave numbers that are no {dtype} ({error}); give x as an array of objects") from None


def _as_objects(values: NDArray[Any], kind: Kind, cells: NDArray[Any], exact: bool) -> NDArray[Any]:
    """The numbers, all in one arithmetic: a sum of nothing is its 0, not an int. None is a float where `exact`."""
    for v in values.flat if exact else ():
        if is_rounded(v):
            raise TypeError(
                f"{kind!r} gave {v!r} for exact numbers, of which none is rounded; give floats, or write the kind with "
                "Fractions in place of floats and with the functions of ndpool.scalars"
            )
    samples = itertools.chain(values.flat, cells.flat)
    like = next((a for a in samples if not isinstance(a, int)), None)
    if like is None or is_rounded(like):
        return values
    return _each(lambda v: zero(like) + v if isinstance(v, int) else v, values)


def _is_narrow(dtype: np.dtype[Any]) -> bool:
    """Whether the dtype is a float of less than 64 bits: float32, float16 or bfloat16 (of NumPy kind "V")."""
    return dtype.kind in "fV" and dtype.itemsize < 8


def _derivative_dtype(x: NDArray[Any], direction: NDArray[Any]) -> np.dtype[Any]:
    return np.dtype(object) if direction.dtype.kind == "O" else derivative_dtype(x.dtype)
