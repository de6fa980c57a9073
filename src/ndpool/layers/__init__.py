"""Stateful layers: forward, backward, train, eval; batch first, channels second.

A layer is an op with a memory. In training, `forward` keeps what the op's derivative needs, and `backward` uses it: for
a max pool over windows of up to 256 cells, that is one byte for each output. In eval, nothing is kept. `backward` puts
the gradients of parameters into `parameter.grad`, in place of what was there, and SGD and Adam read them from it.

`backward` belongs to the last `forward`. It may be called again, but not for a forward before the last one. A layer may
stand in several places of a network: every place has its own memory, and the gradients of what is learned add up.

    network = Sequential(Conv1D(1, 8, 5), ReLU(), MaxPool1D(2), Flatten(), Dense(8 * 30, 3))
    loss, optimizer = CrossEntropyLoss(), Adam(network.parameters(), lr=1e-3)
    loss.forward(network.forward(x), labels)
    network.backward(loss.backward())
    optimizer.step()
"""

from ..published import publish

# In the order of the reference.
# isort: off
from .layer import Parameter, Layer, OpLayer
from .sequential import Sequential, NetworkMemory
from .pool_layer import Memory
from .window_pools import RemainderWarning, MaxPoolND, AvgPoolND, SmoothMaxPoolND
from .window_pools import MaxPool1D, AvgPool1D, MaxPool2D, AvgPool2D
from .window_pools import REMAINDERS as REMAINDERS, StrideLike as StrideLike
from .adaptive_pools import AdaptiveMaxPool, AdaptiveAvgPool
from .global_pools import GlobalMaxPool, GlobalAvgPool
from .activations import ReLU
from .rearranging import Flatten
from .dense import Dense
from .convolutions import Conv1D, Conv2D
from .losses import CrossEntropyLoss, MeanSquaredErrorLoss
from .optimizers import SGD, Adam

# isort: on

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

publish(__name__)
