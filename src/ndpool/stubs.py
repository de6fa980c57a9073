"""The static side of what is made from the table: stub files for type checkers, editors and the reference.

`python -m ndpool.stubs` writes them; it needs PyTorch, as some are of its front end. They are made from the functions,
methods and classes themselves, so that a stub says what `inspect.signature` says. They are for programs to read: a
function is one line, and one that takes the same as another is said to be that.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from inspect import Parameter, Signature
from pathlib import Path
from types import ModuleType
from typing import Any

import ndpool

from .making import written
from .table import TABLE

HEAD = "# Made by `python -m ndpool.stubs` from the table of kinds and windows: change that, not this.\n"
HEAD += "# ruff: noqa\n# fmt: off\n"
PACKAGE = Path(__file__).parent


def stubs() -> dict[str, str]:
    """The text of each stub file, by its path in the package."""
    import ndpool.torch
    from ndpool.torch import functional, nn

    return {
        "__init__.pyi": _package(),
        "functional.pyi": _functions(ndpool.functional, _IMPORTS),
        "_graph_methods.pyi": _methods(),
        "torch/functional.pyi": _functions(functional, _TORCH_IMPORTS),
        "torch/nn.pyi": _modules(nn),
    }


_IMPORTS = """\
from typing import Any

from numpy.typing import ArrayLike

from .arrays import Array
from .windows import Ints, OutputSize, PaddingLike
"""

_TORCH_IMPORTS = """\
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ..pool import Pool
from ..windows import Ints, PaddingLike
from .signatures import Sizes
"""

_METHOD_IMPORTS = """\
from .graph import Var
from .windows import Ints, PaddingLike
"""

_MODULE_IMPORTS = """\
from typing import Any

import torch
from torch import Tensor

from ..pool import Pool as AnyPool
from ..windows import Ints, PaddingLike
"""


# --- files ----------------------------------------------------------------------------------------


def _package() -> str:
    """The names of `ndpool`, each from the module that has it."""
    found: dict[str, list[str]] = {}
    for name in ndpool.__all__:
        value = getattr(ndpool, name)
        place = "" if isinstance(value, ModuleType) else value.__module__.removeprefix("ndpool.")
        found.setdefault(place, []).append(name)
    found["functional"] = ["*"]
    lines = [f"from .{place} import {', '.join(map(_kept, found[place]))}" for place in sorted(found)]
    return _text(HEAD, *lines, "", "__version__: str", f"__all__ = {ndpool.__all__!r}")


def _kept(name: str) -> str:
    """A name that is imported to be imported from here."""
    return name if name == "*" else f"{name} as {name}"


def _functions(module: ModuleType, imports: str) -> str:
    functions = {name: getattr(module, name) for name in module.__all__}
    return _text(HEAD, imports, f"__all__ = {module.__all__!r}", "", *_defined(functions))


def _methods() -> str:
    """A class from which `Graph` derives while types are checked; it has its methods."""
    methods = _defined({name: getattr(ndpool.Graph, name) for name in TABLE})
    return _text(HEAD, _METHOD_IMPORTS, "class PoolingMethods:", *(f"    {method}" for method in methods))


def _modules(nn: ModuleType) -> str:
    """PyTorch's modules, and ndpool's: those that take the same have a constructor in common, from a class in front."""
    classes = [value for value in vars(nn).values() if isinstance(value, type) and value.__module__ == nn.__name__]
    lines = [HEAD, _MODULE_IMPORTS, "FAMILIES: dict[str, tuple[type, str]]", ""]
    lines += ["class _Own(torch.nn.Module):", "    def forward(self, x: Tensor) -> Any: ..."]
    for stem, family in _families({cls.__name__: cls for cls in sorted(classes, key=lambda cls: cls.__name__)}):
        own = f"_{stem}"
        if not any(map(_theirs, family)):
            lines += [f"class {own}(_Own):", f"    {_constructor(family[0])} ..."]
        lines += [f"class {cls.__name__}({_theirs(cls) or own}): {_docstring(cls)}" for cls in family]
    return _text(*lines)


def _theirs(cls: type) -> str:
    """The class of PyTorch's that it is derived from, if any."""
    places = (base for base in cls.__mro__ if base.__module__ == "torch.nn.modules.pooling")
    return next((f"torch.nn.{base.__name__}" for base in places), "")


def _constructor(cls: type) -> str:
    itself = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    renamed = {"Pool": "AnyPool"}  # the module is called Pool itself
    given = [
        each.replace(annotation=renamed.get(each.annotation, each.annotation))
        for each in inspect.signature(cls).parameters.values()
    ]
    return f"def __init__({written([itself, *given])}) -> None:"


# --- pieces ---------------------------------------------------------------------------------------


def _text(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def _families(named: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    """Those that have the same name but for the number in it, and take the same."""
    found: dict[tuple[str, Signature], list[Any]] = {}
    for name, value in named.items():
        found.setdefault((re.sub(r"\dd", "", name), inspect.signature(value)), []).append(value)
    return [(stem, family) for (stem, _), family in found.items()]


def _defined(functions: dict[str, Callable[..., Any]]) -> list[str]:
    lines = []
    for _, (first, *others) in _families(functions):
        signature = inspect.signature(first)
        arguments = written(signature.parameters.values())
        lines.append(f"def {first.__name__}({arguments}) -> {signature.return_annotation}: {_docstring(first)}")
        if others:
            lines.append(" = ".join(each.__name__ for each in (*others, first)))
    return lines


def _docstring(documented: Any) -> str:
    return json.dumps(inspect.cleandoc(documented.__doc__), ensure_ascii=False)


def write() -> None:
    """Bring the files up to date."""
    for path, text in stubs().items():
        (PACKAGE / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
