"""Which versions of JAX the engine works with: those that have the foreign function interface it is called through."""

from __future__ import annotations

import re

#: The oldest jax and jaxlib that are tested.
OLDEST = (0, 6, 0)


def check_versions(jax: str, jaxlib: str) -> None:
    """Raises an ImportError for a jax or a jaxlib that is too old.

    >>> check_versions("0.6.0", "0.10.2")
    >>> check_versions("0.4.30", "0.4.30")
    Traceback (most recent call last):
    ImportError: ndpool.jax needs jax and jaxlib 0.6.0 or later, ... and here are jax 0.4.30 and jaxlib 0.4.30; ...
    """
    if min(_numbers(jax), _numbers(jaxlib)) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise ImportError(
            f"ndpool.jax needs jax and jaxlib {needed} or later, whose compiled programs call the engine directly, and "
            f"here are jax {jax} and jaxlib {jaxlib}; pip install --upgrade jax jaxlib"
        )


def _numbers(version: str) -> tuple[int, ...]:
    """The first three numbers of a version, whatever stands behind them.

    >>> _numbers("0.11.1.dev20260401")
    (0, 11, 1)
    """
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
