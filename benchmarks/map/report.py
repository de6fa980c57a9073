"""What is said of the map: the quantiles of each measure beside its goals, and the worst pools of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..report import duration, table
from .measures import BOUNDS, MEASURES, PLACES, WORDS, Goal, Measure, Record, against_torch

WORST = 20
NAMES = {0.0: "worst", 0.01: "1 %", 0.05: "5 %", 0.25: "25 %", 0.5: "median", 0.95: "95 %", 1.0: "worst"}


def figure(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def goal_words(goal: Goal, values: list[float]) -> str:
    sign = "≥" if goal.bound == "at least" else "≤"
    return f"{NAMES[goal.quantile]} {sign} {goal.value:g}: {'met' if goal.met(values) else 'missed'}"


def quantile_rows(records: list[Record]) -> list[list[str]]:
    """For each measure: how many pools have it, its quantiles, and whether its goals are met."""
    rows = []
    for measure in (*MEASURES, *BOUNDS):
        if values := measure.values(records):
            found = [f"{NAMES[q]} {figure(float(np.quantile(values, q)))}" for q in measure.quantiles]
            goals = [goal_words(goal, values) for goal in measure.goals]
            rows.append([measure.title, str(len(values)), ", ".join(found), "; ".join(goals)])
    return rows


def slower_words(records: list[Record]) -> str:
    parts = []
    for on, place in PLACES.items():
        for mode, words in WORDS.items():
            values = [value for record in records if (value := against_torch(mode, on)(record)) is not None]
            if values:
                parts.append(f"{sum(value < 1 for value in values)} of {len(values)} {words} on {place}")
    return f"Slower than PyTorch: {', '.join(parts)}." if parts else "PyTorch has none of these pools."


def worst_rows(measure: Measure, records: list[Record], number: int) -> list[list[str]]:
    rows = []
    for record in measure.worst(records, number):
        seconds, mode = record["seconds"], measure.mode
        ours = seconds[measure.ours]
        other = seconds[f"{mode} torch"] if measure.least_is_worst else record["limits"][mode]
        value = measure.value(record) or 0.0
        rows.append([figure(value), duration(ours), duration(other), record["paths"][mode], record["name"]])
    return rows


def worst_header(measure: Measure) -> list[str]:
    return ["ratio", "ndpool", "PyTorch" if measure.least_is_worst else "limit", "way", "pool"]


def text(records: list[Record]) -> str:
    """For a terminal."""
    lines = [f"{len(records)} pools. {slower_words(records)}", ""]
    for title, number, found, goals in quantile_rows(records):
        lines += [f"{title} ({number} pools)", f"    {found}", *([f"    {goals}"] if goals else [])]
    for measure in MEASURES:
        if rows := worst_rows(measure, records, WORST):
            lines += ["", f"{measure.title}: the worst"]
            lines += ["  {:>6} {:>9} {:>9}  {:18} {}".format(*row) for row in (worst_header(measure), *rows)]
    return "\n".join(lines)


EXPLANATION = """\
Each point is a pool drawn at random: kind, dtype, number of axes, layout, window and size. Its result was checked.
Then ndpool, PyTorch (where it has the pool, on tensors that lie in memory in the same way) and a copy of the input
took turns. ndpool is called on tensors, where forward + VJP are autograd's as PyTorch's are, and on arrays, with
`out=` and `pullback(g, out=gx)`. The memory's limit is the time in which the bytes would be moved at the speed of the
copy: x and y; with VJP also g, gx and what the derivative keeps. Where x is every second number of an array, all of
the array counts. The limit is compared with arrays of 4 MB and more. There, a bare loop takes its turns too, where it
takes longer: it moves the same bytes, merges lines in the nearest cache as often as such windows need at least, and
takes the exponentials or squares of the kind. No more than that can be asked for, and where the loop is beyond a
target, so is the pool. The last lines of the table have PyTorch's time over that limit, and over a bare call: a
function in Python that returns tensors made before. No engine behind Python can do better on tensors than these lines.

![Ratios of times for pools drawn at random](map-light.svg#only-light)
![Ratios of times for pools drawn at random](map-dark.svg#only-dark)
"""


def markdown(everything: dict[str, Any]) -> str:
    """A page, whose first line is its title."""
    records, about = everything["records"], everything["machine"]
    versions = ", ".join(f"{name} {about['versions'][name]}" for name in ("ndpool", "torch", "numpy"))
    threads = "1 thread" if about["threads"] == 1 else f"{about['threads']} threads"
    lines = ["# The map\n", f"`{about['command']}` on {about['cpu']}, {threads}; {versions}.\n", EXPLANATION]
    lines += [f"{len(records)} pools. {slower_words(records)}\n"]
    lines += [table(["measure", "pools", "distribution", "targets"], quantile_rows(records))]
    for measure in MEASURES:
        if rows := worst_rows(measure, records, 5):
            lines += [f"{measure.title}: the worst\n", table(worst_header(measure), rows)]
    return "\n".join(lines)


def comparison(new: list[Record], old: list[Record]) -> str:
    """How the times of the same pools have changed since another run, in quantiles of new / old."""
    before = {record["name"]: record for record in old}
    lines = []
    for name in ("forward tensor", "vjp tensor", "forward", "vjp"):
        both = [
            (record["seconds"][name] / before[record["name"]]["seconds"][name], record["name"])
            for record in new
            if record["name"] in before and name in record["seconds"] and name in before[record["name"]]["seconds"]
        ]
        if both:
            ratios = [ratio for ratio, _ in both]
            found = ", ".join(
                f"{NAMES[q] if 0 < q < 1 else q} {np.quantile(ratios, q):.2f}" for q in (0, 0.05, 0.5, 0.95, 1)
            )
            lines += [f"{name}, new / old of {len(both)} pools: {found}"]
            lines += [f"    {ratio:.2f}  {pool}" for ratio, pool in sorted(both, reverse=True)[:5]]
    return "\n".join(lines) or "No pool is in both runs."
