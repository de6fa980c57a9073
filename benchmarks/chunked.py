"""Pools of Dask arrays beside those of the whole arrays: where do their bits differ, and by how much?

    python -m benchmarks.chunked [--problems 3000] [--seed 1]

Random arrays of normal numbers, windows and chunks. For each kind, dtype and operation: how many of the problems have a
number that differs, how many of all numbers do, and the largest difference in last places of the larger of the number
and the average size of all. The table goes into benchmarks/results/chunked.md.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np

from ndpool import Adaptive, Avg, Lp, Max, Median, Min, Mode, Pool, SmoothMax, Sum, Window

KINDS = [Max(), Max("split"), Min("all"), Median(), Mode(), Sum(), Avg(), Avg(False), Lp(1), Lp(2), Lp(3), Lp(2.5)]
KINDS += [SmoothMax(1.5), SmoothMax(-3.0, False)]
SIDES = {1: 3000, 2: 90, 3: 24}
DTYPES = ["float32", "float64", "float16"]


def window(rng: np.random.Generator, rank: int) -> Any:
    """Small windows mostly, wide ones and bins."""
    side, drawn = SIDES[rank], rng.random()
    if drawn < 0.15:
        return Adaptive(tuple(int(n) for n in rng.integers(1, side // 3, rank)))
    low, high = (6, min(40, side // 3)) if drawn < 0.25 else (1, 6)
    kernel = tuple(int(n) for n in rng.integers(low, high, rank))
    stride = tuple(int(n) for n in rng.integers(1, 5, rank))
    dilation = tuple(int(n) for n in rng.integers(1, 3, rank)) if rng.random() < 0.3 else 1
    padding = tuple(int(rng.integers(0, k // 2 + 1)) for k in kernel)
    return Window(kernel, stride, padding, dilation, bool(rng.random() < 0.3))


def chunks_of(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Up to a dozen uneven chunks along each axis."""
    found = []
    for length in shape:
        cuts = np.unique(rng.integers(1, length + 1, int(rng.integers(0, 5))))
        edges = [0, *(int(cut) for cut in cuts if cut < length), length]
        found.append(tuple(b - a for a, b in pairwise(edges)))
    return tuple(found)


def wide(pool: Pool) -> bool:
    sizes = getattr(pool.window, "kernel_size", ())
    return any(k > 5 for k in sizes)


class Counts:
    """Problems, those that differ, numbers, those that differ, and the largest difference in last places."""

    def __init__(self) -> None:
        self.problems = self.differ = self.numbers = self.other = 0
        self.places = 0.0

    def add(self, found: np.ndarray, expected: np.ndarray) -> None:
        bad = (found != expected) & ~(np.isnan(found) & np.isnan(expected))
        self.problems += 1
        self.numbers += expected.size
        if not bad.any():
            return
        self.differ += 1
        self.other += int(bad.sum())
        wide_found, wide_expected = found.astype(np.float64), expected.astype(np.float64)
        size = np.maximum(np.abs(wide_expected[bad]), np.abs(wide_expected).mean())
        eps = float(np.finfo(expected.dtype).eps)
        self.places = max(self.places, float((np.abs(wide_found[bad] - wide_expected[bad]) / (size * eps)).max()))


def measured(problems: int, seed: int) -> dict[tuple[str, str, str], Counts]:
    rng = np.random.default_rng(seed)
    counts: dict[tuple[str, str, str], Counts] = defaultdict(Counts)
    for i in range(problems):
        rank = int(rng.integers(1, 4))
        lead, last = int(rng.integers(0, 2)), int(rng.random() < 0.25)
        shape = tuple(
            int(n)
            for n in (
                *rng.integers(1, 5, lead),
                *rng.integers(SIDES[rank] // 3, SIDES[rank], rank),
                *rng.integers(2, 20, last),
            )
        )
        kind = KINDS[i % len(KINDS)]
        pool = Pool(kind, window(rng, rank), tuple(range(lead, lead + rank)))
        x = (4 * rng.standard_normal(shape)).astype(DTYPES[int(rng.integers(3))])
        if isinstance(kind, Mode):
            x = np.round(x)
        try:
            pool.output_shape(shape)
        except ValueError:
            continue
        compare(rng, pool, x, chunks_of(rng, shape), counts)
    return counts


def compare(rng: np.random.Generator, pool: Pool, x: np.ndarray, chunks: Any, counts: Any) -> None:
    lazy = da.from_array(x, chunks)
    y, linear = pool.linearize(x)
    lazy_y, lazy_linear = pool.linearize(lazy)
    t, g = (rng.standard_normal(a.shape).astype(x.dtype) for a in (x, y))
    kind = repr(pool.kind) if isinstance(pool.kind, Lp) else type(pool.kind).__name__
    name = f"{kind}{', wide windows' if wide(pool) else ''}"
    counts[name, x.dtype.name, "value"].add(lazy_y.compute(), y)
    counts[name, x.dtype.name, "push"].add(lazy_linear.push(t).compute(), linear.push(t))
    counts[name, x.dtype.name, "pull"].add(lazy_linear.pull(g).compute(), linear.pull(g))


def table(counts: dict[tuple[str, str, str], Counts], problems: int, seed: int) -> str:
    title = f"Pools of Dask arrays beside those of the whole arrays, for {problems:,} random problems (seed {seed})"
    if not any(found.differ for found in counts.values()):
        kinds = ", ".join(f"`{kind!r}`" for kind in KINDS)
        numbers = sum(found.numbers for found in counts.values())
        told = (
            f"none of {numbers:,} numbers differs. They are values, pushes and pulls in {', '.join(DTYPES)} of {kinds}."
        )
        return f"# Chunks\n\n{title}: {told} Written by `python -m benchmarks.chunked`.\n"
    lines = [
        "# Chunks",
        "",
        f"{title}: what differs, of problems and of all numbers, and by how many last places at most. A wide window "
        "has more than 5 cells along an axis. Kinds and operations that are not listed never differ. Written by "
        "`python -m benchmarks.chunked`.",
        "",
        "| kind | dtype | operation | problems | numbers that differ | last places |",
        "|---|---|---|---:|---:|---:|",
    ]
    for (name, dtype, operation), found in sorted(counts.items()):
        if found.differ:
            lines.append(
                f"| {name} | {dtype} | {operation} | {found.differ} of {found.problems} | "
                f"{found.other:,} of {found.numbers:,} | {found.places:.1f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    with dask.config.set(scheduler="synchronous"):
        found = table(measured(given.problems, given.seed), given.problems, given.seed)
    (given.output / "chunked.md").write_text(found)
    print(found)


if __name__ == "__main__":
    main()
