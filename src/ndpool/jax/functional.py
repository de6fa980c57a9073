"""ndpool's functions for arrays of JAX, made from the table: the same names, the same arguments, the same numbers.

>>> import jax
>>> import jax.numpy as jnp
>>> jax.vmap(lambda x: avg_pool(x, 2, axes=(0,)))(jnp.array([[1.0, 3.0], [5.0, 9.0]]))
Array([[2.],
[7.]], dtype=float32)
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .. import functional  # noqa: F401 - what is made calls it
from ..making import Style, explained, make
from ..table import TABLE, Pooling
from ..windows import Ints, OutputSize, PaddingLike  # noqa: F401 - annotations of what is made

__all__ = list(TABLE)


def _body(pooling: Pooling, axes: str) -> list[str]:
    """A call of ndpool's own function: a pool knows whose array it is given."""
    given = ["_array(x)"]
    for each in pooling.parameters:
        value = axes if each.name == "axes" else each.name
        given.append(f"{each.name}={value}")
    return [f"return functional.{pooling.name}({', '.join(given)})"]


def _array(x: Any) -> jax.Array:
    """What JAX makes of the input, which may be a list of numbers or a NumPy array."""
    return x if isinstance(x, jax.Array) else jnp.asarray(x)


def _text(pooling: Pooling) -> str:
    return explained(pooling, "jnp.array({})", lambda y: repr(jnp.asarray(y, "int32" if y.dtype.kind == "i" else None)))


STYLE = Style(array="jax.Array", result="jax.Array", body=_body, text=_text)

globals().update(make(TABLE.values(), STYLE, globals()))
