"""Arrays that break things: every dtype of the engine, numbers at every edge, memory in every order.

    x = layout(name, numbers(rng, flavour, shape, dtype), rng)

A layout may change the numbers (a broadcast array repeats one slice), so references are computed from what it returns.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(np.float16), BFLOAT16, np.dtype(np.float32), np.dtype(np.float64)]
INTEGERS = [np.dtype(f"{sign}int{bits}") for bits in (8, 16, 32, 64) for sign in ("", "u")]
BOOL = np.dtype(bool)
DTYPES = [*FLOATS, *INTEGERS, BOOL]

FLOAT_FLAVOURS = ["normal", "ties", "zeros", "special", "nan", "minus_inf", "subnormal", "huge", "tiny", "wide"]
INTEGER_FLAVOURS = ["ties", "extremes", "any"]


def info(dtype):
    """Largest, smallest normal and smallest positive number, and the distance of 1 to its successor."""
    return ml_dtypes.finfo(dtype) if dtype == BFLOAT16 else np.finfo(dtype)


def flavours(dtype):
    dtype = np.dtype(dtype)
    return INTEGER_FLAVOURS if dtype.kind in "biu" else FLOAT_FLAVOURS


def numbers(rng, flavour, shape, dtype):
    """A C-contiguous array of the dtype, of one flavour."""
    dtype = np.dtype(dtype)
    if dtype.kind in "biu":
        return _integers(rng, flavour, shape, dtype)
    signs = rng.choice([-1.0, 1.0], shape)
    size = rng.uniform(1, 2, shape)
    limits = info(dtype)
    if flavour == "normal":
        x = rng.normal(size=shape)
    elif flavour == "ties":
        x = rng.integers(-3, 4, shape) * 1.0
    elif flavour == "zeros":
        x = np.where(rng.random(shape) < 0.8, signs * 0.0, rng.integers(-1, 2, shape))
    elif flavour == "special":
        specials = rng.choice([np.nan, np.inf, -np.inf, -0.0], shape)
        x = np.where(rng.random(shape) < 0.1, specials, rng.integers(-3, 4, shape))
    elif flavour == "nan":
        x = np.where(rng.random(shape) < 0.9, np.nan, 1.0)
    elif flavour == "minus_inf":
        x = np.full(shape, -np.inf)
    elif flavour == "subnormal":
        x = signs * float(limits.smallest_subnormal) * rng.integers(0, 5, shape)
    elif flavour == "huge":
        # Sums over small windows stay finite in every dtype, in whatever order they are added.
        x = signs * size * (float(limits.max) / 2**12)
    elif flavour == "tiny":
        x = signs * size * float(limits.tiny) * 4
    elif flavour == "wide":
        # Exponents over much of the range, and cancellation. Products with weights stay normal numbers.
        span = {2: 5, 4: 40, 8: 300}[dtype.itemsize] * (8 if dtype == BFLOAT16 else 1)
        x = signs * size * 2.0 ** rng.integers(-span, span, shape)
    else:
        raise ValueError(f"flavour={flavour!r} is not one of {FLOAT_FLAVOURS}")
    x = np.asarray(x, dtype=np.float64).astype(dtype)
    # A NaN is a NaN whatever its other bits are.
    bits, nan = x.view(f"u{dtype.itemsize}"), np.isnan(x)
    bits[nan] |= rng.integers(0, 64, np.count_nonzero(nan)).astype(bits.dtype)
    return x


def _integers(rng, flavour, shape, dtype):
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    limits = np.iinfo(dtype)
    if flavour == "ties":
        return rng.integers(0, 4, shape).astype(dtype)
    if flavour == "extremes":
        edges = np.array([limits.min, limits.min + 1, 0, 1, limits.max - 1, limits.max], dtype)
        return rng.choice(edges, shape)
    if flavour == "any":
        return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    raise ValueError(f"flavour={flavour!r} is not one of {INTEGER_FLAVOURS}")


# --- memory ---------------------------------------------------------------------------------------


def _transposed(x, rng):
    order = rng.permutation(x.ndim)
    return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))


def _strided(x, rng):
    base = np.zeros([2 * n + 1 for n in x.shape], x.dtype)
    view = base[tuple(slice(1, None, 2) for _ in x.shape)]
    view[...] = x
    return view


def _reversed(x, rng):
    flip = tuple(slice(None, None, -1) for _ in x.shape)
    return np.ascontiguousarray(x[flip])[flip]


def _sliced(x, rng):
    """A corner of a larger array: rows are contiguous, the whole is not."""
    base = np.zeros([n + 3 for n in x.shape], x.dtype)
    view = base[tuple(slice(1, n + 1) for n in x.shape)]
    view[...] = x
    return view


def _read_only(x, rng):
    x = x.copy()
    x.flags.writeable = False
    return x


def _unaligned(x, rng):
    memory = np.zeros(x.nbytes + 1, np.uint8)
    view = memory[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


def _broadcast(x, rng):
    """One slice, repeated along an axis with stride 0."""
    if x.size == 0:
        return x
    axis = int(rng.integers(x.ndim))
    return np.broadcast_to(np.take(x, [0], axis), x.shape)


LAYOUTS = {
    "C": lambda x, rng: x,
    "Fortran": lambda x, rng: np.asfortranarray(x),
    "transposed": _transposed,
    "strided": _strided,
    "reversed": _reversed,
    "sliced": _sliced,
    "read-only": _read_only,
    # A view of an array in the other byte order; bfloat16 has only one.
    "swapped": lambda x, rng: x if x.dtype == BFLOAT16 else x.astype(x.dtype.newbyteorder()),
    "unaligned": _unaligned,
    "broadcast": _broadcast,
}


def layout(name, x, rng):
    """The same numbers in another memory layout (but see `broadcast`)."""
    return LAYOUTS[name](x, rng) if x.ndim else x
