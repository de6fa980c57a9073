"""What MkDocs asks us while it builds: the tables of `make bench` become part of the page on performance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
REPORTS = {"<!-- results -->": "results.md", "<!-- torch -->": "torch.md"}
NOTHING_YET = "There are no results in this copy of the repository: `make bench` measures and writes them."


def results(name: str) -> str:
    """A generated report without its title, or a sentence that there is none."""
    report = RESULTS / name
    return report.read_text(encoding="utf-8").partition("\n")[2] if report.exists() else NOTHING_YET


def on_page_markdown(markdown: str, **_: Any) -> str:
    for mark, name in REPORTS.items():
        markdown = markdown.replace(mark, results(name))
    return markdown


def on_files(files: Any, config: Any) -> Any:
    """The charts of the report stand beside the page that shows them."""
    from mkdocs.structure.files import File

    for chart in sorted(RESULTS.glob("*.svg")):
        files.append(File.generated(config, chart.name, abs_src_path=str(chart)))
    return files
