"""What each output of a pool sees: for every pooled axis, the places that an output looks at and what stands there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..kind import Kind
from ..kinds import Avg, SmoothMax
from ..pool import Pool
from ..windows import Axis, layout


@dataclass(frozen=True)
class Line:
    """One pooled axis: `axis` is its number in the array, `geometry` the window along it.

    A place from 0 to length-1 is a real cell. One below 0, or up to `pad_hi` after the end, is padding. One beyond
    that, which only `ceil_mode` reaches, is nothing: it never counts.
    """

    axis: int
    geometry: Axis

    def places(self, output: int) -> list[int]:
        """Every place that an output looks at, in order.

        >>> from ndpool import Max, Pool, Window
        >>> (line,) = lines(Pool(Max(), Window((3,), stride=2, padding=1)), (4,))
        >>> line.places(0), line.places(1)
        ([-1, 0, 1], [1, 2, 3])
        """
        a = self.geometry
        if a.adaptive:
            return list(range(output * a.length // a.output, -(-(output + 1) * a.length // a.output)))
        start = output * a.stride - a.pad_lo
        return list(range(start, start + a.kernel * a.dilation, a.dilation))

    def state(self, place: int) -> str:
        """What stands at a place: "real", "padded" or "beyond"."""
        if 0 <= place < self.geometry.length:
            return "real"
        return "padded" if place < self.geometry.length + self.geometry.pad_hi else "beyond"

    def count(self, output: int, *states: str) -> int:
        """How many places of these states an output looks at."""
        return sum(self.state(place) in states for place in self.places(output))

    def reach(self) -> range:
        """From the first place that is padded or seen to the last."""
        a = self.geometry
        last = max(max(self.places(output)) for output in range(a.output))
        return range(-a.pad_lo, max(a.length + a.pad_hi, last + 1))

    def unseen(self) -> list[int]:
        """The real cells that no output sees.

        >>> from ndpool import Max, Pool, Window
        >>> lines(Pool(Max(), Window((2,))), (5,))[0].unseen()
        [4]
        """
        seen = {place for output in range(self.geometry.output) for place in self.places(output)}
        return [place for place in range(self.geometry.length) if place not in seen]


def lines(pool: Pool, shape: Sequence[int]) -> list[Line]:
    """The pooled axes of an array of this shape, in the array's order; a shape that does not fit is a ValueError."""
    pool.output_shape(shape)
    found = layout(pool.window, pool.axes, tuple(shape), None)
    return [Line(axis, geometry) for axis, geometry in zip(found.axes, found.geometry, strict=True)]


def divisor(kind: Kind, over: Sequence[Line], output: Sequence[int]) -> int:
    """How many cells one output counts: what Avg divides by, the terms of SmoothMax, the real cells of the others.

    >>> from ndpool import Avg, Pool, Window
    >>> pool = Pool(Avg(), Window((3,), stride=2, padding=1))
    >>> divisor(pool.kind, lines(pool, (4,)), (0,)), divisor(Avg(False), lines(pool, (4,)), (0,))
    (3, 2)
    """
    real = math.prod(line.count(i, "real") for line, i in zip(over, output, strict=True))
    counted = math.prod(line.count(i, "real", "padded") for line, i in zip(over, output, strict=True))
    if isinstance(kind, Avg):
        return kind.count(real, counted - real)
    return counted if isinstance(kind, SmoothMax) and kind.count_include_pad else real
