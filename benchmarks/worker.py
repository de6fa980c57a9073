"""One process for one number of threads: frameworks fix theirs when they start, so each number starts afresh.

The process is also held to as many processors, so that nobody uses more.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from .results import NO_PEERS

SETTINGS = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}


def processors() -> list[int]:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def measure_in_process(cases: list[str], peers: list[str], threads: int, budget_s: float) -> list[dict[str, Any]]:
    """The records of the cases, measured by a new process with so many threads."""
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder, "records.json")
        order = {"cases": cases, "arguments": (peers, threads, budget_s), "records": str(records)}
        command = [sys.executable, "-m", "benchmarks.worker", json.dumps(order)]
        subprocess.run(command, env=os.environ | SETTINGS | {"OMP_NUM_THREADS": str(threads)}, check=True)
        return json.loads(records.read_text())


def progress(position: str, record: dict[str, Any]) -> str:
    """One line on the terminal for a case, and one more for each fault."""
    ours, limit = record["seconds"]["ndpool"], record["limit"]
    line = f"{position}  {record['case']:34} {ours * 1e3:10.4f} ms {ours / limit:7.2f} x memory limit"
    if rivals := [(seconds / ours, name) for name, seconds in record["seconds"].items() if name not in NO_PEERS]:
        line += "   best peer: {1} {0:.2f} x".format(*min(rivals))
    return "\n".join([line, *(f"         {name}: {why}" for name, why in record["absent"].items() if ":" in why)])


def main(cases: list[str], arguments: tuple[list[str], int, float], records: str) -> None:
    peers, threads, budget_s = arguments
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, processors()[-threads:])
    from .measure import measure_case
    from .targets import CASES, REFERENCES

    by_name = {case.name: case for case in CASES}
    measured = []
    for number, name in enumerate(cases, 1):
        case = by_name[name]
        measured.append(measure_case(case, REFERENCES.get(case), peers, threads, budget_s))
        print(progress(f"[{number:2}/{len(cases)}]", measured[-1]), flush=True)
    Path(records).write_text(json.dumps(measured))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
