"""The kernels of the way back: every cell asks the windows that see it, in a fixed order. Nothing is scattered.

    sums       gx_i = sum of h_o
    winners    gx_i = sum of g_o where the winner of o is i
    slopes     gx_i = sum of f(x_i, r_o) h_o

`gather_taps` is for windows in small steps. Cells are taken in blocks, a step along each axis. A cell's place in its
block is its phase. All cells of one phase are seen by windows that lie alike around them: their taps, which are
constants. Along the last axis, a place of the tile has several blocks, which are stored side by side.

`gather_any` finds the windows over a cell by division, along any axes.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .arithmetic import (
    NAME,
    OPTION,
    PARAMETER,
    SKIP,
    SUMS,
    are_equal,
    is_there,
    power,
    rounded,
    shifted,
    sign_of,
    two_sum,
)
from .chaining import wait_for_the_one_before
from .groups import parted, side_by_side
from .windows import (
    ADAPTIVE,
    DILATION,
    INNER,
    KERNEL,
    LO,
    STRIDE,
    aligned,
    below,
    bin_product,
    bin_quotient,
    cells_along,
    is_among,
    tile_along_axes,
    tile_of_program,
    widened,
    window_start,
)

#: How many windows of a long loop are on their way from memory at once.
ASKED_AT_ONCE = tl.constexpr(16)


@triton.constexpr_function
def keeps_error(kind, windows, divisor):
    """Whether a sum over so many windows would be rounded more than once: not one of two, if nothing divides it."""
    return kind[SUMS.value] == "error" and windows > (1 if divisor > 1 else 2)


@triton.constexpr_function
def leans_last(kind):
    """Whether a cell leans on all windows over it alike, or not at all where these have an infinite cell and p > 1.

    Then their shares are added up first. With `skip`, a NaN may be there where windows see too few cells.
    """
    return kind[NAME.value] == "lp" and kind[SUMS.value] == "powers" and kind[SKIP.value] == "no"


@triton.jit
def _lean(x, size, KIND: tl.constexpr):
    """What a cell of this size does to the sum of powers, by its p."""
    return sign_of(x) * power(size, KIND[PARAMETER] - 1)


@triton.jit
def part_of(
    sum, error, x, place, seen, g, winner, r,
    KIND: tl.constexpr, FORM: tl.constexpr, SLOPE: tl.constexpr, ERROR: tl.constexpr, FIRST: tl.constexpr,
):  # fmt: skip
    """The sum with what one window gives to each cell, and its error where that is asked for.

    A window that is not there has the gradient 0.
    """
    part = g.to(SLOPE)
    if FORM == "winners":
        if not (FIRST or ERROR):
            return tl.where(winner == place, sum + part, sum), error  # one instruction: an addition under a condition
        part = tl.where(winner == place, part, 0)
    elif FORM == "slopes" and leans_last(KIND):
        if KIND[PARAMETER] != 1:
            part = tl.where((r == float("inf")) & (tl.abs(x) != float("inf")), 0, part)
    elif FORM == "slopes":
        r = r.to(x.dtype)
        if KIND[NAME] == "max" or KIND[NAME] == "min":
            part = tl.where(are_equal(x, r), part, 0)
        elif KIND[NAME] == "smooth_max":
            part = shifted(x, r, KIND) * part
        elif KIND[NAME] == "lp" and KIND[SUMS] == "powers":
            size = tl.where(r == float("inf"), (tl.abs(x) == r).to(x.dtype), tl.abs(x))
            part = _lean(x, size, KIND) * part
        elif KIND[NAME] == "lp":
            part = sign_of(x) * power(shifted(x, r, KIND), KIND[PARAMETER] - 1) * part
        if KIND[SKIP] != "no" and KIND[NAME] != "sum" and KIND[NAME] != "avg":
            # A window with a NaN whose reference is a number has too few cells, and gives it nothing. Sums have none.
            part = tl.where((x != x) & (r == r), 0, part)
        part = tl.where(seen, part, 0)
    if FIRST:
        return part, error
    elif ERROR:
        sum, e = two_sum(sum, part)
        return sum, error + e
    else:
        return sum + part, error


@triton.jit
def _read(offset, seen, g, winners, reference, FORM: tl.constexpr):
    """The gradients of windows, and their winners or references."""
    share = tl.load(g + offset, mask=seen, other=0)
    if FORM == "winners":
        return share, tl.load(winners + offset, mask=seen, other=0), share
    elif FORM == "slopes":
        return share, share, tl.load(reference + offset, mask=seen, other=0)
    else:
        return share, share, share


@triton.jit
def finished(sum, error, x, KIND: tl.constexpr, DIVISOR: tl.constexpr, FORM: tl.constexpr, ERROR: tl.constexpr):
    if ERROR:
        sum = tl.where(sum - sum == 0, sum + error, sum)
    if DIVISOR > 1 and sum.dtype == tl.float64:
        sum = sum / DIVISOR
    elif DIVISOR > 1:
        q = sum * (1 / DIVISOR)
        left = tl.fma(q, tl.full(q.shape, -DIVISOR, q.dtype), sum)
        sum = tl.where(q - q == 0, q + left * (1 / DIVISOR), q)
    if FORM == "slopes" and leans_last(KIND):
        sum = _lean(x, tl.where(tl.abs(x) == float("inf"), 1.0, tl.abs(x)), KIND) * sum
    if FORM == "slopes" and KIND[SKIP] != "no":
        sum = tl.where(is_there(x, KIND), sum, 0)
    return sum


# --- windows in small steps -----------------------------------------------------------------------


@triton.jit
def gather_taps(
    g, winners, reference, x, gx, rows,
    s0, s1, s2, s3, s4, s5, s6, s7,
    o0, o1, o2, o3, o4, o5, o6, o7,
    b0, b1, b2, b3, b4, b5, b6, b7,
    KIND: tl.constexpr, RANK: tl.constexpr, STEPS: tl.constexpr, TAPS: tl.constexpr, COUNTS: tl.constexpr,
    MOST: tl.constexpr, MARGINS: tl.constexpr, PHASES: tl.constexpr, GROUP: tl.constexpr, BEFORE: tl.constexpr,
    AFTER: tl.constexpr, ALIGN: tl.constexpr, ALIGN_OUT: tl.constexpr, EDGE: tl.constexpr, DIVISOR: tl.constexpr,
    FORM: tl.constexpr, COMPUTE: tl.constexpr, SLOPE: tl.constexpr,
    CHAINED: tl.constexpr, WRAPS: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The sizes b are in blocks. Rows of a tile number those, and columns groups of GROUP blocks along the last axis.

    `TAPS` lists for each phase the windows that see its cells, MOST of them or fewer: along each axis how far from the
    block they are, and last the place that the cell has in them. `MARGINS` says how many windows more than blocks an
    axis has: a tap that is further may find none. `BEFORE` and `AFTER` are how many groups away a tap may be.
    """
    wait_for_the_one_before(CHAINED)
    sizes = widened((s0, s1, s2, s3, s4, s5, s6, s7), WIDE)
    outs = widened((o0, o1, o2, o3, o4, o5, o6, o7), WIDE)
    blocks = widened((b0, b1, b2, b3, b4, b5, b6, b7), WIDE)
    CELLS: tl.constexpr = GROUP * STEPS[RANK - 1]
    first_row, first = tile_of_program(WIDE, ROWS, COLS)
    inside = first_row + tl.arange(0, ROWS)[:, None] < rows
    coords = tile_along_axes(first_row, blocks, RANK, WRAPS, ROWS)
    i = first * CELLS + tl.arange(0, CELLS * COLS)[None, :]
    # All phases ask before any is stored: those that ask the same window read it once.
    found = ()
    for phase in tl.static_range(PHASES):
        cells = ()
        if FORM == "slopes":
            at, real = phase_row(phase, coords, inside, sizes[RANK - 1] // ALIGN, sizes, RANK, STEPS)
            v = tl.load(x + at * ALIGN + i, mask=real & below(i, sizes[RANK - 1], ALIGN), other=0).to(COMPUTE)
            cells = parted(v, ROWS, COLS, CELLS)
        gets = ()
        for c in tl.static_range(CELLS):
            sum = _asked(
                phase * STEPS[RANK - 1] + c % STEPS[RANK - 1], c // STEPS[RANK - 1], coords, first,
                cells[c] if FORM == "slopes" else 0, outs, g, winners, reference,
                KIND, RANK, TAPS, COUNTS, MOST, MARGINS, GROUP, BEFORE, AFTER, ALIGN_OUT, EDGE, DIVISOR, FORM, SLOPE,
                ROWS, COLS,
            )  # fmt: skip
            gets = gets + (rounded(sum, gx.dtype),)
        found = found + (side_by_side(gets, CELLS),)
    for phase in tl.static_range(PHASES):
        at, real = phase_row(phase, coords, inside, sizes[RANK - 1] // ALIGN, sizes, RANK, STEPS)
        tl.store(gx + at * ALIGN + i, found[phase], mask=real & below(i, sizes[RANK - 1], ALIGN))


@triton.jit
def phase_row(phase, coords, real, step, sizes, RANK: tl.constexpr, STEPS: tl.constexpr):
    """Where the rows of cells in this phase of their blocks start, and whether there are such."""
    offset = coords[0] * 0
    number = phase
    for axis in tl.static_range(RANK - 2, -1, -1):
        at = coords[axis] * STEPS[axis] + number % STEPS[axis]
        if STEPS[axis] > 1:
            real = real & (at < sizes[axis])
        number = number // STEPS[axis]
        offset = offset + at * step
        step = step * sizes[axis]
    return offset, real


@triton.jit
def _asked(
    phase: tl.constexpr, block: tl.constexpr, coords, first, x, outs, g, winners, reference,
    KIND: tl.constexpr, RANK: tl.constexpr, TAPS: tl.constexpr, COUNTS: tl.constexpr, MOST: tl.constexpr,
    MARGINS: tl.constexpr, GROUP: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr, ALIGN_OUT: tl.constexpr,
    EDGE: tl.constexpr, DIVISOR: tl.constexpr, FORM: tl.constexpr, SLOPE: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """What the cells get that are in one phase of their block, the block-th of their group."""
    sum = tl.zeros([ROWS, COLS], SLOPE)
    error = tl.zeros([ROWS, COLS], SLOPE)
    col = first + tl.arange(0, COLS)[None, :]
    for tap in tl.static_range(MOST):
        if tap < COUNTS[phase]:
            at, seen = window_row(phase * MOST + tap, coords, outs, RANK, TAPS, MARGINS, ALIGN_OUT)
            part = _window_at(
                block + TAPS[phase * MOST + tap][RANK - 1], at * ALIGN_OUT, first, seen, outs[RANK - 1],
                g, winners, reference, FORM, GROUP, BEFORE, AFTER, ALIGN_OUT, EDGE, ROWS, COLS,
            )  # fmt: skip
            o = col * GROUP + (block + TAPS[phase * MOST + tap][RANK - 1])
            seen = seen & is_among(o, outs[RANK - 1])
            sum, error = part_of(
                sum, error, x, TAPS[phase * MOST + tap][RANK], seen, part[0], part[1], part[2],
                KIND, FORM, SLOPE, keeps_error(KIND, COUNTS[phase], DIVISOR), tap == 0,
            )  # fmt: skip
    return finished(sum, error, x, KIND, DIVISOR, FORM, keeps_error(KIND, COUNTS[phase], DIVISOR))


@triton.jit
def window_row(
    tap: tl.constexpr, coords, outs, RANK: tl.constexpr, TAPS: tl.constexpr, MARGINS: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    """Where the row of windows starts that a tap asks, in units of ALIGN, and whether there is one."""
    seen = tl.full([1, 1], True, tl.int1)
    offset = coords[0] * 0
    step = outs[RANK - 1] // ALIGN
    for axis in tl.static_range(RANK - 2, -1, -1):
        o = coords[axis] + TAPS[tap][axis]
        if TAPS[tap][axis] < 0:
            seen = seen & (o >= 0)
        if TAPS[tap][axis] > MARGINS[axis]:
            seen = seen & (o < outs[axis])
        offset = offset + o * step
        step = step * outs[axis]
    return offset, seen


@triton.jit
def _window_at(
    place: tl.constexpr, at, first, seen, length, g, winners, reference,
    FORM: tl.constexpr, GROUP: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr, ALIGN_OUT: tl.constexpr,
    EDGE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The gradient, winner and reference of the window at this place of each group: of its own, or of one beside it."""
    found = ()
    for shift in tl.static_range(-BEFORE, AFTER + 1):
        if place >= shift * GROUP and place < (shift + 1) * GROUP:
            o = (first + shift) * GROUP + tl.arange(0, GROUP * COLS)[None, :]
            kept = seen
            if shift < 0:
                kept = kept & (o >= 0)
            if EDGE or shift > 0:
                kept = kept & below(o, length, ALIGN_OUT)
            share = parted(tl.load(g + at + o, mask=kept, other=0), ROWS, COLS, GROUP)
            found = (share[place - shift * GROUP],)
            if FORM == "winners":
                wins = parted(tl.load(winners + at + o, mask=kept, other=0), ROWS, COLS, GROUP)
                found = found + (wins[place - shift * GROUP], 0)
            elif FORM == "slopes":
                beside = parted(tl.load(reference + at + o, mask=kept, other=0), ROWS, COLS, GROUP)
                found = found + (0, beside[place - shift * GROUP])
            else:
                found = found + (0, 0)
    return found


# --- any windows ----------------------------------------------------------------------------------


@triton.jit
def gather_any(
    g, winners, reference, x, gx, rows, windows, all_cells,
    s0, s1, s2, s3, s4, s5, s6, s7,
    o0, o1, o2, o3, o4, o5, o6, o7,
    KIND: tl.constexpr, RANK: tl.constexpr, AXES: tl.constexpr, ASKED: tl.constexpr, ALIGN: tl.constexpr,
    DIVISOR: tl.constexpr, FORM: tl.constexpr, COMPUTE: tl.constexpr, SLOPE: tl.constexpr, UNROLL: tl.constexpr,
    CHAINED: tl.constexpr, WRAPS: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """`ASKED` has for each axis how many windows may see a cell, and how many of these numbers lie inside it.

    A `DIVISOR` of -1 is what counts in each window, for which see `_divided`, and one of 0 is the number of all cells
    of a window, which is the same for a whole row.
    """
    wait_for_the_one_before(CHAINED)
    sizes = widened((s0, s1, s2, s3, s4, s5, s6, s7), WIDE)
    outs = widened((o0, o1, o2, o3, o4, o5, o6, o7), WIDE)
    size = sizes[RANK - 1]
    first_row, first = tile_of_program(WIDE, ROWS, COLS)
    row = first_row + tl.arange(0, ROWS)[:, None]
    col = first + tl.arange(0, COLS)[None, :]
    inside = (row < rows) & below(col, size, ALIGN)
    coords = tile_along_axes(first_row, sizes, RANK, WRAPS, ROWS)
    at = aligned(row, size, ALIGN) + col
    # Where one window is over the whole of the last axis, all cells of a row get the same of a sum.
    ALIKE: tl.constexpr = AXES[RANK - 1][ADAPTIVE] == 2 and FORM == "sums"
    sum = tl.zeros([ROWS, 1 if ALIKE else COLS], SLOPE)
    error = tl.zeros([ROWS, 1 if ALIKE else COLS], SLOPE)
    cells = sum
    ERROR: tl.constexpr = keeps_error(KIND, UNROLL if UNROLL else 3, DIVISOR)
    if FORM == "slopes":
        cells = tl.load(x + at, mask=inside, other=0).to(COMPUTE)
    asking = inside
    if AXES[RANK - 1][ADAPTIVE] == 2:
        asking = tl.full([1, 1], True, tl.int1)  # a row of cells asks the same windows, which are read once
    if UNROLL:
        for number in tl.static_range(UNROLL):
            offset, place, seen = window_over(number, coords, col, asking, sizes, outs, RANK, AXES, ASKED)
            share, winner, r = _read(offset, seen, g, winners, reference, FORM)
            if DIVISOR == -1:
                share = _divided(number, share.to(SLOPE), coords, col, sizes, outs, gx, KIND, RANK, AXES, ASKED)
            sum, error = part_of(
                sum, error, cells, place, seen, share, winner, r, KIND, FORM, SLOPE, ERROR, number == 0
            )
    else:
        for number in tl.range(windows, loop_unroll_factor=ASKED_AT_ONCE):
            offset, place, seen = window_over(number, coords, col, asking, sizes, outs, RANK, AXES, ASKED)
            share, winner, r = _read(offset, seen, g, winners, reference, FORM)
            if DIVISOR == -1:
                share = _divided(number, share.to(SLOPE), coords, col, sizes, outs, gx, KIND, RANK, AXES, ASKED)
            sum, error = part_of(sum, error, cells, place, seen, share, winner, r, KIND, FORM, SLOPE, ERROR, False)
    sum = finished(sum, error, cells, KIND, DIVISOR, FORM, ERROR)
    if DIVISOR == 0:
        sum = _quotient(sum.to(tl.float64), all_cells)
    found = tl.broadcast_to(rounded(sum, gx.dtype), [ROWS, COLS])
    tl.store(gx + at, found, mask=inside)


@triton.jit
def _quotient(share, n):
    """A gradient by a number of cells, which is 0 for windows that are not there."""
    by = tl.maximum(n, 1).to(share.dtype) + tl.zeros_like(share)
    return share / by if share.dtype == tl.float64 else tl.div_rn(share, by)


@triton.jit
def _divided(
    number, share, coords, col, sizes, outs, gx,
    KIND: tl.constexpr, RANK: tl.constexpr, AXES: tl.constexpr, ASKED: tl.constexpr,
):  # fmt: skip
    """The gradients of one of the windows over each cell by how many cells count there, along one axis after the other.

    A share that has more bits than the gradient is multiplied by the inverse of each number: these are found once for
    a row or a column, and a division takes ten times as long.
    """
    n = 1
    for axis in tl.static_range(RANK):
        i = col if axis == RANK - 1 else coords[axis]
        o, _, _ = _window(i, _number(number, ASKED, axis), True, sizes[axis], outs[axis], AXES, axis, ASKED[axis][0])
        real, counted = cells_along(o, sizes[axis], outs[axis], AXES, axis)
        count = counted if KIND[OPTION] == "counted" else real
        if gx.dtype.element_ty == tl.float64:
            n = n * count
        elif AXES[axis][KERNEL] != 1:
            share = share * _inverse(tl.maximum(count, 1), share.dtype)
    return _quotient(share, n) if gx.dtype.element_ty == tl.float64 else share


@triton.jit
def _inverse(n, dtype: tl.constexpr):
    """One by n: as a double all but its last bits are right, which takes less than a tenth of a division of doubles."""
    inverse = 1.0 / n.to(tl.float32)
    if dtype == tl.float64:
        inverse = inverse.to(tl.float64)
        inverse = inverse * (2.0 - n.to(tl.float64) * inverse)
    return inverse


@triton.jit
def _number(number, ASKED: tl.constexpr, axis: tl.constexpr):
    """The number along one axis of one of the windows over a cell."""
    return number // ASKED[axis][1] % ASKED[axis][0]


@triton.jit
def window_over(
    number, coords, col, seen, sizes, outs, RANK: tl.constexpr, AXES: tl.constexpr, ASKED: tl.constexpr,
):  # fmt: skip
    """One of the windows over each cell of a tile: its offset, the cell's place in it, and whether it is there."""
    offset = coords[0] * 0
    place = col * 0
    step = 1
    for axis in tl.static_range(RANK - 1, -1, -1):
        i = col if axis == RANK - 1 else coords[axis]
        o, at, seen = _window(
            i, _number(number, ASKED, axis), seen, sizes[axis], outs[axis], AXES, axis, ASKED[axis][0]
        )
        place = place + at * AXES[axis][INNER]
        offset = offset + o * step
        step = step * outs[axis]
    return offset, place, seen


@triton.jit
def _window(i, j, seen, size, out, AXES: tl.constexpr, axis: tl.constexpr, COUNT: tl.constexpr):
    """The j-th output over cell i along an axis, the cell's place in it, and whether there is such an output."""
    if AXES[axis][ADAPTIVE] == 2:
        return 0, i, seen
    elif AXES[axis][ADAPTIVE]:
        BINS: tl.constexpr = AXES[axis][ADAPTIVE]
        o = bin_quotient(bin_product(i + 1, out, BINS) + size - 1, size, BINS).to(i.dtype) - 1 - j
        first = bin_quotient(bin_product(i, out, BINS), size, BINS).to(i.dtype)
        return o, i - window_start(o, size, out, AXES, axis), seen & (o >= first)
    elif AXES[axis][KERNEL] == 1 and AXES[axis][STRIDE] == 1 and AXES[axis][LO] == 0:
        return i, i * 0, seen
    elif AXES[axis][STRIDE] == 1 and AXES[axis][KERNEL] == COUNT:
        o = i + AXES[axis][LO] - j * AXES[axis][DILATION]
        return o, i * 0 + j, seen & is_among(o, out)
    else:
        o = tl.minimum((i + AXES[axis][LO]) // AXES[axis][STRIDE], out - 1) - j
        away = i + AXES[axis][LO] - o * AXES[axis][STRIDE]
        place = away // AXES[axis][DILATION]
        seen = seen & (o >= 0) & (place < AXES[axis][KERNEL])
        if AXES[axis][DILATION] > 1:
            seen = seen & (away == place * AXES[axis][DILATION])
        return o, place, seen
