"""What an export gives: a header, a source and a self test, to be written into a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .report import Report, Sizes


@dataclass(frozen=True)
class Code:
    """Plain C of a pool or a network: C99 in one header and one source, and a self test beside them.

    `header`, `source` and `test` are texts. `write(folder)` makes the files `<name>.h`, `<name>.c` and `<name>_test.c`.
    The test is empty unless `<NAME>_SELF_TEST` is defined, so that all three may lie in the firmware's own folder.
    """

    name: str
    header: str = field(repr=False)
    source: str = field(repr=False)
    test: str = field(repr=False)
    sizes: Sizes = field(repr=False)

    @property
    def files(self) -> dict[str, str]:
        """The texts by the names of their files."""
        return {f"{self.name}.h": self.header, f"{self.name}.c": self.source, f"{self.name}_test.c": self.test}

    def write(self, folder: str | os.PathLike[str], force: bool = False) -> list[Path]:
        """Write the files into a folder, which is made; one that exists is refused unless `force` is given."""
        place = Path(folder)
        if place.exists() and not place.is_dir():
            raise FileExistsError(f"{place} is a file; name a folder for the C to go to")
        if place.is_dir() and not force:
            raise FileExistsError(
                f"{place} exists; name another folder, or give force=True (--force) to write into this one"
            )
        place.mkdir(parents=True, exist_ok=True)
        written = []
        for name, text in self.files.items():
            (place / name).write_text(text, encoding="utf-8", newline="\n")
            written.append(place / name)
        return written

    def report(self, measure: bool = True) -> Report:
        """What it costs: cells, bytes and operations by formula.

        With `measure`, also flash, stack and instructions on every chip whose cross-compiler is installed here.
        """
        from .report import reported

        return reported(self, measure)
