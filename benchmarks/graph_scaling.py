"""Time of a program's sweeps against its number of nodes: build, forward, JVP, forward + VJP.

Every other node reads the two before it, so an evaluator that ran the prefix again for each node would be quadratic,
and one that recursed without memory exponential. Linear time is a constant time for each
node, which is what is printed.

    python benchmarks/graph_scaling.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ndpool import Graph
from ndpool.program import Program

SIZES = (250, 500, 1000, 2000, 4000, 8000)
REPEATS = 5


def ladder(nodes: int) -> Program:
    """`x_{i+1} = x_i - x_{i-1}` and `x_{i+1} = relu(x_i)`, by turns."""
    graph = Graph()
    before, last = graph.input((8,)), graph.input((8,))
    for i in range(nodes):
        before, last = last, graph.relu(last) if i % 2 else graph.sub(last, before)
    return graph.build(last)


def best(action: Callable[[], Any]) -> float:
    """The shortest of several times, in seconds."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(nodes: int) -> dict[str, float]:
    program = ladder(nodes)
    xs = tuple(np.linspace(-1, 1, 16).reshape(2, 8))
    g = np.ones(8)
    return {
        "build": best(lambda: ladder(nodes)),
        "forward": best(lambda: program(*xs)),
        "jvp": best(lambda: program.jvp(xs, xs)),
        "forward + vjp": best(lambda: program.vjp(*xs)[1](g)),
    }


def main() -> None:
    print("microseconds for each node; linear time is a constant column\n")
    print(f"{'nodes':>6}" + "".join(f"{name:>16}" for name in measure(2)))
    for nodes in SIZES:
        print(f"{nodes:6}" + "".join(f"{seconds / nodes * 1e6:16.2f}" for seconds in measure(nodes).values()))


if __name__ == "__main__":
    main()
