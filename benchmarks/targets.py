"""What ndpool promises: each work, its cases, and the checks that its times must pass.

A check measures one number from the results, or says in words why there is none.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from .cases import Adaptive, Case, Global, Sliding, numpy_dtype
from .results import Results

BOTH = (Sliding(2, 2), Sliding(3, 2, 1))
VJP = "forward+vjp"
RUNTIMES = ("openvino", "onnxruntime")
TINY = Case("max", Sliding(2, 2), (1, 4, 8, 8), "NCHW", tiny=True)
AT_THE_LIMIT = 1.6


def images(kind: str, window: Sliding | Adaptive | Global, layout: str = "NCHW", **more: str) -> Case:
    """A case on the activations of an early convolution: eight images of 64 channels."""
    shape = {"NCHW": (8, 64, 112, 112), "NHWC": (8, 112, 112, 64)}[layout]
    return Case(kind, window, shape, layout, **more)


def volumes(kind: str, window: Sliding, **more: str) -> Case:
    return Case(kind, window, (2, 16, 48, 64, 64), "NCDHW", **more)


def row(kind: str, window: Sliding, dtype: str = "float32") -> Case:
    """A case on one long row, ten minutes of sound."""
    return Case(kind, window, (9_600_000,), "W", dtype=dtype)


def planes(kind: str, kernel: int) -> Case:
    """A case with a wide window that moves by one."""
    return Case(kind, Sliding(kernel, 1, kernel // 2), (8, 256, 256), "CHW")


def each(make: Callable[..., Case], kinds: str, *arguments: Any, **more: str) -> tuple[Case, ...]:
    """`make(kind, argument, **more)` for each of the kinds and each of the arguments."""
    return tuple(make(kind, argument, **more) for kind in kinds.split() for argument in arguments)


@dataclass(frozen=True)
class Check:
    """A claim about one case: `measure` gives a number that is at most, or at least, the goal.

    `reference` is the other case, if any, whose time is needed too: the two take turns.
    """

    claim: str
    bound: Literal["at most", "at least"]
    goal: float
    measure: Callable[[Case, Results], float | str]
    reference: Callable[[Case], Case] | None = None
    unit: str = " x"
    of_threads: bool = False  # whether it is not about the time with one thread

    def met(self, value: float) -> bool:
        return value <= self.goal if self.bound == "at most" else value >= self.goal

    def needed(self, value: float, seconds: float) -> float:
        """The time that would meet the goal, where `seconds` gave the value."""
        return seconds * self.goal / value if self.bound == "at most" else seconds * value / self.goal


@dataclass(frozen=True)
class Work:
    """Cases that share their checks, under one heading."""

    title: str
    cases: tuple[Case, ...]
    checks: tuple[Check, ...] = ()


def ratio(numerator: float | None, denominator: float | None) -> float | str:
    return numerator / denominator if numerator and denominator else "not measured"


def memory(goal: float) -> Check:
    claim = f"≤ {goal:g} x the memory limit"
    return Check(claim, "at most", goal, lambda case, results: ratio(results.times_limit(case), 1))


def microseconds(goal: float) -> Check:
    claim = f"≤ {goal:g} µs a call"
    return Check(claim, "at most", goal, lambda case, results: ratio(results.seconds(case), 1e-6), unit=" µs")


def faster(goal: float, *peers: str) -> Check:
    """The best of the peers takes at least `goal` times our time."""

    def measure(case: Case, results: Results) -> float | str:
        theirs = [seconds for peer in peers if (seconds := results.seconds(case, peer))]
        return ratio(min(theirs, default=None), results.seconds(case))

    return Check(f"≥ {goal:.2g} x as fast as {' and '.join(peers)}", "at least", goal, measure)


def against(goal: float, what: str, **changes: Any) -> Check:
    """Our time, for each byte of an element, is at most `goal` times that on the case with these changes."""

    def reference(case: Case) -> Case:
        return replace(case, **changes)

    def measure(case: Case, results: Results) -> float | str:
        bytes_more = numpy_dtype(case.dtype).itemsize / numpy_dtype(reference(case).dtype).itemsize
        together = ratio(results.seconds(case), results.seconds(case, "reference"))
        return together if isinstance(together, str) else together / bytes_more

    return Check(f"≤ {goal:g} x {what}", "at most", goal, measure, reference)


def two_threads(goal: float) -> Check:
    """Two threads gain at least `goal` times, unless what they do is already at the memory limit of two.

    Nor can they where two callers side by side, with one thread each, do not gain as much.
    """

    def measure(case: Case, results: Results) -> float | str:
        one, two, each = (results.seconds(case, name, threads=2) for name in ("one thread", "ndpool", "side by side"))
        gain, most = ratio(one, two), ratio(one, each)
        if isinstance(gain, str) or isinstance(most, str):
            return "not measured"
        if gain < goal and results.times_limit(case, threads=2) <= AT_THE_LIMIT:
            return "at the bandwidth limit"
        if gain < goal and most < goal:
            return f"gains {gain:.3g} x, two callers side by side {most:.3g} x"
        return gain

    return Check(f"2 threads ≥ {goal:g} x as fast as 1", "at least", goal, measure, of_threads=True)


# Windows, layouts and policies that no network has made common.
ELSEWHERE = (
    Work(
        "Odd kernels, 1-D",
        (
            Case("max", Sliding(11, 11, 5), (1, 3, 269_665), "NCW"),
            Case("avg", Sliding(11, 11), (2, 64, 13_626), "NCW", dtype="float64"),
            Case("avg", Sliding(11, 11), (8, 16, 10_472), "NCW", dtype="bfloat16"),
        ),
        (memory(3), faster(1.2, "torch")),
    ),
    Work("Blocks of a row", tuple(row("max", Sliding(k, k)) for k in (7, 8, 11, 12, 15, 16)), (memory(3),)),
    Work(
        "Sliding means",
        tuple(row("avg", Sliding(201, 1, 100), dtype) for dtype in ("float32", "float64", "uint8")),
        (memory(3), faster(1, "scipy")),
    ),
    Work(
        "Means over one axis",
        (
            Case("avg", Global(), (1024, 2048, 3), "NCW", note="channels"),
            Case("avg", Global(), (100, 256, 256), "WNC", note="time"),
            Case("avg", Sliding(2, 2), (3_100_000, 2), "NW", note="pairs"),
        ),
        (memory(3), faster(1, "numpy")),
    ),
    Work(
        "Fortran order",
        tuple(Case(kind, Sliding(2, 2), (192, 192, 192), "DHW", order="F") for kind in ("max", "avg")),
        (memory(3),),
    ),
    Work(
        "Ties",
        tuple(
            images("max", Sliding(3, 2, 1), mode=mode, ties=ties) for mode in (VJP, "jvp") for ties in ("split", "all")
        ),
        (against(2, 'ties="first"', ties="first"),),
    ),
    Work(
        "Stride 1 with VJP",
        each(images, "max avg", Sliding(3, 1, 1), Sliding(7, 1, 3), mode=VJP),
        (memory(4), faster(1.5, "torch")),
    ),
    Work("Other norms", each(images, "lp3 lp2.5", Sliding(2, 2)), (memory(10),)),
    Work("Other norms with VJP", each(images, "lp3 lp2.5", Sliding(2, 2), mode=VJP), (memory(12),)),
    Work(
        "Small planes",
        tuple(
            Case(kind, window, (32, 512, 7, 7), "NCHW", mode=mode, note="7 x 7")
            for kind, window in (("avg", Global()), ("max", Sliding(2, 2)))
            for mode in ("forward", VJP)
        ),
        (faster(1.2, "torch"),),
    ),
)

WORKS = (
    Work(
        "Forward max, NCHW",
        each(images, "max", *BOTH),
        (memory(1.6), faster(1.5, *RUNTIMES), faster(20, "torch")),
    ),
    Work(
        "Forward avg, NCHW",
        each(images, "avg", *BOTH),
        (memory(1.6), faster(1.5, *RUNTIMES), faster(6, "torch")),
    ),
    Work(
        "Forward, NHWC",
        each(images, "max avg", *BOTH, layout="NHWC"),
        (faster(1, "tensorflow"), faster(2, "torch")),
    ),
    Work(
        "Forward + VJP max, NCHW",
        each(images, "max", *BOTH, mode=VJP),
        (faster(12, "torch"), faster(30, "jax")),
    ),
    Work(
        "Forward + VJP max, NHWC",
        each(images, "max", *BOTH, layout="NHWC", mode=VJP),
        (faster(1.5, "torch"),),
    ),
    Work("Forward + VJP avg", each(images, "avg", *BOTH, mode=VJP), (faster(6, "torch"),)),
    Work("JVP max", each(images, "max", *BOTH, mode="jvp"), (against(2.5, "forward alone", mode="forward"),)),
    Work("3-D max", each(volumes, "max", *BOTH) + each(volumes, "max", *BOTH, mode=VJP), (faster(15, "torch"),)),
    Work("3-D avg", each(volumes, "avg", *BOTH) + each(volumes, "avg", *BOTH, mode=VJP), (faster(4, "torch"),)),
    Work("Wide windows, max", (planes("max", 15),), (faster(1 / 1.5, "opencv"), faster(100, "torch"))),
    Work("Wide windows, avg", (planes("avg", 15),)),
    Work("Wide windows, k63", each(planes, "max avg smooth", 63), (against(1.5, "k7", window=Sliding(7, 1, 3)),)),
    Work(
        "Smooth max",
        each(images, "smooth", *BOTH) + each(images, "smooth", *BOTH, mode=VJP),
        (faster(10, "torch"),),
    ),
    Work("Adaptive and global", each(images, "max avg", Adaptive(7), Global()), (faster(3, "torch"),)),
    *(
        Work(
            f"Forward max, {dtype}",
            each(images, "max", *BOTH, dtype=dtype),
            (faster(15, "torch"), against(1.25, "float32 for each byte", dtype="float32")),
        )
        for dtype in ("bfloat16", "uint8", "float64")
    ),
    *ELSEWHERE,
    Work("Tiny arrays", (TINY,), (microseconds(3),)),
)


def references(works: tuple[Work, ...]) -> dict[Case, Case]:
    """The case that each is compared with, for those that are."""
    return {
        case: check.reference(case) for work in works for case in work.cases for check in work.checks if check.reference
    }


REFERENCES = references(WORKS)
# Every case of every work, and those that another is compared with, once each.
CASES = tuple(dict.fromkeys(one for work in WORKS for case in work.cases for one in (REFERENCES.get(case, case), case)))
THREADS_WORK = Work("Threads", tuple(case for case in CASES if not case.tiny), (two_threads(1.7),))
