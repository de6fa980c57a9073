"""Tensors that the engine makes, the short way: the same numbers, and no one who should see the call is passed by."""

from __future__ import annotations

import pickle
import resource
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch_cases import FEW_POOLS, POOLS, distinct

import ndpool.torch.functional as F
from ndpool import Avg, Global, Lp, Max, Pool, Sum, Window, _engine
from ndpool.torch import engine
from ndpool.torch.engine import TensorPool

pytestmark = pytest.mark.cpu_only("the short way leads to the native engine")

T = torch.nn.functional
FORMATS = [torch.contiguous_format, torch.channels_last]
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def both_ways(pool, x):
    """A plan that has the short way, and one that does not."""
    short, long = TensorPool(pool).plan_of(x), TensorPool(pool).plan_of(x)
    assert short.quick is not None
    long.quick = None
    return short, long


def same(a, b):
    assert a.stride() == b.stride()
    assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("pool", POOLS, ids=str)
def test_both_ways_are_one(pool, memory_format):
    x = distinct(2, 3, 6, 7, dtype=torch.float32).to(memory_format=memory_format)
    short, long = both_ways(pool, x)
    same(short.quick.forward(x), long.forward(x))
    if isinstance(pool.kind, Max) and pool.kind.ties == "first":
        for a, b in zip(short.quick.linearize(x), long.forward_with_winners(x), strict=True):
            same(a, b)
    leaf = x.clone().requires_grad_()
    g = torch.randn_like(long.forward(x))
    fast, slow = TensorPool(pool), TensorPool(pool)
    slow.plan_of(x).quick = None
    gradients = []
    for one in (fast, slow):
        y = engine.forward(one, x)
        winners = engine.forward_with_winners(one, x)[1] if one.wins else None
        gradients.append(engine.vjp(one, g, x.shape, one.plan_of(x).order, x, y, winners))
    same(*gradients)
    same(torch.autograd.grad(F.pool(leaf, pool), leaf, g)[0], gradients[0])


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool, torch.uint8, torch.int32, torch.uint64])
def test_dtypes(dtype):
    x = torch.arange(32).reshape(2, 4, 4).to(dtype)
    for kind in (Max(), Avg()):
        short, long = both_ways(Pool(kind, Window((2, 2))), x)
        same(short.quick.forward(x), long.forward(x))


def test_not_for_the_empty():
    pool = TensorPool(Pool(Max(), Window((2, 2))))
    assert pool.plan_of(torch.zeros(2, 64, 18, 18)).quick is not None
    assert pool.plan_of(torch.zeros(2, 256, 257)).quick is not None
    assert pool.plan_of(torch.zeros(0, 32, 32)).quick is None


@pytest.mark.parametrize("length", [4 << 10, 64 << 10, 1 << 20, 4 << 20, 12 << 20])  # of 4 bytes
def test_results_come_where_others_were_and_are_apart(length):
    """Of all sizes: those that the C library makes, those that are kept, in usual pages and in large ones, and more."""
    x = torch.randn(length)
    pool = Pool(Sum(), Window((1,)))
    at = set()
    for _ in range(5):
        results = [F.pool(x, pool) for _ in range(3)]
        assert len({y.data_ptr() for y in results}) == 3
        at |= {y.data_ptr() for y in results}
        for i, y in enumerate(results):
            y += i
        for i, y in enumerate(results):
            assert torch.equal(y, x + i)
        del y, results
    if 4096 < length <= 4 << 20:
        assert len(at) == 3


def test_memory_that_is_kept_is_little():
    """However many sizes there were."""
    pool = Pool(Sum(), Window((1,)))

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    x = torch.ones(1 << 20)
    before = resident()
    for i in range(60):  # of nearly 4 MB each
        F.pool(x[i:], pool)
    assert resident() - before < 100 << 20


def test_what_one_thread_made_another_may_free():
    x = torch.randn(1 << 16)
    pool = Pool(Sum(), Window((1,)))

    def work(_):
        results = [F.pool(x, pool) for _ in range(20)]
        return results, all(torch.equal(y, x) for y in results)

    with ThreadPoolExecutor(4) as threads:
        for _, equal in threads.map(work, range(40)):
            assert equal


def test_the_stride_of_an_axis_with_one_cell_says_nothing():
    """As channels last has it where there is one channel, or where everything is pooled."""
    x = torch.randn(3, 1, 6, 8)
    odd = x.as_strided(x.size(), (48, 1, 8, 1))
    maxima = TensorPool(Pool(Max(), Window((2, 2))))
    plan = maxima.plan_of(x)
    assert_close(plan.quick.forward(odd), plan.forward(x))
    averages = TensorPool(Pool(Avg(), Global(), axes=(-2, -1))).plan_of(x)
    g = torch.randn(3, 1, 1, 1)
    found = averages.quick.pull(None, None, None, g.as_strided(g.size(), (1, 7, 5, 3)))
    assert_close(found, (g / 48).expand(x.size()))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("pool", FEW_POOLS, ids=str)
def test_more_than_one_thread_may_work_on_it(pool, threads):
    x = distinct(2, 16, 40, 41, dtype=torch.float32)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        short, long = both_ways(pool, x)
        same(short.forward(x), long.forward(x))
        leaf = x.clone().requires_grad_()
        y = F.pool(leaf, pool)
        (gx,) = torch.autograd.grad(y, leaf, torch.ones_like(y))
        assert_close(gx, torch.from_numpy(pool.vjp(x.numpy())[1](np.ones(y.shape, np.float32))))
    finally:
        torch.set_num_threads(before)


def test_a_pytorch_that_does_not_share_tensors_in_c(monkeypatch):
    """An older one has no table of functions; the common way is open there."""
    monkeypatch.delattr(torch.Tensor, "__dlpack_c_exchange_api__")
    x = torch.randn(1, 2, 6, 6)
    pool = TensorPool(Pool(Avg(), Window((3, 3))))
    assert pool.plan_of(x).quick is None
    assert_close(engine.forward(pool, x), T.avg_pool2d(x, 3))


def test_what_it_makes_is_a_tensor_like_any():
    x = torch.randn(1, 4, 8, 8)
    y = F.avg_pool2d(x, 2)
    assert type(y) is torch.Tensor
    assert (y.is_leaf, y.requires_grad, y._is_view(), y._version) == (True, False, False, 0)
    assert y.data_ptr() % 64 == 0
    y.mul_(2).requires_grad_().sum().backward()
    with torch.inference_mode():
        assert F.avg_pool2d(x, 2).is_inference()
    z = F.avg_pool2d(x, 2)
    del x
    assert z.clone().equal(z)
    assert pickle.loads(pickle.dumps(z)).equal(z)
    with pytest.raises(RuntimeError, match="not resizable"):
        z.resize_(100)


def test_nothing_is_leaked():
    x = torch.randn(1, 8, 16, 16, requires_grad=True)
    g = torch.randn(1, 8, 8, 8)

    def step():
        torch.autograd.grad(F.max_pool2d(x, 2), x, g)

    for _ in range(100):
        step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(5000):  # of more than 10 kB each
        step()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


OTHERS = {
    "dtype": lambda x: x.double(),
    "as many bytes": lambda x: x.view(torch.int32),
    "shape": lambda x: x[:, :, :4],
    "order": lambda x: x.to(memory_format=torch.channels_last),
    "strides": lambda x: x.transpose(2, 3),
    "repeated": lambda x: x[:, :1].expand_as(x),
    "parameter": lambda x: torch.nn.Parameter(x),
    "meta": lambda x: x.to("meta"),
    "sparse": lambda x: x.to_sparse(),
    "mkldnn": lambda x: x.to_mkldnn(),
    "zeros without memory": lambda x: torch._efficientzerotensor(x.shape),
    "array": lambda x: x.numpy(),
    "none": lambda x: None,
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_tensor_is_none_of_its_business(name):
    """One that lies otherwise is another pool's, but is read all the same by whoever knows that it is not."""
    x = torch.randn(1, 4, 8, 8)
    refused = name not in ("order", "strides", "repeated")
    for kind in (Max(), Max("split"), Avg(), Lp(2)):
        plan = TensorPool(Pool(kind, Window((2, 2)))).plan_of(x)
        y, winners, g = torch.randn(1, 4, 4, 4), torch.zeros(1, 4, 4, 4, dtype=torch.uint8), torch.randn(1, 4, 4, 4)
        other = OTHERS[name](x)
        if other is not None:
            assert not plan.quick.takes(other)
            assert (plan.quick.forward(other) is None) == refused
        if kind == Max():
            assert plan.quick.pull(None, None, OTHERS[name](y) if other is not None else None, g) is None
        elif kind != Avg():
            assert (plan.quick.pull(other, y, None, g) is None) == refused
        assert plan.quick.pull(x, y, winners, g) is not None


VIEWS = {
    "steps": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "crop": lambda x: T.pad(x, (1, 2, 3, 1))[..., 3:-1, 1:-2],
    "crop of channels last": lambda x: T.pad(x, (1, 2, 3, 1)).to(memory_format=torch.channels_last)[..., 3:-1, 1:-2],
    "some channels, channels last": lambda x: torch.cat([x, x], 1).to(memory_format=torch.channels_last)[:, :3],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("pool", POOLS, ids=str)
def test_views_take_the_short_way(pool, name):
    """Those whose axes lie in the order of the plan, with gaps."""
    x = distinct(2, 3, 6, 7, dtype=torch.float32)
    view = VIEWS[name](x)
    assert not view.is_contiguous()
    x = x.to(memory_format=torch.channels_last if "last" in name else torch.contiguous_format)
    short, long = both_ways(pool, x)
    assert TensorPool(pool).plan_of(view).order == short.order
    assert short.quick.takes(view)
    same(short.quick.forward(view), long.forward(x))
    if isinstance(pool.kind, Max) and pool.kind.ties == "first":
        for a, b in zip(short.quick.linearize(view), long.forward_with_winners(x), strict=True):
            same(a, b)
    g = torch.randn_like(long.forward(x))
    leaf, plain = view.detach().requires_grad_(), x.detach().requires_grad_()
    for cotangent in (g, g.repeat_interleave(2, -1)[..., ::2], g.mean().expand_as(g)):
        found = torch.autograd.grad(F.pool(leaf, pool), leaf, cotangent)[0]
        assert_close(found, torch.autograd.grad(F.pool(plain, pool), plain, cotangent)[0], rtol=0, atol=0)


@pytest.mark.parametrize("name", ["parameter", "strides", "order", "repeated", "zeros without memory"])
def test_another_tensor_is_pooled_all_the_same(name):
    x = OTHERS[name](torch.randn(1, 4, 8, 8))
    for mine, theirs in ((F.max_pool2d, T.max_pool2d), (F.avg_pool2d, T.avg_pool2d)):
        assert_close(mine(x, 2), theirs(x, 2))


@pytest.mark.parametrize("side", [8, 80])
@pytest.mark.parametrize("pool", FEW_POOLS, ids=str)
def test_numbers_behind_a_sign(pool, side):
    """The imaginary part of a conjugate is a view that means the opposite of what its memory holds."""
    x = distinct(2, side, side)
    for negated in (torch._neg_view(x), torch.complex(x, x).conj().imag):
        assert negated.is_neg()
        plain = negated.clone()
        assert not plain.is_neg()
        want = F.pool(plain, pool)
        assert_close(F.pool(negated, pool), want)
        a, b = negated.detach().requires_grad_(), plain.requires_grad_()
        g = torch.randn_like(want)
        want_gx = torch.autograd.grad(F.pool(b, pool), b, g)[0]
        assert_close(torch.autograd.grad(F.pool(a, pool), a, g)[0], want_gx)
        assert_close(torch.autograd.grad(F.pool(a, pool), a, torch._neg_view(-g))[0], want_gx)


# --- those who watch ------------------------------------------------------------------------------


def test_dispatch_modes_see_the_operator():
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    x = torch.randn(1, 2, 4, 4)
    with Watch():
        y = F.max_pool2d(x, 2)
    assert "ndpool.forward.default" in seen
    assert_close(y, T.max_pool2d(x, 2))


def test_function_modes_pass():
    class Watch(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    x = torch.randn(1, 2, 4, 4, requires_grad=True)
    with Watch():
        y = F.max_pool2d(x, 2)
        y.sum().backward()
    assert_close(y, T.max_pool2d(x, 2))


@pytest.mark.parametrize("side", [4, 80])
def test_results_are_where_the_input_is(side):
    """Whatever device new tensors go to by default."""
    x = torch.randn(1, 2, side, side, requires_grad=True)
    with torch.device("meta"):
        y, gx = F.max_pool2d(x, 2), torch.autograd.grad(F.avg_pool2d(x, 2).sum(), x)[0]
    assert y.device.type == gx.device.type == "cpu"
    assert_close(y, T.max_pool2d(x, 2))


def test_tensors_of_a_class_of_their_own():
    seen = []

    class Mine(torch.Tensor):
        @staticmethod
        def __new__(cls, inside):
            return torch.Tensor._make_wrapper_subclass(cls, inside.shape, dtype=inside.dtype)

        def __init__(self, inside):
            self.inside = inside

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*(a.inside if isinstance(a, Mine) else a for a in args), **(kwargs or {}))

    x = torch.randn(1, 2, 4, 4)
    y = F.max_pool2d(Mine(x), 2)
    assert "ndpool.forward.default" in seen
    assert_close(y, T.max_pool2d(x, 2))


@pytest.mark.parametrize("side", [4, 80])
def test_nested_transforms(side):
    x, t = torch.randn(3, 2, side, side, dtype=torch.float64), torch.randn(3, 2, side, side, dtype=torch.float64)
    mine, theirs = (lambda x, m=m: m.max_pool2d(x, 2).sin().sum() for m in (F, T))
    for transformed in (torch.func.grad, lambda f: torch.func.vmap(torch.func.grad(f))):
        assert_close(transformed(mine)(x), transformed(theirs)(x))
    assert_close(torch.func.jvp(mine, (x,), (t,)), torch.func.jvp(theirs, (x,), (t,)))


# --- forward mode ---------------------------------------------------------------------------------


@pytest.mark.parametrize("memory_format", FORMATS)
def test_forward_mode_makes_no_indices(memory_format, monkeypatch):
    """The tangent goes through the window with the input, in one pass, for all kinds."""
    monkeypatch.setattr(engine, "indices", lambda *_: pytest.fail("forward mode made indices"))
    x, t = (torch.randn(2, 3, 8, 8).to(memory_format=memory_format) for _ in range(2))
    for pool in FEW_POOLS:
        y, dy = torch.func.jvp(lambda x, pool=pool: F.pool(x, pool), (x,), (t,))
        want, slope = pool.jvp(x.numpy(), t.numpy())
        assert_close(y, torch.from_numpy(np.ascontiguousarray(want)), check_stride=False)
        assert_close(dy, torch.from_numpy(np.ascontiguousarray(slope)), check_stride=False)


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [4, 80])
def test_other_layouts_are_refused(side):
    x = torch.randn(2, 3, side, side)
    sizes, strides, offsets = [[3, side, side]] * 2, [[side * side, side, 1]] * 2, [0, 3 * side * side]
    nested = torch._nested_view_from_buffer(x.flatten(), *map(torch.tensor, (sizes, strides, offsets)))
    for other, name in ((x.to_sparse(), "sparse_coo"), (x.to_mkldnn(), "mkldnn"), (nested, "nested")):
        for _ in range(2):
            with pytest.raises(TypeError, match=f"tensor is .*{name}, which ndpool does not pool; give a dense one"):
                F.max_pool2d(other, 2)


@pytest.mark.parametrize("side", [4, 80])
def test_winners_of_the_wrong_size(side):
    """A hook that gives back another tensor than it got: an error, and nothing outside of it is read."""
    x = torch.randn(1, 2, side, side, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda a: a, lambda a: a[..., :-1]):
        y = F.max_pool2d(x, 2)
    with pytest.raises(ValueError, match=r"winners has \d+ bytes"):
        y.sum().backward()


def test_the_native_plan_checks_what_it_is_made_for():
    plan = TensorPool(Pool(Max(), Window((2,)))).plan_of(torch.zeros(3, 8)).native
    right = {
        "size": (3, 8),
        "strides": (8, 1),
        "y_size": (3, 4),
        "y_strides": (4, 1),
        "dtype": "float32",
        "order": (0, 1),
    }

    def made(tensor=torch.Tensor, **other):
        return _engine.TensorPlan(plan, tensor, **{**right, "result": "float32", **other})

    made()
    for other, message in (
        ({"tensor": np.ndarray}, "the type shares no tensors in C"),
        ({"size": (3, 9)}, "the shapes are not the plan's"),
        ({"y_size": (3, 5)}, "the shapes are not the plan's"),
        ({"strides": (8,)}, "a stride for each axis"),
        *(
            ({"order": order}, "the order does not have each axis once")
            for order in [(0,), (0, 0), (0, 2), (-1, 0), ()]
        ),
        ({"dtype": "complex64"}, "tensors have no type 'complex64'"),
        ({"dtype": ""}, "tensors have no type ''"),
        ({"dtype": "int4"}, "tensors have no type 'int4'"),
        ({"dtype": "float32x"}, "tensors have no type 'float32x'"),
        ({"dtype": "float64"}, "the types are not the plan's"),
        ({"result": "float64"}, "the types are not the plan's"),
    ):
        with pytest.raises(ValueError, match=message):
            made(**other)
    with pytest.raises(OverflowError, match="the tensor is too large"):
        made(size=(2**62, 8))
    averages = TensorPool(Pool(Avg(), Window((2,)))).plan_of(torch.zeros(3, 8)).quick
    assert averages.linearize(torch.zeros(3, 8))[1] is None


# --- arguments found again ------------------------------------------------------------------------


def test_arguments_are_told_apart():
    """By what they are, not by what they equal, and as they are now."""
    x = torch.randn(1, 8, 8)
    assert F.max_pool2d(x, (2, 2)).shape == F.max_pool2d(x, 2, 2).shape == (1, 4, 4)
    with pytest.raises(TypeError, match=r"kernel_size=2\.0 is a float"):
        F.max_pool2d(x, (2.0, 2))
    with pytest.raises(TypeError, match="stride=True is a bool"):
        F.max_pool2d(x, 2, (True, True))
    kernel = [2, 2]
    assert F.max_pool2d(x, kernel).shape == (1, 4, 4)
    kernel[0] = 4
    assert F.max_pool2d(x, kernel).shape == (1, 2, 4)
