"""What PyTorch shows of a pool, what a pool keeps, and what happens when that is changed in place."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.testing import assert_close
from torch_cases import DEVICE, FEW_POOLS, distinct

import ndpool.torch.functional as F
from ndpool import Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window
from ndpool.torch import autograd, engine, pools, schema
from ndpool.torch.engine import TensorPool

NAMES = {
    Max(): "MaxPool",
    Max("split"): "MaxPool",
    Min(): "MinPool",
    Sum(): "SumPool",
    Avg(): "AvgPool",
    SmoothMax(1.0): "SmoothMaxPool",
    Lp(2): "LpPool",
}


@pytest.mark.parametrize("kind", NAMES, ids=str)
def test_a_recorded_pool_has_its_name(kind):
    """On both roads, and for second derivatives."""
    pool, name = Pool(kind, Window((2,))), NAMES[kind]
    x = distinct(2, 4).requires_grad_()
    y = F.pool(x, pool)
    assert y.grad_fn.name() == f"{name}Backward"
    assert (
        torch.ops.ndpool.forward(x, *schema.encode(Pool(kind, Window((2,)), (-1,)))).grad_fn.name() == f"{name}Backward"
    )
    g = torch.randn_like(y, requires_grad=True)
    (gx,) = torch.autograd.grad(y, x, g, create_graph=True)
    assert gx.grad_fn.name() == f"{name}VjpBackward"
    assert torch.autograd.grad(gx, g, x, create_graph=True)[0].grad_fn.name() == f"{name}JvpBackward"


def test_a_pool_with_indices_has_its_name():
    x = distinct(1, 4).requires_grad_()
    y, indices = F.max_pool1d(x, 2, return_indices=True)
    assert y.grad_fn.name() == "MaxPoolBackward"
    assert not indices.requires_grad
    g = torch.randn_like(y)
    assert_close(torch.autograd.grad(y, x, g)[0], torch.autograd.grad(F.max_pool1d(x, 2), x, g)[0])


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events:UserWarning")
@pytest.mark.parametrize("kind", NAMES, ids=str)
def test_the_profiler_shows_the_pool(kind):
    """Small and large, in inference and in training; the numbers are those of a call without a profiler."""
    pool, name = Pool(kind, Window((2, 2))), f"{type(kind).engine}_pool"
    for side in (4, 80):
        x = distinct(2, side, side)
        leaf = x.clone().requires_grad_()
        want = F.pool(x, pool)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            y, z = F.pool(x, pool), F.pool(leaf, pool)
            z.backward(want)
        counts = {event.key: event.count for event in profile.key_averages()}
        assert counts[f"ndpool::{name}"] == 2
        assert counts[f"{NAMES[kind]}Backward"] == 1
        assert_close((y, z), (want, want))
        assert z.grad_fn.name() == f"{NAMES[kind]}Backward"


def test_the_profiler_shows_a_pool_with_indices():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        found = F.max_pool1d(distinct(1, 4), 2, return_indices=True)
    assert "ndpool::max_pool" in {event.key for event in profile.key_averages()}
    assert len(found) == 2


# --- changed in place -----------------------------------------------------------------------------


@pytest.mark.parametrize("side", [6, 60])
@pytest.mark.parametrize("pool", FEW_POOLS, ids=str)
def test_changes_in_place(pool, side):
    """An in-place ReLU on the output or on the input, after the pool: the right gradient, or PyTorch's own error.

    The output is kept by the policies that give to several cells, the input by these and by the kinds that bend.
    """
    kind = pool.kind
    several = isinstance(kind, Max | Min) and kind.ties != "first"
    leaf = distinct(2, side, side).requires_grad_()

    def slope(change_y, change_x):
        x = leaf * 1.0
        y = F.pool(x, pool)
        y = y.relu_() if change_y else y.relu()
        if change_x:
            x.relu_()
        return torch.autograd.grad(y, leaf, torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape))[0]

    want = slope(False, False)
    for change_y, change_x in ((True, False), (False, True)):
        if (change_y and several) or (change_x and (several or isinstance(kind, SmoothMax | Lp))):
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                slope(change_y, change_x)
        else:
            assert_close(slope(change_y, change_x), want)


def test_indices_changed_in_place():
    """They are not what is kept."""
    x = distinct(1, 6, 6).requires_grad_()
    y, indices = F.max_pool2d(x, 2, return_indices=True)
    g = torch.randn_like(y)
    indices.zero_()
    y.relu_()
    want = torch.autograd.grad(F.max_pool2d(x, 2).relu(), x, g)[0]
    assert_close(torch.autograd.grad(y, x, g)[0], want)


# --- axes that go, in any order in memory ---------------------------------------------------------


@pytest.mark.parametrize("axes", [(-1,), (1,), (2, 3), (0, 2)])
@pytest.mark.parametrize("kind", [Max(), Min("all"), Avg(), Lp(2)], ids=str)
def test_flat_pools_of_any_order(kind, axes):
    """Every order of four axes in memory, two of which have the same length."""
    pool = Pool(kind, Global(keepdims=False), axes)
    x = distinct(3, 2, 3, 4)
    want = F.pool(x, pool)
    assert_close(want, torch.from_numpy(pool(x.numpy())))
    g = torch.randn_like(want)
    want_gx = torch.from_numpy(pool.vjp(x.numpy())[1](g.numpy()))
    found = TensorPool(Pool(kind, Global(keepdims=False), tuple(a - 4 if a >= 0 else a for a in axes)))
    for order in itertools.permutations(range(4)):
        back = [order.index(d) for d in range(4)]
        a = x.permute(order).contiguous().permute(back).requires_grad_()
        y = F.pool(a, pool)
        assert_close(y, want)
        assert_close(torch.autograd.grad(y, a, g)[0], want_gx)
        assert_close(torch.func.jvp(lambda a: F.pool(a, pool), (a.detach(),), (x,))[1], autograd.jvp(found, x, x, None))
        if found.wins:
            assert_close(autograd.with_indices(found, a)[1], autograd.with_indices(found, x)[1])


# --- what is found again --------------------------------------------------------------------------


def test_plans_are_let_go():
    """One pool on many shapes: it keeps so many plans, the newest ones, and is right on all of them."""
    pool = TensorPool(Pool(Max(), Window((2,))))
    many = 3 * engine._PLANS_KEPT
    for length in range(2, many):
        x = torch.arange(float(length))
        assert_close(engine.forward(pool, x), x[1::2])
    assert len(pool.plans) == len(pool.seen_forward) == engine._PLANS_KEPT
    assert {size[0] for size, *_ in pool.plans} == set(range(many - engine._PLANS_KEPT, many))
    assert_close(engine.forward(pool, torch.arange(4.0)), torch.tensor([1.0, 3.0]))


def test_plans_of_one_shape_and_another_dtype_or_order():
    x = torch.arange(8).reshape(2, 4)
    pool = Pool(Sum(), Window((2,)))
    for a in (x, x.double(), x.float(), x.t().contiguous().t().double(), x.int(), x.double()):
        y = F.pool(a, pool)
        assert y.tolist() == [[1, 5], [9, 13]]
        assert y.dtype == (a.dtype if a.is_floating_point() else torch.int64)


def test_a_pool_is_made_ready_once():
    pool = Pool(Max(), Window((2, 2)))
    assert pools.over_pool(pool, 3) is pools.over_pool(pool, 3)
    assert pools.over_pool(pool, 4) is not pools.over_pool(pool, 3)
    numbers = (2, 2)
    assert pools.over_window(Max, numbers, None, 0, 1, False, None, 3, None, 1) is pools.over_window(
        Max, (*numbers,), None, 0, 1, False, None, 3, None, 1
    )


REVERSED = [Max(), Max("split"), Max("all"), Avg(), Sum(), SmoothMax(1.0), Lp(2)]


@pytest.mark.parametrize("side", [6, 60])
@pytest.mark.parametrize("kind", REVERSED, ids=repr)
def test_pooled_axes_in_any_order_in_memory(kind, side, monkeypatch):
    """Nothing is copied but for the first winner in row-major order."""
    copies = []
    dense = engine.dense
    monkeypatch.setattr(engine, "dense", lambda a, *rest: copies.append(dense(a, *rest) is not a) or dense(a, *rest))
    plain = torch.randint(0, 5, (2, side, side + 1, side)).float()
    x = plain.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0).requires_grad_()
    pool = Pool(kind, Window((3, 2, 2), 2))
    with torch.no_grad():
        y = F.pool(x, pool)
    expected = pool(plain.numpy())
    assert_close(y, torch.from_numpy(expected))
    assert y.stride() == y.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0).stride()
    assert not any(copies)
    recorded = F.pool(x, pool)
    g = torch.randn_like(recorded)
    (gx,) = torch.autograd.grad(recorded, x, g)
    assert_close(recorded.detach(), torch.from_numpy(expected))
    assert_close(gx, torch.from_numpy(pool.vjp(plain.numpy())[1](g.numpy())))
    assert kind == Max() or not any(copies)


@pytest.mark.parametrize("kind", REVERSED, ids=repr)
def test_pooled_axes_in_any_order_when_pretended(kind):
    x = torch.randn(2, 6, 7, 8).permute(3, 2, 1, 0)
    pool = Pool(kind, Window((3, 2), 2))
    y = F.pool(x, pool)
    meta = F.pool(x.to("meta"), pool)
    assert (meta.shape, meta.stride()) == (y.shape, y.stride())
    compiled = torch.compile(lambda x: F.pool(x, pool), backend="aot_eager", fullgraph=True)
    assert_close(compiled(x), y)
    leaf = x.detach().requires_grad_()
    assert_close(compiled(leaf), y)
    assert_close(*(torch.autograd.grad(f(leaf).square().sum(), leaf)[0] for f in (compiled, lambda x: F.pool(x, pool))))


def test_arguments_are_let_go(monkeypatch):
    monkeypatch.setattr(pools, "_POOLS_KEPT", 2)
    calls = []

    @pools.remembered
    def make(size):
        calls.append(size)
        return TensorPool(Pool(Max(), Window((size,))))

    for size in (1000, 2000, 3000, 3000, 2000):
        assert make(size).pool.window.kernel_size == (size,)
    assert calls == [1000, 2000, 3000]
    make(1000)
    assert calls == [1000, 2000, 3000, 1000]


def test_decoded_pools_are_let_go(monkeypatch):
    monkeypatch.setattr(schema, "_decoded", {})
    for size in range(1, schema._DECODED_KEPT + 10):
        found = schema.decode(*schema.encode(Pool(Max(), Window((size,)), (-1,))))
        assert found.pool.window.of_axis(0, 1)[0] == size
    assert len(schema._decoded) == schema._DECODED_KEPT


# --- integers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"])
def test_smooth_kinds_of_integers(name):
    """Float64, as arrays give: of small and large tensors, in any order in memory, compiled and pretended."""
    for side in (4, 60):
        x = (torch.arange(2 * side * side).reshape(2, side, side) % 100).to(getattr(torch, name))
        for kind in (SmoothMax(0.5), Lp(2), Lp(3)):
            pool = Pool(kind, Window((2, 2), padding=1))
            want = torch.from_numpy(pool(x.numpy()))
            assert want.dtype == torch.float64
            assert_close(F.pool(x, pool), want, rtol=0 if DEVICE == "cpu" else 1e-15, atol=0)
            assert_close(F.pool(x.transpose(1, 2).contiguous().transpose(1, 2), pool), want)
            meta = F.pool(x.to("meta"), pool)
            assert (meta.dtype, meta.shape) == (want.dtype, want.shape)


def test_smooth_kinds_of_integers_compiled():
    x = torch.arange(16).reshape(1, 4, 4)
    compiled = torch.compile(lambda x: F.smooth_max_pool2d(x, 1.0, 2), backend="aot_eager", fullgraph=True)
    assert_close(compiled(x), F.smooth_max_pool2d(x, 1.0, 2))
