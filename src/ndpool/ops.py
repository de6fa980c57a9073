"""The other ops that a small network needs, in the protocol that `Pool` has.

    op.output_shape(*shapes)   the shape of y; a mistake in the shapes is an error here
    op(*xs)                    y
    op.jvp(x, t)               (y, dy)          dy = J t
    op.vjp(*xs)                (y, pullback)    pullback(g) = J^T g

One is itself, several are a tuple: an op with one input has `op.jvp(x, t)` and `pullback(g) -> gx`, as `Pool` has; an
op with several has `op.jvp(xs, ts)` and `pullback(g) -> gs`, with tuples that have one array for each input.

Three families share their derivatives, so that each rule is written once and JVP and VJP cannot disagree:

    SelfAdjoint   J is its own transpose: relu, tanh, softmax, ...   `value(x)` and `lean(y, v) = J v = J^T v`
    LinearMap     dy is the op applied to t: add, reshape, sum, ...  `value(*xs)` and `transposed(g, *shapes)`
    Product       linear in each factor: mul, matmul, conv, ...      `value(a, b)` and `transposed(g, a, b)`

Arithmetic is NumPy's, in the dtype of the inputs, and 16-bit floats are computed with in 32 bits and rounded once (rule
"Accumulation"). Tangents are taken in the dtype of their input and cotangents in that of the output (float64 where that
is an integer).

Exact in, exact out: object arrays of Fractions, Decimals or SymPy's numbers go through the rational ops in their own
arithmetic. A float beside them stands for the rational number that it is, and the other ops refuse objects.
"""

from __future__ import annotations

import itertools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from .arrays import as_array
from .kinds import derivative_dtype
from .scalars import lift, one
from .windows import Axis, Ints, PaddingLike, Window, whole

Array: TypeAlias = NDArray[Any]
Shape: TypeAlias = tuple[int, ...]

__all__ = [
    "Add",
    "Conv",
    "CrossEntropy",
    "Flatten",
    "LeakyRelu",
    "Linear",
    "LogSoftmax",
    "Matmul",
    "MeanSquaredError",
    "Mul",
    "Op",
    "ReduceMean",
    "ReduceSum",
    "Relu",
    "Reshape",
    "Scale",
    "Sigmoid",
    "Softmax",
    "Sub",
    "Tanh",
    "Transpose",
]


@runtime_checkable
class Op(Protocol):
    """What an op has; `Pool` is one, and so is any object of yours with these four.

    An op may also say two things that only a program's table asks. `keeps` is what its pullback holds on to: "nothing",
    "inputs" (which is assumed) or "output". `result_dtype(*dtypes)` is the dtype of the output; without it, that is the
    common one of the inputs that are not integers.
    """

    def output_shape(self, *shapes: Any) -> Shape:
        """The shape of the output for inputs of these shapes."""

    def __call__(self, *xs: Any) -> Array:
        """The output."""

    def jvp(self, x: Any, t: Any, /) -> tuple[Array, Array]:
        """The output and its change along `t`; with several inputs both are tuples."""

    def vjp(self, *xs: Any) -> tuple[Array, Callable[[Any], Any]]:
        """The output and the pullback, which gives a tuple where there are several inputs."""


# --- arrays and shapes ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Directions:
    """The tangents and cotangents of an array: of its shape, in the dtype of its derivatives.

    Those of an object array are in the arithmetic of `number`, which is one of its cells. Nothing else of the array is
    held, so that it need not stay alive.

    >>> Directions.of(np.zeros(2, np.float32)).read("g", [1, 2]).dtype
    dtype('float32')
    >>> Directions.of(np.array([Fraction(1, 3)])).read("g", [0.5])
    array([Fraction(1, 2)], dtype=object)
    """

    shape: Shape
    dtype: np.dtype[Any]
    number: Any = None

    @classmethod
    def of(cls, array: Array) -> Directions:
        """Those of this array."""
        return cls(array.shape, derivative_dtype(array.dtype), _a_number_of(array))

    def read(self, name: str, v: ArrayLike) -> Array:
        """`v` as one of them; `name` is what an error calls it."""
        v = as_array(name, v)
        if v.shape != self.shape:
            raise ValueError(
                f"{name} has shape {v.shape} and belongs to an array of shape {self.shape}; make them equal"
            )
        if self.dtype.kind == "O":
            return _objects(self.number, v)
        if v.dtype.kind == "O":
            return v
        if v.dtype.kind not in "biufV" and v.dtype.kind != self.dtype.kind:
            raise TypeError(f"{name} has dtype {v.dtype} and belongs to an array of {self.dtype}; give real numbers")
        return v.astype(self.dtype, copy=False)

    def zeros(self) -> Array:
        """The direction in which nothing changes."""
        if self.number is None:
            return np.zeros(self.shape, self.dtype)
        return np.full(self.shape, _in_arithmetic_of(self.number, 0), self.dtype)


def _directions(ts: Sequence[ArrayLike], xs: Sequence[Array]) -> list[Array]:
    if len(ts) != len(xs):
        raise ValueError(f"ts has {len(ts)} tangents and there are {len(xs)} inputs; give one for each")
    return [Directions.of(x).read(f"ts[{i}]", t) for i, (t, x) in enumerate(zip(ts, xs, strict=True))]


def _a_number_of(*arrays: Array) -> Any:
    """A number that tells the arithmetic of object arrays: an int only where there is no other, None without any."""
    cells = (cell for x in arrays if x.dtype.kind == "O" for cell in x.flat)
    first = next(cells, None)
    return next((cell for cell in itertools.chain((first,), cells) if not isinstance(cell, int)), first)


def _in_arithmetic_of(number: Any, cell: Any) -> Any:
    """An int or a float in the arithmetic of `number`, exactly: every float is rational. Other numbers stay."""
    if not isinstance(cell, int | float) or isinstance(number, int | float):
        return cell
    try:
        found = lift(cell, number)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{cell} meets numbers of type {type(number).__name__}, which have no such number; give finite numbers"
        ) from None
    return one(number) * found if isinstance(found, int | float) else found


def _objects(number: Any, v: Array) -> Array:
    """`v` as an object array whose ints and floats are in the arithmetic of `number`, where there is one."""
    cells = _wide(v).astype(object)
    if number is None:
        return cells
    return np.asarray(np.frompyfunc(lambda cell: _in_arithmetic_of(number, cell), 1, 1)(cells), dtype=object)


def _in_one_arithmetic(*arrays: Array) -> tuple[Array, ...]:
    """The arrays, all in the arithmetic of the objects if some are object arrays: Fractions and floats give floats."""
    if all(x.dtype.kind != "O" for x in arrays):
        return arrays
    number = _a_number_of(*arrays)
    return tuple(_objects(number, x) for x in arrays)


def _sum(x: Array, axis: tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """NumPy's sum as an array of objects where x is one: NumPy gives the object itself for a sum over all axes."""
    return np.asarray(np.sum(x, axis=axis, keepdims=keepdims), dtype=object if x.dtype.kind == "O" else None)


def _divided(x: Array, n: int) -> Array:
    """`x / n`; ints that are objects become Fractions, since Python divides them to floats."""
    if x.dtype.kind != "O":
        return np.asarray(x / n)
    quotients = np.frompyfunc(lambda cell: Fraction(cell, n) if isinstance(cell, int) else cell / n, 1, 1)(x)
    return np.asarray(quotients, dtype=object).reshape(x.shape)


def _positive(x: Array) -> Array:
    """`x > 0`; NumPy warns of a NaN among objects, though not of one among floats."""
    with np.errstate(invalid="ignore"):
        return np.asarray(x > 0)


def _zeros(shape: Shape, like: Array) -> Array:
    """Zeros of the dtype of `like`, and of its arithmetic where it has objects."""
    return Directions(shape, like.dtype, _a_number_of(like)).zeros()


def _is_half(dtype: np.dtype[Any]) -> bool:
    """Whether the dtype is a float of 16 bits; bfloat16 is of NumPy's kind "V"."""
    return dtype.kind in "fV" and dtype.itemsize == 2


def _wide_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32) if _is_half(dtype) else dtype


def _wide(x: Array) -> Array:
    return x.astype(_wide_dtype(x.dtype), copy=False)


def _rounded(y: Any, dtype: np.dtype[Any]) -> Array:
    """`y` as an array; where it was computed for a 16-bit dtype or for objects, in that."""
    return np.asarray(y).astype(dtype) if _is_half(dtype) or dtype.kind == "O" else np.asarray(y)


def _computed(function: Callable[..., Any], *arrays: Array) -> Any:
    """What `function` makes of the arrays, an array or a tuple of them.

    Of 16-bit floats in 32 bits, rounded once; of numbers and objects in the arithmetic of the objects.
    """
    result = function(*map(_wide, _in_one_arithmetic(*arrays)))
    dtype = arrays[0].dtype if len(arrays) == 1 else np.result_type(*(x.dtype for x in arrays))
    return tuple(_rounded(y, dtype) for y in result) if isinstance(result, tuple) else _rounded(result, dtype)


def _broadcast(op: object, *shapes: Shape) -> Shape:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(
            f"{type(op).__name__} takes shapes that broadcast, and {' and '.join(map(str, shapes))} do not; "
            "make each pair of lengths, counted from the end, equal or 1"
        ) from None


def _unbroadcast(g: Array, shape: Shape) -> Array:
    """The transpose of broadcasting: the sum over every axis along which `shape` was repeated."""
    extra = g.ndim - len(shape)
    repeated = [extra + d for d, length in enumerate(shape) if length == 1 and g.shape[extra + d] != 1]
    return _sum(g, (*range(extra), *repeated)).reshape(shape) if extra or repeated else g


def _axis_of(op: object, axis: int, shape: Shape) -> int:
    if not -len(shape) <= axis < len(shape):
        raise ValueError(
            f"{type(op).__name__} over axis={axis} of shape {shape}, which has {len(shape)} axes; "
            f"give {-len(shape)} to {len(shape) - 1}"
        )
    return axis % len(shape)


def _check_classes(op: object, axis: int, shape: Shape) -> None:
    if shape[_axis_of(op, axis, shape)] == 0:
        raise ValueError(f"{type(op).__name__} over axis={axis} of shape {shape}, which has length 0; it needs a cell")


def _plain(number: Any) -> Any:
    """A NumPy scalar as Python's number, which leaves the dtype of an array that it multiplies as it is."""
    return number.item() if isinstance(number, np.generic) else number


def lifted(number: Any, x: Array) -> Any:
    """`number` in the arithmetic of the cells of x: exactly where these are objects, as a float where they are not."""
    if x.dtype.kind == "O" and x.size:
        cell = _a_number_of(x)
        return _in_arithmetic_of(cell, number) if isinstance(number, int | float) else lift(number, cell)
    return number if isinstance(number, int | float | complex) else float(number)


def _floats(op: object, x: Array) -> Array:
    """`x` as floats: integers in float64, of which the unsigned ones have no negative numbers to compute with."""
    if x.dtype.kind == "O":
        raise TypeError(f"{type(op).__name__} of an object array has no exact value; give an array of floats")
    return x.astype(derivative_dtype(x.dtype), copy=False)


def _check_count(op: object, given: Sequence[Any], *counts: int) -> None:
    if len(given) not in counts:
        takes = " or ".join(map(str, counts))
        raise TypeError(f"{type(op).__name__} takes {takes} inputs and got {len(given)}; see its documentation")


class Promoting:
    """An op whose output has the dtype that NumPy makes of its inputs' dtypes.

    `integers` says what whole numbers become: "keep" their dtype, "widen" to 64 bits, or "float64", as in `Kind`.
    """

    integers: ClassVar[str] = "float64"

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype of the output for inputs of these dtypes."""
        dtype = np.result_type(*dtypes)
        if dtype.kind not in "biu" or self.integers == "keep":
            return dtype
        if self.integers == "float64":
            return np.dtype(np.float64)
        return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)


# --- ops whose derivative is its own transpose ----------------------------------------------------


class SelfAdjoint(Promoting, ABC):
    """`y = value(x)` with a symmetric Jacobian that is known from `y` alone: `lean(y, v) = J v = J^T v`."""

    keeps: ClassVar[str] = "output"

    @abstractmethod
    def value(self, x: Array) -> Any:
        """The output."""

    @abstractmethod
    def lean(self, y: Array, v: Array) -> Any:
        """`J v`, which is `J^T v`, where the output is y."""

    def output_shape(self, shape: Sequence[int]) -> Shape:
        """The shape of the output, which is that of the input."""
        return tuple(shape)

    def __call__(self, x: ArrayLike) -> Array:
        """The output."""
        x = as_array("x", x)
        self.output_shape(x.shape)
        y: Array = _computed(self.value, x)
        return y

    def jvp(self, x: ArrayLike, t: ArrayLike) -> tuple[Array, Array]:
        """The output, and its change along the tangent `t`."""
        x = as_array("x", x)
        y = self(x)
        return y, _computed(self.lean, y, Directions.of(x).read("t", t))

    def vjp(self, x: ArrayLike) -> tuple[Array, Callable[[ArrayLike], Array]]:
        """The output, and the function that takes its cotangent back to x; it keeps the output."""
        y = self(x)
        directions = Directions.of(y)
        return y, lambda g: _computed(self.lean, y, directions.read("g", g))


@dataclass(frozen=True)
class LeakyRelu(SelfAdjoint):
    """`y = x where x > 0, slope * x elsewhere`; the derivative at 0 is `slope`, and NaN stays NaN.

    >>> LeakyRelu(0.5)([-2.0, 0.0, 3.0])
    array([-1.,  0.,  3.])
    """

    slope: Any = 0.01

    def __post_init__(self) -> None:
        if not isinstance(self.slope, int | float | Fraction | np.floating):
            raise TypeError(f"slope={self.slope!r} is a {type(self.slope).__name__}; give a number")
        if not 0 < self.slope < math.inf:
            raise ValueError(f"slope={self.slope!r} must be finite and > 0; for a slope of 0 use Relu")
        object.__setattr__(self, "slope", _plain(self.slope))

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        return Scale(self.slope).result_dtype(*dtypes)

    def value(self, x: Array) -> Any:
        return np.where(_positive(x), x, x * lifted(self.slope, x))

    def lean(self, y: Array, v: Array) -> Any:
        # y has the sign of x, since the slope is positive.
        return np.where(_positive(y), v, v * lifted(self.slope, v))


@dataclass(frozen=True)
class Relu(SelfAdjoint):
    """`y = max(x, 0)`; the derivative at 0 is 0, and NaN stays NaN.

    >>> Relu()([-2.0, 0.0, 3.0])
    array([0., 0., 3.])
    """

    integers: ClassVar[str] = "keep"

    def value(self, x: Array) -> Any:
        if x.dtype.kind != "O":
            return np.maximum(x, x.dtype.type(0))
        # The zero is one of x's own numbers: among Decimals an int 0 would later divide to a Fraction.
        return np.where(_positive(x) | (x != x), x, _zeros(x.shape, x))

    def lean(self, y: Array, v: Array) -> Any:
        # Copied, not multiplied by 0: what comes from a cell that does not matter may be infinite.
        kept = _zeros(v.shape, v)
        np.copyto(kept, v, where=_positive(y))
        return kept


@dataclass(frozen=True)
class Tanh(SelfAdjoint):
    """`y = tanh x`, `dy = (1 - y^2) dx`.

    >>> Tanh()([0.0, 1.0]).round(6)
    array([0.      , 0.761594])
    """

    def value(self, x: Array) -> Any:
        return np.tanh(_floats(self, x))

    def lean(self, y: Array, v: Array) -> Any:
        return v * (1 - y * y)


@dataclass(frozen=True)
class Sigmoid(SelfAdjoint):
    """`y = 1 / (1 + exp(-x))`, `dy = y (1 - y) dx`, by way of `exp(-|x|)`, which cannot overflow.

    >>> Sigmoid()([-1000.0, 0.0, 1000.0])
    array([0. , 0.5, 1. ])
    """

    def value(self, x: Array) -> Any:
        decay = np.exp(-np.abs(_floats(self, x)))
        return np.where(x < 0, decay, np.ones_like(decay)) / (1 + decay)

    def lean(self, y: Array, v: Array) -> Any:
        return v * y * (1 - y)


@dataclass(frozen=True)
class Softmax(SelfAdjoint):
    """`y_i = exp(x_i) / sum exp(x_j)` along `axis`, `dy = y (dx - sum y_j dx_j)`; shifted by the largest before exp.

    >>> Softmax()([1000.0, 1000.0])
    array([0.5, 0.5])
    """

    axis: int = -1

    def output_shape(self, shape: Sequence[int]) -> Shape:
        """The shape of the output, which is that of the input."""
        _check_classes(self, self.axis, tuple(shape))
        return tuple(shape)

    def value(self, x: Array) -> Any:
        return np.exp(_log_softmax(_floats(self, x), self.axis))

    def lean(self, y: Array, v: Array) -> Any:
        return y * (v - np.sum(y * v, axis=self.axis, keepdims=True))


# --- linear maps ----------------------------------------------------------------------------------


class LinearMap(Promoting, ABC):
    """`y = value(*xs)`, linear in all inputs together: `dy = value(*ts)`, and `transposed` is the map back.

    `inputs` is their number. The pullback needs the inputs' shapes and nothing else.
    """

    keeps: ClassVar[str] = "nothing"
    integers: ClassVar[str] = "keep"
    inputs: ClassVar[int] = 1

    @abstractmethod
    def value_shape(self, *shapes: Shape) -> Shape:
        """The shape of `value(*xs)`."""

    @abstractmethod
    def value(self, *xs: Array) -> Any:
        """The output."""

    @abstractmethod
    def transposed(self, g: Array, *shapes: Shape) -> Any:
        """The cotangent of the input, or a tuple with one for each of several."""

    def output_shape(self, *shapes: Sequence[int]) -> Shape:
        """The shape of the output for inputs of these shapes."""
        _check_count(self, shapes, self.inputs)
        return self.value_shape(*map(tuple, shapes))

    def __call__(self, *xs: ArrayLike) -> Array:
        """The output."""
        arrays = [as_array("x", x) for x in xs]
        self.output_shape(*(x.shape for x in arrays))
        y: Array = _computed(self.value, *arrays)
        return y

    def jvp(self, x: Any, t: Any) -> tuple[Array, Array]:
        """The output, and its change along `t`; with several inputs both are tuples."""
        xs, ts = ((x,), (t,)) if self.inputs == 1 else (x, t)
        arrays = [as_array("x", x) for x in xs]
        return self(*arrays), _computed(self.value, *_directions(ts, arrays))

    def vjp(self, *xs: ArrayLike) -> tuple[Array, Callable[[ArrayLike], Any]]:
        """The output, and the function that takes its cotangent back to the inputs; it keeps no array."""
        y = self(*xs)
        shapes = [np.shape(x) for x in xs]
        directions = Directions.of(y)

        def pullback(g: ArrayLike) -> Any:
            return _computed(lambda wide: self.transposed(wide, *shapes), directions.read("g", g))

        return y, pullback


@dataclass(frozen=True)
class Add(LinearMap):
    """`y = a + b`, broadcasting as NumPy does.

    >>> Add()([1.0, 2.0], [[10.0], [20.0]])
    array([[11., 12.],
           [21., 22.]])
    """

    inputs: ClassVar[int] = 2

    def value_shape(self, *shapes: Shape) -> Shape:
        return _broadcast(self, *shapes)

    def value(self, *xs: Array) -> Any:
        return np.add(*xs)

    def transposed(self, g: Array, *shapes: Shape) -> tuple[Array, ...]:
        return _unbroadcast(g, shapes[0]), _unbroadcast(g, shapes[1])


@dataclass(frozen=True)
class Sub(LinearMap):
    """`y = a - b`, broadcasting as NumPy does.

    >>> Sub()([1.0, 2.0], 10.0)
    array([-9., -8.])
    """

    inputs: ClassVar[int] = 2

    def value_shape(self, *shapes: Shape) -> Shape:
        return _broadcast(self, *shapes)

    def value(self, *xs: Array) -> Any:
        return np.subtract(*xs)

    def transposed(self, g: Array, *shapes: Shape) -> tuple[Array, ...]:
        return _unbroadcast(g, shapes[0]), np.asarray(-_unbroadcast(g, shapes[1]))


@dataclass(frozen=True)
class Scale(LinearMap):
    """`y = factor * x`, for a fixed number.

    >>> Scale(3)([1.0, 2.0])
    array([3., 6.])
    """

    factor: Any

    def __post_init__(self) -> None:
        if np.ndim(self.factor) != 0:
            raise TypeError(f"factor={self.factor!r} is not one number; for an array of factors use Mul")
        object.__setattr__(self, "factor", _plain(self.factor))

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        whole = dtypes[0].kind in "biu" and not isinstance(self.factor, int)
        return np.dtype(np.float64) if whole else dtypes[0]

    def value_shape(self, *shapes: Shape) -> Shape:
        return shapes[0]

    def value(self, *xs: Array) -> Any:
        return xs[0] * lifted(self.factor, xs[0])

    def transposed(self, g: Array, *shapes: Shape) -> Array:
        return np.asarray(g * lifted(self.factor, g))


@dataclass(frozen=True)
class Reshape(LinearMap):
    """The same cells in row-major order under another `shape`; one length may be -1, for what is left.

    >>> Reshape((2, -1))([1, 2, 3, 4])
    array([[1, 2],
           [3, 4]])
    """

    shape: Shape

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(whole(f"shape[{i}]", n, -1) for i, n in enumerate(self.shape)))
        if self.shape.count(-1) > 1:
            raise ValueError(f"shape={self.shape} leaves more than one length open; give at most one -1")

    def value_shape(self, *shapes: Shape) -> Shape:
        cells, known = math.prod(shapes[0]), math.prod(n for n in self.shape if n != -1)
        fits = cells == known if -1 not in self.shape else known > 0 and cells % known == 0
        if not fits:
            raise ValueError(
                f"Reshape to shape={self.shape} of {shapes[0]}, which has {cells} cells; "
                "give lengths whose product is that"
            )
        return tuple(cells // known if n == -1 else n for n in self.shape)

    def value(self, *xs: Array) -> Any:
        return xs[0].reshape(self.shape)

    def transposed(self, g: Array, *shapes: Shape) -> Array:
        return g.reshape(shapes[0])


@dataclass(frozen=True)
class Flatten(LinearMap):
    """The axes from `start` on as one, in row-major order; by default all but the batch.

    >>> Flatten()([[[1, 2], [3, 4]]])
    array([[1, 2, 3, 4]])
    """

    start: int = 1

    def __post_init__(self) -> None:
        whole("start", self.start, 0)

    def value_shape(self, *shapes: Shape) -> Shape:
        shape = shapes[0]
        if self.start > len(shape):
            raise ValueError(f"Flatten from start={self.start} of shape {shape}; give at most {len(shape)}")
        return (*shape[: self.start], math.prod(shape[self.start :]))

    def value(self, *xs: Array) -> Any:
        return xs[0].reshape(self.value_shape(xs[0].shape))

    def transposed(self, g: Array, *shapes: Shape) -> Array:
        return g.reshape(shapes[0])


@dataclass(frozen=True)
class Transpose(LinearMap):
    """The axes in another order: axis d of y is axis `axes[d]` of x; None reverses them all.

    >>> Transpose()([[1, 2], [3, 4]])
    array([[1, 3],
           [2, 4]])
    """

    axes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.axes is not None:
            object.__setattr__(self, "axes", tuple(operator.index(a) for a in self.axes))

    def _order(self, shape: Shape) -> tuple[int, ...]:
        if self.axes is None:
            return tuple(reversed(range(len(shape))))
        order = tuple(_axis_of(self, axis, shape) for axis in self.axes)
        if sorted(order) != list(range(len(shape))):
            raise ValueError(f"Transpose with axes={self.axes} of shape {shape}; name each axis once")
        return order

    def value_shape(self, *shapes: Shape) -> Shape:
        return tuple(shapes[0][d] for d in self._order(shapes[0]))

    def value(self, *xs: Array) -> Any:
        return np.transpose(xs[0], self._order(xs[0].shape))

    def transposed(self, g: Array, *shapes: Shape) -> Array:
        return np.transpose(g, np.argsort(self._order(shapes[0])))


@dataclass(frozen=True)
class ReduceSum(LinearMap):
    """`y = sum of x` over `axes` (None: over all), which go or, with `keepdims`, stay at length 1.

    >>> ReduceSum(axes=0)([[1.0, 2.0], [3.0, 4.0]])
    array([4., 6.])
    """

    axes: int | tuple[int, ...] | None = None
    keepdims: bool = False

    integers: ClassVar[str] = "widen"

    def __post_init__(self) -> None:
        if self.axes is not None:
            axes = self.axes if isinstance(self.axes, Sequence) else (self.axes,)
            object.__setattr__(self, "axes", tuple(operator.index(a) for a in axes))
        if not isinstance(self.keepdims, bool):
            raise TypeError(f"keepdims={self.keepdims!r} is not a bool; give True or False")

    def _reduced(self, shape: Shape) -> tuple[int, ...]:
        axes = range(len(shape)) if self.axes is None else self.axes
        found = tuple(_axis_of(self, axis, shape) for axis in axes)  # type: ignore[union-attr]
        if len(set(found)) != len(found):
            raise ValueError(f"{type(self).__name__} with axes={self.axes} of shape {shape}; name each axis once")
        return found

    def _divisor(self, shape: Shape) -> int:
        return 1

    def value_shape(self, *shapes: Shape) -> Shape:
        shape = shapes[0]
        gone = self._reduced(shape)
        self._divisor(shape)
        return tuple(1 if d in gone else n for d, n in enumerate(shape) if self.keepdims or d not in gone)

    def value(self, *xs: Array) -> Any:
        return _sum(xs[0], self._reduced(xs[0].shape), self.keepdims)

    def transposed(self, g: Array, *shapes: Shape) -> Array:
        gone = self._reduced(shapes[0])
        kept = tuple(1 if d in gone else n for d, n in enumerate(shapes[0]))
        return np.broadcast_to(g.reshape(kept), shapes[0])


@dataclass(frozen=True)
class ReduceMean(ReduceSum):
    """`y = (sum of x) / n` over `axes` (None: over all) that have n cells together.

    >>> ReduceMean(axes=1, keepdims=True)([[1.0, 2.0], [3.0, 4.0]])
    array([[1.5],
           [3.5]])
    """

    integers: ClassVar[str] = "float64"

    def _divisor(self, shape: Shape) -> int:
        n = math.prod(shape[d] for d in self._reduced(shape))
        if n == 0:
            raise ValueError(f"ReduceMean with axes={self.axes} of shape {shape} has no cell; a mean needs one")
        return n

    def value(self, *xs: Array) -> Any:
        return _divided(super().value(*xs), self._divisor(xs[0].shape))

    def transposed(self, g: Array, *shapes: Shape) -> Array:
        return super().transposed(_divided(g, self._divisor(shapes[0])), *shapes)


# --- products, linear in each factor --------------------------------------------------------------


class Product(Promoting, ABC):
    """`y = value(a, b)`, linear in `a` and in `b`: `dy = value(da, b) + value(a, db)`.

    Where `bias_axis` is set there may be a third input, a vector that is added along that axis of y.
    """

    keeps: ClassVar[str] = "inputs"
    integers: ClassVar[str] = "keep"
    bias_axis: ClassVar[int | None] = None

    @abstractmethod
    def value_shape(self, a: Shape, b: Shape) -> Shape:
        """The shape of `value(a, b)`."""

    @abstractmethod
    def value(self, a: Array, b: Array) -> Any:
        """The output, without a bias."""

    @abstractmethod
    def transposed(self, g: Array, a: Array, b: Array) -> tuple[Array, Array]:
        """The cotangents of a and b."""

    def output_shape(self, *shapes: Sequence[int]) -> Shape:
        """The shape of the output for inputs of these shapes: a, b, and a bias if there is one."""
        _check_count(self, shapes, *((2,) if self.bias_axis is None else (2, 3)))
        a, b, *bias = map(tuple, shapes)
        y = self.value_shape(a, b)
        if self.bias_axis is not None and bias and bias[0] != (y[self.bias_axis],):
            raise ValueError(
                f"{type(self).__name__} adds a bias of shape {bias[0]} along axis {self.bias_axis} of {y}; "
                f"give shape ({y[self.bias_axis]},)"
            )
        return y

    def _along(self, bias: Array, ndim: int) -> Array:
        """The bias laid along its axis of an array with `ndim` axes."""
        assert self.bias_axis is not None
        return bias.reshape([-1 if d == self.bias_axis % ndim else 1 for d in range(ndim)])

    def __call__(self, *xs: ArrayLike) -> Array:
        """The output."""
        arrays = [as_array("x", x) for x in xs]
        self.output_shape(*(x.shape for x in arrays))
        y: Array = _computed(self._with_bias, *arrays)
        return y

    def _with_bias(self, a: Array, b: Array, *bias: Array) -> Any:
        y = np.asarray(self.value(a, b))
        return y + self._along(bias[0], y.ndim) if bias else y

    def _change(self, a: Array, b: Array, da: Array, db: Array, *dbias: Array) -> Any:
        return self._with_bias(da, b, *dbias) + self.value(a, db)

    def jvp(self, xs: Sequence[ArrayLike], ts: Sequence[ArrayLike]) -> tuple[Array, Array]:
        """The output, and its change along the tangents `ts`, one for each input."""
        arrays = [as_array("x", x) for x in xs]
        return self(*arrays), _computed(self._change, *arrays[:2], *_directions(ts, arrays))

    def vjp(self, *xs: ArrayLike) -> tuple[Array, Callable[[ArrayLike], tuple[Array, ...]]]:
        """The output, and the function that takes its cotangent back to each input; it keeps the inputs."""
        arrays = [as_array("x", x) for x in xs]
        y = self(*arrays)
        a, b, *bias = arrays
        directions = Directions.of(y)

        def pullback(g: ArrayLike) -> tuple[Array, ...]:
            gs: tuple[Array, ...] = _computed(self._all_transposed, directions.read("g", g), a, b, *bias)
            return gs

        return y, pullback

    def _all_transposed(self, g: Array, a: Array, b: Array, *bias: Array) -> tuple[Array, ...]:
        return *self.transposed(g, a, b), *(_unbroadcast(g, self._along(c, g.ndim).shape).ravel() for c in bias)


@dataclass(frozen=True)
class Mul(Product):
    """`y = a * b` cell by cell, broadcasting as NumPy does.

    >>> Mul()([1.0, 2.0], [3.0, 4.0])
    array([3., 8.])
    """

    def value_shape(self, a: Shape, b: Shape) -> Shape:
        return _broadcast(self, a, b)

    def value(self, a: Array, b: Array) -> Any:
        return np.multiply(a, b)

    def transposed(self, g: Array, a: Array, b: Array) -> tuple[Array, Array]:
        return _unbroadcast(np.asarray(g * b), a.shape), _unbroadcast(np.asarray(g * a), b.shape)


@dataclass(frozen=True)
class Matmul(Product):
    """`y = a @ b` of matrices, or of stacks of them, whose leading axes broadcast.

    >>> Matmul()([[1.0, 2.0]], [[3.0], [4.0]])
    array([[11.]])
    """

    def value_shape(self, a: Shape, b: Shape) -> Shape:
        if len(a) < 2 or len(b) < 2:
            raise ValueError(f"Matmul of shapes {a} and {b}; both need 2 axes or more, reshape a vector to a matrix")
        if a[-1] != b[-2]:
            raise ValueError(
                f"Matmul of shapes {a} and {b}: rows of {a[-1]} meet columns of {b[-2]}; make these lengths equal"
            )
        return (*_broadcast(self, a[:-2], b[:-2]), a[-2], b[-1])

    def value(self, a: Array, b: Array) -> Any:
        return a @ b

    def transposed(self, g: Array, a: Array, b: Array) -> tuple[Array, Array]:
        ga, gb = g @ np.swapaxes(b, -1, -2), np.swapaxes(a, -1, -2) @ g
        return _unbroadcast(ga, a.shape), _unbroadcast(gb, b.shape)


@dataclass(frozen=True)
class Linear(Product):
    """`y = x w^T + bias`: x of shape (..., n), w (m, n), and bias, which may be left out, (m,).

    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]], [0.5, 0.0])
    array([[11.5, 17. ]])
    """

    bias_axis: ClassVar[int | None] = -1

    def value_shape(self, a: Shape, b: Shape) -> Shape:
        if len(a) < 1 or len(b) != 2 or a[-1] != b[1]:
            raise ValueError(
                f"Linear of x {a} and w {b}; w has shape (outputs, inputs), and inputs is the last length of x"
            )
        return (*a[:-1], b[0])

    def value(self, a: Array, b: Array) -> Any:
        return a @ b.T

    def transposed(self, g: Array, a: Array, b: Array) -> tuple[Array, Array]:
        return g @ b, g.reshape(-1, b.shape[0]).T @ a.reshape(-1, b.shape[1])


@dataclass(frozen=True)
class Conv(Product):
    """`y[n, o, i] = bias[o] + sum over c, k of w[o, c, k] * x[n, c, i*stride - pad_lo + k*dilation]`, in any rank.

    x has shape (batch, channels, *lengths), w (outputs, channels, *kernel), bias, which may be left out, (outputs,).
    It is what networks call convolution: the kernel is not flipped. `stride`, `padding` and `dilation` are as in
    `Window`, words for padding included; a padded cell is the number 0.

    All windows become the columns of one matrix, and the convolution is one matrix product.

    >>> Conv(padding=1)([[[1.0, 2.0, 3.0]]], [[[1.0, 0.0, -1.0]]])
    array([[[-2., -2.,  2.]]])
    """

    stride: Ints = 1
    padding: PaddingLike = 0
    dilation: Ints = 1

    bias_axis: ClassVar[int | None] = 1

    def __post_init__(self) -> None:
        checked = Window(1, self.stride, self.padding, self.dilation)
        for name in ("stride", "padding", "dilation"):
            object.__setattr__(self, name, getattr(checked, name))

    def _axes(self, x: Shape, w: Shape) -> tuple[Axis, ...]:
        return Window(w[2:], self.stride, self.padding, self.dilation).axes_of(x[2:])

    def value_shape(self, a: Shape, b: Shape) -> Shape:
        if len(a) < 3 or len(a) != len(b) or a[1] != b[1]:
            raise ValueError(
                f"Conv of x {a} and w {b}; x has shape (batch, channels, *lengths) and w (outputs, channels, *kernel), "
                "with the same number of axes, at least 3, and of channels"
            )
        return (a[0], b[0], *(axis.output for axis in self._axes(a, b)))

    def value(self, a: Array, b: Array) -> Any:
        axes = self._axes(a.shape, b.shape)
        y = b.reshape(len(b), -1) @ _columns(a, axes)
        y = y.reshape(len(b), len(a), *(axis.output for axis in axes))
        return np.ascontiguousarray(np.swapaxes(y, 0, 1))

    def transposed(self, g: Array, a: Array, b: Array) -> tuple[Array, Array]:
        # The columns are made again rather than kept: they are as many times larger than x as the kernel has cells.
        axes = self._axes(a.shape, b.shape)
        rows = np.swapaxes(g, 0, 1).reshape(len(b), -1)
        gb = (rows @ _columns(a, axes).T).reshape(b.shape)
        return _columns_transposed(b.reshape(len(b), -1).T @ rows, a.shape, axes), gb


def _columns(x: Array, axes: Sequence[Axis]) -> Array:
    """The windows of x as a matrix of (channels * kernel cells) rows and (batch * output cells) columns."""
    rank = len(axes)
    lengths = [axis.pad_lo + axis.length + axis.pad_hi for axis in axes]
    padded = _zeros((*x.shape[:2], *lengths), x)
    padded[(slice(None), slice(None), *(slice(axis.pad_lo, axis.pad_lo + axis.length) for axis in axes))] = x
    reach = [axis.dilation * (axis.kernel - 1) + 1 for axis in axes]
    windows = sliding_window_view(padded, reach, tuple(range(2, 2 + rank)))
    steps = [slice(None, None, axis.stride) for axis in axes] + [slice(None, None, axis.dilation) for axis in axes]
    windows = windows[(slice(None), slice(None), *steps)]
    ordered = windows.transpose(1, *range(2 + rank, 2 + 2 * rank), 0, *range(2, 2 + rank))
    rows, columns = math.prod(ordered.shape[: 1 + rank]), math.prod(ordered.shape[1 + rank :])
    return ordered.reshape(rows, columns)


def _columns_transposed(columns: Array, shape: Shape, axes: Sequence[Axis]) -> Array:
    """Every column added back to the cells of x that it was read from.

    One addition of a whole slab for each cell of the kernel, whatever the size of x.
    """
    batch, channels = shape[:2]
    kernel, outputs = [axis.kernel for axis in axes], [axis.output for axis in axes]
    slabs = columns.reshape(channels, *kernel, batch, *outputs)
    lengths = [axis.pad_lo + axis.length + axis.pad_hi for axis in axes]
    padded = _zeros((channels, batch, *lengths), columns)
    for cell in np.ndindex(*kernel):
        places = [
            slice(k * axis.dilation, k * axis.dilation + axis.stride * (axis.output - 1) + 1, axis.stride)
            for k, axis in zip(cell, axes, strict=True)
        ]
        padded[(slice(None), slice(None), *places)] += slabs[(slice(None), *cell)]
    real = [slice(axis.pad_lo, axis.pad_lo + axis.length) for axis in axes]
    return np.ascontiguousarray(np.swapaxes(padded[(slice(None), slice(None), *real)], 0, 1))


# --- log-softmax and the losses -------------------------------------------------------------------


def _log_softmax(x: Array, axis: int) -> Array:
    """`x - log(sum exp x)`, shifted by the largest before exp so that nothing overflows."""
    shifted = x - np.max(x, axis=axis, keepdims=True)
    result: Array = shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))
    return result


@dataclass(frozen=True)
class LogSoftmax(Promoting):
    """`y_i = x_i - log(sum exp(x_j))` along `axis`, `dy = dx - sum p_j dx_j` with `p = exp y`.

    >>> LogSoftmax()([0.0, 0.0]).round(6)
    array([-0.693147, -0.693147])
    """

    axis: int = -1

    keeps: ClassVar[str] = "output"

    def output_shape(self, shape: Sequence[int]) -> Shape:
        """The shape of the output, which is that of the input."""
        _check_classes(self, self.axis, tuple(shape))
        return tuple(shape)

    def __call__(self, x: ArrayLike) -> Array:
        """The output."""
        x = as_array("x", x)
        self.output_shape(x.shape)
        y: Array = _computed(lambda wide: _log_softmax(wide, self.axis), _floats(self, x))
        return y

    def _change(self, y: Array, t: Array) -> Any:
        return t - np.sum(np.exp(y) * t, axis=self.axis, keepdims=True)

    def _transposed(self, y: Array, g: Array) -> Any:
        return g - np.exp(y) * np.sum(g, axis=self.axis, keepdims=True)

    def jvp(self, x: ArrayLike, t: ArrayLike) -> tuple[Array, Array]:
        """The output, and its change along the tangent `t`."""
        x = as_array("x", x)
        y = self(x)
        return y, _computed(self._change, y, Directions.of(x).read("t", t))

    def vjp(self, x: ArrayLike) -> tuple[Array, Callable[[ArrayLike], Array]]:
        """The output, and the function that takes its cotangent back to x; it keeps the output."""
        y = self(x)
        directions = Directions.of(y)
        return y, lambda g: _computed(self._transposed, y, directions.read("g", g))


@dataclass(frozen=True)
class CrossEntropy(Promoting):
    """`y = -(1/n) sum over n rows of sum_c q_c log softmax(x)_c`, the classes along the last axis of the logits x.

    The second input is q, of the shape of x; or integer labels, of that shape less its last axis, each standing for a q
    that is 1 at its class. Nothing leans on a label: its tangent is ignored and its cotangent is 0.

    >>> round(float(CrossEntropy()([[0.0, 0.0]], [1])), 6)
    0.693147
    """

    keeps: ClassVar[str] = "inputs"

    def output_shape(self, *shapes: Sequence[int]) -> Shape:
        """`()`, for inputs of these shapes."""
        _check_count(self, shapes, 2)
        x, q = map(tuple, shapes)
        if not x or q not in (x, x[:-1]):
            raise ValueError(
                f"CrossEntropy of logits {x} and targets {q}; give targets of shape {x}, or integer labels of {x[:-1]}"
            )
        if math.prod(x) == 0:
            raise ValueError(f"CrossEntropy of logits {x}, which has no cell; a mean needs one")
        return ()

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype of the loss: labels and whole weights do not count in it."""
        x, q = dtypes
        return super().result_dtype(x) if q.kind in "biu" else super().result_dtype(x, q)

    def _read(self, x: Array, q: Array) -> tuple[Array, Array, Array, int]:
        """`log softmax(x)`, the targets as weights, their sum in each row, and the number of rows."""
        self.output_shape(x.shape, q.shape)
        logits, weights = _floats(self, x), None if q.shape != x.shape else _floats(self, q)
        dtype = _wide_dtype(x.dtype if weights is None else self.result_dtype(x.dtype, q.dtype))
        log_p = _log_softmax(logits.astype(derivative_dtype(dtype), copy=False), -1)
        q = _one_hot(q, log_p) if weights is None else weights.astype(log_p.dtype, copy=False)
        return log_p, q, np.sum(q, axis=-1, keepdims=True), math.prod(x.shape[:-1])

    def _value(self, log_p: Array, q: Array, n: int) -> Any:
        # Where q is 0 the logarithm may be -inf, and does not matter.
        return -np.sum(np.multiply(q, log_p, where=q != 0, out=np.zeros_like(log_p))) / n

    def __call__(self, x: ArrayLike, q: ArrayLike) -> Array:
        """The loss of the logits `x` against `q`, labels or weights."""
        x, q = as_array("x", x), as_array("q", q)
        log_p, weights, _, n = self._read(x, q)
        return _rounded(self._value(log_p, weights, n), self.result_dtype(x.dtype, q.dtype))

    def jvp(self, xs: Sequence[ArrayLike], ts: Sequence[ArrayLike]) -> tuple[Array, Array]:
        """The loss, and its change along the tangents `ts` of logits and targets; that of labels is ignored."""
        (x, q), (tx, tq) = (as_array("x", v) for v in xs), ts
        log_p, weights, total, n = self._read(x, q)
        dy = np.sum((np.exp(log_p) * total - weights) * Directions.of(x).read("ts[0]", tx)) / n
        if q.shape == x.shape:
            dy = dy + self._value(log_p, Directions.of(q).read("ts[1]", tq), n)
        dtype = self.result_dtype(x.dtype, q.dtype)
        return _rounded(self._value(log_p, weights, n), dtype), _rounded(dy, dtype)

    def vjp(self, x: ArrayLike, q: ArrayLike) -> tuple[Array, Callable[[ArrayLike], tuple[Array, Array]]]:
        """The loss, and the function that takes its cotangent back to logits and targets; 0 for labels."""
        x, q = as_array("x", x), as_array("q", q)
        log_p, weights, total, n = self._read(x, q)
        slope = np.exp(log_p) * total - weights
        slope_q = -log_p if q.shape == log_p.shape else None
        dtype, labels, directions = self.result_dtype(x.dtype, q.dtype), Directions.of(q), Directions((), slope.dtype)

        def pullback(g: ArrayLike) -> tuple[Array, Array]:
            share = directions.read("g", g) / n
            gq = labels.zeros() if slope_q is None else _rounded(share * slope_q, dtype)
            return _rounded(share * slope, dtype), gq

        return _rounded(self._value(log_p, weights, n), dtype), pullback


def _one_hot(labels: Array, like: Array) -> Array:
    """1 at each row's class, 0 elsewhere, in the shape and dtype of `like`."""
    if labels.dtype.kind not in "iu":
        raise TypeError(f"labels of dtype {labels.dtype} are not class numbers; give integers, or one weight a class")
    classes = like.shape[-1]
    if labels.min() < 0 or labels.max() >= classes:
        wrong = labels.min() if labels.min() < 0 else labels.max()
        raise ValueError(f"label {wrong} among {classes} classes; give labels from 0 to {classes - 1}")
    result = np.zeros_like(like)
    np.put_along_axis(result, labels[..., None].astype(np.intp), 1, axis=-1)
    return result


@dataclass(frozen=True)
class MeanSquaredError(Promoting):
    """`y = (1/n) sum of (a_i - b_i)^2` over all n cells of two arrays of one shape; `dy = (2/n) sum (a - b)(da - db)`.

    >>> MeanSquaredError()([1.0, 2.0], [1.0, 4.0])
    array(2.)
    """

    keeps: ClassVar[str] = "inputs"

    def output_shape(self, *shapes: Sequence[int]) -> Shape:
        """`()`, for inputs of these shapes."""
        _check_count(self, shapes, 2)
        a, b = map(tuple, shapes)
        if a != b:
            raise ValueError(f"MeanSquaredError of shapes {a} and {b}; make them equal, nothing is broadcast here")
        if math.prod(a) == 0:
            raise ValueError(f"MeanSquaredError of shape {a}, which has no cell; a mean needs one")
        return ()

    def _gap(self, a: Array, b: Array) -> Array:
        self.output_shape(a.shape, b.shape)
        a, b = _in_one_arithmetic(_wide(a), _wide(b))
        # Unsigned integers would wrap around.
        return _rounded(a.astype(derivative_dtype(a.dtype), copy=False) - b, a.dtype)

    def _mean(self, products: Any, gap: Array) -> Array:
        return _divided(_sum(np.asarray(products, gap.dtype)), gap.size)

    def __call__(self, a: ArrayLike, b: ArrayLike) -> Array:
        """The loss."""
        a, b = as_array("a", a), as_array("b", b)
        gap = self._gap(a, b)
        return _rounded(self._mean(gap * gap, gap), self.result_dtype(a.dtype, b.dtype))

    def jvp(self, xs: Sequence[ArrayLike], ts: Sequence[ArrayLike]) -> tuple[Array, Array]:
        """The loss, and its change along the tangents `ts` of both arrays."""
        a, b = arrays = [as_array("x", x) for x in xs]
        gap, da, db = _in_one_arithmetic(self._gap(a, b), *_directions(ts, arrays))
        dy = self._mean(2 * gap * (_wide(da) - _wide(db)), gap)
        return self(a, b), _rounded(dy, self.result_dtype(a.dtype, b.dtype))

    def vjp(self, a: ArrayLike, b: ArrayLike) -> tuple[Array, Callable[[ArrayLike], tuple[Array, Array]]]:
        """The loss, and the function that takes its cotangent back to both arrays; it keeps their difference."""
        a, b = as_array("a", a), as_array("b", b)
        gap, dtype = self._gap(a, b), self.result_dtype(a.dtype, b.dtype)
        directions = Directions((), gap.dtype, _a_number_of(gap))

        def pullback(g: ArrayLike) -> tuple[Array, Array]:
            ga = _divided(np.asarray(2 * directions.read("g", g) * gap, gap.dtype), gap.size)
            return _rounded(ga, dtype), _rounded(-ga, dtype)

        return self(a, b), pullback
