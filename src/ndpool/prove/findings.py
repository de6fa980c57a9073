"""What came of a claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """A claim, whether it is "proved", "refuted" or "not shown", on what, by how many cases, in what time.

    `counterexample` has the numbers that refute it, by name; `about` says for which inputs the claim was looked at.

    >>> print(Finding("monotone", "proved", "4 cells", "all reals", 1, 0.02))
    monotone: proved for all reals, 4 cells (1 case, 0.02 s)
    """

    claim: str
    verdict: str
    size: str
    about: str
    cases: int
    seconds: float
    counterexample: dict[str, Any] | None = None

    def __str__(self) -> str:
        cases = f"{self.cases} case{'' if self.cases == 1 else 's'}"
        said = f"{self.claim}: {self.verdict} for {self.about}, {self.size} ({cases}, {self.seconds:.2f} s)"
        if self.counterexample is None:
            return said
        lines = [f"    {name} = {_shown(value)}" for name, value in self.counterexample.items()]
        return "\n".join([said, *lines])


def _shown(value: Any) -> str:
    """A number, or a window of them: a row a line where it has two axes."""
    if not isinstance(value, list):
        return str(value)
    if value and isinstance(value[0], list):
        wide = max(len(str(cell)) for row in value for cell in row)
        rows = ["[" + ", ".join(f"{cell!s:>{wide}}" for cell in row) + "]" for row in value]
        return "\n        ".join(["", *rows])
    return "[" + ", ".join(map(str, value)) + "]"


def shaped(cells: list[Any], shape: tuple[int, ...]) -> list[Any]:
    """The cells as rows of the shape's last axis, where it has several axes."""
    if len(shape) < 2:
        return cells
    return [cells[i : i + shape[-1]] for i in range(0, len(cells), shape[-1])]
