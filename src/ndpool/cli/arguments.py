"""What is typed, as kinds and windows. The checks of the numbers themselves are those of ndpool."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from ..kinds import Avg, Kind, Lp, Max, Min, SmoothMax, Sum
from ..windows import PADDING_WORDS, Adaptive, AnyWindow, Global, Window


class KindName(str, Enum):
    """How a kind is called on the command line."""

    MAX = "max"
    MIN = "min"
    AVG = "avg"
    SUM = "sum"
    SMOOTH_MAX = "smooth-max"
    LP = "lp"


class Ties(str, Enum):
    """The policies for ties; see `ndpool.kinds.TIES`."""

    FIRST = "first"
    SPLIT = "split"
    ALL = "all"


#: For each kind its class, and which options are its arguments.
KINDS: dict[KindName, tuple[type[Kind], dict[str, str]]] = {
    KindName.MAX: (Max, {"--ties": "ties"}),
    KindName.MIN: (Min, {"--ties": "ties"}),
    KindName.AVG: (Avg, {"--count-include-pad": "count_include_pad", "--divisor": "divisor_override"}),
    KindName.SUM: (Sum, {}),
    KindName.SMOOTH_MAX: (SmoothMax, {"--beta": "beta", "--count-include-pad": "count_include_pad"}),
    KindName.LP: (Lp, {"--p": "p"}),
}
NEEDED = {KindName.SMOOTH_MAX: "--beta", KindName.LP: "--p"}


def kind_of(name: KindName, options: Mapping[str, Any]) -> Kind:
    """The kind of this name; an option that it does not have is refused, not ignored.

    >>> kind_of(KindName.LP, {"--p": 2, "--beta": None})
    Lp(p=2)
    """
    make, parameters = KINDS[name]
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in parameters:
            owners = [other.value for other, (_, theirs) in KINDS.items() if option in theirs]
            raise ValueError(f"{option} is for --kind {' and '.join(owners)}; leave it out with --kind {name.value}")
    if NEEDED.get(name, "--kind") not in {*given, "--kind"}:
        raise ValueError(f"--kind {name.value} needs {NEEDED[name]}; give for example {NEEDED[name]} 2")
    return make(**{parameters[option]: value for option, value in given.items()})


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
        return int(part)
    except ValueError:
        words = f", one of {', '.join(PADDING_WORDS)}, or before:after" if option == "--padding" else ""
        rule = f"give one for all axes, or one for each with commas{words}"
        raise ValueError(f"{option} {text}: {part!r} is not a whole number; {rule}") from None
