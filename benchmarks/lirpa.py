"""auto_LiRPA beside ndpool: its bounds of a network with max pooling.

    pip install --no-deps --target build/lirpa auto_LiRPA==0.3
    PYTHONPATH=build/lirpa python -m benchmarks.verified --parts gaps

auto_LiRPA 0.3, the latest that can be installed by name, was written for PyTorch 1.12 and NumPy 1. What it takes from
inside these, and has another place or name today, is given to it here. Nothing of its mathematics is touched.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import tempfile
import types
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

WANTED = "auto_LiRPA is not installed; benchmarks/lirpa.py says how"


def auto_lirpa() -> Any:
    """The package; an ImportError that says how to install it."""
    if importlib.util.find_spec("auto_LiRPA") is None:
        raise ImportError(WANTED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is old in it
        _give_back_what_moved()
        lirpa = importlib.import_module("auto_LiRPA")
    members = lirpa.BoundedModule._named_members
    if not hasattr(members, "__wrapped__"):

        @functools.wraps(members)
        def named_members(self: Any, *args: Any, remove_duplicate: bool = True, **options: Any) -> Any:
            return members(self, *args, **options)

        lirpa.BoundedModule._named_members = named_members
    return lirpa


def _give_back_what_moved() -> None:
    import torch

    helper, utils = (importlib.import_module(f"torch.onnx.{name}") for name in ("symbolic_helper", "utils"))
    sets: Any = types.ModuleType("numpy.lib.arraysetops")
    sets.isin = np.isin
    sys.modules.setdefault("numpy.lib.arraysetops", sets)
    folders: Any = types.ModuleType("appdirs")
    folders.user_data_dir = folders.user_cache_dir = lambda *_, **__: tempfile.gettempdir()
    sys.modules.setdefault("appdirs", folders)
    try:
        from torch.onnx._internal.torchscript_exporter import utils as exporter
        from torch.onnx._internal.torchscript_exporter._globals import GLOBALS
    except ImportError:  # PyTorch before 2.9
        from torch.onnx import utils as exporter
        from torch.onnx._globals import GLOBALS
    utils._optimize_graph = exporter._optimize_graph
    helper._set_opset_version = lambda _: setattr(GLOBALS, "export_onnx_opset_version", 12)
    torch.onnx.OperatorExportTypes = torch._C._onnx.OperatorExportTypes
    torch._C.Node.__getitem__ = lambda node, name: getattr(node, node.kindOf(name))(name)


def lenet(weights: Sequence[np.ndarray]) -> Any:
    """The network of `benchmarks.verified` in PyTorch, in the floats that auto_LiRPA computes with."""
    from torch import float32, nn, tensor

    first, second, third, fourth = weights
    net = nn.Sequential(
        nn.Conv2d(1, first.shape[0], 3, bias=False),
        nn.ReLU(),
        nn.MaxPool2d(2, 2),
        nn.Conv2d(first.shape[0], second.shape[0], 3, bias=False),
        nn.ReLU(),
        nn.MaxPool2d(2, 2),
        nn.Flatten(),
        nn.Linear(third.shape[1], third.shape[0], bias=False),
        nn.ReLU(),
        nn.Linear(fourth.shape[1], fourth.shape[0], bias=False),
    )
    for place, values in zip((0, 3, 7, 9), weights, strict=True):
        net[place].weight.data = tensor(values, dtype=float32)
    return net


def bounds(net: Any, x: np.ndarray, eps: float, method: str) -> tuple[np.ndarray, np.ndarray]:
    """auto_LiRPA's bounds of a network over all inputs within eps of x, by "IBP" or "CROWN"."""
    from torch import float32, tensor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of how it traces the network
        lirpa = auto_lirpa()
        point = tensor(x, dtype=float32)
        box = lirpa.BoundedTensor(point, lirpa.PerturbationLpNorm(norm=np.inf, eps=eps))
        low, high = lirpa.BoundedModule(net, point).compute_bounds(x=(box,), method=method)
    return low.detach().numpy(), high.detach().numpy()


def of_a_pool(**window: Any) -> tuple[np.ndarray, np.ndarray]:
    """Its bounds by CROWN of PyTorch's MaxPool2d and a dense layer, over 9 x 9 cells; it refuses many windows."""
    from torch import nn, zeros

    pool = nn.Sequential(nn.MaxPool2d(**window), nn.Flatten())
    dense = nn.Linear(pool(zeros(1, 1, 9, 9)).shape[1], 2)
    return bounds(nn.Sequential(pool, dense), np.random.default_rng(0).normal(size=(1, 1, 9, 9)), 1e-3, "CROWN")
