"""Pieces of C: identifiers, numbers, arrays, comments, and blocks of lines."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .. import __version__

#: The C type of each dtype that is exported or comes out.
C_TYPES = {
    "float32": "float",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "int64": "int64_t",
    "uint64": "uint64_t",
}

_WORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while main
asm bool catch class constexpr const_cast delete dynamic_cast explicit export false friend mutable namespace new nullptr
operator private protected public reinterpret_cast static_cast template this throw true try typeid typename using
virtual wchar_t
"""
_KEYWORDS = frozenset(_WORDS.split())

WIDTH = 100
INDENT = "    "


def checked_name(name: Any) -> str:
    """A name that C and C++ take for a function; anything else is refused.

    >>> checked_name("pool_1")
    'pool_1'
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name, re.ASCII):
        raise ValueError(
            f"name={name!r} is no C identifier; give letters, digits and underscores, a letter first, such as 'pool'"
        )
    if name in _KEYWORDS:
        raise ValueError(f"name={name!r} is a word of C or C++ itself; give another, such as '{name}_pool'")
    return name


def number(value: Any) -> str:
    """A number as C reads it back, to the bit.

    >>> number(np.float32(0.1)), number(np.float32(-2)), number(np.int8(-128)), number(np.uint64(7))
    ('0.1f', '-2.0f', '-128', 'UINT64_C(7)')
    """
    if isinstance(value, np.floating | float):
        if not math.isfinite(value):
            raise ValueError(f"{value!r} is no constant of C99 without <math.h>; give finite numbers")
        return (
            np.format_float_scientific(value, unique=True, trim="0") + "f" if _needs_exponent(value) else f"{value!s}f"
        )
    if isinstance(value, np.int64) and int(value) == -(2**63):
        return "INT64_MIN"
    wide = {"int64": "INT64_C", "uint64": "UINT64_C"}.get(getattr(value, "dtype", np.dtype(np.int32)).name)
    return f"{wide}({int(value)})" if wide else str(int(value))


def _needs_exponent(value: Any) -> bool:
    return "e" in str(value)


def array(c_type: str, name: str, values: Any, length: str = "") -> list[str]:
    """A constant array, as many numbers to a line as have room."""
    lines, line = [f"static const {c_type} {name}[{length}] = {{"], INDENT
    for value in np.ravel(values):
        text = f"{number(value)},"
        if len(line) + len(text) > WIDTH:
            lines.append(line.rstrip())
            line = INDENT
        line += f"{text} "
    return [*lines, line.rstrip(), "};"]


def comment(text: str | Iterable[str]) -> list[str]:
    """Lines as one comment of C."""
    first, *others = text.splitlines() if isinstance(text, str) else list(text)
    if not others:
        return [f"/* {first} */"]
    return [f"/* {first}", *(f" * {line}".rstrip() for line in others), " */"]


def indented(lines: Iterable[str], by: int = 1) -> list[str]:
    return [INDENT * by + line if line else "" for line in lines]


def block(head: str, body: Iterable[str]) -> list[str]:
    """`head { body }`, the brace at the end of the head."""
    return [f"{head} {{", *indented(body), "}"]


def function(head: str, body: Iterable[str]) -> list[str]:
    """A function, the brace on a line of its own."""
    return [head, "{", *indented(body), "}"]


def product(*factors: str) -> str:
    """Factors multiplied, without those that are 1.

    >>> product("row", "16"), product("row", "1"), product("1")
    ('row * 16', 'row', '1')
    """
    return " * ".join(factor for factor in factors if factor != "1") or "1"


def plus(*terms: str) -> str:
    """Terms added, without those that are 0."""
    return " + ".join(term for term in terms if term != "0") or "0"


def shape_of(c_type: str, shape: Sequence[int]) -> str:
    """`float[8][4][4]`."""
    return c_type + "".join(f"[{n}]" for n in shape)


def written_by() -> str:
    return f"Written by ndpool {__version__}."


def joined(*parts: Iterable[str]) -> str:
    """Parts of a file, with an empty line between them."""
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"
