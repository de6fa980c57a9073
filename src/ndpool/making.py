"""Functions that are made from the table: real ones, whose source is written here and compiled once.

What differs from one front end to another is a `Style`: what an array is there, which parameters come last, and the
body of a function. What is made has a true signature, annotations, a docstring with an executed example, and source
that tracebacks and `inspect.getsource` show.
"""

from __future__ import annotations

import ast
import json
import linecache
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Any

import numpy as np

from .kind import Kind
from .parameters import section
from .table import COLUMNS, KINDS, Pooling, parameters_of

Function = Callable[..., Any]


@dataclass(frozen=True)
class Style:
    """How one front end spells its functions."""

    #: The annotations of the array, and of what is returned.
    array: str
    result: str
    #: The lines of a function's body, given the source of the pooled axes: where a name has a number and `axes` is
    #: None, they are the last ones.
    body: Callable[[Pooling, str], list[str]]
    #: The docstring of a function at any rank.
    text: Callable[[Pooling], str]
    #: Parameters that come first and last.
    first: tuple[Parameter, ...] = ()
    last: tuple[Parameter, ...] = ()
    #: Annotations that differ from those of the kind or the window.
    annotations: Callable[[Pooling], Mapping[str, str]] = field(default=lambda pooling: {})
    indices: bool = True
    #: Whether docstrings describe the parameters.
    described: bool = True

    def parameters(self, pooling: Pooling) -> list[Parameter]:
        """All parameters of a function."""
        differing = self.annotations(pooling)
        x = Parameter("x", Parameter.POSITIONAL_OR_KEYWORD, annotation=self.array)
        theirs = [each for each in pooling.parameters if self.indices or each.name != "return_indices"]
        return [
            *self.first,
            x,
            *(each.replace(annotation=differing.get(each.name, each.annotation)) for each in theirs),
            *self.last,
        ]


def make(poolings: Iterable[Pooling], style: Style, namespace: dict[str, Any], owner: str = "") -> dict[str, Function]:
    """The functions of these poolings, by name, which see the names of `namespace`: the globals of their module.

    For methods, `owner` is the name of their class.
    """
    wanted: dict[str, list[Pooling]] = {}
    for pooling in poolings:
        wanted.setdefault(pooling.at_any_rank.name, []).append(pooling)
    plain = [ranks[0].at_any_rank for ranks in wanted.values()]
    namespace |= {each.__name__: each for each in (*KINDS, *(column.window for column in COLUMNS))}
    factories = _compiled([_source(pooling, style) for pooling in plain], namespace)
    made: dict[str, Function] = {}
    for each in plain:
        described = _parameters_described(each, style)
        for pooling in wanted[each.name]:
            text = documentation(pooling, style) + described
            made[pooling.name] = _named(factories[each.name](pooling.last), pooling.name, text, owner)
    return made


def _named(function: Any, name: str, text: str, owner: str) -> Function:
    function.__name__ = name
    function.__qualname__ = f"{owner}.{name}" if owner else name
    function.__doc__ = text
    function.__code__ = function.__code__.replace(co_name=name)  # what a traceback says
    return function  # type: ignore[no-any-return]


# --- source ---------------------------------------------------------------------------------------


def _source(pooling: Pooling, style: Style) -> str:
    """A function of the axes that are pooled where none are named, which gives the function itself."""
    lines = [f"def {pooling.name}({written(style.parameters(pooling))}) -> {_result(pooling, style)}:"]
    axes = "last if axes is None else axes" if pooling.column.ranks else "axes"
    lines += [f"    {line}" for line in style.body(pooling, axes)]
    inside = "\n".join(f"    {line}" for line in lines)
    return f"def make_{pooling.name}(last):\n{inside}\n    return {pooling.name}\n"


def _result(pooling: Pooling, style: Style) -> str:
    return "Any" if pooling.has_indices and style.indices else style.result


def written(parameters: Iterable[Parameter]) -> str:
    """Parameters as one writes them, with annotations as they are."""
    found: list[str] = []
    for each in parameters:
        if each.kind is Parameter.KEYWORD_ONLY and "*" not in found:
            found.append("*")
        annotated = each.name if each.annotation is Parameter.empty else f"{each.name}: {each.annotation}"
        spaced = " = " if each.annotation is not Parameter.empty else "="
        found.append(annotated if each.default is Parameter.empty else f"{annotated}{spaced}{_quoted(each.default)}")
    return ", ".join(found)


def _quoted(default: Any) -> str:
    return json.dumps(default) if isinstance(default, str) else repr(default)


def _compiled(sources: list[str], namespace: dict[str, Any]) -> dict[str, Function]:
    """What the sources make in this namespace, without the prefix `make_`."""
    text = "\n\n".join(["from __future__ import annotations\n", *sources])
    file = f"<{namespace['__name__']}, made from the table>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    made: dict[str, Any] = {}
    exec(compile(text, file, "exec"), namespace, made)
    return {name.removeprefix("make_"): function for name, function in made.items() if name != "annotations"}


# --- docstrings -----------------------------------------------------------------------------------


def documentation(pooling: Pooling, style: Style) -> str:
    """Formula, policy and one example; with a number in the name, what the number means."""
    if pooling.rank is None:
        return style.text(pooling)
    plain = pooling.at_any_rank.name
    return f"`{plain}` over the last {pooling.rank} axes: an int serves as one number for each of them."


def _parameters_described(pooling: Pooling, style: Style) -> str:
    """A line for each parameter. Those of a kind that nothing else is said of are said to be the kind's."""
    if not style.described:
        return ""
    own = {each.name: f"As `{pooling.kind.__name__}` has it." for each in pooling.own}
    return section((each.name for each in style.parameters(pooling)), own, pooling.kind.__name__)


def summary(kind: type[Kind]) -> tuple[str, str]:
    """What one output is, in words and as a formula, as the kind's docstring begins: "words: `y = formula`".

    >>> from ndpool import Lp
    >>> summary(Lp)
    ('The p-norm of the cells', '`y = (sum |x_i|^p)^(1/p)`')
    """
    found = re.match(r"([^`]*?): (`y = [^`]*`)", kind.__doc__ or "")
    return (found[1], found[2]) if found else (f"`{kind.__name__}`",) * 2


def explained(pooling: Pooling, written_array: str = "{}", shown: Callable[[Any], str] = repr, more: str = "") -> str:
    """The docstring of a function: the formula, the policy of indices, whatever more there is to say, and an example.

    `written_array` says how an array is written, and `shown` how it is printed.
    """
    _, formula = summary(pooling.kind)
    text = f"{formula} over {pooling.column.where}{pooling.column.note}"
    if pooling.has_indices:
        text += "; with `return_indices`, `(y, indices)`"
        more = "An index is flat and row-major over the pooled axes, int64, that of the first winner.\n" + more
    example = _example(pooling, written_array, shown)
    return "\n\n".join(part.strip() for part in (f"{text}.", more, example) if part)


def _example(pooling: Pooling, written_array: str, shown: Callable[[Any], str]) -> str:
    """A call and what it gives, which is computed from the kind's `value` alone: the definition, not the engine."""
    given = numbers(pooling.kind)
    if given is None:
        return ""
    x, window, cells = pooling.column.example
    arguments = [written_array.format(x), *map(repr, given), *([window] if window else [])]
    kind: Any = pooling.kind(*given)
    y = np.array([kind.value(seen) for seen in cells])
    if pooling.column.axes is not None:
        y = y.reshape((1,) * len(pooling.column.axes))
    lines = [f">>> {pooling.name}({', '.join(arguments)})", shown(y)]
    if pooling.has_indices and kind.one_winner() is not None:
        places = np.array([x.index(seen[0]) + kind.winners(seen)[0] for seen in cells])
        lines += [f">>> {pooling.name}({', '.join(arguments)}, return_indices=True)[1]", shown(places)]
    return "\n".join(lines)


def numbers(kind: type[Kind]) -> tuple[Any, ...] | None:
    """The arguments that the kind is made with where the example of its own docstring first makes one; None without.

    >>> from ndpool import Lp
    >>> numbers(Lp)
    (2,)
    """
    needed = [each for each in parameters_of(kind) if each.default is Parameter.empty]
    found = re.search(rf">>>.*\b{kind.__name__}\(([^()]*)\)", kind.__doc__ or "")
    if found is None:
        return None if needed else ()
    given: tuple[Any, ...] = ast.literal_eval(f"({found[1]},)") if needed else ()
    return given[: len(needed)]
