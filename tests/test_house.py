"""The house: who may import whom, names that are imported from a package, and examples that are all executed."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import ndpool
from ndpool import c, layers, ops, viz

ROOT = Path(ndpool.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


def module_of(file):
    parts = ("ndpool", *file.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# --- who imports whom -----------------------------------------------------------------------------

#: Who stands above the definition, the seam, the engines and the front ends, which know nothing of them.
HEIGHT = {"ops": 1, "pyramid": 1, "residuals": 2, "viz": 2, "program": 2, "bounds": 2, "explain": 3, "graph": 3}
HEIGHT |= {"prove": 3, "layers": 4, "c": 5, "cli": 5}


def imported_by(file):
    """The parts of ndpool, by their first names, that a file imports when it is imported, and not for types alone."""
    package = module_of(file) if file.name == "__init__.py" else module_of(file).rpartition(".")[0]
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package) if node.level else ""
            whole = base or node.module
            names = [f"{whole}.{alias.name}" for alias in node.names] if whole == "ndpool" else [whole]
            yield from (name.split(".")[1] for name in names if name.startswith("ndpool."))


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_nothing_imports_what_stands_above_it(file):
    if module_of(file) not in ("ndpool", "ndpool.__main__"):
        own = HEIGHT.get(module_of(file).split(".")[1], 0)
        assert [part for part in imported_by(file) if HEIGHT.get(part, 0) > own] == []


def test_imports_are_seen():
    assert {"kind", "plan"} <= set(imported_by(ROOT / "pool.py"))
    assert {"ops", "residuals", "pool"} <= set(imported_by(ROOT / "layers" / "pool_layer.py"))
    assert "ops" in set(imported_by(ROOT / "layers" / "activations.py"))


@pytest.mark.parametrize("engine", ["native", "triton"])
def test_an_engine_knows_plans_and_no_front_end(engine):
    files = [file for file in FILES if module_of(file).split(".")[1:2] == [engine]]
    assert {part for file in files for part in imported_by(file)} <= {"_engine", "plan", "skipping", engine}
    assert files


def test_the_engine_for_gpus_is_loaded_for_tensors_that_are_there():
    loaded = "import ndpool.torch.functional, sys; print([m for m in sys.modules if m.startswith('ndpool.triton')])"
    said = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_pictures_load_no_library_before_one_is_drawn():
    loaded = "import ndpool.viz, ndpool.explain, sys; print([m for m in ('matplotlib', 'rich') if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


# --- packages -------------------------------------------------------------------------------------

PUBLISHED = [(package, name) for package in (ops, layers, viz, c) for name in package.__all__ if name != "PROFILES"]
ALSO = ["Activation", "Directions", "LinearMap", "Product", "Promoting", "SelfAdjoint", "lifted"]
PUBLISHED += [(ops, name) for name in ALSO] + [(viz, "show_array")]


@pytest.mark.parametrize(("package", "name"), PUBLISHED, ids=lambda each: getattr(each, "__name__", each))
def test_a_name_says_the_package_that_it_is_imported_from(package, name):
    value = getattr(package, name)
    assert (value.__module__, value.__qualname__) == (package.__name__, name)
    path = f"c{package.__name__}\n{name}\n"
    assert pickle.dumps(value, 0).decode().startswith(path)
    assert pickle.loads(f"{path}.".encode()) is value
    for member in vars(value).values() if inspect.isclass(value) else ():
        if inspect.isfunction(member) and member.__qualname__ == f"{name}.{member.__name__}":
            assert member.__module__ in (package.__name__, "typing", "abc", "collections"), member


def test_what_is_not_imported_from_a_package_keeps_its_own_module():
    assert layers.pool_layer.PoolLayer.__module__ == "ndpool.layers.pool_layer"
    assert layers.pool_layer.Array is ops.Array
    assert ops.activations.np.ndarray.__module__ == "numpy"


# --- examples -------------------------------------------------------------------------------------


def examples_written(file):
    """The lines that begin an example in the docstrings of a file."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    holders = (node for node in nodes if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef))
    docs = (ast.get_docstring(node) or "" for node in holders)
    return sum(line.strip().startswith(">>> ") for doc in docs for line in doc.splitlines())


@pytest.mark.parametrize("package", [ops, layers, viz, c], ids=lambda package: package.__name__)
def test_every_example_of_a_package_is_executed(package):
    """A class that names the package as its module is looked for there, with its methods; none may fall between."""
    files = [file for file in FILES if f"{module_of(file)}.".startswith(f"{package.__name__}.")]
    finder, found = doctest.DocTestFinder(), {}
    for file in files:
        for test in finder.find(importlib.import_module(module_of(file)), module_of(file)):
            assert test.name not in found
            found[test.name] = len(test.examples)
    assert sum(found.values()) == sum(map(examples_written, files)) > 5
    assert package is not layers or found["ndpool.layers.Sequential.memory"] > 2
