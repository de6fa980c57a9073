"""The profiles `tflite` and `tflite-uint8` beside TensorFlow Lite itself, to the bit: `make test-tflite`."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest
from building import COMPILERS, Library

from ndpool import Avg, Pool, Window, spec
from ndpool.c import PROFILES, export

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="tensorflow-cpu is missing: make test-tflite installs it")
flatbuffers = pytest.importorskip("flatbuffers")
schema = pytest.importorskip("tensorflow.lite.python.schema_py_generated")

#: Those that TensorFlow Lite has beside each other: the reference, the optimised one, and the one with its delegates.
RESOLVERS = ("BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "BUILTIN")
TYPES = {"int8": schema.TensorType.INT8, "uint8": schema.TensorType.UINT8, "int16": schema.TensorType.INT16}
pytestmark = pytest.mark.filterwarnings(r"ignore:\s*Warning. tf.lite.Interpreter is deprecated:UserWarning")
PROFILE = {"int8": "tflite", "int16": "tflite", "uint8": "tflite-uint8"}


def model_of(shape, out_shape, dtype, kernel, stride, same, zero_point):
    """A model that is one AVERAGE_POOL_2D, as the bytes of its file."""
    tensors = []
    for name, lengths in (("x", shape), ("y", out_shape)):
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = name, list(lengths), TYPES[dtype], 0
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale, tensor.quantization.zeroPoint = [0.05], [zero_point]
        tensors.append(tensor)
    options = schema.Pool2DOptionsT()
    options.padding = schema.Padding.SAME if same else schema.Padding.VALID
    (options.filterHeight, options.filterWidth), (options.strideH, options.strideW) = kernel, stride
    operator = schema.OperatorT()
    operator.opcodeIndex, operator.inputs, operator.outputs = 0, [0], [1]
    operator.builtinOptionsType, operator.builtinOptions = schema.BuiltinOptions.Pool2DOptions, options
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.AVERAGE_POOL_2D
    code.version = {"uint8": 1, "int8": 2, "int16": 3}[dtype]
    graph = schema.SubGraphT()
    graph.tensors, graph.inputs, graph.outputs, graph.operators = tensors, [0], [1], [operator]
    model = schema.ModelT()
    model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, [code], [graph], [schema.BufferT()]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def interpreted(model, x, resolver):
    """What the interpreter makes of x."""
    kind = getattr(tf.lite.experimental.OpResolverType, resolver)
    interpreter = tf.lite.Interpreter(model_content=model, experimental_op_resolver_type=kind, num_threads=1)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def windows():
    """Kernels and strides of one to four, and a few that are longer, at both of its paddings."""
    sides = [(1, 1), (2, 2), (3, 3), (4, 4), (2, 3), (3, 1), (1, 4), (5, 2), (7, 7)]
    steps = [(1, 1), (2, 2), (3, 3), (1, 2), (3, 2)]
    yield from itertools.product(sides, steps, (True, False))


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8"])
def test_the_profile_is_what_the_interpreter_computes(dtype, tmp_path):
    rng = np.random.default_rng(21)
    limits = np.iinfo(dtype)
    codes, cases = [], []
    for i, (kernel, stride, same) in enumerate(windows()):
        shape = (1, int(rng.integers(7, 14)), int(rng.integers(7, 14)), int(rng.integers(1, 10)))
        pool = Pool(Avg(count_include_pad=False), Window(kernel, stride, "same" if same else "valid"), axes=(1, 2))
        x = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        code = export(pool, shape, dtype, name=f"p{i}", profile=PROFILE[dtype])
        codes.append(code)
        cases.append((code, pool, x, kernel, stride, same))
    library = Library(COMPILERS[0], codes, tmp_path)
    for code, pool, x, kernel, stride, same in cases:
        by_rule = Pool(PROFILES[PROFILE[dtype]].kind(False), pool.window, pool.axes)
        ours = by_rule(x)
        zero_point = 0 if dtype == "int16" else int(rng.integers(limits.min, limits.max + 1))
        model = model_of(x.shape, ours.shape, dtype, kernel, stride, same, zero_point)
        for resolver in RESOLVERS:
            theirs = interpreted(model, x, resolver)
            np.testing.assert_array_equal(ours, theirs, err_msg=f"{resolver}: {pool}")
        y = np.empty_like(ours)
        library.call(code.name, x, y)
        np.testing.assert_array_equal(y, theirs)
    np.testing.assert_array_equal(spec.forward(by_rule, x), ours)


def test_another_rounding_is_told_from_it():
    """The comparison can fail: half even differs from TensorFlow Lite on numbers that lie halfway."""
    x = np.tile(np.array([1, 2], np.int8), 32).reshape(1, 8, 8, 1)
    model = model_of(x.shape, (1, 4, 4, 1), "int8", (2, 2), (2, 2), False, 0)
    theirs = interpreted(model, x, "BUILTIN_REF")
    assert (theirs == 2).all()
    x[...] = np.where(x == 1, 0, 1)
    theirs = interpreted(model, x, "BUILTIN_REF")
    even = Pool(Avg(rounding="half_even"), Window((2, 2)), axes=(1, 2))(x)
    assert (even == 0).all()
    assert (theirs == 1).all()
