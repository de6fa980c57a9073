"""What an interrupted pyramid has done: a file beside its levels that is gone when the image is whole.

The first line says what is being made. Each line after it is the number of a block whose chunks are all written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NAME = ".ndpool-unfinished"


class Journal:
    """The journal of one target."""

    def __init__(self, target: Path) -> None:
        self.path = target / NAME

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def start(self, settings: dict[str, Any]) -> None:
        self.path.write_text(json.dumps(settings, sort_keys=True) + "\n", encoding="utf-8")

    def done(self, settings: dict[str, Any]) -> set[int]:
        """The blocks that are done; a ValueError where the work was another."""
        first, *lines = self.path.read_text(encoding="utf-8").splitlines() or [""]
        if first != json.dumps(settings, sort_keys=True):
            before = json.loads(first or "{}")
            other = [key for key in settings if before.get(key) != settings[key]]
            raise ValueError(
                f"{self.path.parent} was begun with other settings ({', '.join(other)}); give the same to resume, or "
                "write over it"
            )
        return {int(line) for line in lines if line.isdigit()}

    def add(self, block: int) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{block}\n")

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
