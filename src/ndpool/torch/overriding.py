"""Objects that take PyTorch's functions over (`__torch_function__`): they take ndpool's over as well.

Tracers of `torch.fx`, subclasses of Tensor, and modes are such. A function asks `has_torch_function_unary` first, as
those of PyTorch do, and hands itself over with its arguments. In compiled code it does not: what Dynamo traces is the
inside, where the operators are seen by all of these.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.overrides import handle_torch_function

from .engine import check_dense_layout

R = TypeVar("R")


def handed_over(function: Callable[..., R], arguments: Mapping[str, Any]) -> R:
    """What the arguments' own `__torch_function__` makes of the call.

    The first argument is given by place and the others by name, without those that are the defaults: so a traced
    graph reads like the code that it was traced from.
    """
    parameters = _parameters(function)
    given = {name: arguments[name] for name in parameters}
    others = {name: given[name] for name in list(given)[1:] if given[name] is not parameters[name].default}
    return call_of(function, next(iter(given.values())), **others)


def call_of(function: Callable[..., R], x: Any, *args: Any, **kwargs: Any) -> R:
    """What its arguments make of `function(x, *args, **kwargs)`. Nested tensors would make nothing clear of it."""
    if isinstance(x, Tensor):
        with torch._C.DisableTorchFunction():
            if x.is_nested:
                check_dense_layout(x)
    return handle_torch_function(function, (x, *args, *kwargs.values()), x, *args, **kwargs)


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    if function not in _known:
        _known[function] = inspect.signature(function).parameters
    return _known[function]


_known: dict[Callable[..., Any], Mapping[str, inspect.Parameter]] = {}


def traced(module: Any, *inputs: Any) -> Any:
    """What a module gives for the inputs of a tracer: a call of itself in the graph, or what is inside of it."""
    call = called_as_leaf(module, *inputs)
    return module._call(*inputs) if call is None else call


def called_as_leaf(module: Any, *inputs: Any) -> torch.fx.Proxy | None:
    """A call of this module in the graph that is traced, as PyTorch's own pools are called there; or None.

    A tracer takes the modules of `torch.nn` for leaves, and looks into all others. One with a rule of its own for this
    is not overruled, and a module that is traced by itself is looked into. So is one whose `forward` is another, which
    has called this one: the call of the module would do the rest of that once more.
    """
    tracer: Any = inputs[0].tracer
    if "forward" in vars(module) or type(module).forward.__module__ != f"{__package__}.modules":
        return None
    if getattr(type(tracer), "is_leaf_module", None) is not torch.fx.Tracer.is_leaf_module:
        return None
    path = tracer.path_of_module(module)
    return tracer.create_proxy("call_module", path, inputs, {}) if path else None
