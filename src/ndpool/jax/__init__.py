"""ndpool for JAX: the engine inside of compiled programs, differentiable to every order, on any device.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> import ndpool.jax
    >>> x = jnp.array([[1.0, 2.0], [4.0, 3.0]])
    >>> jax.jit(lambda x: ndpool.jax.max_pool(x, (2, 2)))(x)
    Array([[4.]], dtype=float32)
    >>> jax.grad(lambda x: ndpool.jax.max_pool(x, (2, 2)).sum())(x)
    Array([[0., 0.],
           [1., 0.]], dtype=float32)

It has ndpool's functions, by the same names and with the same arguments. `ndpool.jax.flax` has those of `flax.linen`,
and `ndpool.jax.equinox` the modules of `equinox.nn`. A `Pool` takes arrays of JAX as well.
"""

import jax
import jaxlib

from .versions import check_versions

check_versions(jax.__version__, jaxlib.__version__)

from . import cpu  # noqa: E402 - what follows needs such versions

cpu.register()

from .cpu import export_checks as export_checks  # noqa: E402
from .functional import *  # noqa: E402, F403
from .functional import __all__ as _functions  # noqa: E402

__all__ = [*_functions, "export_checks"]
