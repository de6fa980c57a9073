"""Derivatives of every order in every mix of the two modes, in eager and in compiled code, against PyTorch's own."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.autograd import forward_ad, functional
from torch.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing import assert_close
from torch_cases import FEW_POOLS, KINDS, distinct, since_2_13

import ndpool.torch.functional as F
from ndpool import Lp, Max, Pool, Window

# --- every order ----------------------------------------------------------------------------------


def windows(x):
    """The windows of three cells, one after the other."""
    return torch.stack([x[i : i + 3] for i in range(len(x) - 2)])


#: What ndpool computes over windows of three cells, and the same of PyTorch's own functions.
TWICE = {
    "smooth max": (lambda x: F.smooth_max_pool(x, 1.5, (3,), 1), lambda c: torch.logsumexp(1.5 * c, -1) / 1.5),
    "smooth min": (lambda x: F.smooth_max_pool(x, -0.5, (3,), 1), lambda c: torch.logsumexp(-0.5 * c, -1) / -0.5),
    "lp 2": (lambda x: F.lp_pool(x, 2, (3,), 1), lambda c: c.pow(2).sum(-1).sqrt()),
    "lp 2.5": (lambda x: F.lp_pool(x, 2.5, (3,), 1), lambda c: c.abs().pow(2.5).sum(-1).pow(0.4)),
    "lp 3": (lambda x: F.lp_pool(x, 3, (3,), 1), lambda c: c.abs().pow(3).sum(-1).pow(1 / 3)),
    "lp_pool1d": (lambda x: F.lp_pool1d(x[None], 4, 3, 1)[0], lambda c: c.pow(4).sum(-1).pow(1 / 4)),
    "lp 1": (lambda x: F.lp_pool(x, 1, (3,), 1), lambda c: c.abs().sum(-1)),
    "max": (lambda x: F.max_pool(x, (3,), 1), lambda c: c.amax(-1)),
    "max, split": (lambda x: F.max_pool(x, (3,), 1, ties="split"), lambda c: c.amax(-1)),
    "min, all": (lambda x: F.min_pool(x, (3,), 1, ties="all"), lambda c: c.amin(-1)),
    "avg": (lambda x: F.avg_pool(x, (3,), 1), lambda c: c.mean(-1)),
    "sum": (lambda x: F.sum_pool(x, (3,), 1), lambda c: c.sum(-1)),
}


def along(mode, f, v):
    """The derivative of a function of x, a number, along v: in forward or in reverse mode."""
    if mode == "forward":
        return lambda x: jvp(f, (x,), (v,))[1]
    return lambda x: (grad(f)(x) * v).sum()


@pytest.mark.parametrize("name", TWICE)
def test_every_order_in_every_mix(name):
    """Along directions of their own, in 2, 4, 8 and for some 16 mixes of the modes."""
    mine, theirs = TWICE[name]
    x, directions = distinct(5), [torch.randn(5, dtype=torch.float64) for _ in range(4)]
    weights = torch.arange(1, 4)
    for order in range(1, 5 if name in ("smooth max", "lp 2", "lp 3") else 4):
        want = lambda x: (theirs(windows(x)).pow(2) * weights).sum()  # noqa: E731
        for v in directions[:order]:
            want = along("reverse", want, v)
        expected = want(x)
        for modes in itertools.product(("forward", "reverse"), repeat=order):
            got = lambda x: (mine(x).pow(2) * weights).sum()  # noqa: E731
            for mode, v in zip(modes, directions, strict=False):
                got = along(mode, got, v)
            assert_close(got(x), expected, msg=lambda text, modes=modes: f"{modes}: {text}")


@pytest.mark.parametrize("name", ["smooth max", "lp 2", "lp 3", "lp_pool1d", "max", "avg"])
def test_third_derivatives_in_full(name):
    """With vmap between the levels, which the Jacobians put there."""
    mine, theirs = TWICE[name]
    x = distinct(4)
    want = jacrev(jacrev(jacrev(lambda x: theirs(windows(x)).pow(2).sum())))(x)
    for transforms in itertools.product((jacfwd, jacrev), repeat=3):
        got = lambda x: mine(x).pow(2).sum()  # noqa: E731
        for transform in transforms:
            got = transform(got)
        assert_close(got(x), want)
    assert_close(jacfwd(hessian(lambda x: mine(x).pow(2).sum()))(x), want)
    batch = torch.stack([x, -x], -1)
    both = vmap(jacfwd(hessian(lambda x: mine(x).pow(2).sum())), -1, -1)(batch)
    assert_close(both[..., 0], want)


@pytest.mark.parametrize("pool", FEW_POOLS, ids=str)
def test_forward_mode_with_backward_in_it(pool):
    """`forward_ad` by itself: the tangent of a gradient is the Hessian times the tangent, in two dimensions."""
    x, t = distinct(2, 3, 5), torch.randn(2, 3, 5, dtype=torch.float64)

    def loss(x):
        return F.pool(x, pool).pow(3).sum()

    want = (jacrev(jacrev(loss))(x).reshape(30, 30) @ t.flatten()).reshape(x.shape)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.requires_grad_(), t)
        (slope,) = torch.autograd.grad(loss(dual), dual, create_graph=True)
        assert_close(forward_ad.unpack_dual(slope).tangent, want)
        tangent = forward_ad.unpack_dual(loss(dual)).tangent
        assert_close(torch.autograd.grad(tangent, x)[0], want)


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning")  # of torch.func.linearize
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_products_with_the_hessian(kind):
    x, v = distinct(6), torch.randn(6, dtype=torch.float64)

    def loss(x):
        return F.pool(x, Pool(kind, Window((3,), 1))).pow(3).sum()

    want = jacrev(jacrev(loss))(x) @ v
    assert_close(functional.hvp(loss, x, v)[1], want)
    assert_close(functional.vhp(loss, x, v)[1], want)
    assert_close(jvp(grad(loss), (x,), (v,))[1], want)
    assert_close(vjp(grad(loss), x)[1](v)[0], want)
    assert_close(linearize(grad(loss), x)[1](v), want)
    whole = jacrev(loss)(x)
    for vectorize in (False, True):
        assert_close(functional.jacobian(loss, x, vectorize=vectorize), whole)
        assert_close(functional.hessian(loss, x, vectorize=vectorize) @ v, want)
    assert_close(functional.jacobian(loss, x, strategy="forward-mode", vectorize=True), whole)
    assert_close(functional.hessian(loss, x, outer_jacobian_strategy="forward-mode", vectorize=True) @ v, want)


def test_modes_that_are_off():
    """`no_grad` stops the levels around it in reverse mode and none in forward mode, as it does for PyTorch's own."""
    x, t = distinct(4), torch.randn(4, dtype=torch.float64)

    def quiet(pooled):
        def inside(x):
            with torch.no_grad():
                y = pooled(x)
            return y.sum()

        return inside

    mine, theirs = quiet(lambda x: F.smooth_max_pool(x, 1.0, (4,))), quiet(lambda x: torch.logsumexp(x, 0))
    for transform in (
        grad,
        lambda f: lambda x: jvp(f, (x,), (t,))[1],
        lambda f: grad(lambda x: jvp(f, (x,), (t,))[1]),
        lambda f: grad(lambda x: jvp(f, (x,), (t,))[0]),
        lambda f: lambda x: jvp(grad(f), (x,), (t,))[1],
        lambda f: lambda x: jvp(lambda x: jvp(f, (x,), (t,))[1], (x,), (t,))[1],
    ):
        assert_close(transform(mine)(x), transform(theirs)(x))
    with forward_ad.dual_level(), forward_ad._set_fwd_grad_enabled(False):
        assert forward_ad.unpack_dual(F.max_pool(forward_ad.make_dual(x, t), (2,))).tangent is None


# --- compiled, traced, exported -------------------------------------------------------------------


def tangent(f):
    """The tangent by `forward_ad`."""

    def of(x, t):
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(f(forward_ad.make_dual(x, t))).tangent

    return of


def cubed(f):
    return lambda x: f(x).pow(3).sum()


INSIDE = {
    "jvp": lambda f: lambda x, t: jvp(f, (x,), (t,)),
    "jacfwd": lambda f: lambda x, t: jacfwd(f)(x),
    "dual": tangent,
    "hessian": lambda f: lambda x, t: hessian(cubed(f))(x),
    "gradient": lambda f: lambda x, t: grad(cubed(f))(x),
    "jvp of gradient": lambda f: lambda x, t: jvp(grad(cubed(f)), (x,), (t,)),
    "gradient of jvp": lambda f: lambda x, t: grad(lambda x: jvp(f, (x,), (t,))[1].pow(2).sum())(x),
    "three": lambda f: lambda x, t: jvp(lambda x: jvp(lambda x: jvp(f, (x,), (t,))[1], (x,), (t,))[1], (x,), (t,)),
}
SMOOTH, HARD = (Pool(kind, Window(3, 2, 1), (-2, -1)) for kind in (Lp(2.5), Max()))


@pytest.mark.parametrize("pool", FEW_POOLS, ids=str)
def test_forward_mode_in_compiled_code(pool):
    """In one graph, for every kind: a tangent is never lost."""
    x, t = distinct(2, 3, 5), torch.randn(2, 3, 5, dtype=torch.float64)
    function = INSIDE["jvp"](lambda x: F.pool(x, pool))
    assert_close(torch.compile(function, backend="aot_eager", fullgraph=True)(x, t), function(x, t))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=since_2_13) if name in ("jacfwd", "hessian") else name for name in INSIDE]
)
def test_transforms_in_compiled_code(name):
    x, t = distinct(1, 3, 4), torch.randn(1, 3, 4, dtype=torch.float64)
    for pool, backend in ((SMOOTH, "aot_eager"), (HARD, "eager")):
        function = INSIDE[name](lambda x, pool=pool: F.pool(x, pool))
        compiled = torch.compile(function, backend=backend, fullgraph=True)
        assert_close(compiled(x, t), function(x, t))


@pytest.mark.parametrize("name", INSIDE)
def test_transforms_in_traced_code(name):
    x, t = distinct(1, 3, 4), torch.randn(1, 3, 4, dtype=torch.float64)
    for pool, mode in ((SMOOTH, "real"), (HARD, "symbolic")):
        function = INSIDE[name](lambda x, pool=pool: F.pool(x, pool))
        assert_close(make_fx(function, tracing_mode=mode)(-x, -t)(x, t), function(x, t))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_transforms_around_compiled_code(backend):
    """PyTorch gives up on compiling there; what it calls then it must not try to compile either."""
    x, t = distinct(2, 4, 4), torch.randn(2, 4, 4, dtype=torch.float64)
    for pool in (SMOOTH, HARD):
        eager = lambda x, pool=pool: F.pool(x, pool)  # noqa: E731
        compiled = torch.compile(eager, backend=backend)
        want = jvp(eager, (x,), (t,))
        assert_close(jvp(compiled, (x,), (t,)), want)
        assert_close(jacrev(compiled)(x), jacrev(eager)(x))
        assert_close(vmap(compiled)(x), vmap(eager)(x))
        compiled(x)
        assert_close(jvp(compiled, (x,), (t,)), want)
        with forward_ad.dual_level():
            assert_close(forward_ad.unpack_dual(compiled(forward_ad.make_dual(x, t))).tangent, want[1])


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_pytorch_refuses_duals_that_also_require_gradients():
    """What is compiled ahead of time for backward has no forward mode, whatever it computes: PyTorch's own error."""
    x = distinct(1, 4, 4).requires_grad_()
    for function in (torch.sin, lambda x: F.max_pool2d(x, 2)):
        with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="jvp function"):
            torch.compile(function, backend="aot_eager")(forward_ad.make_dual(x, torch.ones_like(x)))


class Tangent(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, t):
        return self.function(x, t)


@since_2_13  # which takes forward mode out of the program
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", ["jvp", "dual"])
def test_forward_mode_exported(name, strict):
    x, t = distinct(1, 4, 4), torch.randn(1, 4, 4, dtype=torch.float64)
    for pool in (SMOOTH, HARD):
        function = INSIDE[name](lambda x, pool=pool: F.pool(x, pool))
        program = torch.export.export(Tangent(function), (-x, -t), strict=strict)
        assert_close(program.module()(x, t), function(x, t))


def test_indices_beside_a_tangent_in_compiled_code():
    x, t = distinct(1, 4, 4), torch.randn(1, 4, 4, dtype=torch.float64)

    def both(x, t):
        y, slope, indices = jvp(lambda x: F.max_pool2d(x, 2, return_indices=True), (x,), (t,), has_aux=True)
        return y, slope, indices

    for run in (both, torch.compile(both, backend="aot_eager", fullgraph=True)):
        y, slope, indices = run(x, t)
        want, want_indices = F.max_pool2d(x, 2, return_indices=True)
        assert_close((y, indices), (want, want_indices))
        assert_close(slope, t.flatten(1).gather(1, indices.flatten(1)).reshape(y.shape))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_backward_inside_compiled_code():
    """The forward pass in a graph, a break, and the backward pass through both of its parts."""

    def slope(x):
        x = x.detach().clone().requires_grad_()
        y = F.lp_pool2d(x, 2, 2)
        torch._dynamo.graph_break()
        (F.max_pool2d(x, 2) * y).sum().backward()
        return x.grad

    x = distinct(2, 4, 4)
    assert_close(torch.compile(slope, backend="aot_eager")(x), slope(x))


class Trained(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(2.0, dtype=torch.float64))

    def forward(self, x):
        return F.max_pool2d(self.weight * x, 2)


@pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec:FutureWarning")  # of run_decompositions
@pytest.mark.parametrize("strict", [False, True])
def test_what_is_trained_is_exported_without_winners(strict):
    """They are for backward, which an exported program does not have."""
    x = distinct(1, 4, 4)
    program = torch.export.export(Trained(), (x,), strict=strict)
    for graph in (program.graph, program.run_decompositions().graph):
        assert [str(node.target) for node in graph.nodes if "ndpool" in str(node.target)] == ["ndpool.forward.default"]
    assert_close(program.module()(x), Trained()(x))


@pytest.mark.filterwarnings("ignore:`torch.jit.*` is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_what_is_trained_is_traced():
    """By the old tracer, which checks itself by a second run; and the gradient goes through the trace."""
    x = distinct(1, 4, 4)
    traced, model = torch.jit.trace(Trained(), x), Trained()
    y, want = traced(-x), model(-x)
    assert_close(y, want)
    g = torch.randn_like(want)
    assert_close(*(torch.autograd.grad(a, m.parameters(), g) for a, m in ((y, traced), (want, model))))
