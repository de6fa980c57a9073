"""The contenders: one adapter each, called in its best way.

An adapter takes a case, its arrays and a number of threads, and makes everything ready: the session, the
compiled function, the data in the peer's own layout. It returns a `Contender`, or None where the peer does
not define the case. Frameworks are imported inside, so that one that is missing is only missing.

The layout: ndpool, PyTorch and JAX work on the case's own (for PyTorch, NHWC is `channels_last`). TensorFlow
on a CPU has channels-last only, ONNX Runtime and OpenVINO channels-first only: they get the data so, before
the clock starts.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .cases import BETA, Adaptive, Case, Data, Global, Sliding, relayout


class Contender(NamedTuple):
    """`run` does just the work. `read` turns what it returned into arrays, in the layout named.

    `keeps` holds the buffers that a session only points to.
    """

    run: Callable[[], Any]
    read: Callable[[Any], tuple[np.ndarray, ...]]
    layout: str
    keeps: Any = None


def arranged(case: Case, data: Data, layout: str) -> Data:
    """The case's arrays, contiguous in another layout."""
    return Data(*(np.ascontiguousarray(relayout(array, case.layout, layout)) for array in data))


def ndpool_pool(case: Case) -> Any:
    import ndpool

    kinds = {"max": partial(ndpool.Max, case.ties), "avg": ndpool.Avg, "smooth": partial(ndpool.SmoothMax, BETA)}
    kind = kinds.get(case.kind) or partial(ndpool.Lp, float(case.kind.removeprefix("lp")))
    match case.window:
        case Sliding(kernel, stride, padding):
            window = ndpool.Window((kernel,) * case.rank, stride=stride, padding=padding)
        case Adaptive(size):
            window = ndpool.Adaptive((size,) * case.rank)
        case Global():
            window = ndpool.Global()
    return ndpool.Pool(kind(), window, axes=case.axes)


def with_threads(threads: int, work: Callable[[], Any]) -> Callable[[], Any]:
    """The work, done by ndpool with so many threads."""
    import ndpool

    def run() -> Any:
        ndpool.set_num_threads(threads)
        return work()

    return run


def ndpool(case: Case, data: Data, threads: int) -> Contender:
    """Forward writes into an output made before, as the sessions of the peers do; a tiny one makes its own.

    Nor is a tiny one worth several threads: it gets by without setting their number in every call.
    """
    pool = ndpool_pool(case)
    x, t, g = data
    output = None if case.tiny else np.zeros_like(g)

    def forward_vjp() -> tuple[np.ndarray, np.ndarray]:
        y, pullback = pool.vjp(x)
        return y, pullback(g)

    modes = {
        "forward": lambda: (pool(x, out=output),),
        "forward+vjp": forward_vjp,
        "jvp": lambda: pool.jvp(x, t),
    }
    run = modes[case.mode]
    return Contender(run if case.tiny else with_threads(threads, run), tuple, case.layout)


def torch(case: Case, data: Data, threads: int) -> Contender | None:
    """Smooth max is `logsumexp` over `unfold`, whose memory grows with the window: not for wide ones."""
    import torch
    import torch.nn.functional as functional

    torch.set_num_threads(threads)
    if not case.is_usual and case.kind != "smooth":
        return None

    def smooth(x: torch.Tensor, kernel_size: int, stride: int, padding: int) -> torch.Tensor:
        cells = functional.unfold(x, kernel_size, stride=stride, padding=padding)
        cells = cells.unflatten(1, (x.shape[1], kernel_size**2))
        width = (x.shape[-1] + 2 * padding - kernel_size) // stride + 1
        return ((BETA * cells).logsumexp(2) / BETA).unflatten(-1, (-1, width))

    match case.window:
        case Sliding(kernel, stride, padding):
            if case.kind == "smooth" and kernel > 3:
                return None
            pool = smooth if case.kind == "smooth" else getattr(functional, f"{case.kind}_pool{case.rank}d")
            pool = partial(pool, kernel_size=kernel, stride=stride, padding=padding)
        case Adaptive(size):
            pool = partial(getattr(functional, f"adaptive_{case.kind}_pool{case.rank}d"), output_size=size)
        case Global():
            reduce = {"max": torch.amax, "avg": torch.mean}[case.kind]
            pool = partial(reduce, dim=tuple(range(-case.rank, 0)), keepdim=True)

    def tensor(array: np.ndarray) -> torch.Tensor:
        view = relayout(array, case.layout, case.channels_first)
        if case.dtype == "bfloat16":
            return torch.from_numpy(view.view(np.uint16)).view(torch.bfloat16)
        return torch.from_numpy(view)

    def read(outputs: tuple[torch.Tensor, ...]) -> tuple[np.ndarray, ...]:
        outputs = (output.detach() for output in outputs)
        return tuple((output.float() if case.dtype == "bfloat16" else output).numpy() for output in outputs)

    with torch.inference_mode(case.mode == "forward"):
        x, t, g = map(tensor, data)
    x.requires_grad_(case.mode == "forward+vjp")

    def forward_vjp() -> tuple[torch.Tensor, torch.Tensor]:
        y = pool(x)
        return y, *torch.autograd.grad(y, x, g)

    modes = {
        "forward": lambda: (pool(x),),
        "forward+vjp": forward_vjp,
        "jvp": lambda: torch.func.jvp(pool, (x,), (t,)),
    }
    return Contender(modes[case.mode], read, case.channels_first)


def onnxruntime(case: Case, data: Data, threads: int) -> Contender | None:
    import onnxruntime
    from onnx import helper

    if case.mode != "forward" or not case.is_usual or case.dtype == "bfloat16":
        return None
    operator = {"max": "MaxPool", "avg": "AveragePool"}[case.kind]
    match case.window:
        case Sliding(kernel, stride, padding):
            geometry = {"kernel_shape": [kernel], "strides": [stride], "pads": [padding, padding]}
            attributes = {name: values * case.rank for name, values in geometry.items()}
            attributes |= {"count_include_pad": 1} if case.kind == "avg" else {}
        case Global():
            operator, attributes = f"Global{operator}", {}
        case _:
            return None
    x, _, g = arranged(case, data, case.channels_first)
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"], **attributes)],
        case.name,
        [helper.make_tensor_value_info("x", element, x.shape)],
        [helper.make_tensor_value_info("y", element, g.shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Its idle threads would otherwise spin on into the next contender's turn.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    x, y = (onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in (x, np.zeros_like(g)))
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y)
    run = partial(session.run_with_iobinding, binding)
    return Contender(run, lambda _: (y.numpy(),), case.channels_first, keeps=x)


def openvino(case: Case, data: Data, threads: int) -> Contender | None:
    import openvino
    from openvino import opset1, opset8  # opset1's max_pool computes no indices

    if case.mode != "forward" or not case.is_usual or case.dtype not in ("float32", "uint8"):
        return None
    is_max = case.kind == "max"
    x, _, g = arranged(case, data, case.channels_first)
    node = opset8.parameter(list(x.shape), dtype=x.dtype)
    match case.window:
        case Sliding(kernel, stride, padding):
            kernel, stride, padding = ([value] * case.rank for value in (kernel, stride, padding))
            pool = opset1.max_pool if is_max else partial(opset8.avg_pool, exclude_pad=False)
            result = pool(node, stride, padding, padding, kernel)
        case Adaptive(size):
            adaptive_max = partial(opset8.adaptive_max_pool, index_element_type="i32")
            pool = adaptive_max if is_max else opset8.adaptive_avg_pool
            result = pool(node, opset8.constant([size] * case.rank, dtype=np.int64)).output(0)
        case Global():
            axes = opset8.constant(list(range(2, 2 + case.rank)), dtype=np.int64)
            result = (opset8.reduce_max if is_max else opset8.reduce_mean)(node, axes, keep_dims=True)
    settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
    settings |= {"INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False}
    request = openvino.compile_model(openvino.Model([result], [node]), "CPU", settings).create_infer_request()
    y = np.zeros_like(g)
    request.set_input_tensor(openvino.Tensor(x, shared_memory=True))
    request.set_output_tensor(openvino.Tensor(y, shared_memory=True))
    run = partial(request.infer, share_outputs=True)
    return Contender(run, lambda _: (y,), case.channels_first, keeps=x)


def tensorflow(case: Case, data: Data, threads: int) -> Contender | None:
    """It has padding that we can name for max in 2-D only; elsewhere the graph pads first."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if case.mode == "jvp" or not case.is_usual:
        return None
    match case.window:
        case Sliding(kernel, stride, padding):
            function = getattr(tf.nn, f"{case.kind}_pool{case.rank}d")
            pads = [[0, 0], *[[padding, padding]] * case.rank, [0, 0]]
            fill = -np.inf if case.kind == "max" else 0

            def pool(x: tf.Tensor) -> tf.Tensor:
                if padding and (case.kind, case.rank) == ("max", 2):
                    return function(x, kernel, stride, pads)
                padded = tf.pad(x, pads, constant_values=fill) if padding else x
                return function(padded, kernel, stride, "VALID")

        case Global():
            reduce = {"max": tf.reduce_max, "avg": tf.reduce_mean}[case.kind]
            pool = partial(reduce, axis=list(range(1, 1 + case.rank)), keepdims=True)
        case _:
            return None

    def forward_vjp(x: tf.Tensor, g: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = pool(x)
        return y, tape.gradient(y, x, g)

    modes = {"forward": lambda x, g: (pool(x),), "forward+vjp": forward_vjp}
    x, _, g = map(tf.constant, arranged(case, data, case.channels_last))
    compiled = tf.function(modes[case.mode], autograph=False).get_concrete_function(x, g)
    return Contender(partial(compiled, x, g), lambda outputs: [y.numpy() for y in outputs], case.channels_last)


def jax(case: Case, data: Data, threads: int) -> Contender | None:
    """It starts as many threads as the process may use processors, whatever one asks."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    if not case.is_usual:
        return None
    match case.window:
        case Sliding(kernel, stride, padding):
            pads = [(pad, pad) for pad in case.on_pooled(padding, 0)]
            geometry = (case.on_pooled(kernel, 1), case.on_pooled(stride, 1), pads)
            lowest = data.x.dtype.type(0 if case.dtype == "uint8" else -np.inf)

            def pool(x: jax.Array) -> jax.Array:
                if case.kind == "max":
                    return jax.lax.reduce_window(x, lowest, jax.lax.max, *geometry)
                return jax.lax.reduce_window(x, x.dtype.type(0), jax.lax.add, *geometry) / kernel**case.rank

        case Global():
            pool = partial({"max": jnp.max, "avg": jnp.mean}[case.kind], axis=case.axes, keepdims=True)
        case _:
            return None

    def forward_vjp(x: jax.Array, t: jax.Array, g: jax.Array) -> tuple[jax.Array, jax.Array]:
        y, pullback = jax.vjp(pool, x)
        return y, *pullback(g)

    modes = {
        "forward": lambda x, t, g: (pool(x),),
        "forward+vjp": forward_vjp,
        "jvp": lambda x, t, g: jax.jvp(pool, (x,), (t,)),
    }
    compiled = jax.jit(modes[case.mode])
    arrays = [jnp.asarray(array) for array in data]
    run = lambda: jax.block_until_ready(compiled(*arrays))  # noqa: E731
    return Contender(run, lambda outputs: [np.asarray(output) for output in outputs], case.layout)


def opencv(case: Case, data: Data, threads: int) -> Contender | None:
    """`dilate` and `blur` for windows that move by one, `resize` by area for averages of 2 x 2."""
    import cv2

    cv2.setNumThreads(threads)
    if case.mode != "forward" or case.rank != 2:
        return None
    match case.kind, case.window:
        case "max", Sliding(kernel, 1):
            square = cv2.getStructuringElement(cv2.MORPH_RECT, (kernel, kernel))
            work = partial(cv2.dilate, kernel=square)
        case "avg", Sliding(kernel, 1):
            work = partial(cv2.blur, ksize=(kernel, kernel), borderType=cv2.BORDER_CONSTANT)
        case "avg", Sliding(2, 2, 0):
            work = partial(cv2.resize, dsize=None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
        case _:
            return None
    x, y = data.x, np.zeros_like(data.g)
    if case.layout == "NCHW":  # windows of 2 x 2 on even sides: all the planes are one tall image
        images = [(x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1]))]
    else:
        images = list(zip(x, y, strict=True))
    return Contender(lambda: [work(image, dst=to) for image, to in images], lambda _: (y,), case.layout)


def scipy(case: Case, data: Data, threads: int) -> Contender | None:
    from scipy import ndimage

    match case.mode, case.kind, case.window:
        case "forward", "max", Sliding(kernel, 1):
            work = partial(ndimage.maximum_filter, cval=-np.inf)
        case "forward", "avg", Sliding(kernel, 1):
            work = partial(ndimage.uniform_filter, cval=0)
        case _:
            return None
    y = np.zeros_like(data.g)
    run = partial(work, data.x, size=case.on_pooled(kernel, 1), output=y, mode="constant")
    return Contender(run, lambda _: (y,), case.layout)


def numpy(case: Case, data: Data, threads: int) -> Contender | None:
    """Reductions of whole axes, and of blocks that cover a row."""
    if case.mode != "forward" or case.kind not in ("max", "avg") or case.dtype == "bfloat16":
        return None
    reduce = partial({"max": np.max, "avg": np.mean}[case.kind], out=(y := np.zeros_like(data.g)))
    first = case.axes[0]
    match case.window:
        case Global():
            run = partial(reduce, data.x, axis=case.axes, keepdims=True)
        case Sliding(kernel, stride, 0) if kernel == stride and case.rank == 1 and case.shape[first] % kernel == 0:
            blocks = data.x.reshape(*case.shape[:first], -1, kernel, *case.shape[first + 1 :])
            run = partial(reduce, blocks, axis=first + 1)
        case _:
            return None
    return Contender(run, lambda _: (y,), case.layout)


def skimage(case: Case, data: Data, threads: int) -> Contender | None:
    from skimage.measure import block_reduce

    if (case.mode, case.window) != ("forward", Sliding(2, 2)) or not case.is_usual:
        return None
    function = {"max": np.max, "avg": np.mean}[case.kind]
    run = partial(block_reduce, data.x, case.on_pooled(2, 1), function)
    return Contender(run, lambda y: (y,), case.layout)


def tinybrain(case: Case, data: Data, threads: int) -> Contender | None:
    """Its images are in Fortran order with x first: the transpose of planes in C order."""
    import tinybrain

    if (case.mode, case.window) != ("forward", Sliding(2, 2)) or not case.is_usual or case.dtype == "bfloat16":
        return None
    if case.rank == 1:
        return None
    x, _, g = arranged(case, data, case.channels_first)
    image = x.reshape(-1, *x.shape[2:]).T
    work = {"max": tinybrain.downsample_with_max_pooling, "avg": tinybrain.downsample_with_averaging}[case.kind]
    run = partial(work, image, (2,) * case.rank + (1,), num_mips=1)
    return Contender(run, lambda mips: (mips[0].T.reshape(g.shape),), case.channels_first)


PEERS: dict[str, Callable[[Case, Data, int], Contender | None]] = {
    adapter.__name__: adapter
    for adapter in (torch, onnxruntime, openvino, tensorflow, jax, opencv, numpy, scipy, skimage, tinybrain)
}
