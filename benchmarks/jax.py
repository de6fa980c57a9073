"""Pooling inside of JAX's compiled programs, on one thread: ndpool beside lax, Flax and Equinox.

    python -m benchmarks.jax [--quick] [--works REGEX] [--output FOLDER]

Everything is jitted and waited for until it is ready. The contenders take turns, and the best time of each is kept. The
results of all are compared before any is timed. "elsewhere" is what ndpool compiles for other devices, computed here.
The table is written into benchmarks/results/, as Markdown and as JSON.
"""

from __future__ import annotations

import os

# JAX reads this once, when it is imported.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax.linen import pooling as flax
from jax import lax

import ndpool.jax
import ndpool.jax.flax
from ndpool import Max, Pool, Window
from ndpool.jax import elsewhere
from ndpool.plan import plan_of

from .measure import best_times
from .peers import Contender
from .report import RESULTS, cpu_model

IMAGE, VOLUME, TINY = (8, 64, 112, 112), (8, 32, 32, 64, 64), (1, 4, 8, 8)


@dataclass(frozen=True)
class Work:
    """One function of x by ndpool and by others; how many times as fast as each of the others ndpool is to be."""

    name: str
    shape: tuple[int, ...]
    ours: Callable[[Any], Any]
    peers: dict[str, Callable[[Any], Any]]
    at_least: float | None = None
    #: Ndpool's time is to be so many seconds longer than the peer's at most.
    at_most_longer: float | None = None
    #: Whether all compute the same, and not only as much.
    alike: bool = True


def value_and_gradient(pool: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The output and the gradient for a cotangent that is the output itself."""

    def both(x: Any) -> Any:
        y, pullback = jax.vjp(pool, x)
        return y, pullback(y)[0]

    return both


def by_lax(reduce: Any, least: float, kernel: int, stride: int, padding: int, rank: int) -> Callable[[Any], Any]:
    """The last `rank` axes of five or four."""

    def pool(x: Any) -> Any:
        ones, pads = (1,) * (x.ndim - rank), ((0, 0),) * (x.ndim - rank) + ((padding, padding),) * rank
        return lax.reduce_window(x, least, reduce, ones + (kernel,) * rank, ones + (stride,) * rank, pads)

    return pool


def smooth_by_patches(x: Any) -> Any:
    """The log-sum-exp of 2 x 2 blocks, as one writes it in JAX."""
    patches = lax.conv_general_dilated_patches(x.reshape(-1, 1, *x.shape[-2:]), (2, 2), (2, 2), "VALID")
    return jax.nn.logsumexp(patches, axis=1).reshape(*x.shape[:2], x.shape[2] // 2, x.shape[3] // 2)


def max_elsewhere(x: Any) -> Any:
    plan = plan_of(Pool(Max(), Window((3, 3), stride=2, padding=1), axes=(-2, -1)), x.shape, "float32")
    y, winners = elsewhere.linearize(plan, x)
    return y, elsewhere.pull(plan, y, winners)


def pools() -> list[Work]:
    found = []
    for kernel, stride, padding in ((2, 2, 0), (3, 2, 1)):
        case = f"k{kernel}s{stride}p{padding}"
        flaxs = ((kernel, kernel), (stride, stride), ((padding, padding),) * 2)

        def largest(x: Any, at: tuple[int, ...] = (kernel, stride, padding)) -> Any:
            return ndpool.jax.max_pool2d(x, *at)

        def mean(x: Any, at: tuple[int, ...] = (kernel, stride, padding)) -> Any:
            return ndpool.jax.avg_pool2d(x, *at)

        def their_mean(x: Any, at: tuple[int, ...] = (kernel, stride, padding)) -> Any:
            return by_lax(lax.add, 0.0, *at, rank=2)(x) / at[0] ** 2

        def last(x: Any, f: Any, at: Any = flaxs) -> Any:
            return f(x, *at)

        lax_max = by_lax(lax.max, -jnp.inf, kernel, stride, padding, rank=2)
        more = {"elsewhere": max_elsewhere} if kernel == 3 else {}
        channels_last = (8, 112, 112, 64)
        found += [
            Work(f"max {case}, value", IMAGE, largest, {"lax": lax_max}, 4),
            Work(
                f"max {case}, value and gradient",
                IMAGE,
                value_and_gradient(largest),
                {"lax": value_and_gradient(lax_max)} | more,
                30,
            ),
            Work(f"avg {case}, value", IMAGE, mean, {"lax": their_mean}, 2),
            Work(
                f"avg {case}, value and gradient",
                IMAGE,
                value_and_gradient(mean),
                {"lax": value_and_gradient(their_mean)},
                8,
            ),
            Work(
                f"Flax, max {case}, value and gradient, channels last",
                channels_last,
                value_and_gradient(lambda x, last=last: last(x, ndpool.jax.flax.max_pool)),
                {"Flax": value_and_gradient(lambda x, last=last: last(x, flax.max_pool))},
                30,
            ),
        ]
    return found


def others() -> list[Work]:
    volume = by_lax(lax.max, -jnp.inf, 2, 2, 0, rank=3)

    def adaptive(x: Any) -> Any:
        return ndpool.jax.adaptive_avg_pool2d(x, (7, 7))

    # 112 is 16 times 7, so that Equinox has the same bins.
    equinoxs = jax.vmap(equinox.nn.AdaptiveAvgPool2d((7, 7)))
    works = [
        Work(
            "max 3-D k2s2, value and gradient",
            VOLUME,
            value_and_gradient(lambda x: ndpool.jax.max_pool3d(x, 2)),
            {"lax": value_and_gradient(volume)},
            20,
        ),
        Work(
            "smooth max k2s2, value",
            IMAGE,
            lambda x: ndpool.jax.smooth_max_pool2d(x, 1.0, 2),
            {"logsumexp of patches": smooth_by_patches},
            10,
        ),
        Work(
            "smooth max k2s2, value and gradient",
            IMAGE,
            value_and_gradient(lambda x: ndpool.jax.smooth_max_pool2d(x, 1.0, 2)),
            {"logsumexp of patches": value_and_gradient(smooth_by_patches)},
            10,
        ),
        Work("adaptive avg (7, 7), value", IMAGE, adaptive, {"Equinox": equinoxs}, 10),
        Work(
            "adaptive avg (7, 7), value and gradient",
            IMAGE,
            value_and_gradient(adaptive),
            {"Equinox": value_and_gradient(equinoxs)},
            10,
        ),
        Work(
            "a call on (1, 4, 8, 8)",
            TINY,
            lambda x: ndpool.jax.max_pool2d(x, 2) * 1.0,
            {"x[..., ::2, ::2]": lambda x: x[..., ::2, ::2] * 1.0},
            at_most_longer=10e-6,
            alike=False,
        ),
        Work("a step of a CNN", (16, 64, 64, 3), step(ndpool.jax.flax), {"Flax": step(flax)}),
    ]
    return works


def step(pooling: Any) -> Callable[[Any], Any]:
    """A small network in Flax: its loss, and the gradients in all its weights."""

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            for channels in (16, 32):
                x = nn.relu(nn.Conv(channels, (3, 3))(x))
                x = pooling.max_pool(x, (3, 3), (2, 2), "SAME")
            x = pooling.avg_pool(x, (2, 2), (2, 2))
            return nn.Dense(10)(x.reshape(len(x), -1))

    network = Network()
    weights = network.init(jax.random.key(0), jnp.zeros((1, 64, 64, 3)))

    def loss(weights: Any, x: Any) -> Any:
        return -jax.nn.log_softmax(network.apply(weights, x))[:, 3].mean()

    return lambda x: jax.value_and_grad(loss)(weights, x)


# --- the report -----------------------------------------------------------------------------------


def measured(work: Work, budget_s: float) -> dict[str, Any]:
    x = jax.random.normal(jax.random.key(0), work.shape, "float32")
    functions = {name: jax.jit(f) for name, f in {"ndpool": work.ours, **work.peers}.items()}
    expected = jax.tree.leaves(functions["ndpool"](x))
    for name, function in functions.items() if work.alike else ():
        for found, wanted in zip(jax.tree.leaves(function(x)), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4, err_msg=name)

    def run(function: Any) -> Callable[[], Any]:
        return lambda: jax.block_until_ready(function(x))

    contenders = {name: Contender(run(function), tuple, "") for name, function in functions.items()}
    seconds = best_times(contenders, budget_s)
    return {"work": work.name, "shape": work.shape, "seconds": seconds, "target": target(work, seconds)}


def target(work: Work, seconds: dict[str, float]) -> str:
    theirs = next(iter(work.peers))
    if work.at_most_longer is not None:
        longer = seconds["ndpool"] - seconds[theirs]
        said = f"≤ {work.at_most_longer * 1e6:g} us longer: {longer * 1e6:+.1f} us"
        return f"{said}, {'met' if longer <= work.at_most_longer else 'missed'}"
    if work.at_least is None:
        return "—"
    met = seconds[theirs] / seconds["ndpool"] >= work.at_least
    return f"≥ {work.at_least:g} x as fast as {theirs}: {'met' if met else 'missed'}"


def shown(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds > 1e-4 else f"{seconds * 1e6:.1f} us"


def line(record: dict[str, Any]) -> str:
    seconds = dict(record["seconds"])
    mine = seconds.pop("ndpool")
    peers = ", ".join(f"{name} {shown(each)} ({each / mine:.1f} x)" for name, each in seconds.items())
    return f"| {record['work']} | {record['shape']} | {shown(mine)} | {peers} | {record['target']} |"


def report(records: list[dict[str, Any]]) -> str:
    head = [
        "# Pooling in JAX\n",
        f"{cpu_model()}, 1 thread; jax {jax.__version__}, equinox {equinox.__version__}; float32.\n",
        "Behind a peer's time stands how many times ndpool's it is. \"elsewhere\" is what ndpool compiles for devices "
        "without its engine, computed on this one.\n",
        "| work | shape | ndpool | peers | target |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*head, *map(line, records), ""])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jax", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions: less precise")
    parser.add_argument("--works", default="", metavar="REGEX", help="those whose names match; default: all")
    parser.add_argument("--output", default=RESULTS, type=Path, metavar="FOLDER", help="default: %(default)s")
    options = parser.parse_args()
    ndpool.set_num_threads(1)
    records = []
    for work in (*pools(), *others()):
        if re.search(options.works, work.name):
            records.append(measured(work, 0.1 if options.quick else 1.0))
            print(line(records[-1]), flush=True)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "jax.json").write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n")
    (options.output / "jax.md").write_text(report(records))
    print(f"See jax.md and jax.json in {options.output}.")


if __name__ == "__main__":
    main()
