"""Learned weights and biases, and the layer that is a product with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .. import ops
from ..ops import Shape
from ..windows import whole
from .layer import OpLayer, Parameter


class Affine(OpLayer):
    """A product with a learned weight, plus a learned bias unless `bias` is False.

    Weights start normally distributed with variance 2 / (inputs of a cell), which keeps the size of activations through
    ReLUs (He et al. 2015); biases start at 0.
    """

    def __init__(self, shape: Shape, bias: bool, rng: np.random.Generator | int | None, dtype: DTypeLike) -> None:
        if np.dtype(dtype).kind not in "fcV":
            raise TypeError(
                f"dtype={np.dtype(dtype).name!r} does not hold random floats; give a dtype of floats, and for other "
                "numbers set weight.value and bias.value"
            )
        draws = np.random.default_rng(rng).normal(size=shape) * math.sqrt(2 / math.prod(shape[1:]))
        self.weight = Parameter(f"{type(self).__name__}.weight", draws.astype(dtype))
        self.bias = Parameter(f"{type(self).__name__}.bias", np.zeros(shape[0], dtype)) if bias else None

    def parameters(self) -> list[Parameter]:
        """The weight, and the bias if there is one."""
        return [self.weight] if self.bias is None else [self.weight, self.bias]

    def _argument(self, name: str) -> Any:
        if name == "bias":
            return self.bias is not None
        if name == "dtype":
            dtype = self.weight.value.dtype
            return np.float32 if dtype == np.float32 else dtype.name
        return super()._argument(name)


class Dense(Affine):
    """`y = x w^T + bias` on the last axis, from `inputs` cells to `outputs`.

    `rng`, a generator or a seed, draws the first weights. `bias` says whether there is a bias. Both have `dtype`.

    >>> import numpy as np
    >>> Dense(3, 2, rng=0).forward(np.ones((4, 3))).shape
    (4, 2)
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        bias: bool = True,
        rng: np.random.Generator | int | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        self.inputs, self.outputs = whole("inputs", inputs, 1), whole("outputs", outputs, 1)
        super().__init__((self.outputs, self.inputs), bias, rng, dtype)

    def op(self, shape: Shape) -> ops.Linear:
        """`ops.Linear`."""
        return ops.Linear()
