"""Test an installed ndpool with NumPy alone: the engine at every instruction level against the specification.

    python tools/smoke.py

It needs nothing but what `pip install ndpool` brings, so it is what every wheel is tested with.
"""

from __future__ import annotations

import sys

import numpy as np

import ndpool
from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window, _engine, spec

POOLS = [
    Pool(kind, window, axes=axes)
    for kind in (Max(), Max("split"), Min("all"), Avg(), Avg(count_include_pad=False), Sum(), SmoothMax(1.5), Lp(2.5))
    for window, axes in (
        (Window((2, 2)), (1, 2)),
        (Window((3, 2), 2, 1), (0, 1)),
        (Window((7,), 1, 3), (2,)),
        (Adaptive((3, 2)), (1, 2)),
        (Global(), (0, 2)),
    )
]
DTYPES = ("float16", "float32", "float64")
SHAPE = (4, 9, 33)


def check(pool: Pool, dtype: str, rng: np.random.Generator) -> None:
    """At every level, forward, JVP and VJP are those of the specification, within the dtype's rounding."""
    x, t = (rng.integers(-8, 9, SHAPE).astype(dtype) for _ in range(2))
    g = rng.standard_normal(pool.output_shape(SHAPE)).astype(dtype)
    y, dy = spec.jvp(pool, *(a.astype(np.float64) for a in (x, t)))
    gx = spec.vjp(pool, *(a.astype(np.float64) for a in (x, g)))
    allowed = 16 * np.finfo(dtype).eps
    for level in _engine.levels():
        _engine.set_level(level)
        assert _engine.level() == level
        value, pullback = pool.vjp(x)
        results = {"y": (pool(x), y), "y of vjp": (value, y), "dy": (pool.jvp(x, t)[1], dy), "gx": (pullback(g), gx)}
        for name, (got, want) in results.items():
            assert got.dtype == x.dtype, f"{name} is {got.dtype}, not {dtype}"
            message = f"{name} of {pool} on {dtype} at the level {level}"
            np.testing.assert_allclose(got, want, rtol=allowed, atol=allowed, err_msg=message)


def main() -> None:
    print(
        f"ndpool {ndpool.__version__} from {ndpool.__file__}, Python {sys.version.split()[0]}, NumPy {np.__version__}"
    )
    assert _engine.levels(), "the engine has no instruction level"
    rng = np.random.default_rng(0)
    for pool in POOLS:
        for dtype in DTYPES:
            check(pool, dtype, rng)
    print(f"{len(POOLS)} pools of {len(DTYPES)} dtypes agree with the specification at {', '.join(_engine.levels())}")


if __name__ == "__main__":
    main()
