"""The modules, and `convert`: a ResNet and a U-Net train the same before and after, compiled too."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import re

import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close
from torch_cases import distinct, since_2_13

import ndpool
import ndpool.torch.functional as F
from ndpool.torch import convert, nn, revert
from ndpool.torch.conversion import REPLACEMENTS

ARGUMENTS = {
    "MaxPool": {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    "MaxUnpool": {"kernel_size": 2},
    "AvgPool": {"kernel_size": 3, "padding": 1, "count_include_pad": False},
    "LPPool": {"norm_type": 2, "kernel_size": 2},
    "AdaptiveMaxPool": {"output_size": 2},
    "AdaptiveAvgPool": {"output_size": 3},
}


def arguments_of(module):
    return ARGUMENTS[module.__name__[: -len("1d")]]


@pytest.mark.parametrize("theirs", REPLACEMENTS, ids=lambda module: module.__name__)
def test_pytorchs_modules(theirs):
    """The same constructor, text, state and result; a subclass of PyTorch's; copied and pickled."""
    mine = REPLACEMENTS[theirs]
    a, b = mine(**arguments_of(theirs)), theirs(**arguments_of(theirs))
    assert repr(a) == f"ndpool.{b!r}"
    assert inspect.signature(mine) == inspect.signature(theirs)
    assert isinstance(a, theirs)
    rank = int(theirs.__name__[-2])
    x = distinct(2, 3, *(6, 4, 4)[:rank])
    inputs = (x,)
    if "Unpool" in theirs.__name__:
        inputs = getattr(F, f"max_pool{rank}d")(x, 2, return_indices=True)
    for module in (a, copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
        assert_close(module(*inputs), b(*inputs))
    saved = io.BytesIO()
    torch.save(a, saved)
    saved.seek(0)
    assert_close(torch.load(saved, weights_only=False)(*inputs), b(*inputs))


def test_indices_and_divisors():
    x = distinct(2, 3, 6, 6)
    assert_close(nn.MaxPool2d(2, return_indices=True)(x), torch.nn.MaxPool2d(2, return_indices=True)(x))
    assert_close(nn.AdaptiveMaxPool2d(2, True)(x), torch.nn.AdaptiveMaxPool2d(2, True)(x))
    assert_close(nn.AvgPool2d(2, divisor_override=3)(x), torch.nn.AvgPool2d(2, divisor_override=3)(x))


NEW = {
    "ndpool.SmoothMaxPool2d(beta=2.0, kernel_size=3)": (nn.SmoothMaxPool2d(2.0, 3), F.smooth_max_pool2d, (2.0, 3), {}),
    "ndpool.MinPool2d(kernel_size=2, ties='split')": (
        nn.MinPool2d(2, ties="split"),
        F.min_pool2d,
        (2,),
        {"ties": "split"},
    ),
    "ndpool.MaxPool(kernel_size=(2, 2), padding='same')": (
        nn.MaxPool((2, 2), padding="same"),
        F.max_pool,
        ((2, 2),),
        {"padding": "same"},
    ),
    "ndpool.AdaptiveLpPool1d(p=3, output_size=2)": (nn.AdaptiveLpPool1d(3, 2), F.adaptive_lp_pool1d, (3, 2), {}),
    "ndpool.GlobalMaxPool(keepdims=False)": (
        nn.GlobalMaxPool(keepdims=False),
        F.global_max_pool,
        (),
        {"keepdims": False},
    ),
}


@pytest.mark.parametrize("text", NEW)
def test_new_modules(text):
    module, function, args, kwargs = NEW[text]
    x = distinct(2, 3, 6, 6)
    assert repr(module) == text
    for each in (module, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert_close(each(x), function(x, *args, **kwargs))
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert_close(compiled(x), module(x))


def test_every_function_has_its_module():
    for name in F.__all__:
        if name != "pool" and not name.endswith("_with_indices"):
            words = "".join(word.capitalize() for word in name.split("_")).replace("1D", "1d")
            words = words.replace("LpPool", "LPPool") if name.startswith("lp_pool") and name[-1] == "d" else words
            assert hasattr(nn, words), words
    assert nn.Pool(ndpool.Pool(ndpool.Max(), ndpool.Window((2,))))(torch.arange(4)).tolist() == [1, 3]
    with pytest.raises(TypeError, match="missing a required argument: 'kernel_size'"):
        nn.MinPool2d()


# --- convert --------------------------------------------------------------------------------------


class Block(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.one, self.two = (torch.nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))

    def forward(self, x):
        return (x + self.two(self.one(x).relu())).relu()


class SmallResNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 7, stride=2, padding=3)
        self.pool = torch.nn.MaxPool2d(3, stride=2, padding=1)
        self.blocks = torch.nn.Sequential(Block(8), torch.nn.AvgPool2d(2), Block(8))
        self.head = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 5))

    def forward(self, x):
        return self.head(self.blocks(self.pool(self.stem(x).relu())))


class SmallUNet(torch.nn.Module):
    """Two levels down by max pooling, and up again by its indices."""

    def __init__(self):
        super().__init__()
        self.down = torch.nn.MaxPool2d(2, return_indices=True)
        self.up = torch.nn.MaxUnpool2d(2)
        self.enter, self.left = torch.nn.Conv2d(3, 6, 3, padding=1), torch.nn.Conv2d(6, 6, 3, padding=1)
        self.bottom = torch.nn.Conv2d(6, 6, 3, padding=1)
        self.right, self.leave = torch.nn.Conv2d(12, 6, 3, padding=1), torch.nn.Conv2d(12, 5, 1)

    def forward(self, x):
        first = self.enter(x).relu()
        half, places = self.down(first)
        second = self.left(half).relu()
        quarter, deeper = self.down(second)
        up = self.up(self.bottom(quarter).relu(), deeper)
        up = self.up(self.right(torch.cat([up, second], 1)).relu(), places)
        return self.leave(torch.cat([up, first], 1)).mean((2, 3))


def train(model, steps=4):
    """The losses of some steps, and the last gradients."""
    torch.manual_seed(1)
    x, target = torch.randn(4, 3, 32, 32, dtype=torch.float64), torch.randint(5, (4,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses), [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("network", [SmallResNet, SmallUNet])
def test_training_before_and_after(network, memory_format):
    model = network().double().to(memory_format=memory_format)
    mine, compiled = copy.deepcopy(model), copy.deepcopy(model)
    report, _ = convert(mine), convert(compiled)
    assert report.replaced
    assert all("over everything" in why for why in report.left.values())
    want = train(model)
    assert want[0][-1] < want[0][0]
    assert_close(train(mine), want, rtol=1e-9, atol=1e-12)
    assert_close(train(torch.compile(compiled, fullgraph=True, backend="aot_eager")), want, rtol=1e-9, atol=1e-12)


class Own(torch.nn.MaxPool2d):
    def forward(self, x):
        return super().forward(x) + 1


def test_the_report():
    seen = []
    model = torch.nn.ModuleDict(
        {
            "plain": torch.nn.MaxPool2d(2),
            "own": Own(2),
            "random": torch.nn.FractionalMaxPool2d(2, output_size=2),
            "nested": torch.nn.Sequential(torch.nn.ReLU(), torch.nn.AvgPool3d(2)),
            "mine": nn.MaxPool1d(2),
            "new": nn.MinPool1d(2),
        }
    )
    model["plain"].register_forward_hook(lambda *_: seen.append(1))
    report = convert(model)
    assert report.replaced == {"plain": "MaxPool2d", "nested.1": "AvgPool3d"}
    assert sorted(report.left) == ["mine", "new", "own", "random"]
    assert "a class of its own" in report.left["own"]
    assert "at random" in report.left["random"]
    assert report.left["mine"] == report.left["new"] == "it is ndpool's already"
    assert "replaced nested.1: AvgPool3d\n" in str(report)
    assert type(model["plain"]) is nn.MaxPool2d
    model["plain"](torch.ones(1, 4, 4))
    assert seen == [1]
    again = convert(model)
    assert again.replaced == {}
    assert again.left == {**report.left, "plain": "it is ndpool's already", "nested.1": "it is ndpool's already"}
    assert str(convert(torch.nn.ReLU())) == "no pooling modules found"


def test_a_pool_by_itself_is_converted():
    pool = torch.nn.MaxPool2d(2)
    assert str(convert(pool)) == "replaced the model itself: MaxPool2d"
    assert type(pool) is nn.MaxPool2d


def test_a_printed_model_shows_whose_pools_they_are():
    model = torch.nn.Sequential(torch.nn.MaxPool2d(2), nn.SumPool2d(2))
    assert "(0): MaxPool2d(" in str(model)
    convert(model)
    assert "(0): ndpool.MaxPool2d(" in str(model)
    assert "(1): ndpool.SumPool2d(kernel_size=2)" in str(model)

    class Mine(nn.MaxPool2d):
        pass

    class MineToo(nn.MinPool2d):
        pass

    assert str(Mine(2)).startswith("Mine(")
    assert str(MineToo(2)) == "MineToo(kernel_size=2)"


def test_revert():
    """PyTorch's own classes, the same objects and hooks; what PyTorch does not have stays."""

    class Mine(nn.MaxPool2d):
        pass

    seen = []
    originals = [theirs(**arguments_of(theirs)) for theirs in REPLACEMENTS]
    model = torch.nn.Sequential(*originals, nn.MinPool2d(2), Mine(2), torch.nn.ReLU())
    texts = [repr(module) for module in model]
    hooked = model[1]
    hooked.register_forward_hook(lambda *_: seen.append(1))
    assert len(convert(model).replaced) == len(REPLACEMENTS)
    report = revert(model)
    assert report.replaced == {str(i): theirs.__name__ for i, theirs in enumerate(REPLACEMENTS)}
    assert report.left == {
        "18": "PyTorch has no MinPool2d",
        "19": "Mine is a class of its own, derived from ndpool's",
    }
    assert [type(module) for module in model][:18] == list(REPLACEMENTS)
    assert [repr(module) for module in model] == texts
    assert model[1] is hooked
    hooked(torch.ones(1, 4, 4))
    assert seen == [1]
    assert revert(model).replaced == {}
    assert str(revert(nn.MaxPool2d(2))) == "replaced the model itself: MaxPool2d"


@pytest.mark.parametrize("function", [convert, revert])
def test_only_modules_are_converted(function):
    for other in (lambda x: x, torch.nn.functional.max_pool2d, torch.nn.MaxPool2d, None):
        with pytest.raises(
            TypeError, match=r"takes a torch.nn.Module and got a \w+; give .* import ndpool.torch.funct"
        ):
            function(other)


def test_what_would_be_slower_is_left():
    """An average over everything is one sum for PyTorch, and its gradient takes no memory."""
    model = torch.nn.Sequential(
        *(torch.nn.AdaptiveAvgPool2d(size) for size in (1, (1, 1), [1, 1], (1, 2), (1, None), 2)),
        torch.nn.AdaptiveAvgPool1d(1),
        torch.nn.AdaptiveAvgPool3d((1, 1, 1)),
        torch.nn.AdaptiveMaxPool2d(1),
    )
    report = convert(model)
    assert list(report.replaced) == ["3", "4", "5", "8"]
    assert set(report.left.values()) == {"PyTorch's own is the faster one for an average over everything"}


def test_what_ndpool_does_not_take_is_left():
    """As a module of PyTorch's it works, or fails where it did."""
    model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(0), torch.nn.MaxPool2d(2, padding=2), torch.nn.MaxPool2d(2))
    report = convert(model)
    assert list(report.replaced) == ["2"]
    assert report.left["0"].startswith("ndpool does not take its arguments: output_size=0 is less than 1")
    assert "padding=2 is more than half" in report.left["1"]
    assert [type(module).__module__ for module in model][:2] == ["torch.nn.modules.pooling"] * 2


def test_a_model_without_numbers_is_converted():
    """Made on the meta device, and materialised later."""
    with torch.device("meta"):
        model = SmallResNet()
    assert list(convert(model).replaced) == ["pool", "blocks.1"]
    assert model(torch.empty(1, 3, 32, 32, device="meta")).shape == (1, 5)
    real = SmallResNet()
    model.load_state_dict(real.state_dict(), assign=True)
    x = torch.randn(1, 3, 32, 32)
    assert_close(model(x), real(x))


@pytest.mark.cpu_only("the device is one that PyTorch must not be built for")
@pytest.mark.parametrize("kind", ["parameter", "buffer"])
def test_a_model_elsewhere_is_left(kind):
    """Or the part of it that is there: a tensor that is offloaded comes back to where the others are."""
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1), torch.nn.MaxPool2d(2), nn.MinPool2d(2))
    with FakeTensorMode():
        there = torch.empty(2, device="xpu:0")
    if kind == "parameter":
        model.register_parameter("there", torch.nn.Parameter(there))
    else:
        model.register_buffer("there", there)
    report = convert(model)
    assert report.replaced == {}
    assert report.left == {
        "1": "the model is on xpu:0, for which ndpool has no engine",
        "2": "it is ndpool's already",
    }
    assert type(model[1]) is torch.nn.MaxPool2d


def test_hooks_that_bring_weights_are_kept():
    """Weights stay away until a hook before the call brings them: the pools are converted and called in between."""
    model = SmallResNet()
    away = {name: p.detach().clone() for name, p in model.stem.named_parameters()}
    x = torch.randn(1, 3, 32, 32)
    want = model(x)
    model.stem.to_empty(device="meta")

    def bring(module, inputs):
        for name, p in away.items():
            setattr(module, name, torch.nn.Parameter(p))

    order = []
    model.stem.register_forward_pre_hook(bring)
    model.pool.register_forward_pre_hook(lambda *_: order.append("before"))
    model.pool.register_forward_hook(lambda *_: order.append("after"))
    assert list(convert(model).replaced) == ["pool", "blocks.1"]
    assert_close(model(x), want)
    assert order == ["before", "after"]


def test_scripted_models_are_left():
    theirs = torch.jit.script(torch.nn.Sequential(torch.nn.MaxPool2d(2), torch.nn.ReLU()))
    assert convert(theirs).left == {"0": "it is compiled by TorchScript; convert the model before scripting it"}
    assert str(revert(theirs)) == "no pooling modules found"
    mine = torch.jit.script(torch.nn.Sequential(nn.MaxPool2d(2), nn.MinPool2d(2), torch.nn.ReLU()))
    assert convert(mine).left == dict.fromkeys("01", "it is ndpool's already")
    why = "it is compiled by TorchScript; revert the model before scripting it"
    assert revert(mine).left == dict.fromkeys("01", why)
    x = torch.randn(1, 2, 8, 8)
    assert_close(mine(x), F.min_pool2d(F.max_pool2d(x, 2), 2).relu())


@pytest.mark.cpu_only("PyTorch pools no quantised tensors on a GPU")
@pytest.mark.filterwarnings("ignore")
def test_quantised_models_are_left():
    """Their pools get quantised tensors; in a model that is quantised dynamically they get floats."""
    quantised = torch.ao.nn.quantized
    x = torch.randn(1, 2, 4, 4)
    model = torch.nn.Sequential(quantised.Quantize(0.1, 0, torch.quint8), torch.nn.MaxPool2d(2), quantised.DeQuantize())
    want = model(x)
    assert convert(model).left == {"1": "the model is quantised, and ndpool does not pool quantised tensors"}
    assert torch.equal(model(x), want)
    marked = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.MaxPool2d(2))
    marked[0].qconfig = torch.ao.quantization.default_qconfig
    assert list(convert(marked).left) == ["1"]
    marked[0].qconfig = None
    assert list(convert(marked).replaced) == ["1"]
    floats = torch.nn.Sequential(torch.nn.MaxPool2d(2), quantised.FloatFunctional(), torch.nn.Linear(2, 2))
    assert list(convert(torch.ao.quantization.quantize_dynamic(floats)).replaced) == ["0"]
    q = torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)
    for call in (F.max_pool2d, F.avg_pool2d, F.min_pool2d):
        with pytest.raises(TypeError, match=r"dtype torch.quint8, which ndpool does not pool"):
            call(q, 2)
    with pytest.raises(TypeError, match=r"lp_pool2d got torch.quint8, which ndpool does not pool; give real numbers"):
        F.lp_pool2d(q, 3.0, 2)


@since_2_13
def test_a_compiled_model_is_compiled_again():
    model = torch.nn.Sequential(torch.nn.MaxPool2d(2))
    counter = CompileCounter()
    compiled = torch.compile(model, backend=counter)
    x = torch.randn(1, 2, 4, 4)
    want = compiled(x)
    assert convert(compiled).replaced == {"_orig_mod.0": "MaxPool2d"}
    assert torch.equal(compiled(x), want)
    assert counter.frame_count == 2


# --- arguments ------------------------------------------------------------------------------------

WRONG = [
    (lambda: nn.MinPool2d(0), ValueError, "kernel_size=0 is less than 1"),
    (lambda: nn.MinPool2d(2, ties="last"), ValueError, "ties='last'"),
    (lambda: nn.MaxPool((2, 2), axes=(1,)), ValueError, "names 1 axes"),
    (lambda: nn.MaxPool(2), ValueError, "does not say how many axes"),
    (lambda: nn.MaxPool((2, 2), return_indices=1), TypeError, "return_indices=1 is not a bool"),
    (lambda: nn.SmoothMaxPool2d(0.0, 2), ValueError, "must be finite and not 0"),
    (lambda: nn.LpPool(0.5, (2,)), ValueError, "p=0.5 must be finite and >= 1"),
    (lambda: nn.AdaptiveSumPool2d(0), ValueError, "output_size=0 is less than 1"),
    (lambda: nn.GlobalAvgPool(keepdims=1), TypeError, "keepdims=1 is not a bool"),
    (lambda: nn.Pool(2), TypeError, "pool=2 is a int; give an ndpool.Pool"),
    (lambda: nn.MaxPool2d(0), ValueError, "kernel_size=0 is less than 1"),
    (lambda: nn.MaxPool2d(2, padding=2), ValueError, "padding=2 is more than half"),
    (lambda: nn.MaxPool2d(3, 1, "same"), TypeError, "padding='same' is a word, which PyTorch's max_pool2d"),
    (lambda: nn.MaxPool1d(2, dilation=0), ValueError, "dilation=0 is less than 1"),
    (lambda: nn.AvgPool2d(2, divisor_override=0), ValueError, "divisor_override=0 divides by zero"),
    (lambda: nn.AvgPool3d((2, 2)), ValueError, "has 2 entries; give one int, or 3"),
    (lambda: nn.LPPool2d(0, 2), ValueError, "norm_type=0 has no root"),
    (lambda: nn.LPPool2d(3, 0), ValueError, "kernel_size=0 is less than 1"),
    (lambda: nn.MaxUnpool2d(2, padding=-1), ValueError, "padding=-1 is less than 0"),
    (lambda: nn.MaxUnpool2d(2, stride=0), ValueError, "stride=0 is less than 1"),
    (lambda: nn.AdaptiveMaxPool2d((2, 2, 2)), ValueError, "has 3 entries; give one int, or 2"),
    (lambda: nn.AdaptiveAvgPool1d(0), ValueError, "output_size=0 is less than 1"),
]


@pytest.mark.parametrize(("make", "error", "message"), WRONG, ids=[case[2] for case in WRONG])
def test_arguments_are_checked_when_a_module_is_made(make, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make()


def test_powers_that_are_no_norm():
    """PyTorch has them, so they are taken and converted."""
    x = distinct(1, 4, 4).abs()
    for p in (0.5, -1.0, 3):
        theirs = torch.nn.LPPool2d(p, 2)
        want = theirs(x)
        assert_close(nn.LPPool2d(p, 2)(x), want)
        assert convert(theirs).replaced == {"": "LPPool2d"}
        assert_close(theirs(x), want)


def test_the_axes_of_a_spelling_with_a_number():
    """The last ones, unless others are named."""
    x = distinct(2, 4, 6)
    assert torch.equal(F.min_pool2d(x, 2), F.min_pool(x, 2, axes=(-2, -1)))
    assert torch.equal(F.min_pool2d(x, 2, axes=(0, 1)), F.min_pool(x, 2, axes=(0, 1)))
    assert torch.equal(nn.MinPool2d(2, axes=(0, 1))(x), F.min_pool(x, 2, axes=(0, 1)))


def test_axes_from_the_start_are_known_when_called():
    """A module is made for tensors of any rank; what does not fit one is said then."""
    module = nn.MaxPool(2, axes=(1, 3))
    assert_close(module(torch.ones(1, 4, 2, 4)), torch.ones(1, 2, 2, 2))
    with pytest.raises(ValueError, match="3 is out of range for 3 axes"):
        module(torch.ones(1, 4, 4))


def test_arrays_as_arguments():
    module = nn.MinPool2d(np.array([2, 3]), stride=torch.tensor([1, 2]))
    assert repr(module) == "ndpool.MinPool2d(kernel_size=(2, 3), stride=(1, 2))"
    x = distinct(1, 6, 7)
    assert torch.equal(module(x), F.min_pool2d(x, (2, 3), (1, 2)))
    assert torch.equal(nn.MaxPool2d(np.array([2, 3]))(x), F.max_pool2d(x, (2, 3)))


def test_every_parameter_is_described():
    for name in F.__all__:
        function = getattr(F, name)
        for parameter in inspect.signature(function).parameters:
            assert f"\n    {parameter}: " in function.__doc__, (name, parameter)
    modules = {name: module for name, module in vars(nn).items() if getattr(module, "__module__", "") == nn.__name__}
    modules = {name: module for name, module in modules.items() if not name.startswith("_")}
    assert len(modules) > 50
    for name, module in modules.items():
        for parameter in inspect.signature(module).parameters:
            assert f"\n    {parameter}: " in module.__doc__, (name, parameter)
