"""Tensors have the arrays' plans: the derivative as a thing of its own, the same errors, and threads of their own."""

from __future__ import annotations

import gc
import itertools
import weakref

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from torch_cases import DEVICE, distinct

import ndpool
import ndpool.torch.functional as F
from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window, native
from ndpool import plan as plan_module
from ndpool.torch import engine
from ndpool.torch.engine import TensorPool, Tensors
from ndpool.torch.pools import over_pool

KINDS = [Max(), Max("split"), Min("all"), Min(), Sum(), Avg(False), SmoothMax(-1.5), Lp(2), Lp(3)]
WINDOWS = [
    (Window((3, 2), 2, 1), (1, 3)),
    (Global(keepdims=False), (1, 3)),
    (Adaptive((2, 3)), None),
]
SHAPE = (2, 5, 3, 4)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("kind", KINDS, ids=repr)
@pytest.mark.parametrize(("window", "axes"), WINDOWS, ids=repr)
def test_linearize_is_that_of_arrays(kind, window, axes, memory_format):
    """Push, pull, what is kept and where the winners stand; with ties."""
    pool, x = Pool(kind, window, axes), torch.randint(-2, 3, SHAPE).double().contiguous(memory_format=memory_format)
    y, linear = pool.linearize(x)
    want, wanted = pool.linearize(x.numpy())
    t, g = torch.randn(SHAPE, dtype=torch.float64), torch.randn(y.shape, dtype=torch.float64)
    assert_close(y, torch.from_numpy(want))
    assert_close(linear.push(t), torch.from_numpy(wanted.push(t.numpy())))
    assert_close(linear.pull(g), torch.from_numpy(wanted.pull(g.numpy())))
    assert_close((linear.push(t) * g).sum(), (linear.pull(g) * t).sum())
    for ours, theirs in zip(linear.residual, wanted.residual, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert_close(ours, torch.from_numpy(np.ascontiguousarray(theirs)), rtol=0, atol=0)
    if linear.residual.winners is not None:
        assert_close(linear.indices(), torch.from_numpy(wanted.indices()), rtol=0, atol=0)
    y.zero_()
    assert_close(linear.pull(g), torch.from_numpy(wanted.pull(g.numpy())))


@pytest.mark.parametrize("side", [4, 40])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_winners_push_whatever_lies_where(dtype, side):
    """From the winners alone, x being gone: of every order of axes that t may have, small and large."""
    pool, x = Pool(Max(), Window((3, 2), 2, 1)), torch.randn(2, 3, side, side).to(dtype)
    y, linear = pool.linearize(x.to(memory_format=torch.channels_last))
    layouts = [torch.contiguous_format, torch.channels_last]
    for t in (
        *(x.contiguous(memory_format=layout) for layout in layouts),
        x.transpose(2, 3).contiguous().transpose(2, 3),
    ):
        dy = linear.push(t)
        assert dy.dtype == dtype
        assert_close(dy, y, rtol=0, atol=0)


@pytest.mark.parametrize("pool", [Pool(SmoothMax(2.0), Window((2, 2), 1)), Pool(Lp(3), Window((3,), 2))], ids=repr)
def test_push_and_pull_can_be_differentiated(pool):
    x, t = distinct(3, 4).requires_grad_(), torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    g = torch.randn(pool.output_shape(x.shape), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, t: pool.linearize(x)[1].push(t), (x, t))
    assert torch.autograd.gradcheck(lambda x, g: pool.linearize(x)[1].pull(g), (x, g))


@pytest.mark.parametrize("kind", [Max(), Max("all"), Avg(), Lp(2)], ids=repr)
def test_linearize_can_be_compiled_and_transformed(kind):
    pool, x = Pool(kind, Window((2, 2), 1)), distinct(3, 4, 5)
    t, g = torch.randn(3, 4, 5, dtype=torch.float64), torch.randn(3, 3, 4, dtype=torch.float64)

    def both(x, t, g):
        _, linear = pool.linearize(x)
        return linear.push(t), linear.pull(g)

    want = both(x, t, g)
    assert_close(torch.compile(both, fullgraph=True, backend="eager")(x, t, g), want)
    assert_close(torch.vmap(both)(x, t, g), want)


def test_linear_keeps_no_input_that_it_does_not_need():
    for kind, kept in ((Max(), False), (Sum(), False), (Lp(2), True), (Max("split"), True)):
        x = torch.randn(4, 4)
        alive = weakref.ref(x)
        _, linear = Pool(kind, Window((2, 2))).linearize(x)
        del x
        gc.collect()
        assert (alive() is not None) == kept
        assert linear.push(torch.randn(4, 4)).shape == (2, 2)


def test_errors_of_linearize():
    x = torch.tensor([1.0, 2.0, 4.0, 3.0])
    linear = Pool(Max(), Window((2,))).linearize(x)[1]
    for act, error, message in (
        (lambda: linear.push(x.numpy()), TypeError, r"t is a ndarray and x is a tensor; give torch.as_tensor\(t\)"),
        (lambda: linear.pull(x), ValueError, r"g has shape \(4,\) and should have \(2,\)"),
        (lambda: linear.pull(x[:2], out=torch.zeros(4)), TypeError, r"out is given beside a tensor.*out.copy_"),
        (lambda: Pool(Sum(), Window((2,))).linearize(x)[1].indices(), TypeError, "keeps no winners"),
        (lambda: Pool(Sum(), Window((2,))).linearize(x.int()), TypeError, r"give x.double\(\)"),
    ):
        with pytest.raises(error, match=message):
            act()


def test_windows_of_zeros_do_not_bend():
    """The p-norm of a window of zeros: no weight, in any order of differentiation."""
    x, t, v = torch.tensor([0.0, 0.0, 3.0, 4.0]), torch.tensor([1.0, 2.0, 1.0, 0.0]), torch.tensor([3.0, 1.0, 0.0, 1.0])
    for p in (2, 3):
        pool = Pool(Lp(p), Window((2,)))
        hessian = torch.func.hessian(lambda x, pool=pool: pool(x))(x)
        twice = torch.func.jvp(lambda x, pool=pool: torch.func.jvp(pool, (x,), (t,))[1], (x,), (v,))[1]
        assert_close(twice, torch.einsum("kij,i,j->k", hessian, t, v))
        assert twice[0] == 0


# --- one cache, one geometry, one set of errors ---------------------------------------------------


@pytest.mark.cpu_only("it is about the native engine, which arrays and tensors share")
def test_arrays_and_tensors_have_one_plan():
    pool, x = Pool(Max(), Window((2, 2)), (-2, -1)), torch.randn(3, 6, 6)
    tensors, arrays = TensorPool(pool).plan_of(x), pool._plan(x.numpy())
    assert tensors.plan is arrays.plan
    assert tensors.native is arrays.native
    last = distinct(2, 3, 6, 6, dtype=torch.float32).to(memory_format=torch.channels_last)
    assert TensorPool(pool).plan_of(last).plan is pool._plan(last.numpy()).plan
    assert TensorPool(pool).plan_of(x.bfloat16()).plan.dtype == "bfloat16"


HUGE = [
    (((3, 3), 1, 10**9), ValueError, r"padding=1000000000.* more than 2\*\*63 elements.*; use a smaller kernel_size"),
    (((3, 3), 1, 2**27), MemoryError, r"padding=134217728.*no memory for an output of shape \(.*; use a smaller"),
    (
        ((10**10, 3), 10**10, 10**10),
        (MemoryError, ValueError),
        r"kernel_size=\(10000000000, 3\).* is too large: .*; use",
    ),
    (((2**44, 3), 1, ((2**43, 2**43), 0)), ValueError, r"kernel_size=\(17592186044416, 3\).* is too large: .*2\*\*40"),
]


@pytest.mark.cpu_only("of a GPU's memory PyTorch itself says that there is none left")
@pytest.mark.parametrize(("arguments", "error", "message"), HUGE)
def test_huge_windows_of_tensors_and_arrays(arguments, error, message):
    """One error for both, which names the window, the shape and the remedy; no bare word of the allocator's."""
    x = np.ones((2, 3, 8, 8))
    said = []
    for a in (x, torch.from_numpy(x)):
        for name in ("avg_pool", "sum_pool"):
            with pytest.raises(error, match=message) as caught:
                getattr(ndpool, name)(a, *arguments)
            assert f"over shape {x.shape}" in str(caught.value)
            said.append(str(caught.value))
    assert said[:2] == said[2:]


class Starving:
    """In place of the engine's plan: every method wants more memory than there is."""

    def takes(self, x):
        return True

    def __getattr__(self, name):
        def method(*memory, threads=0):
            raise MemoryError("std::bad_alloc")

        return method


@pytest.mark.cpu_only("it is about the native engine")
@pytest.mark.parametrize("quick", [None, Starving()], ids=["common", "short"])
@pytest.mark.parametrize("kind", [Max(), Max("all"), SmoothMax(1.0)], ids=repr)
def test_memory_that_runs_out_is_explained(kind, quick, monkeypatch):
    """As for arrays, the common way and the short one."""
    pool, x = Pool(kind, Window((2, 2), padding=1)), torch.randn(400, 400, requires_grad=True)
    y, linear = pool.linearize(x)
    acts = [pool, pool.linearize, linear.push, lambda x: pool.jvp(x, x), lambda _: linear.pull(y)]
    acts += [pool.with_indices] if kind == Max() else []
    acts += [lambda x: torch.autograd.grad(y, x, y.detach(), retain_graph=True)]
    for act in acts:
        act(x)
    for plan in list(plan_module._plans.values()):
        if plan.shape == (400, 400):
            monkeypatch.setitem(plan.handles, "native", Starving())
    monkeypatch.setattr(Tensors, "quick", quick)
    for act in acts:
        with pytest.raises(
            MemoryError, match=r"kernel_size=\(2, 2\).* over shape \(400, 400\) is too large: there is no memory"
        ):
            act(x)


@pytest.mark.parametrize("name", ["smooth_max_pool", "lp_pool"])
def test_smooth_pools_of_integers_agree(name):
    """Arrays and tensors, traced and pretended: float64."""
    x = torch.arange(36).reshape(1, 6, 6) % 7
    want = getattr(ndpool, name)(x.numpy(), 2, (2, 2))
    assert want.dtype == np.float64
    exact = {"rtol": 0, "atol": 0} if DEVICE == "cpu" else {}  # where one engine computes both
    for function in (getattr(ndpool, name), getattr(F, name)):
        for run in (function, torch.compile(function, fullgraph=True, backend="eager")):
            y = run(x, 2, (2, 2))
            assert y.dtype == torch.float64
            assert_close(y, torch.from_numpy(want), **exact)
    traced = torch.fx.experimental.proxy_tensor.make_fx(lambda x: getattr(F, name)(x, 2, (2, 2)))(x)
    assert_close(traced(x), torch.from_numpy(want), **exact)
    assert getattr(F, name)(x.to("meta"), 2, (2, 2)).dtype == torch.float64


# --- threads --------------------------------------------------------------------------------------


@pytest.fixture
def threads():
    """The two numbers, put back afterwards."""
    ours, theirs = ndpool.get_num_threads(), torch.get_num_threads()
    yield
    ndpool.set_num_threads(ours)
    torch.set_num_threads(theirs)


@pytest.mark.usefixtures("threads")
def test_tensors_leave_the_number_of_threads_alone():
    """Every operation on tensors, small and large: the number of `set_num_threads` is what it was."""
    ndpool.set_num_threads(3)
    torch.set_num_threads(2)
    for kind, side in itertools.product((Max(), Max("all"), Avg(), Lp(2)), (4, 70)):
        pool, x = Pool(kind, Window((2, 2))), torch.randn(2, side, side, requires_grad=True)
        y, linear = pool.linearize(x)
        torch.autograd.grad(y, x, torch.randn_like(y))
        linear.push(torch.randn(2, side, side))
        pool.jvp(x, torch.randn(2, side, side))
        if kind == Max():
            pool.with_indices(x)
        pool(x.detach())
        assert (ndpool.get_num_threads(), torch.get_num_threads()) == (3, 2)


@pytest.mark.cpu_only("it is about the native engine and its threads")
@pytest.mark.usefixtures("threads")
def test_tensors_are_pooled_with_the_threads_of_pytorch(monkeypatch):
    """Each operation is handed their number; the results are those of any other."""
    seen = []

    def watched(name):
        run = getattr(native, name)

        def watch(plan, *arguments):
            seen.append((name, arguments[-1]))
            run(plan, *arguments)

        monkeypatch.setattr(native, name, watch)

    for name in ("forward", "linearize", "push", "pull", "jvp", "indices"):
        watched(name)
    torch.set_num_threads(5)
    x = torch.randn(3, 250, 250)
    for kind in (Max(), Max("all"), Avg()):
        found = TensorPool(Pool(kind, Window((2, 2)), (-2, -1)))
        found.plan_of(x).quick = None  # so that the common way is gone
        y, winners = engine.forward_with_winners(found, x) if found.wins else (engine.forward(found, x), None)
        engine.jvp(found, x, None if found.wins else x, winners)
        engine.jvp(found, x, x, None)
        engine.vjp(found, y, x.shape, None, None if found.linear else x, None, winners)
        if found.wins:
            engine.indices(found, winners, x.shape)
    assert {name for name, _ in seen} == {"forward", "linearize", "push", "pull", "jvp", "indices"}
    assert {number for _, number in seen} == {5}


class Watched:
    """In place of the short way: writes down the threads of every call, and takes none."""

    def __init__(self):
        self.seen = []

    def __getattr__(self, name):
        return lambda *arguments: self.seen.append((name, arguments[-1]))


@pytest.mark.cpu_only("it is about the native engine and its threads")
@pytest.mark.usefixtures("threads")
def test_the_short_way_is_handed_their_number_too():
    torch.set_num_threads(5)
    x = torch.randn(3, 8, 8, requires_grad=True)
    pool = Pool(Max(), Window((2, 2)))
    plan = over_pool(pool, 3).plan_of(x.detach())
    plan.quick = Watched()
    F.pool(x.detach(), pool)
    F.pool(x, pool).sum().backward()
    computed = [call for call in plan.quick.seen if call[0] != "takes"]
    assert computed == [("forward", 5), ("linearize", 5), ("pull", 5), ("pull", 5)]
