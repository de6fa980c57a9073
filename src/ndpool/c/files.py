"""Header and source as whole files: guards, includes, macros, declarations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .pools import Function
from .text import comment, joined, written_by


def macro(name: str, which: str) -> str:
    """`POOL_IN` for the name `pool`."""
    return f"{name.upper()}_{which}"


def header(
    name: str, about: Sequence[str], macros: Mapping[str, tuple[int, str]], functions: Iterable[Function]
) -> str:
    """The header: what it is, sizes as macros, and what is offered, for C and C++."""
    guard = macro(name, "H")
    sizes = [f"#define {macro(name, which)} {value} /* {said} */" for which, (value, said) in macros.items()]
    test = macro(name, "SELF_TEST")
    self_test = [
        f"#ifdef {test}",
        *comment("0 if all golden vectors come out, else 1 and the number of the first that does not."),
        f"int {name}_self_test(void);",
        "#endif",
    ]
    return joined(
        comment([*about, "", written_by()]),
        [f"#ifndef {guard}", f"#define {guard}"],
        ["#include <stdint.h>"],
        ["#ifdef __cplusplus", 'extern "C" {', "#endif"],
        sizes,
        *(each.declaration() for each in functions),
        self_test,
        ["#ifdef __cplusplus", "}", "#endif"],
        ["#endif"],
    )


def source(
    name: str, about: Sequence[str], headers: Iterable[str], helpers: Iterable[list[str]], functions: Iterable[Function]
) -> str:
    """The source: what it is, the functions that do one window, and those that are offered."""
    includes = [f"#include <{each}>" for each in headers]
    return joined(
        comment([*about, "", written_by()]),
        [f'#include "{name}.h"'],
        includes,
        *helpers,
        *(each.definition() for each in functions),
    )
