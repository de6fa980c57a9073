"""What builds, checks and compares: make, the scripts of tools/, the settings of wheels, and benchmarks.compare."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ndpool
from ndpool import _engine

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "Makefile").exists(), reason="these tests need the repository")


def run(*command, cwd=ROOT, **environment):
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **{name: str(value) for name, value in environment.items()}},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- make -----------------------------------------------------------------------------------------


def planned(*arguments):
    """What make would do on a fresh machine, one command a line."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    done = run("make", "--no-print-directory", "--dry-run", "--always-make", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_demo_says_what_it_does_before_it_does_it():
    lines = planned("demo")
    said = next(i for i, line in enumerate(lines) if "Building the engine: a minute or two" in line)
    built = next(i for i, line in enumerate(lines) if "--editable ." in line)
    assert said == built - 1
    assert lines[built].startswith("tools/progress ")
    assert "--verbose" in lines[built]  # or pip would hide the compiler's lines
    assert "--quiet" not in lines[built]
    assert "Installed ndpool" in lines[built + 1]


@pytest.mark.parametrize("target", ["demo", "test", "docs", "examples", "test-onnx", "bench"])
def test_every_step_that_takes_time_is_announced(target):
    lines = planned(target)
    for before, line in itertools.pairwise(lines):
        if "pip install" in line:
            assert before.startswith('echo "'), line


@pytest.mark.parametrize("target", ["test", "docs", "test-onnx", "bench"])
def test_the_engine_is_built_once(target):
    """An extra brings packages. Installing ndpool itself again would configure the engine again."""
    installs = [line for line in planned(target) if "pip install" in line]
    assert sum("--editable" in line for line in installs) == 1
    assert any(f"'ndpool[{target}]'" in line for line in installs)


def targets():
    """The names that make builds and that are no files."""
    return set(re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split())


def test_every_target_is_documented():
    documented = set(re.findall(r"^make (\S+)", (ROOT / "CONTRIBUTING.md").read_text(), re.M))
    assert documented == targets()


def test_every_target_is_possible():
    for target in targets():
        assert planned(target)


@pytest.mark.skipif(not (ROOT / ".ci" / "run").exists(), reason="an sdist has no .ci")
def test_ci_calls_targets_that_exist():
    called = re.findall(r"^make (\S+)$", (ROOT / ".ci" / "run").read_text(), re.M)
    tests = {f"test{suite}" for suite in ("", "-torch", "-onnx", "-images", "-docs")}
    assert {*tests, "lint", "docs", "core-test", "arm", "wheel"} <= set(called) <= targets()


def test_arm_says_that_it_is_skipped():
    done = run("make", "arm", "ARM_MISSING=qemu-aarch64")
    assert done.returncode == 0
    assert "Skipped: no test on ARM, because qemu-aarch64 is not installed." in done.stdout


def test_arm_builds_and_runs_when_it_can():
    lines = planned("arm", "ARM_MISSING=")
    assert any("-DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake" in line for line in lines)
    assert lines[-1].endswith("ctest --test-dir build/arm --verbose")


# --- tools/progress -------------------------------------------------------------------------------

COMPILING = """\
Collecting ndpool
[0/2] Re-checking globbed directories...
  [2/18] Building CXX object CMakeFiles/kernels_avx2.dir/csrc/kernels.cpp.o
csrc/rows.h:7: warning: unused variable
  [18/18] Linking CXX shared module _engine.cpython-311-x86_64-linux-gnu.so
"""


def progress(tmp_path, status):
    said, log = tmp_path / "said", tmp_path / "new" / "log"
    said.write_text(COMPILING)
    done = run(ROOT / "tools" / "progress", log, "sh", "-c", f"cat {said}; exit {status}")
    assert log.read_text() == COMPILING
    return done


def test_progress_is_short(tmp_path):
    done = progress(tmp_path, 0)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "  [2/18] kernels.cpp (kernels_avx2)",
        "csrc/rows.h:7: warning: unused variable",
        "  [18/18] _engine.cpython-311-x86_64-linux-gnu.so",
    ]


def test_progress_shows_everything_of_a_failure(tmp_path):
    done = progress(tmp_path, 3)
    assert done.returncode != 0
    assert done.stdout.endswith(COMPILING)


# --- tools/compilers, with a CMake and a Python that only pretend ------------------------------------


def executable(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def compilers(tmp_path, names, cmake="", python=""):
    """Run the script in a tree of its own, where CMake installs an engine and Python says what it is asked to do."""
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    (tmp_path / "src" / "ndpool").mkdir(parents=True)
    (tmp_path / "src" / "ndpool" / "_engine.old.so").write_text("an engine of another build")
    (tmp_path / "bin").mkdir()
    pretended = f"""
        echo "cmake $@"
        {cmake}
        case $1 in
            -S) mkdir -p "$4" ;;
            --install) mkdir -p "$4/ndpool" && echo engine > "$4/ndpool/_engine.new.so" ;;
        esac"""
    executable(tmp_path / "bin" / "cmake", pretended)
    executable(tmp_path / "bin" / "python", f'echo "$PYTHONPATH: $(ls $PYTHONPATH/ndpool): $@"; {python}')
    for name in ("good++", "other++"):
        executable(tmp_path / "bin" / name, "")
    return run("tools/compilers", names, "tests/a.py", cwd=tmp_path, PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")


def test_compilers_that_are_installed_are_tested(tmp_path):
    done = compilers(tmp_path, "good++ missing++ other++")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "missing++: skipped, it is not installed" in done.stdout
    for name in ("good++", "other++"):
        assert re.search(rf"^{re.escape(name)}: built in \d+ s, \d+ KiB, tests pass$", done.stdout, re.M)
        # The package has the new engine alone, and is what Python finds.
        assert re.search(
            rf"^build/compilers/{re.escape(name)}/package: _engine\.new\.so: -m pytest .*a\.py$", done.stdout, re.M
        )
        log = (tmp_path / f"build/compilers/{name}.log").read_text()
        assert f"-DCMAKE_CXX_COMPILER={name} -DCMAKE_COMPILE_WARNING_AS_ERROR=ON" in log


@pytest.mark.parametrize(
    ("broken", "verdict"),
    [({"cmake": "case $1 in --build) exit 1;; esac"}, "does not build"), ({"python": "exit 1"}, "tests fail")],
)
def test_a_compiler_that_fails_is_a_failure(tmp_path, broken, verdict):
    done = compilers(tmp_path, "good++", **broken)
    assert done.returncode != 0
    assert re.search(rf"^good\+\+: .*{verdict}", done.stdout, re.M)


def test_no_compiler_at_all_is_a_failure(tmp_path):
    assert compilers(tmp_path, "missing++").returncode != 0


# --- wheels ---------------------------------------------------------------------------------------


@pytest.fixture
def check_wheel(monkeypatch):
    if not (ROOT / ".git").exists():
        pytest.skip("only a repository knows which files belong to it")
    monkeypatch.chdir(ROOT)
    return load(ROOT / "tools" / "check_wheel.py")


def whole_wheel(check_wheel):
    files = {name.removeprefix("src/") for name in check_wheel.tracked("src/ndpool")}
    return files | {"ndpool/_engine.cpython-311-x86_64-linux-gnu.so", "ndpool-0.1.0.dist-info/licenses/LICENSE"}


def whole_sdist(check_wheel):
    return {f"ndpool-0.1.0/{name}" for name in check_wheel.tracked(".")}


def test_a_whole_wheel_and_sdist_are_good(check_wheel):
    assert check_wheel.check_wheel(whole_wheel(check_wheel)) == []
    assert check_wheel.check_sdist(whole_sdist(check_wheel)) == []


@pytest.mark.parametrize(
    "lacking",
    [
        "ndpool/py.typed",
        "ndpool/_engine.pyi",
        "ndpool/viz/page.html",
        "ndpool/_engine.cpython-311-x86_64-linux-gnu.so",
        "ndpool-0.1.0.dist-info/licenses/LICENSE",
    ],
)
def test_what_a_wheel_lacks_is_named(check_wheel, lacking):
    faults = check_wheel.check_wheel(whole_wheel(check_wheel) - {lacking})
    assert faults
    assert all("lacks" in fault or "needs one engine" in fault for fault in faults)


@pytest.mark.parametrize("extra", ["csrc/engine.h", "ndpool/notes.txt", "ndpool/_engine.abi3.so"])
def test_what_a_wheel_should_not_hold_is_named(check_wheel, extra):
    (fault,) = check_wheel.check_wheel(whole_wheel(check_wheel) | {extra})
    assert extra in fault


def test_what_an_sdist_lacks_or_should_not_hold_is_named(check_wheel):
    whole = whole_sdist(check_wheel)
    (lacks,) = check_wheel.check_sdist(whole - {"ndpool-0.1.0/CMakeLists.txt"})
    (holds,) = check_wheel.check_sdist(whole | {"ndpool-0.1.0/build/lib.so"})
    assert "CMakeLists.txt" in lacks
    assert "build/lib.so" in holds


@pytest.fixture
def smoke(monkeypatch):
    module = load(ROOT / "tools" / "smoke.py")
    monkeypatch.setattr(module, "POOLS", module.POOLS[::9])
    before = _engine.level()
    yield module
    _engine.set_level(before)


def test_the_smoke_test_visits_every_level(smoke, capsys, monkeypatch):
    visited = []
    set_level = _engine.set_level
    monkeypatch.setattr(smoke._engine, "set_level", lambda level: (visited.append(level), set_level(level)))
    smoke.main()
    assert set(visited) == set(_engine.levels())
    assert f"at {', '.join(_engine.levels())}" in capsys.readouterr().out


@pytest.mark.parametrize(("method", "name"), [("jvp", "y"), ("jvp", "dy"), ("vjp", "gx")])
def test_the_smoke_test_notices_a_wrong_number(smoke, monkeypatch, method, name):
    right = getattr(ndpool.spec, method)

    def wrong(*arguments):
        results = right(*arguments)
        if name == "gx":
            return results + 1
        return tuple(result + (which == name) for which, result in zip(("y", "dy"), results, strict=True))

    monkeypatch.setattr(smoke.spec, method, wrong)
    with pytest.raises(AssertionError, match=rf"{name} of Pool"):
        smoke.main()


def test_cibuildwheel_builds_every_python_that_the_package_allows():
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no reader of TOML")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    settings = project["tool"]["cibuildwheel"]
    assert project["project"]["requires-python"] == ">=3.10"
    assert settings["build"] == [f"cp3{minor}-*" for minor in range(10, 15)]
    script = re.fullmatch(r"python \{project\}/(\S+)", settings["test-command"])[1]
    assert (ROOT / script).exists()


# --- benchmarks.compare -----------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path):
    """A function that lays the package with its engine into a folder of its own, by links."""

    def lay(name):
        folder = tmp_path / name / "ndpool"
        folder.mkdir(parents=True)
        for path in (*Path(ndpool.__file__).parent.iterdir(), Path(_engine.__file__)):
            if not (folder / path.name).exists():
                (folder / path.name).symlink_to(path)
        return folder.parent

    return lay


def compare(*arguments):
    options = ("--no-torch", "--rounds", 1, "--turns", 1)
    return run(sys.executable, "-m", "benchmarks.compare", *options, *arguments)


def test_two_builds_take_turns(package):
    """Each side imports its own package: here the new one lacks a function and computes another."""
    old, new = package("old"), package("new")
    (new / "ndpool" / "__init__.py").unlink()
    changes = "\ndel adaptive_avg_pool2d\nright = avg_pool2d\ndef avg_pool2d(*args):\n    return right(*args) + 1\n"
    (new / "ndpool" / "__init__.py").write_text((old / "ndpool" / "__init__.py").read_text() + changes)
    done = compare(old, new, "--cases", r"^tiny array (max|avg|adaptive_avg)_pool2d\(x, [24]\)$")
    assert done.returncode == 0, done.stderr
    rows = {line.split("  ")[0]: line for line in done.stdout.splitlines() if line.startswith("tiny")}
    assert list(rows) == [
        f"tiny array {call}" for call in ("max_pool2d(x, 2)", "avg_pool2d(x, 2)", "adaptive_avg_pool2d(x, 4)")
    ]
    same, other, absent = rows.values()
    assert re.search(r"\d+\.\d+ +\d+\.\d+ +\d+\.\d+ =", same)
    assert " = " not in other
    assert "new has none: AttributeError" in absent
    assert "2 works: new takes " in done.stdout
    assert "1 with other bits" in done.stdout


def test_a_folder_without_the_package_is_refused(package, tmp_path):
    done = compare(package("old"), tmp_path)
    assert done.returncode == 2
    assert f"{tmp_path} has no package ndpool" in done.stderr


@pytest.fixture
def comparison(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.compare")


class Pretender:
    """A side that takes the seconds it is told to, and writes down its turns."""

    def __init__(self, name, seconds, turns):
        self.name, self.seconds, self.turns = name, list(seconds), turns

    def ask(self, order, *work):
        if order == "prepare":
            return {"bits": "the same"}
        self.turns.append(self.name)
        return self.seconds.pop(0)


def test_each_side_has_its_own_best_time(comparison):
    turns, row = [], comparison.Row("a")
    old, new = Pretender("old", [3.0, 2.0, 4.0], turns), Pretender("new", [7.0, 6.0, 5.0], turns)
    comparison.measure(row, old, new, turns=3)
    assert (row.old, row.new) == (2.0, 5.0)
    assert turns == ["old", "new", "new", "old", "old", "new"]  # neither is always first


def test_works_that_differ_are_measured_again(comparison, capsys):
    turns = []
    old, new = Pretender("old", [1.0] * 6, turns), Pretender("new", [1.0, 2.0, 1.0, 2.0, 1.5, 1.04], turns)
    same, slower = comparison.compare(["same", "slower"], old, new, rounds=2, turns=1)
    assert (same.new, slower.new) == (1.0, 1.04)
    assert turns.count("old") == turns.count("new") == 2 * 2 + 2
    assert "round 1 of 2, those that differ: 1 works" in capsys.readouterr().err


def test_rows_say_which_side_is_slower(comparison):
    row = comparison.Row
    rows = [row("a", 1.0, 1.04), row("b", 1.0, 1.06), row("c", 1.0, 0.5, same_bits=False), row("d", absent={"old": ""})]
    lines = comparison.report(rows).splitlines()
    assert [line.split()[-1] for line in lines[1:4]] == ["=", "slower", "faster"]
    assert "d" in lines[4]
    assert "old has none: " in lines[4]
    mean = np.prod([1.04, 1.06, 0.5]) ** (1 / 3)
    assert f"3 works: new takes {mean:.3f} x the time of old" in lines[6]
    assert "1 more than 5% slower; 1 with other bits" in lines[6]
    assert lines[7:] == ["  slower: b"]
