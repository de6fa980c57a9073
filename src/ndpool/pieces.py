"""Pieces of a pool: some of its outputs, from the cells that they see and no others.

A piece along one axis is a geometry of its own, whose numbers follow from those of the whole axis:

    cells     0 . . . a [ . . . . . . . . . . ] b . . . L
    windows           (---) (---) (---)                     outputs o0 up to, not including, o1
                          (---) (---)

Padding that these outputs do not reach is left out, and the number of outputs is said, not derived. So the last window
of `ceil_mode` counts its cells as it does in the whole.

Bins of an Adaptive depend on where they stand in the whole axis. A piece of them is a stretch of another, smaller
Adaptive, whose bins are of the same sizes there and share the same cells; what that has beside the stretch is not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd

from .plan import Plan
from .windows import Axis


@dataclass(frozen=True)
class Piece:
    """Outputs `first` up to, not including, `stop` of an axis, and the cells `begin` up to `end` that they are made of.

    `axis` is what computes them. The cells lie on it from `cell` on, and the outputs from `output` on.
    """

    first: int
    stop: int
    begin: int
    end: int
    axis: Axis
    cell: int = 0
    output: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether `axis` has these cells and outputs and no others."""
        return (self.axis.length, self.axis.output) == (self.end - self.begin, self.stop - self.first)


def piece(axis: Axis, first: int, stop: int) -> Piece:
    """The piece of an axis that has the outputs `first` up to, not including, `stop`.

    >>> found = piece(Axis(length=100, output=50, kernel=3, stride=2, pad_lo=1, pad_hi=1), 10, 20)
    >>> found.begin, found.end, found.axis
    (19, 40, Axis(length=21, output=10, kernel=3, stride=2, dilation=1, pad_lo=0, pad_hi=0, adaptive=False))
    """
    if axis.adaptive:
        return _bins(axis, first, stop)
    start = first * axis.stride - axis.pad_lo
    begin = max(0, start)
    reached = (stop - 1) * axis.stride - axis.pad_lo + axis.dilation * (axis.kernel - 1) + 1
    end = max(begin + 1, min(axis.length, reached))
    pad_hi = axis.pad_hi if end == axis.length else 0
    own = replace(axis, length=end - begin, output=stop - first, pad_lo=begin - start, pad_hi=pad_hi)
    return Piece(first, stop, begin, end, own)


def output_edges(axis: Axis, edges: Sequence[int]) -> tuple[int, ...]:
    """Where outputs are cut if the cells are cut at `edges`: each output goes with the chunk that it starts in.

    Outputs that start in the padding go with the chunk beside it. A chunk in which none starts has none.

    >>> output_edges(Axis(length=10, output=5, kernel=3, stride=2, pad_lo=1, pad_hi=1), (0, 4, 8, 10))
    (0, 3, 5)
    """
    cuts = [0]
    for edge in edges[1:-1]:
        if axis.adaptive:
            cut = -(-edge * axis.output // axis.length)
        else:
            cut = -(-(edge + axis.pad_lo) // axis.stride)
            if cut * axis.stride - axis.pad_lo >= axis.length:  # windows of padding alone need company
                continue
        if cuts[-1] < cut < axis.output:
            cuts.append(cut)
    return (*cuts, axis.output)


def outputs_over(axis: Axis, begin: int, end: int) -> tuple[int, int]:
    """The outputs that see one of the cells `begin` up to, not including, `end`; neither is the latter output.

    >>> outputs_over(Axis(length=10, output=5, kernel=3, stride=2, pad_lo=1, pad_hi=1), 4, 8)
    (2, 5)
    """
    if axis.adaptive:
        first, stop = begin * axis.output // axis.length, -(-end * axis.output // axis.length)
    else:
        reach = axis.dilation * (axis.kernel - 1)
        first = -(-(begin + axis.pad_lo - reach) // axis.stride)
        stop = -(-(end + axis.pad_lo) // axis.stride)
    first = max(0, first)
    return first, max(first, min(axis.output, stop))


def plan_of_piece(plan: Plan, pieces: Sequence[Piece], carried: Sequence[int]) -> Plan:
    """The plan of a piece: one along each pooled axis, with these lengths of all axes (those that are pooled are not
    looked at).

    Dtypes, the kind and what a winner is are those of the whole, and the order of axes is the usual one.
    """
    along = dict(zip(plan.axes, pieces, strict=True))
    shape = tuple(along[d].axis.length if d in along else length for d, length in enumerate(carried))
    outputs = tuple(along[d].axis.output if d in along else length for d, length in enumerate(carried))
    return replace(plan, shape=shape, output_shape=outputs, geometry=tuple(p.axis for p in pieces), order=None)


# --- bins -----------------------------------------------------------------------------------------


def _bins(axis: Axis, first: int, stop: int) -> Piece:
    length, output = axis.length, axis.output
    begin, end = first * length // output, -(-stop * length // output)
    cells, bins, before = _smaller_bins(length, output, first, stop)
    periods = -(-(before + stop - first) // bins)
    own = replace(axis, length=periods * cells, output=periods * bins)
    return Piece(first, stop, begin, end, own, before * cells // bins, before)


@lru_cache(4096)
def _smaller_bins(length: int, output: int, first: int, stop: int) -> tuple[int, int, int]:
    """How many cells and bins an Adaptive has whose bins from the third number on are those from `first` to `stop`.

    Bin i of the stretch starts at `floor(i a + b)` with `a = length/output` and b the fraction of `first a`. It is the
    same for every a and b that keep all these floors, and whether they are exact. The first of the fractions below that
    has such a b is taken; the last of them is a itself.

    >>> _smaller_bins(1001, 500, 100, 110)
    (23, 11, 0)
    """
    products = [i * length for i in range(first, stop + 1)]
    floors = [product // output - products[0] // output for product in products]
    exact = [product % output == 0 for product in products]
    for cells, bins in _fractions(length, output, 2 * (stop - first) + 8):
        low, high = 0, bins - 1
        for i, (floor, hit) in enumerate(zip(floors, exact, strict=True)):
            least = floor * bins - i * cells  # i a + b = floor at b = least / bins
            low = max(low, least if hit or i == 0 else least + 1)
            high = min(high, least if hit else least + bins - 1)
            if low > high:
                break
        else:
            places = (b * pow(cells, -1, bins) % bins if bins > 1 else 0 for b in range(low, min(high, low + 64) + 1))
            return cells, bins, min(places)
    raise AssertionError("the fraction itself is the last of them")


def _fractions(length: int, output: int, few: int) -> Iterator[tuple[int, int]]:
    """Fractions near `length / output` in lowest terms: all of up to `few` bins, then those on the way to it.

    The latter are its ancestors in the tree of Stern and Brocot, each simpler than the next.
    """
    common = gcd(length, output)
    length, output = length // common, output // common
    for bins in range(1, min(few, output - 1, _MOST_TRIED) + 1):
        near = bins * length // output
        for cells in (near, near + 1, near - 1, near + 2):
            if cells > 0 and gcd(cells, bins) == 1 and cells // bins <= length // output:  # no larger kernel
                yield cells, bins
    (a, b), (c, d) = (0, 1), (1, 0)
    while (a + c, b + d) != (length, output):
        if (a + c) // (b + d) <= length // output:
            yield a + c, b + d
        if (a + c) * output < length * (b + d):
            a, b = a + c, b + d
        else:
            c, d = a + c, b + d
    yield length, output


_MOST_TRIED = 1000
