"""WGSL as tokens: enough of the language to say what is an operand, a call, a loop's bound, and what `main` can reach.

In: rendered WGSL. Out: `Code`. Pure. Never judges whether the text is valid: the browser's compiler does.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

_TOKEN = re.compile(
    r"""
    (?P<space>   \s+ | //[^\n]* )
  | (?P<block>   /\* )
  | (?P<number>  0[xX][0-9a-fA-F]+[iu]? | (?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[fhiu]? )
  | (?P<name>    [A-Za-z_]\w* )
  | (?P<operator> <<= | >>= | -> | && | \|\| | == | != | <= | >= | \+= | -= | \*= | /= | %= | &= | \|= | \^= | \+\+ | --
                | << | >> | . )
    """,
    re.VERBOSE,
)
_BLOCK_EDGE = re.compile(r"/\*|\*/")
_OPENS = {"(": ")", "[": "]", "{": "}"}
_ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
_KEYWORDS = (
    "return", "let", "var", "const", "if", "else", "for", "while", "loop", "switch", "case", "break", "continue",
    "continuing",
)  # fmt: skip
PRECEDENCE: Mapping[str, int] = {
    "||": 1, "&&": 2, "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "|": 4, "^": 4, "&": 4, "<<": 5, ">>": 5,
    "+": 6, "-": 6, "*": 7, "/": 7, "%": 7,
}  # fmt: skip
"""How tightly a binary operator binds; WGSL asks for parentheses wherever `&`, `|`, `^` and shifts meet others."""


@dataclass(frozen=True, slots=True)
class Token:
    """`kind`: name, number, operator, or template for the `<` and `>` of a type's arguments. Offsets in characters."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Function:
    """A function; `body` counts tokens, without the braces. `binary`, `numbers`: the body's operators between operands,
    and its numbers outside types. `types`: what is known of parameters and local names.
    """

    name: str
    body: range
    binary: tuple[int, ...]
    numbers: tuple[int, ...]
    result: str = ""
    types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """A text with its tokens. `partner`: the index of a bracket's other half. `functions`: those that the entry point
    reaches, in the order of the text. `headers`: which of its three parts each token of a `for` header is in. `fields`
    and `results`: the types of struct members and of functions, by name.
    """

    text: str
    tokens: tuple[Token, ...]
    partner: Mapping[int, int]
    functions: tuple[Function, ...]
    headers: Mapping[int, int]
    fields: Mapping[str, str]
    results: Mapping[str, str]

    def slice(self, tokens: range) -> str:
        """The text from the first of these tokens to the last."""
        return self.text[self.tokens[tokens.start].start : self.tokens[tokens.stop - 1].end] if tokens else ""

    def at(self, index: int) -> str:
        """A token's text, or nothing beyond the ends."""
        return self.tokens[index].text if 0 <= index < len(self.tokens) else ""

    def is_binary(self, index: int) -> bool:
        """Whether this token stands between two operands."""
        token = self.tokens[index]
        return token.kind == "operator" and token.text in PRECEDENCE and self._ends_operand(index - 1)

    def _ends_operand(self, index: int) -> bool:
        token = self.tokens[index]
        return token.text in (")", "]") or token.kind == "number" or (token.kind == "name" and not is_keyword(token))

    def left_of(self, index: int) -> range:
        """The operand to the left of a binary operator. Equal operators group from the left."""
        own, at = PRECEDENCE[self.at(index)], index - 1
        while at >= 0:
            token = self.tokens[at]
            if at in self.partner and self.partner[at] < at:
                at = self.partner[at] - 1
                continue
            ends = token.text in _OPENS or token.text in (",", ";", ":") or is_assignment(token.text)
            if ends or is_keyword(token) or (self.is_binary(at) and PRECEDENCE[token.text] < own):
                break
            at -= 1
        return range(at + 1, index)

    def right_of(self, index: int) -> range:
        """The operand to the right of a binary operator."""
        own, at = PRECEDENCE[self.at(index)], index + 1
        while at < len(self.tokens):
            token = self.tokens[at]
            if at in self.partner and self.partner[at] > at and token.text != "{":
                at = self.partner[at] + 1
                continue
            ends = token.text in (")", "]", "}", "{", ",", ";", ":")
            if ends or (at > index + 1 and self.is_binary(at) and PRECEDENCE[token.text] <= own):
                break
            at += 1
        return range(index + 1, at)

    def arguments(self, opening: int) -> list[range]:
        """What stands between a bracket and its partner, split at its own commas; no empty part."""
        parts, first, at = [], opening + 1, opening + 1
        closing = self.partner[opening]
        while at < closing:
            if self.at(at) == ",":
                parts.append(range(first, at))
                first = at + 1
            at = self.partner[at] + 1 if self.partner.get(at, -1) > at else at + 1
        return [part for part in [*parts, range(first, closing)] if part]

    def calls(self, function: Function) -> Iterator[tuple[str, int, range]]:
        """Each call in a body: its name, the index of its opening parenthesis, and the tokens of the whole call."""
        for index in function.body:
            if self.tokens[index].kind != "name" or is_keyword(self.tokens[index]):
                continue
            opening = index + 1
            if self.at(opening) == "<" and opening in self.partner:
                opening = self.partner[opening] + 1
            if self.at(opening) == "(" and opening in self.partner:
                yield self.at(index), opening, range(index, self.partner[opening] + 1)

    def statements(self, function: Function) -> Iterator[range]:
        """Each simple statement of a body, without its semicolon; nothing of a `for` header."""
        first = function.body.start
        for index in function.body:
            text = self.at(index)
            if text in ("{", "}") or (text == ";" and index not in self.headers):
                if text == ";" and first < index:
                    yield range(first, index)
                first = index + 1

    def type_of(self, tokens: range, function: Function) -> str:
        """The type of an expression as WGSL writes it, without spaces: `i32`, `vec3<u32>`; nothing where it is not
        known.
        """
        return _type_of(self, tokens, function.types)


def is_assignment(text: str) -> bool:
    return text in _ASSIGNMENTS


def is_keyword(token: Token) -> bool:
    return token.kind == "name" and token.text in _KEYWORDS


@lru_cache(maxsize=1024)
def parse(text: str, entry: str = "main") -> Code:
    """The text's tokens, brackets and functions."""
    tokens = _tokens(text)
    partner = _partners(tokens)
    results, bodies = {}, {}
    for index, token in enumerate(tokens):
        if token.text == "fn":
            opening = index + 2
            brace = next(at for at in range(partner[opening], len(tokens)) if tokens[at].text == "{")
            name = tokens[index + 1].text
            arrow = partner[opening] + 1
            results[name] = _joined(tokens, range(arrow + 1, brace)) if tokens[arrow].text == "->" else ""
            bodies[name] = (opening, brace)
    code = Code(text, tuple(tokens), partner, (), _headers(tokens, partner), _fields(tokens, partner), results)
    names = {name: range(brace + 1, partner[brace]) for name, (_, brace) in bodies.items()}
    reached = _reached(tokens, names, entry)
    functions = [_function(code, name, bodies[name][0], body) for name, body in names.items() if name in reached]
    return Code(text, code.tokens, partner, tuple(functions), code.headers, code.fields, results)


def _function(code: Code, name: str, opening: int, body: range) -> Function:
    binary = tuple(index for index in body if code.is_binary(index))
    typed = {
        inside for at in body if code.at(at) == "<" and at in code.partner for inside in range(at, code.partner[at])
    }
    numbers = tuple(index for index in body if code.tokens[index].kind == "number" and index not in typed)
    return Function(name, body, binary, numbers, code.results[name], _types(code, opening, body))


def _tokens(text: str) -> list[Token]:
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None  # the last operator is any character
        assert match.lastgroup is not None
        if match.lastgroup == "block":
            at = _end_of_block(text, at)
            continue
        if match.lastgroup != "space":
            found.append(Token(match.lastgroup, match.group(), at, match.end()))
        at = match.end()
    return _with_templates(found)


def _end_of_block(text: str, at: int) -> int:
    """Behind a block comment; they nest."""
    depth = 0
    for edge in _BLOCK_EDGE.finditer(text, at):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(text)


def _with_templates(tokens: list[Token]) -> list[Token]:
    """WGSL's own rule for telling a type's `<` from less-than (https://www.w3.org/TR/WGSL/#template-list-discovery)."""
    done: list[Token] = []
    waiting: list[tuple[int, int]] = []
    rest, depth = list(reversed(tokens)), 0
    while rest:
        token = rest.pop()
        text = token.text
        if text == "<" and done and done[-1].kind == "name":
            waiting.append((len(done), depth))
        elif text[0] == ">" and text != ">=" and waiting and waiting[-1][1] == depth:
            opening, _ = waiting.pop()
            done[opening] = Token("template", "<", done[opening].start, done[opening].end)
            done.append(Token("template", ">", token.start, token.start + 1))
            if text[1:]:
                rest.append(Token("operator", text[1:], token.start + 1, token.end))
            continue
        elif text in ("(", "["):
            depth += 1
        elif text in (")", "]", "&&", "||"):
            while waiting and waiting[-1][1] >= depth:
                waiting.pop()
            depth -= text in (")", "]")
        elif text in (";", "{", ":", "="):
            depth, waiting = 0, []
        done.append(token)
    return done


def _partners(tokens: list[Token]) -> dict[int, int]:
    partner: dict[int, int] = {}
    open_at: list[int] = []
    for index, token in enumerate(tokens):
        if token.text in _OPENS or (token.kind == "template" and token.text == "<"):
            open_at.append(index)
        elif open_at and (token.text in (")", "]", "}") or token.kind == "template"):
            opening = open_at.pop()
            partner[opening], partner[index] = index, opening
    return partner


def _headers(tokens: list[Token], partner: Mapping[int, int]) -> dict[int, int]:
    headers = {}
    for index, token in enumerate(tokens):
        if token.text == "for" and index + 1 in partner:
            part = 0
            for inside in range(index + 2, partner[index + 1]):
                headers[inside] = part
                part += tokens[inside].text == ";"
    return headers


def _fields(tokens: list[Token], partner: Mapping[int, int]) -> dict[str, str]:
    """The types of struct members by name; a name that two structs give different types is left out."""
    found: dict[str, str] = {}
    for index, token in enumerate(tokens):
        if token.text == "struct":
            for name, kind in _declared(tokens, partner, index + 2):
                found[name] = kind if found.get(name, kind) == kind else ""
    return found


def _declared(tokens: list[Token], partner: Mapping[int, int], opening: int) -> Iterator[tuple[str, str]]:
    """`name: type` between brackets: a struct's members or a function's parameters."""
    at = opening + 1
    while at < partner[opening]:
        if tokens[at].text == ":":
            end = at + 1
            while tokens[end].text not in (",", ")", "}"):
                end = partner[end] + 1 if partner.get(end, -1) > end else end + 1
            yield tokens[at - 1].text, _joined(tokens, range(at + 1, end))
            at = end
        at += 1


def _joined(tokens: list[Token] | tuple[Token, ...], chosen: range) -> str:
    return "".join(tokens[index].text for index in chosen)


def _reached(tokens: list[Token], bodies: Mapping[str, range], entry: str) -> set[str]:
    reached: set[str] = set()
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name in bodies and name not in reached:
            reached.add(name)
            waiting += [tokens[index].text for index in bodies[name] if tokens[index].kind == "name"]
    return reached


def _types(code: Code, opening: int, body: range) -> dict[str, str]:
    return types_within(code, body, dict(_declared(list(code.tokens), code.partner, opening)))


def types_within(code: Code, body: range, known: Mapping[str, str]) -> dict[str, str]:
    """What is known of a body's local names, given what is known of others. A name declared twice has its last type."""
    types = dict(known)
    for index in body:
        if code.at(index) not in ("let", "var", "const") or code.at(index + 1) == "<":
            continue
        end = index + 1
        while code.at(end) != ";" and end < body.stop:  # in a text that does not compile there may be none
            end = code.partner[end] + 1 if code.partner.get(end, -1) > end else end + 1
        equals = next((at for at in range(index, end) if code.at(at) == "="), end)
        if code.at(index + 2) == ":":
            types[code.at(index + 1)] = _joined(code.tokens, range(index + 3, equals))
        else:
            types[code.at(index + 1)] = _type_of(code, range(equals + 1, end), types)
    return types


_SAME_AS_FIRST = ("abs", "min", "max", "clamp", "select", "extractBits", "countLeadingZeros", "countOneBits")
_SUFFIXES = {"u": "u32", "i": "i32", "f": "f32", "h": "f16"}
_OF_CALLS = {"dot4I8Packed": "i32", "dot4U8Packed": "u32", "unpack4xI8": "vec4<i32>", "unpack4xU8": "vec4<u32>"}


def _type_of(code: Code, tokens: range, types: Mapping[str, str]) -> str:
    """The type of the first operand that has one (a product of a vector and a scalar is the vector's)."""
    found = ""
    at = tokens.start
    while at < tokens.stop:
        kind, at = _primary(code, at, types)
        if kind and (not found or kind.startswith("vec")):
            found = kind
        if at < tokens.stop and code.at(at) in ("==", "!=", "<", "<=", ">", ">=", "&&", "||"):
            return "bool"
        at += 1
    return found


def _primary(code: Code, at: int, types: Mapping[str, str]) -> tuple[str, int]:
    """The type of the operand at a token, and the token behind it."""
    while code.at(at) in ("-", "~", "!", "&", "*"):
        at += 1
    token = code.tokens[at]
    kind = ""
    if token.text == "(":
        kind, at = _type_of(code, range(at + 1, code.partner[at]), types), code.partner[at] + 1
    elif token.kind == "number":
        last = "" if token.text[:2].lower() == "0x" and token.text[-1] not in "iu" else token.text[-1]
        kind, at = _SUFFIXES.get(last, "f32" if "." in token.text else ""), at + 1
    elif token.kind == "name":
        opening = code.partner[at + 1] + 1 if code.at(at + 1) == "<" and at + 1 in code.partner else at + 1
        if code.at(opening) == "(":
            named = _joined(code.tokens, range(at, opening))
            kind, at = _type_of_call(code, token.text, named, opening, types), code.partner[opening] + 1
        else:
            kind, at = types.get(token.text, ""), at + 1
    else:
        return "", at + 1
    while code.at(at) in (".", "["):
        if code.at(at) == "[":
            kind, at = _element(kind), code.partner[at] + 1
        else:
            member = code.at(at + 1)
            kind = _swizzled(kind, member) if kind.startswith("vec") else code.fields.get(member, "")
            at += 2
    return kind, at


def _type_of_call(code: Code, name: str, named: str, opening: int, types: Mapping[str, str]) -> str:
    if name == "bitcast":
        return named.removeprefix("bitcast<").removesuffix(">")
    if name in code.results:
        return code.results[name]
    if name in _OF_CALLS:
        return _OF_CALLS[name]
    if name in _SAME_AS_FIRST:
        arguments = code.arguments(opening)
        return _type_of(code, arguments[0], types) if arguments else ""
    return named if name in ("i32", "u32", "f32", "f16", "bool") or name.startswith("vec") else ""


def _element(kind: str) -> str:
    inside = kind.partition("<")[2].removesuffix(">")
    return inside.partition(",")[0] if kind.startswith(("vec", "array")) else ""


def _swizzled(kind: str, member: str) -> str:
    return _element(kind) if len(member) == 1 else f"vec{len(member)}<{_element(kind)}>"
