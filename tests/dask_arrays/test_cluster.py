"""A cluster of processes: the same numbers, also when a worker is killed in mid-run."""

from __future__ import annotations

import os
import signal
import threading
import time

import dask.array as da
import numpy as np
import pytest
from chunked import numbers

import ndpool.pyramid
from ndpool import Avg, Global, Max, Pool, SmoothMax, Window

distributed = pytest.importorskip("distributed")
zarr = pytest.importorskip("zarr")

pytestmark = pytest.mark.filterwarnings("ignore")  # workers that are killed leave sockets and temporary folders


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs="CRITICAL"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def pulled(x):
    y, pull = Pool(Max(), Window((3, 3), stride=2, padding=1)).vjp(x)
    return pull(y)


WORKS = {
    "window": Pool(Avg(), Window((5, 4), stride=(2, 3), padding=2, ceil_mode=True)),
    "global": Pool(SmoothMax(1.0), Global(), axes=(0, 1)),
    "vjp": pulled,
}


@pytest.mark.parametrize("name", WORKS)
def test_processes_give_the_same(client, name):
    x, work = numbers((80, 90), "f4", 5, hostile=False), WORKS[name]
    lazy = work(da.from_array(x, (16, 17)))
    found = client.compute(lazy).result(timeout=60)
    expected = lazy.compute(scheduler="synchronous")
    assert found.tobytes() == expected.tobytes()
    np.testing.assert_allclose(found, work(x), rtol=1e-5, atol=1e-5)


def slowly(block):
    time.sleep(0.05)
    return block + 1


def kill_one(client, after):
    """One of the workers is killed, as it would be by a machine that goes down."""
    pid = next(iter(client.run(os.getpid).values()))
    timer = threading.Timer(after, os.kill, (pid, signal.SIGKILL))
    timer.start()
    return timer


def test_a_worker_that_is_killed_loses_nothing(client):
    x = numbers((60, 60), "f8", 6, hostile=False)
    pool = Pool(Avg(), Window((3, 3), stride=2, padding=1))
    lazy = pool(da.from_array(x, 6).map_blocks(slowly, dtype=x.dtype, meta=np.empty((0, 0))))
    timer = kill_one(client, 0.7)
    found = client.compute(lazy).result(timeout=120)
    timer.join()
    assert found.tobytes() == pool(x + 1).tobytes()
    client.wait_for_workers(2, timeout=60)


def test_a_pyramid_on_a_cluster_one_of_whose_workers_is_killed(client, tmp_path, monkeypatch):
    monkeypatch.setattr(ndpool.pyramid.sizes, "BLOCK_BYTES", 1 << 12)
    x = np.random.default_rng(0).integers(0, 1000, (2, 400, 500), np.uint16)
    lazy = da.from_array(x, (1, 64, 64)).map_blocks(slowly, dtype=x.dtype, meta=np.empty((0, 0, 0), x.dtype))
    timer = kill_one(client, 1.0)
    report = ndpool.pyramid.write(
        lazy, tmp_path / "a.zarr", levels=3, axes="cyx", chunks=(1, 64, 64), client=client, progress=False
    )
    timer.join()
    found = zarr.open_group(tmp_path / "a.zarr", mode="r")
    for level in range(3):
        side = 2**level
        pool = Pool(Avg(rounding="half_even"), Window((side, side), ceil_mode=True))
        np.testing.assert_array_equal(found[str(level)][:], pool(x + 1))
    assert report.read == x.nbytes
    assert report.peak > 0
