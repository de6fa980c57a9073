"""The page on microcontrollers: its commands, one after another in an empty folder, and what it says of the tests."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from drawing import drawn_pools
from test_networks import NETWORKS
from test_pools import COUNT
from test_refusing import MISRA

from ndpool.c import PROFILES

PAGE = (Path(__file__).parents[2] / "docs" / "microcontrollers.md").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: install gcc or clang")
def test_two_commands_from_an_empty_folder_to_a_passing_self_test(tmp_path):
    (block,) = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    commands = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    assert len(commands) == 2
    for part in commands:
        command, _, shown = part.partition("\n")
        command = re.sub(r"^ndpool\b", f"{sys.executable} -m ndpool", command)
        done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == shown.splitlines()
    assert (tmp_path / "pool_test").exists()


def test_the_numbers_that_the_page_says():
    assert f"{COUNT} random pools and {len(NETWORKS)} networks" in PAGE
    assert len(drawn_pools(5, 0)) == 5
    listed = PAGE[PAGE.index("cppcheck with") :]
    assert all(re.search(rf"\b{re.escape(rule)}\b", listed) for rule in MISRA)
    assert "It lists eight rules" in PAGE
    assert len(MISRA) == 8
    assert all(f"`{name}`" in PAGE for name in PROFILES)
