"""What planning may look at: dtypes, shapes and attributes, never values. `getKernel` in a page has a Request and no
Case.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kernel_lab.operators import dtypes
from kernel_lab.operators.dtypes import Array

Attribute = int | float | str | list[Any] | None


@dataclass(frozen=True, slots=True)
class Opset:
    """A version of an operator set: `domain` as in the operator's id ("ai.onnx", "com.microsoft")."""

    domain: str
    version: int

    def __str__(self) -> str:
        return f"{self.domain} opset {self.version}"


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One call of an operator, without values.

    `dtypes` and `shapes` are keyed by input role; an absent optional input is absent from both. `attrs` holds only what
    was given. `opset` None means the operator's newest. `key` identifies it: equal requests have equal keys.
    """

    operator: str
    dtypes: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]
    attrs: Mapping[str, Attribute]
    opset: Opset | None = None
    key: str = field(init=False)

    def __post_init__(self) -> None:
        # repr tells [1] from (1,), True from 1 and "1" from 1, whatever someone passes as an attribute
        parts = [sorted(part.items()) for part in (self.dtypes, self.shapes, self.attrs)]
        object.__setattr__(self, "key", repr([self.operator, *parts, self.opset]))


def request_of(
    operator: str, inputs: Mapping[str, Array], attrs: Mapping[str, Attribute], opset: Opset | None = None
) -> Request:
    """The request that these arrays make."""
    return Request(
        operator=operator,
        dtypes=MappingProxyType({role: dtypes.of_array(array).name for role, array in inputs.items()}),
        shapes=MappingProxyType({role: array.shape for role, array in inputs.items()}),
        attrs=MappingProxyType(dict(attrs)),
        opset=opset,
    )
