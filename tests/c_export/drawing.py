"""Pools drawn at random, the same each time: every kind that is written in C over every sort of window."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np

from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window
from ndpool.kinds import ROUNDINGS, TIES

FLOAT_KINDS = [
    *(Max(ties) for ties in TIES),
    *(Min(ties) for ties in TIES),
    Sum(),
    Avg(),
    Avg(count_include_pad=False),
    Avg(divisor_override=7),
    Lp(1),
    Lp(2),
    SmoothMax(1.5),
    SmoothMax(-0.5),
    SmoothMax(3.0, count_include_pad=False),
]
INTEGER_KINDS = [
    Max(),
    Min(),
    Sum(),
    *(Avg(counted, rounding=rounding) for rounding in ROUNDINGS for counted in (True, False)),
]
SIDES = {1: 40, 2: 13, 3: 7, 4: 5}
#: The longest kernel, stride, padding and dilation, by the number of pooled axes.
WINDOWS = {1: (12, 7, 6, 5), 2: (6, 4, 3, 3), 3: (4, 3, 2, 2), 4: (3, 2, 1, 2)}


@dataclass(frozen=True)
class Drawn:
    pool: Pool
    shape: tuple[int, ...]
    dtype: str


def drawn_pools(count: int, seed: int) -> list[Drawn]:
    rng = random.Random(seed)
    found: list[Drawn] = []
    while len(found) < count:
        each = _drawn(rng)
        if each is not None:
            found.append(each)
    return found


def _drawn(rng: random.Random) -> Drawn | None:
    dtype = rng.choice(["float32", "float32", "int8", "int8", "uint8", "int16"])
    kind = rng.choice(FLOAT_KINDS if dtype == "float32" else INTEGER_KINDS)
    ndim = rng.randint(1, 4)
    axes = rng.sample(range(ndim), rng.randint(1, ndim))
    pool = Pool(kind, _window(rng, len(axes)), tuple(axes))
    shape = tuple(rng.randint(1, SIDES[ndim]) for _ in range(ndim))
    try:
        outputs = math.prod(pool.output_shape(shape))
    except ValueError:  # does not fit the shape, or sees padding alone where a cell is needed
        return None
    cells = math.prod(shape)
    return Drawn(pool, shape, dtype) if cells <= 700 and outputs <= 1000 else None


def _window(rng: random.Random, rank: int) -> Window | Adaptive | Global:
    family = rng.choice(["window"] * 4 + ["adaptive", "global"])
    if family == "global":
        return Global(keepdims=rng.random() < 0.5)
    kernel, stride, padding, dilation = WINDOWS[rank]
    each = lambda low, high: tuple(rng.randint(low, high) for _ in range(rank))  # noqa: E731
    if family == "adaptive":
        return Adaptive(each(1, 5))
    pads = rng.choice(
        [0, each(0, padding), tuple(zip(each(0, padding), each(0, padding), strict=True)), "same", "valid"]
    )
    return Window(
        each(1, kernel),
        rng.choice([None, each(1, stride), 1]),
        pads,
        rng.choice([1, 1, each(1, dilation)]),
        rng.random() < 0.3,
    )


def hostile(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers that show mistakes: ties, ends of the range, NaN, infinities, zeros of both signs."""
    if dtype != "float32":
        limits = np.iinfo(dtype)
        x = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        few = rng.choice(np.array([limits.min, limits.max, 0, 1], dtype), shape)
        return np.where(rng.random(shape) < rng.choice([0.0, 0.5, 1.0]), few, x).astype(dtype)
    x = (rng.standard_normal(shape) * rng.choice([1e-3, 1.0, 1e3])).astype(np.float32)
    style = rng.integers(0, 4)
    if style == 1:
        x = np.round(x).astype(np.float32)
    elif style == 2:
        few = rng.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], np.float32), shape)
        x = np.where(rng.random(shape) < 0.2, few, x)
    elif style == 3:
        x = rng.choice(np.array([0.0, -0.0, 1.0, -1.0], np.float32), shape)
    return np.asarray(x, np.float32)
