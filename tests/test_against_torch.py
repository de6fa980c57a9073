"""Values, indices and gradients against PyTorch, on everything that it defines."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from torch.nn import functional

from ndpool import Adaptive, Avg, Global, Lp, Max, Pool, SmoothMax, Window


@st.composite
def problems(draw, shrink_to=6):
    """Arguments that both sides define: PyTorch has symmetric padding of at most half the kernel, ranks 1 to 3."""
    rank = draw(st.integers(1, 3))

    def each(low, high):
        return draw(st.tuples(*[st.integers(low, high)] * rank))

    kernel = each(1, 4)
    arguments = {
        "kernel_size": kernel,
        "stride": each(1, 3),
        "padding": tuple(draw(st.integers(0, k // 2)) for k in kernel),
        "ceil_mode": draw(st.booleans()),
    }
    sides = tuple(draw(st.integers(1, shrink_to)) for _ in range(rank))
    seed = draw(st.integers(0, 2**32 - 1))
    # Small integers, so that ties abound and sums are exact; now and then something not finite.
    x = np.random.default_rng(seed).integers(-4, 5, (2, 2, *sides)).astype(float)
    if draw(st.booleans()):
        x.flat[draw(st.integers(0, x.size - 1))] = draw(st.sampled_from([math.nan, math.inf, -math.inf]))
    return rank, arguments, x


def fits(pool, x):
    try:
        return pool.output_shape(x.shape)
    except ValueError:
        reject()


def compare(pool, x, theirs, rtol=1e-12):
    """Values and gradients for a random cotangent."""
    g = np.random.default_rng(1).normal(size=pool.output_shape(x.shape))
    leaf = torch.tensor(x, requires_grad=True)
    expected = theirs(leaf)
    y, pullback = pool.vjp(x)
    np.testing.assert_allclose(y, expected.detach().numpy(), rtol=rtol, atol=1e-12)
    expected.backward(torch.tensor(g))
    np.testing.assert_allclose(pullback(g), leaf.grad.numpy(), rtol=rtol, atol=1e-12)


@given(problems(), st.integers(1, 2))
@settings(max_examples=150, deadline=None)
def test_max(problem, dilation):
    rank, arguments, x = problem
    pool = Pool(Max(), Window(**arguments, dilation=dilation))
    fits(pool, x)
    theirs = getattr(functional, f"max_pool{rank}d")
    compare(pool, x, lambda leaf: theirs(leaf, **arguments, dilation=dilation))
    expected = theirs(torch.tensor(x), **arguments, dilation=dilation, return_indices=True)[1].numpy()
    np.testing.assert_array_equal(pool.with_indices(x)[1], expected)


@given(problems(), st.booleans(), st.none() | st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_avg(problem, count_include_pad, divisor):
    rank, arguments, x = problem
    divisor = None if rank == 1 else divisor
    if rank == 3 and any(side < k for side, k in zip(x.shape[2:], arguments["kernel_size"], strict=True)):
        reject()  # PyTorch's avg_pool3d wants the kernel within the input itself, without its padding
    pool = Pool(Avg(count_include_pad, divisor), Window(**arguments))
    fits(pool, x)
    more = {} if rank == 1 else {"divisor_override": divisor}
    theirs = getattr(functional, f"avg_pool{rank}d")
    compare(pool, x, lambda leaf: theirs(leaf, **arguments, count_include_pad=count_include_pad, **more))


@given(problems(shrink_to=7), st.tuples(st.integers(1, 8), st.integers(1, 8), st.integers(1, 8)))
@settings(max_examples=100, deadline=None)
def test_adaptive(problem, output_size):
    rank, _, x = problem
    window = Adaptive(output_size[:rank])
    compare(
        Pool(Avg(), window), x, lambda leaf: getattr(functional, f"adaptive_avg_pool{rank}d")(leaf, output_size[:rank])
    )
    theirs = getattr(functional, f"adaptive_max_pool{rank}d")
    compare(Pool(Max(), window), x, lambda leaf: theirs(leaf, output_size[:rank]))
    expected = theirs(torch.tensor(x), output_size[:rank], return_indices=True)[1].numpy()
    pool = Pool(Max(), window)
    np.testing.assert_array_equal(pool.with_indices(x)[1], expected)


@given(problems(), st.sampled_from([2, 4]))
@settings(max_examples=100, deadline=None)
def test_lp(problem, p):
    """Even p: for odd ones PyTorch sums signed powers. Its gradient at a window of zeros is 0 as well."""
    rank, arguments, x = problem
    x = np.abs(np.nan_to_num(x, posinf=3, neginf=-3)) + 0.5
    window = Window(arguments["kernel_size"], arguments["stride"], ceil_mode=False)
    fits(Pool(Lp(p), window), x)
    theirs = getattr(functional, f"lp_pool{rank}d")
    kernel = arguments["kernel_size"] if rank > 1 else arguments["kernel_size"][0]
    stride = arguments["stride"] if rank > 1 else arguments["stride"][0]
    compare(Pool(Lp(p), window), x, lambda leaf: theirs(leaf, float(p), kernel, stride), rtol=1e-9)


@pytest.mark.parametrize("keepdims", [True, False])
def test_global_average_and_amax(keepdims):
    x = np.random.default_rng(0).integers(-2, 3, (2, 3, 4, 5)).astype(float)
    compare(Pool(Avg(), Global(keepdims), axes=(2, 3)), x, lambda leaf: leaf.mean((2, 3), keepdim=keepdims))
    # torch.amax splits its gradient evenly among the maxima.
    compare(Pool(Max("split"), Global(keepdims), axes=(2, 3)), x, lambda leaf: leaf.amax((2, 3), keepdim=keepdims))


# --- arrays of the sizes that are pooled in practice ----------------------------------------------


def compare_floats(pool, x, theirs, indices=None):
    """Values, gradients for a random cotangent, and indices, in float32 and in the memory order given."""
    g = np.random.default_rng(1).normal(size=pool.output_shape(x.shape)).astype(np.float32)
    leaf = torch.tensor(x, requires_grad=True)
    expected = theirs(leaf)
    expected.backward(torch.tensor(g))
    y, pullback = pool.vjp(x)
    np.testing.assert_allclose(y, expected.detach().numpy(), rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(pullback(g), leaf.grad.numpy(), rtol=1e-5, atol=1e-5)
    if indices is not None:
        np.testing.assert_array_equal(pool.with_indices(x)[1], indices(torch.tensor(x)).numpy())


def images(*shape):
    """Rounded, so that there are ties within windows."""
    return (np.random.default_rng(0).normal(size=shape) * 8).round().astype(np.float32) / 4


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (3, 2, 1), (15, 1, 7)])
def test_images(kernel, stride, padding, channels_last):
    """Batches of images, in the memory order of channels first and of channels last."""
    x = images(2, 16, 56, 57)
    if channels_last:
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    numbers = (kernel, stride, padding)
    window = Window((kernel, kernel), stride, padding)
    compare_floats(
        Pool(Max(), window),
        x,
        lambda leaf: functional.max_pool2d(leaf, *numbers),
        lambda leaf: functional.max_pool2d(leaf, *numbers, return_indices=True)[1],
    )
    compare_floats(Pool(Avg(), window), x, lambda leaf: functional.avg_pool2d(leaf, *numbers))


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (3, 2, 1)])
def test_volumes(kernel, stride, padding):
    x = images(1, 4, 24, 31, 32)
    numbers = (kernel, stride, padding)
    window = Window((kernel,) * 3, stride, padding)
    compare_floats(
        Pool(Max(), window),
        x,
        lambda leaf: functional.max_pool3d(leaf, *numbers),
        lambda leaf: functional.max_pool3d(leaf, *numbers, return_indices=True)[1],
    )
    compare_floats(Pool(Avg(), window), x, lambda leaf: functional.avg_pool3d(leaf, *numbers))


def test_adaptive_and_global_images():
    x = images(2, 16, 56, 57)
    compare_floats(
        Pool(Max(), Adaptive((7, 7))),
        x,
        lambda leaf: functional.adaptive_max_pool2d(leaf, 7),
        lambda leaf: functional.adaptive_max_pool2d(leaf, 7, return_indices=True)[1],
    )
    compare_floats(Pool(Avg(), Adaptive((7, 7))), x, lambda leaf: functional.adaptive_avg_pool2d(leaf, 7))
    compare_floats(Pool(Avg(), Global(), axes=(2, 3)), x, lambda leaf: leaf.mean((2, 3), keepdim=True))
    compare_floats(Pool(Max("split"), Global(), axes=(2, 3)), x, lambda leaf: leaf.amax((2, 3), keepdim=True))


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2)])
def test_smooth_images(kernel, stride):
    """The smooth maximum is logsumexp over unfolded windows."""
    x = images(2, 8, 40, 41)
    beta = 2.0

    def theirs(leaf):
        windows = leaf.unfold(2, kernel, stride).unfold(3, kernel, stride)
        return torch.logsumexp(beta * windows, (-2, -1)) / beta

    compare_floats(Pool(SmoothMax(beta), Window((kernel, kernel), stride)), x, theirs)
