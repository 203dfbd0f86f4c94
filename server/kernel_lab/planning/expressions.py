"""Expressions of manifests: Jinja expressions in Jinja's sandbox, with no language of our own.

In: text and a mapping of names. Out: plain values. Never a template, never a file.

Four traps are closed here. An unknown name would become None, or be skipped by a short circuit: all names are checked
beforehand. Compiling folds constants and takes the cube of an expression's length (`10**(10**7)`, or a sum of 300
terms, would take seconds): the optimizer is off, only listed syntax is admitted, and no `**`. Few characters could ask
for much memory (`'a' * 10**10`, or forty definitions of twice the one before): no value may grow beyond the sandbox's
bounds, none is a function, and of all methods only `has` is called. An integral float would print as `16.0`: results
are made integers again.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache, reduce
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, nodes
from jinja2.exceptions import UndefinedError

from kernel_lab.errors import LabError
from kernel_lab.operators import dtypes
from kernel_lab.planning import sandbox

MAX_LENGTH = 4000
NAMES_SHOWN = 8
_ALLOWED: tuple[type[nodes.Node], ...] = (
    nodes.Const, nodes.Name, nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Call, nodes.CondExpr, nodes.List,
    nodes.Concat, nodes.And, nodes.Or, nodes.Not, nodes.Neg, nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv,
    nodes.Mod, nodes.Compare, nodes.Operand, nodes.Test, nodes.Filter, nodes.Keyword,
)  # fmt: skip
_FILTERS = {"length", "int", "float", "abs", "join", "first", "last", "sort", "default"}


_FAULTS = (TemplateError, ArithmeticError, TypeError, ValueError, LookupError, LabError)
"""What evaluating someone's expression may raise (SecurityError and UndefinedError are TemplateErrors)."""
_TOO_DEEP = (RecursionError, MemoryError, SyntaxError)
"""What compiling one raises that is nested too deeply, depending on who gives up first: Jinja or Python."""


class Unmet(LabError):
    """An expression that could not be evaluated: the sentence says which, and why."""


def _numel(shape: list[int]) -> int:
    return reduce(sandbox.product, shape, 1)


def _outer(shape: list[int], axis: int) -> int:
    return _numel(shape[:axis])


def _inner(shape: list[int], axis: int) -> int:
    return _numel(shape[axis + 1 :])


def _pick(choices: list[list[Any]], default: Any) -> Any:
    return next((value for condition, value in choices if condition), default)


def _bounded_pow(base: float, exponent: float) -> float:
    if abs(base) > 2**32 or abs(exponent) > 64:
        raise ValueError("pow: base and exponent are bounded by 2^32 and 64")
    return float(base**exponent)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "min": min,
    "max": max,
    "pow": _bounded_pow,
    "ceilDiv": lambda a, b: -(-a // b),
    "pow2ceil": lambda n: 1 << max(int(n) - 1, 0).bit_length(),
    "numel": _numel,
    "rank": len,
    "dim": lambda shape, axis: shape[axis],
    "rows": lambda shape: shape[-2],
    "cols": lambda shape: shape[-1],
    "outer": _outer,
    "inner": _inner,
    "sameShape": lambda a, b: list(a) == list(b),
    "hasAxis": lambda shape, axis: -len(shape) <= axis < len(shape),
    "has": lambda container, key: key in container,
    "pick": _pick,
    "dtypeBits": lambda name: dtypes.named(name).bits,
    "dtypeBytes": lambda name: max(dtypes.named(name).bits // 8, 1),
}
DEVICE_NAMES = frozenset({"device", "f16Ok", "f16Allowed", "matrix"})
"""Names that speak of the device: an expression that reads one is decided at run time."""


def normalised(value: Any) -> Any:
    """Integral floats as integers, deeply; other values as they are."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return [normalised(item) for item in value] if isinstance(value, list | tuple) else value


class _Environment(sandbox.Environment):
    """Calls whatever an expression's syntax lets it call: functions, and `has`. No value of its own is callable."""

    def may_be_called(self, value: Any) -> bool:
        return True


_ENVIRONMENT = _Environment(FUNCTIONS)


def _module(definitions: Iterable[tuple[str, nodes.Expr]]) -> Template:
    """A template that sets those names in turn, compiled from syntax trees: nothing is parsed twice."""
    body: list[nodes.Node] = [
        nodes.Assign(nodes.Name(name, "store", lineno=1), value, lineno=1) for name, value in definitions
    ]
    try:
        tree = nodes.Template(body, lineno=1)
        tree.set_environment(_ENVIRONMENT)
        return _ENVIRONMENT.from_string(tree)
    except _TOO_DEEP:
        raise Unmet("an expression is nested too deeply.") from None


def _with_functions(template: Template) -> Template:
    """The template with globals that are one plain dict: Jinja copies them at every call."""
    template.globals = dict(FUNCTIONS)
    return template


def _set_by(template: Template, names: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the template sets, given those names: what Jinja's `make_module` does, without making a module."""
    context = template.new_context({**FUNCTIONS, **names}, shared=True)
    for _ in template.root_render_func(context):
        pass
    return context.vars


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression. `names`: what it reads besides the functions."""

    text: str
    names: frozenset[str]
    _template: Template

    def __call__(self, scope: Mapping[str, Any]) -> Any:
        missing = [name for name in self.names if name not in scope]
        if missing:
            raise Unmet(f"`{self.text}`: unknown name {missing[0]!r} (known: {_nearest(missing[0], scope)}).")
        try:
            value = _set_by(self._template, {name: scope[name] for name in self.names})["value"]
        except UndefinedError as error:
            raise Unmet(f"`{self.text}`: {error.message}.") from None
        except _FAULTS as error:
            raise Unmet(f"`{self.text}`: {error}.") from None
        if _has_hole(value):
            raise Unmet(f"`{self.text}` reads something that is not there.")
        return normalised(value)


def _has_hole(value: Any) -> bool:
    return isinstance(value, StrictUndefined) or (isinstance(value, list) and any(map(_has_hole, value)))


def _nearest(name: str, known: Iterable[str]) -> str:
    """The known names most like an unknown one: a manifest knows some 80, and the one that was meant is among a few."""
    names = sorted(known, key=lambda other: -SequenceMatcher(None, name, other).ratio())
    more = f", … {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(sorted(names[:NAMES_SHOWN])) + more


@lru_cache(maxsize=8192)
def _parsed(text: str) -> tuple[nodes.Expr, frozenset[str]]:
    """The syntax tree of an expression and the names it reads; Unmet if it is no admitted Jinja expression."""
    if len(text) > MAX_LENGTH:
        raise Unmet(f"`{text[:60]}…`: {len(text)} characters; an expression may have {MAX_LENGTH}.")
    try:
        node = _only_expression(_ENVIRONMENT.parse("{{ (" + text + ") }}"), text)
        _check_syntax(node, text)
        names = frozenset(name.name for name in _walk(node) if isinstance(name, nodes.Name)) - FUNCTIONS.keys()
        node = sandbox.bound_expression(node)
    except TemplateError as error:
        raise Unmet(f"`{text}` is no expression: {error.message}.") from None
    except _TOO_DEEP:
        raise Unmet(f"`{text[:60]}…` is nested too deeply.") from None
    return node, names


@lru_cache(maxsize=8192)
def compiled(text: str) -> Expression:
    """The expression of that text; Unmet if it is no admitted Jinja expression."""
    node, names = _parsed(text)
    return Expression(text, names, _module([("value", node)]))


def evaluate(expression: object, scope: Mapping[str, Any]) -> Any:
    """The value of an expression's text in a scope; anything but text stands for itself."""
    return compiled(expression)(scope) if isinstance(expression, str) else normalised(expression)


@lru_cache(maxsize=8192)
def names_in(expression: object) -> frozenset[str]:
    """The names that an expression reads, functions included where they speak of the device."""
    return _parsed(expression)[1] if isinstance(expression, str) else frozenset()


@lru_cache(maxsize=1024)
def _sentence(text: str) -> Template:
    if len(text) > MAX_LENGTH:
        raise Unmet(f"`{text[:60]}…`: {len(text)} characters; a sentence may have {MAX_LENGTH}.")
    tree = _ENVIRONMENT.parse(text)
    for statement in tree.body:
        for part in statement.nodes if isinstance(statement, nodes.Output) else [statement]:
            if not isinstance(part, nodes.TemplateData):
                _check_syntax(part, text)
    return _with_functions(_ENVIRONMENT.compiled(tree))


def sentence(text: str, scope: Mapping[str, Any]) -> str:
    """A sentence with `{{ }}` holes, filled from the scope, on one line. Holes that cannot be filled show as `?`."""
    try:
        return " ".join(str(_sentence(text).render(scope)).split())
    except (*_FAULTS, *_TOO_DEEP):
        return unfilled(text)


def unfilled(text: str) -> str:
    """The sentence with its holes left open."""
    return text.replace("{{", "?").replace("}}", "")


def _only_expression(tree: nodes.Template, text: str) -> nodes.Expr:
    whole = tree.body[0].nodes if tree.body and isinstance(tree.body[0], nodes.Output) else []
    if len(tree.body) != 1 or len(whole) != 1:  # `1) }}{{ (2` is two
        raise Unmet(f"`{text}` is not one expression.")
    return whole[0]


def _check_syntax(tree: nodes.Node, text: str) -> None:
    for node in _walk(tree):
        if not isinstance(node, _ALLOWED):
            raise Unmet(f"`{text}`: {type(node).__name__} is not allowed in an expression.")
        if isinstance(node, nodes.CondExpr) and node.expr2 is None:
            raise Unmet(f"`{text}`: an `if` needs its `else`.")
        if isinstance(node, nodes.Call) and not _is_callable(node.node):
            raise Unmet(f"`{text}`: only functions may be called ({', '.join(sorted(FUNCTIONS))}), and `.has`.")
        if isinstance(node, nodes.Test) and node.name not in _ENVIRONMENT.tests:
            raise Unmet(f"`{text}` is no expression: No test named {node.name!r}.")
        if isinstance(node, nodes.Filter) and node.name not in _FILTERS:
            raise Unmet(f"`{text}`: filter {node.name!r} is not allowed (allowed: {', '.join(sorted(_FILTERS))}).")


def _is_callable(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Name) or (isinstance(node, nodes.Getattr) and node.attr == "has")


def _walk(node: nodes.Node) -> list[nodes.Node]:
    found = [node]
    for child in node.iter_child_nodes():
        found.extend(_walk(child))
    return found


Definitions = tuple[tuple[str, object], ...]


@lru_cache(maxsize=1024)
def sequence(definitions: Definitions) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Ordered definitions, each of which may read the earlier ones, as one compiled module: a call costs one Jinja call
    instead of one per name.
    """
    outside: set[str] = set()
    for index, (name, expression) in enumerate(definitions):
        outside |= names_in(expression) - {earlier for earlier, _ in definitions[:index]}
        if not name.isidentifier() or name.startswith("_"):
            raise Unmet(f"{name!r} cannot be the name of a derived value.")
    template = _module([(name, _parsed(_literal(expression))[0]) for name, expression in definitions])

    def run(scope: Mapping[str, Any]) -> dict[str, Any]:
        if not outside <= scope.keys():
            return _one_by_one(definitions, scope)
        try:
            found = _set_by(template, {name: scope[name] for name in outside})
        except _FAULTS:
            return _one_by_one(definitions, scope)
        if any(_has_hole(found[name]) for name, _ in definitions):
            return _one_by_one(definitions, scope)
        return {name: normalised(found[name]) for name, _ in definitions}

    return run


def _literal(expression: object) -> str:
    return expression if isinstance(expression, str) else str(expression).lower()


def _one_by_one(definitions: Definitions, scope: Mapping[str, Any]) -> dict[str, Any]:
    """The slow path, taken when the module failed: finds the definition at fault and says so."""
    values: dict[str, Any] = {}
    for name, expression in definitions:
        try:
            values[name] = evaluate(expression, {**scope, **values})
        except Unmet as error:
            raise Unmet(f"{name}: {error}") from None
    return values


@lru_cache(maxsize=256)
def first_false(conditions: tuple[str, ...]) -> Expression:
    """One expression: the index of the first condition that does not hold, or -1. Later ones are not evaluated."""
    found: nodes.Expr = nodes.Const(-1, lineno=1)
    names: frozenset[str] = frozenset()
    for index, text in reversed(list(enumerate(conditions))):
        node, read = _parsed(text)
        found = nodes.CondExpr(nodes.Not(node, lineno=1), nodes.Const(index, lineno=1), found, lineno=1)
        names |= read
    return Expression(" and ".join(conditions)[:200], names, _module([("value", found)]))
