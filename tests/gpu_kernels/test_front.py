"""Tensors to the engine for GPUs and back: layouts, derivatives in both modes to every order, transforms, errors."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from on_device import DEVICE
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.testing import assert_close

import ndpool.torch.functional as F
import ndpool.torch.nn as N
from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Mode, Pool, Quantile, SmoothMax, Sum, Window
from ndpool.torch import devices, engine
from ndpool.torch.engine import TensorPool
from ndpool.triton.arithmetic import is_nvidia

KINDS = [Max(), Min("split"), Max("all"), Sum(), Avg(count_include_pad=False), SmoothMax(1.5), Lp(3)]
WINDOWS = [Window((3, 2), 2, 1), Adaptive((2, 3)), Global(), Global(keepdims=False)]
POOLS = [Pool(kind, WINDOWS[0], (-2, -1)) for kind in KINDS]
POOLS += [Pool(kind, window, (-2, -1)) for kind in (Max(), Avg(), SmoothMax(-0.5)) for window in WINDOWS[1:]]
#: Small ones: to differentiate takes the interpreter many launches, and each a tenth of a second.
ROWS = [Pool(kind, Window((2,), 1), (-1,)) for kind in KINDS]
LAYOUTS = {
    "dense": lambda x: x,
    "channels last": lambda x: x.to(memory_format=torch.channels_last),
    "turned": lambda x: x.mT.contiguous().mT,
    "crop": lambda x: torch.nn.functional.pad(x, (1, 2, 2, 1))[..., 2:-1, 1:-2],
    "steps": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "repeated": lambda x: x[:1].expand(x.shape),
}


def distinct(*shape, dtype=torch.float64):
    """Numbers in random order, no two alike or close to 0, of both signs."""
    count = int(np.prod(shape))
    numbers = (torch.randperm(count) + 0.5 - count // 2) / max(count // 2, 1)
    return numbers.reshape(shape).to(dtype).to(DEVICE)


def array(a):
    return a.detach().cpu().numpy()


def test_the_engine_is_the_one_for_gpus():
    pool, x = TensorPool(POOLS[0]), distinct(2, 5, 6)
    assert (
        pool.plan_of(x).engine.__name__ == type(pool.plan_of(x).quick).__module__[: -len(".engine")] == "ndpool.triton"
    )
    assert pool.plan_of(x).takes(x) == x.is_cuda


# --- layouts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pool", "layout"),
    [(pool, layout) for layout in LAYOUTS for pool in (POOLS if layout == "dense" else POOLS[::3])],
    ids=str,
)
def test_layouts(pool, layout):
    """The numbers of arrays, on the tensor's device, in its order of axes; the way back as well."""
    x = LAYOUTS[layout](distinct(2, 3, 5, 6))
    before, leaf = x.clone(), x.detach().requires_grad_()
    y = pool(leaf)
    expected, pullback = pool.vjp(array(x))
    assert (y.device, y.dtype) == (x.device, x.dtype)
    assert_close(y.detach().cpu(), torch.from_numpy(np.ascontiguousarray(expected)))
    for g in (torch.randn_like(y), torch.ones((), dtype=y.dtype, device=y.device).expand(y.shape)):
        gx = torch.autograd.grad(y, leaf, g, retain_graph=True)[0]
        assert_close(gx.cpu(), torch.from_numpy(np.ascontiguousarray(pullback(array(g)))))
    assert torch.equal(x, before)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int16, torch.int64], ids=str)
def test_integers(dtype):
    x = (distinct(2, 5, 8) * 9).abs().to(dtype)
    for kind in (Max(), Sum(), Avg(), Lp(2)):
        pool = Pool(kind, Window((2, 3), 2, 1))
        assert_close(pool(x).cpu(), torch.from_numpy(pool(array(x))))


def test_indices_and_what_is_not_there():
    x = distinct(2, 5, 8)
    x[0, 0] = torch.nan
    pool = Pool(Max(), Window((1, 4)), skip=np.nan)
    (y, found), (expected, indices) = pool.with_indices(x), pool.with_indices(array(x))
    assert_close(y.cpu(), torch.from_numpy(expected), equal_nan=True)
    assert_close(found.cpu(), torch.from_numpy(indices))
    assert (found[0, 0] == -1).all()


def test_empty_batches():
    x = torch.zeros(0, 3, 4, 4, device=DEVICE, requires_grad=True)
    for pool in POOLS:
        y = pool(x)
        y.sum().backward()
        assert x.grad.shape == x.shape
        assert y.shape == pool.output_shape(x.shape)


# --- derivatives ----------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", ROWS, ids=str)
def test_both_modes(pool):
    x = distinct(2, 4).requires_grad_()
    assert gradcheck(lambda x: F.pool(x, pool), x, check_forward_ad=True, fast_mode=True)


@pytest.mark.parametrize("pool", [ROWS[0], *ROWS[4:]], ids=str)
def test_second_derivatives(pool):
    x = distinct(2, 3).requires_grad_()
    assert gradgradcheck(lambda x: F.pool(x, pool), x, check_fwd_over_rev=True, fast_mode=True)


@pytest.mark.parametrize("pool", [ROWS[0], *ROWS[4:]], ids=str)
def test_transforms(pool):
    x, t = distinct(2, 4), torch.randn(2, 4, dtype=torch.float64, device=DEVICE)

    def total(x):
        return F.pool(x, pool).square().sum()

    y, dy = jvp(lambda x: F.pool(x, pool), (x,), (t,))
    _, pullback = vjp(lambda x: F.pool(x, pool), x)
    g = torch.randn_like(y)
    assert_close((g * dy).sum(), (pullback(g)[0] * t).sum())
    assert_close(vmap(grad(total))(x), torch.stack([grad(total)(a) for a in x]))
    assert_close(jacfwd(total)(x), jacrev(total)(x))
    assert_close(hessian(total)(x), jacrev(grad(total))(x))


def test_linear_maps():
    x = distinct(3, 6, 5)
    for pool in POOLS[:7]:
        y, linear = pool.linearize(x)
        t, g = torch.randn_like(x), torch.randn_like(y)
        assert_close((linear.push(t) * g).sum(), (linear.pull(g) * t).sum())
        assert_close(linear.push(t), pool.jvp(x, t)[1])


def test_a_beta_that_is_learned():
    x = distinct(1, 3, 2, 4).requires_grad_()
    beta = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64, device=DEVICE, requires_grad=True)
    assert gradcheck(lambda x, beta: F.smooth_max_pool2d(x, beta, 2), (x, beta), fast_mode=True)
    x = distinct(2, 3, 4, 4)
    x[0, 0, 0, 0] = torch.inf
    y = F.smooth_max_pool2d(x.requires_grad_(), beta, 2)
    y[1].sum().backward()
    assert beta.grad.isfinite().all()


def test_modules():
    model = torch.nn.Sequential(N.MaxPool2d(2), N.AdaptiveAvgPool2d(2)).to(DEVICE)
    theirs = torch.nn.Sequential(torch.nn.MaxPool2d(2), torch.nn.AdaptiveAvgPool2d(2))
    x = distinct(2, 3, 12, 12, dtype=torch.float32)
    assert_close(model(x), theirs(x))
    assert_close(functional_call(model, {}, (x,)), theirs(x))


def test_deterministic_algorithms():
    """Nothing is scattered, so nothing is refused and nothing is warned of."""
    torch.use_deterministic_algorithms(True)
    try:
        for pool in POOLS:
            x = distinct(2, 3, 5, 6).requires_grad_()
            y = pool(x)
            y.backward(torch.randn_like(y))
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_leaves_the_dtype_alone(dtype):
    with torch.autocast(DEVICE, dtype=dtype):
        for x in (distinct(3, 4, 4, dtype=torch.float32), distinct(3, 4, 4, dtype=dtype)):
            assert F.max_pool2d(x, 2).dtype == F.avg_pool2d(x, 2).dtype == x.dtype


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Mode(), Quantile(0.5)], ids=repr)
def test_kinds_without_a_kernel(kind):
    with pytest.raises(NotImplementedError, match=r"has no kernel for GPUs yet, .*; call \.cpu\(\) on the tensor"):
        Pool(kind, Window((2, 2)))(distinct(4, 4))


def test_without_triton(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("ndpool.triton")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "triton", None)
    said = r"the tensor is on \w+, where ndpool computes with Triton, .* 'triton'; install triton"
    with pytest.raises(NotImplementedError, match=said):
        TensorPool(POOLS[0]).plan_of(distinct(7, 5, 6))


def test_with_a_triton_that_is_too_old(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("ndpool.triton")]:
        monkeypatch.delitem(sys.modules, name)
    old = ModuleType("triton")
    old.__version__ = "3.4.0+git1234"
    monkeypatch.setitem(sys.modules, "triton", old)
    said = r"where ndpool computes with Triton 3\.5 or later, and here is 3\.4\.0\+git1234; install a later PyTorch"
    with pytest.raises(NotImplementedError, match=said):
        TensorPool(POOLS[0]).plan_of(distinct(7, 5, 6))
    old.__version__ = "3.5.0"  # where something else is wrong, which is told as it is
    with pytest.raises(AttributeError, match="module 'triton' has no attribute"):
        TensorPool(POOLS[0]).plan_of(distinct(7, 5, 6))


def test_the_oldest_triton_is_the_one_that_is_asked_for():
    """With `ndpool[gpu]`."""
    asked_for = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert f'"triton>={".".join(map(str, devices.OLDEST_TRITON))}"' in asked_for


def test_devices_without_an_engine():
    with pytest.raises(NotImplementedError, match=r"the tensor is on mps:0, for which ndpool has no engine; call"):
        devices.check_device(torch.device("mps:0"))
    devices.check_device(torch.device("meta"))
    devices.check_device(torch.device("cuda:1"))


class OnCard:
    """What the short way asks of a tensor on one of several cards."""

    def __init__(self, card):
        self.card = card

    def get_device(self):
        return self.card

    def new_empty_strided(self, *_):
        return torch.empty(1)


@pytest.mark.parametrize("kind", [Max(), Max("split")], ids=repr)
def test_what_is_kept_on_another_card_does_not_go_the_short_way(kind, monkeypatch):
    """There the addresses mean something else."""
    plan = TensorPool(Pool(kind, Window((2, 2)), (-2, -1))).plan_of(distinct(4, 4))
    short, launched = plan.quick, []
    for name in ("_x", "_y", "_g", "_won"):
        monkeypatch.setattr(short, name, lambda a: 0 if a is None else 16)
    recipe = SimpleNamespace(names=("g",), run_again=lambda *of: launched.append(of) or True)
    monkeypatch.setitem(vars(short), "_pull", recipe)
    kept = [None, None, OnCard(1)] if plan.wins else [OnCard(1), OnCard(1), None]
    assert short.pull(*kept, OnCard(0)) is None
    assert not launched
    assert short.pull(*kept, OnCard(1)) is not None
    assert len(launched) == 1


@pytest.mark.parametrize(("cards", "pairs"), [([(9, 0), (8, 0)], True), ([(9, 0), (7, 5)], False)], ids=str)
def test_the_oldest_card_says_what_kernels_are_made_of(cards, pairs, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(cards))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=0: cards[device])
    assert is_nvidia() == pairs


def test_directions_from_elsewhere():
    pool, x = Pool(Max(), Window((2, 2))), distinct(4, 4)
    y, linear = pool.linearize(x)
    for act, name in ((lambda a: linear.push(a), "t"), (lambda a: pool.jvp(x, a), "t")):
        with pytest.raises(ValueError, match=rf"{name} is on meta and x on {x.device}; give {name}\.to\("):
            act(torch.empty(4, 4, dtype=x.dtype, device="meta"))
    with pytest.raises(ValueError, match=r"g is on meta and x on"):
        linear.pull(torch.empty(2, 2, dtype=x.dtype, device="meta"))
    found = TensorPool(Pool(Max(), Window((2, 2)), (-2, -1)))
    with pytest.raises(ValueError, match=r"g is on .* and x on meta"):
        engine.vjp(found, y, x.shape, None, None, None, torch.empty(2, 2, dtype=torch.uint8, device="meta"))
