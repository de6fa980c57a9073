"""The table of kinds and windows, from which every function, module and method that pools is made.

Its rows are the kinds: all public classes of `kinds`. Its columns are the windows. What stands in it is read from the
classes themselves: a name from the name of the class, parameters from its constructor, a formula from its docstring.

>>> TABLE["adaptive_smooth_max_pool2d"].class_name
'AdaptiveSmoothMaxPool2d'
>>> TABLE["smooth_max_pool"].kind_call, TABLE["adaptive_smooth_max_pool"].kind_call
('SmoothMax(beta, count_include_pad)', 'SmoothMax(beta)')
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from inspect import Parameter
from typing import Any

from . import kinds
from .kind import Kind
from .kinds import Max, Min
from .windows import Adaptive, Global, Window

KINDS: tuple[type[Kind], ...] = tuple(
    each
    for each in vars(kinds).values()
    if isinstance(each, type)
    and issubclass(each, Kind)
    and each.__module__ == kinds.__name__
    and not inspect.isabstract(each)
    and not each.__name__.startswith("_")
)

#: Parameters of kinds that say what padding counts for: only a Window has padding.
ABOUT_PADDING = frozenset({"count_include_pad", "divisor_override"})


@dataclass(frozen=True)
class Column:
    """One class of windows as functions have it.

    `by_place` are its parameters that may be given by place, all others go by name. `defaults` are those of a kind's
    parameters that differ over this window. `ranks` are the numbers that its functions are also spelled with.
    """

    window: type[Window] | type[Adaptive] | type[Global]
    prefix: str
    where: str
    note: str = ""
    by_place: tuple[str, ...] = ()
    defaults: Mapping[tuple[type[Kind], str], Any] = field(default_factory=dict)
    axes: tuple[int, ...] | None = None
    ranks: tuple[int, ...] = ()
    has_padding: bool = False
    has_indices: bool = False
    #: An array for an example, the window's arguments over it, and the cells that each output then sees.
    example: tuple[Any, str, Sequence[Sequence[float]]] = ((), "", ())


COLUMNS = (
    Column(
        Window,
        "",
        "each window",
        by_place=("kernel_size", "stride", "padding"),
        ranks=(1, 2, 3),
        has_padding=True,
        has_indices=True,
        example=([3.0, 4.0, 2.0, 1.0], "(2,)", ([3.0, 4.0], [2.0, 1.0])),
    ),
    Column(
        Adaptive,
        "adaptive_",
        "each of `output_size` even bins",
        by_place=("output_size",),
        ranks=(1, 2, 3),
        has_indices=True,
        example=([1.0, 2.0, 4.0, 3.0, 5.0], "(3,)", ([1.0, 2.0], [2.0, 4.0, 3.0], [3.0, 5.0])),
    ),
    Column(
        Global,
        "global_",
        "the whole of `axes`",
        note=", which stay at length 1 or, without `keepdims`, go",
        defaults={(Max, "ties"): "all", (Min, "ties"): "all"},  # rule "Ties"
        axes=(-2, -1),
        example=([[3.0, 4.0], [2.0, 1.0]], "", ([3.0, 4.0, 2.0, 1.0],)),
    ),
)


def in_words(name: str) -> str:
    """The name of a class as functions are called: words in small letters.

    >>> in_words("SmoothMax")
    'smooth_max'
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


@dataclass(frozen=True)
class Pooling:
    """One kind over one window, at any rank or at one that the name says."""

    kind: type[Kind]
    column: Column
    rank: int | None = None

    @cached_property
    def name(self) -> str:
        """What its function is called."""
        return f"{self.column.prefix}{in_words(self.kind.__name__)}_pool{self._suffix}"

    @cached_property
    def class_name(self) -> str:
        """What its module is called."""
        return f"{self.column.prefix.rstrip('_').capitalize()}{self.kind.__name__}Pool{self._suffix}"

    @property
    def _suffix(self) -> str:
        return "" if self.rank is None else f"{self.rank}d"

    @property
    def at_any_rank(self) -> Pooling:
        """The same without a number in its name."""
        return self if self.rank is None else Pooling(self.kind, self.column)

    @property
    def last(self) -> tuple[int, ...] | None:
        """The axes that are pooled where the caller names none."""
        return None if self.rank is None else tuple(range(-self.rank, 0))

    @cached_property
    def has_indices(self) -> bool:
        """Whether a window has a winner, whose index can be asked for."""
        return self.column.has_indices and hasattr(self.kind, "winners")

    # --- parameters ---

    @cached_property
    def own(self) -> list[Parameter]:
        """The kind's parameters that are asked for over this window, with the defaults that they have there."""
        defaults = self.column.defaults
        return [
            each.replace(default=defaults[self.kind, each.name]) if (self.kind, each.name) in defaults else each
            for each in parameters_of(self.kind)
            if self.column.has_padding or each.name not in ABOUT_PADDING
        ]

    @cached_property
    def parameters(self) -> list[Parameter]:
        """Those of a call, without the array: the kind's that have no default, the window's, and all others by name."""
        window = parameters_of(self.column.window)
        by_place = [each for each in self.own if each.default is Parameter.empty]
        by_place += [each for each in window if each.name in self.column.by_place]
        by_name = [each for each in window if each.name not in self.column.by_place]
        options = [each for each in self.own if each.default is not Parameter.empty]
        options += [_by_name("skip", None, "float | None"), _by_name("min_count", 1, "int")]
        if self.has_indices:
            options.append(_by_name("return_indices", False, "bool"))
        axes = _by_name("axes", self.column.axes, "Ints | None" if self.column.axes is None else "Ints")
        others = [*by_name, *options, axes] if self.column.axes is None else [*options, axes, *by_name]
        return [
            *(each.replace(kind=Parameter.POSITIONAL_OR_KEYWORD) for each in by_place),
            *(each.replace(kind=Parameter.KEYWORD_ONLY) for each in others),
        ]

    @cached_property
    def kind_call(self) -> str:
        """The kind made of its parameters, as source."""
        named = [f"{each.name}={each.name}" for each in self.own if each.kind is Parameter.KEYWORD_ONLY]
        return f"{self.kind.__name__}({', '.join([*self.options, *named])})"

    @cached_property
    def options(self) -> list[str]:
        """The arguments by place of the kind, as source: parameters, and the defaults of those before them."""
        offered = {each.name for each in self.own}
        given = [each for each in parameters_of(self.kind) if each.kind is not Parameter.KEYWORD_ONLY]
        while given and given[-1].name not in offered:
            given.pop()
        return [each.name if each.name in offered else repr(each.default) for each in given]

    @cached_property
    def window_call(self) -> str:
        """The window made of its parameters, as source."""
        return f"{self.column.window.__name__}({', '.join(self.window_arguments)})"

    @cached_property
    def window_arguments(self) -> list[str]:
        """The names of the window's parameters."""
        return [each.name for each in parameters_of(self.column.window)]


def _by_name(name: str, default: Any, annotation: str) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def parameters_of(cls: type) -> tuple[Parameter, ...]:
    """What its constructor takes, with annotations as they are written."""
    if cls in _parameters:
        return _parameters[cls]
    found = tuple(inspect.signature(cls).parameters.values())
    for each in found:
        if each.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            raise TypeError(f"{cls.__name__} takes {each}; a function is made from parameters that each have a name")
        if each.default is not Parameter.empty and not _is_writable(each.default):
            raise TypeError(
                f"{cls.__name__} has {each.name}={each.default!r} as a default, which cannot be written into a "
                "function; give a number, a word, a tuple of these or None"
            )
    _parameters[cls] = found
    return found


_parameters: dict[type, tuple[Parameter, ...]] = {}


def _is_writable(default: Any) -> bool:
    """Whether its text is source that gives it again."""
    try:
        return bool(ast.literal_eval(repr(default)) == default)
    except (ValueError, SyntaxError):
        return False


TABLE: dict[str, Pooling] = {
    pooling.name: pooling
    for column in COLUMNS
    for rank in (None, *column.ranks)
    for pooling in (Pooling(kind, column, rank) for kind in KINDS)
}
