"""Bounds beside a forward pass, bounds of a network, and what is proved: each in what time.

    python -m benchmarks.verified [--quick] [--output FOLDER] [--parts speed,gaps,proofs]

Bounds and the forward pass of the same pool take turns on one thread, and the best time of each is kept. A forward pass
is half of two, one over each end of the box: one array alone may stay in a cache that both of them leave. The targets:
interval bounds at most 3 times a forward pass, affine bounds at most 12 times. The tables are written into
benchmarks/results/, as Markdown and as JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ndpool import Avg, Global, Graph, Lp, Max, Median, Min, Pool, SmoothMax, Sum, Window, set_num_threads
from ndpool.bounds import relaxations
from ndpool.prove import table

from . import lirpa
from .report import RESULTS, cpu_model

AT_MOST = {"bounds": 3.0, "linear_bounds": 12.0}
IMAGES = (8, 64, 112, 112)
QUICK = (2, 8, 32, 32)

POOLS = {
    "Max 2x2": Pool(Max(), Window((2, 2))),
    "Max 3x3 s2 p1": Pool(Max(), Window((3, 3), 2, 1)),
    "Max 3x3 s1 p1": Pool(Max(), Window((3, 3), 1, 1)),
    "Min 2x2": Pool(Min(), Window((2, 2))),
    "Max global": Pool(Max(), Global(), (2, 3)),
    "Avg 2x2": Pool(Avg(), Window((2, 2))),
    "Avg 3x3 s2 p1": Pool(Avg(), Window((3, 3), 2, 1)),
    "Sum 3x3 s1": Pool(Sum(), Window((3, 3), 1)),
    "SmoothMax 2x2": Pool(SmoothMax(1.0), Window((2, 2))),
    "Lp2 2x2": Pool(Lp(2), Window((2, 2))),
    "Lp3 3x3 s2": Pool(Lp(3), Window((3, 3), 2)),
    "Median 3x3 s2": Pool(Median(), Window((3, 3), 2)),
}


@dataclass
class Row:
    """Seconds of a forward pass, and how many times that bounds take."""

    pool: str
    dtype: str
    forward: float
    bounds: float
    linear_bounds: float


def best(works: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """The shortest time of each; they take turns."""
    found = dict.fromkeys(works, float("inf"))
    end = time.perf_counter() + seconds
    turns = 0
    while turns < 3 or time.perf_counter() < end:
        for name, work in works.items():
            start = time.perf_counter()
            work()
            found[name] = min(found[name], time.perf_counter() - start)
        turns += 1
    return found


def measured(name: str, pool: Pool, dtype: str, shape: tuple[int, ...], seconds: float) -> Row:
    rng = np.random.default_rng(0)
    lo = rng.standard_normal(shape).astype(dtype)
    hi = lo + rng.exponential(0.1, shape).astype(dtype)
    times = best(
        {
            "both ends": lambda: (pool(lo), pool(hi)),
            "bounds": lambda: pool.bounds(lo, hi),
            "linear_bounds": lambda: pool.linear_bounds(lo, hi),
        },
        seconds,
    )
    forward = times["both ends"] / 2
    return Row(name, dtype, forward, times["bounds"] / forward, times["linear_bounds"] / forward)


def speed_table(rows: list[Row]) -> str:
    lines = ["| pool | dtype | forward, ms | bounds | linear bounds |", "|---|---|---|---|---|"]
    for row in rows:
        marked = [
            f"{value:.1f} x" + ("" if value <= AT_MOST[name] else " (target missed)")
            for name, value in (("bounds", row.bounds), ("linear_bounds", row.linear_bounds))
        ]
        lines.append(f"| {row.pool} | {row.dtype} | {1e3 * row.forward:.2f} | {marked[0]} | {marked[1]} |")
    return "\n".join(lines) + "\n"


# --- a network ------------------------------------------------------------------------------------


def weights(rng: np.random.Generator) -> list[np.ndarray]:
    """Of two convolutions and two dense layers."""
    shapes = {(6, 1, 3, 3): 3, (8, 6, 3, 3): 7, (32, 32): 6, (10, 32): 6}
    return [rng.normal(size=shape) / size for shape, size in shapes.items()]


def network(weights: list[np.ndarray]) -> Any:
    """Two convolutions with max pooling after each and two dense layers, on 14 x 14 cells."""
    g = Graph()
    x = g.input((1, 1, 14, 14), name="x")
    first, second, third, fourth = (g.constant(values) for values in weights)
    h = g.max_pool2d(g.relu(g.conv(x, first)), 2)
    h = g.flatten(g.max_pool2d(g.relu(g.conv(h, second)), 2))
    return g.build(g.linear(g.relu(g.linear(h, third)), fourth))


def gaps(epsilons: tuple[float, ...]) -> list[dict[str, float]]:
    """How far apart the bounds of a network's outputs are, by intervals and by crown with each relaxation of Max.

    Beside them those of auto_LiRPA, where it is installed.
    """
    rng = np.random.default_rng(0)
    values = weights(rng)
    f, x = network(values), rng.normal(size=(1, 1, 14, 14))
    ours, rows = relaxations.linear_bounds, []
    for eps in epsilons:
        row: dict[str, float] = {"eps": eps, "ibp": _gap(f, x, eps, "ibp")}
        for upper, lower in (("constant", "lo"), ("tilin", "volume"), ("volume", "volume")):

            def chosen(pool: Any, lo: Any, hi: Any, *_: Any, u: str = upper, w: str = lower) -> Any:
                return ours(pool, lo, hi, u, w, None)

            relaxations.linear_bounds = chosen
            start = time.perf_counter()
            row[f"crown, {upper}"] = _gap(f, x, eps, "crown")
            row["seconds"] = time.perf_counter() - start
        relaxations.linear_bounds = ours
        rows.append({**row, **_gaps_of_auto_lirpa(values, x, eps)})
    return rows


def _gaps_of_auto_lirpa(values: list[np.ndarray], x: np.ndarray, eps: float) -> dict[str, float]:
    try:
        lirpa.auto_lirpa()
    except ImportError:
        return {}
    net, found = lirpa.lenet(values), {}
    for method in ("IBP", "CROWN"):
        low, high = lirpa.bounds(net, x, eps, method)
        found[f"auto_LiRPA, {method}"] = float((high - low).mean())
    return found


def _gap(f: Any, x: np.ndarray, eps: float, method: str) -> float:
    low, high = f.bounds(x - eps, x + eps, method)
    return float((high - low).mean())


def gap_table(rows: list[dict[str, float]]) -> str:
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(f"{row[name]:.3g}" for name in names) + " |" for row in rows]
    return "\n".join(lines) + "\n"


# --- all together ---------------------------------------------------------------------------------


def speed(quick: bool) -> dict[str, Any]:
    shape, seconds = (QUICK, 0.05) if quick else (IMAGES, 2.0)
    pools = list(POOLS.items())[:3] if quick else POOLS.items()
    rows = [measured(name, pool, dtype, shape, seconds) for name, pool in pools for dtype in ("float32", "float64")]
    return {"machine": cpu_model(), "shape": shape, "rows": [asdict(row) for row in rows]}


#: What is measured; each is written when it is done.
PARTS: dict[str, Callable[[bool], Any]] = {
    "speed": speed,
    "gaps": lambda quick: gaps((0.01,) if quick else (0.003, 0.01, 0.03, 0.1)),
    "proofs": lambda quick: table([Pool(Max("split"), Window((2,)))] if quick else None),
}


def report(found: dict[str, Any]) -> str:
    """The tables of what has been measured."""
    text = "# Verified\n"
    if "speed" in found:
        at, rows = found["speed"], [Row(**row) for row in found["speed"]["rows"]]
        text += f"\nOn {at['machine']}, arrays of shape {tuple(at['shape'])}, one thread:\n\n{speed_table(rows)}"
    if "gaps" in found:
        said = "The mean width of the bounds of a network with max pooling, and the seconds of `crown, volume`:"
        text += f"\n{said}\n\n{gap_table(found['gaps'])}"
    if "proofs" in found:
        text += f"\nWhat is proved, for all real inputs or over a box:\n\n{found['proofs']}"
    return text


def main(quick: bool = False, output: str | Path = RESULTS, parts: str = ",".join(PARTS)) -> dict[str, Any]:
    set_num_threads(1)
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "verified.json"
    for part in parts.split(","):
        measured_now = PARTS[part](quick)
        found = {**(json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}), part: measured_now}
        kept.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        (folder / "verified.md").write_text(report(found), encoding="utf-8")
    print(report(found))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", default=str(RESULTS))
    parser.add_argument("--parts", default=",".join(PARTS), help="Some of " + ", ".join(PARTS) + ", with commas.")
    main(**vars(parser.parse_args()))
