"""Pooling functions for tensors: PyTorch's own, spelled as PyTorch spells them, and everything that ndpool adds.

With a number in its name, a function that PyTorch has takes PyTorch's arguments (`max_pool2d`, `lp_pool1d`): they come
from `signatures`. All others are made from the table and take ndpool's arguments: any rank, any `axes`, `ties=`, any
padding, dilation for every kind.

    >>> import torch
    >>> x = torch.tensor([[1.0, 2.0], [4.0, 3.0]], requires_grad=True)
    >>> max_pool(x, (2, 2)).sum().backward()
    >>> x.grad
    tensor([[0., 0.],
            [1., 0.]])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any  # noqa: F401 - annotations of what is made

import torch
from torch import Tensor  # noqa: F401 - likewise
from torch.compiler import is_compiling  # noqa: F401 - what is made calls it, and the others marked below
from torch.overrides import has_torch_function_unary, has_torch_function_variadic  # noqa: F401

from ..making import Style, explained, make
from ..pool import Pool  # noqa: F401
from ..table import TABLE, Pooling
from ..windows import Adaptive, Global, Ints, PaddingLike, Window  # noqa: F401
from .calls import LEARNABLE, fixed, learned, ndim_of, pool, pooled, result  # noqa: F401
from .overriding import handed_over  # noqa: F401
from .pools import over_all, over_bins, over_window  # noqa: F401
from .signatures import SPELLED

#: What makes the pool of a call, for each window.
_MAKERS = {Window: "over_window", Adaptive: "over_bins", Global: "over_all"}

_LEARNED = (
    "A {} that is a tensor is differentiated in, too: one number, or one a channel, which is dimension 1\n"
    "(0 where there is no batch), or a tensor of as many axes as x."
)


def _body(pooling: Pooling, axes: str) -> list[str]:
    learnable = LEARNABLE.get(pooling.kind)
    asked = f"has_torch_function_variadic(x, {learnable})" if learnable else "has_torch_function_unary(x)"
    lines = [f"if {asked} and not is_compiling():", f"    return handed_over({pooling.name}, locals())"]
    if not pooling.kind.engine:
        return [*lines, f"return pool(x, Pool({pooling.kind_call}, {pooling.window_call}, {axes}, skip, min_count))"]
    options = [f"fixed({each})" if each == learnable else each for each in pooling.options]
    arguments = [pooling.kind.__name__, *pooling.window_arguments, axes, "ndim_of(x)", "skip", "min_count", *options]
    lines.append(f"chosen = {_MAKERS[pooling.column.window]}({', '.join(arguments)})")
    if pooling.has_indices:
        return [*lines, "return result(chosen, x, return_indices)"]
    return [*lines, f"return learned(chosen, x, {learnable})" if learnable else "return pooled(chosen, x)"]


def _annotations(pooling: Pooling) -> Mapping[str, str]:
    learnable = LEARNABLE.get(pooling.kind)
    return {"output_size": "int | tuple[int | None, ...]"} | ({learnable: "float | Tensor"} if learnable else {})


def _text(pooling: Pooling) -> str:
    learnable = LEARNABLE.get(pooling.kind)
    more = _LEARNED.format(learnable) if learnable else ""
    return explained(pooling, "torch.tensor({})", lambda y: repr(torch.tensor(y.tolist())), more)


STYLE = Style(array="Tensor", result="Tensor", body=_body, text=_text, annotations=_annotations)
_MADE = make((each for each in TABLE.values() if each.name not in SPELLED), STYLE, globals())

globals().update(SPELLED | _MADE)
__all__ = sorted([*SPELLED, *_MADE, "pool"])
