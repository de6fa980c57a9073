"""Who computes: the engine that a tensor's device chooses.

The native engine reads tensors as they lie, with gaps or without. Triton's reads them dense, and bools as bytes.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import torch
from torch import Tensor

#: The module of the engine for each type of device. It is imported when the first such tensor comes.
ENGINES = {"cpu": "ndpool.native", "cuda": "ndpool.triton"}

#: The oldest Triton that has all that the kernels are written in.
OLDEST_TRITON = (3, 5)


def engine_on(device: str) -> ModuleType:
    """The engine for tensors on a device of this type.

    >>> engine_on("cpu").__name__
    'ndpool.native'
    """
    try:
        return import_module(ENGINES[device])
    except (ImportError, AttributeError) as missing:
        computes = f"the tensor is on {device}, where ndpool computes with Triton"
        if isinstance(missing, ModuleNotFoundError) and missing.name == "triton":
            raise NotImplementedError(
                f"{computes}, and there is no module 'triton'; install triton, as PyTorch's CUDA builds do, or call "
                ".cpu() on the tensor"
            ) from None
        oldest, found = ".".join(map(str, OLDEST_TRITON)), import_module("triton").__version__
        if tuple(map(int, found.split(".")[:2])) >= OLDEST_TRITON:
            raise
        raise NotImplementedError(
            f"{computes} {oldest} or later, and here is {found}; install a later PyTorch, which brings a later Triton, "
            "or call .cpu() on the tensor"
        ) from None


def check_device(device: torch.device) -> None:
    """That there is an engine for tensors on this device; those without numbers have none and need none."""
    if device.type not in ENGINES and device.type != "meta":
        raise NotImplementedError(
            f"the tensor is on {device}, for which ndpool has no engine; call .cpu() on it, or PyTorch's own function"
        )


def check_same_device(name: str, a: Tensor, device: torch.device) -> None:
    """That an operand lies where x does: an engine reads addresses, which mean nothing elsewhere."""
    if a.device != device:
        raise ValueError(f"{name} is on {a.device} and x on {device}; give {name}.to({str(device)!r})")
