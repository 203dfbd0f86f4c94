"""Templates stay inside the subset that jinja2 and @huggingface/jinja render to the same bytes: both render them."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from kernel_lab.planning import rendering
from kernel_lab.planning.includes import Origin, Source

ROOT = Path(__file__).parents[2]
HARNESS = ROOT / "js_harness"
JINJA = HARNESS / "node_modules" / "@huggingface" / "jinja"


@pytest.fixture(scope="module")
def node(lacking: Callable[[str], NoReturn]) -> str:
    """Node with @huggingface/jinja."""
    found = shutil.which("node")
    if found is None:
        lacking("node is not on PATH: install Node 20 or newer.")
    if not JINJA.is_dir():
        lacking(f"{JINJA} is missing: run `npm ci` in {HARNESS}.")
    return found


def render_in_node(node: str, jobs: list[dict[str, Any]]) -> list[dict[str, str]]:
    """What @huggingface/jinja makes of each {template, names}: {text} or {error}."""
    done = subprocess.run(
        [node, str(Path(__file__).with_name("hf_jinja.mjs"))],
        input=json.dumps(jobs), cwd=HARNESS, capture_output=True, encoding="utf-8", check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[dict[str, str]] = json.loads(done.stdout)
    return found


@pytest.mark.xdist_group("renderings")
def test_every_rendering_of_ours_is_the_same_there(renderings: list[Any], node: str) -> None:
    theirs = render_in_node(node, [{"template": found.source.text, "names": found.names} for found in renderings])
    assert len(theirs) == len(renderings) > 10
    for found, their in zip(renderings, theirs, strict=True):
        assert their == {"text": found.wgsl.text}, f"{found.source.name}, as {found.label} renders it"


SAME = [
    ("{{ a }} {{ b }} {{ c }}|{{ d }}", {"a": True, "b": False, "c": None, "d": "text"}),
    ("{{ a }}u {{ b }}u {{ a + 1 }} {{ b * 2 }}", {"a": 16.0, "b": 16}),
    ("{{ a }} {{ b }} {{ c }}", {"a": 0.1, "b": 1e-5, "c": -2.5e-7}),
    ("{{ a }} {{ b }} {{ c }}", {"a": 1e21 + 0.0, "b": 123456.75, "c": 3.4028234663852886e38}),
    ("{{ 8 / 2 }} {{ a / 4 }} {{ a // 4 }} {{ a / 2 }}", {"a": 10}),
    ("{{ 7 % 4 }} {{ 2 ** 5 }} {{ -7 // 2 }}", {}),
    ("{{ xs }} {{ xs | length }} {{ xs[1:] }} {{ xs[-1] }}", {"xs": [1, 2, 3]}),
    ("{% for x in xs %}\n  {{ loop.index0 }}: {{ x }}{{ ',' if not loop.last }}\n{% endfor %}\n", {"xs": [4.0, 5.5]}),
    ("{% if a == 'f' and not b %}\nyes\n{% elif b %}\nmaybe\n{% else %}\nno\n{% endif %}\n", {"a": "f", "b": False}),
    ("{% macro m(name, n=2) %}\nlet {{ name }} = {{ n }};\n{% endmacro %}\n{{ m('x') }}\n{{ m('y', 3) }}\n", {}),
    ("{% set n = namespace(i=0) %}\n{% for x in range(3) %}\n{% set n.i = n.i + x %}\n{% endfor %}\n{{ n.i }}\n", {}),
    ("a  {%- if true -%}  b  {%- endif %}  c{# gone #}\n", {}),
    ("  {% if true %}\nindented\n  {% endif %}\n\tlast", {}),
    ("{{ 'a' ~ 1 ~ b }} {{ 'x' if b else 'y' }}", {"b": 2}),
    ("{% for i in range(4) if i % 2 %}{{ i }}{% endfor %}{% for i in [] %}{% else %}none{% endfor %}", {}),
    ("{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}", {}),
    ("{% for i in range(9) %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}", {}),
    ("{{ [1, 2] | join('-') }} {{ 'ab' | upper }} {{ 2.5 | int }} {{ -3 | abs }} {{ nosuch | default('d') }}", {}),
]  # fmt: skip


def test_the_subset_is_the_same_there(node: str) -> None:
    ours = []
    for text, names in SAME:
        source = Source("t", text, tuple(Origin("t", line) for line in range(1, text.count("\n") + 2)))
        ours.append({"text": rendering.render(source, names).text})
        assert ours[-1]["text"] == rendering.rendered_plainly(source, names)
    theirs = render_in_node(node, [{"template": text, "names": names} for text, names in SAME])
    for (text, _), our, their in zip(SAME, ours, theirs, strict=True):
        assert our == their, text
