"""Export to ONNX: every operator of a kept graph as nodes of the standard, for both of PyTorch's exporters.

    ndpool.torch.onnx.export(model, (x,), "model.onnx", dynamic_shapes=...)

is `torch.onnx.export` with `translations()`, which its `custom_translation_table` takes too. For the older exporter
(`dynamo=False`) it is enough to have imported this module. A pool that cannot be told in ONNX is refused by its name.

This module speaks to the two exporters; `onnx_forms` says what a pool is in ONNX.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from .onnx_forms import RefusedError, pooled, pooled_with_indices
from .onnx_graph import OPSET, Array, Graph, Value
from .schema import decode

__all__ = ["export", "translations"]


def export(
    model: Any, args: tuple[Any, ...] = (), f: Any = None, *, dynamo: bool = True, **options: Any
) -> torch.onnx.ONNXProgram | None:
    """`torch.onnx.export(model, args, f, dynamo=dynamo, **options)` for a model with ndpool's pools in it.

    A pool that has no form in ONNX is a `NotImplementedError` that names it.
    """
    if dynamo:
        options["custom_translation_table"] = translations() | (options.get("custom_translation_table") or {})
    try:
        return torch.onnx.export(model, args, f, dynamo=dynamo, **options)
    except torch.onnx.OnnxExporterError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, RefusedError):
            cause = cause.__cause__
        raise cause or error from None


def translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """What `torch.onnx.export(..., custom_translation_table=translations())` needs to know of ndpool's operators."""
    operators = torch.ops.ndpool
    return {
        operators.forward.default: _forward,
        operators.forward_with_indices.default: _forward_with_indices,
        **{getattr(operators, name).default: _refusal(name) for name in _DERIVATIVES},
    }


# --- torch.export's exporter ----------------------------------------------------------------------


class _Recorded(Graph):
    """The graph that onnxscript records while a translation runs."""

    def __init__(self) -> None:
        self.onnxscript: Any = importlib.import_module("onnxscript")

    def op(self, name: str, *inputs: Value, outputs: int = 1, **attributes: Any) -> Any:
        made = getattr(self.onnxscript.opset18, name)(*inputs, **attributes)
        return made[0] if outputs == 1 and isinstance(made, Sequence) else made

    def constant(self, array: Array) -> Value:
        return self.op("Constant", value=self.onnxscript.ir.tensor(array))

    def size(self, x: Value) -> tuple[int | None, ...] | None:
        return None if x.shape is None else tuple(n if isinstance(n, int) else None for n in x.shape)

    def dtype(self, x: Value) -> int | None:
        return None if x.dtype is None else int(x.dtype)


def _forward(
    x: Any,
    kind: str,
    parameter: float,
    option: str,
    skip: str,
    window: str,
    numbers: Sequence[int],
    axes: Sequence[int],
) -> Any:
    return pooled(_Recorded(), x, decode(kind, parameter, option, skip, window, numbers, axes).pool)


def _forward_with_indices(
    x: Any,
    kind: str,
    parameter: float,
    option: str,
    skip: str,
    window: str,
    numbers: Sequence[int],
    axes: Sequence[int],
) -> Any:
    return pooled_with_indices(_Recorded(), x, decode(kind, parameter, option, skip, window, numbers, axes).pool)


# --- TorchScript's exporter -----------------------------------------------------------------------


#: How it marks the type of an attribute, and what it calls the standard's dtypes.
_SUFFIXES = {int: "_i", list: "_i", str: "_s", torch.Tensor: "_t"}
_DTYPES = {"Float": 1, "Byte": 2, "Char": 3, "Short": 5, "Int": 6, "Long": 7, "Bool": 9, "Half": 10, "Double": 11}
_DTYPES |= {"UInt16": 4, "UInt32": 12, "UInt64": 13, "BFloat16": 16}


class _Scripted(Graph):
    """The graph that TorchScript's exporter builds."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def op(self, name: str, *inputs: Value, outputs: int = 1, **attributes: Any) -> Any:
        spelled = {key + _SUFFIXES[type(value)]: value for key, value in attributes.items()}
        return self.graph.op(name, *inputs, outputs=outputs, **spelled)

    def constant(self, array: Array) -> Value:
        return self.op("Constant", value=torch.from_numpy(np.array(array)))

    def size(self, x: Value) -> tuple[int | None, ...] | None:
        sizes = x.type().varyingSizes()
        return None if sizes is None else tuple(sizes)

    def dtype(self, x: Value) -> int | None:
        return _DTYPES.get(x.type().scalarType())


_parsed: Callable[..., Any] = torch.onnx.symbolic_helper.parse_args("v", "s", "f", "s", "s", "s", "is", "is")


@_parsed
def _scripted_forward(
    graph: Any,
    x: Any,
    kind: str,
    parameter: float,
    option: str,
    skip: str,
    window: str,
    numbers: list[int],
    axes: list[int],
) -> Any:
    return pooled(_Scripted(graph), x, decode(kind, parameter, option, skip, window, numbers, axes).pool)


@_parsed
def _scripted_forward_with_indices(
    graph: Any,
    x: Any,
    kind: str,
    parameter: float,
    option: str,
    skip: str,
    window: str,
    numbers: list[int],
    axes: list[int],
) -> Any:
    return pooled_with_indices(_Scripted(graph), x, decode(kind, parameter, option, skip, window, numbers, axes).pool)


# --- what is refused ------------------------------------------------------------------------------

_DERIVATIVES = "forward_with_winners", "indices", "jvp", "vjp"


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(*_: Any) -> Any:
        raise RefusedError(
            f"ndpool.{name} belongs to a derivative, which has no form in ONNX; export the model without one"
        )

    return refuse


def _register() -> None:
    register = torch.onnx.register_custom_op_symbolic  # type: ignore[attr-defined]
    register("ndpool::forward", _scripted_forward, OPSET)
    register("ndpool::forward_with_indices", _scripted_forward_with_indices, OPSET)
    for name in _DERIVATIVES:
        register(f"ndpool::{name}", _refusal(name), OPSET)


_register()
