"""What the tests of the PyTorch adapter share.

`NDPOOL_TEST_DEVICE=cuda` runs the suite on a GPU: new tensors are made there, and what goes to NumPy and comes from it
takes the way over the host. A test that is about the CPU is marked with `cpu_only` and its reason, and is skipped.
"""

from __future__ import annotations

import pytest
import torch
from torch_cases import DEVICE

if DEVICE == "cuda":
    if not torch.cuda.is_available():
        raise pytest.UsageError("NDPOOL_TEST_DEVICE=cuda, and PyTorch sees no GPU: torch.cuda.is_available() is False")
    torch.set_default_device("cuda")
    _numpy, _from_numpy = torch.Tensor.numpy, torch.from_numpy
    torch.Tensor.numpy = lambda self, **options: _numpy(self.cpu(), **options)
    torch.from_numpy = lambda array: _from_numpy(array).to("cuda")


def pytest_collection_modifyitems(items):
    for item in items:
        marker = item.get_closest_marker("cpu_only")
        if marker is not None and DEVICE != "cpu":
            item.add_marker(pytest.mark.skip(reason=marker.args[0]))
        if DEVICE == "cuda":  # Python's own, of the processes that compile kernels
            item.add_marker(pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """A test of a kind that has no kernel on the device is skipped, in the engine's own words."""
    try:
        return (yield)
    except NotImplementedError as error:
        if "has no kernel for GPUs yet" in str(error):
            pytest.skip(str(error))
        raise


@pytest.fixture(autouse=True)
def _quiet_and_repeatable():
    """One thread, a seed, and no compiled code from the test before: on tiny tensors threads only cost time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
    torch.set_num_threads(threads)
