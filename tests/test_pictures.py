"""How values and programs are written: what one would type, what is kept, what Graphviz reads."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from ndpool import (
    Adaptive,
    Avg,
    Global,
    Graph,
    Kind,
    Lp,
    Max,
    Median,
    Min,
    Mode,
    Pool,
    Quantile,
    SmoothMax,
    Sum,
    Window,
    ops,
)
from ndpool.reprs import brief
from ndpool.residuals import PoolKeeps, kept, kept_by_pool
from ndpool.viz.programs import dot, table


@pytest.mark.parametrize(
    "text",
    [
        "Max()",
        "Max(ties='split')",
        "Avg(count_include_pad=False, divisor_override=3)",
        "SmoothMax(2.0)",
        "SmoothMax(2.0, count_include_pad=False)",
        "Lp(3)",
        "Window((2, 3), stride=(1, 2), padding='same', dilation=2, ceil_mode=True)",
        "Window(2)",
        "Adaptive((3, None))",
        "Global()",
        "Global(keepdims=False)",
        "Pool(Min(ties='all'), Global(), axes=(0, 1))",
        "Pool(Avg(divisor_override=2), Window((3,), padding=((1, 0),)))",
        "Avg(rounding='half_even')",
        "Mode(ties='largest')",
        "Quantile(0.25, method='nearest')",
        "Pool(Median(), Window((3,)), skip=nan)",
        "Pool(Mode(), Window(2), axes=(0, 1), skip=0, min_count=3)",
    ],
)
def test_brief_is_what_one_would_type(text):
    kinds = (Max, Min, Mode, Quantile, Median, Avg, Sum, SmoothMax, Lp)
    names = {each.__name__: each for each in (*kinds, Window, Adaptive, Global, Pool)} | {"nan": np.nan}
    value = eval(text, names)
    assert brief(value) == text
    assert eval(brief(value), names) == value


def test_brief_of_what_is_no_dataclass_is_its_repr():
    class Own:
        def __repr__(self):
            return "own"

    assert brief(Own()) == "own"
    assert brief(Max) == repr(Max)
    assert brief(2.5) == "2.5"


@pytest.mark.parametrize(
    ("window", "shape", "expected"),
    [
        (Window((16, 16)), (32, 32), 4),  # places 0 to 255 are a byte each
        (Window((1, 257)), (3, 257), 3 * 2),
        (Window((256, 256)), (256, 256), 2),
        (Window((1, 65537)), (2, 65537), 2 * 4),
        (Window((2,), 1), (5, 9), 5 * 8),
        (Global(), (16, 16), 1),
        (Global(), (16, 17), 2),
        (Adaptive((2, 2)), (32, 32), 4),
    ],
)
def test_winners_take_as_few_bytes_as_they_can(window, shape, expected):
    pool = Pool(Max(), window, None if isinstance(window, Window) else (0, 1))
    assert kept_by_pool(pool, shape, np.dtype(np.float32)) == PoolKeeps(winners=expected)


def program():
    """A network with views in it: a pool of a transposed, flattened input, read twice."""
    g = Graph()
    x = g.input((4, 6), name="x")
    w = g.input((3, 12), name="w")
    flat = g.apply(ops.Reshape((2, 12)), g.apply(ops.Transpose((1, 0)), x, name="turned"), name="flat")
    pooled = g.max_pool1d(g.relu(flat, name="above"), 4, name="pooled")
    return g.build(g.linear(flat, w, name="y"), pooled)


def test_views_are_kept_as_what_they_are_views_of():
    f = program()
    place = {node.name: i for i, node in enumerate(f.nodes)}
    assert kept(f, place["y"]) == ({place["x"], place["w"]}, 0)
    assert kept(f, place["pooled"]) == (set(), 2 * 3)
    assert kept(f, place["flat"]) == (set(), 0)
    assert kept(f, place["above"])[0] <= {place["x"], place["above"]}


def test_a_pool_of_a_view_keeps_what_it_is_a_view_of():
    g = Graph()
    x = g.input((4, 6), name="x")
    f = g.build(g.apply(Pool(SmoothMax(1.0), Window((2,))), g.apply(ops.Reshape((2, 12)), x)), g.relu(x))
    assert kept(f, 2) == ({0}, 0)
    assert kept(f, 3) == ({3}, 0)
    assert str(f).splitlines()[-2].endswith(f" {8 * 24 * 2} B")


@pytest.mark.parametrize(
    ("kind", "keeps_input", "own_bytes"),
    [(Max("all"), True, 32), (Min("split"), True, 32), (Avg(), False, 0), (Sum(), False, 0), (Lp(2), True, 0)],
)
def test_what_kinds_keep(kind, keeps_input, own_bytes):
    """With other policies than "first" the output is compared with, so a copy of it is kept."""
    g = Graph()
    f = g.build(g.apply(Pool(kind, Window((2,))), g.input((8,))))
    assert kept(f, 1) == ({0} if keeps_input else set(), own_bytes)


class Middle(Kind):
    def value(self, x, pad=0):
        return sorted(x)[len(x) // 2]

    def weights(self, x, pad=0):
        return [(sorted(range(len(x)), key=lambda i: x[i])[len(x) // 2], 1)]


@pytest.mark.parametrize(
    ("kind", "dtype", "expected"),
    [
        (Max(), np.int8, PoolKeeps(winners=4)),
        (Max("all"), bool, PoolKeeps(x=True, copies=4)),
        (Min("split"), np.float16, PoolKeeps(x=True, copies=8)),
        (SmoothMax(1.0), np.float32, PoolKeeps(x=True)),
        (SmoothMax(1.0), ">f4", PoolKeeps(copies=4 * 8)),  # copied to be computed in the machine's order of bytes
        (SmoothMax(1.0), np.int16, PoolKeeps(copies=8 * 8)),  # and here in float64
        (SmoothMax(Fraction(1, 3)), np.float64, PoolKeeps(x=True)),  # by the specification
        (Lp(2), np.uint8, PoolKeeps(copies=8 * 8)),
        (Avg(), np.int8, PoolKeeps()),
        (Sum(), complex, PoolKeeps()),
        (Max(), object, PoolKeeps(x=True)),
        (Middle(), np.float64, PoolKeeps(x=True)),
    ],
    ids=lambda value: "Middle()" if isinstance(value, Middle) else repr(value),
)
def test_what_a_pool_keeps_of_each_dtype(kind, dtype, expected):
    pool, dtype = Pool(kind, Window((2,))), np.dtype(dtype)
    assert kept_by_pool(pool, (2, 4), dtype) == expected
    if kind != SmoothMax(Fraction(1, 3)):
        x = np.ones((2, 4), dtype)
        residual = pool.linearize(x)[1].residual
        own = sum(a.nbytes for a in residual if a is not None and not np.may_share_memory(a, x))
        assert (residual.x is not None and np.may_share_memory(residual.x, x)) == expected.x
        assert own == expected.winners + expected.copies
    g = Graph()
    f = g.build(g.apply(pool, g.input((2, 4), dtype=dtype)))
    assert kept(f, 1) == ({0} if expected.x else set(), expected.winners + expected.copies)
    assert f"{8 * dtype.itemsize * expected.x + expected.winners + expected.copies:,} B" in str(f).splitlines()[3]


def test_the_table_lines_up():
    lines = table(program()).splitlines()
    header, rule, *rows, last_rule, total, outputs = lines
    assert rule == last_rule == "-" * max(map(len, (header, *rows, total)))
    for word in ("op", "of", "shape", "dtype"):  # words begin below each other
        at = header.index(f"  {word}  ") + 2
        assert all(row[at - 1] == " " and row[at : at + 1] not in (" ",) for row in rows if row[at : at + 1].strip())
    assert {len(row) for row in rows} == {len(header)}  # numbers end below each other
    end = header.index("cells") + len("cells")
    assert all(row[end - 1].isdigit() and row[end : end + 2] == "  " for row in rows)
    assert outputs == "outputs: y, pooled"
    assert total.startswith("total, shared once")
    cells = [int(row.split()[-3].replace(",", "")) for row in rows]
    assert int(total.split()[-3].replace(",", "")) == sum(cells)


def test_graphviz_reads_boxes_ellipses_and_arrows():
    f = program()
    place = {node.name: i for i, node in enumerate(f.nodes)}
    text = dot(f)
    for name, i in place.items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"  n{i} [")]
        assert f'label="{name}\\n' in line
        assert f'\\n{f.nodes[i].shape}"' in line
        assert ("shape=ellipse" in line) == (name in ("x", "w"))
        assert ("peripheries=2" in line) == (name in ("y", "pooled"))
    arrows = {line.strip() for line in text.splitlines() if "->" in line}
    assert arrows == {f"n{j} -> n{i};" for i, node in enumerate(f.nodes) for j in node.inputs}
    assert f"n{place['flat']} -> n{place['y']};" in arrows
