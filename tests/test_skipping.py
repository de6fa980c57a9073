"""Cells that are not there: every kind that is computed by passes, against the specification.

Small pools are drawn at random. Large ones, which the engine takes a piece at a time, are compared with all windows
gathered.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from closeness import FEW_ROUNDINGS, derivative_allowance, finite_size, last_place, same, same_bytes, within
from hostile import DTYPES, FLOATS, INTEGERS, LAYOUTS, flavours, layout, numbers
from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window, _engine, set_num_threads, spec
from ndpool.skipping import is_there
from oracle import Gathered
from strategies import RATIONAL_KINDS, SMOOTH_KINDS, cases
from ways import forward_by, jvp_by, push_by, vjp_by, ways, winners_by

KINDS = RATIONAL_KINDS + SMOOTH_KINDS
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0]


# --- what is expected -------------------------------------------------------------------------------


def skipped_in(pool, x):
    """Which cells are skipped."""
    wide = x.astype(object)
    return np.array([not is_there(cell, pool.skip) for cell in wide.ravel()], bool).reshape(x.shape)


def there_alone(pool, x):
    """The cells that are there, in float64; the others are NaN."""
    return np.where(skipped_in(pool, x), np.nan, x.astype(np.float64))


def unsigned(pool, x):
    """A pool and an input with the same weights without their signs."""
    if not isinstance(pool.kind, Lp):
        return pool, x
    return Pool(pool.kind, pool.window, pool.axes, math.nan, pool.min_count), np.abs(there_alone(pool, x))


def value_allowance(pool, x, y):
    kind = pool.kind
    if isinstance(kind, Max | Min) or y.dtype.kind in "biu":
        return 0.0
    size = finite_size(y)
    if isinstance(kind, Sum | Avg):
        sums = spec.forward(Pool(Sum(), pool.window, pool.axes), finite_size(there_alone(pool, x)))
        return last_place(y.dtype, size) + FEW_ROUNDINGS * sums
    if isinstance(kind, SmoothMax):
        size = size + np.log(2 + x.size) / abs(kind.beta)
    return 2 * last_place(y.dtype, size) + 2.0**-43 * size


def checked(pool, x, t, g):
    """All operations of the engine at x, each compared with the specification."""
    y = spec.forward(pool, x)
    found, linear = pool.linearize(x)
    allowed = value_allowance(pool, x, y)
    within(found, y, allowed)
    within(pool(x), y, allowed)
    sized, size = unsigned(pool, x)
    _, dy = spec.jvp(pool, x, t)
    mass = finite_size(spec.jvp(sized, size, finite_size(t))[1])
    allowed_dy = derivative_allowance(dy.dtype, dy, mass)
    pushed = linear.push(t)
    within(pushed, dy, allowed_dy)
    both = pool.jvp(x, t)
    within(both[0], y, allowed)
    within(both[1], dy, allowed_dy)
    gx = spec.vjp(pool, x, g)
    mass = finite_size(spec.vjp(sized, size, finite_size(g)))
    pulled = linear.pull(g)
    within(pulled, gx, derivative_allowance(gx.dtype, gx, mass))
    if pool.kind.one_winner() is not None:
        same(pool.with_indices(x)[1], spec.winners(pool, x))


# --- small pools, drawn at random -------------------------------------------------------------------


@st.composite
def skips(draw, x):
    """A value to skip: one of the array's own, or a special one."""
    own = sorted({cell for cell in x.ravel().tolist() if cell == cell})
    if x.dtype.kind in "biu":
        return draw(st.sampled_from(own)) if own else 0
    return draw(st.sampled_from([math.nan, *SPECIAL, *own]))


def most_cells(pool, shape):
    return math.prod(axis.kernel for axis in pool._layout(shape).geometry)


@settings(max_examples=250)
@given(st.data())
def test_every_operation_is_that_of_the_specification(data):
    case = data.draw(cases(KINDS, max_cells=150))
    # Smooth kinds compute integers as float64, which do not tell large ones of 64 bits apart.
    exact = [dtype for dtype in DTYPES if dtype.kind not in "iu" or dtype.itemsize < 8]
    dtype = data.draw(st.sampled_from(exact if case.pool.kind in SMOOTH_KINDS else DTYPES))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x = numbers(rng, data.draw(st.sampled_from(flavours(dtype))), case.shape, dtype)
    if dtype.kind not in "biu":
        x = np.where(rng.random(x.shape) < data.draw(st.sampled_from([0, 0.3, 0.9])), np.nan, x).astype(dtype)
    x = layout(data.draw(st.sampled_from(sorted(set(LAYOUTS) - {"swapped"}))), x, rng)
    kind, skip = case.pool.kind, data.draw(skips(x))
    low = 1 if kind.needs_one_there else 0
    count = data.draw(st.sampled_from([low, 1, 1, 2, 3]))
    pool = Pool(kind, case.pool.window, case.pool.axes, skip, min(count, most_cells(case.pool, x.shape)))
    derivative = np.float64 if dtype.kind in "biu" else dtype
    t = rng.normal(size=x.shape).astype(derivative)
    # What a skipped cell's tangent is does not matter.
    t[skipped_in(pool, x) & (rng.random(x.shape) < 0.5)] = np.nan
    g = rng.normal(size=pool.output_shape(x.shape)).astype(derivative)
    checked(pool, x, t, g)
