"""A beta that is a tensor: derivatives in both modes and to second order, as exact as with a float, and trained."""

from __future__ import annotations

import copy
import io
import math
import pickle

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, grad, jacfwd, jacrev, jvp, vmap
from torch.testing import assert_close
from torch_cases import distinct

import ndpool.torch.functional as F
from ndpool.torch import nn

#: Calls with x of shape (2, 3, 4, 5), and the shape of one beta a channel.
FORMS = {
    "window": lambda x, beta: F.smooth_max_pool2d(x, beta, 2),
    "padded": lambda x, beta: F.smooth_max_pool2d(x, beta, 3, 2, 1),
    "padded, ignored": lambda x, beta: F.smooth_max_pool2d(x, beta, 3, 2, 1, count_include_pad=False),
    "same, dilated": lambda x, beta: F.smooth_max_pool(x, beta, (2, 2), 1, "same", dilation=2),
    "one axis": lambda x, beta: F.smooth_max_pool1d(x, beta, 2, 1),
    "first and last axis": lambda x, beta: F.smooth_max_pool(x, beta, 2, axes=(0, 3)),
    "adaptive": lambda x, beta: F.adaptive_smooth_max_pool2d(x, beta, (2, None)),
    "adaptive, overlapping": lambda x, beta: F.adaptive_smooth_max_pool(x, beta, (3, 2)),
    "global": lambda x, beta: F.global_smooth_max_pool(x, beta),
    "global, flat": lambda x, beta: F.global_smooth_max_pool(x, beta, keepdims=False),
    "global, other axes, flat": lambda x, beta: F.global_smooth_max_pool(x, beta, axes=(0, 2), keepdims=False),
}
BETAS = {
    "one": torch.tensor(1.5, dtype=torch.float64),
    "one of one": torch.tensor([-0.7], dtype=torch.float64),
    "one a channel": torch.tensor([1.5, -0.7, 3.0], dtype=torch.float64),
    "as many axes": torch.tensor([0.5, -2.0, 1.0], dtype=torch.float64).reshape(1, 3, 1, 1),
}


def channel_axis_of(form):
    """Where the channels are in the result: pooled axes that are gone may have stood before them."""
    return 0 if form == "global, other axes, flat" else 1


@pytest.mark.parametrize("name", BETAS)
@pytest.mark.parametrize("form", FORMS)
def test_values(form, name):
    x, beta = distinct(2, 3, 4, 5), BETAS[name]
    # The same with floats: each channel by itself.
    parts = [FORMS[form](x[:, c : c + 1], b.item()) for c, b in enumerate(beta.flatten().expand(3))]
    assert_close(FORMS[form](x, beta), torch.cat(parts, channel_axis_of(form)), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", BETAS)
@pytest.mark.parametrize("form", FORMS)
def test_derivatives(form, name):
    x, beta = distinct(2, 3, 4, 5).requires_grad_(), BETAS[name].clone().requires_grad_()
    gradcheck(FORMS[form], (x, beta), check_forward_ad=True, fast_mode=True)
    gradgradcheck(FORMS[form], (x, beta), check_fwd_over_rev=True, check_rev_over_rev=True, fast_mode=True)


def test_every_entry_of_the_derivatives():
    x, beta = distinct(1, 2, 3, 3).requires_grad_(), torch.tensor([1.5, -0.7], dtype=torch.float64, requires_grad=True)
    form = FORMS["padded"]
    gradcheck(form, (x, beta), check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
    gradgradcheck(form, (x, beta), check_fwd_over_rev=True, check_rev_over_rev=True, check_batched_grad=True)


def test_against_pytorchs_log_sum_exp():
    """Jacobians and a Hessian in (x, beta) of one window, by PyTorch's own derivatives."""
    x, beta = distinct(7), torch.tensor(0.8, dtype=torch.float64)

    def mine(x, beta):
        return F.global_smooth_max_pool(x, beta, axes=0, keepdims=False)

    def theirs(x, beta):
        return torch.logsumexp(beta * x, 0) / beta

    for transform in (jacrev, jacfwd, lambda f, n: jacrev(jacfwd(f, n), n), lambda f, n: jacfwd(jacrev(f, n), n)):
        assert_close(transform(mine, (0, 1))(x, beta), transform(theirs, (0, 1))(x, beta))
    tangents = torch.randn_like(x), torch.randn_like(beta)
    assert_close(jvp(mine, (x, beta), tangents), jvp(theirs, (x, beta), tangents))


def test_vmap_over_beta():
    x, betas = distinct(2, 3, 4, 4), torch.tensor([0.5, -1.0, 2.0, 7.0], dtype=torch.float64)
    y = vmap(F.smooth_max_pool2d, (None, 0, None))(x, betas, 2)
    assert_close(y, torch.stack([F.smooth_max_pool2d(x, b.item(), 2) for b in betas]))
    slopes = vmap(grad(lambda b: F.smooth_max_pool2d(x, b, 2).sum()))(betas)
    assert_close(slopes, torch.stack([grad(lambda b: F.smooth_max_pool2d(x, b, 2).sum())(b) for b in betas]))


# --- exactness ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("beta", [0.3, 40.0, -2.5])
def test_rounded_once(dtype, beta):
    """What a float beta gives in float64, rounded to the dtype of x, whatever the dtype of beta."""
    x = (torch.randn(2, 3, 9, 9) * 4).to(dtype)
    want = F.smooth_max_pool2d(x.double(), beta, 3, 2, 1).to(dtype)
    given = torch.tensor(beta, dtype=torch.float64)
    y = F.smooth_max_pool2d(x, given, 3, 2, 1)
    assert y.dtype == dtype
    assert torch.equal(y, want)
    narrow = given.to(dtype)
    assert torch.equal(
        F.smooth_max_pool2d(x, narrow, 3, 2, 1), F.smooth_max_pool2d(x.double(), narrow.item(), 3, 2, 1).to(dtype)
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_gradient_of_beta_does_not_cancel(dtype):
    """`sum w_i x_i - y` is a small difference of large numbers, here by a factor of 10,000 and more."""
    x = (1000 + torch.arange(2 * 3 * 8 * 8).reshape(2, 3, 8, 8) % 7).to(dtype).requires_grad_()
    beta = torch.tensor([20.0, 3.0, -5.0], requires_grad=True)
    g = torch.randn(2, 3, 4, 4).to(dtype)
    got = torch.autograd.grad(F.smooth_max_pool2d(x, beta, 2), (x, beta), g)
    wide = x.detach().double().requires_grad_(), beta.detach().double().requires_grad_()
    want = torch.autograd.grad(F.smooth_max_pool2d(wide[0], wide[1], 2), wide, g.double())
    assert [a.dtype for a in got] == [dtype, torch.float32]
    assert torch.equal(got[0], want[0].to(dtype))
    assert_close(got[1].double(), want[1], rtol=1e-6, atol=0)


def test_nothing_overflows():
    x = torch.tensor([3e38, 2.9e38, -3e38, -3.2e38])
    beta = torch.tensor(100.0, requires_grad=True)
    y = F.smooth_max_pool(x, beta, (2,))
    assert_close(y, F.smooth_max_pool(x, 100.0, (2,)), rtol=0, atol=0)
    assert torch.autograd.grad(y[0], beta)[0] == 0
    assert F.smooth_max_pool(torch.tensor([60000.0, 1.0]).half(), torch.tensor(1e4), (2,)).item() == 60000


def test_infinite_cells_weigh_nothing_or_all():
    """A masked cell is as if it were not there; where a window is infinite, beta has no gradient from it."""
    for beta, hidden in ((1.5, -math.inf), (-1.5, math.inf)):
        beta = torch.tensor(beta, dtype=torch.float64, requires_grad=True)
        x = torch.tensor([1.0, 2.0, hidden, 4.0, hidden], dtype=torch.float64, requires_grad=True)
        seen = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64, requires_grad=True)
        y, want = (F.global_smooth_max_pool(a, beta, axes=0) for a in (x, seen))
        assert_close(y, want)
        gx, slope = torch.autograd.grad(y, (x, beta))
        want_gx, want_slope = torch.autograd.grad(want, (seen, beta))
        assert_close(gx, torch.stack([want_gx[0], want_gx[1], gx.new_zeros(()), want_gx[2], gx.new_zeros(())]))
        assert_close(slope, want_slope)
        x = torch.tensor([1.0, -hidden, 3.0, 2.0], dtype=torch.float64, requires_grad=True)
        y = F.smooth_max_pool(x, beta, (2,))
        assert y[0] == -hidden
        gx, slope = torch.autograd.grad(y.sum(), (x, beta))
        assert_close(gx, torch.autograd.grad(F.smooth_max_pool(x, beta.item(), (2,)).sum(), x)[0])
        assert_close(slope, torch.autograd.grad(F.smooth_max_pool(x, beta, (2,))[1], beta)[0])


def test_a_nan_comes_out():
    x = torch.tensor([1.0, math.nan, 3.0, 2.0])
    beta = torch.tensor(2.0, requires_grad=True)
    y = F.smooth_max_pool(x, beta, (2,))
    assert y.isnan().tolist() == [True, False]
    assert torch.autograd.grad(y.sum(), beta)[0].isnan()


def test_integers_beside_a_float():
    x = torch.tensor([[1, 2, 7, 3]])
    y = F.smooth_max_pool(x, torch.tensor(2), (2,))
    assert y.dtype == torch.float64
    assert_close(y, F.smooth_max_pool(x, 2, (2,)))


def test_channels_last_stays():
    x = distinct(2, 3, 8, 8).to(memory_format=torch.channels_last)
    for beta in (torch.tensor(2.0), torch.tensor([1.0, 2.0, -3.0])):
        y = F.smooth_max_pool2d(x, beta, 2)
        assert y.is_contiguous(memory_format=torch.channels_last)
        assert_close(y, F.smooth_max_pool2d(x.contiguous(), beta, 2))


def test_any_strides_and_an_empty_batch():
    base, beta = distinct(4, 6, 6, 3), torch.tensor([1.5, -2.0, 0.5], dtype=torch.float64)
    for x in (
        base.permute(0, 3, 1, 2),
        base.permute(0, 3, 2, 1)[..., ::2],
        base[:1].expand(5, -1, -1, -1).movedim(3, 1),
    ):
        a, b = x.detach().requires_grad_(), x.contiguous().detach().requires_grad_()
        y, want = F.smooth_max_pool2d(a, beta, 2), F.smooth_max_pool2d(b, beta, 2)
        assert_close(y, want)
        g = torch.randn_like(want)
        assert_close(torch.autograd.grad(y, a, g)[0], torch.autograd.grad(want, b, g)[0])
    empty = torch.empty(0, 3, 4, 4, requires_grad=True)
    y = F.smooth_max_pool2d(empty, beta.requires_grad_(), 2)
    gx, slope = torch.autograd.grad(y.sum(), (empty, beta))
    assert (y.shape, gx.shape, slope.tolist()) == ((0, 3, 2, 2), (0, 3, 4, 4), [0, 0, 0])


def test_what_is_kept_for_backward():
    """X and beta: no float64 of the size of x."""
    kept = []
    x, beta = torch.randn(2, 3, 8, 8, requires_grad=True), torch.tensor(2.0, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda a: (kept.append(a), a)[1], lambda a: a):
        F.smooth_max_pool2d(x, beta, 2)
    assert sum(a.nbytes for a in kept) < x.nbytes + 100


# --- shapes and errors ----------------------------------------------------------------------------


def test_without_a_batch_channels_come_first():
    x, beta = distinct(3, 4, 4), BETAS["one a channel"]
    assert_close(F.smooth_max_pool2d(x, beta, 2), F.smooth_max_pool2d(x[None], beta, 2)[0])
    square = distinct(3, 3, 4, 4)
    assert_close(F.smooth_max_pool2d(square, beta, 2)[:, 2], F.smooth_max_pool2d(square, 3.0, 2)[:, 2])
    rows = distinct(3, 5)
    assert_close(F.smooth_max_pool1d(rows, beta, 2)[1], F.smooth_max_pool1d(rows[1], -0.7, 2))


def test_channels_last_by_shape():
    """Axes in another place: beta has as many axes as x, and one cell along those that are pooled."""
    x, beta = distinct(2, 3, 4, 4), BETAS["one a channel"]
    y = F.smooth_max_pool(x.movedim(1, -1), beta.reshape(1, 1, 1, 3), 2, axes=(1, 2))
    assert_close(y.movedim(-1, 1), F.smooth_max_pool2d(x, beta, 2))
    each = torch.tensor([0.5, 2.0], dtype=torch.float64)
    y = F.global_smooth_max_pool(x, each.reshape(2, 1, 1, 1), keepdims=False)
    apart = [F.global_smooth_max_pool(a, b, keepdims=False) for a, b in zip(x, each.tolist(), strict=True)]
    assert_close(y, torch.stack(apart))


X = torch.arange(48.0).reshape(1, 3, 4, 4)
BAD_SHAPES = [
    (X, torch.ones(4), {"axes": (2, 3)}),  # as many as there are rows, not channels
    (X, torch.ones(2), {"axes": (2, 3)}),
    (X, torch.ones(3), {"axes": (1, 2)}),  # the channels are pooled
    (X, torch.ones(3, 1, 1), {"axes": (2, 3)}),
    (X, torch.ones(1, 3, 4, 1), {"axes": (2, 3)}),  # not one along a pooled axis
    (X, torch.ones(2, 3, 1, 1), {"axes": (2, 3)}),  # two for a batch of one
    (X[0, 0], torch.ones(4), {"axes": (0, 1)}),
    (X, torch.ones(0), {"axes": (2, 3)}),
]


@pytest.mark.parametrize(("x", "beta", "axes"), BAD_SHAPES)
def test_shapes_that_do_not_fit(x, beta, axes):
    with pytest.raises(
        ValueError, match=r"beta has shape \(.*\) beside an input of shape \(.*give one number, one a ch"
    ):
        F.smooth_max_pool(x, beta, 2, **axes)


@pytest.mark.cpu_only("a beta on a GPU is not read, as that would wait for the device")
@pytest.mark.parametrize("number", [0.0, -0.0, math.nan, math.inf, -math.inf])
def test_numbers_that_are_no_beta(number):
    for beta in (torch.tensor(number), torch.tensor([1.0, number, 2.0])):
        for call in (
            lambda b: F.smooth_max_pool2d(X, b, 2),
            lambda b: F.adaptive_smooth_max_pool2d(X, b, 2),
            lambda b: F.global_smooth_max_pool(X, b),
            lambda b: grad(lambda b: F.global_smooth_max_pool(X, b).sum())(b),
            lambda b: nn.SmoothMaxPool2d(torch.nn.Parameter(b), 2),
        ):
            with pytest.raises(ValueError, match=r"beta has .* in it and must be finite and not 0; .* use Max"):
                call(beta)
    with pytest.raises(ValueError, match="in it and must be finite and not 0"):
        vmap(lambda b: F.global_smooth_max_pool(X, b))(torch.tensor([1.0, number]))


def test_other_errors():
    with pytest.raises(TypeError, match=r"beta has dtype torch.complex64; give real numbers"):
        F.smooth_max_pool2d(X, torch.tensor(1j), 2)
    with pytest.raises(TypeError, match=r"beta has dtype torch.bool; give real numbers"):
        F.smooth_max_pool2d(X, torch.tensor(True), 2)
    with pytest.raises(TypeError, match=r"x has dtype torch.complex64, which ndpool does not pool"):
        F.smooth_max_pool2d(X.to(torch.complex64), torch.tensor(1.0), 2)
    with pytest.raises(TypeError, match="sparse_coo, which ndpool does not pool"):
        F.smooth_max_pool2d(X.to_sparse(), torch.tensor(1.0), 2)


# --- compiled, and in a model ---------------------------------------------------------------------


def test_compiled_and_exported():
    """The same numbers and gradients; there are no numbers to be looked at, so that 0 is not refused there."""
    x, beta = distinct(2, 3, 4, 4), BETAS["one a channel"].clone().requires_grad_()
    compiled = torch.compile(F.smooth_max_pool2d, fullgraph=True, backend="aot_eager")
    got, want = compiled(x, beta, 2), F.smooth_max_pool2d(x, beta, 2)
    g = torch.randn_like(want)
    assert_close(got, want)
    assert_close(torch.autograd.grad(got, beta, g), torch.autograd.grad(want, beta, g))
    assert compiled(x, torch.tensor(0.0, dtype=torch.float64), 2).isinf().all()
    module = nn.SmoothMaxPool2d(torch.nn.Parameter(beta.detach()), 2)
    program = torch.export.export(module, (x,))
    assert_close(program.module()(x), module(x))
    assert F.smooth_max_pool2d(x.to("meta"), beta.detach().to("meta"), 2).shape == want.shape


class Net(torch.nn.Module):
    def __init__(self, beta):
        super().__init__()
        self.pool = nn.SmoothMaxPool2d(torch.nn.Parameter(beta), 2)

    def forward(self, x):
        return self.pool(x)


def test_a_module_learns_it():
    """From 1 to the beta that made the targets, by gradients alone."""
    x = torch.randn(8, 3, 8, 8, dtype=torch.float64)
    wanted = torch.tensor([0.5, 2.0, -1.0], dtype=torch.float64)
    net = Net(torch.tensor([1.0, 1.0, -0.5], dtype=torch.float64))
    targets = F.smooth_max_pool2d(x, wanted, 2)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=60, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (net(x) - targets).pow(2).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert_close(net.pool.beta.detach(), wanted, rtol=1e-5, atol=1e-5)


def test_a_module_keeps_it():
    net = Net(torch.tensor([1.0, 2.0, 3.0]))
    assert [name for name, _ in net.named_parameters()] == ["pool.beta"]
    assert repr(net.pool) == "ndpool.SmoothMaxPool2d(beta=Parameter(shape=(3,)), kernel_size=2)"
    x = torch.randn(2, 3, 4, 4)
    saved = io.BytesIO()
    torch.save(net.state_dict(), saved)
    saved.seek(0)
    other = Net(torch.ones(3))
    other.load_state_dict(torch.load(saved))
    for twin in (other, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.equal(twin(x), net(x))
        twin.pool.beta.data.mul_(2)
        assert not torch.equal(twin(x), net(x))
    assert net.double().pool.beta.dtype == torch.float64
    y = functional_call(net, {"pool.beta": torch.tensor([2.0, 2.0, 2.0])}, (x,))
    assert torch.equal(y, F.smooth_max_pool2d(x, torch.tensor(2.0), 2))


def test_a_tensor_that_is_no_parameter_is_a_buffer():
    module = nn.GlobalSmoothMaxPool(torch.tensor(2.0))
    assert list(module.state_dict()) == ["beta"]
    assert not list(module.parameters())
    assert repr(module) == "ndpool.GlobalSmoothMaxPool(beta=Tensor(shape=()))"
    assert module.to(torch.float64).beta.dtype == torch.float64
