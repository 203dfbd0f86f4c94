"""The first check of a request: which inputs, dtypes and attributes this version of the operator has at all.

In: a manifest and a request. Out: what both agree on, or one sentence. Shapes and values are checked elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernel_lab.operators import dtypes
from kernel_lab.operators.manifest import Manifest, OpsetRow
from kernel_lab.operators.requests import Opset, Request


@dataclass(frozen=True, slots=True)
class Agreed:
    """`variables`: type variable to ONNX dtype. `wgsl`: type variable to WGSL scalar."""

    opset: Opset
    variables: Mapping[str, str]
    wgsl: Mapping[str, str]


def check(manifest: Manifest, request: Request) -> Agreed | str:
    """The opset's row that applies and the dtype of each type variable; or the sentence that refuses the request."""
    row = _row(manifest, request.opset)
    if isinstance(row, str):
        return row
    return _names(manifest, request) or _attributes(manifest, request, row) or _variables(manifest, request, row)


def _row(manifest: Manifest, asked: Opset | None) -> OpsetRow | str:
    rows = manifest.lab.opsets or [
        OpsetRow(
            domain=manifest.domain,
            version=manifest.sinceVersion,
            attributes=list(manifest.attributes),
            types=manifest.typeConstraints,
        )
    ]
    if asked is None:
        return max((row for row in rows if row.domain == rows[0].domain), key=lambda row: row.version)
    fitting = [row for row in rows if row.domain == asked.domain and row.version <= asked.version]
    if fitting:
        return max(fitting, key=lambda row: row.version)
    first: dict[str, int] = {}
    for row in rows:
        first[row.domain] = min(row.version, first.get(row.domain, row.version))
    allowed = " or ".join(f"{domain} opset {version} and newer" for domain, version in first.items())
    return f"opset: got {asked}, but {manifest.name} exists in {allowed}."


def _names(manifest: Manifest, request: Request) -> str | None:
    known = [item.role for item in manifest.inputs]
    for role in request.dtypes:
        if role not in known:
            return f"{role}: {manifest.name} has no such input (it has {', '.join(known)})."
    for item in manifest.inputs:
        if not item.optional and item.role not in request.dtypes:
            return f"{item.role}: missing, but {manifest.name} needs it."
    return None


_KINDS = {"int": "an integer", "ints": "a list of integers", "float": "a number", "string": "a string"}


def _attributes(manifest: Manifest, request: Request, row: OpsetRow) -> str | None:
    here = f"{row.domain} opset {row.version}"
    for name, value in request.attrs.items():
        if name not in row.attributes:
            allowed = ", ".join(row.attributes) or "none"
            return f"{name}: {manifest.name} of {here} has no such attribute (it has {allowed})."
        kind = manifest.lab.attributeTypes.get(name)
        if kind and not _is(value, kind):  # None as well: an attribute that is not given is left out
            return f"{name}: got {value!r:.80}, but the attribute must be {_KINDS[kind]}."
    return None


def _is(value: Any, kind: str) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    match kind:
        case "int":
            return whole
        case "ints":
            return isinstance(value, list) and all(_is(item, "int") for item in value)
        case "float":
            return whole or isinstance(value, float)
        case _:
            return isinstance(value, str)


def _variables(manifest: Manifest, request: Request, row: OpsetRow) -> Agreed | str:
    variables: dict[str, str] = {}
    first: dict[str, str] = {}
    for item in manifest.inputs:
        dtype = request.dtypes.get(item.role)
        if dtype is None:
            continue
        allowed = row.types.get(item.dtype) or manifest.typeConstraints.get(item.dtype) or [item.dtype]
        if dtype not in allowed:
            where = f"{row.domain} opset {row.version}"
            return f"{item.role}: got dtype {dtype}, but {where} allows {', '.join(allowed)}."
        if variables.setdefault(item.dtype, dtype) != dtype and item.dtype in manifest.typeConstraints:
            other = first[item.dtype]
            return f"{item.role}: got dtype {dtype}, but it must be that of {other}, {variables[item.dtype]}."
        first.setdefault(item.dtype, item.role)
    for name, allowed in manifest.typeConstraints.items():
        if len(allowed) == 1:
            variables.setdefault(name, allowed[0])
    wgsl = {name: dtypes.named(dtype).wgsl for name, dtype in variables.items() if dtype in dtypes.DTYPES}
    return Agreed(Opset(row.domain, row.version), variables, wgsl)
