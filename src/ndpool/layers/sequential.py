"""Layers one after another, as one layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..arrays import as_array
from ..graph import Graph, Var
from ..ops import Array
from ..residuals import kept as kept_by
from .layer import Kept, Layer, OpLayer, Parameter


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
        return sum(self)


@dataclass
class _NetworkKept(Kept):
    """What each place of a network keeps; None for a layer that keeps things in its own way."""

    places: tuple[Kept | None, ...]


class Sequential(Layer):
    """One layer after another; one object may stand in several places.

    >>> from ndpool.layers import Flatten, ReLU
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

    def _return_to(self, kept: Kept) -> None:
        super()._return_to(kept)
        assert isinstance(kept, _NetworkKept)
        for layer, place in zip(self.layers, kept.places, strict=True):
            if place is not None:
                layer._return_to(place)

    def memory(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> NetworkMemory:
        """The bytes for an input of this shape and dtype, in the mode that the layers are in.

        >>> from ndpool.layers import Dense, Flatten, ReLU
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
    """The layers inside a layer, at every depth. One that stands in several places comes several times."""
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
