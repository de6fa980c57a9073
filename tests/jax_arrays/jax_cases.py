"""Pools and arrays for the tests of the JAX adapter."""

from __future__ import annotations

import contextlib

import jax
import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from hostile import DTYPES, flavours, numbers
from ndpool import Adaptive, Avg, Global, Lp, Max, Median, Min, Mode, Pool, Quantile, SmoothMax, Sum, Window
from ndpool.plan import plan_of
from strategies import ALL_KINDS, cases

#: The same examples in every run. To look for others: `derandomize=False`.
FEW = settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)

#: All dtypes, by name.
NAMES = tuple(map(str, DTYPES))

#: One pool of each way to keep a derivative, and of each form of window.
POOLS = [
    Pool(Max(), Window((3, 3), stride=2, padding=1)),
    Pool(Max("split"), Window((2, 3), stride=1, dilation=(1, 2))),
    Pool(Min("all"), Adaptive((3, 4))),
    Pool(Avg(count_include_pad=False), Window((3, 3), stride=2, padding="same", ceil_mode=True)),
    Pool(Sum(), Global(keepdims=False), axes=(-2, -1)),
    Pool(SmoothMax(1.5), Window((2, 2), stride=1, padding=1)),
    Pool(Lp(2), Window((3, 2), stride=2)),
    Pool(Lp(3), Adaptive((2, 3))),
    Pool(Median(), Window((2, 2), stride=1)),
    Pool(Quantile(0.3, "nearest"), Window((3, 3), stride=2)),
    Pool(Mode(), Window((3, 3), stride=3)),
    Pool(Avg(), Window((2, 2)), skip=float("nan")),
    Pool(Max(), Window((2, 2), stride=1), skip=0, min_count=2),
    Pool(SmoothMax(-2.0), Window((2, 2)), skip=0),
]


def name_of(pool):
    return f"{type(pool.kind).__name__}-{type(pool.window).__name__}" + "-skip" * (pool.skip is not None)


@st.composite
def pooled_arrays(draw, dtypes=NAMES, kinds=ALL_KINDS, large=False):
    """A pool and an array that it takes: of any dtype, with ties, NaNs, infinities, and cells that are skipped."""
    case = draw(cases(kinds, large=large))
    name = draw(st.sampled_from(dtypes))
    dtype = next(each for each in DTYPES if str(each) == name)
    pool, skip = case.pool, draw(st.sampled_from([None, None, 0, 1, float("nan")]))
    if skip is not None:
        # What the dtype does not have, or the window has too few of, is an error with a test of its own.
        with contextlib.suppress(ValueError):
            other = Pool(pool.kind, pool.window, pool.axes, skip, draw(st.integers(1, 2)))
            plan_of(other, case.shape, dtype.name)
            pool = other
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    flavour = draw(st.sampled_from([each for each in flavours(dtype) if each not in ("huge", "subnormal", "tiny")]))
    return pool, numbers(rng, flavour, case.shape, dtype)


def narrow():
    """Without numbers of 64 bits, as JAX is by default."""
    return jax.enable_x64(False) if hasattr(jax, "enable_x64") else jax.experimental.disable_x64()


def normal(seed, shape, dtype="float64"):
    return jax.numpy.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def without_ties(seed, shape, dtype="float64"):
    """Numbers that are far apart from each other and from 0, of both signs."""
    size = int(np.prod(shape))
    x = np.random.default_rng(seed).permutation(size) + 1.0
    x *= np.where(np.arange(size) % 2, 0.15, -0.15)
    return jax.numpy.asarray(x.reshape(shape), dtype)
