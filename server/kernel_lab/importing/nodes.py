"""An ONNX node as a call of one of our operators.

In: a NodeProto, the opsets its model imports, operators. Out: a `Node`, then a `Request`. Never runs anything. No
operator is named here: which nodes one stands for follows from its id and the domains in its manifest's opsets.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx

from kernel_lab.errors import LabError
from kernel_lab.operators.cases import Tensors
from kernel_lab.operators.operator import Operator
from kernel_lab.operators.requests import Attribute, Opset, Request, request_of
from kernel_lab.planning import scopes
from kernel_lab.planning.scopes import Refused

DEFAULT_DOMAIN = "ai.onnx"
LARGEST_BYTES = 2_000_000_000
"""Of weights. A model travels to ONNX Runtime as one protobuf message, which holds 2 GiB in all."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """`inputs`: tensor names by role, absent ones left out. `opsets`: the readings that come into question, best first;
    None is the operator's newest. `label`: the node's name, or its first output's."""

    operator: Operator
    label: str
    opsets: tuple[Opset | None, ...]
    attrs: Mapping[str, Attribute]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]

    def request(self, inputs: Tensors) -> Request:
        """The request that these inputs make, at the first opset that has this form; else at the first of all."""
        requests = [request_of(self.operator.id, inputs, self.attrs, opset) for opset in self.opsets]
        valid = (r for r in requests if not isinstance(scopes.scope_of(self.operator, r), Refused))
        return next(valid, requests[0])


def read(node: onnx.NodeProto, opsets: Mapping[str, int], operators: Mapping[str, Operator]) -> Node | None:
    """The node as a call of an operator, or None if no operator of that name exists."""
    domain = node.domain or DEFAULT_DOMAIN
    found = next(_readings(domain, node.op_type, opsets, operators), None)
    if found is None:
        return None
    operator, readings = found
    label = node.name or next(name for name in node.output if name)
    manifest = operator.manifest
    if len(node.input) > len(manifest.inputs):
        most = f"{operator.id} has at most {len(manifest.inputs)}"
        raise LabError(f"node {label}: got {len(node.input)} inputs, but {most}.")
    return Node(
        operator=operator,
        label=label,
        opsets=readings,
        attrs={attribute.name: _attribute(attribute) for attribute in node.attribute},
        inputs={i.role: name for i, name in zip(manifest.inputs, node.input, strict=False) if name},
        outputs={o.role: name for o, name in zip(manifest.outputs, node.output, strict=False) if name},
    )


def _readings(
    domain: str, name: str, opsets: Mapping[str, int], operators: Mapping[str, Operator]
) -> Iterator[tuple[Operator, tuple[Opset | None, ...]]]:
    """The operators that the node may be, each with the opsets at which to read it."""
    for operator in operators.values():
        manifest = operator.manifest
        if manifest.name != name:
            continue
        if domain == manifest.domain or domain in {row.domain for row in manifest.lab.opsets}:
            yield operator, (Opset(domain, opsets.get(domain, 1)),)
        elif manifest.domain == DEFAULT_DOMAIN:
            # A contrib twin of a standard operator: what the model's own opset lacks, a newer one has.
            yield operator, (Opset(DEFAULT_DOMAIN, opsets.get(DEFAULT_DOMAIN, 1)), None)


def _attribute(attribute: onnx.AttributeProto) -> Attribute:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, (int, float, str)) else [v.decode() if isinstance(v, bytes) else v for v in value]


def opsets_of(model: onnx.ModelProto) -> dict[str, int]:
    """The version of each domain that the model imports."""
    return {entry.domain or DEFAULT_DOMAIN: entry.version for entry in model.opset_import}


def load(path: Path) -> onnx.ModelProto:
    """The model in that file, with its external data; LabError if it is none, or larger than one message may be."""
    try:
        model = onnx.load(path)
    except OSError as error:
        raise LabError(f"{path}: cannot be read: {error.strerror or error}.") from None
    except Exception as error:  # noqa: BLE001  protobuf's and onnx's own exceptions have no common class
        raise LabError(f"{path}: is no ONNX model ({type(error).__name__}: {error}).") from None
    if not model.graph.node:
        raise LabError(f"{path}: is no ONNX model, or one without nodes.")
    size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    if size > LARGEST_BYTES:
        raise LabError(f"{path}: has {size:,} bytes of weights; at most {LARGEST_BYTES:,} are supported.")
    return model
