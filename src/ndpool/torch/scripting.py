"""Pools in TorchScript, which knows tensors, numbers and operators but no objects of Python.

There a pool is the plain values of `schema`, and a call goes to the operators `torch.ops.ndpool.*`. So a scripted model
can be saved, and loaded wherever `ndpool.torch` has been imported. What is written here is compiled by TorchScript.
"""

import torch
from torch import Tensor

#: As `schema.encode` gives them. The last are the axes, counted from the end or, if not negative, from the start.
Values = tuple[str, float, str, str, str, list[int], list[int]]


def pooled(x: Tensor, values: Values) -> Tensor:
    """`y`."""
    kind, parameter, option, skip, window, numbers, axes = values
    places = from_the_end(axes, x.dim())
    y: Tensor = torch.ops.ndpool.forward(x, kind, parameter, option, skip, window, numbers, places)
    return y


def pooled_with_indices(x: Tensor, values: Values) -> tuple[Tensor, Tensor]:
    """`y` and the winners' indices."""
    kind, parameter, option, skip, window, numbers, axes = values
    places = from_the_end(axes, x.dim())
    y, found = torch.ops.ndpool.forward_with_indices(x, kind, parameter, option, skip, window, numbers, places)
    return y, found


def averaged(x: Tensor, values: Values, sign: int) -> Tensor:
    """As PyTorch has it: integers stay integers, rounded towards 0, and the divisor may be negative."""
    y = pooled(x, values)
    if not x.is_floating_point():
        y = y.trunc().to(x.dtype)
    return y * sign


def check_dimensions(x: Tensor, rank: int) -> None:
    """Channels and `rank` axes, with or without a batch."""
    if x.dim() != rank + 1 and x.dim() != rank + 2:
        raise ValueError(f"the input has {x.dim()} axes; give {rank + 1}, or {rank + 2} with a batch")


def from_the_end(axes: list[int], ndim: int) -> list[int]:
    """Axes counted from the end of a tensor of `ndim` axes."""
    return [axis - ndim if axis >= 0 else axis for axis in axes]
