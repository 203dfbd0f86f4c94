"""Probes in templates: outside debug runs they are not there, to the byte; malformed ones are errors at their line."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernel_lab import resources
from kernel_lab.errors import LabError
from kernel_lab.operators import operator
from kernel_lab.operators.operator import SHARED
from kernel_lab.planning import includes, probes
from kernel_lab.planning.includes import Source
from kernel_lab.planning.probes import MARKER, ValueType
from kernel_lab.planning.rendering import render, rendered_plainly

Read = Callable[..., Source]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads a template of that text."""

    def make(text: str, *, probes: bool = False, **files: str) -> Source:
        for name, content in {"main": text, **files}.items():
            (tmp_path / name).write_text(content)
        return includes.read("main", (tmp_path,), probes=probes)

    return make


# Real templates, with probes at places drawn at random.


def with_probes(text: str, draw: random.Random) -> str:
    """The template with a probe behind about every third statement, and one that must disappear at its end."""
    lines = []
    for line in text.split("\n"):
        lines.append(line)
        if line.endswith(";") and draw.random() < 0.35:
            lines.append(draw.choice(['  {{ probe("here", "1u", "u32") }}', "{{- probe('there', '2i') -}}  "]))
    return "\n".join(lines)


@pytest.fixture(scope="module")
def probed_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """Copies of our operators' templates with probes in them: the folders to look in, by operator."""
    root = tmp_path_factory.mktemp("shaders")
    draw = random.Random(20)
    for path in sorted(resources.shaders().glob("*/*.jinja")):
        (root / path.parent.name).mkdir(exist_ok=True)
        (root / path.parent.name / path.name).write_text(with_probes(path.read_text("utf-8"), draw), "utf-8")
    return {op: (root / op, root / SHARED) for op in operator.load_all()}


@pytest.mark.xdist_group("renderings")
def test_wgsl_with_probes_is_that_without_them(
    renderings: list[Any], probed_folders: dict[str, tuple[Path, Path]]
) -> None:
    markers = 0
    for found in renderings:
        folders = probed_folders[found.label.partition(":")[0]]
        plain = includes.read(found.source.name, folders)
        wgsl = render(plain, found.names)
        assert wgsl.text == found.wgsl.text == rendered_plainly(plain, found.names), found.label
        assert plain.text == found.source.text  # so every other Jinja renders the same, too
        origins = zip(wgsl.origins, found.wgsl.origins, strict=True)
        assert all(one is other or (one and other and one.file == other.file) for one, other in origins), found.label
        marked = render(includes.read(found.source.name, folders, probes=True), found.names)
        left = [line for line in marked.text.split("\n") if MARKER not in line]
        assert "\n".join(left) == found.wgsl.text, found.label
        markers += marked.text.count(MARKER)
    assert markers > 1000


def test_no_template_that_is_shipped_has_a_probe() -> None:
    """They are published as they are, and no other Jinja knows the function."""
    for path in resources.shaders().glob("*/*.jinja"):
        text = path.read_text("utf-8")
        assert probes.without_probes(text, path.name) == text


# Lines.


def test_a_probes_line_vanishes_and_the_others_keep_their_origins(read: Read) -> None:
    source = read(
        'let a = 1;\n  {{ probe("a", "a") }}\n{% include "more" %}\n', more="{{ probe('b', 'b') }}\nlet b = 2;\n"
    )
    assert source.text == "let a = 1;\nlet b = 2;\n"
    assert [str(origin) for origin in source.origins] == ["main:1", "more:2"]


def test_a_debug_run_sees_what_jinja_makes_of_the_arguments(read: Read) -> None:
    text = '{% for i in range(2) %}\n  {{ probe("sum_" ~ i, "sums[" ~ i ~ "] < a", KIND) }}\n{% endfor %}\n'
    wgsl = render(read(text, probes=True), {"KIND": "bool"})
    assert wgsl.text.split("\n") == [
        f'  {MARKER}["sum_0", "sums[0] < a", "bool"]',
        f'  {MARKER}["sum_1", "sums[1] < a", "bool"]',
        "",
    ]
    assert [str(wgsl.origin(line)) for line in (1, 2)] == ["main:2", "main:2"]
    assert render(read(text), {"KIND": "bool"}).text == ""


def test_a_published_template_has_no_probes() -> None:
    text = 'a;\n{{ probe("a", "a") }}\n  {{- probe("b", "b", "vec2<f32>") -}}\n\n{{ a }}\n'
    assert probes.without_probes(text, "t") == "a;\n\n{{ a }}\n"


def test_wgsl_may_have_a_function_of_that_name(read: Read) -> None:
    text = "fn probe(a: u32) {}\nprobe(1u);\n"
    assert read(text).text == text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('let a = 1; {{ probe("a", "a") }}', "main:2: a probe is a line of its own"),
        ('{{ probe("a", "a") }} // why', "main:2: a probe is a line of its own"),
        ('{{ probe("a",', "main:2: a probe is a line of its own"),
        ('{{ probe("a") }}', "main:2: probe(\"a\") has 1 argument;"),
        ('{{ probe("a", "a", "i32", 4) }}', "has 4 arguments"),
        ("{{ probe() }}", "has 0 arguments"),
        ('{{ probe("a", value="a") }}', "has named arguments;"),
        ('{{ probe("a", "a") ~ probe("b", "b") }}', "main:2: a probe is one call and nothing else"),
        ('{{ probe("a", "a"("b") }}', "is no call that Jinja can read"),
        ('{{ probe("a", 3) }}', "main:2: a probe's value is 3; it must be text on one line (a WGSL expression"),
        ('{{ probe("", "a") }}', "a probe's name is ''"),
        ('{{ probe("a", "a", "mat2x2f") }}', "main:2: a probe's type is 'mat2x2f'; allowed are f32, f16"),
        ("{% macro probe(a, b) %}", "main:2: `probe` is what kernel-lab's debug runs look for"),
    ],
)  # fmt: skip
def test_a_malformed_probe_is_an_error_in_any_run(read: Read, line: str, said: str) -> None:
    for debug in (False, True):
        with pytest.raises(LabError) as error:
            read(f"// first\n{line}\n", probes=debug)
        assert said in str(error.value)


def test_a_probe_inside_a_jinja_expression_is_not_defined(read: Read) -> None:
    with pytest.raises(LabError, match=r"main:1: 'probe' is undefined"):
        render(read('a{{ "" if false else probe("a", "a") }}\n'), {})


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("f16", ValueType("f16")),
        ("vec3<i32>", ValueType("i32", 3)),
        ("vec4 < u32 >", ValueType("u32", 4)),
        ("vec2<bool>", ValueType("bool", 2)),
        ("vec2h", ValueType("f16", 2)),
        ("vec5<i32>", None),
        ("array<u32>", None),
        ("vec2b", None),
        ("", None),
    ],
)
def test_types_are_wgsls_own(text: str, kind: ValueType | None) -> None:
    assert probes.value_type(text) == kind
