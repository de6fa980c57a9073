"""What was measured, in words: the report is made anew from all that `gpu.json` holds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from .overhead import GOAL

CONTENDERS = ("ndpool", "PyTorch", "compiled PyTorch")


def row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def table(columns: Iterable[str], rows: Iterable[str]) -> list[str]:
    columns = list(columns)
    return [row(*columns), "|" + "---|" * len(columns), *rows, ""]


# --- the table of pools ---------------------------------------------------------------------------


def share(record: dict[str, Any], contender: str, copy: float) -> float | None:
    """The contender's speed as a share of the copy's."""
    seconds = record["seconds"].get(contender)
    return record["bytes"] / seconds / copy if seconds else None


def times_as_fast(record: dict[str, Any], contender: str) -> float | None:
    mine, theirs = record["seconds"].get("ndpool"), record["seconds"].get(contender)
    return theirs / mine if mine and theirs else None


def missed(record: dict[str, Any], copy: float) -> list[str]:
    """What of the goal is not reached."""
    goal, found = record["goal"], []
    reached = {
        "share": share(record, "ndpool", copy),
        "eager": times_as_fast(record, "PyTorch"),
        "compiled": times_as_fast(record, "compiled PyTorch"),
    }
    for name, value in reached.items():
        if goal[name] and value is not None and value < goal[name]:
            found.append(f"{name} {value:.2f} < {goal[name]:.2f}")
    return found if reached["share"] is not None else ["ndpool failed"]


def _number(value: float | None, unit: str = "") -> str:
    return "—" if value is None else f"{value:.2f}{unit}"


def line(record: dict[str, Any], copy: float) -> str:
    shares = [_number(share(record, name, copy)) for name in CONTENDERS]
    ratios = [_number(times_as_fast(record, name), " x") for name in CONTENDERS[1:]]
    short = missed(record, copy)
    met = "; ".join(short) if short else ("met" if any(record["goal"].values()) else "—")
    return row(record["work"], record["operation"], *shares, *ratios, met)


def works(records: list[dict[str, Any]], copy: float) -> list[str]:
    met = sum(not missed(record, copy) for record in records)
    head = [
        f"A copy moves {copy / 1e12:.2f} TB/s, reads and writes counted. The shares are of that speed, for the bytes "
        "that the work has to move: x and y, the winners, and what the derivative keeps. The last columns say how many "
        f"times as fast as PyTorch and compiled PyTorch ndpool is. {met} of {len(records)} works meet their target.\n"
    ]
    shares = [f"share: {name}" for name in CONTENDERS]
    columns = ["pool", "work", *shares, "x PyTorch", "x compiled PyTorch", "target"]
    return [*head, *table(columns, (line(record, copy) for record in records))]


# --- the others -----------------------------------------------------------------------------------


def random_pools(records: list[dict[str, Any]], seed: int) -> list[str]:
    lines = ["## Pools drawn at random\n"]
    failed = [f"{r['pool']}, {r['operation']}: {r['failed']}\n" for r in records if "failed" in r]
    records = [r for r in records if "failed" not in r]
    for operation in ("forward", "VJP"):
        chosen = sorted((r for r in records if r["operation"] == operation), key=_gain)
        if not chosen:
            continue
        gains = [_gain(r) for r in chosen]
        copies = [r["seconds"]["PyTorch"] / r["seconds"]["copy"] for r in chosen]
        slower = sum(gain < 0.97 for gain in gains)
        lines.append(
            f"{operation}: {len(gains)} pools (seed {seed}), median {statistics.median(gains):.2f} x as fast as "
            f"PyTorch, where a copy of the bytes that have to be moved is {statistics.median(copies):.2f} x as fast; "
            f"{slower} slower than PyTorch by more than 3%. The worst:\n"
        )
        lines += table(["x PyTorch", "ndpool", "PyTorch", "copy", "pool"], map(_random_row, chosen[: max(5, slower)]))
    wrong = [r["pool"] for r in records if not r["agree"]]
    return [*lines, *(f"Differs from PyTorch: {name}\n" for name in wrong), *failed]


def _gain(record: dict[str, Any]) -> float:
    return float(record["seconds"]["PyTorch"] / record["seconds"]["ndpool"])


def _random_row(record: dict[str, Any]) -> str:
    times = [f"{record['seconds'][name] * 1e6:.1f} us" for name in ("ndpool", "PyTorch", "copy")]
    return row(f"{_gain(record):.2f}", *times, record["pool"])


def training(records: list[dict[str, Any]]) -> list[str]:
    def cells(record: dict[str, Any]) -> str:
        seconds = record["seconds"]
        times = [f"{seconds[name] * 1e3:.2f} ms" for name in ("PyTorch", "ndpool")]
        gain = f"{seconds['PyTorch'] / seconds['ndpool']:.2f} x"
        return row(record["network"], record["numbers"], record["order"], *times, gain)

    columns = ["network", "numbers", "order", "PyTorch", "after `convert`", "gain"]
    return ["## A training step\n", *table(columns, map(cells, records))]


def overhead(records: list[dict[str, Any]]) -> list[str]:
    ratios = [r["seconds"]["ndpool"] / r["seconds"]["PyTorch"] for r in records]
    within = sum(ratio <= GOAL for ratio in ratios)

    def cells(record: dict[str, Any], ratio: float) -> str:
        theirs, mine = (f"{record['seconds'][name] * 1e6:.1f}" for name in ("PyTorch", "ndpool"))
        return row(record["call"], record["order"], record["work"], theirs, mine, f"{ratio:.2f}")

    return [
        "## Calls on tiny tensors\n",
        f"Microseconds of the host on a tensor of shape (1, 4, 8, 8). The target is {GOAL:g} x PyTorch's time at most; "
        f"{within} of {len(records)} calls meet it, and the worst takes {max(ratios):.2f} x.\n",
        *table(["pool", "in memory", "work", "PyTorch", "ndpool", "ratio"], map(cells, records, ratios)),
    ]


#: What the parts of the page are called where it says how they were measured.
SECTIONS = {"works": "the table of pools", "map": "the random pools", "training": "training steps", "overhead": "calls"}


def _runs(runs: dict[str, str]) -> dict[str, list[str]]:
    """The runs that measured the parts of the page, and which ones each of them did."""
    found: dict[str, list[str]] = {}
    for section, name in SECTIONS.items():
        if section in runs:
            found.setdefault(runs[section], []).append(name)
    return found


def report(results: dict[str, Any]) -> str:
    lines = ["# Pools on the GPU\n", f"{results['device']}; PyTorch {results['torch']}, Triton {results['triton']}.\n"]
    for run, sections in _runs(results.get("runs", {})).items():
        lines.append(f"{run}: {', '.join(sections)}.\n")
    if "works" in results:
        lines += works(results["works"], results["copy"])
    if results.get("map"):
        lines += random_pools(results["map"], results["seed"])
    if "training" in results:
        lines += training(results["training"])
    if "overhead" in results:
        lines += overhead(results["overhead"])
    return "\n".join(lines)
