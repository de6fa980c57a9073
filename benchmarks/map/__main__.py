"""Draw pools at random, check them, time ndpool beside PyTorch and the memory's limit, and show the distribution.

Writes nothing unless it is asked to. `--output benchmarks/results` writes map.json, and from it the page and the
pictures that the documentation shows; `--redraw` writes these anew from the JSON that is there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from ..worker import processors
from .drawing import LARGEST, SMALLEST, draws


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.map", description=__doc__)
    parser.add_argument("--count", default=300, type=int, metavar="N", help="pools, default: 300")
    parser.add_argument("--seed", default=1, type=int, metavar="S", help="of the drawing, default: 1")
    parser.add_argument(
        "--budget", default=0.04, type=float, metavar="SECONDS", help="of each contender, default: 0.04"
    )
    parser.add_argument("--threads", default=1, type=int, metavar="N", help="and as many processors, default: 1")
    parser.add_argument("--kinds", default="", metavar="REGEX", help="only kinds like this, such as 'max|avg'")
    parser.add_argument("--only", default="", metavar="REGEX", help="only pools whose name has this")
    parser.add_argument("--smallest", default=SMALLEST, type=float, metavar="N", help="elements, default: 1e3")
    parser.add_argument("--largest", default=LARGEST, type=float, metavar="N", help="elements, default: 1e7")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the records there")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="with the records of another run")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="write map.json, map.md and the pictures there")
    parser.add_argument(
        "--redraw", type=Path, metavar="FOLDER", help="write map.md and the pictures there anew, and stop"
    )
    return parser.parse_args(given)


def chosen(options: argparse.Namespace) -> list[Any]:
    """The pools of this seed, less those that are not asked for: each is the same with and without the others."""
    found = draws(options.seed, options.count, options.smallest, options.largest)
    kinds, only = re.compile(options.kinds), re.compile(options.only)
    return [drawn for drawn in found if kinds.match(drawn.name) and only.search(drawn.name)]


def settle(threads: int) -> None:
    """Hold the process to as many processors as it has threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, processors()[-threads:])
    import torch

    import ndpool

    torch.set_num_threads(threads)
    ndpool.set_num_threads(threads)


def progress(number: int, total: int, began: float) -> None:
    if sys.stderr.isatty():
        print(f"\r{number} of {total}, {time.monotonic() - began:.0f} s", end="", file=sys.stderr, flush=True)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """The records, and what they were measured with."""
    settle(options.threads)
    from ..report import machine
    from .timing import measure

    wanted, records, began = chosen(options), [], time.monotonic()
    for number, drawn in enumerate(wanted, 1):
        records.append(measure(drawn, options.threads, options.budget))
        progress(number, len(wanted), began)
    about = machine() | {
        "threads": options.threads,
        "command": f"python -m benchmarks.map {' '.join(sys.argv[1:])}".strip(),
    }
    return {"machine": about, "records": records}


def redraw(folder: Path) -> None:
    """The page and the pictures from the JSON in the folder."""
    from . import chart, report

    everything = json.loads((folder / "map.json").read_text(encoding="utf-8"))
    (folder / "map.md").write_text(report.markdown(everything), encoding="utf-8")
    chart.write(everything["records"], everything["machine"], folder)


def main(given: list[str] | None = None) -> None:
    options = arguments(given)
    if options.redraw:
        redraw(options.redraw)
        return
    warnings.filterwarnings("ignore", module="torch")
    everything = run(options)
    from . import report

    written = json.dumps(everything, indent=1, ensure_ascii=False) + "\n"
    print("\n" + report.text(everything["records"]))
    if options.compare:
        before = json.loads(options.compare.read_text(encoding="utf-8"))
        print("\n" + report.comparison(everything["records"], before["records"]))
    if options.json:
        options.json.write_text(written, encoding="utf-8")
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "map.json").write_text(written, encoding="utf-8")
        redraw(options.output)


if __name__ == "__main__":
    main()
