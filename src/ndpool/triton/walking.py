"""The kernel that walks over the cells of windows: an output in each place of a tile, its cells one after the other.

Its source is cells, or the states that another walk has made of parts of the windows. Its sink is outputs, states for
another walk, or slopes, which are what the way back asks of a window. So one kernel serves windows over several axes at
once, windows that go axis by axis, and long windows that are cut into parts.

    source   cells    x, and the tangent t             states   a, b, d, n
    sink     outputs  y, winners or nothing, dy        states   a, b, d, n        slopes   the reference r, the share h
"""

from __future__ import annotations

import triton
import triton.language as tl

from .arithmetic import (
    LEAST,
    NAME,
    OPTION,
    PAD,
    PARAMETER,
    ROUNDING,
    SCALE,
    SKIP,
    SKIP_VALUE,
    SUMS,
    WORST,
    anchor,
    any_lacking,
    are_equal,
    better,
    finds_later,
    is_better,
    is_there,
    is_usual,
    lacking,
    log_of_sum,
    none_there,
    none_yet,
    number,
    plus_cell,
    power,
    root,
    rounded,
    rounded_mean,
    scaled,
    shifted,
    sign_of,
    sums_powers,
    two_sum,
)
from .chaining import wait_for_the_one_before
from .windows import aligned, below, cell, cells_seen, found_anew, tile_along_axes, tile_of_program, widened

#: How many cells of a long loop are on their way from memory at once.
LOADS_AT_ONCE = tl.constexpr(8)


@triton.jit
def walk(
    a_in, b_in, d_in, n_in, a_out, b_out, d_out, n_out, rows, cells, scale, all_cells, zero,
    s0, s1, s2, s3, s4, s5, s6, s7,
    o0, o1, o2, o3, o4, o5, o6, o7,
    f0, f1, f2, f3, f4, f5, f6, f7,
    KIND: tl.constexpr, RANK: tl.constexpr, AXES: tl.constexpr, WHOLE: tl.constexpr, CELLS: tl.constexpr,
    DIVISOR: tl.constexpr, SOURCE: tl.constexpr, SINK: tl.constexpr, TANGENT: tl.constexpr, PLACES: tl.constexpr,
    AGAIN: tl.constexpr, CLAMP: tl.constexpr, COMPUTE: tl.constexpr, SECOND: tl.constexpr, SLOPE: tl.constexpr,
    EDGE: tl.constexpr, ALIGN_OUT: tl.constexpr, CHAINED: tl.constexpr, WRAPS: tl.constexpr, WIDE: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """`AXES` and the sizes s are those of the source, o those of the sink; `WHOLE` and f those of the pool.

    Beside states that are sums of powers, `b_in` is x.

    `CELLS` is how many there are where the loop over them is unrolled, and 0 else. With `CLAMP`, for which see
    `along`, no cell needs a mask: those of padding are real ones that are seen twice.
    """
    wait_for_the_one_before(CHAINED)
    sizes = widened((s0, s1, s2, s3, s4, s5, s6, s7), WIDE)
    outs = widened((o0, o1, o2, o3, o4, o5, o6, o7), WIDE)
    first_row, first = tile_of_program(WIDE, ROWS, COLS)
    row = first_row + tl.arange(0, ROWS)[:, None]
    col = first + tl.arange(0, COLS)[None, :]
    inside = (row < rows) & below(col, outs[RANK - 1], ALIGN_OUT)
    coords = tile_along_axes(first_row, outs, RANK, WRAPS, ROWS)
    seen = below(col, outs[RANK - 1], ALIGN_OUT) if EDGE else tl.full([1, 1], True, tl.int1)

    a = tl.full([ROWS, COLS], number(KIND[WORST]), COMPUTE)
    b = tl.full([ROWS, COLS], -1 if PLACES else 0, SECOND)
    d = tl.zeros([ROWS, COLS], SLOPE)
    n = none_there(ROWS, COLS, KIND)
    if CELLS:
        for place in tl.static_range(CELLS):
            at, where, real = cell(place, coords, col, seen, sizes, outs, RANK, AXES, CLAMP)
            v = tl.load(a_in + at, mask=real, other=number(KIND[PAD]))
            a, b, d, n = look(
                a, b, d, n, v, at, real, where, scale, b_in, d_in, n_in,
                KIND, SOURCE, TANGENT, False, COMPUTE, SLOPE, place == 0,
            )  # fmt: skip
        if AGAIN or PLACES:
            best = anchor(a, KIND)
            for back in tl.static_range(CELLS):
                at, where, real = cell(CELLS - 1 - back, coords, col, seen, sizes, outs, RANK, AXES, CLAMP)
                v = tl.load(a_in + at, mask=real, other=number(KIND[PAD]))
                b, d = look_again(
                    best, b, d, v, at, real, where, scale, b_in, d_in, n_in,
                    KIND, SOURCE, TANGENT, PLACES, COMPUTE, SLOPE, "numbers",
                )  # fmt: skip
    else:
        for place in tl.range(cells, loop_unroll_factor=LOADS_AT_ONCE):
            at, where, real = cell(place, coords, col, seen, sizes, outs, RANK, AXES, CLAMP)
            v = tl.load(a_in + at, mask=real, other=number(KIND[PAD]))
            a, b, d, n = look(
                a, b, d, n, v, at, real, where, scale, b_in, d_in, n_in,
                KIND, SOURCE, TANGENT, PLACES, COMPUTE, SLOPE, False,
            )  # fmt: skip
    LATER: tl.constexpr = CELLS == 0 and finds_later(KIND, SOURCE, COMPUTE)
    if (AGAIN and CELLS == 0) or (PLACES and COMPUTE.is_floating() and any_lacking(a, inside, KIND, LATER)):
        if PLACES:
            b = tl.where(lacking(a, KIND, LATER), none_yet(b), b)
        best = anchor(a, KIND)
        again = found_anew(coords, zero, RANK)
        for left in range(cells):
            at, where, real = cell(cells - 1 - left, again, col, seen, sizes, outs, RANK, AXES, CLAMP)
            v = tl.load(a_in + at, mask=real, other=number(KIND[PAD]))
            b, d = look_again(
                best, b, d, v, at, real, where, scale, b_in, d_in, n_in,
                KIND, SOURCE, TANGENT, PLACES, COMPUTE, SLOPE, "NaNs",
            )  # fmt: skip

    if sums_powers(KIND) and SINK != "states":
        a = tl.where(b == 0, 0.0, 1.0).to(COMPUTE)  # the scale
        x = b_in if SOURCE == "states" else a_in
        usual = is_usual(b, x.dtype.element_ty) | ~inside
        if tl.min(usual.to(tl.int32)) == 0:
            # A window's bits depend on its own cells, and not on who else is in the tile.
            lengths = widened((f0, f1, f2, f3, f4, f5, f6, f7), WIDE)
            scale_a, scale_b, scale_d = _with_scale(
                x, d_in, found_anew(coords, zero, RANK), col, seen, all_cells, lengths, outs,
                KIND, RANK, WHOLE, TANGENT, COMPUTE, SECOND, SLOPE, ROWS, COLS,
            )  # fmt: skip
            a = tl.where(usual, a, scale_a)
            b = tl.where(usual, b, scale_b)
            d = tl.where(usual, d, scale_d)

    store_result(
        a, b, d, n, coords, col, aligned(row, outs[RANK - 1], ALIGN_OUT) + col, inside,
        d_in, a_out, b_out, d_out, n_out, (f0, f1, f2, f3, f4, f5, f6, f7), outs, all_cells,
        KIND, RANK, WHOLE, DIVISOR, SINK, TANGENT, PLACES, SLOPE, PLACES or AGAIN or KIND[SUMS] != "plain",
    )  # fmt: skip


@triton.jit
def _with_scale(
    x, t, coords, col, seen, cells, sizes, outs,
    KIND: tl.constexpr, RANK: tl.constexpr, AXES: tl.constexpr, TANGENT: tl.constexpr, COMPUTE: tl.constexpr,
    SECOND: tl.constexpr, SLOPE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The states of Lp beside the largest cells, for tiles with unusual sums of powers."""
    a = tl.zeros([ROWS, COLS], COMPUTE)
    for place in range(cells):
        at, where, real = cell(place, coords, col, seen, sizes, outs, RANK, AXES, False)
        v = tl.load(x + at, mask=real, other=0).to(COMPUTE)
        if KIND[SKIP] != "no":
            v = tl.where(is_there(v, KIND), v, 0.0)
        a = better(a, tl.abs(v), KIND)
    b = tl.zeros([ROWS, COLS], SECOND)
    d = tl.zeros([ROWS, COLS], SLOPE)
    for place in range(cells):
        at, where, real = cell(place, coords, col, seen, sizes, outs, RANK, AXES, False)
        v = tl.load(x + at, mask=real, other=0)
        b, d = look_again(a, b, d, v, at, real, where, 1, x, t, x, KIND, "cells", TANGENT, False, COMPUTE, SLOPE, "")
    return a, b, d


@triton.jit
def store_result(
    a, b, d, n, coords, col, out, inside, g, a_out, b_out, d_out, n_out, whole, outs, all_cells,
    KIND: tl.constexpr, RANK: tl.constexpr, WHOLE: tl.constexpr, DIVISOR: tl.constexpr,
    SINK: tl.constexpr, TANGENT: tl.constexpr, PLACES: tl.constexpr, SLOPE: tl.constexpr, SECONDS: tl.constexpr,
):  # fmt: skip
    """What the sink takes of finished states."""
    if SINK == "states":
        tl.store(a_out + out, b if sums_powers(KIND) else a, mask=inside)
        if SECONDS and not sums_powers(KIND):
            tl.store(b_out + out, b, mask=inside)
        if TANGENT:
            tl.store(d_out + out, d, mask=inside)
        if KIND[SKIP] != "no":
            tl.store(n_out + out, n, mask=inside)
    else:
        real, counted = cells_seen(coords, col, whole, outs, RANK, WHOLE)
        if KIND[SKIP] != "no":
            counted = counted - real + n
            real = n
        if SINK == "outputs":
            _store_outputs(
                a, b, d, n, real, counted, out, inside, all_cells, a_out, b_out, d_out,
                KIND, DIVISOR, TANGENT, PLACES,
            )  # fmt: skip
        else:
            share = tl.load(g + out, mask=inside, other=0).to(SLOPE)
            reference, share = slopes(a, b, n, share, real, counted, KIND, DIVISOR)
            tl.store(d_out + out, rounded(share, d_out.dtype), mask=inside)
            if KIND[NAME] == "smooth_max" or KIND[NAME] == "lp":
                tl.store(a_out + out, rounded(reference, a_out.dtype), mask=inside)


@triton.jit
def look(
    a, b, d, n, v, at, real, place, scale, b_in, d_in, n_in,
    KIND: tl.constexpr, SOURCE: tl.constexpr, TANGENT: tl.constexpr, PLACES: tl.constexpr,
    COMPUTE: tl.constexpr, SLOPE: tl.constexpr, FIRST: tl.constexpr,
):  # fmt: skip
    """The state with one cell, or one part's state, more. The `FIRST` of a sum has nothing to be added to.

    `PLACES` are kept on the way in long loops. In short ones it takes fewer registers to `look_again`.
    """
    if KIND[NAME] == "sum" or KIND[NAME] == "avg":
        if v.dtype.is_floating():
            v = v.to(COMPUTE)
        if KIND[SKIP] != "no" and SOURCE == "cells":
            real = real & is_there(v, KIND)
            v = tl.where(real, v, 0)
            n += real.to(tl.int32)
        if SOURCE == "states":
            if KIND[SUMS] == "plain":
                a += v
            else:
                a, b = _added_state(a, b, v, tl.load(b_in + at, mask=real, other=0), KIND)
            if KIND[SKIP] != "no":
                n += tl.load(n_in + at, mask=real, other=0)
        else:
            a, b = _added(a, b, v, KIND, COMPUTE, FIRST)
        if TANGENT:
            t = tl.load(d_in + at, mask=real, other=0).to(SLOPE)
            d = plus_cell(d, t, KIND) if SOURCE == "cells" else d + t
    elif sums_powers(KIND) and SOURCE == "states":
        b += v
        if KIND[SKIP] != "no":
            n += tl.load(n_in + at, mask=real, other=0)
    else:
        v = v.to(COMPUTE)
        if KIND[SKIP] != "no":
            if SOURCE == "cells":
                real = real & is_there(v, KIND)
                n += real.to(tl.int32)
            else:
                seen = tl.load(n_in + at, mask=real, other=0)
                real = real & (seen > 0)
                n += seen
            v = tl.where(real, v, number(KIND[WORST]))
        if KIND[NAME] == "lp" and SOURCE == "cells":
            if sums_powers(KIND):
                b += power(tl.abs(v), KIND[PARAMETER])
                if TANGENT:
                    t = tl.load(d_in + at, mask=real, other=0).to(SLOPE)
                    d += sign_of(v) * power(tl.abs(v), KIND[PARAMETER] - 1) * t
                return a, b, d, n
            v = tl.where(real, tl.abs(v), v)
        if PLACES:
            # The first of the best numbers stays. NaNs, and windows of the worst number, are left to `look_again`.
            place = _place_of(b, at, real, place, scale, b_in, SOURCE)
            wins = is_better(v, a, KIND)
            if not finds_later(KIND, SOURCE, COMPUTE):
                wins = wins | (b < 0)
            if SOURCE == "states":
                wins = wins | ((v == a) & (place < b))
            wins = real & wins
            b = tl.where(wins, place, b)
            if TANGENT:
                d = tl.where(wins, tl.load(d_in + at, mask=wins, other=0).to(SLOPE), d)
        a = better(a, v, KIND)
    return a, b, d, n


@triton.jit
def _place_of(b, at, real, place, scale, b_in, SOURCE: tl.constexpr):
    """The place of a cell, or of the best cell of a part, among all places of its window."""
    place = (tl.full([1, 1], scale, b.dtype) * place).to(b.dtype)
    if SOURCE == "states":
        place = place + tl.load(b_in + at, mask=real, other=0)
    return place


@triton.jit
def _added(a, b, v, KIND: tl.constexpr, COMPUTE: tl.constexpr, FIRST: tl.constexpr):
    """A sum with one cell more: beside its error, or in two halves."""
    if KIND[SUMS] == "halves":
        return a + (v & 4294967295).to(tl.int64), b + (v >> 32).to(tl.int64)
    elif FIRST:
        return scaled(v.to(COMPUTE), KIND) + tl.zeros_like(a), b
    elif KIND[SUMS] == "error":
        a, e = two_sum(a, v.to(COMPUTE))
        return a, b + e
    else:
        return plus_cell(a, v.to(COMPUTE), KIND), b


@triton.jit
def _added_state(a, b, v, w, KIND: tl.constexpr):
    if KIND[SUMS] == "error":
        a, e = two_sum(a, v)
        return a, b + e + w
    else:
        return a + v, b + w


@triton.jit
def look_again(
    a, b, d, v, at, real, place, scale, b_in, d_in, n_in,
    KIND: tl.constexpr, SOURCE: tl.constexpr, TANGENT: tl.constexpr, PLACES: tl.constexpr,
    COMPUTE: tl.constexpr, SLOPE: tl.constexpr, WINNERS: tl.constexpr,
):  # fmt: skip
    """What depends on the best cell: its place, how many there are, or the sum of what each is beside it.

    Where places are asked for, "numbers" and "NaNs" win in turns: few tiles have a NaN, or a window of the worst number
    alone, which is found with them. Of numbers, cells come from the last to the first, so that the first of several
    winners stays. Of NaNs, that with the smallest place does.
    """
    v = v.to(COMPUTE)
    if KIND[SKIP] != "no":
        if SOURCE == "cells":
            real = real & is_there(v, KIND)
        else:
            real = real & (tl.load(n_in + at, mask=real, other=0) > 0)
    if PLACES:
        place = _place_of(b, at, real, place, scale, b_in, SOURCE)
        if WINNERS == "NaNs":
            wins = real & ((v != v) | (v == a)) & (place < b)
        elif SOURCE == "states":
            wins = real & (v == a) & ((b < 0) | (place < b))  # parts may lie one above the other
        else:
            wins = real & (v == a)
        b = tl.where(wins, place, b)
        if TANGENT:
            d = tl.where(wins, tl.load(d_in + at, mask=wins, other=0).to(SLOPE), d)
        return b, d
    if SOURCE == "states":
        times = tl.load(b_in + at, mask=real, other=0)
    else:
        times = real.to(b.dtype)
    if KIND[NAME] == "max" or KIND[NAME] == "min":
        wins = real & are_equal(v, a)
        b += tl.where(wins, times, 0)
        if TANGENT:
            d += tl.where(wins, tl.load(d_in + at, mask=real, other=0).to(SLOPE), 0)
    else:
        part = shifted(v, a, KIND)
        if KIND[NAME] == "lp":
            powers = power(part, KIND[PARAMETER])
            b += tl.where(real, powers * times if SOURCE == "states" else powers, 0)
            part = power(part, KIND[PARAMETER] - 1)
            if SOURCE == "cells":
                part = part * sign_of(v)
        elif SOURCE == "cells" and KIND[SKIP] == "no" and (KIND[SUMS] == "anchored" or KIND[PAD] != KIND[WORST]):
            b += part  # of a padded cell it is 0, or counts
        else:
            b += tl.where(real, part * times if SOURCE == "states" else part, 0)
        if TANGENT:
            d += tl.where(real, part * tl.load(d_in + at, mask=real, other=0).to(SLOPE), 0)
    return b, d


@triton.jit
def _with_padding(a, b, d, pad, KIND: tl.constexpr):
    """The state of SmoothMax where padded cells are the number 0 and take their share."""
    m = tl.where(pad > 0, better(a, tl.zeros_like(a), KIND), a)
    kept = shifted(a, m, KIND)
    return m, tl.where(pad > 0, b * kept + pad * shifted(tl.zeros_like(a), m, KIND), b), tl.where(pad > 0, d * kept, d)


@triton.jit
def _divided(a, b, n, KIND: tl.constexpr, DIVISOR: tl.constexpr, SCALE: tl.constexpr):
    """A sum of floats or of integers, whose cells were scaled so, as a float, by its divisor.

    The scale is a part of the divisor: what is in between may be beyond all numbers, or so small that bits are lost.
    """
    if KIND[SUMS] == "error":
        total = tl.where(a - a == 0, a + b, a)
    elif KIND[SUMS] == "halves":
        total = b.to(tl.float64) * 4294967296.0 + a.to(tl.float64)
    elif a.dtype.is_floating():
        total = a
    else:
        total = a.to(tl.float64)
    if KIND[NAME] == "sum" or DIVISOR == 1:
        return total if SCALE == 1 else total * (1 / SCALE)
    elif DIVISOR > 0 and total.dtype == tl.float64 and a.dtype.is_floating() and KIND[SUMS] == "plain":
        return total * (1 / DIVISOR)  # of fewer bits than doubles have, so that this rounding is not seen
    elif total.dtype == tl.float64:
        return total / (DIVISOR if DIVISOR > 0 else tl.maximum(n, 1))
    elif DIVISOR > 0:
        # The quotient, and what it leaves: as good as a division, which takes ten times as long.
        BY: tl.constexpr = DIVISOR * SCALE
        q = total * (1 / BY)
        left = tl.fma(q, tl.full(q.shape, -BY, q.dtype), a)
        if KIND[SUMS] == "error":
            left = left + b
        return tl.where(q - q == 0, q + left * (1 / BY), q)
    else:
        return tl.div_rn(total, tl.maximum(n, 1).to(total.dtype) * SCALE + tl.zeros_like(total))


@triton.jit
def _store_outputs(
    a, b, d, n, real, counted, out, inside, all_cells, y, winners, dy,
    KIND: tl.constexpr, DIVISOR: tl.constexpr, TANGENT: tl.constexpr, PLACES: tl.constexpr,
):  # fmt: skip
    value = a
    count = counted if KIND[OPTION] == "counted" else real
    if KIND[NAME] == "sum" or KIND[NAME] == "avg":
        if KIND[ROUNDING] != "":
            by = tl.maximum(count, 1).to(tl.int64) + tl.zeros_like(a)
            value = rounded_mean(a, b, by, KIND)
        elif KIND[NAME] == "avg" or KIND[SUMS] == "error" or KIND[SCALE] != 1:
            value = _divided(a, b, count, KIND, DIVISOR, KIND[SCALE])
        if TANGENT and (KIND[NAME] == "avg" or KIND[SCALE] != 1):
            d = _divided(d, d * 0, count, KIND, DIVISOR, KIND[SCALE])
    elif KIND[NAME] == "smooth_max":
        if KIND[OPTION] == "counted":
            a, b, d = _with_padding(a, b, d, counted - real, KIND)
        log = log_of_sum(b, y.dtype.element_ty.primitive_bitwidth)
        if KIND[PARAMETER] > 1e-30 or KIND[PARAMETER] < -1e-30:
            value = a + log * (1 / KIND[PARAMETER])
        else:
            value = a + log / KIND[PARAMETER]  # whose reciprocal may be beyond all numbers
        d = d / b
    elif KIND[NAME] == "lp":
        norm = root(b, KIND[PARAMETER])
        value = tl.where(a == 0, 0.0, a * norm)
        d = tl.where(a == 0, 0.0, d / power(norm, KIND[PARAMETER] - 1))
    elif KIND[OPTION] == "split" and TANGENT:
        d = d / b
    if KIND[SKIP] != "no":
        few = n < KIND[LEAST]
        value = tl.where(few, tl.full(value.shape, number(KIND[SKIP_VALUE]), value.dtype), value)
        d = tl.where(few, 0, d)
        if PLACES:
            b = tl.where(few, tl.maximum(b, 0) + all_cells, b)
    tl.store(y + out, rounded(value, y.dtype), mask=inside)
    if PLACES and not TANGENT:
        tl.store(winners + out, rounded(b, winners.dtype), mask=inside)
    if TANGENT:
        tl.store(dy + out, rounded(d, dy.dtype), mask=inside)


@triton.jit
def slopes(a, b, n, g, real, counted, KIND: tl.constexpr, DIVISOR: tl.constexpr):
    """The reference r of each window, beside which a cell's part of its gradient is found, and the share h of it."""
    few = (n < KIND[LEAST]) if KIND[SKIP] != "no" else (real < 0)
    if KIND[NAME] == "avg":
        count = counted if KIND[OPTION] == "counted" else real
        g = _divided(g, g * 0, count, KIND, DIVISOR, 1)
    elif KIND[NAME] == "smooth_max":
        if KIND[OPTION] == "counted":
            a, b, _ = _with_padding(a, b, g, counted - real, KIND)
        g = g / b
        a = tl.where(few, -number(KIND[WORST]), a)
    elif KIND[NAME] == "lp":
        none = few | (a == 0)
        norm = root(b, KIND[PARAMETER])
        if KIND[SUMS] == "powers":
            # Cells need no scale, except where an infinity leaves nothing to the others.
            norm = tl.where(a - a == 0, a * norm, norm)
            a = tl.where(a - a == 0, 1.0, a)
        g = tl.where(none, 0.0, g / power(norm, KIND[PARAMETER] - 1))
        a = tl.where(none, float("inf"), a)
    elif KIND[OPTION] == "split":
        g = g / b
    return a, tl.where(few, 0, g)
