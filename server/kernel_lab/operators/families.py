"""The source form of a manifest, expanded: shared parts merged, variant families multiplied out, named parts put in
place.

In: JSON objects as read. Out: one JSON object that holds no `variantFamilies`, `deriveFrom`, `structFields`, named
passes, intermediates or binding sets any more. Pure. What is malformed beyond the source form goes through as it is:
manifest.py names it.

A family is `{axes: {a: [...]}, exclude: [{a: id, ...}], variants: [...]}`. Axis values are strings or objects with an
`id`; in the family's variants `{a}` stands for the id and `{a.key}` for any JSON value of that axis value. A string
that is only `{a.key}` becomes the value itself, and inside a list a list value is spliced. An axis value's `priority`
is added to the variant's.

In a variant's `passes` and `intermediates` a string is the name of one, or of a list of them, in `x-lab`.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from kernel_lab.errors import LabError

_HOLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(?:\.([A-Za-z_][A-Za-z0-9_-]*))?\}")
Json = dict[str, Any]


class _AxisValue(BaseModel):
    model_config = ConfigDict(extra="allow")

    id: str
    priority: int = 0


class _Family(BaseModel):
    model_config = ConfigDict(extra="forbid")

    axes: dict[str, list[str | _AxisValue]]
    exclude: list[dict[str, str]] = []
    variants: list[Json]


def expand(source: Json, shared: Mapping[str, Json], where: str) -> Json:
    """The expanded manifest. `shared`: the JSON objects that `deriveFrom` may name. LabError names what is unknown."""
    _check_forms(source, {"x-lab": dict, "derive": dict, "bindingSets": dict, **_LISTS}, where)
    _check_forms(source.get("x-lab", {}), {"checks": dict, "deriveFrom": list, **_KINDS, **_LISTS}, f"{where}: x-lab")
    manifest = {key: value for key, value in source.items() if key not in ("variantFamilies", "bindingSets", "x-lab")}
    lab = dict(source.get("x-lab", {}))
    named = {"bindingSets": source.get("bindingSets", {}), **{kind: lab.pop(kind, {}) for kind in _KINDS}}
    families = [*source.get("variantFamilies", []), *lab.pop("variantFamilies", [])]
    for name in lab.pop("deriveFrom", []):
        if name not in shared:
            raise LabError(f"{where}: x-lab.deriveFrom: unknown {name!r} (known: {', '.join(sorted(shared))}).")
        part = shared[name]
        manifest["derive"] = {**part.get("derive", {}), **manifest.get("derive", {})}
        checks, own = part.get("checks", {}), lab.get("checks", {})
        lab["checks"] = {r: [*checks.get(r, []), *own.get(r, [])] for r in ("structure", "geometry")}
        named = {kind: {**part.get(kind, {}), **parts} for kind, parts in named.items()}
    parts = _Parts(named, where)
    variants = [*source.get("variants", [])]
    for number, family in enumerate(families):
        variants.extend(_members(family, f"{where}: variantFamilies[{number}]"))
    manifest["variants"] = [parts.variant(variant) if isinstance(variant, dict) else variant for variant in variants]
    manifest["x-lab"] = lab
    return manifest


_KINDS: dict[str, type] = {"structFields": dict, "passes": dict, "intermediates": dict}
_LISTS: dict[str, type] = {"variants": list, "variantFamilies": list}


def _check_forms(source: Json, forms: Mapping[str, type], where: str) -> None:
    for key, form in forms.items():
        if key in source and not isinstance(source[key], form):
            wanted = "an object" if form is dict else "a list"
            raise LabError(f"{where}: {key}: must be {wanted}, found {type(source[key]).__name__}.")


def _members(source: Any, where: str) -> Iterator[Json]:
    try:
        family = _Family.model_validate(source)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise LabError(f"{where}.{'.'.join(map(str, first['loc']))}: {first['msg']}.") from None
    axes: dict[str, list[Json]] = {
        name: [{"id": value} if isinstance(value, str) else value.model_dump(exclude_unset=True) for value in values]
        for name, values in family.axes.items()
    }
    for rule in family.exclude:
        for axis, value in rule.items():
            known = [entry["id"] for entry in axes.get(axis, [])]
            if value not in known:
                allowed = f"{axis} has {', '.join(map(repr, known))}" if known else f"the axes are {', '.join(axes)}"
                raise LabError(f"{where}.exclude: there is no {axis}={value!r} ({allowed}).")
    for combination in itertools.product(*axes.values()):
        chosen = dict(zip(axes, combination, strict=True))
        if any(all(chosen[axis]["id"] == value for axis, value in rule.items()) for rule in family.exclude):
            continue
        labels = ", ".join(f"{axis}={value['id']!r}" for axis, value in chosen.items())
        place = f"{where} ({labels})"
        extra = sum(value.get("priority", 0) for value in chosen.values())
        for variant in family.variants:
            try:
                filled = _fill(variant, chosen, place)
            except RecursionError:
                raise LabError(f"{place}: axis values stand for each other in a circle.") from None
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
        return _fill(_lookup(whole, chosen, where), chosen, where)

    def text(hole: re.Match[str]) -> str:
        found = _fill(_lookup(hole, chosen, where), chosen, where)
        if isinstance(found, dict | list):
            kind = "an object" if isinstance(found, dict) else "a list"
            raise LabError(f"{where}: {hole.group(0)} is {kind} and cannot stand inside the text {value!r}.")
        return found if isinstance(found, str) else json.dumps(found)

    return _HOLE.sub(text, value)


def _lookup(hole: re.Match[str], chosen: Mapping[str, Json], where: str) -> Any:
    axis, key = hole.group(1), hole.group(2) or "id"
    if axis not in chosen or key not in chosen[axis]:
        known = ", ".join(f"{{{name}.{k}}}" for name, axis_value in chosen.items() for k in axis_value)
        raise LabError(f"{where}: nothing stands for {hole.group(0)} (known: {known}).")
    return chosen[axis][key]


class _Parts:
    """The named parts a variant may use, by kind."""

    def __init__(self, named: Mapping[str, Json], where: str) -> None:
        self._by_kind, self._where = named, where

    def variant(self, variant: Json) -> Json:
        bindings = variant.get("bindings")
        entry = {key: value for key, value in variant.items() if key != "bindings"}
        place = f"{self._where}: variants[{variant.get('id')}]"
        for kind, singular in (("passes", "pass"), ("intermediates", "intermediate")):
            if isinstance(entry.get(kind), list):
                entry[kind] = [part for item in entry[kind] for part in self._listed(kind, item, singular, place)]
        if isinstance(entry.get("passes"), list):
            entry["passes"] = [self._pass(item, bindings, place) for item in entry["passes"]]
        return entry

    def _listed(self, kind: str, item: Any, singular: str, where: str) -> list[Any]:
        """The item itself; or what its name stands for, which has the name as its id unless it states another."""
        if not isinstance(item, str):
            return [item]
        found = self._named(self._by_kind[kind], item, singular, where)
        return found if isinstance(found, list) else [{"id": item, **found}]

    def _pass(self, item: Any, variant_bindings: Any, where: str) -> Any:
        if not isinstance(item, dict):
            return item
        used = self._named(self._by_kind["passes"], item["use"], "pass", where) if "use" in item else {}
        entry = {key: value for key, value in {**used, **item}.items() if key != "use"}
        bindings = entry.get("bindings", variant_bindings)
        if isinstance(bindings, str):
            bindings = self._named(self._by_kind["bindingSets"], bindings, "binding set", where)
        if isinstance(bindings, list):
            entry["bindings"] = [self._binding(binding, where) for binding in bindings]
        return entry

    def _binding(self, binding: Any, where: str) -> Any:
        struct = binding.get("struct") if isinstance(binding, dict) else None
        if not isinstance(struct, dict) or not isinstance(struct.get("fields"), list):
            return binding
        return {**binding, "struct": {**struct, "fields": list(self._fields(struct["fields"], where, ()))}}

    def _fields(self, fields: list[Any], where: str, above: tuple[str, ...]) -> Iterator[Any]:
        """A name stands for a list, which may use others by name."""
        for item in fields:
            if not isinstance(item, str):
                yield item
            elif item in above:
                raise LabError(f"{where}: struct field lists use each other in a circle: {' > '.join([*above, item])}.")
            else:
                named = self._named(self._by_kind["structFields"], item, "struct field list", where)
                yield from self._fields(named, where, (*above, item))

    @staticmethod
    def _named(parts: Json, name: str, kind: str, where: str) -> Any:
        if name not in parts:
            raise LabError(f"{where}: unknown {kind} {name!r} (known: {', '.join(sorted(parts)) or 'none'}).")
        return parts[name]
