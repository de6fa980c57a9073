"""Random chunkings, and arrays to pool in them."""

from __future__ import annotations

from itertools import pairwise

import dask.array as da
import numpy as np
from hypothesis import strategies as st

DTYPES = ["f4", "f8", "f2", "i2", "u1", "u8"]


@st.composite
def chunkings(draw, shape):
    """Uneven chunks of any lengths, an axis of length 0 in one."""
    found = []
    for length in shape:
        lengths, left = [], length
        while left > 0:
            lengths.append(draw(st.integers(1, left)))
            left -= lengths[-1]
        found.append(tuple(lengths) or (0,))
    return tuple(found)


def numbers(shape, dtype, seed, hostile=True):
    """Few different numbers, so that there are ties, or many; infinities and NaN among floats."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    low = 0 if dtype.kind == "u" else -4
    if dtype.kind != "f" or rng.random() < 0.5:
        x = rng.integers(low, 5, shape).astype(dtype)
    else:
        x = (4 * rng.standard_normal(shape)).astype(dtype)
    if hostile and dtype.kind == "f" and rng.random() < 0.4:
        x[rng.random(shape) < 0.2] = rng.choice([np.nan, np.inf, -np.inf])
    return x


def derivative_of(x):
    return np.dtype(np.float64) if x.dtype.kind in "biu" else x.dtype


@st.composite
def few_chunks(draw, shape):
    """Up to four chunks along each axis."""
    found = []
    for length in shape:
        cuts = {draw(st.integers(1, length)) for _ in range(draw(st.integers(0, 3)))}
        edges = [0, *sorted(cuts - {length}), length]
        found.append(tuple(b - a for a, b in pairwise(edges)))
    return tuple(found)


def directions(shapes, dtype, seed):
    """Random tangents and cotangents, whose sums are rounded."""
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal(shape).astype(dtype) for shape in shapes)


def computed(lazy, like):
    """The numbers of a Dask array, which says its shape and dtype before."""
    assert isinstance(lazy, da.Array)
    assert (lazy.shape, lazy.dtype) == (like.shape, like.dtype)
    found = lazy.compute()
    assert (found.shape, found.dtype) == (like.shape, like.dtype)
    return found


def same_bits(lazy, expected):
    assert computed(lazy, expected).tobytes() == np.ascontiguousarray(expected).tobytes()


def same_numbers(lazy, expected):
    np.testing.assert_array_equal(computed(lazy, expected), expected)


def near(lazy, expected, places=8, size=0.0):
    """Equal but for the last places; `size` is that of the terms of a sum."""
    found = computed(lazy, expected)
    eps = float(np.finfo(expected.dtype).eps) if expected.dtype.kind in "fc" else 0.0
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(found, expected, rtol=places * eps, atol=places * eps * size)
