"""Compare two builds of ndpool: the same work in both, in turns, and the best time of each.

    python -m benchmarks.compare OLD NEW [--cases REGEX] [--threads N] [--rounds N]

OLD and NEW are folders that contain the package `ndpool` with its engine, such as the `src` of two checkouts. Each
side is one process, and both are held to the same processors. The two take turns of 20 ms on every work. In each
round the arrays lie in new memory, so that a lucky address decides nothing. Works that differ by more than 5 % are
measured again.

The works are all cases of `make bench`, and calls on tiny arrays and tensors. Only public functions are called, so the
two sides may differ inside. A line is marked `=` if both sides give the same bits.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import importlib.machinery
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .cases import Case, Data, numpy_dtype, random_array
from .measure import Stopwatch
from .peers import ndpool, ndpool_pool
from .targets import CASES
from .worker import SETTINGS, processors

Work = Callable[[], Any]
TOLERANCE = 0.05
WIDTH = 56  # of a name in the table
TINY_SHAPE = (1, 4, 8, 8)


# The works, each by name. Nothing here runs before a worker asks for it.


@functools.lru_cache(maxsize=8)
def drawn(seed: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return random_array(np.random.default_rng(seed), shape, numpy_dtype(dtype))


def case_work(case: Case, threads: int) -> Work:
    """A case of `make bench` on arrays in new memory."""
    output_shape = ndpool_pool(case).output_shape(case.shape)
    shapes = (case.shape, case.shape, output_shape)
    data = Data(*(drawn(seed, shape, case.dtype).copy() for seed, shape in enumerate(shapes)))
    return ndpool(case, data, threads).run


def tiny_array_works() -> dict[str, Callable[[], Work]]:
    """Calls on an array so small that nothing but the call is left to time."""

    def function(name: str, *arguments: Any, **options: Any) -> Work:
        import ndpool

        x = drawn(0, TINY_SHAPE, "float32").copy()
        work = getattr(ndpool, name)
        return lambda: work(x, *arguments, **options)

    def derivative(mode: str, kind: str, *arguments: Any) -> Work:
        import ndpool

        pool = ndpool.Pool(getattr(ndpool, kind)(*arguments), ndpool.Window((2, 2)))
        x, t = (drawn(seed, TINY_SHAPE, "float32").copy() for seed in range(2))
        g = drawn(2, pool.output_shape(TINY_SHAPE), "float32").copy()

        def vjp() -> tuple[np.ndarray, np.ndarray]:
            y, pullback = pool.vjp(x)
            return y, pullback(g)

        return {"call": lambda: pool(x), "jvp": lambda: pool.jvp(x, t), "vjp": vjp}[mode]

    functions = {
        "max_pool2d(x, 2)": ("max_pool2d", 2),
        "max_pool2d(x, 3, 2, 1)": ("max_pool2d", 3, 2, 1),
        "avg_pool2d(x, 2)": ("avg_pool2d", 2),
        "adaptive_avg_pool2d(x, 4)": ("adaptive_avg_pool2d", 4),
        "global_max_pool(x)": ("global_max_pool",),
    }
    kinds = {"Max": (), "Avg": (), "SmoothMax": (2.0,), "Lp": (2.0,)}
    works = {f"tiny array {name}": functools.partial(function, *call) for name, call in functions.items()}
    works["tiny array max_pool2d(x, 2, return_indices=True)"] = functools.partial(
        function, "max_pool2d", 2, return_indices=True
    )
    for kind, arguments in kinds.items():
        for mode in ("call", "jvp", "vjp"):
            works[f"tiny array Pool({kind}) {mode}"] = functools.partial(derivative, mode, kind, *arguments)
    return works


def tiny_tensor_works(stack: contextlib.ExitStack) -> dict[str, Callable[[], Work]]:
    """The calls of `benchmarks.torch_overhead`, contiguous, by ndpool alone. A mode is entered on the stack."""
    import torch

    import ndpool.torch.functional
    import ndpool.torch.nn

    from . import torch_overhead

    torch.set_num_threads(1)

    def prepared(call: torch_overhead.Call, form: str, mode: str) -> Work:
        x = torch.from_numpy(drawn(0, TINY_SHAPE, "float32").copy())
        pool = call.made(ndpool.torch.functional, ndpool.torch.nn, form)
        work = torch_overhead.prepared(pool, x, mode)
        enter = {"inference mode": torch.inference_mode, "no_grad": torch.no_grad}.get(mode, contextlib.nullcontext)
        stack.enter_context(enter())
        return work

    return {
        f"tiny tensor {call.name}, {form}, {mode}": functools.partial(prepared, call, form, mode)
        for call in torch_overhead.CALLS
        for form in torch_overhead.FORMS
        for mode in torch_overhead.WORKS
    }


def digest(results: Any) -> str:
    """A hash of the results: equal in two processes if all bits, dtypes and shapes are."""
    summary = hashlib.sha256()
    for result in results if isinstance(results, tuple) else (results,):
        array = result.detach().numpy() if hasattr(result, "detach") else np.asarray(result)
        summary.update(f"{array.dtype}{array.shape}".encode())
        summary.update(np.ascontiguousarray(array).tobytes())
    return summary.hexdigest()


# A worker: reads orders, one a line, and answers each with a line.


class Worker:
    """One side: it makes one work ready, and then takes turns on it."""

    def __init__(self, threads: int, with_torch: bool) -> None:
        self.stack = contextlib.ExitStack()
        self.works = {case.name: functools.partial(case_work, case, threads) for case in CASES}
        self.works |= tiny_array_works()
        if with_torch:
            self.works |= tiny_tensor_works(self.stack)
        self.watch: Stopwatch | None = None

    def names(self) -> list[str]:
        return list(self.works)

    def prepare(self, name: str) -> dict[str, str]:
        self.stack.close()
        self.watch = None
        try:
            work = self.works[name]()
            bits = digest(work())
        except Exception as error:  # what one side lacks is a gap in the table
            return {"absent": f"{type(error).__name__}: {error}"}
        self.watch = Stopwatch(work)
        return {"bits": bits}

    def turn(self) -> float:
        assert self.watch is not None
        self.watch.turn()
        return self.watch.best


def serve(folder: str, threads: int, with_torch: bool) -> None:
    """Import ndpool from the folder and obey orders until there are none."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, processors()[-threads:])
    # An editable installation would answer first; the path decides here.
    sys.meta_path.insert(0, importlib.machinery.PathFinder)
    import ndpool

    if not Path(ndpool.__file__).parents[1].samefile(folder):
        raise SystemExit(f"{folder} has no package ndpool: Python found {ndpool.__file__}")
    worker = Worker(threads, with_torch)
    for line in sys.stdin:
        order, *arguments = json.loads(line)
        print(json.dumps(getattr(worker, order)(*arguments)), flush=True)


# The comparison: both sides do each work in turns.


class Side:
    """A worker as its parent sees it."""

    def __init__(self, folder: Path, threads: int, with_torch: bool) -> None:
        path = os.pathsep.join([str(folder.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])])
        settings = SETTINGS | {"PYTHONPATH": path, "OMP_NUM_THREADS": str(threads)}
        order = json.dumps([str(folder), threads, with_torch])
        command = [sys.executable, "-m", "benchmarks.compare", "--worker", order]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=os.environ | settings, **pipes)

    def ask(self, *order: str) -> Any:
        print(json.dumps(order), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a worker ended with the status {self.process.wait()}; see its message above")
        return json.loads(line)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


@dataclass
class Row:
    """The best seconds of both sides on one work."""

    name: str
    old: float = math.inf
    new: float = math.inf
    same_bits: bool = True
    absent: dict[str, str] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return self.new / self.old

    @property
    def differs(self) -> bool:
        return abs(self.ratio - 1) > TOLERANCE

    def __str__(self) -> str:
        if self.absent:
            return f"{self.name:{WIDTH}} {'; '.join(f'{side} has none: {why}' for side, why in self.absent.items())}"
        verdict = ("slower" if self.ratio > 1 else "faster") if self.differs else ""
        times = f"{self.old * 1e6:12.2f} {self.new * 1e6:12.2f} {self.ratio:8.3f}"
        return f"{self.name:{WIDTH}} {times} {'=' if self.same_bits else ' '} {verdict}".rstrip()


def measure(row: Row, old: Side, new: Side, turns: int) -> None:
    """So many turns of each side, now one first and now the other."""
    prepared = {"old": old.ask("prepare", row.name), "new": new.ask("prepare", row.name)}
    row.absent = {side: answer["absent"] for side, answer in prepared.items() if "absent" in answer}
    if row.absent:
        return
    row.same_bits &= prepared["old"]["bits"] == prepared["new"]["bits"]
    for turn in range(turns):
        for side in (old, new) if turn % 2 == 0 else (new, old):
            seconds = side.ask("turn")
            if side is old:
                row.old = min(row.old, seconds)
            else:
                row.new = min(row.new, seconds)


def compare(names: Iterable[str], old: Side, new: Side, rounds: int, turns: int) -> list[Row]:
    """All works in each round; then as many rounds again for those that differ."""
    rows = [Row(name) for name in names]
    for again in (False, True):
        waiting = [row for row in rows if not row.absent and (not again or row.differs)]
        for number in range(rounds if waiting else 0):
            words = f"round {number + 1} of {rounds}" + (", those that differ" if again else "")
            print(f"{words}: {len(waiting)} works", file=sys.stderr, flush=True)
            for row in waiting:
                if not row.absent:
                    measure(row, old, new, turns)
    return rows


def report(rows: list[Row]) -> str:
    lines = [f"{'microseconds, best':{WIDTH}} {'old':>12} {'new':>12} {'new/old':>8}", *map(str, rows)]
    timed = [row for row in rows if not row.absent]
    slower = [row.name for row in timed if row.ratio > 1 + TOLERANCE]
    if timed:
        mean = math.exp(sum(math.log(row.ratio) for row in timed) / len(timed))
        other_bits = sum(not row.same_bits for row in timed)
        lines.append(f"\n{len(timed)} works: new takes {mean:.3f} x the time of old (geometric mean); ")
        lines[-1] += f"{len(slower)} more than {TOLERANCE:.0%} slower; {other_bits} with other bits."
    return "\n".join([*lines, *(f"  slower: {name}" for name in slower)])


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, metavar="OLD", help="a folder with the package ndpool")
    parser.add_argument("new", type=Path, metavar="NEW", help="another")
    parser.add_argument("--cases", default="", metavar="REGEX", help='only works whose name has this, as in "^tiny"')
    parser.add_argument("--threads", default=1, type=int, metavar="N", help="default: %(default)s")
    parser.add_argument("--rounds", default=5, type=int, metavar="N", help="default: %(default)s")
    parser.add_argument("--turns", default=4, type=int, metavar="N", help="of a side in a round, default: %(default)s")
    parser.add_argument("--no-torch", action="store_true", help="leave out the tiny tensors, and do not import PyTorch")
    options = parser.parse_args()
    for folder in (options.old, options.new):
        if not (folder / "ndpool" / "__init__.py").exists():
            parser.error(f"{folder} has no package ndpool; name the folder in which the folder ndpool lies")
    with_torch = not options.no_torch and importlib.util.find_spec("torch") is not None
    if not with_torch and not options.no_torch:
        print("PyTorch is not installed: no tiny tensors.", file=sys.stderr)
    old, new = (Side(folder, options.threads, with_torch) for folder in (options.old, options.new))
    names = [name for name in new.ask("names") if re.search(options.cases, name)]
    if not names:
        parser.error(f"no work has a name with {options.cases!r}")
    print(report(compare(names, old, new, options.rounds, options.turns)))
    old.close()
    new.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        serve(*json.loads(sys.argv[2]))
    else:
        main()
