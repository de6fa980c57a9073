"""The command `pyramid`: what is typed, as arguments of `ndpool.pyramid.write`, and a cluster to run on."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .. import pyramid

DEMO = "demo"


def run(source: str, target: str, cluster: str | None, scale: str | None, **given: Any) -> Any:
    """Write the pyramid; returns its report."""
    given["scale"] = None if scale is None else sizes_of(scale)
    data: Any = source
    if source == DEMO:
        from .demo import photograph

        data, given["axes"] = np.ascontiguousarray(photograph().transpose(2, 0, 1)), given["axes"] or "cyx"
    try:
        if cluster is None:
            return pyramid.write(data, target, **given)
        from distributed import Client

        with Client(cluster, timeout="10s") as client:
            return pyramid.write(data, target, client=client, **given)
    except KeyboardInterrupt:
        print(f"ndpool: {target} is not finished; run again with --resume to go on", file=sys.stderr)
        raise SystemExit(130) from None
    except ModuleNotFoundError as missing:
        extra = "dask" if missing.name == "distributed" else "zarr"
        raise ValueError(f"this needs {missing.name}; install it with: pip install 'ndpool[{extra}]'") from None


def sizes_of(typed: str) -> tuple[float, ...]:
    """The sizes of a cell, with commas.

    >>> sizes_of("0.5,0.1")
    (0.5, 0.1)
    """
    try:
        return tuple(float(each) for each in typed.split(","))
    except ValueError:
        raise ValueError(f"--scale {typed}: these are no numbers; give for example --scale 0.5,0.1,0.1") from None
