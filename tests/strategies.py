"""Random pools over random shapes, for hypothesis: everything that the arguments allow and that has a result."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypothesis import reject
from hypothesis import strategies as st

from ndpool import Adaptive, Avg, Global, Lp, Max, Median, Min, Mode, Pool, Quantile, SmoothMax, Sum, Window
from ndpool.kind import Kind
from ndpool.kinds import MODE_TIES, TIES
from ndpool.making import numbers
from ndpool.table import KINDS

RATIONAL_KINDS: list[Kind] = [
    *(Max(ties) for ties in TIES),
    *(Min(ties) for ties in TIES),
    Avg(),
    Avg(count_include_pad=False),
    Avg(divisor_override=7),
    Sum(),
    *(Mode(ties) for ties in MODE_TIES),
    Quantile(0.25),
    Quantile(0.7, "midpoint"),
    Quantile(0.7, "nearest"),
    Median(),
]
SMOOTH_KINDS: list[Kind] = [
    SmoothMax(1.5),
    SmoothMax(-0.5),
    SmoothMax(3.0, count_include_pad=False),
    Lp(1),
    Lp(2),
    Lp(2.5),
]
_LISTED = {type(kind) for kind in RATIONAL_KINDS + SMOOTH_KINDS}
#: Also those that nobody has listed here, as the examples of their docstrings make them.
ALL_KINDS = RATIONAL_KINDS + SMOOTH_KINDS + [kind(*(numbers(kind) or ())) for kind in KINDS if kind not in _LISTED]


@dataclass(frozen=True)
class Case:
    pool: Pool
    shape: tuple[int, ...]


#: The largest kernel, stride, padding and dilation that are drawn, and the largest output of an Adaptive.
SMALL = (4, 3, 3, 2, 5)
#: The same for a number of pooled axes, where the numbers should reach every branch of an implementation.
LARGE = {1: (14, 9, 12, 12, 20), 2: (7, 9, 5, 10, 9), 3: (4, 5, 3, 3, 6), 4: (3, 3, 2, 2, 4), 5: (2, 3, 1, 2, 3)}


@st.composite
def windows_over(
    draw: st.DrawFn, rank: int, largest: tuple[int, int, int, int, int] = SMALL
) -> Window | Adaptive | Global:
    kernel, stride, padding, dilation, output = largest
    family = draw(st.sampled_from(["window", "window", "window", "adaptive", "global"]))
    if family == "global":
        return Global(keepdims=draw(st.booleans()))
    if family == "adaptive":
        return Adaptive(tuple(draw(st.lists(st.integers(1, output), min_size=rank, max_size=rank))))

    def each(low: int, high: int) -> st.SearchStrategy[tuple[int, ...]]:
        return st.tuples(*[st.integers(low, high)] * rank)

    pairs = st.tuples(*[st.tuples(st.integers(0, padding), st.integers(0, padding))] * rank)
    words = st.sampled_from(["valid", "same", "same_lower"])
    return Window(
        draw(each(1, kernel)),
        draw(st.none() | each(1, stride)),
        draw(st.just(0) | each(0, 2) | pairs | words),
        draw(st.just(1) | each(1, dilation)),
        draw(st.booleans()),
    )


@st.composite
def cases(
    draw: st.DrawFn,
    kinds: list[Kind],
    max_rank: int = 4,
    max_side: int = 5,
    max_cells: int = 400,
    empty: bool = True,
    large: bool = False,
) -> Case:
    """A pool and a shape that it accepts: any kind over any window, any axes, other axes of any length.

    With `large`, sides and windows reach further, and the outputs are at most twice as many as `max_cells`.
    """
    kind = draw(st.sampled_from(kinds))
    ndim = draw(st.integers(1, max_rank))
    axes = draw(st.permutations(range(ndim)))[: draw(st.integers(1, ndim))]
    axes = [axis - ndim if draw(st.booleans()) else axis for axis in axes]
    pool = Pool(kind, draw(windows_over(len(axes), LARGE[len(axes)] if large else SMALL)), tuple(axes))
    max_side = {1: 70, 2: 30, 3: 17, 4: 7, 5: 4}[ndim] if large else max_side + 3 * (ndim == 1)
    pooled = {axis % ndim for axis in axes}
    shape, cells = [], 1
    for d in range(ndim):
        low = 1 if d in pooled or not empty else 0
        side = draw(st.integers(low, max(low, min(max_side, max_cells // max(cells, 1)))))
        shape.append(side)
        cells *= max(side, 1)
    try:
        outputs = math.prod(pool.output_shape(shape))
    except ValueError:
        # The window does not fit the shape, or sees only padding: an error with tests of its own.
        reject()
    if outputs > 2 * max_cells:
        reject()
    return Case(pool, tuple(shape))
