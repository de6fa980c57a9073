"""The documentation is true: commands run and print what is shown, pictures and tables come from their scripts.

The Python examples are doctests and run by themselves; here it is made sure that there is no other sort of block.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ndpool.cli import main
from ndpool.cli.demo import photograph
from ndpool.cli.frameworks import Torch, title

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def load(path):
    """A script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module


# --- code blocks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_one_that_is_run(page):
    for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            assert text.startswith(">>>"), text
        elif language == "console":
            assert text.startswith("$ "), text
        else:
            assert all(line.startswith("make ") for line in text.splitlines()), text


def commands():
    for page in PAGES:
        for _, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                yield pytest.param(command.partition("  #")[0].strip(), shown, id=f"{page.name}: {command[:60]}")


@pytest.mark.parametrize(("command", "shown"), list(commands()))
def test_commands_print_what_is_shown(command, shown, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    program, *arguments = command.replace("'", "").split()
    if program == "pip":
        extras = re.findall(r"\[(\w+)\]", command)
        assert all(f"\n{extra} = [" in (ROOT / "pyproject.toml").read_text(encoding="utf-8") for extra in extras)
        return
    assert program == "ndpool"
    Image.fromarray(photograph()).save("photo.png")
    assert main(arguments) == 0
    if shown.strip():
        printed = capsys.readouterr().out
        assert [line.rstrip() for line in printed.splitlines()] == [line.rstrip() for line in shown.splitlines()]


def test_the_make_targets_that_are_named_exist():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {word for page in PAGES for word in re.findall(r"(?:`|^)make (\w+)", page.read_text("utf-8"), re.MULTILINE)}
    assert {"demo", "test", "docs"} <= named
    assert named - {"bench"} <= targets


# --- pictures and tables --------------------------------------------------------------------------


def test_pictures_are_those_of_the_script(tmp_path, monkeypatch):
    pictures = load(DOCS / "pictures.py")
    names = {f"{name}-{style}.svg" for name in pictures.PICTURES for style in pictures.STYLES}
    assert {path.name for path in (DOCS / "images").glob("*")} == names
    shown = {name for page in PAGES for name in re.findall(r"images/([\w-]+\.svg)", page.read_text(encoding="utf-8"))}
    assert shown == names
    monkeypatch.setattr(pictures, "STYLES", {"dark": pictures.STYLES["dark"]})
    pictures.draw_all(tmp_path)
    assert {path.name for path in tmp_path.glob("*.svg")} == {name for name in names if "-dark" in name}


def test_the_photograph_is_that_of_the_script():
    made = load(DOCS / "photograph.py").photograph()
    assert np.abs(made.astype(int) - photograph()).mean() < 5  # what JPEG leaves out


def test_links_lead_somewhere():
    for page in PAGES:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)#:]+)[^)]*\)", text):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_facts_are_measured(benchmarks):
    facts = benchmarks("benchmarks.facts")
    rows = [line.strip("|").split("|") for line in facts.PAGE.read_text(encoding="utf-8").splitlines() if "|" in line]
    head, _, *rows = [[entry.strip() for entry in row] for row in rows]
    assert [row[0] for row in rows] == [question.strip() for question in facts.QUESTIONS]
    with np.errstate(all="ignore"):
        assert [row[1] for row in rows] == facts.answers(facts.Ndpool())
        torch = Torch()
        if title(torch) in head:
            assert [row[head.index(title(torch))] for row in rows] == facts.answers(torch)


def test_blocks_are_rewritten(benchmarks, tmp_path):
    blocks = benchmarks("benchmarks.blocks")
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- speed -->\nold\n<!-- /speed -->\nafter\n", encoding="utf-8")
    blocks.rewrite(page, "speed", "new")
    blocks.rewrite(page, "speed", "new")
    assert page.read_text(encoding="utf-8") == "before\n<!-- speed -->\n\nnew\n\n<!-- /speed -->\nafter\n"
    with pytest.raises(ValueError, match="has no block <!-- size -->"):
        blocks.rewrite(page, "size", "")


def test_speed_table_has_only_what_was_measured(benchmarks):
    readme = benchmarks("benchmarks.readme")
    record = {"case": "max k2s2 NCHW", "threads": 1, "limit": 1e-3, "seconds": {"ndpool": 2e-3, "torch": 5e-3}}
    machine = {"command": "measure", "cpu": "a processor", "versions": {"torch": "2.0"}}
    other = record | {"threads": 2}
    text = readme.speed_table({"machine": machine, "records": [record, other, record | {"case": "something else"}]})
    assert "| max, 2 x 2, stride 2 | 2 ms | 1 ms | 2.5 x | — | — | — |" in text
    assert text.count("2 ms") == 1
    assert "a processor, 1 thread; PyTorch 2.0." in text


def test_speed_table_is_that_of_the_results(benchmarks):
    import json

    readme = benchmarks("benchmarks.readme")
    if not readme.RESULTS.exists():
        pytest.skip("benchmarks/results is not there: make bench has not been run")
    expected = readme.speed_table(json.loads(readme.RESULTS.read_text(encoding="utf-8")))
    assert expected.strip() in (ROOT / "README.md").read_text(encoding="utf-8"), "run python -m benchmarks.readme"


def test_every_case_of_the_speed_table_is_measured(benchmarks):
    names = {case.name for case in benchmarks("benchmarks.targets").CASES}
    assert set(benchmarks("benchmarks.readme").CASES) <= names


# --- the site -------------------------------------------------------------------------------------


def test_the_site_builds_without_warnings(tmp_path):
    for needed in ("mkdocs", "material", "mkdocstrings"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"the site needs {needed}: install ndpool[docs]; `make docs` builds it")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    )
    assert built.returncode == 0, built.stderr
    assert "&gt;&gt;&gt;" not in re.sub(
        r"<pre.*?</pre>", "", (tmp_path / "site" / "reference.html").read_text(), flags=re.DOTALL
    )
