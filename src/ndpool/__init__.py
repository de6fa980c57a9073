"""ndpool: pooling of arrays of any rank, with every choice written down and every derivative explicit.

A pool is a *kind* over a *window*:

    >>> import ndpool
    >>> pool = ndpool.Pool(ndpool.Max(ties="split"), ndpool.Window((3, 3), stride=2, padding=1))
    >>> pool.output_shape((8, 64, 112, 112))
    (8, 64, 56, 56)

Kinds: `Max`, `Min`, `Avg`, `Sum`, `SmoothMax`, `Lp`. Windows: `Window`, `Adaptive`, `Global`.
A `Pool` has `pool(x)`, `pool.jvp(x, t)` and `pool.vjp(x)`; each kind over each window also has a function, `max_pool`,
`adaptive_avg_pool`, `global_smooth_max_pool` and so on, with the spellings `max_pool1d`, `max_pool2d`, `max_pool3d`.
They take NumPy arrays, and PyTorch's tensors and JAX's arrays, of which they make such as can be differentiated.
`ndpool.spec` is the definition, executable on any numbers. `Graph` and `ndpool.layers` build networks, from pools and
the ops of `ndpool.ops`, that are differentiated as a whole. `ndpool.c` writes plain C for microcontrollers. These are
loaded when they are first asked for.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

# What is imported here is listed in `__all__`, and its types stand in a stub.
# ruff: noqa: F401, F403
from . import functional as _functional
from . import spec
from ._engine import get_num_threads
from .checks import check_kind
from .functional import *
from .kind import Kind
from .pool import Pool, set_num_threads
from .scalars import Dual
from .table import KINDS as _KINDS
from .windows import Adaptive, Global, Window

__version__ = "0.1.0"

globals().update({_kind.__name__: _kind for _kind in _KINDS})

#: What is loaded when it is first asked for: each name, and the module that has it or is it.
_LATER = {"Graph": "graph", "c": "c", "graph": "graph", "layers": "layers", "ops": "ops"}

__all__ = sorted(
    {
        *_functional.__all__,
        *_LATER,
        *(_kind.__name__ for _kind in _KINDS),
        *("Adaptive", "Dual", "Global", "Kind", "Pool", "Window"),
        *("check_kind", "get_num_threads", "set_num_threads", "spec"),
    }
)


def __getattr__(name: str) -> _Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _import_module(f".{_LATER[name]}", __name__)
    found = module if name == _LATER[name] else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
