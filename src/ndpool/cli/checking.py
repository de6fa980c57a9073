"""Random pools on random arrays: does everyone compute the same?

The engine is held against the specification on hostile numbers: ties, NaN, infinities, integers up to the ends of
their dtypes, cells that are skipped. The frameworks are held against the specification on distinct floats only, because
at ties and NaN they follow other conventions than ndpool, each its own (the documentation has them in a table).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from .. import spec
from ..kind import Kind, derivative_dtype, form_of
from ..kinds import METHODS, MODE_TIES, ROUNDINGS, TIES, Avg, Lp, Max, Median, Min, Mode, Quantile, SmoothMax, Sum
from ..making import numbers
from ..pool import Pool
from ..reprs import brief
from ..table import KINDS as TABLED
from ..windows import Adaptive, AnyWindow, Global, Window, layout
from .frameworks import Framework, title

Array = NDArray[Any]

#: Kinds with parameters that are drawn.
DRAWN: dict[type[Kind], Callable[[np.random.Generator], Kind]] = {
    Max: lambda rng: Max(str(rng.choice(TIES))),
    Min: lambda rng: Min(str(rng.choice(TIES))),
    Mode: lambda rng: Mode(str(rng.choice(MODE_TIES))),
    Quantile: lambda rng: Quantile(float(rng.choice([0.0, 0.1, 0.25, 0.5, 0.9, 1.0])), str(rng.choice(METHODS))),
    Median: lambda rng: Median(),
    Avg: lambda rng: _average(rng),
    Sum: lambda rng: Sum(),
    SmoothMax: lambda rng: SmoothMax(float(rng.choice([-2.0, 0.5, 3.0])), bool(rng.integers(2))),
    Lp: lambda rng: Lp(float(rng.choice([1, 2, 3, 2.5]))),
}


def _average(rng: np.random.Generator) -> Avg:
    include, sort = bool(rng.integers(2)), rng.random()
    if sort < 0.3:
        return Avg(include, rounding=str(rng.choice(list(ROUNDINGS))))
    return Avg(include, int(rng.integers(1, 9)) if sort > 0.85 else None)


def _as_in_its_example(kind: type[Kind]) -> Callable[[np.random.Generator], Kind]:
    return lambda rng: kind(*(numbers(kind) or ()))


#: These, and the others as the examples of their docstrings make them.
KINDS = (*DRAWN.values(), *(_as_in_its_example(kind) for kind in TABLED if kind not in DRAWN))

FLOATS = ("float32", "float64")
WHOLE = ("uint8", "int16", "uint32", "int64", "uint64")
EXACT_IN_FLOATS = WHOLE[:3]


@dataclass(frozen=True)
class Case:
    """One configuration with its arrays; `distinct` says that no two numbers of x are equal and all are finite."""

    number: int
    pool: Pool
    x: Array
    t: Array
    g: Array
    distinct: bool

    def __str__(self) -> str:
        hard = "ties and extremes" if self.x.dtype.kind in "iu" else "ties, NaN and infinities"
        numbers = "distinct numbers" if self.distinct else hard
        return f"#{self.number}: {brief(self.pool)} on {self.x.dtype} {self.x.shape}, {numbers}"


def cases(count: int, seed: int) -> Iterator[Case]:
    """The configurations of a seed, one after the other: number k is the same however many are asked for."""
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        pool, shape = _pool(rng)
        distinct = number % 2 == 0
        rare = 0.1 if distinct else 0.35  # what no framework has
        whole = getattr(pool.kind, "rounding", None) is not None or rng.random() < rare
        dtype = np.dtype(rng.choice(_dtypes(pool.kind, distinct) if whole else FLOATS))
        x = (_distinct if distinct else _integers if whole else _hostile)(rng, shape, dtype).astype(dtype)
        pool = _skipping(rng, pool, x) if rng.random() < rare else pool
        t, g = rng.standard_normal(shape), rng.standard_normal(pool.output_shape(shape))
        along = derivative_dtype(dtype)
        yield Case(number, pool, x, t.astype(along), g.astype(along), distinct)


def _dtypes(kind: Kind, distinct: bool) -> tuple[str, ...]:
    """Integers that can be that many distinct numbers, and that are not rounded before the kind computes with them."""
    form = form_of(kind)
    known = EXACT_IN_FLOATS if form is None or form.in_floats else WHOLE
    return known[1:] if distinct else known


def _pool(rng: np.random.Generator) -> tuple[Pool, tuple[int, ...]]:
    """Any kind over any window that fits the shape; drawn again where it does not."""
    while True:
        rank = int(rng.integers(1, 4))
        shape = (
            int(rng.integers(1, 3)),
            int(rng.integers(1, 3)),
            *map(int, rng.integers(1, (24, 9, 6)[rank - 1], rank)),
        )
        kind = KINDS[rng.integers(len(KINDS))](rng)
        window = _plain_window(rng, rank) if rng.random() < 0.5 else _window(rng, rank)
        pool = Pool(kind, window, tuple(range(-rank, 0)))
        try:
            pool.output_shape(shape)
        except ValueError:
            continue
        return pool, shape


def _plain_window(rng: np.random.Generator, rank: int) -> Window:
    """What every framework has: at most half a kernel of padding, the same at both ends."""
    kernel = rng.integers(1, 4, rank)
    padding = [int(rng.integers(0, k // 2 + 1)) for k in kernel]
    return Window([int(k) for k in kernel], [int(s) for s in rng.integers(1, 4, rank)], padding)


def _window(rng: np.random.Generator, rank: int) -> AnyWindow:
    def each(low: int, high: int) -> list[int]:
        return [int(n) for n in rng.integers(low, high + 1, rank)]

    family = rng.random()
    if family < 0.1:
        return Global()
    if family < 0.25:
        return Adaptive(each(1, 5))
    padding: Any = (0, each(0, 1), list(zip(each(0, 2), each(0, 2), strict=True)), "same", "same_lower")[
        rng.integers(5)
    ]
    dilation = each(1, 2) if rng.random() < 0.3 else 1
    return Window(each(1, 4), each(1, 3), padding, dilation, bool(rng.integers(2)))


def _skipping(rng: np.random.Generator, pool: Pool, x: Array) -> Pool:
    """The same pool, which skips NaN or one of the numbers of `x`; NaNs are put there for it to find."""
    skip: Any = x.flat[rng.integers(x.size)]
    if x.dtype.kind == "f" and rng.random() < 0.7:
        skip = math.nan
        x[rng.random(x.shape) < 0.3] = skip
    cells = math.prod(axis.kernel for axis in layout(pool.window, pool.axes, x.shape, None).geometry)
    least = 1 if pool.kind.needs_one_there else 0
    return Pool(pool.kind, pool.window, pool.axes, skip, int(rng.integers(least, min(cells, 4) + 1)))


def _distinct(rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    cells = int(np.prod(shape))
    numbers = rng.permutation(cells).reshape(shape)
    return numbers if dtype.kind in "iu" else (numbers - cells / 2 + 0.25) / 8


def _integers(rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Few numbers, with many ties, around 0 or at an end of the dtype."""
    ends = np.iinfo(dtype)
    start = int(rng.choice(np.array([ends.min, max(ends.min, -2), ends.max - 4], dtype=object)))
    return np.array([start + int(step) for step in rng.integers(0, 5, int(np.prod(shape)))], dtype).reshape(shape)


def _hostile(rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    x = rng.integers(-2, 3, shape).astype(float)
    if rng.random() < 0.5:
        special = rng.random(shape)
        x[special < 0.06] = np.nan
        x[special > 0.95] = np.inf
        x[(special > 0.90) & (special < 0.95)] = -np.inf
    return x


@dataclass
class Tally:
    """How one contender did against the specification, in each of three results."""

    name: str
    agreed: dict[str, int] = field(default_factory=lambda: {"y": 0, "dy": 0, "gx": 0})
    faults: list[str] = field(default_factory=list)
    not_offered: int = 0
    largest: float = 0.0

    def compare(self, case: Case, what: str, got: Array, want: Array) -> None:
        error = difference(got, want)
        tolerance = 2e-5 if case.x.dtype == np.float32 else 1e-11
        if error <= tolerance:
            self.agreed[what] += 1
            self.largest = max(self.largest, error)
        else:
            self.faults.append(f"{self.name}: {what} is off by {error:.3g} in {case}")


def difference(got: Array, want: Array) -> float:
    """The largest difference, relative for floats above 1; infinite where shapes, NaNs or infinities differ."""
    if got.shape != want.shape:
        return float("inf")
    if got.dtype.kind in "iu" and want.dtype.kind in "iu":  # a float has not all of 64 bits
        return float(max((abs(int(a) - int(b)) for a, b in zip(got.flat, want.flat, strict=True)), default=0))
    got, want = got.astype(float), want.astype(float)
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
        return float("inf")
    errors = np.abs(got[finite] - want[finite]) / np.maximum(1, np.abs(want[finite]))
    return float(errors.max(initial=0))


def run(count: int, seed: int, frameworks: Sequence[Framework], step: Callable[[], None]) -> list[Tally]:
    """The tallies of the engine and of each framework; `step` is called after every configuration."""
    engine, others = Tally("engine"), [(framework, Tally(title(framework))) for framework in frameworks]
    for case in cases(count, seed):
        with np.errstate(all="ignore"):
            y, dy = spec.jvp(case.pool, case.x, case.t)
            gx = spec.vjp(case.pool, case.x, case.g)
            _check_engine(engine, case, y, dy, gx)
            for framework, tally in others:
                _check_framework(framework, tally, case, y, gx)
        step()
    return [engine, *(tally for _, tally in others)]


def _check_engine(tally: Tally, case: Case, y: Array, dy: Array, gx: Array) -> None:
    got_y, got_dy = case.pool.jvp(case.x, case.t)
    tally.compare(case, "y", case.pool(case.x), y)
    tally.compare(case, "dy", got_dy, dy)
    tally.compare(case, "gx", case.pool.vjp(case.x)[1](case.g), gx)
    if difference(got_y, case.pool(case.x)) != 0:
        tally.faults.append(f"engine: y beside dy differs from y alone in {case}")


def _check_framework(framework: Framework, tally: Tally, case: Case, y: Array, gx: Array) -> None:
    function = None
    if case.distinct and case.x.dtype.kind == "f":
        try:
            function = framework.pooling(case.pool, case.x)
            got = framework.forward(function, case.x)() if function else None
        except Exception:  # each refuses what it cannot do in its own words and types
            function = None
    if function is None or got is None:
        tally.not_offered += 1
        return
    tally.compare(case, "y", got, y)
    pulled = framework.pull(function, case.x, case.g)
    if pulled is not None:
        tally.compare(case, "gx", pulled, gx)


def table(tallies: Sequence[Tally], count: int, seed: int) -> Table:
    """The tallies for people."""
    result = Table(title=f"{count} configurations of seed {seed}, against the specification", title_justify="left")
    result.add_column("", no_wrap=True)
    for heading in ("y", "JVP", "VJP", "not compared", "largest error", "disagree"):
        result.add_column(heading, justify="right")
    for tally in tallies:
        agreed = [str(number) if number else "-" for number in tally.agreed.values()]
        verdict = f"[bold red]{len(tally.faults)}[/]" if tally.faults else "[green]none[/]"
        result.add_row(tally.name, *agreed, str(tally.not_offered or "-"), f"{tally.largest:.1e}", verdict)
    return result
