"""Every pool as ONNX, made by both of PyTorch's exporters and run by ONNX Runtime, beside ndpool itself."""

from __future__ import annotations

import io
import random

import onnx
import onnxruntime
import pytest
import torch
from torch.testing import assert_close

import ndpool.torch.functional as F  # noqa: N812  as everyone calls it
import ndpool.torch.onnx
from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window
from ndpool.torch import convert, nn
from ndpool.torch.schema import encode

EXPORTERS = pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "torchscript"])


class Function(torch.nn.Module):
    """A function of one tensor with one result or several."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.eval()

    def forward(self, x):
        return self.function(x)


def exported(module, x, dynamo, varying=()):
    """The model, with these axes of any length from 2 to 64, or all lengths fixed."""
    if dynamo:
        sides = {d: torch.export.Dim(f"d{d}", min=2, max=64) for d in varying}
        program = ndpool.torch.onnx.export(module, (x,), dynamic_shapes=(sides,) if varying else None, verbose=False)
        return program.model_proto
    file, sides = io.BytesIO(), {"x": {d: f"d{d}" for d in varying}}
    ndpool.torch.onnx.export(module, (x,), file, dynamo=False, input_names=["x"], dynamic_axes=sides)
    return onnx.load_from_string(file.getvalue())


def run(model, x):
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x.detach().numpy()})


def check(module, dynamo, x, *others, varying=(), **tolerance):
    """The same shapes, dtypes and values; of other sizes too. The names of the nodes come back."""
    model = exported(module, x, dynamo, varying)
    for z in (x, *others):
        want = module(z)
        want = want if isinstance(want, tuple) else (want,)
        for i, (got, wanted) in enumerate(zip(run(model, z), want, strict=True)):
            assert str(wanted.dtype) == f"torch.{got.dtype.name}"
            of = f"result {i} of {tuple(z.shape)}"
            assert_close(torch.from_numpy(got), wanted.detach(), msg=lambda text, of=of: f"{of}: {text}", **tolerance)
    return [node.op_type for node in model.graph.node if node.op_type != "Constant"]


# --- random pools ---------------------------------------------------------------------------------

KINDS = [
    *(Max(), Min(), Max("split"), Min("all")),
    *(Avg(), Avg(count_include_pad=False), Avg(divisor_override=5), Sum()),
    *(SmoothMax(1.5), SmoothMax(-0.5), SmoothMax(3.0, count_include_pad=False), SmoothMax(-2.0, False)),
    *(Lp(1), Lp(2), Lp(2.5), Lp(7)),
]


def random_window(draw, rank):
    def each(low, high):
        return tuple(draw.randint(low, high) for _ in range(rank))

    family = draw.choice(["window"] * 5 + ["adaptive", "global"])
    if family == "global":
        return Global(draw.random() < 0.5)
    if family == "adaptive":
        return Adaptive(tuple(draw.choice([None, 1, 2, 3, 4, 5]) for _ in range(rank)))
    pairs = tuple((draw.randint(0, 4), draw.randint(0, 4)) for _ in range(rank))
    padding = draw.choice([0, each(0, 1), pairs, "valid", "same", "same_lower"])
    return Window(
        each(1, 4), draw.choice([None, each(1, 4)]), padding, draw.choice([1, each(1, 2)]), draw.random() < 0.5
    )


def random_pools(seed, shapes, how_many):
    """So many pools, each of which every shape accepts; the pooled axes are any, in any order."""
    draw, ndim, pools = random.Random(seed), len(shapes[0]), []
    while len(pools) < how_many:
        rank = draw.randint(1, min(ndim, 4))
        pool = Pool(draw.choice(KINDS), random_window(draw, rank), draw.sample(range(ndim), rank))
        try:
            for shape in shapes:
                pool.output_shape(shape)
        except ValueError:
            continue
        pools.append(pool)
    return pools


def everything(pools):
    return Function(lambda x: tuple(F.pool(x, pool) for pool in pools))


@EXPORTERS
@pytest.mark.parametrize("ndim", [2, 4, 5])
def test_random_pools(dynamo, ndim):
    """Any kind over any window and any axes, whose lengths are fixed."""
    shape = {2: (13, 10), 4: (2, 9, 8, 11), 5: (2, 3, 7, 5, 6)}[ndim]
    pools = random_pools(ndim, [shape], 30 if dynamo else 100)
    for pool, got in zip(pools, run(exported(everything(pools), x := torch.randn(shape), dynamo), x), strict=True):
        assert_close(torch.from_numpy(got), F.pool(x, pool), msg=lambda text, pool=pool: f"{pool}: {text}")


@EXPORTERS
@pytest.mark.parametrize("ndim", [3, 4])
def test_random_pools_over_lengths_that_vary(dynamo, ndim):
    """One model for all of them."""
    shapes = {3: [(6, 13, 10), (9, 8, 17), (4, 5, 5)], 4: [(2, 9, 8, 11), (3, 5, 12, 7), (4, 13, 9, 14)]}[ndim]
    pools = random_pools(10 + ndim, shapes, 10 if dynamo else 40)
    xs = [torch.randn(shape) for shape in shapes]
    model = exported(everything(pools), xs[0], dynamo, varying=range(ndim))
    for x in xs:
        for pool, got in zip(pools, run(model, x), strict=True):
            of = f"{pool} of {tuple(x.shape)}"
            assert_close(torch.from_numpy(got), F.pool(x, pool), msg=lambda text, of=of: f"{of}: {text}")


@EXPORTERS
def test_averages_in_ceil_mode(dynamo):
    """What runs over the end beyond the padding never counts: versions of ONNX Runtime differ in that."""
    windows = [(k, s, p) for k in (2, 3, 4) for s in (1, 2, 3) for p in (0, 1) if 2 * p <= k]

    def averages(x):
        options = [{}, {"count_include_pad": False}, {"divisor_override": 5}]
        return tuple(F.avg_pool2d(x, k, s, p, ceil_mode=True, **more) for k, s, p in windows for more in options)

    check(Function(averages), dynamo, torch.randn(2, 3, 8, 9))


@EXPORTERS
def test_gathered_cells_of_a_size_too_small_are_none(dynamo):
    """Nothing is made up for a window that does not fit, as ONNX Runtime's own pools do."""
    pools = [Pool(kind, Window(3, 2), (-2, -1)) for kind in (SmoothMax(1.0), Lp(2))]
    model = exported(everything(pools), torch.randn(2, 3, 8, 8), dynamo, varying=(2, 3))
    assert [y.shape for y in run(model, torch.randn(2, 3, 2, 8))] == [(2, 3, 0, 3)] * 2


# --- indices --------------------------------------------------------------------------------------

WITH_INDICES = [
    Pool(Max(), Window(3, 2, 1), (-2, -1)),
    Pool(Max(), Window(3, 2, 1, ceil_mode=True), (-2, -1)),
    Pool(Min(), Window((3, 2), (1, 2), ((1, 0), (0, 1)), (2, 1)), (-2, -1)),
    Pool(Min(), Window(2, 3, "same"), (2, 1)),
    Pool(Max(), Window((2, 3, 2), ceil_mode=True), (3, 1, 2)),
    Pool(Max(), Window((4,), 1, "same_lower"), (1,)),
    Pool(Max(), Adaptive((3, None)), (1, -1)),
]


@EXPORTERS
def test_indices_at_ties(dynamo):
    """The first of equal cells, counted over the pooled axes in any place; of Min too, and with any padding."""

    def several(x):
        found = []
        for pool in WITH_INDICES:
            name = "adaptive_" * isinstance(pool.window, Adaptive) + ("max_pool" if pool.kind == Max() else "min_pool")
            w = pool.window
            window = (w.output_size,) if name[0] == "a" else (w.kernel_size, w.stride, w.padding)
            more = {} if name[0] == "a" else {"dilation": w.dilation, "ceil_mode": w.ceil_mode}
            found += getattr(F, name)(x, *window, **more, axes=pool.axes, return_indices=True)
        return (
            *found,
            *F.max_pool2d(x, 2, return_indices=True),
            *F.max_pool(x, (2, 2), ties="all", return_indices=True),
        )

    nodes = check(Function(several), dynamo, torch.randint(0, 3, (2, 9, 8, 6)).float())
    assert {"MaxPool", "Mod"} <= set(nodes)
    assert not {"ReduceMax", "ReduceMin", "Pad"} & set(nodes)


@EXPORTERS
def test_indices_over_lengths_that_vary(dynamo):
    def both(x):
        return (*F.max_pool2d(x, 3, 2, 1, return_indices=True), *F.min_pool(x, (2,), axes=1, return_indices=True))

    x, z = torch.randint(0, 3, (2, 6, 8, 7)).float(), torch.randint(0, 3, (2, 9, 11, 5)).float()
    check(Function(both), dynamo, x, z, varying=(1, 2, 3))


REFUSED_INDICES = {
    "bins of two lengths": lambda x: F.adaptive_max_pool2d(x, 3, return_indices=True),
    "padding as long as the kernel": lambda x: F.max_pool(x, 2, 1, 2, dilation=3, axes=(2, 3), return_indices=True),
    "four axes": lambda x: F.max_pool(x, (1, 2, 2, 2), return_indices=True),
    "integers": lambda x: F.max_pool2d(x.to(torch.int32), 2, return_indices=True),
}


@EXPORTERS
@pytest.mark.parametrize("name", REFUSED_INDICES)
def test_indices_that_onnx_does_not_have_are_refused(dynamo, name):
    with pytest.raises(NotImplementedError, match=r"Pool\(kind=Max.* cannot be exported to ONNX: only MaxPool has"):
        exported(Function(REFUSED_INDICES[name]), torch.randn(2, 3, 8, 8), dynamo)


@EXPORTERS
def test_indices_in_ceil_mode_over_a_length_that_varies_are_refused(dynamo):
    module = Function(lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True, return_indices=True))
    with pytest.raises(NotImplementedError, match="no ceil_mode or 'same' over a length that is not fixed"):
        exported(module, torch.randn(2, 3, 8, 8), dynamo, varying=(2, 3))


# --- dtypes and numbers ---------------------------------------------------------------------------


def of_every_kind(x):
    return (
        *(F.max_pool2d(x, 3, 2, 1), F.min_pool2d(x, 3, 2, "same"), F.global_min_pool(x)),
        *(F.avg_pool(x, (3, 3), 2, 1), F.global_avg_pool(x), F.adaptive_avg_pool(x, (3, 3))),
    )


def of_every_kind_of_floats(x):
    smooth = F.smooth_max_pool2d(x, 2.0, 3, 2, 1), F.lp_pool(x, 2.5, (3, 2)), F.global_lp_pool(x, 3)
    return (*of_every_kind(x), *smooth, F.sum_pool2d(x, 2), F.global_sum_pool(x))


@EXPORTERS
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_floats(dynamo, dtype):
    """Rounded once, to half a unit of 16 bits; float64 keeps all its digits."""
    tolerance = {"rtol": 1e-12, "atol": 1e-12} if dtype is torch.float64 else {"rtol": 2e-3, "atol": 1e-4}
    check(Function(of_every_kind_of_floats), dynamo, torch.randn(2, 3, 8, 9).to(dtype), **tolerance)


@EXPORTERS
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_integers(dynamo, dtype):
    """Selections keep the dtype at both of its ends, sums are int64, averages are float64."""
    low, high = (0, 1) if dtype is torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    x = torch.randint(max(low, -(1 << 40)), min(high, 1 << 40) + 1, (2, 3, 8, 9)).to(dtype)
    x[0], x[1, 0] = low, high
    sums = () if dtype in (torch.bool, torch.uint8) else (F.sum_pool2d, F.global_sum_pool)
    arguments = {F.sum_pool2d: (2,), F.global_sum_pool: ()}
    check(Function(lambda x: (*of_every_kind(x), *(f(x, *arguments[f]) for f in sums))), dynamo, x)


def test_bfloat16_is_computed_in_32_bits():
    x = torch.randn(2, 3, 8, 9).to(torch.bfloat16)
    module = Function(lambda x: tuple(y.float() for y in of_every_kind_of_floats(x.bfloat16())))
    assert_close(
        tuple(map(torch.from_numpy, run(exported(module, x.float(), True), x.float()))),
        module(x.float()),
        rtol=2e-2,
        atol=1e-3,
    )


@EXPORTERS
def test_infinities_and_numbers_whose_powers_overflow(dynamo):
    """A window of -inf alone is -inf, one with inf is inf, and nothing overflows that does not in ndpool."""

    def extremes(x):
        return (
            *(F.max_pool2d(x, 2), F.max_pool2d(x, 2, return_indices=True)[1], F.min_pool2d(-x, 2)),
            *(F.smooth_max_pool2d(x, 1.5, 2), F.smooth_max_pool2d(-x, -1.5, 2), F.lp_pool(x, 2, (2, 2))),
            *(F.smooth_max_pool2d(x, 1e-30, 2), F.lp_pool(x, 9.5, (2, 2)), F.adaptive_max_pool2d(x, (3, 3))),
            F.max_pool(x, (2, 2), 1, 2, dilation=3, axes=(2, 3)),
        )

    x = torch.randn(1, 2, 4, 8)
    x[0, 0, :, :2] = -torch.inf
    x[0, 0, 0, 2], x[0, 0, 0, 5] = torch.inf, -torch.inf
    x[0, 1, :, :2], x[0, 1, :, 2:4], x[0, 1, :, 4:6] = 0, x[0, 1, :, 2:4] * 1e37, x[0, 1, :, 4:6] * 1e-38
    check(Function(extremes), dynamo, x, rtol=1e-5, atol=0)


def test_a_dtype_without_arithmetic_is_refused():
    x = torch.randint(0, 9, (2, 3, 8, 8))
    with pytest.raises(NotImplementedError, match="does not compute with uint64; cast to int64"):
        exported(Function(lambda x: F.max_pool2d(x.to(torch.uint64), 2)), x, dynamo=True)


@EXPORTERS
def test_sums_of_integers_are_exact_modulo_64_bits(dynamo):
    """ONNX Runtime's own ReduceSum adds int64 up as float64, which has 53 bits."""
    x = torch.randint(-(1 << 63), (1 << 63) - 1, (3, 7, 6))
    x[0], x[1, 0] = (1 << 63) - 1, -(1 << 63)
    flat = {"axes": (0, 2), "keepdims": False}
    check(Function(lambda x: (F.sum_pool(x, (3, 2), 2, 1), F.global_sum_pool(x, **flat))), dynamo, x)


# --- the forms ------------------------------------------------------------------------------------


@EXPORTERS
@pytest.mark.parametrize(
    ("function", "nodes"),
    [
        (lambda x: F.max_pool2d(x, 3, 2, 1), ["MaxPool"]),
        (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), ["MaxPool"]),
        (lambda x: F.min_pool2d(x, 3, 2, "same"), ["Neg", "MaxPool", "Neg"]),
        (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), ["AveragePool"]),
        (lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True), ["AveragePool"]),
        (lambda x: F.sum_pool2d(x, 3, 2, 1, ceil_mode=True), ["AveragePool", "Mul"]),
        (lambda x: F.adaptive_avg_pool2d(x, (4, 2)), ["AveragePool"]),
        (lambda x: F.adaptive_avg_pool2d(x, 1), ["ReduceMean"]),
        (lambda x: F.global_max_pool(x, keepdims=False), ["ReduceMax"]),
        (lambda x: F.max_pool(x, 2, axes=(1, 2)), ["Transpose", "MaxPool", "Transpose"]),
        (lambda x: F.adaptive_max_pool2d(x, (3, 8)), ["Pad", "Gather", "ReduceMax", "Gather", "ReduceMax"]),
    ],
)
def test_the_standards_own_pools_where_they_mean_the_same(dynamo, function, nodes):
    assert check(Function(function), dynamo, torch.randn(2, 3, 8, 8)) == nodes


# --- models ---------------------------------------------------------------------------------------


def network():
    layers = torch.nn
    model = layers.Sequential(
        *(layers.Conv2d(3, 8, 3), layers.MaxPool2d(3, 2, 1, ceil_mode=True), layers.ReLU()),
        *(layers.AvgPool2d(2, padding=1), nn.SmoothMaxPool2d(2.0, 2), layers.LPPool2d(2, 2)),
        *(layers.AdaptiveAvgPool2d(2), layers.Flatten(), layers.Linear(32, 5)),
    )
    assert len(convert(model).replaced) == 4
    return model.eval()


@EXPORTERS
def test_a_converted_network(dynamo):
    """With trained weights, and a batch and sides that vary."""
    xs = [torch.randn(shape) for shape in [(2, 3, 40, 44), (1, 3, 40, 44), (5, 3, 61, 52)]]
    check(network(), dynamo, *xs[:1], xs[2], varying=(0, 2, 3), rtol=1e-4, atol=1e-5)
    check(network(), dynamo, *xs[:1], rtol=1e-4, atol=1e-5)


def test_the_table_is_what_pytorchs_own_function_takes(tmp_path):
    x, module = torch.randn(2, 3, 8, 8), Function(lambda x: F.max_pool2d(x, 2))
    table = ndpool.torch.onnx.translations()
    program = torch.onnx.export(module, (x,), custom_translation_table=table, verbose=False)
    assert_close(torch.from_numpy(run(program.model_proto, x)[0]), module(x))
    kept = torch.export.export(module, (x,))
    ndpool.torch.onnx.export(kept, (), tmp_path / "kept.onnx", verbose=False)
    assert_close(torch.from_numpy(run(onnx.load(tmp_path / "kept.onnx"), x)[0]), module(x))


def test_a_table_of_ones_own_goes_before():
    def nothing(x, *_):
        return x

    x, module = torch.randn(2, 3, 8, 8), Function(lambda x: F.max_pool2d(x, 1))
    table = {torch.ops.ndpool.forward.default: nothing}
    program = ndpool.torch.onnx.export(module, (x,), custom_translation_table=table, verbose=False)
    assert "MaxPool" not in [node.op_type for node in program.model_proto.graph.node]


@EXPORTERS
@pytest.mark.parametrize("name", ["forward_with_winners", "vjp"])
def test_derivatives_are_refused(dynamo, name):
    values = encode(Pool(Max(), Window(2), (-2, -1)))
    arguments = {"forward_with_winners": (), "vjp": ((2, 3, 8, 8), None, torch.randn(2, 3, 8, 8), None, None)}[name]
    module = Function(lambda x: getattr(torch.ops.ndpool, name)(x, *arguments, *values)[0])
    x = torch.randn(2, 3, 4, 4) if name == "vjp" else torch.randn(2, 3, 8, 8)
    with pytest.raises(NotImplementedError, match=f"ndpool.{name} belongs to a derivative"):
        exported(module, x, dynamo)


def test_other_errors_stay_what_they_are():
    with pytest.raises(torch.onnx.OnnxExporterError, match="reaches over 9 cells"):
        exported(Function(lambda x: F.max_pool2d(x, 9)), torch.randn(2, 3, 8, 8), dynamo=True)
