"""Every public callable says what each of its parameters means, in the words of the one table."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import ndpool
from ndpool import Adaptive, Global, Pool, Window
from ndpool.parameters import DESCRIPTIONS, documented
from ndpool.table import KINDS, TABLE

FUNCTIONS = [
    value
    for name in ndpool.__all__
    if inspect.isfunction(value := getattr(ndpool, name)) and value.__module__ in ("ndpool.functional", "ndpool.pool")
]
METHODS = [Pool.__call__, Pool.output_shape, Pool.with_indices, Pool.jvp, Pool.vjp]


def names_of(callable_):
    return [name for name in inspect.signature(callable_).parameters if name != "self"]


def described(text):
    """Name and description, from the section at the end of a docstring."""
    before, head, lines = text.partition("\n\nParameters:\n")
    assert before.strip()
    assert head
    return dict(line.strip().split(": ", 1) for line in re.sub(r"\n {8,}", " ", lines).splitlines())


@pytest.mark.parametrize("function", [*FUNCTIONS, *METHODS, Pool, Window, Adaptive, Global], ids=lambda f: f.__name__)
def test_every_parameter_is_described(function):
    """In the order of the signature, and no other."""
    found = described(function.__doc__)
    assert list(found) == names_of(function)
    owner = TABLE[function.__name__].kind.__name__ if function.__name__ in TABLE else ""
    assert found == {name: DESCRIPTIONS.get(f"{owner}.{name}", DESCRIPTIONS.get(name)) for name in found}
    first = function.__doc__.splitlines()[0]
    assert first.strip()
    assert "Parameters:" not in first


def test_all_functions_are_looked_at():
    assert {function.__name__ for function in FUNCTIONS} == {*TABLE, "set_num_threads"}
    assert len(TABLE) == len(KINDS) * (4 + 4 + 1)


def test_kinds_describe_theirs():
    """In their own words: what a parameter does is part of the formula."""
    for kind in KINDS:
        for name in names_of(kind):
            assert re.search(rf"\b{name}\b", kind.__doc__), (kind, name)


def test_descriptions_are_sentences_that_fit():
    for name, text in DESCRIPTIONS.items():
        assert text[0].isupper(), name
        assert text.endswith("."), name
        assert len(text) < 180, name


def test_a_parameter_without_a_description_is_an_error():
    def strange(x, unheard_of):
        """A function."""

    with pytest.raises(KeyError, match="unheard_of"):
        documented(strange)


def test_docstrings_may_be_gone():
    """As under python -OO."""

    def bare(x):
        pass

    assert documented(bare) is bare
    assert bare.__doc__ is None


def test_the_reference_shows_the_same():
    """It is made from the source, where a decorator has not run."""
    griffe = pytest.importorskip("griffe", reason="the reference needs ndpool[docs]")
    root = Path(__file__).parents[1]
    extensions = griffe.load_extensions(str(root / "docs" / "docstrings.py"))
    package = griffe.load("ndpool", search_paths=[str(root / "src")], extensions=extensions)
    for path in ("functional.max_pool", "functional.global_lp_pool", "pool.Pool.jvp", "pool.Pool", "windows.Global"):
        name = path.rpartition(".")[2]
        run = getattr(ndpool, name, None) or getattr(Pool, name)
        shown = package[path].docstring.parse("google")
        (section,) = (part for part in shown if part.kind.value == "parameters")
        found = {each.name: each.description.replace("\n", " ") for each in section.value}
        assert found == described(run.__doc__)


def test_examples_are_kept():
    """What stands before the section is the formula, the policy and the example."""
    assert ndpool.max_pool.__doc__.startswith(
        "`y = max x_i` over each window; with `return_indices`, `(y, indices)`.\n"
    )
    assert "\n\n>>> max_pool([3.0, 4.0, 2.0, 1.0], (2,))\narray([4., 2.])\n" in ndpool.max_pool.__doc__
    assert ndpool.max_pool2d.__doc__.startswith("`max_pool` over the last 2 axes")
