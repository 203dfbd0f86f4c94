"""ONNX backend-test folders: `model.onnx` with one node, `test_data_set_N/input_M.pb` and `output_0.pb`.

In: a folder, operators. Out: one case per data set, or none if the node is no operator of ours. Expected is what the
folder says. A file `reject` beside the model means that a clear refusal is the right answer; its text says why.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

import onnx

from kernel_lab.errors import LabError
from kernel_lab.importing import nodes
from kernel_lab.importing.nodes import Node
from kernel_lab.operators.cases import Case, Tensors
from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.operator import Operator
from kernel_lab.queries import name_of

MODEL = "model.onnx"


def is_one(folder: Path) -> bool:
    return (folder / MODEL).is_file()


def cases(folder: Path, operators: Mapping[str, Operator]) -> list[Case]:
    """The folder's cases: named like the folder, from the second data set on with its number."""
    model = nodes.load(folder / MODEL)
    found = [nodes.read(node, nodes.opsets_of(model), operators) for node in model.graph.node]
    if not any(found):
        return []
    node = found[0]
    if node is None or len(found) > 1:
        raise LabError(
            f"{folder / MODEL}: has {len(found)} nodes, a backend test has one. Give the file: it is a model."
        )
    data_sets = sorted(folder.glob("test_data_set_*"), key=lambda path: int(path.name.rpartition("_")[2]))
    if not data_sets:
        raise LabError(f"{folder}: has no test_data_set_0.")
    return [_case(folder, data_set, index, model, node) for index, data_set in enumerate(data_sets)]


def _case(folder: Path, data_set: Path, index: int, model: onnx.ModelProto, node: Node) -> Case:
    reject = folder / "reject"
    inputs = _inputs(data_set, model, node)
    name = name_of(folder.resolve().name)
    return Case(
        operator=node.operator.id,
        name=f"{name}.{index}" if index else name,
        request=node.request(inputs),
        make_inputs=lambda: inputs,
        make_expected=None if reject.exists() else partial(_expected, data_set, node),
        refused="" if reject.exists() else None,  # any sentence will do
        why=reject.read_text("utf-8").strip() if reject.exists() else "",
        origin=str(folder),
        repeat=("kernel-lab", "onnx", str(folder), "--case"),
    )


def _inputs(data_set: Path, model: onnx.ModelProto, node: Node) -> Tensors:
    """By role. input_M.pb belongs to the model's M-th input; initializers are inputs too."""
    given = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for index, info in enumerate(model.graph.input):
        path = data_set / f"input_{index}.pb"
        if path.exists() or info.name not in given:
            given[info.name] = _tensor(path)
    lacking = [name for name in node.inputs.values() if name not in given]
    if lacking:
        raise LabError(f"{data_set}: gives no value for {', '.join(lacking)}.")
    return MappingProxyType({role: given[name] for role, name in node.inputs.items()})


def _expected(data_set: Path, node: Node) -> tuple[Tensors, str]:
    role = next(iter(node.outputs))
    return {role: _tensor(data_set / "output_0.pb")}, f"{data_set.name}/output_0.pb"


def _tensor(path: Path) -> Array:
    try:
        array: Array = onnx.numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))
    except OSError as error:
        raise LabError(f"{path}: cannot be read: {error.strerror or error}.") from None
    except Exception as error:  # noqa: BLE001  protobuf's and onnx's own exceptions have no common class
        raise LabError(f"{path}: is no tensor ({type(error).__name__}: {error}).") from None
    return array
