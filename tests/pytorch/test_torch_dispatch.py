"""Tensors given to `ndpool` itself: the same as arrays, as tensors, with derivatives."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from torch_cases import distinct, since_2_13

import ndpool
import ndpool.torch.functional as F
from ndpool import Adaptive, Avg, Global, Kind, Lp, Max, Min, Pool, SmoothMax, Sum, Window

POOLS = [
    Pool(Max(), Window((3, 2), 2, 1)),
    Pool(Max("split"), Window((2, 2), 1)),
    Pool(Min("all"), Window(2, 1), axes=(1, 3)),
    Pool(Min(), Adaptive((2, 3))),
    Pool(Avg(False), Window((3, 3), 2, 1)),
    Pool(Sum(), Global(keepdims=False), axes=(0, 2)),
    Pool(SmoothMax(1.5), Window((3, 2), 2, 1)),
    Pool(Lp(3), Adaptive((3, 2)), axes=(2, 3)),
]
SHAPE = (2, 3, 6, 5)


def tied(*shape):
    """Small whole numbers, so that there are ties."""
    return torch.randint(-2, 3, shape).double()


def function_calls():
    """Every function of ndpool, with its arguments after x."""
    for name in ndpool.__all__:
        if "_pool" in name:
            number = (1.5,) if "smooth" in name or "lp_" in name else (0.3,) if "quantile" in name else ()
            size = () if "global" in name else (2,)
            axes = {} if name[-1] == "d" or "global" in name else {"axes": (1, 3)}
            yield pytest.param(name, (*number, *size), axes, id=name)


@pytest.mark.parametrize("pool", POOLS, ids=repr)
def test_a_pool_of_a_tensor(pool):
    """Y, dy, gx and indices are the numbers of the array, in tensors."""
    x, t = tied(*SHAPE), torch.randn(SHAPE, dtype=torch.float64)
    y, dy = pool.jvp(x, t)
    z, pullback = pool.vjp(x)
    g = torch.randn_like(y)
    want, want_dy = pool.jvp(x.numpy(), t.numpy())
    want_gx = pool.vjp(x.numpy())[1](g.numpy())
    for ours, theirs in ((pool(x), want), (y, want), (z, want), (dy, want_dy), (pullback(g), want_gx)):
        assert_close(ours, torch.from_numpy(theirs))
    if isinstance(pool.kind, Max | Min):
        y, indices = pool.with_indices(x)
        assert_close(y, torch.from_numpy(want), rtol=0, atol=0)
        assert_close(indices, torch.from_numpy(pool.with_indices(x.numpy())[1]), rtol=0, atol=0)


@pytest.mark.parametrize(("name", "arguments", "axes"), list(function_calls()))
def test_every_function_of_a_tensor(name, arguments, axes):
    """Values, dtype, and a gradient that reaches x: that of the pool's pullback."""
    x = distinct(*SHAPE).float().requires_grad_()
    function = getattr(ndpool, name)
    y = function(x, *arguments, **axes)
    assert_close(y.detach(), torch.from_numpy(function(x.detach().numpy(), *arguments, **axes)))
    g = torch.randn_like(y)
    (gx,) = torch.autograd.grad(y, x, g)
    t = torch.randn_like(x)
    _, dy = torch.func.jvp(lambda x: function(x, *arguments, **axes), (x.detach(),), (t,))
    assert_close((gx * t).sum(), (g * dy).sum(), rtol=1e-4, atol=1e-4)
    assert gx.abs().sum() > 0


@pytest.mark.parametrize("ties", ["first", "split", "all"])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_ties_and_indices_reach_the_tensor(kind, ties):
    """Each function's policy shows in its gradient."""
    x = torch.tensor([[1.0, 1.0, 0.0, 1.0]], requires_grad=True) * (1 if kind == "max" else -1)
    share = {"first": [1, 0, 0, 0], "split": [1 / 3, 1 / 3, 0, 1 / 3], "all": [1, 1, 0, 1]}[ties]
    for name, size in ((f"{kind}_pool", ((4,),)), (f"adaptive_{kind}_pool", ((1,),)), (f"global_{kind}_pool", ())):
        function = getattr(ndpool, name)
        y = function(x, *size, axes=-1, ties=ties)
        assert_close(torch.autograd.grad(y.sum(), x, retain_graph=True)[0], torch.tensor([share]).float())
        if size:
            y, indices = function(x, *size, axes=-1, ties=ties, return_indices=True)
            assert indices.tolist() == [[0]]
            assert_close(torch.autograd.grad(y.sum(), x, retain_graph=True)[0], torch.tensor([share]).float())


@pytest.mark.parametrize("pool", [Pool(SmoothMax(2.0), Window((2, 2), 1)), Pool(Lp(3), Window((3,), 2))], ids=repr)
def test_derivatives_are_differentiable(pool):
    """Jvp and pullback can be differentiated in x and in their directions."""
    x, t = distinct(3, 4).requires_grad_(), torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    g = torch.randn(pool.output_shape(x.shape), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, t: pool.jvp(x, t), (x, t))
    assert torch.autograd.gradcheck(lambda x, g: pool.vjp(x)[1](g), (x, g))
    assert torch.autograd.gradcheck(lambda x: pool.vjp(x)[0], (x,))


@pytest.mark.parametrize("pool", [Pool(Max("split"), Window((2,))), Pool(Min("all"), Window((2,)))], ids=repr)
def test_writing_to_the_output_does_not_change_the_pullback(pool):
    x = torch.tensor([1.0, 1.0, 2.0, 3.0])
    y, pullback = pool.vjp(x)
    g = torch.tensor([5.0, 7.0])
    expected = pullback(g)
    y.mul_(0)
    assert_close(pullback(g), expected)


@pytest.mark.parametrize("kind", [Max(), Min(), Sum(), Avg()], ids=repr)
def test_pullbacks_keep_no_input_that_they_do_not_need(kind):
    x = torch.randn(4, 4)
    alive = weakref.ref(x)
    _, pullback = Pool(kind, Window((2, 2))).vjp(x)
    del x
    gc.collect()
    assert alive() is None
    assert pullback(torch.ones(2, 2)).shape == (4, 4)


@since_2_13
@pytest.mark.parametrize("pool", [POOLS[0], POOLS[6]], ids=repr)
def test_calls_can_be_compiled(pool):
    """In one graph, with no break: the look at the type of x is over before anything runs."""
    x, t = distinct(*SHAPE).float(), torch.randn(SHAPE)
    g = torch.randn(pool.output_shape(SHAPE))
    for call in (
        lambda x: pool(x),
        lambda x: pool.jvp(x, t),
        lambda x: pool.vjp(x)[1](g),
        lambda x: ndpool.max_pool2d(x, 2, return_indices=True),
        lambda x: ndpool.adaptive_avg_pool2d(x, 2),
    ):
        assert_close(torch.compile(call, fullgraph=True, backend="eager")(x), call(x))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16])
def test_dtypes_are_those_of_arrays(dtype):
    x = torch.tensor([1, 0, 1, 1]).to(dtype)
    assert ndpool.max_pool(x, (2,)).dtype == dtype
    total = ndpool.sum_pool(x, (2,))
    wide = torch.uint64 if dtype is torch.uint8 else torch.int64
    assert total.dtype == (dtype if dtype.is_floating_point else wide)
    assert total.tolist() == [1, 2]
    assert ndpool.avg_pool(x, (2,)).dtype == (dtype if dtype.is_floating_point else torch.float64)


def test_one_pool_on_tensors_and_arrays():
    """Of several ranks, in turn: each finds its own plan."""
    pool = Pool(Max(), Window(2), axes=0)
    for shape in ((4,), (4, 3), (4,), (4, 2, 2), (4, 3)):
        x = distinct(*shape)
        assert_close(pool(x), torch.from_numpy(pool(x.numpy())))
    last = Pool(Max(), Window((2,)))
    for shape in ((4,), (3, 4), (4,)):
        x = distinct(*shape)
        assert_close(last(x), torch.from_numpy(last(x.numpy())))


class Median(Kind):
    def value(self, x, pad=0):
        return sorted(x)[len(x) // 2]

    def weights(self, x, pad=0):
        return [(0, 1)]


TENSOR = torch.tensor([1.0, 2.0, 4.0, 3.0])
ARRAY = TENSOR.numpy()
SMALL = Pool(Max(), Window((2,)))
ERRORS = [
    (lambda: SMALL(TENSOR, out=torch.zeros(2)), TypeError, "out is given beside a tensor x.*out.copy_"),
    (lambda: SMALL(TENSOR, out=np.zeros(2)), TypeError, "out is given beside a tensor x"),
    (lambda: SMALL.with_indices(TENSOR, out=torch.zeros(2)), TypeError, "out is given beside a tensor x"),
    (lambda: ndpool.avg_pool(TENSOR, (2,), out=torch.zeros(2)), TypeError, "out is given beside a tensor x"),
    (lambda: SMALL(ARRAY, out=torch.zeros(2)), TypeError, "out is a Tensor; give a NumPy array"),
    (lambda: SMALL.jvp(ARRAY, TENSOR), TypeError, r"t is a torch.Tensor where a NumPy array is taken; call .numpy\(\)"),
    (lambda: SMALL.jvp(TENSOR, ARRAY), TypeError, r"t is a ndarray and x is a tensor; give torch.as_tensor\(t\)"),
    (lambda: SMALL.vjp(ARRAY)[1](TENSOR[:2]), TypeError, "g is a torch.Tensor where a NumPy array is taken"),
    (lambda: SMALL.vjp(TENSOR)[1](ARRAY[:2]), TypeError, "g is a ndarray and x is a tensor"),
    (lambda: SMALL.vjp(TENSOR)[1]([1.0, 2.0]), TypeError, "g is a list and x is a tensor"),
    (lambda: ndpool.spec.forward(SMALL, TENSOR), TypeError, "x is a torch.Tensor where a NumPy array is taken"),
    (lambda: SMALL([TENSOR, TENSOR]), TypeError, "an entry of x is a torch.Tensor"),
    (lambda: SMALL([torch.tensor(1.0), 2.0]), TypeError, "an entry of x is a torch.Tensor"),
    (lambda: SMALL.jvp(TENSOR, TENSOR[:2]), ValueError, r"t has shape \(2,\) and should have \(4,\)"),
    (lambda: SMALL.vjp(TENSOR)[1](TENSOR), ValueError, r"g has shape \(4,\) and should have \(2,\)"),
    (lambda: SMALL.jvp(TENSOR, TENSOR * 1j), TypeError, "t has dtype torch.complex64"),
    (lambda: SMALL.vjp(TENSOR)[1](1j * TENSOR[:2]), TypeError, "g has dtype torch.complex64"),
    (lambda: SMALL.jvp(TENSOR.long(), TENSOR), TypeError, r"x has dtype torch.int64.*; give x.double\(\)"),
    (lambda: SMALL.vjp(TENSOR.bool()), TypeError, r"x has dtype torch.bool.*; give x.double\(\)"),
    (lambda: SMALL(TENSOR.to(torch.complex64)), TypeError, "x has dtype torch.complex64"),
    (lambda: Pool(Avg(), Window((2,))).with_indices(TENSOR), TypeError, "has no winner in a window"),
    (lambda: Pool(Median(), Window((2,))).vjp(TENSOR), TypeError, "is not one of the engine's kinds"),
    (lambda: ndpool.max_pool2d(TENSOR, 2), ValueError, "2 axes are pooled"),
    (lambda: SMALL(TENSOR.to_sparse()), TypeError, "sparse"),
]


@pytest.mark.parametrize(("act", "error", "message"), ERRORS, ids=[message for _, _, message in ERRORS])
def test_error(act, error, message):
    with pytest.raises(error, match=message):
        act()


def test_directions_of_another_dtype():
    """As for arrays: they are taken in the dtype of x."""
    dy = SMALL.jvp(TENSOR, torch.tensor([0, 1, 1, 0]))[1]
    assert (dy.tolist(), dy.dtype) == ([1, 1], torch.float32)
    gx = SMALL.vjp(TENSOR)[1](torch.tensor([1.0, 2.0], dtype=torch.float64))
    assert (gx.tolist(), gx.dtype) == ([0, 1, 2, 0], torch.float32)


def test_memory_order_stays():
    x = distinct(2, 3, 6, 6).to(memory_format=torch.channels_last)
    pool = Pool(Max(), Window((2, 2)))
    y, pullback = pool.vjp(x)
    for a in (pool(x), y, pullback(torch.randn_like(y)), pool.jvp(x, x)[1]):
        assert a.is_contiguous(memory_format=torch.channels_last)


def test_it_is_the_adapter_that_answers():
    """A subclass keeps its type as it does there, and so does what has its own device."""

    class Marked(torch.Tensor):
        pass

    x = distinct(4, 4).as_subclass(Marked)
    assert type(ndpool.max_pool2d(x, 2)) is type(F.max_pool(x, (2, 2)))
    meta = ndpool.max_pool2d(torch.empty(2, 3, 8, 8, device="meta"), 2)
    assert (meta.shape, meta.device.type) == ((2, 3, 4, 4), "meta")


def test_what_only_passes_for_a_tensor_goes_to_functional_pool(monkeypatch):
    """A proxy of a tracer, say: it has neither a shape nor a number of axes to be looked at here."""

    class Proxy:
        def __torch_function__(self):
            raise AssertionError("not called")

    proxy = Proxy()
    monkeypatch.setattr(F, "pool", lambda x, pool: (x, pool))
    assert SMALL(proxy) == (proxy, SMALL)
    assert ndpool.max_pool(proxy, (2,)) == (proxy, SMALL)
