"""What is typed, as kinds and windows. The checks of the numbers themselves are those of ndpool."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from inspect import Parameter
from typing import Any

from ..kind import Kind
from ..kinds import METHODS, MODE_TIES, ROUNDINGS, TIES, Avg, Max, Min, Mode, Quantile
from ..making import numbers
from ..table import KINDS as _KINDS
from ..table import in_words, parameters_of
from ..windows import PADDING_WORDS, Adaptive, AnyWindow, Global, Window

#: Kinds that have another name as well.
OTHER_NAMES = {"avg": "mean"}

#: The kind of each name.
KINDS: dict[str, type[Kind]] = {
    name: kind
    for kind in _KINDS
    for own in [in_words(kind.__name__).replace("_", "-")]
    for name in ([own, OTHER_NAMES[own]] if own in OTHER_NAMES else [own])
}

#: The option of each parameter that a kind has.
PARAMETERS: dict[str, str] = {
    each.name: "--divisor" if each.name == "divisor_override" else f"--{each.name.replace('_', '-')}"
    for kind in _KINDS
    for each in parameters_of(kind)
}

#: Parameters that are one of a few words, which may differ from kind to kind.
CHOICES: dict[str, dict[type[Kind], tuple[str, ...]]] = {
    "ties": {Max: TIES, Min: TIES, Mode: MODE_TIES},
    "method": {Quantile: METHODS},
    "rounding": {Avg: tuple(ROUNDINGS)},
}


#: Windows of so many cells at most are looked at over a box.
MOST_BOXED = 64


def words(names: Iterable[Any], before_last: str = "or") -> str:
    """What one may choose from, for people.

    >>> words(TIES), words(["max", "min"], "and"), words(["lp"])
    ('first, split or all', 'max and min', 'lp')
    """
    *others, last = (str(getattr(name, "value", name)) for name in names)
    return f"{', '.join(others)} {before_last} {last}" if others else last


def owners(option: str) -> list[tuple[str, Parameter]]:
    """The names of the kinds that have the option, and the parameter that it is of each.

    >>> [name for name, _ in owners("--count-include-pad")]
    ['avg', 'smooth-max']
    """
    return [
        (name, each)
        for name, kind in KINDS.items()
        for each in parameters_of(kind)
        if PARAMETERS[each.name] == option and name not in OTHER_NAMES.values()
    ]


def kind_of(name: str, options: Mapping[str, Any]) -> Kind:
    """The kind of this name; an option that it does not have is refused, not ignored.

    >>> kind_of("lp", {"--p": 2, "--beta": None})
    Lp(p=2)
    """
    parameters = {PARAMETERS[each.name]: each for each in parameters_of(KINDS[name])}
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in parameters:
            theirs = words((owner for owner, _ in owners(option)), "and")
            raise ValueError(f"{option} is for --kind {theirs}; leave it out with --kind {name}")
    for option, each in parameters.items():
        if each.default is Parameter.empty and option not in given:
            (example, *_) = numbers(KINDS[name]) or (2,)
            raise ValueError(f"--kind {name} needs {option}; give for example {option} {example}")
    return KINDS[name](**{parameters[option].name: value for option, value in given.items()})


def window_of(options: Mapping[str, Any], adaptive: str | None, whole_axes: bool) -> AnyWindow:
    """The window that was asked for: --kernel and its companions, or --adaptive, or --global.

    >>> window_of({"--kernel": "3,2", "--stride": "2", "--padding": "0:1,1"}, None, False)
    Window(kernel_size=(3, 2), stride=2, padding=((0, 1), 1), dilation=1, ceil_mode=False)
    """
    given = {option: value for option, value in options.items() if value not in (None, False)}
    ways = [way for way, asked in (("--adaptive", adaptive), ("--global", whole_axes), *given.items()) if asked]
    if adaptive is not None or whole_axes:
        if len(ways) > 1:
            raise ValueError(f"{ways[0]} and {ways[1]} are two ways to say what the windows are; give one")
        return Global() if whole_axes else Adaptive(whole_numbers("--adaptive", adaptive or ""))
    if "--kernel" not in given:
        raise ValueError("there is no window; give --kernel (such as --kernel 2,2), --adaptive or --global")
    return Window(
        whole_numbers("--kernel", given["--kernel"]),
        whole_numbers("--stride", given["--stride"]) if "--stride" in given else None,
        padding(given.get("--padding", "0")),
        whole_numbers("--dilation", given.get("--dilation", "1")),
        bool(given.get("--ceil-mode", False)),
    )


def skip_of(skip: str | None, min_count: int | None) -> dict[str, Any]:
    """Which cells are not there, as arguments of a pool. Whole numbers stay whole: a float has not all of 64 bits.

    >>> skip_of("9007199254740993", None), skip_of("nan", 2)
    ({'skip': 9007199254740993}, {'skip': nan, 'min_count': 2})
    """
    counted = {} if min_count is None else {"min_count": min_count}
    if skip is None:
        if counted:
            raise ValueError(f"--min-count {min_count} counts the cells that are not skipped; give --skip beside it")
        return {}
    for number in (int, float):
        try:
            return {"skip": number(skip), **counted}
        except ValueError:
            continue
    raise ValueError(f"--skip {skip}: this is no number; give the number that stands for a cell not there, or nan")


def box_of(text: str | None) -> list[tuple[float, float]] | None:
    """The ends between which all cells lie: as many pairs as a window may have cells.

    >>> box_of("-1:2.5")[0], box_of(None)
    ((-1.0, 2.5), None)
    """
    if text is None:
        return None
    try:
        lo, hi = (float(part) for part in text.split(":"))
    except ValueError:
        raise ValueError(f"--box {text}: give two numbers with a colon, such as --box -1:1") from None
    if not -math.inf < lo < hi < math.inf:
        raise ValueError(f"--box {text}: the first number is to be below the second; give for example --box -1:1")
    return [(lo, hi)] * MOST_BOXED


def pooled_axes(
    typed: str | None, window: AnyWindow, ndim: int, usual: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """What was typed; or else the usual axes, where the window's own numbers do not say more.

    Where there are no usual ones, a global window takes the last two, and others the last that they have numbers for.

    >>> pooled_axes(None, Global(), 4, None), pooled_axes("0,-1", Global(), 4, None)
    ((-2, -1), (0, -1))
    """
    if typed is not None:
        return each_number("--axes", typed)
    if usual is not None:
        return usual if window.rank in (None, len(usual)) else None
    if isinstance(window, Global):
        return tuple(range(-min(ndim, 2), 0))
    if window.rank is None:
        option = "--kernel" if isinstance(window, Window) else "--adaptive"
        raise ValueError(f"one number for {option} does not say how many axes to pool; give one for each, or --axes")
    return None


def whole_numbers(option: str, text: str) -> int | tuple[int, ...]:
    """One number for all axes, or one for each, with commas.

    >>> whole_numbers("--kernel", "3"), whole_numbers("--kernel", "3,2")
    (3, (3, 2))
    """
    numbers = tuple(_whole(option, text, part) for part in text.split(","))
    return numbers if "," in text else numbers[0]


def each_number(option: str, text: str) -> tuple[int, ...]:
    """One number for each axis, also where there is only one axis."""
    numbers = whole_numbers(option, text)
    return (numbers,) if isinstance(numbers, int) else numbers


def padding(text: str) -> int | str | tuple[int | tuple[int, int], ...]:
    """A word, or numbers as for the others, each of which may be `before:after`.

    >>> padding("same"), padding("1"), padding("1,0:2")
    ('same', 1, (1, (0, 2)))
    """
    if text in PADDING_WORDS:
        return text
    entries = [_ends(text, part) for part in text.split(",")]
    if len(entries) == 1 and isinstance(entries[0], int):
        return entries[0]
    return tuple(entries)


def _ends(text: str, part: str) -> int | tuple[int, int]:
    before, colon, after = part.partition(":")
    if not colon:
        return _whole("--padding", text, part)
    return _whole("--padding", text, before), _whole("--padding", text, after)


def _whole(option: str, text: str, part: str) -> int:
    try:
        number = int(part)
    except ValueError:
        words = f", one of {', '.join(PADDING_WORDS)}, or before:after" if option == "--padding" else ""
        rule = f"give one for all axes, or one for each with commas{words}"
        raise ValueError(f"{option} {text}: {part!r} is not a whole number; {rule}") from None
    if abs(number) >= 1 << 63:
        raise ValueError(f"{option} {text}: {part} has more than 64 bits; give a smaller number")
    return number
