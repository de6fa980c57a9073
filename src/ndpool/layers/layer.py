"""What every layer has: forward, then backward, and between them the memory of what backward needs."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import as_array
from ..ops import Array, Directions, Op, Shape

L = TypeVar("L", bound="Layer")


@dataclass(eq=False)
class Parameter:
    """An array that is learned: its name, its value, and its gradient once there is one."""

    name: str
    value: Array
    grad: Array | None = None


@dataclass(kw_only=True)
class Kept:
    """What one forward keeps for backward.

    `used` says whether backward has used it. `lost` says whether it took the place of what an earlier forward had kept,
    before any backward had used that.
    """

    lost: bool
    used: bool = False


@dataclass
class OpKept(Kept):
    """What the forward of one op keeps."""

    pullback: Callable[[Any], Any]
    input_shape: Shape
    outputs: Directions


class Keeper:
    """What layers and losses share: forward keeps what backward needs. Copies and pickles leave out what was kept."""

    _kept: Kept | None = None

    def _loses(self) -> bool:
        """Whether a new forward takes the place of one that no backward has used."""
        return self._kept is not None and not self._kept.used

    def _kept_for(self, wanted: str) -> Any:
        if self._kept is None:
            raise RuntimeError(f"{self!r}.{wanted} before forward; call forward first")
        return self._kept

    def _used_by_backward(self) -> Any:
        """What the last forward kept.

        A second backward after two forwards is an error: it is meant for the first of them, of which nothing is left.
        """
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


class Layer(Keeper, ABC):
    """`forward(x)`, then `backward(g)`. In training, forward keeps what backward needs; in eval, it keeps nothing.

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
        """What is learned, each parameter once."""
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

    def _return_to(self, kept: Kept) -> None:
        """Go back to what an earlier forward kept, as if that had been the last one."""
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
    """A layer that computes one op of x and its parameters; `op(shape)` is the op for an input of this shape.

    >>> from ndpool import ops
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
        # Dropped first: old and new are never in memory together, and if this fails, backward finds nothing to use.
        lost, self._kept = self._loses(), None
        x = as_array("x", x)
        op = self.op(x.shape)
        inputs = (x, *(parameter.value for parameter in self.parameters()))
        if not self.training:
            return op(*inputs)
        y, self._kept = self._differentiated(op, inputs, lost)
        return y

    def _differentiated(self, op: Any, inputs: tuple[Array, ...], lost: bool) -> tuple[Array, OpKept]:
        """The output, and what is kept of the op for backward."""
        y, pullback = op.vjp(*inputs)
        return y, OpKept(pullback, inputs[0].shape, Directions.of(y), lost=lost)

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
