"""The table of kinds and windows, and what is made from it: as it was when written by hand, and for a new kind."""

from __future__ import annotations

import ast
import doctest
import inspect
import json
import os
import pickle
import shutil
import sys
import traceback
import typing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import ndpool
import ndpool.torch
from ndpool import Avg, Graph, Kind, Max, _engine, functional, stubs
from ndpool.graph import STYLE as GRAPH_STYLE
from ndpool.making import make, numbers, summary
from ndpool.table import COLUMNS, KINDS, TABLE, Pooling, parameters_of
from ndpool.torch import functional as F  # noqa: N812 - as everyone calls it
from ndpool.torch import nn
from ndpool.torch.signatures import SPELLED
from processes import run_python

MODULES = {name: cls for name, cls in vars(nn).items() if isinstance(cls, type) and cls.__module__ == nn.__name__}
PYTORCHS = {name for name in MODULES if hasattr(torch.nn, name)}
PUBLIC = {
    **{f"ndpool.functional.{name}": getattr(functional, name) for name in functional.__all__},
    **{f"ndpool.torch.functional.{name}": getattr(F, name) for name in F.__all__},
    **{f"ndpool.Graph.{name}": getattr(Graph, name) for name in TABLE},
    **{f"ndpool.torch.nn.{name}": cls for name, cls in MODULES.items() if name not in PYTORCHS},
}


def namespace(*kinds):
    """That of `functional` under another name, so that the sources of its own functions stay."""
    return {**vars(functional), "__name__": "made_here", **{kind.__name__: kind for kind in kinds}}


# --- what was written by hand before there was a table ---------------------------------------------


def test_the_signatures_of_the_functions_are_what_they_were():
    """A file has them all, so that a change of one is seen; a kind that is added adds lines."""
    known = (Path(__file__).parent / "signatures.txt").read_text(encoding="utf-8").splitlines()
    found = {f"{name}{inspect.signature(value)}" for name, value in PUBLIC.items()}
    assert len(known) == len(set(known)) > 200
    assert found == set(known)


def test_pytorchs_modules_have_pytorchs_signatures():
    assert len(PYTORCHS) == 18
    for name in PYTORCHS:
        assert inspect.signature(getattr(nn, name)) == inspect.signature(getattr(torch.nn, name))
        assert issubclass(getattr(nn, name), getattr(torch.nn, name))


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_made_says_what_it_is(name):
    """Its name, its module, its annotations, its documentation; it is pickled by them."""
    value, (module, _, own) = PUBLIC[name], name.rpartition(".")
    assert value.__name__ == own
    assert value.__qualname__ == ("Graph." + own if "Graph" in module else own)
    assert value.__module__ == module.replace(".Graph", ".graph")
    assert value.__doc__.strip()
    if inspect.isfunction(value):
        hints = typing.get_type_hints(value)
        assert set(hints) == {*inspect.signature(value).parameters, "return"} - {"self"}
        assert value.__code__.co_name == own or own in SPELLED or own == "pool"
        assert f"def {own.rstrip('123d')}" in inspect.getsource(value) or own in SPELLED
    if "Graph" not in module:
        assert pickle.loads(pickle.dumps(value)) is value


def test_made_functions_are_members_of_their_modules():
    """For tab completion, and for `import *`."""
    assert {*TABLE} <= {*dir(functional)} & {*dir(ndpool)} & {*dir(F)} & {*dir(Graph)}
    assert functional.__all__ == list(TABLE)
    assert set(TABLE) | set(SPELLED) | {"pool"} == set(F.__all__)
    for name in TABLE:
        assert getattr(ndpool, name) is getattr(functional, name)


def test_a_traceback_shows_the_source():
    """Of a function, the line that made the kind; in Python's words if an argument is wrong."""
    with pytest.raises(ValueError, match="ties='last'") as caught:
        ndpool.max_pool2d([[1.0]], 1, ties="last")
    shown = "".join(traceback.format_exception(caught.value))
    assert "in max_pool2d\n    pool = _POOLS.keep(given, Pool(Max(ties), Window(kernel_size, stride" in shown
    with pytest.raises(TypeError, match=r"^max_pool2d\(\) got an unexpected keyword argument 'tie'"):
        ndpool.max_pool2d([[1.0]], 1, tie="first")
    with pytest.raises(TypeError, match=r"^Graph.max_pool2d\(\) missing 1 required positional argument"):
        Graph().max_pool2d(Graph().input((1, 1)))


# --- documentation --------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [functional, F], ids=lambda module: module.__name__)
def test_every_function_has_an_example_that_is_collected(module):
    """The spellings with a number say which function they are; the others have an example for each result."""
    found = {test.name.rpartition(".")[2]: test for test in doctest.DocTestFinder().find(module) if test.examples}
    plain = {name: pooling for name, pooling in TABLE.items() if pooling.rank is None}
    assert set(plain) <= set(found)
    for name, pooling in plain.items():
        has_index = pooling.has_indices and pooling.kind(*numbers(pooling.kind)).one_winner() is not None
        assert len(found[name].examples) == 1 + has_index
        assert all(example.want for example in found[name].examples)


def test_examples_are_computed_from_the_definition(monkeypatch):
    """Not by what they are an example of: they cannot agree with a wrong function."""
    pooling = TABLE["avg_pool"]
    monkeypatch.setattr(Avg, "value", lambda self, x, pad=0: 17.0)
    assert "array([17., 17.])" in make([pooling], functional.STYLE, namespace())["avg_pool"].__doc__


def test_words_formulas_and_numbers():
    """From the docstring of the kind; one that has none is called by its name."""
    assert summary(Max) == ("The largest cell", "`y = max x_i`")
    assert [numbers(kind) for kind in (Max, ndpool.SmoothMax, ndpool.Lp)] == [(), (1.0,), (2,)]

    class Bare(Kind):
        def __init__(self, place):
            self.place = place

        def value(self, x, pad=0):
            return x[0]

        def weights(self, x, pad=0):
            return [(0, 1)]

    assert summary(Bare) == ("`Bare`", "`Bare`")
    assert numbers(Bare) is None
    made = make([Pooling(Bare, COLUMNS[0])], functional.STYLE, namespace(Bare))["bare_pool"]
    assert made.__doc__.startswith("`Bare` over each window.\n\nParameters:\n    x: ")
    assert "\n    place: As `Bare` has it.\n" in made.__doc__
    np.testing.assert_array_equal(made([5.0, 1.0, 2.0, 9.0], 0.5, (2,)), [5.0, 2.0])


# --- the table ------------------------------------------------------------------------------------


def test_the_table_has_every_kind_over_every_window():
    """In the order of their definition; abstract and private classes are none."""
    defined = ast.parse(inspect.getsource(ndpool.kinds)).body
    names = [each.name for each in defined if isinstance(each, ast.ClassDef)]
    assert [kind.__name__ for kind in KINDS] == [name for name in names if isinstance(getattr(ndpool, name, 0), type)]
    assert len(TABLE) == len(KINDS) * sum(1 + len(column.ranks) for column in COLUMNS)
    for name, pooling in TABLE.items():
        assert pooling.name == name
        assert pooling.at_any_rank in TABLE.values()


def test_what_differs_from_window_to_window():
    """Rule "Ties"; only a Window has padding; only a window that is one of many, and one cell of it, has indices."""
    defaults = {name: {each.name: each.default for each in pooling.parameters} for name, pooling in TABLE.items()}
    assert [defaults[f"{prefix}max_pool"]["ties"] for prefix in ("", "adaptive_", "global_")] == ["first"] * 2 + ["all"]
    assert [name for name in defaults if "count_include_pad" in defaults[name]] == [
        name for name in TABLE if name.startswith(("avg", "smooth"))
    ]
    with_indices = {name for name in defaults if "return_indices" in defaults[name]}
    chosen = ("max_pool", "min_pool", "mode_pool", "quantile_pool")
    assert with_indices == {name for name in TABLE if any(kind in name for kind in chosen)} - {
        name for name in TABLE if "smooth" in name or "global" in name
    }
    assert [defaults[f"{prefix}sum_pool"]["axes"] for prefix in ("", "adaptive_", "global_")] == [None, None, (-2, -1)]


def test_parameters_in_the_middle_are_passed_as_their_defaults():
    """Those that are about padding are not asked for over bins, and those behind them keep their places."""

    @dataclass(frozen=True)
    class Between(Kind):
        a: float
        count_include_pad: bool = True
        b: int = 3

        def value(self, x, pad=0):
            return self.a + self.b

        def weights(self, x, pad=0):
            return []

    pooling = Pooling(Between, COLUMNS[1])
    assert pooling.kind_call == "Between(a, True, b)"
    made = make([pooling, Pooling(Between, COLUMNS[1], 1)], functional.STYLE, namespace(Between))
    assert list(inspect.signature(made["adaptive_between_pool1d"]).parameters)[:4] == ["x", "a", "output_size", "b"]
    assert made["adaptive_between_pool1d"]([1.0, 2.0], 10.0, 1, b=5).tolist() == [15.0]


def test_kinds_that_no_function_can_be_made_of():
    class Loose(Kind):
        def __init__(self, *numbers):
            pass

    class Endless(Kind):
        def __init__(self, most=float("inf")):
            pass

    with pytest.raises(TypeError, match=r"Loose takes \*numbers; a function is made from parameters that each have"):
        parameters_of(Loose)
    with pytest.raises(TypeError, match="Endless has most=inf as a default, which cannot be written"):
        parameters_of(Endless)


def test_parameters_by_name_alone():
    class Named(Kind):
        def __init__(self, *, q=2):
            self.q = q

        def value(self, x, pad=0):
            return self.q

        def weights(self, x, pad=0):
            return []

    made = make([Pooling(Named, COLUMNS[0])], functional.STYLE, namespace(Named))["named_pool"]
    assert made([1.0, 2.0], (2,), q=7).tolist() == [7.0]
    assert made([1.0, 2.0], (2,)).tolist() == [2.0]


# --- stubs ----------------------------------------------------------------------------------------


STUBS = stubs.stubs()


@pytest.mark.parametrize("path", STUBS)
def test_stubs_are_fresh(path):
    """`python -m ndpool.stubs` brings them up to date."""
    assert (stubs.PACKAGE / path).read_text(encoding="utf-8") == STUBS[path]


@pytest.mark.parametrize("path", STUBS)
def test_stubs_have_every_name(path):
    """Read as text: each public name is defined, assigned or imported there."""
    tree = ast.parse((stubs.PACKAGE / path).read_text(encoding="utf-8"))
    body = tree.body[-1].body if path.startswith("_graph") else tree.body
    found = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            assert ast.get_docstring(node) or node.name.startswith("_")
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets}
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
    expected = {
        "__init__.pyi": set(ndpool.__all__) - set(TABLE) | {"*"},
        "functional.pyi": set(TABLE),
        "_graph_methods.pyi": set(TABLE),
        "torch/functional.pyi": set(F.__all__),
        "torch/nn.pyi": set(MODULES),
    }[path]
    assert expected <= found


# --- loading --------------------------------------------------------------------------------------


def test_import_loads_numpy_and_the_engine_and_nothing_else():
    loaded = run_python(
        """
        import sys
        before = set(sys.modules)
        import ndpool
        print(*sorted(set(sys.modules) - before))
        """
    )
    outside = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    assert outside == {"ndpool", "numpy"}
    inside = {name.removeprefix("ndpool.") for name in loaded if name.startswith("ndpool.")}
    assert "_engine" in inside
    for later in ("c", "graph", "layers", "ops", "program", "pictures", "viz", "explain", "cli", "torch", "stubs"):
        assert not any(name == later or name.startswith(later + ".") for name in inside), later


@pytest.mark.parametrize(
    "first", ["ndpool.Graph", "ndpool.graph.Graph", "ndpool.layers.Sequential", "ndpool.ops.Relu", "ndpool.graph.Var"]
)
def test_what_is_loaded_later_is_there_when_asked_for(first):
    said = run_python(
        f"""
        import ndpool
        assert set(ndpool.__all__) <= set(dir(ndpool))
        {first}
        from ndpool import Graph, graph, layers, ops
        assert Graph is graph.Graph is ndpool.Graph and ndpool.layers is layers and ndpool.ops is ops
        print({first}.__name__)
        """
    )
    assert said == [first.rpartition(".")[2]]


def test_all_names_can_be_imported_at_once():
    said = run_python("from ndpool import *; import ndpool; print(sorted(set(ndpool.__all__) - set(globals())))")
    assert said == ["[]"]


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'ndpool' has no attribute 'middle_pool'"):
        ndpool.middle_pool  # noqa: B018


# --- a new kind -----------------------------------------------------------------------------------

ANOTHER_KIND = '''

@dataclass(frozen=True)
class SquaredRange(Kind):
    """A power of largest minus smallest: `y = scale (max x_i - min x_i)^2`.

    >>> SquaredRange(3.0).value([1.0, 2.0])
    3.0
    """

    scale: float
    ties: str = "first"

    def value(self, x: Cells, pad: int = 0) -> Any:
        gap = Max().value(x) - Min().value(x)
        return self.scale * gap * gap

    def weights(self, x: Cells, pad: int = 0) -> Weights:
        slope = 2 * self.scale * (Max().value(x) - Min().value(x))
        return [(i, slope * w) for i, w in Max().weights(x)] + [(i, -slope * w) for i, w in Min().weights(x)]
'''


@pytest.fixture(scope="module")
def another(tmp_path_factory):
    """The package with one more class in `kinds.py`, and nothing else changed."""
    folder = tmp_path_factory.mktemp("another")
    source = Path(ndpool.__file__).parent
    shutil.copytree(source, folder / "ndpool", ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.pyd"))
    native = Path(_engine.__file__)
    os.symlink(native, folder / "ndpool" / native.name)
    # An editable installation would answer first; with this the path decides.
    first = "import sys, importlib.machinery\nsys.meta_path.insert(0, importlib.machinery.PathFinder)\n"
    (folder / "sitecustomize.py").write_text(first, encoding="utf-8")
    kinds = folder / "ndpool" / "kinds.py"
    kinds.write_text(kinds.read_text(encoding="utf-8") + ANOTHER_KIND, encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join([str(folder), str(Path(__file__).parent)]), "COLUMNS": "120"}


def test_another_kind_has_functions_methods_and_a_check(another):
    said = run_python(
        """
        import doctest, inspect, json, numpy as np, ndpool
        assert "another" in ndpool.__file__
        kind = ndpool.SquaredRange(2.0)
        ndpool.check_kind(kind)
        x = np.array([[1.0, 4.0, 2.0, 2.5], [0.0, 3.0, 7.0, 7.0]])
        graph = ndpool.Graph()
        v = graph.input(x.shape, name="x")
        program = graph.build(graph.squared_range_pool2d(v, 2.0, 2))
        y, pullback = ndpool.Pool(kind, ndpool.Window((2, 2))).vjp(x)
        finder = doctest.DocTestFinder(recurse=False)
        runs = [
            doctest.DocTestRunner().run(test)
            for name in ndpool.functional.__all__ if "squared" in name
            for test in finder.find(getattr(ndpool, name), name, globs=vars(ndpool.functional))
        ]
        print(json.dumps([
            ndpool.squared_range_pool(x, 2.0, (2, 2)).tolist(),
            ndpool.squared_range_pool2d(x, 2.0, 2).tolist(),
            ndpool.adaptive_squared_range_pool1d(x, 2.0, 1).tolist(),
            ndpool.global_squared_range_pool(x, 2.0).tolist(),
            program(x).tolist(),
            pullback(np.array([[1.0, 10.0]])).tolist(),
            program.vjp(x)[1](np.array([[1.0, 10.0]])).tolist(),
            str(inspect.signature(ndpool.global_squared_range_pool).parameters["ties"].default),
            [sum(run.failed for run in runs), sum(run.attempted for run in runs)],
            "SquaredRange" in ndpool.__all__, type(v).__name__,
        ]))
        """,
        **another,
    )
    (plain, spelled, bins, everything, program, back, program_back, ties, runs, listed, _) = json.loads(" ".join(said))
    assert plain == spelled == program == [[32.0, 50.0]]
    assert bins == [[18.0], [98.0]]
    assert everything == [[98.0]]
    assert back == program_back == [[0.0, 16.0, -200.0, 0.0], [-16.0, 0.0, 200.0, 0.0]]
    assert (ties, runs, listed) == ("first", [0, 3], True)


def test_another_kind_has_functions_and_modules_on_tensors(another):
    said = run_python(
        """
        import json, torch, ndpool, ndpool.torch.functional as F
        from ndpool.torch import nn
        x = torch.tensor([[1.0, 4.0, 2.0, 2.5], [0.0, 3.0, 7.0, 7.0]], requires_grad=True)
        module = nn.SquaredRangePool2d(2.0, 2)
        y = F.squared_range_pool2d(x, 2.0, 2)
        (gx,) = torch.autograd.grad(y, x, torch.tensor([[1.0, 10.0]]))
        print(json.dumps([
            y.tolist(), gx.tolist(), module(x).tolist(), repr(module),
            nn.GlobalSquaredRangePool(2.0)(x).tolist(), ndpool.squared_range_pool(x, 2.0, (2, 2)).tolist(),
        ]))
        try:
            nn.SquaredRangePool2d(2.0, 0)
        except ValueError as error:
            print(str(error).replace(" ", "_"))
        """,
        **another,
    )
    y, gx, module, shown, everything, dispatched = json.loads(" ".join(said[:-1]))
    assert y == module == dispatched == [[32.0, 50.0]]
    assert gx == [[0.0, 16.0, -200.0, 0.0], [-16.0, 0.0, 200.0, 0.0]]
    assert shown == "ndpool.SquaredRangePool2d(scale=2.0, kernel_size=2)"
    assert everything == [[98.0]]
    assert said[-1] == "kernel_size=0_is_less_than_1;_give_an_int_>=_1"


def test_another_kind_is_a_choice_on_the_command_line(another, tmp_path):
    np.save(tmp_path / "in.npy", np.array([[1.0, 4.0, 2.0, 2.5], [0.0, 3.0, 7.0, 7.0]]))
    said = run_python(
        f"""
        import os; os.chdir({str(tmp_path)!r})
        from ndpool.cli import checking, main
        import ndpool
        assert main("pool in.npy -o out.npy --kind squared-range --scale 2 --kernel 2,2".split()) == 0
        assert main("pool in.npy -o no.npy --kind squared-range --kernel 2,2".split()) == 2
        assert main("pool in.npy -o no.npy --kind max --scale 2 --kernel 2,2".split()) == 2
        assert main("pool --help".split()) == 0
        drawn = {{type(case.pool.kind) for case in checking.cases(80, 0)}}
        assert ndpool.SquaredRange in drawn
        tallies = checking.run(40, 0, [], lambda: None)
        assert not any(tally.faults for tally in tallies)
        """,
        **another,
    )
    assert np.load(tmp_path / "out.npy").tolist() == [[32.0, 50.0]]
    text = " ".join(said)
    assert "squared-range" in text
    assert "--scale" in text
    assert "A parameter, for squared-range." in text


def test_another_kind_makes_the_stubs_stale(another):
    """So that nobody forgets them."""
    said = run_python(
        """
        from ndpool import stubs
        print(*[path for path, text in stubs.stubs().items() if (stubs.PACKAGE / path).read_text() != text])
        stubs.write()
        print(*[path for path, text in stubs.stubs().items() if (stubs.PACKAGE / path).read_text() != text])
        """,
        **another,
    )
    assert said == list(STUBS)


def test_graph_methods_say_whose_they_are():
    assert Graph.lp_pool.__doc__ == "The p-norm of the cells of each window, as `ndpool.lp_pool` has it."
    assert GRAPH_STYLE.parameters(TABLE["max_pool"])[0].name == "self"


@pytest.mark.parametrize("name", TABLE)
def test_every_argument_of_a_graph_method_arrives(name):
    """None is dropped or replaced by its default: the node has the name that was given, and the pool."""
    pooling = TABLE[name]
    options = {"ties": "split", "count_include_pad": False, "divisor_override": 5, "method": "lower"}
    own = {each.name: options[each.name] for each in pooling.own if each.name in options}
    if pooling.kind is ndpool.Mode:
        own["ties"] = "largest"
    kind = pooling.kind(*numbers(pooling.kind), **own)
    window, by_place, by_name = {
        "": (ndpool.Window((3, 2), 2, 1, (1, 2), True), ((3, 2), 2, 1), {"dilation": (1, 2), "ceil_mode": True}),
        "adaptive_": (ndpool.Adaptive((2, 3)), ((2, 3),), {}),
        "global_": (ndpool.Global(False), (), {"keepdims": False}),
    }[pooling.column.prefix]
    graph = Graph()
    x = graph.input((2, 6, 7, 8))
    method = getattr(graph, name)
    y = method(x, *numbers(pooling.kind), *by_place, **by_name, **own, axes=(1, 3), skip=4, min_count=2, name="pooled")
    assert y.name == "pooled"
    assert graph._nodes[y.index].op == ndpool.Pool(kind, window, (1, 3), 4, 2)
    assert graph._nodes[y.index].inputs == (x.index,)
    if pooling.rank:
        last = method(x, *numbers(pooling.kind), 2)
        assert graph._nodes[last.index].op.axes == tuple(range(-pooling.rank, 0))
