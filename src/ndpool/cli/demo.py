"""`ndpool demo`: a photograph through every kind, each result proved, then timed, then drawn.

The proof: the specification computes the same values and gradients without rounding, over Fractions, or over decimals
of 40 digits where there is an exp or a root. What is shown is how far the engine's float64 is from that, in units in
the last place (ulp).
"""

from __future__ import annotations

import decimal
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from importlib import resources
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .. import spec
from .._engine import get_num_threads
from ..kind import Kind
from ..kinds import Avg, Lp, Max, Median, Min, Mode, Quantile, SmoothMax, Sum
from ..pool import Pool
from ..reprs import brief
from ..viz.demo import draw
from ..windows import Window
from .files import Array, Place, check_free, write_whole
from .frameworks import installed, title

KINDS: tuple[Kind, ...] = (
    Max(),
    Max("split"),
    Max("all"),
    Min(),
    Mode(),
    Quantile(0.1),
    Quantile(0.9),
    Median(),
    Avg(),
    Avg(count_include_pad=False),
    Sum(),
    SmoothMax(0.125),
    SmoothMax(-0.125),
    Lp(2),
)
DRAWN = tuple(kind for kind in KINDS if kind not in (Max("split"), Max("all"), Avg(count_include_pad=False)))
WINDOW = Window((5, 5), stride=4, padding=1)
PROOF_CELLS = np.s_[72:136, 176:256]  # the sun, the ridge and its shore: bright, dark, and full of ties
# beta is a power of two, so beta * x is exact for whole numbers, and the error that is left is that of exp.
DIGITS = 40
PICTURES = (".png", ".svg", ".pdf")
ENOUGH_ULPS = 4.0


def photograph() -> Array:
    """The picture that ships with the package, (240, 320, 3) bytes."""
    from PIL import Image

    with resources.files("ndpool").joinpath("data/lake.jpg").open("rb") as file, Image.open(file) as image:
        return np.asarray(image)


def run(console: Console, output: Place, force: bool) -> None:
    """The three parts, one after the other; a result that is not proved is an error at the end."""
    format_ = _format(output)
    check_free(output, force)
    start = time.perf_counter()
    photo = photograph()
    console.print(f"\n[bold]1. Pool and prove[/]: a photograph over {brief(WINDOW)}")
    console.print("   the engine in float64 against the specification without rounding\n")
    proved = _prove(console, photo[PROOF_CELLS][..., 1])
    console.print(f"\n[bold]2. Time[/]: 16 photographs in float32, 3 x 3, stride 2, {get_num_threads()} threads\n")
    console.print(_times(photo))
    write_whole(output, lambda file: draw(photo, WINDOW, DRAWN, file, format_))
    console.print("\n[bold]3. Look[/]: input, outputs, and where the gradient goes for each policy of ties")
    console.print(f"   [bold green]{escape(str(output))}[/]\n")
    console.print(f"{time.perf_counter() - start:.1f} s in all. Next: ndpool explain --help\n")
    if not proved:
        raise ValueError("a result is further from the exact one than rounding allows; the table above says which")


def _format(output: Place) -> str:
    ending = output.path.suffix.lower() if output.path else ""
    if ending not in PICTURES:
        raise ValueError(f"{output}: the picture is PNG, SVG or PDF; give a name that ends in {', '.join(PICTURES)}")
    return ending[1:]


# --- the proof ------------------------------------------------------------------------------------


def _prove(console: Console, x: Array) -> bool:
    """A table of every kind with its largest errors in y and gx; True if all are small."""
    table = Table(box=None, padding=(0, 1, 0, 3))
    for heading in ("kind", "arithmetic", "y", "gx", ""):
        table.add_column(heading, justify="left" if heading in ("kind", "arithmetic") else "right", no_wrap=True)
    good = True
    for kind in KINDS:
        exactly = not isinstance(kind, SmoothMax | Lp)
        errors = _errors(Pool(kind, WINDOW), x.astype(float), exactly)
        kind_is_good = max(errors) <= ENOUGH_ULPS
        good = good and kind_is_good
        mark = "[green]proved[/]" if kind_is_good else "[bold red]WRONG[/]"
        shown = ["exact" if error == 0 else f"{error:.2f} ulp" for error in errors]
        table.add_row(brief(kind), "Fractions" if exactly else f"{DIGITS} digits", *shown, mark)
    console.print(table)
    return good


def _errors(pool: Pool, x: Array, exactly: bool) -> tuple[float, float]:
    """How far the engine's y and gx are from those of the specification, for a random cotangent of whole numbers.

    These are positive, so that nothing cancels and an error is the engine's own.
    """
    y, pullback = pool.vjp(x)
    g = np.random.default_rng(0).integers(1, 10, y.shape).astype(float)
    as_numbers = spec.fractions if exactly else _decimals
    with decimal.localcontext(prec=DIGITS):
        numbers = as_numbers(x)
        return (
            _ulps(y, spec.forward(pool, numbers), exactly),
            _ulps(pullback(g), spec.vjp(pool, numbers, as_numbers(g)), exactly),
        )


def _decimals(x: Array) -> Array:
    return np.frompyfunc(lambda cell: Decimal(float(cell)), 1, 1)(x)  # type: ignore[no-any-return]


def _ulps(got: Array, want: Array, exactly: bool) -> float:
    """The largest error in units in the last place, of numbers of the size of 1 at least."""
    as_number: Callable[[Any], Any] = Fraction if exactly else Decimal
    errors = [
        float(abs(as_number(float(a)) - b)) / float(np.spacing(max(abs(float(a)), 1.0)))
        for a, b in zip(got.ravel(), want.ravel(), strict=True)
    ]
    return max(errors)


# --- the times ------------------------------------------------------------------------------------


def _times(photo: Array) -> Table:
    """Max and Avg by ndpool, NumPy and every framework that is installed."""
    x = np.ascontiguousarray(np.broadcast_to(np.moveaxis(photo, -1, 0).astype(np.float32), (16, 3, *photo.shape[:2])))
    window = Window((3, 3), stride=2, padding=1)
    pools = [Pool(Max(), window), Pool(Avg(), window)]
    rows = {name: [best(work) if work else None for work in works] for name, works in _contenders(pools, x)}
    table = Table(box=None, padding=(0, 1, 0, 3))
    table.add_column("")
    for pool in pools:
        table.add_column(type(pool.kind).__name__, justify="right")
        table.add_column("", justify="right")
    for name, times in rows.items():
        cells = []
        for ours, theirs in zip(rows["ndpool"], times, strict=True):
            cells += (
                ["-", ""] if theirs is None else [f"{theirs * 1e3:.2f} ms", _times_as_long(name, theirs, ours or 1)]
            )
        table.add_row(name, *cells)
    return table


def _times_as_long(name: str, theirs: float, ours: float) -> str:
    return "" if name == "ndpool" else f"{theirs / ours:.1f} x"


def _contenders(pools: list[Pool], x: Array) -> Iterator[tuple[str, list[Callable[[], Any] | None]]]:
    yield "ndpool", [lambda pool=pool: pool(x) for pool in pools]  # type: ignore[misc]
    yield f"NumPy {np.__version__}", [lambda: _by_numpy(x, np.max, -np.inf), lambda: _by_numpy(x, np.mean, 0.0)]
    for framework in installed():
        works: list[Callable[[], Any] | None] = []
        for pool in pools:
            function = framework.pooling(pool, x)
            works.append(framework.forward(function, x) if function else None)
        yield title(framework), works


def _by_numpy(x: Array, reduce: Callable[..., Any], fill: float) -> Array:
    """The same by NumPy alone: a view of all windows, reduced."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=fill)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    result: Array = reduce(windows, axis=(-2, -1))
    return result


def best(work: Callable[[], Any], budget_s: float = 0.25) -> float:
    """The shortest time of a few runs, after one that does not count."""
    work()
    times: list[float] = []
    while sum(times) < budget_s and len(times) < 50:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
