"""Images, labels and measurements: Mode, Median, Quantile, means that stay integers, and cells that are not there.

    python -m benchmarks.images [--quick] [--works REGEX] [--output FOLDER]

Each work is done by ndpool with one thread, by the peers that have it, and by another pool of ndpool's or a copy where
a target names them. They take turns, and the best time of each is kept. A peer that claims to compute the same is
compared before it is timed. The table is written into benchmarks/results/, as Markdown and as JSON.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import ndpool
from ndpool import Avg, Max, Mode, Pool, Quantile, Window

from .measure import best_times
from .peers import Contender
from .report import RESULTS, cpu_model

Array = np.ndarray
NAN = float("nan")


@dataclass(frozen=True)
class Peer:
    """Who else does the work, and how many times ndpool's time that is to take.

    `like` makes what ndpool gave comparable with what the peer gives; without it the peer computes something else.
    """

    run: Callable[[], Any]
    at_least: float | None = None
    like: Callable[[Array], Array] | None = None


@dataclass(frozen=True)
class Work:
    """One pool over one array. ndpool's time is to be `at_most` so many times that of a reference."""

    name: str
    run: Callable[[], Any]
    peers: dict[str, Peer]
    at_most: dict[str, float] = field(default_factory=dict)
    references: dict[str, Callable[[], Any]] = field(default_factory=dict)
    #: Bytes that the work moves, for the memory's limit; and the array whose copy says what moving costs.
    moved: tuple[int, Array] | None = None


# --- arrays ---------------------------------------------------------------------------------------


def labels(shape: tuple[int, ...], dtype: str, noisy: bool) -> Array:
    """Blocks of one label each; if noisy, every other cell is drawn from eight."""
    rng = np.random.default_rng(0)
    blocks = rng.integers(1, 200, [-(-n // 16) for n in shape])
    for axis in range(len(shape)):
        blocks = np.repeat(blocks, 16, axis).take(range(shape[axis]), axis)
    if noisy:
        chosen = rng.random(shape) < 0.5
        blocks = np.where(chosen, rng.integers(0, 8, shape), blocks)
    return np.ascontiguousarray(blocks.astype(dtype))


def image(shape: tuple[int, ...], dtype: str) -> Array:
    rng = np.random.default_rng(1)
    if dtype == "float32":
        return rng.standard_normal(shape, np.float32)
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def with_holes(shape: tuple[int, ...]) -> Array:
    x = image(shape, "float32")
    x[np.random.default_rng(2).random(shape) < 0.3] = NAN
    return x


def blocks(x: Array, kernel: tuple[int, ...]) -> Array:
    """The cells of each block side by side: (outputs..., cells)."""
    sides = [number for n, k in zip(x.shape, kernel, strict=True) for number in (n // k, k)]
    cut = x[tuple(slice(n // k * k) for n, k in zip(x.shape, kernel, strict=True))].reshape(sides)
    moved = cut.transpose(*range(0, 2 * x.ndim, 2), *range(1, 2 * x.ndim, 2))
    return np.ascontiguousarray(moved.reshape(*moved.shape[: x.ndim], -1))


# --- peers ----------------------------------------------------------------------------------------


def coarsened(x: Array, kernel: tuple[int, ...], reduce: str, **options: Any) -> Callable[[], Any]:
    """Blocks of xarray's."""
    xarray = importlib.import_module("xarray")
    names = [f"d{i}" for i in range(x.ndim)]
    array = xarray.DataArray(x, dims=names)
    sides = dict(zip(names, kernel, strict=True))
    return lambda: getattr(array.coarsen(sides, boundary="trim"), reduce)(**options).values


def tinybrain(x: Array, function: str, factor: tuple[int, ...]) -> Callable[[], Any]:
    """It wants channels at the end, and Fortran order, which is its best one."""
    run = getattr(importlib.import_module("tinybrain"), function)
    array = np.asfortranarray(x.reshape(x.shape + (1,) * (4 - x.ndim)))
    factors = (*factor, *(1,) * (4 - len(factor)))
    return partial(run, array, factor=factors, num_mips=1)


def scipy_mode(x: Array, kernel: tuple[int, ...], stride: int | None) -> Callable[[], Any]:
    mode = importlib.import_module("scipy.stats").mode
    if stride is None:
        cells = blocks(x, kernel)
    else:
        windows = np.lib.stride_tricks.sliding_window_view(x, kernel)
        cells = windows.reshape(*windows.shape[: x.ndim], -1)
    return lambda: mode(cells, axis=-1).mode


def inside(k: int) -> Callable[[Array], Array]:
    """A result of a filter that pads, where it does not; for windows that do not overlap, every k-th."""
    return lambda y: y[k // 2 : y.shape[0] - k // 2, k // 2 : y.shape[1] - k // 2]


# --- works ----------------------------------------------------------------------------------------


def modes(small: bool) -> Iterator[Work]:
    shape = (64, 128, 128) if small else (256, 512, 512)
    reducers = importlib.import_module("xarray_multiscale.reducers")
    for noisy, order in product((False, True), "CF"):
        x = np.asarray(labels(shape, "uint32", noisy), order=order)
        pool = Pool(Mode(), Window((2, 2, 2)))
        yield Work(
            f"Mode 2x2x2, uint32, {'noisy' if noisy else 'blocky'}, {order} order",
            partial(pool, x),
            {
                "tinybrain": Peer(tinybrain(x, "downsample_segmentation", (2, 2, 2)), 1),
                "xarray-multiscale": Peer(partial(reducers.windowed_mode, x, (2, 2, 2)), 20),
            },
        )
    for name, dtype, shape, kernel, stride in (
        ("3x3 s1", "uint8", (256, 256), (3, 3), 1),
        ("2x2", "uint16", (1024, 1024), (2, 2), None),
        ("4x4x4", "uint64", (128, 128, 128), (4, 4, 4), None),
    ):
        x = labels(shape, dtype, noisy=True)
        pool = Pool(Mode("smallest"), Window(kernel, stride))
        peer = Peer(scipy_mode(x, kernel, stride), 20, like=lambda y: y)
        yield Work(f"Mode {name}, {dtype}", partial(pool, x), {"SciPy": peer})


def medians(small: bool) -> Iterator[Work]:
    side = 256 if small else 1024
    cv2, ndimage = importlib.import_module("cv2"), importlib.import_module("scipy.ndimage")
    for dtype, k in product(("uint8", "uint16", "float32"), (2, 3, 5)):
        x = image((side, side), dtype)
        middle = Pool(Quantile(0.5, "lower"), Window((k, k)))
        peers = {"xarray": Peer(coarsened(x, (k, k), "median"), 10)}
        yield Work(f"Median {k}x{k}, {dtype}", partial(middle, x), peers)
        sliding = Pool(Quantile(0.5, "lower"), Window((k, k), 1))
        peers = {"SciPy": Peer(partial(ndimage.median_filter, x, k), 20, inside(k) if k % 2 else None)}
        if k % 2:
            goal = 0.5 if dtype == "uint8" else None
            peers["OpenCV"] = Peer(partial(cv2.medianBlur, x, k), goal, inside(k))
        yield Work(f"Median {k}x{k} s1, {dtype}", partial(sliding, x), peers)
    for q, k in product((0.1, 0.9), (3, 5)):
        x = image((side, side), "uint8")
        pool, middle = (Pool(Quantile(share, "lower"), Window((k, k), 1)) for share in (q, 0.5))
        yield Work(
            f"Quantile {q} {k}x{k} s1, uint8",
            partial(pool, x),
            {"SciPy": Peer(partial(ndimage.percentile_filter, x, 100 * q, k), 20)},
            {"Median": 1.5},
            {"Median": partial(middle, x)},
        )
    x = image((side, side), "uint8")
    wide = Pool(Quantile(0.5, "lower"), Window((31, 31), 1))
    opencv = Peer(partial(cv2.medianBlur, x, 31), None, inside(31))
    yield Work("Median 31x31 s1, uint8", partial(wide, x), {"OpenCV": opencv})


def means(small: bool) -> Iterator[Work]:
    side = 64 if small else 256
    for dtype, rank in product(("uint8", "uint16"), (2, 3)):
        kernel = (2,) * rank
        shape = (side, side * 4, side * 4) if rank == 3 else (side * 16, side * 16)
        x = image(shape, dtype)
        pool = Pool(Avg(rounding="half_even"), Window(kernel))
        y = pool(x)
        yield Work(
            f"Avg half_even {'x'.join('2' * rank)}, {dtype}",
            partial(pool, x, out=y),
            {
                "tinybrain": Peer(tinybrain(x, "downsample_with_averaging", kernel), 1),
                "xarray": Peer(coarsened(x, kernel, "mean"), 15),
            },
            {"memory's limit": 1.6},
            moved=(x.nbytes + y.nbytes, x),
        )


def missing(small: bool) -> Iterator[Work]:
    side = 512 if small else 4096
    x = with_holes((side, side))
    bottleneck = importlib.import_module("bottleneck")
    cells = blocks(x, (4, 4))
    for kind, name in ((Avg(), "mean"), (Max(), "max")):
        plain, pool = Pool(kind, Window((4, 4))), Pool(kind, Window((4, 4)), skip=NAN)
        y = pool(x)
        g = np.ones_like(y)
        gx = np.empty_like(x)
        title = f"{type(kind).__name__} 4x4, skip=nan"
        yield Work(
            title,
            partial(pool, x, out=y),
            {
                "xarray": Peer(coarsened(x, (4, 4), name), 5, like=lambda y: y),
                "bottleneck": Peer(partial(getattr(bottleneck, f"nan{name}"), cells, -1), 5, like=lambda y: y),
            },
            {"without skip": 1.5},
            {"without skip": partial(plain, x, out=y)},
        )

        def both(pool: Pool, g: Array = g, gx: Array = gx) -> Callable[[], Any]:
            return lambda: pool.vjp(x)[1](g, out=gx)

        yield Work(f"{title}, with VJP", both(pool), {}, {"without skip": 1.5}, {"without skip": both(plain)})


FAMILIES = (modes, medians, means, missing)


# --- measuring ------------------------------------------------------------------------------------


def check(work: Work) -> None:
    """That peers which claim to compute the same do."""
    ours = work.run()
    for name, peer in work.peers.items():
        if peer.like is None:
            continue
        theirs = np.asarray(peer.run())
        want = peer.like(theirs) if theirs.shape != np.asarray(ours).shape else theirs
        if not np.allclose(np.asarray(ours, np.float64), np.asarray(want, np.float64), 1e-5, 1e-5, equal_nan=True):
            raise SystemExit(f"{work.name}: {name} computes something else")


def measure(work: Work, budget_s: float) -> dict[str, Any]:
    check(work)
    runs = {"ndpool": work.run} | {name: peer.run for name, peer in work.peers.items()} | work.references
    if work.moved:
        source = work.moved[1]
        room = np.empty_like(source)
        runs["copy"] = lambda: np.copyto(room, source)
    seconds = best_times({name: Contender(run, tuple, "") for name, run in runs.items()}, budget_s)
    if work.moved:
        seconds["memory's limit"] = seconds.pop("copy") * work.moved[0] / (2 * work.moved[1].nbytes)
    mine = seconds["ndpool"]
    targets = [
        (f"{peer.at_least:g} x {name}", seconds[name] >= peer.at_least * mine)
        for name, peer in work.peers.items()
        if peer.at_least
    ]
    targets += [(f"<= {most:g} x {name}", mine <= most * seconds[name]) for name, most in work.at_most.items()]
    return {"work": work.name, "seconds": seconds, "targets": targets}


def line(record: dict[str, Any]) -> str:
    seconds = dict(record["seconds"])
    mine = seconds.pop("ndpool")
    others = ", ".join(f"{name} {each / mine:.2f}" for name, each in seconds.items())
    targets = "; ".join(f"{said}: {'met' if met else '**missed**'}" for said, met in record["targets"]) or "—"
    return f"| {record['work']} | {1e3 * mine:.3f} ms | {others} | {targets} |"


def report(records: list[dict[str, Any]]) -> str:
    head = [
        "# Images, labels and measurements\n",
        f"{cpu_model()}, one thread; NumPy {np.__version__}.\n",
        'The others in multiples of ndpool\'s time. Median and Quantile keep the dtype here (method="lower").\n',
        "| work | ndpool | others / ndpool | targets |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *map(line, records), ""])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.images", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller arrays, a tenth of the time")
    parser.add_argument("--works", default="", metavar="REGEX", help="only the works whose name has this")
    parser.add_argument("--output", default=RESULTS, type=Path, metavar="FOLDER", help="default: %(default)s")
    options = parser.parse_args()
    ndpool.set_num_threads(1)
    importlib.import_module("cv2").setNumThreads(1)
    records = []
    for family in FAMILIES:
        for work in family(options.quick):
            if re.search(options.works, work.name):
                records.append(measure(work, 0.05 if options.quick else 0.5))
                print(line(records[-1]), flush=True)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "images.json").write_text(json.dumps(records, indent=1) + "\n")
    (options.output / "images.md").write_text(report(records))
    print(f"See images.md and images.json in {options.output}.")


if __name__ == "__main__":
    main()
