"""The options of every command that pools: those of the kinds, read from the table, and those of the windows."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Annotated, Any, Literal, get_type_hints

import typer

from . import arguments
from .arguments import CHOICES, KINDS, PARAMETERS

WHAT, WINDOW, THERE = "What a window becomes", "Which cells a window has", "Which cells are there"
NUMBERS = "one number, or one for each axis"

#: What the parameters of kinds are, in short; of others it is said whose they are.
SHORTLY = {
    "ties": "Who wins when several do",
    "q": "Which quantile, from 0 to 1",
    "method": "What a quantile is between two cells",
    "beta": "Sharpness",
    "p": "Power",
    "count_include_pad": "Whether padding counts",
    "divisor_override": "What sums are divided by",
    "rounding": "How the mean of integers stays an integer",
}
METAVARS = {"ties": "POLICY", "method": "METHOD", "rounding": "WAY"}
TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float}


def with_pool(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes a `kind`, a `window` and `there`, as one that takes the options that these are made from.

    `there` has the arguments of a pool that say which cells are not there.
    """
    hints = get_type_hints(command, include_extras=True)
    taken: list[Parameter] = []
    for each in inspect.signature(command).parameters.values():
        added = {"kind": _kind_options, "window": _window_options, "there": _there_options}.get(each.name)
        taken += added() if added else [each.replace(annotation=hints[each.name])]

    @functools.wraps(command)
    def called(**given: Any) -> None:
        name = given.pop("kind")
        options = {option: given.pop(parameter) for parameter, option in PARAMETERS.items()}
        kind = arguments.kind_of(name, options)
        adaptive, whole = given.pop("adaptive"), given.pop("global_")
        named = {f"--{each}": given.pop(each) for each in ("kernel", "stride", "padding", "dilation")}
        window = arguments.window_of({**named, "--ceil-mode": given.pop("ceil_mode")}, adaptive, whole)
        there = arguments.skip_of(given.pop("skip"), given.pop("min_count"))
        command(kind=kind, window=window, there=there, **given)

    called.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in taken}
    return called


def _option(name: str, default: Any, annotation: Any, *spelled: str, panel: str, **more: Any) -> Parameter:
    annotated = Annotated[annotation, typer.Option(*spelled, rich_help_panel=panel, **more)]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotated)


def _kind_options() -> list[Parameter]:
    names = Literal[tuple(KINDS)]  # type: ignore[valid-type]
    first, said = next(iter(KINDS)), f"What one output is: {arguments.words(KINDS)}."
    options = [_option("kind", first, names, "--kind", panel=WHAT, metavar="KIND", help=said)]
    return options + [_kind_option(parameter, option) for parameter, option in PARAMETERS.items()]


def _kind_option(parameter: str, option: str) -> Parameter:
    owners = arguments.owners(option)
    default, annotation = owners[0][1].default, str(owners[0][1].annotation)
    said = f"{SHORTLY.get(parameter, 'A parameter')}, for {arguments.words((name for name, _ in owners), 'and')}"
    more: dict[str, Any] = {}
    chosen: Any = TYPES.get(annotation.partition(" ")[0], str)
    if parameter in CHOICES:
        names = [name for words in CHOICES[parameter].values() for name in words]
        chosen, more["metavar"] = Literal[tuple(dict.fromkeys(names))], METAVARS[parameter]
        said = f"{SHORTLY[parameter]}, {_whose(parameter, option)}"
    if default is not Parameter.empty and default is not None:
        said += f" (default: {'yes' if default is True else 'no' if default is False else default})"
    spelled = f"{option}/--no-{option.removeprefix('--')}" if chosen is bool else option
    return _option(parameter, None, chosen | None, spelled, panel=WHAT, help=f"{said}.", **more)


def _whose(parameter: str, option: str) -> str:
    """The words that one may choose from, and for which kinds."""
    theirs: dict[tuple[str, ...], list[str]] = {}
    for name, _ in arguments.owners(option):
        words = CHOICES[parameter].get(KINDS[name], next(iter(CHOICES[parameter].values())))
        theirs.setdefault(words, []).append(name)
    return "; ".join(
        f"for {arguments.words(names, 'and')}: {arguments.words(words)}" for words, names in theirs.items()
    )


def _there_options() -> list[Parameter]:
    value = "A cell of this value is not there: it neither wins, counts, nor gets a gradient. A number, or nan."
    count = "How many cells that are there an output needs; with fewer it is the skipped value (default: 1)."
    return [
        _option("skip", None, str | None, "--skip", metavar="NUMBER", help=value, panel=THERE),
        _option("min_count", None, int | None, "--min-count", metavar="N", help=count, panel=THERE),
    ]


def _window_options() -> list[Parameter]:
    numbers: dict[str, Any] = {"panel": WINDOW, "metavar": "N[,N...]"}
    ends = f"Cells added: {NUMBERS}, each may be before:after; or same, same_lower, valid."
    one = "One window over the whole of the pooled axes."
    return [
        _option("kernel", None, str | None, "--kernel", "--kernel-size", help=f"Cells: {NUMBERS}.", **numbers),
        _option("stride", None, str | None, "--stride", help="Step (default: the kernel).", **numbers),
        _option("padding", None, str | None, "--padding", help=ends, **numbers),
        _option("dilation", None, str | None, "--dilation", help="Distance between cells (default: 1).", **numbers),
        _option("ceil_mode", False, bool, "--ceil-mode", help="Let a last window overhang.", panel=WINDOW),
        _option("adaptive", None, str | None, "--adaptive", help="As many windows as this instead.", **numbers),
        _option("global_", False, bool, "--global", help=one, panel=WINDOW),
    ]


AXES = "The pooled axes (default: height and width of an image, the last of an array)."
AxesOption = Annotated[str | None, typer.Option("--axes", metavar="N[,N...]", help=AXES, rich_help_panel=WINDOW)]
