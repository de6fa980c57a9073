"""Tensors as PyTorch has them: layouts, dtypes, threads, autocast, modes, memory kept, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close
from torch_cases import DEVICE, FEW_POOLS, distinct, since_2_13

import ndpool
import ndpool.torch.functional as F
from ndpool import Avg, Lp, Max, Pool, SmoothMax, Window

T = torch.nn.functional


@pytest.mark.parametrize("pool", FEW_POOLS, ids=str)
def test_any_strides_are_right(pool):
    """Channels last, transposed, sliced, expanded, read backwards: as the contiguous copy, gradient included."""
    base = distinct(4, 6, 6, 3)
    for x in [
        base.permute(0, 3, 1, 2),
        base.transpose(1, 2),
        base.permute(3, 2, 1, 0),
        base[::2, :, ::2],
        base[:1].expand(5, -1, -1, -1),
        base[..., :1].expand(-1, -1, -1, 4),
        base.flip(1)[:, 1:],
    ]:
        a, b = x.detach().requires_grad_(), x.contiguous().detach().requires_grad_()
        y, want = F.pool(a, pool), F.pool(b, pool)
        assert_close(y, want)
        g = torch.randn_like(want)
        assert_close(torch.autograd.grad(y, a, g)[0], torch.autograd.grad(want, b, g)[0])


@pytest.mark.parametrize("pool", FEW_POOLS, ids=str)
def test_channels_last_stays(pool):
    x = distinct(2, 3, 8, 8).to(memory_format=torch.channels_last).requires_grad_()
    y = F.pool(x, pool)
    y.sum().backward()
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert x.grad.is_contiguous(memory_format=torch.channels_last)
    volume = distinct(2, 3, 4, 6, 6).to(memory_format=torch.channels_last_3d)
    assert F.max_pool3d(volume, 2).is_contiguous(memory_format=torch.channels_last_3d)


@pytest.mark.cpu_only("the profile counts memory of the CPU")
def test_zero_copy():
    """The engine reads the tensor's own memory, and writes the result's: no copy of either is made."""
    x = torch.randn(64, 64, 64)
    for layout in (x, x[None].to(memory_format=torch.channels_last)):
        with torch.profiler.profile(profile_memory=True) as profile:
            y = F.max_pool2d(layout, 2)
        allocated = sum(max(event.self_cpu_memory_usage, 0) for event in profile.key_averages())
        assert y.nbytes <= allocated <= y.nbytes + 4096


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_floats(dtype):
    """16-bit floats are summed in 32 bits and rounded once."""
    x = distinct(2, 3, 8, 8, dtype=dtype)
    for kind in (Avg(), SmoothMax(2.0), Lp(3)):
        pool = Pool(kind, Window(3, 2, 1), (-2, -1))
        assert F.pool(x, pool).dtype == dtype
        # The last bit may go the other way where a number lies between two.
        assert_close(F.pool(x, pool), F.pool(x.double(), pool).to(dtype))
    assert torch.equal(F.max_pool2d(x, 3), T.max_pool2d(x, 3))


@pytest.mark.parametrize("name", ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"])
def test_integers(name):
    """Max keeps the dtype, Sum widens, Avg gives float64; under PyTorch's name an average stays an integer."""
    x = torch.arange(16).reshape(1, 4, 4).to(getattr(torch, name))
    for function in ("max_pool", "sum_pool", "avg_pool"):
        want = torch.from_numpy(getattr(ndpool, function)(x.numpy(), (2, 2)))
        assert torch.equal(getattr(F, function)(x, (2, 2)), want)
    assert F.avg_pool2d(x, 2).dtype == x.dtype


def test_booleans():
    x = torch.tensor([[True, False, False, False]])
    assert F.max_pool1d(x, 2).tolist() == [[True, False]]
    assert F.sum_pool1d(x, 2).tolist() == [[1, 0]]


def test_several_nans():
    """The first NaN has the index, where PyTorch gives it to the last."""
    x = torch.tensor([[1.0, torch.nan, torch.nan, 2.0]])
    y, indices = F.max_pool1d(x, 4, return_indices=True)
    assert y.isnan().all()
    assert indices.item() == 1
    assert T.max_pool1d(x, 4, return_indices=True)[1].item() == 2


@since_2_13
def test_lp_as_pytorch_has_it():
    """Odd powers keep their sign, and a window over the end is scaled up, as in PyTorch; the norm is `lp_pool`."""
    x = distinct(1, 2, 5, 5)
    for p in (1.0, 2.0, 3, 4, float("inf"), -float("inf")):
        for ceil_mode in (False, True):
            assert_close(
                F.lp_pool2d(x, p, 2, ceil_mode=ceil_mode), T.lp_pool2d(x, p, 2, ceil_mode=ceil_mode), equal_nan=True
            )
    assert_close(F.lp_pool1d(-x[0].abs(), 3, 2, 1), T.lp_pool1d(-x[0].abs(), 3, 2, 1), equal_nan=True)
    assert_close(F.lp_pool3d(x.abs(), 3, 1, 2), T.lp_pool3d(x.abs(), 3, 1, 2))
    assert_close(F.lp_pool(x, 3, (2, 2)), T.lp_pool2d(x.abs(), 3, 2))


@pytest.mark.cpu_only("PyTorch has fewer dtypes on a GPU")
@pytest.mark.parametrize("p", [1, 2, 3, 2.0, 3.0, -1.0, float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8])
def test_lp_of_integers(dtype, p):
    """PyTorch's number to the bit, its truncated means included; where it refuses, powers would wrap around."""
    x = torch.tensor([[[1, 2, 2, 2], [3, 1, 0, 1], [100, 1, 1, 1], [1, 1, 100, 99]]], dtype=dtype)
    try:
        want = T.lp_pool2d(x, p, 2)
    except NotImplementedError:
        with pytest.raises(TypeError, match=rf"lp_pool2d got {dtype}, in which the power norm_type={p} may overflow"):
            F.lp_pool2d(x, p, 2)
        return
    got = F.lp_pool2d(x, p, 2)
    assert got.dtype == want.dtype
    assert_close(got, want)


def test_norms_of_integers():
    """Ndpool's own: the norm itself, in float64, whatever the width."""
    for dtype in (torch.uint8, torch.int8, torch.int64, torch.bool):
        x = torch.tensor([100, 100, 3, 4]).to(dtype)
        y = F.lp_pool(x, 2, (2,))
        assert y.dtype == torch.float64
        assert torch.equal(y, F.lp_pool(x.double(), 2, (2,)))
        assert torch.equal(F.global_lp_pool(x, 3, axes=0), F.global_lp_pool(x.double(), 3, axes=0))
        assert torch.equal(F.adaptive_smooth_max_pool(x, 0.5, (2,)), F.adaptive_smooth_max_pool(x.double(), 0.5, (2,)))
        assert torch.equal(F.pool(x, Pool(Lp(2), Window((2,)))), y)


@pytest.mark.cpu_only("sizes that are too small for the indices end PyTorch's work with the GPU")
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(3, 2, 1), ((3, 4), (2, 3), (1, 2)), (2, None, 1), (4, 3, 0)]
)
def test_unpool_of_every_window(kernel, stride, padding):
    """All output sizes that PyTorch takes give its result; one more or less on any axis is refused, as by PyTorch."""
    x = distinct(2, 3, 13, 14)
    y, places = T.max_pool2d(x, kernel, stride, padding, return_indices=True)
    assert torch.equal(F.max_pool2d(x, kernel, stride, padding, return_indices=True)[1], places)
    accepted = 0
    for height in range(8, 19):
        for width in range(8, 19):
            try:
                want = T.max_unpool2d(y, places, kernel, stride, padding, output_size=(height, width))
            except (ValueError, RuntimeError) as error:
                if "invalid output_size" in str(error):
                    with pytest.raises(ValueError, match=rf"output_size=\({height}, {width}\) does not fit: 2 sides"):
                        F.max_unpool2d(y, places, kernel, stride, padding, output_size=(height, width))
                continue
            assert torch.equal(F.max_unpool2d(y, places, kernel, stride, padding, (height, width)), want)
            accepted += 1
    assert accepted
    for asked in (x.shape, x.shape[-2:], list(x.shape[-2:]), np.array([13, 14]), torch.tensor([13, 14])):
        same = T.max_unpool2d(y, places, kernel, stride, padding, output_size=list(map(int, asked)))
        assert torch.equal(F.max_unpool2d(y, places, kernel, stride, padding, asked), same)
    kernels, strides = (a if isinstance(a, tuple) else (a, a) for a in (kernel, stride or kernel))
    x = distinct(1, 1, *(2 * s + k for k, s in zip(kernels, strides, strict=True)))
    usual = T.max_pool2d(x, kernel, stride, return_indices=True)
    assert torch.equal(F.max_unpool2d(*usual, kernel, stride), T.max_unpool2d(*usual, kernel, stride))


def test_unpool_1d_and_3d():
    for rank, shape in ((1, (2, 11)), (3, (2, 5, 7, 9))):
        mine, theirs = (getattr(module, f"max_unpool{rank}d") for module in (F, T))
        x = distinct(*shape)
        y, places = getattr(T, f"max_pool{rank}d")(x, 3, 2, 1, return_indices=True)
        assert torch.equal(mine(y, places, 3, 2, 1, shape[1:]), theirs(y, places, 3, 2, 1, shape[1:]))
        assert torch.equal(mine(y, places, 3, 2, 1), theirs(y, places, 3, 2, 1))


def test_padding_up_to_half_of_what_a_kernel_reaches_over():
    """Where PyTorch leaves dilation out of account, and refuses more than half of the kernel size."""
    x = distinct(1, 9, 9)
    for padding in range(3):
        want = F.max_pool(x, (2, 2), 1, padding, dilation=3)
        assert torch.equal(F.max_pool2d(x, 2, 1, padding, 3), want)
        assert padding == 2 or torch.equal(T.max_pool2d(x, 2, 1, padding, 3), want)


def test_empty_batch():
    x = torch.empty(0, 3, 4, 4, requires_grad=True)
    for y in (F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.smooth_max_pool2d(x, 1.0, 2)):
        assert y.shape == (0, 3, 2, 2)
        assert torch.autograd.grad(y.sum(), x)[0].shape == x.shape


def test_threads_are_pytorchs():
    """For the call; the number that NumPy's arrays are pooled with is another."""
    x, before = torch.randn(8, 64, 64, 64), ndpool.get_num_threads()
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        results.append(F.avg_pool2d(x, 3, 2, 1))
        assert ndpool.get_num_threads() == before
    assert torch.equal(*results)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    """A pool works in the dtype it is given."""
    layer, x = torch.nn.Conv2d(3, 4, 3), torch.randn(1, 3, 9, 9)
    with torch.autocast(DEVICE, dtype=dtype):
        convolved = layer(x)
        y = F.avg_pool2d(F.max_pool2d(convolved, 2), 2)
    assert y.dtype == convolved.dtype == dtype
    y.sum().backward()
    assert layer.weight.grad.dtype == torch.float32


@pytest.mark.cpu_only("PyTorch's lists of operators are others for a GPU")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_beside_pytorchs(dtype):
    """What the documentation says of the difference: PyTorch casts to float32 in three dimensions, and only there."""
    pools = {
        "max_pool": (2,),
        "avg_pool": (2,),
        "lp_pool": (2.0, 2),
        "adaptive_max_pool": (2,),
        "adaptive_avg_pool": (2,),
    }
    for rank in (1, 2, 3):
        x = torch.randn((1, 2, *(4,) * rank)).to(dtype)
        for name, arguments in pools.items():
            mine, theirs = (getattr(module, f"{name}{rank}d") for module in (F, T))
            with torch.autocast(DEVICE, dtype=dtype):
                assert mine(x, *arguments).dtype == dtype
                assert theirs(x, *arguments).dtype == (torch.float32 if rank == 3 else dtype)
                assert mine(x.float(), *arguments).dtype == theirs(x.float(), *arguments).dtype == torch.float32
    for pool in (lambda x: T.avg_pool3d(x, 2), lambda x: T.lp_pool3d(x, 2.0, 2)):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            pool(x)


def test_inference_mode():
    x = torch.randn(1, 2, 8, 8)
    with torch.inference_mode():
        y = F.max_pool2d(x.relu(), 2)
    assert y.is_inference()
    assert torch.equal(y, T.max_pool2d(x.relu(), 2))


def test_deterministic_algorithms():
    x = torch.randn(2, 3, 9, 9, requires_grad=True)
    torch.use_deterministic_algorithms(True)
    try:
        grads = [torch.autograd.grad(F.max_pool2d(x, 3, 1).sin().sum(), x)[0] for _ in range(2)]
        F.max_unpool2d(*F.max_pool2d(x, 3, return_indices=True), 3).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(*grads)


KEPT = {
    "max": (lambda x: F.max_pool2d(x, 3, 2, 1), lambda x, y: y.numel()),
    "min": (lambda x: F.min_pool2d(x, 3, 2, 1), lambda x, y: y.numel()),
    "max, wide": (lambda x: F.max_pool2d(x, 17, 2), lambda x, y: 2 * y.numel()),
    "avg": (lambda x: F.avg_pool2d(x, 3, 2, 1), lambda x, y: 0),
    "sum": (lambda x: F.global_sum_pool(x), lambda x, y: 0),
    "smooth max": (lambda x: F.smooth_max_pool2d(x, 1.0, 2), lambda x, y: x.nbytes),
    "split": (lambda x: F.max_pool(x, (2, 2), ties="split"), lambda x, y: x.nbytes + y.nbytes),
}


@pytest.mark.parametrize("name", KEPT)
def test_memory_kept_for_backward(name):
    """One byte an output for max, nothing for avg; seen, packed and unpacked by saved-tensor hooks."""
    function, expected = KEPT[name]
    kept = []

    def pack(a):
        kept.append(a)
        return a.clone()

    x = distinct(2, 3, 24, 24).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda a: a):
        y = function(x)
    assert sum(a.nbytes for a in kept) == expected(x, y)
    g = torch.randn_like(y)
    assert_close(torch.autograd.grad(y, x, g), torch.autograd.grad(function(x), x, g))


@pytest.mark.cpu_only("the device is one that PyTorch must not be built for")
def test_other_devices_are_refused():
    with FakeTensorMode(), pytest.raises(NotImplementedError, match="xpu:0, for which ndpool has no engine"):
        F.max_pool2d(torch.empty(1, 4, 4, device="xpu"), 2)


X = torch.zeros(1, 4, 4)
ERRORS = [
    (lambda: F.max_pool2d(X.numpy(), 2), TypeError, "max_pool2d takes a tensor and got a ndarray"),
    (lambda: F.max_pool(X.numpy(), (2, 2)), TypeError, "x is a ndarray; give a tensor"),
    (lambda: F.max_pool2d(X, 2, padding=2), ValueError, "padding=2 is more than half of the 2 cells"),
    (lambda: F.max_pool2d(X, (2, 2, 2)), ValueError, r"kernel_size=\(2, 2, 2\) has 3 entries; give one int, or 2"),
    (lambda: F.max_pool3d(X[None], (2, 2)), ValueError, r"kernel_size=\(2, 2\) has 2 entries; give one int, or 3"),
    (lambda: F.max_pool2d(X, 2, dilation=3, padding=3), ValueError, "padding=3 is more than half of the 4 cells"),
    (lambda: F.max_pool2d(X, 2.0), TypeError, "kernel_size=2.0 is a float"),
    (lambda: F.max_pool2d(X, np.array([2.0, 2.0])), TypeError, "kernel_size=2.0 is a float"),
    (lambda: F.max_pool2d(X, np.array([True, True])), TypeError, "kernel_size=True is a bool"),
    (lambda: F.max_pool2d(X, np.array([2, 2, 2])), ValueError, r"kernel_size=\(2, 2, 2\) has 3 entries"),
    (lambda: F.max_pool2d(X, torch.tensor([0, 2])), ValueError, "kernel_size=0 is less than 1"),
    (lambda: F.max_pool2d(X, "2"), TypeError, "kernel_size='2' is a word; give an int, or 2 of them"),
    (
        lambda: F.max_pool2d(X, 3, 1, "same"),
        TypeError,
        r"padding='same' is a word, which PyTorch's max_pool2d does not take; give ints, or use max_pool \(the module "
        r"MaxPool\), which takes the words 'valid', 'same', 'same_lower'",
    ),
    (lambda: F.avg_pool1d(X[0], 3, 1, padding="valid"), TypeError, "PyTorch's avg_pool1d does not take; .* avg_pool "),
    (lambda: F.max_unpool2d(X, X.long(), 2, padding="same"), TypeError, "padding='same' is a word; give an int"),
    (
        lambda: F.pool(X, 2),
        TypeError,
        r"pool=2 is a int; give an ndpool.Pool, such as Pool\(Max\(\), Window\(\(2, 2\)\)\)",
    ),
    (lambda: F.pool(X, Max()), TypeError, r"pool=Max\(ties='first'\) is a Max; give an ndpool.Pool"),
    (lambda: F.pool(X.numpy(), Pool(Max(), Window((2,)))), TypeError, "x is a ndarray; give a tensor"),
    (lambda: F.max_pool2d(X.to(torch.complex64), 2), TypeError, "dtype torch.complex64, which ndpool does not pool"),
    (lambda: F.max_pool(X, (2, 2), return_indices=1), TypeError, "return_indices=1 is not a bool"),
    (lambda: F.max_pool(X, 2, axes=(1, 3)), ValueError, "3 is out of range for 3 axes"),
    (lambda: F.pool(X, Pool(Max(), Window((5,)))), ValueError, "reaches over 5 cells"),
    (lambda: F.adaptive_max_pool2d(X, (2, 2, 2)), ValueError, "has 3 entries; give one int, or 2"),
    (lambda: F.lp_pool2d(X, 0, 2), ValueError, "norm_type=0 has no root"),
    (lambda: F.lp_pool2d(X, Fraction(7, 3), 2), TypeError, "norm_type=.* is a Fraction; give an int or a float"),
    (lambda: F.lp_pool2d(X, True, 2), TypeError, "norm_type=True is a bool; give an int or a float"),
    (lambda: F.max_unpool2d(X, X.long(), 2, output_size=(20, 20)), ValueError, "does not fit"),
    (lambda: F.max_unpool2d(X, X, 2), ValueError, "int64, of the same shape"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[case[2] for case in ERRORS])
def test_errors(call, error, message):
    for _ in range(2):  # a call that failed is not remembered as one that did not
        with pytest.raises(error, match=message):
            call()


def test_equal_numbers_of_another_type_are_not_confused():
    F.max_pool2d(X, 2)
    with pytest.raises(TypeError, match="is a float"):
        F.max_pool2d(X, 2.0)


@pytest.mark.parametrize("make", [np.array, torch.tensor, list, tuple], ids=lambda make: make.__name__)
def test_arrays_wherever_a_tuple_is(make):
    """NumPy's arrays and integer tensors, in PyTorch's functions and in ndpool's; read anew at every call."""
    x = torch.arange(96.0).reshape(1, 2, 6, 8)
    two, one = make([2, 3]), make([1, 1])
    assert torch.equal(F.max_pool2d(x, two, one, one, one), F.max_pool2d(x, (2, 3), 1, 1))
    assert torch.equal(F.avg_pool2d(x, two), T.avg_pool2d(x, (2, 3)))
    assert torch.equal(F.lp_pool2d(x, 3, two), F.lp_pool2d(x, 3, (2, 3)))
    assert torch.equal(F.adaptive_avg_pool2d(x, two), F.adaptive_avg_pool2d(x, (2, 3)))
    assert torch.equal(
        F.sum_pool(x, two, padding=make([[0, 1], [1, 0]])), F.sum_pool(x, (2, 3), padding=((0, 1), (1, 0)))
    )
    assert torch.equal(F.min_pool(x, 2, axes=make([1, 3])), F.min_pool(x, 2, axes=(1, 3)))
    assert torch.equal(F.global_max_pool(x, axes=make([0, 1])), F.global_max_pool(x, axes=(0, 1)))
    y, places = F.max_pool2d(x, two, return_indices=True)
    back = F.max_unpool2d(y, places, two, output_size=make([6, 8]))
    assert torch.equal(back, T.max_unpool2d(y, places, (2, 3), output_size=(6, 8)))


def test_what_can_be_written_to_is_read_anew():
    """A tensor is the same object and has the same hash when its number has changed."""
    x = torch.arange(64.0).reshape(1, 8, 8)
    for kernel in (torch.tensor(2), torch.tensor([2, 2]), np.array(2), np.array([2, 2])):
        for function in (F.max_pool2d, F.min_pool2d, F.adaptive_max_pool2d):
            kernel[...] = 2
            before = function(x, kernel)
            kernel[...] = 4
            assert torch.equal(function(x, kernel), function(x, 4))
            assert function(x, kernel).shape != before.shape

    class Number:
        def __init__(self, n):
            self.n = n

        def __index__(self):
            return self.n

        def __repr__(self):
            return "a number"

    number = Number(2)
    pair = (number, 2)
    assert F.max_pool2d(x, number).shape == F.max_pool2d(x, pair).shape == (1, 4, 4)
    number.n = 4
    assert F.max_pool2d(x, number).shape == (1, 2, 2)
    assert F.max_pool2d(x, pair).shape == (1, 2, 4)
    assert F.max_pool2d(x, Number(1)).shape == (1, 8, 8)


def test_ndpool_does_not_import_torch():
    code = "import ndpool, sys; assert 'torch' not in sys.modules; import ndpool.torch; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
