"""ONNX Runtime's CPU provider with optimisations off: what it computes, tensor by tensor.

In: a model or a node, and arrays. Out: arrays, or `CannotRun` with ONNX Runtime's own sentence. Types that its Python
binding cannot show as numpy (4-bit integers, float8, bfloat16 …) travel as raw bytes.
"""

import ctypes
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as native

from kernel_lab.operators import dtypes
from kernel_lab.operators.dtypes import Array, DType

THREADS = 2
_ort: Any = onnxruntime  # its type hints export nothing
_REFUSALS = (
    native.Fail, native.InvalidArgument, native.NoSuchFile, native.NoModel, native.EngineError, native.RuntimeException,
    native.InvalidProtobuf, native.ModelLoaded, native.NotImplemented, native.InvalidGraph, native.EPFail, RuntimeError,
    ValueError,
)  # fmt: skip


class CannotRun(Exception):
    """ONNX Runtime does not run this; `str()` is why."""


def name() -> str:
    """Who computes here."""
    return f"ONNX Runtime {onnxruntime.__version__} CPU"


def run(model: onnx.ModelProto, feeds: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
    """The wanted tensors of the model's graph, inner ones too."""
    asked = onnx.ModelProto()
    asked.CopyFrom(model)
    stated = {output.name for output in asked.graph.output}
    asked.graph.output.extend(onnx.ValueInfoProto(name=tensor) for tensor in wanted if tensor not in stated)
    options = _ort.SessionOptions()
    options.graph_optimization_level = _ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 4
    try:
        session = _ort.InferenceSession(asked.SerializeToString(), options, providers=["CPUExecutionProvider"])
        values = session.run_with_ort_values(list(wanted), {tensor: _given(array) for tensor, array in feeds.items()})
    except _REFUSALS as error:
        raise CannotRun(_sentence(error)) from None
    return {tensor: _taken(tensor, value) for tensor, value in zip(wanted, values, strict=True)}


def run_node(
    node: onnx.NodeProto,
    model: onnx.ModelProto,
    values: Mapping[str, Array],
    constants: Mapping[str, onnx.TensorProto],
) -> dict[str, Array]:
    """The node's outputs, alone in a model of its own. Constants stay constants: some kernels depend on it."""
    read = [tensor for tensor in inputs_of(node) if tensor in values and tensor not in constants]
    graph = onnx.helper.make_graph(
        [node],
        "one_node",
        [onnx.helper.make_tensor_value_info(t, _code(values[t]), values[t].shape) for t in read],
        [onnx.ValueInfoProto(name=output) for output in node.output if output],
        [constants[tensor] for tensor in inputs_of(node) if tensor in constants],
    )
    alone = onnx.helper.make_model(
        graph, ir_version=model.ir_version, opset_imports=model.opset_import, functions=model.functions
    )
    wanted = [output for output in node.output if output]
    return run(alone, {tensor: values[tensor] for tensor in read}, wanted)


def inputs_of(node: onnx.NodeProto) -> list[str]:
    """Names of all tensors that the node reads, those read by its subgraphs from outside included."""
    names = [name for name in node.input if name]
    for graph in subgraphs(node):
        own = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
        own |= {output for inner in graph.node for output in inner.output}
        names += [name for inner in graph.node for name in inputs_of(inner) if name not in own]
        names += [output.name for output in graph.output if output.name not in own]
    return list(dict.fromkeys(names))


def subgraphs(node: onnx.NodeProto) -> Iterable[onnx.GraphProto]:
    """The bodies of an If, Loop or Scan."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def _code(array: Array) -> int:
    return int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))


def _hidden(dtype: DType | None) -> bool:
    """Whether the Python binding has no numpy type for it: those that ml_dtypes adds."""
    return dtype is not None and dtype.numpy.isbuiltin != 1


def _given(array: Array) -> Any:
    """An OrtValue. Sub-byte elements lie packed at the start of as many bytes as there are elements."""
    dtype = dtypes.of_code(_code(array))
    if dtype is None or not _hidden(dtype):
        return _ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array).reshape(array.shape))
    raw = np.zeros(array.shape, np.uint16 if dtype.bits == 16 else np.uint8)
    packed = np.frombuffer(dtypes.pack(array), np.uint8)[: raw.nbytes]
    raw.reshape(-1).view(np.uint8)[: packed.size] = packed
    return _ort.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, dtype.code)


def _taken(tensor: str, value: Any) -> Array:
    if not value.is_tensor():
        raise CannotRun(f"{tensor} is no tensor")
    dtype, shape = dtypes.of_code(value.element_type()), tuple(value.shape())
    if dtype is None or not _hidden(dtype):
        array: Array = value.numpy()
        return array
    size = -(-dtypes.numel(shape) * dtype.bits // 8)
    return dtypes.unpack(ctypes.string_at(value.data_ptr(), size) if size else b"", dtype, shape)


def _sentence(error: Exception) -> str:
    """ONNX Runtime's message without its prefix, on one line."""
    return re.sub(r"^\[ONNXRuntimeError\] : \d+ : ", "", " ".join(str(error).split()))
