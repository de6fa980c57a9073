"""The pages about Dask, xarray and pyramids: every example is executed."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["larger-than-memory.md", "pyramids.md"])
def test_examples(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    found = doctest.testfile(str(DOCS / page), module_relative=False, optionflags=flags)
    assert found.attempted > 5
    assert found.failed == 0
