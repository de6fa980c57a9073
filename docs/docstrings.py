"""Docstrings as Markdown: examples are put into fences, which MkDocs would otherwise take for quotes."""

from __future__ import annotations

from typing import Any

import griffe


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


class Fences(griffe.Extension):
    """Applied to every docstring that is read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
