"""Affine maps below and above: nothing lies outside, in exact arithmetic; as tight as a linear programme says."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from boxes import as_fraction, ends, exactly, points, seeds
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import hostile
from ndpool import Adaptive, Avg, Global, Lp, Max, Median, Min, Mode, Pool, Quantile, SmoothMax, Sum, Window
from ndpool.bounds import relaxations
from ndpool.bounds.affine import OneCell, Pooled
from strategies import cases

FLAVOURS = ["normal", "degenerate", "ties", "subnormal", "infinite", "tiny", "wide", "huge"]
SELECTED = [Max(), Min("split")]
SMOOTH = [SmoothMax(2.0), SmoothMax(-0.7), SmoothMax(9.0, count_include_pad=False), Lp(1), Lp(2), Lp(3), Lp(1.3)]
EVERY = [*SELECTED, *SMOOTH, Median(), Quantile(0.3), Sum()]
UPPER = ["volume", "constant", "maxlin", "tilin"]


def matrix(affine):
    """The slopes of the map: a unit vector at a time, which rounds nothing."""
    shape = affine.frame.shape
    units = np.eye(math.prod(shape)).reshape(-1, *shape)
    return np.stack([affine.push(unit).ravel() for unit in units], 1)


def exact_value(slopes, bias, x):
    """`A x + bias` of the floats, in Fractions; a cell without a slope does not matter."""
    cells = [as_fraction(c) for c in x.astype(np.float64).ravel()]
    return [
        sum((Fraction(a) * c for a, c in zip(row, cells, strict=True) if a), as_fraction(b))
        for row, b in zip(slopes, bias.ravel(), strict=True)
    ]


def check_sound(pool, lo, hi, rng, count=3, **choices):
    lower, upper = pool.linear_bounds(lo, hi, **choices)
    maps = [(matrix(each), each.bias) for each in (lower, upper)]
    for slopes, bias in maps:
        assert np.isfinite(slopes).all()
        assert not np.isnan(bias).any()
    for x in points(rng, lo, hi, count):
        below, above = (exact_value(*each, x) for each in maps)
        for o, exact in enumerate(exactly(pool, x).ravel()):
            if exact is not None:
                assert below[o] <= exact[1], (pool, lo, hi, x, float(below[o] - exact[1]))
                assert exact[0] <= above[o], (pool, lo, hi, x, float(exact[0] - above[o]))
    return lower, upper


@given(
    cases(EVERY, max_cells=16, max_rank=2, empty=False),
    seeds(),
    st.sampled_from(FLAVOURS),
    st.sampled_from(hostile.FLOATS),
    st.sampled_from(UPPER),
    st.sampled_from(["volume", "lo"]),
)
def test_nothing_lies_outside(case, seed, flavour, dtype, upper, lower):
    rng = np.random.default_rng(seed)
    lo, hi = ends(rng, flavour, case.shape, dtype)
    check_sound(case.pool, lo, hi, rng, upper=upper, lower=lower)


@given(
    cases(SELECTED, max_cells=16, max_rank=2, empty=False), seeds(), st.sampled_from(["normal", "ties", "degenerate"])
)
def test_nothing_lies_outside_with_a_point_and_weights(case, seed, flavour):
    rng = np.random.default_rng(seed)
    lo, hi = ends(rng, flavour, case.shape, np.float64)
    at = np.clip(lo + (hi - lo) * rng.random(case.shape), lo, hi)
    weights = rng.random(case.shape) * (rng.random(case.shape) < 0.6)
    check_sound(case.pool, lo, hi, rng, at=at, lower=weights)


@given(cases([Avg(), Avg(False), Avg(divisor_override=5), Sum()], max_cells=40, empty=False), seeds())
def test_linear_kinds_are_their_own_bounds(case, seed):
    rng = np.random.default_rng(seed)
    lo, hi = ends(rng, "normal", case.shape, np.float64)
    maps = case.pool.linear_bounds(lo, hi)
    x, g = rng.normal(size=case.shape), rng.normal(size=case.pool.output_shape(case.shape))
    y, linear = case.pool.linearize(x)
    for each in maps:
        assert isinstance(each, Pooled)
        np.testing.assert_allclose(each.push(x), y, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(each.pull(g), linear.pull(g), rtol=1e-13, atol=1e-13)
        assert not each.bias.any()
    assert (maps[0](x) <= y).all()
    assert (y <= maps[1](x)).all()


@given(cases(EVERY, max_cells=30, empty=False), seeds())
def test_a_map_and_its_transpose(case, seed):
    """`<A t, g> = <t, A^T g>`, with axes in front too; values lie between what concretize says, and it is attained."""
    rng = np.random.default_rng(seed)
    lo, hi = ends(rng, "normal", case.shape, np.float64)
    t = rng.normal(size=(2, *case.shape))
    g = rng.normal(size=(2, *case.pool.output_shape(case.shape)))
    for each in case.pool.linear_bounds(lo, hi):
        np.testing.assert_allclose(np.sum(each.push(t) * g), np.sum(t * each.pull(g)), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(each.pull(g)[1], each.pull(g[1]), rtol=1e-12, atol=1e-12)
        slopes, (least, greatest) = matrix(each), each.concretize(lo, hi)
        ends_of = np.where(slopes > 0, lo.ravel(), hi.ravel()), np.where(slopes > 0, hi.ravel(), lo.ravel())
        for found, corner in zip((least, greatest), ends_of, strict=True):
            expected = (slopes * corner).sum(1).reshape(each.bias.shape) + each.bias
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        assert (least <= each(lo) + 1e-9).all()


@pytest.mark.parametrize("kind", [Max(), SmoothMax(1.5), Lp(2), Lp(3)], ids=repr)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_convex_kind_lies_below_its_upper_map_at_every_vertex(kind, n):
    """Which shows it on all of the box: a convex function is largest at a vertex, and so is what is left of a line."""
    rng = np.random.default_rng(n)
    pool = Pool(kind, Window((n,)))
    for flavour in ("normal", "ties", "wide"):
        lo, hi = ends(rng, flavour, (n,), np.float64)
        upper = pool.linear_bounds(lo, hi)[1]
        slopes = matrix(upper)
        for corner in itertools.product(*zip(lo, hi, strict=True)):
            x = np.array(corner)
            assert exactly(pool, x)[0][0] <= exact_value(slopes, upper.bias, x)[0]


# --- tightness ------------------------------------------------------------------------------------


def least_upper(lo, hi, centre):
    """The least value at `centre` of any affine map above max on the box: a linear programme over the vertices."""
    corners = np.array(list(itertools.product(*zip(lo, hi, strict=True))))
    found = linprog(
        [*centre, 1.0],
        A_ub=-np.hstack([corners, np.ones((len(corners), 1))]),
        b_ub=-corners.max(1),
        bounds=[(None, None)] * (len(lo) + 1),
        method="highs",
    )
    assert found.success
    return found.fun


@given(st.integers(1, 5), seeds(), st.sampled_from(["normal", "ties", "degenerate"]))
def test_the_volume_above_is_the_least_that_any_map_has(n, seed, flavour):
    """The volume below an affine map over a box is its value at the centre, times the box."""
    rng = np.random.default_rng(seed)
    lo, hi = ends(rng, flavour, (n,), np.float64)
    centre = (lo + hi) / 2
    _, upper = Pool(Max(), Window((n,))).linear_bounds(lo, hi)
    assert upper(centre)[0] == pytest.approx(least_upper(lo, hi, centre), abs=1e-9)


@given(st.integers(1, 5), seeds())
def test_at_a_point_no_map_is_tighter(n, seed):
    """The least over c is the concave envelope."""
    rng = np.random.default_rng(seed)
    lo, hi = ends(rng, "normal", (n,), np.float64)
    x = np.clip(lo + (hi - lo) * rng.random(n), lo, hi)
    _, upper = Pool(Max(), Window((n,))).linear_bounds(lo, hi, at=x)
    assert upper(x)[0] == pytest.approx(least_upper(lo, hi, x), abs=1e-9)


@given(st.integers(1, 5), seeds())
def test_the_volume_below_is_the_least_among_cells(n, seed):
    rng = np.random.default_rng(seed)
    lo, hi = ends(rng, "normal", (n,), np.float64)
    pool, centre = Pool(Max(), Window((n,))), (lo + hi) / 2
    below = pool.linear_bounds(lo, hi)[0](centre)[0]
    assert below == pytest.approx(centre.max(), abs=1e-12)
    assert below >= pool.linear_bounds(lo, hi, lower="lo")[0](centre)[0] - 1e-12


# The formulas of other tools, written down again.


def constant(lo, hi, x):
    """Most tools: the largest upper end, unless one cell is larger than all others everywhere."""
    lead = int(np.argmax(lo))
    others = np.delete(hi, lead)
    return x[lead] if not others.size or lo[lead] >= others.max() else hi.max()


def max_lin(lo, hi, x):
    """MaxLin: the cell with the largest upper end, by a line through the larger of the other ends and its lower one."""
    order = np.argsort(hi)[::-1]
    first = order[0]
    level = max(lo.max(), hi[order[1]]) if len(hi) > 1 else lo.max()
    if hi[first] == lo[first]:
        return max(hi[first], level)
    return level + (hi[first] - level) / (hi[first] - lo[first]) * (x[first] - lo[first])


def ti_lin(lo, hi, x):
    """Ti-Lin: the two cells with the largest upper ends, by the third."""
    order = np.argsort(hi)[::-1]
    level = max(lo.max(), hi[order[2]]) if len(hi) > 2 else lo.max()
    total = level
    for i in order[:2]:
        if hi[i] > lo[i]:
            total += max(0.0, hi[i] - level) / (hi[i] - lo[i]) * (x[i] - lo[i])
    return total


@given(st.integers(1, 6), seeds(), st.sampled_from(["normal", "ties", "degenerate"]))
def test_beside_the_formulas_of_other_tools(n, seed, flavour):
    """Ours by their names are theirs, point by point; the default is never looser than any at the centre."""
    rng = np.random.default_rng(seed)
    lo, hi = ends(rng, flavour, (n,), np.float64)
    pool, centre = Pool(Max(), Window((n,))), (lo + hi) / 2
    named = {"maxlin": max_lin, "tilin": ti_lin}
    for x in points(rng, lo, hi, 3):
        for name, formula in named.items():
            assert pool.linear_bounds(lo, hi, name)[1](x)[0] == pytest.approx(formula(lo, hi, x), abs=1e-9)
    default = pool.linear_bounds(lo, hi)[1](centre)[0]
    for formula in (constant, max_lin, ti_lin):
        assert default <= formula(lo, hi, centre) + 1e-9


def test_one_cell_that_leads_everywhere_is_the_maximum_itself():
    lo, hi = np.array([0.1, 3.0, -1.0]), np.array([2.0, 3.7, 2.9])
    for kind, sign in ((Max(), 1), (Min(), -1)):
        for upper in ("volume", "maxlin", "tilin"):
            a, b = (lo, hi) if sign > 0 else (-hi, -lo)
            for each in Pool(kind, Window((3,))).linear_bounds(a, b, upper):
                assert matrix(each).tolist() == [[0, 1, 0]]
                assert each.bias.tolist() == [0]


def test_norms_of_power_one_are_exact():
    """Signs that are known, and chords of the others."""
    lo, hi = np.array([1.0, -3.0, -2.0]), np.array([2.0, -1.0, 6.0])
    lower, upper = Pool(Lp(1), Window((3,))).linear_bounds(lo, hi)
    assert matrix(lower).tolist() == [[1, -1, 1]]
    np.testing.assert_allclose(matrix(upper), [[1, -1, 0.5]], rtol=1e-14)
    np.testing.assert_allclose(upper.bias, [3], rtol=1e-13)


@pytest.mark.parametrize("kind", SMOOTH, ids=repr)
def test_smooth_kinds_touch_at_the_centre_and_shrink_with_the_box(kind):
    """Below, the tangent is exact at the centre; the gap falls with the square of the box's width."""
    rng = np.random.default_rng(0)
    centre, pool, gaps = rng.uniform(0.5, 2, 4), Pool(kind, Window((4,))), []
    for width in (0.02, 0.01):
        lower, upper = pool.linear_bounds(centre - width, centre + width)
        touching = lower if getattr(kind, "beta", 1) > 0 else upper
        np.testing.assert_allclose(touching(centre), pool(centre), rtol=1e-9)
        gaps.append(float((upper(centre) - lower(centre))[0]))
    if kind != Lp(1):
        assert gaps[1] < gaps[0] / 3.5


@pytest.mark.parametrize("pad", [1, 2])
@pytest.mark.parametrize("kind", [SmoothMax(1.5), SmoothMax(-1.5)], ids=repr)
def test_padded_zeros_take_their_share(kind, pad):
    rng = np.random.default_rng(2)
    pool = Pool(kind, Window((4,), 2, pad))
    for _ in range(20):
        lo, hi = ends(rng, "normal", (2, 5), np.float64)
        check_sound(pool, lo, hi, rng)


# --- ways and layouts -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SELECTED, ids=repr)
@pytest.mark.parametrize(
    ("window", "axes"),
    [
        (Window((2, 2)), (2, 3)),
        (Window((3, 3), 2, 1, ceil_mode=True), (2, 3)),
        (Window((3, 2), 1, ((2, 0), (0, 1)), 2), (1, 3)),
        (Adaptive((2, 3)), (2, 3)),
        (Adaptive((9, 2)), (2, 3)),
        (Global(keepdims=False), (1, 2)),
    ],
)
def test_layouts_and_the_general_way_agree(kind, window, axes):
    rng = np.random.default_rng(0)
    shape = (3, 4, 6, 5)
    lo, hi = ends(rng, "normal", shape, np.float32)
    pool, x = Pool(kind, window, axes), rng.normal(size=shape)
    wanted = pool.linear_bounds(lo, hi)
    assert all(isinstance(each, OneCell) for each in wanted)
    general = relaxations._by_windows(pool, wanted[0].frame, lo, hi, 1, False, None, None)
    fortran = pool.linear_bounds(np.asfortranarray(lo), np.asfortranarray(hi))
    for other in (general, fortran):
        for one, two in zip(wanted, other, strict=True):
            assert one.above == two.above
            np.testing.assert_allclose(one.push(x), two.push(x), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(one.bias, two.bias, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [Max(), Min(), Avg(), Sum(), SmoothMax(1.0), Lp(2), Median()], ids=repr)
@pytest.mark.parametrize("skip", [math.nan, -9.0])
def test_skipped_cells(kind, skip):
    rng = np.random.default_rng(1)
    pool = Pool(kind, Window((3,), 2, 1), None, skip, 2)
    for _ in range(10):
        lo, hi = ends(rng, "normal", (2, 9), np.float64)
        gone = rng.random(lo.shape) < 0.5
        lo[gone] = hi[gone] = skip
        lower, upper = pool.linear_bounds(lo, hi)
        few = np.array([y is None for y in exactly(pool, lo).ravel()]).reshape(lower.bias.shape)
        for x in points(rng, lo, hi, 3):
            x = np.where(gone, skip, x)
            y, plain = pool(x), np.where(gone, 0.0, x)
            assert (lower(plain)[~few] <= y[~few] + 1e-12).all()
            assert (y[~few] <= upper(plain)[~few] + 1e-12).all()
            for each in (lower, upper):
                np.testing.assert_allclose(each(plain)[few], skip, rtol=1e-6)


def test_integers_are_read_as_doubles():
    lower, upper = Pool(Max(), Window((2,))).linear_bounds([0, 1], [4, 2])
    assert upper([3, 1])[0] == pytest.approx(3.5)
    assert lower([3, 1])[0] == pytest.approx(3)
    with pytest.raises(ValueError, match="hi has integers that no double holds exactly"):
        Pool(Max(), Window((2,))).linear_bounds(np.array([0, 1]), np.array([2**53 + 1, 2]))


def test_empty_batches():
    for kind in (Max(), Avg(), SmoothMax(1.0), Lp(2), Median()):
        for each in Pool(kind, Window((2,))).linear_bounds(np.zeros((0, 4)), np.zeros((0, 4))):
            assert each(np.zeros((0, 4))).shape == (0, 2)
            assert each.pull(np.zeros((3, 0, 2))).shape == (3, 0, 4)


# --- what is refused ------------------------------------------------------------------------------


def test_bad_choices():
    pool, lo, hi = Pool(Max(), Window((2,))), [0.0, 1.0], [2.0, 3.0]
    with pytest.raises(ValueError, match="upper='best' is not a way to choose the map above; give one of"):
        pool.linear_bounds(lo, hi, "best")
    with pytest.raises(ValueError, match="lower='hi' is not a way to choose the map below"):
        pool.linear_bounds(lo, hi, lower="hi")
    with pytest.raises(ValueError, match=r"at\[1\] = 5.0 is not between 1.0 and 3.0; give a point of the box"):
        pool.linear_bounds(lo, hi, at=[0.0, 5.0])
    with pytest.raises(ValueError, match=r"at has shape \(3,\) and the box \(2,\)"):
        pool.linear_bounds(lo, hi, at=[0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="lower has a weight that is negative or not finite"):
        pool.linear_bounds(lo, hi, lower=[-1.0, 2.0])
    with pytest.raises(TypeError, match="is rounded to integers and no affine map is near it"):
        Pool(Avg(rounding="floor"), Window((2,))).linear_bounds([0, 1], [2, 3])
    with pytest.raises(TypeError, match="has no bounds: the value that most cells have jumps"):
        Pool(Mode(), Window((2,))).linear_bounds(lo, hi)
    lower, upper = pool.linear_bounds(lo, hi)
    with pytest.raises(ValueError, match=r"x has shape \(3,\) and should have \(2,\)"):
        lower([0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match=r"g has shape \(2,\) and should have \(1,\)"):
        upper.pull([0.0, 1.0])
    assert repr(upper) == "<affine map above, (2,) -> (1,)>"
