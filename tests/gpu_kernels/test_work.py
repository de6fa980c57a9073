"""The ways that a plan can go on the card give the same results, whatever the sizes of tiles and parts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from on_device import OnDevice

from closeness import jvp_allowance, same_bytes, value_allowance, vjp_allowance, within
from hostile import BFLOAT16
from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window, spec
from ndpool.plan import plan_of
from ndpool.triton import recipes, times, work
from ndpool.triton.engine import work_of

KINDS = [Max(), Min("split"), Max("all"), Sum(), Avg(count_include_pad=False), SmoothMax(-0.5), Lp(2)]

#: Numbers of the planner that send every pool one way.
BACK_BY_AXES = {"LAUNCH": 0, "BYTE": 0, "TAP": 1, "ASKED": 1, "SLID_BACK": 1e-3, "ALONG": 1e-3, "VISITED": 10**9}
ALONG_ONE_AXIS = {"DIRECT_CELLS": 0, "CELLS_OF_TREE": 0}
WAYS = {
    "direct": {"LAUNCH": 10**9, "DIRECT_CELLS": 10**6, "CELLS_OF_TREE": 0, "LONG": 10**6, "PART": 10**9},
    "axis by axis": {**ALONG_ONE_AXIS, "LONG": 10**6, "PART": 10**9, **BACK_BY_AXES},
    "tree": {**ALONG_ONE_AXIS, "LONG": 2, "FAR": 0, "PART": 10**9},
    "tree over axes": {
        "FEWEST_OF_TREE": 2,
        "CELLS_OF_TREE": 10**6,
        "CELL_OF_TREE_OVER_AXES": 0,
        "JOINED": -(10**9),
        "PART": 10**9,
    },
    "parts": {**ALONG_ONE_AXIS, "LONG": 2, "FAR": 0, "PART": 2, "LEAST_PART": 2, "FEW_CHANNELS": 1},
    "winners visited": dict.fromkeys(
        ("LAUNCH", "CLEARED_BYTE", "VISITED", "HANDED", "HANDED_OF_MANY", "IN_TURN", "IN_THREE_STEPS"), 0
    ),
    "loops": {"UNROLLED": 0, "UNROLLED_POWERS": 0},
}
WAYS["winners visited in loops"] = WAYS["winners visited"] | WAYS["loops"]
WINDOWS = {
    "overlapping": (Window((3, 3), 2, 1), (-2, -1)),
    "in steps of one": (Window((4, 3), 1, 2), (-2, -1)),
    "wide": (Window((2, 9), 1, (0, 1)), (-2, -1)),
    "rows": (Window((6,), 6), (-1,)),
    "adaptive": (Adaptive((3, 2)), (-2, -1)),
    "global": (Global(), (-2, -1)),
    "global, channels last": (Global(), (0, 1)),
    "three axes": (Window((2, 3, 2), 2, 1), (0, 1, 2)),
}


#: A kind that chooses and one that adds up over every window; those of two passes over two.
CASES = [(kind, window) for kind in (Max(), Sum()) for window in WINDOWS]
CURVED = (Min("split"), SmoothMax(-0.5), Lp(3))
CASES += [(kind, window) for kind in CURVED for window in ("overlapping", "wide", "global")]


def send(monkeypatch, numbers):
    """All pools go by these numbers of the planner, wherever they are read."""
    for name, value in numbers.items():
        for module in (times, work, recipes):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)


def fresh(pool, x):
    """The pool on the device, with a plan that nobody has worked on."""
    device = OnDevice(pool, x)
    device.plan.handles.pop("triton", None)
    return device


def forget(pool, x):
    plan_of(pool, x.shape, x.dtype.name).handles.pop("triton", None)


def agrees(device, pool, x, t, g):
    """All results are the specification's; the plan is forgotten."""
    found, (y, dy), gx = device.everything(t, g), spec.jvp(pool, x, t), spec.vjp(pool, x, g)
    forget(pool, x)
    within(found["forward"], y, value_allowance(pool, x, y))
    within(found["jvp"], dy, jvp_allowance(pool, x, t, dy))
    within(found["pull"], gx, vjp_allowance(pool, x, g, gx))
    if "indices" in found:
        np.testing.assert_array_equal(found["indices"], spec.winners(pool, x))


@pytest.mark.parametrize(("kind", "window"), CASES, ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_every_way(kind, way, window, monkeypatch):
    pool, rng = Pool(kind, *WINDOWS[window]), np.random.default_rng(0)
    x = rng.integers(-4, 5, (3, 6, 17)).astype(np.float64)
    t, g = rng.normal(size=x.shape), rng.normal(size=pool.output_shape(x.shape))
    send(monkeypatch, WAYS[way])
    device = fresh(pool, x)
    agrees(device, pool, x, t, g)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("way", WAYS)
def test_the_first_nan_wins_every_way(way, window, monkeypatch):
    pool, rng = Pool(Max(), *WINDOWS[window]), np.random.default_rng(3)
    x = rng.integers(-4, 5, (3, 6, 17)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    send(monkeypatch, WAYS[way])
    found = fresh(pool, x).everything(x, np.ones(pool.output_shape(x.shape), np.float32))
    forget(pool, x)
    np.testing.assert_array_equal(found["forward"], spec.forward(pool, x))
    np.testing.assert_array_equal(found["indices"], spec.winners(pool, x))


def test_the_ways_are_gone(monkeypatch):
    """Each set of numbers leads where its name says."""
    windows = {"boxes": Window((5, 4), 1, 2), "rows": Window((6,), 6), "whole": Global()}

    def kernels(name, operation, kind="sum"):
        axes = (-1,) if name == "rows" else (-2, -1)
        plan = plan_of(Pool({"sum": Sum(), "max": Max()}[kind], windows[name], axes), (4, 7, 32), "float64")
        return [launch.kernel.__name__ for launch in recipes.Work(plan).recipe(operation).launches]

    send(monkeypatch, WAYS["direct"])
    assert [len(kernels(name, "forward")) for name in windows] == [1, 1, 1]
    assert kernels("boxes", "pull", "max") == ["gather_taps"]
    send(monkeypatch, WAYS["axis by axis"])
    assert [len(kernels(name, "forward")) for name in windows] == [2, 1, 1]
    assert kernels("boxes", "pull") == ["gather_taps", "gather_taps"]
    assert kernels("boxes", "pull", "max") == ["slide_back", "slide_back"]
    send(monkeypatch, WAYS["tree"])
    assert kernels("rows", "forward") == ["tree"]
    send(monkeypatch, WAYS["tree over axes"])
    assert kernels("boxes", "forward") == ["tree"]
    send(monkeypatch, WAYS["parts"])
    assert len(kernels("whole", "forward")) > 3  # parts, and parts of these
    for way in ("winners visited", "winners visited in loops"):
        send(monkeypatch, WAYS[way])
        assert kernels("rows", "pull", "max") == ["clear", "hand_over"]


@pytest.mark.parametrize(
    "window",
    [Window((3, 2, 3), 1, 1), Window((3, 3, 2), (2, 1, 3), 1, dilation=(1, 2, 1)), Adaptive((4, 3, 5))],
    ids=["in steps of one", "in other steps", "bins"],
)
@pytest.mark.parametrize(("kind", "skip"), [(Max(), None), (Max(), 0.0), (Sum(), None)], ids=str)
def test_every_way_back(kind, window, skip):
    """Axes go back at once, or some after the others: of whole numbers, all sums are exact."""
    pool, rng = Pool(kind, window, skip=skip), np.random.default_rng(5)
    x = rng.integers(-3, 4, (1, 5, 4, 7)).astype(np.float32)
    g = rng.integers(-8, 9, pool.output_shape(x.shape)).astype(np.float32)
    prices = recipes.times_of_winners if isinstance(kind, Max) else recipes.times_of_sums
    expected, device = spec.vjp(pool, x, g), fresh(pool, x)
    ways = list(prices(work_of(device.plan)))
    assert {"axes 1,2", "axes 2,1", "axes 1,1,1"} < set(ways)
    for way in ways:
        device.plan.handles["triton"] = recipes.Work(device.plan, back=way)
        device.linearize()
        np.testing.assert_array_equal(device.pull(g), expected, err_msg=way)
    forget(pool, x)


#: Windows of more cells than are written out, where these are fewer, in small tiles.
FAR = {"UNROLLED": 15, "SLIDE_TILE": 16, "SLIDE_TILE_OF_SUMS": 16, "DIRECT_CELLS": 0, "CELLS_OF_TREE": 0}
FAR_WINDOWS = {
    "rows": ((3, 37), Window((17,), 1, [(8, 9)]), (1,)),
    "rows of whole vectors": ((2, 2, 48), Window((16,), 1), (2,)),
    "outer axis": ((2, 30, 3), Window((19,), 1, [(0, 18)]), (1,)),
    "longer than the row": ((3, 10), Window((22,), 1, [(21, 1)]), (1,)),
    "both axes": ((2, 21, 24), Window((16, 18), 1, ((3, 4), (15, 2))), (1, 2)),
    "both axes, channels last": ((17, 19, 2), Window((17, 16), 1, (4, 7)), (0, 1)),
}


def slid_far(monkeypatch, pool, x):
    """The pool on the device, of which each axis slides; `forget` it in the end."""
    send(monkeypatch, FAR)
    device = fresh(pool, x)
    launches = [launch for name in ("forward", "linearize") for launch in work_of(device.plan).recipe(name).launches]
    assert {launch.kernel.__name__ for launch in launches} == {"slide_far"}
    return device


@pytest.mark.parametrize(
    ("window", "dtype"),
    [*((window, np.float64) for window in FAR_WINDOWS), ("rows", np.float16), ("outer axis", np.int8)],
)
def test_the_first_winner_of_long_windows(window, dtype, monkeypatch):
    """Of ties, of NaNs, and of windows that have nothing but the worst number."""
    (shape, *how), rng = FAR_WINDOWS[window], np.random.default_rng(8)
    x = rng.integers(-2, 3, shape).astype(dtype)
    if dtype != np.int8:
        x[rng.random(shape) < 0.03] = np.nan
    x[0] = np.iinfo(dtype).max if dtype == np.int8 else np.inf
    pool = Pool(Min(), *how)
    device = slid_far(monkeypatch, pool, x)
    y, found, indices = device.linearize(), device.forward(), device.indices()
    forget(pool, x)
    np.testing.assert_array_equal(y, spec.forward(pool, x))
    np.testing.assert_array_equal(found, y)  # the bits of a NaN are the processor's
    np.testing.assert_array_equal(indices, spec.winners(pool, x))


@pytest.mark.parametrize(
    ("window", "kind", "dtype"),
    [
        *((window, Sum(), np.float64) for window in FAR_WINDOWS),
        ("rows", Avg(), np.float32),
        ("outer axis", Avg(count_include_pad=False), np.float64),
        ("longer than the row", Sum(), np.int16),
        ("both axes", Avg(), np.float16),
    ],
    ids=str,
)
def test_sums_of_long_windows(window, kind, dtype, monkeypatch):
    """An infinity or a NaN touches the windows that see it, and no others (rule "Accumulation")."""
    (shape, *how), rng = FAR_WINDOWS[window], np.random.default_rng(9)
    x = (100 * rng.normal(size=shape)).astype(dtype)
    if dtype != np.int16:
        x.flat[[5, 6, -1]] = np.inf, -np.inf, np.nan
    pool = Pool(kind, *how)
    device = slid_far(monkeypatch, pool, x)
    found = device.forward()
    with np.errstate(invalid="ignore"):
        y = spec.forward(pool, x)
    forget(pool, x)
    within(found, y, value_allowance(pool, x, y))


@pytest.mark.parametrize("shape", [(5, 61), (64, 5)], ids=str)
def test_sums_of_long_windows_are_the_nearest_doubles(shape, monkeypatch):
    """All that cells of very different sizes leave of each other is in the errors, for every size of the tiles."""
    pool, rng = Pool(Sum(), Window((33,), 1, 16), (int(np.argmax(shape)),)), np.random.default_rng(10)
    x = rng.choice([1e16, -1e16, 1.0, 3.0], shape)
    expected = np.apply_along_axis(_sums_of_33, pool.axes[0], x)
    for most in (16, 64):
        monkeypatch.setitem(FAR, "SLIDE_TILE_OF_SUMS", most)
        same_bytes(slid_far(monkeypatch, pool, x).forward(), expected)
    forget(pool, x)


def _sums_of_33(row):
    return np.array([math.fsum(row[max(0, i - 16) : i + 17]) for i in range(len(row))])


def test_when_long_windows_slide(monkeypatch):
    """Where there are neighbours enough, and a block of cells that all of them see."""
    send(monkeypatch, FAR)

    def kernel(kind, length, window, **options):
        plan = plan_of(Pool(kind, Window((window,), **options)), (length,), "float64")
        return recipes.Work(plan).recipe("forward").launches[0].kernel.__name__

    assert kernel(Max(), 23, 16, stride=1) == kernel(Sum(), 23, 16, stride=1) == "slide_far"
    assert kernel(Max(), 22, 16, stride=1) == kernel(Max(), 40, 16, stride=2) == "walk"
    assert kernel(SmoothMax(1.0), 23, 16, stride=1) == "walk"
    send(monkeypatch, {"UNROLLED": 9})
    assert kernel(Max(), 30, 15, stride=1) == "walk"


@pytest.mark.parametrize("kind", [Max(), Min("split"), Sum(), SmoothMax(1.0)], ids=repr)
@pytest.mark.parametrize(
    ("shape", "bins", "axis"), [((2, 37, 3), 4, 1), ((2, 37), 4, 1), ((41, 2), 3, 0), ((23, 5), 3, 0)]
)
def test_few_long_bins_go_in_parts(kind, shape, bins, axis, monkeypatch):
    """Of which none is empty, though some bins are shorter than others."""
    send(monkeypatch, WAYS["parts"])
    pool, rng = Pool(kind, Adaptive((bins,)), (axis,)), np.random.default_rng(4)
    x = rng.choice([-np.inf, -1.0, 2.0, 3.0], shape)
    device = fresh(pool, x)
    assert len(work_of(device.plan).walks) > 1
    with np.errstate(invalid="ignore"):
        found, y = device.everything(x, np.ones(pool.output_shape(shape))), spec.forward(pool, x)
    forget(pool, x)
    within(found["forward"], y, value_allowance(pool, x, y))
    if "indices" in found:
        np.testing.assert_array_equal(found["indices"], spec.winners(pool, x))


@pytest.mark.parametrize("kind", [Max(), Avg(), SmoothMax(1.0)], ids=repr)
@pytest.mark.parametrize(
    ("shape", "window"), [((2, 83, 3), Global()), ((1, 50, 5), Global()), ((2, 71, 2), Adaptive((2,)))]
)
def test_few_channels_are_read_together(kind, shape, window, monkeypatch):
    """A part of a long window and all its channels, by a tree; and then the parts, if there are several."""
    send(monkeypatch, {"LEAST_PART": 4, "PART_OF_CHANNELS": 64})
    pool, rng = Pool(kind, window, (1,)), np.random.default_rng(6)
    x = rng.integers(-4, 5, shape).astype(np.float32)
    device = fresh(pool, x)
    assert work_of(device.plan).walks[0].tree
    t, g = rng.normal(size=shape).astype(np.float32), rng.normal(size=pool.output_shape(shape)).astype(np.float32)
    agrees(device, pool, x, t, g)


@pytest.mark.parametrize("kind", [Avg(), Avg(count_include_pad=False)], ids=repr)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    "window", [Adaptive((3, 4)), Window((3, 4), 2, (1, 2), ceil_mode=True)], ids=["bins", "windows"]
)
def test_gradients_are_divided_in_passing(kind, dtype, window, monkeypatch):
    """By the inverses of what counts along each axis, or by the number itself where nothing has more bits."""
    send(monkeypatch, {"DIVIDED": 0, "ROW": 0, "LAUNCH": 10**9})
    pool, rng = Pool(kind, window), np.random.default_rng(7)
    x, g = rng.normal(size=(2, 7, 15)).astype(dtype), rng.normal(size=pool.output_shape((2, 7, 15))).astype(dtype)
    device = fresh(pool, x)
    launches = work_of(device.plan).recipe("pull").launches
    assert [(launch.kernel.__name__, launch.constants["DIVISOR"]) for launch in launches] == [("gather_any", -1)]
    device.linearize()
    gx = spec.vjp(pool, x, g)
    found = device.pull(g)
    forget(pool, x)
    within(found, gx, vjp_allowance(pool, x, g, gx))


@pytest.mark.parametrize("kind", [Max(), Avg(count_include_pad=False), SmoothMax(-0.5), Lp(2)], ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_bits_for_every_tile(kind, dtype, monkeypatch):
    """A tile says who computes an output, and not how."""
    pool, rng = Pool(kind, Window((3, 3), 2, 1), (-2, -1)), np.random.default_rng(1)
    x = rng.normal(size=(2, 5, 30)).astype(dtype)
    x[0, 4, 4], x[1, 2, 3] = 0, np.inf if isinstance(kind, Lp) else 1
    t, g = (rng.normal(size=shape).astype(dtype) for shape in (x.shape, pool.output_shape(x.shape)))
    expected = fresh(pool, x).everything(t, g)
    for sides in ((1, 16), (4, 32)):
        monkeypatch.setattr(recipes, "tile", lambda *_, sides=sides, **__: sides)
        found = fresh(pool, x).everything(t, g)
        for name, result in found.items():
            same_bytes(result, expected[name])


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_the_same_bits_every_time(kind):
    pool, rng = Pool(kind, Window((3, 3), 1, 1), (-2, -1)), np.random.default_rng(2)
    x = rng.normal(size=(1, 6, 17)).astype(np.float32)
    t, g = (rng.normal(size=shape).astype(np.float32) for shape in (x.shape, pool.output_shape(x.shape)))
    first, second = (OnDevice(pool, x).everything(t, g) for _ in range(2))
    for name, result in first.items():
        same_bytes(result, second[name])


#: Windows whose sums are of 32 bits in bfloat16, each in a kernel of its own.
BFLOAT16_WINDOWS = {
    "walk_groups": ((2, 5, 16), Window((2, 3), 2, (0, 1)), (1, 2)),
    "walk": ((6, 5, 3), Window((3, 2), 3), (0, 1)),
    "slide": ((2, 30, 3), Window((9,), 1, 4), (1,)),
    "slide_far": ((3, 50, 2), Window((40,), 1, 20), (1,)),
    "tree": ((2, 9000), Global(), (1,)),
}


@pytest.mark.parametrize("kind", [Sum(), Avg(), Avg(count_include_pad=False), Avg(divisor_override=7)], ids=repr)
@pytest.mark.parametrize("kernel", BFLOAT16_WINDOWS)
def test_sums_of_bfloat16_are_beyond_float32_where_their_results_are(kernel, kind):
    """On the way they are not, though one cell is nearly as large as a float32 can be; infinities and NaNs stay."""
    shape, window, axes = BFLOAT16_WINDOWS[kernel]
    pool, x = Pool(kind, window, axes), np.full(shape, 3e38)
    x.flat[2::3] = -3e38
    x.flat[:4] = 3e38
    x[-1].flat[-1], x[-1].flat[0] = np.inf, np.nan
    x = x.astype(BFLOAT16)
    device = OnDevice(pool, x)
    assert kernel in {launch.kernel.__name__ for launch in work_of(device.plan).recipe("forward").launches}
    with np.errstate(invalid="ignore", over="ignore"):
        y = spec.forward(pool, x)
    found = device.forward()
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(y))
    np.testing.assert_allclose(found.astype(float), y.astype(float), rtol=2**-7)  # which the interpreter cuts off


@pytest.mark.parametrize("kind", [Sum(), Avg()], ids=repr)
def test_sums_of_bfloat16_and_of_tangents_beside_skipped_cells(kind):
    pool = Pool(kind, Window((2, 3), (2, 3)), skip=0.0)
    x = np.array([[3e38, 3e38, 0, 0, 0, 0], [-3e38, 0, 0, 1, 0, 0]]).astype(BFLOAT16)
    t = np.array([[3e38, 3e38, 1, 1, 1, 1], [-3e38, 1, 1, 2, 1, 1]]).astype(BFLOAT16)
    (y, dy), device = spec.jvp(pool, x, t), OnDevice(pool, x)
    found_y, found = device.jvp(t)
    assert np.isfinite(y).all()
    assert np.isfinite(dy).all()
    for result, expected in ((found_y, y), (found, dy)):
        np.testing.assert_allclose(result.astype(float), expected.astype(float), rtol=2**-7)


def test_bfloat16_is_scaled_by_what_it_bears():
    """The smallest number keeps all of its bits. Sums of more cells are doubles, and others need no scale."""

    def numbers(dtype, length, kind):
        found = work_of(plan_of(Pool(kind, Global(), (0,)), (length,), dtype)).numbers
        return found.compute, found.kind.scale

    assert numbers("bfloat16", 3, Sum()) == ("float32", 2**-2)
    assert numbers("bfloat16", 2**16, Avg()) == ("float32", 2**-16)
    assert numbers("bfloat16", 2**16 + 1, Avg()) == ("float64", 1)
    assert numbers("float16", 2**16, Avg()) == ("float32", 1)
    assert numbers("bfloat16", 2**16, Max())[1] == 1


# --- numbers of more than 32 bits -----------------------------------------------------------------


@pytest.mark.parametrize("kind", [Max(), Sum(), Avg(count_include_pad=False), SmoothMax(1.0)], ids=repr)
@pytest.mark.parametrize("way", ["direct", "axis by axis", "tree over axes", "parts"])
def test_places_and_counts_of_64_bits(kind, way, monkeypatch):
    """As if 32 bits held no number above 3, so that windows have more cells than that."""
    send(monkeypatch, {**WAYS[way], "LARGEST_INT": 3})
    window = Global() if way == "parts" else Window((4, 9), 1, 2)
    pool, rng = Pool(kind, window, (-2, -1), skip=0.0), np.random.default_rng(11)
    x = rng.integers(-2, 3, (2, 5, 12)).astype(np.float64)
    g = rng.normal(size=pool.output_shape(x.shape))
    device = fresh(pool, x)
    made = work_of(device.plan)
    assert made.numbers.kind.count == "int64"
    rooms = made.recipe("forward").rooms.items()
    assert {dtype for name, (_, dtype) in rooms if name[0] == "n"} == ({torch.int64} if rooms else set())
    agrees(device, pool, x, x, g)


def test_windows_of_more_cells_than_32_bits_count():
    """Counts and places have 64 bits, and no way takes places apart in 32."""
    made = recipes.Work(plan_of(Pool(Max(), Global(), (0, 1), skip=0), (2**16, 2**15), "uint8"))
    assert (made.numbers.kind.count, made.numbers.second) == ("int64", "int64")
    assert {dtype for name, (_, dtype) in made.recipe("forward").rooms.items() if name[0] == "n"} == {torch.int64}
    made = recipes.Work(plan_of(Pool(Max(), Window((2**16, 2**15), 1), (0, 1)), (2**16 + 1, 2**15 + 1), "uint8"))
    assert set(recipes.times_of_winners(made)) == {"ask", "visited"}
    made = recipes.Work(plan_of(Pool(Max(), Global(), (0, 1), skip=0), (2**15, 2**15), "uint8"))
    assert (made.numbers.kind.count, made.numbers.second) == ("int32", "int32")


@pytest.mark.parametrize("kind", [Sum(), Avg()], ids=repr)
def test_padding_that_reaches_beyond_32_bits(kind):
    """Only the last windows see a cell."""
    pool, rng = Pool(kind, Window((3,), 2**20, [(2**31 + 2**20 - 2, 2)]), (0,)), np.random.default_rng(12)
    x = rng.normal(size=(40, 2))
    g = rng.normal(size=pool.output_shape(x.shape))
    device, y, gx = fresh(pool, x), spec.forward(pool, x), spec.vjp(pool, x, g)
    assert np.count_nonzero(y) > 0
    within(device.linearize(), y, value_allowance(pool, x, y))
    within(device.pull(g), gx, vjp_allowance(pool, x, g, gx))
    forget(pool, x)


def test_sums_do_not_lose_small_numbers():
    """Many small numbers beside a large one: sums have more bits than their terms (rule "Accumulation")."""
    x = np.full((1, 4099), 1.0, np.float32)
    x[0, 0] = 2.0**24
    pool = Pool(Sum(), Global(), (-1,))
    assert OnDevice(pool, x).forward().item() == 2.0**24 + 4098
    narrow = np.full((1, 3000), 1.0, np.float16)
    assert OnDevice(pool, narrow).forward().item() == 3000
    doubles = np.array([[1e16, 1.0, -1e16, 1.0]])
    assert OnDevice(pool, doubles).forward().item() == math.fsum(doubles[0])
