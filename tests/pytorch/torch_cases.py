"""Pools of every kind over every window, and inputs without ties, for the tests of the PyTorch adapter."""

from __future__ import annotations

import os

import pytest
import torch

from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window

#: Where the suite runs: "cpu" or "cuda".
DEVICE = os.environ.get("NDPOOL_TEST_DEVICE", "cpu")

#: A test of what PyTorch itself does otherwise, or cannot compile, before 2.13.
since_2_13 = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13), reason="it needs PyTorch 2.13"
)

KINDS = [
    *(kind(ties) for kind in (Max, Min) for ties in ("first", "split", "all")),
    Avg(),
    Avg(count_include_pad=False),
    Avg(divisor_override=3),
    Sum(),
    SmoothMax(1.5),
    SmoothMax(-0.5, count_include_pad=False),
    Lp(1),
    Lp(2),
    Lp(2.5),
    Lp(3),
]
WINDOWS = {
    "overlapping": Window(3, 2, 1),
    "same, dilated": Window(2, 1, "same", 2),
    "asymmetric, ceil": Window((2, 3), 2, ((0, 1), (1, 0)), ceil_mode=True),
    "adaptive": Adaptive((2, None)),
    "global": Global(),
    "global, flat": Global(keepdims=False),
}
POOLS = [Pool(kind, window, (-2, -1)) for kind in KINDS for window in WINDOWS.values()]
#: Each kind over one window, for tests that need no more.
FEW_POOLS = [Pool(kind, WINDOWS["overlapping"], (-2, -1)) for kind in KINDS]


def distinct(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Numbers in random order, no two alike or close to 0, of both signs."""
    count = torch.Size(shape).numel()
    return ((torch.randperm(count) + 0.5 - count // 2) / max(count // 2, 1)).reshape(shape).to(dtype)
