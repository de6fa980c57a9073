"""The ops of a network that are no pools, as C functions of x and y."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ops import Conv
from .loops import NAMES, Pooled
from .text import block, comment, function, plus, product

Array = NDArray[Any]
#: A NaN stays, as it does in Python.
RELU = "sum < 0.0f ? 0.0f : sum"


def index_of(*counts: int) -> str:
    """The type that counts so far: `int`, which has 16 bits at least, or `int32_t`."""
    return "int" if max(counts) < 1 << 15 else "int32_t"


def _for(index: str, name: str, count: int | str, body: list[str]) -> list[str]:
    return body if count == 1 else block(f"for ({index} {name} = 0; {name} < {count}; ++{name})", body)


def _place(*terms: tuple[str, int, int]) -> str:
    """Names times distances, without the names that count to 1."""
    return plus(
        *(
            product(f"({name})" if " " in name and apart != 1 else name, str(apart))
            for name, apart, count in terms
            if count != 1
        )
    )


def convolution(name: str, op: Conv, x: tuple[int, ...], w: tuple[int, ...], bias: bool, relu: bool) -> list[str]:
    """`y[n, o, i] = bias[o] + sum over c, k of w[o, c, k] * x[n, c, i*stride - pad_lo + k*dilation]`."""
    axes = op._axes(x, w)
    rank = len(axes)
    levels = [Pooled(*NAMES[rank][d], axis, math.prod(x[3 + d :])) for d, axis in enumerate(axes)]
    outputs = tuple(axis.output for axis in axes)
    reach = max(level.reach() * level.apart for level in levels)
    index = index_of(math.prod(x), math.prod(w), x[0] * w[0] * math.prod(outputs), reach)
    loops = ("r", "q")
    firsts = [(level.first(), level.apart, 2) for level in levels]
    steps = [(loops[d], level.step, level.axis.kernel) for d, level in enumerate(levels)]
    here = _place(("item", math.prod(x[1:]), x[0]), ("channel", math.prod(x[2:]), w[1]), *firsts, *steps)
    kernel = [
        (
            f"{level.skipped()} + {loops[d]}" if level.starts_before else loops[d],
            math.prod(w[3 + d :]),
            level.axis.kernel if not level.starts_before else 2,
        )
        for d, level in enumerate(levels)
    ]
    weight = _place(("output", math.prod(w[1:]), w[0]), ("channel", math.prod(w[2:]), w[1]), *kernel)
    inner = [f"sum += {name}_weight[{weight}] * x[{here}];"]
    for d in reversed(range(rank)):
        size = levels[d].size()
        inner = (
            inner if size == "1" else block(f"for ({index} {loops[d]} = 0; {loops[d]} < {size}; ++{loops[d]})", inner)
        )
    inner = _for(index, "channel", w[1], inner)
    start = f"{name}_bias[{'output' if w[0] != 1 else '0'}]" if bias else "0.0f"
    body = [f"float sum = {start};", *inner, f"*y = {RELU if relu else 'sum'};", "++y;"]
    for d in reversed(range(rank)):
        level = levels[d]
        body = block(
            f"for ({index} {level.name} = 0; {level.name} < {level.axis.output}; ++{level.name})",
            [*level.extent(index), *body],
        )
    body = _for(index, "item", x[0], _for(index, "output", w[0], body))
    said = f"Convolution of {x} with {w}{', then relu' if relu else ''}: y = bias + sum of w * x."
    return [*comment(said), *function(f"static void {name}(const float *x, float *y)", body)]


def dense(name: str, rows: int, w: tuple[int, ...], bias: bool, relu: bool) -> list[str]:
    """`y = x w^T + bias`."""
    outputs, inputs = w
    index = index_of(rows * inputs, rows * outputs, inputs * outputs)
    weight = _place(("output", inputs, outputs), ("input", 1, 2))
    here = _place(("row", inputs, rows), ("input", 1, 2))
    inner = [f"sum += {name}_weight[{weight}] * x[{here}];"]
    start = f"{name}_bias[{'output' if outputs != 1 else '0'}]" if bias else "0.0f"
    body = [
        f"float sum = {start};",
        *block(f"for ({index} input = 0; input < {inputs}; ++input)", inner),
        f"*y = {RELU if relu else 'sum'};",
        "++y;",
    ]
    body = _for(index, "row", rows, _for(index, "output", outputs, body))
    said = f"Dense, {inputs} to {outputs}{', then relu' if relu else ''}: y = x w^T + bias."
    return [*comment(said), *function(f"static void {name}(const float *x, float *y)", body)]


def relu(name: str, count: int) -> list[str]:
    """`y = max(x, 0)`; a NaN stays."""
    index = index_of(count)
    body = block(f"for ({index} i = 0; i < {count}; ++i)", ["y[i] = x[i] < 0.0f ? 0.0f : x[i];"])
    return [*comment("Relu: y = max(x, 0)."), *function(f"static void {name}(const float *x, float *y)", body)]


def softmax(name: str, shape: tuple[int, ...], axis: int) -> list[str]:
    """`y_i = exp(x_i) / sum exp(x_j)` along an axis, shifted by the largest."""
    axis %= len(shape)
    outer, count, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    index = index_of(math.prod(shape))
    at = plus(*([f"row * {count * inner}"] if outer > 1 else []), *(["column"] if inner > 1 else []))
    place = product("i", str(inner))
    body = [
        f"const float *from = x + {at};" if at != "0" else "const float *from = x;",
        f"float *to = y + {at};" if at != "0" else "float *to = y;",
        "float most = from[0];",
        *block(
            f"for ({index} i = 1; i < {count}; ++i)", block(f"if (from[{place}] > most)", [f"most = from[{place}];"])
        ),
        "float sum = 0.0f;",
        *block(
            f"for ({index} i = 0; i < {count}; ++i)",
            [f"to[{place}] = expf(from[{place}] - most);", f"sum += to[{place}];"],
        ),
        *block(f"for ({index} i = 0; i < {count}; ++i)", [f"to[{place}] /= sum;"]),
    ]
    body = _for(index, "row", outer, _for(index, "column", inner, body))
    said = f"Softmax of {count}: y_i = exp(x_i) / sum of exp(x_j)."
    return [*comment(said), *function(f"static void {name}(const float *x, float *y)", body)]


def weights_checked(where: str, values: Array) -> Array:
    """The constants of an op as float32; what float32 does not hold is refused."""
    with np.errstate(over="ignore"):
        rounded = np.asarray(values, np.float32)
    if not np.isfinite(rounded).all():
        raise ValueError(f"{where} has a NaN or a number too large for float32; give finite weights")
    return rounded
