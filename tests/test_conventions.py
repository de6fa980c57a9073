"""docs/conventions.md is true: every row of its tables is evaluated and compared with a loop from the formula.

The references below know nothing of ndpool: a grid lists the places that each output sees, a rule turns the real
cells of one window into a value and weights, and one loop applies them.
"""

from __future__ import annotations

import ast
import doctest
import itertools
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as the page and everyone else calls it

import ndpool
from ndpool import Graph, Pool, layers

PAGE = (Path(__file__).parent.parent / "docs" / "conventions.md").read_text(encoding="utf-8")


# --- reading the page -----------------------------------------------------------------------------


class Row(NamedTuple):
    section: str
    head: list[str]
    entries: list[str]


def rows() -> Iterator[Row]:
    """The rows of all tables, each with the heading that it stands under and the first line of its table."""
    section, head = "", []
    for line in PAGE.splitlines():
        if line.startswith("#"):
            section = line.lstrip("# ")
        if not line.startswith("|"):
            head = []
            continue
        entries = [entry.strip() for entry in line.strip()[1:-1].split("|")]
        if not head:
            head = entries
        elif set(entries[0]) != {"-"}:
            assert len(entries) == len(head), line
            yield Row(section, head, entries)


def code(entry: str) -> str:
    found = re.fullmatch(r"`([^`]+)`", entry)
    assert found, f"{entry!r} is not one expression in backticks"
    return found[1]


def samples() -> dict[str, Any]:
    """The arrays that the page introduces, made by the page's own code."""
    start, end = PAGE.index("## The arrays in the examples"), PAGE.index("## The formal specification")
    names: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(PAGE[start:end]):
        exec(example.source, names)
    return names


OPERATIONS = [row for row in rows() if row.head[0] == "operation"]
HYPOTHESES = [row for row in rows() if row.head[0] == "hypothesis"]
GRAPH_NODES = [row for row in rows() if row.head[0] == "node"]
CLASSES = [row for row in rows() if row.head[0] == "class"]
SPELLINGS = [row for row in rows() if row.head[0] == "case"]
S = samples()


# --- grids: the places that each output sees, padding included --------------------------------------

Place = tuple[int, ...]
Grid = Callable[[Place], dict[Place, list[Place]]]


def sliding(kernel: Place, stride: Place, padding: Place) -> Grid:
    """Output o sees `o*stride - padding + k` for k in the kernel; there are `(n + 2 padding - kernel)/stride + 1`."""

    def grid(lengths: Place) -> dict[Place, list[Place]]:
        each = list(zip(lengths, kernel, stride, padding, strict=True))
        counts = [(n + 2 * p - k) // s + 1 for n, k, s, p in each]
        starts = {out: [o * s - p for o, (_, _, s, p) in zip(out, each, strict=True)] for out in np.ndindex(*counts)}
        return {
            out: [tuple(a + d for a, d in zip(start, step, strict=True)) for step in np.ndindex(*kernel)]
            for out, start in starts.items()
        }

    return grid


def bins(*outputs: int) -> Grid:
    """Output i of m sees `floor(i n / m)` up to `ceil((i + 1) n / m)`."""

    def grid(lengths: Place) -> dict[Place, list[Place]]:
        lines = [[range(*bounds(n, m, i)) for i in range(m)] for n, m in zip(lengths, outputs, strict=True)]
        return {
            out: list(itertools.product(*(line[o] for line, o in zip(lines, out, strict=True))))
            for out in np.ndindex(*outputs)
        }

    return grid


def bounds(n: int, m: int, i: int) -> tuple[int, int]:
    return i * n // m, ((i + 1) * n + m - 1) // m


def everything(lengths: Place) -> dict[Place, list[Place]]:
    return {(0,) * len(lengths): list(np.ndindex(*lengths))}


PLAIN_2 = sliding((3, 2), (2, 2), (0, 0))
PADDED_2 = sliding((4, 3), (2, 2), (1, 1))
PLAIN_3 = sliding((3, 2, 2), (2, 2, 2), (0, 0, 0))
PADDED_3 = sliding((4, 3, 3), (1, 2, 2), (0, 1, 1))


# --- rules: value and weights of one window ---------------------------------------------------------

Rule = Callable[[np.ndarray, int], tuple[float, np.ndarray]]


def first_max(v: np.ndarray, pad: int) -> tuple[float, np.ndarray]:
    best = 0
    for i in range(1, len(v)):
        if v[i] > v[best]:
            best = i
    return v[best], np.eye(len(v))[best]


def last_max(v: np.ndarray, pad: int) -> tuple[float, np.ndarray]:
    value, weights = first_max(v[::-1], pad)
    return value, weights[::-1]


def all_max(v: np.ndarray, pad: int) -> tuple[float, np.ndarray]:
    return max(v), (v == max(v)) * 1.0


def split_max(v: np.ndarray, pad: int) -> tuple[float, np.ndarray]:
    return max(v), (v == max(v)) / sum(v == max(v))


def mean(v: np.ndarray, pad: int) -> tuple[float, np.ndarray]:
    return sum(v) / (len(v) + pad), np.full(len(v), 1 / (len(v) + pad))


def real_mean(v: np.ndarray, pad: int) -> tuple[float, np.ndarray]:
    return mean(v, 0)


def smooth_max(beta: float) -> Rule:
    def rule(v: np.ndarray, pad: int) -> tuple[float, np.ndarray]:
        total = sum(np.exp(beta * v)) + pad * math.exp(0)
        return math.log(total) / beta, np.exp(beta * v) / total

    return rule


SMOOTH = smooth_max(S["beta"])


# --- the loop, and the references for rows -----------------------------------------------------------


class Result(NamedTuple):
    y: np.ndarray
    dy: np.ndarray
    gx: np.ndarray


def run(x: np.ndarray, grid: Grid, rank: int, rule: Rule, t: np.ndarray | None, g: np.ndarray | None) -> Result:
    """Forward, JVP and VJP over the last `rank` axes; t and g are 0 where they are not given."""
    lead, lengths = x.shape[: x.ndim - rank], x.shape[x.ndim - rank :]
    looks = grid(lengths)
    shape = lead + tuple(1 + last for last in max(looks))
    y, dy, gx = np.zeros(shape), np.zeros(shape), np.zeros(x.shape)
    t = np.zeros(x.shape) if t is None else t
    g = np.zeros(shape) if g is None else g
    assert t.shape == x.shape
    assert g.shape == shape
    for channel in np.ndindex(*lead):
        for out, places in looks.items():
            real = [channel + p for p in places if all(0 <= i < n for i, n in zip(p, lengths, strict=True))]
            y[channel + out], weights = rule(np.array([x[i] for i in real]), len(places) - len(real))
            for i, w in zip(real, weights, strict=True):
                dy[channel + out] += w * t[i]
                gx[i] += w * g[channel + out]
    return Result(y, dy, gx)


def result(name: str, grid: Grid, rank: int, rule: Rule) -> Result:
    return run(S[name], grid, rank, rule, S.get(f"t_{name}"), S.get(f"g_{name}"))


Reference = Callable[[], Any]
RANK = {"image": 2, "channels": 2, "batch": 2, "volume": 3, "volumes": 3, "signals": 1}


def forward(name: str, grid: Grid, rule: Rule) -> Reference:
    return lambda: result(name, grid, RANK[name], rule).y


def jvp(name: str, grid: Grid, rule: Rule) -> Reference:
    return lambda: result(name, grid, RANK[name], rule).dy


def vjp(name: str, grid: Grid, rule: Rule) -> Reference:
    return lambda: result(name, grid, RANK[name], rule).gx


def matrix(one: str, many: str, grid: Grid, names: list[str]) -> dict[str, Reference]:
    """References for a regular table: each kind, in each mode, without and with channels."""
    cases = itertools.product((first_max, mean, SMOOTH), (forward, jvp, vjp), (one, many))
    return {row: mode(x, grid, rule) for row, (rule, mode, x) in zip(names, cases, strict=True)}


TWO_AXES = matrix(
    "image",
    "channels",
    PLAIN_2,
    [
        "`maxPool2dSpec`",
        "`maxPool2dMultiSpec`, `MaxPool2DModuleSpec`",
        "`maxPool2dJvpSpec`, `maxPool2dLinearizationSpec`",
        "`maxPool2dMultiJvpSpec`, `maxPool2dMultiLinearizationSpec`",
        "`maxPool2dBackwardSpec`",
        "`maxPool2dMultiBackwardSpec`",
        "`avgPool2dSpec`, `AvgPool2DModuleSpec`",
        "`avgPool2dMultiSpec`",
        "JVP of `avgPool2dSpec` †",
        "JVP of `avgPool2dMultiSpec` †",
        "`avgPool2dBackwardSpec`",
        "`avgPool2dBackwardSpec` in each channel",
        "`smoothMaxPool2dSpec`",
        "`smoothMaxPool2dMultiSpec`",
        "`smoothMaxPool2dJvpSpec`",
        "`smoothMaxPool2dMultiJvpSpec`",
        "`smoothMaxPool2dBackwardSpec`",
        "`smoothMaxPool2dMultiBackwardSpec`",
    ],
) | {"`smoothMaxPool2dSpec` with a negative beta": forward("image", PLAIN_2, smooth_max(-S["beta"]))}

TWO_PADDED_AXES = matrix(
    "image",
    "channels",
    PADDED_2,
    [
        "one channel of `maxPool2dMultiSpecPad`",
        "`maxPool2dMultiSpecPad`",
        "one channel of `maxPool2dMultiJvpSpecPad`",
        "`maxPool2dMultiJvpSpecPad`, `maxPool2dMultiLinearizationSpecPad`",
        "one channel of `maxPool2dMultiBackwardSpecPad`",
        "`maxPool2dMultiBackwardSpecPad`",
        "one channel of `avgPool2dMultiSpecPad`",
        "`avgPool2dMultiSpecPad`",
        "JVP of one channel of `avgPool2dMultiSpecPad` †",
        "JVP of `avgPool2dMultiSpecPad` †",
        "one channel of `avgPool2dMultiBackwardSpecPad`",
        "`avgPool2dMultiBackwardSpecPad`",
        "padded `smoothMaxPool2dSpec` †",
        "padded `smoothMaxPool2dMultiSpec` †",
        "padded `smoothMaxPool2dJvpSpec` †",
        "padded `smoothMaxPool2dMultiJvpSpec` †",
        "padded `smoothMaxPool2dBackwardSpec` †",
        "padded `smoothMaxPool2dMultiBackwardSpec` †",
    ],
)

ANY_AXES = matrix(
    "volume",
    "volumes",
    PLAIN_3,
    [
        "`maxPoolSpatialSpec`",
        "`maxPoolSpec`, `maxPool`",
        "`maxPoolSpatialJvpSpec`, `maxPoolSpatialLinearizationSpec`",
        "`maxPoolJvpSpec`, `maxPoolLinearizationSpec`",
        "`maxPoolSpatialBackwardSpec`",
        "`maxPoolBackwardSpec`, `maxPoolBackward`",
        "`avgPoolSpatialSpec`",
        "`avgPoolSpec`, `avgPool`",
        "JVP of `avgPoolSpatialSpec` †",
        "JVP of `avgPoolSpec` †",
        "`avgPoolSpatialBackwardSpec`",
        "`avgPoolBackwardSpec`, `avgPoolBackward`",
        "`smoothMaxPoolSpatialSpec`",
        "`smoothMaxPoolSpec`, `smoothMaxPool`",
        "`smoothMaxPoolSpatialJvpSpec`",
        "`smoothMaxPoolJvpSpec`",
        "`smoothMaxPoolSpatialBackwardSpec`",
        "`smoothMaxPoolBackwardSpec`, `smoothMaxPoolBackward`",
    ],
)

ANY_PADDED_AXES = matrix(
    "volume",
    "volumes",
    PADDED_3,
    [
        "padded `maxPoolSpatialSpec`",
        "padded `maxPoolSpec`",
        "padded `maxPoolSpatialJvpSpec`",
        "padded `maxPoolJvpSpec`",
        "padded `maxPoolSpatialBackwardSpec`",
        "padded `maxPoolBackwardSpec`",
        "padded `avgPoolSpatialSpec`",
        "padded `avgPoolSpec`",
        "padded JVP of `avgPoolSpatialSpec` †",
        "padded JVP of `avgPoolSpec` †",
        "padded `avgPoolSpatialBackwardSpec`",
        "padded `avgPoolBackwardSpec`",
        "padded `smoothMaxPoolSpatialSpec`",
        "padded `smoothMaxPoolSpec`",
        "padded `smoothMaxPoolSpatialJvpSpec`",
        "padded `smoothMaxPoolJvpSpec`",
        "padded `smoothMaxPoolSpatialBackwardSpec`",
        "padded `smoothMaxPoolBackwardSpec`",
    ],
)

ADAPTIVE = {
    prefix.format(name): mode(x, grid, rule)
    for name, x, grid, rule in [
        ("`adaptiveAvgPool2dSpec`", "channels", bins(3, 4), mean),
        ("`adaptiveMaxPool2dSpec`", "channels", bins(3, 4), first_max),
        ("`adaptiveAvgPoolSpec`", "volumes", bins(2, 2, 3), mean),
        ("`adaptiveMaxPoolSpec`", "volumes", bins(2, 2, 3), first_max),
    ]
    for prefix, mode in [("{}", forward), ("JVP of {} †", jvp), ("VJP of {} †", vjp)]
}


def global_result(rule: Rule) -> Result:
    return run(S["channels"], everything, 2, rule, S["t_channels"], S["g_one"])


def global_flat(rule: Rule) -> Result:
    """The flat form: (C, 1, 1) becomes (C), and a cotangent of shape (C) is one of (C, 1, 1)."""
    found = run(S["channels"], everything, 2, rule, S["t_channels"], S["g_flat"].reshape(-1, 1, 1))
    return Result(found.y.reshape(-1), found.dy.reshape(-1), found.gx)


def global_volumes() -> np.ndarray:
    return run(S["volumes"], everything, 3, mean, None, None).y.reshape(-1)


GLOBAL: dict[str, Reference] = {
    "`globalAvgPool2dSpec`": lambda: global_result(mean).y,
    "`globalAvgPool2dFlatSpec`, `GlobalAvgPool2DFlatModuleSpec`": lambda: global_flat(mean).y,
    "JVP of `globalAvgPool2dSpec` †": lambda: global_result(mean).dy,
    "JVP of `globalAvgPool2dFlatSpec` †": lambda: global_flat(mean).dy,
    "`globalAvgPool2dBackwardSpec`": lambda: global_result(mean).gx,
    "`globalAvgPool2dFlatBackwardSpec`": lambda: global_flat(mean).gx,
    "`globalMaxPool2dSpec`": lambda: global_result(all_max).y,
    "`globalMaxPool2dFlatSpec`, `GlobalMaxPool2DFlatModuleSpec`": lambda: global_flat(all_max).y,
    "JVP of `globalMaxPool2dSpec` †": lambda: global_result(all_max).dy,
    "JVP of `globalMaxPool2dFlatSpec` †": lambda: global_flat(all_max).dy,
    "`globalMaxPool2dBackwardSpec`": lambda: global_result(all_max).gx,
    "`globalMaxPool2dFlatBackwardSpec`": lambda: global_flat(all_max).gx,
    "`globalMaxPool2dBackwardDistributedSpec`": lambda: global_result(split_max).gx,
    "`globalMaxPool2dBackwardDistributedSpec`, from (C) †": lambda: global_flat(split_max).gx,
    "JVP of the distributed rule †": lambda: global_result(split_max).dy,
    "`channelSpatialMax`": lambda: np.array(max(S["image"].ravel())),
    "`globalPool2d1x1` with any reduction": lambda: global_result(SMOOTH).y,
    "`globalPool2dFlat` with any reduction": lambda: global_flat(SMOOTH).y,
    "`globalAvgPool`": global_volumes,
}


def window_tangent(rule: Rule, pad: int) -> float:
    return float(np.dot(rule(np.array(S["window"]), pad)[1], S["t_window"]))


ONE_WINDOW: dict[str, Reference] = {
    "`maxPoolValue`, `adaptiveMaxPoolValue`": lambda: first_max(np.array(S["window"]), 0)[0],
    "`maxPoolJvpValue`, `maxPoolSelectedTangentValue`": lambda: window_tangent(first_max, 0),
    "`avgPoolValue`": lambda: mean(np.array(S["window"]), 2)[0],
    "`adaptiveAvgPoolValue`": lambda: mean(np.array(S["window"]), 0)[0],
    "`smoothMaxPoolValue`": lambda: SMOOTH(np.array(S["window"]), 2)[0],
    "`smoothMaxPoolJvpValue`": lambda: window_tangent(SMOOTH, 2),
}


def out_dim(n: int, k: int, s: int, p: int) -> int:
    return (n + 2 * p - k) // s + 1


def bin_places(shape: Place, outputs: Place) -> Iterator[list[tuple[int, int]]]:
    for out in np.ndindex(*outputs):
        yield [bounds(n, m, i) for n, m, i in zip(shape, outputs, out, strict=True)]


PADDED_3_SHAPE = (out_dim(5, 4, 1, 0), out_dim(4, 3, 2, 1), out_dim(6, 3, 2, 1))
SHAPES: dict[str, Reference] = {
    "`pool2dOutShape`": lambda: (out_dim(7, 3, 2, 0), out_dim(8, 2, 2, 0)),
    "`pool2dMultiOutShape`": lambda: (2, out_dim(7, 3, 2, 0), out_dim(8, 2, 2, 0)),
    "`pool2dOutShapePad`": lambda: (out_dim(7, 4, 2, 1), out_dim(8, 3, 2, 1)),
    "`pool2dMultiOutShapePad`": lambda: (2, out_dim(7, 4, 2, 1), out_dim(8, 3, 2, 1)),
    "`poolOutSpatial`, `poolOutShape`": lambda: (out_dim(5, 3, 2, 0), out_dim(4, 2, 2, 0), out_dim(6, 2, 2, 0)),
    "`poolMultiOutShape`": lambda: (2, out_dim(5, 3, 2, 0), out_dim(4, 2, 2, 0), out_dim(6, 2, 2, 0)),
    "`poolOutSpatialPad`, `poolOutShapePad`": lambda: PADDED_3_SHAPE,
    "`poolMultiOutShapePad`": lambda: (2, *PADDED_3_SHAPE),
    "`poolOutDim`, `Shape.slidingWindowOutDim`": lambda: [out_dim(n, 4, 2, 1) for n in range(2, 10)],
    "`poolOutSpatialPad_global`": lambda: (1, 1, 1),
    "`adaptiveStart`": lambda: [math.floor(i * 7 / 3) for i in range(3)],
    "`adaptiveEnd`": lambda: [math.ceil((i + 1) * 7 / 3) for i in range(3)],
    "`adaptiveStart_lt_adaptiveEnd`": lambda: all(i * 7 // 9 < math.ceil((i + 1) * 7 / 9) for i in range(9)),
    "`adaptiveStarts`": lambda: [tuple(a for a, _ in axes) for axes in bin_places((5, 4), (2, 3))],
    "`adaptiveWindowDims`": lambda: [tuple(b - a for a, b in axes) for axes in bin_places((5, 4), (2, 3))],
    "`globalPool2dOutShape`": lambda: (2, 1, 1),
    "`globalPool2dFlatOutShape`": lambda: (2,),
}


class Node(NamedTuple):
    """What a row whose expression is a Pool is compared with: forward, JVP and VJP on one of the sample arrays."""

    name: str
    expected: Result


def node(name: str, grid: Grid, rule: Rule) -> Reference:
    return lambda: Node(name, result(name, grid, RANK[name], rule))


NODES = {
    "`GraphM.maxPool`": node("volumes", PADDED_3, first_max),
    "`GraphM.avgPool`": node("volumes", PADDED_3, mean),
    "`GraphM.smoothMaxPool`": node("volumes", PADDED_3, SMOOTH),
    "`GraphM.maxPool2d`": node("channels", PLAIN_2, first_max),
    "`GraphM.maxPool2dPad`": node("channels", PADDED_2, first_max),
    "`GraphM.avgPool2d`": node("channels", PLAIN_2, mean),
    "`GraphM.avgPool2dPad`": node("channels", PADDED_2, mean),
    "`GraphM.smoothMaxPool2d`": node("channels", PLAIN_2, SMOOTH),
}


def mask_1d(kernel: int, stride: int) -> Reference:
    """Where each window's first maximum stands along the axis."""

    def reference() -> np.ndarray:
        x = S["signals"]
        return np.array(
            [
                [[s + np.argmax(line[s : s + kernel]) for s in range(0, 9 - kernel + 1, stride)] for line in lines]
                for lines in x
            ]
        )

    return reference


def mask_2d(kernel: Place, stride: Place) -> Reference:
    """Row and column of each window's first maximum."""

    def reference() -> np.ndarray:
        x = S["batch"]
        mask = np.zeros((2, 2, 3, 4, 2), dtype=int)
        for b, c, i, j in np.ndindex(2, 2, 3, 4):
            plane, row, column = x[b, c], i * stride[0], j * stride[1]
            best = row, column
            for place in itertools.product(range(row, row + kernel[0]), range(column, column + kernel[1])):
                if plane[place] > plane[best]:
                    best = place
            mask[b, c, i, j] = best
        return mask

    return reference


SQUARE, OBLONG = sliding((2, 2), (2, 2), (0, 0)), PLAIN_2
PAIRS, STEPS = sliding((2,), (2,), (0,)), sliding((3,), (2,), (0,))
TINY_POOL: dict[str, Reference] = {
    "`MaxPool1D(2)` forward": forward("signals", PAIRS, first_max),
    "`MaxPool1D(2)` mask": mask_1d(2, 2),
    "`MaxPool1D(2)` backward": vjp("signals", PAIRS, first_max),
    "`MaxPool1D(3, 2)` forward": forward("signals", STEPS, first_max),
    "`MaxPool1D(3, 2)` mask": mask_1d(3, 2),
    "`MaxPool1D(3, 2)` backward": vjp("signals", STEPS, first_max),
    "`AvgPool1D(2)` forward": forward("signals", PAIRS, mean),
    "`AvgPool1D(2)` backward": vjp("signals", PAIRS, mean),
    "`AvgPool1D(3, 2)` forward": forward("signals", STEPS, mean),
    "`AvgPool1D(3, 2)` backward": vjp("signals", STEPS, mean),
    "`MaxPool2D(2, 2)` forward": forward("batch", SQUARE, first_max),
    "`MaxPool2D(2, 2)` mask, as pairs": mask_2d((2, 2), (2, 2)),
    "`MaxPool2D(2, 2)` mask, as stored": lambda: mask_2d((2, 2), (2, 2))().reshape(2, 2, 3, 8),
    "`MaxPool2D(2, 2)` backward": vjp("batch", SQUARE, first_max),
    "`MaxPool2D(3, 2, 2, 2)` forward": forward("batch", OBLONG, first_max),
    "`MaxPool2D(3, 2, 2, 2)` mask, as pairs": mask_2d((3, 2), (2, 2)),
    "`MaxPool2D(3, 2, 2, 2)` backward": vjp("batch", OBLONG, first_max),
    "`AvgPool2D(2, 2)` forward": forward("batch", SQUARE, mean),
    "`AvgPool2D(2, 2)` backward": vjp("batch", SQUARE, mean),
    "`AvgPool2D(3, 2, 2, 2)` forward": forward("batch", OBLONG, mean),
    "`AvgPool2D(3, 2, 2, 2)` backward": vjp("batch", OBLONG, mean),
    "`GlobalAvgPool()` forward": lambda: sum(S["tokens"][:, s] for s in range(5)) / 5,
    "`GlobalAvgPool()` backward": lambda: np.stack([S["g_tokens"] / 5] * 5, axis=1),
    "`tiny_pool_forward`, `TINY_POOL_MAX`": forward("batch", PADDED_2, first_max),
    "`tiny_pool_backward`, `TINY_POOL_MAX`": vjp("batch", PADDED_2, first_max),
    "`tiny_pool_forward`, `TINY_POOL_AVG`": forward("batch", PADDED_2, real_mean),
    "`tiny_pool_backward`, `TINY_POOL_AVG`": vjp("batch", PADDED_2, real_mean),
}

GROUPS = [
    TWO_AXES,
    TWO_PADDED_AXES,
    ANY_AXES,
    ANY_PADDED_AXES,
    ADAPTIVE,
    GLOBAL,
    ONE_WINDOW,
    SHAPES,
    NODES,
    TINY_POOL,
]
REFERENCES = {name: reference for group in GROUPS for name, reference in group.items()}


# --- the operations -----------------------------------------------------------------------------------


def close(actual: Any, expected: Any) -> None:
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    if expected.dtype.kind in "iub":
        assert actual.dtype.kind == expected.dtype.kind
        np.testing.assert_array_equal(actual, expected)
    else:
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("row", OPERATIONS, ids=[row.entries[0] for row in OPERATIONS])
def test_operation_gives_what_the_formula_says(row: Row) -> None:
    name, expression, value = row.entries
    expected = REFERENCES[name]()
    actual = eval(code(expression), dict(S))
    if isinstance(expected, Node):
        assert isinstance(actual, Pool)
        x, t, g = (S[prefix + expected.name] for prefix in ("", "t_", "g_"))
        y, dy = actual.jvp(x, t)
        close(actual(x), expected.expected.y)
        close(y, expected.expected.y)
        close(dy, expected.expected.dy)
        close(actual.vjp(x)[1](g), expected.expected.gx)
        return
    close(actual, expected)
    if row.section == "Shapes and bins":
        assert actual == expected == ast.literal_eval(code(value))


@pytest.mark.parametrize("row", GRAPH_NODES, ids=[row.entries[0] for row in GRAPH_NODES])
def test_method_of_the_graph_gives_what_the_formula_says(row: Row) -> None:
    name, expected = REFERENCES[row.entries[0]]()
    x, t, g = (S[prefix + name] for prefix in ("", "t_", "g_"))
    graph = Graph()
    f = graph.build(eval(code(row.entries[1]), dict(S), {"graph": graph, "x": graph.input(x.shape)}))
    y, dy = f.jvp(x, t)
    close(f(x), expected.y)
    close(y, expected.y)
    close(dy, expected.dy)
    close(f.vjp(x)[1](g), expected.gx)
    assert len(f.nodes) == 2


def test_every_node_has_a_method() -> None:
    assert {row.entries[0] for row in GRAPH_NODES} == set(NODES)
    assert len(GRAPH_NODES) == len(NODES)


@pytest.mark.parametrize("row", CLASSES, ids=[row.entries[0] for row in CLASSES])
def test_layer_gives_what_the_formula_says(row: Row) -> None:
    """Forward, backward and, for a maximum, its mask, against the rows of the operations."""
    name, layer = row.entries[0], eval(code(row.entries[1]), dict(S))
    forward_row = next(r for r in OPERATIONS if r.entries[0] == f"{name} forward")
    sample = next(x for x in ("signals", "batch", "tokens") if x in forward_row.entries[1])
    close(layer.forward(S[sample]), REFERENCES[f"{name} forward"]())
    masks = [reference for row, reference in TINY_POOL.items() if row.startswith(f"{name} mask")]
    assert (len(masks) > 0) == hasattr(layer, "mask")
    for reference in masks:
        close(layer.mask().reshape(reference().shape), reference())
    close(layer.backward(S[f"g_{sample}"]), REFERENCES[f"{name} backward"]())


def test_every_class_has_a_layer() -> None:
    named = {row.split("`")[1] for row in TINY_POOL if not row.startswith("`tiny_pool")}
    assert {code(row.entries[0]) for row in CLASSES} == named
    assert {type(eval(code(row.entries[1]), dict(S))).__name__ for row in CLASSES} == {
        name.split("(")[0] for name in named
    }


def test_global_average_without_axes_is_over_what_comes_after_the_channels() -> None:
    close(layers.GlobalAvgPool().forward(S["tokens"]), S["tokens"].mean(-1, keepdims=True))
    close(layers.GlobalAvgPool().forward(S["batch"]), S["batch"].mean((-2, -1), keepdims=True))


def test_layers_for_a_network_of_signals() -> None:
    """`CNN1D`'s blocks: 9 -> 8 -> 4."""
    network = layers.Sequential(
        layers.Conv1D(2, 3, 2, rng=0),
        layers.ReLU(),
        layers.MaxPool1D(2, 2),
        layers.Flatten(),
        layers.Dense(12, 5, rng=0),
        layers.ReLU(),
        layers.Dense(5, 3, rng=0),
    )
    assert network.forward(S["signals"]).shape == (2, 3)


@pytest.mark.parametrize("row", HYPOTHESES, ids=[row.entries[0] for row in HYPOTHESES])
def test_hypothesis_is_enforced_where_the_page_says(row: Row) -> None:
    _, _, expression, where = row.entries
    message = re.search('"(.*)"', where)
    assert message
    with pytest.raises(ValueError, match=re.escape(message[1])):
        eval(code(expression), dict(S))


def test_every_row_has_a_reference_and_every_reference_a_row() -> None:
    names = [row.entries[0] for row in OPERATIONS]
    assert len(names) == len(set(names)) == sum(len(group) for group in GROUPS)
    assert set(names) == set(REFERENCES)


@pytest.mark.parametrize(("x", "grid"), [("channels", PLAIN_2), ("channels", PADDED_2), ("volumes", PADDED_3)])
def test_samples_tell_the_rules_apart(x: str, grid: Grid) -> None:
    found = [result(x, grid, RANK[x], rule) for rule in (first_max, last_max, split_max, all_max)]
    for a, b in itertools.combinations(found, 2):
        assert not np.allclose(a.gx, b.gx)
        assert not np.allclose(a.dy, b.dy)


def test_samples_tell_padding_apart() -> None:
    def padded_max(v: np.ndarray, pad: int) -> tuple[float, np.ndarray]:
        return first_max(np.append(v, np.zeros(pad)), 0)[0], np.zeros(len(v))

    def ignoring(v: np.ndarray, pad: int) -> tuple[float, np.ndarray]:
        return SMOOTH(v, 0)

    for x, grid in [("channels", PADDED_2), ("volumes", PADDED_3)]:
        for rule, rival in [(first_max, padded_max), (mean, real_mean), (SMOOTH, ignoring)]:
            assert not np.allclose(result(x, grid, RANK[x], rule).y, result(x, grid, RANK[x], rival).y)


NAMES = """
MaxPool2DSpec AvgPool2DSpec MaxPoolSpec AvgPoolSpec AdaptiveAvgPool2DSpec AdaptiveMaxPool2DSpec GlobalAvgPool2DSpec
GlobalMaxPool2DSpec pool2dOutShape pool2dMultiOutShape pool2dOutShapePad pool2dMultiOutShapePad poolOutSpatial
poolOutSpatialPad poolOutShape poolMultiOutShape poolOutShapePad poolMultiOutShapePad Shape.slidingWindowOutDim
poolOutDim poolOutSpatialPad_global adaptiveStart adaptiveEnd adaptiveStart_lt_adaptiveEnd adaptiveStarts
adaptiveWindowDims addCoords extractWindow getValueAtPosition padMultiChannel unpadImage unpadMultiChannel tensorOfDims
foldlIndices' paddedCoords? unpadCoords? coordsInBounds kernelProd getPaddedAverageInputVal getPaddedMaxInputVal?
maxPoolValue maxPoolJvpValue maxPoolSelectedTangentValue avgPoolValue smoothMaxPoolValue smoothMaxPoolJvpValue
smoothMaxPivotStep smoothMaxPoolPivot adaptiveAvgPoolValue adaptiveMaxPoolValue maxPool2dSpec maxPool2dMultiSpec
maxPool2dJvpSpec maxPool2dMultiJvpSpec maxPool2dLinearizationSpec maxPool2dMultiLinearizationSpec
maxPool2dBackwardSpec maxPool2dMultiBackwardSpec avgPool2dSpec avgPool2dMultiSpec avgPool2dBackwardSpec
maxPool2dMultiSpecPad maxPool2dMultiJvpSpecPad maxPool2dMultiLinearizationSpecPad maxPool2dMultiBackwardSpecPad
avgPool2dMultiSpecPad avgPool2dMultiBackwardSpecPad smoothMaxPool2dSpec smoothMaxPool2dMultiSpec smoothMaxPool2dJvpSpec
smoothMaxPool2dMultiJvpSpec smoothMaxPool2dBackwardSpec smoothMaxPool2dMultiBackwardSpec adaptiveAvgPool2dSpec
adaptiveMaxPool2dSpec maxPoolSpatialSpec maxPoolSpec maxPoolSpatialJvpSpec maxPoolJvpSpec
maxPoolSpatialLinearizationSpec maxPoolLinearizationSpec maxPoolSpatialBackwardSpec maxPoolBackwardSpec
avgPoolSpatialSpec avgPoolSpec avgPoolSpatialBackwardSpec avgPoolBackwardSpec smoothMaxPoolSpatialSpec
smoothMaxPoolSpec smoothMaxPoolSpatialJvpSpec smoothMaxPoolJvpSpec smoothMaxPoolSpatialBackwardSpec
smoothMaxPoolBackwardSpec adaptiveAvgPoolSpec adaptiveMaxPoolSpec maxPool avgPool smoothMaxPool maxPoolBackward
avgPoolBackward smoothMaxPoolBackward globalPool2dOutShape globalPool2dFlatOutShape reduceSpatial globalChannelReduce
channelSpatialMax broadcastScalar1x1 globalPool2d1x1 globalPool2dFlat globalAvgPool2dSpec globalAvgPool2dFlatSpec
globalMaxPool2dSpec globalMaxPool2dFlatSpec globalAvgPool2dBackwardSpec globalAvgPool2dFlatBackwardSpec
globalMaxPool2dBackwardSpec globalMaxPool2dFlatBackwardSpec globalMaxPool2dBackwardDistributedSpec globalAvgPool
MaxPool2DModuleSpec AvgPool2DModuleSpec GlobalAvgPool2DFlatModuleSpec GlobalMaxPool2DFlatModuleSpec GraphM.maxPool
GraphM.avgPool GraphM.smoothMaxPool GraphM.maxPool2d GraphM.maxPool2dPad GraphM.avgPool2d GraphM.avgPool2dPad
GraphM.smoothMaxPool2d MaxPool1D(2) AvgPool1D(2) MaxPool2D(2,_2) AvgPool2D(2,_2) GlobalAvgPool() CNN1D TINY_POOL_MAX
TINY_POOL_AVG tiny_pool_forward tiny_pool_backward
"""


@pytest.mark.parametrize("name", NAMES.split())
def test_page_names_the_operation(name: str) -> None:
    assert f"`{name.replace('_2)', ' 2)')}`" in PAGE


# --- the spellings, and what the page says of PyTorch -------------------------------------------------


@pytest.mark.parametrize("row", SPELLINGS, ids=[f"{row.section}: {row.entries[0]}" for row in SPELLINGS])
def test_pytorch_spelling_gives_the_same(row: Row) -> None:
    ours, theirs = row.entries[row.head.index("ndpool")], row.entries[row.head.index("PyTorch")]
    expected = eval(code(ours), dict(S))
    actual = eval(code(theirs), {"F": F, "torch": torch, "x": torch.from_numpy(S["x"])}).numpy()
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_torch_smooth_maximum_overflows_unshifted() -> None:
    assert F.avg_pool2d(torch.full((1, 1, 2, 2), 100.0).exp(), 2, divisor_override=1).log().isinf().all()
    np.testing.assert_allclose(ndpool.smooth_max_pool(np.full(4, 1e4), 1.0, (4,)), 1e4 + math.log(4), rtol=1e-12)


def test_channels_last_is_a_choice_of_axes() -> None:
    assert "`max_pool(z, (2, 2), axes=(1, 2))`" in PAGE
    y = ndpool.max_pool(S["z"], (2, 2), axes=(1, 2))
    np.testing.assert_array_equal(np.moveaxis(y, -1, 1), ndpool.max_pool(S["x"], (2, 2)))


NAN, INF = float("nan"), float("inf")


def gradient(function: Callable[[torch.Tensor], torch.Tensor], x: Any) -> list[float]:
    """The gradient of the sum of the outputs, flat."""
    x = torch.tensor(x).requires_grad_()
    return torch.autograd.grad(function(x).sum(), x)[0].flatten().tolist()


TIE = [[[[1.0, 3.0], [3.0, 3.0]]]]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.max_pool1d(x.reshape(1, 1, 4), 4),
        lambda x: F.max_pool3d(x[None], (1, 2, 2)),
        lambda x: F.adaptive_max_pool2d(x, 1),
        lambda x: x.flatten(2).max(-1).values,
    ],
)
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_torch_gives_the_gradient_to_the_first_of_equal_cells(function: Callable[[Any], Any]) -> None:
    assert gradient(function, TIE) == [0, 1, 0, 0]
    tangent = torch.tensor([[[[1.0, 10.0], [100.0, 1000.0]]]])
    assert torch.func.jvp(function, (torch.tensor(TIE),), (tangent,))[1].item() == 10


@pytest.mark.parametrize("function", [lambda x: x.amax((-2, -1)), lambda x: x.max()])
def test_torch_shares_the_gradient_over_everything(function: Callable[[Any], Any]) -> None:
    np.testing.assert_allclose(gradient(function, TIE), [0, 1 / 3, 1 / 3, 1 / 3], rtol=1e-6)


def test_torch_spreads_a_nan_over_everything() -> None:
    assert np.isnan(gradient(lambda x: x.amax((-2, -1)), [[1.0, NAN, 2.0]])).all()


def test_torch_gives_the_gradient_to_the_last_nan() -> None:
    for x in ([1.0, NAN, 2.0, NAN], [NAN, NAN, 1.0, 2.0], [NAN, 1.0, 2.0, 3.0]):
        y, index = F.max_pool1d(torch.tensor([[x]]), 4, return_indices=True)
        assert np.isnan(y.item())
        assert index.item() == max(i for i, cell in enumerate(x) if np.isnan(cell))


def test_torch_minus_infinity_is_won_by_the_first_cell() -> None:
    y, index = F.max_pool2d(torch.full((1, 1, 2, 2), -INF), 2, return_indices=True)
    assert (y.item(), index.item()) == (-INF, 0)


def test_torch_reaches_an_empty_window_by_dilation() -> None:
    y, index = F.max_pool2d(torch.ones(1, 1, 1, 1), 2, 1, padding=1, dilation=2, return_indices=True)
    assert y.item() == -INF
    assert index.item() >= 1
    with pytest.raises(ValueError, match="no real cell"):
        ndpool.max_pool(np.ones((1, 1)), (2, 2), 1, 1, dilation=2)


def test_torch_refuses_padding_beyond_half_the_kernel() -> None:
    for function in (F.max_pool2d, F.avg_pool2d):
        with pytest.raises(RuntimeError, match="half"):
            function(torch.zeros(1, 1, 4, 4), 3, padding=2)
    with pytest.raises(RuntimeError, match="half"):
        F.max_pool2d(torch.zeros(1, 1, 9, 9), 2, 1, padding=2, dilation=4)
    with pytest.raises(RuntimeError):
        F.max_pool2d(torch.zeros(1, 1, 4, 4), 3, padding=(1, 1, 1, 1))
    assert ndpool.max_pool(np.zeros((4, 4)), (3, 3), padding=2).shape == (2, 2)


def test_a_kernel_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(RuntimeError):
        F.max_pool1d(torch.zeros(1, 1, 3), 5)
    with pytest.raises(ValueError, match="kernel_size"):
        ndpool.max_pool(np.zeros(3), (5,))


def test_strides_default_to_the_kernel() -> None:
    for layer in (torch.nn.MaxPool2d(3), torch.nn.AvgPool2d(3)):
        assert layer(torch.zeros(1, 1, 7, 7)).shape == (1, 1, 2, 2)
    assert ndpool.max_pool(np.zeros((7, 7)), (3, 3)).shape == (2, 2)


@pytest.mark.parametrize("include", [True, False])
def test_torch_counts_the_same_cells_with_ceil_mode(include: bool) -> None:
    for length, kernel, padding in itertools.product(range(4, 10), (2, 3, 4), (0, 1)):
        x = np.arange(1.0, length + 1)
        ours = ndpool.avg_pool(x, (kernel,), 3, padding, ceil_mode=True, count_include_pad=include)
        theirs = F.avg_pool1d(torch.from_numpy(x)[None, None], kernel, 3, padding, True, include)
        np.testing.assert_allclose(ours, theirs[0, 0].numpy(), rtol=1e-12)


def test_torch_has_no_dilated_average_and_no_padded_norm() -> None:
    x = torch.zeros(1, 1, 4, 4)
    with pytest.raises(TypeError, match="dilation"):
        F.avg_pool2d(x, 2, dilation=2)
    with pytest.raises(TypeError, match="dilation"):
        F.lp_pool2d(x, 2, 2, dilation=2)
    with pytest.raises(TypeError, match="padding"):
        F.lp_pool2d(x, 2, 2, padding=1)


def test_torch_norm_of_negative_numbers() -> None:
    assert F.lp_pool1d(torch.tensor([[[-2.0, 1.0]]]), 3, 2).isnan().all()
    assert F.lp_pool1d(torch.tensor([[[-3.0, 4.0]]]), 1, 2).item() == 1
    assert ndpool.lp_pool([-3.0, 4.0], 1, (2,)) == 7
    huge = np.full(2, 1e30, dtype=np.float32)
    assert F.lp_pool1d(torch.from_numpy(huge)[None, None], 2, 2).isinf().all()
    np.testing.assert_allclose(ndpool.lp_pool(huge, 2, (2,)), math.sqrt(2) * 1e30, rtol=1e-6)
    assert gradient(lambda x: F.lp_pool1d(x, 2, 2), [[[0.0, 0.0]]]) == [0, 0]
    np.testing.assert_array_equal(Pool(ndpool.Lp(2), ndpool.Window((2,))).vjp([0.0, 0.0])[1]([1.0]), [0, 0])


def test_torch_has_the_same_adaptive_bins() -> None:
    for length, output in itertools.product(range(1, 12), range(1, 14)):
        x = np.random.default_rng(length).standard_normal(length)
        theirs = torch.from_numpy(x)[None, None]
        np.testing.assert_allclose(
            ndpool.adaptive_avg_pool(x, (output,)), F.adaptive_avg_pool1d(theirs, output)[0, 0].numpy(), rtol=1e-12
        )
        np.testing.assert_array_equal(
            ndpool.adaptive_max_pool(x, (output,)), F.adaptive_max_pool1d(theirs, output)[0, 0].numpy()
        )


def test_torch_integers() -> None:
    for dtype in (torch.int64, torch.int32, torch.uint8, torch.int8):
        assert F.max_pool2d(torch.ones(1, 1, 2, 2, dtype=dtype), 2).dtype == dtype
        assert F.max_pool3d(torch.ones(1, 1, 2, 2, 2, dtype=dtype), 2).dtype == dtype
        with pytest.raises(NotImplementedError):
            F.max_pool1d(torch.ones(1, 1, 2, dtype=dtype), 2)
        with pytest.raises(NotImplementedError):
            F.adaptive_max_pool2d(torch.ones(1, 1, 2, 2, dtype=dtype), 1)
        if dtype != torch.int64:
            with pytest.raises(NotImplementedError):
                F.avg_pool2d(torch.ones(1, 1, 2, 2, dtype=dtype), 2)
    assert F.avg_pool1d(torch.tensor([[[3, 4]]]), 2).item() == 3
    assert F.avg_pool1d(torch.tensor([[[-3, -4]]]), 2).item() == -3
    assert ndpool.avg_pool([3, 4], (2,)) == 3.5


def test_torch_sums_sixteen_bit_floats_in_more() -> None:
    assert F.avg_pool2d(torch.full((1, 1, 64, 64), 100.0, dtype=torch.float16), 64).item() == 100


# --- what the page says of ndpool and the formal specification -----------------------------------------


def earlier_winner(window: np.ndarray) -> Place:
    """The earlier 2-D definitions' loop: inside a row, each cell meets the best of the rows above."""
    best = (0, 0)
    for i in range(window.shape[0]):
        above = best
        for j in range(window.shape[1]):
            if window[i, j] > window[above]:
                best = (i, j)
    return best


def test_winner_in_the_earlier_definitions() -> None:
    assert earlier_winner(np.array([[1, 2], [5, 4]])) == (1, 1)
    orders = [np.array(order).reshape(2, 2) for order in itertools.permutations(range(4))]
    others = [order for order in orders if order[earlier_winner(order)] != 3]
    assert (len(orders), len(others)) == (24, 2)
    for order in orders:
        assert ndpool.max_pool(order, (2, 2), return_indices=True)[1].item() == order.argmax()


def test_windows_without_a_real_cell() -> None:
    kinds = {
        "refused": [ndpool.Max(), ndpool.Min(), ndpool.Lp(2), ndpool.Avg(False), ndpool.SmoothMax(2.0, False)],
        0.0: [ndpool.Sum(), ndpool.Avg()],
        math.log(2) / 2: [ndpool.SmoothMax(2.0)],
    }
    for value, members in kinds.items():
        for kind in members:
            pool = Pool(kind, ndpool.Window((2,), 1, 3))
            if value == "refused":
                with pytest.raises(ValueError, match="no real cell"):
                    pool([1.0, 2.0])
            else:
                assert pool([1.0, 2.0])[0] == pytest.approx(value)


def test_equal_cells_raise_the_smooth_maximum() -> None:
    y = ndpool.smooth_max_pool([5.0, 5.0, 5.0], 2.0, (3,))
    np.testing.assert_allclose(y, 5 + math.log(3) / 2, rtol=1e-12)
    with pytest.raises(ValueError, match="beta"):
        ndpool.smooth_max_pool([1.0], 0.0, (1,))


def test_a_stride_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="stride"):
        ndpool.max_pool([1.0, 2.0], (2,), 0)


def test_indices_are_64_bits() -> None:
    assert ndpool.max_pool([1.0, 2.0], (2,), return_indices=True)[1].dtype == np.int64
