"""`{{ probe("name", "value") }}`: a line of a template that shows a value in a debug run and is in no other run at all.

In: a template's lines. Out: the lines without probes, or, for a debug run, with a marker that renders as text and that
`debugging/probing.py` turns into WGSL. Pure. A probe is taken out before Jinja sees the template: the WGSL is that of
a template without the line, to the byte, and no other Jinja needs to know the function.

The first argument is the probe's name, the second a WGSL expression, the third its type where it cannot be known. Each
may be any Jinja expression (`"sum_" ~ i`), which only a debug run evaluates.
"""

import re
from dataclasses import dataclass

from jinja2 import Environment, TemplateSyntaxError, nodes

from kernel_lab.errors import LabError

MARKER = "lab_probe!"
"""No WGSL has it. Behind it stand the call's arguments as a JSON list."""

SCALARS = ("f32", "f16", "i32", "u32", "bool")
ALLOWED = f"{', '.join(SCALARS)}, and vec2 to vec4 of them"
EXAMPLE = '{{ probe("sum", "sum") }}'

_CALL = re.compile(r"^(?P<indent>\s*)\{\{-?\s*probe\s*\((?P<arguments>.*)\)\s*-?\}\}\s*$")
_STRAY = re.compile(r"\{\{[-+]?\s*probe\b")
_TAKEN = re.compile(r"\{%[-+]?\s*(?:macro|set)\s+probe\b")
_LONG = re.compile(rf"vec([234])<({'|'.join(SCALARS)}),?>")
_SHORT = re.compile(r"vec([234])([fhiu])")
_SUFFIXES = {"f": "f32", "h": "f16", "i": "i32", "u": "u32"}
_PARSER = Environment()


@dataclass(frozen=True, slots=True)
class ValueType:
    """What a probe takes: a scalar, or `width` of them in a vector (1: no vector)."""

    scalar: str
    width: int = 1

    def __str__(self) -> str:
        return self.scalar if self.width == 1 else f"vec{self.width}<{self.scalar}>"


def value_type(text: str) -> ValueType | None:
    """The type that WGSL writes so (`vec3<f32>`, `vec3f`), or None if no probe takes it."""
    text = re.sub(r"\s", "", text)
    if text in SCALARS:
        return ValueType(text)
    long, short = _LONG.fullmatch(text), _SHORT.fullmatch(text)
    if long:
        return ValueType(long[2], int(long[1]))
    return ValueType(_SUFFIXES[short[2]], int(short[1])) if short else None


def is_probe(line: str, where: str) -> bool:
    """Whether a template's line is a probe; LabError, which begins with `where`, if it is a malformed one."""
    if _TAKEN.search(line):
        raise LabError(f"{where}: `probe` is what kernel-lab's debug runs look for; give this another name.")
    call = _CALL.match(line)
    if call is not None:
        _check(call["arguments"], where)
        return True
    if _STRAY.search(line):
        raise LabError(f"{where}: a probe is a line of its own, and only one line, as in {EXAMPLE}.")
    return False


def marked(line: str) -> str:
    """A probe's line for a debug run: the marker, and its arguments as Jinja will evaluate them."""
    call = _CALL.match(line)
    assert call is not None
    return f"{call['indent']}{MARKER}{{{{ [{call['arguments']}] | tojson }}}}"


def without_probes(text: str, name: str) -> str:
    """A template's text as it is published: without the lines that are probes."""
    lines = text.split("\n")
    return "\n".join(line for number, line in enumerate(lines, 1) if not is_probe(line, f"{name}:{number}"))


def _check(arguments: str, where: str) -> None:
    given = f"probe({arguments})"
    try:
        body = _PARSER.parse("{{ " + given + " }}").body
    except TemplateSyntaxError as error:
        raise LabError(f"{where}: {given} is no call that Jinja can read: {error.message}.") from None
    call = body[0].nodes[0] if len(body) == 1 and isinstance(body[0], nodes.Output) else None
    if not isinstance(call, nodes.Call) or not isinstance(call.node, nodes.Name):
        raise LabError(f"{where}: a probe is one call and nothing else, as in {EXAMPLE}; found {given}.")
    named = call.kwargs or call.dyn_args or call.dyn_kwargs
    if named or len(call.args) not in (2, 3):
        count = "named arguments" if named else f"{len(call.args)} argument{'s' * (len(call.args) != 1)}"
        raise LabError(
            f"{where}: {given} has {count}; a probe takes a name, a WGSL expression and, where it cannot be "
            f'known, its type, in this order: {EXAMPLE} or {{{{ probe("sum", "sum", "i32") }}}}.'
        )
    for argument, what in zip(call.args, ("name", "value", "type"), strict=False):
        if isinstance(argument, nodes.Const):
            check_argument(argument.value, what, where)


def check_argument(value: object, what: str, where: str) -> None:
    """LabError unless a name or an expression is text, and a type one that probes take."""
    if not isinstance(value, str) or not value.strip() or "\n" in value:
        quoted = ' (a WGSL expression stands in quotes, too: "sum")' if what == "value" else ""
        raise LabError(f"{where}: a probe's {what} is {value!r}; it must be text on one line{quoted}.")
    if what == "type" and value_type(value) is None:
        raise LabError(f"{where}: a probe's type is {value!r}; allowed are {ALLOWED}.")
