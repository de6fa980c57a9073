"""Measure ndpool, the memory limit and the peers that are installed, and report into benchmarks/results/."""

import argparse
import re
from pathlib import Path

from .peers import PEERS
from .report import RESULTS, plural, write_report
from .results import Results
from .targets import CASES
from .worker import measure_in_process, processors


def thread_counts(text: str) -> list[int]:
    """``"1,all"`` as numbers, without those that the machine has no processors for."""
    available = len(processors())
    wanted = {available if word == "all" else int(word) for word in text.split(",")}
    return sorted(number for number in wanted if 1 <= number <= available)


def peer_names(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if unknown := sorted(set(names) - set(PEERS)):
        raise argparse.ArgumentTypeError(f"there is no peer {', '.join(unknown)}; there are {', '.join(PEERS)}")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--budget", default=0.5, type=float, metavar="SECONDS", help="of each contender, default: 0.5")
    parser.add_argument("--quick", action="store_const", const=0.05, dest="budget", help="a tenth of that")
    parser.add_argument("--cases", default="", metavar="REGEX", help="only the cases whose name has this")
    parser.add_argument("--threads", default="1,2,all", type=thread_counts, help="default: %(default)s")
    parser.add_argument("--peers", default=",".join(PEERS), type=peer_names, help="default: %(default)s")
    parser.add_argument("--output", default=RESULTS, type=Path, metavar="FOLDER", help="default: %(default)s")
    options = parser.parse_args()
    cases = [case.name for case in CASES if re.search(options.cases, case.name)]
    if not cases or not options.threads:
        parser.error("nothing to measure: no case has such a name, or no such number of threads is possible")
    records = []
    for threads in options.threads:
        print(f"\n{plural(threads)}, {len(cases)} cases", flush=True)
        records += measure_in_process(cases, options.peers, threads, budget_s=options.budget)
    print(f"\n{write_report(Results(records), options.output)}")
    print(f"See results.md, results.json and the charts in {options.output}.")


if __name__ == "__main__":
    main()
