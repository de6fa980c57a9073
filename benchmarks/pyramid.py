"""Arrays that are larger than memory: pyramids, missing data, overlap and clusters, beside other libraries.

    python -m benchmarks.pyramid [--works REGEX] [--who REGEX] [--scale 1] [--folder /tmp/ndpool-pyramid] [--limit 300]

Each contender does its work in a process of its own, which counts its time from when all is imported, its peak memory
(the most that the process had at any time, imports too), and the bytes that it read from files, as a multiple of those
of the source's chunks. They take turns on the same data. `--scale` divides the sides of the arrays. Results go into
benchmarks/results/, as Markdown and as JSON; works that are measured again replace their rows.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

#: Where results go, unless it is said otherwise. A process that is measured imports nothing of the other benchmarks.
RESULTS = Path(__file__).parent / "results"

MIB = 2**20
GIB = 2**30


# --- data -----------------------------------------------------------------------------------------


def template(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """A picture of waves with noise, as a camera gives: it is compressed to about a half."""
    rng = np.random.default_rng(seed)
    places = np.meshgrid(*(np.linspace(0, 9, n) for n in shape[-2:]), indexing="ij")
    waves = (np.sin(places[0]) * np.cos(2 * places[1]) + 1.5) * 8000
    return (waves + rng.integers(0, 64, shape)).astype(dtype)


def stored(path: Path, shape: tuple[int, ...], chunks: tuple[int, ...], dtype: str) -> Path:
    """An array of Zarr, all of whose chunks are cut from one picture."""
    import zarr

    if path.exists():
        return path
    part = path.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    tile = template(chunks, dtype)
    array = zarr.create_array(str(part), shape=shape, chunks=chunks, dtype=dtype)
    counts = [-(-n // c) for n, c in zip(shape, chunks, strict=True)]
    for place in np.ndindex(*counts):
        box = tuple(slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(place, chunks, shape, strict=True))
        array[box] = np.roll(tile, place[-1], -1)[tuple(slice(b.stop - b.start) for b in box)]
    part.rename(path)
    return path


def labels_array(path: Path, side: int) -> Path:
    """Labels in blobs, with edges that are not straight."""
    import zarr

    if path.exists():
        return path
    rng = np.random.default_rng(0)
    cells = rng.integers(1, 100_000, (side // 16 + 2,) * 3).astype(np.uint32)
    place = np.arange(side)
    bend = (6 * np.sin(place / 11)).astype(int)
    z, y, x = place[:, None, None], place[None, :, None], place[None, None, :]
    x = cells[(z + bend[y] + 6) // 16, (y + bend[x] + 6) // 16, (x + bend[z] + 6) // 16]
    x[rng.random(x.shape) < 0.02] = 0
    array = zarr.create_array(str(path), shape=x.shape, chunks=(128,) * 3, dtype=x.dtype)
    array[:] = x
    return path


def bytes_read() -> int:
    """How many bytes this process has read from files, by the kernel's count."""
    return int(re.search(r"^rchar: (\d+)$", Path("/proc/self/io").read_text(), re.MULTILINE)[1])  # type: ignore[index]


# --- contenders -----------------------------------------------------------------------------------


@dataclass
class Job:
    """What one contender gets: the source, a folder to write to, and how many times smaller all is."""

    source: Path
    target: Path
    scale: int

    @property
    def array(self) -> Any:
        import zarr

        return zarr.open_array(str(self.source), mode="r")

    def dask(self) -> Any:
        import dask.array as da

        array = self.array
        return da.from_array(array, chunks=array.chunks)


def mean_ndpool(job: Job) -> None:
    from ndpool import pyramid

    pyramid.write(job.source, job.target, levels=4, axes="cyx", progress=False)


# Of the methods of ngff-zarr that take a mean this is the fastest: itkwasm_bin_shrink took 18 times as long where sides
# have 937 cells.
def mean_ngff(method: str) -> Callable[[Job], None]:
    def run(job: Job) -> None:
        import ngff_zarr

        image = ngff_zarr.to_ngff_image(job.dask(), dims=("c", "y", "x"))
        factors = [{"x": f, "y": f, "c": 1} for f in (2, 4, 8)]
        found = ngff_zarr.to_multiscales(image, factors, method=ngff_zarr.Methods(method), cache=False)
        ngff_zarr.to_ngff_zarr(str(job.target), found, version="0.5")

    return run


def mean_ome_zarr(method: str) -> Callable[[Job], None]:
    def run(job: Job) -> None:
        from ome_zarr.scale import Methods
        from ome_zarr.writer import write_image

        factors = [{"c": 1, "y": f, "x": f} for f in (2, 4, 8)]
        write_image(job.dask(), str(job.target), scale_factors=factors, method=Methods(method), axes="cyx")

    return run


def mean_multiscale(job: Job) -> None:
    _multiscale(job, "windowed_mean", (1, 2, 2), 4)


def mode_multiscale(job: Job) -> None:
    _multiscale(job, "windowed_mode", (2, 2, 2), 3)


def _multiscale(job: Job, reducer: str, factors: tuple[int, ...], count: int) -> None:
    import dask
    import dask.array as da
    import xarray_multiscale as multiscale

    levels = multiscale.multiscale(job.dask(), getattr(multiscale, reducer), factors)[:count]
    dask.compute([da.to_zarr(level.data, str(job.target / str(i)), compute=False) for i, level in enumerate(levels)])


def mode_ndpool(job: Job) -> None:
    from ndpool import pyramid

    pyramid.write(job.source, job.target, labels=True, levels=3, axes="zyx", progress=False)


def mode_ngff(job: Job) -> None:
    import ngff_zarr

    image = ngff_zarr.to_ngff_image(job.dask(), dims=("z", "y", "x"))
    found = ngff_zarr.to_multiscales(image, [2, 4], method=ngff_zarr.Methods.DASK_IMAGE_MODE, cache=False)
    ngff_zarr.to_ngff_zarr(str(job.target), found, version="0.5")


def mode_tinybrain(job: Job) -> None:
    """In memory, and the levels written with Zarr; a mode of modes."""
    import tinybrain
    import zarr

    x = np.asfortranarray(job.array[:])
    for i, level in enumerate([x, *tinybrain.downsample_segmentation(x, (2, 2, 2), num_mips=2)]):
        array = zarr.create_array(str(job.target / str(i)), shape=level.shape, chunks=(128,) * 3, dtype=level.dtype)
        array[:] = level


def with_nans(job: Job) -> Any:
    """8 GiB of float32 in chunks that cost little to make; three cells of ten are NaN."""
    import dask.array as da

    side = 2048 // min(job.scale, 4)
    rng = np.random.default_rng(0)
    tile = rng.random((side, side), np.float32)
    tile[rng.random(tile.shape) < 0.3] = np.nan
    count = -(-46341 // job.scale // side) * side
    zeros = da.zeros((count, count), chunks=side, dtype=np.float32)
    return zeros.map_blocks(lambda block: tile.copy(), dtype=np.float32, meta=np.empty((0, 0), np.float32))


def nan_ndpool(job: Job) -> None:
    import dask.array as da

    from ndpool import Avg, Pool, Window

    y = Pool(Avg(), Window((4, 4)), skip=float("nan"))(with_nans(job))
    da.to_zarr(y, str(job.target), compressors=None)


def nan_xarray(job: Job) -> None:
    import dask.array as da
    import xarray

    y = xarray.DataArray(with_nans(job), dims=("y", "x")).coarsen(y=4, x=4).mean().data
    da.to_zarr(y, str(job.target), compressors=None)


def overlap_ndpool(job: Job) -> None:
    import dask.array as da

    from ndpool import Max, Pool, Window

    da.to_zarr(Pool(Max(), Window((3, 3), stride=2, padding=1))(job.dask()).rechunk(1024), str(job.target))


def overlap_copy(job: Job) -> None:
    import dask.array as da

    da.to_zarr(job.dask(), str(job.target))


def overlap_read(job: Job) -> None:
    """Each chunk is decompressed, and nothing is done with it."""
    job.dask().map_blocks(lambda block: np.zeros((1, 1), block.dtype), chunks=(1, 1), dtype=job.array.dtype).compute()


def on_processes(count: int) -> Callable[[Job], None]:
    def run(job: Job) -> float:
        import dask
        from distributed import Client, LocalCluster

        from ndpool import pyramid

        dask.config.set({"distributed.worker.daemon": False})
        with (
            LocalCluster(n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            client.run(_warm)
            report = pyramid.write(job.source, job.target, levels=4, axes="cyx", client=client, progress=False)
        return report.seconds

    return run


def _warm() -> None:
    """What a worker imports is no part of the work."""
    import zarr  # noqa: F401

    import ndpool.dask.dispatch
    import ndpool.pyramid  # noqa: F401


def growth(job: Job) -> dict[str, float]:
    """What Dask costs for 10^5 chunks: to build the graph, to hand it over, and to run tasks of next to nothing."""
    import pickle

    import dask.array as da

    from ndpool import Max, Pool, Window

    side = 316 // job.scale
    x = da.zeros((side * 8, side * 8), chunks=8)
    began = time.perf_counter()
    y = Pool(Max(), Window((2, 2)))(x)
    built = time.perf_counter() - began
    began = time.perf_counter()
    z = Pool(Max(), Window((3, 3), stride=2, padding=1))(x)
    overlapping = time.perf_counter() - began
    chunks = side * side
    own = [key for key in dict(z.__dask_graph__()) if str(key[0]).startswith("ndpool")]
    some = [value for key, value in dict(y.__dask_graph__()).items() if str(key[0]).startswith("ndpool")][:1000]
    found = {
        "chunks": chunks,
        "build a chunk, us": built / chunks * 1e6,
        "build a chunk with overlap, us": overlapping / chunks * 1e6,
        "tasks a chunk with overlap": len(own) / chunks,
        "bytes a task": sum(len(pickle.dumps(each)) for each in some) / len(some),
    }
    # To run all of them would take minutes: what a chunk costs is seen in some.
    for name, side, scheduler in (
        ("threads", 52 // job.scale, "threads"),
        ("distributed", 26 // job.scale, None),
    ):
        found[f"chunks that are run, {name}"] = side * side
        few = da.zeros((side * 8, side * 8), chunks=8)
        lazy = {
            "": Pool(Max(), Window((2, 2)))(few),
            ", with overlap": Pool(Max(), Window((3, 3), stride=2, padding=1))(few),
            ", Dask's x + 1": few + 1,
        }
        with _workers(scheduler) as run:
            for what, y in lazy.items():
                smallest = y.map_blocks(_smallest, chunks=(1, 1), dtype=float).sum()
                began = time.perf_counter()
                run(smallest)
                found[f"chunks a second, {name}{what}"] = side * side / (time.perf_counter() - began)
    return found


@contextmanager
def _workers(scheduler: str | None) -> Iterator[Callable[[Any], Any]]:
    """What runs a graph: a scheduler of this process, or a cluster of two."""
    import dask
    from distributed import Client, LocalCluster

    if scheduler is not None:
        with dask.config.set(scheduler=scheduler):
            yield lambda y: y.compute()
        return
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(_warm)
        yield lambda y: client.compute(y).result()


def _smallest(block: np.ndarray) -> np.ndarray:
    return block[:1, :1]


# --- works ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """One work: who does it, what is asked of ndpool, and the source."""

    title: str
    contenders: dict[str, Callable[[Job], Any]]
    source: Callable[[Path, int], Path]
    targets: str


def _no_source(folder: Path, scale: int) -> Path:
    return folder / "none"


def _mean_source(folder: Path, scale: int) -> Path:
    side = 15000 // scale
    return stored(folder / f"mean-{scale}.zarr", (4, side, side), (1, 1024, 1024), "uint16")


WORKS = {
    "mean": Work(
        "(4, 15000, 15000) uint16, 4 levels, mean",
        {
            "ndpool": mean_ndpool,
            "ngff-zarr, dask_bin_shrink": mean_ngff("dask_bin_shrink"),
            "ome-zarr, local_mean": mean_ome_zarr("local_mean"),
            "ome-zarr, resize": mean_ome_zarr("resize"),
            "xarray-multiscale": mean_multiscale,
        },
        _mean_source,
        "3 x the fastest; a third of the smallest peak; the source read once",
    ),
    "mode": Work(
        "labels 512 x 512 x 512 uint32, 3 levels, mode",
        {
            "ndpool": mode_ndpool,
            "ngff-zarr, dask_image_mode": mode_ngff,
            "xarray-multiscale": mode_multiscale,
            "tinybrain": mode_tinybrain,
        },
        lambda folder, scale: labels_array(folder / f"labels-{scale}.zarr", 512 // scale),
        "5 x the fastest that has a mode",
    ),
    "missing": Work(
        "8 GiB float32, 30 % NaN, 4 x 4 mean that skips it",
        {"ndpool": nan_ndpool, "xarray coarsen": nan_xarray},
        _no_source,
        "3 x; peak 1 GiB",
    ),
    "overlap": Work(
        "16 GiB float32 in Zarr, maximum of 3 x 3, stride 2, padding 1",
        {"ndpool": overlap_ndpool, "reading alone, Dask": overlap_read, "a copy, Dask": overlap_copy},
        lambda folder, scale: stored(
            folder / f"overlap-{scale}.zarr", (65536 // scale, 65536 // scale), (2048, 2048), "float32"
        ),
        "works in 2 GiB; near the codec's speed",
    ),
    "processes": Work(
        "the first work on a LocalCluster of processes",
        {"2 processes": on_processes(2), "1 process": on_processes(1)},
        _mean_source,
        "1.7 x where the codec is not the limit",
    ),
    "growth": Work("a graph of 10^5 chunks of 8 x 8 cells", {"ndpool": growth}, _no_source, "stated"),
}


# --- measuring ------------------------------------------------------------------------------------


def alone(work: str, who: str, folder: Path, scale: int) -> None:
    """Do one work in this process, and print what it cost."""
    warnings.simplefilter("ignore")
    target = Path(tempfile.mkdtemp(dir=folder)) / "target.zarr"
    job = Job(WORKS[work].source(folder, scale), target, scale)
    try:
        _imports(work, who)
        began, cpu, before = time.perf_counter(), time.process_time(), bytes_read()
        found = WORKS[work].contenders[who](job)
        seconds, read = time.perf_counter() - began, bytes_read() - before
    finally:
        shutil.rmtree(target.parent, ignore_errors=True)
    processes = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    peaks = [resource.getrusage(each).ru_maxrss * 1024 for each in processes]
    whole = sum(file.stat().st_size for file in job.source.rglob("c/**/*") if file.is_file())
    said = {
        "seconds": found if isinstance(found, float) else seconds,
        "cpu": time.process_time() - cpu,
        "peak": max(peaks),
        "reads": read / whole if whole and work != "processes" else None,
    }
    print("RESULT " + json.dumps(said | (found if isinstance(found, dict) else {})))


def _imports(work: str, who: str) -> None:
    import zarr  # noqa: F401

    if who != "ndpool" or work not in ("mean", "mode"):  # its pyramids need no Dask
        import dask.array  # noqa: F401

        import ndpool.dask.dispatch  # noqa: F401
    for start, modules in {
        "ndpool": ["ndpool.pyramid"],
        "ngff": ["ngff_zarr"],
        "ome": ["ome_zarr.writer"],
        "xarray": ["xarray", "xarray_multiscale"],
        "tiny": ["tinybrain"],
    }.items():
        if who.startswith(start):
            for module in modules:
                __import__(module)


def measured(work: str, who: str, folder: Path, scale: int, limit: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.pyramid", "--alone", work, who, "--folder", str(folder)]
    try:
        run = subprocess.run(
            [*command, "--scale", str(scale)], capture_output=True, text=True, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {limit:.0f} s"}
    for line in run.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line.removeprefix("RESULT "))
    return {"failed": (run.stderr.strip().splitlines() or ["no result"])[-1][:200]}


def table(results: dict[str, Any]) -> str:
    lines = [
        "# Larger than memory",
        "",
        f"{results['processor']}, {os.cpu_count()} processors. Each contender in a process of its own, in turns. "
        "Written by `python -m benchmarks.pyramid`.",
        "",
    ]
    for name, work in WORKS.items():
        found = results["works"].get(name)
        if not found:
            continue
        sides = "" if found["scale"] == 1 else f" (sides divided by {found['scale']})"
        lines += [f"## {work.title}{sides}", "", f"Asked of ndpool: {work.targets}.", ""]
        lines += _growth(found) if name == "growth" else _rows(found)
    return "\n".join(lines) + "\n"


def _rows(found: dict[str, Any]) -> list[str]:
    lines = [
        "| who | seconds | times | CPU seconds | peak MiB | bytes read / source |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    first = next(iter(found["rows"].values()))
    for who, row in found["rows"].items():
        if "failed" in row:
            lines.append(f"| {who} | {row['failed']} | | | | |")
            continue
        times = f"{row['seconds'] / first['seconds']:.2f}" if "seconds" in first else ""
        reads = "" if row["reads"] is None else f"{row['reads']:.2f}"
        lines.append(
            f"| {who} | {row['seconds']:.1f} | {times} | {row['cpu']:.1f} | {row['peak'] / MIB:.0f} | {reads} |"
        )
    return [*lines, ""]


def _growth(found: dict[str, Any]) -> list[str]:
    (row,) = found["rows"].values()
    if "failed" in row:
        return [row["failed"], ""]
    numbers = [
        f"| {key} | {value:,.0f} |" if value >= 10 else f"| {key} | {value:.2f} |"
        for key, value in row.items()
        if key not in ("cpu", "reads", "peak", "seconds")
    ]
    return ["| what | number |", "|---|---:|", *numbers, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", default=".", help="which, as a regular expression")
    parser.add_argument("--scale", type=int, default=1, help="by how much sides are divided")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "ndpool-pyramid")
    parser.add_argument("--limit", type=float, default=300, help="seconds for one contender")
    parser.add_argument("--turns", type=int, default=1, help="how often each has its turn; the best time counts")
    parser.add_argument("--who", default=".", help="which contenders, as a regular expression")
    parser.add_argument("--log", type=Path, help="measure nothing, and take the rows from what a run has printed")
    parser.add_argument("--alone", nargs=2, metavar=("WORK", "WHO"), help="one work in this process")
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.alone:
        return alone(*given.alone, given.folder, given.scale)
    results = Results(given.output, given.scale)
    if given.log:
        return results.add_printed(given.log)
    for name, work in WORKS.items():
        if not re.search(given.works, name):
            continue
        work.source(given.folder, given.scale)
        for turn in range(given.turns):
            for who in work.contenders:
                if not re.search(given.who, who):
                    continue
                found = measured(name, who, given.folder, given.scale, given.limit)
                print(f"{name}: {who}: {json.dumps(found)}", flush=True)
                results.add(name, who, found, first=turn == 0)


class Results:
    """The rows of all works, in a file; each is kept as soon as it is there."""

    def __init__(self, folder: Path, scale: int) -> None:
        from .report import cpu_model

        self.folder, self.scale = folder, scale
        kept = folder / "pyramid.json"
        self.all = json.loads(kept.read_text()) if kept.exists() else {"works": {}}
        self.all["processor"] = cpu_model()

    def add(self, name: str, who: str, found: dict[str, Any], first: bool) -> None:
        """A row in the place of one of an earlier run, or of an earlier turn if it is faster."""
        work = self.all["works"].get(name, {})
        rows = work.get("rows", {}) if work.get("scale") == self.scale else {}
        if first or found.get("seconds", 1e9) < rows.get(who, {}).get("seconds", 1e9):
            rows[who] = found
        rows = {each: rows[each] for each in WORKS[name].contenders if each in rows}
        self.all["works"][name] = {"scale": self.scale, "rows": rows}
        (self.folder / "pyramid.json").write_text(json.dumps(self.all, indent=1) + "\n")
        (self.folder / "pyramid.md").write_text(table(self.all))

    def add_printed(self, log: Path) -> None:
        """The rows that a run has printed, which may have been ended before it was done."""
        seen = set()
        for line in log.read_text().splitlines():
            name, _, rest = line.partition(": ")
            who, _, said = rest.partition(": ")
            if name in WORKS and who in WORKS[name].contenders:
                self.add(name, who, json.loads(said), first=(name, who) not in seen)
                seen.add((name, who))


if __name__ == "__main__":
    main()
