"""Pooling modules: PyTorch's own with ndpool inside, and ndpool's functions with their arguments.

A module that PyTorch has is a subclass of PyTorch's, with its constructor and its attributes: it fits wherever that
fits. The others are functions of `functional` that remember their arguments. Both check these when they are made, and
show in a printed model whose they are:

    >>> MaxPool2d(3, stride=2, padding=1)
    ndpool.MaxPool2d(kernel_size=3, stride=2, padding=1, dilation=1, ceil_mode=False)
    >>> SmoothMaxPool2d(2.0, 3)
    ndpool.SmoothMaxPool2d(beta=2.0, kernel_size=3)

A beta that is a `torch.nn.Parameter` is trained with the model.
"""

from __future__ import annotations

from types import new_class
from typing import Any

import torch

from ..table import TABLE
from . import functional, modules
from .signatures import SPELLED

#: PyTorch's modules, without the number in their names: the class that they are made of, and their function.
FAMILIES: dict[str, tuple[type, str]] = {
    "MaxPool": (modules.MaxPooling, "max_pool"),
    "MaxUnpool": (modules.MaxUnpooling, "max_unpool"),
    "AvgPool": (modules.AvgPooling, "avg_pool"),
    "LPPool": (modules.LPPooling, "lp_pool"),
    "AdaptiveMaxPool": (modules.AdaptiveMaxPooling, "adaptive_max_pool"),
    "AdaptiveAvgPool": (modules.AdaptiveAvgPooling, "adaptive_avg_pool"),
}


def _named(name: str, bases: tuple[type, ...], **more: Any) -> Any:
    return new_class(name, bases, more, lambda body: body.update(__module__=__name__))


class Pool(modules.Remembering, function=functional.pool):
    """Any `ndpool.Pool`.

    >>> from ndpool import Max, Window
    >>> from ndpool import Pool as Over
    >>> Pool(Over(Max("split"), Window((2, 2))))(torch.eye(4)).shape
    torch.Size([2, 2])
    """


for _family, (_base, _function) in FAMILIES.items():
    for _rank in (1, 2, 3):
        _name = f"{_family}{_rank}d"
        _bases = (_base, getattr(torch.nn, _name))
        globals()[_name] = _named(_name, _bases, function=SPELLED[f"{_function}{_rank}d"])

for _pooling in TABLE.values():
    if _pooling.name not in SPELLED:
        _bases = (modules.Remembering,)
        globals()[_pooling.class_name] = _named(
            _pooling.class_name, _bases, function=getattr(functional, _pooling.name)
        )
