"""The suite of the kernels for GPUs: `make test-triton`, and `make test-gpu` where there is one.

Without a GPU the kernels run in Triton's interpreter, on tensors of the CPU, which this file sends to the engine for
GPUs. With `NDPOOL_TEST_DEVICE=cuda` the same tests run on the card, and those of `test_cuda.py` as well.

The interpreter computes what a kernel says, one program after the other. What it cannot show:

- that a kernel compiles, and what the compiler makes of it: contracted products, the card's `exp` and division;
- races between programs, and memory that is read before it is written;
- streams, graphs, several devices, launches that come too late;
- subnormal numbers of bfloat16, of which it makes others;
- tensors of more than some thousand cells in a time that a test may take;
- `torch.compile`, which looks into kernels that are compiled (`test_tracing.py` shows what it sees, without a GPU).
"""

from __future__ import annotations

import os

import pytest

DEVICE = os.environ.get("NDPOOL_TEST_DEVICE", "cpu")
if DEVICE != "cuda":
    os.environ["TRITON_INTERPRET"] = "1"  # which Triton asks once, when a kernel is defined

pytest.importorskip("triton")
import torch

from ndpool.torch import devices

if DEVICE != "cuda":
    import quicker

    from ndpool.triton import recipes

    quicker.interpreter()

    devices.ENGINES["cpu"] = "ndpool.triton"
    # The interpreter computes whole tiles, however few of their places are asked for.
    recipes.TILE, recipes.TREE = 256, 256

#: The interpreter computes with NumPy, which warns of what is no error on a card.
IGNORED = ["ignore:.*:RuntimeWarning:triton.*", "ignore:TRITON_DEFAULT_FP_FUSION:UserWarning"]
#: Python's own, of the processes that compile.
IGNORED += ["ignore:This process .* is multi-threaded:DeprecationWarning"]
#: PyTorch's own, of how it looks for waiting, and of the parts of a program that hold nothing for a graph.
IGNORED += ["ignore:Synchronization debug mode:UserWarning", "ignore:The CUDA Graph is empty:UserWarning"]


def pytest_collection_modifyitems(items):
    for item in items:
        for ignored in IGNORED:
            item.add_marker(pytest.mark.filterwarnings(ignored))


@pytest.fixture(autouse=True)
def _repeatable():
    torch.manual_seed(0)
