"""The other road: registered operators under opcheck, compile, export, fake and meta tensors, and dynamic shapes."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.library import opcheck
from torch.testing import assert_close
from torch_cases import DEVICE, FEW_POOLS, POOLS, distinct

import ndpool.torch.functional as F
from ndpool import Avg, Global, Max, Pool, Window
from ndpool.torch import autograd
from ndpool.torch.engine import TensorPool
from ndpool.torch.schema import decode, encode

OPS = torch.ops.ndpool
LAYOUTS = {
    "contiguous": lambda x: x,
    "channels last": lambda x: x.to(memory_format=torch.channels_last),
    "strided": lambda x: x.repeat_interleave(2, -1)[..., ::2],
}


@pytest.mark.parametrize("pool", POOLS, ids=str)
def test_a_pool_survives_the_schema(pool):
    for shape in [(2, 3, 5), (4, 7)]:
        assert decode(*encode(pool)).pool._layout(shape) == pool._layout(shape)
    assert decode(*encode(pool)).kind == pool.kind


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("pool", FEW_POOLS, ids=str)
def test_opcheck(pool, layout):
    """Schema, autograd registration, fake kernels and AOT dispatch, of each operator as the derivatives call it."""
    found, values = TensorPool(pool), encode(pool)
    x = LAYOUTS[layout](distinct(2, 3, 5, 4))
    y, winners = autograd.forward(found, x), None
    opcheck(OPS.forward, (x.requires_grad_(), *values))
    if found.wins:
        opcheck(OPS.forward_with_winners, (x, *values))
        winners = autograd.forward_with_winners(found, x.detach())[1]
        opcheck(OPS.indices, (winners, x.shape, *values))
    known = None if found.linear or found.wins else x
    opcheck(OPS.jvp, (torch.randn_like(x, requires_grad=True), known, winners, *values))
    g = torch.randn_like(y, requires_grad=True)
    opcheck(OPS.vjp, (g, x.shape, found.order_of(x), known, None, winners, *values))


def test_opcheck_flat_and_wide():
    """Axes that go, and winners of two bytes."""
    for pool in [Pool(Max(), Global(keepdims=False), (-2, -1)), Pool(Max(), Window(20, 5), (-2, -1))]:
        x = distinct(2, 3, 30, 25).to(memory_format=torch.channels_last).requires_grad_()
        opcheck(OPS.forward_with_winners, (x, *encode(pool)))
        y, winners = autograd.forward_with_winners(TensorPool(pool), x.detach())
        opcheck(OPS.indices, (winners, x.shape, *encode(pool)))
        g = torch.randn_like(y, requires_grad=True)
        opcheck(OPS.vjp, (g, x.shape, None, None, None, winners, *encode(pool)))


def both_ways(compiled, eager, x):
    """The same output, layout and gradient for a random cotangent."""
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    got, want = compiled(a), eager(b)
    assert_close(got, want)
    assert got.stride() == want.stride()
    g = torch.randn_like(want)
    assert_close(torch.autograd.grad(got, a, g), torch.autograd.grad(want, b, g))


FUNCTIONS = {
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_pool2d, indices": lambda x: F.max_pool2d(x, 2, return_indices=True)[0] * 1.0,
    "min_pool, split": lambda x: F.min_pool(x, (2, 2), ties="split"),
    "avg_pool2d": lambda x: F.avg_pool2d(x, [3, 2], padding=1, count_include_pad=False),
    "avg_pool, same": lambda x: F.avg_pool(x, 3, 1, "same", axes=(1, 2)),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, (3, None)),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, 2),
    "smooth_max_pool2d": lambda x: F.smooth_max_pool2d(x, 2.0, 2),
    "lp_pool2d": lambda x: F.lp_pool2d(x, 2, 2),
    "lp_pool2d, odd": lambda x: F.lp_pool2d(x.abs(), 3, 2),
    "global_max_pool": lambda x: F.global_max_pool(x, keepdims=False),
    "of the size": lambda x: F.avg_pool2d(x, x.shape[-2:]),
    "max_unpool2d": lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2, output_size=x.shape[-2:]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compile(name):
    """In one graph, for static and for dynamic shapes."""
    for dynamic in (False, True):
        torch._dynamo.reset()
        compiled = torch.compile(FUNCTIONS[name], fullgraph=True, backend="aot_eager", dynamic=dynamic)
        for shape in [(2, 3, 6, 7), (4, 2, 9, 8)][: 1 + dynamic]:
            both_ways(compiled, FUNCTIONS[name], distinct(*shape))
    both_ways(compiled, FUNCTIONS[name], distinct(2, 3, 6, 8).to(memory_format=torch.channels_last))


def test_inductor():
    def network(x):
        return F.avg_pool2d(F.max_pool2d(x.relu(), 3, 2, 1).sin(), 2)

    compiled = torch.compile(network, fullgraph=True)
    both_ways(compiled, network, distinct(2, 3, 12, 12, dtype=torch.float32))
    with torch.inference_mode():
        x = distinct(2, 3, 12, 12, dtype=torch.float32)
        assert_close(compiled(x), network(x))


def test_vmap_in_compiled_code():
    def batched(x):
        return torch.func.vmap(lambda x: F.max_pool2d(x, 2, return_indices=True)[0] + F.avg_pool2d(x, 2), 1)(x)

    x = distinct(2, 3, 4, 4)
    assert_close(torch.compile(batched, fullgraph=True, backend="aot_eager")(x), batched(x))


class Two(torch.nn.Module):
    def forward(self, x):
        return F.adaptive_avg_pool2d(F.max_pool2d(x, 3, 2, 1), 2)


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict):
    """With a dynamic batch and height; the exported program runs at other sizes."""
    x = distinct(2, 3, 8, 8)
    sizes = {"x": {0: torch.export.Dim("batch", min=1, max=64), 2: torch.export.Dim("height", min=8, max=64)}}
    program = torch.export.export(Two(), (x,), dynamic_shapes=sizes, strict=strict)
    assert {"ndpool::forward"} == {
        str(node.target.name()) for node in program.graph.nodes if "ndpool" in str(node.target)
    }
    for shape in [(2, 3, 8, 8), (5, 3, 17, 8)]:
        x = distinct(*shape)
        assert_close(program.module()(x), Two()(x))


@pytest.mark.parametrize("pool", POOLS, ids=str)
def test_fake_and_meta(pool):
    """Shapes, strides and dtypes without numbers."""
    for x in (distinct(2, 3, 5, 4), distinct(2, 3, 5, 4).to(memory_format=torch.channels_last)):
        real = F.pool(x, pool)
        meta = F.pool(x.to("meta"), pool)
        with FakeTensorMode() as mode:
            fake = F.pool(mode.from_tensor(x), pool)
        for pretended in (meta, fake):
            assert (pretended.shape, pretended.stride(), pretended.dtype) == (real.shape, real.stride(), real.dtype)
        assert (meta.device.type, fake.device.type) == ("meta", DEVICE)


def test_make_fx_sees_the_operator():
    graph = make_fx(lambda x: F.max_pool2d(x, 2))(distinct(1, 4, 4))
    assert "ndpool.forward" in graph.code
    x = distinct(1, 4, 4)
    assert torch.equal(graph(x), F.max_pool2d(x, 2))


def test_an_operator_differentiates_twice_by_itself():
    x = distinct(2, 4, 4).requires_grad_()
    pool = Pool(Avg(), Window(2), (-2, -1))
    y = OPS.forward(x, *encode(pool))
    (gx,) = torch.autograd.grad(y.pow(2).sum(), x, create_graph=True)
    assert_close(torch.autograd.grad(gx.sum(), x)[0], torch.full_like(x, 0.5))
