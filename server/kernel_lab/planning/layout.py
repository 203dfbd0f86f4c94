"""Buffers and dispatches of a variant for one request: how many bytes, how many workgroups, and whether a device takes
them.

In: a variant and a Scope. Out: buffer shapes and counts. Pure; used by selection (limits) and by plans.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from kernel_lab.operators import dtypes
from kernel_lab.operators.dtypes import Packing
from kernel_lab.operators.manifest import Dispatch, Expr, Intermediate, Variant
from kernel_lab.planning import expressions, matrices
from kernel_lab.planning.expressions import DEVICE_NAMES, Unmet
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.planning.scopes import Names, Scope

BUFFER_LIMITS = ("maxStorageBufferBindingSize", "maxBufferSize")
BINDINGS_LIMIT = "maxStorageBuffersPerShaderStage"
WORKGROUPS_LIMIT = "maxComputeWorkgroupsPerDimension"
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


@lru_cache(maxsize=4096)
def names_of_device(variant: Variant) -> frozenset[str]:
    """The names that have no value without a device: the device's own, and what the variant derives from them."""
    names = set(DEVICE_NAMES)
    for name, expression in variant.derive.items():
        if expressions.names_in(expression) & names:
            names.add(name)
    return frozenset(names)


def variant_values(variant: Variant, scope: Scope, facts: DeviceFacts | None) -> Mapping[str, Any]:
    """The scope's names with the device's, the chosen subgroup matrix (`matrix.M` …) and the variant's own; without a
    device, those that do not need one.
    """
    values = dict(scope.values)
    without = names_of_device(variant)
    if facts is not None:
        values |= {**matrices.device_names(facts), "matrix": matrices.names(variant, facts)}
        without = frozenset()
    if variant.tunables:
        base = {name: scope.values["tunables"][name] for name in scope.values["tunables"]}
        values["tunables"] = Names({**base, **{n: scope(e) for n, e in variant.tunables.items()}})
    derive = tuple((name, expression) for name, expression in variant.derive.items() if name not in without)
    if derive:
        values.update(expressions.sequence(derive)(values))
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
    if not isinstance(dims, list) or not all(isinstance(dim, int) and dim >= 0 for dim in dims):
        raise Unmet(f"intermediates[{intermediate.id}].shape is {dims!r}; it must be a list of integers of 0 or more.")
    return tuple(dims)


def is_empty(scope: Scope) -> bool:
    """Whether every output has no elements: then nothing is dispatched."""
    return all(dtypes.numel(output.shape) == 0 for output in scope.outputs.values())


def workgroups(dispatch: Dispatch, values: Mapping[str, Any], limit: int) -> tuple[int, int, int]:
    """The dispatch as x, y, z. A count is folded: x = min(n, limit), y = ceil(n / x); kernels flatten it again."""

    def whole(name: str, given: Expr | None, default: int, least: int = 0) -> int:
        value = default if given is None else expressions.evaluate(given, values)
        if not isinstance(value, int) or value < least:
            raise Unmet(f"dispatch.{name} is {value!r}; it must be an integer of {least} or more.")
        return value

    if dispatch.threads is None and dispatch.workgroups is None:
        return (whole("x", dispatch.x, 1), whole("y", dispatch.y, 1), whole("z", dispatch.z, 1))
    if dispatch.threads is not None:
        count = -(-whole("threads", dispatch.threads, 0) // whole("workgroupSize", dispatch.workgroupSize, 64, least=1))
    else:
        count = whole("workgroups", dispatch.workgroups, 0)
    x = min(count, limit)
    return (x, -(-count // x) if x else 0, 1)


def beyond_limits(variant: Variant, scope: Scope, facts: DeviceFacts) -> Iterator[str]:
    """One sentence for each thing that this device cannot hold or dispatch."""
    limits = facts.limits
    for tensor in tensors_of(variant, scope, facts):
        size = tensor.bytes + GUARD_BYTES
        for name in BUFFER_LIMITS:
            if size > limits[name]:
                kept = f"{tensor.dtype}{list(tensor.shape)} takes {size:,} bytes"
                yield f"{tensor.name}: {kept}, but this adapter's {name} is {limits[name]:,}."
    most = limits[BINDINGS_LIMIT]
    values = variant_values(variant, scope, facts)
    for item in variant.passes:
        count = sum(binding.buffer.type != "uniform" for binding in item.bindings)
        if count > most:
            yield f"pass {item.id} binds {count} storage buffers, but this adapter allows {most}."
        if not is_empty(scope):
            limit = limits[WORKGROUPS_LIMIT]
            counts = workgroups(item.dispatch, values, limit)
            if max(counts) > limit:
                yield f"pass {item.id} needs {counts} workgroups, but this adapter allows {limit:,} in each dimension."
