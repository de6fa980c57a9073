"""The other ops that a small network needs, in the protocol that `Pool` has.

    op.output_shape(*shapes)   the shape of y; a mistake in the shapes is an error here
    op(*xs)                    y
    op.jvp(x, t)               (y, dy)          dy = J t
    op.vjp(*xs)                (y, pullback)    pullback(g) = J^T g

An op with one input has `op.jvp(x, t)` and `pullback(g) -> gx`, as `Pool` has. An op with several inputs has
`op.jvp(xs, ts)` and `pullback(g) -> gs`: xs, ts and gs are tuples with one array for each input.

Three families share their derivatives. Each rule is written once, so that JVP and VJP cannot disagree:

    SelfAdjoint   J is its own transpose: relu, tanh, softmax, ...   `value(x)` and `lean(y, v) = J v = J^T v`
    LinearMap     dy is the op applied to t: add, reshape, sum, ...  `value(*xs)` and `transposed(g, *shapes)`
    Product       linear in each factor: mul, matmul, conv, ...      `value(a, b)` and `transposed(g, a, b)`

The arithmetic is NumPy's, in the dtype of the inputs. 16-bit floats are computed in 32 bits and rounded once (rule
"Accumulation"). A tangent is read in the dtype of its input. A cotangent is read in the dtype of the output, or in
float64 where that is an integer.

Exact in, exact out: object arrays of Fractions, Decimals or SymPy's numbers go through the rational ops in their own
arithmetic, and a float beside them counts as the rational number that it is. The other ops refuse objects.
"""

from ..published import publish

# In the order of the reference.
# isort: off
from .protocol import Op
from .activations import Relu, LeakyRelu, Tanh, Sigmoid, Softmax, LogSoftmax
from .linear_maps import Add, Sub, Scale
from .rearranging import Reshape, Flatten, Transpose
from .reductions import ReduceSum, ReduceMean
from .products import Mul, Matmul, Linear
from .convolution import Conv
from .losses import CrossEntropy, MeanSquaredError

# What other modules, and ops of one's own, are made from.
from .activations import Activation as Activation, SelfAdjoint as SelfAdjoint
from .linear_maps import LinearMap as LinearMap
from .products import Product as Product
from .protocol import Array as Array, Promoting as Promoting, Shape as Shape
from .directions import Directions as Directions
from .arithmetic import lifted as lifted

# isort: on

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

publish(__name__)
