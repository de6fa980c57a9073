"""What the installed frameworks make of a pool: one class each, with the same three questions.

    pooling(pool, x)       their function for it, or None where one call of theirs does not define it
    forward(function, x)   something to call that gives y
    pull(function, x, g)   gx, or None where they have no derivative

Arrays are (batch, channels, ...) with all the other axes pooled. A framework is imported when it is made.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..kind import Kind
from ..kinds import Avg, Lp, Max, Min, Sum
from ..pool import Pool
from ..windows import Axis, layout

Array = NDArray[Any]
Function = Callable[[Any], Any]


def axes_of(pool: Pool, x: Array) -> tuple[Axis, ...]:
    return layout(pool.window, pool.axes, x.shape, None).geometry


def needed_padding(axis: Axis) -> tuple[int, int]:
    """What must stand before and after the axis for windows that all fit: less than asked, or more with ceil_mode."""
    reach = (axis.output - 1) * axis.stride + axis.dilation * (axis.kernel - 1) + 1
    return axis.pad_lo, reach - axis.length - axis.pad_lo


def seen_cells(axes: Sequence[Axis]) -> tuple[slice, ...]:
    """The cells up to the last that a window sees: what is left needs no negative padding."""
    return tuple(slice(axis.length + min(0, needed_padding(axis)[1])) for axis in axes)


def is_ours_alone(pool: Pool) -> bool:
    """Whether no framework has such a pool: one that skips cells, or rounds its means to integers."""
    return pool.skip is not None or (isinstance(pool.kind, Avg) and pool.kind.rounding is not None)


def is_plain(axes: Sequence[Axis]) -> bool:
    return not any(axis.adaptive for axis in axes)


def counts_kernel(kind: Avg, axes: Sequence[Axis]) -> bool:
    """Whether every window of an average is divided by the number of cells of its kernel."""
    lo_hi = [needed_padding(axis) for axis in axes]
    if kind.divisor_override is not None:
        return False
    if kind.count_include_pad:
        return all(hi <= axis.pad_hi for (_, hi), axis in zip(lo_hi, axes, strict=True))
    return all(lo == 0 and hi <= 0 for lo, hi in lo_hi)


@contextmanager
def silence() -> Iterator[None]:
    """Nothing on the error stream, not even from C++, which does not ask Python where it is."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)


class Torch:
    name: ClassVar[str] = "PyTorch"
    package: ClassVar[str] = "torch"

    def __init__(self) -> None:
        self.torch = import_module("torch")
        self.functional = import_module("torch.nn.functional")

    def pooling(self, pool: Pool, x: Array) -> Function | None:
        axes, kind = axes_of(pool, x), pool.kind
        name = {Max: "max", Min: "max", Avg: "avg", Sum: "avg", Lp: "lp"}.get(type(kind))
        if is_ours_alone(pool):
            return None
        if not is_plain(axes):
            return self._adaptive(kind, axes)
        kernel, stride, padding, dilation = ([*each] for each in zip(*map(_numbers, axes), strict=True))
        odd = any(axis.pad_lo != axis.pad_hi or 2 * axis.pad_lo > axis.kernel for axis in axes)
        if name is None or odd or (name != "max" and any(d != 1 for d in dilation)):
            return None
        function = getattr(self.functional, f"{name}_pool{len(axes)}d")
        ceil = bool(getattr(pool.window, "ceil_mode", False))
        if isinstance(kind, Max):
            return lambda x: function(x, kernel, stride, padding, dilation, ceil)
        if isinstance(kind, Min):
            return lambda x: -function(-x, kernel, stride, padding, dilation, ceil)
        if isinstance(kind, Lp):
            return None if ceil or any(padding) else lambda x: function(x.abs(), kind.p, kernel, stride)
        divisor = 1 if isinstance(kind, Sum) else kind.divisor_override if isinstance(kind, Avg) else None
        include = not isinstance(kind, Avg) or kind.count_include_pad
        if len(axes) == 1:
            return None if divisor else lambda x: function(x, kernel, stride, padding, ceil, include)
        return lambda x: function(x, kernel, stride, padding, ceil, include, divisor)

    def _adaptive(self, kind: Any, axes: Sequence[Axis]) -> Function | None:
        name = "max" if isinstance(kind, Max) else "avg" if kind in (Avg(), Avg(False)) else None
        function = getattr(self.functional, f"adaptive_{name}_pool{len(axes)}d", None)
        sizes = [axis.output for axis in axes]
        return None if function is None else lambda x: function(x, sizes)

    def forward(self, function: Function, x: Array) -> Callable[[], Array]:
        tensor = self.torch.from_numpy(x)

        def run() -> Array:
            with self.torch.inference_mode():
                y: Array = function(tensor).numpy()
            return y

        return run

    def pull(self, function: Function, x: Array, g: Array) -> Array | None:
        tensor = self.torch.from_numpy(x).requires_grad_()
        gx: Array = self.torch.autograd.grad(function(tensor), tensor, self.torch.from_numpy(g))[0].numpy()
        return gx


class Jax:
    name: ClassVar[str] = "JAX"
    package: ClassVar[str] = "jax"

    def __init__(self) -> None:
        self.jax = import_module("jax")
        self.jax.config.update("jax_enable_x64", True)

    def pooling(self, pool: Pool, x: Array) -> Function | None:
        axes, kind, lax = axes_of(pool, x), pool.kind, self.jax.lax
        merges: dict[type[Kind], tuple[float, Any]] = {Max: (-np.inf, lax.max), Min: (np.inf, lax.min)}
        lowest, merge = merges.get(type(kind), (0.0, lax.add))
        counts = isinstance(kind, Sum) or (isinstance(kind, Avg) and counts_kernel(kind, axes))
        if is_ours_alone(pool) or not is_plain(axes) or not (isinstance(kind, Max | Min) or counts):
            return None
        kernel, stride, _, dilation = ((1, 1, *each) for each in zip(*map(_numbers, axes), strict=True))
        padding = [(0, 0), (0, 0), *((lo, max(0, hi)) for lo, hi in map(needed_padding, axes))]
        inside = (slice(None), slice(None), *seen_cells(axes))
        scale = float(np.prod(kernel)) if isinstance(kind, Avg) else 1.0
        start = x.dtype.type(lowest)

        def function(x: Any) -> Any:
            return lax.reduce_window(x[inside], start, merge, kernel, stride, padding, window_dilation=dilation) / scale

        return function

    def forward(self, function: Function, x: Array) -> Callable[[], Array]:
        compiled, array = self.jax.jit(function), self.jax.numpy.asarray(x)
        return lambda: np.asarray(compiled(array))

    def pull(self, function: Function, x: Array, g: Array) -> Array | None:
        try:
            return np.asarray(self.jax.jit(lambda x, g: self.jax.vjp(function, x)[1](g)[0])(x, g))
        except NotImplementedError:  # a dilated maximum has a JVP there and no VJP
            return None


class TensorFlow:
    name: ClassVar[str] = "TensorFlow"
    package: ClassVar[str] = "tensorflow"

    def __init__(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        with silence():
            self.tf = import_module("tensorflow")

    def pooling(self, pool: Pool, x: Array) -> Function | None:
        axes, kind, tf = axes_of(pool, x), pool.kind, self.tf
        name = "max" if isinstance(kind, Max) else "avg" if isinstance(kind, Avg) else None
        dilated = any(axis.dilation != 1 for axis in axes)
        uneven = isinstance(kind, Avg) and not counts_kernel(kind, axes)
        if name is None or is_ours_alone(pool) or not is_plain(axes) or dilated or uneven:
            return None
        kernel, stride, _, _ = ([*each] for each in zip(*map(_numbers, axes), strict=True))
        padding = [[0, 0], *([lo, max(0, hi)] for lo, hi in map(needed_padding, axes)), [0, 0]]
        function = getattr(tf.nn, f"{name}_pool{len(axes)}d")
        inside = (slice(None), *seen_cells(axes), slice(None))
        fill = -np.inf if name == "max" else 0.0
        return lambda x: function(tf.pad(x[inside], padding, constant_values=fill), kernel, stride, "VALID")

    def forward(self, function: Function, x: Array) -> Callable[[], Array]:
        tensor = self.tf.constant(np.moveaxis(x, 1, -1))
        return lambda: np.moveaxis(function(tensor).numpy(), -1, 1)

    def pull(self, function: Function, x: Array, g: Array) -> Array | None:
        tensor, cotangent = (self.tf.constant(np.moveaxis(a, 1, -1)) for a in (x, g))
        with self.tf.GradientTape() as tape:
            tape.watch(tensor)
            y = function(tensor)
        gx: Array = np.moveaxis(tape.gradient(y, tensor, cotangent).numpy(), -1, 1)
        return gx


class OnnxRuntime:
    name: ClassVar[str] = "ONNX Runtime"
    package: ClassVar[str] = "onnxruntime"

    def __init__(self) -> None:
        self.helper = import_module("onnx.helper")
        self.runtime = import_module("onnxruntime")

    def pooling(self, pool: Pool, x: Array) -> Function | None:
        axes, kind = axes_of(pool, x), pool.kind
        operator = {Max: "MaxPool", Avg: "AveragePool", Lp: "LpPool"}.get(type(kind))
        whole_p = not isinstance(kind, Lp) or isinstance(kind.p, int)
        if operator is None or is_ours_alone(pool) or not is_plain(axes) or not whole_p:
            return None
        if getattr(kind, "divisor_override", None):
            return None
        if any(max(axis.pad_lo, axis.pad_hi) >= axis.kernel for axis in axes):
            return None
        attributes: dict[str, Any] = {"ceil_mode": int(getattr(pool.window, "ceil_mode", False))}
        kernel, stride, _, dilation = ([*each] for each in zip(*map(_numbers, axes), strict=True))
        attributes |= {"kernel_shape": kernel, "strides": stride, "dilations": dilation}
        attributes["pads"] = [axis.pad_lo for axis in axes] + [axis.pad_hi for axis in axes]
        attributes |= {"count_include_pad": int(kind.count_include_pad)} if isinstance(kind, Avg) else {}
        attributes |= {"p": kind.p} if isinstance(kind, Lp) else {}
        return self._session(operator, attributes, x, pool.output_shape(x.shape))

    def _session(self, operator: str, attributes: dict[str, Any], x: Array, shape: Sequence[int]) -> Function:
        helper, runtime = self.helper, self.runtime
        element = helper.np_dtype_to_tensor_dtype(x.dtype)
        node = helper.make_node(operator, ["x"], ["y"], **attributes)
        info = [helper.make_tensor_value_info(name, element, size) for name, size in (("x", x.shape), ("y", shape))]
        graph = helper.make_graph([node], "pool", info[:1], info[1:])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)
        options = runtime.SessionOptions()
        options.log_severity_level = 4
        session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return lambda x: session.run(None, {"x": x})[0]

    def forward(self, function: Function, x: Array) -> Callable[[], Array]:
        return lambda: function(x)

    def pull(self, function: Function, x: Array, g: Array) -> Array | None:
        return None


def _numbers(axis: Axis) -> tuple[int, int, int, int]:
    return axis.kernel, axis.stride, axis.pad_lo, axis.dilation


Framework = Torch | Jax | TensorFlow | OnnxRuntime
FRAMEWORKS: tuple[type[Framework], ...] = (Torch, Jax, TensorFlow, OnnxRuntime)


def installed() -> list[Framework]:
    """Those that can be imported here."""
    found: list[Framework] = []
    for framework in FRAMEWORKS:
        if importlib.util.find_spec(framework.package) is None:
            continue
        try:
            found.append(framework())
        except ImportError:  # there, but not whole: ONNX Runtime without onnx, say
            continue
    return found


def title(framework: Framework | type[Framework]) -> str:
    """The name with its version."""
    for package in (framework.package, f"{framework.package}-cpu"):
        try:
            return f"{framework.name} {version(package).partition('+')[0]}"
        except PackageNotFoundError:
            continue
    return framework.name
