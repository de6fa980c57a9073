"""A page on which a pool can be tried: one HTML file without any network, which `ndpool explain --html` writes.

The page computes in the browser, by the rules of the specification. Its text is `page.html`; here the pool and the
numbers that it starts with are put into it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import as_array
from ..kind import Kind
from ..kinds import Avg, Lp, Max, Median, Min, Mode, Quantile, SmoothMax, Sum
from ..pool import Pool
from ..skipping import held
from ..windows import Adaptive, Global
from .seen import Line, lines

MOST_CELLS = 24
KINDS: tuple[type[Kind], ...] = (Max, Min, Mode, Quantile, Median, Avg, Sum, SmoothMax, Lp)


def page(pool: Pool, x: ArrayLike) -> str:
    """One HTML file: point at an output and see its window, its winner and its weights; change anything.

    `x` has one axis or two, all of them pooled, of at most 24 cells each.

    >>> from ndpool import Max, Pool, Window
    >>> page(Pool(Max(), Window((2, 2))), [[1.0, 2.0], [4.0, 3.0]]).startswith("<!DOCTYPE html>")
    True
    """
    x = as_array("x", x)
    x = x.astype(np.float64) if x.dtype.kind == "O" else x
    if x.ndim not in (1, 2) or max(x.shape, default=0) > MOST_CELLS:
        raise ValueError(f"x has shape {x.shape}; the page shows one axis or two, of at most {MOST_CELLS} cells each")
    if type(pool.kind) not in KINDS:
        known = ", ".join(kind.__name__ for kind in KINDS)
        raise TypeError(f"{pool.kind!r} is not a kind that the page knows; give one of {known}")
    pool.kind.check_dtype(x.dtype.name)
    over = lines(pool, x.shape)
    if len(over) != x.ndim:
        raise ValueError(f"{len(over)} of the {x.ndim} axes of x are pooled; the page pools all of them")
    template = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
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
        "skip": "" if pool.skip is None else _written(float(held(pool.skip, x.dtype.name))),
        "min_count": pool.min_count,
    }


def _ends(lo: int, hi: int) -> str:
    return str(lo) if lo == hi else f"{lo}:{hi}"


def _written(cell: float) -> str:
    """A number as one types it: 3, 0.5, nan, -inf."""
    return str(int(cell)) if math.isfinite(cell) and cell == int(cell) else repr(cell)
