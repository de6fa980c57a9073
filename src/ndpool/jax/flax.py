"""The pooling functions of `flax.linen` (and of `flax.nnx`), by the same names and with the same arguments.

Put `from ndpool.jax.flax import avg_pool, max_pool, min_pool` in the place of Flax's. Channels come last, any number of
axes may stand in front, and strides are 1 unless they are given. Flax itself is not needed.

>>> import jax.numpy as jnp
>>> x = jnp.arange(16.0).reshape(1, 4, 4, 1)
>>> max_pool(x, (2, 2), strides=(2, 2))[0, :, :, 0]
Array([[ 5.,  7.],
       [13., 15.]], dtype=float32)
>>> avg_pool(x, (3, 3), strides=(2, 2), padding="SAME", count_include_pad=False)[0, :, :, 0]
Array([[ 5. ,  6.5],
       [11. , 12.5]], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from ..kind import Kind
from ..kinds import Avg, Max, Min
from ..pool import Pool
from ..windows import Window

__all__ = ["avg_pool", "max_pool", "min_pool"]

#: "VALID", "SAME", or a pair for each axis.
Padding: TypeAlias = str | Sequence[tuple[int, int]]


def max_pool(
    inputs: Any, window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Padding = "VALID"
) -> jax.Array:
    """The largest cell of each window: `y = max x_i`, as `flax.linen.max_pool`."""
    return _pooled(Max(), inputs, window_shape, strides, padding)


def min_pool(
    inputs: Any, window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Padding = "VALID"
) -> jax.Array:
    """The smallest cell of each window: `y = min x_i`, as `flax.linen.min_pool`."""
    return _pooled(Min(), inputs, window_shape, strides, padding)


def avg_pool(
    inputs: Any,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    count_include_pad: bool = True,
) -> jax.Array:
    """The mean of each window: `y = (sum x_i) / n`, as `flax.linen.avg_pool`."""
    return _pooled(Avg(count_include_pad), inputs, window_shape, strides, padding)


def _pooled(
    kind: Kind, inputs: Any, window_shape: Sequence[int], strides: Sequence[int] | None, padding: Padding
) -> jax.Array:
    if isinstance(padding, int):
        raise TypeError(f'padding={padding!r} is an int; give "VALID", "SAME" or a (low, high) pair for each axis')
    kernel = tuple(window_shape)
    window = Window(
        kernel,
        stride=tuple(strides) if strides else 1,
        padding=padding.lower() if isinstance(padding, str) else tuple(map(tuple, padding)),
    )
    axes = tuple(range(-len(kernel) - 1, -1))  # the last one has the channels
    pooled: jax.Array = Pool(kind, window, axes)(jnp.asarray(inputs))
    return pooled
