"""Generated text inside a page: a block between two comments that name it."""

from pathlib import Path


def rewrite(page: Path, name: str, text: str) -> None:
    """Put `text` between `<!-- name -->` and `<!-- /name -->`, which must be in the page."""
    before, start, rest = page.read_text(encoding="utf-8").partition(f"<!-- {name} -->")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not start or not end:
        raise ValueError(f"{page} has no block <!-- {name} --> ... <!-- /{name} -->; add the two comments")
    page.write_text(f"{before}{start}\n\n{text.strip()}\n\n{end}{after}", encoding="utf-8")
