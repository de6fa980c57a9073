"""Kernels are compiled as Triton compiles them for a Hopper card, to machine code, with the arguments that it is given.

No kernel runs, so no GPU is needed: Triton is told of a card that is not there. It happens in a process of its own, as
the interpreter compiles nothing. What it shows and the interpreter does not: to the compiler, an argument that is 1 is
a constant, which has none of the methods of a number.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ndpool

CARD = '''
import triton
from triton.backends.compiler import GPUTarget

class Card:
    """What Triton asks of a driver while it compiles."""
    def get_current_target(self): return GPUTarget("cuda", 90, 32)
    def get_current_device(self): return 0
    def get_current_stream(self, device): return 0

triton.runtime.driver.set_active(Card())
import torch

from ndpool import *
from ndpool.plan import plan_of
from ndpool.triton import recipes

def compiled(pool, shape, operation, back="", numbers=None, dtype="float32"):
    """The names of the kernels of an operation, each of which is compiled; with these `numbers` in place of its own."""
    work = recipes.Work(plan_of(pool, shape, dtype), back=back)
    recipe, winners = work.recipe(operation), f"uint{8 * max(1, work.plan.residual.winners)}"
    dtypes = dict.fromkeys(("x", "y", "t", "dy", "g", "gx"), getattr(torch, dtype)) | {"found": torch.int64}
    dtypes |= {"winners": getattr(torch, winners)} | {name: dtype for name, (_, dtype) in recipe.rooms.items()}
    for launch in recipe.launches:
        tensors = [torch.empty(1, dtype=dtypes[name]) for name in launch.tensors]
        values = launch.numbers if numbers is None else [numbers for _ in launch.numbers]
        made = launch.kernel.warmup(
            *tensors, *values, **launch.constants, grid=launch.grid, num_warps=launch.warps
        )
        assert made.asm["cubin"]
    return [launch.kernel.__name__ for launch in recipe.launches]
'''

SHORT_AXES = """
def kernels(pool, shape):
    operations = ("linearize", "pull", "push", "indices") if pool.keeps == "winners" else ("forward", "pull")
    return {name for operation in operations for name in compiled(pool, shape, operation)}

assert "slide" in kernels(Pool(Max(), Window((9,), 1, 4), (1,)), (5, 1, 3))
assert {"slide", "slide_back"} < kernels(Pool(Max(), Window((15, 15), 1, 7), (2, 3)), (64, 64, 1, 1024))
assert "slide_far" in kernels(Pool(Sum(), Window((40,), 1, [(39, 7)]), (1,)), (5, 1, 3))
"""

EVERY_KERNEL = """
square = Pool(Max(), Window((3, 3), 1), (0, 1))
found = [
    compiled(Pool(SmoothMax(1.0), Window((2,), 3)), (9,), "forward", numbers=1),
    compiled(Pool(Max(), Window((2,), 2)), (9,), "linearize", numbers=1),
    compiled(Pool(Max(), Window((9,), 1)), (32,), "linearize", numbers=1),
    compiled(Pool(Max(), Window((9,), 1), (0,)), (32, 3), "linearize", numbers=1),
    compiled(Pool(Max(), Window((33,), 1)), (64,), "linearize", numbers=1),
    compiled(Pool(Sum(), Window((33,), 1), (0,)), (64, 3), "forward", numbers=1),
    compiled(Pool(Max(), Global(), (0,)), (9999,), "linearize", numbers=1),
    compiled(square, (9, 16), "pull", "ask", numbers=1),
    compiled(square, (9, 16), "pull", "axes 1,1", numbers=1),
    compiled(square, (9, 16), "pull", "visited", numbers=1),
    compiled(square, (9, 16), "indices", numbers=1),
    compiled(Pool(Avg(), Adaptive((3,))), (10,), "pull", "ask", numbers=1),
    compiled(Pool(Max(), Adaptive((3, 3))), (10, 10), "pull", "axes 1,1", numbers=1),
    compiled(Pool(SmoothMax(1.0), Window((2,))), (9,), "pull", numbers=1),
]
launched = {name for name, one in vars(recipes).items() if isinstance(one, triton.runtime.JITFunction)}
assert launched == set().union(*found), launched ^ set().union(*found)
"""


@pytest.mark.parametrize("program", [SHORT_AXES, EVERY_KERNEL], ids=["axes of length one", "every number is one"])
def test_numbers_that_are_constants(program, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    source = Path(ndpool.__file__).parents[1]
    environment["PYTHONPATH"] = os.pathsep.join([str(source), environment.get("PYTHONPATH", "")])
    environment["TRITON_CACHE_DIR"] = str(tmp_path)  # which would know kernels that were compiled before
    done = subprocess.run([sys.executable, "-c", CARD + program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
