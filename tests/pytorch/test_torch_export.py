"""Graphs that are kept: torch.export with sides that vary, torch.jit.trace, and compiled code whose numbers vary."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.testing import CompileCounterWithBackend
from torch.testing import assert_close
from torch_cases import distinct

import ndpool.torch.functional as F
from ndpool import Max, Min, Pool, Window
from ndpool.torch import convert, nn
from ndpool.torch.schema import encode

FUNCTIONS = {
    "floor": lambda x: F.max_pool2d(x, 3, 2, 1),
    "ceil": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "ceil, a window less": lambda x: F.avg_pool(x, 2, 3, 1, ceil_mode=True, axes=(2, 3)),
    "ceil, much padding": lambda x: F.sum_pool(x, 2, 3, ((0, 7), (5, 9)), ceil_mode=True, axes=(2, 3)),
    "after pools": lambda x: F.avg_pool2d(F.max_pool2d(F.max_pool2d(x, 3, 2, 1), 2), 2),
    "ceil after ceil": lambda x: F.max_pool2d(F.max_pool2d(x, 3, 2, ceil_mode=True), 3, 2, ceil_mode=True),
    "same": lambda x: F.max_pool(x, 3, 2, "same", axes=(2, 3)),
    "same_lower, ceil": lambda x: F.min_pool(x, 2, 3, "same_lower", ceil_mode=True, axes=(3, 2)),
    "valid, ceil": lambda x: F.min_pool(x, 2, 3, "valid", ceil_mode=True, axes=(2, 3)),
    "dilated": lambda x: F.avg_pool(x, (3, 2), (2, 1), dilation=(2, 3), axes=(2, 3)),
    "smooth": lambda x: F.smooth_max_pool2d(x, 2.0, 3, 2, ceil_mode=True),
    "norm": lambda x: F.lp_pool2d(x, 2, 3, 2),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (3, None)),
    "adaptive after a pool": lambda x: F.adaptive_max_pool2d(F.max_pool2d(x, 2), 3),
    "global": lambda x: F.global_max_pool(x),
    "global, flat": lambda x: F.global_avg_pool(F.max_pool2d(x, 2), keepdims=False),
    "indices": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True),
    "adaptive indices": lambda x: F.adaptive_max_pool2d(x, 3, return_indices=True),
    "channels last": lambda x: F.max_pool2d(F.max_pool2d(x.to(memory_format=torch.channels_last), 2), 2),
}


class All(torch.nn.Module):
    def forward(self, x):
        return {name: function(x) for name, function in FUNCTIONS.items()}


class WithoutIndices(torch.nn.Module):
    def forward(self, x):
        return {name: function(x) for name, function in FUNCTIONS.items() if "indices" not in name}


def ndpools(graph):
    return [str(node.target.name()) for node in graph.nodes if "ndpool" in str(node.target)]


def check_all(got, x):
    for name in got:
        assert_close(got[name], FUNCTIONS[name](x), msg=lambda text, name=name: f"{name} of {tuple(x.shape)}: {text}")


SIDES = [(2, 3, 32, 40), (2, 3, 33, 45), (2, 3, 16, 64), (2, 3, 17, 128)]


@pytest.mark.parametrize("strict", [False, True])
def test_export_with_sides_that_vary(strict):
    """Pools of every window, and pools after pools: one program for all sides, with no question left open."""
    sides = {"x": {2: torch.export.Dim("height", min=16, max=128), 3: torch.export.Dim("width", min=16, max=128)}}
    program = torch.export.export(All(), (distinct(*SIDES[0]),), dynamic_shapes=sides, strict=strict)
    assert set(ndpools(program.graph)) == {"ndpool::forward", "ndpool::forward_with_indices"}
    for shape in SIDES:
        x = distinct(*shape)
        check_all(program.module()(x), x)


def test_a_program_checks_what_it_is_given():
    """What the symbols were not asked, the kernel asks when it runs."""
    sides = {"x": {2: torch.export.Dim("height", min=2, max=128)}}

    class Wide(torch.nn.Module):
        def forward(self, x):
            return F.max_pool2d(x, (5, 2))

    exported = torch.export.export(Wide(), (distinct(1, 1, 12, 12),), dynamic_shapes=sides, strict=True)
    program = exported.module(check_guards=False)
    assert_close(program(x := distinct(1, 1, 23, 12)), Wide()(x))
    with pytest.raises(ValueError, match="reaches over 5 cells"):
        program(distinct(1, 1, 4, 12))


def test_compiled_with_sides_that_vary():
    """Compiled for the first sides alone. With indices it may be more: a winner's bytes depend on its window."""
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(WithoutIndices(), fullgraph=True, backend=counter, dynamic=True)
    counts = []
    with torch.no_grad():
        for shape in SIDES:
            x = distinct(*shape)
            check_all(compiled(x), x)
            counts.append(counter.frame_count)
    assert counts == counts[:1] * len(SIDES)


# --- trained weights ------------------------------------------------------------------------------


class Trained(torch.nn.Module):
    """A network whose weights want gradients, with a pool of each sort behind them."""

    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 4, 3, dtype=torch.float64)
        self.pools = torch.nn.Sequential(
            torch.nn.MaxPool2d(3, 2, 1, ceil_mode=True), torch.nn.ReLU(), torch.nn.AvgPool2d(2)
        )
        convert(self.pools)
        self.last = nn.SmoothMaxPool2d(2.0, 2)

    def forward(self, x):
        y, indices = F.max_pool2d(self.convolution(x), 2, return_indices=True)
        return self.last(self.pools(F.max_unpool2d(y, indices, 2)))


def gradients(function, network, x, g):
    return torch.autograd.grad(function(x), list(network.parameters()), g)


@pytest.mark.filterwarnings("ignore:.*LeafSpec.* is deprecated:FutureWarning")  # of PyTorch's own decompositions
def test_an_exported_network_holds_no_winners():
    """Trained weights or not, the graph says what is computed; and it can be trained as the network can."""
    network, x = Trained(), distinct(2, 3, 20, 20)
    program = torch.export.export(network, (x,))
    want = ["ndpool::forward_with_indices", *["ndpool::forward"] * 3]
    assert ndpools(program.graph) == want
    assert ndpools(program.run_decompositions().graph) == want
    with torch.no_grad():
        assert ndpools(torch.export.export(network, (x,)).graph) == want
    module, g = program.module(), torch.randn_like(network(x))
    assert_close(module(x), network(x))
    for a, b in zip(gradients(module, module, x, g), gradients(network, network, x, g), strict=True):
        assert_close(a, b)


@pytest.mark.cpu_only("on a GPU the graph has the launches of kernels")
def test_compiled_training_keeps_the_winners():
    """Which is what backward needs least of: the compiled forward gives them, and the compiled backward takes them."""
    graphs = []

    def kept(graph, inputs):
        graphs.append([str(node.target) for node in graph.graph.nodes if "ndpool" in str(node.target)])
        return make_boxed_func(graph)

    x = distinct(2, 3, 8, 8).requires_grad_()
    compiled = torch.compile(lambda x: F.max_pool2d(x, 2), backend=aot_autograd(fw_compiler=kept), fullgraph=True)
    compiled(x).sum().backward()
    assert graphs == [["ndpool.forward_with_winners.default"], ["ndpool.vjp.default"]]


def test_indices_with_the_forward_differentiate_and_batch():
    """The operator of kept graphs by itself: gradients, second derivatives, and vmap."""
    x = distinct(4, 2, 6, 6).requires_grad_()
    for kind in (Max(), Min()):
        values = encode(Pool(kind, Window(3, 2, 1), (-2, -1)))
        y, indices = torch.ops.ndpool.forward_with_indices(x, *values)
        want, winners = torch.ops.ndpool.forward_with_winners(x, *values)
        assert torch.equal(indices, torch.ops.ndpool.indices(winners, x.shape, *values))
        assert not indices.requires_grad
        g = torch.randn_like(y)
        assert_close(torch.autograd.grad(y, x, g), torch.autograd.grad(want, x, g))
        torch.library.opcheck(torch.ops.ndpool.forward_with_indices, (x, *values))
        batched = torch.func.vmap(lambda x, values=values: torch.ops.ndpool.forward_with_indices(x, *values), 1, 1)(x)
        assert_close(batched, (y, indices))


# --- torch.jit.trace ------------------------------------------------------------------------------

DEPRECATED = pytest.mark.filterwarnings("ignore:`torch.jit.*` is deprecated:DeprecationWarning")


@DEPRECATED
def test_traced_by_torchscript(tmp_path):
    """With trained weights: PyTorch's own check of the trace, other sides, gradients, and a fresh process."""
    network, x = Trained(), distinct(2, 3, 20, 20)
    traced = torch.jit.trace(network, x)
    called = [str(node.kind()) for node in traced.inlined_graph.nodes() if "ndpool" in str(node.kind())]
    assert called == ["ndpool::forward_with_indices", *["ndpool::forward"] * 3]
    other = distinct(3, 3, 28, 30)
    assert_close(traced(other), network(other))
    g = torch.randn_like(network(other))
    assert_close(gradients(traced, traced, other, g), gradients(network, network, other, g))
    torch.jit.save(traced, str(tmp_path / "traced.pt"))
    torch.save((other, network(other).detach()), tmp_path / "expected.pt")
    code = """
import sys, torch, ndpool.torch
x, y = torch.load(sys.argv[1] + "/expected.pt")
torch.testing.assert_close(torch.jit.load(sys.argv[1] + "/traced.pt")(x).detach(), y)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(tmp_path)], check=True, timeout=120)


@DEPRECATED
@pytest.mark.parametrize("name", ["floor", "ceil after ceil", "adaptive", "global, flat", "indices", "norm"])
def test_traced_functions(name):
    """Of inputs that want gradients and of those that do not."""
    for wants in (False, True):
        x = distinct(2, 3, 16, 18).requires_grad_(wants)
        assert_close(torch.jit.trace(FUNCTIONS[name], x)(x), FUNCTIONS[name](x))


# --- numbers that vary ----------------------------------------------------------------------------

VARIED = {
    "smooth_max_pool2d": lambda x, beta: F.smooth_max_pool2d(x, beta, 2),
    "global_smooth_max_pool": lambda x, beta: F.global_smooth_max_pool(x, beta),
    "adaptive_smooth_max_pool": lambda x, beta: F.adaptive_smooth_max_pool(x, beta, (2, 2)),
    "lp_pool": lambda x, p: F.lp_pool(x, p, (2, 2)),
    "lp_pool2d": lambda x, p: F.lp_pool2d(x.abs(), p, 2),
    "avg_pool2d": lambda x, divisor: F.avg_pool2d(x, 2, divisor_override=int(divisor)),
    "a module": lambda x, beta: nn.SmoothMaxPool2d(beta, 2)(x),
}


def test_compiled_with_numbers_that_vary():
    """In one graph: each value compiles anew, with its own results and gradients."""

    def varied(x, value):
        return {name: function(x, value) for name, function in VARIED.items()}

    compiled = torch.compile(varied, fullgraph=True, backend="aot_eager")
    for value in (1.0, 2.0, 3.5, 2.0):
        x = distinct(2, 3, 4, 4).requires_grad_()
        got, want = compiled(x, value), varied(x, value)
        for name in VARIED:
            g = torch.randn_like(want[name])
            gradients = (torch.autograd.grad(y[name], x, g, retain_graph=True) for y in (got, want))
            assert_close((got[name], *next(gradients)), (want[name], *next(gradients)))


def test_a_compiled_module_whose_number_is_set_again():
    module, x = nn.SmoothMaxPool2d(1.0, 2), distinct(1, 4, 4)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for beta in (1.0, 2.0, -3.5):
        module.beta = beta
        assert_close(compiled(x), F.smooth_max_pool2d(x, beta, 2))


# --- onnx -----------------------------------------------------------------------------------------


def test_nothing_of_onnx_is_needed_before_it_is_asked_for():
    """Neither to import the adapter nor the translations."""
    code = """
import sys
sys.modules["onnx"] = sys.modules["onnxscript"] = sys.modules["onnxruntime"] = None  # as if they were not there
import ndpool.torch
assert "ndpool.torch.onnx" not in sys.modules
import ndpool.torch.onnx
assert len(ndpool.torch.onnx.translations()) == 6
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120)
