"""The gradient of a max pool by JAX on a GPU: ndpool's way in lax operations beside lax's own.

    python -m benchmarks.jax_gpu [--batch N] [--output FOLDER]

Max 3/2 with padding 1 over (N, 64, 224, 224) float32. Each way is compared with the NumPy engine on a part of the
batch, and then timed, jitted, until its result is ready. The median is kept. "value" is the forward pass alone, "way
back" the pull from the winners alone, in two forms. The table goes to FOLDER as jax_gpu.md and jax_gpu.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import ndpool
import ndpool.jax
from ndpool.jax import elsewhere
from ndpool.plan import Plan, plan_of

from .report import RESULTS

POOL = ndpool.Pool(ndpool.Max(), ndpool.Window((3, 3), stride=2, padding=1), axes=(-2, -1))
RUNS = 15


def theirs(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1)))


def ours(x: Any) -> Any:
    return ndpool.jax.max_pool2d(x, 3, 2, padding=1)


def gradient(pool: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return jax.jit(lambda x, g: jax.vjp(pool, x)[1](g)[0])


def pull_by_pads(plan: Plan, g: Any, winners: Any) -> Any:
    """The pull as one sum: for each place in a window, what it won, with zeros between and around."""
    total = jnp.zeros(plan.shape, g.dtype)
    for number, place in enumerate(itertools.product(*(range(axis.kernel) for axis in plan.geometry))):
        config = [(0, 0, 0)] * g.ndim
        for k, d, axis in zip(place, plan.axes, plan.geometry, strict=True):
            lo = k * axis.dilation - axis.pad_lo
            config[d] = (lo, axis.length - lo - (axis.output - 1) * axis.stride - 1, axis.stride - 1)
        total = total + lax.pad(jnp.where(winners == number, g, 0), jnp.zeros((), g.dtype), config)
    return total


def median_seconds(work: Callable[[], Any]) -> float:
    jax.block_until_ready(work())
    found = []
    for _ in range(RUNS):
        start = time.perf_counter()
        jax.block_until_ready(work())
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def check(x: Any, g: Any, works: dict[str, Callable[[Any, Any], Any]]) -> None:
    """That all gradients of a part of the batch are the NumPy engine's."""
    _, pullback = POOL.vjp(np.asarray(x))
    expected = pullback(np.asarray(g))
    for name, work in works.items():
        np.testing.assert_allclose(np.asarray(work(x, g)), expected, rtol=1e-6, atol=1e-6, err_msg=name)


def measured(batch: int) -> dict[str, float]:
    shape = (batch, 64, 224, 224)
    plan = plan_of(POOL, shape, "float32")
    x, g = (jax.random.normal(jax.random.key(i), s, "float32") for i, s in enumerate((shape, plan.output_shape)))
    gradients = {"lax": gradient(theirs), "ndpool": gradient(ours)}
    check(x[:2], g[:2], gradients)
    values = {"lax": jax.jit(theirs), "ndpool": jax.jit(ours)}
    winners = jax.jit(lambda x: elsewhere.linearize(plan, x)[1])(x)
    backs = {
        "phases": jax.jit(lambda g, winners: elsewhere.pull(plan, g, winners)),
        "pads": jax.jit(lambda g, winners: pull_by_pads(plan, g, winners)),
    }
    np.testing.assert_array_equal(*(np.asarray(back(g, winners)[:1]) for back in backs.values()))
    seconds = {f"gradient, {name}": median_seconds(lambda work=work: work(x, g)) for name, work in gradients.items()}
    seconds |= {f"value, {name}": median_seconds(lambda work=work: work(x)) for name, work in values.items()}
    return seconds | {
        f"way back, {name}": median_seconds(lambda back=back: back(g, winners)) for name, back in backs.items()
    }


def report(seconds: dict[str, float], batch: int) -> str:
    gain = seconds["gradient, lax"] / seconds["gradient, ndpool"]
    rows = [f"| {name} | {1e3 * each:.3f} ms |" for name, each in seconds.items()]
    head = [
        "# The gradient of a max pool by JAX on a GPU\n",
        f"{jax.devices()[0].device_kind}, JAX {jax.__version__}. Max 3/2, padding 1, ({batch}, 64, 224, 224) floats.\n",
        f"ndpool's gradient is {gain:.2f} x as fast as lax's.\n",
        "| work | median |",
        "|---|---|",
    ]
    return "\n".join([*head, *rows, ""])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jax_gpu", description=__doc__)
    parser.add_argument("--batch", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--output", default=RESULTS, type=Path, metavar="FOLDER", help="default: %(default)s")
    options = parser.parse_args()
    seconds = measured(options.batch)
    text = report(seconds, options.batch)
    options.output.mkdir(parents=True, exist_ok=True)
    about = {"device": jax.devices()[0].device_kind, "jax": jax.__version__, "batch": options.batch, "seconds": seconds}
    (options.output / "jax_gpu.json").write_text(json.dumps(about, indent=1) + "\n")
    (options.output / "jax_gpu.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
