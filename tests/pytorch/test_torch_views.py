"""Tensors with gaps, steps, other orders and repeated cells are pooled as their dense copies are, and not copied."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close
from torch_cases import FEW_POOLS

import ndpool.torch.functional as F
from ndpool import Avg, Global, Max, Pool, Window
from ndpool.torch import engine

VIEWS = {
    "crop": lambda x: torch.nn.functional.pad(x, (1, 2, 2, 1))[..., 2:-1, 1:-2],
    "steps": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "channels": lambda x: x.repeat_interleave(3, 0)[1::3],
    "turned": lambda x: x.mT.contiguous().mT,
    "last first": lambda x: x.permute(2, 1, 0).contiguous().permute(2, 1, 0),
}
COTANGENTS = {
    "repeated": lambda g: torch.tensor(2.5, dtype=g.dtype).expand(g.shape),
    "repeated along one axis": lambda g: g[:1].expand(g.shape),
    "steps": lambda g: g.repeat_interleave(2, -1)[..., ::2] if g.dim() else g,
    "turned": lambda g: g.mT.contiguous().mT if g.dim() > 1 else g,
}


@pytest.mark.parametrize("side", [8, 300])
@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("pool", FEW_POOLS, ids=str)
def test_views_are_pooled_as_their_copies_are(pool, name, side):
    plain = torch.randint(0, 9, (4, side, side + 1)).float()
    view = VIEWS[name](plain)
    assert not view.is_contiguous()
    assert_close(F.pool(view, pool), F.pool(plain, pool))
    a, b = view.detach().requires_grad_(), plain.requires_grad_()
    y, expected = F.pool(a, pool), F.pool(b, pool)
    assert_close(y, expected)
    for cotangent in COTANGENTS.values():
        g = cotangent(torch.randn_like(expected))
        found = torch.autograd.grad(y, a, g, retain_graph=True)[0]
        assert_close(found, torch.autograd.grad(expected, b, g.contiguous(), retain_graph=True)[0])


@pytest.mark.parametrize("side", [8, 300])
@pytest.mark.parametrize("name", COTANGENTS)
@pytest.mark.parametrize("keepdims", [True, False])
def test_cotangents_whose_pooled_axes_may_be_gone(name, keepdims, side):
    x = torch.randn(6, 5, side, side, requires_grad=True)
    for kind in (Max(), Avg()):
        y = F.pool(x, Pool(kind, Global(keepdims), axes=(-2, -1)))
        g = COTANGENTS[name](torch.randn_like(y))
        found = torch.autograd.grad(y, x, g, retain_graph=True)[0]
        assert_close(found, torch.autograd.grad(y, x, g.contiguous())[0])


@pytest.mark.cpu_only("kernels on the GPU read dense tensors")
@pytest.mark.parametrize("side", [8, 300])
def test_nothing_is_copied(side, monkeypatch):
    """Neither a crop, nor the cotangent of a sum, which is one number."""
    copies = []
    dense = engine.dense
    monkeypatch.setattr(engine, "dense", lambda a, *rest: copies.append(dense(a, *rest) is not a) or dense(a, *rest))
    x = torch.randn(4, side, side)[:, 1:-1, 1:-1].requires_grad_()
    for pool in FEW_POOLS:
        F.pool(x, pool).sum().backward()
    assert not any(copies)


def test_a_pool_that_knows_arrays_can_be_compiled_for_tensors():
    x = torch.randn(3, 8, 8)
    pool = Pool(Max(), Window((2, 2)))
    expected = pool(x.numpy())
    pool.vjp(x.numpy())
    compiled = torch.compile(lambda x: pool(x), backend="eager", fullgraph=True)
    assert_close(compiled(x), torch.from_numpy(expected))
