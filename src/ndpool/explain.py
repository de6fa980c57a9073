"""What each output of a pool sees, in a form that can be drawn: for text, for pictures, and as a page of its own.

lines(pool, shape)   one `Line` for each pooled axis: the places that each output looks at
page(pool, x)        one HTML file without any network, on which the window, the kind and the numbers can be changed
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .arrays import as_array
from .kinds import Avg, Kind, SmoothMax
from .pool import Pool
from .windows import Adaptive, Axis, Global, layout

__all__ = ["Line", "divisor", "lines", "page"]


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

    >>> from ndpool import Pool, Window
    >>> pool = Pool(Avg(), Window((3,), stride=2, padding=1))
    >>> divisor(pool.kind, lines(pool, (4,)), (0,)), divisor(Avg(False), lines(pool, (4,)), (0,))
    (3, 2)
    """
    real = math.prod(line.count(i, "real") for line, i in zip(over, output, strict=True))
    counted = math.prod(line.count(i, "real", "padded") for line, i in zip(over, output, strict=True))
    if isinstance(kind, Avg):
        return kind.count(real, counted - real)
    return counted if isinstance(kind, SmoothMax) and kind.count_include_pad else real


# --- the page -------------------------------------------------------------------------------------

MOST_CELLS = 24
KINDS = ("Max", "Min", "Avg", "Sum", "SmoothMax", "Lp")


def page(pool: Pool, x: ArrayLike) -> str:
    """One HTML file: point at an output and see its window, its winner and its weights; change anything.

    `x` has one axis or two, all of them pooled, of at most 24 cells each.

    >>> from ndpool import Max, Pool, Window
    >>> page(Pool(Max(), Window((2, 2))), [[1.0, 2.0], [4.0, 3.0]]).startswith("<!DOCTYPE html>")
    True
    """
    x = as_array("x", x).astype(np.float64)
    if x.ndim not in (1, 2) or max(x.shape, default=0) > MOST_CELLS:
        raise ValueError(f"x has shape {x.shape}; the page shows one axis or two, of at most {MOST_CELLS} cells each")
    if type(pool.kind).__name__ not in KINDS:
        raise TypeError(f"{pool.kind!r} is not a kind that the page knows; give one of {', '.join(KINDS)}")
    over = lines(pool, x.shape)
    if len(over) != x.ndim:
        raise ValueError(f"{len(over)} of the {x.ndim} axes of x are pooled; the page pools all of them")
    template = resources.files(__package__).joinpath("explain.html").read_text(encoding="utf-8")
    # "<" could end the script element that holds the text.
    config = json.dumps(_config(pool, x, over)).replace("<", "\\u003c")
    return template.replace("/*CONFIG*/null", config)


def _config(pool: Pool, x: np.ndarray[Any, Any], over: Sequence[Line]) -> dict[str, Any]:
    """What the page starts with. One axis is a single row, with a kernel of 1 in a direction that is not shown."""
    kind = {"name": type(pool.kind).__name__, **asdict(pool.kind)}  # type: ignore[call-overload]
    flat = [{"kernel": 1, "stride": 1, "dilation": 1, "padding": "0", "output": 1}] if x.ndim == 1 else []
    family = {Adaptive: "adaptive", Global: "global"}.get(type(pool.window), "window")
    axes = [
        {
            "kernel": line.geometry.kernel,
            "stride": line.geometry.stride,
            "dilation": line.geometry.dilation,
            "padding": _ends(line.geometry.pad_lo, line.geometry.pad_hi),
            "output": line.geometry.output,
        }
        for line in over
    ]
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    return {
        "rank": x.ndim,
        "kind": kind,
        "family": family,
        "ceil": bool(getattr(pool.window, "ceil_mode", False)),
        "axes": flat + axes,
        "x": [[_written(float(cell)) for cell in row] for row in rows],
    }


def _ends(lo: int, hi: int) -> str:
    return str(lo) if lo == hi else f"{lo}:{hi}"


def _written(cell: float) -> str:
    """A number as one types it: 3, 0.5, nan, -inf."""
    return str(int(cell)) if math.isfinite(cell) and cell == int(cell) else repr(cell)
