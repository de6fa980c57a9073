"""The kernel that reads winners: each one's index over the pooled axes, or the tangent where it stands."""

from __future__ import annotations

import triton
import triton.language as tl

from .windows import DILATION, INNER, KERNEL, tile_along_axes, tile_of_program, widened, window_start


@triton.jit
def place_kernel(
    winners, t, found, rows, all_cells,
    s0, s1, s2, s3, s4, s5, s6, s7,
    o0, o1, o2, o3, o4, o5, o6, o7,
    RANK: tl.constexpr, AXES: tl.constexpr, POOLED: tl.constexpr, INDICES: tl.constexpr, SKIPS: tl.constexpr,
    WRAPS: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    sizes = widened((s0, s1, s2, s3, s4, s5, s6, s7), WIDE)
    outs = widened((o0, o1, o2, o3, o4, o5, o6, o7), WIDE)
    first_row, first = tile_of_program(WIDE, ROWS, COLS)
    row = first_row + tl.arange(0, ROWS)[:, None]
    col = first + tl.arange(0, COLS)[None, :]
    inside = (row < rows) & (col < outs[RANK - 1])
    coords = tile_along_axes(first_row, outs, RANK, WRAPS, ROWS)
    out = row.to(tl.int64) * outs[RANK - 1] + col
    place = tl.load(winners + out, mask=inside, other=0).to(tl.int64)
    there = place < all_cells if SKIPS else place >= 0
    place = tl.where(there, place, 0)

    offset = place * 0
    index = place * 0
    step = place * 0 + 1
    pooled_step = place * 0 + 1
    for axis in tl.static_range(RANK - 1, -1, -1):
        o = col if axis == RANK - 1 else coords[axis]
        at = o
        if POOLED[axis]:
            k = place // AXES[axis][INNER] % AXES[axis][KERNEL]
            at = window_start(o, sizes[axis], outs[axis], AXES, axis) + k * AXES[axis][DILATION]
            index += at * pooled_step
            pooled_step *= sizes[axis]
        offset += at * step
        step *= sizes[axis]
    if INDICES:
        tl.store(found + out, tl.where(there, index, -1), mask=inside)
    else:
        value = tl.load(t + offset, mask=inside & there, other=0)
        tl.store(found + out, value, mask=inside)
