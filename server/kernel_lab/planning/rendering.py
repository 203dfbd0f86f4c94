"""Templates to WGSL, with the template line of every rendered line.

In: a Source and the names it may use. Out: `Wgsl`. Pure; memoised by content.

The origin of a line: behind the last visible character of each template line stands a private-use character that names
the line, put in before rendering and taken out after. It goes through macros, loops and includes as text does. It is
only put where Jinja sees plain text, and never where whitespace control would see it, so that what remains is byte for
byte what rendering without it gives (`rendered_plainly`; a test compares the two).
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError, meta, pass_context
from jinja2.runtime import Context
from jinja2.utils import Namespace

from kernel_lab.errors import LabError
from kernel_lab.planning import sandbox
from kernel_lab.planning.expressions import normalised
from kernel_lab.planning.includes import Origin, Source

_FIRST_MARK = 0xF0000
_LAST_MARK = 0xFFFFD
_MARK = re.compile(f"[{chr(_FIRST_MARK)}-{chr(_LAST_MARK)}]")

_ESCAPED_MARK = re.compile(r"\\udb[89ab]")
"""The same in ASCII-only JSON: the first half of its surrogate pair."""


@dataclass(frozen=True, slots=True)
class Wgsl:
    """Rendered WGSL. `digest`: SHA-256 in hex. `origins[i]`: the template line of line i + 1, where it has one."""

    text: str
    digest: str
    origins: tuple[Origin | None, ...]

    def origin(self, line: int) -> Origin | None:
        """The template line behind a rendered line (from 1)."""
        return self.origins[line - 1] if 1 <= line <= len(self.origins) else None


class TemplateFault(LabError):
    """A template that cannot be rendered: the sentence starts with the template's file and line."""


def _js_text(value: Any) -> Any:
    """Values print as @huggingface/jinja prints them: true, false, nothing for none, 0.00001 for 1e-05."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return _js_number(value) if isinstance(value, float) else value


def _js_number(value: float) -> str:
    """Python's digits in JavaScript's form. An integral float keeps its point: only a template's division makes one."""
    if value.is_integer() and abs(value) < 1e21:
        return f"{value:.1f}"
    text = repr(value)
    return f"{Decimal(text):f}" if 1e-6 <= abs(value) < 1e21 else text.replace("e-0", "e-")


@pass_context
def _printed(context: Context, value: Any) -> str:
    text = str(_js_text(sandbox.bounded(value)))
    sandbox.spend(context, 1 + len(text))
    return text


_ENVIRONMENT = sandbox.Environment(
    {"range": sandbox.bounded_range, "namespace": Namespace},
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_printed,
    extensions=["jinja2.ext.loopcontrols"],
)


def render(source: Source, names: Mapping[str, Any]) -> Wgsl:
    """The template's WGSL; TemplateFault names file and line. `names` must be JSON values."""
    read = _names_read(source)
    return _render(source, _key({name: value for name, value in names.items() if name in read}))


@lru_cache(maxsize=512)
def _names_read(source: Source) -> frozenset[str]:
    """So that a constant which a template does not read makes no other rendering of it."""
    try:
        return frozenset(meta.find_undeclared_variables(_ENVIRONMENT.parse(source.text)))
    except (TemplateSyntaxError, RecursionError, ValueError):
        return frozenset()  # rendering will say what is wrong


@lru_cache(maxsize=4096)
def _render(source: Source, names: str) -> Wgsl:
    if _ESCAPED_MARK.search(names):
        raise TemplateFault(f"{source.name}: a value has characters of Unicode's plane 15, which mark lines here.")
    marked = _run(source, _marked(source), _names(names))
    lines, origins = [], []
    last: Origin | None = None
    for line in marked.split("\n"):
        marks = _MARK.findall(line)
        last = source.origins[ord(marks[-1]) - _FIRST_MARK] if marks else last if not line.strip() else None
        origins.append(last)
        lines.append(_unmarked(line))
    text = "\n".join(lines)
    return Wgsl(text, hashlib.sha256(text.encode()).hexdigest(), tuple(_filled(origins)))


def rendered_plainly(source: Source, names: Mapping[str, Any]) -> str:
    """The same text, rendered without any mark: what every other Jinja renderer gives."""
    return _run(source, source.text, _names(_key(names)))


def _key(names: Mapping[str, Any]) -> str:
    return json.dumps(names, sort_keys=True)


def _host_number(text: str) -> Any:
    value = float(text)
    return normalised(value) if abs(value) < 1e21 else value  # from there on JavaScript writes an exponent


def _names(key: str) -> dict[str, Any]:
    """As JavaScript sees them: its 16.0 is 16."""
    names: dict[str, Any] = json.loads(key, parse_float=_host_number)
    return names


def _run(source: Source, text: str, names: Mapping[str, Any]) -> str:
    try:
        return str(_template(text).render(sandbox.accounted(names)))
    except TemplateSyntaxError as error:
        raise TemplateFault(f"{source.origin(error.lineno)}: {error.message}") from None
    except (TemplateError, ArithmeticError, TypeError, ValueError, LookupError) as error:
        raise TemplateFault(f"{source.origin(_template_line(error))}: {error}") from None
    except SyntaxError as error:  # from Python itself, of Jinja's translation: `break` outside a loop
        raise TemplateFault(f"{source.name}: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise TemplateFault(f"{source.name}: is nested too deeply, or a macro calls itself without end") from None


@lru_cache(maxsize=512)
def _template(text: str) -> Any:
    return _ENVIRONMENT.compiled(_ENVIRONMENT.parse(text))


def _template_line(error: BaseException) -> int:
    """The template line of an error while rendering: Jinja rewrites the traceback so that its last template frame has
    it.
    """
    line, trace = 1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _unmarked(text: str) -> str:
    return _MARK.sub("", text)


def _filled(origins: list[Origin | None]) -> list[Origin | None]:
    """A line without a mark of its own (the text before a tag that swallowed its newline) takes the next line's."""
    following: Origin | None = None
    for index in range(len(origins) - 1, -1, -1):
        if origins[index] is None:
            origins[index] = following
        following = origins[index]
    return origins


@lru_cache(maxsize=512)
def _marked(source: Source) -> str:
    if len(source.origins) > _LAST_MARK - _FIRST_MARK:
        raise TemplateFault(f"{source.name}: {len(source.origins)} lines; a template may have 65,533.")
    if _unmarked(source.text) != source.text:
        raise TemplateFault(f"{source.name}: has characters of Unicode's plane 15, which mark lines here.")
    parts: list[str] = []
    try:
        tokens = list(_ENVIRONMENT.lexer.tokeniter(source.text, source.name))
    except TemplateSyntaxError as error:
        raise TemplateFault(f"{source.origin(error.lineno)}: {error.message}") from None
    line, previous, at = 0, "", 0
    for number, (_, kind, value) in enumerate(tokens, 1):
        # tokeniter drops what whitespace control drops; the source itself is copied, so that Jinja drops it again
        start = source.text.index(value, at)
        skipped, at = source.text[at:start], start + len(value)
        parts.append(skipped)
        line += skipped.count("\n")
        at_end = number == len(tokens)
        parts.append(_mark_data(value, line, previous, at_end) if kind == "data" else value)
        line += value.count("\n")
        if at_end and kind == "variable_end":
            parts.append(chr(_FIRST_MARK + line))
        previous = kind
    return "".join(parts) + source.text[at:]


def _mark_data(text: str, line: int, previous: str, at_end: bool) -> str:
    """A mark at each line's end; the last piece is followed by a tag, which may strip it, unless the template ends."""
    pieces = text.split("\n")
    for index, piece in enumerate(pieces if at_end else pieces[:-1]):
        visible = piece.rstrip()
        follows_value = index == 0 and previous == "variable_end"
        if visible or follows_value:
            pieces[index] = visible + chr(_FIRST_MARK + line + index) + piece[len(visible) :]
    return "\n".join(pieces)
