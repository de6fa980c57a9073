"""Stateful layers: forward, backward, train, eval; batch first, channels second.

A layer is an op with a memory: in training `forward` keeps the op's pullback, which for a max pool is one byte for
each output, and `backward` calls it; in eval nothing is kept. Gradients of parameters are left in `parameter.grad`,
where SGD and Adam find them.

    network = Sequential(Conv1D(1, 8, 5), ReLU(), MaxPool1D(2), Flatten(), Dense(8 * 30, 3))
    loss, optimizer = CrossEntropyLoss(), Adam(network.parameters(), lr=1e-3)
    loss.forward(network.forward(x), labels)
    network.backward(loss.backward())
    optimizer.step()
"""

from __future__ import annotations

import itertools
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from . import ops
from .kinds import Avg, Kind, Max, SmoothMax, derivative_dtype
from .ops import Array, Op, Shape
from .pictures import winner_bytes
from .pool import Pool
from .windows import Adaptive, AnyWindow, Axis, Global, Ints, PaddingLike, Window, layout, whole

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
    "OpLayer",
    "Parameter",
    "ReLU",
    "RemainderWarning",
    "Sequential",
    "SmoothMaxPoolND",
]

REMAINDERS = ("drop", "warn", "error", "ceil")

L = TypeVar("L", bound="Layer")


class RemainderWarning(UserWarning):
    """Cells at the end of an axis are in no window, and the layer was not told that this is meant."""


@dataclass(eq=False)
class Parameter:
    """An array that is learned, and its gradient once there is one."""

    name: str
    value: Array
    grad: Array | None = None


@dataclass(frozen=True)
class _Kept:
    """What training keeps from forward for backward."""

    pullback: Callable[[Array], Any]
    input_shape: Shape
    output_shape: Shape


class Layer(ABC):
    """`forward(x)`, then `backward(g)`; what backward needs is kept in training, and nothing is in eval.

    `layers` are the layers inside this one, which follow it into training and eval.
    """

    training: bool = True
    layers: tuple[Layer, ...] = ()
    _kept: _Kept | None = None

    @abstractmethod
    def forward(self, x: ArrayLike) -> Array:
        """The output; in training, what `backward` needs is kept until the next call."""

    @abstractmethod
    def backward(self, g: ArrayLike) -> Array:
        """The cotangent of the input; those of the parameters are put into their `grad`."""

    def __call__(self, x: ArrayLike) -> Array:
        return self.forward(x)

    def parameters(self) -> list[Parameter]:
        """What is learned."""
        return [parameter for layer in self.layers for parameter in layer.parameters()]

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

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


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
        x = np.asarray(x)
        op = self.op(x.shape)
        inputs = (x, *(parameter.value for parameter in self.parameters()))
        if not self.training:
            return op(*inputs)
        y, pullback = op.vjp(*inputs)
        self._kept = _Kept(pullback, x.shape, y.shape)
        return y

    def backward(self, g: ArrayLike) -> Array:
        kept = self._keepsake("backward")
        g = np.asarray(g)
        if g.shape != kept.output_shape:
            raise ValueError(
                f"{self!r}.backward got g of shape {g.shape}, and the last forward gave {kept.output_shape}; "
                "give a gradient of that shape"
            )
        result = kept.pullback(g)
        parameters = self.parameters()
        gx, *gradients = result if parameters else (result,)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.astype(parameter.value.dtype, copy=False)
        return np.asarray(gx)

    def _keepsake(self, wanted: str) -> _Kept:
        if not self.training:
            raise RuntimeError(f"{self!r}.{wanted} in eval, where forward keeps nothing; call train(), then forward")
        if self._kept is None:
            raise RuntimeError(f"{self!r}.{wanted} before forward; call forward first")
        return self._kept


class Sequential(Layer):
    """One layer after another.

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

    def forward(self, x: ArrayLike) -> Array:
        y = np.asarray(x)
        for layer in self.layers:
            y = layer.forward(y)
        return y

    def backward(self, g: ArrayLike) -> Array:
        g = np.asarray(g)
        for layer in reversed(self.layers):
            g = layer.backward(g)
        return g

    def __repr__(self) -> str:
        return f"Sequential({', '.join(map(repr, self.layers))})"


# --- pooling --------------------------------------------------------------------------------------


class Memory(NamedTuple):
    """Bytes of a pooling layer for one input: of its output, of its winners, and of what else a training step needs.

    `scratch` is the gradient of the input, which backward makes, and for a smooth maximum the input, which its weights
    are computed from. In eval, mask and scratch are 0.
    """

    output: int
    mask: int
    scratch: int

    @property
    def total(self) -> int:
        return self.output + self.mask + self.scratch


class _PoolLayer(OpLayer):
    """A kind over all axes after batch and channels."""

    kind: Kind
    rank: int | None = None
    _pool: Pool | None = None

    @abstractmethod
    def window(self, shape: Shape) -> AnyWindow:
        """The window for an input of this shape."""

    def op(self, shape: Shape) -> Pool:
        spatial = len(shape) - 2
        if spatial < 1 or self.rank not in (None, spatial):
            lengths = "one length or more" if self.rank is None else f"{self.rank} length{'s' * (self.rank > 1)}"
            raise ValueError(
                f"{self!r} takes x with batch, channels and {lengths}, and got shape {shape}; reshape it, "
                "with lengths of 1 for a batch or channels that are missing"
            )
        window, axes = self.window(shape), tuple(range(2, len(shape)))
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
        gradient = math.prod(shape) * derivative_dtype(dtype).itemsize
        kept_input = math.prod(shape) * dtype.itemsize if isinstance(self.kind, SmoothMax) else 0
        return Memory(output, winner_bytes(pool, shape) if isinstance(self.kind, Max) else 0, gradient + kept_input)


class _WindowLayer(_PoolLayer):
    """A pool over windows, which says what becomes of the cells that no window reaches."""

    def __init__(
        self, kind: Kind, kernel: tuple[int, ...], stride: Ints, padding: PaddingLike, dilation: Ints, remainder: str
    ) -> None:
        if remainder not in REMAINDERS:
            raise ValueError(f"remainder={remainder!r} is not a policy; give one of {REMAINDERS}")
        self.kind, self.rank, self.remainder = kind, len(kernel), remainder
        steps = tuple(stride) if isinstance(stride, Sequence) else (stride,) * len(kernel)
        if len(steps) != len(kernel):
            raise ValueError(
                f"stride={stride!r} has {len(steps)} entries and the kernel {len(kernel)}; make them agree"
            )
        chosen = tuple(k if isinstance(s, int) and s < 0 else s for k, s in zip(kernel, steps, strict=True))
        self._window = Window(kernel, chosen, padding, dilation, ceil_mode=remainder == "ceil")

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

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kernel {self._window.kernel_size}, stride {self._window.stride})"


def _dropped(axis: Axis) -> int:
    """How many cells at the end another, partial window would see; a gap that the stride leaves is not meant."""
    end = (axis.output - 1) * axis.stride - axis.pad_lo + axis.dilation * (axis.kernel - 1) + 1
    next_start = axis.output * axis.stride - axis.pad_lo
    return max(0, axis.length - max(end, next_start))


class _MaxLayer(_PoolLayer):
    """A max pool whose winners can be looked at. Ties go to the first: one winner is kept for each output."""

    def mask(self) -> NDArray[np.int64]:
        """Where each output came from in the last forward: its place in x, without padding.

        In one dimension the index, `[B, C, Lo]`; in two, row and column side by side, `[B, C, OH, OW*2]`; and so on.

        >>> layer = MaxPool1D(2)
        >>> layer.forward([[[1.0, 3.0, 2.0, 5.0, 4.0, 6.0]]])
        array([[[3., 5., 6.]]])
        >>> layer.mask()
        array([[[1, 3, 5]]])
        """
        kept = self._keepsake("mask")
        pool = self.op(kept.input_shape)
        winners = _winners(kept, layout(pool.window, pool.axes, kept.input_shape, None).geometry)
        return winners.reshape(*kept.output_shape[:-1], -1)


def _winners(kept: _Kept, axes: Sequence[Axis]) -> NDArray[np.int64]:
    """The winners' coordinates, last axis, read off the pullback: where a cotangent of 1 goes is who won.

    All outputs whose windows do not overlap are asked together, so nothing but the pullback has to be kept.
    """
    spans = [_spans(axis) for axis in axes]
    apart = [_apart(starts, ends) for starts, ends in spans]
    winners = np.zeros((*kept.output_shape, len(axes)), np.int64)
    for first in itertools.product(*map(range, apart)):
        asked = tuple(slice(r, None, m) for r, m in zip(first, apart, strict=True))
        g = np.zeros(kept.output_shape)
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

    A negative stride means the kernel. `remainder` says what happens to cells at the end that fill no window: they are
    dropped silently ("drop") or with a warning ("warn"), are an error ("error"), or get a partial window ("ceil").

    >>> MaxPoolND((2, 2, 2)).forward(np.arange(8.0).reshape(1, 1, 2, 2, 2))
    array([[[[[7.]]]]])
    """

    def __init__(
        self,
        kernel_size: Sequence[int],
        stride: Ints = -1,
        padding: PaddingLike = 0,
        dilation: Ints = 1,
        *,
        remainder: str = "warn",
    ) -> None:
        super().__init__(Max(), tuple(kernel_size), stride, padding, dilation, remainder)


class AvgPoolND(_WindowLayer):
    """`y = (sum x_i) / n` over windows of `kernel_size`; arguments as in `MaxPoolND`. Padding counts in n.

    >>> AvgPoolND((2, 2, 2)).forward(np.arange(8.0).reshape(1, 1, 2, 2, 2))
    array([[[[[3.5]]]]])
    """

    def __init__(
        self,
        kernel_size: Sequence[int],
        stride: Ints = -1,
        padding: PaddingLike = 0,
        dilation: Ints = 1,
        *,
        count_include_pad: bool = True,
        remainder: str = "warn",
    ) -> None:
        super().__init__(Avg(count_include_pad), tuple(kernel_size), stride, padding, dilation, remainder)


class SmoothMaxPoolND(_WindowLayer):
    """`y = log(sum exp(beta x_i)) / beta` over windows of `kernel_size`; other arguments as in `MaxPoolND`.

    >>> SmoothMaxPoolND(1.0, (2,)).forward([[[0.0, 1.0]]]).round(6)
    array([[[1.313262]]])
    """

    def __init__(
        self,
        beta: float,
        kernel_size: Sequence[int],
        stride: Ints = -1,
        padding: PaddingLike = 0,
        dilation: Ints = 1,
        *,
        count_include_pad: bool = True,
        remainder: str = "warn",
    ) -> None:
        kind = SmoothMax(beta, count_include_pad)
        super().__init__(kind, tuple(kernel_size), stride, padding, dilation, remainder)


class MaxPool1D(MaxPoolND):
    """Max over windows of `kernel_size` cells of `[B, C, L]`; a negative stride means the kernel.

    >>> layer = MaxPool1D(2)
    >>> layer.forward([[[1.0, 3.0, 2.0, 5.0, 4.0, 6.0]]])
    array([[[3., 5., 6.]]])
    >>> layer.backward([[[0.1, 0.2, 0.3]]])
    array([[[0. , 0.1, 0. , 0.2, 0. , 0.3]]])
    """

    def __init__(self, kernel_size: int, stride: int = -1, *, remainder: str = "warn") -> None:
        super().__init__((kernel_size,), (stride,), remainder=remainder)


class AvgPool1D(AvgPoolND):
    """Mean over windows of `kernel_size` cells of `[B, C, L]`; a negative stride means the kernel.

    >>> layer = AvgPool1D(2)
    >>> layer.forward([[[1.0, 3.0, 2.0, 6.0, 4.0, 8.0]]])
    array([[[2., 4., 6.]]])
    >>> layer.backward([[[0.2, 0.4, 0.6]]])
    array([[[0.1, 0.1, 0.2, 0.2, 0.3, 0.3]]])
    """

    def __init__(self, kernel_size: int, stride: int = -1, *, remainder: str = "warn") -> None:
        super().__init__((kernel_size,), (stride,), remainder=remainder)


class MaxPool2D(MaxPoolND):
    """Max over windows of kH x kW cells of `[B, C, H, W]`; a negative stride means the kernel.

    >>> layer = MaxPool2D(2, 2)
    >>> layer.forward([[[[1.0, 2.0], [4.0, 3.0]]]])
    array([[[[4.]]]])
    >>> layer.mask()
    array([[[[1, 0]]]])
    """

    def __init__(self, kH: int, kW: int, sH: int = -1, sW: int = -1, *, remainder: str = "warn") -> None:
        super().__init__((kH, kW), (sH, sW), remainder=remainder)


class AvgPool2D(AvgPoolND):
    """Mean over windows of kH x kW cells of `[B, C, H, W]`; a negative stride means the kernel.

    >>> AvgPool2D(2, 2).forward([[[[1.0, 2.0], [4.0, 3.0]]]])
    array([[[[2.5]]]])
    """

    def __init__(self, kH: int, kW: int, sH: int = -1, sW: int = -1, *, remainder: str = "warn") -> None:
        super().__init__((kH, kW), (sH, sW), remainder=remainder)


class _AdaptiveLayer(_PoolLayer):
    """A pool over even bins, as many as there should be outputs."""

    def __init__(self, output_size: int | tuple[int | None, ...]) -> None:
        self.output_size = Adaptive(output_size).output_size
        self.rank = len(self.output_size) if isinstance(self.output_size, tuple) else None

    def window(self, shape: Shape) -> Adaptive:
        return Adaptive(self.output_size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.output_size})"


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
    """A pool over the whole of every axis after batch and channels, which stay at length 1."""

    def window(self, shape: Shape) -> Global:
        return Global()


class GlobalMaxPool(_GlobalLayer, _MaxLayer):
    """Max over everything in a channel, whatever its rank: `[B, C, ...]` to `[B, C, 1, ...]`.

    >>> GlobalMaxPool().forward([[[1.0, 3.0, 2.0]]])
    array([[[3.]]])
    """

    kind = Max()


class GlobalAvgPool(_GlobalLayer):
    """Mean over everything in a channel, whatever its rank: `[B, C, ...]` to `[B, C, 1, ...]`.

    >>> GlobalAvgPool().forward([[[1.0, 3.0, 2.0]]])
    array([[[2.]]])
    """

    kind = Avg()


# --- the other layers -----------------------------------------------------------------------------


class ReLU(OpLayer):
    """`y = max(x, 0)`.

    >>> ReLU().forward([-1.0, 2.0])
    array([0., 2.])
    """

    def op(self, shape: Shape) -> ops.Relu:
        return ops.Relu()


class Flatten(OpLayer):
    """All axes but the batch as one.

    >>> Flatten().forward(np.zeros((2, 3, 4))).shape
    (2, 12)
    """

    def op(self, shape: Shape) -> ops.Flatten:
        return ops.Flatten()


class _Affine(OpLayer):
    """A product with a learned weight, and a learned bias unless it is left out.

    Weights start normally distributed with variance 2 / (inputs of a cell), which keeps the size of activations through
    ReLUs (He et al. 2015); biases start at 0.
    """

    def __init__(self, shape: Shape, bias: bool, rng: np.random.Generator | int | None, dtype: DTypeLike) -> None:
        draws = np.random.default_rng(rng).normal(size=shape) * math.sqrt(2 / math.prod(shape[1:]))
        self.weight = Parameter(f"{type(self).__name__}.weight", draws.astype(dtype))
        self.bias = Parameter(f"{type(self).__name__}.bias", np.zeros(shape[0], dtype)) if bias else None

    def parameters(self) -> list[Parameter]:
        return [self.weight] if self.bias is None else [self.weight, self.bias]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(weight {self.weight.value.shape})"


class Dense(_Affine):
    """`y = x w^T + bias` on the last axis, from `inputs` cells to `outputs`.

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
        super().__init__((whole("outputs", outputs, 1), whole("inputs", inputs, 1)), bias, rng, dtype)

    def op(self, shape: Shape) -> ops.Linear:
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
        kernel = tuple(kernel_size) if isinstance(kernel_size, Sequence) else (kernel_size,) * self.rank
        if len(kernel) != self.rank:
            raise ValueError(f"kernel_size={kernel_size!r} has {len(kernel)} entries; give one int, or {self.rank}")
        sides = tuple(whole("kernel_size", k, 1) for k in kernel)
        channels = whole("out_channels", out_channels, 1), whole("in_channels", in_channels, 1)
        self._op = ops.Conv(stride, padding, dilation)
        super().__init__((*channels, *sides), bias, rng, dtype)

    def op(self, shape: Shape) -> ops.Conv:
        return self._op


class Conv1D(_Conv):
    """`[B, C, L]` to `[B, out_channels, Lo]`: a learned kernel over each place of a signal.

    >>> Conv1D(1, 4, 5, rng=0).forward(np.zeros((2, 1, 64))).shape
    (2, 4, 60)
    """

    rank = 1


class Conv2D(_Conv):
    """`[B, C, H, W]` to `[B, out_channels, Ho, Wo]`: a learned kernel over each place of a picture.

    >>> Conv2D(1, 4, 3, padding="same", rng=0).forward(np.zeros((2, 1, 8, 8))).shape
    (2, 4, 8, 8)
    """

    rank = 2


# --- losses ---------------------------------------------------------------------------------------


class _Loss:
    """A number that says how far predictions are from targets: `forward(x, target)`, then `backward()`."""

    op: ClassVar[Op]
    _pullback: Callable[[Any], Any] | None = None

    def forward(self, x: ArrayLike, target: ArrayLike) -> Array:
        """The loss, an array with one number."""
        y, self._pullback = self.op.vjp(x, target)
        return y

    __call__ = forward

    def backward(self) -> Array:
        """The gradient of the last loss for the predictions."""
        if self._pullback is None:
            raise RuntimeError(f"{type(self).__name__}().backward before forward; call forward first")
        gx, _ = self._pullback(1.0)
        return np.asarray(gx)


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
            parameter.value = parameter.value - self.lr * self._change(i, parameter.grad)


class SGD(_Optimizer):
    """`v = momentum * v + grad`, `value -= lr * v`.

    >>> p = Parameter("p", np.array([1.0]), grad=np.array([2.0]))
    >>> SGD([p], lr=0.1).step()
    >>> p.value
    array([0.8])
    """

    def __init__(self, parameters: Iterable[Parameter], lr: float, *, momentum: float = 0.0) -> None:
        super().__init__(parameters, lr)
        self.momentum = _in_range("momentum", momentum, 0, 1)
        self._velocity = [np.zeros_like(p.value) for p in self.parameters]

    def _change(self, i: int, grad: Array) -> Array:
        self._velocity[i] = self.momentum * self._velocity[i] + grad
        return self._velocity[i]


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
        b1, b2 = self.betas
        self._mean[i] = b1 * self._mean[i] + (1 - b1) * grad
        self._square[i] = b2 * self._square[i] + (1 - b2) * grad * grad
        mean, square = self._mean[i] / (1 - b1**self.steps), self._square[i] / (1 - b2**self.steps)
        return np.asarray(mean / (np.sqrt(square) + self.eps))


def _in_range(name: str, value: float, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}; give a number")
    if not low <= value < high:
        raise ValueError(f"{name}={value!r} must be at least {low} and less than {high}")
    return float(value)
