"""Objects that take functions over: tracers of `torch.fx`, subclasses, ducks, modes. And TorchScript."""

from __future__ import annotations

import inspect
import io
import pickle

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.testing import assert_close
from torch_cases import distinct

import ndpool
import ndpool.torch.functional as F
from ndpool.torch import convert, nn, revert

X = distinct(2, 3, 9, 8, dtype=torch.float32)


def calls(name):
    """A call of every function, with something of every argument that it has: arguments by place, and by name."""
    names = inspect.signature(getattr(F, name)).parameters
    rank = next((rank for rank in (1, 2, 3) if f"{rank}d" in name), 2)
    first = {"norm_type": 3.0, "beta": 1.5, "p": 3, "q": 0.25}
    args = [value for key, value in first.items() if key in names]
    if "kernel_size" in names:
        args.append((2,) * rank)
    if "output_size" in names and "unpool" not in name:
        args.append((2,) * rank)
    kwargs = {}
    for key, value in {"stride": 1, "padding": 1, "dilation": 2, "ceil_mode": True, "ties": "split"}.items():
        if key in names and "unpool" not in name:
            kwargs[key] = value
    if "mode_pool" in name:
        kwargs["ties"] = "largest"
    if "skip" in names:
        kwargs |= {"skip": 0.5, "min_count": 1}
    if "keepdims" in names:
        kwargs["keepdims"] = False
    return args, kwargs


FUNCTIONS = [name for name in F.__all__ if name != "pool" and "unpool" not in name]


def input_of(name):
    return distinct(2, 3, 4, 5, 6, dtype=torch.float32) if "3d" in name else X[0] if "1d" in name else X


def as_tuple(y):
    return y if isinstance(y, tuple) else (y,)


def same(got, want):
    assert len(as_tuple(got)) == len(as_tuple(want))
    for a, b in zip(as_tuple(got), as_tuple(want), strict=True):
        assert_close(a, b, rtol=0, atol=0, equal_nan=True)


# --- torch.fx -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_traced_by_name(name):
    """The graph has the function itself with its arguments, runs, pickles, and is traced again."""
    function, (args, kwargs), x = getattr(F, name), calls(name), input_of(name)

    def call(x):
        return function(x, *args, **kwargs)

    graph = torch.fx.symbolic_trace(call)
    (node,) = (node for node in graph.graph.nodes if node.op == "call_function")
    assert node.target is function
    kept = inspect.signature(function).bind(*node.args, **node.kwargs).arguments
    asked = inspect.signature(function).bind(node.args[0], *args, **kwargs).arguments
    defaults = {key: value.default for key, value in inspect.signature(function).parameters.items()}
    assert {**defaults, **kept} == {**defaults, **asked}
    for again in (graph, pickle.loads(pickle.dumps(graph)), torch.fx.symbolic_trace(graph)):
        same(again(x), function(x, *args, **kwargs))
    assert f"{function.__module__}.{function.__name__}" == f"ndpool.torch.functional.{name}"


def test_the_others_are_traced():
    def call(x):
        y, places = F.max_pool2d(x, 2, return_indices=True)
        back = F.max_unpool2d(y, places, 2, output_size=(9, 8))
        return (
            back,
            F.pool(x, ndpool.Pool(ndpool.Max("split"), ndpool.Window((2, 2)))),
            F.min_pool2d(x=x, kernel_size=3),
        )

    graph = torch.fx.symbolic_trace(call)
    same(graph(X), call(X))
    assert [node.target for node in graph.graph.nodes if F.max_unpool2d is node.target]


def test_beta_may_be_what_is_traced():
    """And the input a tensor that is known."""
    for call in (
        lambda beta: F.smooth_max_pool(X, beta, (2, 2)),
        lambda beta: F.adaptive_smooth_max_pool(X, beta, (2, 2)),
        lambda beta: F.global_smooth_max_pool(X, beta),
        lambda beta: F.smooth_max_pool2d(X, beta, 2),
    ):
        graph = torch.fx.symbolic_trace(call)
        same(graph(torch.tensor(2.0)), call(torch.tensor(2.0)))
    y, places = F.max_pool2d(X, 2, return_indices=True)
    graph = torch.fx.symbolic_trace(lambda places: F.max_unpool2d(y, places, 2))
    same(graph(places), F.max_unpool2d(y, places, 2))


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.MaxPool2d(2), torch.nn.AvgPool2d(3, 1, 1))
        self.smooth = nn.SmoothMaxPool2d(torch.nn.Parameter(torch.tensor([1.0, 2.0, -1.0, 0.5])), 2, ceil_mode=True)
        self.down, self.up = torch.nn.MaxPool2d(2, return_indices=True), torch.nn.MaxUnpool2d(2)

    def forward(self, x):
        y, places = self.down(self.smooth(self.body(x)))
        return self.up(y, places, output_size=[2, 2])


def test_modules_are_leaves_of_a_traced_model():
    """As PyTorch's are, so that `convert` and `revert` work before and after tracing."""
    model = Network()
    before = torch.fx.symbolic_trace(model)
    convert(model)
    graph = torch.fx.symbolic_trace(model)
    leaves = [node.target for node in graph.graph.nodes if node.op == "call_module"]
    assert leaves == ["body.0", "body.1", "body.2", "smooth", "down", "up"]
    assert F.__name__ not in {getattr(node.target, "__module__", "") for node in graph.graph.nodes}
    for traced in (graph, pickle.loads(pickle.dumps(graph)), torch.fx.symbolic_trace(graph)):
        same(traced(X), model(X))
    assert type(graph.get_submodule("body.1")) is nn.MaxPool2d
    assert [name for name, _ in graph.named_parameters()] == [name for name, _ in model.named_parameters()]
    assert sorted(revert(graph).replaced) == ["body.1", "body.2", "down", "up"]
    assert_close(graph(X), before(X))


def test_a_tracer_with_a_rule_of_its_own_is_obeyed():
    class Through(torch.fx.Tracer):
        def is_leaf_module(self, module, name):
            return isinstance(module, torch.nn.Conv2d)

    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), nn.MaxPool2d(2))
    graph = Through().trace(model)
    assert [node.op for node in graph.nodes] == ["placeholder", "call_module", "call_function", "output"]
    assert F.max_pool2d in [node.target for node in graph.nodes]
    same(torch.fx.GraphModule(model, graph)(X), model(X))


class Shifted(nn.MaxPool2d):
    def forward(self, x):
        return super().forward(x) + 1


class Derived(nn.MinPool2d):
    """With nothing of its own in forward."""


def test_a_forward_that_does_more_is_done_once():
    """A leaf would do all of it where the tracer has asked for the part, and the tracer the rest again."""
    model = torch.nn.Sequential(Shifted(2), Derived(2), nn.AvgPool2d(1))
    original = model[2].forward
    model[2].forward = lambda x: 2 * original(x)
    graph = torch.fx.symbolic_trace(model)
    same(graph(X), model(X))
    assert [node.target for node in graph.graph.nodes if node.op == "call_module"] == ["1"]


def test_a_module_by_itself_is_traced_through():
    for module in (nn.MaxPool2d(2), nn.LPPool2d(2, 3), nn.MinPool2d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(2)):
        graph = torch.fx.symbolic_trace(module)
        (node,) = (node for node in graph.graph.nodes if node.op == "call_function")
        assert node.target.__module__ == "ndpool.torch.functional"
        same(pickle.loads(pickle.dumps(graph))(X), module(X))


# --- subclasses, ducks, modes ---------------------------------------------------------------------


class Subclass(torch.Tensor):
    seen: list = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.seen.append(function)
        return super().__torch_function__(function, types, args, kwargs or {})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_subclasses_see_the_function_and_stay(name):
    function, (args, kwargs), x = getattr(F, name), calls(name), input_of(name)
    Subclass.seen.clear()
    y = function(x.as_subclass(Subclass), *args, **kwargs)
    assert Subclass.seen[0] is function
    assert all(type(a) is Subclass for a in as_tuple(y))
    same(tuple(a.as_subclass(torch.Tensor) for a in as_tuple(y)), function(x, *args, **kwargs))


class Plain(torch.Tensor):
    pass


def test_a_subclass_is_compiled():
    compiled = torch.compile(lambda x: F.max_pool2d(x, 2) + F.min_pool2d(x, 2), fullgraph=True, backend="eager")
    y = compiled(X.as_subclass(Plain))
    assert type(y) is Plain
    same(y.as_subclass(torch.Tensor), F.max_pool2d(X, 2) + F.min_pool2d(X, 2))


class Duck:
    """No tensor at all, but it takes functions over."""

    def __init__(self, inside):
        self.inside = inside

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        inside = [a.inside if isinstance(a, cls) else a for a in args]
        return cls(function(*inside, **(kwargs or {})))


def test_ducks():
    assert_close(F.avg_pool2d(Duck(X), 2, padding=1).inside, F.avg_pool2d(X, 2, padding=1))
    assert_close(nn.SumPool2d(2)(Duck(X)).inside, F.sum_pool2d(X, 2))
    with pytest.raises(TypeError, match=r"max_pool2d takes a tensor and got a object; call torch.as_tensor on it"):
        F.max_pool2d(object(), 2)


class Watch(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.seen.append(function)
        return function(*args, **(kwargs or {}))


def test_modes_see_the_function():
    with Watch() as watch:
        y = F.max_pool2d(X, 2)
        F.min_pool2d(X, 2)
        F.global_avg_pool(X)
    assert_close(y, F.max_pool2d(X, 2))
    for function in (F.max_pool2d, F.min_pool2d, F.global_avg_pool):
        assert function in watch.seen


def test_a_default_device_is_a_mode_too():
    compiled = torch.compile(lambda x: F.max_pool2d(x, 2), fullgraph=True, backend="eager")
    with torch.device("cpu"):
        assert_close(compiled(X), F.max_pool2d(X, 2))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_are_refused(layout):
    nested = torch.nested.nested_tensor([torch.randn(3, 4, 4), torch.randn(3, 4, 4)], layout=layout)
    for call in (
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.max_pool1d(x, 2),  # which wants fewer axes, and says so of others
        lambda x: F.avg_pool(x, (2, 2)),
        lambda x: F.min_pool2d(x, 2),
        lambda x: F.lp_pool2d(x, 3, 2),
        lambda x: F.global_max_pool(x),
        lambda x: F.smooth_max_pool2d(x, torch.tensor(2.0), 2),
        lambda x: nn.MaxPool2d(2)(x),
        lambda x: F.max_pool2d(x.requires_grad_(), 2),
    ):
        with pytest.raises(TypeError, match=r"the tensor is nested, which ndpool does not pool; .*to_padded_tensor"):
            call(nested)


# --- TorchScript ----------------------------------------------------------------------------------

SCRIPTED = [
    nn.MaxPool1d(3, 2),
    nn.MaxPool2d(3, 2, 1),
    nn.MaxPool2d(3, 2, 1, return_indices=True),
    nn.MaxPool3d((1, 2, 2)),
    nn.AvgPool1d(2),
    nn.AvgPool2d(3, 2, 1, count_include_pad=False),
    nn.AvgPool2d(2, divisor_override=-3),
    nn.AvgPool3d(2),
    nn.LPPool2d(2, 2),
    nn.AdaptiveMaxPool2d(2, return_indices=True),
    nn.AdaptiveAvgPool2d((2, None)),
    nn.MinPool2d(2, ties="split"),
    nn.MinPool2d(2, return_indices=True),
    nn.MaxPool(3, axes=(1, 2)),
    nn.MaxPool(2, padding="same", axes=(-1, 0)),
    nn.SumPool((2, 2), ceil_mode=True),
    nn.SmoothMaxPool2d(2.0, 3),
    nn.AdaptiveLpPool(2, (3, 2)),
    nn.GlobalMaxPool(),
    nn.GlobalAvgPool(keepdims=False, axes=1),
    nn.Pool(ndpool.Pool(ndpool.Max("split"), ndpool.Window(2), axes=(0, 3))),
]


@pytest.mark.parametrize("module", SCRIPTED, ids=str)
def test_scripted(module):
    """The same numbers and gradients, saved and loaded too; and the module stays what it was."""
    x = X[0] if "1d" in str(module) else X
    before, text = module(x), str(module)
    scripted = torch.jit.script(torch.nn.Sequential(torch.nn.ReLU(), module))
    saved = io.BytesIO()
    torch.jit.save(scripted, saved)
    saved.seek(0)
    want = module(x.relu())
    for compiled in (scripted, torch.jit.load(saved)):
        assert_close(compiled(x), want)
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    got, want = as_tuple(scripted(a))[0], as_tuple(module(b.relu()))[0]
    g = torch.randn_like(want)
    assert_close(torch.autograd.grad(got, a, g), torch.autograd.grad(want, b, g))
    same(pickle.loads(pickle.dumps(module))(x), before)
    assert str(module) == text


def test_scripted_in_another_order_of_axes():
    """Axes from the start are known when the tensor is, as are its strides."""
    x = X.to(memory_format=torch.channels_last).requires_grad_()
    for module in (
        nn.MaxPool(3, axes=(1, 2)),
        nn.MinPool(2, axes=(0, 3)),
        nn.GlobalLpPool(2, axes=(1, 2), keepdims=False),
    ):
        got, want = torch.jit.script(module)(x), module(x)
        g = torch.randn_like(want)
        assert_close(got, want)
        assert got.stride() == want.stride()
        assert_close(torch.autograd.grad(got, x, g), torch.autograd.grad(want, x, g))


def test_scripted_integers_and_shapes():
    x = torch.tensor([[[7, -8, -9], [0, 1, 1], [5, 5, 5]]])
    for module in (nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(2), nn.AvgPool2d(2, divisor_override=-3)):
        same(torch.jit.script(module)(x), module(x))
    for module in (nn.AvgPool2d(2), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(2)):
        for wrong in (x[0], x[None, None]):
            with pytest.raises(torch.jit.Error, match=r"the input has \d axes; give 3, or 4 with a batch"):
                torch.jit.script(module)(wrong)


def test_a_converted_model_is_scripted():
    """In the order that `convert` advises, and it stays a model of Python's with ndpool's pools."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.MaxPool2d(2), torch.nn.AvgPool2d(2))
    convert(model)
    scripted = torch.jit.script(model)
    assert "ndpool.forward" in str(scripted.inlined_graph) or "ndpool::forward" in str(scripted.inlined_graph)
    assert_close(scripted(X), model(X))
    assert [type(module) for module in model[1:]] == [nn.MaxPool2d, nn.AvgPool2d]
    assert [name for name, _ in model.named_modules()] == ["", "0", "1", "2"]


def test_scripting_again_sees_what_has_changed():
    module = nn.MaxPool2d(2, return_indices=True)
    torch.jit.script(module)
    module.return_indices, module.kernel_size, module.stride = False, 3, 3
    same(torch.jit.script(module)(X), F.max_pool2d(X, 3))


def test_what_is_scripted_as_pytorchs():
    model = torch.nn.Sequential(nn.LPPool2d(3, 2))
    assert_close(torch.jit.script(model)(X.abs()), F.lp_pool2d(X.abs(), 3, 2))


def test_what_cannot_be_scripted_says_so():
    with pytest.raises(TypeError, match=r"cannot be scripted, nor can PyTorch's own; use torch.compile"):
        torch.jit.script(nn.MaxUnpool2d(2))
    with pytest.raises(TypeError, match=r"cannot be scripted: its beta is a tensor, .*; use torch.compile"):
        torch.jit.script(nn.SmoothMaxPool2d(torch.nn.Parameter(torch.tensor(1.0)), 2))
    with pytest.raises(TypeError, match=r"cannot be scripted: indices are the first winner's, and Max\(ties='all'\)"):
        torch.jit.script(nn.MaxPool((2, 2), ties="all", return_indices=True))
