"""Which pools there are: one is drawn at random, by a seed, from kinds, dtypes, ranks, layouts, windows and sizes.

What people use most is drawn most. What costs PyTorch seconds is left out: a kernel is at most 7 cells wide with three
pooled axes, and 5 with four.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window

T = TypeVar("T")
Rng = np.random.Generator

KINDS: dict[Any, float] = {
    Max(): 27,
    Avg(): 21,
    Avg(count_include_pad=False): 4,
    Sum(): 10,
    Min(): 6,
    Lp(2): 8,
    SmoothMax(2.0): 6,
    SmoothMax(-1.0): 2,
    Max("split"): 3,
    Max("all"): 3,
    Min("split"): 1,
    Min("all"): 1,
    Lp(1): 2,
    Lp(3): 3,
    Lp(2.5): 3,
}
DTYPES = {"float32": 40, "float64": 16, "bfloat16": 11, "float16": 9, "uint8": 9, "int16": 5, "int32": 5, "int64": 5}
RANKS = {1: 20, 2: 45, 3: 25, 4: 10}
LAYOUTS = {"channels first": 46, "channels last": 36, "fortran": 12, "strided": 6}
CHANNELS = {
    "channels first": {1: 2, 3: 3, 16: 2, 64: 3, 512: 1},
    "channels last": {1: 1, 3: 3, 4: 2, 8: 2, 16: 2, 64: 3},
}
BATCHES = {1: 3, 2: 2, 8: 3, 32: 1}
WINDOWS = {"sliding": 78, "adaptive": 12, "global": 10}
WIDEST = {1: 15, 2: 15, 3: 7, 4: 5}
WIDE = 201  # now and then, with one pooled axis
SMALLEST, LARGEST = 1e3, 1e7


@dataclass(frozen=True)
class Drawn:
    """One pool over one array. `shape` is (batch, channels, ...), whatever the order in memory that `layout` names."""

    kind: Any
    window: Window | Adaptive | Global
    shape: tuple[int, ...]
    dtype: str
    layout: str

    @property
    def rank(self) -> int:
        return len(self.shape) - 2

    @property
    def pool(self) -> Pool:
        return Pool(self.kind, self.window, axes=tuple(range(-self.rank, 0)))

    @property
    def is_float(self) -> bool:
        return "float" in self.dtype

    @property
    def family(self) -> str:
        """What the targets tell apart."""
        if isinstance(self.kind, Max | Min):
            return "plain" if self.kind.ties == "first" else "ties"
        if isinstance(self.kind, Avg | Sum):
            return "plain"
        return "smooth" if isinstance(self.kind, SmoothMax) or self.kind == Lp(2) else "powers"

    @property
    def row(self) -> int | None:
        """Which pooled axis lies along the rows of memory, if one does."""
        if self.layout == "channels last" and self.shape[1] > 1:
            return None
        return 0 if self.layout == "fortran" else self.rank - 1

    @property
    def sort(self) -> str:
        """The sort of window, by which points are coloured."""
        window = self.window
        if not isinstance(window, Window):
            return type(window).__name__.lower()
        kernel, stride, dilation = (
            whole_tuple(n, self.rank) for n in (window.kernel_size, window.stride, window.dilation)
        )
        if max(kernel) > max(WIDEST.values()):
            return "wide"
        if max(dilation) > 1:
            return "dilated"
        if max(stride) == 1:
            return "stride 1"
        if stride == kernel:
            return "blocks"
        return "overlapping" if all(s <= k for s, k in zip(stride, kernel, strict=True)) else "gaps"

    @property
    def name(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"{kind_name(self.kind)} {window_name(self.window)} {shape} {self.dtype} {self.layout}"


SORTS = ("blocks", "overlapping", "stride 1", "dilated", "gaps", "wide", "adaptive", "global")


def whole_tuple(value: Any, rank: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, tuple) else (value,) * rank


def kind_name(kind: Any) -> str:
    """`max`, `max:split`, `avg:no pad`, `smooth(2)`, `lp(2.5)`."""
    match kind:
        case Max(ties) | Min(ties):
            return type(kind).__name__.lower() + ("" if ties == "first" else f":{ties}")
        case Avg(included):
            return "avg" if included else "avg:no pad"
        case SmoothMax(beta):
            return f"smooth({beta:g})"
        case Lp(p):
            return f"lp({p:g})"
    return type(kind).__name__.lower()


def window_name(window: Window | Adaptive | Global) -> str:
    """`k3s2p1`, with `d` before a dilation and a `c` at the end for ceil_mode; `k3,5` where axes differ."""
    if isinstance(window, Global):
        return "global"
    if isinstance(window, Adaptive):
        return f"adaptive{_numbers(window.output_size)}"
    text = f"k{_numbers(window.kernel_size)}s{_numbers(window.stride)}"
    text += f"p{_numbers(window.padding)}" if window.padding else ""
    text += f"d{window.dilation}" if window.dilation != 1 else ""
    return text + ("c" if window.ceil_mode else "")


def _numbers(value: Any) -> str:
    several = value if isinstance(value, tuple) else (value,)
    return ",".join(map(str, several[:1] if len(set(several)) == 1 else several))


# --- drawing --------------------------------------------------------------------------------------


def pick(rng: Rng, weights: dict[T, float]) -> T:
    total = np.cumsum(list(weights.values()))
    return list(weights)[int(np.searchsorted(total, rng.uniform(0, total[-1]), "right"))]


def chance(rng: Rng, percent: float) -> bool:
    return bool(rng.uniform(0, 100) < percent)


def draw(rng: Rng, smallest: float = SMALLEST, largest: float = LARGEST) -> Drawn:
    """A pool that has an output, and a cell in every window that must have one."""
    while True:
        rank, layout = pick(rng, RANKS), pick(rng, LAYOUTS)
        shape = draw_shape(rng, rank, layout, smallest, largest)
        drawn = Drawn(pick(rng, KINDS), draw_window(rng, shape[2:]), shape, pick(rng, DTYPES), layout)
        if isinstance(drawn.window, Window) and chance(rng, 15 if isinstance(drawn.kind, Max | Min) else 5):
            drawn = replace(drawn, window=replace(drawn.window, dilation=int(rng.integers(2, 4))))
        try:
            if 0 not in drawn.pool.output_shape(shape):
                return drawn
        except ValueError:  # no window fits, or one would see no cell
            continue


def draw_shape(rng: Rng, rank: int, layout: str, smallest: float, largest: float) -> tuple[int, ...]:
    elements = math.exp(rng.uniform(math.log(smallest), math.log(largest)))
    channels = CHANNELS.get(layout, CHANNELS["channels first"])
    while True:
        batch, channel = pick(rng, BATCHES), pick(rng, channels)
        side = (elements / (batch * channel)) ** (1 / rank)
        if side >= 2:
            return batch, channel, *(max(2, round(side * math.exp(rng.uniform(-0.5, 0.5)))) for _ in range(rank))


def draw_window(rng: Rng, lengths: Sequence[int]) -> Window | Adaptive | Global:
    sort, rank = pick(rng, WINDOWS), len(lengths)
    if sort == "global":
        return Global()
    if sort == "adaptive":
        return Adaptive(tuple(int(rng.integers(1, min(length, 16) + 1)) for length in lengths))
    widest = WIDE if rank == 1 and chance(rng, 8) else WIDEST[rank]
    numbers = [draw_axis(rng, min(widest, min(lengths)))] * rank
    if chance(rng, 20):
        numbers = [draw_axis(rng, min(widest, length)) for length in lengths]
    kernel, stride, padding = (tuple(column) for column in zip(*numbers, strict=True))
    return Window(kernel, stride, padding if any(padding) else 0, ceil_mode=chance(rng, 25))


def draw_axis(rng: Rng, widest: int) -> tuple[int, int, int]:
    """A kernel, a stride up to the kernel and now and then beyond, and a padding of up to half the kernel."""
    kernel = int(rng.integers(2, max(2, widest) + 1))
    if chance(rng, 25):
        kernel = min(kernel, int(rng.integers(2, 4)))
    stride = int(
        pick(rng, {kernel: 35, 1: 20, int(rng.integers(1, kernel + 1)): 42, kernel + int(rng.integers(1, 4)): 3})
    )
    return kernel, stride, int(rng.integers(0, kernel // 2 + 1)) if chance(rng, 50) else 0


def draws(seed: int, count: int, smallest: float = SMALLEST, largest: float = LARGEST) -> list[Drawn]:
    """So many pools; the first ones are the same for every count."""
    rng = np.random.default_rng(seed)
    return [draw(rng, smallest, largest) for _ in range(count)]
