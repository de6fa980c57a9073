"""The operators `torch.ops.ndpool.*`: how PyTorch sees a pool while it traces, exports or pretends.

Each has the engine as its kernel, a fake kernel that gives shapes, strides and dtypes alone, derivatives in both modes
by the rules of `autograd`, and a rule for `vmap`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.export._trace import custom_triton_ops_decomposition_disabled

from ..plan import Order, winner_bytes, without
from ..windows import Global, Window
from . import autograd, engine
from .devices import ENGINES
from .engine import TensorPool
from .schema import SCHEMA, decode
from .sizes import number_of_outputs

_SIGNATURES = {
    "forward": "Tensor x",
    "forward_with_winners": "Tensor x",
    "forward_with_indices": "Tensor x",
    "indices": "Tensor winners, SymInt[] size",
    "jvp": "Tensor t, Tensor? x, Tensor? winners",
    "vjp": "Tensor g, SymInt[] size, int[]? order, Tensor? x, Tensor? y, Tensor? winners",
}
_RESULTS = {"forward_with_winners": "(Tensor, Tensor)", "forward_with_indices": "(Tensor, Tensor)"}
_VALUES = SCHEMA.count(",") + 1


def _pool_of(inputs: Sequence[Any]) -> TensorPool:
    return decode(*inputs[-_VALUES:])


def _with_pool(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function(pool, *arguments)` as an operator calls it: with the pool's values at the end."""
    return engine.opaque(lambda *inputs: function(_pool_of(inputs), *inputs[:-_VALUES]))


# --- kernels --------------------------------------------------------------------------------------


def _vjp(
    pool: TensorPool, g: Tensor, size: Sequence[int], order: Sequence[int] | None, *known: Tensor | None
) -> Tensor:
    return engine.vjp(pool, g, tuple(size), None if order is None else tuple(order), *known)


def _indices(pool: TensorPool, winners: Tensor, size: Sequence[int]) -> Tensor:
    return engine.indices(pool, winners, tuple(size))


def _forward_with_indices(pool: TensorPool, x: Tensor) -> tuple[Tensor, Tensor]:
    y, winners = engine.forward_with_winners(pool, x)
    return y, engine.indices(pool, winners, x.shape)


_KERNELS: dict[str, Callable[..., Any]] = {
    "forward": engine.forward,
    "forward_with_winners": engine.forward_with_winners,
    "forward_with_indices": _forward_with_indices,
    "indices": _indices,
    "jvp": engine.jvp,
    "vjp": _vjp,
}


# --- kernels that the compiler sees ---------------------------------------------------------------


def _is_known(inputs: Sequence[Any]) -> bool:
    """Whether all tensors are on CUDA, and all their sizes and those among the other inputs are numbers."""
    tensors = [a for a in inputs if isinstance(a, Tensor)]
    numbers = [n for a in tensors for n in (*a.shape, *a.stride())]
    numbers += [n for a in inputs if isinstance(a, list | tuple) for n in a]
    return all(a.is_cuda for a in tensors) and all(type(n) is int for n in numbers)


def _seen_by_compiler(name: str) -> Callable[..., Any]:
    """What an operator is for `torch.compile`: the engine's allocations and launches, which it can place as it likes.

    The operator stays whole in an exported program, which is to say what is computed, and where a size is a symbol,
    which the engine cannot plan for.
    """

    def decomposed(mode: Any, operator: Any, types: Any, inputs: Sequence[Any], kwargs: Any) -> Any:
        exported = custom_triton_ops_decomposition_disabled()  # type: ignore[no-untyped-call]
        if exported or not _is_known(inputs[:-_VALUES]):
            return mode.__torch_dispatch__(operator, types, inputs, kwargs)
        with mode:
            return _KERNELS[name](_pool_of(inputs), *inputs[:-_VALUES])

    return decomposed


# --- fake kernels ---------------------------------------------------------------------------------


def _fake(size: Sequence[int], order: Order, like: Tensor, dtype: torch.dtype) -> Tensor:
    """What `engine.empty` gives, for sizes that may be symbols."""
    if order is None:
        return like.new_empty(size, dtype=dtype)
    return like.new_empty([size[d] for d in order], dtype=dtype).permute([order.index(d) for d in range(len(order))])


def _fake_y(pool: TensorPool, size: Sequence[int], order: Order, like: Tensor, dtype: torch.dtype) -> Tensor:
    y_size, axes = _fake_size(pool, size), pool.axes_of(len(size))
    y_order = order if order is None or len(y_size) == len(size) else without(order, tuple(axes))
    return _fake(y_size, y_order, like, dtype)


def _fake_size(pool: TensorPool, size: Sequence[int]) -> Sequence[int]:
    """The size of the output: checked where it is numbers; where it has symbols, with no question asked about them.

    An answer would bind the whole program, and what it may not be is known when it runs: the kernel checks then.
    """
    axes, window = pool.pool.axes or (), pool.pool.window
    if all(type(length) is int for length in size):
        return pool.pool._layout(tuple(size)).output_shape
    outputs = {
        axis: number_of_outputs(window, j, len(axes), size[axis], torch.sym_max, torch.sym_min)
        for j, axis in enumerate(axes)
    }
    drop = isinstance(window, Global) and not window.keepdims
    places = [(d - len(size), length) for d, length in enumerate(size)]
    return [outputs.get(d, length) for d, length in places if not (drop and d in outputs)]


def _winner_dtype(pool: TensorPool, size: Sequence[int]) -> torch.dtype:
    axes, window = pool.pool.axes or (), pool.pool.window
    if isinstance(window, Window):
        kernels = [window.of_axis(j, len(axes))[0] for j in range(len(axes))]
    else:
        kernels = [axis.kernel for axis in window.axes_of([size[axis] for axis in axes])]
    return engine.WINNERS[winner_bytes(math.prod(kernels), pool.pool.skip is not None)]


def _fake_forward(pool: TensorPool, x: Tensor) -> Tensor:
    return _fake_result(pool, x, pool.forward_order_of(x))


def _fake_result(pool: TensorPool, x: Tensor, order: Order) -> Tensor:
    return _fake_y(pool, x.shape, order, x, engine.result_dtype(pool.kind, x.dtype))


def _fake_forward_with_winners(pool: TensorPool, x: Tensor) -> tuple[Tensor, Tensor]:
    order = pool.order_of(x)
    return _fake_result(pool, x, order), _fake_y(pool, x.shape, order, x, _winner_dtype(pool, x.shape))


def _fake_forward_with_indices(pool: TensorPool, x: Tensor) -> tuple[Tensor, Tensor]:
    order = pool.order_of(x)
    winners = _fake_y(pool, x.shape, order, x, torch.int64)
    return _fake_result(pool, x, order), _fake_indices(pool, winners, x.shape)


def _fake_indices(pool: TensorPool, winners: Tensor, size: Sequence[int]) -> Tensor:
    return _fake_y(pool, size, engine.y_order(pool, winners, tuple(size)), winners, torch.int64)


def _fake_jvp(pool: TensorPool, t: Tensor, x: Tensor | None, winners: Tensor | None) -> Tensor:
    order = pool.order_of(t if x is None or pool.linear else x)
    return _fake_y(pool, t.shape, order, t, t.dtype)


def _fake_vjp(
    pool: TensorPool, g: Tensor, size: Sequence[int], order: Sequence[int] | None, *known: Tensor | None
) -> Tensor:
    return _fake(size, None if order is None else tuple(order), g, g.dtype)


_FAKES: dict[str, Callable[..., Any]] = {
    "forward": _fake_forward,
    "forward_with_winners": _fake_forward_with_winners,
    "forward_with_indices": _fake_forward_with_indices,
    "indices": _fake_indices,
    "jvp": _fake_jvp,
    "vjp": _fake_vjp,
}


# --- derivatives and vmap -------------------------------------------------------------------------

_RULES: dict[str, Any] = {
    "forward": autograd.Forward,
    "forward_with_winners": autograd.ForwardWithWinners,
    "forward_with_indices": autograd.ForwardWithIndices,
    "indices": autograd.Indices,
    "jvp": autograd.Jvp,
    "vjp": autograd.Vjp,
}


def _vmap(name: str) -> Callable[..., Any]:
    def vmap(info: Any, dims: tuple[Any, ...], *inputs: Any) -> Any:
        return _RULES[name].vmap(info, (*dims[:-_VALUES], None), *inputs[:-_VALUES], _pool_of(inputs))

    return vmap


_LIBRARY = torch.library.Library("ndpool", "FRAGMENT")  # type: ignore[no-untyped-call]


def _register(name: str) -> None:
    called = f"ndpool::{name}"
    torch.library.define(called, f"({_SIGNATURES[name]}, {SCHEMA}) -> {_RESULTS.get(name, 'Tensor')}")
    torch.library.impl(called, tuple(ENGINES))(_with_pool(_KERNELS[name]))
    torch.library.register_fake(called)(_with_pool(_FAKES[name]))
    _LIBRARY.impl(name, autograd.kernel(name, decode, _VALUES), "Autograd", with_keyset=True)  # type: ignore[no-untyped-call]
    torch.library.register_torch_dispatch(called, FunctionalTensorMode, _seen_by_compiler(name))
    torch.library.register_vmap(called, _vmap(name))


for _name in _SIGNATURES:
    _register(_name)
