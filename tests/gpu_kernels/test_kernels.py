"""Every operation of every kind beside the specification: windows, ties, dtypes, numbers at every edge, orders."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from on_device import DEVICE, OnDevice, native_winners

import hostile
from closeness import jvp_allowance, same, same_bytes, value_allowance, vjp_allowance, within
from ndpool import Adaptive, Avg, Global, Lp, Max, Median, Min, Mode, Pool, Quantile, SmoothMax, Sum, Window, spec
from ndpool.plan import plan_of
from ndpool.triton import recipes, times
from ndpool.triton.engine import recipe, work_of
from strategies import Case, cases

EXTREMES = [kind(ties) for kind in (Max, Min) for ties in ("first", "split", "all")]
SUMS = [Sum(), Avg(), Avg(count_include_pad=False), Avg(divisor_override=7)]
SMOOTH = [SmoothMax(1.5), SmoothMax(-0.5), SmoothMax(3.0, count_include_pad=False), Lp(1), Lp(2), Lp(2.5), Lp(3)]
KINDS = EXTREMES + SUMS + SMOOTH
ROUNDED = [Avg(rounding=how) for how in ("half_even", "half_up", "half_away", "floor", "truncate")]

#: Exponentials and powers of float32 are computed in float32, with the errors of some of its operations.
SMOOTH_FACTOR = 16

#: Problems are small as they are drawn; to make one smaller takes the interpreter minutes.
#: The same problems each time: what the interpreter finds in its few minutes should not depend on the day.
few = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def factor(pool):
    return SMOOTH_FACTOR if isinstance(pool.kind, SmoothMax | Lp) else 1


@st.composite
def problems(draw, kinds=KINDS, dtypes=hostile.DTYPES, flavours=None):
    """A pool, an array, and the order in which its axes lie in memory."""
    case: Case = draw(cases(kinds, max_rank=4, max_cells=200))
    if case.pool.kind in ROUNDED:
        dtypes = [dtype for dtype in dtypes if dtype.kind in "iu"]
    elif isinstance(case.pool.kind, SmoothMax | Lp):  # which see large integers as float64
        dtypes = [dtype for dtype in dtypes if dtype.kind not in "iu" or dtype.itemsize < 8]
    dtype = draw(st.sampled_from(dtypes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    flavour = draw(st.sampled_from(flavours or hostile.flavours(dtype)))
    if DEVICE == "cpu" and dtype == hostile.BFLOAT16 and flavour == "subnormal":
        flavour = "ties"  # the interpreter makes other numbers of subnormal ones of bfloat16
    x = hostile.numbers(rng, flavour, case.shape, dtype)
    pool, order = case.pool, draw(st.permutations(range(x.ndim)) if draw(st.booleans()) else st.none())
    if draw(st.integers(0, 3)) == 0:
        pool = draw(with_skip(pool, x))
    if order is not None and not OnDevice(pool, x, tuple(order)).has_order_for_winners:
        order = None
    return pool, x, None if order is None else tuple(order), rng


@st.composite
def with_skip(draw, pool, x):
    """The pool over cells of which some are not there."""
    own = [] if x.size == 0 else [v for v in {x.flat[0].item(), x.flat[-1].item()} if v == v and math.isfinite(v)]
    skip = draw(st.sampled_from([*own, 0] if x.dtype.kind in "biu" else [*own, 0.0, math.nan]))
    most = math.prod(axis.kernel for axis in pool._layout(x.shape).geometry)
    low = 1 if pool.kind.needs_one_there else 0
    return Pool(pool.kind, pool.window, pool.axes, skip, min(draw(st.sampled_from([low, 1, 2])), most))


def directions(rng, pool, x):
    shapes = x.shape, pool.output_shape(x.shape)
    return [hostile.numbers(rng, "ties" if rng.random() < 0.5 else "normal", shape, x.dtype) for shape in shapes]


# --- beside the specification ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Sum(), Avg(), SmoothMax(1.5)])
def test_windows_of_one_cell_reach_beyond_the_end(kind):
    """The last output of an axis sees padding alone, and no memory behind the array."""
    pool, x = Pool(kind, Window((1,), padding=[(0, 1)])), np.arange(1.0, 5.0)
    within(OnDevice(pool, x, None).forward(), spec.forward(pool, x), 1e-15)


@few
@given(problems(KINDS + ROUNDED))
def test_forward(problem):
    pool, x, order, _ = problem
    expected = spec.forward(pool, x)
    within(OnDevice(pool, x, order).forward(), expected, factor(pool) * value_allowance(pool, x, expected))


@few
@given(problems(EXTREMES[::3]))
def test_winners_and_their_indices(problem):
    """The first in row-major order, to the byte (rules "Ties" and "NaN"); -1 where too few cells are there."""
    pool, x, order, _ = problem
    device = OnDevice(pool, x, order)
    same(device.linearize(), spec.forward(pool, x))
    same_bytes(device.outside(device.winners, "uint8"), native_winners(pool, x))
    same(device.indices(), spec.winners(pool, x))


@few
@given(problems(dtypes=hostile.FLOATS, flavours=["normal", "ties", "zeros"]))
def test_the_map_and_its_transpose(problem):
    """`dy = sum of w_i t_i` by x and by what is kept, and `gx_i = sum of w_i g`."""
    pool, x, order, rng = problem
    t, g = directions(rng, pool, x)
    device = OnDevice(pool, x, order)
    device.linearize()
    y, dy = device.jvp(t)
    expected_y, expected = spec.jvp(pool, x, t)
    within(y, expected_y, factor(pool) * value_allowance(pool, x, expected_y))
    allowed = factor(pool) * jvp_allowance(pool, x, t, expected)
    within(dy, expected, allowed)
    within(device.push(t), expected, allowed)
    expected = spec.vjp(pool, x, g)
    within(device.pull(g), expected, factor(pool) * vjp_allowance(pool, x, g, expected))


@few
@given(problems(EXTREMES + SUMS, dtypes=hostile.FLOATS))
def test_derivatives_at_numbers_at_every_edge(problem):
    """A NaN or an infinity touches the windows that see it, and no others (rule "Accumulation")."""
    pool, x, order, rng = problem
    t, g = directions(rng, pool, x)
    device = OnDevice(pool, x, order)
    device.linearize()
    with np.errstate(invalid="ignore"):
        (_, expected), back = spec.jvp(pool, x, t), spec.vjp(pool, x, g)
    within(device.jvp(t)[1], expected, jvp_allowance(pool, x, t, expected))
    within(device.pull(g), back, vjp_allowance(pool, x, g, back))


# --- each of them once ----------------------------------------------------------------------------


WINDOWS = {
    "blocks": (Window((2, 2)), (-2, -1)),
    "overlapping": (Window((3, 3), 2, 1), (-2, -1)),
    "one axis": (Window((3,), 2, 1), (-1,)),
    "outer axis": (Window((3,), 1, 1), (0,)),
    "gaps": (Window((2, 2), 3), (-2, -1)),
    "dilated": (Window((2, 3), (1, 2), 1, (3, 2)), (-2, -1)),
    "ceil": (Window((3, 2), 2, (1, 0), ceil_mode=True), (-2, -1)),
    "wide": (Window((7, 5), 1, (3, 2)), (-2, -1)),
    "wide, in steps": (Window((7, 7), 2, 3), (-2, -1)),
    "much padding": (Window((3, 3), 2, ((4, 0), (0, 5))), (-2, -1)),
    "channels last": (Window((3, 3), 2, 1), (0, 1)),
    "adaptive": (Adaptive((3, 4)), (-2, -1)),
    "adaptive to more": (Adaptive((40, 2)), (-2, -1)),
    "adaptive to many more": (Adaptive((12, 42)), (0, 1)),
    "global": (Global(), (-2, -1)),
    "global, flat": (Global(keepdims=False), (0, 2)),
    "three axes": (Window((2, 3, 2), 2, (1, 1, 0)), (0, 1, 2)),
}


#: Every kind over every window, but for one that takes the interpreter a minute with each kind.
EVERY = [(kind, name) for kind in (Max(), Max("split"), Sum(), Avg(), SmoothMax(1.5), Lp(3)) for name in WINDOWS]
EVERY = [(kind, name) for kind, name in EVERY if name != "adaptive to many more" or kind in (Max(), Sum())]


@pytest.mark.parametrize(("kind", "name"), EVERY, ids=str)
def test_every_window(kind, name):
    window, axes = WINDOWS[name]
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (3, 7, 14)).astype(np.float64)
    try:
        pool = Pool(kind, window, axes)
        shape = pool.output_shape(x.shape)
    except ValueError:  # windows that see padding alone have no largest cell
        pytest.skip(f"{kind!r} has no output where a window sees padding alone")
    t, g = rng.normal(size=x.shape), rng.normal(size=shape)
    found, (y, dy) = OnDevice(pool, x).everything(t, g), spec.jvp(pool, x, t)
    gx = spec.vjp(pool, x, g)
    within(found["forward"], y, value_allowance(pool, x, y))
    within(found["jvp"], dy, jvp_allowance(pool, x, t, dy))
    within(found["push"], dy, jvp_allowance(pool, x, t, dy))
    within(found["pull"], gx, vjp_allowance(pool, x, g, gx))


@pytest.mark.parametrize("dtype", hostile.DTYPES, ids=str)
@pytest.mark.parametrize("kind", [Max(), Min("all"), Sum(), Avg(), SmoothMax(1.0), Lp(2)], ids=repr)
def test_every_dtype(kind, dtype):
    pool, rng = Pool(kind, Window((3, 2), 2, (1, 0)), (-2, -1)), np.random.default_rng(1)
    x = hostile.numbers(rng, "ties", (2, 7, 18), dtype)
    y = spec.forward(pool, x)
    within(OnDevice(pool, x).forward(), y, factor(pool) * value_allowance(pool, x, y))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [1, 2, 3, 4])
@pytest.mark.parametrize("window", [Window((2,)), Window((3,), 1, 1), Window((2, 3), (1, 2), 1)], ids=str)
def test_powers_of_unusual_numbers(p, dtype, window):
    """Infinities, zeros, and numbers whose powers are beyond the dtype, beside usual ones."""
    large = np.finfo(dtype).max / 8
    x = np.array([[1, 2, 0, 0, np.inf, 3, large, -large, 1 / large, -2 / large, -np.inf, np.nan, 5, 0]], dtype)
    x = x if len(window.kernel_size) == 1 else x.reshape(2, 7)
    pool, rng = Pool(Lp(p), window), np.random.default_rng(5)
    g = rng.normal(size=pool.output_shape(x.shape)).astype(dtype)
    y, gx, device = spec.forward(pool, x), spec.vjp(pool, x, g), OnDevice(pool, x)
    within(device.linearize(), y, 16 * value_allowance(pool, x, y))
    within(device.pull(g), gx, 16 * vjp_allowance(pool, x, g, gx))


@pytest.mark.parametrize("dtype", hostile.INTEGERS, ids=str)
@pytest.mark.parametrize("kind", ROUNDED, ids=lambda kind: kind.rounding)
def test_means_that_stay_integers(kind, dtype):
    """The exact mean rounded once, at the edges of the dtype as well."""
    pool, rng = Pool(kind, Window((3, 2), 2, (1, 0)), (-2, -1)), np.random.default_rng(2)
    for flavour in hostile.flavours(dtype):
        x = hostile.numbers(rng, flavour, (2, 7, 8), dtype)
        same(OnDevice(pool, x).forward(), spec.forward(pool, x))


@pytest.mark.parametrize("kind", [Max(), Min(), Sum(), Avg(), SmoothMax(1.0), Lp(2)], ids=repr)
@pytest.mark.parametrize("shape", [(0, 3, 6, 6), (2, 0, 6, 6)], ids=str)
def test_empty_batches(kind, shape):
    pool, x = Pool(kind, Window((2, 2)), (-2, -1)), np.zeros(shape, np.float32)
    found = OnDevice(pool, x).everything(x, np.zeros(pool.output_shape(shape), np.float32))
    assert found["forward"].shape == pool.output_shape(shape)
    assert found["pull"].shape == shape


def test_windows_of_more_cells_than_a_byte_counts():
    """Winners in two bytes, and their indices."""
    pool, x = Pool(Max(), Window((17, 19), 2, 3), (-2, -1)), np.random.default_rng(3).normal(size=(2, 24, 30))
    device = OnDevice(pool, x)
    device.linearize()
    assert device.plan.residual.winners == 2
    same(device.indices(), spec.winners(pool, x))


@pytest.mark.parametrize("kind", [Max("split"), SmoothMax(1.5), SmoothMax(-2.0), Lp(2.5)], ids=repr)
@pytest.mark.parametrize(("shape", "window"), [((2, 5, 9), (2, 2)), ((3, 9), (2,)), ((5, 4, 7), (2, 2, 2))], ids=str)
@pytest.mark.parametrize("skip", [None, 0.0], ids=["all cells", "skip 0"])
def test_blocks_go_back_in_one_pass(kind, shape, window, skip):
    """Cells behind the last block get nothing, a NaN among them included."""
    pool, rng = Pool(kind, Window(window), skip=skip), np.random.default_rng(6)
    x = rng.integers(-2, 3, shape).astype(np.float32)
    x[..., -1] = np.nan
    g = rng.normal(size=pool.output_shape(shape)).astype(np.float32)
    device, gx = OnDevice(pool, x), spec.vjp(pool, x, g)
    assert [launch.kernel.__name__ for launch in recipe(device.plan, "pull").launches] == ["pull_blocks"]
    device.linearize()
    within(device.pull(g), gx, factor(pool) * vjp_allowance(pool, x, g, gx))


@pytest.mark.parametrize("kind", [Sum(), Avg(), Avg(divisor_override=7)], ids=repr)
@pytest.mark.parametrize("min_count", [1, 3])
def test_sums_over_blocks_go_back_in_one_pass_where_cells_are_skipped(kind, min_count):
    pool, rng = Pool(kind, Window((2, 2)), skip=0.0, min_count=min_count), np.random.default_rng(15)
    x = rng.integers(-1, 3, (2, 6, 9)).astype(np.float32)
    g = rng.normal(size=pool.output_shape(x.shape)).astype(np.float32)
    device, gx = OnDevice(pool, x), spec.vjp(pool, x, g)
    assert [launch.kernel.__name__ for launch in recipe(device.plan, "pull").launches] == ["pull_blocks"]
    device.linearize()
    within(device.pull(g), gx, vjp_allowance(pool, x, g, gx))


@pytest.mark.parametrize("kind", [SmoothMax(1.0), Max("split")], ids=repr)
def test_dilated_windows_are_no_blocks(kind):
    """In steps of 3 with gaps of 2, windows lie between each other, though one sees each cell at most."""
    pool, x = Pool(kind, Window((3,), 3, dilation=2), axes=(0,)), np.random.default_rng(11).normal(size=(11, 2))
    g, device = np.random.default_rng(12).normal(size=pool.output_shape(x.shape)), OnDevice(pool, x)
    device.linearize()
    gx = spec.vjp(pool, x, g)
    within(device.pull(g), gx, factor(pool) * vjp_allowance(pool, x, g, gx))


@pytest.mark.parametrize(("dtype", "beta"), [(np.float32, 3e38), (np.float64, 1.5e308), (np.float32, 1e-39)], ids=str)
def test_smooth_maxima_of_extreme_betas(dtype, beta):
    pool = Pool(SmoothMax(beta), Window((2,)))
    x = np.array([1, 1, 2, 3] if beta > 1 else [0, -np.inf, 0, -np.inf], dtype)
    np.testing.assert_allclose(OnDevice(pool, x).forward(), spec.forward(pool, x), rtol=1e-6)


@pytest.mark.parametrize("kind", [SmoothMax(1.0), Lp(2.5), Lp(2)], ids=repr)
@pytest.mark.parametrize("window", [Window((2,)), Window((3,), 1, 1)], ids=str)
def test_a_nan_in_a_window_with_too_few_cells_gets_nothing(kind, window):
    pool, x = Pool(kind, window, skip=0.0, min_count=2), np.array([np.nan, 0, 0, 1, 2, 3, 0, 5], np.float32)
    g, device = np.arange(1.0, 1 + pool.output_shape(x.shape)[0], dtype=np.float32), OnDevice(pool, x)
    device.linearize()
    gx = spec.vjp(pool, x, g)
    within(device.pull(g), gx, factor(pool) * vjp_allowance(pool, x, g, gx))


@pytest.mark.parametrize("kind", [Max(), Avg(), SmoothMax(1.0)], ids=repr)
@pytest.mark.parametrize("wide", [False, True], ids=["32 bits", "64 bits"])
def test_grids_of_several_layers(kind, wide, monkeypatch):
    """More rows of tiles than one axis of a grid can have, and offsets of 64 bits."""
    monkeypatch.setattr(recipes, "GRID_ROWS", 2)
    pool, rng = Pool(kind, Window((9, 3), (1, 2), (4, 1)), (-2, -1)), np.random.default_rng(13)
    x = rng.integers(-3, 4, (7, 12, 24)).astype(np.float32)
    g, device = rng.normal(size=pool.output_shape(x.shape)).astype(np.float32), OnDevice(pool, x)
    device.plan.handles.pop("triton", None)
    work_of(device.plan).wide = wide
    found, y, gx = device.everything(x, g), spec.forward(pool, x), spec.vjp(pool, x, g)
    device.plan.handles.pop("triton", None)
    within(found["forward"], y, factor(pool) * value_allowance(pool, x, y))
    within(found["pull"], gx, factor(pool) * vjp_allowance(pool, x, g, gx))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, hostile.BFLOAT16], ids=str)
@pytest.mark.parametrize(
    ("shape", "window"),
    [
        ((2, 12, 17), Window((9, 8), 1, (4, 3))),
        ((2, 14, 16), Window((9, 7), 1, ((0, 5), (6, 0)))),
        ((9, 10, 11), Window((4, 3, 5), 1, (1, 2, 0))),
    ],
    ids=str,
)
def test_winners_of_wide_windows_slide_back(shape, window, dtype, monkeypatch):
    """To the last bit what exact sums are, and nothing where a window has no cell."""
    for name in ("LAUNCH", "BYTE", "SLID_BACK"):
        monkeypatch.setattr(times, name, 0)
    pool, rng = Pool(Max(), window, skip=0.0), np.random.default_rng(7)
    x = rng.integers(-3, 4, shape).astype(dtype)
    x[..., :6] = 0
    g = rng.integers(-8, 9, pool.output_shape(shape)).astype(dtype)
    device = OnDevice(pool, x)
    device.plan.handles.pop("triton", None)
    names = [launch.kernel.__name__ for launch in recipe(device.plan, "pull").launches]
    assert set(names) == {"slide_back"}
    device.linearize()
    same(device.pull(g), spec.vjp(pool, x, g))
    device.plan.handles.pop("triton", None)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, hostile.BFLOAT16], ids=str)
@pytest.mark.parametrize(
    ("shape", "window", "axes"),
    [
        ((2, 23, 31), Adaptive((3, 5)), (-2, -1)),
        ((2, 23, 31, 3), Adaptive((4, 2)), (1, 2)),
        ((11, 7, 13), Adaptive((2, 3, 4)), (0, 1, 2)),
        ((2, 24, 30), Window((9, 7), (6, 5), (4, 0), ceil_mode=True), (-2, -1)),
        ((3, 40), Window((3,), 5, 1, dilation=3), (-1,)),
        ((2, 3, 40), Window((2, 9), (2, 11)), (-2, -1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("skip", [None, 0.0], ids=["all cells", "skip 0"])
def test_winners_of_large_windows_are_visited(shape, window, axes, dtype, skip, monkeypatch):
    """To the last bit what exact sums are, though windows share the cells that win them."""
    for price in ("LAUNCH", "CLEARED_BYTE", "VISITED", "HANDED", "HANDED_OF_MANY", "IN_TURN", "IN_THREE_STEPS"):
        monkeypatch.setattr(times, price, 0)
    pool, rng = Pool(Max(), window, axes, skip), np.random.default_rng(14)
    x = rng.integers(-3, 4, shape).astype(dtype)
    x[..., : shape[-1] // 2] = 0
    g = rng.integers(-8, 9, pool.output_shape(shape)).astype(dtype)
    device = OnDevice(pool, x)
    device.plan.handles.pop("triton", None)
    names = [launch.kernel.__name__ for launch in recipe(device.plan, "pull").launches]
    assert names == ["clear", "hand_over"]
    device.linearize()
    same(device.pull(g), spec.vjp(pool, x, g))
    device.plan.handles.pop("triton", None)


@pytest.mark.parametrize(
    "kind", [Sum(), Avg(), Avg(count_include_pad=False), Max(), Max("split"), SmoothMax(1.0)], ids=repr
)
@pytest.mark.parametrize("shape", [(11,), (11, 5)], ids=str)
def test_a_nan_beside_skipped_numbers_has_its_gradient(kind, shape):
    """It is a cell like others, where another value is skipped."""
    pool, rng = Pool(kind, Window((4,), 1, 2), (0,), skip=2.0), np.random.default_rng(15)
    x = rng.integers(-3, 4, shape).astype(np.float32)
    x.flat[3] = np.nan
    g = rng.normal(size=pool.output_shape(shape)).astype(np.float32)
    device = OnDevice(pool, x)
    device.linearize()
    gx = spec.vjp(pool, x, g)
    within(device.pull(g), gx, vjp_allowance(pool, np.nan_to_num(x), g, gx))


@pytest.mark.parametrize("dtype", [np.float32, hostile.BFLOAT16], ids=str)
@pytest.mark.parametrize("beta", [1.0, -1.0])
@pytest.mark.parametrize(
    "window", [Window((2, 2)), Window((3, 3), 2, 1), Window((3, 3), 2, 1, ceil_mode=True)], ids=str
)
@pytest.mark.parametrize("padded", [True, False], ids=["padding counts", "padding is ignored"])
def test_smooth_maxima_of_infinities(window, beta, dtype, padded):
    x = np.random.default_rng(8).choice([-np.inf, -1.0, 0.5, np.inf, np.nan], (6, 7, 8), p=[0.5, 0.2, 0.1, 0.1, 0.1])
    pool, x = Pool(SmoothMax(beta, count_include_pad=padded), window), x.astype(dtype)
    with np.errstate(invalid="ignore"):
        y = spec.forward(pool, x)
    within(OnDevice(pool, x).forward(), y, factor(pool) * value_allowance(pool, x, y))


@pytest.mark.parametrize("window", [Window((2, 40), 1), Window((1, 7), 5), Global()], ids=str)
def test_windows_of_infinities_are_won_by_their_first_cell(window):
    x = np.full((2, 3, 41), -np.inf)
    x[1, 1:, 5:] = np.random.default_rng(9).choice([-np.inf, 1.0, np.nan], (2, 36))
    pool = Pool(Max(), window, (-2, -1))
    device = OnDevice(pool, x)
    same(device.linearize(), spec.forward(pool, x))
    same(device.indices(), spec.winners(pool, x))


@pytest.mark.parametrize("shape", [(40, 3, 2, 6), (5, 7, 3, 24)], ids=str)
@pytest.mark.parametrize("kind", [Max(), SmoothMax(1.0)], ids=repr)
def test_axes_that_are_shorter_than_a_tile(kind, shape):
    pool, rng = Pool(kind, Window((2, 3, 3), (1, 2, 2), (0, 1, 1)), (1, 2, 3)), np.random.default_rng(10)
    x = rng.integers(-4, 5, shape).astype(np.float32)
    g = rng.normal(size=pool.output_shape(shape)).astype(np.float32)
    found, y, gx = OnDevice(pool, x).everything(x, g), spec.forward(pool, x), spec.vjp(pool, x, g)
    within(found["forward"], y, factor(pool) * value_allowance(pool, x, y))
    within(found["pull"], gx, factor(pool) * vjp_allowance(pool, x, g, gx))


@pytest.mark.parametrize("window", [Window((1,)), Global(), Adaptive((1,))], ids=str)
@pytest.mark.parametrize("kind", [Max(), Min("split"), Sum(), Avg(), SmoothMax(1.0), Lp(2)], ids=repr)
def test_windows_of_a_single_cell(kind, window):
    pool, x, t, g = (
        Pool(kind, window, (-1,)),
        np.array([[3.0], [4.0]]),
        np.array([[2.0], [-1.0]]),
        np.array([[5.0], [6.0]]),
    )
    found = OnDevice(pool, x).everything(t, g)
    for name, expected in {"forward": x, "jvp": t, "pull": g}.items():
        np.testing.assert_array_equal(found[name], expected)
    assert "indices" not in found or found["indices"].tolist() == [[0], [0]]


# --- what there is not ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Mode(), Quantile(0.3), Median()], ids=repr)
def test_kinds_without_a_kernel(kind):
    with pytest.raises(NotImplementedError, match=r"has no kernel for GPUs yet, which have max, .*; call \.cpu\(\)"):
        OnDevice(Pool(kind, Window((2,)), (-1,)), np.zeros(4)).forward()


@pytest.mark.parametrize(
    ("window", "axes"),
    [
        (Window((2,)), (8,)),
        (Window((2, 1), 1), (2, 6)),
        (Global(), tuple(range(9))),
        (Global(), (0, 1, 6, 7)),
        (Window((1,) * 9), tuple(range(9))),
        (Window((1, 1, 2)), (0, 1, 8)),
    ],
    ids=str,
)
def test_winners_among_many_axes(window, axes):
    """Axes that lie together are one where winners are read, as they are forward and back."""
    pool, rng = Pool(Max(), window, axes), np.random.default_rng(16)
    x, t = rng.integers(-3, 4, (2,) * 9).astype(np.float32), rng.normal(size=(2,) * 9).astype(np.float32)
    device = OnDevice(pool, x)
    same(device.linearize(), spec.forward(pool, x))
    same(device.indices(), spec.winners(pool, x))
    same(device.push(t), spec.jvp(pool, x, t)[1])


def test_more_axes_than_a_kernel_has():
    axes = tuple(range(9))
    plan = plan_of(Pool(Max(), Window((2,) * 9), axes), (4,) * 9, "float32")
    with pytest.raises(NotImplementedError, match=r"9 axes that cannot be joined, .* has 8; call \.cpu\(\)"):
        __import__("ndpool.triton").triton.engine_plan(plan)
