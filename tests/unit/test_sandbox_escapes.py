"""What other people's templates cannot do: reach Python or files, fill the memory, go on for ever.

The bombs here are small ones, of 100 MB or some minutes: without a bound the tests fail, and the machine survives.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from kernel_lab.errors import LabError
from kernel_lab.planning import includes, sandbox
from kernel_lab.planning.includes import Origin, Source
from kernel_lab.planning.rendering import TemplateFault, render, rendered_plainly

NAMES = {"x": 1, "xs": [1, 2, 3], "name": "text", "object": {"a": 1}}


def source(text: str) -> Source:
    return Source("main", text, tuple(Origin("main", line) for line in range(1, text.count("\n") + 2)))


@pytest.fixture
def refuses(soon: Callable[..., AbstractContextManager[None]]) -> Callable[..., None]:
    """Whether a template is refused, soon, with its place and that complaint (a pattern)."""

    def check(template: str, complaint: str = "") -> None:
        for work in (render, rendered_plainly):
            with soon(), pytest.raises(TemplateFault, match=rf"^main(:\d+)?: .*{complaint}"):
                work(source(template), NAMES)

    return check


# Templates: no way to Python.


@pytest.mark.parametrize(
    "template",
    [
        "{{ x.__class__ }}",
        "{{ x['__class__'] }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ xs | map(attribute='__class__') | list }}",
        "{{ x | attr('__class__') }}",
        "{{ '{0.__class__}'.format(x) }}",
        "{{ '{0.__class__.__mro__}'.format_map(object) }}",
        "{% set f = '{0}'.format %}{{ f(x) }}",
        "{{ lipsum.__globals__ }}",
        "{{ lipsum() }}",
        "{{ cycler('a').next() }}",
        "{{ joiner() }}",
        "{{ dict(a=1) }}",
        "{{ namespace.__init__.__globals__ }}",
        "{{ namespace(a=1) }}",
        "{{ namespace }}",
        "{{ range }}",
        "{{ range(3).__class__ }}",
        "{{ self }}",
        "{{ self._TemplateReference__context }}",
        "{% for i in xs %}{{ loop.__class__ }}{% endfor %}",
        "{% for i in xs %}{{ loop._iterator.__class__ }}{% endfor %}",
        "{% macro m() %}{% endmacro %}{{ m.__globals__ }}",
        "{% macro m() %}{% endmacro %}{{ m._func.__globals__ }}",
        "{% macro m() %}{% endmacro %}{{ m }}",
        "{% macro m() %}{{ caller.__class__ }}{% endmacro %}{% call m() %}{% endcall %}",
        "{{ -1000000000 | charged }}",
        "{{ xs | walked }}",
        "{{ xs | bounded }}",
        "{{ xs.append(4) }}",
        "{{ object.update(a=2) }}",
        "{{ object.setdefault('b', 2) }}",
        "{{ name.encode() }}",
        "{{ name.translate(object) }}",
        "{{ x.to_bytes(9, 'big') }}",
        "{{ x.real.__class__ }}",
    ],
)
def test_no_template_reaches_python_or_a_file(refuses: Callable[..., None], template: str) -> None:
    refuses(template)


@pytest.mark.parametrize(
    "template",
    [
        "{%\nimport 'main' as m %}",
        "{%\nfrom 'main' import m %}",
        "{%\ninclude 'main' %}",
        "{%\nextends 'main' %}",
        "{% block b %}{% endblock %}",
    ],
)
def test_no_template_has_what_jinja_looks_up_in_other_files(refuses: Callable[..., None], template: str) -> None:
    """Includes are text, put in place before; across lines such a tag escapes those who look for it there."""
    refuses(template, "is not allowed in a template")


# Templates: not much from little.

DOUBLED = "{% set a = 'aaaaaaaa' %}" + "{% set a = <> %}" * 24


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'a' * 100000000 }}",
        "{{ 100000000 * 'a' }}",
        "{{ [0] * 100000000 }}",
        "{{ '%100000000d' % 1 }}",
        "{{ '%100000000d' is odd }}",
        "{{ '%100000000d' is even }}",
        "{{ '%100000000d' is divisibleby(1) }}",
        "{{ '%100000000d' | format(1) }}",
        "{{ '{:100000000}'.format(1) }}",
        "{{ 'a' | center(100000000) }}",
        "{{ 'a'.ljust(100000000) }}",
        "{{ 'a'.center(100000000) }}",
        "{{ '1'.zfill(100000000) }}",
        "{{ '\t'.expandtabs(100000000) }}",
        "{{ 'a' | wordwrap(1, wrapstring='x' * 100000000) }}",
        "{{ xs | batch(100000000, 0) | list }}",
        "{{ 1 | slice(100000000) | list }}",
        "{{ 2 ** 100000000 }}",
        "{{ 2 ** 64 ** 4 }}",
        "{{ 1.5 | round(100000000, 'ceil') }}",
        "{{ range(100000000) | list }}",
        "{{ (range(9999) | join(',')) | join(range(9999) | join(',')) }}",
        "{{ ('a' ~ range(20000) | join(',')).replace('', range(20000) | join(',')) }}",
        DOUBLED.replace("<>", "a ~ a"),
        DOUBLED.replace("<>", "a + a"),
        DOUBLED.replace("<>", "[a, a]"),
        DOUBLED.replace("<>", "(a, a)"),
        DOUBLED.replace("<>", "{1: a, 2: a}"),
        DOUBLED.replace("<>", "[a] + [a]"),
        DOUBLED.replace("<>", "[a, a] | join") + "{{ a }}",
        DOUBLED.replace("<>", "a | join(a)"),
        "{% set a = 'aaaaaaaa' %}" + "{% set a %}{{ a }}{{ a }}{% endset %}" * 24,
        "{% set n = namespace(a='aaaaaaaa') %}{% for i in range(24) %}{% set n.a = n.a ~ n.a %}{% endfor %}",
        "{% set n = namespace(a=[1]) %}{% for i in range(24) %}{% set n.a = [n.a, n.a] %}{% endfor %}{{ n.a }}",
        "{% set a = [] %}" + "{% set a = [a] %}" * 40,
        "{% set n = namespace() %}{% set n.a = n %}{{ n }}",
    ],
    ids=lambda template: template[:40],
)
def test_no_template_makes_much_from_little(refuses: Callable[..., None], template: str) -> None:
    refuses(template)


@pytest.mark.parametrize("template", ["{{ 'a' | indent(100000000, first=true) }}", "{{ 'a\na' | indent(100000000) }}"])
def test_what_would_be_too_large_is_not_made_first(refuses: Callable[..., None], template: str) -> None:
    refuses(template, "a text may have 65,536 characters")


# Templates: an end.

CALLS = "".join(f"{{% macro m{i}() %}}{{{{ m{i + 1}() }}}}{{{{ m{i + 1}() }}}}{{% endmacro %}}" for i in range(40))


@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(9999) %}" * 3 + "{% endfor %}" * 3,
        "{% for a in range(9999) %}" * 3 + "{{ a }}" + "{% endfor %}" * 3,
        "{% for a in range(9999) if false %}{% endfor %}" * 200,
        "{% for a in range(9999) %}" + "a" * 9999 + "{% endfor %}",
        "{% for a in range(9999) %}{{ a }}{% continue %}" + "a" * 9999 + "{% endfor %}",
        CALLS + "{% macro m40() %}{% endmacro %}{{ m0() }}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
        "{% macro m(n) %}{% if n %}{% call m(n - 1) %}{% endcall %}{{ caller() }}{{ m(n - 1) }}{% endif %}"
        "{% endmacro %}{% macro start() %}{% call m(60) %}{% endcall %}{% endmacro %}{{ start() }}",
        "{% macro m() %}{% for i in range(2000) %}{% set a = caller() %}{% endfor %}{% endmacro %}"
        "{% call m() %}" + "a" * 999 + "{% endcall %}",
        "{% for a in xs recursive %}{{ loop(xs) }}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{% set s = range(9999) | join %}{% for i in range(9999) %}{{ s }}{% endfor %}",
        "{{ " + "(" * 1500 + "x" + ")" * 1500 + " }}",
        "{% if x %}" * 500 + "{% endif %}" * 500,
        "{{ " + "9" * 5000 + " }}",
    ],
    ids=lambda template: template[:40],
)
def test_every_template_comes_to_an_end(refuses: Callable[..., None], template: str) -> None:
    refuses(template)


def test_little_work_that_takes_long_is_ended_as_well(
    refuses: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "MAX_SECONDS", 0.05)
    monkeypatch.setattr(sandbox, "MAX_WORK", 10**12)
    long = "{% set s = range(9999) | join %}"
    refuses(long + "{% for i in range(9999) %}{% if s ~ 'a' == s ~ 'b' %}{% endif %}{% endfor %}", "may take 0 s")


def test_what_kernels_need_is_far_below_the_bounds() -> None:
    unrolled = "{% for i in range(1024) %}let a{{ i }} = {{ i * 2 }}u + b[{{ i }}];\n{% endfor %}"
    assert render(source(unrolled), NAMES).text.count("\n") == 1024


def test_values_that_would_be_taken_for_marks_are_refused() -> None:
    for character in "\U000f0000\U000ffffd":
        with pytest.raises(TemplateFault, match=r"^main: a value has characters of Unicode's plane 15"):
            render(source("{{ a }}"), {"a": character})
    assert render(source("{{ a }}"), {"a": "\U0010fffd"}).text == "\U0010fffd"


# Templates: files.


@pytest.fixture
def package(tmp_path: Path) -> Callable[..., tuple[Path, ...]]:
    """Writes files to an operator's folder; gives the folders to read from."""

    def write(**files: str) -> tuple[Path, ...]:
        (tmp_path / "package" / "own").mkdir(parents=True)
        for name, text in files.items():
            (tmp_path / "package" / "own" / name).write_text(text)
        return (tmp_path / "package" / "own", tmp_path / "package" / "_shared")

    return write


def test_includes_that_multiply_are_refused(package: Callable[..., tuple[Path, ...]]) -> None:
    files = {f"f{i}": f'{{% include "f{i + 1}" %}}\n' * 9 for i in range(7)}
    with pytest.raises(LabError, match=r"^f6: including 'f7' is one file too many: a template may have 256\.$"):
        includes.read("f0", package(**files, f7="x"))


def test_a_template_with_too_many_lines_is_refused(package: Callable[..., tuple[Path, ...]]) -> None:
    folders = package(main='{% include "part" %}\n' * 3, part="x\n" * 30_000)
    with pytest.raises(LabError, match=r"^part:5534: with its includes a template may have 65,533 lines\.$"):
        includes.read("main", folders)


def test_a_file_that_is_too_large_is_refused(package: Callable[..., tuple[Path, ...]]) -> None:
    with pytest.raises(LabError, match=r"^main: has 262,145 bytes; a template may have 262,144\.$"):
        includes.read("main", package(main="x" * (includes.MAX_BYTES + 1)))


@pytest.mark.parametrize("name", ["main", "folder"])
def test_a_link_out_of_the_package_is_refused(
    package: Callable[..., tuple[Path, ...]], tmp_path: Path, name: str
) -> None:
    (tmp_path / "secret").write_text("secret")
    folders = package(above='{% include "main" %}')
    (folders[0] / "main").symlink_to(tmp_path / "secret")
    (folders[0] / "folder").symlink_to(tmp_path)
    with pytest.raises(LabError, match=r"^above: template 'main' is a link that leads out of its package"):
        includes.read("above", folders)
    with pytest.raises(LabError, match=r"leads out of its package|is in none of"):
        includes.read(name, folders)


def test_links_within_a_package_and_within_hugging_face_s_cache_are_followed(tmp_path: Path) -> None:
    own = tmp_path / "models--a--b" / "snapshots" / "0123" / "op"
    for folder in (own, own.parent / "_shared", tmp_path / "models--a--b" / "blobs"):
        folder.mkdir(parents=True)
    (tmp_path / "models--a--b" / "blobs" / "9f").write_text("blob")
    (own / "main").symlink_to("../../../blobs/9f")
    (own.parent / "_shared" / "part").write_text("part")
    (own / "other").symlink_to("../_shared/part")
    assert includes.read("main", (own,)).text == "blob\n"
    assert includes.read("other", (own,)).text == "part\n"
