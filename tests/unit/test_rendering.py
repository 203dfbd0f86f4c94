"""Rendering: every line knows its template line, the marks that carry it change nothing, errors name the place."""

import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lab.errors import LabError
from kernel_lab.operators import operator
from kernel_lab.planning import includes
from kernel_lab.planning.includes import Origin, Source
from kernel_lab.planning.rendering import TemplateFault, Wgsl, render, rendered_plainly

Write = Callable[..., Source]
SHIPPED = operator.load_all()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes files (a name with `shared/` goes to the second folder) and reads the first one with its includes."""

    def make(**files: str) -> Source:
        for name, text in files.items():
            path = tmp_path / ("shared" if name.startswith("shared_") else "own") / name.removeprefix("shared_")
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text.encode())
        return includes.read(next(iter(files)), (tmp_path / "own", tmp_path / "shared"))

    return make


def origins(wgsl: Wgsl) -> list[str]:
    return [f"{wgsl.origin(number)} {text}".rstrip() for number, text in enumerate(wgsl.text.split("\n"), 1)]


# Ours.


@pytest.mark.xdist_group("renderings")
def test_every_rendering_of_ours_is_the_same_without_marks(renderings: list[Any]) -> None:
    assert len(renderings) > 10
    for found in renderings:
        assert found.wgsl.text == rendered_plainly(found.source, found.names), found.label


@pytest.mark.xdist_group("renderings")
def test_every_line_of_ours_has_an_origin_that_reads_like_it(renderings: list[Any]) -> None:
    pairs = {
        (found.label.partition(":")[0], text.strip(), found.wgsl.origin(number))
        for found in renderings
        for number, text in enumerate(found.wgsl.text.split("\n"), 1)
        if text.strip()
    }
    assert len(pairs) > 500
    for op, text, origin in pairs:
        assert origin is not None, text
        template = _template(op, origin.file)[origin.line - 1]
        if not re.search(r"\{[{%#]", template):
            assert text.endswith(template.strip()), f"{origin}: {template}\n{text}"
        elif "{{" not in template:
            assert set(_tokens(text)) & set(_tokens(template)), f"{origin}: {template}\n{text}"


@cache
def _template(op: str, file: str) -> list[str]:
    folders = SHIPPED[op].template_folders
    return next(folder / file for folder in folders if (folder / file).is_file()).read_text("utf-8").split("\n")


def _tokens(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


# The source map, line by line.

MAIN = """\
// head
{% include "macros" %}
{% for i in range(2) %}
let a{{ i }} = {{ i }}u;
{% if i == 1 %}
// one
{% endif %}
{% endfor %}
{{ twice("x") }}

fn f() { {{ name }} }
end {% if true %}
joined {% endif %}
{{ declared }}
last
"""
MACROS = """\
{% macro twice(v) %}
  {{ v }} +
  {{ v }};
{% endmacro %}
{# a comment
   of two lines #}
// macros
"""


def test_lines_of_loops_macros_includes_and_values_have_their_own_origins(write: Write) -> None:
    wgsl = render(write(main=MAIN, macros=MACROS), {"name": "n", "declared": "struct A {\n}"})
    assert origins(wgsl) == [
        "main:1 // head",
        "macros:7 // macros",
        "main:4 let a0 = 0u;",
        "main:4 let a1 = 1u;",
        "main:6 // one",
        "macros:2   x +",
        "macros:3   x;",
        "main:9",
        "main:9",
        "main:11 fn f() { n }",
        "main:14 end joined struct A {",
        "main:14 }",
        "main:15 last",
    ]


def test_lines_beyond_the_text_have_no_origin(write: Write) -> None:
    wgsl = render(write(main="a\n"), {})
    assert (wgsl.origin(0), wgsl.origin(1), wgsl.origin(2)) == (None, Origin("main", 1), None)


@pytest.mark.parametrize("text", ["a\nb", "a\nb\n", "a\nb \n", "a\n{{ v }}", "a\n{{ v }}\n", "a\n{{ v }} \n"])
def test_the_last_line_has_an_origin_as_well(write: Write, text: str) -> None:
    wgsl = render(write(main=text), {"v": 1})
    assert wgsl.origin(2) == Origin("main", 2)
    assert wgsl.text == rendered_plainly(write(main=text), {"v": 1})


def test_the_digest_is_of_the_text(write: Write) -> None:
    one, same, other = (render(write(main=text), {"a": 1}) for text in ("{{ a }}", "1", "2"))
    assert one.digest == same.digest != other.digest
    assert len(one.digest) == 64


FRAGMENTS = st.sampled_from(
    [
        *(
            "text",
            "  indented",
            "",
            "{{ n }}",
            "x{{ n }}y",
            "  {{ n }}  ",
            "{{- n -}}",
            "{# c #}",
            "{#- c -#}",
            "a{# c\n #}b",
        ),
        *("{% if n %}", "{%- if n %}", "{% if n -%}", "  {% if n %}  ", "{% endif %}", "{%- endif -%}", "{% else %}"),
        *("{% for i in xs %}", "{%- for i in xs -%}", "{{ i }}", "{% endfor %}", "{%- endfor %}", "{% set q = 1 %}"),
        *(
            "{% macro m() %}",
            "{% endmacro %}",
            "{{ m() }}",
            "\t",
            "{% raw %}",
            "{% endraw %}",
            "{{ '\n' }}",
            "}}",
            "{{ xs }}",
        ),
        *("{%+ if n %}", "{% break %}", "{{ 'b' }}{{ n }}"),
    ]
)


@given(pieces=st.lists(st.tuples(FRAGMENTS, st.sampled_from(["", "\n", "\n\n", " "])), max_size=12))
def test_marks_change_no_byte_of_any_template(pieces: list[tuple[str, str]]) -> None:
    text = "".join(piece + gap for piece, gap in pieces) + "\n"
    source = Source("t", text, tuple(Origin("t", line) for line in range(1, text.count("\n") + 1)))
    names = {"n": 1, "i": 0, "xs": [1, 2]}
    try:
        plain = rendered_plainly(source, names)
    except TemplateFault:
        with pytest.raises(TemplateFault, match=r"^t(:\d+)?: "):
            render(source, names)
        return
    wgsl = render(source, names)
    assert wgsl.text == plain
    assert len(wgsl.origins) == plain.count("\n") + 1


# Values.


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (None, ""),
        (16.0, "16"),
        (0.5, "0.5"),
        (1e-5, "0.00001"),
        (1e-7, "1e-7"),
        (-3, "-3"),
    ],
)
def test_values_print_as_in_javascript(write: Write, value: object, text: str) -> None:
    assert render(write(main="<{{ v }}>\n"), {"v": value}).text == f"<{text}>"


def test_equal_names_of_other_types_are_other_renderings(write: Write) -> None:
    source = write(main="{{ v }}")
    assert [render(source, {"v": value}).text for value in (1, True, "1.0", 1.5)] == ["1", "true", "1.0", "1.5"]


def test_a_name_that_is_not_read_makes_no_other_rendering(write: Write) -> None:
    source = write(main="{% macro m(v=b) %}{{ v }}{% endmacro %}{{ a }}{{ m() }}")
    one = render(source, {"a": 1, "b": 2, "unread": 3})
    assert render(source, {"a": 1, "b": 2, "unread": 4}) is one
    assert render(source, {"a": 1, "b": 3, "unread": 3}).text == "13"


# Errors.


@pytest.mark.parametrize(
    ("main", "place"),
    [
        ("a\n{% if x %}\nb\n", "main:"),
        ("a\n{% endif %}\n", "main:2: "),
        ("a\nb {{ x y }}\n", "main:2: "),
        ("a\n{{ 'x }}\n", "main:2: "),
        ("a\n{{ x | nosuch }}\n", "main:2: No filter named 'nosuch'"),
        ("a\n\nb {{ nosuch }}\n", "main:3: 'nosuch' is undefined"),
        ("{% for i in range(3) %}\nfine\n{{ nosuch[i] }}\n{% endfor %}\n", "main:3: 'nosuch' is undefined"),
        ('// one\n{% include "part" %}\nlast\n', "part:3: 'missing' is undefined"),
        ('{% include "macro" %}\nfine\n{{ bad() }}\n', "macro:2: 'missing' is undefined"),
        ("{{ 1 // 0 }}\n", "main:1: integer division or modulo by zero"),
        ("a\n{{ 'a' + 1 }}\n", "main:2: "),
        ("a\n{{ x.__class__.__mro__ }}\n", "main:2: "),
        ("a\n{{ [].append(1) }}\n", "main:2: "),
        ("a\n{{ range(999999999) | list }}\n", "main:2: "),
        ("{% if x %}{% break %}{% endif %}\n", "main: 'break' outside loop"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}\n", "main: is nested too deeply"),
    ],
)
def test_an_error_names_the_template_line(write: Write, main: str, place: str) -> None:
    source = write(main=main, part="a\nb\n{{ missing }}\n", macro="{% macro bad() %}\n{{ missing }}\n{% endmacro %}\n")
    for work in (render, rendered_plainly):
        with pytest.raises(TemplateFault) as error:
            work(source, {"x": 1})
        assert str(error.value).startswith(place)
        assert "\n" not in str(error.value)


def test_a_syntax_error_in_an_included_file_names_that_file(write: Write) -> None:
    source = write(main='a\n{% include "part" %}\nb\n', part="fine\n{{ x y }}\n")
    with pytest.raises(TemplateFault, match=r"^part:2: "):
        render(source, {"x": 1})


def test_characters_that_would_be_taken_for_marks_are_refused(write: Write) -> None:
    with pytest.raises(TemplateFault, match=r"^main: has characters of Unicode's plane 15"):
        render(write(main="a\U000f0001b\n"), {})


# Includes.


def test_includes_are_text_from_the_operator_s_folder_or_the_shared_one(write: Write) -> None:
    files = {"both": "own\n", "shared_both": "shared\n", "shared_only": '{%- include "both" -%}\nonly'}
    source = write(main="  {% include 'both' %}\nmid\n{%- include \"only\" -%}\n", **files)
    assert source.text == "own\nmid\nown\nonly\n"
    assert [str(origin) for origin in source.origins] == ["both:1", "main:2", "both:1", "only:2"]


def test_line_ends_of_windows_are_made_plain(write: Write) -> None:
    source = write(main='a\r\n{% include "part" %}\r\nb', part="c\rd\r\n")
    assert source.text == "a\nc\nd\nb\n"


@pytest.mark.parametrize(
    ("tag", "word"),
    [
        ('{% import "part" as p %}', "import"),
        ('{% from "part" import m %}', "from"),
        ('{% extends "part" %}', "extends"),
        ('{%- extends "part" %}', "extends"),
        ('{%+ import "part" as p %}', "import"),
        ('x {% include "part" %}', "include"),
        ('{% include "part" %} x', "include"),
        ("{% include name %}", "include"),
        ('{% include "part" ignore missing %}', "include"),
    ],
)
def test_other_ways_to_include_are_refused(write: Write, tag: str, word: str) -> None:
    with pytest.raises(LabError, match=rf"^main:2: `{word}` is refused: files are included whole"):
        write(main=f"a\n{tag}\n", part="")


@pytest.mark.parametrize(
    "files",
    [
        {"main": '{% include "main" %}'},
        {"main": '{% include "a" %}', "a": '{% include "b" %}', "b": '{% include "a" %}'},
        {f"f{i}": f'{{% include "f{i + 1}" %}}' for i in range(10)} | {"f10": ""},
    ],
    ids=["self", "mutual", "deep"],
)
def test_includes_that_go_round_or_deep_are_refused(write: Write, files: dict[str, str]) -> None:
    with pytest.raises(LabError, match=r"goes round or deeper than 8: "):
        write(**files)


@pytest.mark.parametrize("name", ["../secret", "sub/file", "/etc/passwd", "..", ".", "", "a\0b", "nosuch"])
def test_no_path_leaves_the_folders(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "own" / "sub").mkdir(parents=True)
    (tmp_path / "own" / "sub" / "file").write_text("secret")
    folders = (tmp_path / "own", tmp_path / "shared")
    with pytest.raises(LabError, match=r"must be a plain file name\.|is in none of: own, shared\."):
        includes.read(name, folders)
    (tmp_path / "own" / "main").write_text(f'{{% include "{name or "/"}" %}}\n')
    with pytest.raises(LabError, match=r"^main: template .* (must be a plain file name|is in none of: own, shared)\."):
        includes.read("main", folders)


def test_a_file_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    (tmp_path / "main").write_bytes(b"\xff\xfe")
    with pytest.raises(LabError, match=r"^main: is not UTF-8: "):
        includes.read("main", (tmp_path,))


def test_an_edited_file_is_read_again_and_an_unedited_one_is_not(write: Write, tmp_path: Path) -> None:
    files = {"main": '{% include "part" %}\n', "part": "one\n"}
    first = write(**files)
    folders = (tmp_path / "own", tmp_path / "shared")
    assert includes.read("main", folders) is first
    (tmp_path / "own" / "part").write_text("two\n")
    os.utime(tmp_path / "own" / "part", ns=(1, 1))
    second = includes.read("main", folders)
    assert (first.text, second.text) == ("one\n", "two\n")
    assert render(second, {}).text == "two"
    (tmp_path / "own" / "part").unlink()
    with pytest.raises(LabError, match=r"^main: template 'part' is in none of: own, shared\.$"):
        includes.read("main", folders)
