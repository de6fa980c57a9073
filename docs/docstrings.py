"""Docstrings as Markdown: examples are put into fences, which MkDocs would otherwise take for quotes.

What `documented` adds to a docstring when Python runs is added here too: the reference is made from the source alone.
"""

from __future__ import annotations

from typing import Any

import griffe

from ndpool.parameters import section


def fenced(text: str) -> str:
    """The same text with every run of lines from `>>>` to an empty line in a fence."""
    lines: list[str] = []
    inside = False
    for line in [*text.splitlines(), ""]:
        if line.startswith(">>>") and not inside:
            lines += ["", "```pycon"]
            inside = True
        if inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join(lines)


def described(obj: griffe.Object) -> str:
    """The docstring with its parameters, if the decorator asks for them."""
    assert obj.docstring is not None
    if not any(str(decorator.value) == "documented" for decorator in getattr(obj, "decorators", ())):
        return obj.docstring.value
    return obj.docstring.value + section(each.name for each in obj.parameters if each.name != "self")  # type: ignore[attr-defined]


class Fences(griffe.Extension):
    """Applied to every docstring that is read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(described(obj))
