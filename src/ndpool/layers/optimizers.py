"""Optimizers: steps against the gradients that backward left."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from ..ops import Array, lifted
from .layer import Parameter


class _Optimizer(ABC):
    """Takes a step against the gradients that backward left. Values are replaced, never written into."""

    def __init__(self, parameters: Iterable[Parameter], lr: float) -> None:
        self.parameters = list(parameters)
        for i, parameter in enumerate(self.parameters):
            if not isinstance(parameter, Parameter):
                raise TypeError(f"parameters[{i}]={parameter!r} is not a Parameter; give layer.parameters()")
            if parameter in self.parameters[:i]:
                raise ValueError(f"parameters[{i}] is {parameter.name!r} again, and would take two steps; give it once")
        self.lr = _in_range("lr", lr, 0, math.inf)
        self.steps = 0

    @abstractmethod
    def _change(self, i: int, grad: Array) -> Array:
        """What to subtract from the i-th parameter, divided by lr."""

    def step(self) -> None:
        """`value = value - lr * change` for each parameter."""
        self.steps += 1
        for i, parameter in enumerate(self.parameters):
            if parameter.grad is None:
                raise RuntimeError(f"parameter {parameter.name!r} has no gradient; call backward before step")
            change = self._change(i, parameter.grad)
            parameter.value = np.asarray(parameter.value - lifted(self.lr, change) * change)


class SGD(_Optimizer):
    """`v = momentum * v + grad`, `value -= lr * v`, where v starts at 0.

    With Fractions for `lr` and `momentum`, the steps of exact parameters are exact.

    >>> import numpy as np
    >>> p = Parameter("p", np.array([1.0]), grad=np.array([2.0]))
    >>> SGD([p], lr=0.1).step()
    >>> p.value
    array([0.8])
    """

    def __init__(self, parameters: Iterable[Parameter], lr: float, *, momentum: float = 0.0) -> None:
        super().__init__(parameters, lr)
        self.momentum = _in_range("momentum", momentum, 0, 1)
        self._velocity: list[Array | None] = [None] * len(self.parameters)

    def _change(self, i: int, grad: Array) -> Array:
        before = self._velocity[i]
        velocity = grad if before is None else np.asarray(lifted(self.momentum, before) * before + grad)
        self._velocity[i] = velocity
        return velocity


class Adam(_Optimizer):
    """`m = b1 m + (1 - b1) grad`, `v = b2 v + (1 - b2) grad^2`, `value -= lr * m' / (sqrt(v') + eps)`.

    m' and v' are m and v divided by `1 - b^steps`, which undoes their start from 0 (Kingma and Ba 2015).

    >>> import numpy as np
    >>> p = Parameter("p", np.array([1.0]), grad=np.array([2.0]))
    >>> Adam([p], lr=0.1).step()
    >>> p.value.round(6)
    array([0.9])
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(parameters, lr)
        self.betas = _in_range("betas[0]", betas[0], 0, 1), _in_range("betas[1]", betas[1], 0, 1)
        self.eps = _in_range("eps", eps, 0, math.inf)
        self._mean = [np.zeros_like(p.value) for p in self.parameters]
        self._square = [np.zeros_like(p.value) for p in self.parameters]

    def _change(self, i: int, grad: Array) -> Array:
        if grad.dtype.kind == "O":
            raise TypeError(f"the gradient of {self.parameters[i].name!r} has exact numbers, and Adam a root; use SGD")
        b1, b2 = self.betas
        self._mean[i] = b1 * self._mean[i] + (1 - b1) * grad
        self._square[i] = b2 * self._square[i] + (1 - b2) * grad * grad
        mean, square = self._mean[i] / (1 - b1**self.steps), self._square[i] / (1 - b2**self.steps)
        return np.asarray(mean / (np.sqrt(square) + self.eps))


def _in_range(name: str, value: Any, low: float, high: float) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction | np.integer | np.floating):
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}; give a number")
    if not low <= value < high:
        raise ValueError(f"{name}={value!r} must be at least {low} and less than {high}")
    return value if isinstance(value, Fraction) else float(value)
