"""What kinds do with numbers: device functions that engines of every window share.

Every kind is two or three numbers a window, its state, which can be made from cells or from the states of parts of it:

    max, min            the best cell, and its place or how many cells have it
    sum, avg            the sum, and its error (float64) or its upper half (64-bit integers)
    smooth_max, lp      the shift or scale m, and the sum of exp(beta (x - m)) or of (|x| / m)^p
"""

from __future__ import annotations

import math
import os
from typing import NamedTuple

import torch
import triton
import triton.language as tl


class KindNumbers(NamedTuple):
    """What a kernel is compiled for: a kind with its numbers, and which cells are not there.

    `sums` says how sums are kept: "plain", beside their "error", or in "halves"; those of Lp also without a scale, as
    "powers" of float32, which are doubles, or as "powers of doubles"; those of SmoothMax also "anchored" at a number
    that is always finite, which is all that a value needs. `lead` says which cell a smooth kind is shifted
    or scaled by: that of "max" or "min". `worst` is beaten by every cell. `pad` is what a padded cell is: the worst, or
    0 where it counts as a cell. `skip` says what is not there: "no" cell, those that are "nan", or those of a "value".
    `skip_value` is what an output becomes that sees fewer than the `least` others, which are counted in the dtype
    `count`. These values are numbers as text: there infinities and NaN can be written into any program. Cells that are
    added up are multiplied by the `scale`, a power of two, so that sums of bfloat16 stay below what a float32 can be.
    """

    name: str
    option: str
    parameter: float
    sums: str
    rounding: str
    lead: str
    worst: str
    pad: str
    skip: str
    skip_value: str
    least: int
    count: str
    scale: float


def is_nvidia() -> bool:
    """Whether kernels run on GPUs of Nvidia's from 8.0 on, and not in Triton's interpreter, which knows none of these.

    Such a device finds the better of two numbers of 16 bits, a pair of them at once. Kernels are the same for all
    devices that are there, so an older one among them decides.
    """
    if os.environ.get("TRITON_INTERPRET", "0") == "1" or not torch.cuda.is_available() or torch.version.hip:
        return False
    return all(torch.cuda.get_device_capability(device) >= (8, 0) for device in range(torch.cuda.device_count()))


NVIDIA = tl.constexpr(is_nvidia())

#: The device has an instruction for powers of two, and none for those of e.
LOG2_E = tl.constexpr(math.log2(math.e))

#: From so many places of a tile on, each of a program's 128 threads has a pair of them.
PAIRS = tl.constexpr(256)

(NAME, OPTION, PARAMETER, SUMS, ROUNDING, LEAD, WORST, PAD, SKIP, SKIP_VALUE, LEAST, COUNT, SCALE) = (
    tl.constexpr(i) for i in range(len(KindNumbers._fields))
)


@triton.constexpr_function
def number(text):
    """The number that a text is, known when a kernel is compiled."""
    return int(text) if text.lstrip("-").isdigit() else float(text)


@triton.jit
def is_better(a, b, KIND: tl.constexpr):
    """Whether number a beats number b."""
    if KIND[LEAD] == "max":
        return a > b
    else:
        return a < b


@triton.jit
def beats(a, b, KIND: tl.constexpr):
    """Whether cell a beats b; a NaN beats every number (rule "NaN")."""
    wins = is_better(a, b, KIND)
    if a.dtype.is_floating():
        wins = wins | ((a != a) & (b == b))
    return wins


@triton.jit
def _better_of_16_bits(a, b, KIND: tl.constexpr):
    """Triton would widen both. The device does not need to, and takes them in pairs where threads have pairs."""
    ASM: tl.constexpr = ("min" if KIND[LEAD] == "min" else "max") + (
        ".NaN.bf16" if a.dtype == tl.bfloat16 else ".NaN.f16"
    )
    if a.numel >= PAIRS:
        return tl.inline_asm_elementwise(ASM + "x2 $0, $1, $2;", "=r,r,r", [a, b], a.dtype, True, 2)
    else:
        return tl.inline_asm_elementwise(ASM + " $0, $1, $2;", "=h,h,h", [a, b], a.dtype, True, 1)


@triton.jit
def larger(a, b):
    """The larger of two numbers, or NaN. Cards have no instruction for doubles, and `tl.maximum` is twenty for them."""
    if a.dtype == tl.float64:
        return tl.where((b > a) | (b != b), b, a)
    else:
        return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def smaller(a, b):
    """The smaller one, likewise."""
    if a.dtype == tl.float64:
        return tl.where((b < a) | (b != b), b, a)
    else:
        return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def better(a, b, KIND: tl.constexpr):
    """The better of two numbers, or NaN."""
    if NVIDIA and (a.dtype == tl.bfloat16 or a.dtype == tl.float16):
        return _better_of_16_bits(a, b, KIND)
    elif KIND[LEAD] == "min":
        return smaller(a, b)
    else:
        return larger(a, b)


@triton.constexpr_function
def finds_later(kind, source, compute):
    """Whether the winners of windows in which all numbers are the worst, or one is NaN, are found in a second look.

    Among floats such windows are rare. Then a cell need not be asked whether it is the first.
    """
    return source == "cells" and kind[SKIP.value] == "no" and compute.is_floating()


@triton.jit
def lacking(a, KIND: tl.constexpr, LATER: tl.constexpr):
    """Which windows have no winner yet."""
    none = a != a
    if LATER:
        none = none | (a == number(KIND[WORST]))
    return none


@triton.jit
def any_lacking(a, inside, KIND: tl.constexpr, LATER: tl.constexpr):
    """Whether there is such a window in a tile: one answer for the program."""
    return tl.max((lacking(a, KIND, LATER) & inside).to(tl.int32)) > 0


@triton.jit
def none_yet(places):
    """A place that is larger than all others."""
    return tl.full(places.shape, 2**31 - 1 if places.dtype == tl.int32 else 2**63 - 1, places.dtype)


@triton.constexpr_function
def sums_powers(kind):
    """Whether the powers of cells are added up without a scale."""
    return kind[SUMS.value] in ("powers", "powers of doubles")


@triton.jit
def is_usual(powers, CELL: tl.constexpr):
    """Whether a sum of powers is finite and, of doubles, not so small that powers may have vanished."""
    usual = powers - powers == 0
    if tl.float64 == CELL:
        usual = usual & (powers > 1e-200)
    return usual


@triton.jit
def are_equal(a, b):
    """Whether two cells tie; NaNs do."""
    equal = a == b
    if a.dtype.is_floating():
        equal = equal | ((a != a) & (b != b))
    return equal


@triton.jit
def none_there(ROWS: tl.constexpr, COLS: tl.constexpr, KIND: tl.constexpr):
    """How many cells are there before one is seen."""
    return tl.zeros([ROWS, COLS], tl.int64 if KIND[COUNT] == "int64" else tl.int32)


@triton.jit
def is_there(v, KIND: tl.constexpr):
    """Whether a cell is not one of those that are skipped."""
    if KIND[SKIP] == "nan":
        return v == v
    else:
        return v != tl.full(v.shape, number(KIND[SKIP_VALUE]), v.dtype)


@triton.jit
def rounded(v, POINTER: tl.constexpr):
    """A number as the memory at a pointer takes it. Doubles become bfloat16 by way of float32, as on the device."""
    if v.dtype == tl.float64 and POINTER.element_ty == tl.bfloat16:
        v = v.to(tl.float32)
    return v.to(POINTER.element_ty)


@triton.jit
def scaled(v, KIND: tl.constexpr):
    """A cell as it is added up."""
    return v if KIND[SCALE] == 1 else v * KIND[SCALE]


@triton.jit
def plus_cell(sum, v, KIND: tl.constexpr):
    """A sum with one cell more. To scale it on the way takes no instruction of its own."""
    if KIND[SCALE] == 1:
        return sum + v
    else:
        return tl.fma(v, tl.full(v.shape, KIND[SCALE], v.dtype), sum)


@triton.jit
def two_sum(a, b):
    """`a + b`, and what rounding took from it; that says nothing once the sum is not finite."""
    s = a + b
    part = s - a
    return s, (a - (s - part)) + (b - part)


@triton.jit
def _exp2(a):
    """2 ** a. The device is quicker if numbers below 2 ** -126 may be 0: beside 1, which is in each sum, they are."""
    if NVIDIA and a.dtype == tl.float32:
        return tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=r,r", [a], tl.float32, True, 1)
    else:
        return tl.exp2(a)


@triton.jit
def log_of_sum(b, ITEM_BITS: tl.constexpr):
    """Log b. For a result of 16 bits, the device's own approximation is good enough: its error is below 2 ** -21."""
    if NVIDIA and b.dtype == tl.float32 and ITEM_BITS == 16:
        return tl.inline_asm_elementwise("lg2.approx.ftz.f32 $0, $1;", "=r,r", [b], tl.float32, True, 1) * (1 / LOG2_E)
    else:
        return tl.log(b)


@triton.jit
def anchor(m, KIND: tl.constexpr):
    """The finite number nearest to m, if sums are anchored at it.

    Then infinite cells make sums of 0 or infinity, and their logarithm leads to the right infinity. A NaN among the
    cells makes the sum NaN.
    """
    if KIND[SUMS] == "anchored":
        LARGEST: tl.constexpr = 3.4028234663852886e38 if m.dtype == tl.float32 else 1.7976931348623157e308
        return tl.minimum(tl.maximum(m, -LARGEST), LARGEST)
    else:
        return m


@triton.jit
def shifted(v, m, KIND: tl.constexpr):
    """A cell beside the shift or scale of its window: exp(beta (v - m)), or |v| / m, where equal infinities give 1.

    Anchored at a finite m, exp(beta (v - m)) as it is.
    """
    if KIND[SUMS] == "anchored":
        return _exp2((v - m) * (KIND[PARAMETER] * LOG2_E))
    elif KIND[NAME] == "smooth_max":
        return _exp2(tl.where(v == m, 0.0, (v - m) * (KIND[PARAMETER] * LOG2_E)))
    else:
        return tl.where(tl.abs(v) == m, 1.0, tl.abs(v) / m)


@triton.jit
def power(a, P: tl.constexpr):
    """`a ** P` of numbers from 0 up."""
    if P == 0:
        return tl.zeros_like(a) + 1
    elif P == 1:
        return a
    elif P == 2:
        return a * a
    elif P == 3:
        return a * a * a
    elif P == 4:
        return a * a * (a * a)
    else:
        return tl.where(a == 0, 0.0, tl.exp(tl.log(a) * P))


@triton.jit
def root(a, P: tl.constexpr):
    if P == 1:
        return a
    elif P == 2:
        return tl.sqrt(a)
    else:
        return power(a, 1 / P)


@triton.jit
def sign_of(v):
    """-1, 0 or 1; NaN for NaN."""
    return tl.where(v > 0, 1.0, tl.where(v < 0, -1.0, v * 0))


@triton.jit
def floor_quotient(total, upper, n, KIND: tl.constexpr):
    """The sum of integers by n, rounded down, its remainder, and whether the sum is negative.

    In halves, the sum is `upper * 2**32 + total`, which may be beyond 64 bits; the quotient is not.
    """
    if KIND[SUMS] == "halves":
        upper = upper + (total >> 32)
        q, r = _floor(upper, n)
        rest = r * 4294967296 + (total & 4294967295)
        low = rest // n
        return q * 4294967296 + low, rest - low * n, upper < 0
    else:
        q, r = _floor(total, n)
        return q, r, total < 0


@triton.jit
def _floor(a, n):
    q = a // n
    r = a - q * n
    return tl.where(r < 0, q - 1, q), tl.where(r < 0, r + n, r)


@triton.jit
def rounded_mean(total, upper, n, KIND: tl.constexpr):
    """The mean of integers, rounded once (rule "Integers")."""
    q, r, negative = floor_quotient(total, upper, n, KIND)
    if KIND[ROUNDING] == "half_even":
        up = (2 * r > n) | ((2 * r == n) & (q % 2 != 0))
    elif KIND[ROUNDING] == "half_up":
        up = 2 * r >= n
    elif KIND[ROUNDING] == "half_away":
        up = (2 * r > n) | ((2 * r == n) & (negative == 0))
    elif KIND[ROUNDING] == "truncate":
        up = (r > 0) & negative
    else:
        up = r < 0
    return q + up.to(q.dtype)
