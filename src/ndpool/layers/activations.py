"""Activations."""

from __future__ import annotations

from .. import ops
from ..ops import Shape
from .layer import OpLayer


class ReLU(OpLayer):
    """`y = max(x, 0)`.

    >>> ReLU().forward([-1.0, 2.0])
    array([0., 2.])
    """

    def op(self, shape: Shape) -> ops.Relu:
        """`ops.Relu`."""
        return ops.Relu()
