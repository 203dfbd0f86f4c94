"""Step 3: a request becomes a Scope, the names that expressions may read, or is refused with one sentence.

In: an operator and a request. Out: `Scope | Refused`. Pure; memoised per operator and request.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernel_lab.operators import dtypes
from kernel_lab.operators.manifest import Check, Expr
from kernel_lab.operators.operator import Operator
from kernel_lab.operators.requests import Opset, Request
from kernel_lab.planning import expressions, schema
from kernel_lab.planning.expressions import Unmet


class Names:
    """Named values for expressions: `shapes.x`. Unlike a dict it has no methods that a name could clash with."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __str__(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self._values.items())


@dataclass(frozen=True, slots=True)
class TensorType:
    """An output's dtype and shape, as inferred."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """No valid call of the operator. `sentence` names the operand, what was given and what is allowed."""

    sentence: str


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """A valid request and everything derived from it. `values`: the names expressions may read; `outputs`: inferred
    types.
    """

    operator: Operator
    request: Request
    opset: Opset
    values: Mapping[str, Any]
    outputs: Mapping[str, TensorType]
    _memo: dict[str, Any] = field(default_factory=dict, repr=False)

    def __call__(self, expression: Expr) -> Any:
        """The expression's value; evaluated once per request."""
        if not isinstance(expression, str):
            return expressions.normalised(expression)
        if expression not in self._memo:
            self._memo[expression] = expressions.evaluate(expression, self.values)
        return self._memo[expression]

    def tensor(self, role: str) -> TensorType | None:
        """Dtype and shape of an input or output; None for an absent input."""
        if role in self.outputs:
            return self.outputs[role]
        if role in self.request.dtypes:
            return TensorType(self.request.dtypes[role], self.request.shapes[role])
        return None


_scopes: dict[tuple[Operator, str], Scope | Refused] = {}
_MEMO_LIMIT = 20_000


def scope_of(operator: Operator, request: Request) -> Scope | Refused:
    """Checks the request in order (names and dtypes, structure, geometry) and derives what expressions may read."""
    key = (operator, request.key)
    if key not in _scopes:
        if len(_scopes) >= _MEMO_LIMIT:
            _scopes.clear()
        _scopes[key] = _scope(operator, request)
    return _scopes[key]


def forget() -> None:
    """Empties the memo, for those who measure what planning costs."""
    _scopes.clear()


def _scope(operator: Operator, request: Request) -> Scope | Refused:
    manifest = operator.manifest
    agreed = schema.check(manifest, request)
    if isinstance(agreed, str):
        return Refused(agreed)
    values: dict[str, Any] = {
        "attrs": Names({**manifest.attributes, **request.attrs}),
        "shapes": Names({role: list(shape) for role, shape in request.shapes.items()}),
        "ranks": Names({role: len(shape) for role, shape in request.shapes.items()}),
        "tensorDtypes": Names(request.dtypes),
        "dtypes": Names(agreed.wgsl),
        "present": Names({item.role: item.role in request.dtypes for item in manifest.inputs}),
        "opset": Names({"domain": agreed.opset.domain, "version": agreed.opset.version}),
        "tunables": Names({n: v["default"] if isinstance(v, dict) else v for n, v in manifest.tunables.items()}),
        "op": operator.id,
    }
    try:
        checks = manifest.lab.checks
        refusal = _refusal(checks.structure, values)
        if refusal is None:
            values.update(expressions.sequence(tuple(manifest.derive.items()))(values))
            refusal = _refusal(checks.geometry, values)
        if refusal is not None:
            return Refused(refusal)
        outputs = {}
        for output in manifest.outputs:
            stated = manifest.lab.outputDtypes.get(output.role)
            dtype = (
                expressions.evaluate(stated, values)
                if stated is not None
                else agreed.variables.get(output.dtype, output.dtype)
            )
            shape = output.shape
            dims = (
                [expressions.evaluate(d, values) for d in shape]
                if isinstance(shape, list)
                else expressions.evaluate(shape, values)
            )
            outputs[output.role] = TensorType(dtypes.named(dtype).name, tuple(dims))
        values["outputShapes"] = Names({role: list(t.shape) for role, t in outputs.items()})
        values["outputDtypes"] = Names({role: t.dtype for role, t in outputs.items()})
        constants = {name: expressions.evaluate(value, values) for name, value in manifest.constants.items()}
    except Unmet as error:
        return Refused(f"{operator.id}/manifest.json does not foresee this request: {error}")
    values["constants"] = Names(constants)
    return Scope(operator, request, agreed.opset, values, outputs)


def _refusal(checks: list[Check], values: Mapping[str, Any]) -> str | None:
    if not checks:
        return None
    conditions = tuple(str(check.require) for check in checks)
    index = expressions.first_false(conditions)(values)
    return None if index < 0 else expressions.sentence(checks[index].sentence, values)
