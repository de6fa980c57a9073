"""What the tests of the JAX adapter share: four devices that are one processor, and numbers of 64 bits."""

from __future__ import annotations

import os

# Before JAX is imported: it reads this once.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4".strip()
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest

import ndpool

jax.config.update("jax_enable_x64", True)


@pytest.fixture(autouse=True)
def _one_thread():
    threads = ndpool.get_num_threads()
    ndpool.set_num_threads(1)
    yield
    ndpool.set_num_threads(threads)
