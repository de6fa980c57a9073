"""What only a card can show: streams, graphs, more elements than 32 bits count, compiled code, the same bits."""

from __future__ import annotations

import threading

import pytest
import torch
from on_device import DEVICE
from torch.testing import assert_close

import ndpool.torch.functional as F
from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window
from ndpool.torch import convert
from ndpool.torch.pools import over_pool
from ndpool.triton.engine import recipe

pytestmark = pytest.mark.skipif(DEVICE != "cuda", reason="it needs a GPU, and NDPOOL_TEST_DEVICE=cuda")

T = torch.nn.functional
KINDS = [Max(), Min("split"), Max("all"), Sum(), Avg(), SmoothMax(1.5), Lp(2)]
POOLS = [Pool(kind, Window((3, 3), 2, 1), (-2, -1)) for kind in KINDS]
POOLS += [Pool(kind, window, (-2, -1)) for kind in (Max(), Avg()) for window in (Global(), Adaptive((7, 7)))]
POOLS += [Pool(kind, Window((15, 15), 1, 7), (-2, -1)) for kind in (Max(), Avg(), SmoothMax(1.0))]


def both(pool, x, g):
    leaf = x.detach().requires_grad_()
    y = pool(leaf)
    return y.detach(), torch.autograd.grad(y, leaf, g)[0]


@pytest.mark.parametrize("pool", POOLS, ids=str)
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last], ids=["NCHW", "NHWC"])
def test_the_numbers_of_the_cpu(pool, order):
    x = torch.randn(3, 8, 37, 61, device="cuda").to(memory_format=order)
    g = torch.randn(pool.output_shape(x.shape), device="cuda")
    y, gx = both(pool, x, g)
    expected_y, expected = both(pool, x.cpu(), g.cpu())
    assert y.is_contiguous(memory_format=order) or y.shape[-1] == 1
    assert_close(y.cpu(), expected_y)
    assert_close(gx.cpu(), expected)


@pytest.mark.parametrize("pool", POOLS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_the_same_bits_each_time(pool, dtype):
    x = torch.randn(5, 16, 64, 80, device="cuda", dtype=dtype)
    g = torch.randn(pool.output_shape(x.shape), device="cuda", dtype=dtype)
    first = both(pool, x, g)
    for _ in range(10):
        for a, b in zip(both(pool, x, g), first, strict=True):
            assert torch.equal(a.view(torch.uint8), b.view(torch.uint8))


def test_deterministic_algorithms():
    torch.use_deterministic_algorithms(True)
    try:
        for pool in POOLS:
            x = torch.randn(2, 3, 20, 20, device="cuda")
            both(pool, x, torch.randn(pool.output_shape(x.shape), device="cuda"))
    finally:
        torch.use_deterministic_algorithms(False)


# --- the short way --------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", POOLS, ids=str)
def test_after_the_first_call_the_driver_launches(pool):
    """To the same bits. Tensors that start within a vector are left to Triton."""
    x = torch.randn(2, 3, 24, 40, device="cuda")
    g = torch.randn(pool.output_shape(x.shape), device="cuda")
    first = both(pool, x, g)
    plan = over_pool(pool, 4).plan_of(x)
    assert plan.quick.takes(x)
    assert recipe(plan.plan, "pull").ready.keys() == {x.get_device()}
    room = torch.empty(x.numel() + 1, device="cuda")
    for start in (0, 1):
        moved = room[start : start + x.numel()].view(x.shape).copy_(x)
        for a, b in zip(both(pool, moved, g), first, strict=True):
            assert torch.equal(a, b)


def test_another_thread():
    """One that has not talked to the device before."""
    x, found = torch.randn(2, 3, 8, 8, device="cuda"), []
    expected = F.max_pool2d(x, 2)
    thread = threading.Thread(target=lambda: found.append(F.max_pool2d(x, 2)))
    thread.start()
    thread.join()
    assert torch.equal(found[0], expected)


# --- streams, devices and graphs ------------------------------------------------------------------


@pytest.mark.parametrize("pool", POOLS[:7], ids=str)
def test_another_stream(pool):
    """A pool waits for what its own stream has to do, and for nothing else."""
    x = torch.zeros(4, 4, 64, 64, device="cuda")
    numbers = torch.randn(4, 4, 64, 64, device="cuda")
    expected = pool(numbers)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        x.copy_(numbers)
        y = pool(x)
    torch.cuda.current_stream().wait_stream(stream)
    assert_close(y, expected)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="it needs two GPUs")
def test_another_device():
    x = torch.randn(3, 8, 8, device="cuda:1", requires_grad=True)
    y = F.max_pool2d(x, 2)
    y.sum().backward()
    assert y.device == x.grad.device == x.device
    assert_close(y.cpu(), T.max_pool2d(x.detach().cpu(), 2))


@pytest.mark.parametrize("pool", POOLS, ids=str)
def test_graphs(pool):
    """Captured once, and replayed on other numbers: nothing is synchronised with the host."""
    x = torch.randn(2, 4, 33, 35, device="cuda")
    g = torch.randn(pool.output_shape(x.shape), device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # where the kernels are compiled
        both(pool, x, g)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y, gx = both(pool, x, g)
    for _ in range(2):
        x.copy_(torch.randn_like(x))
        g.copy_(torch.randn_like(g))
        graph.replay()
        for a, b in zip((y, gx), both(pool, x.clone(), g.clone()), strict=True):
            assert torch.equal(a, b)


def test_nothing_waits_for_the_device():
    x = torch.randn(2, 4, 33, 35, device="cuda")
    beta = torch.tensor(2.0, device="cuda", requires_grad=True)
    for repeat in range(2):
        torch.cuda.set_sync_debug_mode("error" if repeat else "default")
        try:
            for pool in POOLS:
                both(pool, x, x.new_ones(pool.output_shape(x.shape)))
            F.max_pool2d(x, 2, return_indices=True)
            F.smooth_max_pool2d(x, beta, 2).sum().backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")


# --- more than 32 bits count ----------------------------------------------------------------------


def needs(gigabytes):
    free = torch.cuda.mem_get_info()[0] if DEVICE == "cuda" and torch.cuda.is_available() else 0
    return pytest.mark.skipif(free < gigabytes * 2**30, reason=f"it needs {gigabytes} GB of the card's memory")


@needs(20)
@pytest.mark.parametrize("shape", [(2**16 + 1, 2**15), (3, 2**30 + 2)], ids=str)
@pytest.mark.parametrize("kernel", [2, 3])
def test_more_elements_than_a_32_bit_number_counts(shape, kernel):
    x = torch.randint(0, 256, shape, dtype=torch.uint8, device="cuda")
    pool = Pool(Max(), Window((kernel,), 2))
    y, found = pool.with_indices(x)
    assert x.numel() > 2**31
    for row in (0, shape[0] // 2, shape[0] - 1):
        windows = x[row].unfold(0, kernel, 2)
        assert torch.equal(y[row], windows.amax(-1))
        assert torch.equal(x[row].gather(0, found[row]), y[row])


@needs(60)
def test_the_way_back_over_more_elements():
    x = torch.randn(2**16 + 2, 2**15, dtype=torch.float16, device="cuda")
    for kind in (Max(), Avg()):
        pool = Pool(kind, Window((2, 2)))
        y, linear = pool.linearize(x)
        gx = linear.pull(torch.ones_like(y))
        del linear
        last = x[-4:].clone().requires_grad_()
        expected = torch.autograd.grad(pool(last).sum(), last)[0]
        assert torch.equal(gx[-4:], expected)
        del y, gx


@needs(20)
def test_one_window_over_more_elements():
    x = torch.zeros(2**31 + 5, dtype=torch.uint8, device="cuda")
    x[2**31 + 1] = 7
    y, found = Pool(Max(), Global(), axes=(0,)).with_indices(x)
    assert (y.item(), found.item()) == (7, 2**31 + 1)
    assert Pool(Sum(), Global(), axes=(0,))(x).item() == 7


# --- compiled -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("pool", POOLS[:8], ids=str)
def test_compiled(pool, dynamic):
    def step(x):
        return F.pool(x * 2, pool) + 1

    x = torch.randn(2, 4, 20, 24, device="cuda", requires_grad=True)
    compiled = torch.compile(step, fullgraph=True, dynamic=dynamic)
    y, expected = compiled(x), step(x)
    assert_close(y, expected)
    g = torch.randn_like(y)
    assert_close(torch.autograd.grad(y, x, g), torch.autograd.grad(expected, x, g))
    torch._dynamo.reset()


def test_the_compiler_sees_the_kernels():
    from torch._inductor.utils import run_and_get_code

    x = torch.randn(2, 4, 20, 24, device="cuda")
    compiled = torch.compile(lambda x: F.max_pool2d(x.relu(), 3, 2, 1), fullgraph=True)
    y, code = run_and_get_code(compiled, x)
    assert_close(y, T.max_pool2d(x.relu(), 3, 2, 1))
    assert "torch.ops.ndpool" not in "".join(code)
    torch._dynamo.reset()


def test_compiled_into_graphs():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.MaxPool2d(2), torch.nn.AdaptiveAvgPool2d(1)).cuda()
    x = torch.randn(2, 3, 20, 24, device="cuda")
    expected = model(x)
    assert list(convert(model).replaced) == ["1"]
    compiled = torch.compile(model, mode="reduce-overhead", fullgraph=True)
    for _ in range(3):
        with torch.no_grad():
            assert_close(compiled(x), expected, rtol=1e-3, atol=1e-3)
    torch._dynamo.reset()


@pytest.mark.parametrize("pool", POOLS[:7], ids=str)
def test_operators(pool):
    from ndpool.torch.schema import encode

    x = torch.randn(2, 3, 8, 9, device="cuda", requires_grad=True)
    torch.library.opcheck(torch.ops.ndpool.forward.default, (x, *encode(pool)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast(dtype):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.MaxPool2d(3, 2, 1), torch.nn.AvgPool2d(2)).cuda()
    x = torch.randn(2, 3, 20, 24, device="cuda")
    with torch.autocast("cuda", dtype=dtype):
        expected = model(x)
        convert(model)
        y = model(x)
    assert y.dtype == expected.dtype
    assert_close(y, expected)
