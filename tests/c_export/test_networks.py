"""Networks as C: results within float32's roundings of Python's, memory used again, what cannot be written refused."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from building import COMPILERS, Library, program, run, written

from ndpool import Graph, Max, Pool, Window
from ndpool.c import export
from ndpool.c.arena import Lifetime, offsets
from ndpool.c.rounding import with_errors
from ndpool.layers import (
    AdaptiveAvgPool,
    AvgPool2D,
    Conv1D,
    Conv2D,
    Dense,
    Flatten,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxPool1D,
    MaxPool2D,
    OpLayer,
    ReLU,
    Sequential,
    SmoothMaxPoolND,
)
from ndpool.ops import Softmax

pytestmark = pytest.mark.skipif(not COMPILERS, reason="no C compiler: install gcc or clang")
SANITIZED = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


class SoftmaxLayer(OpLayer):
    def op(self, shape):
        return Softmax()


NETWORKS = {
    "signals": (
        (1, 1, 64),
        lambda: [
            *(Conv1D(1, 8, 5, rng=0), ReLU(), MaxPool1D(2)),
            *(Conv1D(8, 16, 3, rng=1), ReLU(), MaxPool1D(2)),
            *(Flatten(), Dense(224, 3, rng=2)),
        ],
    ),
    "digits": (
        (1, 1, 8, 8),
        lambda: [
            *(Conv2D(1, 6, 3, padding="same", rng=0), ReLU(), AvgPool2D(2, 2)),
            *(Conv2D(6, 8, 3, padding=1, rng=1), ReLU(), GlobalMaxPool()),
            *(Flatten(), Dense(8, 10, rng=2), SoftmaxLayer()),
        ],
    ),
    "batch": (
        (3, 2, 11),
        lambda: [
            *(Conv1D(2, 4, 3, stride=2, padding=2, dilation=2, bias=False, rng=0), SmoothMaxPoolND(2.0, (2,)), ReLU()),
            *(Flatten(), Dense(12, 5, bias=False, rng=1), ReLU()),
        ],
    ),
    "bins": (
        (1, 3, 10, 7),
        lambda: [
            *(Conv2D(3, 5, (3, 1), stride=(1, 2), padding=((2, 0), (0, 0)), rng=3), ReLU()),
            *(AdaptiveAvgPool((3, 2)), MaxPool2D(2, 2, 1, 1), Flatten()),
        ],
    ),
    "one by one": ((1, 1, 4, 4), lambda: [Conv2D(1, 1, 1, rng=3), GlobalAvgPool()]),
    "relu first": (
        (2, 7),
        lambda: [ReLU(), Dense(7, 4, rng=0), Dense(4, 4, rng=1), ReLU(), ReLU(), Dense(4, 1, rng=2)],
    ),
    "last flatten": ((1, 2, 6), lambda: [MaxPool1D(2), Flatten()]),
}


def made(name):
    shape, layers = NETWORKS[name]
    return Sequential(*layers()), shape


def name_of(name):
    return re.sub(r"\W", "_", name)


@pytest.fixture(scope="module")
def codes():
    found = {}
    for name in NETWORKS:
        network, shape = made(name)
        found[name] = export(network, shape, name=name_of(name))
    return found


def test_self_tests_pass_under_sanitizers_without_a_warning(codes, tmp_path):
    written(list(codes.values()), tmp_path)
    for compiler in COMPILERS:
        run(program(compiler, list(codes.values()), tmp_path, SANITIZED if compiler == "gcc" else ["-O1"]))


def test_results_are_those_of_python(codes, tmp_path):
    library = Library(COMPILERS[-1], list(codes.values()), tmp_path)
    rng = np.random.default_rng(1)
    for name, code in codes.items():
        network, shape = made(name)
        for _ in range(20):
            x = rng.standard_normal(shape).astype(np.float32)
            expected = network.eval()(x.astype(np.float64))
            y = np.full(expected.shape, np.nan, np.float32)
            arena = np.full(code.sizes.scratch_bytes // 4 + 8, 77, np.float32)
            library.call(f"{code.name}_run", x, y, arena)
            assert (arena[code.sizes.scratch_bytes // 4 :] == 77).all()
            np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-6, err_msg=name)


def test_the_stated_errors_are_bounds_and_not_too_wide(tmp_path):
    _, shape = made("digits")
    graph = Graph()
    rng = np.random.default_rng(2)
    x = graph.input(shape, name="x", dtype=np.float32)
    w = graph.constant(rng.standard_normal((4, 1, 3, 3)))
    y = graph.lp_pool2d(graph.sum_pool2d(graph.conv(x, w), 2, stride=1), 2.0, 2)
    f = graph.build(graph.smooth_max_pool2d(y, 1.5, 2))
    code = export(f, name="bounded")
    library = Library(COMPILERS[0], [code], tmp_path)
    worst = 0.0
    for _ in range(50):
        given = rng.standard_normal(shape).astype(np.float32)
        exact, error = with_errors(f, given)
        out = np.empty(exact.shape, np.float32)
        library.call("bounded_run", given, out, np.empty(code.sizes.scratch_bytes // 4, np.float32))
        assert (np.abs(out - exact) <= error + np.spacing(np.abs(out))).all()
        worst = max(worst, float(np.max(error / np.abs(exact))))
    assert worst < 1e-3


# --- memory ---------------------------------------------------------------------------------------


def test_memory_is_used_again(codes):
    """64 -> 8 x 60 -> 8 x 30, in place; then beside it 16 x 28, in place."""
    signals = codes["signals"]
    assert signals.sizes.scratch_bytes == 4 * (8 * 30 + 16 * 28)
    assert "#define SIGNALS_SCRATCH_BYTES 2752 " in signals.header
    assert "signals_max_pool_1(memory, memory);" in signals.source
    assert signals.sizes.constant_bytes == 4 * (8 * 5 + 8 + 16 * 8 * 3 + 16 + 3 * 224 + 3)


def test_a_network_without_values_between_needs_no_arena(codes):
    assert codes["last flatten"].sizes.scratch_bytes == 0
    assert "(void)arena;" in codes["last flatten"].source


def test_values_that_live_together_do_not_lie_together():
    rng = np.random.default_rng(0)
    for _ in range(300):
        groups = []
        for _ in range(rng.integers(1, 8)):
            start, group = int(rng.integers(0, 6)), []
            for _ in range(rng.integers(1, 4)):
                end = start + int(rng.integers(0, 4))
                group.append(Lifetime(4 * int(rng.integers(1, 50)), start, end))
                start = end
            groups.append(group)
        found, total = offsets(groups)
        for step in range(40):
            live = [
                (at, at + value.bytes, i)
                for i, (group, at) in enumerate(zip(groups, found, strict=True))
                for value in group
                if value.made <= step <= value.last_read
            ]
            assert all(end <= total for _, end, _ in live)
            for a in live:
                assert all(a[1] <= b[0] or b[1] <= a[0] for b in live if b[2] != a[2])
        assert total <= sum(max(value.bytes for value in group) for group in groups)


def test_a_value_that_is_read_twice_is_kept(tmp_path):
    """Two relus of one value: neither may overwrite it for the other."""
    graph = Graph()
    x = graph.input((1, 1, 8), dtype=np.float32)
    w = graph.constant(np.array([[[1.0, -1.0, 0.5]]], np.float32))
    shared = graph.conv(x, w)
    first = graph.max_pool1d(graph.relu(shared), 2)
    with pytest.raises(TypeError, match="Add"):
        export(graph.build(graph.add(first, graph.max_pool1d(shared, 2))))
    code = export(graph.build(graph.max_pool1d(graph.relu(shared), 2)), name="one")
    library = Library(COMPILERS[0], [code], tmp_path)
    x = np.arange(8, dtype=np.float32)
    y = np.empty(3, np.float32)
    library.call("one_run", x, y, np.empty(64, np.float32))
    np.testing.assert_allclose(y, np.maximum(0.5 * x[2:] + x[:-2] - x[1:-1], 0)[1::2])


# --- refusals -------------------------------------------------------------------------------------


def graph_of(make, shape=(1, 1, 8), dtype=np.float32):
    graph = Graph()
    x = graph.input(shape, name="x", dtype=dtype)
    return graph.build(make(graph, x))


W = np.ones((1, 1, 3), np.float32)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda g, x: g.tanh(x), TypeError, r"node 'tanh_1' \(Tanh\(\)\) is not written in C; the ops that are: Conv"),
        (lambda g, x: g.conv(x, g.input((1, 1, 3), name="w")), ValueError, r"2 inputs \(x, w\).*graph.constant"),
        (lambda g, x: g.conv(x, g.relu(g.constant(W))), ValueError, "is computed of a constant; compute it before"),
        (lambda g, x: g.conv(x, g.constant(W * np.nan)), ValueError, "NaN or a number too large for float32"),
        (lambda g, x: g.conv(x, g.constant(np.full((1, 1, 3), 1e39))), ValueError, "too large for float32"),
        (lambda g, x: g.median_pool1d(x, 2), TypeError, r"median_pool_1.*Median\(\) is not written in C"),
        (lambda g, x: g.max_pool1d(x, 2, skip=0.0), ValueError, "skip=0.0 is not written in C"),
        (lambda g, x: x, ValueError, "nothing to compute"),
        (lambda g, x: g.flatten(x), ValueError, "nothing to compute"),
    ],
)
def test_what_cannot_be_written_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        export(graph_of(make))


def test_other_refusals():
    network, shape = made("signals")
    with pytest.raises(TypeError, match="shape is missing; give that of the network's input"):
        export(network)
    with pytest.raises(TypeError, match=r"shape=\(1, 2\) beside a program, which says its shape itself"):
        export(graph_of(lambda g, x: g.relu(x)), (1, 2))
    with pytest.raises(TypeError, match="dtype='int8' of a network is not written in C; networks are float32"):
        export(network, shape, "int8")
    with pytest.raises(ValueError, match="profile='tflite' is for the average of integers, and networks are float32"):
        export(network, shape, profile="tflite")
    with pytest.raises(ValueError, match="vjp=True is for a pool, and this is a network"):
        export(network, shape, vjp=True)
    with pytest.raises(TypeError, match=r"give a Pool, a program that Graph\.build made, or a Sequential"):
        export(max)
    graph = Graph()
    x = graph.input((1, 4), dtype=np.float32)
    with pytest.raises(ValueError, match="2 outputs, and C is written for one"):
        export(graph.build(graph.relu(x), graph.softmax(x)))
    with pytest.raises(TypeError, match="the input is int8, and networks are written in float32"):
        export(graph_of(lambda g, x: g.relu(x), (1, 4), np.int8))
    with pytest.raises(ValueError, match="has no cells; give a batch of 1 or more"):
        export(graph_of(lambda g, x: g.relu(x), (0, 4)))
    with pytest.raises(TypeError, match="has 3 axes, and convolutions of 1 or 2 are written in C"):
        export(graph_of(lambda g, x: g.conv(x, g.constant(np.ones((1, 1, 2, 2, 2)))), (1, 1, 3, 3, 3)))


def test_a_float64_program_is_written_in_float32(tmp_path):
    graph = Graph()
    x = graph.input((1, 6))
    code = export(graph.build(graph.linear(x, graph.constant(np.linspace(-1, 1, 12).reshape(2, 6)))), name="wide")
    library = Library(COMPILERS[0], [code], tmp_path)
    y = np.empty((1, 2), np.float32)
    library.call("wide_run", np.ones((1, 6), np.float32), y, np.empty(1, np.float32))
    np.testing.assert_allclose(y[0], np.linspace(-1, 1, 12).reshape(2, 6).sum(1), rtol=1e-6)


def test_a_nan_comes_through(tmp_path):
    """Also through a ReLU that is part of the layer before it."""
    network = Sequential(Conv1D(1, 2, 3, rng=0), ReLU(), MaxPool1D(2), ReLU())
    code = export(network, (1, 1, 8), name="nan")
    library = Library(COMPILERS[0], [code], tmp_path)
    x = np.array([[[1, 2, 3, np.nan, 5, 6, 7, 8]]], np.float32)
    y = np.empty((1, 2, 3), np.float32)
    library.call("nan_run", x, y, np.empty(64, np.float32))
    np.testing.assert_allclose(y, network.eval()(x), rtol=1e-5)
    assert np.isnan(y).any()
    assert not np.isnan(y).all()


def test_a_pool_layer_that_drops_cells_still_says_so():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="drops the last 1 of 7 cells"):
            export(Sequential(MaxPool1D(2)), (1, 1, 7))


def test_a_pool_is_not_a_network():
    assert "void one(" in export(Pool(Max(), Window((2,))), (1, 4), name="one").header
