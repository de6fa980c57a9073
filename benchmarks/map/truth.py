"""What a pool's numbers should be, from the definition alone, at places that are drawn at random.

A few outputs are computed from the cells that their windows see, and a few cells of the gradient from all windows that
see them, in float64, with no code of ndpool's. Corners and edges are drawn more often than they are met. PyTorch, where
it has the pool, is compared with everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ndpool import Adaptive, Avg, Global, Lp, Max, Min, SmoothMax, Sum

from .drawing import Drawn, whole_tuple

Array = np.ndarray[Any, Any]

OUTPUTS, INPUTS = 400, 60  # places that are looked at
NUMBERS = 2_000_000  # at most so many cells are gathered for them
#: Half a unit in the last place of 1.
EPSILON = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53}


class WrongResultError(AssertionError):
    """A result that is not what it should be."""


@dataclass(frozen=True)
class Axis:
    """The cells of each output along one axis: indices, whether they exist, and whether a padded one counts."""

    cells: Array  # (outputs, kernel)
    real: Array
    counts: Array

    def windows(self, cell: int) -> Array:
        """The outputs that see the cell."""
        found: Array = np.flatnonzero(((self.cells == cell) & self.real).any(axis=1))
        return found


def axes_of(drawn: Drawn, output: tuple[int, ...]) -> list[Axis]:
    found = []
    for j, (length, outputs) in enumerate(zip(drawn.shape[2:], output[2:], strict=True)):
        i, window = np.arange(outputs)[:, None], drawn.window
        if isinstance(window, Global | Adaptive):
            start, end = i * length // outputs, -((-(i + 1) * length) // outputs)
            cells = start + np.arange((end - start).max())
            real = counts = cells < end
        else:
            kernel, stride, pad, step = (
                whole_tuple(n, drawn.rank)[j]
                for n in (window.kernel_size, window.stride, window.padding, window.dilation)
            )
            cells = i * stride - pad + np.arange(kernel) * step
            real, counts = (cells >= 0) & (cells < length), cells < length + pad
        found.append(Axis(cells, real, counts))
    return found


class Truth:
    """The values and the weights of a drawn pool at chosen outputs."""

    def __init__(self, drawn: Drawn, x: Array) -> None:
        self.drawn, self.kind = drawn, drawn.kind
        self.output = drawn.pool.output_shape(drawn.shape)
        self.axes = axes_of(drawn, self.output)
        self.x = x
        self.kernel = int(np.prod([axis.cells.shape[1] for axis in self.axes]))

    def seen(self, places: Array) -> tuple[Array, Array, Array, Array]:
        """For outputs (n, ndim), their cells (n, kernel): the numbers, where they are, who exists, who counts."""
        n, rank = len(places), self.drawn.rank
        flat, real, counts = np.zeros((n, 1), np.int64), np.ones((n, 1), bool), np.ones((n, 1), bool)
        index = []
        for j, axis in enumerate(self.axes):
            rows = places[:, 2 + j]
            along = axis.cells[rows]
            flat = (flat[:, :, None] * self.drawn.shape[2 + j] + along[:, None]).reshape(n, -1)
            real = (real[:, :, None] & axis.real[rows][:, None]).reshape(n, -1)
            counts = (counts[:, :, None] & axis.counts[rows][:, None]).reshape(n, -1)
            shape = [1] * (rank + 1)
            shape[0], shape[1 + j] = n, along.shape[1]
            index.append(np.clip(along, 0, self.drawn.shape[2 + j] - 1).reshape(shape))
        ends = (slice(None), *[None] * rank)
        numbers = self.x[(places[:, 0][ends], places[:, 1][ends], *index)].reshape(n, -1)
        return numbers.astype(np.float64), flat, real, counts

    def value_and_weights(self, v: Array, real: Array, counts: Array) -> tuple[Array, Array]:
        """`y` of each row of cells, and by how much it changes with each cell."""
        match self.kind:
            case Max(ties) | Min(ties):
                sign = 1.0 if isinstance(self.kind, Max) else -1.0
                best = np.where(real, sign * v, -np.inf).max(axis=1, keepdims=True)
                wins = real & (sign * v == best)
                first = np.zeros_like(wins)
                first[np.arange(len(v)), wins.argmax(axis=1)] = True
                weights = {"first": first, "all": wins, "split": wins / wins.sum(axis=1, keepdims=True)}[ties]
                return sign * best[:, 0], weights * 1.0
            case Avg(count_include_pad):
                number = (counts if count_include_pad else real).sum(axis=1, keepdims=True)
                return np.where(real, v, 0).sum(axis=1) / number[:, 0], real / number
            case Sum():
                return np.where(real, v, 0).sum(axis=1), real * 1.0
            case SmoothMax(beta):  # a padded cell is the number 0
                terms = np.where(counts, beta * np.where(real, v, 0), -np.inf)
                shift = terms.max(axis=1, keepdims=True)
                powers = np.exp(terms - shift)
                total = powers.sum(axis=1, keepdims=True)
                return ((shift + np.log(total)) / beta)[:, 0], np.where(real, powers / total, 0)
            case Lp(p):
                sizes = np.where(real, np.abs(v), 0)
                y = (sizes**p).sum(axis=1, keepdims=True) ** (1 / p)
                share = np.divide(sizes, y, out=np.zeros_like(sizes), where=y > 0)
                return y[:, 0], np.where(real, np.sign(v) * share ** (p - 1), 0) * (y > 0)
        raise NotImplementedError(f"no truth is written down for {self.kind!r}")

    def values(self, places: Array) -> tuple[Array, Array]:
        """`y` at the places, and the size of the cells that each is made of."""
        v, _, real, counts = self.seen(places)
        return self.value_and_weights(v, real, counts)[0], np.abs(np.where(real, v, 0)).max(axis=1)

    def gradient(self, cell: Array, g: Array) -> tuple[float, float]:
        """`gx` at one cell of the input, and the sum of the sizes of what is added up there."""
        windows = [axis.windows(at) for axis, at in zip(self.axes, cell[2:], strict=True)]
        grid = np.stack(np.meshgrid(*windows, indexing="ij"), axis=-1).reshape(-1, self.drawn.rank)
        places = np.concatenate([np.broadcast_to(cell[:2], (len(grid), 2)), grid], axis=1)
        if not len(places):
            return 0.0, 0.0
        total = size = 0.0
        parts = min(len(places), max(1, len(places) * self.kernel // NUMBERS))  # each of one window at least
        for part in np.array_split(places, parts):
            v, flat, real, counts = self.seen(part)
            weights = self.value_and_weights(v, real, counts)[1]
            here = real & (flat == np.ravel_multi_index(tuple(cell[2:]), self.drawn.shape[2:]))
            terms = np.where(here, weights, 0).sum(axis=1) * g[tuple(part.T)].astype(np.float64)
            total, size = total + terms.sum(), size + np.abs(terms).sum()
        return total, size

    def windows_over_a_cell(self) -> int:
        """About how many windows see a cell."""
        return max(1, self.kernel * int(np.prod(self.output[2:])) // int(np.prod(self.drawn.shape[2:])))


def places_in(rng: np.random.Generator, shape: tuple[int, ...], number: int) -> Array:
    """Indices into an array of this shape, one in four of them at the start or the end of an axis."""
    columns = []
    for length in shape:
        column, edge = rng.integers(0, length, number), rng.integers(0, 8, number)
        columns.append(np.where(edge == 0, 0, np.where(edge == 1, length - 1, column)))
    return np.stack(columns, axis=1)


def check_values(truth: Truth, y: Array) -> None:
    rng = np.random.default_rng(0)
    places = places_in(rng, truth.output, max(1, min(OUTPUTS, NUMBERS // truth.kernel)))
    expected, sizes = truth.values(places)
    _compare(truth.drawn, "y", places, np.asarray(y[tuple(places.T)], np.float64), expected, sizes)


def check_gradient(truth: Truth, g: Array, gx: Array) -> None:
    rng = np.random.default_rng(1)
    work = truth.kernel * truth.windows_over_a_cell()
    places = places_in(rng, truth.drawn.shape, max(1, min(INPUTS, NUMBERS // work)))
    found = np.array([truth.gradient(place, g) for place in places])
    _compare(truth.drawn, "gx", places, np.asarray(gx[tuple(places.T)], np.float64), found[:, 0], found[:, 1])


def allowed(drawn: Drawn, expected: Array, sizes: Array) -> Array:
    """How far off a result may be: a few units in its last place; for 16 bits, whose sums are rounded once, one."""
    epsilon = EPSILON.get(drawn.dtype, EPSILON["float64"])
    units = {"bfloat16": 2, "float16": 2, "float32": 64, "float64": 4096}.get(drawn.dtype, 4096)
    smallest = 2.0**-24 if drawn.dtype == "float16" else 0.0  # below which it has no numbers
    return units * epsilon * (np.abs(expected) + sizes) + smallest


def _compare(drawn: Drawn, what: str, places: Array, got: Array, expected: Array, sizes: Array) -> None:
    wrong = ~(np.abs(got - expected) <= allowed(drawn, expected, sizes))
    if wrong.any():
        k = int(np.argmax(wrong))
        raise WrongResultError(
            f"{drawn.name}: {what}{tuple(map(int, places[k]))} is {got[k]!r} and should be {expected[k]!r}; "
            f"{wrong.sum()} of {len(wrong)} places are wrong"
        )


def check_equal(drawn: Drawn, what: str, got: Array, other: Array, whose: str) -> None:
    """Everywhere equal to another's result, but for the rounding of both."""
    got, other = (np.asarray(a, np.float64) for a in (got, other))
    if got.shape != other.shape:
        raise WrongResultError(f"{drawn.name}: {what} has the shape {got.shape}, and {whose} {other.shape}")
    epsilon = max(EPSILON.get(drawn.dtype, 0.0), EPSILON["float32"] if drawn.is_float else 0.0)
    # Where cells cancel, the other's sum is off by as much as its large ones are.
    largest = float(np.abs(other[np.isfinite(other)]).max(initial=1.0))
    far = ~np.isclose(got, other, rtol=256 * epsilon, atol=256 * epsilon * largest, equal_nan=True)
    if far.any():
        k = np.unravel_index(int(np.argmax(far)), far.shape)
        raise WrongResultError(
            f"{drawn.name}: {what}{tuple(map(int, k))} is {got[k]!r}, and {whose} {other[k]!r}; {far.sum()} differ"
        )
