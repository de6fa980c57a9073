"""Kinds of the user's own on tensors: the specification's numbers, first derivatives, and errors for the rest."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad, gradcheck
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing import assert_close
from torch_cases import distinct

import ndpool.torch.functional as F
import ndpool.torch.nn as N
from ndpool import Adaptive, Global, Kind, Max, Pool, Window, spec
from ndpool.torch.engine import TensorPool

pytestmark = pytest.mark.cpu_only("kinds of one's own are computed by the specification, on the CPU")


class Product(Kind):
    """The product of the cells: curved, and written for any numbers."""

    def value(self, x, pad=0):
        y = 1
        for cell in x:
            y = y * cell
        return y

    def weights(self, x, pad=0):
        return [(i, self.value([*x[:i], *x[i + 1 :]])) for i in range(len(x))]

    def __repr__(self):
        return "Product()"


class Largest(Max):
    """One of the engine's kinds under another name: the engine does not know what it does."""


POOLS = {
    "window": Pool(Product(), Window((2, 3), 1, ((0, 1), (1, 0))), (0, 2)),
    "axes by default": Pool(Product(), Window((2,), 2)),
    "adaptive": Pool(Product(), Adaptive((2,)), (-1,)),
    "flat": Pool(Product(), Global(keepdims=False), (2, 0)),
    "subclass": Pool(Largest("split"), Window((2,), 1), (1,)),
}


@pytest.mark.parametrize("name", POOLS)
def test_values_and_first_derivatives(name):
    pool, x, t = POOLS[name], distinct(3, 2, 4), torch.randn(3, 2, 4, dtype=torch.float64)

    def function(x):
        return F.pool(x, pool)

    want, want_dy = (torch.from_numpy(a) for a in spec.jvp(pool, x.numpy(), t.numpy()))
    assert_close(function(x), want)
    assert_close(jvp(function, (x,), (t,)), (want, want_dy))
    with forward_ad.dual_level():
        assert_close(forward_ad.unpack_dual(function(forward_ad.make_dual(x, t))).tangent, want_dy)
    g = torch.randn_like(want)
    want_gx = torch.from_numpy(spec.vjp(pool, x.numpy(), g.numpy()))
    assert_close(vjp(function, x)[1](g)[0], want_gx)
    leaf = x.transpose(0, 2).contiguous().transpose(0, 2).requires_grad_()
    assert_close(torch.autograd.grad(function(leaf), leaf, g)[0], want_gx)
    gradcheck(function, leaf, check_forward_ad=True)
    assert_close(jacfwd(function)(x), jacrev(function)(x))
    batch = torch.stack([x, -x], 2)
    assert_close(vmap(function, 2)(batch), torch.stack([function(x), function(-x)]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.int32, torch.uint8, torch.bool])
def test_dtypes(dtype):
    """Floats keep theirs, rounded once; integers become float64, as on arrays."""
    x = torch.arange(8).reshape(2, 4).to(dtype)
    want = F.pool(x.double(), Pool(Product(), Window((2,))))
    y = F.pool(x, Pool(Product(), Window((2,))))
    assert_close(y, want.to(dtype) if dtype.is_floating_point else want)
    if dtype.is_floating_point:
        leaf = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(F.pool(leaf, Pool(Product(), Window((2,)))).sum(), leaf)
        assert_close(slope, torch.tensor([[1, 0, 3, 2], [5, 4, 7, 6]]).to(dtype))


def test_it_is_linear_in_the_cotangent():
    """What is known of it can be differentiated again: the map itself, where x stays as it is."""
    pool, x = POOLS["window"], distinct(3, 2, 4)
    y, pull = vjp(lambda x: F.pool(x, pool), x)
    t = torch.randn_like(x)
    g = torch.randn_like(y, requires_grad=True)
    (back,) = torch.autograd.grad(pull(g)[0], g, t)
    want = jvp(lambda x: F.pool(x, pool), (x,), (t,))[1]
    assert_close(back, want)
    assert_close(jvp(lambda g: pull(g)[0], (g.detach(),), (y,))[1], pull(y)[0])


def function(x):
    return F.pool(x, POOLS["axes by default"])


def loss(x):
    return function(x).pow(2).sum()


def twice(x):
    leaf = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)
    return torch.autograd.grad(slope.sum(), leaf)


def forward_over_reverse(x):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.clone().requires_grad_(), torch.ones_like(x))
        return torch.autograd.grad(loss(dual), dual, create_graph=True)


SECOND = {
    "hessian": hessian(loss),
    "reverse over reverse": jacrev(jacrev(loss)),
    "forward over forward": lambda x: jvp(lambda x: jvp(function, (x,), (x,))[1], (x,), (x,)),
    "reverse over forward": grad(lambda x: jvp(loss, (x,), (x.detach(),))[1]),
    "double backward": twice,
    "forward over reverse": forward_over_reverse,
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_are_refused(name):
    with pytest.raises(
        NotImplementedError, match=r"Product\(\) is a kind of your own, whose weights say nothing of its"
    ):
        SECOND[name](distinct(1, 4))


def pretended(x):
    with FakeTensorMode() as mode:
        return function(mode.from_tensor(x))


class Module(torch.nn.Module):
    def forward(self, x):
        return function(x)


OUTSIDE = {
    "make_fx": lambda x: make_fx(function)(x),
    "meta": lambda x: function(x.to("meta")),
    "fake": pretended,
    "jit": lambda x: torch.jit.trace(function, x),
    "export": lambda x: torch.export.export(Module(), (x,)),
}


@pytest.mark.filterwarnings("ignore:`torch.jit.*` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", OUTSIDE)
def test_it_is_not_traced(name):
    with pytest.raises(NotImplementedError, match=r"Product\(\) is a kind of your own, .* cannot be compiled"):
        OUTSIDE[name](distinct(1, 4))


def test_compiled_code_runs_it_outside_of_the_graph():
    x = distinct(1, 4)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="kind of your own"):
        torch.compile(function, backend="eager", fullgraph=True)(x)
    torch._dynamo.reset()
    assert_close(torch.compile(lambda x: function(x.sin()) + 1, backend="eager")(x), function(x.sin()) + 1)


def test_as_a_pool_that_is_given_a_tensor():
    x = distinct(2, 4).requires_grad_()
    y = POOLS["axes by default"](x)
    assert_close(y, F.pool(x, POOLS["axes by default"]))
    assert y.requires_grad


def test_as_a_module():
    x = distinct(2, 4)
    module = N.Pool(POOLS["axes by default"])
    assert_close(module(x), F.pool(x, POOLS["axes by default"]))
    with pytest.raises(TypeError, match="cannot be scripted: its kind is Python code of your own; call it in eager"):
        torch.jit.script(module)


def test_errors():
    x = distinct(2, 4)
    with pytest.raises(TypeError, match="complex64, which ndpool does not pool"):
        function(x.to(torch.complex64))
    with pytest.raises(TypeError, match="give a dense one"):
        function(x.to_sparse())
    with pytest.raises(ValueError, match="out of range"):
        F.pool(x, Pool(Product(), Window((2,)), (2,)))
    with pytest.raises(TypeError, match="x is a ndarray; give a tensor"):
        F.pool(x.numpy(), POOLS["flat"])
    leaf = x.clone().requires_grad_()
    with pytest.raises(NotImplementedError, match="no batched gradients"):
        torch.autograd.grad(function(leaf), leaf, torch.ones(3, 2, 2, dtype=x.dtype), is_grads_batched=True)
    with pytest.raises(TypeError, match=r"Product\(\) is not one of the engine's kinds; .* takes any kind"):
        TensorPool(POOLS["flat"])
