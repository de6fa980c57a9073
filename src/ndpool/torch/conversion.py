"""One line that speeds up a network: its pooling modules become ndpool's. And one that takes it back."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from . import nn
from .devices import ENGINES

#: PyTorch's pooling modules, and what takes their place.
REPLACEMENTS: dict[type[torch.nn.Module], type[torch.nn.Module]] = {
    getattr(torch.nn, f"{family}{rank}d"): getattr(nn, f"{family}{rank}d")
    for family in nn.FAMILIES
    for rank in (1, 2, 3)
}
ORIGINALS = {ours: theirs for theirs, ours in REPLACEMENTS.items()}
_FRACTIONAL = (torch.nn.FractionalMaxPool2d, torch.nn.FractionalMaxPool3d)
_AVERAGES = tuple(getattr(torch.nn, f"AdaptiveAvgPool{rank}d") for rank in (1, 2, 3))


@dataclass(frozen=True)
class Report:
    """What `convert` or `revert` did: the modules that it replaced by name, and those that it left with the reason."""

    replaced: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"replaced {name or 'the model itself'}: {what}" for name, what in self.replaced.items()]
        lines += [f"left {name or 'the model itself'}: {why}" for name, why in self.left.items()]
        return "\n".join(lines) or "no pooling modules found"


def convert(model: torch.nn.Module) -> Report:
    """Replace the model's pooling modules by ndpool's, in place, and say which.

    A module stays the same object, with its hooks and its place in the model: it only changes its class. Left alone are
    those that ndpool cannot do, or does more slowly than PyTorch. Pooling by a call in a `forward`
    (`torch.nn.functional.max_pool2d`, `torch.amax`) is not a module and is not seen.

    >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.MaxPool2d(2))
    >>> print(convert(model))
    replaced 1: MaxPool2d
    >>> model[1]
    ndpool.MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    """
    _check_model("convert", model)
    reason = _reason_to_leave_all(model)
    return _replaced(model, REPLACEMENTS, lambda module: _reason_to_leave(module, reason))


def revert(model: torch.nn.Module) -> Report:
    """Put PyTorch's own modules back, in place, and say which: the opposite of `convert`.

    >>> model = torch.nn.Sequential(nn.MaxPool2d(2), nn.MinPool2d(2))
    >>> print(revert(model))
    replaced 0: MaxPool2d
    left 1: PyTorch has no MinPool2d
    >>> model[0]
    MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    """
    _check_model("revert", model)
    return _replaced(model, ORIGINALS, _reason_to_stay)


def _check_model(name: str, model: Any) -> None:
    if not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"{name} takes a torch.nn.Module and got a {type(model).__name__}; give the model itself, and in code that "
            "pools by calls of torch.nn.functional import ndpool.torch.functional in its place"
        )


def _replaced(
    model: torch.nn.Module,
    replacements: dict[type[torch.nn.Module], type[torch.nn.Module]],
    reason_to_leave: Callable[[torch.nn.Module], str | None],
) -> Report:
    report = Report()
    for name, module in model.named_modules():
        reason = reason_to_leave(module)
        if reason is not None:
            report.left[name] = reason
        elif type(module) in replacements:
            module.__class__ = replacements[type(module)]
            report.replaced[name] = type(module).__name__
    return report


# --- reasons --------------------------------------------------------------------------------------


def _reason_to_leave_all(model: torch.nn.Module) -> str | None:
    """Why no pool of this model can be ndpool's, whichever it is, or None."""
    tensors = itertools.chain(model.parameters(), model.buffers())
    elsewhere = next((a.device for a in tensors if a.device.type not in (*ENGINES, "meta")), None)
    if elsewhere is not None:
        return f"the model is on {elsewhere}, for which ndpool has no engine"
    if any(map(_is_quantised, model.modules())):
        return "the model is quantised, and ndpool does not pool quantised tensors"
    return None


def _is_quantised(module: torch.nn.Module) -> bool:
    """Whether the module takes or gives quantised tensors, or is marked to do so when the model is converted.

    Those of dynamic quantisation, and the weights in them, take and give floats; a FloatFunctional does until then.
    """
    if getattr(module, "qconfig", None) is not None:
        return True
    where = type(module).__module__
    quantised = where.startswith(("torch.ao.nn.quantized.modules", "torch.ao.nn.intrinsic.quantized.modules"))
    return quantised and type(module).__name__ not in ("FloatFunctional", "FXFloatFunctional", "LinearPackedParams")


def _reason_to_leave(module: torch.nn.Module, reason_for_all: str | None) -> str | None:
    """Why a module that pools is left alone, or None."""
    if isinstance(module, torch.jit.ScriptModule):
        if _is_scripted_from_ndpool(module):
            return "it is ndpool's already"
        if module.original_name in {cls.__name__ for cls in (*REPLACEMENTS, *_FRACTIONAL)}:
            return "it is compiled by TorchScript; convert the model before scripting it"
        return None
    if isinstance(module, _FRACTIONAL):
        return f"{type(module).__name__} draws its windows at random, which ndpool does not"
    if type(module).__module__ == nn.__name__:
        return "it is ndpool's already"
    if type(module) not in REPLACEMENTS:
        derived = isinstance(module, tuple(REPLACEMENTS))
        return f"{type(module).__name__} is a class of its own, which may do more than its base" if derived else None
    if isinstance(module, _AVERAGES) and _is_one(module.output_size):
        return reason_for_all or "PyTorch's own is the faster one for an average over everything"
    return reason_for_all or _refused(module)


def _is_scripted_from_ndpool(module: Any) -> bool:
    """By the name that TorchScript gives to the class it made."""
    return f".{nn.__name__}." in module._c._type().qualified_name()


def _is_one(output_size: Any) -> bool:
    return output_size == 1 or (isinstance(output_size, tuple | list) and all(n == 1 for n in output_size))


def _refused(module: torch.nn.Module) -> str | None:
    """Why ndpool does not take these arguments, or None."""
    theirs = type(module)
    module.__class__ = REPLACEMENTS[theirs]
    try:
        module._pool()  # type: ignore[operator]
    except (TypeError, ValueError) as error:
        return f"ndpool does not take its arguments: {error}"
    finally:
        module.__class__ = theirs
    return None


def _reason_to_stay(module: torch.nn.Module) -> str | None:
    """Why a module of ndpool's is not put back, or None."""
    if isinstance(module, torch.jit.ScriptModule):
        scripted = _is_scripted_from_ndpool(module)
        return "it is compiled by TorchScript; revert the model before scripting it" if scripted else None
    if type(module) in ORIGINALS:
        return None
    if type(module).__module__ == nn.__name__:
        return f"PyTorch has no {type(module).__name__}"
    if isinstance(module, tuple(ORIGINALS)):
        return f"{type(module).__name__} is a class of its own, derived from ndpool's"
    return None
