"""Bounds through programs: nothing lies outside, in exact arithmetic; beside the formulas of others; certificates."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from boxes import as_fraction, points, seeds
from hypothesis import given
from hypothesis import strategies as st

from ndpool import Adaptive, Avg, Graph, Lp, Max, Median, Mode, Pool, SmoothMax, Window, ops, spec
from ndpool.bounds import networks, relaxations

METHODS = ["ibp", "crown"]


def rounded(rng, shape, step=8):
    """Small Fractions as doubles, so that exact runs stay short."""
    return rng.integers(-2 * step, 2 * step + 1, shape) / step


# --- random programs ------------------------------------------------------------------------------

RATIONAL = [
    "conv",
    "linear",
    "matmul",
    "relu",
    "leaky",
    "scale",
    "add",
    "sub",
    "mul",
    "mean",
    "transpose",
    "max",
    "min",
    "avg",
    "sum",
    "median",
]
SMOOTH = ["tanh", "sigmoid", "softmax", "log_softmax", "smooth", "lp"]


def grown(rng, names, steps):
    """A program of one input (2, 2, 4) that is made of `steps` ops; constants are small Fractions."""
    g = Graph()
    first = g.input((2, 2, 4), name="x")
    made = [first]
    for _ in range(steps):
        x = made[int(rng.integers(max(0, len(made) - 2), len(made)))]
        made.append(_next(g, rng, names[int(rng.integers(len(names)))], x, made))
    return g.build(made[-1])


def _next(g, rng, name, x, made):
    length = x.shape[-1]
    same = [v for v in made if v.shape == x.shape]
    other = same[int(rng.integers(len(same)))]
    constant = lambda *shape: g.constant(rounded(rng, shape))  # noqa: E731
    rank3 = len(x.shape) == 3
    made_by = {
        "conv": lambda: g.conv(x, constant(2, x.shape[1], 2), constant(2), padding="same") if rank3 else g.relu(x),
        "linear": lambda: g.linear(x, constant(3, length), constant(3)),
        "matmul": lambda: g.matmul(x, constant(length, 3)),
        "relu": lambda: g.relu(x),
        "leaky": lambda: g.leaky_relu(x, float(rng.choice([0.25, 0.5, 2.0]))),
        "scale": lambda: g.scale(x, float(rng.choice([-1.5, 0.5, 2.0]))),
        "add": lambda: g.add(x, other),
        "sub": lambda: g.sub(x, constant(length)) if rng.random() < 0.5 else g.sub(other, x),
        "mul": lambda: g.mul(x, constant(length)) if rng.random() < 0.5 else g.mul(x, other),
        "mean": lambda: g.mean(x, -1, keepdims=True) if rng.random() < 0.5 else g.sum(x, 0, keepdims=True),
        "transpose": lambda: g.transpose(g.reshape(x, (x.shape[0], -1, length)), (0, 2, 1)),
        "max": lambda: g.max_pool(x, (2,), 1, padding=1),
        "min": lambda: g.min_pool(x, (min(2, length),), 1),
        "avg": lambda: g.avg_pool(x, (2,), 1, padding=1),
        "sum": lambda: g.apply(Pool(Avg(), Adaptive((2,))), x),
        "median": lambda: g.apply(Pool(Median(), Window((3,), 1, 1)), x),
        "tanh": lambda: g.tanh(x),
        "sigmoid": lambda: g.sigmoid(x),
        "softmax": lambda: g.softmax(x),
        "log_softmax": lambda: g.log_softmax(x),
        "smooth": lambda: g.apply(Pool(SmoothMax(float(rng.choice([1.5, -1.0]))), Window((2,), 1, 1)), x),
        "lp": lambda: g.apply(Pool(Lp(float(rng.choice([1, 2, 3]))), Window((2,), 1, 1)), x),
    }
    return made_by[name]()


@given(seeds(), st.integers(1, 7), st.sampled_from([0.0, 0.125, 1.0]))
def test_rational_programs_in_fractions(seed, steps, radius):
    rng = np.random.default_rng(seed)
    f = grown(rng, RATIONAL, steps)
    centre = rounded(rng, (2, 2, 4))
    lo, hi = centre - radius * rng.random(centre.shape).round(3), centre + radius * rng.random(centre.shape).round(3)
    found = {method: f.bounds(lo, hi, method) for method in METHODS}
    for x in points(rng, lo, hi, 2):
        exact = f(spec.fractions(x)).ravel()
        for method, (low, high) in found.items():
            for y, a, b in zip(exact, low.ravel(), high.ravel(), strict=True):
                assert as_fraction(a) <= Fraction(y) <= as_fraction(b), (method, str(f), float(y), a, b)
    assert (found["crown"][0] >= found["ibp"][0] - 1e-9).all()
    assert (found["crown"][1] <= found["ibp"][1] + 1e-9).all()


@given(seeds(), st.integers(1, 6))
def test_any_program_in_doubles(seed, steps):
    rng = np.random.default_rng(seed)
    f = grown(rng, RATIONAL + SMOOTH + SMOOTH, steps)
    centre = rounded(rng, (2, 2, 4))
    lo, hi = centre - rng.random(centre.shape) * 0.3, centre + rng.random(centre.shape) * 0.3
    for method in METHODS:
        low, high = f.bounds(lo, hi, method)
        for x in points(rng, lo, hi, 6):
            y = f(x)
            slack = 1e-11 * (1 + np.abs(y))
            assert (low <= y + slack).all(), (method, str(f), (low - y).max())
            assert (y <= high + slack).all(), (method, str(f), (y - high).max())


def test_a_program_within_a_program():
    inner = Graph()
    x = inner.input((2, 4))
    g = Graph()
    y = g.input((2, 4))
    f = g.build(g.relu(g.apply(inner.build(inner.max_pool1d(inner.scale(x, -1.0), 2)), y)))
    low, high = f.bounds(np.zeros((2, 4)), np.ones((2, 4)), "crown")
    assert (low <= 0).all()
    assert (high >= 0).all()
    assert (np.abs([low, high]) < 1e-9).all()


def test_weights_that_vary_and_several_outputs():
    g = Graph()
    x, w, b = g.input((1, 3), name="x"), g.input((2, 3), name="w"), g.input((2,), name="b")
    y = g.linear(x, w, b)
    f = g.build(y, g.relu(y))
    rng = np.random.default_rng(0)
    for vary in (0.0, 0.2):
        centre = [rng.normal(size=v.shape) for v in (x, w, b)]
        los = tuple(c - vary * 0.5 - (0.1 if k == 0 else 0) for k, c in enumerate(centre))
        his = tuple(c + vary + (0.1 if k == 0 else 0) for k, c in enumerate(centre))
        for method in METHODS:
            (l0, l1), (h0, h1) = f.bounds(los, his, method)
            for _ in range(30):
                at = [lo + (hi - lo) * rng.random(lo.shape) for lo, hi in zip(los, his, strict=True)]
                y0, y1 = f(*at)
                assert ((l0 <= y0) & (y0 <= h0)).all()
                assert ((l1 <= y1) & (y1 <= h1)).all()


def test_infinite_inputs_say_that_nothing_is_known():
    g = Graph()
    x = g.input((1, 1, 4))
    f = g.build(g.relu(g.conv(g.max_pool1d(x, 2), g.constant([[[1.0, -1.0]]]))))
    for method in METHODS:
        low, high = f.bounds(np.full((1, 1, 4), -np.inf), np.zeros((1, 1, 4)), method)
        assert low.ravel() == 0
        assert high.ravel() == np.inf


# --- beside others --------------------------------------------------------------------------------


def lenet(rng, window, shape=(1, 1, 12, 12)):
    """Two convolutions with pooling after each, and two dense layers."""
    g = Graph()
    x = g.input(shape, name="x")
    h = g.conv(x, g.constant(rng.normal(size=(4, 1, 3, 3)) * 0.4), g.constant(rng.normal(size=4) * 0.1))
    h = g.apply(Pool(Max(), window), g.relu(h))
    h = g.conv(h, g.constant(rng.normal(size=(6, 4, 2, 2)) * 0.3), g.constant(rng.normal(size=6) * 0.1))
    h = g.flatten(g.apply(Pool(Max(), Window((2, 2))), g.relu(h)))
    h = g.relu(g.linear(h, g.constant(rng.normal(size=(10, h.shape[1])) * 0.3)))
    return g.build(g.linear(h, g.constant(rng.normal(size=(5, 10)) * 0.3)))


def theirs(pool, lo, hi, upper="volume", lower="volume", at=None):
    """auto_LiRPA's relaxation: below the cell with the largest lower end, above a constant."""
    return original(pool, lo, hi, "constant", "lo", at)


original = relaxations.linear_bounds


@pytest.mark.parametrize("eps", [0.005, 0.02, 0.1])
def test_crown_is_no_wider_than_with_the_relaxation_of_auto_lirpa(eps, monkeypatch):
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(4):
        f, x = lenet(rng, Window((2, 2))), rng.normal(size=(1, 1, 12, 12))
        low, high = f.bounds(x - eps, x + eps, "crown")
        monkeypatch.setattr(relaxations, "linear_bounds", theirs)
        their_low, their_high = f.bounds(x - eps, x + eps, "crown")
        monkeypatch.undo()
        ratios.append(float((high - low).mean() / (their_high - their_low).mean()))
    assert max(ratios) <= 1 + 1e-9
    assert np.mean(ratios) < 0.99


def padded_lower_of_auto_lirpa(x_lo, x, kernel, padding):
    """Its map below a padded Max: the winner's place in the array without padding, put into the one with padding.

    `scatter` of indices that count W cells a row into rows of W + 2 padding, and then the padding is cut off.
    """
    pool = Pool(Max(), Window((kernel, kernel), kernel, padding))
    index = pool.with_indices(x_lo)[1]
    height, width = x_lo.shape
    selected = np.zeros((height + 2 * padding) * (width + 2 * padding))
    selected[index.ravel()] = 1.0
    selected = selected.reshape(height + 2 * padding, width + 2 * padding)
    padded = np.pad(x, padding)
    sums = (selected * padded)[: pool.output_shape(x.shape)[0] * kernel, : pool.output_shape(x.shape)[1] * kernel]
    return sums.reshape(-1, kernel, sums.shape[1] // kernel, kernel).sum((1, 3))


@pytest.mark.parametrize("around", [0.0, -5.0])
def test_padding_is_right_where_that_of_auto_lirpa_is_not(around):
    rng = np.random.default_rng(0)
    eps, pool, wrong = 1e-3, Pool(Max(), Window((3, 3), 3, 1)), []
    for _ in range(20):
        x = rng.normal(size=(8, 8)) + around
        y = pool(x)
        lower, upper = pool.linear_bounds(x - eps, x + eps)
        assert (lower(x) <= y).all()
        assert (y <= upper(x)).all()
        assert (upper(x) - lower(x)).max() <= 2.1 * eps
        wrong.append(float((padded_lower_of_auto_lirpa(x - eps, x, 3, 1) - y).max()))
    assert max(wrong) > (0.3 if around == 0 else 3)


@pytest.mark.parametrize(
    "window",
    [Window((3, 3), 2, 1), Window((3, 3), 1), Window((2, 2), 2, dilation=2), Window((3, 3), 2, ceil_mode=True)],
    ids=repr,
)
def test_windows_that_others_refuse(window):
    rng = np.random.default_rng(1)
    f, x = lenet(rng, window), rng.normal(size=(1, 1, 12, 12))
    low, high = f.bounds(x - 0.01, x + 0.01, "crown")
    wide_low, wide_high = f.bounds(x - 0.01, x + 0.01, "ibp")
    for at in points(rng, x - 0.01, x + 0.01, 20):
        y = f(at)
        assert ((low <= y) & (y <= high)).all()
    assert (high - low).mean() < 0.8 * (wide_high - wide_low).mean()


def test_rows_go_back_in_parts(monkeypatch):
    rng = np.random.default_rng(0)
    f, x = lenet(rng, Window((2, 2))), rng.normal(size=(1, 1, 12, 12))
    whole = f.bounds(x - 0.02, x + 0.02)
    monkeypatch.setattr(networks, "ROWS_CELLS", 3000)
    for one, two in zip(whole, f.bounds(x - 0.02, x + 0.02), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9)


# --- certificates ---------------------------------------------------------------------------------


def pair():
    """Two classes, of which the outputs are the largest of two cells each."""
    g = Graph()
    return g.build(g.max_pool1d(g.input((1, 4), name="x"), 2))


def test_robust_and_not():
    f, x = pair(), np.array([[0.0, 1.0, 5.0, 4.0]])
    for method in METHODS:
        assert f.certify(x, 1.9, 1, method=method).is_robust
        found = f.certify(x, 2.1, 1, method=method)
        assert found.verdict == "counterexample"
        assert f(found.counterexample).argmax() == 0
        assert np.abs(found.counterexample - x).max() <= 2.1
        assert found.margin <= 0
    assert f.certify(x, 1.0, 0).verdict == "counterexample"
    assert f.certify(x, 2.1, 1, steps=0).verdict == "not shown"
    assert repr(f.certify(x, 1.5, 1)).startswith("Certificate('robust', margin=1")


def test_clips_hold_the_input():
    f, x = pair(), np.array([[0.0, 1.0, 5.0, 4.0]])
    assert f.certify(x, 10.0, 1, clip=(-1.0, 5.0)).verdict == "counterexample"
    g = Graph()
    y = g.input((1, 2), dtype=np.float32)
    f = g.build(y)
    x = np.array([[0.9, 0.2]], np.float32)
    assert f.certify(x, 0.5, 0, clip=(0.0, 1.0)).verdict == "counterexample"
    assert f.certify(x, 0.3, 0, clip=(0.0, 1.0)).is_robust


@given(seeds(), st.sampled_from([0.01, 0.1, 0.5]))
def test_verdicts_hold(seed, eps):
    """Nothing of a box that was called robust has another label; a counterexample is in the box, and has one."""
    rng = np.random.default_rng(seed)
    g = Graph()
    x = g.input((1, 1, 6, 6), name="x", dtype=np.float32)
    w, b = g.input((3, 1, 3, 3), name="w", dtype=np.float32), g.input((4, 12), name="b", dtype=np.float32)
    h = g.flatten(g.max_pool2d(g.relu(g.conv(x, w)), 2))
    f = g.build(g.linear(h, b))
    xs = tuple(rng.normal(size=v.shape).astype(np.float32) for v in (x, w, b))
    label = int(f(*xs).argmax())
    found = f.certify(xs, eps, label, moved="x")
    if found.is_robust:
        for _ in range(50):
            near = xs[0] + (rng.choice([-1, 1, rng.random()], xs[0].shape) * eps * 0.999).astype(np.float32)
            assert f(near, *xs[1:]).argmax() == label
    elif found.counterexample is not None:
        assert f(found.counterexample, *xs[1:]).argmax() != label or found.margin <= 0
        assert np.abs(found.counterexample.astype(np.float64) - xs[0]).max() <= eps * (1 + 1e-12)


# --- what is refused ------------------------------------------------------------------------------


def test_bad_boxes_and_methods():
    f = pair()
    x = np.zeros((1, 4))
    with pytest.raises(ValueError, match="method='exact' is not a method; give one of"):
        f.bounds(x, x, "exact")
    with pytest.raises(ValueError, match=r"node 'x' \(input\): lo\[0, 2\] = 1.0 is above hi\[0, 2\] = 0.0"):
        f.bounds(np.array([[0, 0, 1.0, 0]]), x)
    with pytest.raises(ValueError, match=r"node 'x' \(input\) was declared with shape \(1, 4\) and got \(2,\)"):
        f.bounds([0.0, 1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="NaN is no end of a box"):
        f.bounds(np.full((1, 4), math.nan), x)
    with pytest.raises(ValueError, match=r"inputs_lo has 2 arrays and the program 1 inputs"):
        f.bounds((x, x), (x, x))


def test_an_op_without_a_rule_is_named():
    g = Graph()
    x = g.input((1, 4), name="x")
    loss = g.build(g.cross_entropy(x, g.constant([1]), name="loss"))
    with pytest.raises(
        TypeError,
        match=r"node 'loss' \(CrossEntropy\(\)\): no rule bounds CrossEntropy\(\); there are rules for Add, Conv",
    ):
        loss.bounds(np.zeros((1, 4)), np.ones((1, 4)))
    mode = g.build(g.apply(Pool(Mode(), Window((2,))), x, name="mode"))
    for method in METHODS:
        with pytest.raises(TypeError, match=r"node 'mode' .*: Mode\(ties='first'\) has no bounds"):
            mode.bounds(np.zeros((1, 4)), np.ones((1, 4)), method)

    class Cube:
        def output_shape(self, shape):
            return tuple(shape)

        def __call__(self, x):
            return np.asarray(x) ** 3

        def jvp(self, x, t):
            return self(x), 3 * np.asarray(x) ** 2 * t

        def vjp(self, x):
            return self(x), lambda g: 3 * np.asarray(x) ** 2 * g

    cube = g.build(g.apply(Cube(), x, name="cube"))
    with pytest.raises(TypeError, match=r"node 'cube' .*: no rule bounds"):
        cube.bounds(np.zeros((1, 4)), np.ones((1, 4)), "ibp")


def test_bad_questions():
    f, x = pair(), np.zeros((1, 4))
    with pytest.raises(ValueError, match="eps=-1 is no distance; give a finite number from 0 up"):
        f.certify(x, -1, 0)
    with pytest.raises(ValueError, match="label=2 is none of 2 classes; give an int from 0 to 1"):
        f.certify(x, 0.1, 2)
    with pytest.raises(ValueError, match=r"moved='w' is no input of the program; give one of \['x'\]"):
        f.certify(x, 0.1, 0, moved="w")
    with pytest.raises(ValueError, match=r"clip=\(1, 2\) has not all of input 'x' between its ends"):
        f.certify(x, 0.1, 0, clip=(1, 2))
    with pytest.raises(ValueError, match="method='exact' is not a method"):
        f.certify(x, 0.1, 0, method="exact")
    with pytest.raises(ValueError, match="has a cell that is not finite"):
        f.certify(np.full((1, 4), np.inf), 0.1, 0)
    g = Graph()
    y = g.input((2, 4))
    with pytest.raises(ValueError, match=r"the output has shape \(2, 2\); give a program of one example"):
        g.build(g.max_pool1d(y, 2)).certify(np.zeros((2, 4)), 0.1, 0)
    with pytest.raises(ValueError, match="the program has 2 outputs; build one that gives the logits alone"):
        g.build(y, g.relu(y)).certify(np.zeros((2, 4)), 0.1, 0)
    whole = Graph()
    z = whole.input((1, 2), name="z", dtype=np.int64)
    with pytest.raises(TypeError, match="input 'z' has dtype int64, and only floats are moved"):
        whole.build(z).certify(np.array([[1, 2]]), 0.1, 0)


def test_every_op_of_a_graph_has_a_rule_or_is_a_loss():
    from ndpool.bounds.op_intervals import RULES

    classes = {getattr(ops, name) for name in ops.__all__} - {ops.Op}
    assert classes - set(RULES) == {ops.CrossEntropy, ops.MeanSquaredError}
