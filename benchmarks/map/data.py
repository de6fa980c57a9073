"""The arrays of a drawn pool: tensors that lie in memory as its layout says, and NumPy arrays of the same memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from ..cases import numpy_dtype
from .drawing import Drawn


class Data(NamedTuple):
    """An input, and a cotangent; None for integers, whose derivatives are not measured."""

    x: torch.Tensor
    g: torch.Tensor | None


def as_array(a: torch.Tensor) -> np.ndarray[Any, Any]:
    """The same memory as an array; NumPy has bfloat16 from another package."""
    if a.dtype == torch.bfloat16:
        return a.view(torch.int16).numpy().view(numpy_dtype("bfloat16"))
    return a.numpy()


def random_tensor(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, has_ties: bool) -> torch.Tensor:
    """Normal numbers, in quarters where there are to be ties; integers up to 255, or from -1000 to 999."""
    made = getattr(torch, dtype)
    if "float" not in dtype:
        low, high = (0, 256) if dtype == "uint8" else (-1000, 1000)
        return torch.from_numpy(rng.integers(low, high, shape, dtype=dtype))
    numbers = rng.standard_normal(shape, dtype=np.float32)
    return torch.from_numpy(np.round(4 * numbers) / 4 if has_ties else numbers).to(made)


def laid_out(drawn: Drawn, rng: np.random.Generator) -> torch.Tensor:
    """The input: dense in the order of its layout, or every second cell of rows twice as long."""
    shape, ndim = drawn.shape, len(drawn.shape)
    orders = {
        "channels first": tuple(range(ndim)),
        "channels last": (0, *range(2, ndim), 1),
        "fortran": tuple(reversed(range(ndim))),
        "strided": tuple(range(ndim)),
    }
    order = orders[drawn.layout]
    in_memory = [shape[d] for d in order]
    if drawn.layout == "strided":
        in_memory[-1] *= 2
    x = random_tensor(rng, tuple(in_memory), drawn.dtype, drawn.family == "ties")
    x = x.permute(tuple(np.argsort(order)))
    return x[..., ::2] if drawn.layout == "strided" else x


def make(drawn: Drawn, seed: int = 20) -> Data:
    """Random tensors, the same at every call."""
    rng = np.random.default_rng(seed)
    x = laid_out(drawn, rng)
    if not drawn.is_float:
        return Data(x, None)
    return Data(x, random_tensor(rng, drawn.pool.output_shape(drawn.shape), drawn.dtype, has_ties=False))
