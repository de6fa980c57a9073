"""What the tests of the PyTorch adapter share."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _quiet_and_repeatable():
    """One thread, a seed, and no compiled code from the test before: on tiny tensors threads only cost time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
    torch.set_num_threads(threads)
