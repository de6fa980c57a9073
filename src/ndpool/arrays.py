"""Whose array is it, and what would it lose? Every array that a caller gives is looked at here.

A NumPy array is pooled as it is. A tensor, or an array of JAX, Dask or xarray, goes to the front end of its library.
Numbers, nested lists, and what NumPy can read without loss (`__array__`, a buffer) become NumPy arrays. What means more
than its numbers is refused: a masked array would lose its mask, and a type with an `__array_ufunc__` or
`__array_function__` of its own what these are for (labels, units, laziness).
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]


def _torch() -> Any:
    from .torch import dispatch

    return dispatch


def _jax() -> Any:
    from .jax import dispatch

    return dispatch


def _xarray() -> Any:
    from .xarray import dispatch

    return dispatch


def _dask() -> Any:
    from .dask import dispatch

    return dispatch


#: For each library: what the type of its arrays has and no other of these, the module here that pools them, and what
#: to do with one where a NumPy array is taken. An array of xarray has what one of Dask has, too.
_FRONT_ENDS = {
    "torch": ("__torch_function__", _torch, "call .numpy() on it, or give all arrays as tensors"),
    "jax": ("addressable_shards", _jax, "call np.asarray on it, or give all arrays as JAX's"),
    "xarray": ("to_dataframe", _xarray, "give its .values, or all arrays as xarray's"),
    "dask": ("rechunk", _dask, "call .compute() on it, or give all arrays as Dask's"),
}

#: What a type has to do something of its own under NumPy's functions.
_PROTOCOLS = ("__array_ufunc__", "__array_function__")

#: The dtypes that the engine computes with, by name; bool is uint8 there.
NATIVE_TYPES = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
NATIVE_TYPES |= {"float16", "bfloat16", "float32", "float64", "bool"}

#: Those that it computes with as pairs of their parts, for some kinds.
PART_TYPES = {"complex64", "complex128"}

#: Those that the specification computes with, where the engine does not.
_SLOW_TYPES = {"object", *PART_TYPES}


def front_end(a: Any) -> Any:
    """The module that pools such arrays where they live, if their library has been imported; None for all others.

    >>> front_end(np.zeros(3)) is None
    True
    """
    if type(a) is np.ndarray:
        return None
    for library, (mark, module, _) in _FRONT_ENDS.items():
        if hasattr(type(a), mark) and library in sys.modules:
            return module()
    return None


def as_array(name: str, a: Any) -> Array:
    """The NumPy array that `a` is, or that it can become without loss.

    >>> as_array("x", [[1, 2], [3, 4]]).shape
    (2, 2)
    >>> as_array("x", np.ma.array([1, 9], mask=[False, True]))
    Traceback (most recent call last):
    TypeError: x is a masked array, and the numbers under its mask would be pooled; give x.filled(value), ...
    """
    if type(a) is np.ndarray:
        return a
    check_type(name, type(a))
    if isinstance(a, list | tuple):
        _check_entries(name, a)
        return _unrounded(a)
    found = np.asanyarray(a)
    check_type(name, type(found))  # an `__array__` may give a masked array
    return np.asarray(found)


def _unrounded(entries: list[Any] | tuple[Any, ...]) -> Array:
    """NumPy's array of the entries, or one of objects where it would have made floats of ints.

    Ints alone stay ints, as 2**63 beside -1; ints beside floats become floats where that is exact.
    """
    found = np.asarray(entries)
    if found.dtype.kind == "f" and found.size:
        objects = np.asarray(entries, dtype=object)
        ints = [entry for entry in objects.flat if isinstance(entry, int)]
        if len(ints) == objects.size or any(int(float(entry)) != entry for entry in ints):
            return objects
    return found


def _check_entries(name: str, entries: list[Any] | tuple[Any, ...]) -> None:
    """The same for what stands in a list, however deep."""
    types = set(map(type, entries))
    nested = {kind for kind in types if issubclass(kind, list | tuple)}
    for kind in types - nested:
        check_type(f"an entry of {name}", kind)
    if nested:
        for entry in entries:
            if type(entry) in nested:
                _check_entries(name, entry)


def check_type(name: str, kind: type) -> None:
    """Refuse what means more than its numbers."""
    said = f"{name} is a {kind.__module__}.{kind.__qualname__}"
    if issubclass(kind, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, and the numbers under its mask would be pooled; "
            "give x.filled(value), with a value for the cells that are masked"
        )
    for mark, _, remedy in _FRONT_ENDS.values():
        if hasattr(kind, mark):
            raise TypeError(f"{said} where a NumPy array is taken; {remedy}")
    plain = vars(np.ndarray)
    if any(getattr(kind, protocol, plain[protocol]) is not plain[protocol] for protocol in _PROTOCOLS):
        raise TypeError(f"{said}, which is more than its numbers; give np.asarray(x) to pool these alone")


# --- dtypes ---------------------------------------------------------------------------------------


def is_native(name: str, dtype: np.dtype[Any]) -> bool:
    """Whether the engine computes with this dtype, or else the specification; a TypeError where neither does.

    The specification takes thousands of times as long. It is for numbers that are nobody else's, and not chosen unasked
    for those that could be the engine's.

    >>> is_native("x", np.dtype(np.float32)), is_native("x", np.dtype(object))
    (True, False)
    """
    if dtype.name in NATIVE_TYPES:
        return True
    if dtype.name in _SLOW_TYPES:
        return False
    raise TypeError(f"{name} has dtype {dtype}, which ndpool does not pool; {_remedy(dtype)}")


def _remedy(dtype: np.dtype[Any]) -> str:
    if dtype.names is not None:
        return f"give one field of the records, as x[{dtype.names[0]!r}] is"
    if dtype.kind in "mM":
        return "give x.astype(np.int64), and make times of the result"
    if dtype.kind in "USTV" and issubclass(dtype.type, np.generic) and dtype.type.__module__ == "numpy":
        return "give numbers, such as those of x.astype(np.float64)"
    near = "complex128" if dtype.kind == "c" else "float64" if dtype.itemsize > 8 else "float32"
    return f"give x.astype(np.{near}), or call ndpool.spec, which is slow and takes any number"
