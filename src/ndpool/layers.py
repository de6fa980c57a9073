"""Stateful layers: forward, backward, train, eval; batch first, channels second.

A layer is an op with a memory: in training `forward` keeps the op's pullback, which for a max pool is one byte for
each output of windows of up to 256 cells, and `backward` calls it; in eval nothing is kept. Gradients of parameters are
left in `parameter.grad`, where SGD and Adam find them: `backward` replaces what was there.

`backward` belongs to the last `forward`. It may be called again, but not for a forward before the last one. A layer may
stand in several places of a network: every place has its own memory, and the gradients of what is learned add up.

    network = Sequential(Conv1D(1, 8, 5), ReLU(), MaxPool1D(2), Flatten(), Dense(8 * 30, 3))
    loss, optimizer = CrossEntropyLoss(), Adam(network.parameters(), lr=1e-3)
    loss.forward(network.forward(x), labels)
    network.backward(loss.backward())
    optimizer.step()
"""

from __future__ import annotations

import inspect
import itertools
import math
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from . import ops
from .arrays import as_array
from .graph import Graph, Var
from .kinds import Avg, Kind, Max, SmoothMax, derivative_dtype
from .memory import kept as kept_by
from .memory import winner_bytes
from .ops import Array, Directions, Op, Shape, lifted
from .pool import Pool
from .windows import Adaptive, AnyWindow, Axis, Global, Ints, Layout, PaddingLike, Window, checked_axes, layout, whole

__all__ = [
    "SGD",
    "Adam",
    "AdaptiveAvgPool",
    "AdaptiveMaxPool",
    "AvgPool1D",
    "AvgPool2D",
    "AvgPoolND",
    "Conv1D",
    "Conv2D",
    "CrossEntropyLoss",
    "Dense",
    "Flatten",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "Layer",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPoolND",
    "MeanSquaredErrorLoss",
    "Memory",
    "NetworkMemory",
    "OpLayer",
    "Parameter",
    "ReLU",
    "RemainderWarning",
    "Sequential",
    "SmoothMaxPoolND",
]

REMAINDERS = ("drop", "warn", "error", "ceil")

L = TypeVar("L", bound="Layer")

#: None, or one for an axis, means the kernel's side.
StrideLike: TypeAlias = int | Sequence[int | None] | None


class RemainderWarning(UserWarning):
    """Cells at the end of an axis are in no window, and the layer was not told that this is meant."""


@dataclass(eq=False)
class Parameter:
    """An array that is learned: its name, its value, and its gradient once there is one."""

    name: str
    value: Array
    grad: Array | None = None


# --- forward and backward -------------------------------------------------------------------------


@dataclass(kw_only=True)
class _Kept:
    """What one forward keeps for backward.

    `used` says whether backward has been there, `lost` whether the forward before was left without one.
    """

    lost: bool
    used: bool = False


@dataclass
class _OpKept(_Kept):
    """What the forward of one op keeps."""

    pullback: Callable[[Any], Any]
    input_shape: Shape
    outputs: Directions


@dataclass
class _NetworkKept(_Kept):
    """What each place of a network keeps; None for a layer that keeps things in its own way."""

    places: tuple[_Kept | None, ...]


class _Keeper:
    """Something that keeps what backward needs from forward. Copies and pickles of it leave that out."""

    _kept: _Kept | None = None

    def _loses(self) -> bool:
        """Whether a new forward takes the place of one that no backward has used."""
        return self._kept is not None and not self._kept.used

    def _kept_for(self, wanted: str) -> Any:
        if self._kept is None:
            raise RuntimeError(f"{self!r}.{wanted} before forward; call forward first")
        return self._kept

    def _used_by_backward(self) -> Any:
        """What was kept, for backward. After two forwards, a second backward can only be meant for the first."""
        kept = self._kept_for("backward")
        if kept.used and kept.lost:
            raise RuntimeError(
                f"{self!r}.backward again, after several forwards, of which only the last is kept; call backward after "
                "each forward, or put the object into one Sequential as often as it is used"
            )
        kept.used = True
        return kept

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_kept"}


class Layer(_Keeper, ABC):
    """`forward(x)`, then `backward(g)`; what backward needs is kept in training, and nothing is in eval.

    `layers` are the layers inside this one, which follow it into training and eval.
    """

    training: bool = True
    layers: tuple[Layer, ...] = ()

    @abstractmethod
    def forward(self, x: ArrayLike) -> Array:
        """The output for a batch `x`; in training, what `backward` needs is kept until the next call."""

    @abstractmethod
    def backward(self, g: ArrayLike) -> Array:
        """The cotangent of the last forward's input, where `g` is that of its output.

        The gradients of the parameters are put into their `grad`.
        """

    def __call__(self, x: ArrayLike) -> Array:
        """`forward(x)`."""
        return self.forward(x)

    def parameters(self) -> list[Parameter]:
        """What is learned, each once."""
        return list(dict.fromkeys(parameter for layer in self.layers for parameter in layer.parameters()))

    def train(self: L) -> L:
        """From now on forward keeps what backward needs; gives the layer itself."""
        for layer in self.layers:
            layer.train()
        self.training = True
        return self

    def eval(self: L) -> L:
        """From now on forward keeps nothing, and what was kept is dropped; gives the layer itself."""
        for layer in self.layers:
            layer.eval()
        self.training, self._kept = False, None
        return self

    def _kept_for(self, wanted: str) -> Any:
        if not self.training:
            raise RuntimeError(f"{self!r}.{wanted} in eval, where forward keeps nothing; call train(), then forward")
        return super()._kept_for(wanted)

    def _return_to(self, kept: _Kept) -> None:
        """Make an earlier forward the last one."""
        kept.used = False
        self._kept = kept

    def _argument(self, name: str) -> Any:
        """What the layer was made with, for its repr; the signature's default where that is not known."""
        return getattr(self, name, inspect.signature(type(self)).parameters[name].default)

    def __repr__(self) -> str:
        """What one would type to get the layer, without the arguments that are at their defaults."""
        shown = []
        for name, parameter in inspect.signature(type(self)).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            argument = self._argument(name)
            if parameter.default is parameter.empty:
                shown.append("..." if argument is parameter.empty else repr(argument))
            elif repr(argument) != repr(parameter.default):
                shown.append(f"{name}={argument!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


class OpLayer(Layer):
    """A layer that is one op of x and its parameters: what `op` gives for an input's shape.

    >>> class Tanh(OpLayer):
    ...     def op(self, shape):
    ...         return ops.Tanh()
    >>> layer = Tanh()
    >>> layer.forward([0.0])
    array([0.])
    >>> layer.backward([3.0])
    array([3.])
    """

    @abstractmethod
    def op(self, shape: Shape) -> Op:
        """The op for an input of this shape; after x it takes the parameters, in their order."""

    def forward(self, x: ArrayLike) -> Array:
        """The op of x and the parameters; in training its pullback is kept until the next call."""
        # What was kept goes before something new is made, and is not there for backward if that fails.
        lost, self._kept = self._loses(), None
        x = as_array("x", x)
        op = self.op(x.shape)
        inputs = (x, *(parameter.value for parameter in self.parameters()))
        if not self.training:
            return op(*inputs)
        y, pullback = op.vjp(*inputs)
        self._kept = _OpKept(pullback, x.shape, Directions.of(y), lost=lost)
        return y

    def backward(self, g: ArrayLike) -> Array:
        """The cotangent of x, where `g` is that of the output; those of the parameters are put into their `grad`."""
        g, kept = as_array("g", g), self._kept_for("backward")
        if g.shape != kept.outputs.shape:
            raise ValueError(
                f"{self!r}.backward got g of shape {g.shape}, and the last forward gave {kept.outputs.shape}; "
                "give a gradient of that shape"
            )
        result = self._used_by_backward().pullback(kept.outputs.read("g", g))
        parameters = self.parameters()
        gx, *gradients = result if parameters else (result,)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.astype(parameter.value.dtype, copy=False)
        return np.asarray(gx)


class NetworkMemory(NamedTuple):
    """Bytes of a network for one input: of what is learned, of what forward keeps for backward, and of the output.

    An array that several layers keep, such as a ReLU's output that a Dense keeps as its input, counts once. In eval,
    nothing is kept.
    """

    parameters: int
    kept: int
    output: int

    @property
    def total(self) -> int:
        """All of them together."""
        return self.parameters + self.kept + self.output


class Sequential(Layer):
    """One layer after another; one object may stand in several places.

    >>> network = Sequential(Flatten(), ReLU())
    >>> network.forward([[[1.0, -2.0], [-3.0, 4.0]]])
    array([[1., 0., 0., 4.]])
    >>> network.backward([[1.0, 1.0, 1.0, 1.0]])
    array([[[1., 0.],
            [0., 1.]]])
    """

    def __init__(self, *layers: Layer) -> None:
        for i, layer in enumerate(layers):
            if not isinstance(layer, Layer):
                raise TypeError(f"layers[{i}]={layer!r} is not a Layer; give layers one by one")
        self.layers = layers
        places_of = Counter(map(id, _all_inside(self)))
        for layer in _all_inside(self):
            places = places_of[id(layer)]
            if places > 1 and type(layer).forward not in (OpLayer.forward, Sequential.forward):
                raise TypeError(
                    f"{layer!r} is there {places} times, and its forward is of its own: what it keeps for one place "
                    "would be lost in the next; make one for each place, or derive it from OpLayer"
                )

    def forward(self, x: ArrayLike) -> Array:
        """The output of the last layer; in training every place keeps what backward needs until the next call."""
        lost, self._kept = self._loses(), None
        y, places = as_array("x", x), []
        for layer in self.layers:
            y = layer.forward(y)
            places.append(layer._kept)
        if self.training:
            self._kept = _NetworkKept(tuple(places), lost=lost)
        return y

    def backward(self, g: ArrayLike) -> Array:
        """The cotangent of the last forward's input, where `g` is that of its output.

        The gradients of parameters that stand in several places add up.
        """
        kept, g = self._used_by_backward(), as_array("g", g)
        uses = Counter(parameter for layer in self.layers for parameter in layer.parameters())
        sums: dict[Parameter, Array] = {}
        for layer, place in zip(reversed(self.layers), reversed(kept.places), strict=True):
            shared = [parameter for parameter in layer.parameters() if uses[parameter] > 1]
            for parameter in shared:
                parameter.grad = None
            if place is not None:
                layer._return_to(place)
            g = layer.backward(g)
            for parameter in shared:
                if parameter.grad is not None:
                    sums[parameter] = sums[parameter] + parameter.grad if parameter in sums else parameter.grad
        for parameter, total in sums.items():
            parameter.grad = total
        self._return_to(kept)
        kept.used = True
        return g

    def _return_to(self, kept: _Kept) -> None:
        super()._return_to(kept)
        assert isinstance(kept, _NetworkKept)
        for layer, place in zip(self.layers, kept.places, strict=True):
            if place is not None:
                layer._return_to(place)

    def memory(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> NetworkMemory:
        """The bytes for an input of this shape and dtype, in the mode that the layers are in.

        >>> network = Sequential(Flatten(), Dense(6, 4, rng=0), ReLU())
        >>> network.memory((8, 2, 3))                   # kept: x, 8 * 6 floats, and what ReLU gave, 8 * 4
        NetworkMemory(parameters=112, kept=320, output=128)
        >>> network.eval().memory((8, 2, 3)).kept
        0
        """
        graph = Graph()
        y = graph.input(shape, dtype=dtype)
        learned: dict[Parameter, Var] = {}
        keeps: list[int] = []
        for layer in _places(self):
            for p in layer.parameters():
                learned[p] = learned[p] if p in learned else graph.input(p.value.shape, dtype=p.value.dtype)
            y = graph.apply(layer.op(y.shape), y, *(learned[p] for p in layer.parameters()))
            if layer.training:
                keeps.append(y.index)
        program = graph.build(y)
        by_layer = [kept_by(program, i) for i in keeps]
        arrays = set().union(*(values for values, _ in by_layer)) - {var.index for var in learned.values()}
        kept = sum(program.nodes[i].nbytes for i in arrays) + sum(own for _, own in by_layer)
        return NetworkMemory(sum(p.value.nbytes for p in learned), kept, program.nodes[y.index].nbytes)

    def __repr__(self) -> str:
        return f"Sequential({', '.join(map(repr, self.layers))})"


def _all_inside(layer: Layer) -> Iterator[Layer]:
    """The layers inside a layer, as often as they are there."""
    for inner in layer.layers:
        yield inner
        yield from _all_inside(inner)


def _places(network: Sequential) -> Iterator[OpLayer]:
    """The ops of a network, in the order in which they run."""
    for layer in network.layers:
        if isinstance(layer, Sequential):
            yield from _places(layer)
        elif isinstance(layer, OpLayer):
            yield layer
        else:
            raise TypeError(f"{layer!r} is no OpLayer, and what it keeps is not known; derive it from OpLayer")


# --- pooling --------------------------------------------------------------------------------------


class Memory(NamedTuple):
    """Bytes of a pooling layer for one input: of its output, of its winners, and of what else a training step needs.

    A winner is its place in its window: it takes 1 byte for windows of up to 256 cells, 2 for up to 65,536, then 4.
    `scratch` is the gradient of the input, which backward makes, and what else forward keeps: the input of a smooth
    maximum, which its weights are computed from, and input and output of a maximum without single winners. In eval,
    mask and scratch are 0.
    """

    output: int
    mask: int
    scratch: int

    @property
    def total(self) -> int:
        """All of them together."""
        return self.output + self.mask + self.scratch


class _PoolLayer(OpLayer):
    """A kind over all axes after batch and channels."""

    kind: Kind
    rank: int | None = None
    _pool: Pool | None = None

    @abstractmethod
    def window(self, shape: Shape) -> AnyWindow:
        """The window for an input of this shape."""

    def pooled_axes(self, shape: Shape) -> tuple[int, ...]:
        """The axes that are pooled: all after batch and channels."""
        spatial = len(shape) - 2
        if spatial < 1 or self.rank not in (None, spatial):
            lengths = "one length or more" if self.rank is None else f"{self.rank} length{'s' * (self.rank > 1)}"
            raise ValueError(
                f"{self!r} takes x with batch, channels and {lengths}, and got shape {shape}; reshape it, "
                "with lengths of 1 for a batch or channels that are missing"
            )
        return tuple(range(2, len(shape)))

    def op(self, shape: Shape) -> Pool:
        """The pool for an input of this shape."""
        axes, window = self.pooled_axes(shape), self.window(shape)
        # One pool for all calls: it holds the engine's plans for the shapes that it has seen.
        if self._pool is None or self._pool.axes != axes:
            self._pool = Pool(self.kind, window, axes)
        return self._pool

    def memory(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> Memory:
        """The bytes for an input of this shape and dtype, in the mode that the layer is in.

        >>> layer = MaxPool2D(2, 2)
        >>> layer.memory((1, 8, 16, 16), np.int8).mask, layer.memory((1, 8, 16, 16), np.float32).mask
        (512, 512)
        >>> layer.eval().memory((1, 8, 16, 16))
        Memory(output=2048, mask=0, scratch=0)
        """
        shape, dtype = tuple(whole("shape", n, 0) for n in shape), np.dtype(dtype)
        pool = self.op(shape)
        output = math.prod(pool.output_shape(shape)) * self.kind.result_dtype(dtype).itemsize
        if not self.training:
            return Memory(output, 0, 0)
        gradient, x = math.prod(shape) * derivative_dtype(dtype).itemsize, math.prod(shape) * dtype.itemsize
        if isinstance(self.kind, Max) and self.kind.ties == "first":
            return Memory(output, winner_bytes(pool, shape), gradient)
        kept = x + output if isinstance(self.kind, Max) else x if isinstance(self.kind, SmoothMax) else 0
        return Memory(output, 0, gradient + kept)


class _WindowLayer(_PoolLayer):
    """A pool over windows, which says what becomes of the cells that no window reaches."""

    def __init__(
        self, kind: Kind, kernel_size: Any, stride: Any, padding: PaddingLike, dilation: Ints, remainder: str
    ) -> None:
        if remainder not in REMAINDERS:
            raise ValueError(f"remainder={remainder!r} is not a policy; give one of {REMAINDERS}")
        if not isinstance(kernel_size, Iterable):
            raise TypeError(f"kernel_size={kernel_size!r} is for no axis; give one int for each, such as (2, 2)")
        kernel = tuple(kernel_size)
        steps = tuple(stride) if isinstance(stride, Iterable) else (stride,) * len(kernel)
        if len(steps) != len(kernel):
            raise ValueError(
                f"stride={stride!r} has {len(steps)} entries and the kernel {len(kernel)}; make them agree"
            )
        chosen = tuple(k if _means_kernel(s) else s for k, s in zip(kernel, steps, strict=True))
        self._window = Window(kernel, chosen, padding, dilation, ceil_mode=remainder == "ceil")
        self.kind, self.rank, self.remainder = kind, len(kernel), remainder
        # As they would be typed, for the repr: strides that are the kernel's sides are left out.
        self._strides = tuple(None if k == s else s for k, s in zip(kernel, chosen, strict=True))
        self.kernel_size: Any = self._window.kernel_size
        self.stride: Any = None if chosen == kernel else self._window.stride
        self.padding, self.dilation = self._window.padding, self._window.dilation

    def window(self, shape: Shape) -> Window:
        if self.remainder in ("warn", "error"):
            dropped = [
                f"the last {_dropped(axis)} of {axis.length} cells of axis {2 + d}"
                for d, axis in enumerate(self._window.axes_of(shape[2:]))
                if _dropped(axis)
            ]
            if dropped:
                self._complain(f"{self!r} drops {' and '.join(dropped)}, which are in no window")
        return self._window

    def _complain(self, message: str) -> None:
        remedy = (
            "pad or crop the input, or choose remainder='drop' to drop them silently or 'ceil' for a partial window"
        )
        if self.remainder == "error":
            raise ValueError(f"{message}; {remedy}")
        warnings.warn(f"{message}; {remedy}", RemainderWarning, stacklevel=5)


def _means_kernel(stride: Any) -> bool:
    """Whether a stride stands for the kernel's side: None, or tiny_pool's negative number."""
    return stride is None or (isinstance(stride, int | np.integer) and int(stride) < 0)


def _dropped(axis: Axis) -> int:
    """How many cells at the end another, partial window would see; a gap that the stride leaves is not meant."""
    end = (axis.output - 1) * axis.stride - axis.pad_lo + axis.dilation * (axis.kernel - 1) + 1
    next_start = axis.output * axis.stride - axis.pad_lo
    return max(0, axis.length - max(end, next_start))


class _MaxLayer(_PoolLayer):
    """A max pool whose winners can be looked at."""

    def mask(self) -> NDArray[np.int64]:
        """Where each output came from in the last forward: its place in x, without padding, the first one at ties.

        In one dimension the index, `[B, C, Lo]`; in two, row and column side by side, `[B, C, OH, OW*2]`; and so on.

        >>> layer = MaxPool1D(2)
        >>> layer.forward([[[1.0, 3.0, 2.0, 5.0, 4.0, 6.0]]])
        array([[[3., 5., 6.]]])
        >>> layer.mask()
        array([[[1, 3, 5]]])
        """
        kept = self._kept_for("mask")
        pool = self.op(kept.input_shape)
        winners = self._winners(kept, layout(pool.window, pool.axes, kept.input_shape, None))
        return winners.reshape(*kept.outputs.shape[:-1], -1)

    def _winners(self, kept: _OpKept, laid: Layout) -> NDArray[np.int64]:
        """The winners' coordinates, last axis."""
        return _winners_of_windows(kept, laid.geometry)


def _winners_of_windows(kept: _OpKept, axes: Sequence[Axis]) -> NDArray[np.int64]:
    """The winners' coordinates, last axis, read off the pullback: where a cotangent of 1 goes is who won.

    All outputs whose windows do not overlap are asked together, so nothing but the pullback has to be kept.
    """
    spans = [_spans(axis) for axis in axes]
    apart = [_apart(starts, ends) for starts, ends in spans]
    winners = np.zeros((*kept.outputs.shape, len(axes)), np.int64)
    for first in itertools.product(*map(range, apart)):
        asked = tuple(slice(r, None, m) for r, m in zip(first, apart, strict=True))
        g = np.zeros(kept.outputs.shape)
        g[(slice(None), slice(None), *asked)] = 1
        batch, channel, *places = np.nonzero(kept.pullback(g))
        outputs = [
            r + m * (np.searchsorted(starts[r::m], place, side="right") - 1)
            for r, m, (starts, _), place in zip(first, apart, spans, places, strict=True)
        ]
        winners[(batch, channel, *outputs)] = np.stack(places, axis=-1)
    return winners


def _spans(axis: Axis) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each window starts, and the place after its last cell."""
    i = np.arange(axis.output)
    if axis.adaptive:
        return i * axis.length // axis.output, -(-(i + 1) * axis.length // axis.output)
    starts = i * axis.stride - axis.pad_lo
    return starts, starts + axis.dilation * (axis.kernel - 1) + 1


def _apart(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
    """How many windows further on none overlaps any more."""
    m = 1
    while np.any(ends[:-m] > starts[m:]):
        m += 1
    return m


class MaxPoolND(_WindowLayer, _MaxLayer):
    """`y = max x_i` over windows of `kernel_size`, one int for each axis after batch and channels.

    `stride`, `padding` and `dilation` are as in `Window`; a negative stride means the kernel, as None does. Ties go to
    the first. `remainder` says what happens to cells at the end that fill no window: they are dropped silently ("drop")
    or with a warning ("warn"), are an error ("error"), or get a partial window ("ceil").

    >>> MaxPoolND((2, 2, 2)).forward(np.arange(8.0).reshape(1, 1, 2, 2, 2))
    array([[[[[7.]]]]])
    """

    def __init__(
        self,
        kernel_size: Sequence[int],
        stride: StrideLike = None,
        padding: PaddingLike = 0,
        dilation: Ints = 1,
        *,
        remainder: str = "warn",
    ) -> None:
        super().__init__(Max(), kernel_size, stride, padding, dilation, remainder)


class AvgPoolND(_WindowLayer):
    """`y = (sum x_i) / n` over windows of `kernel_size`; other arguments as in `MaxPoolND`.

    Padding counts in n, unless `count_include_pad` is False.

    >>> AvgPoolND((2, 2, 2)).forward(np.arange(8.0).reshape(1, 1, 2, 2, 2))
    array([[[[[3.5]]]]])
    """

    def __init__(
        self,
        kernel_size: Sequence[int],
        stride: StrideLike = None,
        padding: PaddingLike = 0,
        dilation: Ints = 1,
        *,
        count_include_pad: bool = True,
        remainder: str = "warn",
    ) -> None:
        super().__init__(Avg(count_include_pad), kernel_size, stride, padding, dilation, remainder)
        self.count_include_pad = count_include_pad


class SmoothMaxPoolND(_WindowLayer):
    """`y = log(sum exp(beta x_i)) / beta` over windows of `kernel_size`; other arguments as in `MaxPoolND`.

    A padded cell is the number 0, unless `count_include_pad` is False: then it is ignored.

    >>> SmoothMaxPoolND(1.0, (2,)).forward([[[0.0, 1.0]]]).round(6)
    array([[[1.313262]]])
    """

    def __init__(
        self,
        beta: float,
        kernel_size: Sequence[int],
        stride: StrideLike = None,
        padding: PaddingLike = 0,
        dilation: Ints = 1,
        *,
        count_include_pad: bool = True,
        remainder: str = "warn",
    ) -> None:
        kind = SmoothMax(beta, count_include_pad)
        super().__init__(kind, kernel_size, stride, padding, dilation, remainder)
        self.beta, self.count_include_pad = kind.beta, count_include_pad


class MaxPool1D(MaxPoolND):
    """Max over windows of `kernel_size` cells of `[B, C, L]`; a negative stride or None means the kernel.

    >>> layer = MaxPool1D(2)
    >>> layer.forward([[[1.0, 3.0, 2.0, 5.0, 4.0, 6.0]]])
    array([[[3., 5., 6.]]])
    >>> layer.backward([[[0.1, 0.2, 0.3]]])
    array([[[0. , 0.1, 0. , 0.2, 0. , 0.3]]])
    """

    def __init__(self, kernel_size: int, stride: int | None = None, *, remainder: str = "warn") -> None:
        super().__init__((kernel_size,), (stride,), remainder=remainder)
        (self.kernel_size,), (self.stride,) = self.kernel_size, self._strides


class AvgPool1D(AvgPoolND):
    """Mean over windows of `kernel_size` cells of `[B, C, L]`; a negative stride or None means the kernel.

    >>> layer = AvgPool1D(2)
    >>> layer.forward([[[1.0, 3.0, 2.0, 6.0, 4.0, 8.0]]])
    array([[[2., 4., 6.]]])
    >>> layer.backward([[[0.2, 0.4, 0.6]]])
    array([[[0.1, 0.1, 0.2, 0.2, 0.3, 0.3]]])
    """

    def __init__(self, kernel_size: int, stride: int | None = None, *, remainder: str = "warn") -> None:
        super().__init__((kernel_size,), (stride,), remainder=remainder)
        (self.kernel_size,), (self.stride,) = self.kernel_size, self._strides


class MaxPool2D(MaxPoolND):
    """Max over windows of kH x kW cells of `[B, C, H, W]`, in steps of sH x sW; None, or less than 0: the kernel.

    >>> layer = MaxPool2D(2, 2)
    >>> layer.forward([[[[1.0, 2.0], [4.0, 3.0]]]])
    array([[[[4.]]]])
    >>> layer.mask()
    array([[[[1, 0]]]])
    """

    def __init__(
        self, kH: int, kW: int, sH: int | None = None, sW: int | None = None, *, remainder: str = "warn"
    ) -> None:
        super().__init__((kH, kW), (sH, sW), remainder=remainder)
        (self.kH, self.kW), (self.sH, self.sW) = self.kernel_size, self._strides


class AvgPool2D(AvgPoolND):
    """Mean over windows of kH x kW cells of `[B, C, H, W]`, in steps of sH x sW; None, or less than 0: the kernel.

    >>> AvgPool2D(2, 2).forward([[[[1.0, 2.0], [4.0, 3.0]]]])
    array([[[[2.5]]]])
    """

    def __init__(
        self, kH: int, kW: int, sH: int | None = None, sW: int | None = None, *, remainder: str = "warn"
    ) -> None:
        super().__init__((kH, kW), (sH, sW), remainder=remainder)
        (self.kH, self.kW), (self.sH, self.sW) = self.kernel_size, self._strides


class _AdaptiveLayer(_PoolLayer):
    """A pool over even bins, as many as there should be outputs."""

    def __init__(self, output_size: int | tuple[int | None, ...]) -> None:
        self.output_size = Adaptive(output_size).output_size
        self.rank = len(self.output_size) if isinstance(self.output_size, tuple) else None

    def window(self, shape: Shape) -> Adaptive:
        return Adaptive(self.output_size)


class AdaptiveMaxPool(_AdaptiveLayer, _MaxLayer):
    """Max over `output_size` even bins of each axis after batch and channels: one int for all, or one an axis.

    >>> AdaptiveMaxPool(3).forward([[[1.0, 2.0, 3.0, 4.0, 5.0]]])
    array([[[2., 4., 5.]]])
    """

    kind = Max()


class AdaptiveAvgPool(_AdaptiveLayer):
    """Mean over `output_size` even bins of each axis after batch and channels: one int for all, or one an axis.

    >>> AdaptiveAvgPool(3).forward([[[1.0, 2.0, 3.0, 4.0, 5.0]]])
    array([[[1.5, 3. , 4.5]]])
    """

    kind = Avg()


class _GlobalLayer(_PoolLayer):
    """A pool over the whole of some axes."""

    def __init__(self, axes: Ints | None, keepdims: bool) -> None:
        self._window = Global(keepdims)
        self.axes = None if axes is None else checked_axes(axes, self._window)
        self.keepdims = keepdims

    def pooled_axes(self, shape: Shape) -> tuple[int, ...]:
        """The axes that were named, or all after batch and channels."""
        return super().pooled_axes(shape) if self.axes is None else self.axes

    def window(self, shape: Shape) -> Global:
        return self._window


class GlobalMaxPool(_GlobalLayer, _MaxLayer):
    """Max over everything in a channel, whatever its rank: `[B, C, ...]` to `[B, C, 1, ...]`.

    As in the function `ndpool.global_max_pool`, `ties` is "all": every maximum gets the full gradient, for which the
    input is kept. With "first" the winners alone are kept. `axes` and `keepdims` are as in the function too, but
    without `axes` all axes after batch and channels are pooled, where the function pools the last two.

    >>> layer = GlobalMaxPool()
    >>> layer.forward([[[1.0, 3.0, 3.0]]]), layer.mask()
    (array([[[3.]]]), array([[[1]]]))
    >>> layer.backward([[[0.5]]])
    array([[[0. , 0.5, 0.5]]])
    """

    def __init__(self, *, ties: str = "all", axes: Ints | None = None, keepdims: bool = True) -> None:
        super().__init__(axes, keepdims)
        self.kind, self.ties = Max(ties), ties

    def _winners(self, kept: _OpKept, laid: Layout) -> NDArray[np.int64]:
        # All winners get some of a cotangent of 1; the first is the first cell that does.
        won = np.moveaxis(kept.pullback(np.ones(kept.outputs.shape)) != 0, laid.axes, range(-len(laid.axes), 0))
        lengths = [axis.length for axis in laid.geometry]
        first = won.reshape(*won.shape[: -len(lengths)], -1).argmax(-1)
        return np.stack(np.unravel_index(first, lengths), axis=-1).reshape(*kept.outputs.shape, len(lengths))


class GlobalAvgPool(_GlobalLayer):
    """Mean over everything in a channel, whatever its rank: `[B, C, ...]` to `[B, C, 1, ...]`.

    `axes` and `keepdims` are as in the function `ndpool.global_avg_pool`, but without `axes` all axes after batch and
    channels are pooled, where the function pools the last two. For a sequence of features, `[B, S, F]` to `[B, F]`, as
    tiny_pool's layer of this name has it, that is `GlobalAvgPool(axes=1, keepdims=False)`.

    >>> GlobalAvgPool().forward([[[1.0, 3.0, 2.0]]])
    array([[[2.]]])
    >>> GlobalAvgPool(axes=1, keepdims=False).forward([[[1.0, 3.0], [2.0, 5.0]]])
    array([[1.5, 4. ]])
    """

    kind = Avg()

    def __init__(self, *, axes: Ints | None = None, keepdims: bool = True) -> None:
        super().__init__(axes, keepdims)


# --- the other layers -----------------------------------------------------------------------------


class ReLU(OpLayer):
    """`y = max(x, 0)`.

    >>> ReLU().forward([-1.0, 2.0])
    array([0., 2.])
    """

    def op(self, shape: Shape) -> ops.Relu:
        """`ops.Relu`."""
        return ops.Relu()


class Flatten(OpLayer):
    """All axes but the batch as one.

    >>> Flatten().forward(np.zeros((2, 3, 4))).shape
    (2, 12)
    """

    def op(self, shape: Shape) -> ops.Flatten:
        """`ops.Flatten`."""
        return ops.Flatten()


class _Affine(OpLayer):
    """A product with a learned weight, and a learned bias unless it is left out.

    Weights start normally distributed with variance 2 / (inputs of a cell), which keeps the size of activations through
    ReLUs (He et al. 2015); biases start at 0.
    """

    def __init__(self, shape: Shape, bias: bool, rng: np.random.Generator | int | None, dtype: DTypeLike) -> None:
        if np.dtype(dtype).kind not in "fcV":
            raise TypeError(
                f"dtype={np.dtype(dtype).name!r} does not hold random floats; give a dtype of floats, and for other "
                "numbers set weight.value and bias.value"
            )
        draws = np.random.default_rng(rng).normal(size=shape) * math.sqrt(2 / math.prod(shape[1:]))
        self.weight = Parameter(f"{type(self).__name__}.weight", draws.astype(dtype))
        self.bias = Parameter(f"{type(self).__name__}.bias", np.zeros(shape[0], dtype)) if bias else None

    def parameters(self) -> list[Parameter]:
        """The weight, and the bias if there is one."""
        return [self.weight] if self.bias is None else [self.weight, self.bias]

    def _argument(self, name: str) -> Any:
        if name == "bias":
            return self.bias is not None
        if name == "dtype":
            dtype = self.weight.value.dtype
            return np.float32 if dtype == np.float32 else dtype.name
        return super()._argument(name)


class Dense(_Affine):
    """`y = x w^T + bias` on the last axis, from `inputs` cells to `outputs`.

    `rng` draws the first weights: a generator or a seed. `bias` says whether there is one, `dtype` what both are in.

    >>> Dense(3, 2, rng=0).forward(np.ones((4, 3))).shape
    (4, 2)
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        bias: bool = True,
        rng: np.random.Generator | int | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        self.inputs, self.outputs = whole("inputs", inputs, 1), whole("outputs", outputs, 1)
        super().__init__((self.outputs, self.inputs), bias, rng, dtype)

    def op(self, shape: Shape) -> ops.Linear:
        """`ops.Linear`."""
        return ops.Linear()


class _Conv(_Affine):
    """A convolution of the rank that the class says; see `ndpool.ops.Conv`."""

    rank: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: PaddingLike = 0,
        dilation: Ints = 1,
        *,
        bias: bool = True,
        rng: np.random.Generator | int | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        kernel = tuple(kernel_size) if isinstance(kernel_size, Iterable) else (kernel_size,) * self.rank
        if len(kernel) != self.rank:
            raise ValueError(f"kernel_size={kernel_size!r} has {len(kernel)} entries; give one int, or {self.rank}")
        sides = tuple(whole("kernel_size", k, 1) for k in kernel)
        self.in_channels = whole("in_channels", in_channels, 1)
        self.out_channels = whole("out_channels", out_channels, 1)
        self.kernel_size = sides if isinstance(kernel_size, Iterable) else sides[0]
        self._op = ops.Conv(stride, padding, dilation)
        self.stride, self.padding, self.dilation = self._op.stride, self._op.padding, self._op.dilation
        super().__init__((self.out_channels, self.in_channels, *sides), bias, rng, dtype)

    def op(self, shape: Shape) -> ops.Conv:
        """`ops.Conv` with this stride, padding and dilation."""
        return self._op


class Conv1D(_Conv):
    """`[B, C, L]` to `[B, out_channels, Lo]`: a learned kernel over each place of a signal.

    `stride`, `padding` and `dilation` are as in `ndpool.ops.Conv`; `bias`, `rng` and `dtype` as in `Dense`.

    >>> Conv1D(1, 4, 5, rng=0).forward(np.zeros((2, 1, 64))).shape
    (2, 4, 60)
    """

    rank = 1


class Conv2D(_Conv):
    """`[B, C, H, W]` to `[B, out_channels, Ho, Wo]`: a learned kernel over each place of a picture.

    `stride`, `padding` and `dilation` are as in `ndpool.ops.Conv`; `bias`, `rng` and `dtype` as in `Dense`.

    >>> Conv2D(1, 4, 3, padding="same", rng=0).forward(np.zeros((2, 1, 8, 8))).shape
    (2, 4, 8, 8)
    """

    rank = 2


# --- losses ---------------------------------------------------------------------------------------


class _Loss(_Keeper):
    """A number that says how far predictions are from targets: `forward(x, target)`, then `backward()`."""

    op: ClassVar[Op]

    def forward(self, x: ArrayLike, target: ArrayLike) -> Array:
        """The loss of the predictions `x`, an array with one number."""
        lost, self._kept = self._loses(), None
        y, pullback = self.op.vjp(x, target)
        self._kept = _OpKept(pullback, np.shape(x), Directions.of(y), lost=lost)
        return y

    def __call__(self, x: ArrayLike, target: ArrayLike) -> Array:
        """`forward(x, target)`."""
        return self.forward(x, target)

    def backward(self) -> Array:
        """The gradient of the last loss for the predictions."""
        kept = self._used_by_backward()
        gx, _ = kept.pullback(kept.outputs.read("1", 1))
        return np.asarray(gx)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class CrossEntropyLoss(_Loss):
    """The mean over a batch of `-log softmax(x)[label]`; targets may be weights of the classes too.

    >>> loss = CrossEntropyLoss()
    >>> round(float(loss.forward([[0.0, 0.0]], [1])), 6)
    0.693147
    >>> loss.backward()
    array([[ 0.5, -0.5]])
    """

    op = ops.CrossEntropy()


class MeanSquaredErrorLoss(_Loss):
    """The mean of `(x_i - target_i)^2` over all cells.

    >>> loss = MeanSquaredErrorLoss()
    >>> float(loss.forward([1.0, 2.0], [1.0, 4.0]))
    2.0
    >>> loss.backward()
    array([ 0., -2.])
    """

    op = ops.MeanSquaredError()


# --- optimizers -----------------------------------------------------------------------------------


class _Optimizer(ABC):
    """Takes a step against the gradients that backward left. Values are replaced, never written into."""

    def __init__(self, parameters: Iterable[Parameter], lr: float) -> None:
        self.parameters = list(parameters)
        for i, parameter in enumerate(self.parameters):
            if not isinstance(parameter, Parameter):
                raise TypeError(f"parameters[{i}]={parameter!r} is not a Parameter; give layer.parameters()")
            if parameter in self.parameters[:i]:
                raise ValueError(f"parameters[{i}] is {parameter.name!r} again, and would take two steps; give it once")
        self.lr = _in_range("lr", lr, 0, math.inf)
        self.steps = 0

    @abstractmethod
    def _change(self, i: int, grad: Array) -> Array:
        """What to subtract from the i-th parameter, divided by lr."""

    def step(self) -> None:
        """`value = value - lr * change` for each parameter."""
        self.steps += 1
        for i, parameter in enumerate(self.parameters):
            if parameter.grad is None:
                raise RuntimeError(f"parameter {parameter.name!r} has no gradient; call backward before step")
            change = self._change(i, parameter.grad)
            parameter.value = np.asarray(parameter.value - lifted(self.lr, change) * change)


class SGD(_Optimizer):
    """`v = momentum * v + grad`, `value -= lr * v`, where v starts at 0.

    `lr` and `momentum` may be Fractions, for steps of exact parameters that are exact.

    >>> p = Parameter("p", np.array([1.0]), grad=np.array([2.0]))
    >>> SGD([p], lr=0.1).step()
    >>> p.value
    array([0.8])
    """

    def __init__(self, parameters: Iterable[Parameter], lr: float, *, momentum: float = 0.0) -> None:
        super().__init__(parameters, lr)
        self.momentum = _in_range("momentum", momentum, 0, 1)
        self._velocity: list[Array | None] = [None] * len(self.parameters)

    def _change(self, i: int, grad: Array) -> Array:
        before = self._velocity[i]
        velocity = grad if before is None else np.asarray(lifted(self.momentum, before) * before + grad)
        self._velocity[i] = velocity
        return velocity


class Adam(_Optimizer):
    """`m = b1 m + (1 - b1) grad`, `v = b2 v + (1 - b2) grad^2`, `value -= lr * m' / (sqrt(v') + eps)`.

    m' and v' are m and v divided by `1 - b^steps`, which undoes their start from 0 (Kingma and Ba 2015).

    >>> p = Parameter("p", np.array([1.0]), grad=np.array([2.0]))
    >>> Adam([p], lr=0.1).step()
    >>> p.value.round(6)
    array([0.9])
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(parameters, lr)
        self.betas = _in_range("betas[0]", betas[0], 0, 1), _in_range("betas[1]", betas[1], 0, 1)
        self.eps = _in_range("eps", eps, 0, math.inf)
        self._mean = [np.zeros_like(p.value) for p in self.parameters]
        self._square = [np.zeros_like(p.value) for p in self.parameters]

    def _change(self, i: int, grad: Array) -> Array:
        if grad.dtype.kind == "O":
            raise TypeError(f"the gradient of {self.parameters[i].name!r} has exact numbers, and Adam a root; use SGD")
        b1, b2 = self.betas
        self._mean[i] = b1 * self._mean[i] + (1 - b1) * grad
        self._square[i] = b2 * self._square[i] + (1 - b2) * grad * grad
        mean, square = self._mean[i] / (1 - b1**self.steps), self._square[i] / (1 - b2**self.steps)
        return np.asarray(mean / (np.sqrt(square) + self.eps))


def _in_range(name: str, value: Any, low: float, high: float) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction | np.integer | np.floating):
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}; give a number")
    if not low <= value < high:
        raise ValueError(f"{name}={value!r} must be at least {low} and less than {high}")
    return value if isinstance(value, Fraction) else float(value)
