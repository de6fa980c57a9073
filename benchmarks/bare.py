"""What a loop takes that moves a case's bytes and does nothing else: below that no pool can be on this machine.

It is written in C++ (bare.cpp), built here for the processor at hand, and takes turns with the contenders. Stores past
the caches and ordinary ones are both tried, and the faster counts.
"""

import ctypes
import functools
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .cases import Case, Data

SOURCE = Path(__file__).with_name("bare.cpp")
OPTIONS = ["-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC"]
LINE = 64


@functools.cache
def library() -> ctypes.CDLL | None:
    """The loops, or None where there is no compiler."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder, "bare.so")
        try:
            subprocess.run(["c++", *OPTIONS, SOURCE, "-o", built], check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        return ctypes.CDLL(str(built))  # stays loaded when its file is gone


def lines(array: np.ndarray) -> np.ndarray:
    """As many bytes as the array has, written once, from the start of a line of the cache on."""
    memory = np.ones(array.nbytes + LINE, np.uint8)  # of zeros, the kernel may have one page for all
    return memory[-memory.ctypes.data % LINE :][: array.nbytes]


def bare_loops(case: Case, data: Data) -> list[Callable[[], object]]:
    """The ways to move the case's bytes: read x (a JVP also t) and write y; for a VJP then read g and write gx."""
    loops = library()
    if loops is None:
        return []
    moves = [(lines(data.x), lines(data.g))]
    if case.mode == "jvp":
        moves.append((lines(data.t), lines(data.g)))
    if case.mode == "forward+vjp":
        moves.append((lines(data.g), lines(data.x)))
    arguments = [
        (source.ctypes.data, source.nbytes // 4, target.ctypes.data, target.nbytes // 4) for source, target in moves
    ]
    move = loops.move_bytes
    move.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

    def work(past_the_caches: int, kept: object = moves) -> None:
        for one in arguments:
            move(*one, past_the_caches)

    return [functools.partial(work, 0), functools.partial(work, 1)]
