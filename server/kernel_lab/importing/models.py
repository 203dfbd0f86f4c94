"""Whole models: every node that is an operator of ours becomes a case, with its real weights and real activations.

In: an .onnx file, what to feed it, operators. Out: cases, and lines that say what was done. ONNX Runtime computes the
activations in one run with optimisations off; where it cannot run the model as a whole, node by node, with our
reference for nodes of ours that it refuses. Tensors are shared by the cases, not copied.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType

import onnx

from kernel_lab.errors import LabError
from kernel_lab.importing import expectation, feeds, nodes, runtime
from kernel_lab.importing.feeds import Feeding
from kernel_lab.importing.nodes import Node
from kernel_lab.importing.runtime import CannotRun
from kernel_lab.operators.cases import Case, Tensors
from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.operator import Operator
from kernel_lab.operators.requests import Request
from kernel_lab.planning import scopes
from kernel_lab.planning.scopes import Refused
from kernel_lab.queries import name_of


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Tensors by name. `refused`: outputs of nodes that ONNX Runtime does not run; a reference computed them."""

    arrays: dict[str, Array]
    refused: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)


def cases(path: Path, feeding: Feeding, operators: Mapping[str, Operator]) -> tuple[list[Case], list[str]]:
    """The model's cases, and what a reader should know about them."""
    model = nodes.load(path)
    opsets = nodes.opsets_of(model)
    taken = [node for node in (nodes.read(proto, opsets, operators) for proto in model.graph.node) if node is not None]
    notes = _notes_on_what_is_left(model, operators)
    if not taken:
        kinds = ", ".join(sorted({operator.manifest.name for operator in operators.values()}))
        raise LabError(f"{path}: has no node of {kinds}.{''.join(f' {note[0].upper()}{note[1:]}.' for note in notes)}")
    try:
        given, said = feeds.feeds(model.graph, feeding)
        values = _values(model, taken, given)
    except LabError as error:
        raise LabError(f"{path}: {error}") from None
    reached = [node for node in taken if _has_inputs(node, values.arrays)]
    if not reached:
        raise LabError(f"{path}: none of its {len(taken)} nodes can be fed. {' '.join(values.notes)}")
    if len(reached) < len(taken):
        values.notes.append(f"{len(taken) - len(reached)} of {len(taken)} nodes lack inputs and are left out")
    repeat = ("kernel-lab", "onnx", str(path), *feeding.words, "--case")
    found = [_case(path, node, values, repeat) for node in reached]
    return found, [*said, *dict.fromkeys(values.notes), *notes]


def _notes_on_what_is_left(model: onnx.ModelProto, operators: Mapping[str, Operator]) -> list[str]:
    def count(protos: Iterable[onnx.NodeProto]) -> int:
        return sum(nodes.read(proto, nodes.opsets_of(model), operators) is not None for proto in protos)

    def inside(proto: onnx.NodeProto) -> Iterable[onnx.NodeProto]:
        for graph in runtime.subgraphs(proto):
            for inner in graph.node:
                yield inner
                yield from inside(inner)

    inner = count(node for proto in model.graph.node for node in inside(proto))
    functions = count(node for function in model.functions for node in function.node)
    left = ((inner, "bodies of If, Loop or Scan"), (functions, "functions of the model"))
    return [f"{number} nodes in {place} are not taken" for number, place in left if number]


def _values(model: onnx.ModelProto, taken: list[Node], given: Mapping[str, Array]) -> Values:
    """Every tensor that the taken nodes read or write."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer if tensor.name not in given}
    read = {name for node in taken for name in node.inputs.values()}
    arrays = dict(given)
    arrays.update({name: _array(tensor) for name, tensor in constants.items() if name in read})
    written = {name for node in taken for name in node.outputs.values()}
    wanted = sorted((read | written) - arrays.keys())
    try:
        arrays.update(runtime.run(model, given, wanted))
    except CannotRun as error:
        return _node_by_node(model, taken, arrays, constants, str(error))
    return Values(arrays, notes=[f"activations from {runtime.name()}, optimisations off"])


def _array(tensor: onnx.TensorProto) -> Array:
    array: Array = onnx.numpy_helper.to_array(tensor)
    return array


def _node_by_node(
    model: onnx.ModelProto,
    taken: list[Node],
    arrays: dict[str, Array],
    constants: Mapping[str, onnx.TensorProto],
    reason: str,
) -> Values:
    ours = {output: node for node in taken for output in node.outputs.values()}
    refused: set[str] = set()
    notes = [f"{runtime.name()} cannot run it as a whole ({reason}): node by node, optimisations off"]
    for proto in model.graph.node:
        if any(name not in arrays and name not in constants for name in runtime.inputs_of(proto)):
            continue
        try:
            arrays.update(runtime.run_node(proto, model, arrays, constants))
        except CannotRun as error:
            node = ours.get(next(name for name in proto.output if name))
            if node is None:
                notes.append(f"{proto.op_type} {proto.name or proto.output[0]} does not run: {error}")
                continue
            computed = node.operator.reference.compute(_inputs(node, arrays), node.attrs)
            arrays.update({name: computed[role] for role, name in node.outputs.items()})
            refused.update(node.outputs.values())
    return Values(arrays, frozenset(refused), notes)


def _has_inputs(node: Node, arrays: Mapping[str, Array]) -> bool:
    return all(name in arrays for name in (*node.inputs.values(), *node.outputs.values()))


def _inputs(node: Node, arrays: Mapping[str, Array]) -> Tensors:
    return MappingProxyType({role: arrays[name] for role, name in node.inputs.items()})


def _case(path: Path, node: Node, values: Values, repeat: tuple[str, ...]) -> Case:
    inputs, request = _inputs_and_request(node, values)
    outputs = {role: values.arrays[name] for role, name in node.outputs.items()}
    from_runtime = None if values.refused & set(node.outputs.values()) else outputs
    return Case(
        operator=node.operator.id,
        name=f"{name_of(path.stem)}.{name_of(node.label)}",
        request=request,
        make_inputs=lambda: inputs,
        make_expected=partial(expectation.expected, inputs, node.attrs, from_runtime, node.operator.reference),
        origin=f"node {node.label} of {path.name}",
        repeat=repeat,
    )


def _inputs_and_request(node: Node, values: Values) -> tuple[Tensors, Request]:
    """The node's inputs as the operator takes them. Quantisers write zero points of shape [] beside scales of [1];
    ONNX wants them alike, ONNX Runtime does not mind, and a model that runs there is not to fail here."""
    inputs = _inputs(node, values.arrays)
    request = node.request(inputs)
    if not isinstance(scopes.scope_of(node.operator, request), Refused):
        return inputs, request
    alike = dict(inputs)
    for role, array in inputs.items():
        scale = inputs.get(role.removesuffix("_zero_point") + "_scale")
        if role.endswith("_zero_point") and scale is not None and scale.size == array.size == 1:
            alike[role] = array.reshape(scale.shape)
    adapted = node.request(alike)
    if isinstance(scopes.scope_of(node.operator, adapted), Refused):
        return inputs, request
    values.notes.append("one-element zero points whose shape is not their scale's ([] and [1]) are given the scale's")
    return MappingProxyType(alike), adapted
