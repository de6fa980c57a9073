"""The pooling modules of `equinox.nn`, by the same names and with the same arguments.

Put `ndpool.jax.equinox.MaxPool2d` in the place of `equinox.nn.MaxPool2d`: what it makes is a module of that class, with
the same fields, and the engine computes it. The adaptive ones have PyTorch's bins, for any target: those of Equinox
differ where the target does not divide the axis, and divide by zero where it is longer.

>>> import jax.numpy as jnp
>>> MaxPool2d(2, stride=2)(jnp.arange(16.0).reshape(1, 4, 4))
Array([[[ 5.,  7.],
        [13., 15.]]], dtype=float32)
>>> AdaptiveAvgPool1d(3)(jnp.array([[1.0, 2.0, 3.0, 4.0]]))
Array([[1.5, 2.5, 3.5]], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Callable
from types import new_class
from typing import Any

import equinox
import jax

from ..kind import Kind
from ..kinds import Avg, Max
from ..pool import Pool
from ..windows import Adaptive, AnyWindow, Window

__all__ = [
    f"{adaptive}{kind}Pool{rank}d" for adaptive in ("", "Adaptive") for kind in ("Max", "Avg") for rank in (1, 2, 3)
]


def _window(module: Any, x: jax.Array) -> AnyWindow:
    """The window of a module. With `use_ceil`, Equinox pads by another stride where cells would be left over."""
    padding = module._update_padding_for_ceil(x.shape) if module.use_ceil else module.padding
    return Window(module.kernel_size, module.stride, padding)


def _bins(module: Any, x: jax.Array) -> AnyWindow:
    return Adaptive(tuple(module.target_shape))


def _call(kind: Kind, window_of: Callable[[Any, jax.Array], AnyWindow], rank: int) -> Any:
    def call(self: Any, x: jax.Array, *, key: Any = None) -> Any:
        """`(channels, ...)` pooled over all axes but the first; `key` is not looked at."""
        if x.ndim != rank + 1:
            raise ValueError(
                f"{type(self).__name__} got an array of shape {x.shape}; give channels and {rank} axes, and call "
                "jax.vmap for a batch of such"
            )
        return Pool(kind, window_of(self, x))(x)

    return call


def _made(name: str) -> Any:
    """The module of this name, by the engine."""
    theirs = getattr(equinox.nn, name)
    kind = Max() if "Max" in name else Avg()
    call = _call(kind, _bins if name.startswith("Adaptive") else _window, int(name[-2]))
    members = {
        "__call__": call,
        "__doc__": f"`equinox.nn.{name}`, computed by the engine.",
        "__module__": __name__,
        "__init__": theirs.__init__,
    }
    return new_class(name, (theirs,), exec_body=lambda namespace: namespace.update(members))


globals().update({name: _made(name) for name in __all__})
