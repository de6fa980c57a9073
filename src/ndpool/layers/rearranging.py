"""The same cells in another shape."""

from __future__ import annotations

from .. import ops
from ..ops import Shape
from .layer import OpLayer


class Flatten(OpLayer):
    """All axes but the batch as one.

    >>> import numpy as np
    >>> Flatten().forward(np.zeros((2, 3, 4))).shape
    (2, 12)
    """

    def op(self, shape: Shape) -> ops.Flatten:
        """`ops.Flatten`."""
        return ops.Flatten()
