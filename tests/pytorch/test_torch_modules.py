"""The modules, and `convert`: a ResNet and a U-Net train the same before and after, compiled too."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch.testing import assert_close
from torch_cases import distinct

import ndpool
import ndpool.torch.functional as F
from ndpool.torch import convert, nn
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
    assert repr(a) == repr(b)
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
    "SmoothMaxPool2d(beta=2.0, kernel_size=3)": (nn.SmoothMaxPool2d(2.0, 3), F.smooth_max_pool2d, (2.0, 3), {}),
    "MinPool2d(kernel_size=2, ties='split')": (nn.MinPool2d(2, ties="split"), F.min_pool2d, (2,), {"ties": "split"}),
    "MaxPool(kernel_size=(2, 2), padding='same')": (
        nn.MaxPool((2, 2), padding="same"),
        F.max_pool,
        ((2, 2),),
        {"padding": "same"},
    ),
    "AdaptiveLpPool1d(p=3, output_size=2)": (nn.AdaptiveLpPool1d(3, 2), F.adaptive_lp_pool1d, (3, 2), {}),
    "GlobalMaxPool(keepdims=False)": (nn.GlobalMaxPool(keepdims=False), F.global_max_pool, (), {"keepdims": False}),
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
    assert not report.left
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
        }
    )
    model["plain"].register_forward_hook(lambda *_: seen.append(1))
    report = convert(model)
    assert report.replaced == {"plain": "MaxPool2d", "nested.1": "AvgPool3d"}
    assert sorted(report.left) == ["own", "random"]
    assert "a class of its own" in report.left["own"]
    assert "at random" in report.left["random"]
    assert "replaced nested.1: AvgPool3d\n" in str(report)
    assert type(model["plain"]) is nn.MaxPool2d
    model["plain"](torch.ones(1, 4, 4))
    assert seen == [1]
    assert convert(model).replaced == {}
    assert str(convert(torch.nn.ReLU())) == "no pooling modules found"


def test_a_pool_by_itself_is_converted():
    pool = torch.nn.MaxPool2d(2)
    assert str(convert(pool)) == "replaced the model itself: MaxPool2d"
    assert type(pool) is nn.MaxPool2d
