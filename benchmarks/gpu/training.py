"""A training step of a ResNet-50's stem and of a U-Net's level, float32 and autocast, before and after `convert`."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ndpool.torch import convert

from ..torch_end_to_end import resnet_stem, unet_level
from .timing import median_seconds

NETWORKS: dict[str, tuple[Callable[[], torch.nn.Module], tuple[int, ...]]] = {
    "ResNet-50 stem": (resnet_stem, (128, 3, 224, 224)),
    "U-Net level": (unet_level, (16, 32, 256, 256)),
}
NUMBERS = ("float32", "autocast to bfloat16")
FORMATS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}


def _step(model: torch.nn.Module, x: torch.Tensor, numbers: str) -> Callable[[], None]:
    def step() -> None:
        model.zero_grad(set_to_none=True)
        with torch.autocast(x.device.type, torch.bfloat16) if numbers != "float32" else contextlib.nullcontext():
            y = model(x)
        y.float().square().mean().backward()

    return step


def _models(make: Callable[[], torch.nn.Module], order: torch.memory_format, device: str) -> dict[str, torch.nn.Module]:
    torch.manual_seed(0)
    plain = make().to(device).to(memory_format=order)
    mine = copy.deepcopy(plain)
    convert(mine)
    return {"PyTorch": plain, "ndpool": mine}


def measured(device: str, budget_s: float) -> Iterator[dict[str, Any]]:
    for (name, (make, shape)), numbers, order in itertools.product(NETWORKS.items(), NUMBERS, FORMATS):
        shape = shape if device == "cuda" else (1, *shape[1:2], 32, 32)
        x = torch.randn(shape, device=device).to(memory_format=FORMATS[order])
        models = _models(make, FORMATS[order], device)
        seconds = {who: median_seconds(_step(model, x, numbers), device, budget_s) for who, model in models.items()}
        yield {"network": name, "numbers": numbers, "order": order, "shape": shape, "seconds": seconds}
