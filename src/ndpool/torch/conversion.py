"""One line that speeds up a network: its pooling modules become ndpool's."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from . import nn

#: PyTorch's pooling modules, and what takes their place.
REPLACEMENTS: dict[type[torch.nn.Module], type[torch.nn.Module]] = {
    getattr(torch.nn, f"{family}{rank}d"): getattr(nn, f"{family}{rank}d")
    for family in ("MaxPool", "MaxUnpool", "AvgPool", "LPPool", "AdaptiveMaxPool", "AdaptiveAvgPool")
    for rank in (1, 2, 3)
}
_FRACTIONAL = (torch.nn.FractionalMaxPool2d, torch.nn.FractionalMaxPool3d)


@dataclass(frozen=True)
class Report:
    """What `convert` did: the modules that it replaced by name, and those that it left with the reason."""

    replaced: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"replaced {name or 'the model itself'}: {what}" for name, what in self.replaced.items()]
        lines += [f"left {name or 'the model itself'}: {why}" for name, why in self.left.items()]
        return "\n".join(lines) or "no pooling modules found"


def convert(model: torch.nn.Module) -> Report:
    """Replace the model's pooling modules by ndpool's, in place, and say which.

    A module stays the same object, with its hooks and its place in the model: it only changes its class. Pooling by a
    call in a `forward` (`torch.nn.functional.max_pool2d`, `torch.amax`) is not a module and is not seen.

    >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.MaxPool2d(2))
    >>> print(convert(model))
    replaced 1: MaxPool2d
    >>> type(model[1]).__module__
    'ndpool.torch.nn'
    """
    report = Report()
    elsewhere = next((p.device for p in model.parameters() if p.device.type not in ("cpu", "meta")), None)
    for name, module in model.named_modules():
        reason = _reason_to_leave(module)
        if reason is None and type(module) in REPLACEMENTS and elsewhere is not None:
            reason = f"the model is on {elsewhere}, for which ndpool has no engine"
        if reason is not None:
            report.left[name] = reason
        elif type(module) in REPLACEMENTS:
            module.__class__ = REPLACEMENTS[type(module)]
            report.replaced[name] = type(module).__name__
    return report


def _reason_to_leave(module: torch.nn.Module) -> str | None:
    """Why a module that pools is left alone, or None."""
    if isinstance(module, torch.jit.ScriptModule):
        if getattr(module, "original_name", "") in {cls.__name__ for cls in (*REPLACEMENTS, *_FRACTIONAL)}:
            return "it is compiled by TorchScript; convert the model before scripting it"
        return None
    if isinstance(module, _FRACTIONAL):
        return f"{type(module).__name__} draws its windows at random, which ndpool does not"
    if type(module).__module__ == nn.__name__ or type(module) in REPLACEMENTS:
        return None
    if isinstance(module, tuple(REPLACEMENTS)):
        return f"{type(module).__name__} is a class of its own, which may do more than its base"
    return None
