"""The kinds of fault in WGSL: each is a function from a text's code to edits, one for each place where it fits.

In: `Code`. Out: `Edit`s. Pure, in the order of the text. Only what the entry point reaches is touched, and no
declaration of the module. An edit need not compile: those that do not are not counted.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from kernel_lab.mutating.wgsl import Code, Function, is_assignment, parse


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """The characters from `start` to `end` become `text`."""

    start: int
    end: int
    text: str

    def applied(self, whole: str) -> str:
        return whole[: self.start] + self.text + whole[self.end :]


Kind = Callable[[Code, Function], Iterator[Edit]]


def edits_of(text: str, entry: str = "main") -> Iterator[tuple[str, str, Edit]]:
    """Every fault: its kind, its function, the edit. Where two kinds come to the same text, the first has it."""
    code = parse(text, entry)
    seen = set()
    for name, kind in KINDS.items():
        for function in code.functions:
            for edit in kind(code, function):
                if edit not in seen and text[edit.start : edit.end] != edit.text:
                    seen.add(edit)
                    yield name, function.name, edit


def _over(code: Code, tokens: range, text: str) -> Edit:
    return Edit(code.tokens[tokens.start].start, code.tokens[tokens.stop - 1].end, text)


def _token(code: Code, index: int, text: str) -> Edit:
    return _over(code, range(index, index + 1), text)


def _grouped(code: Code, tokens: range) -> str:
    """An expression that an operator may follow."""
    text = code.slice(tokens)
    return f"({text})" if any(code.is_binary(index) for index in tokens) else text


def _binary(code: Code, function: Function, operators: str) -> Iterator[int]:
    wanted = operators.split()
    return (index for index in function.binary if code.tokens[index].text in wanted)


def _split_number(text: str) -> tuple[int, str, Callable[[int], str]] | None:
    """A whole number's value and suffix, and how to write another like it; None for a fraction."""
    is_hex = text.lower().startswith("0x")
    digits = text.rstrip("iu") if is_hex else text.rstrip("iufh")
    suffix = text[len(digits) :]
    if not is_hex and not digits.isdigit():
        return None
    width = len(digits) - 2
    return int(digits, 0), suffix, (lambda n: f"0x{n:0{width}x}{suffix}") if is_hex else (lambda n: f"{n}{suffix}")


def _numbers(code: Code, function: Function) -> Iterator[tuple[int, int, Callable[[int], str]]]:
    """Whole numbers in expressions, with their values and how to write others."""
    for index in function.numbers:
        split = _split_number(code.at(index))
        if split is not None:
            yield index, split[0], split[2]


def constant(code: Code, function: Function) -> Iterator[Edit]:
    """A number one more or one less; not a mask's, not a shift's."""
    for index, value, written in _numbers(code, function):
        if code.at(index - 1) in ("&", "<<", ">>") or code.at(index + 1) == "&":
            continue
        yield _token(code, index, written(value + 1))
        if value > 0:
            yield _token(code, index, written(value - 1))
    for index in function.numbers:
        if _split_number(code.at(index)) is None:
            digits = code.at(index).rstrip("fh")
            yield _token(code, index, f"{float(digits) + 1.0}{code.at(index)[len(digits) :]}")


def comparison(code: Code, function: Function) -> Iterator[Edit]:
    """A bound included or excluded by mistake, an equality the wrong way round; loops have a kind of their own."""
    other = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
    for index in _binary(code, function, " ".join(other)):
        if code.headers.get(index) != 1:
            yield _token(code, index, other[code.at(index)])


def loop_bound(code: Code, function: Function) -> Iterator[Edit]:
    """A loop's last step left out, or one too many; its first step left out."""
    for index in _binary(code, function, "< <="):
        if code.headers.get(index) == 1:
            left = code.left_of(index)
            yield _over(code, left, f"{_grouped(code, left)} + 1")
            if code.at(index) == "<":
                yield _token(code, index, "<=")
    for index in function.body:
        if code.headers.get(index) == 0 and code.at(index) == "=":
            first = index + 1
            end = next(at for at in range(first, function.body.stop) if code.at(at) == ";")
            yield _over(code, range(first, end), f"{_grouped(code, range(first, end))} + 1")


def sum_sign(code: Code, function: Function) -> Iterator[Edit]:
    """Plus for minus and minus for plus."""
    for index in _binary(code, function, "+ -"):
        yield _token(code, index, "-" if code.at(index) == "+" else "+")
    for index in function.body:
        if code.at(index) in ("+=", "-=") and index not in code.headers:
            yield _token(code, index, "-=" if code.at(index) == "+=" else "+=")


def product(code: Code, function: Function) -> Iterator[Edit]:
    """A sum where a product should be."""
    for index in _binary(code, function, "*"):
        yield _token(code, index, "+")


def quotient(code: Code, function: Function) -> Iterator[Edit]:
    """Quotient for remainder and remainder for quotient."""
    for index in _binary(code, function, "/ %"):
        yield _token(code, index, "%" if code.at(index) == "/" else "/")


def mask(code: Code, function: Function) -> Iterator[Edit]:
    """A mask one bit too narrow or too wide, or forgotten."""
    for index, value, written in _numbers(code, function):
        if code.at(index - 1) == "&" or code.at(index + 1) == "&":
            yield _token(code, index, written(value >> 1))
            if value < 0x80000000:
                yield _token(code, index, written(value << 1 | 1))
    for index in _binary(code, function, "&"):
        left = code.left_of(index)
        yield _over(code, range(left.start, code.right_of(index).stop), code.slice(left))


def bits(code: Code, function: Function) -> Iterator[Edit]:
    """One bitwise operator for another."""
    other = {"&": "|", "|": "&", "^": "|"}
    for index in _binary(code, function, "& | ^"):
        yield _token(code, index, other[code.at(index)])
    for index in function.body:
        if code.at(index) in ("|=", "&=", "^="):
            yield _token(code, index, f"{other[code.at(index)[0]]}=")


def shift(code: Code, function: Function) -> Iterator[Edit]:
    """A shift the wrong way, or by one bit more or less."""
    for index in function.body:
        text = code.at(index)
        if text in ("<<", ">>", "<<=", ">>=") and code.tokens[index].kind == "operator":
            yield _token(code, index, (">>" if text[0] == "<" else "<<") + text[2:])
    for index, value, written in _numbers(code, function):
        if code.at(index - 1) in ("<<", ">>"):
            yield _token(code, index, written(value + 1))
            if value > 0:
                yield _token(code, index, written(value - 1))


def dropped_term(code: Code, function: Function) -> Iterator[Edit]:
    """A term, a factor or a flipped bit left out: the zero point, a stride, a base address."""
    for index in _binary(code, function, "+ - * ^"):
        left, right = code.left_of(index), code.right_of(index)
        whole = range(left.start, right.stop)
        yield _over(code, whole, code.slice(left))
        if code.at(index) in ("+", "*"):
            yield _over(code, whole, code.slice(right))


_SYMMETRIC = frozenset({"min", "max", "dot", "select", "dot4I8Packed", "dot4U8Packed"})


def arguments_swapped(code: Code, function: Function) -> Iterator[Edit]:
    """Two neighbouring arguments exchanged: rows for columns, x for w."""
    for name, opening, _ in code.calls(function):
        arguments = code.arguments(opening)
        for one, two in pairwise(arguments):
            first, second = code.slice(one), code.slice(two)
            same = name in _SYMMETRIC or (name == "clamp" and one == arguments[0])  # min(max(e, low), high)
            if not same and first != second:
                between = code.text[code.tokens[one.stop - 1].end : code.tokens[two.start].start]
                yield _over(code, range(one.start, two.stop), f"{second}{between}{first}")


def select_arms(code: Code, function: Function) -> Iterator[Edit]:
    """`select` takes the false arm first: easily the wrong way round."""
    for name, opening, _ in code.calls(function):
        arguments = code.arguments(opening)
        if name == "select" and len(arguments) == 3 and code.slice(arguments[0]) != code.slice(arguments[1]):
            swapped = f"{code.slice(arguments[1])}, {code.slice(arguments[0])}"
            yield _over(code, range(arguments[0].start, arguments[1].stop), swapped)


def guard(code: Code, function: Function) -> Iterator[Edit]:
    """An `if` that never holds, or always."""
    for index in function.body:
        opening = index + 1
        if code.at(index) == "if" and code.at(opening) == "(":
            inside = range(opening + 1, code.partner[opening])
            yield _over(code, inside, "false")
            yield _over(code, inside, "true")


def limit(code: Code, function: Function) -> Iterator[Edit]:
    """A minimum for a maximum, or a bound forgotten."""
    for name, opening, call in code.calls(function):
        arguments = code.arguments(opening)
        if name in ("min", "max") and len(arguments) == 2:
            yield _token(code, call.start, "max" if name == "min" else "min")
            yield _over(code, call, f"({code.slice(arguments[0])})")
            yield _over(code, call, f"({code.slice(arguments[1])})")
        if name == "clamp" and len(arguments) == 3:
            value, low, high = (code.slice(part) for part in arguments)
            yield _over(code, call, f"max({value}, {low})")
            yield _over(code, call, f"min({value}, {high})")


_OTHER_SIGN = {
    "dot4I8Packed": "i32(dot4U8Packed{0})",
    "dot4U8Packed": "u32(dot4I8Packed{0})",
    "unpack4xI8": "vec4<i32>(unpack4xU8{0})",
    "unpack4xU8": "vec4<u32>(unpack4xI8{0})",
}


def unsigned(code: Code, function: Function) -> Iterator[Edit]:
    """Signed numbers taken for unsigned ones, where that matters: compared, converted, bounded, shifted, divided."""
    for name, opening, call in code.calls(function):
        arguments = code.arguments(opening)
        types = [code.type_of(part, function) for part in arguments]
        if name in _OTHER_SIGN:
            yield _over(code, call, _OTHER_SIGN[name].format(code.slice(range(opening, call.stop))))
        if name == "abs" and types == ["i32"]:
            yield _over(code, call, f"({code.slice(arguments[0])})")
        if name in ("f32", "f16") and types == ["i32"]:
            yield _over(code, arguments[0], f"u32({code.slice(arguments[0])})")
        if name in ("min", "max", "clamp") and _signed(types[0] if types else ""):
            kind, other = types[0], types[0].replace("i32", "u32")
            parts = ", ".join(f"{other}({code.slice(part)})" for part in arguments)
            yield _over(code, call, f"{kind}({name}({parts}))")
    for index in _binary(code, function, "< <= > >= / %"):
        left, right = code.left_of(index), code.right_of(index)
        kind = code.type_of(left, function)
        if _signed(kind):
            other = kind.replace("i32", "u32")
            text = f"{other}({code.slice(left)}) {code.at(index)} {other}({code.slice(right)})"
            text = f"{kind}({text})" if code.at(index) in "/%" else text
            yield _over(code, range(left.start, right.stop), text)
    for index in _binary(code, function, ">>"):
        left, right = code.left_of(index), code.right_of(index)
        kind = code.type_of(left, function)
        if _signed(kind):
            text = f"{kind}({kind.replace('i32', 'u32')}({code.slice(left)}) >> {code.slice(right)})"
            yield _over(code, range(left.start, right.stop), text)


def _signed(kind: str) -> bool:
    return kind == "i32" or (kind.startswith("vec") and kind.endswith("<i32>"))


def barrier(code: Code, function: Function) -> Iterator[Edit]:
    """A barrier left out; `late_edits` belong to it."""
    for call in _barriers(code, function):
        yield _over(code, range(call.start, call.stop + 1), "")


def late_edits(text: str, entry: str = "main") -> tuple[Edit, ...]:
    """Make every second 32 invocations of a workgroup late after each barrier and at the start. Invocations of a GPU
    run nearly in step, so that a missing barrier may never show; this changes no result of a kernel that has them all.
    """
    code = parse(text, entry)
    memory = re.search(r"var<workgroup>\s+(\w+)\s*:\s*array<", text)
    if memory is None:
        return ()
    # no compiler can tell that the store never happens, so none can leave the loop out
    late = LATE.format(memory=memory[1])
    places = [
        code.tokens[index].end
        for function in code.functions
        if "lane" in function.types and any(_barriers(code, function))
        for index in (function.body.start - 1, *(call.stop for call in _barriers(code, function)))
    ]
    return tuple(Edit(place, place, late) for place in places)


LATE = (
    " {{ var late = lane; for (var i = (lane & 32u) << 6u; i > 0u; i--) {{ late = late * 1664525u + 1013904223u; }}"
    " if (late == 0x9e3779b9u) {{ {memory}[0] = {memory}[1]; }} }}"
)


def _barriers(code: Code, function: Function) -> Iterator[range]:
    names = ("workgroupBarrier", "storageBarrier", "subgroupBarrier")
    return (call for name, _, call in code.calls(function) if name in names)


def rounding(code: Code, function: Function) -> Iterator[Edit]:
    """Rounding other than half to even."""
    for name, opening, call in code.calls(function):
        if name == "round":
            value = code.slice(range(opening + 1, call.stop - 1))
            for text in (
                f"floor(({value}) + 0.5)",
                f"ceil(({value}) - 0.5)",
                f"sign({value}) * floor(abs({value}) + 0.5)",
                f"trunc({value})",
                f"floor({value})",
                f"ceil({value})",
            ):
                yield _over(code, call, text)


def accumulator(code: Code, function: Function) -> Iterator[Edit]:
    """Only the last summand kept, or a sum that does not start from 0."""
    for index in function.body:
        if code.at(index) in ("+=", "|=") and index not in code.headers:
            yield _token(code, index, "=")
    for statement in code.statements(function):
        texts = [code.at(index) for index in statement]
        if texts[0] == "var" and texts[-2:] == ["(", ")"] and "vec" in "".join(texts):
            yield _over(code, range(statement.stop - 1, statement.stop), "1)")


def dropped_statement(code: Code, function: Function) -> Iterator[Edit]:
    """An assignment, an increment or a call left out."""
    for statement in code.statements(function):
        texts = [code.at(index) for index in statement]
        if texts[0] in ("let", "var", "const", "return", "break", "continue"):
            continue
        if any(map(is_assignment, texts)) or texts[-1] in ("++", "--"):
            yield _over(code, range(statement.start, statement.stop + 1), "")


def negation(code: Code, function: Function) -> Iterator[Edit]:
    """A minus, a `not` or a complement left out."""
    for index in function.body:
        if code.at(index) in ("-", "!", "~") and not code.is_binary(index):
            yield _token(code, index, "")


def logic(code: Code, function: Function) -> Iterator[Edit]:
    """`and` for `or`, and one of two conditions left out."""
    for index in _binary(code, function, "&& ||"):
        yield _token(code, index, "||" if code.at(index) == "&&" else "&&")
        left, right = code.left_of(index), code.right_of(index)
        whole = range(left.start, right.stop)
        yield _over(code, whole, code.slice(left))
        yield _over(code, whole, code.slice(right))


def component(code: Code, function: Function) -> Iterator[Edit]:
    """Another component of a vector: width for height."""
    others = {"x": "y", "y": "xz", "z": "yw", "w": "z"}
    for index in function.body:
        if code.at(index - 1) == "." and code.at(index) in others:
            for other in others[code.at(index)]:
                yield _token(code, index, other)


def uniform_field(code: Code, function: Function) -> Iterator[Edit]:
    """Another field of the uniforms, of a similar name: one stride for another."""
    fields = [name for name, kind in code.fields.items() if kind in ("u32", "i32") and not name.startswith("_")]
    for index in function.body:
        if code.at(index) in fields and code.at(index - 1) == ".":
            for other in fields:
                if similar(code.at(index), other):
                    yield _token(code, index, other)


def similar(one: str, other: str) -> bool:
    """Whether two names share their first or last word: stride_height and stride_width, x_flip and w_flip."""
    first, second = one.split("_"), other.split("_")
    return one != other and (first[0] == second[0] or first[-1] == second[-1])


def index(code: Code, function: Function) -> Iterator[Edit]:
    """The element behind the right one."""
    for at in function.body:
        before = code.tokens[at - 1]
        if code.at(at) == "[" and (before.kind == "name" or before.text in (")", "]")):
            inside = range(at + 1, code.partner[at])
            if not (len(inside) == 1 and code.tokens[inside.start].kind == "number"):
                yield _over(code, inside, f"{_grouped(code, inside)} + 1")


KINDS: Mapping[str, Kind] = {
    kind.__name__: kind
    for kind in (
        loop_bound, barrier, rounding, unsigned, guard, accumulator, select_arms, limit, mask, shift, comparison, logic,
        negation, quotient, sum_sign, product, bits, dropped_term, dropped_statement, arguments_swapped, component,
        uniform_field, index, constant,
    )
}  # fmt: skip
"""By name; the rarer ones first, so that what two kinds agree on counts for the rarer."""
