"""Jinja's sandbox with bounds on memory and time, for expressions and templates that other people wrote.

In: syntax trees. Out: the same trees, compiled so that whatever could grow is looked at. Never touches files.

Jinja's own sandbox keeps text away from Python; it lets `'a' * 10**10` through, `'%9999999999d' is odd`, `lipsum`, and
forty macros that each call the next one twice. Here
- what may be larger than what it was made of (`+`, `*`, `~`, `**`, lists, `join`, `indent`) may not exceed MAX_SIZE;
- `*`, `%`, `**`, `odd` and `even` take numbers only; functions, and objects of Jinja's own, are no values;
- filters, tests, functions and methods are those listed, of which none makes much from little;
- a rendering may do MAX_WORK: a loop's turn or a macro's call costs as much as its body has syntax and text, a value
  as much as it prints. Work that takes longer than it should (long values, compared again and again) MAX_SECONDS ends.
"""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateAssertionError, Undefined, nodes, pass_context
from jinja2.filters import FILTERS
from jinja2.runtime import Context, LoopContext, Macro, TemplateReference
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

MAX_SIZE = 2**16
"""Of a value: a text's characters, a list's items and theirs."""
MAX_DEPTH = 32
MAX_NUMBER = 2**1023
MAX_WORK = 2**18
"""Our own templates do up to 3,000. A macro that does nothing costs 17, and 5 µs."""
CALL = 16
"""What a call costs besides its body."""
MAX_SECONDS = 10.0
"""Of this thread's processor time. Only what nobody needs takes a hundredth of it."""

# With parentheses: no name that a template could write, to look at or to call.
_WORK, _WALKED, _CHARGED, _BOUNDED, _JOINED = "(work)", "(walked)", "(charged)", "(bounded)", "(joined)"
_REFUSED = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends, nodes.Block)
_FILTER_NAMES = (
    "abs", "capitalize", "count", "d", "default", "first", "float", "int", "items", "last", "length", "list", "lower",
    "max", "min", "reverse", "sort", "title", "trim", "unique", "upper",
)  # fmt: skip
_TEST_NAMES = (
    "!=", "<", "<=", "==", ">", ">=", "boolean", "defined", "eq", "equalto", "false", "float", "ge", "greaterthan",
    "gt", "in", "integer", "iterable", "le", "lessthan", "lower", "lt", "mapping", "ne", "none", "number", "sequence",
    "string", "true", "undefined", "upper",
)  # fmt: skip
_NO_VALUES = (Namespace, TemplateReference, LoopContext)
_METHODS = (
    "capitalize", "endswith", "get", "items", "keys", "lower", "lstrip", "rstrip", "split", "startswith", "strip",
    "title", "upper", "values",
)  # fmt: skip


def bounded(value: Any) -> Any:
    """The value itself, if it is a plain one of bounded size. OverflowError if it is too large, TypeError if it is no
    plain value.
    """
    if type(value) is not int or not -MAX_NUMBER <= value <= MAX_NUMBER:  # most are plain numbers
        _size(value, MAX_DEPTH)
    return value


def _size(value: Any, depth: int) -> int:
    if isinstance(value, int | float):
        if isinstance(value, int) and abs(value) > MAX_NUMBER:
            raise OverflowError("a number may not exceed 2^1023")
        return 1
    if isinstance(value, str):
        size = 1 + len(value)
    elif isinstance(value, list | tuple | dict):
        if depth == 0:
            raise OverflowError(f"a value may have {MAX_DEPTH} levels")
        size = 1
        for item in value if not isinstance(value, dict) else (*value.keys(), *value.values()):
            size += _size(item, depth - 1)
            if size > MAX_SIZE:
                break
    elif not isinstance(value, Undefined) and (callable(value) or isinstance(value, _NO_VALUES)):
        raise TypeError(f"a {type(value).__name__} is no value")
    else:
        return 1
    if size > MAX_SIZE:
        raise OverflowError(f"a value may have a size of {MAX_SIZE:,}")
    return size


def product(left: Any, right: Any) -> Any:
    """Of numbers only: a text times a number is how little text asks for much memory."""
    return bounded(_number(left) * _number(right))


def _number(value: Any) -> Any:
    if not isinstance(value, int | float):
        raise TypeError(f"a number is needed, and a {type(value).__name__} is none")
    return value


def _power(base: Any, exponent: Any) -> Any:
    if abs(_number(base)) > 2**32 or abs(_number(exponent)) > 64:
        raise OverflowError("base and exponent of a power are bounded by 2^32 and 64")
    return base**exponent


def _text(value: Any) -> str:
    return str(bounded(value))


def _json(value: Any) -> str:
    return json.dumps(bounded(value))


def _join(value: Any, d: Any = "") -> str:
    texts, between = [_text(part) for part in bounded(_listed(value))], _text(d)
    if sum(map(len, texts)) + len(between) * len(texts) > MAX_SIZE:
        raise OverflowError(f"a text may have {MAX_SIZE:,} characters")
    return between.join(texts)


def _indent(value: Any, width: Any = 4, first: bool = False, blank: bool = False) -> Any:
    text, margin = _text(value), len(width) if isinstance(width, str) else _number(width)
    if len(text) + (text.count("\n") + 1) * margin > MAX_SIZE:
        raise OverflowError(f"a text may have {MAX_SIZE:,} characters")
    return FILTERS["indent"](text, width, first, blank)


def bounded_range(*bounds: int) -> range:
    found = range(*bounds)
    if len(found) > MAX_SIZE:
        raise OverflowError(f"a range may have {MAX_SIZE:,} numbers")
    return found


def _listed(value: Any) -> Any:
    return value if hasattr(value, "__len__") else list(value)


class _Work:
    """What a rendering may still do."""

    def __init__(self) -> None:
        self._left = MAX_WORK
        self._ends = time.thread_time() + MAX_SECONDS

    def spend(self, amount: int) -> None:
        self._left -= amount
        if self._left < 0:
            raise OverflowError(f"a rendering may do work of {MAX_WORK:,}: a loop or a macro goes on for too long")
        if time.thread_time() > self._ends:
            raise OverflowError(f"a rendering may take {MAX_SECONDS:.0f} s: long values are looked at again and again")


def spend(context: Context, amount: int) -> None:
    """Takes from what the rendering may still do; an expression, which has no loops, has no such account."""
    work = context.parent.get(_WORK)
    if work is not None:
        work.spend(amount)


@pass_context
def _walked(context: Context, value: Any) -> Any:
    """What a loop goes over, each item paid for, also those that the loop's own `if` leaves out."""
    items = _listed(value)
    spend(context, 1 + len(items))
    return items


@pass_context
def _charged(context: Context, weight: int) -> None:
    spend(context, weight)


class Environment(ImmutableSandboxedEnvironment):
    """Jinja's, bounded. `functions`: what may be called by name, besides macros."""

    intercepted_binops = frozenset({"+", "*", "%", "**"})

    def __init__(self, functions: Mapping[str, Callable[..., Any]], **options: Any) -> None:
        # without the optimizer, which computes while compiling, and takes the cube of an expression's length
        super().__init__(undefined=StrictUndefined, optimized=False, **options)
        self.globals.clear()
        self.globals.update(functions)
        own = {"join": _join, "indent": _indent, "string": _text, "tojson": _json}
        hidden = {_WALKED: _walked, _CHARGED: _charged, _BOUNDED: bounded, _JOINED: _join}
        self.filters.clear()
        self.filters.update({name: FILTERS[name] for name in _FILTER_NAMES} | own | hidden)
        numeric = {"odd": lambda value: _number(value) % 2 == 1, "even": lambda value: _number(value) % 2 == 0}
        self.tests.clear()
        self.tests.update({name: TESTS[name] for name in _TEST_NAMES} | numeric)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "*":
            return product(left, right)
        if operator == "%":
            return _number(left) % _number(right)
        return _power(left, right) if operator == "**" else bounded(left + right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        spend(__context, CALL)
        if not __self.may_be_called(__obj):
            raise TypeError(f"{getattr(__obj, '__name__', type(__obj).__name__)!r} may not be called here")
        return super().call(__context, __obj, *args, **kwargs)

    def may_be_called(self, value: Any) -> bool:
        """Macros, the functions given, and listed methods; an undefined value, which says by itself that it is none."""
        if isinstance(value, Macro | Undefined) or any(value is function for function in self.globals.values()):
            return True
        owner, name = getattr(value, "__self__", None), getattr(value, "__name__", "")
        return (isinstance(owner, str | dict) and name in _METHODS) or (
            isinstance(owner, LoopContext) and name in ("cycle", "changed")
        )

    def compiled(self, tree: nodes.Template) -> Template:
        """The template of that syntax tree, bounded; TemplateAssertionError names what is refused in it."""
        for node in tree.find_all(_REFUSED):
            raise TemplateAssertionError(f"{type(node).__name__.lower()} is not allowed in a template", node.lineno)
        bound = _Bounding().visit(tree)
        bound.set_environment(self)
        return self.from_string(bound)


def accounted(names: Mapping[str, Any]) -> dict[str, Any]:
    """What a rendering is given: the names, and what it may do."""
    return {**names, _WORK: _Work()}


def bound_expression(node: nodes.Expr) -> nodes.Expr:
    """The expression, changed so that neither its value nor what it is made of can grow beyond bounds. Only once."""
    return _filtered(_Bounding().visit(node), _BOUNDED)


class _Bounding(NodeTransformer):
    """Puts the hidden filters around what may grow and in front of what may go on."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        parts = nodes.Tuple([self.visit(part) for part in node.nodes], "load", lineno=node.lineno)
        return _filtered(parts, _JOINED)

    def visit_List(self, node: nodes.List | nodes.Dict) -> nodes.Node:
        return _filtered(self.generic_visit(node), _BOUNDED)

    visit_Dict = visit_List

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(node, _BOUNDED) if node.ctx == "load" else node

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.visit_Macro(node)
        node.iter = _filtered(node.iter, _WALKED)
        return node

    def visit_Macro(self, node: nodes.Macro | nodes.CallBlock | nodes.For) -> nodes.Node:
        paid = _filtered(nodes.Const(_weight(node), lineno=node.lineno), _CHARGED)
        self.generic_visit(node)
        node.body = [nodes.ExprStmt(paid, lineno=node.lineno), *node.body]
        return node

    visit_CallBlock = visit_Macro


def _filtered(node: Any, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def _weight(node: nodes.Node) -> int:
    return 1 + sum(1 + len(getattr(child, "data", "")) for child in node.find_all(nodes.Node))
