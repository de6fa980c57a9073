"""The kernel for long windows along the last axis: the cells of one window lie over the columns of a tile.

Each column walks over every COLS-th cell, so that neighbours are read together; then the columns are joined in a tree,
which is the same whoever runs it.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .arithmetic import (
    LEAD,
    NAME,
    SUMS,
    WORST,
    any_lacking,
    are_equal,
    finds_later,
    lacking,
    larger,
    none_there,
    none_yet,
    number,
    smaller,
    two_sum,
)
from .chaining import wait_for_the_one_before
from .walking import look, look_again, store_result
from .windows import cell, found_anew, row_block, tile_along_axes, widened


@triton.jit
def _smaller_place(a, b):
    return tl.minimum(a, b)


@triton.jit
def _total(a, b):
    return a + b


@triton.jit
def _total_with_error(a, e, b, f):
    s, rest = two_sum(a, b)
    return s, rest + e + f


@triton.jit
def _best(a, KIND: tl.constexpr):
    if KIND[LEAD] == "max":
        return tl.reduce(a, 1, larger, keep_dims=True)
    else:
        return tl.reduce(a, 1, smaller, keep_dims=True)


@triton.jit
def tree(
    a_in, b_in, d_in, n_in, a_out, b_out, d_out, n_out, rows, cells, scale, all_cells, zero,
    s0, s1, s2, s3, s4, s5, s6, s7,
    o0, o1, o2, o3, o4, o5, o6, o7,
    f0, f1, f2, f3, f4, f5, f6, f7,
    KIND: tl.constexpr, RANK: tl.constexpr, AXES: tl.constexpr, WHOLE: tl.constexpr, CELLS: tl.constexpr,
    DIVISOR: tl.constexpr, SOURCE: tl.constexpr, SINK: tl.constexpr, TANGENT: tl.constexpr, PLACES: tl.constexpr,
    AGAIN: tl.constexpr, COMPUTE: tl.constexpr, SECOND: tl.constexpr, SLOPE: tl.constexpr,
    CHAINED: tl.constexpr, WRAPS: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """As `walk`; `rows` number the outputs of all axes."""
    wait_for_the_one_before(CHAINED)
    sizes = widened((s0, s1, s2, s3, s4, s5, s6, s7), WIDE)
    outs = widened((o0, o1, o2, o3, o4, o5, o6, o7), WIDE)
    first = row_block(WIDE) * ROWS
    out = first + tl.arange(0, ROWS)[:, None]
    inside = out < rows
    numbered = tile_along_axes(first, outs, RANK + 1, WRAPS, ROWS)  # the last axis among them
    last = numbered[RANK - 1]
    coords = numbered if RANK > 1 else (last * 0,)

    a = tl.full([ROWS, COLS], number(KIND[WORST]), COMPUTE)
    b = tl.full([ROWS, COLS], -1 if PLACES else 0, SECOND)
    d = tl.zeros([ROWS, COLS], SLOPE)
    n = none_there(ROWS, COLS, KIND)
    lane = tl.arange(0, COLS)[None, :]
    blocks = tl.cdiv(cells, COLS)
    for block in range(blocks):
        place = block * COLS + lane
        at, _, real = cell(place, coords, last, inside & (place < cells), sizes, outs, RANK, AXES, False)
        v = tl.load(a_in + at, mask=real, other=number(KIND[WORST]))
        a, b, d, n = look(
            a, b, d, n, v, at, real, place, scale, b_in, d_in, n_in,
            KIND, SOURCE, TANGENT, PLACES, COMPUTE, SLOPE, False,
        )  # fmt: skip
    of_columns = a
    if KIND[NAME] != "sum" and KIND[NAME] != "avg":
        a = _best(a, KIND)
    elif KIND[SUMS] == "error":
        a, b = tl.reduce((a, b), 1, _total_with_error, keep_dims=True)
    else:
        a = tl.reduce(a, 1, _total, keep_dims=True)
    LATER: tl.constexpr = finds_later(KIND, SOURCE, COMPUTE)
    if AGAIN or (PLACES and COMPUTE.is_floating() and any_lacking(a, inside, KIND, LATER)):
        if PLACES:
            b = tl.where(lacking(of_columns, KIND, LATER), none_yet(b), b)
        again = found_anew(coords, zero, RANK)
        for left in range(blocks):
            place = (blocks - 1 - left) * COLS + lane
            at, _, real = cell(place, again, last, inside & (place < cells), sizes, outs, RANK, AXES, False)
            v = tl.load(a_in + at, mask=real, other=number(KIND[WORST]))
            b, d = look_again(
                a, b, d, v, at, real, place, scale, b_in, d_in, n_in,
                KIND, SOURCE, TANGENT, PLACES, COMPUTE, SLOPE, "NaNs",
            )  # fmt: skip
    if PLACES:
        wins = (b >= 0) & are_equal(of_columns, a)
        places = tl.where(wins, b, all_cells + tl.zeros_like(b))
        b = tl.reduce(places, 1, _smaller_place, keep_dims=True)
        d = tl.where(places == b, d, 0)
        b = tl.where(b >= all_cells, -1, b)
    elif KIND[SUMS] != "error":
        b = tl.reduce(b, 1, _total, keep_dims=True)
    if TANGENT:
        d = tl.reduce(d, 1, _total, keep_dims=True)
    n = tl.reduce(n, 1, _total, keep_dims=True)
    store_result(
        a, b, d, n, coords, last, out, inside, d_in, a_out, b_out, d_out, n_out,
        (f0, f1, f2, f3, f4, f5, f6, f7), outs, all_cells,
        KIND, RANK, WHOLE, DIVISOR, SINK, TANGENT, PLACES, SLOPE, PLACES or AGAIN or KIND[SUMS] != "plain",
    )  # fmt: skip
