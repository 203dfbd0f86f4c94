"""Step 6: a Plan says everything the harness must do: buffers, passes, outputs. The harness decides nothing.

In: a Scope, a variant, the device's facts. Out: `Plan`. Pure but for reading templates.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kernel_lab.errors import LabError
from kernel_lab.operators import dtypes
from kernel_lab.operators.dtypes import Packing
from kernel_lab.operators.manifest import Binding, Pass, Struct, Variant
from kernel_lab.planning import declarations, expressions, includes, layout, matrices, rendering
from kernel_lab.planning.expressions import Unmet
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.planning.rendering import Wgsl
from kernel_lab.planning.scopes import Names, Scope

POISON = 0xA5A5A5A5
"""What outputs and intermediates hold before a run: a word never written shows."""

REQUESTED_LIMITS = (
    "maxBufferSize",
    "maxStorageBufferBindingSize",
    "maxStorageBuffersPerShaderStage",
    "maxComputeWorkgroupStorageSize",
    "maxComputeInvocationsPerWorkgroup",
    "maxComputeWorkgroupSizeX",
    "maxComputeWorkgroupSizeY",
    "maxComputeWorkgroupSizeZ",
)
"""A device is requested with the adapter's (or the profile's lower) value of these, and with exactly the features its
variant requires.
"""


@dataclass(frozen=True, slots=True)
class PlannedBuffer:
    """A buffer. `bytes`: whole words, without the guard. `fill`: the word it is filled with; None for inputs. `words`:
    a uniform's.
    """

    name: str
    kind: Literal["input", "output", "intermediate", "uniform"]
    dtype: str
    shape: tuple[int, ...]
    packing: Packing
    bytes: int
    guard_bytes: int
    fill: int | None
    words: tuple[int, ...] = ()
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedBinding:
    binding: int
    buffer: str
    type: str


@dataclass(frozen=True, slots=True)
class PlannedPass:
    """One compute pass. `label`: operator:variant:pass, on every GPU object and in every message."""

    label: str
    template: str
    wgsl: Wgsl
    entry_point: str
    bindings: tuple[PlannedBinding, ...]
    workgroups: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class PlannedOutput:
    """An output to read back. `bytes`: whole words; 0 for an empty tensor."""

    name: str
    buffer: str
    dtype: str
    shape: tuple[int, ...]
    packing: Packing
    bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Buffers, passes and outputs of one request by one variant on one kind of device. `emulated`: plain WGSL stands in
    for subgroup matrices.
    """

    label: str
    features: tuple[str, ...]
    limits: Mapping[str, int]
    buffers: tuple[PlannedBuffer, ...]
    passes: tuple[PlannedPass, ...]
    outputs: tuple[PlannedOutput, ...]
    emulated: bool = False

    def buffer(self, name: str) -> PlannedBuffer:
        return next(buffer for buffer in self.buffers if buffer.name == name)

    def wgsl_of(self, label: str) -> Wgsl | None:
        return next((item.wgsl for item in self.passes if item.label == label), None)


def plan_of(scope: Scope, variant: Variant, facts: DeviceFacts, *, probes: bool = False) -> Plan:
    """The plan; LabError (with file and line) if the variant cannot be laid out or rendered. `probes`: its WGSL has the
    markers of probes, which `debugging/probing.py` replaces.
    """
    label = f"{scope.operator.id}:{variant.id}"
    tensors = layout.tensors_of(variant, scope, facts)
    buffers = [
        PlannedBuffer(t.name, t.kind, t.dtype, t.shape, t.packing, t.bytes, layout.GUARD_BYTES, _fill(t))
        for t in tensors
    ]
    outputs = tuple(
        PlannedOutput(t.name, t.name, t.dtype, t.shape, t.packing, t.bytes if dtypes.numel(t.shape) else 0)
        for t in tensors
        if t.kind == "output"
    )
    passes: list[PlannedPass] = []
    if not layout.is_empty(scope):
        values = layout.variant_values(variant, scope, facts)
        for item in variant.passes:
            try:
                planned, uniforms = _pass(item, variant, scope, values, facts, {b.name for b in buffers}, probes)
            except Unmet as error:
                raise LabError(f"{label}:{item.id}: {error}") from None
            passes.append(planned)
            buffers.extend(uniform for uniform in uniforms if uniform.name not in {b.name for b in buffers})
    emulated = matrices.must_emulate(variant, facts)
    features = set(matrices.features(variant, facts))
    limits = {name: facts.limits[name] for name in REQUESTED_LIMITS if name in facts.limits}
    return Plan(label, tuple(sorted(features)), limits, tuple(buffers), tuple(passes), outputs, emulated)


def _fill(tensor: layout.Tensor) -> int | None:
    if tensor.kind == "input":
        return None
    return 0 if tensor.zeroed else POISON


def _pass(
    item: Pass, variant: Variant, scope: Scope, values: Mapping[str, Any], facts: DeviceFacts, known: set[str],
    probes: bool,
) -> tuple[PlannedPass, list[PlannedBuffer]]:  # fmt: skip
    constants = {name: scope.values["constants"][name] for name in scope.values["constants"]}
    names = {**values, "constants": Names(constants), "pass": item.id, "variant": variant.id}
    for name, expression in {**variant.constants, **item.constants}.items():  # each may read those before it
        constants[name] = expressions.evaluate(expression, names)
    label = f"{scope.operator.id}:{variant.id}:{item.id}"
    bindings, made = [], []
    for index, binding in enumerate(item.bindings):
        buffer, new = _bound(binding, item, scope, names, known)
        bindings.append(PlannedBinding(index, buffer, binding.buffer.type))
        made.extend(new)
    tunables = {name: names["tunables"][name] for name in names["tunables"]}
    context = {
        **constants,
        "dtypes": {name: values["dtypes"][name] for name in values["dtypes"]},
        "tunables": tunables,
        "source": {k: _source_value(v, names) for k, v in (item.source.inputs if item.source else {}).items()},
        "env": {"wgsl": {"resourceDeclarations": declarations.resource_declarations(item.bindings, names)}},
    }
    source = includes.read(item.template, scope.operator.template_folders, probes=probes)
    wgsl = rendering.render(source, context)
    limit = facts.limits[layout.WORKGROUPS_LIMIT]
    counts = layout.workgroups(item.dispatch, names, limit)
    return PlannedPass(label, item.template, wgsl, item.entryPoint, tuple(bindings), counts), made


def _source_value(value: Any, names: Mapping[str, Any]) -> Any:
    return (
        [expressions.evaluate(part, names) for part in value]
        if isinstance(value, list)
        else expressions.evaluate(value, names)
    )


def _bound(
    binding: Binding, item: Pass, scope: Scope, names: Mapping[str, Any], known: set[str]
) -> tuple[str, list[PlannedBuffer]]:
    """The name of the buffer behind a binding, and the buffers that only exist because of it."""
    if binding.struct is not None:
        words = _uniform_words(binding.struct, names)
        name = f"{item.id}.{binding.name}"
        size = 4 * len(words)
        fields = tuple(field.name for field in binding.struct.fields)
        return name, [PlannedBuffer(name, "uniform", "uint32", (len(words),), "packed", size, 0, None, words, fields)]
    name = binding.arg or binding.name
    if name in known:
        return name, []
    if binding.lab.absent == "zero" and scope.tensor(name) is None:
        absent = f"absent.{name}"
        return absent, [PlannedBuffer(absent, "intermediate", "uint32", (1,), "packed", 4, layout.GUARD_BYTES, 0)]
    there = ", ".join(sorted(known))
    raise Unmet(f"binding {binding.name!r}: {name!r} is no input, output or intermediate here (known: {there}).")


def _uniform_words(uniform: Struct, names: Mapping[str, Any]) -> tuple[int, ...]:
    # named by number, so that no field hides a derived value of its name from the fields behind it
    fields = {f"field_{index}": field for index, field in enumerate(uniform.fields)}
    values = expressions.sequence(tuple((name, field.value) for name, field in fields.items()))(names)
    words = [_word(field.type, values[name], field.name) for name, field in fields.items()]
    return tuple(words + [0] * (len(declarations.padded_fields(uniform)) - len(words)))


def _word(kind: str, value: Any, name: str) -> int:
    try:
        if kind == "f32":
            return int(struct.unpack("<I", struct.pack("<f", value))[0])
        low, high = (-(2**31), 2**31) if kind == "i32" else (0, 2**32)
        if not low <= int(value) < high or int(value) != value:
            raise ValueError
        return int(value) & 0xFFFFFFFF
    except (TypeError, ValueError, struct.error, OverflowError):
        raise Unmet(f"uniform field {name!r} is {value!r}, which is no {kind}.") from None
