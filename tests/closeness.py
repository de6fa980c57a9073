"""Comparisons that raise, and how far apart two roundings of one number may be."""

from __future__ import annotations

import numpy as np

from hostile import info
from ndpool import Adaptive, Avg, Global, Lp, Max, Min, SmoothMax, Sum, spec

#: Errors of a few dozen roundings in float64, relative to the sum of magnitudes.
FEW_ROUNDINGS = 2.0**-47


def same(actual, expected):
    """Equal in shape, dtype and every number; NaN equals NaN, and the zeros each other."""
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    if actual.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected)
    else:
        np.testing.assert_array_equal(actual.astype(np.float64), expected.astype(np.float64))


def same_bytes(actual, expected):
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    assert actual.tobytes() == expected.tobytes()


def within(actual, expected, allowed):
    """Not finite where the other is not, with the same number; elsewhere at most `allowed` apart."""
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    if actual.dtype.kind in "biu":
        return np.testing.assert_array_equal(actual, expected)
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(b)
    np.testing.assert_array_equal(np.isfinite(a), finite)
    np.testing.assert_array_equal(a[~finite], b[~finite])
    allowed = np.broadcast_to(allowed, b.shape)[finite]
    error = np.abs(a[finite] - b[finite])
    if not (error <= allowed).all():
        worst = np.argmax(error - allowed)
        is_, should = a[finite][worst], b[finite][worst]
        raise AssertionError(
            f"{is_!r} should be {should!r} within {allowed[worst]:.3g} and is {error[worst]:.3g} off; "
            f"{(error > allowed).sum()} of {error.size} are"
        )


def last_place(dtype, y):
    """The distance from |y| to its successor, or more."""
    limits = info(np.dtype(dtype))
    return np.abs(y) * float(limits.eps) + float(limits.smallest_subnormal)


def finite_size(a):
    """|a| as float64, with 0 for what is not finite: such windows are compared exactly."""
    a = np.abs(np.asarray(a).astype(np.float64))
    return np.where(np.isfinite(a), a, 0)


def value_allowance(pool, x, y):
    """How far a forward pass may be from the specification's `y`, which itself rounds in float64."""
    kind = pool.kind
    if isinstance(kind, Max | Min) or y.dtype.kind in "biu":
        return 0.0
    size = finite_size(y)
    if isinstance(kind, Sum | Avg):
        return last_place(y.dtype, size) + FEW_ROUNDINGS * spec.forward(pool, finite_size(x))
    if isinstance(kind, SmoothMax):
        # Beside |y|: log(n) / beta, and the distance of y from the cells that make it.
        size = size + np.log(2 + cells_in_a_window(pool, x.shape)) / abs(kind.beta)
    return 2 * last_place(y.dtype, size) + 2.0**-43 * size


def cells_in_a_window(pool, shape):
    if isinstance(pool.window, Global | Adaptive):
        return int(np.prod(shape))
    return int(np.prod(pool.window.kernel_size))


def derivative_allowance(dtype, derivative, mass):
    """How far a derivative may be, whose terms add up to `mass` in magnitude, each right but for its last places."""
    size = finite_size(derivative)
    # The engine's exp is 0 where its result would be subnormal, and its sums in double go down to 1e-130.
    least = 2.0**-120 if dtype == np.float32 else 1e-130
    return 2 * last_place(dtype, size) + 4 * last_place(dtype, mass) + 2.0**-40 * mass + least


def unsigned(pool, x):
    """A pool and an input with the same weights without their signs."""
    return pool, np.abs(x.astype(np.float64)) if isinstance(pool.kind, Lp) else x


def jvp_allowance(pool, x, t, dy):
    pool, x = unsigned(pool, x)
    mass = spec.jvp(pool, x, finite_size(t))[1].astype(np.float64)
    return derivative_allowance(dy.dtype, dy, np.where(np.isfinite(mass), mass, 0))


def vjp_allowance(pool, x, g, gx):
    pool, x = unsigned(pool, x)
    mass = spec.vjp(pool, x, finite_size(g)).astype(np.float64)
    return derivative_allowance(gx.dtype, gx, np.where(np.isfinite(mass), mass, 0))
