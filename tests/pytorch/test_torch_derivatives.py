"""Both modes, to second order and beyond, for every kind, window and policy; and the transforms of `torch.func`."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.testing import assert_close
from torch_cases import FEW_POOLS, POOLS, distinct

import ndpool
import ndpool.torch.functional as F
from ndpool import Lp, Max, Min, Pool, SmoothMax, Window


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


FUNCTIONS = {
    "max_pool1d": lambda x: F.max_pool1d(x[0], 3, 2, 1),
    "max_pool2d": lambda x: F.max_pool2d(x, 2, dilation=2, padding=1),
    "max_pool2d, indices": lambda x: F.max_pool2d(x, 2, return_indices=True)[0],
    "max_pool3d": lambda x: F.max_pool3d(x[None], 2, 1),
    "avg_pool1d": lambda x: F.avg_pool1d(x[0], 3, 2, 1),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=-2),
    "avg_pool3d": lambda x: F.avg_pool3d(x[None], 2, 1),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, (2, 3)),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
    "lp_pool2d, even": lambda x: F.lp_pool2d(x, 4, 2),
    "lp_pool2d, odd": lambda x: F.lp_pool2d(x.abs(), 3, 2),
    "lp_pool2d, ceil": lambda x: F.lp_pool2d(x, 2, 2, ceil_mode=True),
    "lp_pool2d, infinite": lambda x: F.lp_pool2d(x, float("inf"), 2),
    "max_unpool2d": lambda x: F.max_unpool2d(x, torch.arange(30).reshape(2, 3, 5) % 15 * 2, 2, output_size=(6, 10)),
    "min_pool2d": lambda x: F.min_pool2d(x, 2, ties="split"),
    "sum_pool, any axes": lambda x: F.sum_pool(x, 2, axes=(0, 2)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function(name):
    x = distinct(2, 3, 5).requires_grad_()
    gradcheck(FUNCTIONS[name], x, check_forward_ad=True, check_batched_grad=True)
    gradgradcheck(FUNCTIONS[name], x, check_fwd_over_rev=True, check_rev_over_rev=True)


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


def test_integers_have_no_derivative():
    x = torch.arange(16).reshape(1, 4, 4)
    assert not F.max_pool2d(x, 2).requires_grad
    assert torch.equal(F.sum_pool2d(x, 2), torch.from_numpy(ndpool.sum_pool2d(x.numpy(), 2)))
