"""What a manifest's parts must be to each other: names that are told apart, and names that exist.

In: a parsed manifest. Out: sentences, each with the place. Expressions are not read here.
"""

from collections.abc import Iterable, Iterator

from kernel_lab.operators.manifest import UNREAD, Manifest, Pass, Variant


def faults(manifest: Manifest) -> Iterator[str]:
    """What is wrong, in the manifest's order; nothing if all is well."""
    roles = [*(item.role for item in manifest.inputs), *(item.role for item in manifest.outputs)]
    yield from _twice("inputs, outputs", roles)
    for name in manifest.lab.attributeTypes:
        yield from _unknown("x-lab.attributeTypes", "attribute", name, manifest.attributes)
    for row in manifest.lab.opsets:
        for name in row.attributes:
            yield from _unknown(f"x-lab.opsets[{row.domain} {row.version}]", "attribute", name, manifest.attributes)
    for check in manifest.lab.valueChecks:
        yield from _unknown("x-lab.valueChecks", "input", check.input, [item.role for item in manifest.inputs])
    for output in manifest.lab.outputDtypes:
        yield from _unknown("x-lab.outputDtypes", "output", output, [item.role for item in manifest.outputs])
    if not manifest.variants:
        yield "variants: there is none."
    yield from _twice("variants", [variant.id for variant in manifest.variants])
    for variant in manifest.variants:
        yield from _variant_faults(variant, roles)


def _variant_faults(variant: Variant, roles: list[str]) -> Iterator[str]:
    place = f"variants[{variant.id}]"
    buffers = [*roles, *(item.id for item in variant.intermediates)]
    yield from _twice(f"{place}.intermediates", buffers)
    yield from _twice(f"{place}.passes", [item.id for item in variant.passes])
    for intermediate in variant.intermediates:
        holds = intermediate.lab.holds
        if holds is not None and isinstance(holds.padding, str):
            where = f"{place}.intermediates[{intermediate.id}].x-lab.holds.padding"
            yield from _unknown(where, "input", holds.padding, [UNREAD, *roles])
    for role in variant.lab.packing:
        yield from _unknown(f"{place}.x-lab.packing", "input or output", role, ["*", *roles])
    for item in variant.passes:
        yield from _pass_faults(item, buffers, f"{place}.passes[{item.id}]")


def _pass_faults(item: Pass, buffers: list[str], place: str) -> Iterator[str]:
    if not item.template:
        yield f"{place}: has neither `shader` nor `source`."
    if not item.dispatch.model_fields_set:
        yield f"{place}.dispatch: is empty; give threads, workgroups or x."
    yield from _twice(f"{place}.bindings", [binding.name for binding in item.bindings])
    for binding in item.bindings:
        where = f"{place}.bindings[{binding.name}]"
        if binding.struct is not None:
            yield from _twice(f"{where}.struct.fields", [field.name for field in binding.struct.fields])
        else:
            yield from _unknown(where, "input, output or intermediate", binding.arg or binding.name, buffers)


def _twice(place: str, names: list[str]) -> Iterator[str]:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        yield f"{place}: these names stand twice: {', '.join(twice)}."


def _unknown(place: str, kind: str, name: str, known: Iterable[str]) -> Iterator[str]:
    if name not in known:
        yield f"{place}: unknown {kind} {name!r} (known: {', '.join(known) or 'none'})."
