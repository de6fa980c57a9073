"""Measure pools on the GPU beside PyTorch, compiled PyTorch and a copy of memory.

    python -m benchmarks.gpu [--quick] [--map N [--seed S]] [--training] [--overhead] [--all]

Without a choice, the table of pools is measured. Kernels are compiled first, by as many processes as --jobs says. The
results are put beside those that are there, in benchmarks/results/gpu.json, and all of them are told in gpu.md. Where
that page is there alone, what it tells would be lost, and only --all makes it anew.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from . import overhead, random_pools, training, works
from .report import SECTIONS, line, report
from .timing import copy_speed

RESULTS = Path(__file__).parents[1] / "results"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a quarter of the pools and of the repetitions")
    parser.add_argument("--map", type=int, default=0, metavar="N", help="N pools drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the random pools; default: %(default)s")
    parser.add_argument("--training", action="store_true", help="training steps before and after convert")
    parser.add_argument("--overhead", action="store_true", help="calls on tiny tensors")
    parser.add_argument("--all", action="store_true", help="the table, training steps, calls, and 200 random pools")
    parser.add_argument("--match", default="", metavar="TEXT", help="only pools whose name has this text")
    parser.add_argument("--jobs", type=int, default=min(12, os.cpu_count() or 1), help="default: %(default)s")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FOLDER", help="default: %(default)s")
    parser.add_argument("--device", default="cuda", help="cpu: only for a test of this program")
    parser.add_argument("--warm", default="", help=argparse.SUPPRESS)  # I/N: compile the kernels of every N-th pool
    options = parser.parse_args()
    if options.all:
        options.training = options.overhead = True
        options.map = options.map or 200
    options.table = options.all or not (options.map or options.training or options.overhead)
    return options


def chosen(options: argparse.Namespace) -> tuple[list[Any], list[Any]]:
    """The pools of the table and the random ones that are to be measured."""
    listed = [work for work in works.works() if options.match in work.name] if options.table else []
    return listed[:: 4 if options.quick else 1], random_pools.drawn_pools(options.seed, options.map)


def warm(options: argparse.Namespace) -> None:
    """What one of the processes compiles. What fails here fails again when it is measured, and is told there."""
    i, n = map(int, options.warm.split("/"))
    listed, drawn = chosen(options)
    for made, each in [(works, work) for work in listed][i::n] + [(random_pools, one) for one in drawn][i::n]:
        try:
            made.warmed(each, options.device)
        except Exception as error:
            print(f"{getattr(each, 'name', each)}: {type(error).__name__}: {error}"[:300], file=sys.stderr)


def warm_together(jobs: int) -> None:
    command = [sys.executable, "-m", "benchmarks.gpu", *sys.argv[1:]]
    environment = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
    running = [subprocess.Popen([*command, "--warm", f"{i}/{jobs}"], env=environment) for i in range(jobs)]
    for process in running:
        process.wait()


def told(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records, each of which is printed as it comes."""
    found = []
    for record in records:
        found.append(record)
        print(json.dumps(record, ensure_ascii=False), flush=True)
    return found


def measure_table(
    listed: list[works.Work], options: argparse.Namespace, budget_s: float
) -> Iterator[tuple[float, list[dict[str, Any]]]]:
    """After each work, the speed of a copy and the records so far."""
    copy = copy_speed(options.device, 2**28 if options.device == "cuda" else 2**20)
    print(f"copy: {copy / 1e12:.2f} TB/s", flush=True)
    records = []
    for work in listed:
        for record in works.measured(work, options.device, budget_s):
            records.append(record)
            print(line(record, copy), *(f"{who}: {why}" for who, why in record["failed"].items()), flush=True)
        yield copy, records


def versions(device: str) -> dict[str, str]:
    try:
        import triton
    except ImportError:
        triton = None  # type: ignore[assignment]
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    return {"device": name, "torch": torch.__version__, "triton": getattr(triton, "__version__", "none")}


def measured_before(folder: Path, anew: bool) -> dict[str, Any]:
    """The results that are there, beside which new ones are put."""
    path = folder / "gpu.json"
    if path.exists():
        return json.loads(path.read_text())  # type: ignore[no-any-return]
    if (folder / "gpu.md").exists() and not anew:
        sys.exit(
            f"{folder} has gpu.md and no gpu.json with its numbers, so that a part of the page would replace all of "
            "it; measure --all, or give another --output"
        )
    return {}


def this_run() -> str:
    """The command and the day, less the folder of one machine."""
    given = zip(sys.argv[1:], sys.argv, strict=False)
    words = [word for word, before in given if not word.startswith("--output") and before != "--output"]
    command = shlex.join(["python", "-m", "benchmarks.gpu", *words])
    return f"`{command}`, {datetime.date.today()}"


def main() -> None:
    options = arguments()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU here: torch.cuda.is_available() is False.")
    if options.warm:
        return warm(options)
    results = measured_before(options.output, anew=options.all) | versions(options.device)
    listed, drawn = chosen(options)
    if options.jobs > 1 and (listed or drawn):
        warm_together(options.jobs)
    budget_s = 0.01 if options.quick else 0.04

    def save(**found: Any) -> None:
        """What has been measured so far, so that a run that is cut short leaves it."""
        results.update(found)
        results["runs"] = results.get("runs", {}) | dict.fromkeys(SECTIONS.keys() & found, this_run())
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "gpu.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        (options.output / "gpu.md").write_text(report(results) + "\n")

    for copy, found in measure_table(listed, options, budget_s) if listed else ():
        save(copy=copy, works=found)
    if options.training:
        save(training=told(training.measured(options.device, 10 * budget_s)))
    if options.overhead:
        save(overhead=told(overhead.measured(options.device, 2 if options.quick else 7)))
    records = []
    for one in drawn:
        records += told(random_pools.measured(one, options.device, budget_s / 2))
        save(seed=options.seed, map=records)
    print(f"See gpu.md and gpu.json in {options.output}.")


if __name__ == "__main__":
    main()
