"""The source form of a manifest, expanded: shared parts merged, variant families multiplied out, named parts put in
place.

In: JSON objects as read. Out: one JSON object that holds no `variantFamilies`, `deriveFrom`, `structFields`, named
passes or binding sets any more. Pure.

A family is `{axes: {a: [...]}, exclude: [{a: id, ...}], variants: [...]}`. Axis values are strings or objects with an
`id`; in the family's variants `{a}` stands for the id and `{a.key}` for any JSON value of that axis value. A string
that is only `{a.key}` becomes the value itself, and inside a list a list value is spliced.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kernel_lab.errors import LabError

_HOLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(?:\.([A-Za-z_][A-Za-z0-9_-]*))?\}")
Json = dict[str, Any]


def expand(source: Json, shared: Mapping[str, Json], where: str) -> Json:
    """The expanded manifest. `shared`: the JSON objects that `deriveFrom` may name. LabError names what is unknown."""
    manifest = {key: value for key, value in source.items() if key not in ("variantFamilies", "bindingSets", "x-lab")}
    lab = dict(source.get("x-lab", {}))
    struct_fields = dict(lab.pop("structFields", {}))
    passes = lab.pop("passes", {})
    families = [*source.get("variantFamilies", []), *lab.pop("variantFamilies", [])]
    for name in lab.pop("deriveFrom", []):
        if name not in shared:
            raise LabError(f"{where}: x-lab.deriveFrom: unknown {name!r} (known: {', '.join(sorted(shared))}).")
        part = shared[name]
        manifest["derive"] = {**part.get("derive", {}), **manifest.get("derive", {})}
        checks, own = part.get("checks", {}), lab.get("checks", {})
        lab["checks"] = {r: [*checks.get(r, []), *own.get(r, [])] for r in ("structure", "geometry")}
        struct_fields = {**part.get("structFields", {}), **struct_fields}
        passes = {**part.get("passes", {}), **passes}
    parts = _Parts(passes, source.get("bindingSets", {}), struct_fields, where)
    variants = [*source.get("variants", [])]
    for number, family in enumerate(families):
        variants.extend(_members(family, f"{where}: variantFamilies[{number}]"))
    manifest["variants"] = [parts.variant(variant) for variant in variants]
    manifest["x-lab"] = lab
    return manifest


def _members(family: Json, where: str) -> Iterator[Json]:
    axes = {name: [v if isinstance(v, dict) else {"id": v} for v in values] for name, values in family["axes"].items()}
    excluded = family.get("exclude", [])
    for combination in itertools.product(*axes.values()):
        chosen = dict(zip(axes, combination, strict=True))
        if any(all(chosen[axis]["id"] == value for axis, value in rule.items()) for rule in excluded):
            continue
        labels = ", ".join(f"{axis}={value['id']!r}" for axis, value in chosen.items())
        place = f"{where} ({labels})"
        extra = sum(value.get("priority", 0) for value in chosen.values())
        for variant in family["variants"]:
            filled = _fill(variant, chosen, place)
            yield {**filled, "priority": filled.get("priority", 0) + extra}


def _fill(value: Any, chosen: Mapping[str, Json], where: str) -> Any:
    if isinstance(value, dict):
        return {_fill(key, chosen, where): _fill(item, chosen, where) for key, item in value.items()}
    if isinstance(value, list):
        filled: list[Any] = []
        for item in value:
            new = _fill(item, chosen, where)
            spliced = isinstance(item, str) and isinstance(new, list)
            filled.extend(new if spliced else [new])
        return filled
    if not isinstance(value, str):
        return value
    whole = _HOLE.fullmatch(value)
    if whole:
        found = _lookup(whole, chosen, where)
        return _fill(found, chosen, where) if found != value else found
    return _HOLE.sub(lambda hole: str(_lookup(hole, chosen, where)), value)


def _lookup(hole: re.Match[str], chosen: Mapping[str, Json], where: str) -> Any:
    axis, key = hole.group(1), hole.group(2) or "id"
    if axis not in chosen or key not in chosen[axis]:
        known = ", ".join(f"{{{name}.{k}}}" for name, axis_value in chosen.items() for k in axis_value)
        raise LabError(f"{where}: nothing stands for {hole.group(0)} (known: {known}).")
    return chosen[axis][key]


class _Parts:
    """The named parts a variant may use."""

    def __init__(self, passes: Json, binding_sets: Json, struct_fields: Json, where: str) -> None:
        self._passes, self._binding_sets, self._struct_fields, self._where = passes, binding_sets, struct_fields, where

    def variant(self, variant: Json) -> Json:
        bindings = variant.get("bindings")
        entry = {key: value for key, value in variant.items() if key != "bindings"}
        place = f"{self._where}: variants[{variant.get('id')}]"
        entry["passes"] = [self._pass(item, bindings, place) for item in variant.get("passes", [])]
        return entry

    def _pass(self, item: Json, variant_bindings: Any, where: str) -> Json:
        entry = {**self._named(self._passes, item["use"], "pass", where), **item} if "use" in item else dict(item)
        entry.pop("use", None)
        bindings = entry.get("bindings", variant_bindings)
        if isinstance(bindings, str):
            bindings = self._named(self._binding_sets, bindings, "binding set", where)
        entry["bindings"] = [self._binding(binding, where) for binding in bindings or []]
        return entry

    def _binding(self, binding: Json, where: str) -> Json:
        if "struct" not in binding:
            return binding
        fields: list[Any] = []
        for item in binding["struct"]["fields"]:
            fields.extend(
                self._named(self._struct_fields, item, "struct field list", where) if isinstance(item, str) else [item]
            )
        return {**binding, "struct": {**binding["struct"], "fields": fields}}

    @staticmethod
    def _named(parts: Json, name: str, kind: str, where: str) -> Any:
        if name not in parts:
            raise LabError(f"{where}: unknown {kind} {name!r} (known: {', '.join(sorted(parts)) or 'none'}).")
        return parts[name]
