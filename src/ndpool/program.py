"""A program: ops in the order in which they run, with forward, JVP and VJP of the whole.

    forward    y_i       = op_i(y_j, ...)                      j the inputs of node i
    jvp        y_i, dy_i = op_i.jvp((y_j, ...), (dy_j, ...))
    vjp        g_j      += J_i^T g_i                           over all nodes i that read node j

Each sweep visits each node once, in order (the pullback in reverse), so its time is linear in the nodes, and it
forgets a value as soon as no later node reads it: what stays alive for the backward sweep is what the ops' pullbacks
hold on to.

`Graph` builds programs. A program with one output is itself an op, and can be a node of another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from . import spec
from .arrays import as_array
from .ops import Array, Directions, Op, Shape
from .reprs import brief
from .viz import programs as pictures

if TYPE_CHECKING:
    from .bounds import Certificate


@dataclass(frozen=True, eq=False)
class Node:
    """One value of a program: an op over earlier nodes, an input (no op), or a constant (no op, but a value).

    `inputs` are the places of the nodes that it is made from in the program's list; `shape` and `dtype` are what the
    graph found for it. A program that runs on exact numbers has these in place of the dtype.
    """

    name: str
    op: Op | None
    inputs: tuple[int, ...]
    shape: Shape
    dtype: np.dtype[Any]
    constant: Array | None = None

    @property
    def label(self) -> str:
        """What makes the value: the op, without the arguments that are at their defaults."""
        if self.op is not None:
            return brief(self.op)
        return "input" if self.constant is None else "constant"

    @property
    def cells(self) -> int:
        """How many numbers the value has."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """How many bytes the value takes."""
        return self.cells * self.dtype.itemsize

    def __str__(self) -> str:
        return f"node {self.name!r} ({self.label})"


@dataclass(frozen=True, eq=False, repr=False)
class Program:
    """An immutable function of the graph's inputs, in the order in which they were declared.

    A program with one output gives an array, one with several outputs a tuple. With one input there are `f.jvp(x, t)`
    and `pullback(g) -> gx`; with several inputs, x, t and gx are tuples.

    An input of another shape or dtype than was declared is an error that names it. Lists of ints are read in the dtype
    that was declared. Object arrays of exact numbers are always taken: the rational ops compute with them as they are,
    and constants beside them count as the rational numbers that they are.

    `nodes` are all values in the order in which they are computed; `inputs` and `outputs` are places among them. With
    `check_nan`, a program stops with an error at the first node that has a NaN.

    >>> from ndpool import Graph
    >>> graph = Graph()
    >>> x, y = graph.input((3,), name="x"), graph.input((3,), name="y")
    >>> f = graph.build(graph.sum(graph.mul(x, graph.relu(y))))
    >>> f([1.0, 2.0, 3.0], [1.0, -1.0, 1.0])
    array(4.)
    >>> f.value_and_grad([1.0, 2.0, 3.0], [1.0, -1.0, 1.0])
    (array(4.), (array([1., 0., 1.]), array([1., 0., 3.])))
    >>> f.jvp(([1.0, 2.0, 3.0], [1.0, -1.0, 1.0]), ([1.0, 1.0, 1.0], None))[1]
    array(2.)
    """

    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    check_nan: bool = False

    _steps: tuple[tuple[int, Node, Op], ...] = field(init=False)
    _last_read_by: dict[int, list[int]] = field(init=False)
    _varying: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        steps = tuple((i, node, node.op) for i, node in enumerate(self.nodes) if node.op is not None)
        object.__setattr__(self, "_steps", steps)
        object.__setattr__(self, "_last_read_by", _last_reads(self.nodes, self.outputs))
        object.__setattr__(self, "_varying", _reached_from(self.inputs, self.nodes))

    # --- the three sweeps -------------------------------------------------------------------------

    def __call__(self, *xs: ArrayLike) -> Any:
        """The output, or the tuple of outputs."""
        return _packed(self._forward(self._read(xs)))

    def _forward(self, xs: Sequence[Array]) -> list[Array]:
        live = self._start(xs)
        for i, node, op in self._steps:
            live[i] = self._checked(node, "value", _run(node, op, *(live[j] for j in node.inputs)))
            for j in self._last_read_by.get(i, ()):
                del live[j]
        return [live[i] for i in self.outputs]

    def jvp(self, xs: Any, ts: Any) -> tuple[Any, Any]:
        """`(ys, dys)`: the outputs and their change along the tangents `ts`; None stands for a tangent of zeros."""
        arrays = self._read(self._one_each("xs", xs))
        tangents = {
            i: Directions.of(x).read(f"the tangent of {self.nodes[i].name!r}", t)
            for i, x, t in zip(self.inputs, arrays, self._one_each("ts", ts), strict=True)
            if t is not None
        }
        ys, dys = self._push(arrays, tangents)
        return _packed(ys), _packed(dys)

    def _push(self, xs: Sequence[Array], tangents: dict[int, Array]) -> tuple[list[Array], list[Array]]:
        live = self._start(xs)
        for i, node, op in self._steps:
            values = [live[j] for j in node.inputs]
            # A node that nothing moves is only evaluated: zeros are made where some inputs move and others do not.
            if any(j in tangents for j in node.inputs):
                moves = [tangents[j] if j in tangents else Directions.of(live[j]).zeros() for j in node.inputs]
                y, dy = _run(node, op.jvp, _packed(values), _packed(moves))
                tangents[i] = self._checked(node, "tangent", dy)
            else:
                y = _run(node, op, *values)
            live[i] = self._checked(node, "value", y)
            for j in self._last_read_by.get(i, ()):
                del live[j]
                tangents.pop(j, None)
        return (
            [live[i] for i in self.outputs],
            [tangents[i] if i in tangents else Directions.of(live[i]).zeros() for i in self.outputs],
        )

    def vjp(self, *xs: ArrayLike) -> tuple[Any, Callable[[Any], Any]]:
        """`(ys, pullback)`: the outputs, and the function that takes their cotangents back to the inputs.

        The pullback of a program with several outputs takes a tuple, in which None stands for zeros. It may be called
        again and again; what the nodes keep for it lives as long as it does.
        """
        ys, pull = self._pull(self._read(xs))
        directions = [Directions.of(y) for y in ys]

        def pullback(gs: Any) -> Any:
            given = _sequence(gs, len(self.outputs))
            if len(given) != len(directions):
                raise ValueError(
                    f"gs has {len(given)} cotangents and there are {len(directions)} outputs; give one for each"
                )
            cotangents = [
                None if g is None else those.read(f"the cotangent of {self.nodes[i].name!r}", g)
                for i, g, those in zip(self.outputs, given, directions, strict=True)
            ]
            return _packed(pull(cotangents))

        return _packed(ys), pullback

    def _pull(self, xs: Sequence[Array]) -> tuple[list[Array], Callable[[Sequence[Array | None]], list[Array]]]:
        live = self._start(xs)
        pullbacks: dict[int, Callable[[Array], Any]] = {}
        for i, node, op in self._steps:
            values = [live[j] for j in node.inputs]
            if i in self._varying:
                y, pullbacks[i] = _run(node, op.vjp, *values)
            else:
                y = _run(node, op, *values)
            live[i] = self._checked(node, "value", y)
            for j in self._last_read_by.get(i, ()):
                del live[j]
        directions = [Directions.of(x) for x in xs]

        def pull(gs: Sequence[Array | None]) -> list[Array]:
            cotangents = self._sweep_back(pullbacks, gs)
            return [
                self._checked(self.nodes[i], "cotangent", cotangents[i]) if i in cotangents else those.zeros()
                for i, those in zip(self.inputs, directions, strict=True)
            ]

        return [live[i] for i in self.outputs], pull

    def _sweep_back(self, pullbacks: dict[int, Callable[[Array], Any]], gs: Sequence[Array | None]) -> dict[int, Array]:
        """The cotangents of the inputs that the outputs lean on."""
        cotangents: dict[int, Array] = {}

        def add(i: int, g: Any) -> None:
            # A new array, never +=: a pullback may have handed the same one to several nodes.
            cotangents[i] = np.asarray(cotangents[i] + g if i in cotangents else g)

        for i, g in zip(self.outputs, gs, strict=True):
            if g is not None:
                add(i, g)
        for i, node, _ in reversed(self._steps):
            g = cotangents.pop(i, None)
            if g is None or i not in pullbacks:
                continue
            g = self._checked(node, "cotangent", g)
            for j, gx in zip(node.inputs, _sequence(_run(node, pullbacks[i], g), len(node.inputs)), strict=True):
                if j in self._varying:
                    add(j, gx)
        return cotangents

    # --- on top of them ---------------------------------------------------------------------------

    def value_and_grad(self, *xs: ArrayLike) -> tuple[Array, Any]:
        """`(y, gradients)` of a program with one output that is one number."""
        if len(self.outputs) != 1 or self.nodes[self.outputs[0]].shape != ():
            shapes = ", ".join(str(self.nodes[i].shape) for i in self.outputs)
            raise ValueError(
                f"a gradient is of one number, and the outputs have shapes {shapes}; end in g.sum or a loss"
            )
        (y,), pull = self._pull(self._read(xs))
        return y, _packed(pull([Directions.of(y).read("1", 1)]))

    def check_adjoint(self, *xs: ArrayLike, seed: int = 0, exact: bool = False) -> Any:
        """`<J t, g> - <t, J^T g>` for random directions t and g: 0 but for rounding.

        With `exact`, over the Fractions that the inputs denote: then it is exactly 0, or some derivative is wrong. For
        programs of rational ops. Integer inputs, such as labels, are not moved. `seed` says which directions are drawn.

        >>> from ndpool import Graph
        >>> graph = Graph()
        >>> f = graph.build(graph.max_pool1d(graph.relu(graph.input((1, 6))), 3, 2))
        >>> f.check_adjoint([[3.0, 1.0, 4.0, 1.0, 5.0, 9.0]], exact=True)
        Fraction(0, 1)
        """
        rng = np.random.default_rng(seed)
        arrays = self._read(xs)
        moved = [i for i, x in zip(self.inputs, arrays, strict=True) if x.dtype.kind not in "biu"]
        if exact:
            arrays = [spec.fractions(x) if i in moved else x for i, x in zip(self.inputs, arrays, strict=True)]
        draw = _fraction_draws(rng) if exact else rng.normal
        ts = {
            i: Directions.of(x).read("t", draw(size=x.shape))
            for i, x in zip(self.inputs, arrays, strict=True)
            if i in moved
        }
        ys, dys = self._push(arrays, dict(ts))
        gs = [Directions.of(y).read("g", draw(size=y.shape)) for y in ys]
        gxs = dict(zip(self.inputs, self._pull(arrays)[1](gs), strict=True))
        zero = Fraction(0) if exact else 0
        forward = sum((np.sum(dy * g) for dy, g in zip(dys, gs, strict=True)), zero)
        return forward - sum((np.sum(ts[i] * gxs[i]) for i in moved), zero)

    # --- for all inputs of a box ------------------------------------------------------------------

    def bounds(self, inputs_lo: Any, inputs_hi: Any, method: str = "crown") -> tuple[Any, Any]:
        """`(ylo, yhi)`: outputs lie between them for all inputs between `inputs_lo` and `inputs_hi`, one for each.

        An input whose two ends are equal, such as weights, is fixed. `method="ibp"` goes forwards by intervals, fast
        and wide; `"crown"` goes backwards by affine maps, tighter. The bounds are doubles, rounded outward; they hold
        for the real numbers that inputs and constants denote. An op without a rule is an error that names its node.

        >>> from ndpool import Graph
        >>> graph = Graph()
        >>> x = graph.input((1, 2), name="x")
        >>> f = graph.build(graph.sub(x, graph.scale(graph.relu(x), 0.5)))
        >>> lo, hi = f.bounds([[-1.0, 1.0]], [[1.0, 3.0]], "ibp")
        >>> lo.round(6), hi.round(6)
        (array([[-1.5, -0.5]]), array([[1. , 2.5]]))
        >>> lo, hi = f.bounds([[-1.0, 1.0]], [[1.0, 3.0]], "crown")
        >>> lo.round(6), hi.round(6)
        (array([[-1. ,  0.5]]), array([[0.5, 1.5]]))
        """
        from .bounds import networks

        lows, highs = networks.bounds(self, inputs_lo, inputs_hi, method)
        return _packed(lows), _packed(highs)

    def certify(
        self,
        xs: Any,
        eps: float,
        label: int,
        *,
        moved: int | str = 0,
        clip: tuple[float, float] | None = None,
        method: str = "crown",
        steps: int = 20,
        seed: int = 0,
    ) -> Certificate:
        """Whether `label` has the largest output for all inputs within `eps` of `xs`, cell by cell.

        The certificate says "robust", "counterexample" (with an input that has another label, found in `steps` of
        projected gradient from xs and from a point that `seed` says), or "not shown". `moved` names the input that
        moves, or is its place; `clip` holds it between two numbers. The program is of one example: its output is
        one row.

        >>> from ndpool import Graph
        >>> graph = Graph()
        >>> x = graph.input((1, 4), name="x")
        >>> f = graph.build(graph.max_pool1d(x, 2))
        >>> f.certify([[0.0, 1.0, 5.0, 4.0]], 1.5, label=1).verdict
        'robust'
        >>> found = f.certify([[0.0, 1.0, 5.0, 4.0]], 2.5, label=1)
        >>> found.verdict, f(found.counterexample).argmax()
        ('counterexample', np.int64(0))
        """
        from .bounds.certificates import certify

        return certify(self, xs, eps, label, moved=moved, clip=clip, method=method, steps=steps, seed=seed)

    # --- as an op, and as a picture ---------------------------------------------------------------

    def output_shape(self, *shapes: Sequence[int]) -> Any:
        """The declared shape of the output, for inputs of the declared shapes and no others."""
        declared = tuple(self.nodes[i].shape for i in self.inputs)
        if tuple(map(tuple, shapes)) != declared:
            raise ValueError(
                f"the program was built for inputs of shapes {declared} and got {tuple(map(tuple, shapes))}"
            )
        if len(self.outputs) != 1:
            raise ValueError(f"the program has {len(self.outputs)} outputs and an op has one; build one for each")
        return self.nodes[self.outputs[0]].shape

    def __repr__(self) -> str:
        takes = ", ".join(f"{self.nodes[i].name}{self.nodes[i].shape}" for i in self.inputs)
        gives = ", ".join(f"{self.nodes[i].name}{self.nodes[i].shape}" for i in self.outputs)
        return f"Program({takes} -> {gives}, {len(self._steps)} ops)"

    def __str__(self) -> str:
        return pictures.table(self)

    def to_dot(self) -> str:
        """The program as a graph in the language of Graphviz."""
        return pictures.dot(self)

    def draw(self, path: str | PathLike[str]) -> None:
        """The program's picture as a file: .dot or .gv text, or .png or .svg by way of Graphviz's `dot`."""
        pictures.draw(self, path)

    # --- what comes in and what is made -----------------------------------------------------------

    def _one_each(self, name: str, values: Any) -> Sequence[Any]:
        """One value for each input; where there is one input, its value may come without a tuple around it."""
        given = _sequence(values, len(self.inputs)) if not isinstance(values, tuple) else values
        if len(given) != len(self.inputs):
            raise ValueError(
                f"{name} has {len(given)} arrays and the program {len(self.inputs)} inputs; give one for each"
            )
        return given

    def _read(self, xs: Sequence[ArrayLike]) -> list[Array]:
        """The inputs as arrays of the shapes and dtypes that were declared; or of objects, for exact numbers."""
        if len(xs) != len(self.inputs):
            names = ", ".join(self.nodes[i].name for i in self.inputs)
            raise TypeError(f"the program takes {len(self.inputs)} inputs ({names}) and got {len(xs)}")
        arrays = [_array(x, self.nodes[i].dtype) for i, x in zip(self.inputs, xs, strict=True)]
        for i, x in zip(self.inputs, arrays, strict=True):
            node = self.nodes[i]
            if x.shape != node.shape:
                raise ValueError(f"{node} was declared with shape {node.shape} and got {x.shape}; give that shape")
            if x.dtype not in (node.dtype, np.dtype(object)):
                raise TypeError(
                    f"{node} was declared with dtype {node.dtype} and got {x.dtype}; convert it with astype, "
                    "or declare the input with its dtype"
                )
        return arrays

    def _start(self, xs: Sequence[Array]) -> dict[int, Array]:
        """The values that are there before any op runs."""
        live = {i: node.constant for i, node in enumerate(self.nodes) if node.constant is not None}
        live.update(zip(self.inputs, xs, strict=True))
        for i, x in live.items():
            self._checked(self.nodes[i], "value", x)
        return live

    def _checked(self, node: Node, role: str, y: Any) -> Array:
        """`y` as an array of the node's shape, without NaN if that was asked for."""
        array: Array = np.asarray(y)
        if array.shape != node.shape:
            raise ValueError(
                f"the {role} of {node} has shape {array.shape}, and output_shape said {node.shape}; mend the op"
            )
        if self.check_nan and np.any(bad := array != array):
            first = tuple(map(int, np.argwhere(bad)[0]))
            raise ValueError(
                f"the {role} of {node} is NaN in {np.count_nonzero(bad)} of {array.size} cells, the first at {first}; "
                "no earlier node had one"
            )
        return array


def _last_reads(nodes: Sequence[Node], outputs: Iterable[int]) -> dict[int, list[int]]:
    """For each node, the values that it is the last to read, which are forgotten when it is done."""
    reader: dict[int, int] = {}
    for i, node in enumerate(nodes):
        reader.update(dict.fromkeys(node.inputs, i))
    done: dict[int, list[int]] = {}
    for j in reader.keys() - set(outputs):
        done.setdefault(reader[j], []).append(j)
    return done


def _reached_from(inputs: Iterable[int], nodes: Sequence[Node]) -> frozenset[int]:
    """The nodes that an input can change; the others follow from constants alone."""
    reached = set(inputs)
    for i, node in enumerate(nodes):
        if not reached.isdisjoint(node.inputs):
            reached.add(i)
    return frozenset(reached)


def _run(node: Node, function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's result, or its error with the name of the node."""
    try:
        return function(*arguments)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{node}: {error}") from error


def _packed(values: Sequence[Any]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)


def _sequence(values: Any, count: int) -> Sequence[Any]:
    """The inverse of `_packed` for `count` values."""
    result: Sequence[Any] = (values,) if count == 1 else values
    return result


def _array(x: ArrayLike, dtype: np.dtype[Any]) -> Array:
    """`x` as an array; ints that are in no array yet have no dtype of their own, and take this one if they fit."""
    array: Array = as_array("x", x)
    if hasattr(x, "dtype") or array.dtype.kind not in "iu":
        return array
    with np.errstate(invalid="ignore", over="ignore"):
        read = array.astype(dtype)
        fits = np.array_equal(read.astype(object), array.astype(object))
    return read if fits else array


def _fraction_draws(rng: np.random.Generator) -> Callable[..., Array]:
    """Random Fractions of small numbers, for directions."""
    return lambda size: np.asarray(spec.fractions(rng.integers(-99, 100, size)) / Fraction(7))
