"""The documentation is true: commands run and print what is shown, pictures and tables come from their scripts.

The Python examples are doctests and run by themselves; here it is made sure that there is no other sort of block.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from PIL import Image

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

import ndpool
from browser import found_on, needs_browser, with_script
from ndpool import spec
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
    if program == "cc":  # after the command before it: tests/c_export/test_page.py
        return
    assert program == "ndpool"
    if arguments[0] == "pyramid":
        pytest.importorskip("zarr", reason="pyramids need zarr; make test-dask has it")
    Image.fromarray(photograph()).save("photo.png")
    assert main(arguments) == 0
    if shown.strip():
        printed = capsys.readouterr().out
        assert [line.rstrip() for line in printed.splitlines()] == [line.rstrip() for line in shown.splitlines()]


def test_the_make_targets_that_are_named_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        word for page in PAGES for word in re.findall(r"(?:`|^)make ([\w-]+)", page.read_text("utf-8"), re.MULTILINE)
    }
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


# --- the chart of the benchmarks ------------------------------------------------------------------


@pytest.fixture
def report(benchmarks):
    return benchmarks("benchmarks.report")


def test_charts_are_those_of_the_results(report, tmp_path):
    if not (report.RESULTS / "results.json").exists():
        pytest.skip("benchmarks/results is not there: make bench has not been run")
    shutil.copy(report.RESULTS / "results.json", tmp_path)
    report.redraw(tmp_path)
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert page == (report.RESULTS / "results.md").read_text(encoding="utf-8"), "run python -m benchmarks.report"
    shown = set(re.findall(r"\((results-\w+\.svg)#only-", page))
    assert (
        shown
        == {path.name for path in report.RESULTS.glob("results-*.svg")}
        == {path.name for path in tmp_path.glob("*.svg")}
    )
    for style, ink in report.INK.items():
        text = (tmp_path / f"results-{style}.svg").read_text(encoding="utf-8")
        assert f"fill: {ink}" in text
        assert "fill: #ffffff" not in text  # no ground of its own


def record_of(case, threads=1, **seconds):
    return {"case": case, "threads": threads, "limit": 0.5, "seconds": seconds, "absent": {}, "moved": 1}


def test_the_chart_shows_us_the_fastest_other_and_pytorch(report, benchmarks):
    first, second, third = list(report.DRAWN)[:3]
    records = [
        record_of(third, ndpool=1.0, jax=0.75, opencv=0.6, bare=0.5),
        record_of(first, ndpool=0.5, torch=16.0, jax=3.0, openvino=2.0, reference=0.1, copy=0.1),
        record_of(second, ndpool=0.4, torch=0.75, jax=500.0),
        record_of("a case that is not drawn", ndpool=1.0, torch=1e9),
        record_of(first, threads=2, ndpool=9.0, torch=9.0),
    ]
    figure = report.chart(benchmarks("benchmarks.results").Results(records), {"cpu": "a processor"})
    (panel,) = figure.axes
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in panel.patches]
    np.testing.assert_allclose(ends, [(1, end) for end in (1.0, 4.0, 32.0, 0.8, 1.5, 2.0, 1.2)])
    words = report.DRAWN
    assert [text.get_text() for text in panel.texts] == [
        *(words[first], "ndpool 1.0", "OpenVINO 4.0", "PyTorch 32"),
        *(words[second], "ndpool 0.8", "PyTorch 1.5"),
        *(words[third], "ndpool 2.0", "OpenCV 1.2"),
    ]
    heights = [text.get_position()[1] for text in panel.texts]
    assert heights == sorted(heights)
    colours = [to_hex(bar.get_facecolor()) for bar in panel.patches]
    assert colours == [report.OURS, report.OTHER, report.TORCH, report.OURS, report.TORCH, report.OURS, report.OTHER]
    low, high = panel.get_xlim()
    assert low < 0.8 < 32 < high
    assert panel.get_xscale() == "log"
    assert "a processor, 1 thread" in figure.get_suptitle()
    plt.close(figure)


def test_every_case_of_the_chart_is_measured(report, benchmarks):
    assert set(report.DRAWN) <= {case.name for case in benchmarks("benchmarks.targets").CASES}
    assert set(report.NAMES) == set(benchmarks("benchmarks.peers").PEERS)


# --- images ---------------------------------------------------------------------------------------


def image_table():
    """The rows of the table on the page for images: words, and an expression or nothing for each library."""
    text = (DOCS / "for-images.md").read_text(encoding="utf-8")
    rows = [[entry.strip() for entry in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    assert rows[0] == ["", "scipy.ndimage", "scikit-image", "ndpool"]
    return [(words, *(entry.strip("`") for entry in entries)) for words, *entries in rows[2:]]


def pictures_to_pool():
    rng = np.random.default_rng(5)
    yield rng.normal(size=(12, 9))
    yield -rng.random((11, 10))
    yield rng.integers(-3, 4, (10, 13)).astype(float)


@pytest.mark.parametrize(("words", "scipy", "skimage", "ours"), image_table())
def test_images_are_pooled_as_scipy_and_scikit_image_do(words, scipy, skimage, ours):
    from scipy import ndimage

    names = {"np": np, "ndimage": ndimage} | vars(ndpool)
    theirs = [scipy] if scipy else []
    if skimage and importlib.util.find_spec("skimage"):
        from skimage import measure, morphology

        names |= {"measure": measure, "morphology": morphology}
        theirs.append(skimage)
    assert scipy or skimage, words
    for x in pictures_to_pool():
        for k in (2, 3, 4, 5):
            y = eval(ours, names | {"x": x, "k": k})
            for expression in theirs:
                expected = eval(expression, names | {"x": x, "k": k})
                np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-14, err_msg=f"{expression}, k={k}")


def test_what_is_said_of_borders_integers_and_nan():
    from scipy import ndimage

    below = -np.random.default_rng(6).random((8, 9)) - 1
    for k in (2, 3, 4):
        ours = ndpool.max_pool(below, (k, k), 1, "same_lower")
        for how in ({"mode": "reflect"}, {"mode": "nearest"}, {"mode": "constant", "cval": -np.inf}):
            np.testing.assert_array_equal(ours, ndimage.maximum_filter(below, k, **how))
        zeros_outside = ndimage.maximum_filter(below, k, mode="constant")
        assert zeros_outside.max() == 0 > ours.max()
        if k % 2 == 0:
            assert not np.array_equal(ours, ndpool.max_pool(below, (k, k), 1, "same"))
    whole = np.array([1, 2, 4], np.uint8)
    assert ndimage.uniform_filter(whole, 3, mode="constant").tolist() == [1, 2, 2]
    np.testing.assert_allclose(ndpool.avg_pool(whole, (3,), 1, "same"), [1, 7 / 3, 2])
    with_nan = np.array([1.0, 1.0, np.nan, 1.0, 1.0, 1.0, 1.0])
    assert np.isnan(ndimage.uniform_filter(with_nan, 3, mode="constant")).tolist() == [False] + [True] * 6
    assert np.isnan(ndpool.avg_pool(with_nan, (3,), 1, "same")).tolist() == [False] + [True] * 3 + [False] * 3
    assert np.isnan(ndpool.max_pool(with_nan, (3,), 1, "same")).sum() == 3
    assert np.isnan(ndimage.maximum_filter(with_nan, 3)).sum() < 3


# --- the site -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site; a warning while it is built is an error."""
    for needed in ("mkdocs", "material", "mkdocstrings"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"the site needs {needed}: install ndpool[docs]; `make docs` builds it")
    folder = tmp_path_factory.mktemp("built") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_the_site_builds_without_warnings(site):
    without_code = re.sub(r"<pre.*?</pre>", "", (site / "reference.html").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert "&gt;&gt;&gt;" not in without_code


def test_the_site_needs_no_network(site):
    for page in site.glob("*.html"):
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="([^"]*)"', page.read_text(encoding="utf-8"))
        loaded += re.findall(r'<link rel="stylesheet" href="([^"]*)"', page.read_text(encoding="utf-8"))
        assert len(loaded) > 2
        assert not [address for address in loaded if "//" in address], page.name


def public_names():
    import ndpool.torch
    from ndpool import explain, viz
    from ndpool.torch import functional, nn

    yield from ndpool.__all__
    for module in (ndpool.ops, ndpool.layers, spec, explain, viz, ndpool.torch, functional):
        yield from module.__all__
    yield from (name for name, value in vars(nn).items() if isinstance(value, type) and value.__module__ == nn.__name__)


def test_the_reference_lists_every_public_name(site):
    text = (site / "reference.html").read_text(encoding="utf-8")
    listed = {name.rpartition(".")[2] for name in re.findall(r'id="(ndpool[\w.]*)"', text)}
    listed |= set(re.findall(r"<code>(?:ndpool\.)?(\w+)(?:\(\))?</code>", text))
    not_for_readers = {"graph", "operators"}  # modules whose contents are listed by themselves, or are not to be called
    assert {name for name in public_names() if not name.startswith("_")} - listed - not_for_readers == set()
    assert {
        "Graph",
        "Program",
        "Dual",
        "convert",
        "Report",
        "MaxPool2d",
        "max_unpool2d",
        "Sequential",
        "Conv",
    } <= listed


SEARCH = """
const wait = seconds => new Promise(done => setTimeout(done, 1000 * seconds));
(async () => {
  document.querySelector("#__search").click();
  const field = document.querySelector(".md-search__input");
  const results = document.querySelector(".md-search-result__list");
  field.focus();
  field.value = "dilation";
  for (let k = 0; k < 100 && !results.children.length; k++) {
    field.dispatchEvent(new Event("keyup", {bubbles: true}));
    await wait(0.1);
  }
  report([...results.querySelectorAll("a")].map(link => link.getAttribute("href").replace(/.*\\/|[#?].*/g, "")));
})();
"""


@needs_browser
def test_search_works_from_a_file(site, tmp_path):
    page = site / "searched.html"
    page.write_text(with_script((site / "rules.html").read_text(encoding="utf-8"), SEARCH), encoding="utf-8")
    found = found_on(page, tmp_path, "--virtual-time-budget=20000")
    assert {"rules.html", "for-images.html", "reference.html"} <= set(found)


# Of every block of code: whether its box ends before the button begins, and whether the page is wider than the screen.
BUTTONS = """
addEventListener("load", () => setTimeout(() => {
  const root = document.documentElement, pairs = [...document.querySelectorAll(".highlight")].map(block =>
    [block.querySelector("code"), block.querySelector("button, .md-code__nav")]);
  report({
    blocks: pairs.length, buttons: pairs.filter(([, button]) => button).length,
    wide: root.scrollWidth - root.clientWidth,
    below: pairs.filter(([code, button]) =>
      button && code.getBoundingClientRect().right > button.getBoundingClientRect().left + 1).length,
  });
}, 500));
"""


@needs_browser
@pytest.mark.parametrize("width", [500, 1400])
def test_no_code_stands_below_its_copy_button(site, tmp_path, width):
    page = site / "measured.html"
    page.write_text(with_script((site / "networks.html").read_text(encoding="utf-8"), BUTTONS), encoding="utf-8")
    found = found_on(page, tmp_path, "--virtual-time-budget=5000", f"--window-size={width},900")
    assert found["blocks"] == found["buttons"] > 3
    assert (found["below"], found["wide"]) == (0, 0)
