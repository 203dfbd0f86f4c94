"""Buffers and dispatches of a variant for one request: how many bytes, how many workgroups, and whether a device takes
them.

In: a variant and a Scope. Out: buffer shapes and counts. Pure; used by selection (limits) and by plans.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kernel_lab.operators import dtypes
from kernel_lab.operators.dtypes import Packing
from kernel_lab.operators.manifest import Dispatch, Intermediate, Variant
from kernel_lab.planning import expressions, matrices
from kernel_lab.planning.expressions import Unmet
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.planning.scopes import Names, Scope

GUARD_BYTES = 16
"""Four words at the end of every storage binding that no kernel may touch."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor as a variant keeps it: `bytes` counts whole 32-bit words, at least one, without the guard."""

    name: str
    kind: Literal["input", "output", "intermediate"]
    dtype: str
    shape: tuple[int, ...]
    packing: Packing
    bytes: int
    zeroed: bool = False


def _bytes(dtype: str, shape: tuple[int, ...], packing: Packing) -> int:
    return 4 * max(1, dtypes.words(dtypes.numel(shape), dtypes.named(dtype), packing))


def variant_values(variant: Variant, scope: Scope, facts: DeviceFacts) -> Mapping[str, Any]:
    """The scope's names with the device's, the chosen subgroup matrix (`matrix.M` …) and the variant's own."""
    values = {**scope.values, **matrices.device_names(facts), "matrix": matrices.names(variant, facts)}
    if variant.tunables:
        base = {name: scope.values["tunables"][name] for name in scope.values["tunables"]}
        values["tunables"] = Names({**base, **{n: scope(e) for n, e in variant.tunables.items()}})
    if variant.derive:
        values.update(expressions.sequence(tuple(variant.derive.items()))(values))
    return values


def tensors_of(variant: Variant, scope: Scope, facts: DeviceFacts) -> tuple[Tensor, ...]:
    """Inputs, outputs and intermediates; an absent optional input is not among them."""
    values = variant_values(variant, scope, facts)
    found: list[Tensor] = []
    for item in scope.operator.manifest.inputs:
        kept = scope.tensor(item.role)
        if kept is not None:
            packing = variant.packing_of(item.role)
            size = _bytes(kept.dtype, kept.shape, packing)
            found.append(Tensor(item.role, "input", kept.dtype, kept.shape, packing, size))
    for role, output in scope.outputs.items():
        packing = variant.packing_of(role)
        size = _bytes(output.dtype, output.shape, packing)
        found.append(Tensor(role, "output", output.dtype, output.shape, packing, size))
    for intermediate in variant.intermediates:
        shape = _shape(intermediate, values)
        size = _bytes(intermediate.dtype, shape, "packed")
        zeroed = intermediate.lab.fill == "zero"
        found.append(Tensor(intermediate.id, "intermediate", intermediate.dtype, shape, "packed", size, zeroed))
    return tuple(found)


def _shape(intermediate: Intermediate, values: Mapping[str, Any]) -> tuple[int, ...]:
    shape = intermediate.shape
    dims = (
        [expressions.evaluate(d, values) for d in shape]
        if isinstance(shape, list)
        else expressions.evaluate(shape, values)
    )
    return tuple(int(d) for d in dims)


def is_empty(scope: Scope) -> bool:
    """Whether every output has no elements: then nothing is dispatched."""
    return all(dtypes.numel(output.shape) == 0 for output in scope.outputs.values())


def workgroups(dispatch: Dispatch, values: Mapping[str, Any], limit: int) -> tuple[int, int, int]:
    """The dispatch as x, y, z. A count is folded: x = min(n, limit), y = ceil(n / x); kernels flatten it again."""
    if dispatch.threads is not None or dispatch.workgroups is not None:
        if dispatch.threads is not None:
            size = expressions.evaluate(dispatch.workgroupSize if dispatch.workgroupSize is not None else 64, values)
            count = -(-expressions.evaluate(dispatch.threads, values) // size)
        else:
            count = expressions.evaluate(dispatch.workgroups, values)
        x = min(count, limit)
        found = (x, -(-count // x) if x else 0, 1)
    else:
        parts = (dispatch.x, dispatch.y, dispatch.z)
        x, y, z = (expressions.evaluate(part, values) if part is not None else 1 for part in parts)
        found = (x, y, z)
    if not all(isinstance(part, int) and part >= 0 for part in found):
        raise Unmet(f"dispatch gives {found}; workgroup counts must be integers of 0 or more.")
    return found


def beyond_limits(variant: Variant, scope: Scope, facts: DeviceFacts) -> Iterator[str]:
    """One sentence for each thing that this device cannot hold or dispatch."""
    limits = facts.limits
    for tensor in tensors_of(variant, scope, facts):
        size = tensor.bytes + GUARD_BYTES
        for name in ("maxStorageBufferBindingSize", "maxBufferSize"):
            if size > limits[name]:
                kept = f"{tensor.dtype}{list(tensor.shape)} takes {size:,} bytes"
                yield f"{tensor.name}: {kept}, but this adapter's {name} is {limits[name]:,}."
    most = limits["maxStorageBuffersPerShaderStage"]
    values = variant_values(variant, scope, facts)
    for item in variant.passes:
        count = sum(binding.buffer.type != "uniform" for binding in item.bindings)
        if count > most:
            yield f"pass {item.id} binds {count} storage buffers, but this adapter allows {most}."
        if not is_empty(scope):
            limit = limits["maxComputeWorkgroupsPerDimension"]
            counts = workgroups(item.dispatch, values, limit)
            if max(counts) > limit:
                yield f"pass {item.id} needs {counts} workgroups, but this adapter allows {limit:,} in each dimension."
