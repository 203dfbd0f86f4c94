"""What a template finds in `env.wgsl.resourceDeclarations`: structs and variables of a pass's bindings, in order.

In: bindings. Out: WGSL text. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kernel_lab.operators.manifest import Binding, Struct
from kernel_lab.planning import expressions

_WORDS_PER_ROW = 4


def resource_declarations(bindings: Sequence[Binding], values: Mapping[str, Any]) -> str:
    """`struct Params {…}` for each uniform, then `@group(0) @binding(i) var<…> name: type;` for each binding."""
    structs = [_struct(binding.struct) for binding in bindings if binding.struct is not None]
    variables = [_variable(index, binding, values) for index, binding in enumerate(bindings)]
    return "\n".join([*structs, *variables])


def padded_fields(struct: Struct) -> list[str]:
    """The names of a uniform's 4-byte fields, with the padding that makes it a whole number of 16-byte rows."""
    names = [item.name for item in struct.fields]
    return names + [f"_pad{index}" for index in range(-len(names) % _WORDS_PER_ROW)]


def _struct(struct: Struct) -> str:
    types = {item.name: item.type for item in struct.fields}
    lines = [f"  {name}: {types.get(name, 'u32')}," for name in padded_fields(struct)]
    return "\n".join([f"struct {struct.name} {{", *lines, "}"])


def _variable(index: int, binding: Binding, values: Mapping[str, Any]) -> str:
    place = f"@group(0) @binding({index})"
    if binding.buffer.type == "uniform":
        kind = binding.struct.name if binding.struct else binding.elementType
        return f"{place} var<uniform> {binding.name}: {kind};"
    access = "read" if binding.buffer.type == "read-only-storage" else "read_write"
    element = _looked_up(binding.elementType, values)
    length = f", {_looked_up(binding.length, values)}" if binding.length is not None else ""
    return f"{place} var<storage, {access}> {binding.name}: array<{element}{length}>;"


def _looked_up(text: Any, values: Mapping[str, Any]) -> Any:
    """`$name` is a constant or a type variable's WGSL scalar; anything else stands for itself."""
    if not (isinstance(text, str) and text.startswith("$")):
        return text
    name = text[1:]
    for group in ("constants", "dtypes"):
        if name in values.get(group, ()):
            return values[group][name]
    return expressions.evaluate(name, values)
