"""Variant families and named parts: what a manifest's source form expands to, and what is said when it cannot."""

import json
from pathlib import Path
from typing import Any

import pytest

from kernel_lab.errors import LabError
from kernel_lab.operators.families import expand

DATA = Path(__file__).parents[1] / "data"
WHERE = "op/manifest.json"
Json = dict[str, Any]


def members(family: Json, **more: Any) -> list[Json]:
    variants: list[Json] = expand({"variantFamilies": [family], **more}, {}, WHERE)["variants"]
    return variants


def fault(source: Json, shared: dict[str, Json] | None = None) -> str:
    with pytest.raises(LabError) as error:
        expand(source, shared or {}, WHERE)
    return str(error.value)


def test_the_example_expands_to_qlinear_conv_s_ids_but_one() -> None:
    example = json.loads((DATA / "qlinear-conv-families.json").read_text())
    names = ["dp4a", "matrix", "multiplier", "columns_nchw", "columns_nhwc"]
    for layout in ("nchw", "nhwc"):
        names += [
            f"{what}_{layout}" for what in ("prepare_bytes", "prepare_columns", "exact_precast", "exact_portable")
        ]
    empty: Json = {name: {} for name in names}
    ids = [
        variant["id"]
        for variant in expand({**example, "x-lab": {"passes": empty, "intermediates": empty}}, {}, "")["variants"]
    ]
    lines = (DATA / "variant-ids.txt").read_text().splitlines()
    listed = {line.split()[1] for line in lines if line.startswith("com.microsoft.QLinearConv ")}
    assert len(ids) == len(set(ids)) == 70
    assert set(ids) == listed - {"nchw2d_columns_x4"}


def test_every_combination_in_the_axes_order() -> None:
    family = {"axes": {"a": ["x", "y"], "b": ["1", "2"]}, "variants": [{"id": "{a}_{b}"}, {"id": "{b}_{a}"}]}
    ids = [variant["id"] for variant in members(family)]
    assert ids == ["x_1", "1_x", "x_2", "2_x", "y_1", "1_y", "y_2", "2_y"]


def test_plain_variants_come_first_and_both_places_of_families_count() -> None:
    family = {"axes": {"a": ["x"]}, "variants": [{"id": "top_{a}"}]}
    lab = {"axes": {"a": ["x"]}, "variants": [{"id": "lab_{a}"}]}
    source = {"variants": [{"id": "plain"}], "variantFamilies": [family], "x-lab": {"variantFamilies": [lab]}}
    expanded = expand(source, {}, WHERE)
    assert [variant["id"] for variant in expanded["variants"]] == ["plain", "top_x", "lab_x"]
    assert "variantFamilies" not in expanded
    assert expanded["x-lab"] == {}


def test_a_hole_alone_becomes_the_value_and_a_list_is_spliced_into_a_list() -> None:
    axis = {"id": "x", "when": ["p", "q"], "none": [], "need": {"features": ["f"]}, "on": True, "size": 16}
    variant = {
        "id": "{a}",
        "when": ["first", "{a.when}", "{a.none}", "last"],
        "requires": "{a.need}",
        "demoteWhen": "{a.when}",
        "constants": {"ON": "{a.on}", "SIZE": "{a.size}", "TEXT": "'{a}' ~ {a.size} ~ {a.on}", "{a}": 1},
        "nested": [["{a.when}"], {"k": ["{a.when}"]}],
    }
    (found,) = members({"axes": {"a": [axis]}, "variants": [variant]})
    assert found == {
        "id": "x",
        "when": ["first", "p", "q", "last"],
        "requires": {"features": ["f"]},
        "demoteWhen": ["p", "q"],
        "constants": {"ON": True, "SIZE": 16, "TEXT": "'x' ~ 16 ~ true", "x": 1},
        "nested": [["p", "q"], {"k": ["p", "q"]}],
        "priority": 0,
    }


def test_a_value_may_have_holes_of_other_axes() -> None:
    axes = {
        "a": [{"id": "x", "made": "{b}-{b.size}", "all": ["{b.list}"]}],
        "b": [{"id": "y", "size": 4, "list": [1, 2]}],
    }
    (found,) = members({"axes": axes, "variants": [{"id": "v", "p": "{a.made}", "q": "<{a.made}>", "r": "{a.all}"}]})
    assert (found["p"], found["q"], found["r"]) == ("y-4", "<y-4>", [1, 2])


def test_priorities_add_up() -> None:
    axes = {"a": ["x", {"id": "y", "priority": 5}], "b": [{"id": "1", "priority": -2}, "2"]}
    found = members({"axes": axes, "variants": [{"id": "{a}{b}", "priority": 40}]})
    assert {variant["id"]: variant["priority"] for variant in found} == {"x1": 38, "x2": 40, "y1": 43, "y2": 45}


def test_exclude_takes_all_of_a_rule_and_any_of_the_rules() -> None:
    axes = {"a": ["x", "y"], "b": ["1", "2"], "c": ["p", "q"]}
    exclude = [{"a": "x", "b": "1"}, {"c": "q", "a": "y"}]
    ids = [variant["id"] for variant in members({"axes": axes, "exclude": exclude, "variants": [{"id": "{a}{b}{c}"}]})]
    assert ids == ["x2p", "x2q", "y1p", "y2p"]


def test_braces_that_are_no_hole_stay() -> None:
    (found,) = members({"axes": {"a": ["x"]}, "variants": [{"id": "{a}", "t": "{{ n }} {} {1} { a }"}]})
    assert found["t"] == "{{ n }} {} {1} { a }"


FAULTS = {
    "left over": ({"id": "v", "t": "{c}"}, "nothing stands for {c} (known: {a.id}, {a.when}, {b.id})."),
    "left over in text": ({"id": "{a.size}_"}, "nothing stands for {a.size} (known"),
    "left over in a key": ({"id": "v", "{c}": 1}, "nothing stands for {c} (known"),
    "left over behind a value": ({"id": "v", "t": "{a.when}"}, "nothing stands for {c.when} (known"),
    "list in text": ({"id": "v_{a.when}"}, "nothing stands for {c.when}"),
}


@pytest.mark.parametrize(("variant", "complaint"), FAULTS.values(), ids=FAULTS)
def test_faults_name_the_family_and_its_axis_values(variant: Json, complaint: str) -> None:
    family = {"axes": {"a": [{"id": "x", "when": ["{c.when}"]}], "b": ["", "y"]}, "variants": [variant]}
    said = fault({"variantFamilies": [{"axes": {}, "variants": []}, family]})
    assert said.startswith(f"op/manifest.json: variantFamilies[1] (a='x', b=''): {complaint}")


def test_a_list_cannot_stand_in_text() -> None:
    family = {"axes": {"a": [{"id": "x", "when": ["p"]}]}, "variants": [{"id": "v_{a.when}"}]}
    said = fault({"variantFamilies": [family]})
    assert said.endswith("(a='x'): {a.when} is a list and cannot stand inside the text 'v_{a.when}'.")


def test_circles_end() -> None:
    family = {"axes": {"a": [{"id": "x", "p": "{a.q}", "q": "<{a.p}>"}]}, "variants": [{"id": "v", "t": "{a.p}"}]}
    assert fault({"variantFamilies": [family]}).endswith("(a='x'): axis values stand for each other in a circle.")


@pytest.mark.parametrize(
    ("family", "complaint"),
    [
        ({"variants": []}, "variantFamilies[0].axes: Field required."),
        ({"axes": {"a": ["x"]}}, "variantFamilies[0].variants: Field required."),
        ({"axes": {"a": [{"when": []}]}, "variants": []}, "variantFamilies[0].axes.a.0"),
        ({"axes": {"a": "x"}, "variants": []}, "variantFamilies[0].axes.a: Input should be a valid list."),
        ({"axes": {}, "variants": [], "exclud": []}, "variantFamilies[0].exclud: Extra inputs are not permitted."),
        (3, "variantFamilies[0].: Input should be"),
        (
            {"axes": {"a": ["x", "y"]}, "exclude": [{"a": "z"}], "variants": []},
            "variantFamilies[0].exclude: there is no a='z' (a has 'x', 'y').",
        ),
        (
            {"axes": {"a": ["x"], "b": ["y"]}, "exclude": [{"c": "x"}], "variants": []},
            "variantFamilies[0].exclude: there is no c='x' (the axes are a, b).",
        ),
    ],
)
def test_a_malformed_family_is_named(family: object, complaint: str) -> None:
    assert fault({"variantFamilies": [family]}).startswith(f"op/manifest.json: {complaint}")


LAB: Json = {
    "passes": {
        "one": {"shader": "one.wgsl.jinja", "bindings": "set"},
        "two": [{"id": "p", "use": "one"}, {"id": "q", "shader": "q.wgsl.jinja", "bindings": []}],
    },
    "intermediates": {"sums": {"dtype": "int32", "shape": "[M]"}, "both": [{"id": "s"}, {"id": "t"}]},
    "structFields": {"list": [{"name": "c"}, {"name": "d"}]},
}
SETS: Json = {
    "set": [
        {"name": "x"},
        {"name": "params", "struct": {"name": "P", "fields": [{"name": "a"}, "list", {"name": "z"}]}},
    ]
}


def _one(variant: Json) -> Json:
    found: Json = expand({"variants": [{"id": "v", **variant}], "bindingSets": SETS, "x-lab": LAB}, {}, WHERE)
    assert found["x-lab"] == {}
    assert "bindingSets" not in found
    return dict(found["variants"][0])


FIELDS = [{"name": "a"}, {"name": "c"}, {"name": "d"}, {"name": "z"}]
BINDINGS = [{"name": "x"}, {"name": "params", "struct": {"name": "P", "fields": FIELDS}}]


def test_named_pass_binding_set_and_struct_fields() -> None:
    (found,) = _one({"passes": [{"id": "p", "use": "one", "constants": {"K": 1}}]})["passes"]
    assert found == {"id": "p", "shader": "one.wgsl.jinja", "bindings": BINDINGS, "constants": {"K": 1}}


def test_struct_field_lists_may_use_each_other_but_not_in_a_circle() -> None:
    lists = {"outer": [{"name": "a"}, "inner"], "inner": [{"name": "b"}], "one": ["two"], "two": ["one"]}
    variant: Json = {"id": "v", "passes": [{"id": "p", "bindings": [{"struct": {"fields": ["outer", {"name": "c"}]}}]}]}
    source: Json = {"variants": [variant], "x-lab": {"structFields": lists}}
    (binding,) = expand(source, {}, WHERE)["variants"][0]["passes"][0]["bindings"]
    assert [field["name"] for field in binding["struct"]["fields"]] == ["a", "b", "c"]
    variant["passes"][0]["bindings"][0]["struct"]["fields"] = ["one"]
    assert fault(source).endswith("variants[v]: struct field lists use each other in a circle: one > two > one.")


def test_what_the_variant_says_goes_before_the_named_pass() -> None:
    (found,) = _one({"passes": [{"id": "p", "use": "one", "shader": "mine.wgsl.jinja", "bindings": [{"name": "x"}]}]})[
        "passes"
    ]
    assert (found["shader"], found["bindings"]) == ("mine.wgsl.jinja", [{"name": "x"}])


def test_passes_without_bindings_take_the_variant_s() -> None:
    variant = _one(
        {"bindings": "set", "passes": [{"id": "p", "shader": "s"}, {"id": "q", "shader": "s", "bindings": []}]}
    )
    assert [item["bindings"] for item in variant["passes"]] == [BINDINGS, []]
    assert "bindings" not in variant


def test_names_of_passes_and_intermediates_stand_for_one_or_for_several() -> None:
    found = _one({"passes": ["one", "two"], "intermediates": ["both", "sums", {"id": "own"}]})
    assert [item["id"] for item in found["passes"]] == ["one", "p", "q"]
    assert found["passes"][1]["bindings"] == BINDINGS
    assert [item["id"] for item in found["intermediates"]] == ["s", "t", "sums", "own"]


@pytest.mark.parametrize(
    ("variant", "complaint"),
    [
        ({"passes": [{"id": "p", "use": "onne"}]}, "unknown pass 'onne' (known: one, two)."),
        ({"passes": ["onne"]}, "unknown pass 'onne' (known: one, two)."),
        ({"passes": [], "intermediates": ["sum"]}, "unknown intermediate 'sum' (known: both, sums)."),
        ({"passes": [{"id": "p", "bindings": "sett"}]}, "unknown binding set 'sett' (known: set)."),
        (
            {"passes": [{"id": "p", "bindings": [{"name": "u", "struct": {"name": "P", "fields": ["lst"]}}]}]},
            "unknown struct field list 'lst' (known: list).",
        ),
    ],
)
def test_unknown_names_are_said_with_the_variant_and_the_known_ones(variant: Json, complaint: str) -> None:
    said = fault({"variants": [{"id": "v", **variant}], "bindingSets": SETS, "x-lab": LAB})
    assert said == f"op/manifest.json: variants[v]: {complaint}"


def test_shared_parts_go_in_front_and_the_manifest_s_own_override() -> None:
    shared = {
        "conv": {
            "derive": {"a": "1", "b": "2"},
            "checks": {"structure": ["s1"], "geometry": ["g1"]},
            "structFields": {"list": [{"name": "shared"}], "more": []},
            "passes": {"p": {"shader": "p.wgsl.jinja"}},
        }
    }
    source = {
        "derive": {"b": "3", "c": "4"},
        "variants": [{"id": "v", "bindings": SETS["set"], "passes": [{"id": "x", "use": "p"}]}],
        "x-lab": {"deriveFrom": ["conv"], "checks": {"geometry": ["g2"]}, "structFields": {"list": [{"name": "own"}]}},
    }
    found = expand(source, shared, WHERE)
    assert list(found["derive"].items()) == [("a", "1"), ("b", "3"), ("c", "4")]
    assert found["x-lab"] == {"checks": {"structure": ["s1"], "geometry": ["g1", "g2"]}}
    (item,) = found["variants"][0]["passes"]
    assert item["shader"] == "p.wgsl.jinja"
    assert [field["name"] for field in item["bindings"][1]["struct"]["fields"]] == ["a", "own", "z"]


def test_unknown_shared_part() -> None:
    said = fault({"x-lab": {"deriveFrom": ["convolutoin"]}}, {"convolution": {}})
    assert said == "op/manifest.json: x-lab.deriveFrom: unknown 'convolutoin' (known: convolution)."


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ({"x-lab": []}, "x-lab: must be an object, found list."),
        ({"variants": {}}, "variants: must be a list, found dict."),
        ({"variantFamilies": "x"}, "variantFamilies: must be a list, found str."),
        ({"x-lab": {"deriveFrom": "conv"}}, "x-lab: deriveFrom: must be a list, found str."),
        ({"x-lab": {"passes": []}}, "x-lab: passes: must be an object, found list."),
        ({"bindingSets": []}, "bindingSets: must be an object, found list."),
    ],
)
def test_a_malformed_source_is_named(source: Json, complaint: str) -> None:
    assert fault(source) == f"op/manifest.json: {complaint}"


@pytest.mark.parametrize(
    "variant",
    [3, {"passes": 3}, {"passes": [3]}, {"passes": [{"bindings": [3]}]}, {"passes": [{"bindings": [{"struct": 3}]}]}],
)
def test_what_the_manifest_s_own_checks_name_goes_through(variant: object) -> None:
    assert expand({"variants": [variant]}, {}, WHERE)["variants"] == [variant]
