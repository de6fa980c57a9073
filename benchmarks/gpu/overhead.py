"""What a call costs the host, on a tensor so small that the device waits for it: ndpool and PyTorch in turns."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

import ndpool.torch.functional
import ndpool.torch.nn

from ..torch_overhead import CALLS, FORMATS, SHAPE, prepared

WORKS = ("no_grad", "forward with grad", "forward + backward")
GOAL = 2.0  # times as long as PyTorch
_CALLS, _TURNS = 200, 7


def _seconds(work: Callable[[], Any], device: str) -> float:
    """For one of many calls, after which the device is waited for."""
    start = time.perf_counter()
    for _ in range(_CALLS):
        work()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / _CALLS


def measured(device: str, turns: int = _TURNS) -> Iterator[dict[str, Any]]:
    for call in CALLS:
        for order, work in ((order, work) for order in FORMATS for work in WORKS):
            x = torch.randn(SHAPE, device=device).to(memory_format=FORMATS[order])
            libraries = {
                "ndpool": (ndpool.torch.functional, ndpool.torch.nn),
                "PyTorch": (torch.nn.functional, torch.nn),
            }
            works = {name: prepared(call.made(*both, "function"), x, work) for name, both in libraries.items()}
            with torch.no_grad() if work == "no_grad" else contextlib.nullcontext():
                for each in works.values():
                    each()
                times = [{name: _seconds(each, device) for name, each in works.items()} for _ in range(turns)]
            seconds = {name: min(turn[name] for turn in times) for name in works}
            yield {"call": call.name, "order": order, "work": work, "seconds": seconds}
