"""What is shown: the same results as a Markdown page, as JSON and as a bar chart."""

import json
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .cases import Case
from .results import Results
from .targets import CASES, THREADS_WORK, WORKS, Check
from .worker import processors

PACKAGES = (
    *("ndpool", "numpy", "ml_dtypes", "torch", "onnx", "onnxruntime", "openvino", "tensorflow", "tensorflow-cpu"),
    *("jax", "jaxlib", "opencv-python-headless", "scipy", "scikit-image", "tinybrain"),
)
COLOURS = {
    "ndpool": "#d1495b",
    "torch": "#e9a23b",
    "onnxruntime": "#00798c",
    "openvino": "#30638e",
    "tensorflow": "#7a9e3f",
    "jax": "#8e6c8a",
    "opencv": "#5c8d89",
    "scipy": "#9aa5b1",
    "skimage": "#b8a48c",
    "tinybrain": "#6b705c",
}
EXPLANATION = """\
The memory limit of a case is the time to read its inputs and write its outputs at the bandwidth of a copy of the same
size, measured in the same run with as many threads. It counts x and y; for forward+vjp also g and gx; for jvp also t
and dy. The bare loop is the time of one that reads and writes those bytes in the fastest way that we know of, and does
nothing else; a target that asks for less is beyond the hardware. Two threads are compared with one, and with two
callers side by side that have one each: what those do not gain, the machine does not have to give. A peer's
column says how many times ndpool's time it takes; — says that the peer does not define the case. Each peer's result was
compared with ndpool's before it was timed.

![Time relative to the memory limit](results.png)
"""


def machine() -> dict[str, Any]:
    """The processor, and the version of every package that takes part."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    command = " ".join(["python -m benchmarks", *sys.argv[1:]])
    return {"command": command, "cpu": cpu_model(), "processors": len(processors()), "versions": versions}


def cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def verdicts(results: Results) -> list[dict[str, str]]:
    """Every check of every case that was measured: what was claimed, what came out, whether it was met."""
    rows = []
    for work in (*WORKS, THREADS_WORK):
        for case in work.cases:
            for check in work.checks if results.record(case, 1) else ():
                value = check.measure(case, results)
                measured, verdict = "—", value
                if not isinstance(value, str):
                    measured, verdict = f"{value:.3g}{check.unit}", judged(check, case, value, results)
                row = {"work": work.title, "case": case.name, "target": check.claim}
                rows.append(row | {"measured": measured, "verdict": verdict})
    return rows


def judged(check: Check, case: Case, value: float, results: Results) -> str:
    """Met, missed, or not to be met: asking for less time than a bare loop takes."""
    if check.met(value):
        return "met"
    ours, bare = results.seconds(case), results.seconds(case, "bare")
    needed = check.needed(value, ours or 0.0)
    if bare and needed < bare and not check.of_threads:
        return f"beyond: asks for {duration(needed)}, a bare loop takes {duration(bare)}"
    return "missed"


def summary(rows: list[dict[str, str]]) -> str:
    met, missed, beyond = (sum(row["verdict"].startswith(word) for row in rows) for word in ("met", "missed", "beyond"))
    undecided = len(rows) - met - missed - beyond
    return f"Targets: {met} met, {missed} missed, {beyond} beyond a bare loop, {undecided} undecided."


def plural(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def duration(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def times_table(results: Results, peers: list[str], threads: int) -> str:
    """Our time on every case, and every peer's as a multiple of it."""
    rows = []
    for record in results.records:
        if record["threads"] == threads:
            seconds, absent, limit = record["seconds"], record["absent"], record["limit"]
            ours = seconds["ndpool"]
            bare = duration(seconds["bare"]) if "bare" in seconds else "—"
            row = [record["case"], duration(ours), duration(limit), f"{ours / limit:.3g}", bare]
            rows.append(row + [f"{seconds[p] / ours:.3g}x" if p in seconds else absent[p].split(":")[0] for p in peers])
    return table(["case", "ndpool", "memory limit", "ndpool / limit", "bare loop", *peers], rows)


def markdown(results: Results, peers: list[str], about: dict[str, Any], rows: list[dict[str, str]]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    text = ["# Benchmarks\n", f"{about['cpu']}, {about['processors']} processors; {versions}.\n", EXPLANATION]
    text += ["## Targets\n", f"{summary(rows)} With one thread, unless said otherwise.\n"]
    text += [table(["work", "case", "target", "measured", "verdict"], [list(row.values()) for row in rows])]
    for threads in results.threads:
        text += [f"## {plural(threads).capitalize()}\n", times_table(results, peers, threads)]
    faults = [
        f"- {record['case']}, {plural(record['threads'])}, {peer}: {why}"
        for record in results.records
        for peer, why in record["absent"].items()
        if ":" in why
    ]
    return "\n".join([*text, *(["## Faults\n", *faults, ""] if faults else [])])


def in_columns(heights: dict[Case, float], count: int) -> list[list[Case]]:
    """The cases in order, in at most `count` columns of about the same height."""
    columns: list[list[Case]] = []
    above = 0.0
    for case, height in heights.items():
        if above >= sum(heights.values()) / count * len(columns):
            columns.append([])
        columns[-1].append(case)
        above += height
    return columns


def draw_column(panel: Any, bars: dict[Case, list[tuple[float, str]]], gap: float) -> None:
    """For each case its name, and under it a bar for each contender, the fastest first."""
    behind_title = {"facecolor": "white", "edgecolor": "none", "pad": 0}
    y = 0.0
    for case, values in bars.items():
        panel.text(0.55, y, case.name, fontsize=8, fontweight="bold", va="center", bbox=behind_title, zorder=3)
        for value, name in values:
            y += 1
            weight = "bold" if name == "ndpool" else "normal"
            label = f"{name} {value:.3g}" if value < 100 else f"{name} {value:,.0f}"
            panel.barh(y, value, height=0.86, color=COLOURS[name], zorder=1)
            panel.text(value * 1.08, y, label, fontsize=6.5, va="center", fontweight=weight, zorder=3)
        y += gap
    panel.axvline(1, color="#333333", linewidth=0.9, linestyle="--", zorder=2)
    panel.grid(axis="x", color="#e5e5e5", linewidth=0.6)
    panel.set_axisbelow(True)
    panel.spines[["left", "right", "top"]].set_visible(False)
    panel.tick_params(labelsize=8)
    panel.set_xlabel("time / memory limit, on a log scale; less is better", fontsize=8)


def chart(results: Results, about: dict[str, Any], path: Path) -> None:
    """Bars of time relative to the memory limit, for the fewest threads that were measured."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    threads, gap = results.threads[0], 1.6
    bars = {
        case: sorted((record["seconds"][name] / record["limit"], name) for name in COLOURS if name in record["seconds"])
        for case in CASES
        if (record := results.record(case, threads))
    }
    columns = in_columns({case: len(values) + gap for case, values in bars.items()}, count=3)
    height = max(sum(len(bars[case]) + gap for case in column) for column in columns)
    longest = max(value for values in bars.values() for value, _ in values)
    size = (5.5 * len(columns), 1.4 + 0.13 * height)
    figure, panels = plt.subplots(1, len(columns), figsize=size, squeeze=False, layout="constrained")
    for panel, column in zip(panels[0], columns, strict=True):
        draw_column(panel, {case: bars[case] for case in column}, gap)
        panel.set(xscale="log", xlim=(0.5, longest * 4), ylim=(height, -1), yticks=[])
    figure.suptitle(f"Time of pooling over the memory's limit: {about['cpu']}, {plural(threads)}", fontweight="bold")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def write_report(results: Results, peers: list[str], folder: Path) -> str:
    """Write the page, the JSON and the chart into the folder; return one line that sums up the targets."""
    folder.mkdir(parents=True, exist_ok=True)
    about, rows = machine(), verdicts(results)
    everything = {"machine": about, "targets": rows, "records": results.records}
    (folder / "results.json").write_text(json.dumps(everything, indent=1, ensure_ascii=False) + "\n")
    (folder / "results.md").write_text(markdown(results, peers, about, rows))
    chart(results, about, folder / "results.png")
    return summary(rows)
