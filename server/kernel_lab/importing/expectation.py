"""Which value of a node's output is the right one, and who says so.

In: a node's inputs, what ONNX Runtime gave for it (or None: it refused), the operator's reference. Out: tensors and a
sentence for the report. Where the two agree, or only ONNX Runtime stands against the reference, ONNX Runtime's value is
expected, so that a difference fails; unless 16-bit saturation of pairs explains it, a fault of older CPUs.
"""

from collections.abc import Mapping

from kernel_lab.importing import runtime, saturation
from kernel_lab.judging.comparison import Difference, difference
from kernel_lab.operators.cases import Tensors
from kernel_lab.operators.references import Reference
from kernel_lab.operators.requests import Attribute

REFERENCE = "the reference"


def expected(
    inputs: Tensors, attrs: Mapping[str, Attribute], from_runtime: Tensors | None, reference: Reference
) -> tuple[Tensors, str]:
    """The right outputs, and who says so."""
    computed = reference.compute(inputs, attrs)
    if from_runtime is None:
        return computed, f"{REFERENCE} ({runtime.name()} does not run this node)"
    differences = [
        (role, found) for role, array in computed.items() if (found := difference(array, from_runtime[role]))
    ]
    if not differences:
        return from_runtime, runtime.name()
    role, found = differences[0]
    if not found.kind and _saturated(inputs, attrs, found, reference):
        return computed, f"{REFERENCE} ({runtime.name()} saturates pairs at 16 bits on this machine)"
    count = found.kind or f"{found.count:,} of {found.size:,} elements, first at {list(found.first)}"
    return from_runtime, f"{runtime.name()}, against the reference ({role}: {count})"


def _saturated(inputs: Tensors, attrs: Mapping[str, Attribute], found: Difference, reference: Reference) -> bool:
    """Whether saturation of pairs gives exactly what ONNX Runtime gave (`found.expected`)."""
    saturated = saturation.outputs(inputs, attrs, reference.compute)
    return any(difference(y, found.expected) is None for y in saturated)
