"""What MkDocs asks us while it builds.

The tables of `make bench` become part of the page on performance, those of `benchmarks.gpu` part of the page on GPUs,
those of `benchmarks.microcontrollers` and `benchmarks.verified` part of the pages on microcontrollers and on bounds and
proofs, and the table of kinds and windows that of the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ndpool.table import COLUMNS, KINDS, Pooling

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
REPORTED = ("results", "torch", "map", "gpu", "microcontrollers", "verified", "pyramid", "chunked")
REPORTS = {f"<!-- {name} -->": f"{name}.md" for name in REPORTED}
NOTHING_YET = "There are no results in this copy of the repository: the command above measures and writes them."


def results(name: str) -> str:
    """A generated report without its title, or a sentence that there is none."""
    report = RESULTS / name
    return report.read_text(encoding="utf-8").partition("\n")[2] if report.exists() else NOTHING_YET


def names_of_kinds() -> dict[str, str]:
    """What the reference says of each kind: its class, its functions, and its modules for PyTorch."""
    return {
        "<!-- kinds -->": "\n".join(f"::: ndpool.{kind.__name__}" for kind in KINDS),
        "<!-- functions -->": _table(lambda pooling: pooling.name),
        "<!-- modules -->": _table(_module),
    }


def _table(called: Callable[[Pooling], str]) -> str:
    lines = ["| kind | over a window | over bins | over everything |", "|---|---|---|---|"]
    for kind in KINDS:
        cells = ([Pooling(kind, column, rank) for rank in (None, *column.ranks)] for column in COLUMNS)
        listed = (", ".join(f"`{called(pooling)}`" for pooling in cell) for cell in cells)
        lines.append(f"| `{kind.__name__}` | {' | '.join(listed)} |")
    return "\n".join(lines)


def _module(pooling: Pooling) -> str:
    """PyTorch has a module for norms over a window, and writes it LPPool1d."""
    name = pooling.class_name
    return name.replace("Lp", "LP") if name.startswith("LpPool") and pooling.rank else name


def on_page_markdown(markdown: str, **_: Any) -> str:
    for mark, name in REPORTS.items():
        markdown = markdown.replace(mark, results(name))
    for mark, text in names_of_kinds().items():
        markdown = markdown.replace(mark, text)
    return markdown


def on_files(files: Any, config: Any) -> Any:
    """The charts of the report stand beside the page that shows them."""
    from mkdocs.structure.files import File

    for chart in sorted(RESULTS.glob("*.svg")):
        files.append(File.generated(config, chart.name, abs_src_path=str(chart)))
    return files
