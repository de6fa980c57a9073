"""Dask, xarray and pyramids: the same problems each time, and no cluster that another test has left behind."""

from __future__ import annotations

import dask
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("pieces", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pieces")


@pytest.fixture(autouse=True)
def _in_one_thread():
    """Graphs of a few tasks take as long as threads need to start; tests of threads and clusters say so."""
    with dask.config.set(scheduler="synchronous"):
        yield
