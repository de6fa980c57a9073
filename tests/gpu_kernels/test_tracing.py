"""What `torch.compile` sees of an operator on CUDA: allocations and launches, with constants that can be written down.

No kernel runs, so no GPU is needed: tensors are fake ones, and Triton is told of a card that is not there. It happens
in a process of its own, as kernels of the interpreter cannot be traced.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ndpool

PROGRAM = '''
import triton
from triton.backends.compiler import GPUTarget

class Card:
    """What Triton asks of a driver while it looks which tensors a kernel writes to."""
    def get_current_target(self): return GPUTarget("cuda", 90, 32)
    def get_current_device(self): return 0

triton.runtime.driver.set_active(Card())
import torch
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import dispatch_functionalize
from torch.fx.experimental.proxy_tensor import make_fx

import ndpool.torch
from ndpool import *
from ndpool.torch.schema import encode
ops = torch.ops.ndpool

def traced(function, *shapes, dtype=torch.float32):
    """The operators of a graph, and for each launch the tensors that it writes to."""
    with FakeTensorMode():
        fakes = [torch.empty(shape, dtype=dtype, device="cuda") for shape in shapes]
        graph = make_fx(dispatch_functionalize(function), tracing_mode="fake")(*fakes).graph
    found = []
    for node in graph.nodes:
        if "triton_kernel_wrapper" in str(node.target):
            found.append(sorted(node.kwargs["tensors_to_clone"]))
        elif "ndpool" in str(node.target):
            found.append(str(node.target))
    return found

X, Y = (2, 3, 9, 10), (2, 3, 5, 5)
peak, mean = (encode(Pool(kind, Window((3, 3), 2, 1), (-2, -1))) for kind in (Max(), Avg()))
smooth = encode(Pool(SmoothMax(1.0), Window((15, 15), 1, 7), (-2, -1), skip=float("inf")))

assert traced(lambda x: ops.forward(x, *mean), X) == [["a_out"]]
assert traced(lambda x: ops.forward_with_winners(x, *peak), X) == [["a_out", "b_out"]]
assert traced(lambda x: ops.forward_with_indices(x, *peak), X) == [["a_out", "b_out"], ["found"]]
assert traced(lambda x: ops.forward(x, *peak), X, dtype=torch.bool) == [["a_out"]]
assert traced(lambda g: ops.vjp(g, X, None, None, None, None, *mean), Y) == [["gx"]]
several = traced(lambda x: ops.forward(x, *smooth), (8, 16, 90, 100))
assert len(several) == 2 and several[-1] == ["a_out"], several
for constants in kernel_side_table.constant_args.values():
    assert eval(repr(constants), {"triton": triton}) == constants
'''

EXPORT = """
import torch
import ndpool.torch
from ndpool.torch.functional import max_pool2d
from torch._subclasses.fake_tensor import FakeTensorMode

class Net(torch.nn.Module):
    def forward(self, x):
        return max_pool2d(x, 2)

with FakeTensorMode():
    program = torch.export.export(Net(), (torch.empty(1, 3, 8, 8, device="cuda"),))
targets = [str(node.target) for node in program.graph.nodes]
assert any("ndpool.forward" in target for target in targets), targets
assert not any("triton" in target for target in targets), targets
"""


@pytest.mark.parametrize("program", [PROGRAM, EXPORT], ids=["compile", "export"])
def test_what_is_seen(program):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    source = Path(ndpool.__file__).parents[1]
    environment["PYTHONPATH"] = os.pathsep.join([str(source), environment.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
