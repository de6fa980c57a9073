"""Cells that are not there, and the kinds that choose by order, on tensors: the specification's numbers everywhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import jvp, vmap
from torch.testing import assert_close

import ndpool.torch.functional as F
import ndpool.torch.nn as N
from ndpool import Adaptive, Avg, Global, Lp, Max, Median, Min, Mode, Pool, Quantile, SmoothMax, Sum, Window, spec
from ndpool.torch.schema import decode, encode

nan = math.nan

KINDS = [
    Max(),
    Min("split"),
    Max("all"),
    Avg(),
    Avg(count_include_pad=False),
    Sum(),
    SmoothMax(1.5),
    Lp(2),
    Lp(3),
    Mode("smallest"),
    Quantile(0.3),
    Quantile(0.7, "nearest"),
    Median(),
]
WINDOWS = [(Window((2, 2)), (-2, -1)), (Window((3,), 1, 1), (1,)), (Adaptive((2, 3)), (-2, -1)), (Global(False), (2,))]


def holes(*shape, share=0.3, value=nan, dtype=torch.float64):
    """Distinct numbers, with cells that are not there."""
    made = torch.randperm(math.prod(shape)).reshape(shape).to(dtype) / 4 - 3.1
    made[torch.rand(shape) < share] = value
    return made


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(3)


@pytest.mark.parametrize("kind", KINDS, ids=repr)
@pytest.mark.parametrize(("window", "axes"), WINDOWS, ids=repr)
@pytest.mark.parametrize(("skip", "min_count"), [(nan, 1), (nan, 2), (-2.5, 1)])
def test_as_the_specification(kind, window, axes, skip, min_count):
    pool = Pool(kind, window, axes, skip, min_count)
    x = holes(2, 5, 6, value=skip).requires_grad_()
    t, array = torch.randn(x.shape, dtype=x.dtype), x.detach().numpy()
    y = F.pool(x, pool)
    want, dy = spec.jvp(pool, array, t.numpy())
    assert_close(y.detach(), torch.from_numpy(want), equal_nan=True)
    g = torch.randn(y.shape, dtype=x.dtype)
    y.backward(g)
    assert_close(x.grad, torch.from_numpy(spec.vjp(pool, array, g.numpy())))
    assert_close(jvp(lambda x: F.pool(x, pool), (x.detach(),), (t,))[1], torch.from_numpy(dy))
    _, linear = pool.linearize(x.detach())
    assert_close(linear.push(t), torch.from_numpy(dy))
    assert_close(linear.pull(g), x.grad)


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_derivatives_of_both_orders(kind):
    """Gradients and their gradients, at cells that are there; the others neither get nor give any."""
    mask = torch.rand(4, 6) < 0.3
    values = holes(4, 6, share=0)
    pool = Pool(kind, Window((2, 3)), skip=nan)

    def function(values):
        return F.pool(values.masked_fill(mask, nan), pool).nan_to_num()

    values.requires_grad_()
    assert gradcheck(function, (values,), check_forward_ad=True)
    assert gradgradcheck(function, (values,))


@pytest.mark.parametrize("kind", [Max(), Avg(), Lp(2), Mode(), Median()], ids=repr)
def test_compiled_mapped_exported_and_scripted(kind):
    pool, x = Pool(kind, Window((2, 2)), (-2, -1), nan, 2), holes(3, 4, 6)
    want = F.pool(x, pool)
    assert_close(torch.compile(lambda x: F.pool(x, pool), backend="eager", fullgraph=True)(x), want, equal_nan=True)
    assert_close(vmap(lambda x: F.pool(x, pool))(x), want, equal_nan=True)
    again = decode(*encode(pool)).pool
    assert (again.kind, again.skip, again.min_count) == (pool.kind, pool.skip, pool.min_count)

    name = type(kind).__name__
    module = getattr(N, f"{name}Pool")(*([2] if name == "Lp" else []), (2, 2), skip=nan, min_count=2)
    assert_close(module(x), want, equal_nan=True)
    assert_close(torch.jit.script(module)(x), want, equal_nan=True)
    exported = torch.export.export(module, (x,)).module()
    assert_close(exported(x), want, equal_nan=True)
    assert "skip=nan" in repr(module)


def test_indices_of_what_is_not_there():
    x = holes(2, 4, 4)
    x[0, :2, :2] = nan
    for kind in (Max(), Min("all"), Mode(), Quantile(0.5, "lower")):
        pool = Pool(kind, Window((2, 2)), skip=nan)
        y, found = pool.with_indices(x)
        assert found[0, 0, 0] == -1
        assert torch.isnan(y[0, 0, 0])
        np.testing.assert_array_equal(found.numpy(), spec.winners(pool, x.numpy()))
    y, found = F.max_pool(x, (2, 2), skip=nan, return_indices=True)
    assert found.min() == -1


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64, torch.bool])
def test_integers(dtype):
    x = torch.randint(0, 2 if dtype == torch.bool else 5, (6, 8)).to(dtype)
    array = x.numpy()
    for pool in (
        Pool(Mode("largest"), Window((2, 2)), skip=0),
        Pool(Quantile(0.5, "higher"), Window((3, 3), 1, 1)),
        Pool(Median(), Window((2, 2)), skip=1),
        Pool(Avg(rounding="half_even"), Window((2, 3))),
        Pool(Avg(rounding="floor"), Window((2, 3)), skip=0),
    ):
        got = F.pool(x, pool)
        want = spec.forward(pool, array)
        assert got.dtype == torch.from_numpy(want).dtype
        np.testing.assert_array_equal(got.numpy(), want)


def test_integers_beyond_floats_are_told_apart():
    x = torch.tensor([2**53, 2**53 + 1, 2**53 + 1, 2**53])
    assert F.max_pool(x, (2,), skip=2**53 + 1).tolist() == [2**53, 2**53]
    compiled = torch.compile(lambda x: F.max_pool(x, (2,), skip=2**53 + 1), backend="eager")
    assert compiled(x).tolist() == [2**53, 2**53]


@pytest.mark.parametrize("kind", [SmoothMax(1.0), Lp(2)], ids=repr)
def test_integers_that_become_the_same_float_are_told_apart(kind):
    x = torch.tensor([2**62, 2**62 + 1, 5, 2**62])
    y = Pool(kind, Window((2,)), skip=2**62)(x)
    assert_close(y, torch.tensor([2.0**62, 5.0], dtype=torch.float64), rtol=1e-15, atol=0)


@pytest.mark.parametrize("skip", [nan, -2.5])
def test_a_beta_that_is_learned(skip):
    x, beta = holes(2, 4, 4, value=skip), torch.tensor([0.7, 1.3], dtype=torch.float64)[:, None, None]
    x[0, :2, :2] = skip
    y = F.smooth_max_pool(x, beta, (2, 2), skip=skip)
    for c in range(2):
        want = F.smooth_max_pool(x[c], float(beta[c]), (2, 2), skip=skip)
        assert_close(y[c], want, equal_nan=True)
    where = (x == skip) | x.isnan()
    values = torch.where(where, 0.0, x).requires_grad_()

    def function(values, beta):
        return F.smooth_max_pool(values.masked_fill(where, skip), beta, (2, 2), skip=skip).nan_to_num()

    assert gradcheck(function, (values, beta.requires_grad_()))


def test_what_is_refused():
    with pytest.raises(TypeError, match="rounding='floor' is for integers, and x has float32"):
        F.avg_pool(torch.zeros(4, 4), (2, 2), rounding="floor")
    with pytest.raises(ValueError, match="skip=nan is no int64"):
        F.max_pool(torch.zeros(4, dtype=torch.int64), (2,), skip=nan)
    with pytest.raises(TypeError, match=r"Quantile\(q=0.5, method='linear'\) has no winner in a window"):
        F.quantile_pool(torch.zeros(4), 0.5, (2,), return_indices=True)
