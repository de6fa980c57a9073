"""The pages about Dask, xarray and pyramids: every example is executed."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from ndpool.cli import main

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["larger-than-memory.md", "pyramids.md"])
def test_examples(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    found = doctest.testfile(str(DOCS / page), module_relative=False, optionflags=flags)
    assert found.attempted > 5
    assert found.failed == 0


@pytest.mark.parametrize("page", ["pyramids.md", "command-line.md"])
def test_commands(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text(encoding="utf-8")
    commands = re.findall(r"^\$ ndpool (pyramid .*?)(?:  #.*)?$", text, re.MULTILINE)
    assert commands
    assert [main(command.split()) for command in commands] == [0] * len(commands)
