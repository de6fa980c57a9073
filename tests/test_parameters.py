"""Every public callable says what each of its parameters means, in the words of the one table."""

from __future__ import annotations

import inspect
import re

import pytest

import ndpool
from ndpool import Adaptive, Global, Pool, Window
from ndpool.parameters import DESCRIPTIONS, documented, section_of

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
    lines = re.sub(r"\n {8,}", " ", section_of(text)).splitlines()
    assert lines[:3] == ["", "", "Parameters:"]
    return dict(line.strip().split(": ", 1) for line in lines[3:])


@pytest.mark.parametrize("function", [*FUNCTIONS, *METHODS, Pool, Window, Adaptive, Global], ids=lambda f: f.__name__)
def test_every_parameter_is_described(function):
    """In the order of the signature, and no other."""
    found = described(function.__doc__)
    assert list(found) == names_of(function)
    assert found == {name: DESCRIPTIONS[name] for name in found}
    first = function.__doc__.splitlines()[0]
    assert first.strip()
    assert "Parameters:" not in first


def test_all_functions_are_looked_at():
    assert len(FUNCTIONS) == 6 * (4 + 4 + 1) + 1
    assert ndpool.max_pool3d in FUNCTIONS


def test_kinds_describe_theirs():
    """In their own words: what a parameter does is part of the formula."""
    for kind in (ndpool.Max, ndpool.Avg, ndpool.SmoothMax, ndpool.Lp):
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


def test_examples_are_kept():
    """What stands before the section is what was written."""
    assert ">>> max_pool([[1, 2], [4, 3]], (2, 2))\narray([[4]])\n" in ndpool.max_pool.__doc__
    assert ndpool.max_pool2d.__doc__.startswith("`max_pool` over the last 2 axes")
