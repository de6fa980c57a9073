"""What is shown: the same results as a Markdown page, as JSON and as a bar chart, for light pages and for dark ones.

``python -m benchmarks.report`` writes the page and the charts anew from the results that are stored.
"""

import argparse
import json
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .cases import Case
from .results import Results
from .targets import THREADS_WORK, WORKS, Check
from .worker import processors

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    *("ndpool", "numpy", "ml_dtypes", "torch", "onnx", "onnxruntime", "openvino", "tensorflow", "tensorflow-cpu"),
    *("jax", "jaxlib", "opencv-python-headless", "scipy", "scikit-image", "tinybrain"),
)
NAMES = {
    "torch": "PyTorch",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "tensorflow": "TensorFlow",
    "jax": "JAX",
    "opencv": "OpenCV",
    "numpy": "NumPy",
    "scipy": "SciPy",
    "skimage": "scikit-image",
    "tinybrain": "tinybrain",
}
# One case of each sort is drawn; the tables have them all.
DRAWN = {
    "max k3s2p1 NCHW": "max, 3 x 3, stride 2",
    "avg k3s2p1 NCHW": "average, 3 x 3, stride 2",
    "max k3s2p1 NHWC": "max, 3 x 3, stride 2, channels last",
    "avg k3s2p1 NHWC": "average, 3 x 3, stride 2, channels last",
    "max k3s2p1 NCHW forward+vjp": "max, 3 x 3, stride 2, with gradient",
    "avg k3s2p1 NCHW forward+vjp": "average, 3 x 3, stride 2, with gradient",
    "max k3s2p1 NCDHW": "max, 3 x 3 x 3, stride 2",
    "max k15s1p7 CHW": "max, 15 x 15, stride 1",
    "avg k15s1p7 CHW": "average, 15 x 15, stride 1",
    "avg global NCHW": "average of all cells",
}
INK = {"light": "#1d2530", "dark": "#e6eaf0"}
OURS, TORCH, OTHER, GREY = "#d1495b", "#e9a23b", "#3b82c4", "#8a8f98"
EXPLANATION = """\
The memory limit of a case is the time to read its inputs and write its outputs at the bandwidth of a copy of the same
size, measured in the same run with as many threads. It counts x and y; for forward+vjp also g and gx; for jvp also t
and dy. The bare loop is the time of one that reads and writes those bytes in the fastest way that we know of, and does
nothing else; a target that asks for less is beyond the hardware. Two threads are compared with one, and with two
callers side by side that have one each: what those do not gain, the machine does not have to give. A peer's
column says how many times ndpool's time it takes; — says that the peer does not define the case. Each peer's result was
compared with ndpool's before it was timed.

![Time relative to the memory limit](results-light.svg#only-light)
![Time relative to the memory limit](results-dark.svg#only-dark)
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


def contenders(record: dict[str, Any]) -> list[tuple[str, float, str]]:
    """What is drawn of a case, as (label, time over the limit, colour): ndpool, the fastest peer, and PyTorch."""
    over = {name: seconds / record["limit"] for name, seconds in record["seconds"].items()}
    peers = sorted((over[name], name) for name in NAMES if name in over)
    bars = [("ndpool", over["ndpool"], OURS)]
    if peers and peers[0][1] != "torch":
        bars.append((NAMES[peers[0][1]], peers[0][0], OTHER))
    return bars + ([("PyTorch", over["torch"], TORCH)] if "torch" in over else [])


def chart(results: Results, about: dict[str, Any]) -> Any:
    """A figure: for each case its name, and below it a bar for each contender, from the memory limit on."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    threads = results.threads[0]
    records = {record["case"]: record for record in results.records if record["threads"] == threads}
    drawn = {words: contenders(records[case]) for case, words in DRAWN.items() if case in records}
    height = sum(len(bars) + 1.5 for bars in drawn.values())
    figure = plt.figure(figsize=(6, 1.3 + 0.2 * height), layout="constrained")
    panel = figure.subplots()
    y = 0.0
    for words, bars in drawn.items():
        panel.text(1.03, y, words, fontsize=10.5, fontweight="bold", va="center", ha="left")
        for label, value, colour in bars:
            y += 1
            panel.barh(y, value - 1, left=1, height=0.82, color=colour)
            panel.text(max(value, 1) * 1.08, y + 0.04, f"{label} {_digits(value)}", fontsize=10, va="center")
        y += 1.5
    values = [1.0, 10.0, *(value for bars in drawn.values() for _, value, _ in bars)]
    panel.set(xscale="log", xlim=(0.8 * min(values), 4 * max(values)), ylim=(y - 0.4, -1), yticks=[])
    panel.axvline(1, color=GREY, linewidth=1)
    panel.set_facecolor("none")
    panel.spines[["left", "right", "top"]].set_visible(False)
    panel.xaxis.set_major_formatter("{x:g}")
    panel.set_xlabel("time / memory limit, on a log scale: less is better", fontsize=10)
    figure.suptitle(f"ndpool, the fastest of the others, and PyTorch\n{about['cpu']}, {plural(threads)}", fontsize=10.5)
    return figure


def _digits(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def draw_charts(results: Results, about: dict[str, Any], folder: Path) -> None:
    """The chart in ink for light pages and for dark ones, on no ground of its own."""
    from matplotlib import pyplot as plt

    for style, ink in INK.items():
        colours = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color"), ink) | {"axes.edgecolor": GREY}
        with plt.rc_context(colours | {"savefig.transparent": True, "svg.hashsalt": "ndpool"}):
            figure = chart(results, about)
            figure.savefig(folder / f"results-{style}.svg", metadata={"Date": None})
            plt.close(figure)


def redraw(folder: Path) -> str:
    """The page and the charts from the JSON in the folder; return one line that sums up the targets."""
    everything = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    results, about, rows = Results(everything["records"]), everything["machine"], everything["targets"]
    peers = [peer for peer in NAMES if any(peer in r["seconds"] or peer in r["absent"] for r in results.records)]
    (folder / "results.md").write_text(markdown(results, peers, about, rows), encoding="utf-8")
    draw_charts(results, about, folder)
    return summary(rows)


def write_report(results: Results, folder: Path) -> str:
    """Write the JSON, and from it the page and the charts."""
    folder.mkdir(parents=True, exist_ok=True)
    everything = {"machine": machine(), "targets": verdicts(results), "records": results.records}
    text = json.dumps(everything, indent=1, ensure_ascii=False) + "\n"
    (folder / "results.json").write_text(text, encoding="utf-8")
    return redraw(folder)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.report", description="Write the page and the charts anew from stored results."
    )
    parser.add_argument("--folder", default=RESULTS, type=Path, help="that has results.json; default: %(default)s")
    print(redraw(parser.parse_args().folder))


if __name__ == "__main__":
    main()
