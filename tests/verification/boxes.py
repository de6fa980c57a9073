"""Boxes that break things, points of them, and what a kind gives at a point in exact or outward arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from flint import arb, ctx
from hypothesis import strategies as st

import hostile
from ndpool import Lp, SmoothMax, spec

FLAVOURS = ["normal", "degenerate", "ties", "huge", "subnormal", "wide", "infinite", "tiny"]
ctx.prec = 300


def ends(rng, flavour, shape, dtype):
    """`(lo, hi)` of one flavour."""
    dtype = np.dtype(dtype)
    if flavour == "infinite":
        lo, hi = ends(rng, "normal", shape, dtype)
        lo[rng.random(shape) < 0.15] = -np.inf
        hi[rng.random(shape) < 0.15] = np.inf
        return lo, hi
    numbers = "normal" if flavour == "degenerate" else flavour
    a, b = (hostile.numbers(rng, numbers, shape, dtype) for _ in range(2))
    if flavour == "degenerate":
        b = np.where(rng.random(shape) < 0.7, a, b)
    return np.minimum(a, b), np.maximum(a, b)


def points(rng, lo, hi, count):
    """Points of the box in its dtype: its ends, other vertices, and points between them."""
    yield lo
    yield hi
    for _ in range(count):
        share = rng.choice([0.0, 1.0, 0.5, rng.random()], lo.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            between = lo.astype(np.float64) * (1 - share) + hi.astype(np.float64) * share
        between = np.where(np.isfinite(between), between, np.clip(0.0, lo.astype(np.float64), hi.astype(np.float64)))
        x = np.where(share == 0, lo, np.where(share == 1, hi, between.astype(lo.dtype)))
        yield np.clip(x, lo, hi).astype(lo.dtype)


def seeds():
    return st.integers(0, 2**32 - 1)


def exactly(pool, x):
    """The output at x as a pair of Fractions that have the real number between them: equal ones for rational kinds.

    None where a window sees a cell that is not finite.
    """
    y = np.empty(pool.output_shape(x.shape), object)
    rational = not isinstance(pool.kind, SmoothMax | Lp)
    wide = x.astype(np.float64)
    for out, seen, pad in spec._looks(pool, x, x.astype(object)):
        if seen is None:
            y[out] = None
            continue
        cells = [float(wide[i]) for i in seen]
        if not np.isfinite(cells).all():
            y[out] = None
        elif rational:
            value = pool.kind.value([Fraction(c) for c in cells], pad) if cells else Fraction(0)
            y[out] = (Fraction(value), Fraction(value))
        else:
            y[out] = enclosed(pool.kind, cells, pad)
    return y


def enclosed(kind, cells, pad):
    """The formula in Arb, with 300 bits and more, as the ends of its ball."""
    exact = [arb(*[Fraction(c).numerator]) / arb(Fraction(c).denominator) for c in cells]
    if isinstance(kind, SmoothMax):
        zeros = pad if kind.count_include_pad else 0
        beta = arb(kind.beta)
        every = [*exact, *([arb(0)] * zeros)]
        lead = max(every, key=lambda b: float(b) * np.sign(kind.beta))
        ball = lead + sum((((c - lead) * beta).exp() for c in every), arb(0)).log() / beta
    else:
        p = arb(kind.p)
        large = max((abs(c) for c in exact), key=float)
        if large == 0:
            return Fraction(0), Fraction(0)
        ratios = [abs(c) / large for c in exact]
        ball = large * sum(((r**p) if r != 0 else arb(0) for r in ratios), arb(0)) ** (1 / p)
    return fraction(ball.lower()), fraction(ball.upper())


def fraction(point):
    """The dyadic number that an exact ball is."""
    mantissa, exponent = point.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def as_fraction(a):
    """A float as a Fraction; infinities as numbers beyond all others."""
    a = float(a)
    if np.isinf(a):
        return Fraction(10) ** 5000 * (1 if a > 0 else -1)
    return Fraction(a)
