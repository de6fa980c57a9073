"""Pooling modules: PyTorch's own with ndpool inside, and ndpool's functions with their arguments.

A module that PyTorch has is a subclass of PyTorch's, with its constructor, its `extra_repr` and its attributes: it fits
wherever that fits. The others are functions of `functional` that remember their arguments:

    >>> MaxPool2d(3, stride=2, padding=1)
    MaxPool2d(kernel_size=3, stride=2, padding=1, dilation=1, ceil_mode=False)
    >>> SmoothMaxPool2d(2.0, 3)
    SmoothMaxPool2d(beta=2.0, kernel_size=3)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from . import functional

# --- PyTorch's ------------------------------------------------------------------------------------


class _Max:
    _function: ClassVar[Callable[..., Any]]

    def forward(self: Any, input: Tensor) -> Any:
        return self._function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


class _MaxUnpool:
    _function: ClassVar[Callable[..., Tensor]]

    def forward(self: Any, input: Tensor, indices: Tensor, output_size: list[int] | None = None) -> Any:
        return self._function(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class _Avg:
    _function: ClassVar[Callable[..., Tensor]]

    def forward(self: Any, input: Tensor) -> Any:
        divisor = {"divisor_override": self.divisor_override} if hasattr(self, "divisor_override") else {}
        window = self.kernel_size, self.stride, self.padding, self.ceil_mode
        return self._function(input, *window, self.count_include_pad, **divisor)


class _LP:
    _function: ClassVar[Callable[..., Tensor]]

    def forward(self: Any, input: Tensor) -> Any:
        return self._function(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class _AdaptiveMax:
    _function: ClassVar[Callable[..., Any]]

    def forward(self: Any, input: Tensor) -> Any:
        return self._function(input, self.output_size, self.return_indices)


class _AdaptiveAvg:
    _function: ClassVar[Callable[..., Tensor]]

    def forward(self: Any, input: Tensor) -> Any:
        return self._function(input, self.output_size)


class MaxPool1d(_Max, torch.nn.MaxPool1d):
    _function = staticmethod(functional.max_pool1d)


class MaxPool2d(_Max, torch.nn.MaxPool2d):
    _function = staticmethod(functional.max_pool2d)


class MaxPool3d(_Max, torch.nn.MaxPool3d):
    _function = staticmethod(functional.max_pool3d)


class MaxUnpool1d(_MaxUnpool, torch.nn.MaxUnpool1d):
    _function = staticmethod(functional.max_unpool1d)


class MaxUnpool2d(_MaxUnpool, torch.nn.MaxUnpool2d):
    _function = staticmethod(functional.max_unpool2d)


class MaxUnpool3d(_MaxUnpool, torch.nn.MaxUnpool3d):
    _function = staticmethod(functional.max_unpool3d)


class AvgPool1d(_Avg, torch.nn.AvgPool1d):
    _function = staticmethod(functional.avg_pool1d)


class AvgPool2d(_Avg, torch.nn.AvgPool2d):
    _function = staticmethod(functional.avg_pool2d)


class AvgPool3d(_Avg, torch.nn.AvgPool3d):
    _function = staticmethod(functional.avg_pool3d)


class LPPool1d(_LP, torch.nn.LPPool1d):
    _function = staticmethod(functional.lp_pool1d)


class LPPool2d(_LP, torch.nn.LPPool2d):
    _function = staticmethod(functional.lp_pool2d)


class LPPool3d(_LP, torch.nn.LPPool3d):
    _function = staticmethod(functional.lp_pool3d)


class AdaptiveMaxPool1d(_AdaptiveMax, torch.nn.AdaptiveMaxPool1d):
    _function = staticmethod(functional.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMax, torch.nn.AdaptiveMaxPool2d):
    _function = staticmethod(functional.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMax, torch.nn.AdaptiveMaxPool3d):
    _function = staticmethod(functional.adaptive_max_pool3d)


class AdaptiveAvgPool1d(_AdaptiveAvg, torch.nn.AdaptiveAvgPool1d):
    _function = staticmethod(functional.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvg, torch.nn.AdaptiveAvgPool2d):
    _function = staticmethod(functional.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvg, torch.nn.AdaptiveAvgPool3d):
    _function = staticmethod(functional.adaptive_avg_pool3d)


# --- ndpool's -------------------------------------------------------------------------------------


class _Module(torch.nn.Module):
    """A function of a tensor that remembers its other arguments, each under its own name."""

    _function: ClassVar[Callable[..., Any]]
    _names: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, function: Callable[..., Any], **more: Any) -> None:
        super().__init_subclass__(**more)
        cls._function = staticmethod(function)
        cls.__doc__ = cls.__doc__ or f"`functional.{function.__name__}` with its arguments, as a module."
        _, *others = inspect.signature(function).parameters.values()
        cls._names = tuple(other.name for other in others)
        cls._defaults = {other.name: other.default for other in others}
        cls.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        given = type(self).__signature__.bind(*args, **kwargs)  # type: ignore[attr-defined]
        given.apply_defaults()
        for name, value in given.arguments.items():
            setattr(self, name, value)

    def forward(self, x: Tensor) -> Any:
        return self._function(x, **{name: getattr(self, name) for name in self._names})

    def extra_repr(self) -> str:
        """The arguments that are not the defaults."""
        given = {name: getattr(self, name) for name in self._names}
        return ", ".join(f"{name}={value!r}" for name, value in given.items() if value != self._defaults[name])


class Pool(_Module, function=functional.pool):
    """Any `ndpool.Pool`.

    >>> from ndpool import Max, Window
    >>> from ndpool import Pool as Over
    >>> Pool(Over(Max("split"), Window((2, 2))))(torch.eye(4)).shape
    torch.Size([2, 2])
    """


class MaxPool(_Module, function=functional.max_pool):
    pass


class MinPool(_Module, function=functional.min_pool):
    pass


class AvgPool(_Module, function=functional.avg_pool):
    pass


class SumPool(_Module, function=functional.sum_pool):
    pass


class SmoothMaxPool(_Module, function=functional.smooth_max_pool):
    pass


class LpPool(_Module, function=functional.lp_pool):
    pass


class AdaptiveMaxPool(_Module, function=functional.adaptive_max_pool):
    pass


class AdaptiveMinPool(_Module, function=functional.adaptive_min_pool):
    pass


class AdaptiveAvgPool(_Module, function=functional.adaptive_avg_pool):
    pass


class AdaptiveSumPool(_Module, function=functional.adaptive_sum_pool):
    pass


class AdaptiveSmoothMaxPool(_Module, function=functional.adaptive_smooth_max_pool):
    pass


class AdaptiveLpPool(_Module, function=functional.adaptive_lp_pool):
    pass


class GlobalMaxPool(_Module, function=functional.global_max_pool):
    pass


class GlobalMinPool(_Module, function=functional.global_min_pool):
    pass


class GlobalAvgPool(_Module, function=functional.global_avg_pool):
    pass


class GlobalSumPool(_Module, function=functional.global_sum_pool):
    pass


class GlobalSmoothMaxPool(_Module, function=functional.global_smooth_max_pool):
    pass


class GlobalLpPool(_Module, function=functional.global_lp_pool):
    pass


class MinPool1d(_Module, function=functional.min_pool1d):
    pass


class MinPool2d(_Module, function=functional.min_pool2d):
    pass


class MinPool3d(_Module, function=functional.min_pool3d):
    pass


class SumPool1d(_Module, function=functional.sum_pool1d):
    pass


class SumPool2d(_Module, function=functional.sum_pool2d):
    pass


class SumPool3d(_Module, function=functional.sum_pool3d):
    pass


class SmoothMaxPool1d(_Module, function=functional.smooth_max_pool1d):
    pass


class SmoothMaxPool2d(_Module, function=functional.smooth_max_pool2d):
    pass


class SmoothMaxPool3d(_Module, function=functional.smooth_max_pool3d):
    pass


class AdaptiveMinPool1d(_Module, function=functional.adaptive_min_pool1d):
    pass


class AdaptiveMinPool2d(_Module, function=functional.adaptive_min_pool2d):
    pass


class AdaptiveMinPool3d(_Module, function=functional.adaptive_min_pool3d):
    pass


class AdaptiveSumPool1d(_Module, function=functional.adaptive_sum_pool1d):
    pass


class AdaptiveSumPool2d(_Module, function=functional.adaptive_sum_pool2d):
    pass


class AdaptiveSumPool3d(_Module, function=functional.adaptive_sum_pool3d):
    pass


class AdaptiveSmoothMaxPool1d(_Module, function=functional.adaptive_smooth_max_pool1d):
    pass


class AdaptiveSmoothMaxPool2d(_Module, function=functional.adaptive_smooth_max_pool2d):
    pass


class AdaptiveSmoothMaxPool3d(_Module, function=functional.adaptive_smooth_max_pool3d):
    pass


class AdaptiveLpPool1d(_Module, function=functional.adaptive_lp_pool1d):
    pass


class AdaptiveLpPool2d(_Module, function=functional.adaptive_lp_pool2d):
    pass


class AdaptiveLpPool3d(_Module, function=functional.adaptive_lp_pool3d):
    pass
