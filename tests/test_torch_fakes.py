"""What PyTorch is told of a pool before it runs: the schema, and every fake output beside the real one."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

import ndpool.torch  # noqa: F401  registers the operators
from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window
from ndpool.torch.engine import TensorPool
from ndpool.torch.schema import decode, encode
from ndpool.torch.sizes import number_of_outputs, padding_of
from strategies import ALL_KINDS, cases, windows_over

OPS = torch.ops.ndpool
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
INTEGERS = [torch.bool, torch.uint8, torch.int8, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64]


# --- schema ---------------------------------------------------------------------------------------


def counted_from_the_end(case):
    ndim = len(case.shape)
    return Pool(case.pool.kind, case.pool.window, tuple(a - ndim if a >= 0 else a for a in case.pool.axes))


@settings(max_examples=150, deadline=None)
@given(cases(ALL_KINDS))
def test_a_pool_survives_the_schema(case):
    """Its kind, its axes, and the same geometry over every length, also those at which floor and ceil agree here."""
    pool = counted_from_the_end(case)
    back = decode(*encode(pool)).pool
    assert (back.kind, back.axes, type(back.window)) == (pool.kind, pool.axes, type(pool.window))
    if isinstance(pool.window, Window):
        assert back.window.ceil_mode == pool.window.ceil_mode
        assert isinstance(back.window.padding, str) == isinstance(pool.window.padding, str)
    for more in range(5):
        shape = tuple(n + more for n in case.shape)
        assert outcome(back, shape) == outcome(pool, shape)


def outcome(pool, shape):
    try:
        return pool._layout(shape)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("padding", ["valid", "same", "same_lower"])
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_a_word_for_the_padding_keeps_the_rounding(padding, ceil_mode):
    pool = Pool(Max(), Window((3, 2), 2, padding, ceil_mode=ceil_mode), (-2, -1))
    assert encode(pool)[4] == f"{'ceil' if ceil_mode else 'floor'} {padding}"
    assert decode(*encode(pool)).pool.window == Window((3, 2), (2, 2), padding, (1, 1), ceil_mode)


def test_an_output_that_keeps_its_length_survives_the_schema():
    pool = Pool(Avg(), Adaptive((2, None)), (-2, -1))
    assert decode(*encode(pool)).pool == pool


# --- sizes of symbols -----------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(windows_over(1, (7, 9, 8, 4, 9)), st.integers(1, 60))
def test_the_formula_for_symbols_is_the_layout(window, length):
    """Where the layout has a result, the formula that asks no questions has the same."""
    try:
        (axis,) = window.axes_of([length])
    except ValueError:
        return
    assert number_of_outputs(window, 0, 1, length, max, min) == axis.output
    if isinstance(window, Window):
        assert padding_of(window, 0, 1, length, max) == (axis.pad_lo, axis.pad_hi)


# --- fakes ----------------------------------------------------------------------------------------


def steps(a):
    """The strides that say something: not of axes of length 1, nor of a tensor without elements."""
    return [step for n, step in zip(a.shape, a.stride(), strict=True) if n > 1 and a.numel()]


def laid_like(a):
    """The tensor on the meta device; `a.to("meta")` would lay one with gaps out anew."""
    return torch.empty_strided(a.shape, a.stride(), dtype=a.dtype, device="meta")


def check_fakes(name, *inputs):
    """Shape, strides and dtype of every output, pretended and real, in a fake mode and on meta tensors."""
    operator = getattr(OPS, name)
    real = operator(*inputs)
    with FakeTensorMode() as mode:
        fake = operator(*(mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in inputs))
    meta = operator(*(laid_like(a) if isinstance(a, torch.Tensor) else a for a in inputs))
    several = isinstance(real, tuple)
    for told in (fake, meta):
        for a, b in zip(told if several else (told,), real if several else (real,), strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype), name
            assert steps(a) == steps(b), (name, a.shape, a.stride(), b.stride())
    return real


def check_all_fakes(pool, x, t):
    """Every operator, called as the derivatives call it."""
    found, values = TensorPool(pool), encode(pool)
    y, winners = check_fakes("forward", x, *values), None
    if found.wins:
        winners = check_fakes("forward_with_winners", x, *values)[1]
        check_fakes("indices", winners, x.shape, *values)
        check_fakes("forward_with_indices", x, *values)
    if not x.is_floating_point():
        return
    known = None if found.linear else x
    check_fakes("jvp", t, known, None, *values)
    order = None if (order := found.order_of(x)) is None else list(order)
    g = torch.randn(y.shape).to(y.dtype)
    known_y = y if isinstance(pool.kind, Max | Min) and not found.wins else None
    check_fakes("vjp", g, x.shape, order, None if found.wins else known, known_y, winners, *values)
    if found.wins:
        check_fakes("jvp", t, None, winners, *values)


@st.composite
def laid_out(draw, shape, dtype):
    """A tensor whose axes lie in memory in any order, dense or with gaps."""
    order = draw(st.permutations(range(len(shape))))
    x = torch.randint(0, 2 if dtype is torch.bool else 100, [shape[d] for d in order]).to(dtype)
    x = x.permute([order.index(d) for d in range(len(shape))])
    return torch.stack([x, x], -1)[..., 0] if draw(st.booleans()) else x


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_fake_outputs_are_like_the_real_ones(data):
    """Any pool, any axes, gone or kept; inputs, tangents and results in any order in memory; any dtype."""
    case = data.draw(cases(ALL_KINDS))
    smooth = isinstance(case.pool.kind, SmoothMax | Lp)  # which are computed in floats
    dtype = data.draw(st.sampled_from(FLOATS if smooth else FLOATS + INTEGERS))
    pool = counted_from_the_end(case)
    x, t = data.draw(laid_out(case.shape, dtype)), data.draw(laid_out(case.shape, dtype))
    check_all_fakes(pool, x, t)


@pytest.mark.parametrize("cells", [256, 257, 65_536, 65_537])
@pytest.mark.parametrize("window", ["window", "adaptive", "global"])
def test_winners_of_every_width(window, cells):
    """One byte up to 256 cells, two up to 65536, and then four."""
    over = {"window": Window((cells,)), "adaptive": Adaptive((2,)), "global": Global()}[window]
    x = torch.randn(2 * cells if window == "adaptive" else cells)
    pool = Pool(Max(), over, (-1,))
    _, winners = check_fakes("forward_with_winners", x, *encode(pool))
    assert winners.dtype == {1: torch.uint8, 2: torch.uint16, 4: torch.uint32}[1 + (cells > 256) + 2 * (cells > 65_536)]


def test_winners_of_bins_that_are_not_all_of_one_length():
    for length in (509, 511, 513, 515, 1021):
        check_fakes("forward_with_winners", torch.randn(length), *encode(Pool(Max(), Adaptive((2,)), (-1,))))


@pytest.mark.parametrize("kind", [Max(), Max("all"), Sum(), SmoothMax(1.0)], ids=str)
def test_axes_that_are_gone_leave_the_others_in_their_order(kind):
    """Values too: the carried axes lie in another order than the usual one."""
    x = torch.randn(5, 4, 3, 2).permute(3, 1, 2, 0)
    pool = Pool(kind, Global(keepdims=False), (-2,))
    y = check_fakes("forward", x, *encode(pool))
    assert y.stride() == torch.empty(5, 4, 2).permute(2, 1, 0).stride()
    torch.testing.assert_close(y, OPS.forward(x.contiguous(), *encode(pool)))
    check_all_fakes(pool, x, torch.randn(2, 4, 3, 5))


def test_a_tangent_that_lies_in_another_order_than_x():
    last = torch.channels_last
    x, t = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5)
    for kind in (Avg(), SmoothMax(2.0), Max(), Max("split")):
        pool = Pool(kind, Window(2), (-2, -1))
        for a, b in [(x, t.to(memory_format=last)), (x.to(memory_format=last), t)]:
            check_all_fakes(pool, a, b)
            known = None if isinstance(kind, Avg) else a
            dy = OPS.jvp(b, known, None, *encode(pool))
            torch.testing.assert_close(dy, OPS.jvp(t, None if known is None else x, None, *encode(pool)))


def test_a_shape_that_is_known_is_checked_before_anything_runs():
    """A window that does not fit, or sees only padding, is an error of a fake tensor too."""
    x = torch.empty(2, 3, device="meta")
    for pool, message in [
        (Pool(Max(), Window((4,)), (-1,)), "smaller kernel"),
        (Pool(Max(), Window((2,), 1, 3), (-1,)), "only padding"),
    ]:
        with pytest.raises(ValueError, match=message):
            OPS.forward(x, *encode(pool))
    assert math.prod(OPS.forward(x, *encode(Pool(Sum(), Window((2,), 1, 3), (-1,)))).shape) == 16
