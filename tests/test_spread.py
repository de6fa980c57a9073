"""The way back of sums: rows of the gradient as runs of one number, in steps, and as places of many elements."""

from __future__ import annotations

import numpy as np
import pytest

from closeness import last_place, same_bytes, within
from hostile import FLOATS
from ndpool import Adaptive, Avg, Pool, Sum, Window, _engine
from oracle import Gathered
from ways import planned, vjp_by, ways

#: Windows along one axis: of less than a stride, of a whole number of strides and of a part more, in steps of 1 and 2,
#: of more cells than the steps, with padding alone at an end; bins that share cells, that do not, of a cell or two.
WINDOWS = [
    *(Window((k,), s, p) for k, s, p in ((2, 5, 1), (3, 3, 0), (4, 3, 2), (9, 4, 4), (20, 3, 9), (2, 2, 1), (5, 2, 0))),
    *(Window((k,), 1, p) for k, p in ((1, 0), (4, 3), (11, 5), (25, 12))),
    Window((3,), 2, 2, 3),
    Window((3,), 4, 7, ceil_mode=True),
    *(Adaptive((n,)) for n in (1, 5, 17, 33, 39, 50)),
]
LENGTH = 39


@pytest.fixture(autouse=True)
def level_as_it_was():
    level = _engine.level()
    yield
    _engine.set_level(level)


def cotangent(pool, shape, dtype):
    return np.random.default_rng(3).normal(size=pool.output_shape(shape)).astype(dtype)


def allowed(pool, x, g, gx):
    mass = Gathered(pool, x).vjp(np.abs(g.astype(np.float64)))
    return 2 * last_place(gx.dtype, mass) + 2.0**-40 * mass


def check(pool, shape, dtype):
    """At every level, by every way, into the caches and past them."""
    x, g = np.ones(shape, dtype), cotangent(pool, shape, dtype)
    gx = Gathered(pool, x).vjp(g).astype(dtype)
    bound = allowed(pool, x, g, gx)
    for level in _engine.levels():
        _engine.set_level(level)
        for way in ways(pool, x, "pull"):
            within(vjp_by(pool, x, g, way), gx, bound)
            within(vjp_by(pool, x, g, f"{way}+stream", 1), gx, bound)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_rows(window, dtype):
    """One element to a place, fewer than fill 16 bytes, a register and a line, and more."""
    for inner in (1, 2, 3, 6, 16, 17, 33, 70):
        check(Pool(Avg(), window, (1,)), (3, LENGTH, inner), dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("kind", [Avg(False), Avg(divisor_override=3), Sum()], ids=repr)
@pytest.mark.parametrize(
    ("window", "shape", "axes"),
    [
        (Window((3, 4), (2, 3), (1, 2), ceil_mode=True), (3, 17, 25), None),
        (Window((2, 3), (3, 1), (0, 1)), (2, 20, 19), None),
        (Window((7, 2), (1, 2), (3, 0)), (2, 20, 31), None),
        (Window((3, 3, 2), (2, 1, 4), 1), (2, 6, 7, 9), None),
        (Adaptive((4, 7)), (3, 17, 25), None),
        (Adaptive((5, 3)), (2, 9, 8, 5), (1, 2)),
        (Adaptive((3, 3)), (4, 9, 2, 12), (1, 3)),
    ],
    ids=repr,
)
def test_planes(window, shape, axes, kind, dtype):
    """Rows that are added up, and rows and planes that come again."""
    check(Pool(kind, window, axes), shape, dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("window", "shape"),
    [
        (Adaptive((1, 1)), (70, 7, 7)),
        (Adaptive((1, 1)), (2, 180, 110)),
        (Adaptive((7,)), (1, 140_003)),
        (Adaptive((30,)), (400, 90)),
        (Adaptive((29,)), (300, 120)),
        (Window((5,), 5), (2, 40_000)),
        (Window((3,), 2, 1), (2, 40_001)),
        (Window((13,), 6, 6), (300, 120)),
        (Window((2, 9), (2, 4), (0, 4)), (70, 12, 66)),
    ],
    ids=repr,
)
def test_many_slabs_and_long_rows(window, shape, dtype):
    """Slabs in groups, as one long row, and in parts: to the bit the same for every number of threads."""
    pool = Pool(Avg(), window)
    x, g = np.ones(shape, dtype), cotangent(pool, shape, dtype)
    gx = Gathered(pool, x).vjp(g).astype(dtype)
    _, native = planned(pool, x)
    ours = vjp_by(pool, x, g, "spread")
    within(ours, gx, allowed(pool, x, g, gx))
    for threads in (1, 2, 3, 7):
        again = np.empty_like(x)
        native.pull(None, None, None, g, again, path="spread", threads=threads)
        same_bytes(again, ours)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("window", [Window((3,), 1, 1), Window((3,), 3), Window((7,), 3, 2), Adaptive((5,))], ids=repr)
def test_quotients_of_what_is_not_finite(window, dtype):
    """An infinity stays one, and reaches the cells of its window alone; small and large numbers are divided once."""
    pool = Pool(Avg(), window)
    x = np.ones((2, 21), dtype)
    for odd in (np.inf, -np.inf, np.nan, np.finfo(np.float16).max, 6e-8):
        g = np.zeros(pool.output_shape(x.shape), dtype)
        g[1, 2] = odd
        gx = Gathered(pool, x).vjp(g)
        gx = np.where(np.isnan(gx) & ~np.isnan(odd), 0, gx).astype(dtype)  # the oracle's 0 * inf
        for level in _engine.levels():
            _engine.set_level(level)
            within(vjp_by(pool, x, g), gx, last_place(dtype, np.abs(gx.astype(np.float64))))
