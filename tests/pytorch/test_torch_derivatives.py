"""Both modes, to second order and beyond, for every kind, window and policy; and the transforms of `torch.func`."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.testing import assert_close
from torch_cases import FEW_POOLS, KINDS, POOLS, distinct, since_2_13

import ndpool
import ndpool.torch.functional as F
from ndpool import Lp, Max, Min, Pool, SmoothMax, Window
from ndpool.torch import autograd
from ndpool.torch.engine import TensorPool
from ndpool.torch.schema import encode


def call(pool):
    return lambda x: F.pool(x, pool)


@pytest.mark.parametrize("pool", POOLS, ids=str)
def test_first_derivatives(pool):
    """Reverse and forward mode against differences; batched gradients; undefined ones."""
    x = distinct(2, 3, 5).requires_grad_()
    gradcheck(call(pool), x, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)


@pytest.mark.parametrize("pool", POOLS, ids=str)
def test_second_derivatives(pool):
    x = distinct(1, 3, 4).requires_grad_()
    gradgradcheck(call(pool), x, check_fwd_over_rev=True, check_rev_over_rev=True, check_batched_grad=True)


def pytorchs(name, *arguments, **options):
    """A function under PyTorch's name: ours, and PyTorch's own."""
    return tuple(lambda x, m=m: getattr(m, name)(x, *arguments, **options) for m in (F, torch.nn.functional))


def arrays(name, *arguments, **options):
    """A function that PyTorch does not have: ours, and that of NumPy arrays."""
    mine, theirs = getattr(F, name), getattr(ndpool, name)
    return (
        lambda x: mine(x, *arguments, **options),
        lambda x: torch.from_numpy(theirs(x.numpy(), *arguments, **options)),
    )


PLACES = torch.arange(30).reshape(2, 3, 5) % 15 * 2
FUNCTIONS = {
    "max_pool1d": pytorchs("max_pool1d", 3, 2, 1),
    "max_pool2d": pytorchs("max_pool2d", 2, dilation=2, padding=1),
    "max_pool2d, indices": tuple(
        lambda x, m=m: m.max_pool2d(x, 2, return_indices=True)[0] for m in (F, torch.nn.functional)
    ),
    "max_pool3d": tuple(lambda x, m=m: m.max_pool3d(x[None], 2, 1) for m in (F, torch.nn.functional)),
    "avg_pool1d": pytorchs("avg_pool1d", 3, 2, 1),
    "avg_pool2d": pytorchs("avg_pool2d", 3, 2, 1, divisor_override=-2),
    "avg_pool3d": tuple(lambda x, m=m: m.avg_pool3d(x[None], 2, 1) for m in (F, torch.nn.functional)),
    "adaptive_max_pool2d": pytorchs("adaptive_max_pool2d", (2, 3)),
    "adaptive_avg_pool2d": pytorchs("adaptive_avg_pool2d", (2, 3)),
    "lp_pool2d, even": pytorchs("lp_pool2d", 4, 2),
    "lp_pool2d, odd": tuple(lambda x, m=m: m.lp_pool2d(x.abs(), 3, 2) for m in (F, torch.nn.functional)),
    "lp_pool2d, ceil": pytorchs("lp_pool2d", 2, 2, ceil_mode=True),
    "lp_pool2d, infinite": pytorchs("lp_pool2d", float("inf"), 2),
    "max_unpool2d": pytorchs("max_unpool2d", PLACES, 2, output_size=(6, 10)),
    "min_pool2d": arrays("min_pool2d", 2, ties="split"),
    "sum_pool, any axes": arrays("sum_pool", 2, axes=(0, 2)),
    "smooth_max_pool1d": arrays("smooth_max_pool1d", -1.5, 3, 2, 1, count_include_pad=False),
    "lp_pool": arrays("lp_pool", 3, (2, 3), 1, ((0, 1), (1, 1))),
    "adaptive_lp_pool2d": arrays("adaptive_lp_pool2d", 1.5, (2, 3)),
    "global_min_pool": arrays("global_min_pool", axes=(0, 2), keepdims=False),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=since_2_13) if "infinite" in name else name for name in FUNCTIONS]
)
def test_every_function(name):
    """Its values, and then its derivatives against differences of these."""
    mine, theirs = FUNCTIONS[name]
    x = distinct(2, 3, 5)
    y, want = mine(x), theirs(x)
    assert y.shape == want.shape
    assert_close(y, want)
    gradcheck(mine, x.requires_grad_(), check_forward_ad=True, check_batched_grad=True)
    gradgradcheck(mine, x, check_fwd_over_rev=True, check_rev_over_rev=True)


@pytest.mark.parametrize("pool", FEW_POOLS, ids=str)
def test_transforms_agree(pool):
    """Every composition of modes gives the same first and second derivatives, with and without vmap."""
    f, x = call(pool), distinct(2, 3, 5)
    forward, reverse = jacfwd(f)(x), jacrev(f)(x)
    assert_close(forward, reverse)

    def loss(x):
        return f(x).pow(3).sum()

    expected = hessian(loss)(x)
    for other in (jacrev(jacrev(loss)), jacfwd(jacfwd(loss)), jacrev(jacfwd(loss))):
        assert_close(other(x), expected)
    batch = torch.stack([x, x.flip(-1), -x], dim=1)
    assert_close(vmap(f, 1)(batch), torch.stack([f(one) for one in batch.unbind(1)]))
    assert_close(vmap(grad(loss), 1)(batch), torch.stack([grad(loss)(one) for one in batch.unbind(1)]))
    assert_close(vmap(vmap(f))(batch[None, None])[0, 0], f(batch))


@pytest.mark.parametrize("pool", FEW_POOLS, ids=str)
def test_agrees_with_ndpool(pool):
    """The same values and derivatives as NumPy arrays get, for a random tangent and cotangent, ties included."""
    x = torch.randint(-2, 3, (2, 4, 5)).double()
    t, x_np = torch.randn_like(x), x.numpy()
    y, dy = jvp(call(pool), (x,), (t,))
    want, want_dy = pool.jvp(x_np, t.numpy())
    assert_close(y, torch.from_numpy(want))
    assert_close(dy, torch.from_numpy(np.ascontiguousarray(want_dy)))
    g = torch.randn_like(y)
    assert_close(vjp(call(pool), x)[1](g)[0], torch.from_numpy(pool.vjp(x_np)[1](g.numpy())))
    with forward_ad.dual_level():
        assert_close(forward_ad.unpack_dual(F.pool(forward_ad.make_dual(x, t), pool)).tangent, dy)


@pytest.mark.parametrize("kind", [Max, Min])
def test_the_rule_at_ties(kind):
    x = torch.tensor([3.0, 3.0], requires_grad=True)
    for ties, weights in {"first": [1, 0], "split": [0.5, 0.5], "all": [1, 1]}.items():
        pool = Pool(kind(ties), Window((2,)))
        assert torch.autograd.grad(F.pool(x, pool), x)[0].tolist() == weights
        assert jacfwd(call(pool))(x.detach())[0].tolist() == weights


def test_lp_where_it_has_a_corner():
    """A window of zeros has no gradient and no curvature; a zero among others has its share of the curvature."""
    x = torch.zeros(3, dtype=torch.float64)
    for p in (1, 2, 3):
        pool = Pool(Lp(p), Window((3,)))
        assert jacrev(call(pool))(x).count_nonzero() == 0
        assert jacrev(jacrev(call(pool)))(x).count_nonzero() == 0
    x = torch.tensor([3.0, 0.0, 4.0], dtype=torch.float64)
    curvature = hessian(lambda x: F.lp_pool(x, 2, (3,)).sum())(x)
    assert_close(curvature, hessian(lambda x: x.norm())(x))


def test_higher_derivatives_of_lp_at_zeros():
    """Where all cells of a window are 0 there are none; where some are, they are those of PyTorch's own functions."""
    for p in (2, 2.5, 3):
        for third in (jacrev(hessian(lambda x, p=p: F.lp_pool(x, p, (3,)).sum())), jacfwd(jacfwd(jacrev(call_lp(p))))):
            assert third(torch.zeros(3, dtype=torch.float64)).count_nonzero() == 0
    x = torch.tensor([3.0, 0.0, 4.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    for p, theirs in ((2, lambda x: x[:3].norm()), (3, lambda x: x[:3].abs().pow(3).sum().pow(1 / 3))):
        for transforms in ((jacrev, jacrev, jacrev), (jacrev, jacrev, jacfwd), (jacfwd, jacfwd, jacfwd)):
            mine, want = call_lp(p), theirs
            for transform in transforms:
                mine, want = transform(mine), jacrev(want)
            assert_close(mine(x), want(x))


def call_lp(p):
    return lambda x: F.lp_pool(x, p, (3,)).sum()


def test_third_derivatives():
    x = distinct(4)
    for mine, theirs in [
        (Pool(SmoothMax(1.5), Window((4,))), lambda x: torch.logsumexp(1.5 * x, 0) / 1.5),
        (Pool(Lp(3), Window((4,))), lambda x: x.abs().pow(3).sum().pow(1 / 3)),
    ]:
        third = jacrev(jacfwd(jacrev(lambda x, mine=mine: F.pool(x, mine).sum())))
        assert_close(third(x), jacrev(jacfwd(jacrev(theirs)))(x))


def test_indices_under_transforms():
    x = distinct(3, 2, 4, 4)
    y, indices = vmap(lambda x: F.max_pool2d(x, 2, return_indices=True))(x)
    want, want_indices = F.max_pool2d(x, 2, return_indices=True)
    assert torch.equal(y, want)
    assert torch.equal(indices, want_indices)
    slope, indices = grad(
        lambda x: tuple(a.sum() if i == 0 else a for i, a in enumerate(F.max_pool2d(x, 2, return_indices=True))),
        has_aux=True,
    )(x)
    assert slope.sum() == indices.numel()
    assert torch.equal(jvp(lambda x: F.max_pool2d(x, 2, return_indices=True)[0], (x,), (x,))[1], want)


def test_channels_last_derivatives():
    x = distinct(2, 3, 4, 6).to(memory_format=torch.channels_last).requires_grad_()
    gradcheck(lambda x: F.max_pool2d(x, 3, 2, 1), x, check_forward_ad=True, check_batched_grad=True)
    gradcheck(lambda x: F.smooth_max_pool2d(x, 2.0, 2), x, check_forward_ad=True, check_batched_grad=True)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_tangents_that_lie_otherwise_than_the_input(kind):
    """Channels last beside the usual order and a strided view, either way around, in both directions of the map."""
    found = TensorPool(Pool(kind, Window(3, 2, 1), (-2, -1)))
    x, t = distinct(2, 3, 5, 4), torch.randn(2, 3, 5, 4, dtype=torch.float64)
    want, g = autograd.jvp(found, t, x, None), torch.randn(2, 3, 3, 2, dtype=torch.float64)
    back = autograd.vjp(found, g, x.shape, None, x, None, None)
    layouts = (
        lambda a: a,
        lambda a: a.to(memory_format=torch.channels_last),
        lambda a: a.transpose(2, 3).contiguous().transpose(2, 3),
        lambda a: a.repeat_interleave(2, -1)[..., ::2],
        lambda a: a.transpose(0, 1).contiguous().transpose(0, 1),
    )
    for of_x, of_t in itertools.product(layouts, repeat=2):
        a, b = of_x(x), of_t(t)
        assert_close(autograd.jvp(found, b, a, None), want)
        assert_close(torch.ops.ndpool.jvp(b, a, None, *encode(found.pool)), want)
        assert_close(autograd.vjp(found, of_t(g), a.shape, found.order_of(a), a, None, None), back)
        if found.wins:
            winners = autograd.forward_with_winners(found, a)[1]
            assert_close(autograd.jvp(found, b, None, winners), want)
            assert_close(autograd.vjp(found, of_t(g), x.shape, found.order_of(b), None, None, winners), back)


def test_a_batch_of_gradients_lies_like_the_input():
    x = distinct(2, 3, 4, 6).to(memory_format=torch.channels_last)
    for function in (lambda x: F.max_pool2d(x, 2), lambda x: F.avg_pool2d(x, 2), lambda x: F.lp_pool2d(x, 2, 2)):
        y, pull = vjp(function, x)
        g = torch.randn(5, *y.shape, dtype=torch.float64)
        found = vmap(lambda g, pull=pull: pull(g)[0])(g)
        assert_close(found, torch.stack([pull(one)[0] for one in g]))
        assert found[0].stride() == x.stride()


@pytest.mark.parametrize("kind", [Max(), Max("all"), Lp(2)], ids=str)
def test_the_gradient_of_a_tangent_lies_like_it(kind):
    found = TensorPool(Pool(kind, Window(2), (-2, -1)))
    x, t = (distinct(2, 3, 4, 6).to(memory_format=torch.channels_last) for _ in range(2))
    dy = autograd.jvp(found, t.requires_grad_(), x, None)
    g = torch.randn_like(dy)
    (gt,) = torch.autograd.grad(dy, t, g)
    assert_close(gt, autograd.vjp(found, g, x.shape, None, x, None, None))
    assert gt.stride() == t.stride()


def test_integers_have_no_derivative():
    x = torch.arange(16).reshape(1, 4, 4)
    assert not F.max_pool2d(x, 2).requires_grad
    assert torch.equal(F.sum_pool2d(x, 2), torch.from_numpy(ndpool.sum_pool2d(x.numpy(), 2)))
