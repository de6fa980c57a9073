"""A graph: a network is written down op by op, checked at each line, and built into a program.

    graph = Graph()
    x = graph.input((8, 1, 28, 28), name="x")
    w = graph.input((4, 1, 3, 3), name="w")
    f = graph.build(graph.max_pool2d(graph.relu(graph.conv(x, w)), 2))

Every pooling op and every op of `ndpool.ops` is a method; `graph.apply(op, *inputs)` takes any object with the protocol
of `ndpool.ops.Op`. A variable may be read any number of times, and a program may have several outputs. Parameters are
inputs: what is differentiated and what is not is decided by who calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from . import ops
from .arrays import as_array
from .making import Style, make, summary
from .ops import Array, Op, Shape
from .pool import Pool
from .program import Node, Program
from .reprs import brief
from .table import TABLE, Pooling, in_words
from .windows import Ints, PaddingLike, whole

if TYPE_CHECKING:
    from ._graph_methods import PoolingMethods  # a stub: the methods are made below
else:
    PoolingMethods = object


@dataclass(frozen=True, eq=False)
class Var:
    """A value to be, in a graph: its shape is known, its numbers come when a program runs."""

    graph: Graph
    index: int

    @property
    def _node(self) -> Node:
        return self.graph._nodes[self.index]

    @property
    def name(self) -> str:
        """The name of its node, which errors and tables show."""
        return self._node.name

    @property
    def shape(self) -> Shape:
        """The shape that the value will have."""
        return self._node.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype that the value will have, for inputs of the dtypes that were declared."""
        return self._node.dtype

    def __repr__(self) -> str:
        return f"Var({self.name!r}, {self.dtype}{self.shape})"


class Graph(PoolingMethods):
    """Where a network is written down; `build` makes a program of it.

    A mistake in a shape is an error at the line that makes it, with the op, the shapes and the rule.

    A pooling method has the arguments of the function of the same name in `ndpool`, and the other methods those of the
    class in `ndpool.ops` that they name; `x`, `a`, `b` and `w` are variables of this graph. `name` is what the node is
    called in errors and tables; without one it is called after its op.

    >>> graph = Graph()
    >>> x = graph.input((1, 1, 6), name="x")
    >>> y = graph.max_pool1d(graph.relu(x), 2, name="pooled")
    >>> y
    Var('pooled', float64(1, 1, 3))
    >>> f = graph.build(y)
    >>> f([[[1.0, -3.0, 2.0, 5.0, -4.0, -6.0]]])
    array([[[1., 5., 0.]]])
    >>> y, pullback = f.vjp([[[1.0, -3.0, 2.0, 5.0, -4.0, -6.0]]])
    >>> pullback([[[0.1, 0.2, 0.3]]])
    array([[[0.1, 0. , 0. , 0.2, 0. , 0. ]]])
    """

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._names: set[str] = set()

    # --- building ---------------------------------------------------------------------------------

    def input(self, shape: Sequence[int], *, name: str | None = None, dtype: DTypeLike = np.float64) -> Var:
        """An argument of the program, of this shape and dtype; programs take inputs in the order of their lines."""
        lengths = tuple(whole(f"shape[{i}]", n, 0) for i, n in enumerate(shape))
        return self._add(Node(self._named(name, "input"), None, (), lengths, np.dtype(dtype)))

    def constant(self, value: ArrayLike, *, name: str | None = None) -> Var:
        """An array that is part of the program; it is copied, and has no derivative."""
        array: Array = as_array("value", value).copy()
        array.flags.writeable = False
        return self._add(Node(self._named(name, "constant"), None, (), array.shape, array.dtype, array))

    def apply(self, op: Op, *inputs: Var, name: str | None = None) -> Var:
        """`op` of these variables: any object with the protocol of `ndpool.ops.Op`.

        >>> graph = Graph()
        >>> graph.apply(ops.Tanh(), graph.input((2, 3)))
        Var('tanh_1', float64(2, 3))
        """
        if isinstance(op, type) or not isinstance(op, Op):
            raise TypeError(
                f"op={op!r} is not an op; give an object with output_shape, a call, jvp and vjp, as Pool has"
            )
        if not inputs:
            raise TypeError(f"{brief(op)} is applied to nothing; give at least one variable, or use constant")
        places = tuple(self._place(x) for x in inputs)
        name = self._named(name, _stem(op))
        try:
            shape = op.output_shape(*(x.shape for x in inputs))
        except (TypeError, ValueError) as error:
            self._names.discard(name)
            given = ", ".join(f"{x.name} {x.shape}" for x in inputs)
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{name} = {brief(op)} of {given}: {error}") from error
        return self._add(Node(name, op, places, tuple(shape), _result_dtype(op, [x.dtype for x in inputs])))

    def build(self, *outputs: Var, check_nan: bool = False) -> Program:
        """The program that computes `outputs` from all the graph's inputs, leaving out what they do not need.

        With `check_nan`, it stops with an error at the first node that has a NaN.
        """
        if not outputs:
            raise TypeError("build() has no output; give at least one variable")
        places = [self._place(y) for y in outputs]
        needed = set(places) | {i for i, node in enumerate(self._nodes) if node.op is None and node.constant is None}
        for i in reversed(range(len(self._nodes))):
            if i in needed:
                needed.update(self._nodes[i].inputs)
        order = sorted(needed)
        new = {old: place for place, old in enumerate(order)}
        nodes = tuple(_moved(self._nodes[i], new) for i in order)
        inputs = tuple(i for i, node in enumerate(nodes) if node.op is None and node.constant is None)
        return Program(nodes, inputs, tuple(new[i] for i in places), check_nan)

    def _place(self, x: Any) -> int:
        if not isinstance(x, Var):
            raise TypeError(f"{x!r} is not a variable of a graph; make it an input or a constant first")
        if x.graph is not self:
            raise ValueError(f"{x!r} belongs to another graph; build both in one")
        return x.index

    def _named(self, name: str | None, stem: str) -> str:
        """The name, if it is free; without one, the stem and a number."""
        if name is None:
            number = len(self._nodes)
            while f"{stem}_{number}" in self._names:
                number += 1
            name = f"{stem}_{number}"
        if name in self._names:
            raise ValueError(f"name={name!r} is taken in this graph; give each node a name of its own")
        self._names.add(name)
        return name

    def _add(self, node: Node) -> Var:
        self._nodes.append(node)
        return Var(self, len(self._nodes) - 1)

    # --- the other ops ----------------------------------------------------------------------------

    def conv(
        self,
        x: Var,
        w: Var,
        bias: Var | None = None,
        *,
        stride: Ints = 1,
        padding: PaddingLike = 0,
        dilation: Ints = 1,
        name: str | None = None,
    ) -> Var:
        """`ops.Conv`: x (batch, channels, *lengths), w (outputs, channels, *kernel), bias (outputs,)."""
        return self.apply(ops.Conv(stride, padding, dilation), *_given(x, w, bias), name=name)

    def linear(self, x: Var, w: Var, bias: Var | None = None, *, name: str | None = None) -> Var:
        """`ops.Linear`: `x w^T + bias`."""
        return self.apply(ops.Linear(), *_given(x, w, bias), name=name)

    def matmul(self, a: Var, b: Var, *, name: str | None = None) -> Var:
        """`ops.Matmul`: `a @ b`."""
        return self.apply(ops.Matmul(), a, b, name=name)

    def add(self, a: Var, b: Var, *, name: str | None = None) -> Var:
        """`ops.Add`: `a + b`, broadcasting."""
        return self.apply(ops.Add(), a, b, name=name)

    def sub(self, a: Var, b: Var, *, name: str | None = None) -> Var:
        """`ops.Sub`: `a - b`, broadcasting."""
        return self.apply(ops.Sub(), a, b, name=name)

    def mul(self, a: Var, b: Var, *, name: str | None = None) -> Var:
        """`ops.Mul`: `a * b`, broadcasting."""
        return self.apply(ops.Mul(), a, b, name=name)

    def scale(self, x: Var, factor: Any, *, name: str | None = None) -> Var:
        """`ops.Scale`: `factor * x` for a fixed number."""
        return self.apply(ops.Scale(factor), x, name=name)

    def relu(self, x: Var, *, name: str | None = None) -> Var:
        """`ops.Relu`: `max(x, 0)`."""
        return self.apply(ops.Relu(), x, name=name)

    def leaky_relu(self, x: Var, slope: float = 0.01, *, name: str | None = None) -> Var:
        """`ops.LeakyRelu`: `x where x > 0, slope * x elsewhere`."""
        return self.apply(ops.LeakyRelu(slope), x, name=name)

    def tanh(self, x: Var, *, name: str | None = None) -> Var:
        """`ops.Tanh`."""
        return self.apply(ops.Tanh(), x, name=name)

    def sigmoid(self, x: Var, *, name: str | None = None) -> Var:
        """`ops.Sigmoid`: `1 / (1 + exp(-x))`."""
        return self.apply(ops.Sigmoid(), x, name=name)

    def flatten(self, x: Var, start: int = 1, *, name: str | None = None) -> Var:
        """`ops.Flatten`: the axes from `start` on as one."""
        return self.apply(ops.Flatten(start), x, name=name)

    def reshape(self, x: Var, shape: Sequence[int], *, name: str | None = None) -> Var:
        """`ops.Reshape`: the same cells under another shape; one length may be -1."""
        return self.apply(ops.Reshape(tuple(shape)), x, name=name)

    def transpose(self, x: Var, axes: Sequence[int] | None = None, *, name: str | None = None) -> Var:
        """`ops.Transpose`: the axes in another order, by default reversed."""
        return self.apply(ops.Transpose(None if axes is None else tuple(axes)), x, name=name)

    def sum(
        self, x: Var, axes: int | tuple[int, ...] | None = None, *, keepdims: bool = False, name: str | None = None
    ) -> Var:
        """`ops.ReduceSum`: the sum over `axes`, by default over all."""
        return self.apply(ops.ReduceSum(axes, keepdims), x, name=name)

    def mean(
        self, x: Var, axes: int | tuple[int, ...] | None = None, *, keepdims: bool = False, name: str | None = None
    ) -> Var:
        """`ops.ReduceMean`: the mean over `axes`, by default over all."""
        return self.apply(ops.ReduceMean(axes, keepdims), x, name=name)

    def softmax(self, x: Var, axis: int = -1, *, name: str | None = None) -> Var:
        """`ops.Softmax` along `axis`."""
        return self.apply(ops.Softmax(axis), x, name=name)

    def log_softmax(self, x: Var, axis: int = -1, *, name: str | None = None) -> Var:
        """`ops.LogSoftmax` along `axis`."""
        return self.apply(ops.LogSoftmax(axis), x, name=name)

    def cross_entropy(self, logits: Var, targets: Var, *, name: str | None = None) -> Var:
        """`ops.CrossEntropy`: targets are weights of the logits' shape, or integer labels."""
        return self.apply(ops.CrossEntropy(), logits, targets, name=name)

    def mean_squared_error(self, a: Var, b: Var, *, name: str | None = None) -> Var:
        """`ops.MeanSquaredError` of two arrays of one shape."""
        return self.apply(ops.MeanSquaredError(), a, b, name=name)


# --- pooling --------------------------------------------------------------------------------------


def _body(pooling: Pooling, axes: str) -> list[str]:
    return [
        f"return self.apply(Pool({pooling.kind_call}, {pooling.window_call}, {axes}, skip, min_count), x, name=name)"
    ]


STYLE = Style(
    array="Var",
    result="Var",
    body=_body,
    text=lambda pooling: f"{summary(pooling.kind)[0]} of {pooling.column.where}, as `ndpool.{pooling.name}` has it.",
    first=(Parameter("self", Parameter.POSITIONAL_OR_KEYWORD),),
    last=(Parameter("name", Parameter.KEYWORD_ONLY, default=None, annotation="str | None"),),
    annotations=lambda pooling: {"output_size": "int | tuple[int | None, ...]"},
    indices=False,
    described=False,
)

for _name, _method in make(TABLE.values(), STYLE, globals(), Graph.__name__).items():
    setattr(Graph, _name, _method)


def _given(*inputs: Var | None) -> list[Var]:
    """The inputs, without one that was left out."""
    return [x for x in inputs if x is not None]


def _moved(node: Node, new: dict[int, int]) -> Node:
    """The node with its inputs at their new places."""
    return Node(node.name, node.op, tuple(new[j] for j in node.inputs), node.shape, node.dtype, node.constant)


def _stem(op: Op) -> str:
    """What a node without a name is called after: `max_pool` for a Pool of Max, else its class."""
    return in_words(type(op.kind).__name__ + "Pool" if isinstance(op, Pool) else type(op).__name__)


def _result_dtype(op: Op, dtypes: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    """The dtype of an op's output: what it says, or the common one of its inputs. Integers beside floats are labels."""
    if isinstance(op, Pool):
        return op.kind.result_dtype(dtypes[0])
    if isinstance(op, Program):
        return op.nodes[op.outputs[0]].dtype
    if isinstance(op, ops.Promoting):
        return op.result_dtype(*dtypes)
    return np.result_type(*([dtype for dtype in dtypes if dtype.kind not in "biu"] or dtypes))
