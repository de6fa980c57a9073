"""What the modules of `nn` are made of: one class for each of PyTorch's families, and one for all of ndpool's own."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from torch.fx import Proxy
from torch.jit import is_scripting  # type: ignore[attr-defined]

from ..kinds import Avg, Lp, Max
from ..parameters import section
from . import scripting
from .calls import LEARNABLE, UNSEEN, axes_of_unseen
from .engine import TensorPool
from .overriding import traced
from .pools import as_tuples, for_each, over_torch_bins, over_torch_window
from .schema import encode
from .signatures import check_norm_type, is_norm, positive_divisor

#: Where the classes that are made of these are found.
PUBLIC = f"{__package__}.nn"

_LEARNED = frozenset(LEARNABLE.values())


class Ours:
    """What all modules have in common: their name in print, and what TorchScript asks for.

    Each `forward` has three ways: compiled by TorchScript, seen by a tracer of `torch.fx`, and called. It has no
    annotations, as both compilers would take them for their own.
    """

    if TYPE_CHECKING:
        _values: scripting.Values

    def _get_name(self) -> str:
        """The name in print; a class that is derived from one of these has its own."""
        name = type(self).__name__
        return f"ndpool.{name}" if type(self).__module__ == PUBLIC else name

    def _prepared(self, pool: TensorPool, with_indices: bool) -> Any:
        """The module with what TorchScript needs: the pool as plain values, and attributes to tell branches by."""
        if with_indices and not pool.wins:
            raise TypeError(
                f"{self} cannot be scripted: indices are the first winner's, and {pool.kind!r} is another policy; give "
                'ties="first", or use torch.compile'
            )
        *values, axes = encode(pool.pool)
        typed = torch.jit.Attribute((*values, axes_of_unseen(axes)), scripting.Values)
        vars(self)["_values"] = typed
        vars(self).pop("_indexed", None)
        if with_indices:
            vars(self)["_indexed"] = True
        return self


# --- PyTorch's ------------------------------------------------------------------------------------


class Theirs(Ours):
    """A pool as PyTorch has it. `_pool` makes the pool of its arguments, which are thereby checked; `_call` pools."""

    _function: ClassVar[Callable[..., Any]]
    if TYPE_CHECKING:
        kernel_size: Any
        stride: Any
        padding: Any
        ceil_mode: bool
        output_size: Any
        _rank: int

    def __init_subclass__(cls, function: Callable[..., Any] | None = None, **more: Any) -> None:
        super().__init_subclass__(**more)
        if function is None:  # a family, or a class that someone derives from one of these
            return
        cls._function = staticmethod(function)
        signature = inspect.signature(getattr(torch.nn, cls.__name__))
        cls.__signature__ = signature  # type: ignore[attr-defined]
        cls.__doc__ = f"As `torch.nn.{cls.__name__}`, from ndpool.{section(signature.parameters)}"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pool()

    @classmethod
    def _dimensions(cls) -> int:
        return int(cls._function.__name__[-2])

    def _pool(self) -> TensorPool:
        raise NotImplementedError

    def _call(self, input: Any) -> Any:
        raise NotImplementedError

    def __prepare_scriptable__(self) -> Any:
        self._rank = self._dimensions()
        return self._prepared(self._pool(), getattr(self, "return_indices", False))

    def forward(self, input):  # type: ignore[no-untyped-def]
        if is_scripting():
            return self._script(input)
        return traced(self, input) if isinstance(input, Proxy) else self._call(input)

    def _script(self, input: Tensor):  # type: ignore[no-untyped-def]
        scripting.check_dimensions(input, self._rank)
        if hasattr(self, "_indexed"):
            return scripting.pooled_with_indices(input, self._values)
        else:
            return scripting.pooled(input, self._values)


class MaxPooling(Theirs):
    if TYPE_CHECKING:
        dilation: Any
        return_indices: bool

    def _pool(self) -> TensorPool:
        window = self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode
        return over_torch_window(Max, self._dimensions(), *window)

    def _call(self, input: Any) -> Any:
        return self._function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


class MaxUnpooling(Theirs):
    def _pool(self) -> Any:
        rank = self._dimensions()
        for name, least in (("kernel_size", 1), ("stride", 1), ("padding", 0)):
            for_each(name, getattr(self, name), rank, least)

    def __prepare_scriptable__(self) -> Any:
        raise TypeError(f"{self} cannot be scripted, nor can PyTorch's own; use torch.compile or torch.export")

    def forward(self, input, indices, output_size=None):  # type: ignore[no-untyped-def, override]
        if isinstance(input, Proxy):
            return traced(self, input, indices, output_size)
        return self._call(input, indices, output_size)

    def _call(self, input: Any, indices: Any, output_size: Any) -> Any:  # type: ignore[override]
        return self._function(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class AvgPooling(Theirs):
    if TYPE_CHECKING:
        count_include_pad: bool
        _sign: int

    def _pool(self) -> TensorPool:
        divisor = positive_divisor(getattr(self, "divisor_override", None))
        window = self.kernel_size, self.stride, self.padding, 1, self.ceil_mode
        return over_torch_window(Avg, self._dimensions(), *window, self.count_include_pad, divisor)

    def __prepare_scriptable__(self) -> Any:
        self._sign = -1 if (getattr(self, "divisor_override", None) or 1) < 0 else 1
        return super().__prepare_scriptable__()

    def _script(self, input: Tensor) -> Tensor:
        scripting.check_dimensions(input, self._rank)
        return scripting.averaged(input, self._values, self._sign)

    def _call(self, input: Any) -> Any:
        window = self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        if hasattr(self, "divisor_override"):
            return self._function(input, *window, self.divisor_override)
        return self._function(input, *window)


class LPPooling(Theirs):
    if TYPE_CHECKING:
        norm_type: float

    def _pool(self) -> TensorPool:
        check_norm_type(self.norm_type)
        window = self.kernel_size, self.stride, 0, 1, self.ceil_mode
        if is_norm(self.norm_type, self.ceil_mode):
            return over_torch_window(Lp, self._dimensions(), *window, self.norm_type)
        return over_torch_window(Avg, self._dimensions(), *window)

    def __prepare_scriptable__(self) -> Any:
        """A copy that is PyTorch's own, whose formula TorchScript knows."""
        theirs: torch.nn.Module = copy.copy(self)  # type: ignore[assignment]
        theirs.__class__ = next(cls for cls in type(self).__mro__ if cls.__module__.startswith("torch.nn"))
        return theirs

    def _call(self, input: Any) -> Any:
        return self._function(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class AdaptiveMaxPooling(Theirs):
    if TYPE_CHECKING:
        return_indices: bool

    def _pool(self) -> TensorPool:
        return over_torch_bins(Max, self._dimensions(), self.output_size)

    def _call(self, input: Any) -> Any:
        return self._function(input, self.output_size, self.return_indices)


class AdaptiveAvgPooling(Theirs):
    def _pool(self) -> TensorPool:
        return over_torch_bins(Avg, self._dimensions(), self.output_size)

    def _script(self, input: Tensor) -> Tensor:
        scripting.check_dimensions(input, self._rank)
        return scripting.averaged(input, self._values, 1)

    def _call(self, input: Any) -> Any:
        return self._function(input, self.output_size)


# --- ndpool's -------------------------------------------------------------------------------------


class Remembering(Ours, torch.nn.Module):
    """A function of a tensor that remembers its other arguments, each under its own name."""

    _function: ClassVar[Callable[..., Any]]
    _names: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, function: Callable[..., Any] | None = None, **more: Any) -> None:
        super().__init_subclass__(**more)
        if function is None:  # a class that someone derives from one of these
            return
        cls._function = staticmethod(function)
        _, *others = inspect.signature(function).parameters.values()
        text = inspect.cleandoc(cls.__doc__ or f"`functional.{function.__name__}` with its arguments, as a module.")
        cls._names = tuple(other.name for other in others)
        cls._defaults = {other.name: other.default for other in others}
        cls.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
        cls.__doc__ = text + section(cls._names, dict.fromkeys(cls._names, f"As in `functional.{function.__name__}`."))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        given = type(self).__signature__.bind(*args, **kwargs)  # type: ignore[attr-defined]
        given.apply_defaults()
        for name, value in given.arguments.items():
            if name not in _LEARNED:
                setattr(self, name, as_tuples(value))
            elif isinstance(value, Tensor) and not isinstance(value, torch.nn.Parameter):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)
        self._pool()

    def _arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._names}

    def _pool(self) -> TensorPool:
        """The pool of these arguments, which are thereby checked, for a tensor of any shape."""
        pool: TensorPool = self._function(UNSEEN, **self._arguments())
        return pool

    def forward(self, x):  # type: ignore[no-untyped-def]
        if is_scripting():
            return self._script(x)
        return traced(self, x) if isinstance(x, Proxy) else self._call(x)

    def _call(self, x: Any) -> Any:
        return self._function(x, **{name: getattr(self, name) for name in self._names})

    def _script(self, x: Tensor):  # type: ignore[no-untyped-def]
        if hasattr(self, "_indexed"):
            return scripting.pooled_with_indices(x, self._values)
        else:
            return scripting.pooled(x, self._values)

    def __prepare_scriptable__(self) -> Any:
        for name in _LEARNED.intersection(self._names):
            if isinstance(getattr(self, name), Tensor):
                raise TypeError(
                    f"{self} cannot be scripted: its {name} is a tensor, and TorchScript's operators take a number; "
                    f"use torch.compile or torch.export, or a {name} that is a float"
                )
        pool = self._pool()
        if pool is UNSEEN:
            raise TypeError(f"{self} cannot be scripted: its kind is Python code of your own; call it in eager code")
        return self._prepared(pool, getattr(self, "return_indices", False))

    def extra_repr(self) -> str:
        """The arguments that are not the defaults."""
        return ", ".join(
            f"{name}={_shown(value)}"
            for name, value in self._arguments().items()
            if isinstance(value, Tensor) or value != self._defaults[name]
        )


def _shown(value: Any) -> str:
    return f"{type(value).__name__}(shape={tuple(value.shape)})" if isinstance(value, Tensor) else repr(value)
