"""The command `pyramid`: what is typed, as arguments of `ndpool.pyramid.write`, and a cluster to run on."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np

DEMO = "demo"


def run(source: str, target: str, cluster: str | None, scale: str | None, **given: Any) -> Any:
    """Write the pyramid; returns its report."""
    try:
        import zarr  # noqa: F401

        from .. import pyramid
    except ModuleNotFoundError as missing:
        raise ValueError(f"pyramids need {missing.name}; install it with: pip install 'ndpool[zarr]'") from None
    given["scale"] = None if scale is None else sizes_of(scale)
    data: Any = source
    if source == DEMO:
        data, given["axes"] = photograph(), given["axes"] or "cyx"
    if cluster is None:
        return pyramid.write(data, target, **given)
    try:
        from distributed import Client
    except ModuleNotFoundError as missing:
        raise ValueError(f"a cluster needs {missing.name}; install it with: pip install 'ndpool[dask]'") from None
    with Client(cluster, timeout="10s") as client:
        return pyramid.write(data, target, client=client, **given)


def sizes_of(typed: str) -> tuple[float, ...]:
    """The sizes of a cell, with commas.

    >>> sizes_of("0.5,0.1")
    (0.5, 0.1)
    """
    try:
        return tuple(float(each) for each in typed.split(","))
    except ValueError:
        raise ValueError(f"--scale {typed}: these are no numbers; give for example --scale 0.5,0.1,0.1") from None


def photograph() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The photograph that comes along, with its channels first."""
    from PIL import Image

    with files("ndpool").joinpath("data/lake.jpg").open("rb") as file:
        return np.ascontiguousarray(np.asarray(Image.open(file)).transpose(2, 0, 1))
