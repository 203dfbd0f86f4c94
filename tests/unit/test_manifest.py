"""Manifests: what is wrong is said with file, place, what was found and what is allowed; ours have nothing wrong."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from jinja2 import Environment, nodes

from kernel_lab.errors import LabError
from kernel_lab.operators import operator
from kernel_lab.operators.manifest import Manifest, Variant
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import expressions, includes
from kernel_lab.planning.expressions import DEVICE_NAMES, FUNCTIONS

Json = dict[str, Any]
SHIPPED = operator.load_all()
EVERY = pytest.mark.parametrize("op", SHIPPED.values(), ids=SHIPPED)


def _variant(manifest: Json) -> Json:
    return dict.__getitem__(manifest, "variants")[0]  # type: ignore[no-any-return]


def _copy(manifest: Json) -> Json:
    return manifest["x-lab"]["passes"]["copy"]  # type: ignore[no-any-return]


def _params(manifest: Json) -> Json:
    return manifest["bindingSets"]["all"][3]["struct"]  # type: ignore[no-any-return]


Change = Callable[[Json], object]
PLACE = "variants[plain].passes[copy]"
FAULTS: list[tuple[Change, str]] = [
    (lambda m: m.pop("inputs"), "inputs: Field required."),
    (lambda m: m.update(extra=1), "manifest: unknown key 'extra' (allowed: domain, name, sinceVersion,"),
    (lambda m: m["inputs"][0].update(dtype=3), "inputs[x].dtype: Input should be a valid string (found: 3)."),
    (lambda m: m["derive"].update(n=[1]), "derive.n: must be text or a number or true or false (found: [1])."),
    (lambda m: _variant(m).update(id="bad id"), "variants[bad id].id: String should match pattern"),
    (lambda m: _variant(m).update(priority="high"), "variants[plain].priority: Input should be a valid integer"),
    (lambda m: _variant(m).update(when={"a": 1}), "variants[plain].when[0]: must be text or a number"),
    (lambda m: _variant(m).update(passes=[3]), "variants[plain].passes[0]: Input should be a valid dictionary"),
    (
        lambda m: _variant(m).update({"x-lab": {"packing": {"x": "nibbles"}}}),
        "variants[plain].x-lab.packing.x: Input should be 'packed' or 'word' (found: 'nibbles').",
    ),
    (
        lambda m: m["bindingSets"]["all"][0].update(buffer={"type": "rw"}),
        f"{PLACE}.bindings[x].buffer.type: Input should be 'read-only-storage', 'storage' or 'uniform' (found: 'rw').",
    ),
    (
        lambda m: _params(m)["fields"][0].update(type="u64"),
        f"{PLACE}.bindings[params].struct.fields[count].type: Input should be 'u32', 'i32' or 'f32' (found: 'u64').",
    ),
    (lambda m: _copy(m).pop("dispatch"), f"{PLACE}.dispatch: Field required."),
    (
        lambda m: _copy(m)["dispatch"].update(threds=1),
        f"{PLACE}.dispatch: unknown key 'threds' (allowed: threads, workgroupSize, workgroups, x, y, z",
    ),
    (lambda m: _copy(m).update(dispatch={}), f"{PLACE}.dispatch: is empty; give threads, workgroups or x."),
    (lambda m: _copy(m).pop("shader"), f"{PLACE}: has neither `shader` nor `source`."),
    (lambda m: _variant(m)["passes"].append({"use": "copy"}), "variants[plain].passes: these names stand twice: copy."),
    (lambda m: m["variants"].append(_variant(m)), "variants: these names stand twice: plain."),
    (lambda m: m.update(variants=[]), "variants: there is none."),
    (lambda m: m["inputs"].append({"role": "y", "dtype": "T"}), "inputs, outputs: these names stand twice: y."),
    (
        lambda m: m["bindingSets"]["all"].append(m["bindingSets"]["all"][0]),
        f"{PLACE}.bindings: these names stand twice: x.",
    ),
    (
        lambda m: _params(m)["fields"].append(_params(m)["fields"][0]),
        f"{PLACE}.bindings[params].struct.fields: these names stand twice: count.",
    ),
    (
        lambda m: m["bindingSets"]["all"][2].update(arg="z"),
        f"{PLACE}.bindings[y]: unknown input, output or intermediate 'z' (known: x, bias, y).",
    ),
    (
        lambda m: _variant(m).update(intermediates=[{"id": "x", "dtype": "int32", "shape": "[1]"}]),
        "variants[plain].intermediates: these names stand twice: x.",
    ),
    (
        lambda m: _variant(m).update({"x-lab": {"packing": {"z": "packed"}}}),
        "variants[plain].x-lab.packing: unknown input or output 'z' (known: *, x, bias, y).",
    ),
    (
        lambda m: m["x-lab"].update(checks={"structure": [{"require": "true"}]}),
        "x-lab.checks.structure[0].else: Field required.",
    ),
    (
        lambda m: m["x-lab"].update(attributeTypes={"axs": "int"}),
        "x-lab.attributeTypes: unknown attribute 'axs' (known: axis, pads).",
    ),
    (
        lambda m: m["x-lab"].update(opsets=[{"domain": "d", "version": 3, "attributes": ["axs"], "types": {}}]),
        "x-lab.opsets[d 3]: unknown attribute 'axs' (known: axis, pads).",
    ),
    (
        lambda m: m["x-lab"].update(valueChecks=[{"input": "z", "rule": "zero", "else": "z."}]),
        "x-lab.valueChecks: unknown input 'z' (known: x, bias).",
    ),
    (
        lambda m: m["x-lab"].update(outputDtypes={"z": "'int8'"}),
        "x-lab.outputDtypes: unknown output 'z' (known: y).",
    ),
    (lambda m: m.update(name="Other"), "names lab.test.Other, but its folder is called lab.test.Tiny."),
]


def fault(op: Operator) -> str:
    with pytest.raises(LabError) as error:
        _ = op.manifest
    return str(error.value)


@pytest.mark.parametrize(("change", "complaint"), FAULTS, ids=[complaint[:60] for _, complaint in FAULTS])
def test_fault(operator_from: Callable[..., Operator], tiny_manifest: Json, change: Change, complaint: str) -> None:
    change(tiny_manifest)
    said = fault(operator_from(tiny_manifest))
    assert said.startswith(f"lab.test.Tiny/manifest.json: {complaint}")
    assert "\n" not in said


def test_the_tiny_manifest_itself_is_right(operator_from: Callable[..., Operator], tiny_manifest: Json) -> None:
    assert operator_from(tiny_manifest).manifest.id == "lab.test.Tiny"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a": 1,\n}', "line 2, column 1: not JSON"),
        ("[]", "must be a JSON object, found list."),
        ("", "line 1, column 1: not JSON"),
    ],
)
def test_what_is_no_json_object(operator_from: Callable[..., Operator], text: str, complaint: str) -> None:
    op = operator_from({})
    (op.folder / "manifest.json").write_text(text)
    assert fault(op).startswith(f"lab.test.Tiny/manifest.json: {complaint}")
    (op.folder / "manifest.json").unlink()
    assert fault(op) == "lab.test.Tiny/manifest.json: the file is missing."


def test_packing_is_the_role_s_or_everyone_s_or_one_per_word() -> None:
    variant = Variant.model_validate({"id": "v", "passes": [], "x-lab": {"packing": {"x": "word", "*": "packed"}}})
    assert (variant.packing_of("x"), variant.packing_of("w")) == ("word", "packed")
    assert Variant(id="v", passes=[]).packing_of("x") == "word"


@EVERY
def test_ours_loads(op: Operator) -> None:
    assert op.manifest.id == op.id == op.folder.name


@EVERY
def test_every_template_of_ours_is_there(op: Operator) -> None:
    for template in {item.template for variant in op.manifest.variants for item in variant.passes}:
        assert includes.read(template, op.template_folders).text


@EVERY
def test_every_attribute_has_a_type_and_every_opset_row_its_dtypes(op: Operator) -> None:
    manifest = op.manifest
    assert set(manifest.lab.attributeTypes) == set(manifest.attributes)
    for row in manifest.lab.opsets:
        assert set(row.types) == set(manifest.typeConstraints)
        for name, dtypes in row.types.items():
            assert set(dtypes) <= set(manifest.typeConstraints[name])


# Every expression of our manifests is read by Jinja itself: names, and members of the names whose members are known.

JINJA = Environment()
Found = tuple[str, str, frozenset[str]]
"""Place, expression, names that may be read there."""
_BEFORE = {"attrs", "shapes", "ranks", "tensorDtypes", "dtypes", "present", "opset", "tunables", "op"}


def _expressions(manifest: Manifest) -> Iterator[Found]:
    names = set(_BEFORE)
    for check in manifest.lab.checks.structure:
        yield "checks", str(check.require), frozenset(names)
        yield from (("checks.else", hole, frozenset(names)) for hole in _holes(check.sentence))
    for name, value in manifest.derive.items():
        yield f"derive.{name}", str(value), frozenset(names)
        names.add(name)
    for check in manifest.lab.checks.geometry:
        yield "checks", str(check.require), frozenset(names)
        yield from (("checks.else", hole, frozenset(names)) for hole in _holes(check.sentence))
    for output in manifest.outputs:
        shapes = output.shape if isinstance(output.shape, list) else [output.shape]
        yield from (("outputs", str(value), frozenset(names)) for value in (output.rank, *shapes))
    yield from (("outputDtypes", str(value), frozenset(names)) for value in manifest.lab.outputDtypes.values())
    names |= {"outputShapes", "outputDtypes"}
    yield from ((f"constants.{name}", str(value), frozenset(names)) for name, value in manifest.constants.items())
    names.add("constants")
    for value_check in manifest.lab.valueChecks:
        yield "valueChecks", str(value_check.when).lower(), frozenset(names)
        yield from (("valueChecks.else", hole, frozenset(names)) for hole in _holes(value_check.sentence))
    for variant in manifest.variants:
        yield from _of_variant(variant, names | DEVICE_NAMES | {"matrix"})


def _of_variant(variant: Variant, names: set[str]) -> Iterator[Found]:
    for name, value in variant.derive.items():
        yield f"{variant.id}.derive.{name}", str(value), frozenset(names)
        names = names | {name}
    texts: list[tuple[str, object]] = [("when", value) for value in (*variant.when, *variant.demoteWhen)]
    texts += [(f"limits.{name}", value) for name, value in variant.requires.lab.limits.items()]
    texts += [(f"constants.{name}", value) for name, value in variant.constants.items()]
    for intermediate in variant.intermediates:
        shape = intermediate.shape
        texts += [(f"intermediates.{intermediate.id}", v) for v in (shape if isinstance(shape, list) else [shape])]
    for item in variant.passes:
        texts += [(f"{item.id}.dispatch", v) for v in item.dispatch.model_dump(exclude_none=True).values()]
        texts += [(f"{item.id}.constants.{name}", value) for name, value in item.constants.items()]
        for binding in item.bindings:
            fields = binding.struct.fields if binding.struct else []
            texts += [(f"{item.id}.{binding.name}.{field.name}", field.value) for field in fields]
    for place, value in texts:
        yield f"{variant.id}.{place}", str(value).lower() if isinstance(value, bool) else str(value), frozenset(names)


def _holes(sentence: str) -> list[str]:
    return [hole.strip() for hole in re.findall(r"\{\{(.*?)\}\}", sentence)]


def _members(manifest: Manifest, variants: list[Variant]) -> dict[str, set[str]]:
    roles = {item.role for item in manifest.inputs}
    outputs = {item.role for item in manifest.outputs}
    constants = {*manifest.constants, *(name for v in variants for name in v.constants)}
    constants |= {name for v in variants for item in v.passes for name in item.constants}
    return {
        "attrs": set(manifest.attributes),
        "tunables": {*manifest.tunables, *(name for v in variants for name in v.tunables)},
        "constants": constants,
        "dtypes": set(manifest.typeConstraints),
        "opset": {"domain", "version"},
        "matrix": {"M", "N", "K", "componentType", "resultComponentType", "emulated"},
        **dict.fromkeys(("shapes", "ranks", "tensorDtypes", "present"), roles),
        **dict.fromkeys(("outputShapes", "outputDtypes"), outputs),
    }


@EVERY
def test_every_expression_of_ours_compiles_and_reads_known_names_only(op: Operator) -> None:
    members = _members(op.manifest, op.manifest.variants)
    found = {(text, names): place for place, text, names in _expressions(op.manifest)}
    assert len(found) > 20
    for (text, names), place in found.items():
        compiled = expressions.compiled(text)
        assert compiled.names <= names, f"{place}: `{text}` reads {sorted(compiled.names - names)}"
        for node in JINJA.parse("{{ (" + text + ") }}").find_all(nodes.Getattr):
            if isinstance(node.node, nodes.Name) and node.node.name in members:
                known = members[node.node.name] | set(re.findall(rf"has\({node.node.name}, '(\w+)'\)", text))
                assert node.attr in known, f"{place}: `{text}` reads {node.node.name}.{node.attr}"


@EVERY
def test_no_derived_value_of_ours_hides_a_name_or_is_read_by_nobody(op: Operator) -> None:
    derived = list(op.manifest.derive)
    reserved = _BEFORE | DEVICE_NAMES | FUNCTIONS.keys() | {"constants", "matrix", "outputShapes", "outputDtypes"}
    assert not reserved & set(derived)
    read = {name for _, text, _ in _expressions(op.manifest) for name in expressions.compiled(text).names}
    own = set(operator._read_json(op.folder / "manifest.json", op.id).get("derive", {}))
    assert own <= read, f"never read: {sorted(own - read)}"
